//! `reconnect-storm`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{Fixed, prose},
    verdict::Severity,
};

finding! {
    /// ## What it reports
    ///
    /// Ten or more reconnects in a row, of one stream or of GETs without a cursor in one session, that
    /// brought no message, came faster than one in 5 s, and led to nothing: one row with their count, their
    /// period (the median), the first and the last.
    ///
    /// ## Why it matters
    ///
    /// Client and server keep each other busy for nothing. Mostly a clean end of the stream resets the
    /// client's backoff, and the server ends it at once each time: it no longer knows the cursor, it has
    /// nothing to say, or another GET took the stream's place.
    ///
    /// ## When it is wrong
    ///
    /// Polling by the book is none: the server asks for it with `retry`, the client keeps to it, and the
    /// result comes in the end, or may yet come when the capture ends. Where the client gave up first (it
    /// cancelled, or ended the session), nobody knows whether it would have come: medium confidence. Refusals
    /// of a lost session are told by `session-lost` and `no-reinitialize`. Streams opened side by side are no
    /// reconnects.
    ///
    /// ## What to do
    ///
    /// Let the server keep an idle stream open, or send `retry` before it ends one; let the client back off
    /// when a stream ends without a message, clean or not.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// c1 open A
    /// repeat 12
    /// .. 1s
    /// s$i > GET sid A
    /// s$i < 200 sse sid A
    /// s$i < end
    /// done
    /// .. 15s
    /// c1 ask A#1
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// c1 open A
    /// repeat 12
    /// .. 30s
    /// s$i > GET sid A
    /// s$i < 200 sse sid A
    /// s$i < end
    /// done
    /// .. 15s
    /// c1 ask A#1
    /// ```
    pub(super) static RULE = {
        code: "reconnect-storm",
        severity: Warning,
        clause: "basic/transports#sending-messages-to-the-server: a server that closes a connection before the stream's end SHOULD send `retry`, which the client MUST respect",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for storm in &case.storms {
        out.at(
            &storm.site,
            Severity::Warning,
            storm.confidence,
            "timing",
            prose!(
                "{} reconnects {} brought nothing new: one every {} s, the last {} s after the first",
                storm.count,
                if storm.has_cursor {
                    "of one stream"
                } else {
                    "without a cursor"
                },
                Fixed(storm.period.millis_f64() / 1000.0, 1),
                Fixed(storm.last.since(storm.site.time).millis_f64() / 1000.0, 1)
            ),
        );
        out.shows_on(&storm.resumes);
    }
}
