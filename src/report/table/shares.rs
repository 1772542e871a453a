//! `shares.csv`.

use super::{Column, Table, column, words};
use crate::{
    model::analysis::{Analysis, Share, ShareBy},
    report::value::Value,
};

/// How often resumes fork, by what they have in common.
#[derive(Clone, Copy, Debug)]
pub struct Shares;

impl Table for Shares {
    type Row<'a> = &'a Share;
    const NAME: &'static str = "shares";
    const ABOUT: &'static str = "How many resumes of each server forked: a row a cause of the cut, a row a backend \
                                 that answered, a row a quarter of the gaps. Resumes that failed or could not be \
                                 decided are not counted.";
    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "server",
            Endpoint,
            "The server.",
            |_, r| (&r.server).into(),
            otel = ["server.address", "server.port"],
            always = true
        ),
        column!(
            "by",
            Word,
            "What the resumes have in common: `cause`, `backend` or `gap`.",
            |_, r| Value::Word(r.by.name()),
            words = words::groupings,
            always = true
        ),
        column!(
            "value",
            Text(Text),
            "The cause (`disconnect_cause` in resumes.csv), the backend that answered, or the shortest and the \
             longest gap in milliseconds (`12.000 to 950.250`).",
            |_, r| match &r.by {
                ShareBy::Cause(cause) => Value::Text(cause.name()),
                ShareBy::Backend(backend) => Value::Text(backend),
                ShareBy::Gap(from, to) => Value::Spans(*from, *to),
            },
            always = true
        ),
        column!(
            "resumes",
            Number,
            "How many there are.",
            |_, r| r.resumes.into(),
            unit = "resumes",
            always = true
        ),
        column!(
            "forked",
            Number,
            "How many of them forked.",
            |_, r| r.forked.into(),
            unit = "resumes",
            always = true
        ),
        column!(
            "share",
            Decimal,
            "Their share, from 0 to 1.",
            |_, r| { Value::Decimal(r.proportion.share) },
            unit = "1",
            always = true
        ),
        column!(
            "share_low",
            Decimal,
            "Lower end of the share's 95 % Wilson interval.",
            |_, r| Value::Decimal(r.proportion.low),
            unit = "1",
            always = true
        ),
        column!(
            "share_high",
            Decimal,
            "Upper end of the share's 95 % Wilson interval.",
            |_, r| Value::Decimal(r.proportion.high),
            unit = "1",
            always = true
        ),
    ];

    fn rows(analysis: &Analysis) -> impl Iterator<Item = Self::Row<'_>> {
        analysis.shares.iter()
    }
}
