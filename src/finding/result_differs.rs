//! `result-differs`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{method, prose, rpc_id},
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// One request was answered twice, and the answers are not the same.
    ///
    /// ## Why it matters
    ///
    /// A client takes the first and drops the second, or the other way round; the two runs of the call may
    /// both have had effects. It points at a call that was run again by another process.
    ///
    /// ## When it is wrong
    ///
    /// Answers are compared as text: a store that writes the same JSON in another form would look like a
    /// second answer. Where a session uses one JSON-RPC id for several requests nothing is reported.
    ///
    /// ## What to do
    ///
    /// Look at which process sent each of the two, and make calls idempotent or keep their results by request.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a > POST call#1 sid A
    /// a < 200 sse
    /// a < ev 1 prime
    /// a < ev 2 res#1 "42"
    /// a < ev 3 res#1 "43"
    /// a < end
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > POST call#1 sid A
    /// a < 200 sse
    /// a < ev 1 prime
    /// a < ev 2 res#1 "42"
    /// a x server-fin
    /// b > GET sid A lei 1
    /// b < 200 sse
    /// b < ev 2 res#1 "42"          # the same once more
    /// b < end
    /// ```
    pub(super) static RULE = {
        code: "result-differs",
        severity: Loss,
        clause: "basic#responses: a response is sent in reply to a request, and there is one result or error",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for differing in &case.differing {
        out.at(
            &differing.site,
            Severity::Loss,
            Confidence::High,
            "payload",
            prose!(
                "request {} ({}) was answered before, differently",
                rpc_id(&differing.rpc_id),
                method(&differing.method)
            ),
        );
    }
}
