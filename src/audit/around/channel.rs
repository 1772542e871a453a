//! Messages on a stream where they may not come, whatever they say: a response where nobody resumed,
//! progress that no request asked for, progress of a request that has its result.

use super::{Line, MOMENT, Scene, asked::Asked};
use crate::model::{
    case::{Misplaced, MisplacedKind},
    event::Event,
    exchange::Exchange,
    message::{MessageKind, PayloadHash},
    session::Session,
    time::Timestamp,
};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};

pub(super) fn misplaced(
    scene: &Scene<'_, '_>,
    lines: &[Line<'_>],
    asked: &Asked<'_>,
) -> Vec<Misplaced> {
    // Which request a response was paired with, and which tokens were announced, is certain only where
    // nothing is missing.
    if scene.gaps.any() {
        return Vec::new();
    }
    let tokens = Tokens::of(scene, lines, asked);
    let mut found: BTreeMap<MisplacedKind, Misplaced> = BTreeMap::new();
    for line in lines.iter().filter(|line| !line.alien) {
        for (index, event) in (0..).zip(&line.exchange.events) {
            let told = response(line, &event, asked).or_else(|| tokens.told(line, index, &event));
            let Some((kind, what)) = told else {
                continue;
            };
            found
                .entry(kind)
                .and_modify(|known| {
                    known.count += 1;
                    if event.time < known.site.time {
                        known.site = line.site_of(&event);
                        what.clone_into(&mut known.what);
                    }
                    known.resumes.extend(line.resume_number());
                })
                .or_insert_with(|| Misplaced {
                    kind,
                    what: what.to_owned(),
                    count: 1,
                    resumes: line.resume_number().into_iter().collect(),
                    site: line.site_of(&event),
                });
        }
    }
    let mut found: Vec<Misplaced> = found.into_values().collect();
    for misplaced in &mut found {
        misplaced.resumes.dedup();
    }
    found
}

/// A response on a GET without a cursor. An error that answers no request refuses the GET itself.
fn response<'l>(
    line: &'l Line<'_>,
    event: &Event,
    asked: &Asked<'_>,
) -> Option<(MisplacedKind, &'l str)> {
    let id = line.exchange.text(event.rpc_id?);
    let counts = match event.message {
        MessageKind::Response => true,
        MessageKind::Error => asked.knows(id),
        _ => false,
    };
    (counts && line.is_plain_get()).then_some((MisplacedKind::Response, id))
}

/// The progress tokens that requests announced.
struct Tokens<'a> {
    /// By token (numbers and strings alike: what differs in quotes alone is a slip of another kind),
    /// in order of time.
    uses: HashMap<&'a str, Vec<Use>, RandomState>,
    /// The first time that each progress notification came.
    first: HashMap<PayloadHash, Timestamp, RandomState>,
    /// Every request of the session is known.
    all_seen: bool,
    /// Tasks go on after their first result.
    has_tasks: bool,
}

