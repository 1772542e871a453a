//! `--evidence`: what is copied proves what it is copied for.

use crate::{
    inputs::{capture, parts},
    links,
    talk::{
        model::Talk,
        render_har, render_pcapng,
        tcp::{Packet, packets},
        tls,
    },
    talks::{options, pcap, talks},
};
use forkscope::{
    limits::Limits,
    model::{
        analysis::{Analysis, Finding, Resume},
        flow::Endpoint,
        packet::{Interface, LinkType},
        place::{InputId, Place},
        time::Timestamp,
    },
    pipeline::{Options, Progress, Shelf, Written, evidence, run},
    redact::Key,
    report::{EVIDENCE, Style, evidence::pcapng::Writer},
};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    rc::Rc,
};
use tempfile::TempDir;

/// Files in memory.
#[derive(Default)]
struct Memory(BTreeMap<String, Rc<RefCell<Vec<u8>>>>);

struct Page(Rc<RefCell<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shelf for Memory {
    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write>> {
        let page = Rc::default();
        let before = self.0.insert(name.to_owned(), Rc::clone(&page));
        assert!(before.is_none(), "{name} twice");
        Ok(Box::new(Page(page)))
    }
}

/// An audit with its evidence.
struct Proof {
    analysis: Analysis,
    files: BTreeMap<String, Vec<u8>>,
    written: Written,
}

impl Proof {
    fn of(options: &Options) -> Self {
        let mut analysis = run(options, &Progress::default()).unwrap();
        let mut memory = Memory::default();
        let progress = Progress::default();
        let written = evidence(&mut analysis, options, &progress, &mut memory).unwrap();
        let files = memory.0.into_iter();
        let files: BTreeMap<_, _> = files.map(|(name, page)| (name, page.take())).collect();
        assert!(written.files.iter().eq(files.keys()), "{:?}", written.files);
        assert!(written.unread.is_empty(), "{:?}", written.unread);
        Self {
            analysis,
            files,
            written,
        }
    }

    fn index(&self) -> String {
        let mut out = Vec::new();
        (EVIDENCE.write)(&self.analysis, &Style::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The findings that have a file, with it.
    fn proven(&self) -> BTreeMap<u32, &str> {
        let rows = self.analysis.evidence.iter();
        rows.filter_map(|row| Some((row.finding, row.file.as_deref()?)))
            .collect()
    }
}

/// An audit that says where its evidence is.
pub(crate) fn proven(options: &Options) -> Analysis {
    Proof::of(options).analysis
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/real")
        .join(name);
    assert!(path.exists(), "{name}");
    path.to_str().unwrap().to_owned()
}

fn options_for(names: &[&str]) -> Options {
    Options {
        inputs: names.iter().map(|name| fixture(name)).collect(),
        jobs: 1,
        ..Options::default()
    }
}

fn resume_of<'a>(analysis: &'a Analysis, finding: &Finding) -> Option<&'a Resume> {
    let mut resumes = analysis.resumes.iter();
    resumes.find(|resume| {
        Some(resume.resume) == finding.resume && resume.session_id == finding.session_id
    })
}

/// What an audit of the evidence says otherwise than the audit of the whole, finding by finding.
fn differences(proof: &Proof, options: &Options) -> Vec<String> {
    let folder = TempDir::new().unwrap();
    let mut bad = Vec::new();
    // Findings of one session have the same packets: one audit for all of them.
    let mut audits: BTreeMap<Vec<u8>, Analysis> = BTreeMap::new();
    for (finding, file) in proof.proven() {
        let finding = &proof.analysis.findings[finding as usize];
        let bytes = &proof.files[file];
        let key = bare(bytes, file);
        let again = audits.entry(key).or_insert_with(|| {
            let path = folder.path().join(file);
            fs::write(&path, bytes).unwrap();
            let options = Options {
                inputs: vec![path.to_str().unwrap().to_owned()],
                // The secrets of what is in it are in it.
                key_logs: Vec::new(),
                ..options.clone()
            };
            run(&options, &Progress::default()).unwrap()
        });
        let why = again
            .inputs
            .iter()
            .find_map(|input| input.unreadable.as_ref());
        if let Some(why) = why {
            bad.push(format!("{file}: {why}"));
            continue;
        }
        if again.inputs.iter().any(|input| !input.damaged.is_empty()) {
            bad.push(format!("{file}: {}", again.inputs[0].damaged));
        }
        if let Some(resume) = resume_of(&proof.analysis, finding) {
            let same = |other: &&Resume| {
                other.session_id == resume.session_id
                    && other.last_event_id == resume.last_event_id
                    && other.resume_time == resume.resume_time
            };
            match again.resumes.iter().find(same) {
                None => bad.push(format!("{file}: resume {} is not in it", resume.resume)),
                Some(other) if other.verdict != resume.verdict => bad.push(format!(
                    "{file}: {}, was {} ({}; {})",
                    other.verdict, resume.verdict, other.reason, resume.reason
                )),
                Some(_) => {}
            }
        }
        let found = again.findings.iter().any(|other| {
            other.code == finding.code
                && other.session_id == finding.session_id
                && other.time == finding.time
        });
        if !found {
            bad.push(format!("{file}: {} is not found again", finding.code));
        }
    }
    bad
}

/// What a file of evidence cannot show again: beginning of the talk's name, road, code or verdict, reason. Each is held
/// to be so still.
const BEYOND: &[(&str, &str, &str, &str)] = &[
    ("overall-", "har", "result-lost", NO_END),
    ("overall-", "pcapng", "session-lost", OTHERS),
    ("refused-", "pcapng", "session-lost", OTHERS),
    ("refused-with-503", "har", "session-lost", OTHERS),
    ("restart-with-", "pcapng", "session-lost", OTHERS),
    ("refused-with-503", "pcapng", "misleading-status", OTHERS),
    ("refused-with-503", "har", "misleading-status", OTHERS),
    ("refused-with-503", "pcapng", "no-reinitialize", OTHERS),
    ("refused-with-503", "har", "no-reinitialize", OTHERS),
    ("adopted-by-", "pcapng", "session-adopted", START),
    ("refused-conflict-", "pcapng", "cut-by-timer", TIMER),
    (
        "lossy-dense-among-",
        "pcapng",
        "continued, was lossy",
        ORDER,
    ),
    ("lossy-dense-among-", "har", "continued, was lossy", ORDER),
    ("lossy-dense-among-", "pcapng", "ids-skipped", ORDER),
    ("lossy-dense-among-", "har", "ids-skipped", ORDER),
];

const NO_END: &str = "a HAR does not tell how long nothing came any more";
const OTHERS: &str = "what became of other sessions decides what a refusal is";
const START: &str = "that the server had just started is not on connections of the session";
const TIMER: &str = "it takes cuts that are no event streams of the server";
const ORDER: &str = "the order of ids is learnt from other streams of the service";

/// A capture without what is said in it, so that equal ones are told.
fn bare(bytes: &[u8], name: &str) -> Vec<u8> {
    if name.ends_with(".har") {
        return bytes.to_vec();
    }
    let mut out = Vec::new();
    for (kind, body) in blocks(bytes) {
        if kind == 6 {
            let captured = number(body, 12) as usize;
            out.extend(&body[..20 + captured]);
        }
    }
    out
}

/// The blocks of a little-endian pcapng: kind and body.
fn blocks(bytes: &[u8]) -> Vec<(u32, &[u8])> {
    let mut blocks = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let len = number(rest, 4) as usize;
        assert_eq!(number(rest, len - 4) as usize, len);
        blocks.push((number(rest, 0), &rest[8..len - 4]));
        rest = &rest[len..];
    }
    blocks
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The evidence of every real capture says of its findings and resumes what the capture says.
#[test]
fn the_evidence_of_real_captures_gives_the_same_answer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/real");
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".json") && !name.ends_with(".md"))
        .collect();
    names.sort();
    let only = std::env::var("FORKSCOPE_REAL").unwrap_or_default();
    let mut bad = String::new();
    let mut proven = 0;
    for name in names.iter().filter(|name| name.contains(&only)) {
        let options = options_for(&[name]);
        let proof = Proof::of(&options);
        let expected = proof
            .analysis
            .findings
            .len()
            .min(options.limits.evidence_files);
        let without = expected - proof.proven().len();
        if without > 0 {
            let _ = writeln!(bad, "{name}: {without} findings have no evidence");
        }
        proven += proof.proven().len();
        for problem in differences(&proof, &options) {
            let _ = writeln!(bad, "{name}: {problem}");
        }
    }
    assert!(proven > 100, "only {proven}");
    assert!(bad.is_empty(), "\n{bad}");
}

