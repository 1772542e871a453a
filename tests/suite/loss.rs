//! What is missing from a capture weakens what is said of it, and accuses nobody.
//!
//! Packets are left out of every talk and of every small real capture: each in turn, bursts of
//! neighbours, and random sets. What is then said of each resume and each session is held against what
//! the whole capture says.
//!
//! # The order of verdicts
//!
//! The verdict is the first row of the table in docs/audit.md that applies, and each row asks for
//! evidence that the rows below it do without. When packets take evidence away, a resume may fall to a
//! row below, or to `indeterminate`, since a hole covers what would decide; it never climbs into
//! an accusation, and it never moves between rows that say different things of one answer:
//!
//! ```text
//!            forked
//!           /      \
//!      replayed    lossy        ignored   rejected   failed
//!           \      /               |         |         |
//!          continued ---------- empty        |         |
//!               \                |           |         |
//!                `--------- indeterminate -------------'
//! ```
//!
//! - `forked` rests on ids, payloads, heads and on what was delivered before. An answer that goes back
//!   is without them a `replayed`, and one that nothing contradicts is `continued`.
//! - `replayed` says that an answer begins before its place, `lossy` that it begins behind it: neither
//!   becomes the other, and neither proves a fork.
//! - `ignored` says that nothing came though something was owed. Where something did come, a hole in its
//!   place is no silence; where nothing did, what was owed may be what is missing: `empty`.
//! - `rejected` and `failed` are statuses: seen or not seen.
//! - `continued`, `empty` and `indeterminate` accuse nobody. What held a verdict open (a stream that may
//!   yet bring something) may be missing itself, so `indeterminate` may become either of the others; and
//!   where heads are missing an answer may be taken for another's, so that `empty` and `continued` may change
//!   places.
//!
//! # What leaves no trace
//!
//! Bytes that are missing show in the sequence numbers of what follows them and in acknowledgments. When
//! all of that is missing too, the capture is, byte for byte, one of other traffic: an exchange that never
//! was, a stream that is open and silent. No reader can know better, so such losses are not held
//! against it ([`leaves_no_trace`]); the test counts them.

