//! Tables → rows, file by file. A file may be anything: what does not fit is an error that says what.

use super::{
    Facts, Kind, TABLE_KEY,
    columns::{Flags, Hashes, Ints, Lists, Rows, Texts},
    pages, seal,
};
use crate::{
    anomaly::{self, Example, Tally},
    error::Error,
    limits::Limits,
    model::{
        self,
        analysis::{ClockOffset, Input, KeyLog, Opaque, TlsSeen, UnreadTls},
        event::{BatchedAnswer, Event, Text},
        exchange::{
            BackendName, ConnectionId, End, Exchange, Greeting, Hole, Request, Response, Source,
            Teller,
        },
        flow::{Blank, Endpoint, ServerFacts},
        har::HarFacts,
        id::SessionId,
        message::{Message, Particulars},
        place::{InputId, Place},
        prose::Prose,
        time::Span,
    },
};
use arrow_array::RecordBatch;
use foldhash::fast::RandomState;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use smol_str::SmolStr;
use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
};
use thin_vec::ThinVec;

/// The rows of a file.
#[derive(Debug)]
pub struct Table(pub(super) Content);

/// What an extract is called by.
pub(super) type Extract = Arc<str>;

#[derive(Debug)]
pub(super) enum Content {
    Runs(Vec<Run>),
    Inputs(Vec<InputRow>),
    Exchanges(Vec<ExchangeRow>),
    Events(BTreeMap<(Extract, u32), Events>),
}

/// A run: facts without inputs and exchanges yet.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) extract: Extract,
    pub(super) facts: Facts,
    pub(super) inputs: usize,
    pub(super) exchanges: usize,
}

#[derive(Debug)]
pub(super) struct InputRow {
    pub(super) extract: Extract,
    pub(super) number: u32,
    pub(super) found: bool,
    pub(super) row: Input,
    pub(super) ahead: Option<(Span, InputId)>,
    pub(super) anomalies: Vec<(anomaly::Kind, Tally)>,
}

#[derive(Debug)]
pub(super) struct ExchangeRow {
    pub(super) extract: Extract,
    pub(super) number: u32,
    pub(super) exchange: Exchange,
    /// How many events it has in another table.
    pub(super) events: usize,
}

/// The events of an exchange.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) events: Vec<Event>,
    pub(super) batched: Vec<BatchedAnswer>,
    pub(super) text: String,
}

/// Reads a file.
///
/// # Errors
///
/// When it cannot be opened, is of another version, or is damaged.
pub fn read(path: &Path, limits: &Limits) -> Result<Table, Error> {
    let mut file = File::open(path).map_err(|error| Error::io("cannot read", path, error))?;
    let read = seal::check(&mut file).and_then(|()| read_open(file, limits));
    read.map_err(|error| Error::new(format!("cannot read {}: {error}", path.display())))
}

fn damaged(error: &dyn std::fmt::Display) -> Error {
    Error::new(format!("the facts are damaged: {error}"))
}

fn read_open(mut file: File, limits: &Limits) -> Result<Table, Error> {
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let options = ArrowReaderOptions::new();
    let metadata = ArrowReaderMetadata::load(&file, options).map_err(|error| damaged(&error))?;
    let kind = kind(&metadata)?;
    let rows = pages::rows_at_once(&mut file, metadata.metadata(), limits)
        .map_err(|error| damaged(&error))?;
    let most = limits
        .free_expansion
        .saturating_add(length.saturating_mul(limits.expansion as u64));
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
        .with_batch_size(rows)
        .build()
        .map_err(|error| damaged(&error))?;
    let mut names = Names::default();
    let mut content = match kind {
        Kind::Runs => Content::Runs(Vec::new()),
        Kind::Inputs => Content::Inputs(Vec::new()),
        Kind::Exchanges => Content::Exchanges(Vec::new()),
        Kind::Events => Content::Events(BTreeMap::new()),
    };
    let mut bytes = 0_u64;
    for batch in reader {
        let batch = batch.map_err(|error| damaged(&error))?;
        bytes = bytes.saturating_add(batch.get_array_memory_size() as u64);
        if bytes > most {
            return Err(damaged(&"more unpacked bytes than the limit"));
        }
        take(&batch, &mut content, &mut names).map_err(|error| damaged(&error))?;
    }
    Ok(Table(content))
}

/// Which table it is.
fn kind(metadata: &ArrowReaderMetadata) -> Result<Kind, Error> {
    let pairs = metadata.metadata().file_metadata().key_value_metadata();
    let value = |key: &str| {
        let mut pairs = pairs.into_iter().flatten();
        pairs.find(|pair| pair.key == key)?.value.as_deref()
    };
    let table = value(TABLE_KEY).unwrap_or_default();
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == table);
    kind.ok_or_else(|| Error::new("facts of no table that is known"))
}

