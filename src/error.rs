//! What stops a run, or keeps one input from being read at all.

use std::{io, path::Path};

/// Why something cannot go on. The message names the file, and the offset where there is one.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Error {
    what: String,
    #[source]
    source: Option<io::Error>,
}

impl Error {
    /// A file or folder that cannot be opened, read or written.
    #[must_use]
    pub fn io(doing: &str, path: &Path, source: io::Error) -> Self {
        Self {
            what: format!("{doing} {}: {source}", path.display()),
            source: Some(source),
        }
    }

    /// Anything else, said in one line that names the input.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            source: None,
        }
    }

    /// The underlying input/output error, when there is one.
    #[must_use]
    pub const fn cause(&self) -> Option<&io::Error> {
        self.source.as_ref()
    }
}

/// The one of `names` that is fewest edits away from `word`, without regard to case, when these are
/// few enough to be a slip: for "did you mean".
#[must_use]
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word
        .chars()
        .take(LONGEST)
        .collect::<String>()
        .to_lowercase();
    let ranked = names
        .into_iter()
        .map(|name| (distance(&word, &name.to_lowercase()), name));
    let (distance, near) = ranked.min()?;
    (distance <= near.len() / 3 || (word.len() > 3 && near.to_lowercase().contains(&word)))
        .then_some(near)
}

/// Insertions, deletions and changes of a letter that make `a` of `b` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (index, x) in a.chars().enumerate() {
        let mut diagonal = index;
        let mut left = index + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.chars()) {
            let above = *cell;
            left = (diagonal + usize::from(x != y))
                .min(above + 1)
                .min(left + 1);
            diagonal = above;
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// Letters of a word that are looked at.
const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_nearest_name() {
        let names = ["sequence-regression", "cursor-dropped", "Tap-B.pcap"];
        assert_eq!(
            nearest("sequence-regresion", names),
            Some("sequence-regression")
        );
        assert_eq!(nearest("Regression", names), Some("sequence-regression"));
        assert_eq!(nearest("cursor_dropped", names), Some("cursor-dropped"));
        assert_eq!(nearest("tap-b.pcpa", names), Some("Tap-B.pcap"));
        assert_eq!(nearest("banana", names), None);
    }

    #[test]
    fn counts_edits() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
