//! One session from its first exchange to its last: incarnations, verdicts, what was lost around
//! them.

use super::{
    Judged, around,
    backend::Backends,
    between::{Around, Between},
    cost::Bill,
    crossing::Crossings,
    judge::{Bench, Decision},
    ledger::{Ledger, differs},
    order::Orders,
    owed::{self, Gaps},
    refusal::{self, Neighbours},
    row,
    sighting::{Scope, Seen},
    survey::Survey,
};
use crate::model::{
    case::{CrossedEvent, DroppedCursor, Fork, Minted, ResumeCase, Reuse, SessionCase, Site},
    event::Event,
    exchange::{Answer, Exchange, Source, Window},
    flow::Endpoint,
    message::Subject,
    session::{Resumption, Session, Stream},
    time::Timestamp,
    verdict::{Confidence, Verdict},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// What a session is judged with.
pub(super) struct Room<'a> {
    /// The session.
    pub(super) session: &'a Session,
    /// Its service's number.
    pub(super) service: u32,
    /// All exchanges.
    pub(super) exchanges: &'a [Exchange],
    /// The order of ids.
    pub(super) orders: &'a Orders,
    /// The service's backends.
    pub(super) backends: &'a Backends,
    /// Ids that several of its sessions saw.
    pub(super) crossings: &'a Crossings<'a>,
    /// The session's index.
    pub(super) index: u32,
    /// The span of the evidence.
    pub(super) window: Window,
    /// No hole and no lost head on any connection of the service.
    pub(super) service_whole: bool,
    /// What the capture lacks of the session.
    pub(super) gaps: Gaps,
    /// What other sessions of the service went through.
    pub(super) neighbours: Neighbours<'a>,
    /// What sessions show beside each other.
    pub(super) between: &'a Between<'a>,
    /// Deliveries that its resumes may be held against.
    pub(super) looks: u64,
}

/// The walk through one session.
pub(super) struct Walk<'r, 'a> {
    room: &'r Room<'a>,
    ledger: Ledger<'a>,
    survey: Survey<'a>,
    latest: u32,
    /// When each incarnation after the first began.
    began: Vec<Timestamp>,
    /// Since when another life of the session may have begun unseen.
    perhaps_anew: Option<Timestamp>,
    nonces: BTreeMap<u32, &'a str>,
    gone: bool,
    /// Whether anything of it succeeded yet.
    served: bool,
    /// The refusal whose answer gave the id, while nothing of the session succeeded.
    made_for: Option<&'a Exchange>,
    case: SessionCase,
    /// The last resume, when nothing of the session came after it yet.
    just_replayed: Option<usize>,
    /// The exchanges of resumes that the history was too long for.
    worn: Vec<u32>,
}

impl<'r, 'a> Walk<'r, 'a> {
    /// Stands at the session's beginning.
    #[must_use]
    pub(super) fn new(room: &'r Room<'a>) -> Self {
        Self {
            room,
            ledger: Ledger::new(
                room.session,
                room.service,
                room.exchanges,
                room.orders,
                room.backends,
                room.looks,
            ),
            worn: Vec::new(),
            survey: Survey::of(room.session, room.exchanges, room.window, &room.gaps),
            latest: 1,
            began: Vec::new(),
            perhaps_anew: None,
            nonces: BTreeMap::new(),
            gone: false,
            served: false,
            made_for: None,
            case: SessionCase {
                id: room.session.id.clone(),
                protocol_version: room.session.protocol_version.clone(),
                ..SessionCase::default()
            },
            just_replayed: None,
        }
    }

