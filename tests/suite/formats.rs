//! What forkscope writes for other tools, held against what they accept: JSON against its schemas,
//! SARIF against OASIS's, JUnit against Jenkins', gauges against the grammar of Prometheus.

use forkscope::{
    model::{
        analysis::Analysis,
        flow::Endpoint,
        verdict::{Severity, Verdict},
    },
    pipeline::{Options, Progress, run},
    report::{
        self, Report, Style, TimeFormat,
        escape::is_hidden,
        schema::{self, Keys},
    },
};
use jsonschema::Validator;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn audit(inputs: &[PathBuf]) -> Analysis {
    let names = inputs.iter().map(|path| path.to_str().unwrap().to_owned());
    let options = Options {
        inputs: names.collect(),
        ..Options::default()
    };
    run(&options, &Progress::default()).unwrap()
}

/// Every capture of fixtures/real by itself, and all of them in one run; what cannot be read, and what is
/// full of hostile text.
static ANALYSES: LazyLock<Vec<(String, Analysis)>> = LazyLock::new(analyses);

fn analyses() -> Vec<(String, Analysis)> {
    let folder = root().join("fixtures/real");
    let mut captures: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none_or(|e| e != "json"))
        .collect();
    captures.sort();
    assert!(captures.len() > 50);
    let mut all: Vec<_> = captures
        .iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, audit(std::slice::from_ref(path)))
        })
        .collect();
    all.push(("all".to_owned(), audit(&captures)));
    // Two that cannot be read at all, beside one that can.
    let some = ["no such file", "Cargo.toml", "fixtures/real/ts04.pcap"];
    let some = some.map(|name| root().join(name));
    all.push(("unreadable".to_owned(), audit(&some)));
    let mut hostile = audit(&[root().join("fixtures/real/ts15.pcap.gz")]);
    spoil(&mut hostile);
    all.push(("hostile".to_owned(), hostile));
    all
}

/// Text that would run, move a cursor, end a string or an element where it is not escaped.
const HOSTILE: &str = "<script>alert(1)</script>]]>\"onload='x' =cmd|' /C calc'!A0 \\ \u{0}\u{1b}[2J\r\n\t\u{7f}\u{9b}\u{202e}\u{200b}\u{feff}\u{fffe}\u{ffff}\u{2028}[a](javascript:b) {0} \\n";

/// Puts hostile text wherever an analysis has text from the wire or from names of files.
fn spoil(analysis: &mut Analysis) {
    let server = Endpoint::Name(HOSTILE.into(), 80);
    for input in &mut analysis.inputs {
        input.name = format!("{HOSTILE}.pcap");
        input.damaged = HOSTILE.into();
    }
    for resume in &mut analysis.resumes {
        resume.session_id = HOSTILE.into();
        resume.last_event_id = HOSTILE.to_owned();
        resume.first_event_id = Some(HOSTILE.to_owned());
        resume.reason = HOSTILE.into();
        resume.method = HOSTILE.to_owned();
        resume.backend_before = Some(HOSTILE.into());
        resume.protocol_version = Some(HOSTILE.into());
        resume.server = Some(server.clone());
        resume.story.push(HOSTILE.into());
    }
    for finding in &mut analysis.findings {
        finding.session_id = HOSTILE.into();
        finding.detail = HOSTILE.into();
        finding.evidence = HOSTILE;
        finding.server = Some(server.clone());
    }
    for session in &mut analysis.sessions {
        session.session_id = HOSTILE.into();
        session.service = HOSTILE.to_owned();
        session.client_name = Some(HOSTILE.into());
    }
    for row in &mut analysis.servers {
        row.server = server.clone();
    }
    for incident in &mut analysis.incidents {
        incident.server = server.clone();
    }
}

