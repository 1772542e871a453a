//! What the exchanges of a part of a run teach about the rest of it, for an audit in parts (docs/scale.md).
//!
//! Sessions are judged with what others of their service, their servers and their clients went through. So a run splits
//! into *components*: sets of exchanges between which nothing of that leads, told by what they have in common (a
//! server's host, a service, a session id, a trace, a host that is asked by one and asks another). What still reaches
//! from one component to another is little, and is here too: how clocks stand, when inputs were captured and which go
//! on with which, and what is missing where nobody knows whose it was.
//!
//! Learnt of parts is a text, a line of JSON for each thing; the lines of several parts together, in any order, are what
//! all of them teach.

use super::{Harvest, Options, conclude, facts as settings_of};
use crate::{
    audit,
    error::Error,
    facts,
    mcp::{
        self,
        vantage::{Clocks, Sample, Samples},
    },
    model::{
        coverage::{Coverage, Shown, inputs_of},
        elsewhere::{Elsewhere, Ends, Headless},
        exchange::{EndCause, Exchange, Part},
        flow::Endpoint,
        id::SessionId,
        place::InputId,
        session::Role,
        time::{Span, Timestamp},
    },
};
use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, Write},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use xxhash_rust::xxh3::xxh3_64;

/// The version of the lines. Another one is not read.
const VERSION: u32 = 1;

/// What parts of a run teach.
#[derive(Debug, Default)]
pub struct Learnt {
    /// How the facts were read; `None` before anything is known.
    settings: Option<String>,
    /// What hangs together with what, by key, until that is concluded.
    ties: BTreeMap<String, Ties>,
    /// The component of each key, once concluded.
    components: BTreeMap<String, u32>,
    samples: Samples,
    shown: Shown,
    /// From the first to the last of the exchanges that begin in each input.
    extents: BTreeMap<InputId, (Timestamp, Timestamp)>,
    /// Servers of sessions.
    servers: BTreeSet<Endpoint>,
    headless: BTreeSet<Lost>,
    /// Keys of exchanges of no session that have no response head.
    torn: BTreeSet<String>,
    /// The first of those that may have issued an id unseen: by key and the input whose clock it is by.
    issuers: BTreeMap<(String, InputId), Timestamp>,
    torn_sessions: BTreeSet<(String, Ends)>,
}

/// What the exchanges of one key have in common with others, as hashes.
#[derive(Debug, Default)]
struct Ties {
    /// Whatever has one of these hangs together.
    nodes: BTreeSet<u64>,
    /// Hosts that asked: what was asked of one of them hangs together with what it asked.
    clients: BTreeSet<u64>,
}

/// A time, and the input by whose clock it is.
type Clocked = (i64, u32);

/// A response of which nobody knows the session, by the clocks of the inputs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Lost {
    key: String,
    client: Option<IpAddr>,
    session: Option<String>,
    from: Clocked,
    until: Clocked,
    /// The capture ended before it did: of these inputs.
    open: Option<Vec<u32>>,
}

/// A line of what was learnt.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    Learnt {
        version: u32,
        settings: String,
    },
    Tie {
        key: String,
        nodes: String,
        clients: String,
    },
    Component {
        component: u32,
        keys: Vec<String>,
    },
    Clocks {
        inputs: (u32, u32),
        /// Rank, nanoseconds ahead, and how many of the kind are enough.
        samples: Vec<(u8, u64, i64, u8)>,
    },
    OnePlace {
        inputs: (u32, u32),
    },
    Packets {
        input: u32,
    },
    Har {
        input: u32,
        first: i64,
        last: i64,
    },
    Extent {
        input: u32,
        first: i64,
        last: i64,
    },
    Connection {
        inputs: Vec<u32>,
    },
    Session {
        inputs: Vec<u32>,
    },
    Shows {
        input: u32,
        host: String,
        port: u16,
        named: bool,
    },
    Server {
        host: String,
        port: u16,
        named: bool,
    },
    Headless(Lost),
    Torn {
        key: String,
    },
    Issuer {
        key: String,
        time: Clocked,
    },
    TornSession {
        key: String,
        clients: BTreeSet<IpAddr>,
        servers: BTreeSet<SocketAddr>,
    },
}

