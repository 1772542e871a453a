//! `no-reinitialize`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{Fixed, prose},
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// The client sends another request of a refused session more than a second after the refusal, and
    /// nothing succeeds any more.
    ///
    /// ## Why it matters
    ///
    /// The client hangs on to a dead session; its user sees errors until it is restarted.
    ///
    /// ## When it is wrong
    ///
    /// Requests that were on their way when the refusal came are not counted, nor a DELETE, nor what comes
    /// when the client (its host and software) has another session by then. Of several clients on one host
    /// that cannot be told apart, one that hangs on may so be missed.
    ///
    /// ## What to do
    ///
    /// Let the client initialize anew on 404; let the server use 404 (see `misleading-status`).
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
    /// a < 404
    /// .. 30s
    /// a > POST list#3 sid A        # still the session that is gone
    /// a < 404
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a ask A#1
    /// .. 40s
    /// a > POST list#2 sid A
    /// a < 404
    /// a open B
    /// ```
    pub(super) static RULE = {
        code: "no-reinitialize",
        severity: Warning,
        clause: "basic/transports#session-management: on 404 the client MUST start a new session",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for run in &case.refusals {
        let Some((count, after)) = run.insisted else {
            continue;
        };
        out.on_refusal(
            run,
            Severity::Warning,
            Confidence::High,
            "status",
            prose!(
                "{} more requests of a refused session, up to {} s after the refusal",
                count,
                Fixed(after.millis_f64() / 1000.0, 1)
            ),
        );
    }
}
