//! `misleading-status`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::prose,
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// A lost session was refused with a status other than 404 or 410, or inside 200.
    ///
    /// ## Why it matters
    ///
    /// No client starts over on 400, and 401 sends it into a login: it repeats the dead session by the hour.
    ///
    /// ## When it is wrong
    ///
    /// 400 to a request without a session id is right, and is not reported.
    ///
    /// ## What to do
    ///
    /// Answer 404 to ids that are not known.
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
    /// a < 400 text "No valid session ID provided"
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a ask A#1
    /// .. 40s
    /// a > POST list#2              # no session is named: 400 is right
    /// a < 400 text "Mcp-Session-Id header required"
    /// ```
    pub(super) static RULE = {
        code: "misleading-status",
        severity: Warning,
        clause: "basic/transports#session-management: 404 tells the client to start a new session",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for run in case.refusals.iter().filter(|run| run.misleading) {
        out.on_refusal(
            run,
            Severity::Warning,
            Confidence::High,
            "status",
            prose!(
                "the session is gone, the status {} does not say so",
                run.status
            ),
        );
    }
}
