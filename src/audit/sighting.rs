//! Sightings of one id: where it came, with which payloads. Most ids come once or twice; one that
//! never advances comes with every event, and is indexed then.

use super::ledger::is_comparable;
use crate::model::{event::Event, message::PayloadHash, session::EventRef, time::Timestamp};
use foldhash::fast::RandomState;
use smallvec::SmallVec;
use std::collections::HashMap;

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
    /// Whether it is a message.
    pub message: bool,
    /// Whether the payload can be compared: a message, and one that no sanitizer removed.
    pub comparable: bool,
    /// Whether the client got it.
    pub delivered: bool,
}

/// Which sightings are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Of one incarnation, or of all.
    pub incarnation: Option<u32>,
    /// Of one stream, or of all.
    pub stream: Option<u32>,
}

impl Scope {
    /// All sightings of an incarnation.
    #[must_use]
    pub const fn incarnation(incarnation: u32) -> Self {
        Self {
            incarnation: Some(incarnation),
            stream: None,
        }
    }

    fn holds(self, seen: &Seen) -> bool {
        self.incarnation.is_none_or(|own| own == seen.incarnation)
            && self.stream.is_none_or(|own| own == seen.stream)
    }

    fn all_of(seen: &Seen) -> [Self; 4] {
        let scope = |incarnation, stream| Self {
            incarnation,
            stream,
        };
        let (incarnation, stream) = (Some(seen.incarnation), Some(seen.stream));
        [
            scope(None, None),
            scope(None, stream),
            scope(incarnation, None),
            scope(incarnation, stream),
        ]
    }
}

/// The sightings of one id, in order of place.
#[derive(Debug, Default)]
pub struct Sightings {
    all: SmallVec<[Seen; 1]>,
    index: Option<Box<Index>>,
}

/// Sightings that are plainly repetitions (the same payload in the same scope, later) are left out:
/// whatever is asked, the earlier one says the same.
#[derive(Debug, Default)]
struct Index {
    by_scope: HashMap<Scope, Vec<Seen>, RandomState>,
    by_payload: HashMap<(Scope, PayloadHash), Vec<Seen>, RandomState>,
    incomparable: Vec<Seen>,
}

/// Sightings of an id that are searched one by one.
const FEW: usize = 16;

impl Sightings {
    /// Enters a sighting.
    pub fn add(&mut self, seen: Seen) {
        self.all.push(seen);
        match &mut self.index {
            Some(index) => index.add(seen),
            None if self.all.len() > FEW => self.build(),
            None => {}
        }
    }

    /// Whether none is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Puts sightings whose segment was entered again back into order.
    pub fn sort(&mut self) {
        self.all.sort_by_key(|seen| seen.place);
        if self.index.is_some() {
            self.build();
        }
    }

    /// Takes out what a segment brought.
    pub fn forget(&mut self, segment: u32) {
        self.all.retain(|seen| seen.place.segment != segment);
        if self.index.is_some() {
            self.build();
        }
    }

    fn build(&mut self) {
        let mut index = Index::default();
        for &seen in &self.all {
            index.add(seen);
        }
        self.index = Some(Box::new(index));
    }

    /// The sightings in a scope, in order of place; repetitions may be left out.
    pub fn within(&self, scope: Scope) -> impl Iterator<Item = &Seen> {
        let list = match &self.index {
            Some(index) => index.by_scope.get(&scope).map_or(&[][..], Vec::as_slice),
            None => self.all.as_slice(),
        };
        list.iter().filter(move |seen| scope.holds(seen))
    }

    /// Those that can be compared and have this payload.
    pub fn with_payload(&self, scope: Scope, hash: PayloadHash) -> impl Iterator<Item = &Seen> {
        let list = match &self.index {
            Some(index) => index
                .by_payload
                .get(&(scope, hash))
                .map_or(&[][..], Vec::as_slice),
            None => self.all.as_slice(),
        };
        list.iter()
            .filter(move |seen| seen.comparable && seen.hash == hash && scope.holds(seen))
    }

    /// Whether every sighting that `counts` had another payload than `event`, and there was one.
    #[must_use]
    pub fn all_differ(&self, event: &Event, counts: impl Fn(&Seen) -> bool) -> bool {
        let scope = Scope::default();
        let incomparable = match &self.index {
            Some(index) => &index.incomparable,
            None => self.all.as_slice(),
        };
        is_comparable(event)
            && self.within(scope).any(&counts)
            && !self.with_payload(scope, event.hash).any(&counts)
            && !incomparable
                .iter()
                .any(|seen| !seen.comparable && counts(seen))
    }
}

