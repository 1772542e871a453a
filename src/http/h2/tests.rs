//! Conversations in HTTP/2 and what is told of them.

#![allow(clippy::indexing_slicing, reason = "a test may panic")]

use super::frame::PREFACE;
use crate::{
    http::tests::{Act, Log, Talk, play, play_cut},
    limits::Limits,
    model::flow::Side,
};
use httlib_hpack::Encoder;
use proptest::prelude::*;

/// The bytes of one direction, as a peer writes them.
struct Peer {
    encoder: Encoder<'static>,
    /// Fields are added to the table.
    indexing: bool,
}

impl Peer {
    fn new() -> Self {
        Self {
            encoder: Encoder::default(),
            indexing: true,
        }
    }

    fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let flags = if self.indexing { 0x17 } else { 0x03 };
        let mut block = Vec::new();
        for (name, value) in fields {
            let field = (name.as_bytes().to_vec(), value.as_bytes().to_vec(), flags);
            self.encoder.encode(field, &mut block).unwrap();
        }
        block
    }

    fn headers(&mut self, stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
        let block = self.block(fields);
        frame(HEADERS, flags | END_HEADERS, stream, &block)
    }

    fn get(&mut self, stream: u32) -> Vec<u8> {
        self.headers(stream, END_STREAM, GET)
    }

    fn post(&mut self, stream: u32) -> Vec<u8> {
        self.headers(stream, 0, POST)
    }

    fn ok(&mut self, stream: u32) -> Vec<u8> {
        self.headers(stream, 0, OK)
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut out = vec![a, b, c, kind, flags];
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

fn data(stream: u32, flags: u8, text: &str) -> Vec<u8> {
    frame(DATA, flags, stream, text.as_bytes())
}

fn rst(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

fn goaway(last: u32) -> Vec<u8> {
    let mut payload = last.to_be_bytes().to_vec();
    payload.extend([0, 0, 0, 0]);
    payload.extend(b"bye");
    frame(GOAWAY, 0, 0, &payload)
}

fn settings() -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100])
}

fn client(pieces: &[Vec<u8>]) -> Act {
    Act::C(pieces.concat())
}

fn server(pieces: &[Vec<u8>]) -> Act {
    Act::S(pieces.concat())
}

fn hello() -> Act {
    client(&[PREFACE.to_vec(), settings()])
}

const GET: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/mcp"),
    (":authority", "h:1"),
    ("accept", "text/event-stream"),
    ("mcp-session-id", "s1"),
];
const POST: &[(&str, &str)] = &[
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/mcp"),
    (":authority", "h:1"),
    ("content-type", "application/json"),
];
const OK: &[(&str, &str)] = &[(":status", "200"), ("content-type", "text/event-stream")];

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITIZED: u8 = 0x20;

/// What is told of one exchange.
fn of(log: &Log, no: u32) -> Vec<&str> {
    let start = format!("{no} ");
    let mine = log
        .lines
        .iter()
        .filter_map(|line| line.strip_prefix(&start));
    mine.map(|line| line.split(" @").next().unwrap()).collect()
}

#[test]
fn tells_interleaved_streams_each_as_an_exchange() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let log = play(&[
        hello(),
        server(&[settings(), frame(SETTINGS, ACK, 0, &[])]),
        client(&[
            c.get(1),
            c.post(3),
            data(3, 0, "{\"a\""),
            data(3, END_STREAM, ":1}"),
        ]),
        server(&[s.ok(1), data(1, 0, "id: 1\n"), s.ok(3), data(3, 0, "x")]),
        server(&[
            data(1, 0, "data: 2\n\n"),
            data(3, END_STREAM, "y"),
            data(1, 0, ""),
        ]),
        server(&[data(1, END_STREAM, "")]),
    ]);
    assert_eq!(
        of(&log, 0),
        [
            "request GET /mcp HTTP/2 3",
            "request_end true",
            "response 200 HTTP/2 1",
            "response_body id: 1\\ndata: 2\\n\\n",
            "response_end Complete 15",
        ]
    );
    assert_eq!(
        of(&log, 1),
        [
            "request POST /mcp HTTP/2 2",
            "request_body {\\\"a\\\":1}",
            "request_end true",
            "response 200 HTTP/2 1",
            "response_body xy",
            "response_end Complete 2",
        ]
    );
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn places_are_those_of_the_frames() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let (get, ok) = (c.get(1), s.ok(1));
    let begin = PREFACE.len() + settings().len();
    let log = play(&[hello(), Act::C(get.clone()), Act::S(ok.clone())]);
    let request = format!(
        "0 request GET /mcp HTTP/2 3 @{}-{}",
        begin + 1,
        begin + get.len()
    );
    assert!(log.has(&request), "{:?}", log.lines);
    assert!(log.has(&format!("0 response 200 HTTP/2 1 @1-{}", ok.len())));
}

