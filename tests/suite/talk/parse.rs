//! Text to [`Talk`]. Every error names the line.

use super::{
    expect::{Expectation, event_id},
    model::{
        Act, Body, CLIENT, Close, Connection, Event, Request, Response, SERVER, Side, Step, Talk,
        uuid,
    },
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Parses a talk.
///
/// # Errors
///
/// The line and what is wrong with it.
pub(crate) fn parse(name: &str, text: &str) -> Result<Talk, String> {
    let mut parser = Parser {
        talk: Talk::new(name),
        now: 0,
        versions: BTreeMap::new(),
        offered: BTreeMap::new(),
    };
    for (number, line) in repeated(text)? {
        let at = |e: String| format!("{name}:{number}: {e}");
        let words = words(&line).map_err(at)?;
        parser.line(&words).map_err(at)?;
    }
    let talk = parser.talk;
    if talk.expectations.is_empty() {
        return Err(format!("{name}: expects nothing"));
    }
    if talk.har_skip.is_none() {
        let odd = talk
            .steps
            .iter()
            .any(|s| s.lost || matches!(s.act, Act::Raw(..) | Act::Chunk(_)));
        if odd {
            return Err(format!(
                "{name}: lost and raw bytes need `har skip \"why\"`"
            ));
        }
    }
    Ok(talk)
}

struct Parser {
    talk: Talk,
    /// Microseconds since the talk began.
    now: i64,
    /// The revision that each session negotiated, by session id.
    versions: BTreeMap<String, String>,
    /// The revision that the last initialize of each connection asked for.
    offered: BTreeMap<usize, String>,
}

impl Parser {
    fn line(&mut self, words: &[Word]) -> Result<(), String> {
        let plain: Vec<String> = words.iter().map(|w| w.text.clone()).collect();
        let Some(first) = plain.first() else {
            return Ok(());
        };
        match (first.as_str(), plain.get(1).map(String::as_str)) {
            ("..", Some("until")) => {
                let until = duration(plain.get(2).ok_or("until when?")?)?;
                if until < self.now {
                    return Err(format!("it is {} µs already", self.now));
                }
                self.now = until;
            }
            ("..", Some(span)) => self.now += duration(span)?,
            ("conn", Some(_)) => self.declare(&plain[1..])?,
            ("option", Some(key)) => {
                let value = plain.get(2).cloned().unwrap_or_default();
                self.talk.options.push((key.to_owned(), value));
            }
            ("expect", _) => self
                .talk
                .expectations
                .push(Expectation::parse(&plain[1..])?),
            ("beyond", Some(what)) => self.talk.beyond = Some(what.to_owned()),
            ("har", Some("expect")) => self
                .talk
                .har_expectations
                .push(Expectation::parse(&plain[2..])?),
            ("har", Some("skip")) => {
                self.talk.har_skip = Some(plain.get(2).ok_or("har skip why?")?.clone());
            }
            (name, Some(verb)) => {
                let connection = self.connection(name)?;
                let rest = &words[2..];
                match verb {
                    ">" => {
                        let lost = rest.first().is_some_and(|word| word.text == "lost");
                        let act = self.client(connection, &rest[usize::from(lost)..])?;
                        self.step(connection, act, lost, false);
                    }
                    "<" => self.server(connection, rest)?,
                    "x" => {
                        let lost = plain.get(2).is_some_and(|word| word == "lost");
                        let close = match plain.get(2 + usize::from(lost)).map(String::as_str) {
                            Some("client-fin") => Close::Fin(Side::Client),
                            Some("server-fin") => Close::Fin(Side::Server),
                            Some("client-rst") => Close::Rst(Side::Client),
                            Some("server-rst") => Close::Rst(Side::Server),
                            Some("refused") => Close::Refused,
                            other => return Err(format!("who closes how? {other:?}")),
                        };
                        self.step(connection, Act::Close(close), lost, false);
                    }
                    "open" => self.open(connection, rest)?,
                    "ask" => self.ask(connection, rest)?,
                    other => return Err(format!("{other:?} is no verb")),
                }
            }
            _ => return Err(format!("{first:?} alone says nothing")),
        }
        Ok(())
    }

    fn step(&mut self, connection: usize, act: Act, lost: bool, half: bool) {
        self.talk.steps.push(Step {
            at: self.now,
            connection,
            act,
            lost,
            half,
        });
        self.now += STEP;
    }

    fn declare(&mut self, words: &[String]) -> Result<(), String> {
        let index = self.connection(&words[0])?;
        for pair in words[1..].chunks(2) {
            let [key, value] = pair else {
                return Err("from and to come with an address".to_owned());
            };
            let bad = |_| format!("{value:?} is no address");
            match key.as_str() {
                "from" => {
                    let ip = value.parse().map_err(bad)?;
                    self.talk.connections[index].client.set_ip(ip);
                }
                "to" => {
                    self.talk.connections[index].server = value.parse().map_err(bad)?;
                }
                _ => return Err(format!("{key:?}: from or to")),
            }
        }
        Ok(())
    }

    fn connection(&mut self, name: &str) -> Result<usize, String> {
        if let Some(index) = self.talk.connections.iter().position(|c| c.name == name) {
            return Ok(index);
        }
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(format!("{name:?} is no name of a connection"));
        }
        let port =
            40_000 + u16::try_from(self.talk.connections.len()).map_err(|e| e.to_string())?;
        self.talk.connections.push(Connection {
            name: name.to_owned(),
            client: (CLIENT, port).into(),
            server: SERVER,
        });
        Ok(self.talk.connections.len() - 1)
    }

    /// `open A [ver V] [host H]`: initialize, its JSON answer, the notification that follows.
    fn open(&mut self, connection: usize, words: &[Word]) -> Result<(), String> {
        let Some((session, rest)) = words.split_first() else {
            return Err("open which session?".to_owned());
        };
        let line = |text: &str| -> Vec<Word> { self::words(text).unwrap_or_default() };
        let mut init = line("POST init#0");
        init.extend_from_slice(rest);
        let act = self.client(connection, &init)?;
        self.step(connection, act, false, false);
        let mut hello = line("200 json hello#0 sid");
        hello.push(session.clone());
        self.server(connection, &hello)?;
        let mut ready = line("POST note initialized sid");
        ready.push(session.clone());
        // The revision goes as a header from now on; the host and other headers stay.
        for pair in rest.chunks(2).filter(|p| p[0].text != "ver") {
            ready.extend_from_slice(pair);
        }
        let act = self.client(connection, &ready)?;
        self.step(connection, act, false, false);
        self.server(connection, &line("202"))
    }

    /// `ask A#N …`: a request of the session that is answered at once, as JSON.
    fn ask(&mut self, connection: usize, words: &[Word]) -> Result<(), String> {
        let Some((what, rest)) = words.split_first() else {
            return Err("ask in which session?".to_owned());
        };
        let (session, id) = what.text.split_once('#').ok_or("ask SESSION#ID")?;
        let mut ask = self::words(&format!("POST list#{id} sid"))?;
        ask.push(Word {
            text: session.to_owned(),
            quoted: what.quoted,
        });
        ask.extend_from_slice(rest);
        let act = self.client(connection, &ask)?;
        self.step(connection, act, false, false);
        self.server(connection, &self::words(&format!("200 json res#{id}"))?)
    }

    fn client(&mut self, connection: usize, words: &[Word]) -> Result<Act, String> {
        let mut words = Words::new(words);
        let method = words.next("a method")?;
        if method == "raw" {
            return Ok(Act::Raw(Side::Client, words.next("bytes")?.into_bytes()));
        }
        let post = method == "POST";
        let mut headers = vec![
            ("Host".to_owned(), HOST.to_owned()),
            (
                "Accept".to_owned(),
                if post {
                    "application/json, text/event-stream".to_owned()
                } else {
                    "text/event-stream".to_owned()
                },
            ),
        ];
        let (mut path, mut body, mut session, mut version) = ("/mcp".to_owned(), None, None, None);
        let (mut token, mut argument) = (None, None);
        while let Some(word) = words.maybe() {
            match word.text.as_str() {
                "sid" => session = Some(words.session()?),
                "lei" => {
                    let id = event_id(&words.next("an id")?);
                    headers.push(("Last-Event-ID".to_owned(), id));
                }
                "ver" => version = Some(words.next("a revision")?),
                "host" => headers[0].1 = words.next("a host")?,
                "path" => path = words.next("a path")?,
                "head" => headers.push(header(&words.next("a header")?)?),
                "tok" => token = Some(id_value(&words.next("a token")?)),
                "arg" => argument = Some(words.next("an argument")?),
                "json" => body = Some(Value::from(words.next("text")?)),
                "note" => {
                    let name = words.next("a name")?;
                    body =
                        Some(json!({"jsonrpc": "2.0", "method": format!("notifications/{name}")}));
                }
                other => {
                    let (what, id) = other
                        .split_once('#')
                        .ok_or(format!("{other:?} says nothing in a request"))?;
                    let id = id_value(id);
                    body = Some(match what {
                        "init" => {
                            json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
                            "protocolVersion": "", "capabilities": {},
                            "clientInfo": {"name": "talker", "version": "1"}}})
                        }
                        "call" => {
                            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
                            "name": "work", "arguments": {}}})
                        }
                        "list" => json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}),
                        "ping" => json!({"jsonrpc": "2.0", "id": id, "method": "ping"}),
                        "cancel" => json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                            "params": {"requestId": id}}),
                        _ => return Err(format!("{what:?} is no request")),
                    });
                }
            }
        }
        if let Some(body) = &mut body {
            if body["method"] == "initialize" {
                let asked = version.take().unwrap_or_else(|| VERSION.to_owned());
                body["params"]["protocolVersion"] = json!(asked);
                self.offered.insert(connection, asked);
            }
            if body["method"] == "tools/call" {
                body["params"]["arguments"] = json!({"for": argument.unwrap_or_default()});
                if let Some(token) = token {
                    body["params"]["_meta"] = json!({"progressToken": token});
                }
            }
        }
        if let Some(session) = &session {
            headers.push(("Mcp-Session-Id".to_owned(), session.clone()));
            version = version.or_else(|| self.versions.get(session).cloned());
        }
        if let Some(version) = version.filter(|v| v != "-") {
            headers.push(("MCP-Protocol-Version".to_owned(), version));
        }
        let body = body.map(|b| match b {
            Value::String(text) => text,
            other => other.to_string(),
        });
        if let Some(body) = &body {
            headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
            headers.push(("Content-Length".to_owned(), body.len().to_string()));
        }
        Ok(Act::Request(Request {
            method,
            path,
            headers,
            body,
        }))
    }

    fn server(&mut self, connection: usize, words: &[Word]) -> Result<(), String> {
        let mut words = Words::new(words);
        let (mut lost, mut half) = (false, false);
        let act = loop {
            let word = words.next("what does the server say?")?;
            break match word.as_str() {
                "lost" => {
                    lost = true;
                    continue;
                }
                "half" => {
                    half = true;
                    continue;
                }
                "raw" => Act::Raw(Side::Server, words.next("bytes")?.into_bytes()),
                "chunk" => Act::Chunk(words.next("bytes")?.into_bytes()),
                "comment" => Act::Comment(words.next("a comment")?),
                "end" => Act::End,
                "ev" => Act::Event(event(&mut words)?),
                status => {
                    let status = status
                        .parse()
                        .map_err(|_| format!("{status:?} is no status, event or end"))?;
                    Act::Response(self.response(connection, status, &mut words)?)
                }
            };
        };
        if let Some(word) = words.maybe() {
            return Err(format!("{:?} is left over", word.text));
        }
        self.step(connection, act, lost, half);
        Ok(())
    }

    fn response(
        &mut self,
        connection: usize,
        status: u16,
        words: &mut Words<'_>,
    ) -> Result<Response, String> {
        let mut headers = Vec::new();
        let (mut media, mut body) = ("", None);
        while let Some(word) = words.maybe() {
            match word.text.as_str() {
                "sse" => (media, body) = ("text/event-stream", Some(Body::Chunked)),
                "until-close" => body = Some(Body::UntilClose),
                "json" => {
                    media = "application/json";
                    if words.peek_quoted() {
                        body = Some(Body::Whole(words.next("text")?));
                    } else {
                        let what = words.next("a message")?;
                        let version = self.offered.get(&connection).map_or(VERSION, |v| v);
                        body = Some(Body::Whole(message(&what, version, words)?.to_string()));
                    }
                }
                "text" => {
                    media = "text/plain";
                    body = Some(Body::Whole(words.next("text")?));
                }
                "sid" => {
                    let session = words.session()?;
                    if let Some(version) = self.offered.get(&connection) {
                        self.versions
                            .entry(session.clone())
                            .or_insert_with(|| version.clone());
                    }
                    headers.push(("Mcp-Session-Id".to_owned(), session));
                }
                "head" => headers.push(header(&words.next("a header")?)?),
                other => return Err(format!("{other:?} says nothing in a response")),
            }
        }
        if !media.is_empty() {
            headers.insert(0, ("Content-Type".to_owned(), media.to_owned()));
        }
        let body = body.unwrap_or(Body::Whole(String::new()));
        headers.push(match &body {
            Body::Chunked => ("Transfer-Encoding".to_owned(), "chunked".to_owned()),
            Body::UntilClose => ("Connection".to_owned(), "close".to_owned()),
            Body::Whole(text) => ("Content-Length".to_owned(), text.len().to_string()),
        });
        Ok(Response {
            status,
            headers,
            body,
        })
    }
}

