//! What the pages of a file would take when they are read, told by their headers before any is. A page of few bytes may
//! be of gigabytes, or say one long text for each of a million rows.

use crate::{error::Error, limits::Limits};
use parquet::{
    basic::{Compression, Type},
    file::metadata::{ColumnChunkMetaData, ParquetMetaData},
};
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
};

/// How many rows can be read at a time.
///
/// # Errors
///
/// When no number is small enough, or a header is none.
pub(super) fn rows_at_once(
    file: &mut File,
    metadata: &ParquetMetaData,
    limits: &Limits,
) -> Result<usize, Error> {
    let most = limits.facts_pages;
    let mut rows = ROWS;
    for group in metadata.row_groups() {
        let mut all = Needs::default();
        for column in group.columns() {
            let needs = chunk(file, column).ok_or_else(|| Error::new("a page makes no sense"))?;
            let is_list = column.column_descr().max_rep_level() > 0;
            all.unpacked = all.unpacked.saturating_add(needs.unpacked);
            all.values = all.values.saturating_add(needs.values);
            // Of a list, one row may have as many as there are. The writer makes no dictionaries for those.
            if is_list {
                let texts = needs.values.saturating_mul(needs.longest);
                all.unpacked = all.unpacked.saturating_add(texts);
            } else {
                all.longest = all.longest.saturating_add(needs.longest);
            }
        }
        if all.unpacked > most || all.values > VALUES {
            return Err(Error::new("pages are larger than the limit"));
        }
        let fit = usize::try_from(most / all.longest.max(1)).unwrap_or(ROWS);
        rows = rows.min(fit);
    }
    match rows {
        0 => Err(Error::new("texts are longer than the limit")),
        rows => Ok(rows),
    }
}

/// Rows read at a time.
const ROWS: usize = 1024;

/// Values of those pages: 128 bits each at most, beside texts.
const VALUES: u64 = 1 << 26;

/// Bytes of a dictionary: the writer gives it up at one mebibyte.
const DICTIONARY: usize = 16 << 20;

/// Bytes of a header: ours have thirty.
const HEADER: u64 = 64 << 10;

/// What a column needs, or several.
#[derive(Debug, Default)]
struct Needs {
    /// Bytes of the largest page.
    unpacked: u64,
    /// Values of the page with most.
    values: u64,
    /// The longest text that one value may stand for beside its own bytes.
    longest: u64,
}

fn chunk(file: &mut File, column: &ColumnChunkMetaData) -> Option<Needs> {
    let data = column.data_page_offset();
    let start = column
        .dictionary_page_offset()
        .map_or(data, |dictionary| dictionary.min(data));
    let mut at = u64::try_from(start).ok()?;
    let end = at.checked_add(u64::try_from(column.compressed_size()).ok()?)?;
    let is_text = column.column_type() == Type::BYTE_ARRAY;
    let mut needs = Needs::default();
    while at < end {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(at)).ok()?;
        file.by_ref()
            .take(HEADER.min(end - at))
            .read_to_end(&mut bytes)
            .ok()?;
        let mut compact = Compact(&bytes);
        let page = compact.page()?;
        let header = (bytes.len() - compact.0.len()) as u64;
        let next = at.checked_add(header)?.checked_add(page.packed)?;
        if next > end {
            return None;
        }
        needs.unpacked = needs.unpacked.max(page.unpacked);
        needs.values = needs.values.max(page.values);
        if is_text && page.is_dictionary {
            let longest = longest(file, at + header, &page, column.compression())?;
            needs.longest = needs.longest.max(longest);
        } else if is_text && page.encoding == DELTA_BYTE_ARRAY {
            // Each text may be that before it and no byte more.
            needs.longest = needs.longest.max(page.unpacked);
        }
        at = next;
    }
    Some(needs)
}

/// The encoding of texts that begin as those before them.
const DELTA_BYTE_ARRAY: u64 = 7;

/// The longest text of a dictionary.
fn longest(file: &mut File, at: u64, page: &Page, compression: Compression) -> Option<u64> {
    let unpacked = usize::try_from(page.unpacked)
        .ok()
        .filter(|&many| many <= DICTIONARY)?;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at)).ok()?;
    file.by_ref()
        .take(page.packed)
        .read_to_end(&mut bytes)
        .ok()?;
    let bytes = match compression {
        Compression::UNCOMPRESSED => bytes,
        Compression::ZSTD(_) => zstd::bulk::decompress(&bytes, unpacked).ok()?,
        _ => return None,
    };
    let (mut rest, mut longest) = (bytes.as_slice(), 0);
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length);
        longest = longest.max(u64::from(length));
        rest = after.get(usize::try_from(length).ok()?..)?;
    }
    Some(longest)
}

/// What a header says of its page.
#[derive(Debug, Default)]
struct Page {
    is_dictionary: bool,
    unpacked: u64,
    packed: u64,
    values: u64,
    encoding: u64,
}

/// Thrift's compact protocol, as far as headers of pages need it.
struct Compact<'a>(&'a [u8]);

