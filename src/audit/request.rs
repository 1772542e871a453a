//! Requests and what became of them: who was pending at a cut, who was answered later, who is lost.

use super::survey::Survey;
use crate::model::{
    analysis::RequestFates,
    exchange::Exchange,
    message::{MessageKind, PayloadHash},
    place::Place,
    session::{Session, Stream},
    time::Timestamp,
};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A request that a stream's POST carried.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Its JSON-RPC id.
    pub id: &'a str,
    /// Its method.
    pub method: &'a str,
    /// When it was made.
    pub time: Timestamp,
    /// Its progress token.
    pub progress_token: Option<&'a str>,
    /// Its answers: those on the stream, in order of arrival, and then strayed ones.
    pub answers: Vec<Reply<'a>>,
    /// The client cancelled it.
    pub cancelled: bool,
    /// No other request of the session has its id.
    pub only: bool,
    /// When an answer came last that may be its, though it came elsewhere: another stream brought more
    /// answers under its id than that one is seen to have requests.
    pub maybe_answered: Option<Timestamp>,
}

/// An answer to a request.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// When.
    pub time: Timestamp,
    /// Payload.
    pub hash: PayloadHash,
    /// Whether the client got it.
    pub delivered: bool,
    /// Its event id.
    pub event_id: Option<&'a str>,
    /// The exchange that brought it, an index.
    pub exchange: u32,
    /// Where it was seen.
    pub place: Place,
}

/// The requests of the POST that began a stream, with their answers on it.
#[must_use]
pub fn requests_of<'a>(
    session: &Session,
    exchanges: &'a [Exchange],
    stream: &Stream,
    cancelled: &Cancellations<'_>,
    strays: &Strays<'a>,
) -> Vec<Request<'a>> {
    let Some(post) = stream
        .begun_by
        .and_then(|post| exchanges.get(post as usize))
    else {
        return Vec::new();
    };
    let Some(request) = &post.request else {
        return Vec::new();
    };
    let mut requests: Vec<Request<'a>> = request
        .messages
        .iter()
        .filter(|message| message.kind == MessageKind::Request)
        .filter_map(|message| {
            let id = message.id.as_deref()?;
            Some(Request {
                id,
                method: message.method.as_deref().unwrap_or_default(),
                time: request.time,
                progress_token: message.progress_token.as_deref(),
                answers: Vec::new(),
                cancelled: cancelled.get(id).is_some_and(|&last| last >= request.time),
                only: strays.is_only(id),
                maybe_answered: strays.surplus.get(id).copied(),
            })
        })
        .collect();
    answer(&mut requests, session, exchanges, stream);
    strays.answer(&mut requests, session, stream, post.time());
    requests
}

/// Enters the answers that came on a stream. Two requests of one id share them.
fn answer<'a>(
    requests: &mut [Request<'a>],
    session: &Session,
    exchanges: &'a [Exchange],
    stream: &Stream,
) {
    if requests.is_empty() {
        return;
    }
    let mut by_id: HashMap<&str, Vec<usize>, RandomState> = HashMap::default();
    for (index, request) in requests.iter().enumerate() {
        by_id.entry(request.id).or_default().push(index);
    }
    for &segment in &stream.segments {
        let Some(number) = session.segments.get(segment as usize).map(|s| s.exchange) else {
            continue;
        };
        let Some(exchange) = exchanges.get(number as usize) else {
            continue;
        };
        for (id, reply) in replies_in(number, exchange) {
            for &request in by_id.get(id).into_iter().flatten() {
                if let Some(request) = requests.get_mut(request) {
                    request.answers.push(reply);
                }
            }
        }
    }
}

/// Answers to requests on an exchange, given with its number, and the requests' ids.
pub fn replies_in(number: u32, exchange: &Exchange) -> impl Iterator<Item = (&str, Reply<'_>)> {
    (0..).zip(&exchange.events).flat_map(move |(index, event)| {
        exchange.answers_in(index, event).map(move |(id, hash)| {
            let reply = Reply {
                time: event.time,
                hash,
                delivered: event.delivered,
                event_id: event.id.filter(|id| id.len > 0).map(|id| exchange.text(id)),
                exchange: number,
                place: exchange.event_place(&event),
            };
            (id, reply)
        })
    })
}

