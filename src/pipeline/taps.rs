//! One TCP connection that two runs read apart → its exchanges once. Where captures are read together, their packets
//! are merged before anything is made of them; facts of several taps come as exchanges each.
//!
//! Two exchanges are one when they are between the same ends, begin with the same TCP sequence numbers, at one moment,
//! and ask the same. The one that tells more counts; where both tell the same, what came first.

use crate::model::{
    exchange::{Exchange, Source},
    flow::Endpoint,
    place::InputId,
    time::{Span, Timestamp},
};
use foldhash::fast::RandomState;
use std::{cmp::Reverse, collections::HashMap};

/// Between the same ends, from the same first byte: of the request, or of the answer where the request is missing.
type Key = (Endpoint, Endpoint, bool, u32);

/// Folds exchanges that two sources show. Within one source, nothing is folded.
pub(super) fn fold(exchanges: Vec<Exchange>, source: impl Fn(InputId) -> usize) -> Vec<Exchange> {
    let mut known: HashMap<Key, Vec<usize>, RandomState> = HashMap::default();
    let mut folded: Vec<Exchange> = Vec::with_capacity(exchanges.len());
    for exchange in exchanges {
        let Some(key) = key(&exchange) else {
            folded.push(exchange);
            continue;
        };
        let own = source(exchange.place.input);
        let alike = known.entry(key).or_default();
        let latest = alike
            .get(alike.len().saturating_sub(ALIKE)..)
            .unwrap_or_default();
        let one = latest.iter().copied().find(|&index| {
            folded.get(index).is_some_and(|other| {
                let mut places = std::iter::once(&other.place).chain(&other.more_places);
                places.all(|place| source(place.input) != own) && are_one(other, &exchange)
            })
        });
        match one.and_then(|index| folded.get_mut(index)) {
            Some(other) => join(other, exchange),
            None => {
                alike.push(folded.len());
                folded.push(exchange);
            }
        }
    }
    folded
}

/// Exchanges of one key that are looked at for each: numbers come round again, but not within a moment. Only facts that
/// somebody made up have more.
const ALIKE: usize = 16;

fn key(exchange: &Exchange) -> Option<Key> {
    let [request, answer] = exchange.sequences;
    let first = request.or(answer)?;
    let is_packets = exchange.source == Source::Packets;
    let (client, server) = (exchange.client.clone()?, exchange.server.clone()?);
    is_packets.then_some((client, server, request.is_some(), first))
}

fn are_one(one: &Exchange, two: &Exchange) -> bool {
    let asks = |exchange: &Exchange| {
        let request = exchange.request.as_ref()?;
        let (method, target) = (request.method.clone(), request.target.clone());
        Some((
            method,
            target,
            request.session_id.clone(),
            request.last_event_id.clone(),
        ))
    };
    let apart = one.time().since(two.time()).nanos().saturating_abs();
    let ([_, answer], [_, other]) = (one.sequences, two.sequences);
    apart <= MOMENT.nanos()
        && one.version == two.version
        && asks(one) == asks(two)
        && (answer == other || answer.is_none() || other.is_none())
        && (one.status() == two.status() || one.status().is_none() || two.status().is_none())
}

/// Clocks further apart are put on one by the exchanges that both show.
const MOMENT: Span = Span::from_millis(250);

/// What an exchange tells, the more the greater.
fn told(exchange: &Exchange) -> impl Ord + use<> {
    let request = exchange.request.as_ref();
    let response = exchange.response.as_ref();
    (
        request.is_some_and(|request| request.complete),
        response.is_some(),
        Reverse(exchange.holes.len()),
        response.is_some_and(|response| response.complete),
        exchange.events.len(),
        Reverse(exchange.partial_event_bytes),
    )
}

/// Joins another showing of an exchange to it.
fn join(one: &mut Exchange, mut two: Exchange) {
    let (told_one, told_two) = (told(one), told(&two));
    let alike = told_one == told_two;
    let first = (two.time(), two.place) < (one.time(), one.place);
    if told_two > told_one || alike && first {
        std::mem::swap(one, &mut two);
    }
    if alike {
        earliest(one, &two);
    }
    let connection = one.place.input;
    for place in std::iter::once(two.place).chain(two.more_places) {
        let is_known = one
            .more_places
            .iter()
            .any(|known| known.input == place.input);
        if place.input != connection && !is_known {
            one.more_places.push(place);
        }
    }
    one.more_places.sort_unstable();
    if let Some(request) = &mut one.request {
        request.received |= two.request.is_some_and(|request| request.received);
    }
}

