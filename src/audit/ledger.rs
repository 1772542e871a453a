//! What a session has been seen to deliver: every id with its payloads, by stream and incarnation.

use super::{
    backend::Backends,
    id::Number,
    order::{Key, Orders, Standing},
    sighting::{Scope, Seen, Sightings},
};
use crate::model::{
    event::Event,
    exchange::Exchange,
    message::{MessageKind, PayloadHash},
    session::{EventRef, Session},
    time::Timestamp,
    verdict::IdScheme,
};
use foldhash::fast::RandomState;
use std::{
    cell::{Cell, OnceCell},
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound::Excluded,
};

/// The deliveries of one session, in the order its segments opened.
#[derive(Debug)]
pub struct Ledger<'a> {
    session: &'a Session,
    exchanges: &'a [Exchange],
    orders: &'a Orders,
    backends: &'a Backends,
    service: u32,
    by_id: HashMap<&'a str, Known, RandomState>,
    /// The messages of each stream and incarnation that brought something: those without an id, and
    /// the first of each id.
    fresh: BTreeMap<(u32, u32), Fresh<'a>>,
    /// How many segments of an incarnation and stream have a hole.
    torn: BTreeMap<(u32, u32), u32>,
    /// Who brings which number of a key, in all the session; made when it is asked for first.
    bringers: OnceCell<Bringers>,
    /// The numbers of all keys, where the session counts over all of them: none stands under two.
    /// Made when it is asked for first.
    over_keys: OnceCell<BTreeSet<Number>>,
    /// The incarnation of each segment; 0 before it was added.
    incarnation_of: Vec<u32>,
    /// Deliveries that resumes were held against so far.
    looks: Cell<u64>,
    /// How many they may be held against.
    looks_allowed: u64,
    /// Segments that answered a resume of which nothing could be said.
    unjudged: BTreeSet<u32>,
    /// For each incarnation, backend and key: where its streams began, and when an id first came with two
    /// payloads.
    counters: BTreeMap<(u32, Option<u32>, Key), Counter>,
}

/// What is known of an id.
#[derive(Debug)]
struct Known {
    sightings: Sightings,
    /// Where it stands; asked for several times of each.
    standing: Standing,
}

#[derive(Debug, Default)]
struct Counter {
    /// The first number each stream showed.
    begins: BTreeMap<u32, Number>,
    /// Two of them differ.
    several: bool,
    conflict: Option<Timestamp>,
}

/// The segments that bring each number of each key.
type Bringers = BTreeMap<Key, BTreeMap<Number, Vec<u32>>>;

#[derive(Debug, Default)]
struct Fresh<'a> {
    /// Where, and the first time that its id came.
    messages: Vec<(EventRef, Timestamp)>,
    by_id: HashMap<&'a str, usize, RandomState>,
}

impl<'a> Fresh<'a> {
    fn add(&mut self, place: EventRef, event: &Event, id: Option<&'a str>) {
        if !event.is_message() {
            return;
        }
        if let Some(id) = id {
            let new = self.messages.len();
            let known = *self.by_id.entry(id).or_insert(new);
            if let Some((_, time)) = self.messages.get_mut(known) {
                *time = event.time.min(*time);
                return;
            }
        }
        self.messages.push((place, event.time));
    }
}

