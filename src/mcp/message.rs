//! What a JSON-RPC text says (JSON-RPC 2.0; MCP "Base protocol", "Lifecycle", "Progress"), and
//! what the text of an error speaks of.
//!
//! Only the envelope is parsed. `params` and `result` stay text, skipped without recursion, and
//! are looked into one level deep where a fact lies there; so the cost of a message is one pass
//! over its text, whatever it carries.

#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation
)]

use super::json::{members, object};
use crate::{
    limits::Limits,
    model::message::{Message, MessageKind, Particulars, PayloadHash, Subject},
};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// What the data of one event says, borrowed from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventMessage<'a> {
    /// What it is; [`MessageKind::None`] for anything that is no JSON-RPC.
    pub kind: MessageKind,
    /// The id as JSON text, exactly as sent; `None` also for `null`.
    pub rpc_id: Option<&'a str>,
    /// The method.
    pub method: Option<Cow<'a, str>>,
    /// `params.progressToken` of a progress notification, as JSON text.
    pub progress_token: Option<&'a str>,
    /// What an error speaks of; also told of `{"error": …}` that is no JSON-RPC.
    pub subject: Subject,
    /// `error.code`.
    pub error_code: Option<i64>,
    /// `result.protocolVersion` of the result of `initialize`.
    pub protocol_version: Option<Cow<'a, str>>,
    /// `result.serverInfo.name` of the result of `initialize`.
    pub party: Option<Cow<'a, str>>,
    /// `result.serverInfo.version` beside it.
    pub party_version: Option<Cow<'a, str>>,
    /// Of a batch, the ids that its responses and errors answer, as JSON text, each with the hash of its
    /// own message; empty for anything else.
    pub batch: Vec<(&'a str, PayloadHash)>,
}

/// Reads the JSON-RPC messages of a body: one object, or a batch (revision 2025-03-26).
///
/// Elements of a batch that are no JSON-RPC are left out; a body that is none, or no JSON, or
/// longer than [`Limits::json_body`], has no messages. A byte order mark is passed over, and
/// bytes that are not UTF-8 count as U+FFFD, hashes included.
#[must_use]
pub fn read_body(text: &[u8], limits: &Limits) -> Vec<Message> {
    if text.len() > limits.json_body {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(text);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).trim();
    let mut messages = Vec::new();
    let read = each_object(text, |object, envelope| {
        if messages.len() < BATCH {
            messages.extend(body_message(object, envelope, limits));
        }
    });
    if !read {
        return Vec::new();
    }
    // Nearly all bodies carry one message, and a vector that grows has room for four.
    messages.shrink_to_fit();
    messages
}

/// Reads the data of one event. Of a batch, the first response or error counts, else the first
/// message; all that it answers is in [`EventMessage::batch`].
#[must_use]
pub fn read_event<'a>(data: &'a str, limits: &Limits) -> EventMessage<'a> {
    if data.len() > limits.event {
        return EventMessage::default();
    }
    let data = data.trim();
    let is_batch = data.starts_with('[');
    let mut best: Option<EventMessage<'a>> = None;
    let mut batch = Vec::new();
    let read = each_object(data, |object, envelope| {
        let answered = |kind| matches!(kind, MessageKind::Response | MessageKind::Error);
        let kind = envelope.kind();
        if is_batch && answered(kind) && batch.len() < BATCH {
            let id = envelope.id.and_then(|id| scalar(id, limits));
            batch.extend(id.map(|id| (id, hash(object.as_bytes()))));
        }
        let better = best.as_ref().is_none_or(|best| {
            !answered(best.kind) && (answered(kind) || best.kind == MessageKind::None)
        });
        if better {
            best = Some(event_message(kind, envelope, limits));
        }
    });
    let mut best = best.filter(|_| read).unwrap_or_default();
    if read {
        best.batch = batch;
    }
    best
}

/// The hash of a payload: XXH3, 128 bits. Zero for no bytes, and for nothing else.
#[must_use]
pub fn hash(bytes: &[u8]) -> PayloadHash {
    if bytes.is_empty() {
        return PayloadHash::default();
    }
    nonzero(xxh3_128(bytes))
}

/// What the text of a refusal speaks of: plain text, HTML (its visible text) or JSON.
///
/// Words decide, see [`SESSION`] and [`CURSOR`]; case, hyphens and underscores do not matter.
/// Where both are named, the cursor is meant when the complaint is about it.
#[must_use]
pub fn subject_of(text: &[u8]) -> Subject {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with('<') {
        subject_of_text(&visible(text))
    } else {
        subject_of_text(text)
    }
}

/// Calls `each` with every object of `text`: itself, or the elements of an array. False when
/// `text` is no JSON object or array.
fn each_object<'a>(text: &'a str, mut each: impl FnMut(&'a str, Envelope<'a>)) -> bool {
    match text.as_bytes().first() {
        Some(b'{') => Envelope::read(text)
            .map(|envelope| each(text, envelope))
            .is_some(),
        Some(b'[') => {
            let mut parser = serde_json::Deserializer::from_str(text);
            let read = Elements(|element: &'a RawValue| {
                let object = element.get();
                if let Some(envelope) = Envelope::read(object) {
                    each(object, envelope);
                }
            })
            .deserialize(&mut parser);
            read.is_ok() && parser.end().is_ok()
        }
        _ => false,
    }
}

