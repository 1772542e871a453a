//! Stage by stage, each over what the stage before it made of one load test.
//!
//! `cargo bench --bench stages`. Bytes are those that a stage is given, so that rates can be compared with what
//! the whole run takes (`whole`).

#![allow(clippy::expect_used, reason = "what cannot be made stops a bench")]

mod traffic;

use divan::{Bencher, black_box, counter::BytesCount};
use forkscope::{
    anomaly::{Anomalies, Kind},
    http, input,
    input::{Opened, Source},
    ip,
    limits::Limits,
    link,
    mcp::message,
    model::{
        exchange::Part,
        flow::Side,
        packet::Segment,
        place::{At, InputId},
        prose::Prose,
        time::Timestamp,
    },
    sse, tcp,
};
use std::{fs, sync::atomic::AtomicU64};
use tempfile::TempDir;
use traffic::{Road, Shape};

fn main() {
    divan::main();
}

/// A file → frames.
#[divan::bench(args = [Shape::Load, Shape::Fat])]
fn frames(bencher: Bencher<'_, '_>, shape: Shape) {
    let file = Capture::new(shape);
    bencher
        .counter(BytesCount::new(file.bytes))
        .bench_local(|| {
            let mut count = 0;
            file.each_frame(|frame| count += frame.data.len());
            count
        });
}

/// A file → frames → TCP segments.
#[divan::bench(args = [Shape::Load, Shape::Fat])]
fn segments(bencher: Bencher<'_, '_>, shape: Shape) {
    let file = Capture::new(shape);
    bencher
        .counter(BytesCount::new(file.bytes))
        .bench_local(|| {
            let mut count = 0;
            file.each_segment(|_, payload| count += payload.len());
            count
        });
}

/// Segments → bytes in order.
#[divan::bench(args = [Shape::Load, Shape::Fat])]
fn reassembly(bencher: Bencher<'_, '_>, shape: Shape) {
    let segments = Capture::new(shape).segments();
    let bytes: usize = segments.iter().map(|(_, payload)| payload.len()).sum();
    bencher
        .counter(BytesCount::new(bytes))
        .bench_local(|| ordered(&segments));
}

/// Bytes in order → heads and bodies.
#[divan::bench(args = [Shape::Load, Shape::Fat])]
fn http_messages(bencher: Bencher<'_, '_>, shape: Shape) {
    let connections = ordered(&Capture::new(shape).segments());
    let bytes: usize = connections.iter().map(Ordered::bytes).sum();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        let mut bodies = Bodies::default();
        for connection in &connections {
            connection.read(&mut bodies);
        }
        bodies.length
    });
}

/// Bodies → events.
#[divan::bench(args = [Shape::Load, Shape::Fat])]
fn events(bencher: Bencher<'_, '_>, shape: Shape) {
    let bodies = Bodies::of(shape);
    bencher
        .counter(BytesCount::new(bodies.length))
        .bench_local(|| {
            let mut count = 0;
            bodies.each_event(|data| count += data.len());
            count
        });
}

/// Data of events → what JSON-RPC says in it, and its hash.
#[divan::bench(args = [Shape::Load, Shape::Fat])]
fn messages(bencher: Bencher<'_, '_>, shape: Shape) {
    let mut said: Vec<String> = Vec::new();
    Bodies::of(shape).each_event(|data| said.push(data.to_owned()));
    let bytes: usize = said.iter().map(String::len).sum();
    let limits = Limits::default();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        for data in &said {
            black_box(message::read_event(data, &limits));
            black_box(message::hash(data.as_bytes()));
        }
    });
}

/// A capture on disk, of a tenth of its full size.
struct Capture {
    source: Source,
    bytes: usize,
    _folder: TempDir,
}

impl Capture {
    fn new(shape: Shape) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the capture");
        let capture = traffic::capture(shape, shape.sessions() / 10, Road::Plain);
        let path = folder.path().join("capture");
        fs::write(&path, &capture.bytes).expect("room for the capture");
        Self {
            source: Source {
                name: "capture".to_owned(),
                path: Some(path),
            },
            bytes: capture.bytes.len(),
            _folder: folder,
        }
    }

    fn each_frame(&self, mut each: impl FnMut(&forkscope::model::packet::Frame<'_>)) {
        let done = AtomicU64::new(0);
        let opened = input::open(&self.source, &Limits::default(), &done);
        let Ok(Opened::Packets(mut reader)) = opened else {
            return;
        };
        let mut anomalies = Anomalies::default();
        while let Some(batch) = reader.next_batch(&mut anomalies, InputId(0)) {
            for frame in batch.frames(0..batch.len(), InputId(0)) {
                each(&frame);
            }
        }
    }

    fn each_segment(&self, mut each: impl FnMut(Segment, &[u8])) {
        self.each_frame(|frame| {
            let opened = link::peel(frame).and_then(|packet| {
                let transport = ip::open(&packet)?;
                tcp::parse(&transport, frame.time, frame.place)
            });
            if let Ok((segment, payload)) = opened {
                each(segment, payload);
            }
        });
    }

    fn segments(&self) -> Vec<(Segment, Vec<u8>)> {
        let mut segments = Vec::new();
        self.each_segment(|segment, payload| segments.push((segment, payload.to_vec())));
        segments
    }
}

