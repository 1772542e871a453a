//! Reassembly, held against Wireshark's own: `tshark -r X -z follow,tcp,raw,N` and a [`tcp::Table`]
//! agree on the bytes of both directions of every stream, on place and size of what is missing
//! among them, and on the stream of every frame.
//!
//! Bytes are compared per direction: how the two directions interleave is the order of packets in
//! one and the order of deliveries in the other.

use forkscope::{
    anomaly::Anomalies,
    input::{Classified, Found, Source, classify, find, timeline::Timeline},
    ip,
    limits::Limits,
    link,
    model::{
        flow::Side,
        packet::Transport,
        place::{At, InputId},
    },
    tcp,
};
use rayon::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    io::Write as _,
    mem,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::AtomicU64,
};

#[test]
fn wireshark_and_forkscope_reassemble_the_same_bytes() {
    if Command::new("tshark").arg("--version").output().is_err() {
        assert!(
            std::env::var_os("CI").is_none(),
            "tshark is missing, and with it the check of reassembly"
        );
        skipped();
        return;
    }
    let mut folders = vec![
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures/real")
            .to_str()
            .unwrap()
            .to_owned(),
    ];
    // FORKSCOPE_CAPTURES=folder compares captures of one's own as well.
    folders.extend(std::env::var("FORKSCOPE_CAPTURES"));
    let Found {
        sources, errors, ..
    } = find(&folders);
    assert!(errors.is_empty(), "{errors:?}");
    let captures: Vec<Capture> = sources
        .par_iter()
        .filter(|source| excluded(source).is_none())
        .filter_map(Capture::read)
        .collect();
    let results: Vec<Compared> = batches(captures).par_iter().map(compare).collect();
    let bad: String = results.iter().map(|result| result.bad.as_str()).collect();
    assert!(bad.is_empty(), "\n{bad}");
    let bytes: usize = results.iter().map(|result| result.bytes).sum();
    assert!(bytes > 0, "nothing was compared");
}

/// An exclusion that matches nothing would hide a capture of that name for ever.
#[test]
fn every_exclusion_from_the_comparison_is_of_a_capture() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/real");
    let Found { sources, .. } = find(&[folder.to_str().unwrap().to_owned()]);
    for (name, why) in EXCLUDED {
        assert!(
            sources
                .iter()
                .any(|source| excluded(source).is_some_and(|(by, _)| by == name)),
            "{name} ({why}) excludes nothing"
        );
    }
}

/// The entry of [`EXCLUDED`] for a capture.
fn excluded(source: &Source) -> Option<&'static (&'static str, &'static str)> {
    let file = Path::new(&source.name).file_name()?.to_str()?;
    let name = file.split('.').next()?;
    EXCLUDED.iter().find(|(end, _)| name.ends_with(end))
}

/// A capture as forkscope reads it.
struct Capture {
    name: String,
    path: PathBuf,
    /// The head of an uncompressed pcap, to which packets of others can be appended.
    head: Option<Vec<u8>>,
    reading: Reading,
}

impl Capture {
    /// Reads a capture; `None` when it holds no packets, as a HAR.
    fn read(source: &Source) -> Option<Self> {
        let progress = AtomicU64::new(0);
        let limits = Limits::default();
        let packets = match classify(source, &limits, &progress) {
            Ok(Classified::Packets(packets)) => packets,
            Ok(Classified::Har(_) | Classified::Facts(_)) => return None,
            Err(error) => panic!("{}: {error}", source.name),
        };
        let path = source.path.clone().unwrap();
        let timeline = Timeline::new(vec![(InputId(0), packets)], &limits, &progress);
        Some(Self {
            name: source.name.clone(),
            head: fs::read(&path)
                .unwrap()
                .get(..PCAP_HEAD)
                .filter(|head| PCAP_MAGICS.iter().any(|magic| head.starts_with(magic)))
                .map(<[u8]>::to_vec),
            path,
            reading: own(timeline, limits),
        })
    }
}

/// Captures that one run of tshark reads: its start takes longer than the packets. One file, or
/// pcap files with the same head and with no pair of ends in common, so that the streams of each
/// are what they are in a file of its own, numbered onwards.
struct Batch(Vec<Capture>);

impl Batch {
    fn takes(&self, capture: &Capture) -> bool {
        let streams: u32 = self.0.iter().map(|member| member.reading.count).sum();
        streams + capture.reading.count <= BATCH
            && self.0.iter().all(|member| {
                member.head.is_some()
                    && member.head == capture.head
                    && member.reading.pairs.is_disjoint(&capture.reading.pairs)
            })
    }
}

fn batches(captures: Vec<Capture>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for capture in captures {
        match batches.iter_mut().find(|batch| batch.takes(&capture)) {
            Some(batch) => batch.0.push(capture),
            None => batches.push(Batch(vec![capture])),
        }
    }
    batches
}

/// What a comparison gave.
struct Compared {
    /// Differences, a line each.
    bad: String,
    /// Bytes that were equal.
    bytes: usize,
}

