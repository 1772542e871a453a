//! Where streams ended before they were complete, by whom, and who came back for them.

use crate::{
    audit::Judged,
    model::{
        analysis::CutBy,
        exchange::{Answer, EndCause, Exchange, Part},
        flow::Endpoint,
        message::MessageKind,
        session::{Grouping, Resumption, Session, Stream},
        time::{Span, Timestamp},
        verdict::Verdict,
    },
};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Packets of one instant are captured out of order by this much.
const DISORDER: Span = Span::from_millis(5);

/// The end of an incomplete segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// The server's number in [`Servers`].
    pub(super) server: u32,
    /// The session, an index into [`Grouping::sessions`].
    pub(super) session: u32,
    /// The first session of its id. Where a head is missing, one session may seem to be two, of two
    /// services.
    pub(super) name: u32,
    /// The stream, an index into [`Session::streams`].
    pub(super) stream: u32,
    /// The exchange, an index.
    pub(super) exchange: u32,
    /// When the segment was asked for.
    pub(super) open: Timestamp,
    /// When its last event came.
    pub(super) last_event: Option<Timestamp>,
    /// When it ended.
    pub(super) end: Timestamp,
    /// How it ended.
    pub(super) cause: EndCause,
    /// Who ended it, where the capture tells.
    pub(super) by: Option<CutBy>,
    /// A clean end whose stream goes on: no cut, but the server's doing all the same.
    pub(super) poll: bool,
    /// The resumes that followed it, indices into the session's.
    pub(super) resumes: Vec<u32>,
}

/// The servers of a run, numbered in the order of their addresses.
#[derive(Debug, Default)]
pub(super) struct Servers<'a> {
    numbers: BTreeMap<&'a Endpoint, u32>,
}

impl<'a> Servers<'a> {
    /// Those that the sessions' exchanges are with.
    pub(super) fn of(grouping: &Grouping, exchanges: &'a [Exchange]) -> Self {
        let addresses: BTreeSet<&Endpoint> = grouping
            .sessions
            .iter()
            .flat_map(|session| {
                let segments = session.segments.iter().map(|segment| segment.exchange);
                session.exchanges.iter().copied().chain(segments)
            })
            .filter_map(|number| exchanges.get(number as usize)?.server.as_ref())
            .collect();
        Self {
            numbers: addresses.into_iter().zip(0..).collect(),
        }
    }

    /// The number of a server.
    pub(super) fn number(&self, server: Option<&Endpoint>) -> Option<u32> {
        self.numbers.get(server?).copied()
    }

    /// The servers in the order of their numbers.
    pub(super) fn list(&self) -> Vec<&'a Endpoint> {
        self.numbers.keys().copied().collect()
    }
}

/// The ends of incomplete segments of all sessions under judgement, session by session.
///
/// A stream is complete once all that its POST asked was answered; one that a hole covers may be, and
/// is left out. A client's end counts when it comes back for the stream, and nothing counts after a
/// DELETE: a client that leaves is no cut.
pub(super) fn cuts(
    grouping: &Grouping,
    exchanges: &[Exchange],
    judged: &[Judged],
    servers: &Servers<'_>,
) -> Vec<Cut> {
    let mut behind: Vec<Option<u32>> = vec![None; exchanges.len()];
    for (inner, outer) in (0..).zip(&grouping.inner_of) {
        if let Some(slot) = outer.and_then(|outer| behind.get_mut(outer as usize)) {
            *slot = Some(inner);
        }
    }
    let room = Room {
        exchanges,
        servers,
        behind: &behind,
    };
    let mut cuts = Vec::new();
    let mut names: HashMap<&str, u32, RandomState> = HashMap::default();
    for ((index, session), judged) in (0..).zip(&grouping.sessions).zip(judged) {
        let name = *names.entry(&session.id).or_insert(index);
        room.look((index, name), session, judged, &mut cuts);
    }
    cuts
}

struct Room<'a> {
    exchanges: &'a [Exchange],
    servers: &'a Servers<'a>,
    /// For each exchange with a proxy the one behind it.
    behind: &'a [Option<u32>],
}

