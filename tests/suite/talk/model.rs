//! What a talk is, parsed.

use super::expect::Expectation;
use std::net::{IpAddr, SocketAddr};

/// A conversation with what an audit of it must say.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) name: String,
    /// In order of time; times never repeat.
    pub(crate) steps: Vec<Step>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) options: Vec<(String, String)>,
    pub(crate) expectations: Vec<Expectation>,
    /// What replaces expectations when the road is a HAR.
    pub(crate) har_expectations: Vec<Expectation>,
    /// What an audit would have to know to meet the expectations: it does not, and says less.
    pub(crate) beyond: Option<String>,
    /// Why no HAR can carry it.
    pub(crate) har_skip: Option<String>,
}

impl Talk {
    /// A talk in which nothing is said yet.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            steps: Vec::new(),
            connections: Vec::new(),
            options: Vec::new(),
            expectations: Vec::new(),
            har_expectations: Vec::new(),
            beyond: None,
            har_skip: None,
        }
    }
}

/// A TCP connection by its two ends.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) name: String,
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
}

/// One line of the conversation.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Microseconds since the talk began.
    pub(crate) at: i64,
    /// Index into [`Talk::connections`].
    pub(crate) connection: usize,
    pub(crate) act: Act,
    /// Its bytes were sent and received, yet are not in the capture.
    pub(crate) lost: bool,
    /// Only the first half of its bytes was ever sent.
    pub(crate) half: bool,
}

/// Which end acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What an end does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Request(Request),
    Response(Response),
    Event(Event),
    /// A comment line of an event stream.
    Comment(String),
    /// Bytes of an event stream as they are, in one chunk.
    Chunk(Vec<u8>),
    /// The end of an event stream: the final chunk.
    End,
    /// Bytes of the TCP stream as they are.
    Raw(Side, Vec<u8>),
    Close(Close),
}

impl Act {
    /// Who sends it.
    pub(crate) fn side(&self) -> Side {
        match self {
            Self::Request(_) | Self::Close(Close::Fin(Side::Client) | Close::Rst(Side::Client)) => {
                Side::Client
            }
            Self::Raw(side, _) => *side,
            _ => Side::Server,
        }
    }
}

/// How an end closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    Fin(Side),
    Rst(Side),
    /// Nobody listens: the SYN is answered by a reset.
    Refused,
}

/// An HTTP request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Name and value, in the order sent; `Host` first.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<String>,
}

/// An HTTP response's head, with its body unless that is an event stream.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Body,
}

/// How the body of a response comes.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// An event stream in chunks.
    Chunked,
    /// An event stream that ends with the connection.
    UntilClose,
    /// A body of known length.
    Whole(String),
}

/// A server-sent event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) event_type: Option<String>,
    pub(crate) retry: Option<u32>,
    /// `None`: no data field at all.
    pub(crate) data: Option<String>,
}

impl Event {
    /// The event as it stands in the stream.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if let Some(name) = &self.event_type {
            text.push_str(&format!("event: {name}\n"));
        }
        if let Some(id) = &self.id {
            text.push_str(&format!("id: {id}\n"));
        }
        if let Some(retry) = self.retry {
            text.push_str(&format!("retry: {retry}\n"));
        }
        if let Some(data) = &self.data {
            text.push_str(&format!("data: {data}\n"));
        }
        text.push('\n');
        text
    }
}

/// The id that stands for a bare name: looks like a random UUID, is the same in every run.
pub(crate) fn uuid(name: &str) -> String {
    // FNV-1a over 128 bits; nothing here has to withstand an adversary.
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in name.bytes().chain([0xff, 0x5a, 0xa5]) {
        hash ^= u128::from(byte);
        hash = hash.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    // Mixed once more: neighbouring names would give neighbouring low digits.
    hash ^= hash >> 67;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    hash ^= hash >> 71;
    let hex = format!("{hash:032x}");
    format!(
        "{}-{}-4{}-a{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
}

/// Default ends of connections.
pub(crate) const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
pub(crate) const SERVER: SocketAddr =
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9)), 3000);
