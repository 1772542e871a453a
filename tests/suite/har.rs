//! HARs as their producers write them: what is read of each, what is said that it cannot tell, and
//! what damage, copies and sanitizers do to them.
//!
//! The entries are small and written here after what each producer is known to write; exports of the
//! programs themselves are among the real captures.

use crate::talk::expect::essence;
use flate2::{Compression, write::ZlibEncoder};
use forkscope::{
    anomaly::Kind,
    model::{
        analysis::Analysis,
        exchange::{EndCause, Exchange, Source},
        har::HarFacts,
        place::InputId,
        verdict::Verdict,
    },
    pipeline::{Options, Progress, run},
    report::{SUMMARY, Style},
};
use serde_json::{Value, json};
use std::{fmt::Write as _, fs, io::Write as _};

const SECOND: i64 = 1_000_000_000;

/// 2026-11-29T20:50:37Z.
const START: i64 = 1_795_985_437 * SECOND;

/// A session in four entries, as a producer writes them: initialize, a call whose stream ends after
/// two events, the resume that brings the result, and nothing else. The fields that all producers
/// write alike are here, the others are its own.
struct Producer {
    creator: Value,
    /// `startedDateTime` of a time in milliseconds after the start.
    date: fn(u32) -> String,
    /// The header list of names and values.
    headers: fn(&[(&str, &str)]) -> Value,
    /// `content` of a body.
    content: fn(&str, &str) -> Value,
    /// Other members of each entry.
    more: fn() -> Value,
}

fn objects(headers: &[(&str, &str)]) -> Value {
    let list = headers.iter();
    list.map(|(name, value)| json!({"name": name, "value": value}))
        .collect()
}

fn whole(mime: &str, text: &str) -> Value {
    json!({"size": text.len(), "mimeType": mime, "text": text})
}

fn nothing() -> Value {
    json!({})
}

/// Milliseconds, UTC.
fn millis(after: u32) -> String {
    format!(
        "2026-11-29T20:50:{:02}.{:03}Z",
        37 + after / 1000,
        after % 1000
    )
}

const BROWSER: Producer = Producer {
    creator: Value::Null,
    date: millis,
    headers: objects,
    content: whole,
    more: nothing,
};

const SESSION: &str = "b15304df22214fbba7820f7e2c58db8d";
const STREAM: &str = "text/event-stream";

fn init() -> String {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
        {"protocolVersion": "2025-11-25", "clientInfo": {"name": "c", "version": "1"}, "capabilities": {}}})
    .to_string()
}

fn hello() -> String {
    json!({"jsonrpc": "2.0", "id": 0, "result":
        {"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"}, "capabilities": {}}})
    .to_string()
}

fn call() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params":
        {"name": "t", "arguments": {}, "_meta": {"progressToken": 7}}})
    .to_string()
}

fn progress(id: &str, number: u32) -> String {
    let data = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
        {"progressToken": 7, "progress": number}});
    format!("id: {id}\ndata: {data}\n\n")
}

fn result(id: &str, text: &str) -> String {
    let data =
        json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}});
    format!("id: {id}\ndata: {data}\n\n")
}

impl Producer {
    fn entry(
        &self,
        after: u32,
        (method, body): (&str, Option<&str>),
        asked: &[(&str, &str)],
        (status, mime): (i32, &str),
        given: &[(&str, &str)],
        content: &Value,
    ) -> Value {
        let mut asked: Vec<(&str, &str)> = asked.to_vec();
        asked.push(("Accept", "application/json, text/event-stream"));
        let mut given: Vec<(&str, &str)> = given.to_vec();
        given.push(("Content-Type", mime));
        let mut entry = json!({
            "startedDateTime": (self.date)(after),
            "time": 250,
            "request": {
                "method": method, "url": "http://127.0.0.4:18601/mcp", "httpVersion": "HTTP/1.1",
                "headers": (self.headers)(&asked), "queryString": [], "cookies": [],
                "headersSize": -1, "bodySize": body.map_or(0, str::len),
            },
            "response": {
                "status": status, "statusText": "", "httpVersion": "HTTP/1.1",
                "headers": (self.headers)(&given), "cookies": [], "content": content,
                "redirectURL": "", "headersSize": -1, "bodySize": -1,
            },
            "cache": {},
            "timings": {"send": 1, "wait": 20, "receive": 229},
        });
        if let Some(body) = body {
            entry["request"]["postData"] = json!({"mimeType": "application/json", "text": body});
        }
        merge(&mut entry, (self.more)());
        entry
    }