impl Room<'_> {
    fn look(
        &self,
        (index, name): (u32, u32),
        session: &Session,
        judged: &Judged,
        cuts: &mut Vec<Cut>,
    ) {
        let visits = Visits::of(session, self.exchanges);
        let unsure: Vec<bool> = session
            .streams
            .iter()
            .map(|stream| self.may_be_complete(session, stream))
            .collect();
        // Where the last request of each stream was answered.
        let completed: Vec<Option<Timestamp>> = session
            .streams
            .iter()
            .map(|stream| {
                let place = stream.completed?;
                let exchange = session.exchange(place.segment, self.exchanges)?;
                Some(exchange.events.get(place.event as usize)?.time)
            })
            .collect();
        let rows = session.segments.iter().zip(&judged.segments);
        for ((segment, row), resumes) in rows.zip(followers(session, self.exchanges)) {
            let (Some(exchange), Some(stream)) = (
                self.exchanges.get(segment.exchange as usize),
                session.streams.get(segment.stream as usize),
            ) else {
                continue;
            };
            let Some(server) = self.servers.number(exchange.server.as_ref()) else {
                continue;
            };
            let place = segment.stream as usize;
            let following = || {
                resumes
                    .iter()
                    .filter_map(|&resume| judged.case.resumes.get(resume as usize))
                    .map(|resume| &resume.row)
            };
            // Only a refused resume shows that it fell silent: it opened no segment.
            let silent = following()
                .filter(|_| row.end_cause == EndCause::CaptureEnd)
                .find(|resume| resume.disconnect_cause == Some(EndCause::Silent))
                .and_then(|resume| resume.disconnect_time);
            let (end, cause) = match silent {
                Some(time) => (time, EndCause::Silent),
                None => (row.end_time.unwrap_or(exchange.end.time), row.end_cause),
            };
            let done = completed
                .get(place)
                .copied()
                .flatten()
                .is_some_and(|done| done <= end);
            if done
                || unsure.get(place).copied().unwrap_or(true)
                || visits.deleted_within(segment.open, end)
            {
                continue;
            }
            let first = following().next().map(|resume| {
                let answer = self.exchanges.get(resume.exchange as usize);
                resume.verdict == Verdict::Forked || answer.is_some_and(met_nobody)
            });
            // A stream without ids goes on in the next GET without a cursor.
            let reopened = || stream.begun_by.is_none().then(|| visits.next(end))?;
            let next = first.or_else(reopened);
            // A HAR tells no end, but whether all of a body came.
            let clean = cause == EndCause::Unknown
                && exchange.response.as_ref().is_some_and(|head| head.complete);
            let poll = match cause {
                _ if clean => next != Some(true),
                EndCause::StreamEnd => next != Some(true),
                EndCause::ServerFin
                | EndCause::ServerRst
                | EndCause::StreamResetByServer
                | EndCause::Goaway
                | EndCause::Silent => false,
                EndCause::ClientFin
                | EndCause::ClientRst
                | EndCause::StreamResetByClient
                | EndCause::Unknown => {
                    if next.is_none() {
                        continue;
                    }
                    false
                }
                EndCause::CaptureEnd => continue,
            };
            cuts.push(Cut {
                server,
                session: index,
                name,
                stream: segment.stream,
                exchange: segment.exchange,
                open: segment.open,
                last_event: exchange.events.last().map(|event| event.time),
                end,
                cause,
                by: self.ended_by(segment.exchange, end, cause),
                poll,
                resumes,
            });
        }
    }

    /// Whether the stream may be complete where the capture does not show it: a hole covers one of its
    /// segments, or it began before the capture and somebody was answered on it.
    fn may_be_complete(&self, session: &Session, stream: &Stream) -> bool {
        if stream.completed.is_some() {
            return false;
        }
        let mut segments = stream
            .segments
            .iter()
            .filter_map(|&segment| session.exchange(segment, self.exchanges))
            .peekable();
        if stream.begun_by.is_some() {
            return segments.any(Exchange::body_has_hole);
        }
        let began_before = segments
            .peek()
            .is_some_and(|exchange| exchange.cursor().is_some());
        let answers = |kind| matches!(kind, MessageKind::Response | MessageKind::Error);
        began_before
            && segments.any(|exchange| {
                exchange.body_has_hole()
                    || exchange.events.iter().any(|event| answers(event.message))
            })
    }

    fn ended_by(&self, number: u32, end: Timestamp, cause: EndCause) -> Option<CutBy> {
        match cause {
            EndCause::ClientFin | EndCause::ClientRst | EndCause::StreamResetByClient => {
                Some(CutBy::Client)
            }
            EndCause::StreamEnd
            | EndCause::ServerFin
            | EndCause::ServerRst
            | EndCause::StreamResetByServer
            | EndCause::Goaway => {
                let inner = self.behind.get(number as usize).copied().flatten();
                let Some(inner) = inner.and_then(|inner| self.exchanges.get(inner as usize)) else {
                    return Some(CutBy::Server);
                };
                match inner.end.cause {
                    EndCause::StreamEnd
                    | EndCause::ServerFin
                    | EndCause::ServerRst
                    | EndCause::StreamResetByServer
                    | EndCause::Goaway
                        if inner.end.time <= end.plus(DISORDER) =>
                    {
                        Some(CutBy::Server)
                    }
                    EndCause::Unknown => None,
                    _ => Some(CutBy::Proxy),
                }
            }
            EndCause::Silent | EndCause::CaptureEnd | EndCause::Unknown => None,
        }
    }
}