/// `ID prime|nodata|res#N|…` with `retry N`, `event NAME`.
fn event(words: &mut Words<'_>) -> Result<Event, String> {
    let id = words.next("an id, or - for none")?;
    let mut event = Event {
        id: (id != "-").then(|| event_id(&id)),
        ..Event::default()
    };
    while let Some(word) = words.maybe() {
        match word.text.as_str() {
            "prime" => event.data = Some(String::new()),
            "nodata" => event.data = None,
            "retry" => {
                let retry = words.next("milliseconds")?;
                event.retry = Some(retry.parse().map_err(|_| format!("retry {retry:?}"))?);
            }
            "event" => event.event_type = Some(words.next("a type")?),
            "data" => event.data = Some(words.next("data")?),
            what => event.data = Some(message(what, VERSION, words)?.to_string()),
        }
    }
    Ok(event)
}

/// The shorthands of messages that servers send.
fn message(what: &str, version: &str, words: &mut Words<'_>) -> Result<Value, String> {
    let (kind, id) = what.split_once('#').unwrap_or((what, ""));
    let id = id_value(id);
    Ok(match kind {
        "res" => {
            let text = words.quoted().unwrap_or_else(|| "done".to_owned());
            json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
        }
        "hello" => json!({"jsonrpc": "2.0", "id": id, "result": {
            "protocolVersion": version, "capabilities": {"tools": {}, "logging": {}},
            "serverInfo": {"name": "listener", "version": "1"}}}),
        "err" => {
            let code = words.number().unwrap_or(-32000);
            let text = words.quoted().unwrap_or_else(|| "failed".to_owned());
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
        }
        "progress" => {
            let token = id_value(&words.next("a token")?);
            let step = words.number().ok_or("progress TOKEN NUMBER")?;
            json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": step}})
        }
        "note" => {
            let text = words.quoted().ok_or("note \"text\"")?;
            json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": text}})
        }
        "ping" => json!({"jsonrpc": "2.0", "id": id, "method": "ping"}),
        "ask" => json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"}),
        _ => return Err(format!("{what:?} is no message")),
    })
}

