//! How far the clocks of captures are apart that show the same connections: two taps on one path, say, or
//! two hosts that captured both ends of it.
//!
//! A SYN or SYN-ACK with the same ends and numbers in two captures is one packet, seen twice. How much later
//! the second saw it is the difference of the clocks and the way between the taps. The answer goes the other
//! way: of both together the way is half the difference, and what is left is the clocks' (RFC 5905, section 8),
//! but for what the two ways differ. What a capture shows twice says nothing: which of a packet and its
//! retransmission the other capture shows is not known.

use crate::model::{
    packet::{Segment, TcpFlags},
    place::InputId,
    time::{Span, Timestamp},
};
use foldhash::fast::RandomState;
use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    net::SocketAddr,
};

/// Clocks this close are one: the ways between taps are no more alike.
const CLOSE: Span = Span::from_millis(10);

/// What the handshakes of several captures say of their clocks.
#[derive(Debug)]
pub struct HandshakeClocks {
    /// Handshakes that are remembered at most; of those beyond nothing is learnt.
    limit: usize,
    seen: HashMap<Handshake, Sightings, RandomState>,
}

/// A SYN and its SYN-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Handshake {
    client: SocketAddr,
    server: SocketAddr,
    /// The client's initial sequence number.
    initial: u32,
}

/// Who shows them: the SYN, and the SYN-ACK.
type Sightings = [Vec<Sighting>; 2];

/// An input that shows a packet.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    input: InputId,
    time: Timestamp,
    again: bool,
}

impl HandshakeClocks {
    /// Remembers no more packets than `limit`.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            seen: HashMap::default(),
        }
    }

    /// Takes note of a segment.
    pub fn note(&mut self, segment: &Segment) {
        if !segment.flags.has(TcpFlags::SYN) || segment.flags.has(TcpFlags::RST) {
            return;
        }
        let answers = segment.flags.has(TcpFlags::ACK);
        let handshake = if answers {
            Handshake {
                client: segment.destination,
                server: segment.source,
                initial: segment.acknowledgment.wrapping_sub(1),
            }
        } else {
            Handshake {
                client: segment.source,
                server: segment.destination,
                initial: segment.sequence,
            }
        };
        let full = self.seen.len() >= self.limit;
        let [asks, replies] = match self.seen.entry(handshake) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if full => return,
            Entry::Vacant(new) => new.insert(Sightings::default()),
        };
        let sightings = if answers { replies } else { asks };
        let input = segment.place.input;
        let several = sightings.len() >= TAPS;
        match sightings.iter_mut().find(|seen| seen.input == input) {
            Some(seen) => seen.again = true,
            // A packet on its way passes so many taps at most.
            None if several => {}
            None => sightings.push(Sighting {
                input,
                time: segment.time,
                again: false,
            }),
        }
    }

    /// Inputs whose clocks are ahead of that of another, by how much, and of which: of those that show the
    /// most of the same connections, the first.
    #[must_use]
    pub fn ahead(self) -> BTreeMap<InputId, (Span, InputId)> {
        let mut pairs: BTreeMap<(InputId, InputId), Vec<Span>> = BTreeMap::new();
        for [asks, replies] in self.seen.into_values() {
            let of = |sightings: Vec<Sighting>| -> BTreeMap<InputId, Timestamp> {
                let once = sightings.into_iter().filter(|seen| !seen.again);
                once.map(|seen| (seen.input, seen.time)).collect()
            };
            let (asks, replies) = (of(asks), of(replies));
            // When an input saw both, so to speak.
            let both = asks.iter().filter_map(|(input, ask)| {
                let reply = replies.get(input)?;
                Some((*input, ask.nanos().midpoint(reply.nanos())))
            });
            let both: Vec<(InputId, i64)> = both.collect();
            for (index, (first, early)) in both.iter().enumerate() {
                for (second, late) in both.iter().skip(index + 1) {
                    let later = Span::from_nanos(late.saturating_sub(*early));
                    pairs.entry((*first, *second)).or_default().push(later);
                }
            }
        }
        let mut best: BTreeMap<InputId, (usize, Span, InputId)> = BTreeMap::new();
        for ((first, second), mut later) in pairs {
            let samples = later.len();
            let Some(ahead) = median(&mut later) else {
                continue;
            };
            let (input, of, by) = if ahead.nanos() < 0 {
                (
                    first,
                    second,
                    Span::from_nanos(ahead.nanos().saturating_neg()),
                )
            } else {
                (second, first, ahead)
            };
            if by >= CLOSE && best.get(&input).is_none_or(|(most, ..)| *most < samples) {
                best.insert(input, (samples, by, of));
            }
        }
        best.into_iter()
            .map(|(input, (_, by, of))| (input, (by, of)))
            .collect()
    }
}

