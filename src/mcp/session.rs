//! Exchanges → sessions: grouping by service and session id (MCP, "Session management").
//!
//! A session is made of the exchanges of one service under an id that a success issued or
//! answered at least once. What has no session is put aside by kind: the 2024-11-05 transport
//! (told by its shape), MCP without sessions, ids that were only ever refused, and all else.

use super::revision::{Era, era, stated};
use crate::model::{
    exchange::{Answer, Exchange, Scheme},
    id::SessionId,
    message::MessageKind,
    session::{Grouping, RefusedId, Role, Session},
};
use foldhash::fast::RandomState;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

type Map<K, V> = HashMap<K, V, RandomState>;

/// What an exchange addresses: scheme, host and path without query, a trailing slash aside.
#[must_use]
pub fn service(exchange: &Exchange) -> Arc<str> {
    let Some(request) = &exchange.request else {
        return Arc::from("");
    };
    let target = &*request.target;
    let path = match target.split_once("://") {
        Some((_, rest)) => rest
            .find('/')
            .map_or("/", |slash| rest.get(slash..).unwrap_or("/")),
        None => target,
    };
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let path = match path.strip_suffix('/') {
        Some(short) if !short.is_empty() => short,
        _ => path,
    };
    Arc::from(format!(
        "{}://{}{path}",
        request.scheme.name(),
        request.host
    ))
}

/// Puts every exchange into its place. `exchanges` are in order of time.
#[must_use]
pub fn group(exchanges: &[Exchange]) -> Grouping {
    let mut grouping = Grouping {
        role_of: vec![Role::Other; exchanges.len()],
        ..Grouping::default()
    };
    group_legacy(exchanges, &mut grouping);
    let services: Vec<Arc<str>> = intern_services(exchanges);
    let real = real_ids(exchanges, &services, &grouping);

    let mut places = Places::default();
    let mut refused: Map<SessionId, u32> = Map::default();
    for (number, exchange) in exchanges.iter().enumerate() {
        if grouping.role_of.get(number) != Some(&Role::Other) {
            continue;
        }
        let role = if is_sessionless_era(exchange) {
            Role::Sessionless
        } else if let Some(id) = session_id(exchange) {
            let asked = exchange
                .request
                .as_ref()
                .is_some_and(|r| r.session_id.is_some());
            let key = (Arc::clone(&services[number]), id.clone());
            if let Some(key) = real.resolve(key, asked) {
                let session = places.of(&key, &mut grouping.sessions);
                // What is answered under another id goes on under that one.
                if let Some(given) = answered_elsewhere(exchange, &key.1) {
                    places.of(&(key.0, given), &mut grouping.sessions);
                }
                Role::Session(session)
            } else if exchange.request.is_some() {
                let place = *refused.entry(id.clone()).or_insert_with(|| {
                    grouping.refused_ids.push(RefusedId {
                        id,
                        exchanges: Vec::new(),
                    });
                    number_of(grouping.refused_ids.len() - 1)
                });
                grouping.refused_ids[place as usize]
                    .exchanges
                    .push(number_of(number));
                Role::Refused(place)
            } else {
                Role::Other
            }
        } else if speaks_mcp(exchange) {
            Role::Sessionless
        } else {
            Role::Other
        };
        grouping.role_of[number] = role;
        if let Role::Session(session) = role {
            describe(
                &mut grouping.sessions[session as usize],
                exchange,
                number_of(number),
            );
        }
    }
    grouping
}

/// The place of each session, by service and id.
#[derive(Default)]
struct Places(Map<(Arc<str>, SessionId), u32>);

impl Places {
    fn of(&mut self, key: &(Arc<str>, SessionId), sessions: &mut Vec<Session>) -> u32 {
        *self.0.entry(key.clone()).or_insert_with(|| {
            sessions.push(Session {
                id: key.1.clone(),
                service: Arc::clone(&key.0),
                ..Session::default()
            });
            number_of(sessions.len() - 1)
        })
    }
}

