//! Corner cases of TCP (T1 to T26) and HTTP (H1 to H17) through the whole of an audit: what they do to two
//! conversations, one that continues and one that forks, and what is said of the capture. The rules one by
//! one are tested beside the code (`tcp/rules.rs`, `http/tests.rs`, `ip/`).

use crate::{
    talk::{
        expect::essence,
        model::{Act, Body, Close, Side, Talk},
        parse::parse,
        render_pcap::{Link, Pcap, render},
        tcp::{ACK, FIN, Packet, RST, SYN, packets},
    },
    talks::{audit, options},
};
use forkscope::{
    anomaly::Kind,
    model::analysis::Analysis,
    pipeline::{Progress, run},
};
use std::{collections::BTreeMap, fs};

const URG: u8 = 32;

/// A resume that goes on, and one that forks.
const TALKS: [(&str, &str); 2] = [("goes on", "4 res#1"), ("forks", "2 note \"new\"")];

fn talk(came: &str) -> Talk {
    let text = format!(
        "c1 open A\n\
         c1 > POST call#1 tok 7 sid A\n\
         c1 < 200 sse sid A\n\
         c1 < ev 1 prime\n\
         c1 < ev 2 progress 7 1\n\
         c1 < ev 3 progress 7 2\n\
         .. 1s\n\
         c1 x server-fin\n\
         .. 1s\n\
         c2 > GET sid A lei 3\n\
         c2 < 200 sse sid A\n\
         c2 < ev {came}\n\
         c2 < end\n\
         .. 15s\n\
         c3 ask A#2\n\
         expect resumes 1\n"
    );
    parse("corner", &text).unwrap()
}

const PLAIN: Pcap = Pcap {
    link: Link::Ethernet,
    big_endian: false,
    nanoseconds: false,
};

fn capture(talk: &Talk, packets: &[Packet]) -> Vec<u8> {
    render(talk, packets, PLAIN)
}

fn resumes(analysis: &Analysis) -> Vec<String> {
    analysis.resumes.iter().map(essence).collect()
}

fn oddities(analysis: &Analysis) -> BTreeMap<Kind, u64> {
    let mut all = BTreeMap::new();
    for (_, kind, tally) in analysis.anomalies.iter() {
        *all.entry(kind).or_default() += tally.count;
    }
    all
}

/// Neither conversation is judged otherwise, and what is odd about the capture is `odd`.
fn changes_nothing(change: impl Fn(&Talk, &mut Vec<Packet>), odd: &[Kind]) {
    changes_nothing_of(|_| {}, change, odd);
}

fn changes_nothing_of(
    say: impl Fn(&mut Talk),
    change: impl Fn(&Talk, &mut Vec<Packet>),
    odd: &[Kind],
) {
    for (name, came) in TALKS {
        let mut talk = talk(came);
        let clean = audit(&talk, &capture(&talk, &packets(&talk)));
        assert_eq!(clean.resumes.len(), 1);
        assert!(oddities(&clean).is_empty());
        say(&mut talk);
        let mut changed = packets(&talk);
        change(&talk, &mut changed);
        let got = audit(&talk, &capture(&talk, &changed));
        assert_eq!(resumes(&got), resumes(&clean), "{name}");
        let kinds: Vec<Kind> = oddities(&got).into_keys().collect();
        assert_eq!(kinds, odd, "{name}");
    }
}

/// Sends packets of servers with payload, or all with payload, again or otherwise.
fn data(packets: &[Packet], from: Side) -> Vec<usize> {
    (0..packets.len())
        .filter(|&i| packets[i].from == from && !packets[i].payload.is_empty())
        .collect()
}

fn event(packets: &[Packet], text: &str) -> usize {
    let has = |packet: &Packet| String::from_utf8_lossy(&packet.payload).contains(text);
    packets.iter().position(has).unwrap()
}

fn later(packet: &Packet, micros: i64) -> Packet {
    Packet {
        at: packet.at + micros,
        ip_id: packet.ip_id.wrapping_add(0x4000),
        ..packet.clone()
    }
}

fn in_order(packets: &mut [Packet]) {
    packets.sort_by_key(|packet| packet.at);
}

fn sized(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap()
}

