//! A HAR entry → an exchange. What the producer did not record is a hole, never an empty body.

use super::draft::{Asked, Draft, Head, Settings};
use crate::{
    anomaly::Anomalies,
    model::{
        exchange::{End, EndCause, Exchange, HttpVersion, Part, Scheme, Source},
        flow::Endpoint,
        har::{BodyState, HarEntry, HarEvent},
        message::MessageKind,
        place::{At, InputId, Place},
    },
    sse,
};
use std::{net::SocketAddr, sync::Arc};

/// Drafts an entry.
pub(super) fn exchange(
    entry: &HarEntry,
    input: InputId,
    settings: &Settings,
) -> (Exchange, Anomalies) {
    let place = Place {
        input,
        frame: entry.number,
        tcp_stream: None,
    };
    let started = At {
        time: entry.started,
        place,
        offset: 0,
    };
    let after = |span: Option<crate::model::time::Span>| {
        span.map_or(started, |span| At {
            time: entry.started.plus(span),
            ..started
        })
    };
    let sent = after(entry.sent);
    let waited = after(entry.waited.or(entry.duration));
    let end = after(entry.duration.or(entry.waited));
    let has_events = entry.events.is_some();
    let recorded = has_events || entry.body_state != BodyState::NotRecorded;
    let event_times = entry
        .events
        .as_ref()
        .is_some_and(|events| events.iter().any(|event| event.time.is_some()));
    let mut draft = Draft::new(
        place,
        Source::Har {
            bodies: recorded,
            event_times,
        },
    );
    let url = Url::of(&entry.url);
    draft.ends(None, url.endpoint(entry.server_ip.as_deref()));

    let mut headers: Vec<(&str, &[u8])> = entry
        .request_headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    if !entry
        .request_headers
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
        let headers: Vec<(&str, &[u8])> = entry
            .response_headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
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
                if redacted && let Some(facts) = draft.exchange.events.last_mut() {
                    facts.message = MessageKind::Redacted;
                    facts.has_data = true;
                }
            }
        }
        _ => draft.response_body(body, waited, settings),
    }
    if let Some(events) = told.filter(|_| !body.is_empty()) {
        lend_times(&mut draft.exchange, events);
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
/// that a browser dispatches.
fn lend_times(exchange: &mut Exchange, events: &[HarEvent]) {
    let dispatched = exchange
        .events
        .iter()
        .filter(|event| event.has_data)
        .count();
    if dispatched != events.len() {
        return;
    }
    let mut times = events.iter().map(|event| event.time);
    for event in exchange.events.iter_mut().filter(|event| event.has_data) {
        if let Some(Some(time)) = times.next() {
            event.time = time;
        }
    }
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
