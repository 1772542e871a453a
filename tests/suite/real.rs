//! Every capture of fixtures/real, held against its known answer.
//!
//! A truth lists per resume what a correct reader of that file may say. Resumes match on session
//! id, cursor and time (within half a second, the nearest first); one that the truth does not
//! know is a failure. Where `events_exact` is set, the ids of the events of each exchange are
//! compared in order.

use forkscope::{
    model::analysis::{Analysis, Resume},
    pipeline::{Options, Progress, run},
    report::{SUMMARY, Style},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

#[test]
fn every_real_capture_gets_its_known_answer() {
    let mut bad = String::new();
    let mut count = 0;
    for (name, truth) in truths() {
        count += 1;
        let analysis = audit(&truth);
        let mut problems = check(&truth, &analysis);
        problems.extend(overall(&name, &analysis));
        problems.extend(beyond_a_screen(&analysis));
        if let Some((_, why)) = BEYOND.iter().find(|(beyond, _)| *beyond == name) {
            if problems.is_empty() {
                let _ = writeln!(bad, "{name}: no longer beyond it ({why})");
            }
            continue;
        }
        for problem in problems {
            let _ = writeln!(bad, "{name}: {problem}");
        }
    }
    assert!(count > 0, "no captures");
    assert!(bad.is_empty(), "\n{bad}");
}

/// Widths at which the summary takes more than the screen that it is to keep to, or a line more than its width.
fn beyond_a_screen(analysis: &Analysis) -> Vec<String> {
    let mut problems = Vec::new();
    for width in [80, 120] {
        let style = Style {
            width,
            ..Style::default()
        };
        let mut bytes = Vec::new();
        (SUMMARY.write)(analysis, &style, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (lines, widest) = (
            text.lines().count(),
            text.lines().map(|line| line.chars().count()).max(),
        );
        if lines > style.height || widest > Some(width) {
            problems.push(format!(
                "the summary has {lines} lines, the widest {widest:?} of {width}"
            ));
        }
    }
    problems
}

/// The two halves of a rotated capture are one body of evidence.
#[test]
fn rotated_files_are_judged_as_one() {
    let mut options = Options::default();
    // In the wrong order: files join in order of time.
    for half in ["pv_rotated_1.pcap", "pv_rotated_0.pcap"] {
        options
            .inputs
            .push(folder().join(half).to_str().unwrap().to_owned());
    }
    let analysis = run(&options, &Progress::default()).unwrap();
    let text = fs::read_to_string(folder().join("py02_resume_uuid_v2.truth.json")).unwrap();
    let truth: Value = serde_json::from_str(&text).unwrap();
    let bad = check(&truth, &analysis);
    assert!(bad.is_empty(), "{bad:#?}");
}

/// The order in which inputs are named changes nothing, not even for two copies of one conversation.
#[test]
fn inputs_named_in_another_order_say_the_same() {
    let with = |names: [&str; 2]| {
        let options = Options {
            inputs: names
                .map(|name| folder().join(name).to_str().unwrap().to_owned())
                .to_vec(),
            ..Options::default()
        };
        crate::talk::expect::fingerprint(&run(&options, &Progress::default()).unwrap())
    };
    let one = with(["tsfmt_rawip.pcap", "tsfmt_bigendian.pcap"]);
    assert!(one.contains("resume"), "nothing to compare: {one}");
    assert_eq!(one, with(["tsfmt_bigendian.pcap", "tsfmt_rawip.pcap"]));
}

/// Threads change nothing.
#[test]
fn one_thread_and_many_say_the_same() {
    let name = folder().join("tsfmt_merged.pcapng");
    let with = |jobs| {
        let options = Options {
            inputs: vec![name.to_str().unwrap().to_owned()],
            jobs,
            ..Options::default()
        };
        crate::talk::expect::fingerprint(&run(&options, &Progress::default()).unwrap())
    };
    let one = with(1);
    assert!(one.contains("resume"), "nothing to compare: {one}");
    assert_eq!(one, with(4));
}

/// The comparison itself finds what is wrong.
#[test]
fn unreported_and_unknown_resumes_are_failures() {
    let truth: Value = serde_json::from_str(
        r#"{"sessions": [{"id": "s", "streams": [], "resumes": [
            {"last_event_id": "1", "t": 5.0, "verdict": "continued", "codes": [], "not_codes": []},
            {"last_event_id": "2", "t": 6.0, "verdict": "absent|continued", "codes": [], "not_codes": []}
        ]}]}"#,
    )
    .unwrap();
    let bad = check(&truth, &Analysis::default());
    assert_eq!(bad, ["s after 1 at 5.0: not reported, want continued"]);
}

