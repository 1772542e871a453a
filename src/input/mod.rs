//! Bytes of files → frames or HAR text; facts are told from both, and left to who reads them.
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
mod copies;
pub mod har;
mod names;
pub mod packets;
mod pcap;
mod pcapng;
#[cfg(test)]
mod samples;
mod sniff;
pub mod timeline;

pub use copies::copies;
pub use names::ring_file;

use crate::{
    anomaly::Anomalies,
    error::Error,
    limits::Limits,
    model::{
        place::InputId,
        time::{Span, Timestamp},
    },
};
use compression::{Peeked, Stored, unpack};
use packets::{Decoder, Reader};
use sniff::Format;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt, fs, io,
    io::{Read, Seek},
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

/// What was found under the names of inputs.
#[derive(Debug, Default)]
pub struct Found {
    /// What is to be read, in the order it was named.
    pub sources: Vec<Source>,
    /// What could not be found, by its name.
    pub errors: Vec<(String, Error)>,
    /// What was named again: by what name, and that of the source that it is.
    pub again: Vec<(String, String)>,
    /// Which source each file is.
    taken: BTreeMap<Identity, usize>,
}

/// The sources that `inputs` name, and what could not be found.
///
/// `-` is standard input. Files are taken as named, whatever is in them; in folders, searched with
/// all below them in order of name, files that are captures by their first bytes. What is named
/// twice, be it by another path, a link, or as standard input, is taken once. Links to folders inside
/// folders are not followed.
#[must_use]
pub fn find(inputs: &[String]) -> Found {
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
    found
}

/// What a source holds.
#[derive(Debug)]
pub enum Classified<'p> {
    /// Packets, for a [`timeline::Timeline`].
    Packets(PacketInput<'p>),
    /// HAR text, to be opened when it is its turn.
    Har(HarInput<'p>),
    /// Parquet, which facts are kept in: a file.
    Facts(PathBuf),
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
                ahead: Span::ZERO,
                open: Some(reader),
                key_logs: Vec::new(),
            }),
            Opened::Har(text, format) => Classified::Har(HarInput {
                source,
                open: Some((text, format)),
            }),
            Opened::Facts(path) => Classified::Facts(path),
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
                    ahead: Span::ZERO,
                    open: None,
                    key_logs: reader.take_key_logs(),
                })
            }
            Opened::Har(..) => Classified::Har(HarInput { source, open: None }),
            Opened::Facts(path) => Classified::Facts(path),
        },
    )
}

/// A source of packets.
#[derive(Debug)]
pub struct PacketInput<'p> {
    source: Source,
    /// Time of its first packet; `None` when there is none, or it is not known yet.
    first_time: Option<Timestamp>,
    /// Added to all of its times.
    ahead: Span,
    /// What cannot be opened again.
    open: Option<Box<Reader<'p>>>,
    /// The key logs of TLS before its first packet.
    key_logs: Vec<Box<[u8]>>,
}

