//! Refusals of a session and the code each deserves: the first that fits (docs/audit.md,
//! "Refusals").

use super::owed::{Gaps, Spans};
use crate::model::{
    case::{Fork, Refusal, RefusalKind, ResumeCase, Site},
    event::Event,
    exchange::{Answer, EndCause, Exchange},
    flow::{Endpoint, ServerFacts},
    place::InputId,
    prose::{Fixed, Prose, prose},
    session::Session,
    time::{Span, Timestamp},
    verdict::Verdict,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// Refusals between successes closer than this are another replica's.
const BETWEEN_SUCCESSES: Span = Span::from_secs(30);
/// A refusal this soon after the cut of the session's own stream came of the cut.
const AFTER_CUT: Span = Span::from_secs(30);
/// A client is live at a cut when it asked for something this shortly before.
const LIVE_BEFORE_CUT: Span = Span::from_secs(60);
/// What takes sessions down together cuts their streams within this time of each other.
const CUT_TOGETHER: Span = Span::from_secs(2);
/// Requests this soon after a refusal may have been on their way.
const ON_THEIR_WAY: Span = Span::from_secs(1);
/// Refusals with 5xx that count, when they are the only answer.
const SERVER_ERRORS: usize = 3;

/// What the sessions of a service went through, each list in order of time.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// First refusals for good, with the session.
    lost_at: Vec<(Timestamp, usize)>,
    /// The last success of the session served last, and of the one served last but one.
    served_at: [Option<(Timestamp, usize)>; 2],
    /// Successful initializes: of all clients with an address, and of each.
    initialized_at: Vec<Timestamp>,
    initialized_by: BTreeMap<IpAddr, Vec<Timestamp>>,
    /// While requests waited whose response's head is not in the capture.
    unanswered: Spans,
    /// First successes of sessions, by client.
    began_by: BTreeMap<Client, Vec<(Timestamp, usize)>>,
}

/// First refusals for good of each server's sessions, in order of time.
#[derive(Clone, Debug, Default)]
pub struct Losses(BTreeMap<Endpoint, Vec<(Timestamp, usize)>>);

impl Losses {
    /// Enters the sessions that were lost: when, which, and the servers that answered it.
    #[must_use]
    pub fn of(lost: impl Iterator<Item = (Timestamp, usize, BTreeSet<Endpoint>)>) -> Self {
        let mut losses = Self::default();
        for (time, session, servers) in lost {
            for server in servers {
                losses.0.entry(server).or_default().push((time, session));
            }
        }
        for lost in losses.0.values_mut() {
            lost.sort_unstable();
        }
        losses
    }
}

/// Who holds a session: a host (of a HAR, the file) and the software's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client(Option<IpAddr>, Option<InputId>, Option<Arc<str>>);

impl Client {
    /// The client of an exchange.
    #[must_use]
    pub fn of(exchange: &Exchange) -> Self {
        let host = exchange.client.as_ref().and_then(Endpoint::ip);
        let file = host.is_none().then_some(exchange.place.input);
        let request = exchange.request.as_ref();
        Self(host, file, request.and_then(|r| r.user_agent.clone()))
    }
}

/// One session of a service's history.
#[derive(Debug, Default)]
pub struct Story {
    /// When it was lost for good.
    pub lost_at: Option<Timestamp>,
    /// Its last success.
    pub served_at: Option<Timestamp>,
    /// Its successful initializes.
    pub initialized: Vec<(Option<IpAddr>, Timestamp)>,
    /// Requests whose response's head is not in the capture: when each began and ended.
    pub unanswered: Vec<(Timestamp, Timestamp)>,
    /// Its first success, and whose.
    pub began: Option<(Client, Timestamp)>,
}

