//! What the hellos of a connection say, and which secrets there are for it.

use super::{
    cipher::{Opener, Randoms, updated},
    hello::{ClientHello, ServerHello},
    keylog::{Random, Secret, Secrets, Session},
    suite::Suite,
};
use crate::model::flow::Side;
use std::sync::Arc;

/// What both directions need to know.
#[derive(Default)]
pub(super) struct Facts {
    /// Who sent the ClientHello, and what it says.
    pub(super) client: Option<(Side, ClientHello)>,
    /// The randoms of the client's hellos for which there are secrets.
    pub(super) randoms: Vec<Random>,
    pub(super) server: Option<ServerHello>,
    pub(super) version: Version,
    session: Option<Arc<Session>>,
    /// The suite; several while that is not known.
    suites: Vec<Suite>,
    pub(super) early: Early,
    /// A HelloRetryRequest was seen: two ClientHellos, and no early data.
    retried: bool,
    /// The handshakes of TLS 1.2 so far: renegotiation is one more. What was lost is known late, when the other
    /// direction may have gone on to the next.
    handshakes: Vec<Handshake12>,
    /// A hello is not in the capture, and nothing else tells what it said.
    pub(super) lacks: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    #[default]
    Unknown,
    Tls12,
    Tls13,
    /// One that is not read.
    Other(u16),
}

/// Handshakes of one connection whose randoms are kept: there is one more for each renegotiation.
const HANDSHAKES: usize = 16;

/// What becomes of data that the client sends before the server has answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Early {
    /// There are none.
    #[default]
    None,
    /// Whether the server takes them is not known yet.
    Offered,
    Accepted,
    Rejected,
}

/// What records are protected with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Epoch {
    /// Nothing.
    Plain,
    /// TLS 1.3: before the server has answered.
    Early,
    /// TLS 1.3: the rest of the handshake.
    Handshake,
    /// TLS 1.3: application data, by how often the key was updated.
    Application(u32),
    /// TLS 1.2, by the handshake, from 0.
    Keyed(usize),
}

/// What a handshake of TLS 1.2 came to.
struct Handshake12 {
    client: Random,
    server: Random,
    suite: Option<Suite>,
    master: Option<Secret>,
    mac_last: bool,
}

impl Epoch {
    /// Whether its records carry what an application says, early data apart.
    pub(super) const fn carries(self) -> bool {
        matches!(self, Self::Application(_) | Self::Keyed(_))
    }
}

impl Facts {
    pub(super) fn client_hello(&mut self, sender: Side, hello: ClientHello, secrets: &Secrets) {
        let same = |(_, before): &(Side, ClientHello)| before.random == hello.random;
        if self.client.as_ref().is_some_and(same) {
            // The one that was asked for once more: it offers no early data.
            return;
        }
        if hello.early {
            self.early = Early::Offered;
        }
        self.session = secrets.session(&hello.random).cloned();
        if self.session.is_some() && self.randoms.len() < HANDSHAKES {
            self.randoms.push(hello.random);
        }
        if self.client.is_some() {
            // Another handshake; the first ServerHello may have been captured before its ClientHello.
            self.server = None;
        }
        self.client = Some((sender, hello));
        if let Some(early) = self.server.take() {
            self.server_hello(early, secrets);
        }
    }

    pub(super) fn server_hello(&mut self, hello: ServerHello, secrets: &Secrets) {
        self.version = match hello.version {
            0x0303 => Version::Tls12,
            0x0304 => Version::Tls13,
            other => Version::Other(other),
        };
        if hello.retry {
            self.retried = true;
            if self.early == Early::Offered {
                self.early = Early::Rejected;
            }
            return;
        }
        self.suites = Suite::of(hello.suite)
            .filter(|suite| match self.version {
                Version::Tls13 => suite.is_tls13(),
                Version::Tls12 => !suite.is_tls13(),
                Version::Unknown | Version::Other(_) => false,
            })
            .into_iter()
            .collect();
        if self.session.is_none() && self.version == Version::Tls12 {
            let master = secrets.master_of_id(&hello.session_id);
            self.session = master.map(|master| Arc::new(Session::of_master(master)));
        }
        if self.version == Version::Tls12 {
            // It does not know of early data, and does not take them.
            self.early = Early::None;
        }
        if let (Version::Tls12, Some((_, client))) = (self.version, &self.client)
            && self.handshakes.len() < RENEGOTIATIONS
        {
            self.handshakes.push(Handshake12 {
                client: client.random,
                server: hello.random,
                suite: self.suites.first().copied(),
                master: self.session.as_ref().and_then(|session| session.master),
                mac_last: hello.mac_last,
            });
        }
        self.server = Some(hello);
    }

