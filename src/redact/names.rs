//! What stands for a name: hashes, with what is no secret left as it was.

use super::key::Key;
use crate::model::{
    flow::Endpoint,
    id::{IdPart, SessionId},
    message::PayloadHash,
    prose::{Prose, Secret},
};
use foldhash::fast::RandomState;
use smol_str::SmolStr;
use std::{
    collections::{BTreeMap, HashSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// Cuts an event id into what may stay of it and what may not.
pub type Cut<'a> = dyn Fn(&str) -> Vec<IdPart<'_>> + Sync + 'a;

/// Makes names unreadable, equal ones alike.
pub struct Redactor<'a> {
    pub(super) key: &'a Key,
    cut: &'a Cut<'a>,
    /// Every session id of the run: an event id that is one has no number.
    pub(super) sessions: HashSet<SessionId, RandomState>,
    /// What stands for the name of each input.
    pub(super) inputs: BTreeMap<String, String>,
}

/// What hides names: everything that is walked through is walked through once, whatever stands for a name then.
pub(super) trait Hide: Sync {
    /// What stands for a name.
    fn name(&self, what: Secret, text: &str) -> String;

    /// Takes the host of an end away; the port stays.
    fn endpoint(&self, end: &mut Endpoint);

    /// The hash that stands for that of a payload.
    fn rehash(&self, hash: PayloadHash) -> PayloadHash;

    /// A sentence with what stands for its names.
    fn prose(&self, prose: &mut Prose) {
        *prose = prose.hidden(|what, text| self.name(what, text));
    }

    fn session(&self, id: &mut SessionId) {
        *id = SessionId::from(self.name(Secret::Session, id));
    }

    fn shared(&self, what: Secret, text: &mut Arc<str>) {
        *text = self.name(what, text).into();
    }

    fn boxed(&self, what: Secret, text: &mut Box<str>) {
        *text = self.name(what, text).into();
    }

    fn short(&self, what: Secret, text: &mut SmolStr) {
        *text = self.name(what, text).into();
    }

    fn string(&self, what: Secret, text: &mut String) {
        *text = self.name(what, text);
    }
}

impl Hide for Redactor<'_> {
    fn name(&self, what: Secret, text: &str) -> String {
        Redactor::name(self, what, text)
    }

    fn endpoint(&self, end: &mut Endpoint) {
        *end = Endpoint::Name(self.one_host(&end.host()).into(), end.port());
    }

    fn rehash(&self, hash: PayloadHash) -> PayloadHash {
        self.key.rehash(hash)
    }
}

impl<'a> Redactor<'a> {
    /// For one run.
    #[must_use]
    pub fn new(key: &'a Key, cut: &'a Cut<'a>) -> Self {
        Self {
            key,
            cut,
            sessions: HashSet::default(),
            inputs: BTreeMap::new(),
        }
    }

    /// What stands for a name.
    #[must_use]
    pub fn name(&self, what: Secret, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        match what {
            Secret::Session | Secret::Prose | Secret::Payload => self.hash(text),
            Secret::Host => self.host(text),
            Secret::EventId => self.event_id(text),
            Secret::Url => self.url(text),
            Secret::RpcId => self.rpc_id(text),
            Secret::Word => self.words(text),
            Secret::Input => self.input(text),
            // A backend may be named by its address.
            Secret::Text if is_address(text) => self.host(text),
            Secret::Text => self.hash(text),
        }
    }

    pub(super) fn hash(&self, text: &str) -> String {
        let mut out = String::with_capacity(20);
        self.key.hash_to(text, &mut out);
        out
    }

    /// A host without port, whatever way it is written.
    fn one_host(&self, host: &str) -> String {
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        match bare.unwrap_or(host).parse::<IpAddr>() {
            Ok(ip) => self.hash(&ip.to_string()),
            Err(_) => self.hash(&host.to_lowercase()),
        }
    }

