//! Which session feeds which: a gateway with session ids of its own gets events in one session and
//! passes them on in others. Where `mcp::vantage` cannot tell that they are sides of one (several clients
//! behind one session, JSON-RPC ids written anew, one machine, hosts with several addresses), what comes on
//! both sides must not pass for a delivery to the wrong session.
//!
//! Sessions of one server are never sides of each other. Of two servers, one session feeds another where it
//! had most of what the other got, and a gateway may stand between them by their addresses; or, where
//! addresses tell nothing, where it had all of that, in the same order and at the same moments.

use super::crossing::identified;
use crate::model::{
    elsewhere::Ends,
    exchange::{Exchange, Source},
    flow::{Blank, Blanks, Endpoint},
    message::PayloadHash,
    place::InputId,
    session::Session,
    time::{Span, Timestamp},
};
use foldhash::fast::RandomState;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    net::{IpAddr, SocketAddr},
    sync::OnceLock,
};

/// A gateway passes an event on within this time.
const PASSED_ON_WITHIN: Span = Span::from_secs(1);

/// Sessions kept for each event: a gateway has it among the first.
const HOLDERS: usize = 8;

/// Hosts looked at on either side of a session.
const HOSTS: usize = 64;

/// Sessions with something missing that are looked at.
const TORN: usize = 64;

/// Places where exchanges may lie of which nothing is in the capture that are looked at.
const BLANKS: usize = 1024;

/// So many events, all of a session's, tell of a gateway where addresses do not.
const ENOUGH: usize = 3;

/// Which session feeds which in a run. It is learnt when it is first asked for, that is, when something went to
/// a session that seems to be another's: most runs never ask, and it costs memory for every event.
#[derive(Debug)]
pub struct Gateways<'a> {
    sessions: &'a [Session],
    exchanges: &'a [Exchange],
    blanks: &'a Blanks,
    torn_elsewhere: &'a [Ends],
    feeds: OnceLock<Feeds<'a>>,
}

impl<'a> Gateways<'a> {
    /// The gateways of a run; of sessions that are not at hand and lack something, the ends.
    #[must_use]
    pub const fn new(
        sessions: &'a [Session],
        exchanges: &'a [Exchange],
        blanks: &'a Blanks,
        torn_elsewhere: &'a [Ends],
    ) -> Self {
        Self {
            sessions,
            exchanges,
            blanks,
            torn_elsewhere,
            feeds: OnceLock::new(),
        }
    }

    /// Whether the client of an exchange, given with its number, is the host that answered another one: what came
    /// on it came to a gateway. Where the requests that it was asked by are missing, whose they were is not known,
    /// and its session may have been taken for the one of another client.
    #[must_use]
    pub fn is_its_own(&self, inner: u32, outer: &Exchange) -> bool {
        let inner = self.exchanges.get(inner as usize);
        let gateway = inner
            .and_then(|inner| inner.client.as_ref()?.ip())
            .filter(|host| !host.to_canonical().is_loopback());
        let answered = outer.server.as_ref().and_then(Endpoint::ip);
        gateway.is_some() && gateway == answered
    }

    /// What its sessions had from each other.
    pub fn feeds(&self) -> &Feeds<'a> {
        self.feeds.get_or_init(|| {
            Feeds::learn(
                self.sessions,
                self.exchanges,
                self.blanks,
                self.torn_elsewhere,
            )
        })
    }
}

/// What sessions of all services had from each other.
#[derive(Debug, Default)]
pub struct Feeds<'a> {
    /// Who had each event, the earliest first: by its id and payload.
    holders: HashMap<Event<'a>, Vec<Holder>, RandomState>,
    /// What two sessions both had.
    common: HashMap<(u32, u32), Common, RandomState>,
    /// Different events of each session.
    events: Vec<usize>,
    ends: Vec<Ends>,
    /// Sessions of which something is missing, or may be.
    torn: Vec<u32>,
    /// Between whom exchanges may lie of which nothing is in the capture.
    blanks: Vec<Ends>,
    /// Between whom sessions ran that are not at hand, and of which something is missing.
    torn_elsewhere: &'a [Ends],
}

