//! Every cap in one place, with its default and its reason. Reaching one is an anomaly and ends
//! that flow (or that item) alone.

use crate::model::time::Span;

/// Caps on what hostile or enormous input may cost, and the windows of patience.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest capture block or packet: 16 MiB. Wireshark refuses packets above 256 KiB for most
    /// link types; blocks with comments and secrets are larger.
    pub block: usize,
    /// IP packets within an IP packet. A mirrored frame of an overlay on another's underlay has
    /// three or four.
    pub tunnels: u8,
    /// Fragmented IP packets remembered at once, complete or not: the oldest is let go.
    pub fragmented: usize,
    /// Memory for the fragments of incomplete IP packets: 16 MiB, four times what Linux keeps.
    pub fragment_bytes: usize,
    /// Capture time after which the fragments of an IP packet are let go: 30 s, as Linux does
    /// (`net.ipv4.ipfrag_time`). Identifiers are used again soon after.
    pub fragment_time: Span,
    /// Out-of-order bytes held for one direction of one connection: 4 MiB, a generous receive
    /// window.
    pub out_of_order: usize,
    /// Out-of-order bytes held for all connections of each of 16 shards: 64 MiB. A direction may hold an
    /// [eighth](OUT_OF_ORDER_SHARE) of what is free of it, so that those that hold much give way to those
    /// that hold little.
    pub all_out_of_order: usize,
    /// Packets of one direction after a gap before its bytes are called lost: past any reordering
    /// that paths and taps do.
    pub reorder_packets: u32,
    /// Capture time after a gap before its bytes are called lost: past a retransmission timeout
    /// and its first doublings (RFC 6298).
    pub reorder_time: Span,
    /// Idle capture time after which a connection without FIN or RST is let go: 4 hours. An idle
    /// event stream with keep-alives never gets there.
    pub idle: Span,
    /// Connections held at once by each of 16 shards: 16 Ki, a quarter of a million in all, of up to 3 KiB
    /// each beside what they hold of bodies. Those without any payload give way first.
    pub connections: usize,
    /// Sessions of TLS whose secrets are kept: a million, of some 500 bytes each. What a proxy logs in days.
    pub tls_sessions: usize,
    /// Bytes of a TLS connection that are held until the ServerHello says how to read them, or the server
    /// whether it takes early data: 1 MiB. Servers take 16 KiB of early data.
    pub tls_held: usize,
    /// Bytes of records that are not complete, or held, for all TLS connections of each of 16 shards: 32 MiB,
    /// two thousand records of full length.
    pub all_tls_held: usize,
    /// Bytes that are tried to find the next TLS record and its number after a hole: 64 MiB, a tenth of a
    /// second. A hole of 100 KB has some hundred records, and is tried with some megabytes.
    pub tls_trial: u64,
    /// Bytes that are tried so for all TLS connections of each of 16 shards: 1 GiB, a second or two. Captures can
    /// be made of holes.
    pub all_tls_trials: u64,
    /// Head of a request or response: 256 KiB; servers refuse at 8 to 64 KiB. In HTTP/2 that of the header
    /// block, in as many frames as it takes, and once more that of the fields it is decoded to.
    pub head: usize,
    /// Headers of one head.
    pub headers: usize,
    /// Requests waiting for their response on one connection (pipelining).
    pub pipelined: usize,
    /// Streams of one HTTP/2 connection that are open at once: 1024. Servers allow 100 to 250; clients that
    /// drop streams without telling leave more open. Beyond it the oldest is let go.
    pub streams: usize,
    /// Bytes kept of the table that header fields of one HTTP/2 direction are referred to in: 64 KiB, what
    /// browsers allow; the default is 4 KiB. Of a larger table the older fields are unknown.
    pub header_table: usize,
    /// Response bytes held while the request they answer is late in the capture.
    pub early_response: usize,
    /// A JSON body kept to be read: 64 MiB. Tool results with images are megabytes.
    pub json_body: usize,
    /// Nesting of JSON (the parser's own limit).
    pub json_depth: usize,
    /// Decoded bytes of bodies and events that the exchanges of each of 16 shards hold until they end: 96 MiB,
    /// room for one body at its cap and another half. Few bytes on the wire may be many decoded, and
    /// connections of which the end is missing hold them for long.
    pub held_bodies: usize,
    /// Text of an error body kept to see what it speaks of.
    pub error_body: usize,
    /// One line of an event stream, and one event's data: 64 MiB, as a JSON body.
    pub event: usize,
    /// Events of one response: a million, which is a day of ten a second. Four bytes make one, and it is kept
    /// as a hundred.
    pub events: usize,
    /// Decoded bytes for one encoded byte, past the first mebibyte: above it, it is a bomb.
    pub expansion: usize,
    /// Bytes that a compressed input may become however short it is: 1 GiB. Above it, it may become
    /// [`expansion`](Self::expansion) times what it is. Memory does not grow with it, but time does, and
    /// Zstandard makes 128 KiB of four bytes.
    pub free_expansion: u64,
    /// Length of an id or header value kept: 8 KiB.
    pub text: usize,
    /// A HAR entry: 256 MiB of text.
    pub har_entry: usize,
    /// Bytes that what is read of facts at a time may become: 1 GiB. Pages of an extract have a mebibyte for each of some
    /// hundred columns, or what one row has.
    pub facts_pages: u64,
    /// Refusals of connections, and ends of torn ones, that each shard remembers: a scan of ports must not
    /// fill the memory. Beyond it, less is known of when servers started and what was seen whole.
    pub server_facts: usize,
    /// TLS connections of an input that are named because not all of them was read: 1000; a report is read by
    /// people, and the counts have all.
    pub unread_tls: usize,
    /// Findings that get a file of evidence, the worst first: 100, more than anybody opens, and few enough for
    /// their files to be open at once beside the inputs.
    pub evidence_files: usize,
    /// Packets in one file of evidence: 4 MiB, many times what a session without large results has. A connection of
    /// hundreds of megabytes is not copied whole.
    pub evidence_bytes: u64,
    /// Deliveries that the resumes of one session are held against, in all: 8 million. A thousand resumes of
    /// cursors with a thousand messages behind each are one. Past it, what a resume brought is not judged.
    pub history_looks: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            block: 16 << 20,
            tunnels: 8,
            fragmented: 16 << 10,
            fragment_bytes: 16 << 20,
            fragment_time: Span::from_secs(30),
            out_of_order: 4 << 20,
            all_out_of_order: 64 << 20,
            reorder_packets: 64,
            reorder_time: Span::from_secs(3),
            idle: Span::from_secs(4 * 3600),
            connections: 1 << 14,
            tls_sessions: 1 << 20,
            tls_held: 1 << 20,
            all_tls_held: 32 << 20,
            tls_trial: 64 << 20,
            all_tls_trials: 1 << 30,
            head: 256 << 10,
            headers: 512,
            pipelined: 4096,
            streams: 1024,
            header_table: 64 << 10,
            early_response: 4 << 20,
            json_body: 64 << 20,
            json_depth: 128,
            held_bodies: 96 << 20,
            error_body: 8 << 10,
            event: 64 << 20,
            events: 1 << 20,
            expansion: 1000,
            free_expansion: 1 << 30,
            text: 8 << 10,
            har_entry: 256 << 20,
            facts_pages: 1 << 30,
            server_facts: 1 << 16,
            unread_tls: 1000,
            evidence_files: 100,
            evidence_bytes: 4 << 20,
            history_looks: 8_000_000,
        }
    }
}

/// The part of the free room for out-of-order bytes that one direction may hold is one in so many (dynamic
/// thresholds, as switches share their buffers: Choudhury and Hahne 1998).
pub const OUT_OF_ORDER_SHARE: usize = 8;

/// Headers below one IP header: tags, label stacks, pseudowires within each other.
pub const LINK_HEADERS: usize = 32;
