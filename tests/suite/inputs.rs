//! Many files: rings that begin again, overlaps, copies, wrong clocks, pipes, more files than may be
//! open; and what is said of what could not be read.

use crate::talk::{
    expect,
    model::{Side, Talk},
    parse::parse,
    render_pcap::{Link, Pcap, file, frame},
    tcp::{ACK, PSH, Packet, packets},
};
use forkscope::{
    anomaly::Kind,
    model::{
        analysis::{Analysis, ClockOffset},
        time::Span,
    },
    pipeline::{Options, Progress, run},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/real")
        .join(name)
}

/// A little-endian pcap file in its parts: header and records.
pub(crate) fn parts(capture: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (header, mut rest) = capture.split_at(24);
    assert!(
        header.starts_with(&[0xd4, 0xc3, 0xb2, 0xa1])
            || header.starts_with(&[0x4d, 0x3c, 0xb2, 0xa1])
    );
    let mut records = Vec::new();
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let (record, more) = rest.split_at(16 + length);
        records.push(record.to_vec());
        rest = more;
    }
    (header.to_vec(), records)
}

/// A forked session: 78 packets on 4 connections.
fn forked() -> (Vec<u8>, Vec<Vec<u8>>) {
    parts(&fs::read(fixture("ts04.pcap")).unwrap())
}

pub(crate) fn capture(header: &[u8], records: &[Vec<u8>]) -> Vec<u8> {
    [header, &records.concat()].concat()
}

/// A record with its time so many seconds later, and another first byte: of another tap.
fn later(record: &[u8], seconds: i32) -> Vec<u8> {
    let mut record = record.to_vec();
    let time = u32::from_le_bytes(record[..4].try_into().unwrap());
    let time = time.checked_add_signed(seconds).unwrap();
    record[..4].copy_from_slice(&time.to_le_bytes());
    record
}

fn write(folder: &TempDir, name: &str, bytes: &[u8]) -> String {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path.into_os_string().into_string().unwrap()
}

fn audit(inputs: &[&str]) -> Analysis {
    let options = Options {
        inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
        ..Options::default()
    };
    run(&options, &Progress::default()).unwrap()
}

fn whole() -> String {
    let whole = audit(&[fixture("ts04.pcap").to_str().unwrap()]);
    assert!(
        whole
            .resumes
            .iter()
            .any(|resume| resume.verdict.name() == "forked")
    );
    fingerprint(&whole)
}

/// What a run says, but for the frames that it saw it in: files of their own number these anew.
fn fingerprint(analysis: &Analysis) -> String {
    let said = expect::fingerprint(analysis);
    let mut parts = said.split(" frame ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let stream = rest
            .strip_prefix(" Some(")
            .and_then(|rest| rest.split_once(')'));
        out.push_str(" frame");
        out.push_str(stream.map_or(rest, |(_, rest)| rest));
    }
    out
}

fn packets_of(analysis: &Analysis) -> u64 {
    analysis.inputs.iter().map(|input| input.packets).sum()
}

/// What was given twice, in the words of the anomaly.
fn again(analysis: &Analysis) -> Vec<String> {
    let twice = analysis.anomalies.iter();
    let twice = twice.filter(|(_, kind, _)| *kind == Kind::DuplicateInput);
    twice
        .flat_map(|(_, _, tally)| {
            tally
                .examples
                .iter()
                .map(|example| example.detail.to_string())
        })
        .collect()
}

fn forkscope(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forkscope"));
    command
        .current_dir(folder)
        .env_remove("COLUMNS")
        .stdin(Stdio::null());
    command
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// Words apart by one space.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_ring_that_began_again_says_what_the_whole_says() {
    let (header, records) = forked();
    let folder = TempDir::new().unwrap();
    // The newest files have the lowest numbers.
    for (part, name) in records
        .chunks(20)
        .zip(["x.pcap2", "x.pcap3", "x.pcap0", "x.pcap1"])
    {
        write(&folder, name, &capture(&header, part));
    }
    let analysis = audit(&[folder.path().to_str().unwrap()]);
    assert_eq!(analysis.inputs.len(), 4);
    assert_eq!(fingerprint(&analysis), whole());
    assert_eq!(again(&analysis), [""; 0]);
}

