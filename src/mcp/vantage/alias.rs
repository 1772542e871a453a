//! Gateways that keep session ids of their own: two sessions that are two sides of one.
//!
//! Two clients that run one script at one time look much like the two sides of a gateway, and to take
//! them for that would lose a session. So the whole of two sessions is compared: everything that the
//! inner client asked (but for what a gateway asks by itself) must be the inner side of what the outer
//! client asked, one to one; no answer, no event may contradict; and the more there must be of it,
//! the less addresses tell. A session that fits two others, or two that fit one at one time, are
//! left apart, and so is one that a gateway uses for several clients.

use super::{
    GATEWAYS, Matched,
    likeness::{
        Agreement, Likeness, agreement, calls, is_traced, messages, results_differ, streams,
    },
    number_of,
    road::{
        CLOCKS, FORWARDED_WITHIN, HELD, Road, Times, answered, around, ends, nests, nests_strictly,
        road_from,
    },
};
use crate::model::{
    event::Event,
    exchange::{Exchange, Source},
    message::{Message, MessageKind, PayloadHash},
    session::{Grouping, Role},
    time::{Span, Timestamp},
};
use foldhash::fast::RandomState;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    net::{IpAddr, SocketAddr},
};

/// A session that is the inner side of another one: indices into [`Grouping::sessions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alias {
    /// The gateway's own.
    pub(super) inner: u32,
    /// The client's.
    pub(super) outer: u32,
}

/// Finds the aliases, and pairs their exchanges in `matched`. With each, the exchanges of the inner
/// session that stand for an outer side which the capture lacks.
pub(super) fn find(
    grouping: &Grouping,
    exchanges: &[Exchange],
    keys: &[Option<Likeness<'_>>],
    matched: &mut Matched,
) -> Vec<(Alias, Vec<u32>)> {
    let room = Room {
        grouping,
        exchanges,
        keys,
        matched,
    };
    let candidates = room.candidates();
    if candidates.is_empty() {
        return Vec::new();
    }
    let (asked, torn) = (room.asked(&candidates), room.torn());
    let mut by_inner: BTreeMap<u32, Vec<Fit>> = BTreeMap::new();
    for (&inner, outers) in &candidates {
        let fits: Vec<Fit> = outers
            .iter()
            .filter_map(|&outer| room.fit(Alias { inner, outer }, &asked, &torn))
            .collect();
        if !fits.is_empty() {
            by_inner.insert(inner, fits);
        }
    }
    let chosen = one_to_one(&by_inner);
    for fit in &chosen {
        for &(outer, inner) in &fit.pairs {
            matched.pair(outer, inner);
        }
    }
    chosen
        .into_iter()
        .map(|fit| (fit.alias, fit.alone))
        .collect()
}

/// By server, when something is missing of what was exchanged with it.
type Torn = BTreeMap<SocketAddr, BTreeSet<Timestamp>>;

/// That one session fits another one as its inner side.
#[derive(Clone, Debug)]
struct Fit {
    alias: Alias,
    /// Outer and inner exchange.
    pairs: Vec<(u32, u32)>,
    /// Inner exchanges whose outer side the capture lacks.
    alone: Vec<u32>,
    /// The weakest of their roads.
    road: Road,
    /// From the first pair to the last.
    from: Timestamp,
    to: Timestamp,
}

/// Exchanges by what they ask, the sides nearest the server, in order of time.
#[derive(Default)]
struct Asked<'a> {
    /// Those of each session.
    by_session: HashMap<(u32, Likeness<'a>), Vec<u32>, RandomState>,
    by_any: HashMap<Likeness<'a>, Vec<u32>, RandomState>,
    /// Messages that the events of each session brought.
    said: HashSet<(u32, PayloadHash), RandomState>,
}

/// Which things were asked in ways that can be two sides: of two servers, or in the same bytes by two hosts. Between
/// others no road leads ([`super::road::road`]), and most captures show one server.
struct Sides {
    /// By digest under any session, the server first asked, and whether there is more.
    asked: HashMap<u64, (SocketAddr, bool), RandomState>,
}

impl Sides {
    fn of(room: &Room<'_>) -> Self {
        let mut asked = HashMap::default();
        // The client of the bytes that begin with a sequence number, by what they ask, and whether they are the answer.
        let mut clients: HashMap<(u64, usize, u32), IpAddr, RandomState> = HashMap::default();
        for (index, exchange) in room.exchanges.iter().enumerate() {
            let key = room.key(number_of(index));
            let (Some(key), Some((client, server))) = (key, ends(exchange)) else {
                continue;
            };
            let (first, more) = asked.entry(key.digest()).or_insert((server, false));
            *more |= *first != server;
            for (part, sequence) in exchange.sequences.iter().enumerate() {
                if let Some(sequence) = *sequence {
                    let bytes = (key.digest(), part, sequence);
                    let known = clients.entry(bytes).or_insert(client.ip());
                    *more |= *known != client.ip();
                }
            }
        }
        Self { asked }
    }

    fn may_show(&self, key: &Likeness<'_>) -> bool {
        let asked = self.asked.get(&key.digest());
        asked.is_some_and(|(_, more)| *more)
    }
}

/// An exchange that may be a side of another one that says the same.
struct Candidate<'a> {
    number: u32,
    exchange: &'a Exchange,
    session: u32,
    times: Times,
}

