//! Bytes of files → frames or HAR text.
//!
//! [`find`] turns what was asked for into sources, [`classify`] looks at each without keeping it
//! open, [`timeline::Timeline`] merges the packets of all, and [`HarInput::open`] gives the text
//! of one HAR.

#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation
)]

mod compression;
pub mod packets;
mod pcap;
mod pcapng;
mod sniff;
pub mod timeline;

use crate::{
    anomaly::Anomalies,
    error::Error,
    limits::Limits,
    model::{place::InputId, time::Timestamp},
};
use compression::{Peeked, Stored, unpack};
use packets::{Decoder, Reader};
use sniff::Format;
use std::{
    collections::BTreeSet,
    fmt, fs, io,
    io::Read,
    path::{Path, PathBuf},
    sync::atomic::AtomicU64,
};

/// Something to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// As named, or as found in a folder; `-` for standard input.
    pub name: String,
    /// The file; `None` is standard input.
    pub path: Option<PathBuf>,
}

impl Source {
    /// Bytes as stored; 0 when that cannot be told before reading.
    #[must_use]
    pub fn stored_len(&self) -> u64 {
        self.path
            .as_ref()
            .and_then(|path| fs::metadata(path).ok())
            .map_or(0, |metadata| metadata.len())
    }

    /// Whether it can be opened twice and gives the same bytes; a pipe cannot.
    fn is_regular(&self) -> bool {
        self.path.as_ref().is_some_and(|path| path.is_file())
    }

    fn unreadable(&self, error: io::Error) -> Error {
        match &self.path {
            Some(path) => Error::io("cannot read", path, error),
            None => Error::new(format!("cannot read standard input: {error}")),
        }
    }

    fn refused(&self, why: impl fmt::Display) -> Error {
        match &self.path {
            Some(path) => Error::new(format!("cannot read {}: {why}", path.display())),
            None => Error::new(format!("cannot read standard input: {why}")),
        }
    }
}

/// The sources that `inputs` name, in that order, and what could not be found.
///
/// `-` is standard input. Files are taken as named, whatever is in them; in folders, searched with
/// all below them in order of name, files that are captures by their first bytes. What is named
/// twice is taken once. Links to folders inside folders are not followed.
#[must_use]
pub fn find(inputs: &[String]) -> (Vec<Source>, Vec<(String, Error)>) {
    let mut found = Found::default();
    for input in inputs {
        if input == "-" {
            found.stdin();
            continue;
        }
        let path = Path::new(input);
        match fs::metadata(path) {
            Err(error) => found.failed(path, error),
            Ok(metadata) if metadata.is_dir() => found.folder(path),
            Ok(_) => found.file(path),
        }
    }
    (found.sources, found.errors)
}

/// What a source holds.
#[derive(Debug)]
pub enum Classified<'p> {
    /// Packets, for a [`timeline::Timeline`].
    Packets(PacketInput<'p>),
    /// HAR text, to be opened when it is its turn.
    Har(HarInput<'p>),
}

/// Tells what `source` holds, and for packets when they begin.
///
/// Files are closed again; what can be read only once (standard input, pipes) stays open, and what
/// is read of it counts as `progress`.
///
/// # Errors
///
/// As [`open`].
pub fn classify<'p>(
    source: &Source,
    limits: &Limits,
    progress: &'p AtomicU64,
) -> Result<Classified<'p>, Error> {
    let source = source.clone();
    if !source.is_regular() {
        return Ok(match open(&source, limits, progress)? {
            Opened::Packets(reader) => Classified::Packets(PacketInput {
                source,
                first_time: None,
                open: Some(Box::new(reader)),
            }),
            Opened::Har(text, format) => Classified::Har(HarInput {
                source,
                open: Some((text, format)),
            }),
        });
    }
    let uncounted = AtomicU64::new(0);
    Ok(
        match open_as(&source, limits, Manner::GLANCE, &uncounted)? {
            Opened::Packets(mut reader) => {
                let batch = reader.next_batch(&mut Anomalies::default(), InputId::default());
                Classified::Packets(PacketInput {
                    source,
                    first_time: batch.and_then(|batch| batch.time(0)),
                    open: None,
                })
            }
            Opened::Har(..) => Classified::Har(HarInput { source, open: None }),
        },
    )
}

/// A source of packets.
#[derive(Debug)]
pub struct PacketInput<'p> {
    source: Source,
    /// Time of its first packet; `None` when there is none, or it is not known yet.
    first_time: Option<Timestamp>,
    /// What cannot be opened again.
    open: Option<Box<Reader<'p>>>,
}

/// A source of HAR text.
pub struct HarInput<'p> {
    source: Source,
    open: Option<(Box<dyn Read + Send + 'p>, String)>,
}

impl<'p> HarInput<'p> {
    /// The text as it is in the file, unpacked, and the name of the format.
    ///
    /// # Errors
    ///
    /// As [`open`], and when the file is no HAR any more.
    pub fn open(
        self,
        limits: &Limits,
        progress: &'p AtomicU64,
    ) -> Result<(Box<dyn Read + Send + 'p>, String), Error> {
        if let Some(open) = self.open {
            return Ok(open);
        }
        match open(&self.source, limits, progress)? {
            Opened::Har(text, format) => Ok((text, format)),
            Opened::Packets(_) => Err(self.source.refused("it has changed")),
        }
    }
}

impl fmt::Debug for HarInput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HarInput").field(&self.source).finish()
    }
}

/// An open source.
pub enum Opened<'p> {
    /// Packets.
    Packets(Reader<'p>),
    /// HAR text as it is in the file, unpacked, and the name of the format: `har`, with `+gz` or
    /// `+zst` when compressed.
    Har(Box<dyn Read + Send + 'p>, String),
}

impl fmt::Debug for Opened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(reader) => f.debug_tuple("Packets").field(reader).finish(),
            Self::Har(_, format) => f.debug_tuple("Har").field(format).finish(),
        }
    }
}

