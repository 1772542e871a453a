//! Judgements: one documented file each. The doc comment of a finding is the product text:
//! `explain CODE` prints it and docs/findings.md is made of it.

use crate::model::{
    analysis::Finding,
    case::{Refusal, ResumeCase, RunCase, SessionCase, Site},
    id::SessionId,
    prose::Prose,
    verdict::{Confidence, Severity},
};

/// Writes a finding's rule from its documentation: the doc comment is kept as text.
macro_rules! finding {
    (
        $(#[doc = $doc:expr])+
        pub(super) static RULE = {
            code: $code:expr,
            severity: $severity:ident,
            clause: $clause:expr,
            revisions: $revisions:expr,
            check: $kind:ident($check:expr),
        };
    ) => {
        $(#[doc = $doc])+
        pub(super) static RULE: super::Rule = super::Rule {
            code: $code,
            severity: crate::model::verdict::Severity::$severity,
            clause: $clause,
            revisions: $revisions,
            doc: concat!($($doc, "\n"),+),
            check: super::Check::$kind($check),
        };
    };
}

mod backend_changed;
mod broadcast;
mod cross_session_delivery;
mod cursor_dropped;
mod cursor_ignored;
mod cursor_refused;
mod cut_by_timer;
mod event_id_reused;
mod executed_twice;
mod foreign_cursor;
mod ids_skipped;
mod lost_on_disconnect;
mod misleading_status;
mod misrouted;
mod missing_id;
mod no_reinitialize;
mod progress_stalled;
mod reconnect_storm;
mod result_differs;
mod result_dropped;
mod result_lost;
mod retry_ignored;
mod sequence_regression;
mod session_adopted;
mod session_id_invalid;
mod session_id_reissued;
mod session_lost;
mod session_revived;
mod session_shared;
mod stream_conflict;
mod stream_superseded;
mod unknown_session_allocation;
mod wrong_channel;
mod wrong_stream_replay;

/// What a finding is: its name, its worst severity, where the duty it speaks of is written, and
/// its documentation.
#[derive(Debug)]
pub struct Rule {
    /// Kebab-case name.
    pub code: &'static str,
    /// The severity it has at its worst.
    pub severity: Severity,
    /// The clause of the specification it holds against, or why there is none.
    pub clause: &'static str,
    /// The protocol revisions it holds for.
    pub revisions: &'static str,
    /// Markdown with the headings "What it reports", "Why it matters", "When it is wrong",
    /// "What to do", "Example".
    pub doc: &'static str,
    /// Where it looks.
    check: Check,
}

/// Where a rule looks.
#[derive(Debug)]
enum Check {
    /// At one session.
    Session(fn(&SessionCase, &mut Findings<'_>)),
    /// At the whole run.
    Run(fn(&RunCase, &mut Findings<'_>)),
}

impl Rule {
    /// The first paragraph of the documentation, under "What it reports", on one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let text = self
            .doc
            .split("## What it reports")
            .nth(1)
            .unwrap_or(self.doc)
            .trim();
        let paragraph = text.split("\n\n").next().unwrap_or(text);
        paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// All findings, in the order of the documentation.
pub static ALL: &[&Rule] = &[
    &sequence_regression::RULE,
    &missing_id::RULE,
    &unknown_session_allocation::RULE,
    &event_id_reused::RULE,
    &cross_session_delivery::RULE,
    &cursor_ignored::RULE,
    &ids_skipped::RULE,
    &foreign_cursor::RULE,
    &wrong_stream_replay::RULE,
    &backend_changed::RULE,
    &stream_superseded::RULE,
    &cursor_refused::RULE,
    &stream_conflict::RULE,
    &misrouted::RULE,
    &session_revived::RULE,
    &session_lost::RULE,
    &misleading_status::RULE,
    &lost_on_disconnect::RULE,
    &no_reinitialize::RULE,
    &session_id_reissued::RULE,
    &session_adopted::RULE,
    &result_lost::RULE,
    &result_dropped::RULE,
    &result_differs::RULE,
    &executed_twice::RULE,
    &progress_stalled::RULE,
    &cursor_dropped::RULE,
    &reconnect_storm::RULE,
    &retry_ignored::RULE,
    &cut_by_timer::RULE,
    &broadcast::RULE,
    &wrong_channel::RULE,
    &session_id_invalid::RULE,
    &session_shared::RULE,
];

/// The finding named `code`.
#[must_use]
pub fn by_code(code: &str) -> Option<&'static Rule> {
    ALL.iter().copied().find(|rule| rule.code == code)
}

/// Judges one session by every rule. With each finding come the numbers of the session's resumes
/// that it shows on.
#[must_use]
pub fn judge(case: &SessionCase) -> Vec<(Finding, Vec<u32>)> {
    let mut all = Vec::new();
    for rule in ALL {
        if let Check::Session(check) = rule.check {
            check(case, &mut Findings::new(rule, &case.id, &mut all));
        }
    }
    all
}

/// Judges the run as a whole. These findings are on no session.
#[must_use]
pub fn judge_run(case: &RunCase) -> Vec<Finding> {
    let nobody = SessionId::default();
    let mut all = Vec::new();
    for rule in ALL {
        if let Check::Run(check) = rule.check {
            check(case, &mut Findings::new(rule, &nobody, &mut all));
        }
    }
    all.into_iter().map(|(finding, _)| finding).collect()
}

/// Takes what one rule finds in one session, or in the run.
pub struct Findings<'a> {
    rule: &'static Rule,
    session: &'a SessionId,
    out: &'a mut Vec<(Finding, Vec<u32>)>,
}

impl<'a> Findings<'a> {
    fn new(
        rule: &'static Rule,
        session: &'a SessionId,
        out: &'a mut Vec<(Finding, Vec<u32>)>,
    ) -> Self {
        Self { rule, session, out }
    }

    /// On a resume, as sure as its verdict.
    fn on_resume(
        &mut self,
        resume: &ResumeCase,
        severity: Severity,
        evidence: &'static str,
        detail: impl Into<Prose>,
    ) {
        self.on_resume_with(resume, severity, resume.row.confidence, evidence, detail);
    }

    fn on_resume_with(
        &mut self,
        resume: &ResumeCase,
        severity: Severity,
        confidence: Confidence,
        evidence: &'static str,
        detail: impl Into<Prose>,
    ) {
        self.at(&resume.site(), severity, confidence, evidence, detail);
    }

    /// On a run of refusals; it shows on every resume among them.
    fn on_refusal(
        &mut self,
        run: &Refusal,
        severity: Severity,
        confidence: Confidence,
        evidence: &'static str,
        detail: impl Into<Prose>,
    ) {
        self.at(&run.site, severity, confidence, evidence, detail);
        self.shows_on(&run.resumes);
    }

    /// Where the evidence stands.
    fn at(
        &mut self,
        site: &Site,
        severity: Severity,
        confidence: Confidence,
        evidence: &'static str,
        detail: impl Into<Prose>,
    ) {
        let finding = Finding {
            code: self.rule.code,
            severity,
            confidence,
            evidence,
            session_id: self.session.clone(),
            incarnation: site.incarnation,
            resume: site.resume,
            time: site.time,
            detail: detail.into(),
            client: site.client.clone(),
            server: site.server.clone(),
            place: site.place,
        };
        self.out.push((finding, site.resume.into_iter().collect()));
    }

    /// The finding just made shows on these resumes of the session.
    fn shows_on(&mut self, resumes: &[u32]) {
        if let Some((_, shown)) = self.out.last_mut() {
            shown.clear();
            shown.extend_from_slice(resumes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_is_documented_alike() {
        const HEADINGS: [&str; 5] = [
            "What it reports",
            "Why it matters",
            "When it is wrong",
            "What to do",
            "Example",
        ];
        for rule in ALL {
            let found: Vec<&str> = rule
                .doc
                .lines()
                .filter_map(|line| line.trim().strip_prefix("## "))
                .collect();
            assert_eq!(found, HEADINGS, "{}", rule.code);
            assert!(
                rule.doc.contains("Fires:") && rule.doc.contains("Does not fire:"),
                "{}",
                rule.code
            );
            assert!(
                !rule.summary().is_empty() && !rule.clause.is_empty(),
                "{}",
                rule.code
            );
        }
    }

    #[test]
    fn codes_are_kebab_case_and_unique() {
        let mut codes: Vec<&str> = ALL.iter().map(|rule| rule.code).collect();
        for code in &codes {
            assert!(
                code.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
                "{code}"
            );
        }
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ALL.len());
    }
}