/// The middle one; of two in the middle the lesser.
fn median(spans: &mut [Span]) -> Option<Span> {
    spans.sort_unstable();
    spans.get(spans.len().saturating_sub(1) / 2).copied()
}

/// Inputs that are remembered of one packet.
const TAPS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::place::Place;

    const SA: TcpFlags = TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0);

    /// Notes a packet of connection `port` in an input, in milliseconds.
    fn note(clocks: &mut HandshakeClocks, input: u32, ms: i64, port: u16, flags: TcpFlags) {
        let client = SocketAddr::from(([10, 0, 0, 1], port));
        let server = SocketAddr::from(([10, 0, 0, 2], 80));
        let (source, destination) = if flags.has(TcpFlags::ACK) {
            (server, client)
        } else {
            (client, server)
        };
        clocks.note(&Segment {
            time: Timestamp::from_nanos(ms * 1_000_000),
            place: Place {
                input: InputId(input),
                ..Place::default()
            },
            source,
            destination,
            sequence: if flags.has(TcpFlags::ACK) {
                5
            } else {
                u32::from(port) * 77
            },
            acknowledgment: u32::from(port) * 77 + 1,
            flags,
            window: 0,
            missing: 0,
        });
    }

    fn ahead(clocks: HandshakeClocks) -> Vec<(u32, i64, u32)> {
        let ahead = clocks.ahead().into_iter();
        ahead
            .map(|(input, (by, of))| (input.0, by.nanos() / 1_000_000, of.0))
            .collect()
    }

    #[test]
    fn the_way_between_taps_is_no_difference_of_clocks() {
        // 40 ms there, 40 ms back.
        let mut clocks = HandshakeClocks::new(100);
        for (port, at) in [(1, 0), (2, 1000), (3, 2000)] {
            note(&mut clocks, 0, at, port, TcpFlags::SYN);
            note(&mut clocks, 1, at + 40, port, TcpFlags::SYN);
            note(&mut clocks, 1, at + 41, port, SA);
            note(&mut clocks, 0, at + 81, port, SA);
        }
        assert_eq!(ahead(clocks), []);
    }

    #[test]
    fn a_clock_that_is_ahead_is_told_whichever_input_it_is_of() {
        for (skew, expected) in [(500, (1, 500, 0)), (-2000, (0, 2000, 1))] {
            let mut clocks = HandshakeClocks::new(100);
            for (port, at) in [(1, 0), (2, 1000), (3, 2000)] {
                note(&mut clocks, 0, at, port, TcpFlags::SYN);
                note(&mut clocks, 1, at + 40 + skew, port, TcpFlags::SYN);
                note(&mut clocks, 1, at + 41 + skew, port, SA);
                note(&mut clocks, 0, at + 81, port, SA);
            }
            assert_eq!(ahead(clocks), [expected]);
        }
    }

    #[test]
    fn retransmissions_say_nothing_and_neither_does_one_direction() {
        let mut clocks = HandshakeClocks::new(100);
        note(&mut clocks, 0, 0, 1, TcpFlags::SYN);
        note(&mut clocks, 0, 1000, 1, TcpFlags::SYN);
        note(&mut clocks, 1, 1000, 1, TcpFlags::SYN);
        note(&mut clocks, 1, 1001, 1, SA);
        note(&mut clocks, 0, 1001, 1, SA);
        note(&mut clocks, 0, 5000, 2, TcpFlags::SYN);
        note(&mut clocks, 1, 9000, 2, TcpFlags::SYN);
        note(&mut clocks, 1, 9001, 3, TcpFlags::SYN);
        assert_eq!(ahead(clocks), []);
    }

    #[test]
    fn no_more_is_remembered_than_the_limit() {
        let mut clocks = HandshakeClocks::new(2);
        for port in 0..1000 {
            note(&mut clocks, 0, 0, port, TcpFlags::SYN);
        }
        for input in 0..1000 {
            note(&mut clocks, input, 0, 0, TcpFlags::SYN);
        }
        assert_eq!(clocks.seen.len(), 2);
        assert!(
            clocks
                .seen
                .values()
                .flatten()
                .all(|seen| seen.len() <= TAPS)
        );
    }
}