    /// Walks to the end.
    #[must_use]
    pub(super) fn judge(mut self) -> Judged {
        let session = self.room.session;
        let segments: BTreeMap<u32, u32> = session
            .segments
            .iter()
            .enumerate()
            .filter_map(|(index, segment)| Some((segment.exchange, u32::try_from(index).ok()?)))
            .collect();
        let resumes: BTreeMap<u32, &Resumption> = session
            .resumes
            .iter()
            .map(|resume| (resume.exchange, resume))
            .collect();
        let numbers: BTreeSet<u32> = session
            .exchanges
            .iter()
            .chain(segments.keys())
            .copied()
            .collect();
        for number in numbers {
            let Some(exchange) = self.room.exchanges.get(number as usize) else {
                continue;
            };
            if self.room.between.begins_anew(self.room.index, number) {
                self.begin_incarnation(exchange.time());
            }
            if self.room.between.may_begin_anew(self.room.index, number) {
                self.perhaps_anew = Some(exchange.time());
            }
            let segment = segments.get(&number).copied();
            match resumes.get(&number) {
                Some(resumption) => self.resume(resumption, exchange),
                None => self.pass(number, segment, exchange),
            }
            self.note_made(exchange);
            self.note_gone(exchange);
        }
        self.finish()
    }

    fn begin_incarnation(&mut self, time: Timestamp) {
        self.latest += 1;
        self.began.push(time);
    }

    fn note_gone(&mut self, exchange: &Exchange) {
        let refused = exchange.answer() == Answer::Refused
            && !exchange.is_answered_beside(&self.case.id)
            && matches!(exchange.status(), Some(404 | 410))
            && exchange.method() != "DELETE";
        let deleted = exchange.method() == "DELETE" && exchange.answer() == Answer::Success;
        self.gone |= refused || deleted;
    }

    fn note_nonce(&mut self, exchange: &'a Exchange, incarnation: u32) {
        if let Some(nonce) = exchange
            .response
            .as_ref()
            .and_then(|r| r.incarnation.as_deref())
        {
            self.nonces.entry(incarnation).or_insert(nonce);
        }
    }

    // --- exchanges that are no resume ---------------------------------------------------------

    fn pass(&mut self, number: u32, segment: Option<u32>, exchange: &'a Exchange) {
        self.note_minted(exchange);
        if segment.is_some() {
            self.note_crossing(number, exchange, None);
        }
        let Some(segment) = segment else {
            if exchange.answer() == Answer::Success {
                self.note_nonce(exchange, self.latest);
            }
            return;
        };
        // A number of the session's one counter with another payload, and no cursor that could have
        // asked for it: the log is a new one.
        if let Some(event) = self.contradicts_latest(exchange) {
            let id = event.id.map_or("", |id| exchange.text(id)).to_owned();
            let reuse = self.reuse(exchange, &event, id, true);
            if let Some(index) = self.just_replayed.take() {
                self.replay_was_a_fork(index, "the session's counter begins again right behind it");
            } else {
                self.begin_incarnation(exchange.time());
            }
            self.case.reuses.push(Reuse {
                site: Site {
                    incarnation: self.latest,
                    ..reuse.site
                },
                ..reuse
            });
        }
        self.note_nonce(exchange, self.latest);
        // What was asked for is missing: it may answer a resume from any log.
        if exchange.request.is_none() {
            self.ledger.leave_unjudged(segment);
        }
        self.enter(segment, exchange, self.latest);
        if exchange.events.iter().any(|event| event.is_message()) {
            self.just_replayed = None;
        }
    }

    fn contradicts_latest(&self, exchange: &'a Exchange) -> Option<Event> {
        let backend = self.ledger.backend(exchange);
        exchange.events.iter().find(|event| {
            let Some(id) = event.id.filter(|id| id.len > 0).map(|id| exchange.text(id)) else {
                return false;
            };
            let otherwise = self.ledger.seen(id).is_some_and(|seen| {
                seen.within(Scope::incarnation(self.latest)).any(|seen| {
                    seen.time < event.time
                        && self.are_of_one_life(seen, event)
                        && differs(seen, event)
                        && !self.ledger.apart(seen.backend, backend)
                })
            });
            if !otherwise {
                return false;
            }
            let standing = self.ledger.standing(id);
            standing.number.is_some()
                && self
                    .ledger
                    .shares_counter(self.latest, backend, &standing.key, Some(event.time))
        })
    }

