//! The stored bytes of an input, and what they are once unpacked.

use crate::limits::Limits;
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// How a capture is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Plain,
    /// RFC 1952, any number of members.
    Gzip,
    /// RFC 8878, any number of frames, skippable ones too.
    Zstd,
    /// RFC 1950: mitmproxy's `.zhar`.
    Zlib,
}

impl Compression {
    /// How bytes that begin with `head` are packed.
    pub(super) const fn of(head: &[u8]) -> Self {
        match head {
            // Deflate (8) is the only method; the third byte keeps two-byte coincidences out.
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            // Deflate with a window of 32 KiB; the second byte makes both a multiple of 31, and has
            // its bit for a preset dictionary clear.
            [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] => Self::Zlib,
            _ => Self::Plain,
        }
    }

    /// What is appended to the name of the format.
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Gzip => "+gz",
            Self::Zstd => "+zst",
            Self::Zlib => "+zlib",
        }
    }
}

/// The bytes of an input as stored; counts them as they are read.
pub(super) struct Stored<'p> {
    from: From,
    progress: &'p AtomicU64,
    /// Bytes read of this input alone.
    read: Arc<AtomicU64>,
}

enum From {
    Stdin(io::Stdin),
    File(File),
    /// Opened anew for every read, so that any number of files may be in the middle of being read
    /// while the system allows a thousand open ones.
    Parked {
        path: PathBuf,
        position: u64,
    },
}

impl<'p> Stored<'p> {
    /// Standard input. The reads here are larger than its buffer and go past it.
    pub(super) fn stdin(progress: &'p AtomicU64) -> Self {
        Self {
            from: From::Stdin(io::stdin()),
            progress,
            read: Arc::default(),
        }
    }

    /// A file; `parked` when it should not be kept open between reads (regular files only).
    pub(super) fn file(path: PathBuf, parked: bool, progress: &'p AtomicU64) -> io::Result<Self> {
        let file = File::open(&path)?;
        let from = if parked {
            From::Parked { path, position: 0 }
        } else {
            From::File(file)
        };
        Ok(Self {
            from,
            progress,
            read: Arc::default(),
        })
    }
}

impl Read for Stored<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.from {
            From::Stdin(stdin) => stdin.read(buffer)?,
            From::File(file) => file.read(buffer)?,
            From::Parked { path, position } => {
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(*position))?;
                let read = file.read(buffer)?;
                *position += read as u64;
                read
            }
        };
        self.progress.fetch_add(read as u64, Ordering::Relaxed);
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// A reader whose first bytes have been looked at; they, and an error met while looking, come
/// again when it is read.
pub(super) struct Peeked<R> {
    head: Vec<u8>,
    taken: usize,
    error: Option<io::Error>,
    rest: R,
}

impl<R: Read> Peeked<R> {
    /// Looks at up to `len` bytes of `reader`.
    pub(super) fn new(mut reader: R, len: usize) -> Self {
        let mut head = vec![0; len];
        let (filled, outcome) = fill(&mut reader, &mut head);
        head.truncate(filled);
        Self {
            head,
            taken: 0,
            error: outcome.err(),
            rest: reader,
        }
    }

    /// The first bytes; fewer than asked for only if there are no more, or reading failed.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Leaves out the first `len` bytes.
    pub(super) fn skip(&mut self, len: usize) {
        self.taken = self.taken.saturating_add(len).min(self.head.len());
    }

    /// Why there are no more bytes than [`head`](Self::head), if it is not the end.
    pub(super) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }
}

impl<R: Read> Read for Peeked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut left = self.head.get(self.taken..).unwrap_or_default();
        if !left.is_empty() {
            let read = left.read(buffer)?;
            self.taken += read;
            return Ok(read);
        }
        match self.error.take() {
            Some(error) => Err(error),
            None => self.rest.read(buffer),
        }
    }
}

/// Unpacks what `stored` is by its first bytes, on the fly; `capacity` bytes of it are read at a
/// time. What expands beyond the limits fails there with [`io::ErrorKind::FileTooLarge`].
pub(super) fn unpack<'p>(
    stored: Stored<'p>,
    capacity: usize,
    limits: &Limits,
) -> io::Result<(Compression, Box<dyn Read + Send + 'p>)> {
    let packed = Arc::clone(&stored.read);
    let mut stored = Peeked::new(stored, MAGIC);
    if stored.head().is_empty()
        && let Some(error) = stored.take_error()
    {
        return Err(error);
    }
    let compression = Compression::of(stored.head());
    let mut unpacked: Box<dyn Read + Send + 'p> = match compression {
        Compression::Plain => return Ok((compression, Box::new(stored))),
        Compression::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(
            capacity, stored,
        ))),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(
            BufReader::with_capacity(capacity, stored),
        )?),
        Compression::Zlib => Box::new(ZlibDecoder::new(BufReader::with_capacity(capacity, stored))),
    };
    unpacked = Box::new(Steps {
        decoder: unpacked,
        packed,
        unpacked: 0,
        free: limits.free_expansion,
        expansion: limits.expansion as u64,
    });
    Ok((compression, unpacked))
}

