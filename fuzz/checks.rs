//! What must hold of any bytes, a function a stage. The targets of `fuzz_targets/` call them under
//! libFuzzer, `tests/suite/fuzz.rs` with bytes of its own making.

use forkscope::{
    anomaly::{Anomalies, Kind},
    facts, http,
    input::{self, Classified, Source, timeline::Timeline},
    ip,
    limits::Limits,
    link,
    mcp::message,
    model::{
        analysis::Analysis,
        exchange::Part,
        flow::Side,
        packet::{Frame, IpPacket, LinkType, Segment, Skip, TcpFlags, Transport},
        place::{At, InputId, Place},
        prose::Prose,
        time::Timestamp,
    },
    pipeline::{self, Options, Progress},
    report, sse, tcp, tls,
};
use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// A check, and the name of its target.
pub(crate) type Check = (&'static str, fn(&[u8]));

/// All of them.
pub(crate) const CHECKS: &[Check] = &[
    ("input", input),
    ("har", har),
    ("packet", packet),
    ("tcp", tcp),
    ("tls", tls),
    ("http", http),
    ("h2", h2),
    ("sse", sse),
    ("message", message),
    ("audit", audit),
];

/// Caps so low that a few kilobytes reach them.
fn low() -> Limits {
    Limits {
        block: 4 << 10,
        tunnels: 2,
        fragmented: 4,
        fragment_bytes: 2 << 10,
        out_of_order: 1 << 10,
        all_out_of_order: 12 << 10,
        connections: 3,
        tls_held: 2 << 10,
        all_tls_held: 6 << 10,
        tls_trial: 64 << 10,
        all_tls_trials: 256 << 10,
        head: 256,
        headers: 6,
        pipelined: 2,
        streams: 2,
        header_table: 64,
        early_response: 256,
        json_body: 1 << 10,
        json_depth: 8,
        error_body: 64,
        event: 128,
        events: 5,
        held_bodies: 2 << 10,
        text: 16,
        har_entry: 4 << 10,
        server_facts: 2,
        history_looks: 20,
        ..Limits::default()
    }
}

/// The caps of a run, by the first byte of what is fuzzed.
fn limits(bytes: &[u8]) -> Limits {
    if bytes.first().is_some_and(|first| first % 4 == 3) {
        low()
    } else {
        Limits::default()
    }
}

/// A file that holds `bytes`.
fn stored(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("room for a file");
    file.flush().expect("room for a file");
    file
}

/// Frames of any file are numbered without a gap, and no longer than the cap; reading it by itself and in a
/// merge gives the same.
pub(crate) fn input(bytes: &[u8]) {
    for limits in [Limits::default(), low()] {
        let file = stored(bytes);
        let source = Source {
            name: "fuzzed".to_owned(),
            path: Some(file.path().to_owned()),
        };
        let done = AtomicU64::new(0);
        let Ok(classified) = input::classify(&source, &limits, &done) else {
            continue;
        };
        match classified {
            // Sealed: nothing that is changed is read.
            Classified::Facts(path) => drop(facts::read(&path, &limits)),
            Classified::Har(har) => {
                if let Ok((mut text, _)) = har.open(&limits, &done) {
                    let _ = io::copy(&mut Read::take(&mut *text, 1 << 24), &mut io::sink());
                }
            }
            Classified::Packets(packets) => {
                let alone = read_alone(&source, &limits);
                let mut anomalies = Anomalies::default();
                let mut merged = Vec::new();
                let mut timeline = Timeline::new(vec![(InputId(0), packets)], &limits, &done);
                while let Some(piece) = timeline.next(&mut anomalies) {
                    assert!(!piece.range.is_empty(), "an empty piece");
                    for frame in piece.batch.frames(piece.range.clone(), piece.input) {
                        merged.push((frame.time, frame.place.frame, frame.data.len()));
                    }
                }
                let summaries = timeline.finish();
                assert_eq!(summaries.len(), 1);
                for (_, summary) in &summaries {
                    assert_eq!(summary.totals.packets, merged.len() as u64);
                    let sum: usize = merged.iter().map(|(_, _, len)| len).sum();
                    assert_eq!(summary.totals.bytes, sum as u64);
                }
                assert_eq!(alone, merged);
                let mut last = 0;
                for &(_, number, len) in &merged {
                    assert!(number > last, "frame {number} after {last}");
                    assert!(len <= limits.block, "{len} bytes in a frame");
                    last = number;
                }
            }
        }
        let size = bytes.len() as u64;
        assert!(
            done.load(Ordering::Relaxed) <= size * 2,
            "read more than twice"
        );
    }
}

fn read_alone(source: &Source, limits: &Limits) -> Vec<(Timestamp, u32, usize)> {
    let done = AtomicU64::new(0);
    let mut frames = Vec::new();
    if let Ok(input::Opened::Packets(mut reader)) = input::open(source, limits, &done) {
        let mut anomalies = Anomalies::default();
        while let Some(batch) = reader.next_batch(&mut anomalies, InputId(0)) {
            assert!(!batch.is_empty(), "an empty batch");
            for frame in batch.frames(0..batch.len(), InputId(0)) {
                frames.push((frame.time, frame.place.frame, frame.data.len()));
            }
        }
        assert_eq!(reader.totals().packets, frames.len() as u64);
    }
    frames
}

/// Gives its bytes few at a time.
struct Slow<'a> {
    bytes: &'a [u8],
    step: usize,
}

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let step = self.step.min(self.bytes.len());
        let (now, rest) = self.bytes.split_at(step);
        let count = Read::read(&mut &*now, buffer)?;
        self.bytes = if count == now.len() {
            rest
        } else {
            &self.bytes[count..]
        };
        Ok(count)
    }
}