#[test]
fn t01_retransmissions_are_dropped() {
    changes_nothing(
        |_, packets| {
            let again: Vec<Packet> = packets
                .iter()
                .filter(|packet| !packet.payload.is_empty())
                .map(|packet| later(packet, 400))
                .collect();
            packets.extend(again);
            in_order(packets);
        },
        &[],
    );
}

#[test]
fn t02_of_different_copies_the_first_counts_and_it_is_told() {
    changes_nothing(
        |_, packets| {
            let at = event(packets, "id: 3");
            let mut forged = later(&packets[at], 5);
            let text = String::from_utf8_lossy(&forged.payload).replace("id: 3", "id: 9");
            forged.payload = text.into_bytes();
            packets.insert(at + 1, forged);
        },
        &[Kind::OverlapConflict],
    );
}

#[test]
fn t03_sequence_numbers_wrap_on_both_sides() {
    changes_nothing(
        |_, packets| {
            // The clients' wrap already; put the servers' just below.
            for packet in packets {
                let (servers, salt) = match packet.from {
                    Side::Server => (&mut packet.seq, 0xffff_ff00),
                    Side::Client => (&mut packet.ack, 0xffff_ff00),
                };
                if *servers != 0 {
                    *servers = servers.wrapping_add(salt - 1_000_000);
                }
            }
        },
        &[],
    );
}

#[test]
fn t04_a_connection_may_be_met_in_its_middle() {
    changes_nothing(
        |_, packets| {
            packets.drain(..3);
        },
        &[Kind::Midstream],
    );
}

#[test]
fn t05_a_syn_may_come_again() {
    changes_nothing(
        |_, packets| {
            let syns: Vec<Packet> = packets
                .iter()
                .filter(|packet| packet.flags & SYN != 0)
                .map(|packet| later(packet, 1))
                .collect();
            packets.extend(syns);
            in_order(packets);
        },
        &[],
    );
}

#[test]
fn t06_a_port_may_be_used_again() {
    changes_nothing_of(
        |talk| talk.connections[1].client = talk.connections[0].client,
        |_, packets| {
            // The new connection's number lies far from the old one's.
            let second = packets.iter().any(|packet| packet.connection == 1);
            assert!(second);
        },
        &[],
    );
}

#[test]
fn t07_a_reset_outside_the_window_is_listed_and_closes_nothing() {
    changes_nothing(
        |_, packets| {
            let at = event(packets, "id: 1");
            let mut forged = later(&packets[at], -5);
            (forged.flags, forged.payload) = (RST, Vec::new());
            forged.seq = forged.seq.wrapping_add(0x2000_0000);
            packets.insert(at, forged);
        },
        &[Kind::RstOutOfWindow],
    );
}

#[test]
fn t08_bytes_of_a_reset_are_no_http() {
    for (_, came) in TALKS {
        let mut talk = talk(came);
        for step in &mut talk.steps {
            if matches!(step.act, Act::Close(Close::Fin(Side::Server))) {
                step.act = Act::Close(Close::Rst(Side::Server));
            }
        }
        let clean = audit(&talk, &capture(&talk, &packets(&talk)));
        let mut changed = packets(&talk);
        let reset = changed.iter_mut().find(|packet| packet.flags & RST != 0);
        reset.unwrap().payload = b"5\r\nid: 9\r\n".to_vec();
        let got = audit(&talk, &capture(&talk, &changed));
        assert_eq!(resumes(&got), resumes(&clean));
        assert!(oddities(&got).is_empty());
    }
}

#[test]
fn t09_keep_alives_are_neither_data_nor_conflict() {
    changes_nothing(
        |_, packets| {
            let at = event(packets, "id: 2");
            let mut probe = later(&packets[at], 500_000);
            probe.seq = probe.seq.wrapping_add(sized(probe.payload.len()) - 1);
            for payload in [vec![], vec![0]] {
                probe.payload = payload;
                probe.flags = ACK;
                packets.push(probe.clone());
            }
            in_order(packets);
        },
        &[],
    );
}

#[test]
fn t10_a_zero_window_probe_carries_an_ordinary_byte() {
    changes_nothing(
        |_, packets| {
            let at = event(packets, "id: 3");
            let mut probe = packets[at].clone();
            probe.payload.truncate(1);
            packets[at].at += 300;
            packets.insert(at, probe);
        },
        &[],
    );
}

