//! HAR entries → exchanges. What the producer did not record is a hole, never an empty body; what a
//! sanitizer wrote over names nothing.

use super::draft::{Asked, Draft, Head, Held, Settings};
use crate::{
    anomaly::{Anomalies, Kind},
    input::har::{Summary, is_masked_event_id, is_masked_id},
    mcp,
    model::{
        analysis::Input,
        event::Event,
        exchange::{End, EndCause, Exchange, Hole, HttpVersion, Media, Part, Scheme, Source},
        flow::Endpoint,
        har::{BodyState, HarEntry, HarEvent, HarFacts},
        id::SessionId,
        message::MessageKind,
        place::{At, InputId, Place},
        prose::{foreign, method, prose},
        time::{Span, Timestamp},
    },
    sse,
};
use foldhash::{HashSet, HashSetExt};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
};
use thin_vec::ThinVec;

/// A HAR as it is read: its exchanges, and what it can tell.
pub(super) struct Har {
    pub(super) input: InputId,
    pub(super) row: Input,
    pub(super) exchanges: Vec<Exchange>,
    /// [`HarEntry::request_hash`] of each exchange.
    hashes: Vec<u128>,
    pub(super) facts: HarFacts,
    pub(super) anomalies: Anomalies,
    /// Values of headers that hold credentials. One that is a session id as well is neither.
    credentials: HashSet<String>,
    held: Held,
}

impl Har {
    pub(super) fn new(input: InputId) -> Self {
        Self {
            input,
            row: Input::default(),
            exchanges: Vec::new(),
            hashes: Vec::new(),
            facts: HarFacts::default(),
            anomalies: Anomalies::default(),
            credentials: HashSet::new(),
            held: Held::default(),
        }
    }

    /// Takes an entry.
    pub(super) fn add(&mut self, entry: &HarEntry, settings: &Settings) {
        let place = Place {
            input: self.input,
            frame: entry.number,
            tcp_stream: None,
        };
        if entry.no_wire {
            self.facts.no_wire += 1;
            let version = || prose!("httpVersion {}", foreign(&entry.http_version));
            self.anomalies.note(Kind::NoWire, place, version);
            return;
        }
        let masked = Masked::of(entry, settings);
        let (mut exchange, odd) = exchange(entry, place, &self.held, settings);
        self.anomalies.merge(odd);
        for (name, value) in headers(entry) {
            let short = value.len() <= settings.limits.text;
            let room = self.credentials.len() < CREDENTIALS;
            if short && room && CREDENTIAL.iter().any(|of| name.eq_ignore_ascii_case(of)) {
                self.credentials.insert(value.trim().to_owned());
            }
        }
        if masked.session {
            self.hide_session(&mut exchange, settings);
        }
        if masked.cursor {
            self.facts.masked_cursors += 1;
            self.anomalies
                .note(Kind::MaskedId, place, || "Last-Event-ID");
            // Which stream it asked for is not known, nor so what its answer goes on with.
            if exchange.status().is_some_and(|status| status < 300) {
                hide_answer(&mut exchange);
            }
        }
        self.mask_events(&mut exchange);
        self.count(entry, &exchange);
        self.compact(&mut exchange);
        self.exchanges.push(exchange);
        self.hashes.push(entry.request_hash);
    }

    /// Takes no more memory for an exchange than it needs: a large HAR has hundreds of thousands.
    fn compact(&mut self, exchange: &mut Exchange) {
        exchange.holes.shrink_to_fit();
        if let Some(request) = &mut exchange.request {
            request.messages.shrink_to_fit();
        }
        if let Some(response) = &mut exchange.response {
            response.messages.shrink_to_fit();
            response.named.shrink_to_fit();
        }
    }

    /// Takes note that the session of an exchange was written over. Where nothing else names it, it
    /// may be of any session, and so may what it brought.
    fn hide_session(&mut self, exchange: &mut Exchange, settings: &Settings) {
        self.facts.masked_sessions += 1;
        self.anomalies.note(Kind::MaskedId, exchange.place, || {
            settings.session_header.clone()
        });
        if exchange
            .asked_session()
            .or(exchange.given_session())
            .is_none()
        {
            hide_answer(exchange);
        }
    }

