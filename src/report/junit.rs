//! JUnit XML for build servers: a test case a resume, one a finding that is on no resume, one an
//! input. What fails is what makes the exit code 1, so that a red build and its report agree.
//!
//! The layout is that of Jenkins' schema (junit-10.xsd), which GitLab, GitHub's reporters and the
//! rest read too.

use super::{
    Style,
    escape::{escape, escape_name_to},
    table::{Column, Findings, Resumes, Table},
};
use crate::model::{
    analysis::{Analysis, Finding, Input, Resume},
    flow::Endpoint,
    time::Span,
    verdict::{Severity, Verdict},
};
use std::{
    collections::HashMap,
    io::{self, Write},
};

/// Writes the document.
///
/// # Errors
///
/// Those of the writer.
pub(super) fn write(analysis: &Analysis, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(64 << 10, out);
    let suites = [
        inputs(analysis),
        resumes(analysis, style),
        findings(analysis, style),
    ];
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(
        out,
        r#"<testsuites name="forkscope" tests="{}" failures="{}" errors="{}">"#,
        suites.iter().map(|suite| suite.cases.len()).sum::<usize>(),
        suites.iter().map(Suite::failures).sum::<usize>(),
        suites.iter().map(Suite::errors).sum::<usize>(),
    )?;
    let start = analysis
        .inputs
        .iter()
        .filter_map(|input| input.first_time)
        .min();
    let start = start.map(|time| super::TimeFormat::Utc.text(time));
    // To the second and without a zone: readers have never agreed on more.
    let start = start.as_deref().and_then(|start| start.get(..19));
    for suite in &suites {
        suite.write(start, analysis, style, &mut out)?;
    }
    writeln!(out, "</testsuites>")?;
    out.flush()
}

/// Test cases of one kind.
struct Suite<'a> {
    name: &'static str,
    cases: Vec<Case<'a>>,
}

/// A test case; all texts are escaped for people, not yet for XML.
struct Case<'a> {
    name: String,
    /// Seconds, where something was waited for.
    time: Option<String>,
    outcome: Outcome,
    /// What is known of it.
    evidence: Evidence<'a>,
}

/// What a case is about, told when it is written: suites count their cases before, and there can be
/// many.
enum Evidence<'a> {
    Input(&'a Input),
    Resume(&'a Resume, Vec<&'a Finding>),
    Finding(&'a Finding),
}

impl Evidence<'_> {
    fn text(&self, analysis: &Analysis, style: &Style) -> String {
        match self {
            Self::Input(input) => shown(&input.damaged),
            Self::Resume(resume, found) => {
                let mut said = facts::<Resumes>(analysis, style, resume);
                for line in &resume.story {
                    said.push_str(&escape(line));
                    said.push('\n');
                }
                for finding in found {
                    said.push('\n');
                    said.push_str(&facts::<Findings>(analysis, style, finding));
                }
                said
            }
            Self::Finding(finding) => facts::<Findings>(analysis, style, finding),
        }
    }
}

/// What became of a case.
enum Outcome {
    Passed,
    /// Not to be seen in the capture: why.
    Skipped(String),
    /// A type, a message and, where a reader shows the failure alone, what was found, a line each.
    Failed(&'static str, String, String),
    /// A message.
    Broken(String),
}

impl Suite<'_> {
    fn count(&self, of: fn(&Outcome) -> bool) -> usize {
        self.cases.iter().filter(|case| of(&case.outcome)).count()
    }

    fn failures(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Failed(..)))
    }

    fn errors(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Broken(_)))
    }

    fn write(
        &self,
        start: Option<&str>,
        analysis: &Analysis,
        style: &Style,
        out: &mut impl Write,
    ) -> io::Result<()> {
        write!(
            out,
            r#"  <testsuite name="{}" tests="{}" failures="{}" errors="{}" skipped="{}""#,
            self.name,
            self.cases.len(),
            self.failures(),
            self.errors(),
            self.count(|outcome| matches!(outcome, Outcome::Skipped(_))),
        )?;
        if let Some(start) = start {
            write!(out, r#" timestamp="{start}""#)?;
        }
        writeln!(out, ">")?;
        for case in &self.cases {
            let said = case.evidence.text(analysis, style);
            case.write(self.name, &said, out)?;
        }
        writeln!(out, "  </testsuite>")
    }
}

