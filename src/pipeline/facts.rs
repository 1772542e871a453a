//! The harvest of a run → facts for files, and the facts of files → the harvest of another, where captures
//! may stand beside them.

use super::{
    Harvest, Options, Progress, conclude,
    packets::{Counts, Unread},
    reason, taps,
};
use crate::{
    anomaly::Anomalies,
    audit,
    error::Error,
    facts::{self, Facts, Table, Whole},
    input,
    limits::Limits,
    mcp,
    model::{
        analysis::{ClockOffset, Input},
        exchange::Exchange,
        flow::ServerFacts,
        id::SessionId,
        place::{InputId, Place},
        prose::{Prose, prose},
        time::Span,
    },
    redact::{
        Key,
        facts::{Lore, Veil},
    },
};
use rayon::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

/// How a run reads, as far as that changes what it reads: the options that say so, none of which can be given
/// afterwards.
pub(super) fn settings(options: &Options) -> String {
    let defaults = Options::default();
    let mut words = Vec::new();
    let header = options.session_header.to_ascii_lowercase();
    if header != defaults.session_header {
        words.push(format!("--session-header {header}"));
    }
    if let Some(header) = &options.incarnation_header {
        words.push(format!(
            "--incarnation-header {}",
            header.to_ascii_lowercase()
        ));
    }
    for header in &options.backend_headers {
        words.push(format!("--backend-header {}", header.to_ascii_lowercase()));
    }
    if options.all_sse {
        words.push("--all-sse".to_owned());
    }
    words.join(" ")
}

/// The session that an exchange is put to.
pub(super) fn session(exchange: &Exchange, options: &Options) -> Option<SessionId> {
    let own = mcp::session::session_id(exchange);
    own.or_else(|| conclude::made_name(exchange).filter(|_| options.all_sse))
}

/// What is kept of a run.
pub(super) fn of(harvest: Harvest, options: &Options) -> Facts {
    let Harvest {
        key_logs,
        mut inputs,
        missing,
        counts,
        mut exchanges,
        anomalies,
        window,
        servers,
        opaque,
        // They find the secrets of packets, and these are not in facts.
        randoms: _,
        // Stands in the rows of inputs.
        given: _,
        ahead,
    } = harvest;
    for (input, counts) in counts {
        let Some(row) = inputs.get_mut(input.0 as usize) else {
            continue;
        };
        let Counts {
            tcp_connections,
            tls_opaque,
            http2_opaque,
            tls,
            holes,
            hole_bytes,
        } = counts;
        row.tcp_connections = tcp_connections;
        row.tls_opaque = tls_opaque;
        row.http2_opaque = http2_opaque;
        row.tls = tls;
        row.holes = holes;
        row.hole_bytes = hole_bytes;
    }
    exchanges.retain(|exchange| conclude::is_wanted(exchange, options));
    let mut facts = Facts {
        settings: settings(options),
        inputs,
        missing,
        exchanges,
        sessions: Vec::new(),
        anomalies,
        window,
        servers,
        opaque,
        key_logs,
        ahead,
    };
    if let Some(key) = &options.redact {
        hide(&mut facts, key, options);
    }
    let exchanges = facts.exchanges.iter();
    facts.sessions = exchanges
        .map(|exchange| session(exchange, options))
        .collect();
    facts
}

/// Hides the names in facts, whose sessions are not told apart yet.
fn hide(facts: &mut Facts, key: &Key, options: &Options) {
    let Facts {
        // Names of headers that were given, which an audit has to be given again.
        settings: _,
        inputs,
        missing: _,
        exchanges,
        sessions: _,
        anomalies,
        window: _,
        servers,
        opaque,
        key_logs,
        ahead: _,
    } = facts;
    let numbers = numbers(exchanges, servers, options);
    let lore = Lore {
        cut: &|id| numbers.cut_for_audit(id),
        tokens: &audit::order::tokens,
        alike: &audit::order::are_alike,
        ring_file: &input::ring_file,
    };
    let veil = Veil::new(key, &lore, exchanges, inputs);
    veil.exchanges(exchanges);
    veil.inputs(inputs, anomalies, key_logs);
    veil.servers(servers, opaque);
}

