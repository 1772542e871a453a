//! Session ids that the server took from its client (docs/findings.md, `session-adopted`).
//!
//! An id that no initialize of the capture issued was mostly issued before the capture began. It was
//! not when the client names it on its own initialize and gets it; when the server only started within
//! the capture; or when the client initializes, gets another id, and goes on with its own.
//!
//! What the capture lacks may be the answer that issued the id: from the first such gap on, nothing is
//! said.

use super::{Run, members};
use crate::model::{
    case::{Adopted, Adoption, Site},
    exchange::{Answer, ConnectionId, Exchange, Part},
    flow::Endpoint,
    id::SessionId,
    session::{Role, Session},
    time::Timestamp,
};
use foldhash::fast::RandomState;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::SocketAddr,
};

type Map<K, V> = HashMap<K, V, RandomState>;

/// What all exchanges together tell of who issued what.
pub(super) struct Adoptions<'a> {
    run: Run<'a>,
    /// When an answer first gave an id to a request that did not name it, or whose naming is not known.
    given: Map<&'a SessionId, Timestamp>,
    /// When each server first answered anything.
    answered: Map<&'a Endpoint, Timestamp>,
    /// The services whose initialize issues ids.
    issuing: BTreeSet<u32>,
    /// The services with a server of whose connections not every byte was seen.
    torn: BTreeSet<u32>,
    /// The initializes that issued an id on each connection, in order.
    initializes: Map<ConnectionId, Vec<u32>>,
    /// From when on an answer that is not in the capture may have issued any id: by server.
    unknown_from: Map<Option<&'a Endpoint>, Timestamp>,
    /// The same, whatever the server.
    unknown: Option<Timestamp>,
    /// From when on exchanges may be missing altogether: by server.
    blank_from: BTreeMap<SocketAddr, Timestamp>,
}

impl<'a> Adoptions<'a> {
    pub(super) fn of(run: Run<'a>) -> Self {
        let mut all = Self {
            run,
            given: Map::default(),
            answered: Map::default(),
            issuing: BTreeSet::new(),
            torn: BTreeSet::new(),
            initializes: Map::default(),
            unknown_from: Map::default(),
            unknown: None,
            blank_from: BTreeMap::new(),
        };
        for blank in run.servers.blanks.iter() {
            let from = all.blank_from.entry(blank.server).or_insert(blank.from);
            *from = blank.from.min(*from);
        }
        for (number, exchange) in (0..).zip(run.exchanges) {
            all.add(number, exchange);
        }
        let elsewhere = run.elsewhere.may_have_issued;
        all.unknown = all.unknown.into_iter().chain(elsewhere).min();
        all
    }

    fn add(&mut self, number: u32, exchange: &'a Exchange) {
        let time = exchange.time();
        let asked = asked(exchange);
        let service = self.service(number);
        if let (Some(service), Some(server)) = (service, &exchange.server)
            && self.run.servers.torn.has(server)
        {
            self.torn.insert(service);
        }
        if may_have_issued(exchange) {
            let server = exchange.server.as_ref();
            self.unknown_from.entry(server).or_insert(time);
            self.unknown.get_or_insert(time);
        }
        let Some(response) = &exchange.response else {
            return;
        };
        if let Some(server) = &exchange.server {
            let first = self.answered.entry(server).or_insert(time);
            *first = time.min(*first);
        }
        let Some(given) = &response.session_id else {
            return;
        };
        if asked != Some(given) {
            self.given.entry(given).or_insert(time);
        }
        if !exchange.is_initialize() || exchange.answer() != Answer::Success {
            return;
        }
        self.issuing.extend(service);
        if let Some(connection) = exchange.connection {
            self.initializes.entry(connection).or_default().push(number);
        }
    }

    fn session(&self, number: u32) -> Option<(usize, &'a Session)> {
        let Some(Role::Session(session)) = self.run.grouping.role_of.get(number as usize) else {
            return None;
        };
        let index = *session as usize;
        Some((index, self.run.grouping.sessions.get(index)?))
    }

    fn service(&self, number: u32) -> Option<u32> {
        let (session, _) = self.session(number)?;
        self.run.service_of.get(session).copied()
    }

