//! Event streams: the parsing of WHATWG HTML, "Server-sent events", to the letter, for a reader
//! that only watches: what a browser would not dispatch (an id alone, a `retry` alone) is shown
//! too, and a stream with missing bytes is taken up again at the next event.

#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation
)]

use crate::{limits::Limits, model::place::At};
use memchr::{memchr, memchr2};
use std::{borrow::Cow, ops::Range};

/// Reads one event stream from pieces of its (decoded) body.
///
/// Cutting the same bytes otherwise changes nothing. An event that lies within one piece, with
/// one `data` line, is handed out by reference.
#[derive(Debug)]
pub struct Parser {
    /// Largest line kept, and largest value of a field.
    limit: usize,
    /// The fields of the event that is being read.
    block: Block,
    /// The bytes of a line whose end has not come, without what is past the limit.
    line: Vec<u8>,
    /// Bytes of that line, kept or not.
    line_bytes: usize,
    /// Bytes of the block's lines before it, comments excluded.
    block_bytes: usize,
    state: State,
    /// The line ended at a CR: an LF that follows belongs to it.
    after_cr: bool,
    /// Bytes are missing before the event that comes next.
    after_hole: bool,
    coded: bool,
}

/// One event: a block of lines with any known field.
///
/// A browser dispatches it only when it has data. A field that the specification says to ignore
/// (an id with NUL, a `retry` that is no number) is no field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The last `id` field; an empty one resets the last event ID.
    pub id: Option<&'a str>,
    /// The last `event` field.
    pub event_type: Option<&'a str>,
    /// All `data` fields, joined with LF; `Some("")` for one empty field.
    pub data: Option<&'a str>,
    /// The last `retry` field in milliseconds; larger values saturate.
    pub retry: Option<u32>,
    /// Time and place of its last byte: the first byte of the end of its blank line.
    pub at: At,
    /// Whether bytes of the stream before it are missing.
    pub after_hole: bool,
    /// Whether a field is longer than [`Limits::event`] and cut off there.
    pub oversize: bool,
}

