//! Which process answered: by one kind of name for each service.
//!
//! A response may be told its backend in several ways (a header, a sticky cookie, the address on the
//! inner side of a proxy), and the next response in other ways. Names of two kinds are never
//! compared: of what a service shows, the kind that names most streams is taken, and names of other
//! kinds count where they go with one name of that kind alone.

use super::{Matched, number_of, road::ends};
use crate::model::{
    exchange::{BackendName, EndCause, Exchange, Part, Teller},
    session::{Grouping, Role},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// What tells a name, the most trusted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The header that was asked for.
    Asked(u16),
    /// The address on the inner side of the last proxy.
    Address,
    /// A usual header or cookie.
    Usual(u16),
    /// The software that issued the session's id last (`serverInfo`), where it changed.
    Issuer,
}

impl From<Teller> for Kind {
    fn from(teller: Teller) -> Self {
        match teller {
            Teller::Asked(number) => Self::Asked(number),
            Teller::Usual(number) => Self::Usual(number),
        }
    }
}

/// A service as backends are told apart in it.
type Service = (Arc<str>, Option<IpAddr>);

/// All names of one exchange.
type Names = BTreeMap<Kind, Arc<str>>;

/// Sets the backend of every exchange that is judged.
pub(super) fn name(grouping: &Grouping, exchanges: &mut [Exchange], matched: &Matched) {
    let mut services: BTreeMap<Service, Vec<(u32, Names)>> = BTreeMap::new();
    // What was seen of a server without the proxy in front of it is the same server.
    let behind_proxies: BTreeSet<SocketAddr> = (0..number_of(exchanges.len()))
        .filter_map(|number| {
            let inner = innermost(number, exchanges, matched)?;
            let (_, front) = ends(exchanges.get(number as usize)?)?;
            let (_, server) = ends(inner)?;
            (server != front).then_some(server)
        })
        .collect();
    for session in &grouping.sessions {
        let key = (Arc::clone(&session.service), session.behind);
        let list = services.entry(key).or_default();
        let issuers = issuers(&session.exchanges, exchanges);
        for &number in &session.exchanges {
            let mut names = names(number, exchanges, matched, &behind_proxies);
            if let Some(issuer) = issuers.range(..=number).next_back() {
                names.insert(Kind::Issuer, Arc::clone(issuer.1));
            }
            list.push((number, names));
        }
    }
    for (_, list) in services {
        let kind = best(&list, exchanges);
        let translate = translation(&list, kind);
        for (number, names) in &list {
            let backend = kind.and_then(|kind| {
                names.get(&kind).cloned().or_else(|| {
                    names
                        .iter()
                        .find_map(|name| translate.get(&name).cloned().flatten())
                })
            });
            let response = exchanges
                .get_mut(*number as usize)
                .and_then(|exchange| exchange.response.as_mut());
            if let Some(response) = response {
                response.backend = backend;
            }
        }
    }
    // What is in no session is shown with what its response says first.
    for (index, exchange) in exchanges.iter_mut().enumerate() {
        let judged = matched.is_root(number_of(index))
            && matches!(grouping.role_of.get(index), Some(Role::Session(_)));
        if let Some(response) = exchange.response.as_mut().filter(|_| !judged) {
            response.backend = response.named.first().map(|name| Arc::clone(&name.name));
        }
    }
}

/// What names the backend of an exchange: its response, and its inner side.
fn names(
    number: u32,
    exchanges: &[Exchange],
    matched: &Matched,
    behind_proxies: &BTreeSet<SocketAddr>,
) -> Names {
    let mut names = Names::new();
    let Some(outer) = exchanges.get(number as usize) else {
        return names;
    };
    let mut add = |exchange: &Exchange| {
        let named = exchange
            .response
            .iter()
            .flat_map(|response| &response.named);
        for BackendName { teller, name } in named {
            let kind = Kind::from(*teller);
            names.entry(kind).or_insert_with(|| Arc::clone(name));
        }
    };
    add(outer);
    if let Some(inner) = innermost(number, exchanges, matched) {
        add(inner);
    }
    let server = server(number, exchanges, matched);
    if let Some(address) = server.filter(|address| behind_proxies.contains(address)) {
        names.insert(Kind::Address, Arc::from(address.to_string()));
    }
    names
}

