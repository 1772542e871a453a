//! Texts that stand for others and look like them: what an audit sees of an id is what its letters are (digits,
//! hexadecimal, a UUID), and that stays.
//!
//! A text is mapped to one of the same length, letter by letter of the same kind, by a keyed permutation of all those
//! texts (a Feistel network over its letters), so that different texts stay different however short they are. What is
//! too long for that to matter is a keyed hash. A text that came out looking like something else is mapped again until
//! it does not, which is a permutation of the texts of its look ("cycle walking").

use super::{facts::Alike, key::Key};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Makes texts that look like others.
pub(super) struct Forms<'a> {
    key: Key,
    alike: &'a Alike<'a>,
}

/// What a letter may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    /// Nothing else.
    Fixed(char),
    /// One of these.
    Of(&'static str),
    /// A character of as many bytes of UTF-8.
    Wide(u32, u32),
}

const DIGITS: &str = "0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const LOWER_HEX: &str = "abcdef";
const UPPER_HEX: &str = "ABCDEF";
const LOWER_HEXADECIMAL: &str = "0123456789abcdef";
const UPPER_HEXADECIMAL: &str = "0123456789ABCDEF";
const LOWER_CROCKFORD: &str = "abcdefghjkmnpqrstvwxyz";
const UPPER_CROCKFORD: &str = "ABCDEFGHJKMNPQRSTVWXYZ";

impl Set {
    fn radix(self) -> u32 {
        match self {
            Self::Fixed(_) => 1,
            Self::Of(letters) => u32::try_from(letters.len()).unwrap_or(1),
            Self::Wide(first, end) => end - first - if first == 0x800 { SURROGATES } else { 0 },
        }
    }

    fn index(self, letter: char) -> u32 {
        match self {
            Self::Fixed(_) => 0,
            Self::Of(letters) => letters
                .find(letter)
                .and_then(|at| u32::try_from(at).ok())
                .unwrap_or(0),
            Self::Wide(first, _) => {
                let code = u32::from(letter);
                let gap = if first == 0x800 && code > 0xdfff {
                    SURROGATES
                } else {
                    0
                };
                code.saturating_sub(first + gap)
            }
        }
    }

    fn letter(self, index: u32) -> char {
        match self {
            Self::Fixed(letter) => letter,
            Self::Of(letters) => letters.chars().nth(index as usize).unwrap_or('0'),
            Self::Wide(first, _) => {
                let code = first + index;
                let gap = if first == 0x800 && code > 0xd7ff {
                    SURROGATES
                } else {
                    0
                };
                char::from_u32(code + gap).unwrap_or('\u{fffd}')
            }
        }
    }

    /// Any character beyond ASCII.
    fn wide(letter: char) -> Self {
        match letter.len_utf8() {
            2 => Self::Wide(0x80, 0x800),
            3 => Self::Wide(0x800, 0x1_0000),
            4 => Self::Wide(0x1_0000, 0x11_0000),
            _ => Self::Fixed(letter),
        }
    }
}

const SURROGATES: u32 = 0x800;

/// A letter: what it may become, and which of those it is.
#[derive(Clone, Copy, Debug)]
struct Cell {
    set: Set,
    index: u32,
}

impl Cell {
    fn new(set: Set, letter: char) -> Self {
        let index = set.index(letter);
        Self { set, index }
    }
}

fn text_of(cells: &[Cell]) -> String {
    cells
        .iter()
        .map(|cell| cell.set.letter(cell.index))
        .collect()
}

/// Bits of a text from which on a keyed hash of it is as good as a permutation.
const LONG: f64 = 96.0;

/// Rounds of the network: enough for halves of any size.
const ROUNDS: u8 = 8;

/// A text that does not come to look right in so many rounds never will; the odds are against every one of them.
const TRIES: usize = 20_000;

/// Digits of a hexadecimal number at its end that stay near each other.
const NEAR: usize = 6;

impl<'a> Forms<'a> {
    pub(super) fn new(key: &Key, alike: &'a Alike<'a>) -> Self {
        let key = key.for_forms();
        Self { key, alike }
    }