impl Case<'_> {
    fn write(&self, suite: &str, said: &str, out: &mut impl Write) -> io::Result<()> {
        write!(
            out,
            r#"    <testcase classname="forkscope.{suite}" name="{}""#,
            xml(&self.name)
        )?;
        if let Some(time) = &self.time {
            write!(out, r#" time="{time}""#)?;
        }
        writeln!(out, ">")?;
        match &self.outcome {
            Outcome::Passed => {}
            Outcome::Skipped(why) => {
                writeln!(out, r#"      <skipped message="{}"/>"#, xml(why))?;
            }
            Outcome::Failed(kind, why, found) => {
                let (why, found) = (xml(why), xml(found));
                writeln!(
                    out,
                    r#"      <failure type="{kind}" message="{why}">{found}</failure>"#
                )?;
            }
            Outcome::Broken(why) => {
                let why = xml(why);
                writeln!(out, r#"      <error type="unreadable" message="{why}"/>"#)?;
            }
        }
        if !said.is_empty() {
            writeln!(out, "      <system-out>{}</system-out>", xml(said))?;
        }
        writeln!(out, "    </testcase>")
    }
}

fn inputs(analysis: &Analysis) -> Suite<'_> {
    let cases = analysis.inputs.iter().map(|input| Case {
        name: shown(&input.name),
        time: None,
        outcome: match &input.unreadable {
            Some(why) => Outcome::Broken(shown(why)),
            None => Outcome::Passed,
        },
        evidence: Evidence::Input(input),
    });
    Suite {
        name: "inputs",
        cases: cases.collect(),
    }
}

/// A name of a file, or what is said of one.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    escape_name_to(text, &mut shown);
    shown
}

fn resumes<'a>(analysis: &'a Analysis, style: &Style) -> Suite<'a> {
    let mut on: HashMap<Key<'_>, Vec<&Finding>, foldhash::fast::RandomState> = HashMap::default();
    for finding in &analysis.findings {
        if let Some(key) = key_of(finding) {
            on.entry(key).or_default().push(finding);
        }
    }
    let cases = analysis.resumes.iter().map(|resume| {
        let found = on.get(&key(resume)).cloned().unwrap_or_default();
        case_of_resume(style, resume, found)
    });
    Suite {
        name: "resumes",
        cases: cases.collect(),
    }
}

fn case_of_resume<'a>(style: &Style, resume: &'a Resume, found: Vec<&'a Finding>) -> Case<'a> {
    // The first of the worst.
    let worst = found.iter().rev().max_by_key(|finding| finding.severity);
    let outcome = match worst {
        Some(worst) if fails(worst.severity, style) => failed(worst, &found),
        _ if matches!(resume.verdict, Verdict::Indeterminate | Verdict::Failed) => {
            let reason = escape(&resume.reason);
            Outcome::Skipped(format!("{}: {reason}", resume.verdict))
        }
        _ => Outcome::Passed,
    };
    Case {
        name: format!(
            "{} session {} resume {}",
            named(resume.server.as_ref()),
            escape(&resume.session_id),
            resume.resume
        ),
        time: resume.first_event.map(seconds),
        outcome,
        evidence: Evidence::Resume(resume, found),
    }
}

/// Findings on no resume: a build that fails for one has to show it.
fn findings<'a>(analysis: &'a Analysis, style: &Style) -> Suite<'a> {
    let resumes: std::collections::HashSet<_, foldhash::fast::RandomState> =
        analysis.resumes.iter().map(key).collect();
    let findings = analysis.findings.iter();
    let alone =
        findings.filter(|finding| key_of(finding).is_none_or(|key| !resumes.contains(&key)));
    let cases = alone.map(|finding| Case {
        name: format!(
            "{} session {} {} frame {}",
            named(finding.server.as_ref()),
            escape(&finding.session_id),
            finding.code,
            finding.place.frame
        ),
        time: None,
        outcome: if fails(finding.severity, style) {
            failed(finding, &[finding])
        } else {
            Outcome::Passed
        },
        evidence: Evidence::Finding(finding),
    });
    Suite {
        name: "findings",
        cases: cases.collect(),
    }
}

/// Names a resume: its session, its server and its number.
type Key<'a> = (&'a str, Option<&'a Endpoint>, u32);

fn key(resume: &Resume) -> Key<'_> {
    (&resume.session_id, resume.server.as_ref(), resume.resume)
}