fn text(report: &Report, analysis: &Analysis, style: &Style) -> String {
    let mut bytes = Vec::new();
    (report.write)(analysis, style, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn validator(schema: &str) -> Validator {
    let schema: Value = serde_json::from_str(schema).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

/// What `value` breaks of a schema, the first few.
fn complaints(validator: &Validator, value: &Value) -> Vec<String> {
    let errors = validator.iter_errors(value).take(3);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// A spreadsheet runs a cell that begins so; `-1.5` is a number.
fn would_run(cell: &str) -> bool {
    cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err()
}

/// In a terminal nothing moves the cursor, turns the text around or hides some of it, and no cell is a formula:
/// whatever the wire says.
#[test]
fn nothing_runs_in_a_terminal_or_a_spreadsheet() {
    let (mut cells, mut escaped) = (0, 0);
    for (name, analysis) in ANALYSES.iter() {
        for verbose in [false, true] {
            let style = Style {
                verbose,
                ..Style::default()
            };
            let said = text(&report::SUMMARY, analysis, &style);
            let hidden = said.chars().find(|&c| c != '\n' && is_hidden(c));
            assert_eq!(hidden, None, "{name}");
            escaped += said.matches("\\x1b[2J").count();
        }
        let tables = report::FOLDER.iter().chain([&report::EVENTS]);
        for report in tables.filter(|report| report.file.ends_with(".csv")) {
            let table = text(report, analysis, &Style::default());
            let hidden = table.chars().find(|&c| c != '\n' && is_hidden(c));
            assert_eq!(hidden, None, "{name} {}", report.file);
            let mut rows = csv::Reader::from_reader(table.as_bytes());
            for row in rows.records() {
                for cell in &row.unwrap() {
                    cells += 1;
                    assert!(!would_run(cell), "{name} {}: {cell}", report.file);
                }
            }
        }
    }
    assert!(cells > 10_000 && escaped > 10, "{cells} cells, {escaped}");
    assert!(would_run("=cmd|' /C calc'!A0") && !would_run("-12.5") && !would_run("'=1"));
}

#[test]
fn json_keeps_to_its_schemas() {
    let whole = validator(&schema::report(Keys::Closed));
    let lines = [
        (&report::RESUMES_NDJSON, schema::resumes(Keys::Closed)),
        (&report::EVENTS_NDJSON, schema::events(Keys::Closed)),
        (&report::EXCHANGES_NDJSON, schema::exchanges(Keys::Closed)),
    ]
    .map(|(report, schema)| (report, validator(&schema)));
    let mut seen = [0; 4];
    for (name, analysis) in ANALYSES.iter() {
        for time in [TimeFormat::Utc, TimeFormat::Epoch] {
            let style = Style {
                time,
                ..Style::default()
            };
            let report = serde_json::from_str(&text(&report::WHOLE, analysis, &style)).unwrap();
            let bad = complaints(&whole, &report);
            assert!(bad.is_empty(), "{name}: report.json: {bad:#?}");
            seen[0] += 1;
            for ((report, validator), seen) in lines.iter().zip(&mut seen[1..]) {
                for line in text(report, analysis, &style).lines() {
                    let bad = complaints(validator, &serde_json::from_str(line).unwrap());
                    assert!(bad.is_empty(), "{name}: {}: {bad:#?}\n{line}", report.name);
                    *seen += 1;
                }
            }
        }
    }
    assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
}

#[test]
fn the_schemas_refuse_what_is_wrong() {
    let analysis = audit(&[root().join("fixtures/real/ts04.pcap")]);
    let line = text(&report::RESUMES_NDJSON, &analysis, &Style::default());
    let row: Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    let open = validator(&schema::resumes(Keys::Open));
    let closed = validator(&schema::resumes(Keys::Closed));
    assert!(open.is_valid(&row) && closed.is_valid(&row));
    let with = |key: &str, value: Value| {
        let mut row = row.clone();
        row[key] = value;
        row
    };
    for (key, value) in [
        ("verdict", "forket".into()),
        ("frame", "17".into()),
        ("frame", (-1).into()),
        ("gap_ms", "1.000".into()),
        ("resume_time", "yesterday".into()),
        ("findings", "a;b".into()),
        ("findings", vec!["no-such-code"].into()),
    ] {
        assert!(!open.is_valid(&with(key, value)), "{key}");
    }
    let more = with("new_key", 1.into());
    assert!(open.is_valid(&more) && !closed.is_valid(&more));
    let mut less = row.clone();
    less.as_object_mut().unwrap().remove("verdict");
    assert!(!open.is_valid(&less));
}

#[test]
fn sarif_keeps_to_the_schema_of_oasis() {
    let schema = fs::read_to_string(root().join("fixtures/schemas/sarif-2.1.0.json")).unwrap();
    // A bracket that nothing opens: only the laxest dialect of regular expressions takes it. We write no `language`.
    let stray = "[a-zA-Z]{2}]?$";
    assert!(
        schema.contains(stray),
        "the stray bracket is gone: so may this be"
    );
    let validator = validator(&schema.replace(stray, "[a-zA-Z]{2}$"));
    let mut results = 0;
    for (name, analysis) in ANALYSES.iter() {
        let text = text(&report::SARIF, analysis, &Style::default());
        assert_shows_nothing_hidden(name, &text);
        let log: Value = serde_json::from_str(&text).unwrap();
        let bad = complaints(&validator, &log);
        assert!(bad.is_empty(), "{name}: {bad:#?}");
        let run = &log["runs"][0];
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        let artifacts = run["artifacts"].as_array().unwrap();
        let mut prints = BTreeSet::new();
        for result in run["results"].as_array().unwrap() {
            results += 1;
            // What GitHub's code scanning asks for beyond the schema.
            let place = &result["locations"][0]["physicalLocation"];
            assert_eq!(place["region"]["startLine"], 1, "{name}");
            let file = &place["artifactLocation"];
            let index = file["index"].as_u64().unwrap() as usize;
            assert_eq!(artifacts[index]["location"]["uri"], file["uri"], "{name}");
            let rule = result["ruleIndex"].as_u64().unwrap() as usize;
            assert_eq!(rules[rule]["id"], result["ruleId"], "{name}");
            let print = result["partialFingerprints"]["primaryLocationLineHash"].as_str();
            if name != "hostile" {
                assert!(
                    prints.insert(print.unwrap().to_owned()),
                    "{name}: {print:?} twice"
                );
            }
        }
        assert_eq!(
            run["results"].as_array().unwrap().len(),
            analysis.findings.len()
        );
    }
    assert!(results > 100, "{results}");
}

/// Nothing that a terminal, a log or a page would obey: newlines end lines, and that is all.
fn assert_shows_nothing_hidden(name: &str, text: &str) {
    let hidden = text.chars().find(|&c| c != '\n' && is_hidden(c));
    assert_eq!(hidden, None, "{name}");
}

#[test]
fn junit_keeps_to_jenkins_layout() {
    for (name, analysis) in ANALYSES.iter() {
        for fail_from in [None, Some(Severity::Fork), Some(Severity::Info)] {
            let style = Style {
                fail_from,
                ..Style::default()
            };
            let text = text(&report::JUNIT, analysis, &style);
            assert_shows_nothing_hidden(name, &text);
            let suites = junit(&text).unwrap_or_else(|bad| panic!("{name}: {bad}\n{text}"));
            let cases = |suite: &str| suites[suite].iter();
            assert_eq!(cases("inputs").count(), analysis.inputs.len(), "{name}");
            assert_eq!(cases("resumes").count(), analysis.resumes.len(), "{name}");
            let broken = cases("inputs")
                .filter(|outcome| **outcome == "error")
                .count();
            let unreadable = analysis.inputs.iter().filter(|i| i.unreadable.is_some());
            assert_eq!(broken, unreadable.count(), "{name}");
            let failed = suites
                .values()
                .flatten()
                .any(|outcome| outcome == "failure");
            let found = fail_from.is_some_and(|from| {
                let mut findings = analysis.findings.iter();
                findings.any(|finding| finding.severity >= from)
            });
            assert_eq!(failed, found, "{name}: red is what exits with 1");
            if fail_from == Some(Severity::Fork) {
                let forked = analysis.resumes.iter().map(|resume| resume.verdict);
                for (verdict, outcome) in forked.zip(cases("resumes")) {
                    if verdict == Verdict::Forked {
                        assert_eq!(outcome, "failure", "{name}");
                    }
                }
            }
        }
    }
}

/// Elements: within which, the attributes that they must have, and those that they may have.
type Layout = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

const LAYOUT: &[Layout] = &[
    (
        "testsuites",
        &[""],
        &[],
        &["name", "time", "tests", "failures", "errors"],
    ),
    (
        "testsuite",
        &["testsuites"],
        &["name", "tests", "failures", "errors"],
        &["skipped", "timestamp", "time", "hostname", "id", "package"],
    ),
    (
        "testcase",
        &["testsuite"],
        &["name"],
        &["classname", "time", "group"],
    ),
    ("failure", &["testcase"], &[], &["type", "message"]),
    ("error", &["testcase"], &[], &["type", "message"]),
    ("skipped", &["testcase"], &[], &["type", "message"]),
    ("system-out", &["testcase"], &[], &[]),
];

/// The outcomes of the cases by suite; an error where the document is not what Jenkins' schema
/// (fixtures/schemas/junit-10.xsd) allows: elements within which, attributes of which, counts that agree.
fn junit(text: &str) -> Result<BTreeMap<String, Vec<String>>, String> {
    use quick_xml::events::{BytesStart, Event};
    let mut reader = quick_xml::Reader::from_str(text);
    let mut open: Vec<String> = vec![String::new()];
    let mut suites = BTreeMap::new();
    let mut claimed: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut suite = String::new();
    let mut enter = |start: &BytesStart<'_>, parent: &str| -> Result<String, String> {
        let name = AsRef::<str>::as_ref(&start.name()).to_owned();
        let mut layout = LAYOUT.iter();
        let &(_, parents, must, can) = layout
            .find(|(element, ..)| *element == name)
            .ok_or_else(|| format!("<{name}>"))?;
        if !parents.contains(&parent) {
            return Err(format!("<{name}> within <{parent}>"));
        }
        let mut attributes = BTreeMap::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let key = AsRef::<str>::as_ref(&attribute.key).to_owned();
            if !must.contains(&key.as_str()) && !can.contains(&key.as_str()) {
                return Err(format!("{key} on <{name}>"));
            }
            let value = quick_xml::escape::unescape(&attribute.value).map_err(|e| e.to_string())?;
            legal(&value)?;
            attributes.insert(key, value.into_owned());
        }
        if let Some(missing) = must.iter().find(|&&key| !attributes.contains_key(key)) {
            return Err(format!("<{name}> without {missing}"));
        }
        match name.as_str() {
            "testsuites" => {
                claimed.insert(String::new(), attributes);
            }
            "testsuite" => {
                suite.clone_from(&attributes["name"]);
                suites.insert(suite.clone(), Vec::new());
                claimed.insert(suite.clone(), attributes);
            }
            "testcase" => {
                let cases: &mut Vec<String> = suites.get_mut(&suite).unwrap();
                cases.push("passed".to_owned());
            }
            "failure" | "error" | "skipped" => {
                let case = suites.get_mut(&suite).unwrap().last_mut().unwrap();
                if case != "passed" {
                    return Err(format!("{case} and {name}"));
                }
                case.clone_from(&name);
            }
            _ => {}
        }
        Ok(name)
    };
    loop {
        let parent = open.last().unwrap().clone();
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(start) => {
                let name = enter(&start, &parent)?;
                open.push(name);
            }
            Event::Empty(start) => {
                enter(&start, &parent)?;
            }
            Event::End(_) => {
                open.pop();
            }
            Event::Text(said) => {
                legal(&said)?;
                if !said.trim().is_empty() && !["failure", "system-out"].contains(&&*parent) {
                    return Err(format!("text in <{parent}>: {}", &*said));
                }
            }
            Event::GeneralRef(reference) => {
                let name = &*reference;
                if !["amp", "lt", "gt", "quot", "apos"].contains(&name) {
                    return Err(format!("&{name};"));
                }
            }
            Event::Decl(_) => {}
            Event::Eof => break,
            other => return Err(format!("{other:?}")),
        }
    }
    let count = |suite: &str, outcome: &str| {
        let cases = suites
            .iter()
            .filter(|(name, _)| suite.is_empty() || *name == suite);
        let outcomes = cases.flat_map(|(_, outcomes)| outcomes);
        let counted = outcomes.filter(|o| outcome.is_empty() || *o == outcome);
        counted.count().to_string()
    };
    for (suite, claims) in &claimed {
        for (attribute, outcome) in [
            ("tests", ""),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ] {
            let counted = count(suite, outcome);
            if claims.get(attribute).is_some_and(|claim| *claim != counted) {
                return Err(format!(
                    "{attribute} of {suite:?} are {counted}: {claims:?}"
                ));
            }
        }
    }
    Ok(suites)
}

/// Whether every character is one that XML 1.0 has.
fn legal(text: &str) -> Result<(), String> {
    let bad = text.chars().find(|&c| {
        (c < ' ' && !['\n', '\t', '\r'].contains(&c)) || matches!(c, '\u{fffe}' | '\u{ffff}')
    });
    bad.map_or(Ok(()), |c| Err(format!("{c:?}")))
}

#[test]
fn the_check_of_junit_refuses_what_is_wrong() {
    let analysis = audit(&[root().join("fixtures/real/ts04.pcap")]);
    let good = text(&report::JUNIT, &analysis, &Style::default());
    assert!(junit(&good).is_ok());
    for (from, to) in [
        ("</testcase>", ""),
        ("failures=\"1\"", "failures=\"2\""),
        ("<failure", "<failed"),
        (" name=\"", " label=\""),
        ("<system-out>", "<system-out>\u{1}"),
        ("<system-out>", "<system-out>&"),
        ("<system-out>", "<skipped/><system-out>"),
        ("<testsuite ", "stray <testsuite "),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        assert!(junit(&bad).is_err(), "{from} as {to}");
    }
}

/// The schema itself, where libxml2 is there to read it.
#[test]
fn junit_validates_by_xmllint() {
    let present = Command::new("xmllint").arg("--version").output();
    if present.is_err() {
        assert!(
            std::env::var("FORKSCOPE_RECIPES").as_deref() != Ok("required"),
            "xmllint is not installed"
        );
        let _ = writeln!(io::stderr(), "skipped: xmllint is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (name, analysis) in ANALYSES.iter() {
        let path = folder.path().join(format!("{name}.xml"));
        fs::write(&path, text(&report::JUNIT, analysis, &Style::default())).unwrap();
        files.push(path);
    }
    let output = Command::new("xmllint")
        .args(["--noout", "--nonet", "--schema"])
        .arg(root().join("fixtures/schemas/junit-10.xsd"))
        .args(files)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn gauges_keep_to_the_grammar() {
    for (name, analysis) in ANALYSES.iter() {
        let text = text(&report::PROMETHEUS, analysis, &Style::default());
        assert_shows_nothing_hidden(name, &text);
        let samples = exposition(&text).unwrap_or_else(|bad| panic!("{name}: {bad}\n{text}"));
        let sum = |family: &str, label: &str| -> f64 {
            let samples = samples.iter();
            samples
                .filter(|((name, _), _)| name == family)
                .filter(|((_, labels), _)| label.is_empty() || labels.values().any(|v| v == label))
                .map(|(_, value)| value)
                .sum()
        };
        let resumes = analysis.resumes.len() as f64;
        assert_eq!(sum("forkscope_resumes", ""), resumes, "{name}");
        assert_eq!(sum("forkscope_resumes_by_cause", ""), resumes, "{name}");
        let forked = analysis
            .resumes
            .iter()
            .filter(|r| r.verdict == Verdict::Forked);
        assert_eq!(
            sum("forkscope_resumes", "forked"),
            forked.count() as f64,
            "{name}"
        );
        let findings = analysis.findings.len() as f64;
        assert_eq!(sum("forkscope_findings", ""), findings, "{name}");
        assert_eq!(sum("forkscope_findings_by_code", ""), findings, "{name}");
        assert_eq!(
            sum("forkscope_inputs", ""),
            analysis.inputs.len() as f64,
            "{name}"
        );
        let lost = analysis.resumes.iter().map(|r| r.requests.lost);
        assert_eq!(
            sum("forkscope_lost_requests", ""),
            f64::from(lost.sum::<u32>()),
            "{name}"
        );
        for (family, labels) in samples.keys() {
            if let Some(server) = labels.get("server").filter(|_| name == "hostile") {
                assert!(
                    server.starts_with("<script>") && server.ends_with(":80")
                        || server == "unknown",
                    "{family}: {server}"
                );
            }
        }
    }
}

/// Samples by name and labels.
type Samples = BTreeMap<(String, BTreeMap<String, String>), f64>;

/// Reads the text format (version 0.0.4), as strictly as its documentation and `promtool check
/// metrics`: HELP and TYPE once a family and before its samples, families in one piece, labels escaped,
/// one set of names of labels a family, no sample twice, names as the conventions want them, a newline at the end.
fn exposition(text: &str) -> Result<Samples, String> {
    let mut samples = Samples::new();
    let mut done = BTreeSet::new();
    let mut labels_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // The family in progress, and how far its head is.
    let mut family = String::new();
    let mut typed = false;
    if !text.ends_with('\n') {
        return Err("no newline at the end".to_owned());
    }
    for line in text.lines() {
        let wrong = |why: &str| Err(format!("{why}: {line}"));
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let Some((name, help)) = rest.split_once(' ') else {
                return wrong("HELP without text");
            };
            if !is_name(name) {
                return wrong("no name");
            }
            if !name.starts_with("forkscope_") {
                return wrong("no namespace");
            }
            if ["_total", "_count", "_sum", "_bucket"]
                .iter()
                .any(|end| name.ends_with(end))
            {
                return wrong("the name of no gauge");
            }
            if help.is_empty() || !escapes(help, &['\\', 'n']) {
                return wrong("bad help");
            }
            if !family.is_empty() && !labels_of.contains_key(&family) {
                return wrong("the family before has no samples");
            }
            if !done.insert(name.to_owned()) {
                return wrong("a family twice");
            }
            name.clone_into(&mut family);
            typed = false;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            if rest.split_once(' ') != Some((family.as_str(), "gauge")) || typed {
                return wrong("TYPE in a wrong place");
            }
            typed = true;
        } else {
            let (name, labels, value) = sample(line)?;
            if name != family || !typed {
                return wrong("a sample outside of its family");
            }
            let names: BTreeSet<_> = labels.keys().cloned().collect();
            if *labels_of
                .entry(name.clone())
                .or_insert_with(|| names.clone())
                != names
            {
                return wrong("other labels than the sample before");
            }
            if samples.insert((name, labels), value).is_some() {
                return wrong("a sample twice");
            }
        }
    }
    Ok(samples)
}

/// A name, its labels and its value.
fn sample(line: &str) -> Result<(String, BTreeMap<String, String>, f64), String> {
    let wrong = |why: &str| format!("{why}: {line}");
    let end = line.find(['{', ' ']).ok_or_else(|| wrong("no value"))?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name) {
        return Err(wrong("no name"));
    }
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, behind) = rest.split_once("=\"").ok_or_else(|| wrong("no label"))?;
            let proper = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if label.is_empty()
                || label.starts_with(|c: char| c.is_ascii_digit())
                || label.starts_with("__")
                || !label.chars().all(proper)
            {
                return Err(wrong("no name of a label"));
            }
            let mut value = String::new();
            let mut letters = behind.char_indices();
            let end = loop {
                match letters.next() {
                    Some((at, '"')) => break at + 1,
                    Some((_, '\\')) => value.push(match letters.next() {
                        Some((_, '\\')) => '\\',
                        Some((_, '"')) => '"',
                        Some((_, 'n')) => '\n',
                        _ => return Err(wrong("a wrong escape")),
                    }),
                    Some((_, c)) => value.push(c),
                    None => return Err(wrong("an open label")),
                }
            };
            if labels.insert(label.to_owned(), value).is_some() {
                return Err(wrong("a label twice"));
            }
            rest = &behind[end..];
            match rest.chars().next() {
                Some(',') => rest = &rest[1..],
                Some('}') => break,
                _ => return Err(wrong("labels do not end")),
            }
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').ok_or_else(|| wrong("no value"))?;
    // No timestamp: the textfile collector refuses them.
    let value = value.parse().map_err(|_| wrong("no number"))?;
    Ok((name.to_owned(), labels, value))
}

