//! The result of a run: what reports are made of. One struct per row of a report; the fields are
//! the columns (docs/reports.md), typed.

use super::{
    exchange::{EndCause, Exchange},
    flow::{Blank, Endpoint},
    har::HarFacts,
    id::SessionId,
    place::{InputId, Place},
    prose::Prose,
    time::{Span, Timestamp},
    verdict::{Confidence, IdScheme, SessionEnd, Severity, Verdict},
};
use crate::anomaly::Anomalies;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

/// Everything a run found out.
#[derive(Debug, Default)]
pub struct Analysis {
    /// The inputs, in the order of their ids.
    pub inputs: Vec<Input>,
    /// Every HTTP exchange, in order of time; an exchange's number is its index + 1.
    pub exchanges: Vec<Exchange>,
    /// Which session each exchange belongs to, as an index into `sessions`; parallel to
    /// `exchanges`.
    pub session_of: Vec<Option<SessionRef>>,
    /// Sessions, a row for each incarnation, in order of first time. Legacy sessions
    /// (2024-11-05) are not among them.
    pub sessions: Vec<SessionRow>,
    /// Event streams of sessions (legacy ones too), in order of opening.
    pub segments: Vec<SegmentRow>,
    /// Resumes in order of time.
    pub resumes: Vec<Resume>,
    /// Findings, in order of time, worst first at equal times.
    pub findings: Vec<Finding>,
    /// Incidents, in order of time; an incident's number is its index + 1.
    pub incidents: Vec<Incident>,
    /// Timers, by server.
    pub timers: Vec<Timer>,
    /// Shares of forks, by server.
    pub shares: Vec<Share>,
    /// Servers that sessions under judgement were with, by address.
    pub servers: Vec<ServerRow>,
    /// Where exchanges of sessions may be missing altogether, in order of client and server.
    pub blanks: Vec<Blank>,
    /// What was on the wire and could not be read, by protocol, the most first.
    pub opaque: Vec<Opaque>,
    /// What was written as evidence; empty when none was asked for.
    pub evidence: Vec<Exhibit>,
    /// The key logs that were named, in that order.
    pub key_logs: Vec<KeyLog>,
    /// The randoms under which key logs have the secrets of TLS connections, by input and stream. They are in the
    /// packets for everybody to see; no report shows them.
    pub tls_randoms: BTreeMap<(InputId, u32), Vec<[u8; 32]>>,
    /// Totals over the run.
    pub totals: Totals,
    /// Oddities of captures and wire.
    pub anomalies: Anomalies,
}

impl Analysis {
    /// The name of an input as given on the command line.
    #[must_use]
    pub fn input_name(&self, place: Place) -> &str {
        self.inputs
            .get(place.input.0 as usize)
            .map_or("", |input| input.name.as_str())
    }
}

/// Where an exchange stands in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRef {
    /// Index into [`Analysis::sessions`] of the incarnation; `None` for a legacy session.
    pub session: Option<u32>,
    /// Index into [`Analysis::segments`], when its response is an event stream.
    pub segment: Option<u32>,
}