/// A request with a progress token.
#[derive(Clone, Copy)]
struct Use {
    asked: Timestamp,
    /// Of this one and those before it, all answered: the last answer. `None` while one is not.
    answered: Option<Answer>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Answer {
    time: Timestamp,
    /// The exchange that brought it, and which of its events.
    exchange: u32,
    event: u32,
}

impl<'a> Tokens<'a> {
    fn of(scene: &Scene<'_, 'a>, lines: &[Line<'_>], asked: &Asked<'_>) -> Self {
        let session = scene.session;
        let mut tokens = Self {
            uses: HashMap::default(),
            first: HashMap::default(),
            all_seen: !session.issued_by.is_empty() && asked.are_all() && knows_cursors(session),
            has_tasks: false,
        };
        let mut any = false;
        for line in lines {
            for event in line
                .exchange
                .events
                .iter()
                .filter(|e| e.progress_token.is_some())
            {
                any = true;
                let first = tokens.first.entry(event.hash).or_insert(event.time);
                *first = event.time.min(*first);
            }
        }
        if !any {
            return tokens;
        }
        let answers = answers(scene, lines);
        for &number in &session.exchanges {
            let Some(exchange) = scene.exchanges.get(number as usize) else {
                continue;
            };
            let Some(request) = &exchange.request else {
                continue;
            };
            for message in &request.messages {
                let method = message.method.as_deref().unwrap_or_default();
                tokens.has_tasks |= method.starts_with("tasks/");
                let Some(token) = message.progress_token.as_deref() else {
                    continue;
                };
                if message.kind != MessageKind::Request {
                    continue;
                }
                let own = message
                    .id
                    .as_deref()
                    .and_then(|id| answers.get(&(number, id)).copied());
                let uses = tokens.uses.entry(unquoted(token)).or_default();
                let before = uses.last().map(|before| before.answered);
                let answered = match before {
                    None => own,
                    Some(before) => own.zip(before).map(|(own, before)| own.max(before)),
                };
                uses.push(Use {
                    asked: exchange.time(),
                    answered,
                });
            }
        }
        tokens
    }

    /// What is wrong with a progress notification.
    fn told<'l>(
        &self,
        line: &'l Line<'_>,
        index: u32,
        event: &Event,
    ) -> Option<(MisplacedKind, &'l str)> {
        let token = line.exchange.text(event.progress_token?);
        let Some(uses) = self.uses.get(unquoted(token)) else {
            return self
                .all_seen
                .then_some((MisplacedKind::UnknownToken, token));
        };
        let before = uses.partition_point(|used| used.asked <= line.came_by(event));
        let answer = uses.get(before.checked_sub(1)?)?.answered?;
        // A replay brings what was said before; and replays of one instant come in any order.
        let is_new = self
            .first
            .get(&event.hash)
            .is_none_or(|first| *first >= event.time);
        // On another connection it may have been overtaken.
        let after = (answer.exchange == line.number && answer.event < index)
            || event.time.since(answer.time) > MOMENT && line.is_timed();
        (is_new && after && line.resume.is_none() && !self.has_tasks)
            .then_some((MisplacedKind::AfterResult, token))
    }
}

/// The first answer to each request, by its POST and id: on the POST's own stream, or in its body.
fn answers<'a>(
    scene: &Scene<'_, 'a>,
    lines: &[Line<'_>],
) -> HashMap<(u32, &'a str), Answer, RandomState> {
    let mut answers: HashMap<(u32, &'a str), Answer, RandomState> = HashMap::default();
    let mut add = |post: u32, id: &'a str, answer: Answer| {
        let known = answers.entry((post, id)).or_insert(answer);
        *known = answer.min(*known);
    };
    for line in lines {
        let stream = scene.session.streams.get(line.stream as usize);
        let Some(post) = stream.and_then(|stream| stream.begun_by) else {
            continue;
        };
        let Some(exchange) = scene.exchanges.get(line.number as usize) else {
            continue;
        };
        for (index, event) in (0..).zip(&exchange.events) {
            for (id, _) in exchange.answers_in(index, event) {
                let answer = Answer {
                    time: line.came_by(&event),
                    exchange: line.number,
                    event: index,
                };
                add(post, id, answer);
            }
        }
    }
    for &number in &scene.session.exchanges {
        let Some(exchange) = scene.exchanges.get(number as usize) else {
            continue;
        };
        for id in bodies(exchange) {
            let answer = Answer {
                time: exchange.end.time,
                exchange: number,
                event: 0,
            };
            add(number, id, answer);
        }
    }
    answers
}

/// The ids that a JSON body answers.
fn bodies(exchange: &Exchange) -> impl Iterator<Item = &str> {
    let response = exchange.response.iter();
    response
        .flat_map(|response| &response.messages)
        .filter(|message| matches!(message.kind, MessageKind::Response | MessageKind::Error))
        .filter_map(|message| message.id.as_deref())
}

/// Whether every cursor was seen to be delivered: one that was not tells of a stream that is not in the
/// capture.
fn knows_cursors(session: &Session) -> bool {
    session.resumes.iter().all(|resume| resume.cursor.is_some())
}

fn unquoted(token: &str) -> &str {
    token.trim_matches('"')
}
