//! The only file that names every stage: wires them from inputs to the finished analysis.

mod conclude;
mod connection;
mod draft;
mod evidence;
mod facts;
mod har;
mod learn;
mod naming;
mod packets;
mod secrets;
mod taps;
mod texts;

use crate::{
    anomaly::{Anomalies, Kind},
    error::{Error, nearest},
    facts::Facts,
    input::{self, Classified, Found, HarInput, PacketInput, Source, timeline::Summary},
    limits::Limits,
    link,
    model::{
        analysis::{Analysis, ClockOffset, Input},
        place::{InputId, Place},
        prose::{Named, Prose, Secret, prose},
        time::Span,
    },
    redact::Key,
};
use conclude::Harvest;
use draft::Settings;
pub use evidence::{Shelf, Written, evidence};
use har::Har;
pub use learn::Learnt;
use rayon::prelude::*;
use std::{
    collections::BTreeMap,
    io::Read,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// What to read and how to read it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Files, folders, or `-` for standard input.
    pub inputs: Vec<String>,
    /// The header that names a session; compared without case.
    pub session_header: String,
    /// A header that names the incarnation of a session.
    pub incarnation_header: Option<String>,
    /// Headers that name a backend, besides the usual ones.
    pub backend_headers: Vec<String>,
    /// Only exchanges with these servers, when there are any: host, and a port if one matters.
    pub servers: Vec<(String, Option<u16>)>,
    /// Judge any event stream with a cursor, one session per client and URL.
    pub all_sse: bool,
    /// What is added to the times of inputs: by their names, or the last components of their paths.
    pub clock_offsets: Vec<(String, Span)>,
    /// Cuts of one server no more than this apart are one incident.
    pub window: Span,
    /// Names are hashed with this key before any report sees them; what writes payload writes none then.
    pub redact: Option<Key>,
    /// Threads; 0 for one a core. No more than 256 are started.
    pub jobs: usize,
    /// Files with TLS secrets, as `SSLKEYLOGFILE` makes them.
    pub key_logs: Vec<PathBuf>,
    /// Caps.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            inputs: Vec::new(),
            session_header: "mcp-session-id".to_owned(),
            incarnation_header: None,
            backend_headers: Vec::new(),
            servers: Vec::new(),
            all_sse: false,
            clock_offsets: Vec::new(),
            window: Span::from_secs(2),
            redact: None,
            jobs: 0,
            key_logs: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// How far a run is: bytes of the inputs as stored (compressed), read by a progress bar.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes read so far.
    pub done: AtomicU64,
    /// Bytes in all; 0 until known, and for standard input.
    pub total: AtomicU64,
    /// Set when there is no more to read.
    pub finished: AtomicBool,
}

/// More threads than machines have cores only cost memory.
const MOST_THREADS: usize = 256;

/// Reads every input and audits what is in them.
///
/// Inputs that cannot be read are rows of the analysis with [`unreadable`] set; the run goes on
/// with the others.
///
/// [`unreadable`]: crate::model::analysis::Input::unreadable
///
/// # Errors
///
/// When an option names an input that is none, or no threads can be started.
pub fn run(options: &Options, progress: &Progress) -> Result<Analysis, Error> {
    let threads = threads(options)?;
    let analysis = threads.install(|| {
        let harvest = gather(options, progress)?;
        Ok(conclude::conclude(harvest, options, None))
    })?;
    progress.finished.store(true, Ordering::Relaxed);
    Ok(analysis)
}

/// Reads every input and gives the facts, not audited; without names where these are to be hidden.
///
/// # Errors
///
/// As [`run`].
pub fn extract(options: &Options, progress: &Progress) -> Result<Facts, Error> {
    let threads = threads(options)?;
    let facts = threads.install(|| Ok(facts::of(gather(options, progress)?, options)))?;
    progress.finished.store(true, Ordering::Relaxed);
    Ok(facts)
}

/// Learns from facts that an engine deals out: all of `runs` and `inputs` of a run, and all exchanges of some
/// partitions.
///
/// # Errors
///
/// When `stream` is no stream of facts, or of facts with other options, or no threads can be started.
pub fn learn(options: &Options, stream: &mut (dyn Read + Send)) -> Result<Learnt, Error> {
    let threads = threads(options)?;
    threads.install(|| Ok(learn::learn(facts::from_stream(stream, options)?, options)))
}