#[test]
fn settings_of_the_server_may_be_captured_first() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let log = play(&[
        server(&[settings()]),
        hello(),
        client(&[c.get(1)]),
        server(&[s.ok(1), data(1, END_STREAM, "")]),
    ]);
    assert_eq!(of(&log, 0).len(), 4);
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn frames_that_say_nothing_of_exchanges_are_passed_over() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let log = play(&[
        hello(),
        client(&[
            frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 16]),
            frame(WINDOW_UPDATE, 0, 0, &[0, 1, 0, 0]),
            frame(PING, 0, 0, &[7; 8]),
            c.get(1),
            frame(WINDOW_UPDATE, 0, 1, &[0, 1, 0, 0]),
            // ALTSVC and one that nobody knows.
            frame(0x0a, 0, 0, &[0; 20]),
            frame(0xf3, 0xff, 77, &[1, 2, 3]),
        ]),
        server(&[
            s.ok(1),
            frame(PING, ACK, 0, &[7; 8]),
            data(1, END_STREAM, "x"),
        ]),
    ]);
    assert_eq!(of(&log, 0).len(), 5);
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn padding_and_priority_are_no_content() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let mut block = vec![3, 0x80, 0, 0, 1, 200];
    block.extend(c.block(GET));
    block.extend([0; 3]);
    let flags = END_HEADERS | END_STREAM | PADDED | PRIORITIZED;
    let log = play(&[
        hello(),
        client(&[frame(HEADERS, flags, 1, &block)]),
        server(&[
            s.ok(1),
            frame(DATA, PADDED, 1, b"\x04text\0\0\0\0"),
            frame(DATA, PADDED, 1, b"\x05\0\0\0\0\0"),
            frame(DATA, PADDED | END_STREAM, 1, b"\0!"),
        ]),
    ]);
    assert!(log.has("0 response_body text!"), "{:?}", log.lines);
    assert_eq!(of(&log, 0).last(), Some(&"response_end Complete 5"));
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn more_padding_than_payload_is_told() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let log = play(&[
        hello(),
        client(&[c.get(1)]),
        server(&[
            s.ok(1),
            frame(DATA, PADDED, 1, b"\x09ab"),
            data(1, END_STREAM, "c"),
        ]),
    ]);
    assert!(log.has("0 hole ResponseBody 0") && log.has("0 response_body c"));
    assert_eq!(log.anomalies(), ["bad-frame"]);
}

#[test]
fn a_head_may_come_in_many_frames() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let block = c.block(GET);
    let (a, rest) = block.split_at(2);
    let (b, d) = rest.split_at(5);
    let log = play(&[
        hello(),
        client(&[
            frame(HEADERS, END_STREAM, 1, a),
            frame(CONTINUATION, 0, 1, b),
            frame(CONTINUATION, 0, 1, &[]),
            frame(CONTINUATION, END_HEADERS, 1, d),
        ]),
        server(&[s.ok(1)]),
    ]);
    assert_eq!(
        of(&log, 0)[..2],
        ["request GET /mcp HTTP/2 3", "request_end true"]
    );
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn interim_responses_answer_nothing_and_trailers_end() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let log = play(&[
        hello(),
        client(&[
            c.post(1),
            data(1, 0, "{}"),
            c.headers(1, END_STREAM, &[("x-sum", "1")]),
        ]),
        server(&[
            s.headers(1, 0, &[(":status", "103"), ("link", "x")]),
            s.ok(1),
            data(1, 0, "x"),
            s.headers(1, END_STREAM, &[("grpc-status", "0")]),
        ]),
    ]);
    assert_eq!(
        of(&log, 0),
        [
            "request POST /mcp HTTP/2 2",
            "request_body {}",
            "request_end true",
            "response 200 HTTP/2 1",
            "response_body x",
            "response_end Complete 1",
        ]
    );
}

