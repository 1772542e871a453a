//! TLS: what openssl and rustls made with every kind of key, held against what was said; talks over TLS, held against the same without; and what is said when keys lack, are wrong or come late.

use crate::{
    talk::{
        expect::fingerprint,
        impair::{any, impair},
        model::Talk,
        tcp::Packet,
        tls::{VERSIONS, packets, packets_h2},
    },
    talks::{options, pcap, talks},
};
use forkscope::{
    anomaly::{Anomalies, Kind},
    input::{Classified, Source, classify, timeline::Timeline},
    ip,
    limits::Limits,
    link,
    model::{
        analysis::{Analysis, WhyUnread},
        exchange::HttpVersion,
        flow::Side,
        place::{At, InputId},
    },
    pipeline::{Options, Progress, run},
    tcp, tls,
};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, atomic::AtomicU64},
};

// What openssl, rustls and nginx made

#[test]
fn every_capture_of_openssl_and_rustls_opens_as_it_was_said() {
    let mut bad = String::new();
    let mut compared = 0;
    for (name, bytes) in captures() {
        // What is known of those is what the clients got: suite/wireshark.rs.
        if name.starts_with("nginx") {
            continue;
        }
        let read = read(&bytes, &|_| true);
        for (index, connection) in read.iter().enumerate() {
            let whole = [
                connection.whole(Side::A).unwrap(),
                connection.whole(Side::B).unwrap(),
            ];
            if whole != said(&name, index) {
                let _ = writeln!(bad, "{name}, stream {index}: {connection:?}");
            }
            if connection.outcome != Some(tls::Outcome::Read) || !connection.clean {
                let _ = writeln!(bad, "{name}, stream {index}: {:?}", connection.outcome);
            }
            compared += 1;
        }
    }
    assert!(compared > 50, "only {compared} connections");
    assert!(bad.is_empty(), "\n{bad}");
}

