//! Sessions that several hosts hold (docs/findings.md, `session-shared`).
//!
//! Seen at one place: the same input and server. Two addresses are one client when they show one
//! exchange twice (an address translation, a proxy that the vantages did not match), or when one is a
//! server of the other (a proxy). Hosts that share most of their sessions with each other are a farm of
//! proxies, or one client with several ways out.

use super::{
    Run, members,
    same::{is_known, may_be_one},
};
use crate::model::{
    case::{Shared, Site},
    exchange::{Answer, Exchange},
    flow::Endpoint,
    message::PayloadHash,
    place::InputId,
    session::Session,
    time::{Span, Timestamp},
};
use foldhash::fast::RandomState;
use rayon::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    net::{IpAddr, Ipv4Addr},
};

/// Two hosts are there at one time when one asks between two signs of life of the other that are
/// closer than this: whoever changes networks does not come back so soon.
const AT_ONE_TIME: Span = Span::from_secs(60);
/// While it changes networks, a client may use the old one this much longer.
const HANDOVER: Span = Span::from_millis(500);
/// So many of the exchanges before it an exchange is held against: copies follow each other closely.
const LOOKED_BACK: usize = 16;
/// So many shared sessions, and more than half of all of its, make a host one of a farm.
const FARM: u32 = 3;

/// Hosts looked at for each under whose address others come.
const FACES: usize = 256;

/// The shared sessions of a run, by index, each with the exchange at which the second host appears.
pub(super) fn look(run: Run<'_>) -> Vec<(usize, u32, Shared)> {
    let sessions = &run.grouping.sessions;
    let faces = faces(run);
    let mut found: Vec<(usize, Holding)> = sessions
        .par_iter()
        .enumerate()
        .filter_map(|(index, session)| Some((index, holding(session, run.exchanges, &faces)?)))
        .collect();
    let farms = Farms::of(run, &found);
    found
        .drain(..)
        .map(|(index, held)| {
            let service = run.service_of.get(index).copied().unwrap_or(0);
            let farm = held.hosts.iter().all(|&host| farms.has(service, host));
            let shared = Shared {
                hosts: u32::try_from(held.clients).unwrap_or(u32::MAX),
                at_once: held.at_once,
                farm,
                site: Site::default(),
            };
            (index, held.number, shared)
        })
        .collect()
}

/// Who holds a session.
struct Holding {
    /// The exchange at which the second client appears.
    number: u32,
    /// How many clients.
    clients: usize,
    /// Their addresses.
    hosts: BTreeSet<IpAddr>,
    /// Two of them were there at one time.
    at_once: bool,
}

fn host(end: Option<&Endpoint>) -> Option<IpAddr> {
    end.and_then(Endpoint::ip)
}

/// Hosts under whose addresses exchanges of others come to the same server, with those others: a
/// translation of addresses, or a proxy that keeps the server's.
fn faces(run: Run<'_>) -> BTreeSet<(IpAddr, IpAddr)> {
    (0..)
        .zip(&run.grouping.inner_of)
        .filter_map(|(inner, outer)| Some((run.exchange(inner)?, run.exchange((*outer)?)?)))
        .filter(|(inner, outer)| inner.server == outer.server)
        .filter_map(|(inner, outer)| {
            Some((host(inner.client.as_ref())?, host(outer.client.as_ref())?))
        })
        .filter(|(inner, outer)| inner != outer)
        .collect()
}

