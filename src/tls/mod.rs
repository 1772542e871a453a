//! The bytes of a TLS connection → what it protects, for a bystander who has the secrets of its session: TLS
//! 1.2 (RFC 5246) and TLS 1.3 (RFC 8446).
//!
//! A [`Connection`] takes both ordered byte streams with their holes. It cuts them into records, reads the
//! hellos, and opens what follows with the secrets that a [key log](Secrets) has for the client's random. What
//! it hands on has the time and place at which its record was complete, and the offset of the record's end: an
//! acknowledgment that covers a record covers what is in it.
//!
//! # Holes
//!
//! A hole costs the records that it touches, and no others. Where it lies within a record whose header is
//! there, the next record's place and number are known. Else every byte that may begin a record is tried with
//! every number that fits into the hole: that a record opens is proof. How much is tried for one hole is
//! [limited](crate::limits::Limits::tls_trial).
//!
//! # Secrets that are not there
//!
//! Without the secrets of the handshake what follows is found by trying the first application key on each
//! record. When a direction cannot be read, its bytes are told as missing; when none can, the connection is
//! [opaque](Outcome::Opaque).

#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation
)]

mod cipher;
mod connection;
mod cursor;
mod facts;
mod half;
mod handshake;
mod hello;
mod keylog;
mod schedule;
mod suite;

pub use connection::{Begins, Connection, Outcome, Reason, begins, is_hello};
pub use half::Budget;
pub use keylog::{Line, Lines, Random, Secrets};

use crate::{
    anomaly::Kind,
    model::{flow::Side, place::At},
};

/// Takes what a connection protects.
pub trait Sink {
    /// Bytes of `sender`, in order. `at` is when and where the record that carried them was complete;
    /// `at.offset` lies just past it.
    fn data(&mut self, sender: Side, bytes: &[u8], at: At);

    /// Bytes of `sender` that are missing or cannot be opened; what follows is after them. How many is exact
    /// where that can be told, and never 0.
    fn hole(&mut self, sender: Side, bytes: u64, at: At);

    /// Something odd.
    fn anomaly(&mut self, kind: Kind, at: At, detail: String);
}