/// Answers where nobody would look for them: on another GET (the wrong channel, but no loss), or to
/// a cursor of this session under another session's id.
#[derive(Debug, Default)]
pub struct Strays<'a> {
    /// Answers on GETs by the request's id, with the exchange; in order of exchange.
    replies: HashMap<&'a str, Vec<(u32, Reply<'a>)>, RandomState>,
    /// The last exchange that asks under an id, and whether the id was used twice.
    asked: HashMap<&'a str, (u32, bool), RandomState>,
    /// By id when the last answer came, or may have, that its stream has no request for.
    surplus: HashMap<&'a str, Timestamp, RandomState>,
}

impl<'a> Strays<'a> {
    /// Looks through a session.
    #[must_use]
    pub fn of(session: &Session, exchanges: &'a [Exchange]) -> Self {
        let mut strays = Self::default();
        let carried: BTreeSet<u32> = session
            .segments
            .iter()
            .map(|segment| segment.exchange)
            .chain(session.resumes.iter().map(|resume| resume.exchange))
            .collect();
        for number in carried {
            let Some(exchange) = exchanges.get(number as usize) else {
                continue;
            };
            if exchange.method() != "GET" {
                continue;
            }
            for (id, reply) in replies_in(number, exchange) {
                strays.replies.entry(id).or_default().push((number, reply));
            }
        }
        for &number in &session.exchanges {
            let request = exchanges
                .get(number as usize)
                .and_then(|exchange| exchange.request.as_ref());
            let messages = request.into_iter().flat_map(|request| &request.messages);
            for id in messages
                .filter(|message| message.kind == MessageKind::Request)
                .filter_map(|message| message.id.as_deref())
            {
                let (last, twice) = strays.asked.entry(id).or_insert((number, false));
                *twice |= *last != number;
                *last = number;
            }
        }
        strays.note_surplus(session, exchanges);
        strays
    }

    /// Looks for answers beyond those that a stream's own requests can have: under ids used twice, and
    /// on streams whose request is not in the capture. Inside a hole there may be such an answer.
    fn note_surplus(&mut self, session: &Session, exchanges: &'a [Exchange]) {
        let headless = |number: u32| {
            let exchange = exchanges.get(number as usize);
            exchange.is_some_and(|exchange| exchange.request.is_none())
        };
        let twice = self.asked.values().any(|(_, twice)| *twice);
        if !twice && !session.segments.iter().any(|s| headless(s.exchange)) {
            return;
        }
        let torn = session
            .exchanges
            .iter()
            .filter_map(|&number| exchanges.get(number as usize))
            .filter(|exchange| !exchange.holes.is_empty());
        for (request, end) in torn.filter_map(|x| Some((x.request.as_ref()?, x.end.time))) {
            for id in request.messages.iter().filter_map(|m| m.id.as_deref()) {
                if !self.is_only(id) {
                    note_last(&mut self.surplus, id, end);
                }
            }
        }
        for stream in &session.streams {
            let post = stream
                .begun_by
                .and_then(|post| exchanges.get(post as usize)?.request.as_ref());
            let mut due: BTreeMap<&str, usize> = BTreeMap::new();
            for id in post
                .into_iter()
                .flat_map(|request| &request.messages)
                .filter(|message| message.kind == MessageKind::Request)
                .filter_map(|message| message.id.as_deref())
            {
                *due.entry(id).or_default() += 1;
            }
            let carried: Vec<(u32, &Exchange)> = stream
                .segments
                .iter()
                .filter_map(|&segment| Some(session.segments.get(segment as usize)?.exchange))
                .filter_map(|number| Some((number, exchanges.get(number as usize)?)))
                .collect();
            let unasked = carried.iter().any(|&(number, _)| headless(number));
            let replies = carried
                .iter()
                .flat_map(|&(number, exchange)| replies_in(number, exchange));
            // What comes again under its event id is no second answer.
            let mut came: HashSet<(&str, PayloadHash), RandomState> = HashSet::default();
            for (id, reply) in replies {
                if !reply.delivered || self.is_only(id) && !unasked {
                    continue;
                }
                if let Some(event) = reply.event_id
                    && !came.insert((event, reply.hash))
                {
                    continue;
                }
                let due = due.entry(id).or_default();
                if *due > 0 {
                    *due -= 1;
                    continue;
                }
                note_last(&mut self.surplus, id, reply.time);
            }
        }
    }

