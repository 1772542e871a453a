//! Finds the extent of each element of `log.entries` in a JSON text that comes in pieces.
//!
//! Only brackets, strings and the few names on the way to the entries are looked at; whether an
//! element is good JSON is for its reader to say. So one bad entry does not cost the rest, and
//! memory holds one entry at a time.

use crate::limits::Limits;

/// What the scanner found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item<'a> {
    /// A `creator` of the log: a JSON value.
    Creator(&'a [u8]),
    /// An element of `log.entries`, whole.
    Entry(&'a [u8]),
    /// An element of `log.entries` that is not kept; says why.
    Refused(&'static str),
}

/// What the whole text was, once it has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ending {
    /// Whether a `log.entries` array was found.
    pub(super) entries: bool,
    /// Whether a `log` object was found.
    pub(super) log: bool,
    /// Where and why reading stopped before the end of a document.
    pub(super) damage: Option<(u64, Broken)>,
}

/// Why a text could not be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It ends in the middle.
    Cut,
    /// It is no JSON there.
    NotJson,
}

/// A scanner over the text of a HAR, or of several, one after the other or in an array.
#[derive(Debug)]
pub(super) struct Scanner {
    level: Level,
    /// Documents stand in an array.
    array: bool,
    expect: Expect,
    /// The name of the member that is being read.
    name: Name,
    value: Option<Value>,
    kept: Vec<u8>,
    /// Offset of the next byte.
    offset: u64,
    documents: u64,
    found_log: bool,
    found_entries: bool,
    broken: Option<u64>,
    max_entry: usize,
    max_depth: usize,
}

/// What the next token belongs to. Each level lies in the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Text,
    Document,
    Log,
    Entries,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    /// A value, or the end of the array.
    Value,
    /// A member's name, or the end of the object.
    Name,
    Colon,
    /// A comma, or the end.
    Comma,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Log,
    Entries,
    Creator,
    Other,
}

/// A value that is being passed over.
#[derive(Clone, Copy, Debug)]
struct Value {
    keep: Keep,
    start: u64,
    shape: Shape,
    depth: usize,
    /// Which of the open brackets are `{`, the innermost in the lowest bit.
    braces: u128,
    in_string: bool,
    escaped: bool,
    refused: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    Nothing,
    Name,
    Creator,
    Entry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Ends with the bracket that brings the depth to zero.
    Container,
    /// Ends with its quote.
    String,
    /// Ends before a delimiter.
    Literal,
}