/// Learns from the exchanges of a part of a run: all of some sessions. Inputs are those of the whole run.
pub(super) fn learn(harvest: Harvest, options: &Options) -> Learnt {
    let Harvest {
        mut exchanges,
        servers,
        ..
    } = harvest;
    let mut learnt = Learnt {
        settings: Some(settings_of::settings(options)),
        samples: Samples::of(&exchanges),
        shown: Shown::by_some(&exchanges),
        ..Learnt::default()
    };
    for exchange in &exchanges {
        for (time, input) in [
            (exchange.time(), exchange.place.input),
            (exchange.end.time, exchange.end.place.input),
        ] {
            learnt.extend(input, time, time);
        }
        learnt.tie(exchange, options);
    }
    if options.all_sse {
        exchanges.iter_mut().for_each(conclude::name_session);
    }
    conclude::sort(&mut exchanges);
    let grouping = mcp::session::group(&exchanges);
    for (exchange, role) in exchanges.iter().zip(&grouping.role_of) {
        let of_session = matches!(role, Role::Session(_));
        if of_session && let Some(server) = &exchange.server {
            learnt.servers.insert(server.clone());
        }
        if !of_session && exchange.has_hole(Part::ResponseHead) {
            learnt.torn.insert(key(exchange, options));
        }
        if audit::is_headless(exchange) {
            learnt.headless.insert(Lost::of(exchange, options));
        }
        if audit::may_have_issued(exchange) {
            let place = (key(exchange, options), exchange.place.input);
            let first = learnt.issuers.entry(place).or_insert(exchange.time());
            *first = exchange.time().min(*first);
        }
    }
    let torn = audit::gateway::torn_sessions(&grouping.sessions, &exchanges, &servers.blanks);
    for (number, ends) in torn {
        if let Some(exchange) = exchanges.get(number as usize) {
            learnt.torn_sessions.insert((key(exchange, options), ends));
        }
    }
    learnt
}

/// What an exchange is put together with others by.
fn key(exchange: &Exchange, options: &Options) -> String {
    let session = settings_of::session(exchange, options);
    facts::key(exchange, session.as_ref())
}

/// The keys of some exchanges. Neighbours mostly have one server, and with it one key.
fn keys(exchanges: &[Exchange], options: &Options) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let mut last: Option<&Endpoint> = None;
    for exchange in exchanges {
        let server = exchange.server.as_ref();
        if server.is_none() || server != last {
            keys.insert(key(exchange, options));
            last = server;
        }
    }
    keys
}

/// What hangs together by a name of some kind.
fn node(kind: &str, name: &[u8]) -> u64 {
    let mut text = kind.as_bytes().to_vec();
    text.push(b' ');
    text.extend_from_slice(name);
    xxh3_64(&text)
}

fn host(ip: IpAddr) -> u64 {
    node("host", ip.to_canonical().to_string().as_bytes())
}

impl Lost {
    fn of(exchange: &Exchange, options: &Options) -> Self {
        let open = exchange.end.cause == EndCause::CaptureEnd;
        let given = exchange.response.as_ref();
        let given = given.and_then(|response| response.session_id.as_deref());
        Self {
            key: key(exchange, options),
            client: exchange.client.as_ref().and_then(Endpoint::ip),
            session: given.map(str::to_owned),
            from: (exchange.time().nanos(), exchange.place.input.0),
            until: (exchange.end.time.nanos(), exchange.end.place.input.0),
            open: open.then(|| inputs_of(exchange).map(|input| input.0).collect()),
        }
    }
}

impl Learnt {
    fn extend(&mut self, input: InputId, first: Timestamp, last: Timestamp) {
        let extent = self.extents.entry(input).or_insert((first, last));
        *extent = (first.min(extent.0), last.max(extent.1));
    }

    /// Notes what an exchange has in common with others.
    fn tie(&mut self, exchange: &Exchange, options: &Options) {
        let ties = self.ties.entry(key(exchange, options)).or_default();
        let mut add = |kind: &str, name: &[u8]| {
            ties.nodes.insert(node(kind, name));
        };
        let asked = exchange.asked_session();
        for id in [asked, exchange.given_session()].into_iter().flatten() {
            add("session", id.as_bytes());
        }
        if options.all_sse
            && let Some(id) = conclude::made_name(exchange)
        {
            add("session", id.as_bytes());
        }
        if let Some(request) = &exchange.request {
            add("service", mcp::session::service(exchange).as_bytes());
            if let Some(trace) = request.trace {
                add("trace", &{ trace.0 }.to_le_bytes());
            }
        }
        // An answer without its request may be the copy of another one, by other addresses.
        let whole = exchange.request.as_ref().is_some_and(|r| r.complete);
        if let ([_, Some(sequence)], false) = (exchange.sequences, whole) {
            add("answer", &sequence.to_le_bytes());
        }
        let ip = |end: &Option<Endpoint>| end.as_ref().and_then(Endpoint::ip);
        let (client, server) = (ip(&exchange.client), ip(&exchange.server));
        // On one machine every process has one address.
        let local = |ip: Option<IpAddr>| ip.is_some_and(|ip| ip.to_canonical().is_loopback());
        if local(client) || local(server) {
            add("machine", b"");
        }
        ties.nodes.extend(server.map(host));
        ties.clients.extend(client.map(host));
    }

