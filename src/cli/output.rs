//! Standard output: results alone, and a closed pipe is the end of it, not a failure.

use anyhow::Context;
use std::io::{self, BufWriter, ErrorKind, Write};

/// Writes to standard output what `write` makes. Whoever reads it may stop reading.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            // What is left in the buffer has nowhere to go.
            let _ = out.into_parts();
            Ok(())
        }
        result => result.context("writing to standard output"),
    }
}

/// Formats of a table on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Rows {
    /// RFC 4180, with a header row
    Csv,
    /// A JSON object on a line each
    Ndjson,
}
