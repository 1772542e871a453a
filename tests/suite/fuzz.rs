//! The checks of `fuzz/` on the stable toolchain: captures of `fixtures/real` and rendered talks, changed by
//! chance, and captures made to cost as much as they can. docs/fuzzing.md says how to run more of it.

#[path = "../../fuzz/checks.rs"]
mod checks;
#[path = "../../fuzz/hostile.rs"]
mod hostile;
#[path = "../../fuzz/mutate.rs"]
mod mutate;

use crate::talk::{
    model::{Side, Talk},
    parse::parse,
    render_har,
    render_pcap::{self, Link},
    render_pcapng,
    tcp::{packets, packets_h2},
};
use checks::CHECKS;
use forkscope::{
    anomaly::Kind,
    limits::Limits,
    model::{analysis::Analysis, place::InputId, verdict::Verdict},
    pipeline::{Options, Progress, run},
};
use hostile::HOSTILE;
use mutate::{Chance, mutate};
use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs,
    io::{BufWriter, Write as _},
    panic::catch_unwind,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Changed captures that go through each check unless `FORKSCOPE_FUZZ_CASES` says how many.
const CASES: usize = 200;
/// Changed captures of the long run.
const LONG: usize = 20_000;
/// What one of them may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// What one of them may hold.
const MEMORY: u64 = 300 << 20;

fn cases(usual: usize) -> usize {
    env::var("FORKSCOPE_FUZZ_CASES").map_or(usual, |text| text.parse().expect("a number"))
}

/// What seeds are changed from: the real captures, packed ones unpacked as well, and a few talks on every road.
fn seeds(longest: usize) -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seeds = Vec::new();
    for path in sorted(&root.join("fixtures/real")) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".json") {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        if name.ends_with(".gz") {
            let mut whole = Vec::new();
            std::io::copy(&mut flate2::read::GzDecoder::new(&*bytes), &mut whole).unwrap();
            seeds.push((format!("{name}, unpacked"), whole));
        }
        seeds.push((name, bytes));
    }
    for (name, talk) in talks() {
        let packets = packets(&talk);
        let plain = render_pcap::Pcap {
            link: Link::Ethernet,
            big_endian: false,
            nanoseconds: false,
        };
        seeds.push((
            format!("{name}.pcap"),
            render_pcap::render(&talk, &packets, plain),
        ));
        seeds.push((
            format!("{name}.pcapng"),
            render_pcapng::render(&talk, &packets),
        ));
        seeds.push((format!("{name}.har"), render_har::render(&talk)));
    }
    seeds.retain(|(_, bytes)| bytes.len() <= longest);
    assert!(seeds.len() > 50, "only {} seeds", seeds.len());
    seeds
}

/// One in nine.
fn talks() -> Vec<(String, Talk)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/talks");
    let mut paths = sorted(&folder);
    paths.retain(|path| path.extension().is_some_and(|end| end == "talk"));
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let talk = parse(&name, &fs::read_to_string(path).unwrap()).unwrap();
        (name, talk)
    };
    paths.iter().step_by(9).map(read).collect()
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}

/// The changed file of a number, and what it was made from.
fn changed(seeds: &[(String, Vec<u8>)], number: usize) -> (String, Vec<u8>) {
    let mut chance = Chance::new(number as u64);
    let (name, bytes) = &seeds[chance.below(seeds.len())];
    let (_, other) = &seeds[chance.below(seeds.len())];
    (
        format!("{number} of {name}"),
        mutate(bytes, other, &mut chance),
    )
}

