//! A second stream that takes the place of one still open.
//!
//! Servers that keep one stream per client end the first when the second comes (or leave it open and
//! write to the second alone). That it was the second that ended the first is told by time: the
//! first, still open when the second was asked for, is ended by the *server* at once. A server that goes
//! down ends both, and its other streams with them, and a stream that has brought its response ends
//! by itself: neither is taken for this.

use super::{Channel, Completed, Line, MOMENT, Scene, completed};
use crate::model::{
    case::{Superseded, Supersession},
    exchange::{EndCause, Source},
    time::{Span, Timestamp},
    verdict::Confidence,
};
use std::collections::BTreeMap;

/// Ends of one shutdown lie within this of each other.
const TOGETHER: Span = Span::from_millis(100);

/// Streams asked for just before an end that are held to have caused it.
const NEWEST: usize = 4;

/// One stream that took another's place.
#[derive(Clone, Copy)]
struct Step {
    /// Indices into the lines.
    first: usize,
    second: usize,
    how: Supersession,
    /// From the second's request to the first's end.
    after: Span,
    confidence: Confidence,
}

pub(super) fn superseded(scene: &Scene<'_, '_>, lines: &[Line<'_>]) -> Vec<Superseded> {
    // What else ended with a stream is known where nothing is missing.
    if scene.gaps.any() {
        return Vec::new();
    }
    // When each channel's streams were asked for, in order.
    let mut asked: BTreeMap<Channel, Vec<(Timestamp, usize)>> = BTreeMap::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| counts(line)) {
        let list = asked.entry(place_of(scene, line)).or_default();
        list.push((line.exchange.time(), index));
    }
    let cuts = cuts_of_calls(scene, lines);
    let mut steps: Vec<Step> = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| counts(line)) {
        let asked = asked.get(&place_of(scene, line));
        let Some(asked) = asked.filter(|asked| asked.len() > 1) else {
            continue;
        };
        steps.extend(
            ended(scene, lines, asked, &cuts, index).or_else(|| silent(lines, asked, index)),
        );
    }
    steps.sort_by_key(|step| (step.second, step.first));
    // One stream takes the place of one. Several that end when it comes have another reason.
    let alone: Vec<Step> = steps
        .chunk_by(|a, b| a.second == b.second)
        .filter_map(|steps| match steps {
            [step] => Some(*step),
            _ => None,
        })
        .collect();
    rows(lines, &alone)
}

/// A HAR tells neither who ended a stream nor for how long it was open.
fn counts(line: &Line<'_>) -> bool {
    line.channel != Channel::Unknown && line.exchange.source == Source::Packets
}

/// Whether it resumes a POST's stream that had brought all its responses by then.
fn is_left_over(scene: &Scene<'_, '_>, line: &Line<'_>) -> bool {
    let before = |last: Completed| last.number != line.number && last.time <= line.exchange.time();
    matches!(line.channel, Channel::Post(_))
        && line.resume.is_some()
        && completed(scene, line.stream).is_some_and(before)
}

/// The place that a stream takes. One with nothing left to bring, resumed all the same, can only be one more
/// of the session's own: servers that keep it open give it the standalone stream's place.
fn place_of(scene: &Scene<'_, '_>, line: &Line<'_>) -> Channel {
    if is_left_over(scene, line) {
        Channel::Standalone
    } else {
        line.channel
    }
}

/// Ends by the server of calls' streams that have not brought their responses.
fn cuts_of_calls(scene: &Scene<'_, '_>, lines: &[Line<'_>]) -> Vec<(Timestamp, usize)> {
    let mut cuts: Vec<(Timestamp, usize)> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| {
            matches!(line.channel, Channel::Post(_))
                && line.ended_by_server()
                && !is_complete(scene, line)
        })
        .map(|(index, line)| (line.exchange.end.time, index))
        .collect();
    cuts.sort_unstable();
    cuts
}

/// Whether a stream had brought its responses when a segment of it ended. What the segment itself
/// brought came before its end, be its packet captured later.
fn is_complete(scene: &Scene<'_, '_>, line: &Line<'_>) -> bool {
    completed(scene, line.stream)
        .is_some_and(|last| last.number == line.number || last.time <= line.exchange.end.time)
}

