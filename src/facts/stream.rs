//! Facts ⇄ a stream of Arrow (its IPC format): what engines shuffle, for an audit in parts (docs/scale.md).
//!
//! A row is a row of `runs`, `inputs` or `exchanges`, each a struct that is null in rows of the others; the events of
//! an exchange lie in its row. So any engine can deal rows to processes, each of which gets a stream again.

use super::{
    Facts, Kind,
    columns::Rows,
    join::Whole,
    read::{self, Content, EventColumns, Table},
    write::{self, EventRow, Row},
};
use crate::{
    error::Error,
    model::{exchange::Exchange, flow::Endpoint, id::SessionId},
};
use arrow_array::{
    ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, StructArray, new_null_array,
};
use arrow_buffer::OffsetBuffer;
use arrow_ipc::{
    reader::StreamReader,
    writer::{IpcWriteOptions, StreamWriter},
};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// Exchanges of a batch: with their events, a few MB.
const BATCH_ROWS: usize = 1 << 10;

/// Bytes of a batch's text, from which on it is full.
const BATCH_WEIGHT: usize = 16 << 20;

/// The structs of a row, and the tables whose rows they are.
const PARTS: [(&str, Kind); 3] = [
    ("run", Kind::Runs),
    ("input", Kind::Inputs),
    ("exchange", Kind::Exchanges),
];

/// What an exchange is put together with others by: exchanges of one key are of one component (`learn`), and those of
/// several keys may be. The server, `HOST:PORT`; where none is known, the session, or else the client.
#[must_use]
pub fn key(exchange: &Exchange, session: Option<&SessionId>) -> String {
    match (&exchange.server, session) {
        (Some(server), _) => server.to_string(),
        (None, Some(session)) => format!("session {session}"),
        (None, None) => {
            let client = exchange.client.as_ref();
            format!("client {}", client.map_or_else(String::new, Endpoint::host))
        }
    }
}

/// Writes facts as one stream.
///
/// # Errors
///
/// Those of the writer, and when facts are beyond what the format holds.
pub fn write_stream(facts: &Facts, out: &mut dyn Write) -> io::Result<()> {
    pour(facts, out).map_err(|error| match error {
        ArrowError::IoError(_, error) => error,
        error => io::Error::other(error),
    })
}

fn pour(facts: &Facts, out: &mut dyn Write) -> Result<(), ArrowError> {
    let extract = write::name(facts);
    let shape = Shape::new()?;
    let mut writer =
        StreamWriter::try_new_with_options(out, &shape.schema, IpcWriteOptions::default())?;
    writer.write(&shape.batch(Kind::Runs, write::runs(&extract, &[facts])?)?)?;
    writer.write(&shape.batch(Kind::Inputs, write::inputs(&extract, facts)?)?)?;
    let rows: Vec<Row<'_>> = facts
        .exchanges
        .iter()
        .enumerate()
        .map(|(number, exchange)| Row {
            number,
            exchange,
            session: facts.sessions.get(number).and_then(Option::as_ref),
        })
        .collect();
    let weight = |row: &Row<'_>| {
        let text = row.exchange.text.len() + row.exchange.events.len() * EVENT;
        write::weight(row.exchange) + text
    };
    for rows in write::chunks(&rows, BATCH_ROWS, BATCH_WEIGHT, weight) {
        writer.write(&shape.exchanges(&extract, rows)?)?;
    }
    writer.finish()
}

/// Bytes of an event's columns that are no text.
const EVENT: usize = 128;

/// What a row looks like.
struct Shape {
    schema: SchemaRef,
    events: Fields,
}

/// Columns of events that those of their exchange say as well.
const OF_EXCHANGE: [&str; 2] = ["extract", "exchange"];

