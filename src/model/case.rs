//! What the audit hands to the findings: resumes with the evidence behind their verdicts, and
//! what happened around them. Findings judge from this and nothing else.

use super::{
    analysis::{Resume, Timer},
    event::Event,
    exchange::{EndCause, Exchange},
    flow::Endpoint,
    id::SessionId,
    place::Place,
    prose::Prose,
    time::{Span, Timestamp},
    verdict::Confidence,
};
use std::sync::Arc;

/// Where a piece of evidence stands: what a finding made of it points at.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// The incarnation of the session, from 1; 0 without a session.
    pub incarnation: u32,
    /// The session's resume that it belongs to, by number.
    pub resume: Option<u32>,
    /// When.
    pub time: Timestamp,
    /// The decisive frame or entry.
    pub place: Place,
    /// The client.
    pub client: Option<Endpoint>,
    /// The server.
    pub server: Option<Endpoint>,
}

impl Site {
    /// At the beginning of an exchange.
    #[must_use]
    pub fn of(exchange: &Exchange, incarnation: u32) -> Self {
        Self {
            incarnation,
            resume: None,
            time: exchange.time(),
            place: exchange.place,
            client: exchange.client.clone(),
            server: exchange.server.clone(),
        }
    }

    /// At one of an exchange's events.
    #[must_use]
    pub fn of_event(exchange: &Exchange, event: &Event, incarnation: u32) -> Self {
        Self {
            time: event.time,
            place: exchange.event_place(event),
            ..Self::of(exchange, incarnation)
        }
    }

    /// The same, on a resume of the session.
    #[must_use]
    pub fn on_resume(self, resume: u32) -> Self {
        Self {
            resume: Some(resume),
            ..self
        }
    }
}

/// One session, audited.
#[derive(Clone, Debug, Default)]
pub struct SessionCase {
    /// The session id.
    pub id: SessionId,
    /// The protocol revision negotiated, or stated by a request.
    pub protocol_version: Option<Arc<str>>,
    /// Its resumes in order of time.
    pub resumes: Vec<ResumeCase>,
    /// Runs of refusals, each with the code it deserves.
    pub refusals: Vec<Refusal>,
    /// Requests that were lost.
    pub lost: Vec<LostRequest>,
    /// Results that a client which removes duplicates drops.
    pub dropped: Vec<DroppedResult>,
    /// Requests with two results that differ.
    pub differing: Vec<DifferingResult>,
    /// Streams with ids that were reopened without a cursor.
    pub dropped_cursors: Vec<DroppedCursor>,
    /// Ids that came with two payloads, away from a resumed stream's own log.
    pub reuses: Vec<Reuse>,
    /// Requests other than resumes that were answered under another session id.
    pub minted: Vec<Minted>,
    /// Events that another session was delivered first.
    pub crossings: Vec<CrossedEvent>,
    /// Streams that another took the place of, in rows.
    pub superseded: Vec<Superseded>,
    /// Reconnects in a row that brought nothing.
    pub storms: Vec<Storm>,
    /// Segments that brought events of another stream.
    pub strays: Vec<Stray>,
    /// Messages that came on several open streams.
    pub broadcasts: Vec<Broadcast>,
    /// Messages on a stream where they may not come.
    pub misplaced: Vec<Misplaced>,
    /// Its id, when several initialize responses issued it.
    pub reissued: Option<Reissued>,
    /// Its id, when the server took it from the client.
    pub adopted: Option<Adopted>,
    /// Calls that were pending at a cut and were sent again.
    pub repeated: Vec<RepeatedCall>,
    /// Its service's ids that are not allowed or can be guessed, where it is the first of them.
    pub weak_ids: Vec<WeakIds>,
    /// The hosts that hold it, when there are several.
    pub shared: Option<Shared>,
}

