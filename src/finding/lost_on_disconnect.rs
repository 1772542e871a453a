//! `lost-on-disconnect`.

use super::Findings;
use crate::model::{
    case::{RefusalKind, SessionCase},
    prose::{Prose, prose},
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
    /// A server that restarted with a single client looks the same, unless it refused a connection in
    /// between. A session that was refused before and lived on has several servers: it may be lost on one
    /// of them alone, and is not told here.
    ///
    /// ## What to do
    ///
    /// Look for code that ends the session when a stream closes (a keep-alive thread, a write error).
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// b > GET sid A
    /// b < 200 sse
    /// b < ev 1 note "one"
    /// a ask A#1
    /// b x server-rst
    /// .. 1s
    /// a > POST list#2 sid A
    /// a < 404                      # and never again 200
    /// har skip "a HAR does not tell that the stream was cut"
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// c open B
    /// b > GET sid A
    /// b < 200 sse
    /// b < ev 1 note "one"
    /// a ask A#1
    /// b x server-rst
    /// .. 1s
    /// a > POST list#2 sid A
    /// a < 404
    /// c > POST list#1 sid B        # another session is lost as well: a restart
    /// c < 404
    /// har skip "a HAR does not tell that the stream was cut"
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
