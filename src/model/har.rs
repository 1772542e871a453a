//! A HAR entry, parsed but not yet read: heads, body text, events, times.

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
    /// `_eventSourceMessages`.
    pub events: Option<Vec<HarEvent>>,
    /// `_error` or `_failureText`, or a status text that tells of a failure.
    pub error: Option<String>,
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
