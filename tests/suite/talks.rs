//! Every talk of fixtures/talks, over every road and impaired.

use crate::talk::{
    expect::{self, essence, failures, fingerprint, for_har},
    impair::{any, impair},
    model::Talk,
    parse::{duration, parse},
    render_har,
    render_pcap::{Link, Pcap, render},
    render_pcapng,
    tcp::{Packet, packets, packets_h2},
};
use forkscope::{
    model::{analysis::Analysis, time::Span},
    pipeline::{Options, Progress, run},
};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    process::Command,
};

/// Every packet road gives the same report, and it is the one expected.
#[test]
fn every_talk_gives_one_report_on_every_road_of_packets() {
    let mut bad = String::new();
    for talk in talks() {
        let packets = packets(&talk);
        let mut first: Option<(&str, String)> = None;
        for (road, bytes) in roads(&talk, &packets) {
            // FORKSCOPE_TALK_OUT=folder keeps the captures, to be opened in Wireshark.
            if let Some(folder) = std::env::var_os("FORKSCOPE_TALK_OUT") {
                let name = format!("{}.{}", talk.name, road.replace(' ', "-"));
                fs::write(Path::new(&folder).join(name), &bytes).unwrap();
            }
            let analysis = audit(&talk, &bytes);
            let print = fingerprint(&analysis);
            match &first {
                None => {
                    let failures = failures(&talk.expectations, &analysis, true);
                    if talk.beyond.is_some() && failures.is_empty() {
                        let _ = writeln!(bad, "{}: no longer beyond it", talk.name);
                    }
                    for failure in failures.iter().filter(|_| talk.beyond.is_none()) {
                        let _ = writeln!(bad, "{}: {failure}", talk.name);
                    }
                    first = Some((road, print));
                }
                Some((faithful, want)) if *want != print => {
                    let _ = writeln!(
                        bad,
                        "{}: {road} differs from {faithful}:\n{print}---\n{want}",
                        talk.name
                    );
                }
                Some(_) => {}
            }
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
}

/// HTTP/2 gives the same report as HTTP/1.1, of every talk that it can carry.
#[test]
fn every_talk_gives_its_report_over_http2() {
    let mut bad = String::new();
    let mut left_out: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for talk in talks() {
        let packets_h2 = match packets_h2(&talk) {
            Ok(packets) => packets,
            Err(why) => {
                left_out.entry(why).or_default().push(talk.name);
                continue;
            }
        };
        let bytes = pcap(&talk, &packets_h2);
        if let Some(folder) = std::env::var_os("FORKSCOPE_TALK_OUT") {
            let name = format!("{}.http2.pcap", talk.name);
            fs::write(Path::new(&folder).join(name), &bytes).unwrap();
        }
        let analysis = audit(&talk, &bytes);
        let want = fingerprint(&audit(&talk, &pcap(&talk, &packets(&talk))));
        let got = fingerprint(&analysis);
        if TOLD_BETTER.iter().any(|(name, _)| *name == talk.name) {
            assert_ne!(got, want, "{}: no longer told better", talk.name);
            continue;
        }
        if got != want {
            let _ = writeln!(bad, "{}:\n{got}--- want\n{want}", talk.name);
        }
    }
    assert!(bad.is_empty(), "\n{bad}\nleft out: {left_out:#?}");
    let count: usize = left_out.values().map(Vec::len).sum();
    assert!(count <= 2, "HTTP/2 can carry all but two: {left_out:#?}");
}

/// Talks of which HTTP/2 tells more than HTTP/1.1.
const TOLD_BETTER: &[(&str, &str)] = &[(
    "lost-refusal-and-initialize",
    "an answer on a stream of its own is not taken for another's",
)];

/// A HAR of the same conversation gives the same, but for what it cannot carry.
#[test]
fn every_talk_gives_its_report_as_a_har() {
    let mut bad = String::new();
    for talk in talks()
        .iter()
        .filter(|t| t.har_skip.is_none() && t.beyond.is_none())
    {
        let analysis = audit(talk, &render_har::render(talk));
        for failure in failures(&for_har(talk), &analysis, false) {
            let _ = writeln!(bad, "{}: {failure}", talk.name);
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
}

/// Cuts, retransmissions, overlaps, delays and copies of packets change no resume.
#[test]
fn what_networks_do_to_packets_changes_no_resume() {
    let mut bad = String::new();
    let mut compared = 0;
    for talk in talks() {
        let clean = packets(&talk);
        let want = essences(&audit(&talk, &pcap(&talk, &clean)));
        compared += want.len();
        let mut runner = TestRunner::new_with_rng(
            Config {
                cases: CASES,
                max_shrink_iters: 200,
                failure_persistence: None,
                ..Config::default()
            },
            proptest::test_runner::TestRng::deterministic_rng(
                proptest::test_runner::RngAlgorithm::ChaCha,
            ),
        );
        let result = runner.run(&any(), |how| {
            let got = essences(&audit(&talk, &pcap(&talk, &impair(clean.clone(), &how))));
            if got == want {
                Ok(())
            } else {
                Err(TestCaseError::fail(format!("{got:#?}\nwant {want:#?}")))
            }
        });
        if let Err(error) = result {
            let _ = writeln!(bad, "{}: {error}", talk.name);
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
    assert!(compared > 0, "no resume to compare");
}

/// A misspelt code in an expectation would hold for ever.
#[test]
fn talks_name_only_codes_of_the_registry() {
    for talk in talks().iter().filter(|t| t.beyond.is_none()) {
        for code in expect::codes(&talk.expectations)
            .into_iter()
            .chain(expect::codes(&talk.har_expectations))
        {
            assert!(
                forkscope::finding::by_code(code).is_some(),
                "{}: no finding is called {code}",
                talk.name
            );
        }
    }
}

/// The harness itself, as Wireshark's own engine sees it: good checksums, nothing to remark on
/// the TCP of whole captures, and the HTTP that the talks wrote. All talks go into one file a
/// road, each with clients of its own.
#[test]
fn tshark_reads_the_rendered_captures_as_they_were_meant() {
    if Command::new("tshark").arg("--version").output().is_err() {
        assert!(
            std::env::var_os("CI").is_none(),
            "tshark is missing, and with it the check of the harness"
        );
        return;
    }
    let mut talks = talks();
    talks.retain(|t| t.steps.iter().all(|s| !s.lost));
    let mut files: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    // Of every frame: its talk, and the methods of the requests that begin and end in it.
    let mut want: Vec<(&str, String)> = Vec::new();
    for (index, talk) in talks.iter_mut().enumerate() {
        for connection in &mut talk.connections {
            if let IpAddr::V4(ip) = connection.client.ip() {
                let [a, _, c, d] = ip.octets();
                let [high, low] = u16::try_from(index + 1).unwrap().to_be_bytes();
                let own = Ipv4Addr::new(a + high, low, c, d);
                connection.client.set_ip(own.into());
            }
        }
        for (road, bytes) in roads(talk, &packets(talk)) {
            let file = files.entry(road).or_default();
            // Sections of pcapng follow each other; pcap has one head.
            let head = if file.is_empty() || road == "pcapng" {
                0
            } else {
                24
            };
            file.extend(&bytes[head..]);
        }
    }
    for talk in &talks {
        for packet in packets(talk) {
            let method = String::from_utf8_lossy(&packet.payload)
                .split(' ')
                .next()
                .filter(|m| ["GET", "POST", "DELETE", "OPTIONS"].contains(m))
                .unwrap_or_default()
                .to_owned();
            want.push((&talk.name, method));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    for (road, bytes) in files {
        let path = folder.path().join("talks");
        fs::write(&path, bytes).unwrap();
        let frames = tshark(&path);
        assert_eq!(frames.len(), want.len(), "{road}: frames");
        for (frame, (talk, method)) in frames.iter().zip(&want) {
            // Number, checksum of TCP (1 is good), remarks on TCP, malformed, method.
            let fields: Vec<&str> = frame.split('\t').collect();
            assert_eq!(fields[1], "1", "{talk}, {road}: {frame}");
            assert_eq!(fields[2], "", "{talk}, {road}: {frame}");
            assert_eq!(fields[3], "", "{talk}, {road}: {frame}");
            assert_eq!(fields[4], method, "{talk}, {road}: {frame}");
        }
    }
}

/// A rendered HAR is JSON with an entry a request.
#[test]
fn hars_have_an_entry_for_each_request() {
    for talk in talks().iter().filter(|t| t.har_skip.is_none()) {
        let har: serde_json::Value = serde_json::from_slice(&render_har::render(talk)).unwrap();
        let entries = har["log"]["entries"].as_array().unwrap();
        let requests = talk
            .steps
            .iter()
            .filter(|s| matches!(s.act, crate::talk::model::Act::Request(_)))
            .count();
        assert_eq!(entries.len(), requests, "{}", talk.name);
        for entry in entries {
            let status = entry["response"]["status"].as_u64().unwrap();
            let whole = entry["response"]["content"]["text"].is_string();
            let cut = !entry["response"]["_error"].is_null();
            assert!(!(whole && cut), "{}: {entry}", talk.name);
            assert!(status != 0 || !whole, "{}: {entry}", talk.name);
        }
    }
}

fn roads(talk: &Talk, packets: &[Packet]) -> Vec<(&'static str, Vec<u8>)> {
    let pcap = |link, big_endian, nanoseconds| {
        render(
            talk,
            packets,
            Pcap {
                link,
                big_endian,
                nanoseconds,
            },
        )
    };
    vec![
        ("pcap", pcap(Link::Ethernet, false, false)),
        ("pcap, big-endian, ns", pcap(Link::Ethernet, true, true)),
        ("pcap, ns", pcap(Link::Ethernet, false, true)),
        ("pcap, big-endian, raw IP", pcap(Link::Raw, true, false)),
        ("pcapng", render_pcapng::render(talk, packets)),
    ]
}

pub(crate) fn pcap(talk: &Talk, packets: &[Packet]) -> Vec<u8> {
    let plain = Pcap {
        link: Link::Ethernet,
        big_endian: false,
        nanoseconds: false,
    };
    render(talk, packets, plain)
}

pub(crate) fn audit(talk: &Talk, capture: &[u8]) -> Analysis {
    let analysis = audit_any(talk, capture);
    assert!(
        analysis.inputs.iter().all(|i| i.unreadable.is_none()),
        "{}: {:?}",
        talk.name,
        analysis.inputs
    );
    analysis
}

/// An audit with a talk's options, of a capture that may be damaged.
pub(crate) fn audit_any(talk: &Talk, capture: &[u8]) -> Analysis {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk");
    fs::write(&path, capture).unwrap();
    let mut options = options(talk);
    options.inputs.push(path.to_str().unwrap().to_owned());
    run(&options, &Progress::default()).unwrap()
}

/// What a talk asks of an audit, without inputs.
pub(crate) fn options(talk: &Talk) -> Options {
    let mut options = Options {
        jobs: 1,
        ..Options::default()
    };
    for (key, value) in &talk.options {
        match key.as_str() {
            "session-header" => options.session_header.clone_from(value),
            "incarnation-header" => options.incarnation_header = Some(value.clone()),
            "backend-header" => options.backend_headers.push(value.clone()),
            "all-sse" => options.all_sse = true,
            "window" => {
                let micros = duration(value).unwrap_or_else(|e| panic!("{}: {e}", talk.name));
                options.window = Span::from_nanos(micros * 1_000);
            }
            other => panic!("{}: no option {other}", talk.name),
        }
    }
    options
}

fn essences(analysis: &Analysis) -> Vec<String> {
    analysis.resumes.iter().map(essence).collect()
}

/// A talk as a capture of packets, and as a HAR where it can be one.
pub(crate) fn captures_of(talk: &Talk) -> Vec<(&'static str, Vec<u8>)> {
    let mut roads = vec![("pcap", pcap(talk, &packets(talk)))];
    if talk.har_skip.is_none() {
        roads.push(("HAR", render_har::render(talk)));
    }
    roads
}

pub(crate) fn talks() -> Vec<Talk> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/talks");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "talk"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no talks in {}", folder.display());
    // FORKSCOPE_TALK=name picks some while one is being written.
    let only = std::env::var("FORKSCOPE_TALK").unwrap_or_default();
    paths
        .iter()
        .filter(|path| path.to_string_lossy().contains(&only))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy();
            parse(&name, &fs::read_to_string(path).unwrap()).unwrap_or_else(|e| panic!("{e}"))
        })
        .collect()
}

/// Number, checksum state, remarks on TCP, malformation and HTTP method of every frame.
fn tshark(path: &Path) -> Vec<String> {
    let output = Command::new("tshark")
        .args(["-n", "-o", "tcp.check_checksum:TRUE", "-r"])
        .arg(path)
        .args([
            "-T",
            "fields",
            "-e",
            "frame.number",
            "-e",
            "tcp.checksum.status",
        ])
        .args(["-e", "tcp.analysis.flags", "-e", "_ws.malformed"])
        .args(["-e", "http.request.method"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "tshark: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Random impairments of each talk.
const CASES: u32 = 16;
