//! `session-lost`.

use super::Findings;
use crate::model::{
    case::{RefusalKind, SessionCase},
    prose::{Prose, prose},
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// The session was refused for good. The detail says what came before: how long it was idle, a cut, a
    /// restart.
    ///
    /// ## Why it matters
    ///
    /// By itself this is the protocol at work: the client starts over. It is told so that lifetimes can be
    /// seen, and because everything the session held is gone.
    ///
    /// ## When it is wrong
    ///
    /// A capture that ends too early to show the session come back.
    ///
    /// ## What to do
    ///
    /// Compare the idle time with the server's reaper; see `misleading-status` and `no-reinitialize`.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a ask A#1
    /// .. 40s
    /// a > POST list#2 sid A
    /// a < 404                      # and never again 200
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a ask A#1
    /// .. 40s
    /// a > DELETE sid A
    /// a < 200
    /// a > POST list#2 sid A
    /// a < 404                      # the client itself ended it
    /// ```
    pub(super) static RULE = {
        code: "session-lost",
        severity: Info,
        clause: "basic/transports#session-management: the server MAY terminate the session at any time, after which it MUST respond with 404",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for run in case
        .refusals
        .iter()
        .filter(|run| run.kind == RefusalKind::Lost)
    {
        out.on_refusal(
            run,
            Severity::Info,
            Confidence::High,
            "status",
            prose!(
                "refused with {} from here on{}",
                run.status,
                if run.context.is_empty() {
                    Prose::default()
                } else {
                    prose!(", {}", run.context)
                }
            ),
        );
    }
}