    /// What was taken for a replay began a new log.
    fn replay_was_a_fork(&mut self, index: usize, reason: &'static str) {
        let segment = self
            .room
            .session
            .resumes
            .get(index)
            .and_then(|resume| resume.segment);
        let Some(resume) = self.case.resumes.get_mut(index) else {
            return;
        };
        self.latest += 1;
        self.began.push(resume.row.resume_time);
        resume.fork = Some(Fork::OtherPayload);
        resume.row.verdict = Verdict::Forked;
        resume.row.confidence = resume.row.confidence.min(Confidence::Medium);
        resume.row.reason = reason.into();
        resume.row.incarnation_after = Some(self.latest);
        if let Some(segment) = segment {
            self.ledger.reassign(segment, self.latest);
        }
    }

    fn enter(&mut self, segment: u32, exchange: &'a Exchange, incarnation: u32) {
        let mut reused = self.ledger.add(segment, incarnation);
        reused.retain(|&index| {
            let event = exchange.events.get(index as usize);
            event.is_some_and(|event| self.is_reuse(exchange, &event, incarnation))
        });
        let Some(first) = reused
            .first()
            .and_then(|&index| exchange.events.get(index as usize))
        else {
            return;
        };
        let count = u32::try_from(reused.len()).unwrap_or(u32::MAX);
        if let Some(known) = self
            .case
            .reuses
            .iter_mut()
            .rfind(|reuse| reuse.site.incarnation == incarnation && !reuse.new_log)
        {
            known.count += count;
            return;
        }
        let id = first.id.map_or("", |id| exchange.text(id)).to_owned();
        let reuse = self.reuse(exchange, &first, id, false);
        self.case.reuses.push(Reuse {
            count,
            site: Site {
                incarnation,
                ..reuse.site
            },
            ..reuse
        });
    }

    /// Whether an id came with another payload, and no other life of the session may have begun unseen since.
    fn is_reuse(&self, exchange: &Exchange, event: &Event, incarnation: u32) -> bool {
        let id = event.id.map(|id| exchange.text(id));
        let seen = id.and_then(|id| self.ledger.seen(id));
        seen.is_some_and(|seen| {
            seen.within(Scope::incarnation(incarnation))
                .any(|seen| differs(seen, event) && self.are_of_one_life(seen, event))
        })
    }

    fn are_of_one_life(&self, seen: &Seen, event: &Event) -> bool {
        let torn = || self.room.gaps.torn_between(seen.time, event.time);
        self.perhaps_anew.is_none_or(|since| seen.time >= since) && !torn()
    }

    fn reuse(&self, exchange: &Exchange, event: &Event, id: String, new_log: bool) -> Reuse {
        Reuse {
            id,
            count: 1,
            new_log,
            site: Site::of_event(exchange, event, self.latest),
        }
    }

    /// Events that were another session's first.
    fn note_crossing(&mut self, number: u32, exchange: &Exchange, resume: Option<u32>) {
        let Some(found) = self.room.crossings.find(self.room.index, number, exchange) else {
            return;
        };
        self.case.crossings.push(CrossedEvent {
            id: found.id,
            from: found.session,
            site: Site {
                resume,
                time: exchange
                    .events
                    .first()
                    .map_or(exchange.time(), |event| event.time),
                ..Site::of(exchange, self.latest)
            },
        });
    }

    fn note_minted(&mut self, exchange: &Exchange) {
        let asked = exchange
            .request
            .as_ref()
            .and_then(|request| request.session_id.as_deref());
        let given = exchange
            .response
            .as_ref()
            .and_then(|response| response.session_id.clone());
        let (Some(asked), Some(given)) = (asked, given) else {
            return;
        };
        if asked != &*self.case.id
            || given == self.case.id
            || given.is_empty()
            || exchange.is_initialize()
            || exchange.method() == "DELETE"
            || exchange.answer() != Answer::Success
        {
            return;
        }
        self.case.minted.push(Minted {
            given,
            method: exchange.method().to_owned(),
            refused: None,
            site: Site::of(exchange, self.latest),
        });
    }