fn body_message(object: &str, envelope: Envelope<'_>, limits: &Limits) -> Option<Message> {
    let kind = envelope.kind();
    if kind == MessageKind::None {
        return None;
    }
    let mut particulars = Particulars::default();
    let mut message = Message {
        kind,
        id: envelope
            .id
            .and_then(|id| scalar(id, limits))
            .map(Into::into),
        hash: hash(object.as_bytes()),
        ..Message::default()
    };
    match kind {
        MessageKind::Request | MessageKind::Notification | MessageKind::Ping => {
            let method = envelope.method_name(limits).unwrap_or_default();
            let params = envelope.inside;
            if kind != MessageKind::Ping {
                message.call = call_hash(&method, envelope.params);
            }
            match &*method {
                PROGRESS => message.progress_token = token(params.progress_token, limits),
                CANCELLED => particulars.cancels = token(params.request_id, limits),
                INITIALIZE => {
                    particulars.protocol_version =
                        short(params.protocol_version.and_then(string), limits);
                    let client = params.client_info.and_then(party);
                    particulars.party = short(client.and_then(|client| client.name), limits);
                }
                _ => {}
            }
            if let Some(meta) = params.meta.map(Meta::read) {
                if kind != MessageKind::Notification {
                    message.progress_token = token(meta.progress_token, limits);
                }
                if particulars.protocol_version.is_none() {
                    particulars.protocol_version = short(meta.protocol_version, limits);
                }
            }
            message.method = Some(method.into());
        }
        MessageKind::Response => {
            message.call = call_hash("", envelope.result);
            if let Some(hello) = envelope.result.and_then(initialized) {
                particulars.protocol_version = short(Some(hello.protocol), limits);
                particulars.party = short(hello.server.name, limits);
                particulars.party_version = short(hello.server.version, limits);
            }
        }
        MessageKind::Error => {
            let error = envelope.error.map(Failure::read).unwrap_or_default();
            particulars.error_code = error.code;
            message.subject = error.subject();
        }
        MessageKind::None | MessageKind::Redacted => {}
    }
    if particulars != Particulars::default() {
        message.particulars = Some(Box::new(particulars));
    }
    Some(message)
}

fn event_message<'a>(
    kind: MessageKind,
    envelope: Envelope<'a>,
    limits: &Limits,
) -> EventMessage<'a> {
    let mut message = EventMessage {
        kind,
        ..EventMessage::default()
    };
    if kind != MessageKind::None {
        message.rpc_id = envelope.id.and_then(|id| scalar(id, limits));
    }
    match kind {
        MessageKind::Request | MessageKind::Notification | MessageKind::Ping => {
            message.method = envelope.method_name(limits);
            if message.method.as_deref() == Some(PROGRESS) {
                let token = envelope.inside.progress_token;
                message.progress_token = token.and_then(|token| scalar(token, limits));
            }
        }
        MessageKind::Response => {
            if let Some(hello) = envelope.result.and_then(initialized) {
                message.protocol_version = Some(cut(hello.protocol, limits));
                message.party = hello.server.name.map(|name| cut(name, limits));
                message.party_version = hello.server.version.map(|name| cut(name, limits));
            }
        }
        MessageKind::Error | MessageKind::None => {
            // What is no JSON-RPC may still say what went wrong: `{"error":"Session not found"}`.
            if let Some(error) = envelope.error.map(Failure::read) {
                message.subject = error.subject();
                message.error_code = error.code.filter(|_| kind == MessageKind::Error);
            }
        }
        MessageKind::Redacted => {}
    }
    message
}

/// The members of a JSON-RPC object, values unparsed.
#[derive(Clone, Copy, Default)]
struct Envelope<'a> {
    /// `jsonrpc` is `"2.0"`.
    versioned: bool,
    /// A member that JSON-RPC does not know.
    extra: bool,
    has_id: bool,
    /// `id`, when it is not `null`.
    id: Option<&'a str>,
    /// `method`, when it is a string.
    method: Option<&'a str>,
    params: Option<&'a str>,
    /// What is looked at of `params`.
    inside: Params<'a>,
    /// `result`; also `null`.
    result: Option<&'a str>,
    /// `error`, when it is not `null` (JSON-RPC 1.0 sent it so beside a result).
    error: Option<&'a str>,
}

impl<'a> Envelope<'a> {
    /// Without `jsonrpc: "2.0"` the shape must fit exactly, for then nothing else tells JSON-RPC
    /// from other JSON.
    fn kind(&self) -> MessageKind {
        let exact = |fits: bool| self.versioned || (fits && !self.extra);
        if let Some(method) = self.method {
            return if !exact(self.result.is_none() && self.error.is_none()) {
                MessageKind::None
            } else if method == PING {
                MessageKind::Ping
            } else if self.id.is_some() {
                MessageKind::Request
            } else {
                MessageKind::Notification
            };
        }
        if let Some(error) = self.error {
            let fits = || {
                let error = Failure::read(error);
                let said = error.code.is_some() && error.message.is_some();
                self.has_id && self.params.is_none() && said
            };
            return if self.versioned || (exact(true) && fits()) {
                MessageKind::Error
            } else {
                MessageKind::None
            };
        }
        if self.result.is_some() && self.id.is_some() && exact(self.params.is_none()) {
            return MessageKind::Response;
        }
        MessageKind::None
    }

