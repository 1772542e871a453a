//! When a run's inputs were captured: what is not seen after an input's end did not fail to happen.
//!
//! Inputs that have nothing to do with each other (the captures of several tests, of several days) say
//! nothing of each other's sessions. One goes on where another ended, as the files of a ring buffer do,
//! when a connection or a session is in both of them, when their names are those that dumpcap and tcpdump
//! give the files of one run, or when it lies wholly between two that a connection joins and shows their
//! servers.

use super::{
    exchange::{Exchange, Source, Window},
    flow::Endpoint,
    id::SessionId,
    place::InputId,
    time::{Span, Timestamp},
};
use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

/// The times that each input covers, and which input goes on with which.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    spans: BTreeMap<InputId, (Timestamp, Timestamp)>,
    /// Of each input those that go on with it, in order.
    next: BTreeMap<InputId, BTreeSet<InputId>>,
}

/// What exchanges tell of the inputs that they were seen in. Of several parts of a run, all together
/// ([`Shown::merge`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Times of the entries of each HAR, with their ends.
    pub hars: BTreeMap<InputId, (Timestamp, Timestamp)>,
    /// Inputs that one connection is in.
    pub connections: BTreeSet<Vec<InputId>>,
    /// Inputs that one session is in.
    pub sessions: BTreeSet<Vec<InputId>>,
    /// The servers that packets of each show.
    pub servers: BTreeMap<InputId, BTreeSet<Endpoint>>,
}

impl Shown {
    /// What exchanges show that are all there are.
    #[must_use]
    pub fn by_all(exchanges: &[Exchange]) -> Self {
        let mut inputs = exchanges.iter().flat_map(inputs_of);
        let first = inputs.next();
        // One input goes on with no other, whatever is in it.
        if inputs.all(|input| Some(input) == first) {
            let mut shown = Self::default();
            shown.include_hars(exchanges);
            return shown;
        }
        Self::by_some(exchanges)
    }

    /// What exchanges show beside which there are others of other sessions.
    #[must_use]
    pub fn by_some(exchanges: &[Exchange]) -> Self {
        let mut shown = Self::default();
        shown.include_hars(exchanges);
        let mut sessions: BTreeMap<&SessionId, BTreeSet<InputId>> = BTreeMap::new();
        for exchange in exchanges {
            let inputs: BTreeSet<InputId> = inputs_of(exchange).collect();
            for id in [exchange.asked_session(), exchange.given_session()]
                .into_iter()
                .flatten()
            {
                sessions.entry(id).or_default().extend(&inputs);
            }
            if let (Some(server), Source::Packets) = (&exchange.server, exchange.source) {
                for &input in &inputs {
                    let servers = shown.servers.entry(input).or_default();
                    if !servers.contains(server) {
                        servers.insert(server.clone());
                    }
                }
            }
            if inputs.len() > 1 {
                shown.connections.insert(inputs.into_iter().collect());
            }
        }
        let several = sessions.into_values().filter(|inputs| inputs.len() > 1);
        shown.sessions = several.map(|inputs| inputs.into_iter().collect()).collect();
        shown
    }

    fn include_hars(&mut self, exchanges: &[Exchange]) {
        for exchange in exchanges {
            if matches!(exchange.source, Source::Har { .. }) {
                for time in [exchange.time(), exchange.end.time] {
                    include(&mut self.hars, exchange.place.input, time);
                }
            }
        }
    }

    /// Adds what exchanges of other sessions show.
    pub fn merge(&mut self, other: Self) {
        for (input, (first, last)) in other.hars {
            include(&mut self.hars, input, first);
            include(&mut self.hars, input, last);
        }
        self.connections.extend(other.connections);
        self.sessions.extend(other.sessions);
        for (input, servers) in other.servers {
            self.servers.entry(input).or_default().extend(servers);
        }
    }
}