/// Audits facts that an engine deals out: all of `runs` and `inputs` of a run, and all exchanges of some components,
/// with what was learnt of all. Of what is there beside sessions, what it says is of no use.
///
/// # Errors
///
/// As [`learn()`], and when what was learnt is not put together, is of facts with other options, or of other exchanges.
pub fn judge(
    options: &Options,
    stream: &mut (dyn Read + Send),
    learnt: &Learnt,
) -> Result<Analysis, Error> {
    let threads = threads(options)?;
    threads.install(|| {
        let harvest = facts::from_stream(stream, options)?;
        learnt.check(&harvest.exchanges, options)?;
        Ok(conclude::conclude(harvest, options, Some(learnt)))
    })
}

fn threads(options: &Options) -> Result<rayon::ThreadPool, Error> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(options.jobs.min(MOST_THREADS))
        .build()
        .map_err(|error| Error::new(format!("cannot start threads: {error}")))
}

/// Reads all inputs, packets first: they are merged in order of time. HARs follow, each by itself, and facts.
///
/// # Errors
///
/// When an option names an input that is none.
fn gather(options: &Options, progress: &Progress) -> Result<Harvest, Error> {
    let (secrets, key_logs) = secrets::read_key_logs(&options.key_logs, &options.limits)?;
    let settings = Arc::new(Settings {
        limits: options.limits,
        session_header: options.session_header.clone(),
        incarnation_header: options.incarnation_header.clone(),
        backend_headers: options.backend_headers.clone(),
        all_sse: options.all_sse,
    });
    let mut harvest = Harvest {
        key_logs,
        ..Harvest::default()
    };
    let Found {
        mut sources,
        errors: mut missing,
        mut again,
        ..
    } = input::find(&options.inputs);
    // By name, so that the order in which inputs are named changes no report.
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    missing.sort_by(|(a, _), (b, _)| a.cmp(b));
    again.sort();
    let offsets = offsets(&options.clock_offsets, &sources)?;
    let copies = input::copies(&sources);
    let total = sources.iter().map(Source::stored_len).sum();
    progress.total.store(total, Ordering::Relaxed);
    for (name, error) in missing {
        harvest.inputs.push(Input {
            unreadable: Some(reason(&name, &error)),
            name,
            ..Input::default()
        });
    }
    let first = harvest.inputs.len();
    harvest.missing = first;
    let (mut packet_inputs, har_inputs, facts_inputs) =
        classify(&sources, &copies, options, progress, &mut harvest);
    note_again(&again, &mut harvest, first);
    for (index, span) in offsets {
        let input = InputId(u32::try_from(first + index).unwrap_or(u32::MAX));
        harvest.given.insert(input, span);
        if let Some(row) = harvest.inputs.get_mut(first + index) {
            row.clock = Some(ClockOffset::Given(span));
        }
    }
    for (input, packets) in &mut packet_inputs {
        if let Some(span) = harvest.given.get(input) {
            packets.move_times(*span);
        }
    }
    if !packet_inputs.is_empty() {
        let read = secrets::read_packets(packet_inputs, &settings, secrets, progress);
        for (input, summary) in read.summaries {
            describe_packets(harvest.inputs.get_mut(input.0 as usize), summary);
        }
        harvest.exchanges = read.exchanges;
        harvest.anomalies.merge(read.anomalies);
        harvest.counts = read.counts;
        harvest.window = read.window;
        harvest.servers = read.servers;
        harvest.opaque = read.opaque;
        harvest.randoms = read.randoms;
        harvest.ahead = read.ahead;
    }
    let mut read: Vec<Har> = har_inputs
        .into_par_iter()
        .map(|(input, har)| {
            let row = harvest.inputs.get(input.0 as usize);
            let name = row.map_or("", |row| &*row.name);
            let mut har = read_har((input, name), har, &settings, &options.limits, progress);
            if let Some(span) = harvest.given.get(&input) {
                har.move_times(*span);
            }
            har
        })
        .collect();
    har::leave_out_copies(&mut read);
    for har in read {
        if let Some(row) = harvest.inputs.get_mut(har.input.0 as usize) {
            let name = std::mem::take(&mut row.name);
            *row = Input {
                name,
                path: row.path.take(),
                clock: row.clock.take(),
                ..har.row
            };
        }
        // The first is taken as it is: a large HAR is not held twice.
        if harvest.exchanges.is_empty() {
            harvest.exchanges = har.exchanges;
        } else {
            harvest.exchanges.extend(har.exchanges);
        }
        harvest.anomalies.merge(har.anomalies);
    }
    describe_copies(&copies, first, &mut harvest.inputs);
    facts::take_in(&mut harvest, &facts_inputs, options, progress);
    Ok(harvest)
}