fn take(batch: &RecordBatch, content: &mut Content, names: &mut Names) -> Result<(), Error> {
    let schema = batch.schema();
    let rows = Rows::of_batch(batch, &schema);
    match content {
        Content::Runs(all) => runs(&rows, all),
        Content::Inputs(all) => inputs(&rows, all),
        Content::Exchanges(all) => exchanges(&rows, all, names),
        Content::Events(all) => events(&rows, all),
    }
}

/// Texts that many rows repeat, kept once.
#[derive(Default)]
pub(super) struct Names(HashSet<Arc<str>, RandomState>);

impl Names {
    fn of(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let name: Arc<str> = Arc::from(text);
        if self.0.len() < NAMES {
            self.0.insert(Arc::clone(&name));
        }
        name
    }

    fn or_none(&mut self, text: Option<&str>) -> Option<Arc<str>> {
        text.map(|text| self.of(text))
    }
}

/// Texts that are remembered: more do not repeat.
const NAMES: usize = 1 << 16;

/// The extract of a row: nearly always that of the row before.
fn extract(texts: &Texts<'_>, row: usize, last: &mut Option<Extract>) -> Result<Extract, Error> {
    let text = texts.at(row)?;
    match last {
        Some(known) if &**known == text => Ok(Arc::clone(known)),
        _ => Ok(Arc::clone(last.insert(Arc::from(text)))),
    }
}

struct Places<'a> {
    input: Ints<'a>,
    frame: Ints<'a>,
    tcp_stream: Ints<'a>,
}

impl<'a> Places<'a> {
    fn of(rows: &Rows<'a>) -> Result<Self, Error> {
        Ok(Self {
            input: rows.ints("input")?,
            frame: rows.ints("frame")?,
            tcp_stream: rows.ints("tcp_stream")?,
        })
    }

    fn at(&self, row: usize) -> Result<Place, Error> {
        Ok(Place {
            input: InputId(self.input.small(row)?),
            frame: self.frame.small(row)?,
            tcp_stream: self.tcp_stream.small_or_none(row)?,
        })
    }
}

struct Ends<'a> {
    rows: Rows<'a>,
    host: Texts<'a>,
    port: Ints<'a>,
    named: Flags<'a>,
}

impl<'a> Ends<'a> {
    fn of(rows: Rows<'a>) -> Result<Self, Error> {
        Ok(Self {
            host: rows.texts("host")?,
            port: rows.ints("port")?,
            named: rows.flags("named")?,
            rows,
        })
    }

    fn at(&self, row: usize) -> Result<Endpoint, Error> {
        if self.named.at(row)? {
            let port = self.port.small(row)?;
            return Ok(Endpoint::Name(Arc::from(self.host.at(row)?), port));
        }
        self.address(row).map(Endpoint::Address)
    }

    fn address(&self, row: usize) -> Result<SocketAddr, Error> {
        let port = self.port.small(row)?;
        Ok(SocketAddr::new(address(self.host.at(row)?)?, port))
    }

    fn or_none(&self, row: usize) -> Result<Option<Endpoint>, Error> {
        self.rows.has(row).then(|| self.at(row)).transpose()
    }
}

fn address(text: &str) -> Result<IpAddr, Error> {
    let address = text.parse();
    address.map_err(|_| Error::new("a host is no address and is not called a name"))
}

struct Messages<'a> {
    lists: Lists<'a>,
    kind: Texts<'a>,
    id: Texts<'a>,
    method: Texts<'a>,
    progress_token: Texts<'a>,
    cancels: Texts<'a>,
    hash: Hashes<'a>,
    call: Hashes<'a>,
    protocol_version: Texts<'a>,
    party: Texts<'a>,
    party_version: Texts<'a>,
    error_code: Ints<'a>,
    subject: Texts<'a>,
}

impl<'a> Messages<'a> {
    fn of(rows: &Rows<'a>) -> Result<Self, Error> {
        let lists = rows.lists("messages")?;
        let rows = &lists.rows;
        Ok(Self {
            kind: rows.texts("kind")?,
            id: rows.texts("id")?,
            method: rows.texts("method")?,
            progress_token: rows.texts("progress_token")?,
            cancels: rows.texts("cancels")?,
            hash: rows.hashes("hash")?,
            call: rows.hashes("call")?,
            protocol_version: rows.texts("protocol_version")?,
            party: rows.texts("party")?,
            party_version: rows.texts("party_version")?,
            error_code: rows.ints("error_code")?,
            subject: rows.texts("subject")?,
            lists,
        })
    }

