//! One element of `log.entries` → [`HarEntry`].
//!
//! Exporters differ in what they leave out and in what an empty value means; each difference is
//! settled here, with the producer that it is known from.

use super::{
    loose::{self, Object},
    mask::is_masked_body,
};
use crate::{
    limits::Limits,
    model::{
        har::{BodyState, HarEntry, HarEvent},
        time::{Span, Timestamp},
    },
};
use serde_json::value::RawValue;
use std::borrow::Cow;
use xxhash_rust::xxh3::Xxh3;

/// What the log's creators say of the worth of an empty body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Producer {
    /// Some creator was named.
    pub(super) named: bool,
    /// A proxy that writes an empty body for one it streamed (mitmproxy).
    pub(super) streams_unrecorded: bool,
    /// `connection` is a port (Firefox).
    pub(super) connection_is_port: bool,
    /// Only what has ended is exported (Safari).
    pub(super) omits_open: bool,
}

impl Producer {
    /// Takes into account another creator of a (merged) log.
    pub(super) fn include(&mut self, name: &str) {
        let name = name.to_ascii_lowercase();
        self.named = true;
        self.streams_unrecorded |= name.contains("mitmproxy");
        self.connection_is_port |= name.contains("firefox");
        // "WebKit Web Inspector"; Chrome's is "WebInspector".
        self.omits_open |= name.contains("webkit") || name.contains("safari");
    }
}

/// An entry, and whether headers beyond the limit were left out.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) entry: HarEntry,
    pub(super) headers_cut: bool,
}

/// Reads an entry; an error says in one line, without payload, why it is none.
pub(super) fn parse(
    text: &str,
    number: u32,
    producer: Producer,
    limits: &Limits,
) -> Result<Parsed, String> {
    let entry = Object::parse(text)?;
    let request = entry.object("request");
    let response = entry.object("response");
    let content = response.object("content");
    let started = entry
        .text("startedDateTime")
        .and_then(|text| loose::instant(&text))
        .ok_or("no startedDateTime that is a date")?;
    let url = request.said("url").ok_or("no request with a URL")?;
    let method = request.text("method").unwrap_or_default();
    let status = response
        .number("status", 0)
        .and_then(|status| u16::try_from(status).ok())
        .filter(|&status| status > 0);
    let (request_headers, more) = headers(&request, limits);
    let (response_headers, more_of_response) = headers(&response, limits);
    let mime = content.text("mimeType").unwrap_or_default();
    let Told {
        events,
        any: events_named,
        made_up: made_up_times,
    } = events(&entry, started)?;
    let error = error(&entry, &request, &response, status);
    let head = Head {
        method: &method,
        status,
        headers: &response_headers,
        mime: &mime,
        failed: error.is_some(),
        // chrome-har tells of pieces that came, and of nothing in them.
        came: events_named
            || entry
                .value("_chunks")
                .is_some_and(|chunks| !loose::elements(chunks, 1).0.is_empty()),
    };
    let Body {
        state: body_state,
        bytes: response_body,
        undecodable,
    } = body(&content, &head, producer);
    let (sent, waited) = spans(&entry.object("timings"));
    let request_body = request_body(&request);
    let connection = connection(&entry, &url, producer);
    let request_hash = request_hash(
        started,
        &[
            Some(method.as_bytes()),
            Some(url.as_bytes()),
            request_body.as_deref(),
            connection.as_deref().map(str::as_bytes),
        ],
    );
    let version = version(&request)
        .or_else(|| version(&response))
        .unwrap_or_default();
    Ok(Parsed {
        headers_cut: more || more_of_response,
        entry: HarEntry {
            number,
            started,
            duration: span(&entry, "time"),
            sent,
            // Without response there is no first byte of one, whatever `wait` says.
            waited: waited.filter(|_| status.is_some()),
            server_ip: server_ip(&entry),
            connection,
            method: method.into_owned(),
            url: url.into_owned(),
            no_wire: version.to_ascii_lowercase().starts_with("json-rpc"),
            http_version: version,
            request_body,
            request_headers,
            status,
            mime: mime.into_owned(),
            response_headers,
            response_body,
            body_state,
            undecodable,
            events,
            made_up_times,
            error,
            request_hash,
        },
    })
}

