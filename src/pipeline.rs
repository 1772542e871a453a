//! The only file that names every stage: wires them from inputs to the finished analysis.

mod conclude;
mod connection;
mod draft;
mod har;
mod naming;
mod packets;

use crate::{
    anomaly::Anomalies,
    error::Error,
    input::{self, Classified, HarInput, PacketInput, Source, timeline::Summary},
    limits::Limits,
    link,
    model::{
        analysis::{Analysis, Input},
        place::InputId,
        time::Span,
    },
};
use conclude::Harvest;
use draft::Settings;
use har::Har;
use rayon::prelude::*;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
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
    /// Cuts of one server no more than this apart are one incident.
    pub window: Span,
    /// Threads; 0 for one a core. No more than 256 are started.
    pub jobs: usize,
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
            window: Span::from_secs(2),
            jobs: 0,
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
/// When options contradict each other.
pub fn run(options: &Options, progress: &Progress) -> Result<Analysis, Error> {
    let threads = rayon::ThreadPoolBuilder::new()
        .num_threads(options.jobs.min(MOST_THREADS))
        .build()
        .map_err(|error| Error::new(format!("cannot start threads: {error}")))?;
    let analysis = threads.install(|| {
        let harvest = gather(options, progress);
        conclude::conclude(harvest, options)
    });
    progress.finished.store(true, Ordering::Relaxed);
    Ok(analysis)
}

/// Reads all inputs, packets first: they are merged in order of time. HARs follow, each by itself.
fn gather(options: &Options, progress: &Progress) -> Harvest {
    let settings = Arc::new(Settings {
        limits: options.limits,
        session_header: options.session_header.clone(),
        incarnation_header: options.incarnation_header.clone(),
        backend_headers: options.backend_headers.clone(),
        all_sse: options.all_sse,
    });
    let mut harvest = Harvest::default();
    let (mut sources, mut missing) = input::find(&options.inputs);
    // By name, so that the order in which inputs are named changes no report.
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    missing.sort_by(|(a, _), (b, _)| a.cmp(b));
    let total = sources.iter().map(Source::stored_len).sum();
    progress.total.store(total, Ordering::Relaxed);
    for (name, error) in missing {
        harvest.inputs.push(Input {
            unreadable: Some(reason(&name, &error.to_string())),
            name,
            ..Input::default()
        });
    }
    let (packet_inputs, har_inputs) = classify(&sources, options, progress, &mut harvest);
    if !packet_inputs.is_empty() {
        let timeline = packets::timeline(packet_inputs, &options.limits, &progress.done);
        let read = packets::read(timeline, &settings);
        for (input, summary) in read.summaries {
            describe_packets(harvest.inputs.get_mut(input.0 as usize), summary);
        }
        harvest.exchanges = read.exchanges;
        harvest.anomalies.merge(read.anomalies);
        harvest.counts = read.counts;
        harvest.window = read.window;
        harvest.servers = read.servers;
    }
    let mut read: Vec<Har> = har_inputs
        .into_par_iter()
        .map(|(input, har)| read_har(input, har, &settings, &options.limits, progress))
        .collect();
    har::leave_out_copies(&mut read);
    for har in read {
        if let Some(row) = harvest.inputs.get_mut(har.input.0 as usize) {
            let name = std::mem::take(&mut row.name);
            let unreadable = har.row.unreadable.as_ref().map(|why| reason(&name, why));
            *row = Input {
                unreadable,
                name,
                path: row.path.take(),
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
    harvest
}

/// Why an input could not be read, without its name, which stands beside it.
fn reason(name: &str, text: &str) -> String {
    let own = text.strip_prefix("cannot read ").and_then(|rest| {
        rest.strip_prefix(name)
            .or_else(|| rest.strip_prefix("standard input").filter(|_| name == "-"))?
            .strip_prefix(": ")
    });
    own.unwrap_or(text).to_owned()
}

type Inputs<'p, T> = Vec<(InputId, T)>;

fn classify<'p>(
    sources: &[Source],
    options: &Options,
    progress: &'p Progress,
    harvest: &mut Harvest,
) -> (Inputs<'p, PacketInput<'p>>, Inputs<'p, HarInput<'p>>) {
    let classified: Vec<Result<Classified<'p>, Error>> = sources
        .par_iter()
        .map(|source| input::classify(source, &options.limits, &progress.done))
        .collect();
    let (mut packet_inputs, mut har_inputs) = (Vec::new(), Vec::new());
    for (source, classified) in sources.iter().zip(classified) {
        let id = InputId(u32::try_from(harvest.inputs.len()).unwrap_or(u32::MAX));
        let mut row = Input {
            name: source.name.clone(),
            path: source.path.clone(),
            ..Input::default()
        };
        match classified {
            Ok(Classified::Packets(packets)) => packet_inputs.push((id, packets)),
            Ok(Classified::Har(har)) => har_inputs.push((id, har)),
            Err(error) => row.unreadable = Some(reason(&row.name, &error.to_string())),
        }
        harvest.inputs.push(row);
    }
    (packet_inputs, har_inputs)
}

fn describe_packets(row: Option<&mut Input>, summary: Summary) {
    let Some(row) = row else { return };
    row.format = summary.format;
    row.link_types = summary
        .link_types
        .into_iter()
        .map(link::link_name)
        .collect();
    row.packets = summary.totals.packets;
    row.bytes = summary.totals.bytes;
    row.first_time = summary.totals.first_time;
    row.last_time = summary.totals.last_time;
    row.truncated_packets = summary.totals.truncated;
    row.damaged = summary
        .damage
        .map(|damage| damage.to_string())
        .unwrap_or_default();
    row.unreadable = summary
        .error
        .map(|error| reason(&row.name, &error.to_string()));
}

fn read_har(
    input: InputId,
    source: HarInput<'_>,
    settings: &Settings,
    limits: &Limits,
    progress: &Progress,
) -> Har {
    let mut har = Har::new(input);
    let (mut text, format) = match source.open(limits, &progress.done) {
        Ok(open) => open,
        Err(error) => {
            har.row.unreadable = Some(error.to_string());
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
                har.row.damaged = format!("{what} at offset {offset}; {entries} complete entries");
            }
        }
        Err(error) => har.row.unreadable = Some(error.to_string()),
    }
    har
}
