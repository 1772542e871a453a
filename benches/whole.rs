//! From a capture to its analysis, shape by shape and road by road, on one thread.
//!
//! `cargo bench --bench whole`. The ratios of one run are what tells: machines are noisy.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "what cannot be made stops a bench"
)]

mod traffic;

use divan::{Bencher, counter::BytesCount};
use forkscope::pipeline::{Options, Progress, run};
use std::{fs, path::PathBuf};
use tempfile::TempDir;
use traffic::{Road, Shape};

fn main() {
    divan::main();
}

/// Each shape, plain.
#[divan::bench(args = [Shape::Load, Shape::Fat, Shape::Churn, Shape::Haystack])]
fn shape(bencher: Bencher<'_, '_>, shape: Shape) {
    audits(bencher, shape, Road::Plain);
}

/// The same load on each road. Bytes are those of the capture: a HAR has none of the packets' headers.
#[divan::bench(args = [Road::Plain, Road::Lossy, Road::Http2, Road::Tls, Road::TlsHttp2, Road::Har])]
fn road(bencher: Bencher<'_, '_>, road: Road) {
    audits(bencher, Shape::Load, road);
}

/// Large results on each road that takes work by the byte.
#[divan::bench(args = [Road::Plain, Road::Http2, Road::Tls, Road::TlsHttp2, Road::Har])]
fn fat_road(bencher: Bencher<'_, '_>, road: Road) {
    audits(bencher, Shape::Fat, road);
}

fn audits(bencher: Bencher<'_, '_>, shape: Shape, road: Road) {
    let input = Input::new(shape, road);
    bencher
        .counter(BytesCount::new(input.bytes))
        .bench_local(|| run(&input.options, &Progress::default()));
}

/// A capture on disk, of a fifth of its full size.
struct Input {
    options: Options,
    bytes: usize,
    _folder: TempDir,
}

impl Input {
    fn new(shape: Shape, road: Road) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the capture");
        let capture = traffic::capture(shape, shape.sessions() / 5, road);
        let write = |name: &str, bytes: &[u8]| -> PathBuf {
            let path = folder.path().join(name);
            fs::write(&path, bytes).expect("room for the capture");
            path
        };
        let path = write("capture", &capture.bytes);
        let mut options = Options {
            inputs: vec![path.display().to_string()],
            jobs: 1,
            ..Options::default()
        };
        if !capture.key_log.is_empty() {
            options
                .key_logs
                .push(write("keys", capture.key_log.as_bytes()));
        }
        Self {
            options,
            bytes: capture.bytes.len(),
            _folder: folder,
        }
    }
}
