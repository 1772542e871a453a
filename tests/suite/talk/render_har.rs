//! A talk as the HAR that a Chromium at the client's end would have exported.
//!
//! Streams that ended have their text; streams cut, aborted or still open have only
//! `_eventSourceMessages`, whose `eventId` is the last id so far (an event without one repeats
//! it). A request that was never answered is an entry of status 0.

use super::{
    model::{Act, Body, Close, Request, Response, Side, Talk},
    render_pcap::START_MICROS,
    wire::reason,
};
use serde_json::{Value, json};

/// The file.
pub(crate) fn render(talk: &Talk) -> Vec<u8> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let mut current: Vec<Option<usize>> = vec![None; talk.connections.len()];
    let mut gone = vec![false; talk.connections.len()];
    for step in &talk.steps {
        let here = step.connection;
        if let Act::Request(request) = &step.act {
            current[here] = Some(entries.len());
            entries.push(Entry::new(here, step.at, request));
            continue;
        }
        // What reaches a client that has closed is not in its browser's log.
        let Some(entry) = current[here]
            .filter(|_| !gone[here])
            .and_then(|i| entries.get_mut(i))
        else {
            continue;
        };
        match &step.act {
            Act::Response(response) if !step.half => {
                entry.response = Some((step.at, response));
                if let Body::Whole(text) = &response.body {
                    entry.body.clone_from(text);
                    entry.complete = true;
                }
                entry.last = step.at;
            }
            Act::Event(event) if !step.half => {
                entry.body.push_str(&event.text());
                if let Some(id) = &event.id {
                    entry.last_id.clone_from(id);
                }
                if let Some(data) = &event.data {
                    entry.messages.push(json!({
                        "time": seconds(step.at),
                        "eventName": event.event_type.as_deref().unwrap_or("message"),
                        "eventId": entry.last_id,
                        "data": data,
                    }));
                }
                entry.last = step.at;
            }
            Act::Comment(text) => {
                entry.body.push_str(&format!(": {text}\n\n"));
                entry.last = step.at;
            }
            Act::End => {
                entry.complete = true;
                entry.last = step.at;
            }
            Act::Close(close) => {
                gone[here] = true;
                if !entry.complete {
                    let until_close = matches!(entry.response, Some((_, r)) if matches!(r.body, Body::UntilClose));
                    entry.last = step.at;
                    match close {
                        Close::Fin(Side::Server) if until_close => entry.complete = true,
                        _ => entry.error = Some(error(*close, entry.response.is_some())),
                    }
                }
            }
            _ => {}
        }
    }
    entries.sort_by_key(|e| e.start);
    let entries: Vec<Value> = entries.iter().map(|e| e.json(talk)).collect();
    let har = json!({"log": {
        "version": "1.2",
        "creator": {"name": "WebInspector", "version": "537.36"},
        "pages": [],
        "entries": entries,
    }});
    serde_json::to_vec(&har).unwrap()
}

struct Entry<'a> {
    connection: usize,
    start: i64,
    last: i64,
    request: &'a Request,
    response: Option<(i64, &'a Response)>,
    body: String,
    messages: Vec<Value>,
    last_id: String,
    complete: bool,
    error: Option<&'static str>,
}

impl<'a> Entry<'a> {
    fn new(connection: usize, start: i64, request: &'a Request) -> Self {
        Self {
            connection,
            start,
            last: start,
            request,
            response: None,
            body: String::new(),
            messages: Vec::new(),
            last_id: String::new(),
            complete: false,
            error: None,
        }
    }

    fn json(&self, talk: &Talk) -> Value {
        let ends = &talk.connections[self.connection];
        let host = &self.request.headers[0].1;
        let mut request = json!({
            "method": self.request.method,
            "url": format!("http://{host}{}", self.request.path),
            "httpVersion": "HTTP/1.1",
            "headers": headers(&self.request.headers),
            "queryString": [],
            "cookies": [],
            "headersSize": -1,
            "bodySize": self.request.body.as_ref().map_or(0, String::len),
        });
        if let Some(body) = &self.request.body {
            request["postData"] = json!({"mimeType": "application/json", "text": body});
        }
        let millis = |micros: i64| micros as f64 / 1e3;
        let (wait, response) = match self.response {
            None => (
                0,
                json!({
                    "status": 0, "statusText": "", "httpVersion": "", "headers": [], "cookies": [],
                    "content": {"size": 0, "mimeType": "x-unknown"}, "redirectURL": "",
                    "headersSize": -1, "bodySize": -1, "_transferSize": 0,
                    "_error": self.error,
                }),
            ),
            Some((at, response)) => {
                let media = response
                    .headers
                    .iter()
                    .find(|(name, _)| name == "Content-Type")
                    .map_or("", |(_, value)| value.as_str());
                let mut content = json!({"size": self.body.len(), "mimeType": media});
                if self.complete {
                    content["text"] = json!(self.body);
                }
                (
                    at - self.start,
                    json!({
                        "status": response.status, "statusText": reason(response.status),
                        "httpVersion": "HTTP/1.1", "headers": headers(&response.headers),
                        "cookies": [], "content": content, "redirectURL": "",
                        "headersSize": -1, "bodySize": self.body.len(), "_transferSize": self.body.len(),
                        "_error": self.error,
                    }),
                )
            }
        };
        let mut entry = json!({
            "startedDateTime": date(self.start),
            "time": millis(self.last - self.start),
            "request": request,
            "response": response,
            "cache": {},
            "timings": {"blocked": 0, "dns": -1, "ssl": -1, "connect": -1, "send": 0,
                "wait": millis(wait), "receive": millis(self.last - self.start - wait)},
            "serverIPAddress": ends.server.ip().to_string(),
            "connection": ends.server.port().to_string(),
            "_connectionId": (self.connection + 100).to_string(),
            "_resourceType": "fetch",
        });
        if !self.complete && !self.messages.is_empty() {
            entry["_eventSourceMessages"] = json!(self.messages);
        }
        entry
    }
}

fn headers(pairs: &[(String, String)]) -> Vec<Value> {
    pairs
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect()
}

fn error(close: Close, answered: bool) -> &'static str {
    match close {
        Close::Fin(Side::Client) | Close::Rst(Side::Client) => "net::ERR_ABORTED",
        Close::Rst(Side::Server) => "net::ERR_CONNECTION_RESET",
        Close::Fin(Side::Server) if answered => "net::ERR_INCOMPLETE_CHUNKED_ENCODING",
        Close::Fin(Side::Server) => "net::ERR_EMPTY_RESPONSE",
        Close::Refused => "net::ERR_CONNECTION_REFUSED",
    }
}

fn seconds(micros: i64) -> f64 {
    (START_MICROS + micros) as f64 / 1e6
}

/// RFC 3339 with milliseconds, as browsers write it.
fn date(micros: i64) -> String {
    let time = jiff::Timestamp::from_microsecond(START_MICROS + micros).unwrap();
    format!("{time:.3}")
}
