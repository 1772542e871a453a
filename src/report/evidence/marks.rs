//! What a finding rests on, place by place, in words.

use crate::{
    model::{
        analysis::{Analysis, Finding, Resume},
        event::Event,
        exchange::{EndCause, Exchange},
        place::Place,
    },
    report::style::write_millis,
};
use std::fmt::Write;

/// A packet or an entry that a finding rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where it is in the inputs.
    pub place: Place,
    /// What it is for the finding: one of [`MARKS`].
    pub kind: &'static str,
    /// What is said of it, as the wire has it: hidden characters and all.
    pub note: String,
}

/// The kinds of marks.
pub const MARKS: [&str; 9] = [
    "finding",
    "cursor",
    "disconnect",
    "resume",
    "request",
    "response",
    "first-event",
    "earlier",
    "end",
];

/// The marks of a finding, in order of time. `at` is the exchange that it is at, `before` the one that the resume
/// goes on from, `session` those of its session.
pub(super) fn marks(
    analysis: &Analysis,
    finding: &Finding,
    resume: Option<&Resume>,
    at: Option<u32>,
    before: Option<u32>,
    session: &[u32],
) -> Vec<Mark> {
    let exchange = |number: u32| analysis.exchanges.get(number as usize);
    let mut marks = vec![(
        finding.time,
        Mark {
            place: finding.place,
            kind: "finding",
            note: format!(
                "{} ({}, {} confidence): {}",
                finding.code,
                finding.severity.name(),
                finding.confidence.name(),
                finding.detail
            ),
        },
    )];
    let mut mark = |time, place: Place, kind, note: String| {
        if place.frame != 0 && marks.len() < MOST {
            marks.push((time, Mark { place, kind, note }));
        }
    };
    let resumed = resume.and_then(|resume| exchange(resume.exchange).map(|e| (resume, e)));
    if let Some((resume, answer)) = resumed {
        if let Some((carrier, event)) = cursor(analysis, resume, session) {
            let note = format!(
                "the cursor: event id {} was delivered here last before the resume",
                quoted(&resume.last_event_id)
            );
            mark(event.time, carrier.event_place(&event), "cursor", note);
        }
        if let Some(carrier) = before.and_then(exchange)
            && let Some((time, cause)) = resume.disconnect_time.zip(resume.disconnect_cause)
        {
            let place = end_place(analysis, before, carrier);
            mark(time, place, "disconnect", disconnect(resume, cause));
        }
        mark(resume.resume_time, resume.place, "resume", told(resume));
        answered(answer, &mut mark);
        let messages = answer.events.iter().filter(Event::is_message);
        if let Some(event) = messages.clone().next() {
            let id = event.id.map_or_else(
                || "without id".to_owned(),
                |id| format!("id {}", quoted(answer.text(id))),
            );
            let note = format!(
                "the first message of the answer: {}, {id}",
                event.message.name()
            );
            mark(event.time, answer.event_place(&event), "first-event", note);
        }
        for event in messages.take(LOOKED_BACK) {
            if let Some((carrier, same)) = earlier(analysis, resume, answer, &event, session) {
                let as_was = if same.hash == event.hash {
                    "the same payload"
                } else {
                    "another payload"
                };
                let note = format!(
                    "event id {} was delivered here before, with {as_was} than the resume brings",
                    quoted(same.id.map_or("", |id| carrier.text(id)))
                );
                let note = note.replace("the same payload than", "the same payload as");
                mark(same.time, carrier.event_place(&same), "earlier", note);
            }
        }
    } else if let Some(number) = at
        && let Some(own) = exchange(number)
    {
        let request = own.request.as_ref();
        if let Some(request) = request {
            let note = format!("the request: {} {}", request.method, request.target);
            mark(request.time, own.place, "request", note);
        }
        answered(own, &mut mark);
        if own.end.cause != EndCause::Unknown {
            let note = format!("its end: {}", own.end.cause.name());
            mark(own.end.time, own.end.place, "end", note);
        }
    }
    marks.sort_by_key(|(time, mark)| (*time, mark.place));
    marks.into_iter().map(|(_, mark)| mark).collect()
}

