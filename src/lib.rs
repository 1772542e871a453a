//! Finds silently forked MCP sessions in captured traffic.
//!
//! Data runs in a line, imports form a star: see ARCHITECTURE.md.

pub mod anomaly;
pub mod audit;
pub mod error;
pub mod facts;
pub mod finding;
pub mod http;
pub mod input;
pub mod ip;
pub mod limits;
pub mod link;
pub mod mcp;
pub mod model;
pub mod pipeline;
pub mod redact;
pub mod report;
pub mod sse;
pub mod tcp;
pub mod tls;
