//! The only file that names every stage: wires them from inputs to the finished analysis.

use crate::{
    error::Error,
    limits::Limits,
    model::{analysis::Analysis, time::Span},
};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// What to read and how to read it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Files, folders, or `-` for standard input.
    pub inputs: Vec<String>,
    /// The header that names a session; compared without case.
    pub session_header: String,
    /// A header that names the incarnation of a session.
    pub incarnation_header: Option<String>,
    /// Headers that name a backend, besides the usual ones.
    pub backend_headers: Vec<String>,
    /// Only exchanges with these servers, when there are any: host, and a port if one matters.
    pub servers: Vec<(String, Option<u16>)>,
    /// Judge any event stream with a cursor, one session per client and URL.
    pub all_sse: bool,
    /// Incident window.
    pub window: Span,
    /// Threads; 0 for one a core.
    pub jobs: usize,
    /// Caps.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            inputs: Vec::new(),
            session_header: "mcp-session-id".to_owned(),
            incarnation_header: None,
            backend_headers: Vec::new(),
            servers: Vec::new(),
            all_sse: false,
            window: Span::from_secs(2),
            jobs: 0,
            limits: Limits::default(),
        }
    }
}

/// How far a run is: bytes of the inputs as stored (compressed), read by a progress bar.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes read so far.
    pub done: AtomicU64,
    /// Bytes in all; 0 until known, and for standard input.
    pub total: AtomicU64,
    /// Set when there is no more to read.
    pub finished: AtomicBool,
}

/// Reads every input and audits what is in them.
///
/// Inputs that cannot be read are rows of the analysis with [`unreadable`] set; the run goes on
/// with the others.
///
/// [`unreadable`]: crate::model::analysis::Input::unreadable
///
/// # Errors
///
/// When options contradict each other.
pub fn run(_options: &Options, _progress: &Progress) -> Result<Analysis, Error> {
    Ok(Analysis::default())
}