/// A resume and the evidence behind its verdict.
#[derive(Clone, Debug)]
pub struct ResumeCase {
    /// The row, verdict included.
    pub row: Resume,
    /// What proves a fork.
    pub fork: Option<Fork>,
    /// How the first message stands to the cursor.
    pub sequence: Sequence,
    /// Messages on the stream's own log under an id that came with another payload before.
    pub reused: Vec<String>,
    /// Ids that are missing between the cursor and the answer, or seen and left out; a few, as text.
    pub missing: Vec<Prose>,
    /// A fork whose first message has no id, though every message before had one; whatever proves it.
    pub ids_vanished: bool,
    /// The cursor was accepted, though this session, seen whole, never delivered it.
    pub foreign_cursor: bool,
    /// Whether other streams or sessions of the server lost their log as well.
    pub others_lost_too: bool,
    /// Whether a fork came after the client was away longer than the server's sessions live.
    pub beyond_lifetime: bool,
}

impl ResumeCase {
    /// Where it stands: at its first event, or at its request.
    #[must_use]
    pub fn site(&self) -> Site {
        Site {
            incarnation: self.row.incarnation,
            resume: Some(self.row.resume),
            time: self.row.first_event_time.unwrap_or(self.row.resume_time),
            place: self.row.place,
            client: self.row.client.clone(),
            server: self.row.server.clone(),
        }
    }
}

/// What proves a fork (docs/audit.md, F1–F9), strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fork {
    /// F1: the response names another session.
    OtherSession,
    /// F5: the incarnation nonce changed.
    Nonce,
    /// F2: an id of the log comes with another payload.
    OtherPayload,
    /// F8: another backend answered, and the two keep two logs.
    OtherBackend,
    /// F6: refused or deleted before, and a message that is not of its log.
    Revived,
    /// F3: it starts again at or below the cursor and nothing of it is a redelivery.
    Restart,
    /// F4: ids have vanished.
    IdsVanished,
    /// F9: what comes was first another session's.
    OthersEvents,
    /// F7: the cursor was never delivered in a session seen whole.
    ForeignCursor,
}

impl Fork {
    /// Whether it is proven by what was delivered before, rather than by the answer alone.
    #[must_use]
    pub const fn rests_on_history(self) -> bool {
        !matches!(self, Self::OtherSession | Self::Nonce | Self::OthersEvents)
    }
}

/// How the first message of an answer stands to the cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sequence {
    /// Behind it, or nothing can be said.
    #[default]
    Onward,
    /// The cursor's own event comes again, and nothing before it.
    CursorAgain,
    /// It goes back before the cursor, or starts again.
    Back,
}

/// A run of refusals of one session with one code.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The code it gets.
    pub kind: RefusalKind,
    /// Refused with a status that does not tell a client to start over.
    pub misleading: bool,
    /// The status of the first.
    pub status: u16,
    /// How many.
    pub count: u32,
    /// What came before, in words: idle time, a cut, a restart; of a misrouted one where it was answered.
    pub context: Prose,
    /// The first.
    pub site: Site,
    /// Time of the last.
    pub last: Timestamp,
    /// Requests that the client sent of a session lost for good, more than a second after it was told
    /// and before it had another one: how many, and how long after it was told the last of them.
    pub insisted: Option<(u32, Span)>,
    /// Numbers of the session's resumes among them.
    pub resumes: Vec<u32>,
}

/// Which code a refusal gets: the first that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalKind {
    /// The cursor was refused, the session lives.
    Cursor,
    /// A second stream was refused though none is open.
    Conflict,
    /// Another replica answered.
    Misrouted,
    /// The session lived again afterwards.
    Revived,
    /// The session is gone.
    Lost,
    /// The session went with its own stream's connection.
    LostOnDisconnect,
}

/// A request that never got its result.
#[derive(Clone, Debug)]
pub struct LostRequest {
    /// Its JSON-RPC id, as JSON text.
    pub rpc_id: String,
    /// Its method.
    pub method: String,
    /// Why: what became of the stream.
    pub reason: &'static str,
    /// The progress that was told of it before the cut.
    pub progress: Option<Progress>,
    /// How sure.
    pub confidence: Confidence,
    /// When it was cut, where it was sent, and its last resume.
    pub site: Site,
}

/// Progress that a client was told of a request.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The progress token, as JSON text.
    pub token: String,
    /// How many notifications.
    pub notifications: u32,
}