use crate::{
    talk::{
        model::Talk,
        parse::parse,
        tcp::{Packet, packets, packets_h2},
        tls,
    },
    talks::{pcap, talks},
    tls::{audit, blocks, capture_paths},
};
use forkscope::model::{
    analysis::{Analysis, Finding, Resume},
    exchange::Exchange,
    flow::{Blank, Endpoint},
    id::SessionId,
    verdict::{Severity, Verdict},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Each packet of every talk in turn, bursts and random sets.
#[test]
fn packets_missing_from_a_talk_accuse_nobody() {
    let subjects = talks().into_iter().map(|talk| {
        let capture = Capture::of(&talk, &packets(&talk), String::new());
        (capture, talk)
    });
    hold(subjects, some);
}

/// The same of one in three talks in HTTP/2, where a lost head takes away what later ones refer to.
#[test]
fn packets_missing_from_a_talk_in_http2_accuse_nobody() {
    let subjects = talks().into_iter().step_by(3).filter_map(|talk| {
        let packets = packets_h2(&talk).ok()?;
        Some((Capture::of(&talk, &packets, String::new()), talk))
    });
    hold(subjects, some);
}

/// The same of some of them over TLS, where a lost packet takes a record or the handshake with it, and how much of a
/// frame is gone is told before it is known.
#[test]
fn packets_missing_from_a_talk_in_http2_over_tls_accuse_nobody() {
    hold(over_tls(&HTTP2_TLS_1_3, 0, 5), some);
}

/// The same in HTTP/1.1, where without a hello nothing of a connection can be read.
#[test]
fn packets_missing_from_a_talk_over_tls_accuse_nobody() {
    hold(
        over_tls(&TLS_1_3, 1, 5).chain(over_tls(&TLS_1_2, 2, 15)),
        some,
    );
}

/// All of it: every packet of every talk over TLS, every two and every three neighbours. `FORKSCOPE_TALK` chooses talks.
#[test]
#[ignore = "takes many minutes"]
fn any_packets_missing_over_tls_1_3_accuse_nobody() {
    hold(over_tls(&TLS_1_3, 0, 1), every);
}

#[test]
#[ignore = "takes many minutes"]
fn any_packets_missing_over_tls_1_2_accuse_nobody() {
    hold(over_tls(&TLS_1_2, 0, 1), every);
}

#[test]
#[ignore = "takes many minutes"]
fn any_packets_missing_in_http2_over_tls_1_3_accuse_nobody() {
    hold(over_tls(&HTTP2_TLS_1_3, 0, 1), every);
}

#[test]
#[ignore = "takes many minutes"]
fn any_packets_missing_in_http2_over_tls_1_2_accuse_nobody() {
    hold(over_tls(&HTTP2_TLS_1_2, 0, 1), every);
}

/// What is excused goes wrong still: an entry that was mended must go.
#[test]
fn what_is_known_to_go_wrong_over_tls_still_does() {
    let mut mended = BTreeSet::from(KNOWN);
    for wire in [&TLS_1_3, &HTTP2_TLS_1_3, &TLS_1_2, &HTTP2_TLS_1_2] {
        let mut left = talks();
        left.retain(|talk| mended.iter().any(|(name, _)| *name == talk.name));
        for (capture, talk) in sealed(left.into_iter(), wire) {
            let whole = audit(&talk, &capture.without(&[]), &capture.keys);
            let losses = every(&capture);
            let found = losses
                .iter()
                .filter_map(|lost| problems((&capture, &talk), &whole, lost).ok())
                .flat_map(|(found, _)| found)
                .find_map(|problem| known(&capture, &problem));
            if let Some(found) = found {
                mended.remove(found);
            }
        }
    }
    assert!(mended.is_empty(), "no longer wrong: {mended:?}");
}

/// A version of TLS, and what it protects.
type Wire = (tls::Version, bool);

const TLS_1_3: Wire = (tls::VERSIONS[1].1, false);
const TLS_1_2: Wire = (tls::VERSIONS[0].1, false);
const HTTP2_TLS_1_3: Wire = (tls::VERSIONS[1].1, true);
const HTTP2_TLS_1_2: Wire = (tls::VERSIONS[0].1, true);

/// Every `step`th talk over TLS from `first` on.
fn over_tls(wire: &Wire, first: usize, step: usize) -> impl Iterator<Item = (Capture, Talk)> {
    sealed(talks().into_iter().skip(first).step_by(step), wire)
}

/// Talks over TLS.
fn sealed(
    talks: impl Iterator<Item = Talk>,
    &(version, http2): &Wire,
) -> impl Iterator<Item = (Capture, Talk)> {
    talks.filter_map(move |talk| {
        let (packets, keys) = if http2 {
            tls::packets_h2(&talk, version).ok()?
        } else {
            tls::packets(&talk, version)
        };
        Some((Capture::of(&talk, &packets, keys), talk))
    })
}

/// The same of every capture of fixtures/real that is a classic pcap file: the others are copies of
/// them in other formats, or far larger. Of those with more than [`SINGLES`] packets every second,
/// third, … is left out in turn.
#[test]
fn packets_missing_from_a_real_capture_accuse_nobody() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/real");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "pcap")
        })
        .collect();
    paths.sort();
    let only = std::env::var("FORKSCOPE_REAL").unwrap_or_default();
    let subjects = paths
        .iter()
        .filter(|path| path.to_string_lossy().contains(&only))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy();
            // Any talk will do: only its options are used, and it has none.
            let talk = parse(&name, "expect sessions 0").unwrap();
            (Capture::cut(&name, &fs::read(path).unwrap()), talk)
        });
    hold(subjects, some);
}

/// The same of what nginx said over TLS, in HTTP/1.1 and HTTP/2 (fixtures/tls), where a lost packet takes its
/// records with it.
#[test]
fn packets_missing_from_tls_of_nginx_accuse_nobody() {
    let subjects = capture_paths().into_iter().filter_map(|path| {
        let name = path.file_stem()?.to_string_lossy().into_owned();
        let talk = parse(&name, "expect sessions 0").unwrap();
        let nginx = name.starts_with("nginx");
        nginx.then(|| (Capture::cut_pcapng(&name, &fs::read(&path).unwrap()), talk))
    });
    // On loopback a packet has a whole answer, and nothing acknowledges its like once a client has hung up.
    hold_traced(subjects, some, 5);
}

