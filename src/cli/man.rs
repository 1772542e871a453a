//! `forkscope man`: the manual page, made from the definitions of the flags.

use super::{FINE, output};
use clap::{Args, Command};

/// The manual page, for man -l -
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The page of a command instead
    #[arg(value_parser = ["audit", "events", "exchanges", "explain", "completions", "man"])]
    command: Option<String>,
}

/// Runs the command.
pub(crate) fn run(man: &Man, mut command: Command) -> anyhow::Result<u8> {
    command.build();
    let page = man
        .command
        .as_ref()
        .and_then(|name| command.find_subcommand(name).cloned())
        .unwrap_or(command);
    output::print(|out| clap_mangen::Man::new(page).render(&mut &mut *out))?;
    Ok(FINE)
}
