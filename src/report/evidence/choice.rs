//! How much is wanted, and what of it fits into a file.

use super::plan::{Plan, Wanted, is_har};
use crate::model::{
    analysis::Analysis,
    exchange::Exchange,
    place::{InputId, Place},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A TCP connection as one input has it.
type Key = (InputId, u32);

/// How much of the inputs is wanted: of whole connections and entries, whichever finding wants them.
#[derive(Debug, Default)]
pub struct Sizes {
    connections: BTreeMap<Key, Connection>,
    entries: BTreeMap<(InputId, u32), u64>,
}

/// What is known of a connection that is wanted. Its packets have positions: the bytes of it that come before.
#[derive(Debug, Default)]
pub struct Connection {
    /// The frames that matter, in order.
    frames: Vec<u32>,
    /// Where each of them begins and ends, as far as it was seen.
    at: Vec<Option<(u64, u64)>>,
    bytes: u64,
    packets: u64,
}

impl Connection {
    /// Takes its next packet; gives its position and that of the next.
    pub fn take(&mut self, frame: u32, bytes: u64) -> (u64, u64) {
        let start = self.bytes;
        self.bytes = start.saturating_add(bytes);
        self.packets += 1;
        if let Ok(index) = self.frames.binary_search(&frame)
            && let Some(at) = self.at.get_mut(index)
        {
            *at = Some((start, self.bytes));
        }
        (start, self.bytes)
    }

    fn at(&self, frame: u32) -> Option<(u64, u64)> {
        let index = self.frames.binary_search(&frame).ok()?;
        *self.at.get(index)?
    }
}

impl Sizes {
    /// Nothing seen yet of what `plan` wants.
    #[must_use]
    pub fn new(plan: &Plan, analysis: &Analysis) -> Self {
        let mut sizes = Self::default();
        let mut taken: Vec<&Arc<[u32]>> = Vec::new();
        for one in &plan.wanted {
            // Findings of one session share what they want.
            let seen = taken.iter().any(|other| Arc::ptr_eq(other, &one.session));
            let session: &[u32] = if seen { &[] } else { &one.session };
            taken.push(&one.session);
            for &number in session.iter().chain(&one.decisive).chain(&one.related) {
                if let Some(exchange) = analysis.exchanges.get(number as usize) {
                    sizes.want(exchange);
                }
            }
            for mark in &one.marks {
                sizes.want_frame(mark.place);
            }
        }
        for connection in sizes.connections.values_mut() {
            connection.frames.sort_unstable();
            connection.frames.dedup();
            connection.at = vec![None; connection.frames.len()];
        }
        sizes
    }

    /// The inputs that are to be read.
    #[must_use]
    pub fn inputs(&self) -> BTreeSet<InputId> {
        let connections = self.connections.keys().map(|(input, _)| *input);
        let entries = self.entries.keys().map(|(input, _)| *input);
        connections.chain(entries).collect()
    }

    /// The connection, if it is wanted.
    pub fn connection(&mut self, input: InputId, tcp_stream: u32) -> Option<&mut Connection> {
        self.connections.get_mut(&(input, tcp_stream))
    }

    /// Takes the length of an entry; says whether it is wanted.
    pub fn entry(&mut self, input: InputId, number: u32, bytes: u64) -> bool {
        let entry = self.entries.get_mut(&(input, number));
        let wanted = entry.is_some();
        if let Some(length) = entry {
            *length = bytes;
        }
        wanted
    }

    fn want(&mut self, exchange: &Exchange) {
        if is_har(exchange) {
            let place = exchange.place;
            self.entries.entry((place.input, place.frame)).or_default();
            return;
        }
        for place in places(exchange) {
            if let Some(stream) = place.tcp_stream {
                self.connections.entry((place.input, stream)).or_default();
            }
        }
        for place in ends(exchange) {
            self.want_frame(place);
        }
    }

    fn want_frame(&mut self, place: Place) {
        if let (Some(stream), 1..) = (place.tcp_stream, place.frame) {
            let connection = self.connections.entry((place.input, stream)).or_default();
            connection.frames.push(place.frame);
        }
    }
}

/// What goes into the file of one finding.
#[derive(Debug, Default)]
pub struct Choice {
    /// Of each connection the positions that are in it.
    connections: BTreeMap<Key, Spans>,
    /// The entries that are in it.
    entries: BTreeSet<(InputId, u32)>,
    /// What of the wanted is not in it: connections and entries that are not, or not whole, the largest first.
    pub left_out: Vec<LeftOut>,
}

/// Something wanted that is not in the file, or not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The bytes that are not.
    pub bytes: u64,
    /// Whether nothing of it is.
    pub wholly: bool,
    /// The input, and its TCP stream or the number of the HAR entry (as the frame).
    pub place: Place,
}