impl Shape {
    fn new() -> Result<Self, ArrowError> {
        let none = Facts::default();
        let mut fields = vec![
            Field::new("table", DataType::Utf8, false),
            Field::new("part", DataType::Int64, true),
            Field::new("key", DataType::Utf8, true),
        ];
        for (name, kind) in PARTS {
            let batch = match kind {
                Kind::Runs => write::runs("", &[])?,
                Kind::Inputs => write::inputs("", &none)?,
                Kind::Exchanges => write::exchanges("", &[])?,
                Kind::Events => continue,
            };
            let of = batch.schema().fields().clone();
            fields.push(Field::new(name, DataType::Struct(of), true));
        }
        let events = own_events(&write::events("", &[])?)?;
        let events = events.fields().clone();
        let element = Field::new("element", DataType::Struct(events.clone()), false);
        fields.push(Field::new(
            "events",
            DataType::List(Arc::new(element)),
            false,
        ));
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
            events,
        })
    }

    /// Rows of a table that is not split.
    fn batch(&self, kind: Kind, rows: RecordBatch) -> Result<RecordBatch, ArrowError> {
        let len = rows.num_rows();
        let no_events = StructArray::new_null(self.events.clone(), 0);
        self.rows(
            kind,
            rows,
            [
                Arc::new(Int64Array::new_null(len)),
                Arc::new(StringArray::new_null(len)),
            ],
            (std::iter::repeat_n(0, len), no_events),
        )
    }

    fn exchanges(&self, extract: &str, rows: &[Row<'_>]) -> Result<RecordBatch, ArrowError> {
        let parts = rows.iter().map(|row| {
            let part = write::slot(row.session, row.exchange);
            i64::from(part)
        });
        let keys = rows.iter().map(|row| key(row.exchange, row.session));
        let events: Vec<EventRow<'_>> = rows
            .iter()
            .flat_map(|row| EventRow::all(row.number, row.exchange))
            .collect();
        let lengths = rows.iter().map(|row| row.exchange.events.len());
        self.rows(
            Kind::Exchanges,
            write::exchanges(extract, rows)?,
            [
                Arc::new(Int64Array::from_iter_values(parts)),
                Arc::new(StringArray::from_iter_values(keys)),
            ],
            (lengths, own_events(&write::events("", &events)?)?),
        )
    }

    fn rows(
        &self,
        kind: Kind,
        own: RecordBatch,
        [parts, keys]: [ArrayRef; 2],
        (lengths, events): (impl Iterator<Item = usize>, StructArray),
    ) -> Result<RecordBatch, ArrowError> {
        let len = own.num_rows();
        let names = std::iter::repeat_n(kind.name(), len);
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(StringArray::from_iter_values(names)), parts, keys];
        let own: ArrayRef = Arc::new(StructArray::from(own));
        for (name, of) in PARTS {
            columns.push(if of == kind {
                Arc::clone(&own)
            } else {
                let field = self.schema.field_with_name(name)?;
                new_null_array(field.data_type(), len)
            });
        }
        let element = Field::new("element", DataType::Struct(self.events.clone()), false);
        columns.push(Arc::new(ListArray::try_new(
            Arc::new(element),
            OffsetBuffer::from_lengths(lengths),
            Arc::new(events),
            None,
        )?));
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

/// Events without the columns of their exchange.
fn own_events(batch: &RecordBatch) -> Result<StructArray, ArrowError> {
    let schema = batch.schema();
    let own = (0..).zip(schema.fields());
    let own: Vec<usize> = own
        .filter(|(_, field)| !OF_EXCHANGE.contains(&field.name().as_str()))
        .map(|(index, _)| index)
        .collect();
    Ok(StructArray::from(batch.project(&own)?))
}

/// Reads a stream of rows in any order: those of some exchanges, with all of `runs` and `inputs`. The facts of each
/// extract, as far as they are there.
///
/// # Errors
///
/// When it is no such stream, is damaged or cut, is of facts with other settings, or lacks rows of `runs` or `inputs`.
pub fn read_stream(input: impl Read, settings: &str) -> Result<Vec<Facts>, Error> {
    // What the decoder of Arrow does not expect may make it panic.
    let read = catch_unwind(AssertUnwindSafe(|| tables(input)));
    let tables = read.unwrap_or_else(|_| Err(Error::new("the rows make no sense")))?;
    let joined = super::join::join((0..).zip(tables), settings, Whole::Perhaps);
    match joined.wrong.into_iter().next() {
        Some((_, why)) => Err(Error::new(why.to_string())),
        None => Ok(joined.facts),
    }
}

fn tables(input: impl Read) -> Result<[Table; 4], Error> {
    let wrong = |error: ArrowError| Error::new(format!("no stream of facts: {error}"));
    let reader = StreamReader::try_new(input, None).map_err(wrong)?;
    let mut names = read::Names::default();
    let (mut runs, mut inputs, mut exchanges) = (Vec::new(), Vec::new(), Vec::new());
    let mut events = BTreeMap::new();
    for batch in reader {
        let batch = batch.map_err(wrong)?;
        let schema = batch.schema();
        let rows = Rows::of_batch(&batch, &schema);
        read::runs(&rows.part("run")?, &mut runs)?;
        read::inputs(&rows.part("input")?, &mut inputs)?;
        let part = rows.part("exchange")?;
        let first = exchanges.len();
        read::exchanges(&part, &mut exchanges, &mut names)?;
        let lists = rows.lists("events")?;
        let of_list = EventColumns::of(&lists.rows)?;
        let with = (0..part.len()).filter(|&row| part.has(row));
        for (row, exchange) in with.zip(exchanges.iter().skip(first)) {
            let key = (Arc::clone(&exchange.extract), exchange.number);
            let all = lists.at(row)?;
            if !all.is_empty() {
                let own = events.entry(key).or_default();
                for at in all {
                    of_list.add(at, own)?;
                }
            }
        }
    }
    Ok([
        Table(Content::Runs(runs)),
        Table(Content::Inputs(inputs)),
        Table(Content::Exchanges(exchanges)),
        Table(Content::Events(events)),
    ])
}