fn holding(
    session: &Session,
    exchanges: &[Exchange],
    faces: &BTreeSet<(IpAddr, IpAddr)>,
) -> Option<Holding> {
    let mut first = None;
    let several = members(session, exchanges)
        .filter_map(|(_, exchange)| host(exchange.client.as_ref()))
        .any(|host| *first.get_or_insert(host) != host);
    if !several {
        return None;
    }
    let mut sides = Sides::of(session, exchanges, faces);
    // By input and server: who was served when.
    let mut seen: BTreeMap<(InputId, &Endpoint), Vec<Presence>> = BTreeMap::new();
    let mut addresses: BTreeMap<usize, BTreeSet<IpAddr>> = BTreeMap::new();
    for (number, exchange) in members(session, exchanges) {
        let served = exchange.answer() == Answer::Success && exchange.request.is_some();
        let (Some(address), Some(server)) = (host(exchange.client.as_ref()), &exchange.server)
        else {
            continue;
        };
        let Some(client) = sides.client(address).filter(|_| served) else {
            continue;
        };
        addresses.entry(client).or_default().insert(address);
        let from = exchange.time();
        let until = exchange
            .end
            .last_acknowledged
            .filter(|_| exchange.is_event_stream())
            .map_or(from, |acknowledged| acknowledged.max(from));
        seen.entry((exchange.place.input, server))
            .or_default()
            .push(Presence {
                client,
                number,
                from,
                until,
            });
    }
    seen.values()
        .filter_map(|seen| {
            let first = seen.first()?.client;
            let second = seen.iter().find(|presence| presence.client != first)?;
            let clients: BTreeSet<usize> = seen.iter().map(|presence| presence.client).collect();
            Some(Holding {
                number: second.number,
                clients: clients.len(),
                hosts: clients
                    .iter()
                    .filter_map(|client| addresses.get(client))
                    .flatten()
                    .copied()
                    .collect(),
                at_once: at_once(seen),
            })
        })
        .min_by_key(|holding| (!holding.at_once, holding.number))
}

/// A client of a session during one exchange: it asked, and up to `until` it acknowledged.
#[derive(Clone, Copy, Debug)]
struct Presence {
    client: usize,
    number: u32,
    from: Timestamp,
    until: Timestamp,
}

/// Whether two clients were there at one time; `seen` is in order of time.
fn at_once(seen: &[Presence]) -> bool {
    let mut asked: BTreeMap<usize, Vec<Timestamp>> = BTreeMap::new();
    // The longest presence so far. Those who asked last, a handover ago.
    let mut longest = Top::default();
    let mut others = Top::default();
    let mut handed_over = seen.iter().peekable();
    for presence in seen {
        let Presence { client, from, .. } = *presence;
        while let Some(other) = handed_over.next_if(|other| from.since(other.from) >= HANDOVER) {
            others.add(other.client, other.from);
        }
        let own = asked.entry(client).or_default();
        let returned = others.best_but(client).is_some_and(|other| {
            let place = own.partition_point(|&time| time < other);
            place
                .checked_sub(1)
                .and_then(|before| own.get(before))
                .is_some_and(|&before| from.since(before) <= AT_ONE_TIME)
        });
        let held_open = longest
            .best_but(client)
            .is_some_and(|until| until.since(from) >= HANDOVER);
        if returned || held_open {
            return true;
        }
        own.push(from);
        longest.add(client, presence.until);
    }
    false
}

/// The latest time of all clients, and the latest of another one.
#[derive(Default)]
struct Top {
    best: Option<(usize, Timestamp)>,
    other: Option<(usize, Timestamp)>,
}

impl Top {
    fn add(&mut self, client: usize, time: Timestamp) {
        match self.best {
            Some((best, latest)) if best == client => {
                self.best = Some((client, time.max(latest)));
            }
            Some((_, latest)) if time >= latest => {
                self.other = self.best.replace((client, time));
            }
            Some(_) if self.other.is_none_or(|(_, latest)| time > latest) => {
                self.other = Some((client, time));
            }
            Some(_) => {}
            None => self.best = Some((client, time)),
        }
    }

    /// The latest time of another client than this one.
    fn best_but(&self, client: usize) -> Option<Timestamp> {
        let best = self.best.filter(|(best, _)| *best != client);
        best.or(self.other).map(|(_, time)| time)
    }
}

/// Which addresses of a session are one client.
struct Sides {
    place: BTreeMap<IpAddr, usize>,
    one_with: Vec<usize>,
}

