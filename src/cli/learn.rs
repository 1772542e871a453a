//! `forkscope learn`: what parts of a run teach of all of it, for engines that audit it in parts.

use super::{FINE, output, stream, values};
use anyhow::Context;
use clap::{Args, ValueHint};
use forkscope::pipeline::{self, Learnt, Options};
use std::{fs::File, io::BufReader, path::PathBuf};

/// Learn from facts what an audit in parts needs of all of them
///
/// An engine deals out the rows of `extract -o -`: to each process all rows of runs and inputs, and the exchanges of
/// some partitions (the column `part`) as a whole. What they write is merged by giving it to `learn --learnt`, which tells which
/// keys (the column `key`) have to be audited together. docs/scale.md has the whole of it.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Learn {
    /// Rows of facts as an Arrow IPC stream: a file, or - for standard input
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        required_unless_present = "learnt",
        conflicts_with = "learnt"
    )]
    facts: Option<PathBuf>,
    /// What was learnt of parts, to be put together; repeatable
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    learnt: Vec<PathBuf>,
    /// Another header than Mcp-Session-Id, as the facts were extracted with
    #[arg(long, value_name = "NAME", value_parser = values::header)]
    session_header: Option<String>,
    /// The facts were extracted with --all-sse
    #[arg(long)]
    all_sse: bool,
    /// The header of incarnations that the facts were extracted with
    #[arg(long, value_name = "NAME", value_parser = values::header)]
    incarnation_header: Option<String>,
    /// The headers of backends that the facts were extracted with; repeatable
    #[arg(long, value_name = "NAME", value_parser = values::header)]
    backend_header: Vec<String>,
    /// Threads, at most 256; 0 for one a core
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    jobs: usize,
}

/// Runs the command.
pub(crate) fn run(command: &Learn) -> anyhow::Result<u8> {
    let learnt = match &command.facts {
        Some(path) => {
            let defaults = Options::default();
            let options = Options {
                session_header: command
                    .session_header
                    .clone()
                    .unwrap_or(defaults.session_header),
                incarnation_header: command.incarnation_header.clone(),
                backend_headers: command.backend_header.clone(),
                all_sse: command.all_sse,
                jobs: command.jobs,
                ..Options::default()
            };
            stream::read(path, |facts| Ok(pipeline::learn(&options, facts)?))?
        }
        None => {
            let mut all = read(&command.learnt)?;
            all.conclude();
            all
        }
    };
    output::print(|out| learnt.write(out))?;
    Ok(FINE)
}

/// Reads what was learnt, and puts it together.
pub(crate) fn read(files: &[PathBuf]) -> anyhow::Result<Learnt> {
    let mut all = Learnt::default();
    for path in files {
        let mut take = || {
            let file = File::open(path)?;
            all.merge(Learnt::read(BufReader::new(file))?)?;
            anyhow::Ok(())
        };
        take().with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(all)
}

const EXAMPLES: &str = "\
Examples:
  forkscope extract -o - tap-a/*.pcap > facts.arrow
  forkscope learn --facts facts.arrow > part.jsonl
  forkscope learn --learnt part.jsonl --learnt other-part.jsonl > learnt.jsonl
  forkscope audit --facts facts.arrow --learnt learnt.jsonl > judged.arrow";
