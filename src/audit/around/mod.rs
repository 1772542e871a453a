//! What the streams of one session show side by side, once all its resumes are judged: a stream
//! that takes another's place, reconnects in vain, messages where they do not belong.
//!
//! A lost packet must make none of it. Where a rule rests on something that was *not* seen (the event
//! on its own stream, the request that announced a token), it is silent about a session with a gap.

mod asked;
mod broadcast;
mod channel;
mod storm;
mod stray;
mod superseded;

use super::{
    id::{Class, Parts},
    ledger::{Ledger, is_comparable},
    owed::Gaps,
    survey::Survey,
};
use crate::model::{
    case::{Broadcast, Misplaced, ResumeCase, SessionCase, Site, Storm, Stray, Superseded},
    event::Event,
    exchange::{EndCause, Exchange, Source, Window},
    message::PayloadHash,
    place::Place,
    session::Session,
    time::{Span, Timestamp},
    verdict::Verdict,
};
use asked::Asked;
use std::collections::{BTreeMap, BTreeSet};

/// What is looked at.
pub(super) struct Scene<'s, 'a> {
    /// The session.
    pub(super) session: &'s Session,
    /// All exchanges.
    pub(super) exchanges: &'a [Exchange],
    /// The session looked over.
    pub(super) survey: &'s Survey<'a>,
    /// What it delivered.
    pub(super) ledger: &'s Ledger<'a>,
    /// What the capture lacks of it.
    pub(super) gaps: &'s Gaps,
    /// The span of the evidence.
    pub(super) window: Window,
    /// Its resumes, judged, and its refusals.
    pub(super) case: &'s SessionCase,
}

/// What was found.
#[derive(Default)]
pub(super) struct Around {
    superseded: Vec<Superseded>,
    storms: Vec<Storm>,
    strays: Vec<Stray>,
    broadcasts: Vec<Broadcast>,
    misplaced: Vec<Misplaced>,
}

/// Looks at all streams of a session.
pub(super) fn look(scene: &Scene<'_, '_>) -> Around {
    let lines = lines(scene);
    let found = Around {
        superseded: superseded::superseded(scene, &lines),
        storms: storm::storms(scene),
        ..Around::default()
    };
    // An id that was issued twice names several sessions: what belongs where cannot be told.
    if scene.session.issued_by.len() > 1 {
        return found;
    }
    let asked = Asked::of(scene.session, scene.exchanges);
    let said = said(&lines);
    Around {
        strays: stray::strays(scene, &lines, &said, &asked),
        broadcasts: broadcast::broadcasts(scene, &lines, &said)
            .into_iter()
            .collect(),
        misplaced: channel::misplaced(scene, &lines, &asked),
        ..found
    }
}

impl Around {
    /// Enters it into the session's evidence.
    pub(super) fn enter(self, case: &mut SessionCase) {
        case.superseded = self.superseded;
        case.storms = self.storms;
        case.strays = self.strays;
        case.broadcasts = self.broadcasts;
        case.misplaced = self.misplaced;
    }
}

/// What a segment carries: the answer of one POST, or what belongs to no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Channel {
    /// The stream with this index, begun by a POST.
    Post(u32),
    /// The session's standalone stream: every GET without a cursor opens it anew.
    Standalone,
    /// A cursor that nobody was seen to deliver, or a response whose request is not in the capture.
    Unknown,
}

/// A segment, with what the rules ask of it.
struct Line<'a> {
    exchange: &'a Exchange,
    /// The exchange's index.
    number: u32,
    /// Its stream's index.
    stream: u32,
    channel: Channel,
    incarnation: u32,
    /// Index of the resume whose answer it is.
    resume: Option<u32>,
    /// Its events are another log's, or another session's: nothing is said of where they belong.
    alien: bool,
}

impl Line<'_> {
    /// When its head came: from then on it can carry events.
    fn head(&self) -> Timestamp {
        let response = self.exchange.response.as_ref();
        response.map_or(self.exchange.time(), |response| response.time)
    }

    fn is_get(&self) -> bool {
        self.exchange.method() == "GET"
    }

    /// A GET that asks for no place in any log.
    fn is_plain_get(&self) -> bool {
        self.is_get() && self.exchange.cursor().is_none()
    }

    /// Whether its events have times of their own.
    fn is_timed(&self) -> bool {
        matches!(
            self.exchange.source,
            Source::Packets
                | Source::Har {
                    event_times: true,
                    ..
                }
        )
    }

    /// By when an event had come.
    fn came_by(&self, event: &Event) -> Timestamp {
        if self.is_timed() {
            event.time
        } else {
            self.exchange.end.time.max(event.time)
        }
    }

    /// Whether the server ended it, as far as the road tells.
    fn ended_by_server(&self) -> bool {
        matches!(
            self.exchange.end.cause,
            EndCause::StreamEnd
                | EndCause::ServerFin
                | EndCause::ServerRst
                | EndCause::StreamResetByServer
                | EndCause::Goaway
        )
    }

    /// The number of its resume.
    fn resume_number(&self) -> Option<u32> {
        self.resume.map(|index| index + 1)
    }

    /// Where its request stands.
    fn site(&self) -> Site {
        Site {
            resume: self.resume_number(),
            ..Site::of(self.exchange, self.incarnation)
        }
    }

    /// Where one of its events stands.
    fn site_of(&self, event: &Event) -> Site {
        Site {
            resume: self.resume_number(),
            ..Site::of_event(self.exchange, event, self.incarnation)
        }
    }

    /// The id of an event, unless it has none.
    fn id_of(&self, event: &Event) -> Option<&str> {
        let id = event.id.filter(|id| id.len > 0)?;
        Some(self.exchange.text(id))
    }
}