/// A capture file, cut into its records.
struct Capture {
    name: String,
    head: Vec<u8>,
    records: Vec<Vec<u8>>,
    /// The key log of what is TLS in it.
    keys: String,
    /// The connection and the side that each record is of, where that is known.
    origins: Vec<(usize, usize)>,
}

impl Capture {
    fn of(talk: &Talk, packets: &[Packet], keys: String) -> Self {
        let origins = packets
            .iter()
            .map(|packet| (packet.connection, packet.from as usize));
        let capture = Self::cut(&talk.name, &pcap(talk, packets));
        assert_eq!(capture.records.len(), packets.len(), "a record a packet");
        Self {
            keys,
            origins: origins.collect(),
            ..capture
        }
    }

    /// The records of each side of each connection.
    fn sides(&self) -> Vec<Vec<usize>> {
        let mut sides: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (index, origin) in self.origins.iter().enumerate() {
            sides.entry(*origin).or_default().push(index);
        }
        sides.into_values().collect()
    }

    /// The records of connections on which a session is not named.
    fn beside(&self, session: &SessionId, whole: &Analysis) -> Vec<usize> {
        let connection = |exchange: &Exchange| {
            let record = usize::try_from(exchange.place.frame).ok()?.checked_sub(1)?;
            Some(self.origins.get(record)?.0)
        };
        let own: BTreeSet<usize> = whole
            .exchanges
            .iter()
            .filter(|exchange| names(exchange, session))
            .filter_map(connection)
            .collect();
        (0..self.records.len())
            .filter(|&record| {
                let origin = self.origins.get(record);
                origin.is_some_and(|(connection, _)| !own.contains(connection))
            })
            .collect()
    }

    fn cut(name: &str, bytes: &[u8]) -> Self {
        let (head, mut rest) = bytes.split_at_checked(24).unwrap_or((bytes, &[]));
        let big_endian = head.first() == Some(&0xa1);
        let mut records = Vec::new();
        // A record cut off by the end of the file is one, too.
        while rest.len() >= 16 {
            let length: [u8; 4] = rest[8..12].try_into().unwrap();
            let length = if big_endian {
                u32::from_be_bytes(length)
            } else {
                u32::from_le_bytes(length)
            };
            let (record, more) = rest.split_at(rest.len().min(16 + length as usize));
            records.push(record.to_vec());
            rest = more;
        }
        Self {
            name: name.to_owned(),
            head: head.to_vec(),
            records,
            keys: String::new(),
            origins: Vec::new(),
        }
    }

    /// A pcapng; its secrets go before the packets.
    fn cut_pcapng(name: &str, bytes: &[u8]) -> Self {
        /// An enhanced packet block.
        const PACKET: u32 = 6;
        let kind = |block: &Vec<u8>| u32::from_le_bytes(block[..4].try_into().unwrap());
        let (blocks, secrets) = blocks(bytes);
        let (records, others): (Vec<Vec<u8>>, Vec<Vec<u8>>) =
            blocks.into_iter().partition(|block| kind(block) == PACKET);
        let mut others = others.into_iter();
        let section = others.next().unwrap();
        let interfaces: Vec<u8> = others.filter(|block| kind(block) == 1).flatten().collect();
        Self {
            name: name.to_owned(),
            head: [section, secrets, interfaces].concat(),
            records,
            keys: String::new(),
            origins: Vec::new(),
        }
    }

    /// The file without some records, given by index and in order.
    fn without(&self, lost: &[usize]) -> Vec<u8> {
        let mut bytes = self.head.clone();
        for (index, record) in self.records.iter().enumerate() {
            if lost.binary_search(&index).is_err() {
                bytes.extend(record);
            }
        }
        bytes
    }
}

/// Holds captures with packets missing against the whole ones.
fn hold(subjects: impl Iterator<Item = (Capture, Talk)>, losses: fn(&Capture) -> Vec<Vec<usize>>) {
    hold_traced(subjects, losses, 8);
}