/// The other session under which an event stream was answered.
fn answered_elsewhere(exchange: &Exchange, asked: &SessionId) -> Option<SessionId> {
    let given = exchange.response.as_ref()?.session_id.clone()?;
    (given != *asked
        && !given.is_empty()
        && exchange.is_event_stream()
        && !exchange.is_initialize())
    .then_some(given)
}

/// The session an exchange belongs to: the one it asks for; an `initialize` (or a request without
/// one) belongs to the one its answer issues.
#[must_use]
pub fn session_id(exchange: &Exchange) -> Option<SessionId> {
    let asked = exchange
        .request
        .as_ref()
        .and_then(|request| request.session_id.clone());
    let given = exchange
        .response
        .as_ref()
        .and_then(|response| response.session_id.clone());
    if exchange.is_initialize() {
        return given.or(asked);
    }
    asked.or(given).filter(|id| !id.is_empty())
}

/// The ids that make sessions: those a success issued or answered at least once.
struct RealIds {
    by_service: Map<(Arc<str>, SessionId), ()>,
    /// Services an id is known under, for exchanges whose own service is not known.
    services: BTreeMap<SessionId, Vec<Arc<str>>>,
}

impl RealIds {
    fn resolve(&self, key: (Arc<str>, SessionId), asked: bool) -> Option<(Arc<str>, SessionId)> {
        // The request's head, or its Host, is not in the capture: the id alone must do, where it
        // names one session.
        let known = self.services.get(&key.1)?;
        match known.as_slice() {
            [service] if !asked || key.0.is_empty() => Some((Arc::clone(service), key.1)),
            _ => self.by_service.contains_key(&key).then_some(key),
        }
    }
}

fn real_ids(exchanges: &[Exchange], services: &[Arc<str>], grouping: &Grouping) -> RealIds {
    let mut real = RealIds {
        by_service: Map::default(),
        services: BTreeMap::new(),
    };
    for (number, exchange) in exchanges.iter().enumerate() {
        if grouping.role_of.get(number) != Some(&Role::Other)
            || is_sessionless_era(exchange)
            || exchange.answer() != Answer::Success
        {
            continue;
        }
        let asked = exchange
            .request
            .as_ref()
            .and_then(|request| request.session_id.clone());
        let given = exchange
            .response
            .as_ref()
            .and_then(|response| response.session_id.clone());
        // An answered DELETE alone makes no session: some servers say 200 to any id.
        let deleting = exchange
            .request
            .as_ref()
            .is_some_and(|r| &*r.method == "DELETE");
        for id in [asked.filter(|_| !deleting), given].into_iter().flatten() {
            if id.is_empty() {
                continue;
            }
            let service = &services[number];
            if real
                .by_service
                .insert((Arc::clone(service), id.clone()), ())
                .is_none()
            {
                real.services
                    .entry(id)
                    .or_default()
                    .push(Arc::clone(service));
            }
        }
    }
    // A service that is not known (a lost request head) is no second one beside a known one.
    for services in real.services.values_mut() {
        if services.len() > 1 {
            services.retain(|service| !service.is_empty());
        }
    }
    real
}

fn describe(session: &mut Session, exchange: &Exchange, number: u32) {
    session.exchanges.push(number);
    if let Some(version) = stated(exchange) {
        session
            .protocol_version
            .get_or_insert_with(|| Arc::from(version));
    }
    let request = exchange.request.as_ref();
    if exchange.is_initialize() && exchange.answer() == Answer::Success {
        if exchange
            .response
            .as_ref()
            .is_some_and(|response| response.session_id.as_deref() == Some(&*session.id))
        {
            session.issued_by.push(number);
        }
        for message in request.map_or(&[][..], |request| &request.messages) {
            if let Some(name) = message.party() {
                session.client_name.get_or_insert_with(|| Arc::from(name));
            }
        }
        let greeting = exchange.response.as_ref().and_then(|r| r.greeting.as_ref());
        if let Some(greeting) = greeting {
            if let Some(name) = &greeting.server_name {
                session
                    .server_name
                    .get_or_insert_with(|| Arc::from(&**name));
            }
            session.protocol_version = Some(Arc::from(&*greeting.protocol_version));
        }
    }
}

