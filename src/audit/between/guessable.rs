//! Session ids that the protocol does not allow, or that can be guessed (docs/findings.md,
//! `session-id-invalid`).
//!
//! Only ids that an answer gave to a request that did not name them: the server made those. One piece of
//! evidence for a reason and service, at the first session concerned, with their number: a server makes
//! all its ids alike.

use super::{Run, members};
use crate::model::{
    case::{Site, WeakIds, Weakness},
    exchange::{Exchange, Source},
    session::Session,
};
use foldhash::fast::FixedState;
use std::{
    collections::{BTreeMap, HashMap},
    hash::BuildHasher,
};

/// An id that can hold fewer bits than this can be guessed (half of what a random UUID has room for).
const ENOUGH_BITS: f64 = 64.0;
/// Numbers closer than this follow one another: sessions that the capture does not show, or the
/// milliseconds between two, lie between them.
const NEAR: u128 = 1 << 20;

/// An id that a server made, by where it is first seen.
#[derive(Clone, Copy)]
struct Made<'a> {
    id: &'a str,
    session: usize,
    number: u32,
}

/// The weak ids of a run, by session, each with the exchange that gave the first of them.
pub(super) fn look(run: Run<'_>) -> Vec<(usize, u32, WeakIds)> {
    let mut by_service: BTreeMap<u32, Vec<Made<'_>>> = BTreeMap::new();
    for ((session, found), &service) in run.grouping.sessions.iter().enumerate().zip(run.service_of)
    {
        if let Some(number) = given_by(found, run.exchanges) {
            by_service.entry(service).or_default().push(Made {
                id: &found.id,
                session,
                number,
            });
        }
    }
    let mut found = Vec::new();
    for made in by_service.values_mut() {
        made.sort_by_key(|made| made.number);
        found.extend(
            judge(made)
                .into_iter()
                .map(|(made, weak)| (made.session, made.number, weak)),
        );
    }
    found
}

/// The exchange that gave a session its id, when that is the server's own.
fn given_by(session: &Session, exchanges: &[Exchange]) -> Option<u32> {
    let (number, exchange) = members(session, exchanges).find(|(_, exchange)| {
        let given = exchange.response.as_ref();
        given.is_some_and(|response| response.session_id.as_ref() == Some(&session.id))
    })?;
    let request = exchange.request.as_ref()?;
    let masked = matches!(exchange.source, Source::Har { .. }) && is_mask(&session.id);
    (request.session_id.is_none() && !masked).then_some(number)
}

/// Whether a text is what sanitizers put in place of a value: a word that says so, or one character
/// over and over.
fn is_mask(id: &str) -> bool {
    const WORDS: [&str; 10] = [
        "redact", "mask", "filter", "remov", "hidden", "sanitiz", "sanitis", "secret", "omit",
        "private",
    ];
    let lower = id.to_lowercase();
    let mut inner = id.chars().filter(|c| !"[](){}<>_-".contains(*c));
    let first = inner.next();
    WORDS.iter().any(|word| lower.contains(word)) || inner.all(|c| Some(c) == first)
}

fn judge<'a>(made: &[Made<'a>]) -> Vec<(Made<'a>, WeakIds)> {
    let successors = successors(made);
    let mut reasons: BTreeMap<u8, (Made<'a>, WeakIds)> = BTreeMap::new();
    let mut note = |rank: u8, made: Made<'a>, why: Weakness| {
        let (_, known) = reasons.entry(rank).or_insert_with(|| {
            let (count, site) = (0, Site::default());
            (made, WeakIds { why, count, site })
        });
        known.count += 1;
    };
    for (&one, after) in made.iter().zip(successors) {
        if !one.id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) {
            note(0, one, Weakness::Characters);
        }
        let bits = bits(one.id);
        if let Some(other) = after {
            let other = other.id.to_owned();
            note(1, one, Weakness::Successors { other });
        } else if bits < ENOUGH_BITS {
            note(2, one, Weakness::Short { bits });
        }
    }
    reasons.into_values().collect()
}