    fn at(&self, row: usize) -> Result<ThinVec<Message>, Error> {
        let own = |texts: &Texts<'_>, at: usize| texts.or_none(at).map(SmolStr::new);
        let boxed = |texts: &Texts<'_>, at: usize| texts.or_none(at).map(Box::from);
        self.lists
            .at(row)?
            .map(|at| {
                let particulars = Particulars {
                    cancels: boxed(&self.cancels, at),
                    protocol_version: boxed(&self.protocol_version, at),
                    party: boxed(&self.party, at),
                    party_version: boxed(&self.party_version, at),
                    error_code: self.error_code.or_none(at),
                };
                let has_any = particulars != Particulars::default();
                Ok(Message {
                    kind: self.kind.word(at)?,
                    subject: self.subject.word(at)?,
                    id: own(&self.id, at),
                    method: own(&self.method, at),
                    progress_token: own(&self.progress_token, at),
                    hash: self.hash.at(at)?,
                    call: self.call.at(at)?,
                    particulars: has_any.then(|| Box::new(particulars)),
                })
            })
            .collect()
    }
}

struct Requests<'a> {
    rows: Rows<'a>,
    time: Ints<'a>,
    end_time: Ints<'a>,
    method: Texts<'a>,
    target: Texts<'a>,
    host: Texts<'a>,
    scheme: Texts<'a>,
    session_id: Texts<'a>,
    last_event_id: Texts<'a>,
    protocol_version: Texts<'a>,
    user_agent: Texts<'a>,
    messages: Messages<'a>,
    body: Hashes<'a>,
    body_bytes: Ints<'a>,
    complete: Flags<'a>,
    received: Flags<'a>,
    trace: Hashes<'a>,
    forwarded: Flags<'a>,
    on_behalf: Hashes<'a>,
}

impl<'a> Requests<'a> {
    fn of(rows: Rows<'a>) -> Result<Self, Error> {
        Ok(Self {
            time: rows.ints("time")?,
            end_time: rows.ints("end_time")?,
            method: rows.texts("method")?,
            target: rows.texts("target")?,
            host: rows.texts("host")?,
            scheme: rows.texts("scheme")?,
            session_id: rows.texts("session_id")?,
            last_event_id: rows.texts("last_event_id")?,
            protocol_version: rows.texts("protocol_version")?,
            user_agent: rows.texts("user_agent")?,
            messages: Messages::of(&rows)?,
            body: rows.hashes("body")?,
            body_bytes: rows.ints("body_bytes")?,
            complete: rows.flags("complete")?,
            received: rows.flags("received")?,
            trace: rows.hashes("trace")?,
            forwarded: rows.flags("forwarded")?,
            on_behalf: rows.hashes("on_behalf")?,
            rows,
        })
    }

    fn or_none(&self, row: usize, names: &mut Names) -> Result<Option<Request>, Error> {
        if !self.rows.has(row) {
            return Ok(None);
        }
        Ok(Some(Request {
            time: self.time.time(row)?,
            end_time: self.end_time.time(row)?,
            method: names.of(self.method.at(row)?),
            target: names.of(self.target.at(row)?),
            host: names.of(self.host.at(row)?),
            scheme: self.scheme.word(row)?,
            session_id: names
                .or_none(self.session_id.or_none(row))
                .map(SessionId::from),
            last_event_id: self.last_event_id.or_none(row).map(Arc::from),
            protocol_version: names.or_none(self.protocol_version.or_none(row)),
            user_agent: names.or_none(self.user_agent.or_none(row)),
            messages: self.messages.at(row)?,
            body: self.body.at(row)?,
            body_bytes: self.body_bytes.count(row)?,
            complete: self.complete.at(row)?,
            received: self.received.at(row)?,
            trace: self.trace.or_none(row)?,
            forwarded: self.forwarded.at(row)?,
            on_behalf: self.on_behalf.or_none(row)?,
        }))
    }
}

struct Named<'a> {
    lists: Lists<'a>,
    teller: Texts<'a>,
    number: Ints<'a>,
    name: Texts<'a>,
}

impl<'a> Named<'a> {
    fn of(rows: &Rows<'a>) -> Result<Self, Error> {
        let lists = rows.lists("named")?;
        Ok(Self {
            teller: lists.rows.texts("teller")?,
            number: lists.rows.ints("number")?,
            name: lists.rows.texts("name")?,
            lists,
        })
    }