fn is_name(name: &str) -> bool {
    let proper = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    name.starts_with(|c: char| proper(c) && !c.is_ascii_digit()) && name.chars().all(proper)
}

/// Whether every backslash of `text` begins one of these escapes.
fn escapes(text: &str, of: &[char]) -> bool {
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        if c == '\\' && !letters.next().is_some_and(|c| of.contains(&c)) {
            return false;
        }
    }
    true
}

#[test]
fn the_check_of_gauges_refuses_what_is_wrong() {
    let head = "# HELP forkscope_a A.\n# TYPE forkscope_a gauge\n";
    let good = format!("{head}forkscope_a{{b=\"\\\\\\\"\\n\"}} 1\nforkscope_a{{b=\"c\"}} 0.5\n");
    assert_eq!(exposition(&good).map(|samples| samples.len()), Ok(2));
    for bad in [
        good.trim_end().to_owned(),
        "forkscope_a 1\n".to_owned(),
        format!("{head}{head}forkscope_a 1\n"),
        format!("{head}forkscope_b 1\n"),
        format!("{head}forkscope_a 1\nforkscope_a 1\n"),
        format!("{head}forkscope_a 1 1700000000\n"),
        format!("{head}forkscope_a one\n"),
        format!("{head}forkscope_a{{b=\"\\x\"}} 1\n"),
        format!("{head}forkscope_a{{b=\"c}} 1\n"),
        format!("{head}forkscope_a{{b=\"c\",b=\"d\"}} 1\n"),
        format!("{head}forkscope_a{{1=\"c\"}} 1\n"),
        format!("{head}forkscope_a{{b=\"c\"}} 1\nforkscope_a{{d=\"c\"}} 1\n"),
        head.replace("_a", "_a_total") + "forkscope_a_total 1\n",
        head.replace("gauge", "counter") + "forkscope_a 1\n",
        format!("{head}{}forkscope_b 1\n", head.replace("_a", "_b")),
    ] {
        assert!(exposition(&bad).is_err(), "{bad}");
    }
}

