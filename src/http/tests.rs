//! Conversations and what is told of them.

#![allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test may panic"
)]

use super::*;
use crate::model::{place::Place, prose::Prose, time::Timestamp};
use proptest::prelude::*;
use std::io::Write;

/// What was told, one line for each call; pieces of one body are joined.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) lines: Vec<String>,
    /// Ends of body pieces: text so far, time, offset.
    pieces: Vec<(String, i64, u64)>,
}

impl Log {
    fn body(&mut self, what: &str, no: ExchangeNo, bytes: &[u8]) {
        let start = format!("{} {what} ", no.0);
        let text = bytes.escape_ascii().to_string();
        match self.lines.iter_mut().rev().find(|line| {
            // The other direction's calls may come between two pieces.
            line.starts_with(&format!("{} ", no.0))
                && (line.contains(&what[..3]) || line.contains(" hole "))
        }) {
            Some(line) if line.starts_with(&start) => line.push_str(&text),
            _ => self.lines.push(start + &text),
        }
    }

    pub(super) fn anomalies(&self) -> Vec<&str> {
        let kinds = self.lines.iter().filter_map(|line| line.strip_prefix("! "));
        kinds.map(|kind| kind.split(' ').next().unwrap()).collect()
    }

    pub(super) fn has(&self, line: &str) -> bool {
        self.lines.iter().any(|have| have == line)
    }
}

impl Sink for Log {
    fn request(&mut self, no: ExchangeNo, head: &RequestHead<'_>, first: At, last: At) {
        let (method, target, count) = (head.method, head.target, head.headers.len());
        self.lines.push(format!(
            "{} request {method} {target} {} {count} @{}-{}",
            no.0,
            head.version.name(),
            first.offset,
            last.offset
        ));
    }
    fn request_body(&mut self, no: ExchangeNo, bytes: &[u8], _: At) {
        self.body("request_body", no, bytes);
    }
    fn request_end(&mut self, no: ExchangeNo, complete: bool, at: At) {
        self.lines
            .push(format!("{} request_end {complete} @{}", no.0, at.offset));
    }
    fn response(&mut self, no: ExchangeNo, head: &ResponseHead<'_>, first: At, last: At) {
        self.lines.push(format!(
            "{} response {} {} {} @{}-{}",
            no.0,
            head.status,
            head.version.name(),
            head.headers.len(),
            first.offset,
            last.offset
        ));
    }
    fn response_body(&mut self, no: ExchangeNo, bytes: &[u8], at: At) {
        self.body("response_body", no, bytes);
        let text = String::from_utf8_lossy(bytes).into_owned();
        self.pieces.push((text, at.time.nanos(), at.offset));
    }
    fn hole(&mut self, no: ExchangeNo, part: Part, bytes: u64, _: At) {
        self.lines.push(format!("{} hole {part:?} {bytes}", no.0));
    }
    fn blank(&mut self, from: Option<Timestamp>, until: Option<Timestamp>) {
        let nanos = |time: Option<Timestamp>| time.map(Timestamp::nanos);
        let (from, until) = (nanos(from), nanos(until));
        self.lines.push(format!("blank {from:?} {until:?}"));
    }
    fn undecodable(&mut self, no: ExchangeNo, _: At) {
        self.lines.push(format!("{} undecodable", no.0));
    }
    fn response_end(&mut self, no: ExchangeNo, how: BodyEnd, wire: u64, at: At) {
        self.lines.push(format!(
            "{} response_end {how:?} {wire} @{}",
            no.0, at.offset
        ));
    }
    fn stream_end(&mut self, no: ExchangeNo, how: StreamEnd, at: At) {
        self.lines
            .push(format!("{} stream_end {how:?} @{}", no.0, at.offset));
    }
    fn goaway(&mut self, at: At) {
        self.lines.push(format!("goaway @{}", at.offset));
    }
    fn anomaly(&mut self, kind: Kind, _: At, detail: Prose) {
        self.lines.push(format!("! {} {detail}", kind.name()));
    }
}

/// One thing that happens on a connection; `C` is side A, the client.
#[derive(Clone, Debug)]
pub(super) enum Act {
    C(Vec<u8>),
    S(Vec<u8>),
    HoleC(u64),
    HoleS(u64),
    FinC,
    FinS,
    RstC,
    RstS,
}
use Act::{FinC, FinS, HoleC, HoleS, RstC, RstS};

fn c(text: &str) -> Act {
    Act::C(text.as_bytes().to_vec())
}

fn s(text: &str) -> Act {
    Act::S(text.as_bytes().to_vec())
}

pub(super) struct Talk {
    pub(super) connection: Connection,
    log: Log,
    time: i64,
    offsets: [u64; 2],
}