/// The same; less than one loss in `share` may leave no trace.
fn hold_traced(
    subjects: impl Iterator<Item = (Capture, Talk)>,
    losses: fn(&Capture) -> Vec<Vec<usize>>,
    share: usize,
) {
    let (mut bad, mut failed) = (BTreeSet::new(), 0);
    let (mut audits, mut untraced, mut judged) = (0, 0, 0);
    for (capture, talk) in subjects {
        let whole = audit(&talk, &capture.without(&[]), &capture.keys);
        let problems = |lost: &[usize]| {
            problems((&capture, &talk), &whole, lost).map(|(mut found, resumes)| {
                found.retain(|problem| known(&capture, problem).is_none());
                (found, resumes)
            })
        };
        let mut shown = 0;
        let sides = capture.sides();
        for lost in losses(&capture) {
            audits += 1;
            let (found, resumes) = match problems(&lost) {
                Ok(found) => found,
                Err(said) => {
                    // Of a side that is missing nothing may be left.
                    untraced += usize::from(!said && !sides.contains(&lost));
                    continue;
                }
            };
            judged += resumes;
            if found.is_empty() {
                continue;
            }
            failed += 1;
            shown += 1;
            if shown > SHOWN {
                continue;
            }
            let wrong = |lost: &[usize]| problems(lost).is_ok_and(|(found, _)| !found.is_empty());
            let least = least(lost, wrong);
            let frames: Vec<usize> = least.iter().map(|index| index + 1).collect();
            for problem in problems(&least).map_or(found, |(found, _)| found) {
                bad.insert(format!(
                    "{} without frames {frames:?}: {problem}\n",
                    capture.name
                ));
            }
        }
    }
    assert!(
        failed == 0,
        "{failed} of {audits} captures accuse falsely\n{}",
        bad.into_iter().collect::<String>()
    );
    assert!(judged > 0, "no resume was judged in {audits} captures");
    assert!(
        untraced * share < audits,
        "{untraced} of {audits} losses leave no trace: too few are held against the audit"
    );
}

/// What is said falsely of a capture without some records, and how many resumes were judged; or, where the loss leaves
/// no trace, whether it is said at least that a connection could not be read.
fn problems(
    (capture, talk): (&Capture, &Talk),
    whole: &Analysis,
    lost: &[usize],
) -> Result<(Vec<String>, usize), bool> {
    let less = audit(talk, &capture.without(lost), &capture.keys);
    if leaves_no_trace(whole, &less) {
        // Without its handshake TLS cannot be read, and that is said of its connection.
        return Err(opaque(&less) > opaque(whole));
    }
    let found = unfounded(whole, &less, &|session| {
        let rest = capture.without(&capture.beside(session, whole));
        audit(talk, &rest, &capture.keys)
    });
    Ok((found, less.resumes.len()))
}

/// The entry of [`KNOWN`] that a problem is.
fn known(capture: &Capture, problem: &str) -> Option<&'static (&'static str, &'static str)> {
    let code = problem.strip_prefix("finding ")?;
    KNOWN.iter().find(|(talk, known)| {
        let this = *talk == capture.name && code.split(' ').next() == Some(known);
        this && !capture.keys.is_empty()
    })
}

/// Connections of TLS that could not be read.
fn opaque(analysis: &Analysis) -> u64 {
    let inputs = analysis.inputs.iter();
    inputs.map(|input| input.tls_opaque).sum()
}

/// What is known to go wrong still over TLS, by talk and code: to be mended, not to be added to.
const KNOWN: [(&str, &str); 7] = [
    // Neither the SYN nor the reset that refused it is there: nothing tells of the restart.
    ("refused-after-a-restart-that-shows", "lost-on-disconnect"),
    // Of the client's own connection the handshake is missing: what the proxy did is all that is seen of the session.
    ("proxy-asks-another-replica-after-404", "misrouted"),
    ("proxy-that-mirrors-requests", "misrouted"),
    // The sessions that showed the farm are not seen.
    ("shared-through-a-farm-of-proxies", "session-shared"),
    // Nor are the calls that showed a habit.
    ("ok-called-again-and-again", "executed-twice"),
    // The initialize of the next session is not seen, and its answer is taken for another request's.
    (
        "lost-at-the-next-write-after-the-cut",
        "unknown-session-allocation",
    ),
    (
        "refused-conflict-and-gives-up",
        "unknown-session-allocation",
    ),
];