impl Choice {
    /// The connections that something is taken of.
    pub fn connections(&self) -> impl Iterator<Item = (InputId, u32)> {
        self.connections.keys().copied()
    }

    /// The entries that are taken.
    pub fn entries(&self) -> impl Iterator<Item = (InputId, u32)> {
        self.entries.iter().copied()
    }

    /// Whether a packet of a connection is taken: from its position to that of the next.
    #[must_use]
    pub fn has(&self, input: InputId, tcp_stream: u32, (start, end): (u64, u64)) -> bool {
        let spans = self.connections.get(&(input, tcp_stream));
        spans.is_some_and(|spans| spans.holds(start, end))
    }

    /// Whether an entry is taken.
    #[must_use]
    pub fn has_entry(&self, input: InputId, number: u32) -> bool {
        self.entries.contains(&(input, number))
    }
}

impl Plan {
    /// What of the wanted for `one` fits into `budget` bytes: first the packets that decide with what is around
    /// them, then the exchanges and connections that decide, then the rest of the session, the nearest in time first.
    #[must_use]
    pub fn choose(&self, one: &Wanted, analysis: &Analysis, sizes: &Sizes, budget: u64) -> Choice {
        let mut chooser = Chooser {
            analysis,
            sizes,
            left: budget,
            choice: Choice::default(),
        };
        // Sixteen marks with as much on both sides are half of it.
        let around = budget / 64;
        for wide in [0, around] {
            for mark in &one.marks {
                chooser.around(mark.place, wide);
            }
        }
        for &number in &one.decisive {
            chooser.heads(number, around);
        }
        for &number in &one.decisive {
            chooser.exchange(number);
        }
        for &number in one.decisive.iter().chain(&one.related) {
            chooser.connections(number);
        }
        let near = one.session.partition_point(|&number| {
            let exchange = analysis.exchanges.get(number as usize);
            exchange.is_some_and(|exchange| exchange.time() <= one.time)
        });
        let (before, after) = one.session.split_at(near);
        let mut before = before.iter().rev().peekable();
        let mut after = after.iter().peekable();
        let mut misses = 0;
        while misses < MISSES {
            // In turn: what comes after a fork tells what it cost.
            let next = [before.next(), after.next()];
            if next == [None, None] {
                break;
            }
            for &number in next.into_iter().flatten() {
                misses = if chooser.connections(number) {
                    0
                } else {
                    misses + 1
                };
            }
        }
        chooser.finish(one)
    }
}

struct Chooser<'a> {
    analysis: &'a Analysis,
    sizes: &'a Sizes,
    left: u64,
    choice: Choice,
}

