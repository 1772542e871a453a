//! Facts → tables. What the columns mean is in docs/facts.md.

use super::{
    Facts, Kind, PARTS, TABLE_KEY, VERSION, VERSION_KEY,
    columns::Columns,
    seal::{OPEN, SEAL_KEY, seal},
    words::Word,
};
use crate::{
    anomaly::{Anomalies, Example, Tally},
    error::Error,
    model::{
        analysis::{ClockOffset, Input, KeyLog, Opaque, TlsSeen, UnreadTls},
        event::{BatchedAnswer, Event, Text},
        exchange::{BackendName, End, Exchange, Greeting, Hole, Request, Response, Source, Teller},
        flow::{Blank, Endpoint},
        har::HarFacts,
        id::SessionId,
        message::Message,
        place::{InputId, Place},
        prose::{Prose, Secret},
        time::Timestamp,
    },
};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Fields, Schema, SchemaRef};
use parquet::{
    arrow::{ArrowWriter, arrow_writer::ArrowWriterOptions},
    basic::{Compression, Encoding, ZstdLevel},
    errors::ParquetError,
    file::{
        metadata::KeyValue,
        properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder},
    },
    schema::types::ColumnPath,
};
use rayon::prelude::*;
use std::{fmt::Write as _, path::PathBuf, sync::Arc};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// A file of a table.
#[derive(Debug)]
pub struct File {
    /// Its name in the folder of the facts.
    pub path: PathBuf,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// Makes the files of an extract. Equal facts make equal files.
///
/// # Errors
///
/// When they are beyond what the format holds.
pub fn write(facts: &Facts) -> Result<Vec<File>, Error> {
    let extract = name(facts);
    let mut parts: Vec<Vec<usize>> = vec![Vec::new(); usize::from(PARTS)];
    for (number, exchange) in facts.exchanges.iter().enumerate() {
        let session = facts.sessions.get(number).and_then(Option::as_ref);
        let part = usize::from(partition(session, exchange));
        if let Some(part) = parts.get_mut(part) {
            part.push(number);
        }
    }
    let mut jobs: Vec<(Kind, Option<usize>)> = vec![(Kind::Runs, None), (Kind::Inputs, None)];
    for (part, numbers) in parts.iter().enumerate() {
        if !numbers.is_empty() {
            jobs.push((Kind::Exchanges, Some(part)));
        }
        let event = |&number: &usize| {
            let exchange = facts.exchanges.get(number);
            exchange.is_some_and(|exchange| !exchange.events.is_empty())
        };
        if numbers.iter().any(event) {
            jobs.push((Kind::Events, Some(part)));
        }
    }
    jobs.into_par_iter()
        .map(|(kind, part)| {
            let path = PathBuf::from(match part {
                Some(part) => format!("{}-{part:02}-{extract}.parquet", kind.name()),
                None => format!("{}-{extract}.parquet", kind.name()),
            });
            let numbers = part.and_then(|part| parts.get(part));
            let bytes = table(kind, &extract, facts, numbers.map_or(&[], Vec::as_slice));
            let bytes = bytes
                .map_err(|error| Error::new(format!("cannot make {}: {error}", path.display())))?;
            Ok(File { path, bytes })
        })
        .collect()
}

/// The partition of an exchange in files.
#[must_use]
pub fn partition(session: Option<&SessionId>, exchange: &Exchange) -> u8 {
    u8::try_from(slot(session, exchange) % u16::from(PARTS)).unwrap_or_default()
}

/// The partition of an exchange for engines, of [`SLOTS`]: by its session, else by its ends.
pub(super) fn slot(session: Option<&SessionId>, exchange: &Exchange) -> u16 {
    let hash = match session {
        Some(session) => xxh3_64(session.as_bytes()),
        None => {
            let host =
                |end: &Option<Endpoint>| end.as_ref().map_or_else(String::new, Endpoint::host);
            let ends = format!("{} {}", host(&exchange.client), host(&exchange.server));
            xxh3_64(ends.as_bytes())
        }
    };
    u16::try_from(hash % u64::from(SLOTS)).unwrap_or_default()
}

/// A multiple of [`PARTS`]: what is one partition for engines is in one partition of files.
const SLOTS: u16 = 4096;

/// What an extract is called by: equal when what was read is equal.
pub(super) fn name(facts: &Facts) -> String {
    format!("{:032x}", digest(facts))
}

fn digest(facts: &Facts) -> u128 {
    struct Hashed(Xxh3);
    impl std::fmt::Write for Hashed {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.update(text.as_bytes());
            Ok(())
        }
    }
    let mut hashed = Hashed(Xxh3::new());
    // Writing to a hash cannot fail.
    let _ = write!(hashed, "{VERSION} {:?} {:?}", facts.settings, facts.window);
    for input in &facts.inputs {
        let (name, first, last) = (&input.name, input.first_time, input.last_time);
        let counts = (input.packets, input.bytes, &input.tls);
        let _ = write!(hashed, "{name:?} {first:?} {last:?} {counts:?}");
        let _ = write!(hashed, "{:?} {:?}", input.damaged, input.unreadable);
    }
    let _ = write!(hashed, "{:?} {:?}", facts.key_logs, facts.opaque);
    for (exchange, session) in facts.exchanges.iter().zip(&facts.sessions) {
        let session = session.as_deref().unwrap_or_default();
        hashed.0.update(session.as_bytes());
        for event in &exchange.events {
            hashed.0.update(&event.hash.0.to_le_bytes());
        }
        for part in [
            exchange.time().nanos(),
            exchange.end.time.nanos(),
            i64::from(exchange.place.input.0),
            i64::from(exchange.place.frame),
            exchange.events.len().try_into().unwrap_or(i64::MAX),
        ] {
            hashed.0.update(&part.to_le_bytes());
        }
    }
    hashed.0.digest128()
}

