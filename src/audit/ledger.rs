//! What a session has been seen to deliver: every id with its payloads, by stream and incarnation.

use super::{
    backend::Backends,
    id::Number,
    order::{Orders, Standing},
};
use crate::model::{
    event::Event,
    exchange::Exchange,
    message::{MessageKind, PayloadHash},
    session::{EventRef, Session},
    time::Timestamp,
};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};

/// The deliveries of one session, in the order its segments opened.
#[derive(Debug)]
pub struct Ledger<'a> {
    session: &'a Session,
    exchanges: &'a [Exchange],
    orders: &'a Orders,
    backends: &'a Backends,
    service: u32,
    by_id: HashMap<&'a str, Vec<Seen>, RandomState>,
    /// The incarnation of each segment; 0 before it was added.
    incarnation_of: Vec<u32>,
    /// For each incarnation, backend and key: where its streams began, and when an id first came with two
    /// payloads.
    counters: BTreeMap<(u32, Option<u32>, Box<str>), Counter>,
}

#[derive(Debug, Default)]
struct Counter {
    /// The first number each stream showed.
    begins: BTreeMap<u32, Number>,
    conflict: Option<Timestamp>,
}

/// One sighting of an id.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Where.
    pub place: EventRef,
    /// The stream of its segment.
    pub stream: u32,
    /// The incarnation of its segment.
    pub incarnation: u32,
    /// When.
    pub time: Timestamp,
    /// The payload.
    pub hash: PayloadHash,
    /// The backend that brought it, when that keeps a log of its own.
    pub backend: Option<u32>,
    /// Whether the payload can be compared: a message, and one that no sanitizer removed.
    pub comparable: bool,
    /// Whether the client got it.
    pub delivered: bool,
}

/// Which deliveries are a cursor's own log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The incarnation.
    pub incarnation: u32,
    /// The stream, unless all streams of the key share one counter.
    pub stream: Option<u32>,
    /// The key of its ids.
    pub key: Box<str>,
    /// All streams of the session share it.
    pub shared: bool,
    /// The backend that keeps it, where that is known.
    pub backend: Option<u32>,
}

impl<'a> Ledger<'a> {
    /// An empty ledger.
    #[must_use]
    pub fn new(
        session: &'a Session,
        service: u32,
        exchanges: &'a [Exchange],
        orders: &'a Orders,
        backends: &'a Backends,
    ) -> Self {
        Self {
            session,
            exchanges,
            orders,
            backends,
            service,
            by_id: HashMap::default(),
            incarnation_of: vec![0; session.segments.len()],
            counters: BTreeMap::new(),
        }
    }

    /// Enters everything a segment brought, under an incarnation. Returns the events whose id came
    /// in this incarnation before, with other payloads only.
    pub fn add(&mut self, segment: u32, incarnation: u32) -> Vec<u32> {
        let mut reused = Vec::new();
        let Some(facts) = self.session.segments.get(segment as usize) else {
            return reused;
        };
        let Some(exchange) = self.exchanges.get(facts.exchange as usize) else {
            return reused;
        };
        if let Some(slot) = self.incarnation_of.get_mut(segment as usize) {
            *slot = incarnation;
        }
        let backend = self.backends.log_of(exchange);
        for (index, event) in exchange.events.iter().enumerate() {
            let Some(id) = event.id.filter(|id| id.len > 0).map(|id| exchange.text(id)) else {
                continue;
            };
            // An id that is the session's own marks many events and names none.
            if *id == *self.session.id {
                continue;
            }
            let seen = Seen {
                place: EventRef {
                    segment,
                    event: u32::try_from(index).unwrap_or(u32::MAX),
                },
                stream: facts.stream,
                incarnation,
                time: event.time,
                hash: event.hash,
                backend,
                comparable: is_comparable(event),
                delivered: event.delivered,
            };
            let before = self.by_id.get(id).map_or(&[][..], Vec::as_slice);
            let here = || {
                before
                    .iter()
                    .filter(|other| other.incarnation == incarnation)
                    .filter(|other| !self.backends.apart(other.backend, backend))
            };
            let conflicts = here().any(|other| differs(other, event));
            if conflicts && !here().any(|other| agrees(other, event)) {
                reused.push(seen.place.event);
            }
            let standing = self.standing(id);
            if let Some(number) = standing.number {
                let counter = self
                    .counters
                    .entry((incarnation, backend, standing.key))
                    .or_default();
                // A stream that begins with a cursor nobody delivered began before the capture did.
                if exchange.cursor().is_none() || counter.begins.contains_key(&facts.stream) {
                    counter.begins.entry(facts.stream).or_insert(number);
                }
                if conflicts && counter.conflict.is_none() {
                    counter.conflict = Some(event.time);
                }
            }
            self.by_id.entry(id).or_default().push(seen);
        }
        reused
    }

    /// Moves a segment to another incarnation: it began a new log after all.
    pub fn reassign(&mut self, segment: u32, incarnation: u32) {
        let exchange = self.session.exchange(segment, self.exchanges);
        for event in exchange.into_iter().flat_map(|exchange| &exchange.events) {
            let id = exchange
                .zip(event.id)
                .map_or("", |(exchange, id)| exchange.text(id));
            if let Some(seen) = self.by_id.get_mut(id) {
                seen.retain(|seen| seen.place.segment != segment);
            }
        }
        self.add(segment, incarnation);
    }

