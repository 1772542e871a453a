//! `events.csv` and the rows of the `events` command.

use super::{Column, ExchangeRow, Table, column, frame, input, words};
use crate::{
    model::{
        analysis::{self, Analysis},
        event::{Event, Text},
        exchange::Exchange,
        message::PayloadHash,
        place::Place,
        time::Span,
    },
    report::value::Value,
};

/// Server-sent events.
#[derive(Clone, Copy, Debug)]
pub struct Events;

/// An event, with the exchange and the segment that carried it.
#[derive(Clone, Copy, Debug)]
pub struct EventRow<'a> {
    /// The index of the exchange.
    pub exchange_index: usize,
    /// The exchange.
    pub exchange: &'a Exchange,
    /// The segment, when it belongs to a session.
    pub segment: Option<&'a analysis::SegmentRow>,
    /// The id of the session.
    pub session_id: Option<&'a str>,
    /// The event's index in the exchange.
    pub index: usize,
    /// The event.
    pub row: Event,
    /// The last id up to and with the event (WHATWG: the last event ID buffer).
    pub effective: Option<Text>,
}

impl<'a> EventRow<'a> {
    fn text(self, text: Option<Text>) -> Value<'a> {
        text.map(|text| Value::Text(self.exchange.text(text)))
            .into()
    }

    fn place(self) -> Place {
        self.exchange.event_place(&self.row)
    }
}

