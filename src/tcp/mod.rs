//! Packets → ordered bytes, with the time and frame of every byte, holes of known place and size,
//! and how the connection ended.
//!
//! [`parse`] reads a header, [`StreamNumbers`] gives Wireshark's stream numbers, and a [`Table`]
//! puts the segments of every connection in order and hands them to one [`Sink`] a connection.
//!
//! # Offsets
//!
//! Every direction has `u64` offsets that survive the wrap of sequence numbers. Offset 0 is the
//! byte after the SYN. When the SYN is not in the capture, it is where the peer's first
//! acknowledgment (or an own segment without payload) says that data begins, when one of them
//! comes before the data. Else it is the first byte seen; since the first segment seen need not be
//! the first sent, those bytes are held back until one of: eight more packets of that direction,
//! 200 ms of capture time, data of the peer that acknowledges them (its answer must not overtake
//! them). A lower sequence number that comes before then moves the start.
//!
//! # Holes
//!
//! Bytes are missing when something later was seen: a later sequence number of the same sender
//! (with payload or not), or the peer's acknowledgment. Neither says that they will not come: a
//! capture may hold packets out of order, acknowledgments before the data among them. So a hole is
//! declared only when [`Limits::reorder_packets`] packets of the same direction went beyond it and
//! [`Limits::reorder_time`] of capture time passed since it was noticed, or at the end of the
//! connection, or when the bytes held reach [`Limits::out_of_order`]. What comes later still is
//! dropped. One number that the peer acknowledged beyond all bytes, and nothing came after, is a FIN that
//! the capture lost.
//!
//! # Same bytes twice
//!
//! The first copy wins and its time stays. Bytes still held are compared one by one. Of those
//! already handed over, fingerprints of the last few segments are kept: a retransmission that
//! covers such a segment as a whole is compared with it.
//!
//! [`Limits::reorder_packets`]: crate::limits::Limits::reorder_packets
//! [`Limits::reorder_time`]: crate::limits::Limits::reorder_time
//! [`Limits::out_of_order`]: crate::limits::Limits::out_of_order

#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation
)]
#![cfg_attr(test, allow(clippy::indexing_slicing, reason = "tests may panic"))]

mod clocks;
mod connection;
mod flow;
mod numbers;
mod pair;
mod segment;
mod table;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod rules;

pub use clocks::HandshakeClocks;
pub use numbers::StreamNumbers;
pub use pair::{Direction, Pairing, spread};
pub use segment::{parse, refuses};
pub use table::Table;

use crate::model::{flow::Side, place::At};
use std::net::SocketAddr;

/// Takes what one connection carried.
pub trait Sink {
    /// `sender`'s stream starts (its offset 0) at this sequence number; called before anything else
    /// of that stream is handed over or called missing. The same connection under other addresses
    /// (NAT) has the same numbers.
    fn starts(&mut self, sender: Side, sequence: u32) {
        let _ = (sender, sequence);
    }

    /// Bytes of `sender`, in order, each byte once. `at` is the time and place of the first
    /// segment that carried them; `at.offset` is the stream offset just past them.
    fn data(&mut self, sender: Side, bytes: &[u8], at: At);

    /// `bytes` bytes of `sender` that are not in the capture; what follows is after them. `at` is
    /// the first segment after the hole, or the last one seen when there is none; `at.offset` is
    /// the offset just past the hole.
    fn hole(&mut self, sender: Side, bytes: u64, kind: HoleKind, at: At);

    /// The other side acknowledged `sender`'s bytes up to `at.offset`; called only when that
    /// advances. It may run ahead of [`data`](Self::data): the capture may hold the
    /// acknowledgment before the bytes.
    fn acknowledged(&mut self, sender: Side, at: At);

    /// `sender` has sent its FIN, and all its bytes before it were handed over or declared lost.
    ///
    /// `acknowledges` is the offset of the peer's stream that the FIN acknowledged, counting the
    /// peer's FIN as one more byte: of two FINs, the one that acknowledges the other is the later,
    /// whatever the order of packets.
    fn fin(&mut self, sender: Side, acknowledges: Option<u64>, at: At);

    /// `sender` reset the connection (only resets that the peer would believe), and all its bytes
    /// before it were handed over or declared lost, unless the peer resets it as well meanwhile.
    /// `at.offset` is the reset's own offset. `acknowledges` as for [`fin`](Self::fin), when the segment had an acknowledgment.
    fn rst(&mut self, sender: Side, acknowledges: Option<u64>, at: At);

    /// A SYN is all that was seen of the connection: no byte, no acknowledgment and no refusal tells that `server`
    /// answered. Called before [`finish`](Self::finish).
    fn unanswered(&mut self, server: Side) {
        let _ = server;
    }

    /// Nothing more will come. `last` is the last segment of the connection.
    fn finish(&mut self, last: At);
}

/// Why bytes are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HoleKind {
    /// Acknowledged by the peer, or passed by later segments while no acknowledgment of the peer
    /// is to be seen: the capture lost them.
    Lost,
    /// Cut off by the capture's snapshot length.
    Truncated,
    /// Never acknowledged by a peer that repeated its acknowledgment of what came before: the
    /// network lost them.
    Unacknowledged,
}

impl HoleKind {
    /// As shown in the details of an anomaly.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost by the capture",
            Self::Truncated => "cut by the snapshot length",
            Self::Unacknowledged => "never acknowledged",
        }
    }
}

/// A connection that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// [`Side::A`]: sender of the SYN (receiver of the SYN-ACK), or of the first packet seen.
    pub a: SocketAddr,
    /// [`Side::B`].
    pub b: SocketAddr,
    /// Whether the start (SYN or SYN-ACK) was captured, as far as is known at the first byte.
    pub syn: bool,
    /// The first packet.
    pub first: At,
}

/// Bytes of one input that its connections lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holes {
    /// How many holes.
    pub holes: u64,
    /// Bytes in them.
    pub bytes: u64,
}
