//! `retry-ignored`.

use super::Findings;
use crate::model::{
    case::{SessionCase, Site},
    exchange::EndCause,
    prose::{Fixed, prose},
    time::Span,
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// The client reconnected more than 50 ms sooner than the `retry` field of the stream asked, after the
    /// server or the network had ended it.
    ///
    /// ## Why it matters
    ///
    /// Servers that close streams on purpose and let clients poll use `retry` to spread the load. A client
    /// that comes back at once multiplies it.
    ///
    /// ## When it is wrong
    ///
    /// The wait is measured from the end of the response as captured: far from the client it seems shorter by
    /// the time on the way. 50 ms are allowed for that, as the conformance suite does.
    ///
    /// ## What to do
    ///
    /// Update the client, or let the server answer 429 to those that do not wait.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a > POST call#1 sid A
    /// a < 200 sse
    /// a < ev 1 prime retry 3000    # come back in 3 s
    /// a < end
    /// .. 100ms
    /// b > GET sid A lei 1
    /// b < 200 sse
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > POST call#1 sid A
    /// a < 200 sse
    /// a < ev 1 prime retry 3000
    /// a < end
    /// .. 3s
    /// b > GET sid A lei 1
    /// b < 200 sse
    /// ```
    pub(super) static RULE = {
        code: "retry-ignored",
        severity: Info,
        clause: "basic/transports#sending-messages-to-the-server: the client MUST respect the retry field, waiting the given number of milliseconds before attempting to reconnect",
        revisions: "2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for resume in &case.resumes {
        let row = &resume.row;
        if row.retry_kept == Some(false)
            && row.protocol_version.as_deref() == Some(SINCE)
            && let (Some(gap), Some(retry), Some(cause)) =
                (row.gap, row.retry, row.disconnect_cause)
        {
            let site = Site {
                time: row.resume_time,
                ..resume.site()
            };
            report(out, &site, gap, retry, cause);
        }
    }
    if case.protocol_version.as_deref() != Some(SINCE) {
        return;
    }
    for dropped in &case.dropped_cursors {
        if let Some((retry, false)) = dropped.retry {
            report(out, &dropped.site, dropped.gap, retry, dropped.cause);
        }
    }
}

fn report(out: &mut Findings<'_>, site: &Site, gap: Span, retry: u32, cause: EndCause) {
    // Whoever ends a stream itself was not sent away with a time to wait.
    let ended_by_others = matches!(
        cause,
        EndCause::StreamEnd
            | EndCause::ServerFin
            | EndCause::ServerRst
            | EndCause::Goaway
            | EndCause::StreamResetByServer
            | EndCause::Unknown
    );
    // Who comes back before the old stream ends did not wait, but was not sent away either.
    if gap < Span::ZERO || !ended_by_others {
        return;
    }
    // A HAR's end of a response is the browser's own reckoning.
    let confidence = if cause == EndCause::Unknown {
        Confidence::Medium
    } else {
        Confidence::High
    };
    out.at(
        site,
        Severity::Info,
        confidence,
        "time",
        prose!(
            "came back after {} ms, asked to wait {} ms",
            Fixed(gap.millis_f64(), 0),
            retry
        ),
    );
}

/// The revision that makes keeping `retry` a duty.
const SINCE: &str = "2025-11-25";