    /// Takes the id from events where a sanitizer wrote it over: it is no id, and that it had none
    /// is not known either.
    fn mask_events(&mut self, exchange: &mut Exchange) {
        let is_masked = |event: &Event| {
            let id = event.id.map(|id| exchange.text(id));
            id.is_some_and(is_masked_event_id)
        };
        let masked = exchange.events.iter().filter(is_masked).count() as u64;
        if masked > 0 {
            let mut events = exchange.events.clone();
            events.edit(|event| event.id = event.id.filter(|_| !is_masked(event)));
            exchange.events = events;
            self.facts.masked_events += masked;
            let many = || prose!("ids of {} events", masked);
            self.anomalies.note(Kind::MaskedId, exchange.place, many);
            exchange.holes.push(Hole {
                part: Part::ResponseBody,
                bytes: 0,
                time: exchange.end.time,
                after_events: 0,
            });
        }
    }

    /// Counts what the entry tells.
    fn count(&mut self, entry: &HarEntry, exchange: &Exchange) {
        let facts = &mut self.facts;
        let place = exchange.place;
        if entry.made_up_times {
            facts.made_up += 1;
            let all = || "all are the entry's start";
            self.anomalies.note(Kind::MadeUpTimes, place, all);
        }
        if !exchange.events.is_empty() {
            facts.streams += 1;
            facts.timed += u64::from(is_timed(exchange));
        }
        let media = exchange.response.as_ref().map(|response| response.media);
        let tells = matches!(media, Some(Media::EventStream | Media::Json));
        if !tells || entry.body_state == BodyState::Empty {
            return;
        }
        facts.responses += 1;
        if is_recorded(entry) {
            facts.bodies += 1;
        } else if entry.undecodable {
            facts.undecodable += 1;
            let why = || "base64 that is none";
            self.anomalies.note(Kind::UndecodableBody, place, why);
        } else {
            let status = exchange.status().unwrap_or_default();
            self.anomalies.note(Kind::BodyNotRecorded, place, || {
                prose!("{} with status {}", method(exchange.method()), status)
            });
        }
    }

    /// Looks at the file as a whole, once it has been read.
    pub(super) fn finish(&mut self, summary: Option<&Summary>, settings: &Settings) {
        self.hide_constants(settings);
        if let Some(end) = summary
            .filter(|one| one.omits_open)
            .and_then(|one| one.last_time)
        {
            self.leave_open(end);
        }
        self.credentials = HashSet::new();
        self.held = Held::default();
    }

    /// Adds `span` to all times.
    pub(super) fn move_times(&mut self, span: Span) {
        let ahead = Span::from_nanos(span.nanos().saturating_neg());
        let clocks = mcp::vantage::Clocks::known([(self.input, ahead)]);
        for exchange in &mut self.exchanges {
            clocks.put_right(exchange);
        }
        let row = &mut self.row;
        for time in [&mut row.first_time, &mut row.last_time] {
            *time = time.map(|time| time.plus(span));
        }
    }

    /// Where a stream that is open at the export is not in the file, what a session's GETs brought is
    /// not known from its last one on.
    fn leave_open(&mut self, end: Timestamp) {
        let mut last: BTreeMap<SessionId, (Timestamp, usize)> = BTreeMap::new();
        for (index, exchange) in self.exchanges.iter().enumerate() {
            let (asked, given) = (exchange.asked_session(), exchange.given_session());
            let Some(id) = asked.or(given).filter(|_| exchange.method() == "GET") else {
                continue;
            };
            let place = (exchange.time(), index);
            match last.get_mut(id) {
                Some(known) => *known = place.max(*known),
                None => {
                    last.insert(id.clone(), place);
                }
            }
        }
        for (_, index) in last.into_values() {
            if let Some(exchange) = self.exchanges.get_mut(index) {
                exchange.holes.push(Hole {
                    part: Part::ResponseBody,
                    bytes: 0,
                    time: end.max(exchange.end.time),
                    after_events: u32::try_from(exchange.events.len()).unwrap_or(u32::MAX),
                });
            }
        }
    }

