//! `forkscope man`: the manual page, made from the definitions of the flags.

use super::{FINE, output};
use clap::{Args, Command};
use std::io::{self, Write};

/// The manual page, for man -l -
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// The page of a command instead
    #[arg(value_parser = ["audit", "events", "exchanges", "explain", "completions", "man"])]
    command: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  forkscope man | man -l -
  forkscope man audit > ~/.local/share/man/man1/forkscope-audit.1";

/// Runs the command.
pub(crate) fn run(man: &Man, mut command: Command) -> anyhow::Result<u8> {
    command.build();
    let page = man
        .command
        .as_ref()
        .and_then(|name| command.find_subcommand(name).cloned())
        .unwrap_or(command);
    output::print(|out| write(page, out))?;
    Ok(FINE)
}

/// Writes the page of `command`: clap's sections, but the text after the options as it stands.
/// Filled into paragraphs, no example could be copied.
fn write(command: Command, mut out: &mut dyn Write) -> io::Result<()> {
    let after = command.get_after_help().map(ToString::to_string);
    let commands = command.has_subcommands();
    let page = clap_mangen::Man::new(command);
    page.render_title(&mut out)?;
    page.render_name_section(&mut out)?;
    page.render_synopsis_section(&mut out)?;
    page.render_description_section(&mut out)?;
    page.render_options_section(&mut out)?;
    if commands {
        page.render_subcommands_section(&mut out)?;
    }
    for section in after.iter().flat_map(|text| text.split("\n\n")) {
        let (title, text) = section.split_once(':').unwrap_or(("Notes", section));
        writeln!(out, ".SH {}\n.nf", title.to_uppercase())?;
        for line in text.trim_start_matches('\n').lines() {
            // `\&` keeps a dot or quote at the start of a line from being a request.
            let line = line.replace('\\', "\\e").replace('-', "\\-");
            writeln!(out, "\\&{}", line.trim_start())?;
        }
        writeln!(out, ".fi")?;
    }
    page.render_version_section(&mut out)
}
