//! Handshake messages out of the records that carry them: several in a record, one over several.

/// What is needed of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    ClientHello(&'a [u8]),
    ServerHello(&'a [u8]),
    EncryptedExtensions(&'a [u8]),
    EndOfEarlyData,
    Finished,
    KeyUpdate,
    /// Any other.
    Other,
}

/// Puts messages together.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// The header of the current message, and its body when that is needed.
    buffer: Vec<u8>,
    /// The kind of a message whose body is not needed, and how much of that is still to come.
    passing: Option<(u8, usize)>,
}

impl Messages {
    /// Reads the next message that ends in `content`, which is left with what follows.
    pub(super) fn next(&mut self, content: &mut &[u8]) -> Option<Next> {
        if self.passing.is_none() {
            self.fill(content, HEADER)?;
            let [kind, high, middle, low] = self.buffer.first_chunk().copied()?;
            let length = usize::try_from(u32::from_be_bytes([0, high, middle, low])).ok()?;
            if matches!(kind, CLIENT_HELLO | SERVER_HELLO | EXTENSIONS) && length <= LONGEST {
                self.fill(content, HEADER + length)?;
                return Some(Next {
                    kind,
                    message: std::mem::take(&mut self.buffer),
                });
            }
            self.buffer.clear();
            self.passing = Some((kind, length));
        }
        let (kind, left) = self.passing?;
        let now = left.min(content.len());
        *content = content.get(now..).unwrap_or_default();
        if now < left {
            self.passing = Some((kind, left - now));
            return None;
        }
        self.passing = None;
        Some(Next {
            kind,
            message: Vec::new(),
        })
    }

    /// Fills the buffer up to `len` bytes; `None` when there are not so many.
    fn fill(&mut self, content: &mut &[u8], len: usize) -> Option<()> {
        let missing = len.saturating_sub(self.buffer.len());
        let now = missing.min(content.len());
        let (taken, rest) = content.split_at_checked(now)?;
        self.buffer.extend_from_slice(taken);
        *content = rest;
        (now == missing).then_some(())
    }

    /// What follows is not what comes next: something was lost, or the keys changed.
    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }
}

/// A message that was read.
pub(super) struct Next {
    kind: u8,
    /// With its header, when its body is needed.
    message: Vec<u8>,
}

impl Next {
    pub(super) fn get(&self) -> Message<'_> {
        let body = self.message.get(HEADER..);
        match (self.kind, body) {
            (CLIENT_HELLO, Some(body)) => Message::ClientHello(body),
            (SERVER_HELLO, Some(body)) => Message::ServerHello(body),
            (EXTENSIONS, Some(body)) => Message::EncryptedExtensions(body),
            (END_OF_EARLY_DATA, _) => Message::EndOfEarlyData,
            (FINISHED, _) => Message::Finished,
            (KEY_UPDATE, _) => Message::KeyUpdate,
            _ => Message::Other,
        }
    }
}

const HEADER: usize = 4;
/// A hello that is longer is not looked at: with post-quantum keys they have about 2 KiB.
const LONGEST: usize = 16 << 10;

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const END_OF_EARLY_DATA: u8 = 5;
const EXTENSIONS: u8 = 8;
const FINISHED: u8 = 20;
const KEY_UPDATE: u8 = 24;

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test that panics has failed")]

    use super::*;

    #[test]
    fn cuts_change_nothing() {
        let mut flight = Vec::new();
        for (kind, length) in [
            (2, 70),
            (8, 2),
            (11, 3000),
            (15, 0),
            (20, 32),
            (24, 1),
            (1, 20_000),
        ] {
            let length: u32 = length;
            flight.push(kind);
            flight.extend(&length.to_be_bytes()[1..]);
            flight.extend(std::iter::repeat_n(kind, length as usize));
        }
        for cut in [1, 3, 4, 5, 100, 1 << 20] {
            let mut messages = Messages::default();
            let mut seen = Vec::new();
            for mut piece in flight.chunks(cut) {
                while let Some(next) = messages.next(&mut piece) {
                    seen.push(match next.get() {
                        Message::ServerHello(body) => ('s', body.len()),
                        Message::EncryptedExtensions(body) => ('e', body.len()),
                        Message::Finished => ('f', 0),
                        Message::KeyUpdate => ('k', 0),
                        Message::Other => ('o', 0),
                        _ => ('?', 0),
                    });
                }
                assert!(piece.is_empty());
            }
            let want = [
                ('s', 70),
                ('e', 2),
                ('o', 0),
                ('o', 0),
                ('f', 0),
                ('k', 0),
                ('o', 0),
            ];
            assert_eq!(seen, want, "{cut}");
        }
    }
}