    /// Sightings of an id so far.
    #[must_use]
    pub fn seen(&self, id: &str) -> &[Seen] {
        self.by_id.get(id).map_or(&[], Vec::as_slice)
    }

    /// The incarnation of a segment.
    #[must_use]
    pub fn incarnation(&self, segment: u32) -> u32 {
        self.incarnation_of
            .get(segment as usize)
            .copied()
            .unwrap_or(0)
            .max(1)
    }

    /// The incarnation of a segment, when it was entered already.
    #[must_use]
    pub fn entered(&self, segment: u32) -> Option<u32> {
        self.incarnation_of
            .get(segment as usize)
            .copied()
            .filter(|&incarnation| incarnation > 0)
    }

    /// Numbers strictly between two that other sessions brought, where all sessions of the service
    /// share the counter of `id`.
    pub fn brought_elsewhere(
        &self,
        id: &str,
        from: &Number,
        to: &Number,
    ) -> impl Iterator<Item = u128> + '_ {
        self.orders.shared_between(self.service, id, from, to)
    }

    /// The number of the backend that answered an exchange, when it keeps a log of its own.
    #[must_use]
    pub fn backend(&self, exchange: &Exchange) -> Option<u32> {
        self.backends.log_of(exchange)
    }

    /// Whether two backends are known to keep two logs.
    #[must_use]
    pub fn apart(&self, a: Option<u32>, b: Option<u32>) -> bool {
        self.backends.apart(a, b)
    }

    /// Whether other sessions may draw from the counter of `id`.
    #[must_use]
    pub fn may_be_shared(&self, id: &str) -> bool {
        self.orders.may_be_shared(self.service, id)
    }

    /// Where an id stands in the order of its service.
    #[must_use]
    pub fn standing(&self, id: &str) -> Standing {
        self.orders.standing(self.service, &self.session.id, id)
    }

    /// The log that a cursor delivered on `stream` in `incarnation` belongs to.
    ///
    /// It is the stream's own; the session's when its streams share one counter (streams of one key
    /// do not all begin at the same number) and no id came with two payloads before `delivered`.
    #[must_use]
    pub fn log(
        &self,
        stream: Option<u32>,
        incarnation: u32,
        cursor: &str,
        delivered: Option<Timestamp>,
        backend: Option<u32>,
    ) -> Log {
        let standing = self.standing(cursor);
        let shared = standing.number.is_some()
            && self.shares_counter(incarnation, backend, &standing.key, delivered);
        Log {
            incarnation,
            stream: if shared { None } else { stream },
            key: standing.key,
            shared,
            backend,
        }
    }

    /// Whether the streams of an incarnation draw the numbers of `key` from one counter.
    #[must_use]
    pub fn shares_counter(
        &self,
        incarnation: u32,
        backend: Option<u32>,
        key: &str,
        before: Option<Timestamp>,
    ) -> bool {
        let Some(counter) = self.counters.get(&(incarnation, backend, Box::from(key))) else {
            return false;
        };
        let mut begins = counter.begins.values();
        let first = begins.next();
        let several = begins.any(|number| Some(number) != first);
        let clean = match (counter.conflict, before) {
            (None, _) => true,
            (Some(conflict), Some(before)) => conflict > before,
            (Some(_), None) => false,
        };
        several && clean
    }

    /// Whether a sighting of `id` is of the log.
    #[must_use]
    pub fn is_of(&self, log: &Log, seen: &Seen, id: &str) -> bool {
        if seen.incarnation != log.incarnation || self.backends.apart(seen.backend, log.backend) {
            return false;
        }
        match log.stream {
            Some(stream) => seen.stream == stream,
            None => log.shared && self.standing(id).key == log.key,
        }
    }

    /// Segments of the log that opened so far, with their exchanges.
    pub fn segments_of(&self, log: &Log) -> impl Iterator<Item = (u32, &'a Exchange)> + '_ {
        let log = log.clone();
        self.session
            .segments
            .iter()
            .zip(&self.incarnation_of)
            .enumerate()
            .filter(move |(_, (segment, incarnation))| {
                **incarnation == log.incarnation
                    && (log.shared || log.stream == Some(segment.stream))
            })
            .filter_map(|(index, (segment, _))| {
                let exchange = self.exchanges.get(segment.exchange as usize)?;
                Some((u32::try_from(index).ok()?, exchange))
            })
    }
}

/// Whether an event's payload can be compared with another's.
#[must_use]
pub fn is_comparable(event: &Event) -> bool {
    event.is_message() && event.message != MessageKind::Redacted
}

/// Whether `event` has another payload than `seen` had under the same id.
#[must_use]
pub fn differs(seen: &Seen, event: &Event) -> bool {
    seen.comparable && is_comparable(event) && seen.hash != event.hash
}

/// Whether `event` brings what `seen` brought under the same id.
#[must_use]
pub fn agrees(seen: &Seen, event: &Event) -> bool {
    seen.comparable && is_comparable(event) && seen.hash == event.hash
}
