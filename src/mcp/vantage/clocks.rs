//! Puts inputs on one clock where they show the same exchanges by clocks that differ: taps on two hosts
//! without common time, a browser's HAR beside a capture.
//!
//! An exchange is taken for one seen twice when two inputs show it at one time each, under one session id, and
//! nothing that is known of both differs: what was asked, the status, what was answered. How far apart the
//! two sightings are tells how far apart the clocks are; that counts when enough of them say the same, and
//! most of those that there are. Two requests of one client to one server by different connections are two,
//! whatever they say: files with such are of one place, captured one after the other, and their clocks are
//! left alone.

use super::{
    SIDES,
    copies::are_alike,
    likeness::Likeness,
    road::{ends, same_bytes},
};
use crate::model::{
    exchange::{Exchange, Source},
    place::{InputId, Place},
    time::{Span, Timestamp},
};
use std::collections::{BTreeMap, BTreeSet};

/// How far the clocks of inputs are ahead of the one that all of a run are put on.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    ahead: BTreeMap<InputId, Ahead>,
}

/// How far a clock is ahead of that of another input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// How far; negative when it is behind.
    pub by: Span,
    /// The input whose clock counts.
    pub of: InputId,
}

impl Clocks {
    /// Clocks that are known to be ahead by these spans.
    #[must_use]
    pub fn known(ahead: impl IntoIterator<Item = (InputId, Span)>) -> Self {
        let ahead = ahead.into_iter();
        Self {
            ahead: ahead
                .map(|(input, by)| (input, Ahead { by, of: input }))
                .collect(),
        }
    }

    /// The inputs whose clocks are put right.
    pub fn iter(&self) -> impl Iterator<Item = (InputId, Ahead)> + '_ {
        self.ahead.iter().map(|(&input, &ahead)| (input, ahead))
    }

    /// A time of an input, by the clock of the run.
    #[must_use]
    pub fn of_run(&self, input: InputId, time: Timestamp) -> Timestamp {
        match self.ahead.get(&input) {
            Some(ahead) => time.plus(Span::from_nanos(ahead.by.nanos().saturating_neg())),
            None => time,
        }
    }

    /// By how much clocks were put back, each span once.
    #[must_use]
    pub fn spans(&self) -> BTreeSet<Span> {
        self.ahead.values().map(|ahead| ahead.by).collect()
    }

    /// Puts all times of an exchange on the clock of the run.
    pub fn put_right(&self, exchange: &mut Exchange) {
        put_on(self, exchange);
    }
}

/// Finds inputs whose clocks are further apart than 250 ms, and puts the times of their exchanges on one:
/// that of packets before that of a HAR, then the one that is behind the others. Those of `right` are as they
/// should be, and the others are put on theirs.
pub fn align(exchanges: &mut [Exchange], right: &BTreeSet<InputId>) -> Clocks {
    let samples = Samples::of(exchanges);
    align_by(&samples, exchanges, right)
}

/// The same by samples that are not of these exchanges alone.
pub fn align_by(
    samples: &Samples,
    exchanges: &mut [Exchange],
    right: &BTreeSet<InputId>,
) -> Clocks {
    let clocks = Clocks {
        ahead: ahead(samples, right),
    };
    if !clocks.ahead.is_empty() {
        for exchange in exchanges {
            put_on(&clocks, exchange);
        }
    }
    clocks
}

/// How far the later input of a pair is ahead of the earlier one, by one exchange that both show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// By what comes before others: those of the same bytes, then what was asked.
    pub rank: (u8, u64),
    /// How far.
    pub ahead: Span,
    /// So many exchanges that say so are enough: one of the same bytes, two when one of them issued the
    /// session, else three.
    pub enough: u8,
}

/// What pairs of inputs show of their clocks. Of several parts of a run, all together ([`Samples::merge`]): no two
/// exchanges of different sessions make a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// How far the second input of a pair is ahead.
    pub of_pair: BTreeMap<(InputId, InputId), Vec<Sample>>,
    /// Inputs that are of one place.
    pub one_place: BTreeSet<(InputId, InputId)>,
    /// Inputs that have packets.
    pub packets: BTreeSet<InputId>,
}

/// What is asked in a session, and where it is.
#[derive(Clone, Copy)]
struct Shown<'a> {
    key: Likeness<'a>,
    digest: u64,
    exchange: &'a Exchange,
}

impl Shown<'_> {
    fn order(&self) -> (InputId, Timestamp, Place, Timestamp) {
        let exchange = self.exchange;
        (
            exchange.place.input,
            exchange.time(),
            exchange.place,
            exchange.end.time,
        )
    }
}

