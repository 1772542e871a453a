//! Sessions → verdicts. Two passes: what the whole run teaches (order of ids, who was lost when),
//! then each session judged on its own, in order of time.

mod around;
pub mod backend;
pub mod between;
mod cost;
pub mod crossing;
pub mod gateway;
pub mod id;
pub mod judge;
pub mod ledger;
pub mod order;
pub mod overall;
mod owed;
pub mod refusal;
pub mod request;
mod row;
pub mod sighting;
pub mod survey;
mod walk;

use crate::{
    limits::Limits,
    model::{
        analysis::{Resume, SegmentRow, SessionRow},
        case::{ResumeCase, SessionCase},
        coverage::{Coverage, Covered, inputs_of},
        elsewhere::Elsewhere,
        exchange::{Answer, Exchange, Part},
        flow::{Endpoint, ServerFacts},
        id::SessionId,
        place::InputId,
        session::{Grouping, Session},
        time::Timestamp,
    },
};
use backend::Backends;
pub use between::may_have_issued;
use between::{Between, Run};
use crossing::Crossings;
use gateway::Gateways;
use order::Orders;
pub use owed::{Gaps, Spans};
use rayon::prelude::*;
use refusal::{History, Losses, Neighbours, Story};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// A session, judged.
#[derive(Debug, Default)]
pub struct Judged {
    /// The evidence, for the findings; resumes inside.
    pub case: SessionCase,
    /// A row for each incarnation.
    pub rows: Vec<SessionRow>,
    /// A row for each segment.
    pub segments: Vec<SegmentRow>,
    /// The exchanges of resumes that were not judged because its history is longer than
    /// [`Limits::history_looks`].
    pub worn: Vec<u32>,
}

/// Judges every session of a run, of which parts may be `elsewhere`. The result stands in the order of [`Grouping::sessions`].
#[must_use]
pub fn audit(
    grouping: &Grouping,
    exchanges: &[Exchange],
    coverage: &Coverage,
    servers: &ServerFacts,
    elsewhere: &Elsewhere,
    limits: &Limits,
) -> Vec<Judged> {
    let services = Services::of(grouping, exchanges, servers, elsewhere);
    let backends = Backends::learn(
        &grouping.sessions,
        &services.of_session,
        services.whole.len(),
        exchanges,
    );
    let mut members: Vec<Vec<(u32, &Session)>> = vec![Vec::new(); services.whole.len()];
    for ((index, session), &service) in (0..).zip(&grouping.sessions).zip(&services.of_session) {
        if let Some(members) = members.get_mut(service as usize) {
            members.push((index, session));
        }
    }
    let gateways = Gateways::new(
        &grouping.sessions,
        exchanges,
        &servers.blanks,
        &elsewhere.torn_sessions,
    );
    let (none, no_crossings) = (Backends::default(), Crossings::default());
    let whole: Vec<bool> = (0..)
        .zip(&services.whole)
        .map(|(service, _)| services.is_whole(service))
        .collect();
    // Each looks at all events, and none at what the others find.
    let learn_crossings = || -> Vec<Crossings<'_>> {
        members
            .par_iter()
            .zip(&whole)
            .map(|(members, &whole)| Crossings::learn(members, exchanges, whole, &gateways))
            .collect()
    };
    let learn_between = || {
        Between::learn(Run {
            grouping,
            exchanges,
            service_of: &services.of_session,
            whole: &whole,
            servers,
            elsewhere,
        })
    };
    let learn_orders = || Orders::learn(&grouping.sessions, &services.of_session, exchanges);
    let (crossings, (between, orders)) =
        rayon::join(learn_crossings, || rayon::join(learn_between, learn_orders));
    let mut judged: Vec<Judged> = grouping
        .sessions
        .par_iter()
        .zip(&services.of_session)
        .enumerate()
        .map(|(index, (session, &service))| {
            let covered = covered(coverage, session, exchanges);
            walk::Walk::new(&walk::Room {
                session,
                service,
                exchanges,
                orders: &orders,
                backends: backends.get(service as usize).unwrap_or(&none),
                crossings: crossings.get(service as usize).unwrap_or(&no_crossings),
                index: u32::try_from(index).unwrap_or(u32::MAX),
                window: covered.window,
                service_whole: services.is_whole(service),
                gaps: services.gaps(session, exchanges, covered.lacks),
                neighbours: services.neighbours(index, session, exchanges),
                between: &between,
                looks: limits.history_looks,
            })
            .judge()
        })
        .collect();
    mark_common_losses(&mut judged);
    judged
}