/// An input file or standard input, and what was in it (`inputs.csv`).
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// As named on the command line, or the path found in a folder; `-` for standard input.
    pub name: String,
    /// The file, unless it is standard input.
    pub path: Option<PathBuf>,
    /// `pcap`, `pcapng`, `har`, with `+gz`, `+zst` or `+zlib` when compressed; empty when
    /// unreadable.
    pub format: String,
    /// Names of the link types of its interfaces, in order of appearance.
    pub link_types: Vec<String>,
    /// Packets, or HAR entries.
    pub packets: u64,
    /// Bytes of packet data captured, or bytes of HAR text.
    pub bytes: u64,
    /// Time of the first packet or entry.
    pub first_time: Option<Timestamp>,
    /// Time of the last packet or entry.
    pub last_time: Option<Timestamp>,
    /// TCP connections (Wireshark's count of streams).
    pub tcp_connections: u64,
    /// HTTP exchanges.
    pub http_exchanges: u64,
    /// Events of event streams.
    pub sse_events: u64,
    /// Sessions under judgement that have an exchange in it.
    pub sessions: u64,
    /// Resumes.
    pub resumes: u64,
    /// MCP exchanges without a session.
    pub sessionless: u64,
    /// Sessions of the 2024-11-05 transport.
    pub legacy_sessions: u64,
    /// Session ids that were only ever refused.
    pub refused_ids: u64,
    /// TLS connections that could not be read.
    pub tls_opaque: u64,
    /// HTTP/2 connections that could not be read.
    pub http2_opaque: u64,
    /// Its TLS, and what keys gave of it.
    pub tls: TlsSeen,
    /// Holes in TCP streams.
    pub holes: u64,
    /// Bytes in those holes.
    pub hole_bytes: u64,
    /// Packets cut by the snapshot length.
    pub truncated_packets: u64,
    /// What a HAR can tell; `None` for packets.
    pub har: Option<HarFacts>,
    /// Names of its link types that are not read.
    pub unread_links: Vec<String>,
    /// The input of which it is a copy byte for byte: it was not read again, and counts nothing.
    pub copy_of: Option<String>,
    /// What is known of its clock, and how it was put right; times here and in all reports are the corrected ones.
    pub clock: Option<ClockOffset>,
    /// What is damaged, in a few words with the offset; empty when nothing is.
    pub damaged: Prose,
    /// Why it could not be read at all.
    pub unreadable: Option<Prose>,
}

/// The TLS of an input, and what keys gave of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSeen {
    /// Secrets in it, in blocks of a pcapng.
    pub secrets: u64,
    /// Connections of TLS.
    pub connections: u64,
    /// Those that were read, as far as they were captured.
    pub read: u64,
    /// The others, in order of their stream numbers, up to the limit.
    pub unread: Vec<UnreadTls>,
}

/// A TLS connection of which not all was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreadTls {
    /// Its first packet.
    pub place: Place,
    /// Why.
    pub why: WhyUnread,
}

/// Why a TLS connection was not read, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhyUnread {
    /// There are no keys for it.
    NoKeys,
    /// There are, and nothing opens with them.
    WrongKeys,
    /// There are keys, but none of what was said after the handshake.
    HandshakeKeys,
    /// There are keys of what one side said alone, and that was read.
    OneSide,
    /// A part of the handshake that is needed is not in the capture.
    NoHandshake,
    /// A version or a cipher suite that is not read.
    Unsupported,
}

impl WhyUnread {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::NoKeys,
        Self::WrongKeys,
        Self::HandshakeKeys,
        Self::OneSide,
        Self::NoHandshake,
        Self::Unsupported,
    ];

    /// As shown in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoKeys => "no-keys",
            Self::WrongKeys => "wrong-keys",
            Self::HandshakeKeys => "handshake-keys",
            Self::OneSide => "one-side",
            Self::NoHandshake => "no-handshake",
            Self::Unsupported => "unsupported",
        }
    }
}

/// What is known of the clock of an input, and how it was put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockOffset {
    /// So much was added to its times because the user said so.
    Given(Span),
    /// Its clock was so far ahead of that of another input, by the exchanges that both show.
    Learnt {
        /// How far; negative when it was behind.
        ahead: Span,
        /// The name of the other.
        of: String,
    },
    /// Its clock is so far ahead of that of another input, by the connections that both show; its times are
    /// left as they are.
    Left {
        /// How far.
        ahead: Span,
        /// The name of the other.
        of: String,
    },
}

impl ClockOffset {
    /// What was added to the times of the file, if anything was.
    #[must_use]
    pub const fn added(&self) -> Option<Span> {
        match self {
            Self::Given(added) => Some(*added),
            Self::Learnt { ahead, .. } => Some(Span::from_nanos(ahead.nanos().saturating_neg())),
            Self::Left { .. } => None,
        }
    }
}

/// What was on the wire and could not be read, of one protocol and server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// The protocol.
    pub protocol: OpaqueProtocol,
    /// The server: by the name that the client asked for where it is known (TLS), else by its address;
    /// `None` for the rest, when there are more servers than are remembered.
    pub server: Option<Endpoint>,
    /// Connections; for QUIC packets.
    pub count: u64,
}

/// A file with TLS secrets that was named, and what was in it; never the secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyLog {
    /// As named.
    pub name: String,
    /// Secrets that were taken.
    pub secrets: u64,
    /// Lines that are none of a key log.
    pub bad_lines: u64,
    /// The number of the first of them, and what is wrong with it.
    pub first_bad: Option<(u64, String)>,
    /// Secrets beyond the limit, which were left out.
    pub beyond: u64,
}

