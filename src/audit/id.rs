//! The parts of an event id: where a key and where a number could stand in it.
//!
//! Ids are opaque by the specification. What is done here cuts an id into tokens and says which
//! of them *could* be a number; which one *is* the number is learnt from what grows
//! ([`super::order`]).

use foldhash::fast::FixedState;
use smallvec::SmallVec;
use std::{
    cmp::Ordering,
    fmt,
    hash::{BuildHasher, Hash, Hasher},
};

/// An id cut into tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The tokens in order; delimiters are tokens too.
    pub tokens: Tokens<'a>,
}

/// The tokens of an id; few have more than eight.
pub type Tokens<'a> = SmallVec<[Token<'a>; 8]>;

/// A token of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it looks like.
    pub class: Class,
    /// Its text.
    pub text: &'a str,
}

/// What a token looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Characters that are neither letters nor digits.
    Delimiter,
    /// Letters and digits with no number in them.
    Word,
    /// Decimal digits.
    Decimal,
    /// Hexadecimal digits of this fixed width.
    Hex(u8),
    /// A decimal time since the epoch: the number of digits tells the unit (13 ms, 16 µs, 19 ns).
    Epoch(u8),
    /// A UUID of this version.
    Uuid(u8),
    /// A ULID: 26 characters of Crockford's base 32, 48 bits of milliseconds first.
    Ulid,
}

impl Class {
    /// Whether it can be compared as a number or a time.
    #[must_use]
    pub const fn is_candidate(self) -> bool {
        match self {
            Self::Decimal | Self::Hex(_) | Self::Epoch(_) | Self::Ulid => true,
            Self::Uuid(version) => matches!(version, 1 | 6 | 7),
            Self::Delimiter | Self::Word => false,
        }
    }

    /// Whether its number is a time.
    #[must_use]
    pub const fn is_time(self) -> bool {
        matches!(self, Self::Epoch(_) | Self::Ulid | Self::Uuid(1 | 6 | 7))
    }
}

impl Token<'_> {
    /// How much of the token is the number itself, where it is one: of a UUID or ULID the time alone, as
    /// the rest is random or names a host; nothing of what is too long to count with.
    #[must_use]
    pub fn number_len(&self) -> usize {
        match self.class {
            // Twelve digits of milliseconds, or sixteen of ticks, and the version.
            Class::Uuid(7) => 15,
            Class::Uuid(1 | 6) => 18,
            Class::Ulid => 10,
            Class::Decimal | Class::Epoch(_) if self.text.len() <= 20 => self.text.len(),
            Class::Hex(digits) if digits <= 16 => self.text.len(),
            _ => 0,
        }
    }
}

impl<'a> Parts<'a> {
    /// Cuts an id.
    #[must_use]
    pub fn of(id: &'a str) -> Self {
        let mut tokens = Tokens::new();
        let mut rest = id;
        while !rest.is_empty() {
            let (token, left) = next_token(rest);
            tokens.push(token);
            rest = left;
        }
        // `e12` is a word and a number, but only where nothing else could be the number: the `1` of
        // `s1_12` belongs to the key.
        if !tokens.iter().any(|token| token.class.is_candidate()) {
            split_trailing_digits(&mut tokens);
        }
        Self { tokens }
    }

    /// The classes in order with the delimiters' text: ids of one shape can be compared.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let mut hasher = FixedState::default().build_hasher();
        for token in &self.tokens {
            token.class.hash(&mut hasher);
            if token.class == Class::Delimiter {
                token.text.hash(&mut hasher);
            }
        }
        Shape(hasher.finish())
    }
}

/// The form of an id without its words and numbers: a hash of its classes and delimiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape(u64);

fn next_token(text: &str) -> (Token<'_>, &str) {
    if let Some((uuid, rest)) = text.split_at_checked(36)
        && let Some(version) = uuid_version(uuid)
        && !rest.starts_with(|c: char| c.is_ascii_alphanumeric())
    {
        return (
            Token {
                class: Class::Uuid(version),
                text: uuid,
            },
            rest,
        );
    }
    // Bytes will do: what is no ASCII letter or digit stays together with its like.
    let mut bytes = text.bytes().map(Letter::of);
    let first = bytes.next().unwrap_or_default();
    let word = first.is(Letter::WORD);
    let (mut end, mut all) = (1, first);
    for letter in bytes {
        if letter.is(Letter::WORD) != word {
            break;
        }
        end += 1;
        all = all.and(letter);
    }
    let (token, rest) = text.split_at(end);
    let class = if word {
        classify(token, all)
    } else {
        Class::Delimiter
    };
    (Token { class, text: token }, rest)
}

/// What a byte may be part of. Every id is cut several times: one look at a byte tells all.
#[derive(Clone, Copy, Default)]
struct Letter(u8);

