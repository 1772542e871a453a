//! Both directions of a TLS connection, and what became of it.

use super::{
    Sink,
    facts::{Facts, Version},
    half::{APPLICATION, Budget, Context, HANDSHAKE, Half, header},
    keylog::{Random, Secrets},
};
use crate::{
    anomaly::Kind,
    limits::Limits,
    model::{flow::Side, place::At},
};
use std::sync::Arc;

/// What the first bytes of a side are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// More are needed.
    More,
    /// A TLS record.
    Tls,
    /// Something else.
    Other,
}

/// Looks what the first bytes of a side are; `missed`: there may be bytes before them that are not in the
/// capture.
///
/// The middle of a connection is taken for TLS only where records follow each other to the end of `bytes`.
#[must_use]
pub fn begins(bytes: &[u8], missed: bool) -> Begins {
    if !missed {
        return match bytes {
            [HANDSHAKE | APPLICATION, 3, ..] => Begins::Tls,
            [] | [HANDSHAKE | APPLICATION] => Begins::More,
            _ => Begins::Other,
        };
    }
    // A hello may be cut anywhere.
    if let []
    | [HANDSHAKE]
    | [HANDSHAKE, 3]
    | [HANDSHAKE, 3, 1..=3]
    | [HANDSHAKE, 3, 1..=3, _]
    | [HANDSHAKE, 3, 1..=3, _, _]
    | [HANDSHAKE, 3, 1..=3, _, _, 1 | 2] = bytes
    {
        return Begins::More;
    }
    let mut rest = bytes;
    let mut records = 0;
    loop {
        match (header(rest), rest) {
            (_, []) if records > 0 => return Begins::Tls,
            // The last may go on in the next segment.
            (None, [20..=23] | [20..=23, 3, ..]) if records > 0 && rest.len() < 5 => {
                return Begins::Tls;
            }
            (Some(length), [_, _, 1..=3, ..]) if length > 0 => match rest.get(5 + length..) {
                Some(after) => rest = after,
                None if records > 0 || is_hello(rest) => return Begins::Tls,
                None => return Begins::Other,
            },
            _ => return Begins::Other,
        }
        records += 1;
    }
}

