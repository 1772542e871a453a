//! forkscope beside the tools that its users know, on the same captures in one run.
//!
//! `cargo bench --bench peers` makes its captures; `cargo bench --bench peers -- FILE...` takes yours. Of each tool
//! the best of three runs counts; ratios are to forkscope's time. What is not installed is left out.
//!
//! What the others do for their time: capinfos reads every packet and hashes the file, tcpflow writes every stream
//! into a file of its own, tshark dissects what it needs to print the heads and events of HTTP.

mod traffic;

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use traffic::Shape;

/// Runs of each tool, of which the best counts.
const RUNS: u32 = 3;

fn main() -> ExitCode {
    match compare() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    // cargo passes --bench.
    let named = env::args_os()
        .skip(1)
        .filter(|word| !word.as_encoded_bytes().starts_with(b"--"));
    let mut captures: Vec<PathBuf> = named.map(PathBuf::from).collect();
    if captures.is_empty() {
        for shape in Shape::ALL {
            let path = folder.path().join(format!("{}.pcap", shape.name()));
            traffic::write(shape, shape.sessions(), &path)?;
            captures.push(path);
        }
    }
    let mut out = io::stdout();
    writeln!(
        out,
        "{:<10} {:>8} {:>12} {:>12} {:>16} {:>16} {:>16} {:>16}",
        "capture", "size", "forkscope", "MB/s", "-j1", "capinfos", "tcpflow", "tshark"
    )?;
    for capture in &captures {
        let megabytes = fs::metadata(capture)?.len() as f64 / 1e6;
        // Once, so that all find it in the page cache.
        io::copy(&mut fs::File::open(capture)?, &mut io::sink())?;
        let ours =
            best(Tool::Forkscope, capture)?.ok_or_else(|| io::Error::other("no forkscope"))?;
        let name = capture.file_stem().unwrap_or_default().to_string_lossy();
        write!(
            out,
            "{name:<10} {megabytes:>5.0} MB {:>10.3} s {:>12.0}",
            ours.as_secs_f64(),
            megabytes / ours.as_secs_f64()
        )?;
        for tool in [Tool::OneThread, Tool::Capinfos, Tool::Tcpflow, Tool::Tshark] {
            match best(tool, capture)? {
                Some(time) => write!(
                    out,
                    " {:>7.3} s {:>5.1}×",
                    time.as_secs_f64(),
                    time.as_secs_f64() / ours.as_secs_f64()
                )?,
                None => write!(out, " {:>16}", "not installed")?,
            }
            out.flush()?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Tool {
    Forkscope,
    OneThread,
    Capinfos,
    Tcpflow,
    Tshark,
}

/// The best time, or none where there is no such tool.
fn best(tool: Tool, capture: &Path) -> io::Result<Option<Duration>> {
    let mut best = None;
    for _ in 0..RUNS {
        // tcpflow writes; into an empty folder each time.
        let folder = tempfile::tempdir()?;
        let mut command = command(tool, capture, &folder);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        match command.status() {
            Ok(_) => best = Some(best.unwrap_or(Duration::MAX).min(began.elapsed())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(best)
}

fn command(tool: Tool, capture: &Path, folder: &TempDir) -> Command {
    let forkscope = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forkscope"));
        command.arg("audit").arg(capture);
        command
    };
    match tool {
        Tool::Forkscope => forkscope(),
        Tool::OneThread => {
            let mut command = forkscope();
            command.arg("-j1");
            command
        }
        Tool::Capinfos => {
            let mut command = Command::new("capinfos");
            command.arg(capture);
            command
        }
        Tool::Tcpflow => {
            let mut command = Command::new("tcpflow");
            command.arg("-q").arg("-o").arg(folder.path());
            command.arg("-r").arg(capture);
            command
        }
        Tool::Tshark => {
            let mut command = Command::new("tshark");
            command.arg("-r").arg(capture);
            for port in ["8080", "8000"] {
                command.args(["-d", &format!("tcp.port=={port},http")]);
            }
            command.args(["-Y", "http", "-T", "fields"]);
            for field in [
                "frame.time_epoch",
                "tcp.stream",
                "http.request.method",
                "http.response.code",
                "http.request.line",
                "http.file_data",
            ] {
                command.args(["-e", field]);
            }
            command
        }
    }
}
