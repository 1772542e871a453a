//! Chunked bodies (RFC 9112, section 7.1), read byte by byte or by the slice.
//!
//! What real servers send and is harmless is taken: chunk extensions, trailers, hex digits in
//! both cases, leading zeros, spaces after the size, line ends of a bare LF. An empty size line is
//! no chunk of size 0: it would fake a clean end of the body.

/// Reads the framing of one chunked body.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunked {
    state: State,
    /// Bytes of extensions and trailers so far, against the limit of a head.
    extra: usize,
    /// Whether lines must end with CRLF.
    strict: bool,
}

/// What comes next in the bytes at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// So many bytes of framing, then nothing: all are used up.
    More,
    /// After `skip` bytes of framing come `length` bytes of the body.
    Data {
        /// Bytes of framing.
        skip: usize,
        /// Bytes of the body.
        length: usize,
    },
    /// The body ends after so many bytes.
    End(usize),
    /// No chunked body: what is wrong.
    Bad(&'static str),
}

/// What a hole did to a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hole {
    /// It lies inside one chunk's data; the framing is known after it.
    Inside,
    /// The last chunk was seen: the hole begins in or after the trailers.
    AfterLastChunk,
    /// The framing is lost.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size {
        value: u64,
        digits: Digits,
    },
    /// White space or an extension, to the end of the line.
    Extension {
        size: u64,
    },
    SizeCr {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataEnd,
    DataCr,
    /// In the trailers; `empty`: the line has no byte yet.
    Trailer {
        empty: bool,
    },
    TrailerCr {
        empty: bool,
    },
}

/// Hex digits seen of a chunk size: none, only zeros, or so many from the first that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digits {
    None,
    Zeros,
    Some(u8),
}

impl Default for State {
    fn default() -> Self {
        Self::Size {
            value: 0,
            digits: Digits::None,
        }
    }
}

impl Chunked {
    /// For bytes that may be chunks or anything else: lines must end with CRLF.
    pub(super) fn strict() -> Self {
        Self {
            strict: true,
            ..Self::default()
        }
    }

    /// Reads on in `bytes`. Call again with what is left after the framing and data returned.
    pub(super) fn next(&mut self, bytes: &[u8], limit: usize) -> Next {
        let mut at = 0;
        while let Some(byte) = bytes.get(at).copied() {
            if let State::Data { left } = &mut self.state {
                let rest = bytes.len() - at;
                let length = usize::try_from(*left).map_or(rest, |left| left.min(rest));
                *left -= length as u64;
                if *left == 0 {
                    self.state = State::DataEnd;
                }
                return Next::Data { skip: at, length };
            }
            at += 1;
            if self.strict && byte == b'\n' && !self.after_cr() {
                return Next::Bad("a line that ends with a bare LF");
            }
            self.state = match (self.state, byte) {
                (State::Size { value, digits }, byte) if byte.is_ascii_hexdigit() => {
                    let digits = match (digits, byte) {
                        (Digits::None | Digits::Zeros, b'0') => {
                            self.extra += 1;
                            Digits::Zeros
                        }
                        (Digits::None | Digits::Zeros, _) => Digits::Some(1),
                        (Digits::Some(16), _) => return Next::Bad("a size beyond 64 bits"),
                        (Digits::Some(digits), _) => Digits::Some(digits + 1),
                    };
                    State::Size {
                        value: value << 4 | u64::from(hex(byte)),
                        digits,
                    }
                }
                (
                    State::Size {
                        digits: Digits::None,
                        ..
                    },
                    b'\r' | b'\n',
                ) => return Next::Bad("an empty size line"),
                (
                    State::Size {
                        digits: Digits::None,
                        ..
                    },
                    _,
                ) => return Next::Bad("no size"),
                (State::Size { value: size, .. }, b'\r') => State::SizeCr { size },
                (State::Size { value, .. } | State::SizeCr { size: value }, b'\n') => {
                    self.after_size(value)
                }
                (State::Size { value: size, .. }, b';' | b' ' | b'\t') => State::Extension { size },
                (State::Size { .. }, _) => return Next::Bad("a size that is no hex number"),
                (State::SizeCr { .. }, _) => return Next::Bad("a CR without LF after the size"),
                (State::Extension { size }, b'\n') => self.after_size(size),
                (State::Extension { size }, _) => {
                    self.extra += 1;
                    State::Extension { size }
                }
                (State::DataEnd, b'\r') => State::DataCr,
                (State::DataEnd | State::DataCr, b'\n') => State::default(),
                (State::DataEnd | State::DataCr, _) => {
                    return Next::Bad("no line end after the data of a chunk");
                }
                (State::Trailer { empty: true } | State::TrailerCr { empty: true }, b'\n') => {
                    return Next::End(at);
                }
                (State::Trailer { .. } | State::TrailerCr { .. }, b'\n') => {
                    State::Trailer { empty: true }
                }
                (State::Trailer { empty }, b'\r') => State::TrailerCr { empty },
                (State::Trailer { .. } | State::TrailerCr { .. }, _) => {
                    self.extra += 1;
                    State::Trailer { empty: false }
                }
                (State::Data { .. }, _) => return Next::Bad("no size"),
            };
            if self.extra > limit {
                return Next::Bad("extensions or trailers beyond the limit of a head");
            }
        }
        Next::More
    }

