//! The verdict of one resume (docs/audit.md, "The verdict of a resume"): the first row that applies.
//!
//! Everything is decided from facts seen before or on the answer, but for two looks ahead that the
//! rules ask for: whether a later segment of the stream brings what was owed, and whether anybody
//! ever delivered the ids that seem to be skipped.

mod fork;
mod loss;
mod sequence;
mod silence;

use super::{
    crossing::Crossing,
    ledger::{Ledger, Log},
    order::Relation,
    owed::Gaps,
    survey::Survey,
};
use crate::model::{
    case::{Fork, Sequence},
    event::Event,
    exchange::{Answer, EndCause, Exchange, Media, Part, Source},
    message::MessageKind,
    prose::{Prose, event_id, prose},
    session::{EventRef, Resumption, Session},
    verdict::{Confidence, IdScheme, Verdict},
};
use std::{cell::OnceCell, collections::BTreeSet};

/// What a resume is judged with.
pub struct Bench<'a> {
    /// The session asked for.
    pub session: &'a Session,
    /// All exchanges.
    pub exchanges: &'a [Exchange],
    /// What the session delivered before.
    pub ledger: &'a Ledger<'a>,
    /// What its exchanges show together.
    pub survey: &'a Survey<'a>,
    /// What the capture lacks of the session.
    pub gaps: &'a Gaps,
    /// The session's initialize is in the capture.
    pub start_seen: bool,
    /// No hole and no lost head on any connection of the service.
    pub service_whole: bool,
    /// The session was refused with 404 or 410, or deleted, before.
    pub gone_before: bool,
    /// An event of the answer that was another session's first.
    pub crossing: Option<Crossing>,
    /// The nonce of the incarnation the cursor belongs to.
    pub nonce: Option<&'a str>,
    /// The newest incarnation so far.
    pub latest: u32,
}

/// A verdict with its evidence.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// How sure.
    pub confidence: Confidence,
    /// Why, in a few words.
    pub reason: Prose,
    /// What proves the fork, when it is one.
    pub fork: Option<Fork>,
    /// How the first message stands to the cursor.
    pub sequence: Sequence,
    /// Messages of the answer that were delivered before with the same payload.
    pub redelivered: u32,
    /// Ids on the log that came with another payload.
    pub reused: Vec<String>,
    /// Ids skipped, when the scheme can tell.
    pub skipped: Option<u64>,
    /// Ids missing or left out, as text; a few.
    pub missing: Vec<Prose>,
    /// A fork whose first message has no id, though every message before had one; whatever proves it.
    pub ids_vanished: bool,
    /// The cursor was accepted, though the session, seen whole, never delivered it.
    pub foreign_cursor: bool,
    /// The scheme of the cursor's ids.
    pub scheme: IdScheme,
    /// The incarnation of the cursor.
    pub incarnation: u32,
    /// Not judged: the history is longer than it may be searched.
    pub worn: bool,
}

/// Ids named in a row at most.
const NAMED: usize = 8;

impl<'a> Bench<'a> {
    /// Judges a resume.
    #[must_use]
    pub fn judge(&self, resumption: &Resumption) -> Decision {
        let Some(exchange) = self.exchanges.get(resumption.exchange as usize) else {
            return self.decision(
                Verdict::Indeterminate,
                Confidence::Low,
                "not in the capture",
                "",
            );
        };
        let cursor = exchange.cursor().unwrap_or_default();
        let mut decision = self.by_status(exchange).map_or_else(
            || self.by_stream(exchange, cursor, resumption),
            |(verdict, confidence, reason)| self.decision(verdict, confidence, reason, cursor),
        );
        decision.incarnation = resumption
            .cursor
            .map_or(self.latest, |place| self.ledger.incarnation(place.segment));
        self.weaken(&mut decision, exchange, resumption);
        decision
    }

    fn decision(
        &self,
        verdict: Verdict,
        confidence: Confidence,
        reason: &'static str,
        cursor: &str,
    ) -> Decision {
        Decision {
            verdict,
            confidence,
            reason: reason.into(),
            fork: None,
            sequence: Sequence::Onward,
            redelivered: 0,
            reused: Vec::new(),
            skipped: None,
            missing: Vec::new(),
            ids_vanished: false,
            foreign_cursor: false,
            scheme: self.ledger.standing(cursor).scheme,
            incarnation: self.latest,
            worn: false,
        }
    }

