//! What is found between sessions, held against loss: packets missing from a capture may hide it, and
//! never make it.

use crate::{
    talk::{
        model::Talk,
        tcp::{Packet, RST, packets},
    },
    talks::{audit, pcap, talks},
};
use forkscope::model::{analysis::Analysis, verdict::Severity};
use std::{collections::BTreeSet, fmt::Write};

/// Findings that rest on what several sessions, hosts or requests show together.
const CODES: [&str; 7] = [
    "lost-on-disconnect",
    "session-id-reissued",
    "session-adopted",
    "executed-twice",
    "session-id-invalid",
    "session-shared",
    "no-reinitialize",
];

#[test]
fn lost_packets_make_no_finding_between_sessions() {
    let mut bad = String::new();
    let mut found = BTreeSet::new();
    for talk in talks().iter().filter(|talk| talk.beyond.is_none()) {
        let clean = packets(talk);
        let whole = accusations(&audit(talk, &pcap(talk, &clean)));
        found.extend(whole.iter().map(|(code, ..)| *code));
        let step = clean.len().div_ceil(LOSSES).max(1);
        // A reset may be all that tells of a restart: it stays.
        let tells = |lost: &usize| clean[*lost].flags & RST == 0;
        for lost in (0..clean.len()).step_by(step).filter(tells) {
            let mut some = clean.clone();
            some.remove(lost);
            let some = audit(talk, &pcap(talk, &some));
            tell_new(&mut bad, talk, &whole, &some, &[lost]);
        }
        for round in 0..ROUNDS {
            let lost: Vec<usize> = (0..clean.len())
                .filter(tells)
                .filter(|lost| is_drawn(round, *lost))
                .collect();
            let seen = clean.iter().enumerate();
            let seen = seen.filter(|(number, _)| !lost.contains(number));
            let some: Vec<Packet> = seen.map(|(_, packet)| packet.clone()).collect();
            let some = audit(talk, &pcap(talk, &some));
            tell_new(&mut bad, talk, &whole, &some, &lost);
        }
    }
    assert!(bad.is_empty(), "\n{bad}");
    assert_eq!(found.len(), CODES.len(), "only {found:?} were found at all");
}

type Accusation = (&'static str, String, Severity);

fn accusations(analysis: &Analysis) -> BTreeSet<Accusation> {
    analysis
        .findings
        .iter()
        .filter(|finding| CODES.contains(&finding.code) && finding.severity > Severity::Info)
        .map(|finding| {
            // Of the ids of a service the first one is named, as far as it is seen.
            let session = match finding.code {
                "session-id-invalid" => String::new(),
                _ => finding.session_id.to_string(),
            };
            (finding.code, session, finding.severity)
        })
        .collect()
}

fn tell_new(
    bad: &mut String,
    talk: &Talk,
    whole: &BTreeSet<Accusation>,
    some: &Analysis,
    lost: &[usize],
) {
    for (code, session, severity) in accusations(some) {
        let known = whole.iter().any(|(known, known_session, known_severity)| {
            *known == code && *known_session == session && *known_severity >= severity
        });
        if !known {
            let _ = writeln!(
                bad,
                "{}: without packets {lost:?} (from 0): {code} of {session}",
                talk.name
            );
        }
    }
}

/// Packets of each talk that are left out, one at a time.
const LOSSES: usize = 64;

/// Times that a tenth of all packets is left out.
const ROUNDS: u64 = 6;

/// Whether a packet is left out in a round: one in ten is, by a hash (splitmix64) that needs no state.
fn is_drawn(round: u64, packet: usize) -> bool {
    let mut hash = (round << 32 | packet as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash ^ hash >> 31) % 10 == 0
}
