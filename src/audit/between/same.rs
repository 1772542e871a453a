//! One exchange seen at two places: before and behind an address translation, by two taps, in two
//! exports. `mcp::vantage` takes out the inner sides of proxies that it can be sure of; what it leaves
//! must not pass for two exchanges here.

use crate::model::{
    coverage::inputs_of,
    exchange::{Exchange, Request},
    flow::Endpoint,
    message::{Message, PayloadHash},
    time::{Span, Timestamp},
};

/// What passes a request on does so within this time.
const PASSED_ON_WITHIN: Span = Span::from_secs(1);
/// Packets of one instant are captured out of order by this much.
const DISORDER: Span = Span::from_millis(5);
/// Clocks of two capturing machines differ by this much.
const CLOCKS: Span = Span::from_secs(1);

/// Whether two exchanges may be one: nothing that is known of both differs, and one lies within the
/// other in time. Where a request is not whole, it may be any.
#[must_use]
pub(super) fn may_be_one(a: &Exchange, b: &Exchange) -> bool {
    let one_connection = a.connection.is_some() && a.connection == b.connection;
    !one_connection && alike(a, b) && (lies_within(a, b) || lies_within(b, a))
}

/// Whether two exchanges may be one that two inputs show by clocks which differ by any time: they say the same
/// in all that is known of both, no input shows both, and they are not asked by one client of one server over
/// two connections.
#[must_use]
pub(super) fn may_be_of_two_clocks(a: &Exchange, b: &Exchange) -> bool {
    let known = is_known(a) && is_known(b);
    known && !inputs_of(a).any(|input| inputs_of(b).any(|other| input == other)) && {
        a.asked_session() == b.asked_session()
            && alike(a, b)
            && answers_are_alike(a, b)
            && !are_two(a, b)
    }
}

fn answers_are_alike(a: &Exchange, b: &Exchange) -> bool {
    let said = |exchange: &Exchange| -> Vec<PayloadHash> {
        let body = exchange.response.iter().flat_map(|r| &r.messages);
        body.map(|message| message.hash)
            .chain(exchange.events.iter().map(|event| event.hash))
            .collect()
    };
    let (one, two) = (said(a), said(b));
    one.is_empty() || two.is_empty() || one == two
}

fn are_two(a: &Exchange, b: &Exchange) -> bool {
    let ends = |exchange: &Exchange| match (&exchange.client, &exchange.server) {
        (Some(Endpoint::Address(client)), Some(server)) => Some((*client, server.clone())),
        _ => None,
    };
    let same_bytes = a.sequences.iter().zip(b.sequences).all(|pair| match pair {
        (Some(one), Some(two)) => *one == two,
        _ => true,
    });
    ends(a)
        .zip(ends(b))
        .is_some_and(|((client, server), (other, same))| {
            client.ip() == other.ip() && server == same && !(client == other && same_bytes)
        })
}

/// Whether the request of an exchange is known to its end.
#[must_use]
pub(super) fn is_known(exchange: &Exchange) -> bool {
    exchange
        .request
        .as_ref()
        .is_some_and(|request| request.complete)
}

fn alike(a: &Exchange, b: &Exchange) -> bool {
    let requests = match (&a.request, &b.request) {
        (Some(a), Some(b)) if a.complete && b.complete => {
            a.method == b.method && a.last_event_id == b.last_event_id && says_the_same(a, b)
        }
        _ => true,
    };
    let statuses = match (a.status(), b.status()) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    requests && statuses
}

/// A proxy may write the JSON anew; what it says stays.
fn says_the_same(a: &Request, b: &Request) -> bool {
    let same = |(a, b): (&Message, &Message)| {
        a.kind == b.kind && a.id == b.id && a.method == b.method && a.call == b.call
    };
    a.body == b.body
        || !a.messages.is_empty()
            && a.messages.len() == b.messages.len()
            && a.messages.iter().zip(&b.messages).all(same)
}

fn lies_within(outer: &Exchange, inner: &Exchange) -> bool {
    let slack = if outer.place.input == inner.place.input {
        DISORDER
    } else {
        CLOCKS
    };
    let asked = |exchange: &Exchange| exchange.request.as_ref().map(|request| request.time);
    let answered = |exchange: &Exchange| exchange.response.as_ref().map(|response| response.time);
    let follows = |first: Timestamp, second: Timestamp| {
        let span = second.since(first).nanos();
        span >= -slack.nanos() && span <= PASSED_ON_WITHIN.nanos()
    };
    match (
        asked(outer).zip(asked(inner)),
        answered(outer).zip(answered(inner)),
    ) {
        // However long it took: it was asked while the other was, and answered no later.
        (Some((outer_asked, inner_asked)), Some((outer_answered, inner_answered))) => {
            outer_asked.since(inner_asked) <= slack
                && inner_asked.since(outer_answered) <= slack
                && inner_answered.since(outer_answered) <= slack
        }
        (Some((outer_asked, inner_asked)), None) => {
            follows(outer_asked, inner_asked) && inner_asked.since(outer.end.time) <= slack
        }
        (None, Some((outer_answered, inner_answered))) => follows(inner_answered, outer_answered),
        (None, None) => follows(outer.time(), inner.time()) || follows(inner.time(), outer.time()),
    }
}
