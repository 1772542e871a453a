//! Typed flags to options; a file a command.

mod audit;
mod completions;
mod events;
mod evidence;
mod exchanges;
mod explain;
mod extract;
mod folder;
mod interrupt;
mod learn;
mod man;
mod output;
mod progress;
mod reading;
mod stream;
mod values;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use forkscope::report::TimeFormat;
use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

/// Runs the command that the arguments name.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output; a closed pipe there is no failure.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
        }
    };
    let color = cli.color;
    let outcome = match cli.command {
        Command::Audit(command) => audit::run(&command, color),
        Command::Events(command) => events::run(&command),
        Command::Exchanges(command) => exchanges::run(&command),
        Command::Extract(command) => extract::run(&command),
        Command::Learn(command) => learn::run(&command),
        Command::Explain(command) => explain::run(&command, color),
        Command::Completions(command) => completions::run(&command, &mut Cli::command()),
        Command::Man(command) => man::run(&command, Cli::command()),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::from(USAGE)
        }
    }
}

/// Audited (or done), and nothing at or above the severity that fails.
pub(crate) const FINE: u8 = 0;

/// A finding at or above the severity that fails.
pub(crate) const FOUND: u8 = 1;

/// Wrong usage, or something that could not be read or written at all.
pub(crate) const USAGE: u8 = 2;

/// Says `what` in one line on standard error. When that cannot be written there is nobody left
/// to tell.
pub(crate) fn complain(what: &str) {
    let _ = writeln!(io::stderr().lock(), "forkscope: {what}");
}

/// Finds silently forked MCP sessions in captured traffic.
///
/// Reads pcap, pcapng, HAR and facts that were extracted of them, rebuilds HTTP and server-sent events, groups them into MCP
/// sessions, and says of every resume (a GET with Last-Event-ID) whether it continued the
/// session or was attached to another event log under the same session id.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = EXAMPLES, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// When to use colours; auto keeps to NO_COLOR and CLICOLOR_FORCE
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

#[derive(Debug, Subcommand)]
enum Command {
    Audit(audit::Audit),
    Events(events::Events),
    Exchanges(exchanges::Exchanges),
    Extract(extract::Extract),
    Learn(learn::Learn),
    Explain(explain::Explain),
    Completions(completions::Completions),
    Man(man::Man),
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// When standard output is a terminal, or CLICOLOR_FORCE is set, and NO_COLOR is not
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Whether standard output gets colours.
    pub(crate) fn wanted(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                let value = |name| std::env::var_os(name).filter(|value| !value.is_empty());
                let is = |name, text: &str| value(name).is_some_and(|value| value == *text);
                // Who wants none (no-color.org) comes before who wants them without a terminal
                // (bixense.com/clicolors).
                if value("NO_COLOR").is_some() || is("CLICOLOR", "0") {
                    return false;
                }
                if value("CLICOLOR_FORCE").is_some_and(|value| value != "0") {
                    return true;
                }
                io::stdout().is_terminal() && !is("TERM", "dumb")
            }
        }
    }
}

/// Columns to break text for: `COLUMNS` where it is set, else the terminal's, else 80.
pub(crate) fn width() -> usize {
    extent("COLUMNS", |(columns, _)| columns.0).unwrap_or(80)
}

/// Lines of a screen, without that of the prompt: `LINES` where it is set, else the terminal's; else `default`,
/// as nobody knows where it will be read.
pub(crate) fn height(default: usize) -> usize {
    extent("LINES", |(_, rows)| rows.0).map_or(default, |rows| rows.saturating_sub(1))
}

/// What `variable` says, else the terminal.
fn extent(
    variable: &str,
    of: impl Fn((terminal_size::Width, terminal_size::Height)) -> u16,
) -> Option<usize> {
    let asked = std::env::var(variable).ok();
    asked
        .and_then(|number| number.parse().ok())
        .or_else(|| terminal_size::terminal_size_of(io::stdout()).map(|size| usize::from(of(size))))
        .filter(|&number| number > 0)
}

/// How times are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Time {
    /// RFC 3339 in UTC
    Utc,
    /// Seconds since the Unix epoch
    Epoch,
}

impl From<Time> for TimeFormat {
    fn from(time: Time) -> Self {
        match time {
            Time::Utc => Self::Utc,
            Time::Epoch => Self::Epoch,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  forkscope audit capture.pcapng              what happened, worst first
  forkscope audit -o reports captures/        every report of a folder of captures
  tcpdump -w - port 8080 | forkscope audit -  standard input
  forkscope explain sequence-regression       what a finding means

Exit codes: 0 nothing at or above --fail-on; 1 such a finding; 2 wrong usage,
or an input that could not be read at all.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_hold_together() {
        Cli::command().debug_assert();
    }
}