/// Which part of the run's event ids is their number.
#[must_use]
pub fn id_numbers(
    grouping: &Grouping,
    exchanges: &[Exchange],
    servers: &ServerFacts,
) -> order::NumberTokens {
    let services = Services::of(grouping, exchanges, servers, &Elsewhere::default());
    Orders::learn(&grouping.sessions, &services.of_session, exchanges).number_tokens()
}

/// When a session was captured: in the inputs that it was seen in, and in those that go on with them.
fn covered(coverage: &Coverage, session: &Session, exchanges: &[Exchange]) -> Covered {
    let inputs: BTreeSet<InputId> = session
        .exchanges
        .iter()
        .filter_map(|&number| exchanges.get(number as usize))
        .flat_map(inputs_of)
        .collect();
    coverage.covered(&inputs)
}

/// Rows for the segments of a session that is listed and not judged.
#[must_use]
pub fn list_segments(session: &Session, exchanges: &[Exchange]) -> Vec<SegmentRow> {
    row::segments(session, exchanges, &|_| 0)
}

/// What is known of the services that sessions belong to.
struct Services<'a> {
    /// The service of each session, numbered.
    of_session: Vec<u32>,
    /// Whether every exchange of a service was seen whole: no hole, no lost head.
    whole: Vec<bool>,
    /// Whether an exchange of no session has a hole: which service it was for, or what else was in it,
    /// is not known.
    torn_elsewhere: bool,
    /// While responses came whose request head is missing, and with it the service it addressed: by
    /// client and the session that they name themselves.
    headless: Headless,
    /// What the sessions of each service went through.
    history: Vec<History>,
    no_history: History,
    /// What the sessions of each server went through.
    losses: Losses,
    /// What packets show of servers beside their exchanges.
    facts: &'a ServerFacts,
    /// When connections of each host were torn.
    torn: BTreeMap<IpAddr, Spans>,
    /// When exchanges with each server may be missing altogether.
    blanks: BTreeMap<SocketAddr, Spans>,
}

/// Spans by client and session.
type Headless = BTreeMap<(Option<IpAddr>, Option<SessionId>), Spans>;

impl<'a> Services<'a> {
    fn of(
        grouping: &Grouping,
        exchanges: &[Exchange],
        facts: &'a ServerFacts,
        elsewhere: &Elsewhere,
    ) -> Self {
        let sessions = &grouping.sessions;
        let mut numbers: BTreeMap<(Arc<str>, Option<IpAddr>), u32> = BTreeMap::new();
        let mut of_session = Vec::with_capacity(sessions.len());
        for session in sessions {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            let key = (Arc::clone(&session.service), session.behind);
            of_session.push(*numbers.entry(key).or_insert(next));
        }
        let mut whole = vec![true; numbers.len()];
        for (session, &service) in sessions.iter().zip(&of_session) {
            let torn = session
                .exchanges
                .iter()
                .filter_map(|&number| exchanges.get(number as usize))
                .any(|exchange| !exchange.holes.is_empty() || exchange.request.is_none());
            if torn && let Some(whole) = whole.get_mut(service as usize) {
                *whole = false;
            }
        }
        let mut stories: Vec<Vec<(usize, Story)>> = Vec::new();
        stories.resize_with(numbers.len(), Vec::new);
        let mut lost = Vec::new();
        for ((index, session), &service) in sessions.iter().enumerate().zip(&of_session) {
            let story = story(session, exchanges);
            if let Some(lost_at) = story.lost_at {
                lost.push((lost_at, index, servers_of(session, exchanges)));
            }
            if let Some(stories) = stories.get_mut(service as usize) {
                stories.push((index, story));
            }
        }
        let blanks = blanks_by_server(facts);
        lost.extend(perhaps_lost(grouping, exchanges, facts, &blanks));
        let history = stories
            .into_iter()
            .map(|stories| History::of(stories.into_iter()))
            .collect();
        Self {
            of_session,
            whole,
            torn_elsewhere: elsewhere.torn || torn_elsewhere(grouping, exchanges),
            headless: headless(grouping, exchanges, facts, elsewhere),
            history,
            no_history: History::default(),
            losses: Losses::of(lost.into_iter()),
            facts,
            torn: facts
                .torn
                .by_host()
                .into_iter()
                .map(|(host, spans)| (host, Spans::of(spans)))
                .collect(),
            blanks,
        }
    }

    fn is_whole(&self, service: u32) -> bool {
        self.headless.is_empty()
            && !self.torn_elsewhere
            && self.whole.get(service as usize).copied().unwrap_or(false)
    }

