//! Events of one session that are delivered to another (docs/findings.md, `cross-session-delivery`).
//!
//! An id that repeats in every session proves nothing. It proves a crossing when it is unique over
//! the service: by what it is (a UUID, a time, the other session's id inside), or because outside
//! the answer in question no id of ten or more occurs in two sessions (one counter for the whole
//! store). A cursor tells as well: where a session seen whole asks on from an id that it never had and
//! one other session did, and gets a payload that nobody but that one had.

use super::{
    gateway::Gateways,
    id::{Class, Parts},
    ledger::is_comparable,
};
use crate::model::{
    event::Event,
    exchange::Exchange,
    id::SessionId,
    message::{MessageKind, PayloadHash},
    session::Session,
    time::Timestamp,
};
use foldhash::fast::{FixedState, RandomState};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::{BuildHasher, Hash},
};

/// In the place of a session: there are several.
const SEVERAL: u32 = u32::MAX;

/// So many ids without a repetition tell of one counter for all sessions.
const UNIQUE_IDS: usize = 10;

/// The ids of one service that more than one of its sessions saw.
#[derive(Debug, Default)]
pub struct Crossings<'a> {
    /// The first sighting of each of those ids.
    first: HashMap<&'a str, Sighting, RandomState>,
    /// Ids seen in all.
    distinct: usize,
    /// Exchanges without which no id occurs in two sessions.
    repeating: BTreeSet<u32>,
    /// Of exchanges with another session's cursor, the payloads that this other session alone had.
    lent: BTreeMap<u32, HashSet<PayloadHash, RandomState>>,
    /// The sessions' ids, by index.
    names: HashMap<u32, SessionId, RandomState>,
    /// What came over gateways.
    gateways: Option<&'a Gateways<'a>>,
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
    pub session: SessionId,
}

impl<'a> Crossings<'a> {
    /// Learns from all sessions of one service, given with their indices; `whole` when no connection of
    /// the service has a hole or a lost head.
    #[must_use]
    pub fn learn(
        sessions: &[(u32, &Session)],
        exchanges: &'a [Exchange],
        whole: bool,
        gateways: &'a Gateways<'a>,
    ) -> Self {
        let mut crossings = Self {
            gateways: Some(gateways),
            ..Self::default()
        };
        if sessions.len() < 2 {
            return crossings;
        }
        // Most ids are of no interest, and there may be one for every event: what is kept of all are hashes.
        let mut owner: HashMap<u64, u32, RandomState> = HashMap::default();
        let hasher = FixedState::default();
        for &(index, session) in sessions {
            for (_, _, id) in identified(session, exchanges) {
                let known = owner.entry(hasher.hash_one(id)).or_insert(index);
                if *known != index {
                    *known = SEVERAL;
                }
            }
        }
        crossings.distinct = owner.len();
        owner.retain(|_, owner| *owner == SEVERAL);
        if !owner.is_empty() {
            // Two ids may have one hash: what is several sessions' is told by the ids themselves.
            let mut shared: HashMap<&str, (Sighting, bool), RandomState> = HashMap::default();
            for &(index, session) in sessions {
                let mut crossed = false;
                for (exchange, event, id) in identified(session, exchanges) {
                    if !owner.contains_key(&hasher.hash_one(id)) {
                        continue;
                    }
                    crossed = true;
                    let sighting = Sighting {
                        session: index,
                        exchange,
                        time: event.time,
                        hash: event.hash,
                    };
                    let (first, several) = shared.entry(id).or_insert((sighting, false));
                    *several |= first.session != index;
                    if sighting.time < first.time {
                        *first = sighting;
                    }
                }
                if crossed {
                    crossings.names.insert(index, session.id.clone());
                }
            }
            shared.retain(|_, (_, several)| *several);
            crossings.first = shared
                .into_iter()
                .map(|(id, (first, _))| (id, first))
                .collect();
            crossings.repeating = crossings.find_repeating(sessions, exchanges);
        }
        if whole {
            crossings.lent = lent(sessions, exchanges);
        }
        crossings
    }