    /// Whether one exchange alone asks under an id, or none.
    fn is_only(&self, id: &str) -> bool {
        self.asked.get(id).is_none_or(|(_, twice)| !twice)
    }

    /// Enters strayed answers to requests that got none on their stream; none where the session
    /// uses the request's id twice.
    fn answer(
        &self,
        requests: &mut [Request<'a>],
        session: &Session,
        stream: &Stream,
        since: Timestamp,
    ) {
        let mut own: Option<BTreeSet<u32>> = None;
        for request in requests {
            if !request.only || request.answers.iter().any(|reply| reply.delivered) {
                continue;
            }
            let Some(replies) = self.replies.get(request.id) else {
                continue;
            };
            let own = own.get_or_insert_with(|| {
                let segments = stream.segments.iter();
                segments
                    .filter_map(|&segment| Some(session.segments.get(segment as usize)?.exchange))
                    .collect()
            });
            request.answers.extend(
                replies
                    .iter()
                    .filter(|(number, reply)| !own.contains(number) && reply.time >= since)
                    .map(|&(_, reply)| reply),
            );
        }
    }
}

fn note_last<'a>(
    times: &mut HashMap<&'a str, Timestamp, RandomState>,
    id: &'a str,
    time: Timestamp,
) {
    let last = times.entry(id).or_insert(time);
    *last = time.max(*last);
}

/// When each request was cancelled last, by its id.
pub type Cancellations<'a> = HashMap<&'a str, Timestamp, RandomState>;

/// The cancellations that a session's requests carry.
#[must_use]
pub fn cancellations<'a>(session: &Session, exchanges: &'a [Exchange]) -> Cancellations<'a> {
    let mut cancelled = Cancellations::default();
    let requests = session
        .exchanges
        .iter()
        .filter_map(|&number| exchanges.get(number as usize)?.request.as_ref());
    for request in requests {
        for id in request.messages.iter().filter_map(|m| m.cancels()) {
            let last = cancelled.entry(id).or_insert(request.time);
            *last = request.time.max(*last);
        }
    }
    cancelled
}

/// What became of a request that was pending at a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Answered after the cut.
    Answered,
    /// Answered twice, differently.
    Differs,
    /// The client cancelled it.
    Cancelled,
    /// It may yet be answered, or was where the capture does not show it, or by an answer that may as
    /// well be another request's.
    Pending,
    /// Never answered, though the client stayed.
    Lost,
    /// Never answered; the client left.
    Abandoned,
}

/// The fate of a request of `stream`, cut at `cut`.
#[must_use]
pub fn fate(survey: &Survey<'_>, stream: u32, request: &Request<'_>, cut: Timestamp) -> Fate {
    let mut delivered = request.answers.iter().filter(|reply| reply.delivered);
    if let Some(first) = delivered.next() {
        return if delivered.any(|other| other.hash != first.hash) {
            Fate::Differs
        } else {
            Fate::Answered
        };
    }
    if request.cancelled {
        Fate::Cancelled
    } else if survey.is_pending(Some(stream))
        || request.maybe_answered.is_some_and(|at| at >= request.time)
    {
        Fate::Pending
    } else if survey.client_stayed(cut) {
        Fate::Lost
    } else {
        Fate::Abandoned
    }
}

/// Sums up the fates of the requests pending at a cut; `dropped` tells which answered ones come
/// under an id that a client has seen with another payload.
#[must_use]
pub fn sum(fates: impl Iterator<Item = (Fate, bool)>) -> RequestFates {
    let mut sum = RequestFates::default();
    for (fate, dropped) in fates {
        sum.pending += 1;
        match fate {
            Fate::Answered if dropped => sum.dropped += 1,
            Fate::Answered => sum.answered += 1,
            Fate::Differs => sum.differing += 1,
            Fate::Cancelled => sum.cancelled += 1,
            Fate::Pending => sum.still_pending += 1,
            Fate::Lost => sum.lost += 1,
            Fate::Abandoned => {}
        }
    }
    sum
}
