//! The pcapng file format (draft-ietf-opsawg-pcapng): blocks, each framed by its length at both
//! ends, in sections with their own byte order and interfaces.

use super::packets::{Order, Record, Step};
use crate::{
    anomaly::Kind,
    model::{packet::LinkType, time::Timestamp},
};

/// Cuts a pcapng file into blocks and packets.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    /// Of the current section.
    order: Order,
    /// Of the current section; interface ids index it.
    interfaces: Vec<Interface>,
    /// Time of the last packet that had one.
    last_time: Timestamp,
    /// The largest block.
    largest: usize,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    /// 0 for no limit.
    snapshot: u32,
    clock: Clock,
}

impl Decoder {
    /// Before the first section. No block is larger than `block`.
    pub(super) const fn new(block: usize) -> Self {
        Self {
            order: Order::Little,
            interfaces: Vec::new(),
            last_time: Timestamp::from_nanos(0),
            largest: block,
        }
    }

    /// Whether `head` begins with a section header that says its byte order.
    pub(super) fn begins(head: &[u8]) -> bool {
        head.len() >= SECTION_HEADER_MIN && section_order(head).is_some()
    }

    /// The block that `bytes` begin with.
    #[inline]
    pub(super) fn step(&mut self, bytes: &[u8]) -> Step {
        let Some(kind) = self.order.u32(bytes, 0) else {
            return Step::Need(8);
        };
        if kind == SECTION_HEADER {
            return self.section(bytes);
        }
        let (body, len) = match self.framed(bytes) {
            Ok(block) => block,
            Err(step) => return step,
        };
        match kind {
            ENHANCED_PACKET => self.enhanced_packet(body, len),
            SIMPLE_PACKET => self.simple_packet(body, len),
            PACKET => self.packet(body, len),
            INTERFACE_DESCRIPTION => self.interface(body, len),
            // Wireshark gives these a frame number.
            CUSTOM
            | CUSTOM_NO_COPY
            | JOURNAL
            | SYSDIG_EVENT
            | SYSDIG_EVENT_FLAGS
            | SYSDIG_EVENT_V2
            | SYSDIG_EVENT_FLAGS_V2
            | SYSDIG_EVENT_V2_LARGE
            | SYSDIG_EVENT_FLAGS_V2_LARGE => Step::Skip {
                len,
                numbered: true,
            },
            _ => Step::Skip {
                len,
                numbered: false,
            },
        }
    }