    /// The session was made for a request that named none and was refused, and is served without ever
    /// having been initialized. What the capture lacks in between may be the initialize.
    fn note_made(&mut self, exchange: &'a Exchange) {
        let asked = exchange
            .request
            .as_ref()
            .is_some_and(|request| request.session_id.as_ref() == Some(&self.case.id));
        if exchange.answer() == Answer::Success {
            let gaps = &self.room.gaps;
            if let Some(refusal) = self.made_for.take()
                && asked
                && !exchange.is_initialize()
                && exchange.method() != "DELETE"
                && !gaps.answer_between(refusal.time(), exchange.time())
                && !gaps.torn_between(refusal.time(), exchange.time())
            {
                self.case.minted.push(Minted {
                    given: self.case.id.clone(),
                    method: refusal.method().to_owned(),
                    refused: refusal.status(),
                    site: Site::of(refusal, self.latest),
                });
            }
            self.served = true;
        } else if !self.served
            && self.made_for.is_none()
            && exchange.request.is_some()
            && !exchange.is_initialize()
            && exchange.is_answered_beside(&self.case.id)
        {
            self.made_for = Some(exchange);
        }
    }

    // --- resumes ------------------------------------------------------------------------------

    fn resume(&mut self, resumption: &Resumption, exchange: &'a Exchange) {
        let mut decision = self.decide(resumption);
        if let Some(index) = self.unconfirmed_replay(resumption, &decision) {
            // The cursor is of that answer: it is its log that goes on here, and not the one before.
            self.replay_was_a_fork(index, "what follows it contradicts the log before it");
            decision = self.decide(resumption);
        }
        let after = self.answering_incarnation(&decision, exchange);
        let number = u32::try_from(self.case.resumes.len() + 1).unwrap_or(u32::MAX);
        let dropped = self.dropped_by_dedup(exchange);
        let mut case = row::resume(&row::Frame {
            session: self.room.session,
            exchanges: self.room.exchanges,
            survey: &self.survey,
            resumption,
            exchange,
            decision: &decision,
            number,
            dropped,
        });
        case.row.incarnation_after = after;
        let replayed = decision.verdict == Verdict::Replayed;
        self.case.resumes.push(case);
        self.note_crossing(resumption.exchange, exchange, Some(number));
        if let Some(segment) = resumption.segment {
            let incarnation = after.unwrap_or(decision.incarnation);
            self.note_nonce(exchange, incarnation);
            if decision.verdict == Verdict::Indeterminate {
                self.ledger.leave_unjudged(segment);
            }
            if decision.worn {
                self.worn.push(resumption.exchange);
            }
            self.enter(segment, exchange, incarnation);
            self.just_replayed = replayed.then_some(self.case.resumes.len() - 1);
        }
    }

    fn decide(&self, resumption: &Resumption) -> Decision {
        let incarnation = resumption
            .cursor
            .map_or(self.latest, |place| self.ledger.incarnation(place.segment));
        Bench {
            session: self.room.session,
            exchanges: self.room.exchanges,
            ledger: &self.ledger,
            survey: &self.survey,
            gaps: &self.room.gaps,
            start_seen: !self.room.session.issued_by.is_empty(),
            service_whole: self.room.service_whole,
            gone_before: self.gone,
            crossing: self
                .room
                .exchanges
                .get(resumption.exchange as usize)
                .and_then(|exchange| {
                    self.room
                        .crossings
                        .find(self.room.index, resumption.exchange, exchange)
                }),
            nonce: self.nonces.get(&incarnation).copied(),
            latest: self.latest,
        }
        .judge(resumption)
    }

    /// The resume that delivered the cursor of a fork, when that one went back without repeating
    /// anything that had been seen: it was the fork, and this one goes on with its log.
    fn unconfirmed_replay(&self, resumption: &Resumption, decision: &Decision) -> Option<usize> {
        if decision.fork != Some(Fork::OtherPayload) || decision.verdict != Verdict::Forked {
            return None;
        }
        let segment = resumption.cursor?.segment;
        let before = self
            .room
            .session
            .resumes
            .iter()
            .rposition(|other| other.segment == Some(segment))?;
        let case = self.case.resumes.get(before)?;
        (case.row.verdict == Verdict::Replayed && case.row.events_redelivered == 0)
            .then_some(before)
    }