impl Samples {
    /// What exchanges show.
    #[must_use]
    pub fn of(exchanges: &[Exchange]) -> Self {
        let mut samples = Self::default();
        let mut inputs: BTreeSet<InputId> = BTreeSet::new();
        for exchange in exchanges {
            inputs.insert(exchange.place.input);
            if exchange.source == Source::Packets {
                samples.packets.insert(exchange.place.input);
            }
        }
        if inputs.len() < 2 {
            return samples;
        }
        let mut all: Vec<Shown<'_>> = exchanges
            .iter()
            .filter_map(|exchange| {
                let key = Likeness::of(exchange).filter(|key| key.session.is_some())?;
                Some(Shown {
                    key,
                    digest: key.digest(),
                    exchange,
                })
            })
            .collect();
        // The same bytes, however often the same was asked.
        let bytes = |shown: &Shown<'_>| (shown.digest, shown.exchange.sequences);
        samples.compare(0, &mut all, bytes, |shown| {
            matches!(shown.exchange.sequences, [Some(_), Some(_)])
        });
        samples.compare(1, &mut all, |shown| (shown.digest, [None, None]), |_| true);
        samples
    }

    /// Adds what exchanges of other sessions show.
    pub fn merge(&mut self, other: Self) {
        for (pair, more) in other.of_pair {
            let list = self.of_pair.entry(pair).or_default();
            list.extend(more);
            list.sort_by_key(|sample| sample.rank);
            list.truncate(SAMPLES);
        }
        self.one_place.extend(other.one_place);
        self.packets.extend(other.packets);
    }

