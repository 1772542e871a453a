//! Cuts of several sessions of one server in one moment.

use super::cut::Cut;
use crate::{
    audit::Judged,
    model::{
        analysis::Incident,
        exchange::{EndCause, Exchange},
        flow::Endpoint,
        place::Place,
        session::Grouping,
        time::{Span, Timestamp},
    },
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// From the first cut of an incident to its last: a rolling restart takes longer than that over all
/// its servers, and not for one of them.
const LONGEST: Span = Span::from_secs(30);

/// The incidents of a run in order of time, each with its cuts: indices into `cuts`, in order of time.
/// Two cuts of a server no more than `window` apart are of one incident, up to [`LONGEST`] from the
/// first; those of one session alone are none.
pub(super) fn gather(cuts: &[Cut], window: Span) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..cuts.len()).collect();
    let at = |index: usize| cuts.get(index);
    order.retain(|&index| at(index).is_some_and(|cut| !cut.poll));
    order.sort_unstable_by_key(|&index| at(index).map(|cut| (cut.server, cut.end, cut.exchange)));
    let mut incidents = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut close = |open: &mut Vec<usize>| {
        let mut sessions = open.iter().filter_map(|&index| Some(at(index)?.name));
        let first = sessions.next();
        if sessions.any(|session| Some(session) != first) {
            incidents.push(std::mem::take(open));
        }
        open.clear();
    };
    for index in order {
        let goes_on = || {
            let (first, last) = (at(*open.first()?)?, at(*open.last()?)?);
            let cut = at(index)?;
            Some(
                cut.server == last.server
                    && cut.end.since(last.end) <= window
                    && cut.end.since(first.end) <= LONGEST,
            )
        };
        if !goes_on().unwrap_or(true) {
            close(&mut open);
        }
        open.push(index);
    }
    close(&mut open);
    incidents.sort_by_key(|incident| {
        incident
            .first()
            .and_then(|&index| at(index))
            .map(|cut| (cut.end, cut.server))
    });
    incidents
}

/// The rows of incidents, and for each resume that followed one of their cuts the incident's number:
/// session, index of the resume, number.
pub(super) fn rows(
    incidents: &[Vec<usize>],
    cuts: &[Cut],
    servers: &[&Endpoint],
    grouping: &Grouping,
    exchanges: &[Exchange],
    judged: &[Judged],
) -> (Vec<Incident>, Vec<(u32, u32, u32)>) {
    let posts = lost_by_post(judged);
    let mut rows = Vec::with_capacity(incidents.len());
    let mut of_resumes = Vec::new();
    for incident in incidents {
        let members = || incident.iter().filter_map(|&index| cuts.get(index));
        let (Some(first), Some(last)) = (members().next(), members().next_back()) else {
            continue;
        };
        let Some(&server) = servers.get(first.server as usize) else {
            continue;
        };
        let number = count(rows.len()) + 1;
        let sessions: BTreeSet<u32> = members().map(|cut| cut.name).collect();
        let mut verdicts = [0; 9];
        // By stream: one that was cut twice had the same requests pending.
        let mut lost: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for cut in members() {
            let resumes = judged
                .get(cut.session as usize)
                .map(|one| &one.case.resumes);
            let stream = lost.entry((cut.session, cut.stream)).or_default();
            for &resume in &cut.resumes {
                let Some(case) = resumes.and_then(|resumes| resumes.get(resume as usize)) else {
                    continue;
                };
                if let Some(slot) = verdicts.get_mut(case.row.verdict.index()) {
                    *slot += 1;
                }
                *stream = case.row.requests.lost.max(*stream);
                of_resumes.push((cut.session, resume, number));
            }
            // Nobody came back for it.
            if cut.resumes.is_empty()
                && let Some(post) = post_of(cut, grouping, exchanges)
            {
                let of_post = posts.get(&(cut.session, post, cut.end));
                *stream = of_post.copied().unwrap_or(0).max(*stream);
            }
        }
        rows.push(Incident {
            server: server.clone(),
            start: first.end,
            end: last.end,
            cause: most(members().map(|cut| cut.cause)),
            segments_cut: count(incident.len()),
            sessions: count(sessions.len()),
            verdicts,
            lost_requests: lost.values().sum(),
        });
    }
    (rows, of_resumes)
}

/// How many requests each POST lost at a cut, by session, where it is and when.
fn lost_by_post(judged: &[Judged]) -> BTreeMap<(u32, Place, Timestamp), u32> {
    let mut posts = BTreeMap::new();
    for (session, judged) in (0..).zip(judged) {
        for lost in &judged.case.lost {
            let key = (session, lost.site.place, lost.site.time);
            *posts.entry(key).or_default() += 1;
        }
    }
    posts
}

/// Where the POST is that began the stream of a cut.
fn post_of(cut: &Cut, grouping: &Grouping, exchanges: &[Exchange]) -> Option<Place> {
    let session = grouping.sessions.get(cut.session as usize)?;
    let post = session.streams.get(cut.stream as usize)?.begun_by?;
    Some(exchanges.get(post as usize)?.place)
}

