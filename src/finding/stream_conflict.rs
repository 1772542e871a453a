//! `stream-conflict`.

use super::Findings;
use crate::model::{
    case::{RefusalKind, SessionCase},
    prose::prose,
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// A GET was refused as a second stream (409, or 400 to GETs alone while POSTs succeed), though a stream
    /// was served before and none of the session is open on the wire. The response of a running call is a
    /// stream of its own: it stands in the way of its own resume alone.
    ///
    /// ## Why it matters
    ///
    /// The server still holds a dead connection. Until it notices, the client gets no notifications.
    ///
    /// ## When it is wrong
    ///
    /// A stream that is open outside the capture. 409 to a second GET beside an open one is right.
    ///
    /// ## What to do
    ///
    /// Let a new stream take the place of the old one, or send keep-alives so that the server notices.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// b > GET sid A
    /// b < 200 sse
    /// b x client-fin
    /// c > GET sid A
    /// c < 409                      # though the old stream is closed
    /// a ask A#1
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// b > GET sid A
    /// b < 200 sse
    /// c > GET sid A
    /// c < 409                      # beside one that is open
    /// b < ev 1 note "one"
    /// a ask A#1
    /// ```
    pub(super) static RULE = {
        code: "stream-conflict",
        severity: Warning,
        clause: "basic/transports#listening-for-messages-from-the-server: the client MAY remain connected to multiple SSE streams",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for run in case
        .refusals
        .iter()
        .filter(|run| run.kind == RefusalKind::Conflict)
    {
        out.on_refusal(
            run,
            Severity::Warning,
            Confidence::High,
            "status",
            prose!(
                "refused with {} as a second stream; none is open on the wire",
                run.status
            ),
        );
    }
}