    /// Compares what inputs show under one key. What one shows several times within a moment are sides of one
    /// exchange; else it may be any of them.
    fn compare(
        &mut self,
        round: u8,
        all: &mut [Shown<'_>],
        key: impl Fn(&Shown<'_>) -> (u64, [Option<u32>; 2]),
        counts: impl Fn(&Shown<'_>) -> bool,
    ) {
        all.sort_unstable_by_key(|shown| (key(shown), shown.order()));
        for alike in all.chunk_by(|one, two| key(one) == key(two)) {
            let of_input = |one: &Shown<'_>, two: &Shown<'_>| {
                one.exchange.place.input == two.exchange.place.input
            };
            let shown: Vec<&[Shown<'_>]> = alike
                .chunk_by(of_input)
                .filter(|shown| shown.iter().all(&counts) && is_one_moment(shown))
                .take(COMPARED)
                .collect();
            for (index, one) in shown.iter().enumerate() {
                for two in shown.iter().skip(index + 1) {
                    self.note(round, one, two);
                }
            }
        }
    }

    /// Takes the first two of what two inputs show that may be one.
    fn note(&mut self, round: u8, one: &[Shown<'_>], two: &[Shown<'_>]) {
        let all = one.iter().take(SIDES).flat_map(|one| {
            let two = two.iter().take(SIDES);
            two.map(move |two| (one, two))
        });
        let mut known = all.filter(|(one, two)| one.key == two.key);
        let Some(first) = known.next() else { return };
        let (one, two) = std::iter::once(first)
            .chain(known)
            .find(|(one, two)| are_alike(one.exchange, two.exchange))
            .unwrap_or(first);
        let rank = (round, one.digest);
        let (one, two) = (one.exchange, two.exchange);
        let (input, other) = (one.place.input, two.place.input);
        let pair = (input, other);
        if are_two(one, two) {
            self.one_place.insert(pair);
            return;
        }
        let goes_on = |exchange: &Exchange, input: InputId| {
            exchange
                .more_places
                .iter()
                .any(|place| place.input == input)
        };
        if goes_on(one, other) || goes_on(two, input) {
            self.one_place.insert(pair);
            return;
        }
        let same = same_bytes(one, two) == Some(true);
        let session = one.given_session().or(one.asked_session());
        // An id that was counted up may be another session's.
        if !are_alike(one, two) || !same && session.is_none_or(|id| id.len() < LONG_ID) {
            return;
        }
        let list = self.of_pair.entry(pair).or_default();
        if list.len() < SAMPLES {
            list.push(Sample {
                rank,
                ahead: two.time().since(one.time()),
                enough: match (same, one.is_initialize() && one.given_session().is_some()) {
                    (true, _) => 1,
                    (false, true) => 2,
                    (false, false) => 3,
                },
            });
        }
    }

    /// How far the second of two inputs is ahead of the first.
    fn ahead(&self, pair: (InputId, InputId)) -> Option<Span> {
        let samples = self.of_pair.get(&pair)?;
        if self.one_place.contains(&pair) {
            return None;
        }
        let mut all: Vec<Span> = samples.iter().map(|sample| sample.ahead).collect();
        all.sort_unstable();
        // The most that lie together, the earliest of equals.
        let (mut best, mut from) = (0..0, 0);
        for (to, ahead) in all.iter().enumerate() {
            while all
                .get(from)
                .is_some_and(|first| ahead.nanos().saturating_sub(first.nanos()) > TOGETHER.nanos())
            {
                from += 1;
            }
            if to + 1 - from > best.len() {
                best = from..to + 1;
            }
        }
        let together = all.get(best)?;
        let (first, last) = (together.first()?, together.last()?);
        let enough = samples
            .iter()
            .filter(|sample| (first..=last).contains(&&sample.ahead))
            .map(|sample| sample.enough)
            .min()?;
        let enough = together.len() >= usize::from(enough);
        let middle = together.get(together.len() / 2)?;
        (enough && together.len() * 2 > all.len()).then_some(*middle)
    }
}

/// Whether what an input shows of one thing is of one moment.
fn is_one_moment(shown: &[Shown<'_>]) -> bool {
    let ends = shown.first().zip(shown.last());
    ends.is_some_and(|(first, last)| last.exchange.time().since(first.exchange.time()) <= TOGETHER)
}

/// Whether two exchanges are certainly two, whatever they say: one client asked one server over two
/// connections, or twice over one.
fn are_two(one: &Exchange, two: &Exchange) -> bool {
    let Some(((client, server), (other, same))) = ends(one).zip(ends(two)) else {
        return false;
    };
    client.ip() == other.ip()
        && server == same
        && (client != other || same_bytes(one, two) == Some(false))
}

/// How far each input is ahead of the one whose clock its neighbours are put on.
fn ahead(samples: &Samples, right: &BTreeSet<InputId>) -> BTreeMap<InputId, Ahead> {
    let mut links: BTreeMap<InputId, Vec<(InputId, Span)>> = BTreeMap::new();
    for &(one, two) in samples.of_pair.keys() {
        if let Some(ahead) = samples.ahead((one, two)) {
            links.entry(one).or_default().push((two, ahead));
            let behind = Span::from_nanos(ahead.nanos().saturating_neg());
            links.entry(two).or_default().push((one, behind));
        }
    }
    let mut found = BTreeMap::new();
    let mut known: BTreeSet<InputId> = BTreeSet::new();
    for &input in links.keys() {
        if !known.insert(input) {
            continue;
        }
        let mut together = vec![(input, Span::ZERO)];
        let mut next = 0;
        while let Some(&(at, ahead)) = together.get(next) {
            next += 1;
            for &(other, by) in links.get(&at).into_iter().flatten() {
                if known.insert(other) {
                    let ahead = ahead.nanos().saturating_add(by.nanos());
                    together.push((other, Span::from_nanos(ahead)));
                }
            }
        }
        let reference = together.iter().min_by_key(|(input, ahead)| {
            let (right, packets) = (right.contains(input), samples.packets.contains(input));
            (!right, !packets, *ahead, *input)
        });
        let Some(&(of, zero)) = reference else {
            continue;
        };
        for (input, ahead) in together {
            let ahead = ahead.nanos().saturating_sub(zero.nanos());
            if ahead.saturating_abs() > FEW.nanos() && !right.contains(&input) {
                let by = Span::from_nanos(ahead);
                found.insert(input, Ahead { by, of });
            }
        }
    }
    found
}

/// Puts all times of an exchange on the clock of the run.
fn put_on(clocks: &Clocks, exchange: &mut Exchange) {
    let input = exchange.place.input;
    let put = |time: &mut Timestamp, input: InputId| *time = clocks.of_run(input, *time);
    if let Some(request) = &mut exchange.request {
        put(&mut request.time, input);
        put(&mut request.end_time, input);
    }
    if let Some(response) = &mut exchange.response {
        put(&mut response.time, response.place.input);
    }
    let end = exchange.end.place.input;
    put(&mut exchange.end.time, end);
    if let Some(time) = &mut exchange.end.last_acknowledged {
        put(time, end);
    }
    exchange
        .events
        .edit(|event| put(&mut event.time, event.input));
    for hole in &mut exchange.holes {
        put(&mut hole.time, input);
    }
}

/// Clocks that differ by no more are left alone: a proxy may take as long.
const FEW: Span = Span::from_millis(250);

/// Samples of one offset lie within this of each other: a proxy takes its time.
const TOGETHER: Span = Span::from_secs(1);

/// Inputs compared for one request, and samples kept of each pair of them.
const COMPARED: usize = 8;
const SAMPLES: usize = 4096;

/// Characters of a session id that no counter makes.
const LONG_ID: usize = 16;