impl Sides {
    fn of(session: &Session, exchanges: &[Exchange], faces: &BTreeSet<(IpAddr, IpAddr)>) -> Self {
        let mut sides = Self {
            place: BTreeMap::new(),
            one_with: Vec::new(),
        };
        for (_, exchange) in members(session, exchanges) {
            if let Some(host) = host(exchange.client.as_ref()) {
                let next = sides.one_with.len();
                if *sides.place.entry(host).or_insert(next) == next {
                    sides.one_with.push(next);
                }
            }
        }
        sides.join_proxies(session, exchanges);
        sides.join_faces(faces);
        sides.join_copies(session, exchanges);
        sides
    }

    /// The client that an address belongs to.
    fn client(&mut self, host: IpAddr) -> Option<usize> {
        let mut at = *self.place.get(&host)?;
        while let Some(&up) = self.one_with.get(at)
            && up != at
        {
            // Halve the way, so that it stays short.
            let above = self.one_with.get(up).copied().unwrap_or(up);
            if let Some(slot) = self.one_with.get_mut(at) {
                *slot = above;
            }
            at = above;
        }
        Some(at)
    }

    fn join(&mut self, a: IpAddr, b: IpAddr) {
        if let (Some(a), Some(b)) = (self.client(a), self.client(b))
            && let Some(slot) = self.one_with.get_mut(a.max(b))
        {
            *slot = a.min(b);
        }
    }

    /// A host that one asks and that asks itself passes on.
    fn join_proxies(&mut self, session: &Session, exchanges: &[Exchange]) {
        for (_, exchange) in members(session, exchanges) {
            let ends = host(exchange.client.as_ref()).zip(host(exchange.server.as_ref()));
            if let Some((client, server)) = ends
                && client != server
                && self.place.contains_key(&server)
            {
                self.join(client, server);
            }
        }
    }

    /// A host under whose address exchanges of another one came, elsewhere, is that one.
    fn join_faces(&mut self, faces: &BTreeSet<(IpAddr, IpAddr)>) {
        if faces.is_empty() {
            return;
        }
        let hosts: Vec<IpAddr> = self.place.keys().copied().collect();
        for face in hosts {
            let least = (face, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            let of_face = faces.range(least..).take_while(|(own, _)| *own == face);
            for &(_, other) in of_face.take(FACES) {
                self.join(face, other);
            }
        }
    }

    /// Two hosts that show one exchange are one.
    fn join_copies<'a>(&mut self, session: &Session, exchanges: &'a [Exchange]) {
        let mut alike: HashMap<Likeness<'a>, Recent<'a>, RandomState> = HashMap::default();
        let (mut all, mut unknown) = (Recent::default(), Recent::default());
        for (_, exchange) in members(session, exchanges) {
            if host(exchange.client.as_ref()).is_none() {
                continue;
            }
            if is_known(exchange) {
                let own = alike.entry(Likeness::of(exchange)).or_default();
                own.compare(exchange, self);
                own.add(exchange);
                unknown.compare(exchange, self);
            } else {
                all.compare(exchange, self);
                unknown.add(exchange);
            }
            all.add(exchange);
        }
    }
}

/// What two sides of one exchange have in common, whoever wrote its JSON.
#[derive(PartialEq, Eq, Hash)]
struct Likeness<'a> {
    method: &'a str,
    cursor: Option<&'a str>,
    rpc_id: Option<&'a str>,
    call: Option<PayloadHash>,
}

impl<'a> Likeness<'a> {
    fn of(exchange: &'a Exchange) -> Self {
        let request = exchange.request.as_ref();
        let message = request.and_then(|request| request.messages.first());
        Self {
            method: exchange.method(),
            cursor: request.and_then(|request| request.last_event_id.as_deref()),
            rpc_id: message.and_then(|message| message.id.as_deref()),
            call: message.map(|message| message.call),
        }
    }
}

/// The last exchanges of some kind.
#[derive(Default)]
struct Recent<'a>(VecDeque<&'a Exchange>);

impl<'a> Recent<'a> {
    fn compare(&self, exchange: &Exchange, sides: &mut Sides) {
        for other in &self.0 {
            let hosts = host(exchange.client.as_ref()).zip(host(other.client.as_ref()));
            if let Some((a, b)) = hosts
                && a != b
                && may_be_one(other, exchange)
            {
                sides.join(a, b);
            }
        }
    }

