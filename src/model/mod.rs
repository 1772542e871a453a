//! Plain data that two stages share. No parsing, no input or output; only types that cross a
//! boundary live here (ARCHITECTURE.md, "Star of imports").

pub mod analysis;
pub mod case;
pub mod coverage;
pub mod elsewhere;
pub mod event;
pub mod exchange;
pub mod flow;
pub mod har;
pub mod id;
pub mod message;
pub mod packet;
pub mod place;
pub mod prose;
pub mod session;
pub mod time;
pub mod verdict;
