//! `extract --redact`: facts in which no name stands, and of which an audit says what it says of the captures.

use crate::{
    facts::{audit, extract_into, files, taps},
    redact::{Secrets, cells, real, secrets, unpacked},
    talks::{captures_of, options, talks},
    tls,
};
use arrow_array::{Array, RecordBatch, cast::AsArray};
use arrow_schema::DataType;
use forkscope::{
    audit::order,
    model::{
        analysis::Analysis,
        exchange::{Exchange, Request},
        prose::Prose,
    },
    pipeline::Options,
    redact::{
        Key,
        facts::{Lore, Veil},
    },
    report::{
        self, Report,
        table::{
            Column, Events, Exchanges, Findings, Incidents, Inputs, Resumes, Segments, Servers,
            Sessions, Shares, Table, Timers,
        },
    },
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, LazyLock},
};

const KEY: &[u8] = b"a key of the tests, no secret";

fn hiding(options: &Options) -> Options {
    Options {
        redact: Some(Key::from_bytes(KEY).unwrap()),
        ..options.clone()
    }
}

/// What a table says beside names, row by row. Where rows are put in order by names, they come in another.
fn rows<T: Table>(analysis: &Analysis, report: &Report) -> Vec<String> {
    let mut rows: Vec<String> = cells::<T>(analysis, report)
        .iter()
        .map(|row| {
            let cells = T::COLUMNS.iter().zip(row);
            let cells = cells.map(|(Column { name, hides, .. }, cell)| match hides {
                None => format!("{name}={cell}"),
                Some(_) => format!("{name}{}", if cell.is_empty() { "" } else { "~" }),
            });
            cells.collect::<Vec<_>>().join(" ")
        })
        .collect();
    rows.sort();
    rows
}

/// The words of a sentence.
fn words(prose: &Prose) -> String {
    prose.hidden(|_, _| "~".to_owned()).to_string()
}

/// All that an audit says beside names.
fn said(analysis: &Analysis) -> Vec<(&'static str, Vec<String>)> {
    let of = |file: &str| {
        let mut all = report::FOLDER.iter();
        all.find(|report| report.file == file).unwrap()
    };
    let mut details: Vec<String> = analysis
        .findings
        .iter()
        .map(|f| format!("{} {:?} {}", f.code, f.time, words(&f.detail)))
        .collect();
    details.sort();
    let stories = analysis.resumes.iter().map(|resume| {
        let story: Vec<String> = resume.story.iter().map(words).collect();
        format!("{} {}", words(&resume.reason), story.join("; "))
    });
    let mut anomalies: Vec<String> = analysis
        .anomalies
        .iter()
        .map(|(input, kind, tally)| format!("{input:?} {kind:?} {}", tally.count))
        .collect();
    anomalies.sort();
    vec![
        ("resumes", rows::<Resumes>(analysis, of("resumes.csv"))),
        ("findings", rows::<Findings>(analysis, of("findings.csv"))),
        ("sessions", rows::<Sessions>(analysis, of("sessions.csv"))),
        ("segments", rows::<Segments>(analysis, of("segments.csv"))),
        (
            "incidents",
            rows::<Incidents>(analysis, of("incidents.csv")),
        ),
        ("timers", rows::<Timers>(analysis, of("timers.csv"))),
        ("shares", rows::<Shares>(analysis, of("shares.csv"))),
        ("servers", rows::<Servers>(analysis, of("servers.csv"))),
        ("inputs", rows::<Inputs>(analysis, of("inputs.csv"))),
        ("events", rows::<Events>(analysis, &report::EVENTS)),
        ("exchanges", rows::<Exchanges>(analysis, &report::EXCHANGES)),
        ("details", details),
        ("stories", stories.collect()),
        ("anomalies", anomalies),
        ("totals", vec![format!("{:?}", analysis.totals)]),
    ]
}

/// The first thing that one says and the other does not.
fn difference(shown: &Analysis, hidden: &Analysis) -> Option<String> {
    let (shown, hidden) = (said(shown), said(hidden));
    shown.iter().zip(&hidden).find_map(|((name, a), (_, b))| {
        let differing = a.iter().zip(b).find(|(a, b)| a != b);
        let differing = differing.map(|(a, b)| format!("\n    {a}\n    {b}"));
        (a != b).then(|| {
            let many = (a.len(), b.len());
            format!("{name}: {many:?} {}", differing.unwrap_or_default())
        })
    })
}

