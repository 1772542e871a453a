//! Heads of requests and responses (RFC 9112, sections 2 to 5): `httparse` for those that keep
//! the rules, a lenient reader for those that real peers send all the same.

use crate::model::exchange::HttpVersion;
use memchr::memchr;
use std::borrow::Cow;

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// The target in any of its four forms, as sent.
    pub target: &'a str,
    /// The version it states.
    pub version: HttpVersion,
    /// Names as sent and values without the white space around them, in order.
    pub headers: &'a [(&'a str, &'a [u8])],
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The status code.
    pub status: u16,
    /// The version it states; HTTP/1.0 for `ICY`.
    pub version: HttpVersion,
    /// Names as sent and values without the white space around them, in order.
    pub headers: &'a [(&'a str, &'a [u8])],
}

/// Why bytes that looked like a head are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadError {
    /// More headers than the limit.
    TooManyHeaders,
    /// The first line is not one of HTTP.
    StartLine,
}

/// What bytes at a place where a message may begin are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guess {
    /// Too few bytes to tell.
    More,
    /// The start of a message.
    Yes,
    /// Something else.
    No,
}

/// Whether a request begins here. `strict`: nothing else says so, so the method must be a
/// registered one and the line, once it is whole, must end with the version.
pub(super) fn guess_request(bytes: &[u8], strict: bool) -> Guess {
    let longest = if strict {
        LONGEST_METHOD
    } else {
        LONGEST_TOKEN
    };
    let method = bytes
        .iter()
        .take(longest + 1)
        .take_while(|byte| is_token(**byte))
        .count();
    let (Some(token), rest) = (bytes.get(..method), bytes.get(method..).unwrap_or_default()) else {
        return Guess::No;
    };
    let registered = METHODS.contains(&token);
    let Some(next) = rest.first() else {
        let possible = if strict {
            METHODS.iter().any(|name| name.starts_with(token))
        } else {
            method <= longest
        };
        return if possible { Guess::More } else { Guess::No };
    };
    if method == 0 || *next != b' ' || method > longest || (strict && !registered) {
        return Guess::No;
    }
    if registered && !strict {
        return Guess::Yes;
    }
    match memchr(b'\n', bytes.get(..LONGEST_LINE).unwrap_or(bytes)) {
        Some(end) => {
            let line = bytes.get(..end).unwrap_or_default().trim_ascii_end();
            let version = line.rsplit(|byte| *byte == b' ').next();
            if version.is_some_and(|version| version.starts_with(b"HTTP/1.")) {
                Guess::Yes
            } else {
                Guess::No
            }
        }
        None if bytes.len() < LONGEST_LINE => Guess::More,
        None => Guess::No,
    }
}

/// Whether a response begins here. `strict`: nothing else says so, so the status must follow.
pub(super) fn guess_response(bytes: &[u8], strict: bool) -> Guess {
    let pattern: &[u8] = match bytes.first() {
        Some(b'H') if strict => b"HTTP/1.d ddd",
        Some(b'H') => b"HTTP/",
        Some(b'I') if strict => b"ICY ddd",
        Some(b'I') => b"ICY ",
        Some(_) => return Guess::No,
        None => return Guess::More,
    };
    let fits = pattern.iter().zip(bytes).all(|(want, byte)| match want {
        b'd' => byte.is_ascii_digit(),
        _ => want == byte,
    });
    match fits {
        false => Guess::No,
        true if bytes.len() < pattern.len() => Guess::More,
        true => Guess::Yes,
    }
}

/// Finds the empty line that ends a head, in bytes that come in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum HeadEnd {
    /// Within a line.
    #[default]
    Line,
    /// At the start of a line.
    Start,
    /// At the start of a line, after a CR.
    Cr,
}

impl HeadEnd {
    /// The length of `bytes` up to and with the empty line, or `None` when it has not come.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            match (*self, byte) {
                (Self::Start | Self::Cr, b'\n') => return Some(at + 1),
                (Self::Start, b'\r') => *self = Self::Cr,
                (Self::Line, _) => {
                    at += memchr(b'\n', bytes.get(at..)?)?;
                    *self = Self::Start;
                }
                (Self::Start | Self::Cr, _) => *self = Self::Line,
            }
            at += 1;
        }
        None
    }
}

