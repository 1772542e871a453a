//! Exchange by exchange: which of them a proxy made of which, under one session id.
//!
//! Candidates say the same ([`Likeness`]) and nest in time. Where addresses chain, that is enough.
//! Where they do not tell (one machine, hosts with several addresses), the link from that server to
//! that client must be proven by pairs whose answers agree: one that issued one session id or carries
//! one trace, or two that said different things.

use super::{
    Matched, SIDES,
    likeness::{Agreement, Likeness, agreement, calls, is_traced},
    number_of,
    road::{self, HELD, Road, came_to_nothing, ends, nests, road_from},
};
use crate::model::{
    exchange::{Exchange, Part},
    session::{Grouping, Role},
    time::Span,
};
use foldhash::fast::RandomState;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    net::{IpAddr, SocketAddr},
};

/// Finds the inner sides among the exchanges of sessions, and among those of MCP without sessions.
pub(super) fn find(grouping: &Grouping, exchanges: &[Exchange]) -> Matched {
    let keys: Vec<Option<Likeness<'_>>> = exchanges
        .iter()
        .zip(&grouping.role_of)
        .map(|(exchange, role)| {
            let mut key = Likeness::of(exchange)?;
            match *role {
                Role::Session(_) => Some(key).filter(|key| key.session.is_some()),
                Role::Legacy(session) => {
                    key.session = Some(&grouping.legacy.get(session as usize)?.id);
                    Some(key)
                }
                Role::Sessionless => Some(key),
                Role::Refused(_) | Role::Other => None,
            }
        })
        .collect();
    let mut links = Links::default();
    if !has_two_sides(&keys, exchanges) {
        return Matched::new(exchanges.len());
    }
    Pass::new(exchanges, &keys).run(&mut |pair| pair.agreement == Agreement::Same, &mut |pair| {
        links.learn(pair, &keys);
    });
    links.follow();
    Pass::new(exchanges, &keys).run(&mut |pair| links.allow(pair, &keys), &mut |_| {})
}

/// Whether anything can be a pair at all: the same said twice over two connections' ends. Spares
/// the common capture of one side the rest.
fn has_two_sides(keys: &[Option<Likeness<'_>>], exchanges: &[Exchange]) -> bool {
    let mut servers: BTreeSet<(Option<SocketAddr>, Option<IpAddr>)> = BTreeSet::new();
    for (exchange, _) in exchanges.iter().zip(keys).filter(|(_, key)| key.is_some()) {
        let ends = ends(exchange);
        servers.insert((
            ends.map(|(_, server)| server),
            ends.map(|(client, _)| client.ip()),
        ));
        if servers.len() > 1 {
            return true;
        }
    }
    false
}

/// Two exchanges that may be the two sides of one.
#[derive(Clone, Copy, Debug)]
struct Pair<'a> {
    outer: u32,
    inner: u32,
    road: Road,
    agreement: Agreement,
    /// From which server to which client.
    link: Link,
    around: Span,
    /// One trace runs over both.
    traced: bool,
    exchange: &'a Exchange,
}

/// From the server that an outer client asked, to the client that asked on: a proxy by its two
/// faces.
type Link = (SocketAddr, IpAddr);

/// What pairs that agree have shown of each link.
#[derive(Debug, Default)]
struct Links {
    proofs: HashMap<Link, Proof, RandomState>,
    /// From each proxy the servers that it asks.
    onwards: BTreeMap<IpAddr, BTreeSet<IpAddr>>,
    /// From each proxy the hosts that it asks, be it over others.
    beyond: BTreeMap<IpAddr, BTreeSet<IpAddr>>,
}

#[derive(Debug, Default)]
struct Proof {
    /// One session id was issued over both sides, or one trace runs over both.
    certain: bool,
    /// Different things that were said and answered alike on both sides, up to two.
    said: Vec<u64>,
}

