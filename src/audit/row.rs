//! Facts → rows of the reports, typed.

use super::{judge::Decision, owed, survey::Survey};
use crate::model::{
    analysis::{RequestFates, Resume, SegmentRow, SessionRow},
    case::{RefusalKind, ResumeCase, SessionCase},
    event::Event,
    exchange::{Answer, EndCause, Exchange, Window},
    prose::{Prose, event_id, prose},
    session::{Resumption, Session},
    time::{Span, Timestamp},
    verdict::{IdScheme, SessionEnd, Verdict},
};
use std::{collections::BTreeSet, sync::Arc};

/// A session of which nothing was seen this long before the end was left by its client.
const LEFT: Span = Span::from_secs(10);

/// What a resume's row is made of.
pub(super) struct Frame<'a> {
    pub(super) session: &'a Session,
    pub(super) exchanges: &'a [Exchange],
    pub(super) survey: &'a Survey<'a>,
    pub(super) resumption: &'a Resumption,
    pub(super) exchange: &'a Exchange,
    pub(super) decision: &'a Decision,
    pub(super) number: u32,
    pub(super) dropped: BTreeSet<u32>,
}

/// The row of a resume, without its incarnation after and the fates of requests.
pub(super) fn resume(frame: &Frame<'_>) -> ResumeCase {
    let Frame {
        session,
        exchanges,
        resumption,
        exchange,
        decision,
        ..
    } = frame;
    let start = exchange.time();
    let before = segment_before(session, exchanges, resumption, start);
    let disconnect = before.and_then(|before| disconnect(before, start));
    let (events_before, last_event) = frame.survey.delivered_until(
        resumption.stream,
        start,
        resumption.segment.zip(Some(*exchange)),
    );
    let gap = disconnect.map(|(time, _)| start.since(time));
    let retry = frame.survey.retry_before(resumption.stream, start);
    let first_message = exchange.events.iter().find(Event::is_message);
    let first_event = exchange.events.first();
    let response = exchange.response.as_ref();
    let row = Resume {
        session_id: session.id.clone(),
        incarnation: decision.incarnation,
        incarnation_after: None,
        resume: frame.number,
        verdict: decision.verdict,
        confidence: decision.confidence,
        reason: decision.reason.clone(),
        findings: Vec::new(),
        last_event_id: exchange.cursor().unwrap_or_default().to_owned(),
        first_event_id: first_message
            .map(|event| event.id.map_or("", |id| exchange.text(id)).to_owned()),
        id_scheme: decision.scheme,
        events_before: count(events_before),
        events_after: count(exchange.events.len()),
        events_redelivered: decision.redelivered,
        ids_skipped: decision.skipped,
        events_dropped_by_dedup: count(frame.dropped.len()),
        requests: RequestFates::default(),
        progress_tokens_left: 0,
        client: exchange.client.clone(),
        server: exchange.server.clone(),
        backend_before: before.and_then(|before| before.response.as_ref()?.backend.clone()),
        backend_after: response.and_then(|response| response.backend.clone()),
        protocol_version: exchange
            .request
            .as_ref()
            .and_then(|request| request.protocol_version.as_deref().map(Arc::from))
            .or_else(|| session.protocol_version.clone()),
        method: exchange.method().to_owned(),
        status: exchange.status(),
        response_session_id: response.and_then(|response| response.session_id.clone()),
        last_event_time: last_event,
        disconnect_time: disconnect.map(|(time, _)| time),
        disconnect_cause: disconnect.map(|(_, cause)| cause),
        resume_time: start,
        first_event_time: first_event.map(|event| event.time),
        silence: disconnect
            .zip(last_event)
            .map(|((time, _), event)| time.since(event)),
        gap,
        retry,
        retry_kept: gap
            .zip(retry)
            .map(|(gap, retry)| owed::retry_kept(gap, retry)),
        response: response.map(|response| response.time.since(start)),
        first_event: first_event.map(|event| event.time.since(start)),
        incident: None,
        place_before: before.map(|before| before.place),
        place: exchange.place,
        exchange: resumption.exchange,
        story: story(frame),
    };
    ResumeCase {
        row,
        fork: decision.fork,
        sequence: decision.sequence,
        reused: decision.reused.clone(),
        missing: decision.missing.clone(),
        ids_vanished: decision.ids_vanished,
        foreign_cursor: decision.foreign_cursor,
        others_lost_too: false,
        beyond_lifetime: false,
    }
}

