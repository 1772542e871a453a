//! Instructions that an audit takes, counted by callgrind: the same on a busy machine as on a quiet one.
//!
//! `cargo bench --bench instructions` fails where a capture takes more than a twentieth above what
//! `benches/instructions.txt` says, and so does `cargo bench --profile dev --bench instructions`, which `.ci/run` runs as it
//! needs no second build, with `benches/instructions-dev.txt`. Who makes it slower on purpose, or faster, writes what was
//! counted into both, and why into the commit. Needs valgrind, and gungraun-runner of gungraun's version (`.ci/run` installs both).

#![allow(missing_docs, reason = "what gungraun's macros make has none")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "what cannot be made stops a bench"
)]

mod traffic;

use gungraun::{Callgrind, EventKind, Stdio, prelude::*};
use std::{
    fs,
    path::{Path, PathBuf},
};
use traffic::{Road, Shape};

/// The counts that are held to: a name and a number a line.
const KNOWN: &str = if cfg!(debug_assertions) {
    include_str!("instructions-dev.txt")
} else {
    include_str!("instructions.txt")
};

/// What is audited, by name.
const CASES: [(&str, Shape, Road); 7] = [
    ("load", Shape::Load, Road::Plain),
    ("load_lossy", Shape::Load, Road::Lossy),
    ("load_http2", Shape::Load, Road::Http2),
    ("load_har", Shape::Load, Road::Har),
    ("fat", Shape::Fat, Road::Plain),
    ("churn", Shape::Churn, Road::Plain),
    ("haystack", Shape::Haystack, Road::Plain),
];

/// A twentieth of its full size, which is still far more than what starting costs.
const SHARE: u32 = 20;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("instructions")
}

fn write(name: &str) {
    let Some((_, shape, road)) = CASES.iter().find(|(known, ..)| *known == name) else {
        panic!("no case {name}");
    };
    let capture = traffic::capture(*shape, shape.sessions() / SHARE, *road);
    fs::create_dir_all(folder()).expect("a folder for captures");
    fs::write(folder().join(name), capture.bytes).expect("room for a capture");
}

fn known(name: &str) -> u64 {
    KNOWN
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(known, _)| *known == name)
        .and_then(|(_, count)| count.trim().replace('_', "").parse().ok())
        .unwrap_or_else(|| panic!("no count is known for {name}"))
}

fn held_to(name: &str) -> BinaryBenchmarkConfig {
    let most = known(name) / 20 * 21;
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, most)]);
    let mut config = BinaryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

#[binary_benchmark(setup = write)]
#[bench::load(args = ("load"), config = held_to("load"))]
#[bench::load_lossy(args = ("load_lossy"), config = held_to("load_lossy"))]
#[bench::load_http2(args = ("load_http2"), config = held_to("load_http2"))]
#[bench::load_har(args = ("load_har"), config = held_to("load_har"))]
#[bench::fat(args = ("fat"), config = held_to("fat"))]
#[bench::churn(args = ("churn"), config = held_to("churn"))]
#[bench::haystack(args = ("haystack"), config = held_to("haystack"))]
fn audit(name: &str) -> Command {
    Command::new(env!("CARGO_BIN_EXE_forkscope"))
        .args(["audit", "-j1", "--fail-on", "never"])
        .arg(folder().join(name))
        .stdout(Stdio::Null)
        .build()
}

binary_benchmark_group!(name = audits, benchmarks = audit);

main!(binary_benchmark_groups = audits);
