//! `timers.csv`.

use super::{Column, Table, column, words};
use crate::{
    model::analysis::{Analysis, Timer},
    report::value::Value,
};

/// Sides that cut streams by a clock.
#[derive(Clone, Copy, Debug)]
pub struct Timers;

impl Table for Timers {
    type Row<'a> = &'a Timer;
    const NAME: &'static str = "timers";
    const ABOUT: &'static str = "A row for each timer: one side of a server cuts four fifths of its streams or \
                                 more at one age, or after one silence; see `cut-by-timer`. Where nothing tells \
                                 age from silence, both have a row.";
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
            "kind",
            Word,
            "`age` (request to cut) or `silence` (last event to cut).",
            |_, r| Value::Word(r.kind.name()),
            words = words::timer_kinds,
            always = true
        ),
        column!(
            "side",
            Word,
            "Who cuts: `server` (or what the capture does not tell from it), `proxy`, or `client` (clients of \
             one User-Agent, which the finding names).",
            |_, r| Value::Word(r.side.name()),
            words = words::sides,
            always = true
        ),
        column!(
            "period_ms",
            Millis,
            "The age or silence: the median of the cuts that agree.",
            |_, r| r.period.into(),
            always = true
        ),
        column!(
            "spread_ms",
            Millis,
            "From the shortest to the longest of the cuts that agree.",
            |_, r| r.spread.into(),
            always = true
        ),
        column!(
            "cuts",
            Number,
            "The cuts that agree.",
            |_, r| r.cuts.into(),
            unit = "cuts",
            always = true
        ),
        column!(
            "cuts_share",
            Decimal,
            "Their share of the cuts by this side, from 0 to 1.",
            |_, r| Value::Decimal(r.share()),
            unit = "1",
            always = true
        ),
    ];

    fn rows(analysis: &Analysis) -> impl Iterator<Item = Self::Row<'_>> {
        analysis.timers.iter()
    }
}
