//! A capture file of packets, read in batches.
//!
//! A batch is one large read and the places of the packets in it: a packet's bytes are never
//! copied, but for the one that a batch's end cuts, which moves to the next.

use super::{
    compression::{End, fill},
    pcap, pcapng,
};
use crate::{
    anomaly::{Anomalies, Kind},
    model::{
        packet::{Frame, Interface, LinkType},
        place::{InputId, Place},
        prose::{Prose, prose},
        time::{Span, Timestamp},
    },
};
use std::{
    fmt,
    io::{self, Read},
    mem,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// Consecutive packets of one file, and the buffer that holds them.
#[derive(Debug)]
pub struct Batch {
    buffer: Buffer,
    pool: Pool,
    /// Of the file up to its end.
    interfaces: Arc<Vec<Interface>>,
}

impl Batch {
    /// How many packets there are; never 0 in a batch that a [`Reader`] gave.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.entries.is_empty()
    }

    /// The packet at `index`, as one of `input`.
    #[must_use]
    pub fn frame(&self, index: usize, input: InputId) -> Option<Frame<'_>> {
        self.buffer
            .entries
            .get(index)
            .map(|entry| self.borrow(entry, input))
    }

    /// The packets in `range`, as ones of `input`; what is past the end is left out.
    pub fn frames(&self, range: Range<usize>, input: InputId) -> impl Iterator<Item = Frame<'_>> {
        let entries = &self.buffer.entries;
        let end = range.end.min(entries.len());
        entries
            .get(range.start.min(end)..end)
            .unwrap_or_default()
            .iter()
            .map(move |entry| self.borrow(entry, input))
    }

    /// How many bytes the packets in `range` take in the file.
    #[must_use]
    pub fn bytes(&self, range: &Range<usize>) -> usize {
        let start = |index: usize| self.buffer.entries.get(index).map(|entry| entry.start);
        let end = |entry: &Entry| entry.start.saturating_add(entry.captured);
        let last = range
            .end
            .checked_sub(1)
            .and_then(|last| self.buffer.entries.get(last));
        let bytes = last
            .map_or(0, end)
            .saturating_sub(start(range.start).unwrap_or(0));
        bytes as usize
    }

    /// The time of the packet at `index`.
    #[must_use]
    pub fn time(&self, index: usize) -> Option<Timestamp> {
        self.buffer.entries.get(index).map(|entry| entry.time)
    }

    /// The interface of the packet at `index`: its number in the file, over all sections, and what the file says
    /// of it, unless it has described too many.
    #[must_use]
    pub fn interface(&self, index: usize) -> Option<(u16, Option<&Interface>)> {
        let number = self.buffer.entries.get(index)?.interface;
        Some((number, self.interfaces.get(usize::from(number))))
    }

    #[inline]
    fn borrow(&self, entry: &Entry, input: InputId) -> Frame<'_> {
        let start = entry.start as usize;
        let end = start + entry.captured as usize;
        Frame {
            time: entry.time,
            place: Place {
                input,
                frame: entry.number,
                tcp_stream: None,
            },
            link: entry.link,
            data: self.buffer.bytes.get(start..end).unwrap_or_default(),
            original_len: entry.original,
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.pool.give(mem::take(&mut self.buffer));
    }
}

/// Reads the packets of one capture file.
pub struct Reader<'p> {
    source: Box<dyn Read + Send + 'p>,
    decoder: Decoder,
    /// Appended to the name of the format.
    suffix: &'static str,
    pool: Pool,
    /// Bytes of a batch, unless a block is larger.
    chunk: usize,
    /// The block that the end of the last batch cut.
    carry: Vec<u8>,
    /// Bytes that the block in `carry` is known to need.
    need: usize,
    /// Where `carry` begins in the unpacked file.
    offset: u64,
    /// Set when the source has ended, and how.
    ended: Option<io::Result<()>>,
    /// Set when there are no more packets.
    done: bool,
    /// Wireshark's number of the last packet.
    number: u32,
    links: Vec<LinkType>,
    interfaces: Arc<Vec<Interface>>,
    /// Key logs of TLS that were found and not taken yet.
    key_logs: Vec<Box<[u8]>>,
    totals: Totals,
    damage: Option<Damage>,
    /// Added to all times.
    ahead: Span,
}

impl<'p> Reader<'p> {
    /// Reads what follows the first `offset` bytes of a file.
    pub(super) fn new(
        source: Box<dyn Read + Send + 'p>,
        decoder: Decoder,
        offset: u64,
        suffix: &'static str,
        chunk: usize,
    ) -> Self {
        let interfaces = match &decoder {
            Decoder::Pcap(decoder) => vec![decoder.interface()],
            Decoder::PcapNg(_) => Vec::new(),
        };
        let links = interfaces.iter().map(|interface| interface.link).collect();
        Self {
            source,
            decoder,
            suffix,
            pool: Pool::default(),
            chunk: chunk.max(1),
            carry: Vec::new(),
            need: 0,
            offset,
            ended: None,
            done: false,
            number: 0,
            links,
            interfaces: Arc::new(interfaces),
            key_logs: Vec::new(),
            totals: Totals::default(),
            damage: None,
            ahead: Span::ZERO,
        }
    }