fn include(spans: &mut BTreeMap<InputId, (Timestamp, Timestamp)>, input: InputId, time: Timestamp) {
    let (first, last) = spans.entry(input).or_insert((time, time));
    *first = time.min(*first);
    *last = time.max(*last);
}

/// What is covered of a conversation.
#[derive(Clone, Debug, Default)]
pub struct Covered {
    /// From its first instant to its last.
    pub window: Window,
    /// What lies between and is in no input, in order of time.
    pub lacks: Vec<(Timestamp, Timestamp)>,
}

impl Coverage {
    /// The coverage of inputs from the times of their first and last records and what their names tell. The
    /// entries of a HAR tell of more: of their ends.
    #[must_use]
    pub fn of<'n>(
        inputs: impl Iterator<Item = (InputId, Option<RingFile<'n>>, Timestamp, Timestamp)>,
        shown: &Shown,
    ) -> Self {
        let mut coverage = Self::default();
        let mut files: BTreeMap<RingFile<'_>, Option<InputId>> = BTreeMap::new();
        for (input, file, first, last) in inputs {
            include(&mut coverage.spans, input, first);
            include(&mut coverage.spans, input, last);
            if let Some(file) = file {
                // Two files of one number are of two captures, and then names do not tell which.
                let known = files.entry(file);
                known.and_modify(|of| *of = None).or_insert(Some(input));
            }
        }
        for (&input, &(first, last)) in &shown.hars {
            include(&mut coverage.spans, input, first);
            include(&mut coverage.spans, input, last);
        }
        if coverage.spans.len() > 1 {
            coverage.join(shown);
            let files: BTreeMap<RingFile<'_>, InputId> = files
                .into_iter()
                .filter_map(|(file, input)| Some((file, input?)))
                .collect();
            coverage.go_round(&files);
            for (&RingFile { stem, number }, &one) in &files {
                let next = number
                    .checked_add(1)
                    .and_then(|next| files.get(&RingFile { stem, number: next }));
                // A number that comes later in the ring and earlier in time is of another round.
                if let Some(&two) = next
                    && coverage.spans.get(&one) <= coverage.spans.get(&two)
                {
                    coverage.follow_on(&mut vec![one, two], stem.within());
                }
            }
            coverage.take_in(&shown.servers);
        }
        coverage
    }

    /// A ring of `tcpdump -C -W` begins again at its first file when its last is full: that is then later
    /// than the last one, and goes on with it. How many files the ring has is not known, so no more than
    /// a moment may lie between.
    fn go_round(&mut self, files: &BTreeMap<RingFile<'_>, InputId>) {
        let mut rings: BTreeMap<&str, [InputId; 2]> = BTreeMap::new();
        for (&RingFile { stem, number }, &input) in files {
            if let Stem::Ring(name) = stem {
                // In order of number: the first stays, the last is replaced.
                match rings.entry(name) {
                    Entry::Vacant(new) if number <= 1 => {
                        new.insert([input, input]);
                    }
                    Entry::Vacant(_) => {}
                    Entry::Occupied(mut ring) => ring.get_mut()[1] = input,
                }
            }
        }
        for [first, last] in rings.into_values() {
            if first != last
                && self.spans.get(&last).map(|span| span.0)
                    < self.spans.get(&first).map(|span| span.0)
            {
                self.follow_on(&mut vec![last, first], AT_ONCE);
            }
        }
    }

    fn join(&mut self, shown: &Shown) {
        // A connection tells at whatever distance that it is the same capture.
        for inputs in &shown.connections {
            self.follow_on(&mut inputs.clone(), ANY);
        }
        for inputs in &shown.sessions {
            self.follow_on(&mut inputs.clone(), AT_ONCE);
        }
    }