    /// What the capture lacks of a session; `lacks` is when it was not captured at all.
    fn gaps(
        &self,
        session: &Session,
        exchanges: &[Exchange],
        lacks: Vec<(Timestamp, Timestamp)>,
    ) -> Gaps {
        let members = || {
            session
                .exchanges
                .iter()
                .filter_map(|&number| exchanges.get(number as usize))
        };
        let any_torn = self.facts.torn.may_be_any();
        let any_blank = self.facts.blanks.are_more();
        let seen_whole =
            self.headless.is_empty() && self.torn.is_empty() && !any_torn && !any_blank;
        let clients: BTreeSet<Option<IpAddr>> = if seen_whole {
            BTreeSet::new()
        } else {
            members().map(client_host).collect()
        };
        let ever = || {
            let (first, last) = (i64::MIN, i64::MAX);
            Spans::of(vec![(
                Timestamp::from_nanos(first),
                Timestamp::from_nanos(last),
            )])
        };
        let torn = clients
            .iter()
            .filter_map(|client| self.torn.get(client.as_ref()?).cloned())
            .chain(any_torn.then(ever))
            .collect();
        let headless = clients
            .into_iter()
            .flat_map(|client| [(client, None), (client, Some(session.id.clone()))])
            .filter_map(|key| self.headless.get(&key).cloned())
            .chain(any_blank.then(ever))
            .chain((!lacks.is_empty()).then(|| Spans::of(lacks)))
            .collect();
        Gaps::of(members(), headless, torn)
    }

    fn neighbours(
        &self,
        index: usize,
        session: &Session,
        exchanges: &[Exchange],
    ) -> Neighbours<'_> {
        let service = self.of_session.get(index).copied().unwrap_or(0);
        Neighbours {
            history: self
                .history
                .get(service as usize)
                .unwrap_or(&self.no_history),
            losses: &self.losses,
            facts: self.facts,
            blanks: &self.blanks,
            session: index,
            servers: servers_of(session, exchanges),
            clients: session
                .exchanges
                .iter()
                .filter_map(|&number| exchanges.get(number as usize).and_then(client_host))
                .collect(),
        }
    }
}

/// The servers that answered a session.
fn servers_of(session: &Session, exchanges: &[Exchange]) -> BTreeSet<Endpoint> {
    let mut last: Option<&Endpoint> = None;
    session
        .exchanges
        .iter()
        .filter_map(|&number| exchanges.get(number as usize))
        .filter(|exchange| exchange.response.is_some())
        .filter_map(|exchange| exchange.server.as_ref())
        .filter(|server| last.replace(server) != Some(server))
        .cloned()
        .collect()
}

/// What one session adds to the history of its service.
fn story(session: &Session, exchanges: &[Exchange]) -> Story {
    let exchange = |&number: &u32| exchanges.get(number as usize);
    Story {
        lost_at: refusal::lost_for_good(session, exchanges),
        served_at: session
            .exchanges
            .iter()
            .rev()
            .filter_map(exchange)
            .find(|exchange| exchange.answer() == Answer::Success)
            .map(Exchange::time),
        began: session
            .exchanges
            .iter()
            .filter_map(exchange)
            .find(|exchange| exchange.answer() == Answer::Success && exchange.request.is_some())
            .map(|exchange| (refusal::Client::of(exchange), exchange.time())),
        initialized: session
            .issued_by
            .iter()
            .filter_map(exchange)
            .map(|exchange| (client_host(exchange), exchange.time()))
            .collect(),
        unanswered: session
            .exchanges
            .iter()
            .filter_map(exchange)
            .filter(|exchange| exchange.has_hole(Part::ResponseHead))
            .map(|exchange| (exchange.time(), exchange.end.time))
            .collect(),
    }
}

fn torn_elsewhere(grouping: &Grouping, exchanges: &[Exchange]) -> bool {
    let mut outside = vec![true; exchanges.len()];
    let judged = grouping.sessions.iter().flat_map(|s| &s.exchanges).copied();
    // What another exchange shows as well is not missing.
    let shown = (0..)
        .zip(&grouping.inner_of)
        .filter(|(_, side)| side.is_some());
    for number in judged.chain(shown.map(|(number, _)| number)) {
        if let Some(outside) = outside.get_mut(number as usize) {
            *outside = false;
        }
    }
    let torn = |exchange: &Exchange| exchange.has_hole(Part::ResponseHead);
    exchanges
        .iter()
        .zip(outside)
        .any(|(exchange, outside)| outside && torn(exchange))
}

