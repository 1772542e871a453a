//! Facts ⇄ Parquet: what the roads give to the audit, kept in files that engines read as well.
//!
//! An extract is what one run gave: the tables `runs`, `inputs`, `exchanges` and `events` (docs/facts.md), of
//! which the last two are in partitions by session. [`write()`] makes them, [`read()`] reads a file, and [`join()`]
//! puts those of one extract together again. No payload is in them, and whatever the audit reads is: reports of
//! facts are those of the captures.

#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation
)]

mod columns;
mod join;
mod pages;
mod read;
mod seal;
mod stream;
#[cfg(test)]
mod tests;
mod words;
mod write;

pub use join::{Joined, Whole, join};
pub use read::{Table, read};
pub use stream::{key, read_stream, write_stream};
pub use write::{File, partition, schemas, write};

use crate::{
    anomaly::Anomalies,
    model::{
        analysis::{Input, KeyLog, Opaque},
        exchange::{Exchange, Window},
        flow::ServerFacts,
        id::SessionId,
        place::InputId,
        time::Span,
    },
};
use std::collections::BTreeMap;

/// The version of the tables. Another one is not read.
pub const VERSION: u32 = 1;

/// Partitions of exchanges and events, by a hash of the session.
pub const PARTS: u8 = 16;

/// What one run gave.
#[derive(Debug, Default)]
pub struct Facts {
    /// How it was read, where that changes what is read: the same for all that is audited together.
    pub settings: String,
    /// The inputs, with what was counted of them while they were read.
    pub inputs: Vec<Input>,
    /// How many of them, the first ones, were not found at all.
    pub missing: usize,
    /// In the order in which the roads gave them.
    pub exchanges: Vec<Exchange>,
    /// The session that each exchange is put to, parallel to them: all of a session are in one partition.
    pub sessions: Vec<Option<SessionId>>,
    /// Oddities.
    pub anomalies: Anomalies,
    /// From the first packet or entry to the last.
    pub window: Window,
    /// What packets show of servers.
    pub servers: ServerFacts,
    /// What could not be read.
    pub opaque: Vec<Opaque>,
    /// The key logs that were named.
    pub key_logs: Vec<KeyLog>,
    /// Inputs whose clocks are ahead of that of another.
    pub ahead: BTreeMap<InputId, (Span, InputId)>,
}

/// The key of a file's metadata that has the version, and the one that names the table.
const VERSION_KEY: &str = "forkscope.facts";
const TABLE_KEY: &str = "forkscope.table";

/// The tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Runs,
    Inputs,
    Exchanges,
    Events,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Runs, Self::Inputs, Self::Exchanges, Self::Events];

    const fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Inputs => "inputs",
            Self::Exchanges => "exchanges",
            Self::Events => "events",
        }
    }
}
