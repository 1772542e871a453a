//! Content codings, undone as the bytes arrive: whatever the server flushed comes out with the
//! byte that completed it.

use super::framing::Codings;
use crate::{
    limits::Limits,
    model::prose::{Prose, prose},
};
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress};
use std::fmt;
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

/// A content coding that is undone (RFC 9110, section 8.4.1; RFC 7932; RFC 8878).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Gzip,
    /// zlib as it is specified, or raw deflate as some servers send it.
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    /// The coding of that name, in any case.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        let names: [(&[u8], Self); 5] = [
            (b"gzip", Self::Gzip),
            (b"x-gzip", Self::Gzip),
            (b"deflate", Self::Deflate),
            (b"br", Self::Brotli),
            (b"zstd", Self::Zstd),
        ];
        names
            .into_iter()
            .find_map(|(known, coding)| name.eq_ignore_ascii_case(known).then_some(coding))
    }
}

/// Undoes the codings of one body.
#[derive(Debug)]
pub(super) enum Decoding {
    /// None: bytes pass by reference.
    Identity,
    /// Some, the last applied first.
    Stages(Box<Stages>),
    /// One that is not known; said at the first byte of the body.
    Unknown(Prose),
    /// Nothing more is delivered.
    Lost,
}

/// Why a body cannot be decoded any further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The coding is unknown, or the bytes are not of that coding.
    Undecodable(Prose),
    /// It expands beyond the limit.
    Expansion(Prose),
}

#[derive(Debug)]
pub(super) struct Stages {
    stages: Vec<Stage>,
    /// Coded bytes read.
    read: u64,
}

impl Decoding {
    pub(super) fn new(codings: Codings) -> Self {
        match codings {
            Codings::Identity => Self::Identity,
            Codings::Unknown(what) => Self::Unknown(what),
            Codings::Known(codings) => Self::Stages(Box::new(Stages {
                stages: codings.into_iter().rev().map(Stage::new).collect(),
                read: 0,
            })),
        }
    }

    /// Decodes a piece and hands out what it completes, in pieces of at most [`PIECE`] bytes when
    /// there is a coding. After a fault nothing is handed out any more.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        mut out: impl FnMut(&[u8]),
    ) -> Result<(), Fault> {
        let result = match self {
            Self::Identity => {
                out(bytes);
                return Ok(());
            }
            Self::Lost => return Ok(()),
            Self::Unknown(what) => Err(Fault::Undecodable(std::mem::take(what))),
            Self::Stages(stages) => {
                stages.read = stages.read.saturating_add(bytes.len() as u64);
                let most = stages
                    .read
                    .saturating_mul(limits.expansion as u64)
                    .max(FREE_EXPANSION);
                run(&mut stages.stages, bytes, most, &mut out)
            }
        };
        if result.is_err() {
            *self = Self::Lost;
        }
        result
    }

    /// Takes a hole: only uncoded bytes can be read on. Returns whether that ended the decoding.
    pub(super) fn hole(&mut self) -> bool {
        match self {
            Self::Identity | Self::Lost => false,
            Self::Stages(_) | Self::Unknown(_) => {
                *self = Self::Lost;
                true
            }
        }
    }
}

/// Runs `bytes` through the stages; none may make more than `most` bytes in total.
fn run(
    stages: &mut [Stage],
    bytes: &[u8],
    most: u64,
    out: &mut dyn FnMut(&[u8]),
) -> Result<(), Fault> {
    let Some((stage, later)) = stages.split_first_mut() else {
        out(bytes);
        return Ok(());
    };
    let mut rest = bytes;
    let mut buffer = std::mem::take(&mut stage.buffer);
    buffer.resize(PIECE, 0);
    let result = loop {
        // What comes out before the data breaks must not depend on how it came in.
        let next = rest.get(..stage.decoder.most()).unwrap_or(rest);
        let (read, made, broken) = match stage.decoder.step(next, &mut buffer) {
            Ok((read, made)) => (read, made, None),
            Err(Broken { made, what }) => (0, made, Some(what)),
        };
        rest = rest.get(read..).unwrap_or_default();
        if made > 0 {
            stage.made = stage.made.saturating_add(made as u64);
            if stage.made > most {
                let made = stage.made;
                break Err(Fault::Expansion(prose!("{} bytes decoded", made)));
            }
            if let Err(fault) = run(later, buffer.get(..made).unwrap_or_default(), most, out) {
                break Err(fault);
            }
        }
        if let Some(what) = broken {
            break Err(Fault::Undecodable(what.to_string().into()));
        }
        if (read == 0 && made == 0) || (rest.is_empty() && made < PIECE) {
            break Ok(());
        }
    };
    stage.buffer = buffer;
    result
}

