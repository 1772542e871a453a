//! What a run shows beside the exchanges at hand, where it is audited in parts (docs/scale.md): what is missing
//! anywhere may be missing of these as well.

use super::{id::SessionId, time::Timestamp};
use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

/// What other parts of a run lack. Nothing where all of it is at hand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Responses that may be to any session of their client.
    pub headless: Vec<Headless>,
    /// An exchange of no session has no response head: which service it was for, or what else was in it, is not
    /// known.
    pub torn: bool,
    /// From when on an answer that is not in the capture may have issued any id.
    pub may_have_issued: Option<Timestamp>,
    /// Between whom sessions ran of which something is missing.
    pub torn_sessions: Vec<Ends>,
}

/// A response of which the request, or all that would say which session it is of, is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headless {
    /// The client.
    pub client: Option<IpAddr>,
    /// The session that the response itself names.
    pub session: Option<SessionId>,
    /// From when.
    pub from: Timestamp,
    /// Until when.
    pub until: Timestamp,
}

/// Between which hosts a session ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// Those that asked.
    pub clients: BTreeSet<IpAddr>,
    /// Those that were asked.
    pub servers: BTreeSet<SocketAddr>,
}