    fn entries(&self) -> Vec<Value> {
        let session = [("Mcp-Session-Id", SESSION)];
        let cut = progress("1", 1) + &progress("2", 2);
        vec![
            self.entry(
                0,
                ("POST", Some(&init())),
                &[],
                (200, "application/json"),
                &session,
                &(self.content)("application/json", &hello()),
            ),
            self.entry(
                1_000,
                ("POST", Some(&call())),
                &session,
                (200, STREAM),
                &session,
                &(self.content)(STREAM, &cut),
            ),
            self.entry(
                2_000,
                ("GET", None),
                &[("Mcp-Session-Id", SESSION), ("Last-Event-ID", "2")],
                (200, STREAM),
                &session,
                &(self.content)(STREAM, &result("3", "ok")),
            ),
        ]
    }

    fn har(&self, entries: &[Value]) -> String {
        let log =
            json!({"version": "1.2", "creator": self.creator, "pages": [], "entries": entries});
        json!({"log": log}).to_string()
    }

    fn audit(&self) -> Analysis {
        audit(&[self.har(&self.entries()).as_bytes()])
    }
}

/// Adds the members of `more`, those of objects within as well.
fn merge(to: &mut Value, more: Value) {
    match (to, more) {
        (Value::Object(to), Value::Object(more)) => {
            for (name, value) in more {
                merge(to.entry(name).or_insert(Value::Null), value);
            }
        }
        (to, more) => *to = more,
    }
}

fn audit(files: &[&[u8]]) -> Analysis {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    for (number, bytes) in files.iter().enumerate() {
        let path = folder.path().join(format!("{number}.har"));
        fs::write(&path, bytes).unwrap();
        options.inputs.push(path.to_str().unwrap().to_owned());
    }
    run(&options, &Progress::default()).unwrap()
}