/// Puts segments in order, connection by connection.
fn ordered(segments: &[(Segment, Vec<u8>)]) -> Vec<Ordered> {
    let mut connections = Vec::new();
    let mut anomalies = Anomalies::default();
    let mut table = tcp::Table::new(Limits::default());
    for (segment, payload) in segments {
        let done = &mut |connection: Box<Ordered>| connections.push(*connection);
        table.push(
            segment,
            payload,
            &mut anomalies,
            &mut |_| Ordered::default(),
            done,
        );
    }
    table.finish(&mut anomalies, &mut |connection| {
        connections.push(*connection);
    });
    connections
}

/// What a connection carried, piece by piece.
#[derive(Default)]
struct Ordered {
    pieces: Vec<(Side, Vec<u8>, At)>,
}

impl Ordered {
    fn bytes(&self) -> usize {
        self.pieces.iter().map(|(_, bytes, _)| bytes.len()).sum()
    }

    fn read(&self, out: &mut Bodies) {
        let mut http = http::Connection::new(Limits::default());
        out.begins();
        for (side, bytes, at) in &self.pieces {
            http.data(*side, bytes, *at, out);
        }
        if let Some((.., at)) = self.pieces.last() {
            http.finish(*at, out);
        }
    }
}

impl tcp::Sink for Ordered {
    fn data(&mut self, sender: Side, bytes: &[u8], at: At) {
        self.pieces.push((sender, bytes.to_vec(), at));
    }

    fn hole(&mut self, _: Side, _: u64, _: tcp::HoleKind, _: At) {}
    fn acknowledged(&mut self, _: Side, _: At) {}
    fn fin(&mut self, _: Side, _: Option<u64>, _: At) {}
    fn rst(&mut self, _: Side, _: Option<u64>, _: At) {}
    fn finish(&mut self, _: At) {}
}

/// Bodies of responses that are event streams, piece by piece.
#[derive(Default)]
struct Bodies {
    bodies: Vec<Vec<(Vec<u8>, At)>>,
    length: usize,
    /// They are wanted, not only counted.
    keep: bool,
    streaming: bool,
}

impl Bodies {
    fn of(shape: Shape) -> Self {
        let mut bodies = Self {
            keep: true,
            ..Self::default()
        };
        for connection in ordered(&Capture::new(shape).segments()) {
            connection.read(&mut bodies);
        }
        bodies.length = bodies
            .bodies
            .iter()
            .flatten()
            .map(|(piece, _)| piece.len())
            .sum();
        bodies
    }

    fn begins(&mut self) {
        self.streaming = false;
    }

    fn each_event(&self, mut each: impl FnMut(&str)) {
        for body in &self.bodies {
            let mut parser = sse::Parser::new(&Limits::default());
            for (piece, at) in body {
                parser.push(piece, *at, &mut |event| {
                    each(event.data.unwrap_or_default());
                });
            }
        }
    }
}

impl http::Sink for Bodies {
    fn request(&mut self, _: http::ExchangeNo, _: &http::RequestHead<'_>, _: At, _: At) {}
    fn request_body(&mut self, _: http::ExchangeNo, _: &[u8], _: At) {}
    fn request_end(&mut self, _: http::ExchangeNo, _: bool, _: At) {}

    fn response(&mut self, _: http::ExchangeNo, head: &http::ResponseHead<'_>, _: At, _: At) {
        self.streaming = head
            .headers
            .iter()
            .any(|(_, value)| value.starts_with(b"text/event-stream"));
        if self.keep && self.streaming {
            self.bodies.push(Vec::new());
        }
    }

    fn response_body(&mut self, _: http::ExchangeNo, bytes: &[u8], at: At) {
        self.length += bytes.len();
        if self.keep
            && self.streaming
            && let Some(body) = self.bodies.last_mut()
        {
            body.push((bytes.to_vec(), at));
        }
    }

    fn hole(&mut self, _: http::ExchangeNo, _: Part, _: u64, _: At) {}
    fn blank(&mut self, _: Option<Timestamp>, _: Option<Timestamp>) {}
    fn undecodable(&mut self, _: http::ExchangeNo, _: At) {}
    fn response_end(&mut self, _: http::ExchangeNo, _: http::BodyEnd, _: u64, _: At) {}
    fn stream_end(&mut self, _: http::ExchangeNo, _: http::StreamEnd, _: At) {}
    fn goaway(&mut self, _: At) {}
    fn anomaly(&mut self, _: Kind, _: At, _: Prose) {}
}