#[test]
fn what_servers_push_is_left_out_and_its_headers_are_kept_in_step() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let mut promise = 2_u32.to_be_bytes().to_vec();
    promise.extend(s.block(&[(":method", "GET"), (":path", "/style.css"), ("x", "pushed")]));
    let log = play(&[
        hello(),
        client(&[c.get(1)]),
        server(&[
            frame(PUSH_PROMISE, END_HEADERS, 1, &promise),
            s.headers(2, 0, &[(":status", "200"), ("content-type", "text/css")]),
            data(2, END_STREAM, "body {}"),
            s.headers(
                1,
                0,
                &[
                    (":status", "200"),
                    ("content-type", "text/css"),
                    ("x", "pushed"),
                ],
            ),
        ]),
    ]);
    assert!(
        log.has("0 response 200 HTTP/2 2 @76-88") || of(&log, 0).contains(&"response 200 HTTP/2 2")
    );
    assert!(!log.lines.iter().any(|line| line.starts_with("1 ")));
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn authority_stands_for_host_and_connect_has_no_path() {
    let mut c = Peer::new();
    let log = play_cut(
        &[
            hello(),
            client(&[
                c.headers(1, 0, &[(":method", "CONNECT"), (":authority", "h:443")]),
                c.headers(3, END_STREAM, &[(":method", "GET"), (":scheme", "http")]),
            ]),
        ],
        usize::MAX,
    );
    assert_eq!(of(&log, 0)[0], "request CONNECT h:443 HTTP/2 1");
    assert_eq!(log.anomalies(), ["bad-head"]);
}

#[test]
fn a_stream_that_the_client_takes_back_is_still_read() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let log = play(&[
        hello(),
        client(&[c.get(1)]),
        server(&[s.ok(1), data(1, 0, "a")]),
        client(&[rst(1, 8)]),
        server(&[data(1, 0, "b")]),
    ]);
    let told = of(&log, 0);
    assert_eq!(
        told[3..],
        [
            "response_body ab",
            "stream_end ResetByClient",
            "response_end Cut 2"
        ]
    );
}

#[test]
fn a_stream_that_the_server_resets_is_over() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let log = play(&[
        hello(),
        client(&[c.get(1), c.get(3), c.post(5)]),
        server(&[
            s.ok(1),
            data(1, 0, "a"),
            rst(1, 2),
            data(1, 0, "late"),
            rst(3, 7),
        ]),
        // Answered before it was all said (section 8.1).
        server(&[s.ok(5), data(5, END_STREAM, "no"), rst(5, 0)]),
        client(&[data(5, 0, "..."), rst(5, 8)]),
    ]);
    assert_eq!(
        of(&log, 0)[3..],
        [
            "response_body a",
            "stream_end ResetByServer { refused: false }",
            "response_end Cut 1"
        ]
    );
    assert_eq!(
        of(&log, 1)[2..],
        ["stream_end ResetByServer { refused: true }"]
    );
    assert_eq!(
        of(&log, 2)[1..],
        [
            "response 200 HTTP/2 1",
            "response_body no",
            "response_end Complete 2",
            "request_end false",
        ]
    );
}

#[test]
fn what_the_server_leaves_undone_is_told_at_its_goaway() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let log = play(&[
        hello(),
        client(&[c.get(1), c.get(3), c.get(5)]),
        server(&[s.ok(1), goaway(3)]),
        client(&[c.get(7), goaway(0)]),
        server(&[s.ok(3), data(3, END_STREAM, ""), data(1, END_STREAM, "")]),
    ]);
    assert_eq!(of(&log, 0).last(), Some(&"response_end Complete 0"));
    assert_eq!(of(&log, 1).last(), Some(&"response_end Complete 0"));
    assert_eq!(of(&log, 2)[2..], ["stream_end Refused"]);
    assert!(of(&log, 3).contains(&"stream_end Refused"));
    let goaways = log.lines.iter().filter(|line| line.starts_with("goaway"));
    assert_eq!(goaways.count(), 1);
}

