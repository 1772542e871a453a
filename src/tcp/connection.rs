//! One connection: two flows, and how they begin and end.

use super::{
    Holes, Opening, Sink,
    flow::{Fin, Fit, Flow, Out, Reset, Seen, Start},
};
use crate::{
    anomaly::{Anomalies, Kind},
    limits::Limits,
    model::{
        flow::Side,
        packet::{Segment, TcpFlags},
        place::InputId,
        prose::prose,
        time::Timestamp,
    },
};
use std::{collections::BTreeMap, net::SocketAddr};

/// One connection. Without a sink, it is a start in the middle of which no payload was seen yet:
/// perhaps only the leftovers of one that is gone.
#[derive(Debug)]
pub(super) struct Connection<S> {
    a: SocketAddr,
    b: SocketAddr,
    flows: [Flow; 2],
    /// Apart, for a flood of SYNs has none.
    sink: Option<Box<S>>,
    first: Seen,
    last: Seen,
    /// A SYN of this connection was seen.
    syn: bool,
    /// The initial sequence number of the connection that this one replaced, and its sender: a
    /// late copy of that SYN is no new connection.
    stale: Option<(SocketAddr, u32)>,
}

/// What a segment means for the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The connection goes on.
    Open,
    /// Nothing but leftovers is to come.
    Closed,
    /// The connection is over, and the segment begins another one.
    Replaced,
    /// There is nothing to remember.
    Forgotten,
}

/// What a connection uses of the table.
pub(super) struct Around<'a> {
    pub(super) limits: &'a Limits,
    pub(super) anomalies: &'a mut Anomalies,
    pub(super) holes: &'a mut BTreeMap<InputId, Holes>,
    /// Out-of-order bytes that a direction may hold.
    pub(super) room: usize,
}

impl<S: Sink> Connection<S> {
    /// A connection whose first packet is `segment`, without a sink as yet.
    pub(super) fn new(segment: &Segment) -> Self {
        let seen = Seen {
            time: segment.time,
            place: segment.place,
        };
        let answer = segment.flags.has(TcpFlags::SYN) && segment.flags.has(TcpFlags::ACK);
        let (a, b) = if answer {
            (segment.destination, segment.source)
        } else {
            (segment.source, segment.destination)
        };
        Self {
            a,
            b,
            flows: [Flow::new(Side::A), Flow::new(Side::B)],
            sink: None,
            first: seen,
            last: seen,
            syn: segment.flags.has(TcpFlags::SYN),
            stale: None,
        }
    }

    /// The initial sequence number of a connection, and its sender, for the one that replaces it.
    pub(super) fn initial(&self) -> Option<(SocketAddr, u32)> {
        let [a, _] = &self.flows;
        (a.start() == Start::Syn).then(|| (self.a, a.first_sequence().wrapping_sub(1)))
    }

    /// Remembers the connection that this one replaced.
    pub(super) const fn replaces(&mut self, stale: Option<(SocketAddr, u32)>) {
        self.stale = stale;
    }

    /// The ends, in the order of the first packet.
    pub(super) const fn opening(&self) -> Opening {
        Opening {
            a: self.a,
            b: self.b,
            syn: self.syn,
            first: self.first.at(0),
        }
    }

    pub(super) const fn is_opened(&self) -> bool {
        self.sink.is_some()
    }

    pub(super) fn open(&mut self, sink: S) {
        self.sink = Some(Box::new(sink));
    }

    /// Whether bytes of it were seen.
    pub(super) fn has_carried(&self) -> bool {
        self.is_opened() && self.flows.iter().any(Flow::has_data)
    }

    /// Memory of the bytes that wait for others.
    pub(super) fn held_bytes(&self) -> usize {
        let [a, b] = &self.flows;
        a.held_bytes().saturating_add(b.held_bytes())
    }

    /// Time of the last packet.
    pub(super) const fn last_time(&self) -> Timestamp {
        self.last.time
    }

