//! Load tests as captures, of any size: conversations that are written as talks are, and go over the same roads.
//!
//! The same shape and size give the same bytes, so that runs can be compared (TLS aside: its keys are random).

#![allow(dead_code, reason = "each bench takes what it needs")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what cannot be made stops a bench"
)]

#[path = "../../tests/suite/talk/mod.rs"]
pub(crate) mod talk;

use std::{
    fs::File,
    io::{self, BufWriter, Write as _},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};
use talk::{
    model::{Act, Body, Close, Connection, Event, Request, Response, Side, Step, Talk},
    render_har,
    render_pcap::{Link, Pcap, render},
    tcp::{self, Packet},
    tls,
};

/// What traffic looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A load test: many small events on long streams, which are cut and resumed.
    Load,
    /// Large results of tools.
    Fat,
    /// Many short connections.
    Churn,
    /// A few MCP sessions in a lot of other traffic.
    Haystack,
}

impl Shape {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Load, Self::Fat, Self::Churn, Self::Haystack];

    /// As files and benches are named.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Fat => "fat",
            Self::Churn => "churn",
            Self::Haystack => "haystack",
        }
    }

    /// How many sessions it has at full size.
    pub(crate) fn sessions(self) -> u32 {
        match self {
            Self::Load => 300,
            Self::Fat => 60,
            Self::Churn => 800,
            Self::Haystack => 200,
        }
    }
}

/// What carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Road {
    /// HTTP/1.1 in a pcap.
    Plain,
    /// The same, with one packet of a thousand missing.
    Lossy,
    /// HTTP/2 by prior knowledge.
    Http2,
    /// HTTP/1.1 over TLS 1.3.
    Tls,
    /// HTTP/2 over TLS 1.3.
    TlsHttp2,
    /// A HAR, as a browser exports it.
    Har,
}

impl Road {
    /// As files and benches are named.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Lossy => "lossy",
            Self::Http2 => "http2",
            Self::Tls => "tls",
            Self::TlsHttp2 => "tls_http2",
            Self::Har => "har",
        }
    }
}

/// A capture, and the key log that opens it (empty without TLS).
pub(crate) struct Capture {
    pub(crate) bytes: Vec<u8>,
    pub(crate) key_log: String,
}

/// The capture of a shape on a road.
pub(crate) fn capture(shape: Shape, sessions: u32, road: Road) -> Capture {
    const TLS: tls::Version = tls::VERSIONS[1].1;
    let talk = conversation(shape, sessions);
    let plain = |packets: &[Packet]| Capture {
        bytes: pcap(&talk, packets),
        key_log: String::new(),
    };
    let sealed = |(packets, key_log): (Vec<Packet>, String)| Capture {
        bytes: pcap(&talk, &packets),
        key_log,
    };
    let carried = "these shapes have nothing that HTTP/2 cannot carry";
    match road {
        Road::Plain => plain(&tcp::packets(&talk)),
        Road::Lossy => {
            let mut chance = Chance(1);
            let mut packets = tcp::packets(&talk);
            packets.retain(|packet| packet.is_control() || chance.below(1000) > 0);
            plain(&packets)
        }
        Road::Http2 => plain(&tcp::packets_h2(&talk).expect(carried)),
        Road::Tls => sealed(tls::packets(&talk, TLS)),
        Road::TlsHttp2 => sealed(tls::packets_h2(&talk, TLS).expect(carried)),
        Road::Har => Capture {
            bytes: render_har::render(&talk),
            key_log: String::new(),
        },
    }
}

/// Writes the plain capture of a shape.
pub(crate) fn write(shape: Shape, sessions: u32, path: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&capture(shape, sessions, Road::Plain).bytes)?;
    file.flush()
}

fn pcap(talk: &Talk, packets: &[Packet]) -> Vec<u8> {
    let plain = Pcap {
        link: Link::Ethernet,
        big_endian: false,
        nanoseconds: false,
    };
    render(talk, packets, plain)
}

/// What is said, in order of time.
fn conversation(shape: Shape, sessions: u32) -> Talk {
    let mut talk = Talk::new(shape.name());
    for number in 0..sessions {
        let mut session = Session::new(number, &mut talk);
        match shape {
            Shape::Load => session.runs(2, 120, 260, 10),
            Shape::Fat => session.runs(1, 6, 180_000, 4),
            Shape::Churn => session.asks_often(40),
            Shape::Haystack if number % 20 == 0 => session.runs(2, 8, 200, 2),
            Shape::Haystack => session.loads_other_things(),
        }
    }
    // Each session was told by itself.
    talk.steps.sort_by_key(|step| step.at);
    talk
}

