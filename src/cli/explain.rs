//! `forkscope explain`: what a finding means.

use super::{Color, FINE, USAGE, complain, output, width};
use clap::{
    Arg, Args,
    builder::{PossibleValue, TypedValueParser},
};
use forkscope::{
    error::nearest,
    finding::{ALL, Rule},
    model::verdict::Severity,
    report::{
        docs,
        escape::escape,
        terminal::{Look, Page},
    },
};
use std::ffi::OsStr;

/// What a finding means; without CODE, the list
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Explain {
    /// The code of a finding, such as sequence-regression
    #[arg(value_parser = Codes, hide_possible_values = true)]
    code: Option<String>,
}

const HELP: &str = "\
Examples:
  forkscope explain
  forkscope explain sequence-regression";

/// Takes any text, so that a wrong one is told in our words; shells complete the codes.
#[derive(Clone)]
struct Codes;

impl TypedValueParser for Codes {
    type Value = String;

    fn parse_ref(
        &self,
        _: &clap::Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        Ok(value.to_string_lossy().into_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            ALL.iter().map(|rule| PossibleValue::new(rule.code)),
        ))
    }
}

/// Runs the command.
pub(crate) fn run(explain: &Explain, color: Color) -> anyhow::Result<u8> {
    let mut page = Page::new(width(), color.wanted());
    match &explain.code {
        None => list(ALL, &mut page),
        Some(code) => match ALL.iter().find(|rule| rule.code == code) {
            Some(rule) => whole(rule, &mut page),
            None => {
                complain(&unknown(ALL, code));
                return Ok(USAGE);
            }
        },
    }
    let text = page.into_text();
    output::print(|out| out.write_all(text.as_bytes()))?;
    Ok(FINE)
}

/// Every finding, worst first, with its summary.
fn list(rules: &[&Rule], page: &mut Page) {
    use Severity::{Fork, Info, Loss, Warning};
    for severity in [Fork, Loss, Warning, Info] {
        let mut heading = true;
        for rule in rules.iter().filter(|rule| rule.severity == severity) {
            if std::mem::take(&mut heading) {
                page.gap();
                page.line(severity.name(), Look::Severity(severity));
            }
            page.line(&format!("  {}", rule.code), Look::Heading);
            page.prose(&docs::summary(rule.doc), 6);
        }
    }
}

/// All that is said of a finding.
fn whole(rule: &Rule, page: &mut Page) {
    page.line(rule.code, Look::Severity(rule.severity));
    page.field(
        "severity",
        &format!("{}, at worst", rule.severity.name()),
        2,
    );
    page.field("clause", rule.clause, 2);
    page.field("revisions", rule.revisions, 2);
    page.gap();
    // Skips are for the tests that run the examples.
    let doc = rule.doc.lines().filter(|line| !line.contains("har skip"));
    page.markdown(&doc.collect::<Vec<_>>().join("\n"));
    page.gap();
    page.prose(EXAMPLES, 2);
}

/// How an example is read; fixtures/talks/README.md has the whole language.
const EXAMPLES: &str = "In an example, c1 and c2 are connections: > is a request, < an answer or an \
event (ev ID), x a close, .. time that passes; open is an initialize, ask a request that is \
answered at once. sid is the session id, lei the Last-Event-ID; call#1 is a tools/call with id 1 (arg its \
argument, tok its progress token), res#1 the result for it, note a notification, prime an event with an id and \
no data; repeat to done is a loop.";

fn unknown(rules: &[&Rule], code: &str) -> String {
    let mut message = format!("no finding is named {}", escape(code));
    match nearest(code, rules.iter().map(|rule| rule.code)) {
        Some(near) => message.push_str(&format!("; did you mean {near}?")),
        None => message.push_str("; forkscope explain lists them"),
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(code: &str) -> &'static Rule {
        forkscope::finding::by_code(code).unwrap()
    }

    #[test]
    fn lists_worst_first_with_summaries() {
        let mut page = Page::new(80, false);
        list(&[rule("session-lost"), rule("missing-id")], &mut page);
        let text = page.into_text();
        assert!(
            text.starts_with("fork\n  missing-id\n      The first message of"),
            "{text}"
        );
        assert!(
            text.contains("\n\ninfo\n  session-lost\n      The session was refused"),
            "{text}"
        );
    }

    #[test]
    fn explains_whole() {
        let mut page = Page::new(80, false);
        whole(rule("sequence-regression"), &mut page);
        let text = page.into_text();
        assert!(
            text.starts_with("sequence-regression\n  severity   fork, at worst\n"),
            "{text}"
        );
        assert!(
            text.contains("\nWhy it matters\n\n  A client that resumes"),
            "{text}"
        );
    }

    #[test]
    fn suggests_the_nearest_code() {
        let rules = [rule("sequence-regression"), rule("cursor-dropped")];
        let said = unknown(&rules, "Regression");
        assert!(
            said.ends_with("did you mean sequence-regression?"),
            "{said}"
        );
        assert!(unknown(&rules, "\x1b[31m").contains("\\x1b[31m; forkscope explain lists"));
    }
}