    /// Which incarnation answered. A fork from an older incarnation joins the newest one when
    /// nothing contradicts it: two streams of one session fork to one new log, not to two.
    fn answering_incarnation(&mut self, decision: &Decision, exchange: &Exchange) -> Option<u32> {
        match decision.verdict {
            Verdict::Continued | Verdict::Replayed | Verdict::Lossy => Some(decision.incarnation),
            Verdict::Forked if decision.fork == Some(Fork::OtherSession) => None,
            Verdict::Forked => {
                let backend = self.ledger.backend(exchange);
                let contradicted = exchange.events.iter().any(|event| {
                    event
                        .id
                        .and_then(|id| self.ledger.seen(exchange.text(id)))
                        .is_some_and(|seen| {
                            seen.within(Scope::incarnation(self.latest)).any(|seen| {
                                differs(seen, &event) && !self.ledger.apart(seen.backend, backend)
                            })
                        })
                });
                if self.latest == decision.incarnation || contradicted {
                    self.begin_incarnation(exchange.time());
                }
                Some(self.latest)
            }
            _ => None,
        }
    }

    /// Messages that a client which removes duplicates by (session id, event id) would drop, though
    /// it never got them.
    fn dropped_by_dedup(&self, exchange: &Exchange) -> BTreeSet<u32> {
        exchange
            .events
            .iter()
            .enumerate()
            .filter(|(_, event)| event.is_message())
            .filter_map(|(index, event)| {
                let id = event.id.filter(|id| id.len > 0)?;
                let seen = self.ledger.seen(exchange.text(id))?;
                seen.all_differ(&event, |seen| seen.delivered && seen.time <= event.time)
                    .then(|| u32::try_from(index).ok())?
            })
            .collect()
    }

    // --- at the end ---------------------------------------------------------------------------

    fn finish(mut self) -> Judged {
        let mut began = self.began.clone();
        began.sort_unstable();
        let incarnation_at = move |time: Timestamp| {
            1 + u32::try_from(began.partition_point(|&began| began <= time)).unwrap_or(0)
        };
        self.case.refusals = refusal::refusals(
            self.room.session,
            self.room.exchanges,
            &self.room.neighbours,
            &self.room.gaps,
            &self.case.resumes,
            &incarnation_at,
        );
        self.note_costs();
        self.case.dropped_cursors = self.dropped_cursors();
        around::look(&around::Scene {
            session: self.room.session,
            exchanges: self.room.exchanges,
            survey: &self.survey,
            ledger: &self.ledger,
            gaps: &self.room.gaps,
            window: self.room.window,
            case: &self.case,
        })
        .enter(&mut self.case);
        let around = Around {
            session: self.room.session,
            index: self.room.index,
            service: self.room.service,
            exchanges: self.room.exchanges,
            survey: &self.survey,
            gaps: &self.room.gaps,
        };
        self.room
            .between
            .enter(&around, &incarnation_at, &mut self.case);
        let segments = row::segments(self.room.session, self.room.exchanges, &|segment| {
            self.ledger.incarnation(segment)
        });
        let scheme = row::scheme_of(self.room.session, self.room.exchanges, &|id| {
            self.ledger.scheme(id)
        });
        let rows = row::sessions(
            self.room.session,
            self.room.exchanges,
            self.room.window,
            &self.case,
            scheme,
            self.latest,
            &|segment| self.ledger.incarnation(segment),
        );
        Judged {
            case: self.case,
            rows,
            segments,
            worn: self.worn,
        }
    }

    /// What the cuts cost, on the resumes and around them.
    fn note_costs(&mut self) {
        let bill = Bill {
            session: self.room.session,
            exchanges: self.room.exchanges,
            survey: &self.survey,
            ledger: &self.ledger,
            latest: self.latest,
            gaps: &self.room.gaps,
        };
        for (resume, resumption) in self.case.resumes.iter_mut().zip(&self.room.session.resumes) {
            bill.note_fates(resume, resumption);
        }
        self.case.lost = bill.lost(&self.case.resumes);
        self.case.dropped = bill.dropped(&self.case.resumes);
        self.case.differing = bill.differing(&self.case.resumes);
    }

