//! Ends of connections.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// One end of an exchange, as it is shown: `HOST:PORT`, IPv6 in brackets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// An address and port seen in packets, or told by a HAR.
    Address(SocketAddr),
    /// A host name and port; only a HAR without `serverIPAddress` has no more than that.
    Name(Arc<str>, u16),
}

impl Endpoint {
    /// The address, where there is one.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(address.ip()),
            Self::Name(..) => None,
        }
    }

    /// The host alone, without port.
    #[must_use]
    pub fn host(&self) -> String {
        match self {
            Self::Address(address) => address.ip().to_string(),
            Self::Name(name, _) => name.to_string(),
        }
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Name(_, port) => *port,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

/// One of the two ends of a TCP connection. Which of them is the client is decided by what they
/// say (HTTP), not by who is named first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that opened the connection as far as packets tell (sent the SYN, or spoke first).
    A,
    /// The other end.
    B,
}

impl Side {
    /// The other side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// 0 for `A`, 1 for `B`.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::A => 0,
            Self::B => 1,
        }
    }
}
