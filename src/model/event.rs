//! Server-sent events as facts.

use super::{
    message::{MessageKind, PayloadHash, Subject},
    place::InputId,
    time::Timestamp,
};

/// A piece of the text of an exchange: offsets into [`super::exchange::Exchange::text`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// First byte.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

/// One event of an event stream (WHATWG HTML, "Server-sent events"). Every block with any field
/// is one, also those that a browser would not dispatch; comments are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// When its last byte was on the wire.
    pub time: Timestamp,
    /// Hash of its data; zero without data.
    pub hash: PayloadHash,
    /// The frame of its last byte.
    pub frame: u32,
    /// The input of its last byte.
    pub input: InputId,
    /// Its own `id` field; `None` without one. An empty id is `Some` of length 0 (it resets).
    pub id: Option<Text>,
    /// Its `event` field; `None` without one.
    pub event_type: Option<Text>,
    /// The JSON-RPC id as JSON text.
    pub rpc_id: Option<Text>,
    /// The JSON-RPC method.
    pub method: Option<Text>,
    /// The progress token of a progress notification, as JSON text.
    pub progress_token: Option<Text>,
    /// Bytes of data (all `data` fields joined).
    pub data_bytes: u32,
    /// Its `retry` field in milliseconds.
    pub retry: Option<u32>,
    /// What its data is.
    pub message: MessageKind,
    /// What an error message speaks of.
    pub subject: Subject,
    /// Whether the client got it: whole, not answered by the client's RST, not sent after its
    /// RST or after a FIN of its that an RST follows.
    pub delivered: bool,
    /// Whether bytes of the stream just before it are missing from the capture.
    pub after_hole: bool,
    /// Whether it has a `data` field at all (a priming event has an empty one).
    pub has_data: bool,
}

impl Event {
    /// An event with an id and no content: it primes the client's cursor.
    #[must_use]
    pub fn is_priming(&self) -> bool {
        self.id.is_some_and(|id| id.len > 0) && self.data_bytes == 0
    }

    /// Whether it is a message (docs/audit.md, "Terms").
    #[must_use]
    pub fn is_message(&self) -> bool {
        self.message.is_message()
    }
}

/// A response or an error in the batch that one event carries (JSON-RPC 2.0, section 6; MCP 2025-03-26,
/// "Sending Messages to the Server").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchedAnswer {
    /// The index of the event among those of its exchange.
    pub event: u32,
    /// The id that it answers, as JSON text.
    pub rpc_id: Text,
    /// Hash of its own message.
    pub hash: PayloadHash,
}