/// All texts of a column and what lies below it, and its hashes.
fn texts(array: &dyn Array, out: &mut String, hashes: &mut BTreeSet<Vec<u8>>) {
    match array.data_type() {
        DataType::Utf8 => {
            for text in array.as_string::<i32>().iter().flatten() {
                out.push_str(text);
                out.push('\n');
            }
        }
        DataType::Binary => {
            let all = array.as_binary::<i32>().iter().flatten();
            hashes.extend(all.map(<[u8]>::to_vec));
        }
        DataType::Struct(_) => {
            for column in array.as_struct().columns() {
                texts(column, out, hashes);
            }
        }
        DataType::List(_) => texts(array.as_list::<i32>().values(), out, hashes),
        DataType::Int64 | DataType::Boolean => {}
        other => panic!("{other}"),
    }
}

/// Every text in the files of a folder: names, columns, and what stands in footers.
fn unpacked_facts(folder: &Path) -> (String, BTreeSet<Vec<u8>>) {
    let (mut out, mut hashes) = (String::new(), BTreeSet::new());
    for path in files(folder) {
        out.push_str(path.strip_prefix(folder).unwrap().to_str().unwrap());
        out.push('\n');
        let bytes = fs::read(&path).unwrap();
        let (rest, tail) = bytes.split_at(bytes.len() - 8);
        let footer = u32::from_le_bytes(tail[..4].try_into().unwrap()) as usize;
        assert_eq!(&tail[4..], b"PAR1");
        out.push_str(&String::from_utf8_lossy(&rest[rest.len() - footer..]));
        let file = File::open(&path).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
        for column in batches.iter().flat_map(RecordBatch::columns) {
            texts(column, &mut out, &mut hashes);
        }
    }
    (out, hashes)
}

/// Words of the tables themselves.
static OWN_WORDS: LazyLock<String> =
    LazyLock::new(|| fs::read_to_string(tls::root().join("docs/facts.md")).unwrap());

/// What was found, of all fixtures.
#[derive(Default)]
struct Tally {
    bad: Vec<String>,
    audited: usize,
    resumes: usize,
    /// Secrets found where nothing is hidden, by kind.
    seen: BTreeMap<&'static str, usize>,
    hashes: usize,
}

impl Tally {
    /// Audits facts without names of a capture, and looks for its names in them.
    fn check(&mut self, name: &str, path: &Path, raw: &[u8], options: &Options, keyless: &Options) {
        let shown = audit(options, &[path]);
        let [open, closed] = [0, 1].map(|_| tempfile::tempdir().unwrap());
        extract_into(closed.path(), &hiding(options), &[path]);
        self.audited += 1;
        self.resumes += shown.resumes.len();
        let again = audit(keyless, &[closed.path()]);
        if let Some(difference) = difference(&shown, &again) {
            self.bad.push(format!("{name}: {difference}"));
        }
        // Of the talks, which are many, every fourth is hidden once more at the audit, and held against its facts with names.
        let thorough = self.audited < 200 || self.audited.is_multiple_of(4);
        if thorough {
            let twice = audit(&hiding(keyless), &[closed.path()]);
            if let Some(difference) = difference(&shown, &twice) {
                self.bad.push(format!("{name}, hidden twice: {difference}"));
            }
        }
        let folder = path.parent().unwrap().to_str().unwrap();
        let mut secrets: Secrets = secrets(folder, raw, &shown);
        let file = path.file_name().unwrap().to_str().unwrap();
        secrets.insert(("file", file.to_owned()));
        // The machine itself has one address in IPv6.
        secrets.retain(|(_, secret)| secret != "[::1]" && !OWN_WORDS.contains(secret.as_str()));
        let (hidden, hashes) = unpacked_facts(closed.path());
        for (kind, secret) in &secrets {
            if hidden.contains(secret.as_str()) {
                self.bad.push(format!("{name}: {kind} {secret:?}"));
            }
        }
        if !thorough {
            return;
        }
        extract_into(open.path(), options, &[path]);
        let (shown, shown_hashes) = unpacked_facts(open.path());
        for (kind, secret) in &secrets {
            if shown.contains(secret.as_str()) {
                *self.seen.entry(kind).or_default() += 1;
            }
        }
        let common: Vec<_> = shown_hashes.intersection(&hashes).collect();
        // Where there is no request, there is no hash of one.
        if common.iter().any(|hash| hash.iter().any(|byte| *byte != 0)) {
            self.bad.push(format!("{name}: hashes stayed"));
        }
        assert_eq!(shown_hashes.len(), hashes.len(), "{name}");
        self.hashes += hashes.len();
    }

