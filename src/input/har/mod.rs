//! HAR (HTTP Archive 1.2): the exports of browsers, proxies and test tools.
//!
//! A HAR is read as a stream, one entry at a time, in UTF-8 or UTF-16, with or without a byte
//! order mark. What is cut, pasted together or broken in places still yields its good entries.

#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation
)]

mod entry;
mod loose;
mod mask;
mod scan;

pub use mask::{is_masked_event_id, is_masked_id};

use self::{
    entry::{Parsed, Producer},
    loose::Object,
    scan::{Broken, Item, Scanner},
};
use crate::{
    anomaly::{Anomalies, Kind},
    error::Error,
    limits::Limits,
    model::{
        har::HarEntry,
        place::{InputId, Place},
        prose::{Prose, prose},
        time::Timestamp,
    },
};
use foldhash::{HashSet, HashSetExt};
use std::io::{ErrorKind, Read};
use xxhash_rust::xxh3::Xxh3;

/// What a HAR was, once it has been read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Entries handed out; copies and unreadable ones do not count.
    pub entries: u64,
    /// Bytes read from the source.
    pub bytes: u64,
    /// The programs that wrote it, `name version`, each once, in order.
    pub creators: Vec<String>,
    /// A program among them exports only what has ended: a stream that is open is missing.
    pub omits_open: bool,
    /// Where reading stopped before the end, as an offset in the text (in UTF-8, without byte
    /// order mark), and why. Of a cut entry it is the start.
    pub damage: Option<(u64, Prose)>,
    /// The first instant that an entry tells of.
    pub first_time: Option<Timestamp>,
    /// The last instant that an entry tells of: its end, or an event's time.
    pub last_time: Option<Timestamp>,
}

/// Reads a HAR and hands out its entries in the order of the file, which need not be that of time.
///
/// Entries that cannot be read count as [`Kind::BadEntry`]. Exact copies of an earlier entry (two
/// exports pasted together) count as [`Kind::DuplicateEntry`] and are left out; a retry differs in
/// its start. A text that is cut, or that the source fails on, counts as [`Kind::FileCut`] once.
/// Memory holds one entry ([`Limits::har_entry`]) and a hash of each of the last million.
///
/// # Errors
///
/// The text is no JSON, or has no `log` object with `entries`. The message does not name the
/// input.
pub fn read(
    source: &mut dyn Read,
    limits: &Limits,
    input: InputId,
    anomalies: &mut Anomalies,
    out: &mut dyn FnMut(HarEntry),
) -> Result<Summary, Error> {
    let mut text = Text::default();
    let mut scanner = Scanner::new(limits);
    let mut reader = Reader {
        limits,
        input,
        anomalies,
        out,
        producer: Producer::default(),
        copies: Copies::default(),
        number: 0,
        summary: Summary::default(),
    };
    let mut buffer = vec![0; PIECE];
    let mut failure = None;
    let mut going = true;
    // What nobody can read is counted to its end: how many bytes there are must not depend on how many a read
    // gives.
    loop {
        let count = match source.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => {
                failure = going.then(|| error.to_string());
                0
            }
        };
        let piece = buffer.get(..count).unwrap_or_default();
        reader.summary.bytes = reader.summary.bytes.saturating_add(count as u64);
        going = going
            && text.push(piece, count == 0, &mut |text| {
                scanner.push(text, &mut |item| reader.take(item))
            });
        if count == 0 {
            break;
        }
    }
    reader.finish(&scanner, failure)
}

/// A part of a HAR as it stands in the file.
#[derive(Clone, Copy, Debug)]
pub enum Raw<'a> {
    /// What says who wrote it: a JSON value.
    Creator(&'a [u8]),
    /// An entry with its number ([`HarEntry::number`]), which may be no good JSON.
    Entry(u32, &'a [u8]),
}

/// Hands out the parts of a HAR as they stand in the file, in UTF-8, to its end or to where it breaks off.
///
/// # Errors
///
/// Those of `out`, which end the reading; what is wrong with the HAR is for [`read`] to say.
pub fn parts<E>(
    source: &mut dyn Read,
    limits: &Limits,
    out: &mut dyn FnMut(Raw<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut text = Text::default();
    let mut scanner = Scanner::new(limits);
    let mut number = 0_u32;
    let mut outcome = Ok(());
    let mut buffer = vec![0; PIECE];
    loop {
        let count = match source.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => 0,
        };
        let piece = buffer.get(..count).unwrap_or_default();
        let going = text.push(piece, count == 0, &mut |text| {
            scanner.push(text, &mut |item| {
                let raw = match item {
                    Item::Creator(json) => Raw::Creator(json),
                    Item::Refused(_) => {
                        number = number.saturating_add(1);
                        return;
                    }
                    Item::Entry(json) => {
                        number = number.saturating_add(1);
                        Raw::Entry(number, json)
                    }
                };
                if outcome.is_ok() {
                    outcome = out(raw);
                }
            })
        });
        if count == 0 || !going || outcome.is_err() {
            return outcome;
        }
    }
}

struct Reader<'r> {
    limits: &'r Limits,
    input: InputId,
    anomalies: &'r mut Anomalies,
    out: &'r mut dyn FnMut(HarEntry),
    producer: Producer,
    copies: Copies,
    /// Elements of `log.entries` so far.
    number: u32,
    summary: Summary,
}

