//! The examples in the documentation of every finding, run: they are talks (fixtures/talks/README.md),
//! fenced as `talk` under "Fires:" and "Does not fire:".

use crate::{
    talk::{expect::failures, model::Talk, parse::parse, render_har, tcp::packets},
    talks::{audit, pcap},
};
use forkscope::finding::ALL;
use std::fmt::Write;

/// The first example of a finding gives it, the second does not, as pcap and as HAR.
#[test]
fn examples_of_findings_do_what_they_say() {
    let only = std::env::var("FORKSCOPE_TALK").unwrap_or_default();
    let mut bad = String::new();
    for rule in ALL.iter().filter(|rule| rule.code.contains(&only)) {
        let problems = problems(rule.code, rule.doc);
        if TO_BE_WRITTEN.contains(&rule.code) {
            if problems.is_empty() {
                let _ = writeln!(bad, "{}: written; take it off the list", rule.code);
            }
            continue;
        }
        for problem in problems {
            let _ = writeln!(bad, "{}: {problem}", rule.code);
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
}

/// What is wrong with the two examples of a finding.
fn problems(code: &str, doc: &str) -> Vec<String> {
    let mut bad = Vec::new();
    for (heading, expect) in [
        ("Fires:", format!("expect finding {code}")),
        ("Does not fire:", format!("expect no finding {code}")),
    ] {
        match example(doc, heading).and_then(|text| parse(heading, &format!("{text}{expect}\n"))) {
            Ok(talk) => bad.extend(
                wrong(&talk)
                    .into_iter()
                    .map(|problem| format!("{heading} {problem}")),
            ),
            Err(error) => bad.push(error),
        }
    }
    bad
}

/// What an audit of an example says that it should not, or does not say.
fn wrong(talk: &Talk) -> Vec<String> {
    if talk.expectations.len() != 1 || !talk.har_expectations.is_empty() || talk.beyond.is_some() {
        return vec!["an example shows, it expects nothing by itself".to_owned()];
    }
    let mut roads = vec![("pcap", pcap(talk, &packets(talk)))];
    if talk.har_skip.is_none() {
        roads.push(("har", render_har::render(talk)));
    }
    let mut bad = Vec::new();
    for (road, bytes) in roads {
        let analysis = audit(talk, &bytes);
        // What shows nothing at all would never fire.
        if analysis.exchanges.is_empty() {
            bad.push(format!("{road}: no exchange"));
        }
        for failure in failures(&talk.expectations, &analysis, road == "pcap") {
            bad.push(format!("{road}: {failure}"));
        }
    }
    bad
}

/// The text of the block fenced as `talk` that follows `heading` among the examples of `doc`.
fn example(doc: &str, heading: &str) -> Result<String, String> {
    let mut lines = doc
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != "## Example")
        .skip_while(|line| *line != heading)
        .skip(1)
        .skip_while(|line| line.is_empty());
    if lines.next() != Some("```talk") {
        return Err(format!("{heading} no block fenced as talk follows"));
    }
    let mut text = String::new();
    for line in lines {
        if line == "```" {
            return Ok(text);
        }
        text.push_str(line);
        text.push('\n');
    }
    Err(format!("{heading} the block has no end"))
}

/// Findings whose examples are prose still. Held to be, so that the list only shrinks.
const TO_BE_WRITTEN: &[&str] = &[
    "missing-id",
    "unknown-session-allocation",
    "event-id-reused",
    "cross-session-delivery",
    "ids-skipped",
    "cursor-ignored",
    "cursor-dropped",
    "result-lost",
    "cursor-refused",
    "stream-conflict",
    "misrouted",
    "session-revived",
    "session-lost",
    "misleading-status",
    "lost-on-disconnect",
    "no-reinitialize",
];

/// An example that shows nothing, expects by itself, or is no talk is told.
#[test]
fn bad_examples_are_told() {
    let told = |fires: &str, silent: &str| {
        let doc = format!(
            " ## Example\n\n Fires:\n\n ```{fires}\n ```\n\n Does not fire:\n\n ```{silent}\n ```\n"
        );
        problems("cursor-refused", &doc).join("\n")
    };
    let fine = "talk\n a open A";
    assert!(told("text\n GET: 404", fine).starts_with("Fires: no block"));
    assert!(told("talk\n a < hm", fine).starts_with("Fires::1: "));
    assert!(told("talk\n a < hm", "talk\n").contains("Does not fire: pcap: no exchange"));
    assert!(told("talk\n expect sessions 1", fine).contains("expects nothing by itself"));
    assert!(told(fine, fine).contains("Fires: pcap: lacks finding cursor-refused"));
    assert!(told(fine, fine).contains("Fires: har: lacks finding cursor-refused"));
}
