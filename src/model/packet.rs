//! What crosses the boundaries between file, link, IP and TCP.

use super::{place::Place, time::Timestamp};
use std::net::SocketAddr;

/// A link-layer header type: a `LINKTYPE_` value of pcap and pcapng files. Unknown values are
/// kept and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u16);

/// One captured frame, borrowed from the input's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Capture time.
    pub time: Timestamp,
    /// Input and Wireshark frame number; the TCP stream is not known yet.
    pub place: Place,
    /// What `data` begins with.
    pub link: LinkType,
    /// The captured bytes.
    pub data: &'a [u8],
    /// How many bytes the frame had on the wire; more than `data.len()` when the capture's
    /// snapshot length cut it.
    pub original_len: u32,
}

/// What a file says of an interface that it has packets of: enough to write them as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// What its packets begin with.
    pub link: LinkType,
    /// The snapshot length; 0 for no limit.
    pub snapshot: u32,
    /// How long a tick of its times is, as pcapng's `if_tsresol`: 10⁻ⁿ seconds, or 2⁻ⁿ with the highest bit set.
    pub resolution: u8,
    /// Seconds to add to its times, as pcapng's `if_tsoffset`.
    pub offset: i64,
    /// What else pcapng says of it, by the code of the option: name, description and the like, in bytes that are
    /// the same in either byte order.
    pub options: Vec<(u16, Vec<u8>)>,
}

/// The fixed facts of one TCP segment; its payload travels beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Capture time.
    pub time: Timestamp,
    /// Where it was captured, with Wireshark's stream number.
    pub place: Place,
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// Sequence number of the first payload byte (or of the SYN).
    pub sequence: u32,
    /// Acknowledgment number; meaningful when `flags` has [`TcpFlags::ACK`].
    pub acknowledgment: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Window as sent, unscaled.
    pub window: u16,
    /// Payload bytes the segment had on the wire beyond those captured (snapshot length).
    pub missing: u32,
}

#[cfg(test)]
impl Segment {
    /// A segment that says nothing, for tests.
    pub(crate) fn between(source: &str, destination: &str) -> Self {
        Self {
            time: Timestamp::default(),
            place: Place::default(),
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            sequence: 0,
            acknowledgment: 0,
            flags: TcpFlags(0),
            window: 0,
            missing: 0,
        }
    }
}

/// TCP control bits (RFC 9293, section 3.1), low byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// The acknowledgment field is significant.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer is significant.
    pub const URG: Self = Self(0x20);

    /// Whether every bit of `other` is set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// An IP packet found in a frame or in a tunnel.
#[derive(Clone, Copy, Debug)]
pub struct IpPacket<'a> {
    /// The captured bytes, from the first byte of the IP header; link-layer padding may follow.
    pub data: &'a [u8],
    /// Bytes that the snapshot length cut off the end of what holds it.
    pub missing: u32,
}

/// What an IP packet carries.
#[derive(Clone, Copy, Debug)]
pub struct Transport<'a> {
    /// Source address.
    pub source: std::net::IpAddr,
    /// Destination address.
    pub destination: std::net::IpAddr,
    /// IP protocol number of `payload` (6 is TCP, 17 UDP), past all extension headers.
    pub protocol: u8,
    /// The captured payload, trimmed to the length that the IP header states (not trimmed when it
    /// states 0: segmentation offload).
    pub payload: &'a [u8],
    /// Payload bytes that the header states and the capture does not have.
    pub missing: u32,
}

/// Why a frame yields nothing further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// It carries no IP (ARP, LLDP, …), or IP that is of no interest: nothing is wrong.
    NotIp,
    /// Its link type is not read.
    UnknownLink(LinkType),
    /// A fragment of an IP packet, which alone carries nothing.
    Fragment,
    /// More headers within each other than the limit.
    TooDeep,
    /// A header that is cut or contradicts itself; says which.
    Malformed(&'static str),
}