/// Rows of a batch. A row may have many rows below it, so weight counts as well.
const BATCH_ROWS: usize = 1 << 14;

/// Bytes of text of a batch: offsets have 31 bits.
const BATCH_WEIGHT: usize = 64 << 20;

/// Rows of a row group: statistics tell which of them a query needs.
const GROUP_ROWS: usize = 1 << 17;

fn table(
    kind: Kind,
    extract: &str,
    facts: &Facts,
    numbers: &[usize],
) -> parquet::errors::Result<Vec<u8>> {
    match kind {
        Kind::Runs => {
            let batch = runs(extract, &[facts])?;
            store(kind, &batch.schema(), [Ok(batch)])
        }
        Kind::Inputs => {
            let batch = inputs(extract, facts)?;
            store(kind, &batch.schema(), [Ok(batch)])
        }
        Kind::Exchanges => {
            let mut rows: Vec<Row<'_>> = numbers
                .iter()
                .filter_map(|&number| {
                    Some(Row {
                        number,
                        exchange: facts.exchanges.get(number)?,
                        session: facts.sessions.get(number).and_then(Option::as_ref),
                    })
                })
                .collect();
            // By time, so that the statistics of row groups tell something.
            rows.sort_by_key(|row| (row.exchange.time(), row.number));
            let schema = exchanges(extract, &[])?.schema();
            let batches = chunks(&rows, BATCH_ROWS, BATCH_WEIGHT, |row| weight(row.exchange));
            store(kind, &schema, batches.map(|rows| exchanges(extract, rows)))
        }
        Kind::Events => {
            let mut rows: Vec<(usize, &Exchange)> = numbers
                .iter()
                .filter_map(|&number| Some((number, facts.exchanges.get(number)?)))
                .collect();
            rows.sort_by_key(|(number, exchange)| (exchange.time(), *number));
            let rows: Vec<EventRow<'_>> = rows
                .iter()
                .flat_map(|&(number, exchange)| EventRow::all(number, exchange))
                .collect();
            let schema = events(extract, &[])?.schema();
            let batches = chunks(&rows, BATCH_ROWS, BATCH_WEIGHT, EventRow::weight);
            store(kind, &schema, batches.map(|rows| events(extract, rows)))
        }
    }
}

/// Rows in batches of so many at most, and of so much weight that the last row takes it no further than that.
pub(super) fn chunks<T>(
    rows: &[T],
    most: usize,
    heavy: usize,
    weight: impl Fn(&T) -> usize,
) -> impl Iterator<Item = &[T]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let mut sum = 0;
        let many = rest
            .iter()
            .take(most)
            .take_while(|row| {
                let fits = sum < heavy;
                sum += weight(row);
                fits
            })
            .count();
        let (batch, after) = rest.split_at_checked(many)?;
        rest = after;
        (many > 0).then_some(batch)
    })
}

fn store(
    kind: Kind,
    schema: &SchemaRef,
    batches: impl IntoIterator<Item = Result<RecordBatch, ArrowError>>,
) -> parquet::errors::Result<Vec<u8>> {
    let properties = properties(kind, schema).build();
    // Arrow's schema would say what Parquet's does, and there are many small files.
    let options = ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), schema.clone(), options)?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    let mut bytes = writer.into_inner()?;
    if !seal(&mut bytes) {
        return Err(ParquetError::General(
            "the file has no place for a seal".to_owned(),
        ));
    }
    Ok(bytes)
}

