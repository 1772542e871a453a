//! How long the sessions of a server live without a connection: the gap that best splits resumes
//! after which a session went on from those after which it was lost.

use super::statistics::chance_of_split;
use crate::{
    audit::Judged,
    model::{
        analysis::{Incident, Resume, Threshold},
        case::{RefusalKind, SessionCase},
        exchange::EndCause,
        time::Span,
        verdict::{Confidence, Verdict},
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// Observations that a side must have: of fewer nothing can be learnt.
const FEWEST: u32 = 3;
/// A split that chance makes as good this often, or more rarely, is one. Three on each side without a
/// misfit have it: one order of twenty.
const CHANCE: f64 = 0.05;

/// A gap and whether the session was lost after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Observation {
    /// Disconnect to resume.
    pub(super) gap: Span,
    /// Forked or refused.
    pub(super) lost: bool,
}

/// What the resumes of each server say of the lifetime of its sessions; by the server's number.
///
/// Continued, replayed and lossy answers are of the session's own log: it lived. Forked ones are of
/// another, and refused ones of none: it was lost, but only where the session was refused, not a
/// cursor or by one replica, and nothing of its life went on afterwards. Empty and ignored answers do
/// not tell, and what is told with low confidence is not counted.
///
/// What is one event counts once. A life of a session is lost once, however many of its streams find
/// out, or how often a refused client asks again. And where the server (or nobody knows who, in a HAR)
/// cut many sessions at once, none of which went on, that was the server's end rather than theirs.
pub(super) fn observations(
    judged: &[Judged],
    incidents: &[Incident],
    number: &dyn Fn(&Resume) -> Option<u32>,
) -> BTreeMap<u32, Vec<Observation>> {
    let survived: BTreeSet<u32> = judged
        .iter()
        .flat_map(|session| &session.case.resumes)
        .filter(|case| lived(&case.row))
        .filter_map(|case| case.row.incident)
        .collect();
    let ended_with_server = |row: &Resume| {
        let incident = row.incident?;
        let cause = incidents.get((incident as usize).checked_sub(1)?)?.cause;
        let perhaps_server = matches!(
            cause,
            EndCause::StreamEnd
                | EndCause::ServerFin
                | EndCause::ServerRst
                | EndCause::StreamResetByServer
                | EndCause::Goaway
                | EndCause::Unknown
        );
        (perhaps_server && !survived.contains(&incident)).then_some(incident)
    };
    let mut observations: BTreeMap<u32, Vec<Observation>> = BTreeMap::new();
    let mut ends: BTreeMap<(u32, u32), Span> = BTreeMap::new();
    for session in judged {
        for (row, lost) in told(&session.case) {
            let (Some(server), Some(gap)) = (number(row), row.gap) else {
                continue;
            };
            match ended_with_server(row).filter(|_| lost) {
                Some(incident) => {
                    let shortest = ends.entry((server, incident)).or_insert(gap);
                    *shortest = gap.min(*shortest);
                }
                None => observations
                    .entry(server)
                    .or_default()
                    .push(Observation { gap, lost }),
            }
        }
    }
    for ((server, _), gap) in ends {
        let observation = Observation { gap, lost: true };
        observations.entry(server).or_default().push(observation);
    }
    observations
}

/// The resumes of a session that tell whether it lived.
fn told(case: &SessionCase) -> Vec<(&Resume, bool)> {
    let refused: BTreeSet<u32> = case
        .refusals
        .iter()
        .filter(|run| matches!(run.kind, RefusalKind::Lost | RefusalKind::LostOnDisconnect))
        .flat_map(|run| run.resumes.iter().copied())
        .collect();
    // The last sign of each life, so that a refusal before it is none of its end.
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for row in case
        .resumes
        .iter()
        .map(|case| &case.row)
        .filter(|row| lived(row))
    {
        last.insert(row.incarnation, row.resume);
    }
    let mut over: BTreeSet<u32> = BTreeSet::new();
    case.resumes
        .iter()
        .map(|case| &case.row)
        .filter(|row| row.confidence > Confidence::Low && row.gap.is_some())
        .filter_map(|row| {
            if lived(row) {
                return Some((row, false));
            }
            let refused = row.verdict == Verdict::Rejected && refused.contains(&row.resume);
            let forked = row.verdict == Verdict::Forked;
            let went_on = last
                .get(&row.incarnation)
                .is_some_and(|&last| last > row.resume);
            let lost = forked || (refused && !went_on);
            (lost && over.insert(row.incarnation)).then_some((row, true))
        })
        .collect()
}

fn lived(row: &Resume) -> bool {
    matches!(
        row.verdict,
        Verdict::Continued | Verdict::Replayed | Verdict::Lossy
    )
}

/// The gap that best splits those who lived from those who were lost, if any does better than chance.
///
/// Best is the split with the fewest on the wrong side; where several are equally good, the bracket
/// reaches from the lowest to the highest of them.
pub(super) fn find(mut observations: Vec<Observation>) -> Option<Threshold> {
    observations.sort_unstable();
    let count = |lost: bool| {
        let of_kind = observations.iter().filter(|one| one.lost == lost).count();
        u32::try_from(of_kind).unwrap_or(u32::MAX)
    };
    let (lived, lost) = (count(false), count(true));
    if lived < FEWEST || lost < FEWEST {
        return None;
    }
    // Behind each group of equal gaps: how many would be on the wrong side of a split there, the
    // longest gap of those who lived up to it.
    let (mut lost_below, mut lived_above) = (0_u32, lived);
    let mut longest = None;
    let mut best: Option<Best> = None;
    let mut waiting = false;
    for equal in observations.chunk_by(|a, b| a.gap == b.gap) {
        let gap = equal.first()?.gap;
        if waiting && equal.iter().any(|one| one.lost) {
            // The shortest of those who were lost above the last best split so far.
            if let Some(best) = &mut best {
                best.high = Some(gap);
            }
            waiting = false;
        }
        for one in equal {
            if one.lost {
                lost_below += 1;
            } else {
                lived_above -= 1;
                longest = Some(gap);
            }
        }
        let misfits = lost_below + lived_above;
        match &mut best {
            Some(best) if misfits > best.misfits => {}
            Some(best) if misfits == best.misfits => waiting = true,
            _ => {
                waiting = true;
                best = Some(Best {
                    misfits,
                    low: longest,
                    high: None,
                });
            }
        }
    }
    let best = best?;
    let threshold = Threshold {
        low: best.low?,
        high: best.high?,
        misfits: best.misfits,
        observed: lived.saturating_add(lost),
    };
    // A little more than the bound, for the last digit of the division.
    (chance_of_split(lived, lost, best.misfits) <= CHANCE + 1e-9).then_some(threshold)
}

struct Best {
    misfits: u32,
    low: Option<Span>,
    high: Option<Span>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seen(lived: &[i64], lost: &[i64]) -> Vec<Observation> {
        let of = |gaps: &[i64], lost| {
            let one = move |&gap: &i64| Observation {
                gap: Span::from_secs(gap),
                lost,
            };
            gaps.iter().map(one).collect::<Vec<_>>()
        };
        [of(lived, false), of(lost, true)].concat()
    }

    fn bracket(lived: &[i64], lost: &[i64]) -> Option<(i64, i64, u32)> {
        let found = find(seen(lived, lost))?;
        let secs = |span: Span| span.nanos() / 1_000_000_000;
        Some((secs(found.low), secs(found.high), found.misfits))
    }

    #[test]
    fn names_the_longest_that_lived_and_the_shortest_that_did_not() {
        assert_eq!(bracket(&[1, 28, 12], &[31, 90, 40]), Some((28, 31, 0)));
        assert_eq!(bracket(&[-1, 0, 5], &[6, 6, 6]), Some((5, 6, 0)));
    }

    #[test]
    fn names_none_of_fewer_than_three_on_a_side() {
        assert_eq!(bracket(&[1, 2, 3, 4, 5, 6, 7, 8], &[31, 40]), None);
        assert_eq!(bracket(&[1, 2], &[31, 40, 50, 60, 70, 80]), None);
        assert_eq!(bracket(&[], &[]), None);
    }

    #[test]
    fn names_none_that_chance_would_make_as_good() {
        // 7 of the 35 orders of three and four have a split with one misfit or none.
        assert_eq!(bracket(&[1, 2, 9], &[3, 10, 11, 12]), None);
        // The wrong way round: a longer gap saves nobody.
        assert_eq!(bracket(&[31, 40, 50, 60], &[1, 2, 3, 4]), None);
        // All gaps alike split nothing.
        assert_eq!(bracket(&[5, 5, 5, 5], &[5, 5, 5, 5]), None);
    }

    #[test]
    fn stands_a_misfit_where_there_are_enough() {
        let lived: Vec<i64> = (1..=20).chain([44]).collect();
        let lost: Vec<i64> = (31..=50).filter(|gap| *gap != 44).chain([7]).collect();
        assert_eq!(bracket(&lived, &lost), Some((20, 31, 2)));
    }

    #[test]
    fn the_bracket_holds_every_split_that_is_as_good() {
        // Below 10 or above 12, one is on the wrong side.
        let lived = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12];
        let lost = [11, 13, 14, 15, 16, 17, 18, 19, 20, 21];
        assert_eq!(bracket(&lived, &lost), Some((9, 13, 1)));
    }

    proptest! {
        #[test]
        fn order_changes_nothing(
            mut all in prop::collection::vec((0_i64..60, any::<bool>()), 0..40),
            by in any::<prop::sample::Index>(),
        ) {
            let observed = |all: &[(i64, bool)]| {
                all.iter().map(|&(gap, lost)| Observation { gap: Span::from_secs(gap), lost }).collect()
            };
            let want = find(observed(&all));
            if !all.is_empty() {
                let by = by.index(all.len());
                all.rotate_left(by);
            }
            prop_assert_eq!(find(observed(&all)), want);
            all.reverse();
            prop_assert_eq!(find(observed(&all)), want);
        }

        #[test]
        fn no_split_is_better(all in prop::collection::vec((0_i64..60, any::<bool>()), 0..40)) {
            let observed: Vec<_> = all
                .iter()
                .map(|&(gap, lost)| Observation { gap: Span::from_secs(gap), lost })
                .collect();
            let wrong = |split: Span| {
                let wrong = observed.iter().filter(|one| (one.gap > split) != one.lost);
                u32::try_from(wrong.count()).unwrap()
            };
            if let Some(found) = find(observed.clone()) {
                prop_assert!(found.low < found.high);
                let splits = observed.iter().map(|one| wrong(one.gap));
                prop_assert_eq!(splits.min(), Some(found.misfits));
                prop_assert_eq!(wrong(found.low), found.misfits);
                // The bounds are of the right kind.
                let seen = |gap, lost| observed.contains(&Observation { gap, lost });
                prop_assert!(seen(found.low, false) && seen(found.high, true));
            }
        }

        #[test]
        fn a_lifetime_is_in_its_bracket(
            gaps in prop::collection::vec(1_i64..100, 8..60), lifetime in 20_i64..80,
        ) {
            let observed = gaps
                .iter()
                .map(|&gap| Observation { gap: Span::from_secs(gap), lost: gap > lifetime })
                .collect();
            if let Some(found) = find(observed) {
                prop_assert_eq!(found.misfits, 0);
                prop_assert!(found.low <= Span::from_secs(lifetime));
                prop_assert!(found.high > Span::from_secs(lifetime));
            }
        }
    }
}
