//! Captures made to cost as much as they can: tables that fill, texts that do not end, bombs, histories
//! that are quadratic when they are searched. Each is written by a function of its size, so that the suite
//! runs small ones and the long run the full ones.

use std::io::{Result, Write};

/// A hostile capture.
pub(crate) struct Hostile {
    /// What it is about; names its file as well.
    pub(crate) name: &'static str,
    /// What its file ends with.
    pub(crate) ends: &'static str,
    /// Size of the full one, in whatever it has many of.
    pub(crate) full: usize,
    /// Size at which the suite runs it.
    pub(crate) small: usize,
    /// Writes one of a given size.
    pub(crate) write: fn(&mut dyn Write, usize) -> Result<()>,
}

macro_rules! hostile {
    ($($write:ident $ends:literal $full:literal $small:literal;)*) => {
        &[$(Hostile {
            name: stringify!($write),
            ends: $ends,
            full: $full,
            small: $small,
            write: $write,
        },)*]
    };
}

/// All of them.
pub(crate) const HOSTILE: &[Hostile] = hostile! {
    syns "pcap" 1_000_000 4_000;
    stream_among_syns "pcap" 1_000_000 4_000;
    refused_connections "pcap" 1_000_000 4_000;
    half_open_requests "pcap" 1_000_000 4_000;
    pipelined_requests "pcap" 1_000_000 6_000;
    unasked_responses "pcap" 300_000 2_000;
    requests_after_half_a_response "pcap" 300_000 2_000;
    holes "pcap" 300_000 2_000;
    tls_records_after_holes "pcapng" 100_000 1_000;
    backwards "pcap" 300_000 2_000;
    one_byte_segments "pcap" 1_000_000 4_000;
    connections_on_one_port "pcap" 300_000 2_000;
    endless_line "pcap" 200_000_000 400_000;
    endless_event "pcap" 200_000_000 400_000;
    endless_head "pcap" 50_000_000 400_000;
    endless_chunk_size "pcap" 50_000_000 400_000;
    small_chunks "pcap" 20_000_000 100_000;
    small_events "pcap" 100_000_000 200_000;
    http2_requests_of_large_headers "pcap" 200_000 2_000;
    http2_streams_never_answered "pcap" 300_000 4_000;
    http2_streams_given_up "pcap" 300_000 2_000;
    http2_headers_without_end "pcap" 10_000_000 40_000;
    http2_no_frames_between_streams "pcap" 10_000_000 40_000;
    deep_json "pcap" 1_000_000 20_000;
    deep_json_events "pcap" 200 5;
    batch_of_many "pcap" 1_000_000 3_000;
    many_members "pcap" 1_000_000 3_000;
    gzip_bomb "pcap" 4_000_000_000 2_000_000;
    zstd_bomb "pcap" 4_000_000_000 2_000_000;
    brotli_bomb "pcap" 200 1;
    bombs_half_read "pcap" 100 4;
    decoders_half_read "pcap" 2_000 10;
    event_bombs_half_read "pcap" 100 4;
    sessions_of_one_exchange "pcap" 100_000 1_000;
    sessions_of_one_call "pcap" 100_000 1_000;
    one_session_of_calls "pcap" 100_000 1_000;
    one_session_of_equal_calls "pcap" 100_000 1_000;
    one_session_of_many_clients "pcap" 60_000 1_000;
    refused_sessions "pcap" 60_000 1_000;
    events_under_one_id "pcap" 200_000 2_000;
    events_without_id "pcap" 1_000_000 4_000;
    events_of_growing_ids "pcap" 1_000_000 4_000;
    events_of_random_ids "pcap" 500_000 4_000;
    cursors_of_nobody "pcap" 50_000 500;
    old_cursor_again_and_again "pcap" 20_000 300;
    old_cursor_replays_all "pcap" 1_400 60;
    old_cursor_answered_from_the_end "pcap" 20_000 300;
    one_id_resumed "pcap" 100_000 300;
    one_id_resumed_again_and_again "pcap" 20_000 300;
    streams_side_by_side "pcap" 20_000 300;
    streams_that_replay_each_other "pcap" 20_000 300;
    equal_bytes_at_two_servers "pcap" 50_000 500;
    initializes "pcap" 100_000 1_000;
    fragments_without_ends "pcap" 1_000_000 4_000;
    fragments_of_one_packet "pcap" 1_000_000 4_000;
    tunnels_in_tunnels "pcap" 300_000 500;
    interfaces "pcapng" 100_000 2_000;
    options_without_end "pcapng" 20_000_000 40_000;
    blocks_without_end "pcapng" 1_000_000 2_000;
    sections "pcapng" 1_000_000 4_000;
    empty_packets "pcap" 5_000_000 10_000;
    zeros "pcap" 200_000_000 400_000;
    har_string "har" 1_000_000_000 2_000_000;
    har_deep "har" 100_000_000 200_000;
    har_entries "har" 300_000 1_000;
    har_headers "har" 5_000_000 5_000;
    har_messages "har" 500_000 1_000;
    har_keys "har" 5_000_000 5_000;
    gzip_file "pcap.gz" 4_000_000_000 2_000_000;
    zstd_file "pcap.zst" 4_000_000_000 2_000_000;
    gzip_members "pcap.gz" 1_000_000 3_000;
};