/// The smallest part of a loss that still goes wrong, as far as leaving out one packet at a time finds
/// it.
fn least(lost: Vec<usize>, wrong: impl Fn(&[usize]) -> bool) -> Vec<usize> {
    let mut least = lost;
    let mut index = 0;
    while index < least.len() {
        let mut fewer = least.clone();
        fewer.remove(index);
        if wrong(&fewer) {
            least = fewer;
        } else {
            index += 1;
        }
    }
    least
}

/// Losses of every kind, as many as the suite has time for.
fn some(capture: &Capture) -> Vec<Vec<usize>> {
    let count = capture.records.len();
    let mut all = singles(count);
    all.extend(bursts(count));
    all.extend(capture.sides());
    all.extend(random(&capture.name, count));
    all
}

/// Each packet, each two and each three neighbours, and each side of a connection; random sets.
fn every(capture: &Capture) -> Vec<Vec<usize>> {
    let count = capture.records.len();
    let mut all = Vec::new();
    for length in 1..=3 {
        for first in 0..=count.saturating_sub(length) {
            all.push((first..count.min(first + length)).collect());
        }
    }
    all.extend(capture.sides());
    all.extend(random(&capture.name, count));
    all
}

/// Each packet by itself; of a longer capture every second, third, …
fn singles(count: usize) -> Vec<Vec<usize>> {
    let step = count.div_ceil(SINGLES).max(1);
    (0..count).step_by(step).map(|index| vec![index]).collect()
}

/// Neighbours: a tap that is overrun loses packets in bursts.
fn bursts(count: usize) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    for length in [2, 4, 8, 16] {
        let step = length.max(count.div_ceil(SINGLES / length).max(1));
        for first in (0..count.saturating_sub(length)).step_by(step) {
            all.push((first..first + length).collect());
        }
    }
    all
}

/// Random packets: 0.5 %, 2 % and 10 % of all. What loses nothing shows nothing and is left out.
fn random(name: &str, count: usize) -> Vec<Vec<usize>> {
    let mut dice = Dice::of(name);
    let mut all = Vec::new();
    for per_mille in [5, 20, 100] {
        for _ in 0..DRAWS {
            let lost: Vec<usize> = (0..count).filter(|_| dice.roll(1000) < per_mille).collect();
            if !lost.is_empty() {
                all.push(lost);
            }
        }
    }
    all
}

/// Numbers that look random and are the same in every run (xorshift64*).
struct Dice(u64);

impl Dice {
    fn of(name: &str) -> Self {
        let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(seed | 1)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % sides
    }
}

/// Whether something was lost that nothing left tells of: an exchange is gone altogether and no place is
/// known where it may have been, or events, an answer or an end are, and the exchange has no hole.
fn leaves_no_trace(whole: &Analysis, less: &Analysis) -> bool {
    whole.exchanges.iter().any(|before| {
        let rest = less.exchanges.iter().find(|after| is_same(before, after));
        let Some(after) = rest else {
            return !less.blanks.iter().any(|blank| covers(blank, before));
        };
        let headless = after.request.is_none() && before.request.is_some();
        let traced = headless || !after.holes.is_empty();
        let fewer = before.response.is_some() != after.response.is_some()
            || before.events.len() != after.events.len()
            || after.is_open() && !before.is_open();
        fewer && !traced
    })
}

/// Whether an exchange may be what is missing there.
fn covers(blank: &Blank, exchange: &Exchange) -> bool {
    exchange.client.as_ref().and_then(Endpoint::ip) == Some(blank.client)
        && exchange.server == Some(Endpoint::Address(blank.server))
        && blank.from <= exchange.end.time
        && blank.until >= exchange.time()
}

/// Whether one is what is left of the other: the same ends, and the first byte of request or response
/// came at the same time.
fn is_same(a: &Exchange, b: &Exchange) -> bool {
    let request = |x: &Exchange| x.request.as_ref().map(|request| request.time);
    let response = |x: &Exchange| x.response.as_ref().map(|response| response.time);
    let same = |a: Option<_>, b: Option<_>| a.is_some() && a == b;
    a.client == b.client
        && a.server == b.server
        && (same(request(a), request(b)) || same(response(a), response(b)))
}