fn is_sessionless_era(exchange: &Exchange) -> bool {
    stated(exchange).is_some_and(|version| era(version) == Era::Sessionless)
}

/// Whether an exchange without a session is MCP: it carries JSON-RPC, or its events do.
fn speaks_mcp(exchange: &Exchange) -> bool {
    let json_rpc = exchange.request.as_ref().is_some_and(|request| {
        request
            .messages
            .iter()
            .any(|message| message.kind != MessageKind::None)
    }) || exchange.response.as_ref().is_some_and(|response| {
        response
            .messages
            .iter()
            .any(|message| message.kind != MessageKind::None)
    });
    json_rpc
        || exchange
            .request
            .as_ref()
            .is_some_and(|request| request.protocol_version.is_some())
        || exchange
            .events
            .iter()
            .any(|event| !matches!(event.message, MessageKind::None | MessageKind::Redacted))
}

/// The 2024-11-05 transport: an event stream whose first event is `endpoint`, and POSTs to a URL
/// with the session in its query. Its revision may be negotiated later than that.
fn group_legacy(exchanges: &[Exchange], grouping: &mut Grouping) {
    let mut by_target: Map<String, u32> = Map::default();
    for (number, exchange) in exchanges.iter().enumerate() {
        let Some(target) = exchange.endpoint.as_deref() else {
            continue;
        };
        let first = exchange.events.first().and_then(|event| event.event_type);
        if !exchange.is_event_stream() || first.map(|name| exchange.text(name)) != Some("endpoint")
        {
            continue;
        }
        let id = query_session(target).unwrap_or(target);
        grouping.legacy.push(Session {
            id: SessionId::from(id),
            service: service(exchange),
            exchanges: vec![number_of(number)],
            ..Session::default()
        });
        let legacy = number_of(grouping.legacy.len() - 1);
        by_target.insert(id.to_owned(), legacy);
        grouping.role_of[number] = Role::Legacy(legacy);
    }
    if grouping.legacy.is_empty() {
        return;
    }
    for (number, exchange) in exchanges.iter().enumerate() {
        let Some(request) = &exchange.request else {
            continue;
        };
        if &*request.method != "POST" || request.session_id.is_some() {
            continue;
        }
        let Some(id) = query_session(&request.target) else {
            continue;
        };
        if let Some(&legacy) = by_target.get(id) {
            grouping.role_of[number] = Role::Legacy(legacy);
            let session = &mut grouping.legacy[legacy as usize];
            session.exchanges.push(number_of(number));
        }
    }
    for session in &mut grouping.legacy {
        session.exchanges.sort_unstable();
    }
}

/// The session named in a URL's query: `session_id`, `sessionId` and the like.
fn query_session(target: &str) -> Option<&str> {
    let (_, query) = target.split_once('?')?;
    query.split('&').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let plain: String = name.chars().filter(|c| *c != '_' && *c != '-').collect();
        (plain.eq_ignore_ascii_case("sessionid") && !value.is_empty()).then_some(value)
    })
}

fn intern_services(exchanges: &[Exchange]) -> Vec<Arc<str>> {
    let mut known: Map<Arc<str>, Arc<str>> = Map::default();
    // Most exchanges address one of a few services in the same words.
    let mut of_words: Map<(Scheme, &str, &str), Arc<str>> = Map::default();
    exchanges
        .iter()
        .map(|exchange| {
            let request = exchange.request.as_ref();
            let words = request.map(|request| (request.scheme, &*request.host, &*request.target));
            if let Some(name) = words.and_then(|words| of_words.get(&words)) {
                return Arc::clone(name);
            }
            let name = service(exchange);
            let name = Arc::clone(known.entry(Arc::clone(&name)).or_insert(name));
            if let Some(words) = words
                && of_words.len() < WORDS
            {
                of_words.insert(words, Arc::clone(&name));
            }
            name
        })
        .collect()
}

/// Addresses that are remembered as they were written.
const WORDS: usize = 4096;

/// Indices are kept in 32 bits; a run of more exchanges does not fit the machine's memory.
fn number_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