    /// Rows that need no look at the events: no answer, failures, refusals.
    fn by_status(&self, exchange: &Exchange) -> Option<(Verdict, Confidence, &'static str)> {
        use Confidence::{High, Low, Medium};
        use Verdict::{Failed, Indeterminate, Rejected};
        let Some(response) = exchange
            .response
            .as_ref()
            .filter(|_| !exchange.is_doubtful())
        else {
            return Some(match exchange.end.cause {
                _ if exchange.has_hole(Part::ResponseHead) || self.has_stray_answer(exchange) => (
                    Indeterminate,
                    Low,
                    "the response head is not in the capture",
                ),
                EndCause::CaptureEnd => {
                    (Indeterminate, Medium, "the capture ends before an answer")
                }
                EndCause::Unknown => (Failed, Medium, "no response is recorded"),
                EndCause::Silent => (
                    Indeterminate,
                    Medium,
                    "nothing more was seen of the connection",
                ),
                _ => (Failed, High, "the connection ended before a response"),
            });
        };
        match response.status {
            204 => Some((Rejected, High, "204: no stream is offered")),
            200..=299 if exchange.answer() == Answer::Refused => Some((
                Rejected,
                High,
                "an error about the session in place of a stream",
            )),
            200..=299 if response.media == Media::Json => {
                let errors = !response.messages.is_empty()
                    && response
                        .messages
                        .iter()
                        .all(|m| m.kind == MessageKind::Error);
                Some(if errors {
                    (Rejected, High, "a JSON-RPC error in place of a stream")
                } else {
                    (Indeterminate, Medium, "a success of no known kind")
                })
            }
            200..=299 if is_error_alone(exchange) => Some(if exchange.body_has_hole() {
                (Indeterminate, Low, "a hole covers what would decide")
            } else {
                (Rejected, High, "a JSON-RPC error in place of a stream")
            }),
            200..=299 if response.media == Media::EventStream => None,
            200..=299 => Some((Indeterminate, Medium, "a success of no known kind")),
            408 | 429 | 300..=399 | 500..=599 => {
                Some((Failed, High, "the status says nothing about the session"))
            }
            400..=499 => Some((Rejected, High, "the server refused")),
            _ => Some((Indeterminate, Medium, "a status of no known kind")),
        }
    }

    /// Whether an answer without request may be the one to an exchange that has none.
    fn has_stray_answer(&self, exchange: &Exchange) -> bool {
        let gaps = self.gaps;
        gaps.headless_between(exchange.time(), exchange.end.time)
    }

    /// An accepted resume: what came decides.
    fn by_stream(&self, exchange: &'a Exchange, cursor: &str, resumption: &Resumption) -> Decision {
        let origin = resumption
            .cursor
            .and_then(|place| Some((place, self.event(place)?.1)));
        let incarnation = origin.map_or(self.latest, |(place, _)| {
            self.ledger.incarnation(place.segment)
        });
        let log = self.ledger.log(
            resumption.stream,
            incarnation,
            cursor,
            origin.map(|(_, event)| event.time),
            resumption
                .cursor
                .and_then(|place| self.session.exchange(place.segment, self.exchanges))
                .and_then(|exchange| self.ledger.backend(exchange)),
        );
        let answer = Reply::read(exchange);
        let view = View {
            bench: self,
            exchange,
            cursor,
            resumption,
            origin: origin.map(|(place, _)| place),
            log,
            answer,
            doubled: OnceCell::new(),
        };
        let worn = |bench: &Self| {
            let reason = "the history of the session is too long to be searched again and again";
            Decision {
                worn: true,
                ..bench.decision(Verdict::Indeterminate, Confidence::Low, reason, cursor)
            }
        };
        if self.ledger.is_worn() {
            return worn(self);
        }
        let decision = view.decide();
        // What was left out on the way may have decided.
        if self.ledger.is_worn() {
            return worn(self);
        }
        Decision {
            foreign_cursor: view.is_foreign(),
            ids_vanished: decision.verdict == Verdict::Forked && view.ids_vanished(),
            ..decision
        }
    }