/// Reads the head of a request and hands it to `then`, with what is odd about it.
pub(super) fn request<R>(
    bytes: &[u8],
    max_headers: usize,
    then: impl FnOnce(&RequestHead<'_>, Option<&'static str>) -> R,
) -> Result<R, HeadError> {
    let mut few = [httparse::EMPTY_HEADER; USUAL_HEADERS];
    let mut many;
    let mut parsed = httparse::Request::new(&mut few);
    let mut result = parsed.parse(bytes);
    if result == Err(httparse::Error::TooManyHeaders) && max_headers > USUAL_HEADERS {
        many = vec![httparse::EMPTY_HEADER; max_headers];
        parsed = httparse::Request::new(&mut many);
        result = parsed.parse(bytes);
    }
    match (result, parsed.method, parsed.path, parsed.version) {
        (Ok(httparse::Status::Complete(_)), Some(method), Some(target), Some(version)) => {
            Ok(with_headers(parsed.headers, |headers| {
                let head = RequestHead {
                    method,
                    target,
                    version: version_of(version),
                    headers,
                };
                then(&head, bare_lf(bytes))
            }))
        }
        (Err(httparse::Error::TooManyHeaders), ..) => Err(HeadError::TooManyHeaders),
        _ => {
            let head = Lenient::read(bytes, max_headers)?;
            let (method, target, version) = head.request_line().ok_or(HeadError::StartLine)?;
            let headers = head.headers();
            let head = RequestHead {
                method,
                target: &target,
                version,
                headers: &headers,
            };
            Ok(then(&head, Some(head_oddity(bytes))))
        }
    }
}

/// Reads the head of a response and hands it to `then`, with what is odd about it.
pub(super) fn response<R>(
    bytes: &[u8],
    max_headers: usize,
    then: impl FnOnce(&ResponseHead<'_>, Option<&'static str>) -> R,
) -> Result<R, HeadError> {
    let mut few = [httparse::EMPTY_HEADER; USUAL_HEADERS];
    let mut many;
    let mut parsed = httparse::Response::new(&mut few);
    let mut result = parsed.parse(bytes);
    if result == Err(httparse::Error::TooManyHeaders) && max_headers > USUAL_HEADERS {
        many = vec![httparse::EMPTY_HEADER; max_headers];
        parsed = httparse::Response::new(&mut many);
        result = parsed.parse(bytes);
    }
    match (result, parsed.code, parsed.version) {
        (Ok(httparse::Status::Complete(_)), Some(status), Some(version)) => {
            Ok(with_headers(parsed.headers, |headers| {
                let head = ResponseHead {
                    status,
                    version: version_of(version),
                    headers,
                };
                // "HTTP/1.1 200" and a line end: the space before the reason is not optional.
                let no_reason = matches!(bytes.get(12), Some(b'\r' | b'\n'));
                then(
                    &head,
                    bare_lf(bytes).or(no_reason.then_some("no space after the status")),
                )
            }))
        }
        (Err(httparse::Error::TooManyHeaders), ..) => Err(HeadError::TooManyHeaders),
        _ => {
            let head = Lenient::read(bytes, max_headers)?;
            let (status, version) = head.status_line().ok_or(HeadError::StartLine)?;
            let headers = head.headers();
            let head = ResponseHead {
                status,
                version,
                headers: &headers,
            };
            Ok(then(&head, Some(head_oddity(bytes))))
        }
    }
}

fn with_headers<'a, R>(
    parsed: &[httparse::Header<'a>],
    then: impl FnOnce(&[(&'a str, &'a [u8])]) -> R,
) -> R {
    let mut few: [(&str, &[u8]); USUAL_HEADERS] = [("", b""); USUAL_HEADERS];
    if let Some(few) = few.get_mut(..parsed.len()) {
        for (pair, header) in few.iter_mut().zip(parsed) {
            *pair = (header.name, trim(header.value));
        }
        return then(few);
    }
    let many: Vec<_> = parsed
        .iter()
        .map(|header| (header.name, trim(header.value)))
        .collect();
    then(&many)
}