    /// What stands for a token of an id, or for what is left of one whose number stays.
    pub(super) fn token(&self, text: &str) -> String {
        if is_uuid(text) {
            return self.uuid(text);
        }
        let words = text.bytes().any(|byte| byte.is_ascii_alphanumeric());
        if !words {
            return self.delimiter(text);
        }
        if text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return self.run(text);
        }
        // The end of a UUID whose time stays.
        let pieces = text.split('-');
        let pieces = pieces.map(|piece| match piece {
            "" => String::new(),
            piece => text_of(&self.hexadecimal(b"tail", piece, Case::of(text))),
        });
        pieces.collect::<Vec<_>>().join("-")
    }

    /// The end of a ULID whose time stays.
    pub(super) fn ulid_tail(&self, text: &str) -> String {
        let mut cells: Vec<Cell> = text.chars().map(|c| Cell::new(crockford(c), c)).collect();
        self.permute(b"ulid", &mut cells);
        text_of(&cells)
    }

    /// Punctuation stays; characters beyond ASCII may be a name.
    fn delimiter(&self, text: &str) -> String {
        let mut cells: Vec<Cell> = text.chars().map(|c| Cell::new(Set::wide(c), c)).collect();
        self.permute(b"wide", &mut cells);
        text_of(&cells)
    }

    /// Letters and digits.
    fn run(&self, text: &str) -> String {
        let digits = text.len() - text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (letters, number) = text
            .split_at_checked(text.len() - digits)
            .unwrap_or((text, ""));
        if let Some(letter) = uniform(text) {
            return self.uniform(text, letter);
        }
        if letters.is_empty() {
            return self.number(text);
        }
        let hexadecimal = looks(text).hexadecimal && text.len() >= 8;
        let named = letters.bytes().all(|byte| byte.is_ascii_alphabetic()) && !number.is_empty();
        if named && !hexadecimal {
            // A name with a number, in two tokens or in one.
            return self.run(letters) + &self.run(number);
        }
        if hexadecimal && looks(text).digit {
            return self.hexadecimal_number(text, 0);
        }
        self.word(text)
    }

    /// One letter over and over, as sanitizers write, stays that.
    fn uniform(&self, text: &str, letter: char) -> String {
        let set = match letter {
            '0' => return text.to_owned(),
            '1'..='9' => Set::Of("123456789"),
            _ => positional(letter, looks(text).hexadecimal),
        };
        let mut cells = [Cell::new(set, letter)];
        let mut made = text.to_owned();
        for _ in 0..TRIES {
            self.permute(b"uniform", &mut cells);
            made = text_of(&cells).repeat(text.len());
            if self.fits(text, &made) {
                break;
            }
        }
        made
    }

    /// Letters, and letters and digits that are no hexadecimal number.
    fn word(&self, text: &str) -> String {
        let looks = looks(text);
        let ulid = text.len() == 26
            && text.starts_with(|c| matches!(c, '0'..='7'))
            && text.chars().all(is_crockford);
        let marked = marked(text);
        let mut cells: Vec<Cell> = text
            .chars()
            .enumerate()
            .map(|(at, letter)| {
                // The first two letters of a time are those of years.
                let set = if marked.contains(&at) || ulid && at < 2 {
                    Set::Fixed(letter)
                } else if ulid {
                    crockford(letter)
                } else {
                    positional(letter, looks.hexadecimal)
                };
                Cell::new(set, letter)
            })
            .collect();
        // What counts in all letters counts at its end.
        let near = if looks.digit && text.len() >= 5 { 3 } else { 0 };
        self.walk(text, &mut cells, |forms, cells| {
            let (high, low) = cells.split_at_mut(text.len() - near);
            forms.permute(b"word", high);
            let high = text_of(high);
            forms.permute(high.as_bytes(), low);
        })
    }

    /// What stands for a token of which it is not known that it is no number: of hexadecimal digits the first two stay,
    /// so that what grew from one id to the next does so still.
    pub(super) fn token_in_order(&self, text: &str) -> String {
        const FIRST: usize = 2;
        let looks = looks(text);
        let letters = looks.lower || looks.upper;
        if looks.hexadecimal && looks.digit && letters && text.len() >= 8 {
            self.hexadecimal_number(text, FIRST)
        } else {
            self.token(text)
        }
    }

    /// Hexadecimal digits of which so many stay.
    fn hexadecimal_number(&self, text: &str, kept: usize) -> String {
        let case = Case::of(text);
        let (kept, rest) = text.split_at_checked(kept).unwrap_or(("", text));
        let mut cells: Vec<Cell> = rest.chars().map(|c| Cell::new(case.digit(), c)).collect();
        let mut made = String::new();
        for _ in 0..TRIES {
            self.hexadecimal_once(b"hex", &mut cells, case);
            made = kept.to_owned() + &text_of(&cells);
            if self.fits(text, &made) {
                break;
            }
        }
        made
    }

    /// A hexadecimal number: its last digits move by a distance that is one for all that begin alike.
    fn hexadecimal(&self, tweak: &[u8], text: &str, case: Case) -> Vec<Cell> {
        let set = |letter| match case {
            Case::Both => positional(letter, true),
            Case::Upper | Case::Lower => case.digit(),
        };
        let mut cells: Vec<Cell> = text.chars().map(|c| Cell::new(set(c), c)).collect();
        self.hexadecimal_once(tweak, &mut cells, case);
        cells
    }

    fn hexadecimal_once(&self, tweak: &[u8], cells: &mut [Cell], case: Case) {
        let len = cells.len();
        let near = if case == Case::Both || len < 8 {
            0
        } else {
            NEAR
        };
        let (high, low) = cells.split_at_mut(len - near);
        self.permute(tweak, high);
        let high = text_of(high);
        let len = [u8::try_from(len).unwrap_or(u8::MAX)];
        let mut by = self.key.stream(&[b"near", &len, high.as_bytes()]);
        let mut carry = 0;
        for cell in low.iter_mut().rev() {
            let sum = cell.index + u32::from(by.next().unwrap_or(0) % 16) + carry;
            (cell.index, carry) = (sum % 16, sum / 16);
        }
    }

    /// Group by group: an id that differs from another in one of them does so afterwards. Version and variant stay.
    fn uuid(&self, text: &str) -> String {
        let case = Case::of(text);
        let groups = text.split('-').enumerate().map(|(at, group)| {
            let tweak = [b'u', u8::try_from(at).unwrap_or(0)];
            let kept = usize::from(at == 2 || at == 3);
            let (kept, rest) = group.split_at_checked(kept).unwrap_or(("", group));
            kept.to_owned() + &text_of(&self.hexadecimal(&tweak, rest, case))
        });
        groups.collect::<Vec<_>>().join("-")
    }

    /// Decimal digits: as many, those of a time a time. Long ones move by one distance, so that what is near stays near.
    pub(super) fn number(&self, text: &str) -> String {
        const FEW: usize = 6;
        const MOST: usize = 38;
        if let Some(letter) = uniform(text) {
            return self.uniform(text, letter);
        }
        let len = text.len();
        if len <= FEW || len > MOST {
            let padded = text.starts_with('0');
            let mut cells: Vec<Cell> = text
                .chars()
                .enumerate()
                .map(|(at, letter)| {
                    let set = match at {
                        0 if padded => Set::Fixed('0'),
                        0 => Set::Of("123456789"),
                        _ => Set::Of(DIGITS),
                    };
                    Cell::new(set, letter)
                })
                .collect();
            return self.walk(text, &mut cells, |forms, cells| {
                forms.permute(b"digits", cells);
            });
        }
        let unit = 10_u128.pow(u32::try_from(len - 1).unwrap_or(0));
        let (from, to) = match text.as_bytes().first() {
            Some(b'0') => (0, unit),
            Some(b'1'..=b'3') if matches!(len, 13 | 16 | 19) => (unit, 4 * unit),
            _ if matches!(len, 13 | 16 | 19) => (4 * unit, 10 * unit),
            _ => (unit, 10 * unit),
        };
        let Ok(value) = text.parse::<u128>() else {
            return text.to_owned();
        };
        let width = [u8::try_from(len).unwrap_or(0), u8::from(from < 4 * unit)];
        let by = self.key.stream(&[b"number", &width]).take(16);
        let by = by.fold(0_u128, |sum, byte| sum << 8 | u128::from(byte)) % (to - from);
        let mut value = value - from.min(value);
        let mut made = text.to_owned();
        for _ in 0..TRIES {
            value = (value + by) % (to - from);
            made = format!("{:0len$}", from + value);
            if uniform(&made).is_none() {
                break;
            }
        }
        made
    }

    /// An address of the same family and kind: of this machine, of a private network, of neither.
    pub(super) fn address(&self, ip: IpAddr) -> IpAddr {
        match ip {
            IpAddr::V4(ip) => self.address_v4(ip).into(),
            IpAddr::V6(ip) if ip.is_loopback() || ip.is_unspecified() => ip.into(),
            IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
                Some(ip) => self.address_v4(ip).to_ipv6_mapped().into(),
                None => {
                    let mut octets = [0xfd; 16];
                    let hash = self.key.stream(&[b"v6", &ip.octets()]);
                    for (octet, byte) in octets.iter_mut().skip(1).zip(hash) {
                        *octet = byte;
                    }
                    Ipv6Addr::from(octets).into()
                }
            },
        }
    }

    fn address_v4(&self, ip: Ipv4Addr) -> Ipv4Addr {
        let octets = ip.octets();
        // How much of it says of what kind it is, as the first number of that kind and how many there are.
        let kind: [(u8, u16); 4] = match octets {
            [0, 0, 0, 0] | [255, 255, 255, 255] => return ip,
            [first @ (10 | 127), ..] => [(first, 1), (0, 256), (0, 256), (0, 256)],
            [192, 168, ..] => [(192, 1), (168, 1), (0, 256), (0, 256)],
            [172, 16..=31, ..] => [(172, 1), (16, 16), (0, 256), (0, 256)],
            _ => [(0, 256), (0, 256), (0, 256), (0, 256)],
        };
        let radices = kind.map(|(_, many)| u32::from(many));
        let mut made = octets;
        for _ in 0..TRIES {
            let mut values = [0; 4];
            for ((value, octet), (first, _)) in values.iter_mut().zip(made).zip(kind) {
                *value = u32::from(octet - first);
            }
            self.shuffle(b"v4", &mut values, &radices);
            for ((octet, value), (first, _)) in made.iter_mut().zip(values).zip(kind) {
                *octet = first.saturating_add(u8::try_from(value).unwrap_or(0));
            }
            let other = !matches!(
                made,
                [0 | 10 | 127 | 224..=255, ..] | [172, 16..=31, ..] | [192, 168, ..]
            );
            if radices.iter().any(|&many| many != 256) || other {
                break;
            }
        }
        made.into()
    }

    /// Maps cells until the text looks like `text`.
    fn walk(&self, text: &str, cells: &mut [Cell], once: impl Fn(&Self, &mut [Cell])) -> String {
        let mut made = String::new();
        for _ in 0..TRIES {
            once(self, cells);
            made = text_of(cells);
            if self.fits(text, &made) {
                break;
            }
        }
        made
    }

    fn fits(&self, text: &str, made: &str) -> bool {
        looks(text) == looks(made)
            && uniform(text).is_some() == uniform(made).is_some()
            && marked(text) == marked(made)
            && (self.alike)(text, made)
    }

    fn permute(&self, tweak: &[u8], cells: &mut [Cell]) {
        let radices: Vec<u32> = cells.iter().map(|cell| cell.set.radix()).collect();
        let mut values: Vec<u32> = cells.iter().map(|cell| cell.index).collect();
        self.shuffle(tweak, &mut values, &radices);
        for (cell, value) in cells.iter_mut().zip(values) {
            cell.index = value;
        }
    }

    /// A permutation of all vectors of values below their radices.
    fn shuffle(&self, tweak: &[u8], values: &mut [u32], radices: &[u32]) {
        let bits: f64 = radices.iter().map(|&radix| f64::from(radix).log2()).sum();
        if bits > LONG {
            let all = bytes_of(values);
            let mut hash = self.key.stream(&[b"long", tweak, &all]);
            for (value, radix) in values.iter_mut().zip(radices) {
                *value = word_of(&mut hash) % radix.max(&1);
            }
            return;
        }
        let free: Vec<usize> = (0..)
            .zip(radices)
            .filter(|(_, r)| **r > 1)
            .map(|(at, _)| at)
            .collect();
        if let [at] = free.as_slice() {
            if let (Some(value), Some(&radix)) = (values.get_mut(*at), radices.get(*at)) {
                *value = self.one(tweak, *value, radix);
            }
            return;
        }
        let Some(&half) = free.get(free.len() / 2) else {
            return;
        };
        let (left, right) = values.split_at_mut(half);
        let (left_radices, right_radices) =
            radices.split_at_checked(half).unwrap_or((radices, &[]));
        let len = u32::try_from(radices.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes();
        for round in 0..ROUNDS {
            let (to, to_radices, of) = if round % 2 == 0 {
                (&mut *left, left_radices, &*right)
            } else {
                (&mut *right, right_radices, &*left)
            };
            let mut by = self
                .key
                .stream(&[b"round", tweak, &len, &[round], &bytes_of(of)]);
            for (value, radix) in to.iter_mut().zip(to_radices) {
                *value = (*value + word_of(&mut by) % radix) % radix;
            }
        }
    }

    /// A permutation of the numbers below a radix.
    fn one(&self, tweak: &[u8], value: u32, radix: u32) -> u32 {
        const FEW: u32 = 64;
        let mut random = self.key.stream(&[b"one", tweak, &radix.to_be_bytes()]);
        if radix > FEW {
            return (value + word_of(&mut random) % radix) % radix;
        }
        let mut order: Vec<(u32, u32)> = (0..radix).map(|n| (word_of(&mut random), n)).collect();
        order.sort_unstable();
        order
            .get(value as usize)
            .map_or(value, |(_, number)| *number)
    }
}