    /// Holes and missing starts take certainty away, whatever the verdict.
    fn weaken(&self, decision: &mut Decision, exchange: &Exchange, resumption: &Resumption) {
        if matches!(decision.verdict, Verdict::Rejected | Verdict::Failed) {
            return;
        }
        let mut lower = |to: Confidence, reason: &'static str| {
            if to < decision.confidence {
                decision.confidence = to;
                if decision.reason.is_empty() {
                    decision.reason = reason.into();
                } else {
                    decision.reason = prose!("{}; {}", decision.reason, reason);
                }
            }
        };
        let stream_holes = self.survey.has_holes(resumption.stream);
        if exchange.body_has_hole() || stream_holes {
            let har = matches!(exchange.source, Source::Har { .. });
            lower(
                Confidence::Low,
                if har {
                    "bodies are not recorded"
                } else {
                    "bytes are missing nearby"
                },
            );
        }
        let before = resumption
            .cursor
            .and_then(|place| self.session.exchange(place.segment, self.exchanges));
        let nameless = before
            .into_iter()
            .chain([exchange])
            .any(|exchange| self.ledger.hides_backend(exchange));
        if decision.verdict == Verdict::Continued && nameless {
            lower(
                Confidence::Medium,
                "which backend served the stream is not in the capture",
            );
        }
        // What would have told otherwise may be missing elsewhere in the session, the cursor's own event
        // among it.
        if self.gaps.any() && matches!(decision.verdict, Verdict::Continued | Verdict::Empty) {
            let cursor_seen = resumption.cursor.is_some();
            lower(
                if cursor_seen {
                    Confidence::Medium
                } else {
                    Confidence::Low
                },
                "something of the session is not in the capture",
            );
        }
        if !self.start_seen && decision.fork != Some(Fork::OtherSession) {
            lower(
                Confidence::Medium,
                "the session's start is not in the capture",
            );
        }
    }

    fn event(&self, place: EventRef) -> Option<(&'a Exchange, Event)> {
        let exchange = self.session.exchange(place.segment, self.exchanges)?;
        Some((exchange, exchange.events.get(place.event as usize)?))
    }
}

/// Whether all that is seen of an event stream is an error that answers no request.
fn is_error_alone(exchange: &Exchange) -> bool {
    let mut messages = exchange.events.iter().filter(Event::is_message);
    let error = messages.next().is_some_and(|event| {
        event.message == MessageKind::Error && event.rpc_id.is_none() && event.id.is_none()
    });
    error && messages.next().is_none()
}

/// The messages of an answer.
struct Reply {
    /// Messages with their index among the events.
    messages: Vec<(u32, Event)>,
    /// A hole lies before the first of them (or anywhere, without one).
    hole_before: bool,
}

impl Reply {
    fn read(exchange: &Exchange) -> Self {
        let messages: Vec<(u32, Event)> = exchange
            .events
            .iter()
            .enumerate()
            .filter(|(_, event)| event.is_message())
            .filter_map(|(index, event)| Some((u32::try_from(index).ok()?, event)))
            .collect();
        let before = messages.first().map_or(u32::MAX, |(index, _)| *index);
        let hole_before = exchange
            .holes
            .iter()
            .any(|hole| hole.part == Part::ResponseBody && hole.after_events <= before)
            || messages.is_empty() && exchange.body_has_hole();
        Self {
            messages,
            hole_before,
        }
    }
}

/// How a message of the answer stands to what was delivered before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Its id is new on the log, or cannot be compared.
    No,
    /// Delivered before with the same payload, at or before the cursor.
    Again,
    /// Seen before with the same payload, after the cursor: the right continuation.
    AgainAfter,
    /// Seen before with another payload.
    Other,
}

/// An accepted resume, laid out for judgement.
struct View<'b, 'a> {
    bench: &'b Bench<'a>,
    exchange: &'a Exchange,
    cursor: &'b str,
    resumption: &'b Resumption,
    origin: Option<EventRef>,
    log: Log,
    answer: Reply,
    doubled: OnceCell<BTreeSet<&'a str>>,
}

