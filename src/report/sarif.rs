//! SARIF 2.1.0: findings as results, the registry of findings as rules.
//!
//! GitHub's code scanning wants a file and a line for every result. The file is the capture; a
//! packet has no line, so that the line is always 1 and the frame is in the message, in the
//! logical location and in the properties.

use super::{
    Style,
    escape::{escape, escape_name_to},
    json::{Row, Visible, list},
    table::Findings,
};
use crate::{
    finding,
    model::{
        analysis::{Analysis, Finding, Input},
        verdict::Severity,
    },
};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{json, ser::PrettyFormatter};
use std::{
    cell::RefCell,
    collections::HashMap,
    fmt::Write as _,
    io::{self, Write},
};
use xxhash_rust::xxh3::xxh3_128;

/// Writes the log.
///
/// # Errors
///
/// Those of the writer.
pub(super) fn write(analysis: &Analysis, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(64 << 10, out);
    let formatter = Visible(PrettyFormatter::new());
    let log = Log {
        analysis,
        style: *style,
    };
    log.serialize(&mut serde_json::Serializer::with_formatter(
        &mut out, formatter,
    ))?;
    out.write_all(b"\n")?;
    out.flush()
}

struct Log<'a> {
    analysis: &'a Analysis,
    style: Style,
}

impl Serialize for Log<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("$schema", SCHEMA)?;
        map.serialize_entry("version", "2.1.0")?;
        map.serialize_entry("runs", &[Run(self)])?;
        map.end()
    }
}

struct Run<'a>(&'a Log<'a>);

impl Serialize for Run<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let &Log { analysis, style } = self.0;
        let version = env!("CARGO_PKG_VERSION");
        let rules: Vec<_> = finding::ALL.iter().map(|rule| describe(rule)).collect();
        let driver = json!({
            "name": "forkscope",
            "version": version,
            "semanticVersion": version,
            "rules": rules,
        });
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("tool", &json!({ "driver": driver }))?;
        let readable = analysis.inputs.iter().all(|i| i.unreadable.is_none());
        let notifications: Vec<_> = analysis
            .inputs
            .iter()
            .enumerate()
            .filter_map(|(index, input)| trouble(index, input))
            .collect();
        let invocation = json!({
            "executionSuccessful": readable,
            "toolExecutionNotifications": notifications,
        });
        map.serialize_entry("invocations", &[invocation])?;
        let artifacts = list(|| {
            analysis.inputs.iter().map(|input| {
                json!({
                    "location": { "uri": uri(&input.name) },
                    "roles": ["analysisTarget"],
                })
            })
        });
        map.serialize_entry("artifacts", &artifacts)?;
        // Results of one key are counted as they are written, once.
        let seen = RefCell::new(HashMap::<_, u32, foldhash::fast::RandomState>::default());
        let results = list(|| {
            analysis.findings.iter().map(|finding| {
                let key = (
                    finding.code,
                    &*finding.session_id,
                    finding.incarnation,
                    finding.resume,
                );
                let mut seen = seen.borrow_mut();
                let count = seen.entry(key).or_default();
                *count += 1;
                Found {
                    analysis,
                    style,
                    finding,
                    count: *count,
                }
            })
        });
        map.serialize_entry("results", &results)?;
        map.serialize_entry("columnKind", "unicodeCodePoints")?;
        map.end()
    }
}

/// A finding as a result.
struct Found<'a> {
    analysis: &'a Analysis,
    style: Style,
    finding: &'a Finding,
    /// How many like it came before, and itself.
    count: u32,
}