impl Reader<'_> {
    fn take(&mut self, item: Item<'_>) {
        match item {
            Item::Creator(json) => self.creators(&String::from_utf8_lossy(json)),
            Item::Refused(why) => {
                self.number = self.number.saturating_add(1);
                self.note(Kind::BadEntry, || why);
            }
            Item::Entry(json) => {
                self.number = self.number.saturating_add(1);
                // Bytes that are not UTF-8 cost the characters they stand for, not the entry.
                let json = String::from_utf8_lossy(json);
                match entry::parse(&json, self.number, self.producer, self.limits) {
                    Ok(parsed) => self.hand_out(parsed),
                    Err(why) => self.note(Kind::BadEntry, || why),
                }
            }
        }
    }

    fn hand_out(&mut self, parsed: Parsed) {
        let Parsed { entry, headers_cut } = parsed;
        if headers_cut {
            self.note(Kind::HeadLimit, || "more headers than the limit");
        }
        if !self.copies.is_new(fingerprint(&entry)) {
            self.note(
                Kind::DuplicateEntry,
                || "equal start, method, URL, headers and bodies",
            );
            return;
        }
        let events = entry.events.iter().flatten();
        let last = events
            .filter_map(|event| event.time)
            .chain(entry.duration.map(|duration| entry.started.plus(duration)))
            .fold(entry.started, Timestamp::max);
        let summary = &mut self.summary;
        summary.entries = summary.entries.saturating_add(1);
        let first = summary.first_time.unwrap_or(entry.started);
        summary.first_time = Some(first.min(entry.started));
        summary.last_time = Some(summary.last_time.map_or(last, |time| time.max(last)));
        (self.out)(entry);
    }

    /// A creator is an object; merging tools write several, or a plain text.
    fn creators(&mut self, json: &str) {
        let Ok(value) = serde_json::from_str(json) else {
            return;
        };
        let (several, _) = loose::elements(value, CREATORS);
        let values = if several.is_empty() {
            vec![value]
        } else {
            several
        };
        for value in values {
            let (name, version) = match Object::parse(value.get()) {
                Ok(creator) => (creator.said("name"), creator.said("version")),
                Err(_) => (loose::text(value).filter(|name| !name.is_empty()), None),
            };
            let Some(name) = name else { continue };
            self.producer.include(&name);
            let creator = match version {
                Some(version) => format!("{name} {version}"),
                None => name.into_owned(),
            };
            let end = creator.floor_char_boundary(self.limits.text);
            let creator = creator.get(..end).unwrap_or_default().to_owned();
            let creators = &mut self.summary.creators;
            if creators.len() < CREATORS && !creators.contains(&creator) {
                creators.push(creator);
            }
        }
    }

    fn note<D: Into<Prose>>(&mut self, kind: Kind, detail: impl FnOnce() -> D) {
        let place = Place {
            input: self.input,
            frame: self.number,
            tcp_stream: None,
        };
        self.anomalies.note(kind, place, detail);
    }

    fn finish(mut self, scanner: &Scanner, failure: Option<String>) -> Result<Summary, Error> {
        let ending = scanner.finish();
        self.summary.omits_open = self.producer.omits_open;
        // Cut before its entries, a log may still be a HAR; anything else is none.
        let cut = matches!(ending.damage, Some((_, Broken::Cut)));
        let har = ending.entries || (ending.log && cut);
        if !har {
            return Err(Error::new(match (failure, ending.damage) {
                (Some(failure), _) => format!("not readable as HAR: {failure}"),
                (None, Some((offset, Broken::NotJson))) => {
                    format!("not a HAR: no JSON at offset {offset}")
                }
                (None, Some((_, Broken::Cut))) if self.summary.bytes == 0 => {
                    "not a HAR: empty".to_owned()
                }
                (None, Some((_, Broken::Cut))) => {
                    "not a HAR: the text ends before log.entries".to_owned()
                }
                (None, None) => "not a HAR: JSON without log.entries".to_owned(),
            }));
        }
        if let Some((offset, broken)) = ending.damage {
            let entries = self.summary.entries;
            let why = match (failure, broken) {
                (Some(failure), _) => failure.into(),
                (None, Broken::Cut) => Prose::from("the text ends here"),
                (None, Broken::NotJson) => "no JSON from here on".into(),
            };
            let kind = match broken {
                Broken::Cut => Kind::FileCut,
                Broken::NotJson => Kind::BadBlock,
            };
            self.number = self.number.saturating_add(1);
            self.note(kind, || {
                prose!(
                    "offset {}: {}; {} complete entries were read",
                    offset,
                    why,
                    entries
                )
            });
            self.summary.damage = Some((offset, why));
        }
        Ok(self.summary)
    }
}

