//! `event-id-reused`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{Prose, event_id, prose},
    verdict::{Confidence, Severity, Verdict},
};

finding! {
    /// ## What it reports
    ///
    /// An event id that was delivered before comes again with another payload.
    ///
    /// ## Why it matters
    ///
    /// Two events under one id come from two logs: the strongest proof of a fork that traffic gives. A client
    /// that removes duplicates keeps the first and drops the second. On a resumed stream's own log it is a
    /// fork; elsewhere in the session (an id that two streams use) it is a warning.
    ///
    /// ## When it is wrong
    ///
    /// A priming event and the message that follows it may share an id; that is not counted. A store that
    /// writes the same message in another JSON form on replay would look like a reuse.
    ///
    /// ## What to do
    ///
    /// On a resume: treat it as a fork (see `unknown-session-allocation`). Elsewhere: let the server draw ids
    /// from one counter for the session, or put the stream into the id.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// a < ev 6 note "six"
    /// a < ev 7 note "seven"
    /// a x server-fin
    /// b > GET sid A lei 6
    /// b < 200 sse
    /// b < ev 7 note "other"        # 7 was something else
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// a < ev 6 note "six"
    /// a < ev 7 note "seven"
    /// a x server-fin
    /// b > GET sid A lei 6
    /// b < 200 sse
    /// b < ev 7 note "seven"        # the client asked for it again
    /// ```
    pub(super) static RULE = {
        code: "event-id-reused",
        severity: Fork,
        clause: "basic/transports#resumability-and-redelivery: event ids MUST be globally unique across all streams within that session",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for resume in &case.resumes {
        if resume.row.verdict == Verdict::Forked && !resume.reused.is_empty() {
            let ids = resume.reused.iter().map(|id| event_id(id).into());
            out.on_resume(
                resume,
                Severity::Fork,
                "payload",
                prose!(
                    "{} came before with another payload",
                    Prose::join(ids, ", ")
                ),
            );
        }
    }
    for reuse in &case.reuses {
        let id = event_id(&reuse.id);
        let detail = if reuse.new_log {
            prose!(
                "id {} came before with another payload: a new log, without a resume",
                id
            )
        } else if reuse.count == 1 {
            prose!("id {} came before with another payload", id)
        } else {
            prose!(
                "id {} and {} more came before with other payloads",
                id,
                reuse.count - 1
            )
        };
        out.at(
            &reuse.site,
            Severity::Warning,
            Confidence::High,
            "payload",
            detail,
        );
    }
}
