//! What a head says of its body: how long it is (RFC 9112, section 6) and how it is coded
//! (RFC 9110, section 8.4).

use super::{coding::Coding, head::trim};
use crate::model::{
    exchange::HttpVersion,
    prose::{Prose, foreign, prose},
};

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none.
    Empty,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The server's close ends it.
    Close,
}

/// What the headers say of the body, before method and status are looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Declared {
    transfer: Transfer,
    length: Length,
    /// The codings in the order they were applied, at most [`MAX_CODINGS`].
    pub(super) codings: Codings,
    /// What contradicts itself.
    pub(super) odd: Option<&'static str>,
}

/// A body's codings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Codings {
    /// The bytes as they are.
    #[default]
    Identity,
    /// These, in the order they were applied.
    Known(Vec<Coding>),
    /// One that is not known, or more than [`MAX_CODINGS`].
    Unknown(Prose),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Transfer {
    #[default]
    None,
    Chunked,
    /// Another coding is the last: only the close ends it (RFC 9112, section 6.3, item 4).
    Unframed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Length {
    #[default]
    None,
    Bytes(u64),
    Invalid,
}

impl Declared {
    pub(super) fn read(headers: &[(&str, &[u8])], version: HttpVersion) -> Self {
        let mut declared = Self::default();
        let mut transfer: Vec<&[u8]> = Vec::new();
        for (name, value) in headers {
            if name.eq_ignore_ascii_case("content-length") {
                declared.content_length(value);
            } else if name.eq_ignore_ascii_case("transfer-encoding")
                // RFC 9113, section 8.2.2: there it means nothing.
                && version != HttpVersion::Http2
            {
                transfer.extend(list(value));
            } else if name.eq_ignore_ascii_case("content-encoding") {
                for coding in list(value) {
                    declared.codings.push(coding);
                }
            }
        }
        // "identity" was a transfer coding in RFC 2616.
        transfer.retain(|coding| !coding.eq_ignore_ascii_case(b"identity"));
        if let Some((last, before)) = transfer.split_last() {
            if last.eq_ignore_ascii_case(b"chunked") {
                declared.transfer = Transfer::Chunked;
            } else {
                declared.transfer = Transfer::Unframed;
                declared.odd = Some("a transfer coding that is not chunked is the last");
                declared.codings.push(last);
            }
            for coding in before {
                if coding.eq_ignore_ascii_case(b"chunked") {
                    declared.odd = Some("chunked is not the last transfer coding");
                } else {
                    declared.codings.push(coding);
                }
            }
            if declared.length != Length::None {
                declared.odd = Some("a content length beside a transfer coding");
            } else if version == HttpVersion::Http10 {
                declared.odd = Some("a transfer coding in HTTP/1.0");
            }
        }
        declared
    }

    /// How a request's body ends: without a valid length there is none (RFC 9112, section 6.3,
    /// item 7).
    pub(super) fn of_request(&self) -> Framing {
        match (self.transfer, self.length) {
            (Transfer::Chunked, _) => Framing::Chunked,
            (Transfer::None, Length::Bytes(length)) if length > 0 => Framing::Length(length),
            _ => Framing::Empty,
        }
    }

    /// How the body of a response with `status` ends. `head`: it answers a HEAD; `connect`: it
    /// answers a CONNECT.
    ///
    /// An invalid length leaves the body to the close: it may run over later messages, where
    /// trusting it would cut them in the wrong places.
    pub(super) fn of_response(&self, status: u16, head: bool, connect: bool) -> Framing {
        let bodiless = head
            || matches!(status, 100..=199 | 204 | 304)
            || (connect && (200..300).contains(&status));
        match (self.transfer, self.length) {
            _ if bodiless => Framing::Empty,
            (Transfer::Chunked, _) => Framing::Chunked,
            (Transfer::None, Length::Bytes(0)) => Framing::Empty,
            (Transfer::None, Length::Bytes(length)) => Framing::Length(length),
            // "205 Reset Content" has no content (RFC 9110, section 15.3.6), but may say so by a
            // length or an empty chunked body.
            _ if status == 205 => Framing::Empty,
            _ => Framing::Close,
        }
    }

    /// Equal lengths, repeated or joined, are one. Of different ones the first counts: it is what
    /// most clients in use read.
    fn content_length(&mut self, value: &[u8]) {
        for member in value.split(|byte| *byte == b',').map(trim) {
            let length = number(member).map_or(Length::Invalid, Length::Bytes);
            match self.length {
                Length::None => self.length = length,
                known if known == length => {}
                _ => self.odd = Some("different content lengths"),
            }
            if length == Length::Invalid {
                self.odd = Some("a content length that is no length");
            }
        }
    }
}

impl Codings {
    fn push(&mut self, name: &[u8]) {
        if name.eq_ignore_ascii_case(b"identity") || matches!(self, Self::Unknown(_)) {
            return;
        }
        let known = match self {
            Self::Known(known) => known.len(),
            _ => 0,
        };
        match (Coding::named(name), &mut *self) {
            (Some(_), _) if known == MAX_CODINGS => {
                *self = Self::Unknown(prose!("more than {} content codings", MAX_CODINGS));
            }
            (Some(coding), Self::Known(list)) => list.push(coding),
            (Some(coding), _) => *self = Self::Known(vec![coding]),
            (None, _) => {
                let name = name.get(..32).unwrap_or(name).escape_ascii().to_string();
                *self = Self::Unknown(prose!("unknown content coding \"{}\"", foreign(&name)));
            }
        }
    }
}

/// The members of a comma-separated list, without parameters and empty members.
fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| *byte == b',')
        .map(|member| {
            trim(
                member
                    .split(|byte| *byte == b';')
                    .next()
                    .unwrap_or_default(),
            )
        })
        .filter(|member| !member.is_empty())
}

