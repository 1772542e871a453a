//! Exchanges → sessions: JSON-RPC messages, protocol revisions, grouping, streams, vantages.

mod json;
pub mod message;
pub mod revision;
pub mod session;
pub mod stream;
pub mod vantage;
