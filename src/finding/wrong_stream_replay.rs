//! `wrong-stream-replay`.

use super::Findings;
use crate::model::{
    case::{SessionCase, StrayEvidence},
    prose::{Prose, event_id, prose},
    verdict::Severity,
};

finding! {
    /// ## What it reports
    ///
    /// An event of another stream came on this one: it answers or reports on a request of another stream, the
    /// key in its id is another stream's, or another stream of the session delivered it before (by id and
    /// payload, or by a payload that nothing else in the session has).
    ///
    /// ## Why it matters
    ///
    /// The client gets a message twice, or one that it must not get here: a result goes to the wrong call, a
    /// notification is acted on again. No SDK client removes duplicates.
    ///
    /// ## When it is wrong
    ///
    /// A server may say the same twice; so a payload alone counts only among what a resume replays, when
    /// the session never repeats one of that method, and with medium confidence. It says nothing of a session
    /// with a gap. A client that uses the last id of any stream as a cursor of the whole session gets
    /// what it asked for, and nothing is reported: where ids do not name their stream and the cursor's own
    /// was complete. Other replays of a log that all streams share are reported, for the specification
    /// forbids them. The history of the standalone stream on a new one of its kind is its own.
    ///
    /// ## What to do
    ///
    /// Store events by stream, and replay after a cursor only those of its stream.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// c1 open A
    /// c2 > GET sid A
    /// c2 < 200 sse sid A
    /// c2 < ev u:g note "for everybody"
    /// c1 > POST call#1 tok 7 sid A
    /// c1 < 200 sse sid A
    /// c1 < ev u:a progress 7 1
    /// c1 x server-fin
    /// .. 1s
    /// c3 > GET sid A lei u:a
    /// c3 < 200 sse sid A
    /// c3 < ev u:g note "for everybody"
    /// c3 < ev u:b res#1
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// c1 open A
    /// c2 > GET sid A
    /// c2 < 200 sse sid A
    /// c2 < ev u:g note "for everybody"
    /// c1 > POST call#1 tok 7 sid A
    /// c1 < 200 sse sid A
    /// c1 < ev u:a progress 7 1
    /// c1 x server-fin
    /// .. 1s
    /// c3 > GET sid A lei u:a
    /// c3 < 200 sse sid A
    /// c3 < ev u:b res#1
    /// ```
    pub(super) static RULE = {
        code: "wrong-stream-replay",
        severity: Warning,
        clause: "basic/transports#resumability-and-redelivery: the server MUST NOT replay messages that would have been delivered on a different stream",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for stray in &case.strays {
        let (evidence, why) = match stray.evidence {
            StrayEvidence::Request => ("request", "it is about a request of that one"),
            StrayEvidence::Id => ("event-id", "that one delivered it before"),
            StrayEvidence::Key => ("event-id", "the key in its id is that one's"),
            StrayEvidence::Payload => ("payload", "that one delivered its payload before"),
        };
        let which = if stray.id.is_empty() {
            Prose::from("one without id")
        } else {
            event_id(&stray.id).into()
        };
        let detail = match stray.count {
            1 => prose!("an event of another stream, {}: {}", which, why),
            count => prose!(
                "{} events of another stream, the first {}: {}",
                count,
                which,
                why
            ),
        };
        out.at(
            &stray.site,
            Severity::Warning,
            stray.confidence,
            evidence,
            detail,
        );
    }
}
