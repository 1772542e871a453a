//! Whether one exchange can be what a proxy made of another: by where and when they were seen.

use crate::model::{
    exchange::{Exchange, Source},
    flow::Endpoint,
    place::InputId,
    time::{Span, Timestamp},
};
use std::net::SocketAddr;

/// How the ends of two exchanges hang together, from the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Road {
    /// One server under one address, and two clients: a proxy between them keeps the server's address and
    /// counts bytes anew, or the two are strangers.
    Transparent,
    /// Addresses tell nothing: a host with several, or two clients of two servers.
    Apart,
    /// Something of it is on one machine, where every process has one address.
    Machine,
    /// The inner client is the host that the outer client asked.
    Chained,
    /// One connection under two pairs of addresses: a NAT on the way.
    Translated,
}

/// The road from an outer exchange to an inner one; `None` where there is none: one client that asks
/// two servers or one server twice, or a HAR, which knows no addresses.
pub(super) fn road(outer: &Exchange, inner: &Exchange) -> Option<Road> {
    let (client, proxy) = ends(outer)?;
    let (from, server) = ends(inner)?;
    // A NAT changes the server's address and leaves the client's, or it changes the client's; it leaves
    // what the two count.
    let same = same_bytes(outer, inner);
    let to_elsewhere = client == from && proxy != server && same != Some(false);
    let from_elsewhere = client.ip() != from.ip() && same == Some(true);
    if to_elsewhere || from_elsewhere {
        return Some(Road::Translated);
    }
    if proxy == server || client == from {
        return None;
    }
    let local = |end: SocketAddr| end.ip().to_canonical().is_loopback();
    if local(proxy) || local(from) {
        return Some(Road::Machine);
    }
    if proxy.ip() == from.ip() {
        return Some(Road::Chained);
    }
    (client.ip() != from.ip()).then_some(Road::Apart)
}

/// The road to an inner exchange from any side of an outer one: behind a NAT the host that was asked
/// has another address than it has towards its servers.
pub(super) fn road_from<'e>(
    sides: impl Iterator<Item = &'e Exchange>,
    inner: &Exchange,
) -> Option<Road> {
    let mut sides = sides.map(|outer| road(outer, inner));
    // The side at hand must lead there; how, the others may tell better.
    let nearest = sides.next()??;
    Some(sides.flatten().fold(nearest, Ord::max))
}

/// Whether a transparent proxy may have made `inner` of `outer`, that is, one which asks the server under
/// the address that its client asked: at once, as far as the clocks tell. How they nest is asked apart
/// ([`nests`], [`nests_strictly`]).
pub(super) fn is_transparent(outer: &Exchange, inner: &Exchange) -> bool {
    let (Some((client, asked)), Some((from, server))) = (ends(outer), ends(inner)) else {
        return false;
    };
    let within = AT_ONCE.nanos().saturating_add(slack(outer, inner).nanos());
    let near = |one: Timestamp, two: Timestamp| two.since(one).nanos().abs() <= within;
    let answers = match (answered(outer), answered(inner)) {
        (Some(outer), Some(inner)) => near(inner, outer),
        _ => true,
    };
    asked == server && client.ip() != from.ip() && near(outer.time(), inner.time()) && answers
}

/// The addresses of an exchange's client and server.
pub(super) fn ends(exchange: &Exchange) -> Option<(SocketAddr, SocketAddr)> {
    match (&exchange.client, &exchange.server, exchange.source) {
        (Some(Endpoint::Address(client)), Some(Endpoint::Address(server)), Source::Packets) => {
            Some((*client, *server))
        }
        _ => None,
    }
}

/// Whether two records are of the same bytes: their sequence numbers are equal where both are known.
/// `None` when none are.
pub(super) fn same_bytes(one: &Exchange, two: &Exchange) -> Option<bool> {
    let mut same = None;
    for (one, two) in one.sequences.iter().zip(two.sequences) {
        if let (Some(one), Some(two)) = (*one, two) {
            same = Some(one == two && same != Some(false));
        }
    }
    same
}

/// Whether `inner` lies within `outer` as far as times tell: it begins within a second, while the
/// outer one is open, and is answered no later. A proxy that tries elsewhere first (a refused or
/// dead server) begins later, as long as the client has no answer.
pub(super) fn nests(outer: &Exchange, inner: &Exchange) -> bool {
    Times::of(outer).nest(&Times::of(inner))
}

/// Whether the client of `outer` has no answer yet when `inner` begins.
pub(super) fn is_waited_for(outer: &Exchange, inner: &Exchange) -> bool {
    Times::of(outer).wait_for(&Times::of(inner))
}

