//! `servers.csv`.

use super::{Column, Table, column};
use crate::{
    model::{
        analysis::{Analysis, ServerRow, Threshold},
        verdict::Verdict,
    },
    report::value::Value,
};

/// Servers over the whole run.
#[derive(Clone, Copy, Debug)]
pub struct Servers;

macro_rules! verdict {
    ($name:literal, $verdict:ident) => {
        column!(
            $name,
            Number,
            "Of those, with this verdict.",
            |_, r| r.verdicts.get(Verdict::$verdict.index()).copied().into(),
            unit = "resumes"
        )
    };
}

impl Table for Servers {
    type Row<'a> = &'a ServerRow;
    const NAME: &'static str = "servers";
    const ABOUT: &'static str = "A row for each server that sessions under judgement were with, as their clients see \
                                 it: behind a balancer that is the balancer.";
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
            "sessions",
            Number,
            "Sessions under judgement with an exchange with it.",
            |_, r| r.sessions.into(),
            unit = "sessions",
            always = true
        ),
        column!(
            "resumes",
            Number,
            "Resumes that asked it.",
            |_, r| { r.verdicts.iter().sum::<u32>().into() },
            unit = "resumes",
            always = true
        ),
        verdict!("continued", Continued),
        verdict!("empty", Empty),
        verdict!("replayed", Replayed),
        verdict!("lossy", Lossy),
        verdict!("ignored", Ignored),
        verdict!("forked", Forked),
        verdict!("rejected", Rejected),
        verdict!("failed", Failed),
        verdict!("indeterminate", Indeterminate),
        column!(
            "fork_share",
            Decimal,
            "The share of forks, from 0 to 1, among resumes that were decided: neither failed nor indeterminate.",
            |_, r| r.fork_share.map(|share| Value::Decimal(share.share)).into(),
            unit = "1"
        ),
        column!(
            "fork_share_low",
            Decimal,
            "Lower end of its 95 % Wilson interval.",
            |_, r| r.fork_share.map(|share| Value::Decimal(share.low)).into(),
            unit = "1"
        ),
        column!(
            "fork_share_high",
            Decimal,
            "Upper end of its 95 % Wilson interval.",
            |_, r| r.fork_share.map(|share| Value::Decimal(share.high)).into(),
            unit = "1"
        ),
        column!(
            "threshold_ms",
            Millis,
            "How long sessions live without a connection: the middle of the bracket. Empty where no gap splits \
             better than chance.",
            |_, r| r.threshold.as_ref().map(Threshold::middle).into()
        ),
        column!(
            "threshold_low_ms",
            Millis,
            "The longest gap after which a session went on, those on the wrong side aside.",
            |_, r| r.threshold.map(|threshold| threshold.low).into()
        ),
        column!(
            "threshold_high_ms",
            Millis,
            "The shortest gap after which a session was lost, those on the wrong side aside.",
            |_, r| r.threshold.map(|threshold| threshold.high).into()
        ),
        column!(
            "threshold_misfits",
            Number,
            "How many are on the wrong side.",
            |_, r| r.threshold.map(|threshold| threshold.misfits).into(),
            unit = "observations"
        ),
        column!(
            "gap_loss_correlation",
            Decimal,
            "Spearman's rank correlation of gap with events lost, from -1 to 1.",
            |_, r| r.gap_loss_correlation.map(Value::Decimal).into(),
            unit = "1"
        ),
    ];

    fn rows(analysis: &Analysis) -> impl Iterator<Item = Self::Row<'_>> {
        analysis.servers.iter()
    }
}