/// A session that is being told.
struct Session<'t> {
    number: u32,
    talk: &'t mut Talk,
    chance: Chance,
    /// Microseconds since the talk began.
    at: i64,
    connection: usize,
    port: u16,
    id: String,
}

impl<'t> Session<'t> {
    fn new(number: u32, talk: &'t mut Talk) -> Self {
        let mut chance = Chance(u64::from(number) << 20 | 7);
        let at = i64::try_from(chance.below(60_000_000)).unwrap_or_default();
        let id = talk::model::uuid(&format!("{}-{number}", talk.name));
        Self {
            number,
            talk,
            chance,
            at,
            connection: 0,
            port: 20_000,
            id,
        }
    }

    /// A session with calls, and a stream that is cut and resumed `cuts` times; one in ten of its resumes meets a
    /// server that has begun again.
    fn runs(&mut self, cuts: u32, events: u32, size: usize, calls: u32) {
        let asks = self.connects();
        self.begins();
        for number in 1..=calls {
            self.calls(number, size);
        }
        let mut listens = self.connects();
        self.listens(None);
        let mut last = 0;
        for _ in 0..cuts {
            for _ in 0..events {
                last += 1;
                self.tells(last, size);
            }
            self.waits(500_000);
            let end = match self.chance.below(4) {
                0 => Close::Fin(Side::Server),
                1 => Close::Fin(Side::Client),
                2 => Close::Rst(Side::Server),
                _ => Close::Rst(Side::Client),
            };
            self.act(Act::Close(end));
            let idle = 200_000 + i64::try_from(self.chance.below(25_000_000)).unwrap_or_default();
            self.waits(idle);
            listens = self.connects();
            self.listens(Some(last));
            if self.chance.below(10) == 0 {
                last = 0;
            }
        }
        for _ in 0..events {
            last += 1;
            self.tells(last, size);
        }
        self.connection = asks;
        let delete = self.request("DELETE", None, &[]);
        self.act(delete);
        self.answers(200, String::new());
        self.act(Act::Close(Close::Fin(Side::Client)));
        self.connection = listens;
        self.act(Act::Close(Close::Fin(Side::Client)));
    }