struct Room<'a> {
    grouping: &'a Grouping,
    exchanges: &'a [Exchange],
    keys: &'a [Option<Likeness<'a>>],
    matched: &'a Matched,
}

impl<'a> Room<'a> {
    fn at(&self, number: u32) -> Option<&'a Exchange> {
        self.exchanges.get(number as usize)
    }

    /// The session that an exchange, or the one it is a side of, belongs to.
    fn session(&self, number: u32) -> Option<u32> {
        let root = self.matched.root(number);
        match self.grouping.role_of.get(root as usize) {
            Some(&Role::Session(session)) => Some(session),
            _ => None,
        }
    }

    fn id(&self, session: u32) -> Option<&'a str> {
        let session = self.grouping.sessions.get(session as usize)?;
        Some(&session.id)
    }

    /// What an exchange of packets asks, under any session.
    fn key(&self, number: u32) -> Option<Likeness<'a>> {
        let key = self.keys.get(number as usize).copied().flatten()?;
        let exchange = self.at(number)?;
        (exchange.source == Source::Packets).then(|| key.of_any_session())
    }

    /// Whether a gateway behind it would show as its inner side: no other proxy lies between.
    fn is_innermost(&self, number: u32) -> bool {
        self.matched.inner_of(number).is_none()
    }

    /// Sessions of which several requests nest in those of another one, by inner session: the outer
    /// ones that fit best.
    fn candidates(&self) -> BTreeMap<u32, Vec<u32>> {
        let sides = Sides::of(self);
        let mut votes: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let mut recent: HashMap<Likeness<'_>, VecDeque<Candidate<'_>>, RandomState> =
            HashMap::default();
        for (index, exchange) in self.exchanges.iter().enumerate() {
            let number = number_of(index);
            let asks = calls(exchange) || exchange.cursor().is_some();
            let key = self.key(number).filter(|key| asks && sides.may_show(key));
            let (Some(key), Some(own)) = (key, self.session(number)) else {
                continue;
            };
            let recent = recent.entry(key).or_default();
            let times = Times::of(exchange);
            while recent.len() >= CANDIDATES
                || recent
                    .front()
                    .is_some_and(|old| times.asked().since(old.times.asked()) > HELD)
            {
                recent.pop_front();
            }
            for other in recent.iter() {
                // Times are at hand, and tell most of them apart.
                let within = (other.times.nest(&times), times.nest(&other.times));
                let theirs = other.session;
                if within == (false, false) || theirs == own || self.id(theirs) == self.id(own) {
                    continue;
                }
                let (one, two) = ((other.number, other.exchange), (number, exchange));
                if within.0 && self.fits(one, two) {
                    *votes.entry((own, theirs)).or_default() += 1;
                }
                if within.1 && self.fits(two, one) {
                    *votes.entry((theirs, own)).or_default() += 1;
                }
            }
            recent.push_back(Candidate {
                number,
                exchange,
                session: own,
                times,
            });
        }
        let mut by_inner: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        for ((inner, outer), count) in votes {
            if count >= REPEATED {
                by_inner.entry(inner).or_default().push((count, outer));
            }
        }
        by_inner
            .into_iter()
            .map(|(inner, mut outers)| {
                outers.sort_unstable_by(|a, b| b.cmp(a));
                outers.truncate(COMPARED);
                (inner, outers.into_iter().map(|(_, outer)| outer).collect())
            })
            .collect()
    }

    /// The best road from any side of an outer exchange.
    fn road(&self, outer: u32, inner: &Exchange) -> Option<Road> {
        let sides = self.matched.outwards(outer);
        road_from(sides.filter_map(|number| self.at(number)), inner)
    }

    fn fits(&self, (outer, one): (u32, &Exchange), (inner, two): (u32, &Exchange)) -> bool {
        self.is_innermost(outer)
            && self.matched.is_root(inner)
            && self.road(outer, two).is_some()
            && nests(one, two)
    }

    /// What is asked by anyone, and by the outer sessions among the candidates.
    fn asked(&self, candidates: &BTreeMap<u32, Vec<u32>>) -> Asked<'a> {
        let outers: BTreeSet<u32> = candidates.values().flatten().copied().collect();
        let mut asked = Asked::default();
        for (index, exchange) in self.exchanges.iter().enumerate() {
            let number = number_of(index);
            if let Some(session) = self.session(number).filter(|own| outers.contains(own)) {
                let said = said(exchange).map(|hash| (session, hash));
                asked.said.extend(said);
            }
            if self.is_innermost(number)
                && let (Some(session), Some(key)) = (self.session(number), self.key(number))
            {
                asked.by_any.entry(key).or_default().push(number);
                if outers.contains(&session) {
                    let list = asked.by_session.entry((session, key)).or_default();
                    list.push(number);
                }
            }
        }
        asked
    }

    fn torn(&self) -> Torn {
        let mut torn = Torn::new();
        for (exchange, key) in self.exchanges.iter().zip(self.keys) {
            let whole = key.is_some() && exchange.holes.is_empty();
            if let Some((_, server)) = ends(exchange).filter(|_| !whole) {
                let times = torn.entry(server).or_default();
                times.insert(exchange.time());
                times.extend(exchange.holes.iter().map(|hole| hole.time));
            }
        }
        torn
    }

    /// Pairs the exchanges of two sessions, when one is the inner side of the other.
    fn fit(&self, alias: Alias, asked: &Asked<'_>, torn: &Torn) -> Option<Fit> {
        let inner = self.grouping.sessions.get(alias.inner as usize)?;
        let mut used: BTreeSet<u32> = BTreeSet::new();
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        let mut evidence = Evidence {
            strict: true,
            ..Evidence::default()
        };
        let mut weakest = Road::Translated;
        let mut alone: Vec<u32> = Vec::new();
        let own = inner.exchanges.iter().copied();
        for number in own.filter(|&number| self.matched.is_root(number)) {
            let exchange = self.at(number)?;
            let found = self.key(number).and_then(|key| {
                let list = asked.by_session.get(&(alias.outer, key))?;
                let other = self.outer_in(list, &used, (number, exchange))?;
                Some((key, other))
            });
            match found {
                Some((key, other)) => {
                    let before = self.at(other)?;
                    weakest = weakest.min(self.road(other, exchange)?);
                    evidence.add(key, before, exchange)?;
                    used.insert(other);
                    pairs.push((other, number));
                }
                None if is_gateways_own(exchange) => {
                    // What its own stream brought went on to the client.
                    let brought = || said(exchange).take(COMPARED_EVENTS);
                    let passed_on = |hash| asked.said.contains(&(alias.outer, hash));
                    if brought().next().is_some() && !brought().any(passed_on) {
                        return None;
                    }
                }
                None => alone.push(number),
            }
        }
        let front: BTreeSet<SocketAddr> = pairs
            .iter()
            .filter_map(|&(outer, _)| Some(ends(self.at(outer)?)?.1))
            .collect();
        if !alone.iter().all(|&number| {
            self.is_excused(number, &front, torn) && !self.is_anyones(number, alias.inner, asked)
        }) {
            return None;
        }
        let first = pairs.first().and_then(|&(outer, _)| self.at(outer))?;
        let last = pairs.last().and_then(|&(outer, _)| self.at(outer))?;
        evidence.is_enough(weakest).then(|| Fit {
            alias,
            from: first.time(),
            to: last.time(),
            road: weakest,
            pairs,
            alone,
        })
    }

    /// Whether an inner exchange may have an outer side that the capture lacks: at its time, something
    /// of what came to the gateway is missing.
    fn is_excused(&self, number: u32, front: &BTreeSet<SocketAddr>, torn: &Torn) -> bool {
        let Some(exchange) = self.at(number) else {
            return false;
        };
        let from = exchange
            .time()
            .plus(Span::from_nanos(-FORWARDED_WITHIN.nanos()));
        // Packets may stand in a capture with an answer long before what it answers.
        let time = exchange.time();
        let to = answered(exchange).map_or(time, |answered| answered.max(time));
        let to = to.plus(HELD);
        front
            .iter()
            .filter_map(|server| torn.get(server))
            .any(|times| times.range(from..=to).next().is_some())
    }

    /// Whether an inner exchange may be a side of what some session asked, and no other session has inner
    /// exchanges for all that it may be a side of.
    fn is_anyones(&self, number: u32, session: u32, asked: &Asked<'_>) -> bool {
        let Some((exchange, list)) = self
            .at(number)
            .and_then(|exchange| Some((exchange, asked.by_any.get(&self.key(number)?)?)))
        else {
            return false;
        };
        let place = list.partition_point(|&other| other < number);
        let near = || list.iter().skip(place.saturating_sub(CANDIDATES));
        let near = || near().take(2 * CANDIDATES).copied();
        let may_be = |outer: u32, (inner, exchange): (u32, &Exchange)| {
            outer != inner
                && self
                    .at(outer)
                    .is_some_and(|one| self.fits((outer, one), (inner, exchange)))
        };
        let outers: Vec<u32> = near()
            .filter(|&outer| may_be(outer, (number, exchange)))
            .collect();
        let others = near().filter(|&other| {
            let own = self.session(other);
            let theirs = self.at(other).filter(|_| own != Some(session));
            theirs.is_some_and(|exchange| {
                let mut outers = outers.iter();
                outers.any(|&outer| self.session(outer) != own && may_be(outer, (other, exchange)))
            })
        });
        outers.len() > others.count()
    }

    /// Which of the outer exchanges `inner` is a side of: the latest that fits.
    fn outer_in(
        &self,
        list: &[u32],
        used: &BTreeSet<u32>,
        (number, inner): (u32, &Exchange),
    ) -> Option<u32> {
        let latest = inner.time().plus(CLOCKS);
        let end = list
            .partition_point(|&other| self.at(other).is_some_and(|other| other.time() <= latest));
        list.get(..end)?
            .iter()
            .rev()
            .take(CANDIDATES)
            .copied()
            .filter(|other| !used.contains(other))
            .find(|&other| {
                self.at(other)
                    .is_some_and(|outer| self.fits((other, outer), (number, inner)))
            })
    }
}