fn summary(analysis: &Analysis) -> String {
    let style = Style {
        width: 100,
        ..Style::default()
    };
    let mut bytes = Vec::new();
    (SUMMARY.write)(analysis, &style, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn facts(analysis: &Analysis) -> HarFacts {
    assert_eq!(analysis.inputs[0].unreadable, None);
    analysis.inputs[0].har.clone().unwrap()
}

fn count(analysis: &Analysis, kind: Kind) -> u64 {
    analysis.anomalies.count(InputId(0), kind)
}

/// Ids of an exchange's events.
fn ids(exchange: &Exchange) -> Vec<&str> {
    let ids = exchange.events.iter();
    ids.map(|event| event.id.map_or("-", |id| exchange.text(id)))
        .collect()
}

/// What every producer that records bodies tells alike: the session, its streams, the resume, the
/// times of requests, and that nobody knows who closed.
fn tells_all(analysis: &Analysis) {
    assert_eq!(analysis.totals.sessions, 1);
    assert_eq!(&*analysis.sessions[0].session_id, SESSION);
    assert_eq!(
        analysis.sessions[0].protocol_version.as_deref(),
        Some("2025-11-25")
    );
    let exchanges = &analysis.exchanges;
    assert_eq!(exchanges.len(), 3);
    let starts: Vec<i64> = exchanges
        .iter()
        .map(|one| one.time().nanos() - START)
        .collect();
    assert_eq!(starts, [0, SECOND, 2 * SECOND]);
    assert!(
        exchanges
            .iter()
            .all(|one| one.end.cause == EndCause::Unknown)
    );
    assert!(exchanges.iter().all(|one| one.client.is_none()));
    assert_eq!(ids(&exchanges[1]), ["1", "2"]);
    assert_eq!(ids(&exchanges[2]), ["3"]);
    assert_eq!(exchanges[2].cursor(), Some("2"));
    let verdicts: Vec<Verdict> = analysis.resumes.iter().map(|one| one.verdict).collect();
    assert_eq!(verdicts, [Verdict::Continued]);
    assert_eq!(
        analysis.resumes[0].disconnect_cause,
        Some(EndCause::Unknown)
    );
    assert!(analysis.findings.is_empty(), "{:?}", analysis.findings);
    assert_eq!((facts(analysis).responses, facts(analysis).bodies), (3, 3));
}

fn untimed(exchange: &Exchange) -> bool {
    exchange.source
        == Source::Har {
            bodies: true,
            event_times: false,
        }
}

fn epoch(after: f64) -> f64 {
    1_795_985_437.0 + after
}

// --- producers ------------------------------------------------------------------------------------

#[test]
fn chrome_tells_events_of_a_stream_in_flight_with_their_times() {
    let chrome = Producer {
        creator: json!({"name": "WebInspector", "version": "537.36"}),
        more: || {
            json!({"connection": "18601", "_connectionId": "101", "_priority": "High",
                "_resourceType": "fetch", "serverIPAddress": "127.0.0.4",
                "timings": {"blocked": 2.045, "dns": -1, "ssl": -1, "connect": -1, "_blocked_queueing": 1.2}})
        },
        ..BROWSER
    };
    let mut entries = chrome.entries();
    tells_all(&audit(&[chrome.har(&entries).as_bytes()]));
    // In flight: no text, events instead, of which the last names its id again.
    let data = |number: u32| {
        progress("", number)
            .trim_start_matches("id: \ndata: ")
            .trim()
            .to_owned()
    };
    entries[1]["response"]["content"] = json!({"size": 339, "mimeType": STREAM,
        "comment": "Content for SSE not supported"});
    entries[1]["_eventSourceMessages"] = json!([
        {"time": epoch(1.1), "eventName": "message", "eventId": "1", "data": data(1)},
        {"time": epoch(1.200_004), "eventName": "message", "eventId": "2", "data": data(2)},
        {"time": epoch(1.200_004), "eventName": "message", "eventId": "2", "data": data(3)},
    ]);
    let analysis = audit(&[chrome.har(&entries).as_bytes()]);
    let stream = &analysis.exchanges[1];
    assert_eq!(ids(stream), ["1", "2", "-"]);
    assert_eq!(
        stream.source,
        Source::Har {
            bodies: true,
            event_times: true
        }
    );
    let times: Vec<i64> = stream
        .events
        .iter()
        .map(|event| event.time.nanos() - START)
        .collect();
    // A double holds them to a quarter of a microsecond.
    for (time, micros) in times.iter().zip([1_100_000, 1_200_004, 1_200_004]) {
        assert!((time - micros * 1_000).abs() < 500, "{times:?}");
    }
    assert_eq!(analysis.resumes[0].verdict, Verdict::Continued);
    assert_eq!((facts(&analysis).streams, facts(&analysis).timed), (2, 1));
    // Sanitized, as it is by default: there were messages, of what payload is not known.
    for event in entries[1]["_eventSourceMessages"].as_array_mut().unwrap() {
        event.as_object_mut().unwrap().remove("data");
    }
    let analysis = audit(&[chrome.har(&entries).as_bytes()]);
    assert_eq!(ids(&analysis.exchanges[1]), ["1", "2", "-"]);
    assert_eq!(analysis.resumes[0].verdict, Verdict::Continued);
    assert!(
        summary(&analysis).contains(
            "HAR by WebInspector 537.36; bodies: all of 3 responses; times of events: 1 of 2 event \
         streams; who closed: unknown Found"
        ),
        "{}",
        summary(&analysis)
    );
}

#[test]
fn chrome_of_2021_to_2023_has_text_and_the_connection() {
    let chrome = Producer {
        creator: json!({"name": "WebInspector", "version": "537.36"}),
        more: || json!({"connection": "101", "serverIPAddress": "127.0.0.4"}),
        ..BROWSER
    };
    let analysis = chrome.audit();
    tells_all(&analysis);
    assert!(analysis.exchanges.iter().all(untimed));
    assert_eq!(
        analysis.exchanges[0].server.as_ref().unwrap().to_string(),
        "127.0.0.4:18601"
    );
}

#[test]
fn firefox_has_local_times_and_often_no_body() {
    let firefox = Producer {
        creator: json!({"name": "Firefox", "version": "140.0"}),
        date: |after| {
            format!(
                "2026-11-29T22:20:{:02}.{:03}+01:30",
                37 + after / 1000,
                after % 1000
            )
        },
        more: || json!({"connection": "18601", "_securityState": "insecure", "serverIPAddress": "127.0.0.4"}),
        ..BROWSER
    };
    tells_all(&firefox.audit());
    let bare = Producer {
        content: |mime, text| json!({"size": text.len(), "mimeType": mime, "comment": "Response bodies are not included."}),
        ..firefox
    };
    says_nothing_of_bodies(&bare.audit(), "Firefox 140.0");
}

/// No body is there: nothing is said to have not come.
fn says_nothing_of_bodies(analysis: &Analysis, creator: &str) {
    assert_eq!(analysis.resumes[0].verdict, Verdict::Indeterminate);
    assert!(analysis.findings.is_empty(), "{:?}", analysis.findings);
    assert_eq!((facts(analysis).responses, facts(analysis).bodies), (3, 0));
    assert_eq!(count(analysis, Kind::BodyNotRecorded), 3);
    let text = summary(analysis);
    for part in [
        "3 HAR entries 2026",
        &format!("HAR by {creator}; bodies: none of 3 responses; who closed: unknown"),
        "Not read 3 responses in HARs without their body: what came with them is not known, not that nothing came",
        "Nothing can be said of 1 resume: none could be decided from this capture.",
        "Undecided: 1 of 1 resume: ",
        "What could not be read may hold more: 3 responses without their body.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        !text.contains("Nothing wrong was seen") && !text.contains("TCP"),
        "{text}"
    );
}

#[test]
fn safari_leaves_out_what_is_open() {
    let safari = Producer {
        creator: json!({"name": "WebKit Web Inspector", "version": "1.0"}),
        more: || json!({"connection": "18601", "_serverPort": 18601, "_fetchType": "Network Load", "serverIPAddress": "127.0.0.4"}),
        ..BROWSER
    };
    let analysis = safari.audit();
    tells_all(&analysis);
    assert!(facts(&analysis).omits_open);
    assert!(summary(&analysis).contains("streams open at its export are not in it"));
    // A resume brings nothing and ends, and the client asks on: what came on the next one, which is
    // open, is not in the file. Elsewhere the result is lost.
    let lost = |producer: &Producer| {
        let mut entries = producer.entries();
        entries[2]["response"]["content"] = whole(STREAM, ": bye\n\n");
        let mut later = entries[0].clone();
        later["startedDateTime"] = json!(millis(22_000));
        later["request"]["headers"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "Mcp-Session-Id", "value": SESSION}));
        later["request"]["postData"]["text"] =
            json!(json!({"jsonrpc": "2.0", "id": 5, "method": "ping"}).to_string());
        later["response"]["content"]["text"] =
            json!(json!({"jsonrpc": "2.0", "id": 5, "result": {}}).to_string());
        entries.push(later);
        let analysis = audit(&[producer.har(&entries).as_bytes()]);
        let severe = analysis
            .findings
            .iter()
            .any(|finding| finding.code == "result-lost");
        (severe, analysis.resumes[0].verdict)
    };
    assert_eq!(lost(&BROWSER), (true, Verdict::Ignored));
    assert_eq!(lost(&safari), (false, Verdict::Indeterminate));
}

