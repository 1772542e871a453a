//! The libpcap file format (draft-ietf-opsawg-pcap) in its six dialects: either byte order times
//! microseconds, nanoseconds, and the "modified" format of old Linux patches.

use super::packets::{Order, Record, Step};
use crate::model::{packet::LinkType, time::Timestamp};

/// Cuts a pcap file, past its header, into packets.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    order: Order,
    nanoseconds: bool,
    record_header: usize,
    link: LinkType,
    largest: usize,
}

impl Decoder {
    /// Reads the file header; `None` when it is cut or not that of a pcap file. No packet is
    /// larger than `block`.
    pub(super) fn new(head: &[u8], block: usize) -> Option<Self> {
        let header = head.first_chunk::<FILE_HEADER>()?;
        let little = Order::Little.u32(header, 0)?;
        let order = match little {
            MICROSECONDS | NANOSECONDS | MODIFIED => Order::Little,
            _ => Order::Big,
        };
        let magic = order.u32(header, 0)?;
        let record_header = match magic {
            MICROSECONDS | NANOSECONDS => 16,
            MODIFIED => 24,
            _ => return None,
        };
        let snapshot = order.u32(header, 16)? as usize;
        // The upper bits say whether frames end in a check sequence; it is trimmed with padding.
        let link = order.u32(header, 20)? & 0xffff;
        Some(Self {
            order,
            nanoseconds: magic == NANOSECONDS,
            record_header,
            link: LinkType(u16::try_from(link).ok()?),
            largest: snapshot.max(SNAPSHOT).min(block),
        })
    }

    /// The link type of every packet.
    pub(super) const fn link(&self) -> LinkType {
        self.link
    }

    /// The packet that `bytes` begin with.
    #[inline]
    pub(super) fn step(&self, bytes: &[u8]) -> Step {
        let field = |at| self.order.u32(bytes, at);
        let (Some(seconds), Some(fraction), Some(captured), Some(original)) =
            (field(0), field(4), field(8), field(12))
        else {
            return Step::Need(self.record_header);
        };
        let len = self.record_header.saturating_add(captured as usize);
        if captured as usize > self.largest {
            return Step::Stop(format!("a packet that claims {captured} bytes"));
        }
        if bytes.len() < len {
            return Step::Need(len);
        }
        let unit = if self.nanoseconds { 1 } else { 1000 };
        Step::Packet(Record {
            len,
            start: self.record_header,
            captured,
            // Some writers count a check sequence as captured only.
            original: original.max(captured),
            time: Timestamp::from_parts(i64::from(seconds), i64::from(fraction) * unit),
            link: self.link,
        })
    }
}

/// Length of the file header.
pub(super) const FILE_HEADER: usize = 24;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Alexey Kuznetsov's patch: eight more bytes (interface, protocol, packet type) in each header.
const MODIFIED: u32 = 0xa1b2_cd34;

/// The largest packet that libpcap and Wireshark believe in, whatever the header's snapshot
/// length says, which some writers get wrong.
const SNAPSHOT: usize = 256 << 10;
