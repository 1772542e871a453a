//! `broadcast`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{method, prose},
    verdict::Severity,
};

finding! {
    /// ## What it reports
    ///
    /// One message came on two or more streams of the session that were open at the same time. One row a
    /// session, with the number of messages. Pings do not count, nor what a cursor asked for again.
    ///
    /// ## Why it matters
    ///
    /// The client acts on it once a stream: a request is answered twice, a notification counted twice.
    ///
    /// ## When it is wrong
    ///
    /// Notifications say the same again and again. So but for requests and progress, copies must lie far
    /// closer together than the message repeats itself; two calls that say the same, each on its own stream, are
    /// none, and beside several calls in flight a single one is not enough. Copies that one tap took of one
    /// stream at two places are none.
    ///
    /// ## What to do
    ///
    /// Let the server choose one stream for each message.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// har skip "a HAR does not tell how long a stream without an end was open"
    /// c1 open A
    /// c2 > GET sid A
    /// c2 < 200 sse sid A
    /// c3 > GET sid A
    /// c3 < 200 sse sid A
    /// .. 5s
    /// c2 < ev 1 note "to everybody"
    /// c3 < ev 2 note "to everybody"
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
    /// c3 > GET sid A
    /// c3 < 200 sse sid A
    /// .. 5s
    /// c2 < ev 1 note "one"
    /// .. 5s
    /// c3 < ev 2 note "one"
    /// .. 5s
    /// c1 ask A#1
    /// ```
    pub(super) static RULE = {
        code: "broadcast",
        severity: Warning,
        clause: "basic/transports#multiple-connections: the server MUST send each message on only one of the connected streams and MUST NOT broadcast it",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for broadcast in &case.broadcasts {
        let what = method(&broadcast.what);
        out.at(
            &broadcast.site,
            Severity::Warning,
            broadcast.confidence,
            "payload",
            match broadcast.count {
                1 => prose!("{} came on {} open streams", what, broadcast.streams),
                count => prose!(
                    "{} messages came on up to {} open streams, {} the first",
                    count,
                    broadcast.streams,
                    what
                ),
            },
        );
    }
}
