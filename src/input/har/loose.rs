//! JSON values as exporters write them: a number may be a string, anything may be missing.

use crate::model::time::Timestamp;
use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// A JSON object, its values unparsed. Of equal names the last counts, as in JavaScript.
#[derive(Debug, Default)]
pub(super) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// The object that `text` is; an error says where it is no JSON.
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        if !text.starts_with('{') {
            return Err("not an object".to_owned());
        }
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The object at `name`; empty when there is none.
    pub(super) fn object(&self, name: &str) -> Self {
        self.value(name)
            .and_then(|value| Self::parse(value.get()).ok())
            .unwrap_or_default()
    }

    /// The value at `name`, unless it is `null`.
    pub(super) fn value(&self, name: &str) -> Option<&'a RawValue> {
        self.0
            .iter()
            .rev()
            .find(|(have, _)| have == name)
            .map(|&(_, value)| value)
            .filter(|value| value.get() != "null")
    }

    /// The text at `name`: a string, or a number or boolean as it stands.
    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.value(name).and_then(text)
    }

    /// The text at `name`, unless it is empty.
    pub(super) fn said(&self, name: &str) -> Option<Cow<'a, str>> {
        self.text(name).filter(|text| !text.is_empty())
    }

    /// The number at `name` in units of 10^`power`, also from a string; see [`decimal`].
    pub(super) fn number(&self, name: &str, power: i32) -> Option<i64> {
        self.text(name).and_then(|text| decimal(text.trim(), power))
    }

    /// Whether `name` is `true`.
    pub(super) fn truth(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value.get() == "true")
    }

    /// All members in order.
    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                    if members.len() < MEMBERS {
                        members.push((text(name).unwrap_or_default(), value));
                    }
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Members).map(Self)
    }
}

/// The first `limit` elements of an array, and whether there are more; none when `value` is no
/// array.
pub(super) fn elements(value: &RawValue, limit: usize) -> (Vec<&RawValue>, bool) {
    struct Elements(usize);
    impl<'de> Visitor<'de> for Elements {
        type Value = (Vec<&'de RawValue>, bool);

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut elements = Vec::new();
            let mut more = false;
            while let Some(element) = seq.next_element()? {
                more = elements.len() >= self.0;
                if !more {
                    elements.push(element);
                }
            }
            Ok((elements, more))
        }
    }
    if !value.get().starts_with('[') {
        return (Vec::new(), false);
    }
    serde_json::Deserializer::from_str(value.get())
        .deserialize_seq(Elements(limit))
        .unwrap_or_default()
}

/// A string, or a number or boolean as it stands. Lone surrogates, which JavaScript's strings may
/// have, come out as U+FFFD.
pub(super) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let json = value.get();
    let Some(inner) = json
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
    else {
        let scalar = !json.starts_with(['{', '[', 'n']);
        return scalar.then_some(Cow::Borrowed(json));
    };
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    let Unescaped(bytes) = serde_json::from_str(json).ok()?;
    Some(Cow::Owned(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }))
}

/// The bytes of a JSON string.
struct Unescaped(Vec<u8>);

impl<'de> Deserialize<'de> for Unescaped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }
        }
        deserializer.deserialize_bytes(Bytes).map(Self)
    }
}

/// The JSON number `text` times 10^`power`, rounded to the nearest; exact where binary floating
/// point is not. `None` when it is no number or does not fit.
pub(super) fn decimal(text: &str, power: i32) -> Option<i64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // How many digits of the mantissa stand before the decimal point of the result.
    let point = i64::try_from(whole.len())
        .ok()?
        .checked_add(i64::from(exponent))?
        .checked_add(i64::from(power))?;
    let mut value = 0_i128;
    let mut at = 0_i64;
    for digit in whole.bytes().chain(fraction.bytes()) {
        if !digit.is_ascii_digit() {
            return None;
        }
        let digit = i128::from(digit - b'0');
        if at < point {
            value = value.checked_mul(10)?.checked_add(digit)?;
        } else if at == point && digit >= 5 {
            value = value.checked_add(1)?;
        }
        at += 1;
    }
    while at < point && value != 0 {
        value = value.checked_mul(10)?;
        at += 1;
    }
    i64::try_from(if negative { -value } else { value }).ok()
}