impl Links {
    fn learn(&mut self, pair: &Pair<'_>, keys: &[Option<Likeness<'_>>]) {
        if is_sessionless(pair, keys) {
            return;
        }
        let away = |end: &SocketAddr| !end.ip().to_canonical().is_loopback();
        if let Some((from, server)) = ends(pair.exchange).filter(|(from, _)| away(from)) {
            let room = self.onwards.len() < PROXIES;
            if room || self.onwards.contains_key(&from.ip()) {
                let known = self.onwards.entry(from.ip()).or_default();
                if known.len() < PROXIES {
                    known.insert(server.ip());
                }
            }
        }
        let proof = self.proofs.entry(pair.link).or_default();
        proof.certain |= pair.exchange.is_initialize() || pair.traced;
        let said = keys.get(pair.inner as usize).copied().flatten();
        let said = said.map_or(0, Likeness::digest);
        if proof.said.len() < 2 && !proof.said.contains(&said) {
            proof.said.push(said);
        }
    }

    fn allow(&self, pair: &Pair<'_>, keys: &[Option<Likeness<'_>>]) -> bool {
        if is_sessionless(pair, keys) {
            // Nothing but the answer tells one client's call from another's.
            return match pair.road {
                Road::Translated => pair.agreement > Agreement::Other,
                Road::Chained => pair.agreement == Agreement::Same && calls(pair.exchange),
                Road::Machine | Road::Apart => false,
            };
        }
        let proof = self.proofs.get(&pair.link);
        match pair.road {
            Road::Chained => true,
            Road::Translated => pair.agreement > Agreement::Other,
            Road::Machine | Road::Apart => {
                let proven = proof.is_some_and(|proof| proof.certain || proof.said.len() > 1);
                pair.agreement > Agreement::Other && (proven || self.leads(pair.link))
            }
        }
    }
}

impl Links {
    /// Works out which proxies lead to which hosts over others: the side between two of them may be
    /// missing.
    fn follow(&mut self) {
        let next = |host: &IpAddr| self.onwards.get(host).into_iter().flatten().copied();
        self.beyond = self
            .onwards
            .keys()
            .map(|&host| {
                let mut reached: BTreeSet<IpAddr> = next(&host).collect();
                for _ in 0..SIDES {
                    let more: Vec<IpAddr> = reached.iter().flat_map(next).collect();
                    reached.extend(more);
                }
                (host, reached)
            })
            .collect();
    }

    /// Whether the server of a link asks its client, be it over others.
    fn leads(&self, (server, client): Link) -> bool {
        let reached = self.beyond.get(&server.ip());
        reached.is_some_and(|reached| reached.contains(&client))
    }
}

fn is_sessionless(pair: &Pair<'_>, keys: &[Option<Likeness<'_>>]) -> bool {
    let key = keys.get(pair.inner as usize).copied().flatten();
    key.is_none_or(|key| key.session.is_none())
}

/// One look over all exchanges, in order of time.
struct Pass<'a> {
    exchanges: &'a [Exchange],
    keys: &'a [Option<Likeness<'a>>],
    matched: Matched,
    /// The latest exchanges that say the same.
    recent: HashMap<Likeness<'a>, VecDeque<u32>, RandomState>,
}