/// What the number is in event ids, learnt as an audit does.
fn numbers(
    exchanges: &mut [Exchange],
    servers: &ServerFacts,
    options: &Options,
) -> audit::order::NumberTokens {
    let order = conclude::order_of(exchanges);
    conclude::bring(exchanges, order.clone());
    let mut named = Vec::new();
    if options.all_sse {
        for (index, exchange) in exchanges.iter_mut().enumerate() {
            if conclude::made_name(exchange).is_some() {
                conclude::name_session(exchange);
                named.push(index);
            }
        }
    }
    let mut grouping = mcp::session::group(exchanges);
    mcp::stream::thread(&mut grouping, exchanges);
    let numbers = audit::id_numbers(&grouping, exchanges, servers);
    for index in named {
        let request = exchanges.get_mut(index).and_then(|e| e.request.as_mut());
        if let Some(request) = request {
            request.session_id = None;
        }
    }
    // Back to where they were: facts number them as they came.
    let mut back = vec![0; order.len()];
    for (place, &index) in order.iter().enumerate() {
        if let Some(slot) = back.get_mut(index) {
            *slot = place;
        }
    }
    conclude::bring(exchanges, back);
    numbers
}

/// Reads a stream of some of the exchanges of a run, with all that is known of its inputs.
///
/// # Errors
///
/// When it is none, or of facts with other settings.
pub(super) fn from_stream(stream: &mut dyn Read, options: &Options) -> Result<Harvest, Error> {
    let facts = facts::read_stream(stream, &settings(options))?;
    let mut harvest = Harvest::default();
    Merge::new(&mut harvest, &BTreeSet::new(), options.limits).take(facts);
    Ok(harvest)
}

/// Reads one file. What the decoder of Parquet does not expect may make it panic: that is the file's fault, and
/// costs nothing but the file.
fn read(path: &Path, limits: &Limits) -> Result<Table, Error> {
    let read = catch_unwind(AssertUnwindSafe(|| facts::read(path, limits)));
    read.unwrap_or_else(|_| {
        Err(Error::new(format!(
            "cannot read {}: the facts are damaged: they make no sense",
            path.display()
        )))
    })
}

/// Puts facts into a harvest, whose inputs have a row for each file with them: in its place come the inputs that
/// the facts are of. The first rows are of inputs that were not found.
pub(super) fn take_in(
    harvest: &mut Harvest,
    files: &[(InputId, PathBuf)],
    options: &Options,
    progress: &Progress,
) {
    if files.is_empty() {
        return;
    }
    let tables: Vec<Result<Table, Error>> = files
        .par_iter()
        .map(|(_, path)| {
            let table = read(path, &options.limits);
            let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
            progress.done.fetch_add(length, Ordering::Relaxed);
            table
        })
        .collect();
    let mut good = Vec::new();
    for (index, table) in tables.into_iter().enumerate() {
        match table {
            Ok(table) => good.push((index, table)),
            Err(error) => complain(harvest, files, index, |name| reason(name, &error)),
        }
    }
    let joined = facts::join(good, &settings(options), Whole::Yes);
    for (index, why) in joined.wrong {
        complain(harvest, files, index, |_| why);
    }
    let mut gone: BTreeSet<InputId> = BTreeSet::new();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for (input, _) in files {
        if let Some(row) = harvest.inputs.get(input.0 as usize) {
            names.insert(row.name.clone());
            if row.unreadable.is_none() {
                gone.insert(*input);
            }
        }
    }
    for (id, row) in (0..).map(InputId).zip(&harvest.inputs) {
        if row.copy_of.as_ref().is_some_and(|of| names.contains(of)) {
            gone.insert(id);
        }
    }
    Merge::new(harvest, &gone, options.limits).take(joined.facts);
}

fn complain(
    harvest: &mut Harvest,
    files: &[(InputId, PathBuf)],
    index: usize,
    why: impl FnOnce(&str) -> Prose,
) {
    let input = files.get(index).map(|(input, _)| input.0 as usize);
    let row = input.and_then(|input| harvest.inputs.get_mut(input));
    if let Some(row) = row.filter(|row| row.unreadable.is_none()) {
        row.unreadable = Some(why(&row.name));
    }
}