    fn refuse(&mut self, kinds: &[&str]) {
        let many = self.bad.len();
        self.bad.truncate(30);
        assert!(self.bad.is_empty(), "{many}:\n{}", self.bad.join("\n"));
        for kind in kinds {
            let seen = self.seen.get(kind).copied().unwrap_or(0);
            assert!(seen >= 40, "{kind}: {:?}", self.seen);
        }
        assert!(self.hashes > 100, "{}", self.hashes);
        assert!(self.audited > 10, "{}", self.audited);
    }
}

/// Ids that no implementation makes, for those who try to be long over them: letter by letter of a few kinds.
fn odd_ids() -> BTreeSet<String> {
    const KINDS: [&str; 8] = [
        "0123456789",
        "abcdef",
        "ABCDEF",
        "abcdefghijklmnopqrstuvwxyz",
        "-_",
        "Zz09",
        "7",
        "é:/",
    ];
    let mut state = 1_u64;
    let mut next = |below: usize| {
        // Knuth's constants for a linear congruential generator.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut ids = BTreeSet::new();
    while ids.len() < 3_000 {
        let mut id = String::new();
        for _ in 0..=next(4) {
            let letters: Vec<char> = KINDS[next(KINDS.len())].chars().collect();
            for _ in 0..=next(40) {
                id.push(letters[next(letters.len())]);
            }
        }
        ids.insert(id);
    }
    ids
}

#[test]
fn what_stands_for_an_id_looks_like_it_and_is_no_others() {
    let key = Key::from_bytes(KEY).unwrap();
    let lore = Lore {
        cut: &order::tokens,
        tokens: &order::tokens,
        alike: &order::are_alike,
        ring_file: &|_| None,
    };
    let ids = odd_ids();
    let asking = |id: &String| Exchange {
        request: Some(Request {
            last_event_id: Some(Arc::from(id.as_str())),
            ..Request::default()
        }),
        ..Exchange::default()
    };
    let mut exchanges: Vec<Exchange> = ids.iter().map(asking).collect();
    Veil::new(&key, &lore, &exchanges, &[]).exchanges(&mut exchanges);
    let cursor = |exchange: &'_ Exchange| {
        exchange
            .request
            .as_ref()
            .unwrap()
            .last_event_id
            .clone()
            .unwrap()
    };
    let hidden: Vec<Arc<str>> = exchanges.iter().map(cursor).collect();
    assert_eq!(hidden.iter().collect::<BTreeSet<_>>().len(), ids.len());
    let mut stayed = 0;
    for (id, hidden) in ids.iter().zip(hidden) {
        // Delimiters beyond ASCII are others too, equal for equal.
        let alike = !id.is_ascii() || order::are_alike(id, &hidden);
        assert!(alike, "{id} {hidden}");
        assert_eq!(id.len(), hidden.len(), "{id} {hidden}");
        stayed += usize::from(**id == *hidden);
    }
    // Those of punctuation alone, and some of few letters.
    assert!(stayed * 20 < ids.len(), "{stayed}");
}

#[test]
fn facts_of_real_captures_without_names_say_the_same() {
    let mut tally = Tally::default();
    for path in real() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let options = Options::default();
        tally.check(&name, &path, &unpacked(&path), &options, &options);
    }
    assert!(tally.resumes > 50, "{}", tally.resumes);
    tally.refuse(&["session", "host", "event id", "file", "agent"]);
}

#[test]
fn facts_of_tls_without_names_say_the_same() {
    let keyed = Options {
        key_logs: vec![tls::root().join("fixtures/tls/fuzz.keys")],
        ..Options::default()
    };
    let mut tally = Tally::default();
    for path in tls::capture_paths() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let raw = fs::read(&path).unwrap();
        for options in [&Options::default(), &keyed] {
            tally.check(&name, &path, &raw, options, &Options::default());
        }
    }
    tally.refuse(&["host", "file"]);
}

#[test]
fn facts_of_talks_without_names_say_the_same() {
    let mut tally = Tally::default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a talk of alice at acme");
    for talk in talks() {
        for (road, bytes) in captures_of(&talk) {
            fs::write(&path, &bytes).unwrap();
            let name = format!("{} as {road}", talk.name);
            let options = options(&talk);
            // Servers are named as they were when the facts were extracted.
            let again = Options {
                servers: Vec::new(),
                ..options.clone()
            };
            tally.check(&name, &path, &bytes, &options, &again);
        }
    }
    assert!(tally.resumes > 200, "{}", tally.resumes);
    tally.refuse(&["session", "host", "event id", "payload"]);
}

