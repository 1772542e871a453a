//! What was judged as a stream of Arrow (its IPC format), for engines (docs/scale.md): a row is a row of one of the
//! tables, whose columns are a struct that is null in rows of the others.
//!
//! Counts are 64-bit integers, lengths of time and shares are doubles, and all else is text as in the CSV reports, but
//! as it was: neither escaped nor guarded against spreadsheets.

use super::{
    style::Style,
    table::{Column, Findings, Incidents, Resumes, Servers, Sessions, Shares, Table, Timers},
    value::{Kind, Value},
};
use crate::model::analysis::Analysis;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, StructArray,
    new_null_array,
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};
use std::{
    io::{self, Write},
    sync::Arc,
};

/// Rows of a batch.
const ROWS: usize = 1 << 12;

/// A table: its name, its columns, and its rows in batches.
struct Shape {
    name: &'static str,
    fields: Fields,
    batches: fn(&Analysis, &Style, &mut Taker<'_>) -> Result<(), ArrowError>,
}

/// Takes the batches of a table.
type Taker<'t> = dyn FnMut(StructArray) -> Result<(), ArrowError> + 't;

fn shape<T: Table>() -> Shape {
    let field = |column: &Column<T>| {
        let data_type = match column.kind {
            Kind::Bool => DataType::Boolean,
            Kind::Number => DataType::Int64,
            Kind::Millis | Kind::Decimal => DataType::Float64,
            _ => DataType::Utf8,
        };
        Field::new(column.name, data_type, true)
    };
    Shape {
        name: T::NAME,
        fields: T::COLUMNS.iter().map(field).collect(),
        batches: batches::<T>,
    }
}

/// The tables that parts of a run can be judged for, in order.
fn shapes() -> [Shape; 7] {
    [
        shape::<Resumes>(),
        shape::<Findings>(),
        shape::<Incidents>(),
        shape::<Timers>(),
        shape::<Shares>(),
        shape::<Servers>(),
        shape::<Sessions>(),
    ]
}

/// Writes the stream.
///
/// # Errors
///
/// Those of the writer.
pub(super) fn write(analysis: &Analysis, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    pour(analysis, style, out).map_err(|error| match error {
        ArrowError::IoError(_, error) => error,
        error => io::Error::other(error),
    })
}

fn pour(analysis: &Analysis, style: &Style, out: &mut dyn Write) -> Result<(), ArrowError> {
    let shapes = shapes();
    let mut fields = vec![Field::new("table", DataType::Utf8, false)];
    for shape in &shapes {
        let data_type = DataType::Struct(shape.fields.clone());
        fields.push(Field::new(shape.name, data_type, true));
    }
    let schema = Arc::new(Schema::new(fields));
    let mut writer = StreamWriter::try_new(out, &schema)?;
    for shape in &shapes {
        (shape.batches)(analysis, style, &mut |rows| {
            let rows: ArrayRef = Arc::new(rows);
            let names = std::iter::repeat_n(shape.name, rows.len());
            let mut columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from_iter_values(names))];
            for other in &shapes {
                columns.push(if other.name == shape.name {
                    Arc::clone(&rows)
                } else {
                    new_null_array(&DataType::Struct(other.fields.clone()), rows.len())
                });
            }
            writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns)?)
        })?;
    }
    writer.finish()
}

fn batches<T: Table>(
    analysis: &Analysis,
    style: &Style,
    take: &mut Taker<'_>,
) -> Result<(), ArrowError> {
    let fields = shape::<T>().fields;
    let rows: Vec<T::Row<'_>> = T::rows(analysis).collect();
    for rows in rows.chunks(ROWS) {
        let columns = T::COLUMNS.iter().map(|column| {
            let values = rows.iter().map(|&row| (column.value)(analysis, row));
            cells(column.kind, style, values)
        });
        take(StructArray::try_new(
            fields.clone(),
            columns.collect(),
            None,
        )?)?;
    }
    Ok(())
}

fn cells<'a>(kind: Kind, style: &Style, values: impl Iterator<Item = Value<'a>>) -> ArrayRef {
    let text = |value: &Value<'_>| {
        let known = value.kind().is_some();
        known.then(|| {
            let mut text = String::new();
            value.write_raw(style, &mut text);
            text
        })
    };
    match kind {
        Kind::Bool => Arc::new(BooleanArray::from_iter(values.map(|value| match value {
            Value::Bool(yes) => Some(yes),
            _ => None,
        }))),
        Kind::Number => Arc::new(Int64Array::from_iter(values.map(|value| match value {
            Value::Number(number) => Some(i64::try_from(number).unwrap_or(i64::MAX)),
            _ => None,
        }))),
        // The digits of the tables.
        Kind::Millis | Kind::Decimal => Arc::new(Float64Array::from_iter(
            values.map(|value| text(&value)?.parse::<f64>().ok()),
        )),
        _ => Arc::new(StringArray::from_iter(values.map(|value| text(&value)))),
    }
}
