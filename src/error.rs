//! What stops a run, or keeps one input from being read at all.

use std::{io, path::Path};

/// Why something cannot go on. The message names the file, and the offset where there is one.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Error {
    what: String,
    #[source]
    source: Option<io::Error>,
}

impl Error {
    /// A file or folder that cannot be opened, read or written.
    #[must_use]
    pub fn io(doing: &str, path: &Path, source: io::Error) -> Self {
        Self {
            what: format!("{doing} {}: {source}", path.display()),
            source: Some(source),
        }
    }

    /// Anything else, said in one line that names the input.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            source: None,
        }
    }

    /// The underlying input/output error, when there is one.
    #[must_use]
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.source.as_ref().map(io::Error::kind)
    }
}
