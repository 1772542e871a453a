//! `session-id-reissued`.

use super::Findings;
use crate::model::{
    case::{Reissue, SessionCase},
    prose::prose,
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// Several initialize responses of one service issued the same session id.
    ///
    /// ## Why it matters
    ///
    /// Two sessions live under one name: what the one asks for the other may be told, event ids begin
    /// again, and a client that removes duplicates by session and event id drops what is new.
    ///
    /// ## When it is wrong
    ///
    /// One initialize seen at two places (a proxy, an address translation, two exports) counts once. A
    /// client that asks again before anything was asked under the id, with the same call, has got no
    /// answer: a server that answers both alike gave the id once. Where the client names its living session
    /// on the initialize and gets it back, the server may have kept it as it was: a warning.
    ///
    /// ## What to do
    ///
    /// Make session ids at random (a UUID v4 or 128 bits of a secure generator), anew for each initialize;
    /// never from a counter, the time, or what the client is called.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// conn d from 10.0.0.2
    /// c open A
    /// c ask A#1
    /// .. 5s
    /// d open A            # another client gets the same id
    /// d ask A#1
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// c1 > POST init#0
    /// .. 5s
    /// c1 x client-fin     # no answer: the client asks again
    /// c2 > POST init#0
    /// c1 < 200 json hello#0 sid A
    /// c2 < 200 json hello#0 sid A
    /// c2 > POST note initialized sid A
    /// c2 < 202
    /// ```
    pub(super) static RULE = {
        code: "session-id-reissued",
        severity: Fork,
        clause: "basic/transports#session-management: the session ID SHOULD be globally unique and cryptographically secure",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    let Some(reissued) = &case.reissued else {
        return;
    };
    let (severity, confidence, evidence, to) = match reissued.how {
        Reissue::ToAnother => (
            Severity::Fork,
            Confidence::High,
            "another-client",
            "once more to another client",
        ),
        Reissue::ToTheSame => (
            Severity::Fork,
            Confidence::High,
            "same-client",
            "once more to the same host and software",
        ),
        Reissue::Asked => (
            Severity::Warning,
            Confidence::Medium,
            "asked-for",
            "once more to a client that named it",
        ),
    };
    out.at(
        &reissued.site,
        severity,
        confidence,
        evidence,
        prose!(
            "issued by {} initialize responses; here {}",
            reissued.count,
            to
        ),
    );
}