/// How many bits an id of its length and character classes can hold.
#[allow(clippy::cast_precision_loss, reason = "ids are kept up to 8 KiB")]
fn bits(id: &str) -> f64 {
    let has = |class: fn(char) -> bool| id.chars().any(class);
    let lower = has(|c| c.is_ascii_lowercase());
    let upper = has(|c| c.is_ascii_uppercase());
    let letters = |letter: char| letter.is_ascii_alphabetic();
    let hex = lower != upper
        && id
            .chars()
            .filter(|&c| letters(c))
            .all(|c| c.is_ascii_hexdigit());
    let mut size = 0_u32;
    if has(|c| c.is_ascii_digit()) {
        size += 10;
    }
    if hex {
        size += 6;
    } else {
        size += if lower { 26 } else { 0 } + if upper { 26 } else { 0 };
    }
    // Dashes and low lines join parts, and are letters of base64url.
    if has(|c| matches!(c, '-' | '_')) {
        size += 2;
    }
    if has(|c| c.is_ascii_punctuation() && !matches!(c, '-' | '_')) {
        size += 30;
    }
    if has(|c| !c.is_ascii_graphic()) {
        size += 96;
    }
    f64::from(size.max(1)).log2() * id.chars().count() as f64
}

/// For each id another one that differs from it in one number alone, and by little.
fn successors<'a>(made: &[Made<'a>]) -> Vec<Option<Made<'a>>> {
    let mut next: Vec<Option<Made<'a>>> = vec![None; made.len()];
    let hasher = FixedState::default();
    // By what stands around a number: the last id that had it.
    let mut around: HashMap<(u64, usize), usize, FixedState> = HashMap::default();
    for (index, one) in made.iter().enumerate() {
        for (kind, (start, end)) in ends(one.id).into_iter().enumerate() {
            let (before, after) = (one.id.get(..start), one.id.get(end..));
            let key = (hasher.hash_one((before, after)), kind);
            let Some(last) = around.insert(key, index) else {
                continue;
            };
            let Some(other) = made.get(last).copied() else {
                continue;
            };
            if follow(other.id, one.id, before, after) {
                for (at, found) in [(last, *one), (index, other)] {
                    if let Some(slot) = next.get_mut(at) {
                        slot.get_or_insert(found);
                    }
                }
            }
        }
    }
    next
}

/// Where the first and the last run of letters and digits that has a digit stand.
fn ends(id: &str) -> Vec<(usize, usize)> {
    let mut first = None;
    let mut last = None;
    let mut start = 0;
    for part in id.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let run = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if run.bytes().any(|byte| byte.is_ascii_digit()) {
            let place = (start, start + run.len());
            first.get_or_insert(place);
            last = Some(place);
        }
        start += part.len();
    }
    let mut ends: Vec<_> = first.into_iter().chain(last).collect();
    ends.dedup();
    ends
}