fn compare(Batch(captures): &Batch) -> Compared {
    let names: Vec<&str> = captures.iter().map(|c| c.name.as_str()).collect();
    let count = captures.iter().map(|c| c.reading.count).sum();
    let reference = if let [capture] = captures.as_slice() {
        tshark(&capture.path, count)
    } else {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for (index, capture) in captures.iter().enumerate() {
            let bytes = fs::read(&capture.path).unwrap();
            let start = if index == 0 { 0 } else { PCAP_HEAD };
            file.write_all(&bytes[start..]).unwrap();
        }
        tshark(file.path(), count)
    };
    let mut bad = String::new();
    let mut bytes = 0;
    let mut reference = match reference {
        Ok(reference) => reference,
        Err(error) => {
            return Compared {
                bad: format!("{names:?}: tshark: {error}\n"),
                bytes,
            };
        }
    };
    let frames: usize = captures.iter().map(|c| c.reading.frames.len()).sum();
    if (frames, count) != (reference.frames.len(), reference.count) {
        let _ = writeln!(
            bad,
            "{names:?}: {frames} frames, {count} streams; tshark: {}, {}",
            reference.frames.len(),
            reference.count
        );
    }
    let mut first_stream = 0;
    let mut frames = reference.frames.iter();
    for Capture { name, reading, .. } in captures {
        for (index, (own, theirs)) in reading.frames.iter().zip(&mut frames).enumerate() {
            let theirs = theirs.map(|stream| i64::from(stream) - i64::from(first_stream));
            if own.map(i64::from) != theirs {
                let frame = index + 1;
                let _ = writeln!(
                    bad,
                    "{name}: frame {frame} is of stream {own:?}, tshark: {theirs:?}"
                );
            }
        }
        for ((stream, sender), own) in &reading.bytes {
            let flow = (first_stream + stream, *sender);
            let theirs = reference.bytes.remove(&flow).unwrap_or_default();
            if *own == theirs {
                bytes += own.len();
            } else {
                let difference = difference(own, &theirs);
                let _ = writeln!(bad, "{name}: stream {stream}, {sender}: {difference}");
            }
        }
        first_stream += reading.count;
    }
    for ((stream, sender), theirs) in &reference.bytes {
        let len = theirs.len();
        let _ = writeln!(
            bad,
            "{names:?}: tshark alone has {len} bytes of {sender} in stream {stream}"
        );
    }
    Compared { bad, bytes }
}

/// Where two byte strings part.
fn difference(own: &[u8], theirs: &[u8]) -> String {
    let same = own.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let excerpt = |all: &[u8]| {
        let end = all.len().min(same + 40);
        String::from_utf8_lossy(&all[same..end]).into_owned()
    };
    format!(
        "{} bytes, tshark: {}; from byte {same}: {:?}, tshark: {:?}",
        own.len(),
        theirs.len(),
        excerpt(own),
        excerpt(theirs)
    )
}

/// A direction: the stream's number and the sender.
type Flow = (u32, SocketAddr);

/// What a reader saw in a capture.
#[derive(Default)]
struct Reading {
    /// The stream of every frame; `None` where it is no TCP.
    frames: Vec<Option<u32>>,
    /// How many streams.
    count: u32,
    /// What every direction sent, when anything, with a mark for each hole.
    bytes: BTreeMap<Flow, Vec<u8>>,
    /// The pairs of ends, the lower first.
    pairs: BTreeSet<[SocketAddr; 2]>,
}

