//! Heads, body bytes and events → one exchange's facts. The same for every road: packets and HAR
//! entries are drafted alike.

use super::{naming, texts::Texts};
use crate::{
    anomaly::{Anomalies, Kind},
    limits::Limits,
    mcp::message,
    model::{
        event::{BatchedAnswer, Event, Text},
        exchange::{
            BackendName, Exchange, Greeting, Hole, HttpVersion, Media, Part, Request, Response,
            Scheme, Source,
        },
        flow::Endpoint,
        id::SessionId,
        message::{MessageKind, Subject},
        place::{At, Place},
        prose::{self, Prose},
    },
    sse,
};
use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// What drafting needs to know of the run.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) limits: Limits,
    pub(super) session_header: String,
    pub(super) incarnation_header: Option<String>,
    pub(super) backend_headers: Vec<String>,
    /// Any event data is a message.
    pub(super) all_sse: bool,
}

/// A head, as every road gives it.
pub(super) struct Head<'a> {
    pub(super) headers: &'a [(&'a str, &'a [u8])],
}

impl<'a> Head<'a> {
    fn all<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.headers
            .iter()
            .filter(move |(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value)
    }

    fn text(&self, name: &str, limits: &Limits) -> Option<Cow<'a, str>> {
        self.all(name).next().map(|value| lossy(value, limits))
    }
}

/// A request's head, as every road gives it.
pub(super) struct Asked<'a> {
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    pub(super) version: HttpVersion,
    /// What the road knows; an absolute target overrules it.
    pub(super) scheme: Scheme,
    pub(super) head: Head<'a>,
}

/// What the exchanges of one shard have in common. One shard's alone: what others hold at the same moment depends
/// on threads.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Arc<Common>);

#[derive(Debug, Default)]
struct Common {
    /// Bytes of bodies that they hold until they end ([`Limits::held_bodies`]).
    bytes: AtomicUsize,
    texts: Mutex<Texts>,
}

impl Held {
    /// The texts of their heads. (What panicked beside it left them whole.)
    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.0.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one exchange holds of them.
#[derive(Debug, Default)]
struct Share {
    all: Held,
    own: usize,
}

impl Share {
    /// It is so many bytes now; says whether all are within `most`.
    fn set(&mut self, bytes: usize, most: usize) -> bool {
        if bytes == self.own {
            return true;
        }
        let others = self
            .all
            .0
            .bytes
            .load(Ordering::Relaxed)
            .saturating_sub(self.own);
        let all = others.saturating_add(bytes);
        self.all.0.bytes.store(all, Ordering::Relaxed);
        self.own = bytes;
        all <= most
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0, usize::MAX);
    }
}

/// An exchange being drafted.
pub(super) struct Draft {
    pub(super) exchange: Exchange,
    /// Its events; packed when it ends.
    pub(super) events: Vec<Event>,
    request_body: Vec<u8>,
    keep_request_body: bool,
    response: Body,
    /// Sticky cookies that the client brought: the balancer is asked for that backend.
    cookies: Vec<BackendName>,
    anomalies: Anomalies,
    share: Share,
}

/// What is done with a response's body.
enum Body {
    /// Nothing in it matters.
    Pass,
    /// Kept until it ends: JSON, or the text of a refusal.
    Keep(Vec<u8>, usize),
    Events(Box<sse::Parser>),
}

impl Draft {
    pub(super) fn new(place: Place, source: Source, held: &Held) -> Self {
        Self {
            exchange: Exchange {
                place,
                source,
                ..Exchange::default()
            },
            events: Vec::new(),
            request_body: Vec::new(),
            keep_request_body: false,
            response: Body::Pass,
            cookies: Vec::new(),
            anomalies: Anomalies::default(),
            share: Share {
                all: held.clone(),
                own: 0,
            },
        }
    }

    /// Says how much is held now; `false` when that is more than a shard may hold.
    fn hold(&mut self, settings: &Settings) -> bool {
        let response = match &self.response {
            Body::Pass => 0,
            Body::Keep(kept, _) => kept.len(),
            Body::Events(parser) => parser.held_bytes(),
        };
        let bytes = self.request_body.len().saturating_add(response);
        self.share.set(bytes, settings.limits.held_bodies)
    }

    pub(super) fn ends(&mut self, client: Option<Endpoint>, server: Option<Endpoint>) {
        self.exchange.client = client;
        self.exchange.server = server;
    }