#[test]
fn t11_a_fin_may_come_again_and_a_client_may_half_close() {
    changes_nothing(
        |_, packets| {
            let fins: Vec<Packet> = packets
                .iter()
                .filter(|packet| packet.flags & FIN != 0)
                .map(|packet| later(packet, 3))
                .collect();
            packets.extend(fins);
            in_order(packets);
        },
        &[],
    );
    // The client has said all that it will, and listens on.
    changes_nothing(
        |_, packets| {
            let ask = event(packets, "GET");
            let mut fin = later(&packets[ask], 20);
            fin.seq = fin.seq.wrapping_add(sized(fin.payload.len()));
            (fin.flags, fin.payload) = (FIN | ACK, Vec::new());
            packets.insert(ask + 2, fin);
        },
        &[],
    );
}

#[test]
fn t12_an_acknowledgment_may_be_seen_before_its_data() {
    changes_nothing(
        |_, packets| {
            for at in data(&packets.clone(), Side::Server) {
                let ack = &mut packets[at + 1];
                if ack.from == Side::Client && ack.payload.is_empty() {
                    ack.at -= 15;
                }
            }
            in_order(packets);
        },
        &[],
    );
}

#[test]
fn t13_data_of_the_other_side_is_no_proof_of_loss() {
    changes_nothing(
        |_, packets| {
            // The answer to the first request of all is seen after the next request.
            let at = data(packets, Side::Server)[0];
            packets[at].at = packets[event(packets, "notifications/initialized")].at + 50;
            in_order(packets);
        },
        &[],
    );
}

#[test]
fn t14_acknowledged_bytes_that_are_missing_are_a_hole() {
    let talk = talk(TALKS[0].1);
    let mut changed = packets(&talk);
    changed.remove(event(&changed, "id: 2"));
    let got = audit(&talk, &capture(&talk, &changed));
    assert_eq!(got.inputs[0].holes, 1);
    assert!(oddities(&got).contains_key(&Kind::Hole));
    assert_eq!(got.resumes[0].verdict.name(), "continued");
}

#[test]
fn t15_a_snapshot_length_makes_a_hole_of_known_size() {
    let talk = talk(TALKS[0].1);
    let whole = capture(&talk, &packets(&talk));
    let mut cut = whole[..24].to_vec();
    let (mut rest, mut missing) = (&whole[24..], 0);
    while rest.len() >= 16 {
        let length = sized_back(&rest[8..12]);
        let packet = &rest[16..16 + length];
        // The second event loses its last twenty bytes.
        let lost = if String::from_utf8_lossy(packet).contains("id: 2") {
            20
        } else {
            0
        };
        missing += lost;
        cut.extend(&rest[..8]);
        cut.extend(sized(length - lost).to_le_bytes());
        cut.extend(&rest[12..16 + length - lost]);
        rest = &rest[16 + length..];
    }
    let got = audit(&talk, &cut);
    assert_eq!(got.inputs[0].truncated_packets, 1);
    assert_eq!(got.inputs[0].hole_bytes, missing as u64);
    assert_eq!(got.resumes[0].verdict.name(), "continued");
}

fn sized_back(bytes: &[u8]) -> usize {
    usize::try_from(u32::from_le_bytes(bytes.try_into().unwrap())).unwrap()
}

#[test]
fn t18_every_packet_twice_counts_once() {
    changes_nothing(
        |_, packets| {
            let copies: Vec<Packet> = packets
                .iter()
                .map(|packet| Packet {
                    at: packet.at + 2,
                    ..packet.clone()
                })
                .collect();
            packets.extend(copies);
            in_order(packets);
        },
        &[],
    );
}

#[test]
fn t19_one_side_alone_accuses_nobody() {
    for (name, came) in TALKS {
        for side in [Side::Client, Side::Server] {
            let talk = talk(came);
            let mut half = packets(&talk);
            half.retain(|packet| packet.from == side);
            let got = audit(&talk, &capture(&talk, &half));
            for resume in &got.resumes {
                assert_eq!(resume.verdict.name(), "indeterminate", "{name}, {side:?}");
            }
            // That an id came again with another payload shows on one side as well.
            let whole = audit(&talk, &capture(&talk, &packets(&talk)));
            let known = |code| whole.findings.iter().any(|finding| finding.code == code);
            let made_up = got.findings.iter().find(|finding| !known(finding.code));
            assert!(made_up.is_none(), "{name}, {side:?}: {made_up:?}");
        }
    }
}

