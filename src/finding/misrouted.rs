//! `misrouted`.

use super::Findings;
use crate::model::{
    case::{RefusalKind, SessionCase},
    prose::{Prose, prose},
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// The session was refused, and its log goes on afterwards; or refusals lie between successes less than
    /// 30 s apart. It says where the refusal was answered, as seen from the success before: on that very
    /// connection it was no balancer of connections that chose another replica.
    ///
    /// ## Why it matters
    ///
    /// The session never died: another replica answered, one that does not know it. A client that follows
    /// the rules throws a live session away.
    ///
    /// ## When it is wrong
    ///
    /// A server that restores sessions from a store slowly looks the same.
    ///
    /// ## What to do
    ///
    /// Make the balancer route by `Mcp-Session-Id`, or share the sessions between replicas.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a ask A#1
    /// b > POST list#2 sid A
    /// b < 404                      # another replica
    /// a ask A#3
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a ask A#1
    /// b > POST list#2 sid A
    /// b < 404                      # the session is lost: the client starts over
    /// b open B
    /// b ask B#1
    /// ```
    pub(super) static RULE = {
        code: "misrouted",
        severity: Warning,
        clause: "basic/transports#session-management",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for run in case
        .refusals
        .iter()
        .filter(|run| run.kind == RefusalKind::Misrouted)
    {
        let times = match run.count {
            1 => Prose::default(),
            count => prose!(" {} times", count),
        };
        let place = if run.context.is_empty() {
            Prose::default()
        } else {
            prose!(", {}", run.context)
        };
        out.on_refusal(
            run,
            Severity::Warning,
            Confidence::High,
            "status",
            prose!(
                "refused with {}{} between successes: another replica answered{}",
                run.status,
                times,
                place
            ),
        );
    }
}