#[test]
fn captures_that_overlap_in_time_count_once() {
    let (header, records) = forked();
    let folder = TempDir::new().unwrap();
    for (from, to, early, late) in [(40, 60, "a", "b"), (10, 70, "b", "a"), (0, 77, "a", "b")] {
        let one = write(&folder, early, &capture(&header, &records[..to]));
        let two = write(&folder, late, &capture(&header, &records[from..]));
        let analysis = audit(&[&one, &two]);
        assert_eq!(fingerprint(&analysis), whole(), "{from} to {to}");
    }
}

#[test]
fn a_connection_may_span_any_number_of_files() {
    let (header, records) = forked();
    let folder = TempDir::new().unwrap();
    for (number, record) in records.iter().enumerate() {
        let name = format!("{number:03}.pcap");
        write(
            &folder,
            &name,
            &capture(&header, std::slice::from_ref(record)),
        );
    }
    let analysis = audit(&[folder.path().to_str().unwrap()]);
    assert_eq!(analysis.inputs.len(), records.len());
    assert_eq!(fingerprint(&analysis), whole());
}

#[cfg(unix)]
#[test]
fn what_is_given_twice_counts_once_and_is_said() {
    let folder = TempDir::new().unwrap();
    let bytes = fs::read(fixture("ts04.pcap")).unwrap();
    let file = write(&folder, "a.pcap", &bytes);
    let copy = write(&folder, "z/copy.pcap", &bytes);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (link, hard, around) = (path("link.pcap"), path("hard.pcap"), path("z/../a.pcap"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    fs::hard_link(&file, &hard).unwrap();
    for (second, said) in [
        (&file, "named again".to_owned()),
        (&around, format!("named again as {around}")),
        (&link, format!("named again as {link}")),
        (&hard, format!("named again as {hard}")),
        (&copy, format!("{copy} holds the same bytes")),
    ] {
        let analysis = audit(&[&file, second]);
        assert_eq!(fingerprint(&analysis), whole(), "{second}");
        assert_eq!(packets_of(&analysis), 78, "{second}");
        assert_eq!(again(&analysis), [said]);
    }
    // A row for each file that was given, but for other names of one.
    let analysis = audit(&[&file, &copy, &link]);
    let rows: Vec<_> = analysis
        .inputs
        .iter()
        .map(|input| {
            (
                &*input.name,
                &*input.format,
                input.packets,
                input.copy_of.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (&*file, "pcap", 78, None),
            (&*copy, "pcap", 0, Some(&*file))
        ]
    );
    let output = forkscope(folder.path())
        .args(["audit", "a.pcap", "./a.pcap", "z/copy.pcap"])
        .output()
        .unwrap();
    let text = plain(stdout(&output));
    assert!(
        text.contains(
            "Copies a.pcap: named again as ./a.pcap; it counts once \
             a.pcap: z/copy.pcap holds the same bytes; it counts once"
        ),
        "{text}"
    );
}

#[test]
fn a_copy_of_a_har_counts_once() {
    let folder = TempDir::new().unwrap();
    let bytes = fs::read(fixture("hv_fork_noesm.har")).unwrap();
    let one = write(&folder, "a.har", &bytes);
    let two = write(&folder, "b.har", &bytes);
    let (alone, both) = (audit(&[&one]), audit(&[&one, &two]));
    assert_eq!(fingerprint(&alone), fingerprint(&both));
    assert_eq!(alone.exchanges.len(), both.exchanges.len());
    assert_eq!(both.inputs[1].copy_of.as_deref(), Some(&*one));
}

#[test]
fn unreadable_files_are_told_together_and_the_others_are_audited() {
    let (header, records) = forked();
    let folder = TempDir::new().unwrap();
    let (early, late) = records.split_at(40);
    write(&folder, "run/deep/er/early.pcap", &capture(&header, early));
    write(&folder, "run/late.pcap", &capture(&header, late));
    write(
        &folder,
        "run/deep/notes.txt",
        b"no capture, and not looked at",
    );
    for number in 0..7 {
        write(&folder, &format!("bad{number}"), b"no capture");
    }
    let mut arguments = vec!["audit".to_owned(), "run".to_owned()];
    arguments.extend((0..7).map(|number| format!("bad{number}")));
    let output = forkscope(folder.path()).args(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said: Vec<_> = stderr(&output).lines().collect();
    assert_eq!(said.len(), 7, "{said:?}");
    assert!((0..7).all(|number| said[number].starts_with(&format!("forkscope: bad{number}: "))));
    let text = stdout(&output);
    assert!(text.contains(" 1. FORKED"), "{text}");
    let (_, last) = text.rsplit_once("\n\n").unwrap();
    let last = plain(last);
    assert!(
        last.starts_with("Not read bad0: not a capture (starts with \"no capture\") bad1: ")
            && last.ends_with("and 2 more; -v shows them"),
        "{last}"
    );
    let output = forkscope(folder.path())
        .args(&arguments)
        .arg("-v")
        .output()
        .unwrap();
    assert!(plain(stdout(&output)).contains("bad6: not a capture"));
}

/// All files are in the middle of being read at once.
#[cfg(unix)]
#[test]
fn thousands_of_files_are_read_with_few_descriptors() {
    let (header, records) = forked();
    let folder = TempDir::new().unwrap();
    for (number, part) in records.chunks(2).enumerate() {
        write(
            &folder,
            &format!("real{number:04}"),
            &capture(&header, part),
        );
    }
    let (first, last) = (&records[0], &records[77]);
    for number in 0..5000 - records.len() / 2 {
        // Other bytes for each, or they were copies; and no packet of any protocol.
        let noise = |record: &[u8]| {
            let mut noise = record[..8].to_vec();
            noise.extend([12, 0, 0, 0, 12, 0, 0, 0]);
            noise.extend(number.to_le_bytes());
            noise.extend([0xff; 4]);
            noise
        };
        let both = [noise(first), noise(last)];
        write(
            &folder,
            &format!("noise{number:04}"),
            &capture(&header, &both),
        );
    }
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_forkscope"))
        .args(["audit", "-j", "2", "--format", "json"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert_eq!(stderr(&output), "");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["inputs"].as_array().unwrap().len(), 5000);
    assert_eq!(report["totals"]["resumes"], 2);
    assert_eq!(report["totals"]["forked"], 1);
    assert_eq!(output.status.code(), Some(1));
}

/// Whoever writes into a pipe writes once.
#[cfg(unix)]
#[test]
fn pipes_and_standard_input_are_read_once() {
    use std::io::Write;
    let folder = TempDir::new().unwrap();
    let bytes = fs::read(fixture("ts04.pcap")).unwrap();
    let pipe = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    std::os::unix::fs::symlink(&pipe, folder.path().join("again")).unwrap();
    let child = forkscope(folder.path())
        .args(["audit", "pipe", "again", "pipe"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    fs::write(&pipe, &bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = plain(stdout(&output));
    assert!(
        text.starts_with("Read pipe: 78 packets, 4 TCP connections"),
        "{text}"
    );
    assert!(
        text.contains("Copies pipe: named again as again; it counts once pipe: named again; it")
    );

    for arguments in [
        &["-", "-"][..],
        &["-", "/dev/stdin"],
        &["/dev/stdin", "/dev/fd/0"],
    ] {
        let mut child = forkscope(folder.path())
            .arg("audit")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let text = stdout(&output);
        assert!(
            text.contains(": 78 packets, 4 TCP connections"),
            "{arguments:?}: {text}"
        );
    }
}

/// Two taps of the forked session; the second sees an ARP packet more, and its clock is ahead by so
/// many seconds.
fn taps(ahead: i32) -> TempDir {
    let (header, records) = forked();
    let folder = TempDir::new().unwrap();
    write(&folder, "a.pcap", &capture(&header, &records));
    let mut other: Vec<_> = records.iter().map(|record| later(record, ahead)).collect();
    let mut arp = other[0][..8].to_vec();
    arp.extend([14, 0, 0, 0, 14, 0, 0, 0]);
    arp.extend([0xff; 12]);
    arp.extend([0x08, 0x06]);
    other.insert(0, arp);
    write(&folder, "taps/b.pcap", &capture(&header, &other));
    folder
}

#[test]
fn a_clock_offset_makes_the_report_that_there_is_without_skew() {
    let audit = |ahead: i32, more: &[&str]| {
        let folder = taps(ahead);
        let output = forkscope(folder.path())
            .args(["audit", "a.pcap", "taps/b.pcap", "-o", "out", "-v"])
            .args(more)
            .output()
            .unwrap();
        assert_eq!(stderr(&output), "");
        (folder, output)
    };
    let (want, said) = audit(0, &[]);
    for (ahead, offset) in [
        (2, "b.pcap=-2s"),
        (2, "taps/b.pcap=-2000ms"),
        (-3600, "b.pcap=+1h"),
        (-40, "b.pcap=40"),
    ] {
        let (got, output) = audit(ahead, &["--clock-offset", offset]);
        let mut files = 0;
        for entry in fs::read_dir(want.path().join("out")).unwrap() {
            let name = entry.unwrap().file_name();
            let read = |folder: &TempDir| {
                let bytes = fs::read(folder.path().join("out").join(&name)).unwrap();
                String::from_utf8(bytes).unwrap()
            };
            if name.to_string_lossy().ends_with(".csv") {
                files += 1;
                assert_eq!(read(&got), read(&want), "{offset}: {name:?}");
            }
        }
        assert!(files > 5);
        // The summary, but for the line that says so.
        let rest: Vec<_> = stdout(&output)
            .lines()
            .filter(|line| !line.starts_with("Clocks "))
            .collect();
        assert_eq!(rest, stdout(&said).lines().collect::<Vec<_>>(), "{offset}");
        assert!(
            stdout(&output).contains("Clocks     taps/b.pcap: "),
            "{offset}"
        );
    }
}

/// As [`taps`], but the second is behind a NAT: its connections have another client, so that they are no copies
/// for TCP.
fn taps_of_a_nat(ahead: i32) -> TempDir {
    let folder = taps(ahead);
    let path = folder.path().join("taps/b.pcap");
    let mut bytes = fs::read(&path).unwrap();
    let (client, other) = ([127, 0, 0, 10], [127, 0, 0, 77]);
    let mut moved = 0;
    for at in 0..bytes.len() - 4 {
        if bytes[at..at + 4] == client {
            bytes[at..at + 4].copy_from_slice(&other);
            moved += 1;
        }
    }
    assert_eq!(moved, 78);
    fs::write(path, bytes).unwrap();
    folder
}

#[test]
fn a_skew_that_is_found_is_said_and_put_right() {
    for (ahead, said) in [
        (
            40,
            "Clocks taps/b.pcap: the clock is 40.000 s ahead of that of a.pcap; corrected",
        ),
        (
            -40,
            "Clocks a.pcap: the clock is 40.000 s ahead of that of taps/b.pcap; corrected",
        ),
    ] {
        let folder = taps_of_a_nat(ahead);
        let output = forkscope(folder.path())
            .args(["audit", "a.pcap", "taps/b.pcap", "-o", "out"])
            .output()
            .unwrap();
        let text = plain(stdout(&output));
        assert!(text.contains(said), "{text}");
        let report = fs::read(folder.path().join("out/report.json")).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
        let inputs = report["inputs"].as_array().unwrap();
        let late = usize::from(ahead > 0);
        assert_eq!(inputs[late]["clock_offset_ms"], -40000.0);
        assert_eq!(inputs[late]["clock_offset_from"], "exchanges");
        assert_eq!(inputs[late]["clock_ahead_of"], inputs[1 - late]["input"]);
        assert!(inputs[1 - late]["clock_offset_ms"].is_null());
        assert_eq!(inputs[0]["last_time"], inputs[1]["last_time"]);
    }
}

/// The same connections by two clocks: their bytes count once, and the difference is told.
#[test]
fn a_skew_between_taps_of_the_same_connections_is_said() {
    for (ahead, late, of) in [
        (40, "taps/b.pcap", "a.pcap"),
        (-40, "a.pcap", "taps/b.pcap"),
    ] {
        let folder = taps(ahead);
        let run = |extra: &[&str]| {
            let output = forkscope(folder.path())
                .args(["audit", "a.pcap", "taps/b.pcap", "-o", "out"])
                .args(extra)
                .output()
                .unwrap();
            let report = fs::read(folder.path().join("out/report.json")).unwrap();
            let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
            (plain(stdout(&output)), report)
        };
        let (text, report) = run(&[]);
        let said = format!("Clocks {late}: the clock is 40.000 s ahead of that of {of}, by the");
        assert!(text.contains(&said), "{text}");
        let inputs = report["inputs"].as_array().unwrap();
        let index = usize::from(ahead > 0);
        assert!(inputs[index]["clock_offset_ms"].is_null());
        assert!(inputs[index]["clock_offset_from"].is_null());
        assert_eq!(inputs[index]["clock_ahead_ms"], 40000.0);
        assert_eq!(inputs[index]["clock_ahead_of"], of);
        assert!(inputs[1 - index]["clock_ahead_ms"].is_null());
        // What it advises takes it away.
        let (text, report) = run(&["--clock-offset", &format!("{late}=-40s")]);
        assert!(!text.contains("ahead of that"), "{text}");
        assert_eq!(report["inputs"][index]["clock_offset_from"], "given");
    }
    let folder = taps(0);
    let output = forkscope(folder.path())
        .args(["audit", "a.pcap", "taps/b.pcap"])
        .output()
        .unwrap();
    assert!(!stdout(&output).contains("Clocks"), "{}", stdout(&output));
}

/// What is given counts instead of what could be learnt, be it wrong.
#[test]
fn a_given_offset_is_not_corrected() {
    let folder = taps_of_a_nat(40);
    let options = Options {
        inputs: vec![folder.path().to_str().unwrap().to_owned()],
        clock_offsets: vec![("b.pcap".to_owned(), Span::from_secs(-10))],
        ..Options::default()
    };
    let analysis = run(&options, &Progress::default()).unwrap();
    let clocks: Vec<_> = analysis
        .inputs
        .iter()
        .map(|input| input.clock.clone())
        .collect();
    let behind = ClockOffset::Learnt {
        ahead: Span::from_secs(-30),
        of: analysis.inputs[1].name.clone(),
    };
    let given = ClockOffset::Given(Span::from_secs(-10));
    assert_eq!(clocks, [Some(behind), Some(given)]);
}

#[test]
fn a_clock_offset_moves_a_har() {
    let file = fixture("hv_fork_noesm.har").to_str().unwrap().to_owned();
    let moved = |millis: i64| {
        let options = Options {
            inputs: vec![file.clone()],
            clock_offsets: vec![("hv_fork_noesm.har".to_owned(), Span::from_millis(millis))],
            ..Options::default()
        };
        run(&options, &Progress::default()).unwrap()
    };
    let (plain, moved) = (audit(&[&file]), moved(-1500));
    let by = Span::from_millis(-1500);
    assert!(!plain.resumes.is_empty());
    assert_eq!(plain.resumes.len(), moved.resumes.len());
    for (one, two) in plain.resumes.iter().zip(&moved.resumes) {
        assert_eq!(one.resume_time.plus(by), two.resume_time);
        assert_eq!((one.verdict, one.gap), (two.verdict, two.gap));
    }
    let input = |analysis: &Analysis| analysis.inputs[0].first_time.unwrap();
    assert_eq!(input(&plain).plus(by), input(&moved));
}

#[test]
fn a_clock_offset_for_no_input_is_wrong_usage() {
    let folder = taps(0);
    for (offset, said) in [
        (
            "b.pcpa=1s",
            "no input is named b.pcpa; did you mean b.pcap?",
        ),
        ("other.pcapng=1s", "no input is named other.pcapng"),
        ("=1s", "FILE=DUR"),
        ("b.pcap=soon", "FILE=DUR"),
        ("b.pcap", "FILE=DUR"),
    ] {
        let output = forkscope(folder.path())
            .args(["audit", "a.pcap", "taps/b.pcap", "--clock-offset", offset])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{offset}");
        assert_eq!(stdout(&output), "");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    fs::create_dir(folder.path().join("more")).unwrap();
    fs::copy(
        folder.path().join("a.pcap"),
        folder.path().join("more/b.pcap"),
    )
    .unwrap();
    let output = forkscope(folder.path())
        .args(["audit", ".", "--clock-offset", "b.pcap=1s"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("b.pcap may be ./more/b.pcap or ./taps/b.pcap"));
}

/// A client that says so much on a connection of its own, to this port.
fn says(talk: &mut Talk, number: u16, port: u16, bytes: &[u8]) -> Vec<(i64, Vec<u8>)> {
    let syn = packets(talk).swap_remove(0);
    talk.connections[0].client.set_port(40_000 + number);
    talk.connections[0].server.set_port(port);
    let mut all = vec![syn.clone()];
    let mut seq = syn.seq.wrapping_add(1);
    for (at, piece) in (1..).zip(bytes.chunks(1000)) {
        all.push(Packet {
            at: i64::from(number) * 1000 + at,
            from: Side::Client,
            flags: PSH | ACK,
            seq,
            payload: piece.to_vec(),
            ..syn.clone()
        });
        seq = seq.wrapping_add(u32::try_from(piece.len()).unwrap());
    }
    all[0].at = i64::from(number) * 1000;
    all.iter()
        .map(|packet| (packet.at, frame(talk, packet, Link::Ethernet)))
        .collect()
}

/// A ClientHello for `name`, with keys of some size.
fn hello(name: &str, keys: usize) -> Vec<u8> {
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_be_bytes();
    let list = |bytes: &[u8]| [&length(bytes)[..], bytes].concat();
    let names = [&[0][..], &list(name.as_bytes())].concat();
    let mut extensions = [&[0, 51][..], &list(&vec![1; keys])].concat();
    if !name.is_empty() {
        extensions.extend([0, 0]);
        extensions.extend(list(&list(&names)));
    }
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &list(&[0x13, 1]),
        &[1, 0],
        &list(&extensions),
    ]
    .concat();
    let message = [&[1, 0][..], &list(&body)].concat();
    [&[22, 3, 1][..], &list(&message)].concat()
}

/// A UDP packet to this port.
fn datagram(at: i64, server: u8, port: u16, payload: &[u8]) -> (i64, Vec<u8>) {
    let udp = u16::try_from(8 + payload.len()).unwrap();
    let [port_high, port_low] = port.to_be_bytes();
    let mut frame = [&[2; 12][..], &[0x08, 0x00, 0x45, 0]].concat();
    frame.extend((20 + udp).to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 5, 10, 0, 0, server]);
    frame.extend([0xc3, 0x50, port_high, port_low]);
    frame.extend(udp.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    (at, frame)
}

#[test]
fn what_cannot_be_read_is_named_by_server_and_is_no_clean_bill() {
    let mut talk = parse("unread", "a ask A#1\nexpect sessions 0").unwrap();
    let mut frames = Vec::new();
    let mut number = 0;
    let mut connect = |talk: &mut Talk, port: u16, bytes: &[u8]| {
        number += 1;
        frames.extend(says(talk, number, port, bytes));
    };
    for _ in 0..3 {
        // In two segments, as with post-quantum keys.
        connect(&mut talk, 443, &hello("API.example", 1800));
    }
    for name in ["b.example", "c.example", "d.example", "e.example", ""] {
        connect(&mut talk, 8443, &hello(name, 32));
    }
    // A request whose header block ends within a field.
    connect(
        &mut talk,
        8080,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x01\x01\x05\0\0\0\x01\x40",
    );
    frames.push(datagram(50_000, 9, 443, b"\xc3\0\0\0\x01\x08"));
    frames.push(datagram(50_001, 9, 443, b"\x41\0\0\0"));
    // No QUIC: DTLS, and another port.
    frames.push(datagram(50_002, 9, 443, b"\x16\xfe\xfd\0"));
    frames.push(datagram(50_003, 9, 5353, b"\xc3\0\0\0\x01\x08"));
    frames.sort_by_key(|(at, _)| *at);
    let as_ = Pcap {
        link: Link::Ethernet,
        big_endian: false,
        nanoseconds: false,
    };
    let bytes = file(&frames, as_);
    let folder = TempDir::new().unwrap();
    write(&folder, "a.pcap", &bytes);
    // Radio frames.
    let mut radio = bytes[..24].to_vec();
    radio[20] = 105;
    radio.extend([
        0, 0, 0, 0x65, 0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0,
    ]);
    write(&folder, "radio.pcap", &radio);
    let server = talk.connections[0].server.ip();
    let output = forkscope(folder.path())
        .args(["audit", ".", "-o", "out"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    let paragraphs: Vec<String> = text.split("\n\n").map(plain).collect();
    assert!(
        paragraphs[1].starts_with(
            "No MCP session was found: there is no HTTP that could be read, only TLS without keys \
             and HTTP/2 and QUIC. So nothing was judged. What could not be read may hold more: 8 TLS \
             connections, 1 HTTP/2 connection, 2 QUIC packets"
        ),
        "{text}"
    );
    let last = paragraphs.last().unwrap();
    let api = "8 TLS connections without keys: api.example:443 (3), ";
    assert!(last.starts_with(&format!("Not read {api}")), "{text}");
    assert!(
        last.contains(", and 3 others 1 HTTP/2 connection: "),
        "{text}"
    );
    assert!(
        last.contains(&format!(
            "1 HTTP/2 connection: {server}:8080 2 QUIC packets (HTTP/3): 10.0.0.9:443 (2)"
        )),
        "{text}"
    );
    assert!(
        last.contains("1 packet of link types that are not read: IEEE802_11"),
        "{text}"
    );
    let report = fs::read(folder.path().join("out/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let opaque: Vec<_> = report["opaque"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{} {} {}", row["protocol"], row["server"], row["count"]))
        .collect();
    assert!(
        opaque.contains(&format!("\"tls\" \"{server}:8443\" 1")),
        "{opaque:?}"
    );
    assert!(
        opaque.contains(&"\"quic\" \"10.0.0.9:443\" 2".to_owned()),
        "{opaque:?}"
    );
    assert_eq!(report["inputs"][0]["tls_opaque"], 8);
}

/// Real captures that something is wrong with: the summary ends with it, and inputs.csv has it.
#[test]
fn the_damage_of_real_captures_is_named() {
    for (name, said, column) in [
        (
            "lnk06_snaplen.pcap",
            "packets cut by the snapshot length",
            "truncated_packets",
        ),
        ("pv_truncated.pcap", "offset", "damaged"),
        (
            "pv_lost_resume_head.pcap",
            "not in the capture",
            "hole_bytes",
        ),
        ("pv_empty.pcap", "empty", "damaged"),
        ("hv_fork_truncated.har", "complete entries", "damaged"),
    ] {
        let folder = TempDir::new().unwrap();
        let output = forkscope(folder.path())
            .args(["audit", fixture(name).to_str().unwrap(), "-o", "out"])
            .output()
            .unwrap();
        let text = stdout(&output);
        let (_, last) = text.rsplit_once("\n\n").unwrap_or(("", text));
        let (_, unread) = last
            .split_once("Not read")
            .unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(unread.contains(said), "{name}: {unread}");
        let rows = fs::read(folder.path().join("out/inputs.csv")).unwrap();
        let mut rows = csv::Reader::from_reader(&rows[..]);
        let at = rows
            .headers()
            .unwrap()
            .iter()
            .position(|header| header == column);
        let row = rows.records().next().unwrap().unwrap();
        let cell = row.get(at.unwrap()).unwrap();
        assert!(
            !cell.is_empty() && cell != "0",
            "{name}: {column} is {cell}"
        );
    }
}

#[test]
fn verbose_explains_what_is_odd() {
    let folder = TempDir::new().unwrap();
    let output = forkscope(folder.path())
        .args(["audit", "-v"])
        .arg(fixture("lnk06_snaplen.pcap"))
        .output()
        .unwrap();
    let text = stdout(&output);
    let analysis = audit(&[fixture("lnk06_snaplen.pcap").to_str().unwrap()]);
    let (_, odd) = text.split_once("\nWhat is odd in the captures\n").unwrap();
    let mut kinds = 0;
    for (_, kind, tally) in analysis.anomalies.iter() {
        kinds += 1;
        assert!(
            odd.contains(&format!("\n  {}, {} time", kind.name(), tally.count))
                || odd.starts_with(&format!("  {}, ", kind.name())),
            "{odd}"
        );
        assert!(plain(odd).contains(&plain(kind.effect())), "{odd}");
        let frame = format!(" frame {}", tally.examples[0].place.frame);
        assert!(plain(odd).contains(&frame), "{odd}");
    }
    assert!(kinds > 1, "{odd}");
    // A path may be longer.
    let long = |line: &&str| line.chars().count() > 80 && !line.contains('/');
    assert_eq!(odd.lines().find(long), None);
}

#[test]
fn a_clock_that_was_put_back_is_noted_and_changes_no_verdict() {
    let (header, mut records) = forked();
    let folder = TempDir::new().unwrap();
    let step = records.len() - 1;
    for record in &mut records[step..] {
        *record = later(record, -1);
    }
    let file = write(&folder, "a.pcap", &capture(&header, &records));
    let analysis = audit(&[&file]);
    let back: Vec<_> = analysis
        .anomalies
        .iter()
        .filter(|(_, kind, _)| *kind == Kind::TimeBackwards)
        .map(|(_, _, tally)| (tally.count, tally.examples[0].place.frame))
        .collect();
    assert_eq!(back, [(1, u32::try_from(records.len()).unwrap())]);
    let verdicts = |analysis: &Analysis| -> Vec<_> {
        analysis
            .resumes
            .iter()
            .map(|resume| resume.verdict)
            .collect()
    };
    let whole = audit(&[fixture("ts04.pcap").to_str().unwrap()]);
    assert_eq!(verdicts(&analysis), verdicts(&whole));
}
