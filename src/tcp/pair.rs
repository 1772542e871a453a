//! The key of a connection.

use crate::model::packet::Segment;
use std::net::SocketAddr;

/// An unordered pair of ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pair(SocketAddr, SocketAddr);

impl Pair {
    /// The pair of a segment's ends, and whether the sender is the second of them.
    pub(super) fn of(segment: &Segment) -> (Self, bool) {
        let (source, destination) = (segment.source, segment.destination);
        if source <= destination {
            (Self(source, destination), false)
        } else {
            (Self(destination, source), true)
        }
    }
}