/// The last inner side of an exchange, where a proxy had its answer from it: one whose answer lies in a
/// hole, or was not captured any more, gave one all the same when the client has it.
fn innermost<'e>(
    number: u32,
    exchanges: &'e [Exchange],
    matched: &Matched,
) -> Option<&'e Exchange> {
    let at = |number: u32| exchanges.get(number as usize);
    let passed_on = at(number)?.status().is_some_and(|status| status < 400);
    std::iter::successors(matched.inner_of(number), |&at| matched.inner_of(at))
        .take(exchanges.len())
        .filter_map(at)
        .take_while(|exchange| {
            let unseen =
                exchange.has_hole(Part::ResponseHead) || exchange.end.cause == EndCause::CaptureEnd;
            exchange.response.is_some() || passed_on && unseen
        })
        .last()
}

/// The server that an exchange ended at, as far as it was captured.
fn server(number: u32, exchanges: &[Exchange], matched: &Matched) -> Option<SocketAddr> {
    let last = innermost(number, exchanges, matched).or_else(|| exchanges.get(number as usize))?;
    ends(last).map(|(_, server)| server)
}

/// The software that issued a session's id, from each `initialize` on; nothing when it was always
/// the same: software names no process, only that another one took over.
fn issuers(members: &[u32], exchanges: &[Exchange]) -> BTreeMap<u32, Arc<str>> {
    let mut issuers: BTreeMap<u32, Arc<str>> = BTreeMap::new();
    for &number in members {
        let Some(exchange) = exchanges
            .get(number as usize)
            .filter(|exchange| exchange.is_initialize())
        else {
            continue;
        };
        let Some(response) = &exchange.response else {
            continue;
        };
        let greeting = response.greeting.as_deref();
        if let Some((greeting, name)) =
            greeting.and_then(|said| Some((said, said.server_name.as_ref()?)))
        {
            let version = greeting.server_version.as_deref().unwrap_or_default();
            let name = format!("{name} {version}");
            issuers.insert(number, Arc::from(name.trim_end()));
        }
    }
    let different: BTreeSet<&Arc<str>> = issuers.values().collect();
    if different.len() < 2 {
        issuers.clear();
    }
    issuers
}

/// The kind of name that serves a service best: one that was asked for, else the one that names most
/// streams, of equals the finest. One that is another for every response names responses.
fn best(list: &[(u32, Names)], exchanges: &[Exchange]) -> Option<Kind> {
    let is_stream = |number: u32| {
        let exchange = exchanges.get(number as usize);
        exchange.is_some_and(Exchange::is_event_stream)
    };
    let mut kinds: BTreeMap<Kind, (usize, usize, BTreeSet<&str>)> = BTreeMap::new();
    for (number, names) in list {
        for (&kind, name) in names {
            let (streams, all, different) = kinds.entry(kind).or_default();
            *streams += usize::from(is_stream(*number));
            *all += 1;
            different.insert(name);
        }
    }
    let asked = kinds.keys().any(|kind| matches!(kind, Kind::Asked(_)));
    kinds
        .into_iter()
        .filter(|(kind, _)| !asked || matches!(kind, Kind::Asked(_)))
        .filter(|(kind, (_, all, different))| {
            let each = *all >= RESPONSES && different.len() * 2 > *all;
            !(each && matches!(kind, Kind::Usual(_)))
        })
        // What names processes comes before what names software.
        .map(|(kind, (streams, all, different))| {
            let process = kind != Kind::Issuer;
            ((process, streams, all, different.len()), kind)
        })
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, kind)| kind)
}

/// For names of other kinds the one of the chosen kind that they go with; `None` for those that go
/// with several.
fn translation(
    list: &[(u32, Names)],
    kind: Option<Kind>,
) -> BTreeMap<(&Kind, &Arc<str>), Option<Arc<str>>> {
    let mut known: BTreeMap<(&Kind, &Arc<str>), Option<Arc<str>>> = BTreeMap::new();
    let Some(kind) = kind else {
        return known;
    };
    for (_, names) in list {
        let Some(own) = names.get(&kind) else {
            continue;
        };
        let others = names
            .iter()
            .filter(|(other, _)| **other != kind && **other != Kind::Issuer);
        for other in others {
            let meant = known.entry(other).or_insert_with(|| Some(Arc::clone(own)));
            if meant.as_ref() != Some(own) {
                *meant = None;
            }
        }
    }
    known
}

/// So many responses show whether a header names a process or each of them.
const RESPONSES: usize = 8;
