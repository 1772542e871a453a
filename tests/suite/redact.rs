//! `--redact`: no report of any fixture holds a secret of it, and nothing else changes.
//!
//! Secrets are gathered from the captures: session ids, hosts, what is no number in event ids, credentials,
//! names and payload. The same search finds them in the reports that hide nothing.

use crate::{
    talk::{model::Talk, render_har, tcp::packets},
    talks::{options, pcap, talks},
};
use forkscope::{
    finding,
    model::{analysis::Analysis, flow::Endpoint, prose::Secret},
    pipeline::{Options, Progress, run},
    redact::Key,
    report::{
        self, Report, Style,
        table::{
            Column, Events, Exchanges, Findings, Incidents, Inputs, Resumes, Segments, Servers,
            Sessions, Shares, Table, Timers,
        },
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::LazyLock,
};

const KEY: &[u8] = b"a key of the tests, no secret";

fn key() -> Key {
    Key::from_bytes(KEY).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Captures of fixtures/real, with what is in them as bytes.
pub(crate) fn real() -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(root().join("fixtures/real"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none_or(|e| e != "json"))
        .collect();
    paths.sort();
    assert!(paths.len() > 50);
    paths
}

pub(crate) fn unpacked(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    let mut out = Vec::new();
    match path.extension().and_then(|e| e.to_str()) {
        Some("gz") => {
            let mut packed = flate2::read::MultiGzDecoder::new(&*bytes);
            packed.read_to_end(&mut out).unwrap();
        }
        Some("zst") => out = zstd::decode_all(&*bytes).unwrap(),
        _ => out = bytes,
    }
    out
}

/// Every report there is.
fn reports() -> Vec<(&'static str, &'static Report, Style)> {
    let plain = Style::default();
    let verbose = Style {
        verbose: true,
        ..Style::default()
    };
    let folder = report::FOLDER
        .iter()
        .map(|report| (report.file, report, plain));
    let others = [
        ("events.csv", &report::EVENTS, plain),
        ("events.ndjson", &report::EVENTS_NDJSON, plain),
        ("exchanges.csv", &report::EXCHANGES, plain),
        ("exchanges.ndjson", &report::EXCHANGES_NDJSON, plain),
        ("resumes.ndjson", &report::RESUMES_NDJSON, plain),
        ("prometheus", &report::PROMETHEUS, plain),
        ("junit", &report::JUNIT, plain),
        ("sarif", &report::SARIF, plain),
        ("summary", &report::SUMMARY, plain),
        ("summary -v", &report::SUMMARY, verbose),
    ];
    folder.chain(others).collect()
}

fn text(report: &Report, analysis: &Analysis, style: &Style) -> String {
    let mut bytes = Vec::new();
    (report.write)(analysis, style, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// A fixture, analysed with and without names hidden.
struct Case {
    name: String,
    raw: Vec<u8>,
    /// The folder that it lies in, which its names in reports begin with.
    folder: String,
    shown: Analysis,
    hidden: Analysis,
}

fn case(name: String, path: &Path, raw: Vec<u8>, options: Options) -> Case {
    let options = Options {
        inputs: vec![path.to_str().unwrap().to_owned()],
        ..options
    };
    let hiding = Options {
        redact: Some(key()),
        ..options.clone()
    };
    Case {
        name,
        raw,
        folder: path.parent().unwrap().to_str().unwrap().to_owned(),
        shown: run(&options, &Progress::default()).unwrap(),
        hidden: run(&hiding, &Progress::default()).unwrap(),
    }
}

fn each_case(mut check: impl FnMut(&Case)) {
    for path in real() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        check(&case(name, &path, unpacked(&path), Options::default()));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a talk of alice at acme");
    let mut of_talk = |talk: &Talk, road: &str, bytes: Vec<u8>| {
        fs::write(&path, &bytes).unwrap();
        let name = format!("{} as {road}", talk.name);
        check(&case(name, &path, bytes, options(talk)));
    };
    for talk in talks() {
        of_talk(&talk, "pcap", pcap(&talk, &packets(&talk)));
        if talk.har_skip.is_none() {
            of_talk(&talk, "HAR", render_har::render(&talk));
        }
    }
}

/// A text that no redacted report may hold.
pub(crate) type Secrets = BTreeSet<(&'static str, String)>;

/// Shorter ones stand in any text.
const LONG: usize = 4;

pub(crate) fn secrets(folder: &str, raw: &[u8], shown: &Analysis) -> Secrets {
    let mut all = Secrets::new();
    let mut add = |kind, text: &str| {
        if text.len() >= LONG {
            all.insert((kind, text.to_owned()));
        }
    };
    add("folder", folder);
    for exchange in &shown.exchanges {
        for end in [&exchange.client, &exchange.server].into_iter().flatten() {
            host(end, &mut add);
        }
        for id in [exchange.asked_session(), exchange.given_session()] {
            // A talk may name a session by a number, and numbers are everywhere.
            if let Some(id) = id.filter(|id| id.bytes().any(|b| !b.is_ascii_digit())) {
                payload_of("session", id, &mut add);
            }
        }
        if let Some(request) = &exchange.request {
            let name = request
                .host
                .rsplit_once(':')
                .map_or(&*request.host, |(name, _)| name);
            payload_of("host", name, &mut add);
            if let Some(agent) = &request.user_agent {
                payload_of("agent", agent, &mut add);
            }
            event_id(
                request.last_event_id.as_deref().unwrap_or_default(),
                &mut add,
            );
        }
        if let Some(response) = &exchange.response {
            for name in &response.named {
                payload_of("backend", &name.name, &mut add);
            }
        }
        for event in &exchange.events {
            if let Some(id) = event.id {
                event_id(exchange.text(id), &mut add);
            }
        }
    }
    for session in &shown.sessions {
        for name in [&session.client_name, &session.server_name]
            .into_iter()
            .flatten()
        {
            payload(name, &mut add);
        }
    }
    for opaque in &shown.opaque {
        if let Some(server) = &opaque.server {
            host(server, &mut add);
        }
    }
    credentials(raw, &mut add);
    for json in data_lines(raw) {
        if let Ok(json) = serde_json::from_slice(json) {
            strings(&json, &mut add);
        }
    }
    all
}

fn host(end: &Endpoint, add: &mut impl FnMut(&'static str, &str)) {
    // The address that no server has, of an exchange that was never sent.
    if end.host() != "0.0.0.0" {
        payload_of("host", &end.host(), add);
    }
}

/// What is surely no number: words that have letters beyond hexadecimal, and whole UUIDs and ULIDs.
fn event_id(id: &str, add: &mut impl FnMut(&'static str, &str)) {
    let hex = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
    for word in id.split(|c: char| !c.is_ascii_alphanumeric()) {
        if !hex(word) && word.chars().filter(char::is_ascii_alphabetic).count() > 1 {
            payload_of("event id", word, add);
        }
    }
    for word in id
        .split(['_', '/', ':', '|'])
        .filter(|word| word.len() > 20)
    {
        if !word.bytes().all(|byte| byte.is_ascii_digit()) {
            add("event id", word);
        }
    }
    if id.len() >= 36 || (id.len() > 20 && !id.bytes().all(|byte| byte.is_ascii_digit())) {
        add("event id", id);
    }
}

fn credentials(raw: &[u8], add: &mut impl FnMut(&'static str, &str)) {
    let text = String::from_utf8_lossy(raw);
    for line in text.split(['\r', '\n']) {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if ["authorization", "cookie", "set-cookie", "x-api-key"]
            .contains(&name.to_ascii_lowercase().as_str())
        {
            add("credential", value.trim());
        }
    }
    let Ok(har) = serde_json::from_str::<serde_json::Value>(&text) else {
        return;
    };
    for entry in har["log"]["entries"].as_array().into_iter().flatten() {
        for side in ["request", "response"] {
            for header in entry[side]["headers"].as_array().into_iter().flatten() {
                let name = header["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_ascii_lowercase();
                if ["authorization", "cookie", "set-cookie"].contains(&name.as_str()) {
                    add("credential", header["value"].as_str().unwrap_or_default());
                }
            }
        }
    }
}

/// The data of events as they stand in packets.
fn data_lines(raw: &[u8]) -> impl Iterator<Item = &[u8]> {
    raw.split(|byte| *byte == b'\n')
        .filter_map(|line| line.strip_prefix(b"data: "))
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn strings(json: &serde_json::Value, add: &mut impl FnMut(&'static str, &str)) {
    match json {
        serde_json::Value::String(text) => payload(text, add),
        serde_json::Value::Array(items) => items.iter().for_each(|item| strings(item, add)),
        serde_json::Value::Object(members) => {
            for (name, value) in members {
                if !["jsonrpc", "method", "protocolVersion"].contains(&name.as_str()) {
                    strings(value, add);
                }
            }
        }
        _ => {}
    }
}

fn payload(text: &str, add: &mut impl FnMut(&'static str, &str)) {
    payload_of("payload", text, add);
}

/// Words that every report has are no secret for standing in a capture as well.
fn payload_of(kind: &'static str, text: &str, add: &mut impl FnMut(&'static str, &str)) {
    if text.len() >= LONG && !OWN_WORDS.contains(text) {
        add(kind, text);
    }
}

/// What reports say by themselves: the docs, and the reports of nothing.
static OWN_WORDS: LazyLock<String> = LazyLock::new(|| {
    let mut words = String::new();
    for (name, report, style) in reports() {
        words.push_str(name);
        words.push_str(&text(report, &Analysis::default(), &style));
    }
    for rule in finding::ALL {
        words.push_str(rule.code);
        words.push_str(rule.doc);
    }
    for page in ["docs/reports.md", "docs/findings.md", "docs/audit.md"] {
        words.push_str(&fs::read_to_string(root().join(page)).unwrap());
    }
    words
});

/// Which secrets the reports of an analysis hold, and which report.
fn found(secrets: &Secrets, analysis: &Analysis) -> Vec<(&'static str, String, &'static str)> {
    let mut found = Vec::new();
    for (name, report, style) in reports() {
        let text = text(report, analysis, &style);
        for (kind, secret) in secrets {
            if text.contains(secret.as_str()) {
                found.push((*kind, secret.clone(), name));
            }
        }
    }
    found
}

#[test]
fn no_report_of_any_fixture_holds_a_secret_of_it() {
    let mut bad = Vec::new();
    let mut hidden: BTreeMap<&str, usize> = BTreeMap::new();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut places = BTreeSet::new();
    each_case(|case| {
        let secrets = secrets(&case.folder, &case.raw, &case.shown);
        for (kind, _) in &secrets {
            *hidden.entry(kind).or_default() += 1;
        }
        for (kind, secret, report) in found(&secrets, &case.hidden) {
            bad.push(format!("{}: {kind} {secret:?} in {report}", case.name));
        }
        // The search finds them where nothing is hidden.
        for (kind, _, report) in found(&secrets, &case.shown) {
            *seen.entry(kind).or_default() += 1;
            places.insert(report);
        }
    });
    bad.truncate(40);
    assert!(bad.is_empty(), "\n{}", bad.join("\n"));
    for kind in ["session", "host", "event id", "folder", "payload"] {
        assert!(seen.get(kind).is_some_and(|n| *n > 40), "{kind}: {seen:?}");
        assert!(hidden[kind] > 40, "{kind}: {hidden:?}");
    }
    assert!(hidden["credential"] > 4, "{hidden:?}");
    // No report is blind: each shows some secret of some capture when nothing is hidden.
    let silent: Vec<_> = reports()
        .into_iter()
        .map(|(name, ..)| name)
        .filter(|name| !places.contains(name))
        .collect();
    assert!(silent.is_empty(), "{silent:?}");
}

/// Rows of a table as text, by column.
pub(crate) fn cells<T: Table>(analysis: &Analysis, report: &Report) -> Vec<Vec<String>> {
    let text = text(report, analysis, &Style::default());
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    assert_eq!(reader.headers().unwrap().len(), T::COLUMNS.len());
    reader
        .records()
        .map(|row| row.unwrap().iter().map(str::to_owned).collect())
        .collect()
}

/// What was made of names so far: of which one, and of which kind.
#[derive(Default)]
struct Names {
    hidden: BTreeMap<(&'static str, String), String>,
    real: BTreeMap<(&'static str, String), String>,
}

fn compare<T: Table>(case: &Case, report: &Report, names: &mut Names, bad: &mut Vec<String>) {
    let (shown, hidden) = (
        cells::<T>(&case.shown, report),
        cells::<T>(&case.hidden, report),
    );
    assert_eq!(
        shown.len(),
        hidden.len(),
        "{}: rows of {}",
        case.name,
        T::NAME
    );
    for (shown, hidden) in shown.iter().zip(&hidden) {
        for ((column, was), is) in T::COLUMNS.iter().zip(shown).zip(hidden) {
            let Column { name, hides, .. } = column;
            let told = || format!("{}: {}.{name}: {was:?} is {is:?}", case.name, T::NAME);
            let Some(secret) = hides else {
                if was != is {
                    bad.push(told());
                }
                continue;
            };
            if was.is_empty() != is.is_empty() {
                bad.push(told());
            }
            if matches!(secret, Secret::Session | Secret::Host) && !is.is_empty() {
                let (hash, _) = is.split_at_checked(17).unwrap_or_default();
                let hex = hash.strip_prefix('~').unwrap_or_default();
                let hex = !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
                if !hex {
                    bad.push(told());
                }
            }
            // Equal for equal, and not otherwise.
            let kind = secret.remains();
            let of = names
                .hidden
                .entry((kind, was.clone()))
                .or_insert_with(|| is.clone());
            if of != is {
                bad.push(format!("{} and {of:?}", told()));
            }
            let of = names
                .real
                .entry((kind, is.clone()))
                .or_insert_with(|| was.clone());
            if of != was {
                bad.push(format!("{}, as {of:?}", told()));
            }
        }
    }
}

#[test]
fn only_what_a_column_declares_is_hidden_and_equal_names_stay_equal() {
    let report = |file: &str| {
        report::FOLDER
            .iter()
            .find(|report| report.file == file)
            .unwrap()
    };
    let mut bad = Vec::new();
    each_case(|case| {
        let (names, bad) = (&mut Names::default(), &mut bad);
        compare::<Resumes>(case, report("resumes.csv"), names, bad);
        compare::<Findings>(case, report("findings.csv"), names, bad);
        compare::<Sessions>(case, report("sessions.csv"), names, bad);
        compare::<Segments>(case, report("segments.csv"), names, bad);
        compare::<Incidents>(case, report("incidents.csv"), names, bad);
        compare::<Timers>(case, report("timers.csv"), names, bad);
        compare::<Shares>(case, report("shares.csv"), names, bad);
        compare::<Servers>(case, report("servers.csv"), names, bad);
        compare::<Inputs>(case, report("inputs.csv"), names, bad);
        compare::<Events>(case, &report::EVENTS, names, bad);
        compare::<Exchanges>(case, &report::EXCHANGES, names, bad);
        let prints = |analysis: &Analysis| {
            let codes = analysis.findings.iter().map(|finding| finding.code);
            (
                codes.collect::<Vec<_>>(),
                analysis.session_of.clone(),
                analysis.totals,
            )
        };
        assert_eq!(prints(&case.shown), prints(&case.hidden), "{}", case.name);
    });
    bad.truncate(40);
    assert!(bad.is_empty(), "\n{}", bad.join("\n"));
}

#[test]
fn numbers_of_event_ids_stay_and_keys_are_hashes() {
    // STREAM_TIME_RANDOM and INDEX/REQUEST, as two SDKs make them.
    for (name, delimiter, parts) in [("ts01.pcap", '_', 3), ("rs01_resume_fin.pcap", '/', 2)] {
        let path = root().join("fixtures/real").join(name);
        let case = case(name.to_owned(), &path, Vec::new(), Options::default());
        let mut keys: BTreeMap<String, String> = BTreeMap::new();
        for (shown, hidden) in case.shown.exchanges.iter().zip(&case.hidden.exchanges) {
            for (was, is) in shown.events.iter().zip(&hidden.events) {
                let (Some(was), Some(is)) = (was.id, is.id) else {
                    continue;
                };
                // The last part first.
                let cut = |id: &str| -> Vec<String> {
                    id.rsplitn(parts, delimiter).map(str::to_owned).collect()
                };
                let (was, is) = (cut(shown.text(was)), cut(hidden.text(is)));
                assert_eq!(was.len(), is.len(), "{was:?} {is:?}");
                if was.len() < parts {
                    assert_eq!(was, is, "a number alone");
                    continue;
                }
                for (index, (was, is)) in was.iter().zip(&is).enumerate() {
                    if index == 1 {
                        assert_eq!(was, is);
                    } else {
                        // The key of a stream may begin with a delimiter.
                        let hash = is.trim_start_matches(delimiter);
                        assert!(hash.starts_with('~') && hash.len() == 17, "{was} {is}");
                        assert_eq!(keys.entry(was.clone()).or_insert(is.clone()), is);
                    }
                }
            }
        }
        assert!(keys.len() > 1, "{name}: {keys:?}");
    }
}

/// Session ids of an analysis.
fn sessions(analysis: &Analysis) -> BTreeSet<String> {
    let ids = analysis
        .sessions
        .iter()
        .map(|row| row.session_id.to_string());
    ids.collect()
}

#[test]
fn one_key_gives_one_name_in_every_capture() {
    let of = |name: &str, redact: Option<Key>| {
        let path = root().join("fixtures/real").join(name);
        let options = Options {
            inputs: vec![path.to_str().unwrap().to_owned()],
            redact,
            ..Options::default()
        };
        run(&options, &Progress::default()).unwrap()
    };
    let (one, two) = ("hv_fork_titlecase.har", "hv_fork_offsets.har");
    let shown = (sessions(&of(one, None)), sessions(&of(two, None)));
    let hidden = (
        sessions(&of(one, Some(key()))),
        sessions(&of(two, Some(key()))),
    );
    let common = |(a, b): &(BTreeSet<String>, BTreeSet<String>)| a.intersection(b).count();
    assert!(common(&shown) > 0);
    assert_eq!(common(&shown), common(&hidden));
    let other = Key::from_bytes(b"another key, as long").unwrap();
    assert_eq!(
        common(&(hidden.0, sessions(&of(two, Some(other))))),
        0,
        "under another key nothing is equal"
    );
}

// --- the binary ---------------------------------------------------------------------------------

fn forkscope(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forkscope"))
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .args(arguments)
        .output()
        .unwrap()
}

/// Every byte that a command says or writes.
fn all_of(output: &Output, folder: Option<&Path>) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::from([
        ("stdout".to_owned(), output.stdout.clone()),
        ("stderr".to_owned(), output.stderr.clone()),
    ]);
    for entry in folder
        .into_iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
    {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        all.insert(name, fs::read(&path).unwrap());
    }
    all
}

#[test]
fn a_key_file_makes_runs_equal_and_none_makes_them_differ() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    fs::write(&file, KEY).unwrap();
    let keyed = format!("--redact={}", file.to_str().unwrap());
    let capture = root().join("fixtures/real/ts04.pcap");
    let capture = capture.to_str().unwrap();
    let audit = |redact: &str| {
        let out = tempfile::tempdir().unwrap();
        let to = out.path().to_str().unwrap();
        let output = forkscope(&["audit", redact, "--events", "-v", "-o", to, capture]);
        assert_eq!(output.status.code(), Some(1));
        all_of(&output, Some(out.path()))
    };
    let one = audit(&keyed);
    assert_eq!(one, audit(&keyed));
    assert_ne!(one, audit("--redact"));
    assert_ne!(audit("--redact"), audit("--redact"));
    for command in ["events", "exchanges"] {
        for format in ["csv", "ndjson"] {
            let rows = |redact| {
                let output = forkscope(&[command, "--format", format, redact, capture]);
                assert_eq!(output.status.code(), Some(0));
                all_of(&output, None)
            };
            assert_eq!(rows(&keyed), rows(&keyed), "{command} {format}");
            assert_ne!(rows("--redact"), rows("--redact"), "{command} {format}");
            let text = String::from_utf8(rows(&keyed).remove("stdout").unwrap()).unwrap();
            assert!(text.contains("input-1") && text.contains('~'), "{command}");
            assert!(!text.contains("127.0.0."), "{command} {format}");
        }
    }
}

#[test]
fn what_is_said_of_damage_names_no_file_and_quotes_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let mut cut = fs::read(root().join("fixtures/real/ts04.pcap")).unwrap();
    cut.truncate(cut.len() - 7);
    let cut = write("gateway-of-acme.pcap", &cut);
    let letter = write("letter-to-alice", b"Dear Alice");
    let missing = folder.path().join("no-such-file");
    let output = forkscope(&[
        "audit",
        "--redact",
        &cut,
        &letter,
        missing.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(2));
    for (stream, bytes) in all_of(&output, None) {
        let text = String::from_utf8(bytes).unwrap();
        for secret in [
            "acme",
            "alice",
            "Alice",
            "no-such",
            folder.path().to_str().unwrap(),
        ] {
            assert!(!text.contains(secret), "{secret} in {stream}:\n{text}");
        }
    }
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the file ends after"), "{said}");
    assert!(said.contains("No such file"), "{said}");
    assert_eq!(said.lines().count(), 3, "{said}");
    assert!(
        said.lines()
            .all(|line| line.starts_with("forkscope: input-")),
        "{said}"
    );
}

#[test]
fn a_key_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let missing = folder.path().join("missing").to_str().unwrap().to_owned();
    let capture = root().join("fixtures/real/ts04.pcap");
    for (file, why) in [
        (write("empty", b""), "it is empty"),
        (write("short", b"secret"), "6 bytes are too few"),
        (missing, "No such file"),
        (folder.path().to_str().unwrap().to_owned(), "directory"),
    ] {
        let redact = format!("--redact={file}");
        let output = forkscope(&["audit", &redact, capture.to_str().unwrap()]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(output.stdout.is_empty());
        assert!(
            said.starts_with(&format!("forkscope: {file}: no key")),
            "{said}"
        );
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
    }
    // Without `=` the next word is an input.
    let output = forkscope(&[
        "audit",
        "--redact",
        "--fail-on",
        "never",
        capture.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0));
}
