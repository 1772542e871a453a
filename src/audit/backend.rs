//! Backends: which process answered, and whether two of them keep one log.

use super::ledger::is_comparable;
use crate::model::{exchange::Exchange, message::PayloadHash, session::Session};
use foldhash::fast::RandomState;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

/// The backends of one service, as far as headers and inner sides of proxies name them.
#[derive(Debug, Default)]
pub struct Backends {
    numbers: BTreeMap<Arc<str>, u32>,
    /// Pairs, the lower number first, that gave one id of one session two payloads: two logs.
    apart: BTreeSet<(u32, u32)>,
    /// Those that are in such a pair.
    own: BTreeSet<u32>,
}

/// What backends brought under one id.
#[derive(Default)]
struct Brought {
    payloads: HashSet<PayloadHash, RandomState>,
    backends: BTreeSet<u32>,
}

impl Backends {
    /// Learns from the sessions of each service; `service_of` numbers the service of each session.
    #[must_use]
    pub fn learn(
        sessions: &[Session],
        service_of: &[u32],
        services: usize,
        exchanges: &[Exchange],
    ) -> Vec<Self> {
        let mut all: Vec<Self> = (0..services).map(|_| Self::default()).collect();
        for (session, &service) in sessions.iter().zip(service_of) {
            let Some(backends) = all.get_mut(service as usize) else {
                continue;
            };
            let members = || {
                session
                    .segments
                    .iter()
                    .filter_map(|segment| exchanges.get(segment.exchange as usize))
            };
            for exchange in members() {
                if let Some(name) = exchange.response.as_ref().and_then(|r| r.backend.clone()) {
                    let next = u32::try_from(backends.numbers.len()).unwrap_or(u32::MAX);
                    backends.numbers.entry(name).or_insert(next);
                }
            }
            if backends.numbers.len() > 1 {
                backends.compare(members());
            }
        }
        all
    }

    /// The number of the backend that answered an exchange, when it keeps a log of its own: of
    /// backends that share one, none is told apart.
    #[must_use]
    pub fn log_of(&self, exchange: &Exchange) -> Option<u32> {
        let number = self.of(exchange)?;
        self.own.contains(&number).then_some(number)
    }

    fn of(&self, exchange: &Exchange) -> Option<u32> {
        let name = exchange.response.as_ref()?.backend.as_ref()?;
        self.numbers.get(name).copied()
    }

    /// Whether backends keep logs of their own, and which of them answered an exchange is not known.
    #[must_use]
    pub fn hides(&self, exchange: &Exchange) -> bool {
        let named = exchange
            .response
            .as_ref()
            .is_some_and(|r| r.backend.is_some());
        !self.own.is_empty() && !named
    }

    /// Whether two backends are known to keep two logs.
    #[must_use]
    pub fn apart(&self, a: Option<u32>, b: Option<u32>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => self.apart.contains(&(a.min(b), a.max(b))),
            _ => false,
        }
    }

    fn compare<'a>(&mut self, exchanges: impl Iterator<Item = &'a Exchange>) {
        let mut seen: HashMap<&str, Brought, RandomState> = HashMap::default();
        for exchange in exchanges {
            let Some(backend) = self.of(exchange) else {
                continue;
            };
            for event in exchange.events.iter().filter(is_comparable) {
                let Some(id) = event.id.filter(|id| id.len > 0) else {
                    continue;
                };
                let before = seen.entry(exchange.text(id)).or_default();
                if before.payloads.insert(event.hash) {
                    for &other in before.backends.iter().filter(|&&other| other != backend) {
                        self.apart.insert((other.min(backend), other.max(backend)));
                        self.own.extend([other, backend]);
                    }
                }
                before.backends.insert(backend);
            }
        }
    }
}
