//! What shows an exchange again and cannot be told by two whole requests in packets: the same packets by
//! another clock, a HAR entry of what packets show as well, the same entry in two HARs, an answer whose request is missing on one
//! side, and a proxy's attempts where the client's own request is missing.

use super::{
    Matched,
    likeness::{Agreement, Likeness, agreement},
    number_of,
    road::{CLOCKS, FORWARDED_WITHIN, Road, answered, came_to_nothing, ends, road, slack},
};
use crate::model::{
    exchange::{Exchange, Source},
    message::{MessageKind, PayloadHash},
    place::InputId,
    session::{Grouping, Role},
    time::{Span, Timestamp},
};
use foldhash::fast::RandomState;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    net::{IpAddr, SocketAddr},
};

/// Adds what `matched` cannot know from two whole requests in packets.
pub(super) fn find(
    grouping: &Grouping,
    exchanges: &[Exchange],
    keys: &[Option<Likeness<'_>>],
    matched: &mut Matched,
) {
    again(exchanges, keys, matched);
    hars(grouping, exchanges, keys, matched);
    translated(exchanges, keys, matched);
    torn(grouping, exchanges, keys, matched);
    attempts(grouping, exchanges, keys, matched);
}

// --- the same packets by another clock ------------------------------------------------------------

/// Takes the same bytes between the same ends for one exchange where two inputs show them: packets that
/// another capture point saw by a clock so far off that the connection seemed to be another one.
fn again(exchanges: &[Exchange], keys: &[Option<Likeness<'_>>], matched: &mut Matched) {
    type Bytes = ((SocketAddr, SocketAddr), [Option<u32>; 2]);
    let mut inputs = exchanges.iter().map(|exchange| exchange.place.input);
    let first = inputs.next();
    if inputs.all(|input| Some(input) == first) {
        return;
    }
    let key = |number: u32| keys.get(number as usize).copied().flatten();
    let fullness = |exchange: &Exchange| {
        let known = (exchange.request.is_some(), exchange.response.is_some());
        (known, Reverse(exchange.holes.len()), exchange.events.len())
    };
    let mut known: HashMap<Bytes, u32, RandomState> = HashMap::default();
    for (index, exchange) in exchanges.iter().enumerate() {
        let number = number_of(index);
        let ([Some(_), _], Some(ends)) = (exchange.sequences, ends(exchange)) else {
            continue;
        };
        if !matched.is_root(number) {
            continue;
        }
        let slot = known.entry((ends, exchange.sequences)).or_insert(number);
        let Some(other) = exchanges.get(*slot as usize) else {
            continue;
        };
        let one = other.place.input != exchange.place.input
            && key(*slot) == key(number)
            && are_alike(other, exchange);
        if !one {
            *slot = number;
        } else if fullness(exchange) > fullness(other) {
            matched.copy(number, std::mem::replace(slot, number));
        } else {
            matched.copy(*slot, number);
        }
    }
}

// --- HARs -----------------------------------------------------------------------------------------

/// The exchanges that say one thing, in order of time.
type Alike<'a> = HashMap<Likeness<'a>, BTreeSet<(Timestamp, u32)>, RandomState>;

/// Matches the entries of each HAR with packets, and with HARs that tell more.
fn hars(
    grouping: &Grouping,
    exchanges: &[Exchange],
    keys: &[Option<Likeness<'_>>],
    matched: &mut Matched,
) {
    let mut entries: BTreeMap<InputId, (u64, Vec<u32>)> = BTreeMap::new();
    for (index, exchange) in exchanges.iter().enumerate() {
        if let Source::Har {
            bodies,
            event_times,
        } = exchange.source
        {
            let (told, list) = entries.entry(exchange.place.input).or_default();
            *told += u64::from(bodies) + u64::from(event_times);
            list.push(number_of(index));
        }
    }
    let packets = exchanges
        .iter()
        .any(|exchange| exchange.source == Source::Packets);
    if entries.len() + usize::from(packets) < 2 {
        return;
    }
    let key = |number: u32| {
        let of_session = matches!(
            grouping.role_of.get(number as usize),
            Some(Role::Session(_))
        );
        let key = keys.get(number as usize).copied().flatten();
        key.filter(|key| of_session && key.session.is_some())
    };
    let mut known: Alike<'_> = HashMap::default();
    for (index, exchange) in exchanges.iter().enumerate() {
        let number = number_of(index);
        if exchange.source == Source::Packets
            && matched.is_root(number)
            && let Some(key) = key(number)
        {
            let alike = known.entry(key).or_default();
            alike.insert((exchange.time(), number));
        }
    }
    // Those that tell most first: they stand for the others.
    let mut inputs: Vec<(InputId, (u64, Vec<u32>))> = entries.into_iter().collect();
    inputs.sort_by_key(|(input, (told, _))| (Reverse(*told), *input));
    for (_, (_, entries)) in inputs {
        let mut taken: BTreeSet<u32> = BTreeSet::new();
        let mut new = Vec::new();
        for number in entries {
            let (Some(key), Some(exchange)) = (key(number), exchanges.get(number as usize)) else {
                continue;
            };
            let of = known
                .get(&key)
                .and_then(|alike| nearest(alike, exchange, exchanges, &taken));
            if let Some(of) = of {
                taken.insert(of);
                matched.copy(of, number);
            } else {
                new.push((key, exchange.time(), number));
            }
        }
        for (key, time, number) in new {
            known.entry(key).or_default().insert((time, number));
        }
    }
}

/// The exchange that an entry most likely shows again.
fn nearest(
    alike: &BTreeSet<(Timestamp, u32)>,
    entry: &Exchange,
    exchanges: &[Exchange],
    taken: &BTreeSet<u32>,
) -> Option<u32> {
    let time = entry.time();
    let within = Span::from_nanos(CLOCKS.nanos() + FORWARDED_WITHIN.nanos());
    let earliest = time.plus(Span::from_nanos(-within.nanos()));
    alike
        .range((earliest, 0)..=(time.plus(within), u32::MAX))
        .take(LOOKED_AT)
        .filter(|(_, number)| !taken.contains(number))
        .filter(|&&(_, number)| {
            exchanges
                .get(number as usize)
                .is_some_and(|of| are_alike(of, entry))
        })
        .min_by_key(|(at, _)| at.since(time).nanos().abs())
        .map(|&(_, number)| number)
}

/// Whether two records may be of one answer: the same status, and the same first message where both
/// have one. Ids are not compared: a HAR has them as a browser keeps them.
pub(super) fn are_alike(one: &Exchange, two: &Exchange) -> bool {
    let differ = |a: Option<u16>, b: Option<u16>| a.is_some() && b.is_some() && a != b;
    let (first, other) = (said(one).next(), said(two).next());
    !differ(one.status(), two.status()) && (first.is_none() || other.is_none() || first == other)
}

// --- requests that are missing --------------------------------------------------------------------

/// Takes an answer whose request is not known as a whole for the copy of the same bytes under other
/// addresses.
fn translated(exchanges: &[Exchange], keys: &[Option<Likeness<'_>>], matched: &mut Matched) {
    let mut known: HashMap<u32, u32, RandomState> = HashMap::default();
    for (index, (exchange, key)) in exchanges.iter().zip(keys).enumerate() {
        let number = number_of(index);
        if key.is_some() {
            continue;
        }
        let [_, Some(answer)] = exchange.sequences else {
            continue;
        };
        if !matched.is_root(number) {
            continue;
        }
        let before = known
            .get(&answer)
            .copied()
            .and_then(|number| Some((number, exchanges.get(number as usize)?)));
        match before {
            Some((before, other))
                if exchange.time().since(other.time()) <= FORWARDED_WITHIN
                    && road(other, exchange) == Some(Road::Translated) =>
            {
                matched.copy(before, number);
            }
            _ => {
                known.insert(answer, number);
            }
        }
    }
}

/// Takes an answer whose request is not known as a whole for the other side of an exchange that is,
/// where both answers say the same at one time.
fn torn(
    grouping: &Grouping,
    exchanges: &[Exchange],
    keys: &[Option<Likeness<'_>>],
    matched: &mut Matched,
) {
    let is_torn = |number: u32| is_torn(number, exchanges, keys);
    let session = |number: u32| match grouping.role_of.get(number as usize) {
        Some(&Role::Session(session)) => Some(session),
        _ => None,
    };
    let torn: Vec<u32> = (0..number_of(exchanges.len()))
        .filter(|&number| is_torn(number))
        .filter(|&number| session(number).is_some() && matched.is_root(number))
        .collect();
    let of_sessions: BTreeSet<u32> = torn.iter().filter_map(|&number| session(number)).collect();
    if of_sessions.is_empty() {
        return;
    }
    // By session and what was said.
    let mut whole: HashMap<(u32, PayloadHash), Vec<u32>, RandomState> = HashMap::default();
    for (index, exchange) in exchanges.iter().enumerate() {
        let number = number_of(index);
        let Some(session) = session(number).filter(|session| of_sessions.contains(session)) else {
            continue;
        };
        if exchange.source == Source::Packets && !is_torn(number) {
            for said in said(exchange) {
                let list = whole.entry((session, said)).or_default();
                if list.last() != Some(&number) {
                    list.push(number);
                }
            }
        }
    }
    for number in torn {
        let (Some(exchange), Some(session)) = (exchanges.get(number as usize), session(number))
        else {
            continue;
        };
        let shows = |other: u32| {
            let other = exchanges.get(other as usize)?;
            let far = answered(exchange)?.since(answered(other)?).nanos().abs();
            let near = FORWARDED_WITHIN
                .nanos()
                .saturating_add(slack(exchange, other).nanos());
            let road = road(exchange, other).or_else(|| road(other, exchange));
            (road.is_some() && far <= near && agreement(exchange, other) == Agreement::Same)
                .then_some(far)
        };
        let of = said(exchange)
            .filter_map(|said| whole.get(&(session, said)))
            .flat_map(|list| around(list, number))
            .filter_map(|other| Some((shows(other)?, other)))
            .min();
        if let Some((_, of)) = of {
            matched.copy(of, number);
        }
    }
}

/// Whether it is an answer whose request is not known as a whole.
fn is_torn(number: u32, exchanges: &[Exchange], keys: &[Option<Likeness<'_>>]) -> bool {
    let unknown = keys.get(number as usize).is_some_and(Option::is_none);
    let exchange = exchanges.get(number as usize).filter(|_| unknown);
    exchange
        .is_some_and(|exchange| exchange.source == Source::Packets && exchange.response.is_some())
}

/// The numbers of a sorted list that are next to `number`.
fn around(list: &[u32], number: u32) -> impl Iterator<Item = u32> + '_ {
    let place = list.partition_point(|&other| other < number);
    let from = place.saturating_sub(LOOKED_AT / 2);
    list.iter().skip(from).take(LOOKED_AT).copied()
}

/// What an answer says first, as hashes: its messages.
fn said(exchange: &Exchange) -> impl Iterator<Item = PayloadHash> + '_ {
    let body = exchange
        .response
        .iter()
        .flat_map(|response| &response.messages)
        .map(|message| message.hash);
    let events = exchange
        .events
        .iter()
        .filter(|event| event.is_message() && event.message != MessageKind::Redacted)
        .map(|event| event.hash);
    body.chain(events).take(SAID)
}

// --- attempts of proxies whose outer side is missing ----------------------------------------------

/// What a proxy asked in vain before it asked another server, or asked of two at one time, is no request of
/// its client's, also where the client's own is not in the capture. Which hosts are proxies, other pairs tell.
fn attempts(
    grouping: &Grouping,
    exchanges: &[Exchange],
    keys: &[Option<Likeness<'_>>],
    matched: &mut Matched,
) {
    let host = |exchange: &Exchange| ends(exchange).map(|(client, _)| client.ip());
    let proxies: BTreeSet<IpAddr> = (0..number_of(exchanges.len()))
        .filter_map(|number| exchanges.get(matched.inner_of(number)? as usize))
        .filter_map(host)
        .filter(|host| !host.to_canonical().is_loopback())
        .collect();
    if proxies.is_empty() {
        return;
    }
    let server = |exchange: &Exchange| ends(exchange).map(|(_, server)| server);
    // What an answer to a request that is missing shows again.
    let shown: BTreeSet<u32> = (0..number_of(exchanges.len()))
        .filter(|&number| is_torn(number, exchanges, keys))
        .filter_map(|number| matched.outer_of(number))
        .collect();
    // Servers that a proxy asked at one time.
    let twins: BTreeSet<(SocketAddr, SocketAddr)> = (0..number_of(exchanges.len()))
        .filter_map(|number| Some((number, matched.inner_of(matched.outer_of(number)?)?)))
        .filter(|(number, answer)| number != answer)
        .filter_map(|(number, answer)| {
            let at = |number: u32| exchanges.get(number as usize);
            let (other, answer) = (at(number)?, at(answer)?);
            let tried = came_to_nothing(other, answer) || came_to_nothing(answer, other);
            let servers = (server(other)?, server(answer)?);
            (!tried).then_some(servers)
        })
        .collect();
    let are_twins = |one: &Exchange, two: &Exchange| match (server(one), server(two)) {
        (Some(one), Some(two)) => {
            one != two && (twins.contains(&(one, two)) || twins.contains(&(two, one)))
        }
        _ => false,
    };
    // By session and proxy, the last that was asked, and the last that was asked for each thing.
    let mut asked: HashMap<(u32, IpAddr, Option<Likeness<'_>>), u32, RandomState> =
        HashMap::default();
    for (index, exchange) in exchanges.iter().enumerate() {
        let number = number_of(index);
        let (Some(&Role::Session(session)), Some(host)) =
            (grouping.role_of.get(index), host(exchange))
        else {
            continue;
        };
        let key = keys.get(index).copied().flatten();
        if !proxies.contains(&host) || key.is_some() && !matched.is_root(number) {
            continue;
        }
        // One whose request is missing may be for the last thing that was asked.
        let before = asked.get(&(session, host, key)).copied();
        let earlier = before.and_then(|number| exchanges.get(number as usize));
        if let (Some(before), Some(earlier)) = (before, earlier) {
            let since = exchange.time().since(earlier.end.time);
            let at_once = since.nanos() <= FORWARDED_WITHIN.nanos();
            // Of a mirror's two answers the client has the one that its own answer shows, or that is
            // no refusal.
            let apart = exchange.time().since(earlier.time()).nanos();
            let waited = || answered(earlier).is_none_or(|at| at > exchange.time());
            let are_shown = (shown.contains(&before), shown.contains(&number));
            let mirrored = apart <= FORWARDED_WITHIN.nanos()
                && matched.is_root(before)
                && server(earlier) != server(exchange)
                && (are_twins(earlier, exchange) && (key.is_none() || waited())
                    || key.is_some() && are_shown.0 != are_shown.1 && waited());
            if mirrored {
                let refused = |exchange: &Exchange| exchange.status().is_none_or(|at| at >= 400);
                let later = refused(earlier) && !refused(exchange);
                if are_shown.1 || later && !are_shown.0 {
                    matched.copy(number, before);
                } else {
                    matched.copy(before, number);
                    continue;
                }
            } else if at_once
                && server(earlier) != server(exchange)
                && came_to_nothing(earlier, exchange)
            {
                matched.copy(number, before);
            }
        }
        if key.is_some() {
            asked.insert((session, host, key), number);
            asked.insert((session, host, None), number);
        }
    }
}

/// Exchanges looked at for each.
const LOOKED_AT: usize = 16;

/// Messages of an answer by which its other side is found.
const SAID: usize = 8;
