//! Streams of facts between engines and forkscope: a file, or standard input.

use anyhow::Context;
use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

/// Gives a stream to who reads it, and says which it was when that goes wrong.
pub(crate) fn read<T>(
    path: &Path,
    take: impl FnOnce(&mut (dyn Read + Send)) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    if path == Path::new("-") {
        let mut stdin = BufReader::with_capacity(BUFFER, io::stdin());
        take(&mut stdin).context("cannot read standard input")
    } else {
        let open = || take(&mut BufReader::with_capacity(BUFFER, File::open(path)?));
        open().with_context(|| format!("cannot read {}", path.display()))
    }
}

const BUFFER: usize = 1 << 20;
