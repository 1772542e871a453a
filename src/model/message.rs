//! JSON-RPC messages as facts: kinds, ids and hashes, no payload.

use smol_str::SmolStr;

/// A 128-bit hash of a payload; equal payloads have equal hashes. (Packed: its alignment would cost every fact that
/// has one another eight bytes.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(Rust, packed(8))]
pub struct PayloadHash(pub u128);

/// What a JSON-RPC object is (JSON-RPC 2.0, sections 4 and 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageKind {
    /// Not JSON-RPC, or no data at all.
    #[default]
    None,
    /// `method` and `id`.
    Request,
    /// `id` and `result`.
    Response,
    /// `error`.
    Error,
    /// `method` without `id`.
    Notification,
    /// A request or notification whose method is `ping`: liveness, no content.
    Ping,
    /// Data that is not readable JSON-RPC because a sanitizer removed it: a message whose
    /// payload is not known.
    Redacted,
}

impl MessageKind {
    /// Whether it counts as a message of a stream (docs/audit.md: "an event with data that is JSON-RPC
    /// and no ping").
    #[must_use]
    pub const fn is_message(self) -> bool {
        !matches!(self, Self::None | Self::Ping)
    }

    /// The name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Request => "request",
            Self::Response => "response",
            Self::Error => "error",
            Self::Notification => "notification",
            Self::Ping => "ping",
            Self::Redacted => "redacted",
        }
    }
}

/// What the text of an error speaks of, as far as words tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Nothing recognised.
    #[default]
    Unknown,
    /// The session: unknown, expired, terminated, missing, not initialized.
    Session,
    /// The cursor: an unknown or malformed `Last-Event-ID`.
    Cursor,
}

/// A JSON-RPC message of a request body or of a JSON response body. Events keep a smaller form
/// ([`super::event::Event`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub kind: MessageKind,
    /// What `error.message` and `error.data` speak of.
    pub subject: Subject,
    /// The id as JSON text (`1`, `"a"`): numbers and strings are never merged. `None` also for
    /// `null`.
    pub id: Option<SmolStr>,
    /// The method.
    pub method: Option<SmolStr>,
    /// `params._meta.progressToken` of a request, `params.progressToken` of a progress
    /// notification, as JSON text.
    pub progress_token: Option<SmolStr>,
    /// Hash of the whole message text.
    pub hash: PayloadHash,
    /// Hash of method and `params` without `_meta`: equal for the same call sent again, however its
    /// JSON is written; of a response that of its `result`. Zero for pings and errors.
    pub call: PayloadHash,
    /// What few messages say; most runs are full of the others.
    pub particulars: Option<Box<Particulars>>,
}

/// What only greetings, errors and cancellations say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Particulars {
    /// `params.requestId` of `notifications/cancelled`, as JSON text.
    pub cancels: Option<Box<str>>,
    /// The protocol version it states: `params.protocolVersion` or `result.protocolVersion` of
    /// `initialize`, or `params._meta["io.modelcontextprotocol/protocolVersion"]`.
    pub protocol_version: Option<Box<str>>,
    /// `clientInfo.name` of an `initialize` request, `serverInfo.name` of its result.
    pub party: Option<Box<str>>,
    /// `serverInfo.version` of the result of `initialize`.
    pub party_version: Option<Box<str>>,
    /// `error.code`.
    pub error_code: Option<i64>,
}

impl Message {
    /// See [`Particulars::cancels`].
    #[must_use]
    pub fn cancels(&self) -> Option<&str> {
        self.particulars.as_ref()?.cancels.as_deref()
    }

    /// See [`Particulars::protocol_version`].
    #[must_use]
    pub fn protocol_version(&self) -> Option<&str> {
        self.particulars.as_ref()?.protocol_version.as_deref()
    }

    /// See [`Particulars::party`].
    #[must_use]
    pub fn party(&self) -> Option<&str> {
        self.particulars.as_ref()?.party.as_deref()
    }

    /// See [`Particulars::party_version`].
    #[must_use]
    pub fn party_version(&self) -> Option<&str> {
        self.particulars.as_ref()?.party_version.as_deref()
    }

    /// See [`Particulars::error_code`].
    #[must_use]
    pub fn error_code(&self) -> Option<i64> {
        self.particulars.as_ref()?.error_code
    }
}