/// An instant given as a number since the epoch: seconds as Chrome has them, but milli-, micro-
/// or nanoseconds when only they make a date of our time.
pub(super) fn epoch(text: &str) -> Option<Timestamp> {
    let whole = decimal(text, 0)?;
    let power = match whole.unsigned_abs() {
        0..100_000_000_000 => 9,
        100_000_000_000..100_000_000_000_000 => 6,
        100_000_000_000_000..100_000_000_000_000_000 => 3,
        _ => 0,
    };
    decimal(text, power).map(Timestamp::from_nanos)
}

/// An instant as RFC 3339 has it; also without zone (UTC), seconds or fraction, with a space for
/// the `T`, a comma for the point, a fraction of any length (cut at nanoseconds), an offset
/// without colon, or as a number since the epoch.
pub(super) fn instant(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if !text.contains(':') {
        return epoch(text);
    }
    let mut rest = Cursor(text);
    let year = rest.digits(4)?;
    rest.skip('-')?;
    let month = rest.digits(2)?;
    rest.skip('-')?;
    let day = rest.digits(2)?;
    if !(rest.eat('T') || rest.eat('t') || rest.eat(' ')) {
        return None;
    }
    let hour = rest.digits(2)?;
    rest.skip(':')?;
    let minute = rest.digits(2)?;
    let second = if rest.eat(':') { rest.digits(2)? } else { 0 };
    let nanos = if rest.eat('.') || rest.eat(',') {
        rest.fraction()?
    } else {
        0
    };
    rest.eat(' ');
    let offset = rest.offset()?;
    if !rest.0.is_empty() {
        return None;
    }
    // A leap second (60) is the first of the next minute, as in POSIX time.
    let (second, leap) = if second == 60 { (59, 1) } else { (second, 0) };
    let narrow = |value: i64| i8::try_from(value).ok();
    let civil = jiff::civil::DateTime::new(
        i16::try_from(year).ok()?,
        narrow(month)?,
        narrow(day)?,
        narrow(hour)?,
        narrow(minute)?,
        narrow(second)?,
        0,
    )
    .ok()?;
    let seconds = jiff::tz::Offset::UTC.to_timestamp(civil).ok()?.as_second();
    Some(Timestamp::from_parts(seconds + leap - offset, nanos))
}

struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
        self.0 = rest;
        plain.then(|| digits.parse().ok()).flatten()
    }

    fn eat(&mut self, c: char) -> bool {
        let rest = self.0.strip_prefix(c);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn skip(&mut self, c: char) -> Option<()> {
        self.eat(c).then_some(())
    }

    /// Digits after the point, as nanoseconds.
    fn fraction(&mut self) -> Option<i64> {
        let len = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        let kept = digits.get(..9).unwrap_or(digits);
        let value: i64 = kept.parse().ok()?;
        let missing = u32::try_from(9 - kept.len()).ok()?;
        Some(value * 10_i64.pow(missing))
    }

    /// The offset from UTC in seconds.
    fn offset(&mut self) -> Option<i64> {
        if self.0.is_empty() || self.eat('Z') || self.eat('z') {
            return Some(0);
        }
        let sign = if self.eat('+') {
            1
        } else if self.eat('-') || self.eat('\u{2212}') {
            -1
        } else {
            return None;
        };
        let hours = self.digits(2)?;
        self.eat(':');
        let minutes = if self.0.is_empty() {
            0
        } else {
            self.digits(2)?
        };
        (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
    }
}

/// Bytes of a base64 text of either alphabet, with or without padding and line ends.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    let plain = |byte: u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => other,
    };
    let clean: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(plain)
        .collect();
    BASE64.decode(clean).ok()
}

/// Members kept of one object: an entry has some thirty, the largest head a few hundred.
const MEMBERS: usize = 4096;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test may panic"
)]
mod tests {
    use super::*;

