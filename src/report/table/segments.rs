//! `segments.csv`.

use super::{Column, Table, column, frame, input, words};
use crate::{
    model::{
        analysis::{self, Analysis},
        exchange::Exchange,
    },
    report::value::Value,
};

/// What each connection carried of each stream.
#[derive(Clone, Copy, Debug)]
pub struct Segments;

/// A segment with the exchange that is it.
#[derive(Clone, Copy, Debug)]
pub struct SegmentRow<'a> {
    /// The segment.
    pub row: &'a analysis::SegmentRow,
    /// Its exchange.
    pub exchange: &'a Exchange,
}

impl<'a> SegmentRow<'a> {
    /// The row of `segment`; `None` when its exchange is not in the analysis.
    pub(crate) fn new(analysis: &'a Analysis, row: &'a analysis::SegmentRow) -> Option<Self> {
        let exchange = analysis.exchanges.get(row.exchange as usize)?;
        Some(Self { row, exchange })
    }
}

impl Table for Segments {
    type Row<'a> = SegmentRow<'a>;
    const NAME: &'static str = "segments";
    const ABOUT: &'static str = "A row for each segment: what one connection carried of an event \
                                 stream of a session, in order of opening. Streams of the \
                                 2024-11-05 transport are listed too, without an incarnation.";
    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "session_id",
            Text(Session),
            "The session id.",
            |_, r| { Value::Text(&r.row.session_id) },
            otel = ["mcp.session.id"],
            always = true
        ),
        column!(
            "incarnation",
            Number,
            "The life of the session id, from 1; empty for the 2024-11-05 transport.",
            |_, r| (r.row.incarnation != 0).then_some(r.row.incarnation).into()
        ),
        column!(
            "stream",
            Number,
            "The stream's number in the session, from 1.",
            |_, r| { r.row.stream.into() },
            always = true
        ),
        column!(
            "segment",
            Number,
            "The segment's number in the stream, from 1.",
            |_, r| { r.row.segment.into() },
            always = true
        ),
        column!(
            "client",
            Endpoint,
            "The client.",
            |_, r| { r.exchange.client.as_ref().into() },
            otel = ["client.address", "client.port"]
        ),
        column!(
            "server",
            Endpoint,
            "The server.",
            |_, r| { r.exchange.server.as_ref().into() },
            otel = ["server.address", "server.port"]
        ),
        column!(
            "backend",
            Text(Text),
            "The backend that served it, where one is named.",
            |_, r| {
                let response = r.exchange.response.as_ref();
                response
                    .and_then(|response| response.backend.as_deref())
                    .map(Value::Text)
                    .into()
            }
        ),
        column!(
            "method",
            Text(Word),
            "The HTTP method.",
            |_, r| {
                let request = r.exchange.request.as_ref();
                request.map(|request| Value::Text(&request.method)).into()
            },
            otel = ["http.request.method"]
        ),
        column!(
            "status",
            Number,
            "The HTTP status.",
            |_, r| {
                r.exchange
                    .response
                    .as_ref()
                    .map(|response| response.status)
                    .into()
            },
            otel = ["http.response.status_code"]
        ),
        column!(
            "last_event_id",
            Text(EventId),
            "The cursor asked with.",
            |_, r| { r.row.last_event_id.as_deref().map(Value::Text).into() },
            otel = ["http.request.header.last-event-id"]
        ),
        column!("open_time", Time, "When it was asked for.", |_, r| {
            r.exchange.time().into()
        }),
        column!(
            "first_event_time",
            Time,
            "When its first event came.",
            |_, r| { r.exchange.events.first().map(|event| event.time).into() }
        ),
        column!(
            "last_event_time",
            Time,
            "When its last event came.",
            |_, r| { r.exchange.events.last().map(|event| event.time).into() }
        ),
        column!("end_time", Time, "When it ended.", |_, r| r
            .row
            .end_time
            .into()),
        column!(
            "end_cause",
            Word,
            "What ended it: `stream-end`, `server-fin`, `client-fin`, `server-rst`, `client-rst`, \
             `goaway`, `stream-reset`, `silent`, `capture-end` or `unknown`.",
            |_, r| Value::Word(r.row.end_cause.name()),
            words = words::causes,
            always = true
        ),
        column!(
            "events",
            Number,
            "Its events.",
            |_, r| r.exchange.events.len().into(),
            unit = "events",
            always = true
        ),
        column!(
            "first_event_id",
            Text(EventId),
            "The id of its first event.",
            |_, r| {
                let first = r.exchange.events.first().and_then(|event| event.id);
                first.map(|id| Value::Text(r.exchange.text(id))).into()
            }
        ),
        column!(
            "last_id",
            Text(EventId),
            "The last id on it: where its cursor stands.",
            |_, r| {
                let last = r.exchange.events.iter().rev().find_map(|event| event.id);
                last.map(|id| Value::Text(r.exchange.text(id))).into()
            }
        ),
        column!(
            "bytes",
            Number,
            "Bytes of the body, as they were sent.",
            |_, r| {
                r.exchange
                    .response
                    .as_ref()
                    .map(|response| response.body_bytes)
                    .into()
            },
            unit = "bytes",
            otel = ["http.response.body.size"]
        ),
        column!(
            "partial_event_bytes",
            Number,
            "Bytes of an event that the end cut off.",
            |_, r| r.exchange.partial_event_bytes.into(),
            unit = "bytes",
            always = true
        ),
        column!(
            "holes",
            Number,
            "Places where bytes are missing from the capture.",
            |_, r| { r.exchange.holes.len().into() },
            unit = "holes",
            always = true
        ),
        column!(
            "input",
            File,
            "The input that it begins in.",
            |analysis, r| { input(analysis, r.exchange.place) }
        ),
        column!("tcp_stream", Number, "Wireshark's `tcp.stream`.", |_, r| {
            r.exchange.place.tcp_stream.into()
        }),
        column!(
            "frame",
            Number,
            "Wireshark's `frame.number` of the request; in a HAR the entry's number, from 1.",
            |_, r| frame(r.exchange.place)
        ),
        column!("end_frame", Number, "The frame that ended it.", |_, r| {
            frame(r.row.end_place)
        }),
    ];

    fn rows(analysis: &Analysis) -> impl Iterator<Item = Self::Row<'_>> {
        let segments = analysis.segments.iter();
        segments.filter_map(move |row| SegmentRow::new(analysis, row))
    }
}
