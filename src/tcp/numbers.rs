//! Wireshark's `tcp.stream` numbers.

use super::pair::{Direction, PairMap, Pairing};
use crate::model::packet::{Segment, TcpFlags};

/// Wireshark's `tcp.stream` numbers of one file.
///
/// The rule is that of Wireshark (`packet-tcp.c`; compared with 4.0), whatever the connection
/// really was: a pair of ends gets a number at its first packet; a SYN without ACK starts another
/// one when its sequence number is not the base already set for that direction. A direction's base
/// is set by its first packet (the sequence number of a SYN, else one less), or by the
/// acknowledgment of a packet of the other direction (one less), and anew by every SYN-ACK. That a
/// FIN or RST was seen before does not matter.
///
/// Every TCP packet of the file must pass, in order. One entry a pair of ends is kept.
#[derive(Debug, Default)]
pub struct StreamNumbers {
    streams: PairMap<Stream>,
    pairing: Pairing,
    next: u32,
}

impl StreamNumbers {
    /// Starts a file: the first stream is 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with keys by `pairing`.
    #[must_use]
    pub fn sharing(pairing: &Pairing) -> Self {
        Self {
            pairing: pairing.clone(),
            ..Self::default()
        }
    }

    /// The number of the stream that `segment` belongs to.
    pub fn number(&mut self, segment: &Segment) -> u32 {
        let direction = self.pairing.of(segment);
        self.number_in(segment, direction)
    }

    /// The same where it is known which pair it is of: by the [`Pairing`] of this file's other segments.
    pub fn number_in(&mut self, segment: &Segment, direction: Direction) -> u32 {
        let pair = direction.pair(segment);
        let turned = direction.is_turned();
        let next = self.next;
        let stream = self
            .streams
            .entry(pair)
            .or_insert_with(|| Stream::new(next));
        let syn = segment.flags.has(TcpFlags::SYN);
        let ack = segment.flags.has(TcpFlags::ACK);
        let [mut own, mut peer] = stream.bases;
        if turned {
            (own, peer) = (peer, own);
        }
        if syn && own.is_some_and(|base| base != segment.sequence) {
            if ack {
                // The conversation stays, and takes over the new base.
                own = Some(segment.sequence);
            } else {
                *stream = Stream::new(next);
                (own, peer) = (None, None);
            }
        }
        own.get_or_insert(if syn {
            segment.sequence
        } else {
            segment.sequence.wrapping_sub(1)
        });
        if ack {
            peer.get_or_insert(segment.acknowledgment.wrapping_sub(1));
        }
        stream.bases = if turned { [peer, own] } else { [own, peer] };
        if stream.number == next {
            self.next = next.saturating_add(1);
        }
        stream.number
    }

    /// How many streams there are so far.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.next
    }

    /// Whether no packet was seen.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.next == 0
    }
}

/// What is known of the newest stream of a pair.
#[derive(Debug)]
struct Stream {
    number: u32,
    /// Base sequence numbers, in the order of the pair's ends.
    bases: [Option<u32>; 2],
}

impl Stream {
    const fn new(number: u32) -> Self {
        Self {
            number,
            bases: [None; 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{place::Place, time::Timestamp};

    fn numbers(packets: &[(u16, u16, u32, u32, u8)]) -> Vec<u32> {
        let mut numbers = StreamNumbers::new();
        assert!(numbers.is_empty());
        let found = packets
            .iter()
            .map(|&(from, to, sequence, acknowledgment, flags)| {
                numbers.number(&Segment {
                    time: Timestamp::default(),
                    place: Place::default(),
                    source: ([10, 0, 0, 1], from).into(),
                    destination: ([10, 0, 0, 1], to).into(),
                    sequence,
                    acknowledgment,
                    flags: TcpFlags(flags),
                    window: 0,
                    missing: 0,
                })
            })
            .collect::<Vec<_>>();
        assert_eq!(numbers.len(), found.iter().max().map_or(0, |last| last + 1));
        found
    }

    // The expected numbers are tshark's for the same packets.

    #[test]
    fn both_directions_are_one_stream() {
        let found = numbers(&[
            (1, 2, 100, 0, 0x02),
            (3, 2, 100, 0, 0x02),
            (2, 1, 300, 101, 0x12),
            (1, 2, 101, 301, 0x10),
            (2, 3, 0, 101, 0x14),
        ]);
        assert_eq!(found, [0, 1, 0, 0, 1]);
    }

    #[test]
    fn a_syn_with_another_base_is_another_stream() {
        let found = numbers(&[
            (1, 2, 100, 0, 0x02),
            (1, 2, 100, 0, 0x02),
            (1, 2, 200, 0, 0x02),
            (2, 1, 300, 201, 0x12),
            (1, 2, 100, 0, 0x02),
        ]);
        assert_eq!(found, [0, 0, 1, 1, 2]);
    }

    #[test]
    fn a_base_is_also_set_by_data_and_by_acknowledgments() {
        let found = numbers(&[
            (1, 2, 101, 501, 0x10),
            (1, 2, 100, 0, 0x02),
            (2, 1, 500, 0, 0x02),
            (2, 1, 501, 0, 0x02),
        ]);
        assert_eq!(found, [0, 0, 0, 1]);
    }

    #[test]
    fn a_syn_ack_keeps_the_stream_and_moves_the_base() {
        let found = numbers(&[
            (2, 1, 300, 101, 0x12),
            (2, 1, 400, 101, 0x12),
            (2, 1, 400, 0, 0x02),
            (2, 1, 300, 0, 0x02),
        ]);
        assert_eq!(found, [0, 0, 0, 1]);
    }

    #[test]
    fn a_reset_does_not_end_a_stream() {
        let found = numbers(&[
            (1, 2, 100, 0, 0x02),
            (2, 1, 0, 101, 0x14),
            (1, 2, 100, 0, 0x02),
        ]);
        assert_eq!(found, [0, 0, 0]);
    }
}
