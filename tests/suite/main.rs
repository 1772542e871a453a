//! The one integration suite: conversations as text, real captures, the command line, the layers of
//! the code.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken fixture or a broken harness is best told by the panic that names it"
)]

// Conversations as text and how they become captures.
mod talk;

// Every talk of fixtures/talks, over every road and impaired.
mod talks;

// Corner cases of TCP and HTTP through the whole of an audit.
mod corners;

// Taps that see the same traffic, and copies of packets.
mod taps;
// The examples in the documentation of every finding, which are talks.
mod examples;

// The page of field reports, held against the talks that show them.
mod reports;

// Many files: rings, overlaps, copies, clocks, pipes; and what is said of what cannot be read.
mod inputs;

// Link types, tunnels and fragments, and that they change no report.
mod links;

// What is said of captures with packets missing, held against the whole ones.
mod loss;

// Every capture of fixtures/real, held against its known answer.
mod real;

// HARs as each producer writes them, and what happens to them on their way.
mod har;

// How streams of HTTP/2 end.
mod h2;

// Reassembly, held against Wireshark's own.
mod follow;

// TLS: captures of openssl and rustls, talks over TLS, and keys that lack, are wrong or come late.
mod tls;

// Makes the captures of rustls for it, on real sockets.
mod sockets;

// What Wireshark reads of the same captures, and what nginx's clients got.
mod wireshark;

// Which part of src/ may import which.
mod layers;

// Changed and hostile captures, through the checks that the fuzzers run.
mod fuzz;

// The captures of evidence, audited again and opened by Wireshark.
mod evidence;

// report.html in a real browser.
mod browser;

// The binary as people run it: arguments, exit codes, what goes where.
mod cli;

// Reports that hide names: searched for every secret of every fixture.
mod redact;
mod redacted_facts;

// Facts as Parquet, audited again.
mod facts;

// Audits in parts, as engines make them.
mod parts;

// Pages and reports that are generated from the code, held against the committed ones.
mod docs;

// What is written for other tools, held against their schemas and grammars.
mod formats;

// The recipes of docs/recipes.md, run.
mod recipes;
