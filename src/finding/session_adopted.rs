//! `session-adopted`.

use super::Findings;
use crate::model::{
    case::{Adoption, SessionCase},
    prose::prose,
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// The server serves a session whose id it did not make: the client named it on its initialize and got
    /// it, or went on with an id of its own after its initialize got another, or came with one that nobody
    /// issued since the server started.
    ///
    /// ## Why it matters
    ///
    /// Whoever can give a victim an id holds the victim's session (session fixation). And a server that
    /// takes any id cannot tell a client that its session is gone: it forks.
    ///
    /// ## When it is wrong
    ///
    /// A client may name a session that was issued before the capture began, and the server know it:
    /// medium confidence unless the capture shows the server's start. What started may be a proxy before a
    /// server that was up all the time, or a server that keeps its sessions in a store. Nothing is said
    /// where initialize issues no ids, nor where an answer is missing that may have issued it.
    ///
    /// ## What to do
    ///
    /// Ignore the session header on initialize and make a new id; answer 404 to ids that were never issued.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// c > POST init#0 sid "chosen-by-the-client-0001"
    /// c < 200 json hello#0 sid "chosen-by-the-client-0001"
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// c > POST init#0 sid "chosen-by-the-client-0001"
    /// c < 200 json hello#0 sid B
    /// c ask B#1
    /// ```
    pub(super) static RULE = {
        code: "session-adopted",
        severity: Warning,
        clause: "basic/transports#session-management: a server MAY assign a session ID at initialization time",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    let Some(adopted) = &case.adopted else {
        return;
    };
    let (evidence, detail) = match &adopted.how {
        Adoption::OnInitialize => (
            "initialize",
            "the client named this id on its initialize, and got it".into(),
        ),
        Adoption::InsteadOf(issued) => (
            "another-issued",
            prose!("served, though the client's initialize got {}", issued),
        ),
        Adoption::SinceItsStart => (
            "server-start",
            "served, though no initialize since the server's start issued it".into(),
        ),
    };
    let confidence = if adopted.sure {
        Confidence::High
    } else {
        Confidence::Medium
    };
    out.at(
        &adopted.site,
        Severity::Warning,
        confidence,
        evidence,
        detail,
    );
}