/// What pairs of exchanges say for two sessions being one.
#[derive(Default)]
struct Evidence {
    /// Different things asked on both sides.
    asked: BTreeSet<u64>,
    /// Pairs of one trace, and events under ids that no counter makes.
    unique: usize,
    /// Inner requests that say a proxy sent them, where the outer ones do not.
    forwarded: usize,
    /// Every pair, and every event in it, nests strictly, and no two answers differ in a byte.
    strict: bool,
    /// How much of the outer exchanges lies around the inner ones, taken together.
    around: Span,
}

impl Evidence {
    /// Adds a pair; `None` when it contradicts.
    fn add(&mut self, key: Likeness<'_>, outer: &Exchange, inner: &Exchange) -> Option<()> {
        let failed = inner
            .response
            .as_ref()
            .is_none_or(|response| response.status >= 400);
        let told = agreement(outer, inner);
        let differs = told == Agreement::Other || results_differ(outer, inner);
        // What a gateway says of itself, makes of a list, or reports as an error, is its own; what it
        // did not pass on (it tried again) shows nowhere.
        if differs && !failed && !is_gateways_answer(outer) {
            return None;
        }
        // What was answered otherwise shows no connection.
        if !differs && (calls(outer) || outer.cursor().is_some()) {
            self.asked.insert(key.digest());
        }
        if failed && told != Agreement::Same {
            return Some(());
        }
        let events = streams(outer, inner);
        let bytes = |exchange: &Exchange| -> Option<Vec<PayloadHash>> {
            let response = exchange.response.as_ref()?;
            Some(response.messages.iter().map(|said| said.hash).collect())
        };
        self.strict &= nests_strictly(outer, inner)
            && events.in_order
            && (outer.is_initialize() || bytes(outer) == bytes(inner));
        self.around = Span::from_nanos(
            self.around
                .nanos()
                .saturating_add(around(outer, inner).nanos()),
        );
        self.unique += events.long_ids;
        self.unique += usize::from(is_traced(outer, inner));
        let forwarded = |exchange: &Exchange| {
            let request = exchange.request.as_ref();
            request.is_some_and(|request| request.forwarded)
        };
        self.forwarded += usize::from(forwarded(inner) && !forwarded(outer));
        Some(())
    }

