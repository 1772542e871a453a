//! `incidents.csv`.

use super::{Column, Table, column, words};
use crate::{
    model::{
        analysis::{Analysis, Incident},
        verdict::Verdict,
    },
    report::value::Value,
};

/// Cuts of several sessions of a server in one moment.
#[derive(Clone, Copy, Debug)]
pub struct Incidents;

/// An incident with its number.
#[derive(Clone, Copy, Debug)]
pub struct IncidentRow<'a> {
    /// From 1.
    pub number: usize,
    /// The incident.
    pub row: &'a Incident,
}

macro_rules! verdict {
    ($name:literal, $verdict:ident) => {
        column!(
            $name,
            Number,
            "Of those, with this verdict.",
            |_, r| r
                .row
                .verdicts
                .get(Verdict::$verdict.index())
                .copied()
                .into(),
            unit = "resumes"
        )
    };
}

impl Table for Incidents {
    type Row<'a> = IncidentRow<'a>;
    const NAME: &'static str = "incidents";
    const ABOUT: &'static str = "A row for each incident: cuts of two or more sessions of one server, neighbours no \
                                 more than `--window` apart, in order of time. A clean end whose stream goes on is \
                                 none.";
    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "incident",
            Number,
            "Its number, from 1.",
            |_, r| r.number.into(),
            always = true
        ),
        column!(
            "server",
            Endpoint,
            "The server.",
            |_, r| (&r.row.server).into(),
            otel = ["server.address", "server.port"],
            always = true
        ),
        column!(
            "start_time",
            Time,
            "The first cut.",
            |_, r| r.row.start.into(),
            always = true
        ),
        column!(
            "end_time",
            Time,
            "The last cut.",
            |_, r| r.row.end.into(),
            always = true
        ),
        column!(
            "cause",
            Word,
            "What ended most of the segments, as `end_cause` in segments.csv; of equals, what ended the first.",
            |_, r| Value::Word(r.row.cause.name()),
            words = words::causes,
            always = true
        ),
        column!(
            "segments_cut",
            Number,
            "Segments that were cut.",
            |_, r| { r.row.segments_cut.into() },
            unit = "segments",
            always = true
        ),
        column!(
            "sessions",
            Number,
            "Sessions that they belong to.",
            |_, r| { r.row.sessions.into() },
            unit = "sessions",
            always = true
        ),
        column!(
            "resumes",
            Number,
            "Resumes that followed these cuts.",
            |_, r| { r.row.verdicts.iter().sum::<u32>().into() },
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
            "lost_requests",
            Number,
            "Requests pending at these cuts that were never answered though the client stayed.",
            |_, r| r.row.lost_requests.into(),
            unit = "requests",
            always = true
        ),
    ];

    fn rows(analysis: &Analysis) -> impl Iterator<Item = Self::Row<'_>> {
        (1..)
            .zip(&analysis.incidents)
            .map(|(number, row)| IncidentRow { number, row })
    }
}