/// Whether a request found nothing to go on with: the session was refused, nobody answered, or the
/// server was down.
fn met_nobody(exchange: &Exchange) -> bool {
    let died = || !exchange.is_open() && !exchange.has_hole(Part::ResponseHead);
    exchange.answer() == Answer::Refused
        || exchange.status().map_or_else(died, |status| status >= 500)
}

/// For each segment the resumes that came after it and went on from it, in order of time: the last
/// segment of their stream that was opened before them.
fn followers(session: &Session, exchanges: &[Exchange]) -> Vec<Vec<u32>> {
    let mut followers: Vec<Vec<u32>> = vec![Vec::new(); session.segments.len()];
    for (index, resume) in (0..).zip(&session.resumes) {
        let before = segment_before(session, exchanges, resume);
        if let Some(list) = before.and_then(|before| followers.get_mut(before as usize)) {
            list.push(index);
        }
    }
    followers
}

fn segment_before(session: &Session, exchanges: &[Exchange], resume: &Resumption) -> Option<u32> {
    let stream = session.streams.get(resume.stream? as usize)?;
    let start = exchanges.get(resume.exchange as usize)?.time();
    let earlier = stream.segments.partition_point(|&segment| {
        let segment = session.segments.get(segment as usize);
        segment.is_some_and(|segment| segment.open < start)
    });
    let before = stream.segments.get(..earlier)?.iter().rev();
    before
        .copied()
        .find(|&segment| Some(segment) != resume.segment)
}

/// GETs without a cursor and DELETEs of a session.
struct Visits {
    /// When each GET without a cursor was asked for, in order, and whether it met nobody.
    plain: Vec<(Timestamp, bool)>,
    deletes: Vec<Timestamp>,
}

impl Visits {
    fn of(session: &Session, exchanges: &[Exchange]) -> Self {
        let mut visits = Self {
            plain: Vec::new(),
            deletes: Vec::new(),
        };
        for exchange in session
            .exchanges
            .iter()
            .filter_map(|&number| exchanges.get(number as usize))
        {
            match exchange.method() {
                "DELETE" => visits.deletes.push(exchange.time()),
                "GET" if exchange.cursor().is_none() => {
                    visits.plain.push((exchange.time(), met_nobody(exchange)));
                }
                _ => {}
            }
        }
        visits
    }

    /// Whether the first GET after `time` met nobody; `None` without one.
    fn next(&self, time: Timestamp) -> Option<bool> {
        let at = self.plain.partition_point(|&(asked, _)| asked <= time);
        self.plain.get(at).map(|&(_, gone)| gone)
    }

    fn deleted_within(&self, from: Timestamp, to: Timestamp) -> bool {
        let at = self.deletes.partition_point(|&asked| asked < from);
        self.deletes.get(at).is_some_and(|&asked| asked <= to)
    }
}
