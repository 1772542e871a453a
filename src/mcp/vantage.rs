//! Proxies captured on both sides (docs/audit.md, "Proxies and vantages").
//!
//! Two exchanges are the two sides of one when method, cursor and body agree, the session agrees,
//! and the second begins within a second while the first is open and is answered no later. The
//! verdict comes from the side nearest the client; the other names the backend.

use crate::model::{
    exchange::Exchange,
    flow::Endpoint,
    message::PayloadHash,
    session::{Grouping, Role, Session},
    time::Span,
};
use foldhash::fast::RandomState;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// A proxy passes a request on within this time.
const FORWARDED_WITHIN: Span = Span::from_secs(1);

/// Packets of one instant are captured out of order by this much.
const DISORDER: Span = Span::from_millis(5);

/// Matches exchanges, names backends, and takes the inner sides out of their sessions. `exchanges`
/// are in order of time.
pub fn pair(grouping: &mut Grouping, exchanges: &mut [Exchange]) {
    let inner_of = match_sides(grouping, exchanges);
    let mut inner_by_outer: Vec<Option<usize>> = vec![None; exchanges.len()];
    for (inner, outer) in inner_of.iter().enumerate() {
        if let Some(slot) = outer.and_then(|outer| inner_by_outer.get_mut(outer as usize)) {
            *slot = Some(inner);
        }
    }
    // A chain of proxies: the innermost side names the backend of the outermost.
    for root in (0..exchanges.len()).filter(|&number| inner_of.get(number) == Some(&None)) {
        let step = |number: &usize| inner_by_outer.get(*number).copied().flatten();
        let innermost = std::iter::successors(step(&root), step).last();
        let server = innermost
            .and_then(|number| exchanges.get(number)?.server.as_ref())
            .map(|server| Arc::from(server.to_string()));
        let response = exchanges
            .get_mut(root)
            .and_then(|exchange| exchange.response.as_mut());
        if let (Some(response), Some(server)) = (response, server) {
            response.backend = Some(server);
        }
    }
    if inner_of.iter().any(Option::is_some) {
        take_out(grouping, &inner_of);
    }
    grouping.inner_of = inner_of;
}

/// For each exchange the one it is the inner side of.
fn match_sides(grouping: &Grouping, exchanges: &[Exchange]) -> Vec<Option<u32>> {
    let mut inner_of: Vec<Option<u32>> = vec![None; exchanges.len()];
    let mut has_inner = vec![false; exchanges.len()];
    let mut open: HashMap<Likeness<'_>, Vec<usize>, RandomState> = HashMap::default();
    for (number, exchange) in exchanges.iter().enumerate() {
        if !matches!(grouping.role_of.get(number), Some(Role::Session(_))) {
            continue;
        }
        let Some(likeness) = Likeness::of(exchange) else {
            continue;
        };
        let list = open.entry(likeness).or_default();
        list.retain(|&other| {
            exchanges
                .get(other)
                .is_some_and(|other| exchange.time().since(other.time()) <= FORWARDED_WITHIN)
        });
        let free = |list: &[bool], number: usize| !list.get(number).copied().unwrap_or(true);
        let at = |number: usize| exchanges.get(number);
        let outer = list.iter().rev().copied().find(|&other| {
            free(&has_inner, other) && at(other).is_some_and(|other| forwards(other, exchange))
        });
        // Two packets of one instant may be captured the other way round.
        let inner = list.iter().rev().copied().find(|&other| {
            inner_of.get(other) == Some(&None)
                && at(other).is_some_and(|other| forwards(exchange, other))
        });
        let outer = outer.map(|outer| (outer, number));
        let inner = inner.map(|inner| (number, inner));
        // Where the times allow both, the proxy's own host tells which side is which.
        let adjoin = |&(outer, inner): &(usize, usize)| {
            at(outer)
                .zip(at(inner))
                .is_some_and(|(outer, inner)| meet(outer, inner))
        };
        let pair = outer
            .filter(adjoin)
            .or(inner.filter(adjoin))
            .or(outer)
            .or(inner);
        if let Some((outer, inner)) = pair {
            if let Some(taken) = has_inner.get_mut(outer) {
                *taken = true;
            }
            if let Some(slot) = inner_of.get_mut(inner) {
                *slot = u32::try_from(outer).ok();
            }
        }
        list.push(number);
    }
    inner_of
}

