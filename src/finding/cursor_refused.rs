//! `cursor-refused`.

use super::Findings;
use crate::model::{
    case::{RefusalKind, SessionCase},
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// A resume was refused, other requests of the session succeed afterwards, and that cursor never does.
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
    /// ```text
    /// GET Last-Event-ID: zz: 404
    /// POST tools/call: 200
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```text
    /// GET Last-Event-ID: zz: 404
    /// POST tools/call: 404
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
            format!(
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
