//! Calls that were pending at a cut and that the client sends again (docs/findings.md,
//! `executed-twice`).
//!
//! Only `tools/call`: it alone does something that doing it again does twice. Lists, reads, pings and
//! initialize may be repeated; of methods that are not the protocol's nothing is known.
//!
//! The client is a host and its software (and behind a proxy the address that the proxy names), since a
//! retry comes on another connection, and often in another session: one that began after the cut. Where
//! such a client has a third session at that time, it is several, and which of them called again is
//! not known. What it called twice or more besides, though it had the answer, is a habit, and so is what it
//! calls long after: both say nothing.

use super::{
    super::{owed::Gaps, request::Request, survey::Survey},
    Client, Run, members,
};
use crate::model::{
    case::{RepeatedCall, Site},
    exchange::{Answer, EndCause, Exchange, Media},
    message::{Message, MessageKind, PayloadHash},
    session::Session,
    time::{Span, Timestamp},
    verdict::Confidence,
};
use foldhash::fast::RandomState;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A call with the same arguments that the client made so often besides is its habit.
const HABIT: usize = 2;
/// A retry comes within this time after the cut: the timeouts of clients are 1 to 5 minutes, and a person
/// takes a few. What comes later is on a schedule, or somebody else's.
const RETRIED_WITHIN: Span = Span::from_secs(600);
/// So many later calls are looked at for the one that repeats a call.
const LOOKED_AHEAD: usize = 8;
/// A server that took a request and held it this long was at work on it. What is reset sooner may
/// have come too late on a connection that the server was done with.
const AT_WORK: Span = Span::from_secs(1);

/// The calls of all clients, in order of time.
pub struct Calls<'a> {
    clients: HashMap<Client<'a>, u32, RandomState>,
    /// In order of call, then time.
    sent: Vec<(Call, Sent)>,
    /// By client of a service, when its sessions were in use.
    in_use: BTreeMap<(u32, u32), InUse>,
    /// When each session began, as far as its initialize shows.
    began: Vec<Option<Timestamp>>,
    /// Whether every exchange of a service was seen whole, by its number.
    whole: Vec<bool>,
}

/// A call: the service, the client, and a hash of what is called with what.
type Call = (u32, u32, PayloadHash);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    time: Timestamp,
    exchange: u32,
    session: u32,
    /// Whether the server answered it, as far as the exchange itself shows.
    answered: bool,
}

/// When the sessions of a client were in use.
#[derive(Debug, Default)]
struct InUse {
    /// When each was begun, in order.
    begun: Vec<Timestamp>,
    /// When each was used last, in order.
    done: Vec<Timestamp>,
}

impl InUse {
    /// How many were in use between two times.
    fn between(&self, from: Timestamp, to: Timestamp) -> usize {
        let begun = self.begun.partition_point(|begun| *begun <= to);
        let done = self.done.partition_point(|done| *done < from);
        begun.saturating_sub(done)
    }
}

/// What a session's calls are looked at with.
pub struct Around<'r, 'a> {
    /// The session.
    pub session: &'a Session,
    /// Its index.
    pub index: u32,
    /// Its service's number.
    pub service: u32,
    /// All exchanges.
    pub exchanges: &'a [Exchange],
    /// What became of its requests.
    pub survey: &'r Survey<'a>,
    /// What the capture lacks of it.
    pub gaps: &'r Gaps,
}

/// A call that may have been without an answer at a cut.
struct Pending {
    /// When the connection that should have brought the answer was cut last before a time.
    cuts: Cuts,
    /// When answers came after all.
    answers: Vec<Timestamp>,
    stream: Option<u32>,
    /// When its session was served last.
    last_used: Option<Timestamp>,
    confidence: Confidence,
}

