//! What hellos say (RFC 8446, sections 4.1.2 and 4.1.3), and the server name in them (RFC 6066, section 3).

use super::{cursor::Cursor, keylog::Random};

/// What a ClientHello says of how to read the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientHello {
    pub(super) random: Random,
    /// The server that it asks for; the outer one where the true one is encrypted (ECH).
    pub(super) name: Option<String>,
    /// It says that early data follow.
    pub(super) early: bool,
    /// The suites of TLS 1.3 that it offers, as numbers.
    pub(super) suites: Vec<u16>,
}

/// What a ServerHello says of how to read the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerHello {
    pub(super) random: Random,
    /// As it counts: 0x0303 for TLS 1.2, 0x0304 for TLS 1.3.
    pub(super) version: u16,
    pub(super) suite: u16,
    pub(super) session_id: Vec<u8>,
    /// Encrypt-then-MAC (RFC 7366).
    pub(super) mac_last: bool,
    /// It asks for another ClientHello.
    pub(super) retry: bool,
}

impl ClientHello {
    /// Reads the body of the message. What follows the last extension that can be read is left.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let mut body = Cursor(body);
        let _version = body.u16()?;
        let random = body.array()?;
        let _session_id = body.u8_list()?;
        let mut suites = body.u16_list()?;
        let _compression = body.u8_list()?;
        let mut hello = Self {
            random,
            name: None,
            early: false,
            suites: Vec::new(),
        };
        while let Some(suite) = suites.u16() {
            if suite >> 8 == 0x13 {
                hello.suites.push(suite);
            }
        }
        for (kind, extension) in extensions(body) {
            match kind {
                SERVER_NAME if hello.name.is_none() => hello.name = name_in(extension),
                EARLY_DATA => hello.early = true,
                _ => {}
            }
        }
        Some(hello)
    }
}

impl ServerHello {
    /// Reads the body of the message.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let mut body = Cursor(body);
        let version = body.u16()?;
        let random = body.array()?;
        let session_id = body.u8_list()?.0.to_vec();
        let suite = body.u16()?;
        let _compression = body.u8()?;
        let mut hello = Self {
            random,
            version,
            suite,
            session_id,
            mac_last: false,
            retry: random == RETRY,
        };
        for (kind, mut extension) in extensions(body) {
            match kind {
                SUPPORTED_VERSIONS => hello.version = extension.u16().unwrap_or(version),
                ENCRYPT_THEN_MAC => hello.mac_last = true,
                _ => {}
            }
        }
        Some(hello)
    }
}

/// Whether the body of EncryptedExtensions says that early data are taken.
pub(super) fn takes_early_data(body: &[u8]) -> bool {
    extensions(Cursor(body)).any(|(kind, _)| kind == EARLY_DATA)
}

/// The extensions of a message, from their length on.
fn extensions(mut rest: Cursor<'_>) -> impl Iterator<Item = (u16, Cursor<'_>)> {
    let mut list = rest.u16_list().unwrap_or(Cursor(&[]));
    std::iter::from_fn(move || {
        let kind = list.u16()?;
        Some((kind, list.u16_list()?))
    })
}

fn name_in(mut extension: Cursor<'_>) -> Option<String> {
    let mut names = extension.u16_list()?;
    loop {
        let kind = names.u8()?;
        let name = names.u16_list()?;
        if kind == HOST_NAME {
            return host(name.0);
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

/// Extensions, and the type of a name in one.
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
const ENCRYPT_THEN_MAC: u16 = 22;
const EARLY_DATA: u16 = 42;
const SUPPORTED_VERSIONS: u16 = 43;

/// The random of a HelloRetryRequest (RFC 8446, section 4.1.3): the hash of its name.
const RETRY: Random = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

#[cfg(test)]
pub(super) mod tests {
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

    /// The body of a ClientHello.
    pub(in super::super) fn client_hello(name: Option<&[u8]>) -> Vec<u8> {
        // A GREASE extension comes first (RFC 8701).
        let mut extensions = vec![0x0a, 0x0a, 0, 0];
        if let Some(name) = name {
            let names = [vec![HOST_NAME], list(2, name)].concat();
            extensions.extend([0, 0]);
            extensions.extend(list(2, &list(2, &names)));
        }
        extensions.extend([0, 42, 0, 0]);
        [
            vec![3, 3],
            vec![9; 32],
            list(1, &[1; 32]),
            list(2, &[0x13, 1, 0xc0, 0x2f, 0x13, 3]),
            list(1, &[0]),
            list(2, &extensions),
        ]
        .concat()
    }

    #[test]
    fn reads_what_the_client_says() {
        let hello = ClientHello::read(&client_hello(Some(b"MCP.example"))).unwrap();
        assert_eq!(hello.name.as_deref(), Some("mcp.example"));
        assert_eq!(hello.random, [9; 32]);
        assert_eq!(hello.suites, [0x1301, 0x1303]);
        assert!(hello.early);
        let none = ClientHello::read(&client_hello(None)).unwrap();
        assert_eq!(none.name, None);
        for name in [&b"a b"[..], b"", b"\x1b[31m", b"\xff"] {
            let hello = ClientHello::read(&client_hello(Some(name))).unwrap();
            assert_eq!(hello.name, None);
        }
    }

    #[test]
    fn reads_what_the_server_says() {
        let hello = |random: [u8; 32], extensions: &[u8]| {
            [
                &[3, 3][..],
                &random,
                &[2, 7, 7],
                &[0xc0, 0x13, 0],
                &list(2, extensions),
            ]
            .concat()
        };
        let read = ServerHello::read(&hello([5; 32], &[0, 22, 0, 0])).unwrap();
        assert_eq!((read.version, read.suite), (0x0303, 0xc013));
        assert!(read.mac_last && !read.retry);
        assert_eq!(read.session_id, [7, 7]);
        let read = ServerHello::read(&hello(RETRY, &[0, 43, 0, 2, 3, 4])).unwrap();
        assert_eq!((read.version, read.retry), (0x0304, true));
        // SSL had no extensions.
        let old = hello([5; 32], &[]);
        assert!(ServerHello::read(&old[..old.len() - 2]).is_some());
    }

    proptest! {
        #[test]
        fn anything_may_come(mut bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..120, flip: u8) {
            let _ = (ClientHello::read(&bytes), ServerHello::read(&bytes), takes_early_data(&bytes));
            bytes = client_hello(Some(b"mcp.example"));
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= flip;
            }
            let _ = (ClientHello::read(&bytes), ServerHello::read(&bytes));
        }
    }
}