    /// Adds `span` to the times of the packets from now on.
    pub(super) fn move_times(&mut self, span: Span) {
        self.ahead = span;
    }

    /// Takes buffers from `pool` from now on, and gives them back to it.
    pub(super) fn share(&mut self, pool: &Pool) {
        self.pool = pool.clone();
    }

    /// `pcap` or `pcapng`, with `+gz` or `+zst` when compressed.
    #[must_use]
    pub fn format(&self) -> String {
        let name = match self.decoder {
            Decoder::Pcap(_) => "pcap",
            Decoder::PcapNg(_) => "pcapng",
        };
        format!("{name}{}", self.suffix)
    }

    /// Link types of the interfaces seen so far, in order of appearance.
    #[must_use]
    pub fn link_types(&self) -> &[LinkType] {
        &self.links
    }

    /// The key logs of TLS (Decryption Secrets Blocks) that were found since the last call.
    pub fn take_key_logs(&mut self) -> Vec<Box<[u8]>> {
        mem::take(&mut self.key_logs)
    }

    /// What was read so far.
    #[must_use]
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// What is wrong with the file, as far as it is read: what ended it early or, when nothing
    /// did, the first block that was left out.
    #[must_use]
    pub const fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// The next packets; `None` at the end, which damage may have brought.
    ///
    /// What is odd is noted as of `input`, at the frame number that the packet has or would have.
    pub fn next_batch(&mut self, anomalies: &mut Anomalies, input: InputId) -> Option<Batch> {
        while !self.done {
            let mut buffer = self.pool.take(self.chunk.max(self.need));
            let filled = self.refill(&mut buffer.bytes);
            let used = self.cut(&mut buffer, filled, anomalies, input);
            let rest = buffer.bytes.get(used..filled).unwrap_or_default();
            self.carry.extend_from_slice(rest);
            self.offset += used as u64;
            if buffer.entries.is_empty() {
                self.pool.give(buffer);
            } else {
                return Some(Batch {
                    buffer,
                    pool: self.pool.clone(),
                    interfaces: Arc::clone(&self.interfaces),
                });
            }
        }
        None
    }

    /// Puts the carried bytes and as many new ones as there is room for into `bytes`; returns how
    /// many that are.
    fn refill(&mut self, bytes: &mut [u8]) -> usize {
        let carried = self.carry.len();
        if let Some(start) = bytes.get_mut(..carried) {
            start.copy_from_slice(&self.carry);
        }
        self.carry.clear();
        if self.ended.is_some() {
            return carried;
        }
        let free = bytes.get_mut(carried..).unwrap_or_default();
        let (read, outcome) = fill(&mut self.source, free);
        match outcome {
            Ok(End::NotYet) => {}
            Ok(End::Reached) => self.ended = Some(Ok(())),
            Err(error) => self.ended = Some(Err(error)),
        }
        carried + read
    }

    /// Notes the packets among the first `filled` bytes of the buffer; returns the bytes used up.
    fn cut(
        &mut self,
        buffer: &mut Buffer,
        filled: usize,
        anomalies: &mut Anomalies,
        input: InputId,
    ) -> usize {
        let Buffer { bytes, entries } = buffer;
        let bytes = bytes.get(..filled).unwrap_or_default();
        let mut used = 0;
        loop {
            let left = bytes.get(used..).unwrap_or_default();
            match self.decoder.step(left) {
                Step::Packet(mut record) => {
                    record.time = record.time.plus(self.ahead);
                    self.number = self.number.saturating_add(1);
                    self.totals.add(&record);
                    entries.push(Entry {
                        time: record.time,
                        start: u32::try_from(used + record.start).unwrap_or(u32::MAX),
                        captured: record.captured,
                        original: record.original,
                        number: self.number,
                        link: record.link,
                        interface: record.interface,
                    });
                    used += record.len;
                }
                Step::Skip { len, numbered } => {
                    self.number = self.number.saturating_add(u32::from(numbered));
                    used += len;
                }
                Step::KeyLog { len, start, size } => {
                    let text = left
                        .get(start..start.saturating_add(size))
                        .unwrap_or_default();
                    self.key_logs.push(text.into());
                    used += len;
                }
                Step::Interface { len, described } => {
                    let link = described.link;
                    if self.interfaces.len() < INTERFACES {
                        Arc::make_mut(&mut self.interfaces).push(*described);
                    }
                    if self.links.len() < LINKS && !self.links.contains(&link) {
                        self.links.push(link);
                    }
                    used += len;
                }
                Step::Bad {
                    len,
                    numbered,
                    kind,
                    what,
                } => {
                    self.number = self.number.saturating_add(u32::from(numbered));
                    let damage = Damage {
                        offset: self.offset + used as u64,
                        what: prose!("{}, left out", what),
                    };
                    anomalies.note(kind, self.place(input, self.number), || damage.said());
                    self.damage.get_or_insert(damage);
                    used += len;
                }
                Step::Need(need) => {
                    self.need = need;
                    match self.ended.take() {
                        None => return used,
                        Some(outcome) => {
                            self.end(outcome, left.len(), need, used, anomalies, input);
                            return used;
                        }
                    }
                }
                Step::Stop(what) => {
                    let at = self.offset + used as u64;
                    self.stop(Kind::BadBlock, at, what, anomalies, input);
                    return used;
                }
            }
        }
    }