/// A JSON-RPC id: a number where it is one, else a string; null when empty.
fn id_value(text: &str) -> Value {
    match text.parse::<i64>() {
        Ok(number) => json!(number),
        Err(_) if text.is_empty() => Value::Null,
        Err(_) => json!(text),
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or(format!("{text:?} is no header"))?;
    Ok((name.to_owned(), value.trim().to_owned()))
}

/// `1.5s` or `300ms`, in microseconds.
pub(crate) fn duration(text: &str) -> Result<i64, String> {
    let bad = || format!("{text:?} is no time: 1.5s or 300ms");
    let (digits, unit) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1e3),
        None => (text.strip_suffix('s').ok_or_else(bad)?, 1e6),
    };
    let value: f64 = digits.parse().map_err(|_| bad())?;
    #[allow(
        clippy::cast_possible_truncation,
        reason = "talks last minutes, not millennia"
    )]
    Ok((value * unit).round() as i64)
}

/// Lines with their numbers, `repeat N` … `done` written out with `$i` counting from 1.
fn repeated(text: &str) -> Result<Vec<(usize, String)>, String> {
    let mut out = Vec::new();
    let mut block: Option<(usize, Vec<(usize, String)>)> = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let trimmed = line.trim();
        if let Some(times) = trimmed.strip_prefix("repeat ") {
            if block.is_some() {
                return Err(format!("line {number}: repeats do not nest"));
            }
            let times = times
                .trim()
                .parse()
                .map_err(|_| format!("line {number}: repeat how often?"))?;
            block = Some((times, Vec::new()));
        } else if trimmed == "done" {
            let (times, lines) = block
                .take()
                .ok_or(format!("line {number}: done with what?"))?;
            for i in 1..=times {
                out.extend(
                    lines
                        .iter()
                        .map(|(number, line)| (*number, line.replace("$i", &i.to_string()))),
                );
            }
        } else if let Some((_, lines)) = &mut block {
            lines.push((number, line.to_owned()));
        } else {
            out.push((number, line.to_owned()));
        }
    }
    match block {
        Some(_) => Err("a repeat without its done".to_owned()),
        None => Ok(out),
    }
}