/// A protocol that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpaqueProtocol {
    /// TLS without keys.
    Tls,
    /// HTTP/2.
    Http2,
    /// QUIC, and so HTTP/3.
    Quic,
}

impl OpaqueProtocol {
    /// As shown in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Http2 => "http2",
            Self::Quic => "quic",
        }
    }
}

/// Totals over the run, beyond what the rows sum up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// MCP exchanges without a session (stateless servers, 2026-07-28).
    pub sessionless: u64,
    /// Sessions of the 2024-11-05 transport.
    pub legacy_sessions: u64,
    /// Session ids that were only ever refused.
    pub refused_ids: u64,
    /// Distinct sessions under judgement (not incarnations).
    pub sessions: u64,
}

/// A resume and its verdict (`resumes.csv`).
#[derive(Clone, Debug)]
pub struct Resume {
    /// The session id asked for.
    pub session_id: SessionId,
    /// The incarnation that the cursor belongs to, from 1.
    pub incarnation: u32,
    /// The incarnation that answered.
    pub incarnation_after: Option<u32>,
    /// Its number in the session, from 1.
    pub resume: u32,
    /// The verdict.
    pub verdict: Verdict,
    /// How sure it is.
    pub confidence: Confidence,
    /// Why it is not sure, or what decided; short, lower case.
    pub reason: Prose,
    /// Codes of the findings on it, worst first.
    pub findings: Vec<&'static str>,
    /// `Last-Event-ID` as sent.
    pub last_event_id: String,
    /// Id of the first message of the answer: `None` without a message, empty without an id.
    pub first_event_id: Option<String>,
    /// The scheme of the stream's ids.
    pub id_scheme: IdScheme,
    /// Events delivered on the stream before.
    pub events_before: u32,
    /// Events on this segment.
    pub events_after: u32,
    /// Of those, how many came again with the same payload.
    pub events_redelivered: u32,
    /// Ids that nobody delivered between cursor and answer; `None` when the scheme cannot tell.
    pub ids_skipped: Option<u64>,
    /// New events whose id a client that removes duplicates has seen.
    pub events_dropped_by_dedup: u32,
    /// What became of the requests pending at the cut.
    pub requests: RequestFates,
    /// Progress tokens of pending requests left hanging.
    pub progress_tokens_left: u32,
    /// The client.
    pub client: Option<Endpoint>,
    /// The server.
    pub server: Option<Endpoint>,
    /// The backend that served the stream before.
    pub backend_before: Option<Arc<str>>,
    /// The backend that answered.
    pub backend_after: Option<Arc<str>>,
    /// Protocol revision.
    pub protocol_version: Option<Arc<str>>,
    /// Request method (always GET).
    pub method: String,
    /// Status of the answer.
    pub status: Option<u16>,
    /// Session id on the answer, when it has one.
    pub response_session_id: Option<SessionId>,
    /// Time of the last event on the stream before.
    pub last_event_time: Option<Timestamp>,
    /// When the stream was cut.
    pub disconnect_time: Option<Timestamp>,
    /// By what.
    pub disconnect_cause: Option<EndCause>,
    /// When the resume was sent.
    pub resume_time: Timestamp,
    /// When its first event came.
    pub first_event_time: Option<Timestamp>,
    /// Last event → disconnect.
    pub silence: Option<Span>,
    /// Disconnect → resume; negative when the old connection ends later.
    pub gap: Option<Span>,
    /// The `retry` in force, in milliseconds.
    pub retry: Option<u32>,
    /// Whether the client kept it.
    pub retry_kept: Option<bool>,
    /// Resume → response head.
    pub response: Option<Span>,
    /// Resume → first event.
    pub first_event: Option<Span>,
    /// The incident its cut belongs to.
    pub incident: Option<u32>,
    /// Where the cut segment was.
    pub place_before: Option<Place>,
    /// Where the resume is.
    pub place: Place,
    /// Index of its exchange in [`Analysis::exchanges`].
    pub exchange: u32,
    /// The events around it, in plain words, for people: what was delivered last, what came.
    pub story: Vec<Prose>,
}

