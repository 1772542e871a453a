//! `missing-id`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{event_id, prose},
    verdict::Severity,
};

finding! {
    /// ## What it reports
    ///
    /// The first message of a resumed stream has no id, though every message of the stream before it had one.
    ///
    /// ## Why it matters
    ///
    /// The server that answers keeps no event log, or not this one: it has taken the session over without
    /// its history. The next cut of this stream cannot be resumed at all.
    ///
    /// ## When it is wrong
    ///
    /// A server that gives ids to some messages only. Then not every message before had one, and nothing is
    /// reported. Comments, pings and priming events never count.
    ///
    /// ## What to do
    ///
    /// Find out which process answered (a restart, another replica) and why it runs without the event store.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// a < ev 5 note "five"
    /// a < ev 6 note "six"
    /// a x server-fin
    /// b > GET sid A lei 6
    /// b < 200 sse
    /// b < ev - note "seven"        # who answers keeps no log
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// a < ev - note "four"         # this server never gave ids to all messages
    /// a < ev 6 note "five"
    /// a x server-fin
    /// b > GET sid A lei 6
    /// b < 200 sse
    /// b < ev - note "six"
    /// ```
    pub(super) static RULE = {
        code: "missing-id",
        severity: Fork,
        clause: "basic/transports#resumability-and-redelivery: servers MAY attach ids; a stream that had them can be resumed",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for resume in case.resumes.iter().filter(|resume| resume.ids_vanished) {
        out.on_resume(
            resume,
            Severity::Fork,
            "ids vanished",
            prose!(
                "after cursor {} the first message has no id",
                event_id(&resume.row.last_event_id),
            ),
        );
    }
}
