//! What TLS says before it is encrypted: the name of the server that the client asks for.

#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation
)]

mod hello;

pub use hello::{HANDSHAKE, Hello, LONGEST, server_name};
