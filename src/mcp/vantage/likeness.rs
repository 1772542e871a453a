//! What two sides of one exchange say alike, and whether their answers agree.

use crate::model::{
    event::{Event, Text},
    exchange::{Exchange, Part, Request, Source},
    message::{Message, MessageKind, PayloadHash},
};
use foldhash::fast::FixedState;
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hash, Hasher};
use xxhash_rust::xxh3::xxh3_128;

/// What a request says that a proxy does not change: not its path, its host or the bytes of its
/// JSON.
///
/// It is looked up several times, so it carries hashes of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Likeness<'a> {
    digest: u64,
    /// The digest under any session.
    of_any: u64,
    /// The session asked for, or given; `None` where that does not count.
    pub(super) session: Option<&'a str>,
    method: &'a str,
    cursor: Option<&'a str>,
    body: PayloadHash,
}

impl<'a> Likeness<'a> {
    /// `None` when the request is not known as a whole.
    pub(super) fn of(exchange: &'a Exchange) -> Option<Self> {
        let request = exchange
            .request
            .as_ref()
            .filter(|request| request.complete && !exchange.has_hole(Part::Request))?;
        let unrecorded = matches!(exchange.source, Source::Har { .. })
            && &*request.method == "POST"
            && request.body == PayloadHash::default();
        if unrecorded {
            return None;
        }
        let given = exchange
            .response
            .as_ref()
            .and_then(|response| response.session_id.as_deref());
        let method = &*request.method;
        let cursor = request.last_event_id.as_deref().filter(|id| !id.is_empty());
        let body = body(request);
        let of_any = FixedState::default().hash_one((method, cursor, body));
        let key = Self {
            digest: of_any,
            of_any,
            session: None,
            method,
            cursor,
            body,
        };
        Some(key.under(request.session_id.as_deref().or(given)))
    }

    /// Itself as a number.
    pub(super) const fn digest(self) -> u64 {
        self.digest
    }

    /// The same under a session.
    pub(super) fn under(self, session: Option<&'a str>) -> Self {
        let digest = match session {
            Some(session) => FixedState::default().hash_one((self.of_any, session)),
            None => self.of_any,
        };
        Self {
            digest,
            session,
            ..self
        }
    }

    /// The same under any session.
    pub(super) fn of_any_session(self) -> Self {
        self.under(None)
    }
}

impl Hash for Likeness<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.digest);
    }
}

/// The hash of a body: of what its JSON-RPC messages ask, else of its bytes.
fn body(request: &Request) -> PayloadHash {
    if request.messages.is_empty() {
        return request.body;
    }
    let mut all: SmallVec<[u8; 256]> = SmallVec::new();
    let mut add = |part: &[u8]| {
        all.extend_from_slice(&(part.len() as u64).to_le_bytes());
        all.extend_from_slice(part);
    };
    for message in &request.messages {
        add(message.kind.name().as_bytes());
        for text in [&message.id, &message.method] {
            add(text.as_deref().unwrap_or_default().as_bytes());
        }
        add(&{ message.call.0 }.to_le_bytes());
    }
    PayloadHash(xxh3_128(&all))
}

/// Whether a request calls something whose answer tells of more than life.
pub(super) fn calls(exchange: &Exchange) -> bool {
    messages(exchange)
        .iter()
        .any(|message| message.kind == MessageKind::Request)
}

pub(super) fn messages(exchange: &Exchange) -> &[Message] {
    exchange
        .request
        .as_ref()
        .map_or(&[], |request| &request.messages)
}

/// How two answers stand to each other, from the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Agreement {
    /// They say different things.
    Other,
    /// Nothing tells.
    Open,
    /// They say the same, or both requests carry one trace.
    Same,
}

/// Whether both requests carry one trace.
pub(super) fn is_traced(one: &Exchange, two: &Exchange) -> bool {
    let trace = |exchange: &Exchange| exchange.request.as_ref().and_then(|request| request.trace);
    trace(one).is_some() && trace(one) == trace(two)
}

/// Compares the answers of two exchanges.
pub(super) fn agreement(outer: &Exchange, inner: &Exchange) -> Agreement {
    let traced = is_traced(outer, inner);
    let (Some(one), Some(two)) = (&outer.response, &inner.response) else {
        return if traced {
            Agreement::Same
        } else {
            Agreement::Open
        };
    };
    let told = if one.status != two.status {
        Agreement::Other
    } else if outer.events.is_empty() || inner.events.is_empty() {
        bodies(&one.messages, &two.messages)
    } else {
        streams(outer, inner).agreement
    };
    let issued = outer.is_initialize()
        && one.session_id.is_some()
        && one.session_id == two.session_id
        && one.status == two.status;
    match told {
        Agreement::Open if traced || issued => Agreement::Same,
        Agreement::Same if !calls(outer) && outer.events.is_empty() => Agreement::Open,
        told => told,
    }
}