impl Index {
    fn add(&mut self, seen: Seen) {
        for scope in Scope::all_of(&seen) {
            let alike = self.by_payload.entry((scope, seen.hash)).or_default();
            if enter(alike, seen) {
                self.by_scope.entry(scope).or_default().push(seen);
            }
        }
        if !seen.comparable {
            enter(&mut self.incomparable, seen);
        }
    }
}

/// Enters a sighting, unless one of its kind stands before it and came no later.
fn enter(list: &mut Vec<Seen>, seen: Seen) -> bool {
    let new = !list.iter().any(|other| {
        other.backend == seen.backend
            && other.message == seen.message
            && other.comparable == seen.comparable
            && other.delivered == seen.delivered
            && other.place <= seen.place
            && other.time <= seen.time
    });
    if new {
        list.push(seen);
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sightings of one id with few payloads, streams and incarnations, in order of place.
    fn sightings(count: u32) -> Vec<Seen> {
        (0..count)
            .map(|number| {
                let mixed = number.wrapping_mul(2_654_435_761) >> 7;
                Seen {
                    place: EventRef {
                        segment: number / 3,
                        event: number % 3,
                    },
                    stream: mixed % 3,
                    incarnation: 1 + mixed / 3 % 2,
                    time: Timestamp::from_nanos(i64::from(number * 2 + mixed / 7 % 9)),
                    hash: PayloadHash(u128::from(mixed / 11 % 5)),
                    backend: (mixed % 7 > 2).then_some(mixed / 13 % 2),
                    message: mixed % 8 != 0,
                    comparable: mixed % 4 != 0,
                    delivered: mixed % 5 != 0,
                }
            })
            .collect()
    }

    fn indexed(all: &[Seen]) -> Sightings {
        let mut sightings = Sightings::default();
        for &seen in all {
            sightings.add(seen);
        }
        assert!(sightings.index.is_some(), "too few to be indexed");
        sightings
    }

    fn assert_alike(all: &[Seen], indexed: &Sightings) {
        for scope in all.iter().flat_map(Scope::all_of) {
            for time in (0..150).step_by(7).map(Timestamp::from_nanos) {
                for hash in (0..6).map(PayloadHash) {
                    let counts = |seen: &&Seen| {
                        seen.delivered && seen.time <= time && seen.backend != Some(1)
                    };
                    let plain = || all.iter().filter(|seen| scope.holds(seen)).filter(counts);
                    assert_eq!(
                        indexed
                            .within(scope)
                            .filter(counts)
                            .any(|seen| seen.message),
                        plain().any(|seen| seen.message)
                    );
                    let other = |seen: &Seen| seen.comparable && seen.hash != hash;
                    assert_eq!(
                        indexed.within(scope).filter(counts).any(other),
                        plain().any(other)
                    );
                    let first = |seen: &Seen| seen.place;
                    assert_eq!(
                        indexed
                            .with_payload(scope, hash)
                            .filter(counts)
                            .map(first)
                            .min(),
                        plain()
                            .filter(|seen| seen.comparable && seen.hash == hash)
                            .map(first)
                            .min()
                    );
                }
            }
        }
    }

    #[test]
    fn an_indexed_id_answers_as_one_that_is_searched() {
        let all = sightings(60);
        assert_alike(&all, &indexed(&all));
    }

    #[test]
    fn what_repeated_a_forgotten_sighting_stays_seen() {
        let mut all = sightings(60);
        let mut sightings = indexed(&all);
        sightings.forget(0);
        all.retain(|seen| seen.place.segment != 0);
        assert_alike(&all, &sightings);
    }

    #[test]
    fn repetitions_of_an_id_are_not_indexed_again() {
        let all: Vec<Seen> = (0..1000)
            .map(|event| Seen {
                place: EventRef { segment: 0, event },
                stream: 0,
                incarnation: 1,
                time: Timestamp::from_nanos(i64::from(event)),
                hash: PayloadHash(1),
                backend: None,
                message: true,
                comparable: true,
                delivered: true,
            })
            .collect();
        assert_eq!(indexed(&all).within(Scope::incarnation(1)).count(), 1);
    }
}