fn bytes_of(values: &[u32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_be_bytes())
        .collect()
}

/// Few enough to leave room for a sum.
fn word_of(bytes: &mut impl Iterator<Item = u8>) -> u32 {
    let word = bytes
        .take(4)
        .fold(0_u32, |sum, byte| sum << 8 | u32::from(byte));
    word >> 1
}

/// The case of hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Lower,
    Upper,
    Both,
}

impl Case {
    fn digit(self) -> Set {
        Set::Of(match self {
            Self::Upper => UPPER_HEXADECIMAL,
            Self::Lower | Self::Both => LOWER_HEXADECIMAL,
        })
    }

    fn of(text: &str) -> Self {
        let looks = looks(text);
        match (looks.lower, looks.upper) {
            (true, true) => Self::Both,
            (false, true) => Self::Upper,
            (_, false) => Self::Lower,
        }
    }
}

/// What letters a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Looks {
    /// All are hexadecimal digits, in one case.
    hexadecimal: bool,
    digit: bool,
    lower: bool,
    upper: bool,
}

fn looks(text: &str) -> Looks {
    let any = |class: fn(&u8) -> bool| text.bytes().any(|byte| class(&byte));
    let (lower, upper) = (any(u8::is_ascii_lowercase), any(u8::is_ascii_uppercase));
    Looks {
        hexadecimal: !(lower && upper) && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        digit: any(u8::is_ascii_digit),
        lower,
        upper,
    }
}

