//! Takes out of the sessions what is not judged, and joins sessions that are sides of one.

use super::{Matched, alias::Alias, number_of};
use crate::model::{
    exchange::{Exchange, Source},
    flow::Endpoint,
    id::SessionId,
    session::{Grouping, Role, Session},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

/// Rewrites the sessions of `grouping` and the roles of what was matched.
pub(super) fn fold(
    grouping: &mut Grouping,
    exchanges: &mut [Exchange],
    matched: &Matched,
    aliases: &[(Alias, Vec<u32>)],
) {
    if matched.outer.iter().any(Option::is_some) {
        let of_gateways: BTreeMap<u32, &[u32]> = aliases
            .iter()
            .map(|(alias, alone)| (alias.inner, alone.as_slice()))
            .collect();
        let mut joined = same_sessions(grouping, matched, session_in, &grouping.sessions);
        joined.extend(aliases.iter().map(|(alias, _)| (alias.inner, alias.outer)));
        let home = homes(grouping.sessions.len(), joined);
        for (&gateway, &alone) in &of_gateways {
            let client = home.get(gateway as usize).copied().unwrap_or(gateway);
            if let Some(client) = grouping.sessions.get(client as usize) {
                rename(exchanges, alone, &client.id);
            }
        }
        let given = answered_with(grouping, exchanges, matched);
        let sessions = settle(
            &mut grouping.sessions,
            &home,
            &given,
            |session, exchange| {
                // What a gateway asks by itself has no other side, and is no doing of the client.
                let alone = of_gateways.get(&session);
                matched.is_root(exchange)
                    && alone.is_none_or(|alone| alone.binary_search(&exchange).is_ok())
            },
        );
        let joined = same_sessions(grouping, matched, legacy_in, &grouping.legacy);
        let home = homes(grouping.legacy.len(), joined);
        let legacy = settle(
            &mut grouping.legacy,
            &home,
            &BTreeSet::new(),
            |_, exchange| matched.is_root(exchange),
        );
        let place =
            |places: &[Option<u32>], session: u32| places.get(session as usize).copied().flatten();
        let roles = (0..number_of(grouping.role_of.len())).map(|number| {
            let role = |number: u32| grouping.role_of.get(number as usize).copied();
            match (role(number), role(matched.root(number))) {
                (Some(Role::Session(_)), Some(Role::Session(root))) => {
                    place(&sessions, root).map_or(Role::Other, Role::Session)
                }
                (Some(Role::Legacy(_)), Some(Role::Legacy(root))) => {
                    place(&legacy, root).map_or(Role::Other, Role::Legacy)
                }
                // Counted by its other side.
                (Some(Role::Sessionless), _) if !matched.is_root(number) => Role::Other,
                (own, _) => own.unwrap_or_default(),
            }
        });
        grouping.role_of = roles.collect();
    }
    set_apart(grouping, exchanges);
}

fn session_in(role: Role) -> Option<u32> {
    match role {
        Role::Session(session) => Some(session),
        _ => None,
    }
}

fn legacy_in(role: Role) -> Option<u32> {
    match role {
        Role::Legacy(session) => Some(session),
        _ => None,
    }
}

/// Exchanges of a gateway's own session that stand for the client's: under its id.
fn rename(exchanges: &mut [Exchange], alone: &[u32], id: &SessionId) {
    for &number in alone {
        let Some(exchange) = exchanges.get_mut(number as usize) else {
            continue;
        };
        let request = exchange.request.as_mut().map(|r| &mut r.session_id);
        let response = exchange.response.as_mut().map(|r| &mut r.session_id);
        for own in [request, response].into_iter().flatten() {
            if own.is_some() {
                *own = Some(id.clone());
            }
        }
    }
}

/// Sessions of one id, under two services, of which one shows the other side of the other.
fn same_sessions(
    grouping: &Grouping,
    matched: &Matched,
    session_in: fn(Role) -> Option<u32>,
    sessions: &[Session],
) -> Vec<(u32, u32)> {
    let session = |number: u32| {
        let role = grouping.role_of.get(number as usize).copied()?;
        session_in(role)
    };
    let id = |session: u32| sessions.get(session as usize).map(|session| &session.id);
    (0..number_of(grouping.role_of.len()))
        .filter(|&number| !matched.is_root(number))
        .filter_map(|number| Some((session(number)?, session(matched.root(number))?)))
        .filter(|&(inner, outer)| inner != outer && id(inner) == id(outer))
        .collect()
}

/// For each session the one that it is a side of: itself, when it is none. `joined` has the inner one
/// first.
fn homes(sessions: usize, joined: Vec<(u32, u32)>) -> Vec<u32> {
    let mut home: Vec<u32> = (0..number_of(sessions)).collect();
    for (inner, outer) in joined {
        let (inner, outer) = (found(&mut home, inner), found(&mut home, outer));
        if inner != outer
            && let Some(slot) = home.get_mut(inner as usize)
        {
            *slot = outer;
        }
    }
    (0..number_of(sessions))
        .map(|session| found(&mut home, session))
        .collect()
}

/// The sessions under whose ids exchanges that are judged were answered, when they asked for another.
fn answered_with(
    grouping: &Grouping,
    exchanges: &[Exchange],
    matched: &Matched,
) -> BTreeSet<(Arc<str>, SessionId)> {
    let mut given = BTreeSet::new();
    for (number, role) in (0..).zip(&grouping.role_of) {
        let session = session_in(*role)
            .filter(|_| matched.is_root(number))
            .and_then(|session| grouping.sessions.get(session as usize));
        let answered = exchanges
            .get(number as usize)
            .and_then(|exchange| exchange.response.as_ref()?.session_id.clone());
        if let (Some(session), Some(id)) = (session, answered)
            && id != session.id
        {
            given.insert((Arc::clone(&session.service), id));
        }
    }
    given
}

/// The end of the way from a session to its home; the way becomes shorter.
fn found(home: &mut [u32], session: u32) -> u32 {
    let mut at = session;
    while let Some(&next) = home.get(at as usize)
        && next != at
    {
        let after = home.get(next as usize).copied().unwrap_or(next);
        if let Some(slot) = home.get_mut(at as usize) {
            *slot = after;
        }
        at = after;
    }
    at
}

/// Leaves in each session the exchanges that stay, moves them to its home, and lets go of sessions that
/// have none, unless some answer named them. For each old session the new place of its home.
fn settle(
    sessions: &mut Vec<Session>,
    home: &[u32],
    given: &BTreeSet<(Arc<str>, SessionId)>,
    stays: impl Fn(u32, u32) -> bool,
) -> Vec<Option<u32>> {
    let of = |session: u32| home.get(session as usize).copied().unwrap_or(session);
    let mut guests: BTreeMap<u32, Vec<Session>> = BTreeMap::new();
    for (number, session) in (0..).zip(sessions.iter_mut()) {
        session
            .exchanges
            .retain(|&exchange| stays(number, exchange));
        session
            .issued_by
            .retain(|&exchange| stays(number, exchange));
        if of(number) != number {
            let session = std::mem::take(session);
            guests.entry(of(number)).or_default().push(session);
        }
    }
    for (host, guests) in guests {
        if let Some(host) = sessions.get_mut(host as usize) {
            for guest in guests {
                take_in(host, guest);
            }
            host.exchanges.sort_unstable();
            host.issued_by.sort_unstable();
        }
    }
    let mut place: Vec<Option<u32>> = Vec::with_capacity(sessions.len());
    let mut next = 0_u32;
    sessions.retain(|session| {
        let named = || given.contains(&(Arc::clone(&session.service), session.id.clone()));
        let kept = !session.exchanges.is_empty() || named();
        place.push(kept.then_some(next));
        next += u32::from(kept);
        kept
    });
    (0..number_of(home.len()))
        .map(|session| place.get(of(session) as usize).copied().flatten())
        .collect()
}

fn take_in(host: &mut Session, guest: Session) {
    host.exchanges.extend(guest.exchanges);
    host.issued_by.extend(guest.issued_by);
    let fill = |own: &mut Option<Arc<str>>, theirs: Option<Arc<str>>| {
        if own.is_none() {
            *own = theirs;
        }
    };
    fill(&mut host.protocol_version, guest.protocol_version);
    fill(&mut host.client_name, guest.client_name);
    fill(&mut host.server_name, guest.server_name);
}

/// Sessions that come from a proxy to which other sessions of the same service go, and that are no
/// side of any of those as far as shows (a gateway with one session for all its clients), are set
/// apart: what both sides of a proxy show is one thing, and no delivery to the wrong session.
fn set_apart(grouping: &mut Grouping, exchanges: &[Exchange]) {
    let ends = |session: &Session| -> Vec<(IpAddr, IpAddr)> {
        session
            .exchanges
            .iter()
            .filter_map(|&number| exchanges.get(number as usize))
            .filter(|exchange| exchange.source == Source::Packets)
            .filter_map(|exchange| match (&exchange.client, &exchange.server) {
                (Some(Endpoint::Address(client)), Some(Endpoint::Address(server))) => {
                    Some((client.ip(), server.ip()))
                }
                _ => None,
            })
            .collect()
    };
    let mut servers: BTreeMap<Arc<str>, BTreeSet<IpAddr>> = BTreeMap::new();
    for session in &grouping.sessions {
        let known = servers.entry(Arc::clone(&session.service)).or_default();
        known.extend(ends(session).into_iter().map(|(_, server)| server));
    }
    for session in &mut grouping.sessions {
        let ends = ends(session);
        let Some(&(client, _)) = ends.first() else {
            continue;
        };
        let from_proxy = servers
            .get(&session.service)
            .is_some_and(|known| known.contains(&client));
        let alone = ends
            .iter()
            .all(|&(from, server)| from == client && server != client);
        if from_proxy && alone && !client.to_canonical().is_loopback() {
            session.behind = Some(client);
        }
    }
}
