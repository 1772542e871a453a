//! What is odd in a capture or on the wire: counted, with a few examples kept, never a reason to
//! stop and never a judgement.

use crate::model::{
    place::{InputId, Place},
    prose::Prose,
};
use std::collections::BTreeMap;

/// Declares [`Kind`] and lists all of it, so that neither can lack one.
macro_rules! kinds {
    ($($(#[doc = $about:literal])+ $kind:ident,)+) => {
        /// The kinds of oddity. The name is what reports show.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[doc = $about])+ $kind,)+
        }

        impl Kind {
            /// All of them, in the order that reports show.
            pub const ALL: &[Self] = &[$(Self::$kind),+];
        }
    };
}

kinds! {
    // The capture file
    /// The file ends in the middle of a packet, block or entry.
    FileCut,
    /// A block or packet header that makes no sense; what follows could not be read.
    BadBlock,
    /// A packet refers to an interface that no block described.
    UnknownInterface,
    /// A HAR entry that could not be read.
    BadEntry,
    /// The same HAR entry twice; the copy is left out.
    DuplicateEntry,
    /// An input that was given twice: by another name of it, or as a file of the same bytes.
    DuplicateInput,
    /// A packet that was captured long before the one that stands before it.
    TimeBackwards,
    // Links and packets
    /// A link type that is not read.
    UnknownLinkType,
    /// A header shorter than it must be, or that contradicts itself.
    MalformedPacket,
    /// A packet cut by the snapshot length.
    TruncatedPacket,
    /// An IP packet that cannot be put together: not all of its fragments are in the capture.
    IpFragment,
    /// Fragments of an IP packet that overlap and are no copies; the first bytes are kept.
    FragmentOverlap,
    /// More fragments of incomplete IP packets than the limit; the oldest packet is given up.
    FragmentLimit,
    /// Tunnels within tunnels beyond the limit.
    TunnelDepth,
    /// An IPv4 header or a TCP segment whose checksum is wrong, and not just left to the network
    /// card; taken all the same.
    BadChecksum,
    // TCP
    /// Bytes that are not in the capture.
    Hole,
    /// The same bytes with different content; the first are kept.
    OverlapConflict,
    /// A connection whose start is not in the capture.
    Midstream,
    /// More out-of-order bytes than the limit; the gap before them is given up.
    OutOfOrderLimit,
    /// A reset whose sequence number is outside the window; not believed.
    RstOutOfWindow,
    /// A segment with the urgent pointer; its bytes are read where they stand.
    Urgent,
    /// More connections than the limit; the longest idle one is let go.
    ConnectionLimit,
    // What is carried
    /// TLS without keys, or of a kind that is not read.
    OpaqueTls,
    /// A TLS connection that the keys given for it do not open.
    WrongTlsKeys,
    /// A TLS connection for which only a part of the keys is there.
    PartialTlsKeys,
    /// Keys that came after the packets they are for, where those cannot be read once more.
    LateTlsKeys,
    /// A line in a secrets block that is none of a key log.
    KeyLogLine,
    /// A TLS record that does not open, among others that do.
    BadTlsRecord,
    /// More bytes of TLS that cannot be read yet than the limit.
    TlsHeldLimit,
    /// HTTP/2 of which no head could be read.
    OpaqueHttp2,
    /// A QUIC packet: HTTP/3 is not read.
    OpaqueQuic,
    /// Bytes where an HTTP head should be.
    NotHttp,
    /// A head that breaks RFC 9112.
    BadHead,
    /// A head longer than the limit.
    HeadLimit,
    /// Bytes that are no frame of HTTP/2, or one that breaks RFC 9113.
    BadFrame,
    /// A head in HTTP/2 that refers to headers not in the capture.
    UnknownHeaders,
    /// A header table of HTTP/2 larger than the limit.
    HeaderTableLimit,
    /// More open streams of an HTTP/2 connection than the limit.
    StreamLimit,
    /// Contradicting framing: several content lengths, or one beside chunked.
    BodyFraming,
    /// A chunk header that is none.
    BadChunk,
    /// A response for which no request was seen.
    UnpairedResponse,
    /// A response that began before its request was complete.
    EarlyResponse,
    /// A content coding that is unknown or failed.
    UndecodableBody,
    /// A body or a file that expands beyond the limit.
    DecompressionLimit,
    /// A body or event larger than the limit.
    BodyLimit,
    /// A resume that the session's history was too long to be searched for.
    HistoryLimit,
    /// A session header with several different values.
    SessionHeaderRepeated,
    /// `Last-Event-ID` on a method other than GET.
    CursorOnOtherMethod,
    // HARs
    /// A response body that a HAR does not have.
    BodyNotRecorded,
    /// A session id, cursor or event id that a sanitizer wrote over; it groups and compares nothing.
    MaskedId,
    /// Times of events that an exporter made up.
    MadeUpTimes,
    /// A HAR entry that is JSON-RPC without HTTP.
    NoWire,
}

impl Kind {
    /// As shown in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FileCut => "file-cut",
            Self::BadBlock => "bad-block",
            Self::UnknownInterface => "unknown-interface",
            Self::BadEntry => "bad-entry",
            Self::DuplicateEntry => "duplicate-entry",
            Self::DuplicateInput => "duplicate-input",
            Self::TimeBackwards => "time-backwards",
            Self::UnknownLinkType => "unknown-link-type",
            Self::MalformedPacket => "malformed-packet",
            Self::TruncatedPacket => "truncated-packet",
            Self::IpFragment => "ip-fragment",
            Self::FragmentOverlap => "fragment-overlap",
            Self::FragmentLimit => "fragment-limit",
            Self::TunnelDepth => "tunnel-depth",
            Self::BadChecksum => "bad-checksum",
            Self::Hole => "hole",
            Self::OverlapConflict => "overlap-conflict",
            Self::Midstream => "midstream",
            Self::OutOfOrderLimit => "out-of-order-limit",
            Self::RstOutOfWindow => "rst-out-of-window",
            Self::Urgent => "urgent",
            Self::ConnectionLimit => "connection-limit",
            Self::OpaqueTls => "opaque-tls",
            Self::WrongTlsKeys => "wrong-tls-keys",
            Self::PartialTlsKeys => "partial-tls-keys",
            Self::LateTlsKeys => "late-tls-keys",
            Self::KeyLogLine => "key-log-line",
            Self::BadTlsRecord => "bad-tls-record",
            Self::TlsHeldLimit => "tls-held-limit",
            Self::OpaqueHttp2 => "opaque-http2",
            Self::OpaqueQuic => "opaque-quic",
            Self::NotHttp => "not-http",
            Self::BadHead => "bad-head",
            Self::HeadLimit => "head-limit",
            Self::BadFrame => "bad-frame",
            Self::UnknownHeaders => "unknown-headers",
            Self::HeaderTableLimit => "header-table-limit",
            Self::StreamLimit => "stream-limit",
            Self::BodyFraming => "body-framing",
            Self::BadChunk => "bad-chunk",
            Self::UnpairedResponse => "unpaired-response",
            Self::EarlyResponse => "early-response",
            Self::UndecodableBody => "undecodable-body",
            Self::DecompressionLimit => "decompression-limit",
            Self::BodyLimit => "body-limit",
            Self::HistoryLimit => "history-limit",
            Self::SessionHeaderRepeated => "session-header-repeated",
            Self::CursorOnOtherMethod => "cursor-on-other-method",
            Self::BodyNotRecorded => "body-not-recorded",
            Self::MaskedId => "masked-id",
            Self::MadeUpTimes => "made-up-times",
            Self::NoWire => "no-wire",
        }
    }

    /// What it means, in one sentence.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::FileCut => "the file ends in the middle of a packet, block or entry",
            Self::BadBlock => "a block that makes no sense; what follows it could not be read",
            Self::UnknownInterface => "a packet of an interface that no block described",
            Self::BadEntry => "a HAR entry that could not be read",
            Self::DuplicateEntry => "the same HAR entry twice; the copy was left out",
            Self::DuplicateInput => "an input that was given twice, by name or by its bytes",
            Self::TimeBackwards => "a packet with a time long before that of the packet before it",
            Self::UnknownLinkType => "a link type that is not read",
            Self::MalformedPacket => "a packet header that is too short or contradicts itself",
            Self::TruncatedPacket => "a packet cut by the snapshot length",
            Self::IpFragment => "an IP packet whose fragments are not all in the capture",
            Self::FragmentOverlap => {
                "fragments of an IP packet that overlap; the first bytes were kept"
            }
            Self::FragmentLimit => "more fragments of incomplete IP packets than the limit",
            Self::TunnelDepth => "tunnels within tunnels beyond the limit",
            Self::BadChecksum => {
                "a wrong checksum of IPv4 or TCP; the packet was taken all the same"
            }
            Self::Hole => "bytes of a TCP stream that are not in the capture",
            Self::OverlapConflict => {
                "the same bytes sent twice with different content; the first were kept"
            }
            Self::Midstream => "a connection whose start is not in the capture",
            Self::OutOfOrderLimit => "more out-of-order bytes than the limit",
            Self::RstOutOfWindow => "a reset outside the window; not believed",
            Self::Urgent => "a segment with urgent bytes, which are read where they stand",
            Self::ConnectionLimit => "more open connections than the limit",
            Self::OpaqueTls => "TLS without keys, or of a kind that is not read",
            Self::WrongTlsKeys => "a TLS connection that the keys given for it do not open",
            Self::PartialTlsKeys => "a TLS connection for which only a part of the keys was given",
            Self::LateTlsKeys => {
                "a TLS connection whose keys came after its packets, from an input that can be \
                 read only once"
            }
            Self::KeyLogLine => "a line of a secrets block that is none of a key log",
            Self::BadTlsRecord => "a TLS record that does not open, among others that do",
            Self::TlsHeldLimit => "more bytes of TLS that cannot be read yet than the limit",
            Self::OpaqueHttp2 => "HTTP/2 of which no head could be read",
            Self::OpaqueQuic => "QUIC, and so HTTP/3, which is not read",
            Self::NotHttp => "bytes where an HTTP head should be",
            Self::BadHead => "a head that breaks RFC 9112, 9113 or 7541",
            Self::HeadLimit => "a head longer than the limit",
            Self::BadFrame => "bytes that are no frame of HTTP/2, or one that breaks RFC 9113",
            Self::UnknownHeaders => {
                "a head in HTTP/2 that refers to headers which are not in the capture"
            }
            Self::HeaderTableLimit => "a header table of HTTP/2 larger than the limit",
            Self::StreamLimit => "more open streams of an HTTP/2 connection than the limit",
            Self::BodyFraming => "contradicting lengths of a body",
            Self::BadChunk => "a chunk header that is none",
            Self::UnpairedResponse => "a response whose request was not seen",
            Self::EarlyResponse => "a response that began before its request was complete",
            Self::UndecodableBody => "a content coding that is unknown or failed",
            Self::DecompressionLimit => "a body or a file that expands beyond the limit",
            Self::BodyLimit => "a body or event larger than the limit",
            Self::HistoryLimit => {
                "a resume that the history of its session was too long to be searched for"
            }
            Self::SessionHeaderRepeated => "a session header with several different values",
            Self::CursorOnOtherMethod => "Last-Event-ID on a method other than GET",
            Self::BodyNotRecorded => {
                "a response whose body the HAR does not have: what came is not known"
            }
            Self::MaskedId => {
                "a session id, cursor or event id that was redacted: it groups and compares nothing"
            }
            Self::MadeUpTimes => "events whose times an exporter made up; they were left out",
            Self::NoWire => "a HAR entry made of JSON-RPC messages, without HTTP; not judged",
        }
    }

    /// What it does to verdicts, in a sentence or two.
    #[must_use]
    pub const fn effect(self) -> &'static str {
        match self {
            Self::FileCut => {
                "What comes before is judged. The capture ends there: nothing is called missing \
                 after it."
            }
            Self::BadBlock => {
                "What comes before is judged. What could not be read counts as not captured."
            }
            Self::UnknownInterface
            | Self::MalformedPacket
            | Self::TunnelDepth
            | Self::IpFragment
            | Self::FragmentLimit => {
                "The packet is left out, as if it had not been captured: where it carried bytes of \
                 a TCP stream there is a hole."
            }
            Self::BadEntry => "The entry is left out: what it held is not known.",
            Self::DuplicateEntry | Self::DuplicateInput => "None: it counts once.",
            Self::TimeBackwards => {
                "The order of the file is kept, and so what is said; lengths of time across the \
                 step are wrong."
            }
            Self::UnknownLinkType => {
                "Its packets are left out: sessions in them are not seen, and nothing is said of \
                 them."
            }
            Self::TruncatedPacket => {
                "What was cut off a TCP stream is a hole of known length: nothing in it is called \
                 missing."
            }
            Self::FragmentOverlap | Self::OverlapConflict => {
                "What came first is judged, and another receiver may have taken the other."
            }
            Self::BadChecksum | Self::Urgent => "None: the bytes are read as they are.",
            Self::Hole => {
                "Nothing in it is called missing. Verdicts of sessions with one are of lower \
                 confidence, or indeterminate."
            }
            Self::Midstream => {
                "What was said before is not known: it may have been requests, events or the \
                 session's start."
            }
            Self::OutOfOrderLimit => "The gap before them is a hole.",
            Self::RstOutOfWindow => "None: the connection goes on.",
            Self::ConnectionLimit => {
                "The connection counts as open at the end of the capture; what it says later is \
                 of one whose start is not in the capture."
            }
            Self::OpaqueTls
            | Self::WrongTlsKeys
            | Self::LateTlsKeys
            | Self::OpaqueHttp2
            | Self::OpaqueQuic => {
                "Nothing of it is judged: sessions in it are not seen. No finding does not mean \
                 that all is well there."
            }
            Self::PartialTlsKeys => {
                "What cannot be read counts as not captured: nothing in it is called missing."
            }
            Self::KeyLogLine => {
                "The line is left out. When it was a key, a connection may not be read for it."
            }
            Self::BadTlsRecord | Self::TlsHeldLimit => {
                "What it carried is a hole: nothing in it is called missing."
            }
            Self::NotHttp | Self::HeadLimit => {
                "It is skipped up to the next head: exchanges in it are not seen, and nothing is \
                 called missing there."
            }
            Self::BadHead => {
                "It is read as servers and clients do that are lenient; in HTTP/2 it may be left out."
            }
            Self::BadFrame => {
                "The next frame is looked for: what lies between is a hole, and later heads may refer to \
                 headers in it."
            }
            Self::UnknownHeaders => {
                "A request counts as not captured, and a response as one that may be another's: of \
                 which session they are is not known, and nothing is called missing there."
            }
            Self::HeaderTableLimit => {
                "Headers that later heads refer to may be unknown, as if they were not in the capture."
            }
            Self::StreamLimit => {
                "The stream that was open longest is let go: what it says later is not read, and \
                 nothing is called missing there."
            }
            Self::BodyFraming => {
                "It is read as RFC 9112 says: chunked counts before lengths. A receiver that does \
                 otherwise saw other bodies."
            }
            Self::BadChunk => "The body ends there, as before a hole.",
            Self::UnpairedResponse => {
                "It is an exchange without request: of which session it is may not be known, and \
                 the client's sessions have a gap there."
            }
            Self::EarlyResponse => "None: the two are one exchange.",
            Self::UndecodableBody | Self::BodyLimit => {
                "The rest of the body is not known: nothing in it is called missing."
            }
            Self::DecompressionLimit => {
                "The rest of the body, or of the file, is not known: nothing in it is called missing."
            }
            Self::HistoryLimit => "The resume is indeterminate, and no fork is seen in it.",
            Self::SessionHeaderRepeated => "The first value counts.",
            Self::CursorOnOtherMethod => "The request is no resume, and is not judged as one.",
            Self::BodyNotRecorded => {
                "What came is not known: a resume with such an answer is indeterminate."
            }
            Self::MaskedId => {
                "Sessions and cursors cannot be told apart by it: nothing is compared, nobody \
                 accused."
            }
            Self::MadeUpTimes => "What comes from those events alone is not judged.",
            Self::NoWire => "None is judged: what was on the wire is not known.",
        }
    }
}