fn key_of(finding: &Finding) -> Option<Key<'_>> {
    let server = finding.server.as_ref();
    finding
        .resume
        .map(|resume| (&*finding.session_id, server, resume))
}

fn fails(severity: Severity, style: &Style) -> bool {
    style.fail_from.is_some_and(|from| severity >= from)
}

fn failed(worst: &Finding, found: &[&Finding]) -> Outcome {
    let line = |finding: &&Finding| {
        let severity = finding.severity.name();
        format!("{severity} {}: {}\n", finding.code, escape(&finding.detail))
    };
    let found = found.iter().map(line).collect();
    Outcome::Failed(worst.code, escape(&worst.detail).into_owned(), found)
}

fn named(server: Option<&Endpoint>) -> String {
    server.map_or_else(
        || "unknown server".to_owned(),
        |server| escape(&server.to_string()).into_owned(),
    )
}

/// The columns of a row that are known, a line each.
fn facts<'a, T: Table>(analysis: &'a Analysis, style: &Style, row: T::Row<'a>) -> String {
    let (mut scratch, mut said) = (String::new(), String::new());
    for Column { name, value, .. } in T::COLUMNS {
        let value = value(analysis, row);
        if value.kind().is_some() {
            said.push_str(name);
            said.push_str(": ");
            value.write_cell(style, &mut scratch, &mut said);
            said.push('\n');
        }
    }
    said
}

fn seconds(span: Span) -> String {
    let millis = span.nanos().max(0) / 1_000_000;
    format!("{}.{:03}", millis / 1_000, millis % 1_000)
}

/// `text`, whose hidden characters are escaped already, for an element or an attribute in quotes.
/// What XML 1.0 forbids even as a reference is written as an escape too.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' | '\0'..='\u{1f}' => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{super::sample, *};

    fn document(analysis: &Analysis, fail_from: Option<Severity>) -> String {
        let style = Style {
            fail_from,
            ..Style::default()
        };
        let mut bytes = Vec::new();
        write(analysis, &style, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn fails_from_the_severity_asked_for_on() {
        let analysis = sample::rich();
        for (from, failures) in [
            (None, 0),
            (Some(Severity::Fork), 1),
            (Some(Severity::Loss), 3),
            (Some(Severity::Info), 4),
        ] {
            let document = document(&analysis, from);
            let head = document.lines().nth(1).unwrap();
            let said = format!(r#"failures="{failures}" errors="1">"#);
            assert!(head.ends_with(&said), "{from:?}: {head}");
            assert_eq!(document.matches("<failure ").count(), failures);
        }
    }

    #[test]
    fn a_failure_has_its_evidence() {
        let document = document(&sample::fork(), Some(Severity::Fork));
        for text in [
            r#"<failure type="sequence-regression" message="the first message has id 1, at or below the cursor 42">"#,
            "fork unknown-session-allocation: a new log under the old session id\n</failure>",
            "verdict: forked\n",
            "wireshark_filter: tcp.stream eq 9\n",
            "before the cut: id 42, notifications/progress\n",
            r#"timestamp="2026-12-03T22:40:00""#,
            r#" time="0.100">"#,
        ] {
            assert!(document.contains(text), "{text}\n{document}");
        }
    }

    #[test]
    fn what_the_capture_does_not_show_is_skipped() {
        let mut analysis = sample::fork();
        analysis.findings.clear();
        analysis.resumes[0].verdict = Verdict::Indeterminate;
        analysis.resumes[0].reason = "a hole".into();
        let document = document(&analysis, Some(Severity::Info));
        assert!(document.contains(r#"<skipped message="indeterminate: a hole"/>"#));
        assert!(
            document.contains(r#"name="resumes" tests="1" failures="0" errors="0" skipped="1""#)
        );
    }

    #[test]
    fn text_of_the_wire_stays_text() {
        let mut analysis = sample::fork();
        analysis.findings[0].detail = "</failure>&\"'\0\u{1b}[2J\u{fffe}\u{ffff}\u{202e}".into();
        let document = document(&analysis, Some(Severity::Fork));
        assert!(
            document.contains(
                r#"message="&lt;/failure&gt;&amp;&quot;&apos;\x00\x1b[2J\u{fffe}\u{ffff}\u{202e}""#
            ),
            "{document}"
        );
    }
}