/// A head read line by line, for what `httparse` refuses: obs-fold (joined with a space, RFC 9112,
/// section 5.2), white space before the colon, lines without a colon (left out), control
/// characters in values, several spaces in the first line, `ICY`, other versions.
struct Lenient<'a> {
    start_line: &'a [u8],
    fields: Vec<(Cow<'a, str>, Cow<'a, [u8]>)>,
}

impl<'a> Lenient<'a> {
    fn read(bytes: &'a [u8], max_headers: usize) -> Result<Self, HeadError> {
        let mut lines = bytes.split(|byte| *byte == b'\n').map(|line| {
            let mut line = line;
            while let Some(shorter) = line.strip_suffix(b"\r") {
                line = shorter;
            }
            line
        });
        let start_line = lines
            .find(|line| !line.is_empty())
            .ok_or(HeadError::StartLine)?;
        let mut fields: Vec<(Cow<'_, str>, Cow<'_, [u8]>)> = Vec::new();
        for line in lines {
            if let [b' ' | b'\t', ..] = line {
                // White space between the first line and the first field belongs to nothing.
                if let Some((_, value)) = fields.last_mut() {
                    let value = value.to_mut();
                    value.push(b' ');
                    value.extend_from_slice(trim(line));
                }
                continue;
            }
            let Some(colon) = memchr(b':', line) else {
                continue;
            };
            let name = trim(line.get(..colon).unwrap_or_default());
            if name.is_empty() {
                continue;
            }
            if fields.len() == max_headers {
                return Err(HeadError::TooManyHeaders);
            }
            let value = trim(line.get(colon + 1..).unwrap_or_default());
            fields.push((String::from_utf8_lossy(name), Cow::Borrowed(value)));
        }
        Ok(Self { start_line, fields })
    }

    fn headers(&self) -> Vec<(&str, &[u8])> {
        self.fields
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect()
    }

    fn request_line(&self) -> Option<(&'a str, Cow<'a, str>, HttpVersion)> {
        let line = self.start_line.trim_ascii();
        let space = memchr(b' ', line)?;
        let method = std::str::from_utf8(line.get(..space)?).ok()?;
        let rest = line.get(space..)?;
        let version = rest.iter().rposition(|byte| *byte == b' ')? + 1;
        let target = rest.get(..version)?.trim_ascii();
        let version = stated_version(rest.get(version..)?)?;
        let valid = method.bytes().all(is_token) && !method.is_empty() && !target.is_empty();
        valid.then(|| (method, String::from_utf8_lossy(target), version))
    }

    fn status_line(&self) -> Option<(u16, HttpVersion)> {
        let mut words = self
            .start_line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let version = match words.next()? {
            b"ICY" => HttpVersion::Http10,
            word => stated_version(word)?,
        };
        match words.next()? {
            [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
                let digit = |byte: &u8| u16::from(byte - b'0');
                Some((digit(a) * 100 + digit(b) * 10 + digit(c), version))
            }
            _ => None,
        }
    }
}

/// What made `httparse` refuse a head that the lenient reader could read.
fn head_oddity(bytes: &[u8]) -> &'static str {
    if bytes.starts_with(b"ICY") {
        return "ICY in place of a version";
    }
    let mut lines = bytes.split(|byte| *byte == b'\n').skip(1);
    if lines.any(|line| matches!(line, [b' ' | b'\t', ..])) {
        return "a folded header line";
    }
    let spaced = bytes.split(|byte| *byte == b'\n').skip(1).any(|line| {
        memchr(b':', line).is_some_and(|colon| {
            matches!(line.get(..colon).and_then(<[u8]>::last), Some(b' ' | b'\t'))
        })
    });
    if spaced {
        return "white space before a colon";
    }
    "a character that does not belong there"
}

fn bare_lf(bytes: &[u8]) -> Option<&'static str> {
    (!bytes.ends_with(b"\r\n\r\n")).then_some("a line that ends with a bare LF")
}

const fn version_of(minor: u8) -> HttpVersion {
    match minor {
        0 => HttpVersion::Http10,
        _ => HttpVersion::Http11,
    }
}

fn stated_version(word: &[u8]) -> Option<HttpVersion> {
    match word.strip_prefix(b"HTTP/")? {
        b"0.9" | b"1.0" | b"1" => Some(HttpVersion::Http10),
        [b'1', b'.', b'0'..=b'9'] => Some(HttpVersion::Http11),
        [b'0'..=b'9', ..] => Some(HttpVersion::Unknown),
        _ => None,
    }
}

