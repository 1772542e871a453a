//! `cursor-ignored`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{event_id, prose},
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
    /// ```talk
    /// a open A
    /// a > POST call#1 sid A
    /// a < 200 sse
    /// a < ev u:one prime
    /// a x server-fin
    /// b > GET sid A lei u:one
    /// b < 200 sse
    /// b < end                      # nothing, and nothing comes later
    /// .. 20s
    /// c ask A#2
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > POST call#1 sid A
    /// a < 200 sse
    /// a < ev u:one prime
    /// a x server-fin
    /// b > GET sid A lei u:one
    /// b < 200 sse
    /// b < end
    /// c > GET sid A lei u:one
    /// c < 200 sse
    /// c < ev u:two res#1           # the one before was a poll
    /// c < end
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
                prose!(
                    "cursor {}: {}",
                    event_id(&resume.row.last_event_id),
                    resume.row.reason
                ),
            );
        }
    }
}
