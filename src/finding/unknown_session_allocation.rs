//! `unknown-session-allocation`.

use super::Findings;
use crate::model::{
    case::{Fork, SessionCase},
    prose::{method, prose},
    verdict::{Confidence, Severity, Verdict},
};

finding! {
    /// ## What it reports
    ///
    /// The server served a session that it can no longer have known, instead of refusing it. By evidence,
    /// strongest first: `minted`, the answer names another session id, or one is made for a request that is
    /// refused and is served later without an initialize; `revived`, a message came after the
    /// session was refused with 404 or 410, or deleted, that is not of its log; `recreated`, a new log under
    /// the old id.
    ///
    /// ## Why it matters
    ///
    /// Every status is 200, so neither client nor access log can tell. State, subscriptions and results of the
    /// old session are gone, and requests that were running are never answered.
    ///
    /// ## When it is wrong
    ///
    /// For `recreated` the wire cannot always tell a lost session from a lost event log: the confidence is
    /// medium, and high when other streams or sessions of the server lost their log as well.
    ///
    /// ## What to do
    ///
    /// Let the server refuse ids it does not know with 404 and create sessions in `initialize` alone. Behind
    /// a balancer, route a session to the process that holds it or share the store.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// a < ev 10 note "ten"
    /// a x server-fin
    /// b > GET sid A lei 10
    /// b < 200 sse sid B            # the session was lost; this is another
    /// b < ev 1 note "hello"
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// a open A
    /// a > GET sid A
    /// a < 200 sse
    /// a < ev 10 note "ten"
    /// a x server-fin
    /// b > GET sid A lei 10
    /// b < 404                      # the session was lost, and the client is told
    /// b open B
    /// ```
    pub(super) static RULE = {
        code: "unknown-session-allocation",
        severity: Fork,
        clause: "basic/transports#session-management: a session that is not known MUST be answered with 404",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for resume in &case.resumes {
        let Some(fork) = resume
            .fork
            .filter(|_| resume.row.verdict == Verdict::Forked)
        else {
            continue;
        };
        let (evidence, confidence, what) = match fork {
            Fork::OtherSession => (
                "minted",
                Confidence::High,
                prose!(
                    "answered under session id {}",
                    resume.row.response_session_id.clone().unwrap_or_default()
                ),
            ),
            Fork::Revived => (
                "revived",
                Confidence::High,
                "served after it was refused or deleted, with a log that is not its own".into(),
            ),
            _ => {
                let confidence = if resume.others_lost_too || resume.beyond_lifetime {
                    Confidence::High
                } else {
                    Confidence::Medium
                };
                (
                    "recreated",
                    confidence,
                    "a new log under the old session id".into(),
                )
            }
        };
        let confidence = confidence.min(resume.row.confidence);
        out.on_resume_with(resume, Severity::Fork, confidence, evidence, what);
    }
    for minted in &case.minted {
        let (confidence, what) = match minted.refused {
            None => (
                Confidence::High,
                prose!(
                    "{} answered under session id {}",
                    method(&minted.method),
                    minted.given
                ),
            ),
            Some(status) => (
                Confidence::Medium,
                prose!(
                    "{} without a session refused with {} under session id {}, which is served since",
                    method(&minted.method),
                    status,
                    minted.given
                ),
            ),
        };
        out.at(&minted.site, Severity::Fork, confidence, "minted", what);
    }
}
