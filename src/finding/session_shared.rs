//! `session-shared`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::prose,
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// Several client hosts are served under one session id: at one time (a warning), or one after the
    /// other (info: a client that changed networks, or a takeover).
    ///
    /// ## Why it matters
    ///
    /// Answers and events go to whoever asks: two clients that share a session take each other's streams.
    /// One that was not given the id has stolen it.
    ///
    /// ## When it is wrong
    ///
    /// At one time means: one asks while the other keeps a stream open, or between two requests of the other
    /// that are at most a minute apart. Two addresses of one exchange (a proxy, an address translation) are
    /// one client. Hosts that share most of their sessions with others are proxies, or one client's several ways
    /// out (info); a single session over several ways out looks like two clients.
    ///
    /// ## What to do
    ///
    /// Bind a session to the user that initialized it, and let each client initialize for itself.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// conn d from 10.0.0.2
    /// c open A
    /// .. 5s
    /// d ask A#1
    /// .. 5s
    /// c ask A#2
    /// har skip "it tells no client hosts"
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// conn d from 10.0.0.2
    /// c open A
    /// d open B
    /// c ask A#1
    /// d ask B#1
    /// ```
    pub(super) static RULE = {
        code: "session-shared",
        severity: Warning,
        clause: "basic/security_best_practices#session-hijacking: servers SHOULD bind session IDs to user-specific information",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    let Some(shared) = &case.shared else {
        return;
    };
    let (severity, evidence, how) = match (shared.at_once, shared.farm) {
        (true, false) => (Severity::Warning, "at-once", "at one time"),
        (true, true) => (
            Severity::Info,
            "farm",
            "at one time; they share most of their sessions, as proxies do",
        ),
        (false, _) => (Severity::Info, "in-turn", "one after the other"),
    };
    out.at(
        &shared.site,
        severity,
        Confidence::High,
        evidence,
        prose!("{} hosts hold it, {}", shared.hosts, how),
    );
}
