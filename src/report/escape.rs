//! Characters that must not reach a terminal, a spreadsheet or a log as they are.

use std::{borrow::Cow, fmt::Write};

/// Whether `c` moves a cursor, reorders text or cannot be seen: the controls of Unicode (C0, DEL,
/// C1), the bidirectional controls (UAX #9), line separators, and zero-width characters.
#[must_use]
pub const fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
    )
}

/// Appends `text` to `out` with hidden characters as `\n`, `\r`, `\t`, `\xHH` or `\u{HHHH}`, and
/// a backslash as `\\`, so that no two texts look alike.
pub fn escape_to(text: &str, out: &mut String) {
    if is_plain(text) {
        out.push_str(text);
        return;
    }
    for c in text.chars() {
        if c == '\\' {
            out.push_str("\\\\");
        } else {
            escape_char(c, out);
        }
    }
}

/// Appends `text` to `out` with hidden characters escaped, and backslashes left alone: for names
/// of files, whose separator it is on some systems.
pub fn escape_name_to(text: &str, out: &mut String) {
    for c in text.chars() {
        escape_char(c, out);
    }
}

/// `text` as [`escape_to`] writes it.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    escape_to(text, &mut out);
    Cow::Owned(out)
}

/// What `text` was before [`escape_to`]; `None` when it never came from there.
#[must_use]
pub fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match rest.next()? {
            '\\' => '\\',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'x' => {
                let (high, low) = (rest.next()?.to_digit(16)?, rest.next()?.to_digit(16)?);
                char::from_u32(high * 16 + low)?
            }
            'u' => {
                let (digits, after) = rest.as_str().strip_prefix('{')?.split_once('}')?;
                rest = after.chars();
                char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
            }
            _ => return None,
        });
    }
    Some(out)
}

fn escape_char(c: char, out: &mut String) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if is_hidden(c) => {
            // Writing to a string cannot fail.
            let _ = if u32::from(c) < 0x100 {
                write!(out, "\\x{:02x}", u32::from(c))
            } else {
                write!(out, "\\u{{{:x}}}", u32::from(c))
            };
        }
        c => out.push(c),
    }
}

/// Whether nothing has to be done: nearly every id is plain ASCII.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_what_moves_a_terminal() {
        assert_eq!(escape("a\n\r\t\x1b[31m\x7f"), r"a\n\r\t\x1b[31m\x7f");
        assert_eq!(escape("\u{9b}\u{202e}\u{200b}"), r"\x9b\u{202e}\u{200b}");
        assert_eq!(escape(r"C:\x"), r"C:\\x");
        assert_eq!(escape("sträme_7/3"), "sträme_7/3");
    }

    #[test]
    fn leaves_backslashes_in_file_names() {
        let mut out = String::new();
        escape_name_to("C:\\captures\\a\n.pcap", &mut out);
        assert_eq!(out, "C:\\captures\\a\\n.pcap");
    }

    #[test]
    fn rejects_what_was_never_escaped() {
        for text in [r"\", r"\q", r"\x1", r"\u{d800}", r"\u{12", r"\xzz"] {
            assert_eq!(unescape(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn comes_back_unescaped(text in any::<String>()) {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(is_hidden));
            prop_assert_eq!(unescape(&escaped), Some(text));
        }
    }
}