/// What the checks of inner stages take, made of talks: what those carry, as records of a length and a byte that
/// says what is done with them.
fn carried(check: &str) -> Vec<(String, Vec<u8>)> {
    let mut foods = Vec::new();
    for (name, talk) in talks() {
        let mut food = Vec::new();
        let mut record = |kind: u8, bytes: &[u8]| match check {
            "packet" | "http" | "h2" => {
                let [.., high, low] = (bytes.len() + 1).to_be_bytes();
                food.extend([high, low, kind]);
                food.extend(bytes);
            }
            _ => food.extend(bytes),
        };
        let packets = match check {
            "h2" => packets_h2(&talk).unwrap_or_default(),
            _ => packets(&talk),
        };
        for packet in packets {
            let server = packet.from != Side::Client;
            match check {
                "packet" => record(0, &render_pcap::frame(&talk, &packet, Link::Ethernet)),
                "http" | "h2" if !packet.payload.is_empty() => {
                    record(0x30 | u8::from(server), &packet.payload);
                }
                "sse" | "message" if server => {
                    let text = String::from_utf8_lossy(&packet.payload).into_owned();
                    let body = text.split_once("\r\n\r\n").map_or(&*text, |(_, body)| body);
                    record(
                        0,
                        body.trim_start_matches(if check == "sse" { "" } else { "data: " })
                            .as_bytes(),
                    );
                }
                "tcp" => {
                    let [.., high, low] = packet.seq.to_be_bytes();
                    let [.., peer_high, peer_low] = packet.ack.to_be_bytes();
                    let way =
                        u8::from(server) | (u8::try_from(packet.connection % 3).unwrap_or(0) << 4);
                    let len = u8::try_from(packet.payload.len().min(255)).unwrap_or(0);
                    record(
                        0,
                        &[
                            way,
                            packet.flags,
                            high,
                            low,
                            0,
                            peer_high,
                            peer_low,
                            len,
                            20,
                            0,
                        ],
                    );
                }
                _ => {}
            }
        }
        foods.push((name, food));
    }
    foods.retain(|(_, food)| !food.is_empty());
    assert!(!foods.is_empty(), "nothing for {check}");
    foods
}

fn failures(check: &str, run: fn(&[u8]), seeds: &[(String, Vec<u8>)], cases: usize) -> String {
    let mut bad = String::new();
    for number in 0..cases {
        let (name, bytes) = changed(seeds, number);
        if catch_unwind(|| run(&bytes)).is_err() {
            let _ = writeln!(bad, "{check}: {name}");
        }
    }
    bad
}

#[test]
fn changed_captures_break_no_stage() {
    let files = seeds(40_000);
    let mut bad = String::new();
    for (name, check) in CHECKS.iter().filter(|(name, _)| *name != "audit") {
        let seeds = match *name {
            "input" | "har" => &files,
            "tls" => &crate::tls::records(),
            inner => &carried(inner),
        };
        bad += &failures(name, *check, seeds, cases(CASES));
    }
    assert!(bad.is_empty(), "\n{bad}");
}

#[test]
fn changed_captures_break_no_audit() {
    let bad = failures("audit", checks::audit, &seeds(40_000), cases(CASES));
    assert!(bad.is_empty(), "\n{bad}");
}

