//! How long an answer may be waited for, and whether it may yet come.

use crate::model::{
    exchange::{Exchange, Part, Window},
    session::{Session, Stream},
    time::{Span, Timestamp},
};

/// What the capture lacks of a session: inside it nothing is called missing.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    /// A hole lies in one of its exchanges.
    pub holes: bool,
    /// When responses came on its client's connections whose request is not in the capture, and so
    /// may be the session's; in order.
    pub headless: Vec<Timestamp>,
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
        self.headless.iter().any(|&time| from <= time && time <= to)
    }
}

/// How long a client must wait on a stream before silence counts: 10 s, or twice its `retry`.
#[must_use]
pub(super) fn patience(retry: Option<u32>) -> Span {
    let doubled = Span::from_millis(i64::from(retry.unwrap_or(0))).doubled();
    PATIENCE.max(doubled)
}

/// The `retry` in force on a stream at a time: the last one it carried.
#[must_use]
pub(super) fn retry_before(
    session: &Session,
    exchanges: &[Exchange],
    stream: Option<u32>,
    time: Timestamp,
) -> Option<u32> {
    let stream = session.streams.get(stream? as usize)?;
    stream.segments.iter().rev().find_map(|&segment| {
        let exchange = session.exchange(segment, exchanges)?;
        exchange
            .events
            .iter()
            .rev()
            .filter(|event| event.time < time)
            .find_map(|event| event.retry)
    })
}

/// Since when an open segment of a stream has been silent: a later resume of the stream took its
/// place, and it brought nothing any more. `None` while it may still bring something.
#[must_use]
pub(super) fn silent_since(
    session: &Session,
    exchanges: &[Exchange],
    stream: &Stream,
    segment: &Exchange,
) -> Option<Timestamp> {
    let last = segment.events.last().map(|event| event.time);
    let superseded = resumes_of(session, exchanges, stream)
        .map(Exchange::time)
        .any(|at| at > segment.time() && last.is_none_or(|last| last <= at));
    (segment.is_open() && superseded).then(|| {
        segment
            .end
            .last_acknowledged
            .or(last)
            .unwrap_or(segment.time())
    })
}

/// The resumes that go on from a stream.
fn resumes_of<'a>(
    session: &'a Session,
    exchanges: &'a [Exchange],
    stream: &'a Stream,
) -> impl Iterator<Item = &'a Exchange> {
    session
        .resumes
        .iter()
        .filter(|resume| {
            resume.stream.is_some_and(|index| {
                session
                    .streams
                    .get(index as usize)
                    .is_some_and(|other| std::ptr::eq(other, stream))
            })
        })
        .filter_map(|resume| exchanges.get(resume.exchange as usize))
}

/// Whether the response that a stream owes may yet come: a segment of it is open, the last was seen
/// less than the patience before the evidence ends, or a hole covers one, or an answer whose request
/// is lost may be one.
#[must_use]
pub(super) fn stream_pending(
    session: &Session,
    exchanges: &[Exchange],
    stream: &Stream,
    window: Window,
    gaps: &Gaps,
) -> bool {
    let segments = || {
        stream
            .segments
            .iter()
            .filter_map(|&segment| session.exchange(segment, exchanges))
    };
    let answers = || resumes_of(session, exchanges, stream);
    let silent = |exchange: &Exchange| silent_since(session, exchanges, stream, exchange);
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
            .last()
            .zip(segments().next())
            .is_some_and(|(&headless, first)| headless >= first.time())
}

/// How long a client must wait before "nothing came" means something.
const PATIENCE: Span = Span::from_secs(10);
