//! What a file is, by its first bytes; its name is never asked.

use memchr::memmem;

/// The kinds of capture that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// libpcap's format, any byte order and resolution.
    Pcap,
    /// draft-ietf-opsawg-pcapng.
    PcapNg,
    /// HTTP Archive 1.2: JSON in UTF-8 or UTF-16.
    Har,
    /// Apache Parquet: facts, perhaps.
    Parquet,
}

impl Format {
    /// The format of (unpacked) bytes that begin with `head`.
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        match head.first_chunk::<4>() {
            Some([0xa1, 0xb2, 0xc3, 0xd4] | [0xd4, 0xc3, 0xb2, 0xa1]) => Some(Self::Pcap),
            Some([0xa1, 0xb2, 0x3c, 0x4d] | [0x4d, 0x3c, 0xb2, 0xa1]) => Some(Self::Pcap),
            Some([0xa1, 0xb2, 0xcd, 0x34] | [0x34, 0xcd, 0xb2, 0xa1]) => Some(Self::Pcap),
            Some([0x0a, 0x0d, 0x0d, 0x0a]) => Some(Self::PcapNg),
            Some(b"PAR1") => Some(Self::Parquet),
            _ => looks_like_har(head).then_some(Self::Har),
        }
    }

    /// As reports show it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Pcap => "pcap",
            Self::PcapNg => "pcapng",
            Self::Har => "har",
            Self::Parquet => "facts",
        }
    }
}

/// Bytes of an unpacked file that are enough to tell its format. A HAR may have a few members
/// (comments of merging tools) before its `log`.
pub(super) const HEAD: usize = 4096;

/// An object with an object named `log` near its start. Container logs are JSON with a *string*
/// of that name.
fn looks_like_har(head: &[u8]) -> bool {
    let text = ascii(head);
    let text = text.trim_ascii_start();
    if text.first() != Some(&b'{') {
        return false;
    }
    memmem::find_iter(text, b"\"log\"").any(|at| {
        let value = text
            .get(at + b"\"log\"".len()..)
            .unwrap_or_default()
            .trim_ascii_start();
        let Some((colon, value)) = value.split_first() else {
            return true; // the head ends here
        };
        *colon == b':' && matches!(value.trim_ascii_start().first(), None | Some(b'{'))
    })
}

/// The text with what is not ASCII replaced: enough to find JSON punctuation in UTF-8 and UTF-16.
fn ascii(head: &[u8]) -> Vec<u8> {
    match head {
        [0xef, 0xbb, 0xbf, text @ ..] => text.to_vec(),
        [0xff, 0xfe, text @ ..] => ascii_of_utf16(text, u16::from_le_bytes),
        [0xfe, 0xff, text @ ..] => ascii_of_utf16(text, u16::from_be_bytes),
        // Without a mark: JSON begins with ASCII, so the zero byte tells (RFC 4627, section 3).
        [first, 0, ..] if *first != 0 => ascii_of_utf16(head, u16::from_le_bytes),
        [0, second, ..] if *second != 0 => ascii_of_utf16(head, u16::from_be_bytes),
        text => text.to_vec(),
    }
}

fn ascii_of_utf16(text: &[u8], unit: fn([u8; 2]) -> u16) -> Vec<u8> {
    let (units, _) = text.as_chunks::<2>();
    units
        .iter()
        .map(|bytes| u8::try_from(unit(*bytes)).unwrap_or(b'?'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_captures_by_magic() {
        for magic in [0xa1b2_c3d4_u32, 0xa1b2_3c4d, 0xa1b2_cd34] {
            assert_eq!(Format::of(&magic.to_le_bytes()), Some(Format::Pcap));
            assert_eq!(Format::of(&magic.to_be_bytes()), Some(Format::Pcap));
        }
        assert_eq!(Format::of(b"\n\r\r\n\x1c\0\0\0"), Some(Format::PcapNg));
        assert_eq!(Format::of(b"PAR1\x15\x04"), Some(Format::Parquet));
        assert_eq!(Format::of(b"PAR2"), None);
        assert_eq!(Format::of(b"\xa1\xb2"), None);
        assert_eq!(Format::of(b""), None);
    }

    #[test]
    fn tells_har_in_every_encoding() {
        let text = " \r\n{\n  \"log\" : {\"version\": \"1.2\"}}";
        let utf16 = |unit: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(unit).collect();
        let le: Vec<u8> = utf16(u16::to_le_bytes);
        let be: Vec<u8> = utf16(u16::to_be_bytes);
        for bytes in [
            text.as_bytes().to_vec(),
            [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            le.clone(),
            be.clone(),
            [&b"\xff\xfe"[..], &le].concat(),
            [&b"\xfe\xff"[..], &be].concat(),
            br#"{"_comment":"merged","log":{"#.to_vec(),
            br#"{"log""#.to_vec(),
        ] {
            assert_eq!(Format::of(&bytes), Some(Format::Har), "{bytes:?}");
        }
    }

    #[test]
    fn other_json_is_no_har() {
        for text in [
            r#"{"log":"a line\n","stream":"stdout"}"#,
            r#"{"entries":[]}"#,
            r#"["log"]"#,
            r#"{"a":"log","b":{}}"#,
            "{",
        ] {
            assert_eq!(Format::of(text.as_bytes()), None, "{text}");
        }
    }
}
