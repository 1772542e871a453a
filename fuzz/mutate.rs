//! Captures with something changed: bits and runs of bytes anywhere, lengths and other fields of headers where the
//! format has them, packets and blocks left out, doubled, put elsewhere or taken from another capture, words and
//! numbers of texts. The same seed gives the same file.

use std::ops::Range;

/// Numbers that follow from a seed (splitmix64).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of `0..end`; 0 when there is none.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end as u64).max(1)).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        let [byte, ..] = self.next().to_le_bytes();
        byte
    }

    fn range(&mut self, len: usize, longest: usize) -> Range<usize> {
        let start = self.below(len);
        start..len.min(start + 1 + self.below(longest))
    }
}

/// Values at the edges of what fields hold.
const EDGES: [u32; 18] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    20,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    u32::MAX,
];

/// What takes the place of numbers and words in texts.
const WORDS: [&str; 20] = [
    "0",
    "-1",
    "1e999",
    "99999999999999999999",
    "4294967296",
    "null",
    "true",
    "\"\"",
    "[[[[",
    "{\"a\":{",
    "\u{0}",
    "\r\n",
    "\n\n",
    "\r",
    "chunked",
    "gzip, br",
    "text/event-stream",
    "last-event-id: 1\r\n",
    "0\r\n\r\n",
    "data: {}\n\n",
];

/// Changes `bytes`, a few times over; `other` is another capture to take parts from.
pub(crate) fn mutate(bytes: &[u8], other: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=chance.below(4) {
        once(&mut bytes, other, chance);
    }
    bytes
}

fn once(bytes: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    if bytes.is_empty() {
        bytes.push(chance.byte());
    }
    let records = records(bytes);
    let way = chance.below(if records.is_empty() { 7 } else { 14 });
    match way {
        0 => {
            for _ in 0..=chance.below(16) {
                let at = chance.below(bytes.len());
                bytes[at] ^= 1 << chance.below(8);
            }
        }
        1 => {
            let (run, value) = (chance.range(bytes.len(), 64), chance.byte());
            bytes[run].fill(value);
        }
        2 => bytes.truncate(chance.below(bytes.len())),
        3 => {
            let run = chance.range(bytes.len(), 400);
            bytes.drain(run);
        }
        4 => {
            let run = chance.range(bytes.len(), 2000);
            let copy = bytes[run].to_vec();
            let at = chance.below(bytes.len());
            bytes.splice(at..at, copy);
        }
        5 => splice(bytes, other, chance),
        6 => text(bytes, chance),
        // What a record says of itself: lengths, times, interfaces.
        7 | 8 => {
            let record = records[chance.below(records.len())].clone();
            let at = record.start + chance.below(8) * 4;
            edge(bytes, at, 4, chance);
        }
        // Headers of frames: types, lengths, offsets, flags, ports, numbers.
        9 | 10 => {
            let record = records[chance.below(records.len())].clone();
            let at = record.start + 16 + chance.below(90);
            if at < record.end {
                edge(bytes, at, 1 + chance.below(2), chance);
            }
        }
        11 => {
            let record = records[chance.below(records.len())].clone();
            bytes.drain(record);
        }
        12 => {
            let record = records[chance.below(records.len())].clone();
            let copy = bytes[record].to_vec();
            let at = records[chance.below(records.len())].start;
            bytes.splice(at..at, copy);
        }
        // The file's own header: magic, version, snapshot length, link type.
        _ => {
            let at = chance.below(24);
            edge(bytes, at, 1 + chance.below(4), chance);
        }
    }
}

/// Puts a value of the edge, or one near what was there, into a field, in either order of bytes.
fn edge(bytes: &mut [u8], at: usize, width: usize, chance: &mut Chance) {
    let Some(field) = bytes.get_mut(at..at + width) else {
        return;
    };
    let value = EDGES[chance.below(EDGES.len())];
    match chance.below(3) {
        0 => field.copy_from_slice(&value.to_be_bytes()[4 - width..]),
        1 => field.copy_from_slice(&value.to_le_bytes()[..width]),
        _ => field[0] = field[0].wrapping_add(chance.byte() % 5).wrapping_sub(2),
    }
}

/// The beginning of one and the end of another, cut between their records where both have some.
fn splice(bytes: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    let cut = |bytes: &[u8], chance: &mut Chance| {
        let records = records(bytes);
        if records.is_empty() {
            chance.below(bytes.len())
        } else {
            records[chance.below(records.len())].start
        }
    };
    let (end, start) = (cut(bytes, chance), cut(other, chance));
    bytes.truncate(end);
    bytes.extend(&other[start..]);
}

/// Changes a number or a piece of a text.
fn text(bytes: &mut Vec<u8>, chance: &mut Chance) {
    let from = chance.below(bytes.len());
    let is_end = |byte: &u8| !byte.is_ascii_alphanumeric() && *byte != b'-';
    let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let start = from + start;
    let len = bytes[start..]
        .iter()
        .position(is_end)
        .unwrap_or(bytes.len() - start);
    let word = WORDS[chance.below(WORDS.len())].as_bytes();
    // A packet keeps its length, so that what follows is still read.
    if chance.below(2) == 0 {
        let end = (start + word.len()).min(bytes.len());
        bytes[start..end].copy_from_slice(&word[..end - start]);
    } else {
        bytes.splice(start..start + len, word.iter().copied());
    }
}

/// Where the packets of a pcap and the blocks of a pcapng lie; nothing of what is neither.
fn records(bytes: &[u8]) -> Vec<Range<usize>> {
    let number = |at: usize, big: bool| {
        let four = bytes.get(at..at + 4)?.try_into().ok()?;
        let value = if big {
            u32::from_be_bytes(four)
        } else {
            u32::from_le_bytes(four)
        };
        usize::try_from(value).ok()
    };
    let (mut at, big, ng) = match bytes {
        [0xd4, 0xc3, 0xb2, 0xa1, ..] | [0x4d, 0x3c, 0xb2, 0xa1, ..] => (24, false, false),
        [0xa1, 0xb2, 0xc3, 0xd4, ..] | [0xa1, 0xb2, 0x3c, 0x4d, ..] => (24, true, false),
        [0x0a, 0x0d, 0x0d, 0x0a, _, _, _, _, first, ..] => (0, *first == 0x1a, true),
        _ => return Vec::new(),
    };
    let mut records = Vec::new();
    while let Some(len) = if ng {
        number(at + 4, big)
    } else {
        number(at + 8, big).map(|len| len.saturating_add(16))
    } {
        let end = at.saturating_add(len);
        if len < 12 || end > bytes.len() {
            break;
        }
        records.push(at..end);
        at = end;
    }
    records
}