#[derive(Debug)]
struct Stage {
    decoder: Decoder,
    buffer: Vec<u8>,
    /// Bytes decoded.
    made: u64,
}

impl Stage {
    fn new(coding: Coding) -> Self {
        Self {
            decoder: match coding {
                Coding::Gzip => Decoder::Gzip(Gzip::default()),
                Coding::Deflate => Decoder::Deflate(Deflate::default()),
                Coding::Brotli => Decoder::Brotli(Box::new(BrotliState::new_strict(
                    StandardAlloc::default(),
                    StandardAlloc::default(),
                    StandardAlloc::default(),
                ))),
                Coding::Zstd => Decoder::Zstd(None),
            },
            buffer: Vec::new(),
            made: 0,
        }
    }
}

enum Decoder {
    Gzip(Gzip),
    Deflate(Deflate),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(Option<ZstdDecoder<'static>>),
    /// Past the end of the coded data: what follows is ignored.
    Ended,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip(_) => "Gzip",
            Self::Deflate(_) => "Deflate",
            Self::Brotli(_) => "Brotli",
            Self::Zstd(_) => "Zstd",
            Self::Ended => "Ended",
        })
    }
}

/// Data that is not of its coding.
struct Broken {
    /// Bytes that were made before that.
    made: usize,
    what: &'static str,
}

impl From<&'static str> for Broken {
    fn from(what: &'static str) -> Self {
        Self { made: 0, what }
    }
}

impl Decoder {
    /// How many bytes it is given at once.
    ///
    /// Where the data breaks, a decoder drops what it made and did not hand out yet. That of deflate tells what
    /// it made as far as there was room for it; the others tell nothing, and get their bytes one by one.
    const fn most(&self) -> usize {
        match self {
            Self::Gzip(_) | Self::Deflate(_) => PIECE / MOST_OF_DEFLATE - HELD_BY_DEFLATE,
            Self::Brotli(_) | Self::Zstd(_) => 1,
            Self::Ended => usize::MAX,
        }
    }

    /// One step: how many bytes it read and made. Neither, when it can do nothing more.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<(usize, usize), Broken> {
        match self {
            Self::Gzip(gzip) => gzip.step(input, output),
            Self::Deflate(deflate) => {
                let (read, made, ended) = deflate.step(input, output)?;
                if ended {
                    *self = Self::Ended;
                }
                Ok((read, made))
            }
            Self::Brotli(state) => {
                let (mut available_in, mut read) = (input.len(), 0);
                let (mut available_out, mut made, mut total) = (output.len(), 0, 0);
                let result = BrotliDecompressStream(
                    &mut available_in,
                    &mut read,
                    input,
                    &mut available_out,
                    &mut made,
                    output,
                    &mut total,
                    state,
                );
                match result {
                    BrotliResult::ResultFailure => return Err("broken brotli data".into()),
                    BrotliResult::ResultSuccess => *self = Self::Ended,
                    BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
                }
                Ok((read, made))
            }
            Self::Zstd(decoder) => {
                let decoder = match decoder {
                    Some(decoder) => decoder,
                    None => decoder.insert(zstd_decoder().ok_or("no zstd decoder")?),
                };
                let status = decoder
                    .run_on_buffers(input, output)
                    .map_err(|_| "broken zstd data")?;
                Ok((status.bytes_read, status.bytes_written))
            }
            Self::Ended => Ok((input.len(), 0)),
        }
    }
}

