//! Refusals of a session and the code each deserves: the first that fits (AUDIT, "A refusal gets
//! one code").

use crate::model::{
    case::{Fork, Refusal, RefusalKind, ResumeCase},
    exchange::{Answer, EndCause, Exchange, Window},
    session::Session,
    time::{Span, Timestamp},
    verdict::Verdict,
};

/// Refusals between successes closer than this are another replica's.
const BETWEEN_SUCCESSES: Span = Span::from_secs(30);
/// A refusal this soon after the cut of the session's own stream came of the cut.
const AFTER_CUT: Span = Span::from_secs(30);
/// A client is live at a cut when it asked for something this shortly before.
const LIVE_BEFORE_CUT: Span = Span::from_secs(60);
/// Refusals with 5xx that count, when they are the only answer.
const SERVER_ERRORS: usize = 3;

/// What other sessions of the server went through: when they were lost, and when they were served.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    /// First refusals for good of other sessions.
    pub lost_at: Vec<Timestamp>,
    /// Successes of other sessions.
    pub served_at: Vec<Timestamp>,
    /// Successful initializes of any client, by time.
    pub initialized_at: Vec<Timestamp>,
}

/// One exchange of a session as far as refusals go.
struct Step<'a> {
    exchange: &'a Exchange,
    time: Timestamp,
    outcome: Outcome,
    resume: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Success,
    Refused,
    Conflict,
    Nothing,
}

/// The first refusal after which nothing of the session succeeds, when there is one.
#[must_use]
pub fn lost_for_good(session: &Session, exchanges: &[Exchange]) -> Option<Timestamp> {
    let steps = steps(session, exchanges, &Neighbours::default());
    let last_success = steps
        .iter()
        .rposition(|step| step.outcome == Outcome::Success);
    steps
        .iter()
        .skip(last_success.map_or(0, |index| index + 1))
        .find(|step| step.outcome == Outcome::Refused && step.exchange.method() != "DELETE")
        .map(|step| step.time)
}

/// The runs of refusals of a session.
#[must_use]
pub fn refusals(
    session: &Session,
    exchanges: &[Exchange],
    neighbours: &Neighbours,
    resumes: &[ResumeCase],
    incarnation_at: &dyn Fn(Timestamp) -> u32,
    window: Window,
) -> Vec<Refusal> {
    let steps = steps(session, exchanges, neighbours);
    let deleted = deleted_at(session, exchanges);
    let mut runs: Vec<Refusal> = Vec::new();
    let mut open: Option<RefusalKind> = None;
    for (index, step) in steps.iter().enumerate() {
        match step.outcome {
            Outcome::Success => open = None,
            Outcome::Nothing => {}
            Outcome::Refused | Outcome::Conflict => {
                if step.exchange.method() == "DELETE" {
                    continue;
                }
                let room = Room {
                    steps: &steps,
                    session,
                    exchanges,
                    deleted,
                    neighbours,
                    resumes,
                };
                let Some(kind) = room.classify(index) else {
                    continue;
                };
                // After a good DELETE a refusal is what must come.
                if kind == RefusalKind::Lost && deleted.is_some_and(|at| at < step.time) {
                    continue;
                }
                if open == Some(kind)
                    && let Some(run) = runs.last_mut()
                {
                    run.count += 1;
                    run.last = step.time;
                    run.resumes.extend(step.resume);
                    run.misleading |= is_misleading(step.exchange, kind);
                    continue;
                }
                open = Some(kind);
                runs.push(Refusal {
                    kind,
                    misleading: is_misleading(step.exchange, kind),
                    status: step.exchange.status().unwrap_or(0),
                    count: 1,
                    context: context(&steps, index, session, exchanges, neighbours, window),
                    time: step.time,
                    last: step.time,
                    place: step.exchange.place,
                    resumes: step.resume.into_iter().collect(),
                    client: step.exchange.client.clone(),
                    server: step.exchange.server.clone(),
                    incarnation: incarnation_at(step.time),
                });
            }
        }
    }
    // A fork tells more: a log to judge by.
    let forked = resumes
        .iter()
        .any(|resume| resume.fork == Some(Fork::Revived));
    if !forked {
        runs.extend(revived_after_delete(&steps, deleted, incarnation_at, &runs));
    }
    runs.sort_by_key(|run| run.time);
    runs
}

