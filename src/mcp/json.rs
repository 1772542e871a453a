//! The members of a JSON object, without a look at what is in them (RFC 8259).
//!
//! Every event is JSON, and what the audit wants of most is a method and an id: values are passed over, with SIMD where
//! they are strings, and are handed out as text. What is JSON and what is not is decided as serde_json decides it; the
//! tests hold the two together.

use memchr::memchr2;
use smallvec::SmallVec;

/// Calls `set` with each member of the JSON object `text` whose name is in `names`, values unparsed; the last of equal
/// names counts, as in JavaScript. How many had other names, or `None` when `text` is no object.
///
/// Nesting takes no recursion, and a bit of memory a level.
pub(super) fn members<'a>(
    text: &'a str,
    names: &'static [&'static str],
    mut set: impl FnMut(&'static str, &'a str),
) -> Option<usize> {
    object(text, names, |name, cursor| {
        set(name, cursor.value()?);
        Some(())
    })
}

/// The same for whoever looks at values as they are passed over: `set` stands before a value, and must leave the
/// cursor behind it.
pub(super) fn object<'a>(
    text: &'a str,
    names: &'static [&'static str],
    set: impl FnMut(&'static str, &mut Cursor<'a>) -> Option<()>,
) -> Option<usize> {
    let mut cursor = Cursor { text, at: 0 };
    if !text.starts_with('{') {
        return None;
    }
    let unknown = cursor.members(names, set)?;
    cursor.is_over().then_some(unknown)
}

fn known(names: &'static [&'static str], name: &str) -> Option<&'static str> {
    names.iter().copied().find(|&known| known == name)
}