fn bodies(one: &[Message], two: &[Message]) -> Agreement {
    if one.is_empty() || two.is_empty() {
        return Agreement::Open;
    }
    let alike = |(one, two): (&Message, &Message)| one.kind == two.kind && one.id == two.id;
    let whole = one.len() == two.len();
    let same = |(one, two): (&Message, &Message)| one.hash == two.hash || results(one, two);
    if whole && one.iter().zip(two).all(same) {
        Agreement::Same
    } else if whole && one.iter().zip(two).all(alike) {
        // A proxy may have written the same anew.
        Agreement::Open
    } else {
        Agreement::Other
    }
}

/// Whether two messages are one result under one id, however its JSON is written.
fn results(one: &Message, two: &Message) -> bool {
    let both = one.kind == MessageKind::Response && two.kind == MessageKind::Response;
    both && one.id == two.id && one.call == two.call
}

/// Whether two answers that are JSON bring other results for the same ids.
pub(super) fn results_differ(outer: &Exchange, inner: &Exchange) -> bool {
    let (Some(one), Some(two)) = (&outer.response, &inner.response) else {
        return false;
    };
    one.messages.iter().zip(&two.messages).any(|(one, two)| {
        let both = one.kind == MessageKind::Response && two.kind == MessageKind::Response;
        both && !results(one, two)
    })
}

/// How two event streams stand to each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    /// Whether they agree.
    pub(super) agreement: Agreement,
    /// Messages that both brought, with their ids.
    pub(super) common: usize,
    /// Ids among them that no counter makes: long ones.
    pub(super) long_ids: usize,
    /// None of them came on the inner side after it had come on the outer one.
    pub(super) in_order: bool,
}

/// Compares the events of two streams: one must begin as the other does; where holes lie, some
/// event must be common.
pub(super) fn streams(outer: &Exchange, inner: &Exchange) -> Streams {
    let mut found = Streams {
        agreement: Agreement::Open,
        common: 0,
        long_ids: 0,
        in_order: true,
    };
    let note = |found: &mut Streams, one: &Event, two: &Event| {
        if one.is_message() {
            found.common += 1;
            found.long_ids += usize::from(one.id.is_some_and(|id| id.len >= LONG_ID));
        }
        found.in_order &= two.time <= one.time;
    };
    let holes = outer.body_has_hole() || inner.body_has_hole();
    let (one, two) = (&outer.events, &inner.events);
    if !holes {
        for (one, two) in one.iter().zip(two).take(COMPARED) {
            match resemblance(outer, &one, inner, &two) {
                Agreement::Other => {
                    found.agreement = Agreement::Other;
                    return found;
                }
                Agreement::Open => found.in_order &= two.time <= one.time,
                Agreement::Same => note(&mut found, &one, &two),
            }
        }
    } else {
        let mut rest = two.iter().take(COMPARED);
        for one in one.iter().take(COMPARED) {
            let mut ahead = rest.clone();
            let same = |two: &Event| resemblance(outer, &one, inner, two) == Agreement::Same;
            if let Some(two) = ahead.find(same) {
                note(&mut found, &one, &two);
                rest = ahead;
            }
        }
    }
    if found.common > 0 {
        found.agreement = Agreement::Same;
    }
    found
}

/// Whether two events are one: the same id and payload. The same message under the same id with
/// other bytes may be written anew, or be another one.
fn resemblance(outer: &Exchange, one: &Event, inner: &Exchange, two: &Event) -> Agreement {
    let same = |of: fn(&Event) -> Option<Text>| match (of(one), of(two)) {
        (Some(a), Some(b)) => outer.text(a) == inner.text(b),
        (None, None) => true,
        _ => false,
    };
    if !same(|event| event.id) {
        return Agreement::Other;
    }
    if one.hash == two.hash {
        return Agreement::Same;
    }
    let written_anew = one.is_message()
        && one.message == two.message
        && same(|event| event.rpc_id)
        && same(|event| event.method)
        && same(|event| event.progress_token);
    if written_anew {
        Agreement::Open
    } else {
        Agreement::Other
    }
}

/// Events compared of two streams: what comes later adds no certainty.
const COMPARED: usize = 64;

/// Characters of an id that no counter makes: the ids of two sessions are not both so by chance.
const LONG_ID: u32 = 16;
