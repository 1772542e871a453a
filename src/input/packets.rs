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
        packet::{Frame, LinkType},
        place::{InputId, Place},
        time::Timestamp,
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

    /// The time of the packet at `index`.
    #[must_use]
    pub fn time(&self, index: usize) -> Option<Timestamp> {
        self.buffer.entries.get(index).map(|entry| entry.time)
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
    totals: Totals,
    damage: Option<Damage>,
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
        let links = match &decoder {
            Decoder::Pcap(decoder) => vec![decoder.link()],
            Decoder::PcapNg(_) => Vec::new(),
        };
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
            totals: Totals::default(),
            damage: None,
        }
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
                Step::Packet(record) => {
                    self.number = self.number.saturating_add(1);
                    self.totals.add(&record);
                    entries.push(Entry {
                        time: record.time,
                        start: u32::try_from(used + record.start).unwrap_or(u32::MAX),
                        captured: record.captured,
                        original: record.original,
                        number: self.number,
                        link: record.link,
                    });
                    used += record.len;
                }
                Step::Skip { len, numbered } => {
                    self.number = self.number.saturating_add(u32::from(numbered));
                    used += len;
                }
                Step::Interface { len, link } => {
                    if !self.links.contains(&link) {
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
                        what: format!("{what}, left out"),
                    };
                    anomalies.note(kind, self.place(input, self.number), || damage.to_string());
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
                let what = format!("the file ends after {left} of {need} bytes of a packet");
                self.stop(Kind::FileCut, start, what, anomalies, input);
            }
            Err(error) => {
                let kind = match error.kind() {
                    io::ErrorKind::UnexpectedEof => Kind::FileCut,
                    _ => Kind::BadBlock,
                };
                let what = match (kind, self.suffix) {
                    (_, "") => error.to_string(),
                    (Kind::FileCut, _) => "the compressed data end early".to_owned(),
                    (_, _) => format!("the compressed data are damaged: {error}"),
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
        what: String,
        anomalies: &mut Anomalies,
        input: InputId,
    ) {
        self.done = true;
        let damage = Damage { offset, what };
        let place = self.place(input, self.number.saturating_add(1));
        anomalies.note(kind, place, || damage.to_string());
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
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.what, self.offset)
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
    /// A block that describes an interface.
    Interface { len: usize, link: LinkType },
    /// A block that makes no sense, and can be left out.
    Bad {
        len: usize,
        numbered: bool,
        kind: Kind,
        what: String,
    },
    /// Bytes that make no sense, and it cannot be told where the next block is.
    Stop(String),
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
}

/// Buffers kept: a few batches are on their way at any time.
const POOLED: usize = 8;