    /// Notes which of these inputs go on with the one before them.
    fn follow_on(&mut self, inputs: &mut Vec<InputId>, within: Span) {
        let first = |input: &InputId| self.spans.get(input).map(|span| (span.0, *input));
        inputs.sort_by_key(first);
        inputs.dedup();
        let pairs: Vec<(InputId, InputId)> = inputs
            .windows(2)
            .filter_map(|pair| {
                let &[one, two] = pair else { return None };
                let gap = self.spans.get(&two)?.0.since(self.spans.get(&one)?.1);
                (gap.nanos() >= -OVERLAP.nanos() && gap <= within).then_some((one, two))
            })
            .collect();
        for (one, two) in pairs {
            self.next.entry(one).or_default().insert(two);
        }
    }

    /// An input that lies wholly between two that go on with each other was made by the same capture, when it
    /// shows a server that they show: its files were changed while some connection said nothing.
    fn take_in(&mut self, servers: &BTreeMap<InputId, BTreeSet<Endpoint>>) {
        let meet = |one: InputId, two: InputId| match (servers.get(&one), servers.get(&two)) {
            (Some(one), Some(two)) => one.iter().any(|server| two.contains(server)),
            _ => false,
        };
        // By when the one ended: until when the capture is known to have gone on.
        let mut links: Vec<(Timestamp, Timestamp, InputId, InputId)> = Vec::new();
        for (&one, next) in &self.next {
            for &two in next {
                if let (Some(before), Some(after)) = (self.spans.get(&one), self.spans.get(&two)) {
                    links.push((before.1, after.0, one, two));
                }
            }
        }
        links.sort_unstable();
        let mut inputs: Vec<(Timestamp, Timestamp, InputId)> = self
            .spans
            .iter()
            .map(|(&input, &(first, last))| (first, last, input))
            .collect();
        inputs.sort_unstable();
        let mut links = links.into_iter().peekable();
        let mut widest: Option<(Timestamp, InputId, InputId)> = None;
        for (first, last, input) in inputs {
            while let Some((_, until, one, two)) = links.next_if(|link| link.0 <= first) {
                if widest.is_none_or(|(known, ..)| until > known) {
                    widest = Some((until, one, two));
                }
            }
            if let Some((until, one, two)) = widest
                && last <= until
                && input != one
                && input != two
                && (meet(input, one) || meet(input, two))
            {
                self.next.entry(one).or_default().insert(input);
                self.next.entry(input).or_default().insert(two);
            }
        }
    }

    /// What is covered of a conversation that was seen in these inputs.
    #[must_use]
    pub fn covered(&self, inputs: &BTreeSet<InputId>) -> Covered {
        let mut all = inputs.clone();
        let mut open: Vec<InputId> = inputs.iter().copied().collect();
        while let Some(input) = open.pop() {
            for &next in self.next.get(&input).into_iter().flatten() {
                if all.insert(next) {
                    open.push(next);
                }
            }
        }
        let mut spans: Vec<(Timestamp, Timestamp, InputId)> = all
            .into_iter()
            .filter_map(|input| {
                let &(first, last) = self.spans.get(&input)?;
                Some((first, last, input))
            })
            .collect();
        spans.sort_unstable();
        let mut covered = Covered::default();
        // Until when the capture is known to have gone on.
        let mut reach: Option<Timestamp> = None;
        for (from, to, input) in spans {
            if let Some(end) = reach.filter(|&end| from > end) {
                covered.lacks.push((end, from));
            }
            covered.window.include(from);
            covered.window.include(to);
            let next = self.next.get(&input).into_iter().flatten();
            let goes_on = next.filter_map(|next| Some(self.spans.get(next)?.0));
            reach = goes_on.chain([to]).chain(reach).max();
        }
        covered
    }
}

/// A file of several that one capture wrote, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RingFile<'n> {
    /// The rest of the name: of the files of one capture the same.
    pub stem: Stem<'n>,
    /// Its number.
    pub number: u64,
}

/// The rest of the name of a numbered file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stem<'n> {
    /// Of a capture that changes files: dumpcap, editcap, tcpdump.
    Ring(&'n str),
    /// Before and after the number: somebody cut a capture, or numbered several.
    Numbered(&'n str, &'n str),
}

