//! `cut-by-timer`.

use super::Findings;
use crate::model::{
    analysis::{CutBy, Timer, TimerKind},
    case::{RunCase, TimerCase},
    prose::{Fixed, Prose, foreign, prose},
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// One side cuts streams by a clock: of at least five cuts by a server, a proxy, or clients of one
    /// User-Agent, four fifths are within 2 % (at least half a second) of one age, or of one silence since the
    /// last event. It is on the run, not on a session; the frame is the end of the first such stream.
    ///
    /// ## Why it matters
    ///
    /// Every cut is a resume, and every resume is a chance to lose something. A timer that nobody knows of (an
    /// idle timeout of a balancer, the body timeout of an HTTP client) makes them by the hour.
    ///
    /// ## When it is wrong
    ///
    /// Jobs that take one time and die at their end look like it. A proxy in front of the server is told from
    /// the server only where both of its sides were captured. Streams that carry an event at their beginning
    /// alone fit an age and a silence alike; comments (keep-alives) are no events, so what looks like an age
    /// with them is one.
    ///
    /// ## What to do
    ///
    /// An age: raise it, or live with it and make the server keep what a resume needs. A silence: send a
    /// comment more often than that.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// repeat 5
    /// s$i > GET sid A
    /// s$i < 200 sse
    /// .. 60s
    /// s$i x server-fin
    /// .. 1s
    /// done
    /// .. 15s
    /// a ask A#1
    /// har skip "a HAR does not tell who closed"
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// repeat 5
    /// s$i > GET sid A
    /// s$i < 200 sse
    /// .. 10s
    /// .. $is                       # later each time
    /// s$i x server-fin
    /// .. 1s
    /// done
    /// .. 15s
    /// a ask A#1
    /// har skip "a HAR does not tell who closed"
    /// ```
    pub(super) static RULE = {
        code: "cut-by-timer",
        severity: Info,
        clause: "none: anybody may close a connection at any time",
        revisions: "all with event streams",
        check: Run(check),
    };
}

fn check(case: &RunCase, out: &mut Findings<'_>) {
    for timer in &case.timers {
        let Some(first) = timer.timers.first() else {
            continue;
        };
        let (evidence, confidence) = match timer.timers.as_slice() {
            [one] => (one.kind.name(), Confidence::High),
            _ => ("age or silence", Confidence::Medium),
        };
        let detail = prose!(
            "{} of {} cuts by {} are {}",
            first.cuts,
            first.of,
            whom(first),
            what(timer)
        );
        out.at(&timer.site, Severity::Info, confidence, evidence, detail);
    }
}

/// The side, and of clients which.
fn whom(timer: &Timer) -> Prose {
    match (timer.side, &timer.user_agent) {
        (CutBy::Server, _) => prose!("the server {}", timer.server),
        (CutBy::Proxy, _) => prose!("the proxy {}", timer.server),
        (CutBy::Client, Some(agent)) => {
            prose!(
                "clients of {} that call themselves {}",
                timer.server,
                foreign(agent)
            )
        }
        (CutBy::Client, None) => prose!("clients of {} without a User-Agent", timer.server),
    }
}

/// What the clock counts.
fn what(case: &TimerCase) -> Prose {
    let each = case.timers.iter().map(|timer| {
        let (period, spread) = (
            timer.period.millis_f64() / 1e3,
            timer.spread.millis_f64() / 1e3,
        );
        let counted = match timer.kind {
            TimerKind::Age => prose!("at the age of {} s", Fixed(period, 1)),
            TimerKind::Silence => prose!("after {} s without an event", Fixed(period, 1)),
        };
        prose!("{} (within {} s of one another)", counted, Fixed(spread, 3))
    });
    Prose::join(each, ", or just as well ")
}