    /// The source has ended with `left` bytes of a block that needs more.
    fn end(
        &mut self,
        outcome: io::Result<()>,
        left: usize,
        need: usize,
        used: usize,
        anomalies: &mut Anomalies,
        input: InputId,
    ) {
        self.done = true;
        let start = self.offset + used as u64;
        match outcome {
            Ok(()) if left == 0 => {}
            Ok(()) => {
                let item = match self.decoder {
                    Decoder::Pcap(_) => "packet",
                    Decoder::PcapNg(_) => "block",
                };
                let what = prose!(
                    "the file ends after {} of {} bytes of a {}",
                    left,
                    need,
                    item
                );
                self.stop(Kind::FileCut, start, what, anomalies, input);
            }
            Err(error) => {
                let kind = match error.kind() {
                    io::ErrorKind::UnexpectedEof => Kind::FileCut,
                    io::ErrorKind::FileTooLarge => Kind::DecompressionLimit,
                    _ => Kind::BadBlock,
                };
                let what = match (kind, self.suffix) {
                    (_, "") => prose!("{}", error),
                    (Kind::DecompressionLimit, _) => {
                        prose!("the compressed data expand beyond the limit: {}", error)
                    }
                    (Kind::FileCut, _) => "the compressed data end early".into(),
                    (_, _) => prose!("the compressed data are damaged: {}", error),
                };
                self.stop(kind, start + left as u64, what, anomalies, input);
            }
        }
    }

    /// Nothing more can be read from `offset` on.
    fn stop(
        &mut self,
        kind: Kind,
        offset: u64,
        what: Prose,
        anomalies: &mut Anomalies,
        input: InputId,
    ) {
        self.done = true;
        let damage = Damage { offset, what };
        let place = self.place(input, self.number.saturating_add(1));
        anomalies.note(kind, place, || damage.said());
        self.damage = Some(damage);
    }

    const fn place(&self, input: InputId, frame: u32) -> Place {
        Place {
            input,
            frame,
            tcp_stream: None,
        }
    }
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("decoder", &self.decoder)
            .field("offset", &self.offset)
            .field("totals", &self.totals)
            .field("damage", &self.damage)
            .finish_non_exhaustive()
    }
}

/// What a file is found to have wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where, in bytes of the uncompressed capture.
    pub offset: u64,
    /// What, in a few words.
    pub what: Prose,
}

impl Damage {
    /// In one line.
    #[must_use]
    pub fn said(&self) -> Prose {
        prose!("{} at offset {}", self.what, self.offset)
    }
}

/// Sums over the packets of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets.
    pub packets: u64,
    /// Bytes captured of them.
    pub bytes: u64,
    /// Packets of which the snapshot length cut something.
    pub truncated: u64,
    /// The earliest time.
    pub first_time: Option<Timestamp>,
    /// The latest time.
    pub last_time: Option<Timestamp>,
}

impl Totals {
    #[inline]
    fn add(&mut self, record: &Record) {
        self.packets += 1;
        self.bytes += u64::from(record.captured);
        self.truncated += u64::from(record.original > record.captured);
        let time = record.time;
        self.first_time = Some(self.first_time.map_or(time, |first| first.min(time)));
        self.last_time = Some(self.last_time.map_or(time, |last| last.max(time)));
    }
}

/// What a decoder found at the start of the bytes it was shown.
#[derive(Debug)]
pub(super) enum Step {
    /// A block of which at least this many bytes must be seen, from its start.
    Need(usize),
    /// A packet.
    Packet(Record),
    /// A block without a packet of ours; `numbered` when Wireshark counts it as one.
    Skip { len: usize, numbered: bool },
    /// A block that holds a key log of TLS, in so many bytes after the first `start`.
    KeyLog {
        len: usize,
        start: usize,
        size: usize,
    },
    /// A block that describes an interface.
    Interface {
        len: usize,
        described: Box<Interface>,
    },
    /// A block that makes no sense, and can be left out.
    Bad {
        len: usize,
        numbered: bool,
        kind: Kind,
        what: Prose,
    },
    /// Bytes that make no sense, and it cannot be told where the next block is.
    Stop(Prose),
}

/// Where a packet is in its block, and its fixed facts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Length of the block.
    pub(super) len: usize,
    /// Where in it the packet's bytes begin.
    pub(super) start: usize,
    /// How many they are; within the block.
    pub(super) captured: u32,
    /// How many they were on the wire; not less.
    pub(super) original: u32,
    /// Capture time.
    pub(super) time: Timestamp,
    /// What they begin with.
    pub(super) link: LinkType,
    /// Which of the interfaces that the file describes it came by.
    pub(super) interface: u16,
}

