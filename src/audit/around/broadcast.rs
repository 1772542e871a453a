//! One message on several open streams.
//!
//! The specification allows any number of streams and each message on one of them. That two events are
//! one message is told by their payload, but notifications say the same again and again, and two calls
//! of one tool say the same on two streams, each its own. So copies must lie far closer together than
//! one stream repeats itself. Then a request, or progress under a token, tells alone; another
//! notification tells on two standalone streams, or on one and a call's; beside several calls in
//! flight it takes two of them; and between two calls only one id that means one event.

use super::{Channel, Line, MOMENT, Said, Scene, find, is_unique};
use crate::{
    audit::id::Parts,
    model::{
        case::Broadcast,
        event::Event,
        exchange::Exchange,
        flow::Endpoint,
        message::{MessageKind, PayloadHash},
        time::{Span, Timestamp},
        verdict::Confidence,
    },
};
use foldhash::fast::RandomState;
use std::collections::{BTreeSet, HashMap};

/// Copies lie this much closer together than one stream's repetitions.
const CLOSER: i64 = 4;

/// Two copies of one message.
struct Pair {
    first: Said,
    second: Said,
    /// A message of the calls in flight may say the same by chance.
    doubtful: bool,
}

pub(super) fn broadcasts(
    scene: &Scene<'_, '_>,
    lines: &[Line<'_>],
    said: &[Said],
) -> Option<Broadcast> {
    let view = View {
        scene,
        lines,
        calls: Calls::of(scene),
    };
    let mut pairs: Vec<Pair> = said
        .chunk_by(Said::is_like)
        .filter(|alike| alike.len() > 1)
        .flat_map(|alike| view.pairs(alike))
        .collect();
    // Calls beside each other say one thing twice now and then, hardly two.
    let doubtful: BTreeSet<PayloadHash> = pairs
        .iter()
        .filter(|pair| pair.doubtful)
        .map(|pair| pair.first.hash)
        .collect();
    if doubtful.len() < 2 {
        pairs.retain(|pair| !pair.doubtful);
    }
    view.sum(&mut pairs)
}

struct View<'s, 'a> {
    scene: &'s Scene<'s, 'a>,
    lines: &'s [Line<'a>],
    calls: Calls,
}

impl View<'_, '_> {
    /// Whether it is a message that the client got, at a time that is known, on a known stream.
    fn counts(&self, said: Said) -> bool {
        find(self.lines, said).is_some_and(|(line, event)| {
            let may_be_copied = matches!(
                event.message,
                MessageKind::Request | MessageKind::Notification
            );
            may_be_copied
                && event.delivered
                && line.is_timed()
                && !line.alien
                && line.channel != Channel::Unknown
        })
    }

    /// Neighbours in time among events of one payload that are copies of one message.
    fn pairs(&self, alike: &[Said]) -> Vec<Pair> {
        let alike: Vec<Said> = alike
            .iter()
            .copied()
            .filter(|&said| self.counts(said))
            .collect();
        let apart = repetitions(&alike);
        let mut pairs = Vec::new();
        for (pair, apart) in alike.windows(2).zip(apart.windows(2)) {
            let ([first, second], [a, b]) = (pair, apart) else {
                continue;
            };
            let repeats = a.iter().chain(b).min();
            let distance = second.time.since(first.time);
            let close = distance <= MOMENT
                && repeats.is_none_or(|repeats| {
                    distance.nanos().saturating_mul(CLOSER) <= repeats.nanos()
                });
            if close && let Some(doubtful) = self.is_one(*first, *second) {
                pairs.push(Pair {
                    first: *first,
                    second: *second,
                    doubtful,
                });
            }
        }
        pairs
    }

    /// Whether two events of one payload are one message on two open streams, and whether only
    /// perhaps.
    fn is_one(&self, first: Said, second: Said) -> Option<bool> {
        let (one, event) = find(self.lines, first)?;
        let (other, again) = find(self.lines, second)?;
        let open = one.head() <= first.time
            && other.head() <= first.time
            && one.exchange.end.time >= second.time;
        if one.stream == other.stream || !open || are_views(one.exchange, other.exchange) {
            return None;
        }
        // Beside a hole an answer may be taken for another request's, and hide that it was seen twice.
        // Two clients may be two sessions of one name.
        let whole = !self.scene.gaps.any();
        let same_client = client(one.exchange) == client(other.exchange);
        if !same_client || !whole && one.exchange.server != other.exchange.server {
            return None;
        }
        if event.message == MessageKind::Request || event.progress_token.is_some() {
            return Some(false);
        }
        // How many calls are in flight is known where every request was seen.
        if !whole {
            return None;
        }
        match (one.channel, other.channel) {
            (Channel::Post(_), Channel::Post(_)) => self
                .have_one_id(one, &event, other, &again)
                .then_some(false),
            (Channel::Post(_), _) | (_, Channel::Post(_)) => {
                let call = if one.is_get() { other } else { one };
                let own = usize::from(!call.is_get());
                Some(self.calls.open_at(first.time) > own)
            }
            _ => Some(false),
        }
    }

