//! `sequence-regression`.

use super::Findings;
use crate::model::{
    case::{Sequence, SessionCase},
    prose::{event_id, prose},
    verdict::{Severity, Verdict},
};

finding! {
    /// ## What it reports
    ///
    /// The first message of a resumed stream has the cursor's own id or an earlier one, or the sequence
    /// starts again.
    ///
    /// ## Why it matters
    ///
    /// A client that resumes after event 57 expects 58. When 1 comes, the server has lost its log and begun
    /// another under the old session id. A client that removes duplicates by id throws the new events away.
    ///
    /// ## When it is wrong
    ///
    /// Servers that replay from the cursor on (rmcp sends the cursor's own event again) or from the stream's
    /// start, with unchanged payloads, only repeat themselves: the verdict is then `replayed`, and this is
    /// a warning, or info when only the cursor's own event comes again. Ids whose order is only observed,
    /// and times closer than a millisecond, never count.
    ///
    /// ## What to do
    ///
    /// Look at what stood between the two connections: a restart, an idle reaper, another replica. Let the
    /// server answer 404 to a session it does not know, so that the client starts over.
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
    /// a < ev 2 note "two"
    /// a x server-fin
    /// b > GET sid A lei 2
    /// b < 200 sse
    /// b < ev 1 note "three"        # another log: ids start again
    /// b < ev 2 note "four"
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// a < ev 1 note "one"
    /// a < ev 2 note "two"
    /// a x server-fin
    /// b > GET sid A lei 2
    /// b < 200 sse
    /// b < ev 3 note "three"
    /// b < ev 4 note "four"
    /// ```
    pub(super) static RULE = {
        code: "sequence-regression",
        severity: Fork,
        clause: "basic/transports#resumability-and-redelivery: ids are a cursor within the stream",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for resume in &case.resumes {
        let severity = match (resume.sequence, resume.row.verdict) {
            (Sequence::Onward, _) => continue,
            (_, Verdict::Forked) => Severity::Fork,
            (Sequence::CursorAgain, Verdict::Replayed) => Severity::Info,
            (Sequence::Back, Verdict::Replayed) => Severity::Warning,
            _ => continue,
        };
        let first = resume.row.first_event_id.as_deref().unwrap_or_default();
        let evidence = if resume.row.events_redelivered > 0 {
            "redelivery"
        } else {
            "order of ids"
        };
        out.on_resume(
            resume,
            severity,
            evidence,
            prose!(
                "first message after cursor {} has id {}",
                event_id(&resume.row.last_event_id),
                event_id(first)
            ),
        );
    }
}
