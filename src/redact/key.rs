//! Keys, and the hashes made with them.

use crate::{error::Error, model::message::PayloadHash};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::{
    fmt::{self, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// What hashes are keyed with: HMAC-SHA-256, its key taken from whatever a file holds or from the
/// system's generator.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl Key {
    /// The key that the bytes of a key file give.
    ///
    /// # Errors
    ///
    /// When they are too few to keep anybody from trying them all.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        match bytes.len() {
            0 => Err(Error::new("it is empty")),
            few if few < SHORTEST => Err(Error::new(format!(
                "{few} bytes are too few for a key: at least {SHORTEST}, such as those of \
                 `head -c 32 /dev/urandom`"
            ))),
            _ => Self::derived(bytes),
        }
    }

    /// A key that nobody knows, and that is gone when the run is over.
    ///
    /// # Errors
    ///
    /// When the system gives no random bytes.
    pub fn random() -> Result<Self, Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|error| Error::new(format!("no random bytes for a key: {error}")))?;
        Self::derived(&bytes)
    }

    /// For this purpose alone: whoever keys other things with the same file gets other hashes.
    fn derived(bytes: &[u8]) -> Result<Self, Error> {
        // HMAC takes keys of any length; its interface is one of MACs that do not.
        let keyed = |key: &[u8]| {
            Hmac::<Sha256>::new_from_slice(key).map_err(|error| Error::new(error.to_string()))
        };
        let mut purpose = keyed(bytes)?;
        purpose.update(PURPOSE);
        let key: [u8; 32] = purpose.finalize().into_bytes().into();
        keyed(&key).map(Self)
    }

    /// Appends what stands for `text`: a mark and 64 bits in hexadecimal.
    pub(super) fn hash_to(&self, text: &str, out: &mut String) {
        out.push(MARK);
        for byte in self.mac(text.as_bytes()).iter().take(SHOWN) {
            // Writing to a string cannot fail.
            let _ = write!(out, "{byte:02x}");
        }
    }

    /// An address of a private network that stands for `ip`, of the same family. Its bytes are the first of the
    /// address's hash: `10.33.194.1` for `~21c201cc83a916d6`. Of a hundred IPv4 hosts, two have one address with a
    /// chance of 1 in 3,400 (n² / 2²⁵).
    #[must_use]
    pub fn address(&self, ip: IpAddr) -> IpAddr {
        let [a, b, c, rest @ ..] = self.mac(ip.to_string().as_bytes());
        match ip {
            IpAddr::V4(_) => Ipv4Addr::new(10, a, b, c).into(),
            IpAddr::V6(_) => {
                let mut octets = [0xfd; 16];
                let hash = [a, b, c].into_iter().chain(rest);
                for (octet, byte) in octets.iter_mut().skip(1).zip(hash) {
                    *octet = byte;
                }
                Ipv6Addr::from(octets).into()
            }
        }
    }

    /// The hash of a payload that the hash of nobody's guess is equal to.
    pub(super) fn rehash(&self, hash: PayloadHash) -> PayloadHash {
        if hash == PayloadHash::default() {
            return hash;
        }
        let mac = self.mac(&hash.0.to_be_bytes());
        let mut all = [0; 16];
        for (to, from) in all.iter_mut().zip(mac) {
            *to = from;
        }
        PayloadHash(u128::from_be_bytes(all))
    }

    /// A key of its own for another purpose.
    pub(super) fn for_forms(&self) -> Self {
        let mut mac = self.0.clone();
        mac.update(FORMS);
        let key: [u8; 32] = mac.finalize().into_bytes().into();
        Hmac::<Sha256>::new_from_slice(&key).map_or_else(|_| self.clone(), Self)
    }

    /// Bytes without end that nobody without the key can tell from random ones; others for other `parts`.
    pub(super) fn stream(&self, parts: &[&[u8]]) -> impl Iterator<Item = u8> + use<> {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        (0_u32..).flat_map(move |block| {
            let mut mac = mac.clone();
            mac.update(&block.to_be_bytes());
            <[u8; 32]>::from(mac.finalize().into_bytes())
        })
    }

    fn mac(&self, bytes: &[u8]) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(bytes);
        mac.finalize().into_bytes().into()
    }
}

/// Not what it is.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// What a hash begins with. It is no letter of a number, and stays as it is in URLs (RFC 3986, section
/// 2.3), CSV, JSON and XML.
pub(super) const MARK: char = '~';

/// Bytes of a hash that are shown. Of a million names, two have one hash with a chance of 1 in 37
/// million (n² / 2⁶⁵).
const SHOWN: usize = 8;

/// 128 bits, when they are random.
const SHORTEST: usize = 16;

const FORMS: &[u8] = b"forkscope extract --redact 1";

const PURPOSE: &[u8] = b"forkscope --redact 1";

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(key: &Key, text: &str) -> String {
        let mut out = String::new();
        key.hash_to(text, &mut out);
        out
    }

    #[test]
    fn equal_texts_have_equal_hashes_under_one_key_alone() {
        let key = Key::from_bytes(b"0123456789abcdef").unwrap();
        let same = Key::from_bytes(b"0123456789abcdef").unwrap();
        let other = Key::from_bytes(b"0123456789abcdeg").unwrap();
        assert_eq!(hash(&key, "session"), hash(&same, "session"));
        assert_ne!(hash(&key, "session"), hash(&key, "Session"));
        assert_ne!(hash(&key, "session"), hash(&other, "session"));
        assert_ne!(
            hash(&Key::random().unwrap(), "session"),
            hash(&Key::random().unwrap(), "session")
        );
        // Reports of earlier versions stay comparable.
        assert_eq!(hash(&key, "session"), "~21c201cc83a916d6");
        assert_eq!(format!("{key:?}"), "Key");
    }

    #[test]
    fn payloads_get_hashes_that_nobody_can_compare_with_a_guess() {
        let key = Key::from_bytes(b"0123456789abcdef").unwrap();
        let hash = PayloadHash(7);
        assert_ne!(key.rehash(hash), hash);
        assert_eq!(key.rehash(hash), key.rehash(hash));
        assert_eq!(key.rehash(PayloadHash::default()), PayloadHash::default());
    }

    #[test]
    fn addresses_are_those_of_private_networks_and_begin_as_the_hash_does() {
        let key = Key::from_bytes(b"0123456789abcdef").unwrap();
        for (ip, prefix) in [("192.0.2.7", "10."), ("2001:db8::7", "fd")] {
            let shown = key.address(ip.parse().unwrap()).to_string();
            assert!(shown.starts_with(prefix), "{shown}");
            let IpAddr::V4(shown) = key.address(ip.parse().unwrap()) else {
                continue;
            };
            let [_, a, b, c] = shown.octets();
            assert!(hash(&key, ip).starts_with(&format!("~{a:02x}{b:02x}{c:02x}")));
        }
    }

    #[test]
    fn short_keys_are_refused() {
        let said = |bytes: &[u8]| Key::from_bytes(bytes).unwrap_err().to_string();
        assert_eq!(said(b""), "it is empty");
        assert!(said(b"secret").starts_with("6 bytes are too few"));
    }
}