/// Which deliveries are a cursor's own log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The incarnation.
    pub incarnation: u32,
    /// The stream, unless all streams of the key share one counter.
    pub stream: Option<u32>,
    /// The key of its ids.
    pub key: Key,
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
        looks_allowed: u64,
    ) -> Self {
        Self {
            session,
            exchanges,
            orders,
            backends,
            service,
            by_id: HashMap::default(),
            fresh: BTreeMap::new(),
            torn: BTreeMap::new(),
            bringers: OnceCell::new(),
            over_keys: OnceCell::new(),
            incarnation_of: vec![0; session.segments.len()],
            looks: Cell::new(0),
            looks_allowed,
            unjudged: BTreeSet::new(),
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
        if exchange.body_has_hole() {
            *self.torn.entry((incarnation, facts.stream)).or_default() += 1;
        }
        let fresh = self.fresh.entry((facts.stream, incarnation)).or_default();
        enter_fresh(fresh, segment, exchange, &self.session.id);
        let backend = self.backends.log_of(exchange);
        // The key of which this stream's first number is known.
        let mut known: Option<Key> = None;
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
                message: event.is_message(),
                comparable: is_comparable(&event),
                delivered: event.delivered,
            };
            let known_id = self.by_id.entry(id).or_insert_with(|| Known {
                sightings: Sightings::default(),
                standing: self.orders.standing(self.service, &self.session.id, id),
            });
            let before = &mut known_id.sightings;
            let here = Scope::incarnation(incarnation);
            let of_log = |other: &Seen| !self.backends.apart(other.backend, backend);
            let conflicts = before
                .within(here)
                .any(|other| of_log(other) && differs(other, &event));
            let agree = |other: &Seen| of_log(other) && agrees(other, &event);
            if conflicts && !before.with_payload(here, event.hash).any(agree) {
                reused.push(seen.place.event);
            }
            before.add(seen);
            let standing = &known_id.standing;
            if !conflicts && known.as_ref() == Some(&standing.key) {
                continue;
            }
            if let Some(number) = &standing.number {
                let counter = self
                    .counters
                    .entry((incarnation, backend, standing.key.clone()))
                    .or_default();
                // A stream that begins with a cursor nobody delivered began before the capture did.
                if exchange.cursor().is_none() || counter.begins.contains_key(&facts.stream) {
                    counter.several |=
                        counter.begins.first_key_value().is_some_and(|(_, first)| {
                            first != number && !counter.begins.contains_key(&facts.stream)
                        });
                    let begins = counter.begins.entry(facts.stream);
                    begins.or_insert_with(|| number.clone());
                    known = Some(standing.key.clone());
                }
                if conflicts && counter.conflict.is_none() {
                    counter.conflict = Some(event.time);
                }
            }
        }
        reused
    }

    /// Moves a segment to another incarnation: it began a new log after all.
    pub fn reassign(&mut self, segment: u32, incarnation: u32) {
        let Some(facts) = self.session.segments.get(segment as usize) else {
            return;
        };
        let Some(exchange) = self.exchanges.get(facts.exchange as usize) else {
            return;
        };
        let ids = || {
            exchange
                .events
                .iter()
                .filter_map(|event| event.id)
                .map(|id| exchange.text(id))
        };
        for id in ids().collect::<BTreeSet<_>>() {
            if let Some(known) = self.by_id.get_mut(id) {
                known.sightings.forget(segment);
            }
        }
        if let Some(before) = self.entered(segment) {
            if exchange.body_has_hole()
                && let Some(torn) = self.torn.get_mut(&(before, facts.stream))
            {
                *torn = torn.saturating_sub(1);
            }
            self.read_again(facts.stream, before, segment);
        }
        self.add(segment, incarnation);
        for id in ids().collect::<BTreeSet<_>>() {
            if let Some(known) = self.by_id.get_mut(id) {
                known.sightings.sort();
            }
        }
    }

    /// Enters what is fresh on a stream in an incarnation anew, without one segment.
    fn read_again(&mut self, stream: u32, incarnation: u32, without: u32) {
        let mut fresh = Fresh::default();
        let segments = self.session.streams.get(stream as usize);
        for &segment in segments.into_iter().flat_map(|stream| &stream.segments) {
            if segment != without
                && self.entered(segment) == Some(incarnation)
                && let Some(exchange) = self.session.exchange(segment, self.exchanges)
            {
                enter_fresh(&mut fresh, segment, exchange, &self.session.id);
            }
        }
        self.fresh.insert((stream, incarnation), fresh);
    }

    /// Takes note that nothing could be said of the resume that a segment answers: which log brought
    /// its events is not known, whatever incarnation they are entered under.
    pub fn leave_unjudged(&mut self, segment: u32) {
        self.unjudged.insert(segment);
    }

    /// Whether nothing could be said of the resume that a segment answers.
    #[must_use]
    pub fn is_unjudged(&self, segment: u32) -> bool {
        self.unjudged.contains(&segment)
    }

    /// Sightings of an id so far.
    #[must_use]
    pub fn seen(&self, id: &str) -> Option<&Sightings> {
        Some(&self.by_id.get(id)?.sightings)
    }

    /// Sightings of an id so far that are of a log; repetitions may be left out.
    pub fn seen_on<'l>(
        &'l self,
        log: &Log,
        id: &str,
    ) -> impl Iterator<Item = &'l Seen> + use<'l, 'a> {
        let backend = log.backend;
        self.of_log(log, id)
            .into_iter()
            .flat_map(|(seen, scope)| seen.within(scope))
            .filter(move |seen| !self.backends.apart(seen.backend, backend))
    }

    /// Those of them that can be compared and have this payload.
    pub fn seen_alike_on<'l>(
        &'l self,
        log: &Log,
        id: &str,
        hash: PayloadHash,
    ) -> impl Iterator<Item = &'l Seen> + use<'l, 'a> {
        let backend = log.backend;
        self.of_log(log, id)
            .into_iter()
            .flat_map(move |(seen, scope)| seen.with_payload(scope, hash))
            .filter(move |seen| !self.backends.apart(seen.backend, backend))
    }

    fn of_log(&self, log: &Log, id: &str) -> Option<(&Sightings, Scope)> {
        let known = self.by_id.get(id)?;
        let of_log = log.stream.is_some() || log.shared && known.standing.key == log.key;
        let scope = Scope {
            incarnation: Some(log.incarnation),
            stream: log.stream,
        };
        of_log.then_some((&known.sightings, scope))
    }

    /// The messages of a stream in an incarnation that stand behind `origin`: those without an id, and
    /// the first of each id, with the time when that came first.
    #[must_use]
    pub fn fresh_after(
        &self,
        stream: u32,
        incarnation: u32,
        origin: EventRef,
    ) -> &[(EventRef, Timestamp)] {
        let messages = self
            .fresh
            .get(&(stream, incarnation))
            .map_or(&[][..], |fresh| fresh.messages.as_slice());
        let place = messages.partition_point(|(place, _)| *place <= origin);
        messages.get(place..).unwrap_or(&[])
    }

    /// Takes note that a resume was held against so many deliveries.
    pub fn look(&self, deliveries: usize) {
        let looks = self.looks.get().saturating_add(deliveries as u64);
        self.looks.set(looks);
    }

    /// Whether resumes were held against as many deliveries as they may be
    /// ([`Limits::history_looks`](crate::limits::Limits::history_looks)).
    #[must_use]
    pub const fn is_worn(&self) -> bool {
        self.looks.get() > self.looks_allowed
    }

    /// Numbers of a key strictly between two, with the segments of the session that bring them,
    /// sooner or later.
    pub fn bringers(
        &self,
        key: &str,
        from: &Number,
        to: &Number,
    ) -> impl Iterator<Item = (&Number, &[u32])> {
        let bringers = self.bringers.get_or_init(|| self.find_bringers());
        bringers
            .get(key)
            .filter(|_| from < to)
            .into_iter()
            .flat_map(move |numbers| numbers.range((Excluded(from), Excluded(to))))
            .map(|(number, segments)| (number, segments.as_slice()))
    }

    fn find_bringers(&self) -> Bringers {
        let mut bringers = Bringers::new();
        for (index, segment) in (0..).zip(&self.session.segments) {
            let Some(exchange) = self.exchanges.get(segment.exchange as usize) else {
                continue;
            };
            for id in exchange.events.iter().filter_map(|event| event.id) {
                let standing = self.standing(exchange.text(id));
                if let Some(number) = standing.number.filter(|_| id.len > 0) {
                    let by_number = bringers.entry(standing.key).or_default();
                    let segments = by_number.entry(number).or_default();
                    if segments.last() != Some(&index) {
                        segments.push(index);
                    }
                }
            }
        }
        bringers
    }

    /// Numbers strictly between two that the session brings under any key, sooner or later; none
    /// unless it counts over all keys: no number of it stands under two.
    pub fn brought_under_any_key(
        &self,
        from: &Number,
        to: &Number,
    ) -> impl Iterator<Item = &Number> {
        let numbers = self.over_keys.get_or_init(|| self.find_over_keys());
        (from < to)
            .then(|| numbers.range((Excluded(from), Excluded(to))))
            .into_iter()
            .flatten()
    }

    fn find_over_keys(&self) -> BTreeSet<Number> {
        let mut key_of: BTreeMap<Number, Key> = BTreeMap::new();
        for segment in &self.session.segments {
            let Some(exchange) = self.exchanges.get(segment.exchange as usize) else {
                continue;
            };
            for id in exchange.events.iter().filter_map(|event| event.id) {
                let standing = self.standing(exchange.text(id));
                if !matches!(standing.scheme, IdScheme::Dense | IdScheme::Sparse) {
                    continue;
                }
                let Some(number) = standing.number else {
                    continue;
                };
                match key_of.get(&number) {
                    Some(key) if *key != standing.key => return BTreeSet::new(),
                    Some(_) => {}
                    None => {
                        key_of.insert(number, standing.key);
                    }
                }
            }
        }
        key_of.into_keys().collect()
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

    /// Whether backends keep logs of their own, and which of them answered is not known.
    #[must_use]
    pub fn hides_backend(&self, exchange: &Exchange) -> bool {
        self.backends.hides(exchange)
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
        match self.by_id.get(id) {
            Some(known) => known.standing.clone(),
            None => self.orders.standing(self.service, &self.session.id, id),
        }
    }

    /// How ids of its kind are ordered.
    #[must_use]
    pub fn scheme(&self, id: &str) -> IdScheme {
        match self.by_id.get(id) {
            Some(known) => known.standing.scheme,
            None => self.orders.scheme(self.service, &self.session.id, id),
        }
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
        let Some(counter) = self.counters.get(&(incarnation, backend, Key::new(key))) else {
            return false;
        };
        let clean = match (counter.conflict, before) {
            (None, _) => true,
            (Some(conflict), Some(before)) => conflict > before,
            (Some(_), None) => false,
        };
        counter.several && clean
    }

    /// Whether a segment of the log that opened so far has a hole.
    #[must_use]
    pub fn is_torn(&self, log: &Log) -> bool {
        match log.stream {
            _ if log.shared => self
                .torn
                .range((log.incarnation, 0)..=(log.incarnation, u32::MAX))
                .any(|(_, &count)| count > 0),
            Some(stream) => self
                .torn
                .get(&(log.incarnation, stream))
                .is_some_and(|&count| count > 0),
            None => false,
        }
    }
}

/// An id that is the session's own marks many messages: none is the same as another for it.
fn enter_fresh<'a>(fresh: &mut Fresh<'a>, segment: u32, exchange: &'a Exchange, marker: &str) {
    for (event, facts) in (0..).zip(&exchange.events) {
        let id = facts
            .id
            .filter(|id| id.len > 0)
            .map(|id| exchange.text(id))
            .filter(|&id| id != marker);
        fresh.add(EventRef { segment, event }, &facts, id);
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
