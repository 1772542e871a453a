//! What the streams of one session show side by side, once all its resumes are judged: a stream
//! that takes another's place, reconnects in vain.
//!
//! A lost packet must make none of it. Where a rule rests on something that was *not* seen (the event
//! on its own stream, the request that announced a token), it is silent about a session with a gap.

mod storm;
mod superseded;

use super::{ledger::Ledger, owed::Gaps, survey::Survey};
use crate::model::{
    case::{SessionCase, Site, Storm, Superseded},
    exchange::{EndCause, Exchange, Window},
    session::Session,
    time::{Span, Timestamp},
};
use std::collections::BTreeMap;

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
}

/// Looks at all streams of a session.
pub(super) fn look(scene: &Scene<'_, '_>) -> Around {
    let lines = lines(scene);
    Around {
        superseded: superseded::superseded(scene, &lines),
        storms: storm::storms(scene),
    }
}

impl Around {
    /// Enters it into the session's evidence.
    pub(super) fn enter(self, case: &mut SessionCase) {
        case.superseded = self.superseded;
        case.storms = self.storms;
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
    /// Its stream's index.
    stream: u32,
    channel: Channel,
    incarnation: u32,
    /// Index of the resume whose answer it is.
    resume: Option<u32>,
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

    /// Whether the server ended it, as far as the road tells.
    fn ended_by_server(&self) -> bool {
        matches!(
            self.exchange.end.cause,
            EndCause::StreamEnd | EndCause::ServerFin | EndCause::ServerRst
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
}

/// The segments of a session in order of opening.
fn lines<'a>(scene: &Scene<'_, 'a>) -> Vec<Line<'a>> {
    let session = scene.session;
    let resume_of: BTreeMap<u32, u32> = (0..)
        .zip(&session.resumes)
        .filter_map(|(index, resume)| Some((resume.segment?, index)))
        .collect();
    (0..)
        .zip(&session.segments)
        .filter_map(|(index, segment)| {
            let exchange = scene.exchanges.get(segment.exchange as usize)?;
            let resume = resume_of.get(&index).copied();
            Some(Line {
                exchange,
                stream: segment.stream,
                channel: channel_of(scene, segment.stream),
                incarnation: scene.ledger.incarnation(index),
                resume,
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

/// When a stream had brought all its responses.
fn completed(scene: &Scene<'_, '_>, stream: u32) -> Option<Timestamp> {
    let place = scene.session.streams.get(stream as usize)?.completed?;
    let exchange = scene.session.exchange(place.segment, scene.exchanges)?;
    Some(exchange.events.get(place.event as usize)?.time)
}

/// What follows from something follows within this time.
const MOMENT: Span = Span::from_secs(1);