    fn add(&mut self, exchange: &'a Exchange) {
        if self.0.len() == LOOKED_BACK {
            self.0.pop_front();
        }
        self.0.push_back(exchange);
    }
}

/// Hosts that share most of their sessions.
#[derive(Default)]
struct Farms {
    /// By service and host: sessions, and shared ones.
    hosts: BTreeMap<(u32, IpAddr), (u32, u32)>,
    /// By service: sessions that may be shared where the capture does not show it.
    unseen: BTreeMap<u32, u32>,
}

impl Farms {
    fn of(run: Run<'_>, found: &[(usize, Holding)]) -> Self {
        let mut farms = Self::default();
        for (index, held) in found {
            let service = run.service_of.get(*index).copied().unwrap_or(0);
            for &host in &held.hosts {
                farms.hosts.entry((service, host)).or_default().1 += 1;
            }
        }
        if farms.hosts.is_empty() {
            return farms;
        }
        let blanks = u32::try_from(run.servers.blanks.iter().count()).unwrap_or(u32::MAX);
        for (session, &service) in run.grouping.sessions.iter().zip(run.service_of) {
            let torn = run
                .exchanges_of(session)
                .any(|(_, exchange)| !exchange.holes.is_empty() || exchange.request.is_none());
            let unseen = farms.unseen.entry(service).or_insert(blanks);
            *unseen = unseen.saturating_add(u32::from(torn));
            let mut last = None;
            let hosts: BTreeSet<IpAddr> = run
                .exchanges_of(session)
                .filter_map(|(_, exchange)| host(exchange.client.as_ref()))
                .filter(|host| last.replace(*host) != Some(*host))
                .collect();
            for host in hosts {
                if let Some((all, _)) = farms.hosts.get_mut(&(service, host)) {
                    *all += 1;
                }
            }
        }
        farms
    }

    fn has(&self, service: u32, host: IpAddr) -> bool {
        let unseen = self.unseen.get(&service).copied().unwrap_or(0);
        self.hosts
            .get(&(service, host))
            .is_some_and(|&(all, shared)| {
                let shared = shared.saturating_add(unseen);
                shared >= FARM && shared.saturating_mul(2) > all
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(list: &[(usize, i64, i64)]) -> bool {
        let at = |seconds| Timestamp::default().plus(Span::from_secs(seconds));
        let presences: Vec<Presence> = list
            .iter()
            .map(|&(client, from, until)| Presence {
                client,
                number: 0,
                from: at(from),
                until: at(until),
            })
            .collect();
        at_once(&presences)
    }

    #[test]
    fn who_leaves_for_good_or_comes_back_late_was_not_there_at_the_same_time() {
        assert!(!seen(&[(0, 0, 0), (0, 5, 5), (1, 6, 6), (1, 9, 9)]));
        assert!(!seen(&[(0, 0, 0), (1, 30, 30), (0, 61, 61)]));
        assert!(!seen(&[(0, 0, 20), (1, 20, 20), (2, 30, 30)]));
        // Requests on their way over the old network.
        assert!(!seen(&[(0, 5, 5), (1, 6, 6), (0, 6, 6), (1, 7, 7)]));
    }

    #[test]
    fn who_asks_in_turns_or_while_the_other_listens_was() {
        assert!(seen(&[(0, 0, 0), (1, 30, 30), (0, 60, 60)]));
        assert!(seen(&[(0, 0, 20), (1, 19, 19)]));
        assert!(seen(&[(0, 0, 500), (0, 1, 1), (2, 2, 2)]));
        assert!(seen(&[(1, 0, 50), (0, 0, 0), (2, 40, 40)]));
        assert!(seen(&[(0, 0, 0), (1, 10, 10), (2, 20, 20), (0, 30, 30)]));
        assert!(seen(&[
            (0, 0, 0),
            (1, 1, 1),
            (0, 1, 1),
            (1, 2, 2),
            (0, 2, 2)
        ]));
    }
}
