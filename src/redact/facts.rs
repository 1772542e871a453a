//! Facts without names: what a run gave before anything is judged, with texts in place of names that an audit reads as
//! it would read the names.
//!
//! What reports hide as hashes is kept here in its form where a verdict may rest on it: ids (`redact/form.rs`),
//! addresses, what names of files tell of captures that go on in the next. Whatever else is a hash, as in reports.

use super::{
    form::Forms,
    key::{Key, MARK},
    names::{Cut, Hide, Redactor, USUAL_PATHS, is_address, is_short_number, is_usual},
};
use crate::{
    anomaly::Anomalies,
    model::{
        analysis::{Input, KeyLog, Opaque},
        coverage::{RingFile, Stem},
        exchange::Exchange,
        flow::{Endpoint, ServerFacts},
        id::{IdPart, SessionId},
        message::PayloadHash,
        prose::Secret,
    },
};
use foldhash::fast::RandomState;
use rayon::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::{IpAddr, SocketAddr},
};

/// What is known of ids, and of names of files: other stages know it.
pub struct Lore<'a> {
    /// Cuts an event id into its number and its other tokens.
    pub cut: &'a Cut<'a>,
    /// Cuts any id into tokens, none of which stays.
    pub tokens: &'a Cut<'a>,
    /// Whether two tokens look the same.
    pub alike: &'a Alike<'a>,
    /// What the name of an input tells.
    pub ring_file: &'a RingFiles<'a>,
}

/// Whether two tokens of ids look the same to the audit.
pub type Alike<'a> = dyn Fn(&str, &str) -> bool + Sync + 'a;

/// What the name of an input tells of the files of a ring.
pub type RingFiles<'a> = dyn for<'n> Fn(&'n str) -> Option<RingFile<'n>> + Sync + 'a;

/// What stands for names in facts.
pub struct Veil<'a> {
    /// For what is a hash here as well.
    hashes: Redactor<'a>,
    forms: Forms<'a>,
    lore: &'a Lore<'a>,
    /// The tokens of session ids: they stand for the same in event ids.
    of_sessions: HashSet<String, RandomState>,
}

impl<'a> Veil<'a> {
    /// For one run, of which these are all exchanges and inputs.
    #[must_use]
    pub fn new(key: &'a Key, lore: &'a Lore<'a>, exchanges: &[Exchange], inputs: &[Input]) -> Self {
        let mut hashes = Redactor::new(key, lore.cut);
        let asked = exchanges.iter().filter_map(Exchange::asked_session);
        let given = exchanges.iter().filter_map(Exchange::given_session);
        for id in asked.chain(given) {
            if !hashes.sessions.contains(&**id) {
                hashes.sessions.insert(id.clone());
            }
        }
        let mut veil = Self {
            of_sessions: tokens_of(&hashes, lore),
            hashes,
            forms: Forms::new(key, lore.alike),
            lore,
        };
        veil.name_inputs(inputs);
        veil
    }

    /// Hides the names in exchanges.
    pub fn exchanges(&self, all: &mut [Exchange]) {
        all.par_iter_mut()
            .for_each(|row| super::exchange(row, self));
    }

    /// Hides the names in inputs, in what is odd in them, and of key logs.
    pub fn inputs(&self, all: &mut [Input], odd: &mut Anomalies, key_logs: &mut [KeyLog]) {
        for row in all {
            row.path = None;
            super::input(row, self);
        }
        super::oddities(odd, self);
        for KeyLog {
            name,
            secrets: _,
            bad_lines: _,
            // Forkscope's own words.
            first_bad: _,
            beyond: _,
        } in key_logs
        {
            self.string(Secret::Text, name);
        }
    }

    /// Hides the names of servers.
    pub fn servers(&self, facts: &mut ServerFacts, opaque: &mut [Opaque]) {
        facts.rename(
            |ip| self.forms.address(ip),
            |end| SocketAddr::new(self.forms.address(end.ip()), end.port()),
        );
        for row in opaque {
            super::opaque(row, self);
        }
    }

    /// Names of inputs: in the same order, and telling the same of the files of a ring.
    fn name_inputs(&mut self, inputs: &[Input]) {
        let stem = |name: &str| match (self.lore.ring_file)(name) {
            Some(RingFile {
                stem: Stem::Ring(stem),
                ..
            }) => stem.to_owned(),
            Some(RingFile {
                stem: Stem::Numbered(before, _),
                ..
            }) => before.to_owned(),
            None => name.to_owned(),
        };
        let stems: BTreeSet<String> = inputs.iter().map(|input| stem(&input.name)).collect();
        let places: BTreeMap<String, usize> = stems.into_iter().zip(0..).collect();
        let mut letters = 0;
        while LETTERS.len().pow(letters) < places.len() {
            letters += 1;
        }
        let mut names = BTreeMap::new();
        for input in inputs {
            let place = places.get(&stem(&input.name)).copied().unwrap_or(0);
            let place = (0..letters).rev().filter_map(|digit| {
                let letter = place / LETTERS.len().pow(digit) % LETTERS.len();
                LETTERS.get(letter).copied().map(char::from)
            });
            let name = match &*input.name {
                "-" => "-".to_owned(),
                name => place.collect::<String>() + &self.file(name),
            };
            names.insert(input.name.clone(), name);
        }
        self.hashes.inputs = names;
    }