/// A HAR gives the same entries however it is read, numbered in order.
pub(crate) fn har(bytes: &[u8]) {
    let limits = limits(bytes);
    let read = |step: usize| {
        let mut entries = Vec::new();
        let mut anomalies = Anomalies::default();
        let summary = input::har::read(
            &mut Slow { bytes, step },
            &limits,
            InputId(0),
            &mut anomalies,
            &mut |entry| entries.push(entry),
        );
        let summary = summary.map_err(|error| error.to_string());
        (
            entries,
            summary.map(|summary| format!("{summary:?}")),
            format!("{anomalies:?}"),
        )
    };
    let whole = read(usize::MAX);
    for pair in whole.0.windows(2) {
        assert!(pair[0].number < pair[1].number, "entries out of order");
    }
    for step in [1, 7] {
        let (entries, summary, anomalies) = read(step);
        assert_eq!(summary, whole.1, "{step} bytes at a time");
        assert_eq!(anomalies, whole.2, "{step} bytes at a time");
        assert!(entries == whole.0, "{step} bytes at a time");
    }
}

/// Cuts bytes into records: two bytes say how long the next is.
fn records(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while let [high, low, rest @ ..] = bytes {
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (record, rest) = rest.split_at(len);
        records.push(record);
        bytes = rest;
    }
    records
}

/// What a frame carries lies within it, as deep as the cap allows; fragments are put together to no more than a
/// packet can hold. The first byte of each record chooses the link type.
pub(crate) fn packet(bytes: &[u8]) {
    let limits = limits(bytes);
    let mut fragments = ip::Fragments::new(limits);
    let mut anomalies = Anomalies::default();
    let links: Vec<LinkType> = link::LINKS
        .iter()
        .flat_map(|link| link.types)
        .copied()
        .collect();
    for (number, record) in (1..).zip(records(bytes)) {
        let [choice, data @ ..] = record else {
            continue;
        };
        let time = Timestamp::from_nanos(i64::from(number) * 1_000_000_000);
        let place = Place {
            input: InputId(0),
            frame: number,
            tcp_stream: None,
        };
        let link = links[usize::from(*choice) % links.len()];
        let original_len = u32::try_from(data.len()).expect("short") + u32::from(*choice / 64);
        let frame = Frame {
            time,
            place,
            link,
            data,
            original_len,
        };
        let _ = link::interface(&frame);
        if let Ok(packet) = link::peel(&frame) {
            within(packet.data, data);
            descend(
                &packet,
                0,
                (time, place),
                &mut fragments,
                &limits,
                &mut anomalies,
            );
        }
    }
    fragments.finish(&mut anomalies);
}