fn zstd_decoder() -> Option<ZstdDecoder<'static>> {
    let mut decoder = ZstdDecoder::new().ok()?;
    // RFC 9659: a window of more than 8 MB must not be used in this coding.
    decoder.set_parameter(DParameter::WindowLogMax(23)).ok()?;
    Some(decoder)
}

/// gzip members one after the other (RFC 1952). The checksum is not verified: nobody waits for
/// the end of a stream to know whether it may be read.
#[derive(Default)]
struct Gzip {
    state: GzipState,
    inflate: Option<Box<Decompress>>,
    flags: u8,
}

#[derive(Clone, Copy, Default)]
enum GzipState {
    /// Before a member: so many bytes of its fixed header have come.
    #[default]
    First,
    Header(usize),
    ExtraLength(usize, usize),
    Extra(usize),
    Name,
    Comment,
    HeaderCrc(usize),
    Deflated,
    Trailer(usize),
    /// After a member; another may follow, or padding.
    Between,
    Ended,
}

impl Gzip {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<(usize, usize), Broken> {
        let mut read = 0;
        loop {
            if matches!(self.state, GzipState::Deflated) {
                let inflate = self
                    .inflate
                    .get_or_insert_with(|| Box::new(Decompress::new(false)));
                let rest = input.get(read..).unwrap_or_default();
                let (used, made, ended) = inflate_step(inflate, rest, output)?;
                if ended {
                    inflate.reset(false);
                    self.state = GzipState::Trailer(0);
                }
                if made > 0 || !ended {
                    return Ok((read + used, made));
                }
                read += used;
            }
            let Some(byte) = input.get(read).copied() else {
                return Ok((read, 0));
            };
            if !matches!(self.state, GzipState::Deflated) {
                read += 1;
                self.byte(byte)?;
            }
        }
    }

    /// A byte outside the deflated data.
    fn byte(&mut self, byte: u8) -> Result<(), &'static str> {
        self.state = match self.state {
            GzipState::First => match byte {
                0x1f => GzipState::Header(1),
                _ => return Err("no gzip header"),
            },
            GzipState::Between => match byte {
                0x1f => GzipState::Header(1),
                // Padding, as tape and some encoders leave it.
                0 => GzipState::Between,
                _ => GzipState::Ended,
            },
            GzipState::Header(at) => {
                match (at, byte) {
                    (1, 0x8b) | (2, 8) | (4.., _) => {}
                    (3, flags) if flags & 0xe0 == 0 => self.flags = flags,
                    _ => return Err("no gzip header"),
                }
                if at == 9 {
                    self.after(0)
                } else {
                    GzipState::Header(at + 1)
                }
            }
            GzipState::ExtraLength(0, _) => GzipState::ExtraLength(1, usize::from(byte)),
            GzipState::ExtraLength(_, low) => match low | usize::from(byte) << 8 {
                0 => self.after(FEXTRA),
                length => GzipState::Extra(length),
            },
            GzipState::Extra(1) => self.after(FEXTRA),
            GzipState::Extra(left) => GzipState::Extra(left - 1),
            GzipState::Name if byte == 0 => self.after(FNAME),
            GzipState::Comment if byte == 0 => self.after(FCOMMENT),
            GzipState::HeaderCrc(0) => GzipState::HeaderCrc(1),
            GzipState::HeaderCrc(_) => GzipState::Deflated,
            GzipState::Trailer(7) => GzipState::Between,
            GzipState::Trailer(at) => GzipState::Trailer(at + 1),
            state @ (GzipState::Name
            | GzipState::Comment
            | GzipState::Deflated
            | GzipState::Ended) => state,
        };
        Ok(())
    }

    /// The optional part of the header that follows `part` (its flag; 0 for the fixed header).
    fn after(&self, part: u8) -> GzipState {
        let parts = [
            (FEXTRA, GzipState::ExtraLength(0, 0)),
            (FNAME, GzipState::Name),
            (FCOMMENT, GzipState::Comment),
            (FHCRC, GzipState::HeaderCrc(0)),
        ];
        let skip = parts
            .iter()
            .position(|(flag, _)| *flag == part)
            .map_or(0, |index| index + 1);
        parts
            .into_iter()
            .skip(skip)
            .find_map(|(flag, state)| (self.flags & flag != 0).then_some(state))
            .unwrap_or(GzipState::Deflated)
    }
}