    #[test]
    fn reads_decimals_exactly() {
        let table = [
            ("1795985437.217595", 9, Some(1_795_985_437_217_595_000)),
            ("1795986245.4141378", 9, Some(1_795_986_245_414_137_800)),
            ("1795985437", 9, Some(1_795_985_437_000_000_000)),
            ("1.795985437217595e9", 9, Some(1_795_985_437_217_595_000)),
            ("23.645999999871492", 6, Some(23_646_000)),
            ("9.909391403198242", 6, Some(9_909_391)),
            ("-1", 6, Some(-1_000_000)),
            ("-1.0", 0, Some(-1)),
            ("0.4", 0, Some(0)),
            ("0.5", 0, Some(1)),
            ("0.05", 0, Some(0)),
            ("1e-3", 6, Some(1000)),
            ("5e-7", 6, Some(1)),
            ("5e-8", 6, Some(0)),
            ("5e-2000000000", 6, Some(0)),
            ("0e2000000000", 9, Some(0)),
            ("1e2000000000", 9, None),
            ("1e99999999999", 9, None),
            ("99999999999999999999", 0, None),
            ("", 0, None),
            ("-", 0, None),
            (".", 0, None),
            ("x", 0, None),
            ("1x", 0, None),
            ("NaN", 0, None),
        ];
        for (text, power, value) in table {
            assert_eq!(decimal(text, power), value, "{text} {power}");
        }
    }

    #[test]
    fn reads_instants_in_every_dialect() {
        let whole = 1_795_985_437_000_000_000_i64;
        let table = [
            ("2026-11-29T20:50:37Z", 0),
            ("2026-11-29T20:50:37.217Z", 217_000_000),
            ("2026-11-29t20:50:37.217z", 217_000_000),
            ("2026-11-29T20:50:37.217595+00:00", 217_595_000),
            ("2026-11-30T02:20:37.217+05:30", 217_000_000),
            ("2026-11-29T15:20:37.217-0530", 217_000_000),
            ("2026-11-29T21:50:37+01", 0),
            ("2026-11-29T20:50:37.123456789987654Z", 123_456_789),
            ("2026-11-29 20:50:37,5", 500_000_000),
            ("2026-11-29T20:50:37", 0),
            (" 2026-11-29T20:50:37.000Z ", 0),
            ("1795985437217.5", 217_500_000),
            ("1795985437.2175", 217_500_000),
            ("1795985437217595", 217_595_000),
            ("1795985437217595123", 217_595_123),
        ];
        for (text, nanos) in table {
            assert_eq!(
                instant(text).map(Timestamp::nanos),
                Some(whole + nanos),
                "{text}"
            );
        }
        let leap = instant("2016-12-31T23:59:60Z").map(Timestamp::nanos);
        assert_eq!(leap, instant("2017-01-01T00:00:00Z").map(Timestamp::nanos));
        for bad in [
            "",
            "x",
            "2026-13-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-11-29T25:00:00Z",
            "2026-11-29",
            "2026-11-29T20:50:37+",
            "2026-11-29T20:50:37+99:00",
            "é:",
            "2026-11-29T20:50:37Zx",
            "2026-11-29T20:50:é7",
        ] {
            assert_eq!(instant(bad), None, "{bad}");
        }
    }

    #[test]
    fn reads_text_of_any_kind() {
        let object = Object::parse(
            r#"{"a":"x","b":1.50,"c":null,"d":{},"e":"\ud800\u00e9\n","f":true,"\u0061":"last","g":[1,"2"]}"#,
        )
        .unwrap();
        assert_eq!(object.text("a").as_deref(), Some("last"));
        assert_eq!(object.text("b").as_deref(), Some("1.50"));
        assert_eq!(object.number("b", 1), Some(15));
        assert_eq!(object.text("c"), None);
        assert_eq!(object.text("d"), None);
        assert!(object.text("e").unwrap().ends_with("é\n"));
        assert!(object.truth("f"));
        let list = object.value("g").unwrap();
        assert_eq!(elements(list, 2).0.len(), 2);
        assert!(!elements(list, 2).1);
        assert_eq!(elements(list, 1).0.len(), 1);
        assert!(elements(list, 1).1);
        assert!(elements(object.value("f").unwrap(), 2).0.is_empty());
        assert!(Object::parse("7").is_err());
        assert!(Object::parse(r#"{"a":}"#).is_err());
    }

    #[test]
    fn reads_base64_of_either_alphabet() {
        assert_eq!(base64("aGk/aGk+").as_deref(), Some(&b"hi?hi>"[..]));
        assert_eq!(base64("aGk_aGk-").as_deref(), Some(&b"hi?hi>"[..]));
        assert_eq!(base64("aA==\r\n").as_deref(), Some(&b"h"[..]));
        assert_eq!(base64("a\nA").as_deref(), Some(&b"h"[..]));
        assert_eq!(base64("!"), None);
    }
}