/// Reads a capture with forkscope's own stages, from file to TCP.
fn own(mut timeline: Timeline<'_>, limits: Limits) -> Reading {
    let mut reading = Reading::default();
    let mut anomalies = Anomalies::default();
    let mut numbers = tcp::StreamNumbers::new();
    let mut table = tcp::Table::new(limits);
    let mut collected = Vec::new();
    while let Some(piece) = timeline.next(&mut anomalies) {
        for frame in piece.batch.frames(piece.range.clone(), piece.input) {
            let opened = link::peel(&frame)
                .and_then(|packet| ip::open(&packet))
                .ok()
                .filter(|transport: &Transport<'_>| transport.protocol == TCP);
            let parsed = opened
                .as_ref()
                .and_then(|transport| tcp::parse(transport, frame.time, frame.place).ok());
            let Some((mut segment, payload)) = parsed else {
                reading.frames.push(None);
                continue;
            };
            let number = numbers.number(&segment);
            segment.place.tcp_stream = Some(number);
            reading.frames.push(Some(number));
            let mut pair = [segment.source, segment.destination];
            pair.sort_unstable();
            reading.pairs.insert(pair);
            table.push(
                &segment,
                payload,
                &mut anomalies,
                &mut Collect::new,
                &mut |sink| collected.push(*sink),
            );
        }
    }
    table.finish(&mut anomalies, &mut |sink| collected.push(*sink));
    reading.count = numbers.len();
    // Wireshark's stream may be several connections, one after the other.
    collected.sort_by_key(|sink| sink.frame);
    for sink in collected {
        for (end, bytes) in sink.ends.into_iter().zip(sink.bytes) {
            if !bytes.is_empty() {
                let flow = reading.bytes.entry((sink.stream, end)).or_default();
                flow.extend(bytes);
            }
        }
    }
    reading
}

/// Keeps the bytes of one connection. A hole is written as tshark writes it: as a text among the
/// bytes, when bytes follow it; not when the snapshot length made it.
struct Collect {
    stream: u32,
    frame: u32,
    ends: [SocketAddr; 2],
    bytes: [Vec<u8>; 2],
    /// Bytes missing since the last ones.
    missing: [u64; 2],
}

impl Collect {
    fn new(opening: &tcp::Opening) -> Self {
        Self {
            stream: opening.first.place.tcp_stream.unwrap(),
            frame: opening.first.place.frame,
            ends: [opening.a, opening.b],
            bytes: [Vec::new(), Vec::new()],
            missing: [0, 0],
        }
    }
}

impl tcp::Sink for Collect {
    fn data(&mut self, sender: Side, bytes: &[u8], at: At) {
        assert_eq!(at.place.tcp_stream, Some(self.stream), "{at:?}");
        let side = index(sender);
        let missing = mem::take(&mut self.missing[side]);
        if missing > 0 {
            let mark = format!("[{missing} bytes missing in capture file]\0");
            self.bytes[side].extend(mark.as_bytes());
        }
        self.bytes[side].extend(bytes);
    }

    fn hole(&mut self, sender: Side, bytes: u64, kind: tcp::HoleKind, _: At) {
        if kind != tcp::HoleKind::Truncated {
            self.missing[index(sender)] += bytes;
        }
    }

    fn acknowledged(&mut self, _: Side, _: At) {}

    fn fin(&mut self, _: Side, _: Option<u64>, _: At) {}

    fn rst(&mut self, _: Side, _: Option<u64>, _: At) {}

    fn finish(&mut self, _: At) {}
}

fn index(side: Side) -> usize {
    match side {
        Side::A => 0,
        Side::B => 1,
    }
}

/// Reads a capture with one run of tshark that follows `count` streams.
///
/// # Errors
///
/// What tshark says when it cannot read the capture to its end.
fn tshark(path: &Path, count: u32) -> Result<Reading, String> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-e", "tcp.stream", "-r"]);
    command.arg(path);
    for number in 0..count {
        command.arg("-z").arg(format!("follow,tcp,raw,{number}"));
    }
    let output = command.output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let mut reading = Reading::default();
    let mut lines = text.lines().peekable();
    // A line a frame, empty where it is no TCP. An empty line and a rule begin a stream.
    while let Some(line) = lines.next() {
        if line.is_empty() && lines.peek().is_some_and(|next| next.starts_with("====")) {
            break;
        }
        reading
            .frames
            .push((!line.is_empty()).then(|| line.parse().unwrap()));
    }
    let last = reading.frames.iter().flatten().max();
    reading.count = last.map_or(0, |last| last + 1);
    let mut stream = None;
    let mut nodes = [None, None];
    for line in lines {
        if let Some(filter) = line.strip_prefix("Filter: tcp.stream eq ") {
            stream = Some(filter.parse().unwrap());
        } else if let Some(node) = line.strip_prefix("Node 0: ") {
            nodes[0] = node.parse().ok();
        } else if let Some(node) = line.strip_prefix("Node 1: ") {
            nodes[1] = node.parse().ok();
        } else if line.starts_with("====") || line.starts_with("Follow: ") || line.is_empty() {
            // Frame of the text.
        } else {
            // Bytes of one segment; those of the second node are indented.
            let (node, hex) = line.strip_prefix('\t').map_or((0, line), |hex| (1, hex));
            let sender: SocketAddr = nodes[node].unwrap_or_else(|| panic!("no sender: {text}"));
            let flow = reading.bytes.entry((stream.unwrap(), sender)).or_default();
            flow.extend(hex.as_bytes().chunks(2).map(byte));
        }
    }
    Ok(reading)
}

/// The byte of two hexadecimal digits.
fn byte(digits: &[u8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
}

#[expect(clippy::print_stderr, reason = "a test left out must be seen")]
fn skipped() {
    eprintln!("skipped: tshark is missing");
}

/// IP protocol number of TCP.
const TCP: u8 = 6;

/// Bytes of the head of a pcap file.
const PCAP_HEAD: usize = 24;
/// What it begins with: microseconds and nanoseconds, in both orders of bytes.
const PCAP_MAGICS: [[u8; 4]; 4] = [
    0xa1b2_c3d4_u32.to_le_bytes(),
    0xa1b2_c3d4_u32.to_be_bytes(),
    0xa1b2_3c4d_u32.to_le_bytes(),
    0xa1b2_3c4d_u32.to_be_bytes(),
];

/// Streams that one run of tshark follows: a filter each, which looks at every packet.
const BATCH: u32 = 256;

/// Ends of the names of captures that are not compared, and why. Loss, cuts between packets,
/// snapshot lengths, copies and disorder are no reason: what both make of them is the same.
const EXCLUDED: &[(&str, &str)] = &[("pv_truncated", "tshark fails where the last packet is cut")];