/// See [`HarEntry::request_hash`].
fn request_hash(started: Timestamp, parts: &[Option<&[u8]>]) -> u128 {
    let mut state = Xxh3::new();
    state.update(&started.nanos().to_le_bytes());
    for part in parts {
        // Lengths keep neighbours apart.
        let len = part.map_or(u64::MAX, |bytes| bytes.len() as u64);
        state.update(&len.to_le_bytes());
        state.update(part.unwrap_or_default());
    }
    state.digest128()
}

/// `headers`: objects with `name` and `value`, pairs, or one object of names and values (a value
/// may be an array). Also whether there are more than the limit.
fn headers(message: &Object<'_>, limits: &Limits) -> (Vec<(String, String)>, bool) {
    let Some(value) = message.value("headers") else {
        return (Vec::new(), false);
    };
    let mut headers = Vec::new();
    let mut more = false;
    let mut add = |name: &str, value: Option<&RawValue>| {
        // HTTP/2 pseudo-headers (RFC 9113, section 8.3) are the request line, not headers.
        if name.is_empty() || name.starts_with(':') {
            return;
        }
        let several = value.map_or_else(Vec::new, |value| loose::elements(value, limits.headers).0);
        let values = if several.is_empty() {
            vec![value]
        } else {
            several.into_iter().map(Some).collect()
        };
        for value in values {
            let text = value.and_then(loose::text).unwrap_or_default();
            more |= headers.len() >= limits.headers;
            if headers.len() < limits.headers {
                headers.push((name.to_owned(), text.into_owned()));
            }
        }
    };
    if let Ok(object) = Object::parse(value.get()) {
        for (name, value) in object.members() {
            add(name, Some(value));
        }
    }
    let (list, longer) = loose::elements(value, limits.headers);
    for header in list {
        if let Ok(object) = Object::parse(header.get()) {
            add(
                &object.text("name").unwrap_or_default(),
                object.value("value"),
            );
        } else if let [name, value] = *loose::elements(header, 2).0 {
            add(&loose::text(name).unwrap_or_default(), Some(value));
        }
    }
    (headers, more || longer)
}

/// `httpVersion`, unless it says nothing.
fn version(message: &Object<'_>) -> Option<String> {
    message
        .said("httpVersion")
        .filter(|version| !version.eq_ignore_ascii_case("unknown"))
        .map(Cow::into_owned)
}

/// A span of milliseconds; negative ones are unknown.
fn span(object: &Object<'_>, name: &str) -> Option<Span> {
    object
        .number(name, 6)
        .filter(|&nanos| nanos >= 0)
        .map(Span::from_nanos)
}

/// Start to the end of the request, and to the start of the response. `ssl` is part of `connect`.
fn spans(timings: &Object<'_>) -> (Option<Span>, Option<Span>) {
    let sent = ["blocked", "dns", "connect", "send"]
        .into_iter()
        .filter_map(|name| span(timings, name))
        .reduce(sum);
    let waited = span(timings, "wait").map(|wait| sum(sent.unwrap_or_default(), wait));
    (sent, waited)
}

const fn sum(a: Span, b: Span) -> Span {
    Span::from_nanos(a.nanos().saturating_add(b.nanos()))
}

fn server_ip(entry: &Object<'_>) -> Option<String> {
    let text = entry.text("serverIPAddress")?;
    let bare = text
        .trim()
        .trim_start_matches('[')
        .trim_end_matches(']')
        .trim();
    (!bare.is_empty()).then(|| bare.to_owned())
}

/// Chrome: `_connectionId`; its `connection` is the server's port, as Firefox's is. In Chrome
/// before 2024, chrome-har and Safari `connection` is the connection.
fn connection(entry: &Object<'_>, url: &str, producer: Producer) -> Option<String> {
    if let Some(id) = entry.said("_connectionId") {
        return Some(id.into_owned());
    }
    let connection = entry.said("connection")?;
    let port = Some(&*connection) == port(url).as_deref()
        || entry.text("_serverPort").as_ref() == Some(&connection);
    (!port && !producer.connection_is_port).then(|| connection.into_owned())
}

fn port(url: &str) -> Option<Cow<'_, str>> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let port = host.rsplit_once(':').map(|(_, port)| port);
    match port.filter(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())) {
        Some(port) => Some(Cow::Borrowed(port)),
        None if scheme.eq_ignore_ascii_case("https") => Some(Cow::Borrowed("443")),
        None => Some(Cow::Borrowed("80")),
    }
}