    /// Adds what another part teaches.
    ///
    /// # Errors
    ///
    /// When it is of facts with other settings.
    pub fn merge(&mut self, other: Self) -> Result<(), Error> {
        match (&self.settings, &other.settings) {
            (Some(one), Some(two)) if one != two => {
                return Err(Error::new("it was learnt of facts with other options"));
            }
            (None, Some(_)) => self.settings = other.settings,
            _ => {}
        }
        for (key, ties) in other.ties {
            let own = self.ties.entry(key).or_default();
            own.nodes.extend(ties.nodes);
            own.clients.extend(ties.clients);
        }
        self.components.extend(other.components);
        self.samples.merge(other.samples);
        self.shown.merge(other.shown);
        for (input, (first, last)) in other.extents {
            self.extend(input, first, last);
        }
        self.servers.extend(other.servers);
        self.headless.extend(other.headless);
        self.torn.extend(other.torn);
        for (place, time) in other.issuers {
            let first = self.issuers.entry(place).or_insert(time);
            *first = time.min(*first);
        }
        self.torn_sessions.extend(other.torn_sessions);
        Ok(())
    }

    /// Finds the components: what hangs together, be it over others. What tied them is let go.
    pub fn conclude(&mut self) {
        let ties = std::mem::take(&mut self.ties);
        let mut joined = Joined::default();
        // A host that is asked: by the first key that asks it.
        let mut first: BTreeMap<u64, u32> = BTreeMap::new();
        for (number, ties) in (0..).zip(ties.values()) {
            joined.add();
            for &node in &ties.nodes {
                let other = *first.entry(node).or_insert(number);
                joined.join(other, number);
            }
        }
        for (number, ties) in (0..).zip(ties.values()) {
            for node in &ties.clients {
                if let Some(&other) = first.get(node) {
                    joined.join(other, number);
                }
            }
        }
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        for (number, key) in (0..).zip(ties.into_keys()) {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            let component = *numbers.entry(joined.root(number)).or_insert(next);
            self.components.insert(key, component);
        }
    }

    /// The components, by number, each with its keys.
    #[must_use]
    pub fn components(&self) -> BTreeMap<u32, Vec<&str>> {
        let mut components: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for (key, component) in &self.components {
            components.entry(*component).or_default().push(key);
        }
        components
    }

    /// Whether these exchanges can be audited with it.
    ///
    /// # Errors
    ///
    /// When it was not concluded, is of facts with other settings, or nothing was learnt of some of them.
    pub(super) fn check(&self, exchanges: &[Exchange], options: &Options) -> Result<(), Error> {
        if !self.ties.is_empty() {
            return Err(Error::new(
                "what was learnt of parts has to be put together first (learn --learnt)",
            ));
        }
        if self.settings() != settings_of::settings(options) {
            return Err(Error::new(
                "what was learnt is of facts that were extracted with other options",
            ));
        }
        let mut keys = keys(exchanges, options).into_iter();
        match keys.find(|key| !self.components.contains_key(key)) {
            Some(key) => Err(Error::new(format!(
                "nothing was learnt of exchanges of {}",
                key.escape_debug()
            ))),
            None => Ok(()),
        }
    }

    /// How the facts were read that it was learnt of.
    fn settings(&self) -> &str {
        self.settings.as_deref().unwrap_or_default()
    }

    pub(super) const fn samples(&self) -> &Samples {
        &self.samples
    }

    /// The servers of the sessions of the run.
    pub(super) const fn servers(&self) -> &BTreeSet<Endpoint> {
        &self.servers
    }

    /// From the first to the last of all exchanges, by the clock of the run.
    pub(super) fn times(&self, clocks: &Clocks) -> impl Iterator<Item = Timestamp> {
        let ends = self.extents.iter().flat_map(|(&input, &(first, last))| {
            [first, last].map(|time| clocks.of_run(input, time))
        });
        ends.collect::<Vec<_>>().into_iter()
    }

