//! Ends of connections.

use super::time::{Span, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// One end of an exchange, as it is shown: `HOST:PORT`, IPv6 in brackets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// An address and port seen in packets, or told by a HAR.
    Address(SocketAddr),
    /// A host name and port; only a HAR without `serverIPAddress` has no more than that.
    Name(Arc<str>, u16),
}

impl Endpoint {
    /// The address, where there is one.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(address.ip()),
            Self::Name(..) => None,
        }
    }

    /// The host alone, without port.
    #[must_use]
    pub fn host(&self) -> String {
        match self {
            Self::Address(address) => address.ip().to_string(),
            Self::Name(name, _) => name.to_string(),
        }
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Name(_, port) => *port,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

/// One of the two ends of a TCP connection. Which of them is the client is decided by what they
/// say (HTTP), not by who is named first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that opened the connection as far as packets tell (sent the SYN, or spoke first).
    A,
    /// The other end.
    B,
}

impl Side {
    /// The other side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// Its letter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }

    /// 0 for `A`, 1 for `B`.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::A => 0,
            Self::B => 1,
        }
    }
}

/// What packets show of servers beside their exchanges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// When they refused connections.
    pub refused: RefusedConnections,
    /// When they were asked for connections and their answer is not in the capture: they may have refused.
    pub unanswered: RefusedConnections,
    /// Which connections the capture does not show whole.
    pub torn: TornConnections,
    /// Where exchanges may lie of which nothing is in the capture.
    pub blanks: Blanks,
}

impl ServerFacts {
    /// Takes those of another part of the run.
    pub fn merge(&mut self, other: Self) {
        self.refused.merge(other.refused);
        self.unanswered.merge(other.unanswered);
        self.torn.merge(other.torn);
        self.blanks.merge(other.blanks);
    }

    /// Calls all hosts and ends otherwise; what were two has to be two.
    pub fn rename(
        &mut self,
        host: impl Fn(IpAddr) -> IpAddr,
        end: impl Fn(SocketAddr) -> SocketAddr,
    ) {
        let Self {
            refused,
            unanswered,
            torn,
            blanks,
        } = self;
        for refused in [refused, unanswered] {
            let times = std::mem::take(&mut refused.times).into_iter();
            refused.times = times.map(|(server, times)| (end(server), times)).collect();
        }
        let ends = std::mem::take(&mut torn.ends).into_iter();
        torn.ends = ends.map(|(of, span)| (end(of), span)).collect();
        for Blank {
            client,
            server,
            from: _,
            until: _,
        } in &mut blanks.all
        {
            (*client, *server) = (host(*client), end(*server));
        }
        blanks.all.sort_unstable();
    }

    /// Takes what is missing as missing by other clocks as well, which are ahead by these spans: of what is
    /// not in the capture it is not known which input lacks it.
    pub fn put_back(&mut self, spans: &BTreeSet<Span>) {
        self.blanks.put_back(spans);
        self.torn.put_back(spans);
    }
}

/// A time by a clock that is ahead by a span, as one that is right tells it.
fn put_back(time: Timestamp, ahead: Span) -> Timestamp {
    time.plus(Span::from_nanos(ahead.nanos().saturating_neg()))
}

/// Clocks by which what is missing is told again; with more, it may be missing anywhere.
const CLOCKS: usize = 4;

/// A time in which a request and its response may both be missing from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blank {
    /// The client's host.
    pub client: IpAddr,
    /// The server.
    pub server: SocketAddr,
    /// When the last request before it began, or the connection.
    pub from: Timestamp,
    /// When the next response came, or the connection ended; the end of the evidence while it is open.
    pub until: Timestamp,
}

/// Where exchanges may lie of which nothing is in the capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blanks {
    all: Vec<Blank>,
    /// There were more than are remembered.
    more: bool,
}

impl Blanks {
    /// Takes note of one; of no more than `limit` in all.
    pub fn note(&mut self, blank: Blank, limit: usize) {
        if self.all.len() < limit {
            self.all.push(blank);
        } else {
            self.more = true;
        }
    }

    /// Leaves those that `concern` somebody.
    pub fn retain(&mut self, concern: impl FnMut(&mut Blank) -> bool) {
        self.all.retain_mut(concern);
    }

    /// All that are remembered.
    pub fn iter(&self) -> impl Iterator<Item = &Blank> {
        self.all.iter()
    }

    /// Whether there were more than are remembered: any connection may have them.
    #[must_use]
    pub const fn are_more(&self) -> bool {
        self.more
    }

    /// Takes note that there are more than are remembered.
    pub const fn note_more(&mut self) {
        self.more = true;
    }