/// A success after a good DELETE, where no refusal between them tells of it.
fn revived_after_delete(
    steps: &[Step<'_>],
    deleted: Option<Timestamp>,
    incarnation_at: &dyn Fn(Timestamp) -> u32,
    runs: &[Refusal],
) -> Option<Refusal> {
    let deleted = deleted?;
    let told = runs.iter().any(|run| run.kind == RefusalKind::Revived);
    let step = steps.iter().find(|step| {
        step.time > deleted
            && step.outcome == Outcome::Success
            && step.exchange.method() != "DELETE"
    })?;
    (!told && !step.exchange.is_initialize()).then(|| Refusal {
        kind: RefusalKind::Revived,
        misleading: false,
        status: step.exchange.status().unwrap_or(0),
        count: 1,
        context: "served after a good DELETE".to_owned(),
        time: step.time,
        last: step.time,
        place: step.exchange.place,
        resumes: step.resume.into_iter().collect(),
        client: step.exchange.client.clone(),
        server: step.exchange.server.clone(),
        incarnation: incarnation_at(step.time),
    })
}

fn steps<'a>(
    session: &Session,
    exchanges: &'a [Exchange],
    neighbours: &Neighbours,
) -> Vec<Step<'a>> {
    let mut resume = 0;
    let mut steps: Vec<Step<'a>> = session
        .exchanges
        .iter()
        .filter_map(|&number| exchanges.get(number as usize))
        .map(|exchange| {
            let is_resume = exchange.cursor().is_some();
            resume += u32::from(is_resume);
            let outcome = match exchange.answer() {
                Answer::Success => Outcome::Success,
                Answer::Refused => Outcome::Refused,
                Answer::Silent => match exchange.status() {
                    Some(409) if exchange.method() == "GET" => Outcome::Conflict,
                    // 400 without a word on the session is a conflict when GETs alone meet it.
                    Some(400) if exchange.method() == "GET" => Outcome::Conflict,
                    _ => Outcome::Nothing,
                },
            };
            Step {
                exchange,
                time: exchange.time(),
                outcome,
                resume: is_resume.then_some(resume),
            }
        })
        .collect();
    // 5xx refuses no session, unless it is the only answer to it, three times or more, while other
    // sessions of the server are served.
    let last_success = steps
        .iter()
        .rposition(|step| step.outcome == Outcome::Success);
    let tail = last_success.map_or(0, |index| index + 1);
    let is_error = |step: &Step<'_>| matches!(step.exchange.status(), Some(500..=599));
    let answered = |step: &&Step<'_>| step.exchange.status().is_some();
    let errors = steps
        .iter()
        .skip(tail)
        .filter(|step| is_error(step))
        .count();
    let only = steps.iter().skip(tail).filter(answered).all(&is_error);
    let first = steps
        .iter()
        .skip(tail)
        .find(|step| is_error(step))
        .map(|step| step.time);
    let others = first.is_some_and(|first| neighbours.served_at.iter().any(|&at| at > first));
    if errors >= SERVER_ERRORS && only && others {
        for step in steps.iter_mut().skip(tail) {
            if matches!(step.exchange.status(), Some(500..=599)) {
                step.outcome = Outcome::Refused;
            }
        }
    }
    steps
}

/// What a refusal is classified with.
struct Room<'a> {
    steps: &'a [Step<'a>],
    session: &'a Session,
    exchanges: &'a [Exchange],
    deleted: Option<Timestamp>,
    neighbours: &'a Neighbours,
    resumes: &'a [ResumeCase],
}