    /// A call on a connection of its own, again and again.
    fn asks_often(&mut self, times: u32) {
        for number in 0..times {
            self.connects();
            let body = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/list"}}"#);
            let request = self.request("POST", Some(body), &[]);
            self.act(request);
            self.answers(
                200,
                format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{{"tools":[]}}}}"#),
            );
            self.waits(50_000);
            self.act(Act::Close(Close::Fin(Side::Client)));
            self.waits(950_000);
        }
    }

    /// What is no MCP: a download, or TLS of which there are no keys.
    fn loads_other_things(&mut self) {
        const BODY: usize = 400_000;
        let opaque = self.number % 2 == 1;
        let number = self.talk.connections.len();
        self.connects();
        if let Some(connection) = self.talk.connections.get_mut(number) {
            connection.server.set_port(if opaque { 443 } else { 8000 });
        }
        let body = self.noise(BODY);
        let (asked, mut answered) = if opaque {
            let mut hello = b"\x16\x03\x01\x02\x00".to_vec();
            hello.extend(self.noise(512));
            (hello, b"\x17\x03\x03\x40\x00".to_vec())
        } else {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n");
            let asked = b"GET /blob HTTP/1.1\r\nHost: downloads\r\n\r\n".to_vec();
            (asked, head.into_bytes())
        };
        answered.extend(body);
        self.act(Act::Raw(Side::Client, asked));
        self.waits(10_000);
        self.act(Act::Raw(Side::Server, answered));
        self.waits(5_000_000);
        self.act(Act::Close(Close::Fin(Side::Server)));
    }

    fn begins(&mut self) {
        let id = std::mem::take(&mut self.id);
        let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}"#;
        let request = self.request("POST", Some(initialize.to_owned()), &[]);
        self.act(request);
        self.id = id;
        self.answers(
            200,
            r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"demo","version":"1"}}}"#.to_owned(),
        );
        let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let request = self.request("POST", Some(initialized.to_owned()), &[]);
        self.act(request);
        self.answers(202, String::new());
    }

    /// A call that is answered by a stream, with progress.
    fn calls(&mut self, number: u32, size: usize) {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"work","arguments":{{"n":{number}}},"_meta":{{"progressToken":{number}}}}}}}"#
        );
        let request = self.request("POST", Some(body), &[]);
        self.act(request);
        self.streams();
        for progress in 0..=self.chance.below(3) {
            self.event(
                format!("c{number}-{progress}"),
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{number},"progress":{progress},"message":"{}"}}}}"#,
                    "x".repeat(size)
                ),
            );
        }
        self.event(
            format!("c{number}-r"),
            format!(
                r#"{{"jsonrpc":"2.0","id":{number},"result":{{"content":[{{"type":"text","text":"{}"}}]}}}}"#,
                "y".repeat(size)
            ),
        );
        self.act(Act::End);
    }

    fn listens(&mut self, cursor: Option<u32>) {
        let cursor = cursor.map(|last| last.to_string());
        let more = cursor.as_deref().map(|last| ("Last-Event-ID", last));
        let request = self.request("GET", None, more.as_slice());
        self.act(request);
        self.streams();
    }

    /// An event of the stream, some time after the last.
    fn tells(&mut self, number: u32, size: usize) {
        let pause = 10_000 + i64::try_from(self.chance.below(190_000)).unwrap_or_default();
        self.waits(pause);
        self.event(
            number.to_string(),
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":{{"n":{number},"text":"{}"}}}}}}"#,
                "z".repeat(size)
            ),
        );
    }

    fn event(&mut self, id: String, data: String) {
        self.act(Act::Event(Event {
            id: Some(id),
            event_type: Some("message".to_owned()),
            retry: None,
            data: Some(data),
        }));
    }

    fn request(&self, method: &str, body: Option<String>, more: &[(&str, &str)]) -> Act {
        let mut headers = vec![
            ("Host", "mcp.example.test"),
            ("User-Agent", "load/1.0"),
            ("Accept", "application/json, text/event-stream"),
        ];
        if !self.id.is_empty() {
            headers.push(("Mcp-Session-Id", &self.id));
            headers.push(("MCP-Protocol-Version", "2025-06-18"));
        }
        headers.extend(more);
        let length = body.as_ref().map(|body| body.len().to_string());
        if let Some(length) = &length {
            headers.push(("Content-Type", "application/json"));
            headers.push(("Content-Length", length));
        }
        Act::Request(Request {
            method: method.to_owned(),
            path: "/mcp".to_owned(),
            headers: owned(&headers),
            body,
        })
    }

    /// The head of an event stream.
    fn streams(&mut self) {
        self.act(Act::Response(Response {
            status: 200,
            headers: owned(&[
                ("Content-Type", "text/event-stream"),
                ("Cache-Control", "no-cache"),
                ("mcp-session-id", &self.id),
                ("Transfer-Encoding", "chunked"),
            ]),
            body: Body::Chunked,
        }));
    }

    fn answers(&mut self, status: u16, body: String) {
        let length = body.len().to_string();
        self.act(Act::Response(Response {
            status,
            headers: owned(&[
                ("Content-Type", "application/json"),
                ("mcp-session-id", &self.id),
                ("Content-Length", &length),
            ]),
            body: Body::Whole(body),
        }));
    }

    /// What is said from now on is said on a new connection.
    fn connects(&mut self) -> usize {
        let [.., high, low] = self.number.to_be_bytes();
        self.port += 1;
        self.connection = self.talk.connections.len();
        self.talk.connections.push(Connection {
            name: format!("{}-{}", self.number, self.port),
            client: SocketAddr::from((Ipv4Addr::new(10, 0, high, low), self.port)),
            server: SocketAddr::from((Ipv4Addr::new(172, 16, 0, 1 + low % 4), 8080)),
        });
        self.connection
    }

    fn act(&mut self, act: Act) {
        self.talk.steps.push(Step {
            at: self.at,
            connection: self.connection,
            act,
            lost: false,
            half: false,
        });
        // The longest has some three hundred packets, ten microseconds apart.
        self.waits(5_000);
    }

    fn waits(&mut self, micros: i64) {
        self.at += micros;
    }

    fn noise(&mut self, length: usize) -> Vec<u8> {
        let chance = &mut self.chance;
        let words = std::iter::repeat_with(|| chance.next().to_le_bytes());
        words.flatten().take(length).collect()
    }
}

fn owned(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    headers.iter().map(own).collect()
}

/// Numbers that look random (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
