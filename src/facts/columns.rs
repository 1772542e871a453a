//! Columns: filled with rows, and read from them. Types are few, those that every engine has: 64-bit
//! integers, text, bytes, flags, structs and lists.

use crate::{
    error::Error,
    model::{
        message::PayloadHash,
        time::{Span, Timestamp},
    },
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray, cast::AsArray, types::Int64Type,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};
use std::sync::Arc;

/// Columns that are being filled: all have as many rows.
#[derive(Default)]
pub(super) struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

type Outcome = Result<(), ArrowError>;

impl Columns {
    fn add(&mut self, name: &str, array: ArrayRef, nullable: bool) {
        let data_type = array.data_type().clone();
        self.fields.push(Field::new(name, data_type, nullable));
        self.arrays.push(array);
    }

    pub(super) fn ints(&mut self, name: &str, all: impl Iterator<Item = i64>) {
        self.add(name, Arc::new(Int64Array::from_iter_values(all)), false);
    }

    pub(super) fn ints_or_none(&mut self, name: &str, all: impl Iterator<Item = Option<i64>>) {
        self.add(name, Arc::new(Int64Array::from_iter(all)), true);
    }

    pub(super) fn counts(&mut self, name: &str, all: impl Iterator<Item = u64>) {
        self.ints(
            name,
            all.map(|count| i64::try_from(count).unwrap_or(i64::MAX)),
        );
    }

    pub(super) fn times(&mut self, name: &str, all: impl Iterator<Item = Timestamp>) {
        self.ints(name, all.map(Timestamp::nanos));
    }

    pub(super) fn times_or_none(
        &mut self,
        name: &str,
        all: impl Iterator<Item = Option<Timestamp>>,
    ) {
        self.ints_or_none(name, all.map(|time| time.map(Timestamp::nanos)));
    }

    pub(super) fn spans_or_none(&mut self, name: &str, all: impl Iterator<Item = Option<Span>>) {
        self.ints_or_none(name, all.map(|span| span.map(Span::nanos)));
    }

    pub(super) fn texts<'t>(&mut self, name: &str, all: impl Iterator<Item = &'t str>) {
        self.add(name, Arc::new(StringArray::from_iter_values(all)), false);
    }

    pub(super) fn texts_or_none<'t>(
        &mut self,
        name: &str,
        all: impl Iterator<Item = Option<&'t str>>,
    ) {
        self.add(name, Arc::new(StringArray::from_iter(all)), true);
    }

    pub(super) fn flags(&mut self, name: &str, all: impl Iterator<Item = bool>) {
        let all: BooleanBuffer = all.collect();
        self.add(name, Arc::new(BooleanArray::new(all, None)), false);
    }

    pub(super) fn hashes(&mut self, name: &str, all: impl Iterator<Item = PayloadHash>) {
        let bytes = all.map(|hash| hash.0.to_be_bytes());
        self.add(name, Arc::new(BinaryArray::from_iter_values(bytes)), false);
    }

    pub(super) fn hashes_or_none(
        &mut self,
        name: &str,
        all: impl Iterator<Item = Option<PayloadHash>>,
    ) {
        let bytes = all.map(|hash| hash.map(|hash| hash.0.to_be_bytes()));
        self.add(name, Arc::new(BinaryArray::from_iter(bytes)), true);
    }

    /// A struct of these columns in every row.
    pub(super) fn part(&mut self, name: &str, part: Self) -> Outcome {
        let array = part.into_struct(None)?;
        self.add(name, Arc::new(array), false);
        Ok(())
    }

    /// A struct of these columns in the rows that have it.
    pub(super) fn part_or_none(
        &mut self,
        name: &str,
        has: impl Iterator<Item = bool>,
        part: Self,
    ) -> Outcome {
        let has: BooleanBuffer = has.collect();
        let array = part.into_struct(Some(NullBuffer::new(has)))?;
        self.add(name, Arc::new(array), true);
        Ok(())
    }

    /// A list in every row: of so many of the rows of `all`.
    pub(super) fn lists(
        &mut self,
        name: &str,
        lengths: impl Iterator<Item = usize>,
        all: Self,
    ) -> Outcome {
        let values = all.into_struct(None)?;
        self.list_of(name, lengths, Arc::new(values))
    }

    /// A list of texts in every row.
    pub(super) fn text_lists<'t>(
        &mut self,
        name: &str,
        lengths: impl Iterator<Item = usize>,
        all: impl Iterator<Item = &'t str>,
    ) -> Outcome {
        self.list_of(name, lengths, Arc::new(StringArray::from_iter_values(all)))
    }

    fn list_of(
        &mut self,
        name: &str,
        lengths: impl Iterator<Item = usize>,
        values: ArrayRef,
    ) -> Outcome {
        let element = Arc::new(Field::new("element", values.data_type().clone(), false));
        let offsets = OffsetBuffer::from_lengths(lengths);
        let array = ListArray::try_new(element, offsets, values, None)?;
        self.add(name, Arc::new(array), false);
        Ok(())
    }

    fn into_struct(self, nulls: Option<NullBuffer>) -> Result<StructArray, ArrowError> {
        StructArray::try_new(Fields::from(self.fields), self.arrays, nulls)
    }

    pub(super) fn into_batch(self) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays)
    }
}

