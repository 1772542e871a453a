//! `backend-changed`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{foreign, prose},
    verdict::Severity,
};

finding! {
    /// ## What it reports
    ///
    /// Another process answered the resume than the one that served the stream before.
    ///
    /// ## Why it matters
    ///
    /// By itself nothing is wrong: processes that share one event store are made for that. Beside a fork or an
    /// ignored cursor it names the cause.
    ///
    /// ## When it is wrong
    ///
    /// A backend is told by the header that a balancer adds (see `--backend-header`), or by the inner side of
    /// a proxy. A header that names something else than the process, a cache for instance, misleads.
    ///
    /// ## What to do
    ///
    /// With a fork: pin sessions to a process, or share the sessions and their event log.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse head "X-Backend: red"
    /// a < ev 1 note "one"
    /// a x server-fin
    /// b > GET sid A lei 1
    /// b < 200 sse head "X-Backend: blue"
    /// b < ev 2 note "two"
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse head "X-Backend: red"
    /// a < ev 1 note "one"
    /// a x server-fin
    /// b > GET sid A lei 1
    /// b < 200 sse head "X-Backend: red"
    /// b < ev 2 note "two"
    /// ```
    pub(super) static RULE = {
        code: "backend-changed",
        severity: Info,
        clause: "none: any process that knows the session may answer",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for resume in &case.resumes {
        if let (Some(before), Some(after)) = (&resume.row.backend_before, &resume.row.backend_after)
            && before != after
        {
            out.on_resume(
                resume,
                Severity::Info,
                "backend",
                prose!(
                    "{} served the stream before, {} answered",
                    foreign(before),
                    foreign(after)
                ),
            );
        }
    }
}