/// Whether the request of a response, or all that would say which session it is of, is missing.
#[must_use]
pub fn is_headless(exchange: &Exchange) -> bool {
    exchange
        .request
        .as_ref()
        .is_none_or(|r| r.session_id.is_none() && exchange.has_hole(Part::ResponseHead))
}

/// Responses of which the request, or all that would say which session they are of, is missing: one to an
/// initialize may have issued any id, the same once more among them. What another exchange shows as well
/// is not missing.
fn headless(
    grouping: &Grouping,
    exchanges: &[Exchange],
    facts: &ServerFacts,
    elsewhere: &Elsewhere,
) -> Headless {
    let mut lists: BTreeMap<_, Vec<(Timestamp, Timestamp)>> = BTreeMap::new();
    for (number, exchange) in exchanges.iter().enumerate() {
        let shown = grouping.inner_of.get(number).copied().flatten();
        if shown.is_some() || !is_headless(exchange) {
            continue;
        }
        let names = exchange
            .response
            .as_ref()
            .and_then(|r| r.session_id.clone());
        let list = lists.entry((client_host(exchange), names)).or_default();
        list.push((exchange.time(), exchange.end.time));
    }
    for other in &elsewhere.headless {
        let list = lists.entry((other.client, other.session.clone()));
        list.or_default().push((other.from, other.until));
    }
    // Of an exchange that lies in a hole altogether, who asked whom is known, and no more.
    for blank in facts.blanks.iter() {
        let list = lists.entry((Some(blank.client), None)).or_default();
        list.push((blank.from, blank.until));
    }
    lists
        .into_iter()
        .map(|(key, spans)| (key, Spans::of(spans)))
        .collect()
}

/// Session ids that were only ever refused, of servers of whose connections something is missing: that they were
/// served before, and lost with others, may be what is missing. When, the number of no session, and the server.
fn perhaps_lost<'a>(
    grouping: &'a Grouping,
    exchanges: &'a [Exchange],
    facts: &'a ServerFacts,
    blanks: &'a BTreeMap<SocketAddr, Spans>,
) -> impl Iterator<Item = (Timestamp, usize, BTreeSet<Endpoint>)> + 'a {
    grouping.refused_ids.iter().filter_map(move |refused| {
        let exchange = refused
            .exchanges
            .iter()
            .filter_map(|&number| exchanges.get(number as usize))
            .find(|exchange| exchange.answer() == Answer::Refused)?;
        let server = exchange.server.as_ref()?;
        let has_blank = match server {
            Endpoint::Address(address) => blanks.contains_key(address),
            Endpoint::Name(..) => false,
        };
        (facts.torn.has(server) || has_blank).then(|| {
            let servers = BTreeSet::from([server.clone()]);
            (exchange.time(), usize::MAX, servers)
        })
    })
}

fn blanks_by_server(facts: &ServerFacts) -> BTreeMap<SocketAddr, Spans> {
    let mut lists: BTreeMap<SocketAddr, Vec<(Timestamp, Timestamp)>> = BTreeMap::new();
    for blank in facts.blanks.iter() {
        let list = lists.entry(blank.server).or_default();
        list.push((blank.from, blank.until));
    }
    lists
        .into_iter()
        .map(|(server, spans)| (server, Spans::of(spans)))
        .collect()
}

/// The host of an exchange's client.
fn client_host(exchange: &Exchange) -> Option<IpAddr> {
    exchange.client.as_ref().and_then(Endpoint::ip)
}

/// A lost log is likelier a lost session when other streams, or other sessions of the server, lost
/// theirs too.
fn mark_common_losses(judged: &mut [Judged]) {
    let is_loss = |resume: &ResumeCase| resume.fork.is_some();
    let mut losses: BTreeMap<Option<Endpoint>, u32> = BTreeMap::new();
    for resume in judged
        .iter()
        .flat_map(|session| &session.case.resumes)
        .filter(|r| is_loss(r))
    {
        *losses.entry(resume.row.server.clone()).or_default() += 1;
    }
    for resume in judged
        .iter_mut()
        .flat_map(|session| &mut session.case.resumes)
    {
        resume.others_lost_too = is_loss(resume)
            && losses
                .get(&resume.row.server)
                .is_some_and(|&count| count > 1);
    }
}

/// The resumes of all sessions, in order of time.
#[must_use]
pub fn resumes_in_order(judged: Vec<Judged>) -> Vec<Resume> {
    let mut resumes: Vec<Resume> = judged
        .into_iter()
        .flat_map(|session| session.case.resumes)
        .map(|resume| resume.row)
        .collect();
    resumes.sort_by_key(|resume| (resume.resume_time, resume.exchange));
    resumes
}
