//! Writes pcapng (draft-ietf-opsawg-pcapng): one little-endian section, interfaces as they are needed, packets with
//! comments. Only what evidence needs; Wireshark reads it.

use crate::model::{packet::Interface, time::Timestamp};
use std::io::{self, Write};

/// Secrets of TLS in NSS key log format.
pub const TLS_KEY_LOG: u32 = 0x544c_534b;

/// A pcapng file that is being written.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// Of each interface, how its times are counted.
    clocks: Vec<(u8, i64)>,
    /// The block that is being put together.
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a file that `application` writes, with comments on the whole of it.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn new(out: W, application: &str, comments: &[String]) -> io::Result<Self> {
        let mut writer = Self {
            out,
            clocks: Vec::new(),
            block: Vec::new(),
        };
        writer.u32(BYTE_ORDER);
        writer.u16(1);
        writer.u16(0);
        // The length of the section is not known.
        writer.u64(u64::MAX);
        writer.comments(comments);
        writer.option(SECTION_APPLICATION, application.as_bytes());
        writer.end_of_options();
        writer.put(SECTION)?;
        Ok(writer)
    }

    /// Describes an interface; gives the number that its packets name.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn interface(&mut self, interface: &Interface, comments: &[String]) -> io::Result<u32> {
        self.u16(interface.link.0);
        self.u16(0);
        self.u32(interface.snapshot);
        self.comments(comments);
        for (code, value) in &interface.options {
            self.option(*code, value);
        }
        self.option(INTERFACE_RESOLUTION, &[interface.resolution]);
        if interface.offset != 0 {
            self.option(INTERFACE_OFFSET, &interface.offset.to_le_bytes());
        }
        self.end_of_options();
        self.put(INTERFACE)?;
        self.clocks.push((interface.resolution, interface.offset));
        Ok(u32::try_from(self.clocks.len() - 1).unwrap_or(u32::MAX))
    }

    /// Secrets that the packets after them are decrypted with: `kind` is that of the draft (such as [`TLS_KEY_LOG`]).
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn secrets(&mut self, kind: u32, data: &[u8]) -> io::Result<()> {
        self.u32(kind);
        self.u32(u32::try_from(data.len()).unwrap_or(u32::MAX));
        self.padded(data);
        self.put(SECRETS)
    }

    /// A packet that came by `interface`, of which `data` is captured.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn packet(
        &mut self,
        interface: u32,
        time: Timestamp,
        data: &[u8],
        original_len: u32,
        comments: &[String],
    ) -> io::Result<()> {
        let clock = usize::try_from(interface).ok();
        let clock = clock.and_then(|index| self.clocks.get(index));
        let (resolution, offset) = clock.copied().unwrap_or((MICROSECONDS, 0));
        let ticks = ticks(time, resolution, offset);
        self.u32(interface);
        self.block.extend(high(ticks).to_le_bytes());
        self.block.extend(low(ticks).to_le_bytes());
        self.u32(u32::try_from(data.len()).unwrap_or(u32::MAX));
        self.u32(original_len);
        self.padded(data);
        if !comments.is_empty() {
            self.comments(comments);
            self.end_of_options();
        }
        self.put(PACKET)
    }

    /// Ends the file.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// Writes the block with its framing.
    fn put(&mut self, kind: u32) -> io::Result<()> {
        let len = u32::try_from(self.block.len() + FRAMING)
            .map_err(|_| io::Error::other("a block of more than 4 GiB"))?;
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&len.to_le_bytes())?;
        self.out.write_all(&self.block)?;
        self.out.write_all(&len.to_le_bytes())?;
        self.block.clear();
        Ok(())
    }

    fn comments(&mut self, comments: &[String]) {
        for comment in comments {
            let end = comment.floor_char_boundary(LONGEST_COMMENT);
            let comment = comment.get(..end).unwrap_or_default();
            self.option(COMMENT, comment.as_bytes());
        }
    }

    /// An option; one that is longer than there can be is left out.
    fn option(&mut self, code: u16, value: &[u8]) {
        if let Ok(len) = u16::try_from(value.len()) {
            self.u16(code);
            self.u16(len);
            self.padded(value);
        }
    }

    fn end_of_options(&mut self) {
        self.u32(0);
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        let len = self.block.len().next_multiple_of(4);
        self.block.resize(len, 0);
    }

    fn u16(&mut self, value: u16) {
        self.block.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.block.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.block.extend(value.to_le_bytes());
    }
}

/// The ticks of an interface's clock at `time`: what a reader makes `time` of again, where the clock counts no less
/// than nanoseconds. What is before its beginning is at its beginning.
fn ticks(time: Timestamp, resolution: u8, offset: i64) -> u64 {
    let nanos = i128::from(time.nanos()) - i128::from(offset) * NANOSECONDS;
    let exponent = u32::from(resolution & 0x7f);
    let ticks = if resolution & 0x80 == 0 {
        let power = |exponent| 10_i128.pow(exponent);
        match exponent {
            0..=9 => nanos.div_euclid(power(9 - exponent)),
            10..=18 => nanos.saturating_mul(power(exponent - 9)),
            _ => 0,
        }
    } else if exponent < 64 {
        // Readers round down: the first tick that is not before.
        let scaled = nanos.saturating_mul(1 << exponent);
        scaled.div_euclid(NANOSECONDS) + i128::from(scaled.rem_euclid(NANOSECONDS) > 0)
    } else {
        0
    };
    u64::try_from(ticks.max(0)).unwrap_or(u64::MAX)
}