impl PacketInput<'_> {
    /// The same once more; `None` when it can be read only once.
    #[must_use]
    pub fn again<'q>(&self) -> Option<PacketInput<'q>> {
        self.open.is_none().then(|| PacketInput {
            source: self.source.clone(),
            first_time: self.first_time,
            ahead: self.ahead,
            open: None,
            key_logs: Vec::new(),
        })
    }

    /// The key logs of TLS that stand before its first packet, when it can be read again.
    #[must_use]
    pub fn key_logs(&self) -> &[Box<[u8]>] {
        &self.key_logs
    }

    /// All key logs of TLS in it, wherever they stand; none when it can be read only once.
    #[must_use]
    pub fn all_key_logs(&self, limits: &Limits) -> Vec<Box<[u8]>> {
        let uncounted = AtomicU64::new(0);
        let mut found = Vec::new();
        if self.open.is_none()
            && let Ok(Opened::Packets(mut reader)) = open(&self.source, limits, &uncounted)
        {
            let mut odd = Anomalies::default();
            while reader.next_batch(&mut odd, InputId::default()).is_some() {
                found.extend(reader.take_key_logs());
            }
            found.extend(reader.take_key_logs());
        }
        found
    }

    /// Adds `span` to the times of all packets: what it was captured with was not the right time.
    pub fn move_times(&mut self, span: Span) {
        self.ahead = span;
        self.first_time = self.first_time.map(|time| time.plus(span));
    }
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
            Opened::Packets(_) | Opened::Facts(_) => Err(self.source.refused("it has changed")),
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
    Packets(Box<Reader<'p>>),
    /// HAR text as it is in the file, unpacked, and the name of the format: `har`, with `+gz`,
    /// `+zst` or `+zlib` when compressed.
    Har(Box<dyn Read + Send + 'p>, String),
    /// Parquet, which is read from its end: by who knows what is in it.
    Facts(PathBuf),
}

impl fmt::Debug for Opened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(reader) => f.debug_tuple("Packets").field(reader).finish(),
            Self::Har(_, format) => f.debug_tuple("Har").field(format).finish(),
            Self::Facts(path) => f.debug_tuple("Facts").field(path).finish(),
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
    /// 512 KiB: long enough reads for any disk, short enough to stay in a core's own cache.
    const FULL: Self = Self {
        chunk: 512 << 10,
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
    let (compression, unpacked) = unpack(stored, manner.chunk.min(PACKED_CHUNK), limits)
        .map_err(|error| source.unreadable(error))?;
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
        Format::Parquet => {
            let file = source.path.as_ref().filter(|path| path.is_file());
            return match file.filter(|_| suffix.is_empty()) {
                Some(path) => Ok(Opened::Facts(path.clone())),
                None => Err(source.refused("Parquet is read from files that are not compressed")),
            };
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
    let reader = Reader::new(
        Box::new(peeked),
        decoder,
        header as u64,
        suffix,
        manner.chunk,
    );
    Ok(Opened::Packets(Box::new(reader)))
}

/// What makes two names those of one file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    /// Device and number on it: also a pipe has them, and standard input.
    Inode(u64, u64),
    /// Where the system does not tell these.
    Path(PathBuf),
    /// Standard input, where the system does not tell these.
    Stdin,
}

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &fs::Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        // Some network file systems number nothing.
        (metadata.ino() != 0).then(|| Self::Inode(metadata.dev(), metadata.ino()))
    }

    #[cfg(not(unix))]
    fn of(_: &fs::Metadata) -> Option<Self> {
        None
    }

    fn of_file(path: &Path) -> Self {
        let metadata = fs::metadata(path);
        let number = metadata.ok().as_ref().and_then(Self::of);
        number.unwrap_or_else(|| {
            Self::Path(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
        })
    }

    #[cfg(unix)]
    fn of_stdin() -> Self {
        use std::os::fd::AsFd;
        let stdin = io::stdin().as_fd().try_clone_to_owned();
        let metadata = stdin.and_then(|stdin| fs::File::from(stdin).metadata());
        metadata
            .ok()
            .as_ref()
            .and_then(Self::of)
            .unwrap_or(Self::Stdin)
    }

    #[cfg(not(unix))]
    fn of_stdin() -> Self {
        Self::Stdin
    }
}

impl Found {
    fn stdin(&mut self) {
        self.take(Identity::of_stdin(), "-".to_owned(), None);
    }

    fn file(&mut self, path: &Path) {
        let name = path.display().to_string();
        self.take(Identity::of_file(path), name, Some(path.to_owned()));
    }