impl Room<'_> {
    fn verdict(&self, step: &Step<'_>) -> Option<Verdict> {
        let index = (step.resume? as usize).checked_sub(1)?;
        Some(self.resumes.get(index)?.row.verdict)
    }

    fn classify(&self, index: usize) -> Option<RefusalKind> {
        let Self {
            steps,
            session,
            exchanges,
            deleted,
            neighbours,
            ..
        } = *self;
        let step = steps.get(index)?;
        let after = || steps.iter().skip(index + 1);
        let before = || steps.iter().take(index);
        let succeeds = |step: &&Step<'_>| step.outcome == Outcome::Success;
        let lives_after =
            after().any(|later| succeeds(&later) && later.exchange.method() != "DELETE");

        if step.outcome == Outcome::Refused
            && let Some(cursor) = step.exchange.cursor()
        {
            let same_cursor = steps
                .iter()
                .any(|other| succeeds(&other) && other.exchange.cursor() == Some(cursor));
            let others = after().any(|later| {
                succeeds(&later)
                    && later.exchange.method() != "DELETE"
                    && later.exchange.cursor() != Some(cursor)
            });
            // Requests without a cursor that are refused in the same run speak for another cause.
            let plain = |other: &&Step<'_>| {
                other.outcome == Outcome::Refused && other.exchange.cursor().is_none()
            };
            let unserved = |other: &&Step<'_>| !succeeds(other);
            let plain_refused = before()
                .rev()
                .take_while(unserved)
                .any(|other| plain(&other))
                || after().take_while(unserved).any(|other| plain(&other));
            if others && !same_cursor && !plain_refused {
                return Some(RefusalKind::Cursor);
            }
        }
        let quiet_get =
            step.exchange.method() == "GET" && matches!(step.exchange.status(), Some(400 | 409));
        if quiet_get {
            // While POSTs succeed: afterwards too, or the session was simply gone. Where the words say
            // nothing of the session, nobody said that it was.
            let post = |other: &Step<'_>| {
                other.outcome == Outcome::Success && other.exchange.method() == "POST"
            };
            let posts_succeed =
                after().any(post) || step.outcome == Outcome::Conflict && before().any(post);
            let posts_refused = steps.iter().any(|other| {
                other.outcome == Outcome::Refused && other.exchange.method() == "POST"
            });
            let served = before().any(|earlier| {
                earlier.exchange.method() == "GET" && earlier.exchange.is_event_stream()
            });
            let open = session
                .segments
                .iter()
                .filter_map(|segment| exchanges.get(segment.exchange as usize))
                .any(|exchange| {
                    exchange.time() < step.time
                        && exchange.end.time >= step.time
                        && !std::ptr::eq(exchange, step.exchange)
                });
            let conflict = step.exchange.status() == Some(409) || posts_succeed && !posts_refused;
            if conflict {
                return (served && !open).then_some(RefusalKind::Conflict);
            }
        }
        if step.outcome == Outcome::Conflict {
            return None;
        }
        if deleted.is_some_and(|at| at < step.time) {
            return lives_after.then_some(RefusalKind::Revived);
        }
        if lives_after {
            let last = before().rev().find(succeeds).map(|step| {
                step.exchange
                    .end
                    .time
                    .max(step.time)
                    .min(step_time(index, steps))
            });
            let next = after().find(succeeds).map(|step| step.time);
            let close = match (last, next) {
                (Some(last), Some(next)) => next.since(last) < BETWEEN_SUCCESSES,
                _ => false,
            };
            let log_goes_on = after().any(|later| {
                matches!(
                    self.verdict(later),
                    Some(Verdict::Continued | Verdict::Replayed | Verdict::Lossy)
                )
            });
            let forked = after().any(|later| self.verdict(later) == Some(Verdict::Forked));
            return match (close || log_goes_on, forked) {
                (true, _) => Some(RefusalKind::Misrouted),
                (false, false) => Some(RefusalKind::Revived),
                // The log told: another one lives under the old id.
                (false, true) => None,
            };
        }
        if lost_with_its_connection(steps, index, session, exchanges, neighbours) {
            return Some(RefusalKind::LostOnDisconnect);
        }
        Some(RefusalKind::Lost)
    }
}