impl<'a> Compact<'a> {
    /// The header of a page (`PageHeader` in parquet.thrift).
    fn page(&mut self) -> Option<Page> {
        const DICTIONARY_PAGE: u64 = 2;
        let mut page = Page::default();
        let mut field = 0;
        while let Some(kind) = self.field(&mut field)? {
            match (field, kind) {
                (1, I32) => page.is_dictionary = self.int()? == DICTIONARY_PAGE,
                (2, I32) => page.unpacked = self.int()?,
                (3, I32) => page.packed = self.int()?,
                // The headers of data pages and of dictionaries begin with the number of values.
                (5 | 7 | 8, STRUCT) => self.values(field, &mut page)?,
                (_, kind) => self.skip(kind, 0)?,
            }
        }
        Some(page)
    }

    fn values(&mut self, of: i64, page: &mut Page) -> Option<()> {
        let mut field = 0;
        // Of the second version, the fourth.
        let encoding = if of == 8 { 4 } else { 2 };
        while let Some(kind) = self.field(&mut field)? {
            match (field, kind) {
                (1, I32) => page.values = self.int()?,
                (field, I32) if field == encoding => page.encoding = self.int()?,
                (_, kind) => self.skip(kind, 0)?,
            }
        }
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A number that is not negative.
    fn int(&mut self) -> Option<u64> {
        let zigzag = self.varint()?;
        (zigzag & 1 == 0).then_some(zigzag >> 1)
    }

    /// The kind of the next field; none at the end of the struct.
    fn field(&mut self, field: &mut i64) -> Option<Option<u8>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        *field = match head >> 4 {
            0 => {
                let zigzag = self.varint()?;
                (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed()
            }
            more => field.checked_add(i64::from(more))?,
        };
        Some(Some(head & 0x0f))
    }

    fn skip(&mut self, kind: u8, depth: u8) -> Option<()> {
        if depth > DEPTH {
            return None;
        }
        match kind {
            TRUE | FALSE => {}
            BYTE => drop(self.byte()?),
            I16 | I32 | I64 => drop(self.varint()?),
            DOUBLE => self.0 = self.0.get(8..)?,
            BINARY => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.0 = self.0.get(length..)?;
            }
            STRUCT => {
                let mut field = 0;
                while let Some(kind) = self.field(&mut field)? {
                    self.skip(kind, depth + 1)?;
                }
            }
            // Lists and maps are in none of these headers.
            _ => return None,
        }
        Some(())
    }
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const STRUCT: u8 = 12;

/// Structs within each other.
const DEPTH: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use parquet::{
        arrow::{ArrowWriter, arrow_reader::ArrowReaderMetadata},
        basic::ZstdLevel,
        file::properties::WriterProperties,
    };
    use std::{io::Write, sync::Arc};

    fn rows_of(column: ArrayRef, dictionary: bool) -> Result<usize, String> {
        let batch = RecordBatch::try_from_iter([("column", column)]).unwrap();
        let level = ZstdLevel::try_new(3).unwrap();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_dictionary_enabled(dictionary)
            .set_dictionary_page_size_limit(64 << 20)
            .build();
        let mut writer =
            ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&writer.into_inner().unwrap()).unwrap();
        let metadata = ArrowReaderMetadata::load(&file, Default::default()).unwrap();
        rows_at_once(&mut file, metadata.metadata(), &Limits::default())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_as_many_as_fit() {
        let numbers = Int64Array::from_iter_values(0..100_000);
        assert_eq!(rows_of(Arc::new(numbers), false), Ok(ROWS));
        let short = StringArray::from_iter_values((0..5000).map(|n: i32| n.to_string()));
        assert_eq!(rows_of(Arc::new(short), true), Ok(ROWS));
        // One text of eight mebibytes for each of many rows.
        let long = "x".repeat(8 << 20);
        let many = StringArray::from_iter_values([&*long, "short", &*long]);
        assert_eq!(rows_of(Arc::new(many), true), Ok(128));
        // A dictionary that no extract has.
        let longer = "x".repeat(DICTIONARY + 1);
        let one = StringArray::from_iter_values([&*longer]);
        assert!(rows_of(Arc::new(one), true).is_err());
    }

    #[test]
    fn a_page_that_becomes_gigabytes_is_refused() {
        // Type 0, then unpacked and packed bytes as zigzag numbers, and a data page of one value.
        let mut bytes = vec![0x15, 0, 0x15];
        let mut unpacked = (2_u64 << 30) << 1;
        while unpacked >= 0x80 {
            bytes.push(u8::try_from(unpacked & 0x7f).unwrap() | 0x80);
            unpacked >>= 7;
        }
        bytes.extend([
            u8::try_from(unpacked).unwrap(),
            0x15,
            8,
            0x2c,
            0x15,
            2,
            0x15,
            0,
            0,
            0,
        ]);
        let page = Compact(&bytes).page().unwrap();
        assert_eq!((page.unpacked, page.packed, page.values), (2 << 30, 4, 1));
        for cut in 0..bytes.len() {
            assert!(Compact(bytes.get(..cut).unwrap()).page().is_none(), "{cut}");
        }
    }
}
