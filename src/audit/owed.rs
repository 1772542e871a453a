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
    /// A hole lies in one of its exchanges.
    pub holes: bool,
    /// When responses came on its clients' connections whose request is not in the capture, and so
    /// may be the session's. None of the lists is empty, each is in order; sessions share them.
    pub headless: Vec<Arc<[Timestamp]>>,
    /// When connections of its clients were torn, whole exchanges perhaps among what is missing: in order
    /// of their beginning, each with the last hole of those that had begun by then.
    pub torn: Vec<Arc<[(Timestamp, Timestamp)]>>,
}

impl Gaps {
    /// Whether anything is missing.
    #[must_use]
    pub fn any(&self) -> bool {
        self.holes || !self.headless.is_empty()
    }

    /// Whether such a response came between two times.
    #[must_use]
    pub fn headless_between(&self, from: Timestamp, to: Timestamp) -> bool {
        self.headless.iter().any(|times| {
            let place = times.partition_point(|&time| time < from);
            times.get(place).is_some_and(|&time| time <= to)
        })
    }
}

impl Gaps {
    /// Whether a connection of a client was torn between two times.
    #[must_use]
    pub fn torn_between(&self, from: Timestamp, to: Timestamp) -> bool {
        self.torn.iter().any(|spans| {
            let begun = spans.partition_point(|(begin, _)| *begin <= to);
            let last = begun.checked_sub(1).and_then(|last| spans.get(last));
            last.is_some_and(|(_, until)| *until >= from)
        })
    }

    /// The last hole in a connection of a client.
    #[must_use]
    pub fn torn_until(&self) -> Option<Timestamp> {
        let lasts = self.torn.iter().filter_map(|spans| spans.last());
        lasts.map(|(_, until)| *until).max()
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

/// Whether the response that a stream owes may yet come: a segment of it is open, the last was seen
/// less than the patience before the evidence ends, or a hole covers one, or an answer whose request
/// is lost may be one. `resumes` are the stream's, indices into the session's.
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
        || gaps
            .headless
            .iter()
            .filter_map(|times| times.last())
            .max()
            .zip(segments().next())
            .is_some_and(|(&headless, first)| headless >= first.time())
}

/// How long a client must wait before "nothing came" means something.
const PATIENCE: Span = Span::from_secs(10);