/// What became of the requests pending at a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFates {
    /// How many were pending.
    pub pending: u32,
    /// Answered later.
    pub answered: u32,
    /// Answered under an id that a client which removes duplicates drops.
    pub dropped: u32,
    /// Never answered though the client stayed.
    pub lost: u32,
    /// Answered twice, differently.
    pub differing: u32,
    /// Cancelled by the client.
    pub cancelled: u32,
    /// Perhaps answered later: the capture ends, or a hole covers it.
    pub still_pending: u32,
}

/// A judgement (`findings.csv`). Only `finding/` makes one.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its code, kebab case.
    pub code: &'static str,
    /// How bad.
    pub severity: Severity,
    /// How sure.
    pub confidence: Confidence,
    /// The kind of evidence, a word or two.
    pub evidence: &'static str,
    /// The session.
    pub session_id: SessionId,
    /// Its incarnation.
    pub incarnation: u32,
    /// The resume's number in the session.
    pub resume: Option<u32>,
    /// When.
    pub time: Timestamp,
    /// What was seen, in one line.
    pub detail: Prose,
    /// The client.
    pub client: Option<Endpoint>,
    /// The server.
    pub server: Option<Endpoint>,
    /// The decisive frame.
    pub place: Place,
}

/// A packet or HAR entry that a finding rests on, and where it is in the finding's file of evidence (`index.csv`).
#[derive(Clone, Debug)]
pub struct Exhibit {
    /// The number of the finding among those with evidence, from 1, the worst first.
    pub number: u32,
    /// Index of the finding in [`Analysis::findings`].
    pub finding: u32,
    /// The file; `None` when there is none for this finding, or the input of this packet is not in any.
    pub file: Option<Arc<str>>,
    /// What it is for the finding.
    pub mark: &'static str,
    /// What is said of it, and stands as a comment at the packet.
    pub note: String,
    /// Where it is in the inputs.
    pub place: Place,
    /// Its number in the file; `None` when it is not in it.
    pub new_frame: Option<u32>,
    /// Wireshark's number of its TCP stream in the file.
    pub new_tcp_stream: Option<u32>,
}

/// One incarnation of a session (`sessions.csv`).
#[derive(Clone, Debug, Default)]
pub struct SessionRow {
    /// The session id.
    pub session_id: SessionId,
    /// Its incarnation, from 1.
    pub incarnation: u32,
    /// What the client addresses: scheme, host, path.
    pub service: String,
    /// The client.
    pub client: Option<Endpoint>,
    /// The server.
    pub server: Option<Endpoint>,
    /// The revision negotiated.
    pub protocol_version: Option<Arc<str>>,
    /// `clientInfo.name`.
    pub client_name: Option<Arc<str>>,
    /// `serverInfo.name`.
    pub server_name: Option<Arc<str>>,
    /// Its first exchange.
    pub first_time: Timestamp,
    /// The last thing seen of it.
    pub last_time: Timestamp,
    /// Streams.
    pub streams: u32,
    /// Segments.
    pub segments: u32,
    /// Events.
    pub events: u32,
    /// Resumes.
    pub resumes: u32,
    /// Resumes by verdict, in the order of [`Verdict::ALL`].
    pub verdicts: [u32; 9],
    /// The scheme of its ids; the most orderly one when its keys differ.
    pub id_scheme: IdScheme,
    /// How it ended.
    pub end: SessionEnd,
    /// Codes of its findings, worst first.
    pub findings: Vec<&'static str>,
}

/// What one connection carried of a stream (`segments.csv`).
#[derive(Clone, Debug)]
pub struct SegmentRow {
    /// The session id.
    pub session_id: SessionId,
    /// Its incarnation; 0 for a legacy session.
    pub incarnation: u32,
    /// The stream's number in the session, from 1.
    pub stream: u32,
    /// The segment's number in the stream, from 1.
    pub segment: u32,
    /// The cursor asked with.
    pub last_event_id: Option<String>,
    /// How it ended, as the session shows it (`silent` where the exchange says `capture-end`).
    pub end_cause: EndCause,
    /// When it ended.
    pub end_time: Option<Timestamp>,
    /// The frame that ended it.
    pub end_place: Place,
    /// Index of its exchange.
    pub exchange: u32,
}