    /// Takes one segment. On [`Taken::Replaced`] nothing of it was used.
    pub(super) fn push(&mut self, segment: &Segment, payload: &[u8], around: Around<'_>) -> Taken {
        let seen = Seen {
            time: segment.time,
            place: segment.place,
        };
        let side = if segment.source == self.a {
            Side::A
        } else {
            Side::B
        };
        let [a, b] = &mut self.flows;
        let (own, peer) = match side {
            Side::A => (a, b),
            Side::B => (b, a),
        };
        let Around {
            limits,
            anomalies,
            holes,
            room,
        } = around;
        let mut out = self.sink.as_deref_mut().map(|sink| Out {
            sink,
            limits,
            anomalies,
            holes,
            room,
        });
        let Some(sinking) = &mut out else {
            self.last = seen;
            return note_ends(own, peer, segment, seen, &mut out);
        };
        if segment.flags.has(TcpFlags::RST) {
            self.last = seen;
            let taken = reset(own, peer, side, segment, seen, sinking);
            finish_flows(&mut self.flows, sinking);
            return taken;
        }
        own.tick(seen.time, sinking);
        peer.tick(seen.time, sinking);
        let mut sequence = segment.sequence;
        if segment.flags.has(TcpFlags::SYN) {
            sequence = sequence.wrapping_add(1);
            let stale = self.stale == Some((segment.source, segment.sequence));
            match handshake(own, peer, segment, stale, sinking) {
                Handshake::Ours => self.syn = true,
                Handshake::Other => return Taken::Replaced,
                Handshake::Leftover => {
                    self.last = seen;
                    return state(&self.flows);
                }
            }
        }
        if own.start() == Start::Unknown {
            let carries = !payload.is_empty() || segment.missing > 0;
            own.anchor(sequence, if carries { Start::Guessed } else { Start::Own });
        }
        let size = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        match own.fit(sequence, size) {
            Fit::Ours => {}
            Fit::Stray => {
                self.last = seen;
                return state(&self.flows);
            }
            Fit::Foreign => return Taken::Replaced,
        }
        self.last = seen;
        let position = own.position(sequence);
        let missing = if segment.missing <= LARGEST {
            u64::from(segment.missing)
        } else {
            0
        };
        let mut acknowledges = None;
        if segment.flags.has(TcpFlags::ACK) {
            if size > 0 || missing > 0 {
                peer.answered(segment.acknowledgment, sinking);
            }
            peer.acknowledge(segment.acknowledgment, seen, &mut out);
            acknowledges = Some(peer.position(segment.acknowledgment));
        }
        let Some(out) = &mut out else {
            return Taken::Open;
        };
        let end = position
            .saturating_add(u64::from(size))
            .saturating_add(missing);
        own.bytes(position, payload, missing, seen, out);
        if segment.flags.has(TcpFlags::FIN) {
            own.fin(end, Fin { seen, acknowledges });
        }
        own.settle(end, seen, out);
        finish_flows(&mut self.flows, out);
        state(&self.flows)
    }

    /// Ends the connection: what still waits is handed over, what is missing is declared. Gives
    /// back the sink, when there is one.
    pub(super) fn finish(mut self, around: &mut Around<'_>) -> Option<Box<S>> {
        let mut sink = self.sink?;
        let mut out = Out {
            sink: &mut *sink,
            limits: around.limits,
            anomalies: around.anomalies,
            holes: around.holes,
            room: around.room,
        };
        if !self.syn {
            let (a, b) = (self.a, self.b);
            out.anomalies.note(Kind::Midstream, self.first.place, || {
                prose!("{} and {}", a, b)
            });
        }
        // In the order in which things were seen, so that an answer does not overtake its request.
        loop {
            let [a, b] = &mut self.flows;
            let (earlier, until) = match (a.awaited(), b.awaited()) {
                (None, None) => break,
                (Some(_), None) => (a, None),
                (None, Some(_)) => (b, None),
                (Some(one), Some(two)) if one.is_after(two) => (b, Some(one)),
                (Some(_), Some(two)) => (a, Some(two)),
            };
            earlier.flush(self.last, until, &mut out);
            finish_flows(&mut self.flows, &mut out);
        }
        for flow in &mut self.flows {
            flow.flush(self.last, None, &mut out);
        }
        finish_flows(&mut self.flows, &mut out);
        let [a, b] = &self.flows;
        if a.start() == Start::Syn && b.start() == Start::Unknown && !b.is_reset() {
            sink.unanswered(Side::B);
        }
        sink.finish(self.last.at(0));
        Some(sink)
    }
}

enum Handshake {
    /// A SYN of this connection.
    Ours,
    /// The SYN of another one.
    Other,
    /// A late copy of a SYN of a former connection.
    Leftover,
}

/// Notes what a segment without payload says of where data begins.
fn note_ends<S: Sink>(
    own: &mut Flow,
    peer: &mut Flow,
    segment: &Segment,
    seen: Seen,
    out: &mut Option<Out<'_, S>>,
) -> Taken {
    if segment.flags.has(TcpFlags::RST) {
        return Taken::Forgotten;
    }
    if own.start() == Start::Unknown {
        own.anchor(segment.sequence, Start::Own);
    }
    if segment.flags.has(TcpFlags::ACK) {
        peer.acknowledge(segment.acknowledgment, seen, out);
    }
    Taken::Open
}

