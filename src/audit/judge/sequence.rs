//! How what came stands to the cursor and to what was delivered before.

use super::{Decision, Known, NAMED, View};
use crate::audit::{
    ledger::{agrees, differs},
    order::{Relation, compare},
    sighting::Seen,
};
use crate::model::{case::Sequence, event::Event, message::PayloadHash, session::EventRef};
use std::collections::{BTreeMap, BTreeSet};

impl<'a> View<'_, 'a> {
    pub(super) fn first(&self) -> Option<&Event> {
        self.answer.messages.first().map(|(_, event)| event)
    }

    pub(super) fn id_of(&self, event: &Event) -> Option<&'a str> {
        event
            .id
            .filter(|id| id.len > 0)
            .map(|id| self.exchange.text(id))
    }

    pub(super) fn is_marker(&self) -> bool {
        self.cursor == &*self.bench.session.id
    }

    pub(super) fn relation(&self, event: &Event) -> Relation {
        let Some(id) = self.id_of(event) else {
            return Relation::Unordered;
        };
        if id == self.cursor {
            return Relation::Same;
        }
        compare(
            &self.bench.ledger.standing(id),
            &self.bench.ledger.standing(self.cursor),
        )
    }

    /// Whether a message was on the log before, and with which payload. A redelivery counts
    /// wherever one fits: an id may have had two payloads before.
    pub(super) fn known(&self, index: u32, event: &Event) -> Known {
        let Some(id) = self.id_of(event) else {
            return Known::No;
        };
        let counts = |seen: &&Seen| {
            let own = Some(seen.place.segment) == self.resumption.segment;
            seen.time <= event.time && !(own && seen.place.event >= index)
        };
        let mut after = false;
        let ledger = self.bench.ledger;
        if ledger.is_worn() {
            return Known::No;
        }
        let look = |_: &&Seen| ledger.look(1);
        for seen in ledger
            .seen_alike_on(&self.log, id, event.hash)
            .inspect(look)
            .filter(counts)
        {
            if agrees(seen, event) {
                if self.at_or_before_cursor(seen.place) {
                    return Known::Again;
                }
                after = true;
            }
        }
        let other = ledger
            .seen_on(&self.log, id)
            .inspect(look)
            .filter(counts)
            .filter(|seen| self.is_of_known_log(seen.place.segment))
            .any(|seen| differs(seen, event));
        // An id that had two payloads before may have had a third in a hole.
        if other && !after && self.bench.gaps.any() && self.had_two_payloads(id) {
            return Known::No;
        }
        match (after, other) {
            (true, _) => Known::AgainAfter,
            (false, true) => Known::Other,
            (false, false) => Known::No,
        }
    }

    /// Whether a segment brought events of the cursor's log for all that is known. What an answer
    /// brought that could not be judged is of no known log, but for itself.
    pub(super) fn is_of_known_log(&self, segment: u32) -> bool {
        let ledger = self.bench.ledger;
        let cursor_from = self.origin.map(|origin| origin.segment);
        match cursor_from.filter(|&from| ledger.is_unjudged(from)) {
            Some(from) => segment == from,
            None => !ledger.is_unjudged(segment),
        }
    }

    /// Whether an id came with two payloads on the log before, or does so on the answer itself.
    pub(super) fn had_two_payloads(&self, id: &str) -> bool {
        let mut before = self
            .bench
            .ledger
            .seen_on(&self.log, id)
            .filter(|seen| seen.comparable)
            .map(|seen| seen.hash);
        let first = before.next();
        before.any(|hash| Some(hash) != first) || self.doubled().contains(id)
    }

    /// Ids that come with two payloads on the answer itself.
    fn doubled(&self) -> &BTreeSet<&'a str> {
        self.doubled.get_or_init(|| {
            let mut first: BTreeMap<&str, PayloadHash> = BTreeMap::new();
            let messages = self.answer.messages.iter();
            messages
                .filter_map(|(_, event)| {
                    let id = self.id_of(event)?;
                    (*first.entry(id).or_insert(event.hash) != event.hash).then_some(id)
                })
                .collect()
        })
    }

    /// Whether a sighting stands at or before the cursor's last delivery: by number where the ids
    /// have one, else by its place on the stream.
    pub(super) fn at_or_before_cursor(&self, place: EventRef) -> bool {
        let Some((exchange, event)) = self.bench.event(place) else {
            return false;
        };
        let id = event.id.map_or("", |id| exchange.text(id));
        if id == self.cursor {
            return true;
        }
        match compare(
            &self.bench.ledger.standing(id),
            &self.bench.ledger.standing(self.cursor),
        ) {
            Relation::Before | Relation::Same => true,
            Relation::After => false,
            Relation::Unordered => self.origin.is_some_and(|origin| place <= origin),
        }
    }

    pub(super) fn goes_back(&self) -> bool {
        let first_back = self.first().is_some_and(|first| self.is_back(first));
        first_back
            || self
                .answer
                .messages
                .iter()
                .any(|(index, event)| self.known(*index, event) == Known::Again)
    }

    /// At or before the cursor, by number; by what was seen where numbers do not tell.
    pub(super) fn is_back(&self, event: &Event) -> bool {
        match self.relation(event) {
            Relation::Same => !self.only_primed(event),
            Relation::Before => true,
            Relation::After => false,
            Relation::Unordered => self.id_of(event).is_some_and(|id| {
                self.bench.ledger.seen_on(&self.log, id).any(|seen| {
                    self.bench.ledger.look(1);
                    seen.time < self.exchange.time()
                        && self.origin.is_some_and(|origin| seen.place <= origin)
                })
            }),
        }
    }

    /// Whether the cursor is this message's id, and came on priming events alone before: the message
    /// is the first under it, and the client has not got it.
    pub(super) fn only_primed(&self, event: &Event) -> bool {
        let Some(origin) = self.origin else {
            return false;
        };
        let primed = self
            .bench
            .event(origin)
            .is_some_and(|(_, event)| event.is_priming());
        primed
            && self.relation(event) == Relation::Same
            && !self
                .bench
                .ledger
                .seen_on(&self.log, self.cursor)
                .any(|seen| seen.message && seen.time < self.exchange.time())
    }

    pub(super) fn note_sequence(&self, decision: &mut Decision) {
        for (index, event) in &self.answer.messages {
            if matches!(self.known(*index, event), Known::Again | Known::AgainAfter) {
                decision.redelivered += 1;
            }
        }
        let Some(first) = self.first().filter(|_| !self.is_marker()) else {
            return;
        };
        if !self.is_back(first) {
            return;
        }
        let earlier = self
            .answer
            .messages
            .iter()
            .any(|(_, event)| self.id_of(event) != Some(self.cursor) && self.is_back(event));
        decision.sequence = if self.id_of(first) == Some(self.cursor) && !earlier {
            Sequence::CursorAgain
        } else {
            Sequence::Back
        };
    }

    pub(super) fn note_reuse(&self, decision: &mut Decision) {
        for (index, event) in &self.answer.messages {
            if self.known(*index, event) == Known::Other
                && decision.reused.len() < NAMED
                && let Some(id) = self.id_of(event)
            {
                decision.reused.push(id.to_owned());
            }
        }
    }
}