/// Without the white space (space and tab) around it.
pub(super) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t' | b'\r'] = value {
        value = rest;
    }
    value
}

/// A character of a token (RFC 9110, section 5.6.2).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// The methods that a message start is recognised by where nothing else announces one: RFC 9110,
/// and those of the registry in use (WebDAV, PATCH, QUERY).
const METHODS: &[&[u8]] = &[
    b"GET",
    b"POST",
    b"DELETE",
    b"OPTIONS",
    b"HEAD",
    b"PUT",
    b"PATCH",
    b"CONNECT",
    b"TRACE",
    b"PROPFIND",
    b"PROPPATCH",
    b"REPORT",
    b"SEARCH",
    b"QUERY",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
    b"PURGE",
];
const LONGEST_METHOD: usize = 9;
/// Longest token taken for an unregistered method.
const LONGEST_TOKEN: usize = 32;
/// Longest first line that is waited for before bytes are called no request: RFC 9112, section 3,
/// recommends to support 8000 octets.
const LONGEST_LINE: usize = 8 << 10;
/// Headers of nearly all heads; more take an allocation.
const USUAL_HEADERS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_requests_as_soon_as_they_are_certain() {
        for (bytes, lenient, strict) in [
            (&b""[..], Guess::More, Guess::More),
            (b"GE", Guess::More, Guess::More),
            (b"GET", Guess::More, Guess::More),
            (b"GET /", Guess::Yes, Guess::More),
            (b"GET / HTTP/1.1\r\n", Guess::Yes, Guess::Yes),
            (b"GET some text\r\n", Guess::Yes, Guess::No),
            (b"GETX /", Guess::More, Guess::No),
            (b"brew /pot HTTP/1.1\n", Guess::Yes, Guess::No),
            (b"brew /pot\n", Guess::No, Guess::No),
            (b"data: x", Guess::No, Guess::No),
            (b"{\"a\":1}", Guess::No, Guess::No),
            (b" GET", Guess::No, Guess::No),
            (&[b'A'; 40], Guess::No, Guess::No),
        ] {
            let guesses = (guess_request(bytes, false), guess_request(bytes, true));
            assert_eq!(guesses, (lenient, strict), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn recognises_responses_as_soon_as_they_are_certain() {
        for (bytes, lenient, strict) in [
            (&b""[..], Guess::More, Guess::More),
            (b"HTT", Guess::More, Guess::More),
            (b"HTTP/1.1 ", Guess::Yes, Guess::More),
            (b"HTTP/1.1 200", Guess::Yes, Guess::Yes),
            (b"HTTP/1.1 is old", Guess::Yes, Guess::No),
            (b"ICY 200", Guess::Yes, Guess::Yes),
            (b"ICE", Guess::No, Guess::No),
            (b"x", Guess::No, Guess::No),
        ] {
            let guesses = (guess_response(bytes, false), guess_response(bytes, true));
            assert_eq!(guesses, (lenient, strict), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn finds_the_empty_line_in_pieces_and_as_a_whole() {
        for (bytes, length) in [
            (&b"a\r\nb\r\n\r\nrest"[..], Some(8)),
            (b"a\nb\n\nrest", Some(5)),
            (b"a\r\n\rb\n\r\n", Some(8)),
            (b"a\r\r\n\r", None),
        ] {
            assert_eq!(HeadEnd::default().find(bytes), length);
            let mut end = HeadEnd::default();
            let found = bytes
                .chunks(1)
                .position(|byte| end.find(byte).is_some())
                .map(|index| index + 1);
            assert_eq!(found, length);
        }
    }

    #[test]
    fn a_request_line_needs_a_version() {
        let read = |bytes: &[u8]| request(bytes, 9, |head, _| head.target.to_string());
        assert_eq!(read(b"GET  /a b  HTTP/1.1\r\n\r\n"), Ok("/a b".into()));
        assert_eq!(read(b"GET /\r\n\r\n"), Err(HeadError::StartLine));
        assert_eq!(read(b"GET / HTTP/2.0\r\n\r\n"), Ok("/".into()));
    }
}
