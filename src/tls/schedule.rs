//! Keys from secrets: HKDF of TLS 1.3 (RFC 8446, section 7.1) and the PRF of TLS 1.2 (RFC 5246, section 5).

use super::suite::{Hash, Mac};
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit};
use sha1::Sha1;
use sha2::{Sha256, Sha384};

/// `HKDF-Expand-Label` with an empty context, as keys, IVs and the next secret are made.
pub(super) fn expand_label(hash: Hash, secret: &[u8], label: &str, out: &mut [u8]) -> Option<()> {
    let length = u16::try_from(out.len()).ok()?.to_be_bytes();
    let label_length = u8::try_from(PREFIX.len() + label.len()).ok()?;
    let info: [&[u8]; 5] = [
        &length,
        &[label_length],
        PREFIX.as_bytes(),
        label.as_bytes(),
        &[0],
    ];
    match hash {
        Hash::Sha256 => Hkdf::<Sha256>::from_prk(secret)
            .ok()?
            .expand_multi_info(&info, out)
            .ok(),
        Hash::Sha384 => Hkdf::<Sha384>::from_prk(secret)
            .ok()?
            .expand_multi_info(&info, out)
            .ok(),
    }
}

/// What labels of TLS 1.3 begin with.
const PREFIX: &str = "tls13 ";

/// The PRF of TLS 1.2.
pub(super) fn prf(hash: Hash, secret: &[u8], label: &str, seed: [&[u8]; 2], out: &mut [u8]) {
    let [one, two] = seed;
    let seed = [label.as_bytes(), one, two].concat();
    let hmac = |parts: &[&[u8]]| match hash {
        Hash::Sha256 => mac(Mac::Sha256, secret, parts),
        Hash::Sha384 => mac(Mac::Sha384, secret, parts),
    };
    let mut a = hmac(&[&seed]);
    for chunk in out.chunks_mut(hash.len()) {
        let block = hmac(&[a.get(), &seed]);
        for (place, byte) in chunk.iter_mut().zip(block.get()) {
            *place = *byte;
        }
        a = hmac(&[a.get()]);
    }
}

/// The HMAC of parts.
pub(super) fn mac(mac: Mac, key: &[u8], parts: &[&[u8]]) -> Sum {
    match mac {
        Mac::Sha1 => sum(Hmac::<Sha1>::new_from_slice(key).ok(), parts),
        Mac::Sha256 => sum(Hmac::<Sha256>::new_from_slice(key).ok(), parts),
        Mac::Sha384 => sum(Hmac::<Sha384>::new_from_slice(key).ok(), parts),
    }
}

/// An HMAC takes a key of any length: there always is one.
fn sum(hmac: Option<impl hmac::Mac>, parts: &[&[u8]]) -> Sum {
    let mut sum = Sum {
        bytes: [0; 48],
        len: 0,
    };
    if let Some(mut hmac) = hmac {
        for part in parts {
            hmac.update(part);
        }
        let out = hmac.finalize().into_bytes();
        for (place, byte) in sum.bytes.iter_mut().zip(out) {
            *place = byte;
            sum.len += 1;
        }
    }
    sum
}

/// The output of an HMAC.
pub(super) struct Sum {
    bytes: [u8; 48],
    len: usize,
}

impl Sum {
    pub(super) fn get(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::indexing_slicing,
        clippy::string_slice,
        reason = "a test that panics has failed"
    )]

    use super::*;

    fn unhex(text: &str) -> Vec<u8> {
        (0..text.len() / 2)
            .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
            .collect()
    }

    /// RFC 8448, section 3: the server's handshake traffic secret and its keys.
    #[test]
    fn expands_as_the_traces_of_rfc_8448() {
        let secret = unhex("b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38");
        let (mut key, mut iv) = ([0; 16], [0; 12]);
        expand_label(Hash::Sha256, &secret, "key", &mut key).unwrap();
        expand_label(Hash::Sha256, &secret, "iv", &mut iv).unwrap();
        assert_eq!(&key[..], unhex("3fce516009c21727d0f2e4e86ee403bc"));
        assert_eq!(&iv[..], unhex("5d313eb2671276ee13000b30"));
    }

    /// The vector for SHA-256 that the TLS working group's list has.
    #[test]
    fn the_prf_of_tls_1_2() {
        let secret = unhex("9bbe436ba940f017b17652849a71db35");
        let seed = unhex("a0ba9f936cda311827a6f796ffd5198c");
        let mut out = [0; 100];
        prf(Hash::Sha256, &secret, "test label", [&seed, &[]], &mut out);
        let want = "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a\
                    6b301791e90d35c9c9a46b4e14baf9af0fa022f7077def17abfd3797c0564bab\
                    4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff701\
                    87347b66";
        assert_eq!(&out[..], unhex(want));
    }
}
