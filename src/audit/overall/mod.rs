//! What all sessions of a run show together: incidents, timers, lifetimes, shares (docs/audit.md, "Over
//! all"). It looks at what was judged and judges nothing.
//!
//! Everything is by server as the client sees it, `HOST:PORT` of the side nearest the client: behind a
//! balancer that is the balancer, whose replicas the shares by backend tell apart.

mod cut;
mod incident;
mod share;
mod statistics;
mod threshold;
mod timer;

use super::Judged;
use crate::model::{
    analysis::{Incident, Resume, ServerRow, Share, Timer},
    case::RunCase,
    exchange::Exchange,
    flow::Endpoint,
    session::Grouping,
    time::Span,
};
use cut::Servers;
use std::collections::BTreeMap;

/// What a run shows beyond its sessions.
#[derive(Debug, Default)]
pub struct Overall {
    /// Incidents in order of time.
    pub incidents: Vec<Incident>,
    /// Timers by server.
    pub timers: Vec<Timer>,
    /// Shares by server.
    pub shares: Vec<Share>,
    /// A row a server, by address.
    pub servers: Vec<ServerRow>,
    /// Evidence for the findings.
    pub case: RunCase,
}

/// Looks over a run. Cuts of one server no more than `window` apart are one incident; the resumes that
/// follow them get its number.
#[must_use]
pub fn look(
    grouping: &Grouping,
    exchanges: &[Exchange],
    judged: &mut [Judged],
    window: Span,
) -> Overall {
    let servers = Servers::of(grouping, exchanges);
    let addresses = servers.list();
    let cuts = cut::cuts(grouping, exchanges, judged, &servers);
    let gathered = incident::gather(&cuts, window);
    let (incidents, followed) =
        incident::rows(&gathered, &cuts, &addresses, grouping, exchanges, judged);
    for (session, resume, number) in followed {
        let case = judged
            .get_mut(session as usize)
            .and_then(|session| session.case.resumes.get_mut(resume as usize));
        if let Some(case) = case {
            case.row.incident = Some(number);
        }
    }
    let number = |row: &Resume| servers.number(row.server.as_ref());
    let resumes = share::by_server(judged, addresses.len(), &number);
    let mut observations = threshold::observations(judged, &incidents, &number);
    let (timers, timer_cases) = timer::timers(&cuts, &addresses, exchanges);
    let shares = addresses
        .iter()
        .zip(&resumes)
        .flat_map(|(server, resumes)| share::shares(server, resumes))
        .collect();
    let servers = share::rows(&servers, grouping, exchanges, &resumes, &mut observations);
    mark_beyond_lifetime(judged, &servers);
    Overall {
        shares,
        servers,
        incidents,
        timers,
        case: RunCase {
            timers: timer_cases,
        },
    }
}

/// A new log under an old id is likelier a lost session when the client stayed away longer than the
/// server's sessions live.
fn mark_beyond_lifetime(judged: &mut [Judged], servers: &[ServerRow]) {
    let lifetimes: BTreeMap<&Endpoint, Span> = servers
        .iter()
        .filter_map(|row| Some((&row.server, row.threshold?.high)))
        .collect();
    let cases = judged
        .iter_mut()
        .flat_map(|session| &mut session.case.resumes);
    for case in cases.filter(|case| case.fork.is_some()) {
        let lifetime = case
            .row
            .server
            .as_ref()
            .and_then(|server| lifetimes.get(server));
        case.beyond_lifetime = lifetime
            .zip(case.row.gap)
            .is_some_and(|(&lifetime, gap)| gap >= lifetime);
    }
}