/// A place in a text.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Passes over a value; its text.
    pub(super) fn value(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.skip()?;
        self.text.get(start..self.at)
    }

    /// Passes over a value, and shows the members of what is an object. Its text, and whether the members are all
    /// that: names of theirs that are no text (a lone surrogate) make an object of none.
    pub(super) fn value_and_members(
        &mut self,
        names: &'static [&'static str],
        mut set: impl FnMut(&'static str, &'a str),
    ) -> Option<(&'a str, bool)> {
        let start = self.at;
        let members = (self.peek() == Some(b'{')).then(|| {
            self.members(names, |name, cursor| {
                set(name, cursor.value()?);
                Some(())
            })
        });
        match members.flatten() {
            Some(_) => Some((self.text.get(start..self.at)?, true)),
            None => {
                self.at = start;
                Some((self.value()?, false))
            }
        }
    }

    /// Passes over an object, at whose bracket it stands.
    fn members(
        &mut self,
        names: &'static [&'static str],
        mut set: impl FnMut(&'static str, &mut Self) -> Option<()>,
    ) -> Option<usize> {
        let mut unknown = 0;
        self.at += 1;
        if self.token()? == b'}' {
            self.at += 1;
            return Some(0);
        }
        loop {
            let start = self.at;
            let escaped = self.string()?;
            let name = self.text.get(start..self.at)?;
            let known = if escaped {
                // Rare; and an escape that is no character makes a name that is none.
                let name: String = serde_json::from_str(name).ok()?;
                known(names, &name)
            } else {
                known(names, name.get(1..name.len() - 1)?)
            };
            self.expect(b':')?;
            self.token()?;
            match known {
                Some(name) => set(name, self)?,
                None => {
                    self.skip()?;
                    unknown += 1;
                }
            }
            match self.token()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(unknown);
                }
                _ => return None,
            }
            self.token()?;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes over space; the byte that stands behind it.
    fn token(&mut self) -> Option<u8> {
        loop {
            match self.peek()? {
                b' ' | b'\n' | b'\t' | b'\r' => self.at += 1,
                other => return Some(other),
            }
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        if self.token()? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// Whether only space is left.
    fn is_over(&mut self) -> bool {
        self.token().is_none()
    }

    /// Passes over a value, and all that is in it.
    fn skip(&mut self) -> Option<()> {
        // What is open: true for objects.
        let mut open: SmallVec<[bool; 16]> = SmallVec::new();
        loop {
            let mut done = true;
            match self.token()? {
                b'"' => {
                    self.string()?;
                }
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                bracket @ (b'[' | b'{') => {
                    self.at += 1;
                    let object = bracket == b'{';
                    if self.token()? == if object { b'}' } else { b']' } {
                        self.at += 1;
                    } else {
                        open.push(object);
                        done = false;
                    }
                }
                _ => return None,
            }
            // What a value ends ends with it.
            while done {
                let Some(&object) = open.last() else {
                    return Some(());
                };
                match (self.token()?, object) {
                    (b',', _) => {
                        self.at += 1;
                        done = false;
                    }
                    (b'}', true) | (b']', false) => {
                        self.at += 1;
                        open.pop();
                    }
                    _ => return None,
                }
            }
            if open.last() == Some(&true) {
                if self.token()? != b'"' {
                    return None;
                }
                self.string()?;
                self.expect(b':')?;
            }
        }
    }

    /// Passes over a string, quotes and all; whether there are escapes in it.
    fn string(&mut self) -> Option<bool> {
        let mut escaped = false;
        if self.peek()? != b'"' {
            return None;
        }
        self.at += 1;
        loop {
            let rest = self.text.as_bytes().get(self.at..)?;
            let length = plain(rest)?;
            let rest = rest.get(length..)?;
            self.at += length + 1;
            if rest.first() == Some(&b'"') {
                return Some(escaped);
            }
            escaped = true;
            match rest.get(1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
                b'u' if rest.get(2..6)?.iter().all(u8::is_ascii_hexdigit) => self.at += 5,
                _ => return None,
            }
        }
    }

    /// Passes over a number.
    fn number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => {
                self.at += 1;
                if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                    return None;
                }
            }
            b'1'..=b'9' => self.digits(),
            _ => return None,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Some(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Option<()> {
        let start = self.at;
        self.digits();
        (self.at > start).then_some(())
    }

    fn literal(&mut self, word: &str) -> Option<()> {
        let rest = self.text.as_bytes().get(self.at..)?;
        if !rest.starts_with(word.as_bytes()) {
            return None;
        }
        self.at += word.len();
        Some(())
    }
}

/// How many bytes of a string come before its end, or before an escape; none where there is neither, or what
/// is no character of a string (RFC 8259, section 7).
fn plain(bytes: &[u8]) -> Option<usize> {
    /// Names and small values are shorter. Beyond, a search by wider SIMD is worth its start.
    const SHORT: usize = 128;
    let mut at = 0;
    while at < SHORT {
        let Some(piece) = bytes.get(at..)?.first_chunk() else {
            let rest = bytes.get(at..)?;
            at += rest.iter().position(|&byte| ends(byte))?;
            break;
        };
        let length = plain_of(piece);
        at += length;
        if length < piece.len() {
            break;
        }
    }
    if at < SHORT {
        return (*bytes.get(at)? >= b' ').then_some(at);
    }
    let rest = bytes.get(at..)?;
    let more = memchr2(b'"', b'\\', rest)?;
    // No early end: so that it takes a register full of bytes at a time.
    let control = |any, &byte: &u8| any | (byte < b' ');
    let odd = rest.get(..more)?.iter().fold(false, control);
    (!odd).then_some(at + more)
}

/// How many of these come before the first that [`ends`] what is plain; eight at a time, in one word.
const fn plain_of(bytes: &[u8; 8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    // The high bit of each byte that is below another, or none; what stands behind the first is of no matter.
    const fn below(word: u64, byte: u8) -> u64 {
        word.wrapping_sub(ONES * byte as u64) & !word
    }
    let word = u64::from_le_bytes(*bytes);
    let quote = below(word ^ (ONES * b'"' as u64), 1);
    let escape = below(word ^ (ONES * b'\\' as u64), 1);
    let ends = (quote | escape | below(word, b' ')) & (ONES << 7);
    ends.trailing_zeros() as usize / 8
}

const fn ends(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < b' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
    use serde_json::value::RawValue;
    use std::{collections::BTreeMap, fmt};

    const NAMES: &[&str] = &["id", "method", "params", "é"];

    /// What is found, or that it is no object.
    type Found = Option<(usize, BTreeMap<String, String>)>;

    fn ours(text: &str) -> Found {
        let mut found = BTreeMap::new();
        let unknown = members(text, NAMES, |name, value| {
            found.insert(name.to_owned(), value.to_owned());
        })?;
        Some((unknown, found))
    }

    /// The same by serde_json.
    fn theirs(text: &str) -> Found {
        struct Members(usize, BTreeMap<String, String>);
        impl<'de> Visitor<'de> for Members {
            type Value = (usize, BTreeMap<String, String>);

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
                while let Some(name) = map.next_key::<String>()? {
                    if NAMES.contains(&name.as_str()) {
                        let value = map.next_value::<&RawValue>()?;
                        self.1.insert(name, value.get().to_owned());
                    } else {
                        map.next_value::<IgnoredAny>()?;
                        self.0 += 1;
                    }
                }
                Ok((self.0, self.1))
            }
        }
        if !text.starts_with('{') {
            return None;
        }
        let mut parser = serde_json::Deserializer::from_str(text);
        let found = parser.deserialize_map(Members(0, BTreeMap::new())).ok()?;
        parser.end().ok()?;
        Some(found)
    }

    #[test]
    fn members_are_found_and_values_passed_over() {
        let text = r#" {"id":1,"other":{"id":[{},"]}",null,-0.5e+3]},"method" : "a\"b","id": 2 } "#;
        let (unknown, found) = ours(text.trim_start()).unwrap();
        assert_eq!(unknown, 1);
        assert_eq!(found.get("id").map(String::as_str), Some("2"));
        assert_eq!(found.get("method").map(String::as_str), Some(r#""a\"b""#));
        assert_eq!(ours(r#"{"\u0069d":1}"#).unwrap().1.len(), 1);
    }

    #[test]
    fn what_is_no_json_is_none() {
        for text in [
            "",
            "{",
            "{}x",
            "{,}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":01}"#,
            r#"{"a":1.}"#,
            r#"{"a":-}"#,
            r#"{"a":1e}"#,
            r#"{"a":tru}"#,
            r#"{"a":[1,]}"#,
            r#"{"a":[}"#,
            r#"{"a":{"b":1]}"#,
            r#"{"a":{1:2}}"#,
            r#"{"a":"\x"}"#,
            r#"{"a":"\u12g4"}"#,
            r#"{"\ud800":1}"#,
            "{\"a\":\"\u{1}\"}",
            r#"{"a":"b}"#,
            "[]",
        ] {
            assert_eq!(ours(text), None, "{text}");
            assert_eq!(theirs(text), None, "{text}");
        }
    }

    #[test]
    fn depth_is_no_danger() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(ours(&deep).unwrap().0, 1);
    }

    /// JSON, and what is nearly JSON: pieces of it in any order.
    fn texts() -> impl Strategy<Value = String> {
        let pieces = prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\"",
            "\\",
            "\\u00e9",
            "\\ud83d",
            "\\n",
            "id",
            "é",
            "\"id\"",
            "\"method\":",
            "\"x\":",
            "0",
            "12",
            "-",
            ".5",
            "e+7",
            "true",
            "null",
            "false",
            " ",
            "\n",
            "\u{1}",
            "\u{7f}",
            "{}",
            "[]",
            "\"\"",
            "1,",
            "\"a b\",",
        ]);
        let nearly = prop::collection::vec(pieces, 0..14).prop_map(|pieces| pieces.concat());
        let leaf = prop_oneof![
            Just("null".to_owned()),
            "-?[0-9]{1,3}(\\.[0-9]{1,2})?(e[0-9])?",
            "\"[ -!#-\\[\\]-~]{0,300}\"",
            Just("\"\\u0041\\ud800\\\"\"".to_owned()),
        ];
        let json = leaf.prop_recursive(3, 24, 4, |inner| {
            let member = ("(id|method|params|other|é)", inner.clone());
            let object = prop::collection::vec(member, 0..4).prop_map(|members| {
                let members: Vec<String> = members
                    .into_iter()
                    .map(|(name, value)| format!("\"{name}\" :{value}"))
                    .collect();
                format!("{{{}}}", members.join(" ,"))
            });
            let array = prop::collection::vec(inner, 0..4)
                .prop_map(|values| format!("[{} ]", values.join(",")));
            prop_oneof![object, array]
        });
        let cut = (json.clone(), any::<prop::sample::Index>()).prop_map(|(text, at)| {
            let at = text.floor_char_boundary(at.index(text.len() + 1));
            text[..at].to_owned()
        });
        prop_oneof![
            nearly.clone().prop_map(|text| format!("{{{text}")),
            nearly.prop_map(|text| format!("{{\"id\":{text}")),
            json,
            cut,
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_is_json_as_serde_json_says(text in texts()) {
            prop_assert_eq!(ours(&text), theirs(&text));
        }
    }
}