#[test]
fn playwright_has_bodies_in_files_and_none_of_open_streams() {
    let playwright = Producer {
        creator: json!({"name": "Playwright", "version": "1.65.1"}),
        more: || json!({"_monotonicTime": 6342.708, "serverIPAddress": "127.0.0.4", "_serverPort": 18601}),
        ..BROWSER
    };
    tells_all(&playwright.audit());
    let files = Producer {
        content: |mime, text| json!({"size": text.len(), "mimeType": mime, "_file": "3f2a.txt"}),
        ..playwright
    };
    says_nothing_of_bodies(&files.audit(), "Playwright 1.65.1");
    // slimMode: no sizes, no timings, no bodies; -1 for what is not known.
    let slim = Producer {
        content: |mime, _| json!({"size": -1, "mimeType": mime}),
        more: || json!({"time": -1, "timings": {"send": -1, "wait": -1, "receive": -1}}),
        ..files
    };
    let analysis = slim.audit();
    says_nothing_of_bodies(&analysis, "Playwright 1.65.1");
    assert!(
        analysis
            .exchanges
            .iter()
            .all(|one| one.end.time == one.time())
    );
    // No answer was recorded.
    let mut entries = slim.entries();
    merge(
        &mut entries[2],
        json!({"response": {"status": -1, "headers": [], "content": {"mimeType": "x-unknown"}}}),
    );
    let analysis = audit(&[slim.har(&entries).as_bytes()]);
    assert_eq!(analysis.exchanges[2].status(), None);
    assert_eq!(analysis.resumes[0].verdict, Verdict::Failed);
}

#[test]
fn mitmproxy_has_microseconds_and_empty_texts_of_what_it_streamed() {
    let mitmproxy = Producer {
        creator: json!({"name": "mitmproxy", "version": "11.0.2", "comment": ""}),
        date: |after| match after % 1000 {
            // Python leaves the fraction out when it is zero.
            0 => format!("2026-11-29T20:50:{:02}+00:00", 37 + after / 1000),
            part => format!(
                "2026-11-29T20:50:{:02}.{:06}+00:00",
                37 + after / 1000,
                part * 1000
            ),
        },
        // `size` is that of the coded body.
        content: |mime, text| json!({"size": 17, "compression": 300, "mimeType": mime, "text": text}),
        more: || json!({"serverIPAddress": "127.0.0.4"}),
        ..BROWSER
    };
    tells_all(&mitmproxy.audit());
    let mut entries = mitmproxy.entries();
    for entry in &mut entries[1..] {
        entry["response"]["content"] =
            json!({"size": 0, "compression": 0, "mimeType": STREAM, "text": ""});
    }
    let har = mitmproxy.har(&entries);
    let analysis = audit(&[har.as_bytes()]);
    assert_eq!(analysis.resumes[0].verdict, Verdict::Indeterminate);
    assert_eq!(
        (facts(&analysis).responses, facts(&analysis).bodies),
        (3, 1)
    );
    assert!(summary(&analysis).contains("bodies: 1 of 3 responses"));
    // `.zhar`
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    packed.write_all(har.as_bytes()).unwrap();
    let packed = audit(&[&packed.finish().unwrap()]);
    assert_eq!(packed.inputs[0].format, "har+zlib");
    assert_eq!(essence(&packed.resumes[0]), essence(&analysis.resumes[0]));
    // What it could not reach.
    merge(
        &mut entries[2],
        json!({"response": {"status": 0, "headers": [], "_error": "connection refused"}}),
    );
    assert_eq!(
        audit(&[mitmproxy.har(&entries).as_bytes()]).resumes[0].verdict,
        Verdict::Failed
    );
}