/// The segment that carried the stream last before a resume.
fn segment_before<'a>(
    session: &Session,
    exchanges: &'a [Exchange],
    resumption: &Resumption,
    start: Timestamp,
) -> Option<&'a Exchange> {
    let stream = session.streams.get(resumption.stream? as usize)?;
    let earlier = stream.segments.partition_point(|&segment| {
        session
            .segments
            .get(segment as usize)
            .is_some_and(|segment| segment.open < start)
    });
    stream
        .segments
        .get(..earlier)?
        .iter()
        .rev()
        .find(|&&segment| Some(segment) != resumption.segment)
        .and_then(|&segment| session.exchange(segment, exchanges))
}

/// When and by what a segment ended, seen from a resume at `start`. One that shows no end and brings
/// nothing any more has fallen silent, at the last packet its peer acknowledged.
fn disconnect(before: &Exchange, start: Timestamp) -> Option<(Timestamp, EndCause)> {
    if !before.is_open() {
        return Some((before.end.time, before.end.cause));
    }
    let last = before.events.last().map(|event| event.time);
    if last.is_some_and(|last| last > start) {
        return None;
    }
    let silent = before
        .end
        .last_acknowledged
        .or(last)
        .unwrap_or(before.time());
    Some((silent, EndCause::Silent))
}

/// What was delivered last and what came, for people.
fn story(frame: &Frame<'_>) -> Vec<Prose> {
    let Frame {
        session,
        exchanges,
        resumption,
        exchange,
        decision,
        ..
    } = frame;
    let mut lines = Vec::new();
    if let Some(before) = segment_before(session, exchanges, resumption, exchange.time()) {
        lines.push(prose!("before: {}", ids(before, true)));
    }
    if exchange.is_event_stream() {
        let came = if exchange.events.is_empty() {
            "nothing".into()
        } else {
            ids(exchange, false)
        };
        lines.push(prose!("came: {}", came));
    }
    if !decision.missing.is_empty() {
        let missing = Prose::join(decision.missing.iter().cloned(), ", ");
        lines.push(prose!("missing: {}", missing));
    }
    lines
}

/// The first (or last) ids of a segment, in order.
fn ids(exchange: &Exchange, tail: bool) -> Prose {
    const SHOWN: usize = 6;
    let name = |event: Event| match event.id.filter(|id| id.len > 0) {
        Some(id) if event.is_priming() => prose!("{} (priming)", event_id(exchange.text(id))),
        Some(id) => event_id(exchange.text(id)).into(),
        None => prose!("{} without id", event.message.name()),
    };
    let events = &exchange.events;
    let skip = if tail {
        events.len().saturating_sub(SHOWN)
    } else {
        0
    };
    let mut names: Vec<Prose> = events.iter().skip(skip).take(SHOWN).map(name).collect();
    if skip > 0 {
        names.insert(0, "…".into());
    } else if events.len() > SHOWN {
        names.push(prose!("… {} more", events.len() - SHOWN));
    }
    Prose::join(names, ", ")
}

/// Rows for the segments of a session.
pub(super) fn segments(
    session: &Session,
    exchanges: &[Exchange],
    incarnation_of: &dyn Fn(u32) -> u32,
) -> Vec<SegmentRow> {
    let mut rows = Vec::with_capacity(session.segments.len());
    for (index, segment) in session.segments.iter().enumerate() {
        let number = count(index);
        let Some(exchange) = exchanges.get(segment.exchange as usize) else {
            continue;
        };
        let Some(stream) = session.streams.get(segment.stream as usize) else {
            continue;
        };
        let place_in_stream = stream.segments.binary_search(&number).unwrap_or(0);
        let superseded = stream
            .segments
            .get(place_in_stream + 1)
            .and_then(|&next| session.exchange(next, exchanges))
            .map(Exchange::time);
        let (end_time, end_cause) = match superseded.and_then(|at| disconnect(exchange, at)) {
            Some((time, cause)) => (Some(time), cause),
            None => (Some(exchange.end.time), exchange.end.cause),
        };
        rows.push(SegmentRow {
            session_id: session.id.clone(),
            incarnation: incarnation_of(number),
            stream: segment.stream + 1,
            segment: count(place_in_stream) + 1,
            last_event_id: exchange.cursor().map(str::to_owned),
            end_cause,
            end_time,
            end_place: exchange.end.place,
            exchange: segment.exchange,
        });
    }
    rows
}