    fn is_enough(&self, road: Road) -> bool {
        let shown = self.unique >= 2 || self.forwarded >= 2;
        // Where addresses do not tell which is the inner one, times must.
        let inside = self.around > Span::ZERO;
        let asked = self.asked.len();
        match road {
            Road::Chained | Road::Translated => asked >= REPEATED as usize,
            // Of two clients that run one script, the one that is answered first asks first the next
            // time: what nests again and again is no coincidence.
            Road::Machine => {
                asked >= REPEATED as usize && inside && (shown || asked >= 4 && self.strict)
            }
            Road::Transparent => false,
            Road::Apart => asked >= REPEATED as usize && inside && shown,
        }
    }
}

/// The messages that the events of an exchange brought.
fn said(exchange: &Exchange) -> impl Iterator<Item = PayloadHash> + '_ {
    let messages = exchange.events.iter().filter(Event::is_message);
    messages.map(|event| event.hash)
}

/// Whether a gateway may answer this otherwise than its server did: it introduces itself, renames and
/// adds tools, acknowledges, and tells of errors.
fn is_gateways_answer(outer: &Exchange) -> bool {
    let own = |message: &Message| {
        message.kind != MessageKind::Request
            || message
                .method
                .as_deref()
                .is_some_and(|method| method == "initialize" || method.ends_with("/list"))
    };
    let error = outer.response.as_ref().is_some_and(|response| {
        let error = |message: &Message| message.kind == MessageKind::Error;
        response.status >= 400 || response.messages.iter().any(error)
    });
    let asked = messages(outer);
    error || outer.events.is_empty() && !asked.is_empty() && asked.iter().all(own)
}