fn descend(
    packet: &IpPacket<'_>,
    depth: u8,
    at: (Timestamp, Place),
    fragments: &mut ip::Fragments,
    limits: &Limits,
    anomalies: &mut Anomalies,
) {
    let _ = ip::header_sum(packet);
    match ip::open(packet) {
        Ok(transport) => {
            within(transport.payload, packet.data);
            carried(&transport, depth, at, fragments, limits, anomalies);
        }
        Err(Skip::Fragment) => {
            let Ok(fragment) = ip::fragment(packet) else {
                return;
            };
            within(fragment.data, packet.data);
            if let Ok(datagram) = fragments.take(&fragment, at.0, at.1, |_| true, anomalies)
                && let Ok(transport) = datagram.open()
            {
                assert!(
                    transport.payload.len() <= 65_535 + 8,
                    "{}",
                    transport.payload.len()
                );
                carried(&transport, depth, at, fragments, limits, anomalies);
            }
        }
        Err(_) => {}
    }
}

fn carried(
    transport: &Transport<'_>,
    depth: u8,
    at: (Timestamp, Place),
    fragments: &mut ip::Fragments,
    limits: &Limits,
    anomalies: &mut Anomalies,
) {
    if let Ok((segment, payload)) = tcp::parse(transport, at.0, at.1) {
        within(payload, transport.payload);
        let _ = tcp::refuses(&segment);
        tcp::StreamNumbers::new().number(&segment);
    } else if let Some(Ok(inner)) = link::inside(transport)
        && depth < limits.tunnels
    {
        within(inner.data, transport.payload);
        descend(&inner, depth + 1, at, fragments, limits, anomalies);
    }
}

fn within(part: &[u8], whole: &[u8]) {
    let (part, whole) = (part.as_ptr_range(), whole.as_ptr_range());
    assert!(
        whole.start <= part.start && part.end <= whole.end,
        "bytes of elsewhere"
    );
}

/// Every byte of a direction is handed over or called missing once, in order; a connection is finished once, and
/// no more are held than the cap.
pub(crate) fn tcp(bytes: &[u8]) {
    let limits = limits(bytes);
    let mut table = tcp::Table::new(limits);
    let mut numbers = tcp::StreamNumbers::new();
    let mut anomalies = Anomalies::default();
    let mut nanos = 0_i64;
    let text = [b'x'; 256];
    let (mut opened, mut finished) = (0, 0);
    let mut done = |ends: Box<Ends>| {
        assert!(ends.finished, "a sink without its end");
        finished += 1;
    };
    for (number, record) in (1..).zip(bytes.chunks_exact(10)) {
        let &[way, flags, s0, s1, s2, a0, a1, len, wait, more] = record else {
            break;
        };
        nanos += i64::from(wait) * i64::from(wait) * i64::from(wait) * 10_000;
        if more == 255 {
            nanos -= 1_000_000_000;
        }
        let port = 1000 + u16::from(way >> 4);
        let (a, b) = (([10, 0, 0, 1], port).into(), ([10, 0, 0, 2], 80).into());
        let (source, destination) = if way & 1 == 0 { (a, b) } else { (b, a) };
        // Numbers near each other, near the wrap as well; far ones by chance.
        let near = |high: u8, low: u8| u32::from(high % 8) << 8 | u32::from(low);
        let far = if s2 > 250 { u32::from(s2) << 24 } else { 0 };
        let sequence = near(s0, s1)
            .wrapping_sub(if way & 2 == 0 { 0 } else { 1024 })
            .wrapping_add(far);
        let place = Place {
            input: InputId(u32::from(way & 4 == 4)),
            frame: number,
            tcp_stream: None,
        };
        let segment = Segment {
            time: Timestamp::from_nanos(nanos),
            place,
            source,
            destination,
            sequence,
            acknowledgment: near(a0, a1),
            flags: TcpFlags(flags),
            window: 1024,
            missing: u32::from(more & 15 == 15) * u32::from(more),
        };
        numbers.number(&segment);
        let payload = &text[..usize::from(len)];
        table.push(
            &segment,
            payload,
            &mut anomalies,
            &mut |_| {
                opened += 1;
                Ends::default()
            },
            &mut done,
        );
        assert!(
            table.len() <= limits.connections.max(1),
            "{} connections",
            table.len()
        );
    }
    let missing: u64 = table
        .finish(&mut anomalies, &mut done)
        .values()
        .map(|holes| holes.holes)
        .sum();
    assert_eq!(opened, finished);
    let noted: u64 = (0..2)
        .map(|input| anomalies.count(InputId(input), Kind::Hole))
        .sum();
    assert_eq!(noted, missing, "holes told and counted");
}