#[test]
fn the_end_of_the_connection_ends_all_streams() {
    for (end, how) in [(Act::FinS, "Cut"), (Act::RstS, "Cut")] {
        let (mut c, mut s) = (Peer::new(), Peer::new());
        let log = play(&[
            hello(),
            client(&[c.get(1), c.get(3), c.post(5)]),
            server(&[s.ok(1), s.ok(3), data(3, 0, "a")]),
            end,
        ]);
        assert_eq!(of(&log, 0)[3..], [&format!("response_end {how} 0")]);
        assert_eq!(of(&log, 1)[4..], [&format!("response_end {how} 1")]);
        assert_eq!(of(&log, 2)[1..], ["request_end false"]);
    }
}

#[test]
fn a_response_captured_before_its_request_is_paired() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let log = play(&[
        hello(),
        server(&[s.ok(1), data(1, END_STREAM, "x")]),
        client(&[c.get(1)]),
        server(&[s.ok(3), data(3, END_STREAM, "y")]),
    ]);
    assert_eq!(of(&log, 0).len(), 5);
    assert_eq!(of(&log, 1).len(), 3);
    assert_eq!(log.anomalies(), ["unpaired-response"]);
}

// Upgrades

const UPGRADE: &str = "GET /mcp HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\n\
                       Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";

#[test]
fn an_upgraded_request_is_answered_on_stream_1() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let mut switch = SWITCH.as_bytes().to_vec();
    switch.extend(settings());
    let log = play(&[
        Act::C(UPGRADE.into()),
        Act::S(switch),
        hello(),
        server(&[s.ok(1), data(1, 0, "a")]),
        client(&[c.get(3)]),
        server(&[s.ok(3), data(1, END_STREAM, "b"), data(3, END_STREAM, "c")]),
    ]);
    assert_eq!(
        of(&log, 0),
        [
            "request GET /mcp HTTP/1.1 4",
            "request_end true",
            "response 200 HTTP/2 1",
            "response_body ab",
            "response_end Complete 2",
        ]
    );
    assert_eq!(of(&log, 1).len(), 5);
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn an_upgrade_captured_before_its_request_waits_for_it() {
    let mut s = Peer::new();
    let mut switch = SWITCH.as_bytes().to_vec();
    switch.extend(settings());
    let log = play_cut(
        &[
            Act::S(switch),
            server(&[s.ok(1), data(1, END_STREAM, "a")]),
            Act::C(UPGRADE.into()),
            hello(),
        ],
        usize::MAX,
    );
    assert_eq!(of(&log, 0).last(), Some(&"response_end Complete 1"));
    assert_eq!(log.anomalies(), [""; 0]);
}

// Loss

#[test]
fn a_hole_inside_a_frame_costs_its_bytes_alone() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let body = data(1, 0, "id: 1\ndata: lost\n\n");
    let log = play(&[
        hello(),
        client(&[c.get(1), c.get(3)]),
        server(&[s.ok(1), s.ok(3), body[..12].to_vec()]),
        Act::HoleS(10),
        server(&[
            body[22..].to_vec(),
            data(3, END_STREAM, "whole"),
            data(1, END_STREAM, ""),
        ]),
    ]);
    assert!(log.has("0 hole ResponseBody 10"), "{:?}", log.lines);
    assert_eq!(
        of(&log, 1)[2..],
        [
            "response 200 HTTP/2 1",
            "response_body whole",
            "response_end Complete 5"
        ]
    );
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn a_hole_up_to_a_frames_end_knows_whether_the_stream_ends() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let body = data(1, END_STREAM, "0123456789");
    let log = play(&[
        hello(),
        client(&[c.get(1)]),
        server(&[s.ok(1), body[..10].to_vec()]),
        Act::HoleS(9),
    ]);
    assert_eq!(
        of(&log, 0)[3..],
        [
            "response_body 0",
            "hole ResponseBody 9",
            "response_end Complete 1"
        ]
    );
}