impl Serialize for Found<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let finding = self.finding;
        let place = finding.place;
        let rule = finding::ALL
            .iter()
            .position(|rule| rule.code == finding.code);
        let har = self
            .analysis
            .inputs
            .get(place.input.0 as usize)
            .is_some_and(|input| input.format.starts_with("har"));
        let mut whereabouts = String::new();
        if place.frame != 0 {
            let unit = if har { "entry" } else { "frame" };
            // Writing to a string cannot fail.
            let _ = write!(whereabouts, "{unit} {}", place.frame);
        }
        if let Some(stream) = place.tcp_stream {
            let comma = if whereabouts.is_empty() { "" } else { ", " };
            let _ = write!(whereabouts, "{comma}tcp.stream eq {stream}");
        }
        let mut text = message(&finding.detail);
        if !whereabouts.is_empty() {
            let _ = write!(text, " ({whereabouts})");
        }
        let mut physical = json!({ "region": { "startLine": 1 } });
        let name = self.analysis.input_name(place);
        if let Some(physical) = physical.as_object_mut() {
            let artifact = json!({ "uri": uri(name), "index": place.input.0 });
            physical.insert("artifactLocation".to_owned(), artifact);
        }
        let mut location = json!({ "physicalLocation": physical });
        if let Some(location) = location.as_object_mut()
            && !whereabouts.is_empty()
        {
            let kind = if har { "HAR entry" } else { "packet" };
            let logical = json!([{ "name": whereabouts, "kind": kind }]);
            location.insert("logicalLocations".to_owned(), logical);
        }
        let fingerprint = fingerprint(finding, self.count);
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("ruleId", finding.code)?;
        if let Some(rule) = rule {
            map.serialize_entry("ruleIndex", &rule)?;
        }
        map.serialize_entry("level", level(finding.severity))?;
        map.serialize_entry("message", &json!({ "text": text }))?;
        map.serialize_entry("locations", &[location])?;
        // GitHub looks at the second name alone.
        let fingerprints = json!({
            "forkscopeFinding/v1": fingerprint,
            "primaryLocationLineHash": fingerprint,
        });
        map.serialize_entry("partialFingerprints", &fingerprints)?;
        let properties = Row::<Findings> {
            analysis: self.analysis,
            row: finding,
            style: self.style,
        };
        map.serialize_entry("properties", &properties)?;
        map.end()
    }
}

/// A finding's rule.
fn describe(rule: &finding::Rule) -> serde_json::Value {
    let summary = rule.summary();
    json!({
        "id": rule.code,
        "name": camel(rule.code),
        "shortDescription": { "text": message(&summary) },
        "fullDescription": { "text": message(&summary) },
        "help": {
            "text": message(&format!("{summary} `forkscope explain {}` says more.", rule.code)),
            "markdown": rule.doc.trim(),
        },
        "defaultConfiguration": { "level": level(rule.severity) },
        "properties": {
            "tags": ["mcp", "server-sent-events"],
            "severity": rule.severity.name(),
            "clause": rule.clause,
            "revisions": rule.revisions,
        },
    })
}

/// What is wrong with an input.
fn trouble(index: usize, input: &Input) -> Option<serde_json::Value> {
    let (level, why) = match &input.unreadable {
        Some(why) => ("error", why),
        None if input.damaged.is_empty() => return None,
        None => ("warning", &input.damaged),
    };
    let mut text = String::new();
    escape_name_to(why, &mut text);
    Some(json!({
        "level": level,
        "message": { "text": bracketed(&text) },
        "locations": [{
            "physicalLocation": { "artifactLocation": { "uri": uri(&input.name), "index": index } },
        }],
    }))
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Fork | Severity::Loss => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

/// `text` as the text of a message: what is hidden escaped, and nothing in it a link or a placeholder.
fn message(text: &str) -> String {
    bracketed(&escape(text))
}

/// Brackets and braces as sections 3.11.5 and 3.11.6 want them where they mean themselves.
fn bracketed(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '[' | ']' => out.push('\\'),
            '{' | '}' => out.push(c),
            _ => {}
        }
        out.push(c);
    }
    out
}

/// The name of a file as a URI reference, relative where the name is.
fn uri(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 8);
    if name.starts_with('/') {
        out.push_str("file://");
    }
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// `sequence-regression` as `SequenceRegression`.
fn camel(code: &str) -> String {
    let words = code.split('-').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect()
}