/// A result that came under an id which a client that removes duplicates has seen before, with
/// another payload.
#[derive(Clone, Debug)]
pub struct DroppedResult {
    /// The request's JSON-RPC id, as JSON text.
    pub rpc_id: String,
    /// The request's method, where the request is known.
    pub method: Option<String>,
    /// The event id.
    pub event_id: String,
    /// The progress that was told of the request before.
    pub progress: Option<Progress>,
    /// How sure.
    pub confidence: Confidence,
    /// Where it came.
    pub site: Site,
}

/// A request that got two results, and they differ.
#[derive(Clone, Debug)]
pub struct DifferingResult {
    /// Its JSON-RPC id, as JSON text.
    pub rpc_id: String,
    /// Its method.
    pub method: String,
    /// Where the second result came.
    pub site: Site,
}

/// A stream that delivered ids and was reopened without `Last-Event-ID`.
#[derive(Clone, Debug)]
pub struct DroppedCursor {
    /// The id the client could have sent.
    pub last_id: String,
    /// End of the stream to its reopening.
    pub gap: Span,
    /// The `retry` in force, in milliseconds, and whether the client kept it.
    pub retry: Option<(u32, bool)>,
    /// What ended the stream.
    pub cause: EndCause,
    /// How sure.
    pub confidence: Confidence,
    /// Where it was reopened.
    pub site: Site,
}

/// An id that came with two payloads.
#[derive(Clone, Debug)]
pub struct Reuse {
    /// The id.
    pub id: String,
    /// How many ids did so in this incarnation.
    pub count: u32,
    /// Whether a new log began with it, unasked for by a cursor.
    pub new_log: bool,
    /// Where the second payload came.
    pub site: Site,
}

/// Events that were another session's first.
#[derive(Clone, Debug)]
pub struct CrossedEvent {
    /// The id of the first of them.
    pub id: String,
    /// The session that it was delivered to first.
    pub from: SessionId,
    /// Where it came.
    pub site: Site,
}

/// A request of a session answered under another id.
#[derive(Clone, Debug)]
pub struct Minted {
    /// The id on the answer.
    pub given: SessionId,
    /// The request's method.
    pub method: String,
    /// The status, where the request named no session and was refused.
    pub refused: Option<u16>,
    /// Where.
    pub site: Site,
}

/// Streams that were still open when the next took their place: a row, each new one in the place of the
/// one before.
#[derive(Clone, Debug)]
pub struct Superseded {
    /// What became of the old ones.
    pub how: Supersession,
    /// How many in a row.
    pub count: u32,
    /// From the first new stream's request to the old one's end.
    pub after: Span,
    /// How sure.
    pub confidence: Confidence,
    /// When the last new one was asked for.
    pub last: Timestamp,
    /// Numbers of the session's resumes among the new ones.
    pub resumes: Vec<u32>,
    /// Where the first new one was asked for.
    pub site: Site,
}

/// What became of a stream that another took the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supersession {
    /// The server ended it when the new one came.
    Ended,
    /// It stayed open, and what was its own came on the new one.
    Silent,
}

/// Reconnects in a row that brought no message.
#[derive(Clone, Debug)]
pub struct Storm {
    /// How many.
    pub count: u32,
    /// The median time from one to the next.
    pub period: Span,
    /// When the last was sent.
    pub last: Timestamp,
    /// How sure.
    pub confidence: Confidence,
    /// With a cursor, all of one stream; or without any.
    pub has_cursor: bool,
    /// Numbers of the session's resumes among them.
    pub resumes: Vec<u32>,
    /// The first.
    pub site: Site,
}

/// A segment that brought events of another stream.
#[derive(Clone, Debug)]
pub struct Stray {
    /// The id of the first; empty without one.
    pub id: String,
    /// How many.
    pub count: u32,
    /// What tells whose the first is.
    pub evidence: StrayEvidence,
    /// How sure.
    pub confidence: Confidence,
    /// Where the first came.
    pub site: Site,
}

/// What tells that an event is another stream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrayEvidence {
    /// It answers, reports on or is a request of another stream.
    Request,
    /// Its id and payload were delivered on another stream.
    Id,
    /// The key in its id is another stream's.
    Key,
    /// Its payload was delivered on another stream, and nothing like it elsewhere.
    Payload,
}