#[test]
fn after_a_hole_over_a_frames_beginning_the_next_is_found() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    s.indexing = false;
    let lost = [data(1, 0, "id: 2\n\n"), data(3, 0, "id: 7\n\n")].concat();
    let log = play(&[
        hello(),
        client(&[c.get(1), c.get(3), c.get(5)]),
        server(&[
            s.ok(1),
            s.ok(3),
            data(1, 0, "id: 1\n\n"),
            lost[..4].to_vec(),
        ]),
        Act::HoleS(20),
        server(&[lost[24..].to_vec(), data(1, 0, "id: 3\n\n"), s.ok(5)]),
        server(&[
            data(5, END_STREAM, "x"),
            data(3, END_STREAM, ""),
            data(1, 0, ""),
        ]),
    ]);
    // Both streams may have lost something; what came before and after is there.
    assert!(log.has("0 hole ResponseBody 0") && log.has("1 hole ResponseBody 0"));
    assert!(
        of(&log, 0).contains(&"response_body id: 3\\n\\n"),
        "{:?}",
        log.lines
    );
    assert_eq!(of(&log, 0).last(), Some(&"response_end Cut 14"));
    assert_eq!(of(&log, 1).last(), Some(&"response_end Complete 0"));
    // A stream whose answer came after the hole has lost nothing.
    assert_eq!(
        of(&log, 2)[2..],
        [
            "response 200 HTTP/2 1",
            "response_body x",
            "response_end Complete 1"
        ]
    );
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn a_stream_that_is_silent_after_a_hole_may_have_ended_in_it() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let log = play(&[
        hello(),
        client(&[c.get(1), c.get(3)]),
        server(&[s.ok(1), data(1, 0, "a")]),
        Act::HoleS(50),
        server(&[frame(PING, 0, 0, &[0; 8])]),
        Act::FinS,
    ]);
    assert_eq!(of(&log, 0).last(), Some(&"response_end Lost 1"));
    assert_eq!(of(&log, 1).last(), Some(&"hole ResponseHead 0"));
}

#[test]
fn a_lost_head_makes_later_ones_unknown_and_never_wrong() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let get = c.get(1);
    let lost = c.headers(
        3,
        END_STREAM,
        &[
            (":method", "GET"),
            (":path", "/other"),
            ("mcp-session-id", "s2"),
        ],
    );
    let log = play(&[
        hello(),
        client(&[get, lost[..12].to_vec()]),
        Act::HoleC(lost.len() as u64 - 12),
        // Refers to what was added before and in the lost head.
        client(&[c.get(5)]),
        client(&[c.headers(
            7,
            END_STREAM,
            &[(":method", "GET"), (":path", "/"), ("x-new", "known")],
        )]),
        client(&[c.headers(
            9,
            END_STREAM,
            &[(":method", "GET"), (":path", "/"), ("x-new", "known")],
        )]),
        server(&[s.ok(1), s.ok(3), s.ok(5), s.ok(7), s.ok(9)]),
    ]);
    let requests: Vec<&String> = log
        .lines
        .iter()
        .filter(|l| l.contains(" request ") && !l.starts_with('!'))
        .collect();
    assert_eq!(requests.len(), 3, "{:?}", log.lines);
    assert!(requests[0].starts_with("0 request GET /mcp"));
    assert!(
        requests[1].contains("request GET / HTTP/2 1")
            && requests[2].contains("request GET / HTTP/2 1")
    );
    // Their responses are there, without a request.
    assert_eq!(
        log.lines
            .iter()
            .filter(|l| l.contains(" response 200"))
            .count(),
        5
    );
    assert_eq!(
        log.anomalies(),
        ["unknown-headers", "unpaired-response", "unpaired-response"]
    );
}

#[test]
fn a_response_known_in_part_is_told_with_a_hole() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let first = s.ok(1);
    let log = play(&[
        hello(),
        client(&[c.get(1), c.get(3)]),
        Act::HoleS(first.len() as u64),
        server(&[s.ok(3), data(3, END_STREAM, "x"), data(1, END_STREAM, "y")]),
    ]);
    assert_eq!(of(&log, 0)[2..], ["hole ResponseHead 0"]);
    assert_eq!(
        of(&log, 1)[2..],
        [
            "response 200 HTTP/2 0",
            "hole ResponseHead 0",
            "response_body x",
            "response_end Complete 1",
        ]
    );
    assert_eq!(log.anomalies(), ["unknown-headers"]);
}