/// Tells a finding again in another capture of the same traffic: it depends neither on names of files
/// nor on numbers of frames.
fn fingerprint(finding: &Finding, count: u32) -> String {
    let Finding {
        code,
        session_id,
        incarnation,
        resume,
        ..
    } = finding;
    let resume = resume.unwrap_or(0);
    let text = format!(
        "{code}\0{}\0{incarnation}\0{resume}\0{count}",
        &**session_id
    );
    format!("{:032x}", xxh3_128(text.as_bytes()))
}

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

#[cfg(test)]
mod tests {
    use super::{super::sample, *};
    use serde_json::Value;

    fn log(analysis: &Analysis) -> Value {
        let mut bytes = Vec::new();
        write(analysis, &Style::default(), &mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn a_result_names_its_rule_its_file_and_its_frame() {
        let log = log(&sample::rich());
        let run = &log["runs"][0];
        let result = &run["results"][0];
        assert_eq!(result["ruleId"], "sequence-regression");
        let rule = result["ruleIndex"].as_u64().unwrap() as usize;
        let rules = &run["tool"]["driver"]["rules"];
        assert_eq!(rules[rule]["id"], "sequence-regression");
        assert_eq!(rules[rule]["name"], "SequenceRegression");
        assert_eq!(result["level"], "error");
        let location = &result["locations"][0];
        let file = &location["physicalLocation"]["artifactLocation"];
        assert_eq!(file["uri"], "a.pcapng");
        assert_eq!(run["artifacts"][0]["location"]["uri"], "a.pcapng");
        assert_eq!(
            location["logicalLocations"][0]["name"],
            "frame 1180, tcp.stream eq 9"
        );
        assert_eq!(result["properties"]["frame"], 1180);
        assert_eq!(result["properties"]["wireshark_filter"], "tcp.stream eq 9");
        let info = run["results"].as_array().unwrap().last().unwrap();
        assert_eq!(info["level"], "note");
        let invocation = &run["invocations"][0];
        assert_eq!(invocation["executionSuccessful"], false);
        let notes = invocation["toolExecutionNotifications"].as_array().unwrap();
        assert_eq!(
            (&notes[0]["level"], &notes[1]["level"]),
            (&"warning".into(), &"error".into())
        );
    }

    #[test]
    fn fingerprints_tell_findings_apart_and_do_not_move() {
        let mut analysis = sample::rich();
        let prints = |analysis: &Analysis| -> Vec<String> {
            let log = log(analysis);
            let results = log["runs"][0]["results"].as_array().unwrap().clone();
            let prints = results.iter().map(|result| {
                let print = &result["partialFingerprints"]["primaryLocationLineHash"];
                print.as_str().unwrap().to_owned()
            });
            prints.collect()
        };
        // The same again: another finding.
        let again = analysis.findings[0].clone();
        analysis.findings.push(again);
        let before = prints(&analysis);
        let distinct: std::collections::BTreeSet<_> = before.iter().collect();
        assert_eq!(distinct.len(), before.len());
        analysis.inputs[0].name = "moved/b.pcapng".to_owned();
        for finding in &mut analysis.findings {
            finding.place.frame += 7;
        }
        assert_eq!(prints(&analysis), before);
    }

    #[test]
    fn nothing_of_the_wire_is_a_link_a_placeholder_or_a_scheme() {
        let mut analysis = sample::fork();
        analysis.findings[0].detail = "[x](http://evil) {0} \u{1b}\u{202e}".into();
        analysis.inputs[0].name = "javascript:a b%\u{e4}.pcap".to_owned();
        let log = log(&analysis);
        let result = &log["runs"][0]["results"][0];
        let text = result["message"]["text"].as_str().unwrap();
        assert_eq!(
            text,
            r"\[x\](http://evil) {{0}} \x1b\u{{202e}} (frame 1180, tcp.stream eq 9)"
        );
        let file = &result["locations"][0]["physicalLocation"]["artifactLocation"];
        assert_eq!(file["uri"], "javascript%3Aa%20b%25%C3%A4.pcap");
        assert_eq!(uri("/tmp/a.pcap"), "file:///tmp/a.pcap");
        assert_eq!(uri("-"), "-");
    }
}
