//! `cursor-ignored`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    verdict::{Severity, Verdict},
};

finding! {
    /// ## What it reports
    ///
    /// A resume was accepted, something was owed to it, and no message came until the server ended it, or the
    /// client gave it up after ten seconds (twice its `retry`, if longer).
    ///
    /// ## Why it matters
    ///
    /// The client believes it is caught up. The result of its call is lost, and the call hangs.
    ///
    /// ## When it is wrong
    ///
    /// A server whose answer would still have come: while a segment of the stream is open, or was seen less
    /// than the patience before the capture ends, the response counts as pending and nothing is reported.
    /// An accepted resume to which nothing was owed is a legal poll.
    ///
    /// ## What to do
    ///
    /// Look whether the server knows the stream in the cursor: some event stores cannot find the standalone
    /// stream, and some servers answer an unknown cursor with an empty 200 instead of an error.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```text
    /// POST tools/call 4: id u1 (priming), cut
    /// GET Last-Event-ID: u1
    /// 200, nothing, end; and never a result for 4
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```text
    /// POST tools/call 4: id u1 (priming), end
    /// GET Last-Event-ID: u1
    /// 200, nothing, end; the next poll brings the result for 4
    /// ```
    pub(super) static RULE = {
        code: "cursor-ignored",
        severity: Loss,
        clause: "basic/transports#resumability-and-redelivery: the server SHOULD replay what was sent after the last event id",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for resume in &case.resumes {
        if resume.row.verdict == Verdict::Ignored {
            out.on_resume(
                resume,
                Severity::Loss,
                "nothing came",
                format!("cursor {}: {}", resume.row.last_event_id, resume.row.reason,),
            );
        }
    }
}