fn properties(kind: Kind, schema: &Schema) -> WriterPropertiesBuilder {
    let key = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let column =
        |names: &[&str]| ColumnPath::new(names.iter().map(|&name| name.to_owned()).collect());
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(
            ZstdLevel::try_new(LEVEL).unwrap_or_default(),
        ))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // Where pages are is of use to who looks for single rows.
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_created_by(concat!("forkscope ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![
            key(VERSION_KEY, VERSION.to_string()),
            key(TABLE_KEY, kind.name().to_owned()),
            key(SEAL_KEY, OPEN.to_owned()),
        ]));
    // Numbers that grow, and hashes, which have nothing in common.
    let growing: &[&[&str]] = match kind {
        Kind::Exchanges => &[
            &["exchange"],
            &["time"],
            &["frame"],
            &["request", "time"],
            &["request", "end_time"],
            &["response", "time"],
            &["response", "frame"],
            &["end", "time"],
            &["end", "frame"],
            &["end", "last_acknowledged"],
        ],
        Kind::Events => &[&["exchange"], &["event"], &["time"], &["frame"]],
        Kind::Runs | Kind::Inputs => &[],
    };
    for names in growing {
        properties = properties
            .set_column_dictionary_enabled(column(names), false)
            .set_column_encoding(column(names), Encoding::DELTA_BINARY_PACKED);
    }
    // One row may have a million elements of a list: what they take is to be seen from the length of their page.
    let mut lists = Vec::new();
    list_leaves(schema.fields(), &mut Vec::new(), false, &mut lists);
    for leaf in lists {
        properties = properties.set_column_dictionary_enabled(leaf, false);
    }
    if kind == Kind::Events {
        properties = properties
            .set_column_dictionary_enabled(column(&["hash"]), false)
            .set_column_encoding(column(&["hash"]), Encoding::DELTA_LENGTH_BYTE_ARRAY)
            .set_column_dictionary_enabled(column(&["id"]), false)
            .set_column_encoding(column(&["id"]), Encoding::DELTA_BYTE_ARRAY);
    }
    properties
}

/// The columns below lists, as Parquet calls them.
fn list_leaves(fields: &Fields, path: &mut Vec<String>, in_list: bool, out: &mut Vec<ColumnPath>) {
    for field in fields {
        path.push(field.name().clone());
        match field.data_type() {
            DataType::Struct(below) => list_leaves(below, path, in_list, out),
            DataType::List(element) => {
                path.push("list".to_owned());
                list_leaves(&Fields::from(vec![Arc::clone(element)]), path, true, out);
                path.pop();
            }
            _ if in_list => out.push(ColumnPath::new(path.clone())),
            _ => {}
        }
        path.pop();
    }
}

/// Zstandard's own default.
const LEVEL: i32 = 3;

/// Bytes of text that a row of an exchange may have many of.
pub(super) fn weight(exchange: &Exchange) -> usize {
    let requests = exchange
        .request
        .iter()
        .flat_map(|request| &request.messages);
    let responses = exchange
        .response
        .iter()
        .flat_map(|response| &response.messages);
    let of = |text: Option<&str>| text.map_or(0, str::len);
    let messages = requests.chain(responses).map(|message| {
        let texts = [
            message.id.as_deref(),
            message.method.as_deref(),
            message.progress_token.as_deref(),
            message.cancels(),
            message.protocol_version(),
            message.party(),
            message.party_version(),
        ];
        MESSAGE + texts.into_iter().map(of).sum::<usize>()
    });
    let holes = exchange.holes.len() + exchange.more_places.len();
    messages.sum::<usize>() + holes * MESSAGE
}

/// What a message weighs beside its text.
const MESSAGE: usize = 64;

/// An exchange with its number.
pub(super) struct Row<'a> {
    pub(super) number: usize,
    pub(super) exchange: &'a Exchange,
    pub(super) session: Option<&'a SessionId>,
}

/// An event with the number of its exchange.
pub(super) struct EventRow<'a> {
    number: usize,
    index: u32,
    exchange: &'a Exchange,
}

impl<'a> EventRow<'a> {
    /// Those of an exchange, given with its number.
    pub(super) fn all(number: usize, exchange: &'a Exchange) -> impl Iterator<Item = Self> {
        let indices = (0..).take(exchange.events.len());
        indices.map(move |index| Self {
            number,
            index,
            exchange,
        })
    }

    fn event(&self) -> Event {
        let event = self.exchange.events.get(self.index as usize);
        event.unwrap_or_default()
    }

    fn text(&self, text: Option<Text>) -> Option<&'a str> {
        text.map(|text| self.exchange.text(text))
    }

    /// What it answers within a batch.
    fn answers(&self) -> &'a [BatchedAnswer] {
        let all = self.exchange.batched.as_slice();
        let start = all.partition_point(|answer| answer.event < self.index);
        let end = all.partition_point(|answer| answer.event <= self.index);
        all.get(start..end).unwrap_or_default()
    }

    fn weight(&self) -> usize {
        let event = self.event();
        let texts = [
            event.id,
            event.event_type,
            event.rpc_id,
            event.method,
            event.progress_token,
        ];
        let texts = texts.into_iter().flatten();
        let answers = self.answers().iter();
        texts
            .chain(answers.map(|answer| answer.rpc_id))
            .map(|text| text.len as usize)
            .sum()
    }
}