    /// The body of the block, and its length in the file.
    #[inline]
    fn framed<'b>(&self, bytes: &'b [u8]) -> Result<(&'b [u8], usize), Step> {
        let Some(stated) = self.order.u32(bytes, 4) else {
            return Err(Step::Need(8));
        };
        // Some writers pad a block without counting the padding.
        let len = (stated as usize).saturating_add(3) & !3;
        if len < 12 || len > self.largest {
            return Err(Step::Stop(format!("a block that claims {stated} bytes")));
        }
        let Some(body) = bytes.get(8..len - 4) else {
            return Err(Step::Need(len));
        };
        match self.order.u32(bytes, len - 4) {
            None => Err(Step::Need(len)),
            Some(trailer) if trailer == stated => Ok((body, len)),
            Some(trailer) => Err(Step::Stop(format!(
                "a block of {stated} bytes that ends as one of {trailer}"
            ))),
        }
    }

    /// Section Header Block (section 4.1): a byte order, and no interfaces yet.
    fn section(&mut self, bytes: &[u8]) -> Step {
        if bytes.len() < 12 {
            return Step::Need(12);
        }
        let Some(order) = section_order(bytes) else {
            return Step::Stop("a section without byte-order magic".to_owned());
        };
        self.order = order;
        let (body, len) = match self.framed(bytes) {
            Ok(block) => block,
            Err(step) => return step,
        };
        self.interfaces.clear();
        match order.u16(body, 4) {
            Some(1) if len >= SECTION_HEADER_MIN => Step::Skip {
                len,
                numbered: false,
            },
            Some(1) | None => Step::Stop(format!("a section header of {len} bytes")),
            // "the file cannot be read" by those who know another major version
            Some(major) => Step::Stop(format!("a section of major version {major}")),
        }
    }

    /// Interface Description Block (section 4.2).
    fn interface(&mut self, body: &[u8], len: usize) -> Step {
        let (Some(link), Some(snapshot)) = (self.order.u16(body, 0), self.order.u32(body, 4))
        else {
            return bad(len, false, format!("an interface block of {len} bytes"));
        };
        if self.interfaces.len() >= INTERFACES {
            return bad(len, false, format!("more than {INTERFACES} interfaces"));
        }
        let mut resolution = 6;
        let mut offset = 0;
        for (code, value) in options(self.order, body.get(8..).unwrap_or_default()) {
            match (code, value) {
                (IF_TSRESOL, [exponent]) => resolution = *exponent,
                (IF_TSOFFSET, value) => offset = self.order.i64(value).unwrap_or(offset),
                _ => {}
            }
        }
        let link = LinkType(link);
        self.interfaces.push(Interface {
            link,
            snapshot,
            clock: Clock::new(resolution, offset),
        });
        Step::Interface { len, link }
    }

    /// Enhanced Packet Block (section 4.3).
    #[inline]
    fn enhanced_packet(&mut self, body: &[u8], len: usize) -> Step {
        let Some(interface) = self.order.u32(body, 0) else {
            return bad(len, true, format!("a packet block of {len} bytes"));
        };
        self.timed_packet(body, len, interface)
    }

    /// Packet Block, obsolete (appendix A): as the enhanced one, but for a narrower interface id.
    fn packet(&mut self, body: &[u8], len: usize) -> Step {
        let Some(interface) = self.order.u16(body, 0) else {
            return bad(len, true, format!("a packet block of {len} bytes"));
        };
        self.timed_packet(body, len, u32::from(interface))
    }

    #[inline]
    fn timed_packet(&mut self, body: &[u8], len: usize, id: u32) -> Step {
        let field = |at| self.order.u32(body, at);
        let (Some(high), Some(low), Some(captured), Some(original)) =
            (field(4), field(8), field(12), field(16))
        else {
            return bad(len, true, format!("a packet block of {len} bytes"));
        };
        let Some(interface) = self.interfaces.get(id as usize) else {
            return Step::Bad {
                len,
                numbered: true,
                kind: Kind::UnknownInterface,
                what: format!("a packet of interface {id}"),
            };
        };
        if captured as usize > body.len() - PACKET_HEADER {
            return bad(
                len,
                true,
                format!("a packet of {captured} bytes in a block of {len}"),
            );
        }
        let time = interface.clock.time(u64::from(high) << 32 | u64::from(low));
        self.last_time = time;
        Step::Packet(Record {
            len,
            start: 8 + PACKET_HEADER,
            captured,
            original: original.max(captured),
            time,
            link: interface.link,
        })
    }

    /// Simple Packet Block (section 4.4): of interface 0, without a time, its captured length to
    /// be told from the snapshot length.
    fn simple_packet(&mut self, body: &[u8], len: usize) -> Step {
        let Some(original) = self.order.u32(body, 0) else {
            return bad(len, true, format!("a packet block of {len} bytes"));
        };
        let Some(interface) = self.interfaces.first() else {
            return Step::Bad {
                len,
                numbered: true,
                kind: Kind::UnknownInterface,
                what: "a simple packet before any interface".to_owned(),
            };
        };
        let captured = match interface.snapshot {
            0 => original,
            snapshot => original.min(snapshot),
        };
        if captured as usize > body.len() - 4 {
            return bad(
                len,
                true,
                format!("a packet of {captured} bytes in a block of {len}"),
            );
        }
        Step::Packet(Record {
            len,
            start: 12,
            captured,
            original,
            time: self.last_time,
            link: interface.link,
        })
    }
}