impl<'a> Calls<'a> {
    pub(super) fn of(run: Run<'a>) -> Self {
        let mut calls = Self {
            clients: HashMap::default(),
            sent: Vec::new(),
            in_use: BTreeMap::new(),
            began: Vec::with_capacity(run.grouping.sessions.len()),
            whole: run.whole.to_vec(),
        };
        for ((index, session), &service) in (0..).zip(&run.grouping.sessions).zip(run.service_of) {
            let began = session.issued_by.first();
            calls
                .began
                .push(began.and_then(|&number| Some(run.exchange(number)?.time())));
            let mut used: BTreeMap<u32, (Timestamp, Timestamp)> = BTreeMap::new();
            for (number, exchange) in run.exchanges_of(session) {
                let next = u32::try_from(calls.clients.len()).unwrap_or(u32::MAX);
                let client = *calls
                    .clients
                    .entry(Client::of(exchange, session))
                    .or_insert(next);
                let time = exchange.time();
                used.entry(client).or_insert((time, time)).1 = time;
                let mut answered: Option<HashSet<&str, RandomState>> = None;
                for message in calls_in(exchange) {
                    let answered = answered.get_or_insert_with(|| replies_to(exchange).collect());
                    let id = message.id.as_deref().unwrap_or_default();
                    let sent = Sent {
                        time,
                        exchange: number,
                        session: index,
                        answered: answered.contains(id),
                    };
                    calls.sent.push(((service, client, message.call), sent));
                }
            }
            for (client, (begun, done)) in used {
                let in_use = calls.in_use.entry((service, client)).or_default();
                in_use.begun.push(begun);
                in_use.done.push(done);
            }
        }
        calls.sent.par_sort_unstable();
        for in_use in calls.in_use.values_mut() {
            in_use.begun.sort_unstable();
            in_use.done.sort_unstable();
        }
        calls
    }

    /// The calls of a session that were pending at a cut and were sent again.
    pub(super) fn repeated(
        &self,
        around: &Around<'_, 'a>,
        incarnation_at: &dyn Fn(Timestamp) -> u32,
    ) -> Vec<RepeatedCall> {
        let streams: BTreeMap<u32, u32> = (0..)
            .zip(&around.session.streams)
            .filter_map(|(index, stream)| Some((stream.begun_by?, index)))
            .collect();
        let torn = Torn::of(around);
        let last_used = members(around.session, around.exchanges)
            .filter(|(_, exchange)| {
                exchange.method() != "DELETE" && exchange.answer() == Answer::Success
            })
            .map(|(_, exchange)| exchange.time())
            .max();
        let over = members(around.session, around.exchanges)
            .map(|(_, exchange)| exchange.end.time)
            .max()
            .unwrap_or_default();
        let mut repeated = Vec::new();
        for (number, exchange) in members(around.session, around.exchanges) {
            if calls_in(exchange).next().is_none() || !may_have_run(exchange) {
                continue;
            }
            let Some(&client) = self.clients.get(&Client::of(exchange, around.session)) else {
                continue;
            };
            let stream = streams.get(&number).copied();
            for (message, request) in with_requests(exchange, stream, around) {
                let Some(mut pending) = pending(exchange, stream, request, around) else {
                    continue;
                };
                pending.last_used = last_used;
                let call = (around.service, client, message.call);
                let Some((again, cut)) = self.again(call, (number, exchange), &pending, around)
                else {
                    continue;
                };
                let (Some(second), false) = (
                    around.exchanges.get(again.exchange as usize),
                    // What the client called later tells a habit.
                    torn.touches(exchange.time(), over.max(again.time)),
                ) else {
                    continue;
                };
                let elsewhere = again.session != around.index;
                // Whose place a new session takes, and what is a habit, is told by all of them.
                if elsewhere && self.whole.get(around.service as usize) != Some(&true) {
                    continue;
                }
                repeated.push(RepeatedCall {
                    rpc_id: message.id.as_deref().unwrap_or_default().to_owned(),
                    method: message.method.as_deref().unwrap_or_default().to_owned(),
                    gap: again.time.since(cut),
                    in_session: elsewhere
                        .then(|| second.request.as_ref()?.session_id.clone())
                        .flatten(),
                    confidence: if elsewhere {
                        pending.confidence.min(Confidence::Medium)
                    } else {
                        pending.confidence
                    },
                    site: Site::of(second, incarnation_at(exchange.time())),
                });
            }
        }
        repeated
    }

    /// The first time that a pending call is sent again after a cut, with that cut.
    fn again(
        &self,
        call: Call,
        (number, exchange): (u32, &Exchange),
        pending: &Pending,
        around: &Around<'_, 'a>,
    ) -> Option<(Sent, Timestamp)> {
        let first = self.sent.partition_point(|(other, _)| *other < call);
        let same = self.sent.get(first..)?;
        let own = (exchange.time(), number);
        let before = same
            .partition_point(|(other, sent)| *other == call && (sent.time, sent.exchange) < own);
        if before >= HABIT {
            return None;
        }
        let later = same
            .get(before..)?
            .iter()
            .take_while(|(other, _)| *other == call)
            .map(|(_, sent)| sent)
            .filter(|sent| sent.exchange != number);
        let first = later.take(LOOKED_AHEAD).find_map(|again| {
            let cut = pending.cuts.before(again.time)?;
            let answered = pending.has_answer(again.time, around);
            let began = self.began.get(again.session as usize).copied().flatten();
            // A new session takes the place of the old one only where that is not used any more.
            let in_its_place = began.is_some_and(|began| {
                let used = pending.answers.iter().copied().max().max(pending.last_used);
                began > cut && used.is_none_or(|used| used < began)
            });
            let alone = || {
                let in_use = self.in_use.get(&(call.0, call.1));
                in_use.is_none_or(|in_use| in_use.between(exchange.time(), again.time) <= 2)
            };
            let its_own = again.session == around.index || in_its_place && alone();
            let second = around.exchanges.get(again.exchange as usize)?;
            let in_time = again.time.since(cut).nanos() <= RETRIED_WITHIN.nanos();
            let is_again = its_own && !answered && in_time && may_have_run(second);
            is_again.then_some((*again, cut))
        });
        first.filter(|(again, _)| !self.is_habit(call, again, around))
    }

