//! `forkscope extract`: the facts of captures as Parquet, for a later audit and for engines.

use super::{
    FINE, USAGE, complain, folder, interrupt, output,
    reading::{Reading, is_unreadable},
    values,
};
use anyhow::Context;
use clap::{Args, ValueHint};
use forkscope::{
    facts::{self, Facts},
    pipeline::Options,
    report::escape::escape_name_to,
};
use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

/// Write the facts that the audit needs as Parquet, without payload
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Extract {
    /// The folder for the tables, made if absent; - for one Arrow IPC stream on standard output
    ///
    /// exchanges and events are in partitions by session. Facts of other captures in it stay: files are named by
    /// what is in them. The stream is for engines that audit in parts: events lie within their exchanges.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: PathBuf,
    /// A header of the answers that names the incarnation of a session
    #[arg(long, value_name = "NAME", value_parser = values::header)]
    incarnation_header: Option<String>,
    /// A header that names the backend, besides the usual ones; repeatable
    #[arg(long, value_name = "NAME", value_parser = values::header)]
    backend_header: Vec<String>,
    #[command(flatten)]
    reading: Reading,
}

/// Runs the command.
pub(crate) fn run(command: &Extract) -> anyhow::Result<u8> {
    let options = Options {
        incarnation_header: command.incarnation_header.clone(),
        backend_headers: command.backend_header.clone(),
        ..command.reading.options()?
    };
    if command.out == Path::new("-") {
        let facts = command.reading.extract(&options)?;
        output::print(|out| facts::write_stream(&facts, out))?;
        return Ok(exit_code(&facts));
    }
    keep_apart(&command.out, &options.inputs)?;
    let facts = command.reading.extract(&options)?;
    let written = write(&command.out, &facts)?;
    if !command.reading.quiet {
        output::print(|out| {
            let events: usize = facts
                .exchanges
                .iter()
                .map(|exchange| exchange.events.len())
                .sum();
            writeln!(
                out,
                "Facts of {} inputs, {} exchanges and {events} events: {} files, {} bytes.",
                facts.inputs.len(),
                facts.exchanges.len(),
                written.files,
                written.bytes
            )
        })?;
    }
    Ok(exit_code(&facts))
}

fn exit_code(facts: &Facts) -> u8 {
    if facts.inputs.iter().any(is_unreadable) {
        USAGE
    } else {
        FINE
    }
}

/// Refuses a folder in one that is searched for captures: next time its facts would be read together with what they
/// were extracted from.
fn keep_apart(out: &Path, inputs: &[String]) -> anyhow::Result<()> {
    // Of what is not there yet, the folder that it will be made in.
    let there = out
        .ancestors()
        .find_map(|path| match path.as_os_str().is_empty() {
            true => fs::canonicalize(".").ok(),
            false => fs::canonicalize(path).ok(),
        });
    for input in inputs {
        let folder = fs::canonicalize(input).ok().filter(|path| path.is_dir());
        if let (Some(there), Some(folder)) = (&there, folder)
            && there.starts_with(&folder)
        {
            let mut name = String::new();
            escape_name_to(input, &mut name);
            anyhow::bail!(
                "{}: no facts were written, for it lies in {name}, which is searched for captures",
                out.display()
            );
        }
    }
    Ok(())
}

/// What was written.
#[derive(Default)]
struct Written {
    files: usize,
    bytes: usize,
}

fn write(dir: &Path, facts: &Facts) -> anyhow::Result<Written> {
    folder::make(dir, "facts")?;
    interrupt::watch().with_context(|| format!("{}: cannot write facts", dir.display()))?;
    let files = facts::write(facts)?;
    let mut unnamed = Vec::new();
    let mut written = Written::default();
    for file in &files {
        let path = dir.join(&file.path);
        let write = || -> io::Result<_> {
            let below = path.parent().unwrap_or(dir);
            fs::create_dir_all(below)?;
            let mut out = folder::unnamed(below)?;
            out.write_all(&file.bytes)?;
            Ok(out.into_temp_path())
        };
        let temporary = write().with_context(|| format!("{}: cannot write", path.display()))?;
        written.files += 1;
        written.bytes += file.bytes.len();
        unnamed.push((temporary, path));
    }
    // All are there before the first has its name.
    for (temporary, path) in unnamed {
        interrupt::finish(temporary, &path)
            .with_context(|| format!("{}: cannot write", path.display()))?;
    }
    if facts.exchanges.is_empty() {
        complain(&format!("{}: no HTTP exchange was found", dir.display()));
    }
    Ok(written)
}

const EXAMPLES: &str = "\
Examples:
  forkscope extract -o facts captures/        on each tap
  forkscope audit -o reports facts/           the reports of the captures
  forkscope audit tap-a/facts tap-b/facts last-hour.pcap
  forkscope extract --redact=team.key -o for-the-vendor captures/
  forkscope extract -o - tap-a/*.pcap         for an engine (see learn)";