impl Talk {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            connection: Connection::new(limits),
            log: Log::default(),
            time: 0,
            offsets: [0, 0],
        }
    }

    pub(super) fn act(&mut self, act: &Act) {
        self.time += 1;
        self.act_at(act, self.time);
    }

    fn act_at(&mut self, act: &Act, time: i64) {
        let (side, length) = match act {
            Act::C(bytes) => (Side::A, bytes.len() as u64),
            Act::S(bytes) => (Side::B, bytes.len() as u64),
            HoleC(bytes) => (Side::A, *bytes),
            HoleS(bytes) => (Side::B, *bytes),
            FinC | RstC => (Side::A, 0),
            FinS | RstS => (Side::B, 0),
        };
        self.offsets[side.index()] += length;
        let at = At {
            time: Timestamp::from_nanos(time),
            place: Place::default(),
            offset: self.offsets[side.index()],
        };
        let (connection, log) = (&mut self.connection, &mut self.log);
        match act {
            Act::C(bytes) | Act::S(bytes) => connection.data(side, bytes, at, log),
            HoleC(bytes) | HoleS(bytes) => connection.hole(side, *bytes, at, log),
            FinC | FinS => connection.fin(side, at, log),
            RstC | RstS => connection.rst(side, at, log),
        }
    }

    pub(super) fn finish(mut self) -> Log {
        let at = At {
            time: Timestamp::from_nanos(self.time + 1),
            ..At::default()
        };
        self.connection.finish(at, &mut self.log);
        self.log
    }
}

/// Plays `acts` as they are, and cut into single bytes, which must tell the same.
pub(super) fn play(acts: &[Act]) -> Log {
    let whole = play_cut(acts, usize::MAX);
    assert_eq!(whole.lines, play_cut(acts, 1).lines);
    whole
}

pub(super) fn play_cut(acts: &[Act], step: usize) -> Log {
    let mut talk = Talk::new(Limits::default());
    for act in acts {
        match act {
            Act::C(bytes) => bytes.chunks(step).for_each(|b| talk.act(&Act::C(b.into()))),
            Act::S(bytes) => bytes.chunks(step).for_each(|b| talk.act(&Act::S(b.into()))),
            act => talk.act(act),
        }
    }
    talk.finish()
}

const GET: &str = "GET /mcp HTTP/1.1\r\nHost: h\r\n\r\n";
const OK5: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const SSE: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn tells_a_request_and_its_response() {
    let log = play(&[
        c("POST /mcp HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"),
        s(OK5),
    ]);
    assert_eq!(
        log.lines,
        [
            "0 request POST /mcp HTTP/1.1 1 @1-41",
            "0 request_body {}",
            "0 request_end true @43",
            "0 response 200 HTTP/1.1 1 @1-38",
            "0 response_body hello",
            "0 response_end Complete 5 @43",
        ]
    );
}