    /// The exchanges without which no id occurs in two sessions.
    fn find_repeating(
        &self,
        sessions: &[(u32, &Session)],
        exchanges: &[Exchange],
    ) -> BTreeSet<u32> {
        // Without it an id is one session's only if it brings that id; so it brings all that are several's.
        let brings_all = sessions.iter().any(|(_, session)| {
            session.segments.iter().any(|segment| {
                let exchange = exchanges.get(segment.exchange as usize);
                let events = exchange.map_or(0, |exchange| exchange.events.len());
                let ids = || in_exchange(exchange, segment.exchange).map(|(_, _, id)| id);
                events >= self.first.len()
                    && self.first.len()
                        == ids()
                            .filter(|id| self.first.contains_key(id))
                            .collect::<HashSet<_>>()
                            .len()
            })
        });
        if !brings_all {
            return BTreeSet::new();
        }
        // By id and session the exchange that brought it, when it was a single one.
        let mut brought: BTreeMap<&str, BTreeMap<u32, Option<u32>>> = BTreeMap::new();
        for &(index, session) in sessions {
            for (exchange, _, id) in identified(session, exchanges) {
                if self.first.contains_key(id) {
                    let sessions = brought.entry(id).or_default();
                    let single = sessions.entry(index).or_insert(Some(exchange));
                    if *single != Some(exchange) {
                        *single = None;
                    }
                }
            }
        }
        brought
            .values()
            .map(repeating)
            .reduce(|all, more| all.intersection(&more).copied().collect())
            .unwrap_or_default()
    }

    /// The first event of an answer that was another session's before, proven by its id, and that no gateway
    /// passed on.
    #[must_use]
    pub fn find(&self, session: u32, number: u32, exchange: &Exchange) -> Option<Crossing> {
        if self.first.is_empty() {
            return None;
        }
        let candidates: Vec<(&str, Event, Sighting)> = exchange
            .events
            .iter()
            .filter(is_comparable)
            .filter_map(|event| {
                let id = event
                    .id
                    .filter(|id| id.len > 0)
                    .map(|id| exchange.text(id))?;
                Some((id, event, self.first_elsewhere(session, id, &event)?))
            })
            .collect();
        candidates.into_iter().find_map(|(id, event, first)| {
            let name = self.names.get(&first.session)?;
            let lent = || self.lent.get(&number)?.get(&first.hash);
            let proven = is_unique(id, name, is_for_all(&event))
                || self.one_counter(number)
                || lent().is_some();
            let fed = || {
                let event = ((id, event.hash), is_for_all(&event));
                let gateways = self.gateways?;
                let feeds = gateways.feeds();
                let own = gateways.is_its_own(first.exchange, exchange)
                    && feeds.are_torn(session, first.session);
                Some(own || feeds.explain(event, first.session, session))
            };
            (proven && fed() != Some(true)).then(|| Crossing {
                id: id.to_owned(),
                session: name.clone(),
            })
        })
    }

    /// Where an event was first, when that is another session, with the same payload, and this
    /// session had not seen it before.
    fn first_elsewhere(&self, session: u32, id: &str, event: &Event) -> Option<Sighting> {
        let first = self.first.get(id)?;
        (first.session != session && first.time < event.time && first.hash == event.hash)
            .then_some(*first)
    }

    /// Whether, the answer itself aside, no id of ten or more occurs in two sessions.
    fn one_counter(&self, number: u32) -> bool {
        self.repeating.contains(&number) && self.distinct >= UNIQUE_IDS
    }
}

/// The exchanges without which an id occurs in one session at most. `sessions` holds for each the
/// exchange that brought the id, when it was a single one.
fn repeating(sessions: &BTreeMap<u32, Option<u32>>) -> BTreeSet<u32> {
    let mut spared: BTreeMap<u32, usize> = BTreeMap::new();
    for exchange in sessions.values().flatten() {
        *spared.entry(*exchange).or_default() += 1;
    }
    spared
        .into_iter()
        .filter(|(_, spared)| sessions.len() - spared <= 1)
        .map(|(exchange, _)| exchange)
        .collect()
}

/// The exchanges of sessions seen from their start that ask on from an id which they never had and one
/// other session did, each with those payloads of its answer that nobody but that session had before.
fn lent(
    sessions: &[(u32, &Session)],
    exchanges: &[Exchange],
) -> BTreeMap<u32, HashSet<PayloadHash, RandomState>> {
    let asked: BTreeMap<u32, (u32, &Exchange, &str)> = sessions
        .iter()
        .filter(|(_, session)| !session.issued_by.is_empty())
        .flat_map(|&(index, session)| {
            let unknown = session.resumes.iter().filter(|r| r.stream.is_none());
            unknown.filter_map(move |resume| {
                let exchange = exchanges.get(resume.exchange as usize)?;
                Some((resume.exchange, (index, exchange, exchange.cursor()?)))
            })
        })
        .collect();
    if asked.is_empty() {
        return BTreeMap::new();
    }
    let mut ids: Owners<&str> = asked.values().map(|(_, _, id)| (*id, None)).collect();
    let mut payloads: Owners<PayloadHash> = asked
        .values()
        .flat_map(|(_, exchange, _)| exchange.events.iter().filter(is_comparable))
        .map(|event| (event.hash, None))
        .collect();
    for &(index, session) in sessions {
        let numbers: BTreeSet<u32> = session
            .segments
            .iter()
            .map(|segment| segment.exchange)
            .chain(session.exchanges.iter().copied())
            .filter(|number| !asked.contains_key(number))
            .collect();
        for exchange in numbers
            .into_iter()
            .filter_map(|number| exchanges.get(number as usize))
        {
            for event in &exchange.events {
                own(&mut payloads, &event.hash, index, event.time);
                if let Some(id) = event.id {
                    own(&mut ids, &exchange.text(id), index, event.time);
                }
            }
            if let Some(response) = &exchange.response {
                for message in &response.messages {
                    own(&mut payloads, &message.hash, index, response.time);
                }
            }
        }
    }
    let mut lent = BTreeMap::new();
    for (number, (index, exchange, id)) in asked {
        let Some(lender) = ids.get(id).copied().flatten() else {
            continue;
        };
        if lender.several || lender.session == index || lender.first >= exchange.time() {
            continue;
        }
        let theirs: HashSet<PayloadHash, RandomState> = exchange
            .events
            .iter()
            .filter(|event| {
                payloads
                    .get(&event.hash)
                    .copied()
                    .flatten()
                    .is_some_and(|owner| {
                        !owner.several
                            && owner.session == lender.session
                            && owner.first < event.time
                    })
            })
            .map(|event| event.hash)
            .collect();
        if !theirs.is_empty() {
            lent.insert(number, theirs);
        }
    }
    lent
}

