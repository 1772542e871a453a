//! Facts: every fixture extracted and audited again says what its captures say, byte for byte; what is in the
//! files; and what becomes of files that are damaged, foreign, or not all there.

use crate::{
    redact::real,
    talk::{
        model::Talk,
        render_har,
        render_pcap::{Link, Pcap, render},
        tcp::packets,
    },
    talks::{captures_of, options, pcap, talks},
    tls,
};
use arrow_array::{Array, cast::AsArray};
use arrow_schema::DataType;
use forkscope::{
    facts,
    model::analysis::Analysis,
    pipeline::{Options, Progress, extract, run},
    redact::Key,
    report::{self, Report, Style},
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The reports that are compared.
fn reports() -> impl Iterator<Item = &'static Report> {
    report::FOLDER.iter().chain([
        &report::EVENTS,
        &report::EXCHANGES,
        &report::EXCHANGES_NDJSON,
        &report::PROMETHEUS,
        &report::SUMMARY,
    ])
}

fn text(report: &Report, analysis: &Analysis) -> String {
    let style = Style {
        verbose: true,
        ..Style::default()
    };
    let mut bytes = Vec::new();
    (report.write)(analysis, &style, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// The first line in which a report differs.
fn difference(one: &Analysis, two: &Analysis) -> Option<String> {
    reports().find_map(|report| {
        let (one, two) = (text(report, one), text(report, two));
        if one == two {
            return None;
        }
        let mut lines = one.lines().zip(two.lines());
        let (one, two) = lines.find(|(one, two)| one != two).unwrap_or_default();
        let cut = |text: &str| text.chars().take(400).collect::<String>();
        let name = if report.file.is_empty() {
            report.name
        } else {
            report.file
        };
        Some(format!("{name}: {}\n    {}", cut(one), cut(two)))
    })
}

pub(crate) fn audit(options: &Options, inputs: &[&Path]) -> Analysis {
    let inputs = inputs.iter().map(|path| path.to_str().unwrap().to_owned());
    let options = Options {
        inputs: inputs.collect(),
        ..options.clone()
    };
    run(&options, &Progress::default()).unwrap()
}

/// Extracts `inputs` into a folder.
pub(crate) fn extract_into(folder: &Path, options: &Options, inputs: &[&Path]) {
    let inputs = inputs.iter().map(|path| path.to_str().unwrap().to_owned());
    let options = Options {
        inputs: inputs.collect(),
        ..options.clone()
    };
    let facts = extract(&options, &Progress::default()).unwrap();
    for file in facts::write(&facts).unwrap() {
        let path = folder.join(file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file.bytes).unwrap();
    }
}

/// All files of a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut stack = vec![folder.to_owned()];
    while let Some(path) = stack.pop() {
        if path.is_dir() {
            stack.extend(
                fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else {
            all.push(path);
        }
    }
    all.sort();
    all
}

/// What is wrong with a fixture, once its facts took its place.
fn check(options: &Options, inputs: &[&Path]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    extract_into(folder.path(), options, inputs);
    let said = audit(options, inputs);
    if let Some(difference) = difference(&said, &audit(options, &[folder.path()])) {
        return Some(difference);
    }
    // In another order, and file by file.
    let mut files = files(folder.path());
    files.reverse();
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    difference(&said, &audit(options, &files))
}

fn refuse(bad: &str) {
    assert!(bad.is_empty(), "\n{bad}");
}

#[test]
fn facts_of_real_captures_say_what_the_captures_say() {
    let mut bad = String::new();
    for path in real() {
        if let Some(problem) = check(&Options::default(), &[&path]) {
            let _ = writeln!(bad, "{}: {problem}", path.display());
        }
    }
    let all = real();
    let all: Vec<&Path> = all.iter().map(PathBuf::as_path).collect();
    if let Some(problem) = check(&Options::default(), &all) {
        let _ = writeln!(bad, "all of them: {problem}");
    }
    refuse(&bad);
}

#[test]
fn facts_of_tls_say_what_the_captures_say() {
    let keys = tls::root().join("fixtures/tls/fuzz.keys");
    let keyed = Options {
        key_logs: vec![keys],
        ..Options::default()
    };
    let mut bad = String::new();
    let mut read = 0;
    for path in tls::capture_paths() {
        read += audit(&Options::default(), &[&path]).exchanges.len();
        for options in [&Options::default(), &keyed] {
            // The key log was there when the facts were extracted, and is not read again.
            let again = Options::default();
            let folder = tempfile::tempdir().unwrap();
            extract_into(folder.path(), options, &[&path]);
            let said = audit(options, &[&path]);
            if let Some(problem) = difference(&said, &audit(&again, &[folder.path()])) {
                let _ = writeln!(bad, "{}: {problem}", path.display());
            }
        }
    }
    assert!(read > 100, "{read}");
    refuse(&bad);
}

#[test]
fn facts_of_talks_say_what_the_captures_say() {
    let mut bad = String::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a talk");
    for talk in talks() {
        for (road, bytes) in captures_of(&talk) {
            fs::write(&path, bytes).unwrap();
            if let Some(problem) = check(&options(&talk), &[&path]) {
                let _ = writeln!(bad, "{} as {road}: {problem}", talk.name);
            }
        }
    }
    refuse(&bad);
}

#[test]
fn names_are_hidden_in_reports_of_facts_as_in_those_of_captures() {
    let hiding = Options {
        redact: Some(Key::from_bytes(b"a key of the tests, no secret").unwrap()),
        ..Options::default()
    };
    let mut bad = String::new();
    for path in real() {
        let folder = tempfile::tempdir().unwrap();
        extract_into(folder.path(), &Options::default(), &[&path]);
        let (said, again) = (audit(&hiding, &[&path]), audit(&hiding, &[folder.path()]));
        if let Some(problem) = difference(&said, &again) {
            let _ = writeln!(bad, "{}: {problem}", path.display());
        }
    }
    refuse(&bad);
}

/// Two taps of one talk, as files beside each other.
pub(crate) fn taps(folder: &Path, talk: &Talk) -> [PathBuf; 2] {
    let raw = Pcap {
        link: Link::Raw,
        big_endian: true,
        nanoseconds: true,
    };
    let all = packets(talk);
    let paths = ["b tap", "c tap"].map(|name| folder.join(name));
    let [one, two] = &paths;
    fs::write(one, pcap(talk, &all)).unwrap();
    fs::write(two, render(talk, &all, raw)).unwrap();
    paths
}

/// What is said of resumes and findings, whatever tap showed it.
fn verdicts(analysis: &Analysis) -> Vec<String> {
    let resumes = analysis.resumes.iter().map(crate::talk::expect::essence);
    let findings = analysis.findings.iter().map(|finding| {
        format!(
            "{} {:?} {} {:?} {:?}",
            finding.code,
            finding.session_id,
            finding.incarnation,
            finding.resume,
            finding.confidence
        )
    });
    let mut all: Vec<String> = resumes.chain(findings).collect();
    all.sort();
    all
}

/// HARs beside a capture, of which one or the other came as facts: nothing joins them before they are facts, so that
/// all reports are equal.
#[test]
fn facts_and_captures_are_read_together() {
    let mut bad = String::new();
    let folder = tempfile::tempdir().unwrap();
    let [packets_path, har] = ["m.pcap", "a.har"].map(|name| folder.path().join(name));
    let other = tls::root().join("fixtures/real/mitm04_forward_two_hops.pcap");
    for talk in talks().into_iter().filter(|talk| talk.har_skip.is_none()) {
        fs::write(&packets_path, pcap(&talk, &packets(&talk))).unwrap();
        fs::write(&har, render_har::render(&talk)).unwrap();
        let options = options(&talk);
        let all: [&Path; 3] = [&packets_path, &har, &other];
        let said = audit(&options, &all);
        for (number, of) in all.iter().enumerate() {
            let facts = tempfile::tempdir().unwrap();
            extract_into(facts.path(), &options, &[of]);
            let mut inputs = all.to_vec();
            inputs[number] = facts.path();
            let again = audit(&options, &inputs);
            let inputs = |analysis: &Analysis| text(&report::FOLDER[8], analysis);
            if inputs(&said) != inputs(&again) || verdicts(&said) != verdicts(&again) {
                let _ = writeln!(
                    bad,
                    "{}, {}: {:?}",
                    talk.name,
                    of.display(),
                    difference(&said, &again)
                );
            }
        }
    }
    refuse(&bad);
}

#[test]
fn facts_of_taps_extracted_apart_give_the_verdicts_of_both() {
    let mut bad = String::new();
    let mut whole = 0;
    let mut all = 0;
    let mut differing = Vec::new();
    for talk in talks() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = taps(folder.path(), &talk);
        let options = options(&talk);
        let said = audit(&options, &[&one, &two]);
        let apart = ["1", "2"].map(|name| folder.path().join(name));
        extract_into(&apart[0], &options, &[&one]);
        extract_into(&apart[1], &options, &[&two]);
        let again = audit(&options, &[&apart[1], &apart[0]]);
        all += 1;
        match difference(&said, &again) {
            None => whole += 1,
            Some(difference) => differing.push(format!("{}: {difference}", talk.name)),
        }
        if verdicts(&said) != verdicts(&again) {
            let _ = writeln!(
                bad,
                "{}: {:#?}\nand {:#?}",
                talk.name,
                verdicts(&said),
                verdicts(&again)
            );
        }
    }
    refuse(&bad);
    // The others have holes: bytes that neither tap has are counted of each.
    assert!(
        whole * 100 >= all * 95,
        "{whole} of {all} are the same in every byte"
    );
}

#[test]
fn a_capture_beside_its_own_facts_counts_once() {
    let mut bad = String::new();
    for path in real() {
        let folder = tempfile::tempdir().unwrap();
        extract_into(folder.path(), &Options::default(), &[&path]);
        let said = audit(&Options::default(), &[&path]);
        let twice = audit(&Options::default(), &[&path, folder.path()]);
        if verdicts(&said) != verdicts(&twice) {
            let _ = writeln!(
                bad,
                "{}: {:#?}\nand {:#?}",
                path.display(),
                verdicts(&said),
                verdicts(&twice)
            );
        }
    }
    refuse(&bad);
}

/// Every text and all bytes in a file, with the names of their columns.
fn values(path: &Path) -> Vec<(String, Vec<u8>)> {
    fn take(name: &str, array: &dyn Array, out: &mut Vec<(String, Vec<u8>)>) {
        match array.data_type() {
            DataType::Utf8 => {
                let texts = array.as_string::<i32>().iter().flatten();
                out.extend(texts.map(|text| (name.to_owned(), text.as_bytes().to_vec())));
            }
            DataType::Binary => {
                let all = array.as_binary::<i32>().iter().flatten();
                out.extend(all.map(|bytes| (name.to_owned(), bytes.to_vec())));
            }
            DataType::Struct(fields) => {
                for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                    take(&format!("{name}.{}", field.name()), column, out);
                }
            }
            DataType::List(_) => take(name, array.as_list::<i32>().values(), out),
            _ => {}
        }
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let mut out = Vec::new();
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            take(field.name(), column, &mut out);
        }
    }
    out
}