impl Scanner {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            level: Level::Text,
            array: false,
            expect: Expect::Value,
            name: Name::Other,
            value: None,
            kept: Vec::new(),
            offset: 0,
            documents: 0,
            found_log: false,
            found_entries: false,
            broken: None,
            max_entry: limits.har_entry,
            max_depth: limits.json_depth,
        }
    }

    /// Reads the next piece of the text. False when there is no use in going on.
    pub(super) fn push(&mut self, mut piece: &[u8], out: &mut dyn FnMut(Item<'_>)) -> bool {
        while self.broken.is_none() && !piece.is_empty() {
            let taken = if self.value.is_some() {
                self.inside(piece, out)
            } else {
                self.between(piece)
            };
            self.offset = self.offset.saturating_add(taken as u64);
            piece = piece.get(taken..).unwrap_or_default();
        }
        self.broken.is_none()
    }

    /// Says how the text ended.
    pub(super) fn finish(&self) -> Ending {
        let cut = match (&self.value, self.level) {
            (Some(value), _) => Some(value.start),
            (None, Level::Text) if self.documents > 0 && !self.array => None,
            (None, _) => Some(self.offset),
        };
        Ending {
            entries: self.found_entries,
            log: self.found_log,
            damage: match self.broken {
                Some(at) => Some((at, Broken::NotJson)),
                None => cut.map(|at| (at, Broken::Cut)),
            },
        }
    }

    /// Takes the white space or the one byte between values. Says how many bytes it took: none
    /// when a value begins here.
    fn between(&mut self, piece: &[u8]) -> usize {
        let space = piece.iter().take_while(|b| is_space(**b)).count();
        let Some(&byte) = piece.get(space) else {
            return space;
        };
        let object = matches!(self.level, Level::Document | Level::Log);
        match (self.expect, byte) {
            (Expect::Colon, b':') => self.expect = Expect::Value,
            (Expect::Name, b'"') => return self.begin(Keep::Name, byte, space),
            (Expect::Name | Expect::Comma, b'}') if object => self.leave(),
            (Expect::Value | Expect::Comma, b']') if self.level == Level::Entries => self.leave(),
            (Expect::Value | Expect::Comma, b']') if self.level == Level::Text && self.array => {
                self.array = false;
                self.expect = Expect::Comma;
            }
            (Expect::Comma, b',') if self.level != Level::Text || self.array => {
                self.expect = self.first();
            }
            // What is left of a broken entry.
            (Expect::Comma, b'}') if self.level == Level::Entries => {}
            // Pasted exports may lack the comma between their entries, and between themselves.
            (Expect::Comma, b'{') if !object => return self.open(byte, space),
            (Expect::Value, _) => return self.open(byte, space),
            _ => return self.stop(space),
        }
        space + 1
    }

    /// A value begins with `byte`.
    fn open(&mut self, byte: u8, space: usize) -> usize {
        match (self.level, self.name, byte) {
            (Level::Text, _, b'{') => self.enter(Level::Document),
            // An array of exports; not inside another array.
            (Level::Text, _, b'[') if !self.array && self.documents == 0 => {
                self.array = true;
                self.documents = 1;
            }
            (Level::Text, ..) => return self.stop(space),
            (Level::Document, Name::Log, b'{') => {
                self.found_log = true;
                self.enter(Level::Log);
            }
            (Level::Log, Name::Entries, b'[') => {
                self.found_entries = true;
                self.enter(Level::Entries);
            }
            (Level::Log, Name::Creator, _) => return self.begin(Keep::Creator, byte, space),
            (Level::Entries, ..) => return self.begin(Keep::Entry, byte, space),
            (Level::Document | Level::Log, ..) => return self.begin(Keep::Nothing, byte, space),
        }
        space + 1
    }

    fn begin(&mut self, keep: Keep, byte: u8, space: usize) -> usize {
        let shape = match byte {
            b'{' | b'[' => Shape::Container,
            b'"' => Shape::String,
            b',' | b':' | b'}' | b']' => return self.stop(space),
            _ => Shape::Literal,
        };
        self.kept.clear();
        if self.kept.capacity() > ROOM {
            self.kept.shrink_to(ROOM);
        }
        self.value = Some(Value {
            keep,
            start: self.offset.saturating_add(space as u64),
            shape,
            depth: 0,
            braces: 0,
            in_string: false,
            escaped: false,
            refused: None,
        });
        space
    }

    /// Passes over the value that has begun, to its end or to that of `piece`.
    fn inside(&mut self, piece: &[u8], out: &mut dyn FnMut(Item<'_>)) -> usize {
        let Some(mut value) = self.value else {
            return 0;
        };
        let (taken, ended) = value.scan(piece, self.max_depth);
        if value.keep != Keep::Nothing && value.refused.is_none() {
            let max = match value.keep {
                Keep::Entry => self.max_entry,
                _ => SMALL,
            };
            if self.kept.len() + taken > max {
                value.refused = Some("longer than the limit");
            } else {
                self.kept
                    .extend_from_slice(piece.get(..taken).unwrap_or_default());
            }
        }
        if value.refused.is_some() {
            self.kept = Vec::new();
        }
        if ended {
            self.value = None;
            self.ended(value, out);
        } else {
            self.value = Some(value);
        }
        taken
    }

    fn ended(&mut self, value: Value, out: &mut dyn FnMut(Item<'_>)) {
        self.expect = Expect::Comma;
        match (value.keep, value.refused) {
            (Keep::Nothing, _) | (Keep::Creator, Some(_)) => {}
            (Keep::Name, _) => {
                self.expect = Expect::Colon;
                let name: Option<String> = serde_json::from_slice(&self.kept).ok();
                self.name = match name.as_deref() {
                    Some("log") => Name::Log,
                    Some("entries") => Name::Entries,
                    Some("creator") => Name::Creator,
                    _ => Name::Other,
                };
            }
            (Keep::Creator, None) => out(Item::Creator(&self.kept)),
            (Keep::Entry, None) => out(Item::Entry(&self.kept)),
            (Keep::Entry, Some(why)) => out(Item::Refused(why)),
        }
    }

    fn enter(&mut self, level: Level) {
        self.level = level;
        self.expect = self.first();
    }

    fn leave(&mut self) {
        self.level = match self.level {
            Level::Entries => Level::Log,
            Level::Log => Level::Document,
            Level::Document | Level::Text => {
                self.documents = self.documents.saturating_add(1);
                Level::Text
            }
        };
        self.expect = Expect::Comma;
    }

    /// What comes first at a level.
    const fn first(&self) -> Expect {
        match self.level {
            Level::Document | Level::Log => Expect::Name,
            Level::Text | Level::Entries => Expect::Value,
        }
    }

    fn stop(&mut self, space: usize) -> usize {
        self.broken = Some(self.offset.saturating_add(space as u64));
        space
    }
}

impl Value {
    /// Scans `piece`: how many bytes belong to the value, and whether it ended.
    fn scan(&mut self, piece: &[u8], max_depth: usize) -> (usize, bool) {
        let mut at = 0;
        while let Some(rest) = piece.get(at..).filter(|rest| !rest.is_empty()) {
            if self.escaped {
                self.escaped = false;
                at += 1;
                continue;
            }
            if self.in_string {
                let Some(found) = memchr::memchr2(b'"', b'\\', rest) else {
                    return (piece.len(), false);
                };
                at += found + 1;
                if rest.get(found) == Some(&b'\\') {
                    self.escaped = true;
                    continue;
                }
                self.in_string = false;
                if self.depth == 0 {
                    return (at, true);
                }
                continue;
            }
            if self.shape == Shape::Literal {
                let len = rest
                    .iter()
                    .take_while(|b| !is_space(**b) && !matches!(b, b',' | b':' | b']' | b'}'))
                    .count();
                return (at + len, len < rest.len());
            }
            let Some(found) = rest
                .iter()
                .position(|b| matches!(b, b'"' | b'{' | b'}' | b'[' | b']'))
            else {
                return (piece.len(), false);
            };
            at += found + 1;
            match rest.get(found) {
                Some(b'"') => self.in_string = true,
                Some(&open @ (b'{' | b'[')) => {
                    self.depth += 1;
                    self.braces = (self.braces << 1) | u128::from(open == b'{');
                    if self.depth > max_depth {
                        self.refused = Some("nested deeper than the limit");
                    }
                }
                Some(&close) => {
                    self.close(close == b'}');
                    if self.depth == 0 {
                        return (at, true);
                    }
                }
                None => {}
            }
        }
        (piece.len(), false)
    }

    /// A closing bracket. In broken JSON it ends what it fits, and what that holds: so an entry
    /// that lacks a bracket takes none of its neighbours along. One that fits nothing is ignored.
    fn close(&mut self, brace: bool) {
        // The bits tell the innermost 128 brackets; further out nothing is known.
        let open =
            (0..self.depth).find(|&n| n >= 128 || (self.braces >> n) & 1 == u128::from(brace));
        if let Some(inner) = open {
            self.depth -= inner + 1;
            let shift = u32::try_from(inner + 1).unwrap_or(u32::MAX);
            self.braces = self.braces.checked_shr(shift).unwrap_or_default();
        }
    }
}

const fn is_space(byte: u8) -> bool {
    // NUL: files that a crash left padded.
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0)
}

/// A name, or a creator, is longer than this in no HAR.
const SMALL: usize = 64 << 10;

/// Room kept from one entry to the next; a larger entry gives its room back.
const ROOM: usize = 4 << 20;

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test may panic"
)]
mod tests {
    use super::*;