    /// A host, with a port or without.
    fn host(&self, text: &str) -> String {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return format!(
                "{}:{}",
                self.one_host(&address.ip().to_string()),
                address.port()
            );
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                match port.parse::<u16>() {
                    Ok(port) => format!("{}:{port}", self.one_host(host)),
                    Err(_) => self.hash(text),
                }
            }
            _ => self.one_host(text),
        }
    }

    /// The number stays; what stands between numbers is one hash, but for delimiters at its ends, so
    /// that a key has one hash whatever is around it.
    fn event_id(&self, id: &str) -> String {
        if self.sessions.contains(id) {
            return self.hash(id);
        }
        let mut out = String::with_capacity(id.len().max(24));
        let mut hidden = String::new();
        for part in (self.cut)(id) {
            if part.stays {
                self.hide_run(&hidden, &mut out);
                hidden.clear();
                out.push_str(part.text);
            } else {
                hidden.push_str(part.text);
            }
        }
        self.hide_run(&hidden, &mut out);
        out
    }

    fn hide_run(&self, run: &str, out: &mut String) {
        let is_delimiter = |c: char| c.is_ascii_punctuation();
        let core = run.trim_matches(is_delimiter);
        if core.is_empty() {
            out.push_str(run);
            return;
        }
        let (before, rest) = run.split_once(core).unwrap_or(("", run));
        out.push_str(before);
        self.key.hash_to(core, out);
        out.push_str(rest);
    }

    /// Short whole numbers are counters and stay. Whatever else, it is a string then.
    fn rpc_id(&self, json: &str) -> String {
        let digits = json.strip_prefix('-').unwrap_or(json);
        if is_short_number(digits) {
            return json.to_owned();
        }
        let string = json.strip_prefix('"').and_then(|s| s.strip_suffix('"'));
        match string {
            Some("") => json.to_owned(),
            Some(text) => format!("\"{}\"", self.hash(text)),
            None => format!("\"{}\"", self.hash(json)),
        }
    }

    /// Words of HTTP and MCP stay; a media type may have parameters.
    fn words(&self, text: &str) -> String {
        let parts = text.split(';').map(|part| {
            let word = part.trim_matches(' ');
            if word.is_empty() || is_usual(word) {
                part.to_owned()
            } else {
                let (before, after) = part.split_once(word).unwrap_or_default();
                format!("{before}{}{after}", self.hash(word))
            }
        });
        parts.collect::<Vec<_>>().join(";")
    }

    /// Part by part, so that what two targets have in common still shows.
    fn url(&self, url: &str) -> String {
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (Some(scheme), rest),
            _ => (None, url),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let mut out = String::with_capacity(url.len());
        if let Some(scheme) = scheme {
            out.push_str(scheme);
            out.push_str("://");
        }
        if authority == "*" {
            out.push('*');
        } else if !authority.is_empty() {
            out.push_str(&self.host(authority));
        }
        let (path, query) = rest
            .split_once('?')
            .map_or((rest, None), |(path, query)| (path, Some(query)));
        self.parts(path, &['/'], USUAL_PATHS, &mut out);
        if let Some(query) = query {
            out.push('?');
            self.parts(query, &['&', '=', '?', '/'], USUAL_KEYS, &mut out);
        }
        out
    }

    /// What stands between `delimiters`, hashed unless it is `usual`.
    fn parts(&self, text: &str, delimiters: &[char], usual: &[&str], out: &mut String) {
        for piece in text.split_inclusive(delimiters) {
            let word = piece.strip_suffix(delimiters).unwrap_or(piece);
            if usual.iter().any(|known| known.eq_ignore_ascii_case(word)) {
                out.push_str(word);
            } else if !word.is_empty() {
                self.key.hash_to(word, out);
            }
            out.push_str(piece.get(word.len()..).unwrap_or_default());
        }
    }

    pub(super) fn input(&self, name: &str) -> String {
        let known = self.inputs.get(name).cloned();
        known.unwrap_or_else(|| self.hash(name))
    }
}

pub(super) fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok()
}

