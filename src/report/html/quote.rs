//! Text as HTML and as JSON inside HTML.

use super::super::escape::{escape_name_to, is_hidden};
use std::fmt::Write;

/// Appends `text` so that it is text between tags and in quoted attributes. Hidden characters that nobody
/// has escaped before are, here.
pub(super) fn html_to(text: &str, out: &mut String) {
    let mut visible = String::new();
    let text = if text.contains(is_hidden) {
        escape_name_to(text, &mut visible);
        &visible
    } else {
        text
    };
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}

/// `text` as [`html_to`] writes it.
pub(super) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    html_to(text, &mut out);
    out
}

/// Appends `text` as a string of JSON that nothing in it can end, neither the string nor the element that
/// the JSON stands in.
pub(super) fn json_to(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '<' | '>' | '&' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            // All hidden characters are in the basic plane.
            c if is_hidden(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_for_text_and_attributes() {
        assert_eq!(
            html("<b a='\"'>&\n\u{202e}é"),
            "&lt;b a=&#39;&quot;&#39;&gt;&amp;\\n\\u{202e}é"
        );
    }

    proptest! {
        #[test]
        fn json_comes_back(text in any::<String>()) {
            let mut out = String::new();
            json_to(&text, &mut out);
            prop_assert!(!out.contains(['<', '>', '&']) && !out.contains(is_hidden));
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }
    }
}
