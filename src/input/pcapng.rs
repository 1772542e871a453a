//! The pcapng file format (draft-ietf-opsawg-pcapng): blocks, each framed by its length at both
//! ends, in sections with their own byte order and interfaces.
//!
//! Blocks are read by pcap-parser's functions on slices. Of our own is what it lacks or gets wrong:
//!
//! - where a block ends: it asks for as many bytes as a block claims, without a limit, does not
//!   know of padding that is not counted, and what is wrong with a block ends its reading;
//! - packets with options, which it would collect for each packet; the obsolete packet block;
//! - times: it has no binary resolutions, reads offsets as little-endian in any section, and cuts
//!   seconds to 32 bits.

use super::packets::{Order, Record, Step};
use crate::{
    anomaly::Kind,
    model::{
        packet::{self, LinkType},
        prose::{Prose, prose},
        time::Timestamp,
    },
};
use pcap_parser::{
    BOM_MAGIC, CB_MAGIC, DCB_MAGIC, EPB_MAGIC, IDB_MAGIC, OptionCode, SHB_MAGIC, SJE_MAGIC,
    SPB_MAGIC, parse_enhancedpacketblock_be, parse_enhancedpacketblock_le,
    parse_interfacedescriptionblock_be, parse_interfacedescriptionblock_le,
    parse_sectionheaderblock, parse_simplepacketblock_be, parse_simplepacketblock_le,
};
use std::borrow::Cow;

/// Cuts a pcapng file into blocks and packets.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    /// Of the current section.
    order: Order,
    /// Of the current section; interface ids index it.
    interfaces: Vec<Interface>,
    /// Interfaces of the sections so far.
    described: u16,
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
    /// Which one of the file it is, over all sections.
    number: u16,
}