pub(super) fn is_short_number(text: &str) -> bool {
    (1..=SHORT).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Digits of a number that is a counter, most likely, and of no account or person.
const SHORT: usize = 9;

/// Whether a word is one that everybody uses: of [`USUAL_WORDS`], or a revision of MCP, which is a date.
pub(super) fn is_usual(word: &str) -> bool {
    let date = |text: &str| {
        text.len() == 10
            && text.bytes().enumerate().all(|(index, byte)| match index {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            })
    };
    date(word) || USUAL_WORDS.contains(&word)
}

/// Methods of HTTP (RFC 9110, RFC 5789) and MCP, media types, names of events.
const USUAL_WORDS: &[&str] = &[
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "application/json",
    "application/octet-stream",
    "text/css",
    "text/event-stream",
    "text/html",
    "text/javascript",
    "text/plain",
    "charset=utf-8",
    "charset=UTF-8",
    "endpoint",
    "error",
    "message",
    "ping",
    "completion/complete",
    "elicitation/create",
    "initialize",
    "logging/setLevel",
    "notifications/cancelled",
    "notifications/elicitation/complete",
    "notifications/initialized",
    "notifications/message",
    "notifications/progress",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/roots/list_changed",
    "notifications/tasks/status",
    "notifications/tools/list_changed",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "roots/list",
    "sampling/createMessage",
    "server/discover",
    "tasks/cancel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tools/call",
    "tools/list",
];

/// Parts of paths that say nothing of whose they are.
pub(super) const USUAL_PATHS: &[&str] = &[
    "api", "http", "mcp", "message", "messages", "rpc", "sse", "stream", "v1", "v2", "v3",
];

/// Names of parameters that say nothing of whose they are.
const USUAL_KEYS: &[&str] = &["session_id", "sessionId"];

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str) -> IdPart<'_> {
        IdPart {
            text,
            stays: text.bytes().all(|byte| byte.is_ascii_digit()),
        }
    }

    /// Digits stay, nothing else.
    fn cut(id: &str) -> Vec<IdPart<'_>> {
        match id.rfind('_') {
            Some(at) => {
                let (key, number) = id.split_at(at + 1);
                vec![part(key), part(number)]
            }
            None => vec![part(id)],
        }
    }

    fn with<T>(check: impl FnOnce(&Redactor<'_>) -> T) -> T {
        let key = Key::from_bytes(b"0123456789abcdef").unwrap();
        let mut redactor = Redactor::new(&key, &cut);
        redactor.sessions.insert("s_1001".into());
        redactor
            .inputs
            .insert("a.pcap".to_owned(), "input-1".to_owned());
        check(&redactor)
    }

    #[test]
    fn what_is_no_secret_stays() {
        with(|r| {
            let hash = |text: &str| r.name(Secret::Session, text);
            let (host, ip) = (hash("mcp.example"), hash("10.0.0.9"));
            assert_eq!(host.len(), 17);
            for (what, text, want) in [
                (Secret::Host, "MCP.example:8080", format!("{host}:8080")),
                (Secret::Host, "10.0.0.9:80", format!("{ip}:80")),
                (Secret::Host, "10.0.0.9", ip.clone()),
                (Secret::Host, "[::1]:80", format!("{}:80", hash("::1"))),
                (Secret::Host, "[::1]", hash("::1")),
                (Secret::Text, "10.0.0.9:80", format!("{ip}:80")),
                (Secret::Text, "pod:80", hash("pod:80")),
                (Secret::EventId, "key_17", format!("{}_17", hash("key"))),
                (Secret::EventId, "(key)_17", format!("({})_17", hash("key"))),
                (Secret::EventId, "_17", "_17".to_owned()),
                (Secret::EventId, "ä_17", format!("{}_17", hash("ä"))),
                (Secret::EventId, "s_1001", hash("s_1001")),
                (Secret::EventId, "17", "17".to_owned()),
                (Secret::RpcId, "17", "17".to_owned()),
                (Secret::RpcId, "-1", "-1".to_owned()),
                (Secret::RpcId, "\"\"", "\"\"".to_owned()),
                (Secret::RpcId, "\"abc\"", format!("\"{}\"", hash("abc"))),
                (
                    Secret::RpcId,
                    "1234567890",
                    format!("\"{}\"", hash("1234567890")),
                ),
                (Secret::RpcId, "1e3", format!("\"{}\"", hash("1e3"))),
                (Secret::Word, "tools/call", "tools/call".to_owned()),
                (Secret::Word, "2025-11-25", "2025-11-25".to_owned()),
                (Secret::Word, "acme/pay", hash("acme/pay")),
                (
                    Secret::Word,
                    "text/event-stream; charset=utf-8; b=x",
                    format!("text/event-stream; charset=utf-8; {}", hash("b=x")),
                ),
                (Secret::Input, "a.pcap", "input-1".to_owned()),
                (Secret::Input, "b.pcap", hash("b.pcap")),
                (Secret::Url, "*", "*".to_owned()),
                (
                    Secret::Url,
                    "/mcp/acme?sessionId=abc&x",
                    format!(
                        "/mcp/{}?sessionId={}&{}",
                        hash("acme"),
                        hash("abc"),
                        hash("x")
                    ),
                ),
                (
                    Secret::Url,
                    "https://mcp.example:8443/v1/mcp#top",
                    format!("https://{host}:8443/v1/{}", hash("mcp#top")),
                ),
                (Secret::Url, "mcp.example:443", format!("{host}:443")),
                (
                    Secret::Url,
                    "http://user:pw@mcp.example/",
                    format!("http://{}/", hash("user:pw@mcp.example")),
                ),
                (Secret::Session, "", String::new()),
            ] {
                assert_eq!(r.name(what, text), want, "{what:?} {text}");
            }
        });
    }

    #[test]
    fn ends_of_connections_are_hosts_with_their_ports() {
        with(|r| {
            let mut address = Endpoint::Address("[fd00::9]:8080".parse().unwrap());
            let mut name = Endpoint::Name("FD00::9".into(), 8080);
            r.endpoint(&mut address);
            r.endpoint(&mut name);
            assert_eq!(address, name);
            assert_eq!(address.port(), 8080);
            assert_eq!(address.to_string(), r.name(Secret::Host, "[fd00::9]:8080"));
        });
    }
}