#[test]
fn charles_insomnia_and_pcapng_utils_have_whole_bodies() {
    let charles = Producer {
        creator: json!({"name": "Charles Proxy", "version": "4.6.3"}),
        date: |after| {
            format!(
                "2026-11-29T12:50:{:02}.{:03}-08:00",
                37 + after / 1000,
                after % 1000
            )
        },
        more: || json!({"serverIPAddress": "127.0.0.4", "timings": {"dns": 0, "connect": 1, "ssl": -1}}),
        ..BROWSER
    };
    tells_all(&charles.audit());
    let insomnia = Producer {
        creator: json!({"name": "Insomnia REST Client", "version": "insomnia.desktop.app:v11"}),
        more: || json!({"timings": {"blocked": -1, "dns": -1, "connect": -1, "send": 0, "wait": 250, "receive": 0, "ssl": -1}}),
        ..BROWSER
    };
    let analysis = insomnia.audit();
    tells_all(&analysis);
    // No address: the name in the URL, which is one here.
    assert_eq!(
        analysis.exchanges[0].server.as_ref().unwrap().to_string(),
        "127.0.0.4:18601"
    );
    let from_packets = Producer {
        creator: json!({"name": "pcap2har", "version": "2.0"}),
        date: |after| {
            format!(
                "2026-11-29T20:50:{:02}.{:06}Z",
                37 + after / 1000,
                after % 1000 * 1000
            )
        },
        more: || json!({"connection": "1:LQU9qZlK+B5F3KDmev6m5PMibrg=", "serverIPAddress": "127.0.0.4"}),
        ..BROWSER
    };
    tells_all(&from_packets.audit());
}

#[test]
fn chrome_har_tells_that_pieces_came() {
    let chrome_har = Producer {
        creator: json!({"name": "chrome-har", "version": "1.3.1"}),
        content: |mime, _| json!({"size": 0, "mimeType": mime, "text": ""}),
        more: || json!({"connection": "101", "_chunks": [{"ts": 8524.041, "bytes": 98}], "serverIPAddress": "127.0.0.4"}),
        ..BROWSER
    };
    says_nothing_of_bodies(&chrome_har.audit(), "chrome-har 1.3.1");
}

#[test]
fn messages_without_http_are_not_judged() {
    let mcpsnoop = Producer {
        creator: json!({"name": "mcpsnoop", "version": "0.4.0"}),
        date: |after| {
            format!(
                "2026-11-29T20:50:{:02}.{:09}Z",
                37 + after / 1000,
                after % 1000 * 1_000_000
            )
        },
        more: || json!({"request": {"httpVersion": "JSON-RPC/2.0"}, "response": {"httpVersion": "JSON-RPC/2.0"}}),
        ..BROWSER
    };
    let analysis = mcpsnoop.audit();
    assert!(analysis.exchanges.is_empty() && analysis.resumes.is_empty());
    assert_eq!(count(&analysis, Kind::NoWire), 3);
    let text = summary(&analysis);
    for part in [
        "HAR by mcpsnoop 0.4.0; 3 entries of JSON-RPC without HTTP: there is no wire to judge",
        "Not read 3 HAR entries that are JSON-RPC messages without HTTP",
        "No MCP session was found, so nothing was judged.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn shapes_that_tools_leave_say_the_same() {
    let expected = BROWSER.audit();
    tells_all(&expected);
    let har = BROWSER.har(&BROWSER.entries());
    let marked = audit(&[format!("\u{feff}{har}").as_bytes()]);
    let pairs = Producer {
        headers: |headers| {
            headers
                .iter()
                .map(|(name, value)| json!([name, value]))
                .collect()
        },
        ..BROWSER
    };
    let one_object = Producer {
        headers: |headers| {
            headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), json!(value)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        },
        ..BROWSER
    };
    let http2 =
        Producer {
            headers: |headers| {
                let mut list = vec![
                    json!({"name": ":authority", "value": "127.0.0.4:18601"}),
                    json!({"name": ":path", "value": "/mcp"}),
                ];
                list.extend(headers.iter().map(
                    |(name, value)| json!({"name": name.to_ascii_lowercase(), "value": value}),
                ));
                list.into()
            },
            more: || json!({"request": {"httpVersion": "h2"}, "response": {"httpVersion": "h2"}}),
            ..BROWSER
        };
    let coded = Producer {
        content: |mime, text| json!({"size": text.len(), "mimeType": mime, "text": base64(text), "encoding": "base64"}),
        ..BROWSER
    };
    for analysis in [
        marked,
        pairs.audit(),
        one_object.audit(),
        http2.audit(),
        coded.audit(),
    ] {
        tells_all(&analysis);
        assert_eq!(essence(&analysis.resumes[0]), essence(&expected.resumes[0]));
    }
}