    /// Whether two events bear one id that means one event in this session.
    fn have_one_id(&self, one: &Line<'_>, event: &Event, other: &Line<'_>, again: &Event) -> bool {
        let Some(id) = one.id_of(event) else {
            return false;
        };
        if other.id_of(again) != Some(id) || *id == *self.scene.session.id {
            return false;
        }
        let ledger = self.scene.ledger;
        let standing = ledger.standing(id);
        let backend = ledger.backend(one.exchange);
        is_unique(&Parts::of(id))
            || standing.number.is_some()
                && ledger.shares_counter(one.incarnation, backend, &standing.key, None)
    }

    /// All broadcasts of the session as one.
    fn sum(&self, pairs: &mut [Pair]) -> Option<Broadcast> {
        pairs.sort_by_key(|pair| (pair.second.time, pair.second));
        let first = pairs.first()?;
        let (line, event) = find(self.lines, first.second)?;
        let what = event.method.map_or("", |method| line.exchange.text(method));
        let doubtful = pairs.iter().all(|pair| pair.doubtful);
        let (what, site) = (what.to_owned(), line.site_of(&event));
        // Copies of one message follow each other: the second of one pair is the first of the next.
        let (mut messages, mut most, mut streams) = (0_u32, 0_u32, 0_u32);
        pairs.sort_by_key(|pair| pair.first);
        let mut last: Option<Said> = None;
        for pair in pairs.iter() {
            if last == Some(pair.first) {
                streams += 1;
            } else {
                messages += 1;
                streams = 2;
            }
            most = most.max(streams);
            last = Some(pair.second);
        }
        Some(Broadcast {
            what,
            count: messages,
            streams: most,
            confidence: if doubtful {
                Confidence::Medium
            } else {
                Confidence::High
            },
            site,
        })
    }
}

/// For each event of one payload how far the nearest other one on its own segment is.
fn repetitions(alike: &[Said]) -> Vec<Option<Span>> {
    let mut apart: Vec<Option<Span>> = vec![None; alike.len()];
    let mut last: HashMap<u32, (usize, Timestamp), RandomState> = HashMap::default();
    for (index, copy) in alike.iter().enumerate() {
        if let Some((before, time)) = last.insert(copy.line, (index, copy.time)) {
            let distance = copy.time.since(time);
            for at in [before, index] {
                if let Some(known) = apart.get_mut(at) {
                    *known = Some(known.map_or(distance, |known| known.min(distance)));
                }
            }
        }
    }
    apart
}

/// Whether two exchanges may be one, seen at two places (the two sides of a proxy, one entry in two
/// files): the requests are alike and near, and either the hosts differ or not even the time does.
fn are_views(one: &Exchange, other: &Exchange) -> bool {
    let (Some(a), Some(b)) = (&one.request, &other.request) else {
        return true;
    };
    let alike = a.method == b.method && a.last_event_id == b.last_event_id && a.body == b.body;
    let distance = b.time.since(a.time).nanos().abs();
    alike
        && distance <= MOMENT.nanos()
        && (distance == 0 || client(one) != client(other) || one.server != other.server)
}

fn client(exchange: &Exchange) -> Option<String> {
    exchange.client.as_ref().map(Endpoint::host)
}

/// When calls were in flight: POSTs that carry a request.
struct Calls {
    begins: Vec<Timestamp>,
    ends: Vec<Timestamp>,
}

impl Calls {
    fn of(scene: &Scene<'_, '_>) -> Self {
        let calls = || {
            scene
                .session
                .exchanges
                .iter()
                .filter_map(|&number| scene.exchanges.get(number as usize))
                .filter(|exchange| {
                    exchange.request.as_ref().is_some_and(|request| {
                        let mut messages = request.messages.iter();
                        messages.any(|message| message.kind == MessageKind::Request)
                    })
                })
        };
        let mut begins: Vec<Timestamp> = calls().map(Exchange::time).collect();
        let mut ends: Vec<Timestamp> = calls().map(|call| call.end.time).collect();
        begins.sort_unstable();
        ends.sort_unstable();
        Self { begins, ends }
    }

    fn open_at(&self, time: Timestamp) -> usize {
        let begun = self.begins.partition_point(|begin| *begin <= time);
        let ended = self.ends.partition_point(|end| *end < time);
        begun.saturating_sub(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_often_a_stream_repeats_itself_is_told_from_both_sides() {
        let said = |line, millis: i64| Said {
            incarnation: 1,
            hash: PayloadHash(1),
            time: Timestamp::from_nanos(millis * 1_000_000),
            line,
            event: 0,
        };
        let alike = [said(0, 0), said(1, 1), said(0, 300), said(0, 400)];
        let millis = |span: Option<Span>| span.map(|span| span.nanos() / 1_000_000);
        let apart: Vec<_> = repetitions(&alike).into_iter().map(millis).collect();
        assert_eq!(apart, [Some(300), None, Some(100), Some(100)]);
    }
}