impl Table for Events {
    type Row<'a> = EventRow<'a>;
    const NAME: &'static str = "events";
    const ABOUT: &'static str = "A row for each event of each event stream, by exchange and in \
                                 order of arrival. A block with any field is an event, also \
                                 without data; comments are none.";
    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "session_id",
            Text(Session),
            "The session, where it belongs to one.",
            |_, r| { r.session_id.map(Value::Text).into() },
            otel = ["mcp.session.id"]
        ),
        column!(
            "incarnation",
            Number,
            "The life of the session id, from 1.",
            |_, r| {
                let incarnation = r.segment.map(|segment| segment.incarnation);
                incarnation.filter(|&number| number != 0).into()
            }
        ),
        column!(
            "stream",
            Number,
            "The stream's number in the session, from 1.",
            |_, r| { r.segment.map(|segment| segment.stream).into() }
        ),
        column!(
            "segment",
            Number,
            "The segment's number in the stream, from 1.",
            |_, r| { r.segment.map(|segment| segment.segment).into() }
        ),
        column!(
            "exchange",
            Number,
            "The exchange's number in the run, from 1.",
            |_, r| { r.exchange_index.saturating_add(1).into() },
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
            "method",
            Text(Word),
            "The HTTP method that opened the stream.",
            |_, r| {
                let request = r.exchange.request.as_ref();
                request.map(|request| Value::Text(&request.method)).into()
            },
            otel = ["http.request.method"]
        ),
        column!(
            "request_time",
            Time,
            "When the stream was asked for.",
            |_, r| {
                r.exchange
                    .request
                    .as_ref()
                    .map(|request| request.time)
                    .into()
            }
        ),
        column!(
            "last_event_id",
            Text(EventId),
            "The cursor asked with.",
            |_, r| {
                let request = r.exchange.request.as_ref();
                request
                    .and_then(|request| request.last_event_id.as_deref())
                    .map(Value::Text)
                    .into()
            },
            otel = ["http.request.header.last-event-id"]
        ),
        column!(
            "index",
            Number,
            "The event's number in the response, from 1.",
            |_, r| { r.index.saturating_add(1).into() },
            always = true
        ),
        column!(
            "time",
            Time,
            "When its last byte came.",
            |_, r| r.row.time.into(),
            always = true
        ),
        column!(
            "event_id",
            Text(EventId),
            "Its own id field; empty without one.",
            |_, r| { r.text(r.row.id) }
        ),
        column!(
            "effective_id",
            Text(EventId),
            "The last id of the response so far: where a client's cursor stands after it.",
            |_, r| r.text(r.effective)
        ),
        column!("event_type", Text(Word), "Its event field.", |_, r| r
            .text(r.row.event_type)),
        column!("retry_ms", Millis, "Its retry field.", |_, r| {
            r.row
                .retry
                .map(|retry| Span::from_millis(i64::from(retry)))
                .into()
        }),
        column!(
            "data_bytes",
            Number,
            "Bytes of its data.",
            |_, r| { r.row.data_bytes.into() },
            unit = "bytes",
            always = true
        ),
        column!(
            "data_hash",
            Hash,
            "128-bit hash of its data (XXH3): equal for equal payloads; empty without data.",
            |_, r| {
                if r.row.hash == PayloadHash::default() {
                    Value::Unknown
                } else {
                    Value::Hash(r.row.hash)
                }
            }
        ),
        column!(
            "message",
            Word,
            "What its data is: `request`, `response`, `error`, `notification`, `ping`, `none`, or \
             `redacted` where a sanitizer removed it.",
            |_, r| Value::Word(r.row.message.name()),
            words = words::messages,
            always = true
        ),
        column!(
            "jsonrpc_id",
            Text(RpcId),
            "The JSON-RPC id as JSON text.",
            |_, r| { r.text(r.row.rpc_id) },
            otel = ["jsonrpc.request.id"]
        ),
        column!(
            "jsonrpc_method",
            Text(Word),
            "The JSON-RPC method.",
            |_, r| { r.text(r.row.method) },
            otel = ["mcp.method.name"]
        ),
        column!(
            "progress_token",
            Text(RpcId),
            "The progress token of a progress notification as JSON text.",
            |_, r| r.text(r.row.progress_token)
        ),
        column!(
            "input",
            File,
            "The input of its last byte.",
            |analysis, r| { input(analysis, r.place()) }
        ),
        column!("tcp_stream", Number, "Wireshark's `tcp.stream`.", |_, r| {
            r.place().tcp_stream.into()
        }),
        column!(
            "frame",
            Number,
            "Wireshark's `frame.number` of its last byte; in a HAR the entry's number, from 1.",
            |_, r| frame(r.place())
        ),
    ];

    fn rows(analysis: &Analysis) -> impl Iterator<Item = Self::Row<'_>> {
        let exchanges = analysis.exchanges.iter().enumerate();
        exchanges.flat_map(move |(exchange_index, exchange)| {
            let place = analysis.session_of.get(exchange_index).copied().flatten();
            let segment = place
                .and_then(|place| place.segment)
                .and_then(|segment| analysis.segments.get(segment as usize));
            let session_id = ExchangeRow {
                index: exchange_index,
                row: exchange,
            }
            .session_id(analysis);
            let mut effective = None;
            let events = exchange.events.iter().enumerate();
            events.map(move |(index, row)| {
                effective = row.id.or(effective);
                EventRow {
                    exchange_index,
                    exchange,
                    segment,
                    session_id,
                    index,
                    row,
                    effective,
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_id_is_the_last_one_of_the_response() {
        let event = |id| Event {
            id,
            ..Event::default()
        };
        let analysis = Analysis {
            exchanges: vec![
                Exchange {
                    text: "ab".to_owned(),
                    events: vec![
                        event(None),
                        event(Some(Text { start: 0, len: 1 })),
                        event(None),
                        event(Some(Text { start: 1, len: 1 })),
                        event(Some(Text { start: 2, len: 0 })),
                        event(None),
                    ]
                    .into(),
                    ..Exchange::default()
                },
                Exchange {
                    events: vec![event(None)].into(),
                    ..Exchange::default()
                },
            ],
            ..Analysis::default()
        };
        let effective: Vec<_> = Events::rows(&analysis)
            .map(|row| row.effective.map(|id| row.exchange.text(id)))
            .collect();
        let expected = [
            None,
            Some("a"),
            Some("a"),
            Some("b"),
            Some(""),
            Some(""),
            None,
        ];
        assert_eq!(effective, expected);
    }
}
