//! Key logs as NSS, and with it everybody else, writes them under `SSLKEYLOGFILE`
//! (draft-ietf-tls-keylogfile), and what a session's secrets are.

use crate::{limits::Limits, model::flow::Side};
use std::{
    collections::HashMap,
    fmt::{self, Write},
    sync::Arc,
};

/// The secrets of all sessions that are known.
///
/// What it holds is never printed.
#[derive(Clone, Default)]
pub struct Secrets {
    sessions: HashMap<Random, Arc<Session>, foldhash::fast::RandomState>,
    /// Master secrets by the id of the session: what OpenSSL once wrote.
    by_id: HashMap<Box<[u8]>, Secret, foldhash::fast::RandomState>,
}

/// The random of a ClientHello, which names a session.
pub type Random = [u8; 32];

/// What one line of a key log was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// A secret that was taken.
    Secret,
    /// A comment, or empty.
    Comment,
    /// A secret that nothing here needs: exporters, QUIC, what a later version defines.
    Unused,
    /// A secret of one session more than the limit.
    Beyond,
    /// No line of a key log; why.
    Bad(&'static str),
}

/// What the lines of a key log were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// All of them.
    pub all: u64,
    /// Secrets that were taken.
    pub secrets: u64,
    /// Secrets that nothing here needs.
    pub unused: u64,
    /// Secrets beyond the limit.
    pub beyond: u64,
    /// Lines that are none of a key log.
    pub bad: u64,
    /// The number of the first of them, from 1, and why.
    pub first_bad: Option<(u64, &'static str)>,
}

impl Lines {
    /// Counts the next line.
    pub fn note(&mut self, line: Line) {
        self.all += 1;
        match line {
            Line::Secret => self.secrets += 1,
            Line::Comment => {}
            Line::Unused => self.unused += 1,
            Line::Beyond => self.beyond += 1,
            Line::Bad(why) => {
                self.bad += 1;
                self.first_bad.get_or_insert((self.all, why));
            }
        }
    }
}

impl Secrets {
    /// Takes the text of a key log.
    pub fn read(&mut self, text: &[u8], limits: &Limits) -> Lines {
        let mut lines = Lines::default();
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        if !text.is_empty() {
            for line in text.split(|byte| *byte == b'\n') {
                lines.note(self.line(line, limits));
            }
        }
        lines
    }

    /// Takes one line, with or without its end.
    pub fn line(&mut self, line: &[u8], limits: &Limits) -> Line {
        // Editors of Windows begin files so.
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let Some(label) = words.next() else {
            return Line::Comment;
        };
        if label.starts_with(b"#") {
            return Line::Comment;
        }
        let (Some(name), Some(value)) = (words.next(), words.next()) else {
            return Line::Bad("fewer than three words");
        };
        if words.next().is_some() {
            return Line::Bad("more than three words");
        }
        if label == b"RSA" {
            return self.old_line(name, value, limits);
        }
        if !label
            .iter()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_')
        {
            return Line::Bad("its first word is no label");
        }
        let Some(what) = Label::of(label) else {
            let hex = |word: &[u8]| word.iter().all(u8::is_ascii_hexdigit);
            return if hex(name) && hex(value) {
                Line::Unused
            } else {
                Line::Bad("its words are no numbers in hexadecimal")
            };
        };
        let Some(random) = hex::<32>(name).filter(|(_, len)| *len == 32) else {
            return Line::Bad("its random is not 32 bytes in hexadecimal");
        };
        let Some(secret) = Secret::of(value) else {
            return Line::Bad("its secret is not 32 or 48 bytes in hexadecimal");
        };
        if what == Label::Master && secret.len != 48 {
            return Line::Bad("its master secret is not 48 bytes");
        }
        let random = random.0;
        if self.len() >= limits.tls_sessions && !self.sessions.contains_key(&random) {
            return Line::Beyond;
        }
        let session = self.sessions.entry(random).or_default();
        Arc::make_mut(session).take(what, secret);
        Line::Secret
    }

