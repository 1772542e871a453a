//! The waist: one HTTP request with its response, as compact facts. HTTP/1.1 and HTTP/2 from packets,
//! and HAR entries all come out as this; everything judged is judged from this.

use super::{
    event::{BatchedAnswer, Event, Events, Text},
    flow::Endpoint,
    id::SessionId,
    message::{Message, MessageKind, PayloadHash, Subject},
    place::Place,
    time::{Span, Timestamp},
};
use std::sync::Arc;
use thin_vec::ThinVec;

/// One HTTP request with its response.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// The client's end; unknown in a HAR.
    pub client: Option<Endpoint>,
    /// The server's end.
    pub server: Option<Endpoint>,
    /// Which connection of the run carried it, and its place in that connection's order. `None`
    /// in a HAR.
    pub connection: Option<ConnectionId>,
    /// Where its first byte is: the request's, or the response's when the request is missing.
    pub place: Place,
    /// TCP stream numbers of the connection in other inputs, when it spans files: in its first, and in those
    /// that showed it while this exchange lasted.
    pub more_places: ThinVec<Place>,
    /// The protocol that carried it.
    pub version: HttpVersion,
    /// What road brought it here, and what that road cannot show.
    pub source: Source,
    /// The TCP sequence numbers of the first byte of the request and of the response, where they were
    /// seen. The same bytes captured again under other addresses (NAT) have the same.
    pub sequences: [Option<u32>; 2],
    /// The request; `None` when its head is not in the capture.
    pub request: Option<Request>,
    /// The response; `None` when no response head was seen.
    pub response: Option<Response>,
    /// How and when it ended.
    pub end: End,
    /// The events of the response, in order, when it is an event stream.
    pub events: Events,
    /// What events that carry batches answer, in order of the events.
    pub batched: ThinVec<BatchedAnswer>,
    /// The text that [`Text`] values point into.
    pub text: String,
    /// Holes in the request or response body.
    pub holes: ThinVec<Hole>,
    /// Bytes of an event cut off before its blank line, at the end of the stream.
    pub partial_event_bytes: u32,
    /// Data of an event named `endpoint`: the mark of the 2024-11-05 transport.
    pub endpoint: Option<Box<str>>,
}

impl Exchange {
    /// The text of `span`; empty when it does not fit (it always does).
    #[must_use]
    pub fn text(&self, span: Text) -> &str {
        let start = span.start as usize;
        self.text
            .get(start..start.saturating_add(span.len as usize))
            .unwrap_or_default()
    }

    /// The ids of the requests that an event, given with its index, answers, as JSON text, each with
    /// the hash of the answer: the message, or those of its batch.
    pub fn answers_in(
        &self,
        index: u32,
        event: Event,
    ) -> impl Iterator<Item = (&str, PayloadHash)> {
        let first = self.batched.partition_point(|answer| answer.event < index);
        let batch = self.batched.iter().skip(first);
        let batch = batch.take_while(move |answer| answer.event == index);
        let is_batch = self.batched.get(first).is_some_and(|a| a.event == index);
        let is_answer = matches!(event.message, MessageKind::Response | MessageKind::Error);
        let own = event.rpc_id.filter(|_| is_answer && !is_batch);
        let own = own.map(|id| (self.text(id), event.hash));
        own.into_iter()
            .chain(batch.map(|answer| (self.text(answer.rpc_id), answer.hash)))
    }