    /// Whether the client goes on calling the same though it has the answers.
    fn is_habit(&self, call: Call, again: &Sent, around: &Around<'_, 'a>) -> bool {
        let next = self
            .sent
            .partition_point(|(other, sent)| (other, sent) <= (&call, again));
        let later = self.sent.get(next..).unwrap_or_default().iter();
        // In its session, what other sessions call is nothing that a whole session can show.
        let own = |sent: &Sent| again.session != around.index || sent.session == around.index;
        later
            .take_while(|(other, _)| *other == call)
            .take(LOOKED_AHEAD)
            .filter(|(_, sent)| sent.answered && own(sent))
            .count()
            >= HABIT
    }
}

impl Pending {
    /// Whether the client had an answer by a time. What it last asked for tells what it did not have: a
    /// tap near the server sees answers that never got there.
    fn has_answer(&self, by: Timestamp, around: &Around<'_, '_>) -> bool {
        let last = self
            .stream
            .and_then(|stream| last_resume(stream, by, around));
        self.answers.iter().any(|&answer| {
            let since = |(asked, up_to): (Timestamp, Timestamp)| answer >= asked || answer <= up_to;
            answer <= by && last.is_none_or(since)
        })
    }
}

/// When a stream was resumed last before a time, and when the event came that the client named.
fn last_resume(
    stream: u32,
    by: Timestamp,
    around: &Around<'_, '_>,
) -> Option<(Timestamp, Timestamp)> {
    let session = around.session;
    let resumes = around.survey.resumes(Some(stream));
    let resume = |&index: &u32| session.resumes.get(index as usize);
    let asked = |index: &u32| {
        let exchange = around.exchanges.get(resume(index)?.exchange as usize)?;
        Some(exchange.time())
    };
    let before = resumes.partition_point(|index| asked(index).is_some_and(|time| time < by));
    let last = resumes.get(before.checked_sub(1)?)?;
    let cursor = resume(last)?.cursor?;
    let events = &session.exchange(cursor.segment, around.exchanges)?.events;
    Some((asked(last)?, events.get(cursor.event as usize)?.time))
}

/// The calls that a request carries.
fn calls_in(exchange: &Exchange) -> impl Iterator<Item = &Message> {
    let post = exchange.method() == "POST";
    exchange
        .request
        .as_ref()
        .filter(|request| post && request.complete)
        .into_iter()
        .flat_map(|request| &request.messages)
        .filter(|message| is_call(message))
}

/// The ids of the requests that an exchange answers itself.
fn replies_to(exchange: &Exchange) -> impl Iterator<Item = &str> {
    let body = exchange
        .response
        .iter()
        .flat_map(|response| &response.messages)
        .filter(|message| matches!(message.kind, MessageKind::Response | MessageKind::Error))
        .filter_map(|message| message.id.as_deref());
    let events = (0..).zip(&exchange.events);
    let events = events.flat_map(|(index, event)| exchange.answers_in(index, event));
    body.chain(events.map(|(id, _)| id))
}

fn is_call(message: &Message) -> bool {
    message.kind == MessageKind::Request && message.method.as_deref() == Some("tools/call")
}

/// The calls that a request carries, with what became of them on its stream, when it has one.
fn with_requests<'r, 'a>(
    exchange: &'a Exchange,
    stream: Option<u32>,
    around: &'r Around<'_, 'a>,
) -> impl Iterator<Item = (&'a Message, Option<&'r Request<'a>>)> {
    let requests = around.survey.requests(stream);
    let messages = exchange
        .request
        .iter()
        .flat_map(|request| &request.messages);
    // The stream's requests are those of its POST that have an id, in order.
    messages
        .filter(|message| message.kind == MessageKind::Request && message.id.is_some())
        .enumerate()
        .map(|(index, message)| (message, requests.get(index)))
        .filter(|(message, _)| is_call(message))
}

