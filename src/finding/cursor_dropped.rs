//! `cursor-dropped`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{event_id, prose},
    verdict::Severity,
};

finding! {
    /// ## What it reports
    ///
    /// A stream that delivered ids was reopened without `Last-Event-ID`, or was tried to be and turned away
    /// (409, or 400 that says nothing of the session).
    ///
    /// ## Why it matters
    ///
    /// Whatever the server stored after the last id is never asked for. SDK clients do this when a resumed
    /// stream is cut before any id arrived on it.
    ///
    /// ## When it is wrong
    ///
    /// A second stream beside one still open is none of this, nor is a new stream after a refused cursor, of
    /// another client, or of a session that was issued anew. A client that knows it needs no history may
    /// reopen on purpose.
    ///
    /// ## What to do
    ///
    /// Let the client keep the last id over attempts that bring none.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// a < ev 3 note "three"
    /// a x server-fin
    /// b > GET sid A lei 3
    /// b < 200 sse
    /// b x server-fin               # before any id
    /// c > GET sid A                # 3 is forgotten
    /// c < 200 sse
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// a < ev 3 note "three"
    /// a x server-fin
    /// b > GET sid A lei 3
    /// b < 404                      # the cursor was refused
    /// c > GET sid A
    /// c < 200 sse
    /// ```
    pub(super) static RULE = {
        code: "cursor-dropped",
        severity: Warning,
        clause: "basic/transports#resumability-and-redelivery: the client SHOULD send Last-Event-ID to resume after a disconnection",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for dropped in &case.dropped_cursors {
        out.at(
            &dropped.site,
            Severity::Warning,
            dropped.confidence,
            "request",
            prose!(
                "reopened without a cursor; the last id was {}",
                event_id(&dropped.last_id),
            ),
        );
    }
}
