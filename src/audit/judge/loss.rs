//! What is skipped or left out between the cursor and what came.

use super::{Decision, NAMED, View, label};
use crate::audit::{
    id::Number,
    order::{Key, Relation, Standing, compare},
    sighting::Scope,
};
use crate::model::{
    event::Event,
    exchange::Exchange,
    prose::{Prose, prose},
    session::EventRef,
    verdict::IdScheme,
};
use foldhash::fast::RandomState;
use std::collections::{BTreeSet, HashMap};

impl<'a> View<'_, 'a> {
    /// Dense ids between cursor and first message that nobody ever delivered.
    pub(super) fn note_skipped(&self, decision: &mut Decision) {
        if decision.scheme != IdScheme::Dense {
            return;
        }
        let ledger = self.bench.ledger;
        let cursor = ledger.standing(self.cursor);
        let Some(first) = self.first().and_then(|first| self.id_of(first)) else {
            return;
        };
        let standing = ledger.standing(first);
        if standing.key != cursor.key {
            return;
        }
        let (Some(from), Some(to)) = (cursor.number, standing.number) else {
            return;
        };
        let Some(apart) = to.minus(&from) else { return };
        if self.log_is_torn() {
            return;
        }
        // By whoever shares the log: other streams, before or after, and the answer itself. A later
        // replay of the stream does not undo that this answer skipped them.
        let mut brought: BTreeSet<u128> = ledger
            .brought_elsewhere(self.cursor, &from, &to)
            .filter_map(|number| Number::Small(number).minus(&from))
            .collect();
        let offset = |number: &Number| {
            let offset = number.minus(&from);
            offset.filter(|&offset| offset > 0 && offset < apart)
        };
        if self.resumption.segment.is_some() {
            let ids = self
                .exchange
                .events
                .iter()
                .filter_map(|event| self.id_of(&event));
            brought.extend(
                ids.map(|id| ledger.standing(id))
                    .filter(|other| other.key == cursor.key)
                    .filter_map(|other| offset(&other.number?)),
            );
        }
        if self.log.shared {
            for (number, segments) in ledger.bringers(&cursor.key, &from, &to) {
                ledger.look(segments.len());
                let by_others = segments.iter().any(|&index| {
                    let stream = self.bench.session.segments.get(index as usize);
                    let own = stream.map(|segment| segment.stream) == self.resumption.stream;
                    let entered = ledger.entered(index);
                    !own && entered.is_none_or(|entered| entered == self.log.incarnation)
                });
                brought.extend(offset(number).filter(|_| by_others));
            }
        }
        brought.extend(ledger.brought_under_any_key(&from, &to).filter_map(offset));
        ledger.look(brought.len());
        let missing = apart
            .saturating_sub(1)
            .saturating_sub(brought.len() as u128);
        decision.skipped = Some(u64::try_from(missing).unwrap_or(u64::MAX));
        if missing > 0 {
            decision.missing.extend(
                (1..apart)
                    .filter(|n| !brought.contains(n))
                    .take(NAMED)
                    .map(|n| prose!("cursor + {}", n)),
            );
        }
    }

    /// Whether ids of the log may have gone where the capture does not show them: a hole in a
    /// segment that shares the counter, or another stream of it that was cut and not resumed yet.
    pub(super) fn log_is_torn(&self) -> bool {
        let mine = self.resumption.stream;
        if self.bench.ledger.is_torn(&self.log) || self.exchange.body_has_hole() {
            return true;
        }
        // Which streams share the counter is not known while one may be missing altogether.
        if self.bench.gaps.any() {
            return true;
        }
        if !self.bench.service_whole && self.bench.ledger.may_be_shared(self.cursor) {
            return true;
        }
        self.log.shared
            && self
                .bench
                .survey
                .another_was_cut(mine, self.exchange.time())
    }

    /// Messages of the stream seen on the wire after the cursor.
    pub(super) fn seen_after(&self) -> Vec<Prose> {
        self.messages_after()
            .into_iter()
            .map(|(_, event, exchange)| label(exchange, &event))
            .collect()
    }

    pub(super) fn messages_after(&self) -> Vec<(EventRef, Event, &'a Exchange)> {
        let mut after = Vec::new();
        let (Some(origin), Some(stream)) = (self.origin, self.resumption.stream) else {
            return after;
        };
        let start = self.exchange.time();
        let ledger = self.bench.ledger;
        let fresh = ledger.fresh_after(stream, self.log.incarnation, origin);
        ledger.look(fresh.len());
        for &(place, came) in fresh {
            if Some(place.segment) == self.resumption.segment
                || came >= start
                || !self.is_of_known_log(place.segment)
            {
                continue;
            }
            let Some((exchange, event)) = self.bench.event(place) else {
                continue;
            };
            let id = event
                .id
                .filter(|id| id.len > 0)
                .map(|id| exchange.text(id))
                .filter(|id| **id != *self.bench.session.id);
            if exchange.time() < start && id.is_none_or(|id| self.first_sight_is_after(id, origin))
            {
                after.push((place, event, exchange));
            }
        }
        after
    }

    pub(super) fn first_sight_is_after(&self, id: &str, origin: EventRef) -> bool {
        let scope = Scope {
            incarnation: None,
            stream: self.resumption.stream,
        };
        let seen = self.bench.ledger.seen(id);
        seen.and_then(|seen| seen.within(scope).next())
            .is_some_and(|first| first.place > origin)
    }

    /// Messages seen after the cursor that the answer passes over: it brings something behind
    /// them, and not them.
    pub(super) fn left_out(&self) -> Vec<String> {
        if self.exchange.body_has_hole() || self.resumption.ambiguous {
            return Vec::new();
        }
        let seen = self.messages_after();
        if seen.is_empty() {
            return Vec::new();
        }
        let brought: BTreeSet<&str> = self
            .answer
            .messages
            .iter()
            .filter_map(|(_, event)| self.id_of(event))
            .collect();
        let ledger = self.bench.ledger;
        let position: HashMap<&str, usize, RandomState> = seen
            .iter()
            .enumerate()
            .rev()
            .filter_map(|(index, (_, event, exchange))| Some((exchange.text(event.id?), index)))
            .collect();
        let mut ahead = Ahead::default();
        for id in &brought {
            ahead.add(ledger.standing(id), position.get(id).copied());
        }
        seen.iter()
            .enumerate()
            .filter_map(|(position, (_, event, exchange))| {
                let id = event
                    .id
                    .filter(|id| id.len > 0)
                    .map(|id| exchange.text(id))?;
                let left_out =
                    !brought.contains(id) && ahead.passes(&ledger.standing(id), position);
                left_out.then(|| id.to_owned())
            })
            .collect()
    }
}