/// Cuts of several sessions of one server in one moment (`incidents.csv`).
#[derive(Clone, Debug)]
pub struct Incident {
    /// The server.
    pub server: Endpoint,
    /// The first cut.
    pub start: Timestamp,
    /// The last cut.
    pub end: Timestamp,
    /// What ended most of the segments; of equals, what ended the first of them.
    pub cause: EndCause,
    /// Segments cut.
    pub segments_cut: u32,
    /// Sessions that they belong to.
    pub sessions: u32,
    /// Resumes that followed these cuts, by verdict, in the order of [`Verdict::ALL`].
    pub verdicts: [u32; 9],
    /// Requests pending at these cuts that never got a result.
    pub lost_requests: u32,
}

/// Cuts by one side at one age, or after one silence (`timers.csv`).
#[derive(Clone, Debug)]
pub struct Timer {
    /// The server.
    pub server: Endpoint,
    /// What the timer measures.
    pub kind: TimerKind,
    /// Who cuts.
    pub side: CutBy,
    /// The User-Agent of the clients that cut, where they send one.
    pub user_agent: Option<Arc<str>>,
    /// The age or silence: the median of those that agree.
    pub period: Span,
    /// From the shortest to the longest of those that agree.
    pub spread: Span,
    /// How many cuts agree.
    pub cuts: u32,
    /// How many of the side's cuts have an age (or a silence) at all.
    pub of: u32,
}

impl Timer {
    /// The share of the side's cuts that agree, from 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        f64::from(self.cuts) / f64::from(self.of.max(1))
    }
}

/// What a timer measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerKind {
    /// Request to cut.
    Age,
    /// Last event to cut.
    Silence,
}

impl TimerKind {
    /// As written in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Silence => "silence",
        }
    }
}

/// The side that cut a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CutBy {
    /// The server, or what the capture does not tell from it.
    Server,
    /// A proxy: it was captured on both sides, and the side behind it had not ended.
    Proxy,
    /// The client.
    Client,
}

impl CutBy {
    /// As written in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Proxy => "proxy",
            Self::Client => "client",
        }
    }
}

/// A share with its 95 % Wilson interval, all from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proportion {
    /// The share as counted.
    pub share: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// How many of a server's resumes of one kind forked (`shares.csv`).
#[derive(Clone, Debug)]
pub struct Share {
    /// The server.
    pub server: Endpoint,
    /// What the resumes have in common.
    pub by: ShareBy,
    /// Resumes of this kind that were decided: neither failed nor indeterminate.
    pub resumes: u32,
    /// Those that forked.
    pub forked: u32,
    /// Their share.
    pub proportion: Proportion,
}

/// What resumes have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShareBy {
    /// What cut the stream before them.
    Cause(EndCause),
    /// The backend that answered.
    Backend(Arc<str>),
    /// A gap from the first to the second, both included: a quarter of the server's resumes.
    Gap(Span, Span),
}

impl ShareBy {
    /// As written in reports.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Cause(_) => "cause",
            Self::Backend(_) => "backend",
            Self::Gap(..) => "gap",
        }
    }
}

/// A server over the whole run (`servers.csv`).
#[derive(Clone, Debug)]
pub struct ServerRow {
    /// The server.
    pub server: Endpoint,
    /// Sessions under judgement with an exchange with it.
    pub sessions: u32,
    /// Resumes by verdict, in the order of [`Verdict::ALL`].
    pub verdicts: [u32; 9],
    /// The share of forks among its resumes that were decided.
    pub fork_share: Option<Proportion>,
    /// How long its sessions live without a connection.
    pub threshold: Option<Threshold>,
    /// The rank correlation of gap with events lost, from -1 to 1.
    pub gap_loss_correlation: Option<f64>,
}

/// The gap from which on a server has lost its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// The longest gap after which a session went on, on the right side.
    pub low: Span,
    /// The shortest gap after which a session was lost, on the right side.
    pub high: Span,
    /// Observations on the wrong side.
    pub misfits: u32,
    /// Observations in all.
    pub observed: u32,
}

impl Threshold {
    /// The middle of the bracket.
    #[must_use]
    pub fn middle(&self) -> Span {
        let half = self.high.nanos().saturating_sub(self.low.nanos()) / 2;
        Span::from_nanos(self.low.nanos().saturating_add(half))
    }
}
