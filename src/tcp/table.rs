//! All connections.

use super::{
    Holes, Opening, Sink,
    connection::{Around, Connection, Taken},
    pair::{Direction, Pair, PairMap, Pairing},
};
use crate::{
    anomaly::{Anomalies, Kind},
    limits::{Limits, OUT_OF_ORDER_SHARE},
    model::{
        packet::{Segment, TcpFlags},
        place::InputId,
        prose::prose,
        time::{Span, Timestamp},
    },
};
use std::collections::BTreeMap;

/// Puts the segments of all connections in order, one [`Sink`] a connection.
///
/// A connection opens with its SYN, or SYN-ACK, or when the middle of one is found, with its first
/// payload. It is let go when both FINs are acknowledged or a reset was seen, after
/// [`Limits::reorder_time`] without packets, so that late copies open no ghost; after
/// [`Limits::idle`] without packets; when a SYN with another number takes its place; and the
/// longest idle one when there are more than [`Limits::connections`], those without payload first. Time is that
/// of the packets.
#[derive(Debug)]
pub struct Table<S> {
    limits: Limits,
    index: PairMap<u32>,
    pairing: Pairing,
    slots: Vec<Slot<S>>,
    free: Vec<u32>,
    queues: [Queue; 3],
    /// Connections begun so far.
    begun: u64,
    previous: Timestamp,
    holes: BTreeMap<InputId, Holes>,
    /// Out-of-order bytes that its connections hold.
    pub(super) held: usize,
}

/// A place in the table, linked into the queue of its [`Stage`].
#[derive(Debug)]
struct Slot<S> {
    connection: Option<Connection<S>>,
    pair: Pair,
    order: u64,
    stage: Stage,
    earlier: u32,
    later: u32,
}

/// Which queue a connection waits in, the longest idle first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No payload was seen: scans and floods of SYNs among them.
    Bare,
    /// Over; lingers for late packets.
    Over,
    Open,
}

/// A doubly linked list of slots, by their numbers.
#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
}

