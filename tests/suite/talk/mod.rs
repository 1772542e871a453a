//! Talks: conversations as text, rendered as captures. The syntax is in fixtures/talks/README.md.
//!
//! `parse` reads the text into `model`; `wire` turns each line into bytes of HTTP/1.1, `wire_h2`
//! of HTTP/2, `tcp` the bytes into packets, `impair` ill-treats those, `render_pcap` and
//! `render_pcapng` put them into files. `tls` puts TLS between the bytes and the packets.
//! `render_har` goes from the model straight to a HAR, as a browser would have written it.

pub(crate) mod expect;
pub(crate) mod impair;
pub(crate) mod model;
pub(crate) mod parse;
pub(crate) mod render_har;
pub(crate) mod render_pcap;
pub(crate) mod render_pcapng;
pub(crate) mod tcp;
pub(crate) mod tls;
pub(crate) mod wire;
pub(crate) mod wire_h2;
