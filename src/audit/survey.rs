//! A session looked over once: what would otherwise be asked of all its exchanges at every resume,
//! kept so that each question costs a search and not a walk.

use super::{
    owed::{self, Gaps},
    request::{self, Request, Strays},
};
use crate::model::{
    event::Event,
    exchange::{EndCause, Exchange, Window},
    session::{EventRef, Session},
    time::{Span, Timestamp},
};

/// What a session's exchanges show together.
#[derive(Debug)]
pub struct Survey<'a> {
    streams: Vec<OfStream<'a>>,
    /// Messages of all streams.
    messages: Tally,
    /// When the last request was made that is no DELETE.
    last_asked: Option<Timestamp>,
    /// Event streams that may show a client who stayed: when each opened, and the latest end so far.
    kept: Vec<(Timestamp, Timestamp)>,
    /// Streams that were cut: when first, until when they stayed incomplete, and which; by time.
    cut: Vec<Cut>,
}

/// What the segments of a stream show together.
#[derive(Debug, Default)]
struct OfStream<'a> {
    has_holes: bool,
    pending: bool,
    requests: Vec<Request<'a>>,
    messages: Tally,
    delivered: Arrivals<()>,
    retries: Arrivals<u32>,
    resumes: Vec<u32>,
    /// When the last of them was asked.
    last_resume: Option<Timestamp>,
}

/// Messages with and without an id up to each segment, by its opening.
#[derive(Debug, Default)]
struct Tally(Vec<(Timestamp, u32, u32)>);

impl Tally {
    fn add(&mut self, open: Timestamp, with: u32, without: u32) {
        let (_, before_with, before_without) = self.0.last().copied().unwrap_or_default();
        self.0
            .push((open, before_with + with, before_without + without));
    }

    fn before(&self, time: Timestamp) -> (u32, u32) {
        let place = self.0.partition_point(|(open, _, _)| *open < time);
        place
            .checked_sub(1)
            .and_then(|last| self.0.get(last))
            .map_or((0, 0), |&(_, with, without)| (with, without))
    }
}

/// Events of a stream by the time they came. Segments overlap: the last of the stream up to some
/// time is not the one that came last.
#[derive(Debug)]
struct Arrivals<T>(Vec<Arrival<T>>);

#[derive(Clone, Copy, Debug)]
struct Arrival<T> {
    time: Timestamp,
    last: Last<T>,
    /// The last one that is not of the same segment.
    other: Option<Last<T>>,
}

#[derive(Clone, Copy, Debug)]
struct Last<T> {
    place: EventRef,
    time: Timestamp,
    value: T,
}

impl<T> Default for Arrivals<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy> Arrivals<T> {
    fn add(&mut self, time: Timestamp, place: EventRef, value: T) {
        let last = Last { place, time, value };
        self.0.push(Arrival {
            time,
            last,
            other: None,
        });
    }

    fn sort(&mut self) {
        self.0.sort_by_key(|arrival| arrival.time);
        let mut best: Option<Last<T>> = None;
        let mut other: Option<Last<T>> = None;
        for arrival in &mut self.0 {
            let new = arrival.last;
            match best {
                Some(last) if last.place.segment == new.place.segment => {
                    if new.place > last.place {
                        best = Some(new);
                    }
                }
                Some(last) if new.place > last.place => {
                    other = best;
                    best = Some(new);
                }
                Some(_) => {
                    if other.is_none_or(|last| new.place > last.place) {
                        other = Some(new);
                    }
                }
                None => best = Some(new),
            }
            arrival.last = best.unwrap_or(new);
            arrival.other = other;
        }
    }

    /// Those before a time.
    fn before(&self, time: Timestamp) -> &[Arrival<T>] {
        let place = self.0.partition_point(|arrival| arrival.time < time);
        self.0.get(..place).unwrap_or(&[])
    }

    /// Those up to a time.
    fn until(&self, time: Timestamp) -> &[Arrival<T>] {
        let place = self.0.partition_point(|arrival| arrival.time <= time);
        self.0.get(..place).unwrap_or(&[])
    }
}

#[derive(Clone, Copy, Debug)]
struct Cut {
    at: Timestamp,
    /// The stream that stays incomplete the longest of those cut so far.
    longest: (Option<Timestamp>, u32),
    /// The longest one of another stream.
    other: Option<(Option<Timestamp>, u32)>,
}

/// A client that was silent this long after keeping a stream open has stayed.
const STAYED: Span = Span::from_secs(10);

