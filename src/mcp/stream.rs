//! Segments → streams: which resume goes on from where (MCP, "Resumability and Redelivery").
//!
//! A stream begins with a POST's response or a GET without cursor, and goes on in every segment
//! whose cursor was delivered on it. Only deliveries before the resume's request count: a client
//! cannot ask for what it has not got.

use crate::model::{
    event::Event,
    exchange::Exchange,
    id::SessionId,
    message::MessageKind,
    session::{EventRef, Grouping, Resumption, Role, Segment, Session, Stream},
    time::Timestamp,
};
use foldhash::fast::RandomState;
use rayon::prelude::*;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

/// Fills in segments, streams and resumes of every session.
pub fn thread(grouping: &mut Grouping, exchanges: &[Exchange]) {
    let elsewhere = answering_sessions(grouping, exchanges);
    let mut given: HashMap<u32, Vec<u32>, RandomState> = HashMap::default();
    for (&exchange, &to) in &elsewhere {
        given.entry(to).or_default().push(exchange);
    }
    let sessions = grouping.sessions.par_iter_mut().enumerate();
    sessions.for_each(|(index, session)| {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let mut mine: Vec<(u32, bool)> = session
            .exchanges
            .iter()
            .map(|&number| (number, true))
            .collect();
        mine.extend(
            given
                .get(&index)
                .into_iter()
                .flatten()
                .map(|&number| (number, false)),
        );
        mine.sort_unstable();
        let mut threads = Threads::new(session, exchanges);
        for (number, asked_here) in mine {
            threads.add(
                number,
                asked_here,
                asked_here && elsewhere.contains_key(&number),
            );
        }
    });
    for legacy in &mut grouping.legacy {
        let asked = legacy.exchanges.clone();
        let mut threads = Threads::new(legacy, exchanges);
        for number in asked {
            threads.add(number, true, false);
        }
    }
}

/// Segments whose answer names another session than the one asked for: their log is that one's.
/// Exchange → the session that answered; a tree, for its order is walked.
type Elsewhere = BTreeMap<u32, u32>;

fn answering_sessions(grouping: &Grouping, exchanges: &[Exchange]) -> Elsewhere {
    let mut by_id: HashMap<(Arc<str>, SessionId), u32, RandomState> = HashMap::default();
    for (index, session) in grouping.sessions.iter().enumerate() {
        by_id.insert(
            (Arc::clone(&session.service), session.id.clone()),
            u32::try_from(index).unwrap_or(u32::MAX),
        );
    }
    let mut elsewhere = Elsewhere::new();
    for (number, exchange) in exchanges.iter().enumerate() {
        let is_inner = grouping.inner_of.get(number).copied().flatten().is_some();
        let Some(Role::Session(session)) =
            grouping.role_of.get(number).copied().filter(|_| !is_inner)
        else {
            continue;
        };
        let Some(session) = grouping.sessions.get(session as usize) else {
            continue;
        };
        let given = exchange
            .response
            .as_ref()
            .and_then(|response| response.session_id.clone());
        let Some(given) = given.filter(|id| *id != session.id) else {
            continue;
        };
        if !exchange.is_event_stream() || exchange.is_initialize() {
            continue;
        }
        if let Some(&to) = by_id.get(&(Arc::clone(&session.service), given)) {
            elsewhere.insert(u32::try_from(number).unwrap_or(u32::MAX), to);
        }
    }
    elsewhere
}

/// The streams of one session while they are threaded, in order of time.
struct Threads<'a> {
    session: &'a mut Session,
    exchanges: &'a [Exchange],
    /// The ids that somebody asks on from: where others were seen is no matter.
    cursors: HashSet<&'a str, RandomState>,
    /// The streams that each of them was seen on.
    carriers: HashMap<&'a str, Carriers, RandomState>,
    /// Where each of them was seen on each stream, in order of arrival here.
    delivered: HashMap<(&'a str, u32), Vec<EventRef>, RandomState>,
    /// What is open and what came last on each stream.
    progress: Vec<Progress<'a>>,
    holes: bool,
}