    fn at(&self, row: usize, names: &mut Names) -> Result<ThinVec<BackendName>, Error> {
        self.lists
            .at(row)?
            .map(|at| {
                let number = self.number.small(at)?;
                Ok(BackendName {
                    teller: match self.teller.at(at)? {
                        "asked" => Teller::Asked(number),
                        "usual" => Teller::Usual(number),
                        _ => return Err(Error::new("the column teller has an unknown word")),
                    },
                    name: names.of(self.name.at(at)?),
                })
            })
            .collect()
    }
}

struct Responses<'a> {
    rows: Rows<'a>,
    time: Ints<'a>,
    place: Places<'a>,
    status: Ints<'a>,
    content_type: Texts<'a>,
    media: Texts<'a>,
    session_id: Texts<'a>,
    incarnation: Texts<'a>,
    named: Named<'a>,
    backend: Texts<'a>,
    messages: Messages<'a>,
    protocol_version: Texts<'a>,
    server_name: Texts<'a>,
    server_version: Texts<'a>,
    subject: Texts<'a>,
    body_bytes: Ints<'a>,
    complete: Flags<'a>,
    undecodable: Flags<'a>,
}

impl<'a> Responses<'a> {
    fn of(rows: Rows<'a>) -> Result<Self, Error> {
        Ok(Self {
            time: rows.ints("time")?,
            place: Places::of(&rows)?,
            status: rows.ints("status")?,
            content_type: rows.texts("content_type")?,
            media: rows.texts("media")?,
            session_id: rows.texts("session_id")?,
            incarnation: rows.texts("incarnation")?,
            named: Named::of(&rows)?,
            backend: rows.texts("backend")?,
            messages: Messages::of(&rows)?,
            protocol_version: rows.texts("protocol_version")?,
            server_name: rows.texts("server_name")?,
            server_version: rows.texts("server_version")?,
            subject: rows.texts("subject")?,
            body_bytes: rows.ints("body_bytes")?,
            complete: rows.flags("complete")?,
            undecodable: rows.flags("undecodable")?,
            rows,
        })
    }

    fn or_none(&self, row: usize, names: &mut Names) -> Result<Option<Response>, Error> {
        if !self.rows.has(row) {
            return Ok(None);
        }
        Ok(Some(Response {
            time: self.time.time(row)?,
            place: self.place.at(row)?,
            status: self.status.small(row)?,
            content_type: names.or_none(self.content_type.or_none(row)),
            media: self.media.word(row)?,
            session_id: names
                .or_none(self.session_id.or_none(row))
                .map(SessionId::from),
            incarnation: names.or_none(self.incarnation.or_none(row)),
            named: self.named.at(row, names)?,
            backend: names.or_none(self.backend.or_none(row)),
            messages: self.messages.at(row)?,
            // Who greets states a version.
            greeting: self.protocol_version.or_none(row).map(|version| {
                Box::new(Greeting {
                    protocol_version: Box::from(version),
                    server_name: self.server_name.or_none(row).map(Box::from),
                    server_version: self.server_version.or_none(row).map(Box::from),
                })
            }),
            subject: self.subject.word(row)?,
            body_bytes: self.body_bytes.count(row)?,
            complete: self.complete.at(row)?,
            undecodable: self.undecodable.at(row)?,
        }))
    }
}

