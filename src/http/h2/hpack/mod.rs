//! HPACK as a bystander reads it (RFC 7541): header blocks of one direction become fields.
//!
//! The crates that decode HPACK give up the connection at the first reference to an entry they do not
//! have, and a capture that begins late, or lost a packet, has such references everywhere. Here they are
//! fields without a name. Reading goes on, and no field is ever taken for another.

mod huffman;
mod table;

use table::{Entry, Found, Table, Text};

/// The state of one direction.
#[derive(Debug)]
pub(super) struct Decoder {
    table: Table,
}

/// The fields of a header block, within limits.
#[derive(Debug)]
pub(super) struct Fields {
    kept: Vec<Entry>,
    /// Bytes of them.
    bytes: usize,
    /// Fields and bytes that may be kept.
    most: (usize, usize),
    /// Fields of which the name or the value is not known.
    unknown: usize,
    /// There were more than are kept.
    cut: bool,
    /// What breaks RFC 7541 and can be read all the same.
    odd: Option<&'static str>,
    /// The sender's table became larger than what is kept of it.
    large_table: Option<usize>,
}

/// Why a block cannot be read on: nothing is known of the table any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Error {
    /// It ends within a field.
    Short,
    /// An integer beyond anything that a block may hold.
    Integer,
    /// A string that is not of the Huffman code.
    Huffman,
}

impl Error {
    pub(super) const fn about(self) -> &'static str {
        match self {
            Self::Short => "it ends within a field",
            Self::Integer => "a number in it is too large",
            Self::Huffman => "a string in it is not of the Huffman code",
        }
    }
}

impl Decoder {
    /// The decoder of a connection seen from its start; of the dynamic table no more than `cap` bytes
    /// are kept.
    pub(super) fn new(cap: usize) -> Self {
        Self {
            table: Table::new(cap),
        }
    }

    /// A header block is not in the capture, or cannot be read.
    pub(super) fn lose(&mut self) {
        self.table.lose();
    }

    /// Reads a whole block. After an error the table is lost.
    pub(super) fn decode(&mut self, block: &[u8], fields: &mut Fields) -> Result<(), Error> {
        let result = self.read(block, fields);
        if result.is_err() {
            self.lose();
        }
        result
    }

    fn read(&mut self, block: &[u8], fields: &mut Fields) -> Result<(), Error> {
        let mut input = Input(block);
        while let Some(first) = input.0.first().copied() {
            // Section 6: the representation is told by the first bits.
            match first {
                0x80.. => {
                    let index = input.integer(7)?;
                    let entry = fields.found(self.table.get(index));
                    fields.push(entry);
                }
                0x40.. => {
                    let entry = self.literal(&mut input, 6, fields)?;
                    fields.push(entry.clone());
                    self.table.add(entry);
                }
                0x20.. => {
                    let most = input.integer(5)?;
                    if !self.table.resize(most) {
                        fields.large_table = Some(most);
                    }
                }
                _ => {
                    let entry = self.literal(&mut input, 4, fields)?;
                    fields.push(entry);
                }
            }
        }
        Ok(())
    }

    fn literal(
        &self,
        input: &mut Input<'_>,
        prefix: u32,
        fields: &mut Fields,
    ) -> Result<Entry, Error> {
        let index = input.integer(prefix)?;
        let name = if index == 0 {
            Some(input.string()?)
        } else {
            fields.found(self.table.get(index)).name
        };
        let value = Some(input.string()?);
        Ok(Entry { name, value })
    }
}

/// What is left of a block.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<u8, Error> {
        let (byte, rest) = self.0.split_first().ok_or(Error::Short)?;
        self.0 = rest;
        Ok(*byte)
    }

    /// An integer with a prefix of so many bits (section 5.1).
    fn integer(&mut self, prefix: u32) -> Result<usize, Error> {
        let most = (1_u32 << prefix) - 1;
        let first = u32::from(self.byte()?) & most;
        let mut value = u64::from(first);
        if first == most {
            let mut shift = 0;
            loop {
                let byte = self.byte()?;
                value += u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
                // Leading zeros are legal; five bytes hold all that is ever meant.
                if shift > 28 {
                    return Err(Error::Integer);
                }
            }
        }
        u32::try_from(value)
            .ok()
            .and_then(|value| usize::try_from(value).ok())
            .ok_or(Error::Integer)
    }

    /// A string (section 5.2).
    fn string(&mut self) -> Result<Text, Error> {
        let coded = self.0.first().is_some_and(|first| first & 0x80 != 0);
        let length = self.integer(7)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(Error::Short)?;
        self.0 = rest;
        if !coded {
            return Ok(text.into());
        }
        let mut decoded = Vec::with_capacity(length.saturating_mul(2));
        huffman::decode(text, &mut decoded).map_err(|_| Error::Huffman)?;
        Ok(decoded.as_slice().into())
    }
}

impl Fields {
    /// Keeps no more than so many fields, of so many bytes.
    pub(super) const fn new(fields: usize, bytes: usize) -> Self {
        Self {
            kept: Vec::new(),
            bytes: 0,
            most: (fields, bytes),
            unknown: 0,
            cut: false,
            odd: None,
            large_table: None,
        }
    }

    /// Names and values in order, of those that are known.
    pub(super) fn known(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.kept
            .iter()
            .filter_map(|entry| Some((entry.name.as_deref()?, entry.value.as_deref()?)))
    }

    /// How many are not known, in name or value.
    pub(super) const fn unknown(&self) -> usize {
        self.unknown
    }

    /// Whether there were more than are kept.
    pub(super) const fn is_cut(&self) -> bool {
        self.cut
    }

    /// What breaks RFC 7541 and could be read all the same.
    pub(super) const fn odd(&self) -> Option<&'static str> {
        self.odd
    }

    /// The size that the sender's table got, when less than that is kept of it.
    pub(super) const fn large_table(&self) -> Option<usize> {
        self.large_table
    }

    /// What is known of a field that is referred to.
    fn found(&mut self, found: Found) -> Entry {
        match found {
            Found::Entry(entry) => entry,
            Found::Unknown => Entry::default(),
            Found::Nothing => {
                self.odd = Some(BEYOND);
                Entry::default()
            }
        }
    }

    fn push(&mut self, entry: Entry) {
        if entry.name.is_none() || entry.value.is_none() {
            self.unknown += 1;
        }
        let (count, most) = self.most;
        let bytes = self.bytes.saturating_add(entry.length());
        if self.kept.len() >= count || bytes > most {
            self.cut = true;
            return;
        }
        self.bytes = bytes;
        self.kept.push(entry);
    }
}

const BEYOND: &str = "an index beyond the header table";

#[cfg(test)]
mod tests;
