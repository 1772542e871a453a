//! Reconnects in a row that bring nothing, and nothing in the end.
//!
//! An attempt counts whether it was accepted or not, but for a refusal of the session (told by
//! `session-lost` and `no-reinitialize`) and for a server that has no such stream (405, 501). Polling
//! by the book is none: the server asked for it (`retry`), the client keeps to it, and what it waits for
//! comes, or may yet come.

use super::{MOMENT, Scene};
use crate::audit::owed;
use crate::model::{
    case::{RefusalKind, Site, Storm},
    exchange::{Answer, Exchange, Part},
    flow::Endpoint,
    message::MessageKind,
    time::{Span, Timestamp},
    verdict::Confidence,
};
use std::{collections::BTreeMap, net::IpAddr, ops::Range};

/// So many reconnects in a row are a storm.
const STORM: usize = 10;

/// Faster than one in this time.
const PERIOD: Span = Span::from_secs(5);

/// A longer pause begins another row.
const PAUSE: Span = Span::from_secs(30);

/// What an attempt brought.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Brought {
    Nothing,
    Message,
    /// It is open, or a hole covers it, or it is no attempt at a stream.
    Unknown,
}

struct Attempt<'a> {
    exchange: &'a Exchange,
    brought: Brought,
    /// The resume's number.
    resume: Option<u32>,
    incarnation: u32,
}

/// What a series of attempts is at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// One stream.
    Stream,
    /// A cursor that nobody was seen to deliver: what its stream owes, or asked for, is not known.
    Cursor,
    /// Streams without a cursor: the first of all opens one and is no reconnect.
    Nothing,
}

/// Attempts at one stream, or at streams without a cursor.
struct Series<'a> {
    attempts: Vec<Attempt<'a>>,
    /// The stream that a POST began and that owes a result.
    owes: Option<u32>,
    /// The `retry` in force before the first.
    retry: Option<u32>,
    of: Of,
    /// A hole lies in what they brought, or in what the stream brought before: a `retry` may be in it.
    torn: bool,
}

pub(super) fn storms(scene: &Scene<'_, '_>) -> Vec<Storm> {
    let deleted = deleted_at(scene);
    let mut storms: Vec<Storm> = all_series(scene)
        .iter()
        .flat_map(|series| storms_of(scene, series, deleted))
        .collect();
    storms.sort_by_key(|storm| (storm.site.time, storm.site.place));
    storms
}

fn all_series<'a>(scene: &Scene<'_, 'a>) -> Vec<Series<'a>> {
    let session = scene.session;
    let lost = scene
        .case
        .refusals
        .iter()
        .filter(|run| matches!(run.kind, RefusalKind::Lost | RefusalKind::LostOnDisconnect))
        .map(|run| run.site.time)
        .min();
    let attempt = |exchange: &'a Exchange, resume: Option<u32>| {
        let case = resume
            .and_then(|number| number.checked_sub(1))
            .and_then(|index| scene.case.resumes.get(index as usize));
        let gone = lost.is_some_and(|lost| exchange.time() >= lost);
        (!gone).then(|| Attempt {
            exchange,
            brought: brought(exchange),
            resume,
            incarnation: case.map_or(1, |case| case.row.incarnation),
        })
    };
    let mut series = Vec::new();
    // Cursors that nobody was seen to deliver name a stream all the same.
    let mut strange: BTreeMap<(&str, Option<IpAddr>), Vec<Attempt<'a>>> = BTreeMap::new();
    let mut by_stream: BTreeMap<(u32, Option<IpAddr>), Vec<Attempt<'a>>> = BTreeMap::new();
    for (number, resume) in (1..).zip(&session.resumes) {
        let Some(exchange) = scene.exchanges.get(resume.exchange as usize) else {
            continue;
        };
        let host = exchange.client.as_ref().and_then(Endpoint::ip);
        let list = match (resume.stream, exchange.cursor()) {
            (Some(stream), _) => by_stream.entry((stream, host)).or_default(),
            (None, Some(cursor)) => strange.entry((cursor, host)).or_default(),
            (None, None) => continue,
        };
        list.extend(attempt(exchange, Some(number)));
    }
    for ((stream, _), attempts) in by_stream {
        let first = attempts.first().map(|attempt| attempt.exchange.time());
        series.push(Series {
            torn: scene.survey.has_holes(Some(stream)) || is_torn(&attempts),
            attempts,
            owes: (!scene.survey.requests(Some(stream)).is_empty()).then_some(stream),
            retry: first.and_then(|first| scene.survey.retry_before(Some(stream), first)),
            of: Of::Stream,
        });
    }
    // Many clients under one session id are not one that comes again.
    let mut plain: BTreeMap<Option<IpAddr>, Vec<Attempt<'a>>> = BTreeMap::new();
    for exchange in session
        .exchanges
        .iter()
        .filter_map(|&number| scene.exchanges.get(number as usize))
        .filter(|exchange| exchange.method() == "GET" && exchange.cursor().is_none())
    {
        let host = exchange.client.as_ref().and_then(Endpoint::ip);
        let list = plain.entry(host).or_default();
        list.extend(attempt(exchange, None));
    }
    series.extend(plain.into_values().map(|attempts| Series {
        torn: is_torn(&attempts),
        attempts,
        owes: None,
        retry: None,
        of: Of::Nothing,
    }));
    series.extend(strange.into_values().map(|attempts| Series {
        torn: scene.gaps.any(),
        attempts,
        owes: None,
        retry: None,
        of: Of::Cursor,
    }));
    series
}