fn example(name: &str) -> PathBuf {
    tls::root().join("fixtures/real").join(name)
}

/// Whether a file is of a table.
fn is_of(table: &str, path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    name.starts_with(&format!("{table}-"))
}

#[test]
fn a_session_is_in_one_partition() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = real();
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    extract_into(folder.path(), &Options::default(), &inputs);
    let mut parts: BTreeMap<Vec<u8>, BTreeSet<PathBuf>> = BTreeMap::new();
    let mut with_sessions = BTreeSet::new();
    for path in files(folder.path())
        .iter()
        .filter(|path| is_of("exchanges", path))
    {
        for (name, value) in values(path) {
            if name == "session" {
                parts.entry(value).or_default().insert(path.clone());
                with_sessions.insert(path.clone());
            }
        }
    }
    assert!(
        parts.len() > 20 && with_sessions.len() > 8,
        "{}",
        parts.len()
    );
    assert!(parts.values().all(|parts| parts.len() == 1), "{parts:?}");
    // Events are where their exchanges are.
    let names = |table: &str| -> BTreeSet<String> {
        let files = files(folder.path());
        let files = files.iter().filter(|path| is_of(table, path));
        files
            .map(|path| {
                path.file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .replacen(table, "", 1)
            })
            .collect()
    };
    assert!(names("events").is_subset(&names("exchanges")));
}

