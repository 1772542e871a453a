//! `findings.csv`.

use super::{Column, Table, column, filter, frame, input, words};
use crate::{
    model::analysis::{Analysis, Finding},
    report::value::Value,
};

/// Judgements.
#[derive(Clone, Copy, Debug)]
pub struct Findings;

impl Table for Findings {
    type Row<'a> = &'a Finding;
    const NAME: &'static str = "findings";
    const ABOUT: &'static str = "A row for each finding, in order of time; `forkscope explain CODE` says what it means. What \
         a row of resumes shows together, such as a reconnect storm, is one row.";
    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "code",
            Word,
            "Its code.",
            |_, r| Value::Word(r.code),
            words = words::codes,
            always = true
        ),
        column!(
            "severity",
            Word,
            "How bad it is here: `fork`, `loss`, `warning` or `info`.",
            |_, r| Value::Word(r.severity.name()),
            words = words::severities,
            always = true
        ),
        column!(
            "confidence",
            Word,
            "How sure it is: `high`, `medium` or `low`.",
            |_, r| Value::Word(r.confidence.name()),
            words = words::confidences,
            always = true
        ),
        column!(
            "evidence",
            Text(Nothing),
            "The kind of evidence, in a word or two.",
            |_, r| { Value::Text(r.evidence) },
            always = true
        ),
        column!(
            "session_id",
            Text(Session),
            "The session.",
            |_, r| { Value::Text(&r.session_id) },
            otel = ["mcp.session.id"],
            always = true
        ),
        column!(
            "incarnation",
            Number,
            "The life of the session id, from 1; empty where it has none.",
            |_, r| (r.incarnation != 0).then_some(r.incarnation).into()
        ),
        column!(
            "resume",
            Number,
            "The resume's number in the session, where it is on one.",
            |_, r| r.resume.into()
        ),
        column!("time", Time, "When.", |_, r| r.time.into(), always = true),
        column!(
            "detail",
            Text(Prose),
            "What was seen, in a line.",
            |_, r| { Value::Text(&r.detail) },
            always = true
        ),
        column!(
            "client",
            Endpoint,
            "The client.",
            |_, r| r.client.as_ref().into(),
            otel = ["client.address", "client.port"]
        ),
        column!(
            "server",
            Endpoint,
            "The server.",
            |_, r| r.server.as_ref().into(),
            otel = ["server.address", "server.port"]
        ),
        column!(
            "input",
            File,
            "The input that the evidence is in.",
            |analysis, r| { input(analysis, r.place) }
        ),
        column!("tcp_stream", Number, "Wireshark's `tcp.stream`.", |_, r| {
            r.place.tcp_stream.into()
        }),
        column!(
            "frame",
            Number,
            "Wireshark's `frame.number` to begin at: on a resume its request, else the request or the event itself; in a HAR the entry's number, from 1.",
            |_, r| frame(r.place)
        ),
        column!(
            "wireshark_filter",
            Text(Nothing),
            "A display filter that shows the conversation; empty for a HAR.",
            |analysis, r| filter(analysis, r.place)
        ),
    ];

    fn rows(analysis: &Analysis) -> impl Iterator<Item = Self::Row<'_>> {
        analysis.findings.iter()
    }
}