/// Whether a record begins with a hello.
#[must_use]
pub fn is_hello(record: &[u8]) -> bool {
    matches!(record, [HANDSHAKE, 3, _, _, _, 1 | 2, 0, ..])
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What it carried was read, as far as it was captured.
    Read,
    /// One direction was read, and the other was not.
    Half(&'static str),
    /// Nothing of it was read.
    Opaque(Reason),
}

/// Why nothing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A part of the handshake that is needed is not in the capture.
    Handshake(&'static str),
    /// A version that is not read.
    Version(u16),
    /// A cipher suite that is not read.
    Suite(u16),
    /// There are no keys for it.
    NoKeys,
    /// There are keys for it, but not those of what was said after the handshake.
    PartKeys,
    /// There are keys for it, and nothing opens with them.
    WrongKeys,
}

/// A TLS connection.
pub struct Connection {
    limits: Limits,
    secrets: Arc<Secrets>,
    facts: Facts,
    halves: [Half; 2],
    finished: bool,
}

impl Connection {
    /// One of which nothing was seen yet.
    #[must_use]
    pub fn new(limits: Limits, secrets: Arc<Secrets>, budget: &Budget) -> Self {
        Self {
            limits,
            secrets,
            facts: Facts::default(),
            halves: [Half::new(Side::A, budget), Half::new(Side::B, budget)],
            finished: false,
        }
    }

    /// Says, before the first byte, that the beginning of the connection is not in the capture.
    pub fn midstream(&mut self) {
        self.facts.lacks = Some("its handshake is not in the capture");
    }

    /// Bytes of `sender` that end at `at`.
    pub fn data(&mut self, sender: Side, bytes: &[u8], at: At, out: &mut impl Sink) {
        self.with(sender, out, |half, context| half.data(bytes, at, context));
        self.release(out);
    }

    /// So many bytes of `sender` are missing before what comes next; `at.offset` lies just past them.
    pub fn hole(&mut self, sender: Side, bytes: u64, at: At, out: &mut impl Sink) {
        self.with(sender, out, |half, context| half.hole(bytes, at, context));
        self.release(out);
    }

    /// `sender` sends nothing more.
    pub fn fin(&mut self, sender: Side, at: At, out: &mut impl Sink) {
        self.with(sender, out, |half, context| half.finish(at, context));
    }

    /// Whether what `sender` said is complete: it said itself that nothing more comes (close_notify), or that
    /// may have been lost. Only a connection that was closed so was not cut.
    #[must_use]
    pub fn ends_cleanly(&self, sender: Side) -> bool {
        let [a, b] = &self.halves;
        match sender {
            Side::A => a.ends_cleanly(),
            Side::B => b.ends_cleanly(),
        }
    }

    /// Nothing more comes. Says what became of it, and why it was not read.
    pub fn finish(&mut self, at: At, out: &mut impl Sink) -> Outcome {
        for side in [Side::A, Side::B] {
            self.with(side, out, |half, context| half.finish(at, context));
        }
        let outcome = self.outcome();
        if !std::mem::replace(&mut self.finished, true) {
            let first = self.halves.iter().filter_map(|half| half.first_unopened);
            let at = first.min_by_key(|at| at.time).unwrap_or(at);
            match outcome {
                Outcome::Read => {}
                Outcome::Half(which) => out.anomaly(Kind::PartialTlsKeys, at, which.to_owned()),
                Outcome::Opaque(reason) => {
                    let (kind, detail) = self.describe(reason);
                    out.anomaly(kind, at, detail);
                }
            }
        }
        outcome
    }

    /// Who asked for a server by name, and for which.
    #[must_use]
    pub fn asked_for(&self) -> Option<(Side, Option<&str>)> {
        let (client, hello) = self.facts.client.as_ref()?;
        Some((*client, hello.name.as_deref()))
    }

    /// The randoms of the client's hellos for which there are secrets.
    #[must_use]
    pub fn randoms(&self) -> &[Random] {
        &self.facts.randoms
    }

    /// The random for which more keys would have been wanted, and how many there were.
    #[must_use]
    pub fn wanting(&self) -> Option<(Random, usize)> {
        let (_, hello) = self.facts.client.as_ref()?;
        let unopened = self.halves.iter().any(|half| half.unopened > 0);
        unopened.then(|| (hello.random, self.secrets.known(&hello.random)))
    }

    fn with<S: Sink>(
        &mut self,
        side: Side,
        out: &mut S,
        what: impl FnOnce(&mut Half, &mut Context<'_, S>),
    ) {
        let mut context = Context {
            facts: &mut self.facts,
            secrets: &self.secrets,
            limits: &self.limits,
            out,
        };
        let [a, b] = &mut self.halves;
        what(
            match side {
                Side::A => a,
                Side::B => b,
            },
            &mut context,
        );
    }

    /// What one direction said may tell how to read the other.
    fn release<S: Sink>(&mut self, out: &mut S) {
        for side in [Side::A, Side::B] {
            self.with(side, out, Half::release);
        }
    }

    fn outcome(&self) -> Outcome {
        let [a, b] = &self.halves;
        let (client, server) = match self.facts.client {
            Some((Side::B, _)) => (b, a),
            _ => (a, b),
        };
        let unread = |half: &Half| half.opened == 0 && half.unopened > 0;
        match (unread(client), unread(server)) {
            (false, false) if client.opened + server.opened > 0 => Outcome::Read,
            (true, false) if server.opened > 0 => {
                Outcome::Half("what the client said was not read")
            }
            (false, true) if client.opened > 0 => {
                Outcome::Half("what the server said was not read")
            }
            // Nothing was said but the handshake, and that was read.
            (false, false) if client.shook + server.shook > 0 && self.facts.lacks.is_none() => {
                Outcome::Read
            }
            _ => Outcome::Opaque(self.reason()),
        }
    }

    fn reason(&self) -> Reason {
        let facts = &self.facts;
        if let Version::Other(version) = facts.version {
            return Reason::Version(version);
        }
        if let Some(why) = facts.lacks {
            return Reason::Handshake(why);
        }
        if let Some(suite) = facts.unread_suite() {
            return Reason::Suite(suite);
        }
        match (facts.has_session(), &facts.client) {
            (false, None) => Reason::Handshake("its ClientHello is not in the capture"),
            (false, _) => Reason::NoKeys,
            (true, _) if facts.has_application(true) || facts.has_application(false) => {
                Reason::WrongKeys
            }
            (true, _) => Reason::PartKeys,
        }
    }

    fn describe(&self, reason: Reason) -> (Kind, String) {
        match reason {
            Reason::Handshake(why) => (Kind::OpaqueTls, why.to_owned()),
            Reason::Version(version) => (Kind::OpaqueTls, version_name(version)),
            Reason::Suite(suite) => {
                let detail = format!("cipher suite {suite:#06x}, which is not read");
                (Kind::OpaqueTls, detail)
            }
            Reason::NoKeys if self.secrets.is_empty() => {
                (Kind::OpaqueTls, "no keys were given".to_owned())
            }
            Reason::NoKeys => {
                let detail = "no keys for it among those that were given".to_owned();
                (Kind::OpaqueTls, detail)
            }
            Reason::PartKeys => {
                let detail = "no keys of what was said after the handshake".to_owned();
                (Kind::PartialTlsKeys, detail)
            }
            Reason::WrongKeys => {
                let detail = "nothing opens with the keys that are given for it".to_owned();
                (Kind::WrongTlsKeys, detail)
            }
        }
    }
}

fn version_name(version: u16) -> String {
    match version {
        0x0300 => "SSL 3.0, which is not read".to_owned(),
        0x0301 => "TLS 1.0, which is not read".to_owned(),
        0x0302 => "TLS 1.1, which is not read".to_owned(),
        other => format!("version {other:#06x} of TLS, which is not read"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test that panics has failed")]

    use super::*;

    fn record(kind: u8, body: &[u8]) -> Vec<u8> {
        let [high, low] = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&[kind, 3, 3, high, low][..], body].concat()
    }

    #[test]
    fn the_first_byte_and_version_tell_at_the_beginning() {
        assert_eq!(begins(b"\x16\x03\x01\x02", false), Begins::Tls);
        assert_eq!(begins(b"\x17\x03", false), Begins::Tls);
        assert_eq!(begins(b"\x16", false), Begins::More);
        for other in [
            &b"GET / HTTP/1.1"[..],
            b"PRI * HTTP/2.0",
            b"\x16\x02",
            b"\x15\x03",
        ] {
            assert_eq!(begins(other, false), Begins::Other, "{other:?}");
        }
    }

    #[test]
    fn in_the_middle_whole_records_or_a_hello_tell() {
        let one = record(APPLICATION, &[7; 30]);
        let two = [one.clone(), record(APPLICATION, &[8; 40])].concat();
        assert_eq!(begins(&one, true), Begins::Tls);
        assert_eq!(begins(&two, true), Begins::Tls);
        // The last goes on in the next segment.
        assert_eq!(begins(&two[..50], true), Begins::Tls);
        assert_eq!(begins(&two[..37], true), Begins::Tls);
        // One alone that goes on proves nothing, and neither does what follows one that is no record.
        assert_eq!(begins(&one[..20], true), Begins::Other);
        assert_eq!(
            begins(&[&one[..], b"data: x"].concat(), true),
            Begins::Other
        );
        // A hello does, however it is cut.
        let hello = record(HANDSHAKE, &[&[1, 0, 1, 0][..], &[0; 256]].concat());
        for len in 0..hello.len() {
            let want = if len < 7 { Begins::More } else { Begins::Tls };
            assert_eq!(begins(&hello[..len], true), want, "{len}");
        }
        for text in [&b"data: {}\n\n"[..], b"5\r\n", b"HTTP/1.1 200 OK\r\n"] {
            assert_eq!(begins(text, true), Begins::Other);
        }
    }
}