/// The hash of what makes two entries the same exchange. Their place, and how long the exporter
/// had watched them, do not count.
fn fingerprint(entry: &HarEntry) -> u128 {
    let mut state = Xxh3::new();
    let mut add = |bytes: Option<&[u8]>| {
        // Lengths keep neighbours apart.
        let len = bytes.map_or(u64::MAX, |bytes| bytes.len() as u64);
        state.update(&len.to_le_bytes());
        state.update(bytes.unwrap_or_default());
    };
    add(Some(&entry.started.nanos().to_le_bytes()));
    add(Some(&entry.status.unwrap_or(0).to_le_bytes()));
    for text in [&entry.method, &entry.url] {
        add(Some(text.as_bytes()));
    }
    for headers in [&entry.request_headers, &entry.response_headers] {
        add(Some(&(headers.len() as u64).to_le_bytes()));
        for (name, value) in headers {
            add(Some(name.to_ascii_lowercase().as_bytes()));
            add(Some(value.as_bytes()));
        }
    }
    for body in [&entry.request_body, &entry.response_body] {
        add(body.as_deref());
    }
    for text in [&entry.connection, &entry.error] {
        add(text.as_deref().map(str::as_bytes));
    }
    for event in entry.events.iter().flatten() {
        let time = event.time.map(|time| time.nanos().to_le_bytes());
        add(time.as_ref().map(<[u8; 8]>::as_slice));
        add(Some(event.name.as_bytes()));
        add(Some(event.id.as_bytes()));
        add(event.data.as_deref().map(str::as_bytes));
    }
    state.digest128()
}

/// Remembers the entries that were seen: at least the last half million.
#[derive(Debug, Default)]
struct Copies {
    recent: HashSet<u128>,
    older: HashSet<u128>,
}

impl Copies {
    fn is_new(&mut self, hash: u128) -> bool {
        if self.older.contains(&hash) || !self.recent.insert(hash) {
            return false;
        }
        if self.recent.len() >= REMEMBERED {
            self.older = std::mem::replace(&mut self.recent, HashSet::new());
        }
        true
    }
}

/// Decodes what the source yields to UTF-8, without byte order mark.
#[derive(Default)]
struct Text {
    /// The first bytes, until there are enough to tell the encoding.
    head: Vec<u8>,
    coding: Option<Coding>,
    decoded: Vec<u8>,
}

enum Coding {
    Utf8,
    Utf16(Box<encoding_rs::Decoder>),
}

impl Text {
    /// Decodes `piece` and hands on the text until `out` wants no more; says whether it does.
    fn push(&mut self, piece: &[u8], last: bool, out: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        if self.coding.is_some() {
            return self.decode(piece, last, out);
        }
        self.head.extend_from_slice(piece);
        if self.head.len() < HEAD && !last {
            return true;
        }
        let head = std::mem::take(&mut self.head);
        let (encoding, mark) = match *head {
            [0xef, 0xbb, 0xbf, ..] => (None, 3),
            [0xff, 0xfe, ..] => (Some(encoding_rs::UTF_16LE), 2),
            [0xfe, 0xff, ..] => (Some(encoding_rs::UTF_16BE), 2),
            // JSON begins with an ASCII character (RFC 4627, section 3).
            [1..=255, 0, ..] => (Some(encoding_rs::UTF_16LE), 0),
            [0, 1..=255, ..] => (Some(encoding_rs::UTF_16BE), 0),
            _ => (None, 0),
        };
        self.coding = Some(encoding.map_or(Coding::Utf8, |encoding| {
            Coding::Utf16(Box::new(encoding.new_decoder_without_bom_handling()))
        }));
        self.decode(head.get(mark..).unwrap_or_default(), last, out)
    }

