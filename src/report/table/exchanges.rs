//! The rows of the `exchanges` command.

use super::{Column, Table, column, frame, input, words};
use crate::{
    model::{
        analysis::{Analysis, SessionRow},
        exchange::{EndCause, Exchange, Request, Response},
        message::Message,
    },
    report::value::Value,
};

/// HTTP exchanges.
#[derive(Clone, Copy, Debug)]
pub struct Exchanges;

/// An exchange with its number.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeRow<'a> {
    /// Its index in the analysis.
    pub index: usize,
    /// The exchange.
    pub row: &'a Exchange,
}

impl<'a> ExchangeRow<'a> {
    fn request(self) -> Option<&'a Request> {
        self.row.request.as_ref()
    }

    fn response(self) -> Option<&'a Response> {
        self.row.response.as_ref()
    }

    fn messages(self) -> &'a [Message] {
        self.request().map_or(&[], |request| &request.messages)
    }

    /// The incarnation of a session that it belongs to.
    fn session(self, analysis: &'a Analysis) -> Option<&'a SessionRow> {
        let place = analysis.session_of.get(self.index)?.as_ref()?;
        analysis.sessions.get(place.session? as usize)
    }

    /// The id of its session: as judged, where it is; else as its segment, its request or its
    /// response says.
    pub(super) fn session_id(self, analysis: &'a Analysis) -> Option<&'a str> {
        if let Some(session) = self.session(analysis) {
            return Some(&session.session_id);
        }
        let segment = || {
            let place = analysis.session_of.get(self.index)?.as_ref()?;
            analysis.segments.get(place.segment? as usize)
        };
        segment()
            .map(|segment| &*segment.session_id)
            .or_else(|| self.request()?.session_id.as_deref())
            .or_else(|| self.response()?.session_id.as_deref())
    }

    /// The order is: the header, else the body, else what the session negotiated.
    fn protocol_version(self, analysis: &'a Analysis) -> Option<&'a str> {
        self.request()
            .and_then(|request| request.protocol_version.as_deref())
            .or_else(|| {
                let mut stated = self.messages().iter();
                stated.find_map(|message| message.protocol_version())
            })
            .or_else(|| self.session(analysis)?.protocol_version.as_deref())
    }
}

impl Table for Exchanges {
    type Row<'a> = ExchangeRow<'a>;
    const NAME: &'static str = "exchanges";
    const ABOUT: &'static str = "A row for each HTTP exchange, in order of time.";
    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "exchange",
            Number,
            "Its number in the run, from 1.",
            |_, r| { r.index.saturating_add(1).into() },
            always = true
        ),
        column!(
            "session_id",
            Text(Session),
            "The session it belongs to.",
            |analysis, r| { r.session_id(analysis).map(Value::Text).into() },
            otel = ["mcp.session.id"]
        ),
        column!(
            "vantage",
            Text(Host),
            "The hosts between which it was captured: `CLIENT>SERVER`.",
            |_, r| match (&r.row.client, &r.row.server) {
                (Some(client), Some(server)) => Value::Hosts(client, server),
                _ => Value::Unknown,
            }
        ),
        column!(
            "client",
            Endpoint,
            "The client.",
            |_, r| r.row.client.as_ref().into(),
            otel = ["client.address", "client.port"]
        ),
        column!(
            "server",
            Endpoint,
            "The server.",
            |_, r| r.row.server.as_ref().into(),
            otel = ["server.address", "server.port"]
        ),
        column!(
            "http_version",
            Word,
            "`HTTP/1.1` and the like.",
            |_, r| {
                let name = r.row.version.name();
                (!name.is_empty()).then_some(Value::Word(name)).into()
            },
            otel = ["network.protocol.name", "network.protocol.version"],
            words = words::http_versions
        ),
        column!(
            "method",
            Text(Word),
            "The method.",
            |_, r| {
                r.request()
                    .map(|request| Value::Text(&request.method))
                    .into()
            },
            otel = ["http.request.method"]
        ),
        column!(
            "target",
            Text(Url),
            "The target, as sent.",
            |_, r| {
                r.request()
                    .map(|request| Value::Text(&request.target))
                    .into()
            },
            otel = ["url.path", "url.query"]
        ),
        column!(
            "status",
            Number,
            "The status.",
            |_, r| { r.response().map(|response| response.status).into() },
            otel = ["http.response.status_code"]
        ),
        column!(
            "protocol_version",
            Text(Word),
            "The MCP revision: of the request's header, else of its body, else negotiated.",
            |analysis, r| r.protocol_version(analysis).map(Value::Text).into(),
            otel = ["mcp.protocol.version"]
        ),
        column!(
            "last_event_id",
            Text(EventId),
            "Last-Event-ID, as sent.",
            |_, r| {
                let request = r.request();
                request
                    .and_then(|request| request.last_event_id.as_deref())
                    .map(Value::Text)
                    .into()
            },
            otel = ["http.request.header.last-event-id"]
        ),
        column!(
            "content_type",
            Text(Word),
            "The response's Content-Type.",
            |_, r| {
                let response = r.response();
                response
                    .and_then(|response| response.content_type.as_deref())
                    .map(Value::Text)
                    .into()
            },
            otel = ["http.response.header.content-type"]
        ),
        column!("request_time", Time, "The request's first byte.", |_, r| {
            r.request().map(|request| request.time).into()
        }),
        column!(
            "response_time",
            Time,
            "The response's first byte.",
            |_, r| { r.response().map(|response| response.time).into() }
        ),
        column!(
            "end_time",
            Time,
            "When it ended; empty when it was open at the end of the capture.",
            |_, r| {
                let end = r.row.end;
                let seen = end.cause != EndCause::CaptureEnd && end.time.nanos() != 0;
                seen.then_some(end.time).into()
            }
        ),
        column!(
            "end_cause",
            Word,
            "What ended it: `stream-end`, `server-fin`, `client-fin`, `server-rst`, `client-rst`, \
             `goaway`, `stream-reset`, `silent`, `capture-end` or `unknown`.",
            |_, r| Value::Word(r.row.end.cause.name()),
            words = words::causes
        ),
        column!(
            "request_bytes",
            Number,
            "Bytes of the request's body.",
            |_, r| { r.request().map(|request| request.body_bytes).into() },
            unit = "bytes",
            otel = ["http.request.body.size"]
        ),
        column!(
            "response_bytes",
            Number,
            "Bytes of the response's body.",
            |_, r| { r.response().map(|response| response.body_bytes).into() },
            unit = "bytes",
            otel = ["http.response.body.size"]
        ),
        column!(
            "jsonrpc_id",
            Text(RpcId),
            "The JSON-RPC id of the request's body as JSON text; those of a batch joined by `;`.",
            |_, r| members(r.messages(), |message| message.id.as_deref()),
            otel = ["jsonrpc.request.id"]
        ),
        column!(
            "jsonrpc_method",
            Text(Word),
            "The JSON-RPC method of the request's body; those of a batch joined by `;`.",
            |_, r| members(r.messages(), |message| message.method.as_deref()),
            otel = ["mcp.method.name"]
        ),
        column!(
            "holes",
            Number,
            "Places where bytes are missing from the capture.",
            |_, r| { r.row.holes.len().into() },
            unit = "holes",
            always = true
        ),
        column!(
            "input",
            File,
            "The input that it begins in.",
            |analysis, r| { input(analysis, r.row.place) }
        ),
        column!("tcp_stream", Number, "Wireshark's `tcp.stream`.", |_, r| {
            r.row.place.tcp_stream.into()
        }),
        column!(
            "frame",
            Number,
            "Wireshark's `frame.number` of its first byte; in a HAR the entry's number, from 1.",
            |_, r| frame(r.row.place)
        ),
    ];

    fn rows(analysis: &Analysis) -> impl Iterator<Item = Self::Row<'_>> {
        let exchanges = analysis.exchanges.iter().enumerate();
        exchanges.map(|(index, row)| ExchangeRow { index, row })
    }
}

fn members(messages: &[Message], member: crate::report::value::Member) -> Value<'_> {
    if messages.iter().any(|message| member(message).is_some()) {
        Value::Members(messages, member)
    } else {
        Value::Unknown
    }
}