/// What was said is in no file: only what names it, and hashes.
#[test]
fn no_payload_is_in_facts() {
    let mut searched = 0;
    for path in [
        example("py02_resume_uuid_v2.pcap"),
        example("hv_fork_offsets.har"),
    ] {
        let said = fs::read(&path).unwrap();
        assert!(
            find(&said, b"\"text\"") && find(&said, b"jsonrpc"),
            "{}",
            path.display()
        );
        let folder = tempfile::tempdir().unwrap();
        extract_into(folder.path(), &Options::default(), &[&path]);
        for file in files(folder.path()) {
            for (name, value) in values(&file) {
                searched += 1;
                let Ok(text) = std::str::from_utf8(&value) else {
                    assert_eq!(value.len(), 16, "{name} is no hash");
                    continue;
                };
                assert!(
                    ["jsonrpc", "{\"", "content\"", "\"text"]
                        .iter()
                        .all(|part| !text.contains(part)),
                    "{name}: {}",
                    value.escape_ascii()
                );
                assert!(text.len() <= 400, "{name} has {} bytes", text.len());
            }
        }
    }
    assert!(searched > 500, "{searched}");
}

fn find(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|window| window == what)
}

/// The inputs that could not be read, and why.
fn unreadable(analysis: &Analysis) -> Vec<(&str, String)> {
    let inputs = analysis.inputs.iter();
    inputs
        .filter_map(|input| Some((&*input.name, input.unreadable.as_ref()?.to_string())))
        .collect()
}