#[test]
fn a_body_that_cannot_be_decoded_is_not_empty() {
    let coded = Producer {
        content: |mime, text| match mime {
            STREAM => {
                json!({"size": text.len(), "mimeType": mime, "text": text, "encoding": "base64"})
            }
            _ => whole(mime, text),
        },
        ..BROWSER
    };
    let analysis = coded.audit();
    assert_eq!(count(&analysis, Kind::UndecodableBody), 2);
    assert_eq!(count(&analysis, Kind::BodyNotRecorded), 0);
    assert_eq!(analysis.resumes[0].verdict, Verdict::Indeterminate);
    assert!(analysis.findings.is_empty(), "{:?}", analysis.findings);
    assert!(
        summary(&analysis).contains("2 undecodable-body"),
        "{}",
        summary(&analysis)
    );
}

#[test]
fn a_merged_file_has_several_creators() {
    let creators = json!([{"name": "WebInspector", "version": "537.36"}, {"name": "mitmproxy", "version": "11"}, "x"]);
    let merged = Producer {
        creator: creators,
        ..BROWSER
    };
    let analysis = merged.audit();
    tells_all(&analysis);
    assert_eq!(
        facts(&analysis).creators,
        ["WebInspector 537.36", "mitmproxy 11", "x"]
    );
    assert!(summary(&analysis).contains("HAR by WebInspector 537.36, mitmproxy 11, x; bodies"));
}

// --- damage ---------------------------------------------------------------------------------------