impl Parser {
    /// A parser at the start of a stream.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            limit: limits.event,
            block: Block::default(),
            line: Vec::new(),
            line_bytes: 0,
            block_bytes: 0,
            state: State::Bom(0),
            after_cr: false,
            after_hole: false,
            coded: false,
        }
    }

    /// Says whether the body came through a content coding. Then its bytes are not those of the
    /// wire, and an event's offset is that of its piece.
    #[must_use]
    pub const fn coded(mut self, coded: bool) -> Self {
        self.coded = coded;
        self
    }

    /// Reads a piece that ends at `at` and hands out the events that it completes.
    pub fn push(&mut self, bytes: &[u8], at: At, out: &mut impl FnMut(Event<'_>)) {
        let mut start = 0;
        if matches!(self.state, State::Bom(_)) {
            start = self.bom(bytes);
        }
        while let Some(rest) = bytes.get(start..).filter(|rest| !rest.is_empty()) {
            if self.after_cr {
                self.after_cr = false;
                if rest.first() == Some(&b'\n') {
                    start += 1;
                    continue;
                }
            }
            let Some(length) = memchr2(b'\r', b'\n', rest) else {
                self.keep(rest);
                break;
            };
            self.after_cr = rest.get(length) == Some(&b'\r');
            let end = start + length;
            if self.line_bytes == 0 {
                self.line(bytes, start..end, at, out);
            } else {
                self.keep(rest.get(..length).unwrap_or_default());
                let line = std::mem::take(&mut self.line);
                self.kept_line(&line, bytes);
                self.line = line;
                self.line.clear();
                release(&mut self.line);
            }
            self.line_bytes = 0;
            start = end + 1;
        }
        self.block.own(bytes);
    }

    /// Says that bytes are missing here: the event begun is dropped, and what follows is skipped
    /// up to the next blank line.
    pub fn hole(&mut self) {
        self.reset_block();
        self.line.clear();
        self.line_bytes = 0;
        self.after_cr = false;
        self.after_hole = true;
        self.state = State::SkipLine;
    }

    /// Bytes kept of a line or an event that is not complete.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let Block {
            id,
            event_type,
            data,
            ..
        } = &self.block;
        [id, event_type, data]
            .iter()
            .fold(self.line.len(), |sum, value| {
                sum.saturating_add(value.copy.len())
            })
    }

    /// Bytes of an event begun and not ended: the tail that a cut left, comments excluded. 0 while
    /// an event is skipped whose beginning is missing.
    #[must_use]
    pub fn partial_bytes(&self) -> usize {
        match self.state {
            State::Bom(_) | State::SkipLine | State::SkipBlock => 0,
            State::Reading if self.line.first() == Some(&b':') => self.block_bytes,
            State::Reading => self.block_bytes + self.line_bytes,
        }
    }

    /// Skips a byte order mark at the very start of the stream (once, "UTF-8 decode"); returns
    /// how many bytes of the piece it took.
    fn bom(&mut self, bytes: &[u8]) -> usize {
        let mut used = 0;
        while let State::Bom(matched) = self.state {
            match (BOM.get(matched), bytes.get(used)) {
                (None, _) => self.state = State::Reading,
                (Some(_), None) => break,
                (Some(want), Some(byte)) if want == byte => {
                    used += 1;
                    self.state = State::Bom(matched + 1);
                }
                (Some(_), Some(_)) => {
                    self.state = State::Reading;
                    if matched > used {
                        // Its beginning came with an earlier piece; it was content after all.
                        self.keep(BOM.get(..matched).unwrap_or_default());
                    } else {
                        used = 0;
                    }
                }
            }
        }
        used
    }

    /// Keeps bytes of a line that goes on in the next piece.
    fn keep(&mut self, bytes: &[u8]) {
        self.line_bytes = self.line_bytes.saturating_add(bytes.len());
        // A field's name, colon and space come on top of the value's limit.
        let room = self
            .limit
            .saturating_add(LONGEST_NAME + 3)
            .saturating_sub(self.line.len());
        self.line
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// A line that began in an earlier piece and ended in this one; it is not empty.
    fn kept_line(&mut self, line: &[u8], bytes: &[u8]) {
        if matches!(self.state, State::SkipLine | State::SkipBlock) {
            self.state = State::SkipBlock;
        } else if let Some((field, value)) = split_field(line) {
            self.block_bytes = self.block_bytes.saturating_add(self.line_bytes);
            let value = line.get(value).unwrap_or_default();
            // Earlier lines of this piece may point into it: order is kept by copying them first.
            self.block.own(bytes);
            self.block.field_owned(field, value, self.limit);
        }
    }

    /// A line that lies within the piece.
    fn line(&mut self, bytes: &[u8], line: Range<usize>, at: At, out: &mut impl FnMut(Event<'_>)) {
        let text = bytes.get(line.clone()).unwrap_or_default();
        match self.state {
            State::SkipLine => self.state = State::SkipBlock,
            State::SkipBlock if text.is_empty() => self.state = State::Reading,
            State::SkipBlock => {}
            State::Bom(_) | State::Reading if text.is_empty() => {
                self.dispatch(bytes, self.place(bytes, line.end, at), out);
            }
            State::Bom(_) | State::Reading => {
                if let Some((field, value)) = split_field(text) {
                    self.block_bytes = self.block_bytes.saturating_add(text.len());
                    let value = line.start + value.start..line.start + value.end;
                    self.block.field(field, bytes, value, self.limit);
                }
            }
        }
    }

    /// Time and place just past the line end at `end` of a piece that ends at `at`.
    fn place(&self, bytes: &[u8], end: usize, at: At) -> At {
        let behind = bytes.len().saturating_sub(end + 1);
        match u64::try_from(behind) {
            Ok(behind) if !self.coded => At {
                offset: at.offset.saturating_sub(behind),
                ..at
            },
            _ => at,
        }
    }

    /// The blank line: hands out the block when it has any known field.
    fn dispatch(&mut self, bytes: &[u8], at: At, out: &mut impl FnMut(Event<'_>)) {
        let block = &self.block;
        if block.any {
            let id = block.id.text(bytes, block.oversize);
            let event_type = block.event_type.text(bytes, block.oversize);
            let data = block.data.text(bytes, block.oversize);
            out(Event {
                id: id.as_deref(),
                event_type: event_type.as_deref(),
                data: data.as_deref(),
                retry: block.retry,
                at,
                after_hole: self.after_hole,
                oversize: block.oversize,
            });
            self.after_hole = false;
        }
        self.reset_block();
    }

    fn reset_block(&mut self) {
        self.block.clear();
        self.block_bytes = 0;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the start; so many bytes of a byte order mark have come.
    Bom(usize),
    Reading,
    /// After a hole, in a line whose beginning is missing: its end is no blank line.
    SkipLine,
    /// After a hole, before the next blank line.
    SkipBlock,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    Unknown,
}

/// Splits a line into field and value; `None` for a comment. The line is not empty.
fn split_field(line: &[u8]) -> Option<(Field, Range<usize>)> {
    let (name, value) = match memchr(b':', line.get(..=LONGEST_NAME).unwrap_or(line)) {
        Some(0) => return None,
        Some(colon) => {
            // "If value starts with a U+0020 SPACE character, remove it from value."
            let space = usize::from(line.get(colon + 1) == Some(&b' '));
            (line.get(..colon)?, colon + 1 + space..line.len())
        }
        // "the string is not empty but does not contain a colon": the whole line is the name.
        None => (line, line.len()..line.len()),
    };
    let field = match name {
        b"data" => Field::Data,
        b"event" => Field::Event,
        b"id" => Field::Id,
        b"retry" => Field::Retry,
        _ => Field::Unknown,
    };
    Some((field, value))
}

/// The fields of one event.
#[derive(Debug, Default)]
struct Block {
    id: Value,
    event_type: Value,
    data: Value,
    retry: Option<u32>,
    any: bool,
    oversize: bool,
}

impl Block {
    /// A field whose value lies in the piece.
    fn field(&mut self, field: Field, bytes: &[u8], value: Range<usize>, limit: usize) {
        let long = value.len() > limit;
        let kept = value.start..value.end.min(value.start.saturating_add(limit));
        match field {
            Field::Data if matches!(self.data.place, Held::Nowhere) => {
                self.data.place = Held::Piece(kept);
                self.oversize |= long;
            }
            Field::Event => {
                self.event_type.place = Held::Piece(kept);
                self.oversize |= long;
            }
            Field::Id if memchr(0, bytes.get(kept.clone()).unwrap_or_default()).is_none() => {
                self.id.place = Held::Piece(kept);
                self.oversize |= long;
            }
            _ => {
                if field == Field::Data {
                    self.data.own(bytes);
                }
                let value = bytes.get(value).unwrap_or_default();
                return self.field_owned(field, value, limit);
            }
        }
        self.any = true;
    }

    /// A field whose value must be copied.
    fn field_owned(&mut self, field: Field, value: &[u8], limit: usize) {
        // What lies past the limit was not kept when the line came in pieces: it is not looked at.
        let kept = value.get(..limit).unwrap_or(value);
        match field {
            Field::Data => self.oversize |= self.data.append_line(value, limit),
            Field::Event => {
                self.event_type.set(kept);
                self.oversize |= kept.len() < value.len();
            }
            // "If the field value does not contain U+0000 NULL"
            Field::Id if memchr(0, kept).is_none() => {
                self.id.set(kept);
                self.oversize |= kept.len() < value.len();
            }
            // "If the field value consists of only ASCII digits"
            Field::Retry if !kept.is_empty() && kept.iter().all(u8::is_ascii_digit) => {
                self.retry = Some(saturating_number(kept));
            }
            Field::Id | Field::Retry | Field::Unknown => return,
        }
        self.any = true;
    }

    /// Copies what points into a piece that is about to go.
    fn own(&mut self, bytes: &[u8]) {
        self.id.own(bytes);
        self.event_type.own(bytes);
        self.data.own(bytes);
    }

    fn clear(&mut self) {
        self.id.clear();
        self.event_type.clear();
        self.data.clear();
        self.retry = None;
        self.any = false;
        self.oversize = false;
    }
}

/// A field's value: in the piece at hand while that lasts, else copied.
#[derive(Debug, Default)]
struct Value {
    place: Held,
    copy: Vec<u8>,
}

#[derive(Debug, Default)]
enum Held {
    #[default]
    Nowhere,
    Piece(Range<usize>),
    Copy,
}

impl Value {
    fn set(&mut self, value: &[u8]) {
        self.copy.clear();
        self.copy.extend_from_slice(value);
        self.place = Held::Copy;
    }

    fn own(&mut self, bytes: &[u8]) {
        if let Held::Piece(range) = &self.place {
            let range = range.clone();
            self.set(bytes.get(range).unwrap_or_default());
        }
    }

    /// Adds a line of data, LF between lines; returns whether it was cut at `limit`.
    fn append_line(&mut self, value: &[u8], limit: usize) -> bool {
        match self.place {
            Held::Nowhere => self.copy.clear(),
            Held::Piece(_) | Held::Copy if self.copy.len() < limit => self.copy.push(b'\n'),
            Held::Piece(_) | Held::Copy => return true,
        }
        self.place = Held::Copy;
        let room = limit.saturating_sub(self.copy.len());
        self.copy
            .extend_from_slice(value.get(..room).unwrap_or(value));
        value.len() > room
    }

    /// Its text; bytes that are no UTF-8 become U+FFFD. One that was cut off loses the character
    /// that the cut went through.
    fn text<'a>(&'a self, bytes: &'a [u8], cut: bool) -> Option<Cow<'a, str>> {
        let value = match &self.place {
            Held::Nowhere => return None,
            Held::Piece(range) => bytes.get(range.clone()).unwrap_or_default(),
            Held::Copy => &self.copy,
        };
        Some(match std::str::from_utf8(value) {
            Ok(text) => Cow::Borrowed(text),
            Err(error) if cut && error.error_len().is_none() => {
                String::from_utf8_lossy(value.get(..error.valid_up_to()).unwrap_or_default())
            }
            Err(_) => String::from_utf8_lossy(value),
        })
    }

    fn clear(&mut self) {
        self.place = Held::Nowhere;
        self.copy.clear();
        release(&mut self.copy);
    }
}

/// A number of digits only; `u32::MAX` when it is larger.
fn saturating_number(digits: &[u8]) -> u32 {
    digits.iter().fold(0_u32, |number, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u32::from(digit.saturating_sub(b'0')))
    })
}

/// Gives back the memory of one huge event: streams live for hours, and there are many.
fn release(buffer: &mut Vec<u8>) {
    if buffer.is_empty() && buffer.capacity() > KEPT_CAPACITY {
        *buffer = Vec::new();
    }
}

const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];
/// `event` and `retry`.
const LONGEST_NAME: usize = 5;
/// Above the size of usual events.
const KEPT_CAPACITY: usize = 64 << 10;

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::model::{place::Place, time::Timestamp};
    use proptest::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Seen {
        id: Option<String>,
        event: Option<String>,
        data: Option<String>,
        retry: Option<u32>,
        offset: u64,
        after_hole: bool,
        oversize: bool,
    }

    fn at(offset: usize) -> At {
        At {
            time: Timestamp::from_nanos(7),
            place: Place::default(),
            offset: u64::try_from(offset).unwrap(),
        }
    }

    fn push(parser: &mut Parser, bytes: &[u8], end: usize, seen: &mut Vec<Seen>) {
        parser.push(bytes, at(end), &mut |event: Event<'_>| {
            seen.push(Seen {
                id: event.id.map(Into::into),
                event: event.event_type.map(Into::into),
                data: event.data.map(Into::into),
                retry: event.retry,
                offset: event.at.offset,
                after_hole: event.after_hole,
                oversize: event.oversize,
            });
        });
    }

    fn parse_cut(bytes: &[u8], cuts: &[usize], limit: usize) -> (Vec<Seen>, usize) {
        let limits = Limits {
            event: limit,
            ..Limits::default()
        };
        let (mut parser, mut seen, mut from) = (Parser::new(&limits), Vec::new(), 0);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.push(bytes.len());
        cuts.sort_unstable();
        for cut in cuts {
            push(&mut parser, &bytes[from..cut], cut, &mut seen);
            from = cut;
        }
        (seen, parser.partial_bytes())
    }

    fn parse(text: &str) -> Vec<Seen> {
        let whole = parse_cut(text.as_bytes(), &[], 1 << 20);
        let every: Vec<usize> = (0..text.len()).collect();
        assert_eq!(whole, parse_cut(text.as_bytes(), &every, 1 << 20));
        whole.0
    }

    fn data(text: &str) -> Vec<Option<String>> {
        parse(text).into_iter().map(|event| event.data).collect()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.into())
    }

    #[test]
    fn reads_the_examples_of_the_specification() {
        assert_eq!(
            data("data: YHOO\ndata: +2\ndata: 10\n\n"),
            [some("YHOO\n+2\n10")]
        );
        let events = parse(
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        );
        assert_eq!(events.len(), 3);
        assert_eq!(events[0].data, some("first event"));
        assert_eq!(events[0].id, some("1"));
        assert_eq!(events[1].data, some("second event"));
        assert_eq!(events[1].id, some(""));
        assert_eq!(events[2].data, some(" third event"));
        assert_eq!(events[2].id, None);
        assert_eq!(data("data\n\ndata\ndata\n\ndata:"), [some(""), some("\n")]);
        assert_eq!(
            data("data:test\n\ndata: test\n\n"),
            [some("test"), some("test")]
        );
        let events = parse("event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\n");
        assert_eq!(events[0].event, some("add"));
        assert_eq!(events[1].event, some("remove"));
    }

    #[test]
    fn ends_lines_at_cr_lf_and_both() {
        for end in ["\r", "\n", "\r\n"] {
            let text = format!("id: 1{end}data: a{end}data: b{end}{end}data: c{end}{end}");
            assert_eq!(data(&text), [some("a\nb"), some("c")], "{end:?}");
        }
        assert_eq!(
            data("data: a\r\n\rdata: b\n\r\ndata: c\r\r"),
            [some("a"), some("b"), some("c")]
        );
    }

    #[test]
    fn dispatches_at_the_cr_of_the_blank_line() {
        let (mut parser, mut seen) = (Parser::new(&Limits::default()), Vec::new());
        push(&mut parser, b"data: x\r\n\r", 10, &mut seen);
        assert_eq!(seen.len(), 1);
        push(&mut parser, b"\ndata: y\r", 19, &mut seen);
        push(&mut parser, b"\n", 20, &mut seen);
        assert_eq!(seen.len(), 1, "a CRLF cut in two is no empty line");
        push(&mut parser, b"\r", 21, &mut seen);
        assert_eq!(seen.len(), 2);
        assert_eq!((seen[0].offset, seen[1].offset), (10, 21));
    }

    #[test]
    fn skips_one_byte_order_mark_at_the_start() {
        assert_eq!(data("\u{feff}data: a\n\n"), [some("a")]);
        assert_eq!(data("\u{feff}\u{feff}data: a\n\ndata: b\n\n"), [some("b")]);
        assert_eq!(data("data: b\n\n\u{feff}data: a\n\n"), [some("b")]);
        let broken = b"\xEF\xBBdata: a\n\nid: 1\n\n";
        let every: Vec<usize> = (0..broken.len()).collect();
        assert_eq!(parse_cut(broken, &[], 99), parse_cut(broken, &every, 99));
        assert_eq!(parse_cut(broken, &[], 99).0.len(), 1);
    }

    #[test]
    fn ignores_an_id_with_nul_and_a_retry_that_is_no_number() {
        let events = parse("id: a\nid: b\0\ndata: x\nretry: 10\nretry: +5\nretry:\nretry: 5s\n\n");
        assert_eq!(events[0].id, some("a"));
        assert_eq!(events[0].retry, Some(10));
        assert_eq!(
            parse("retry: 99999999999999999999\n\n")[0].retry,
            Some(u32::MAX)
        );
        assert_eq!(parse("retry: x\n\nid: \0\n\n"), []);
    }

    #[test]
    fn shows_blocks_without_data_but_no_comments() {
        let events = parse(
            ":\n\n: ping\n\nfoo: 1\n\nDATA: 1\n\n\n\nid: 7\n\nretry: 3\n\nevent: close\n\nid\n\n",
        );
        assert_eq!(events.len(), 4);
        assert!(events.iter().all(|event| event.data.is_none()));
        assert_eq!(events[0].id, some("7"));
        assert_eq!(events[1].retry, Some(3));
        assert_eq!(events[2].event, some("close"));
        assert_eq!(events[3].id, some(""));
    }

    #[test]
    fn takes_fields_in_any_order_and_the_last_of_each() {
        let events = parse("data: 1\nevent: a\nretry: 1\nid: x\nevent: b\nid: y\ndata: 2\n\n");
        assert_eq!(events[0].data, some("1\n2"));
        assert_eq!(events[0].event, some("b"));
        assert_eq!(events[0].id, some("y"));
    }

    #[test]
    fn replaces_what_is_no_utf8() {
        let bytes = b"data: \xff\xe2\x82\xacx\xe2\x82\n\n";
        let every: Vec<usize> = (0..bytes.len()).collect();
        for cuts in [&[][..], &every] {
            let (seen, _) = parse_cut(bytes, cuts, 99);
            assert_eq!(seen[0].data, some("\u{fffd}\u{20ac}x\u{fffd}"));
        }
    }

    #[test]
    fn drops_the_event_a_hole_is_in_and_goes_on_after_the_next_blank_line() {
        let (mut parser, mut seen) = (Parser::new(&Limits::default()), Vec::new());
        push(&mut parser, b"data: a\n\nid: 1\ndata: b", 22, &mut seen);
        assert_eq!(parser.partial_bytes(), 12);
        parser.hole();
        assert_eq!(parser.partial_bytes(), 0);
        push(
            &mut parser,
            b"\nid: 2\ndata: c\n\ndata: d\n\ndata: e\n\n",
            80,
            &mut seen,
        );
        let got: Vec<_> = seen
            .iter()
            .map(|e| (e.data.clone().unwrap(), e.after_hole))
            .collect();
        assert_eq!(
            got,
            [("a".into(), false), ("d".into(), true), ("e".into(), false)]
        );
    }

    #[test]
    fn counts_the_bytes_of_a_cut_event_without_comments() {
        let tail = |text: &str| parse_cut(text.as_bytes(), &[3], 99).1;
        assert_eq!(tail("data: a\n\n"), 0);
        assert_eq!(tail("data: a\n\n: ping"), 0);
        assert_eq!(tail("data: a\n\n: ping\nid: 1\ndat"), 8);
    }

    #[test]
    fn cuts_off_data_beyond_the_limit() {
        let text = format!(
            "data: {}\ndata: more\nid: 1\n\ndata: ok\n\n",
            "x".repeat(100)
        );
        let every: Vec<usize> = (0..text.len()).collect();
        for cuts in [&[][..], &every] {
            let (seen, _) = parse_cut(text.as_bytes(), cuts, 10);
            assert_eq!(seen[0].data, some(&"x".repeat(10)));
            assert!(seen[0].oversize);
            assert_eq!(seen[0].id, some("1"));
            assert_eq!(seen[1].data, some("ok"));
            assert!(!seen[1].oversize);
        }
    }

    #[test]
    fn leaves_the_offset_of_a_decoded_piece_alone() {
        let mut parser = Parser::new(&Limits::default()).coded(true);
        let mut offsets = Vec::new();
        parser.push(b"data: a\n\ndata: b\n\n", at(5), &mut |event: Event<'_>| {
            offsets.push(event.at.offset);
        });
        assert_eq!(offsets, [5, 5]);
    }

    proptest! {
        #[test]
        fn cutting_changes_nothing(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    &b"data: a"[..], b"data", b"id: 1", b"id", b"event:e", b"retry: 1", b":c",
                    b"\r", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n", b" ", b":", b"\xE2\x82",
                    b"\xEF\xBB\xBF", b"\xEF", b"\0", b"data: 0123456789abcdef",
                ]),
                0..40,
            ),
            cuts in proptest::collection::vec(0_usize..1000, 0..10),
            limit in 1_usize..30,
        ) {
            let bytes = parts.concat();
            let whole = parse_cut(&bytes, &[], limit);
            let every: Vec<usize> = (0..bytes.len()).collect();
            prop_assert_eq!(&whole, &parse_cut(&bytes, &cuts, limit));
            prop_assert_eq!(&whole, &parse_cut(&bytes, &every, limit));
        }
    }
}
