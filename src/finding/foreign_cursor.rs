//! `foreign-cursor`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{event_id, prose},
    verdict::Severity,
};

finding! {
    /// ## What it reports
    ///
    /// The server accepted a cursor that this session never delivered, though all of the session is in the
    /// capture.
    ///
    /// ## Why it matters
    ///
    /// Either the client sends a cursor of another session or life (then what it has and what it gets do not
    /// belong together), or the server does not look at the cursor at all. A server that knows its log would
    /// have refused.
    ///
    /// ## When it is wrong
    ///
    /// A client that got the id on a road the capture does not show: another interface, another host that
    /// shares the session. A hole or a lost head anywhere in the service silences this finding.
    ///
    /// ## What to do
    ///
    /// See whose the id is (`forkscope events` over all captures), and let the server answer 400 to cursors it
    /// does not know.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// a < ev 1 note "one"
    /// a x server-fin
    /// b > GET sid A lei 50         # nobody ever delivered 50
    /// b < 200 sse
    /// b < end
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// a < ev 1 note "one"
    /// a x server-fin
    /// b > GET sid A lei 50
    /// b < 400 text "unknown event id"
    /// ```
    pub(super) static RULE = {
        code: "foreign-cursor",
        severity: Warning,
        clause: "basic/transports#resumability-and-redelivery: event ids are assigned on a per-stream basis, to act as a cursor within that stream",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for resume in case.resumes.iter().filter(|resume| resume.foreign_cursor) {
        out.on_resume(
            resume,
            Severity::Warning,
            "request",
            prose!(
                "{} was accepted; the session never delivered it",
                event_id(&resume.row.last_event_id),
            ),
        );
    }
}