    fn scan(text: &str, step: usize) -> (Vec<String>, Ending) {
        let mut scanner = Scanner::new(&Limits::default());
        let mut found = Vec::new();
        for piece in text.as_bytes().chunks(step) {
            let mut out = |item: Item<'_>| {
                found.push(match item {
                    Item::Creator(text) => format!("creator {}", String::from_utf8_lossy(text)),
                    Item::Entry(text) => String::from_utf8_lossy(text).into_owned(),
                    Item::Refused(why) => why.to_owned(),
                });
            };
            if !scanner.push(piece, &mut out) {
                break;
            }
        }
        (found, scanner.finish())
    }

    fn whole(found: &[&str]) -> (Vec<String>, Ending) {
        let ending = Ending {
            entries: true,
            log: true,
            damage: None,
        };
        (found.iter().map(|&s| s.to_owned()).collect(), ending)
    }

    #[test]
    fn finds_entries_however_the_text_is_cut() {
        let table: &[(&str, &[&str])] = &[
            (r#"{"log":{"entries":[]}}"#, &[]),
            (
                r#" { "x":[1,{"log":2}], "log" : {"pages":[{}],"entries": [ {"a":"]}\"\\"} ,7, null,[1] ] , "creator":{"name":"n"}} , "y":-1}  "#,
                &[
                    r#"{"a":"]}\"\\"}"#,
                    "7",
                    "null",
                    "[1]",
                    r#"creator {"name":"n"}"#,
                ],
            ),
            (
                r#"{"lo\u0067":{"creator":"c","entries":[{"log":{"entries":[1]}}],"entries":[2]}}"#,
                &[r#"creator "c""#, r#"{"log":{"entries":[1]}}"#, "2"],
            ),
            // Two exports pasted together, in three ways.
            (
                r#"{"log":{"entries":[1]}}{"log":{"entries":[2]}}"#,
                &["1", "2"],
            ),
            (
                r#"[{"log":{"entries":[1]}},{"log":{"entries":[2]}}]"#,
                &["1", "2"],
            ),
            (
                r#"{"log":{"entries":[{"a":1}{"b":2},]}}"#,
                &[r#"{"a":1}"#, r#"{"b":2}"#],
            ),
        ];
        for (text, found) in table {
            for step in 1..text.len() + 1 {
                assert_eq!(scan(text, step), whole(found), "{text} by {step}");
            }
        }
    }

    #[test]
    fn loses_one_entry_to_a_missing_bracket() {
        let table: &[(&str, &[&str])] = &[
            (r#"{"a":[}]}"#, &[r#"{"a":[}"#]),
            (r#"{"a":[1}"#, &[r#"{"a":[1}"#, "1"]),
            (r#"{"a":[{"b":1]}"#, &[r#"{"a":[{"b":1]}"#, "1"]),
            (r#"{"a":1]}"#, &[r#"{"a":1]}"#, "1"]),
            (r#"{"a":1}}"#, &[r#"{"a":1}"#, "1"]),
        ];
        for (entry, found) in table {
            for step in [1, 100] {
                let text = format!(r#"{{"log":{{"entries":[{entry},1]}}}}"#);
                assert_eq!(scan(&text, step).0, *found, "{text}");
            }
        }
    }

    #[test]
    fn says_where_the_text_is_cut_or_no_json() {
        let damage = |text: &str| scan(text, 3).1.damage;
        assert_eq!(
            damage(r#"{"log":{"entries":[{"a":1},{"b":"#),
            Some((27, Broken::Cut))
        );
        assert_eq!(
            damage(r#"{"log":{"entries":[{"a":1}"#),
            Some((26, Broken::Cut))
        );
        assert_eq!(damage(r#"{"log":{"entries":[]}"#), Some((21, Broken::Cut)));
        assert_eq!(
            damage(r#"{"log":{"entries":[:]}"#),
            Some((19, Broken::NotJson))
        );
        assert_eq!(damage("<html>"), Some((0, Broken::NotJson)));
        assert_eq!(
            damage(r#"{"log":{"entries":[]}} x"#),
            Some((23, Broken::NotJson))
        );
        assert_eq!(damage(""), Some((0, Broken::Cut)));
        assert_eq!(damage("[]"), None);
        assert_eq!(damage("[["), Some((1, Broken::NotJson)));
        assert_eq!(
            scan(r#"{"log":[]}"#, 2).1,
            Ending {
                entries: false,
                log: false,
                damage: None
            }
        );
        assert_eq!(
            scan(r#"{"log":{"entries":{}}}"#, 2).1,
            Ending {
                entries: false,
                log: true,
                damage: None
            }
        );
    }

    #[test]
    fn refuses_entries_beyond_the_limits_and_goes_on() {
        let limits = Limits {
            har_entry: 20,
            json_depth: 4,
            ..Limits::default()
        };
        let text = format!(
            r#"{{"log":{{"entries":[{{"a":"{}"}},{{"a":[[[[]]]]}},{{"a":[[[]]]}},1]}}}}"#,
            "x".repeat(40)
        );
        for step in [1, 7, 1000] {
            let mut scanner = Scanner::new(&limits);
            let mut found = Vec::new();
            for piece in text.as_bytes().chunks(step) {
                scanner.push(piece, &mut |item| {
                    found.push(match item {
                        Item::Entry(text) => text.len().to_string(),
                        Item::Refused(why) => why.to_owned(),
                        Item::Creator(_) => String::new(),
                    });
                });
            }
            assert_eq!(
                found,
                [
                    "longer than the limit",
                    "nested deeper than the limit",
                    "12",
                    "1"
                ],
                "{step}"
            );
            assert_eq!(scanner.finish().damage, None);
        }
    }
}