/// `fixtures/broke`: what a changed capture broke once. Their names say what is odd about them.
#[test]
fn what_broke_something_once_is_audited() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/broke");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let mut bad = String::new();
    for file in files {
        let bytes = fs::read(&file).unwrap();
        for (name, check) in CHECKS {
            if catch_unwind(|| check(&bytes)).is_err() {
                let _ = writeln!(bad, "{name}: {}", file.display());
            }
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
}

#[test]
fn hostile_captures_are_audited() {
    let mut bad = String::new();
    for hostile in HOSTILE {
        let mut bytes = Vec::new();
        (hostile.write)(&mut bytes, hostile.small).unwrap();
        if catch_unwind(|| checks::audit(&bytes)).is_err() {
            let _ = writeln!(bad, "{}", hostile.name);
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
}

/// A hostile capture of a given size, audited under other caps than usual.
fn under(name: &str, size: usize, change: impl FnOnce(&mut Limits)) -> Analysis {
    let hostile = HOSTILE.iter().find(|hostile| hostile.name == name).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    (hostile.write)(&mut file, size).unwrap();
    let mut options = Options {
        inputs: vec![file.path().to_str().unwrap().to_owned()],
        ..Options::default()
    };
    change(&mut options.limits);
    run(&options, &Progress::default()).unwrap()
}

fn noted(analysis: &Analysis, kind: Kind) -> u64 {
    analysis.anomalies.count(InputId(0), kind)
}

#[test]
fn what_is_past_the_cap_on_events_is_as_good_as_missing() {
    let analysis = under("events_without_id", 1000, |limits| limits.events = 10);
    let [exchange] = analysis.exchanges.as_slice() else {
        panic!("{} exchanges", analysis.exchanges.len())
    };
    assert_eq!(exchange.events.len(), 10);
    assert!(exchange.body_has_hole());
    assert_eq!(noted(&analysis, Kind::BodyLimit), 1);
    let whole = under("events_without_id", 1000, |_| {});
    assert_eq!(whole.exchanges[0].events.len(), 1000);
    assert_eq!(noted(&whole, Kind::BodyLimit), 0);
}

#[test]
fn bodies_held_by_many_connections_have_a_cap_together() {
    for name in ["bombs_half_read", "event_bombs_half_read"] {
        // Each alone is within its own cap.
        let analysis = under(name, 1, |_| {});
        assert_eq!(noted(&analysis, Kind::BodyLimit), 0, "{name}");
        let analysis = under(name, 3, |limits| limits.held_bodies = 30 << 20);
        assert_eq!(noted(&analysis, Kind::BodyLimit), 3, "{name}");
        assert_eq!(analysis.exchanges.len(), 3, "{name}");
    }
}

#[test]
fn a_history_too_long_to_be_searched_is_told() {
    let name = "old_cursor_replays_all";
    let analysis = under(name, 40, |_| {});
    assert_eq!(noted(&analysis, Kind::HistoryLimit), 0);
    let judged = |analysis: &Analysis| {
        let rows = analysis.resumes.iter();
        rows.filter(|row| row.verdict != Verdict::Indeterminate)
            .count()
    };
    assert_eq!(judged(&analysis), 39);
    let worn = under(name, 40, |limits| limits.history_looks = 400);
    let told = noted(&worn, Kind::HistoryLimit) as usize;
    assert!(told > 20 && told < 39, "{told} were too long");
    assert_eq!(judged(&worn), 39 - told);
    let rows = worn.resumes.iter();
    assert_eq!(
        rows.filter(|row| row.reason.contains("too long")).count(),
        told
    );
}

#[test]
fn connections_that_carry_nothing_give_way_first() {
    let analysis = under("stream_among_syns", 4000, |limits| limits.connections = 3);
    let events: Vec<usize> = analysis
        .exchanges
        .iter()
        .map(|exchange| exchange.events.len())
        .collect();
    assert_eq!(events, [2]);
    // What gave way is told.
    assert!(noted(&analysis, Kind::ConnectionLimit) > 3_900);
    assert_eq!(noted(&analysis, Kind::Midstream), 0);
}

/// What a run of the binary took.
struct Cost {
    time: Duration,
    /// What of it processors worked, in all its threads.
    worked: Duration,
    /// Most bytes that it held at once.
    peak: u64,
    /// How it ended, when not as it should.
    fault: Option<String>,
}

/// Runs the binary over a file, and ends it when `patience` does.
fn measure(binary: &Path, file: &Path, patience: Duration) -> Cost {
    let begun = Instant::now();
    let mut child = Command::new(binary)
        .args(["audit", "--jobs", "2"])
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut peak, mut worked) = (0, Duration::ZERO);
    loop {
        peak = held(&child).unwrap_or(0).max(peak);
        worked = cpu(&child).unwrap_or(worked);
        if let Some(status) = child.try_wait().unwrap() {
            // 0 to 2 are what it says of captures.
            let fault = match status.code() {
                Some(0..=2) => None,
                _ => Some(status.to_string()),
            };
            return Cost {
                worked,
                time: begun.elapsed(),
                peak,
                fault,
            };
        }
        if begun.elapsed() > patience {
            child.kill().unwrap();
            child.wait().unwrap();
            let fault = Some("took too long".to_owned());
            return Cost {
                worked,
                time: begun.elapsed(),
                peak,
                fault,
            };
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// How long processors worked for a process, as Linux tells in hundredths of a second.
fn cpu(child: &Child) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let hundredths = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Duration::from_millis(
        10 * (hundredths(11)? + hundredths(12)?),
    ))
}

/// The most memory that a process held so far, as Linux tells.
fn held(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

fn binary() -> PathBuf {
    env::var_os("FORKSCOPE_FUZZ_BINARY")
        .map_or_else(|| env!("CARGO_BIN_EXE_forkscope").into(), PathBuf::from)
}

/// Where files that broke something are left.
fn kept() -> PathBuf {
    let folder = env::temp_dir().join("forkscope-fuzz");
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
#[ignore = "takes minutes: docs/fuzzing.md"]
#[allow(clippy::print_stdout, reason = "the numbers are what it is run for")]
fn twenty_thousand_changed_captures() {
    let (seeds, binary, kept) = (seeds(usize::MAX), binary(), kept());
    let first: usize =
        env::var("FORKSCOPE_FUZZ_FIRST").map_or(0, |text| text.parse().expect("a number"));
    let next = AtomicUsize::new(first);
    let end = first + cases(LONG);
    let all = Mutex::new(Vec::new());
    let work = || {
        let file = tempfile::NamedTempFile::new().unwrap();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= end {
                return;
            }
            let (name, bytes) = changed(&seeds, number);
            fs::write(file.path(), &bytes).unwrap();
            let mut cost = measure(&binary, file.path(), PATIENCE * 4);
            if cost.fault.is_none() && cost.time > PATIENCE {
                cost.fault = Some("took too long".to_owned());
            }
            if cost.fault.is_none() && cost.peak > MEMORY {
                cost.fault = Some("held too much".to_owned());
            }
            if cost.fault.is_some() {
                fs::write(kept.join(number.to_string()), &bytes).unwrap();
            }
            all.lock().unwrap().push((name, cost));
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    let all = all.into_inner().unwrap();
    let slowest = all.iter().max_by_key(|(_, cost)| cost.time).unwrap();
    let largest = all.iter().max_by_key(|(_, cost)| cost.peak).unwrap();
    println!("{} files", all.len());
    println!("slowest {:?}: {}", slowest.1.time, slowest.0);
    println!("largest {} MiB: {}", largest.1.peak >> 20, largest.0);
    let bad: Vec<String> = all
        .iter()
        .filter_map(|(name, cost)| Some(format!("{name}: {}", cost.fault.as_ref()?)))
        .collect();
    assert!(bad.is_empty(), "in {}:\n{}", kept.display(), bad.join("\n"));
}

/// Prints what every hostile capture takes at its full size, or those with `FORKSCOPE_HOSTILE` in their names.
#[test]
#[ignore = "takes minutes and gigabytes of disk: docs/fuzzing.md"]
#[allow(clippy::print_stdout, reason = "the numbers are what it is run for")]
fn hostile_captures_at_full_size() {
    let (binary, kept) = (binary(), kept());
    let only = env::var("FORKSCOPE_HOSTILE").unwrap_or_default();
    let part: usize =
        env::var("FORKSCOPE_HOSTILE_PART").map_or(1, |text| text.parse().expect("a number"));
    let mut bad = BTreeMap::new();
    println!("| capture | size | MB | seconds | of work | MiB |\n|---|---|---|---|---|---|");
    for hostile in HOSTILE
        .iter()
        .filter(|hostile| hostile.name.contains(&only))
    {
        let path = kept.join(format!("{}.{}", hostile.name, hostile.ends));
        let size = hostile.full / part;
        let mut file = BufWriter::with_capacity(1 << 20, fs::File::create(&path).unwrap());
        (hostile.write)(&mut file, size).unwrap();
        file.flush().unwrap();
        drop(file);
        let bytes = fs::metadata(&path).unwrap().len();
        let cost = measure(&binary, &path, Duration::from_secs(120));
        println!(
            "| {} | {size} | {} | {:.2} | {:.2} | {} | {}",
            hostile.name,
            bytes / 1_000_000,
            cost.time.as_secs_f64(),
            cost.worked.as_secs_f64(),
            cost.peak >> 20,
            cost.fault.as_deref().unwrap_or_default(),
        );
        if let Some(fault) = cost.fault {
            bad.insert(hostile.name, fault);
        }
        if env::var_os("FORKSCOPE_HOSTILE_KEEP").is_none() {
            fs::remove_file(&path).unwrap();
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}