type Event<'a> = (&'a str, PayloadHash);

/// A session that had an event.
#[derive(Clone, Copy, Debug)]
struct Holder {
    time: Timestamp,
    session: u32,
    input: InputId,
}

/// The events that two sessions both had.
#[derive(Clone, Copy, Debug)]
struct Common {
    events: usize,
    /// By how much the second had them later, at least and at most.
    later: (Span, Span),
    /// When the other had the latest of them.
    last: Timestamp,
    /// They came in one order.
    in_order: bool,
    /// Each was seen by one clock.
    one_clock: bool,
}

impl Common {
    fn new(last: Timestamp) -> Self {
        Self {
            events: 0,
            later: (Span::from_nanos(i64::MAX), Span::from_nanos(i64::MIN)),
            last,
            in_order: true,
            one_clock: true,
        }
    }

    /// Takes one more, in the order of the session at hand.
    fn add(&mut self, own: Holder, other: Holder) {
        let later = own.time.since(other.time);
        self.events += 1;
        self.later = (later.min(self.later.0), later.max(self.later.1));
        self.in_order &= other.time >= self.last;
        self.last = other.time;
        self.one_clock &= own.input == other.input;
    }

    /// Whether each came within a second of the other, in one order. Of two clocks, only how long it took
    /// from one to the next can be compared.
    fn at_once(&self) -> bool {
        let (least, most) = (self.later.0.nanos(), self.later.1.nanos());
        let within = PASSED_ON_WITHIN.nanos();
        let near = least.saturating_abs() <= within && most.saturating_abs() <= within;
        self.in_order && (near || !self.one_clock && most.saturating_sub(least) <= within)
    }
}

impl Ends {
    /// Between which hosts a session runs.
    fn of(session: &Session, exchanges: &[Exchange]) -> Self {
        let mut ends = Self::default();
        let members = session.exchanges.iter();
        for exchange in members.filter_map(|&number| exchanges.get(number as usize)) {
            if let (
                Source::Packets,
                Some(Endpoint::Address(client)),
                Some(Endpoint::Address(server)),
            ) = (exchange.source, &exchange.client, &exchange.server)
            {
                let (client, server) = canonical(client.ip(), *server);
                if ends.clients.len() < HOSTS && ends.servers.len() < HOSTS {
                    ends.clients.insert(client);
                    ends.servers.insert(server);
                }
            }
        }
        ends
    }

    fn is_local(&self) -> bool {
        self.clients.iter().any(IpAddr::is_loopback)
    }

    /// Whether the server of one is on a host that is the other's client.
    fn leads_to(&self, inner: &Self) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|server| inner.clients.contains(&server.ip()))
    }
}

/// A client and a server by their addresses of IPv4, where they have them.
fn canonical(client: IpAddr, server: SocketAddr) -> (IpAddr, SocketAddr) {
    let server = SocketAddr::new(server.ip().to_canonical(), server.port());
    (client.to_canonical(), server)
}

/// How two sessions may hang together by their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    /// No gateway stands between them: one server, one client of two servers, or a HAR.
    Nothing,
    /// A gateway may.
    Gateway,
    /// Addresses do not tell: a gateway may have several.
    Unknown,
}

fn between(one: &Ends, two: &Ends) -> Between {
    let (first, second) = (&one.servers, &two.servers);
    if first.is_empty() || second.is_empty() || !first.is_disjoint(second) {
        Between::Nothing
    } else if one.is_local() || two.is_local() || one.leads_to(two) || two.leads_to(one) {
        Between::Gateway
    } else if !one.clients.is_disjoint(&two.clients) {
        Between::Nothing
    } else {
        Between::Unknown
    }
}

/// Whether something of a session is missing.
fn is_torn(session: &Session, exchanges: &[Exchange]) -> bool {
    let members = session.exchanges.iter();
    members
        .filter_map(|&number| exchanges.get(number as usize))
        .any(|exchange| !exchange.holes.is_empty() || exchange.request.is_none())
}