impl Letter {
    const WORD: Self = Self(1);
    const DIGIT: Self = Self(2);
    const LOWER_HEX: Self = Self(4);
    const UPPER_HEX: Self = Self(8);

    const fn of(byte: u8) -> Self {
        const TABLE: [Letter; 256] = {
            let mut table = [Letter(0); 256];
            let mut byte = 0_u8;
            loop {
                let kinds = match byte {
                    b'0'..=b'9' => 15,
                    b'a'..=b'f' => 1 | 4,
                    b'A'..=b'F' => 1 | 8,
                    b'g'..=b'z' | b'G'..=b'Z' => 1,
                    _ => 0,
                };
                table[byte as usize] = Letter(kinds);
                if byte == u8::MAX {
                    break table;
                }
                byte += 1;
            }
        };
        TABLE[byte as usize]
    }

    const fn is(self, kind: Self) -> bool {
        self.0 & kind.0 != 0
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// What a word is, all letters of which are `all`.
fn classify(word: &str, all: Letter) -> Class {
    let width = word.len();
    let digits = all.is(Letter::DIGIT);
    if digits && is_epoch(word) {
        return Class::Epoch(u8::try_from(width).unwrap_or(0));
    }
    let padded = word.starts_with('0');
    if digits && !(padded && width >= 8) {
        return Class::Decimal;
    }
    let hex = all.is(Letter::LOWER_HEX) || all.is(Letter::UPPER_HEX);
    if (8..=64).contains(&width) && hex {
        return Class::Hex(u8::try_from(width).unwrap_or(64));
    }
    if is_ulid(word) {
        return Class::Ulid;
    }
    Class::Word
}

/// 26 characters of Crockford's base 32 whose time lies in the range of [`is_epoch`]: names in plain
/// base 32 often have no other letters, but rarely such a time.
fn is_ulid(word: &str) -> bool {
    word.len() == 26
        && word.starts_with(|c| matches!(c, '0'..='7'))
        && word.bytes().all(|byte| crockford(byte).is_some())
        && ulid_millis(word)
            .is_some_and(|millis| (1_000_000_000_000..4_000_000_000_000).contains(&millis))
}

/// The milliseconds in a ULID: its first ten characters.
fn ulid_millis(word: &str) -> Option<u128> {
    word.bytes().take(10).try_fold(0_u128, |time, byte| {
        Some(time << 5 | u128::from(crockford(byte)?))
    })
}

/// Milli-, micro- or nanoseconds between 2001 and 2100.
fn is_epoch(digits: &str) -> bool {
    matches!(digits.len(), 13 | 16 | 19) && matches!(digits.as_bytes().first(), Some(b'1'..=b'3'))
}

fn uuid_version(text: &str) -> Option<u8> {
    let well_formed = text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    if !well_formed {
        return None;
    }
    let version = char::from(*text.as_bytes().get(14)?).to_digit(16)?;
    u8::try_from(version).ok()
}

fn crockford(byte: u8) -> Option<u32> {
    let symbols = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let byte = byte.to_ascii_uppercase();
    symbols
        .iter()
        .position(|&symbol| symbol == byte)
        .and_then(|value| u32::try_from(value).ok())
}

fn split_trailing_digits(tokens: &mut Tokens<'_>) {
    let Some(last) = tokens.iter().rposition(|token| token.class == Class::Word) else {
        return;
    };
    let Some(token) = tokens.get(last).copied() else {
        return;
    };
    let letters = token.text.trim_end_matches(|c: char| c.is_ascii_digit());
    let (word, number) = token.text.split_at(letters.len());
    if word.is_empty() || number.is_empty() || !word.bytes().all(|byte| byte.is_ascii_alphabetic())
    {
        return;
    }
    let number = Token {
        class: classify(number, Letter::of(b'0')),
        text: number,
    };
    tokens.insert(last + 1, number);
    if let Some(token) = tokens.get_mut(last) {
        token.text = word;
    }
}

/// A number of any length.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// Fits 128 bits.
    Small(u128),
    /// Longer: its digits without leading zeros.
    Big(Box<str>),
}

impl Number {
    /// The number of a candidate token; a time in nanoseconds since the epoch where the class
    /// tells the unit.
    #[must_use]
    pub fn of(token: Token<'_>, hexadecimal: bool) -> Option<Self> {
        match token.class {
            Class::Decimal => Some(Self::digits(token.text, 10)),
            Class::Hex(_) => Some(Self::digits(token.text, if hexadecimal { 16 } else { 10 })),
            Class::Epoch(digits) => {
                let unit = match digits {
                    13 => 1_000_000,
                    16 => 1_000,
                    _ => 1,
                };
                token
                    .text
                    .parse::<u128>()
                    .ok()
                    .map(|value| Self::Small(value * unit))
            }
            Class::Uuid(version) => uuid_nanos(token.text, version).map(Self::Small),
            Class::Ulid => ulid_millis(token.text).map(|millis| Self::Small(millis * 1_000_000)),
            Class::Delimiter | Class::Word => None,
        }
    }

