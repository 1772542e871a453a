//! What is skipped or left out between the cursor and what came.

use super::{Decision, NAMED, View, label};
use crate::audit::{
    id::Number,
    order::{Relation, compare},
};
use crate::model::{event::Event, exchange::Exchange, session::EventRef, verdict::IdScheme};
use std::collections::{BTreeMap, BTreeSet};

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
        for (index, segment) in self.bench.session.segments.iter().enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let this_log = ledger
                .entered(index)
                .is_none_or(|incarnation| incarnation == self.log.incarnation);
            let own = Some(segment.stream) == self.resumption.stream;
            let same_log = if own {
                Some(index) == self.resumption.segment
            } else {
                self.log.shared && this_log
            };
            let exchange = self.bench.exchanges.get(segment.exchange as usize);
            let Some(exchange) = exchange.filter(|_| same_log) else {
                continue;
            };
            for event in &exchange.events {
                let Some(id) = event.id.filter(|id| id.len > 0).map(|id| exchange.text(id)) else {
                    continue;
                };
                let other = ledger.standing(id);
                if other.key == cursor.key
                    && let Some(number) =
                        other.number.as_ref().and_then(|number| number.minus(&from))
                    && number > 0
                    && number < apart
                {
                    brought.insert(number);
                }
            }
        }
        if apart > 1 {
            brought.extend(self.brought_under_other_keys(&from, apart));
        }
        let missing = apart
            .saturating_sub(1)
            .saturating_sub(brought.len() as u128);
        decision.skipped = Some(u64::try_from(missing).unwrap_or(u64::MAX));
        if missing > 0 {
            decision.missing.extend(
                (1..apart)
                    .filter(|n| !brought.contains(n))
                    .take(NAMED)
                    .map(|n| format!("cursor + {n}")),
            );
        }
    }

    /// Numbers less than `apart` after `from` that came under other keys, where the session counts
    /// over all of them: no number of it stands under two keys.
    fn brought_under_other_keys(&self, from: &Number, apart: u128) -> Vec<u128> {
        let ledger = self.bench.ledger;
        let mut key_of: BTreeMap<Number, Box<str>> = BTreeMap::new();
        for segment in &self.bench.session.segments {
            let Some(exchange) = self.bench.exchanges.get(segment.exchange as usize) else {
                continue;
            };
            for id in exchange.events.iter().filter_map(|event| event.id) {
                let standing = ledger.standing(exchange.text(id));
                if !matches!(standing.scheme, IdScheme::Dense | IdScheme::Sparse) {
                    continue;
                }
                let Some(number) = standing.number else {
                    continue;
                };
                match key_of.get(&number) {
                    Some(key) if *key != standing.key => return Vec::new(),
                    Some(_) => {}
                    None => {
                        key_of.insert(number, standing.key);
                    }
                }
            }
        }
        key_of
            .keys()
            .filter_map(|number| number.minus(from))
            .filter(|&number| number > 0 && number < apart)
            .collect()
    }

    /// Whether ids of the log may have gone where the capture does not show them: a hole in a
    /// segment that shares the counter, or another stream of it that was cut and not resumed yet.
    pub(super) fn log_is_torn(&self) -> bool {
        let mine = self.resumption.stream;
        let holes = self
            .bench
            .ledger
            .segments_of(&self.log)
            .any(|(_, e)| e.body_has_hole());
        if holes || self.exchange.body_has_hole() {
            return true;
        }
        // Which streams share the counter is not known while one may be missing altogether.
        if self.bench.gaps.any() {
            return true;
        }
        if !self.bench.service_whole && self.bench.ledger.may_be_shared(self.cursor) {
            return true;
        }
        if !self.log.shared {
            return false;
        }
        let start = self.exchange.time();
        self.bench
            .session
            .streams
            .iter()
            .enumerate()
            .any(|(index, stream)| {
                if Some(index) == mine.map(|stream| stream as usize) {
                    return false;
                }
                let complete = stream
                    .completed
                    .and_then(|place| self.bench.event(place))
                    .is_some_and(|(_, event)| event.time <= start);
                let cut = stream.segments.iter().any(|&segment| {
                    self.bench
                        .session
                        .exchange(segment, self.bench.exchanges)
                        .is_some_and(|e| e.time() < start && e.end.time < start)
                });
                !complete && cut
            })
    }

    /// Messages of the stream seen on the wire after the cursor.
    pub(super) fn seen_after(&self) -> Vec<String> {
        self.messages_after()
            .into_iter()
            .map(|(_, event, exchange)| label(exchange, event))
            .collect()
    }

    pub(super) fn messages_after(&self) -> Vec<(EventRef, &'a Event, &'a Exchange)> {
        let mut after = Vec::new();
        let (Some(origin), Some(stream)) = (self.origin, self.resumption.stream) else {
            return after;
        };
        let Some(stream) = self.bench.session.streams.get(stream as usize) else {
            return after;
        };
        let start = self.exchange.time();
        for &segment in &stream.segments {
            if segment < origin.segment || Some(segment) == self.resumption.segment {
                continue;
            }
            let Some(exchange) = self.bench.session.exchange(segment, self.bench.exchanges) else {
                continue;
            };
            if exchange.time() >= start
                || self.bench.ledger.incarnation(segment) != self.log.incarnation
            {
                continue;
            }
            for (index, event) in exchange.events.iter().enumerate() {
                let place = EventRef {
                    segment,
                    event: u32::try_from(index).unwrap_or(u32::MAX),
                };
                if place <= origin || !event.is_message() || event.time >= start {
                    continue;
                }
                let id = event
                    .id
                    .filter(|id| id.len > 0)
                    .map(|id| exchange.text(id))
                    .filter(|id| **id != *self.bench.session.id);
                let counted = match id {
                    None => true,
                    Some(id) => {
                        let listed = |(_, other, x): &(EventRef, &Event, &Exchange)| {
                            other.id.map(|other| x.text(other)) == Some(id)
                        };
                        self.first_sight_is_after(id, origin) && !after.iter().any(listed)
                    }
                };
                if counted {
                    after.push((place, event, exchange));
                }
            }
        }
        after
    }

    pub(super) fn first_sight_is_after(&self, id: &str, origin: EventRef) -> bool {
        self.bench
            .ledger
            .seen(id)
            .iter()
            .filter(|seen| Some(seen.stream) == self.resumption.stream)
            .map(|seen| seen.place)
            .min()
            .is_some_and(|place| place > origin)
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
        let passes = |position: usize, id: &str| {
            let standing = ledger.standing(id);
            self.answer.messages.iter().any(|(_, event)| {
                let Some(other) = self.id_of(event) else {
                    return false;
                };
                match compare(&ledger.standing(other), &standing) {
                    Relation::After => true,
                    Relation::Before | Relation::Same => false,
                    Relation::Unordered if standing.scheme == IdScheme::Time => false,
                    Relation::Unordered => {
                        let place = seen
                            .iter()
                            .position(|(_, e, x)| e.id.map(|e| x.text(e)) == Some(other));
                        place.is_none_or(|place| place > position)
                    }
                }
            })
        };
        seen.iter()
            .enumerate()
            .filter_map(|(position, (_, event, exchange))| {
                let id = event
                    .id
                    .filter(|id| id.len > 0)
                    .map(|id| exchange.text(id))?;
                (!brought.contains(id) && passes(position, id)).then(|| id.to_owned())
            })
            .collect()
    }
}