fn int(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn place(columns: &mut Columns, places: impl Iterator<Item = Place> + Clone) {
    columns.ints(
        "input",
        places.clone().map(|place| i64::from(place.input.0)),
    );
    columns.ints("frame", places.clone().map(|place| i64::from(place.frame)));
    columns.ints_or_none(
        "tcp_stream",
        places.map(|place| place.tcp_stream.map(i64::from)),
    );
}

/// Ends of connections.
fn ends<'a>(all: impl Iterator<Item = Option<&'a Endpoint>> + Clone) -> Columns {
    let mut columns = Columns::default();
    let hosts: Vec<String> = all
        .clone()
        .map(|end| end.map_or_else(String::new, Endpoint::host))
        .collect();
    columns.texts("host", hosts.iter().map(String::as_str));
    columns.ints(
        "port",
        all.clone()
            .map(|end| end.map_or(0, |end| i64::from(end.port()))),
    );
    columns.flags(
        "named",
        all.map(|end| matches!(end, Some(Endpoint::Name(..)))),
    );
    columns
}

fn end_or_none<'a>(
    columns: &mut Columns,
    name: &str,
    all: impl Iterator<Item = Option<&'a Endpoint>> + Clone,
) -> Result<(), ArrowError> {
    columns.part_or_none(name, all.clone().map(|end| end.is_some()), ends(all))
}