/// Facts of two taps, extracted apart with one key, are put together as those with names are.
#[test]
fn facts_of_one_key_join() {
    let mut bad = Vec::new();
    let mut several = 0;
    for talk in talks() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = taps(folder.path(), &talk);
        let options = options(&talk);
        let audited = |name: &str, of: &Options| {
            let apart = ["1", "2"].map(|part| folder.path().join(format!("{name}{part}")));
            extract_into(&apart[0], of, &[&one]);
            extract_into(&apart[1], of, &[&two]);
            let again = Options {
                servers: Vec::new(),
                ..options.clone()
            };
            audit(&again, &[&apart[0], &apart[1]])
        };
        let (shown, hidden) = (
            audited("open", &options),
            audited("hidden", &hiding(&options)),
        );
        several += usize::from(shown.exchanges.iter().any(|e| !e.more_places.is_empty()));
        assert_eq!(
            shown.exchanges.len(),
            hidden.exchanges.len(),
            "{}",
            talk.name
        );
        // Which of the two comes first is told by their names.
        let verdicts = |analysis: &Analysis| {
            let resumes = analysis.resumes.iter();
            let resumes = resumes.map(|r| {
                format!(
                    "{:?} {} {}",
                    r.resume_time,
                    r.verdict.name(),
                    r.findings.join(",")
                )
            });
            let findings = analysis
                .findings
                .iter()
                .map(|f| format!("{} {:?}", f.code, f.confidence));
            let mut all: Vec<String> = resumes.chain(findings).collect();
            all.sort();
            all
        };
        if verdicts(&shown) != verdicts(&hidden) {
            bad.push(format!(
                "{}: {:#?}\n{:#?}",
                talk.name,
                verdicts(&shown),
                verdicts(&hidden)
            ));
        }
    }
    assert!(several > 100, "{several}");
    bad.truncate(5);
    assert!(bad.is_empty(), "\n{}", bad.join("\n"));
}

/// What the command writes and says, whatever road it takes.
#[test]
fn the_command_hides_names_wherever_it_writes() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("gateway-of-acme.pcap");
    fs::copy(tls::root().join("fixtures/real/ts04.pcap"), &capture).unwrap();
    let key = folder.path().join("key");
    fs::write(&key, KEY).unwrap();
    let keyed = format!("--redact={}", key.to_str().unwrap());
    let missing = folder.path().join("no-such-file-of-acme.pcap");
    let inputs = [&capture, &missing].map(|path| path.to_str().unwrap());
    let run = |redact: &str, out: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_forkscope"))
            .stdin(Stdio::null())
            .args(["extract", redact, "-o", out, inputs[0], inputs[1]])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        output
    };
    let shown = audit(&Options::default(), &[&capture]);
    let raw = fs::read(&capture).unwrap();
    let mut secrets = secrets(folder.path().to_str().unwrap(), &raw, &shown);
    secrets.insert(("file", "acme".to_owned()));
    secrets.retain(|(_, secret)| !OWN_WORDS.contains(secret.as_str()));
    assert!(secrets.len() > 5);
    let finds = |text: &str| {
        secrets
            .iter()
            .find(|(_, secret)| text.contains(secret.as_str()))
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();

    let out = tempfile::tempdir().unwrap();
    let [one, two, three] = ["1", "2", "3"].map(|name| out.path().join(name));
    for (redact, to) in [(&*keyed, &one), (&*keyed, &two), ("--redact", &three)] {
        let output = run(redact, to.to_str().unwrap());
        assert_eq!(finds(&text(&output.stdout)), None);
        assert_eq!(finds(&text(&output.stderr)), None);
    }
    let (facts, _) = unpacked_facts(&one);
    assert_eq!(finds(&facts), None);
    assert_eq!(facts, unpacked_facts(&two).0, "one key, one name");
    assert_ne!(facts, unpacked_facts(&three).0, "no key, no name twice");

    // One stream, in which nothing is packed: what looks like text in it is.
    let output = run(&keyed, "-");
    assert_eq!(finds(&text(&output.stdout)), None);
    assert_eq!(finds(&text(&output.stderr)), None);
    let shown = Command::new(env!("CARGO_BIN_EXE_forkscope"))
        .args(["extract", "-q", "-o", "-", inputs[0]])
        .output()
        .unwrap();
    assert!(
        finds(&text(&shown.stdout)).is_some(),
        "they are found where they are"
    );
}