/// What a capture with packets missing says, and the whole one gives no ground for.
///
/// A gateway's own session is none of the whole capture's: there it is the client's, and what it came to is said
/// of that one. When the client's side is missing, it speaks for itself, as it does `alone`.
fn unfounded(
    whole: &Analysis,
    less: &Analysis,
    alone: &dyn Fn(&SessionId) -> Analysis,
) -> Vec<String> {
    let mut bad = Vec::new();
    let by_itself = |session: &SessionId| {
        let is_inner = whole.sessions.iter().all(|row| row.session_id != *session)
            && whole.exchanges.iter().any(|x| names(x, session));
        is_inner.then(|| alone(session))
    };
    for got in &less.resumes {
        let said = |by: &Analysis| Some(sharper(asked_alike(by, got)?, got, by, less));
        let nothing = || {
            let (verdict, reason) = (got.verdict, &got.reason);
            let new = format!("a resume out of nothing, {verdict} ({reason})");
            accuses(verdict).then_some(new).into_iter().collect()
        };
        let problems = said(whole)
            .or_else(|| said(&by_itself(&got.session_id)?))
            .unwrap_or_else(nothing);
        bad.extend(problems);
    }
    for got in less.findings.iter().filter(|f| f.severity > Severity::Info) {
        let says = |by: &Analysis| {
            by.findings
                .iter()
                .filter(|f| f.session_id == got.session_id || OF_A_SERVICE.contains(&f.code))
                .any(|f| f.code == got.code && f.severity >= got.severity || leaves(f, got))
        };
        if !says(whole) && !by_itself(&got.session_id).is_some_and(|by| says(&by)) {
            bad.push(format!(
                "finding {} ({}: {})",
                got.code, got.evidence, got.detail
            ));
        }
    }
    // A client that leaves is no cut; that it left is not known where its DELETE is missing.
    let headless = |x: &Exchange| x.request.is_none();
    let incidents = if less.exchanges.iter().any(headless) {
        0
    } else {
        less.incidents.len()
    };
    for (what, had, has) in [
        ("incidents", whole.incidents.len(), incidents),
        ("timers", whole.timers.len(), less.timers.len()),
        ("thresholds", thresholds(whole), thresholds(less)),
    ] {
        if had == 0 && has > 0 {
            bad.push(format!("{has} {what}"));
        }
    }
    bad
}

/// The resume of the same session and cursor that is nearest in time.
fn asked_alike<'a>(analysis: &'a Analysis, got: &Resume) -> Option<&'a Resume> {
    let resumes = analysis.resumes.iter();
    resumes
        .filter(|other| {
            other.session_id == got.session_id && other.last_event_id == got.last_event_id
        })
        .min_by_key(|other| other.resume_time.nanos().abs_diff(got.resume_time.nanos()))
}

fn names(exchange: &Exchange, session: &SessionId) -> bool {
    let ids = [exchange.asked_session(), exchange.given_session()];
    ids.contains(&Some(session))
}

fn thresholds(analysis: &Analysis) -> usize {
    let servers = analysis.servers.iter();
    servers.filter(|row| row.threshold.is_some()).count()
}

fn sharper(want: &Resume, got: &Resume, whole: &Analysis, less: &Analysis) -> Vec<String> {
    let mut bad = Vec::new();
    let say = |resume: &Resume| {
        format!(
            "{} {} ({})",
            resume.verdict,
            resume.confidence.name(),
            resume.reason
        )
    };
    let changed = got.verdict != want.verdict;
    if !may_become(want.verdict, got.verdict) {
        bad.push(format!("{} becomes {}", say(want), say(got)));
    }
    if !changed && got.confidence > want.confidence {
        bad.push(format!("{} grows surer: {}", say(want), say(got)));
    }
    let weaker = changed || got.confidence < want.confidence;
    if weaker && got.reason.is_empty() && !is_untouched(&want.session_id, whole, less) {
        bad.push(format!("{} becomes {} for no reason", say(want), say(got)));
    }
    bad
}

fn accuses(verdict: Verdict) -> bool {
    use Verdict::{Forked, Ignored, Lossy, Replayed};
    matches!(verdict, Forked | Replayed | Lossy | Ignored)
}