    /// Hides session ids that are one text for all: what stands in place of a credential as well, and
    /// what two servers issued one after the other. (Both sides of a proxy see one id, at one time.)
    fn hide_constants(&mut self, settings: &Settings) {
        let mut constants: BTreeSet<SessionId> = BTreeSet::new();
        let mut issued: BTreeMap<&SessionId, Vec<(&str, Timestamp, Timestamp)>> = BTreeMap::new();
        for exchange in &self.exchanges {
            let (asked, given) = (exchange.asked_session(), exchange.given_session());
            for id in [asked, given].into_iter().flatten() {
                if self.credentials.contains(&**id) && !constants.contains(id) {
                    constants.insert(id.clone());
                }
            }
            let Some(id) = given.filter(|_| exchange.is_initialize()) else {
                continue;
            };
            let host = exchange
                .request
                .as_ref()
                .map_or("", |request| &*request.host);
            let known = issued.entry(id).or_default();
            if known.len() < ISSUED {
                known.push((host, exchange.time(), exchange.end.time));
            }
        }
        for (id, times) in issued {
            let lone = |&&(host, start, end): &&(&str, Timestamp, Timestamp)| {
                let beside = |&(other, from, to): &(&str, Timestamp, Timestamp)| {
                    other != host && start <= to && from <= end
                };
                !times.iter().any(beside)
            };
            let hosts: BTreeSet<&str> = times.iter().filter(lone).map(|(host, ..)| *host).collect();
            if hosts.len() > 1 {
                constants.insert(id.clone());
            }
        }
        if constants.is_empty() {
            return;
        }
        let mut exchanges = std::mem::take(&mut self.exchanges);
        for exchange in &mut exchanges {
            let masked = |id: &mut Option<SessionId>| {
                let is = id.as_ref().is_some_and(|id| constants.contains(id));
                if is {
                    *id = None;
                }
                is
            };
            let asked = exchange.request.as_mut().map(|r| masked(&mut r.session_id));
            let given = exchange
                .response
                .as_mut()
                .map(|r| masked(&mut r.session_id));
            if asked == Some(true) || given == Some(true) {
                self.hide_session(exchange, settings);
            }
        }
        self.exchanges = exchanges;
    }
}

/// Which ids of an entry a sanitizer wrote over.
struct Masked {
    session: bool,
    cursor: bool,
}

impl Masked {
    fn of(entry: &HarEntry, settings: &Settings) -> Self {
        let session = headers(entry).any(|(name, value)| {
            name.eq_ignore_ascii_case(&settings.session_header) && is_masked_id(value)
        });
        let cursor = entry.request_headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("last-event-id") && is_masked_event_id(value)
        });
        Self { session, cursor }
    }
}

fn headers(entry: &HarEntry) -> impl Iterator<Item = (&str, &str)> {
    let (request, response) = (&entry.request_headers, &entry.response_headers);
    let all = request.iter().chain(response);
    all.map(|(name, value)| (name.as_str(), value.as_str()))
}

/// Marks an answer as one that may be another's: what it belongs to is not known.
fn hide_answer(exchange: &mut Exchange) {
    exchange.holes.push(Hole {
        part: Part::ResponseHead,
        bytes: 0,
        time: exchange.end.time,
        after_events: 0,
    });
}

/// Whether the events of an exchange have times of their own.
const fn is_timed(exchange: &Exchange) -> bool {
    matches!(
        exchange.source,
        Source::Har {
            event_times: true,
            ..
        }
    )
}

/// Whether the body of a response, or its events, are in the file.
fn is_recorded(entry: &HarEntry) -> bool {
    let events = entry
        .events
        .as_ref()
        .is_some_and(|events| !events.is_empty());
    events || entry.body_state != BodyState::NotRecorded
}