pub(super) fn exchanges(extract: &str, rows: &[Row<'_>]) -> Result<RecordBatch, ArrowError> {
    let all = || rows.iter().map(|row| row.exchange);
    let mut columns = Columns::default();
    columns.texts("extract", rows.iter().map(|_| extract));
    columns.ints("exchange", rows.iter().map(|row| int(row.number)));
    columns.texts_or_none(
        "session",
        rows.iter().map(|row| row.session.map(|id| &**id)),
    );
    columns.times("time", all().map(Exchange::time));
    end_or_none(&mut columns, "client", all().map(|e| e.client.as_ref()))?;
    end_or_none(&mut columns, "server", all().map(|e| e.server.as_ref()))?;
    columns.ints_or_none(
        "connection",
        all().map(|e| e.connection.map(|id| i64::from(id.0))),
    );
    place(&mut columns, all().map(|e| e.place));
    let mut more = Columns::default();
    place(&mut more, all().flat_map(|e| e.more_places.iter().copied()));
    columns.lists("more_places", all().map(|e| e.more_places.len()), more)?;
    columns.texts("version", all().map(|e| e.version.word()));
    let har = |exchange: &Exchange| match exchange.source {
        Source::Packets => None,
        Source::Har {
            bodies,
            event_times,
        } => Some((bodies, event_times)),
    };
    let mut har_columns = Columns::default();
    har_columns.flags("bodies", all().map(|e| har(e).is_some_and(|har| har.0)));
    har_columns.flags(
        "event_times",
        all().map(|e| har(e).is_some_and(|har| har.1)),
    );
    columns.part_or_none("har", all().map(|e| har(e).is_some()), har_columns)?;
    let sequence = |side: usize| {
        move |exchange: &Exchange| {
            exchange
                .sequences
                .get(side)
                .copied()
                .flatten()
                .map(i64::from)
        }
    };
    columns.ints_or_none("request_sequence", all().map(sequence(0)));
    columns.ints_or_none("response_sequence", all().map(sequence(1)));
    let requests: Vec<Option<&Request>> = all().map(|e| e.request.as_ref()).collect();
    let has = requests.iter().map(Option::is_some);
    columns.part_or_none("request", has, self::requests(&requests)?)?;
    let responses: Vec<Option<&Response>> = all().map(|e| e.response.as_ref()).collect();
    let has = responses.iter().map(Option::is_some);
    columns.part_or_none("response", has, self::responses(&responses)?)?;
    let ends = all().map(|exchange| {
        let End {
            time,
            place,
            cause,
            last_acknowledged,
        } = exchange.end;
        (time, place, cause, last_acknowledged)
    });
    let mut end = Columns::default();
    end.times("time", ends.clone().map(|end| end.0));
    place(&mut end, ends.clone().map(|end| end.1));
    end.texts("cause", ends.clone().map(|end| end.2.word()));
    end.times_or_none("last_acknowledged", ends.map(|end| end.3));
    columns.part("end", end)?;
    columns.ints("events", all().map(|e| int(e.events.len())));
    let holes = || {
        all().flat_map(|exchange| &exchange.holes).map(|hole| {
            let Hole {
                part,
                bytes,
                time,
                after_events,
            } = *hole;
            (part, bytes, time, after_events)
        })
    };
    let mut hole = Columns::default();
    hole.texts("part", holes().map(|hole| hole.0.word()));
    hole.counts("bytes", holes().map(|hole| hole.1));
    hole.times("time", holes().map(|hole| hole.2));
    hole.ints("after_events", holes().map(|hole| i64::from(hole.3)));
    columns.lists("holes", all().map(|e| e.holes.len()), hole)?;
    columns.ints(
        "partial_event_bytes",
        all().map(|e| i64::from(e.partial_event_bytes)),
    );
    columns.texts_or_none("endpoint", all().map(|e| e.endpoint.as_deref()));
    columns.into_batch()
}

fn requests(all: &[Option<&Request>]) -> Result<Columns, ArrowError> {
    let none = Request::default();
    let each = || all.iter().map(|request| request.unwrap_or(&none));
    let mut columns = Columns::default();
    columns.times("time", each().map(|r| r.time));
    columns.times("end_time", each().map(|r| r.end_time));
    columns.texts("method", each().map(|r| &*r.method));
    columns.texts("target", each().map(|r| &*r.target));
    columns.texts("host", each().map(|r| &*r.host));
    columns.texts("scheme", each().map(|r| r.scheme.word()));
    columns.texts_or_none("session_id", each().map(|r| r.session_id.as_deref()));
    columns.texts_or_none("last_event_id", each().map(|r| r.last_event_id.as_deref()));
    columns.texts_or_none(
        "protocol_version",
        each().map(|r| r.protocol_version.as_deref()),
    );
    columns.texts_or_none("user_agent", each().map(|r| r.user_agent.as_deref()));
    messages(&mut columns, each().map(|r| r.messages.as_slice()))?;
    columns.hashes("body", each().map(|r| r.body));
    columns.counts("body_bytes", each().map(|r| r.body_bytes));
    columns.flags("complete", each().map(|r| r.complete));
    columns.flags("received", each().map(|r| r.received));
    columns.hashes_or_none("trace", each().map(|r| r.trace));
    columns.flags("forwarded", each().map(|r| r.forwarded));
    columns.hashes_or_none("on_behalf", each().map(|r| r.on_behalf));
    Ok(columns)
}

fn responses(all: &[Option<&Response>]) -> Result<Columns, ArrowError> {
    let none = Response::default();
    let each = || all.iter().map(|response| response.unwrap_or(&none));
    let mut columns = Columns::default();
    columns.times("time", each().map(|r| r.time));
    place(&mut columns, each().map(|r| r.place));
    columns.ints("status", each().map(|r| i64::from(r.status)));
    columns.texts_or_none("content_type", each().map(|r| r.content_type.as_deref()));
    columns.texts("media", each().map(|r| r.media.word()));
    columns.texts_or_none("session_id", each().map(|r| r.session_id.as_deref()));
    columns.texts_or_none("incarnation", each().map(|r| r.incarnation.as_deref()));
    let names = || {
        each().flat_map(|r| &r.named).map(|named| {
            let BackendName { teller, name } = named;
            match *teller {
                Teller::Asked(number) => ("asked", number, name),
                Teller::Usual(number) => ("usual", number, name),
            }
        })
    };
    let mut named = Columns::default();
    named.texts("teller", names().map(|name| name.0));
    named.ints("number", names().map(|name| i64::from(name.1)));
    named.texts("name", names().map(|name| &**name.2));
    columns.lists("named", each().map(|r| r.named.len()), named)?;
    columns.texts_or_none("backend", each().map(|r| r.backend.as_deref()));
    messages(&mut columns, each().map(|r| r.messages.as_slice()))?;
    let greeting = |of: fn(&Greeting) -> Option<&str>| {
        each().map(move |response| response.greeting.as_deref().and_then(of))
    };
    columns.texts_or_none(
        "protocol_version",
        greeting(|greeting| Some(&*greeting.protocol_version)),
    );
    columns.texts_or_none(
        "server_name",
        greeting(|greeting| greeting.server_name.as_deref()),
    );
    columns.texts_or_none(
        "server_version",
        greeting(|greeting| greeting.server_version.as_deref()),
    );
    columns.texts("subject", each().map(|r| r.subject.word()));
    columns.counts("body_bytes", each().map(|r| r.body_bytes));
    columns.flags("complete", each().map(|r| r.complete));
    columns.flags("undecodable", each().map(|r| r.undecodable));
    Ok(columns)
}

/// The messages of each row, as a list.
fn messages<'a>(
    row: &mut Columns,
    each: impl Iterator<Item = &'a [Message]> + Clone,
) -> Result<(), ArrowError> {
    let all = each.clone().flatten();
    let mut columns = Columns::default();
    columns.texts("kind", all.clone().map(|m| m.kind.word()));
    columns.texts_or_none("id", all.clone().map(|m| m.id.as_deref()));
    columns.texts_or_none("method", all.clone().map(|m| m.method.as_deref()));
    columns.texts_or_none(
        "progress_token",
        all.clone().map(|m| m.progress_token.as_deref()),
    );
    columns.texts_or_none("cancels", all.clone().map(|m| m.cancels()));
    columns.hashes("hash", all.clone().map(|m| m.hash));
    columns.hashes("call", all.clone().map(|m| m.call));
    columns.texts_or_none(
        "protocol_version",
        all.clone().map(|m| m.protocol_version()),
    );
    columns.texts_or_none("party", all.clone().map(|m| m.party()));
    columns.texts_or_none("party_version", all.clone().map(|m| m.party_version()));
    columns.ints_or_none("error_code", all.clone().map(Message::error_code));
    columns.texts("subject", all.map(|m| m.subject.word()));
    row.lists("messages", each.map(<[Message]>::len), columns)
}

