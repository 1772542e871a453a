//! `cross-session-delivery`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{event_id, prose},
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// An event, id and payload, that was delivered to another session first.
    ///
    /// ## Why it matters
    ///
    /// One client sees what was meant for another: a leak of data between users, and a result that answers
    /// nobody's question.
    ///
    /// ## When it is wrong
    ///
    /// It is reported only with an id that is unique over the service: by what it is (a UUID, a time, the other
    /// session's id inside), or because outside this answer none of ten or more ids occurs in two sessions. Or
    /// with a cursor that this session, seen whole, never had and the other did, and a payload that only the
    /// other had. Ids and payloads that repeat in every session prove nothing, nor does a time alone where a
    /// notice that answers to nobody came, for a store may give one to all sessions under it.
    ///
    /// ## What to do
    ///
    /// Scope the event store by session: look up the stream of a cursor inside the session that asks.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// a < ev u:one note "for A"    # u:one stands for a random UUID
    /// b open B
    /// b > GET sid B
    /// b < 200 sse
    /// b < ev u:two note "for B"
    /// b x server-fin
    /// c > GET sid B lei u:two
    /// c < 200 sse
    /// c < ev u:one note "for A"
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// a < ev 2 note "welcome"
    /// b open B
    /// b > GET sid B
    /// b < 200 sse
    /// b < ev 1 note "starting"
    /// b x server-fin
    /// c > GET sid B lei 1
    /// c < 200 sse
    /// c < ev 2 note "welcome"      # every session counts from 1 and begins so
    /// ```
    pub(super) static RULE = {
        code: "cross-session-delivery",
        severity: Fork,
        clause: "basic/transports#resumability-and-redelivery: the server MUST NOT replay messages that would have been delivered on a different stream",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for crossed in &case.crossings {
        out.at(
            &crossed.site,
            Severity::Fork,
            Confidence::High,
            "id and payload",
            prose!(
                "event {} was delivered to session {} first",
                event_id(&crossed.id),
                crossed.from,
            ),
        );
    }
}