impl History {
    /// Enters the sessions of a service.
    #[must_use]
    pub fn of(stories: impl Iterator<Item = (usize, Story)>) -> Self {
        let mut history = Self::default();
        let mut unanswered = Vec::new();
        for (session, story) in stories {
            history
                .lost_at
                .extend(story.lost_at.map(|time| (time, session)));
            if let Some(served) = story.served_at {
                let [last, before] = &mut history.served_at;
                if last.is_none_or(|(time, _)| served > time) {
                    *before = last.replace((served, session));
                } else if before.is_none_or(|(time, _)| served > time) {
                    *before = Some((served, session));
                }
            }
            unanswered.extend(story.unanswered);
            if let Some((client, time)) = story.began {
                let began = history.began_by.entry(client).or_default();
                began.push((time, session));
            }
            for (client, time) in story.initialized {
                if let Some(client) = client {
                    history.initialized_at.push(time);
                    history.initialized_by.entry(client).or_default().push(time);
                }
            }
        }
        history.unanswered = Spans::of(unanswered);
        history.lost_at.sort_unstable();
        history.initialized_at.sort_unstable();
        for times in history.initialized_by.values_mut() {
            times.sort_unstable();
        }
        for began in history.began_by.values_mut() {
            began.sort_unstable();
        }
        history
    }
}

/// A service's history as one of its sessions sees it: what the others went through.
#[derive(Clone, Debug)]
pub struct Neighbours<'a> {
    /// The history.
    pub history: &'a History,
    /// What the sessions of each server went through, of whatever service.
    pub losses: &'a Losses,
    /// What packets show of servers beside their exchanges.
    pub facts: &'a ServerFacts,
    /// When exchanges with each server may be missing altogether.
    pub blanks: &'a BTreeMap<SocketAddr, Spans>,
    /// The session.
    pub session: usize,
    /// Its clients.
    pub clients: BTreeSet<IpAddr>,
    /// The servers that answered it.
    pub servers: BTreeSet<Endpoint>,
}

impl Neighbours<'_> {
    /// Whether another session of the service or of a server was lost for good between two times.
    fn lost_between(&self, from: Timestamp, to: Timestamp) -> bool {
        let servers = self.servers.iter();
        let of_servers = servers.filter_map(|server| self.losses.0.get(server));
        std::iter::once(&self.history.lost_at)
            .chain(of_servers)
            .any(|lost| {
                let place = lost.partition_point(|(time, _)| *time < from);
                lost.iter()
                    .skip(place)
                    .take_while(|(time, _)| *time <= to)
                    .any(|&(_, session)| session != self.session)
            })
    }

    /// Whether a server refused connections between two times: it was down.
    fn down_between(&self, from: Timestamp, to: Timestamp) -> bool {
        self.servers
            .iter()
            .any(|server| self.facts.refused.between(server, from, to))
    }

    /// Whether it may have been: it refused, or was asked and its answer is not in the capture.
    fn maybe_down_between(&self, from: Timestamp, to: Timestamp) -> bool {
        let unanswered = |server| self.facts.unanswered.between(server, from, to);
        self.down_between(from, to) || self.servers.iter().any(unanswered)
    }

    /// Whether connections of a server were not seen whole between two times: what others went through
    /// may lie there.
    fn torn_between(&self, from: Timestamp, to: Timestamp) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|server| {
            let blanks = match server {
                Endpoint::Address(address) => self.blanks.get(address),
                Endpoint::Name(..) => None,
            };
            self.facts.torn.between(server, from, to)
                || blanks.is_some_and(|blanks| blanks.meet(from, to))
        })
    }

    /// When a client first had another session after a time.
    fn began_another_after(&self, client: &Client, time: Timestamp) -> Option<Timestamp> {
        let began = self.history.began_by.get(client)?;
        let place = began.partition_point(|(at, _)| *at <= time);
        let mut later = began.iter().skip(place);
        later
            .find(|(_, session)| *session != self.session)
            .map(|&(at, _)| at)
    }

    /// Whether another session was served after a time.
    fn served_after(&self, time: Timestamp) -> bool {
        let mut served = self.history.served_at.iter().flatten();
        served
            .find(|(_, session)| *session != self.session)
            .is_some_and(|&(at, _)| at > time)
    }

    /// Whether another client initialized between two times.
    fn initialized_between(&self, from: Timestamp, to: Timestamp) -> bool {
        let count = |times: &[Timestamp]| {
            times.partition_point(|&time| time <= to) - times.partition_point(|&time| time < from)
        };
        let own = self
            .clients
            .iter()
            .filter_map(|client| self.history.initialized_by.get(client))
            .map(|times| count(times))
            .sum();
        count(&self.history.initialized_at) > own
    }
}