impl<S: Sink> Table<S> {
    /// An empty table.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self::sharing(limits, &Pairing::default())
    }

    /// An empty table with keys by `pairing`.
    #[must_use]
    pub fn sharing(limits: Limits, pairing: &Pairing) -> Self {
        Self {
            limits,
            pairing: pairing.clone(),
            index: PairMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            queues: [Queue::EMPTY; 3],
            begun: 0,
            previous: Timestamp::from_nanos(i64::MIN),
            holes: BTreeMap::new(),
            held: 0,
        }
    }

    /// Takes the next segment of the capture with its payload (without what the snapshot length
    /// cut off: [`Segment::missing`]). `open` makes the sink of a connection that begins, `done`
    /// takes it back after its [`Sink::finish`].
    pub fn push(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        anomalies: &mut Anomalies,
        open: &mut impl FnMut(&Opening) -> S,
        done: &mut impl FnMut(Box<S>),
    ) {
        let direction = self.pairing.of(segment);
        self.push_in(segment, direction, payload, anomalies, open, done);
    }

    /// The same where it is known which pair it is of: by the [`Pairing`] that the table shares.
    pub fn push_in(
        &mut self,
        segment: &Segment,
        direction: Direction,
        payload: &[u8],
        anomalies: &mut Anomalies,
        open: &mut impl FnMut(&Opening) -> S,
        done: &mut impl FnMut(Box<S>),
    ) {
        self.expire(segment.time, anomalies, done);
        let pair = direction.pair(segment);
        let begins = segment.flags.has(TcpFlags::SYN) && !segment.flags.has(TcpFlags::RST);
        let opens = begins || !payload.is_empty() || segment.missing > 0;
        let mut found = self.index.get(&pair).copied();
        if let Some(slot) = found
            && begins
            && self
                .connection(slot)
                .is_some_and(|known| !known.is_opened())
        {
            self.let_go(slot, anomalies, done);
            found = None;
        }
        if found.is_none() && segment.flags.has(TcpFlags::RST) {
            return;
        }
        // Suites differ in whether they take the byte out (RFC 6093); HTTP never sends one.
        if segment.flags.has(TcpFlags::URG) && !payload.is_empty() {
            anomalies.note(Kind::Urgent, segment.place, || {
                prose!("{} to {}", segment.source, segment.destination)
            });
        }
        let slot = match found {
            Some(slot) => slot,
            None => self.begin(pair, segment, anomalies, done),
        };
        match self.give(slot, segment, payload, opens, anomalies, open) {
            Taken::Forgotten => self.let_go(slot, anomalies, done),
            Taken::Replaced => {
                let stale = self.connection(slot).and_then(|old| old.initial());
                self.let_go(slot, anomalies, done);
                let slot = self.begin(pair, segment, anomalies, done);
                if let Some(connection) = self.connection(slot) {
                    connection.replaces(stale);
                }
                self.give(slot, segment, payload, opens, anomalies, open);
            }
            Taken::Open | Taken::Closed => {}
        }
    }

    /// Finishes every connection, in the order of their first packets, and says what is missing.
    pub fn finish(
        mut self,
        anomalies: &mut Anomalies,
        done: &mut impl FnMut(Box<S>),
    ) -> BTreeMap<InputId, Holes> {
        let mut rest: Vec<Slot<S>> = std::mem::take(&mut self.slots);
        rest.retain(|slot| slot.connection.is_some());
        rest.sort_unstable_by_key(|slot| slot.order);
        for connection in rest.into_iter().filter_map(|slot| slot.connection) {
            let mut around = Around {
                limits: &self.limits,
                anomalies,
                holes: &mut self.holes,
                room: self.limits.out_of_order,
            };
            if let Some(sink) = connection.finish(&mut around) {
                done(sink);
            }
        }
        self.holes
    }

    /// What is missing so far, by input.
    #[must_use]
    pub const fn holes(&self) -> &BTreeMap<InputId, Holes> {
        &self.holes
    }

    /// Connections held now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no connection is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Lets go of what has been idle too long. Only the heads of the queues are looked at, and only
    /// the earlier of two packets' times counts: one mad clock must not end every connection.
    fn expire(
        &mut self,
        time: Timestamp,
        anomalies: &mut Anomalies,
        done: &mut impl FnMut(Box<S>),
    ) {
        let now = time.min(self.previous);
        self.previous = time;
        for (stage, patience) in [
            (Stage::Over, self.limits.reorder_time),
            (Stage::Open, self.limits.idle),
            (Stage::Bare, self.limits.idle),
        ] {
            while let Some(slot) = self.idle_since(stage, now, patience) {
                self.let_go(slot, anomalies, done);
            }
        }
    }

    /// The head of a queue, when it has been idle for longer than `patience`.
    fn idle_since(&mut self, stage: Stage, now: Timestamp, patience: Span) -> Option<u32> {
        let slot = self.queue(stage).first;
        let last = self.connection(slot)?.last_time();
        (now.since(last) > patience).then_some(slot)
    }

    /// Hands a segment to its connection, and the connection to the queue it belongs in.
    fn give(
        &mut self,
        slot: u32,
        segment: &Segment,
        payload: &[u8],
        opens: bool,
        anomalies: &mut Anomalies,
        open: &mut impl FnMut(&Opening) -> S,
    ) -> Taken {
        let Some(Slot {
            connection: Some(connection),
            stage,
            ..
        }) = index(slot).and_then(|at| self.slots.get_mut(at))
        else {
            return Taken::Open;
        };
        if opens && !connection.is_opened() {
            connection.open(open(&connection.opening()));
        }
        let free = self.limits.all_out_of_order.saturating_sub(self.held);
        let around = Around {
            limits: &self.limits,
            anomalies,
            holes: &mut self.holes,
            room: self.limits.out_of_order.min(free / OUT_OF_ORDER_SHARE),
        };
        let others = self.held.saturating_sub(connection.held_bytes());
        let taken = connection.push(segment, payload, around);
        self.held = others.saturating_add(connection.held_bytes());
        let before = *stage;
        let after = match taken {
            Taken::Closed => Stage::Over,
            _ if before == Stage::Over => Stage::Over,
            _ if connection.has_carried() => Stage::Open,
            _ => Stage::Bare,
        };
        self.requeue(slot, after);
        taken
    }

    /// Makes room for a connection, and begins it.
    fn begin(
        &mut self,
        pair: Pair,
        segment: &Segment,
        anomalies: &mut Anomalies,
        done: &mut impl FnMut(Box<S>),
    ) -> u32 {
        while self.index.len() >= self.limits.connections.max(1) {
            let Some(&slot) = [Stage::Bare, Stage::Over, Stage::Open]
                .map(|stage| self.queue(stage).first)
                .iter()
                .find(|&&slot| slot != NONE)
            else {
                break;
            };
            if index(slot)
                .and_then(|at| self.slots.get(at))
                .is_some_and(|slot| {
                    let connection = slot.connection.as_ref();
                    let begun = || connection.is_some_and(Connection::is_opened);
                    slot.stage == Stage::Open || slot.stage == Stage::Bare && begun()
                })
            {
                let limit = self.limits.connections;
                anomalies.note(Kind::ConnectionLimit, segment.place, || {
                    prose!("more than {}", limit)
                });
            }
            self.let_go(slot, anomalies, done);
        }
        let new = Slot {
            connection: Some(Connection::new(segment)),
            pair,
            order: self.begun,
            stage: Stage::Bare,
            earlier: NONE,
            later: NONE,
        };
        self.begun += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                if let Some(place) = index(slot).and_then(|at| self.slots.get_mut(at)) {
                    *place = new;
                }
                slot
            }
            None => {
                self.slots.push(new);
                u32::try_from(self.slots.len() - 1).unwrap_or(NONE)
            }
        };
        self.index.insert(pair, slot);
        self.link(slot, Stage::Bare);
        slot
    }

    fn let_go(&mut self, slot: u32, anomalies: &mut Anomalies, done: &mut impl FnMut(Box<S>)) {
        self.unlink(slot);
        let Some(place) = index(slot).and_then(|at| self.slots.get_mut(at)) else {
            return;
        };
        let Some(connection) = place.connection.take() else {
            return;
        };
        self.index.remove(&place.pair);
        self.free.push(slot);
        self.held = self.held.saturating_sub(connection.held_bytes());
        let mut around = Around {
            limits: &self.limits,
            anomalies,
            holes: &mut self.holes,
            room: self.limits.out_of_order,
        };
        if let Some(sink) = connection.finish(&mut around) {
            done(sink);
        }
    }

    fn connection(&mut self, slot: u32) -> Option<&mut Connection<S>> {
        self.slot(slot)?.connection.as_mut()
    }

    fn slot(&mut self, slot: u32) -> Option<&mut Slot<S>> {
        self.slots.get_mut(index(slot)?)
    }

    const fn queue(&mut self, stage: Stage) -> &mut Queue {
        let [bare, over, open] = &mut self.queues;
        match stage {
            Stage::Bare => bare,
            Stage::Over => over,
            Stage::Open => open,
        }
    }

    /// Moves a slot to the end of the queue of `stage`.
    fn requeue(&mut self, slot: u32, stage: Stage) {
        if self.queue(stage).last != slot {
            self.unlink(slot);
            self.link(slot, stage);
        }
    }

    fn link(&mut self, slot: u32, stage: Stage) {
        let queue = self.queue(stage);
        let earlier = std::mem::replace(&mut queue.last, slot);
        if earlier == NONE {
            queue.first = slot;
        } else if let Some(neighbour) = self.slot(earlier) {
            neighbour.later = slot;
        }
        if let Some(own) = self.slot(slot) {
            own.stage = stage;
            own.earlier = earlier;
            own.later = NONE;
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Some(own) = self.slot(slot) else {
            return;
        };
        let (stage, earlier, later) = (own.stage, own.earlier, own.later);
        if earlier == NONE {
            self.queue(stage).first = later;
        } else if let Some(neighbour) = self.slot(earlier) {
            neighbour.later = later;
        }
        if later == NONE {
            self.queue(stage).last = earlier;
        } else if let Some(neighbour) = self.slot(later) {
            neighbour.earlier = earlier;
        }
    }
}

impl Queue {
    const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };
}

fn index(slot: u32) -> Option<usize> {
    usize::try_from(slot).ok()
}

/// No slot.
const NONE: u32 = u32::MAX;