pub(super) fn events(extract: &str, rows: &[EventRow<'_>]) -> Result<RecordBatch, ArrowError> {
    let unpacked: Vec<Event> = rows.iter().map(EventRow::event).collect();
    let all = || unpacked.iter();
    let mut columns = Columns::default();
    columns.texts("extract", rows.iter().map(|_| extract));
    columns.ints("exchange", rows.iter().map(|row| int(row.number)));
    columns.ints("event", rows.iter().map(|row| i64::from(row.index)));
    columns.times("time", all().map(|event| event.time));
    columns.hashes("hash", all().map(|event| event.hash));
    columns.ints("input", all().map(|event| i64::from(event.input.0)));
    columns.ints("frame", all().map(|event| i64::from(event.frame)));
    let text = |of: fn(&Event) -> Option<Text>| {
        let rows = rows.iter().zip(&unpacked);
        rows.map(move |(row, event)| row.text(of(event)))
    };
    columns.texts_or_none("id", text(|event| event.id));
    columns.texts_or_none("event_type", text(|event| event.event_type));
    columns.texts_or_none("rpc_id", text(|event| event.rpc_id));
    columns.texts_or_none("method", text(|event| event.method));
    columns.texts_or_none("progress_token", text(|event| event.progress_token));
    columns.ints("data_bytes", all().map(|event| i64::from(event.data_bytes)));
    columns.ints_or_none("retry", all().map(|event| event.retry.map(i64::from)));
    columns.texts("message", all().map(|event| event.message.word()));
    columns.texts("subject", all().map(|event| event.subject.word()));
    columns.flags("delivered", all().map(|event| event.delivered));
    columns.flags("after_hole", all().map(|event| event.after_hole));
    columns.flags("has_data", all().map(|event| event.has_data));
    let answers = || {
        rows.iter()
            .flat_map(|row| row.answers().iter().map(move |answer| (row, answer)))
    };
    let mut answer = Columns::default();
    answer.texts(
        "rpc_id",
        answers().map(|(row, answer)| row.exchange.text(answer.rpc_id)),
    );
    answer.hashes("hash", answers().map(|(_, answer)| answer.hash));
    columns.lists(
        "answers",
        rows.iter().map(|row| row.answers().len()),
        answer,
    )?;
    columns.into_batch()
}

/// Sentences, with the names in them.
fn prose<'a>(all: impl Iterator<Item = &'a Prose> + Clone) -> Result<Columns, ArrowError> {
    let mut columns = Columns::default();
    columns.texts("text", all.clone().map(Prose::as_str));
    let names = || all.clone().flat_map(Prose::names);
    let mut name = Columns::default();
    name.ints("start", names().map(|(start, ..)| int(start)));
    name.ints("end", names().map(|(_, end, _)| int(end)));
    name.texts(
        "what",
        names().map(|(.., what): (_, _, Secret)| what.word()),
    );
    columns.lists("names", all.map(|prose| prose.names().count()), name)?;
    Ok(columns)
}