    /// The request's head, with its first and last byte.
    pub(super) fn request(
        &mut self,
        asked: &Asked<'_>,
        (first, last): (At, At),
        settings: &Settings,
    ) {
        let Asked {
            method,
            target,
            version,
            scheme,
            ref head,
        } = *asked;
        let limits = &settings.limits;
        let (absolute, authority) = absolute(target);
        let host = authority
            .map(Cow::Borrowed)
            .or_else(|| head.text("host", limits))
            .unwrap_or_default();
        let host = in_lower_case(host);
        let content_type = head.text("content-type", limits).unwrap_or_default();
        let cursor = head.text("last-event-id", limits);
        if cursor.as_deref().is_some_and(|id| !id.is_empty()) && method != "GET" {
            self.anomalies
                .note(Kind::CursorOnOtherMethod, first.place, || {
                    Prose::from(prose::method(method))
                });
        }
        let session_id = self.session(head, first.place, settings);
        self.exchange.version = version;
        let mut texts = self.share.all.texts();
        let mut named = |name| head.text(name, limits).map(|text| texts.of(&text));
        let protocol_version = named("mcp-protocol-version");
        let user_agent = named("user-agent");
        self.exchange.request = Some(Request {
            time: first.time,
            end_time: last.time,
            method: texts.of(cut(method, limits)),
            target: texts.of(cut(target, limits)),
            host: texts.of(&host),
            scheme: absolute.unwrap_or(scheme),
            session_id,
            last_event_id: cursor.map(|cursor| texts.of(&cursor)),
            protocol_version,
            user_agent,
            trace: naming::trace(head.headers),
            forwarded: naming::is_forwarded(head.headers),
            on_behalf: naming::on_behalf(head.headers),
            complete: false,
            ..Request::default()
        });
        self.cookies = naming::cookies(head.headers, limits);
        self.keep_request_body = matches!(media(&content_type), Media::Json | Media::None);
    }

    pub(super) fn request_body(&mut self, bytes: &[u8], settings: &Settings) {
        let room = settings
            .limits
            .json_body
            .saturating_sub(self.request_body.len());
        let fits = self.keep_request_body && bytes.len() <= room;
        if fits {
            self.request_body.extend_from_slice(bytes);
        }
        if self.keep_request_body && !(fits && self.hold(settings)) {
            self.keep_request_body = false;
            self.request_body = Vec::new();
            self.hold(settings);
            self.anomalies
                .note(Kind::BodyLimit, self.exchange.place, || "request");
        }
        if let Some(request) = &mut self.exchange.request {
            request.body_bytes += bytes.len() as u64;
        }
    }

    pub(super) fn request_end(&mut self, complete: bool, at: At, settings: &Settings) {
        let body = std::mem::take(&mut self.request_body);
        self.hold(settings);
        if let Some(request) = &mut self.exchange.request {
            request.complete = complete;
            request.end_time = at.time.max(request.end_time);
            request.body = message::hash(&body);
            if complete {
                request.messages = message::read_body(&body, &settings.limits).into();
            }
        }
    }

    /// The response's head.
    pub(super) fn response(
        &mut self,
        status: u16,
        head: &Head<'_>,
        mime: &str,
        first: At,
        settings: &Settings,
    ) {
        let limits = &settings.limits;
        let content_type = head
            .text("content-type", limits)
            .or_else(|| (!mime.is_empty()).then(|| Cow::Borrowed(cut(mime, limits))));
        let media = media(content_type.as_deref().unwrap_or_default());
        let success = (200..300).contains(&status);
        self.response = match media {
            Media::EventStream if success => {
                let coding = head.text("content-encoding", limits);
                let coded = coding.is_some_and(|coding| !coding.eq_ignore_ascii_case("identity"));
                Body::Events(Box::new(sse::Parser::new(limits).coded(coded)))
            }
            Media::Json if success => Body::Keep(Vec::new(), limits.json_body),
            _ if success => Body::Pass,
            _ => Body::Keep(Vec::new(), limits.error_body),
        };
        let mut named = naming::names(
            head.headers,
            &settings.backend_headers,
            std::mem::take(&mut self.cookies),
            limits,
        );
        let session_id = self.session(head, first.place, settings);
        let mut texts = self.share.all.texts();
        for named in &mut named {
            named.name = texts.of(&named.name);
        }
        let incarnation = settings.incarnation_header.as_deref();
        self.exchange.response = Some(Response {
            time: first.time,
            place: first.place,
            status,
            content_type: content_type.map(|text| texts.of(&text)),
            media,
            session_id,
            incarnation: incarnation
                .and_then(|name| head.text(name, limits))
                .map(|text| texts.of(&text)),
            backend: named.first().map(|first| Arc::clone(&first.name)),
            named: named.into(),
            ..Response::default()
        });
    }