/// Where inputs come to stand: the index of what they are of, and their own there.
type Origin = (usize, InputId);

/// The inputs of captures and of facts in one order, as if all had been read together.
struct Merge<'a> {
    harvest: &'a mut Harvest,
    limits: Limits,
    rows: Vec<(bool, Input, Origin)>,
}

impl<'a> Merge<'a> {
    fn new(harvest: &'a mut Harvest, gone: &BTreeSet<InputId>, limits: Limits) -> Self {
        let inputs = std::mem::take(&mut harvest.inputs);
        let rows = (0..).map(InputId).zip(inputs);
        let rows = rows
            .filter(|(id, _)| !gone.contains(id))
            .map(|(id, row)| (id.0 as usize >= harvest.missing, row, (0, id)))
            .collect();
        Self {
            harvest,
            limits,
            rows,
        }
    }

    fn take(mut self, mut all: Vec<Facts>) {
        for (index, facts) in all.iter_mut().enumerate() {
            let inputs = std::mem::take(&mut facts.inputs);
            for (id, row) in (0..).map(InputId).zip(inputs) {
                let found = id.0 as usize >= facts.missing;
                self.rows.push((found, row, (index + 1, id)));
            }
        }
        // By name, as inputs of captures are; those that were not found come first.
        self.rows
            .sort_by(|(a_found, a, a_origin), (b_found, b, b_origin)| {
                (a_found, &a.name, a_origin).cmp(&(b_found, &b.name, b_origin))
            });
        let mut places: Vec<BTreeMap<InputId, InputId>> = vec![BTreeMap::new(); all.len() + 1];
        for (place, (_, _, (index, id))) in (0..).map(InputId).zip(&self.rows) {
            if let Some(places) = places.get_mut(*index) {
                places.insert(*id, place);
            }
        }
        let harvest = self.harvest;
        let own = places.first().cloned().unwrap_or_default();
        if own.iter().any(|(from, to)| from != to) || has_others(&harvest.anomalies, &own) {
            move_inputs(harvest, &own);
        }
        for (facts, places) in all.into_iter().zip(places.iter().skip(1)) {
            merge(harvest, facts, places, self.limits);
        }
        let sources: Vec<usize> = self.rows.iter().map(|(.., (index, _))| *index).collect();
        let mut several = sources.clone();
        several.sort_unstable();
        several.dedup();
        if several.len() > 1 {
            let source = |input: InputId| sources.get(input.0 as usize).copied().unwrap_or(0);
            harvest.exchanges = taps::fold(std::mem::take(&mut harvest.exchanges), source);
        }
        harvest.missing = self.rows.iter().filter(|(found, ..)| !found).count();
        harvest.inputs = Vec::with_capacity(self.rows.len());
        for (place, (_, row, (index, _))) in (0..).map(InputId).zip(self.rows) {
            if index > 0 {
                from_facts(harvest, place, &row);
            }
            harvest.inputs.push(row);
        }
    }
}

/// Whether something is noted of an input that is not there any more.
fn has_others(anomalies: &Anomalies, places: &BTreeMap<InputId, InputId>) -> bool {
    anomalies
        .iter()
        .any(|(input, ..)| !places.contains_key(&input))
}

/// What the row of an input of facts says beside itself.
fn from_facts(harvest: &mut Harvest, place: InputId, row: &Input) {
    if let Some(ClockOffset::Given(added)) = row.clock {
        harvest.given.insert(place, added);
    }
    let mut tls = row.tls.clone();
    for unread in &mut tls.unread {
        unread.place.input = place;
    }
    harvest.counts.insert(
        place,
        Counts {
            tcp_connections: row.tcp_connections,
            tls_opaque: row.tls_opaque,
            http2_opaque: row.http2_opaque,
            tls,
            holes: row.holes,
            hole_bytes: row.hole_bytes,
        },
    );
}