/// Asks a decoder for little at a time: where the data are damaged, a decoder fails the whole read
/// and what it had unpacked for it is lost. Ends those that expand beyond the limits.
struct Steps<R> {
    decoder: R,
    /// Bytes of the input that were read for it.
    packed: Arc<AtomicU64>,
    /// Bytes it gave.
    unpacked: u64,
    /// So many may come of any input.
    free: u64,
    /// Beyond them, so many for one.
    expansion: u64,
}

impl<R: Read> Read for Steps<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(STEP);
        let packed = self.packed.load(Ordering::Relaxed);
        let most = packed.saturating_mul(self.expansion).max(self.free);
        let read = self
            .decoder
            .read(buffer.get_mut(..len).unwrap_or_default())?;
        if read > 0 && self.unpacked >= most {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!(
                    "{packed} bytes have become more than {} times as many",
                    self.expansion
                ),
            ));
        }
        self.unpacked = self.unpacked.saturating_add(read as u64);
        Ok(read)
    }
}

/// Reads until `buffer` is full, the input ends or it fails; says how much came in every case.
pub(super) fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> (usize, io::Result<End>) {
    let mut filled = 0;
    while let Some(free @ [_, ..]) = buffer.get_mut(filled..) {
        match reader.read(free) {
            Ok(0) => return (filled, Ok(End::Reached)),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Err(error)),
        }
    }
    (filled, Ok(End::NotYet))
}

/// Whether the input has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Reached,
    NotYet,
}

/// Unpacked bytes asked for at a time; more is not faster.
const STEP: usize = 4096;

/// Bytes that tell the compression.
const MAGIC: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn peeking_takes_nothing_away() {
        let bytes: Vec<u8> = (0..100).collect();
        for len in [0, 1, 50, 100, 200] {
            let mut peeked = Peeked::new(bytes.as_slice(), len);
            assert_eq!(peeked.head(), bytes.get(..len.min(100)).unwrap());
            let mut all = Vec::new();
            peeked.read_to_end(&mut all).unwrap();
            assert_eq!(all, bytes);
        }
    }

    #[test]
    fn an_error_while_peeking_comes_after_the_bytes_before_it() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("no more"))
            }
        }
        let mut peeked = Peeked::new(b"abc".chain(Fails), 10);
        let mut all = Vec::new();
        assert!(peeked.read_to_end(&mut all).is_err());
        assert_eq!(all, b"abc");
    }

    #[test]
    fn unpacks_members_and_frames_parked_or_not() {
        let gz = |text: &[u8]| {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(text).unwrap();
            out.finish().unwrap()
        };
        let zst = |text: &[u8]| zstd::encode_all(text, 1).unwrap();
        let zlib = |level: u32| {
            let level = flate2::Compression::new(level);
            let mut out = flate2::write::ZlibEncoder::new(Vec::new(), level);
            out.write_all(b"one two").unwrap();
            out.finish().unwrap()
        };
        let skippable = b"\x50\x2a\x4d\x18\x02\0\0\0zz".to_vec();
        for (bytes, compression) in [
            (b"one two".to_vec(), Compression::Plain),
            ([gz(b"one "), gz(b"two")].concat(), Compression::Gzip),
            (
                [skippable, zst(b"one "), zst(b"two")].concat(),
                Compression::Zstd,
            ),
            (zlib(0), Compression::Zlib),
            (zlib(3), Compression::Zlib),
            (zlib(6), Compression::Zlib),
            (zlib(9), Compression::Zlib),
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &bytes).unwrap();
            for parked in [false, true] {
                let progress = AtomicU64::new(0);
                let stored = Stored::file(file.path().to_owned(), parked, &progress).unwrap();
                let (seen, mut reader) = unpack(stored, 16, &Limits::default()).unwrap();
                let mut text = String::new();
                reader.read_to_string(&mut text).unwrap();
                assert_eq!((seen, text.as_str()), (compression, "one two"));
                assert_eq!(progress.load(Ordering::Relaxed), bytes.len() as u64);
            }
        }
    }

    #[test]
    fn what_expands_without_measure_ends() {
        let zeros = vec![0; 3_000_000];
        let zst = zstd::encode_all(zeros.as_slice(), 1).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &zst).unwrap();
        let unpacked = |free_expansion, expansion| {
            let progress = AtomicU64::new(0);
            let stored = Stored::file(file.path().to_owned(), false, &progress).unwrap();
            let limits = Limits {
                free_expansion,
                expansion,
                ..Limits::default()
            };
            let (_, mut reader) = unpack(stored, 16, &limits).unwrap();
            let mut all = Vec::new();
            let outcome = reader.read_to_end(&mut all);
            (all.len(), outcome.err().map(|error| error.kind()))
        };
        assert!(zst.len() < 3000, "{}", zst.len());
        assert_eq!(unpacked(3_000_000, 0), (3_000_000, None));
        assert_eq!(unpacked(0, 4_000_000), (3_000_000, None));
        let (len, error) = unpacked(100_000, 10);
        assert_eq!(error, Some(io::ErrorKind::FileTooLarge));
        assert!((100_000..100_000 + STEP).contains(&len), "{len}");
    }
}