fn is_torn(attempts: &[Attempt<'_>]) -> bool {
    let mut exchanges = attempts.iter().map(|attempt| attempt.exchange);
    exchanges.any(|exchange| !exchange.holes.is_empty() || exchange.body_has_hole())
}

fn brought(exchange: &Exchange) -> Brought {
    let has_none = matches!(exchange.status(), Some(405 | 501));
    let unseen = exchange.body_has_hole()
        || exchange.has_hole(Part::ResponseHead)
        || exchange.has_hole(Part::Request);
    // The cursor's own event is nothing new.
    let fresh = exchange.events.iter().any(|event| {
        event.is_message()
            && event
                .id
                .is_none_or(|id| Some(exchange.text(id)) != exchange.cursor())
    });
    let whole = exchange.response.as_ref().is_some_and(|response| {
        let mut messages = response.messages.iter();
        messages.any(|message| message.kind != MessageKind::Error && message.kind.is_message())
    });
    if fresh || whole {
        Brought::Message
    } else if has_none || unseen || exchange.is_open() {
        Brought::Unknown
    } else {
        Brought::Nothing
    }
}

fn storms_of(scene: &Scene<'_, '_>, series: &Series<'_>, deleted: Option<Timestamp>) -> Vec<Storm> {
    let attempts = &series.attempts;
    let Some(last) = attempts.last().filter(|_| attempts.len() >= STORM) else {
        return Vec::new();
    };
    let is_over = deleted.is_some_and(|deleted| deleted >= last.exchange.time());
    let stream = series.owes;
    if stream.is_some_and(|stream| ends_well(scene, stream, is_over)) {
        return Vec::new();
    }
    let kept = kept(series);
    rows(attempts)
        .into_iter()
        .filter_map(|row| {
            let opening = usize::from(series.of == Of::Nothing && row.start == 0);
            let reconnects = row.len().checked_sub(opening)?;
            let (first, last) = (attempts.get(row.start)?, attempts.get(row.end - 1)?);
            let period = period(attempts.get(row.clone())?)?;
            // An attempt that is not seen may have brought something between them, or in the end.
            let end = scene.window.last.unwrap_or(last.exchange.end.time);
            let unseen = scene.gaps.between(first.exchange.time(), end);
            if reconnects < STORM || period >= PERIOD || unseen {
                return None;
            }
            // What was refused was no poll.
            let polls = attempts
                .get(row.clone())?
                .iter()
                .all(|attempt| attempt.exchange.is_event_stream());
            let asked_for = polls && is_asked_for(&kept, &row);
            if polls && series.owes.is_none() {
                let worth_it = (asked_for || series.of == Of::Cursor)
                    && is_worth_it(scene, series, &row, is_over);
                if series.torn || worth_it {
                    return None;
                }
            }
            let (first_time, last_time) = (first.exchange.time(), last.exchange.time());
            Some(Storm {
                count: u32::try_from(reconnects).unwrap_or(u32::MAX),
                period,
                last: last_time,
                // What the server asked for may have been right, had the client waited.
                confidence: if asked_for {
                    Confidence::Medium
                } else {
                    Confidence::High
                },
                has_cursor: series.of != Of::Nothing,
                resumes: attempts
                    .get(row)?
                    .iter()
                    .filter_map(|attempt| attempt.resume)
                    .collect(),
                site: Site {
                    resume: first.resume,
                    time: first_time,
                    ..Site::of(first.exchange, first.incarnation)
                },
            })
        })
        .collect()
}

/// Attempts in a row that bring nothing, as long as they come faster than one in [`PERIOD`] and each
/// after the one before has ended: streams opened side by side are no reconnects.
fn rows(attempts: &[Attempt<'_>]) -> Vec<Range<usize>> {
    let mut rows = Vec::new();
    let mut begin: Option<usize> = None;
    let mut before: Option<&Attempt<'_>> = None;
    for (index, attempt) in attempts.iter().enumerate() {
        let time = attempt.exchange.time();
        let goes_on = begin
            .and_then(|begin| Some((begin, attempts.get(begin)?)))
            .zip(before)
            .is_some_and(|((begin, first), before)| {
                let so_far = i64::try_from(index - begin).unwrap_or(i64::MAX);
                let fast = time.since(first.exchange.time()).nanos()
                    < PERIOD.nanos().saturating_mul(so_far);
                let soon = time.since(before.exchange.time()) < PAUSE;
                let ended = before.exchange.end.time.since(time) <= MOMENT;
                fast && soon && ended
            });
        match (attempt.brought == Brought::Nothing, begin) {
            (true, Some(_)) if goes_on => {}
            (true, other) => {
                rows.extend(other.map(|begin| begin..index));
                begin = Some(index);
            }
            (false, other) => {
                rows.extend(other.map(|begin| begin..index));
                begin = None;
            }
        }
        before = Some(attempt);
    }
    rows.extend(begin.map(|begin| begin..attempts.len()));
    rows
}

/// The median time from one attempt to the next.
fn period(row: &[Attempt<'_>]) -> Option<Span> {
    let times = row.iter().map(|attempt| attempt.exchange.time());
    let mut apart: Vec<Span> = times
        .clone()
        .zip(times.skip(1))
        .map(|(from, to): (Timestamp, Timestamp)| to.since(from))
        .collect();
    apart.sort_unstable();
    apart.get(apart.len() / 2).copied()
}

/// Whether the result that a stream owes came, or may yet come. `is_over`: the client ended the session;
/// then nothing more comes, nor to a request that it cancelled.
fn ends_well(scene: &Scene<'_, '_>, stream: u32, is_over: bool) -> bool {
    let requests = scene.survey.requests(Some(stream));
    let mut open = requests
        .iter()
        .filter(|request| !request.answers.iter().any(|reply| reply.delivered))
        .peekable();
    if open.peek().is_none() {
        return true;
    }
    let is_over = is_over || open.all(|request| request.cancelled);
    scene.survey.is_pending(Some(stream)) && (!is_over || scene.gaps.any())
}

/// When the client ended the session.
fn deleted_at(scene: &Scene<'_, '_>) -> Option<Timestamp> {
    let exchanges = scene.session.exchanges.iter();
    exchanges
        .filter_map(|&number| scene.exchanges.get(number as usize))
        .filter(|exchange| exchange.method() == "DELETE" && exchange.answer() == Answer::Success)
        .map(Exchange::time)
        .max()
}

/// For each attempt whether a `retry` was in force and the client kept to it.
fn kept(series: &Series<'_>) -> Vec<bool> {
    let mut retry = series.retry;
    let mut before: Option<&Exchange> = None;
    series
        .attempts
        .iter()
        .map(|attempt| {
            let start = attempt.exchange.time();
            let kept = retry.is_some_and(|retry| {
                before.is_none_or(|before| owed::retry_kept(start.since(before.end.time), retry))
            });
            let events = attempt.exchange.events.iter();
            retry = events.filter_map(|event| event.retry).next_back().or(retry);
            before = Some(attempt.exchange);
            kept
        })
        .collect()
}

/// Whether the server asked for every one of these polls.
fn is_asked_for(kept: &[bool], row: &Range<usize>) -> bool {
    // The first of them may be what told the client to poll.
    let polls = kept.get(row.start + 1..row.end);
    polls.is_some_and(|polls| polls.iter().all(|&kept| kept))
}

/// Whether polls where no result is owed were worth it in the end, or may be yet. Where one is owed, it
/// is known by now that none came.
fn is_worth_it(
    scene: &Scene<'_, '_>,
    series: &Series<'_>,
    row: &Range<usize>,
    is_over: bool,
) -> bool {
    let Some(last) = series.attempts.get(row.end - 1) else {
        return false;
    };
    match series.attempts.get(row.end) {
        Some(next) => next.brought != Brought::Nothing,
        None => scene.window.left_after(last.exchange.end.time) < owed::patience(None) && !is_over,
    }
}