/// A word of a line, and whether it stood in quotes.
#[derive(Clone, Debug)]
struct Word {
    text: String,
    quoted: bool,
}

/// Cuts a line into words; `# ` begins a comment, quotes hold `\r \n \t \0 \\ \" \xNN`.
fn words(line: &str) -> Result<Vec<Word>, String> {
    let mut out = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == '#' && rest[1..].chars().next().is_none_or(char::is_whitespace) {
            break;
        }
        if first == '"' {
            let mut text = String::new();
            let mut chars = rest.char_indices().skip(1);
            let end = loop {
                let (at, c) = chars.next().ok_or("a quote that does not end")?;
                match c {
                    '"' => break at + 1,
                    '\\' => match chars.next().ok_or("a quote that does not end")?.1 {
                        'r' => text.push('\r'),
                        'n' => text.push('\n'),
                        't' => text.push('\t'),
                        '0' => text.push('\0'),
                        'x' => {
                            let hex: String = chars.by_ref().take(2).map(|(_, c)| c).collect();
                            let code = u8::from_str_radix(&hex, 16)
                                .map_err(|_| format!("\\x{hex} is no byte"))?;
                            text.push(char::from(code));
                        }
                        c => text.push(c),
                    },
                    c => text.push(c),
                }
            };
            out.push(Word { text, quoted: true });
            rest = rest[end..].trim_start();
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            out.push(Word {
                text: rest[..end].to_owned(),
                quoted: false,
            });
            rest = rest[end..].trim_start();
        }
    }
    Ok(out)
}