    /// The time by which exchanges are ordered: the request's, else the response's.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        match (&self.request, &self.response) {
            (Some(request), _) => request.time,
            (None, Some(response)) => response.time,
            (None, None) => self.end.time,
        }
    }

    /// The cursor of a resume: a non-empty `Last-Event-ID` on a GET.
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        let request = self.request.as_ref()?;
        if &*request.method != "GET" {
            return None;
        }
        request.last_event_id.as_deref().filter(|id| !id.is_empty())
    }

    /// The request's method; empty when the request is not in the capture.
    #[must_use]
    pub fn method(&self) -> &str {
        self.request.as_ref().map_or("", |request| &*request.method)
    }

    /// The response's status.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.response.as_ref().map(|response| response.status)
    }

    /// Whether its body asks to initialize.
    #[must_use]
    pub fn is_initialize(&self) -> bool {
        self.request.as_ref().is_some_and(|request| {
            request
                .messages
                .iter()
                .any(|message| message.method.as_deref() == Some("initialize"))
        })
    }

    /// How it was answered, as far as the session is concerned.
    ///
    /// An answer that may be another request's says nothing. 404 and 410 refuse by status; 400, 401, 403 and 422 only with words about the session or
    /// the cursor; a JSON-RPC error about the session refuses inside 200.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let Some(response) = self.response.as_ref().filter(|_| !self.is_doubtful()) else {
            return Answer::Silent;
        };
        let about_session = |kind, subject| {
            matches!(kind, MessageKind::Error | MessageKind::None) && subject == Subject::Session
        };
        match response.status {
            200..=299 => {
                let in_json = !response.messages.is_empty()
                    && response
                        .messages
                        .iter()
                        .all(|message| about_session(message.kind, message.subject));
                let in_events = self
                    .events
                    .iter()
                    .find(|event| event.is_message() || event.subject != Subject::Unknown)
                    .is_some_and(|event| about_session(event.message, event.subject));
                if in_json || in_events {
                    Answer::Refused
                } else {
                    Answer::Success
                }
            }
            404 | 410 => Answer::Refused,
            400 | 401 | 403 | 422 if response.subject != Subject::Unknown => Answer::Refused,
            _ => Answer::Silent,
        }
    }

    /// The session id that the request carries.
    #[must_use]
    pub fn asked_session(&self) -> Option<&SessionId> {
        self.request.as_ref()?.session_id.as_ref()
    }

    /// The session id that the response carries.
    #[must_use]
    pub fn given_session(&self) -> Option<&SessionId> {
        self.response.as_ref()?.session_id.as_ref()
    }

    /// Whether its answer is of another session than `session`: a success under another id, or the refusal
    /// of what asked for none, under an id made for it. Where the request is missing, a refusal may be either.
    #[must_use]
    pub fn is_answered_beside(&self, session: &SessionId) -> bool {
        let asked = self.asked_session();
        let given = self.given_session().filter(|given| !given.is_empty());
        match self.answer() {
            Answer::Success => {
                asked == Some(session)
                    && given.is_some_and(|given| given != session)
                    && self.method() != "DELETE"
            }
            Answer::Refused => asked.is_none() && given == Some(session),
            Answer::Silent => false,
        }
    }

    /// Where one of its events was seen.
    #[must_use]
    pub fn event_place(&self, event: &Event) -> Place {
        let tcp_stream = std::iter::once(&self.place)
            .chain(&self.more_places)
            .find(|place| place.input == event.input)
            .and_then(|place| place.tcp_stream);
        Place {
            input: event.input,
            frame: event.frame,
            tcp_stream,
        }
    }

    /// Whether a hole lies in this part of it.
    #[must_use]
    pub fn has_hole(&self, part: Part) -> bool {
        self.holes.iter().any(|hole| hole.part == part)
    }

    /// Whether the response may be the answer to another request: the head of a response is missing
    /// where this one's was due.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.response.is_some() && self.has_hole(Part::ResponseHead)
    }

    /// Whether the response's body is known only in part: a hole, or a coding that could not be
    /// decoded.
    #[must_use]
    pub fn body_has_hole(&self) -> bool {
        self.has_hole(Part::ResponseBody)
            || self
                .response
                .as_ref()
                .is_some_and(|response| response.undecodable)
    }

    /// Whether the response's body was open when the evidence ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.end.cause == EndCause::CaptureEnd
    }

    /// Whether the response is an event stream of a success, and certainly its own.
    #[must_use]
    pub fn is_event_stream(&self) -> bool {
        self.response
            .as_ref()
            .is_some_and(|r| r.media == Media::EventStream && (200..300).contains(&r.status))
            && !self.is_doubtful()
    }
}