/// The most frequent cause; of equals, the one that came first.
fn most(causes: impl Iterator<Item = EndCause>) -> EndCause {
    let mut counts: BTreeMap<EndCause, (u32, usize)> = BTreeMap::new();
    for (at, cause) in causes.enumerate() {
        counts.entry(cause).or_insert((0, at)).0 += 1;
    }
    let most = counts
        .into_iter()
        .max_by_key(|&(_, (number, first))| (number, Reverse(first)));
    most.map_or(EndCause::Unknown, |(cause, _)| cause)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A cut of a session of a server at a time in milliseconds.
    fn cut((server, session, millis): (u32, u32, i64)) -> Cut {
        let end = Timestamp::default().plus(Span::from_millis(millis));
        Cut {
            server,
            session,
            name: session,
            stream: 0,
            exchange: 0,
            open: Timestamp::default(),
            last_event: None,
            end,
            cause: EndCause::ServerRst,
            by: None,
            poll: false,
            resumes: Vec::new(),
        }
    }

    fn gathered(cuts: &[(u32, u32, i64)]) -> Vec<Vec<usize>> {
        let cuts: Vec<Cut> = cuts.iter().copied().map(cut).collect();
        gather(&cuts, Span::from_secs(2))
    }

    #[test]
    fn neighbours_of_one_server_are_one_incident() {
        let cuts = [
            (0, 1, 0),
            (1, 2, 500),
            (0, 3, 1_900),
            (0, 4, 3_900),
            (0, 5, 6_000),
        ];
        assert_eq!(gathered(&cuts), [[0, 2, 3]]);
        assert_eq!(gathered(&[(0, 1, 5_000), (0, 2, 3_000)]), [[1, 0]]);
        assert_eq!(
            gathered(&[(0, 1, 0), (0, 2, 2_001)]),
            Vec::<Vec<usize>>::new()
        );
    }

    #[test]
    fn one_session_alone_is_none() {
        assert_eq!(
            gathered(&[(0, 1, 0), (0, 1, 10), (0, 1, 20)]),
            Vec::<Vec<usize>>::new()
        );
    }

    #[test]
    fn an_incident_lasts_thirty_seconds_at_most() {
        let cuts: Vec<_> = (0..40).map(|i| (0, i, i64::from(i) * 1_000)).collect();
        let sizes: Vec<_> = gathered(&cuts).iter().map(Vec::len).collect();
        assert_eq!(sizes, [31, 9]);
    }

    #[test]
    fn a_poll_belongs_to_none() {
        let mut cuts = [cut((0, 1, 0)), cut((0, 2, 1)), cut((0, 3, 2))];
        cuts[1].poll = true;
        assert_eq!(gather(&cuts, Span::from_secs(2)), [[0, 2]]);
    }

    #[test]
    fn the_cause_is_the_most_frequent_or_the_first() {
        use EndCause::{ServerFin, ServerRst, Silent};
        assert_eq!(most([Silent, ServerRst, ServerRst].into_iter()), ServerRst);
        assert_eq!(most([ServerRst, ServerFin].into_iter()), ServerRst);
        assert_eq!(most([ServerFin, ServerRst].into_iter()), ServerFin);
    }

    proptest! {
        #[test]
        fn incidents_part_the_cuts(
            cuts in prop::collection::vec((0_u32..3, 0_u32..6, 0_i64..90_000), 0..80),
        ) {
            let at = |index: usize| cuts[index];
            let incidents = gathered(&cuts);
            let mut seen = BTreeSet::new();
            for incident in &incidents {
                let (server, _, start) = at(incident[0]);
                let sessions: BTreeSet<u32> = incident.iter().map(|&i| at(i).1).collect();
                prop_assert!(sessions.len() > 1);
                for pair in incident.windows(2) {
                    let gap = at(pair[1]).2 - at(pair[0]).2;
                    prop_assert!((0..=2_000).contains(&gap));
                }
                for &index in incident {
                    prop_assert!(seen.insert(index), "in two incidents");
                    prop_assert_eq!(at(index).0, server);
                    prop_assert!(at(index).2 - start <= 30_000);
                }
            }
            // Two sessions cut together are in an incident, unless it had to end between them.
            for (a, &(server, session, time)) in cuts.iter().enumerate() {
                for (b, other) in cuts.iter().enumerate() {
                    let together = other.0 == server && other.1 != session && other.2 == time;
                    prop_assert!(!together || (seen.contains(&a) && seen.contains(&b)));
                }
            }
            // Those of one server stand in order, and what order they came in changes nothing.
            let starts: Vec<_> = incidents.iter().map(|incident| at(incident[0]).2).collect();
            prop_assert!(starts.is_sorted());
            let mut turned = cuts.clone();
            turned.reverse();
            let spans = |all: &[(u32, u32, i64)]| -> Vec<_> {
                gathered(all)
                    .iter()
                    .map(|incident| {
                        let (first, last) = (all[incident[0]], all[incident[incident.len() - 1]]);
                        (first.0, first.2, last.2, incident.len())
                    })
                    .collect()
            };
            prop_assert_eq!(spans(&turned), spans(&cuts));
        }
    }
}
