//! Cuts by a timer: many of one side at one age, or after one silence.

use super::cut::Cut;
use crate::model::{
    analysis::{CutBy, Timer, TimerKind},
    case::{Site, TimerCase},
    exchange::Exchange,
    flow::Endpoint,
    time::{Span, Timestamp},
};
use std::{collections::BTreeMap, sync::Arc};

/// Cuts that a side must have made.
const FEWEST: usize = 5;
/// How far a cut may be from the period, as a part of it: 1 / 50 is 2 %.
const TOLERANCE: i64 = 50;
/// And at least this far: timers are looked at once a second, or once in a while.
const AT_LEAST: Span = Span::from_millis(500);
/// But never by more than a tenth of the period, or anything short would agree with anything short.
const AT_MOST: i64 = 10;
/// Shorter than this no timer is named: what ends within a second was answered, not cut by a clock.
const SHORTEST: Span = Span::from_secs(1);

/// Whose cuts are looked at together: a server's number, the side, and a client's User-Agent.
type Whose<'a> = (u32, CutBy, Option<&'a Arc<str>>);

/// The timers of a run, by server, side and kind, with where each shows first.
pub(super) fn timers(
    cuts: &[Cut],
    servers: &[&Endpoint],
    exchanges: &[Exchange],
) -> (Vec<Timer>, Vec<TimerCase>) {
    let mut groups: BTreeMap<Whose<'_>, Vec<&Cut>> = BTreeMap::new();
    for cut in cuts {
        let Some(by) = cut.by else { continue };
        let request = exchanges
            .get(cut.exchange as usize)
            .and_then(|exchange| exchange.request.as_ref());
        let agent = request
            .filter(|_| by == CutBy::Client)
            .and_then(|request| request.user_agent.as_ref());
        groups.entry((cut.server, by, agent)).or_default().push(cut);
    }
    let (mut rows, mut cases) = (Vec::new(), Vec::new());
    for ((server, side, agent), cuts) in groups {
        let Some(&server) = servers.get(server as usize) else {
            continue;
        };
        let age = measure(&cuts, &|cut| cut.end.since(cut.open));
        // A stream without events has been silent since it was asked for; where all are, nothing tells
        // silence from age.
        let silence = measure(&cuts, &|cut| {
            cut.end.since(cut.last_event.unwrap_or(cut.open))
        });
        let silence = silence.filter(|beat| beat.has_events);
        let found = best(age, silence);
        let timers: Vec<Timer> = found
            .iter()
            .map(|(kind, beat)| Timer {
                server: server.clone(),
                kind: *kind,
                side,
                user_agent: agent.cloned(),
                period: beat.period,
                spread: beat.spread,
                cuts: count(beat.cuts),
                of: count(beat.of),
            })
            .collect();
        let first = found
            .first()
            .and_then(|(_, beat)| exchanges.get(beat.first as usize));
        if let Some(first) = first {
            cases.push(TimerCase {
                timers: timers.clone(),
                site: Site {
                    time: first.end.time,
                    place: first.end.place,
                    client: first.client.clone(),
                    ..Site::of(first, 0)
                },
            });
        }
        rows.extend(timers);
    }
    (rows, cases)
}

/// What a clock would show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Beat {
    period: Span,
    spread: Span,
    /// Cuts that agree.
    cuts: usize,
    /// Of so many.
    of: usize,
    /// The exchange that the first of them ended.
    first: u32,
    /// Some event came on one that agrees.
    has_events: bool,
}

/// Of an age and a silence in the same cuts, the one that explains them: which more agree with, else the
/// one that is at least twice as sharp. Where the capture cannot tell them apart, both.
fn best(age: Option<Beat>, silence: Option<Beat>) -> Vec<(TimerKind, Beat)> {
    let (age, silence) = match (age, silence) {
        (Some(age), Some(silence)) => {
            let sharper = |a: Beat, b: Beat| a.spread.doubled() < b.spread;
            let better = |a: Beat, b: Beat| a.cuts > b.cuts || (a.cuts == b.cuts && sharper(a, b));
            (
                (!better(silence, age)).then_some(age),
                (!better(age, silence)).then_some(silence),
            )
        }
        alone => alone,
    };
    let age = age.map(|beat| (TimerKind::Age, beat));
    age.into_iter()
        .chain(silence.map(|beat| (TimerKind::Silence, beat)))
        .collect()
}