/// Of what both tell, when and where it was seen first.
fn earliest(one: &mut Exchange, two: &Exchange) {
    fn take(time: &mut Timestamp, other: Timestamp) {
        *time = other.min(*time);
    }
    if let (Some(own), Some(other)) = (&mut one.request, &two.request) {
        take(&mut own.time, other.time);
        take(&mut own.end_time, other.end_time);
    }
    if let (Some(own), Some(other)) = (&mut one.response, &two.response)
        && (other.time, other.place) < (own.time, own.place)
    {
        (own.time, own.place) = (other.time, other.place);
    }
    let mut others = two.events.iter();
    one.events.edit(|own| {
        let Some(other) = others.next() else { return };
        let is_earlier = (other.time, other.input) < (own.time, own.input);
        if own.hash == other.hash && is_earlier {
            (own.time, own.input, own.frame) = (other.time, other.input, other.frame);
        }
    });
    let (own, other) = (one.end, two.end);
    if own.cause == other.cause && (other.time, other.place) < (own.time, own.place) {
        one.end = other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        event::Event,
        exchange::{Request, Response},
        message::PayloadHash,
        place::Place,
    };
    use std::net::SocketAddr;

    fn seen(input: u32, micros: i64, events: usize) -> Exchange {
        let at = |after: i64| Timestamp::from_nanos((micros + after) * 1000);
        let end = |port| Endpoint::Address(SocketAddr::from(([10, 0, 0, 9], port)));
        let place = Place {
            input: InputId(input),
            frame: 1,
            tcp_stream: Some(input),
        };
        Exchange {
            client: Some(end(1)),
            server: Some(end(2)),
            place,
            sequences: [Some(7), Some(9)],
            request: Some(Request {
                time: at(0),
                complete: true,
                ..Request::default()
            }),
            response: Some(Response {
                time: at(5),
                place,
                ..Response::default()
            }),
            events: (0..events)
                .map(|number| Event {
                    time: at(10),
                    input: InputId(input),
                    hash: PayloadHash(number as u128),
                    ..Event::default()
                })
                .collect(),
            ..Exchange::default()
        }
    }

    fn fold_all(all: Vec<Exchange>) -> Vec<Exchange> {
        fold(all, |input| input.0 as usize)
    }

    #[test]
    fn what_two_taps_show_is_one_exchange_by_what_came_first() {
        let mut late = seen(0, 100, 2);
        let mut number = 0;
        late.events.edit(|event| {
            number += 1;
            if number == 2 {
                event.time = Timestamp::from_nanos(0);
            }
        });
        let all = fold_all(vec![late, seen(1, 0, 2), seen(2, 50, 2)]);
        assert_eq!(all.len(), 1);
        let one = &all[0];
        assert_eq!(one.place.input, InputId(1));
        let inputs: Vec<u32> = one.events.iter().map(|event| event.input.0).collect();
        assert_eq!(inputs, [1, 0]);
        let more: Vec<u32> = one.more_places.iter().map(|place| place.input.0).collect();
        assert_eq!(more, [0, 2]);
    }

    #[test]
    fn the_one_that_tells_more_counts() {
        for all in [
            vec![seen(0, 0, 1), seen(1, 9, 3)],
            vec![seen(1, 9, 3), seen(0, 0, 1)],
        ] {
            let all = fold_all(all);
            assert_eq!((all.len(), all[0].events.len()), (1, 3));
            assert_eq!(all[0].place.input, InputId(1));
        }
    }

    #[test]
    fn of_many_that_begin_with_one_number_the_latest_are_looked_at() {
        let folded_among = |others: i64| {
            let later = (1..=others).map(|number| seen(0, number * 1_000_000, 0));
            let first = std::iter::once(seen(0, 0, 0));
            let again = std::iter::once(seen(1, 9, 0));
            let all: Vec<Exchange> = first.chain(later).chain(again).collect();
            all.len() - fold_all(all).len()
        };
        let most = i64::try_from(ALIKE).unwrap();
        assert_eq!(folded_among(most - 1), 1);
        assert_eq!(folded_among(most), 0);
    }

    #[test]
    fn what_may_be_two_exchanges_is_two() {
        // Of one tap; long after each other; with other answers; from other ends.
        let mut other = seen(1, 0, 1);
        other.sequences[1] = Some(10);
        let mut elsewhere = seen(1, 0, 1);
        elsewhere.client = None;
        for two in [seen(0, 0, 1), seen(1, 300_000, 1), other, elsewhere] {
            assert_eq!(fold_all(vec![seen(0, 0, 1), two]).len(), 2);
        }
    }
}
