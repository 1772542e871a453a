//! Several taps of the same traffic, and copies of packets: what was said once counts once.
//!
//! Every talk is rendered as one faithful capture and again as other taps would have it: with
//! another clock, other MAC addresses, a VLAN tag, a lower TTL, other link types. All of them
//! together must say what the first says alone: the same resumes, sessions, exchanges and events,
//! but for where they were seen.

use crate::{
    talk::{
        model::{Connection, Talk},
        render_pcap::{Link, Pcap, checksum, file, frame},
        tcp::{Packet, packets},
    },
    talks::{options, talks},
};
use forkscope::{
    model::{analysis::Analysis, flow::Endpoint, verdict::Severity},
    pipeline::{Progress, run},
    report::{self, Report, Style},
};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// How one capture point differs from the faithful one.
#[derive(Clone, Copy, Debug)]
struct Tap {
    /// Its clock is ahead by this many microseconds.
    ahead: i64,
    /// The last byte of the MAC addresses it sees is another.
    other_macs: bool,
    /// The VLAN it is in.
    vlan: Option<u16>,
    /// Routers between it and the first one.
    hops: u8,
    link: Link,
    /// Which packets it loses: those whose number leaves the second when divided by the first.
    loses: Option<(usize, usize)>,
}

const FAITHFUL: Tap = Tap {
    ahead: 0,
    other_macs: false,
    vlan: None,
    hops: 0,
    link: Link::Ethernet,
    loses: None,
};

#[test]
fn a_file_given_twice_counts_once() {
    compare("given twice", |talk, packets| {
        let one = render(talk, packets, FAITHFUL);
        (vec![one.clone()], vec![one.clone(), one])
    });
}

#[test]
fn taps_of_one_clock_count_once() {
    compare("other MACs, VLAN, TTL and link", |talk, packets| {
        let one = render(talk, packets, FAITHFUL);
        let taps = [
            Tap {
                other_macs: true,
                hops: 3,
                ..FAITHFUL
            },
            Tap {
                vlan: Some(7),
                ..FAITHFUL
            },
            Tap {
                link: Link::Raw,
                ..FAITHFUL
            },
        ];
        let mut all = vec![one.clone()];
        all.extend(taps.map(|tap| render(talk, packets, tap)));
        (vec![one], all)
    });
}

#[test]
fn taps_whose_clocks_differ_count_once() {
    for ahead in [5_000, 300_000, 2_000_000] {
        let other = Tap {
            ahead,
            other_macs: true,
            hops: 1,
            ..FAITHFUL
        };
        // Which of the files is first by name does not matter.
        for second in [true, false] {
            compare(&format!("{ahead} µs ahead"), |talk, packets| {
                let mut one = frames(talk, packets, FAITHFUL);
                one.extend(noise(packets));
                one.sort_by_key(|(at, _)| *at);
                let mut all = vec![pcap(&one), render(talk, packets, other)];
                if second {
                    all.reverse();
                }
                (vec![pcap(&one)], all)
            });
        }
    }
}

#[test]
fn copies_within_one_file_count_once() {
    for late in [0, 40, 5_000, 300_000] {
        compare(&format!("copies after {late} µs"), |talk, packets| {
            let one = frames(talk, packets, FAITHFUL);
            let other = Tap {
                ahead: late,
                other_macs: true,
                vlan: Some(2),
                hops: 1,
                ..FAITHFUL
            };
            let mut both = one.clone();
            both.extend(frames(talk, packets, other));
            both.sort_by_key(|(at, _)| *at);
            (vec![pcap(&one)], vec![pcap(&both)])
        });
    }
}

