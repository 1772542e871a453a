//! Events of one session that are delivered to another (AUDIT, `cross-session-delivery`).
//!
//! An id that repeats in every session proves nothing. It proves a crossing when it is unique over
//! the service: by what it is (a UUID, a time, the other session's id inside), or because outside
//! the answer in question no id of ten or more occurs in two sessions (one counter for the whole
//! store).

use super::{
    id::{Class, Parts},
    ledger::is_comparable,
};
use crate::model::{
    event::Event, exchange::Exchange, message::PayloadHash, session::Session, time::Timestamp,
};
use foldhash::fast::RandomState;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// So many ids without a repetition tell of one counter for all sessions.
const UNIQUE_IDS: usize = 10;

/// The ids of one service that more than one of its sessions saw.
#[derive(Debug, Default)]
pub struct Crossings<'a> {
    /// Sightings of those ids, in order of session and arrival.
    sightings: HashMap<&'a str, Vec<Sighting>, RandomState>,
    /// Ids seen in all.
    distinct: usize,
    /// The sessions' ids, by index.
    names: HashMap<u32, Arc<str>, RandomState>,
}

#[derive(Clone, Copy, Debug)]
struct Sighting {
    session: u32,
    exchange: u32,
    time: Timestamp,
    hash: PayloadHash,
}

/// An event that was another session's first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// Its id.
    pub id: String,
    /// The session that it was delivered to first.
    pub session: Arc<str>,
}

impl<'a> Crossings<'a> {
    /// Learns from all sessions of one service, given with their indices.
    #[must_use]
    pub fn learn(sessions: &[(u32, &Session)], exchanges: &'a [Exchange]) -> Self {
        let mut crossings = Self::default();
        if sessions.len() < 2 {
            return crossings;
        }
        let mut owner: HashMap<&str, Option<u32>, RandomState> = HashMap::default();
        for &(index, session) in sessions {
            for (_, _, id) in identified(session, exchanges) {
                let known = owner.entry(id).or_insert(Some(index));
                if *known != Some(index) {
                    *known = None;
                }
            }
        }
        crossings.distinct = owner.len();
        for &(index, session) in sessions {
            let mut crossed = false;
            for (exchange, event, id) in identified(session, exchanges) {
                if owner.get(id) == Some(&None) {
                    crossed = true;
                    crossings.sightings.entry(id).or_default().push(Sighting {
                        session: index,
                        exchange,
                        time: event.time,
                        hash: event.hash,
                    });
                }
            }
            if crossed {
                crossings.names.insert(index, Arc::clone(&session.id));
            }
        }
        crossings
    }

    /// The first event of an answer that was another session's before, proven by its id.
    #[must_use]
    pub fn find(&self, session: u32, number: u32, exchange: &Exchange) -> Option<Crossing> {
        if self.sightings.is_empty() {
            return None;
        }
        let candidates: Vec<(&str, Sighting)> = exchange
            .events
            .iter()
            .filter(|event| is_comparable(event))
            .filter_map(|event| {
                let id = event
                    .id
                    .filter(|id| id.len > 0)
                    .map(|id| exchange.text(id))?;
                Some((id, self.first_elsewhere(session, id, event)?))
            })
            .collect();
        candidates.into_iter().find_map(|(id, first)| {
            let name = self.names.get(&first.session)?;
            let proven = is_unique(id, name) || self.one_counter(number);
            proven.then(|| Crossing {
                id: id.to_owned(),
                session: Arc::clone(name),
            })
        })
    }

    /// Where an event was first, when that is another session, with the same payload, and this
    /// session had not seen it before.
    fn first_elsewhere(&self, session: u32, id: &str, event: &Event) -> Option<Sighting> {
        let first = self
            .sightings
            .get(id)?
            .iter()
            .min_by_key(|sighting| sighting.time)?;
        (first.session != session && first.time < event.time && first.hash == event.hash)
            .then_some(*first)
    }

    /// Whether, the answer itself aside, no id of ten or more occurs in two sessions.
    fn one_counter(&self, number: u32) -> bool {
        let repeated = self.sightings.values().any(|sightings| {
            let sessions: BTreeSet<u32> = sightings
                .iter()
                .filter(|sighting| sighting.exchange != number)
                .map(|sighting| sighting.session)
                .collect();
            sessions.len() > 1
        });
        !repeated && self.distinct >= UNIQUE_IDS
    }
}

/// Events with an id and a payload that can be compared.
fn identified<'a>(
    session: &Session,
    exchanges: &'a [Exchange],
) -> impl Iterator<Item = (u32, &'a Event, &'a str)> {
    session.segments.iter().flat_map(move |segment| {
        let exchange = exchanges.get(segment.exchange as usize);
        exchange.into_iter().flat_map(move |exchange| {
            exchange
                .events
                .iter()
                .filter(|event| is_comparable(event))
                .filter_map(move |event| {
                    let id = event.id.filter(|id| id.len > 0)?;
                    Some((segment.exchange, event, exchange.text(id)))
                })
        })
    })
}

/// Whether an id is unique by what it is: a UUID, a time, the session inside.
fn is_unique(id: &str, session: &str) -> bool {
    let by_class = Parts::of(id)
        .tokens
        .iter()
        .any(|token| matches!(token.class, Class::Uuid(_) | Class::Epoch(_) | Class::Ulid));
    by_class || (session.len() >= 8 && id.contains(session))
}