/// The one length of time that most of the cuts agree with, if at least four fifths do, of five or
/// more, and they are no single event: streams opened together and cut together agree as well.
fn measure(cuts: &[&Cut], length: &dyn Fn(&Cut) -> Span) -> Option<Beat> {
    let of = cuts.len();
    if of < FEWEST {
        return None;
    }
    let mut lengths: Vec<(Span, usize)> = cuts
        .iter()
        .enumerate()
        .map(|(at, cut)| (length(cut), at))
        .collect();
    lengths.sort_unstable();
    // The window that holds the most, and of equals the narrowest. Its upper end grows with its lower
    // one: a sweep.
    let (mut upper, mut most) = (0, (0, Span::ZERO, 0));
    for (lower, &(shortest, _)) in lengths.iter().enumerate() {
        let reach = reach(shortest);
        while lengths
            .get(upper)
            .is_some_and(|&(length, _)| length <= reach)
        {
            upper += 1;
        }
        let Some(&(longest, _)) = lengths.get(upper.saturating_sub(1)) else {
            continue;
        };
        let spread = Span::from_nanos(longest.nanos().saturating_sub(shortest.nanos()));
        let held = upper - lower;
        if held > most.0 || (held == most.0 && spread < most.1) {
            most = (held, spread, lower);
        }
    }
    let (held, spread, lower) = most;
    let agreeing = lengths.get(lower..lower + held)?;
    let &(period, _) = agreeing.get(held / 2)?;
    let agreeing = || agreeing.iter().filter_map(|&(_, at)| cuts.get(at));
    let opened = agreeing().map(|cut| cut.open).collect();
    let four_fifths = |number: usize, of: usize| number * 5 >= of * 4;
    let named = period >= SHORTEST
        && four_fifths(held, of)
        && four_fifths(separate(opened, tolerance(period)), FEWEST);
    let first = agreeing().min_by_key(|cut| (cut.end, cut.exchange))?;
    named.then_some(Beat {
        period,
        spread,
        cuts: held,
        of,
        first: first.exchange,
        has_events: agreeing().any(|cut| cut.last_event.is_some()),
    })
}

/// How far a cut may be from a period.
fn tolerance(period: Span) -> Span {
    let nanos = period.nanos();
    let least = AT_LEAST.nanos().min(nanos / AT_MOST);
    Span::from_nanos((nanos / TOLERANCE).max(least))
}

/// The longest that agrees with a period of which `shortest` is the shortest that agrees: twice the
/// tolerance of the period between them.
fn reach(shortest: Span) -> Span {
    let nanos = shortest.nanos().max(0);
    // The period p has p - tolerance(p) = shortest, for each of the three forms of the tolerance.
    let tenth = nanos.saturating_mul(AT_MOST) / (AT_MOST - 1);
    let fixed = nanos.saturating_add(AT_LEAST.nanos());
    let fiftieth = nanos.saturating_mul(TOLERANCE) / (TOLERANCE - 1);
    let period = Span::from_nanos(tenth.min(fixed).max(fiftieth));
    Span::from_nanos(period.nanos().saturating_add(tolerance(period).nanos()))
}