/// Reads the exchanges of rows that have one.
pub(super) fn exchanges(
    rows: &Rows<'_>,
    all: &mut Vec<ExchangeRow>,
    names: &mut Names,
) -> Result<(), Error> {
    let (extracts, numbers) = (rows.texts("extract")?, rows.ints("exchange")?);
    let (client, server) = (
        Ends::of(rows.part("client")?)?,
        Ends::of(rows.part("server")?)?,
    );
    let (connection, place) = (rows.ints("connection")?, Places::of(rows)?);
    let more = rows.lists("more_places")?;
    let more_places = Places::of(&more.rows)?;
    let version = rows.texts("version")?;
    let har = rows.part("har")?;
    let (bodies, event_times) = (har.flags("bodies")?, har.flags("event_times")?);
    let sequences = [
        rows.ints("request_sequence")?,
        rows.ints("response_sequence")?,
    ];
    let requests = Requests::of(rows.part("request")?)?;
    let responses = Responses::of(rows.part("response")?)?;
    let end = rows.part("end")?;
    let (end_time, end_place) = (end.ints("time")?, Places::of(&end)?);
    let (cause, acknowledged) = (end.texts("cause")?, end.ints("last_acknowledged")?);
    let events = rows.ints("events")?;
    let holes = rows.lists("holes")?;
    let (part, bytes) = (holes.rows.texts("part")?, holes.rows.ints("bytes")?);
    let (time, after) = (holes.rows.ints("time")?, holes.rows.ints("after_events")?);
    let (partial, endpoint) = (rows.ints("partial_event_bytes")?, rows.texts("endpoint")?);
    let mut last = None;
    for row in (0..rows.len()).filter(|&row| rows.has(row)) {
        let exchange = Exchange {
            client: client.or_none(row)?,
            server: server.or_none(row)?,
            connection: connection.small_or_none(row)?.map(ConnectionId),
            place: place.at(row)?,
            more_places: more
                .at(row)?
                .map(|at| more_places.at(at))
                .collect::<Result<_, _>>()?,
            version: version.word(row)?,
            source: if har.has(row) {
                Source::Har {
                    bodies: bodies.at(row)?,
                    event_times: event_times.at(row)?,
                }
            } else {
                Source::Packets
            },
            sequences: {
                let [request, response] = &sequences;
                [request.small_or_none(row)?, response.small_or_none(row)?]
            },
            request: requests.or_none(row, names)?,
            response: responses.or_none(row, names)?,
            end: End {
                time: end_time.time(row)?,
                place: end_place.at(row)?,
                cause: cause.word(row)?,
                last_acknowledged: acknowledged.time_or_none(row),
            },
            // These are in another table.
            events: model::event::Events::default(),
            batched: ThinVec::new(),
            text: String::new(),
            holes: holes
                .at(row)?
                .map(|at| {
                    Ok(Hole {
                        part: part.word(at)?,
                        bytes: bytes.count(at)?,
                        time: time.time(at)?,
                        after_events: after.small(at)?,
                    })
                })
                .collect::<Result<_, Error>>()?,
            partial_event_bytes: partial.small(row)?,
            endpoint: endpoint.or_none(row).map(Box::from),
        };
        all.push(ExchangeRow {
            extract: extract(&extracts, row, &mut last)?,
            number: numbers.small(row)?,
            exchange,
            events: events.small::<u32>(row)? as usize,
        });
    }
    Ok(())
}

impl Events {
    /// Keeps a text; one that the event before had as well is kept once.
    fn keep(&mut self, text: Option<&str>, before: Option<Text>) -> Result<Option<Text>, Error> {
        let Some(text) = text else { return Ok(None) };
        if let Some(before) = before {
            let start = before.start as usize;
            let known = self
                .text
                .get(start..start.saturating_add(before.len as usize));
            if known == Some(text) {
                return Ok(Some(before));
            }
        }
        let start = u32::try_from(self.text.len()).ok();
        let end = u32::try_from(self.text.len().saturating_add(text.len())).ok();
        let (Some(start), Some(end)) = (start, end) else {
            return Err(Error::new(
                "the events of an exchange have more text than 4 GiB",
            ));
        };
        self.text.push_str(text);
        Ok(Some(Text {
            start,
            len: end - start,
        }))
    }
}

fn events(rows: &Rows<'_>, all: &mut BTreeMap<(Extract, u32), Events>) -> Result<(), Error> {
    let (extracts, exchange) = (rows.texts("extract")?, rows.ints("exchange")?);
    let columns = EventColumns::of(rows)?;
    let mut last = None;
    for row in 0..rows.len() {
        let key = (extract(&extracts, row, &mut last)?, exchange.small(row)?);
        columns.add(row, all.entry(key).or_default())?;
    }
    Ok(())
}

/// The columns of events, but for those that say whose they are.
pub(super) struct EventColumns<'a> {
    index: Ints<'a>,
    time: Ints<'a>,
    hash: Hashes<'a>,
    input: Ints<'a>,
    frame: Ints<'a>,
    id: Texts<'a>,
    event_type: Texts<'a>,
    rpc_id: Texts<'a>,
    method: Texts<'a>,
    progress_token: Texts<'a>,
    data_bytes: Ints<'a>,
    retry: Ints<'a>,
    message: Texts<'a>,
    subject: Texts<'a>,
    delivered: Flags<'a>,
    after_hole: Flags<'a>,
    has_data: Flags<'a>,
    answers: Lists<'a>,
    answer_id: Texts<'a>,
    answer_hash: Hashes<'a>,
}

impl<'a> EventColumns<'a> {
    pub(super) fn of(rows: &Rows<'a>) -> Result<Self, Error> {
        let answers = rows.lists("answers")?;
        Ok(Self {
            index: rows.ints("event")?,
            time: rows.ints("time")?,
            hash: rows.hashes("hash")?,
            input: rows.ints("input")?,
            frame: rows.ints("frame")?,
            id: rows.texts("id")?,
            event_type: rows.texts("event_type")?,
            rpc_id: rows.texts("rpc_id")?,
            method: rows.texts("method")?,
            progress_token: rows.texts("progress_token")?,
            data_bytes: rows.ints("data_bytes")?,
            retry: rows.ints("retry")?,
            message: rows.texts("message")?,
            subject: rows.texts("subject")?,
            delivered: rows.flags("delivered")?,
            after_hole: rows.flags("after_hole")?,
            has_data: rows.flags("has_data")?,
            answer_id: answers.rows.texts("rpc_id")?,
            answer_hash: answers.rows.hashes("hash")?,
            answers,
        })
    }

