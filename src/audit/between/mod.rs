//! What sessions, clients and servers show beside each other: an id issued twice or by nobody, one id
//! held by several hosts, a call sent again, ids that can be guessed. Learned over all sessions before
//! each is walked; each is then handed what concerns it.

mod adopted;
mod guessable;
mod reissued;
mod same;
mod shared;
mod twice;

use crate::model::{
    case::{Adopted, Reissued, SessionCase, Shared, Site, WeakIds},
    elsewhere::Elsewhere,
    exchange::Exchange,
    flow::{Endpoint, ServerFacts},
    message::PayloadHash,
    place::InputId,
    session::{Grouping, Session},
    time::Timestamp,
};
pub use adopted::may_have_issued;
use rayon::prelude::*;
use std::net::IpAddr;
pub use twice::{Around, Calls};

/// What is learned from.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// All sessions, and the place of every exchange.
    pub grouping: &'a Grouping,
    /// All exchanges.
    pub exchanges: &'a [Exchange],
    /// The service of each session, numbered.
    pub service_of: &'a [u32],
    /// Whether every exchange of a service was seen whole, by its number.
    pub whole: &'a [bool],
    /// What packets show of servers beside their exchanges.
    pub servers: &'a ServerFacts,
    /// What parts of the run lack that are not at hand.
    pub elsewhere: &'a Elsewhere,
}

impl<'a> Run<'a> {
    fn exchange(&self, number: u32) -> Option<&'a Exchange> {
        self.exchanges.get(number as usize)
    }

    fn exchanges_of(&self, session: &'a Session) -> impl Iterator<Item = (u32, &'a Exchange)> {
        members(session, self.exchanges)
    }
}

/// The exchanges of a session, with their numbers.
fn members<'a>(
    session: &Session,
    exchanges: &'a [Exchange],
) -> impl Iterator<Item = (u32, &'a Exchange)> {
    session
        .exchanges
        .iter()
        .filter_map(|&number| Some((number, exchanges.get(number as usize)?)))
}

/// Who sent a request, as far as it shows: a host (of a HAR, the file), the name of its software, and for
/// whom it was sent if that host is a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Client<'a> {
    host: Option<IpAddr>,
    file: Option<InputId>,
    name: &'a str,
    on_behalf: Option<PayloadHash>,
}

impl<'a> Client<'a> {
    /// The client of an exchange of a session.
    fn of(exchange: &'a Exchange, session: &'a Session) -> Self {
        let host = exchange.client.as_ref().and_then(Endpoint::ip);
        let request = exchange.request.as_ref();
        let agent = request.and_then(|request| request.user_agent.as_deref());
        Self {
            host,
            file: host.is_none().then_some(exchange.place.input),
            name: agent.or(session.client_name.as_deref()).unwrap_or_default(),
            on_behalf: request.and_then(|request| request.on_behalf),
        }
    }
}

/// What all sessions show beside each other.
pub struct Between<'a> {
    sessions: Vec<Beside>,
    calls: Calls<'a>,
}

/// What concerns one session; evidence by the number of its exchange.
#[derive(Debug, Default)]
struct Beside {
    /// Initializes that issued the id once more and began another life of it.
    again: Vec<u32>,
    /// Exchanges at which another life of it may begin unseen.
    unseen: Vec<u32>,
    reissued: Option<(u32, Reissued)>,
    adopted: Option<(u32, Adopted)>,
    shared: Option<(u32, Shared)>,
    weak: Vec<(u32, WeakIds)>,
}

impl<'a> Between<'a> {
    /// Learns from all sessions of a run.
    #[must_use]
    pub fn learn(run: Run<'a>) -> Self {
        let sessions = &run.grouping.sessions;
        let unanswered = reissued::Unanswered::of(run.exchanges);
        let adoptions = adopted::Adoptions::of(run);
        let mut beside: Vec<Beside> = sessions
            .par_iter()
            .enumerate()
            .map(|(index, session)| {
                let (again, reissued) = reissued::look(session, run.exchanges);
                Beside {
                    again,
                    unseen: reissued::unseen(session, run.exchanges, &unanswered),
                    reissued,
                    adopted: adoptions.look(index, session),
                    ..Beside::default()
                }
            })
            .collect();
        for (index, number, shared) in shared::look(run) {
            if let Some(beside) = beside.get_mut(index) {
                beside.shared = Some((number, shared));
            }
        }
        for (index, number, weak) in guessable::look(run) {
            if let Some(beside) = beside.get_mut(index) {
                beside.weak.push((number, weak));
            }
        }
        Self {
            sessions: beside,
            calls: Calls::of(run),
        }
    }

    /// Whether an initialize of a session issued its id once more: not to a client that asked again
    /// because it had got no answer, and not seen at a second place.
    #[must_use]
    pub fn begins_anew(&self, session: u32, exchange: u32) -> bool {
        self.sessions
            .get(session as usize)
            .is_some_and(|beside| beside.again.binary_search(&exchange).is_ok())
    }

    /// Whether another life of a session's id may begin with an exchange, and the capture does not show it.
    #[must_use]
    pub fn may_begin_anew(&self, session: u32, exchange: u32) -> bool {
        self.sessions
            .get(session as usize)
            .is_some_and(|beside| beside.unseen.binary_search(&exchange).is_ok())
    }

    /// Enters what concerns a session into its case. `incarnation_at` tells which life of the id it
    /// was.
    pub fn enter(
        &self,
        around: &Around<'_, '_>,
        incarnation_at: &dyn Fn(Timestamp) -> u32,
        case: &mut SessionCase,
    ) {
        let site = |number: u32| {
            around
                .exchanges
                .get(number as usize)
                .map_or_else(Site::default, |exchange| {
                    Site::of(exchange, incarnation_at(exchange.time()))
                })
        };
        case.repeated = self.calls.repeated(around, incarnation_at);
        let Some(beside) = self.sessions.get(around.index as usize) else {
            return;
        };
        case.reissued = beside.reissued.clone().map(|(number, found)| Reissued {
            site: site(number),
            ..found
        });
        case.adopted = beside.adopted.clone().map(|(number, found)| Adopted {
            site: site(number),
            ..found
        });
        case.shared = beside.shared.clone().map(|(number, found)| Shared {
            site: site(number),
            ..found
        });
        case.weak_ids = beside
            .weak
            .iter()
            .map(|(number, found)| WeakIds {
                site: site(*number),
                ..found.clone()
            })
            .collect();
    }
}
