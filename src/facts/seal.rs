//! The seal of a file: a hash of all its bytes, in its own footer, and the version. Both are read without reading
//! Parquet: a file of which a bit has changed never gets as far as that.

use super::{VERSION, VERSION_KEY};
use crate::error::Error;
use memchr::memmem;
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    ops::Range,
};
use xxhash_rust::xxh3::Xxh3;

/// The key of a file's metadata that has the hash of all bytes, in hexadecimal, with zeros in its own place.
pub(super) const SEAL_KEY: &str = "forkscope.seal";

/// What stands in the place of the hash before there is one.
pub(super) const OPEN: &str = "0000000000000000";

/// Seals a finished file; `false` when it has no place for it.
pub(super) fn seal(bytes: &mut [u8]) -> bool {
    let Some(place) = place(bytes, SEAL_KEY).filter(|place| place.len() == OPEN.len()) else {
        return false;
    };
    let mut hash = Xxh3::new();
    hash.update(bytes);
    let text = format!("{:016x}", hash.digest());
    match bytes.get_mut(place) {
        Some(to) => {
            to.copy_from_slice(text.as_bytes());
            true
        }
        None => false,
    }
}

/// Where the value of a key is in a footer: Thrift's compact protocol has it next, a field with its length.
fn place(footer: &[u8], key: &str) -> Option<Range<usize>> {
    const STRING: u8 = 0x18;
    let at = memmem::rfind(footer, key.as_bytes())?;
    let value = footer.get(at + key.len()..)?;
    let [STRING, length @ ..0x80, ..] = *value else {
        return None;
    };
    let start = at + key.len() + 2;
    let end = start + usize::from(length);
    (end <= footer.len()).then_some(start..end)
}

/// Whether a file is as it was sealed, and of the version that is read here.
///
/// # Errors
///
/// When it is not, and when it is no file of facts.
pub(super) fn check(file: &mut File) -> Result<(), Error> {
    let read = |error: std::io::Error| Error::new(error.to_string());
    let length = file.seek(SeekFrom::End(0)).map_err(read)?;
    let start = footer(file, length)?;
    file.seek(SeekFrom::Start(start)).map_err(read)?;
    let mut footer = Vec::new();
    file.by_ref()
        .take(length - start)
        .read_to_end(&mut footer)
        .map_err(read)?;
    let Some(version) = place(&footer, VERSION_KEY).and_then(|place| footer.get(place)) else {
        return Err(Error::new("Parquet, but no facts of forkscope"));
    };
    if version != VERSION.to_string().as_bytes() {
        return Err(Error::new(format!(
            "facts of version {}, and this forkscope reads version {VERSION}: extract them again",
            version.escape_ascii()
        )));
    }
    let sealed = place(&footer, SEAL_KEY).filter(|place| place.len() == OPEN.len());
    let sealed = sealed.and_then(|place| footer.get_mut(place));
    let Some(sealed) = sealed else {
        return Err(Error::new("the facts are damaged: they have no seal"));
    };
    let known = sealed.to_vec();
    sealed.copy_from_slice(OPEN.as_bytes());
    let mut hash = Xxh3::new();
    file.rewind().map_err(read)?;
    let mut rest = file.by_ref().take(start);
    let mut buffer = vec![0; CHUNK];
    loop {
        let many = rest.read(&mut buffer).map_err(read)?;
        match buffer.get(..many) {
            None | Some([]) => break,
            Some(bytes) => hash.update(bytes),
        }
    }
    hash.update(&footer);
    if format!("{:016x}", hash.digest()).as_bytes() != known {
        return Err(Error::new(
            "the facts are damaged: their bytes are not those that were sealed",
        ));
    }
    file.rewind().map_err(read)
}

/// Where the footer begins.
fn footer(file: &mut File, length: u64) -> Result<u64, Error> {
    let cut = || Error::new("the facts are damaged: their end is missing");
    let start = length.checked_sub(END).ok_or_else(cut)?;
    let mut end = [0; 8];
    let read = file
        .seek(SeekFrom::Start(start))
        .and_then(|_| file.read_exact(&mut end));
    read.map_err(|_| cut())?;
    let [a, b, c, d, magic @ ..] = end;
    let footer = u64::from(u32::from_le_bytes([a, b, c, d]));
    let start = start
        .checked_sub(footer)
        .filter(|_| magic == *b"PAR1" && footer <= MOST);
    start.ok_or_else(cut)
}

/// The length of the footer, and the mark.
const END: u64 = 8;

/// Bytes of a footer: ours have some ten thousand, and a row group more adds as many.
const MOST: u64 = 16 << 20;

/// Bytes read at a time.
const CHUNK: usize = 256 << 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test that panics has failed")]

    use super::*;
    use std::io::Write;

    fn checked(bytes: &[u8]) -> Result<(), String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        check(&mut file).map_err(|error| error.to_string())
    }

    #[test]
    fn a_seal_holds_for_every_bit() {
        let facts = super::super::Facts::default();
        let files = super::super::write(&facts).unwrap();
        let bytes = &files[0].bytes;
        assert_eq!(checked(bytes), Ok(()));
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 1 << (at % 8);
            assert!(checked(&broken).is_err(), "byte {at}");
        }
        for at in 0..bytes.len() {
            assert!(checked(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn what_is_no_facts_is_told_from_what_is_damaged() {
        assert_eq!(
            checked(b"PAR1footer\x06\0\0\0PAR1"),
            Err("Parquet, but no facts of forkscope".to_owned())
        );
        let cut = Err("the facts are damaged: their end is missing".to_owned());
        assert_eq!(checked(b"PAR1"), cut);
        assert_eq!(checked(b"PAR1\xff\xff\xff\xffPAR1"), cut);
    }
}
