//! `wrong-channel`.

use super::Findings;
use crate::model::{
    case::{MisplacedKind, SessionCase},
    prose::{prose, rpc_id},
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// A message came on a stream where it may not come: a response on a GET without `Last-Event-ID`,
    /// progress under a token that no request of the session announced, or progress of a request that had
    /// its result. One row for each kind in a session.
    ///
    /// ## Why it matters
    ///
    /// A client that waits for its answer where it asked never gets it; progress that belongs to nothing is
    /// dropped, or taken for another call's.
    ///
    /// ## When it is wrong
    ///
    /// It says nothing of a session with a gap, nor of unknown tokens when the session's start is not in the
    /// capture, nor of replays. Progress on another connection than the result may overtake it by a second.
    /// Tasks (2025-11-25) go on after their first result: in a session that asks for them, progress after a
    /// result is right.
    ///
    /// ## What to do
    ///
    /// Let the server answer on the stream of the request, and stop progress before the result.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// c1 open A
    /// c2 > GET sid A
    /// c2 < 200 sse sid A
    /// c1 > POST call#1 sid A
    /// c1 < 202
    /// .. 1s
    /// c2 < ev 1 res#1
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// c1 open A
    /// c1 > POST call#1 tok 7 sid A
    /// c1 < 200 sse sid A
    /// c1 < ev 1 progress 7 1
    /// c1 x server-fin
    /// .. 1s
    /// c2 > GET sid A lei 1
    /// c2 < 200 sse sid A
    /// c2 < ev 2 res#1
    /// ```
    pub(super) static RULE = {
        code: "wrong-channel",
        severity: Warning,
        clause: "basic/transports#listening-for-messages-from-the-server: the server MUST NOT send a response on a GET stream unless resuming; basic/utilities/progress: progress MUST only reference tokens of active requests",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for misplaced in &case.misplaced {
        let what = rpc_id(&misplaced.what);
        let (evidence, mut detail) = match misplaced.kind {
            MisplacedKind::Response => (
                "response",
                prose!("the response to {} came on a GET without a cursor", what),
            ),
            MisplacedKind::UnknownToken => (
                "progress",
                prose!("progress under {}, a token that no request announced", what),
            ),
            MisplacedKind::AfterResult => (
                "progress",
                prose!("progress under {} after the result of its request", what),
            ),
        };
        if misplaced.count > 1 {
            detail = prose!("{}; {} such messages", detail, misplaced.count);
        }
        out.at(
            &misplaced.site,
            Severity::Warning,
            Confidence::High,
            evidence,
            detail,
        );
        out.shows_on(&misplaced.resumes);
    }
}