/// The words of a line, taken one by one.
struct Words<'a> {
    rest: &'a [Word],
}

impl<'a> Words<'a> {
    fn new(rest: &'a [Word]) -> Self {
        Self { rest }
    }

    fn maybe(&mut self) -> Option<&'a Word> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn next(&mut self, what: &str) -> Result<String, String> {
        self.maybe()
            .map(|w| w.text.clone())
            .ok_or(format!("expected {what}"))
    }

    fn peek_quoted(&self) -> bool {
        self.rest.first().is_some_and(|w| w.quoted)
    }

    fn quoted(&mut self) -> Option<String> {
        if self.peek_quoted() {
            self.maybe().map(|w| w.text.clone())
        } else {
            None
        }
    }

    fn number(&mut self) -> Option<i64> {
        let number = self.rest.first()?.text.parse().ok()?;
        self.maybe();
        Some(number)
    }

    /// A session id: a bare name stands for a random one.
    fn session(&mut self) -> Result<String, String> {
        let word = self.maybe().ok_or("sid of what?")?;
        Ok(if word.quoted {
            word.text.clone()
        } else {
            uuid(&word.text)
        })
    }
}

/// The time that each line takes.
const STEP: i64 = 1_000;

/// The revision spoken when a talk does not say.
const VERSION: &str = "2025-11-25";

/// The host asked for when a talk does not say.
const HOST: &str = "mcp.example";

#[test]
fn says_which_line_is_wrong() {
    let error = parse("t", "a > POST call#1\na < hm\nexpect sessions 0").unwrap_err();
    assert!(error.starts_with("t:2: "), "{error}");
    assert!(
        parse("t", "a > POST call#1")
            .unwrap_err()
            .contains("expects nothing")
    );
    assert!(
        parse("t", "expect resume 1 fine")
            .unwrap_err()
            .contains("no verdict")
    );
    assert!(parse("t", "repeat 2\na > GET\nexpect sessions 0").is_err());
}

#[test]
fn opening_a_session_is_two_exchanges_and_names_the_revision() {
    let talk = parse(
        "t",
        "a open A ver 2025-06-18\n.. until 2s\na ask A#1\nexpect sessions 1",
    )
    .unwrap();
    assert_eq!(talk.steps.len(), 6);
    assert_eq!(talk.steps[4].at, 2_000_000);
    let Act::Request(ask) = &talk.steps[4].act else {
        panic!("not a request: {:?}", talk.steps[4]);
    };
    let has = |name: &str, value: &str| ask.headers.contains(&(name.to_owned(), value.to_owned()));
    assert!(has("MCP-Protocol-Version", "2025-06-18"));
    assert!(has("Mcp-Session-Id", &uuid("A")));
}

#[test]
fn repeats_write_out_their_lines() {
    let talk = parse("t", "repeat 3\nc$i > GET lei $i\ndone\nexpect sessions 0").unwrap();
    assert_eq!(talk.connections.len(), 3);
    let Act::Request(last) = &talk.steps[2].act else {
        panic!("not a request: {:?}", talk.steps[2]);
    };
    assert!(
        last.headers
            .contains(&("Last-Event-ID".to_owned(), "3".to_owned()))
    );
}