/// What failed: `_error` (Chrome, mitmproxy), `_failureText`, `_wasAborted` (Playwright), or the
/// status text of an entry without response.
fn error(
    entry: &Object<'_>,
    request: &Object<'_>,
    response: &Object<'_>,
    status: Option<u16>,
) -> Option<String> {
    for object in [response, entry, request] {
        for name in ["_error", "_failureText"] {
            if let Some(value) = object.value(name) {
                // An object says the same in more words; its text is no payload of the wire.
                let text = loose::text(value).unwrap_or(Cow::Borrowed(name));
                if !text.is_empty() && text != "false" {
                    return Some(text.into_owned());
                }
            }
        }
        if object.truth("_wasAborted") {
            return Some("aborted".to_owned());
        }
    }
    let text = response.said("statusText")?;
    let failed = status.is_none() || text.starts_with("net::ERR_");
    failed.then(|| text.into_owned())
}

/// What `_eventSourceMessages` tells.
#[derive(Default)]
struct Told {
    events: Option<Vec<HarEvent>>,
    /// Any of them is there.
    any: bool,
    /// Their times were made up.
    made_up: bool,
}

/// Reads `_eventSourceMessages`.
fn events(entry: &Object<'_>, started: Timestamp) -> Result<Told, String> {
    let list = entry
        .value("_eventSourceMessages")
        .filter(|list| list.get().starts_with('['));
    let Some(list) = list else {
        return Ok(Told::default());
    };
    let (list, more) = loose::elements(list, EVENTS);
    if more {
        return Err("more events than the limit".to_owned());
    }
    let mut events: Vec<HarEvent> = list
        .into_iter()
        .filter_map(|event| Object::parse(event.get()).ok())
        .map(|event| HarEvent {
            time: event
                .text("time")
                .and_then(|time| loose::instant(&time))
                .filter(|time| time.nanos() > 0),
            name: event.text("eventName").unwrap_or_default().into_owned(),
            id: event.text("eventId").unwrap_or_default().into_owned(),
            data: event
                .text("data")
                .filter(|data| !is_masked_body(data))
                .map(Cow::into_owned),
        })
        .collect();
    // DevTools makes up the times of events when it exports an imported HAR: all are the entry's
    // start. A double holds such a time to a quarter of a microsecond.
    let at_start = |time: Timestamp| time.since(started).nanos().unsigned_abs() < 1_000;
    let made_up = events.iter().any(|event| event.time.is_some())
        && events.iter().all(|event| event.time.is_none_or(at_start));
    if made_up {
        for event in &mut events {
            event.time = None;
        }
    }
    let any = !events.is_empty();
    Ok(Told {
        events: Some(events),
        any,
        made_up,
    })
}

/// What of an entry tells whether its response can have a body.
struct Head<'a> {
    method: &'a str,
    status: Option<u16>,
    headers: &'a [(String, String)],
    mime: &'a str,
    failed: bool,
    /// Something of the body is known to have come.
    came: bool,
}

impl Head<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(have, _)| have.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }

    fn content_length(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    fn is_event_stream(&self) -> bool {
        let mime = self.header("content-type").unwrap_or(self.mime);
        let media = mime.split(';').next().unwrap_or_default().trim();
        media.eq_ignore_ascii_case("text/event-stream")
    }

    /// Without body by RFC 9112, section 6.3, whoever wrote the HAR.
    fn is_bodiless(&self) -> bool {
        self.method.eq_ignore_ascii_case("HEAD")
            || matches!(self.status, Some(100..200 | 204 | 205 | 304))
            || self.content_length() == Some(0)
    }
}

/// What is known of the response's body, and the body.
#[derive(Default)]
struct Body {
    state: BodyState,
    bytes: Option<Vec<u8>>,
    /// It is there and could not be decoded.
    undecodable: bool,
}