    /// Whether a CR was read where a line may end; extensions are not looked into.
    fn after_cr(&self) -> bool {
        !matches!(
            self.state,
            State::Size { .. } | State::DataEnd | State::Trailer { .. }
        )
    }

    /// Whether a chunk header comes next, and none of its bytes has come.
    pub(super) fn at_boundary(&self) -> bool {
        self.state == State::default()
    }

    /// Takes a hole of `bytes` bytes.
    pub(super) fn hole(&mut self, bytes: u64) -> Hole {
        match &mut self.state {
            State::Data { left } if bytes <= *left => {
                *left -= bytes;
                if *left == 0 {
                    self.state = State::DataEnd;
                }
                Hole::Inside
            }
            State::Trailer { .. } | State::TrailerCr { .. } => Hole::AfterLastChunk,
            _ => Hole::Lost,
        }
    }

    fn after_size(&mut self, size: u64) -> State {
        // Each chunk may pad its size or carry extensions; streams have chunks without end.
        self.extra = 0;
        match size {
            0 => State::Trailer { empty: true },
            left => State::Data { left },
        }
    }
}

const fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use super::*;

    /// The decoded body, and how it ended: `Ok(bytes left over)`, or what is wrong.
    fn read(bytes: &[u8], step: usize) -> (Vec<u8>, Option<Result<usize, &'static str>>) {
        let (mut chunked, mut body) = (Chunked::default(), Vec::new());
        let mut before = 0;
        for piece in bytes.chunks(step) {
            let mut rest = piece;
            loop {
                match chunked.next(rest, 100) {
                    Next::More => break,
                    Next::Data { skip, length } => {
                        body.extend_from_slice(&rest[skip..skip + length]);
                        rest = &rest[skip + length..];
                    }
                    Next::End(used) => {
                        let left = bytes.len() - before - (piece.len() - rest.len()) - used;
                        return (body, Some(Ok(left)));
                    }
                    Next::Bad(what) => return (body, Some(Err(what))),
                }
            }
            before += piece.len();
        }
        (body, None)
    }

    fn both(bytes: &[u8]) -> (Vec<u8>, Option<Result<usize, &'static str>>) {
        let whole = read(bytes, bytes.len());
        assert_eq!(whole, read(bytes, 1));
        whole
    }

    #[test]
    fn reads_chunks_with_extensions_and_trailers() {
        assert_eq!(
            both(b"5;a=b\r\nhello\r\n00A \r\n0123456789\r\n0;x\r\nT: 1\r\nU: 2\r\n\r\nHTTP"),
            (b"hello0123456789".to_vec(), Some(Ok(4)))
        );
    }

    #[test]
    fn reads_line_ends_of_a_bare_lf() {
        assert_eq!(both(b"3\nabc\n0\n\n"), (b"abc".to_vec(), Some(Ok(0))));
    }

    #[test]
    fn an_empty_size_line_is_no_last_chunk() {
        assert_eq!(both(b"1\r\na\r\n\r\n").1, Some(Err("an empty size line")));
    }

    #[test]
    fn reads_sixteen_digits_and_refuses_more() {
        let (body, end) = both(b"0000ffffFFFFffffffff\r\nabc");
        assert_eq!((body, end), (b"abc".to_vec(), None));
        assert!(matches!(both(b"11111111111111111\r\n").1, Some(Err(_))));
    }

    #[test]
    fn refuses_what_is_no_chunk_header() {
        for bytes in [&b"x\r\n"[..], b"5x\r\n", b"1\r\nab\r\n", b"1\rx", b"-1\r\n"] {
            assert!(matches!(both(bytes).1, Some(Err(_))), "{bytes:?}");
        }
    }

    #[test]
    fn bounds_extensions_and_trailers() {
        let long = "x".repeat(200);
        assert!(matches!(
            both(format!("1;{long}").as_bytes()).1,
            Some(Err(_))
        ));
        assert!(matches!(
            both(format!("0\r\n{long}").as_bytes()).1,
            Some(Err(_))
        ));
        assert!(matches!(both("0".repeat(200).as_bytes()).1, Some(Err(_))));
    }

    #[test]
    fn a_hole_in_the_data_of_a_chunk_keeps_the_framing() {
        let mut chunked = Chunked::default();
        assert_eq!(
            chunked.next(b"5\r\nh", 100),
            Next::Data { skip: 3, length: 1 }
        );
        assert_eq!(chunked.hole(4), Hole::Inside);
        assert_eq!(chunked.next(b"\r\n", 100), Next::More);
        assert!(chunked.at_boundary());
        assert_eq!(chunked.hole(1), Hole::Lost);
    }
}