/// The order of bytes in numbers, which files choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    /// The number at `at`, if there is one.
    #[inline]
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        })
    }

    /// The number at `at`, if there is one.
    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        })
    }

    /// The number that `bytes` are, when they are eight.
    pub(super) fn i64(self, bytes: &[u8]) -> Option<i64> {
        let bytes = bytes.try_into().ok()?;
        Some(match self {
            Self::Little => i64::from_le_bytes(bytes),
            Self::Big => i64::from_be_bytes(bytes),
        })
    }
}

/// The formats of packets.
#[derive(Clone, Debug)]
pub(super) enum Decoder {
    Pcap(pcap::Decoder),
    PcapNg(pcapng::Decoder),
}

impl Decoder {
    #[inline]
    fn step(&mut self, bytes: &[u8]) -> Step {
        match self {
            Self::Pcap(decoder) => decoder.step(bytes),
            Self::PcapNg(decoder) => decoder.step(bytes),
        }
    }
}

/// Buffers that are not in use: a large buffer costs more to get from the system than to fill.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool(Arc<Mutex<Vec<Buffer>>>);

impl Pool {
    /// A buffer of at least `len` bytes, without packets.
    fn take(&self, len: usize) -> Buffer {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One of another size is let go, so that the sizes follow what is asked for.
        match pool.pop() {
            Some(buffer) if (len..=len.saturating_mul(2)).contains(&buffer.bytes.len()) => buffer,
            _ => Buffer {
                bytes: vec![0; len],
                entries: Vec::new(),
            },
        }
    }

    fn give(&self, mut buffer: Buffer) {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.len() < POOLED {
            buffer.entries.clear();
            pool.push(buffer);
        }
    }
}

#[derive(Debug, Default)]
struct Buffer {
    /// All of them may be written to; those past the last packet are left from earlier use.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// A packet of a batch: 32 bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    time: Timestamp,
    start: u32,
    captured: u32,
    original: u32,
    number: u32,
    link: LinkType,
    interface: u16,
}

/// Interfaces of one file, over all its sections, that are remembered with what is said of them. A host has
/// some dozens; a file that is pasted together has those of each part.
const INTERFACES: usize = 1 << 12;

/// Link types listed of one file: more than there are.
const LINKS: usize = 512;