    /// What exchanges tell of inputs, by the clock of the run.
    pub(super) fn shown(&self, clocks: &Clocks) -> Shown {
        let mut shown = self.shown.clone();
        for (&input, (first, last)) in &mut shown.hars {
            *first = clocks.of_run(input, *first);
            *last = clocks.of_run(input, *last);
        }
        shown
    }

    /// What is elsewhere than in the components of these exchanges.
    pub(super) fn elsewhere(
        &self,
        exchanges: &[Exchange],
        options: &Options,
        clocks: &Clocks,
        coverage: &Coverage,
    ) -> Elsewhere {
        let keys = keys(exchanges, options);
        let own = keys.iter().filter_map(|key| self.components.get(key));
        let own: BTreeSet<u32> = own.copied().collect();
        let is_elsewhere = |key: &String| {
            let component = self.components.get(key);
            component.is_none_or(|component| !own.contains(component))
        };
        let at =
            |(time, input): Clocked| clocks.of_run(InputId(input), Timestamp::from_nanos(time));
        let headless = |lost: &Lost| {
            let until = at(lost.until);
            let open = lost.open.as_ref().and_then(|inputs| {
                let inputs = inputs.iter().copied().map(InputId).collect();
                coverage.covered(&inputs).window.last
            });
            Headless {
                client: lost.client,
                session: lost.session.as_deref().map(SessionId::from),
                from: at(lost.from),
                until: open.map_or(until, |end| end.max(until)),
            }
        };
        Elsewhere {
            headless: self
                .headless
                .iter()
                .filter(|lost| is_elsewhere(&lost.key))
                .map(headless)
                .collect(),
            torn: self.torn.iter().any(is_elsewhere),
            may_have_issued: self
                .issuers
                .iter()
                .filter(|((key, _), _)| is_elsewhere(key))
                .map(|((_, input), time)| clocks.of_run(*input, *time))
                .min(),
            torn_sessions: self
                .torn_sessions
                .iter()
                .filter(|(key, _)| is_elsewhere(key))
                .map(|(_, ends)| ends.clone())
                .collect(),
        }
    }

    /// Reads lines.
    ///
    /// # Errors
    ///
    /// When they cannot be read, are none of what was learnt, or are of another version.
    pub fn read(lines: impl BufRead) -> Result<Self, Error> {
        let mut learnt = Self::default();
        for (number, line) in (1_u64..).zip(lines.lines()) {
            let wrong = |why: &dyn std::fmt::Display| Error::new(format!("line {number}: {why}"));
            let line = line.map_err(|error| wrong(&error))?;
            let line = serde_json::from_str(&line).map_err(|error| wrong(&error))?;
            let mut part = Self::default();
            part.enter(line).map_err(|error| wrong(&error))?;
            learnt.merge(part).map_err(|error| wrong(&error))?;
        }
        match learnt.settings {
            Some(_) => Ok(learnt),
            None => Err(Error::new("nothing is in it that was learnt")),
        }
    }