    fn method_name(&self, limits: &Limits) -> Option<Cow<'a, str>> {
        self.method
            .and_then(string)
            .map(|method| cut(method, limits))
    }

    /// `None` when `text` is no JSON object.
    fn read(text: &'a str) -> Option<Self> {
        let mut envelope = Self::default();
        let unknown = object(text, ENVELOPE, |name, cursor| {
            // One pass for both: what is passed over is told, too.
            if name == "params" {
                let mut inside = Params::default();
                let (params, whole) =
                    cursor.value_and_members(PARAMS, |name, value| inside.set(name, value))?;
                envelope.params = Some(params);
                envelope.inside = if whole { inside } else { Params::default() };
                return Some(());
            }
            let value = cursor.value()?;
            let told = Some(value).filter(|&value| value != NULL);
            match name {
                "jsonrpc" => envelope.versioned = value == VERSION,
                "id" => (envelope.has_id, envelope.id) = (true, told),
                "method" => envelope.method = told.filter(|value| value.starts_with('"')),
                "result" => envelope.result = Some(value),
                _ => envelope.error = told,
            }
            Some(())
        })?;
        envelope.extra = unknown > 0;
        Some(envelope)
    }
}

/// What of `params` is looked at.
#[derive(Clone, Copy, Default)]
struct Params<'a> {
    meta: Option<&'a str>,
    progress_token: Option<&'a str>,
    request_id: Option<&'a str>,
    protocol_version: Option<&'a str>,
    client_info: Option<&'a str>,
}

impl<'a> Params<'a> {
    fn set(&mut self, name: &str, value: &'a str) {
        let member = match name {
            META => &mut self.meta,
            "progressToken" => &mut self.progress_token,
            "requestId" => &mut self.request_id,
            "protocolVersion" => &mut self.protocol_version,
            _ => &mut self.client_info,
        };
        *member = Some(value);
    }
}

/// What of `params._meta` is looked at.
#[derive(Default)]
struct Meta<'a> {
    progress_token: Option<&'a str>,
    protocol_version: Option<Cow<'a, str>>,
}

impl<'a> Meta<'a> {
    fn read(meta: &'a str) -> Self {
        let mut read = Self::default();
        let found = members(meta, META_MEMBERS, |name, value| match name {
            "progressToken" => read.progress_token = Some(value),
            _ => read.protocol_version = string(value),
        });
        found.map(|_| read).unwrap_or_default()
    }
}

/// An `error` member: an object as JSON-RPC has it, or just a text.
#[derive(Default)]
struct Failure<'a> {
    code: Option<i64>,
    message: Option<Cow<'a, str>>,
    data: Option<Cow<'a, str>>,
}

impl<'a> Failure<'a> {
    fn read(error: &'a str) -> Self {
        if let Some(text) = string(error) {
            return Self {
                message: Some(text),
                ..Self::default()
            };
        }
        let mut read = Self::default();
        let found = members(error, FAILURE, |name, value| match name {
            "code" => read.code = integer(value),
            "message" => read.message = string(value),
            _ => read.data = string(value),
        });
        found.map(|_| read).unwrap_or_default()
    }

    fn subject(&self) -> Subject {
        let of = |text: &Option<Cow<'_, str>>| text.as_deref().map(subject_of_text);
        match of(&self.message).unwrap_or_default() {
            Subject::Unknown => of(&self.data).unwrap_or_default(),
            subject => subject,
        }
    }
}

/// The result of `initialize`.
struct Hello<'a> {
    protocol: Cow<'a, str>,
    server: Party<'a>,
}

/// `clientInfo` or `serverInfo`.
#[derive(Default)]
struct Party<'a> {
    name: Option<Cow<'a, str>>,
    version: Option<Cow<'a, str>>,
}

/// What `result` says, when it is one of `initialize`.
fn initialized(text: &str) -> Option<Hello<'_>> {
    // Results are the large payloads: a search for the name is far cheaper than their members.
    memchr::memmem::find(text.as_bytes(), b"\"protocolVersion\"")?;
    let (mut version, mut server) = (None, None);
    members(text, RESULT, |name, value| match name {
        "protocolVersion" => version = string(value),
        _ => server = Some(value),
    })?;
    Some(Hello {
        protocol: version?,
        server: party(server?).unwrap_or_default(),
    })
}

/// The name and version of an implementation.
fn party(implementation: &str) -> Option<Party<'_>> {
    let mut found = Party::default();
    members(implementation, PARTY, |name, value| match name {
        "name" => found.name = string(value),
        _ => found.version = string(value),
    })?;
    Some(found)
}

/// The hash of a call: equal for equal method and `params` (without `_meta`), or, with no method, of
/// a result, whatever the white space, the escapes and the order of members. No `params` are as empty ones.
fn call_hash(method: &str, params: Option<&str>) -> PayloadHash {
    let text = params.unwrap_or("{}");
    let mut parser = serde_json::Deserializer::from_str(text);
    let params = ValueHash { top: true }
        .deserialize(&mut parser)
        // Too deep for the parser: the text as it stands.
        .unwrap_or_else(|_| xxh3_128(text.as_bytes()));
    let mut state = Xxh3::new();
    state.update(method.as_bytes());
    state.update(&[0]);
    state.update(&params.to_le_bytes());
    nonzero(state.digest128())
}

const fn nonzero(hash: u128) -> PayloadHash {
    PayloadHash(if hash == 0 { 1 } else { hash })
}

