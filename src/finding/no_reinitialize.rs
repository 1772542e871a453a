//! `no-reinitialize`.

use super::Findings;
use crate::model::{
    case::{RefusalKind, SessionCase},
    time::Span,
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
    /// Requests that were on their way when the refusal came are not counted.
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
    for run in case.refusals.iter().filter(|run| {
        matches!(run.kind, RefusalKind::Lost | RefusalKind::LostOnDisconnect)
            && run.last.since(run.site.time) > ANSWERED_SOON
    }) {
        out.on_refusal(
            run,
            Severity::Warning,
            Confidence::High,
            "status",
            format!(
                "{} requests of a refused session over {:.1} s",
                run.count,
                run.last.since(run.site.time).millis_f64() / 1000.0
            ),
        );
    }
}

/// Requests already on their way do not count.
const ANSWERED_SOON: Span = Span::from_secs(1);