impl<'a> Survey<'a> {
    /// Looks a session over.
    #[must_use]
    pub fn of(session: &Session, exchanges: &'a [Exchange], window: Window, gaps: &Gaps) -> Self {
        let mut survey = Self {
            streams: Vec::with_capacity(session.streams.len()),
            messages: Tally::default(),
            last_asked: None,
            kept: Vec::new(),
            cut: Vec::new(),
        };
        let mut resumes: Vec<Vec<u32>> = vec![Vec::new(); session.streams.len()];
        for (index, resume) in (0..).zip(&session.resumes) {
            if let Some(list) = resume.stream.and_then(|s| resumes.get_mut(s as usize)) {
                list.push(index);
            }
        }
        let cancelled = request::cancellations(session, exchanges);
        let strays = Strays::of(session, exchanges);
        for (stream, resumes) in session.streams.iter().zip(resumes) {
            let pending = owed::stream_pending(session, exchanges, stream, &resumes, window, gaps);
            survey.streams.push(OfStream {
                has_holes: stream.segments.iter().any(|&segment| {
                    session
                        .exchange(segment, exchanges)
                        .is_some_and(Exchange::body_has_hole)
                }),
                pending,
                requests: request::requests_of(session, exchanges, stream, &cancelled, &strays),
                last_resume: resumes
                    .iter()
                    .filter_map(|&index| session.resumes.get(index as usize))
                    .filter_map(|resume| exchanges.get(resume.exchange as usize))
                    .map(Exchange::time)
                    .max(),
                resumes,
                ..OfStream::default()
            });
        }
        for (number, segment) in (0..).zip(&session.segments) {
            if let Some(exchange) = exchanges.get(segment.exchange as usize) {
                survey.add(number, segment.stream, segment.open, exchange);
            }
        }
        for stream in &mut survey.streams {
            stream.delivered.sort();
            stream.retries.sort();
        }
        survey.look_for_clients(session, exchanges);
        survey.look_for_cuts(session, exchanges);
        survey
    }

    fn add(&mut self, segment: u32, stream: u32, open: Timestamp, exchange: &Exchange) {
        let Some(own) = self.streams.get_mut(stream as usize) else {
            return;
        };
        for (event, facts) in (0..).zip(&exchange.events) {
            let place = EventRef { segment, event };
            if facts.delivered {
                own.delivered.add(facts.time, place, ());
            }
            if let Some(retry) = facts.retry {
                own.retries.add(facts.time, place, retry);
            }
        }
        // A segment that lost its ids on an earlier resume does not count.
        let messages = || exchange.events.iter().filter(Event::is_message);
        if exchange.cursor().is_some() && messages().next().is_some_and(|event| event.id.is_none())
        {
            return;
        }
        let (mut with, mut without) = (0, 0);
        for event in messages() {
            if event.id.is_some_and(|id| id.len > 0) {
                with += 1;
            } else {
                without += 1;
            }
        }
        own.messages.add(open, with, without);
        self.messages.add(open, with, without);
    }

    fn look_for_clients(&mut self, session: &Session, exchanges: &[Exchange]) {
        for exchange in session
            .exchanges
            .iter()
            .filter_map(|&number| exchanges.get(number as usize))
        {
            if let Some(request) = &exchange.request
                && &*request.method != "DELETE"
            {
                self.last_asked = self.last_asked.max(Some(request.time));
            }
            if exchange.is_event_stream() && exchange.end.cause != EndCause::Unknown {
                let latest = self.kept.last().map_or(exchange.end.time, |(_, latest)| {
                    exchange.end.time.max(*latest)
                });
                self.kept.push((exchange.time(), latest));
            }
        }
    }

    fn look_for_cuts(&mut self, session: &Session, exchanges: &[Exchange]) {
        let mut cuts: Vec<(Timestamp, (Option<Timestamp>, u32))> = Vec::new();
        for (index, stream) in (0..).zip(&session.streams) {
            let ends = stream.segments.iter().filter_map(|&segment| {
                let exchange = session.exchange(segment, exchanges)?;
                Some(exchange.end.time.max(exchange.time()))
            });
            let completed = stream.completed.and_then(|place| {
                let exchange = session.exchange(place.segment, exchanges)?;
                Some(exchange.events.get(place.event as usize)?.time)
            });
            cuts.extend(ends.min().map(|at| (at, (completed, index))));
        }
        cuts.sort_unstable_by_key(|&(at, (_, index))| (at, index));
        // Never is later than any time.
        let lasts = |a: (Option<Timestamp>, u32), b: (Option<Timestamp>, u32)| {
            (a.0.is_none(), a.0) > (b.0.is_none(), b.0)
        };
        for (at, new) in cuts {
            let (longest, other) = match self.cut.last() {
                Some(last) if lasts(new, last.longest) => (new, Some(last.longest)),
                Some(last) => match last.other {
                    Some(other) if !lasts(new, other) => (last.longest, Some(other)),
                    _ => (last.longest, Some(new)),
                },
                None => (new, None),
            };
            self.cut.push(Cut { at, longest, other });
        }
    }