impl<'a> Chooser<'a> {
    fn exchange_at(&self, number: u32) -> Option<&'a Exchange> {
        self.analysis.exchanges.get(number as usize)
    }

    /// Takes part of a connection, if there is room for all of it.
    fn take(&mut self, key: Key, (start, end): (u64, u64)) -> bool {
        let whole = self
            .sizes
            .connections
            .get(&key)
            .map_or(0, |known| known.bytes);
        let end = end.min(whole);
        let none = Spans::default();
        let spans = self.choice.connections.get(&key).unwrap_or(&none);
        let cost = spans.lacks(start, end);
        if cost > self.left {
            return false;
        }
        self.left -= cost;
        if cost > 0 {
            let spans = self.choice.connections.entry(key).or_default();
            spans.insert(start, end);
        }
        true
    }

    fn take_entry(&mut self, place: Place) -> bool {
        let key = (place.input, place.frame);
        if self.choice.entries.contains(&key) {
            return true;
        }
        let Some(&bytes) = self
            .sizes
            .entries
            .get(&key)
            .filter(|bytes| **bytes <= self.left)
        else {
            return false;
        };
        self.left -= bytes;
        self.choice.entries.insert(key)
    }

    /// A packet with `wide` bytes of its connection on both sides; or an entry.
    fn around(&mut self, place: Place, wide: u64) {
        let Some(stream) = place.tcp_stream else {
            self.take_entry(place);
            return;
        };
        let key = (place.input, stream);
        let at = self
            .sizes
            .connections
            .get(&key)
            .and_then(|known| known.at(place.frame));
        if let Some((start, end)) = at {
            self.take(key, (start.saturating_sub(wide), end.saturating_add(wide)));
        }
    }

    /// The first bytes of the connections that an exchange is on: how they began.
    fn heads(&mut self, number: u32, bytes: u64) {
        let Some(exchange) = self
            .exchange_at(number)
            .filter(|exchange| !is_har(exchange))
        else {
            return;
        };
        for place in places(exchange) {
            if let Some(stream) = place.tcp_stream {
                self.take((place.input, stream), (0, bytes));
            }
        }
    }

    /// An exchange from its first packet to its last, in each input that has one of them.
    fn exchange(&mut self, number: u32) -> bool {
        let Some(exchange) = self.exchange_at(number) else {
            return false;
        };
        if is_har(exchange) {
            return self.take_entry(exchange.place);
        }
        let mut spans: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
        for place in ends(exchange) {
            let Some(stream) = place.tcp_stream else {
                continue;
            };
            let key = (place.input, stream);
            let at = self
                .sizes
                .connections
                .get(&key)
                .and_then(|known| known.at(place.frame));
            if let Some((start, end)) = at {
                let span = spans.entry(key).or_insert((start, end));
                *span = (span.0.min(start), span.1.max(end));
            }
        }
        let all: Vec<bool> = spans
            .into_iter()
            .map(|(key, span)| self.take(key, span))
            .collect();
        all.contains(&true)
    }

    /// The connections that an exchange is on, whole; or, where there is no room, the exchange.
    fn connections(&mut self, number: u32) -> bool {
        let Some(exchange) = self.exchange_at(number) else {
            return false;
        };
        if is_har(exchange) {
            return self.take_entry(exchange.place);
        }
        let mut all = true;
        for place in places(exchange) {
            if let Some(stream) = place.tcp_stream {
                all &= self.take((place.input, stream), (0, u64::MAX));
            }
        }
        all || self.exchange(number)
    }

    /// What was left out of all that `one` wants.
    fn finish(mut self, one: &Wanted) -> Choice {
        let mut keys: BTreeSet<Place> = BTreeSet::new();
        let wanted = one.session.iter().chain(&one.decisive).chain(&one.related);
        for exchange in wanted.filter_map(|&number| self.exchange_at(number)) {
            if is_har(exchange) {
                keys.insert(exchange.place);
            } else {
                keys.extend(places(exchange).map(|place| Place { frame: 0, ..*place }));
            }
        }
        for place in keys {
            let (bytes, wholly) = match place.tcp_stream {
                Some(stream) => {
                    let key = (place.input, stream);
                    let all = self
                        .sizes
                        .connections
                        .get(&key)
                        .map_or(0, |known| known.bytes);
                    match self.choice.connections.get(&key) {
                        Some(spans) => (spans.lacks(0, all), false),
                        None => (all, true),
                    }
                }
                None if self.choice.has_entry(place.input, place.frame) => (0, false),
                None => {
                    let key = (place.input, place.frame);
                    (
                        self.sizes.entries.get(&key).copied().unwrap_or_default(),
                        true,
                    )
                }
            };
            if bytes > 0 {
                self.choice.left_out.push(LeftOut {
                    bytes,
                    wholly,
                    place,
                });
            }
        }
        // Of equal ones the order of places stays.
        self.choice
            .left_out
            .sort_by_key(|left| std::cmp::Reverse(left.bytes));
        self.choice
    }
}

/// The connections that carried an exchange, in every input.
fn places(exchange: &Exchange) -> impl Iterator<Item = &Place> {
    std::iter::once(&exchange.place).chain(&exchange.more_places)
}

/// Where an exchange begins, is answered, and ends.
fn ends(exchange: &Exchange) -> impl Iterator<Item = Place> {
    let answer = exchange.response.as_ref().map(|response| response.place);
    [Some(exchange.place), answer, Some(exchange.end.place)]
        .into_iter()
        .flatten()
}

/// Parts of a connection: half-open, in order, apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Spans(Vec<(u64, u64)>);

impl Spans {
    /// How many of these positions are not in it.
    fn lacks(&self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let from = self.0.partition_point(|span| span.1 <= start);
        let within = self.0.iter().skip(from).take_while(|span| span.0 < end);
        let covered: u64 = within.map(|span| span.1.min(end) - span.0.max(start)).sum();
        end - start - covered
    }