/// Opens `source` by what its first bytes say it is.
///
/// `progress` grows by the bytes of the file as stored, while they are read.
///
/// # Errors
///
/// When it cannot be opened or unpacked, is empty, or is not a capture; a capture that is damaged
/// later on is no error here.
pub fn open<'p>(
    source: &Source,
    limits: &Limits,
    progress: &'p AtomicU64,
) -> Result<Opened<'p>, Error> {
    open_as(source, limits, Manner::FULL, progress)
}

/// How a source is read.
#[derive(Clone, Copy, Debug)]
struct Manner {
    /// Bytes of a batch.
    chunk: usize,
    /// Not kept open between reads.
    parked: bool,
}

impl Manner {
    /// 2 MiB: long enough reads for any disk, short enough to stay in the processor's cache.
    const FULL: Self = Self {
        chunk: 2 << 20,
        parked: false,
    };
    /// Enough for the first packet.
    const GLANCE: Self = Self {
        chunk: 16 << 10,
        parked: false,
    };
}

fn open_as<'p>(
    source: &Source,
    limits: &Limits,
    manner: Manner,
    progress: &'p AtomicU64,
) -> Result<Opened<'p>, Error> {
    let stored = match &source.path {
        None => Stored::stdin(progress),
        Some(path) => Stored::file(path.clone(), manner.parked, progress)
            .map_err(|error| source.unreadable(error))?,
    };
    let (compression, unpacked) =
        unpack(stored, manner.chunk.min(PACKED_CHUNK)).map_err(|error| source.unreadable(error))?;
    let mut peeked = Peeked::new(unpacked, sniff::HEAD);
    let suffix = compression.suffix();
    let Some(format) = Format::of(peeked.head()) else {
        return Err(match (peeked.take_error(), peeked.head()) {
            (Some(error), _) => source.unreadable(error),
            (None, []) if suffix.is_empty() => source.refused("it is empty"),
            (None, []) => source.refused("it is empty once unpacked"),
            (None, head) => source.refused(format_args!(
                "not a capture (starts with \"{}\")",
                head.get(..SHOWN).unwrap_or(head).escape_ascii()
            )),
        });
    };
    let (decoder, header) = match format {
        Format::Har => {
            let format = format!("{}{suffix}", format.name());
            return Ok(Opened::Har(Box::new(peeked), format));
        }
        Format::Pcap => (
            pcap::Decoder::new(peeked.head(), limits.block).map(Decoder::Pcap),
            pcap::FILE_HEADER,
        ),
        Format::PcapNg => (
            pcapng::Decoder::begins(peeked.head())
                .then(|| Decoder::PcapNg(pcapng::Decoder::new(limits.block))),
            0,
        ),
    };
    let Some(decoder) = decoder else {
        return Err(source.refused(format_args!(
            "the {} file header is cut or damaged",
            format.name()
        )));
    };
    peeked.skip(header);
    Ok(Opened::Packets(Reader::new(
        Box::new(peeked),
        decoder,
        header as u64,
        suffix,
        manner.chunk,
    )))
}

/// Sources as they are found.
#[derive(Default)]
struct Found {
    sources: Vec<Source>,
    errors: Vec<(String, Error)>,
    /// Canonical paths of files taken.
    taken: BTreeSet<PathBuf>,
    stdin: bool,
}

impl Found {
    fn stdin(&mut self) {
        if !self.stdin {
            self.stdin = true;
            self.sources.push(Source {
                name: "-".to_owned(),
                path: None,
            });
        }
    }

    fn file(&mut self, path: &Path) {
        // A path without a canonical form (`/dev/fd/63`) is its own.
        let canonical = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if self.taken.insert(canonical) {
            self.sources.push(Source {
                name: path.display().to_string(),
                path: Some(path.to_owned()),
            });
        }
    }

    fn folder(&mut self, root: &Path) {
        let errors = self.errors.len();
        let mut captures = false;
        // The last is the next: entries are put on it in reverse.
        let mut stack = vec![root.to_owned()];
        while let Some(path) = stack.pop() {
            // A link to a file is followed, one to a folder only if it was named.
            let folder =
                path == root || fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir());
            if folder {
                match entries(&path) {
                    Ok(entries) => stack.extend(entries.into_iter().rev()),
                    Err(error) => self.failed(&path, error),
                }
            } else if path.is_file() {
                match is_capture(&path) {
                    Ok(true) => {
                        captures = true;
                        self.file(&path);
                    }
                    Ok(false) => {}
                    Err(error) => self.failed(&path, error),
                }
            }
        }
        if !captures && self.errors.len() == errors {
            let error = Error::new(format!("no captures in {}", root.display()));
            self.errors.push((root.display().to_string(), error));
        }
    }

    fn failed(&mut self, path: &Path, error: io::Error) {
        self.errors.push((
            path.display().to_string(),
            Error::io("cannot read", path, error),
        ));
    }
}

/// What is in a folder, in order of name.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

/// Whether a file is a capture by its first bytes, unpacked. One that claims to be packed and
/// cannot be unpacked is none.
fn is_capture(path: &Path) -> io::Result<bool> {
    let progress = AtomicU64::new(0);
    let stored = Stored::file(path.to_owned(), false, &progress)?;
    let (_, unpacked) = unpack(stored, sniff::HEAD)?;
    Ok(Format::of(Peeked::new(unpacked, sniff::HEAD).head()).is_some())
}

/// Bytes of a compressed file that are read at a time.
const PACKED_CHUNK: usize = 256 << 10;

/// Bytes shown of what is not a capture.
const SHOWN: usize = 16;
