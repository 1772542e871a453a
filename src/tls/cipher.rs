//! Records to what they protect (RFC 8446, section 5.2; RFC 5246, section 6.2.3; RFC 5288; RFC 6655;
//! RFC 7366; RFC 7905).

use super::{
    keylog::Secret,
    schedule::{expand_label, mac, prf},
    suite::{self, Hash, Mac, Suite},
};
use aes::{Aes128, Aes256};
use aes_gcm::{
    Aes128Gcm, Aes256Gcm, KeyInit,
    aead::{AeadInOut, Nonce, Tag, consts::U8, consts::U12, consts::U16, inout::InOutBuf},
    aes::cipher::{BlockModeDecrypt, InnerIvInit},
};
use ccm::Ccm;
use chacha20poly1305::ChaCha20Poly1305;

/// One direction's keys: opens its records.
pub(super) struct Opener {
    suite: Suite,
    cipher: Cipher,
    /// Of TLS 1.2 with AES-GCM and AES-CCM the first four bytes.
    iv: [u8; 12],
    /// Encrypt-then-MAC.
    mac_last: bool,
}

/// The keys are large, and most are of one kind.
enum Cipher {
    Aes128Gcm(Box<Aes128Gcm>),
    Aes256Gcm(Box<Aes256Gcm>),
    ChaCha(Box<ChaCha20Poly1305>),
    Ccm128(Box<Ccm<Aes128, U16, U12>>),
    Ccm256(Box<Ccm<Aes256, U16, U12>>),
    Ccm128Short(Box<Ccm<Aes128, U8, U12>>),
    Ccm256Short(Box<Ccm<Aes256, U8, U12>>),
    Cbc128(Box<Aes128>, Mac, Box<[u8]>),
    Cbc256(Box<Aes256>, Mac, Box<[u8]>),
}

/// A record as it is on the wire.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) header: [u8; 5],
    pub(super) body: &'a [u8],
}

impl Record<'_> {
    /// Its content type, as far as it says.
    pub(super) const fn kind(&self) -> u8 {
        self.header[0]
    }
}

/// What a session of TLS 1.2 has beside its master secret.
#[derive(Clone, Copy)]
pub(super) struct Randoms<'a> {
    pub(super) client: &'a [u8],
    pub(super) server: &'a [u8],
}

impl Opener {
    /// The keys of TLS 1.3 that a traffic secret makes.
    pub(super) fn tls13(suite: Suite, secret: &Secret) -> Option<Self> {
        if secret.get().len() != suite.hash.len() {
            return None;
        }
        let mut key = [0; 32];
        let key = key.get_mut(..key_len(suite.cipher))?;
        let mut iv = [0; 12];
        expand_label(suite.hash, secret.get(), "key", key)?;
        expand_label(suite.hash, secret.get(), "iv", &mut iv)?;
        Some(Self {
            suite,
            cipher: cipher(suite.cipher, key, &[])?,
            iv,
            mac_last: false,
        })
    }

    /// The keys of one direction of TLS 1.2.
    pub(super) fn tls12(
        suite: Suite,
        master: &Secret,
        randoms: Randoms<'_>,
        client: bool,
        mac_last: bool,
    ) -> Option<Self> {
        let (mac_len, iv_len) = match suite.cipher {
            suite::Cipher::Aes128Cbc(mac) | suite::Cipher::Aes256Cbc(mac) => (mac.len(), 0),
            suite::Cipher::ChaCha20Poly1305 => (0, 12),
            _ => (0, EXPLICIT_SALT),
        };
        let key_len = key_len(suite.cipher);
        let mut block = [0; 2 * (48 + 32 + 12)];
        let seed = [randoms.server, randoms.client];
        prf(suite.hash, master.get(), "key expansion", seed, &mut block);
        let mut rest = &block[..];
        // Of each kind the client's comes first.
        let mut next = |len: usize| -> Option<&[u8]> {
            let (of_client, after) = rest.split_at_checked(len)?;
            let (of_server, after) = after.split_at_checked(len)?;
            rest = after;
            Some(if client { of_client } else { of_server })
        };
        let (mac_key, key, salt) = (next(mac_len)?, next(key_len)?, next(iv_len)?);
        let mut iv = [0; 12];
        iv.get_mut(..iv_len)?.copy_from_slice(salt);
        Some(Self {
            suite,
            cipher: cipher(suite.cipher, key, mac_key)?,
            iv,
            mac_last,
        })
    }