    fn stream(&self, stream: Option<u32>) -> Option<&OfStream<'a>> {
        self.streams.get(stream? as usize)
    }

    /// Whether a segment of the stream has a hole in its body.
    #[must_use]
    pub fn has_holes(&self, stream: Option<u32>) -> bool {
        self.stream(stream).is_some_and(|stream| stream.has_holes)
    }

    /// Whether the response that a stream owes may yet come.
    #[must_use]
    pub fn is_pending(&self, stream: Option<u32>) -> bool {
        self.stream(stream).is_some_and(|stream| stream.pending)
    }

    /// Since when an open segment of a stream has been silent, a later resume having taken its
    /// place; `None` while it may still bring something.
    #[must_use]
    pub fn silent_since(&self, stream: u32, segment: &Exchange) -> Option<Timestamp> {
        let last_resume = self.stream(Some(stream))?.last_resume;
        owed::silent_since(segment, last_resume)
    }

    /// The requests of the POST that began a stream, with their answers.
    #[must_use]
    pub fn requests(&self, stream: Option<u32>) -> &[Request<'a>] {
        self.stream(stream)
            .map_or(&[], |stream| stream.requests.as_slice())
    }

    /// The resumes of a stream: indices into the session's, in order of time.
    #[must_use]
    pub fn resumes(&self, stream: Option<u32>) -> &[u32] {
        self.stream(stream)
            .map_or(&[], |stream| stream.resumes.as_slice())
    }

    /// Messages with and without an id that segments opened before `time` carry, on one stream or
    /// on all. Segments that lost their ids on an earlier resume do not count.
    #[must_use]
    pub fn tally(&self, stream: Option<u32>, time: Timestamp) -> (u32, u32) {
        match stream {
            None => self.messages.before(time),
            Some(_) => self
                .stream(stream)
                .map_or((0, 0), |stream| stream.messages.before(time)),
        }
    }

    /// The `retry` in force on a stream at a time: the last one it carried.
    #[must_use]
    pub fn retry_before(&self, stream: Option<u32>, time: Timestamp) -> Option<u32> {
        let before = self.stream(stream)?.retries.before(time);
        before.last().map(|arrival| arrival.last.value)
    }

    /// How many events a stream delivered up to `time`, segment `except` aside, and when the last of
    /// them came.
    #[must_use]
    pub fn delivered_until(
        &self,
        stream: Option<u32>,
        time: Timestamp,
        except: Option<(u32, &Exchange)>,
    ) -> (usize, Option<Timestamp>) {
        let Some(stream) = self.stream(stream) else {
            return (0, None);
        };
        let until = stream.delivered.until(time);
        let own = except.map_or(0, |(_, exchange)| {
            let came = exchange.events.iter();
            came.filter(|event| event.delivered && event.time <= time)
                .count()
        });
        let except = except.map(|(segment, _)| segment);
        let last = until.last().and_then(|arrival| {
            if Some(arrival.last.place.segment) == except {
                arrival.other
            } else {
                Some(arrival.last)
            }
        });
        (until.len().saturating_sub(own), last.map(|last| last.time))
    }

    /// Whether the client stayed after `cut`: it sent another request of the session that is no
    /// DELETE, or kept a stream open for 10 s.
    #[must_use]
    pub fn client_stayed(&self, cut: Timestamp) -> bool {
        let asked = self.last_asked.is_some_and(|last| last > cut);
        let opened = self.kept.partition_point(|(open, _)| *open <= cut);
        let kept = opened
            .checked_sub(1)
            .and_then(|last| self.kept.get(last))
            .is_some_and(|(_, latest)| latest.since(cut) >= STAYED);
        asked || kept
    }

    /// Whether a stream other than `stream` had been cut before `time`, and was not complete then.
    #[must_use]
    pub fn another_was_cut(&self, stream: Option<u32>, time: Timestamp) -> bool {
        let cut = self.cut.partition_point(|cut| cut.at < time);
        cut.checked_sub(1)
            .and_then(|last| self.cut.get(last))
            .and_then(|cut| {
                if Some(cut.longest.1) == stream {
                    cut.other
                } else {
                    Some(cut.longest)
                }
            })
            .is_some_and(|(completed, _)| completed.is_none_or(|completed| completed > time))
    }
}