/// Messages that came on several open streams.
#[derive(Clone, Debug)]
pub struct Broadcast {
    /// The method of the first.
    pub what: String,
    /// How many messages.
    pub count: u32,
    /// On how many streams at most.
    pub streams: u32,
    /// How sure.
    pub confidence: Confidence,
    /// Where the second copy of the first came.
    pub site: Site,
}

/// Messages on a stream where they may not come.
#[derive(Clone, Debug)]
pub struct Misplaced {
    /// What they are.
    pub kind: MisplacedKind,
    /// The JSON-RPC id or progress token of the first, as JSON text.
    pub what: String,
    /// How many.
    pub count: u32,
    /// Numbers of the session's resumes that they came on.
    pub resumes: Vec<u32>,
    /// Where the first came.
    pub site: Site,
}

/// Why a message may not come where it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MisplacedKind {
    /// A response on a GET without a cursor.
    Response,
    /// Progress for a token that no request announced.
    UnknownToken,
    /// Progress of a request that has its result.
    AfterResult,
}

/// A session id that several initialize responses issued.
#[derive(Clone, Debug)]
pub struct Reissued {
    /// To whom, at worst.
    pub how: Reissue,
    /// How many responses issued it.
    pub count: u32,
    /// The initialize that got it again.
    pub site: Site,
}

/// To whom a session id was issued again, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reissue {
    /// To another client.
    ToAnother,
    /// To the client that had it, or to one of the same host and software.
    ToTheSame,
    /// To the client that had it and named it on its initialize, while it was not refused.
    Asked,
}

/// A session id that the server did not make itself.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// What shows it.
    pub how: Adoption,
    /// Whether it cannot have been issued before the capture began.
    pub sure: bool,
    /// The request that it was accepted on.
    pub site: Site,
}

/// What shows that the server did not make a session id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// The client named it on its initialize, and got it.
    OnInitialize,
    /// The client's initialize got another one, and this one was served.
    InsteadOf(SessionId),
    /// The server started within the capture, and no initialize since issued it.
    SinceItsStart,
}

/// A call that was pending at a cut and that its client sent again.
#[derive(Clone, Debug)]
pub struct RepeatedCall {
    /// The JSON-RPC id of the first, as JSON text.
    pub rpc_id: String,
    /// Its method.
    pub method: String,
    /// From the cut to the second.
    pub gap: Span,
    /// The session of the second, when it is another one.
    pub in_session: Option<SessionId>,
    /// How sure.
    pub confidence: Confidence,
    /// Where it was sent again.
    pub site: Site,
}

/// Session ids of a service that the protocol does not allow, or that can be guessed.
#[derive(Clone, Debug)]
pub struct WeakIds {
    /// Why, as the first of them shows it.
    pub why: Weakness,
    /// How many of the service's sessions have such ids.
    pub count: u32,
    /// Where the first of them was issued.
    pub site: Site,
}

/// What is wrong with a session id.
#[derive(Clone, Debug, PartialEq)]
pub enum Weakness {
    /// It has characters outside visible ASCII (0x21 to 0x7E).
    Characters,
    /// It and another one differ in a number alone, and by little.
    Successors {
        /// The other one.
        other: String,
    },
    /// It is too short for what it is made of.
    Short {
        /// The bits that an id of its length and characters can hold.
        bits: f64,
    },
}

/// The hosts that hold a session.
#[derive(Clone, Debug)]
pub struct Shared {
    /// How many clients, two addresses of one exchange counted once.
    pub hosts: u32,
    /// Two of them were there at one time.
    pub at_once: bool,
    /// Each of them shares most of its sessions: proxies, or one client's ways out.
    pub farm: bool,
    /// The first request of the second host.
    pub site: Site,
}

/// What the whole run shows, beyond its sessions.
#[derive(Clone, Debug, Default)]
pub struct RunCase {
    /// Sides that cut by a clock.
    pub timers: Vec<TimerCase>,
}

/// The timer of one side of a server: an age, a silence, or either where nothing tells them apart.
#[derive(Clone, Debug)]
pub struct TimerCase {
    /// What it may be; one or two, of one server, side and User-Agent.
    pub timers: Vec<Timer>,
    /// The first cut that agrees.
    pub site: Site,
}