/// Buffers kept: more than those of the batches that are on their way at any time.
const POOLED: usize = 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test that panics has failed")]

    use super::super::samples::{Drops, Packet, PcapNg, Writer, pcap};
    use super::*;
    use Order::{Big, Little};

    const BLOCK: usize = 1 << 20;

    /// What a test looks at of a frame: number, time, link type, bytes, length on the wire.
    type Seen = (u32, i64, u16, Vec<u8>, u32);

    struct Outcome {
        frames: Vec<Seen>,
        links: Vec<u16>,
        damage: Option<Damage>,
        anomalies: Vec<(Kind, u64)>,
        totals: Totals,
    }

    fn reader<'p>(bytes: &[u8], source: impl Read + Send + 'p, chunk: usize) -> Reader<'p> {
        let (decoder, header) = if bytes.starts_with(b"\n\r\r\n") {
            (Decoder::PcapNg(pcapng::Decoder::new(BLOCK)), 0)
        } else {
            let decoder = pcap::Decoder::new(bytes, BLOCK).expect("a header");
            (Decoder::Pcap(decoder), pcap::FILE_HEADER)
        };
        let mut source = Box::new(source);
        source.read_exact(&mut vec![0; header]).unwrap();
        Reader::new(source, decoder, header as u64, "", chunk)
    }

    fn drain(mut reader: Reader<'_>) -> Outcome {
        let input = InputId(3);
        let mut anomalies = Anomalies::default();
        let mut frames = Vec::new();
        while let Some(batch) = reader.next_batch(&mut anomalies, input) {
            assert!(!batch.is_empty());
            for (index, frame) in batch.frames(0..batch.len(), input).enumerate() {
                let same = batch.frame(index, input).unwrap();
                assert_eq!((same.place, same.data), (frame.place, frame.data));
                assert_eq!(batch.time(index), Some(frame.time));
                assert_eq!(frame.place.input, input);
                frames.push((
                    frame.place.frame,
                    frame.time.nanos(),
                    frame.link.0,
                    frame.data.to_vec(),
                    frame.original_len,
                ));
            }
            assert!(batch.frame(batch.len(), input).is_none());
        }
        assert!(reader.next_batch(&mut anomalies, input).is_none());
        Outcome {
            frames,
            links: reader.link_types().iter().map(|link| link.0).collect(),
            damage: reader.damage().cloned(),
            anomalies: anomalies
                .iter()
                .map(|(_, kind, tally)| (kind, tally.count))
                .collect(),
            totals: reader.totals(),
        }
    }

    fn read(bytes: &[u8]) -> Outcome {
        drain(reader(bytes, bytes, 1 << 16))
    }

    const PACKETS: &[Packet<'_>] = &[
        (1_700_000_000_123_456, b"first", 5),
        (1_700_000_000_123_457, b"", 0),
        (1_700_000_001_000_000, b"second, cut", 1500),
        (1_699_999_999_999_999, b"odd", 3),
    ];

    /// `PACKETS` as they should be seen, with ticks of so many nanoseconds.
    fn expected(link: u16, tick: i64) -> Vec<Seen> {
        (1..)
            .zip(PACKETS)
            .map(|(number, (ticks, data, original))| {
                let time = i64::try_from(*ticks).unwrap() * tick;
                (number, time, link, data.to_vec(), *original)
            })
            .collect()
    }

    fn pcapng(order: Order) -> Vec<u8> {
        PACKETS
            .iter()
            .fold(PcapNg::new(order).interface(1, 0), |file, packet| {
                file.packet(0, *packet)
            })
            .bytes()
    }

    /// Everything that a pcapng may have.
    fn everything() -> Vec<u8> {
        PcapNg::new(Big)
            .block(0x0bad, |body| body.u32(32473).raw(b"custom"))
            .interface(113, 8)
            .interface_with(1, 0, PcapNg::clock(9, -1))
            .block(4, |body| body.u32(0))
            .packet(1, (5_000_000_000, b"nanoseconds", 11))
            .simple_packet(b"simple", 6)
            .block(10, |body| body.u32(0x544c_534b).u32(4).raw(b"keys"))
            .old_packet(0, (7_000_000, b"old", 30))
            .packet(9, (0, b"nobody's", 8))
            .block(0x7777, |body| body.raw(b"unknown"))
            .section(Little)
            .interface_with(101, 0, PcapNg::clock(0x80 | 10, 100))
            .packet(0, (2048 + 512, b"binary", 6))
            .packet(1, (0, b"of the other section", 20))
            .block(5, |body| body.u32(0).u64(0))
            .packet(0, (3072, b"last", 4))
            .bytes()
    }

    #[test]
    fn every_dialect_of_pcap_is_read() {
        for order in [Little, Big] {
            for (magic, tick) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1), (0xa1b2_cd34, 1000)] {
                let outcome = read(&pcap(order, magic, 113, PACKETS));
                assert_eq!(outcome.frames, expected(113, tick), "{order:?} {magic:x}");
                assert_eq!(outcome.links, [113]);
                assert_eq!(outcome.damage, None);
                assert_eq!(outcome.anomalies, []);
            }
        }
    }

    #[test]
    fn every_resolution_and_offset_of_pcapng_is_exact() {
        let ticks = u64::MAX / 3;
        for order in [Little, Big] {
            for offset in [0, 1_700_000_000, -5] {
                for resolution in 0..=0xff_u8 {
                    let file = PcapNg::new(order)
                        .interface_with(1, 0, PcapNg::clock(resolution, offset))
                        .packet(0, (ticks, b"", 0))
                        .bytes();
                    let exponent = u32::from(resolution & 0x7f);
                    let nanos = i128::from(ticks) * 1_000_000_000;
                    let nanos = if resolution & 0x80 == 0 {
                        10_i128.checked_pow(exponent).map_or(0, |unit| nanos / unit)
                    } else {
                        1_i128
                            .checked_shl(exponent)
                            .map_or(0, |unit| if unit > 0 { nanos / unit } else { 0 })
                    };
                    let nanos = nanos + i128::from(offset) * 1_000_000_000;
                    let time = i64::try_from(nanos).unwrap_or(i64::MAX);
                    let outcome = read(&file);
                    assert_eq!(
                        outcome.frames[0].1, time,
                        "{order:?} {resolution:#x} {offset}"
                    );
                }
            }
        }
    }

    #[test]
    fn microseconds_are_the_default_of_pcapng() {
        for order in [Little, Big] {
            let outcome = read(&pcapng(order));
            assert_eq!(outcome.frames, expected(1, 1000));
            assert_eq!(outcome.damage, None);
            assert_eq!(outcome.totals.packets, 4);
            assert_eq!(outcome.totals.bytes, 5 + 11 + 3);
            assert_eq!(outcome.totals.truncated, 1);
            let nanos = |time: Option<Timestamp>| time.unwrap().nanos();
            assert_eq!(nanos(outcome.totals.first_time), 1_699_999_999_999_999_000);
            assert_eq!(nanos(outcome.totals.last_time), 1_700_000_001_000_000_000);
        }
    }

    #[test]
    fn sections_interfaces_and_all_kinds_of_packet_are_read() {
        let outcome = read(&everything());
        let frame = |number, nanos, link, data: &[u8], original| {
            (number, nanos, link, data.to_vec(), original)
        };
        assert_eq!(
            outcome.frames,
            [
                // Frame 1 is the custom block, 5 the packet of interface 9, 7 that of another
                // section's interface.
                frame(2, 4_000_000_000, 1, b"nanoseconds", 11),
                frame(3, 4_000_000_000, 113, b"simple", 6),
                frame(4, 7_000_000_000, 113, b"old", 30),
                frame(6, 102_500_000_000, 101, b"binary", 6),
                frame(8, 103_000_000_000, 101, b"last", 4),
            ]
        );
        assert_eq!(outcome.links, [113, 1, 101]);
        assert_eq!(outcome.anomalies, [(Kind::UnknownInterface, 2)]);
        let damage = outcome.damage.unwrap();
        assert_eq!(damage.what, "a packet of interface 9, left out");
    }

    #[test]
    fn simple_packets_are_cut_by_the_snapshot_length() {
        let file = PcapNg::new(Little)
            .interface(1, 5)
            .simple_packet(b"12345", 9)
            .simple_packet(b"123", 3)
            .bytes();
        let frames = read(&file).frames;
        assert_eq!((&frames[0].3[..], frames[0].4), (&b"12345"[..], 9));
        assert_eq!((&frames[1].3[..], frames[1].4), (&b"123"[..], 3));
    }

    #[test]
    fn every_prefix_yields_a_prefix_of_the_frames() {
        for file in [
            pcap(Little, 0xa1b2_c3d4, 1, PACKETS),
            pcap(Big, 0xa1b2_cd34, 1, PACKETS),
            pcapng(Big),
            everything(),
        ] {
            let whole = read(&file).frames;
            let start = if file.starts_with(b"\n\r\r\n") {
                12
            } else {
                24
            };
            for len in start..file.len() {
                let outcome = read(&file[..len]);
                assert!(whole.starts_with(&outcome.frames), "{len}");
                let cut = outcome
                    .anomalies
                    .iter()
                    .any(|(kind, _)| *kind == Kind::FileCut);
                let offset = outcome.damage.map(|damage| damage.offset);
                if cut {
                    // Where it points to, the file can be cut without damage.
                    let offset = usize::try_from(offset.unwrap()).unwrap();
                    assert!(offset < len);
                    let clean = read(&file[..offset.max(start)]);
                    assert_eq!(clean.frames, outcome.frames);
                }
            }
        }
    }

    #[test]
    fn a_file_that_ends_between_packets_is_whole() {
        let file = pcap(Little, 0xa1b2_c3d4, 1, PACKETS);
        let outcome = read(&file[..24]);
        assert!(outcome.frames.is_empty() && outcome.damage.is_none());
        let outcome = read(&file[..24 + 16 + 5]);
        assert!(outcome.frames.len() == 1 && outcome.damage.is_none());
        let outcome = read(&file[..24 + 16 + 4]);
        assert_eq!(outcome.anomalies, [(Kind::FileCut, 1)]);
        assert_eq!(
            outcome.damage.unwrap().said().as_str(),
            "the file ends after 20 of 21 bytes of a packet at offset 24"
        );
    }

    #[test]
    fn cutting_reads_and_batches_otherwise_changes_nothing() {
        for file in [
            pcap(Little, 0xa1b2_c3d4, 1, PACKETS),
            pcap(Big, 0xa1b2_3c4d, 1, PACKETS),
            pcap(Big, 0xa1b2_cd34, 1, PACKETS),
            pcapng(Little),
            everything(),
            everything()[..300].to_vec(),
        ] {
            let whole = read(&file);
            for chunk in [1, 7, 16, 40, 64, 100, 1000] {
                for outcome in [
                    drain(reader(&file, Drops::new(&file), chunk)),
                    drain(reader(&file, file.as_slice(), chunk)),
                ] {
                    assert_eq!(outcome.frames, whole.frames);
                    assert_eq!(outcome.damage, whole.damage);
                    assert_eq!(outcome.anomalies, whole.anomalies);
                    assert_eq!(outcome.links, whole.links);
                    assert_eq!(outcome.totals, whole.totals);
                }
            }
        }
    }

    #[test]
    fn agrees_with_the_iterators_of_pcap_parser() {
        use pcap_parser::{
            LegacyPcapSlice, PcapBlockOwned, PcapNGSlice, pcapng::Block, traits::PcapNGPacketBlock,
        };
        let file = pcap(Little, 0xa1b2_c3d4, 1, PACKETS);
        let theirs: Vec<_> = LegacyPcapSlice::from_slice(&file)
            .unwrap()
            .map(|block| match block.unwrap() {
                PcapBlockOwned::Legacy(packet) => (packet.data.to_vec(), packet.origlen),
                _ => panic!("not a packet"),
            })
            .collect();
        let ours = |frames: Vec<Seen>| -> Vec<_> {
            frames.into_iter().map(|frame| (frame.3, frame.4)).collect()
        };
        assert_eq!(ours(read(&file).frames), theirs);

        let file = pcapng(Little);
        let theirs: Vec<_> = PcapNGSlice::from_slice(&file)
            .unwrap()
            .filter_map(|block| match block.unwrap() {
                PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                    Some((packet.packet_data().to_vec(), packet.origlen))
                }
                _ => None,
            })
            .collect();
        assert_eq!(ours(read(&file).frames), theirs);
    }

    #[test]
    fn a_packet_may_be_larger_than_a_batch() {
        let large = vec![7; 100_000];
        let file = pcap(
            Little,
            0xa1b2_c3d4,
            1,
            &[(0, b"small", 5), (1, &large, 100_000), (2, b"small", 5)],
        );
        let outcome = drain(reader(&file, file.as_slice(), 4096));
        let lens: Vec<_> = outcome.frames.iter().map(|frame| frame.3.len()).collect();
        assert_eq!(lens, [5, 100_000, 5]);
    }

    #[test]
    fn an_insane_length_ends_the_file_there() {
        for len in [BLOCK + 1, u32::MAX as usize] {
            let mut file = pcap(Little, 0xa1b2_c3d4, 1, PACKETS);
            let offset = file.len();
            let len = u32::try_from(len).unwrap();
            file = Writer {
                order: Little,
                bytes: file,
            }
            .u64(0)
            .u32(len)
            .u32(len)
            .bytes;
            file.extend([0; 100]);
            let outcome = read(&file);
            assert_eq!(outcome.frames, expected(1, 1000));
            assert_eq!(outcome.anomalies, [(Kind::BadBlock, 1)]);
            let damage = outcome.damage.unwrap();
            assert_eq!(damage.offset, offset as u64);
            assert_eq!(damage.what, format!("a packet that claims {len} bytes"));
        }
    }

    #[test]
    fn more_captured_than_sent_is_taken_as_it_is() {
        let outcome = read(&pcap(
            Little,
            0xa1b2_c3d4,
            1,
            &[(0, b"with check sequence", 15)],
        ));
        assert_eq!((outcome.frames[0].3.len(), outcome.frames[0].4), (19, 19));
        assert_eq!(outcome.totals.truncated, 0);
    }

    #[test]
    fn the_upper_bits_of_the_link_type_are_left_out() {
        let outcome = read(&pcap(Big, 0xa1b2_c3d4, 0x5400_0071, PACKETS));
        assert_eq!(outcome.links, [113]);
    }

    #[test]
    fn a_bad_block_with_agreeing_lengths_is_left_out() {
        let start = PcapNg::new(Little).interface(1, 0).packet(0, PACKETS[0]);
        let offset = start.0.bytes.len() as u64;
        for broken in [
            // More bytes than the block has; a block without all fields; the same for interfaces.
            start
                .clone()
                .block(6, |body| body.u32(0).u64(0).u32(5).u32(5).raw(b"four")),
            start.clone().block(6, |body| body.u32(0)),
            start.clone().block(2, |body| body),
            start.clone().block(3, |body| body),
            start.clone().block(3, |body| body.u32(5).raw(b"four")),
        ] {
            let outcome = read(&broken.packet(0, PACKETS[2]).bytes());
            let numbers: Vec<_> = outcome.frames.iter().map(|frame| frame.0).collect();
            assert_eq!(numbers, [1, 3]);
            assert_eq!(outcome.anomalies, [(Kind::BadBlock, 1)]);
            assert_eq!(outcome.damage.unwrap().offset, offset);
        }
        let outcome = read(&start.block(1, |body| body).packet(0, PACKETS[2]).bytes());
        let numbers: Vec<_> = outcome.frames.iter().map(|frame| frame.0).collect();
        assert_eq!(numbers, [1, 2]);
    }

    #[test]
    fn a_block_without_an_end_ends_the_file_there() {
        let start = PcapNg::new(Little).interface(1, 0).packet(0, PACKETS[0]);
        let offset = start.0.bytes.len();
        let whole = start.packet(0, PACKETS[1]).packet(0, PACKETS[2]).bytes();
        let patch = |at: usize, bytes: &[u8]| {
            let mut file = whole.clone();
            file[at..at + bytes.len()].copy_from_slice(bytes);
            file
        };
        for broken in [
            // A trailing length that differs; leading ones that are too small or too large.
            patch(offset + 28, &[1, 0, 0, 0]),
            patch(offset + 4, &[8, 0, 0, 0]),
            patch(offset + 4, &[0xff, 0xff, 0xff, 0xff]),
        ] {
            let outcome = read(&broken);
            assert_eq!(outcome.frames.len(), 1);
            assert_eq!(outcome.anomalies, [(Kind::BadBlock, 1)]);
            assert_eq!(outcome.damage.unwrap().offset, offset as u64);
        }
    }

    #[test]
    fn a_block_may_be_padded_beyond_its_length() {
        let mut file = PcapNg::new(Little).interface(1, 0);
        for len in [5, 6, 7] {
            file.0 = file
                .0
                .u32(3)
                .u32(16 + len)
                .u32(len)
                .raw(&b"1234567"[..len as usize])
                .raw(&[0; 3][..8 - len as usize])
                .u32(16 + len);
        }
        let outcome = read(&file.bytes());
        let frames: Vec<_> = outcome.frames.iter().map(|frame| &frame.3[..]).collect();
        assert_eq!(frames, [&b"12345"[..], b"123456", b"1234567"]);
        assert_eq!(outcome.damage, None);
    }

    #[test]
    fn packets_may_have_options() {
        for order in [Little, Big] {
            let file = PACKETS
                .iter()
                .fold(
                    PcapNg::new(order).interface(1, 0),
                    |file, (ticks, data, original)| {
                        file.block(6, |body| {
                            body.u32(0)
                                .u32(u32::try_from(ticks >> 32).unwrap())
                                .u32(u32::try_from(ticks & 0xffff_ffff).unwrap())
                                .u32(u32::try_from(data.len()).unwrap())
                                .u32(*original)
                                .raw(data)
                                .raw(&[0; 3][..data.len().next_multiple_of(4) - data.len()])
                                .u16(2)
                                .u16(4)
                                .u32(1)
                                .u32(0)
                        })
                    },
                )
                .bytes();
            let outcome = read(&file);
            assert_eq!(outcome.frames, expected(1, 1000));
            assert_eq!(outcome.damage, None);
        }
    }

    #[test]
    fn any_block_may_be_padded_beyond_its_length() {
        let file = PcapNg::new(Little);
        // An interface whose resolution, and a packet whose last bytes, lack their padding.
        let file = file
            .0
            .u32(1)
            .u32(25)
            .u16(1)
            .u16(0)
            .u32(0)
            .u16(9)
            .u16(1)
            .raw(&[0, 0, 0, 0])
            .u32(25)
            .u32(6)
            .u32(37)
            .u32(0)
            .u64(7 << 32)
            .u32(5)
            .u32(5)
            .raw(b"12345\0\0\0")
            .u32(37)
            .bytes;
        let outcome = read(&file);
        assert_eq!(outcome.damage, None);
        assert_eq!(
            outcome.frames,
            [(1, 7_000_000_000, 1, b"12345".to_vec(), 5)]
        );
    }

    #[test]
    fn options_end_where_they_say() {
        let file = PcapNg::new(Big)
            .interface_with(1, 0, |options| {
                options.u32(0).u16(9).u16(1).raw(&[0, 0, 0, 0])
            })
            .packet(0, (1_000_000, b"", 0))
            .bytes();
        assert_eq!(read(&file).frames[0].1, 1_000_000_000);
    }

    #[test]
    fn an_interface_may_have_more_options_than_are_looked_at() {
        for order in [Little, Big] {
            let file = PcapNg::new(order)
                .interface_with(113, 4, |options| {
                    let options = options.u16(9).u16(1).raw(&[0, 0, 0, 0]);
                    (0..100_000).fold(options, |options, _| options.u16(1).u16(0))
                })
                .packet(0, (2, b"late", 4))
                .bytes();
            let outcome = read(&file);
            assert_eq!(
                outcome.frames,
                [(1, 2_000_000_000, 113, b"late".to_vec(), 4)]
            );
            assert_eq!(outcome.damage, None);
        }
    }

    #[test]
    fn a_section_of_another_version_ends_the_file_there() {
        let file = PcapNg::new(Little)
            .interface(1, 0)
            .packet(0, PACKETS[0])
            .block(0x0a0d_0d0a, |body| {
                body.u32(0x1a2b_3c4d).u16(2).u16(0).u64(u64::MAX)
            })
            .bytes();
        let outcome = read(&file);
        assert_eq!(outcome.frames.len(), 1);
        assert_eq!(outcome.damage.unwrap().what, "a section of major version 2");
    }

    #[test]
    fn cut_options_leave_those_before_them() {
        // Binary resolution, then an option that says it is longer than the block.
        let file = PcapNg::new(Little)
            .interface_with(1, 0, |options| {
                options.u16(9).u16(1).raw(&[0x81, 0, 0, 0]).u16(14).u16(800)
            })
            .packet(0, (3, b"", 0))
            .bytes();
        let outcome = read(&file);
        assert_eq!(outcome.frames[0].1, 1_500_000_000);
        assert_eq!(outcome.damage, None);
    }

    #[test]
    fn a_read_error_keeps_what_was_read() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        let file = pcap(Little, 0xa1b2_c3d4, 1, PACKETS);
        let outcome = drain(reader(&file, file[..60].chain(Fails), 1000));
        assert_eq!(outcome.frames, expected(1, 1000)[..1]);
        assert_eq!(
            outcome.damage.unwrap().said().as_str(),
            "the disk is gone at offset 60"
        );
    }

    proptest::proptest! {
        #[test]
        fn damaged_files_never_panic(
            which in 0..3_usize,
            patches: Vec<(usize, u8)>,
            chunk in 1..200_usize,
        ) {
            let mut file = match which {
                0 => pcap(Big, 0xa1b2_c3d4, 1, PACKETS),
                1 => pcapng(Little),
                _ => everything(),
            };
            // The magic stays: files without it do not get here.
            let len = file.len();
            for (at, value) in patches {
                file[4 + at % (len - 4)] = value;
            }
            let whole = read(&file);
            let cut = drain(reader(&file, Drops::new(&file), chunk));
            proptest::prop_assert_eq!(whole.frames, cut.frames);
            proptest::prop_assert_eq!(whole.damage, cut.damage);
        }
    }
}
