//! The command line: arguments to the library, and what it says to an exit code.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