fn step_time(index: usize, steps: &[Step<'_>]) -> Timestamp {
    steps
        .get(index)
        .map_or(Timestamp::default(), |step| step.time)
}

/// The refusal follows the cut of the session's own stream within 30 s, the client was live, and no
/// other session of the server was lost at that time.
fn lost_with_its_connection(
    steps: &[Step<'_>],
    index: usize,
    session: &Session,
    exchanges: &[Exchange],
    neighbours: &Neighbours,
) -> bool {
    let Some(step) = steps.get(index) else {
        return false;
    };
    let first = steps
        .iter()
        .rev()
        .skip_while(|other| other.time > step.time)
        .take_while(|other| other.outcome != Outcome::Success)
        .filter(|other| other.outcome == Outcome::Refused)
        .last()
        .map_or(step.time, |first| first.time);
    let Some(cut) = last_cut(session, exchanges, first) else {
        return false;
    };
    let soon = first.since(cut) <= AFTER_CUT;
    let live = steps.iter().any(|other| {
        other.time <= cut
            && cut.since(other.time) <= LIVE_BEFORE_CUT
            && other.exchange.request.is_some()
    });
    let others = neighbours
        .lost_at
        .iter()
        .any(|&at| at.since(cut) >= Span::ZERO && at.since(cut) <= AFTER_CUT);
    soon && live && !others
}

/// The last time before `time` that a segment of the session was cut.
fn last_cut(session: &Session, exchanges: &[Exchange], time: Timestamp) -> Option<Timestamp> {
    session
        .segments
        .iter()
        .filter_map(|segment| {
            let exchange = exchanges.get(segment.exchange as usize)?;
            let stream = session.streams.get(segment.stream as usize)?;
            let cut = matches!(
                exchange.end.cause,
                EndCause::ServerFin
                    | EndCause::ServerRst
                    | EndCause::ClientFin
                    | EndCause::ClientRst
                    | EndCause::Silent
            );
            (cut && stream.completed.is_none() && exchange.end.time <= time)
                .then_some(exchange.end.time)
        })
        .max()
}

fn deleted_at(session: &Session, exchanges: &[Exchange]) -> Option<Timestamp> {
    session
        .exchanges
        .iter()
        .filter_map(|&number| exchanges.get(number as usize))
        .find(|exchange| {
            exchange.method() == "DELETE" && matches!(exchange.status(), Some(200..=299))
        })
        .and_then(|exchange| exchange.response.as_ref())
        .map(|response| response.time)
}

/// Statuses other than 404 and 410 do not tell a client to start over (MCP 2025-11-25, "Session
/// Management").
fn is_misleading(exchange: &Exchange, kind: RefusalKind) -> bool {
    matches!(kind, RefusalKind::Lost | RefusalKind::LostOnDisconnect)
        && !matches!(exchange.status(), Some(404 | 410))
}

fn context(
    steps: &[Step<'_>],
    index: usize,
    session: &Session,
    exchanges: &[Exchange],
    neighbours: &Neighbours,
    _window: Window,
) -> String {
    let Some(step) = steps.get(index) else {
        return String::new();
    };
    let mut words = Vec::new();
    let last_success = steps
        .iter()
        .take(index)
        .rev()
        .find(|step| step.outcome == Outcome::Success);
    if let Some(success) = last_success {
        let seen = success.exchange.end.time.min(step.time).max(success.time);
        words.push(format!(
            "{:.1} s after the last success",
            step.time.since(seen).millis_f64() / 1000.0
        ));
    }
    if let Some(cut) = last_cut(session, exchanges, step.time) {
        words.push(format!(
            "{:.1} s after a cut of its stream",
            step.time.since(cut).millis_f64() / 1000.0
        ));
    }
    let restart = neighbours
        .initialized_at
        .iter()
        .any(|&at| at.since(step.time) >= Span::ZERO && at.since(step.time) <= AFTER_CUT);
    if restart {
        words.push("other clients initialize just after: a restart".to_owned());
    }
    words.join(", ")
}