/// Takes what captures gave to other places.
fn move_inputs(harvest: &mut Harvest, places: &BTreeMap<InputId, InputId>) {
    let to = |input: InputId| places.get(&input).copied();
    harvest
        .exchanges
        .par_iter_mut()
        .for_each(|exchange| move_exchange(exchange, places));
    harvest.anomalies = moved_anomalies(&harvest.anomalies, places);
    let counts = std::mem::take(&mut harvest.counts);
    for (input, mut counts) in counts {
        if let Some(place) = to(input) {
            for unread in &mut counts.tls.unread {
                unread.place.input = place;
            }
            harvest.counts.insert(place, counts);
        }
    }
    let randoms = std::mem::take(&mut harvest.randoms);
    let randoms = randoms.into_iter();
    harvest.randoms = randoms
        .filter_map(|((input, stream), randoms)| Some(((to(input)?, stream), randoms)))
        .collect();
    let given = std::mem::take(&mut harvest.given).into_iter();
    harvest.given = given
        .filter_map(|(input, span)| Some((to(input)?, span)))
        .collect();
    let ahead = std::mem::take(&mut harvest.ahead);
    harvest.ahead = moved_ahead(ahead, places).collect();
}

fn moved_ahead(
    ahead: BTreeMap<InputId, (Span, InputId)>,
    places: &BTreeMap<InputId, InputId>,
) -> impl Iterator<Item = (InputId, (Span, InputId))> + '_ {
    let to = |input: InputId| places.get(&input).copied();
    let ahead = ahead.into_iter();
    ahead.filter_map(move |(input, (by, of))| Some((to(input)?, (by, to(of)?))))
}

fn moved_anomalies(anomalies: &Anomalies, places: &BTreeMap<InputId, InputId>) -> Anomalies {
    let mut moved = Anomalies::default();
    for (input, kind, tally) in anomalies.iter() {
        let Some(&place) = places.get(&input) else {
            continue;
        };
        let mut tally = tally.clone();
        for example in &mut tally.examples {
            example.place.input = place;
        }
        moved.add(place, kind, tally);
    }
    moved
}

fn move_exchange(exchange: &mut Exchange, places: &BTreeMap<InputId, InputId>) {
    let to = |input: &mut InputId| {
        if let Some(place) = places.get(input) {
            *input = *place;
        }
    };
    let whole = |place: &mut Place| to(&mut place.input);
    whole(&mut exchange.place);
    exchange.more_places.iter_mut().for_each(whole);
    if let Some(response) = &mut exchange.response {
        whole(&mut response.place);
    }
    whole(&mut exchange.end.place);
    exchange.events.edit(|event| to(&mut event.input));
}

fn merge(harvest: &mut Harvest, facts: Facts, places: &BTreeMap<InputId, InputId>, limits: Limits) {
    let Facts {
        // What cannot be read together was told apart.
        settings: _,
        // Taken before.
        inputs: _,
        missing: _,
        mut exchanges,
        sessions: _,
        anomalies,
        window,
        servers,
        opaque,
        key_logs,
        ahead,
    } = facts;
    if places.iter().any(|(from, to)| from != to) {
        exchanges
            .par_iter_mut()
            .for_each(|exchange| move_exchange(exchange, places));
    }
    if harvest.exchanges.is_empty() {
        harvest.exchanges = exchanges;
    } else {
        harvest.exchanges.extend(exchanges);
    }
    harvest.anomalies.merge(moved_anomalies(&anomalies, places));
    for time in [window.first, window.last].into_iter().flatten() {
        harvest.window.include(time);
    }
    harvest.servers.merge(servers);
    let mut unread = Unread::new(limits);
    for row in std::mem::take(&mut harvest.opaque)
        .into_iter()
        .chain(opaque)
    {
        unread.add(row.protocol, row.server, row.count);
    }
    harvest.opaque = unread.into_rows();
    harvest.ahead.extend(moved_ahead(ahead, places));
    for log in key_logs {
        if !harvest.key_logs.contains(&log) {
            harvest.key_logs.push(log);
        }
    }
}

/// Why packets cannot be read again.
pub(super) fn no_packets() -> Prose {
    prose!("it came as facts, which have no packets: name the capture itself")
}