/// Leaves one of each exchange that HARs show more than once: the one that tells most, else the first.
///
/// A user saves twice, the later file holds the earlier one, a tool puts both into one: the same
/// request, begun at the same instant, whose answer was less far when it was saved first.
pub(super) fn leave_out_copies(hars: &mut [Har]) {
    let mut places: Vec<(u128, usize, usize)> = Vec::new();
    for (har, read) in hars.iter().enumerate() {
        let hashes = read.hashes.iter().enumerate();
        places.extend(hashes.map(|(index, &hash)| (hash, har, index)));
    }
    places.sort_unstable();
    let mut left_out: BTreeSet<(usize, usize)> = BTreeSet::new();
    for group in places.chunk_by(|one, two| one.0 == two.0) {
        let mut kept: Vec<(usize, usize)> = Vec::new();
        for &(_, har, index) in group {
            let at = |(har, index): (usize, usize)| hars.get(har)?.exchanges.get(index);
            let Some(new) = at((har, index)) else {
                continue;
            };
            let known = kept
                .iter_mut()
                .take(LOOKED_AT)
                .find(|known| at(**known).is_some_and(|old| is_copy(old, new, known.0 == har)));
            let Some(known) = known else {
                kept.push((har, index));
                continue;
            };
            let better = at(*known).is_some_and(|old| told(new) > told(old));
            let (winner, loser) = if better {
                ((har, index), std::mem::replace(known, (har, index)))
            } else {
                (*known, (har, index))
            };
            left_out.insert(loser);
            let Some(place) = at(loser).map(|exchange| exchange.place) else {
                continue;
            };
            let more = at(loser).map_or_else(ThinVec::new, |loser| loser.more_places.clone());
            if let Some(read) = hars.get_mut(loser.0) {
                read.anomalies.note(
                    Kind::DuplicateEntry,
                    place,
                    || "the same request, told as well or better elsewhere",
                );
            }
            let winner = hars
                .get_mut(winner.0)
                .and_then(|read| read.exchanges.get_mut(winner.1));
            if let Some(winner) = winner {
                for place in more.into_iter().chain([place]) {
                    let is_other = |known: &Place| known.input != place.input;
                    if is_other(&winner.place) && winner.more_places.iter().all(is_other) {
                        winner.more_places.push(place);
                    }
                }
            }
        }
    }
    if left_out.is_empty() {
        return;
    }
    for (har, read) in hars.iter_mut().enumerate() {
        let mut index = 0;
        read.exchanges.retain(|_| {
            index += 1;
            !left_out.contains(&(har, index - 1))
        });
        // They stood beside the exchanges.
        read.hashes.clear();
    }
}

/// Whether two records of one request are of one exchange: their answers do not contradict, and one
/// of them was not finished, or both say the same. A file alone holds no exchange twice that is
/// finished in both.
fn is_copy(one: &Exchange, two: &Exchange, one_file: bool) -> bool {
    fn differ<T: PartialEq>(one: &Option<T>, two: &Option<T>) -> bool {
        one.is_some() && two.is_some() && one != two
    }
    let ((asked, given), (other_asked, other_given)) = (
        (one.asked_session(), one.given_session()),
        (two.asked_session(), two.given_session()),
    );
    let cursor = |exchange: &Exchange| {
        let request = exchange.request.as_ref();
        request.and_then(|request| request.last_event_id.clone())
    };
    if differ(&asked, &other_asked)
        || differ(&given, &other_given)
        || cursor(one) != cursor(two)
        || differ(&one.status(), &two.status())
    {
        return false;
    }
    let finished = |exchange: &Exchange| {
        let response = exchange.response.as_ref();
        response.is_some_and(|response| response.complete)
    };
    let both = finished(one) && finished(two);
    if both && (one_file || one.events.len() != two.events.len()) {
        return false;
    }
    let messages = |exchange: &Exchange| {
        let response = exchange.response.as_ref();
        response
            .map(|response| &response.messages)
            .filter(|messages| !messages.is_empty())
            .map(|messages| {
                messages
                    .iter()
                    .map(|message| message.hash)
                    .collect::<Vec<_>>()
            })
    };
    let same = one.events.iter().zip(&two.events).all(|(one, two)| {
        let hidden = one.message == MessageKind::Redacted || two.message == MessageKind::Redacted;
        hidden || one.hash == two.hash
    });
    same && !differ(&messages(one), &messages(two))
}

