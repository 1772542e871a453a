//! Wireshark's `tcp.stream` numbers.

use super::pair::Pair;
use crate::model::packet::{Segment, TcpFlags};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Wireshark's `tcp.stream` numbers of one file.
///
/// The rule is that of Wireshark 4 (`packet-tcp.c`), whatever the connection really was: a pair of
/// ends gets a number at its first packet; a SYN without ACK starts another one when its sequence
/// number is not the base already set for that direction, or when a FIN or RST was seen since. A
/// direction's base is set by its first packet (the sequence number of a SYN, else one less), or
/// by the acknowledgment of a packet of the other direction (one less).
///
/// Every TCP packet of the file must pass, in order. One entry a pair of ends is kept.
#[derive(Debug, Default)]
pub struct StreamNumbers {
    streams: HashMap<Pair, Stream, RandomState>,
    next: u32,
}

impl StreamNumbers {
    /// Starts a file: the first stream is 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of the stream that `segment` belongs to.
    pub fn number(&mut self, segment: &Segment) -> u32 {
        let (pair, direction) = Pair::of(segment);
        let next = self.next;
        let stream = self
            .streams
            .entry(pair)
            .or_insert_with(|| Stream::new(next));
        let syn = segment.flags.has(TcpFlags::SYN);
        let ack = segment.flags.has(TcpFlags::ACK);
        let [mut own, mut peer] = stream.bases;
        if direction {
            (own, peer) = (peer, own);
        }
        if syn && own.is_some_and(|base| base != segment.sequence) {
            if ack {
                // Wireshark keeps the conversation and takes over the new base, ended or not.
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
        stream.bases = if direction { [peer, own] } else { [own, peer] };
        stream.ended |= segment.flags.has(TcpFlags::FIN) || segment.flags.has(TcpFlags::RST);
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
    /// A FIN or RST was seen.
    ended: bool,
}

impl Stream {
    const fn new(number: u32) -> Self {
        Self {
            number,
            bases: [None; 2],
            ended: false,
        }
    }
}