#[test]
fn frames_that_break_the_rules_are_passed_over_as_a_hole() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    c.indexing = false;
    let log = play(&[
        hello(),
        client(&[c.get(1)]),
        // DATA of no stream; a setting of odd length; then frames again.
        client(&[frame(DATA, 0, 0, b"~~~~~~~~"), c.get(3)]),
        client(&[frame(CONTINUATION, END_HEADERS, 3, b"~"), c.get(5)]),
        client(&[
            frame(HEADERS, END_STREAM, 7, b"~"),
            frame(PING, 0, 0, &[1; 8]),
            c.get(9),
        ]),
        server(&[s.ok(1), s.ok(3), s.ok(5), s.ok(7), s.ok(9)]),
    ]);
    for no in [0, 1, 2, 3] {
        assert!(
            of(&log, no)[0].starts_with("request GET /mcp"),
            "{no}: {:?}",
            log.lines
        );
    }
    assert_eq!(
        log.anomalies(),
        ["bad-frame", "bad-frame", "bad-frame", "unpaired-response"]
    );
}

// Connections of which the beginning is missing

fn late(acts: &[Act]) -> (Log, Option<Side>) {
    let mut talk = Talk::new(Limits::default());
    talk.connection.midstream(Side::A);
    talk.connection.midstream(Side::B);
    for act in acts {
        talk.act(act);
    }
    let client = talk.connection.client();
    (talk.finish(), client)
}

#[test]
fn a_connection_joined_late_is_taken_up_at_a_frame() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    // Before the capture.
    let _ = (c.get(101), s.ok(101));
    let (log, side) = late(&[
        server(&[data(101, 0, "id: 1\ndata: x\n\n")]),
        client(&[frame(WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0])]),
        client(&[c.get(103)]),
        server(&[s.ok(103), data(103, 0, "id: 2\ndata: y\n\n")]),
        client(&[c.headers(
            105,
            END_STREAM,
            &[(":method", "GET"), (":path", "/"), ("z", "1")],
        )]),
        server(&[s.headers(105, END_STREAM, &[(":status", "404")])]),
    ]);
    assert_eq!(side, Some(Side::A));
    // The head of 103 refers to what came before; that of 105 does not.
    assert_eq!(
        of(&log, 0)[..2],
        ["response 200 HTTP/2 0", "hole ResponseHead 0"]
    );
    assert_eq!(
        of(&log, 1),
        [
            "request GET / HTTP/2 1",
            "request_end true",
            "response 404 HTTP/2 0",
            "response_end Complete 0",
        ]
    );
    assert!(
        log.lines.iter().any(|line| line == "blank None None"),
        "{:?}",
        log.lines
    );
    assert!(log.anomalies().contains(&"unknown-headers"));
}

#[test]
fn roles_of_a_connection_joined_late_come_from_its_frames() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    for (act, side) in [
        (server(&[s.ok(1)]), Some(Side::A)),
        (client(&[c.get(1)]), Some(Side::A)),
        (Act::C(s.ok(3)), Some(Side::B)),
        (server(&[data(9, 0, "event: message\n")]), Some(Side::A)),
        (server(&[frame(PING, 0, 0, &[0; 8])]), None),
        (
            server(&[b"\0\0\x08\x06\0\0\0\0\x01........".to_vec()]),
            None,
        ),
    ] {
        assert_eq!(late(&[act]).1, side);
    }
}