    fn put_back(&mut self, spans: &BTreeSet<Span>) {
        self.more |= spans.len() > CLOCKS && !self.all.is_empty();
        let known = self.all.len();
        for &ahead in spans.iter().take(CLOCKS) {
            self.all.extend_from_within(..known);
            for blank in self.all.iter_mut().rev().take(known) {
                blank.from = put_back(blank.from, ahead);
                blank.until = put_back(blank.until, ahead);
            }
        }
        self.all.sort_unstable();
    }

    fn merge(&mut self, other: Self) {
        self.all.extend(other.all);
        self.all.sort_unstable();
        self.more |= other.more;
    }
}

/// Ends of connections of which bytes are missing: whole exchanges may be among those.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TornConnections {
    /// When they were torn: from the beginning of the first such connection to the last hole.
    ends: BTreeMap<SocketAddr, (Timestamp, Timestamp)>,
    /// There were more than are remembered: it may be any.
    any: bool,
}

impl TornConnections {
    /// Takes note of an end of a torn connection, when that began and when bytes were missed last; of no
    /// more than `limit` ends.
    pub fn note(&mut self, end: SocketAddr, (from, to): (Timestamp, Timestamp), limit: usize) {
        let full = self.ends.len() >= limit;
        match self.ends.entry(end) {
            Entry::Occupied(mut known) => {
                let (first, last) = *known.get();
                known.insert((first.min(from), last.max(to)));
            }
            Entry::Vacant(_) if full => self.any = true,
            Entry::Vacant(new) => {
                new.insert((from, to));
            }
        }
    }

    /// Whether a connection with this end may be torn.
    #[must_use]
    pub fn has(&self, end: &Endpoint) -> bool {
        match end {
            Endpoint::Address(address) => self.any || self.ends.contains_key(address),
            Endpoint::Name(..) => false,
        }
    }

    /// Whether a connection with this end may have been torn between two times.
    #[must_use]
    pub fn between(&self, end: &Endpoint, from: Timestamp, to: Timestamp) -> bool {
        match end {
            Endpoint::Address(address) => {
                let span = self.ends.get(address);
                self.any || span.is_some_and(|(first, last)| *first <= to && *last >= from)
            }
            Endpoint::Name(..) => false,
        }
    }

    /// When connections of each host were torn: in order of their beginning, each with the last hole of
    /// those that had begun by then.
    #[must_use]
    pub fn by_host(&self) -> BTreeMap<IpAddr, Vec<(Timestamp, Timestamp)>> {
        let mut hosts: BTreeMap<IpAddr, Vec<(Timestamp, Timestamp)>> = BTreeMap::new();
        for (end, span) in &self.ends {
            hosts.entry(end.ip()).or_default().push(*span);
        }
        for spans in hosts.values_mut() {
            spans.sort_unstable();
            let mut latest = Timestamp::from_nanos(i64::MIN);
            for (_, until) in spans {
                latest = latest.max(*until);
                *until = latest;
            }
        }
        hosts
    }

    /// Whether there were more than are remembered: any connection may be torn.
    #[must_use]
    pub const fn may_be_any(&self) -> bool {
        self.any
    }

    /// All ends that are remembered, and when each was torn.
    pub fn iter(&self) -> impl Iterator<Item = (SocketAddr, (Timestamp, Timestamp))> + '_ {
        self.ends.iter().map(|(&end, &span)| (end, span))
    }

    /// Takes note that there are more than are remembered.
    pub const fn note_more(&mut self) {
        self.any = true;
    }

    fn put_back(&mut self, spans: &BTreeSet<Span>) {
        self.any |= spans.len() > CLOCKS && !self.ends.is_empty();
        for (from, until) in self.ends.values_mut() {
            let (first, last) = (*from, *until);
            for &ahead in spans.iter().take(CLOCKS) {
                *from = put_back(first, ahead).min(*from);
                *until = put_back(last, ahead).max(*until);
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.any |= other.any;
        for (end, span) in other.ends {
            self.note(end, span, usize::MAX);
        }
    }
}

/// When servers refused connections: the resets with which they answered a SYN (RFC 9293,
/// section 3.5.2, group 1). Nobody listened there: the server was not up, or is down again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedConnections {
    /// By server, in order of time once all are in.
    times: BTreeMap<SocketAddr, Vec<Timestamp>>,
    len: usize,
}

/// Refusals closer than this are one: a client that tries again at once tells nothing new.
const ONE_REFUSAL: Span = Span::from_millis(100);