    /// How a session came by an id that nobody issued, with the exchange that shows it.
    pub(super) fn look(&self, index: usize, session: &'a Session) -> Option<(u32, Adopted)> {
        let (number, first) = members(session, self.run.exchanges)
            .find(|(_, exchange)| exchange.answer() == Answer::Success)?;
        let time = first.time();
        let given = self.given.get(&session.id).is_some_and(|&at| at <= time);
        if given || asked(first) != Some(&session.id) {
            return None;
        }
        let started = self.saw_start_of(first);
        let (how, sure) = if first.is_initialize() {
            let named = first
                .response
                .as_ref()
                .is_some_and(|response| response.session_id.as_ref() == Some(&session.id));
            let server = first.server.as_ref();
            let unknown = self
                .unknown_from
                .get(&server)
                .is_some_and(|&from| from <= time)
                || self.may_have_missed(server, time);
            (
                (named && !unknown).then_some(Adoption::OnInitialize)?,
                started,
            )
        } else {
            let service = self.run.service_of.get(index)?;
            let whole = self.run.whole.get(*service as usize) == Some(&true)
                && !self.torn.contains(service)
                && self.unknown.is_none_or(|from| from > time)
                && !self.may_have_missed(first.server.as_ref(), time);
            if first.method() == "DELETE" || !whole {
                return None;
            }
            let instead = self.issued_instead(number, first, session);
            if let Some(issued) = instead {
                (Adoption::InsteadOf(issued), true)
            } else if started && self.keeps_sessions(*service, session) {
                (Adoption::SinceItsStart, false)
            } else {
                return None;
            }
        };
        let site = Site::default();
        Some((number, Adopted { how, sure, site }))
    }

    /// Whether the server of an exchange refused connections before it answered anything. What stands
    /// behind a balancer may have been up all the time.
    fn saw_start_of(&self, exchange: &Exchange) -> bool {
        let Some(server) = &exchange.server else {
            return false;
        };
        let behind = exchange
            .response
            .as_ref()
            .is_some_and(|response| response.backend.is_some());
        let refused = self.run.servers.refused.first(server);
        let answered = self.answered.get(server).copied();
        !behind
            && refused
                .zip(answered)
                .is_some_and(|(refused, answered)| refused < answered)
    }

    /// Whether whole exchanges with a server may be missing before a time, on a connection that could not be
    /// read or that lost both directions.
    fn may_have_missed(&self, server: Option<&Endpoint>, time: Timestamp) -> bool {
        let from = match server {
            Some(Endpoint::Address(server)) => self.blank_from.get(server),
            _ => None,
        };
        self.run.servers.blanks.are_more() || from.is_some_and(|&from| from <= time)
    }

    /// Whether ids mean something to a server: its initialize issues them, or its answers name this one.
    fn keeps_sessions(&self, service: u32, session: &Session) -> bool {
        let names = |(_, exchange): (u32, &Exchange)| {
            exchange
                .response
                .as_ref()
                .is_some_and(|response| response.session_id.as_ref() == Some(&session.id))
        };
        self.issuing.contains(&service) || members(session, self.run.exchanges).any(names)
    }

    /// The id that the client's own initialize got before, on the same connection, when it went on
    /// with this one instead: nobody uses the other, or this one is told to be initialized. A proxy
    /// carries many sessions on one connection; each of them is used.
    fn issued_instead(
        &self,
        number: u32,
        first: &'a Exchange,
        session: &'a Session,
    ) -> Option<SessionId> {
        let before = self.initializes.get(&first.connection?)?;
        let place = before.partition_point(|&initialize| initialize < number);
        let initialize = *before.get(place.checked_sub(1)?)?;
        let (_, other) = self.session(initialize)?;
        let exchange = self.run.exchange(initialize)?;
        let agent = |exchange: &'a Exchange| exchange.request.as_ref()?.user_agent.as_deref();
        let same_client = agent(exchange) == agent(first);
        let unused = other
            .exchanges
            .iter()
            .all(|number| other.issued_by.binary_search(number).is_ok());
        let is_start = first.request.as_ref().is_some_and(|request| {
            request
                .messages
                .iter()
                .any(|message| message.method.as_deref() == Some("notifications/initialized"))
        });
        let apart = other.service == session.service && other.id != session.id;
        (apart && same_client && (unused || is_start)).then(|| other.id.clone())
    }
}

/// The session that a request names.
fn asked(exchange: &Exchange) -> Option<&SessionId> {
    exchange.request.as_ref()?.session_id.as_ref()
}

/// Whether an exchange may have issued an id that the capture does not show: an initialize whose
/// answer is not there, or anything of which head or question are missing.
#[must_use]
pub fn may_have_issued(exchange: &Exchange) -> bool {
    let head_lost = exchange.response.is_none() && exchange.is_initialize()
        || exchange.has_hole(Part::ResponseHead);
    let question_lost = match &exchange.request {
        None => true,
        Some(request) => exchange.has_hole(Part::Request) || !request.complete,
    };
    let names = exchange
        .response
        .as_ref()
        .is_some_and(|response| response.session_id.is_some());
    head_lost || question_lost && !names
}
