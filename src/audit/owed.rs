//! How long an answer may be waited for, and whether it may yet come.

use crate::model::{
    exchange::{Exchange, Part, Window},
    session::{Session, Stream},
    time::{Span, Timestamp},
};
use std::sync::Arc;

/// What the capture lacks of a session: inside it nothing is called missing.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    /// Where bytes of its exchanges are missing. Without its head all of a response is.
    own: Spans,
    /// Requests whose response's head is missing.
    unanswered: Spans,
    /// Holes that lie in GETs, where any message of the session may come.
    gets: Spans,
    /// GETs whose response's head is missing: they may have opened a stream.
    hidden: Spans,
    /// While responses came on its clients' connections whose request is not in the capture, and so
    /// may be the session's. None of the lists is empty; sessions share them.
    headless: Vec<Spans>,
    /// While connections of its clients were torn: whole exchanges may be among what is missing.
    torn: Vec<Spans>,
}

impl Gaps {
    /// What a session lacks, by its exchanges, by the responses without request that may be its, and by
    /// the torn connections of its clients.
    #[must_use]
    pub fn of<'a>(
        exchanges: impl Iterator<Item = &'a Exchange>,
        headless: Vec<Spans>,
        torn: Vec<Spans>,
    ) -> Self {
        let (mut own, mut gets) = (Vec::new(), Vec::new());
        let (mut unanswered, mut hidden) = (Vec::new(), Vec::new());
        for exchange in exchanges {
            let spans = own.len();
            own.extend(missing_in(exchange));
            let get = exchange.method() == "GET";
            if get {
                gets.extend(own.iter().skip(spans));
            }
            if exchange.has_hole(Part::ResponseHead) {
                let span = (exchange.time(), exchange.end.time);
                unanswered.push(span);
                hidden.extend(Some(span).filter(|_| get));
            }
        }
        Self {
            own: Spans::of(own),
            unanswered: Spans::of(unanswered),
            gets: Spans::of(gets),
            hidden: Spans::of(hidden),
            headless,
            torn,
        }
    }

    /// Whether anything is missing.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.own.is_empty() || !self.headless.is_empty()
    }

    /// The end of the last response whose request is not in the capture.
    #[must_use]
    pub fn headless_until(&self) -> Option<Timestamp> {
        self.headless.iter().filter_map(Spans::end).max()
    }

    /// Whether anything is missing between two times.
    #[must_use]
    pub fn between(&self, from: Timestamp, to: Timestamp) -> bool {
        self.own.meet(from, to) || self.headless_between(from, to)
    }

    /// Whether a GET may have brought, between two times, what is not seen.
    #[must_use]
    pub fn message_between(&self, from: Timestamp, to: Timestamp) -> bool {
        self.gets.meet(from, to) || self.headless_between(from, to)
    }

    /// Whether an answer that is not seen may have come between two times.
    #[must_use]
    pub fn answer_between(&self, from: Timestamp, to: Timestamp) -> bool {
        self.unanswered.meet(from, to) || self.headless_between(from, to)
    }

    /// Whether a stream that is not seen at all may have been open between two times.
    #[must_use]
    pub fn stream_between(&self, from: Timestamp, to: Timestamp) -> bool {
        self.hidden.meet(from, to) || self.headless_between(from, to)
    }

    /// Whether a response without request came between two times.
    #[must_use]
    pub fn headless_between(&self, from: Timestamp, to: Timestamp) -> bool {
        self.headless.iter().any(|spans| spans.meet(from, to))
    }
}

/// While what is missing of an exchange may have come.
fn missing_in(exchange: &Exchange) -> impl Iterator<Item = (Timestamp, Timestamp)> {
    let whole = (exchange.time(), exchange.end.time);
    let undecodable = exchange.response.as_ref().is_some_and(|r| r.undecodable);
    let holes = exchange.holes.iter().map(move |hole| match hole.part {
        Part::Request => (whole.0, hole.time),
        Part::ResponseHead => whole,
        Part::ResponseBody => {
            let before = (hole.after_events as usize)
                .checked_sub(1)
                .and_then(|last| exchange.events.get(last));
            (before.map_or(whole.0, |event| event.time), hole.time)
        }
    });
    holes.chain(undecodable.then_some(whole))
}

/// Spans of time, each from its first to its last instant. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct Spans(Arc<[Covered]>);

/// A span, in order of its beginning.
#[derive(Clone, Copy, Debug)]
struct Covered {
    from: Timestamp,
    /// The latest end of this span and of those before it.
    latest: Timestamp,
}

