//! Requests and what became of them: who was pending at a cut, who was answered later, who is lost.

use super::owed::{Gaps, stream_pending};
use crate::model::{
    analysis::RequestFates,
    exchange::{EndCause, Exchange, Window},
    message::{MessageKind, PayloadHash},
    session::{Session, Stream},
    time::{Span, Timestamp},
};
use std::collections::BTreeSet;

/// A request that a stream's POST carried.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Its JSON-RPC id.
    pub id: &'a str,
    /// Its method.
    pub method: &'a str,
    /// Its progress token.
    pub progress_token: Option<&'a str>,
    /// Its answers on the stream, in order of arrival.
    pub answers: Vec<Reply<'a>>,
    /// The client cancelled it.
    pub cancelled: bool,
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
}

/// A client that was silent this long after keeping a stream open has stayed.
const STAYED: Span = Span::from_secs(10);

/// The requests of the POST that began a stream, with their answers on it.
#[must_use]
pub fn requests_of<'a>(
    session: &Session,
    exchanges: &'a [Exchange],
    stream: &Stream,
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
    request
        .messages
        .iter()
        .filter(|message| message.kind == MessageKind::Request)
        .filter_map(|message| {
            let id = message.id.as_deref()?;
            Some(Request {
                id,
                method: message.method.as_deref().unwrap_or_default(),
                progress_token: message.progress_token.as_deref(),
                answers: replies(session, exchanges, stream, id),
                cancelled: is_cancelled(session, exchanges, id, request.time),
            })
        })
        .collect()
}

/// The answers to a request: on its stream, or else where nobody would look for them.
fn replies<'a>(
    session: &Session,
    exchanges: &'a [Exchange],
    stream: &Stream,
    id: &str,
) -> Vec<Reply<'a>> {
    let own = stream
        .segments
        .iter()
        .filter_map(|&segment| session.exchange(segment, exchanges));
    let replies: Vec<Reply<'a>> = own.flat_map(|exchange| answers_in(exchange, id)).collect();
    if replies.iter().any(|reply| reply.delivered) {
        return replies;
    }
    let strayed = strayed_replies(session, exchanges, stream, id);
    replies.into_iter().chain(strayed).collect()
}

/// Answers on another GET (the wrong channel, but no loss), or to a cursor of this session under
/// another session's id; none where the session uses the request's id twice.
fn strayed_replies<'a>(
    session: &Session,
    exchanges: &'a [Exchange],
    stream: &Stream,
    id: &str,
) -> Vec<Reply<'a>> {
    let post = stream
        .begun_by
        .and_then(|post| exchanges.get(post as usize));
    let Some(since) = post.map(Exchange::time) else {
        return Vec::new();
    };
    let own: BTreeSet<u32> = stream
        .segments
        .iter()
        .filter_map(|&segment| Some(session.segments.get(segment as usize)?.exchange))
        .collect();
    let carried: BTreeSet<u32> = session
        .segments
        .iter()
        .map(|segment| segment.exchange)
        .chain(session.resumes.iter().map(|resume| resume.exchange))
        .collect();
    let replies: Vec<Reply<'a>> = carried
        .difference(&own)
        .filter_map(|&number| exchanges.get(number as usize))
        .filter(|exchange| exchange.method() == "GET")
        .flat_map(|exchange| answers_in(exchange, id))
        .filter(|reply| reply.time >= since)
        .collect();
    let asks = |exchange: &&Exchange| {
        exchange.request.as_ref().is_some_and(|request| {
            let ids = request.messages.iter().filter_map(|message| {
                (message.kind == MessageKind::Request).then_some(message.id.as_deref()?)
            });
            ids.into_iter().any(|other| other == id)
        })
    };
    let twice = || {
        session
            .exchanges
            .iter()
            .filter_map(|&number| exchanges.get(number as usize))
            .filter(asks)
            .nth(1)
            .is_some()
    };
    if replies.is_empty() || twice() {
        Vec::new()
    } else {
        replies
    }
}

fn answers_in<'a>(exchange: &'a Exchange, id: &str) -> impl Iterator<Item = Reply<'a>> {
    exchange
        .events
        .iter()
        .filter(move |event| {
            matches!(event.message, MessageKind::Response | MessageKind::Error)
                && event.rpc_id.map(|id| exchange.text(id)) == Some(id)
        })
        .map(|event| Reply {
            time: event.time,
            hash: event.hash,
            delivered: event.delivered,
            event_id: event.id.filter(|id| id.len > 0).map(|id| exchange.text(id)),
        })
}

fn is_cancelled(session: &Session, exchanges: &[Exchange], id: &str, after: Timestamp) -> bool {
    session
        .exchanges
        .iter()
        .filter_map(|&number| exchanges.get(number as usize)?.request.as_ref())
        .filter(|request| request.time >= after)
        .flat_map(|request| &request.messages)
        .any(|message| message.cancels.as_deref() == Some(id))
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
    /// It may yet be answered, or was where the capture does not show it.
    Pending,
    /// Never answered, though the client stayed.
    Lost,
    /// Never answered; the client left.
    Abandoned,
}

/// The fate of a request of `stream`, cut at `cut`.
#[must_use]
pub fn fate(
    session: &Session,
    exchanges: &[Exchange],
    stream: &Stream,
    request: &Request<'_>,
    cut: Timestamp,
    (window, gaps): (Window, &Gaps),
) -> Fate {
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
    } else if stream_pending(session, exchanges, stream, window, gaps) {
        Fate::Pending
    } else if client_stayed(session, exchanges, cut) {
        Fate::Lost
    } else {
        Fate::Abandoned
    }
}

/// Whether the client stayed after `cut`: it sent another request of the session that is no DELETE,
/// or kept a stream open for 10 s.
#[must_use]
pub fn client_stayed(session: &Session, exchanges: &[Exchange], cut: Timestamp) -> bool {
    let members = || {
        session
            .exchanges
            .iter()
            .filter_map(|&number| exchanges.get(number as usize))
    };
    let asked = members().any(|exchange| {
        exchange
            .request
            .as_ref()
            .is_some_and(|request| request.time > cut && &*request.method != "DELETE")
    });
    let kept = members().any(|exchange| {
        exchange.is_event_stream()
            && exchange.time() <= cut
            && exchange.end.cause != EndCause::Unknown
            && exchange.end.time.since(cut) >= STAYED
    });
    asked || kept
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
