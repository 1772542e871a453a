//! `session-revived`.

use super::Findings;
use crate::model::{
    case::{RefusalKind, SessionCase},
    prose::prose,
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// The session was served after a good DELETE, or long after it was refused, with no log to judge by.
    ///
    /// ## Why it matters
    ///
    /// What answers now may be a new session under the old id, or a replica that never heard of its end.
    ///
    /// ## When it is wrong
    ///
    /// With several replicas it may be the one that still holds the session (`misrouted`).
    ///
    /// ## What to do
    ///
    /// Let DELETE end the session on every replica.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a > DELETE sid A
    /// a < 200
    /// a > POST list#1 sid A
    /// a < 404
    /// a ask A#2
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > DELETE sid A
    /// a < 200
    /// a > POST list#1 sid A
    /// a < 404
    /// a > POST list#2 sid A
    /// a < 404
    /// ```
    pub(super) static RULE = {
        code: "session-revived",
        severity: Warning,
        clause: "basic/transports#session-management: after a DELETE the server MUST answer 404",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for run in case
        .refusals
        .iter()
        .filter(|run| run.kind == RefusalKind::Revived)
    {
        out.on_refusal(
            run,
            Severity::Warning,
            Confidence::High,
            "status",
            if run.context.starts_with("served") {
                run.context.clone()
            } else {
                prose!("refused with {}, served again later", run.status)
            },
        );
    }
}