/// What is added to the times of which sources.
fn offsets(given: &[(String, Span)], sources: &[Source]) -> Result<BTreeMap<usize, Span>, Error> {
    let mut offsets = BTreeMap::new();
    for (file, span) in given {
        let last = |source: &Source| {
            let name = source.path.as_ref()?.file_name()?;
            Some(name.to_string_lossy().into_owned())
        };
        let all = |of: &dyn Fn(&Source) -> bool| -> Vec<usize> {
            let named = (0..).zip(sources).filter(|(_, source)| of(source));
            named.map(|(index, _)| index).collect()
        };
        let mut named = all(&|source| source.name == *file);
        if named.is_empty() {
            named = all(&|source| last(source).as_deref() == Some(file));
        }
        match named.as_slice() {
            [one] => {
                offsets.insert(*one, *span);
            }
            [one, two, ..] => {
                let name = |index: &usize| sources.get(*index).map_or("", |source| &*source.name);
                return Err(Error::new(format!(
                    "--clock-offset: {file} may be {} or {}: name it as it is found",
                    name(one),
                    name(two)
                )));
            }
            [] => {
                let names: Vec<String> = sources
                    .iter()
                    .flat_map(|source| [Some(source.name.clone()), last(source)])
                    .flatten()
                    .collect();
                let near = nearest(file, names.iter().map(String::as_str));
                let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
                return Err(Error::new(format!(
                    "--clock-offset: no input is named {file}{near}"
                )));
            }
        }
    }
    Ok(offsets)
}

/// Notes what was named again, and copies, on the inputs that count for them.
fn note_again(again: &[(String, String)], harvest: &mut Harvest, first: usize) {
    let by_name: BTreeMap<&str, usize> = (first..)
        .zip(harvest.inputs.iter().skip(first))
        .map(|(index, row)| (&*row.name, index))
        .collect();
    let place = |name: &str| {
        let index = by_name.get(name).copied()?;
        Some(Place {
            input: InputId(u32::try_from(index).ok()?),
            ..Place::default()
        })
    };
    for (name, kept) in again {
        if let Some(place) = place(kept) {
            harvest.anomalies.note(Kind::DuplicateInput, place, || {
                if name == kept {
                    "named again".into()
                } else {
                    prose!("named again as {}", Named(Secret::Input, name))
                }
            });
        }
    }
    for row in &harvest.inputs {
        if let Some(place) = row.copy_of.as_deref().and_then(place) {
            harvest.anomalies.note(Kind::DuplicateInput, place, || {
                prose!("{} holds the same bytes", Named(Secret::Input, &row.name))
            });
        }
    }
}

/// Says of copies what is said of the file, but counts nothing.
fn describe_copies(copies: &[Option<usize>], first: usize, inputs: &mut [Input]) {
    for (index, original) in copies.iter().enumerate() {
        let Some(original) = original.and_then(|original| inputs.get(first + original)) else {
            continue;
        };
        let (format, links) = (original.format.clone(), original.link_types.clone());
        let (damaged, unreadable) = (original.damaged.clone(), original.unreadable.clone());
        if let Some(row) = inputs.get_mut(first + index) {
            row.format = format;
            row.link_types = links;
            row.damaged = damaged;
            row.unreadable = unreadable;
        }
    }
}

/// Why an input could not be read, without its name, which stands beside it.
fn reason(name: &str, error: &Error) -> Prose {
    if let Some(own) = error.cause() {
        return prose!("{}", own);
    }
    let text = error.to_string();
    let own = text.strip_prefix("cannot read ").and_then(|rest| {
        rest.strip_prefix(name)
            .or_else(|| rest.strip_prefix("standard input").filter(|_| name == "-"))?
            .strip_prefix(": ")
    });
    own.unwrap_or(&text).to_owned().into()
}

