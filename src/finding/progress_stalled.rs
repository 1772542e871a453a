//! `progress-stalled`.

use super::Findings;
use crate::model::{
    case::{Progress, SessionCase, Site},
    prose::{prose, rpc_id},
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// A request whose result was lost, or dropped as a duplicate, had told progress before the cut: its
    /// progress token is left hanging.
    ///
    /// ## Why it matters
    ///
    /// This is what the user sees: a progress bar that stands still for ever.
    ///
    /// ## When it is wrong
    ///
    /// As `result-lost` and `result-dropped`, whose companion it is.
    ///
    /// ## What to do
    ///
    /// See there. A client should let a call run into a timeout that progress prolongs.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a > POST call#1 tok 7 sid A
    /// a < 200 sse
    /// a < ev 1 progress 7 1
    /// a x server-fin
    /// b > GET sid A lei 1
    /// b < 404
    /// .. 15s
    /// b ask A#2                    # the client stays; 1 is never answered
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > POST call#1 sid A        # no progress was asked for
    /// a < 200 sse
    /// a < ev 1 prime
    /// a x server-fin
    /// b > GET sid A lei 1
    /// b < 404
    /// .. 15s
    /// b ask A#2
    /// ```
    pub(super) static RULE = {
        code: "progress-stalled",
        severity: Loss,
        clause: "basic/utilities/progress: progress notifications MUST stop after completion; nothing completes here",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for lost in &case.lost {
        if let Some(progress) = &lost.progress {
            report(
                out,
                &lost.site,
                lost.confidence,
                &lost.rpc_id,
                progress,
                "lost",
            );
        }
    }
    for dropped in &case.dropped {
        if let Some(progress) = &dropped.progress {
            report(
                out,
                &dropped.site,
                dropped.confidence,
                &dropped.rpc_id,
                progress,
                "dropped as a duplicate",
            );
        }
    }
}

fn report(
    out: &mut Findings<'_>,
    site: &Site,
    confidence: Confidence,
    request: &str,
    progress: &Progress,
    fate: &'static str,
) {
    out.at(
        site,
        Severity::Loss,
        confidence,
        "progress",
        prose!(
            "token {} of request {} had told progress {} times, and its result was {}",
            rpc_id(&progress.token),
            rpc_id(request),
            progress.notifications,
            fate
        ),
    );
}