/// Those that were noted already: none is left out.
impl FromIterator<(SocketAddr, Timestamp)> for RefusedConnections {
    fn from_iter<I: IntoIterator<Item = (SocketAddr, Timestamp)>>(all: I) -> Self {
        let mut refused = Self::default();
        for (server, time) in all {
            refused.times.entry(server).or_default().push(time);
            refused.len += 1;
        }
        for times in refused.times.values_mut() {
            times.sort_unstable();
        }
        refused
    }
}

impl RefusedConnections {
    /// Takes note of a refusal; of no more than `limit` in all.
    pub fn note(&mut self, server: SocketAddr, time: Timestamp, limit: usize) {
        if self.len >= limit {
            return;
        }
        let times = self.times.entry(server).or_default();
        if times
            .last()
            .is_none_or(|last| time.since(*last) >= ONE_REFUSAL || time < *last)
        {
            times.push(time);
            self.len += 1;
        }
    }

    /// Takes those that others noted.
    pub fn merge(&mut self, other: Self) {
        self.len += other.len;
        for (server, more) in other.times {
            let times = self.times.entry(server).or_default();
            times.extend(more);
            times.sort_unstable();
        }
    }

    /// All of them, by server and in order of time.
    pub fn iter(&self) -> impl Iterator<Item = (SocketAddr, Timestamp)> + '_ {
        let times = self.times.iter();
        times.flat_map(|(&server, times)| times.iter().map(move |&time| (server, time)))
    }

    /// When a server refused a connection first.
    #[must_use]
    pub fn first(&self, server: &Endpoint) -> Option<Timestamp> {
        self.of(server).first().copied()
    }

    /// Whether a server refused a connection between two times.
    #[must_use]
    pub fn between(&self, server: &Endpoint, from: Timestamp, to: Timestamp) -> bool {
        let times = self.of(server);
        let place = times.partition_point(|&time| time < from);
        times.get(place).is_some_and(|&time| time <= to)
    }

    fn of(&self, server: &Endpoint) -> &[Timestamp] {
        match server {
            Endpoint::Address(address) => self.times.get(address).map_or(&[], Vec::as_slice),
            Endpoint::Name(..) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_nanos(0).plus(Span::from_millis(millis))
    }

    #[test]
    fn refusals_are_found_by_server_and_time() {
        let address: SocketAddr = "10.0.0.9:3000".parse().unwrap();
        let server = Endpoint::Address(address);
        let mut late = RefusedConnections::default();
        late.note(address, at(5000), 10);
        let mut early = RefusedConnections::default();
        early.note(address, at(1000), 10);
        early.note(address, at(1050), 10);
        late.merge(early);
        assert_eq!(late.first(&server), Some(at(1000)));
        assert!(late.between(&server, at(1001), at(5000)));
        assert!(
            !late.between(&server, at(1001), at(4999)),
            "1050 is the same"
        );
        let other = Endpoint::Address("10.0.0.9:3001".parse().unwrap());
        assert_eq!(late.first(&other), None);
        let named = Endpoint::Name(Arc::from("mcp.example"), 3000);
        assert_eq!(late.first(&named), None);
    }

    #[test]
    fn torn_connections_are_found_by_end_host_and_time() {
        let address = |port| SocketAddr::from(([10, 0, 0, 9], port));
        let end = |port| Endpoint::Address(address(port));
        let mut torn = TornConnections::default();
        torn.note(address(1), (at(0), at(1000)), 2);
        torn.note(address(2), (at(5000), at(6000)), 2);
        torn.note(address(1), (at(2000), at(3000)), 2);
        assert!(torn.has(&end(1)) && !torn.has(&end(3)));
        assert!(torn.between(&end(1), at(3000), at(9000)));
        assert!(!torn.between(&end(1), at(3001), at(9000)));
        torn.note(address(2), (at(-5000), at(-4000)), 2);
        let hosts = torn.by_host();
        assert_eq!(hosts.len(), 1);
        assert_eq!(
            hosts[&IpAddr::from([10, 0, 0, 9])],
            [(at(-5000), at(6000)), (at(0), at(6000))]
        );
        assert!(!torn.may_be_any());
        // What is not remembered may be any.
        torn.note(address(3), (at(0), at(0)), 2);
        assert!(torn.has(&end(4)) && torn.may_be_any());
    }

    #[test]
    fn no_more_are_kept_than_allowed() {
        let mut refused = RefusedConnections::default();
        for port in 1..100 {
            refused.note(SocketAddr::from(([10, 0, 0, 9], port)), at(0), 10);
        }
        assert_eq!(refused.times.values().map(Vec::len).sum::<usize>(), 10);
    }
}