/// Whether a gateway asks this by itself: it opens, keeps alive and ends its own session, and listens.
fn is_gateways_own(exchange: &Exchange) -> bool {
    if exchange.cursor().is_some() {
        return false;
    }
    let by_itself = |kind| matches!(kind, MessageKind::Notification | MessageKind::Ping);
    exchange.method() != "POST"
        || exchange.is_initialize()
        || messages(exchange)
            .iter()
            .all(|message| by_itself(message.kind))
}

/// Of all fits those that leave no choice.
fn one_to_one(by_inner: &BTreeMap<u32, Vec<Fit>>) -> Vec<Fit> {
    let fits = |inner: u32, outer: u32| {
        by_inner
            .get(&inner)
            .is_some_and(|fits| fits.iter().any(|fit| fit.alias.outer == outer))
    };
    let mut chosen: Vec<Fit> = Vec::new();
    for fits_of in by_inner.values() {
        let strongest = fits_of.iter().map(|fit| fit.road).max();
        let best: Vec<&Fit> = fits_of
            .iter()
            .filter(|fit| Some(fit.road) == strongest)
            .collect();
        // A chain of gateways: the next one is inside all others.
        let next = best.iter().find(|one| {
            best.iter().all(|other| {
                one.alias.outer == other.alias.outer || fits(one.alias.outer, other.alias.outer)
            })
        });
        if let Some(next) = next {
            chosen.push((*next).clone());
        }
    }
    // Of two that fit into each other, addresses may tell; else they are twins.
    chosen.retain(|fit| {
        let turned = by_inner.get(&fit.alias.outer).into_iter().flatten();
        let turned = turned.filter(|other| other.alias.outer == fit.alias.inner);
        turned.into_iter().all(|other| other.road < fit.road)
    });
    // One outer session may have several inner ones, one after another.
    let mut spans: BTreeMap<u32, Vec<(Timestamp, Timestamp, u32)>> = BTreeMap::new();
    for fit in &chosen {
        let list = spans.entry(fit.alias.outer).or_default();
        list.push((fit.from, fit.to, fit.alias.inner));
    }
    let mut double: BTreeSet<u32> = BTreeSet::new();
    for list in spans.values_mut() {
        list.sort_unstable();
        let mut longest: Option<(Timestamp, u32)> = None;
        for &(from, to, inner) in list.iter() {
            if let Some((until, before)) = longest
                && from < until
            {
                double.extend([before, inner]);
            }
            longest = longest.max(Some((to, inner)));
        }
    }
    chosen.retain(|fit| !double.contains(&fit.alias.inner));
    let outer: BTreeMap<u32, u32> = chosen
        .iter()
        .map(|fit| (fit.alias.inner, fit.alias.outer))
        .collect();
    chosen.retain(|fit| {
        let row = std::iter::successors(Some(fit.alias.outer), |at| outer.get(at).copied());
        row.take(GATEWAYS).count() < GATEWAYS
    });
    chosen
}

/// So many different requests must be passed on before two sessions are compared.
const REPEATED: u32 = 2;

/// Exchanges looked at for each.
const CANDIDATES: usize = 16;

/// Sessions compared as a whole with each.
const COMPARED: usize = 4;

/// Events of a gateway's own stream that are looked for in the client's session.
const COMPARED_EVENTS: usize = 64;