/// Between whom exchanges may lie of which nothing is in the capture.
fn between_blanks(blanks: &Blanks) -> BTreeSet<(IpAddr, SocketAddr)> {
    let ends = |blank: &Blank| canonical(blank.client, blank.server);
    blanks.iter().map(ends).take(BLANKS).collect()
}

fn has_blank(ends: &Ends, blanks: &BTreeSet<(IpAddr, SocketAddr)>) -> bool {
    let of = |&client: &IpAddr| ends.servers.iter().map(move |&server| (client, server));
    let mut pairs = ends.clients.iter().flat_map(of);
    pairs.any(|pair| blanks.contains(&pair))
}

/// The ends of sessions of which something is missing, or may be, with an exchange of each: for those who audit other
/// sessions of the same run.
#[must_use]
pub fn torn_sessions(
    sessions: &[Session],
    exchanges: &[Exchange],
    blanks: &Blanks,
) -> Vec<(u32, Ends)> {
    let blanks = between_blanks(blanks);
    let mut torn = Vec::new();
    for session in sessions {
        if torn.len() == TORN {
            break;
        }
        let ends = Ends::of(session, exchanges);
        if let Some(&first) = session.exchanges.first()
            && (is_torn(session, exchanges) || has_blank(&ends, &blanks))
        {
            torn.push((first, ends));
        }
    }
    torn
}

impl<'a> Feeds<'a> {
    /// Learns from all sessions of a run.
    #[must_use]
    pub fn learn(
        sessions: &[Session],
        exchanges: &'a [Exchange],
        blanks: &Blanks,
        torn_elsewhere: &'a [Ends],
    ) -> Self {
        let mut feeds = Self {
            torn_elsewhere,
            ..Self::default()
        };
        if sessions.len() < 2 {
            return feeds;
        }
        for (index, session) in (0..).zip(sessions) {
            let mut seen: HashSet<Event<'_>, RandomState> = HashSet::default();
            for (_, event, id) in identified(session, exchanges) {
                let key = (id, event.hash);
                if seen.insert(key) {
                    let holder = Holder {
                        time: event.time,
                        session: index,
                        input: event.input,
                    };
                    let holders = feeds.holders.entry(key).or_default();
                    let place = holders.partition_point(|known| known.time <= holder.time);
                    if place < HOLDERS {
                        holders.truncate(HOLDERS - 1);
                        holders.insert(place, holder);
                    }
                }
            }
            feeds.events.push(seen.len());
        }
        feeds.holders.retain(|_, holders| holders.len() > 1);
        for (index, session) in (0..).zip(sessions) {
            let mut seen: HashSet<Event<'_>, RandomState> = HashSet::default();
            for (_, event, id) in identified(session, exchanges) {
                let key = (id, event.hash);
                let Some(holders) = feeds.holders.get(&key).filter(|_| seen.insert(key)) else {
                    continue;
                };
                let own = Holder {
                    time: event.time,
                    session: index,
                    input: event.input,
                };
                for &other in holders.iter().filter(|other| other.session != index) {
                    let common = feeds.common.entry((index, other.session));
                    common.or_insert(Common::new(other.time)).add(own, other);
                }
            }
        }
        feeds.ends = sessions
            .iter()
            .map(|session| Ends::of(session, exchanges))
            .collect();
        let blanks = between_blanks(blanks);
        feeds.torn = (0..)
            .zip(sessions)
            .zip(&feeds.ends)
            .filter(|((_, session), ends)| is_torn(session, exchanges) || has_blank(ends, &blanks))
            .map(|((index, _), _)| index)
            .collect();
        feeds.blanks = blanks
            .into_iter()
            .map(|(client, server)| Ends {
                clients: BTreeSet::from([client]),
                servers: BTreeSet::from([server]),
            })
            .collect();
        feeds
    }