#[test]
fn t21_urgent_bytes_are_inline() {
    changes_nothing(
        |_, packets| {
            let at = event(packets, "id: 3");
            packets[at].flags |= URG;
        },
        &[Kind::Urgent],
    );
}

#[test]
fn t22_a_syn_may_carry_data() {
    changes_nothing(
        |_, packets| {
            let first = data(packets, Side::Client)[0];
            packets[0].payload = packets[first].payload.clone();
            packets.remove(first);
        },
        &[],
    );
}

#[test]
fn t23_both_ends_may_open() {
    changes_nothing(
        |_, packets| {
            // SYN, SYN, SYN ACK, SYN ACK (RFC 9293, figure 7).
            let (syn, both) = (packets[0].clone(), packets[1].clone());
            let theirs = Packet {
                flags: SYN,
                ack: 0,
                at: syn.at + 1,
                ..both.clone()
            };
            let ours = Packet {
                flags: SYN | ACK,
                ack: both.seq.wrapping_add(1),
                at: both.at - 5,
                ..syn.clone()
            };
            packets.splice(0..3, [syn, theirs, ours, both]);
        },
        &[],
    );
}

#[test]
fn t24_the_end_of_the_capture_is_no_disconnect() {
    let talk = talk(TALKS[0].1);
    let mut changed = packets(&talk);
    let end = event(&changed, "id: 3");
    changed.truncate(end + 2);
    let got = audit(&talk, &capture(&talk, &changed));
    assert!(got.findings.is_empty(), "{:?}", got.findings);
    let last = got.segments.last().unwrap();
    assert_eq!(last.end_cause.name(), "capture-end");
}

#[test]
fn t25_out_of_order_bytes_are_held_up_to_a_limit() {
    let talk = talk(TALKS[0].1);
    let mut changed = packets(&talk);
    let at = event(&changed, "id: 3");
    // What lies far ahead of a byte that never comes, until nothing more is held.
    let mut ahead = later(&changed[at], 1);
    ahead.payload = vec![b'x'; 1_400];
    for number in 0..4_000 {
        ahead.seq = ahead.seq.wrapping_add(1_401);
        ahead.at = changed[at].at + 1 + number / 100;
        changed.push(ahead.clone());
    }
    in_order(&mut changed);
    let got = audit(&talk, &capture(&talk, &changed));
    assert!(oddities(&got).contains_key(&Kind::OutOfOrderLimit));
    assert!(got.findings.is_empty(), "{:?}", got.findings);
}

#[test]
fn t26_time_may_go_back_and_files_may_overlap() {
    // Within a file, packets lie out of order of time.
    changes_nothing(
        |_, packets| {
            for at in data(&packets.clone(), Side::Server) {
                packets.swap(at, at + 1);
            }
        },
        &[],
    );
    // A run cut into files of two packets each, as dumpcap names them.
    for (name, came) in TALKS {
        let talk = talk(came);
        let all = packets(&talk);
        let clean = audit(&talk, &capture(&talk, &all));
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(&talk);
        for (number, piece) in all.chunks(2).enumerate() {
            let path = folder
                .path()
                .join(format!("run_{number:05}_20260101000000.pcap"));
            fs::write(&path, capture(&talk, piece)).unwrap();
        }
        let folder = folder.path().to_str().unwrap().to_owned();
        options.inputs.push(folder);
        let got = run(&options, &Progress::default()).unwrap();
        assert_eq!(resumes(&got), resumes(&clean), "{name}");
        let codes = |analysis: &Analysis| -> Vec<&'static str> {
            analysis.findings.iter().map(|found| found.code).collect()
        };
        assert_eq!(codes(&got), codes(&clean), "{name}");
        assert!(oddities(&got).is_empty());
    }
    // Of two files, each has every other packet.
    for (name, came) in TALKS {
        let talk = talk(came);
        let all = packets(&talk);
        let clean = audit(&talk, &capture(&talk, &all));
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(&talk);
        for part in [0, 1] {
            let half: Vec<Packet> = all.iter().skip(part).step_by(2).cloned().collect();
            let path = folder.path().join(format!("{part}.pcap"));
            fs::write(&path, capture(&talk, &half)).unwrap();
            options.inputs.push(path.to_str().unwrap().to_owned());
        }
        let got = run(&options, &Progress::default()).unwrap();
        assert_eq!(resumes(&got), resumes(&clean), "{name}");
    }
}

