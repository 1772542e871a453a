//! Where an item came from: every fact carries it, so that a report can point at the evidence.

use super::time::Timestamp;

/// Which input of the run: an index into [`super::analysis::Analysis::inputs`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InputId(pub u32);

/// A place in the evidence.
///
/// For packets, `frame` and `tcp_stream` are Wireshark's own numbers for that file
/// (`frame.number` counts from 1, `tcp.stream` from 0). For a HAR, `frame` is the entry's place
/// in the file counting from 1, and there is no TCP stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The input.
    pub input: InputId,
    /// Wireshark's `frame.number`, or a HAR entry's number; 0 when there is none.
    pub frame: u32,
    /// Wireshark's `tcp.stream`; `None` in a HAR.
    pub tcp_stream: Option<u32>,
}

/// When and where bytes were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Capture time of the packet (or of the HAR's statement).
    pub time: Timestamp,
    /// The packet.
    pub place: Place,
    /// Offset in its direction's TCP stream just past the bytes in question (the first byte of
    /// data after the SYN, or the first one captured, is offset 0). 0 in a HAR.
    pub offset: u64,
}