/// Rows that are read: of a table, a struct or a list.
pub(super) struct Rows<'a> {
    names: Vec<&'a str>,
    arrays: &'a [ArrayRef],
    nulls: Option<&'a NullBuffer>,
    len: usize,
}

/// A column of texts.
pub(super) struct Texts<'a>(&'a StringArray, &'a str);

/// A column of numbers.
pub(super) struct Ints<'a>(&'a Int64Array, &'a str);

/// A column of flags.
pub(super) struct Flags<'a>(&'a BooleanArray, &'a str);

/// A column of hashes.
pub(super) struct Hashes<'a>(&'a BinaryArray, &'a str);

/// A column of lists: which of its rows each has.
pub(super) struct Lists<'a> {
    array: &'a ListArray,
    name: &'a str,
    pub(super) rows: Rows<'a>,
}

/// A column of lists of texts.
pub(super) struct TextLists<'a> {
    array: &'a ListArray,
    name: &'a str,
    texts: Texts<'a>,
}

fn lacking(name: &str) -> Error {
    Error::new(format!("the column {name} lacks a value"))
}

fn beyond(name: &str, value: i64) -> Error {
    Error::new(format!(
        "the column {name} has {value}, which it cannot have"
    ))
}

impl<'a> Rows<'a> {
    pub(super) fn of_batch(batch: &'a RecordBatch, schema: &'a Schema) -> Self {
        Self {
            names: schema.fields().iter().map(|f| f.name().as_str()).collect(),
            arrays: batch.columns(),
            nulls: None,
            len: batch.num_rows(),
        }
    }