    pub(super) const fn suite(&self) -> Suite {
        self.suite
    }

    /// How much longer a record's body is than what it protects. Exact for all but CBC, whose padding may be
    /// longer, and TLS 1.3, which may be padded.
    pub(super) fn overhead(&self) -> usize {
        let cbc = |mac: Mac| BLOCK + mac.len() + 1;
        let tag = match &self.cipher {
            Cipher::Ccm128Short(_) | Cipher::Ccm256Short(_) => 8,
            Cipher::Cbc128(_, mac, _) | Cipher::Cbc256(_, mac, _) => return cbc(*mac),
            _ => 16,
        };
        tag + match (self.suite.is_tls13(), &self.cipher) {
            (true, _) => 1,
            (false, Cipher::ChaCha(_)) => 0,
            (false, _) => EXPLICIT_NONCE,
        }
    }

    /// Opens a record that has this number: its content type, and how much of `out` it holds.
    pub(super) fn open(
        &self,
        number: u64,
        record: Record<'_>,
        out: &mut Vec<u8>,
    ) -> Option<(u8, usize)> {
        let tls13 = self.suite.is_tls13();
        if let Cipher::Cbc128(_, mac, key) | Cipher::Cbc256(_, mac, key) = &self.cipher {
            let length = self.open_cbc(number, record, *mac, key, out)?;
            return Some((record.kind(), length));
        }
        let explicit = !tls13 && !matches!(self.cipher, Cipher::ChaCha(_));
        let mut nonce = self.iv;
        let mut body = record.body;
        if explicit {
            let (own, rest) = body.split_at_checked(EXPLICIT_NONCE)?;
            body = rest;
            for (place, byte) in nonce.iter_mut().skip(EXPLICIT_SALT).zip(own) {
                *place = *byte;
            }
        } else {
            for (place, byte) in nonce.iter_mut().skip(4).zip(number.to_be_bytes()) {
                *place ^= byte;
            }
        }
        let length = self.open_aead(number, record, &nonce, body, out)?;
        if !tls13 {
            return Some((record.kind(), length));
        }
        // The content type is the last byte that is not zero.
        let inner = out.get(..length)?;
        let last = inner.iter().rposition(|byte| *byte != 0)?;
        Some((*inner.get(last)?, last))
    }

    fn open_aead(
        &self,
        number: u64,
        record: Record<'_>,
        nonce: &[u8; 12],
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let short = matches!(self.cipher, Cipher::Ccm128Short(_) | Cipher::Ccm256Short(_));
        let length = body.len().checked_sub(if short { 8 } else { 16 })?;
        if out.len() < length {
            out.resize(length, 0);
        }
        let out = out.get_mut(..length)?;
        let aad12 = additional(number, record.header, length)?;
        let aad: &[u8] = if self.suite.is_tls13() {
            &record.header
        } else {
            &aad12
        };
        match &self.cipher {
            Cipher::Aes128Gcm(key) => aead(&**key, nonce, aad, body, out),
            Cipher::Aes256Gcm(key) => aead(&**key, nonce, aad, body, out),
            Cipher::ChaCha(key) => aead(&**key, nonce, aad, body, out),
            Cipher::Ccm128(key) => aead(&**key, nonce, aad, body, out),
            Cipher::Ccm256(key) => aead(&**key, nonce, aad, body, out),
            Cipher::Ccm128Short(key) => aead(&**key, nonce, aad, body, out),
            Cipher::Ccm256Short(key) => aead(&**key, nonce, aad, body, out),
            Cipher::Cbc128(..) | Cipher::Cbc256(..) => None,
        }?;
        Some(length)
    }

