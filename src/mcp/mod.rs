//! Exchanges → sessions: JSON-RPC messages, protocol revisions, grouping, streams.

pub mod message;
pub mod revision;
pub mod session;
pub mod stream;