/// How far each side of a connection is.
#[derive(Default)]
struct Ends {
    at: [u64; 2],
    acknowledged: [u64; 2],
    started: [bool; 2],
    closed: [bool; 2],
    finished: bool,
}

impl Ends {
    fn advance(&mut self, sender: Side, bytes: u64, at: At) {
        assert!(!self.finished, "after the end");
        let side = sender.index();
        assert!(
            bytes > 0 && self.started[side],
            "{bytes} bytes of a stream that did not start"
        );
        self.at[side] += bytes;
        assert_eq!(self.at[side], at.offset, "side {side}");
    }
}

impl tcp::Sink for Ends {
    fn starts(&mut self, sender: Side, _: u32) {
        assert!(!self.started[sender.index()], "started twice");
        self.started[sender.index()] = true;
    }

    fn data(&mut self, sender: Side, bytes: &[u8], at: At) {
        self.advance(sender, bytes.len() as u64, at);
    }

    fn hole(&mut self, sender: Side, bytes: u64, _: tcp::HoleKind, at: At) {
        self.advance(sender, bytes, at);
    }

    fn acknowledged(&mut self, sender: Side, at: At) {
        let known = &mut self.acknowledged[sender.index()];
        assert!(at.offset > *known, "acknowledged again");
        *known = at.offset;
    }

    fn fin(&mut self, sender: Side, _: Option<u64>, at: At) {
        assert!(!self.closed[sender.index()], "a second FIN");
        self.closed[sender.index()] = true;
        assert!(
            at.offset >= self.at[sender.index()],
            "a FIN before its bytes"
        );
    }

    fn rst(&mut self, _: Side, _: Option<u64>, _: At) {
        assert!(!self.finished, "after the end");
    }

    fn finish(&mut self, _: At) {
        assert!(!self.finished, "finished twice");
        self.finished = true;
    }
}

/// What opens is the same however bytes are cut, lies in order within what was given, and holes have bytes. The
/// first byte of each record says whose it is, and whether it is a hole of that length or the end.
pub(crate) fn tls(bytes: &[u8]) {
    let caps = limits(bytes);
    let records = records(bytes);
    let whole = opened(&records, caps, usize::MAX);
    // How much is held at once depends on cuts, and with low caps what is given up for it.
    if caps.tls_held == Limits::default().tls_held {
        for step in [1, 7] {
            assert_eq!(
                opened(&records, caps, step).said,
                whole.said,
                "{step} at a time"
            );
        }
    }
}

/// Secrets of some captures of `fixtures/tls`.
const SECRETS: &[u8] = include_bytes!("../fixtures/tls/fuzz.keys");

fn opened(records: &[&[u8]], limits: Limits, step: usize) -> Opened {
    let mut secrets = tls::Secrets::default();
    assert_eq!(secrets.read(SECRETS, &Limits::default()).bad, 0);
    let budget = tls::Budget::default();
    let mut connection = tls::Connection::new(limits, Arc::new(secrets), &budget);
    let mut out = Opened::default();
    let mut offsets = [0_u64; 2];
    for record in records {
        let [what, rest @ ..] = record else { continue };
        let side = if what & 1 == 0 { Side::A } else { Side::B };
        let offset = &mut offsets[side.index()];
        let at = |offset: u64| At {
            offset,
            ..At::default()
        };
        match what >> 4 {
            0 => connection.fin(side, at(*offset), &mut out),
            2 if !rest.is_empty() => {
                *offset += rest.len() as u64;
                out.given[side.index()] = *offset;
                connection.hole(side, rest.len() as u64, at(*offset), &mut out);
            }
            _ => {
                for piece in rest.chunks(step) {
                    *offset += piece.len() as u64;
                    out.given[side.index()] = *offset;
                    connection.data(side, piece, at(*offset), &mut out);
                }
            }
        }
    }
    connection.finish(At::default(), &mut out);
    for side in [0, 1] {
        assert!(
            out.said[side].len() as u64 <= offsets[side],
            "more than was given"
        );
    }
    out
}

/// What was opened of a connection.
#[derive(Default)]
struct Opened {
    said: [Vec<u8>; 2],
    last: [u64; 2],
    given: [u64; 2],
}

impl tls::Sink for Opened {
    fn data(&mut self, sender: Side, bytes: &[u8], at: At) {
        let side = sender.index();
        assert!(!bytes.is_empty(), "nothing");
        assert!(
            at.offset >= self.last[side],
            "{} after {}",
            at.offset,
            self.last[side]
        );
        assert!(at.offset <= self.given[side], "beyond what was given");
        self.last[side] = at.offset;
        self.said[side].extend_from_slice(bytes);
    }