impl<'a> View<'_, 'a> {
    fn decide(&self) -> Decision {
        let mut decision =
            self.bench
                .decision(Verdict::Continued, Confidence::High, "", self.cursor);
        if let Some(given) = self.other_session() {
            decision.verdict = Verdict::Forked;
            decision.fork = Some(Fork::OtherSession);
            decision.reason = prose!("answered under another session id, {}", given);
            self.note_sequence(&mut decision);
            self.note_reuse(&mut decision);
            return decision;
        }
        if self.answer.messages.is_empty() {
            self.without_message(&mut decision);
            return decision;
        }
        self.note_sequence(&mut decision);
        self.note_reuse(&mut decision);
        if let Some((fork, confidence, reason)) = self.fork(&decision) {
            if fork.rests_on_history() && self.history_is_torn() {
                decision.verdict = Verdict::Indeterminate;
                decision.confidence = Confidence::Low;
                decision.reason = "something is missing between cursor and resume".into();
                return decision;
            }
            decision.verdict = Verdict::Forked;
            decision.fork = Some(fork);
            decision.confidence = confidence;
            decision.reason = reason;
            return decision;
        }
        if self.is_marker() {
            decision.confidence = Confidence::Medium;
            decision.reason = "the cursor is the session id, which has no order".into();
            return decision;
        }
        if self.answer.hole_before {
            self.behind_a_hole(&mut decision);
            return decision;
        }
        if self.goes_back() {
            let torn = self.bench.start_seen || self.bench.gaps.any();
            if self.restarts() && self.origin.is_none() && torn {
                // Nobody delivered the cursor that it goes back from: the packets that did are lost.
                decision.verdict = Verdict::Indeterminate;
                decision.confidence = Confidence::Low;
                decision.reason = "the cursor's own event is not in the capture".into();
                return decision;
            }
            decision.verdict = Verdict::Replayed;
            if decision.sequence == Sequence::CursorAgain {
                decision.reason = "the cursor's own event came again".into();
            } else if decision.redelivered > 0 {
                decision.reason = "events delivered before came again, unchanged".into();
            } else {
                decision.reason = "it goes back before what the capture shows".into();
                decision.confidence = Confidence::Medium;
            }
            return decision;
        }
        self.note_skipped(&mut decision);
        let left_out = self.left_out();
        if !left_out.is_empty() && self.history_is_torn() {
            decision.verdict = Verdict::Indeterminate;
            decision.confidence = Confidence::Low;
            decision.reason = "something is missing between cursor and resume".into();
            return decision;
        }
        if decision.skipped.is_some_and(|skipped| skipped > 0) || !left_out.is_empty() {
            decision.verdict = Verdict::Lossy;
            decision.reason = match decision.skipped {
                Some(skipped) if skipped > 0 => {
                    prose!("{} ids between cursor and answer never came", skipped)
                }
                _ if left_out.len() == 1 => "1 event seen after the cursor was left out".into(),
                _ => prose!(
                    "{} events seen after the cursor were left out",
                    left_out.len()
                ),
            };
            if decision.scheme == IdScheme::Observed {
                decision.confidence = Confidence::Medium;
            }
            decision.missing.extend(
                left_out
                    .into_iter()
                    .take(NAMED)
                    .map(|id| event_id(&id).into()),
            );
            return decision;
        }
        self.continued(&mut decision);
        decision
    }

    /// With bytes missing before the first message only what was seen can be said.
    fn behind_a_hole(&self, decision: &mut Decision) {
        let first = self.first();
        let onward = first.is_some_and(|first| self.relation(first) == Relation::After);
        decision.confidence = Confidence::Low;
        if onward {
            decision.reason = "bytes before the first message seen are missing".into();
        } else {
            decision.verdict = Verdict::Indeterminate;
            decision.reason = "a hole covers what would decide".into();
        }
    }

    fn continued(&self, decision: &mut Decision) {
        let Some(first) = self.first() else { return };
        let index = self.answer.messages.first().map_or(0, |(index, _)| *index);
        let follows = self.relation(first) == Relation::After
            || self.known(index, first) == Known::AgainAfter
            || self.only_primed(first);
        if !follows {
            decision.confidence = Confidence::Medium;
            decision.reason = if self.id_of(first).is_none() {
                "what came has no ids to judge by".into()
            } else if self.origin.is_none() {
                "the cursor was not seen, the order of its ids is not known".into()
            } else {
                "the order of ids is only observed".into()
            };
        } else if self.resumption.ambiguous {
            decision.confidence = Confidence::Low;
            decision.reason = "several streams delivered the cursor".into();
        } else if self.bench.ledger.standing(self.cursor).contradicted {
            decision.confidence = Confidence::Medium;
            decision.reason = "ids of this kind were seen out of order".into();
        } else if self.origin.is_none() {
            decision.confidence = Confidence::Medium;
            decision.reason = "the cursor was not seen; what came is behind it".into();
        }
    }
}

/// An event's id as it is shown, or what it is.
fn label(exchange: &Exchange, event: &Event) -> Prose {
    match event.id.filter(|id| id.len > 0) {
        Some(id) => event_id(exchange.text(id)).into(),
        None => prose!("{} without id", event.message.name()),
    }
}
