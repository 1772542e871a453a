//! Exchange by exchange: which of them a proxy made of which, under one session id.
//!
//! Candidates say the same ([`Likeness`]) and nest in time. Where addresses chain, that is enough.
//! Where they do not tell (one machine, hosts with several addresses), the link from that server to
//! that client must be proven by pairs whose answers agree: one that issued one session id or carries
//! one trace, or two that said different things.

use super::{
    Matched, SIDES,
    likeness::{Agreement, Likeness, agreement, calls, is_traced, streams},
    number_of,
    road::{self, FORWARDED_WITHIN, HELD, Road, came_to_nothing, ends, nests, road_from},
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
pub(super) fn find<'a>(
    grouping: &'a Grouping,
    exchanges: &'a [Exchange],
    keys: &[Option<Likeness<'a>>],
) -> Matched {
    let mut keys: Vec<Option<Likeness<'_>>> = keys
        .iter()
        .zip(&grouping.role_of)
        .map(|(key, role)| {
            let key = (*key)?;
            match *role {
                Role::Session(_) => Some(key).filter(|key| key.session.is_some()),
                Role::Legacy(session) => {
                    let session = grouping.legacy.get(session as usize)?;
                    Some(key.under(Some(&session.id)))
                }
                Role::Sessionless => Some(key),
                Role::Refused(_) | Role::Other => None,
            }
        })
        .collect();
    if !leave_two_sided(&mut keys, exchanges) {
        return Matched::new(exchanges.len());
    }
    let mut links = Links::default();
    Pass::new(exchanges, &keys).run(
        &mut |pair| {
            pair.agreement == Agreement::Same && (pair.road != Road::Transparent || pair.strict)
        },
        &mut |pair| links.learn(pair, &keys),
    );
    links.follow();
    Pass::new(exchanges, &keys).run(&mut |pair| links.allow(pair, &keys), &mut |_| {})
}

/// Leaves the keys of what was said between two pairs of hosts: nothing else can be a pair. Says whether any is
/// left; of the common capture of one side none is.
fn leave_two_sided(keys: &mut [Option<Likeness<'_>>], exchanges: &[Exchange]) -> bool {
    type Hosts = (Option<SocketAddr>, Option<IpAddr>);
    // By digest, for two keys of one digest are only looked at in vain: between whom first, and whether
    // between others as well.
    let mut said: HashMap<u64, (Hosts, bool), RandomState> = HashMap::default();
    for (exchange, key) in exchanges.iter().zip(&*keys) {
        if let Some(key) = key {
            let ends = ends(exchange);
            let hosts = (
                ends.map(|(_, server)| server),
                ends.map(|(client, _)| client.ip()),
            );
            let (first, others) = said.entry(key.digest()).or_insert((hosts, false));
            *others |= *first != hosts;
        }
    }
    let two_sided = |key: &Likeness<'_>| said.get(&key.digest()).is_some_and(|(_, others)| *others);
    let mut any = false;
    for key in keys {
        *key = key.filter(two_sided);
        any |= key.is_some();
    }
    any
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
    slot: Slot,
    /// One trace runs over both.
    traced: bool,
    /// It nests strictly on one clock, and so does every event; looked at for [`Road::Transparent`] only. Of
    /// an initialize the order does not count: no server issues one session id twice at one moment.
    strict: bool,
    exchange: &'a Exchange,
}

/// Where an inner side goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// The outer exchange has none, or what it has came to nothing.
    Free,
    /// Beside the one it has: a proxy asked both at one time.
    Beside,
    /// Before the one it has: the same request under another client's address, on its way to the proxy.
    Between,
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
                Road::Machine | Road::Apart | Road::Transparent => false,
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
            Road::Transparent => {
                let proven = proof.is_some_and(|proof| proof.certain || proof.said.len() > 1);
                pair.agreement > Agreement::Other && proven
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
        let mut beside: Vec<(u32, u32)> = Vec::new();
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
            if let Some(pair) = best.filter(|pair| pair.slot == Slot::Beside) {
                beside.push((pair.outer, pair.inner));
            } else if let Some(pair) = best {
                take(&pair);
                self.join(&pair);
                if pair.outer == number {
                    // By another clock, all that a proxy tried may lie before.
                    for &other in &recent {
                        match self.pair(number, other).filter(|pair| allow(pair)) {
                            Some(pair) if pair.slot == Slot::Beside => {
                                beside.push((number, other));
                            }
                            Some(pair) => self.join(&pair),
                            None => {}
                        }
                    }
                }
            }
            recent.push_back(number);
            self.recent.insert(*key, recent);
        }
        // What is no other client's after all.
        for (outer, inner) in beside {
            if let Some(pair) = self.pair(outer, inner).filter(|pair| allow(pair)) {
                self.join(&pair);
            }
        }
        self.matched
    }

    /// `inner` as what a proxy made of `outer`, when it can be that.
    fn pair(&self, outer: u32, inner: u32) -> Option<Pair<'a>> {
        let at = |number: u32| self.exchanges.get(number as usize);
        let (one, two) = (at(outer)?, at(inner)?);
        let sides = self.matched.outwards(outer).filter_map(at);
        let transparent = || road::is_transparent(one, two).then_some(Road::Transparent);
        let road = road_from(sides, two).or_else(transparent)?;
        if !self.matched.is_root(inner)
            || !self.matched.has_room(outer, inner)
            || !nests(one, two)
            || !is_this_way(road, one, two)
        {
            return None;
        }
        let slot = if self.takes(outer, two) {
            Slot::Free
        } else if road == Road::Chained && self.mirrors(outer, two) {
            Slot::Beside
        } else if matches!(road, Road::Translated | Road::Transparent) && self.parts(outer, inner) {
            Slot::Between
        } else {
            return None;
        };
        let strict = road == Road::Transparent
            && (road::nests_strictly(one, two)
                || two.is_initialize() && road::is_one_clock(one, two))
            && streams(one, two).in_order;
        let ((_, proxy), (from, _)) = (ends(one)?, ends(two)?);
        Some(Pair {
            outer,
            inner,
            road,
            agreement: agreement(one, two),
            link: (proxy, from.ip()),
            around: road::around(one, two),
            slot,
            traced: is_traced(one, two),
            strict,
            exchange: two,
        })
    }

    /// Pairs the two. Of several inner sides at one time the client has the answer of one.
    fn join(&mut self, pair: &Pair<'_>) {
        let at = |number: u32| self.exchanges.get(number as usize);
        let known = self.matched.inner_of(pair.outer);
        match (pair.slot, known) {
            (Slot::Between, Some(known)) => {
                self.matched.put_between(pair.outer, pair.inner, known);
            }
            (Slot::Beside, Some(known)) => {
                let better = match (at(pair.outer), at(known), at(pair.inner)) {
                    (Some(outer), Some(one), Some(two)) => {
                        likeness(outer, two) > likeness(outer, one)
                    }
                    _ => false,
                };
                self.matched.pair(pair.outer, pair.inner);
                let answer = if better { pair.inner } else { known };
                self.matched.prefer(pair.outer, answer);
            }
            _ => self.matched.pair(pair.outer, pair.inner),
        }
    }

    /// Whether a proxy asks two servers at one time: the second one is asked while the client waits, by
    /// the same host, of another server, before the first one answered (a mirror, a hedge).
    fn mirrors(&self, outer: u32, inner: &Exchange) -> bool {
        let at = |number: u32| self.exchanges.get(number as usize);
        let (Some(known), Some(outer)) = (self.matched.inner_of(outer).and_then(at), at(outer))
        else {
            return false;
        };
        let (Some((from, server)), Some((other, first))) = (ends(inner), ends(known)) else {
            return false;
        };
        let apart = inner.time().since(known.time()).nanos().abs();
        let near = FORWARDED_WITHIN
            .nanos()
            .saturating_add(road::slack(known, inner).nanos());
        from.ip() == other.ip()
            && server != first
            && road::is_waited_for(outer, inner)
            && road::is_waited_for(known, inner)
            && road::is_waited_for(inner, known)
            && apart <= near
    }

    /// Whether an exchange is the same request as `outer` on its way to the proxy that made the inner side
    /// which is known.
    fn parts(&self, outer: u32, middle: u32) -> bool {
        let at = |number: u32| self.exchanges.get(number as usize);
        let known = self.matched.inner_of(outer).and_then(at);
        let free = self.matched.inner_of(middle).is_none();
        match (known, at(middle).filter(|_| free)) {
            (Some(known), Some(middle)) => {
                let room = self.matched.inner_of(outer);
                room.is_some_and(|known| self.matched.has_room(outer, known))
                    && road::road(middle, known) == Some(Road::Chained)
                    && nests(middle, known)
            }
            _ => false,
        }
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
        let rank = |pair: &Self| (pair.road, pair.slot != Slot::Beside, pair.agreement);
        let turned = self.outer == other.inner && self.inner == other.outer;
        rank(self) > rank(other)
            || turned && rank(self) == rank(other) && self.around > other.around
    }
}

/// How well an inner answer agrees with what the client got.
fn likeness(outer: &Exchange, inner: &Exchange) -> (Agreement, bool, bool) {
    let given = |exchange: &Exchange| exchange.response.as_ref()?.session_id.clone();
    let first = match (road::answered(outer), road::answered(inner)) {
        (Some(one), Some(two)) => two <= one,
        _ => false,
    };
    (agreement(outer, inner), first, given(outer) == given(inner))
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