/// zlib data, or raw deflate: the first two bytes tell (RFC 1950, section 2.2).
#[derive(Default)]
struct Deflate {
    first: Option<u8>,
    inflate: Option<Box<Decompress>>,
}

impl Deflate {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<(usize, usize, bool), Broken> {
        if let Some(inflate) = &mut self.inflate {
            return inflate_step(inflate, input, output);
        }
        let Some((second, _)) = input.split_first() else {
            return Ok((0, 0, false));
        };
        let Some(first) = self.first else {
            self.first = Some(*second);
            return Ok((1, 0, false));
        };
        let check = u16::from_be_bytes([first, *second]) % 31;
        let zlib = first & 0x0f == 8 && first >> 4 <= 7 && check == 0;
        let inflate = self.inflate.insert(Box::new(Decompress::new(zlib)));
        // One byte is less than any block's header and first symbol: it makes no output.
        inflate_step(inflate, &[first], output)?;
        inflate_step(inflate, input, output)
    }
}

fn inflate_step(
    inflate: &mut Decompress,
    input: &[u8],
    output: &mut [u8],
) -> Result<(usize, usize, bool), Broken> {
    let (read, made) = (inflate.total_in(), inflate.total_out());
    let result = inflate.decompress(input, output, FlushDecompress::Sync);
    let done = |now: u64, before: u64| usize::try_from(now - before).unwrap_or_default();
    let made = done(inflate.total_out(), made);
    match result {
        Ok(status) => {
            let read = done(inflate.total_in(), read);
            Ok((read, made, status == flate2::Status::StreamEnd))
        }
        Err(_) => Err(Broken {
            made,
            what: "broken deflate data",
        }),
    }
}