/// The letter that a text has over and over.
fn uniform(text: &str) -> Option<char> {
    let first = text.chars().next()?;
    text.chars().all(|letter| letter == first).then_some(first)
}

/// Where words stand that say that a sanitizer wrote a text: such an id is none.
fn marked(text: &str) -> Vec<usize> {
    const WORDS: [&str; 10] = [
        "redact", "mask", "filter", "remov", "hidden", "sanitiz", "sanitis", "secret", "omit",
        "private",
    ];
    if text.len() < 4 {
        return Vec::new();
    }
    let lower = text.to_ascii_lowercase();
    let mut at: Vec<usize> = WORDS
        .iter()
        .flat_map(|word| lower.match_indices(word))
        .flat_map(|(start, word)| start..start + word.len())
        .collect();
    at.sort_unstable();
    at.dedup();
    at
}

fn positional(letter: char, hexadecimal: bool) -> Set {
    match letter {
        '0'..='9' => Set::Of(DIGITS),
        'a'..='z' if hexadecimal => Set::Of(LOWER_HEX),
        'A'..='Z' if hexadecimal => Set::Of(UPPER_HEX),
        'a'..='z' => Set::Of(LOWER),
        'A'..='Z' => Set::Of(UPPER),
        _ => Set::wide(letter),
    }
}

fn is_crockford(letter: char) -> bool {
    letter.is_ascii_digit() || LOWER_CROCKFORD.contains(letter) || UPPER_CROCKFORD.contains(letter)
}

fn crockford(letter: char) -> Set {
    match letter {
        'a'..='z' if is_crockford(letter) => Set::Of(LOWER_CROCKFORD),
        'A'..='Z' if is_crockford(letter) => Set::Of(UPPER_CROCKFORD),
        _ => positional(letter, false),
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}