/// Who had each of some ids or payloads.
type Owners<K> = HashMap<K, Option<Owner>, RandomState>;

/// The session that had something first.
#[derive(Clone, Copy, Debug)]
struct Owner {
    session: u32,
    first: Timestamp,
    /// Others had it as well.
    several: bool,
}

/// Notes that a session had something, if anybody wants to know.
fn own<K: Eq + Hash>(owners: &mut Owners<K>, what: &K, session: u32, time: Timestamp) {
    let Some(owner) = owners.get_mut(what) else {
        return;
    };
    let owner = owner.get_or_insert(Owner {
        session,
        first: time,
        several: false,
    });
    owner.several |= owner.session != session;
    owner.first = owner.first.min(time);
}

/// Events with an id and a payload that can be compared.
pub(super) fn identified<'a>(
    session: &Session,
    exchanges: &'a [Exchange],
) -> impl Iterator<Item = (u32, Event, &'a str)> {
    session.segments.iter().flat_map(move |segment| {
        let exchange = exchanges.get(segment.exchange as usize);
        in_exchange(exchange, segment.exchange)
    })
}

fn in_exchange(
    exchange: Option<&Exchange>,
    number: u32,
) -> impl Iterator<Item = (u32, Event, &str)> {
    exchange.into_iter().flat_map(move |exchange| {
        let events = exchange.events.iter().filter(is_comparable);
        events.filter_map(move |event| {
            let id = event.id.filter(|id| id.len > 0)?;
            Some((number, event, exchange.text(id)))
        })
    })
}

/// Whether an event may be meant for every session: a notice that answers to no request.
fn is_for_all(event: &Event) -> bool {
    let notice = matches!(event.message, MessageKind::Notification | MessageKind::Ping);
    notice && event.progress_token.is_none()
}

/// Whether an id is unique by what it is: a UUID, a time, the session inside. A notice for all is stored
/// for each session at one moment, or once for all: there a time alone tells nothing.
fn is_unique(id: &str, session: &str, for_all: bool) -> bool {
    let parts = Parts::of(id);
    let of = |kind: fn(&Class) -> bool| parts.tokens.iter().any(|token| kind(&token.class));
    let random = || {
        let long =
            |text: &str| text.len() >= RANDOM && text.bytes().any(|b| b.is_ascii_alphabetic());
        parts.tokens.iter().any(|token| long(token.text))
    };
    let by_class = of(|class| matches!(class, Class::Uuid(_) | Class::Ulid))
        || of(|class| matches!(class, Class::Epoch(_))) && (!for_all || random());
    by_class || (session.len() >= 8 && id.contains(session))
}

/// Letters and digits that make a time unique.
const RANDOM: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn without(sessions: &[(u32, Option<u32>)]) -> Vec<u32> {
        let sessions = sessions.iter().copied().collect();
        repeating(&sessions).into_iter().collect()
    }

    #[test]
    fn an_id_of_two_sessions_is_told_apart_without_the_only_exchange_of_one() {
        assert_eq!(without(&[(0, Some(7)), (1, None)]), [7]);
        assert_eq!(without(&[(0, Some(7)), (1, Some(8))]), [7, 8]);
        assert!(without(&[(0, None), (1, None)]).is_empty());
    }

    #[test]
    fn an_id_of_three_sessions_repeats_without_any_one_exchange() {
        assert!(without(&[(0, Some(7)), (1, Some(8)), (2, Some(9))]).is_empty());
    }
}