/// Facts of a capture with several partitions.
fn facts_of(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    extract_into(folder.path(), &Options::default(), &[&example(name)]);
    folder
}

#[test]
fn damaged_facts_are_named_and_cost_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [
        example("py02_resume_uuid_v2.pcap"),
        example("mitm04_forward_two_hops.pcap"),
    ];
    for path in &paths {
        extract_into(folder.path(), &Options::default(), &[path]);
    }
    let all = files(folder.path());
    let sessions = audit(&Options::default(), &[folder.path()]).sessions.len();
    for damaged in &all {
        let bytes = fs::read(damaged).unwrap();
        for broken in [
            &bytes[..bytes.len() / 2],
            &bytes[..bytes.len() - 1],
            &b"PAR1"[..],
        ] {
            fs::write(damaged, broken).unwrap();
            let analysis = audit(&Options::default(), &[folder.path()]);
            let troubles = unreadable(&analysis);
            let (name, why) = troubles
                .iter()
                .find(|(name, _)| *name == damaged.to_str().unwrap())
                .unwrap_or_else(|| panic!("{}: {troubles:?}", damaged.display()));
            assert!(why.contains("the facts are damaged"), "{name}: {why}");
            assert!(!analysis.sessions.is_empty() && analysis.sessions.len() <= sessions);
        }
        fs::write(damaged, &bytes).unwrap();
    }
}

#[test]
fn flipped_bits_end_no_run() {
    let folder = facts_of("py02_resume_uuid_v2.pcap");
    let mut state = 7_u64;
    let (mut told, mut flips) = (0, 0);
    for path in files(folder.path()) {
        let bytes = fs::read(&path).unwrap();
        for _ in 0..40 {
            flips += 1;
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(state >> 33).unwrap() % bytes.len();
            let mut broken = bytes.clone();
            broken[at] ^= 1 << (state % 8);
            fs::write(&path, &broken).unwrap();
            let analysis = audit(&Options::default(), &[folder.path()]);
            told += usize::from(!unreadable(&analysis).is_empty());
            for report in reports() {
                text(report, &analysis);
            }
        }
        fs::write(&path, &bytes).unwrap();
    }
    assert_eq!(told, flips);
}