/// What two sides of one exchange have in common.
#[derive(PartialEq, Eq, Hash)]
struct Likeness<'a> {
    session: &'a str,
    method: &'a str,
    cursor: Option<&'a str>,
    body: PayloadHash,
}

impl<'a> Likeness<'a> {
    fn of(exchange: &'a Exchange) -> Option<Self> {
        let request = exchange
            .request
            .as_ref()
            .filter(|request| request.complete)?;
        let given = exchange
            .response
            .as_ref()
            .and_then(|response| response.session_id.as_deref());
        Some(Self {
            session: request.session_id.as_deref().or(given)?,
            method: &request.method,
            cursor: request.last_event_id.as_deref(),
            body: request.body,
        })
    }
}

/// Whether `inner` can be what a proxy made of `outer`.
fn forwards(outer: &Exchange, inner: &Exchange) -> bool {
    let (Some(Endpoint::Address(client)), Some(Endpoint::Address(proxy))) =
        (&outer.client, &outer.server)
    else {
        return false;
    };
    let (Some(Endpoint::Address(from)), Some(Endpoint::Address(server))) =
        (&inner.client, &inner.server)
    else {
        return false;
    };
    // One client that asks two servers, or one server twice, is no proxy. On one machine the
    // addresses do not tell.
    let one_client =
        client.ip() == from.ip() && client.ip() != proxy.ip() && !client.ip().is_loopback();
    if proxy == server || client == from || one_client {
        return false;
    }
    let passed_on = inner.time().since(outer.time());
    let begins_within = passed_on.nanos() >= -DISORDER.nanos() && outer.end.time >= inner.time();
    let answered = |exchange: &Exchange| exchange.response.as_ref().map(|response| response.time);
    let no_later = match (answered(outer), answered(inner)) {
        (Some(outer), Some(inner)) => inner.since(outer) <= DISORDER,
        _ => true,
    };
    begins_within && no_later
}

/// Whether the host that `outer` asks is the one that `inner` comes from.
fn meet(outer: &Exchange, inner: &Exchange) -> bool {
    let host = |end: &Option<Endpoint>| end.as_ref().and_then(Endpoint::ip);
    host(&outer.server).is_some_and(|proxy| host(&inner.client) == Some(proxy))
}

/// Takes inner sides out of their sessions; a session of nothing else goes, and what pointed at it
/// points at the outer side's.
fn take_out(grouping: &mut Grouping, inner_of: &[Option<u32>]) {
    let is_inner = |number: u32| inner_of.get(number as usize).copied().flatten().is_some();
    let mut gone: BTreeSet<usize> = BTreeSet::new();
    for (index, session) in grouping.sessions.iter_mut().enumerate() {
        let before = session.exchanges.len();
        session.exchanges.retain(|&number| !is_inner(number));
        session.issued_by.retain(|&number| !is_inner(number));
        if before > 0 && session.exchanges.is_empty() {
            gone.insert(index);
        }
    }
    let mut place = Vec::with_capacity(grouping.sessions.len());
    let mut next = 0_u32;
    for index in 0..grouping.sessions.len() {
        place.push((!gone.contains(&index)).then_some(next));
        next += u32::from(!gone.contains(&index));
    }
    let mut index = 0;
    grouping.sessions.retain(|_: &Session| {
        index += 1;
        !gone.contains(&(index - 1))
    });
    for role in &mut grouping.role_of {
        if let Role::Session(old) = *role {
            let new = place.get(old as usize).copied().flatten();
            *role = new.map_or(Role::Other, Role::Session);
        }
    }
    for number in 0..grouping.role_of.len() {
        let step = |number: &usize| {
            inner_of
                .get(*number)
                .copied()
                .flatten()
                .map(|outer| outer as usize)
        };
        let root = std::iter::successors(step(&number), step)
            .take(inner_of.len())
            .last();
        let role = root.and_then(|root| grouping.role_of.get(root).copied());
        if let (Some(role), Some(slot)) = (role, grouping.role_of.get_mut(number)) {
            *slot = role;
        }
    }
}
