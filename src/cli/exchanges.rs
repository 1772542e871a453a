//! `forkscope exchanges`: a row each.

use super::{
    FINE, USAGE, output,
    reading::{Reading, any_unreadable},
};
use clap::Args;
use forkscope::report;

/// Every HTTP exchange, a row each
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Exchanges {
    #[command(flatten)]
    reading: Reading,
    /// What goes to standard output
    #[arg(long, value_name = "FORM", default_value = "csv")]
    format: output::Rows,
}

/// Runs the command.
pub(crate) fn run(command: &Exchanges) -> anyhow::Result<u8> {
    let analysis = command.reading.run(&command.reading.options()?)?;
    let style = command.reading.style(false, false);
    let report = match command.format {
        output::Rows::Csv => &report::EXCHANGES,
        output::Rows::Ndjson => &report::EXCHANGES_NDJSON,
    };
    output::print(|out| (report.write)(&analysis, &style, out))?;
    Ok(if any_unreadable(&analysis) {
        USAGE
    } else {
        FINE
    })
}

const EXAMPLES: &str = "\
Examples:
  forkscope exchanges capture.pcapng > exchanges.csv
  forkscope exchanges --format ndjson capture.pcapng | jq .session_id
  forkscope exchanges --redact=team.key capture.pcapng > given-away.csv";