#[test]
fn a_preface_is_one_wherever_the_capture_began() {
    let mut c = Peer::new();
    let (log, side) = late(&[
        client(&[PREFACE.to_vec(), settings(), c.get(1)]),
        server(&[settings()]),
    ]);
    assert_eq!(side, Some(Side::A));
    assert_eq!(of(&log, 0)[0], "request GET /mcp HTTP/2 3");
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn a_connection_of_which_no_head_can_be_read_says_so() {
    let mut c = Peer::new();
    let _ = c.get(1);
    let (log, _) = late(&[
        server(&[data(1, 0, "data: x\n\n")]),
        client(&[c.headers(3, END_STREAM, GET)]),
    ]);
    assert_eq!(log.anomalies(), ["unknown-headers", "opaque-http2"]);
}

// Limits

fn limited(limits: Limits, acts: &[Act]) -> Log {
    let mut talk = Talk::new(limits);
    for act in acts {
        talk.act(act);
    }
    talk.finish()
}

#[test]
fn a_header_block_beyond_the_limit_is_left_out_and_what_follows_is_read() {
    let limits = Limits {
        head: 200,
        ..Limits::default()
    };
    let mut c = Peer::new();
    let many = vec![frame(CONTINUATION, 0, 3, &[0x20; 50]); 1000].concat();
    let log = limited(
        limits,
        &[
            hello(),
            client(&[c.get(1)]),
            client(&[frame(HEADERS, END_STREAM, 3, &[]), many]),
            client(&[frame(CONTINUATION, END_HEADERS, 3, &[])]),
            client(&[c.headers(5, END_STREAM, &[(":method", "GET"), (":path", "/")])]),
        ],
    );
    assert!(
        of(&log, 1)[0].starts_with("request GET / "),
        "{:?}",
        log.lines
    );
    assert_eq!(log.anomalies(), ["head-limit"]);
}

#[test]
fn few_bytes_that_become_many_headers_are_no_head() {
    let limits = Limits {
        head: 2000,
        headers: 30,
        ..Limits::default()
    };
    let mut c = Peer::new();
    let mut bomb = c.block(&[(":method", "GET"), (":path", "/"), ("x", &"y".repeat(500))]);
    bomb.extend([0xbe; 1000]);
    let log = limited(
        limits,
        &[
            hello(),
            client(&[frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb)]),
            client(&[c.headers(3, END_STREAM, &[(":method", "GET"), (":path", "/")])]),
        ],
    );
    assert!(
        of(&log, 0)[0].starts_with("request GET / "),
        "{:?}",
        log.lines
    );
    assert_eq!(log.anomalies(), ["head-limit"]);
}

#[test]
fn a_table_beyond_the_limit_is_told() {
    let limits = Limits {
        header_table: 100,
        ..Limits::default()
    };
    let mut c = Peer::new();
    let mut block = Vec::new();
    c.encoder
        .update_max_dynamic_size(1 << 20, &mut block)
        .unwrap();
    block.extend(c.block(GET));
    let log = limited(
        limits,
        &[
            hello(),
            client(&[
                frame(HEADERS, END_HEADERS | END_STREAM, 1, &block),
                c.get(3),
            ]),
        ],
    );
    assert_eq!(log.anomalies(), ["header-table-limit", "unknown-headers"]);
}

#[test]
fn more_streams_than_the_limit_let_the_oldest_go() {
    let limits = Limits {
        streams: 2,
        ..Limits::default()
    };
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let log = limited(
        limits,
        &[
            hello(),
            client(&[c.get(1), c.get(3)]),
            server(&[s.ok(1), data(1, 0, "a"), s.ok(3)]),
            client(&[c.get(5)]),
            server(&[data(1, 0, "b"), data(3, END_STREAM, "c"), s.ok(5)]),
        ],
    );
    assert_eq!(
        of(&log, 0)[3..],
        [
            "response_body a",
            "hole ResponseBody 0",
            "response_end Lost 1"
        ]
    );
    assert_eq!(of(&log, 1).last(), Some(&"response_end Complete 1"));
    assert_eq!(log.anomalies(), ["stream-limit"]);
}

#[test]
fn streams_given_up_are_not_kept_for_ever() {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let mut acts = vec![hello()];
    for stream in (1..600).step_by(2) {
        acts.push(client(&[c.get(stream)]));
        acts.push(server(&[s.ok(stream)]));
        acts.push(client(&[rst(stream, 8)]));
    }
    let mut talk = Talk::new(Limits::default());
    for act in &acts {
        talk.act(act);
    }
    let open = talk.connection.h2.as_ref().unwrap().streams.len();
    assert!(open <= 65, "{open}");
    assert_eq!(talk.finish().anomalies(), [""; 0]);
}