type Inputs<T> = Vec<(InputId, T)>;

fn classify<'p>(
    sources: &[Source],
    copies: &[Option<usize>],
    options: &Options,
    progress: &'p Progress,
    harvest: &mut Harvest,
) -> (
    Inputs<PacketInput<'p>>,
    Inputs<HarInput<'p>>,
    Inputs<PathBuf>,
) {
    let classified: Vec<Option<Result<Classified<'p>, Error>>> = sources
        .par_iter()
        .zip(copies)
        .map(|(source, copy)| match copy {
            Some(_) => {
                let length = source.stored_len();
                progress.done.fetch_add(length, Ordering::Relaxed);
                None
            }
            None => Some(input::classify(source, &options.limits, &progress.done)),
        })
        .collect();
    let (mut packet_inputs, mut har_inputs) = (Vec::new(), Vec::new());
    let mut facts_inputs = Vec::new();
    for ((source, classified), copy) in sources.iter().zip(classified).zip(copies) {
        let id = InputId(u32::try_from(harvest.inputs.len()).unwrap_or(u32::MAX));
        let mut row = Input {
            name: source.name.clone(),
            path: source.path.clone(),
            ..Input::default()
        };
        match classified {
            Some(Ok(Classified::Packets(packets))) => packet_inputs.push((id, packets)),
            Some(Ok(Classified::Har(har))) => har_inputs.push((id, har)),
            Some(Ok(Classified::Facts(path))) => facts_inputs.push((id, path)),
            Some(Err(error)) => row.unreadable = Some(reason(&row.name, &error)),
            None => {
                let original = copy.and_then(|original| sources.get(original));
                row.copy_of = original.map(|original| original.name.clone());
            }
        }
        harvest.inputs.push(row);
    }
    (packet_inputs, har_inputs, facts_inputs)
}

fn describe_packets(row: Option<&mut Input>, summary: Summary) {
    let Some(row) = row else { return };
    row.format = summary.format;
    row.unread_links = summary
        .link_types
        .iter()
        .filter(|link| !link::is_read(**link))
        .map(|link| link::link_name(*link).to_string())
        .collect();
    row.link_types = summary
        .link_types
        .into_iter()
        .map(|link| link::link_name(link).to_string())
        .collect();
    row.packets = summary.totals.packets;
    row.bytes = summary.totals.bytes;
    row.first_time = summary.totals.first_time;
    row.last_time = summary.totals.last_time;
    row.truncated_packets = summary.totals.truncated;
    row.damaged = summary
        .damage
        .map(|damage| damage.said())
        .unwrap_or_default();
    row.unreadable = summary.error.map(|error| reason(&row.name, &error));
}

fn read_har(
    (input, name): (InputId, &str),
    source: HarInput<'_>,
    settings: &Settings,
    limits: &Limits,
    progress: &Progress,
) -> Har {
    let mut har = Har::new(input);
    let (mut text, format) = match source.open(limits, &progress.done) {
        Ok(open) => open,
        Err(error) => {
            har.row.unreadable = Some(reason(name, &error));
            return har;
        }
    };
    har.row.format = format;
    let mut anomalies = Anomalies::default();
    let summary = input::har::read(&mut *text, limits, input, &mut anomalies, &mut |entry| {
        har.add(&entry, settings);
    });
    har.finish(summary.as_ref().ok(), settings);
    har.anomalies.merge(anomalies);
    match summary {
        Ok(summary) => {
            har.facts.creators = summary.creators;
            har.facts.omits_open = summary.omits_open;
            har.row.packets = summary.entries;
            har.row.bytes = summary.bytes;
            har.row.first_time = summary.first_time;
            har.row.last_time = summary.last_time;
            har.row.har = Some(std::mem::take(&mut har.facts));
            if let Some((offset, what)) = summary.damage {
                let entries = summary.entries;
                har.row.damaged = prose!(
                    "{} at offset {}; {} complete entries",
                    what,
                    offset,
                    entries
                );
            }
        }
        Err(error) => har.row.unreadable = Some(reason(name, &error)),
    }
    har
}
