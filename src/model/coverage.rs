//! When a run's inputs were captured: what is not seen after an input's end did not fail to happen.
//!
//! Inputs that have nothing to do with each other (the captures of several tests, of several days) say
//! nothing of each other's sessions. One goes on where another ended, as the files of a ring buffer do,
//! when a connection or a session is in both of them.

use super::{
    exchange::{Exchange, Source, Window},
    id::SessionId,
    place::InputId,
    time::{Span, Timestamp},
};
use std::collections::{BTreeMap, BTreeSet};

/// The times that each input covers, and which input goes on with which.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    spans: BTreeMap<InputId, (Timestamp, Timestamp)>,
    /// Of each input those that go on with it, in order.
    next: BTreeMap<InputId, BTreeSet<InputId>>,
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
    /// The coverage of inputs from the times of their first and last records. The entries of a HAR tell of
    /// more: of their ends.
    #[must_use]
    pub fn of(
        inputs: impl Iterator<Item = (InputId, Timestamp, Timestamp)>,
        exchanges: &[Exchange],
    ) -> Self {
        let mut coverage = Self::default();
        for (input, first, last) in inputs {
            coverage.include(input, first);
            coverage.include(input, last);
        }
        for exchange in exchanges {
            if matches!(exchange.source, Source::Har { .. }) {
                coverage.include(exchange.place.input, exchange.time());
                coverage.include(exchange.place.input, exchange.end.time);
            }
        }
        if coverage.spans.len() > 1 {
            coverage.join(exchanges);
        }
        coverage
    }

    fn include(&mut self, input: InputId, time: Timestamp) {
        let (first, last) = self.spans.entry(input).or_insert((time, time));
        *first = time.min(*first);
        *last = time.max(*last);
    }

    fn join(&mut self, exchanges: &[Exchange]) {
        let mut sessions: BTreeMap<&SessionId, BTreeSet<InputId>> = BTreeMap::new();
        for exchange in exchanges {
            let mut inputs: Vec<InputId> = inputs_of(exchange).collect();
            let request = exchange
                .request
                .as_ref()
                .and_then(|r| r.session_id.as_ref());
            let response = exchange
                .response
                .as_ref()
                .and_then(|r| r.session_id.as_ref());
            for id in [request, response].into_iter().flatten() {
                sessions.entry(id).or_default().extend(&inputs);
            }
            // A connection tells at whatever distance that it is the same capture.
            self.follow_on(&mut inputs, Span::from_nanos(i64::MAX));
        }
        for inputs in sessions.into_values().filter(|inputs| inputs.len() > 1) {
            self.follow_on(&mut inputs.into_iter().collect(), AT_ONCE);
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
        let mut last: Option<(Timestamp, InputId)> = None;
        for (from, to, input) in spans {
            if let Some((end, before)) = last {
                let goes_on = self
                    .next
                    .get(&before)
                    .is_some_and(|next| next.contains(&input));
                if from > end && !goes_on {
                    covered.lacks.push((end, from));
                }
            }
            covered.window.include(from);
            covered.window.include(to);
            if last.is_none_or(|(end, _)| to >= end) {
                last = Some((to, input));
            }
        }
        covered
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
            .map(|(number, &(first, last))| (InputId(number), at(first), at(last)));
        let coverage = Coverage::of(inputs, exchanges);
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
}