/// Rows for the incarnations of a session.
pub(super) fn sessions(
    session: &Session,
    exchanges: &[Exchange],
    window: Window,
    case: &SessionCase,
    scheme: IdScheme,
    incarnations: u32,
    incarnation_of: &dyn Fn(u32) -> u32,
) -> Vec<SessionRow> {
    let members: Vec<&Exchange> = session
        .exchanges
        .iter()
        .filter_map(|&number| exchanges.get(number as usize))
        .collect();
    let first = members
        .first()
        .copied()
        .or_else(|| session.exchange(0, exchanges));
    let end = end_of(&members, window, case);
    let mut rows: Vec<SessionRow> = (1..=incarnations)
        .map(|incarnation| SessionRow {
            session_id: session.id.clone(),
            incarnation,
            service: session.service.to_string(),
            client: first.and_then(|exchange| exchange.client.clone()),
            server: first.and_then(|exchange| exchange.server.clone()),
            protocol_version: session.protocol_version.clone(),
            client_name: session.client_name.clone(),
            server_name: session.server_name.clone(),
            id_scheme: scheme,
            end: if incarnation == incarnations {
                end
            } else {
                SessionEnd::Superseded
            },
            ..SessionRow::default()
        })
        .collect();
    let mut streams: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut spans: Vec<Window> = vec![Window::default(); rows.len()];
    for (index, segment) in session.segments.iter().enumerate() {
        let incarnation = incarnation_of(count(index)).max(1);
        let Some(exchange) = exchanges.get(segment.exchange as usize) else {
            continue;
        };
        let place = incarnation as usize - 1;
        let Some(row) = rows.get_mut(place) else {
            continue;
        };
        row.segments += 1;
        row.events += count(exchange.events.len());
        streams.insert((incarnation, segment.stream));
        if let Some(span) = spans.get_mut(place) {
            span.include(exchange.time());
            span.include(exchange.end.time);
        }
    }
    for (incarnation, _) in streams {
        if let Some(row) = rows.get_mut(incarnation as usize - 1) {
            row.streams += 1;
        }
    }
    for resume in &case.resumes {
        let Some(row) = rows.get_mut(resume.row.incarnation.max(1) as usize - 1) else {
            continue;
        };
        row.resumes += 1;
        if let Some(index) = Verdict::ALL
            .iter()
            .position(|&verdict| verdict == resume.row.verdict)
            && let Some(slot) = row.verdicts.get_mut(index)
        {
            *slot += 1;
        }
    }
    let mut all = Window::default();
    let carried = session
        .segments
        .iter()
        .filter_map(|segment| exchanges.get(segment.exchange as usize));
    for exchange in members.iter().copied().chain(carried) {
        all.include(exchange.time());
        all.include(exchange.end.time);
    }
    let last = rows.len().saturating_sub(1);
    for (index, (row, span)) in rows.iter_mut().zip(&spans).enumerate() {
        let own_first = if index == 0 { all.first } else { span.first };
        let own_last = if index == last { all.last } else { span.last };
        row.first_time = own_first.or(all.first).unwrap_or_default();
        row.last_time = own_last.or(all.last).unwrap_or_default();
    }
    rows
}

/// The most orderly scheme among the ids of a session.
pub(super) fn scheme_of(
    session: &Session,
    exchanges: &[Exchange],
    standing: &dyn Fn(&str) -> IdScheme,
) -> IdScheme {
    session
        .segments
        .iter()
        .filter_map(|segment| exchanges.get(segment.exchange as usize))
        .flat_map(|exchange| {
            let ids = exchange
                .events
                .iter()
                .filter_map(|event| event.id.filter(|id| id.len > 0));
            ids.map(|id| standing(exchange.text(id)))
        })
        .max()
        .unwrap_or_default()
}

fn end_of(members: &[&Exchange], window: Window, case: &SessionCase) -> SessionEnd {
    let deleted = members
        .iter()
        .any(|exchange| exchange.method() == "DELETE" && exchange.answer() == Answer::Success);
    let lost = case
        .refusals
        .iter()
        .any(|run| matches!(run.kind, RefusalKind::Lost | RefusalKind::LostOnDisconnect));
    let open = members.iter().any(|exchange| exchange.is_open());
    let last = members.iter().map(|exchange| exchange.end.time).max();
    if deleted {
        SessionEnd::Deleted
    } else if lost {
        SessionEnd::Lost
    } else if !open && last.is_some_and(|last| window.left_after(last) >= LEFT) {
        SessionEnd::Left
    } else {
        SessionEnd::Open
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