// --- HTTP ---------------------------------------------------------------------------------------

/// Rewrites what is sent; how the conversations are judged stays.
fn rewriting_changes_nothing(rewrite: impl Fn(&Act) -> Option<Vec<u8>>, odd: &[Kind]) {
    changes_nothing_of(
        |talk| {
            let mut rewritten = 0;
            for step in &mut talk.steps {
                let side = step.act.side();
                if let Some(bytes) = rewrite(&step.act) {
                    step.act = Act::Raw(side, bytes);
                    rewritten += 1;
                }
            }
            assert!(rewritten > 0, "nothing was rewritten");
        },
        |_, _| {},
        odd,
    );
}

/// Event streams whose heads have other headers after the session id.
fn stream_head(headers: &str) -> impl Fn(&Act) -> Option<Vec<u8>> {
    move |act| match act {
        Act::Response(response) if matches!(response.body, Body::Chunked) => {
            let session = response
                .headers
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
            let session = session.map_or("", |(_, value)| value);
            Some(
                format!("HTTP/1.1 200 OK\r\nMcp-Session-Id: {session}\r\n{headers}\r\n")
                    .into_bytes(),
            )
        }
        Act::Event(event) => {
            let text = event.text();
            Some(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes())
        }
        _ => None,
    }
}

const STREAM: &str = "Content-Type: text/event-stream\r\n";

#[test]
fn h05_chunked_wins_over_a_length() {
    // A request smuggled past a proxy looks so: the length covers less than the chunks.
    let headers = format!("{STREAM}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n");
    rewriting_changes_nothing(stream_head(&headers), &[Kind::BodyFraming]);
}

#[test]
fn h05_two_equal_lengths_are_one() {
    let twice = |act: &Act| match act {
        Act::Request(request) if request.body.is_some() => {
            let body = request.body.clone().unwrap_or_default();
            let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
            for (name, value) in &request.headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            let length = body.len();
            Some(format!("{head}Content-Length: {length}\r\n\r\n{body}").into_bytes())
        }
        _ => None,
    };
    rewriting_changes_nothing(twice, &[]);
}

#[test]
fn h05_two_different_lengths_are_told() {
    let other = |act: &Act| match act {
        Act::Request(request) if request.body.is_some() => {
            let body = request.body.clone().unwrap_or_default();
            let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
            for (name, value) in &request.headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            Some(format!("{head}Content-Length: 3\r\n\r\n{body}").into_bytes())
        }
        _ => None,
    };
    rewriting_changes_nothing(other, &[Kind::BodyFraming]);
}

#[test]
fn h09_folded_headers_and_bare_line_feeds_are_read_and_told() {
    let folded = format!("{STREAM}X-Long: one\r\n two\r\nTransfer-Encoding: chunked\r\n");
    rewriting_changes_nothing(stream_head(&folded), &[Kind::BadHead]);
    let bare = |act: &Act| {
        let headers = format!("{STREAM}Transfer-Encoding: chunked\r\n");
        let head = stream_head(&headers)(act)?;
        let text = String::from_utf8(head).unwrap();
        if matches!(act, Act::Event(_)) {
            return Some(text.into_bytes());
        }
        Some(text.replace("\r\n", "\n").into_bytes())
    };
    rewriting_changes_nothing(bare, &[Kind::BadHead]);
}

#[test]
fn h14_the_media_type_counts_and_nothing_beside_it() {
    let headers =
        "CONTENT-type: Text/Event-Stream ; charset=UTF-8\r\nTransfer-encoding: Chunked\r\n";
    rewriting_changes_nothing(stream_head(headers), &[]);
}

#[test]
fn h04_chunk_extensions_and_leading_zeros_are_read() {
    let extended = |act: &Act| match act {
        Act::Event(event) => {
            let text = event.text();
            Some(format!("00{:X};a=\"b\"\r\n{text}\r\n", text.len()).into_bytes())
        }
        Act::End => Some(b"000\r\nX-Trailer: 1\r\n\r\n".to_vec()),
        _ => None,
    };
    rewriting_changes_nothing(extended, &[]);
}