/// How many of these times are apart by more than `least` from the one counted before.
fn separate(mut times: Vec<Timestamp>, least: Span) -> usize {
    times.sort_unstable();
    let mut last: Option<Timestamp> = None;
    let apart = times.into_iter().filter(|time| {
        let apart = last.is_none_or(|last| time.since(last) > least);
        if apart {
            last = Some(*time);
        }
        apart
    });
    apart.count()
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::exchange::EndCause;
    use proptest::prelude::*;

    /// Cuts by opening, last event and end, in milliseconds.
    fn cuts(times: &[(i64, Option<i64>, i64)]) -> Vec<Cut> {
        let at = |millis: i64| Timestamp::default().plus(Span::from_millis(millis));
        times
            .iter()
            .zip(0..)
            .map(|(&(open, event, end), exchange)| Cut {
                server: 0,
                session: exchange,
                name: exchange,
                stream: 0,
                exchange,
                open: at(open),
                last_event: event.map(at),
                end: at(end),
                cause: EndCause::ServerFin,
                by: Some(CutBy::Server),
                poll: false,
                resumes: Vec::new(),
            })
            .collect()
    }

    fn named(times: &[(i64, Option<i64>, i64)]) -> Vec<(TimerKind, i64, u32, u32)> {
        let server = Endpoint::Name("server".into(), 1);
        let exchanges = vec![Exchange::default(); times.len()];
        let (timers, cases) = timers(&cuts(times), &[&server], &exchanges);
        assert_eq!(cases.len(), usize::from(!timers.is_empty()));
        timers
            .iter()
            .map(|timer| {
                let millis = timer.period.nanos() / 1_000_000;
                (timer.kind, millis, timer.cuts, timer.of)
            })
            .collect()
    }

    /// Streams opened 100 s apart that end at these ages, in milliseconds.
    fn aged(ages: &[i64]) -> Vec<(i64, Option<i64>, i64)> {
        let opened = (0..).step_by(100_000);
        opened
            .zip(ages)
            .map(|(open, age)| (open, None, open + age))
            .collect()
    }

    #[test]
    fn names_the_age_that_four_of_five_agree_with() {
        let age = |millis, cuts, of| vec![(TimerKind::Age, millis, cuts, of)];
        assert_eq!(named(&aged(&[60_000; 5])), age(60_000, 5, 5));
        assert_eq!(
            named(&aged(&[58_900, 60_000, 61_200, 60_100, 3_000])),
            age(60_100, 4, 5)
        );
        assert_eq!(named(&aged(&[60_000; 4])), []);
        assert_eq!(named(&aged(&[60_000, 60_000, 60_000, 3_000, 9_000])), []);
        assert_eq!(named(&aged(&[50_000, 55_000, 60_000, 65_000, 70_000])), []);
    }

    #[test]
    fn a_second_is_tolerance_for_some_and_all_for_others() {
        // A timer of ten seconds that is looked at once a second.
        assert_eq!(
            named(&aged(&[9_600, 9_900, 10_100, 10_400, 10_550])).len(),
            1
        );
        // Streams that are merely short.
        assert_eq!(named(&aged(&[1_100, 1_300, 1_500, 1_700, 2_000])), []);
        assert_eq!(named(&aged(&[12, 12, 12, 12, 12])), []);
    }

    #[test]
    fn streams_cut_together_are_one_event() {
        let together: Vec<_> = (0..40).map(|i| (i * 10, None, 60_000 + i)).collect();
        assert_eq!(named(&together), []);
        // Opened over twenty seconds, cut together half an hour later: within 2 % of one age.
        let restart: Vec<_> = (0..20).map(|i| (i * 1_000, None, 1_800_000)).collect();
        assert_eq!(named(&restart), []);
        // Opened over twenty seconds, each cut a minute later.
        let timer: Vec<_> = (0..20)
            .map(|i| (i * 1_000, None, i * 1_000 + 60_000))
            .collect();
        assert_eq!(named(&timer).len(), 1);
    }

    #[test]
    fn tells_silence_from_age_where_events_tell() {
        let events = [5_000, 12_000, 31_000, 2_000, 44_000];
        let silent: Vec<_> = (0..)
            .step_by(200_000)
            .zip(events)
            .map(|(open, event)| (open, Some(open + event), open + event + 30_000))
            .collect();
        assert_eq!(named(&silent), [(TimerKind::Silence, 30_000, 5, 5)]);
        let old: Vec<_> = (0..)
            .step_by(200_000)
            .zip(events)
            .map(|(open, event)| (open, Some(open + event), open + 90_000))
            .collect();
        assert_eq!(named(&old), [(TimerKind::Age, 90_000, 5, 5)]);
        // Some event at the beginning and nothing more: either.
        let either: Vec<_> = (0..)
            .step_by(200_000)
            .take(5)
            .map(|open| (open, Some(open + 3), open + 90_000))
            .collect();
        let kinds: Vec<_> = named(&either).into_iter().map(|(kind, ..)| kind).collect();
        assert_eq!(kinds, [TimerKind::Age, TimerKind::Silence]);
    }

    proptest! {
        #[test]
        fn what_agrees_is_within_the_tolerance_of_one_period(
            ages in prop::collection::vec(1_000_i64..400_000, 1..60),
        ) {
            let cuts = cuts(&aged(&ages));
            let cuts: Vec<&Cut> = cuts.iter().collect();
            // The window may hold what is under four fifths: then it is no timer.
            if let Some(beat) = measure(&cuts, &|cut| cut.end.since(cut.open)) {
                let tolerance = tolerance(beat.period).nanos() * 2;
                // Both ends lie within twice the tolerance, and so does the median; its own
                // tolerance differs from the period's by a fiftieth at most.
                prop_assert!(beat.spread.nanos() <= tolerance + tolerance / 25);
                prop_assert!(beat.cuts * 5 >= beat.of * 4);
            }
        }

        #[test]
        fn a_timer_is_found_among_others(
            period in 5_000_i64..600_000,
            off in prop::collection::vec(-90_i64..90, 8..40),
            strays in prop::collection::vec(1_000_i64..600_000, 0..2),
        ) {
            let mut ages: Vec<i64> = off.iter().map(|off| period + period * off / 5_000).collect();
            ages.extend(strays);
            let times: Vec<_> = (0..).step_by(1_000_000).zip(&ages)
                .map(|(open, age)| (open, None, open + age))
                .collect();
            let found = named(&times);
            prop_assert_eq!(found.len(), 1);
            prop_assert!((found[0].1 - period).abs() <= period / 25);
        }
    }
}