/// Takes a SYN or SYN-ACK (RFC 9293, section 3.5).
fn handshake<S: Sink>(
    own: &mut Flow,
    peer: &mut Flow,
    segment: &Segment,
    stale: bool,
    out: &mut Out<'_, S>,
) -> Handshake {
    let first = segment.sequence.wrapping_add(1);
    let answer = segment.flags.has(TcpFlags::ACK);
    // Whether a SYN-ACK answers what the peer said.
    let answers = answer && (peer.start() == Start::Unknown || peer.covers(segment.acknowledgment));
    match own.start() {
        Start::Unknown if answer && !answers => Handshake::Leftover,
        Start::Unknown => {
            own.anchor(first, Start::Syn);
            Handshake::Ours
        }
        Start::Syn if own.first_sequence() == first => {
            // Refused before, and tried again with the same number: as a retransmission, but of a
            // connection that is over.
            let refused = peer.is_reset() && !own.has_data() && !peer.has_data();
            if refused && !answer {
                Handshake::Other
            } else {
                Handshake::Ours
            }
        }
        _ if stale => Handshake::Leftover,
        Start::Syn | Start::Told | Start::Own | Start::Guessed => {
            if own.start() != Start::Syn && own.adopt_syn(first, out) {
                Handshake::Ours
            } else if !answer {
                Handshake::Other
            } else if !answers {
                // Of a connection whose SYN was not captured. Before anything was exchanged it is
                // rather a leftover itself.
                if own.has_data() || peer.has_data() {
                    Handshake::Other
                } else {
                    Handshake::Leftover
                }
            } else if !own.is_untouched() {
                Handshake::Leftover
            } else {
                own.anchor(first, Start::Syn);
                Handshake::Ours
            }
        }
    }
}

/// Takes a reset (RFC 9293, section 3.5.3): believed when the peer would believe it.
fn reset<S: Sink>(
    own: &mut Flow,
    peer: &mut Flow,
    side: Side,
    segment: &Segment,
    seen: Seen,
    out: &mut Out<'_, S>,
) -> Taken {
    let ack = segment.flags.has(TcpFlags::ACK);
    // An end that has said nothing answers a SYN: only the acknowledgment can be right.
    let answers = ack && !own.has_data() && peer.covers(segment.acknowledgment);
    let refuses = match own.start() {
        Start::Unknown => answers,
        Start::Told => answers && segment.sequence == 0,
        Start::Own | Start::Guessed | Start::Syn => false,
    };
    if !refuses && (own.start() == Start::Unknown || !own.believes_reset(segment.sequence)) {
        out.anomalies.note(Kind::RstOutOfWindow, seen.place, || {
            prose!("side {}, sequence number {}", side.name(), segment.sequence)
        });
        return Taken::Open;
    }
    if own.is_reset() {
        return Taken::Closed;
    }
    let sequence = if refuses && own.start() == Start::Told {
        own.first_sequence()
    } else {
        segment.sequence
    };
    if ack {
        peer.was_got(segment.acknowledgment, seen);
    }
    let offset = own.reset(sequence, out);
    let acknowledges = (ack && peer.start() != Start::Unknown).then(|| {
        peer.commit(out);
        peer.offset(peer.position(segment.acknowledgment))
    });
    // Of two resets the first comes first, whatever it waits for.
    if let Some(first) = peer.take_reset(true) {
        out.sink.rst(side.other(), first.acknowledges, first.at);
    }
    own.keep_reset(Reset {
        acknowledges,
        at: seen.at(offset),
    });
    own.settle(own.position(sequence), seen, out);
    Taken::Closed
}

/// Hands over the FINs and resets whose turn it is.
fn finish_flows<S: Sink>(flows: &mut [Flow; 2], out: &mut Out<'_, S>) {
    let [a, b] = flows;
    for side in [Side::A, Side::B] {
        let (own, peer) = match side {
            Side::A => (&mut *a, &mut *b),
            Side::B => (&mut *b, &mut *a),
        };
        if let Some((fin, offset)) = own.take_fin() {
            let acknowledges = fin.acknowledges.map(|position| {
                peer.commit(out);
                peer.offset(position)
            });
            out.sink.fin(side, acknowledges, fin.seen.at(offset));
        }
        if let Some(reset) = own.take_reset(false) {
            out.sink.rst(side, reset.acknowledges, reset.at);
        }
    }
}

fn state(flows: &[Flow; 2]) -> Taken {
    let [a, b] = flows;
    if a.is_reset() || b.is_reset() || a.is_closed() && b.is_closed() {
        Taken::Closed
    } else {
        Taken::Open
    }
}

/// Largest number of cut-off bytes that is believed; above it, the gap is found by what follows.
const LARGEST: u32 = 1 << 20;