    /// A name of a file without what it is called by: its number and what kind of file it is stay.
    fn file(&self, name: &str) -> String {
        let (start, end) = match (self.lore.ring_file)(name) {
            Some(RingFile {
                stem: Stem::Ring(stem),
                ..
            }) => (stem.len(), name.len()),
            Some(RingFile {
                stem: Stem::Numbered(before, after),
                ..
            }) => (before.len(), name.len().saturating_sub(after.len())),
            None => (name.len(), name.len()),
        };
        let stem = name.get(..start).unwrap_or(name);
        let number = name.get(start..end).unwrap_or_default();
        let after = name.get(end..).unwrap_or_default();
        self.word_and_kind(stem) + number + &self.word_and_kind(after)
    }

    /// Letters for a part of a name, which has no number then; the endings that tell what a file is stay.
    fn word_and_kind(&self, text: &str) -> String {
        let mut bare = text;
        while let Some(shorter) = KINDS.iter().find_map(|kind| bare.strip_suffix(kind)) {
            bare = shorter;
        }
        let kind = text.get(bare.len()..).unwrap_or_default();
        if bare.is_empty() {
            return kind.to_owned();
        }
        let hash = self.hashes.hash(bare);
        let letters = hash.chars().map(|digit| match digit.to_digit(16) {
            Some(digit) => LETTERS
                .get(digit as usize)
                .copied()
                .map_or(MARK, char::from),
            None => MARK,
        });
        letters.collect::<String>() + kind
    }

    /// A session id: no part of it stays.
    fn session_id(&self, id: &str) -> String {
        let tokens = (self.lore.tokens)(id);
        tokens
            .iter()
            .map(|token| self.forms.token(token.text))
            .collect()
    }

    /// An event id: its number stays.
    fn event_id(&self, id: &str) -> String {
        if self.hashes.sessions.contains(id) {
            return self.session_id(id);
        }
        let mut out = String::with_capacity(id.len());
        let mut behind_number = false;
        for IdPart { text, stays } in (self.lore.cut)(id) {
            if stays {
                out.push_str(text);
            } else if behind_number && text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
                // The end of a ULID: two other tokens are never side by side without a delimiter.
                out.push_str(&self.forms.ulid_tail(text));
            } else if self.of_sessions.contains(text) {
                out.push_str(&self.forms.token(text));
            } else {
                out.push_str(&self.forms.token_in_order(text));
            }
            behind_number = stays;
        }
        out
    }

    /// A host without port, whatever way it is written.
    fn one_host(&self, host: &str) -> String {
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        match (bare.unwrap_or(host).parse::<IpAddr>(), bare) {
            (Ok(ip), None) => self.forms.address(ip).to_string(),
            (Ok(ip), Some(_)) => format!("[{}]", self.forms.address(ip)),
            (Err(_), _) if host.is_empty() => String::new(),
            (Err(_), _) => self.hashes.hash(&host.to_lowercase()),
        }
    }

    /// A host, with a port or without.
    fn host(&self, text: &str) -> String {
        match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                match port.parse::<u16>() {
                    Ok(_) => format!("{}:{port}", self.one_host(host)),
                    Err(_) => self.hashes.hash(text),
                }
            }
            _ => self.one_host(text),
        }
    }

    /// Short whole numbers are counters and stay, as strings too; longer ones become others, and the rest are strings.
    fn rpc_id(&self, json: &str) -> String {
        let string = json.strip_prefix('"').and_then(|s| s.strip_suffix('"'));
        let text = string.unwrap_or(json);
        let digits = text.strip_prefix('-').unwrap_or(text);
        if text.is_empty() || is_short_number(digits) {
            return json.to_owned();
        }
        if digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let sign = text.strip_suffix(digits).unwrap_or_default();
            let number = self.forms.number(digits);
            let quote = if string.is_some() { "\"" } else { "" };
            return format!("{quote}{sign}{number}{quote}");
        }
        format!("\"{}\"", self.hashes.hash(text))
    }

    /// Words of HTTP and MCP stay; of others those parts do that say what they are.
    fn words(&self, text: &str) -> String {
        let parts = text.split(';').map(|part| {
            let word = part.trim_matches(' ');
            if word.is_empty() || is_usual(word) {
                return part.to_owned();
            }
            let (before, after) = part.split_once(word).unwrap_or_default();
            let segments = word.split('/').map(|segment| {
                if segment.is_empty() || SEGMENTS.contains(&segment) {
                    return segment.to_owned();
                }
                match segment.strip_suffix(LIST_CHANGED) {
                    Some(whose) => self.hashes.hash(whose) + LIST_CHANGED,
                    None => self.hashes.hash(segment),
                }
            });
            let segments = segments.collect::<Vec<_>>().join("/");
            format!("{before}{segments}{after}")
        });
        parts.collect::<Vec<_>>().join(";")
    }

    /// Part by part, so that what two targets have in common still shows.
    fn url(&self, url: &str) -> String {
        let mut pieces = url.split("://").peekable();
        let mut out = String::with_capacity(url.len());
        let mut in_query = false;
        let mut first = true;
        let mut behind_scheme = !url.starts_with('/');
        while let Some(piece) = pieces.next() {
            let scheme = first && matches!(piece, "http" | "https") && pieces.peek().is_some();
            if scheme {
                out.push_str(piece);
            } else if behind_scheme {
                let end = piece.find(['/', '?', '#']).unwrap_or(piece.len());
                let (authority, rest) = piece.split_at_checked(end).unwrap_or((piece, ""));
                match authority {
                    "*" => out.push('*'),
                    authority => out.push_str(&self.host(authority)),
                }
                self.path_and_query(rest, &mut in_query, &mut out);
            } else {
                self.path_and_query(piece, &mut in_query, &mut out);
            }
            behind_scheme = scheme;
            first = false;
            if pieces.peek().is_some() {
                out.push_str("://");
            }
        }
        out
    }

    fn path_and_query(&self, text: &str, in_query: &mut bool, out: &mut String) {
        let mut names_session = false;
        for piece in text.split_inclusive(['/', '?', '#', '&', '=']) {
            let word = piece
                .strip_suffix(['/', '?', '#', '&', '='])
                .unwrap_or(piece);
            let delimiter = piece.get(word.len()..).unwrap_or_default();
            let plain: String = word.chars().filter(|c| *c != '_' && *c != '-').collect();
            let usual = |known: &&str| known.eq_ignore_ascii_case(word);
            let is_session =
                *in_query && delimiter == "=" && plain.eq_ignore_ascii_case("sessionid");
            if word.is_empty() {
            } else if is_session || !*in_query && USUAL_PATHS.iter().any(usual) {
                out.push_str(word);
            } else if names_session {
                out.push_str(&self.session_id(word));
            } else {
                out.push_str(&self.hashes.hash(word));
            }
            names_session = is_session;
            *in_query |= delimiter == "?";
            out.push_str(delimiter);
        }
    }
}