/// One example of an oddity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Example {
    /// Where.
    pub place: Place,
    /// What exactly: lengths, offsets, values; never payload.
    pub detail: Prose,
}

/// Counts of oddities by input and kind, with the first few examples of each.
#[derive(Clone, Debug, Default)]
pub struct Anomalies {
    seen: BTreeMap<(InputId, Kind), Tally>,
}

/// How often a kind was seen, and examples.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How often.
    pub count: u64,
    /// The first examples, in order of place.
    pub examples: Vec<Example>,
}

impl Anomalies {
    /// Counts one. `detail` is only built while examples are still kept.
    pub fn note<D: Into<Prose>>(&mut self, kind: Kind, place: Place, detail: impl FnOnce() -> D) {
        let tally = self.seen.entry((place.input, kind)).or_default();
        tally.count += 1;
        if tally.examples.len() < EXAMPLES {
            tally.examples.push(Example {
                place,
                detail: detail().into(),
            });
        }
    }

    /// Adds what another collector saw. The result does not depend on the order of merging.
    pub fn merge(&mut self, other: Self) {
        for (key, tally) in other.seen {
            let mine = self.seen.entry(key).or_default();
            mine.count += tally.count;
            mine.examples.extend(tally.examples);
            mine.examples.sort();
            mine.examples.truncate(EXAMPLES);
        }
    }