impl Spans {
    /// Puts spans in order.
    #[must_use]
    pub fn of(mut spans: Vec<(Timestamp, Timestamp)>) -> Self {
        spans.sort_unstable();
        let mut latest = None;
        let covered = spans
            .into_iter()
            .map(|(from, to)| {
                let latest = *latest.insert(latest.map_or(to, |latest: Timestamp| latest.max(to)));
                Covered { from, latest }
            })
            .collect();
        Self(covered)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The end of the last to end.
    fn end(&self) -> Option<Timestamp> {
        self.0.last().map(|span| span.latest)
    }

    /// Whether one of them shares an instant with the span from `from` to `to`, its ends included.
    fn touch(&self, from: Timestamp, to: Timestamp) -> bool {
        let begun = self.0.partition_point(|span| span.from <= to);
        begun
            .checked_sub(1)
            .and_then(|last| self.0.get(last))
            .is_some_and(|span| span.latest >= from)
    }

    /// Whether one of them shares an instant with the span from `from` to `to`, which that last instant
    /// is not part of unless it is the only one.
    pub(super) fn meet(&self, from: Timestamp, to: Timestamp) -> bool {
        let begun = self
            .0
            .partition_point(|span| span.from < to || span.from == from);
        begun
            .checked_sub(1)
            .and_then(|last| self.0.get(last))
            .is_some_and(|span| span.latest >= from)
    }
}

impl Gaps {
    /// Whether a connection of a client was torn between two times.
    #[must_use]
    pub fn torn_between(&self, from: Timestamp, to: Timestamp) -> bool {
        self.torn.iter().any(|spans| spans.touch(from, to))
    }

    /// The last hole in a connection of a client.
    #[must_use]
    pub fn torn_until(&self) -> Option<Timestamp> {
        self.torn.iter().filter_map(Spans::end).max()
    }
}

/// How long a client must wait on a stream before silence counts: 10 s, or twice its `retry`.
#[must_use]
pub(super) fn patience(retry: Option<u32>) -> Span {
    let doubled = Span::from_millis(i64::from(retry.unwrap_or(0))).doubled();
    PATIENCE.max(doubled)
}

/// Since when an open segment of a stream has been silent: a later resume of the stream took its
/// place, and it brought nothing any more. `None` while it may still bring something.
/// `last_resume` is the time of the stream's last.
#[must_use]
pub(super) fn silent_since(
    segment: &Exchange,
    last_resume: Option<Timestamp>,
) -> Option<Timestamp> {
    let last = segment.events.last().map(|event| event.time);
    let superseded =
        last_resume.is_some_and(|at| at > segment.time() && last.is_none_or(|last| last <= at));
    (segment.is_open() && superseded).then(|| {
        segment
            .end
            .last_acknowledged
            .or(last)
            .unwrap_or(segment.time())
    })
}

/// Whether the response that a stream owes may yet come, or came where the capture does not show it: a
/// segment of it is open, the last was seen less than the patience before the evidence ends, or a hole
/// covers one, or another stream of the session, where servers put responses too, or an answer whose
/// request is lost may be one. `resumes` are the stream's, indices into the session's.
#[must_use]
pub(super) fn stream_pending(
    session: &Session,
    exchanges: &[Exchange],
    stream: &Stream,
    resumes: &[u32],
    window: Window,
    gaps: &Gaps,
) -> bool {
    let segments = || {
        stream
            .segments
            .iter()
            .filter_map(|&segment| session.exchange(segment, exchanges))
    };
    let answers = || {
        resumes
            .iter()
            .filter_map(|&index| session.resumes.get(index as usize))
            .filter_map(|resume| exchanges.get(resume.exchange as usize))
    };
    let last_resume = answers().map(Exchange::time).max();
    let silent = |exchange: &Exchange| silent_since(exchange, last_resume);
    let retry = segments()
        .flat_map(|exchange| &exchange.events)
        .filter_map(|event| event.retry)
        .next_back();
    let last = segments()
        .chain(answers())
        .map(|exchange| silent(exchange).unwrap_or(exchange.end.time))
        .max();
    let open = |exchange: &Exchange| exchange.is_open() && silent(exchange).is_none();
    segments().any(|exchange| open(exchange) || exchange.body_has_hole())
        || answers().any(|exchange| exchange.has_hole(Part::ResponseHead) || open(exchange))
        || last.is_some_and(|last| window.left_after(last) < patience(retry))
        || segments().next().is_some_and(|first| {
            let to = window.last.unwrap_or(first.end.time);
            gaps.message_between(first.time(), to)
        })
}

/// Whether a client that came back after `gap` waited as `retry`, in milliseconds, asked it to.
#[must_use]
pub(super) fn retry_kept(gap: Span, retry: u32) -> bool {
    let asked = Span::from_millis(i64::from(retry));
    gap.nanos() >= asked.nanos() - RETRY_TOLERANCE.nanos()
}

/// A client may come back this much before `retry` asked it to (the conformance suite's tolerance).
const RETRY_TOLERANCE: Span = Span::from_millis(50);

/// How long a client must wait before "nothing came" means something.
const PATIENCE: Span = Span::from_secs(10);