    fn decode(&mut self, piece: &[u8], last: bool, out: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let decoder = match &mut self.coding {
            Some(Coding::Utf16(decoder)) => decoder,
            Some(Coding::Utf8) | None => return out(piece),
        };
        self.decoded.resize(PIECE, 0);
        let mut rest = piece;
        loop {
            let (state, read, written, _) = decoder.decode_to_utf8(rest, &mut self.decoded, last);
            rest = rest.get(read..).unwrap_or_default();
            if !out(self.decoded.get(..written).unwrap_or_default()) {
                return false;
            }
            if state == encoding_rs::CoderResult::InputEmpty {
                return true;
            }
        }
    }
}

/// Bytes asked of the source at once.
const PIECE: usize = 256 << 10;

/// Bytes that tell the encoding.
const HEAD: usize = 3;

/// Creators kept of one file: merged files have a few.
const CREATORS: usize = 64;

/// Entries after which the older half of the remembered ones is forgotten. Two halves of 16 bytes
/// each are some 30 MB; browsers fail to export so many.
const REMEMBERED: usize = 1 << 19;

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test may panic"
)]
mod tests {
    use super::*;
    use crate::model::har::BodyState;
    use std::io;

    /// A source that yields `step` bytes at a time.
    struct Steps<'a>(&'a [u8], usize);

    impl Read for Steps<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let (now, rest) = self.0.split_at(self.1.min(self.0.len()));
            buffer[..now.len()].copy_from_slice(now);
            self.0 = rest;
            Ok(now.len())
        }
    }

    struct Outcome {
        entries: Vec<HarEntry>,
        summary: Result<Summary, String>,
        anomalies: Anomalies,
    }

    impl Outcome {
        fn count(&self, kind: Kind) -> u64 {
            self.anomalies.count(InputId(3), kind)
        }

        fn urls(&self) -> Vec<&str> {
            self.entries.iter().map(|entry| &*entry.url).collect()
        }

        fn damage(&self) -> Option<u64> {
            let summary = self.summary.as_ref().unwrap();
            summary.damage.as_ref().map(|(offset, _)| *offset)
        }
    }

    fn run_from(source: &mut dyn Read, limits: &Limits) -> Outcome {
        let mut entries = Vec::new();
        let mut anomalies = Anomalies::default();
        let summary = read(source, limits, InputId(3), &mut anomalies, &mut |entry| {
            entries.push(entry);
        });
        Outcome {
            entries,
            summary: summary.map_err(|error| error.to_string()),
            anomalies,
        }
    }

    fn run(text: &[u8]) -> Outcome {
        run_from(&mut Steps(text, PIECE), &Limits::default())
    }

    fn entry(second: u32, url: &str) -> String {
        format!(
            r#"{{"startedDateTime":"2026-11-29T20:50:{second:02}Z","time":1500,"request":{{"method":"GET","url":"{url}"}},"response":{{"status":200,"content":{{"text":"é \ud83d\ude00"}}}}}}"#
        )
    }

    fn har(entries: &[String]) -> String {
        format!(
            r#"{{"log":{{"version":"1.2","creator":{{"name":"WebInspector","version":"537.36"}},"pages":[],"entries":[{}]}}}}"#,
            entries.join(",")
        )
    }

    fn utf16(text: &str, little: bool, mark: bool) -> Vec<u8> {
        let mark = mark.then_some(0xfeff);
        mark.into_iter()
            .chain(text.encode_utf16())
            .flat_map(|unit| {
                if little {
                    unit.to_le_bytes()
                } else {
                    unit.to_be_bytes()
                }
            })
            .collect()
    }

    #[test]
    fn reads_entries_with_what_they_tell() {
        let text = har(&[entry(9, "b"), entry(7, "a")]);
        let outcome = run(text.as_bytes());
        assert_eq!(outcome.urls(), ["b", "a"]);
        assert_eq!(outcome.entries[1].number, 2);
        let body = outcome.entries[0].response_body.as_deref();
        assert_eq!(body, Some("é \u{1f600}".as_bytes()));
        let at = |text: &str| loose::instant(text);
        assert_eq!(
            outcome.summary,
            Ok(Summary {
                entries: 2,
                bytes: text.len() as u64,
                creators: vec!["WebInspector 537.36".to_owned()],
                omits_open: false,
                damage: None,
                first_time: at("2026-11-29T20:50:07Z"),
                last_time: at("2026-11-29T20:50:10.5Z"),
            })
        );
        assert_eq!(outcome.anomalies.iter().count(), 0);
    }

    #[test]
    fn reads_the_same_in_every_encoding_and_by_every_step() {
        let text = format!("\r\n {}", har(&[entry(1, "a"), entry(2, "ü")]));
        let expected = run(text.as_bytes());
        assert_eq!(expected.urls(), ["a", "ü"]);
        let mut files = vec![
            text.clone().into_bytes(),
            format!("\u{feff}{text}").into_bytes(),
        ];
        for little in [false, true] {
            for mark in [false, true] {
                files.push(utf16(&text, little, mark));
            }
        }
        for file in files {
            for step in [1, 2, 3, 5, 100, PIECE] {
                let outcome = run_from(&mut Steps(&file, step), &Limits::default());
                assert_eq!(outcome.entries, expected.entries);
                assert_eq!(outcome.damage(), None);
                assert_eq!(outcome.summary.unwrap().bytes, file.len() as u64);
            }
        }
        // A surrogate cut in two at the end of a file.
        let mut cut = utf16(&text, true, true);
        cut.truncate(cut.len() - 5);
        assert_eq!(run(&cut).entries, expected.entries);
    }

    #[test]
    fn keeps_complete_entries_of_a_file_cut_anywhere() {
        let entries = [entry(1, "a"), entry(2, "b"), entry(3, "c")];
        let text = har(&entries);
        let ends: Vec<usize> = entries
            .iter()
            .map(|entry| text.find(entry.as_str()).unwrap() + entry.len())
            .collect();
        let log = text.find("\"version").unwrap() - 1;
        for cut in 0..text.len() {
            let outcome = run(&text.as_bytes()[..cut]);
            let complete = ends.iter().filter(|&&end| end <= cut).count();
            assert_eq!(outcome.entries.len(), complete, "{cut}");
            if cut < log + 1 {
                assert!(outcome.summary.is_err(), "{cut}");
                continue;
            }
            assert_eq!(outcome.count(Kind::FileCut), 1, "{cut}");
            assert_eq!(outcome.anomalies.iter().count(), 1, "{cut}");
            let damage = outcome.damage().unwrap();
            assert!(damage <= cut as u64, "{cut}");
            assert_eq!(outcome.summary.unwrap().entries, complete as u64);
        }
        assert_eq!(run(text.as_bytes()).damage(), None);
        assert_eq!(
            run(&text.as_bytes()[..ends[1] + 9]).damage(),
            Some(ends[1] as u64 + 1)
        );
    }

    #[test]
    fn reads_damaged_text_the_same_by_every_step() {
        let text = har(&[entry(1, "a"), entry(2, "b")]).into_bytes();
        for at in 0..text.len() {
            for byte in *b"{}[]\",:\\ 0\xff" {
                let mut damaged = text.clone();
                damaged[at] = byte;
                let whole = run(&damaged);
                let bytewise = run_from(&mut Steps(&damaged, 1), &Limits::default());
                assert_eq!(whole.entries, bytewise.entries);
                let damage = |outcome: &Outcome| match &outcome.summary {
                    Ok(summary) => format!("{:?}", summary.damage),
                    Err(error) => error.clone(),
                };
                assert_eq!(damage(&whole), damage(&bytewise));
                for kind in [Kind::FileCut, Kind::BadEntry, Kind::BadBlock] {
                    assert_eq!(whole.count(kind), bytewise.count(kind));
                }
            }
        }
    }

    #[test]
    fn goes_on_after_bad_entries() {
        let text = har(&[
            entry(1, "a"),
            r#"{"startedDateTime":nonsense}"#.to_owned(),
            "null".to_owned(),
            r#"{"a":[1}"#.to_owned(),
            entry(2, "b"),
        ]);
        let outcome = run(text.as_bytes());
        assert_eq!(outcome.urls(), ["a", "b"]);
        assert_eq!(outcome.entries[1].number, 5);
        assert_eq!(outcome.count(Kind::BadEntry), 3);
        assert_eq!(outcome.damage(), None);
        let mut latin = har(&[entry(1, "a?b")]).into_bytes();
        let at = latin.iter().position(|&byte| byte == b'?').unwrap();
        latin[at] = 0xe9;
        assert_eq!(run(&latin).urls(), ["a\u{fffd}b"]);
    }

    #[test]
    fn says_where_the_rest_is_no_json() {
        let text = format!("{} trailing", har(&[entry(1, "a")]));
        let outcome = run(text.as_bytes());
        assert_eq!(outcome.urls(), ["a"]);
        assert_eq!(outcome.damage(), Some(text.len() as u64 - 8));
        assert_eq!(outcome.count(Kind::BadBlock), 1);
    }

    #[test]
    fn leaves_out_copies_but_not_retries() {
        let first = entry(1, "a");
        let spaced = first
            .replace(":{", " : {\n")
            .replace("20:50:01Z", "21:50:01.000+01:00");
        let other = first.replace("200", "404");
        let text = har(&[first.clone(), entry(2, "a"), spaced, other, first]);
        let outcome = run(text.as_bytes());
        let numbers: Vec<u32> = outcome.entries.iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, [1, 2, 4]);
        assert_eq!(outcome.count(Kind::DuplicateEntry), 2);
        assert_eq!(outcome.summary.unwrap().entries, 3);
    }

    #[test]
    fn forgets_the_oldest_entries_only() {
        let mut copies = Copies::default();
        for hash in 0..REMEMBERED as u128 {
            assert!(copies.is_new(hash));
        }
        assert!(!copies.is_new(0));
        for hash in 0..REMEMBERED as u128 {
            assert!(copies.is_new(hash + REMEMBERED as u128));
        }
        assert!(copies.is_new(0));
        assert!(!copies.is_new(REMEMBERED as u128));
    }

    #[test]
    fn knows_the_creators_of_merged_files() {
        let text = format!(
            r#"{{"log":{{"creator":[{{"name":"mitmproxy","version":11}},"x"],"entries":[{}],"creator":{{"name":"x"}}}}}}"#,
            r#"{"startedDateTime":"2026-11-29T20:50:37Z","request":{"url":"u"},"response":{"status":200,"content":{"size":0,"text":"","mimeType":"text/event-stream"}}}"#
        );
        let outcome = run(text.as_bytes());
        assert_eq!(outcome.entries[0].body_state, BodyState::NotRecorded);
        assert_eq!(outcome.summary.unwrap().creators, ["mitmproxy 11", "x"]);
    }

    #[test]
    fn refuses_what_is_no_har() {
        let reason = |text: &str| run(text.as_bytes()).summary.unwrap_err();
        assert_eq!(reason(""), "not a HAR: empty");
        assert_eq!(reason("<html>"), "not a HAR: no JSON at offset 0");
        assert_eq!(reason(r#"{"a":1}"#), "not a HAR: JSON without log.entries");
        assert_eq!(
            reason(r#"{"log":[]}"#),
            "not a HAR: JSON without log.entries"
        );
        assert_eq!(reason("[1]"), "not a HAR: no JSON at offset 1");
        assert_eq!(
            reason(r#"{"a":"#),
            "not a HAR: the text ends before log.entries"
        );
        assert!(run(br#"{"log":{"entries":[]}}"#).summary.is_ok());
        for byte in 0..=255_u8 {
            for len in 1..5 {
                let outcome = run(&vec![byte; len]);
                assert!(outcome.summary.is_err());
            }
        }
    }

    #[test]
    fn keeps_what_came_before_a_failing_source() {
        struct Fails<'a>(&'a [u8], bool);
        impl Read for Fails<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if !std::mem::replace(&mut self.1, true) {
                    return Err(io::Error::from(ErrorKind::Interrupted));
                }
                if self.0.is_empty() {
                    return Err(io::Error::other("corrupt deflate stream"));
                }
                self.0.read(buffer)
            }
        }
        let text = har(&[entry(1, "a"), entry(2, "b")]);
        let half = &text.as_bytes()[..text.len() - 30];
        let outcome = run_from(&mut Fails(half, false), &Limits::default());
        assert_eq!(outcome.urls(), ["a"]);
        let damage = outcome.summary.unwrap().damage.unwrap();
        assert_eq!(damage.1, "corrupt deflate stream");
    }

    #[test]
    fn passes_over_an_entry_beyond_the_limit() {
        let limits = Limits {
            har_entry: 1000,
            ..Limits::default()
        };
        let text = har(&[entry(1, &"x".repeat(2000)), entry(2, "b")]);
        let outcome = run_from(&mut text.as_bytes(), &limits);
        assert_eq!(outcome.urls(), ["b"]);
        assert_eq!(outcome.count(Kind::BadEntry), 1);
    }
}