impl Stem<'_> {
    /// How far apart two files of neighbouring numbers may be and be of one capture.
    const fn within(self) -> Span {
        match self {
            Self::Ring(_) => ANY,
            Self::Numbered(..) => AT_ONCE,
        }
    }
}

/// The inputs that an exchange was seen in.
pub fn inputs_of(exchange: &Exchange) -> impl Iterator<Item = InputId> + '_ {
    let more = exchange.more_places.iter().map(|place| place.input);
    std::iter::once(exchange.place.input).chain(more)
}

/// A session in two inputs, of which one begins so soon after the other's end, was captured all the
/// while: files are changed without a loss, and less silence than this proves nothing anyway.
const AT_ONCE: Span = Span::from_secs(10);

/// At whatever distance.
const ANY: Span = Span::from_nanos(i64::MAX);

/// Packets on both sides of a change of files may be out of order by this much.
const OVERLAP: Span = Span::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        exchange::{End, Request},
        place::Place,
    };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::default().plus(Span::from_secs(seconds))
    }

    /// An exchange of session `id` that was seen in these inputs.
    fn seen(id: &str, inputs: &[u32], time: i64) -> Exchange {
        let place = |input: u32| Place {
            input: InputId(input),
            ..Place::default()
        };
        Exchange {
            place: place(inputs[0]),
            more_places: inputs[1..].iter().map(|&input| place(input)).collect(),
            request: Some(Request {
                time: at(time),
                session_id: Some(SessionId::from(id)),
                ..Request::default()
            }),
            end: End {
                time: at(time),
                ..End::default()
            },
            ..Exchange::default()
        }
    }

    fn covered(spans: &[(i64, i64)], exchanges: &[Exchange], of: &[u32]) -> (i64, i64, usize) {
        let inputs = (0..)
            .zip(spans)
            .map(|(number, &(first, last))| (InputId(number), None, at(first), at(last)));
        let coverage = Coverage::of(inputs, &Shown::by_all(exchanges));
        let covered = coverage.covered(&of.iter().map(|&input| InputId(input)).collect());
        let seconds = |time: Option<Timestamp>| time.unwrap().nanos() / 1_000_000_000;
        let window = covered.window;
        (
            seconds(window.first),
            seconds(window.last),
            covered.lacks.len(),
        )
    }

    #[test]
    fn what_has_nothing_to_do_with_a_session_says_nothing_of_it() {
        let spans = [(0, 20), (25, 900), (10, 500)];
        let apart = [seen("a", &[0], 5), seen("b", &[1], 30), seen("c", &[2], 30)];
        assert_eq!(covered(&spans, &apart, &[0]), (0, 20, 0));
    }

    #[test]
    fn files_of_one_capture_go_on_with_each_other() {
        // A connection is in both, be they far apart; a session is in both, and they are not.
        let by_connection = [seen("a", &[0, 1], 5)];
        assert_eq!(
            covered(&[(0, 20), (90, 95)], &by_connection, &[0]),
            (0, 95, 0)
        );
        let by_session = [seen("a", &[0], 5), seen("a", &[1], 26), seen("b", &[0], 6)];
        assert_eq!(covered(&[(0, 20), (25, 40)], &by_session, &[0]), (0, 40, 0));
        // And so do those that go on with these.
        let all = [seen("a", &[0, 1], 5), seen("b", &[1, 2], 30)];
        assert_eq!(
            covered(&[(0, 20), (20, 40), (40, 60)], &all, &[0]),
            (0, 60, 0)
        );
    }

    #[test]
    fn what_ends_in_the_next_file_makes_none_longer() {
        let mut long = seen("a", &[0, 1], 5);
        long.end.time = at(80);
        // Another session of the first file is covered by the second, which goes on with it.
        let exchanges = [long, seen("b", &[0], 6)];
        let spans = [(0, 20), (20, 90)];
        assert_eq!(covered(&spans, &exchanges, &[0]), (0, 90, 0));
        // A tap beside it that ends early says nothing of the rest.
        let spans = [(0, 20), (10, 90)];
        assert_eq!(covered(&spans, &exchanges, &[0]), (0, 20, 0));
    }

    #[test]
    fn a_session_in_captures_far_apart_was_not_seen_in_between() {
        let both = [seen("a", &[0], 5), seen("a", &[1], 70)];
        assert_eq!(covered(&[(0, 20), (60, 90)], &both, &[0, 1]), (0, 90, 1));
        assert_eq!(covered(&[(0, 20), (60, 90)], &both, &[0]), (0, 20, 0));
    }

    #[test]
    fn a_file_between_two_of_one_capture_is_of_that_capture() {
        let server = |mut exchange: Exchange, name: &str| {
            exchange.server = Some(Endpoint::Name(name.into(), 80));
            exchange
        };
        // A connection is in the first file and the last; a session only in the second.
        let spans = [(0, 10), (30, 40), (70, 80)];
        for (name, want) in [("s", (0, 80, 0)), ("t", (0, 80, 0))] {
            let exchanges = [
                server(seen("a", &[0, 2], 5), "s"),
                server(seen("b", &[1], 31), name),
            ];
            assert_eq!(covered(&spans, &exchanges, &[0]), want);
            let alone = covered(&spans, &exchanges, &[1]);
            assert_eq!(
                alone,
                if name == "s" {
                    (30, 80, 0)
                } else {
                    (30, 40, 0)
                }
            );
        }
        let both = [
            server(seen("a", &[0, 2], 5), "s"),
            server(seen("b", &[0, 1], 8), "s"),
        ];
        assert_eq!(covered(&spans, &both, &[0, 1, 2]), (0, 80, 0));
    }

    #[test]
    fn files_of_a_ring_go_on_with_each_other() {
        let ring = |stem, number| {
            Some(RingFile {
                stem: Stem::Ring(stem),
                number,
            })
        };
        let covered = |files: &[(Option<RingFile<'static>>, i64, i64)], input| {
            let inputs = (0..).zip(files);
            let inputs = inputs.map(|(n, &(file, from, to))| (InputId(n), file, at(from), at(to)));
            let covered = Coverage::of(inputs, &Shown::default()).covered(&[InputId(input)].into());
            (covered.window.last, covered.lacks.len())
        };
        let files = [
            (ring("x", 0), 0, 10),
            (ring("x", 1), 70, 80),
            (ring("x", 3), 90, 95),
        ];
        for input in [0, 1] {
            assert_eq!(covered(&files, input), (Some(at(80)), 0), "{input}");
        }
        // Two captures under one name: nothing joins their days.
        let day = 86_400;
        let again = [
            (ring("r", 1), 0, 60),
            (ring("r", 2), 60, 120),
            (ring("r", 1), day, day + 60),
        ];
        assert_eq!(covered(&again, 1), (Some(at(120)), 0));
        assert_eq!(covered(&again, 2), (Some(at(day + 60)), 0));
        let across = [(ring("r", 3), 0, 60), (ring("r", 2), day, day + 60)];
        assert_eq!(covered(&across, 0), (Some(at(60)), 0));
        // The ring has begun again: its first two files are the newest.
        let round = |first: i64| {
            [
                (ring("x", 0), first, first + 20),
                (ring("x", 1), first + 20, first + 30),
                (ring("x", 2), 20, 40),
                (ring("x", 3), 40, 59),
            ]
        };
        for input in [2, 3, 0] {
            assert_eq!(covered(&round(60), input), (Some(at(90)), 0), "{input}");
        }
        let late = covered(&round(160), 3);
        assert_eq!(late, (Some(at(59)), 0), "there may be more files");
    }
}
