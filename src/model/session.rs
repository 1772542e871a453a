//! Sessions, their streams and segments: how exchanges hang together. Indices point into the
//! run's exchanges (in order of time) and into the session's own lists.

use super::{exchange::Exchange, id::SessionId, time::Timestamp};
use std::{net::IpAddr, sync::Arc};

/// All exchanges of a run, put into their places.
#[derive(Clone, Debug, Default)]
pub struct Grouping {
    /// Sessions under judgement, in order of their first exchange.
    pub sessions: Vec<Session>,
    /// Sessions of the 2024-11-05 transport: listed, never judged.
    pub legacy: Vec<Session>,
    /// For each exchange the place it has.
    pub role_of: Vec<Role>,
    /// For each exchange that is the other side of one (a proxy was captured on both sides) or a
    /// copy of one, that one: the side that is judged.
    pub inner_of: Vec<Option<u32>>,
    /// Session ids that came on refusals only, with the exchanges that show them.
    pub refused_ids: Vec<RefusedId>,
}

/// The place of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// No MCP, as far as it shows.
    #[default]
    Other,
    /// MCP without a session.
    Sessionless,
    /// Of the session with this index in [`Grouping::sessions`].
    Session(u32),
    /// Of the legacy session with this index in [`Grouping::legacy`].
    Legacy(u32),
    /// Under a session id that was only ever refused: an index into [`Grouping::refused_ids`].
    Refused(u32),
}

/// A session id that no success issued and that was only ever refused, or came on a refusal only.
#[derive(Clone, Debug)]
pub struct RefusedId {
    /// The id.
    pub id: SessionId,
    /// The exchanges that carry it.
    pub exchanges: Vec<u32>,
}

/// The exchanges of one service under one session id.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// The id.
    pub id: SessionId,
    /// Scheme, host and path.
    pub service: Arc<str>,
    /// The proxy that all its exchanges came from, where other sessions of the service go to that
    /// proxy and how the two hang together does not show: nothing is compared over it.
    pub behind: Option<IpAddr>,
    /// The protocol revision negotiated, or stated by a request.
    pub protocol_version: Option<Arc<str>>,
    /// `clientInfo.name`.
    pub client_name: Option<Arc<str>>,
    /// `serverInfo.name`.
    pub server_name: Option<Arc<str>>,
    /// Exchanges that ask for this id, or whose success issued it, in order of time.
    pub exchanges: Vec<u32>,
    /// The exchange whose `initialize` success issued the id, each time it did.
    pub issued_by: Vec<u32>,
    /// Segments whose log is this session's, in order of opening. A resume answered under another
    /// id stands with that other session.
    pub segments: Vec<Segment>,
    /// Its streams.
    pub streams: Vec<Stream>,
    /// Its resumes: exchanges that ask for this id with a cursor, in order of time.
    pub resumes: Vec<Resumption>,
}

/// An exchange whose response is an event stream: what one connection carried of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its exchange.
    pub exchange: u32,
    /// Its stream in [`Session::streams`].
    pub stream: u32,
    /// When it was asked for.
    pub open: Timestamp,
}

/// A GET with a cursor, and what it goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumption {
    /// Its exchange.
    pub exchange: u32,
    /// The segment its answer is, when that is an event stream of this session.
    pub segment: Option<u32>,
    /// The stream it goes on, when some segment delivered the cursor before.
    pub stream: Option<u32>,
    /// Where the cursor was delivered on that stream, the last time before this request.
    pub cursor: Option<EventRef>,
    /// Several streams delivered the cursor and holes leave open which of them goes on.
    pub ambiguous: bool,
}

/// An event of a session: which segment, and which event of its exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventRef {
    /// Index into [`Session::segments`].
    pub segment: u32,
    /// Index into the exchange's events.
    pub event: u32,
}

/// What one cursor runs along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Its segments, indices into [`Session::segments`], in order of opening.
    pub segments: Vec<u32>,
    /// The POST that began it; `None` for a GET, and for a cursor nobody was seen to deliver.
    pub begun_by: Option<u32>,
    /// Where every request of that POST was answered: the last of the answers. `None` while one
    /// is unanswered, and for a stream that no request began.
    pub completed: Option<EventRef>,
}

impl Session {
    /// The exchange of segment `index`.
    #[must_use]
    pub fn exchange<'a>(&self, index: u32, exchanges: &'a [Exchange]) -> Option<&'a Exchange> {
        let segment = self.segments.get(index as usize)?;
        exchanges.get(segment.exchange as usize)
    }
}
