//! Cipher suites: what they say of keys and records (RFC 8446, appendix B.4; the registry of IANA).

/// What a cipher suite says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suite {
    pub(super) id: u16,
    pub(super) cipher: Cipher,
    /// Of the key schedule.
    pub(super) hash: Hash,
}

/// How records are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cipher {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
    /// By the length of the tag.
    Aes128Ccm(usize),
    Aes256Ccm(usize),
    Aes128Cbc(Mac),
    Aes256Cbc(Mac),
}

/// How records of CBC suites are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mac {
    Sha1,
    Sha256,
    Sha384,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha384,
}

impl Hash {
    pub(super) const fn len(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
        }
    }
}

impl Mac {
    pub(super) const fn len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
        }
    }
}

impl Suite {
    pub(super) fn of(id: u16) -> Option<Self> {
        Self::all().find(|suite| suite.id == id)
    }

    /// Those of TLS 1.3.
    pub(super) fn of_tls13() -> impl Iterator<Item = Self> {
        Self::all().filter(|suite| suite.is_tls13())
    }

    /// TLS 1.3 has suites of its own.
    pub(super) const fn is_tls13(self) -> bool {
        self.id >> 8 == 0x13
    }

    fn all() -> impl Iterator<Item = Self> {
        SUITES.iter().flat_map(|(cipher, hash, ids)| {
            ids.iter().map(|id| Self {
                id: *id,
                cipher: *cipher,
                hash: *hash,
            })
        })
    }
}

use Cipher::{Aes128Cbc, Aes128Ccm, Aes128Gcm, Aes256Cbc, Aes256Ccm, Aes256Gcm, ChaCha20Poly1305};
use Hash::{Sha256, Sha384};

/// All suites that are read; how keys were exchanged and who was authenticated does not matter.
const SUITES: &[(Cipher, Hash, &[u16])] = &[
    (
        Aes128Gcm,
        Sha256,
        &[
            0x1301, 0x009c, 0x009e, 0x00a0, 0x00a2, 0x00a4, 0x00a6, 0x00a8, 0x00aa, 0x00ac, 0xc02b,
            0xc02d, 0xc02f, 0xc031, 0xd001,
        ],
    ),
    (
        Aes256Gcm,
        Sha384,
        &[
            0x1302, 0x009d, 0x009f, 0x00a1, 0x00a3, 0x00a5, 0x00a7, 0x00a9, 0x00ab, 0x00ad, 0xc02c,
            0xc02e, 0xc030, 0xc032, 0xd002,
        ],
    ),
    (
        ChaCha20Poly1305,
        Sha256,
        &[
            0x1303, 0xcca8, 0xcca9, 0xccaa, 0xccab, 0xccac, 0xccad, 0xccae,
        ],
    ),
    (
        Aes128Ccm(16),
        Sha256,
        &[0x1304, 0xc09c, 0xc09e, 0xc0a4, 0xc0a6, 0xc0ac, 0xd005],
    ),
    (
        Aes128Ccm(8),
        Sha256,
        &[0x1305, 0xc0a0, 0xc0a2, 0xc0a8, 0xc0aa, 0xc0ae, 0xd003],
    ),
    (
        Aes256Ccm(16),
        Sha256,
        &[0xc09d, 0xc09f, 0xc0a5, 0xc0a7, 0xc0ad],
    ),
    (
        Aes256Ccm(8),
        Sha256,
        &[0xc0a1, 0xc0a3, 0xc0a9, 0xc0ab, 0xc0af],
    ),
    (
        Aes128Cbc(Mac::Sha1),
        Sha256,
        &[
            0x002f, 0x0030, 0x0031, 0x0032, 0x0033, 0x0034, 0x008c, 0x0090, 0x0094, 0xc004, 0xc009,
            0xc00e, 0xc013, 0xc018, 0xc035,
        ],
    ),
    (
        Aes256Cbc(Mac::Sha1),
        Sha256,
        &[
            0x0035, 0x0036, 0x0037, 0x0038, 0x0039, 0x003a, 0x008d, 0x0091, 0x0095, 0xc005, 0xc00a,
            0xc00f, 0xc014, 0xc019, 0xc036,
        ],
    ),
    (
        Aes128Cbc(Mac::Sha256),
        Sha256,
        &[
            0x003c, 0x003e, 0x003f, 0x0040, 0x0067, 0x006c, 0x00ae, 0x00b2, 0x00b6, 0xc023, 0xc025,
            0xc027, 0xc029, 0xc037,
        ],
    ),
    (
        Aes256Cbc(Mac::Sha256),
        Sha256,
        &[0x003d, 0x0068, 0x0069, 0x006a, 0x006b, 0x006d],
    ),
    (
        Aes256Cbc(Mac::Sha384),
        Sha384,
        &[
            0x00af, 0x00b3, 0x00b7, 0xc024, 0xc026, 0xc028, 0xc02a, 0xc038,
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_suite_is_there_once() {
        let ids: BTreeSet<u16> = Suite::all().map(|suite| suite.id).collect();
        assert_eq!(ids.len(), Suite::all().count());
        assert_eq!(Suite::of_tls13().count(), 5);
        assert_eq!(Suite::of(0xc030).map(|suite| suite.hash), Some(Sha384));
        assert_eq!(Suite::of(0x000a), None);
    }
}