    fn open_cbc(
        &self,
        number: u64,
        record: Record<'_>,
        kind: Mac,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut body = record.body;
        if self.mac_last {
            // RFC 7366, section 3.
            let (encrypted, sum) = body.split_at_checked(body.len().checked_sub(kind.len())?)?;
            let aad = additional(number, record.header, encrypted.len())?;
            if mac(kind, key, &[&aad, encrypted]).get() != sum {
                return None;
            }
            body = encrypted;
        }
        let (iv, encrypted) = body.split_at_checked(BLOCK)?;
        if encrypted.is_empty() || !encrypted.len().is_multiple_of(BLOCK) {
            return None;
        }
        if out.len() < encrypted.len() {
            out.resize(encrypted.len(), 0);
        }
        let out = out.get_mut(..encrypted.len())?;
        let iv = iv.try_into().ok()?;
        let (blocks, _) = InOutBuf::new(encrypted, &mut *out).ok()?.into_chunks();
        match &self.cipher {
            Cipher::Cbc128(aes, ..) => {
                cbc::Decryptor::inner_iv_init(&**aes, iv).decrypt_blocks_inout(blocks);
            }
            Cipher::Cbc256(aes, ..) => {
                cbc::Decryptor::inner_iv_init(&**aes, iv).decrypt_blocks_inout(blocks);
            }
            _ => return None,
        }
        let padding = *out.last()?;
        let length = out.len().checked_sub(usize::from(padding) + 1)?;
        let (content, pads) = out.split_at_checked(length)?;
        if pads.iter().any(|pad| *pad != padding) {
            return None;
        }
        if self.mac_last {
            return Some(length);
        }
        let length = length.checked_sub(kind.len())?;
        let (content, sum) = content.split_at_checked(length)?;
        let aad = additional(number, record.header, length)?;
        (mac(kind, key, &[&aad, content]).get() == sum).then_some(length)
    }
}

/// What TLS 1.2 authenticates beside the content.
fn additional(number: u64, header: [u8; 5], length: usize) -> Option<[u8; 13]> {
    let [kind, major, minor, ..] = header;
    let [high, low] = u16::try_from(length).ok()?.to_be_bytes();
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    Some([a, b, c, d, e, f, g, h, kind, major, minor, high, low])
}

fn aead<A: AeadInOut>(
    key: &A,
    nonce: &[u8; 12],
    aad: &[u8],
    body: &[u8],
    out: &mut [u8],
) -> Option<()> {
    let (encrypted, tag) = body.split_at_checked(out.len())?;
    let nonce: &Nonce<A> = nonce.as_slice().try_into().ok()?;
    let tag: &Tag<A> = tag.try_into().ok()?;
    let buffers = InOutBuf::new(encrypted, out).ok()?;
    key.decrypt_inout_detached(nonce, aad, buffers, tag).ok()
}

const fn key_len(cipher: suite::Cipher) -> usize {
    match cipher {
        suite::Cipher::Aes128Gcm | suite::Cipher::Aes128Ccm(_) | suite::Cipher::Aes128Cbc(_) => 16,
        _ => 32,
    }
}

fn cipher(cipher: suite::Cipher, key: &[u8], mac_key: &[u8]) -> Option<Cipher> {
    Some(match cipher {
        suite::Cipher::Aes128Gcm => Cipher::Aes128Gcm(keyed(key)?),
        suite::Cipher::Aes256Gcm => Cipher::Aes256Gcm(keyed(key)?),
        suite::Cipher::ChaCha20Poly1305 => Cipher::ChaCha(keyed(key)?),
        suite::Cipher::Aes128Ccm(8) => Cipher::Ccm128Short(keyed(key)?),
        suite::Cipher::Aes256Ccm(8) => Cipher::Ccm256Short(keyed(key)?),
        suite::Cipher::Aes128Ccm(_) => Cipher::Ccm128(keyed(key)?),
        suite::Cipher::Aes256Ccm(_) => Cipher::Ccm256(keyed(key)?),
        suite::Cipher::Aes128Cbc(mac) => Cipher::Cbc128(keyed(key)?, mac, mac_key.into()),
        suite::Cipher::Aes256Cbc(mac) => Cipher::Cbc256(keyed(key)?, mac, mac_key.into()),
    })
}

fn keyed<K: KeyInit>(key: &[u8]) -> Option<Box<K>> {
    K::new_from_slice(key).ok().map(Box::new)
}

/// The secret that follows a traffic secret when keys are updated.
pub(super) fn updated(hash: Hash, secret: &Secret) -> Option<Secret> {
    let mut next = [0; 48];
    let next = next.get_mut(..hash.len())?;
    expand_label(hash, secret.get(), "traffic upd", next)?;
    Secret::derived(next)
}

/// Bytes of an AES block, and of the IV that a CBC record begins with.
const BLOCK: usize = 16;
/// Of the nonce of AES-GCM and AES-CCM in TLS 1.2 so much is in the record, and so much is a key.
const EXPLICIT_NONCE: usize = 8;
const EXPLICIT_SALT: usize = 4;