// Invariance

/// A conversation of many streams.
fn conversation() -> Vec<Act> {
    let (mut c, mut s) = (Peer::new(), Peer::new());
    let mut acts = vec![hello(), server(&[settings()])];
    for stream in [1, 3, 5, 7, 9] {
        acts.push(client(&[
            c.post(stream),
            data(stream, END_STREAM, "{\"sent\":1}"),
        ]));
        acts.push(server(&[
            s.ok(stream),
            data(stream, 0, "id: 1\ndata: told\n\n"),
        ]));
        if stream > 3 {
            acts.push(server(&[data(
                stream - 4,
                END_STREAM,
                "id: 2\ndata: told\n\n",
            )]));
        }
    }
    acts.push(client(&[rst(7, 8)]));
    acts.push(server(&[goaway(9), data(9, END_STREAM, "")]));
    acts
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cuts_change_nothing(step in 1_usize..60) {
        let whole = play_cut(&conversation(), usize::MAX);
        prop_assert_eq!(&whole.lines, &play_cut(&conversation(), step).lines);
        prop_assert_eq!(whole.anomalies(), [""; 0]);
    }

    /// Whatever is lost, nothing is told that was not said: heads are those that were sent, and bodies are
    /// pieces of them.
    #[test]
    fn a_hole_anywhere_makes_nothing_up(act in 2_usize..16, from in 0_usize..40, length in 1_usize..60) {
        let mut acts = conversation();
        let act = act.min(acts.len() - 1);
        let (is_client, bytes) = match acts[act].clone() {
            Act::C(bytes) => (true, bytes),
            Act::S(bytes) => (false, bytes),
            _ => unreachable!(),
        };
        let from = from.min(bytes.len() - 1);
        let to = (from + length).min(bytes.len());
        let piece = |bytes: &[u8]| if is_client { Act::C(bytes.into()) } else { Act::S(bytes.into()) };
        let hole = (to - from) as u64;
        let hole = if is_client { Act::HoleC(hole) } else { Act::HoleS(hole) };
        acts.splice(act..=act, [piece(&bytes[..from]), hole, piece(&bytes[to..])]);
        let log = play_cut(&acts, usize::MAX);
        for line in &log.lines {
            let Some((_, said)) = line.split_once(' ') else { continue };
            if let Some(head) = said.strip_prefix("request ") {
                prop_assert!(head.starts_with("POST /mcp HTTP/2 2 "), "{}", line);
            } else if let Some(head) = said.strip_prefix("response ") {
                prop_assert!(head.starts_with("200 HTTP/2 "), "{}", line);
            } else if let Some(body) = said.strip_prefix("request_body ") {
                prop_assert!("{\\\"sent\\\":1}".contains(body), "{}", line);
            }
        }
        // Cut as it may be, the same is told, but for times.
        let without_blanks = |log: &Log| {
            let mut lines = log.lines.clone();
            lines.retain(|line| !line.starts_with("blank "));
            lines
        };
        prop_assert_eq!(without_blanks(&log), without_blanks(&play_cut(&acts, 1)));
    }

    /// Any frames are read to their end.
    #[test]
    fn survives_any_frames(frames in proptest::collection::vec((any::<bool>(), 0_u8..12, any::<u8>(), 0_u32..9, proptest::collection::vec(any::<u8>(), 0..60)), 0..40)) {
        let mut acts = vec![hello()];
        for (from_client, kind, flags, stream, payload) in frames {
            let frame = frame(kind, flags, stream, &payload);
            acts.push(if from_client { Act::C(frame) } else { Act::S(frame) });
        }
        let limits = Limits { head: 100, headers: 5, streams: 2, header_table: 100, ..Limits::default() };
        limited(limits, &acts);
        // Times of blanks are those of pieces.
        let told = |step| {
            let mut lines = play_cut(&acts, step).lines;
            lines.retain(|line| !line.starts_with("blank "));
            lines
        };
        prop_assert_eq!(told(usize::MAX), told(1));
    }
}