/// The captures with their truths, by name.
fn truths() -> Vec<(String, Value)> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".truth.json"))
        .collect();
    paths.sort();
    let only = std::env::var("FORKSCOPE_REAL").unwrap_or_default();
    paths
        .iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            let name = name.trim_end_matches(".truth.json").to_owned();
            (
                name,
                serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap(),
            )
        })
        .filter(|(name, _)| name.contains(&only))
        .collect()
}

fn audit(truth: &Value) -> Analysis {
    let path = folder().join(truth["capture"].as_str().unwrap());
    assert!(path.exists(), "{} is missing", path.display());
    let key_logs = truth["keylog"].as_str().map(|name| folder().join(name));
    let options = Options {
        inputs: vec![path.to_str().unwrap().to_owned()],
        jobs: 1,
        key_logs: key_logs.into_iter().collect(),
        ..Options::default()
    };
    run(&options, &Progress::default()).unwrap()
}

/// What a capture shows as a whole: hardly any shows an incident or a timer.
fn overall(name: &str, analysis: &Analysis) -> Vec<String> {
    let (incidents, timers) = match name {
        // Twenty clients of two servers whose streams are cut at random, several a second.
        "ts15" => (2, 0),
        // An nginx with proxy_read_timeout 5s.
        "ts11" => (0, 1),
        _ => (0, 0),
    };
    let mut bad = Vec::new();
    if analysis.incidents.len() != incidents {
        bad.push(format!("incidents: {:?}", analysis.incidents));
    }
    if analysis.timers.len() != timers {
        bad.push(format!("timers: {:?}", analysis.timers));
    }
    let lives = analysis.servers.iter().find(|row| row.threshold.is_some());
    bad.extend(lives.map(|row| format!("threshold: {row:?}")));
    bad
}

fn check(truth: &Value, analysis: &Analysis) -> Vec<String> {
    let mut bad = Vec::new();
    let unreadable = truth["unreadable"].as_bool().unwrap_or(false);
    for input in &analysis.inputs {
        if let (Some(why), false) = (&input.unreadable, unreadable) {
            bad.push(format!("unreadable: {why}"));
        }
    }
    let sessions = list(truth, "sessions");
    if sessions.is_empty() {
        for session in &analysis.sessions {
            bad.push(format!("session {}, want none", session.session_id));
        }
        for finding in &analysis.findings {
            bad.push(format!(
                "finding {} ({}), want none",
                finding.code, finding.detail
            ));
        }
    }
    resumes(sessions, analysis, &mut bad);
    if truth["events_exact"].as_bool().unwrap_or(false) {
        for session in sessions {
            events(session, analysis, &mut bad);
        }
    }
    bad
}