impl<'a> Pass<'a> {
    fn new(exchanges: &'a [Exchange], keys: &'a [Option<Likeness<'a>>]) -> Self {
        Self {
            exchanges,
            keys,
            matched: Matched::new(exchanges.len()),
            recent: HashMap::default(),
        }
    }

    fn run(
        mut self,
        allow: &mut dyn FnMut(&Pair<'_>) -> bool,
        take: &mut dyn FnMut(&Pair<'_>),
    ) -> Matched {
        for (index, (exchange, key)) in self.exchanges.iter().zip(self.keys).enumerate() {
            let (number, Some(key)) = (number_of(index), key) else {
                continue;
            };
            let mut recent = self.recent.remove(key).unwrap_or_default();
            while recent.len() >= CANDIDATES
                || recent.front().is_some_and(|&old| {
                    let old = self.exchanges.get(old as usize);
                    old.is_none_or(|old| exchange.time().since(old.time()) > HELD)
                })
            {
                recent.pop_front();
            }
            let best = recent
                .iter()
                .rev()
                .flat_map(|&other| [self.pair(other, number), self.pair(number, other)])
                .flatten()
                .filter(|pair| allow(pair))
                // Of equals the first: the latest exchange, as the outer side.
                .reduce(|best, pair| if pair.beats(&best) { pair } else { best });
            if let Some(pair) = best {
                take(&pair);
                self.matched.pair(pair.outer, pair.inner);
                if pair.outer == number {
                    // By another clock, all that a proxy tried may lie before.
                    for &other in &recent {
                        if let Some(pair) = self.pair(number, other).filter(|pair| allow(pair)) {
                            self.matched.pair(pair.outer, pair.inner);
                        }
                    }
                }
            }
            recent.push_back(number);
            self.recent.insert(*key, recent);
        }
        self.matched
    }

    /// `inner` as what a proxy made of `outer`, when it can be that.
    fn pair(&self, outer: u32, inner: u32) -> Option<Pair<'a>> {
        let at = |number: u32| self.exchanges.get(number as usize);
        let (one, two) = (at(outer)?, at(inner)?);
        let sides = self.matched.outwards(outer).filter_map(at);
        let road = road_from(sides, two)?;
        if !self.matched.is_root(inner)
            || !self.matched.has_room(outer, inner)
            || !nests(one, two)
            || !self.takes(outer, two)
            || !is_this_way(road, one, two)
        {
            return None;
        }
        let ((_, proxy), (from, _)) = (ends(one)?, ends(two)?);
        Some(Pair {
            outer,
            inner,
            road,
            agreement: agreement(one, two),
            link: (proxy, from.ip()),
            around: road::around(one, two),
            traced: is_traced(one, two),
            exchange: two,
        })
    }

    /// Whether an exchange may still get an inner side: it has none, or of the two one was over before
    /// the other began, for a proxy tries again what came to nothing. Where the answer of one lies in a
    /// hole, that it asked again while the client waited says that it came to nothing.
    fn takes(&self, outer: u32, inner: &Exchange) -> bool {
        let Some(known) = self.matched.inner_of(outer) else {
            return true;
        };
        let at = |number: u32| self.exchanges.get(number as usize);
        let (Some(outer), Some(known)) = (at(outer), at(known)) else {
            return false;
        };
        let failed = |attempt: &Exchange, next: &Exchange| {
            came_to_nothing(attempt, next)
                || attempt.has_hole(Part::ResponseHead) && attempt.time() <= next.time()
        };
        road::is_waited_for(outer, inner) && (failed(known, inner) || failed(inner, known))
    }
}

impl Pair<'_> {
    /// Whether it is likelier than another one. The same two exchanges the other way round are told
    /// by which lies around which.
    fn beats(&self, other: &Self) -> bool {
        let rank = |pair: &Self| (pair.road, pair.agreement);
        let turned = self.outer == other.inner && self.inner == other.outer;
        rank(self) > rank(other)
            || turned && rank(self) == rank(other) && self.around > other.around
    }
}

/// Of two exchanges on two clocks, which is the outer one: the one that took longer, unless
/// addresses tell.
fn is_this_way(road: Road, outer: &Exchange, inner: &Exchange) -> bool {
    if road == Road::Chained || road::is_one_clock(outer, inner) {
        return true;
    }
    let took = |exchange: &Exchange| road::answered(exchange).map(|at| at.since(exchange.time()));
    match (took(outer), took(inner)) {
        (Some(one), Some(two)) if one != two => one > two,
        _ => outer.time() <= inner.time(),
    }
}

/// Proxies, and servers of each, whose ways on are followed: more than stand in a row anywhere.
const PROXIES: usize = 64;

/// Exchanges of one likeness that are looked at for each: in a storm of equal requests only the
/// latest can be meant.
const CANDIDATES: usize = 32;
