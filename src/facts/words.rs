//! Words for what is one of few things. They are the files' own: what reports call them may change.

use crate::model::{
    analysis::{OpaqueProtocol, WhyUnread},
    exchange::{EndCause, HttpVersion, Media, Part, Scheme},
    message::{MessageKind, Subject},
    prose::Secret,
};

/// One of few things, each with a word.
pub(super) trait Word: Copy {
    fn word(self) -> &'static str;
    fn of(word: &str) -> Option<Self>;
}

macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl Word for $type {
            fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            fn of(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

words!(HttpVersion {
    Http10 = "HTTP/1.0",
    Http11 = "HTTP/1.1",
    Http2 = "HTTP/2",
    Http3 = "HTTP/3",
    Unknown = "unknown",
});

words!(Scheme {
    Http = "http",
    Https = "https",
});

words!(Media {
    None = "none",
    EventStream = "event-stream",
    Json = "json",
    Other = "other",
});

words!(EndCause {
    StreamEnd = "stream-end",
    ServerFin = "server-fin",
    ClientFin = "client-fin",
    ServerRst = "server-rst",
    ClientRst = "client-rst",
    Goaway = "goaway",
    StreamResetByClient = "stream-reset-by-client",
    StreamResetByServer = "stream-reset-by-server",
    Silent = "silent",
    CaptureEnd = "capture-end",
    Unknown = "unknown",
});

words!(Part {
    Request = "request",
    ResponseHead = "response-head",
    ResponseBody = "response-body",
});

words!(MessageKind {
    None = "none",
    Request = "request",
    Response = "response",
    Error = "error",
    Notification = "notification",
    Ping = "ping",
    Redacted = "redacted",
});

words!(Subject {
    Unknown = "unknown",
    Session = "session",
    Cursor = "cursor",
});

words!(WhyUnread {
    NoKeys = "no-keys",
    WrongKeys = "wrong-keys",
    HandshakeKeys = "handshake-keys",
    OneSide = "one-side",
    NoHandshake = "no-handshake",
    Unsupported = "unsupported",
});

words!(OpaqueProtocol {
    Tls = "tls",
    Http2 = "http2",
    Quic = "quic",
});

words!(Secret {
    Session = "session",
    Host = "host",
    EventId = "event-id",
    Url = "url",
    RpcId = "rpc-id",
    Word = "word",
    Input = "input",
    Payload = "payload",
    Text = "text",
    Prose = "prose",
});