    pub(super) fn response_body(&mut self, bytes: &[u8], at: At, settings: &Settings) {
        match &mut self.response {
            Body::Pass => {}
            Body::Keep(kept, limit) => {
                let room = limit.saturating_sub(kept.len());
                let (kept_part, over) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
                kept.extend_from_slice(kept_part);
                if !over.is_empty() && *limit == settings.limits.json_body {
                    self.anomalies
                        .note(Kind::BodyLimit, at.place, || "response");
                }
            }
            Body::Events(parser) => {
                let (exchange, events) = (&mut self.exchange, &mut self.events);
                let anomalies = &mut self.anomalies;
                let mut full = false;
                parser.push(bytes, at, &mut |event| {
                    full |= !add_event(exchange, events, &event, anomalies, settings);
                });
                if full {
                    self.give_up("events", at);
                }
            }
        }
        if !self.hold(settings) {
            self.give_up("response", at);
            self.hold(settings);
        }
    }

    /// Reads no more of the response: the rest of it is as good as missing.
    fn give_up(&mut self, what: &'static str, at: At) {
        self.response = Body::Pass;
        self.anomalies.note(Kind::BodyLimit, at.place, || what);
        self.hole(Part::ResponseBody, 0, at);
    }

    /// One event told by other means than a body.
    pub(super) fn event(&mut self, event: &sse::Event<'_>, settings: &Settings) {
        let torn = self
            .exchange
            .holes
            .last()
            .is_some_and(|hole| hole.after_events as usize >= settings.limits.events);
        let (exchange, events) = (&mut self.exchange, &mut self.events);
        if !add_event(exchange, events, event, &mut self.anomalies, settings) && !torn {
            self.give_up("events", event.at);
        }
    }

    /// Bytes that are not there.
    pub(super) fn hole(&mut self, part: Part, bytes: u64, at: At) {
        if part == Part::ResponseBody
            && let Body::Events(parser) = &mut self.response
        {
            parser.hole();
        }
        self.exchange.holes.push(Hole {
            part,
            bytes,
            time: at.time,
            after_events: u32::try_from(self.events.len()).unwrap_or(u32::MAX),
        });
    }

    pub(super) fn undecodable(&mut self) {
        if let Some(response) = &mut self.exchange.response {
            response.undecodable = true;
        }
    }

    pub(super) fn response_end(&mut self, complete: bool, wire_bytes: u64, settings: &Settings) {
        let body = std::mem::replace(&mut self.response, Body::Pass);
        self.hold(settings);
        let Some(response) = &mut self.exchange.response else {
            return;
        };
        response.complete = complete;
        response.body_bytes = wire_bytes;
        match body {
            Body::Pass => {}
            Body::Keep(text, _) => {
                response.messages = message::read_body(&text, &settings.limits).into();
                for said in &response.messages {
                    if let Some(version) = said.protocol_version()
                        && said.kind == MessageKind::Response
                    {
                        response.greeting = Some(Box::new(Greeting {
                            protocol_version: version.into(),
                            server_name: said.party().map(Into::into),
                            server_version: said.party_version().map(Into::into),
                        }));
                    }
                }
                if !(200..300).contains(&response.status) {
                    response.subject = response
                        .messages
                        .iter()
                        .map(|said| said.subject)
                        .find(|&subject| subject != Subject::Unknown)
                        .unwrap_or_else(|| message::subject_of(&text));
                } else if response.messages.is_empty() && !text.is_empty() {
                    // `{"error": "Session not found"}` and the like, which is no JSON-RPC.
                    let words = std::str::from_utf8(&text).unwrap_or_default();
                    response.subject = message::read_event(words, &settings.limits).subject;
                }
            }
            Body::Events(parser) => {
                self.exchange.partial_event_bytes =
                    u32::try_from(parser.partial_bytes()).unwrap_or(u32::MAX);
            }
        }
    }

    /// The finished exchange, and what was odd about it.
    pub(super) fn finish(mut self) -> (Exchange, Anomalies) {
        self.exchange.text.shrink_to_fit();
        self.exchange.events = self.events.into();
        self.exchange.batched.shrink_to_fit();
        (self.exchange, self.anomalies)
    }

    /// The session header: repeated or joined (`A, A`) equal values are one.
    fn session(&mut self, head: &Head<'_>, place: Place, settings: &Settings) -> Option<SessionId> {
        let mut first: Option<SessionId> = None;
        for value in head.all(&settings.session_header) {
            for part in lossy(value, &settings.limits).split(',').map(str::trim) {
                match &first {
                    None => first = Some(self.share.all.texts().id(part)),
                    Some(known) if **known != *part => {
                        self.anomalies
                            .note(Kind::SessionHeaderRepeated, place, || "");
                    }
                    Some(_) => {}
                }
            }
        }
        first
    }
}