/// How an interface counts time (`if_tsresol` and `if_tsoffset`).
#[derive(Clone, Copy, Debug)]
struct Clock {
    tick: Tick,
    /// Nanoseconds to add.
    offset: i128,
}

/// The length of a tick, so that conversion to nanoseconds is exact, rounded down.
#[derive(Clone, Copy, Debug)]
enum Tick {
    /// So many nanoseconds.
    Nanoseconds(u32),
    /// One in so many of a nanosecond.
    Part(u64),
    /// 2⁻ⁿ seconds.
    Binary(u8),
    /// So short that 64 bits of them are no nanosecond.
    Nothing,
}

impl Clock {
    /// `resolution` is 10⁻ⁿ seconds, or 2⁻ⁿ with its highest bit set; `offset` is seconds.
    fn new(resolution: u8, offset: i64) -> Self {
        let exponent = resolution & 0x7f;
        let tick = if resolution & 0x80 != 0 {
            Tick::Binary(exponent)
        } else if exponent <= 9 {
            Tick::Nanoseconds(10_u32.pow(u32::from(9 - exponent)))
        } else {
            10_u64
                .checked_pow(u32::from(exponent - 9))
                .map_or(Tick::Nothing, Tick::Part)
        };
        Self {
            tick,
            offset: i128::from(offset) * NANOSECONDS,
        }
    }

    /// The time of `ticks`; saturates at the ends of what 64 bits of nanoseconds hold.
    #[inline]
    fn time(self, ticks: u64) -> Timestamp {
        let nanoseconds = match self.tick {
            Tick::Nanoseconds(length) => i128::from(ticks) * i128::from(length),
            Tick::Part(parts) => i128::from(ticks / parts),
            Tick::Binary(exponent) => (i128::from(ticks) * NANOSECONDS) >> exponent,
            Tick::Nothing => 0,
        };
        let nanoseconds = nanoseconds + self.offset;
        let limit = if nanoseconds < 0 { i64::MIN } else { i64::MAX };
        Timestamp::from_nanos(i64::try_from(nanoseconds).unwrap_or(limit))
    }
}

/// A block that is skipped: framed well, but its content makes no sense.
#[cold]
fn bad(len: usize, numbered: bool, what: String) -> Step {
    Step::Bad {
        len,
        numbered,
        kind: Kind::BadBlock,
        what,
    }
}

/// The byte order of the section header that `bytes` begin with.
fn section_order(bytes: &[u8]) -> Option<Order> {
    [Order::Little, Order::Big]
        .into_iter()
        .find(|order| order.u32(bytes, 8) == Some(BYTE_ORDER_MAGIC))
}

/// Options by code (section 3.5): up to their end, or to the first that is cut.
fn options(order: Order, mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let code = order.u16(bytes, 0)?;
        let len = usize::from(order.u16(bytes, 2)?);
        let value = bytes.get(4..4 + len)?;
        bytes = bytes.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        (code != END_OF_OPTIONS).then_some((code, value))
    })
}

const NANOSECONDS: i128 = 1_000_000_000;

/// Interfaces of one section that are kept: what the id of the obsolete packet block can name.
const INTERFACES: usize = 1 << 16;

/// Fields of a packet block before the packet.
const PACKET_HEADER: usize = 20;
const SECTION_HEADER_MIN: usize = 28;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const JOURNAL: u32 = 9;
const SYSDIG_EVENT: u32 = 0x204;
const SYSDIG_EVENT_FLAGS: u32 = 0x208;
const SYSDIG_EVENT_V2: u32 = 0x216;
const SYSDIG_EVENT_FLAGS_V2: u32 = 0x217;
const SYSDIG_EVENT_V2_LARGE: u32 = 0x221;
const SYSDIG_EVENT_FLAGS_V2_LARGE: u32 = 0x222;
const CUSTOM: u32 = 0x0bad;
const CUSTOM_NO_COPY: u32 = 0x4000_0bad;

const END_OF_OPTIONS: u16 = 0;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;