/// Hashes a JSON value by what it says. Kinds of value are kept apart by a tag; the members of
/// an object are added up, so that their order does not matter.
struct ValueHash {
    /// The value is `params` itself, whose `_meta` does not count.
    top: bool,
}

fn tagged(tag: u8, bytes: &[u8]) -> u128 {
    let mut state = Xxh3::new();
    state.update(&[tag]);
    state.update(bytes);
    state.digest128()
}

impl<'de> DeserializeSeed<'de> for ValueHash {
    type Value = u128;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u128, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueHash {
    type Value = u128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<u128, E> {
        Ok(tagged(b'n', b""))
    }

    fn visit_bool<E>(self, value: bool) -> Result<u128, E> {
        Ok(tagged(b'b', &[u8::from(value)]))
    }

    fn visit_i64<E>(self, value: i64) -> Result<u128, E> {
        Ok(tagged(b'i', &value.to_le_bytes()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<u128, E> {
        Ok(tagged(b'u', &value.to_le_bytes()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<u128, E> {
        Ok(tagged(b'f', &value.to_le_bytes()))
    }

    fn visit_str<E>(self, value: &str) -> Result<u128, E> {
        Ok(tagged(b's', value.as_bytes()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<u128, A::Error> {
        let mut state = Xxh3::new();
        state.update(b"[");
        while let Some(value) = values.next_element_seed(Self { top: false })? {
            state.update(&value.to_le_bytes());
        }
        Ok(state.digest128())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<u128, A::Error> {
        let mut sum = 0_u128;
        while let Some(name) = members.next_key::<String>()? {
            if self.top && name == META {
                members.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = members.next_value_seed(Self { top: false })?;
            let mut state = Xxh3::new();
            state.update(name.as_bytes());
            state.update(&[0]);
            state.update(&value.to_le_bytes());
            sum = sum.wrapping_add(state.digest128());
        }
        Ok(tagged(b'{', &sum.to_le_bytes()))
    }
}

/// Hands out the elements of an array one by one, so that a batch costs no memory of its own.
struct Elements<F>(F);

impl<'de, F: FnMut(&'de RawValue)> DeserializeSeed<'de> for Elements<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(&'de RawValue)> Visitor<'de> for Elements<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut values: A) -> Result<(), A::Error> {
        while let Some(value) = values.next_element()? {
            (self.0)(value);
        }
        Ok(())
    }
}

/// The text of a JSON string; borrowed when it has no escapes.
fn string(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(text).ok().map(Cow::Owned)
}

/// An id or token as JSON text, exactly as sent: a string or a number, no longer than the limit
/// (cutting one could make two alike).
fn scalar<'a>(text: &'a str, limits: &Limits) -> Option<&'a str> {
    let first = *text.as_bytes().first()?;
    let fits = text.len() <= limits.text;
    (fits && (first == b'"' || first == b'-' || first.is_ascii_digit())).then_some(text)
}

fn token<T: for<'t> From<&'t str>>(value: Option<&str>, limits: &Limits) -> Option<T> {
    value
        .and_then(|value| scalar(value, limits))
        .map(Into::into)
}

fn short(text: Option<Cow<'_, str>>, limits: &Limits) -> Option<Box<str>> {
    text.map(|text| cut(text, limits).into())
}

/// No more of `text` than the limit.
fn cut<'a>(text: Cow<'a, str>, limits: &Limits) -> Cow<'a, str> {
    if text.len() <= limits.text {
        return text;
    }
    let end = text.floor_char_boundary(limits.text);
    let kept = |text: &str| text.get(..end).unwrap_or_default().to_owned();
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(..end).unwrap_or_default()),
        Cow::Owned(text) => Cow::Owned(kept(&text)),
    }
}

/// An error code; some servers send `-32000.0`.
fn integer(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    fraction
        .bytes()
        .all(|digit| digit == b'0')
        .then(|| whole.parse().ok())
        .flatten()
}

/// The words of `text`: runs of letters and digits in lower case, a camel-case name as its parts
/// (`sessionId` is `session`, `id`).
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut inside, mut after_lower) = (false, false);
    for c in text.chars() {
        // An apostrophe joins: "isn't".
        if c == '\'' {
            continue;
        }
        if !c.is_alphanumeric() {
            inside = false;
            continue;
        }
        if !inside || (after_lower && c.is_uppercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
        inside = true;
        after_lower = c.is_lowercase();
    }
    words
}

fn subject_of_text(text: &str) -> Subject {
    let end = text.floor_char_boundary(SPOKEN);
    let words = words(text.get(..end).unwrap_or_default());
    // What already exists, or is already connected, is not missing.
    if !named(&words, ALIVE).is_empty() {
        return Subject::Unknown;
    }
    let session = named(&words, SESSION);
    let cursor = named(&words, CURSOR);
    match (session.first(), cursor.first()) {
        (None, None) => Subject::Unknown,
        (Some(_), None) => Subject::Session,
        (None, Some(_)) => Subject::Cursor,
        (Some((first_session, _)), Some((first_cursor, _))) => {
            if complained_of(&words, &cursor, &session) {
                Subject::Cursor
            } else if complained_of(&words, &session, &cursor) || first_session < first_cursor {
                Subject::Session
            } else {
                Subject::Cursor
            }
        }
    }
}

/// Where the words of one of `phrases` stand in `words`: first word and the one past the last.
fn named(words: &[String], phrases: &[&[&str]]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = words.get(at..).filter(|rest| !rest.is_empty()) {
        let len = phrases
            .iter()
            .filter(|phrase| begins(rest, phrase))
            .map(|phrase| phrase.len())
            .max();
        if let Some(len) = len {
            found.push((at, at + len));
        }
        at += len.unwrap_or(1);
    }
    found
}

fn begins(words: &[String], phrase: &[&str]) -> bool {
    words.len() >= phrase.len() && words.iter().zip(phrase).all(|(word, want)| word == want)
}

/// Whether a word of complaint belongs to one of `things`: before it ("invalid Last-Event-ID") or
/// after it ("event id 7 was not found"), with none of `others` between.
fn complained_of(words: &[String], things: &[(usize, usize)], others: &[(usize, usize)]) -> bool {
    let between =
        |from: usize, to: usize| others.iter().any(|&(first, end)| first < to && end > from);
    let has = |from: usize, to: usize, phrases: &[&[&str]]| {
        (from..to).any(|at| {
            words
                .get(at..to.min(words.len()))
                .is_some_and(|rest| phrases.iter().any(|phrase| begins(rest, phrase)))
        })
    };
    things.iter().any(|&(first, end)| {
        let before = (1..=BEFORE)
            .filter_map(|n| first.checked_sub(n))
            .take_while(|&from| !between(from, first))
            .any(|from| has(from, first, COMPLAINTS_BEFORE));
        let after = (1..=AFTER)
            .map(|n| end + n)
            .take_while(|&to| !between(end, to))
            .any(|to| has(end, to, COMPLAINTS_AFTER));
        before || after
    })
}

/// The visible text of HTML: no tags, no scripts, no styles.
fn visible(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        text.push(' ');
        let name: String = tag
            .chars()
            .take_while(char::is_ascii_alphabetic)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        let close = match &*name {
            "script" => Some("</script"),
            "style" => Some("</style"),
            _ => None,
        };
        let tag = match close {
            Some(close) => after_ignoring_case(tag, close).unwrap_or_default(),
            None => tag,
        };
        rest = tag.split_once('>').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    text
}

/// What follows the first `needle` (lower-case ASCII) in `text`, in any case.
fn after_ignoring_case<'a>(text: &'a str, needle: &str) -> Option<&'a str> {
    let at = text
        .as_bytes()
        .windows(needle.len())
        .position(|window| window.eq_ignore_ascii_case(needle.as_bytes()))?;
    text.get(at + needle.len()..)
}