    /// Adds what was counted of one kind in one input.
    pub fn add(&mut self, input: InputId, kind: Kind, tally: Tally) {
        let seen = BTreeMap::from([((input, kind), tally)]);
        self.merge(Self { seen });
    }

    /// The examples of all of them.
    pub fn examples_mut(&mut self) -> impl Iterator<Item = &mut Example> {
        self.seen.values_mut().flat_map(|tally| &mut tally.examples)
    }

    /// How often `kind` was seen in `input`.
    #[must_use]
    pub fn count(&self, input: InputId, kind: Kind) -> u64 {
        self.seen.get(&(input, kind)).map_or(0, |tally| tally.count)
    }

    /// All of them, by input and kind.
    pub fn iter(&self) -> impl Iterator<Item = (InputId, Kind, &Tally)> {
        self.seen
            .iter()
            .map(|(&(input, kind), tally)| (input, kind, tally))
    }
}

/// Examples kept of one kind in one input: enough to go and look.
const EXAMPLES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_has_a_name_of_its_own_and_says_what_it_is() {
        let names: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
        assert!(Kind::ALL.is_sorted());
        for kind in Kind::ALL {
            let name = kind.name();
            assert!(
                name.bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            );
            assert!(
                !kind.about().is_empty() && !kind.about().ends_with('.'),
                "{name}"
            );
            assert!(kind.effect().ends_with('.'), "{name}");
        }
    }
}