    fn of_struct(array: &'a StructArray) -> Self {
        Self {
            names: array.fields().iter().map(|f| f.name().as_str()).collect(),
            arrays: array.columns(),
            nulls: array.nulls(),
            len: array.len(),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Whether a struct is in this row.
    pub(super) fn has(&self, row: usize) -> bool {
        row < self.len && self.nulls.is_none_or(|nulls| nulls.is_valid(row))
    }

    fn column(&self, name: &'static str, data_type: &DataType) -> Result<&'a ArrayRef, Error> {
        let place = self.names.iter().position(|known| *known == name);
        let array = place.and_then(|place| self.arrays.get(place));
        let array = array.ok_or_else(|| Error::new(format!("there is no column {name}")))?;
        let same = match (array.data_type(), data_type) {
            (DataType::Struct(_), DataType::Struct(_)) | (DataType::List(_), DataType::List(_)) => {
                true
            }
            (has, wanted) => has == wanted,
        };
        if same {
            Ok(array)
        } else {
            let has = array.data_type();
            Err(Error::new(format!("the column {name} is of type {has}")))
        }
    }

    pub(super) fn texts(&self, name: &'static str) -> Result<Texts<'a>, Error> {
        let array = self.column(name, &DataType::Utf8)?;
        Ok(Texts(array.as_string(), name))
    }

    pub(super) fn ints(&self, name: &'static str) -> Result<Ints<'a>, Error> {
        let array = self.column(name, &DataType::Int64)?;
        Ok(Ints(array.as_primitive::<Int64Type>(), name))
    }

    pub(super) fn flags(&self, name: &'static str) -> Result<Flags<'a>, Error> {
        let array = self.column(name, &DataType::Boolean)?;
        Ok(Flags(array.as_boolean(), name))
    }

    pub(super) fn hashes(&self, name: &'static str) -> Result<Hashes<'a>, Error> {
        let array = self.column(name, &DataType::Binary)?;
        Ok(Hashes(array.as_binary(), name))
    }

    pub(super) fn part(&self, name: &'static str) -> Result<Self, Error> {
        let array = self.column(name, &DataType::Struct(Fields::empty()))?;
        Ok(Rows::of_struct(array.as_struct()))
    }

    fn list(&self, name: &'static str) -> Result<&'a ListArray, Error> {
        let any = Arc::new(Field::new("element", DataType::Null, true));
        let array = self.column(name, &DataType::List(any))?;
        Ok(array.as_list())
    }

    pub(super) fn lists(&self, name: &'static str) -> Result<Lists<'a>, Error> {
        let array = self.list(name)?;
        let DataType::Struct(_) = array.values().data_type() else {
            return Err(Error::new(format!("the column {name} has no structs")));
        };
        let rows = Rows::of_struct(array.values().as_struct());
        Ok(Lists { array, name, rows })
    }

    pub(super) fn text_lists(&self, name: &'static str) -> Result<TextLists<'a>, Error> {
        let array = self.list(name)?;
        let DataType::Utf8 = array.values().data_type() else {
            return Err(Error::new(format!("the column {name} has no texts")));
        };
        let texts = Texts(array.values().as_string(), name);
        Ok(TextLists { array, name, texts })
    }
}

/// The value of a row; `None` beyond the end, and where there is none.
macro_rules! value {
    ($array:expr, $row:expr) => {
        ($row < $array.len() && $array.is_valid($row)).then(|| $array.value($row))
    };
}

impl<'a> Texts<'a> {
    pub(super) fn or_none(&self, row: usize) -> Option<&'a str> {
        value!(self.0, row)
    }

    pub(super) fn at(&self, row: usize) -> Result<&'a str, Error> {
        self.or_none(row).ok_or_else(|| lacking(self.1))
    }

    pub(super) fn word<W: super::words::Word>(&self, row: usize) -> Result<W, Error> {
        let word = self.at(row)?;
        W::of(word).ok_or_else(|| {
            let shown: String = word.escape_debug().take(SHOWN).collect();
            Error::new(format!(
                "the column {} has the unknown word {shown}",
                self.1
            ))
        })
    }
}

impl Ints<'_> {
    pub(super) fn or_none(&self, row: usize) -> Option<i64> {
        value!(self.0, row)
    }

    pub(super) fn at(&self, row: usize) -> Result<i64, Error> {
        self.or_none(row).ok_or_else(|| lacking(self.1))
    }

    /// A number of fewer bits.
    pub(super) fn small<N: TryFrom<i64>>(&self, row: usize) -> Result<N, Error> {
        let value = self.at(row)?;
        N::try_from(value).map_err(|_| beyond(self.1, value))
    }

    pub(super) fn small_or_none<N: TryFrom<i64>>(&self, row: usize) -> Result<Option<N>, Error> {
        let value = self.or_none(row);
        value
            .map(|value| N::try_from(value).map_err(|_| beyond(self.1, value)))
            .transpose()
    }

    /// A count, of bytes or of things: what is summed up stays a number of 64 bits.
    pub(super) fn count(&self, row: usize) -> Result<u64, Error> {
        let value = self.at(row)?;
        let count = u64::try_from(value).ok().filter(|&count| count <= MOST);
        count.ok_or_else(|| beyond(self.1, value))
    }

    pub(super) fn time(&self, row: usize) -> Result<Timestamp, Error> {
        self.at(row).map(Timestamp::from_nanos)
    }

    pub(super) fn time_or_none(&self, row: usize) -> Option<Timestamp> {
        self.or_none(row).map(Timestamp::from_nanos)
    }

    pub(super) fn span_or_none(&self, row: usize) -> Option<Span> {
        self.or_none(row).map(Span::from_nanos)
    }
}

impl Flags<'_> {
    pub(super) fn at(&self, row: usize) -> Result<bool, Error> {
        value!(self.0, row).ok_or_else(|| lacking(self.1))
    }
}

impl Hashes<'_> {
    pub(super) fn or_none(&self, row: usize) -> Result<Option<PayloadHash>, Error> {
        let Some(bytes) = value!(self.0, row) else {
            return Ok(None);
        };
        match bytes.try_into() {
            Ok(bytes) => Ok(Some(PayloadHash(u128::from_be_bytes(bytes)))),
            Err(_) => Err(beyond(
                self.1,
                i64::try_from(bytes.len()).unwrap_or(i64::MAX),
            )),
        }
    }

    pub(super) fn at(&self, row: usize) -> Result<PayloadHash, Error> {
        self.or_none(row)?.ok_or_else(|| lacking(self.1))
    }
}

/// Which rows of its elements the list of a row has.
fn range(array: &ListArray, name: &str, row: usize) -> Result<std::ops::Range<usize>, Error> {
    if row >= array.len() || array.is_null(row) {
        return Err(lacking(name));
    }
    let offsets = array.value_offsets();
    let end = |at: usize| offsets.get(at).and_then(|&end| usize::try_from(end).ok());
    match (end(row), end(row + 1)) {
        (Some(start), Some(end)) if start <= end => Ok(start..end),
        _ => Err(lacking(name)),
    }
}

impl<'a> Lists<'a> {
    /// Its elements once more, for what takes them.
    pub(super) fn part(&self) -> Result<Rows<'a>, Error> {
        match self.array.values().as_struct_opt() {
            Some(rows) => Ok(Rows::of_struct(rows)),
            None => Err(lacking(self.name)),
        }
    }

    pub(super) fn at(&self, row: usize) -> Result<std::ops::Range<usize>, Error> {
        range(self.array, self.name, row)
    }
}

impl TextLists<'_> {
    pub(super) fn at(&self, row: usize) -> Result<Vec<String>, Error> {
        let all = range(self.array, self.name, row)?;
        all.map(|at| self.texts.at(at).map(str::to_owned)).collect()
    }
}

/// No count of a capture is as large; sums of many stay within 64 bits.
const MOST: u64 = 1 << 48;

/// Letters shown of what is no word.
const SHOWN: usize = 32;