    /// `RSA Session-ID:… Master-Key:…`; other lines of RSA have the premaster secret of a key exchange that
    /// nobody should use any more.
    fn old_line(&mut self, name: &[u8], value: &[u8], limits: &Limits) -> Line {
        let (Some(id), Some(master)) = (
            name.strip_prefix(b"Session-ID:"),
            value.strip_prefix(b"Master-Key:"),
        ) else {
            return Line::Unused;
        };
        let Some((id, len)) = hex::<32>(id) else {
            return Line::Bad("its session id is not up to 32 bytes in hexadecimal");
        };
        let Some(secret) = Secret::of(master).filter(|secret| secret.len == 48) else {
            return Line::Bad("its master key is not 48 bytes in hexadecimal");
        };
        let id: Box<[u8]> = id.get(..len).unwrap_or_default().into();
        if id.is_empty() {
            return Line::Unused;
        }
        if self.len() >= limits.tls_sessions && !self.by_id.contains_key(&id) {
            return Line::Beyond;
        }
        self.by_id.entry(id).or_insert(secret);
        Line::Secret
    }

    fn len(&self) -> usize {
        self.sessions.len() + self.by_id.len()
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is known of the session of a ClientHello with this random, as lines of a key log.
    #[must_use]
    pub fn key_log(&self, random: &Random) -> String {
        let mut out = String::new();
        let Some(session) = self.sessions.get(random) else {
            return out;
        };
        let mut line = |label: &str, secret: &Secret| {
            out.push_str(label);
            for bytes in [&random[..], secret.get()] {
                out.push(' ');
                for byte in bytes {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "{byte:02x}");
                }
            }
            out.push('\n');
        };
        if let Some(secret) = &session.master {
            line("CLIENT_RANDOM", secret);
        }
        if let Some(secret) = &session.early {
            line("CLIENT_EARLY_TRAFFIC_SECRET", secret);
        }
        for (client, name) in [(true, "CLIENT"), (false, "SERVER")] {
            if let Some(secret) = &session.handshake(client) {
                line(&format!("{name}_HANDSHAKE_TRAFFIC_SECRET"), secret);
            }
            for (generation, secret) in session.application(client) {
                line(&format!("{name}_TRAFFIC_SECRET_{generation}"), secret);
            }
        }
        out
    }

    /// How many secrets are known of the session of a ClientHello with this random.
    #[must_use]
    pub fn known(&self, random: &Random) -> usize {
        self.sessions.get(random).map_or(0, |session| session.len())
    }

    /// Takes all that `other` knows.
    pub fn merge(&mut self, other: &Self, limits: &Limits) {
        // Which of them are taken when not all are must not depend on the order of a map.
        let mut sessions: Vec<_> = other.sessions.iter().collect();
        sessions.sort_unstable_by_key(|(random, _)| **random);
        for (random, session) in sessions {
            if self.len() < limits.tls_sessions || self.sessions.contains_key(random) {
                let mine = self.sessions.entry(*random).or_default();
                if mine.len() == 0 {
                    *mine = Arc::clone(session);
                } else {
                    Arc::make_mut(mine).merge(session);
                }
            }
        }
        let mut by_id: Vec<_> = other.by_id.iter().collect();
        by_id.sort_unstable_by_key(|(id, _)| *id);
        for (id, secret) in by_id {
            if self.len() < limits.tls_sessions {
                self.by_id.entry(id.clone()).or_insert(*secret);
            }
        }
    }

    pub(super) fn session(&self, random: &Random) -> Option<&Arc<Session>> {
        self.sessions.get(random)
    }

    pub(super) fn master_of_id(&self, id: &[u8]) -> Option<Secret> {
        self.by_id.get(id).copied()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({} sessions)", self.len())
    }
}

/// What a line holds the secret of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Master,
    Early,
    Handshake(Side),
    Application(Side, u32),
}

impl Label {
    fn of(label: &[u8]) -> Option<Self> {
        let (side, rest) = match label {
            b"CLIENT_RANDOM" => return Some(Self::Master),
            b"CLIENT_EARLY_TRAFFIC_SECRET" => return Some(Self::Early),
            _ => match label.strip_prefix(b"CLIENT_") {
                Some(rest) => (CLIENT, rest),
                None => (SERVER, label.strip_prefix(b"SERVER_")?),
            },
        };
        if rest == b"HANDSHAKE_TRAFFIC_SECRET" {
            return Some(Self::Handshake(side));
        }
        let number = rest.strip_prefix(b"TRAFFIC_SECRET_")?;
        let number = std::str::from_utf8(number).ok()?.parse().ok()?;
        Some(Self::Application(side, number))
    }
}

/// In this file the client is side A.
const CLIENT: Side = Side::A;
const SERVER: Side = Side::B;

/// What is known of one session.
#[derive(Clone, Default)]
pub(super) struct Session {
    /// TLS 1.2.
    pub(super) master: Option<Secret>,
    /// TLS 1.3, of the client.
    pub(super) early: Option<Secret>,
    handshake: [Option<Secret>; 2],
    /// By generation: each key update makes a new one.
    application: [Vec<(u32, Secret)>; 2],
}

