//! `session-id-invalid`.

use super::Findings;
use crate::model::{
    case::{SessionCase, Weakness},
    prose::{Fixed, Named, Prose, Secret, prose},
    verdict::{Confidence, Severity},
};

finding! {
    /// ## What it reports
    ///
    /// The server issues session ids that the protocol does not allow (characters outside visible ASCII) or
    /// that can be guessed: numbers that follow one another, or too short for what they are made of (fewer
    /// than 64 bits by length and character classes).
    ///
    /// ## Why it matters
    ///
    /// The id is all that keeps a session from others. One who guesses it reads and writes in another's
    /// session.
    ///
    /// ## When it is wrong
    ///
    /// An id may hold more than it looks (a signed one), or less: a long one is not judged by what is
    /// random in it. Told once for a reason and service, at the first session concerned. Ids that a sanitizer
    /// wrote into a HAR are not judged where they look like it.
    ///
    /// ## What to do
    ///
    /// Issue a UUID v4 or 128 bits of a secure generator, as hex or base64url.
    ///
    /// ## Example
    ///
    /// Fires:
    ///
    /// ```talk
    /// c open "session-1001"
    /// d open "session-1002"
    /// ```
    ///
    /// Does not fire:
    ///
    /// ```talk
    /// c open "1868a90c05b64b2e9c8e0d6f1ce6b0a1"
    /// d open "b15304df22214fbba7820f7e2c58db8d"
    /// ```
    pub(super) static RULE = {
        code: "session-id-invalid",
        severity: Warning,
        clause: "basic/transports#session-management: the session ID MUST only contain visible ASCII characters and SHOULD be globally unique and cryptographically secure",
        revisions: "2025-03-26 to 2025-11-25",
        check: Session(check),
    };
}

fn check(case: &SessionCase, out: &mut Findings<'_>) {
    for weak in &case.weak_ids {
        let (evidence, confidence, detail) = match &weak.why {
            Weakness::Characters => (
                "characters",
                Confidence::High,
                "has characters outside visible ASCII".into(),
            ),
            Weakness::Successors { other } => (
                "successors",
                Confidence::High,
                prose!(
                    "follows the same count as {}",
                    Named(Secret::Session, other)
                ),
            ),
            Weakness::Short { bits } => (
                "short",
                Confidence::Medium,
                prose!("holds {} bits at most", Fixed(*bits, 0)),
            ),
        };
        let all = match weak.count {
            1 => Prose::default(),
            count => prose!("; so do the ids of {} sessions of the service", count),
        };
        out.at(
            &weak.site,
            Severity::Warning,
            confidence,
            evidence,
            prose!("{}{}", detail, all),
        );
    }
}