/// The order of verdicts: whether `less` may be what lost packets leave of `whole`.
fn may_become(whole: Verdict, less: Verdict) -> bool {
    use Verdict::{
        Continued, Empty, Failed, Forked, Ignored, Indeterminate, Lossy, Rejected, Replayed,
    };
    match whole {
        _ if less == whole || less == Indeterminate => true,
        Forked => matches!(less, Replayed | Continued | Empty),
        Replayed | Lossy | Indeterminate => matches!(less, Continued | Empty),
        Ignored | Continued => less == Empty,
        Empty => less == Continued,
        Rejected | Failed => false,
    }
}

/// Whether a finding of the whole capture may leave another, of the same session, when packets are
/// missing. Each of these says less than the one it comes from.
fn leaves(whole: &Finding, less: &Finding) -> bool {
    const REFUSALS: [&str; 4] = [
        "cursor-refused",
        "stream-conflict",
        "misrouted",
        "session-revived",
    ];
    match less.code {
        // A run of refusals has one code, the first that fits, and none where a fork tells more: that the
        // session came back with another log. Without the log, or the success before, a code further
        // down still fits; that the session was refused and served again is as true as before.
        "cursor-refused" | "misrouted" | "session-revived" => {
            whole.severity >= Severity::Warning
                && (whole.code == "unknown-session-allocation" || REFUSALS.contains(&whole.code))
        }
        // The result came where a resume was answered under another session's id. Without that resume
        // nothing ties the answer to this session, and in it the result never came.
        "result-lost" => {
            whole.code == "unknown-session-allocation" && whole.evidence.contains("minted")
        }
        // A client that asks a refused session again and again is told of that. Where the refusals do not show that
        // it was over, what is left are reconnects that bring nothing.
        "reconnect-storm" => whole.code == "no-reinitialize",
        // Another process answered with its own log, which made a fork of the resume. Without what tells
        // that (the inner side of a proxy), its events are events of other streams: no less true.
        "wrong-stream-replay" => whole.code == "backend-changed",
        _ => false,
    }
}

/// Whether nothing of a session is missing. What told more of a resume was then another session's: an
/// event that was delivered there first, or the order of ids, which is learnt from all sessions of a
/// service. The session by itself is whole, and gives no reason to doubt what it shows.
fn is_untouched(session: &SessionId, whole: &Analysis, less: &Analysis) -> bool {
    let of = |analysis: &Analysis| -> BTreeSet<String> {
        let members = analysis.exchanges.iter().zip(&analysis.session_of);
        members
            .filter(|(_, of)| {
                of.and_then(|of| analysis.sessions.get(of.session? as usize))
                    .is_some_and(|row| row.session_id == *session)
            })
            .map(|(x, _)| {
                let (time, status, end) = (x.time(), x.status(), x.end.cause);
                format!(
                    "{time:?} {status:?} {end:?} {} {}",
                    x.events.len(),
                    x.holes.len()
                )
            })
            .collect()
    };
    of(whole) == of(less)
}

#[test]
fn no_verdict_becomes_a_heavier_one() {
    for whole in Verdict::ALL {
        assert!(may_become(whole, whole) && may_become(whole, Verdict::Indeterminate));
        for less in Verdict::ALL.into_iter().filter(|&less| less != whole) {
            let heavier = accuses(less) && whole != Verdict::Forked;
            assert!(
                !(heavier && may_become(whole, less)),
                "{whole} becomes {less}"
            );
            // But for the two that accuse nobody either way.
            let both = may_become(whole, less) && may_become(less, whole);
            assert!(
                !both || !accuses(whole) && !accuses(less),
                "{whole}, {less}"
            );
        }
    }
}

#[test]
fn losses_are_made_small() {
    let wrong = |lost: &[usize]| lost.contains(&3) && lost.contains(&7);
    assert_eq!(least((0..10).collect(), wrong), [3, 7]);
    assert_eq!(singles(2 * SINGLES).len(), SINGLES);
    assert!(random("any", 1000).iter().any(|lost| lost.len() > 50));
}

/// Findings that are told once for a service, at the first of its sessions that shows them: when that
/// one is missing, at another.
const OF_A_SERVICE: [&str; 1] = ["session-id-invalid"];

/// Packets of a capture that are left out one at a time, at most; and as many in bursts of each length.
const SINGLES: usize = 150;

/// Random sets drawn at each rate.
const DRAWS: usize = 16;

/// Of each capture losses that went wrong are told of up to this number.
const SHOWN: usize = 12;