/// How far an answer goes: by number for each key, by what was seen where numbers do not tell.
#[derive(Default)]
struct Ahead {
    /// The message with the highest number of each key.
    highest: HashMap<Place, Standing, RandomState>,
    /// The message furthest by what was seen.
    furthest: Option<(usize, Place)>,
    /// The furthest of another key than that one's.
    other: Option<usize>,
}

/// The key and scheme of an id; `None` for one without a number, which is comparable to none.
type Place = Option<(Key, IdScheme)>;

impl Ahead {
    fn add(&mut self, standing: Standing, position: Option<usize>) {
        let place = place_of(&standing);
        // What was not seen before is behind all that was.
        let position = position.unwrap_or(usize::MAX);
        match &mut self.furthest {
            Some((furthest, own)) if *own == place => *furthest = position.max(*furthest),
            Some((furthest, _)) if position <= *furthest => {
                self.other = self.other.max(Some(position));
            }
            furthest => {
                let before = furthest.replace((position, place.clone()));
                self.other = before.map(|(position, _)| position);
            }
        }
        if place.is_some() {
            let highest = self
                .highest
                .entry(place)
                .or_insert_with(|| standing.clone());
            if standing.number > highest.number {
                *highest = standing;
            }
        }
    }

    /// Whether a message of the answer stands behind the one seen at `position`.
    fn passes(&self, standing: &Standing, position: usize) -> bool {
        let place = place_of(standing);
        let by_number = self
            .highest
            .get(&place)
            .is_some_and(|highest| compare(highest, standing) == Relation::After);
        let furthest = match &self.furthest {
            Some((_, own)) if *own == place && place.is_some() => self.other,
            furthest => furthest.as_ref().map(|(furthest, _)| *furthest),
        };
        let unordered = furthest.is_some_and(|furthest| furthest > position);
        by_number || standing.scheme != IdScheme::Time && unordered
    }
}

fn place_of(standing: &Standing) -> Place {
    standing
        .number
        .is_some()
        .then(|| (standing.key.clone(), standing.scheme))
}