fn body(content: &Object<'_>, head: &Head<'_>, producer: Producer) -> Body {
    if head.status.is_none() {
        return Body::default();
    }
    let raw = content.value("text");
    // Some write a JSON body as JSON.
    let text = raw.map(|raw| loose::text(raw).unwrap_or(Cow::Borrowed(raw.get())));
    if let Some(text) = text.as_deref().filter(|text| !text.is_empty())
        && !is_masked_body(text)
    {
        let base64 = content
            .text("encoding")
            .is_some_and(|encoding| encoding.eq_ignore_ascii_case("base64"));
        let bytes = if base64 {
            match loose::base64(text) {
                // A sanitizer may leave `encoding` beside its own words.
                Some(bytes) if is_masked_body(&String::from_utf8_lossy(&bytes)) => {
                    return Body::default();
                }
                Some(bytes) => bytes,
                None => {
                    return Body {
                        undecodable: true,
                        ..Body::default()
                    };
                }
            }
        } else {
            text.as_bytes().to_vec()
        };
        // Firefox keeps the beginning of what is too long, and says so.
        let cut = content
            .text("comment")
            .is_some_and(|comment| comment.to_ascii_lowercase().contains("truncated"));
        return Body {
            state: if head.failed || cut {
                BodyState::Partial
            } else {
                BodyState::Whole
            },
            bytes: Some(bytes),
            undecodable: false,
        };
    }
    let size = content.number("size", 0);
    // 202 is how MCP accepts a notification: empty, and some exporters call that aborted.
    let accepted = head.status == Some(202) && size == Some(0);
    let known = |state| Body {
        state,
        ..Body::default()
    };
    if head.is_bodiless() || accepted {
        return known(BodyState::Empty);
    }
    let replaced = text.as_deref().is_some_and(|text| !text.is_empty());
    let elsewhere = content.value("_file").is_some() || content.said("comment").is_some();
    let promised = head.content_length().is_some_and(|length| length > 0);
    // An empty stream is what a streamed, unrecorded one looks like: only a text that is there
    // and empty, of a producer that is known not to do so, tells them apart.
    let trusted = !producer.streams_unrecorded
        && (!head.is_event_stream() || (producer.named && text.is_some()));
    let empty = size == Some(0) && trusted;
    if empty && !replaced && !elsewhere && !promised && !head.failed && !head.came {
        known(BodyState::Empty)
    } else {
        known(BodyState::NotRecorded)
    }
}

/// `postData`: its text (base64 where said), or its parameters put together again.
fn request_body(request: &Object<'_>) -> Option<Vec<u8>> {
    let value = request.value("postData")?;
    let Ok(data) = Object::parse(value.get()) else {
        return loose::text(value)
            .filter(|text| !text.is_empty() && !is_masked_body(text))
            .map(|text| text.into_owned().into_bytes());
    };
    let text = data
        .value("text")
        .map(|raw| loose::text(raw).unwrap_or(Cow::Borrowed(raw.get())))
        .filter(|text| !text.is_empty());
    let Some(text) = text else {
        return parameters(&data);
    };
    if is_masked_body(&text) {
        return None;
    }
    let base64 = ["encoding", "_encoding"].into_iter().any(|name| {
        data.text(name)
            .is_some_and(|encoding| encoding.eq_ignore_ascii_case("base64"))
    });
    if base64 || data.truth("_base64") {
        return loose::base64(&text);
    }
    Some(text.into_owned().into_bytes())
}

/// The body of `postData.params`. chrome-har takes a JSON object apart into its members, values
/// as JSON; for a form the names and values are joined as they stand.
fn parameters(data: &Object<'_>) -> Option<Vec<u8>> {
    let (list, more) = loose::elements(data.value("params")?, PARAMETERS);
    if list.is_empty() || more {
        return None;
    }
    let mime = data.text("mimeType").unwrap_or_default();
    let json = mime.to_ascii_lowercase().contains("json");
    let mut body = String::new();
    for parameter in list {
        let parameter = Object::parse(parameter.get()).ok()?;
        let name = parameter.value("name")?;
        if json {
            body.push(if body.is_empty() { '{' } else { ',' });
            body.push_str(name.get());
            body.push(':');
            body.push_str(parameter.value("value").map_or("null", RawValue::get));
        } else {
            if !body.is_empty() {
                body.push('&');
            }
            body.push_str(&loose::text(name)?);
            body.push('=');
            body.push_str(&parameter.text("value").unwrap_or_default());
        }
    }
    if json {
        body.push('}');
    }
    Some(body.into_bytes())
}

/// Events of one entry: a day of twelve a second. More would cost more memory than their text.
const EVENTS: usize = 1 << 20;

/// Parameters of one request.
const PARAMETERS: usize = 4096;

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test may panic"
)]
mod tests {
    use super::*;

