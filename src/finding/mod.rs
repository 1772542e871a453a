//! Judgements: one documented file each. The doc comment of a finding is the product text:
//! `explain CODE` prints it and docs/findings.md is made of it.

use crate::model::verdict::Severity;

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
}

impl Rule {
    /// The first sentence of the documentation, under "What it reports".
    #[must_use]
    pub fn summary(&self) -> &'static str {
        let text = self
            .doc
            .split("## What it reports")
            .nth(1)
            .unwrap_or(self.doc)
            .trim();
        text.split("\n\n").next().unwrap_or(text)
    }
}

/// All findings, in the order of the documentation.
pub static ALL: &[&Rule] = &[];

/// The finding named `code`.
#[must_use]
pub fn by_code(code: &str) -> Option<&'static Rule> {
    ALL.iter().copied().find(|rule| rule.code == code)
}
