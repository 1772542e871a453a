//! `stream-superseded`.

use super::Findings;
use crate::model::{
    case::{SessionCase, Supersession},
    prose::{Fixed, prose},
    verdict::Severity,
};

finding! {
    /// ## What it reports
    ///
    /// A second stream took the place of one still open: the server ended the first within a moment of
    /// answering the second, or left it open and brought what was its own on the second. A stream that had
    /// brought its response and is resumed all the same stands in the standalone stream's place, where the
    /// server keeps it open.
    ///
    /// ## Why it matters
    ///
    /// It is what many servers do with a second stream, and right. But a client that takes the end of the
    /// first for a disconnect opens a third, which ends the second: the two leapfrog for ever, and what the
    /// server says in the gaps is lost. Streams that do so in turn are one row with a count;
    /// `reconnect-storm` says when it is a storm.
    ///
    /// ## When it is wrong
    ///
    /// An old stream that ended by chance, or at a timer, just when the second came. Ends that a shutdown
    /// explains (the second stream, or a running call's, goes in the same instant) do not count. A HAR does
    /// not tell who ended a stream, and gives none.
    ///
    /// ## What to do
    ///
    /// Let the client keep one standalone stream, and not reconnect the old one when it opened the new.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// har skip "a HAR does not tell who ended a stream"
    /// c1 open A
    /// c2 > GET sid A
    /// c2 < 200 sse sid A
    /// .. 5s
    /// c3 > GET sid A
    /// c3 < 200 sse sid A
    /// c2 < end
    /// .. 5s
    /// c1 ask A#1
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// c1 open A
    /// c2 > GET sid A
    /// c2 < 200 sse sid A
    /// .. 5s
    /// c2 < end
    /// .. 1s
    /// c3 > GET sid A
    /// c3 < 200 sse sid A
    /// .. 5s
    /// c1 ask A#1
    /// ```
    pub(super) static RULE = {
        code: "stream-superseded",
        severity: Info,
        clause: "basic/transports#multiple-connections: the client MAY remain connected to multiple SSE streams",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for row in &case.superseded {
        let after = Fixed(row.after.millis_f64(), 0);
        let how = match row.how {
            Supersession::Ended => {
                prose!(
                    "the server ended it {} ms after the new one was asked for",
                    after
                )
            }
            Supersession::Silent => {
                prose!("it said nothing more and was closed {} ms later", after)
            }
        };
        let detail = match row.count {
            1 => prose!("took the place of a stream still open: {}", how),
            count => prose!(
                "{} streams in a row took each other's place over {} s; of the first, {}",
                count,
                Fixed(row.last.since(row.site.time).millis_f64() / 1000.0, 1),
                how
            ),
        };
        out.at(&row.site, Severity::Info, row.confidence, "timing", detail);
        out.shows_on(&row.resumes);
    }
}