#[derive(Default)]
struct Carriers {
    streams: Vec<u32>,
    /// Some client got it.
    got: bool,
}

/// How far a stream has come.
#[derive(Default)]
struct Progress<'a> {
    /// Ids of its POST's requests that are not answered yet.
    open: Vec<&'a str>,
    /// The last id delivered, by the times at which another one became the last, in their order. A later
    /// segment may bring an earlier event.
    last: Vec<(Timestamp, &'a str)>,
}

impl<'a> Threads<'a> {
    fn new(session: &'a mut Session, exchanges: &'a [Exchange]) -> Self {
        let exchange = |&number: &u32| exchanges.get(number as usize);
        let cursors = session.exchanges.iter().filter_map(exchange);
        let cursors = cursors.filter_map(Exchange::cursor).collect();
        Self {
            session,
            exchanges,
            cursors,
            carriers: HashMap::default(),
            delivered: HashMap::default(),
            progress: Vec::new(),
            holes: false,
        }
    }

    fn add(&mut self, number: u32, asked_here: bool, answered_elsewhere: bool) {
        let Some(exchange) = self.exchanges.get(number as usize) else {
            return;
        };
        self.holes |= !exchange.holes.is_empty();
        let cursor = exchange.cursor().filter(|_| asked_here);
        let time = exchange.time();
        let from = cursor.and_then(|cursor| self.origin(cursor, time));
        let mut segment = None;
        if exchange.is_event_stream() && !answered_elsewhere {
            let index = u32::try_from(self.session.segments.len()).unwrap_or(u32::MAX);
            let stream = match from {
                Some(origin) => origin.stream,
                None => self.begin(number, exchange),
            };
            self.session.segments.push(Segment {
                exchange: number,
                stream,
                open: time,
            });
            if let Some(stream) = self.session.streams.get_mut(stream as usize) {
                stream.segments.push(index);
            }
            self.deliver(index, stream, exchange);
            self.complete(index, stream, exchange);
            segment = Some(index);
        }
        if cursor.is_some() {
            self.session.resumes.push(Resumption {
                exchange: number,
                segment,
                stream: from.map(|origin| origin.stream),
                cursor: from.map(|origin| origin.cursor),
                ambiguous: from.is_some_and(|origin| origin.ambiguous),
            });
        }
    }

    fn begin(&mut self, number: u32, exchange: &'a Exchange) -> u32 {
        let is_post = exchange
            .request
            .as_ref()
            .is_some_and(|request| &*request.method == "POST");
        self.session.streams.push(Stream {
            begun_by: is_post.then_some(number),
            ..Stream::default()
        });
        let asked = exchange.request.as_ref().filter(|_| is_post);
        let open = asked
            .into_iter()
            .flat_map(|request| &request.messages)
            .filter(|message| matches!(message.kind, MessageKind::Request | MessageKind::Ping))
            .filter_map(|message| message.id.as_deref())
            .collect();
        self.progress.push(Progress {
            open,
            last: Vec::new(),
        });
        u32::try_from(self.session.streams.len() - 1).unwrap_or(u32::MAX)
    }

    fn deliver(&mut self, segment: u32, stream: u32, exchange: &'a Exchange) {
        for (event, facts) in exchange.events.iter().enumerate() {
            let Some(id) = facts.id.filter(|id| id.len > 0) else {
                continue;
            };
            let id = exchange.text(id);
            if self.cursors.contains(id) {
                let carriers = self.carriers.entry(id).or_default();
                carriers.got |= facts.delivered;
                let places = self.delivered.entry((id, stream)).or_insert_with(|| {
                    carriers.streams.push(stream);
                    Vec::new()
                });
                places.push(EventRef {
                    segment,
                    event: u32::try_from(event).unwrap_or(u32::MAX),
                });
            }
            if facts.delivered
                && let Some(progress) = self.progress.get_mut(stream as usize)
            {
                // Whoever asks at this time or later gets this one, whatever came before it.
                while progress
                    .last
                    .last()
                    .is_some_and(|(time, _)| *time >= facts.time)
                {
                    progress.last.pop();
                }
                progress.last.push((facts.time, id));
            }
        }
    }

