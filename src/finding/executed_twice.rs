//! `executed-twice`.

use super::Findings;
use crate::model::{
    case::SessionCase,
    prose::{Fixed, Prose, method, prose, rpc_id},
    verdict::Severity,
};

finding! {
    /// ## What it reports
    ///
    /// A tool call that was pending at a cut, and not refused, was sent again by the same client, in its
    /// session or in a new one.
    ///
    /// ## Why it matters
    ///
    /// A broken connection cancels nothing: the server goes on with the first call, and the tool runs twice.
    /// It pays twice, writes twice, sends twice.
    ///
    /// ## When it is wrong
    ///
    /// A server that died with the first call may not have finished it; one that knows a call again may
    /// have run it once; a tool that only reads does no harm twice (its annotations are not looked at). A client is
    /// its address, its software and, behind a proxy, the address that the proxy names; where such a client has
    /// three sessions at one time it is several, and a call in another session is not counted. Calls that
    /// the client makes twice more with the same arguments, before or though it has the answer, are its habit and
    /// are not counted; nor is one that comes more than ten minutes after the cut, or that was answered or
    /// cancelled before it was sent again, nor any other method than `tools/call`: they may be repeated. Where the first got no answer at all, the server must have
    /// acknowledged it and held it for a second (medium confidence).
    ///
    /// ## What to do
    ///
    /// Let the client resume with `Last-Event-ID` before it calls again, and the server keep the result of
    /// a call whose stream was cut. Give calls that must not run twice a key of their own in the arguments.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// c1 open A
    /// c1 > POST call#1 arg "pay 100" sid A
    /// c1 < 200 sse sid A
    /// c1 < ev 1 prime
    /// .. 2s
    /// c1 x server-rst
    /// c2 open B
    /// c2 > POST call#1 arg "pay 100" sid B
    /// c2 < 200 json res#1 "paid"
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// c1 open A
    /// .. 60s
    /// c1 > POST call#1 arg "pay 100" sid A
    /// c1 < 404            # refused: it never ran
    /// c2 open B
    /// c2 > POST call#1 arg "pay 100" sid B
    /// c2 < 200 json res#1 "paid"
    /// ```
    pub(super) static RULE = {
        code: "executed-twice",
        severity: Warning,
        clause: "basic/transports#sending-messages-to-the-server: disconnection SHOULD NOT be interpreted as the client cancelling its request",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for call in &case.repeated {
        let place = call
            .in_session
            .as_ref()
            .map_or_else(Prose::default, |id| prose!(" in session {}", id));
        out.at(
            &call.site,
            Severity::Warning,
            call.confidence,
            "call",
            prose!(
                "{} {} was pending at a cut and is sent again {} s after it{}",
                method(&call.method),
                rpc_id(&call.rpc_id),
                Fixed(call.gap.millis_f64() / 1000.0, 1),
                place
            ),
        );
    }
}