const FHCRC: u8 = 2;
const FEXTRA: u8 = 4;
const FNAME: u8 = 8;
const FCOMMENT: u8 = 16;
/// Largest piece handed out by a decoder.
const PIECE: usize = 32 << 10;
/// Deflate makes at most so many bytes of one: a copy of 258 bytes takes two bits.
const MOST_OF_DEFLATE: usize = 4 * 258;
/// Bytes that its decoder took before and did not use yet: eight, as it holds 64 bits.
const HELD_BY_DEFLATE: usize = 8;
/// Decoded bytes that no ratio is asked of ([`Limits::expansion`]).
const FREE_EXPANSION: u64 = 1 << 20;

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use super::*;
    use flate2::Compression;
    use proptest::prelude::*;
    use std::io::Write;

    /// Events as a server sends them, each flushed.
    fn events() -> Vec<String> {
        (0..40)
            .map(|n| format!("id: {n}\ndata: {}\n\n", "some text ".repeat(n % 7 + 1)))
            .collect()
    }

    /// Coded pieces, one for each event, and one that ends the coding.
    fn coded(coding: Coding, events: &[String]) -> Vec<Vec<u8>> {
        let cut = |whole: Vec<u8>, ends: &[usize]| {
            let mut from = 0;
            ends.iter()
                .map(|end| {
                    let piece = whole[from..*end].to_vec();
                    from = *end;
                    piece
                })
                .collect::<Vec<_>>()
        };
        match coding {
            Coding::Gzip => {
                let mut ends = Vec::new();
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
                for event in events {
                    encoder.write_all(event.as_bytes()).unwrap();
                    encoder.flush().unwrap();
                    ends.push(encoder.get_ref().len());
                }
                let whole = encoder.finish().unwrap();
                ends.push(whole.len());
                cut(whole, &ends)
            }
            Coding::Deflate => deflated(events, true),
            Coding::Zstd => {
                let mut ends = Vec::new();
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
                for event in events {
                    encoder.write_all(event.as_bytes()).unwrap();
                    encoder.flush().unwrap();
                    ends.push(encoder.get_ref().len());
                }
                let whole = encoder.finish().unwrap();
                ends.push(whole.len());
                cut(whole, &ends)
            }
            Coding::Brotli => brotli_stored(events),
        }
    }

    fn deflated(events: &[String], zlib: bool) -> Vec<Vec<u8>> {
        let mut encoder = flate2::Compress::new(Compression::default(), zlib);
        let mut pieces = Vec::new();
        for event in events {
            let mut piece = Vec::with_capacity(4096);
            encoder
                .compress_vec(event.as_bytes(), &mut piece, flate2::FlushCompress::Sync)
                .unwrap();
            pieces.push(piece);
        }
        let mut piece = Vec::with_capacity(64);
        encoder
            .compress_vec(&[], &mut piece, flate2::FlushCompress::Finish)
            .unwrap();
        pieces.push(piece);
        pieces
    }

    /// Brotli by hand, as there is no encoder at hand: a window of 2^16 and one uncompressed
    /// meta-block for each event, which ends on a byte (RFC 7932, section 9.2).
    fn brotli_stored(events: &[String]) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        for (n, event) in events.iter().enumerate() {
            // ISLAST 0, MNIBBLES 4 (00), MLEN - 1 in 16 bits, ISUNCOMPRESSED 1.
            let bits = (u32::try_from(event.len()).unwrap() - 1) << 3 | 1 << 19;
            // WBITS 16 is the single bit 0 before the first.
            let bits = if n == 0 { bits << 1 } else { bits };
            let mut piece = bits.to_le_bytes()[..3].to_vec();
            piece.extend_from_slice(event.as_bytes());
            pieces.push(piece);
        }
        // ISLAST 1, ISLASTEMPTY 1.
        pieces.push(vec![3]);
        pieces
    }

    fn decode(decoding: &mut Decoding, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        decoding
            .push(bytes, &Limits::default(), |piece| {
                assert!(piece.len() <= PIECE);
                out.extend_from_slice(piece);
            })
            .map(|()| out)
    }

    fn new(codings: &[Coding]) -> Decoding {
        Decoding::new(Codings::Known(codings.to_vec()))
    }

    const ALL: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];

    #[test]
    fn each_flushed_event_comes_out_with_its_last_byte() {
        for coding in ALL {
            let events = events();
            let mut decoding = new(&[coding]);
            for (event, piece) in events.iter().zip(coded(coding, &events)) {
                let got = decode(&mut decoding, &piece).unwrap();
                assert_eq!(got, event.as_bytes(), "{coding:?}");
            }
        }
    }

    #[test]
    fn pieces_of_a_byte_decode_like_the_whole() {
        for coding in ALL {
            let events = events();
            let whole = coded(coding, &events).concat();
            let text = events.concat().into_bytes();
            assert_eq!(decode(&mut new(&[coding]), &whole).unwrap(), text);
            let mut decoding = new(&[coding]);
            let mut got = Vec::new();
            for byte in whole.chunks(1) {
                got.extend(decode(&mut decoding, byte).unwrap());
            }
            assert_eq!(got, text, "{coding:?}");
        }
    }

    #[test]
    fn a_cut_body_decodes_up_to_the_cut() {
        for coding in ALL {
            let events = events();
            let pieces = coded(coding, &events);
            let cut = pieces[..20].concat();
            let got = decode(&mut new(&[coding]), &cut).unwrap();
            assert_eq!(got, events[..20].concat().into_bytes(), "{coding:?}");
        }
    }

    #[test]
    fn deflate_is_read_without_zlib_header_too() {
        let events = events();
        let whole = deflated(&events, false).concat();
        assert_eq!(
            decode(&mut new(&[Coding::Deflate]), &whole).unwrap(),
            events.concat().into_bytes()
        );
    }

    #[test]
    fn gzip_members_follow_one_another_with_all_header_parts() {
        let member = |text: &str| {
            let mut encoder = flate2::GzBuilder::new()
                .filename("name")
                .comment("comment")
                .extra(b"extra".to_vec())
                .write(Vec::new(), Compression::default());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        let whole = [
            member("one "),
            member(""),
            member("two"),
            vec![0, 0],
            vec![9],
        ]
        .concat();
        assert_eq!(
            decode(&mut new(&[Coding::Gzip]), &whole).unwrap(),
            b"one two"
        );
        let mut decoding = new(&[Coding::Gzip]);
        let mut got = Vec::new();
        for byte in whole.chunks(1) {
            got.extend(decode(&mut decoding, byte).unwrap());
        }
        assert_eq!(got, b"one two");
    }

    #[test]
    fn codings_are_undone_in_reverse_order() {
        let inner = coded(Coding::Gzip, &events()).concat();
        let outer = zstd::stream::encode_all(&inner[..], 3).unwrap();
        assert_eq!(
            decode(&mut new(&[Coding::Gzip, Coding::Zstd]), &outer).unwrap(),
            events().concat().into_bytes()
        );
    }

    #[test]
    fn broken_data_ends_the_decoding_once() {
        for coding in ALL {
            let mut decoding = new(&[coding]);
            let broken = [0xff; 64];
            assert!(
                matches!(decode(&mut decoding, &broken), Err(Fault::Undecodable(_))),
                "{coding:?}"
            );
            assert_eq!(decode(&mut decoding, &broken), Ok(vec![]));
        }
        let mut unknown = Decoding::new(Codings::Unknown("unknown".into()));
        assert!(decode(&mut unknown, b"x").is_err());
        assert_eq!(decode(&mut unknown, b"x"), Ok(vec![]));
    }

    #[test]
    fn a_body_that_expands_beyond_the_limit_is_given_up() {
        let bomb = zstd::stream::encode_all(&vec![0_u8; 64 << 20][..], 19).unwrap();
        let mut decoding = new(&[Coding::Zstd]);
        assert!(matches!(
            decode(&mut decoding, &bomb),
            Err(Fault::Expansion(_))
        ));
        let twice = zstd::stream::encode_all(&bomb[..], 19).unwrap();
        assert!(matches!(
            decode(&mut new(&[Coding::Zstd, Coding::Zstd]), &twice),
            Err(Fault::Expansion(_))
        ));
    }

    proptest! {
        #[test]
        fn damaged_data_never_panics(
            which in 0_usize..4,
            damage in proptest::collection::vec((0_usize..2000, 0_u8..=255), 0..6),
            noise in proptest::collection::vec(0_u8..=255, 0..200),
        ) {
            let coding = ALL[which];
            let mut bytes = coded(coding, &events()).concat();
            let length = bytes.len();
            for (at, byte) in damage {
                bytes[at % length] = byte;
            }
            // Whatever it is, it decodes to the same in pieces, up to where it breaks.
            let mut whole = Vec::new();
            let limits = Limits::default();
            let result = new(&[coding]).push(&bytes, &limits, |piece| whole.extend_from_slice(piece));
            let (mut decoding, mut pieces) = (new(&[coding]), Vec::new());
            let mut broken = false;
            for byte in bytes.chunks(1) {
                broken |= decoding
                    .push(byte, &limits, |piece| pieces.extend_from_slice(piece))
                    .is_err();
            }
            prop_assert_eq!(result.is_err(), broken);
            prop_assert_eq!(whole, pieces);
            let _ = new(&[coding]).push(&noise, &limits, |_| {});
        }
    }

    #[test]
    fn a_hole_ends_only_a_coded_body() {
        assert!(!Decoding::Identity.hole());
        let mut decoding = new(&[Coding::Gzip]);
        assert!(decoding.hole());
        assert!(!decoding.hole());
    }
}
