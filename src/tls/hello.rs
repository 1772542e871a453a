//! The ClientHello (RFC 8446, section 4.1.2) and the server name in it (RFC 6066, section 3).

/// What the first bytes of a TLS client are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// A ClientHello that names a server.
    Names(String),
    /// A ClientHello that names none, or what is no ClientHello.
    NamesNone,
    /// More bytes are needed.
    More,
}

/// A ClientHello that is longer is not looked at: with post-quantum keys they have about 2 KiB.
pub const LONGEST: usize = 16 << 10;

/// The name of the server that the ClientHello at the beginning of `stream` asks for.
///
/// It may be spread over several TLS records, and end anywhere in the last of `stream`. The outer
/// name counts where the true one is encrypted (ECH).
#[must_use]
pub fn server_name(stream: &[u8]) -> Hello {
    let mut message = Vec::new();
    let mut rest = stream;
    // The header of the message tells its length.
    loop {
        if let Some(body) = message_body(&message) {
            return name_in(body).map_or(Hello::NamesNone, Hello::Names);
        }
        if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) || message.len() > LONGEST {
            return Hello::NamesNone;
        }
        let mut record = Cursor(rest);
        let Some((kind, major)) = record.u8().zip(record.u8()) else {
            return more_unless_long(stream);
        };
        if kind != HANDSHAKE || major != 3 {
            return Hello::NamesNone;
        }
        let Some(fragment) = record.u8().and_then(|_minor| record.u16_list()) else {
            return more_unless_long(stream);
        };
        // A handshake message has no empty fragments (RFC 8446, section 5.1).
        if fragment.0.is_empty() {
            return Hello::NamesNone;
        }
        message.extend_from_slice(fragment.0);
        rest = record.0;
    }
}

fn more_unless_long(stream: &[u8]) -> Hello {
    if stream.len() > LONGEST {
        Hello::NamesNone
    } else {
        Hello::More
    }
}

/// The body of a ClientHello, when all of it is there.
fn message_body(message: &[u8]) -> Option<Cursor<'_>> {
    let mut message = Cursor(message);
    (message.u8()? == CLIENT_HELLO).then_some(())?;
    let [high, middle, low] = *message.take(3)?.first_chunk()?;
    let length = u32::from_be_bytes([0, high, middle, low]);
    message.take(usize::try_from(length).ok()?).map(Cursor)
}

fn name_in(mut body: Cursor<'_>) -> Option<String> {
    let _version_and_random = body.take(2 + 32)?;
    let _session_id = body.u8_list()?;
    let _cipher_suites = body.u16_list()?;
    let _compression = body.u8_list()?;
    let mut extensions = body.u16_list()?;
    loop {
        let kind = extensions.u16()?;
        let mut extension = extensions.u16_list()?;
        if kind == SERVER_NAME {
            let mut names = extension.u16_list()?;
            loop {
                let kind = names.u8()?;
                let name = names.u16_list()?;
                if kind == HOST_NAME {
                    return host(name.0);
                }
            }
        }
    }
}

/// A host name as it may be shown: ASCII letters and what else is in names (A-labels, section 3).
fn host(name: &[u8]) -> Option<String> {
    let fits = |b: &u8| b.is_ascii_alphanumeric() || b"-._".contains(b);
    let name = std::str::from_utf8(name).ok()?;
    let fits = !name.is_empty() && name.len() < 256 && name.as_bytes().iter().all(fits);
    fits.then(|| name.to_ascii_lowercase())
}

/// Bytes that are cut from their front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(*self.take(2)?.first_chunk()?))
    }

    /// What follows a length of one byte.
    fn u8_list(&mut self) -> Option<Self> {
        let length = self.u8()?;
        self.take(usize::from(length)).map(Cursor)
    }

    /// What follows a length of two bytes.
    fn u16_list(&mut self) -> Option<Self> {
        let length = self.u16()?;
        self.take(usize::from(length)).map(Cursor)
    }
}

/// Content type of a record: the first byte of what a TLS client says.
pub const HANDSHAKE: u8 = 22;
/// Type of a handshake message.
const CLIENT_HELLO: u8 = 1;
/// An extension, and the type of a name in it.
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

#[cfg(test)]
mod tests {
    #![allow(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "a test that panics has failed"
    )]

    use super::*;
    use proptest::prelude::*;

    fn list(len: usize, bytes: &[u8]) -> Vec<u8> {
        let mut out = (bytes.len() as u32).to_be_bytes()[4 - len..].to_vec();
        out.extend(bytes);
        out
    }

    /// A ClientHello in records of at most `record` bytes.
    fn hello(name: Option<&[u8]>, record: usize) -> Vec<u8> {
        // A GREASE extension comes first (RFC 8701).
        let mut extensions = vec![0x0a, 0x0a, 0, 0];
        if let Some(name) = name {
            let names = [vec![HOST_NAME], list(2, name)].concat();
            extensions.extend([0, 0]);
            extensions.extend(list(2, &list(2, &names)));
        }
        let body = [
            vec![3, 3],
            vec![9; 32],
            list(1, &[1; 32]),
            list(2, &[0x13, 1]),
            list(1, &[0]),
            list(2, &extensions),
        ]
        .concat();
        let message = [vec![CLIENT_HELLO], list(3, &body)].concat();
        let records = message
            .chunks(record)
            .flat_map(|fragment| [vec![HANDSHAKE, 3, 1], list(2, fragment)].concat());
        records.collect()
    }

    #[test]
    fn finds_the_name_that_is_asked_for() {
        for record in [1, 7, 40, 16_384] {
            let named = hello(Some(b"MCP.example"), record);
            assert_eq!(server_name(&named), Hello::Names("mcp.example".to_owned()));
            assert_eq!(server_name(&hello(None, record)), Hello::NamesNone);
            for len in 0..named.len() {
                assert_eq!(server_name(&named[..len]), Hello::More, "{record} {len}");
            }
        }
    }

    #[test]
    fn what_is_no_hello_and_no_host_names_none() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"\x16\x03\x03\x00\x04\x02\x00\x00\x46",
            b"\x17\x03\x03\x00\x02ab",
            b"\x16\x03\x03\x00\x00",
        ] {
            assert_eq!(server_name(bytes), Hello::NamesNone, "{bytes:?}");
        }
        for name in [&b"a b"[..], b"", b"\x1b[31m", b"\xff"] {
            assert_eq!(server_name(&hello(Some(name), 100)), Hello::NamesNone);
        }
        let endless = [
            b"\x16\x03\x01\xff\xff\x01\xff\xff\xff".as_slice(),
            &[0; LONGEST],
        ]
        .concat();
        assert_eq!(server_name(&endless), Hello::NamesNone);
    }

    proptest! {
        #[test]
        fn anything_may_come(mut bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..120, flip: u8) {
            let _ = server_name(&bytes);
            bytes = hello(Some(b"mcp.example"), 50);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= flip;
            }
            let _ = server_name(&bytes);
        }
    }
}