    fn dropped_cursors(&self) -> Vec<DroppedCursor> {
        let session = self.room.session;
        let mut dropped = Vec::new();
        let mut left = self.left_streams();
        // Streams that were left by the time of the GET, by their last segment.
        let mut forgettable: BTreeMap<u32, (usize, &Stream)> = BTreeMap::new();
        let mut gets: Vec<(Timestamp, Timestamp)> = Vec::new();
        for exchange in session
            .segments
            .iter()
            .filter_map(|segment| self.room.exchanges.get(segment.exchange as usize))
            .filter(|exchange| exchange.method() == "GET")
        {
            let end = exchange.end.time;
            let latest = gets.last().map_or(end, |(_, latest)| end.max(*latest));
            gets.push((exchange.time(), latest));
        }
        for &number in &session.exchanges {
            let Some(exchange) = self.room.exchanges.get(number as usize) else {
                continue;
            };
            // To be turned away for the stream's sake leaves the request what it was.
            let turned_away = exchange.response.as_ref().is_some_and(|response| {
                response.status == 409
                    || response.status == 400 && response.subject != Subject::Session
            });
            let reopens = exchange.is_event_stream() || turned_away && !exchange.is_doubtful();
            if exchange.method() != "GET" || exchange.cursor().is_some() || !reopens {
                continue;
            }
            let start = exchange.time();
            let beside = gets
                .partition_point(|(open, _)| *open < start)
                .checked_sub(1)
                .and_then(|last| gets.get(last))
                .is_some_and(|(_, end)| *end >= start);
            if beside {
                continue;
            }
            while let Some(&(at, segment, index, stream)) = left.last()
                && at < start
            {
                left.pop();
                forgettable.insert(segment, (index, stream));
            }
            // What was completed or refused by now stays so.
            let mut candidate = None;
            while let Some((&segment, &(index, stream))) = forgettable.last_key_value() {
                if self.is_forgotten(index, stream, number) {
                    candidate = Some((index, stream));
                }
                forgettable.remove(&segment);
                if candidate.is_some() {
                    break;
                }
            }
            let Some((index, stream)) = candidate else {
                continue;
            };
            let Some((last_id, before)) = self.last_id(stream, start) else {
                continue;
            };
            // Another stream may be open, or have asked for it, where the capture does not show it.
            if self.room.gaps.stream_between(before.end.time, start) {
                continue;
            }
            let gap = start.since(before.end.time);
            dropped.push(DroppedCursor {
                last_id,
                gap,
                retry: self
                    .survey
                    .retry_before(u32::try_from(index).ok(), start)
                    .map(|retry| (retry, owed::retry_kept(gap, retry))),
                cause: before.end.cause,
                confidence: Confidence::High,
                site: Site::of(
                    exchange,
                    stream
                        .segments
                        .last()
                        .map_or(1, |&segment| self.ledger.incarnation(segment)),
                ),
            });
        }
        dropped
    }

    /// Streams that a GET carried last, with the time from when on nobody carries them or asks for
    /// them, and their last segment; the latest first.
    fn left_streams(&self) -> Vec<(Timestamp, u32, usize, &'r Stream)> {
        let session = self.room.session;
        let mut left: Vec<_> = session
            .streams
            .iter()
            .enumerate()
            .filter_map(|(index, stream)| {
                let segment = stream.segments.last().copied()?;
                let last = session.exchange(segment, self.room.exchanges)?;
                let asked = self.resumes_of(index).last();
                let asked = asked.map(|case| case.row.resume_time);
                let at = asked.map_or(last.end.time, |asked| asked.max(last.end.time));
                (last.method() == "GET").then_some((at, segment, index, stream))
            })
            .collect();
        left.sort_unstable_by_key(|&(at, segment, _, _)| Reverse((at, segment)));
        left
    }