/// What one tap lost another has.
#[test]
fn taps_fill_each_others_holes() {
    let mut bad = String::new();
    for ahead in [0, 5_000, 300_000] {
        for talk in talks() {
            let packets = packets(&talk);
            let whole = audit(&talk, &[render(&talk, &packets, FAITHFUL)]);
            let one = Tap {
                loses: Some((3, 1)),
                ..FAITHFUL
            };
            let other = Tap {
                loses: Some((3, 2)),
                ahead,
                ..FAITHFUL
            };
            let both = audit(
                &talk,
                &[render(&talk, &packets, one), render(&talk, &packets, other)],
            );
            // Between clocks that differ, what happened at one moment on two connections is in the
            // order of clocks: only talks of one connection after another are the same.
            if ahead > 0
                && !["continued", "f3", "lossy"]
                    .iter()
                    .any(|name| talk.name.starts_with(name))
            {
                continue;
            }
            let verdicts = |analysis: &Analysis| -> Vec<String> {
                let rows: Vec<String> = analysis
                    .resumes
                    .iter()
                    .map(crate::talk::expect::essence)
                    .collect();
                rows
            };
            if verdicts(&whole) != verdicts(&both) {
                let _ = writeln!(
                    bad,
                    "{}, {ahead} µs: {:#?}, whole {:#?}",
                    talk.name,
                    verdicts(&both),
                    verdicts(&whole)
                );
            }
            if whole.exchanges.len() != both.exchanges.len() {
                let _ = writeln!(bad, "{}: exchanges", talk.name);
            }
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
}

/// A NAT between two taps shows one connection under two pairs of addresses: each exchange twice.
#[test]
fn taps_on_both_sides_of_a_nat_count_once() {
    let mut bad = String::new();
    let mut compared = 0;
    for what in ["client", "server"] {
        for (talk, mut behind) in talks().into_iter().zip(talks()) {
            if names_sessions_by_client(&talk) {
                continue;
            }
            move_behind_a_nat(&mut behind, what);
            let packets = packets(&talk);
            let one = frames(&talk, &packets, FAITHFUL);
            let tap = Tap {
                ahead: 3,
                hops: 1,
                ..FAITHFUL
            };
            let mut both = one.clone();
            both.extend(frames(&behind, &packets, tap));
            both.sort_by_key(|(at, _)| *at);
            let (want, got) = (audit(&talk, &[pcap(&one)]), audit(&talk, &[pcap(&both)]));
            compared += want.resumes.len();
            // The side behind the NAT names a backend, and the reports say so.
            let loose = ["incident", "backend_before", "backend_after", "findings"];
            let (one, two) = (
                table(&want, &report::RESUMES, &loose),
                table(&got, &report::RESUMES, &loose),
            );
            if one != two {
                let _ = writeln!(bad, "{what}: {}:\n{two:#?}\nwant {one:#?}", talk.name);
            }
            if format!("{:?}", want.totals) != format!("{:?}", got.totals) {
                let (want, got) = (&want.totals, &got.totals);
                let _ = writeln!(bad, "{what}: {}: {got:?}, want {want:?}", talk.name);
            }
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
    assert!(compared > 0, "no resume to compare");
}

/// Makes of a talk what is seen of it behind a NAT that changes the address of the client, or of the server.
fn move_behind_a_nat(talk: &mut Talk, what: &str) {
    for connection in &mut talk.connections {
        let moved = if what == "client" {
            &mut connection.client
        } else {
            &mut connection.server
        };
        *moved = SocketAddr::new(elsewhere(moved.ip()), moved.port() ^ 0x1000);
    }
}

/// Taps on two hosts without common time, with a NAT between them or none: the run counts once, with every
/// fork in it, whichever clock is ahead.
#[test]
fn taps_without_common_time_count_once() {
    let mut bad = String::new();
    let mut compared = 0;
    let cases = [
        ("client", 500_000),
        ("server", 2_000_000),
        ("client", -2_000_000),
        ("server", 3_600_000_000),
        ("client", -3_600_000_000),
        ("none", 3_600_000_000),
        ("none", -30_000_000),
    ];
    for (number, (talk, other)) in talks().into_iter().zip(talks()).enumerate() {
        if names_sessions_by_client(&talk) {
            continue;
        }
        // Each talk meets some of them, and each of them many talks.
        let (what, ahead) = cases[number % cases.len()];
        let mut behind = other;
        if what != "none" {
            move_behind_a_nat(&mut behind, what);
        }
        let packets = packets(&talk);
        let one = render(&talk, &packets, FAITHFUL);
        let two = |ahead| {
            let tap = Tap {
                ahead,
                hops: 1,
                ..FAITHFUL
            };
            render(&behind, &packets, tap)
        };
        let want = audit(&talk, &[one.clone(), two(3)]);
        let got = audit(&talk, &[one, two(ahead)]);
        compared += want.resumes.len();
        let why = format!("{}, {what}, {ahead} µs", talk.name);
        bad += &differences(&why, &want, &got);
    }
    assert!(bad.is_empty(), "\n{bad}");
    assert!(compared > 0, "no resume to compare");
}

/// The codes of all findings above info.
fn loud(analysis: &Analysis) -> BTreeSet<&'static str> {
    let findings = analysis.findings.iter();
    findings
        .filter(|finding| finding.severity > Severity::Info)
        .map(|finding| finding.code)
        .collect()
}

/// What another analysis says otherwise of resumes, sessions and findings, but for times and places.
fn differences(why: &str, want: &Analysis, got: &Analysis) -> String {
    let essences = |analysis: &Analysis| -> Vec<String> {
        let rows = analysis.resumes.iter();
        rows.map(crate::talk::expect::essence).collect()
    };
    let findings = |analysis: &Analysis| -> Vec<String> {
        let loud = analysis
            .findings
            .iter()
            .filter(|finding| finding.severity > Severity::Info);
        let mut codes: Vec<String> = loud
            .map(|finding| format!("{} {}", finding.code, finding.session_id))
            .collect();
        codes.sort_unstable();
        codes
    };
    let mut bad = String::new();
    if essences(want) != essences(got) {
        let (want, got) = (essences(want), essences(got));
        let _ = writeln!(bad, "{why}: {got:#?}, want {want:#?}");
    }
    if findings(want) != findings(got) {
        let (want, got) = (findings(want), findings(got));
        let _ = writeln!(bad, "{why}: findings {got:?}, want {want:?}");
    }
    if want.totals.sessions != got.totals.sessions {
        let (want, got) = (want.totals.sessions, got.totals.sessions);
        let _ = writeln!(bad, "{why}: {got} sessions, want {want}");
    }
    bad
}

/// The two sides of a proxy in two files, by clocks that differ.
#[test]
fn sides_of_a_proxy_in_two_files_count_once() {
    let mut bad = String::new();
    let mut compared = 0;
    for ahead in [
        0,
        5_000,
        300_000,
        -300_000,
        2_000_000,
        -2_000_000,
        3_600_000_000,
        -3_600_000_000,
    ] {
        for talk in talks() {
            // Talks call the connections behind a proxy `p` and `q`; they go elsewhere than its clients do.
            let inner = |packet: &Packet| {
                let own = &talk.connections[packet.connection];
                let elsewhere = |other: &Connection| other.server != own.server;
                own.name.starts_with(['p', 'q']) && talk.connections.iter().any(elsewhere)
            };
            let packets = packets(&talk);
            if talk.beyond.is_some() || !packets.iter().any(inner) {
                continue;
            }
            let (behind, before): (Vec<Packet>, Vec<Packet>) =
                packets.iter().cloned().partition(inner);
            let tap = Tap { ahead, ..FAITHFUL };
            let captures = [
                render(&talk, &before, FAITHFUL),
                render(&talk, &behind, tap),
            ];
            let analysis = audit(&talk, &captures);
            compared += analysis.resumes.len();
            // Two sides without a common session id tell nothing of their clocks: each is a session, and
            // accuses of no more than both together. A gateway that starts over is then a client that does.
            if talk.name.starts_with("gateway-starts-over") && ahead.abs() > 500_000 {
                continue;
            }
            if talk.name.starts_with("gateway") && ahead.abs() > 500_000 {
                let one = audit(&talk, &[render(&talk, &packets, FAITHFUL)]);
                let more = loud(&analysis).difference(&loud(&one)).count();
                if more > 0 {
                    let (got, want) = (loud(&analysis), loud(&one));
                    let _ = writeln!(bad, "{}, {ahead} µs: {got:?}, want {want:?}", talk.name);
                }
                continue;
            }
            for failure in crate::talk::expect::failures(&talk.expectations, &analysis, true) {
                let _ = writeln!(bad, "{}, {ahead} µs: {failure}", talk.name);
            }
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
    assert!(compared > 0, "no resume to compare");
}

/// What was captured later, of others, says nothing of what came before.
#[test]
fn another_capture_beside_it_changes_no_resume() {
    let other = "conn x from 10.9.0.1 to 10.9.0.9:3000\n\
        x > POST init#0 host other.example\n\
        x < 200 json hello#0 sid Other\n\
        .. 200s\n\
        x > POST ping#1 sid Other host other.example\n\
        x < 200 json res#1\n\
        expect sessions 1";
    let other = crate::talk::parse::parse("other", other).unwrap();
    let mut bad = String::new();
    let mut compared = 0;
    for talk in talks() {
        let own = packets(&talk);
        let end = own.last().map_or(0, |packet| packet.at);
        let capture = render(&talk, &own, FAITHFUL);
        for after in [0, 1_000_000, 3_600_000_000] {
            let tap = Tap {
                ahead: end + after,
                ..FAITHFUL
            };
            let later = render(&other, &packets(&other), tap);
            let want = audit(&talk, std::slice::from_ref(&capture));
            let got = audit(&talk, &[capture.clone(), later]);
            let rows = |analysis: &Analysis| table(analysis, &report::RESUMES, &[]);
            compared += want.resumes.len();
            if rows(&want) != rows(&got) {
                let (want, got) = (rows(&want), rows(&got));
                let _ = writeln!(
                    bad,
                    "{} and {after} µs: {got:#?}, want {want:#?}",
                    talk.name
                );
            }
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
    assert!(compared > 0, "no resume to compare");
}

/// What a browser saw of what packets show as well, and the same browser's log twice.
#[test]
fn a_har_beside_packets_counts_once() {
    let mut bad = String::new();
    let mut compared = 0;
    for talk in &talks() {
        if talk.har_skip.is_some() || names_sessions_by_client(talk) {
            continue;
        }
        let har = crate::talk::render_har::render(talk);
        let capture = render(talk, &packets(talk), FAITHFUL);
        for (what, one, both) in [
            (
                "packets and HAR",
                vec![capture.clone()],
                vec![capture, har.clone()],
            ),
            ("HAR twice", vec![har.clone()], vec![har.clone(), har]),
        ] {
            let (want, got) = (audit(talk, &one), audit(talk, &both));
            compared += want.resumes.len();
            let essences = |analysis: &Analysis| -> Vec<String> {
                let rows = analysis.resumes.iter();
                rows.map(crate::talk::expect::essence).collect()
            };
            if essences(&want) != essences(&got) {
                let (want, got) = (essences(&want), essences(&got));
                let _ = writeln!(bad, "{what}: {}: {got:#?}, want {want:#?}", talk.name);
            }
            if want.totals.sessions != got.totals.sessions {
                let _ = writeln!(bad, "{what}: {}: sessions", talk.name);
            }
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
    assert!(compared > 0, "no resume to compare");
}

/// The browser's clock is not the capturing machine's.
#[test]
fn a_har_by_another_clock_counts_once() {
    let mut bad = String::new();
    let mut compared = 0;
    for ahead in [
        500_000,
        2_000_000,
        -2_000_000,
        3_600_000_000,
        -3_600_000_000,
    ] {
        for talk in &talks() {
            if talk.har_skip.is_some() || names_sessions_by_client(talk) {
                continue;
            }
            let har = crate::talk::render_har::render(talk);
            let tap = Tap { ahead, ..FAITHFUL };
            let capture = render(talk, &packets(talk), tap);
            let (want, got) = (
                audit(talk, std::slice::from_ref(&capture)),
                audit(talk, &[capture, har]),
            );
            compared += want.resumes.len();
            bad += &differences(&format!("{}, {ahead} µs", talk.name), &want, &got);
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
    assert!(compared > 0, "no resume to compare");
}

/// An initialize on both sides of a proxy, by clocks that one exchange alone does not tell apart, is one. What
/// one tap shows twice happened twice.
#[test]
fn an_initialize_seen_by_two_taps_reissues_nothing() {
    let first = "conn c from 10.0.0.1 to 10.0.0.5:80\n\
        c > POST init#0\n\
        c < 200 json hello#0 sid A\n";
    let again = "conn d from 10.0.0.1 to 10.0.0.5:80\n\
        c ask A#3\n\
        .. 40s\n\
        d > POST init#0\n\
        d < 200 json hello#0 sid A\n\
        d ask A#3\n";
    let elsewhere = |text: &str| text.replace("10.0.0.1 to 10.0.0.5:80", "10.0.0.5 to 10.0.0.9:80");
    let parse = |text: &str| {
        crate::talk::parse::parse("reissue", &format!("{text}expect sessions 1")).unwrap()
    };
    let count = |one: &str, (two, port): (&str, u16), ahead: i64| {
        let (one, mut two) = (parse(one), parse(two));
        for connection in &mut two.connections {
            let own = connection.client.port();
            connection.client.set_port(own + port);
        }
        let tap = Tap { ahead, ..FAITHFUL };
        let captures = [
            render(&one, &packets(&one), FAITHFUL),
            render(&two, &packets(&two), tap),
        ];
        let findings = audit(&one, &captures).findings;
        let reissued = findings.iter().filter(|f| f.code == "session-id-reissued");
        reissued.count()
    };
    let both = format!("{first}{again}");
    for ahead in [
        0,
        500_000,
        2_000_000,
        3_600_000_000,
        -2_000_000,
        -3_600_000_000,
    ] {
        let once = count(first, (&elsewhere(first), 0), ahead);
        assert_eq!(once, 0, "{ahead} µs");
        let twice = count(&both, (&elsewhere(&both), 0), ahead);
        assert_eq!(twice, 1, "{ahead} µs");
    }
    // The same client asks the same server over another connection: no tap's doing.
    let used = format!("{first}c ask A#3\n");
    assert_eq!(count(&used, (&used, 1), 3_600_000_000), 1);
}

/// Whether sessions have no id but their client's address, which a NAT changes and a HAR lacks.
fn names_sessions_by_client(talk: &Talk) -> bool {
    talk.options.iter().any(|(name, _)| name == "all-sse")
}

/// An address of the same family in another network.
fn elsewhere(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            Ipv4Addr::new(a ^ 0x40, b, c, d).into()
        }
        IpAddr::V6(ip) => {
            let mut octets = ip.octets();
            octets[1] ^= 0x44;
            Ipv6Addr::from(octets).into()
        }
    }
}

/// A frame in a report belongs to its input, and the number of a TCP stream is that file's.
#[test]
fn places_are_those_of_the_input_named() {
    let mut places = 0;
    for talk in talks() {
        let packets = packets(&talk);
        let half = packets.len() / 2;
        // The second file has other streams before the talk's, and both hold its middle.
        let mut shifted: Vec<(i64, Vec<u8>)> = Vec::new();
        for port in 0..5 {
            let mut talk =
                crate::talk::parse::parse("other", "a ask A#1\nexpect sessions 0").unwrap();
            talk.connections[0].client.set_port(50_000 + port);
            shifted.extend(frames(&talk, &crate::talk::tcp::packets(&talk), FAITHFUL));
        }
        let before = shifted.len();
        shifted.extend(frames(&talk, &packets[half / 2..], FAITHFUL));
        let first = pcap(&frames(&talk, &packets[..half], FAITHFUL));
        shifted.sort_by_key(|(at, _)| *at);
        let analysis = audit(&talk, &[first, pcap(&shifted)]);
        for exchange in &analysis.exchanges {
            for place in std::iter::once(&exchange.place).chain(&exchange.more_places) {
                let Some(stream) = place.tcp_stream else {
                    continue;
                };
                places += 1;
                let number = exchange.client.as_ref().map_or(0, Endpoint::port);
                let want = if place.input.0 == 0 {
                    stream_of(&frames(&talk, &packets[..half], FAITHFUL), number)
                } else {
                    stream_of(&shifted, number)
                };
                assert_eq!(Some(stream), want, "{}: {place:?}", talk.name);
            }
        }
        assert!(before > 0);
    }
    assert!(places > 0, "no place was compared");
}

/// Connections that come to nothing, on all sides of the talk: time passes for every part of the
/// reassembly, as it does in a capture of more than one conversation.
fn noise(packets: &[Packet]) -> Vec<(i64, Vec<u8>)> {
    let end = packets.last().map_or(0, |packet| packet.at);
    let mut talk = crate::talk::parse::parse("noise", "a ask A#1\nexpect sessions 0").unwrap();
    let syn = crate::talk::tcp::packets(&talk).swap_remove(0);
    (0..NOISE)
        .map(|number| {
            let port = 20_000 + u16::try_from(number).unwrap();
            talk.connections[0].client.set_port(port);
            let packet = Packet {
                at: number * (end + 5_000_000) / NOISE,
                ..syn.clone()
            };
            (packet.at, frame(&talk, &packet, Link::Ethernet))
        })
        .collect()
}

/// The place in the order of first packets of the connection with this client port.
fn stream_of(frames: &[(i64, Vec<u8>)], port: u16) -> Option<u32> {
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for (_, frame) in frames {
        let (ip, ports) = match frame[14] >> 4 {
            4 => (&frame[26..34], &frame[34..38]),
            _ => (&frame[22..54], &frame[54..58]),
        };
        let half = ip.len() / 2;
        let end = |ip: &[u8], port: &[u8]| [ip, port].concat();
        let (a, b) = (end(&ip[..half], &ports[..2]), end(&ip[half..], &ports[2..]));
        let pair = if a <= b { (a, b) } else { (b, a) };
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    let is_client = |end: &[u8]| end.ends_with(&port.to_be_bytes());
    pairs
        .iter()
        .position(|(a, b)| is_client(a) || is_client(b))
        .and_then(|place| u32::try_from(place).ok())
}

/// Holds the second set of captures against the first, for every talk.
fn compare(what: &str, taps: impl Fn(&Talk, &[Packet]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>)) {
    let mut bad = String::new();
    let mut rows = 0;
    for talk in talks() {
        let packets = packets(&talk);
        let (one, all) = taps(&talk, &packets);
        let (want, got) = (audit(&talk, &one), audit(&talk, &all));
        for (report, loose) in [
            (&report::RESUMES, &["incident"][..]),
            (&report::EXCHANGES, &["end_time"]),
            (&report::EVENTS, &[]),
        ] {
            let (want, got) = (table(&want, report, loose), table(&got, report, loose));
            rows += want.len();
            if want != got {
                let _ = writeln!(bad, "{what}: {}: {} differ", talk.name, report.name);
                for line in want.iter().filter(|line| !got.contains(line)) {
                    let _ = writeln!(bad, "  - {line}");
                }
                for line in got.iter().filter(|line| !want.contains(line)) {
                    let _ = writeln!(bad, "  + {line}");
                }
                if want.len() != got.len() {
                    let _ = writeln!(bad, "  {} rows, want {}", got.len(), want.len());
                }
            }
        }
        let findings = |analysis: &Analysis| -> Vec<String> {
            let row = |f: &forkscope::model::analysis::Finding| {
                format!("{} {} {:?} {}", f.code, f.session_id, f.time, f.detail)
            };
            analysis.findings.iter().map(row).collect()
        };
        if findings(&want) != findings(&got) {
            let (want, got) = (findings(&want), findings(&got));
            let _ = writeln!(bad, "{what}: {}: {got:#?}, want {want:#?}", talk.name);
        }
        if format!("{:?}", want.totals) != format!("{:?}", got.totals) {
            let (want, got) = (&want.totals, &got.totals);
            let _ = writeln!(bad, "{what}: {}: {got:?}, want {want:?}", talk.name);
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
    assert!(rows > 0, "nothing to compare");
}

/// The rows of a report, without the columns that say where something was seen, and those that are
/// `loose`.
fn table(analysis: &Analysis, report: &Report, loose: &[&str]) -> Vec<String> {
    let mut text = Vec::new();
    (report.write)(analysis, &Style::default(), &mut text).unwrap();
    let mut reader = csv::Reader::from_reader(&text[..]);
    let places = ["input", "frame", "tcp_stream", "end_frame"];
    let kept: Vec<(usize, String)> = reader
        .headers()
        .unwrap()
        .iter()
        .enumerate()
        .filter(|(_, name)| {
            !places.contains(&name.trim_end_matches("_before")) && !loose.contains(name)
        })
        .map(|(index, name)| (index, name.to_owned()))
        .collect();
    reader
        .records()
        .map(|record| {
            let record = record.unwrap();
            let cells = kept
                .iter()
                .map(|(index, name)| format!("{name}={}", &record[*index]));
            cells.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

fn audit(talk: &Talk, captures: &[Vec<u8>]) -> Analysis {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(talk);
    for (number, bytes) in captures.iter().enumerate() {
        let path = folder.path().join(format!("tap-{number}"));
        fs::write(&path, bytes).unwrap();
        options.inputs.push(path.to_str().unwrap().to_owned());
    }
    let analysis = run(&options, &Progress::default()).unwrap();
    let readable = analysis.inputs.iter().all(|i| i.unreadable.is_none());
    assert!(readable, "{}: {:?}", talk.name, analysis.inputs);
    analysis
}

fn render(talk: &Talk, packets: &[Packet], tap: Tap) -> Vec<u8> {
    let as_ = Pcap {
        link: tap.link,
        big_endian: false,
        nanoseconds: false,
    };
    file(&frames(talk, packets, tap), as_)
}

fn pcap(frames: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let as_ = Pcap {
        link: Link::Ethernet,
        big_endian: false,
        nanoseconds: false,
    };
    file(frames, as_)
}

/// The frames that a tap sees, each with its time.
fn frames(talk: &Talk, packets: &[Packet], tap: Tap) -> Vec<(i64, Vec<u8>)> {
    packets
        .iter()
        .enumerate()
        .filter(|(index, _)| {
            tap.loses
                .is_none_or(|(divisor, rest)| index % divisor != rest)
        })
        .map(|(_, packet)| {
            let mut bytes = frame(talk, packet, tap.link);
            let ip = if tap.link == Link::Ethernet { 14 } else { 0 };
            match bytes[ip] >> 4 {
                4 => {
                    bytes[ip + 8] -= tap.hops;
                    bytes[ip + 10..ip + 12].fill(0);
                    let sum = checksum(&[&bytes[ip..ip + 20]]).to_be_bytes();
                    bytes[ip + 10..ip + 12].copy_from_slice(&sum);
                }
                _ => bytes[ip + 7] -= tap.hops,
            }
            if tap.link == Link::Ethernet {
                if tap.other_macs {
                    bytes[5] ^= 0x40;
                    bytes[11] ^= 0x40;
                }
                if let Some(vlan) = tap.vlan {
                    let [high, low] = vlan.to_be_bytes();
                    bytes.splice(12..12, [0x81, 0x00, high, low]);
                }
            }
            (packet.at + tap.ahead, bytes)
        })
        .collect()
}

/// Connections of the noise: several in a second, for every shard of the reassembly.
const NOISE: i64 = 300;