    fn digits(text: &str, radix: u32) -> Self {
        let significant = text.trim_start_matches('0');
        if significant.is_empty() {
            return Self::Small(0);
        }
        // Nearly all fit a word, which is several times as fast.
        if significant.len() <= 16
            && let Ok(value) = u64::from_str_radix(significant, radix)
        {
            return Self::Small(value.into());
        }
        match u128::from_str_radix(significant, radix) {
            Ok(value) => Self::Small(value),
            Err(_) => Self::Big(significant.to_ascii_lowercase().into_boxed_str()),
        }
    }

    /// `self - earlier`, when both are small and it is not negative.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Option<u128> {
        match (self, earlier) {
            (Self::Small(a), Self::Small(b)) => a.checked_sub(*b),
            _ => None,
        }
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Small(a), Self::Small(b)) => a.cmp(b),
            (Self::Small(_), Self::Big(_)) => Ordering::Less,
            (Self::Big(_), Self::Small(_)) => Ordering::Greater,
            (Self::Big(a), Self::Big(b)) => (a.len(), a).cmp(&(b.len(), b)),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Small(value) => value.fmt(f),
            Self::Big(digits) => digits.fmt(f),
        }
    }
}

/// The time in a UUID (RFC 9562, section 5): version 7 has milliseconds first, versions 6 and 1 have
/// 100 ns ticks since 1582.
fn uuid_nanos(text: &str, version: u8) -> Option<u128> {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    let field = |from: usize, to: usize| u128::from_str_radix(hex.get(from..to)?, 16).ok();
    let ticks = match version {
        7 => return Some(field(0, 12)? * 1_000_000),
        6 => field(0, 12)? << 12 | field(13, 16)?,
        1 => field(13, 16)? << 48 | field(8, 12)? << 32 | field(0, 8)?,
        _ => return None,
    };
    Some(ticks * 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(id: &str) -> Vec<Class> {
        Parts::of(id)
            .tokens
            .iter()
            .map(|token| token.class)
            .collect()
    }

    #[test]
    fn cuts_the_ids_that_implementations_make() {
        use Class::{Decimal, Delimiter, Epoch, Hex, Uuid, Word};
        assert_eq!(classes("4821"), [Decimal]);
        assert_eq!(classes("7/3"), [Decimal, Delimiter, Decimal]);
        assert_eq!(
            classes("9#_GET_stream"),
            [Decimal, Delimiter, Word, Delimiter, Word]
        );
        assert_eq!(classes("e12"), [Word, Decimal]);
        assert_eq!(classes("s1_12"), [Word, Delimiter, Decimal]);
        assert_eq!(classes("_0"), [Delimiter, Decimal]);
        assert_eq!(
            classes("_GET_stream_1795985987673_y2mj6a70"),
            [
                Delimiter,
                Word,
                Delimiter,
                Word,
                Delimiter,
                Epoch(13),
                Delimiter,
                Word
            ]
        );
        assert_eq!(
            classes("04ff696e-1e81-4d79-9c75-2ceac4ae6880:000000000000000a"),
            [Uuid(4), Delimiter, Hex(16)]
        );
        assert_eq!(classes("04ff696e-1e81-7d79-9c75-2ceac4ae6880"), [Uuid(7)]);
        assert_eq!(classes("01ARZ3NDEKTSV4RRFFQ69G5FAV"), [Class::Ulid]);
    }

    #[test]
    fn numbers_of_any_length_compare() {
        let number = |text| {
            Number::of(
                Token {
                    class: Class::Decimal,
                    text,
                },
                false,
            )
            .unwrap()
        };
        assert!(number("9") < number("10"));
        assert_eq!(number("0010"), number("10"));
        let long = "9".repeat(60);
        let longer = format!("1{}", "0".repeat(60));
        assert!(number(&long) < number(&longer));
        assert!(number("5") < number(&long));
    }

    #[test]
    fn a_uuid_tells_its_time() {
        let token = |text, version| Token {
            class: Class::Uuid(version),
            text,
        };
        let seven = Number::of(token("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", 7), false).unwrap();
        assert_eq!(seven, Number::Small(0x017F_22E2_79B0 * 1_000_000));
        let six = Number::of(token("1EC9414C-232A-6B00-B3C8-9F6BDECED846", 6), false).unwrap();
        let one = Number::of(token("C232AB00-9414-11EC-B3C8-9F6BDECED846", 1), false).unwrap();
        assert_eq!(six, one);
    }
}