    fn resumes_of(&self, stream: usize) -> impl DoubleEndedIterator<Item = &ResumeCase> {
        let resumes = self.survey.resumes(u32::try_from(stream).ok());
        resumes
            .iter()
            .filter_map(|&index| self.case.resumes.get(index as usize))
    }

    /// Whether a GET without cursor forgets this stream: a GET carried it last, it delivered ids to this
    /// client, it ended, nobody was refused its cursor and nobody asks for it again.
    fn is_forgotten(&self, index: usize, stream: &Stream, number: u32) -> bool {
        let session = self.room.session;
        let Some(get) = self.room.exchanges.get(number as usize) else {
            return false;
        };
        let start = get.time();
        // The result may lie in a hole of it, and its cursor be needed no more; or the stream be a POST's,
        // where a resume shows that something of the session is not seen.
        let torn = stream
            .segments
            .iter()
            .filter_map(|&segment| session.exchange(segment, self.room.exchanges))
            .any(|exchange| exchange.body_has_hole() && exchange.source == Source::Packets);
        let strays = || session.resumes.iter().any(|other| other.cursor.is_none());
        if torn && (stream.begun_by.is_some() || strays()) {
            return false;
        }
        // A second client has no cursor to forget.
        let host = |exchange: &Exchange| exchange.client.as_ref().and_then(Endpoint::ip);
        let same_client = stream
            .segments
            .iter()
            .rev()
            .filter_map(|&segment| session.exchange(segment, self.room.exchanges))
            .any(|exchange| host(exchange) == host(get));
        let mut segments = stream
            .segments
            .iter()
            .filter_map(|&segment| session.exchange(segment, self.room.exchanges))
            .filter(|exchange| exchange.time() < start);
        let Some(last) = segments.next_back() else {
            return false;
        };
        let by_get = last.method() == "GET";
        // What began before the capture, or in a gap, may be a POST's stream, whose cursor is needed no
        // more once its result came.
        let begun = stream
            .segments
            .first()
            .and_then(|&segment| session.exchange(segment, self.room.exchanges))
            .is_some_and(|first| first.request.is_some() && first.cursor().is_none());
        let complete = stream
            .completed
            .and_then(|place| {
                session
                    .exchange(place.segment, self.room.exchanges)?
                    .events
                    .get(place.event as usize)
            })
            .is_some_and(|event| event.time <= start);
        let resumes = || self.resumes_of(index);
        // A connection that died was no refusal.
        let refused = resumes().any(|case| {
            let status = case.row.status;
            let refuses = match case.row.verdict {
                Verdict::Rejected => true,
                Verdict::Failed => status.is_some_and(|status| status >= 500),
                _ => false,
            };
            case.row.resume_time < start && refuses
        });
        // An answer that is not in the capture may have been one.
        let unseen = self.room.gaps.answer_between(last.end.time, start);
        // The session began anew: there was nothing to ask for.
        let issues = session.issued_by.partition_point(|&issue| issue < number);
        let reissued = issues
            .checked_sub(1)
            .and_then(|last| {
                self.room
                    .exchanges
                    .get(*session.issued_by.get(last)? as usize)
            })
            .is_some_and(|issue| issue.time() > last.time());
        let asked_again = resumes().any(|case| case.row.resume_time > start);
        by_get
            && same_client
            && begun
            && !complete
            && !refused
            && !unseen
            && !reissued
            && !asked_again
            && last.end.time < start
            && self.last_id(stream, start).is_some()
    }

    /// The last id that a stream delivered before a time, and the exchange that brought it.
    fn last_id(&self, stream: &Stream, before: Timestamp) -> Option<(String, &'a Exchange)> {
        let session = self.room.session;
        stream.segments.iter().rev().find_map(|&segment| {
            let exchange = session.exchange(segment, self.room.exchanges)?;
            let event = exchange.events.iter().rev().find(|event| {
                let id = event.id.map_or("", |id| exchange.text(id));
                // An id that is the session's own is no cursor.
                event.delivered && event.time < before && !id.is_empty() && *id != *session.id
            })?;
            Some((exchange.text(event.id?).to_owned(), exchange))
        })
    }
}
