//! `cursor-refused`.

use super::Findings;
use crate::model::{
    case::{RefusalKind, SessionCase},
    prose::prose,
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// A resume was refused, other requests of the session succeed afterwards (or, asked for before, get their
    /// answers only then), and that cursor never does.
    ///
    /// ## Why it matters
    ///
    /// The session lives; its client may have thrown it away. With 404 the status itself tells a client to
    /// start a new session and lose what the old one holds.
    ///
    /// ## When it is wrong
    ///
    /// When the same cursor is accepted later, it was another replica (`misrouted`).
    ///
    /// ## What to do
    ///
    /// Let the server refuse a cursor with 400 and words about the event id, and keep 404 for the session.
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
    /// b < 404 text "Event not found"
    /// b ask A#1                    # the session lives
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
    /// b < 404 text "Session not found"
    /// b > POST list#1 sid A
    /// b < 404 text "Session not found"
    /// ```
    pub(super) static RULE = {
        code: "cursor-refused",
        severity: Warning,
        clause: "basic/transports#resumability-and-redelivery: what to do with a cursor that is not known is not specified",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for run in case
        .refusals
        .iter()
        .filter(|run| run.kind == RefusalKind::Cursor)
    {
        out.on_refusal(
            run,
            Severity::Warning,
            Confidence::High,
            "status",
            prose!(
                "cursor refused with {}, the session lives{}",
                run.status,
                if run.status == 404 {
                    "; 404 tells a client to start over"
                } else {
                    ""
                }
            ),
        );
    }
}