#[test]
fn h1_pipelined_responses_belong_to_requests_in_order() {
    let log = play(&[c(&GET.repeat(3)), s(&OK5.repeat(2)), s(OK5)]);
    for no in 0..3 {
        assert!(log.has(&format!("{no} response_body hello")));
    }
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn h1_a_gap_among_pipelined_requests_breaks_the_pairing_until_it_is_quiet() {
    let log = play_cut(
        &[
            c(&GET.repeat(2)),
            HoleC(30),
            c(&GET.repeat(2)),
            s(&OK5.repeat(5)),
            c("GET /quiet HTTP/1.1\r\n\r\n"),
            s("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"),
        ],
        usize::MAX,
    );
    assert!(log.has("0 response_body hello") && log.has("1 response_body hello"));
    assert!(log.has("2 hole ResponseHead 0") && log.has("3 hole ResponseHead 0"));
    assert!(!log.lines.iter().any(|line| line.starts_with("2 response")));
    assert_eq!(log.anomalies(), ["unpaired-response"; 3]);
    let quiet = log.lines.iter().find(|line| line.contains("/quiet"));
    let no = quiet.unwrap().split(' ').next().unwrap();
    let answer = format!("{no} response 201");
    assert!(log.lines.iter().any(|line| line.starts_with(&answer)));
}

#[test]
fn h2_interim_responses_answer_nothing() {
    let log = play(&[
        c(GET),
        s("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
        s(OK5),
    ]);
    assert_eq!(log.lines.len(), 5);
    assert!(log.has("0 response_body hello"));
}

#[test]
fn h11_after_switching_protocols_nothing_is_read() {
    let log = play(&[
        c("GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"),
        s("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x01\x02"),
        c(GET),
        s(OK5),
    ]);
    assert_eq!(log.lines.len(), 2);
    let log = play(&[
        c("CONNECT h:443 HTTP/1.1\r\n\r\n"),
        s("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n\x16\x03"),
        c("\x16\x03"),
    ]);
    assert!(log.lines[2].starts_with("0 response 200"));
    assert!(log.lines[3].starts_with("0 response_end Complete 0"));
    assert_eq!(log.lines.len(), 4);
}

#[test]
fn h3_some_responses_have_no_body() {
    let log = play(&[
        c("HEAD / HTTP/1.1\r\n\r\n"),
        s("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        c(GET),
        s("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"),
        c(GET),
        s("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"),
        c(GET),
        s("HTTP/1.1 205 Reset Content\r\n\r\n"),
        c(GET),
        s(OK5),
    ]);
    assert!(log.has("4 response_body hello"));
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn h4_chunks_with_extensions_and_trailers_end_with_the_last_chunk() {
    let log = play(&[
        c(GET),
        s(SSE),
        s("00a;x=y\r\ndata: 1\n\n\n\r\nA\r\ndata: 2\n\n\n\r\n"),
        s("0\r\nX: y\r\n\r\n"),
    ]);
    assert!(log.has("0 response_body data: 1\\n\\n\\ndata: 2\\n\\n\\n"));
    assert!(log.lines[4].starts_with("0 response_end Complete 20 @"));
}

#[test]
fn h5_contradicting_lengths_are_anomalies() {
    let log = play(&[
        c(GET),
        s(
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        ),
        c(GET),
        s("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nhello"),
        c(GET),
        s("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nrest"),
        FinS,
    ]);
    assert_eq!(log.anomalies(), ["body-framing"; 3]);
    assert!(log.has("0 response_body a") && log.has("1 response_body hello"));
    assert!(
        log.lines
            .last()
            .unwrap()
            .starts_with("2 response_end CloseDelimited 4")
    );
}

#[test]
fn h6_a_body_without_length_ends_with_the_servers_fin() {
    let head = "HTTP/1.0 200 OK\r\n\r\n";
    for (end, how) in [
        (Some(FinS), "CloseDelimited"),
        (Some(RstS), "Cut"),
        (Some(RstC), "Cut"),
        (None, "Cut"),
    ] {
        let acts: Vec<Act> = [c(GET), s(head), s("abc")].into_iter().chain(end).collect();
        let log = play(&acts);
        assert!(log.has("0 response_body abc"));
        let last = log.lines.last().unwrap();
        assert!(
            last.starts_with(&format!("0 response_end {how} 3")),
            "{last}"
        );
    }
}

#[test]
fn h7_a_missing_last_chunk_is_a_cut() {
    let log = play(&[c(GET), s(SSE), s("3\r\nabc\r\n"), FinS]);
    assert!(
        log.lines
            .last()
            .unwrap()
            .starts_with("0 response_end Cut 3")
    );
    let log = play(&[c(GET), s(SSE), s("3\r\nabc\r\n\r\n"), FinS]);
    assert_eq!(log.anomalies(), ["bad-chunk"]);
    assert!(
        log.lines
            .last()
            .unwrap()
            .starts_with("0 response_end Lost 3")
    );
}

#[test]
fn h8_a_coded_event_has_the_time_of_the_byte_that_completed_it() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut talk = Talk::new(Limits::default());
    talk.act(&c(GET));
    let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n";
    talk.act(&s(head));
    let mut done = 0;
    let mut ends = Vec::new();
    for event in ["data: one\n\n", "data: two\n\n"] {
        encoder.write_all(event.as_bytes()).unwrap();
        encoder.flush().unwrap();
        let coded = encoder.get_ref()[done..].to_vec();
        done += coded.len();
        let mut chunk = format!("{:x}\r\n", coded.len()).into_bytes();
        chunk.extend_from_slice(&coded);
        let (head, tail) = chunk.split_at(chunk.len() - 7);
        talk.act(&Act::S(head.into()));
        talk.act(&Act::S(tail.into()));
        ends.push((talk.time, talk.offsets[1]));
        talk.act(&s("\r\n"));
    }
    let log = talk.finish();
    let mut text = String::new();
    for (piece, time, offset) in &log.pieces {
        text += piece;
        for (event, end) in ["data: one\n\n", "data: one\n\ndata: two\n\n"]
            .iter()
            .zip(&ends)
        {
            if text == **event {
                // The sync marker's last bytes may come after the event's.
                assert!(*time <= end.0 && *offset <= end.1 && *time >= end.0 - 1);
            }
        }
    }
    assert_eq!(text, "data: one\n\ndata: two\n\n");
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn h9_lenient_heads_are_read_and_flagged() {
    let log = play(&[
        c("\r\n\r\nGET / HTTP/1.1\r\nA : b\r\nC: d\r\n  e\r\n\r\n"),
        s("HTTP/1.1 200\r\nX: y\r\n z\r\nContent-Length: 0\r\n\r\n"),
        c("GET / HTTP/1.1\nA: b\n\n"),
        s("ICY 200 OK\r\nContent-Length: 0\r\n\r\n"),
        c(GET),
        s("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"),
    ]);
    assert!(log.has("0 request GET / HTTP/1.1 2 @5-40"), "{log:?}");
    assert!(
        log.lines
            .iter()
            .any(|line| line.starts_with("0 response 200 HTTP/1.1 2"))
    );
    assert!(
        log.lines
            .iter()
            .any(|line| line.starts_with("1 response 200 HTTP/1.0 1"))
    );
    assert_eq!(log.anomalies(), ["bad-head"; 5]);
}

#[test]
fn h9_folded_values_are_joined() {
    let read = |bytes: &[u8]| {
        head::request(bytes, 10, |head, _| {
            let pairs = head.headers.iter();
            pairs
                .map(|(name, value)| format!("{name}={}", value.escape_ascii()))
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(
        read(b"GET / HTTP/1.1\r\nA \t: \xff b \r\n\t c\r\nno colon\r\nD:\r\n\r\n"),
        Ok(vec!["A=\\xff b c".into(), "D=".into()])
    );
}

#[test]
fn h10_all_forms_of_target_are_taken() {
    for target in ["http://h:1/x?y", "*", "h:443", "/a%20b"] {
        let log = play(&[c(&format!("OPTIONS {target} HTTP/1.1\r\n\r\n"))]);
        assert!(log.lines[0].starts_with(&format!("0 request OPTIONS {target} HTTP/1.1")));
        assert_eq!(log.anomalies(), [""; 0]);
    }
}

#[test]
fn h12_an_early_response_is_paired_and_flagged() {
    let log = play(&[
        c("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc"),
        s("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"),
        c("defghij"),
        c(GET),
        s(OK5),
    ]);
    assert_eq!(log.anomalies(), ["early-response"]);
    assert!(log.has("0 request_body abcdefghij") && log.has("1 response_body hello"));
}

#[test]
fn h13_after_a_lost_head_the_next_message_is_found() {
    let log = play_cut(
        &[
            c(GET),
            s(&OK5[..20]),
            HoleS(10),
            s("th: 5\r\n\r\nhello"),
            c(GET),
            s(OK5),
        ],
        usize::MAX,
    );
    assert!(log.has("0 hole ResponseHead 10"));
    assert!(log.has("1 response_body hello") && !log.has("0 response_body hello"));
}

#[test]
fn h13_a_hole_in_a_body_of_known_length_is_skipped_exactly() {
    let log = play_cut(
        &[
            c("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nab"),
            HoleC(3),
            c("fghij"),
            s("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nab"),
            HoleS(2),
            s("ef"),
            c(GET),
            s("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nab"),
            HoleS(4),
            c(GET),
            s(OK5),
        ],
        usize::MAX,
    );
    assert!(log.has("0 hole Request 3") && log.has("0 hole ResponseBody 2"));
    assert!(
        log.lines
            .iter()
            .any(|line| line.starts_with("0 request_end false"))
    );
    assert!(
        log.lines
            .iter()
            .any(|line| line.starts_with("0 response_end Complete 4"))
    );
    assert!(log.has("1 hole ResponseBody 4") && log.has("2 response_body hello"));
}

#[test]
fn h13_a_hole_inside_a_chunk_is_skipped_exactly() {
    let log = play_cut(
        &[
            c(GET),
            s(SSE),
            s("8\r\nab"),
            HoleS(4),
            s("gh\r\n1\r\ni\r\n0\r\n\r\n"),
        ],
        usize::MAX,
    );
    assert!(log.has("0 hole ResponseBody 4") && log.has("0 response_body ghi"));
    assert!(
        log.lines
            .last()
            .unwrap()
            .starts_with("0 response_end Complete 5")
    );
}

#[test]
fn h13_lost_chunk_framing_is_found_again_at_a_segments_start() {
    let lost = [c(GET), s(SSE), s("2\r\nab"), HoleS(4), s("xyz\r\n")];
    // One slice that ends with its chunk.
    let mut acts = lost.to_vec();
    acts.extend([s("3\r\ncde\r\n"), s("0\r\n\r\n")]);
    let log = play_cut(&acts, usize::MAX);
    assert!(log.has("0 response_body ab") && log.has("0 response_body cde"));
    assert!(
        log.lines
            .last()
            .unwrap()
            .starts_with("0 response_end Complete 5")
    );
    // A chunk that spans slices is believed at its end.
    let mut acts = lost.to_vec();
    acts.extend([s("8\r\nabcd"), s("efgh"), s("\r\n1\r\ni\r\n")]);
    let log = play_cut(&acts, usize::MAX);
    assert!(log.has("0 response_body abcdefghi"));
    assert!(
        log.lines
            .last()
            .unwrap()
            .starts_with("0 response_end Cut 11")
    );
    // What only looks like a chunk is not delivered.
    let mut acts = lost.to_vec();
    acts.extend([s("8\r\nabcd"), s("efghijk"), s("1\r\ni\r\n")]);
    let log = play_cut(&acts, usize::MAX);
    assert!(!log.lines.iter().any(|line| line.contains("abcd")));
    assert!(log.has("0 response_body i"));
}

#[test]
fn h13_a_new_response_ends_a_body_whose_framing_is_lost() {
    let log = play_cut(
        &[
            c(GET),
            s(SSE),
            s("2\r\nab\r\n"),
            HoleS(9),
            c(GET),
            s("zzz"),
            s(OK5),
        ],
        usize::MAX,
    );
    assert!(
        log.lines
            .iter()
            .any(|line| line.starts_with("0 response_end Lost 2"))
    );
    assert!(log.has("1 response_body hello"));
}

#[test]
fn h13_bodies_with_a_coding_are_lost_after_a_hole() {
    let log = play_cut(
        &[
            c(GET),
            s("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\n\x1f"),
            HoleS(4),
            s("abcd"),
        ],
        usize::MAX,
    );
    assert!(log.has("0 hole ResponseBody 4") && log.has("0 undecodable"));
    assert!(
        log.lines
            .last()
            .unwrap()
            .starts_with("0 response_end Complete 5")
    );
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn h14_to_h17_headers_reach_the_sink_as_sent() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-TYPE: Text/Event-Stream; charset=utf-8\r\nMcp-Session-Id:  a \r\nmcp-session-id: b\xe9\r\nMcp-Session-Id:\r\n\r\n";
    let headers = head::response(bytes, 10, |head, odd| {
        assert_eq!(odd, None);
        let own = |(name, value): &(&str, &[u8])| ((*name).to_string(), value.to_vec());
        head.headers.iter().map(own).collect::<Vec<_>>()
    })
    .unwrap();
    let expected: [(&str, &[u8]); 4] = [
        ("Content-TYPE", b"Text/Event-Stream; charset=utf-8"),
        ("Mcp-Session-Id", b"a"),
        ("mcp-session-id", b"b\xe9"),
        ("Mcp-Session-Id", b""),
    ];
    for (have, want) in headers.iter().zip(expected) {
        assert_eq!((have.0.as_str(), have.1.as_slice()), want);
    }
    assert_eq!(headers.len(), 4);
}

#[test]
fn a_response_seen_before_its_request_waits_for_it() {
    let log = play(&[s(OK5), c(GET), c(GET), s(OK5)]);
    assert!(log.has("0 response_body hello") && log.has("1 response_body hello"));
    assert_eq!(log.anomalies(), [""; 0]);
    let log = play(&[
        c(GET),
        s(OK5),
        s(SSE),
        s("1\r\na\r\n0\r\n\r\n"),
        s(OK5),
        c(GET),
        c(GET),
    ]);
    assert!(log.has("1 response_body a") && log.has("2 response_body hello"));
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn a_response_whose_request_never_comes_stands_alone() {
    for end in [FinC, RstC, FinS] {
        let log = play(&[c(GET), s(OK5), s(OK5), end]);
        assert_eq!(log.anomalies(), ["unpaired-response"]);
        assert!(log.has("1 response_body hello"));
    }
}

#[test]
fn a_response_in_the_gap_of_its_request_stands_alone_and_pairing_goes_on() {
    // The second request is lost; the hole is told when later bytes of the client come.
    let mut talk = Talk::new(Limits::default());
    for (act, time) in [
        (c(GET), 1),
        (s(OK5), 2),
        (s("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"), 4),
        (s(OK5), 6),
        (HoleC(40), 5),
        (c(GET), 5),
        (c(GET), 7),
        (s("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"), 8),
    ] {
        talk.act_at(&act, time);
    }
    let log = talk.finish();
    assert_eq!(log.anomalies(), ["unpaired-response"]);
    let of = |no: u32, status: &str| {
        let start = format!("{no} response {status}");
        log.lines.iter().any(|line| line.starts_with(&start))
    };
    assert!(of(2, "202") && of(1, "200") && of(3, "404"), "{log:?}");
    assert!(log.has("2 hole Request 40"));
}

/// Where exchanges may be missing altogether.
fn blanks(acts: &[(Act, i64)]) -> Vec<String> {
    let mut talk = Talk::new(Limits::default());
    for (act, time) in acts {
        talk.act_at(act, *time);
    }
    let mut lines = talk.finish().lines;
    lines.retain(|line| line.starts_with("blank"));
    lines
}

#[test]
fn where_both_a_request_and_its_response_are_missing_an_exchange_may_be() {
    let before = [(c(GET), 1), (s(OK5), 2)];
    let between = [(HoleC(40), 5), (c(GET), 5), (HoleS(50), 6), (s(OK5), 6)];
    let both = [&before[..], &between].concat();
    assert_eq!(blanks(&both), ["blank Some(1) Some(6)"]);
    // To the end of the connection, where nothing comes after it.
    let at_the_end = [(HoleC(40), 5), (FinC, 5), (HoleS(50), 6), (FinS, 6)];
    let last = [&before[..], &at_the_end].concat();
    assert_eq!(blanks(&last), ["blank Some(1) None"]);
    // Before the first that is seen, and instead of it.
    assert_eq!(blanks(&between), ["blank None Some(6)"]);
    let nothing = [(HoleC(40), 1), (HoleS(90), 2), (s("5\r\nhello\r\n"), 3)];
    assert_eq!(blanks(&nothing), ["blank None None"]);
}

#[test]
fn where_one_of_them_is_seen_or_nothing_is_missing_no_exchange_hides() {
    let before = [(c(GET), 1), (s(OK5), 2)];
    let response = [(c(GET), 5), (HoleS(50), 6), (c(GET), 7), (s(OK5), 8)];
    assert_eq!(blanks(&[&before[..], &response].concat()), [""; 0]);
    let request = [(HoleC(40), 5), (c(GET), 5), (s(OK5), 6)];
    assert_eq!(blanks(&[&before[..], &request].concat()), [""; 0]);
    // Another protocol was seen whole.
    let other = [(c("EHLO mail\r\n"), 1), (s("250 hello\r\n"), 2)];
    assert_eq!(blanks(&other), [""; 0]);
}

#[test]
fn a_lost_response_does_not_shift_the_others() {
    let log = play_cut(
        &[
            c(GET),
            s(OK5),
            c(GET),
            HoleS(OK5.len() as u64),
            c(GET),
            s("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
        ],
        usize::MAX,
    );
    assert!(log.has("1 hole ResponseHead 43"));
    assert!(
        log.lines
            .iter()
            .any(|line| line.starts_with("2 response 404"))
    );
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn of_a_connection_seen_from_its_middle_the_first_response_stands_alone() {
    let mut talk = Talk::new(Limits::default());
    talk.connection.midstream(Side::A);
    talk.connection.midstream(Side::B);
    for act in [s(OK5), c(GET), s("HTTP/1.1 404 No\r\n\r\n")] {
        talk.act(&act);
    }
    let log = talk.finish();
    assert_eq!(log.anomalies(), ["unpaired-response"]);
    assert!(
        log.lines
            .iter()
            .any(|line| line.starts_with("1 response 404"))
    );
}

#[test]
fn a_connection_seen_from_the_middle_of_a_body_is_taken_up() {
    let log = play_cut(
        &[
            s("data: middle of a stream\n\n"),
            s("1a\r\ndata"),
            c(GET),
            s(OK5),
        ],
        usize::MAX,
    );
    assert!(log.has("0 response_body hello"));
    assert_eq!(log.anomalies(), [""; 0]);
}

#[test]
fn roles_come_from_what_is_said() {
    let mut connection = Connection::new(Limits::default());
    let mut log = Log::default();
    assert_eq!(connection.protocol(), Protocol::Undecided);
    connection.data(Side::B, b"PO", At::default(), &mut log);
    assert_eq!(connection.protocol(), Protocol::Undecided);
    connection.data(Side::B, b"ST / HTTP/1.1\r\n", At::default(), &mut log);
    assert_eq!(connection.protocol(), Protocol::Http);
    assert_eq!(connection.client(), Some(Side::B));
    let mut connection = Connection::new(Limits::default());
    connection.data(Side::B, b"HTTP/1.1 200 OK\r\n", At::default(), &mut log);
    assert_eq!(connection.client(), Some(Side::A));
}

#[test]
fn other_protocols_are_left_alone() {
    for (bytes, protocol) in [
        (&b"\x16\x03\x01\x02\x00"[..], Protocol::Tls),
        (b"SSH-2.0-x\r\n", Protocol::Other),
        (b"\x00\x01\x02", Protocol::Other),
        (b"EHLO mail\r\n", Protocol::Other),
        (b"hello world, no protocol at all\r\n", Protocol::Other),
    ] {
        for step in [1, 100] {
            let mut connection = Connection::new(Limits::default());
            let mut log = Log::default();
            for piece in bytes.chunks(step) {
                connection.data(Side::A, piece, At::default(), &mut log);
            }
            assert_eq!(connection.protocol(), protocol, "{bytes:?}");
        }
    }
}

#[test]
fn what_is_kept_before_the_roles_are_known_is_bounded() {
    let mut connection = Connection::new(Limits::default());
    let mut log = Log::default();
    for _ in 0..100_000 {
        connection.data(Side::A, b"\r\n", At::default(), &mut log);
    }
    assert!(connection.openings[0].bytes.len() <= MAX_OPENING + 2);
    assert_eq!(connection.protocol(), Protocol::Other);
    connection.data(Side::A, GET.as_bytes(), At::default(), &mut log);
    assert_eq!(connection.client(), Some(Side::A));
}

#[test]
fn a_hole_in_a_close_delimited_body_leaves_its_end_certain() {
    let acts = [
        c(GET),
        s("HTTP/1.0 200 OK\r\n\r\nab"),
        HoleS(3),
        s("c"),
        FinS,
    ];
    let log = play_cut(&acts, usize::MAX);
    assert!(log.has("0 hole ResponseBody 3"));
    let last = log.lines.last().unwrap();
    assert!(last.starts_with("0 response_end CloseDelimited 3"));
}

#[test]
fn false_roles_are_given_up() {
    let mut connection = Connection::new(Limits::default());
    let mut log = Log::default();
    connection.midstream(Side::B);
    connection.data(
        Side::B,
        b"GET x HTTP/1.1 in a text\r\n\r\n",
        At::default(),
        &mut log,
    );
    assert_eq!(connection.client(), None);
    connection.data(Side::A, GET.as_bytes(), At::default(), &mut log);
    assert_eq!(connection.client(), Some(Side::A));
}

#[test]
fn bytes_after_a_clients_reset_are_still_read() {
    let log = play(&[c(GET), s(SSE), s("1\r\na\r\n"), RstC, s("1\r\nb\r\n")]);
    assert!(log.has("0 response_body ab"));
    assert!(
        log.lines
            .last()
            .unwrap()
            .starts_with("0 response_end Cut 2")
    );
}

#[test]
fn heads_and_headers_beyond_the_limit_are_skipped() {
    let limits = Limits {
        head: 1000,
        headers: 70,
        ..Limits::default()
    };
    let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(2000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(71));
    for head in [long, many] {
        let mut talk = Talk::new(limits);
        talk.act(&c(GET));
        talk.act(&s(OK5));
        talk.act(&c(&head));
        talk.act(&c(GET));
        talk.act(&s(OK5));
        let log = talk.finish();
        assert_eq!(log.anomalies(), ["head-limit"]);
        assert!(log.has("1 response_body hello"), "{log:?}");
    }
    let fits = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(70));
    let mut talk = Talk::new(limits);
    talk.act(&c(&fits));
    assert!(talk.finish().lines[0].starts_with("0 request GET / HTTP/1.1 70"));
}

#[test]
fn held_responses_and_waiting_requests_are_bounded() {
    let limits = Limits {
        early_response: 10_000,
        pipelined: 10,
        ..Limits::default()
    };
    let mut talk = Talk::new(limits);
    for _ in 0..1000 {
        talk.act(&s(OK5));
        assert!(talk.connection.held_bytes <= 10_200);
    }
    assert_eq!(talk.log.anomalies().len(), 1000);
    let mut talk = Talk::new(limits);
    for _ in 0..30 {
        talk.act(&c(GET));
    }
    let log = talk.finish();
    assert_eq!(log.anomalies(), ["unpaired-response"; 20]);
}

#[test]
fn unknown_codings_are_told_once() {
    let log = play(&[
        c(GET),
        s("HTTP/1.1 200 OK\r\nContent-Encoding: compress\r\nContent-Length: 5\r\n\r\nhello"),
    ]);
    assert_eq!(log.anomalies(), ["undecodable-body"]);
    assert!(log.has("0 undecodable"));
    assert!(
        log.lines
            .last()
            .unwrap()
            .starts_with("0 response_end Complete 5")
    );
}

#[test]
fn coded_requests_are_decoded() {
    let body = zstd::stream::encode_all(&b"{\"a\":1}"[..], 3).unwrap();
    let mut bytes = format!(
        "POST / HTTP/1.1\r\nContent-Encoding: zstd\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend(body);
    let log = play(&[Act::C(bytes)]);
    assert!(log.lines[1].starts_with("0 request_body {") && log.lines[1].ends_with("1}"));
}

/// A small conversation with all kinds of body.
fn conversation() -> Vec<Act> {
    vec![
        c("POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n{first}"),
        s(SSE),
        s("10\r\nid: 1\ndata: a1\n\n\r\n"),
        s("10\r\nid: 2\ndata: a2\n\n\r\n10\r\nid: 3\ndata: a3\n\n\r\n"),
        s("0\r\n\r\n"),
        c("POST /mcp HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{second}\r\n0\r\n\r\n"),
        s("HTTP/1.1 202 Accepted\r\nContent-Length: 6\r\n\r\nsecond"),
        c("GET /mcp HTTP/1.1\r\nLast-Event-ID: 3\r\n\r\n"),
        s("HTTP/1.1 200 OK\r\n\r\n"),
        s("id: 4\ndata: a4\n\n"),
        FinS,
    ]
}

/// The bodies that were sent, by exchange and part.
const SENT: [(&str, &str); 5] = [
    ("0 request_body ", "{first}"),
    (
        "0 response_body ",
        "id: 1\\ndata: a1\\n\\nid: 2\\ndata: a2\\n\\nid: 3\\ndata: a3\\n\\n",
    ),
    ("1 request_body ", "{second}"),
    ("1 response_body ", "second"),
    ("2 response_body ", "id: 4\\ndata: a4\\n\\n"),
];

#[test]
fn a_hole_anywhere_makes_nothing_up() {
    let acts = conversation();
    let whole = play(&acts);
    assert_eq!(whole.anomalies(), [""; 0]);
    for (line, body) in SENT {
        assert!(whole.has(&format!("{line}{body}")), "{line}");
    }
    for index in 0..acts.len() {
        let length = match &acts[index] {
            Act::C(bytes) | Act::S(bytes) => bytes.len(),
            _ => continue,
        };
        for from in 0..length {
            for to in from + 1..=length {
                let mut holed = Vec::new();
                for (n, act) in acts.iter().enumerate() {
                    if n != index {
                        holed.push(act.clone());
                        continue;
                    }
                    let hole = (to - from) as u64;
                    match act {
                        Act::C(bytes) => holed.extend([
                            Act::C(bytes[..from].to_vec()),
                            HoleC(hole),
                            Act::C(bytes[to..].to_vec()),
                        ]),
                        Act::S(bytes) => holed.extend([
                            Act::S(bytes[..from].to_vec()),
                            HoleS(hole),
                            Act::S(bytes[to..].to_vec()),
                        ]),
                        _ => {}
                    }
                }
                let log = play_cut(&holed, usize::MAX);
                check_sent(&log, &format!("act {index}, {from}..{to}"));
            }
        }
    }
}

/// Every body told is a part of the one that was sent with that message, and no message answers
/// another's request.
fn check_sent(log: &Log, what: &str) {
    let bodies = log.lines.iter().filter(|line| line.contains("_body "));
    for line in bodies {
        let text = line.split_once("_body ").unwrap().1;
        let of = SENT.iter().find(|(_, body)| body.contains(text));
        assert!(of.is_some(), "{what}: {line}\n{log:#?}");
    }
    let request = |no: &str| {
        let start = format!("{no} request ");
        log.lines.iter().find(|line| line.starts_with(&start))
    };
    for line in &log.lines {
        if let Some((no, rest)) = line.split_once(" response ") {
            let Some(request) = request(no) else {
                continue;
            };
            // The 202 answers the chunked request, the one without headers the GET.
            let (accepted, get) = (rest.starts_with("202"), rest.contains(" HTTP/1.1 0 "));
            let chunked = request.contains("POST") && request.contains(" 1 @");
            assert_eq!(accepted, chunked, "{what}: {request} {line}\n{log:#?}");
            assert_eq!(
                get,
                request.contains("GET"),
                "{what}: {request} {line}\n{log:#?}"
            );
        }
    }
}

proptest! {
    #[test]
    fn cutting_changes_nothing(cuts in proptest::collection::vec(1_usize..30, 1..40)) {
        let acts = conversation();
        let whole = play(&acts);
        let mut talk = Talk::new(Limits::default());
        let mut sizes = cuts.iter().cycle();
        for act in &acts {
            let (Act::C(bytes) | Act::S(bytes)) = act else {
                talk.act(act);
                continue;
            };
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (piece, later) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
                rest = later;
                talk.act(&match act {
                    Act::C(_) => Act::C(piece.into()),
                    _ => Act::S(piece.into()),
                });
            }
        }
        prop_assert_eq!(whole.lines, talk.finish().lines);
    }

    #[test]
    fn holes_everywhere_make_nothing_up(
        holes in proptest::collection::vec((0_usize..11, 0_usize..140, 1_usize..60), 2..5),
    ) {
        let mut acts = Vec::new();
        for (n, act) in conversation().iter().enumerate() {
            let (Act::C(bytes) | Act::S(bytes)) = act else {
                acts.push(act.clone());
                continue;
            };
            let mut missing = vec![false; bytes.len()];
            for (_, from, length) in holes.iter().filter(|hole| hole.0 == n) {
                missing.iter_mut().skip(*from % bytes.len()).take(*length).for_each(|m| *m = true);
            }
            let client = matches!(act, Act::C(_));
            for run in missing.chunk_by(|a, b| a == b).scan(0, |from, run| {
                *from += run.len();
                Some((*from - run.len(), *from, run[0]))
            }) {
                acts.push(match (run, client) {
                    ((from, to, true), true) => HoleC((to - from) as u64),
                    ((from, to, true), false) => HoleS((to - from) as u64),
                    ((from, to, false), true) => Act::C(bytes[from..to].to_vec()),
                    ((from, to, false), false) => Act::S(bytes[from..to].to_vec()),
                });
            }
        }
        check_sent(&play_cut(&acts, usize::MAX), "holes");
    }

    #[test]
    fn nothing_panics(
        acts in proptest::collection::vec((0_usize..8, 0_usize..16, 0_usize..200), 0..60),
    ) {
        let parts: [&[u8]; 16] = [
            GET.as_bytes(), OK5.as_bytes(), SSE.as_bytes(), b"3\r\nabc\r\n", b"0\r\n\r\n",
            b"HTTP/1.1 100 C\r\n\r\n", b"\r\n", b"garbage", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n", b"ffffffffffffffff\r\n", b"HEAD / HTTP/1.1\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"\x1f\x8b\x08",
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 204 N\r\n\r\n",
        ];
        let mut talk = Talk::new(Limits { early_response: 4096, pipelined: 4, ..Limits::default() });
        for (kind, part, size) in acts {
            let bytes = parts[part][..size.min(parts[part].len())].to_vec();
            talk.act(&match kind {
                0..3 => Act::C(bytes),
                3..6 => Act::S(bytes),
                6 => HoleC(size as u64),
                _ => HoleS(size as u64),
            });
        }
        let log = talk.finish();
        // Each exchange has at most one head of each kind, and an end for each head.
        for no in 0..200 {
            let count = |what: &str| {
                let start = format!("{no} {what} ");
                log.lines.iter().filter(|line| line.starts_with(&start)).count()
            };
            prop_assert!(count("request") <= 1 && count("response") <= 1);
            prop_assert_eq!(count("request"), count("request_end"));
            prop_assert_eq!(count("response"), count("response_end"));
        }
    }
}