/// The stream whose coming made the server end this one.
fn ended(
    scene: &Scene<'_, '_>,
    lines: &[Line<'_>],
    asked: &[(Timestamp, usize)],
    cuts: &[(Timestamp, usize)],
    index: usize,
) -> Option<Step> {
    let line = lines.get(index)?;
    let end = line.exchange.end.time;
    let left_over = is_left_over(scene, line);
    if !line.ended_by_server() || is_complete(scene, line) && !left_over {
        return None;
    }
    // A resume of what is complete mostly ends at once, by itself: then it had no place, and takes none.
    let lasted = |line: &Line<'_>, until: Timestamp| until.since(line.head()) > MOMENT;
    let until = asked.partition_point(|(at, _)| *at <= end);
    let newest = asked.get(..until)?.iter().rev().take(NEWEST);
    let (_, second) = *newest.into_iter().find(|&&(at, second)| {
        second > index
            && lines.get(second).is_some_and(|second| {
                second.is_get() && {
                    let head = second.head();
                    let since_head = end.since(head).nanos().abs();
                    end.since(at) <= MOMENT || since_head <= MOMENT.nanos()
                }
            })
    })?;
    let new = lines.get(second)?;
    // What goes down ends the new one, or a call's stream, in the same breath.
    let later = asked.get(until).map(|&(at, _)| at);
    let new_end = new.exchange.end.time;
    let both = !new.exchange.is_open()
        && new_end.since(end) <= TOGETHER
        && later.is_none_or(|later| later > new_end);
    let from = cuts.partition_point(|(at, _)| end.since(*at) > TOGETHER);
    let call = cuts
        .iter()
        .skip(from)
        .take_while(|(at, _)| at.since(end) <= TOGETHER)
        .take(3)
        .any(|&(_, cut)| cut != index && cut != second);
    let brief = left_over && !lasted(line, new.exchange.time())
        || is_left_over(scene, new) && !new.exchange.is_open() && !lasted(new, new_end);
    if both || call || brief {
        return None;
    }
    let after = end.since(new.exchange.time());
    Some(Step {
        first: index,
        second,
        how: Supersession::Ended,
        after,
        confidence: if after <= TOGETHER || end.since(new.head()) <= TOGETHER {
            Confidence::High
        } else {
            Confidence::Medium
        },
    })
}

/// The resume that took this segment's stream away, though its connection stood: it ends later,
/// and not another event came on it while the resume brought some.
fn silent(lines: &[Line<'_>], asked: &[(Timestamp, usize)], index: usize) -> Option<Step> {
    let line = lines.get(index)?;
    let end = line.exchange.end;
    if matches!(end.cause, EndCause::CaptureEnd | EndCause::Unknown)
        || line.exchange.events.is_empty()
    {
        return None;
    }
    let from = asked.partition_point(|&(_, other)| other <= index);
    let (_, second) = *asked.get(from)?;
    let new = lines.get(second)?;
    let silent = line
        .exchange
        .events
        .last()
        .is_none_or(|last| last.time < new.exchange.time());
    let elsewhere = new
        .exchange
        .events
        .iter()
        .any(|event| event.is_message() && event.time < end.time);
    (new.resume.is_some()
        && new.stream == line.stream
        && new.exchange.time() < end.time
        && silent
        && elsewhere)
        .then_some(Step {
            first: index,
            second,
            how: Supersession::Silent,
            after: end.time.since(new.exchange.time()),
            confidence: Confidence::Medium,
        })
}

/// Streams that take each other's places in turn are one row.
fn rows(lines: &[Line<'_>], steps: &[Step]) -> Vec<Superseded> {
    let mut rows: Vec<Superseded> = Vec::new();
    // The row that each line stands at the end of.
    let mut ends: BTreeMap<usize, usize> = BTreeMap::new();
    for step in steps {
        let Some(new) = lines.get(step.second) else {
            continue;
        };
        let known = ends
            .remove(&step.first)
            .filter(|&row| rows.get(row).is_some_and(|row| row.how == step.how));
        let row = known.unwrap_or(rows.len());
        ends.insert(step.second, row);
        if let Some(row) = rows.get_mut(row) {
            row.count += 1;
            row.last = new.exchange.time();
            row.resumes.extend(new.resume_number());
            row.confidence = row.confidence.min(step.confidence);
            continue;
        }
        rows.push(Superseded {
            how: step.how,
            count: 1,
            after: step.after,
            confidence: step.confidence,
            last: new.exchange.time(),
            resumes: new.resume_number().into_iter().collect(),
            site: new.site(),
        });
    }
    rows
}
