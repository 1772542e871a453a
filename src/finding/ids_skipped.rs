//! `ids-skipped`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{Prose, event_id, prose},
    verdict::{Severity, Verdict},
};

finding! {
    /// ## What it reports
    ///
    /// A resumed stream goes on after its cursor, but something is skipped: ids of a counter without holes
    /// that nobody ever delivered, or a message seen on the wire after the cursor that the replay leaves out.
    ///
    /// ## Why it matters
    ///
    /// The skipped events are lost to the client, and nothing tells it so.
    ///
    /// ## When it is wrong
    ///
    /// A counter that is wider than the session and whose other users are not in the capture: it counts as
    /// dense only when it grew by one in at least five steps and never jumped. Nothing is counted while a
    /// hole lies in a segment that shares the counter, or another stream of it is cut and not resumed.
    ///
    /// ## What to do
    ///
    /// Look at the size and age limits of the server's event log, and at the gap between cut and resume.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// repeat 6
    /// a < ev $i note "number $i"   # 1 to 6: a counter without holes
    /// done
    /// a x server-fin
    /// b > GET sid A lei 6
    /// b < 200 sse
    /// b < ev 9 note "number 9"     # 7 and 8 never came
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// repeat 6
    /// a < ev $i note "number $i"
    /// done
    /// a x server-fin
    /// c > POST call#1 sid A
    /// c < 200 sse
    /// c < ev 7 note "number 7"     # the session's other stream has them
    /// c < ev 8 res#1
    /// c < end
    /// b > GET sid A lei 6
    /// b < 200 sse
    /// b < ev 9 note "number 9"
    /// ```
    pub(super) static RULE = {
        code: "ids-skipped",
        severity: Loss,
        clause: "basic/transports#resumability-and-redelivery: the server replays messages that would have been sent after the last event id",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for resume in &case.resumes {
        if resume.row.verdict != Verdict::Lossy {
            continue;
        }
        let detail = match resume.row.ids_skipped {
            Some(skipped) if skipped > 0 => prose!(
                "{} ids between {} and {} never came",
                skipped,
                event_id(&resume.row.last_event_id),
                event_id(resume.row.first_event_id.as_deref().unwrap_or_default())
            ),
            _ => prose!(
                "left out: {}",
                Prose::join(resume.missing.iter().cloned(), ", ")
            ),
        };
        out.on_resume(resume, Severity::Loss, "order of ids", detail);
    }
}