#[test]
fn what_lacks_of_facts_is_told() {
    let folder = facts_of("ts15.pcap.gz");
    let whole = audit(&Options::default(), &[folder.path()]);
    let without = |table: &str| {
        let files = files(folder.path());
        let files = files.iter().map(PathBuf::as_path);
        let some: Vec<&Path> = files.filter(|path| !is_of(table, path)).collect();
        audit(&Options::default(), &some)
    };
    for (table, why) in [
        ("runs", "whose table runs is not among the inputs"),
        ("inputs", "facts of 1 inputs, of which 0 are"),
        ("exchanges", "of which 0 are among the inputs"),
        ("events", "exchanges are not among the inputs"),
    ] {
        let analysis = without(table);
        let troubles = unreadable(&analysis);
        assert!(
            !troubles.is_empty() && troubles.iter().all(|(_, told)| told.contains(why)),
            "{table}: {troubles:?}"
        );
        // Nothing is made of what is missing.
        assert!(analysis.findings.len() <= whole.findings.len(), "{table}");
    }
    assert!(whole.findings.len() > without("events").findings.len());
}

/// Changes the version that the footers of files have.
fn of_version(folder: &Path, version: u8) {
    for path in files(folder) {
        let mut bytes = fs::read(&path).unwrap();
        let key = b"forkscope.facts";
        let at = bytes
            .windows(key.len())
            .rposition(|window| window == key)
            .unwrap();
        let value = &mut bytes[at + key.len()..][..3];
        assert_eq!(value, b"\x18\x011");
        value[2] = version;
        fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn facts_of_another_version_or_of_other_options_are_refused() {
    let folder = facts_of("py02_resume_uuid_v2.pcap");
    let with = Options {
        session_header: "x-session".to_owned(),
        ..Options::default()
    };
    for (_, why) in unreadable(&audit(&with, &[folder.path()])) {
        assert_eq!(why, "facts extracted without options that are given now");
    }
    let other = tempfile::tempdir().unwrap();
    extract_into(other.path(), &with, &[&example("py02_resume_uuid_v2.pcap")]);
    let analysis = audit(&Options::default(), &[other.path()]);
    let troubles = unreadable(&analysis);
    assert_eq!(troubles.len(), files(other.path()).len());
    for (_, why) in troubles {
        assert_eq!(
            why,
            "facts extracted with --session-header x-session: give it again"
        );
    }
    of_version(folder.path(), b'9');
    let analysis = audit(&Options::default(), &[folder.path()]);
    let troubles = unreadable(&analysis);
    assert_eq!(troubles.len(), files(folder.path()).len());
    for (_, why) in troubles {
        assert!(
            why.starts_with("facts of version 9, and this forkscope reads version 1"),
            "{why}"
        );
    }
}

#[test]
fn facts_given_twice_count_once() {
    let folder = facts_of("py02_resume_uuid_v2.pcap");
    let said = audit(&Options::default(), &[folder.path()]);
    let copy = tempfile::tempdir().unwrap();
    extract_into(
        copy.path(),
        &Options::default(),
        &[&example("py02_resume_uuid_v2.pcap")],
    );
    let inputs = [folder.path(), copy.path(), folder.path()];
    assert_eq!(
        difference(&said, &audit(&Options::default(), &inputs)),
        None
    );
}

#[test]
fn facts_are_the_same_whatever_the_number_of_threads() {
    let path = example("mitm04_forward_two_hops.pcap");
    let folders = [1, 2, 7].map(|jobs| {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            jobs,
            ..Options::default()
        };
        extract_into(folder.path(), &options, &[&path]);
        folder
    });
    let all = folders.each_ref().map(|folder| {
        let files = files(folder.path()).into_iter();
        let files = files.map(|path| {
            let bytes = fs::read(&path).unwrap();
            (path.strip_prefix(folder.path()).unwrap().to_owned(), bytes)
        });
        files.collect::<BTreeMap<_, _>>()
    });
    assert!(all[0] == all[1] && all[1] == all[2]);
}

/// Facts of facts are these facts.
#[test]
fn facts_are_extracted_again_as_they_were() {
    let all = |folder: &Path| -> BTreeMap<PathBuf, Vec<u8>> {
        let files = files(folder).into_iter();
        let files = files.map(|path| {
            let bytes = fs::read(&path).unwrap();
            (path.strip_prefix(folder).unwrap().to_owned(), bytes)
        });
        files.collect()
    };
    let (once, again) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let inputs = [
        example("py02_resume_uuid_v2.pcap"),
        example("hv_fork_offsets.har"),
        example("there is none"),
    ];
    let inputs = inputs.each_ref().map(PathBuf::as_path);
    extract_into(once.path(), &Options::default(), &inputs);
    extract_into(again.path(), &Options::default(), &[once.path()]);
    assert!(all(once.path()) == all(again.path()));
}

fn forkscope(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forkscope"));
    command.args(arguments).output().unwrap()
}

fn said(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_command_writes_facts_and_says_what_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let (facts, evidence) = (folder.path().join("facts"), folder.path().join("evidence"));
    let (facts, evidence) = (facts.to_str().unwrap(), evidence.to_str().unwrap());
    let capture = example("ts15.pcap.gz");
    let capture = capture.to_str().unwrap();
    let output = forkscope(&["extract", capture, "-o", facts]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        said(&output.stdout).starts_with("Facts of 1 inputs, "),
        "{output:?}"
    );
    // What lies beside them and is none is no capture.
    fs::write(Path::new(facts).join("other.parquet"), foreign()).unwrap();
    let [one, two] = [capture, facts].map(|input| forkscope(&["audit", "--format", "json", input]));
    assert_eq!(
        (one.status.code(), &one.stdout),
        (two.status.code(), &two.stdout)
    );
    assert_eq!(one.status.code(), Some(1), "a fork");
    // Named, it is told that it is none.
    let named = Path::new(facts).join("other.parquet");
    let output = forkscope(&["audit", "-q", named.to_str().unwrap()]);
    assert!(
        said(&output.stderr).contains("no facts of forkscope"),
        "{output:?}"
    );
    let output = forkscope(&["audit", "-q", "--evidence", evidence, facts]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output.stderr).contains("facts, which have no packets"),
        "{output:?}"
    );
    // Facts among the captures that they are of would be read beside them next time.
    let root = folder.path().to_str().unwrap();
    for out in [root, facts, &format!("{root}/new/folder")] {
        let output = forkscope(&["extract", root, "-o", out]);
        assert_eq!(output.status.code(), Some(2));
        let told = format!("it lies in {root}, which is searched for captures");
        assert!(said(&output.stderr).contains(&told), "{output:?}");
    }
    assert!(!folder.path().join("new").exists());
    let output = forkscope(&["extract", "-q", "missing.pcap", "-o", facts]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}

/// Parquet of somebody else.
fn foreign() -> Vec<u8> {
    let column: arrow_array::ArrayRef =
        std::sync::Arc::new(arrow_array::Int64Array::from(vec![1, 2]));
    let batch = arrow_array::RecordBatch::try_from_iter([("number", column)]).unwrap();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

/// The page names every column, with its type.
#[test]
fn every_column_is_documented() {
    let page = fs::read_to_string(tls::root().join("docs/facts.md")).unwrap();
    let mut bad = String::new();
    for (table, schema) in facts::schemas() {
        let section = page
            .split("\n## ")
            .find(|section| section.starts_with(&format!("`{table}`")));
        let section = section.unwrap_or_else(|| panic!("docs/facts.md has no table {table}"));
        for field in schema.fields() {
            rows(
                field.name(),
                field.data_type(),
                field.is_nullable(),
                &mut |row| {
                    if !section.contains(&row) {
                        let _ = writeln!(bad, "{table}: {row}");
                    }
                },
            );
        }
    }
    refuse(&bad);
}

/// A row of the page for each column and for those below it.
fn rows(name: &str, data_type: &DataType, nullable: bool, each: &mut impl FnMut(String)) {
    let (words, below) = match data_type {
        DataType::Int64 => ("integer", None),
        DataType::Utf8 => ("text", None),
        DataType::Boolean => ("flag", None),
        DataType::Binary => ("bytes", None),
        DataType::Struct(fields) => ("struct", Some((String::new(), fields))),
        DataType::List(field) => match field.data_type() {
            DataType::Struct(fields) => ("list of structs", Some(("[]".to_owned(), fields))),
            _ => ("list of texts", None),
        },
        other => panic!("{name} is {other}"),
    };
    let or_null = if nullable { ", or null" } else { "" };
    each(format!("| `{name}` | {words}{or_null} |"));
    if let Some((mark, fields)) = below {
        for field in fields {
            let name = format!("{name}{mark}.{}", field.name());
            rows(&name, field.data_type(), field.is_nullable(), each);
        }
    }
}
