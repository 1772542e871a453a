//! The key of a connection.

use crate::model::packet::Segment;
use foldhash::fast::RandomState;
use std::{
    hash::{BuildHasher, BuildHasherDefault, Hash, Hasher},
    net::SocketAddr,
};

/// An unordered pair of ends, with its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    hash: u64,
    ends: [SocketAddr; 2],
}

/// Which pair a segment is of, without the ends that the segment has itself.
#[derive(Clone, Copy, Debug)]
pub struct Direction {
    hash: u64,
    /// The sender is the second of the pair.
    turned: bool,
}

/// Makes the keys of connections: whoever shares it finds one connection under one hash, which is worked out once a
/// packet.
#[derive(Clone, Debug, Default)]
pub struct Pairing(RandomState);

/// A map by pairs, which bring their hash.
pub(super) type PairMap<V> = std::collections::HashMap<Pair, V, BuildHasherDefault<Brought>>;

impl Pairing {
    /// Which pair a segment is of, and in which direction.
    #[inline]
    #[must_use]
    pub fn of(&self, segment: &Segment) -> Direction {
        let (source, destination) = (&segment.source, &segment.destination);
        let mut hasher = self.0.build_hasher();
        let turned = match (word(source), word(destination)) {
            (Some(source), Some(destination)) => {
                let turned = source > destination;
                let (first, second) = ordered(source, destination, turned);
                hasher.write_u64(first);
                hasher.write_u64(second);
                turned
            }
            _ => {
                let turned = source > destination;
                let (first, second) = ordered(source, destination, turned);
                first.hash(&mut hasher);
                second.hash(&mut hasher);
                turned
            }
        };
        Direction {
            hash: hasher.finish(),
            turned,
        }
    }
}

impl Direction {
    /// The pair of a segment's ends.
    #[inline]
    pub(super) const fn pair(self, segment: &Segment) -> Pair {
        let ends = if self.turned {
            [segment.destination, segment.source]
        } else {
            [segment.source, segment.destination]
        };
        Pair {
            hash: self.hash,
            ends,
        }
    }

    /// Whether the sender is the second of the pair.
    pub(super) const fn is_turned(self) -> bool {
        self.turned
    }
}

impl Hash for Pair {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A hasher for what brings its hash.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Brought(u64);

impl Hasher for Brought {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A number by which connections are spread over shards: the same for both directions, and in every run.
#[inline]
#[must_use]
pub fn spread(segment: &Segment) -> u64 {
    let fold = |end: &SocketAddr| {
        word(end).unwrap_or_else(|| match end {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(end) => {
                let segments = end.ip().segments().into_iter();
                let folded = segments.fold(0_u64, |sum, one| sum.rotate_left(11) ^ u64::from(one));
                folded.rotate_left(16) ^ u64::from(end.port())
            }
        })
    };
    let sum = fold(&segment.source).wrapping_add(fold(&segment.destination));
    // The golden ratio, as Knuth has it: the high bits depend on all.
    sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

const fn ordered<T: Copy>(one: T, two: T, turned: bool) -> (T, T) {
    if turned { (two, one) } else { (one, two) }
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

    const ENDS: [[&str; 2]; 4] = [
        ["10.0.0.1:80", "10.0.0.1:81"],
        ["10.0.0.2:80", "10.0.0.1:81"],
        ["[fe80::1]:80", "[fe80::2]:80"],
        ["[fe80::1]:80", "10.0.0.1:80"],
    ];

    #[test]
    fn both_directions_are_one_pair() {
        let pairing = Pairing::default();
        for [a, b] in ENDS {
            let (there, back) = (Segment::between(a, b), Segment::between(b, a));
            let other = Segment::between(a, "10.0.0.9:9");
            let [one, two, third] = [&there, &back, &other].map(|segment| pairing.of(segment));
            assert_eq!(one.pair(&there), two.pair(&back));
            assert_ne!(one.is_turned(), two.is_turned());
            assert_ne!(one.pair(&there), third.pair(&other));
            assert_ne!(one.hash, third.hash);
        }
    }

    #[test]
    fn both_directions_go_to_one_shard_in_every_run() {
        for [a, b] in ENDS {
            let there = spread(&Segment::between(a, b));
            assert_eq!(there, spread(&Segment::between(b, a)));
        }
        let shards: std::collections::BTreeSet<u64> = (1..200)
            .map(|port| {
                let client = format!("10.0.0.1:{}", 40_000 + port);
                spread(&Segment::between(&client, "10.0.0.2:80")) % 16
            })
            .collect();
        assert_eq!(shards.len(), 16);
    }
}