    fn enter(&mut self, line: Line) -> Result<(), Error> {
        let end = |host: String, port: u16, named: bool| {
            if named {
                return Ok(Endpoint::Name(Arc::from(host), port));
            }
            let ip = host
                .parse()
                .map_err(|_| Error::new("a host is no address"))?;
            Ok(Endpoint::Address(SocketAddr::new(ip, port)))
        };
        let ids = |inputs: Vec<u32>| inputs.into_iter().map(InputId).collect::<Vec<_>>();
        let span = |first: i64, last: i64| {
            let (first, last) = (Timestamp::from_nanos(first), Timestamp::from_nanos(last));
            (first, last)
        };
        match line {
            Line::Learnt { version, settings } => {
                if version != VERSION {
                    return Err(Error::new(format!(
                        "it is of version {version}, and {VERSION} is read: learn it again"
                    )));
                }
                self.settings = Some(settings);
            }
            Line::Tie {
                key,
                nodes,
                clients,
            } => {
                let ties = Ties {
                    nodes: unpack(&nodes)?,
                    clients: unpack(&clients)?,
                };
                self.ties.insert(key, ties);
            }
            Line::Component { component, keys } => {
                self.components
                    .extend(keys.into_iter().map(|key| (key, component)));
            }
            Line::Clocks {
                inputs: (one, two),
                samples,
            } => {
                let samples = samples.into_iter();
                let samples = samples.map(|(round, digest, ahead, enough)| Sample {
                    rank: (round, digest),
                    ahead: Span::from_nanos(ahead),
                    enough,
                });
                let pair = (InputId(one), InputId(two));
                self.samples.of_pair.insert(pair, samples.collect());
            }
            Line::OnePlace { inputs: (one, two) } => {
                self.samples.one_place.insert((InputId(one), InputId(two)));
            }
            Line::Packets { input } => {
                self.samples.packets.insert(InputId(input));
            }
            Line::Har { input, first, last } => {
                self.shown.hars.insert(InputId(input), span(first, last));
            }
            Line::Extent { input, first, last } => {
                self.extents.insert(InputId(input), span(first, last));
            }
            Line::Connection { inputs } => {
                self.shown.connections.insert(ids(inputs));
            }
            Line::Session { inputs } => {
                self.shown.sessions.insert(ids(inputs));
            }
            Line::Shows {
                input,
                host,
                port,
                named,
            } => {
                let servers = self.shown.servers.entry(InputId(input)).or_default();
                servers.insert(end(host, port, named)?);
            }
            Line::Server { host, port, named } => {
                self.servers.insert(end(host, port, named)?);
            }
            Line::Headless(lost) => {
                self.headless.insert(lost);
            }
            Line::Torn { key } => {
                self.torn.insert(key);
            }
            Line::Issuer { key, time } => {
                let place = (key, InputId(time.1));
                self.issuers.insert(place, Timestamp::from_nanos(time.0));
            }
            Line::TornSession {
                key,
                clients,
                servers,
            } => {
                self.torn_sessions.insert((key, Ends { clients, servers }));
            }
        }
        Ok(())
    }

    /// Writes it as lines.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut put = |line: &Line| -> std::io::Result<()> {
            serde_json::to_writer(&mut *out, line)?;
            out.write_all(b"\n")
        };
        let numbers = |inputs: &[InputId]| inputs.iter().map(|input| input.0).collect::<Vec<_>>();
        let end = |end: &Endpoint| {
            let named = matches!(end, Endpoint::Name(..));
            (end.host(), end.port(), named)
        };
        put(&Line::Learnt {
            version: VERSION,
            settings: self.settings().to_owned(),
        })?;
        for (key, ties) in &self.ties {
            put(&Line::Tie {
                key: key.clone(),
                nodes: pack(&ties.nodes),
                clients: pack(&ties.clients),
            })?;
        }
        for (component, keys) in self.components() {
            let keys = keys.into_iter().map(str::to_owned).collect();
            put(&Line::Component { component, keys })?;
        }
        for (&(one, two), samples) in &self.samples.of_pair {
            let sample = |sample: &Sample| {
                let (round, digest) = sample.rank;
                (round, digest, sample.ahead.nanos(), sample.enough)
            };
            put(&Line::Clocks {
                inputs: (one.0, two.0),
                samples: samples.iter().map(sample).collect(),
            })?;
        }
        for &(one, two) in &self.samples.one_place {
            put(&Line::OnePlace {
                inputs: (one.0, two.0),
            })?;
        }
        for &input in &self.samples.packets {
            put(&Line::Packets { input: input.0 })?;
        }
        for (&input, &(first, last)) in &self.shown.hars {
            let (input, first, last) = (input.0, first.nanos(), last.nanos());
            put(&Line::Har { input, first, last })?;
        }
        for (&input, &(first, last)) in &self.extents {
            let (input, first, last) = (input.0, first.nanos(), last.nanos());
            put(&Line::Extent { input, first, last })?;
        }
        for inputs in &self.shown.connections {
            let inputs = numbers(inputs);
            put(&Line::Connection { inputs })?;
        }
        for inputs in &self.shown.sessions {
            let inputs = numbers(inputs);
            put(&Line::Session { inputs })?;
        }
        for (&input, servers) in &self.shown.servers {
            for (host, port, named) in servers.iter().map(end) {
                put(&Line::Shows {
                    input: input.0,
                    host,
                    port,
                    named,
                })?;
            }
        }
        for (host, port, named) in self.servers.iter().map(end) {
            put(&Line::Server { host, port, named })?;
        }
        for lost in &self.headless {
            put(&Line::Headless(lost.clone()))?;
        }
        for key in &self.torn {
            put(&Line::Torn { key: key.clone() })?;
        }
        for ((key, input), time) in &self.issuers {
            put(&Line::Issuer {
                key: key.clone(),
                time: (time.nanos(), input.0),
            })?;
        }
        for (key, ends) in &self.torn_sessions {
            put(&Line::TornSession {
                key: key.clone(),
                clients: ends.clients.clone(),
                servers: ends.servers.clone(),
            })?;
        }
        Ok(())
    }
}