#[test]
fn a_cut_file_keeps_its_complete_entries_and_says_so() {
    let har = BROWSER.har(&BROWSER.entries());
    let third = har.rfind(r#"{"cache""#).unwrap();
    let analysis = audit(&[&har.as_bytes()[..third + 40]]);
    assert_eq!(analysis.exchanges.len(), 2);
    assert_eq!(
        analysis.inputs[0].damaged,
        format!("the text ends here at offset {third}; 2 complete entries")
    );
    let analysis = audit(&[format!("{har}\0\0 <html>").as_bytes()]);
    tells_all(&analysis);
    let offset = har.len() + 3;
    assert_eq!(
        analysis.inputs[0].damaged,
        format!("no JSON from here on at offset {offset}; 3 complete entries")
    );
}

// --- copies ---------------------------------------------------------------------------------------

/// The same log saved twice, the first time while the call's stream was in flight.
#[test]
fn what_was_saved_twice_counts_once() {
    let whole = BROWSER.entries();
    let mut early = whole[..2].to_vec();
    early[1]["response"]["content"] = json!({"size": 90, "mimeType": STREAM});
    early[1]["_eventSourceMessages"] = json!([{"time": epoch(1.1), "eventName": "message",
        "eventId": "1", "data": progress("", 1).trim_start_matches("id: \ndata: ").trim()}]);
    early[1]["time"] = json!(120);
    let expected = BROWSER.audit();
    let (early, late) = (BROWSER.har(&early), BROWSER.har(&whole));
    for files in [
        vec![early.as_bytes(), late.as_bytes()],
        vec![late.as_bytes(), early.as_bytes()],
        vec![late.as_bytes(), late.as_bytes()],
    ] {
        let analysis = audit(&files);
        assert_eq!(analysis.exchanges.len(), 3);
        assert_eq!(analysis.totals.sessions, 1);
        assert_eq!(ids(&analysis.exchanges[1]), ["1", "2"]);
        assert_eq!(essence(&analysis.resumes[0]), essence(&expected.resumes[0]));
        assert!(analysis.findings.is_empty(), "{:?}", analysis.findings);
    }
    // Both in one file, as merging tools leave them.
    let analysis = audit(&[format!("{early}\n{late}").as_bytes()]);
    assert_eq!(analysis.exchanges.len(), 3);
    assert_eq!(count(&analysis, Kind::DuplicateEntry), 2);
    assert_eq!(ids(&analysis.exchanges[1]), ["1", "2"]);
    assert!(analysis.findings.is_empty(), "{:?}", analysis.findings);
}

#[test]
fn two_requests_of_one_instant_are_two() {
    let mut entries = BROWSER.entries();
    let mut other = entries[2].clone();
    other["response"]["status"] = json!(409);
    other["response"]["content"] = json!({"size": 0});
    entries.push(other);
    let analysis = audit(&[BROWSER.har(&entries).as_bytes()]);
    assert_eq!(analysis.exchanges.len(), 4);
}

#[test]
fn times_that_an_import_made_up_are_none() {
    let mut entries = BROWSER.entries();
    entries[1]["response"]["content"] = json!({"size": 90, "mimeType": STREAM});
    let data = |number| {
        progress("", number)
            .trim_start_matches("id: \ndata: ")
            .trim()
            .to_owned()
    };
    entries[1]["_eventSourceMessages"] = json!([
        {"time": epoch(1.0), "eventName": "message", "eventId": "1", "data": data(1)},
        {"time": epoch(1.0), "eventName": "message", "eventId": "2", "data": data(2)},
    ]);
    let analysis = audit(&[BROWSER.har(&entries).as_bytes()]);
    assert!(untimed(&analysis.exchanges[1]));
    assert_eq!(count(&analysis, Kind::MadeUpTimes), 1);
    assert_eq!(analysis.resumes[0].verdict, Verdict::Continued);
    assert!(
        summary(&analysis)
            .contains("times of events: none of 2 event streams (1 made up and left out)")
    );
}

// --- sanitizers -----------------------------------------------------------------------------------

/// Two sessions, the first of which goes on while the second is new: under one id it would be a fork.
fn two_sessions(first: &str, second: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for (number, id) in [(0, first), (1, second)] {
        let mut entries = BROWSER.entries();
        for (place, entry) in entries.iter_mut().enumerate() {
            let after = number * 10_000 + u32::try_from(place).unwrap() * 1_000;
            entry["startedDateTime"] = json!(millis(after));
            *entry = serde_json::from_str(&entry.to_string().replace(SESSION, id)).unwrap();
        }
        // The same ids say other things.
        let text = entries[2]["response"]["content"]["text"].as_str().unwrap();
        entries[2]["response"]["content"]["text"] =
            json!(text.replace("\"ok\"", &format!("\"{number}\"")));
        all.extend(entries);
    }
    all
}

#[test]
fn redacted_session_ids_group_nothing() {
    let apart = audit(&[BROWSER
        .har(&two_sessions(SESSION, "0b8d1f6ce94e4a7fb6f3c2a5d7e81920"))
        .as_bytes()]);
    assert_eq!((apart.totals.sessions, apart.resumes.len()), (2, 2));
    assert!(apart.findings.is_empty(), "{:?}", apart.findings);
    for mask in [
        "REDACTED",
        "***",
        "[redacted]",
        "",
        "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
        "d41d8cd98f00b204e9800998ecf8427e",
    ] {
        let analysis = audit(&[BROWSER.har(&two_sessions(mask, mask)).as_bytes()]);
        assert_eq!(analysis.totals.sessions, 0, "{mask}");
        assert!(
            analysis.findings.is_empty(),
            "{mask}: {:?}",
            analysis.findings
        );
        assert_eq!(analysis.totals.sessionless, 6, "{mask}");
        assert_eq!(count(&analysis, Kind::MaskedId), 6, "{mask}");
        assert_eq!(facts(&analysis).masked_sessions, 6, "{mask}");
        let text = summary(&analysis);
        for part in [
            "6 HAR entries with a redacted session id, which groups nothing",
            "What could not be read may hold more: 6 redacted ids.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

/// A constant that looks like an id is known by where else it stands.
#[test]
fn a_constant_in_place_of_all_secrets_groups_nothing() {
    let constant = "5f4dcc3b5aa765d61d8327deb882cf99";
    let mut entries = two_sessions(constant, constant);
    let list = entries[4]["request"]["headers"].as_array_mut().unwrap();
    list.push(json!({"name": "Authorization", "value": constant}));
    let analysis = audit(&[BROWSER.har(&entries).as_bytes()]);
    assert_eq!(analysis.totals.sessions, 0);
    assert!(analysis.findings.is_empty(), "{:?}", analysis.findings);
    assert_eq!(facts(&analysis).masked_sessions, 6);
    // Two servers issue it, one after the other.
    let mut entries = two_sessions(constant, constant);
    for entry in &mut entries[3..] {
        entry["request"]["url"] = json!("http://127.0.0.9:18601/mcp");
    }
    let analysis = audit(&[BROWSER.har(&entries).as_bytes()]);
    assert_eq!(analysis.totals.sessions, 0);
    // One server that gives two clients one id is what it is.
    let analysis = audit(&[BROWSER.har(&two_sessions(constant, constant)).as_bytes()]);
    assert_eq!(analysis.totals.sessions, 1);
    let codes: Vec<&str> = analysis
        .findings
        .iter()
        .map(|finding| finding.code)
        .collect();
    assert!(codes.contains(&"session-id-reissued"), "{codes:?}");
}

#[test]
fn a_session_that_is_redacted_in_part_is_called_nothing_worse() {
    // Only requests: the answers name the session, those that do not may be of any.
    let mut entries = BROWSER.entries();
    for entry in &mut entries[1..] {
        for header in entry["request"]["headers"].as_array_mut().unwrap() {
            if header["name"] == "Mcp-Session-Id" {
                header["value"] = json!("[redacted]");
            }
        }
    }
    let analysis = audit(&[BROWSER.har(&entries).as_bytes()]);
    assert_eq!(analysis.totals.sessions, 1);
    assert_eq!(analysis.resumes[0].verdict, Verdict::Continued);
    for header in entries[2]["response"]["headers"].as_array_mut().unwrap() {
        if header["name"] == "Mcp-Session-Id" {
            header["value"] = json!("[redacted]");
        }
    }
    let analysis = audit(&[BROWSER.har(&entries).as_bytes()]);
    assert!(analysis.resumes.is_empty());
    assert!(analysis.findings.is_empty(), "{:?}", analysis.findings);
}

#[test]
fn redacted_cursors_and_event_ids_accuse_nobody() {
    let set_cursor = |entries: &mut [Value], cursor: &str| {
        for header in entries[2]["request"]["headers"].as_array_mut().unwrap() {
            if header["name"] == "Last-Event-ID" {
                header["value"] = json!(cursor);
            }
        }
    };
    // Whatever the answer: it starts again, it goes on, it brings nothing.
    for answer in [
        result("3", "ok"),
        result("1", "other"),
        result("", "ok"),
        String::new(),
    ] {
        for mask in ["[redacted]", "***", "REDACTED"] {
            let mut entries = BROWSER.entries();
            entries[2]["response"]["content"] = whole(STREAM, &answer);
            set_cursor(&mut entries, mask);
            let analysis = audit(&[BROWSER.har(&entries).as_bytes()]);
            assert_eq!(
                analysis.resumes[0].verdict,
                Verdict::Indeterminate,
                "{answer}"
            );
            assert!(
                analysis.findings.is_empty(),
                "{answer}: {:?}",
                analysis.findings
            );
            assert!(
                summary(&analysis)
                    .contains("1 redacted Last-Event-ID: what was resumed is not known")
            );
        }
        // The ids of all events, and with them the cursor or not.
        for cursor in ["2", "[redacted]"] {
            let mut entries = BROWSER.entries();
            entries[2]["response"]["content"] = whole(STREAM, &answer);
            set_cursor(&mut entries, cursor);
            for entry in &mut entries[1..] {
                let text = entry["response"]["content"]["text"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                let mut masked = String::new();
                for line in text.split_inclusive('\n') {
                    let line = if line.starts_with("id: ") {
                        "id: [redacted]\n"
                    } else {
                        line
                    };
                    let _ = write!(masked, "{line}");
                }
                entry["response"]["content"]["text"] = json!(masked);
            }
            let analysis = audit(&[BROWSER.har(&entries).as_bytes()]);
            let verdict = analysis.resumes[0].verdict;
            let mild = [Verdict::Indeterminate, Verdict::Continued, Verdict::Empty];
            assert!(mild.contains(&verdict), "{cursor} {answer}: {verdict}");
            assert!(
                analysis.findings.is_empty(),
                "{cursor} {answer}: {:?}",
                analysis.findings
            );
            assert!(facts(&analysis).masked_events > 0);
        }
    }
}

fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for bytes in text.as_bytes().chunks(3) {
        let number = (0..3).fold(0_usize, |all, place| {
            all << 8 | usize::from(bytes.get(place).copied().unwrap_or(0))
        });
        for place in 0..4 {
            let letter = LETTERS[number >> (18 - 6 * place) & 63];
            out.push(if place <= bytes.len() {
                letter.into()
            } else {
                '='
            });
        }
    }
    out
}