pub(super) fn inputs(extract: &str, facts: &Facts) -> Result<RecordBatch, ArrowError> {
    let none = Prose::default();
    let all = || facts.inputs.iter();
    let ids = || (0..).map(InputId).take(facts.inputs.len());
    let mut columns = Columns::default();
    columns.texts("extract", all().map(|_| extract));
    columns.ints("input", ids().map(|id| i64::from(id.0)));
    columns.texts("name", all().map(|row| &*row.name));
    let found = (0..facts.inputs.len()).map(|index| index >= facts.missing);
    columns.flags("found", found);
    columns.texts("format", all().map(|row| &*row.format));
    let names = |of: fn(&Input) -> &Vec<String>| all().flat_map(of).map(String::as_str);
    let links = names(|row| &row.link_types);
    columns.text_lists("link_types", all().map(|row| row.link_types.len()), links)?;
    let unread = names(|row| &row.unread_links);
    columns.text_lists(
        "unread_links",
        all().map(|row| row.unread_links.len()),
        unread,
    )?;
    columns.counts("packets", all().map(|row| row.packets));
    columns.counts("bytes", all().map(|row| row.bytes));
    columns.times_or_none("first_time", all().map(|row| row.first_time));
    columns.times_or_none("last_time", all().map(|row| row.last_time));
    columns.counts("tcp_connections", all().map(|row| row.tcp_connections));
    columns.counts("tls_opaque", all().map(|row| row.tls_opaque));
    columns.counts("http2_opaque", all().map(|row| row.http2_opaque));
    columns.counts("holes", all().map(|row| row.holes));
    columns.counts("hole_bytes", all().map(|row| row.hole_bytes));
    columns.counts("truncated_packets", all().map(|row| row.truncated_packets));
    columns.part("tls", tls(&all().map(|row| &row.tls).collect::<Vec<_>>())?)?;
    let har: Vec<Option<&HarFacts>> = all().map(|row| row.har.as_ref()).collect();
    columns.part_or_none("har", har.iter().map(Option::is_some), hars(&har)?)?;
    columns.texts_or_none("copy_of", all().map(|row| row.copy_of.as_deref()));
    let given = |row: &Input| match row.clock {
        Some(ClockOffset::Given(added)) => Some(added),
        // These are told once all exchanges are known.
        Some(ClockOffset::Learnt { .. } | ClockOffset::Left { .. }) | None => None,
    };
    columns.spans_or_none("clock_added", all().map(given));
    let ahead = || ids().map(|id| facts.ahead.get(&id).copied());
    columns.spans_or_none(
        "clock_ahead",
        ahead().map(|ahead| ahead.map(|ahead| ahead.0)),
    );
    let of = ahead().map(|ahead| ahead.map(|(_, of)| i64::from(of.0)));
    columns.ints_or_none("clock_ahead_of", of);
    columns.part("damaged", prose(all().map(|row| &row.damaged))?)?;
    let unreadable = all().map(|row| row.unreadable.as_ref().unwrap_or(&none));
    let has = all().map(|row| row.unreadable.is_some());
    columns.part_or_none("unreadable", has, prose(unreadable)?)?;
    let odd: Vec<Vec<(&'static str, &Tally)>> =
        ids().map(|id| oddities(&facts.anomalies, id)).collect();
    let kinds = || odd.iter().flatten();
    let examples = || kinds().flat_map(|(_, tally)| &tally.examples);
    let mut example = Columns::default();
    place(
        &mut example,
        examples().map(|Example { place, detail: _ }| *place),
    );
    example.part("detail", prose(examples().map(|example| &example.detail))?)?;
    let mut kind = Columns::default();
    kind.texts("kind", kinds().map(|(kind, _)| *kind));
    kind.counts("count", kinds().map(|(_, tally)| tally.count));
    kind.lists(
        "examples",
        kinds().map(|(_, tally)| tally.examples.len()),
        example,
    )?;
    columns.lists("anomalies", odd.iter().map(Vec::len), kind)?;
    columns.into_batch()
}

fn oddities(anomalies: &Anomalies, of: InputId) -> Vec<(&'static str, &Tally)> {
    anomalies
        .iter()
        .filter(|(input, ..)| *input == of)
        .map(|(_, kind, tally)| (kind.name(), tally))
        .collect()
}

fn tls(all: &[&TlsSeen]) -> Result<Columns, ArrowError> {
    let all = || all.iter().copied();
    let mut columns = Columns::default();
    columns.counts("secrets", all().map(|tls| tls.secrets));
    columns.counts("connections", all().map(|tls| tls.connections));
    columns.counts("read", all().map(|tls| tls.read));
    let each = || all().flat_map(|tls| &tls.unread);
    let mut unread = Columns::default();
    place(
        &mut unread,
        each().map(|UnreadTls { place, why: _ }| *place),
    );
    unread.texts("why", each().map(|unread| unread.why.word()));
    columns.lists("unread", all().map(|tls| tls.unread.len()), unread)?;
    Ok(columns)
}

fn hars(all: &[Option<&HarFacts>]) -> Result<Columns, ArrowError> {
    let none = HarFacts::default();
    let each = || all.iter().map(|har| har.unwrap_or(&none));
    let mut columns = Columns::default();
    let creators = each().flat_map(|har| &har.creators).map(String::as_str);
    columns.text_lists("creators", each().map(|har| har.creators.len()), creators)?;
    columns.counts("responses", each().map(|har| har.responses));
    columns.counts("bodies", each().map(|har| har.bodies));
    columns.counts("undecodable", each().map(|har| har.undecodable));
    columns.counts("streams", each().map(|har| har.streams));
    columns.counts("timed", each().map(|har| har.timed));
    columns.counts("made_up", each().map(|har| har.made_up));
    columns.counts("masked_sessions", each().map(|har| har.masked_sessions));
    columns.counts("masked_cursors", each().map(|har| har.masked_cursors));
    columns.counts("masked_events", each().map(|har| har.masked_events));
    columns.counts("no_wire", each().map(|har| har.no_wire));
    columns.flags("omits_open", each().map(|har| har.omits_open));
    Ok(columns)
}

/// A row for each run: there is one.
pub(super) fn runs(extract: &str, all: &[&Facts]) -> Result<RecordBatch, ArrowError> {
    let each = || all.iter().copied();
    let mut columns = Columns::default();
    columns.texts("extract", each().map(|_| extract));
    columns.texts("settings", each().map(|facts| &*facts.settings));
    columns.ints("inputs", each().map(|facts| int(facts.inputs.len())));
    columns.ints("exchanges", each().map(|facts| int(facts.exchanges.len())));
    columns.times_or_none("first_time", each().map(|facts| facts.window.first));
    columns.times_or_none("last_time", each().map(|facts| facts.window.last));
    for (name, of) in [
        ("refused", |facts: &Facts| &facts.servers.refused),
        ("unanswered", |facts: &Facts| &facts.servers.unanswered),
    ] as [(&str, fn(&Facts) -> &crate::model::flow::RefusedConnections); 2]
    {
        let rows: Vec<(Endpoint, Timestamp)> = each()
            .flat_map(|facts| of(facts).iter())
            .map(|(server, time)| (Endpoint::Address(server), time))
            .collect();
        let mut columns_of = ends(rows.iter().map(|(server, _)| Some(server)));
        columns_of.times("time", rows.iter().map(|(_, time)| *time));
        columns.lists(
            name,
            each().map(|facts| of(facts).iter().count()),
            columns_of,
        )?;
    }
    let torn: Vec<(Endpoint, (Timestamp, Timestamp))> = each()
        .flat_map(|facts| facts.servers.torn.iter())
        .map(|(end, span)| (Endpoint::Address(end), span))
        .collect();
    let mut torn_columns = ends(torn.iter().map(|(end, _)| Some(end)));
    torn_columns.times("from", torn.iter().map(|(_, span)| span.0));
    torn_columns.times("until", torn.iter().map(|(_, span)| span.1));
    columns.lists(
        "torn",
        each().map(|facts| facts.servers.torn.iter().count()),
        torn_columns,
    )?;
    columns.flags(
        "more_torn",
        each().map(|facts| facts.servers.torn.may_be_any()),
    );
    let blanks = || {
        each()
            .flat_map(|facts| facts.servers.blanks.iter())
            .map(|blank| {
                let Blank {
                    client,
                    server,
                    from,
                    until,
                } = *blank;
                (client.to_string(), Endpoint::Address(server), from, until)
            })
    };
    let rows: Vec<_> = blanks().collect();
    let mut blank_columns = ends(rows.iter().map(|row| Some(&row.1)));
    blank_columns.texts("client", rows.iter().map(|row| &*row.0));
    blank_columns.times("from", rows.iter().map(|row| row.2));
    blank_columns.times("until", rows.iter().map(|row| row.3));
    columns.lists(
        "blanks",
        each().map(|facts| facts.servers.blanks.iter().count()),
        blank_columns,
    )?;
    columns.flags(
        "more_blanks",
        each().map(|facts| facts.servers.blanks.are_more()),
    );
    let opaque = || each().flat_map(|facts| &facts.opaque);
    let mut opaque_columns = Columns::default();
    opaque_columns.texts("protocol", opaque().map(|row| row.protocol.word()));
    let servers = opaque().map(
        |Opaque {
             protocol: _,
             server,
             count: _,
         }| server.as_ref(),
    );
    end_or_none(&mut opaque_columns, "server", servers)?;
    opaque_columns.counts("count", opaque().map(|row| row.count));
    columns.lists(
        "opaque",
        each().map(|facts| facts.opaque.len()),
        opaque_columns,
    )?;
    columns.lists("key_logs", each().map(|facts| facts.key_logs.len()), {
        key_logs(each().flat_map(|facts| &facts.key_logs))
    })?;
    columns.into_batch()
}

fn key_logs<'a>(all: impl Iterator<Item = &'a KeyLog> + Clone) -> Columns {
    let mut columns = Columns::default();
    columns.texts("name", all.clone().map(|log| &*log.name));
    columns.counts("secrets", all.clone().map(|log| log.secrets));
    columns.counts("bad_lines", all.clone().map(|log| log.bad_lines));
    let line = |log: &KeyLog| {
        let (line, _) = log.first_bad.as_ref()?;
        Some(i64::try_from(*line).unwrap_or(i64::MAX))
    };
    columns.ints_or_none("first_bad_line", all.clone().map(line));
    let why = |log: &'a KeyLog| log.first_bad.as_ref().map(|(_, why)| why.as_str());
    columns.texts_or_none("first_bad_why", all.clone().map(why));
    columns.counts("beyond", all.map(|log| log.beyond));
    columns
}

/// The tables with their schemas.
#[must_use]
pub fn schemas() -> Vec<(&'static str, SchemaRef)> {
    let none = Facts::default();
    let schemas = Kind::ALL.into_iter().filter_map(|kind| {
        let batch = match kind {
            Kind::Runs => runs("", &[]),
            Kind::Inputs => inputs("", &none),
            Kind::Exchanges => exchanges("", &[]),
            Kind::Events => events("", &[]),
        };
        // A table without rows is always one.
        Some((kind.name(), batch.ok()?.schema()))
    });
    schemas.collect()
}