#[test]
fn h04_a_huge_chunk_size_loses_its_message_alone() {
    for (_, came) in TALKS {
        let mut talk = talk(came);
        let last = talk
            .steps
            .iter()
            .rposition(|step| matches!(step.act, Act::Event(_)));
        let step = &mut talk.steps[last.unwrap()];
        let side = step.act.side();
        let text = "id: 9\r\ndata: x\r\n\r\n";
        step.act = Act::Raw(side, format!("fffffffffffffffff\r\n{text}").into_bytes());
        let got = audit(&talk, &capture(&talk, &packets(&talk)));
        assert!(oddities(&got).contains_key(&Kind::BadChunk));
        assert_eq!(got.resumes[0].verdict.name(), "indeterminate");
        assert!(got.findings.is_empty(), "{:?}", got.findings);
    }
}

#[test]
fn h02_interim_responses_answer_nothing() {
    let interim = |act: &Act| {
        let headers = format!("{STREAM}Transfer-Encoding: chunked\r\n");
        let head = stream_head(&headers)(act)?;
        if matches!(act, Act::Event(_)) {
            return Some(head);
        }
        let mut all = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".to_vec();
        all.extend(b"HTTP/1.1 100 Continue\r\n\r\n");
        all.extend(head);
        Some(all)
    };
    rewriting_changes_nothing(interim, &[]);
}

#[test]
fn h06_a_stream_without_length_ends_with_its_connection() {
    let plain = |act: &Act| match act {
        Act::Event(event) => Some(event.text().into_bytes()),
        act => stream_head(STREAM)(act),
    };
    for (name, came) in TALKS {
        let mut talk = talk(came);
        let clean = audit(&talk, &capture(&talk, &packets(&talk)));
        for step in &mut talk.steps {
            if matches!(step.act, Act::End) {
                step.act = Act::Close(Close::Fin(Side::Server));
            }
            let side = step.act.side();
            if let Some(bytes) = plain(&step.act) {
                step.act = Act::Raw(side, bytes);
            }
        }
        let got = audit(&talk, &capture(&talk, &packets(&talk)));
        assert_eq!(resumes(&got).len(), 1);
        assert_eq!(got.resumes[0].verdict, clean.resumes[0].verdict, "{name}");
        assert_eq!(got.resumes[0].findings, clean.resumes[0].findings, "{name}");
    }
}

#[test]
fn h10_targets_in_absolute_form_are_the_same_server() {
    let absolute = |act: &Act| match act {
        Act::Request(request) => {
            let mut head = format!(
                "{} http://mcp.example{} HTTP/1.1\r\n",
                request.method, request.path
            );
            for (name, value) in &request.headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            let body = request.body.as_deref().unwrap_or_default();
            Some(format!("{head}\r\n{body}").into_bytes())
        }
        _ => None,
    };
    rewriting_changes_nothing(absolute, &[]);
}

#[test]
fn h16_several_session_headers_are_told_and_the_first_counts() {
    let headers = format!("{STREAM}mcp-session-id: other\r\nTransfer-Encoding: chunked\r\n");
    rewriting_changes_nothing(stream_head(&headers), &[Kind::SessionHeaderRepeated]);
}

/// Every row has a test of its own name, here or beside the code.
#[test]
fn every_row_has_a_named_test() {
    let sources = [
        include_str!("corners.rs"),
        include_str!("../../src/tcp/rules.rs"),
        include_str!("../../src/http/tests.rs"),
        include_str!("links.rs"),
    ];
    for (letter, rows) in [('t', 1..=26), ('h', 1..=17)] {
        for row in rows {
            let names = [
                format!("fn {letter}{row}_"),
                format!("fn {letter}{row:02}_"),
            ];
            let named = |source: &&str| names.iter().any(|name| source.contains(name));
            let within = match (letter, row) {
                ('h', 15 | 17) => "fn h14_to_h17_",
                _ => "",
            };
            let found = sources.iter().any(named)
                || !within.is_empty() && sources.iter().any(|source| source.contains(within));
            assert!(found, "{letter}{row} has no test");
        }
    }
}