/// Writes a capture of raw IP, a packet a millisecond.
struct Wire<'w> {
    out: &'w mut dyn Write,
    at: u64,
    step: u64,
    /// It is a pcapng.
    blocks: bool,
}

const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const PIECE: usize = 60_000;

impl<'w> Wire<'w> {
    fn new(out: &'w mut dyn Write) -> Result<Self> {
        out.write_all(&pcap_head())?;
        Ok(Self {
            out,
            at: 1_700_000_000_000_000,
            step: 1000,
            blocks: false,
        })
    }

    /// A pcapng that has TLS secrets before its packets.
    fn with_secrets(out: &'w mut dyn Write, log: &str) -> Result<Self> {
        let section = [&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat();
        let secrets = [
            b"KSLT",
            &low(log.len() as u64).to_le_bytes(),
            log.as_bytes(),
        ]
        .concat();
        let mut wire = Self {
            out,
            at: 1_700_000_000_000_000,
            step: 1000,
            blocks: true,
        };
        wire.block(0x0a0d_0d0a, &section)?;
        wire.block(10, &secrets)?;
        wire.block(1, &[101, 0, 0, 0, 0, 0, 0, 0])?;
        Ok(wire)
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> Result<()> {
        let padding = body.len().next_multiple_of(4) - body.len();
        let len = low((body.len() + padding + 12) as u64).to_le_bytes();
        for part in [
            &kind.to_le_bytes()[..],
            &len,
            body,
            &[0; 3][..padding],
            &len,
        ] {
            self.out.write_all(part)?;
        }
        Ok(())
    }

    fn frame(&mut self, bytes: &[u8]) -> Result<()> {
        self.at += self.step;
        if self.blocks {
            let len = bytes.len() as u64;
            let head = [0, self.at >> 32, self.at, len, len].map(|n| low(n).to_le_bytes());
            return self.block(6, &[head.as_flattened(), bytes].concat());
        }
        for number in [
            self.at / 1_000_000,
            self.at % 1_000_000,
            bytes.len() as u64,
            bytes.len() as u64,
        ] {
            self.out.write_all(&low(number).to_le_bytes())?;
        }
        self.out.write_all(bytes)
    }

    fn segment(
        &mut self,
        from: End,
        to: End,
        numbers: [u32; 2],
        flags: u8,
        payload: &[u8],
    ) -> Result<()> {
        let mut bytes = ip_head(from.0, to.0, 6, 20 + payload.len(), 0, 0x4000);
        bytes.extend(from.1.to_be_bytes());
        bytes.extend(to.1.to_be_bytes());
        for number in numbers {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        bytes.extend(payload);
        self.frame(&bytes)
    }

    fn open(&mut self, client: End, server: End) -> Result<Talk> {
        self.segment(client, server, [0, 0], SYN, b"")?;
        self.segment(server, client, [0, 1], SYN | ACK, b"")?;
        Ok(Talk {
            client,
            server,
            sent: [1, 1],
        })
    }

    fn ask(&mut self, talk: &mut Talk, bytes: &[u8]) -> Result<()> {
        for piece in bytes.chunks(PIECE) {
            self.segment(talk.client, talk.server, talk.sent, ACK, piece)?;
            talk.sent[0] = talk.sent[0].wrapping_add(low(piece.len() as u64));
        }
        Ok(())
    }

    fn answer(&mut self, talk: &mut Talk, bytes: &[u8]) -> Result<()> {
        for piece in bytes.chunks(PIECE) {
            let [asked, answered] = talk.sent;
            self.segment(talk.server, talk.client, [answered, asked], ACK, piece)?;
            talk.sent[1] = answered.wrapping_add(low(piece.len() as u64));
        }
        self.segment(talk.client, talk.server, talk.sent, ACK, b"")
    }

    /// A request and its response on a connection of its own.
    fn exchange(&mut self, number: usize, request: &str, response: &str) -> Result<()> {
        let mut talk = self.open(client(number), SERVER)?;
        self.ask(&mut talk, request.as_bytes())?;
        self.answer(&mut talk, response.as_bytes())
    }

    /// One connection with an event stream on it.
    fn stream(&mut self, number: usize) -> Result<Talk> {
        let mut talk = self.open(client(number), SERVER)?;
        self.ask(&mut talk, get("s", None).as_bytes())?;
        self.answer(&mut talk, EVENTS.as_bytes())?;
        Ok(talk)
    }
}

type End = ([u8; 4], u16);

struct Talk {
    client: End,
    server: End,
    /// Next sequence numbers of client and server.
    sent: [u32; 2],
}

const SERVER: End = ([10, 0, 0, 1], 8000);
const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

fn client(number: usize) -> End {
    let [.., a, b, c, d] = (number as u64).to_be_bytes();
    (
        [10, 1 + a, b, c & 0x0f],
        1024 + (u16::from(c >> 4) << 8) + u16::from(d),
    )
}

fn low(number: u64) -> u32 {
    let [.., a, b, c, d] = number.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

fn half(number: usize) -> u16 {
    let [.., a, b] = (number as u64).to_be_bytes();
    u16::from_be_bytes([a, b])
}

fn pcap_head() -> Vec<u8> {
    let mut head = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    head.extend(262_144_u32.to_le_bytes());
    head.extend(101_u32.to_le_bytes());
    head
}

fn ip_head(
    from: [u8; 4],
    to: [u8; 4],
    protocol: u8,
    len: usize,
    id: u16,
    fragment: u16,
) -> Vec<u8> {
    let mut head = vec![0x45, 0];
    head.extend(half(20 + len).to_be_bytes());
    head.extend(id.to_be_bytes());
    head.extend(fragment.to_be_bytes());
    head.extend([64, protocol, 0, 0]);
    head.extend(from);
    head.extend(to);
    head
}

/// Numbers that no order is in.
fn scattered(number: usize) -> u64 {
    (number as u64 + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn get(session: &str, cursor: Option<&str>) -> String {
    let cursor = cursor.map_or_else(String::new, |id| format!("last-event-id: {id}\r\n"));
    format!(
        "GET /mcp HTTP/1.1\r\nhost: h\r\naccept: text/event-stream\r\nmcp-session-id: {session}\r\n{cursor}\r\n"
    )
}

fn post(session: &str, body: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\nmcp-session-id: {session}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn json(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn call(id: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","arguments":{{"n":{id}}}}}}}"#
    )
}

fn result(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n":{id}}}}}"#)
}

fn note(number: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"n":{number}}}}}"#)
}

fn event(id: &str, data: &str) -> String {
    format!("id: {id}\ndata: {data}\n\n")
}

fn syns(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    (0..size).try_for_each(|number| wire.segment(client(number), SERVER, [7, 0], SYN, b""))
}

fn stream_among_syns(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = wire.stream(0)?;
    wire.answer(&mut talk, event("1", &note(1)).as_bytes())?;
    for number in 1..size {
        wire.segment(client(number), SERVER, [7, 0], SYN, b"")?;
    }
    wire.answer(&mut talk, event("2", &note(2)).as_bytes())
}

fn refused_connections(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    for number in 0..size {
        let (to, from) = (client(number), ([10, 200, 0, 1], 50_000));
        wire.segment(from, to, [7, 0], SYN, b"")?;
        wire.segment(to, from, [0, 8], RST | ACK, b"")?;
    }
    Ok(())
}

fn half_open_requests(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    for number in 0..size {
        let mut talk = Talk {
            client: client(number),
            server: SERVER,
            sent: [1, 1],
        };
        wire.segment(talk.client, SERVER, [0, 0], SYN, b"")?;
        wire.ask(
            &mut talk,
            b"POST /mcp HTTP/1.1\r\nhost: h\r\nmcp-session-id: s\r\ncontent-length: 100\r\n\r\n{",
        )?;
    }
    Ok(())
}

fn pipelined_requests(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = wire.open(client(0), SERVER)?;
    (0..size).try_for_each(|number| wire.ask(&mut talk, post("s", &call(number)).as_bytes()))
}

fn unasked_responses(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = wire.open(client(0), SERVER)?;
    (0..size).try_for_each(|number| wire.answer(&mut talk, json(&result(number)).as_bytes()))
}

fn requests_after_half_a_response(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = wire.stream(0)?;
    for number in 0..size {
        wire.ask(&mut talk, post("s", &call(number)).as_bytes())?;
        wire.answer(
            &mut talk,
            event(&number.to_string(), &note(number)).as_bytes(),
        )?;
    }
    Ok(())
}

fn holes(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    wire.step = 100_000;
    let mut talk = wire.stream(0)?;
    for number in 0..size {
        talk.sent[1] = talk.sent[1].wrapping_add(5);
        wire.answer(
            &mut talk,
            event(&number.to_string(), &note(number)).as_bytes(),
        )?;
    }
    Ok(())
}

/// Records that do not open, each after a hole in which thousands may be: which number it has is tried.
fn tls_records_after_holes(out: &mut dyn Write, size: usize) -> Result<()> {
    /// A record of the handshake with one message, a hello: its version, a random, an empty session id, then `rest`.
    fn hello(kind: u8, rest: &[u8]) -> Vec<u8> {
        let body = [&[3, 3][..], &[kind; 32], &[0], rest].concat();
        let message = [&[kind, 0, 0, body.len() as u8][..], &body].concat();
        [&[22, 3, 3, 0, message.len() as u8][..], &message].concat()
    }
    // TLS_AES_128_GCM_SHA256, and the extension that says TLS 1.3.
    let asks = hello(1, &[0, 2, 0x13, 1, 1, 0, 0, 7, 0, 43, 0, 3, 2, 3, 4]);
    let answers = hello(2, &[0x13, 1, 0, 0, 6, 0, 43, 0, 2, 3, 4]);
    let line = |side: &str| {
        format!(
            "{side}_TRAFFIC_SECRET_0 {} {}\n",
            "01".repeat(32),
            "5e".repeat(32)
        )
    };
    let log = line("CLIENT") + &line("SERVER");
    let mut wire = Wire::with_secrets(out, &log)?;
    let mut talk = wire.open(client(0), SERVER)?;
    wire.ask(&mut talk, &asks)?;
    wire.answer(&mut talk, &answers)?;
    let record = [&[23, 3, 3, 4, 0][..], &[0x5a; 1024]].concat();
    for _ in 0..size {
        talk.sent[1] = talk.sent[1].wrapping_add(1 << 20);
        wire.answer(&mut talk, &record)?;
    }
    Ok(())
}

fn backwards(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let talk = wire.stream(0)?;
    let [asked, answered] = talk.sent;
    for number in (1..size).rev() {
        let at = answered.wrapping_add(low(number as u64 * 2));
        wire.segment(SERVER, talk.client, [at, asked], ACK, b"x")?;
    }
    Ok(())
}

fn one_byte_segments(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    wire.step = 10;
    let talk = wire.stream(0)?;
    let [asked, answered] = talk.sent;
    let text = event("1", "{}");
    for (number, byte) in text.bytes().cycle().take(size).enumerate() {
        let at = answered.wrapping_add(low(number as u64));
        wire.segment(SERVER, talk.client, [at, asked], ACK, &[byte])?;
    }
    Ok(())
}

fn connections_on_one_port(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let client = client(0);
    for number in 0..size {
        let initial = low(number as u64 * 100_000);
        wire.segment(client, SERVER, [initial, 0], SYN, b"")?;
        let numbers = [initial.wrapping_add(1), 0];
        wire.segment(client, SERVER, numbers, ACK, get("s", None).as_bytes())?;
    }
    Ok(())
}

fn fill(wire: &mut Wire<'_>, talk: &mut Talk, bytes: &[u8], size: usize) -> Result<()> {
    let piece: Vec<u8> = bytes
        .iter()
        .copied()
        .cycle()
        .take(PIECE - PIECE % bytes.len())
        .collect();
    (0..size.div_ceil(piece.len())).try_for_each(|_| wire.answer(talk, &piece))
}

fn endless_line(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = wire.stream(0)?;
    wire.answer(&mut talk, b"data: ")?;
    fill(&mut wire, &mut talk, b"x", size)
}

fn endless_event(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = wire.stream(0)?;
    fill(&mut wire, &mut talk, b"data:\n", size)
}

fn endless_head(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = wire.open(client(0), SERVER)?;
    wire.ask(&mut talk, get("s", None).as_bytes())?;
    wire.answer(&mut talk, b"HTTP/1.1 200 OK\r\n")?;
    fill(&mut wire, &mut talk, b"a: b\r\n", size)
}

fn endless_chunk_size(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = wire.open(client(0), SERVER)?;
    wire.ask(&mut talk, get("s", None).as_bytes())?;
    wire.answer(
        &mut talk,
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    fill(&mut wire, &mut talk, b"0", size)
}

fn small_chunks(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = wire.open(client(0), SERVER)?;
    wire.ask(&mut talk, get("s", None).as_bytes())?;
    wire.answer(
        &mut talk,
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    fill(&mut wire, &mut talk, b"1\r\nx\r\n", size)
}

fn small_events(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = wire.stream(0)?;
    fill(&mut wire, &mut talk, b"id\n\n", size)
}

/// A connection that carries HTTP/2, and its first request.
fn http2(wire: &mut Wire<'_>) -> Result<Talk> {
    let mut talk = wire.open(client(0), SERVER)?;
    let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    hello.extend(http2_frame(4, 0, 0, b""));
    wire.ask(&mut talk, &hello)?;
    wire.answer(&mut talk, &http2_frame(4, 0, 0, b""))?;
    Ok(talk)
}

fn http2_frame(kind: u8, flags: u8, stream: usize, payload: &[u8]) -> Vec<u8> {
    let [.., a, b, c] = (payload.len() as u64).to_be_bytes();
    let mut frame = vec![a, b, c, kind, flags];
    frame.extend(low(stream as u64).to_be_bytes());
    frame.extend(payload);
    frame
}

/// The stream of a request.
fn http2_stream(number: usize) -> usize {
    number * 2 + 1
}

const HTTP2_GET: &[u8] = &[0x82, 0x86, 0x84];
const HTTP2_OK: &[u8] = &[0x88];

/// Eight bytes a request stand for kilobytes.
fn http2_requests_of_large_headers(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = http2(&mut wire)?;
    // A table of 64 KiB, a path and a session.
    let mut block = b"\x3f\xe1\xff\x03\x82\x44\x7f\x81\x3e".to_vec();
    block.extend([b'/'; 8064]);
    block.extend(b"\x40\x0emcp-session-id\x7f\x81\x3e");
    block.extend([b's'; 8064]);
    for number in 0..size {
        let stream = http2_stream(number);
        let block = if number == 0 {
            &block[..]
        } else {
            b"\x82\xbf\xbe"
        };
        wire.ask(&mut talk, &http2_frame(1, 5, stream, block))?;
        wire.answer(&mut talk, &http2_frame(1, 5, stream, HTTP2_OK))?;
    }
    Ok(())
}

fn http2_streams_never_answered(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = http2(&mut wire)?;
    (0..size).try_for_each(|number| {
        wire.ask(
            &mut talk,
            &http2_frame(1, 5, http2_stream(number), HTTP2_GET),
        )
    })
}

fn http2_streams_given_up(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = http2(&mut wire)?;
    for number in 0..size {
        let stream = http2_stream(number);
        wire.ask(&mut talk, &http2_frame(1, 5, stream, HTTP2_GET))?;
        wire.answer(&mut talk, &http2_frame(1, 4, stream, HTTP2_OK))?;
        wire.ask(&mut talk, &http2_frame(3, 0, stream, &[0, 0, 0, 8]))?;
    }
    Ok(())
}

fn http2_headers_without_end(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = http2(&mut wire)?;
    wire.ask(&mut talk, &http2_frame(1, 5, 1, HTTP2_GET))?;
    wire.answer(&mut talk, &http2_frame(1, 0, 1, HTTP2_OK))?;
    fill(&mut wire, &mut talk, &http2_frame(9, 0, 1, b""), size / 2)?;
    let frame = http2_frame(9, 0, 1, b"\x40\x01a\x01b");
    fill(&mut wire, &mut talk, &frame, size / 2)
}

/// What is no frame may have taken something from each of a thousand streams, again and again.
fn http2_no_frames_between_streams(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = http2(&mut wire)?;
    for number in 0..1000 {
        let stream = http2_stream(number);
        wire.ask(&mut talk, &http2_frame(1, 5, stream, HTTP2_GET))?;
        wire.answer(&mut talk, &http2_frame(1, 4, stream, HTTP2_OK))?;
    }
    let mut frames = http2_frame(0, 0, 0, b"");
    frames.extend(http2_frame(0, 0, 1, b"x"));
    fill(&mut wire, &mut talk, &frames, size)
}

fn deep_json(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let deep = format!(r#"{{"jsonrpc":"2.0","id":{}"#, "[".repeat(size));
    wire.exchange(0, &post("s", &deep), &json(&deep))?;
    let deep = format!("{deep}{}}}", "]".repeat(size));
    wire.exchange(1, &post("s", &deep), &json(&deep))?;
    let deep = "[".repeat(size);
    wire.exchange(2, &post("s", &deep), &json(&deep))?;
    let deep = r#"{"result":"#.repeat(size);
    wire.exchange(3, &post("s", &deep), &json(&deep))
}

fn deep_json_events(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = wire.stream(0)?;
    let deep = format!(r#"{{"params":{}"#, r#"{"_meta":["#.repeat(50_000));
    (0..size)
        .try_for_each(|number| wire.answer(&mut talk, event(&number.to_string(), &deep).as_bytes()))
}

fn batch_of_many(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let list = |of: fn(usize) -> String| {
        let all: Vec<String> = (0..size).map(of).collect();
        format!("[{}]", all.join(","))
    };
    wire.exchange(0, &post("s", &list(call)), &json(&list(result)))?;
    let answers = format!("{EVENTS}{}", event("1", &list(result)));
    wire.exchange(1, &post("s", &list(call)), &answers)
}

fn many_members(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let members: Vec<String> = (0..size)
        .map(|number| format!(r#""{number}":{{"id":1}},"id":{number}"#))
        .collect();
    let body = format!(
        r#"{{"jsonrpc":"2.0",{},"method":"tools/call"}}"#,
        members.join(",")
    );
    wire.exchange(0, &post("s", &body), &json(&body))
}

fn bomb_head(coding: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: {coding}\r\n\r\n"
    )
}

fn bomb(out: &mut dyn Write, coding: &str, packed: &[u8]) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = wire.open(client(0), SERVER)?;
    wire.ask(&mut talk, get("s", None).as_bytes())?;
    wire.answer(&mut talk, bomb_head(coding).as_bytes())?;
    wire.answer(&mut talk, packed)
}

fn gzip(size: usize, first: &[u8]) -> Result<Vec<u8>> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(first)?;
    zeros_into(&mut packer, size)?;
    packer.finish()
}

fn zstd_of(size: usize, first: &[u8]) -> Result<Vec<u8>> {
    let mut packer = zstd::Encoder::new(Vec::new(), 1)?;
    packer.write_all(first)?;
    zeros_into(&mut packer, size)?;
    packer.finish()
}

fn zeros_into(out: &mut impl Write, size: usize) -> Result<()> {
    let piece = vec![0; 1 << 20];
    (0..size.div_ceil(piece.len())).try_for_each(|_| out.write_all(&piece))
}

/// 200 MiB of zeros.
const BROTLI: &str = "cfffff7f002400e2b14072effff9ffff0f8004401c1680eefd3fffffff01900088c302d0bdffe7ffff3f001200715800baf7fffcffff074002200e0b40f7fe9fffffff004800c46101e8defff3ffff1f000980382c00ddfb7ffeffff032001108705a07bffcfffff7f002400e2b00074effff9ffff0f8004401c1680eefd3fffffff01900088c302d0bdffe7ffff3f001200715800baf7fff9ffff074002200e0b40f7fe0f";

fn brotli() -> Vec<u8> {
    let digits = |at: usize| {
        BROTLI
            .get(at..at + 2)
            .and_then(|two| u8::from_str_radix(two, 16).ok())
    };
    (0..BROTLI.len()).step_by(2).filter_map(digits).collect()
}

fn gzip_bomb(out: &mut dyn Write, size: usize) -> Result<()> {
    bomb(out, "gzip", &gzip(size, b"data: ")?)
}

fn zstd_bomb(out: &mut dyn Write, size: usize) -> Result<()> {
    bomb(out, "zstd", &zstd_of(size, b"data: ")?)
}

fn brotli_bomb(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    for number in 0..size {
        let mut talk = wire.open(client(number), SERVER)?;
        wire.ask(&mut talk, get("s", None).as_bytes())?;
        wire.answer(&mut talk, bomb_head("br").as_bytes())?;
        wire.answer(&mut talk, &brotli())?;
    }
    Ok(())
}

/// Zeros, and as much that cannot be packed as keeps the ratio within what is no bomb.
fn unsuspected(first: &[u8]) -> Result<Vec<u8>> {
    let mut packer = zstd::Encoder::new(Vec::new(), 1)?;
    packer.write_all(first)?;
    for number in 0..9_000 {
        packer.write_all(&scattered(number).to_le_bytes())?;
    }
    zeros_into(&mut packer, 60 << 20)?;
    packer.finish()
}

fn decoders_half_read(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let brotli = brotli();
    for number in 0..size {
        let mut talk = wire.open(client(number), SERVER)?;
        wire.ask(&mut talk, get("s", None).as_bytes())?;
        wire.answer(&mut talk, bomb_head("br").as_bytes())?;
        wire.answer(&mut talk, brotli.get(..12).unwrap_or_default())?;
    }
    Ok(())
}

fn bombs_half_read(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let packed = unsuspected(b"{")?;
    let head = "POST /mcp HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-encoding: zstd\r\nmcp-session-id: s\r\ncontent-length: 1000000\r\n\r\n";
    for number in 0..size {
        let mut talk = wire.open(client(number), SERVER)?;
        wire.ask(&mut talk, head.as_bytes())?;
        wire.ask(&mut talk, &packed)?;
    }
    Ok(())
}

fn event_bombs_half_read(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let packed = unsuspected(b"data: ")?;
    for number in 0..size {
        let mut talk = wire.open(client(number), SERVER)?;
        wire.ask(&mut talk, get("s", None).as_bytes())?;
        wire.answer(&mut talk, bomb_head("zstd").as_bytes())?;
        wire.answer(&mut talk, &packed)?;
    }
    Ok(())
}

fn sessions_of_one_exchange(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    (0..size).try_for_each(|number| {
        let events = format!("{EVENTS}{}", event("1", &note(number)));
        wire.exchange(number, &get(&number.to_string(), None), &events)
    })
}

fn sessions_of_one_call(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    (0..size).try_for_each(|number| {
        wire.exchange(
            number,
            &post(&number.to_string(), &call(1)),
            &json(&result(1)),
        )
    })
}

fn one_session_of_calls(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    (0..size).try_for_each(|number| {
        let events = format!("{EVENTS}{}", event(&number.to_string(), &result(number)));
        wire.exchange(number, &post("s", &call(number)), &events)
    })
}

fn one_session_of_equal_calls(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    (0..size).try_for_each(|number| {
        let events = format!("{EVENTS}{}", event("1", &note(1)));
        wire.exchange(number, &post("s", &call(1)), &events)
    })
}

fn one_session_of_many_clients(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    (0..size).try_for_each(|number| {
        wire.exchange(
            number << 12,
            &post("s", &call(number)),
            &json(&result(number)),
        )
    })
}

fn refused_sessions(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    (0..size).try_for_each(|number| {
        let session = (number % (size / 3).max(1)).to_string();
        let no = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;
        let no = format!("HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{no}", no.len());
        wire.exchange(number, &post(&session, &call(number)), &no)
    })
}

fn one_stream(out: &mut dyn Write, size: usize, of: impl Fn(usize) -> String) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = wire.stream(0)?;
    for first in (0..size).step_by(100) {
        let events: String = (first..size.min(first + 100)).map(&of).collect();
        wire.answer(&mut talk, events.as_bytes())?;
    }
    Ok(())
}

fn events_under_one_id(out: &mut dyn Write, size: usize) -> Result<()> {
    one_stream(out, size, |number| event("7", &note(number)))
}

fn events_without_id(out: &mut dyn Write, size: usize) -> Result<()> {
    one_stream(out, size, |number| format!("data: {}\n\n", note(number)))
}

fn events_of_growing_ids(out: &mut dyn Write, size: usize) -> Result<()> {
    one_stream(out, size, |number| {
        event(
            &format!("{number}_{}_a_{number}", number / 7),
            &note(number),
        )
    })
}

fn events_of_random_ids(out: &mut dyn Write, size: usize) -> Result<()> {
    one_stream(out, size, |number| {
        event(
            &format!("{:x}_{}", scattered(number), scattered(number + size) % 97),
            &note(number),
        )
    })
}

fn cursors_of_nobody(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    (0..size).try_for_each(|number| {
        let events = format!(
            "{EVENTS}{}",
            event(&scattered(number).to_string(), &note(number))
        );
        wire.exchange(
            number,
            &get("s", Some(&format!("{:x}", scattered(number)))),
            &events,
        )
    })
}

fn history(wire: &mut Wire<'_>, size: usize) -> Result<()> {
    let mut talk = wire.stream(0)?;
    let events: String = (0..size)
        .map(|number| event(&number.to_string(), &note(number)))
        .collect();
    wire.answer(&mut talk, events.as_bytes())
}

fn old_cursor_again_and_again(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    history(&mut wire, size)?;
    (1..size).try_for_each(|number| {
        let events = format!("{EVENTS}{}", event("1", &note(1)));
        wire.exchange(number, &get("s", Some("0")), &events)
    })
}

fn old_cursor_replays_all(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    history(&mut wire, size)?;
    let all: String = (1..size)
        .map(|number| event(&number.to_string(), &note(number)))
        .collect();
    let all = format!("{EVENTS}{all}");
    (1..size).try_for_each(|number| wire.exchange(number, &get("s", Some("0")), &all))
}

fn old_cursor_answered_from_the_end(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    history(&mut wire, size)?;
    (1..size).try_for_each(|number| {
        let events = format!(
            "{EVENTS}{}",
            event(&(size + number).to_string(), &note(number))
        );
        wire.exchange(number, &get("s", Some("0")), &events)
    })
}

fn one_id_resumed(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talk = wire.stream(0)?;
    let events: String = (0..size).map(|number| event("7", &note(number))).collect();
    wire.answer(&mut talk, events.as_bytes())?;
    wire.exchange(1, &get("s", Some("7")), &format!("{EVENTS}{events}"))
}

fn one_id_resumed_again_and_again(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    (0..size).try_for_each(|number| {
        let events = format!("{EVENTS}{}", event("7", &note(number)));
        wire.exchange(number, &get("s", (number > 0).then_some("7")), &events)
    })
}

fn streams_side_by_side(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut talks = Vec::new();
    for number in 0..size {
        let mut talk = wire.open(client(number), SERVER)?;
        wire.ask(&mut talk, post("s", &call(number)).as_bytes())?;
        wire.answer(&mut talk, EVENTS.as_bytes())?;
        talks.push(talk);
    }
    for (number, talk) in talks.iter_mut().enumerate() {
        wire.answer(talk, event(&number.to_string(), &result(number)).as_bytes())?;
    }
    Ok(())
}

fn streams_that_replay_each_other(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    (0..size).try_for_each(|number| {
        let events = format!(
            "{EVENTS}{}{}",
            event(&number.to_string(), &note(number)),
            event(&(number + 1).to_string(), &note(1))
        );
        let cursor = (number > 0).then(|| (number - 1).to_string());
        wire.exchange(number, &get("s", cursor.as_deref()), &events)
    })
}

fn equal_bytes_at_two_servers(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let other = ([10, 0, 0, 2], 9000);
    for number in 0..size {
        for server in [SERVER, other] {
            let mut talk = wire.open(client(number), server)?;
            wire.ask(
                &mut talk,
                post(&(number / 10).to_string(), &call(1)).as_bytes(),
            )?;
            wire.answer(&mut talk, json(&result(1)).as_bytes())?;
        }
    }
    Ok(())
}

fn initializes(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    (0..size).try_for_each(|number| {
        let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
        let body = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}"#;
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{hello}",
            hello.len()
        );
        let response = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: {}\r\ncontent-length: {}\r\n\r\n{body}",
            number % 1000,
            body.len()
        );
        wire.exchange(number % 50, &request, &response)
    })
}

fn fragments_without_ends(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    (0..size).try_for_each(|number| {
        let mut bytes = ip_head(
            client(number).0,
            SERVER.0,
            6,
            800,
            half(number),
            0x2000 | half(number % 60 * 100),
        );
        bytes.resize(820, 0);
        wire.frame(&bytes)
    })
}

fn fragments_of_one_packet(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    wire.step = 1;
    (0..size).try_for_each(|number| {
        let at = half(usize::try_from(scattered(number) % 4000).unwrap_or(0) * 2);
        let mut bytes = ip_head(
            client(0).0,
            SERVER.0,
            6,
            8,
            half(number / 8000),
            0x2000 | at,
        );
        bytes.resize(28, 0);
        wire.frame(&bytes)
    })
}

fn tunnels_in_tunnels(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    let mut bytes = Vec::new();
    for depth in 0..40 {
        bytes.extend(ip_head(
            client(depth).0,
            SERVER.0,
            4,
            20 * (40 - depth),
            0,
            0,
        ));
    }
    (0..size).try_for_each(|_| wire.frame(&bytes))
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    let len = low(body.len() as u64 + 12);
    bytes.extend(len.to_le_bytes());
    bytes.extend(body);
    bytes.extend(len.to_le_bytes());
    bytes
}

fn section() -> Vec<u8> {
    let mut body = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    body.extend([1, 0, 0, 0]);
    body.extend([0xff; 8]);
    block(0x0a0d_0d0a, &body)
}

fn interface() -> Vec<u8> {
    block(1, &[101, 0, 0, 0, 0, 0, 4, 0])
}

fn enhanced(interface: usize, at: u64, bytes: &[u8]) -> Vec<u8> {
    let mut body = low(interface as u64).to_le_bytes().to_vec();
    body.extend(low(at >> 32).to_le_bytes());
    body.extend(low(at).to_le_bytes());
    body.extend(low(bytes.len() as u64).to_le_bytes());
    body.extend(low(bytes.len() as u64).to_le_bytes());
    body.extend(bytes);
    body.resize(body.len().next_multiple_of(4), 0);
    block(6, &body)
}

fn interfaces(out: &mut dyn Write, size: usize) -> Result<()> {
    out.write_all(&section())?;
    for number in 0..size {
        out.write_all(&interface())?;
        out.write_all(&enhanced(
            number,
            1_700_000_000_000_000 + number as u64,
            &ip_head([1; 4], [2; 4], 17, 0, 0, 0),
        ))?;
    }
    Ok(())
}

fn options_without_end(out: &mut dyn Write, size: usize) -> Result<()> {
    out.write_all(&section())?;
    let mut body = vec![101, 0, 0, 0, 0, 0, 4, 0];
    body.resize(8 + size.min(15 << 20) / 4 * 4, 0);
    for option in body[8..].chunks_mut(4) {
        // A comment without text; each says that another follows.
        option[0] = 1;
    }
    out.write_all(&block(1, &body))?;
    out.write_all(&enhanced(0, 1, &ip_head([1; 4], [2; 4], 17, 0, 0, 0)))?;
    // An option longer than its block.
    out.write_all(&block(1, &[101, 0, 0, 0, 0, 0, 4, 0, 9, 0, 0xff, 0xff]))?;
    out.write_all(&enhanced(1, 1, &ip_head([1; 4], [2; 4], 17, 0, 0, 0)))
}

fn blocks_without_end(out: &mut dyn Write, size: usize) -> Result<()> {
    out.write_all(&section())?;
    out.write_all(&interface())?;
    for number in 0..size {
        let len: u32 = [0, 8, 12, 13, 0xffff_fff0, 0x7fff_ffff, 16 << 20, 17 << 20][number % 8];
        out.write_all(&6_u32.to_le_bytes())?;
        out.write_all(&len.to_le_bytes())?;
        out.write_all(&enhanced(0, 1, &ip_head([1; 4], [2; 4], 17, 0, 0, 0)))?;
    }
    Ok(())
}

fn sections(out: &mut dyn Write, size: usize) -> Result<()> {
    for _ in 0..size {
        out.write_all(&section())?;
        out.write_all(&interface())?;
    }
    Ok(())
}

fn empty_packets(out: &mut dyn Write, size: usize) -> Result<()> {
    let mut wire = Wire::new(out)?;
    (0..size).try_for_each(|_| wire.frame(b""))
}

fn zeros(out: &mut dyn Write, size: usize) -> Result<()> {
    out.write_all(&pcap_head())?;
    zeros_into(&mut &mut *out, size)
}

const HAR: &str = r#"{"log":{"version":"1.2","creator":{"name":"x","version":"1"},"entries":["#;

fn entry(number: usize, headers: &str, body: &str) -> String {
    let (seconds, millis) = (number / 1000, number % 1000);
    let (minutes, hours) = (seconds / 60, seconds / 3600 % 24);
    format!(
        r#"{{"startedDateTime":"2025-01-01T{hours:02}:{:02}:{:02}.{millis:03}Z","time":1,"request":{{"method":"POST","url":"http://h/mcp","httpVersion":"HTTP/1.1","headers":[{{"name":"mcp-session-id","value":"s"}}{headers}],"postData":{{"mimeType":"application/json","text":"{{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"tools/call\"}}"}}}},"response":{{"status":200,"httpVersion":"HTTP/1.1","headers":[{{"name":"content-type","value":"text/event-stream"}}],"content":{{"mimeType":"text/event-stream","text":"{body}"}}}},"timings":{{"send":0,"wait":1,"receive":0}}}}"#,
        minutes % 60,
        seconds % 60,
    )
}

fn har_string(out: &mut dyn Write, size: usize) -> Result<()> {
    write!(out, "{HAR}{},", entry(0, "", "data: 1\\n\\n"))?;
    let whole = entry(1, "", "@");
    let (before, after) = whole.split_once('@').unwrap_or_default();
    out.write_all(before.as_bytes())?;
    let piece = vec![b'x'; 1 << 20];
    (0..size.div_ceil(piece.len())).try_for_each(|_| out.write_all(&piece))?;
    write!(out, "{after},{}]}}}}", entry(2, "", "data: 1\\n\\n"))
}

fn har_deep(out: &mut dyn Write, size: usize) -> Result<()> {
    out.write_all(HAR.as_bytes())?;
    out.write_all(br#"{"request":"#)?;
    let piece = br#"{"a":["#.repeat(1 << 14);
    (0..size.div_ceil(piece.len())).try_for_each(|_| out.write_all(&piece))
}

fn har_entries(out: &mut dyn Write, size: usize) -> Result<()> {
    out.write_all(HAR.as_bytes())?;
    for number in 0..size {
        write!(
            out,
            "{},",
            entry(number, "", &format!("id: {number}\\ndata: {{}}\\n\\n"))
        )?;
    }
    write!(out, "{}]}}}}", entry(size, "", ""))
}

fn har_headers(out: &mut dyn Write, size: usize) -> Result<()> {
    let headers: String = (0..size)
        .map(|number| format!(r#",{{"name":"a{number}","value":"b"}}"#))
        .collect();
    write!(out, "{HAR}{}]}}}}", entry(0, &headers, ""))
}

fn har_messages(out: &mut dyn Write, size: usize) -> Result<()> {
    let events: String = (0..size)
        .map(|number| format!("id: {number}\\ndata: {{}}\\n\\n"))
        .collect();
    write!(out, "{HAR}{}]}}}}", entry(0, "", &events))
}

fn har_keys(out: &mut dyn Write, size: usize) -> Result<()> {
    let keys: String = (0..size)
        .map(|number| format!(r#""k{number}":{number},"#))
        .collect();
    let whole = entry(0, "", "");
    let keyed = whole.replacen(
        r#"{"startedDateTime""#,
        &format!(r#"{{{keys}"startedDateTime""#),
        1,
    );
    write!(out, "{HAR}{keyed}]}}}}")
}

fn gzip_file(out: &mut dyn Write, size: usize) -> Result<()> {
    out.write_all(&gzip(size, &pcap_head())?)
}

fn zstd_file(out: &mut dyn Write, size: usize) -> Result<()> {
    out.write_all(&zstd_of(size, &pcap_head())?)
}

fn gzip_members(out: &mut dyn Write, size: usize) -> Result<()> {
    let head = gzip(0, &pcap_head())?;
    let empty = gzip(0, b"")?;
    out.write_all(&head)?;
    (0..size).try_for_each(|_| out.write_all(&empty))
}