    /// Adds the event of a row to those of its exchange.
    pub(super) fn add(&self, row: usize, own: &mut Events) -> Result<(), Error> {
        let number: u32 = self.index.small(row)?;
        if number as usize != own.events.len() {
            return Err(Error::new(
                "events of an exchange are not in order, or not all there",
            ));
        }
        let before = own.events.last().copied().unwrap_or_default();
        let event = Event {
            time: self.time.time(row)?,
            hash: self.hash.at(row)?,
            frame: self.frame.small(row)?,
            input: InputId(self.input.small(row)?),
            id: own.keep(self.id.or_none(row), before.id)?,
            event_type: own.keep(self.event_type.or_none(row), before.event_type)?,
            rpc_id: own.keep(self.rpc_id.or_none(row), before.rpc_id)?,
            method: own.keep(self.method.or_none(row), before.method)?,
            progress_token: own.keep(self.progress_token.or_none(row), before.progress_token)?,
            data_bytes: self.data_bytes.small(row)?,
            retry: self.retry.small_or_none(row)?,
            message: self.message.word(row)?,
            subject: self.subject.word(row)?,
            delivered: self.delivered.at(row)?,
            after_hole: self.after_hole.at(row)?,
            has_data: self.has_data.at(row)?,
        };
        own.events.push(event);
        for at in self.answers.at(row)? {
            let rpc_id = own.keep(Some(self.answer_id.at(at)?), None)?;
            own.batched.push(BatchedAnswer {
                event: number,
                rpc_id: rpc_id.unwrap_or_default(),
                hash: self.answer_hash.at(at)?,
            });
        }
        Ok(())
    }
}

struct Sentences<'a> {
    rows: Rows<'a>,
    text: Texts<'a>,
    names: Lists<'a>,
    start: Ints<'a>,
    end: Ints<'a>,
    what: Texts<'a>,
}

impl<'a> Sentences<'a> {
    fn of(rows: Rows<'a>) -> Result<Self, Error> {
        let names = rows.lists("names")?;
        Ok(Self {
            text: rows.texts("text")?,
            start: names.rows.ints("start")?,
            end: names.rows.ints("end")?,
            what: names.rows.texts("what")?,
            names,
            rows,
        })
    }

    fn at(&self, row: usize) -> Result<Prose, Error> {
        let names = self.names.at(row)?.map(|at| {
            let start = self.start.small::<u32>(at)? as usize;
            Ok((
                start,
                self.end.small::<u32>(at)? as usize,
                self.what.word(at)?,
            ))
        });
        let names = names.collect::<Result<Vec<_>, Error>>()?;
        Prose::again(self.text.at(row)?.to_owned(), names)
            .ok_or_else(|| Error::new("a sentence and the names in it do not fit"))
    }
}