/// The segments of a session in order of opening.
fn lines<'a>(scene: &Scene<'_, 'a>) -> Vec<Line<'a>> {
    let session = scene.session;
    let resume_of: BTreeMap<u32, u32> = (0..)
        .zip(&session.resumes)
        .filter_map(|(index, resume)| Some((resume.segment?, index)))
        .collect();
    let crossed: BTreeSet<Place> = scene
        .case
        .crossings
        .iter()
        .map(|crossing| crossing.site.place)
        .collect();
    (0..)
        .zip(&session.segments)
        .filter_map(|(index, segment)| {
            let exchange = scene.exchanges.get(segment.exchange as usize)?;
            let resume = resume_of.get(&index).copied();
            let forked = resume
                .and_then(|resume| scene.case.resumes.get(resume as usize))
                .is_some_and(|resume: &ResumeCase| resume.row.verdict == Verdict::Forked);
            let asked = exchange.request.as_ref()?.session_id.as_ref();
            let elsewhere = asked.is_some_and(|asked| *asked != session.id);
            Some(Line {
                exchange,
                number: segment.exchange,
                stream: segment.stream,
                channel: channel_of(scene, segment.stream),
                incarnation: scene.ledger.incarnation(index),
                resume,
                alien: forked || elsewhere || crossed.contains(&exchange.place),
            })
        })
        .collect()
}

fn channel_of(scene: &Scene<'_, '_>, stream: u32) -> Channel {
    let Some(facts) = scene.session.streams.get(stream as usize) else {
        return Channel::Unknown;
    };
    if facts.begun_by.is_some() {
        return Channel::Post(stream);
    }
    let first = facts
        .segments
        .first()
        .and_then(|&segment| scene.session.exchange(segment, scene.exchanges));
    match first {
        Some(first) if first.method() == "GET" && first.cursor().is_none() => Channel::Standalone,
        _ => Channel::Unknown,
    }
}

/// The last of the responses that a stream was opened for.
struct Completed {
    time: Timestamp,
    /// Index of the exchange that brought it.
    number: u32,
}

/// When and where a stream had brought all its responses.
fn completed(scene: &Scene<'_, '_>, stream: u32) -> Option<Completed> {
    let place = scene.session.streams.get(stream as usize)?.completed?;
    let number = scene.session.segments.get(place.segment as usize)?.exchange;
    let exchange = scene.exchanges.get(number as usize)?;
    Some(Completed {
        time: exchange.events.get(place.event as usize)?.time,
        number,
    })
}

/// A message that can be compared with others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Said {
    incarnation: u32,
    hash: PayloadHash,
    time: Timestamp,
    /// Index of its line.
    line: u32,
    /// Index into the exchange's events.
    event: u32,
}

impl Said {
    /// Whether two messages of one incarnation say the same.
    fn is_like(&self, other: &Self) -> bool {
        (self.incarnation, self.hash) == (other.incarnation, other.hash)
    }
}

/// All messages, what says the same together, in order of time; nothing where there is only one
/// stream.
fn said(lines: &[Line<'_>]) -> Vec<Said> {
    let mut streams = lines.iter().map(|line| line.stream);
    let first = streams.next();
    if streams.all(|stream| Some(stream) == first) {
        return Vec::new();
    }
    let mut said: Vec<Said> = (0..)
        .zip(lines)
        .flat_map(|(index, line)| {
            (0..)
                .zip(&line.exchange.events)
                .filter(|(_, event)| is_comparable(event))
                .map(move |(number, event)| Said {
                    incarnation: line.incarnation,
                    hash: event.hash,
                    time: event.time,
                    line: index,
                    event: number,
                })
        })
        .collect();
    said.sort_unstable();
    said
}

/// The line and event of a message.
fn find<'l, 'a>(lines: &'l [Line<'a>], said: Said) -> Option<(&'l Line<'a>, Event)> {
    let line = lines.get(said.line as usize)?;
    Some((line, line.exchange.events.get(said.event as usize)?))
}

/// Whether an id is one event's by what it is.
fn is_unique(parts: &Parts<'_>) -> bool {
    parts.tokens.iter().any(|token| {
        matches!(token.class, Class::Uuid(_) | Class::Epoch(_) | Class::Ulid)
            || matches!(token.class, Class::Hex(width) if width >= 16)
    })
}

/// What follows from something follows within this time.
const MOMENT: Span = Span::from_secs(1);
