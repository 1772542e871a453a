//! `result-dropped`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{Prose, event_id, method, prose, rpc_id},
    verdict::Severity,
};

finding! {
    /// ## What it reports
    ///
    /// A result or error came on a resume under an event id that the client has seen with another payload. A
    /// client that removes duplicates by (session id, event id) throws it away as old.
    ///
    /// ## Why it matters
    ///
    /// The result was sent and received, every status is 200, and the call hangs all the same: this is how a
    /// silent fork loses results.
    ///
    /// ## When it is wrong
    ///
    /// A client that does not remove duplicates gets the result; whether this one does cannot be seen on the
    /// wire. The same result under an id of its own, before or after, is no loss and not reported.
    ///
    /// ## What to do
    ///
    /// Repair the fork beside it (`unknown-session-allocation`). Until then let clients forget the ids they
    /// know when the log starts again.
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
    /// a < ev 2 note "working"
    /// a x server-fin               # the server restarts and counts from 1 again
    /// b > GET sid A lei 2
    /// b < 200 sse
    /// b < ev 2 res#1               # id 2 is known: dropped
    /// b < end
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > POST call#1 sid A
    /// a < 200 sse
    /// a < ev 1 prime
    /// a < ev 2 note "working"
    /// a x server-fin
    /// b > GET sid A lei 2
    /// b < 200 sse
    /// b < ev 3 res#1
    /// b < end
    /// ```
    pub(super) static RULE = {
        code: "result-dropped",
        severity: Loss,
        clause: "basic/transports#resumability-and-redelivery: event ids MUST be globally unique across all streams within that session",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for dropped in &case.dropped {
        let asked = dropped.method.as_deref();
        out.at(
            &dropped.site,
            Severity::Loss,
            dropped.confidence,
            "id and payload",
            prose!(
                "the answer to request {}{} came as event {}, an id that came before with another payload",
                rpc_id(&dropped.rpc_id),
                asked.map_or_else(Prose::default, |name| prose!(" ({})", method(name))),
                event_id(&dropped.event_id)
            ),
        );
    }
}