/// Reads the inputs of rows that have one.
pub(super) fn inputs(rows: &Rows<'_>, all: &mut Vec<InputRow>) -> Result<(), Error> {
    let (extracts, numbers) = (rows.texts("extract")?, rows.ints("input")?);
    let (name, found, format) = (
        rows.texts("name")?,
        rows.flags("found")?,
        rows.texts("format")?,
    );
    let links = rows.text_lists("link_types")?;
    let unread_links = rows.text_lists("unread_links")?;
    let (packets, bytes) = (rows.ints("packets")?, rows.ints("bytes")?);
    let (first, last_time) = (rows.ints("first_time")?, rows.ints("last_time")?);
    let connections = rows.ints("tcp_connections")?;
    let (tls_opaque, http2_opaque) = (rows.ints("tls_opaque")?, rows.ints("http2_opaque")?);
    let (holes, hole_bytes) = (rows.ints("holes")?, rows.ints("hole_bytes")?);
    let truncated = rows.ints("truncated_packets")?;
    let tls = rows.part("tls")?;
    let (secrets, of_tls, read) = (
        tls.ints("secrets")?,
        tls.ints("connections")?,
        tls.ints("read")?,
    );
    let unread = tls.lists("unread")?;
    let (unread_place, why) = (Places::of(&unread.rows)?, unread.rows.texts("why")?);
    let har = rows.part("har")?;
    let hars = Hars::of(&har)?;
    let copy_of = rows.texts("copy_of")?;
    let added = rows.ints("clock_added")?;
    let (ahead, ahead_of) = (rows.ints("clock_ahead")?, rows.ints("clock_ahead_of")?);
    let damaged = Sentences::of(rows.part("damaged")?)?;
    let unreadable = Sentences::of(rows.part("unreadable")?)?;
    let kinds = rows.lists("anomalies")?;
    let (kind, count) = (kinds.rows.texts("kind")?, kinds.rows.ints("count")?);
    let examples = kinds.rows.lists("examples")?;
    let example_place = Places::of(&examples.rows)?;
    let detail = Sentences::of(examples.rows.part("detail")?)?;
    let mut last = None;
    for row in (0..rows.len()).filter(|&row| rows.has(row)) {
        let anomalies = kinds.at(row)?.map(|at| {
            let name = kind.at(at)?;
            let kind = anomaly::Kind::ALL.iter().find(|kind| kind.name() == name);
            let kind = *kind.ok_or_else(|| Error::new("an anomaly of a kind that is not known"))?;
            let examples = examples.at(at)?.map(|at| {
                Ok(Example {
                    place: example_place.at(at)?,
                    detail: detail.at(at)?,
                })
            });
            let tally = Tally {
                count: count.count(at)?,
                examples: examples.collect::<Result<_, Error>>()?,
            };
            Ok((kind, tally))
        });
        let anomalies = anomalies.collect::<Result<_, Error>>()?;
        let unread = unread.at(row)?.map(|at| {
            Ok(UnreadTls {
                place: unread_place.at(at)?,
                why: why.word(at)?,
            })
        });
        let input = Input {
            name: name.at(row)?.to_owned(),
            // The packets are not in the facts.
            path: None,
            format: format.at(row)?.to_owned(),
            link_types: links.at(row)?,
            packets: packets.count(row)?,
            bytes: bytes.count(row)?,
            first_time: first.time_or_none(row),
            last_time: last_time.time_or_none(row),
            tcp_connections: connections.count(row)?,
            // These are counted once exchanges are grouped.
            http_exchanges: 0,
            sse_events: 0,
            sessions: 0,
            resumes: 0,
            sessionless: 0,
            legacy_sessions: 0,
            refused_ids: 0,
            tls_opaque: tls_opaque.count(row)?,
            http2_opaque: http2_opaque.count(row)?,
            tls: TlsSeen {
                secrets: secrets.count(row)?,
                connections: of_tls.count(row)?,
                read: read.count(row)?,
                unread: unread.collect::<Result<_, Error>>()?,
            },
            holes: holes.count(row)?,
            hole_bytes: hole_bytes.count(row)?,
            truncated_packets: truncated.count(row)?,
            har: har.has(row).then(|| hars.at(row)).transpose()?,
            unread_links: unread_links.at(row)?,
            copy_of: copy_of.or_none(row).map(str::to_owned),
            clock: added.span_or_none(row).map(ClockOffset::Given),
            damaged: damaged.at(row)?,
            unreadable: (unreadable.rows.has(row))
                .then(|| unreadable.at(row))
                .transpose()?,
        };
        let ahead = ahead.span_or_none(row).zip(ahead_of.small_or_none(row)?);
        all.push(InputRow {
            extract: extract(&extracts, row, &mut last)?,
            number: numbers.small(row)?,
            found: found.at(row)?,
            row: input,
            ahead: ahead.map(|(by, of)| (by, InputId(of))),
            anomalies,
        });
    }
    Ok(())
}

struct Hars<'a> {
    creators: super::columns::TextLists<'a>,
    counts: [Ints<'a>; 10],
    omits_open: Flags<'a>,
}

impl<'a> Hars<'a> {
    fn of(rows: &Rows<'a>) -> Result<Self, Error> {
        Ok(Self {
            creators: rows.text_lists("creators")?,
            counts: [
                rows.ints("responses")?,
                rows.ints("bodies")?,
                rows.ints("undecodable")?,
                rows.ints("streams")?,
                rows.ints("timed")?,
                rows.ints("made_up")?,
                rows.ints("masked_sessions")?,
                rows.ints("masked_cursors")?,
                rows.ints("masked_events")?,
                rows.ints("no_wire")?,
            ],
            omits_open: rows.flags("omits_open")?,
        })
    }

    fn at(&self, row: usize) -> Result<HarFacts, Error> {
        let [
            responses,
            bodies,
            undecodable,
            streams,
            timed,
            made_up,
            masked_sessions,
            masked_cursors,
            masked_events,
            no_wire,
        ] = &self.counts;
        Ok(HarFacts {
            creators: self.creators.at(row)?,
            responses: responses.count(row)?,
            bodies: bodies.count(row)?,
            undecodable: undecodable.count(row)?,
            streams: streams.count(row)?,
            timed: timed.count(row)?,
            made_up: made_up.count(row)?,
            masked_sessions: masked_sessions.count(row)?,
            masked_cursors: masked_cursors.count(row)?,
            masked_events: masked_events.count(row)?,
            no_wire: no_wire.count(row)?,
            omits_open: self.omits_open.at(row)?,
        })
    }
}