/// Whether times in nanoseconds are the same once an interface of this resolution has counted them.
#[must_use]
pub const fn counts_exactly(nanos: i64, resolution: u8) -> bool {
    match resolution {
        0..=9 => nanos % 10_i64.pow(9 - resolution as u32) == 0,
        _ => nanos == 0,
    }
}

const fn high(ticks: u64) -> u32 {
    let [.., a, b, c, d] = ticks.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

const fn low(ticks: u64) -> u32 {
    let [a, b, c, d, ..] = ticks.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Types of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const SECRETS: u32 = 10;

/// Codes of options.
const COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_RESOLUTION: u16 = 9;
const INTERFACE_OFFSET: u16 = 14;

const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Type and length before the body of a block, and the length after it.
const FRAMING: usize = 12;

/// What an interface counts that does not say.
const MICROSECONDS: u8 = 6;

const NANOSECONDS: i128 = 1_000_000_000;

/// The longest comment: an option holds 64 KiB, and nobody reads more than a page.
const LONGEST_COMMENT: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::packet::LinkType;

    fn interface(resolution: u8, offset: i64) -> Interface {
        Interface {
            link: LinkType(1),
            snapshot: 96,
            resolution,
            offset,
            options: vec![(2, b"eth0".to_vec())],
        }
    }

    #[test]
    fn blocks_are_framed_and_padded() {
        let comment = ["five5".to_owned()];
        let mut writer = Writer::new(Vec::new(), "forkscope", &comment).unwrap();
        assert_eq!(writer.interface(&interface(6, 0), &[]).unwrap(), 0);
        assert_eq!(writer.interface(&interface(9, 0), &[]).unwrap(), 1);
        let time = Timestamp::from_nanos(1_500_000_001);
        writer.packet(1, time, b"abcde", 9, &comment).unwrap();
        writer.secrets(0x544c_534b, b"CLIENT_RANDOM").unwrap();
        let bytes = writer.finish().unwrap();
        let mut kinds = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let number =
                |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
            let len = number(4);
            assert_eq!((len % 4, number(len - 4)), (0, len));
            kinds.push(number(0));
            if number(0) == 6 {
                assert_eq!((number(8), number(12), number(16)), (1, 0, 1_500_000_001));
                assert_eq!((number(20), number(24)), (5, 9));
                assert_eq!(&rest[28..36], b"abcde\0\0\0");
                assert_eq!(&rest[36..48], b"\x01\0\x05\0five5\0\0\0");
            }
            rest = &rest[len..];
        }
        assert_eq!(kinds, [0x0a0d_0d0a, 1, 1, 6, 10]);
    }

    #[test]
    fn times_come_back_as_they_were() {
        // As a reader counts (pcapng's draft, section 4.2): rounded down to nanoseconds.
        let read = |ticks: u64, resolution: u8, offset: i64| {
            let ticks = i128::from(ticks);
            let exponent = u32::from(resolution & 0x7f);
            let nanos = match resolution {
                0..=9 => ticks * 10_i128.pow(9 - exponent),
                10..=0x7f => ticks / 10_i128.pow(exponent - 9),
                _ => (ticks * NANOSECONDS) >> exponent,
            };
            nanos + i128::from(offset) * NANOSECONDS
        };
        for offset in [0, -7, 1_000_000] {
            for (resolution, count) in [
                (0, 1_796_337_600),
                (3, 1_796_337_600_123),
                (6, 1_796_337_600_123_456),
                (9, 1_796_337_600_123_456_789),
                (12, 1_796_337_600_123_000),
                (0x80, 1_796_337_600),
                (0x8a, 1_839_449_702_401),
                (0xa0, 7_715_210_000_000_000_001),
            ] {
                let nanos = read(count, resolution, offset);
                let time = Timestamp::from_nanos(i64::try_from(nanos).unwrap());
                let again = ticks(time, resolution, offset);
                assert_eq!(
                    read(again, resolution, offset),
                    nanos,
                    "{resolution:#x} {offset}"
                );
                if resolution != 12 && resolution != 0xa0 {
                    assert_eq!(again, count, "{resolution:#x} {offset}");
                }
            }
        }
        assert_eq!(ticks(Timestamp::from_nanos(-1), 9, 0), 0);
        assert_eq!(ticks(Timestamp::from_nanos(i64::MAX), 0xff, i64::MIN), 0);
        assert_eq!(
            ticks(Timestamp::from_nanos(i64::MAX), 18, i64::MIN),
            u64::MAX
        );
    }

    #[test]
    fn only_whole_ticks_count_exactly() {
        assert!(counts_exactly(1_500_000_000, 6) && counts_exactly(7, 9));
        assert!(counts_exactly(-2_000, 6) && !counts_exactly(2_001, 6));
        assert!(counts_exactly(0, 0x8a) && !counts_exactly(1, 0x8a));
    }

    #[test]
    fn what_is_too_long_for_an_option_is_cut_or_left_out() {
        let long = "é".repeat(40_000);
        let wide = Interface {
            options: vec![(3, vec![b'x'; 70_000])],
            ..interface(6, 0)
        };
        let mut writer = Writer::new(Vec::new(), "forkscope", &[long]).unwrap();
        writer.interface(&wide, &[]).unwrap();
        let bytes = writer.finish().unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.matches('é').count(), LONGEST_COMMENT / 2);
        assert!(!text.contains('x'));
    }
}