/// When an exchange was seen, and by which clock: what is asked of many pairs of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    clock: InputId,
    asked: Timestamp,
    answered: Option<Timestamp>,
    end: Timestamp,
}

impl Times {
    pub(super) fn of(exchange: &Exchange) -> Self {
        Self {
            clock: exchange.place.input,
            asked: exchange.time(),
            answered: answered(exchange),
            end: exchange.end.time,
        }
    }

    pub(super) const fn asked(&self) -> Timestamp {
        self.asked
    }

    fn slack(&self, inner: &Self) -> Span {
        if self.clock == inner.clock {
            DISORDER
        } else {
            CLOCKS
        }
    }

    fn wait_for(&self, inner: &Self) -> bool {
        let slack = self.slack(inner);
        let early = |at: Timestamp| inner.asked.since(at).nanos() <= slack.nanos();
        self.answered.is_none_or(early)
    }

    /// See [`nests`].
    pub(super) fn nest(&self, inner: &Self) -> bool {
        let slack = self.slack(inner);
        let lag = inner.asked.since(self.asked);
        let patience = if self.wait_for(inner) {
            HELD
        } else {
            FORWARDED_WITHIN
        };
        let begins = lag.nanos() >= -slack.nanos()
            && lag.nanos() <= patience.nanos().saturating_add(slack.nanos())
            && inner.asked.since(self.end).nanos() <= slack.nanos();
        if !begins {
            return false;
        }
        let (Some(one), Some(two)) = (self.answered, inner.answered) else {
            return true;
        };
        if self.clock == inner.clock {
            return two.since(one).nanos() <= DISORDER.nanos();
        }
        // Of two clocks, only how long each took can be compared.
        let (one, two) = (one.since(self.asked), two.since(inner.asked));
        two.nanos() <= one.nanos().saturating_add(DISORDER.nanos())
    }
}

/// Whether an attempt of a proxy failed before the next one began.
pub(super) fn came_to_nothing(attempt: &Exchange, next: &Exchange) -> bool {
    let latest = next.time().plus(slack(attempt, next));
    let refused = attempt
        .response
        .as_ref()
        .is_some_and(|response| response.status >= 400 && response.time <= latest);
    let dead = attempt.response.is_none() && attempt.end.time <= latest;
    attempt.time() <= next.time() && (refused || dead)
}

/// How much of the outer exchange lies around the inner one: before it begins, and after it is
/// answered. Of two ways to pair two exchanges, the one with more is right.
pub(super) fn around(outer: &Exchange, inner: &Exchange) -> Span {
    let before = inner.time().since(outer.time()).nanos();
    let after = match (answered(outer), answered(inner)) {
        (Some(outer), Some(inner)) => outer.since(inner).nanos(),
        _ => 0,
    };
    Span::from_nanos(before.saturating_add(after))
}

/// Whether `inner` lies strictly within `outer`, on one clock.
pub(super) fn nests_strictly(outer: &Exchange, inner: &Exchange) -> bool {
    let answers = match (answered(outer), answered(inner)) {
        (Some(outer), Some(inner)) => inner <= outer,
        _ => true,
    };
    is_one_clock(outer, inner) && inner.time() >= outer.time() && answers
}

/// When the answer to an exchange began.
pub(super) fn answered(exchange: &Exchange) -> Option<Timestamp> {
    exchange.response.as_ref().map(|response| response.time)
}

/// Whether both were captured by one clock.
pub(super) fn is_one_clock(one: &Exchange, two: &Exchange) -> bool {
    one.place.input == two.place.input
}

/// How much earlier than the outer one an inner exchange may seem to begin.
pub(super) fn slack(one: &Exchange, two: &Exchange) -> Span {
    if is_one_clock(one, two) {
        DISORDER
    } else {
        CLOCKS
    }
}

/// A proxy passes a request on within this time.
pub(super) const FORWARDED_WITHIN: Span = Span::from_secs(1);

/// A transparent proxy passes on within this time: it reads nothing, and connects nowhere else.
const AT_ONCE: Span = Span::from_millis(250);

/// A proxy that has not answered may still try another server after this time: the usual timeout of
/// connecting and reading (nginx, HAProxy and Envoy allow 5 to 60 s).
pub(super) const HELD: Span = Span::from_secs(60);

/// Packets of one instant are captured out of order by this much.
pub(super) const DISORDER: Span = Span::from_millis(5);

/// The clocks of two capture points differ by this much at most: the files of hosts without common
/// time are not matched.
pub(super) const CLOCKS: Span = Span::from_millis(500);
