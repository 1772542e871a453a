//! The verdict of one resume (AUDIT, "The verdict of a resume"): the first row that applies.
//!
//! Everything is decided from facts seen before or on the answer, but for two looks ahead that the
//! rules ask for: whether a later segment of the stream brings what was owed, and whether anybody
//! ever delivered the ids that seem to be skipped.

use super::{
    id::Number,
    ledger::{Ledger, Log, agrees, differs},
    order::{Relation, compare},
    owed::{Gaps, patience, retry_before, stream_pending},
};
use crate::model::{
    case::{Fork, Sequence},
    event::Event,
    exchange::{Answer, EndCause, Exchange, Media, Part, Source, Window},
    message::{MessageKind, PayloadHash},
    session::{EventRef, Resumption, Session, Stream},
    time::Span,
    verdict::{Confidence, IdScheme, Verdict},
};
use std::collections::BTreeSet;

/// What a resume is judged with.
pub struct Bench<'a> {
    /// The session asked for.
    pub session: &'a Session,
    /// All exchanges.
    pub exchanges: &'a [Exchange],
    /// What the session delivered before.
    pub ledger: &'a Ledger<'a>,
    /// The span of the evidence.
    pub window: Window,
    /// What the capture lacks of the session.
    pub gaps: &'a Gaps,
    /// The session's initialize is in the capture.
    pub start_seen: bool,
    /// No hole and no lost head on any connection of the service.
    pub service_whole: bool,
    /// The session was refused with 404 or 410, or deleted, before.
    pub gone_before: bool,
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
    pub reason: String,
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
    pub missing: Vec<String>,
    /// The scheme of the cursor's ids.
    pub scheme: IdScheme,
    /// The incarnation of the cursor.
    pub incarnation: u32,
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
        reason: &str,
        cursor: &str,
    ) -> Decision {
        Decision {
            verdict,
            confidence,
            reason: reason.to_owned(),
            fork: None,
            sequence: Sequence::Onward,
            redelivered: 0,
            reused: Vec::new(),
            skipped: None,
            missing: Vec::new(),
            scheme: self.ledger.standing(cursor).scheme,
            incarnation: self.latest,
        }
    }

    /// Rows that need no look at the events: no answer, failures, refusals.
    fn by_status(&self, exchange: &Exchange) -> Option<(Verdict, Confidence, &'static str)> {
        use Confidence::{High, Low, Medium};
        use Verdict::{Failed, Indeterminate, Rejected};
        let Some(response) = &exchange.response else {
            return Some(match exchange.end.cause {
                _ if exchange.has_hole(Part::ResponseHead) => (
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
            200..=299 if response.media == Media::EventStream => None,
            200..=299 => Some((Indeterminate, Medium, "a success of no known kind")),
            408 | 429 | 300..=399 | 500..=599 => {
                Some((Failed, High, "the status says nothing about the session"))
            }
            400..=499 => Some((Rejected, High, "the server refused")),
            _ => Some((Indeterminate, Medium, "a status of no known kind")),
        }
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
        };
        view.decide()
    }

    /// Holes and missing starts take certainty away, whatever the verdict.
    fn weaken(&self, decision: &mut Decision, exchange: &Exchange, resumption: &Resumption) {
        if matches!(decision.verdict, Verdict::Rejected | Verdict::Failed) {
            return;
        }
        let mut lower = |to: Confidence, reason: &str| {
            if to < decision.confidence {
                decision.confidence = to;
                if decision.reason.is_empty() {
                    decision.reason = reason.to_owned();
                } else {
                    decision.reason = format!("{}; {reason}", decision.reason);
                }
            }
        };
        let stream_holes = resumption
            .stream
            .and_then(|stream| self.session.streams.get(stream as usize))
            .is_some_and(|stream| self.stream_has_holes(stream));
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
        if !self.start_seen && decision.fork != Some(Fork::OtherSession) {
            lower(
                Confidence::Medium,
                "the session's start is not in the capture",
            );
        }
    }

    fn stream_has_holes(&self, stream: &Stream) -> bool {
        stream.segments.iter().any(|&segment| {
            self.session
                .exchange(segment, self.exchanges)
                .is_some_and(Exchange::body_has_hole)
        })
    }

    fn event(&self, place: EventRef) -> Option<(&'a Exchange, &'a Event)> {
        let exchange = self.session.exchange(place.segment, self.exchanges)?;
        Some((exchange, exchange.events.get(place.event as usize)?))
    }
}

/// The messages of an answer.
struct Reply<'a> {
    /// Messages with their index among the events.
    messages: Vec<(u32, &'a Event)>,
    /// A hole lies before the first of them (or anywhere, without one).
    hole_before: bool,
}

impl<'a> Reply<'a> {
    fn read(exchange: &'a Exchange) -> Self {
        let messages: Vec<(u32, &Event)> = exchange
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
    answer: Reply<'a>,
}

impl<'a> View<'_, 'a> {
    fn decide(&self) -> Decision {
        let mut decision =
            self.bench
                .decision(Verdict::Continued, Confidence::High, "", self.cursor);
        if let Some(given) = self.other_session() {
            decision.verdict = Verdict::Forked;
            decision.fork = Some(Fork::OtherSession);
            decision.reason = format!("answered under another session id, {given}");
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
                decision.reason =
                    "an answer whose request is lost came between cursor and resume".to_owned();
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
            decision.reason = "the cursor is the session id, which has no order".to_owned();
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
                decision.reason = "the cursor's own event is not in the capture".to_owned();
                return decision;
            }
            decision.verdict = Verdict::Replayed;
            if decision.sequence == Sequence::CursorAgain {
                decision.reason = "the cursor's own event came again".to_owned();
            } else if decision.redelivered > 0 {
                decision.reason = "events delivered before came again, unchanged".to_owned();
            } else {
                decision.reason = "it goes back before what the capture shows".to_owned();
                decision.confidence = Confidence::Medium;
            }
            return decision;
        }
        self.note_skipped(&mut decision);
        let left_out = self.left_out();
        if decision.skipped.is_some_and(|skipped| skipped > 0) || !left_out.is_empty() {
            decision.verdict = Verdict::Lossy;
            decision.reason = match decision.skipped {
                Some(skipped) if skipped > 0 => {
                    format!("{skipped} ids between cursor and answer never came")
                }
                _ => format!(
                    "{} events seen after the cursor were left out",
                    left_out.len()
                ),
            };
            if decision.scheme == IdScheme::Observed {
                decision.confidence = Confidence::Medium;
            }
            decision.missing.extend(left_out.into_iter().take(NAMED));
            return decision;
        }
        self.continued(&mut decision);
        decision
    }

    // --- no message ---------------------------------------------------------------------------

    fn without_message(&self, decision: &mut Decision) {
        let mut say = |verdict, confidence, reason: &str| {
            decision.verdict = verdict;
            decision.confidence = confidence;
            decision.reason = reason.to_owned();
        };
        if self.answer.hole_before || self.resumption.ambiguous {
            say(
                Verdict::Indeterminate,
                Confidence::Low,
                "the answer's bytes are not in the capture",
            );
            return;
        }
        let open = self.exchange.is_open();
        let unanswered = self.response_unanswered();
        let pending = unanswered && self.response_pending();
        if open && pending {
            say(
                Verdict::Indeterminate,
                Confidence::Medium,
                "still open, its response pending, when the capture ends",
            );
            return;
        }
        let seen_after = self.seen_after();
        let owes_response = unanswered && !pending && !self.answered_later();
        if seen_after.is_empty() && !owes_response {
            let unknown = self.origin.is_none();
            say(
                Verdict::Empty,
                if unknown {
                    Confidence::Medium
                } else {
                    Confidence::High
                },
                if unknown {
                    "nothing came; what the cursor stands for was not seen"
                } else {
                    "nothing came and nothing was owed"
                },
            );
            return;
        }
        let owed = if seen_after.is_empty() {
            "the response of the stream's request".to_owned()
        } else {
            format!("{} events seen after the cursor", seen_after.len())
        };
        let waited = self.exchange.end.time.since(self.exchange.time());
        let patient = waited >= self.patience();
        match self.exchange.end.cause {
            EndCause::StreamEnd | EndCause::ServerFin | EndCause::ServerRst | EndCause::Goaway => {
                say(
                    Verdict::Ignored,
                    Confidence::High,
                    &format!("the server ended it without {owed}"),
                );
            }
            EndCause::ClientFin | EndCause::ClientRst | EndCause::StreamReset if patient => say(
                Verdict::Ignored,
                Confidence::High,
                &format!("the client gave up without {owed}"),
            ),
            EndCause::CaptureEnd if patient && !seen_after.is_empty() => say(
                Verdict::Ignored,
                Confidence::Medium,
                &format!("open without {owed} when the capture ends"),
            ),
            EndCause::Unknown if self.exchange.response.as_ref().is_some_and(|r| r.complete) => {
                say(
                    Verdict::Ignored,
                    Confidence::Medium,
                    &format!("it ended without {owed}"),
                );
            }
            _ => say(
                Verdict::Indeterminate,
                Confidence::Medium,
                "it ended too soon to tell whether anything would have come",
            ),
        }
        decision.missing.extend(seen_after.into_iter().take(NAMED));
    }

    // --- forks --------------------------------------------------------------------------------

    fn other_session(&self) -> Option<&'a str> {
        let given = self.exchange.response.as_ref()?.session_id.as_deref()?;
        (given != &*self.bench.session.id && !given.is_empty()).then_some(given)
    }

    fn fork(&self, decision: &Decision) -> Option<(Fork, Confidence, String)> {
        let first = self.first()?;
        let given = self
            .exchange
            .response
            .as_ref()
            .and_then(|r| r.incarnation.as_deref());
        if let (Some(before), Some(after)) = (self.bench.nonce, given)
            && before != after
        {
            return Some((
                Fork::Nonce,
                Confidence::High,
                "the incarnation's nonce changed".to_owned(),
            ));
        }
        if let Some(id) = decision.reused.first() {
            return Some((
                Fork::OtherPayload,
                Confidence::High,
                format!("id {id} came before with another payload"),
            ));
        }
        let back =
            decision.sequence == Sequence::Back || decision.sequence == Sequence::CursorAgain;
        let stranger = back && decision.redelivered == 0 || first.id.is_none() && self.ids_before();
        if self.bench.gone_before && stranger && !self.answer.hole_before && !self.bench.gaps.any()
        {
            return Some((
                Fork::Revived,
                Confidence::High,
                "the session was refused or deleted before, and this is not its log".to_owned(),
            ));
        }
        if back && self.restarts() && self.log_seen() {
            return Some((
                Fork::Restart,
                Confidence::High,
                format!(
                    "it starts again at {}, which is not behind the cursor",
                    self.id_of(first).unwrap_or_default()
                ),
            ));
        }
        if first.id.is_none() && self.ids_before() && !self.answer.hole_before {
            return Some((
                Fork::IdsVanished,
                Confidence::High,
                "the first message has no id; every message before had one".to_owned(),
            ));
        }
        let unknown = self.origin.is_none() && self.bench.ledger.seen(self.cursor).is_empty();
        let after = self.relation(first) == Relation::After;
        if unknown
            && !after
            && self.bench.start_seen
            && self.bench.service_whole
            && !self.is_marker()
        {
            return Some((
                Fork::ForeignCursor,
                Confidence::Medium,
                "nobody delivered this cursor, and what came is not behind it".to_owned(),
            ));
        }
        None
    }

    /// Whether the stream may have gone on, or forked already, where the capture shows no request: an
    /// answer without one came after the cursor was delivered.
    fn history_is_torn(&self) -> bool {
        let delivered = self
            .origin
            .and_then(|place| self.bench.event(place))
            .map(|(_, event)| event.time);
        delivered.is_some_and(|from| self.bench.gaps.headless_between(from, self.exchange.time()))
    }

    /// F3: what comes is at or below the cursor and none of it is a redelivery.
    fn restarts(&self) -> bool {
        !self.answer.messages.iter().any(|(index, message)| {
            matches!(
                self.known(*index, message),
                Known::Again | Known::AgainAfter
            )
        })
    }

    /// Whether the log's start, or the very ids that come, were seen before without a hole.
    fn log_seen(&self) -> bool {
        let whole = |exchange: &Exchange| !exchange.body_has_hole();
        let clean = self
            .bench
            .ledger
            .segments_of(&self.log)
            .all(|(_, exchange)| whole(exchange));
        if self.origin.is_none() || !clean || self.answer.hole_before {
            return false;
        }
        let Some(first) = self.first() else {
            return false;
        };
        let start = if self.log.shared {
            self.bench.start_seen && self.bench.service_whole
        } else {
            // The stream's own start: its first segment was asked for without a cursor.
            self.resumption
                .stream
                .and_then(|stream| self.bench.session.streams.get(stream as usize))
                .and_then(|stream| stream.segments.first())
                .and_then(|&segment| self.bench.session.exchange(segment, self.bench.exchanges))
                .is_some_and(|exchange| exchange.request.is_some() && exchange.cursor().is_none())
        };
        let ids = self.id_of(first).is_some_and(|id| {
            self.bench
                .ledger
                .seen(id)
                .iter()
                .any(|seen| self.bench.ledger.is_of(&self.log, seen, id))
        });
        start || ids
    }

    /// F4: every message before had an id of its own, and there was one. A stream that had no
    /// message yet is measured by the session's others.
    fn ids_before(&self) -> bool {
        if self.bench.gaps.any() {
            return false;
        }
        let own = self
            .resumption
            .stream
            .map(|stream| self.tally(Some(stream)));
        match own {
            Some((with, without)) if with + without > 0 => without == 0,
            _ if self.origin.is_some() => {
                let (with, without) = self.tally(None);
                with > 0 && without == 0
            }
            _ => false,
        }
    }

    /// Messages with and without an id before this resume, on one stream or on all. Segments that
    /// lost their ids on an earlier resume do not count.
    fn tally(&self, stream: Option<u32>) -> (u32, u32) {
        let (mut with, mut without) = (0, 0);
        for segment in &self.bench.session.segments {
            if stream.is_some_and(|stream| segment.stream != stream)
                || segment.open >= self.exchange.time()
            {
                continue;
            }
            let Some(exchange) = self.bench.exchanges.get(segment.exchange as usize) else {
                continue;
            };
            let messages = || exchange.events.iter().filter(|event| event.is_message());
            if exchange.cursor().is_some()
                && messages().next().is_some_and(|event| event.id.is_none())
            {
                continue;
            }
            for event in messages() {
                if event.id.is_some_and(|id| id.len > 0) {
                    with += 1;
                } else {
                    without += 1;
                }
            }
        }
        (with, without)
    }

    // --- order --------------------------------------------------------------------------------

    fn first(&self) -> Option<&'a Event> {
        self.answer.messages.first().map(|(_, event)| *event)
    }

    fn id_of(&self, event: &Event) -> Option<&'a str> {
        event
            .id
            .filter(|id| id.len > 0)
            .map(|id| self.exchange.text(id))
    }

    fn is_marker(&self) -> bool {
        self.cursor == &*self.bench.session.id
    }

    fn relation(&self, event: &Event) -> Relation {
        let Some(id) = self.id_of(event) else {
            return Relation::Unordered;
        };
        if id == self.cursor {
            return Relation::Same;
        }
        compare(
            &self.bench.ledger.standing(id),
            &self.bench.ledger.standing(self.cursor),
        )
    }

    /// Whether a message was on the log before, and with which payload. A redelivery counts
    /// wherever one fits: an id may have had two payloads before.
    fn known(&self, index: u32, event: &Event) -> Known {
        let Some(id) = self.id_of(event) else {
            return Known::No;
        };
        let mut other = false;
        let mut after = false;
        for seen in self.bench.ledger.seen(id) {
            if seen.time > event.time || !self.bench.ledger.is_of(&self.log, seen, id) {
                continue;
            }
            if Some(seen.place.segment) == self.resumption.segment && seen.place.event >= index {
                continue;
            }
            if agrees(seen, event) {
                if self.at_or_before_cursor(seen.place) {
                    return Known::Again;
                }
                after = true;
            }
            other |= differs(seen, event);
        }
        // An id that had two payloads before may have had a third in a hole.
        if other && !after && self.bench.gaps.any() && self.had_two_payloads(id) {
            return Known::No;
        }
        match (after, other) {
            (true, _) => Known::AgainAfter,
            (false, true) => Known::Other,
            (false, false) => Known::No,
        }
    }

    /// Whether an id came with two payloads on the log before, or does so on the answer itself.
    fn had_two_payloads(&self, id: &str) -> bool {
        let ledger = self.bench.ledger;
        let before = ledger
            .seen(id)
            .iter()
            .filter(|seen| seen.comparable && ledger.is_of(&self.log, seen, id))
            .map(|seen| seen.hash);
        let here = self
            .answer
            .messages
            .iter()
            .filter(|(_, event)| self.id_of(event) == Some(id))
            .map(|(_, event)| event.hash);
        let differ = |mut hashes: Box<dyn Iterator<Item = PayloadHash> + '_>| {
            let first = hashes.next();
            hashes.any(|hash| Some(hash) != first)
        };
        differ(Box::new(before)) || differ(Box::new(here))
    }

    /// Whether a sighting stands at or before the cursor's last delivery: by number where the ids
    /// have one, else by its place on the stream.
    fn at_or_before_cursor(&self, place: EventRef) -> bool {
        let Some((exchange, event)) = self.bench.event(place) else {
            return false;
        };
        let id = event.id.map_or("", |id| exchange.text(id));
        if id == self.cursor {
            return true;
        }
        match compare(
            &self.bench.ledger.standing(id),
            &self.bench.ledger.standing(self.cursor),
        ) {
            Relation::Before | Relation::Same => true,
            Relation::After => false,
            Relation::Unordered => self.origin.is_some_and(|origin| place <= origin),
        }
    }

    fn goes_back(&self) -> bool {
        let first_back = self.first().is_some_and(|first| self.is_back(first));
        first_back
            || self
                .answer
                .messages
                .iter()
                .any(|(index, event)| self.known(*index, event) == Known::Again)
    }

    /// At or before the cursor, by number; by what was seen where numbers do not tell.
    fn is_back(&self, event: &Event) -> bool {
        match self.relation(event) {
            Relation::Before | Relation::Same => true,
            Relation::After => false,
            Relation::Unordered => self.id_of(event).is_some_and(|id| {
                self.bench.ledger.seen(id).iter().any(|seen| {
                    self.bench.ledger.is_of(&self.log, seen, id)
                        && seen.time < self.exchange.time()
                        && self.origin.is_some_and(|origin| seen.place <= origin)
                })
            }),
        }
    }

    fn note_sequence(&self, decision: &mut Decision) {
        for (index, event) in &self.answer.messages {
            if matches!(self.known(*index, event), Known::Again | Known::AgainAfter) {
                decision.redelivered += 1;
            }
        }
        let Some(first) = self.first().filter(|_| !self.is_marker()) else {
            return;
        };
        if !self.is_back(first) {
            return;
        }
        let earlier = self
            .answer
            .messages
            .iter()
            .any(|(_, event)| self.id_of(event) != Some(self.cursor) && self.is_back(event));
        decision.sequence = if self.id_of(first) == Some(self.cursor) && !earlier {
            Sequence::CursorAgain
        } else {
            Sequence::Back
        };
    }

    fn note_reuse(&self, decision: &mut Decision) {
        for (index, event) in &self.answer.messages {
            if self.known(*index, event) == Known::Other
                && decision.reused.len() < NAMED
                && let Some(id) = self.id_of(event)
            {
                decision.reused.push(id.to_owned());
            }
        }
    }

    // --- losses -------------------------------------------------------------------------------

    /// Dense ids between cursor and first message that nobody ever delivered.
    fn note_skipped(&self, decision: &mut Decision) {
        if decision.scheme != IdScheme::Dense {
            return;
        }
        let ledger = self.bench.ledger;
        let cursor = ledger.standing(self.cursor);
        let Some(first) = self.first().and_then(|first| self.id_of(first)) else {
            return;
        };
        let standing = ledger.standing(first);
        if standing.key != cursor.key {
            return;
        }
        let (Some(from), Some(to)) = (cursor.number, standing.number) else {
            return;
        };
        let Some(apart) = to.minus(&from) else { return };
        if self.log_is_torn() {
            return;
        }
        // By whoever shares the log: other streams, before or after, and the answer itself. A later
        // replay of the stream does not undo that this answer skipped them.
        let mut brought: BTreeSet<u128> = ledger
            .brought_elsewhere(self.cursor, &from, &to)
            .filter_map(|number| Number::Small(number).minus(&from))
            .collect();
        for (index, segment) in self.bench.session.segments.iter().enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let this_log = ledger
                .entered(index)
                .is_none_or(|incarnation| incarnation == self.log.incarnation);
            let own = Some(segment.stream) == self.resumption.stream;
            let same_log = if own {
                Some(index) == self.resumption.segment
            } else {
                self.log.shared && this_log
            };
            let exchange = self.bench.exchanges.get(segment.exchange as usize);
            let Some(exchange) = exchange.filter(|_| same_log) else {
                continue;
            };
            for event in &exchange.events {
                let Some(id) = event.id.filter(|id| id.len > 0).map(|id| exchange.text(id)) else {
                    continue;
                };
                let other = ledger.standing(id);
                if other.key == cursor.key
                    && let Some(number) =
                        other.number.as_ref().and_then(|number| number.minus(&from))
                    && number > 0
                    && number < apart
                {
                    brought.insert(number);
                }
            }
        }
        let missing = apart
            .saturating_sub(1)
            .saturating_sub(brought.len() as u128);
        decision.skipped = Some(u64::try_from(missing).unwrap_or(u64::MAX));
        if missing > 0 {
            decision.missing.extend(
                (1..apart)
                    .filter(|n| !brought.contains(n))
                    .take(NAMED)
                    .map(|n| format!("cursor + {n}")),
            );
        }
    }

    /// Whether ids of the log may have gone where the capture does not show them: a hole in a
    /// segment that shares the counter, or another stream of it that was cut and not resumed yet.
    fn log_is_torn(&self) -> bool {
        let mine = self.resumption.stream;
        let holes = self
            .bench
            .ledger
            .segments_of(&self.log)
            .any(|(_, e)| e.body_has_hole());
        if holes || self.exchange.body_has_hole() {
            return true;
        }
        // Which streams share the counter is not known while one may be missing altogether.
        if self.bench.gaps.any() {
            return true;
        }
        if !self.log.shared {
            return false;
        }
        let start = self.exchange.time();
        self.bench
            .session
            .streams
            .iter()
            .enumerate()
            .any(|(index, stream)| {
                if Some(index) == mine.map(|stream| stream as usize) {
                    return false;
                }
                let complete = stream
                    .completed
                    .and_then(|place| self.bench.event(place))
                    .is_some_and(|(_, event)| event.time <= start);
                let cut = stream.segments.iter().any(|&segment| {
                    self.bench
                        .session
                        .exchange(segment, self.bench.exchanges)
                        .is_some_and(|e| e.time() < start && e.end.time < start)
                });
                !complete && cut
            })
    }

    /// Messages of the stream seen on the wire after the cursor.
    fn seen_after(&self) -> Vec<String> {
        self.messages_after()
            .into_iter()
            .map(|(_, event, exchange)| label(exchange, event))
            .collect()
    }

    fn messages_after(&self) -> Vec<(EventRef, &'a Event, &'a Exchange)> {
        let mut after = Vec::new();
        let (Some(origin), Some(stream)) = (self.origin, self.resumption.stream) else {
            return after;
        };
        let Some(stream) = self.bench.session.streams.get(stream as usize) else {
            return after;
        };
        let start = self.exchange.time();
        for &segment in &stream.segments {
            if segment < origin.segment || Some(segment) == self.resumption.segment {
                continue;
            }
            let Some(exchange) = self.bench.session.exchange(segment, self.bench.exchanges) else {
                continue;
            };
            if exchange.time() >= start
                || self.bench.ledger.incarnation(segment) != self.log.incarnation
            {
                continue;
            }
            for (index, event) in exchange.events.iter().enumerate() {
                let place = EventRef {
                    segment,
                    event: u32::try_from(index).unwrap_or(u32::MAX),
                };
                if place <= origin || !event.is_message() || event.time >= start {
                    continue;
                }
                let id = event.id.filter(|id| id.len > 0).map(|id| exchange.text(id));
                let counted = match id {
                    None => true,
                    Some(id) => {
                        let listed = |(_, other, x): &(EventRef, &Event, &Exchange)| {
                            other.id.map(|other| x.text(other)) == Some(id)
                        };
                        self.first_sight_is_after(id, origin) && !after.iter().any(listed)
                    }
                };
                if counted {
                    after.push((place, event, exchange));
                }
            }
        }
        after
    }

    fn first_sight_is_after(&self, id: &str, origin: EventRef) -> bool {
        self.bench
            .ledger
            .seen(id)
            .iter()
            .filter(|seen| Some(seen.stream) == self.resumption.stream)
            .map(|seen| seen.place)
            .min()
            .is_some_and(|place| place > origin)
    }

    /// Messages seen after the cursor that the answer passes over: it brings something behind
    /// them, and not them.
    fn left_out(&self) -> Vec<String> {
        if self.exchange.body_has_hole() || self.resumption.ambiguous {
            return Vec::new();
        }
        let seen = self.messages_after();
        if seen.is_empty() {
            return Vec::new();
        }
        let brought: BTreeSet<&str> = self
            .answer
            .messages
            .iter()
            .filter_map(|(_, event)| self.id_of(event))
            .collect();
        let ledger = self.bench.ledger;
        let passes = |position: usize, id: &str| {
            let standing = ledger.standing(id);
            self.answer.messages.iter().any(|(_, event)| {
                let Some(other) = self.id_of(event) else {
                    return false;
                };
                match compare(&ledger.standing(other), &standing) {
                    Relation::After => true,
                    Relation::Before | Relation::Same => false,
                    Relation::Unordered if standing.scheme == IdScheme::Time => false,
                    Relation::Unordered => {
                        let place = seen
                            .iter()
                            .position(|(_, e, x)| e.id.map(|e| x.text(e)) == Some(other));
                        place.is_none_or(|place| place > position)
                    }
                }
            })
        };
        seen.iter()
            .enumerate()
            .filter_map(|(position, (_, event, exchange))| {
                let id = event
                    .id
                    .filter(|id| id.len > 0)
                    .map(|id| exchange.text(id))?;
                (!brought.contains(id) && passes(position, id)).then(|| id.to_owned())
            })
            .collect()
    }

    // --- what is owed -------------------------------------------------------------------------

    fn stream(&self) -> Option<&'a Stream> {
        self.bench
            .session
            .streams
            .get(self.resumption.stream? as usize)
    }

    /// A POST began the stream, with requests that were not all answered up to this resume.
    fn response_unanswered(&self) -> bool {
        let Some(stream) = self.stream() else {
            return false;
        };
        let Some(post) = stream
            .begun_by
            .and_then(|post| self.bench.exchanges.get(post as usize))
        else {
            return false;
        };
        let asks = post.request.as_ref().is_some_and(|request| {
            request
                .messages
                .iter()
                .any(|message| message.kind == MessageKind::Request)
        });
        let answered = stream.completed.is_some_and(|place| {
            self.bench
                .event(place)
                .is_some_and(|(_, event)| event.time < self.exchange.time())
        });
        asks && !answered
    }

    /// A later segment of the stream brings the response: this one was a poll.
    fn answered_later(&self) -> bool {
        self.stream()
            .is_some_and(|stream| stream.completed.is_some())
    }

    /// Whether the response may yet come, or came where the capture does not show it.
    fn response_pending(&self) -> bool {
        let Some(stream) = self.stream() else {
            return false;
        };
        stream_pending(
            self.bench.session,
            self.bench.exchanges,
            stream,
            self.bench.window,
            self.bench.gaps,
        )
    }

    fn patience(&self) -> Span {
        patience(retry_before(
            self.bench.session,
            self.bench.exchanges,
            self.resumption.stream,
            self.exchange.time(),
        ))
    }

    // --- the rest -----------------------------------------------------------------------------

    /// With bytes missing before the first message only what was seen can be said.
    fn behind_a_hole(&self, decision: &mut Decision) {
        let first = self.first();
        let onward = first.is_some_and(|first| self.relation(first) == Relation::After);
        decision.confidence = Confidence::Low;
        if onward {
            decision.reason = "bytes before the first message seen are missing".to_owned();
        } else {
            decision.verdict = Verdict::Indeterminate;
            decision.reason = "a hole covers what would decide".to_owned();
        }
    }

    fn continued(&self, decision: &mut Decision) {
        let Some(first) = self.first() else { return };
        let index = self.answer.messages.first().map_or(0, |(index, _)| *index);
        let follows = self.relation(first) == Relation::After
            || self.known(index, first) == Known::AgainAfter;
        if !follows {
            decision.confidence = Confidence::Medium;
            decision.reason = if self.id_of(first).is_none() {
                "what came has no ids to judge by".to_owned()
            } else if self.origin.is_none() {
                "the cursor was not seen, the order of its ids is not known".to_owned()
            } else {
                "the order of ids is only observed".to_owned()
            };
        } else if self.resumption.ambiguous {
            decision.confidence = Confidence::Low;
            decision.reason = "several streams delivered the cursor".to_owned();
        } else if self.bench.ledger.standing(self.cursor).contradicted {
            decision.confidence = Confidence::Medium;
            decision.reason = "ids of this kind were seen out of order".to_owned();
        } else if self.origin.is_none() {
            decision.confidence = Confidence::Medium;
            decision.reason = "the cursor was not seen; what came is behind it".to_owned();
        }
    }
}

/// An event's id as it is shown, or what it is.
fn label(exchange: &Exchange, event: &Event) -> String {
    match event.id.filter(|id| id.len > 0) {
        Some(id) => exchange.text(id).to_owned(),
        None => format!("{} without id", event.message.name()),
    }
}
