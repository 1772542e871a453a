//! What the cuts of a session cost: requests lost, results that a client drops or gets twice,
//! progress left hanging.

use super::{
    ledger::Ledger,
    owed::Gaps,
    request::{self, Fate, Reply, Request},
    sighting::{Scope, Seen},
    survey::Survey,
};
use crate::model::{
    case::{DifferingResult, DroppedResult, LostRequest, Progress, ResumeCase, Site},
    event::Event,
    exchange::{EndCause, Exchange},
    message::{MessageKind, PayloadHash},
    session::{Resumption, Session, Stream},
    time::Timestamp,
    verdict::{Confidence, Verdict},
};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// What the costs of a session are reckoned from, once all of it was walked through.
pub(super) struct Bill<'w, 'a> {
    /// The session.
    pub(super) session: &'w Session,
    /// All exchanges.
    pub(super) exchanges: &'a [Exchange],
    /// What its exchanges show together.
    pub(super) survey: &'w Survey<'a>,
    /// Everything it delivered.
    pub(super) ledger: &'w Ledger<'a>,
    /// Its newest incarnation.
    pub(super) latest: u32,
    /// What the capture lacks of it.
    pub(super) gaps: &'w Gaps,
}

impl<'a> Bill<'_, 'a> {
    /// The fates of the requests that were pending when the stream of a resume was cut.
    pub(super) fn note_fates(&self, case: &mut ResumeCase, resumption: &Resumption) {
        let Some(stream) = resumption.stream else {
            return;
        };
        let cut = case.row.disconnect_time.unwrap_or(case.row.resume_time);
        let delivered = |request: &Request<'_>| {
            let mut answers = request.answers.iter();
            answers.any(|reply| reply.delivered && reply.time <= cut)
        };
        let pending: Vec<(&Request<'_>, Fate, bool)> = self
            .survey
            .requests(Some(stream))
            .iter()
            .filter(|request| !delivered(request))
            .map(|request| {
                let fate = request::fate(self.survey, stream, request, cut);
                let mut got = request.answers.iter().filter(|reply| reply.delivered);
                let dropped = fate == Fate::Answered && got.all(|reply| self.is_dropped(reply));
                (request, fate, dropped)
            })
            .collect();
        case.row.requests = request::sum(pending.iter().map(|&(_, fate, dropped)| (fate, dropped)));
        let left = pending
            .iter()
            .filter(|(request, fate, dropped)| {
                request.progress_token.is_some() && (*fate == Fate::Lost || *dropped)
            })
            .count();
        case.row.progress_tokens_left = u32::try_from(left).unwrap_or(u32::MAX);
    }

    /// Whether a client that removes duplicates by (session id, event id) drops an answer it never
    /// got: its id came before with other payloads only.
    fn is_dropped(&self, reply: &Reply<'_>) -> bool {
        let Some(seen) = reply.event_id.and_then(|id| self.ledger.seen(id)) else {
            return false;
        };
        let counts = |seen: &Seen| seen.delivered && seen.comparable && seen.time < reply.time;
        let all = Scope::default();
        seen.within(all).any(counts) && !seen.with_payload(all, reply.hash).any(counts)
    }

    /// Requests that were pending at a cut and never got an answer, though the client stayed.
    pub(super) fn lost(&self, resumes: &[ResumeCase]) -> Vec<LostRequest> {
        let mut lost = Vec::new();
        for (number, stream) in (0..).zip(&self.session.streams) {
            let Some(post) = stream
                .begun_by
                .filter(|_| stream.completed.is_none())
                .and_then(|post| self.exchanges.get(post as usize))
            else {
                continue;
            };
            let last = self.survey.resumes(Some(number)).last().copied();
            let came_back = last.and_then(|last| self.session.resumes.get(last as usize));
            let Some(cut) = self.cut_of(number, stream, came_back) else {
                continue;
            };
            let last = last.and_then(|last| resumes.get(last as usize));
            let torn = self.survey.has_holes(Some(number));
            let incarnation = last.map_or(self.latest.min(1), |resume| resume.row.incarnation);
            for request in self.survey.requests(Some(number)) {
                if request::fate(self.survey, number, request, cut) != Fate::Lost {
                    continue;
                }
                lost.push(LostRequest {
                    rpc_id: request.id.to_owned(),
                    method: request.method.to_owned(),
                    reason: self.why_lost(stream, request, last),
                    progress: self.progress(request.progress_token, stream, cut),
                    confidence: if torn {
                        Confidence::Low
                    } else {
                        Confidence::High
                    },
                    site: Site {
                        resume: last.map(|resume| resume.row.resume),
                        time: cut,
                        ..Site::of(post, incarnation)
                    },
                });
            }
        }
        lost
    }

    /// The last cut of a stream: an end by the server or the network, or by a client that came back
    /// for it.
    fn cut_of(
        &self,
        number: u32,
        stream: &Stream,
        came_back: Option<&Resumption>,
    ) -> Option<Timestamp> {
        let last_attempt = came_back
            .and_then(|resume| self.exchanges.get(resume.exchange as usize))
            .map(Exchange::time);
        stream
            .segments
            .iter()
            .filter_map(|&segment| self.session.exchange(segment, self.exchanges))
            .filter_map(|exchange| match exchange.end.cause {
                EndCause::ServerFin
                | EndCause::ServerRst
                | EndCause::StreamEnd
                | EndCause::StreamResetByServer
                | EndCause::Goaway
                | EndCause::Silent => Some(exchange.end.time),
                EndCause::ClientFin
                | EndCause::ClientRst
                | EndCause::StreamResetByClient
                | EndCause::Unknown => {
                    let back = last_attempt.is_some_and(|at| at > exchange.time());
                    // Where the server was still answering, the client's end was no word of its
                    // that it wants the answer no more.
                    let answered = exchange
                        .events
                        .iter()
                        .any(|event| !event.delivered && is_answer(&event));
                    (back || answered).then_some(exchange.end.time)
                }
                EndCause::CaptureEnd => self.survey.silent_since(number, exchange),
            })
            .max()
    }

    fn why_lost(
        &self,
        stream: &Stream,
        request: &Request<'_>,
        last: Option<&ResumeCase>,
    ) -> &'static str {
        if request.answers.iter().any(|reply| !reply.delivered) {
            return "sent after the client was gone";
        }
        match last.map(|resume| resume.row.verdict) {
            Some(Verdict::Ignored | Verdict::Empty) => "the cursor was accepted and nothing came",
            Some(Verdict::Rejected) => "the resume was refused",
            Some(Verdict::Failed) => "the resume got no answer",
            Some(Verdict::Forked) => "the resume was attached to another log",
            Some(_) => "the resumed stream never brought it",
            None => {
                let ids = self
                    .segments(stream)
                    .flat_map(|(_, exchange)| &exchange.events)
                    .any(|event| event.delivered && event.id.is_some_and(|id| id.len > 0));
                if ids {
                    "the client never asked for the rest"
                } else {
                    "not resumable: no id came before the cut"
                }
            }
        }
    }

    /// Results on resumes under ids that a client which removes duplicates has seen with other
    /// payloads, and that reach it under no other id either.
    pub(super) fn dropped(&self, resumes: &[ResumeCase]) -> Vec<DroppedResult> {
        if resumes
            .iter()
            .all(|resume| resume.row.events_dropped_by_dedup == 0)
        {
            return Vec::new();
        }
        let mut reached: HashMap<(&str, PayloadHash), bool, RandomState> = HashMap::default();
        for segment in &self.session.segments {
            let Some(exchange) = self.exchanges.get(segment.exchange as usize) else {
                continue;
            };
            for (id, reply) in request::replies_in(segment.exchange, exchange) {
                if reply.delivered {
                    *reached.entry((id, reply.hash)).or_default() |= !self.is_dropped(&reply);
                }
            }
        }
        let mut dropped = Vec::new();
        for (case, resumption) in resumes.iter().zip(&self.session.resumes) {
            let carried = resumption
                .segment
                .and_then(|segment| self.session.exchange(segment, self.exchanges))
                .filter(|_| case.row.events_dropped_by_dedup > 0);
            let Some(exchange) = carried else { continue };
            for (id, reply) in request::replies_in(resumption.exchange, exchange) {
                if !reply.delivered
                    || !self.is_dropped(&reply)
                    || reached.get(&(id, reply.hash)) == Some(&true)
                {
                    continue;
                }
                let asked = self.asked(resumption.stream, id);
                // It may have reached the client under another id where the capture does not show it.
                let ever = Timestamp::from_nanos(i64::MIN);
                let since = asked.map_or(ever, |(_, request)| request.time);
                if self.gaps.between(since, Timestamp::from_nanos(i64::MAX)) {
                    continue;
                }
                dropped.push(DroppedResult {
                    rpc_id: id.to_owned(),
                    method: asked.map(|(_, request)| request.method.to_owned()),
                    event_id: reply.event_id.unwrap_or_default().to_owned(),
                    progress: asked.and_then(|(stream, request)| {
                        self.progress(request.progress_token, stream, reply.time)
                    }),
                    confidence: case.row.confidence,
                    site: Site {
                        time: reply.time,
                        place: reply.place,
                        ..Site::of(exchange, case.row.incarnation)
                    }
                    .on_resume(case.row.resume),
                });
            }
        }
        dropped
    }

    /// The request that an answer answers: the stream's own, or the only one of the session that has
    /// its id.
    fn asked(&self, stream: Option<u32>, id: &str) -> Option<(&Stream, &Request<'a>)> {
        let of = |number: u32| {
            let stream = self.session.streams.get(number as usize)?;
            let mut requests = self.survey.requests(Some(number)).iter();
            Some((stream, requests.find(|request| request.id == id)?))
        };
        if let Some(own) = stream.and_then(of) {
            return Some(own);
        }
        (0..)
            .zip(&self.session.streams)
            .find_map(|(number, _)| of(number))
            .filter(|(_, request)| request.only)
    }

    /// Requests that were answered twice, differently.
    pub(super) fn differing(&self, resumes: &[ResumeCase]) -> Vec<DifferingResult> {
        let mut differing = Vec::new();
        for (number, _) in (0..).zip(&self.session.streams) {
            for request in self.survey.requests(Some(number)) {
                let mut got = request.answers.iter().filter(|reply| reply.delivered);
                let other = got
                    .next()
                    .and_then(|first| got.find(|reply| reply.hash != first.hash));
                // Beside a request that was not read the other answer may be that one's.
                let ever = Timestamp::from_nanos(i64::MIN);
                let Some((other, exchange)) = other
                    .filter(|other| request.only && !self.gaps.headless_between(ever, other.time))
                    .and_then(|reply| Some((reply, self.exchanges.get(reply.exchange as usize)?)))
                else {
                    continue;
                };
                let resume = self
                    .survey
                    .resumes(Some(number))
                    .iter()
                    .filter_map(|&index| resumes.get(index as usize))
                    .find(|resume| resume.row.exchange == other.exchange);
                differing.push(DifferingResult {
                    rpc_id: request.id.to_owned(),
                    method: request.method.to_owned(),
                    site: Site {
                        resume: resume.map(|resume| resume.row.resume),
                        time: other.time,
                        place: other.place,
                        ..Site::of(
                            exchange,
                            resume.map_or(1, |resume| {
                                resume
                                    .row
                                    .incarnation_after
                                    .unwrap_or(resume.row.incarnation)
                            }),
                        )
                    },
                });
            }
        }
        differing
    }

    /// The progress that a stream delivered for a token up to a time.
    fn progress(&self, token: Option<&str>, stream: &Stream, until: Timestamp) -> Option<Progress> {
        let token = token?;
        let told: usize = self
            .segments(stream)
            .map(|(_, exchange)| {
                let events = exchange.events.iter();
                let told = events.filter(|event| {
                    event.delivered
                        && event.time <= until
                        && event
                            .progress_token
                            .is_some_and(|t| exchange.text(t) == token)
                });
                told.count()
            })
            .sum();
        let notifications = u32::try_from(told).unwrap_or(u32::MAX);
        (notifications > 0).then(|| Progress {
            token: token.to_owned(),
            notifications,
        })
    }

    fn segments<'s>(
        &'s self,
        stream: &'s Stream,
    ) -> impl Iterator<Item = (u32, &'a Exchange)> + 's {
        stream.segments.iter().filter_map(|&segment| {
            let number = self.session.segments.get(segment as usize)?.exchange;
            Some((number, self.exchanges.get(number as usize)?))
        })
    }
}

fn is_answer(event: &Event) -> bool {
    matches!(event.message, MessageKind::Response | MessageKind::Error)
}