    /// Whether nothing more will be known of how to open records.
    pub(super) fn settled(&self) -> bool {
        self.lacks.is_some() || (self.client.is_some() && self.server.is_some()) || self.assumed()
    }

    /// Whether records can be tried.
    pub(super) fn may_open(&self) -> bool {
        self.session.is_some() && self.lacks.is_none() && !self.suites.is_empty()
    }

    fn assumed(&self) -> bool {
        self.server.is_none() && !self.suites.is_empty()
    }

    /// The ServerHello is not in the capture. Where secrets of TLS 1.3 are known, they tell the version, and
    /// with what was offered nearly the suite.
    pub(super) fn assume(&mut self) {
        if self.server.is_some() || self.assumed() {
            return;
        }
        let length = self.session.as_ref().and_then(|session| session.length13());
        let (Some((_, hello)), Some(length)) = (&self.client, length) else {
            self.lacks
                .get_or_insert("its ServerHello is not in the capture");
            return;
        };
        self.version = Version::Tls13;
        self.suites = Suite::of_tls13()
            .filter(|suite| suite.hash.len() == length && hello.suites.contains(&suite.id))
            .collect();
        if self.suites.is_empty() {
            self.lacks
                .get_or_insert("its ServerHello is not in the capture");
        }
    }

    /// A record opened with this suite: it is the one.
    pub(super) fn is_suite(&mut self, suite: Suite) {
        if self.suites.len() != 1 {
            self.suites = vec![suite];
        }
    }

    /// The epochs that may come after one, in order.
    pub(super) fn after(&self, epoch: Epoch, client: bool) -> &'static [Epoch] {
        use Epoch::{Application, Early, Handshake};
        match (self.version, epoch) {
            (Version::Tls13, Epoch::Plain) if client && self.early_may_come() => {
                &[Early, Handshake, Application(0)]
            }
            (Version::Tls13, Epoch::Plain | Early) => &[Handshake, Application(0)],
            (Version::Tls13, Handshake) => &[Application(0)],
            _ => &[],
        }
    }

    fn early_may_come(&self) -> bool {
        self.early != Early::None
    }

    /// What may open the records of an epoch; `before` is the secret of the application data before it.
    pub(super) fn openers(
        &self,
        epoch: Epoch,
        client: bool,
        before: Option<(u32, Secret)>,
    ) -> impl Iterator<Item = (Opener, Option<Secret>)> {
        self.suites.iter().filter_map(move |suite| {
            let session = self.session.as_ref()?;
            let secret = match epoch {
                Epoch::Plain => return None,
                Epoch::Keyed(number) => {
                    let shake = self.handshakes.get(number)?;
                    let randoms = Randoms {
                        client: &shake.client,
                        server: &shake.server,
                    };
                    let (suite, master) = (shake.suite?, shake.master?);
                    let opener = Opener::tls12(suite, &master, randoms, client, shake.mac_last)?;
                    return Some((opener, None));
                }
                Epoch::Early => session.early?,
                Epoch::Handshake => session.handshake(client)?,
                Epoch::Application(generation) => {
                    let logged = session.application(client).iter().rev();
                    let mut known = logged.copied().chain(before);
                    let nearest = |(known, _): &(u32, Secret)| {
                        generation
                            .checked_sub(*known)
                            .is_some_and(|far| far <= UPDATES)
                    };
                    let (from, mut secret) = known.find(nearest)?;
                    for _ in from..generation {
                        secret = updated(suite.hash, &secret)?;
                    }
                    secret
                }
            };
            Some((Opener::tls13(*suite, &secret)?, Some(secret)))
        })
    }

    /// Whether there is a secret with which what an application says may be read.
    pub(super) fn has_application(&self, client: bool) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| match self.version {
                Version::Tls12 => session.master.is_some(),
                _ => !session.application(client).is_empty(),
            })
    }

    /// Whether any secret is known.
    pub(super) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// The suite that was chosen and is not read.
    pub(super) fn unread_suite(&self) -> Option<u16> {
        let server = self.server.as_ref()?;
        self.suites.is_empty().then_some(server.suite)
    }
}

/// Handshakes of one connection that are followed.
const RENEGOTIATIONS: usize = 16;
/// Key updates that a direction is followed through without one record of the keys between.
const UPDATES: u32 = 8;