/// 1*DIGIT that fits.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Codings stacked on one body. Servers apply one; proxies have been seen to add another.
pub(super) const MAX_CODINGS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&str, &str)]) -> Declared {
        let headers: Vec<(&str, &[u8])> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()))
            .collect();
        Declared::read(&headers, HttpVersion::Http11)
    }

    fn response(headers: &[(&str, &str)]) -> (Framing, bool) {
        let declared = read(headers);
        (
            declared.of_response(200, false, false),
            declared.odd.is_some(),
        )
    }

    #[test]
    fn chunked_wins_over_content_length() {
        assert_eq!(
            response(&[("Content-Length", "5"), ("transfer-encoding", "Chunked")]),
            (Framing::Chunked, true)
        );
        assert_eq!(
            response(&[("Transfer-Encoding", "identity, chunked")]),
            (Framing::Chunked, false)
        );
    }

    #[test]
    fn equal_content_lengths_are_one() {
        assert_eq!(
            response(&[("Content-Length", "5, 5"), ("content-length", "05")]),
            (Framing::Length(5), false)
        );
    }

    #[test]
    fn of_different_content_lengths_the_first_counts() {
        assert_eq!(
            response(&[("Content-Length", "5"), ("Content-Length", "6")]),
            (Framing::Length(5), true)
        );
    }

    #[test]
    fn a_negative_or_huge_content_length_leaves_the_end_to_the_close() {
        for length in ["-1", "18446744073709551616", "", "5x", "+5"] {
            assert_eq!(
                response(&[("Content-Length", length)]),
                (Framing::Close, true),
                "{length}"
            );
            assert_eq!(
                read(&[("Content-Length", length)]).of_request(),
                Framing::Empty
            );
        }
    }

    #[test]
    fn some_responses_have_no_body_whatever_the_headers_say() {
        let declared = read(&[("Content-Length", "5")]);
        for (status, head, connect) in [
            (204, false, false),
            (304, false, false),
            (200, true, false),
            (200, false, true),
        ] {
            assert_eq!(declared.of_response(status, head, connect), Framing::Empty);
        }
        assert_eq!(declared.of_response(407, false, true), Framing::Length(5));
        assert_eq!(read(&[]).of_response(205, false, false), Framing::Empty);
    }

    #[test]
    fn knows_the_codings_and_their_order() {
        let codings = |value| read(&[("Content-Encoding", value)]).codings;
        assert_eq!(codings("identity"), Codings::Identity);
        assert_eq!(
            codings("x-GZIP, br"),
            Codings::Known(vec![Coding::Gzip, Coding::Brotli])
        );
        assert!(matches!(codings("gzip, compress"), Codings::Unknown(_)));
        assert!(matches!(
            codings("gzip,gzip,gzip,gzip"),
            Codings::Unknown(_)
        ));
        assert_eq!(
            read(&[("Transfer-Encoding", "gzip, chunked")]).codings,
            Codings::Known(vec![Coding::Gzip])
        );
    }
}