impl Decoder {
    /// Before the first section. No block is larger than `block`.
    pub(super) const fn new(block: usize) -> Self {
        Self {
            order: Order::Little,
            interfaces: Vec::new(),
            described: 0,
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
        if kind == SHB_MAGIC {
            return self.section(bytes);
        }
        let block = match self.framed(bytes) {
            Ok(block) => block,
            Err(step) => return step,
        };
        let len = block.len();
        match kind {
            EPB_MAGIC => self.enhanced_packet(block),
            SPB_MAGIC => self.simple_packet(block),
            PACKET => self.packet(block),
            IDB_MAGIC => self.interface(block),
            DECRYPTION_SECRETS => self.secrets(block),
            // Wireshark gives these a frame number.
            CB_MAGIC
            | DCB_MAGIC
            | SJE_MAGIC
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

    /// The block as it is in the file: of 12 bytes or more, a multiple of 4.
    #[inline]
    fn framed<'b>(&self, bytes: &'b [u8]) -> Result<&'b [u8], Step> {
        let Some(stated) = self.order.u32(bytes, 4) else {
            return Err(Step::Need(8));
        };
        // Some writers pad a block without counting the padding.
        let len = (stated as usize).saturating_add(3) & !3;
        if len < 12 || len > self.largest {
            return Err(Step::Stop(prose!("a block that claims {} bytes", stated)));
        }
        let Some(block) = bytes.get(..len) else {
            return Err(Step::Need(len));
        };
        match self.order.u32(block, len - 4) {
            None => Err(Step::Need(len)),
            Some(trailer) if trailer == stated => Ok(block),
            Some(trailer) => Err(Step::Stop(prose!(
                "a block of {} bytes that ends as one of {}",
                stated,
                trailer
            ))),
        }
    }

    /// A block with options as pcap-parser takes it: padding is counted, and there are not more
    /// options than it may collect.
    fn with_options<'b>(&self, block: &'b [u8]) -> Cow<'b, [u8]> {
        let len = block.len().min(DESCRIPTION);
        let stated = u32::try_from(len).unwrap_or_default();
        if self.order.u32(block, 4) == Some(stated) {
            return Cow::Borrowed(block);
        }
        let stated = match self.order {
            Order::Little => stated.to_le_bytes(),
            Order::Big => stated.to_be_bytes(),
        };
        let kind = block.get(..4).unwrap_or_default();
        let body = block.get(8..len - 4).unwrap_or_default();
        Cow::Owned([kind, &stated, body, &stated].concat())
    }

    /// Section Header Block (section 4.1): a byte order, and no interfaces yet.
    fn section(&mut self, bytes: &[u8]) -> Step {
        if bytes.len() < 12 {
            return Step::Need(12);
        }
        let Some(order) = section_order(bytes) else {
            return Step::Stop("a section without byte-order magic".into());
        };
        self.order = order;
        let block = match self.framed(bytes) {
            Ok(block) => block,
            Err(step) => return step,
        };
        self.interfaces.clear();
        let len = block.len();
        match parse_sectionheaderblock(&self.with_options(block)) {
            Ok((_, section)) if section.major_version == 1 => Step::Skip {
                len,
                numbered: false,
            },
            // "the file cannot be read" by those who know another major version
            Ok((_, section)) => Step::Stop(prose!(
                "a section of major version {}",
                section.major_version
            )),
            Err(_) => Step::Stop(prose!("a section header of {} bytes", len)),
        }
    }

    /// Interface Description Block (section 4.2).
    fn interface(&mut self, block: &[u8]) -> Step {
        let len = block.len();
        let plain = self.with_options(block);
        let parsed = match self.order {
            Order::Little => parse_interfacedescriptionblock_le(&plain),
            Order::Big => parse_interfacedescriptionblock_be(&plain),
        };
        let Some((link, parsed)) = parsed.ok().and_then(|(_, parsed)| {
            let link = u16::try_from(parsed.linktype.0).ok()?;
            Some((LinkType(link), parsed))
        }) else {
            return bad(len, false, prose!("an interface block of {} bytes", len));
        };
        if self.interfaces.len() >= INTERFACES {
            return bad(len, false, prose!("more than {} interfaces", INTERFACES));
        }
        let mut resolution = 6;
        let mut offset = 0;
        let mut kept = Vec::new();
        // What follows their end is there too.
        let options = parsed.options.iter();
        for option in options.take_while(|option| option.code != OptionCode::EndOfOpt) {
            match (option.code, option.as_bytes()) {
                (OptionCode::IfTsresol, Ok([exponent])) => resolution = *exponent,
                (OptionCode::IfTsoffset, Ok(value)) => {
                    offset = self.order.i64(value).unwrap_or(offset);
                }
                (code, Ok(value))
                    if KEPT.contains(&code.0)
                        && value.len() <= OPTION
                        && kept.len() < KEPT.len() =>
                {
                    kept.push((code.0, value.to_vec()));
                }
                _ => {}
            }
        }
        self.interfaces.push(Interface {
            link,
            snapshot: parsed.snaplen,
            clock: Clock::new(resolution, offset),
            number: self.described,
        });
        self.described = self.described.saturating_add(1);
        let described = Box::new(packet::Interface {
            link,
            snapshot: parsed.snaplen,
            resolution,
            offset,
            options: kept,
        });
        Step::Interface { len, described }
    }

    /// Decryption Secrets Block (section 4.7): of what kind its secrets are, how long, and they.
    fn secrets(&self, block: &[u8]) -> Step {
        let len = block.len();
        let size = self.order.u32(block, 12).map_or(0, |size| size as usize);
        match self.order.u32(block, 8) {
            Some(TLS_KEY_LOG) if size <= len.saturating_sub(SECRETS_FRAMING) => Step::KeyLog {
                len,
                start: SECRETS_FRAMING - 4,
                size,
            },
            Some(TLS_KEY_LOG) => {
                let what = prose!("secrets of {} bytes in a block of {}", size, len);
                bad(len, false, what)
            }
            _ => Step::Skip {
                len,
                numbered: false,
            },
        }
    }

    /// Enhanced Packet Block (section 4.3).
    #[inline]
    fn enhanced_packet(&mut self, block: &[u8]) -> Step {
        let stated = self.order.u32(block, 4);
        // What the block's length is when it ends with the packet and its padding.
        let without_options = self
            .order
            .u32(block, 20)
            .and_then(|captured| captured.checked_next_multiple_of(4)?.checked_add(32));
        if without_options.is_none() || without_options != stated {
            return self.any_packet(block, self.order.u32(block, 8));
        }
        let parsed = match self.order {
            Order::Little => parse_enhancedpacketblock_le(block),
            Order::Big => parse_enhancedpacketblock_be(block),
        };
        let Ok((_, packet)) = parsed else {
            return bad_packet(block);
        };
        self.timed_packet(
            block,
            packet.if_id,
            ticks(packet.ts_high, packet.ts_low),
            packet.caplen,
            packet.origlen,
        )
    }

    /// Packet Block, obsolete (appendix A): as the enhanced one, but for a narrower interface id.
    fn packet(&mut self, block: &[u8]) -> Step {
        self.any_packet(block, self.order.u16(block, 8).map(u32::from))
    }

    /// Enhanced or obsolete, with or without options, padded or not.
    fn any_packet(&mut self, block: &[u8], interface: Option<u32>) -> Step {
        let field = |at| self.order.u32(block, at);
        match (interface, field(12), field(16), field(20), field(24)) {
            (Some(interface), Some(high), Some(low), Some(captured), Some(original))
                if block.len() >= PACKET_FRAMING =>
            {
                self.timed_packet(block, interface, ticks(high, low), captured, original)
            }
            _ => bad_packet(block),
        }
    }

    #[inline]
    fn timed_packet(
        &mut self,
        block: &[u8],
        id: u32,
        ticks: u64,
        captured: u32,
        original: u32,
    ) -> Step {
        let len = block.len();
        let Some(interface) = self.interfaces.get(id as usize) else {
            return Step::Bad {
                len,
                numbered: true,
                kind: Kind::UnknownInterface,
                what: prose!("a packet of interface {}", id),
            };
        };
        if captured as usize > len.saturating_sub(PACKET_FRAMING) {
            return packet_too_large(block, captured);
        }
        let time = interface.clock.time(ticks);
        self.last_time = time;
        Step::Packet(Record {
            len,
            start: PACKET_FRAMING - 4,
            captured,
            original: original.max(captured),
            time,
            link: interface.link,
            interface: interface.number,
        })
    }

    /// Simple Packet Block (section 4.4): of interface 0, without a time, its captured length to
    /// be told from the snapshot length.
    fn simple_packet(&mut self, block: &[u8]) -> Step {
        let len = block.len();
        let parsed = match self.order {
            Order::Little => parse_simplepacketblock_le(block),
            Order::Big => parse_simplepacketblock_be(block),
        };
        let Ok((_, packet)) = parsed else {
            return bad_packet(block);
        };
        let Some(interface) = self.interfaces.first() else {
            return Step::Bad {
                len,
                numbered: true,
                kind: Kind::UnknownInterface,
                what: "a simple packet before any interface".into(),
            };
        };
        let original = packet.origlen;
        let captured = match interface.snapshot {
            0 => original,
            snapshot => original.min(snapshot),
        };
        if captured as usize > packet.data.len() {
            return packet_too_large(block, captured);
        }
        Step::Packet(Record {
            len,
            start: 12,
            captured,
            original,
            time: self.last_time,
            link: interface.link,
            interface: interface.number,
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
fn bad(len: usize, numbered: bool, what: Prose) -> Step {
    Step::Bad {
        len,
        numbered,
        kind: Kind::BadBlock,
        what,
    }
}

#[cold]
fn bad_packet(block: &[u8]) -> Step {
    let len = block.len();
    bad(len, true, prose!("a packet block of {} bytes", len))
}

#[cold]
fn packet_too_large(block: &[u8], captured: u32) -> Step {
    let len = block.len();
    let what = prose!("a packet of {} bytes in a block of {}", captured, len);
    bad(len, true, what)
}

/// The halves of a packet's time put together.
#[inline]
fn ticks(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The byte order of the section header that `bytes` begin with.
fn section_order(bytes: &[u8]) -> Option<Order> {
    [Order::Little, Order::Big]
        .into_iter()
        .find(|order| order.u32(bytes, 8) == Some(BOM_MAGIC))
}

const NANOSECONDS: i128 = 1_000_000_000;

/// Options of an interface that are kept for whoever writes its packets again: name, description, MAC address,
/// filter, system, length of the check sequence and hardware, whose bytes have no order. The others are numbers
/// or say nothing of its packets.
const KEPT: [u16; 7] = [2, 3, 6, 11, 12, 13, 15];

/// The longest option of an interface that is kept.
const OPTION: usize = 1 << 10;

/// Interfaces of one section that are kept: what the id of the obsolete packet block can name.
const INTERFACES: usize = 1 << 16;

/// The most of a block with options that pcap-parser is shown, a multiple of 4: it takes up to 24
/// times that to collect them. Some options of 64 KiB each, the longest there are, go into it.
const DESCRIPTION: usize = 256 << 10;

const SECTION_HEADER_MIN: usize = 28;
/// What is around a packet in its block: 28 bytes before it, the trailing length after it.
const PACKET_FRAMING: usize = 32;

/// What is around secrets in their block: 16 bytes before them, the trailing length after them.
const SECRETS_FRAMING: usize = 20;
/// The type of secrets that are a key log of TLS.
const TLS_KEY_LOG: u32 = 0x544c_534b;

/// Block types that pcap-parser has no names for.
const DECRYPTION_SECRETS: u32 = 10;
const PACKET: u32 = 2;
const SYSDIG_EVENT: u32 = 0x204;
const SYSDIG_EVENT_FLAGS: u32 = 0x208;
const SYSDIG_EVENT_V2: u32 = 0x216;
const SYSDIG_EVENT_FLAGS_V2: u32 = 0x217;
const SYSDIG_EVENT_V2_LARGE: u32 = 0x221;
const SYSDIG_EVENT_FLAGS_V2_LARGE: u32 = 0x222;
