//! Files of the same bytes: a capture that was copied is one capture.

use super::{Source, compression::fill};
use std::{collections::BTreeMap, fs::File, hash::BuildHasher, io};

/// For each source the first of the same bytes before it, if there is one.
///
/// Only files of equal length are read: their ends, then whole, those that are still alike. What
/// cannot be read is no copy of anything.
#[must_use]
pub fn copies(sources: &[Source]) -> Vec<Option<usize>> {
    let mut copies = vec![None; sources.len()];
    let mut lengths: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, source) in sources.iter().enumerate() {
        if source.is_regular() {
            lengths.entry(source.stored_len()).or_default().push(index);
        }
    }
    for (length, alike) in lengths {
        if alike.len() > 1 && length > 0 {
            let alike = parted(alike, |index| digest(sources.get(index)?, Some(START)));
            for alike in alike {
                for alike in parted(alike, |index| digest(sources.get(index)?, None)) {
                    note(sources, &alike, &mut copies);
                }
            }
        }
    }
    copies
}

/// Notes those that are the first of `alike` byte for byte; a digest may agree by chance, or be made
/// to.
fn note(sources: &[Source], alike: &[usize], copies: &mut [Option<usize>]) {
    let Some((&first, rest)) = alike.split_first() else {
        return;
    };
    for &index in rest {
        let (Some(one), Some(two)) = (sources.get(first), sources.get(index)) else {
            continue;
        };
        if let Some(copy) = copies.get_mut(index)
            && are_same(one, two).unwrap_or(false)
        {
            *copy = Some(first);
        }
    }
}

/// Those of equal `key`, in order, when there are several of one.
fn parted(alike: Vec<usize>, key: impl Fn(usize) -> Option<u64>) -> Vec<Vec<usize>> {
    let mut parts: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for index in alike {
        if let Some(key) = key(index) {
            parts.entry(key).or_default().push(index);
        }
    }
    parts.into_values().filter(|part| part.len() > 1).collect()
}

/// A digest of the first bytes of a file, or of all.
fn digest(source: &Source, first: Option<usize>) -> Option<u64> {
    let mut file = File::open(source.path.as_ref()?).ok()?;
    let mut buffer = vec![0; first.unwrap_or(CHUNK)];
    let hasher = foldhash::fast::FixedState::default();
    let mut digest = 0_u64;
    loop {
        let (read, outcome) = fill(&mut file, &mut buffer);
        outcome.ok()?;
        let read = buffer.get(..read)?;
        digest = hasher.hash_one((digest, read));
        if first.is_some() || read.is_empty() {
            return Some(digest);
        }
    }
}

fn are_same(one: &Source, two: &Source) -> io::Result<bool> {
    let (Some(one), Some(two)) = (&one.path, &two.path) else {
        return Ok(false);
    };
    let (mut one, mut two) = (File::open(one)?, File::open(two)?);
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let (length, outcome) = fill(&mut one, &mut left);
        outcome?;
        let (other, outcome) = fill(&mut two, &mut right);
        outcome?;
        if length != other || left.get(..length) != right.get(..length) {
            return Ok(false);
        }
        if length == 0 {
            return Ok(true);
        }
    }
}

/// Bytes of a file that are looked at first.
const START: usize = 8 << 10;

/// Bytes read at a time.
const CHUNK: usize = 256 << 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test that panics has failed")]

    use super::*;
    use std::fs;

    #[test]
    fn files_of_the_same_bytes_are_found_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let long = vec![7; CHUNK + 10];
        let (mut late, mut early) = (long.clone(), long.clone());
        late[CHUNK + 5] = 8;
        early[5] = 8;
        let files: [&[u8]; 8] = [&long, b"abc", &late, b"", &long, &early, b"", b"abc"];
        let mut sources: Vec<Source> = Vec::new();
        for (number, bytes) in files.iter().enumerate() {
            let path = folder.path().join(number.to_string());
            fs::write(&path, bytes).unwrap();
            sources.push(Source {
                name: number.to_string(),
                path: Some(path),
            });
        }
        sources.push(Source {
            name: "-".to_owned(),
            path: None,
        });
        let mut want = vec![None; 9];
        want[4] = Some(0);
        want[7] = Some(1);
        assert_eq!(copies(&sources), want);
    }

    #[test]
    fn what_agrees_by_chance_is_no_copy() {
        let folder = tempfile::tempdir().unwrap();
        let sources: Vec<Source> = ["one", "two", "one"]
            .iter()
            .enumerate()
            .map(|(number, text)| {
                let path = folder.path().join(number.to_string());
                fs::write(&path, text).unwrap();
                Source {
                    name: number.to_string(),
                    path: Some(path),
                }
            })
            .collect();
        let mut copies = vec![None; 3];
        note(&sources, &[0, 1, 2], &mut copies);
        assert_eq!(copies, [None, None, Some(0)]);
    }
}
