//! How often resumes fork, by what cut them, which backend answered and how long they were away; and a
//! row for each server.

use super::{
    cut::Servers,
    statistics::{rank_correlation, wilson},
    threshold::{self, Observation},
};
use crate::{
    audit::Judged,
    model::{
        analysis::{Resume, ServerRow, Share, ShareBy},
        case::ResumeCase,
        exchange::Exchange,
        flow::Endpoint,
        session::Grouping,
        time::Span,
        verdict::Verdict,
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of gap: quarters of the resumes.
const PARTS: usize = 4;

/// The resumes of a run by server: the server's number, from `number`.
pub(super) fn by_server<'a>(
    judged: &'a [Judged],
    servers: usize,
    number: &dyn Fn(&Resume) -> Option<u32>,
) -> Vec<Vec<&'a ResumeCase>> {
    let mut lists: Vec<Vec<&ResumeCase>> = vec![Vec::new(); servers];
    for case in judged.iter().flat_map(|session| &session.case.resumes) {
        if let Some(list) = number(&case.row).and_then(|server| lists.get_mut(server as usize)) {
            list.push(case);
        }
    }
    lists
}

/// The shares of forks among a server's resumes that were decided.
pub(super) fn shares(server: &Endpoint, resumes: &[&ResumeCase]) -> Vec<Share> {
    let decided = || {
        resumes
            .iter()
            .map(|case| &case.row)
            .filter(|row| is_decided(row))
    };
    let mut kinds: BTreeMap<ShareBy, (u32, u32)> = BTreeMap::new();
    let mut count = |by: ShareBy, row: &Resume| {
        let (all, forked) = kinds.entry(by).or_default();
        *all += 1;
        *forked += u32::from(row.verdict == Verdict::Forked);
    };
    for row in decided() {
        if let Some(cause) = row.disconnect_cause {
            count(ShareBy::Cause(cause), row);
        }
        if let Some(backend) = &row.backend_after {
            count(ShareBy::Backend(backend.clone()), row);
        }
    }
    let mut gaps: Vec<(Span, &Resume)> =
        decided().filter_map(|row| Some((row.gap?, row))).collect();
    gaps.sort_by_key(|&(gap, _)| gap);
    for quarter in quarters(&gaps) {
        if let (Some(&(first, _)), Some(&(last, _))) = (quarter.first(), quarter.last()) {
            for (_, row) in quarter {
                count(ShareBy::Gap(first, last), row);
            }
        }
    }
    kinds
        .into_iter()
        .filter_map(|(by, (resumes, forked))| {
            Some(Share {
                server: server.clone(),
                by,
                resumes,
                forked,
                proportion: wilson(forked, resumes)?,
            })
        })
        .collect()
}

/// Sorted gaps in up to four parts of about one size; equal gaps stay together.
fn quarters<T>(gaps: &[(Span, T)]) -> Vec<&[(Span, T)]> {
    let mut parts = Vec::with_capacity(PARTS);
    let mut from = 0;
    for part in 1..=PARTS {
        let to = (gaps.len() * part) / PARTS;
        // Up to the last that is equal to the last of this part.
        let to = match to.checked_sub(1).and_then(|last| gaps.get(last)) {
            Some((last, _)) => gaps.partition_point(|(gap, _)| gap <= last),
            None => 0,
        };
        if let Some(part) = gaps.get(from..to).filter(|part| !part.is_empty()) {
            parts.push(part);
        }
        from = to.max(from);
    }
    parts
}

/// A row for each server, in the order of their numbers.
pub(super) fn rows(
    servers: &Servers<'_>,
    grouping: &Grouping,
    exchanges: &[Exchange],
    resumes: &[Vec<&ResumeCase>],
    observations: &mut BTreeMap<u32, Vec<Observation>>,
) -> Vec<ServerRow> {
    let list = servers.list();
    let mut sessions = vec![0_u32; list.len()];
    for session in &grouping.sessions {
        let segments = session.segments.iter().map(|segment| segment.exchange);
        let met: BTreeSet<u32> = session
            .exchanges
            .iter()
            .copied()
            .chain(segments)
            .filter_map(|at| servers.number(exchanges.get(at as usize)?.server.as_ref()))
            .collect();
        for server in met {
            if let Some(count) = sessions.get_mut(server as usize) {
                *count += 1;
            }
        }
    }
    (0..)
        .zip(list)
        .zip(sessions)
        .zip(resumes)
        .map(|(((number, server), sessions), resumes)| {
            let mut verdicts = [0_u32; 9];
            let mut decided = 0;
            for row in resumes.iter().map(|case| &case.row) {
                if let Some(slot) = verdicts.get_mut(row.verdict.index()) {
                    *slot += 1;
                }
                decided += u32::from(is_decided(row));
            }
            let forked = verdicts
                .get(Verdict::Forked.index())
                .copied()
                .unwrap_or_default();
            let pairs: Vec<(i64, i64)> = resumes
                .iter()
                .filter(|case| is_decided(&case.row))
                .filter_map(|case| Some((case.row.gap?.nanos(), lost_events(case))))
                .collect();
            ServerRow {
                server: server.clone(),
                sessions,
                verdicts,
                fork_share: wilson(forked, decided),
                threshold: observations.remove(&number).and_then(threshold::find),
                gap_loss_correlation: rank_correlation(&pairs),
            }
        })
        .collect()
}

/// Whether the verdict says what became of the session.
fn is_decided(row: &Resume) -> bool {
    !matches!(row.verdict, Verdict::Failed | Verdict::Indeterminate)
}

/// Events known to be lost with a resume: ids skipped (where they cannot be counted, messages left out),
/// events that a client which removes duplicates throws away, results that never came.
fn lost_events(case: &ResumeCase) -> i64 {
    let row = &case.row;
    let skipped = match row.ids_skipped {
        Some(skipped) => i64::try_from(skipped).unwrap_or(i64::MAX),
        None if row.verdict == Verdict::Lossy => {
            i64::try_from(case.missing.len()).unwrap_or(i64::MAX).max(1)
        }
        None => 0,
    };
    skipped
        .saturating_add(i64::from(row.events_dropped_by_dedup))
        .saturating_add(i64::from(row.requests.lost))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quarters_hold_every_gap_once_and_part_no_equals(
            gaps in prop::collection::vec(0_i64..12, 0..50),
        ) {
            let mut gaps: Vec<(Span, ())> = gaps.iter().map(|gap| (Span::from_secs(*gap), ())).collect();
            gaps.sort_unstable();
            let parts = quarters(&gaps);
            prop_assert!(parts.len() <= PARTS);
            prop_assert_eq!(parts.concat(), gaps.clone());
            for pair in parts.windows(2) {
                prop_assert!(pair[0].last() < pair[1].first());
            }
        }
    }

    #[test]
    fn quarters_are_of_one_size_where_gaps_differ() {
        let gaps: Vec<_> = (0..8).map(|gap| (Span::from_secs(gap), ())).collect();
        let sizes: Vec<_> = quarters(&gaps).iter().map(|part| part.len()).collect();
        assert_eq!(sizes, [2, 2, 2, 2]);
    }
}
