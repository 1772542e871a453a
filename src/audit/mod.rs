//! Sessions → verdicts. Two passes: what the whole run teaches (order of ids, who was lost when),
//! then each session judged on its own, in order of time.

pub mod backend;
pub mod id;
pub mod judge;
pub mod ledger;
pub mod order;
mod owed;
pub mod refusal;
pub mod request;
mod row;
mod walk;

use crate::model::{
    analysis::{Resume, SegmentRow, SessionRow},
    case::{ResumeCase, SessionCase},
    exchange::{Answer, Exchange, Window},
    flow::Endpoint,
    session::{Grouping, Session},
    time::Timestamp,
};
use backend::Backends;
use order::Orders;
pub use owed::Gaps;
use rayon::prelude::*;
use refusal::Neighbours;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
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
}

/// Judges every session of a run. The result stands in the order of [`Grouping::sessions`].
#[must_use]
pub fn audit(grouping: &Grouping, exchanges: &[Exchange], window: Window) -> Vec<Judged> {
    let services = Services::of(&grouping.sessions, exchanges);
    let backends = Backends::learn(
        &grouping.sessions,
        &services.of_session,
        services.whole.len(),
        exchanges,
    );
    let none = Backends::default();
    let orders = Orders::learn(&grouping.sessions, &services.of_session, exchanges);
    let mut judged: Vec<Judged> = grouping
        .sessions
        .par_iter()
        .zip(&services.of_session)
        .enumerate()
        .map(|(index, (session, &service))| {
            walk::Walk::new(&walk::Room {
                session,
                service,
                exchanges,
                orders: &orders,
                backends: backends.get(service as usize).unwrap_or(&none),
                window,
                service_whole: services.is_whole(service),
                gaps: services.gaps(session, exchanges),
                neighbours: services.neighbours(index, grouping, exchanges),
            })
            .judge()
        })
        .collect();
    mark_common_losses(&mut judged);
    judged
}

/// Rows for the segments of a session that is listed and not judged.
#[must_use]
pub fn list_segments(session: &Session, exchanges: &[Exchange]) -> Vec<SegmentRow> {
    row::segments(session, exchanges, &|_| 0)
}

/// What is known of the services that sessions belong to.
struct Services {
    /// The service of each session, numbered.
    of_session: Vec<u32>,
    /// Whether every exchange of a service was seen whole: no hole, no lost head.
    whole: Vec<bool>,
    /// Responses whose request head is missing, and with it the service it addressed; in order of time.
    headless: Vec<Headless>,
    /// When each session was lost for good.
    lost_at: Vec<Option<Timestamp>>,
    by_service: BTreeMap<u32, Vec<usize>>,
}

/// A response whose request head is not in the capture.
struct Headless {
    client: Option<IpAddr>,
    /// The session it names itself.
    session: Option<Arc<str>>,
    time: Timestamp,
}

impl Services {
    fn of(sessions: &[Session], exchanges: &[Exchange]) -> Self {
        let mut numbers: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        let mut of_session = Vec::with_capacity(sessions.len());
        let mut by_service: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (index, session) in sessions.iter().enumerate() {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            let number = *numbers.entry(Arc::clone(&session.service)).or_insert(next);
            of_session.push(number);
            by_service.entry(number).or_default().push(index);
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
        Self {
            of_session,
            whole,
            headless: exchanges
                .iter()
                .filter(|exchange| exchange.request.is_none())
                .map(|exchange| Headless {
                    client: client_host(exchange),
                    session: exchange
                        .response
                        .as_ref()
                        .and_then(|r| r.session_id.clone()),
                    time: exchange.time(),
                })
                .collect(),
            lost_at: sessions
                .iter()
                .map(|session| refusal::lost_for_good(session, exchanges))
                .collect(),
            by_service,
        }
    }

    fn is_whole(&self, service: u32) -> bool {
        self.headless.is_empty() && self.whole.get(service as usize).copied().unwrap_or(false)
    }

    fn gaps(&self, session: &Session, exchanges: &[Exchange]) -> Gaps {
        let members = || {
            session
                .exchanges
                .iter()
                .filter_map(|&number| exchanges.get(number as usize))
        };
        let undecodable =
            |exchange: &Exchange| exchange.response.as_ref().is_some_and(|r| r.undecodable);
        let clients: BTreeSet<Option<IpAddr>> = if self.headless.is_empty() {
            BTreeSet::new()
        } else {
            members().map(client_host).collect()
        };
        Gaps {
            holes: members().any(|exchange| !exchange.holes.is_empty() || undecodable(exchange)),
            headless: self
                .headless
                .iter()
                .filter(|lost| lost.session.as_ref().is_none_or(|id| *id == session.id))
                .filter(|lost| clients.contains(&lost.client))
                .map(|lost| lost.time)
                .collect(),
        }
    }

    fn neighbours(&self, index: usize, grouping: &Grouping, exchanges: &[Exchange]) -> Neighbours {
        // Only a session that was refused asks for its neighbours; the look is over all of them.
        let refused = grouping.sessions.get(index).is_some_and(|session| {
            session.exchanges.iter().any(|&number| {
                exchanges.get(number as usize).is_some_and(|exchange| {
                    exchange.answer() == Answer::Refused
                        || matches!(exchange.status(), Some(500..=599))
                })
            })
        });
        let mut neighbours = Neighbours::default();
        let clients: BTreeSet<Option<IpAddr>> = grouping
            .sessions
            .get(index)
            .into_iter()
            .flat_map(|session| &session.exchanges)
            .filter_map(|&number| exchanges.get(number as usize).map(client_host))
            .collect();
        let service = self.of_session.get(index).copied().unwrap_or(0);
        for &other in self.by_service.get(&service).into_iter().flatten() {
            if other == index || !refused {
                continue;
            }
            neighbours
                .lost_at
                .extend(self.lost_at.get(other).copied().flatten());
            let Some(session) = grouping.sessions.get(other) else {
                continue;
            };
            let mut successes = session
                .exchanges
                .iter()
                .filter_map(|&number| exchanges.get(number as usize))
                .filter(|exchange| exchange.answer() == Answer::Success);
            neighbours
                .served_at
                .extend(successes.next_back().map(Exchange::time));
            let other_client = |exchange: &&Exchange| {
                let host = client_host(exchange);
                host.is_some() && !clients.contains(&host)
            };
            neighbours.initialized_at.extend(
                session
                    .issued_by
                    .iter()
                    .filter_map(|&number| exchanges.get(number as usize))
                    .filter(other_client)
                    .map(Exchange::time),
            );
        }
        neighbours
    }
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
pub fn resumes_in_order(judged: &[Judged]) -> Vec<Resume> {
    let mut resumes: Vec<Resume> = judged
        .iter()
        .flat_map(|session| session.case.resumes.iter().map(|resume| resume.row.clone()))
        .collect();
    resumes.sort_by_key(|resume| (resume.resume_time, resume.exchange));
    resumes
}
