//! The lines of the summary about the run as a whole: incidents, lifetimes, timers.

use super::{
    Style,
    style::human,
    terminal::{Page, shown},
    text::{LONG, count, grouped, rest},
};
use crate::model::{
    analysis::{Analysis, CutBy, Incident, ServerRow, Threshold, Timer, TimerKind},
    flow::Endpoint,
    verdict::Verdict,
};
use std::cmp::Reverse;

/// Writes them, at most so many incidents and so many of each other kind; nothing when there is nothing to say.
pub(super) fn write(
    analysis: &Analysis,
    style: &Style,
    (most_incidents, most): (usize, usize),
    page: &mut Page,
) {
    let mut incidents: Vec<(u64, &Incident)> = (1..).zip(&analysis.incidents).collect();
    // Worst first, then in order of time.
    incidents.sort_by_key(|(_, incident)| {
        let of = |verdict: Verdict| incident.verdicts.get(verdict.index()).copied();
        Reverse((
            of(Verdict::Forked),
            incident.lost_requests,
            incident.sessions,
        ))
    });
    let lines = incidents
        .iter()
        .map(|&(number, row)| incident(number, row, style));
    list(page, most_incidents, "Incidents", lines);
    let lines = analysis.servers.iter().filter_map(lifetime);
    list(page, most, "Lifetime", lines);
    let lines = analysis.timers.iter().map(timer);
    list(page, most, "Timers", lines);
}

/// Lines beside a label, and how many more there are.
fn list(page: &mut Page, most: usize, label: &str, lines: impl Iterator<Item = String>) {
    let mut label = label;
    let mut lines = lines.fuse();
    for line in lines.by_ref().take(most) {
        page.field(std::mem::take(&mut label), &line, 0);
    }
    let more = lines.count();
    if more > 0 {
        page.field(label, &rest(more, most), 0);
    }
}

fn incident(number: u64, row: &Incident, style: &Style) -> String {
    let mut text = format!(
        "{number}: {}, {} of {} of {} cut within {} ({})",
        style.time.text(row.start),
        count(u64::from(row.segments_cut), "stream", "streams"),
        count(u64::from(row.sessions), "session", "sessions"),
        server(&row.server),
        human(row.end.since(row.start)),
        row.cause.name(),
    );
    let verdicts: Vec<String> = Verdict::ALL
        .into_iter()
        .zip(row.verdicts)
        .filter(|&(_, number)| number > 0)
        .map(|(verdict, number)| format!("{} {verdict}", grouped(u64::from(number))))
        .collect();
    if verdicts.is_empty() {
        text.push_str("; no resume followed");
    } else {
        text.push_str(&format!("; then {}", verdicts.join(", ")));
    }
    if row.lost_requests > 0 {
        let lost = count(u64::from(row.lost_requests), "request", "requests");
        text.push_str(&format!("; {lost} lost"));
    }
    text
}

fn lifetime(row: &ServerRow) -> Option<String> {
    let threshold = row.threshold?;
    Some(format!(
        "{}: sessions live about {} without a connection: longest continued {}, shortest lost {}, {} of {} \
         on the wrong side",
        server(&row.server),
        about(&threshold),
        human(threshold.low),
        human(threshold.high),
        grouped(u64::from(threshold.misfits)),
        grouped(u64::from(threshold.observed)),
    ))
}

fn timer(row: &Timer) -> String {
    let whom = match (row.side, &row.user_agent) {
        (CutBy::Server, _) => "the server cuts".to_owned(),
        (CutBy::Proxy, _) => "a proxy cuts".to_owned(),
        (CutBy::Client, None) => "clients without a User-Agent cut".to_owned(),
        (CutBy::Client, Some(agent)) => format!("clients ({}) cut", shown(agent, LONG)),
    };
    let when = match row.kind {
        TimerKind::Age => "at the age of",
        TimerKind::Silence => "after a silence of",
    };
    format!(
        "{}: {whom} {when} {}: {} of {}, {} apart at most",
        server(&row.server),
        human(row.period),
        grouped(u64::from(row.cuts)),
        count(u64::from(row.of), "cut", "cuts"),
        human(row.spread),
    )
}

fn server(endpoint: &Endpoint) -> String {
    shown(&endpoint.to_string(), LONG)
}

/// The roundest length of time in the bracket: people set timers to round ones.
fn about(threshold: &Threshold) -> String {
    let (low, high) = (threshold.low.nanos().max(1), threshold.high.nanos());
    let middle = threshold.middle();
    let round = ROUND.iter().find_map(|&(step, unit, name)| {
        let nearest = middle.nanos().saturating_add(step / 2) / step * step;
        let next = (low / step * step).saturating_add(step);
        let multiple = [nearest, next]
            .into_iter()
            .find(|multiple| (low..=high).contains(multiple))?;
        Some(format!("{}\u{a0}{name}", multiple / unit))
    });
    round.unwrap_or_else(|| human(middle))
}

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const MILLI: i64 = SECOND / 1_000;

/// Steps of round lengths of time, with the unit that they are told in.
const ROUND: [(i64, i64, &str); 12] = [
    (HOUR, HOUR, "h"),
    (30 * MINUTE, MINUTE, "min"),
    (10 * MINUTE, MINUTE, "min"),
    (5 * MINUTE, MINUTE, "min"),
    (MINUTE, MINUTE, "min"),
    (30 * SECOND, SECOND, "s"),
    (10 * SECOND, SECOND, "s"),
    (5 * SECOND, SECOND, "s"),
    (SECOND, SECOND, "s"),
    (500 * MILLI, MILLI, "ms"),
    (100 * MILLI, MILLI, "ms"),
    (10 * MILLI, MILLI, "ms"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Span;

    #[test]
    fn says_the_roundest_time_in_the_bracket() {
        let said = |low: i64, high: i64| {
            let threshold = Threshold {
                low: Span::from_millis(low),
                high: Span::from_millis(high),
                misfits: 0,
                observed: 9,
            };
            about(&threshold).replace('\u{a0}', " ")
        };
        assert_eq!(said(28_100, 31_000), "30 s");
        assert_eq!(said(58_000, 66_000), "1 min");
        assert_eq!(said(1_000, 3_599_000), "30 min");
        assert_eq!(said(299_000, 302_000), "5 min");
        assert_eq!(said(6_100, 7_900), "7 s");
        assert_eq!(said(1_210, 1_290), "1250 ms");
        assert_eq!(said(1_200, 7_000_000), "1 h");
        assert_eq!(said(-200, 900), "500 ms");
        assert_eq!(said(1_211, 1_212), "1.211 s");
    }
}
