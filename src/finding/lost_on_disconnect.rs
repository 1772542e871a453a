//! `lost-on-disconnect`.

use super::Findings;
use crate::model::{
    case::{RefusalKind, SessionCase},
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// The session was refused for good within 30 s of the cut of its own stream, while its client was live
    /// and no other session of the server was lost.
    ///
    /// ## Why it matters
    ///
    /// The server ended the session because a connection broke: resumption cannot work there at all.
    ///
    /// ## When it is wrong
    ///
    /// A server that restarted with a single client looks the same: nothing else shows the restart.
    ///
    /// ## What to do
    ///
    /// Look for code that ends the session when a stream closes (a keep-alive thread, a write error).
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```text
    /// GET: 200, cut
    /// (1 s)
    /// POST: 404, and never again 200
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```text
    /// GET: 200, cut; other sessions are refused from then on too
    /// POST: 404
    /// ```
    pub(super) static RULE = {
        code: "lost-on-disconnect",
        severity: Loss,
        clause: "basic/transports#resumability-and-redelivery: disconnection SHOULD NOT be interpreted as the client cancelling its request",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for run in case
        .refusals
        .iter()
        .filter(|run| run.kind == RefusalKind::LostOnDisconnect)
    {
        out.on_refusal(
            run,
            Severity::Loss,
            Confidence::High,
            "status",
            format!(
                "refused with {} from here on{}",
                run.status,
                if run.context.is_empty() {
                    String::new()
                } else {
                    format!(", {}", run.context)
                }
            ),
        );
    }
}