impl Session {
    /// A session of TLS 1.2 of which only the master secret is known.
    pub(super) fn of_master(master: Secret) -> Self {
        Self {
            master: Some(master),
            ..Self::default()
        }
    }

    /// The first secret that was logged counts.
    fn take(&mut self, label: Label, secret: Secret) {
        let place = match label {
            Label::Master => &mut self.master,
            Label::Early => &mut self.early,
            Label::Handshake(Side::A) => &mut self.handshake[0],
            Label::Handshake(Side::B) => &mut self.handshake[1],
            Label::Application(side, generation) => {
                let [client, server] = &mut self.application;
                let list = if side == CLIENT { client } else { server };
                // Later ones can be told from those before.
                if list.len() < GENERATIONS && list.iter().all(|(known, _)| *known != generation) {
                    list.push((generation, secret));
                    list.sort_unstable_by_key(|(generation, _)| *generation);
                }
                return;
            }
        };
        place.get_or_insert(secret);
    }

    fn merge(&mut self, other: &Self) {
        if let Some(secret) = other.master {
            self.take(Label::Master, secret);
        }
        if let Some(secret) = other.early {
            self.take(Label::Early, secret);
        }
        for side in [CLIENT, SERVER] {
            if let Some(secret) = other.handshake(side == CLIENT) {
                self.take(Label::Handshake(side), secret);
            }
            for (generation, secret) in other.application(side == CLIENT) {
                self.take(Label::Application(side, *generation), *secret);
            }
        }
    }

    fn len(&self) -> usize {
        let single = [
            self.master,
            self.early,
            self.handshake(true),
            self.handshake(false),
        ];
        let [client, server] = &self.application;
        single.iter().flatten().count() + client.len() + server.len()
    }

    pub(super) fn handshake(&self, client: bool) -> Option<Secret> {
        let [of_client, of_server] = self.handshake;
        if client { of_client } else { of_server }
    }

    /// In order of generation.
    pub(super) fn application(&self, client: bool) -> &[(u32, Secret)] {
        let [of_client, of_server] = &self.application;
        if client { of_client } else { of_server }
    }

    /// Whether there is any secret of TLS 1.3, and how long they are.
    pub(super) fn length13(&self) -> Option<usize> {
        let [client, server] = &self.application;
        let handshake = self.handshake.iter().flatten();
        let later = client.iter().chain(server).map(|(_, secret)| secret);
        let mut all = handshake.chain(later).chain(&self.early);
        all.next().map(|secret| secret.get().len())
    }
}

/// A secret: of TLS 1.3 as long as the hash of its suite; a master secret has 48 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Secret {
    bytes: [u8; 48],
    len: usize,
}

impl Secret {
    fn of(text: &[u8]) -> Option<Self> {
        let (bytes, len) = hex::<48>(text)?;
        matches!(len, 32 | 48).then_some(Self { bytes, len })
    }

    /// From bytes that were derived.
    pub(super) fn derived(from: &[u8]) -> Option<Self> {
        let mut bytes = [0; 48];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        Some(Self {
            bytes,
            len: from.len(),
        })
    }

