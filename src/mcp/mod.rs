//! What MCP adds to HTTP and events: JSON-RPC messages, protocol revisions, sessions.

pub mod message;