    fn insert(&mut self, start: u64, end: u64) {
        let from = self.0.partition_point(|span| span.1 < start);
        let to = self.0.partition_point(|span| span.0 <= end);
        let (mut start, mut end) = (start, end);
        for span in self.0.drain(from..to.max(from)) {
            start = start.min(span.0);
            end = end.max(span.1);
        }
        self.0.insert(from, (start, end));
    }

    fn holds(&self, start: u64, end: u64) -> bool {
        let after = self.0.partition_point(|span| span.1 <= start);
        self.0
            .get(after)
            .is_some_and(|span| span.0 <= start && end <= span.1)
    }
}

/// Exchanges of a session in a row that there is no room for, after which it is full: what is smaller than each of them
/// hardly comes.
const MISSES: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{limits::Limits, report::sample};

    #[test]
    fn spans_join_and_tell_what_they_lack() {
        let mut spans = Spans::default();
        assert_eq!(spans.lacks(5, 9), 4);
        spans.insert(10, 20);
        spans.insert(40, 50);
        assert_eq!((spans.lacks(0, 60), spans.lacks(15, 45)), (40, 20));
        spans.insert(20, 30);
        assert_eq!(spans.0, [(10, 30), (40, 50)]);
        spans.insert(5, 41);
        assert_eq!(spans.0, [(5, 50)]);
        assert!(spans.holds(5, 50) && spans.holds(49, 50) && !spans.holds(50, 51));
        assert!(
            !spans.holds(4, 6) && !spans.holds(49, 51),
            "only what is whole"
        );
        assert_eq!((spans.lacks(60, 60), spans.lacks(45, 7)), (0, 0));
    }

    /// The connections of the sample: 3 with the cut stream, 9 with the resume. Each packet has `bytes`.
    fn sized(analysis: &Analysis, plan: &Plan, packets: u32, bytes: u64) -> Sizes {
        let mut sizes = Sizes::new(plan, analysis);
        for stream in [3, 9] {
            let connection = sizes.connection(InputId(0), stream).unwrap();
            for frame in 1..=packets {
                connection.take(frame, bytes);
            }
        }
        assert!(sizes.connection(InputId(0), 4).is_none());
        sizes
    }

    #[test]
    fn what_fits_is_taken_whole() {
        let analysis = sample::fork();
        let plan = Plan::of(&analysis, &Limits::default());
        let sizes = sized(&analysis, &plan, 2_000, 100);
        let choice = plan.choose(&plan.wanted[0], &analysis, &sizes, 4 << 20);
        assert_eq!(
            choice.connections().collect::<Vec<_>>(),
            [(InputId(0), 3), (InputId(0), 9)]
        );
        assert!(
            choice.has(InputId(0), 3, (0, 100)) && choice.has(InputId(0), 9, (199_900, 200_000))
        );
        assert_eq!(choice.left_out, []);
    }

    #[test]
    fn of_what_does_not_fit_the_beginning_and_what_decides_is_taken() {
        let analysis = sample::fork();
        let plan = Plan::of(&analysis, &Limits::default());
        let sizes = sized(&analysis, &plan, 400_000, 1_000);
        let budget = 4 << 20;
        let choice = plan.choose(&plan.wanted[0], &analysis, &sizes, budget);
        // The handshake of both, the cursor's frame 22 and the end of the first, the resume.
        for (stream, frame) in [(3, 1), (9, 1), (3, 22), (3, 900), (9, 1_180)] {
            let packet = ((frame - 1) * 1_000, frame * 1_000);
            assert!(choice.has(InputId(0), stream, packet), "{stream} {frame}");
        }
        assert!(!choice.has(InputId(0), 3, (200_000_000, 200_001_000)));
        let taken: u64 = choice
            .connections
            .values()
            .map(|spans| 400_000_000 - spans.lacks(0, 400_000_000))
            .sum();
        assert!(taken <= budget && taken > 100_000, "{taken}");
        let left: u64 = choice.left_out.iter().map(|left| left.bytes).sum();
        assert_eq!(left, 800_000_000 - taken);
        assert!(choice.left_out.iter().all(|left| !left.wholly));
    }

    #[test]
    fn a_packet_larger_than_the_file_is_not_in_it() {
        let analysis = sample::fork();
        let plan = Plan::of(&analysis, &Limits::default());
        let sizes = sized(&analysis, &plan, 2_000, 1 << 20);
        let choice = plan.choose(&plan.wanted[0], &analysis, &sizes, 1 << 10);
        assert!(!choice.has(InputId(0), 3, (0, 1 << 20)));
        assert_eq!(choice.left_out.len(), 2);
    }
}
