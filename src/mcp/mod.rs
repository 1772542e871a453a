//! Exchanges → sessions: JSON-RPC, protocol revisions, grouping, streams.

pub mod revision;
pub mod session;
pub mod stream;