/// Whether the server may have done what was asked: it did not refuse, nor say that it failed.
fn may_have_run(exchange: &Exchange) -> bool {
    match exchange.status() {
        None => true,
        Some(200..=299) => exchange.answer() != Answer::Refused,
        Some(_) => false,
    }
}

/// What is known of a call that was cut off; `None` when it was not, or the capture cannot tell.
fn pending(
    exchange: &Exchange,
    stream: Option<u32>,
    request: Option<&Request<'_>>,
    around: &Around<'_, '_>,
) -> Option<Pending> {
    if let (Some(stream), Some(request)) = (stream, request) {
        if request.cancelled || around.survey.has_holes(Some(stream)) {
            return None;
        }
        let delivered = request.answers.iter().filter(|reply| reply.delivered);
        return Some(Pending {
            cuts: Cuts::of_stream(stream, around),
            answers: delivered.map(|reply| reply.time).collect(),
            stream: Some(stream),
            last_used: None,
            confidence: Confidence::High,
        });
    }
    let asked = exchange.request.as_ref()?;
    let is_cut = matches!(
        exchange.end.cause,
        EndCause::ServerFin
            | EndCause::ServerRst
            | EndCause::ClientFin
            | EndCause::ClientRst
            | EndCause::Goaway
            | EndCause::StreamResetByClient
            | EndCause::StreamResetByServer
    );
    let at_work = match &exchange.response {
        Some(response) => response.media == Media::Json && !response.complete,
        None => asked.received && exchange.end.time.since(asked.end_time) >= AT_WORK,
    };
    (is_cut && at_work).then(|| Pending {
        cuts: Cuts::single(exchange.time(), exchange.end.time),
        answers: Vec::new(),
        stream: None,
        last_used: None,
        confidence: Confidence::Medium,
    })
}

/// The connections that a stream ran over: when each was asked for, and the latest end of those asked
/// for by then; `None` while one of them is open.
struct Cuts(Vec<(Timestamp, Option<Timestamp>)>);

impl Cuts {
    fn single(open: Timestamp, end: Timestamp) -> Self {
        Self(vec![(open, Some(end))])
    }

    fn of_stream(stream: u32, around: &Around<'_, '_>) -> Self {
        let session = around.session;
        let segments = session
            .streams
            .get(stream as usize)
            .map_or(&[][..], |stream| &stream.segments);
        let mut cuts: Vec<(Timestamp, Option<Timestamp>)> = Vec::with_capacity(segments.len());
        for exchange in segments
            .iter()
            .filter_map(|&segment| session.exchange(segment, around.exchanges))
        {
            let end = if exchange.is_open() {
                around.survey.silent_since(stream, exchange)
            } else {
                Some(exchange.end.time)
            };
            let latest = match (end, cuts.last()) {
                (Some(end), Some((_, Some(latest)))) => Some(end.max(*latest)),
                (end, None) => end,
                (_, Some(_)) => None,
            };
            cuts.push((exchange.time(), latest));
        }
        Self(cuts)
    }

    /// The last cut before a time, when nothing was open then.
    fn before(&self, time: Timestamp) -> Option<Timestamp> {
        let opened = self.0.partition_point(|(open, _)| *open < time);
        let (_, end) = self.0.get(opened.checked_sub(1)?)?;
        end.filter(|end| *end < time)
    }
}

/// When exchanges of a session lasted that the capture does not show whole, with the latest end so far.
struct Torn<'r> {
    times: Vec<(Timestamp, Timestamp)>,
    gaps: &'r Gaps,
}

impl<'r> Torn<'r> {
    fn of(around: &Around<'r, '_>) -> Self {
        let mut times: Vec<(Timestamp, Timestamp)> = Vec::new();
        for (_, exchange) in members(around.session, around.exchanges)
            .filter(|(_, exchange)| !exchange.holes.is_empty() || exchange.body_has_hole())
        {
            let latest = times
                .last()
                .map_or(exchange.end.time, |(_, end)| exchange.end.time.max(*end));
            times.push((exchange.time(), latest));
        }
        Self {
            times,
            gaps: around.gaps,
        }
    }

    /// Whether an answer may lie, unseen, between two times.
    fn touches(&self, from: Timestamp, to: Timestamp) -> bool {
        let begun = self.times.partition_point(|(begin, _)| *begin <= to);
        let torn = begun
            .checked_sub(1)
            .and_then(|last| self.times.get(last))
            .is_some_and(|(_, end)| *end >= from);
        torn || self.gaps.torn_between(from, to) || self.gaps.headless_between(from, to)
    }
}
