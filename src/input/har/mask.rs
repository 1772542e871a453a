//! What sanitizers put in place of what they take away.

/// Whether `text` is what a sanitizer puts in place of a body: `obfuscated` (har-sanitizer),
/// `[application/json redacted]` (Cloudflare's), `***`.
pub(super) fn is_masked_body(text: &str) -> bool {
    let text = text.trim();
    if text.is_empty() || text.len() > LONGEST {
        return false;
    }
    if text.len() >= 3 && text.bytes().all(|byte| byte == b'*') {
        return true;
    }
    let bare = [('[', ']'), ('<', '>'), ('(', ')'), ('{', '}')]
        .into_iter()
        .find_map(|(open, close)| text.strip_prefix(open)?.strip_suffix(close));
    let lower = bare.unwrap_or(text).trim().to_ascii_lowercase();
    let Some(last) = lower.rsplit([' ', '-', '_']).next() else {
        return false;
    };
    // Inside brackets it may say what was there; outside, the one word must be all.
    let alone = bare.is_some() && !lower.contains(['"', '<', '[', '{']) || last == lower;
    alone && MARKS.contains(&last)
}

/// Whether a header's value or an event's id is what a sanitizer puts in its place: nothing, a word
/// that says so (`[redacted]`, `REDACTED_SESSION_ID`), filling (`***`, `xxxxxxxx`, an all-zero
/// UUID), or the hash of nothing.
///
/// With a digit beside the word it may be a pseudonym, one for each value: that is an id as good as
/// any.
#[must_use]
pub fn is_masked_id(text: &str) -> bool {
    let text = text.trim();
    if text.is_empty() {
        return true;
    }
    if text.len() > LONGEST {
        return false;
    }
    let mut letters = text.chars().filter(|c| !"-[](){}<>\"' ".contains(*c));
    let first = letters.next();
    let filled = letters.clone().all(|c| Some(c) == first);
    let count = 1 + letters.count();
    match first {
        None => return true,
        Some('*' | '#' | '•' | '●' | '█' | '…' | '?') if filled => return true,
        Some('x' | 'X' | '.' | '_') if filled && count >= 3 => return true,
        // A counter may say 0 or 000.
        Some('0') if filled && count >= 8 => return true,
        _ => {}
    }
    if HASHES_OF_NOTHING.contains(&text.to_ascii_lowercase().as_str()) {
        return true;
    }
    let lower = text.to_lowercase();
    let marked = lower
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| MARKS.contains(&word));
    marked && !text.bytes().any(|byte| byte.is_ascii_digit())
}

/// The same of an id of an event, or of a cursor: zeros of any number are a counter's first.
#[must_use]
pub fn is_masked_event_id(text: &str) -> bool {
    let zeros = text.bytes().all(|byte| byte == b'0');
    !text.trim().is_empty() && !zeros && is_masked_id(text)
}

/// Words that say that something was taken away.
const MARKS: [&str; 16] = [
    "obfuscated",
    "redacted",
    "removed",
    "sanitized",
    "sanitised",
    "filtered",
    "masked",
    "scrubbed",
    "hidden",
    "stripped",
    "censored",
    "omitted",
    "anonymized",
    "anonymised",
    "confidential",
    "cleared",
];

/// MD5, SHA-1 and SHA-256 of an empty text: a sanitizer that hashes what it has cleared.
const HASHES_OF_NOTHING: [&str; 3] = [
    "d41d8cd98f00b204e9800998ecf8427e",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
];

/// Longest text that may be a sanitizer's mark.
const LONGEST: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_marks_in_place_of_bodies() {
        for mark in [
            "obfuscated",
            " [Redacted] ",
            "<removed>",
            "***",
            "[text/event-stream redacted]",
            "REDACTED",
        ] {
            assert!(is_masked_body(mark), "{mark}");
        }
        for text in [
            "",
            "x",
            "**",
            r#"["redacted"]"#,
            r#"{"a":"removed"}"#,
            "the user was removed",
            "<b>x</b> removed",
            "[1, 2]",
        ] {
            assert!(!is_masked_body(text), "{text}");
        }
    }

    #[test]
    fn knows_marks_in_place_of_ids() {
        for mark in [
            "",
            "  ",
            "REDACTED",
            "[redacted]",
            "<REDACTED>",
            "__REDACTED__",
            "REDACTED_SESSION_ID",
            "value removed by sanitizer",
            "*",
            "***",
            "••••••••",
            "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
            "00000000-0000-0000-0000-000000000000",
            "D41D8CD98F00B204E9800998ECF8427E",
        ] {
            assert!(is_masked_id(mark), "{mark}");
        }
        for id in [
            "1",
            "0",
            "000",
            "7777",
            "x",
            "_",
            "redacted-1",
            "b15304df22214fbba7820f7e2c58db8d",
            "3f0c2a54-7b1e-4f6a-9d2e-0a1b2c3d4e5f",
            "stream_7",
            "unmasked",
        ] {
            assert!(!is_masked_id(id), "{id}");
            assert!(!is_masked_event_id(id), "{id}");
        }
        assert!(is_masked_event_id("[redacted]"));
        assert!(!is_masked_event_id("0000000000") && !is_masked_event_id(""));
    }
}