    /// A POST's stream is complete once every request of it was answered on it.
    fn complete(&mut self, segment: u32, stream: u32, exchange: &'a Exchange) {
        let Some(progress) = self.progress.get_mut(stream as usize) else {
            return;
        };
        if progress.open.is_empty() {
            return;
        }
        let mut answered: HashMap<&str, u32, RandomState> = HashMap::default();
        for (event, facts) in (0..).zip(&exchange.events) {
            if facts.delivered {
                for (id, _) in exchange.answers_in(event, facts) {
                    answered.entry(id).or_insert(event);
                }
            }
        }
        let mut last = 0;
        progress.open.retain(|pending| {
            let event = answered.get(pending);
            last = event.copied().map_or(last, |event| last.max(event));
            event.is_none()
        });
        if progress.open.is_empty()
            && let Some(stream) = self.session.streams.get_mut(stream as usize)
        {
            stream.completed = Some(EventRef {
                segment,
                event: last,
            });
        }
    }

    /// The stream that a cursor goes on from: of those that delivered it before `time`, the
    /// incomplete one whose last delivered id it is, else one whose last it is, else the latest.
    fn origin(&self, cursor: &str, time: Timestamp) -> Option<Origin> {
        let carriers = self.carriers.get(cursor)?;
        // The cursor itself proves that its event was delivered, whatever the packets seem to say.
        let counts = |facts: &Event| (facts.delivered || !carriers.got) && facts.time <= time;
        let candidates: Vec<Candidate> = carriers
            .streams
            .iter()
            .filter_map(|&stream| {
                let places = self.delivered.get(&(cursor, stream))?;
                places.iter().rev().find_map(|&place| {
                    let (_, facts) = self.event(place)?;
                    counts(&facts).then_some(Candidate {
                        stream,
                        cursor: place,
                        at: facts.time,
                    })
                })
            })
            .collect();
        let rank = |candidate: &Candidate| {
            let last = self.last_delivered(candidate.stream, time) == Some(cursor);
            let incomplete = !self.completed_before(candidate.stream, time);
            (last && incomplete, last, candidate.at)
        };
        let best = *candidates.iter().max_by_key(|candidate| rank(candidate))?;
        let by_rank = rank(&best).1;
        Some(Origin {
            stream: best.stream,
            cursor: best.cursor,
            ambiguous: self.holes && candidates.len() > 1 && !by_rank,
        })
    }

    fn last_delivered(&self, stream: u32, time: Timestamp) -> Option<&'a str> {
        let progress = self.progress.get(stream as usize)?;
        let after = progress.last.partition_point(|(at, _)| *at <= time);
        progress.last.get(after.checked_sub(1)?).map(|(_, id)| *id)
    }

    fn completed_before(&self, stream: u32, time: Timestamp) -> bool {
        self.session
            .streams
            .get(stream as usize)
            .and_then(|stream| stream.completed)
            .and_then(|place| self.event(place))
            .is_some_and(|(_, facts)| facts.time <= time)
    }

    fn event(&self, place: EventRef) -> Option<(&'a Exchange, Event)> {
        let exchange = self.session.exchange(place.segment, self.exchanges)?;
        Some((exchange, exchange.events.get(place.event as usize)?))
    }
}

#[derive(Clone, Copy)]
struct Candidate {
    stream: u32,
    cursor: EventRef,
    at: Timestamp,
}

#[derive(Clone, Copy)]
struct Origin {
    stream: u32,
    cursor: EventRef,
    ambiguous: bool,
}