/// How much a record tells, in order of weight.
fn told(exchange: &Exchange) -> impl Ord {
    let response = exchange.response.as_ref();
    let (asked, given) = (exchange.asked_session(), exchange.given_session());
    let plain = exchange
        .events
        .iter()
        .filter(|event| event.message != MessageKind::Redacted)
        .count();
    (
        response.is_some(),
        response.is_some_and(|response| response.complete),
        !exchange.body_has_hole(),
        exchange.events.len(),
        plain,
        is_timed(exchange),
        asked.or(given).is_some(),
    )
}

/// Drafts an entry.
fn exchange(
    entry: &HarEntry,
    place: Place,
    held: &Held,
    settings: &Settings,
) -> (Exchange, Anomalies) {
    let started = At {
        time: entry.started,
        place,
        offset: 0,
    };
    let after = |span: Option<Span>| {
        span.map_or(started, |span| At {
            time: entry.started.plus(span),
            ..started
        })
    };
    let sent = after(entry.sent);
    let waited = after(entry.waited.or(entry.duration));
    let end = after(entry.duration.or(entry.waited));
    let recorded = is_recorded(entry);
    let mut draft = Draft::new(
        place,
        Source::Har {
            bodies: recorded,
            event_times: false,
        },
        held,
    );
    let url = Url::of(&entry.url);
    draft.ends(None, url.endpoint(entry.server_ip.as_deref()));

    let mut headers = readable(&entry.request_headers);
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"))
    {
        headers.push(("host", url.authority.as_bytes()));
    }
    let asked = Asked {
        method: &entry.method,
        target: url.target,
        version: version(&entry.http_version),
        scheme: url.scheme,
        head: Head { headers: &headers },
    };
    draft.request(&asked, (started, sent), settings);
    if let Some(body) = &entry.request_body {
        draft.request_body(body, settings);
    }
    draft.request_end(true, sent, settings);

    if let Some(status) = entry.status {
        let headers = readable(&entry.response_headers);
        draft.response(
            status,
            &Head { headers: &headers },
            &entry.mime,
            waited,
            settings,
        );
        respond(&mut draft, entry, waited, recorded, settings);
    }
    let (mut exchange, anomalies) = draft.finish();
    let last = exchange
        .events
        .last()
        .map_or(end.time, |event| event.time.max(end.time));
    exchange.end = End {
        time: last,
        place,
        cause: EndCause::Unknown,
        last_acknowledged: None,
    };
    (exchange, anomalies)
}

/// Headers but for those that a sanitizer wrote over: one text in all of them would join what has
/// nothing to do with each other. A cursor stays, so that it is known that there was one.
fn readable(headers: &[(String, String)]) -> Vec<(&str, &[u8])> {
    headers
        .iter()
        .filter(|(name, value)| name.eq_ignore_ascii_case("last-event-id") || !is_masked_id(value))
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect()
}

fn respond(draft: &mut Draft, entry: &HarEntry, waited: At, recorded: bool, settings: &Settings) {
    let body = entry.response_body.as_deref().unwrap_or_default();
    let whole =
        matches!(entry.body_state, BodyState::Whole | BodyState::Empty) && entry.error.is_none();
    let is_stream = draft.exchange.is_event_stream();
    let told = entry.events.as_deref().filter(|_| is_stream);
    match told {
        Some(events) if body.is_empty() => {
            for event in events_of(events, waited) {
                let redacted = event.data.is_none();
                draft.event(&event.as_sse(), settings);
                if redacted && let Some(facts) = draft.events.last_mut() {
                    facts.message = MessageKind::Redacted;
                    facts.has_data = true;
                }
            }
        }
        _ => draft.response_body(body, waited, settings),
    }
    let timed = told.is_some_and(|events| {
        let any = events.iter().any(|event| event.time.is_some());
        any && (body.is_empty() || lend_times(&mut draft.events, events))
    });
    if let Source::Har { event_times, .. } = &mut draft.exchange.source {
        *event_times = timed;
    }
    if entry.undecodable {
        draft.undecodable();
    }
    if !recorded && !matches!(entry.status, Some(204 | 304)) {
        draft.hole(Part::ResponseBody, 0, waited);
    }
    draft.response_end(whole, body.len() as u64, settings);
}

