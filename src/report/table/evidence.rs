//! `index.csv` of a folder of evidence.

use super::{Column, Table, column, frame, input, words};
use crate::{
    model::{
        analysis::{Analysis, Exhibit, Finding},
        place::Place,
    },
    report::value::Value,
};

/// What is in the files of evidence.
#[derive(Clone, Copy, Debug)]
pub struct Evidence;

fn of<'a>(analysis: &'a Analysis, row: &Exhibit) -> Option<&'a Finding> {
    analysis.findings.get(row.finding as usize)
}

impl Table for Evidence {
    type Row<'a> = &'a Exhibit;
    const NAME: &'static str = "evidence";
    const ABOUT: &'static str = "A row for each packet or HAR entry that a finding rests on, by the number of the file and \
         in order of time; one without a file for each finding that has none.";
    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "number",
            Number,
            "The number in the file's name: the worst finding is 1, the earlier one first among equals.",
            |_, r| r.number.into(),
            always = true
        ),
        column!(
            "code",
            Word,
            "The finding's code.",
            |analysis, r| of(analysis, r).map(|f| Value::Word(f.code)).into(),
            words = words::codes,
            always = true
        ),
        column!(
            "severity",
            Word,
            "How bad it is: `fork`, `loss`, `warning` or `info`.",
            |analysis, r| of(analysis, r)
                .map(|f| Value::Word(f.severity.name()))
                .into(),
            words = words::severities,
            always = true
        ),
        column!(
            "session_id",
            Text(Session),
            "The session; nothing where the finding is on none.",
            |analysis, r| of(analysis, r).map(|f| Value::Text(&f.session_id)).into(),
            otel = ["mcp.session.id"],
            always = true
        ),
        column!(
            "resume",
            Number,
            "The resume's number in the session, where the finding is on one.",
            |analysis, r| of(analysis, r).and_then(|f| f.resume).into()
        ),
        column!(
            "file",
            Word,
            "The file of evidence in this folder.",
            |_, r| r.file.as_deref().map(Value::Word).into()
        ),
        column!(
            "mark",
            Word,
            "What the packet is for the finding: where the `finding` is; the delivery of the `cursor`; the `disconnect`; \
             the `resume`, or the `request` of a finding on none; the `response`; the `first-event` of it; an `earlier` \
             delivery of an id that it brings; the `end` of the exchange.",
            |_, r| Value::Word(r.mark),
            words = words::marks,
            always = true
        ),
        column!(
            "note",
            Text(Prose),
            "What is said of it; it stands as a comment at the packet.",
            |_, r| Value::Text(&r.note),
            always = true
        ),
        column!(
            "input",
            File,
            "The input that it is from.",
            |analysis, r| {
                if r.place == Place::default() && r.file.is_none() {
                    Value::Unknown
                } else {
                    input(analysis, r.place)
                }
            }
        ),
        column!(
            "tcp_stream",
            Number,
            "Wireshark's `tcp.stream` in the input.",
            |_, r| r.place.tcp_stream.into()
        ),
        column!(
            "frame",
            Number,
            "Wireshark's `frame.number` in the input, or the entry's number in a HAR, from 1.",
            |_, r| frame(r.place)
        ),
        column!(
            "file_tcp_stream",
            Number,
            "Wireshark's `tcp.stream` in the file.",
            |_, r| r.new_tcp_stream.into()
        ),
        column!(
            "file_frame",
            Number,
            "Wireshark's `frame.number` in the file, or the entry's number; empty when it was left out.",
            |_, r| r.new_frame.into()
        ),
        column!(
            "wireshark_filter",
            Text(Nothing),
            "A display filter that shows the conversation in the file; empty for a HAR.",
            |_, r| match r.new_tcp_stream {
                None => Value::Unknown,
                tcp_stream => Value::Filter(Place {
                    tcp_stream,
                    ..Place::default()
                }),
            }
        ),
    ];

    fn rows(analysis: &Analysis) -> impl Iterator<Item = Self::Row<'_>> {
        analysis.evidence.iter()
    }
}
