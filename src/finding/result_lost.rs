//! `result-lost`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{method, prose, rpc_id},
    verdict::Severity,
};

finding! {
    /// ## What it reports
    ///
    /// A request that was pending when its stream was cut never gets a result or error, though the client
    /// stayed: it sent another request of the session, or kept a stream open for ten seconds.
    ///
    /// ## Why it matters
    ///
    /// This is the damage: a tool call that hangs, or a result that the model never sees.
    ///
    /// ## When it is wrong
    ///
    /// Requests that may yet be answered (an open stream, a hole, the end of the capture close by) are not
    /// counted, nor are cancelled ones. A client that left is no loss.
    ///
    /// ## What to do
    ///
    /// The reason names what became of the stream: no id before the cut, the cursor ignored, the session
    /// refused, sent after the client was gone.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a > POST call#6 sid A
    /// a < 200 sse
    /// a < ev 1 prime
    /// a x server-fin
    /// .. 1s
    /// b ask A#7                    # the client stays; 6 is never answered
    /// .. 20s
    /// b ask A#8
    /// har skip "a HAR does not tell who closed"
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > POST call#6 sid A
    /// a < 200 sse
    /// a < ev 1 prime
    /// a < end
    /// .. 1s
    /// b > GET sid A lei 1
    /// b < 200 sse
    /// b < ev 2 res#6
    /// b < end
    /// .. 20s
    /// b ask A#8
    /// ```
    pub(super) static RULE = {
        code: "result-lost",
        severity: Loss,
        clause: "basic/transports#sending-messages-to-the-server: the stream SHOULD eventually include a response for each request",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for lost in &case.lost {
        out.at(
            &lost.site,
            Severity::Loss,
            lost.confidence,
            "no answer",
            prose!(
                "request {} ({}): {}",
                rpc_id(&lost.rpc_id),
                method(&lost.method),
                lost.reason
            ),
        );
    }
}