/// The same analysis, the same bytes; and where there is nothing, every format is still a document.
#[test]
fn formats_are_stable_and_never_empty() {
    let style = Style::default();
    let path = [root().join("fixtures/real/ts15.pcap.gz")];
    let (one, two) = (audit(&path), audit(&path));
    for report in [&report::PROMETHEUS, &report::JUNIT, &report::SARIF] {
        assert_eq!(text(report, &one, &style), text(report, &two, &style));
        assert!(text(report, &Analysis::default(), &style).ends_with('\n'));
    }
}

/// The options that choose them, and that a test case fails where the exit code says so.
#[test]
fn the_command_line_chooses_them() {
    let output = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_forkscope"))
            .args(["audit", "-q", "fixtures/real/ts04.pcap", "--format"])
            .args(arguments)
            .current_dir(root())
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    for (fail_on, code) in [("fork", 1), ("warning", 1), ("never", 0)] {
        let (exit, document) = output(&["junit", "--fail-on", fail_on]);
        assert_eq!(exit, Some(code), "{fail_on}");
        assert_eq!(document.contains("<failure "), code == 1, "{fail_on}");
    }
    let (exit, document) = output(&["sarif"]);
    assert_eq!(exit, Some(1));
    let log: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let (exit, document) = output(&["prometheus"]);
    assert_eq!(exit, Some(1));
    assert!(exposition(&document).is_ok_and(|samples| !samples.is_empty()));
}