/// How an exchange was answered, as far as the session is concerned (docs/audit.md, "refused").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A success that speaks for the session.
    Success,
    /// The server refused the session or the cursor.
    Refused,
    /// Nothing was said about the session: no response, 3xx, 405, 409, 429, 5xx, other errors.
    Silent,
}

/// A connection of the run, numbered in the order of its first packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// The HTTP version of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HttpVersion {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
    /// HTTP/2.
    Http2,
    /// HTTP/3 (only a HAR tells it).
    Http3,
    /// Not told.
    Unknown,
}

impl HttpVersion {
    /// As written in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Http3 => "HTTP/3",
            Self::Unknown => "",
        }
    }
}

/// What road brought an exchange here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Packets: times of bytes, ends of connections, holes are known.
    #[default]
    Packets,
    /// A HAR entry. `bodies`: a response body (or its events) was recorded. `event_times`: the
    /// events carry their own times.
    Har {
        /// The response's body, or its events, are in the file.
        bodies: bool,
        /// The events carry times of their own.
        event_times: bool,
    },
}

/// A request's head and what its body says.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Time of its first byte.
    pub time: Timestamp,
    /// Time of its last byte.
    pub end_time: Timestamp,
    /// The method, as sent.
    pub method: Arc<str>,
    /// The target: path and query (absolute and authority forms are kept as sent).
    pub target: Arc<str>,
    /// `Host`, or the authority of an absolute target, in lower case; empty when missing.
    pub host: Arc<str>,
    /// Whether it went to a proxy in absolute form, or the HAR says `https`.
    pub scheme: Scheme,
    /// The session header's value. Repeated or joined equal values are one; of different ones the
    /// first is kept.
    pub session_id: Option<SessionId>,
    /// `Last-Event-ID`; `Some("")` when sent empty.
    pub last_event_id: Option<Arc<str>>,
    /// `MCP-Protocol-Version`.
    pub protocol_version: Option<Arc<str>>,
    /// `User-Agent`.
    pub user_agent: Option<Arc<str>>,
    /// The JSON-RPC messages of its body, in order.
    pub messages: ThinVec<Message>,
    /// Hash of the whole body; zero without one.
    pub body: PayloadHash,
    /// Body bytes seen.
    pub body_bytes: u64,
    /// Whether the whole body was seen.
    pub complete: bool,
    /// Whether the server acknowledged every byte of it, as far as its packets show. Never in a HAR.
    pub received: bool,
    /// Hash of the id by which its senders trace it (`traceparent`, `X-Request-Id` and the like):
    /// proxies pass it on.
    pub trace: Option<PayloadHash>,
    /// Whether a header says that a proxy sent it (`Via`, `Forwarded`, `X-Forwarded-For`).
    pub forwarded: bool,
    /// Hash of the client's address as proxies tell it (`Forwarded`, `X-Forwarded-For` and the like).
    pub on_behalf: Option<PayloadHash>,
}

/// The scheme an exchange used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Plain HTTP.
    #[default]
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// As written in a URL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// A response's head and what its body says.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// Time of its first byte.
    pub time: Timestamp,
    /// Where its head was seen.
    pub place: Place,
    /// The status code.
    pub status: u16,
    /// `Content-Type` as sent.
    pub content_type: Option<Arc<str>>,
    /// What `Content-Type` says it is.
    pub media: Media,
    /// The session header's value.
    pub session_id: Option<SessionId>,
    /// The value of the header named by `--incarnation-header`.
    pub incarnation: Option<Arc<str>>,
    /// All that names the process behind a balancer, in the order of trust.
    pub named: ThinVec<BackendName>,
    /// The process that answered, by the one kind of name that serves its service best.
    pub backend: Option<Arc<str>>,
    /// The JSON-RPC messages of a JSON body, in order.
    pub messages: ThinVec<Message>,
    /// The result of `initialize`, in JSON or in an event.
    pub greeting: Option<Box<Greeting>>,
    /// What the text of a body speaks of, when it refuses (any status but 2xx).
    pub subject: Subject,
    /// Body bytes seen, after transfer decoding and before content decoding.
    pub body_bytes: u64,
    /// Whether the body ended as its framing says.
    pub complete: bool,
    /// Whether a content coding (gzip, br, …) could not be decoded from some place on.
    pub undecodable: bool,
}