    fn hole(&mut self, _: Side, bytes: u64, _: At) {
        assert!(bytes > 0, "a hole of nothing");
    }

    fn anomaly(&mut self, _: Kind, _: At, detail: String) {
        assert!(detail.len() < 200, "{detail}");
    }
}

/// A connection says the same when its bytes come one by one, and what it says is in order: each exchange asked
/// once, answered once, ended once. The first byte of each record says whose bytes it is, or that some are
/// missing, or that a side closes.
pub(crate) fn http(bytes: &[u8]) {
    let limits = limits(bytes);
    let records = records(bytes);
    let whole = play(&records, limits, usize::MAX);
    let single = play(&records, limits, 1);
    let few = play(&records, limits, 5);
    // Where framing was lost, a message is looked for where pieces begin: there cuts matter.
    if ![&whole, &single, &few].iter().any(|told| told.lost) {
        assert_eq!(single.lines(), whole.lines());
        assert_eq!(few.lines(), whole.lines());
    }
}

/// The same of a connection that carries HTTP/2. Records are bytes as they are, or become frames: what is in
/// their header blocks is anything. Frames are found at any byte, so that cuts never matter.
pub(crate) fn h2(bytes: &[u8]) {
    let limits = limits(bytes);
    let records: Vec<Vec<u8>> = records(bytes).into_iter().map(framed).collect();
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    let whole = play_after(PREFACE, &records, limits, usize::MAX);
    for step in [1, 5] {
        let cut = play_after(PREFACE, &records, limits, step);
        assert_eq!(cut.lines(), whole.lines(), "{step} bytes at a time");
    }
    let most = bytes.len() / 6 + 1;
    assert!(whole.exchanges.len() <= most, "more exchanges than frames");
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A record of a kind, flags, a stream and a payload as that frame.
fn framed(record: &[u8]) -> Vec<u8> {
    match record {
        [what, kind, flags, stream, payload @ ..] if what >> 4 >= 8 => {
            let [.., high, middle, low] = payload.len().to_be_bytes();
            let mut frame = vec![*what, high, middle, low, kind % 12, *flags];
            frame.extend([0, 0, 0, stream % 16]);
            frame.extend(payload);
            frame
        }
        _ => record.to_vec(),
    }
}

fn play(records: &[&[u8]], limits: Limits, step: usize) -> Told {
    // Until the roles are known, only where a piece begins is looked at.
    play_after(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n", records, limits, step)
}

/// What a connection tells that begins with these bytes of its client.
fn play_after(first: &[u8], records: &[&[u8]], limits: Limits, step: usize) -> Told {
    let mut told = Told::default();
    let mut connection = http::Connection::new(limits);
    let mut offsets = [0; 2];
    let mut give =
        |connection: &mut http::Connection, told: &mut Told, side: Side, bytes: &[u8]| {
            for piece in bytes.chunks(step) {
                let offset = &mut offsets[side.index()];
                *offset += piece.len() as u64;
                let at = At {
                    offset: *offset,
                    ..At::default()
                };
                connection.data(side, piece, at, told);
            }
        };
    give(&mut connection, &mut told, Side::A, first);
    for record in records {
        let [what, rest @ ..] = record else { continue };
        let side = if what & 1 == 0 { Side::A } else { Side::B };
        match what >> 4 {
            0 => connection.fin(side, At::default(), &mut told),
            1 => connection.rst(side, At::default(), &mut told),
            2 => {
                told.lost = true;
                connection.hole(side, rest.len() as u64, At::default(), &mut told);
            }
            _ => give(&mut connection, &mut told, side, rest),
        }
    }
    connection.finish(At::default(), &mut told);
    told
}

/// What a connection told, an exchange a number.
#[derive(Default)]
struct Told {
    exchanges: BTreeMap<u32, Exchange>,
    /// Framing was lost somewhere.
    lost: bool,
}

#[derive(Default)]
struct Exchange {
    request: String,
    response: String,
    bodies: [Vec<u8>; 2],
    holes: Vec<(Part, u64)>,
    ends: [Option<String>; 2],
    undecodable: bool,
    cut: Option<String>,
}

impl Told {
    fn exchange(&mut self, number: http::ExchangeNo) -> &mut Exchange {
        self.exchanges.entry(number.0).or_default()
    }

    fn lines(&self) -> Vec<String> {
        let line = |(number, told): (&u32, &Exchange)| {
            let Exchange {
                request,
                response,
                bodies,
                holes,
                ends,
                undecodable,
                cut,
            } = told;
            let [asked, answered] = bodies;
            let (asked, answered) = (asked.escape_ascii(), answered.escape_ascii());
            format!(
                "{number} {request} {asked} | {response} {answered} | {holes:?} {ends:?} {undecodable} {cut:?}"
            )
        };
        self.exchanges.iter().map(line).collect()
    }
}

impl http::Sink for Told {
    fn request(
        &mut self,
        exchange: http::ExchangeNo,
        head: &http::RequestHead<'_>,
        first: At,
        last: At,
    ) {
        assert!(first.offset <= last.offset);
        let told = self.exchange(exchange);
        assert!(told.request.is_empty(), "asked twice");
        told.request = format!("{head:?} {} {}", first.offset, last.offset);
    }

    fn request_body(&mut self, exchange: http::ExchangeNo, bytes: &[u8], _: At) {
        let told = self.exchange(exchange);
        assert!(told.ends[0].is_none(), "a body after its end");
        told.bodies[0].extend(bytes);
    }

    fn request_end(&mut self, exchange: http::ExchangeNo, complete: bool, at: At) {
        let told = self.exchange(exchange);
        assert!(told.ends[0].is_none(), "a request ended twice");
        told.ends[0] = Some(format!("{complete} {}", at.offset));
    }

    fn response(
        &mut self,
        exchange: http::ExchangeNo,
        head: &http::ResponseHead<'_>,
        first: At,
        last: At,
    ) {
        assert!(first.offset <= last.offset);
        let told = self.exchange(exchange);
        assert!(told.response.is_empty(), "answered twice");
        told.response = format!("{head:?} {} {}", first.offset, last.offset);
    }

    fn response_body(&mut self, exchange: http::ExchangeNo, bytes: &[u8], _: At) {
        let told = self.exchange(exchange);
        assert!(told.ends[1].is_none(), "a body after its end");
        told.bodies[1].extend(bytes);
    }

    fn hole(&mut self, exchange: http::ExchangeNo, part: Part, bytes: u64, _: At) {
        self.exchange(exchange).holes.push((part, bytes));
    }

    fn blank(&mut self, _: Option<Timestamp>, _: Option<Timestamp>) {}

    fn undecodable(&mut self, exchange: http::ExchangeNo, _: At) {
        self.exchange(exchange).undecodable = true;
    }

    fn response_end(
        &mut self,
        exchange: http::ExchangeNo,
        how: http::BodyEnd,
        wire_bytes: u64,
        at: At,
    ) {
        let told = self.exchange(exchange);
        assert!(told.ends[1].is_none(), "a response ended twice");
        told.ends[1] = Some(format!("{how:?} {wire_bytes} {}", at.offset));
    }

    fn stream_end(&mut self, exchange: http::ExchangeNo, how: http::StreamEnd, at: At) {
        let told = self.exchange(exchange);
        assert!(told.cut.is_none(), "a stream ended twice");
        told.cut = Some(format!("{how:?} {}", at.offset));
    }

    fn goaway(&mut self, _: At) {}

    fn anomaly(&mut self, kind: Kind, _: At, _: Prose) {
        self.lost |= matches!(
            kind,
            Kind::NotHttp | Kind::BadHead | Kind::HeadLimit | Kind::BadChunk | Kind::BodyFraming
        );
    }
}

/// A stream gives the same events when its bytes come one by one, and none has more than the cap.
pub(crate) fn sse(bytes: &[u8]) {
    let limits = limits(bytes);
    let parse = |step: usize| {
        let mut parser = sse::Parser::new(&limits);
        let mut events = Vec::new();
        let mut offset = 0;
        for piece in bytes.chunks(step) {
            offset += piece.len() as u64;
            parser.push(
                piece,
                At {
                    offset,
                    ..At::default()
                },
                &mut |event| {
                    for field in [event.id, event.event_type, event.data]
                        .into_iter()
                        .flatten()
                    {
                        // A character that is none takes three bytes in place of one.
                        assert!(
                            field.len() <= limits.event.saturating_mul(3) + 3,
                            "{} bytes",
                            field.len()
                        );
                    }
                    events.push(format!("{event:?}"));
                },
            );
        }
        (events, parser.partial_bytes())
    };
    let whole = parse(usize::MAX);
    for step in [1, 3, 64] {
        assert_eq!(parse(step), whole, "{step} bytes at a time");
    }
}

/// A text is read alike as a body and as an event's data, and what is kept of it is short.
pub(crate) fn message(bytes: &[u8]) {
    let limits = limits(bytes);
    let of_body = message::read_body(bytes, &limits);
    let _ = message::subject_of(bytes);
    for said in &of_body {
        for kept in [said.id.as_deref(), said.method.as_deref()]
            .into_iter()
            .flatten()
        {
            // A long one ends with its hash.
            assert!(
                kept.len() <= limits.text.max(64) + 64,
                "{} bytes",
                kept.len()
            );
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let of_event = message::read_event(text, &limits);
        if let [one] = of_body.as_slice()
            && of_event.batch.is_empty()
            && !text.trim_start().starts_with('[')
            && text.len() <= limits.event
        {
            assert_eq!(one.kind, of_event.kind, "{text}");
        }
        assert_eq!(message::hash(bytes), message::hash(text.as_bytes()));
    }
}

/// The whole of an audit: one thread and eight say the same, every report is written, and what is in them points
/// at what is there.
pub(crate) fn audit(bytes: &[u8]) {
    let file = stored(bytes);
    let inputs = vec![file.path().to_str().expect("a name").to_owned()];
    for (limits, all_sse) in [(Limits::default(), false), (low(), true)] {
        let run = |jobs| {
            let options = Options {
                inputs: inputs.clone(),
                jobs,
                limits,
                all_sse,
                ..Options::default()
            };
            pipeline::run(&options, &Progress::default()).expect("options that go together")
        };
        let one = run(1);
        let written = reports(&one);
        points(&one);
        assert!(written == reports(&run(8)), "threads change a report");
    }
}

/// All reports of an analysis, one after the other.
pub(crate) fn reports(analysis: &Analysis) -> Vec<u8> {
    let mut bytes = Vec::new();
    let style = report::Style {
        verbose: true,
        ..report::Style::default()
    };
    let others = [
        &report::EVENTS,
        &report::EVENTS_NDJSON,
        &report::EXCHANGES,
        &report::EXCHANGES_NDJSON,
        &report::SUMMARY,
    ];
    for report in report::FOLDER.iter().chain(others) {
        (report.write)(analysis, &style, &mut bytes).expect("memory takes all");
    }
    bytes
}

fn points(analysis: &Analysis) {
    let at = |place: Place| {
        let input = analysis
            .inputs
            .get(place.input.0 as usize)
            .expect("an input of the run");
        let last = if input.har.is_some() || input.format.starts_with("har") {
            u64::from(u32::MAX)
        } else {
            input.packets
        };
        // Blocks that are no packets anybody can read have numbers too.
        let oddities = analysis
            .anomalies
            .iter()
            .map(|(_, _, tally)| tally.count)
            .sum::<u64>();
        assert!(
            u64::from(place.frame) <= last + oddities,
            "frame {} of {last}",
            place.frame
        );
    };
    assert_eq!(analysis.session_of.len(), analysis.exchanges.len());
    for exchange in &analysis.exchanges {
        at(exchange.place);
        at(exchange.end.place);
        for event in &exchange.events {
            at(Place {
                input: event.input,
                frame: event.frame,
                tcp_stream: None,
            });
        }
    }
    for reference in analysis.session_of.iter().flatten() {
        let session = reference
            .session
            .is_none_or(|row| (row as usize) < analysis.sessions.len());
        let segment = reference
            .segment
            .is_none_or(|row| (row as usize) < analysis.segments.len());
        assert!(session && segment, "a row that is not there");
    }
    for segment in &analysis.segments {
        assert!(
            (segment.exchange as usize) < analysis.exchanges.len(),
            "an exchange that is not there"
        );
    }
    for resume in &analysis.resumes {
        at(resume.place);
    }
    for finding in &analysis.findings {
        at(finding.place);
        assert!(
            !finding.code.is_empty() && !finding.detail.is_empty(),
            "{finding:?}"
        );
    }
    for (_, _, tally) in analysis.anomalies.iter() {
        assert!(
            tally.examples.len() as u64 <= tally.count,
            "examples of nothing"
        );
    }
}