/// Reads the runs of rows that have one.
pub(super) fn runs(rows: &Rows<'_>, all: &mut Vec<Run>) -> Result<(), Error> {
    let (extracts, settings) = (rows.texts("extract")?, rows.texts("settings")?);
    let (inputs, exchanges) = (rows.ints("inputs")?, rows.ints("exchanges")?);
    let (first, last_time) = (rows.ints("first_time")?, rows.ints("last_time")?);
    let mut last = None;
    for row in (0..rows.len()).filter(|&row| rows.has(row)) {
        let mut facts = Facts {
            settings: settings.at(row)?.to_owned(),
            servers: servers(rows, row)?,
            opaque: opaque(rows, row)?,
            key_logs: key_logs(rows, row)?,
            ..Facts::default()
        };
        facts.window.first = first.time_or_none(row);
        facts.window.last = last_time.time_or_none(row);
        all.push(Run {
            extract: extract(&extracts, row, &mut last)?,
            facts,
            inputs: inputs.small::<u32>(row)? as usize,
            exchanges: exchanges.small::<u32>(row)? as usize,
        });
    }
    Ok(())
}

fn servers(rows: &Rows<'_>, row: usize) -> Result<ServerFacts, Error> {
    let times = |name: &'static str| {
        let lists = rows.lists(name)?;
        let (server, time) = (Ends::of(lists.part()?)?, lists.rows.ints("time")?);
        let all = lists.at(row)?;
        all.map(|at| Ok((server.address(at)?, time.time(at)?)))
            .collect::<Result<_, Error>>()
    };
    let mut servers = ServerFacts {
        refused: times("refused")?,
        unanswered: times("unanswered")?,
        ..ServerFacts::default()
    };
    let torn = rows.lists("torn")?;
    let (end, from, until) = (
        Ends::of(torn.part()?)?,
        torn.rows.ints("from")?,
        torn.rows.ints("until")?,
    );
    for at in torn.at(row)? {
        let span = (from.time(at)?, until.time(at)?);
        servers.torn.note(end.address(at)?, span, usize::MAX);
    }
    if rows.flags("more_torn")?.at(row)? {
        servers.torn.note_more();
    }
    let blanks = rows.lists("blanks")?;
    let (server, client) = (Ends::of(blanks.part()?)?, blanks.rows.texts("client")?);
    let (from, until) = (blanks.rows.ints("from")?, blanks.rows.ints("until")?);
    for at in blanks.at(row)? {
        let blank = Blank {
            client: address(client.at(at)?)?,
            server: server.address(at)?,
            from: from.time(at)?,
            until: until.time(at)?,
        };
        servers.blanks.note(blank, usize::MAX);
    }
    if rows.flags("more_blanks")?.at(row)? {
        servers.blanks.note_more();
    }
    Ok(servers)
}

fn opaque(rows: &Rows<'_>, row: usize) -> Result<Vec<Opaque>, Error> {
    let lists = rows.lists("opaque")?;
    let (protocol, count) = (lists.rows.texts("protocol")?, lists.rows.ints("count")?);
    let server = Ends::of(lists.rows.part("server")?)?;
    let all = lists.at(row)?.map(|at| {
        Ok(Opaque {
            protocol: protocol.word(at)?,
            server: server.or_none(at)?,
            count: count.count(at)?,
        })
    });
    all.collect()
}

fn key_logs(rows: &Rows<'_>, row: usize) -> Result<Vec<KeyLog>, Error> {
    let lists = rows.lists("key_logs")?;
    let (name, secrets) = (lists.rows.texts("name")?, lists.rows.ints("secrets")?);
    let (bad_lines, line) = (
        lists.rows.ints("bad_lines")?,
        lists.rows.ints("first_bad_line")?,
    );
    let (why, beyond) = (
        lists.rows.texts("first_bad_why")?,
        lists.rows.ints("beyond")?,
    );
    let all = lists.at(row)?.map(|at| {
        let why = why.or_none(at).map(str::to_owned);
        Ok(KeyLog {
            name: name.at(at)?.to_owned(),
            secrets: secrets.count(at)?,
            bad_lines: bad_lines.count(at)?,
            first_bad: line.small_or_none(at)?.zip(why),
            beyond: beyond.count(at)?,
        })
    });
    all.collect()
}