const VERSION: &str = "\"2.0\"";
const NULL: &str = "null";
const PING: &str = "\"ping\"";
const INITIALIZE: &str = "initialize";
const PROGRESS: &str = "notifications/progress";
const CANCELLED: &str = "notifications/cancelled";
const META: &str = "_meta";

const ENVELOPE: &[&str] = &["jsonrpc", "id", "method", "params", "result", "error"];
const PARAMS: &[&str] = &[
    META,
    "progressToken",
    "requestId",
    "protocolVersion",
    "clientInfo",
];
const META_MEMBERS: &[&str] = &["progressToken", "io.modelcontextprotocol/protocolVersion"];
const FAILURE: &[&str] = &["code", "message", "data"];
const RESULT: &[&str] = &["protocolVersion", "serverInfo"];
const PARTY: &[&str] = &["name", "version"];

/// Messages kept of one batch: batches that clients sent had a handful; a hostile one would grow
/// twentyfold in memory.
const BATCH: usize = 4096;

/// Bytes of a text whose words are read: a refusal says what it is about at once.
const SPOKEN: usize = 8 << 10;

/// How a text speaks of the session. Lower-case words, cut at signs and humps: `sessionId`, `session_id`,
/// `Mcp-Session-Id` and "session id" all begin with `session`.
///
/// | text | who says it |
/// |---|---|
/// | Session not found | TypeScript, Kotlin, rmcp, Python; Go and mcp-go in lower case |
/// | Not Found: Session not found | rmcp |
/// | Session terminated, Not Found: Session has been terminated | Python, Swift |
/// | Bad Request: No valid session ID provided, no valid session | TypeScript routers |
/// | Bad Request: Missing session ID, Invalid or missing session ID | Python, TypeScript |
/// | Mcp-Session-Id header is required | TypeScript |
/// | No sessionId | servers of the 2024-11-05 transport |
/// | Invalid session ID, unknown session, Session expired | mcp-go, gateways |
/// | Bad Request: Server not initialized | TypeScript |
/// | Received request before initialization was complete | Python |
pub const SESSION: &[&[&str]] = &[
    &["session"],
    &["sessions"],
    &["sessionid"],
    &["mcpsessionid"],
    &["not", "initialized"],
    &["not", "initialised"],
    &["not", "been", "initialized"],
    &["not", "yet", "initialized"],
    &["uninitialized"],
    &["before", "initialization"],
];

/// How a text says that there is one already: "session already exists" (mcp-go, to a second GET).
const ALIVE: &[&[&str]] = &[
    &["already", "exists"],
    &["already", "open"],
    &["already", "opened"],
    &["already", "connected"],
    &["already", "active"],
    &["already", "in", "use"],
    &["already", "has"],
    &["already", "established"],
    &["already", "initialized"],
];