fn answered(
    exchange: &Exchange,
    mark: &mut impl FnMut(crate::model::time::Timestamp, Place, &'static str, String),
) {
    let Some(response) = &exchange.response else {
        return;
    };
    let mut note = format!("the answer: status {}", response.status);
    if let Some(id) = &response.session_id {
        let _ = write!(note, ", session id {}", quoted(id));
    }
    if let Some(backend) = &response.backend {
        let _ = write!(note, ", backend {}", quoted(backend));
    }
    mark(response.time, response.place, "response", note);
}

/// The resume in words, with what is told of it in the summary.
fn told(resume: &Resume) -> String {
    let mut note = format!(
        "resume {}: {} with Last-Event-ID {} is judged {} ({} confidence)",
        resume.resume,
        resume.method,
        quoted(&resume.last_event_id),
        resume.verdict.name(),
        resume.confidence.name()
    );
    let reason = Some(&resume.reason).filter(|reason| !reason.is_empty());
    for line in reason.into_iter().chain(&resume.story) {
        let _ = write!(note, "; {line}");
    }
    note
}

fn disconnect(resume: &Resume, cause: EndCause) -> String {
    let mut note = match cause {
        EndCause::Silent => "the stream is silent from here on".to_owned(),
        cause => format!("the stream ends: {}", cause.name()),
    };
    if let Some(gap) = resume.gap {
        note.push_str("; the resume comes ");
        write_millis(gap, &mut note);
        note.push_str(" ms later");
    }
    note
}

/// Where the segment of an exchange ended, as its session shows it.
fn end_place(analysis: &Analysis, number: Option<u32>, exchange: &Exchange) -> Place {
    number
        .and_then(|number| *analysis.session_of.get(number as usize)?)
        .and_then(|of| analysis.segments.get(of.segment? as usize))
        .map_or(exchange.end.place, |row| row.end_place)
}

/// The last delivery of the cursor before a resume.
fn cursor<'a>(
    analysis: &'a Analysis,
    resume: &Resume,
    session: &[u32],
) -> Option<(&'a Exchange, Event)> {
    delivered(analysis, session, |exchange, event| {
        event.time <= resume.resume_time
            && event
                .id
                .is_some_and(|id| exchange.text(id) == resume.last_event_id)
    })
}

/// The last delivery before a resume of an id that its answer brings.
fn earlier<'a>(
    analysis: &'a Analysis,
    resume: &Resume,
    answer: &Exchange,
    event: &Event,
    session: &[u32],
) -> Option<(&'a Exchange, Event)> {
    let id = answer.text(event.id.filter(|id| id.len > 0)?);
    delivered(analysis, session, |exchange, event| {
        event.time < resume.resume_time
            && event.is_message()
            && event.id.is_some_and(|own| exchange.text(own) == id)
    })
}

/// The last of the session's delivered events that `is`.
fn delivered<'a>(
    analysis: &'a Analysis,
    session: &[u32],
    is: impl Fn(&Exchange, &Event) -> bool,
) -> Option<(&'a Exchange, Event)> {
    let exchanges = session.iter().rev();
    let exchanges = exchanges.filter_map(|&number| analysis.exchanges.get(number as usize));
    exchanges
        .filter_map(|exchange| {
            let mut events = exchange.events.iter().rev();
            let event = events.find(|event| event.delivered && is(exchange, event))?;
            Some((exchange, event))
        })
        // The last in time; of equals, the one whose exchange began last.
        .reduce(|best, next| {
            if next.1.time > best.1.time {
                next
            } else {
                best
            }
        })
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Marks of one finding.
const MOST: usize = 16;

/// Messages of an answer of which an earlier delivery is looked for.
const LOOKED_BACK: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn tells_what_a_fork_rests_on() {
        let analysis = sample::fork();
        let finding = &analysis.findings[0];
        let resume = &analysis.resumes[0];
        let marks = marks(&analysis, finding, Some(resume), Some(1), Some(0), &[0, 1]);
        let kinds: Vec<&str> = marks.iter().map(|mark| mark.kind).collect();
        assert_eq!(
            kinds,
            ["cursor", "disconnect", "resume", "first-event", "finding"]
        );
        let notes: Vec<&str> = marks.iter().map(|mark| &*mark.note).collect();
        assert!(notes[0].starts_with("the cursor: event id \"42\""));
        assert_eq!(
            notes[1],
            "the stream ends: server-rst; the resume comes 31204.000 ms later"
        );
        assert!(notes[2].contains("judged forked (high confidence); ids start again at 1; before"));
        assert!(notes[4].starts_with("sequence-regression (fork, high confidence): the first"));
        assert!(MARKS.iter().all(|kind| !kind.is_empty()));
        assert!(kinds.iter().all(|kind| MARKS.contains(kind)));
    }

    #[test]
    fn a_finding_on_no_resume_has_its_request_and_end() {
        let analysis = sample::fork();
        let mut finding = analysis.findings[0].clone();
        finding.resume = None;
        let marks = marks(&analysis, &finding, None, Some(0), None, &[0, 1]);
        let kinds: Vec<&str> = marks.iter().map(|mark| mark.kind).collect();
        assert_eq!(
            kinds,
            ["request", "finding"],
            "places of frame 0 are no places"
        );
    }
}
