//! `inputs.csv`.

use super::{Column, Table, column};
use crate::{
    model::analysis::{Analysis, Input},
    report::value::Value,
};

/// The inputs and what was in them.
#[derive(Clone, Copy, Debug)]
pub struct Inputs;

impl Table for Inputs {
    type Row<'a> = &'a Input;
    const NAME: &'static str = "inputs";
    const ABOUT: &'static str = "A row for each input: what was in it, and what of it could not \
                                 be read.";
    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "input",
            File,
            "Its name; `-` for standard input.",
            |_, r| { Value::File(&r.name) },
            always = true
        ),
        column!(
            "format",
            Word,
            "`pcap`, `pcapng` or `har`, with `+gz`, `+zst` or `+zlib` when compressed; empty when \
             it could not be read.",
            |_, r| (!r.format.is_empty())
                .then_some(Value::Word(&r.format))
                .into()
        ),
        column!(
            "link_types",
            List,
            "The link types of its interfaces.",
            |_, r| { Value::Names(&r.link_types) },
            always = true
        ),
        column!(
            "packets",
            Number,
            "Packets, or HAR entries.",
            |_, r| r.packets.into(),
            unit = "packets",
            always = true
        ),
        column!(
            "bytes",
            Number,
            "Bytes of packet data captured, or of HAR text.",
            |_, r| r.bytes.into(),
            unit = "bytes",
            always = true
        ),
        column!("first_time", Time, "Its first packet or entry.", |_, r| {
            r.first_time.into()
        }),
        column!("last_time", Time, "Its last packet or entry.", |_, r| {
            r.last_time.into()
        }),
        column!(
            "tcp_connections",
            Number,
            "TCP connections.",
            |_, r| { r.tcp_connections.into() },
            unit = "connections",
            always = true
        ),
        column!(
            "http_exchanges",
            Number,
            "HTTP exchanges.",
            |_, r| { r.http_exchanges.into() },
            unit = "exchanges",
            always = true
        ),
        column!(
            "sse_events",
            Number,
            "Events of event streams.",
            |_, r| { r.sse_events.into() },
            unit = "events",
            always = true
        ),
        column!(
            "sessions",
            Number,
            "Sessions under judgement; one that spans inputs counts in each.",
            |_, r| { r.sessions.into() },
            unit = "sessions",
            always = true
        ),
        column!(
            "resumes",
            Number,
            "Resumes.",
            |_, r| r.resumes.into(),
            unit = "resumes",
            always = true
        ),
        column!(
            "sessionless",
            Number,
            "MCP exchanges without a session.",
            |_, r| r.sessionless.into(),
            unit = "exchanges",
            always = true
        ),
        column!(
            "legacy_sessions",
            Number,
            "Sessions of the 2024-11-05 transport, which are not judged.",
            |_, r| r.legacy_sessions.into(),
            unit = "sessions",
            always = true
        ),
        column!(
            "refused_ids",
            Number,
            "Session ids that were only ever refused.",
            |_, r| r.refused_ids.into(),
            unit = "ids",
            always = true
        ),
        column!(
            "tls_opaque",
            Number,
            "TLS connections that could not be read.",
            |_, r| r.tls_opaque.into(),
            unit = "connections",
            always = true
        ),
        column!(
            "holes",
            Number,
            "Places where bytes of a TCP stream are missing.",
            |_, r| r.holes.into(),
            unit = "holes",
            always = true
        ),
        column!(
            "hole_bytes",
            Number,
            "Bytes missing there.",
            |_, r| { r.hole_bytes.into() },
            unit = "bytes",
            always = true
        ),
        column!(
            "truncated_packets",
            Number,
            "Packets cut by the snapshot length.",
            |_, r| r.truncated_packets.into(),
            unit = "packets",
            always = true
        ),
        column!(
            "damaged",
            Text(Prose),
            "What is damaged, with the offset, or why it could not be read; empty when all is well.",
            |_, r| {
                let why = r.unreadable.as_deref();
                Value::Text(why.unwrap_or(&r.damaged))
            }
        ),
    ];

    fn rows(analysis: &Analysis) -> impl Iterator<Item = Self::Row<'_>> {
        analysis.inputs.iter()
    }
}