    /// Whether an event that one session had first came to another over a gateway: from the one to the
    /// other, or to both from a third. Where something of a third is missing, that may be it; what is
    /// meant `for_all` may then come over a gateway that addresses do not show.
    #[must_use]
    pub fn explain(
        &self,
        (event, for_all): ((&str, PayloadHash), bool),
        first: u32,
        session: u32,
    ) -> bool {
        let third = |holder: &Holder| {
            let third = holder.session;
            third != first
                && third != session
                && self.are_sides(session, third)
                && self.are_sides(first, third)
        };
        let may_be_third = |third: &Ends| {
            let leads = |to: u32| match self.ends.get(to as usize) {
                Some(ends) if !std::ptr::eq(ends, third) => match between(ends, third) {
                    Between::Nothing => false,
                    Between::Gateway => true,
                    Between::Unknown => for_all,
                },
                _ => false,
            };
            leads(session) && leads(first)
        };
        let torn = self.torn.iter().take(TORN);
        let mut unseen = torn
            .filter_map(|&session| self.ends.get(session as usize))
            .chain(&self.blanks)
            .chain(self.torn_elsewhere);
        self.are_sides(session, first)
            || self
                .holders
                .get(&event)
                .is_some_and(|holders| holders.iter().any(third))
            || unseen.any(may_be_third)
    }

    fn between(&self, one: u32, two: u32) -> Between {
        let ends = |session: u32| self.ends.get(session as usize);
        match (ends(one), ends(two)) {
            (Some(one), Some(two)) if !std::ptr::eq(one, two) => between(one, two),
            _ => Between::Nothing,
        }
    }

    /// Whether something of either session is missing.
    #[must_use]
    pub fn are_torn(&self, one: u32, two: u32) -> bool {
        self.is_torn(one) || self.is_torn(two)
    }

    fn is_torn(&self, session: u32) -> bool {
        self.torn.binary_search(&session).is_ok()
    }

    /// Whether what `session` had in common with another is the same on the two sides of a gateway.
    fn are_sides(&self, session: u32, first: u32) -> bool {
        let Some(common) = self.common.get(&(session, first)) else {
            return false;
        };
        let all = |session: u32| self.events.get(session as usize).copied().unwrap_or(0);
        let torn = self.are_torn(session, first);
        match self.between(session, first) {
            Between::Nothing => false,
            // By two clocks the client may seem to have it before the gateway.
            Between::Gateway => {
                let most = |session: u32| common.events * 2 >= all(session);
                most(session) || common.at_once() && (torn || most(first))
            }
            Between::Unknown => {
                let whole = |session: u32| {
                    let missing = all(session).saturating_sub(common.events);
                    missing == 0 || torn && missing * 2 <= all(session)
                };
                common.at_once() && common.events >= ENOUGH && (whole(session) || whole(first))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(clients: &[&str], servers: &[&str]) -> Ends {
        Ends {
            clients: clients.iter().map(|ip| ip.parse().unwrap()).collect(),
            servers: servers.iter().map(|end| end.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn a_gateway_may_stand_where_a_server_is_a_client_or_on_one_machine() {
        let outer = ends(&["10.0.0.1"], &["10.0.0.5:80"]);
        let inner = ends(&["10.0.0.5"], &["10.0.0.9:80"]);
        assert_eq!(between(&outer, &inner), Between::Gateway);
        assert_eq!(between(&inner, &outer), Between::Gateway);
        let local = ends(&["127.0.0.1"], &["127.0.0.1:80"]);
        assert_eq!(between(&local, &inner), Between::Gateway);
        let other = ends(&["192.168.0.5"], &["192.168.0.9:80"]);
        assert_eq!(between(&outer, &other), Between::Unknown);
    }

    #[test]
    fn none_stands_between_two_clients_of_one_server() {
        let one = ends(&["127.0.0.1"], &["127.0.0.1:80"]);
        assert_eq!(between(&one, &one), Between::Nothing);
        let (a, b) = (
            ends(&["10.0.0.1"], &["10.0.0.8:80"]),
            ends(&["10.0.0.1"], &["10.0.0.9:80"]),
        );
        assert_eq!(between(&a, &b), Between::Nothing);
        assert_eq!(between(&a, &ends(&[], &[])), Between::Nothing);
    }
}
