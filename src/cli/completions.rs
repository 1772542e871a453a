//! `forkscope completions`: for a shell, made from the definitions of the flags.

use super::{FINE, output};
use clap::{Args, Command};
use clap_complete::Shell;

/// Completions for a shell
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  forkscope completions bash > ~/.local/share/bash-completion/completions/forkscope
  forkscope completions zsh > ~/.zfunc/_forkscope
  forkscope completions fish > ~/.config/fish/completions/forkscope.fish";

/// Runs the command.
pub(crate) fn run(completions: &Completions, command: &mut Command) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, command, "forkscope", &mut script);
    output::print(|out| out.write_all(&script))?;
    Ok(FINE)
}