/// So does that of every talk, as packets and as a HAR.
#[test]
fn the_evidence_of_talks_gives_the_same_answer() {
    let mut bad = String::new();
    let mut proven = 0;
    let mut excused = BTreeSet::new();
    for talk in talks() {
        for (road, bytes) in roads(&talk) {
            let folder = TempDir::new().unwrap();
            let path = folder.path().join("talk");
            fs::write(&path, bytes).unwrap();
            let mut options = options(&talk);
            options.inputs.push(path.to_str().unwrap().to_owned());
            let proof = Proof::of(&options);
            proven += proof.proven().len();
            for problem in differences(&proof, &options) {
                let known = BEYOND.iter().position(|(name, on, what, _)| {
                    let said = problem.split_once(": ").map_or("", |(_, said)| said);
                    talk.name.starts_with(name) && *on == road && said.starts_with(what)
                });
                match known {
                    Some(known) => _ = excused.insert(known),
                    None => _ = writeln!(bad, "{} as {road}: {problem}", talk.name),
                }
            }
        }
    }
    assert!(proven > 500, "only {proven}");
    for (index, (name, road, what, why)) in BEYOND.iter().enumerate() {
        if !excused.contains(&index) {
            let _ = writeln!(
                bad,
                "{name} as {road}: {what} is no longer beyond it ({why})"
            );
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
}

fn roads(talk: &Talk) -> Vec<(&'static str, Vec<u8>)> {
    let packets = packets(talk);
    let mut roads = vec![("pcapng", render_pcapng::render(talk, &packets))];
    if talk.har_skip.is_none() {
        roads.push(("har", render_har::render(talk)));
    }
    roads
}

/// One connection in two files, packed, of two formats: the evidence has the frames that the index says.
#[test]
fn the_index_leads_from_the_inputs_to_the_files() {
    let folder = TempDir::new().unwrap();
    // A connection in two files, of packets that were longer on the wire.
    let (header, mut records) = parts(&fs::read(fixture("ts04.pcap")).unwrap());
    for record in &mut records {
        let long = number(record, 12) + 4;
        record[12..16].copy_from_slice(&long.to_le_bytes());
    }
    let (first, second) = records.split_at(records.len() * 3 / 5);
    let halves = [("a.pcap", first), ("b.pcap", second)].map(|(name, records)| {
        let path = folder.path().join(name);
        fs::write(&path, capture(&header, records)).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let sets = [
        halves.to_vec(),
        ["ts15.pcap.gz"].map(fixture).to_vec(),
        ["tsfmt_pcapng_gz.pcapng.gz", "ts04.pcap"]
            .map(fixture)
            .to_vec(),
        ["tsfmt_merged.pcapng", "ts06_haproxy_int.pcap"]
            .map(fixture)
            .to_vec(),
        ["hv_fork.har.gz", "ts11.pcap"].map(fixture).to_vec(),
    ];
    for names in sets {
        let options = Options {
            inputs: names.clone(),
            ..Options::default()
        };
        let proof = Proof::of(&options);
        let mut found = 0;
        for row in &proof.analysis.evidence {
            let (Some(file), Some(frame)) = (&row.file, row.new_frame) else {
                continue;
            };
            found += 1;
            let bytes = &proof.files[&**file];
            let input = &proof.analysis.inputs[row.place.input.0 as usize];
            if file.ends_with(".har") {
                let har: serde_json::Value = serde_json::from_slice(bytes).unwrap();
                let entry = &har["log"]["entries"][frame as usize - 1];
                assert!(
                    entry["_forkscope"].as_str().unwrap().contains(row.mark),
                    "{file}"
                );
                continue;
            }
            let copied = packets_of(bytes);
            let copy = &copied[frame as usize - 1];
            let (time, data, original) = original_packet(&input.name, row.place.frame);
            assert_eq!(copy.time, time, "{file} {row:?}");
            assert!(copy.data == data, "{file} {row:?}");
            assert_eq!(copy.original, original, "{file} {row:?}");
            let said = format!("{}: ", row.mark);
            assert!(
                copy.comments
                    .iter()
                    .any(|comment| comment.starts_with(&said)),
                "{file} {row:?}"
            );
        }
        assert!(found > 3, "{names:?}: {found}");
        assert!(
            proof
                .analysis
                .evidence
                .iter()
                .all(|row| row.new_frame.is_some()),
            "{names:?}"
        );
    }
}

struct Copy {
    time: i64,
    data: Vec<u8>,
    original: u32,
    comments: Vec<String>,
}

/// The packets of a pcapng that forkscope wrote, by the letter of the format.
fn packets_of(bytes: &[u8]) -> Vec<Copy> {
    let mut resolutions = Vec::new();
    let mut packets = Vec::new();
    for (kind, body) in blocks(bytes) {
        match kind {
            1 => {
                let resolution = options_of(&body[8..])
                    .into_iter()
                    .find(|(code, _)| *code == 9);
                resolutions.push(u32::from(resolution.unwrap().1[0]));
            }
            6 => {
                let resolution = resolutions[number(body, 0) as usize];
                let ticks = u64::from(number(body, 4)) << 32 | u64::from(number(body, 8));
                let captured = number(body, 12) as usize;
                let rest = 20 + captured.next_multiple_of(4);
                packets.push(Copy {
                    time: i64::try_from(ticks).unwrap() * 10_i64.pow(9 - resolution),
                    data: body[20..20 + captured].to_vec(),
                    original: number(body, 16),
                    comments: options_of(&body[rest..])
                        .into_iter()
                        .filter(|(code, _)| *code == 1)
                        .map(|(_, text)| String::from_utf8(text).unwrap())
                        .collect(),
                });
            }
            _ => {}
        }
    }
    packets
}

fn options_of(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut options = Vec::new();
    while bytes.len() >= 4 {
        let [code, len] = [0, 2].map(|at| u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        if code == 0 {
            break;
        }
        let len = usize::from(len);
        options.push((code, bytes[4..4 + len].to_vec()));
        bytes = &bytes[4 + len.next_multiple_of(4)..];
    }
    options
}

/// The packet with this number, as forkscope's own reader gives it.
fn original_packet(name: &str, frame: u32) -> (i64, Vec<u8>, u32) {
    use forkscope::{
        anomaly::Anomalies,
        input::{Opened, Source, open},
    };
    let source = Source {
        name: name.to_owned(),
        path: Some(name.into()),
    };
    let progress = std::sync::atomic::AtomicU64::new(0);
    let Opened::Packets(mut reader) = open(&source, &Limits::default(), &progress).unwrap() else {
        panic!("{name}");
    };
    while let Some(batch) = reader.next_batch(&mut Anomalies::default(), InputId(0)) {
        let mut frames = batch.frames(0..batch.len(), InputId(0));
        if let Some(found) = frames.find(|found| found.place.frame == frame) {
            return (found.time.nanos(), found.data.to_vec(), found.original_len);
        }
    }
    panic!("{name} has no frame {frame}");
}

/// Interfaces are described as the original describes them, and times are counted in the same ticks.
#[test]
fn interfaces_keep_their_names_links_and_ticks() {
    let (_, records) = parts(&fs::read(fixture("ts04.pcap")).unwrap());
    let interface = |name: &str, resolution, offset| Interface {
        link: LinkType(1),
        snapshot: 4_096,
        resolution,
        offset,
        options: vec![(2, name.into()), (11, b"\0tcp".to_vec())],
    };
    let mut writer = Writer::new(Vec::new(), "a test", &["of a capture".to_owned()]).unwrap();
    for described in [
        interface("unused", 6, 0),
        interface("eth7", 9, 1_000),
        // 2^-20 seconds.
        interface("eth8", 0x94, -7),
    ] {
        writer.interface(&described, &[]).unwrap();
    }
    for (record, by) in records.iter().zip([1, 2].into_iter().cycle()) {
        let nanos =
            i64::from(number(record, 0)) * 1_000_000_000 + i64::from(number(record, 4)) * 1_000;
        let time = Timestamp::from_nanos(nanos);
        let len = number(record, 12);
        writer.packet(by, time, &record[16..], len, &[]).unwrap();
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.pcapng");
    fs::write(&path, writer.finish().unwrap()).unwrap();
    let options = Options {
        inputs: vec![path.to_str().unwrap().to_owned()],
        ..Options::default()
    };
    let proof = Proof::of(&options);
    assert!(proof.files.len() > 2);
    assert_eq!(differences(&proof, &options), Vec::<String>::new());
    for bytes in proof.files.values() {
        let mut seen = BTreeSet::new();
        for (_, body) in blocks(bytes).into_iter().filter(|(kind, _)| *kind == 1) {
            let options: BTreeMap<u16, Vec<u8>> = options_of(&body[8..]).into_iter().collect();
            let text = |code: u16| String::from_utf8_lossy(&options[&code]).into_owned();
            assert!(text(1).ends_with("a.pcapng"), "{}", text(1));
            let offset = i64::from_le_bytes(options[&14][..].try_into().unwrap());
            let link = u16::from_le_bytes([body[0], body[1]]);
            assert_eq!((link, number(body, 4), &*text(11)), (1, 4_096, "\0tcp"));
            seen.insert((text(2), options[&9][0], offset));
        }
        let want = [("eth7".to_owned(), 9, 1_000), ("eth8".to_owned(), 0x94, -7)];
        assert_eq!(seen, BTreeSet::from(want));
    }
}

/// Neither threads nor the order of inputs change a byte, and a second run writes the same.
#[test]
fn evidence_is_the_same_in_every_run() {
    let names = [
        "ts15.pcap.gz",
        "pv_rotated_1.pcap",
        "pv_rotated_0.pcap",
        "hv_fork.har.gz",
    ];
    let one = Proof::of(&options_for(&names));
    assert!(one.files.len() > 15, "{}", one.files.len());
    for jobs in [1, 8] {
        let mut options = options_for(&names);
        options.inputs.reverse();
        options.jobs = jobs;
        let other = Proof::of(&options);
        assert!(one.files == other.files, "{jobs}");
        assert_eq!(one.index(), other.index());
    }
}

/// Two taps of one connection: what each saw is there, by an interface of its own.
#[test]
fn taps_whose_clocks_differ_are_put_right_in_the_evidence() {
    let talk = talks()
        .into_iter()
        .find(|talk| talk.name == "fork-dense")
        .unwrap_or_else(|| {
            let mut talks = talks().into_iter();
            talks.find(|talk| pcap_findings(talk) > 0).unwrap()
        });
    let folder = TempDir::new().unwrap();
    let (header, records) = parts(&pcap(&talk, &packets(&talk)));
    // Each tap lost what the other has; the clock of the second is 1.5 s and a microsecond ahead.
    let lost = |each: usize| {
        let kept = records.iter().enumerate();
        let kept = kept.filter(move |(index, _)| index % 5 != each);
        kept.map(|(_, record)| record.clone()).collect::<Vec<_>>()
    };
    let mut late = lost(3);
    for record in &mut late {
        let micros = number(record, 4) + 500_001;
        let seconds = number(record, 0) + 1 + micros / 1_000_000;
        record[..4].copy_from_slice(&seconds.to_le_bytes());
        record[4..8].copy_from_slice(&(micros % 1_000_000).to_le_bytes());
    }
    let mut options = options(&talk);
    for (name, records) in [("a.pcap", lost(1)), ("b.pcap", late)] {
        let path = folder.path().join(name);
        fs::write(&path, capture(&header, &records)).unwrap();
        options.inputs.push(path.to_str().unwrap().to_owned());
    }
    let given = forkscope::model::time::Span::from_nanos(-1_500_001_000);
    options.clock_offsets = vec![("b.pcap".to_owned(), given)];
    let proof = Proof::of(&options);
    let options = Options {
        clock_offsets: Vec::new(),
        ..options
    };
    assert_eq!(differences(&proof, &options), Vec::<String>::new());
    let (_, bytes) = proof.files.first_key_value().unwrap();
    let times: Vec<i64> = packets_of(bytes).iter().map(|packet| packet.time).collect();
    assert!(times.is_sorted() && times.len() > 20, "{}", times.len());
    let text = String::from_utf8_lossy(bytes);
    assert!(text.contains("b.pcap; -1500.001000 ms were added to its times"));
    assert_eq!(
        blocks(bytes).iter().filter(|(kind, _)| *kind == 1).count(),
        2
    );
}

fn pcap_findings(talk: &Talk) -> usize {
    crate::talks::audit(talk, &pcap(talk, &packets(talk)))
        .findings
        .len()
}

/// What is too much is left out, which the file says; what decides is in it.
#[test]
fn a_file_holds_no_more_than_its_limit() {
    let mut options = options_for(&["ts15.pcap.gz"]);
    options.limits.evidence_bytes = 16 << 10;
    options.limits.evidence_files = 7;
    let proof = Proof::of(&options);
    let findings = proof.analysis.findings.len();
    assert_eq!(proof.files.len(), 7);
    assert_eq!(proof.written.beyond, findings - 7);
    let index = proof.index();
    let without = index
        .lines()
        .filter(|line| line.contains(",more findings than files are written for,"));
    assert_eq!(without.count(), findings - 7);
    let worst: Vec<_> = proof
        .proven()
        .keys()
        .map(|&finding| proof.analysis.findings[finding as usize].severity)
        .collect();
    let least = worst.iter().min().unwrap();
    let rest = proof
        .analysis
        .evidence
        .iter()
        .filter(|row| row.file.is_none());
    assert!(
        rest.map(|row| proof.analysis.findings[row.finding as usize].severity)
            .all(|other| other <= *least)
    );
    let mut left_out = 0;
    for (name, bytes) in &proof.files {
        assert!(bytes.len() < 24 << 10, "{name}: {}", bytes.len());
        let section = blocks(bytes)[0].1;
        let said = String::from_utf8_lossy(section);
        left_out +=
            usize::from(said.contains("Left out, for a file holds no more than 16384 bytes: "));
    }
    assert!(left_out > 0);
    let marks = proof
        .analysis
        .evidence
        .iter()
        .filter(|row| row.file.is_some());
    assert!(marks.clone().count() > 20);
    for row in marks {
        assert!(row.new_frame.is_some(), "{row:?}");
    }
}

/// Where names are hidden, evidence has no payload, no address and no name of the capture, and says so.
/// Conversations can still be followed.
#[test]
fn redacted_evidence_has_bare_headers_and_other_addresses() {
    let names = ["ts04.pcap", "hv_fork.har.gz"];
    let plain = Proof::of(&options_for(&names));
    let options = Options {
        redact: Some(Key::from_bytes(b"a key of sixteen").unwrap()),
        ..options_for(&names)
    };
    let proof = Proof::of(&options);
    assert_eq!(
        proof.files,
        Proof::of(&options).files,
        "one key, one result"
    );
    // The names have the session in them, and begin with the number of the finding.
    assert_eq!(proof.files.len(), plain.files.len());
    let mut secrets: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    for session in &plain.analysis.sessions {
        secrets.push(session.session_id.to_string());
    }
    for exchange in &plain.analysis.exchanges {
        let ends = [&exchange.client, &exchange.server].into_iter().flatten();
        secrets.extend(ends.map(|end| match end {
            Endpoint::Address(address) => address.ip().to_string(),
            Endpoint::Name(name, _) => name.to_string(),
        }));
    }
    secrets.sort();
    secrets.dedup();
    assert!(secrets.len() > 6, "{secrets:?}");
    for (name, bytes) in proof
        .files
        .iter()
        .chain([(&"index.csv".to_owned(), &proof.index().into())])
    {
        let text = String::from_utf8_lossy(bytes);
        for secret in secrets.iter().map(String::as_str).chain(["jsonrpc"]) {
            assert!(!text.contains(secret), "{name} tells {secret}");
        }
    }
    let told = |secret: &str| {
        let mut files = plain.files.values();
        files.any(|bytes| String::from_utf8_lossy(bytes).contains(secret))
    };
    assert!(
        secrets
            .iter()
            .all(|secret| told(secret) || secret.contains('.')),
        "the search finds what is there"
    );
    for ((name, bytes), whole) in proof.files.iter().zip(plain.files.values()) {
        if name.ends_with(".har") {
            let har: serde_json::Value = serde_json::from_slice(bytes).unwrap();
            let comment = har["log"]["comment"].as_str().unwrap();
            assert!(comment.contains("the payload is cut off"), "{comment}");
            for entry in har["log"]["entries"].as_array().unwrap() {
                assert_eq!(entry["request"]["url"], "");
                assert!(
                    entry["response"]["content"].is_null() && entry["request"]["headers"].is_null()
                );
            }
            continue;
        }
        let said = String::from_utf8_lossy(blocks(bytes)[0].1);
        assert!(said.contains("the payload is cut off"), "{said}");
        let (packets, whole) = (packets_of(bytes), packets_of(whole));
        assert_eq!(packets.len(), whole.len());
        let mut cut = 0;
        for packet in packets.iter().filter(|packet| !packet.data.is_empty()) {
            cut += usize::from(packet.original as usize > packet.data.len());
            // IPv4 and TCP, from and to what stands for loopback's addresses.
            assert_eq!(packet.data.len(), 40, "{name}");
            assert_eq!(
                (packet.data[0], packet.data[12], packet.data[16]),
                (0x45, 10, 10)
            );
            assert_ne!(packet.data[12..16], packet.data[16..20]);
        }
        assert!(cut > 10, "{name}");
    }
}

/// Every file opens in Wireshark without a remark, and shows its comments at the frames of the index.
#[test]
fn wireshark_opens_the_evidence_and_shows_the_comments() {
    if Command::new("tshark").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "tshark is missing");
        return;
    }
    let names = [
        "ts04.pcap",
        "tsfmt_merged.pcapng",
        "ts06_haproxy_int.pcap",
        "tsfmt_gz.pcap.gz",
        "ts11.pcap",
    ];
    let proof = Proof::of(&options_for(&names));
    let folder = TempDir::new().unwrap();
    let mut files = 0;
    for (name, bytes) in &proof.files {
        files += 1;
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let output = Command::new("tshark")
            .arg("-n")
            .arg("-r")
            .arg(&path)
            .args(["-T", "fields", "-E", "aggregator=|"])
            .args([
                "-e",
                "frame.number",
                "-e",
                "tcp.stream",
                "-e",
                "frame.comment",
                "-e",
                "_ws.malformed",
            ])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = said
            .lines()
            .filter(|line| !line.starts_with("Running as user"))
            .collect();
        assert!(
            output.status.success() && said.is_empty(),
            "{name}: {said:?}"
        );
        let frames = String::from_utf8(output.stdout).unwrap();
        let frames: Vec<Vec<&str>> = frames
            .lines()
            .map(|line| line.split('\t').collect())
            .collect();
        assert_eq!(frames.len(), packets_of(bytes).len(), "{name}");
        for row in &proof.analysis.evidence {
            if row.file.as_deref() != Some(&**name) {
                continue;
            }
            let frame = &frames[row.new_frame.unwrap() as usize - 1];
            assert_eq!(
                frame[1],
                row.new_tcp_stream.unwrap().to_string(),
                "{name}: {frame:?}"
            );
            assert!(
                frame[2].contains(&format!("{}: ", row.mark)),
                "{name}: {frame:?}"
            );
        }
        assert!(
            frames
                .iter()
                .all(|frame| frame.get(3).is_none_or(|text| text.is_empty())),
            "{name}"
        );
    }
    assert!(files > 10, "only {files}");
}

fn forkscope(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forkscope"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn said(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_command_writes_files_and_an_index() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("proof");
    let (out, capture) = (out.to_str().unwrap(), fixture("ts04.pcap"));
    let output = forkscope(&["audit", "-q", "--evidence", out, &capture]);
    assert_eq!((output.status.code(), said(&output)), (Some(1), ""));
    assert!(output.stdout.is_empty());
    let written = names(Path::new(out));
    assert_eq!(written.last().map(String::as_str), Some("index.csv"));
    assert!(
        written[0].starts_with("001-") && written[0].ends_with(".pcapng"),
        "{written:?}"
    );
    let index = fs::read_to_string(Path::new(out).join("index.csv")).unwrap();
    let (header, rows) = index.split_once('\n').unwrap();
    assert_eq!(
        header,
        "number,code,severity,session_id,resume,file,mark,note,input,tcp_stream,frame,file_tcp_stream,file_frame,\
         wireshark_filter"
    );
    for name in written.iter().filter(|name| *name != "index.csv") {
        assert!(rows.contains(name.as_str()), "{name}");
    }

    // A later run with less to say leaves what it did not write, and says so.
    let own = Path::new(out).join("notes.txt");
    fs::write(&own, "mine").unwrap();
    let clean = fixture("py01_clean_v1.pcap");
    let output = forkscope(&["audit", "-q", "--evidence", out, &clean]);
    assert_eq!(output.status.code(), Some(0));
    let text = format!(
        "{} files of an earlier run, which are not in index.csv, left as before\n",
        written.len() - 1
    );
    assert!(said(&output).ends_with(&text), "{}", said(&output));
    assert_eq!(names(Path::new(out)).len(), written.len() + 1);
    assert_eq!(fs::read_to_string(own).unwrap(), "mine");
    let index = fs::read_to_string(Path::new(out).join("index.csv")).unwrap();
    assert_eq!(index.lines().count(), 1);
}

#[test]
fn what_can_be_read_only_once_is_refused() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("proof");
    let out = out.to_str().unwrap();
    let mut inputs = vec!["-".to_owned()];
    let pipe = folder.path().join("pipe");
    if Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .is_ok_and(|status| status.success())
    {
        inputs.push(pipe.to_str().unwrap().to_owned());
    }
    for input in &inputs {
        let output = forkscope(&["audit", "--evidence", out, input]);
        assert_eq!(output.status.code(), Some(2), "{input}");
        assert_eq!(
            said(&output),
            format!(
                "forkscope: --evidence reads its inputs again, and {input} can be read only once: save it to a file first\n"
            )
        );
        assert!(output.stdout.is_empty() && !Path::new(out).exists());
    }
}

#[test]
fn a_folder_with_inputs_in_it_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let capture = folder.path().join("below/a.pcap");
    fs::create_dir(capture.parent().unwrap()).unwrap();
    fs::copy(fixture("ts04.pcap"), &capture).unwrap();
    let dir = folder.path().to_str().unwrap();
    let output = forkscope(&["audit", "-q", "--evidence", dir, capture.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("no evidence was written, for it holds an input of this run"),
        "{}",
        said(&output)
    );
    assert_eq!(names(folder.path()), ["below"]);
    let capture = capture.to_str().unwrap();
    let output = forkscope(&["audit", "-q", "--redact", "--evidence", dir, capture]);
    assert!(
        said(&output).contains("input of this run, input-1"),
        "{}",
        said(&output)
    );
    assert!(!said(&output).contains("a.pcap"));
}

#[test]
fn nothing_half_written_stays() {
    let folder = TempDir::new().unwrap();
    let capture = fixture("ts04.pcap");
    // A folder that cannot be made, and a name that is taken.
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let output = forkscope(&[
        "audit",
        "-q",
        "--evidence",
        file.to_str().unwrap(),
        &capture,
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("not a directory"),
        "{}",
        said(&output)
    );
    let out = folder.path().join("proof");
    fs::create_dir_all(out.join("001-event-id-reused-taken")).unwrap();
    let first = {
        let proof = Proof::of(&options_for(&["ts04.pcap"]));
        proof.files.keys().next().unwrap().clone()
    };
    fs::create_dir_all(out.join(&first).join("in-the-way")).unwrap();
    let output = forkscope(&["audit", "-q", "--evidence", out.to_str().unwrap(), &capture]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        names(&out),
        [first.as_str(), "001-event-id-reused-taken"]
            .map(str::to_owned)
            .into_iter()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );
}

/// A disk that is full after some bytes.
struct Full(usize);

impl Shelf for Full {
    fn create(&mut self, _: &str) -> io::Result<Box<dyn Write>> {
        Ok(Box::new(Self(self.0)))
    }
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let free = self.0.min(bytes.len());
        self.0 -= free;
        if free == 0 {
            Err(io::Error::other("full"))
        } else {
            Ok(free)
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    for name in ["ts04.pcap", "hv_fork.har.gz"] {
        let options = options_for(&[name]);
        for room in [0, 300, 3_000] {
            let mut analysis = run(&options, &Progress::default()).unwrap();
            let error = evidence(
                &mut analysis,
                &options,
                &Progress::default(),
                &mut Full(room),
            )
            .unwrap_err();
            assert!(error.to_string().starts_with("00"), "{error}");
            assert!(
                error.to_string().ends_with(": cannot write: full"),
                "{error}"
            );
            assert!(analysis.evidence.is_empty());
        }
    }
}

/// An input that has changed since it was audited gives what is still there.
#[test]
fn an_input_that_is_gone_is_told() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.pcap");
    fs::copy(fixture("ts04.pcap"), &path).unwrap();
    let options = Options {
        inputs: vec![path.to_str().unwrap().to_owned()],
        ..Options::default()
    };
    let mut analysis = run(&options, &Progress::default()).unwrap();
    let whole = fs::read(&path).unwrap();
    for left in [None, Some(100), Some(whole.len() / 2)] {
        match left {
            None => fs::remove_file(&path).unwrap(),
            Some(left) => fs::write(&path, &whole[..left]).unwrap(),
        }
        let mut memory = Memory::default();
        let outcome = evidence(&mut analysis, &options, &Progress::default(), &mut memory);
        match left {
            None => assert!(outcome.is_err()),
            Some(_) => assert!(outcome.is_ok()),
        }
    }
    let rows = &analysis.evidence;
    assert!(
        rows.iter().any(|row| row.new_frame.is_none())
            && rows.iter().any(|row| row.new_frame.is_some())
    );
}

/// What the wire says reaches neither names nor comments as it is.
#[test]
fn what_the_wire_says_is_escaped_in_comments() {
    let text = fs::read_to_string(PathBuf::from(fixture("hv_fork_bom.har"))).unwrap();
    let proof = Proof::of(&options_for(&["hv_fork_bom.har"]));
    let session = proof.analysis.findings[0].session_id.to_string();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.har");
    fs::write(&path, text.replace(&session, "\\u001b[31m\\u202e../\\n|x")).unwrap();
    let options = Options {
        inputs: vec![path.to_str().unwrap().to_owned()],
        ..Options::default()
    };
    let proof = Proof::of(&options);
    assert!(!proof.files.is_empty());
    for (name, bytes) in &proof.files {
        assert!(
            name.chars()
                .all(|c| c.is_ascii_alphanumeric() || "-.".contains(c)),
            "{name}"
        );
        let har: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        let said = har["log"]["comment"].as_str().unwrap().to_owned();
        let notes = har["log"]["entries"].as_array().unwrap().iter();
        let notes = notes
            .filter_map(|entry| entry["_forkscope"].as_str())
            .collect::<String>();
        assert!(!(said + &notes).contains(['\u{1b}', '\u{202e}']), "{name}");
    }
    assert!(
        proof
            .analysis
            .evidence
            .iter()
            .all(|row| row.place != Place::default())
    );
}

/// Fragments come with the packets that they make whole, also within a tunnel.
#[test]
fn fragments_and_tunnels_are_copied_whole() {
    let forked = links::some_talks()
        .into_iter()
        .find(|talk| pcap_findings(talk) > 0);
    let talk = forked.unwrap();
    let plain = links::datagrams(&talk, &packets(&talk));
    let mut in_fragments = Vec::new();
    let mut in_tunnel = Vec::new();
    for (id, (at, ip)) in (0..).zip(&plain) {
        let pieces = links::fragments(ip, id, 48);
        in_tunnel.extend(
            pieces
                .iter()
                .map(|ip| (*at, links::ethernet_in_vxlan(4789, ip))),
        );
        in_fragments.extend(pieces.into_iter().map(|piece| (*at, piece)));
    }
    let folder = TempDir::new().unwrap();
    for (name, link, frames) in [("fragments", 101, in_fragments), ("tunnel", 1, in_tunnel)] {
        assert!(frames.len() > 2 * plain.len());
        let path = folder.path().join(name);
        fs::write(&path, links::pcap(link, &frames)).unwrap();
        let mut options = options(&talk);
        options.inputs.push(path.to_str().unwrap().to_owned());
        let proof = Proof::of(&options);
        assert!(!proof.files.is_empty(), "{name}");
        assert_eq!(
            differences(&proof, &options),
            Vec::<String>::new(),
            "{name}"
        );
        // The conversation is all that there is in the capture.
        for bytes in proof.files.values() {
            assert_eq!(packets_of(bytes).len(), frames.len(), "{name}");
        }
        options.redact = Some(Key::random().unwrap());
        let bare = Proof::of(&options);
        for bytes in bare.files.values() {
            // Each segment once, where it is whole, and without what was around it.
            assert_eq!(packets_of(bytes).len(), plain.len(), "{name}");
            assert!(
                !String::from_utf8_lossy(bytes).contains("HTTP/1.1"),
                "{name}"
            );
        }
    }
}

/// The secrets of what is copied are copied with it, however the first record was cut into packets.
#[test]
fn a_hello_in_pieces_has_its_secrets_in_evidence() {
    let folder = TempDir::new().unwrap();
    let talk = talks()
        .into_iter()
        .find(|talk| talk.name.starts_with("forked"));
    let talk = talk.unwrap();
    for (version, number) in tls::VERSIONS {
        let (packets, keys) = tls::packets(&talk, number);
        let mut cut = Vec::new();
        for packet in packets {
            // Not even its random is in one packet.
            if packet.payload.starts_with(&[22, 3]) && packet.payload.get(5) == Some(&1) {
                for (at, piece) in (0..).step_by(20).zip(packet.payload.chunks(20)) {
                    cut.push(Packet {
                        seq: packet.seq.wrapping_add(at),
                        payload: piece.to_vec(),
                        ..packet.clone()
                    });
                }
            } else {
                cut.push(packet);
            }
        }
        let capture = folder.path().join("talk.pcap");
        fs::write(&capture, pcap(&talk, &cut)).unwrap();
        let log = folder.path().join("keys");
        fs::write(&log, keys).unwrap();
        let mut options = options(&talk);
        options.inputs.push(capture.to_str().unwrap().to_owned());
        options.key_logs.push(log);
        let proof = Proof::of(&options);
        assert!(!proof.files.is_empty(), "{version}: nothing is proven");
        for (name, bytes) in &proof.files {
            let secrets = blocks(bytes).into_iter().filter(|(kind, _)| *kind == 10);
            assert_eq!(secrets.count(), 1, "{version}: {name}");
        }
        let bad = differences(&proof, &options);
        assert!(bad.is_empty(), "{version}: {bad:#?}");
    }
}