/// Adds an event; `false` when there are as many as there may be.
fn add_event(
    exchange: &mut Exchange,
    events: &mut Vec<Event>,
    event: &sse::Event<'_>,
    anomalies: &mut Anomalies,
    settings: &Settings,
) -> bool {
    if events.len() >= settings.limits.events {
        return false;
    }
    let data = event.data.unwrap_or_default();
    let said = message::read_event(data, &settings.limits);
    if event.oversize {
        anomalies.note(Kind::BodyLimit, event.at.place, || "event");
    }
    if event.event_type == Some("endpoint") && events.is_empty() {
        exchange.endpoint = event.data.map(|data| cut(data, &settings.limits).into());
    }
    if said.kind == MessageKind::Response
        && let Some(response) = &mut exchange.response
        && let Some(version) = &said.protocol_version
    {
        response.greeting = Some(Box::new(Greeting {
            protocol_version: version.as_ref().into(),
            server_name: said.party.as_deref().map(Into::into),
            server_version: said.party_version.as_deref().map(Into::into),
        }));
    }
    let kind = match said.kind {
        MessageKind::None if settings.all_sse && !data.is_empty() => MessageKind::Notification,
        kind => kind,
    };
    let previous = events.last().copied();
    let limits = &settings.limits;
    let text = &mut exchange.text;
    let index = u32::try_from(events.len()).unwrap_or(u32::MAX);
    for &(id, hash) in &said.batch {
        exchange.batched.push(BatchedAnswer {
            event: index,
            rpc_id: keep(text, id, None, limits),
            hash,
        });
    }
    let event = Event {
        time: event.at.time,
        hash: message::hash(data.as_bytes()),
        frame: event.at.place.frame,
        input: event.at.place.input,
        id: event.id.map(|id| keep(text, id, None, limits)),
        event_type: event.event_type.map(|name| {
            keep(
                text,
                name,
                previous.and_then(|event| event.event_type),
                limits,
            )
        }),
        rpc_id: said.rpc_id.map(|id| keep(text, id, None, limits)),
        method: said.method.as_deref().map(|method| {
            keep(
                text,
                method,
                previous.and_then(|event| event.method),
                limits,
            )
        }),
        progress_token: said.progress_token.map(|token| {
            keep(
                text,
                token,
                previous.and_then(|event| event.progress_token),
                limits,
            )
        }),
        data_bytes: u32::try_from(data.len()).unwrap_or(u32::MAX),
        retry: event.retry,
        message: kind,
        subject: said.subject,
        delivered: true,
        after_hole: event.after_hole,
        has_data: event.data.is_some(),
    };
    events.push(event);
    true
}

/// Keeps a text of an exchange, or points at the same text of the event before.
fn keep(arena: &mut String, text: &str, same: Option<Text>, limits: &Limits) -> Text {
    let text = cut(text, limits);
    if let Some(same) = same {
        let start = same.start as usize;
        if arena.get(start..start + same.len as usize) == Some(text) {
            return same;
        }
    }
    let (Ok(start), Ok(len)) = (u32::try_from(arena.len()), u32::try_from(text.len())) else {
        return Text::default();
    };
    arena.push_str(text);
    Text { start, len }
}

/// Cuts a text to the limit, between characters.
fn cut<'a>(text: &'a str, limits: &Limits) -> &'a str {
    text.get(..text.floor_char_boundary(limits.text))
        .unwrap_or(text)
}

fn lossy<'v>(value: &'v [u8], limits: &Limits) -> Cow<'v, str> {
    let value = value.get(..limits.text).unwrap_or(value);
    match String::from_utf8_lossy(value) {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
        Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
    }
}

fn in_lower_case(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(text.to_ascii_lowercase())
    } else {
        text
    }
}

/// The scheme and authority of an absolute target.
fn absolute(target: &str) -> (Option<Scheme>, Option<&str>) {
    let (scheme, rest) = match target.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Scheme::Https, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (Scheme::Http, rest),
        _ => return (None, None),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    (
        Some(scheme),
        Some(authority.rsplit('@').next().unwrap_or(authority)),
    )
}

/// By media type only: parameters and case do not matter.
pub(super) fn media(content_type: &str) -> Media {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let is = |name: &str| essence.eq_ignore_ascii_case(name);
    let ends = |end: &str| {
        let at = essence.len().checked_sub(end.len());
        let tail = at.and_then(|at| essence.as_bytes().get(at..));
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(end.as_bytes()))
    };
    if essence.is_empty() {
        Media::None
    } else if is("text/event-stream") {
        Media::EventStream
    } else if is("application/json") || ends("+json") {
        Media::Json
    } else {
        Media::Other
    }
}
