//! The libpcap file format (draft-ietf-opsawg-pcap) in its six dialects: either byte order times
//! microseconds, nanoseconds, and the "modified" format of old Linux patches.

//!
//! Headers and packets are read by pcap-parser's functions on slices. Its readers are not used: they
//! fail when the first read, as of a pipe, gives less than a header.

use super::packets::{Order, Record, Step};
use crate::model::{
    packet::{Interface, LinkType},
    prose::prose,
    time::Timestamp,
};
use pcap_parser::{
    LegacyPcapBlock, PcapError,
    nom::{self, IResult, Needed},
    parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified, parse_pcap_header,
};

/// Cuts a pcap file, past its header, into packets.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    parse: ParsePacket,
    /// What a packet's fraction of a second counts, in nanoseconds.
    unit: i64,
    record_header: usize,
    link: LinkType,
    snapshot: u32,
    largest: usize,
}

type ParsePacket = for<'b> fn(&'b [u8]) -> Parsed<'b>;
type Parsed<'b> = IResult<&'b [u8], LegacyPcapBlock<'b>, PcapError<&'b [u8]>>;

impl Decoder {
    /// Reads the file header; `None` when it is cut or not that of a pcap file. No packet is
    /// larger than `block`.
    pub(super) fn new(head: &[u8], block: usize) -> Option<Self> {
        let mut head = *head.first_chunk::<FILE_HEADER>()?;
        // pcap-parser does not know this magic; but for it, the header is that of a swapped file.
        let swapped_modified = head.starts_with(&MODIFIED_BE);
        if swapped_modified {
            *head.first_chunk_mut()? = MICROSECONDS_BE;
        }
        let (_, header) = parse_pcap_header(&head).ok()?;
        let (parse, record_header): (ParsePacket, _) = if swapped_modified {
            (parse_pcap_frame_modified_be, MODIFIED_RECORD_HEADER)
        } else if header.is_modified_format() {
            (parse_pcap_frame_modified, MODIFIED_RECORD_HEADER)
        } else if header.is_bigendian() {
            (parse_pcap_frame_be, RECORD_HEADER)
        } else {
            (parse_pcap_frame, RECORD_HEADER)
        };
        // The upper bits say whether frames end in a check sequence; it is trimmed with padding.
        let link = header.network.0 & 0xffff;
        Some(Self {
            parse,
            unit: if header.is_nanosecond_precision() {
                1
            } else {
                1000
            },
            record_header,
            link: LinkType(u16::try_from(link).ok()?),
            snapshot: header.snaplen,
            largest: (header.snaplen as usize).max(SNAPSHOT).min(block),
        })
    }

    /// What the header says of the one interface there is.
    pub(super) const fn interface(&self) -> Interface {
        Interface {
            link: self.link,
            snapshot: self.snapshot,
            resolution: if self.unit == 1 { 9 } else { 6 },
            offset: 0,
            options: Vec::new(),
        }
    }

    /// The packet that `bytes` begin with.
    #[inline]
    pub(super) fn step(&self, bytes: &[u8]) -> Step {
        let packet = match (self.parse)(bytes) {
            Ok((_, packet)) => packet,
            Err(nom::Err::Incomplete(Needed::Size(missing))) => {
                let len = bytes.len().saturating_add(missing.get());
                return match len.saturating_sub(self.record_header) {
                    captured if captured > self.largest => too_large(captured),
                    _ => Step::Need(len),
                };
            }
            // The length is all that can be wrong with a packet.
            Err(_) => return Step::Stop("a packet that cannot be read".into()),
        };
        let captured = packet.data.len();
        if captured > self.largest {
            return too_large(captured);
        }
        Step::Packet(Record {
            len: self.record_header + captured,
            start: self.record_header,
            captured: packet.caplen,
            // Some writers count a check sequence as captured only.
            original: packet.origlen.max(packet.caplen),
            time: Timestamp::from_parts(
                i64::from(packet.ts_sec),
                i64::from(packet.ts_usec) * self.unit,
            ),
            link: self.link,
            interface: 0,
        })
    }
}

#[cold]
fn too_large(captured: usize) -> Step {
    Step::Stop(prose!("a packet that claims {} bytes", captured))
}

/// [`parse_pcap_frame_modified`] for files of the other byte order, which pcap-parser lacks.
fn parse_pcap_frame_modified_be(bytes: &[u8]) -> Parsed<'_> {
    let field = |at| Order::Big.u32(bytes, at);
    let (Some(ts_sec), Some(ts_usec), Some(caplen), Some(origlen), Some(body)) = (
        field(0),
        field(4),
        field(8),
        field(12),
        bytes.get(MODIFIED_RECORD_HEADER..),
    ) else {
        let missing = MODIFIED_RECORD_HEADER - bytes.len();
        return Err(nom::Err::Incomplete(Needed::new(missing)));
    };
    let Some((data, rest)) = body.split_at_checked(caplen as usize) else {
        let missing = caplen as usize - body.len();
        return Err(nom::Err::Incomplete(Needed::new(missing)));
    };
    let packet = LegacyPcapBlock {
        ts_sec,
        ts_usec,
        caplen,
        origlen,
        data,
    };
    Ok((rest, packet))
}

/// Length of the file header.
pub(super) const FILE_HEADER: usize = 24;

const RECORD_HEADER: usize = 16;
/// Alexey Kuznetsov's patch: eight more bytes (interface, protocol, packet type) in each header.
const MODIFIED_RECORD_HEADER: usize = 24;

/// Magic numbers of big-endian files, as they are in the file.
const MICROSECONDS_BE: [u8; 4] = [0xa1, 0xb2, 0xc3, 0xd4];
const MODIFIED_BE: [u8; 4] = [0xa1, 0xb2, 0xcd, 0x34];

/// The largest packet that libpcap and Wireshark believe in, whatever the header's snapshot
/// length says, which some writers get wrong.
const SNAPSHOT: usize = 256 << 10;