/// An event as Chrome tells it, made an event of its own: a persisted id that is only the last one
/// again says nothing about this event's own.
struct Told<'a> {
    id: Option<&'a str>,
    name: Option<&'a str>,
    data: Option<&'a str>,
    at: At,
}

impl Told<'_> {
    fn as_sse(&self) -> sse::Event<'_> {
        sse::Event {
            id: self.id,
            event_type: self.name,
            data: self.data,
            retry: None,
            at: self.at,
            after_hole: false,
            oversize: false,
        }
    }
}

fn events_of(events: &[HarEvent], waited: At) -> impl Iterator<Item = Told<'_>> {
    let mut last = "";
    events.iter().map(move |event| {
        let own = (event.id != last).then_some(event.id.as_str());
        last = &event.id;
        Told {
            id: own.filter(|id| !id.is_empty()),
            name: (!event.name.is_empty() && event.name != "message")
                .then_some(event.name.as_str()),
            data: event.data.as_deref(),
            at: At {
                time: event.time.unwrap_or(waited.time),
                ..waited
            },
        }
    })
}

/// A body that was recorded whole tells its events best; their times are told beside it, for those
/// that a browser dispatches. Says whether they fit.
fn lend_times(facts: &mut [Event], events: &[HarEvent]) -> bool {
    let dispatched = facts.iter().filter(|event| event.has_data).count();
    if dispatched != events.len() {
        return false;
    }
    let mut times = events.iter().map(|event| event.time);
    for event in facts.iter_mut().filter(|event| event.has_data) {
        if let Some(Some(time)) = times.next() {
            event.time = time;
        }
    }
    true
}

struct Url<'a> {
    scheme: Scheme,
    authority: &'a str,
    target: &'a str,
}

impl<'a> Url<'a> {
    fn of(url: &'a str) -> Self {
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Scheme::Https, rest),
            Some((_, rest)) => (Scheme::Http, rest),
            None => (Scheme::Http, url),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let authority = authority.rsplit('@').next().unwrap_or(authority);
        Self {
            scheme,
            authority,
            target: if target.is_empty() { "/" } else { target },
        }
    }

    fn endpoint(&self, ip: Option<&str>) -> Option<Endpoint> {
        let default = match self.scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        };
        let (host, port) = match self.authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().unwrap_or(default)),
            _ => (self.authority, default),
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = ip
            .and_then(|ip| ip.parse().ok())
            .or_else(|| bare.parse().ok());
        match address {
            Some(ip) => Some(Endpoint::Address(SocketAddr::new(ip, port))),
            None if host.is_empty() => None,
            None => Some(Endpoint::Name(Arc::from(host.to_ascii_lowercase()), port)),
        }
    }
}

fn version(text: &str) -> HttpVersion {
    match text.to_ascii_lowercase().as_str() {
        "http/1.0" => HttpVersion::Http10,
        "http/1.1" => HttpVersion::Http11,
        "h2" | "http/2" | "http/2.0" => HttpVersion::Http2,
        "h3" | "http/3" | "http/3.0" => HttpVersion::Http3,
        _ => HttpVersion::Unknown,
    }
}

/// Headers whose value is no session id: a cookie has a name, credentials have a scheme.
const CREDENTIAL: [&str; 4] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
];

/// Values of such headers that are remembered of one file.
const CREDENTIALS: usize = 4096;

/// Times one id was issued that are compared.
const ISSUED: usize = 16;

/// Records of one request that are compared with each other.
const LOOKED_AT: usize = 8;