    fn take(&mut self, identity: Identity, name: String, path: Option<PathBuf>) {
        match self.taken.entry(identity) {
            Entry::Vacant(new) => {
                new.insert(self.sources.len());
                self.sources.push(Source { name, path });
            }
            Entry::Occupied(known) => {
                let first = self.sources.get(*known.get());
                let first = first.map_or_else(String::new, |source| source.name.clone());
                self.again.push((name, first));
            }
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
            let error = Error::new(format!(
                "cannot read {}: no captures in this folder",
                root.display()
            ));
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
    let (_, unpacked) = unpack(stored, sniff::HEAD, &Limits::default())?;
    match Format::of(Peeked::new(unpacked, sniff::HEAD).head()) {
        Some(Format::Parquet) => may_be_facts(path),
        format => Ok(format.is_some()),
    }
}

/// Whether a Parquet file may be one of facts: its footer names them, or it has none, as what was cut. Others may
/// lie about in a folder.
fn may_be_facts(path: &Path) -> io::Result<bool> {
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    let mut end = [0; 8];
    file.seek(io::SeekFrom::Start(length.saturating_sub(end.len() as u64)))?;
    if file.read_exact(&mut end).is_err() {
        return Ok(true);
    }
    let [a, b, c, d, magic @ ..] = end;
    let footer = u64::from(u32::from_le_bytes([a, b, c, d]));
    if magic != *b"PAR1" || footer > length.min(FOOTER) {
        return Ok(true);
    }
    let start = length.saturating_sub(end.len() as u64 + footer);
    file.seek(io::SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(footer).read_to_end(&mut bytes)?;
    Ok(memchr::memmem::find(&bytes, FACTS).is_some())
}

/// Bytes of a footer that are searched: facts have a tenth of it.
const FOOTER: u64 = 16 << 20;

/// What the footer of facts has.
const FACTS: &[u8] = b"forkscope.facts";

/// Bytes of a compressed file that are read at a time.
const PACKED_CHUNK: usize = 256 << 10;

/// Bytes shown of what is not a capture.
const SHOWN: usize = 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test that panics has failed")]

    use super::{
        packets::Order,
        samples::{Packet, PcapNg, pcap},
        *,
    };
    use crate::anomaly::Kind;
    use std::{io::Write, sync::atomic::Ordering};

    const HAR: &[u8] = br#"{"log":{"version":"1.2","entries":[]}}"#;
    const PACKETS: &[Packet<'_>] = &[(1_000_000, b"one", 3), (2_000_000, b"two", 3)];

    fn capture() -> Vec<u8> {
        pcap(Order::Little, 0xa1b2_c3d4, 1, PACKETS)
    }

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn zst(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).unwrap()
    }

    /// A folder with these files.
    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        folder
    }

    fn source(folder: &tempfile::TempDir, name: &str) -> Source {
        let path = folder.path().join(name);
        Source {
            name: name.to_owned(),
            path: Some(path),
        }
    }

    /// Format, packets read, damage, and the kinds of anomaly.
    fn packets(bytes: &[u8]) -> (String, usize, Option<String>, Vec<Kind>) {
        let folder = folder(&[("x", bytes)]);
        let progress = AtomicU64::new(0);
        let source = source(&folder, "x");
        let Opened::Packets(mut reader) = open(&source, &Limits::default(), &progress).unwrap()
        else {
            panic!("no packets");
        };
        let mut anomalies = Anomalies::default();
        let mut count = 0;
        while let Some(batch) = reader.next_batch(&mut anomalies, InputId(0)) {
            count += batch.len();
        }
        if reader.damage().is_none() {
            assert_eq!(progress.load(Ordering::Relaxed), bytes.len() as u64);
            assert_eq!(source.stored_len(), bytes.len() as u64);
        }
        (
            reader.format(),
            count,
            reader.damage().map(|damage| damage.said().to_string()),
            anomalies.iter().map(|(_, kind, _)| kind).collect(),
        )
    }

    fn refusal(bytes: &[u8]) -> String {
        let folder = folder(&[("x", bytes)]);
        let progress = AtomicU64::new(0);
        let source = source(&folder, "x");
        let opened = open(&source, &Limits::default(), &progress);
        let classified = classify(&source, &Limits::default(), &progress);
        let error = opened.unwrap_err().to_string();
        assert_eq!(classified.unwrap_err().to_string(), error);
        let path = source.path.unwrap().display().to_string();
        assert!(error.contains(&path) && !error.contains('\n'), "{error}");
        error.replace(&path, "X")
    }

    #[test]
    fn opens_packets_whatever_they_are_packed_in() {
        let ng = PcapNg::new(Order::Big)
            .interface(1, 0)
            .packet(0, PACKETS[0])
            .bytes();
        for (bytes, format, count) in [
            (capture(), "pcap", 2),
            (gz(&capture()), "pcap+gz", 2),
            (zst(&capture()), "pcap+zst", 2),
            (
                [gz(&capture()[..30]), gz(&capture()[30..])].concat(),
                "pcap+gz",
                2,
            ),
            (
                [zst(&capture()[..2]), zst(&capture()[2..])].concat(),
                "pcap+zst",
                2,
            ),
            (ng.clone(), "pcapng", 1),
            (gz(&ng), "pcapng+gz", 1),
            (capture()[..24].to_vec(), "pcap", 0),
        ] {
            assert_eq!(packets(&bytes), (format.to_owned(), count, None, vec![]));
        }
    }

    #[test]
    fn opens_har_with_every_byte_of_it() {
        for (bytes, name) in [
            (HAR.to_vec(), "har"),
            (gz(HAR), "har+gz"),
            (zst(HAR), "har+zst"),
        ] {
            let folder = folder(&[("x", &bytes)]);
            let progress = AtomicU64::new(0);
            let classified = classify(&source(&folder, "x"), &Limits::default(), &progress);
            let Classified::Har(har) = classified.unwrap() else {
                panic!("no HAR");
            };
            assert_eq!(progress.load(Ordering::Relaxed), 0);
            let (mut text, format) = har.open(&Limits::default(), &progress).unwrap();
            let mut all = Vec::new();
            text.read_to_end(&mut all).unwrap();
            assert_eq!((all.as_slice(), format.as_str()), (HAR, name));
            assert_eq!(progress.load(Ordering::Relaxed), bytes.len() as u64);
        }
    }

    #[test]
    fn says_why_something_is_no_capture() {
        assert_eq!(refusal(b""), "cannot read X: it is empty");
        assert_eq!(
            refusal(&gz(b"")),
            "cannot read X: it is empty once unpacked"
        );
        assert_eq!(
            refusal(b"\x7fELF and more than is shown"),
            r#"cannot read X: not a capture (starts with "\x7fELF and more th")"#
        );
        assert_eq!(
            refusal(&zst(b"text")),
            r#"cannot read X: not a capture (starts with "text")"#
        );
        assert_eq!(
            refusal(&capture()[..23]),
            "cannot read X: the pcap file header is cut or damaged"
        );
        assert_eq!(
            refusal(&PcapNg::new(Order::Big).bytes()[..27]),
            "cannot read X: the pcapng file header is cut or damaged"
        );
        assert!(refusal(&gz(HAR)[..5]).starts_with("cannot read X: "));
        let progress = AtomicU64::new(0);
        let folder = folder(&[]);
        let error = open(&source(&folder, "gone"), &Limits::default(), &progress).unwrap_err();
        assert_eq!(
            error.cause().map(io::Error::kind),
            Some(io::ErrorKind::NotFound)
        );
    }

    #[test]
    fn damage_of_compressed_data_keeps_what_is_before_it() {
        let long: Vec<Vec<u8>> = (0..10_000_u64)
            .map(|n| {
                (0..50)
                    .map(|at| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at % 57)).to_le_bytes()[0])
                    .collect()
            })
            .collect();
        let long: Vec<Packet<'_>> = long.iter().map(|data| (0, data.as_slice(), 50)).collect();
        let file = pcap(Order::Little, 0xa1b2_c3d4, 1, &long);
        for packed in [gz(&file), zst(&file)] {
            let half = packed.len() / 2;
            let (_, count, damage, kinds) = packets(&packed[..half]);
            assert!((1000..9000).contains(&count), "{count}");
            assert!(damage.unwrap().starts_with("the compressed data end early"));
            assert_eq!(kinds, [Kind::FileCut]);

            let mut broken = packed.clone();
            broken[half..half + 8].fill(0xff);
            let (_, broken, damage, _) = packets(&broken);
            assert!(
                damage.is_some() && broken.abs_diff(count) < 2500,
                "{broken}"
            );
        }
        let mut packed = [gz(&file[..66_024]), gz(&file[66_024..])].concat();
        let second = gz(&file[..66_024]).len();
        packed[second + 2] = 99;
        let (_, count, damage, kinds) = packets(&packed);
        assert_eq!(count, 1000);
        assert!(
            damage
                .unwrap()
                .starts_with("the compressed data are damaged")
        );
        assert_eq!(kinds, [Kind::BadBlock]);
    }

    #[test]
    fn classifying_tells_the_first_time_and_counts_nothing() {
        let folder = folder(&[("x", &capture()), ("y", &capture()[..24])]);
        let progress = AtomicU64::new(0);
        for (name, time) in [("x", Some(1_000_000_000)), ("y", None)] {
            let classified = classify(&source(&folder, name), &Limits::default(), &progress);
            let Classified::Packets(packets) = classified.unwrap() else {
                panic!("no packets");
            };
            assert_eq!(packets.first_time.map(Timestamp::nanos), time);
            assert!(packets.open.is_none());
        }
        assert_eq!(progress.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn finds_captures_in_folders_by_content_and_in_order() {
        let folder = folder(&[
            ("b/2.bin", &capture()),
            ("b/1", &gz(&capture())),
            ("b/notes.pcap", b"no capture at all"),
            ("a.har", HAR),
            ("c", &[]),
            ("b/a/deep", &zst(HAR)),
            ("log.json", br#"{"log":"text"}"#),
        ]);
        let root = folder.path().display().to_string();
        let Found {
            sources, errors, ..
        } = find(std::slice::from_ref(&root));
        let names: Vec<_> = sources
            .iter()
            .map(|source| source.name.strip_prefix(&root).unwrap())
            .collect();
        assert_eq!(names, ["/a.har", "/b/1", "/b/2.bin", "/b/a/deep"]);
        assert!(errors.is_empty(), "{errors:?}");
    }

    #[test]
    fn takes_what_is_named_twice_once() {
        let folder = folder(&[("a/x", &capture()), ("y", b"text")]);
        let root = folder.path().display();
        let inputs = [
            "-".to_owned(),
            format!("{root}/a/x"),
            format!("{root}/a/../a/x"),
            format!("{root}/a"),
            format!("{root}/y"),
            "-".to_owned(),
        ];
        let Found {
            sources, errors, ..
        } = find(&inputs);
        let names: Vec<_> = sources.iter().map(|source| source.name.as_str()).collect();
        // What is named is taken whatever is in it.
        assert_eq!(names, ["-", &inputs[1], &inputs[4]]);
        assert!(sources[0].path.is_none() && errors.is_empty());
    }

    #[test]
    fn names_what_cannot_be_found() {
        let folder = folder(&[("empty/notes", b"text")]);
        let missing = folder.path().join("missing").display().to_string();
        let empty = folder.path().join("empty").display().to_string();
        let Found {
            sources, errors, ..
        } = find(&[missing.clone(), empty.clone()]);
        assert!(sources.is_empty());
        let names: Vec<_> = errors.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [&missing, &empty]);
        assert!(errors[0].1.to_string().contains(&missing));
        assert_eq!(
            errors[1].1.to_string(),
            format!("cannot read {empty}: no captures in this folder")
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_in_folders_lead_to_files_only_and_pipes_are_left_alone() {
        use std::os::unix::fs::symlink;
        let folder = folder(&[("real/x", &capture()), ("linked/y", &capture())]);
        let root = folder.path();
        symlink(root, root.join("real/loop")).unwrap();
        symlink(root.join("linked/y"), root.join("real/y")).unwrap();
        symlink(root.join("nowhere"), root.join("real/z")).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(root.join("real/socket"));
        let Found {
            sources, errors, ..
        } = find(&[root.join("real").display().to_string()]);
        let names: Vec<_> = sources
            .iter()
            .map(|source| Path::new(&source.name).file_name().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["x", "y"]);
        assert!(errors.is_empty() && socket.is_ok());
    }
}