/// Hashes as text.
fn pack(hashes: &BTreeSet<u64>) -> String {
    let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
    STANDARD_NO_PAD.encode(bytes)
}

fn unpack(text: &str) -> Result<BTreeSet<u64>, Error> {
    let bytes = STANDARD_NO_PAD.decode(text).ok();
    let bytes = bytes.filter(|bytes| bytes.len() % 8 == 0);
    let bytes = bytes.ok_or_else(|| Error::new("its hashes are none"))?;
    let hashes = bytes
        .chunks_exact(8)
        .filter_map(|hash| hash.try_into().ok());
    Ok(hashes.map(u64::from_le_bytes).collect())
}

/// What hangs together, by number.
#[derive(Debug, Default)]
struct Joined(Vec<u32>);

impl Joined {
    fn add(&mut self) {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.push(next);
    }

    fn root(&mut self, number: u32) -> u32 {
        let mut at = number;
        while let Some(&up) = self.0.get(at as usize)
            && up != at
        {
            // Halve the way, so that it stays short.
            let above = self.0.get(up as usize).copied().unwrap_or(up);
            if let Some(slot) = self.0.get_mut(at as usize) {
                *slot = above;
            }
            at = above;
        }
        at
    }

    fn join(&mut self, one: u32, two: u32) {
        let (one, two) = (self.root(one), self.root(two));
        if let Some(slot) = self.0.get_mut(one.max(two) as usize) {
            *slot = one.min(two);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(ties: &[(&str, &[u64], &[u64])]) -> Learnt {
        let mut learnt = Learnt {
            settings: Some(String::new()),
            ..Learnt::default()
        };
        for &(key, nodes, clients) in ties {
            let ties = Ties {
                nodes: nodes.iter().copied().collect(),
                clients: clients.iter().copied().collect(),
            };
            learnt.ties.insert(key.to_owned(), ties);
        }
        learnt
    }

    fn components(learnt: &Learnt) -> Vec<Vec<&str>> {
        learnt.components().into_values().collect()
    }

    #[test]
    fn what_hangs_together_over_others_is_one_component() {
        let mut all = learnt(&[
            ("a", &[1, 2], &[]),
            ("b", &[3], &[]),
            ("c", &[2, 4], &[]),
            ("d", &[4, 5], &[]),
        ]);
        all.conclude();
        assert_eq!(components(&all), [vec!["a", "c", "d"], vec!["b"]]);
    }

    #[test]
    fn who_asks_two_servers_joins_them_only_when_it_is_asked_itself() {
        let asks: [(&str, &[u64], &[u64]); 3] =
            [("a", &[1], &[9]), ("b", &[2], &[9]), ("c", &[3], &[8])];
        let mut all = learnt(&asks);
        all.conclude();
        assert_eq!(components(&all), [["a"], ["b"], ["c"]]);
        let mut all = learnt(&asks);
        all.merge(learnt(&[("d", &[9], &[])])).unwrap();
        all.conclude();
        assert_eq!(components(&all), [vec!["a", "b", "d"], vec!["c"]]);
    }

    #[test]
    fn parts_in_any_order_are_one() {
        let parts = [
            learnt(&[("a", &[1], &[7]), ("b", &[2], &[])]),
            learnt(&[("b", &[3], &[]), ("c", &[1, 3], &[])]),
        ];
        let mut lines = Vec::new();
        for part in parts.iter().rev() {
            part.write(&mut lines).unwrap();
        }
        let mut read = Learnt::read(&*lines).unwrap();
        read.conclude();
        assert_eq!(components(&read), [["a", "b", "c"]]);
        let mut other = learnt(&[]);
        other.settings = Some("--all-sse".to_owned());
        assert!(read.merge(other).is_err());
    }

    #[test]
    fn hashes_are_read_as_they_were_written() {
        let hashes = BTreeSet::from([0, 1, u64::MAX, 1 << 63]);
        assert_eq!(unpack(&pack(&hashes)).unwrap(), hashes);
        for wrong in ["A", "AAAA", "?"] {
            assert!(unpack(wrong).is_err(), "{wrong}");
        }
    }
}