fn resumes(sessions: &[Value], analysis: &Analysis, bad: &mut Vec<String>) {
    let wants: Vec<(&str, &Value)> = sessions
        .iter()
        .flat_map(|s| list(s, "resumes").iter().map(move |r| (text(s, "id"), r)))
        .collect();
    let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
    for (w, (session, want)) in wants.iter().enumerate() {
        for (g, got) in analysis.resumes.iter().enumerate() {
            if *got.session_id == **session && got.last_event_id == text(want, "last_event_id") {
                let distance = want["t"]
                    .as_f64()
                    .map_or(0.0, |t| (seconds(got.resume_time.nanos()) - t).abs());
                if distance < 0.5 {
                    pairs.push((distance, w, g));
                }
            }
        }
    }
    // The nearest first: a client may ask again within half a second.
    pairs.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let mut matched: BTreeMap<usize, usize> = BTreeMap::new();
    let mut used = vec![false; analysis.resumes.len()];
    for (_, w, g) in pairs {
        if !used[g] && !matched.contains_key(&w) {
            matched.insert(w, g);
            used[g] = true;
        }
    }
    for (w, (session, want)) in wants.iter().enumerate() {
        let tag = format!(
            "{session} after {} at {}",
            text(want, "last_event_id"),
            want["t"]
        );
        let allowed: Vec<&str> = text(want, "verdict").split('|').collect();
        match matched.get(&w) {
            None if allowed.contains(&"absent") => {}
            None => bad.push(format!(
                "{tag}: not reported, want {}",
                text(want, "verdict")
            )),
            Some(g) => {
                for problem in compare(want, &allowed, &analysis.resumes[*g]) {
                    bad.push(format!(
                        "{tag}: {problem} ({})",
                        analysis.resumes[*g].reason
                    ));
                }
            }
        }
    }
    for (g, got) in analysis.resumes.iter().enumerate() {
        if !used[g] {
            bad.push(format!(
                "{} after {} at {}: reported {}, unknown to the truth",
                got.session_id,
                got.last_event_id,
                seconds(got.resume_time.nanos()),
                got.verdict
            ));
        }
    }
}

fn compare(want: &Value, allowed: &[&str], got: &Resume) -> Vec<String> {
    let mut bad = Vec::new();
    if !allowed.contains(&got.verdict.name()) {
        bad.push(format!(
            "verdict {}, want {}",
            got.verdict,
            allowed.join("|")
        ));
    }
    for code in list(want, "codes").iter().filter_map(Value::as_str) {
        if !got.findings.contains(&code) {
            bad.push(format!("lacks {code}"));
        }
    }
    for code in list(want, "not_codes").iter().filter_map(Value::as_str) {
        if got.findings.contains(&code) {
            bad.push(format!("has {code}"));
        }
    }
    bad
}

fn events(session: &Value, analysis: &Analysis, bad: &mut Vec<String>) {
    for stream in list(session, "streams") {
        let want: Vec<&str> = list(stream, "event_ids")
            .iter()
            .map(|id| id.as_str().unwrap_or_default())
            .collect();
        let Some((client, server)) = text(stream, "conn").split_once("->") else {
            continue;
        };
        if want.is_empty() {
            continue;
        }
        let opened = stream["t_open"].as_f64().unwrap();
        let got: Vec<Vec<&str>> = analysis
            .exchanges
            .iter()
            .filter(|x| !x.events.is_empty())
            .filter(|x| {
                x.request.as_ref().is_some_and(|r| {
                    &*r.method == text(stream, "method")
                        && r.last_event_id.as_deref().unwrap_or_default()
                            == text(stream, "last_event_id")
                        && (seconds(r.time.nanos()) - opened).abs() < 0.5
                }) && x.client.as_ref().is_some_and(|c| c.to_string() == client)
                    && x.server.as_ref().is_some_and(|s| s.to_string() == server)
            })
            .map(|x| {
                x.events
                    .iter()
                    .map(|e| e.id.map_or("", |id| x.text(id)))
                    .collect()
            })
            .collect();
        if !got.contains(&want) {
            bad.push(format!(
                "events of {} {client}->{server} at {opened}: {got:?}, want {want:?}",
                text(stream, "method")
            ));
        }
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn seconds(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/real")
}

/// Captures whose answer takes more than the audit knows, and what. Each is held to be wrong still,
/// so that the list cannot outlive its reasons.
const BEYOND: &[(&str, &str)] = &[];