/// What the result of `initialize` says of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Greeting {
    /// `protocolVersion`.
    pub protocol_version: Box<str>,
    /// `serverInfo.name`.
    pub server_name: Option<Box<str>>,
    /// `serverInfo.version`.
    pub server_version: Option<Box<str>>,
}

/// A name that a response gives the process behind a balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendName {
    /// Who says so. Names of different tellers are never compared.
    pub teller: Teller,
    /// The name.
    pub name: Arc<str>,
}

/// What tells a backend's name, the most trusted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Teller {
    /// The `--backend-header` with this number.
    Asked(u16),
    /// One of the headers and sticky cookies that are known to name backends.
    Usual(u16),
}

/// The kinds of response body that matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Media {
    /// No content type, no body.
    #[default]
    None,
    /// `text/event-stream`.
    EventStream,
    /// `application/json` and `+json`.
    Json,
    /// Anything else.
    Other,
}

/// How and when an exchange ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// When: of the final chunk, FIN or RST; of the last packet when nothing ended it.
    pub time: Timestamp,
    /// The frame that ended it.
    pub place: Place,
    /// How.
    pub cause: EndCause,
    /// Bytes the client did not acknowledge before the end, at the last packet it acknowledged:
    /// the time of that packet.
    pub last_acknowledged: Option<Timestamp>,
}

/// What ended an exchange (docs/reports.md, `end_cause`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndCause {
    /// Final chunk, content length or END_STREAM.
    StreamEnd,
    /// The server's FIN came first (with a close-delimited body it is a `StreamEnd`).
    ServerFin,
    /// The client's FIN came first.
    ClientFin,
    /// The server's RST came first.
    ServerRst,
    /// The client's RST came first.
    ClientRst,
    /// HTTP/2 GOAWAY of the server: it left the request undone, or closed the connection afterwards.
    Goaway,
    /// HTTP/2 RST_STREAM of the client.
    StreamResetByClient,
    /// HTTP/2 RST_STREAM of the server.
    StreamResetByServer,
    /// Nothing was seen, yet the stream was superseded or left unacknowledged.
    Silent,
    /// Still open when the capture ended.
    CaptureEnd,
    /// A HAR does not tell; or the close that was seen may answer a FIN among lost bytes.
    #[default]
    Unknown,
}

impl EndCause {
    /// As written in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::StreamEnd => "stream-end",
            Self::ServerFin => "server-fin",
            Self::ClientFin => "client-fin",
            Self::ServerRst => "server-rst",
            Self::ClientRst => "client-rst",
            Self::Goaway => "goaway",
            Self::StreamResetByClient | Self::StreamResetByServer => "stream-reset",
            Self::Silent => "silent",
            Self::CaptureEnd => "capture-end",
            Self::Unknown => "unknown",
        }
    }
}

/// Bytes that are not in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Whether it lies in the request or in the response.
    pub part: Part,
    /// How many bytes; 0 when not known.
    pub bytes: u64,
    /// Time of the first bytes after it, or of the end.
    pub time: Timestamp,
    /// How many events of the response came before it.
    pub after_events: u32,
}

/// The part of an exchange a hole lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The request's head or body.
    Request,
    /// The response's head.
    ResponseHead,
    /// The response's body.
    ResponseBody,
}

/// What the road tells of the end of all evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Time of the first packet or entry.
    pub first: Option<Timestamp>,
    /// Time of the last packet, or the last instant a HAR tells of.
    pub last: Option<Timestamp>,
}

impl Window {
    /// Widens the window to hold `time`.
    pub fn include(&mut self, time: Timestamp) {
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
    }

    /// From `time` to the end of the evidence.
    #[must_use]
    pub fn left_after(&self, time: Timestamp) -> Span {
        self.last.map_or(Span::ZERO, |last| last.since(time))
    }
}