/// How a text speaks of the cursor, cut into words as in [`SESSION`].
///
/// | text | who says it |
/// |---|---|
/// | Unknown Last-Event-ID | mcp-go |
/// | Invalid Last-Event-ID, Invalid lastEventId | Swift |
/// | Invalid event ID format, event id not found | TypeScript, event stores |
/// | malformed Last-Event-ID, unknown stream of an event id, data purged | Go |
/// | stream replay unsupported | Go without an event store |
/// | Resumability is not supported | servers without an event store |
pub const CURSOR: &[&[&str]] = &[
    &["last", "event", "id"],
    &["last", "event"],
    &["lasteventid"],
    &["event", "id"],
    &["event", "ids"],
    &["eventid"],
    &["event", "not", "found"],
    &["event", "store"],
    &["stream", "replay"],
    &["event", "replay"],
    &["replay", "event"],
    &["replay", "events"],
    &["replaying", "events"],
    &["replay", "stream"],
    &["replay", "from"],
    &["replay", "not", "supported"],
    &["replay", "unsupported"],
    &["replay", "is", "not"],
    &["resumability"],
    &["resumption"],
    &["resume", "from"],
    &["resume", "stream"],
    &["resume", "the", "stream"],
    &["resume", "after"],
    &["resuming", "from"],
    &["resume", "token"],
];

/// Complaints that stand before what they are about.
const COMPLAINTS_BEFORE: &[&[&str]] = &[
    &["unknown"],
    &["invalid"],
    &["malformed"],
    &["missing"],
    &["unsupported"],
    &["unrecognized"],
    &["expired"],
    &["stale"],
    &["no"],
];

/// Complaints that stand after it.
const COMPLAINTS_AFTER: &[&[&str]] = &[
    &["not"],
    &["unknown"],
    &["invalid"],
    &["malformed"],
    &["missing"],
    &["unsupported"],
    &["expired"],
    &["terminated"],
    &["closed"],
    &["required"],
    &["mismatch"],
    &["gone"],
    &["purged"],
    &["evicted"],
    &["cannot"],
    &["no", "longer"],
    &["doesnt"],
    &["isnt"],
    &["too", "old"],
];

/// How many words a complaint may stand before its thing ("invalid or malformed …").
const BEFORE: usize = 3;
/// How many words it may stand after it ("event id 7 was not found").
const AFTER: usize = 5;

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test may panic"
)]
mod tests {
    use super::*;

    fn body(text: &str) -> Vec<Message> {
        read_body(text.as_bytes(), &Limits::default())
    }

    fn one(text: &str) -> Message {
        let messages = body(text);
        assert_eq!(messages.len(), 1, "{text}");
        messages.into_iter().next().unwrap()
    }