/// One exchange of a session as far as refusals go.
struct Step<'a> {
    exchange: &'a Exchange,
    time: Timestamp,
    outcome: Outcome,
    resume: Option<u32>,
}

impl Step<'_> {
    /// Refused, and not for its cursor.
    fn is_plain_refusal(&self) -> bool {
        self.outcome == Outcome::Refused
            && self.exchange.cursor().is_none()
            && self.exchange.method() != "DELETE"
    }

    fn site(&self, incarnation: u32) -> Site {
        Site {
            resume: self.resume,
            ..Site::of(self.exchange, incarnation)
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Success,
    Refused,
    Conflict,
    /// A success of another session, which the server gave in place of this one.
    Elsewhere,
    Nothing,
}

/// The first refusal after which nothing of the session succeeds, when there is one.
#[must_use]
pub fn lost_for_good(session: &Session, exchanges: &[Exchange]) -> Option<Timestamp> {
    let steps = steps(session, exchanges, None);
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
    neighbours: &Neighbours<'_>,
    gaps: &Gaps,
    resumes: &[ResumeCase],
    incarnation_at: &dyn Fn(Timestamp) -> u32,
) -> Vec<Refusal> {
    let mut steps = steps(session, exchanges, Some(neighbours));
    pass_over_proxies(&mut steps, gaps);
    let outlook = Outlook {
        unseen_until: unseen_until(&steps, gaps),
        ..Outlook::of(&steps, session, exchanges, resumes)
    };
    let deleted = deleted_at(session, exchanges);
    let mut runs: Vec<Refusal> = Vec::new();
    let mut open: Option<RefusalKind> = None;
    for (index, step) in steps.iter().enumerate() {
        match step.outcome {
            Outcome::Success => open = None,
            Outcome::Elsewhere | Outcome::Nothing => {}
            Outcome::Refused | Outcome::Conflict => {
                if step.exchange.method() == "DELETE" {
                    continue;
                }
                let Some(kind) = outlook.classify(index, deleted, neighbours, gaps) else {
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
                let lost = matches!(kind, RefusalKind::Lost | RefusalKind::LostOnDisconnect);
                runs.push(Refusal {
                    kind,
                    misleading: is_misleading(step.exchange, kind),
                    status: step.exchange.status().unwrap_or(0),
                    count: 1,
                    insisted: (lost && !outlook.may_have_lived_after(step.time))
                        .then(|| insisted(&steps, index, neighbours))
                        .flatten(),
                    context: match kind {
                        RefusalKind::Misrouted => outlook.whereabouts(index).into(),
                        _ => outlook.context(index, neighbours),
                    },
                    site: step.site(incarnation_at(step.time)),
                    last: step.time,
                    resumes: step.resume.into_iter().collect(),
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
    runs.sort_by_key(|run| run.site.time);
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
    // Where the request is missing, it may have been the DELETE itself.
    let step = steps.iter().find(|step| {
        step.time > deleted
            && step.outcome == Outcome::Success
            && step.exchange.request.is_some()
            && step.exchange.method() != "DELETE"
    })?;
    (!told && !step.exchange.is_initialize()).then(|| Refusal {
        kind: RefusalKind::Revived,
        misleading: false,
        status: step.exchange.status().unwrap_or(0),
        count: 1,
        insisted: None,
        context: "served after a good DELETE".into(),
        site: step.site(incarnation_at(step.time)),
        last: step.time,
        resumes: step.resume.into_iter().collect(),
    })
}

/// The requests that a client still sends of a session after its last refusal at `index` was answered,
/// until it has another session: how many, and how long after.
fn insisted(steps: &[Step<'_>], index: usize, neighbours: &Neighbours<'_>) -> Option<(u32, Span)> {
    let refusal = steps.get(index)?.exchange;
    let answered = refusal.response.as_ref()?.time;
    // Another session is told by its first success, and that was asked for before it was answered.
    let asked = refusal.time();
    let mut moved_on: BTreeMap<Client, Option<Timestamp>> = BTreeMap::new();
    let mut count = 0;
    let mut last = None;
    let behind = steps.get(index + 1..)?.iter();
    let served = |step: &&Step<'_>| matches!(step.outcome, Outcome::Success | Outcome::Elsewhere);
    for step in behind.take_while(|step| !served(step)) {
        let Some(request) = &step.exchange.request else {
            continue;
        };
        if &*request.method == "DELETE" || request.time.since(answered) <= ON_THEIR_WAY {
            continue;
        }
        let client = Client::of(step.exchange);
        let moved_on = moved_on
            .entry(client)
            .or_insert_with_key(|client| neighbours.began_another_after(client, asked));
        if moved_on.is_none_or(|at| at > request.time) {
            count += 1;
            last = Some(request.time.since(answered));
        }
    }
    last.map(|last| (count, last))
}

fn steps<'a>(
    session: &Session,
    exchanges: &'a [Exchange],
    neighbours: Option<&Neighbours<'_>>,
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
                Answer::Success if exchange.is_answered_beside(&session.id) => Outcome::Elsewhere,
                Answer::Refused if exchange.is_answered_beside(&session.id) => Outcome::Nothing,
                Answer::Success => Outcome::Success,
                Answer::Refused => Outcome::Refused,
                Answer::Silent => match exchange.status() {
                    _ if exchange.is_doubtful() => Outcome::Nothing,
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
    let others = first
        .zip(neighbours)
        .is_some_and(|(first, neighbours)| neighbours.served_after(first));
    if errors >= SERVER_ERRORS && only && others {
        for step in steps.iter_mut().skip(tail) {
            if matches!(step.exchange.status(), Some(500..=599)) {
                step.outcome = Outcome::Refused;
            }
        }
    }
    steps
}

/// Where something is missing, what a proxy was told may be what it did about a request of the client's that is not
/// seen: the client may have met another answer.
fn pass_over_proxies(steps: &mut [Step<'_>], gaps: &Gaps) {
    let servers: BTreeSet<&Endpoint> = steps
        .iter()
        .filter_map(|step| step.exchange.server.as_ref())
        .collect();
    if servers.len() < 2 {
        return;
    }
    for step in steps {
        let (from, until) = (step.time, step.exchange.end.time);
        let client = step.exchange.client.as_ref().and_then(Endpoint::ip);
        let is_proxy = || {
            let own = step.exchange.server.as_ref();
            let mut others = servers.iter().filter(|server| Some(**server) != own);
            client.is_some() && others.any(|server| server.ip() == client)
        };
        let refuses = matches!(step.outcome, Outcome::Refused | Outcome::Conflict);
        if refuses && is_proxy() && (gaps.between(from, until) || gaps.torn_between(from, until)) {
            step.outcome = Outcome::Nothing;
        }
    }
}

/// The steps of a session with what stands before and after each, so that a run of refusals costs one
/// look and not one for each of them.
struct Outlook<'s, 'a> {
    steps: &'s [Step<'a>],
    /// The success before and after each step.
    success_before: Vec<Option<usize>>,
    success_after: Vec<Option<usize>>,
    /// For each step the first refusal of the run without success that it ends.
    run_began: Vec<Option<usize>>,
    /// The last success that is no DELETE, and the last one of another cursor (or none).
    last_alive: Option<usize>,
    /// It was refused and lived on: it has several servers, and one of them alone may have refused it.
    misrouted: bool,
    last_alive_of_another: Option<usize>,
    /// When the session last brought something, under which cursor, and when under another one: the answer
    /// to a request may come long after it, and after a refusal.
    brought: [Option<(Timestamp, Option<&'a str>)>; 2],
    first_post: Option<usize>,
    last_post: Option<usize>,
    /// The last resume that went on with the log, and the last that forked.
    last_log: Option<usize>,
    last_fork: Option<usize>,
    first_stream: Option<usize>,
    served_cursors: BTreeSet<&'a str>,
    /// Whether a request without cursor is refused in the run without success around each step.
    plain_refused: Vec<bool>,
    posts_refused: bool,
    /// When segments opened, with the latest end so far: of all, and of those that no POST was answered
    /// with.
    open: OpenSpans,
    listening: OpenSpans,
    /// When segments of incomplete streams were cut.
    cuts: Vec<Timestamp>,
    /// When requests were made.
    asked: Vec<Timestamp>,
    /// Until when a success may have gone unseen.
    unseen_until: Option<Timestamp>,
}

/// When segments opened, in order of time, each with the latest end so far.
#[derive(Debug, Default)]
struct OpenSpans(Vec<(Timestamp, Timestamp)>);

impl OpenSpans {
    /// Enters a segment that opened no earlier than those before.
    fn enter(&mut self, exchange: &Exchange) {
        let end = exchange.end.time;
        let latest = self.0.last().map_or(end, |(_, last)| end.max(*last));
        self.0.push((exchange.time(), latest));
    }

    /// Whether a segment that opened before `time` was open then.
    fn at(&self, time: Timestamp) -> bool {
        let opened = self.0.partition_point(|(open, _)| *open < time);
        opened
            .checked_sub(1)
            .and_then(|last| self.0.get(last))
            .is_some_and(|(_, end)| *end >= time)
    }
}

impl<'s, 'a> Outlook<'s, 'a> {
    fn of(
        steps: &'s [Step<'a>],
        session: &Session,
        exchanges: &[Exchange],
        resumes: &[ResumeCase],
    ) -> Self {
        let is_success = |step: &Step<'_>| step.outcome == Outcome::Success;
        let is_refused = |step: &&Step<'_>| step.outcome == Outcome::Refused;
        let is_post = |step: &Step<'_>| is_success(step) && step.exchange.method() == "POST";
        let verdict = |step: &Step<'_>| {
            let index = (step.resume? as usize).checked_sub(1)?;
            Some(resumes.get(index)?.row.verdict)
        };
        let alive = |step: &Step<'_>| is_success(step) && step.exchange.method() != "DELETE";
        let last_alive = steps.iter().rposition(&alive);
        let its_cursor = last_alive
            .and_then(|index| steps.get(index))
            .and_then(|step| step.exchange.cursor());
        let mut outlook = Self {
            steps,
            success_before: Vec::with_capacity(steps.len()),
            success_after: vec![None; steps.len()],
            run_began: Vec::with_capacity(steps.len()),
            last_alive,
            misrouted: last_alive
                .and_then(|last| steps.get(..last))
                .is_some_and(|before| before.iter().any(Step::is_plain_refusal)),
            last_alive_of_another: steps
                .iter()
                .rposition(|step| alive(step) && step.exchange.cursor() != its_cursor),
            brought: last_brought(steps.iter().filter(|step| alive(step))),
            first_post: steps.iter().position(is_post),
            last_post: steps.iter().rposition(is_post),
            last_log: steps.iter().rposition(|step| {
                matches!(
                    verdict(step),
                    Some(Verdict::Continued | Verdict::Replayed | Verdict::Lossy)
                )
            }),
            last_fork: steps
                .iter()
                .rposition(|step| verdict(step) == Some(Verdict::Forked)),
            first_stream: steps.iter().position(|step| {
                step.exchange.method() == "GET" && step.exchange.is_event_stream()
            }),
            served_cursors: steps
                .iter()
                .filter(|step| is_success(step))
                .filter_map(|step| step.exchange.cursor())
                .collect(),
            plain_refused: steps
                .split_inclusive(is_success)
                .flat_map(|run| {
                    let refused = run.iter().filter(is_refused);
                    let plain = refused
                        .into_iter()
                        .any(|step| step.exchange.cursor().is_none());
                    std::iter::repeat_n(plain, run.len())
                })
                .collect(),
            posts_refused: steps
                .iter()
                .filter(is_refused)
                .any(|step| step.exchange.method() == "POST"),
            unseen_until: None,
            open: OpenSpans::default(),
            listening: OpenSpans::default(),
            cuts: cuts(session, exchanges),
            asked: steps
                .iter()
                .filter(|step| step.exchange.request.is_some())
                .map(|step| step.time)
                .collect(),
        };
        let (mut success, mut run) = (None, None);
        for (index, step) in steps.iter().enumerate() {
            outlook.success_before.push(success);
            match step.outcome {
                Outcome::Success => (success, run) = (Some(index), None),
                Outcome::Refused => run = run.or(Some(index)),
                Outcome::Conflict | Outcome::Elsewhere | Outcome::Nothing => {}
            }
            outlook.run_began.push(run);
        }
        let mut success = None;
        for (index, after) in outlook.success_after.iter_mut().enumerate().rev() {
            *after = success;
            if steps.get(index).is_some_and(is_success) {
                success = Some(index);
            }
        }
        for exchange in session
            .segments
            .iter()
            .filter_map(|segment| exchanges.get(segment.exchange as usize))
        {
            outlook.open.enter(exchange);
            if exchange.method() != "POST" {
                outlook.listening.enter(exchange);
            }
        }
        outlook
    }

    fn before(&self, index: usize) -> Option<&Step<'a>> {
        let before = self.success_before.get(index).copied().flatten()?;
        self.steps.get(before)
    }

    fn classify(
        &self,
        index: usize,
        deleted: Option<Timestamp>,
        neighbours: &Neighbours<'_>,
        gaps: &Gaps,
    ) -> Option<RefusalKind> {
        let step = self.steps.get(index)?;
        let is_after = |other: Option<usize>| other.is_some_and(|other| other > index);
        // An initialize that issues the id again begins another life: this one was lost.
        let another_life = self
            .success_after
            .get(index)
            .copied()
            .flatten()
            .and_then(|next| self.steps.get(next))
            .is_some_and(|next| next.exchange.is_initialize());
        let lives_after = is_after(self.last_alive) && !another_life;

        if step.outcome == Outcome::Refused
            && let Some(cursor) = step.exchange.cursor()
        {
            let last = self.last_alive.and_then(|last| self.steps.get(last));
            let others = if last.is_some_and(|last| last.exchange.cursor() == Some(cursor)) {
                is_after(self.last_alive_of_another)
            } else {
                lives_after
            } || self.brought_after(step, cursor);
            // Requests without a cursor that are refused in the same run speak for another cause.
            let plain_refused = self.plain_refused.get(index).copied().unwrap_or(false);
            if others && !another_life && !self.served_cursors.contains(cursor) && !plain_refused {
                return Some(RefusalKind::Cursor);
            }
        }
        let quiet_get =
            step.exchange.method() == "GET" && matches!(step.exchange.status(), Some(400 | 409));
        if quiet_get {
            // While POSTs succeed: afterwards too, or the session was simply gone. Where the words say
            // nothing of the session, nobody said that it was.
            let posts_succeed = is_after(self.last_post)
                || step.outcome == Outcome::Conflict
                    && self.first_post.is_some_and(|first| first < index);
            let served = self.first_stream.is_some_and(|first| first < index);
            let conflict =
                step.exchange.status() == Some(409) || posts_succeed && !self.posts_refused;
            if conflict {
                // What answers a POST stands in the way of its own resume alone.
                let time = step.time;
                let taken = if step.exchange.cursor().is_some() {
                    self.open.at(time) || gaps.answer_between(time, time)
                } else {
                    self.listening.at(time) || gaps.stream_between(time, time)
                };
                let free = served && !taken;
                return free.then_some(RefusalKind::Conflict);
            }
        }
        if step.outcome == Outcome::Conflict {
            return None;
        }
        if deleted.is_some_and(|at| at < step.time) {
            return lives_after.then_some(RefusalKind::Revived);
        }
        if lives_after {
            let last = self
                .before(index)
                .map(|last| last.exchange.end.time.max(last.time).min(step.time));
            let next = self
                .success_after
                .get(index)
                .copied()
                .flatten()
                .and_then(|next| self.steps.get(next))
                .map(|next| next.time);
            let close = match (last, next) {
                (Some(last), Some(next)) => next.since(last) < BETWEEN_SUCCESSES,
                _ => false,
            };
            // An initialize that the capture lacks may have begun another life in between.
            let until = next.unwrap_or(step.time);
            let unseen =
                gaps.answer_between(step.time, until) || gaps.torn_between(step.time, until);
            return match (is_after(self.last_log), is_after(self.last_fork)) {
                (true, _) => Some(RefusalKind::Misrouted),
                _ if close => (!unseen).then_some(RefusalKind::Misrouted),
                (false, false) => (!unseen).then_some(RefusalKind::Revived),
                // The log told: another one lives under the old id.
                (false, true) => None,
            };
        }
        // Whether it was for good is not known while an answer after it is missing.
        if gaps.answer_between(step.time, Timestamp::from_nanos(i64::MAX)) {
            return None;
        }
        if self.lost_with_its_connection(index, step.time, neighbours, gaps) {
            return Some(RefusalKind::LostOnDisconnect);
        }
        Some(RefusalKind::Lost)
    }

    /// Whether the session brought something, but under this cursor, after a refusal was answered.
    fn brought_after(&self, refusal: &Step<'_>, cursor: &str) -> bool {
        let answered = refusal.exchange.response.as_ref().map(|head| head.time);
        let mut others = self.brought.iter().flatten();
        others
            .find(|(_, of)| *of != Some(cursor))
            .is_some_and(|(at, _)| answered.is_some_and(|answered| *at > answered))
    }

    /// Whether a success may have come after a time that the capture does not show.
    fn may_have_lived_after(&self, time: Timestamp) -> bool {
        self.unseen_until.is_some_and(|until| until >= time)
    }

    /// The refusal follows the cut of the session's own stream within 30 s, the client was live, and
    /// no other session of the server was lost at that time, nor this one deleted. Answers that are not
    /// in the capture may have said so.
    fn lost_with_its_connection(
        &self,
        index: usize,
        time: Timestamp,
        neighbours: &Neighbours<'_>,
        gaps: &Gaps,
    ) -> bool {
        let until = self.steps.partition_point(|step| step.time <= time);
        let first = until
            .checked_sub(1)
            .and_then(|last| self.run_began.get(last).copied().flatten())
            .and_then(|first| self.steps.get(first))
            .map_or(time, |first| first.time);
        let Some(cut) = self.last_cut(first) else {
            return false;
        };
        let soon = first.since(cut) <= AFTER_CUT;
        let asked = self.asked.partition_point(|&asked| asked <= cut);
        let live = asked
            .checked_sub(1)
            .and_then(|last| self.asked.get(last))
            .is_some_and(|&asked| cut.since(asked) <= LIVE_BEFORE_CUT);
        let until = cut.plus(AFTER_CUT);
        let together = cut.plus(Span::from_nanos(-CUT_TOGETHER.nanos()));
        let served = self.before(index).map_or(cut, |last| last.time.min(cut));
        soon && live
            && !self.misrouted
            && !neighbours.torn_between(together, until)
            && !self.may_have_lived_after(first)
            && !neighbours.maybe_down_between(together, first)
            && !neighbours.lost_between(together, until)
            && !neighbours.history.unanswered.meet(served, until)
            && !gaps.headless_between(served, until)
    }

    /// The last time up to `time` that a segment of the session was cut.
    fn last_cut(&self, time: Timestamp) -> Option<Timestamp> {
        let place = self.cuts.partition_point(|&cut| cut <= time);
        self.cuts.get(place.checked_sub(1)?).copied()
    }

    /// Where a refusal was answered, as seen from the success before it: what a balancer of connections, or one
    /// before servers with addresses of their own, cannot have done.
    fn whereabouts(&self, index: usize) -> &'static str {
        let (Some(step), Some(before)) = (self.steps.get(index), self.before(index)) else {
            return "";
        };
        let (here, there) = (step.exchange, before.exchange);
        if here.connection.is_some() && here.connection == there.connection {
            "on the connection of the success before"
        } else if here.server.is_none() || there.server.is_none() {
            ""
        } else if here.server == there.server {
            "at the address of the success before"
        } else {
            "at another address than the success before"
        }
    }

    fn context(&self, index: usize, neighbours: &Neighbours<'_>) -> Prose {
        let Some(step) = self.steps.get(index) else {
            return Prose::default();
        };
        let mut words = Vec::new();
        if let Some(success) = self.before(index) {
            let seen = success.exchange.end.time.min(step.time).max(success.time);
            words.push(prose!(
                "{} s after the last success",
                Fixed(step.time.since(seen).millis_f64() / 1000.0, 1)
            ));
        }
        if let Some(cut) = self.last_cut(step.time) {
            words.push(prose!(
                "{} s after a cut of its stream",
                Fixed(step.time.since(cut).millis_f64() / 1000.0, 1)
            ));
        }
        if let Some(cut) = self.last_cut(step.time)
            && neighbours.down_between(cut, step.time)
        {
            words.push("the server refused connections in between: a restart".into());
        }
        if neighbours.initialized_between(step.time, step.time.plus(AFTER_CUT)) {
            words.push("other clients initialize just after: a restart".into());
        }
        Prose::join(words, ", ")
    }
}

/// Until when successes of a session may have gone unseen: while bytes of connections of its clients are
/// missing, up to the last answer whose request is missing, and to the last request whose answer is not
/// there though nothing ended its connection.
fn unseen_until(steps: &[Step<'_>], gaps: &Gaps) -> Option<Timestamp> {
    let headless = gaps.headless_until();
    let unanswered = steps
        .iter()
        .rfind(|step| step.exchange.response.is_none() && step.exchange.is_open())
        .map(|step| step.time);
    let answers = headless.max(unanswered);
    answers.max(gaps.torn_until())
}

/// When exchanges last brought a message, or the head of an answer: of all, and of those under another cursor
/// than the one of it.
fn last_brought<'a, 's>(
    steps: impl Iterator<Item = &'s Step<'a>>,
) -> [Option<(Timestamp, Option<&'a str>)>; 2]
where
    'a: 's,
{
    let [mut last, mut other] = [None, None];
    for step in steps {
        let head = step.exchange.response.as_ref().map(|head| head.time);
        let messages = step.exchange.events.iter().filter(Event::is_message);
        let Some(at) = messages.map(|event| event.time).max().max(head) else {
            continue;
        };
        let cursor = step.exchange.cursor();
        let is_later = |than: Option<(Timestamp, _)>| than.is_none_or(|(time, _)| at > time);
        if is_later(last) {
            if last.is_some_and(|(_, of)| of != cursor) {
                other = last;
            }
            last = Some((at, cursor));
        } else if last.is_some_and(|(_, of)| of != cursor) && is_later(other) {
            other = Some((at, cursor));
        }
    }
    [last, other]
}

/// When segments of the session's incomplete streams were cut, in order.
fn cuts(session: &Session, exchanges: &[Exchange]) -> Vec<Timestamp> {
    let mut cuts: Vec<Timestamp> = session
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
                    | EndCause::StreamResetByClient
                    | EndCause::StreamResetByServer
                    | EndCause::Goaway
                    | EndCause::Silent
            );
            (cut && stream.completed.is_none()).then_some(exchange.end.time)
        })
        .collect();
    cuts.sort_unstable();
    cuts
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