    fn producer(name: &str) -> Producer {
        let mut producer = Producer::default();
        if !name.is_empty() {
            producer.include(name);
        }
        producer
    }

    fn read_as(name: &str, text: &str) -> HarEntry {
        parse(text, 1, producer(name), &Limits::default())
            .unwrap()
            .entry
    }

    /// An entry of `response`, with `more` members.
    fn entry(name: &str, response: &str, more: &str) -> HarEntry {
        read_as(
            name,
            &format!(
                r#"{{"startedDateTime":"2026-11-29T20:50:37.217Z","request":{{"method":"GET","url":"http://h:81/mcp"}},"response":{response}{more}}}"#
            ),
        )
    }

    fn state(name: &str, response: &str) -> BodyState {
        entry(name, response, "").body_state
    }

    #[test]
    fn reads_a_devtools_entry() {
        let entry = read_as(
            "WebInspector",
            r#"{"_connectionId":"101","connection":"18601","request":{"method":"POST","url":"http://127.0.0.4:18601/mcp","httpVersion":"HTTP/1.1",
            "headers":[{"name":"Accept","value":"*/*"},{"name":":path","value":"/mcp"}],"postData":{"mimeType":"application/json","text":"{\"id\":0}"}},
            "response":{"status":200,"httpVersion":"http/2.0","headers":[{"name":"mcp-session-id","value":"s"}],"content":{"size":339,"mimeType":"text/event-stream","compression":-18},"_error":"net::ERR_INCOMPLETE_CHUNKED_ENCODING"},
            "serverIPAddress":"[::1]","startedDateTime":"2026-11-29T20:50:37.274Z","time":461.3630000001194,
            "timings":{"blocked":2.045,"dns":-1,"ssl":-1,"connect":-1,"send":0.5,"wait":1.25,"receive":457.6},
            "_eventSourceMessages":[{"time":1795985437.274873,"eventName":"message","eventId":"5","data":""},{"time":1795985437.584263,"eventName":"message","eventId":6,"data":"{\"a\":\"\\n\"}"}]}"#,
        );
        assert_eq!(entry.connection.as_deref(), Some("101"));
        assert_eq!(entry.server_ip.as_deref(), Some("::1"));
        assert_eq!(entry.http_version, "HTTP/1.1");
        assert_eq!(
            entry.request_headers,
            [("Accept".to_owned(), "*/*".to_owned())]
        );
        assert_eq!(entry.request_body.as_deref(), Some(&br#"{"id":0}"#[..]));
        assert_eq!(entry.duration, Some(Span::from_nanos(461_363_000)));
        assert_eq!(entry.sent, Some(Span::from_nanos(2_545_000)));
        assert_eq!(entry.waited, Some(Span::from_nanos(3_795_000)));
        assert_eq!(entry.body_state, BodyState::NotRecorded);
        assert_eq!(
            entry.error.as_deref(),
            Some("net::ERR_INCOMPLETE_CHUNKED_ENCODING")
        );
        let events = entry.events.unwrap();
        assert_eq!(
            events[0].time,
            Some(Timestamp::from_nanos(1_795_985_437_274_873_000))
        );
        assert_eq!(events[0].data.as_deref(), Some(""));
        assert_eq!(events[1].id, "6");
        assert_eq!(events[1].data.as_deref(), Some(r#"{"a":"\n"}"#));
    }

    #[test]
    fn reads_loose_types() {
        let entry = read_as(
            "x",
            r#"{"startedDateTime":1795985437217,"time":"-1","request":{"method":"POST","url":"http://h/","httpVersion":"unknown",
            "headers":{"A":"1","b":["2",3],":method":"POST"},"postData":null},
            "response":{"status":"200","httpVersion":"h2","headers":[["X","1"],["y",2],["z"],{"name":"n"},7],"content":{"size":"3","text":"abc"}},
            "timings":null,"serverIPAddress":"","connection":443}"#,
        );
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            entry.started,
            Timestamp::from_nanos(1_795_985_437_217_000_000)
        );
        assert_eq!(entry.duration, None);
        assert_eq!((entry.sent, entry.waited), (None, None));
        assert_eq!(
            entry.request_headers,
            [pair("A", "1"), pair("b", "2"), pair("b", "3")]
        );
        assert_eq!(
            entry.response_headers,
            [pair("X", "1"), pair("y", "2"), pair("n", "")]
        );
        assert_eq!(entry.http_version, "h2");
        assert_eq!(entry.status, Some(200));
        assert_eq!(entry.server_ip, None);
        assert_eq!(entry.connection.as_deref(), Some("443"));
        assert_eq!(entry.response_body.as_deref(), Some(&b"abc"[..]));
        assert_eq!(entry.body_state, BodyState::Whole);
        assert_eq!(entry.events, None);
        assert!(!entry.no_wire && !entry.undecodable && !entry.made_up_times);
    }

    #[test]
    fn knows_a_request_again() {
        let hash = |url: &str, more: &str| {
            read_as("x", &format!(r#"{{"startedDateTime":"2026-11-29T20:50:37Z","request":{{"method":"GET","url":"{url}"}}{more}}}"#)).request_hash
        };
        let same = hash("http://h/", "");
        assert_eq!(
            same,
            hash("http://h/", r#","time":9,"response":{"status":200}"#)
        );
        assert_ne!(same, hash("http://h/x", ""));
        assert_ne!(same, hash("http://h/", r#","_connectionId":"7""#));
    }

    #[test]
    fn knows_messages_in_the_shape_of_exchanges() {
        let wire = |version: &str| {
            read_as(
                "mcpsnoop",
                &format!(
                    r#"{{"startedDateTime":"2026-11-29T20:50:37.123456789Z","request":{{"method":"tools/call","url":"mcp://s","httpVersion":"{version}"}}}}"#
                ),
            )
        };
        let entry = wire("JSON-RPC/2.0");
        assert!(entry.no_wire);
        assert_eq!(entry.started.nanos() % 1_000_000_000, 123_456_789);
        assert!(!wire("HTTP/1.1").no_wire);
    }

    #[test]
    fn tells_a_connection_from_a_port() {
        let connection = |name: &str, more: &str| entry(name, "null", more).connection;
        assert_eq!(
            connection("chrome-har", r#","connection":"101""#).as_deref(),
            Some("101")
        );
        assert_eq!(connection("WebInspector", r#","connection":"81""#), None);
        assert_eq!(connection("Firefox", r#","connection":"3128""#), None);
        assert_eq!(
            connection("x", r#","connection":"8080","_serverPort":8080"#),
            None
        );
        assert_eq!(connection("x", r#","connection":"""#), None);
        assert_eq!(port("https://[::1]/").as_deref(), Some("443"));
        assert_eq!(port("http://u:1@[::1]:8/x:9").as_deref(), Some("8"));
        assert_eq!(port("nonsense"), None);
    }

    #[test]
    fn judges_empty_bodies_by_their_producer() {
        use BodyState::{Empty, NotRecorded, Partial, Whole};
        let stream =
            r#""headers":[{"name":"content-type","value":"Text/Event-Stream; charset=utf-8"}],"#;
        let streamed = format!(r#"{{"status":200,{stream}"content":{{"size":0,"text":""}}}}"#);
        assert_eq!(state("mitmproxy", &streamed), NotRecorded);
        assert_eq!(state("", &streamed), NotRecorded);
        assert_eq!(state("WebInspector", &streamed), Empty);
        let table = [
            (
                "WebInspector",
                r#"{"status":200,"content":{"size":0,"mimeType":"text/event-stream"}}"#,
                NotRecorded,
            ),
            (
                "mitmproxy",
                r#"{"status":200,"content":{"size":0,"text":"","mimeType":"application/json"}}"#,
                NotRecorded,
            ),
            (
                "mitmproxy",
                r#"{"status":202,"content":{"size":0,"text":""}}"#,
                Empty,
            ),
            (
                "mitmproxy",
                r#"{"status":200,"headers":[{"name":"Content-Length","value":"0"}],"content":{"size":0,"text":""}}"#,
                Empty,
            ),
            (
                "mitmproxy",
                r#"{"status":204,"content":{"size":0,"text":""}}"#,
                Empty,
            ),
            ("", r#"{"status":304,"content":{}}"#, Empty),
            (
                "WebInspector",
                r#"{"status":202,"content":{"size":0},"_error":"net::ERR_ABORTED"}"#,
                Empty,
            ),
            (
                "WebInspector",
                r#"{"status":409,"content":{"size":0},"_error":"net::ERR_ABORTED"}"#,
                NotRecorded,
            ),
            (
                "WebInspector",
                r#"{"status":200,"content":{"size":0}}"#,
                Empty,
            ),
            (
                "WebInspector",
                r#"{"status":200,"headers":[{"name":"content-length","value":"9"}],"content":{"size":0}}"#,
                NotRecorded,
            ),
            (
                "WebInspector",
                r#"{"status":200,"content":{"size":12}}"#,
                NotRecorded,
            ),
            (
                "Firefox",
                r#"{"status":200,"content":{"size":0,"comment":"not included"}}"#,
                NotRecorded,
            ),
            (
                "Playwright",
                r#"{"status":200,"content":{"size":-1}}"#,
                NotRecorded,
            ),
            (
                "Playwright",
                r#"{"status":200,"content":{"size":9,"_file":"a.txt"}}"#,
                NotRecorded,
            ),
            (
                "Firefox",
                r#"{"status":200,"content":{"size":9,"text":"id: 1","comment":"Response body was truncated"}}"#,
                Partial,
            ),
            (
                "har-sanitizer",
                r#"{"status":200,"content":{"size":9,"text":"obfuscated"}}"#,
                NotRecorded,
            ),
            (
                "har-sanitizer",
                r#"{"status":202,"content":{"size":0,"text":"obfuscated"}}"#,
                Empty,
            ),
            (
                "x",
                r#"{"status":200,"content":{"text":"[application/json redacted]"}}"#,
                NotRecorded,
            ),
            (
                "x",
                r#"{"status":200,"content":{"text":"id: 1\n\n"},"_error":"x"}"#,
                Partial,
            ),
            (
                "x",
                r#"{"status":200,"content":{"text":"id: 1\n\n"},"_error":null}"#,
                Whole,
            ),
            (
                "x",
                r#"{"status":200,"content":{"text":"!!","encoding":"base64"}}"#,
                NotRecorded,
            ),
            ("x", r#"{"status":200}"#, NotRecorded),
            (
                "x",
                r#"{"status":0,"content":{"size":0,"text":""}}"#,
                NotRecorded,
            ),
        ];
        for (name, response, expected) in table {
            assert_eq!(state(name, response), expected, "{name} {response}");
        }
        let empty =
            r#"{"status":200,"content":{"size":0,"text":"","mimeType":"text/event-stream"}}"#;
        let chunks = r#","_chunks":[{"ts":12.5,"bytes":98}]"#;
        assert_eq!(entry("chrome-har", empty, "").body_state, Empty);
        assert_eq!(entry("chrome-har", empty, chunks).body_state, NotRecorded);
        let undecodable = |text: &str| {
            entry(
                "x",
                &format!(r#"{{"status":200,"content":{{"text":"{text}","encoding":"base64"}}}}"#),
                "",
            )
            .undecodable
        };
        assert!(undecodable("id: 1\\n\\n"));
        assert!(!undecodable("aWQ6IDEK"));
        assert!(!undecodable("[redacted]"));
    }

    #[test]
    fn reads_what_failed() {
        let error = |response: &str, more: &str| entry("x", response, more).error;
        assert_eq!(
            error(r#"{"status":0,"_error":"net::ERR_EMPTY_RESPONSE"}"#, "").as_deref(),
            Some("net::ERR_EMPTY_RESPONSE")
        );
        assert_eq!(
            error(r#"{"status":-1,"_failureText":"net::ERR_ABORTED"}"#, "").as_deref(),
            Some("net::ERR_ABORTED")
        );
        assert_eq!(
            error(r#"{"status":200}"#, r#","_wasAborted":true"#).as_deref(),
            Some("aborted")
        );
        assert_eq!(
            error(r#"{"status":0,"statusText":"connection refused"}"#, "").as_deref(),
            Some("connection refused")
        );
        assert_eq!(
            error(r#"{"status":200,"statusText":"OK","_error":""}"#, ""),
            None
        );
        for status in ["0", "-1", "null", r#""""#, "70000"] {
            let response = format!(r#"{{"status":{status}}}"#);
            let none = entry("x", &response, r#","timings":{"send":1,"wait":0}"#);
            assert_eq!(none.status, None);
            assert_eq!(none.sent, Some(Span::from_millis(1)));
            assert_eq!(none.waited, None);
        }
        assert_eq!(entry("x", "null", "").status, None);
    }

    #[test]
    fn reads_bodies_in_base64() {
        let entry = entry(
            "x",
            r#"{"status":200,"content":{"text":"aWQ6IDEK","encoding":"Base64"}}"#,
            "",
        );
        assert_eq!(entry.response_body.as_deref(), Some(&b"id: 1\n"[..]));
        let body = |data: &str| {
            read_as("x", &format!(r#"{{"startedDateTime":"2026-11-29T20:50:37Z","request":{{"url":"http://h/","postData":{data}}}}}"#))
                .request_body
                .map(|body| String::from_utf8(body).unwrap())
        };
        assert_eq!(
            body(r#"{"text":"aGk=","encoding":"base64"}"#).as_deref(),
            Some("hi")
        );
        assert_eq!(
            body(r#"{"text":"aGk=","_base64":true}"#).as_deref(),
            Some("hi")
        );
        assert_eq!(body(r#"{"text":"aGk="}"#).as_deref(), Some("aGk="));
        assert_eq!(
            body(r#"{"text":{"id": 1.0}}"#).as_deref(),
            Some(r#"{"id": 1.0}"#)
        );
        assert_eq!(body(r#""x=1""#).as_deref(), Some("x=1"));
        assert_eq!(body(r#"{"text":"[redacted]"}"#), None);
        assert_eq!(body(r#"{"text":"","params":[]}"#), None);
        assert_eq!(
            body(r#"{"mimeType":"application/json","params":[{"name":"method","value":"ping"},{"name":"id","value":0}]}"#).as_deref(),
            Some(r#"{"method":"ping","id":0}"#)
        );
        assert_eq!(
            body(r#"{"params":[{"name":"a","value":"1"},{"name":"b"}]}"#).as_deref(),
            Some("a=1&b=")
        );
    }

    #[test]
    fn reads_events_that_a_sanitizer_emptied_or_devtools_made_up() {
        let events = |list: &str| {
            let entry = entry(
                "x",
                r#"{"status":200}"#,
                &format!(r#","_eventSourceMessages":{list}"#),
            );
            let timed = |events: &Vec<HarEvent>| events.iter().any(|event| event.time.is_some());
            assert!(!entry.made_up_times || !entry.events.as_ref().is_some_and(timed));
            entry.events
        };
        let emptied = events(r#"[{"time":1795985437.5,"eventName":"message","eventId":"1"},{"time":1795985437500,"eventId":"2","data":"obfuscated"}]"#).unwrap();
        assert_eq!(emptied[0].data, None);
        assert_eq!(emptied[1].data, None);
        assert_eq!(emptied[0].time, emptied[1].time);
        assert_eq!(
            emptied[0].time,
            Some(Timestamp::from_nanos(1_795_985_437_500_000_000))
        );
        let made_up = events(
            r#"[{"time":1795985437.217,"data":"a"},{"time":1795985437.2170002,"data":"b"}]"#,
        )
        .unwrap();
        assert!(made_up.iter().all(|event| event.time.is_none()));
        let real =
            events(r#"[{"time":1795985437.217,"data":"a"},{"time":1795985437.218,"data":"b"}]"#)
                .unwrap();
        assert!(real.iter().all(|event| event.time.is_some()));
        assert_eq!(events("[]"), Some(Vec::new()));
        assert_eq!(events("null"), None);
        assert_eq!(events("7"), None);
    }

    #[test]
    fn refuses_what_is_no_entry() {
        for text in [
            "null",
            "[]",
            "{}",
            r#"{"startedDateTime":"2026-11-29T20:50:37Z"}"#,
            r#"{"startedDateTime":"x","request":{"url":"http://h/"}}"#,
            r#"{"startedDateTime":"2026-11-29T20:50:37Z","request":{"url":""}}"#,
            r#"{"startedDateTime":"2026-11-29T20:50:37Z","request":{"url":"http://h/"},}"#,
        ] {
            assert!(
                parse(text, 1, Producer::default(), &Limits::default()).is_err(),
                "{text}"
            );
        }
        let limits = Limits {
            headers: 2,
            ..Limits::default()
        };
        let text = r#"{"startedDateTime":"2026-11-29T20:50:37Z","request":{"url":"u","headers":{"a":1,"b":2,"c":3}}}"#;
        let parsed = parse(text, 1, Producer::default(), &limits).unwrap();
        assert!(parsed.headers_cut);
        assert_eq!(parsed.entry.request_headers.len(), 2);
    }
}
