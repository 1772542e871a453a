//! Evidence: for each finding a small capture with what proves it, and comments where to look.
//!
//! [`Plan`] says what of an analysis is wanted, [`Sizes`] takes how much that is while the inputs are read again, and
//! [`Plan::choose`] fits it into a file each. Reading is for the pipeline to do: once for the sizes, once to copy.

pub mod bare;
pub mod har;
pub mod pcapng;

mod choice;
mod marks;
mod plan;

pub use choice::{Choice, Connection, Sizes};
pub use marks::{MARKS, Mark};
pub use plan::{Plan, Wanted};

use super::escape::{escape, escape_name_to};

/// `text` from the wire as it may stand in a comment: hidden characters escaped.
#[must_use]
pub fn comment(text: &str) -> String {
    escape(text).into_owned()
}

/// The name of an input as it may stand in a comment.
#[must_use]
pub fn input_name(name: &str) -> String {
    let mut out = String::new();
    escape_name_to(name, &mut out);
    out
}

/// Whether a file of this name is one that evidence may have been written to.
#[must_use]
pub fn is_evidence_name(name: &str) -> bool {
    let Some((number, rest)) = name.split_once('-') else {
        return false;
    };
    number.len() >= 3
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && (rest.ends_with(".pcapng") || rest.ends_with(".har"))
        && crate::finding::ALL
            .iter()
            .any(|rule| rest.starts_with(rule.code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_evidence_are_told_from_others() {
        for name in [
            "001-sequence-regression-a1-resume-2.pcapng",
            "1000-result-lost.har",
        ] {
            assert!(is_evidence_name(name), "{name}");
        }
        for name in [
            "1-result-lost.har",
            "001-notes.pcapng",
            "001-result-lost.txt",
            "index.csv",
            "abc-result-lost.har",
        ] {
            assert!(!is_evidence_name(name), "{name}");
        }
    }
}
