//! The key of a connection.

use crate::model::packet::Segment;
use std::{
    hash::{Hash, Hasher},
    net::SocketAddr,
};

/// An unordered pair of ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair(SocketAddr, SocketAddr);

impl Pair {
    /// The pair of a segment's ends.
    #[must_use]
    pub fn of(segment: &Segment) -> Self {
        Self::and_direction(segment).0
    }

    /// The pair of a segment's ends, and whether the sender is the second of them.
    #[inline]
    pub(super) fn and_direction(segment: &Segment) -> (Self, bool) {
        let (source, destination) = (segment.source, segment.destination);
        let ordered = match (word(&source), word(&destination)) {
            (Some(source), Some(destination)) => source <= destination,
            _ => source <= destination,
        };
        if ordered {
            (Self(source, destination), false)
        } else {
            (Self(destination, source), true)
        }
    }
}

/// Every packet is looked up by its pair, several times: what is derived takes an address apart byte by byte.
impl Hash for Pair {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        for end in [&self.0, &self.1] {
            match end {
                SocketAddr::V4(_) => state.write_u64(word(end).unwrap_or_default()),
                SocketAddr::V6(end) => {
                    state.write_u128(end.ip().to_bits());
                    state.write_u16(end.port());
                }
            }
        }
    }
}

/// Address and port of IPv4 as one number, in their order.
#[inline]
fn word(end: &SocketAddr) -> Option<u64> {
    match end {
        SocketAddr::V4(end) => Some(u64::from(end.ip().to_bits()) << 16 | u64::from(end.port())),
        SocketAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldhash::fast::FixedState;
    use std::hash::BuildHasher;

    #[test]
    fn both_directions_are_one_pair() {
        for [a, b] in [
            ["10.0.0.1:80", "10.0.0.1:81"],
            ["10.0.0.2:80", "10.0.0.1:81"],
            ["[fe80::1]:80", "[fe80::2]:80"],
            ["[fe80::1]:80", "10.0.0.1:80"],
        ] {
            let (there, sender) = Pair::and_direction(&Segment::between(a, b));
            let (back, receiver) = Pair::and_direction(&Segment::between(b, a));
            assert_eq!(there, back);
            assert_ne!(sender, receiver);
            let hash = |pair| FixedState::default().hash_one(pair);
            assert_eq!(hash(there), hash(back));
            assert_ne!(
                hash(there),
                hash(Pair::of(&Segment::between(a, "10.0.0.9:9")))
            );
        }
    }
}