/// Whatever packet is missing, what comes out is what was said but for its records, and how much is missing is
/// known.
#[test]
fn a_hole_costs_its_records_alone() {
    let mut bad = String::new();
    for (name, bytes) in captures() {
        // Both have two connections whose packets are told apart by nothing here.
        let whole = read(&bytes, &|_| true);
        let count = whole
            .iter()
            .map(|connection| connection.frames)
            .sum::<usize>();
        let padded = name.contains("cbc");
        for lost in 0..count {
            let torn = read(&bytes, &|frame| frame != lost);
            for (index, (torn, whole)) in torn.iter().zip(&whole).enumerate() {
                let at = format!("{name}, stream {index}, without packet {lost}");
                for side in [Side::A, Side::B] {
                    let want = whole.whole(side).unwrap();
                    // In the handshake a hello may have been lost, and all with it.
                    if torn.outcome != Some(tls::Outcome::Read) {
                        if !torn.pieces(side).is_empty()
                            && !matches!(torn.outcome, Some(tls::Outcome::Half(_)))
                        {
                            let _ = writeln!(bad, "{at}: {:?} with data", torn.outcome);
                        }
                        continue;
                    }
                    if let Err(why) = torn.fits(side, &want, padded) {
                        let _ = writeln!(bad, "{at}, {side:?}: {why}");
                    }
                }
            }
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
}

/// With the hellos there, a lost packet never costs more than a few records.
#[test]
fn what_follows_a_hole_is_found_again() {
    for name in [
        "tls13-key-update",
        "tls13-aes128",
        "tls12-chacha20",
        "tls12-cbc-sha",
        "tls12-ccm",
    ] {
        let bytes = fs::read(root().join(format!("fixtures/tls/{name}.pcapng"))).unwrap();
        let whole = read(&bytes, &|_| true);
        let count = whole[0].frames;
        let want = whole[0].whole(Side::B).unwrap();
        let last = &want[want.len() - 60..];
        let torn = |lost: &[usize]| -> Vec<u8> {
            read(&bytes, &|frame| !lost.contains(&frame))[0]
                .pieces(Side::B)
                .concat()
        };
        // One packet has the end.
        let all = 10..count - 4;
        let ends: Vec<usize> = all
            .clone()
            .filter(|frame| !torn(&[*frame]).ends_with(last))
            .collect();
        assert!(ends.len() <= 1, "{name}: {ends:?}");
        let mut found = 0;
        // Two of the same side, so that more than one record is gone.
        for lost in all.filter(|lost| !ends.contains(lost) && !ends.contains(&(lost + 2))) {
            let got = torn(&[lost, lost + 2]);
            assert!(
                got.ends_with(last),
                "{name} without {lost}: the end was not read"
            );
            found += usize::from(got.len() < want.len());
        }
        assert!(found > 0, "{name}: no packet was of the server's data");
    }
}

// Talks

#[test]
fn every_talk_gives_the_same_report_over_tls() {
    let mut bad = String::new();
    for talk in talks() {
        let want = without_frames(&audit(
            &talk,
            &pcap(&talk, &crate::talk::tcp::packets(&talk)),
            "",
        ));
        for (version, number) in VERSIONS {
            let (packets, keys) = packets(&talk, number);
            let capture = pcap(&talk, &packets);
            keep(&talk, version, &capture, &keys);
            let got = without_frames(&audit(&talk, &capture, &keys));
            if got != want {
                let _ = writeln!(bad, "{}, {version}:\n{got}---\n{want}", talk.name);
            }
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
}

/// What is read within TLS may be HTTP/2: it is as without.
#[test]
fn every_talk_gives_the_same_report_over_http2_over_tls() {
    let mut bad = String::new();
    let mut in_http2 = 0;
    for talk in talks() {
        let Ok(plain) = crate::talk::tcp::packets_h2(&talk) else {
            continue;
        };
        let plain = audit(&talk, &pcap(&talk, &plain), "");
        let want = without_frames(&plain);
        for (version, number) in VERSIONS {
            let (packets, keys) = packets_h2(&talk, number).unwrap();
            let capture = pcap(&talk, &packets);
            keep(&talk, &format!("http2-{version}"), &capture, &keys);
            let got = audit(&talk, &capture, &keys);
            let versions = |of: &Analysis| -> Vec<HttpVersion> {
                of.exchanges.iter().map(|one| one.version).collect()
            };
            let all = versions(&got);
            assert_eq!(all, versions(&plain), "{}, {version}", talk.name);
            in_http2 += all.iter().filter(|one| **one == HttpVersion::Http2).count();
            let got = without_frames(&got);
            if got != want {
                let _ = writeln!(bad, "{}, {version}:\n{got}---\n{want}", talk.name);
            }
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
    assert!(in_http2 > 0, "nothing was read as HTTP/2");
}

/// FORKSCOPE_TALK_OUT=folder keeps the captures and their key logs, to be opened in Wireshark.
fn keep(talk: &Talk, road: &str, capture: &[u8], keys: &str) {
    if let Some(folder) = std::env::var_os("FORKSCOPE_TALK_OUT") {
        let name = format!("{}.{}", talk.name, road.replace(' ', "-"));
        let path = Path::new(&folder).join(name);
        for (end, bytes) in [("pcap", capture), ("keys", keys.as_bytes())] {
            fs::write(format!("{}.{end}", path.display()), bytes).unwrap();
        }
    }
}

#[test]
fn what_networks_do_to_packets_of_tls_changes_no_resume() {
    let mut bad = String::new();
    for talk in talks().iter().step_by(5) {
        for (version, number) in VERSIONS {
            let (clean, keys) = packets(talk, number);
            let want = essences(&audit(talk, &pcap(talk, &clean), &keys));
            let config = Config {
                cases: 6,
                max_shrink_iters: 50,
                failure_persistence: None,
                ..Config::default()
            };
            let mut runner =
                TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
            let result = runner.run(&any(), |how| {
                let changed = impair(clean.clone(), &how);
                let got = essences(&audit(talk, &pcap(talk, &changed), &keys));
                if got == want {
                    Ok(())
                } else {
                    Err(TestCaseError::fail(format!("{got:#?}\nwant {want:#?}")))
                }
            });
            if let Err(error) = result {
                let _ = writeln!(bad, "{}, {version}: {error}", talk.name);
            }
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
}

// Keys

/// Without keys, with those of others, with wrong ones and with half of them: each connection is named, and no
/// verdict comes of what was not read.
#[test]
fn keys_that_lack_or_are_wrong_are_told() {
    let talk = talk("continued");
    for (version, number) in VERSIONS {
        let (packets, keys) = packets(&talk, number);
        let capture = pcap(&talk, &packets);
        let whole = audit(&talk, &capture, &keys);
        assert_eq!(whole.inputs[0].tls_opaque, 0, "{version}");
        assert!(!whole.resumes.is_empty(), "{version}");
        let connections = whole.inputs[0].tcp_connections;

        let none = audit(&talk, &capture, "");
        assert_eq!(noted(&none, Kind::OpaqueTls), connections, "{version}");
        assert_eq!(none.inputs[0].tls_opaque, connections, "{version}");
        assert_eq!(
            why_unread(&none),
            vec![WhyUnread::NoKeys; connections as usize]
        );
        assert!(
            none.exchanges.is_empty() && none.findings.is_empty(),
            "{version}"
        );

        // Every secret is another.
        let wrong: String = keys
            .lines()
            .map(|line| {
                let (name, secret) = line.rsplit_once(' ').unwrap();
                let secret: String = secret.chars().rev().collect();
                format!("{name} {secret}\n")
            })
            .collect();
        let wrong = audit(&talk, &capture, &wrong);
        assert_eq!(noted(&wrong, Kind::WrongTlsKeys), connections, "{version}");
        assert_eq!(wrong.inputs[0].tls_opaque, connections, "{version}");
        assert_eq!(
            why_unread(&wrong),
            vec![WhyUnread::WrongKeys; connections as usize]
        );
        assert!(
            wrong.exchanges.is_empty() && wrong.findings.is_empty(),
            "{version}"
        );

        // The connections of half of the randoms.
        let randoms: Vec<&str> = keys
            .lines()
            .map(|line| line.split(' ').nth(1).unwrap())
            .collect();
        let known: BTreeSet<&str> = randoms.iter().copied().take(1).collect();
        let half: String = keys
            .lines()
            .filter(|line| known.contains(line.split(' ').nth(1).unwrap()))
            .fold(String::new(), |text, line| text + line + "\n");
        let half = audit(&talk, &capture, &half);
        assert_eq!(noted(&half, Kind::OpaqueTls), connections - 1, "{version}");
        assert!(
            half.findings.iter().all(|f| f.severity.name() == "info"),
            "{version}: {:?}",
            half.findings
        );
        assert!(
            !half.blanks.is_empty(),
            "{version}: nothing is said to be missing"
        );
    }
}

/// Only what one side said can be read: nothing is called missing.
#[test]
fn half_of_the_keys_of_a_connection_accuse_nobody() {
    for talk in talks().iter().step_by(7) {
        let (packets, keys) = packets(talk, VERSIONS[1].1);
        let capture = pcap(talk, &packets);
        let whole = audit(talk, &capture, &keys);
        for side in ["CLIENT_TRAFFIC", "SERVER_TRAFFIC"] {
            let left = keys.lines().filter(|line| !line.starts_with(side));
            let left = left.fold(String::new(), |text, line| text + line + "\n");
            let analysis = audit(talk, &capture, &left);
            for finding in &analysis.findings {
                let known = whole.findings.iter().any(|f| f.code == finding.code);
                assert!(
                    known || finding.severity.name() == "info",
                    "{} without {side}: {finding:?}",
                    talk.name
                );
            }
            let partial = noted(&analysis, Kind::PartialTlsKeys);
            assert!(partial > 0, "{} without {side}", talk.name);
            let one_side = why_unread(&analysis);
            let one_side = one_side.iter().filter(|why| **why == WhyUnread::OneSide);
            assert_eq!(one_side.count() as u64, partial, "{}", talk.name);
        }
    }
}

/// The secrets of the handshake are not needed.
#[test]
fn handshake_secrets_need_not_be_there() {
    for talk in talks().iter().step_by(7) {
        let (packets, keys) = packets(talk, VERSIONS[1].1);
        let capture = pcap(talk, &packets);
        let left = keys.lines().filter(|line| !line.contains("_HANDSHAKE_"));
        let left = left.fold(String::new(), |text, line| text + line + "\n");
        assert_eq!(
            fingerprint(&audit(talk, &capture, &left)),
            fingerprint(&audit(talk, &capture, &keys)),
            "{}",
            talk.name
        );
    }
}

/// Secrets may stand before the packets, among them, after them, in another file.
#[test]
fn secrets_blocks_may_stand_anywhere() {
    let path = root().join("fixtures/tls/tls13-key-update.pcapng");
    let bytes = fs::read(&path).unwrap();
    let (blocks, secrets) = blocks(&bytes);
    let whole = audit_files(&[("a.pcapng", &bytes)]);
    assert_eq!(whole.exchanges.len(), 3);
    let want = format!("{:?}", whole.exchanges);
    let without: Vec<u8> = blocks.concat();
    for place in [blocks.len() / 2, blocks.len()] {
        let (before, after) = blocks.split_at(place);
        let moved = [before.concat(), secrets.clone(), after.concat()].concat();
        let analysis = audit_files(&[("a.pcapng", &moved)]);
        assert_eq!(
            format!("{:?}", analysis.exchanges),
            want,
            "at block {place}"
        );
        assert_eq!(noted(&analysis, Kind::OpaqueTls), 0);
    }
    // A file of secrets alone: a section, and they.
    let alone = [blocks[0].clone(), secrets.clone()].concat();
    let analysis = audit_files(&[("a.pcapng", &without), ("b.pcapng", &alone)]);
    assert_eq!(analysis.exchanges.len(), 3);
    assert_eq!(audit_files(&[("a.pcapng", &without)]).exchanges.len(), 0);
}

/// Standard input is read once: secrets before the packets are used, and those after them are missed aloud.
#[test]
fn standard_input_is_read_once() {
    let path = root().join("fixtures/tls/tls13-key-update.pcapng");
    let bytes = fs::read(&path).unwrap();
    let (blocks, secrets) = blocks(&bytes);
    let first = stdin(&bytes);
    assert!(first.contains("3 HTTP exchanges"), "{first}");
    // A batch is read at once: what follows it must be far away.
    let syn = blocks.iter().find(|block| block[0] == 6).unwrap();
    let noise = vec![syn.clone(); 40_000].concat();
    let late = [blocks.concat(), noise, secrets].concat();
    let late = stdin(&late);
    assert!(late.contains("late-tls-keys"), "{late}");
    assert!(late.contains("0 HTTP exchanges"), "{late}");
}

#[test]
fn key_logs_that_cannot_be_read_stop_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let capture = root().join("fixtures/real/ts13_tls13.pcap");
    let keys = fs::read_to_string(root().join("fixtures/real/ts13_tls13.keys")).unwrap();
    let run = |name: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_forkscope"))
            .arg("audit")
            .arg(&capture)
            .arg("--keylog")
            .arg(name)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (
            output.status.code(),
            said,
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let (code, said, _) = run(folder.path());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("cannot read the key log"), "{said}");
    let (code, said, _) = run(&folder.path().join("none"));
    assert_eq!(code, Some(2), "{said}");
    let (code, said, _) = run(&capture);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("not a key log"), "{said}");

    // Some bad lines are said, by name and line, and nothing that is secret with them.
    let mixed = folder.path().join("mixed.keys");
    fs::write(
        &mixed,
        format!("# ours\r\nCLIENT_RANDOM 00 5ec7e7\n{keys}\nend\n"),
    )
    .unwrap();
    let (code, said, out) = run(&mixed);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("mixed.keys: line 2 "), "{said}");
    assert!(said.contains("1 more such line"), "{said}");
    assert!(!said.contains("5ec7e7") && !out.contains("5ec7e7"));
    assert!(out.contains("1 empty, 1 forked"), "{out}");
    // It may be given twice, and in parts.
    let empty = folder.path().join("empty.keys");
    fs::write(&empty, "# nothing\n").unwrap();
    let (code, said, _) = run(&empty);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("there are no TLS secrets in it"), "{said}");
}

/// What report.json says of key logs, with names and without, and of the secrets in a capture.
#[test]
fn the_report_says_what_keys_gave() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("acme-keys.log");
    let keys = fs::read_to_string(root().join("fixtures/real/ts13_tls13.keys")).unwrap();
    let secrets = keys.lines().filter(|line| line.contains("TRAFFIC_SECRET"));
    let secrets = secrets.count();
    fs::write(&log, format!("{keys}\nCLIENT_RANDOM 00 5ec7e7\n")).unwrap();
    let report = |arguments: &[&str]| -> (serde_json::Value, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_forkscope"))
            .args(["audit", "-q", "--format", "json"])
            .args(arguments)
            .current_dir(root())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (serde_json::from_str(&text).unwrap(), text)
    };
    let capture = "fixtures/real/ts13_tls13.pcap";
    let named = log.to_str().unwrap();
    let (whole, text) = report(&[capture, "--keylog", named]);
    let one = &whole["key_logs"][0];
    assert_eq!(one["name"], named);
    assert_eq!(one["secrets"], secrets);
    assert_eq!(one["bad_lines"], 1);
    assert_eq!(one["first_bad_line"], keys.lines().count() + 2);
    assert!(!text.contains("5ec7e7"));
    let tls = &whole["inputs"][0]["tls"];
    assert!(tls["connections"].as_u64().unwrap() > 0, "{tls}");
    assert_eq!(tls["read"], tls["connections"]);
    assert_eq!(tls["unread"], serde_json::json!([]));

    let (hidden, text) = report(&[capture, "--keylog", named, "--redact"]);
    assert_eq!(hidden["key_logs"][0]["name"], "keylog-1");
    assert_eq!(&hidden["inputs"][0]["tls"], tls);
    assert!(!text.contains("acme"));

    let (without, _) = report(&[capture]);
    assert_eq!(without["key_logs"], serde_json::json!([]));
    let unread = without["inputs"][0]["tls"]["unread"].as_array().unwrap();
    assert_eq!(unread.len() as u64, tls["connections"].as_u64().unwrap());
    assert!(unread.iter().all(|one| one["why"] == "no-keys"));
    assert_eq!(unread[0]["tcp_stream"], 0);
    assert_eq!(unread[0]["frame"], 1);

    let (within, _) = report(&["fixtures/real/ts13_tls13_dsb.pcapng"]);
    assert_eq!(within["inputs"][0]["tls"]["secrets"], secrets);
}

/// Why connections of the first input were not read, in the order of their streams.
fn why_unread(analysis: &Analysis) -> Vec<WhyUnread> {
    let unread = analysis.inputs[0].tls.unread.iter();
    unread.map(|one| one.why).collect()
}

// Reading

/// What one connection carried, piece by piece: bytes, or how many are missing.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    pub(crate) ends: Vec<SocketAddr>,
    pieces: [Vec<Piece>; 2],
    anomalies: Vec<(Kind, String)>,
    outcome: Option<tls::Outcome>,
    /// Both sides said that they say no more.
    clean: bool,
    frames: usize,
}

#[derive(Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Missing(u64),
}

impl Carried {
    /// All that a side said, when nothing is missing.
    pub(crate) fn whole(&self, side: Side) -> Option<Vec<u8>> {
        let mut whole = Vec::new();
        for piece in &self.pieces[side.index()] {
            match piece {
                Piece::Bytes(bytes) => whole.extend(bytes),
                Piece::Missing(_) => return None,
            }
        }
        Some(whole)
    }

    fn pieces(&self, side: Side) -> Vec<&[u8]> {
        let pieces = self.pieces[side.index()].iter();
        pieces
            .filter_map(|piece| match piece {
                Piece::Bytes(bytes) => Some(&bytes[..]),
                Piece::Missing(_) => None,
            })
            .collect()
    }

    /// Whether what is there is `want` with pieces missing, of the sizes that are said where those are exact.
    fn fits(&self, side: Side, want: &[u8], padded: bool) -> Result<(), String> {
        let mut at = 0;
        let mut slack = 0;
        let mut open = false;
        for piece in &self.pieces[side.index()] {
            match piece {
                Piece::Missing(bytes) => {
                    open = true;
                    slack += usize::try_from(*bytes).unwrap();
                }
                Piece::Bytes(bytes) => {
                    let left = &want[at.min(want.len())..];
                    let skipped = if open {
                        let found = left
                            .windows(bytes.len().max(1))
                            .position(|w| w == &bytes[..]);
                        found.ok_or_else(|| format!("{bytes:?} was not said after {at}"))?
                    } else if left.starts_with(bytes) {
                        0
                    } else {
                        return Err(format!("at {at} a hole is not told"));
                    };
                    // Handshake messages in the hole count (tickets, renegotiation), and so may padding.
                    if skipped > slack
                        || (!padded && slack > skipped + if at == 0 { 2000 } else { 400 })
                    {
                        return Err(format!(
                            "{slack} bytes said to be missing at {at}: {skipped} are"
                        ));
                    }
                    at += skipped + bytes.len();
                    open = false;
                    slack = 0;
                }
            }
        }
        if at < want.len() && slack < want.len() - at {
            return Err(format!(
                "{} bytes missing at the end, {slack} told",
                want.len() - at
            ));
        }
        Ok(())
    }
}

/// A TCP connection's bytes go to TLS.
struct Tap {
    /// In order of first packets.
    number: usize,
    tls: tls::Connection,
    carried: Carried,
}

impl tls::Sink for Carried {
    fn data(&mut self, sender: Side, bytes: &[u8], _: At) {
        self.pieces[sender.index()].push(Piece::Bytes(bytes.to_vec()));
    }

    fn hole(&mut self, sender: Side, bytes: u64, _: At) {
        assert!(bytes > 0);
        self.pieces[sender.index()].push(Piece::Missing(bytes));
    }

    fn anomaly(&mut self, kind: Kind, _: At, detail: String) {
        self.anomalies.push((kind, detail));
    }
}

impl tcp::Sink for Tap {
    fn data(&mut self, sender: Side, bytes: &[u8], at: At) {
        self.tls.data(sender, bytes, at, &mut self.carried);
    }

    fn hole(&mut self, sender: Side, bytes: u64, _: tcp::HoleKind, at: At) {
        self.tls.hole(sender, bytes, at, &mut self.carried);
    }

    fn acknowledged(&mut self, _: Side, _: At) {}

    fn fin(&mut self, sender: Side, _: Option<u64>, at: At) {
        self.tls.fin(sender, at, &mut self.carried);
    }

    fn rst(&mut self, _: Side, _: Option<u64>, _: At) {}

    fn finish(&mut self, last: At) {
        self.carried.outcome = Some(self.tls.finish(last, &mut self.carried));
        self.carried.clean = [Side::A, Side::B]
            .iter()
            .all(|side| self.tls.ends_cleanly(*side));
    }
}

/// The connections of a capture with secrets in it, of the packets that are kept.
fn read(bytes: &[u8], keep: &dyn Fn(usize) -> bool) -> Vec<Carried> {
    read_with(bytes, &[], keep)
}

/// The same with a key log beside the capture.
pub(crate) fn read_with(bytes: &[u8], keys: &[u8], keep: &dyn Fn(usize) -> bool) -> Vec<Carried> {
    let limits = Limits::default();
    let mut all = Vec::new();
    let frames = connections(
        bytes,
        keys,
        keep,
        &|secrets, opening, number| Tap {
            number,
            tls: tls::Connection::new(limits, Arc::clone(secrets), &tls::Budget::default()),
            carried: Carried {
                ends: vec![opening.a, opening.b],
                ..Carried::default()
            },
        },
        &mut |tap: Tap| all.push((tap.number, tap.carried)),
    );
    all.sort_by_key(|(number, _)| *number);
    let mut all: Vec<Carried> = all.into_iter().map(|(_, carried)| carried).collect();
    if let Some(first) = all.first_mut() {
        first.frames = frames;
    }
    all
}

/// Puts the connections of a capture together, of the packets that are kept; returns how many those are.
fn connections<T: tcp::Sink>(
    bytes: &[u8],
    keys: &[u8],
    keep: &dyn Fn(usize) -> bool,
    make: &dyn Fn(&Arc<tls::Secrets>, &tcp::Opening, usize) -> T,
    done: &mut dyn FnMut(T),
) -> usize {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let source = Source {
        name: "a capture".to_owned(),
        path: Some(file.path().to_owned()),
    };
    let limits = Limits::default();
    let progress = AtomicU64::new(0);
    let Ok(Classified::Packets(packets)) = classify(&source, &limits, &progress) else {
        panic!("no packets");
    };
    let mut secrets = tls::Secrets::default();
    secrets.read(keys, &limits);
    for text in packets.key_logs() {
        assert_eq!(secrets.read(text, &limits).bad, 0);
    }
    let secrets = Arc::new(secrets);
    let mut timeline = Timeline::new(vec![(InputId(0), packets)], &limits, &progress);
    let mut anomalies = Anomalies::default();
    let mut table = tcp::Table::new(limits);
    let (mut number, mut frames, mut opened) = (0, 0, 0);
    while let Some(piece) = timeline.next(&mut anomalies) {
        for frame in piece.batch.frames(piece.range.clone(), piece.input) {
            number += 1;
            if !keep(number - 1) {
                continue;
            }
            frames += 1;
            let packet = link::peel(&frame).unwrap();
            let transport = ip::open(&packet).unwrap();
            let (segment, payload) = tcp::parse(&transport, frame.time, frame.place).unwrap();
            table.push(
                &segment,
                payload,
                &mut Anomalies::default(),
                &mut |opening| {
                    opened += 1;
                    make(&secrets, opening, opened)
                },
                &mut |tap| done(*tap),
            );
        }
    }
    table.finish(&mut Anomalies::default(), &mut |tap| done(*tap));
    frames
}

/// What the check `tls` of the fuzzers takes: the payloads of each capture's first connection, as records of a
/// length, a byte that says whose they are, and they.
pub(crate) fn records() -> Vec<(String, Vec<u8>)> {
    struct Payloads(Vec<u8>);

    impl tcp::Sink for Payloads {
        fn data(&mut self, sender: Side, bytes: &[u8], _: At) {
            let [.., high, low] = (bytes.len() + 1).to_be_bytes();
            let way = 0x30 | u8::from(sender == Side::B);
            self.0.extend([high, low, way]);
            self.0.extend(bytes);
        }

        fn hole(&mut self, _: Side, _: u64, _: tcp::HoleKind, _: At) {}
        fn acknowledged(&mut self, _: Side, _: At) {}
        fn fin(&mut self, _: Side, _: Option<u64>, _: At) {}
        fn rst(&mut self, _: Side, _: Option<u64>, _: At) {}
        fn finish(&mut self, _: At) {}
    }

    let mut all = Vec::new();
    for (name, bytes) in captures() {
        let mut done: Vec<Vec<u8>> = Vec::new();
        connections(
            &bytes,
            &[],
            &|_| true,
            &|_, _, _| Payloads(Vec::new()),
            &mut |tap: Payloads| {
                done.push(tap.0);
            },
        );
        all.push((name, done.concat()));
    }
    all
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn capture_paths() -> Vec<PathBuf> {
    let folder = root().join("fixtures/tls");
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|end| end == "pcapng"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

fn captures() -> Vec<(String, Vec<u8>)> {
    let named = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, fs::read(&path).unwrap())
    };
    capture_paths().into_iter().map(named).collect()
}

/// What client and server said on a connection.
fn said(name: &str, index: usize) -> [Vec<u8>; 2] {
    ["client", "server"].map(|side| {
        let folder = root().join("fixtures/tls");
        let one = folder.join(format!("{name}.{side}"));
        let path = if one.exists() {
            one
        } else {
            folder.join(format!("{name}.{index}.{side}"))
        };
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    })
}

fn talk(name: &str) -> Talk {
    talks().into_iter().find(|talk| talk.name == name).unwrap()
}

/// An audit with a talk's options and a key log, of a capture that may be damaged.
pub(crate) fn audit(talk: &Talk, capture: &[u8], keys: &str) -> Analysis {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk");
    fs::write(&path, capture).unwrap();
    let mut options = options(talk);
    options.inputs.push(path.to_str().unwrap().to_owned());
    if !keys.is_empty() {
        let log = folder.path().join("keys");
        fs::write(&log, keys).unwrap();
        options.key_logs.push(log);
    }
    run(&options, &Progress::default()).unwrap()
}

fn audit_files(files: &[(&str, &[u8])]) -> Analysis {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    for (name, bytes) in files {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        options.inputs.push(path.to_str().unwrap().to_owned());
    }
    run(&options, &Progress::default()).unwrap()
}

fn stdin(bytes: &[u8]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_forkscope"))
        .args(["audit", "-", "-v", "--color", "never"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut pipe, bytes).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The blocks of a little-endian pcapng but for the secrets, and those.
pub(crate) fn blocks(bytes: &[u8]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut blocks = Vec::new();
    let mut secrets = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        let (kind, len) = (number(0), usize::try_from(number(4)).unwrap());
        let (block, after) = rest.split_at(len);
        if kind == 10 {
            secrets.extend(block);
        } else {
            blocks.push(block.to_vec());
        }
        rest = after;
    }
    assert!(!secrets.is_empty());
    (blocks, secrets)
}

fn noted(analysis: &Analysis, kind: Kind) -> u64 {
    analysis.anomalies.count(InputId(0), kind)
}

fn essences(analysis: &Analysis) -> Vec<String> {
    let resumes = analysis.resumes.iter();
    resumes.map(crate::talk::expect::essence).collect()
}

/// A fingerprint but for the numbers of frames, as a handshake has some of its own, and the scheme of URLs.
fn without_frames(analysis: &Analysis) -> String {
    let text = fingerprint(analysis);
    let mut words: Vec<&str> = Vec::new();
    let mut after = false;
    for word in text.split_inclusive([' ', '\n']) {
        if !after {
            words.push(word);
        }
        after = word == "frame ";
    }
    words.concat().replace("https://", "http://")
}

/// Packets of a talk over TLS are as many as without it, but for the handshake, and seen at the same times.
#[test]
fn talks_over_tls_have_the_same_packets() {
    let talk = talk("continued");
    let plain: Vec<Packet> = crate::talk::tcp::packets(&talk);
    for (version, number) in VERSIONS {
        let (sealed, keys) = packets(&talk, number);
        assert!(sealed.len() > plain.len(), "{version}");
        assert!(!keys.is_empty());
        let times: BTreeSet<i64> = sealed.iter().map(|packet| packet.at).collect();
        assert!(
            plain.iter().all(|packet| times.contains(&packet.at)),
            "{version}"
        );
    }
}