#[expect(
    clippy::iter_over_hash_type,
    reason = "what comes out has no order either"
)]
fn tokens_of(hashes: &Redactor<'_>, lore: &Lore<'_>) -> HashSet<String, RandomState> {
    let mut tokens = HashSet::default();
    for id in &hashes.sessions {
        tokens.extend((lore.tokens)(id).iter().map(|token| token.text.to_owned()));
    }
    tokens
}

impl Hide for Veil<'_> {
    fn name(&self, what: Secret, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        match what {
            Secret::Session => self.session_id(text),
            Secret::Host => self.host(text),
            Secret::EventId => self.event_id(text),
            Secret::Url => self.url(text),
            Secret::RpcId => self.rpc_id(text),
            Secret::Word => self.words(text),
            Secret::Input => match self.hashes.inputs.get(text) {
                Some(name) => name.clone(),
                None => self.file(text),
            },
            // A backend may be named by its address.
            Secret::Text if is_address(text) => self.host(text),
            Secret::Prose | Secret::Payload | Secret::Text => self.hashes.hash(text),
        }
    }

    fn endpoint(&self, end: &mut Endpoint) {
        *end = match end {
            Endpoint::Address(address) => {
                let ip = self.forms.address(address.ip());
                Endpoint::Address(SocketAddr::new(ip, address.port()))
            }
            Endpoint::Name(name, port) => Endpoint::Name(self.one_host(name).into(), *port),
        };
    }

    fn rehash(&self, hash: PayloadHash) -> PayloadHash {
        self.hashes.key.rehash(hash)
    }

    fn session(&self, id: &mut SessionId) {
        *id = SessionId::from(self.name(Secret::Session, id));
    }
}

/// Digits for places and hashes in names of files, where numbers mean something.
const LETTERS: &[u8; 16] = b"abcdefghijklmnop";

/// Endings that tell what a file is.
const KINDS: [&str; 9] = [
    ".pcapng", ".pcap", ".cap", ".har", ".zhar", ".json", ".gz", ".zst", ".parquet",
];

/// Parts of methods that say what others of theirs do.
const SEGMENTS: [&str; 4] = ["list", "notifications", "tasks", "updated"];

const LIST_CHANGED: &str = "list_changed";