    fn event(data: &str) -> EventMessage<'_> {
        read_event(data, &Limits::default())
    }

    #[test]
    fn tells_kinds_apart() {
        use MessageKind::{Error, None, Notification, Ping, Request, Response};
        let table = [
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, Request),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
                Notification,
            ),
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, Notification),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, Ping),
            (r#"{"jsonrpc":"2.0","method":"ping"}"#, Ping),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Response),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, Response),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#,
                Response,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"m"}}"#,
                Error,
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"m"}}"#,
                Error,
            ),
            (
                r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"m"}}"#,
                Error,
            ),
            (
                r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"m"}}"#,
                Error,
            ),
            (r#"{"jsonrpc":"2.0","error":"Session not found"}"#, Error),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"x":1}"#, Response),
            // Without a version the shape must fit exactly.
            (r#"{"id":1,"method":"tools/call","params":{}}"#, Request),
            (r#"{"id":1,"result":{}}"#, Response),
            (
                r#"{"id":null,"error":{"code":-32000,"message":"m"}}"#,
                Error,
            ),
            (r#"{"id":1,"result":{},"status":"ok"}"#, None),
            (r#"{"error":{"code":"unauthorized","message":"m"}}"#, None),
            (r#"{"id":1,"error":{"message":"m"}}"#, None),
            (r#"{"id":1,"method":"GET","result":5}"#, None),
            (r#"{"jsonrpc":"2.0","result":{}}"#, None),
            (r#"{"jsonrpc":"2.0"}"#, None),
            (r#"{"method":7,"id":1}"#, None),
            ("{}", None),
            ("", None),
            ("7", None),
            ("[DONE]", None),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}} x"#, None),
        ];
        for (text, kind) in table {
            assert_eq!(event(text).kind, kind, "{text}");
            let read = body(text).first().map_or(None, |message| message.kind);
            assert_eq!(read, kind, "{text}");
        }
    }

    #[test]
    fn keeps_the_form_of_ids() {
        for id in [
            "1",
            "1.0",
            "\"1\"",
            "-7",
            "1e2",
            "\"\\u0061\"",
            "\"a\"",
            "123456789012345678901",
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id": {id} ,"result":{{}}}}"#);
            assert_eq!(event(&text).rpc_id, Some(id));
            assert_eq!(one(&text).id.as_deref(), Some(id));
        }
        let none = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":""}}"#;
        assert_eq!(event(none).rpc_id, None);
        let long = format!(
            r#"{{"jsonrpc":"2.0","id":"{}","result":{{}}}}"#,
            "x".repeat(9000)
        );
        assert_eq!(event(&long).rpc_id, None);
        assert_eq!(event(&long).kind, MessageKind::Response);
    }

    #[test]
    fn reads_progress() {
        let text = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t\"1","progress":2}}"#;
        assert_eq!(event(text).progress_token, Some(r#""t\"1""#));
        assert_eq!(one(text).progress_token.as_deref(), Some(r#""t\"1""#));
        let call = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"_meta":{"progressToken":5},"name":"x"}}"#;
        assert_eq!(one(call).progress_token.as_deref(), Some("5"));
        assert_eq!(event(call).progress_token, None);
        let none = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":null}}"#;
        assert_eq!(event(none).progress_token, None);
    }

    #[test]
    fn reads_what_a_request_says() {
        let text = r#"{"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"version":"1","name":"lab \u2713"}},"jsonrpc":"2.0","id":0}"#;
        let message = one(text);
        assert_eq!(message.protocol_version(), Some("2025-11-25"));
        assert_eq!(message.party(), Some("lab \u{2713}"));
        assert_eq!(message.method.as_deref(), Some("initialize"));
        assert_eq!(message.hash, hash(text.as_bytes()));
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7","reason":"r"}}"#;
        assert_eq!(one(cancel).cancels(), Some("\"7\""));
        let modern = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        assert_eq!(one(modern).protocol_version(), Some("2026-07-28"));
    }

    #[test]
    fn reads_the_result_of_initialize() {
        let text = r#"{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{"name":"s"},"protocolVersion":"2025-06-18"}}"#;
        assert_eq!(event(text).protocol_version.as_deref(), Some("2025-06-18"));
        assert_eq!(event(text).party.as_deref(), Some("s"));
        assert!(matches!(event(text).party, Some(Cow::Borrowed(_))));
        assert_eq!(one(text).party(), Some("s"));
        assert_eq!(
            one(text).party_version(),
            event(text).party_version.as_deref()
        );
        let quoted = r#"{"jsonrpc":"2.0","id":0,"result":{"text":{"protocolVersion":"x","serverInfo":{"name":"s"}}}}"#;
        assert_eq!(event(quoted).protocol_version, None);
    }

    #[test]
    fn reads_batches() {
        let text = r#" [ {"jsonrpc":"2.0","method":"a"}, 7, {"x":1}, {"jsonrpc":"2.0","id":2,"result":{ }} ] "#;
        let messages = body(text);
        assert_eq!(messages.len(), 2);
        assert_eq!(
            messages[1].hash,
            hash(br#"{"jsonrpc":"2.0","id":2,"result":{ }}"#)
        );
        assert_eq!(event(text).kind, MessageKind::Response);
        assert_eq!(event(text).rpc_id, Some("2"));
        let first =
            r#"[{"x":1},{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]"#;
        assert_eq!(event(first).method.as_deref(), Some("a"));
        for broken in [
            "[",
            "[{}",
            r#"[{"jsonrpc":"2.0","method":"a"},"#,
            r#"[{"jsonrpc":"2.0","method":"a"}]]"#,
        ] {
            assert!(body(broken).is_empty(), "{broken}");
            assert_eq!(event(broken).kind, MessageKind::None, "{broken}");
        }
        let many = format!(
            "[{}1]",
            r#"{"jsonrpc":"2.0","method":"a"},"#.repeat(BATCH + 10)
        );
        assert_eq!(body(&many).len(), BATCH);
    }

    #[test]
    fn compares_calls_by_what_they_say() {
        let call = |params: &str| {
            one(&format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#
            ))
            .call
        };
        let first =
            call(r#"{"name":"pay","arguments":{"a":1,"b":[1,2]},"_meta":{"progressToken":1}}"#);
        assert_eq!(
            first,
            call(r#" { "arguments" : {"b":[1, 2],"a":1}, "n\u0061me":"pay" } "#)
        );
        for other in [
            r#"{"name":"pay","arguments":{"a":1,"b":[2,1]}}"#,
            r#"{"name":"pay","arguments":{"a":"1","b":[1,2]}}"#,
            r#"{"name":"pay","arguments":{"a":1,"b":[1,2],"_meta":{}}}"#,
            r#"{"name":"pay","arguments":{"b":1,"a":[1,2]}}"#,
            r#"{"name":"pay"}"#,
        ] {
            assert_ne!(first, call(other), "{other}");
        }
        let bare = one(r#"{"jsonrpc":"2.0","id":9,"method":"tools/list"}"#).call;
        assert_eq!(
            bare,
            one(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{}}}"#).call
        );
        assert_ne!(
            bare,
            one(r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#).call
        );
        assert_eq!(
            one(r#"{"jsonrpc":"2.0","method":"x"}"#).call,
            one(r#"{ "method" : "x", "params": {}, "jsonrpc":"2.0"}"#).call
        );
        let result = |result: &str| {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
            one(&answer).call
        };
        assert_eq!(
            result(r#"{"a":1,"b":[]}"#),
            result(r#"{ "b" : [ ], "a":1}"#)
        );
        assert_ne!(result(r#"{"a":1}"#), result(r#"{"a":2}"#));
        assert_eq!(
            one(r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#).call,
            PayloadHash::default()
        );
    }

    #[test]
    fn hashes_no_bytes_to_zero_and_others_not() {
        assert_eq!(hash(b""), PayloadHash(0));
        assert_ne!(hash(b" "), PayloadHash(0));
        assert_ne!(hash(b"a"), hash(b"b"));
    }

    #[test]
    fn survives_depth_and_cuts() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert_eq!(one(&deep).kind, MessageKind::Request);
        assert_eq!(event(&deep).kind, MessageKind::Request);
        let text = r#"[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"name":"\ud83d\ude00é"}}}]"#;
        for end in 0..text.len() {
            assert!(read_body(&text.as_bytes()[..end], &Limits::default()).is_empty());
        }
        assert_eq!(body(text).len(), 1);
        let bom = format!("\u{feff}{text}");
        assert_eq!(body(&bom).len(), 1);
        let latin = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xe9\"}";
        assert_eq!(read_body(latin, &Limits::default()).len(), 1);
    }

    #[test]
    fn tells_what_an_error_speaks_of() {
        use Subject::{Cursor, Session, Unknown};
        let table = [
            ("Session not found", Session),
            ("session not found\n", Session),
            ("Not Found: Session not found", Session),
            ("Not Found: Session has been terminated", Session),
            ("Session terminated", Session),
            ("Bad Request: No valid session ID provided", Session),
            ("Bad Request: Missing session ID", Session),
            ("Invalid or missing session ID", Session),
            ("no valid session", Session),
            ("No sessionId", Session),
            ("SESSION_EXPIRED", Session),
            ("Bad Request: Mcp-Session-Id header is required", Session),
            ("missing mcpSessionId", Session),
            ("Bad Request: Server not initialized", Session),
            (
                "Received request before initialization was complete",
                Session,
            ),
            ("Unknown Last-Event-ID", Cursor),
            ("Invalid Last-Event-ID", Cursor),
            ("invalid lastEventId", Cursor),
            ("Invalid event ID format", Cursor),
            ("stream replay unsupported", Cursor),
            ("Resumability is not supported", Cursor),
            ("cannot resume from event 7", Cursor),
            ("Event 7 of this stream: event not found", Cursor),
            // Both are named.
            ("Session not found (Last-Event-ID: 5)", Session),
            ("No session found for Last-Event-ID 5", Session),
            ("Failed to replay events: session not found", Session),
            ("Invalid or missing session ID or Last-Event-ID", Session),
            (
                "Invalid Last-Event-ID: event does not belong to this session",
                Cursor,
            ),
            ("Event ID 7 was not found in session abc", Cursor),
            ("Session abc: unknown event id 5", Cursor),
            ("Session abc has no event id 5", Cursor),
            // Neither.
            ("Method not found", Unknown),
            ("permission denied: possession of JSESSIONID", Unknown),
            ("service will resume shortly", Unknown),
            ("replay attack detected", Unknown),
            ("", Unknown),
        ];
        for (text, subject) in table {
            assert_eq!(subject_of(text.as_bytes()), subject, "{text}");
            let json = serde_json::json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": text}});
            assert_eq!(event(&json.to_string()).subject, subject, "{text}");
            assert_eq!(one(&json.to_string()).subject, subject, "{text}");
            let json = serde_json::json!({"error": text});
            assert_eq!(event(&json.to_string()).subject, subject, "{text}");
            assert_eq!(event(&json.to_string()).kind, MessageKind::None);
            assert_eq!(subject_of(json.to_string().as_bytes()), subject, "{text}");
            let html = format!("<html><script>sessionStorage.x</script ><h1>{text}</h1></html>");
            assert_eq!(subject_of(html.as_bytes()), subject, "{text}");
        }
    }

    #[test]
    fn reads_code_and_data_of_an_error() {
        let text = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000.0,"message":"Internal error","data":"unknown session"}}"#;
        assert_eq!(event(text).error_code, Some(-32000));
        assert_eq!(event(text).subject, Subject::Session);
        assert_eq!(one(text).error_code(), Some(-32000));
        assert_eq!(
            event(r#"{"error":{"message":"Session not found","code":3}}"#).error_code,
            None
        );
        assert_eq!(
            event(r#"{"error":{"message":"Session not found","code":3}}"#).subject,
            Subject::Session
        );
        assert_eq!(
            event(r#"{"message":"session not found"}"#).subject,
            Subject::Unknown
        );
    }

    #[test]
    fn tells_all_that_a_batch_in_an_event_answers() {
        let limits = Limits::default();
        let data = r#" [{"jsonrpc":"2.0","method":"notifications/a"},{"jsonrpc":"2.0","id":1,"result":{}},
            {"jsonrpc":"2.0","id":"b","error":{"code":1,"message":"no"}}]"#;
        let said = read_event(data, &limits);
        assert_eq!((said.kind, said.rpc_id), (MessageKind::Response, Some("1")));
        let ids: Vec<&str> = said.batch.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, ["1", "\"b\""]);
        let alone = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        assert_eq!(said.batch[0].1, hash(alone.as_bytes()));
        assert!(read_event(alone, &limits).batch.is_empty());
        assert!(
            read_event(&data[..data.len() - 1], &limits)
                .batch
                .is_empty()
        );
    }

    #[test]
    fn survives_hostile_html() {
        for html in [
            "<",
            "<script",
            "<script><script>",
            "<a<b<c",
            "<style>é</STYLE",
            "<>é<",
        ] {
            assert_eq!(subject_of(html.as_bytes()), Subject::Unknown, "{html}");
        }
        let words = "session event id ".repeat(100_000);
        assert_ne!(subject_of(words.as_bytes()), Subject::Unknown);
    }
}