/// Whether two ids are alike around a run, and what stands there are numbers near each other.
fn follow(a: &str, b: &str, before: Option<&str>, after: Option<&str>) -> bool {
    let run = |id: &'_ str| -> Option<String> {
        let inner = id.strip_prefix(before?)?.strip_suffix(after?)?;
        Some(inner.to_owned())
    };
    let (Some(a), Some(b)) = (run(a), run(b)) else {
        return false;
    };
    // Leading letters are a name, when both have them.
    let name = a
        .bytes()
        .zip(b.bytes())
        .take_while(|(a, b)| a == b && a.is_ascii_alphabetic())
        .count();
    [0, name].iter().any(|&skip| {
        let numbers = a.get(skip..).zip(b.get(skip..));
        numbers.is_some_and(|(a, b)| {
            let any = |class: fn(&u8) -> bool| a.bytes().chain(b.bytes()).any(|byte| class(&byte));
            // Letters of both cases are no digits of a number.
            let mixed = any(u8::is_ascii_lowercase) && any(u8::is_ascii_uppercase);
            let bases: &[u32] = if mixed { &[10] } else { &[10, 16, 36] };
            bases.iter().any(|&base| {
                let number = |text: &str| u128::from_str_radix(text, base).ok();
                number(a)
                    .zip(number(b))
                    .is_some_and(|(a, b)| a != b && a.abs_diff(b) <= NEAR)
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(ids: &[&str]) -> Vec<(String, u32)> {
        let made: Vec<Made<'_>> = (0..)
            .zip(ids)
            .map(|(number, id)| Made {
                id,
                session: number as usize,
                number,
            })
            .collect();
        judge(&made)
            .into_iter()
            .map(|(made, weak)| (format!("{:?} {}", weak.why, made.id), weak.count))
            .collect()
    }

    #[test]
    fn ids_of_implementations_are_fine() {
        for ids in [
            [
                "1868a90c-05b6-4b2e-9c8e-0d6f1ce6b0a1",
                "9b2f6c41-77aa-4d0e-8f13-5a5e0c9d2b7e",
            ],
            [
                "b15304df22214fbba7820f7e2c58db8d",
                "d450abb37d4541b8b514d283a8669fb7",
            ],
            [
                "mcp-session-3f1a7c2e-5b6d-4e8f-9a0b-1c2d3e4f5a6b",
                "mcp-session-11111111-2222-4333-8444-555555555555",
            ],
            ["Q7X4T2KHV5ZJ3M6N2P4R7S5W3Y", "ZC5M7RPO2LJ4VX3QEY6TWA4HKU"],
            ["kS3bT0dQW8y1m2-0_zX9aB", "7fGq_rM1c0Yt5LwZp-8hNQ"],
            [
                "session_dGhpcyBpcyByYW5kb20gMQ==",
                "session_c29tZXRoaW5nIGVsc2UgMg==",
            ],
        ] {
            assert_eq!(reasons(&ids), [], "{ids:?}");
        }
    }

    #[test]
    fn numbers_that_follow_one_another_are_found_wherever_they_stand() {
        for ids in [
            ["1001", "1002"],
            [
                "00000000-0000-4000-8000-000000000009",
                "00000000-0000-4000-8000-00000000000a",
            ],
            [
                "session-of-the-server-1735689600123",
                "session-of-the-server-1735689605400",
            ],
            [
                "17-of-a-server-with-a-long-name",
                "18-of-a-server-with-a-long-name",
            ],
            [
                "a-server-with-a-long-name-s9",
                "a-server-with-a-long-name-s10",
            ],
        ] {
            let found = reasons(&ids);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].0.starts_with("Successors"), "{found:?}");
            assert_eq!(found[0].1, 2);
        }
    }

    #[test]
    fn short_ids_and_ids_of_other_characters_are_told_once_with_their_number() {
        assert_eq!(
            reasons(&["k3j9x2", "a8d7f1c0", "zweiundzwanzig Zeichen"]),
            [
                ("Characters zweiundzwanzig Zeichen".to_owned(), 1),
                (format!("Short {{ bits: {:?} }} k3j9x2", bits("k3j9x2")), 2),
            ]
        );
        assert!(bits("8f3a9c2e1b7d4f60") >= ENOUGH_BITS);
        assert!(bits("8f3a9c2e1b7d4f6") < ENOUGH_BITS);
    }

    #[test]
    fn what_sanitizers_write_is_no_id() {
        for mask in [
            "[redacted]",
            "REDACTED",
            "***",
            "<masked>",
            "xxxxxxxx",
            "••••",
            "[Filtered]",
            "x",
        ] {
            assert!(is_mask(mask), "{mask}");
        }
        for id in ["1001", "b15304df22214fbba7820f7e2c58db8d", "session-1"] {
            assert!(!is_mask(id), "{id}");
        }
    }
}