    pub(super) fn get(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Up to `N` bytes in hexadecimal, and how many.
fn hex<const N: usize>(text: &[u8]) -> Option<([u8; N], usize)> {
    let digit = |byte: &u8| {
        char::from(*byte)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    let mut out = [0; N];
    let len = text.len() / 2;
    if !text.len().is_multiple_of(2) || len > N {
        return None;
    }
    for (place, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *place = digit(high)? << 4 | digit(low)?;
    }
    Some((out, len))
}

/// Generations kept of one session and direction, when all were logged.
const GENERATIONS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn hex_of(byte: u8, len: usize) -> String {
        format!("{byte:02x}").repeat(len)
    }

    fn lines(text: &str) -> (Secrets, Lines) {
        let mut secrets = Secrets::default();
        let lines = secrets.read(text.as_bytes(), &Limits::default());
        (secrets, lines)
    }

    #[test]
    fn writes_what_it_reads() {
        let (random, secret, master) = (hex_of(7, 32), hex_of(9, 48), hex_of(3, 48));
        let text = format!(
            "CLIENT_RANDOM {random} {master}\nCLIENT_EARLY_TRAFFIC_SECRET {random} {secret}\n\
             CLIENT_HANDSHAKE_TRAFFIC_SECRET {random} {secret}\nCLIENT_TRAFFIC_SECRET_0 {random} {secret}\n\
             CLIENT_TRAFFIC_SECRET_2 {random} {secret}\nSERVER_TRAFFIC_SECRET_0 {random} {secret}\n"
        );
        let other = format!("CLIENT_RANDOM {} {master}\n", hex_of(8, 32));
        let (secrets, _) = lines(&format!("{other}{text}"));
        assert_eq!(secrets.key_log(&[7; 32]), text);
        assert_eq!(secrets.key_log(&[6; 32]), "");
    }

    #[test]
    fn takes_what_the_wild_writes() {
        let random = hex_of(7, 32);
        let text = format!(
            "\u{feff}# SSL/TLS secrets log file, generated by NSS\r\n\r\n\
             CLIENT_RANDOM {random} {master}\r\n\
             CLIENT_HANDSHAKE_TRAFFIC_SECRET {upper} {long}\n\
             SERVER_HANDSHAKE_TRAFFIC_SECRET  {random}\t{short} \n\
             CLIENT_TRAFFIC_SECRET_0 {random} {short}\n\
             SERVER_TRAFFIC_SECRET_0 {random} {short}\n\
             SERVER_TRAFFIC_SECRET_3 {random} {short}\n\
             CLIENT_EARLY_TRAFFIC_SECRET {random} {short}\n\
             EXPORTER_SECRET {random} {short}\n\
             NEW_LABEL_9 {random} {short}\n\
             RSA 0123456789abcdef {master}\n\
             RSA Session-ID:{id} Master-Key:{master}",
            upper = random.to_uppercase(),
            master = hex_of(1, 48),
            long = hex_of(0xab, 48),
            short = hex_of(2, 32),
            id = hex_of(9, 4),
        );
        let (secrets, lines) = lines(&text);
        assert_eq!((lines.all, lines.bad), (13, 0), "{lines:?}");
        assert_eq!((lines.secrets, lines.unused), (8, 3));
        assert_eq!(secrets.known(&[7; 32]), 7);
        let session = secrets.session(&[7; 32]).unwrap();
        assert_eq!(session.handshake(true).unwrap().get(), [0xab; 48]);
        assert_eq!(session.handshake(false).unwrap().get(), [2; 32]);
        let generations: Vec<u32> = session.application(false).iter().map(|(n, _)| *n).collect();
        assert_eq!(generations, [0, 3]);
        assert_eq!(secrets.master_of_id(&[9; 4]).unwrap().get(), [1; 48]);
    }

    #[test]
    fn says_where_the_first_bad_line_is() {
        let random = hex_of(7, 32);
        let short = hex_of(2, 32);
        let text = format!(
            "# fine\nCLIENT_TRAFFIC_SECRET_0 {random} {short}\nGET / HTTP/1.1\n\
             CLIENT_TRAFFIC_SECRET_0 {random} {short}00\nCLIENT_RANDOM {random} {short}\n\
             SERVER_TRAFFIC_SECRET_0 {random}\nSERVER_TRAFFIC_SECRET_0 zz {short}\n\
             SERVER_TRAFFIC_SECRET_0 {random} {short} more\n"
        );
        let (secrets, lines) = lines(&text);
        assert_eq!((lines.all, lines.secrets, lines.bad), (8, 1, 6));
        assert_eq!(
            lines.first_bad,
            Some((3, "its words are no numbers in hexadecimal"))
        );
        assert_eq!(secrets.known(&[7; 32]), 1);
    }

    #[test]
    fn no_more_sessions_than_the_limit() {
        let limits = Limits {
            tls_sessions: 2,
            ..Limits::default()
        };
        let mut secrets = Secrets::default();
        let line = |byte| format!("CLIENT_RANDOM {} {}", hex_of(byte, 32), hex_of(1, 48));
        for byte in [1, 2] {
            assert_eq!(secrets.line(line(byte).as_bytes(), &limits), Line::Secret);
        }
        assert_eq!(secrets.line(line(3).as_bytes(), &limits), Line::Beyond);
        assert_eq!(secrets.line(line(1).as_bytes(), &limits), Line::Secret);
    }

    #[test]
    fn nothing_secret_is_printed() {
        let (secrets, _) = lines(&format!(
            "CLIENT_RANDOM {} {}",
            hex_of(0xee, 32),
            hex_of(0xdd, 48)
        ));
        let printed = format!("{secrets:?}");
        assert!(
            !printed.contains("238") && !printed.contains("221"),
            "{printed}"
        );
    }
}
