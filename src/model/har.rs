//! A HAR entry, parsed but not yet read: heads, body text, events, times; and what a HAR can tell.

use super::time::{Span, Timestamp};

/// One entry of a HAR's log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HarEntry {
    /// Its place in the file, from 1.
    pub number: u32,
    /// `startedDateTime`.
    pub started: Timestamp,
    /// `time`, when it is a number that is not negative.
    pub duration: Option<Span>,
    /// Start to the last byte of the request: `blocked + dns + connect + send` of `timings`, where
    /// told.
    pub sent: Option<Span>,
    /// Start to the first byte of the response: the above and `wait`.
    pub waited: Option<Span>,
    /// `serverIPAddress`, brackets removed.
    pub server_ip: Option<String>,
    /// `_connectionId`, or `connection` where it is an identity and not a port.
    pub connection: Option<String>,
    /// `request.method`.
    pub method: String,
    /// `request.url`.
    pub url: String,
    /// `request.httpVersion`, else `response.httpVersion`.
    pub http_version: String,
    /// Request headers in order, pseudo-headers left out.
    pub request_headers: Vec<(String, String)>,
    /// `request.postData.text`, decoded.
    pub request_body: Option<Vec<u8>>,
    /// `response.status`; `None` for 0, -1 or none: no response.
    pub status: Option<u16>,
    /// Response headers in order, pseudo-headers left out.
    pub response_headers: Vec<(String, String)>,
    /// `content.mimeType`, used where the headers have no content type.
    pub mime: String,
    /// `content.text`, base64 removed; `None` when there is none or it proves nothing (see
    /// [`HarEntry::body_state`]).
    pub response_body: Option<Vec<u8>>,
    /// What is known of the response body.
    pub body_state: BodyState,
    /// A body is there and could not be decoded: base64 that is none.
    pub undecodable: bool,
    /// `_eventSourceMessages`.
    pub events: Option<Vec<HarEvent>>,
    /// The times of [`HarEntry::events`] were made up: all are the entry's start, which is what
    /// DevTools writes when it exports a HAR that it imported. They are left out.
    pub made_up_times: bool,
    /// `_error` or `_failureText`, or a status text that tells of a failure.
    pub error: Option<String>,
    /// It is no HTTP exchange but JSON-RPC messages in the shape of one (`httpVersion`
    /// "JSON-RPC/2.0", mcpsnoop): heads, statuses and times of a wire were made up.
    pub no_wire: bool,
    /// Hash of what one request is told by, whoever exports it and when: start, method, URL, body
    /// and connection.
    pub request_hash: u128,
}

/// What a HAR can tell, as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HarFacts {
    /// The programs that wrote it, `name version`, each once, in order.
    pub creators: Vec<String>,
    /// Responses that are event streams or JSON, and not empty by their head.
    pub responses: u64,
    /// Of those, how many have their body, or their events, in the file.
    pub bodies: u64,
    /// Of [`HarFacts::responses`], how many have a body that could not be decoded.
    pub undecodable: u64,
    /// Event streams with an event in the file.
    pub streams: u64,
    /// Of those, how many have events with times of their own.
    pub timed: u64,
    /// Streams whose events have made-up times.
    pub made_up: u64,
    /// Entries whose session id was written over by a sanitizer, so that no session is known.
    pub masked_sessions: u64,
    /// Entries whose `Last-Event-ID` was written over.
    pub masked_cursors: u64,
    /// Events whose id was written over.
    pub masked_events: u64,
    /// Entries that are no HTTP exchanges (see [`HarEntry::no_wire`]).
    pub no_wire: u64,
    /// The exporter leaves out streams that are open when it exports (Safari, Playwright).
    pub omits_open: bool,
}

/// What a HAR tells of a response body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyState {
    /// Recorded whole.
    Whole,
    /// Recorded, but the response was interrupted.
    Partial,
    /// Known to be empty: a status without body, or a size of 0 that its producer can be trusted
    /// with.
    Empty,
    /// Not recorded: this is a hole.
    #[default]
    NotRecorded,
}

/// One of Chrome's `_eventSourceMessages`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HarEvent {
    /// `time` (epoch seconds); `None` when it is missing or made up (all equal to the start).
    pub time: Option<Timestamp>,
    /// `eventName`.
    pub name: String,
    /// `eventId`: the *persisted* last id, so that "no id" and "the same id again" look alike.
    pub id: String,
    /// `data`; `None` when a sanitizer removed it.
    pub data: Option<String>,
}
