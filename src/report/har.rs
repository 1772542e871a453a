//! The lines of the summary about HARs: what each can tell, and what it cannot.

use super::{
    terminal::{Page, shown},
    text::{LONG, count, file, grouped, rest},
};
use crate::model::{
    analysis::{Analysis, Input},
    exchange::{Exchange, Media, Source},
    har::HarFacts,
};

/// Writes a line for each HAR, at most so many.
pub(super) fn write(analysis: &Analysis, most: usize, page: &mut Page) {
    let several = analysis.inputs.len() > 1;
    let mut label = "HAR";
    let mut hars = analysis.inputs.iter().filter_map(|input| {
        let facts = input.har.as_ref()?;
        Some((input, facts))
    });
    for (input, facts) in hars.by_ref().take(most) {
        page.field(std::mem::take(&mut label), &line(input, facts, several), 0);
    }
    let more = hars.count();
    if more > 0 {
        page.field(label, &rest(more, most), 0);
    }
}

/// Who wrote it, and what is in it of bodies, times of events and ends.
fn line(input: &Input, facts: &HarFacts, named: bool) -> String {
    let mut text = if named {
        format!("{}: ", file(input))
    } else {
        String::new()
    };
    let makers: Vec<String> = facts
        .creators
        .iter()
        .take(MAKERS)
        .map(|creator| shown(creator, LONG))
        .collect();
    match makers.as_slice() {
        [] => text.push_str("by an unnamed program"),
        makers => text.push_str(&format!("by {}", makers.join(", "))),
    }
    if let Some(more @ 1..) = facts.creators.len().checked_sub(MAKERS) {
        text.push_str(&format!(" and {more} more"));
    }
    if facts.no_wire > 0 {
        let entries = count(facts.no_wire, "entry", "entries");
        text.push_str(&format!(
            "; {entries} of JSON-RPC without HTTP: there is no wire to judge"
        ));
    }
    if facts.responses > 0 {
        let of = count(facts.responses, "response", "responses");
        text.push_str(&match (facts.bodies, facts.responses) {
            (0, _) => format!("; bodies: none of {of}"),
            (bodies, responses) if bodies == responses => format!("; bodies: all of {of}"),
            (bodies, _) => format!("; bodies: {} of {of}", grouped(bodies)),
        });
    }
    if facts.streams > 0 {
        let of = count(facts.streams, "event stream", "event streams");
        text.push_str(&match (facts.timed, facts.streams) {
            (0, _) => format!("; times of events: none of {of}"),
            (timed, streams) if timed == streams => format!("; times of events: all of {of}"),
            (timed, _) => format!("; times of events: {} of {of}", grouped(timed)),
        });
        if facts.made_up > 0 {
            text.push_str(&format!(
                " ({} made up and left out)",
                grouped(facts.made_up)
            ));
        }
    }
    if facts.no_wire == 0 || facts.responses > 0 {
        text.push_str("; who closed: unknown");
    }
    if facts.omits_open {
        text.push_str("; streams open at its export are not in it");
    }
    text
}

/// What of the HARs could not be read: a line each, over all of them.
pub(super) fn unread(analysis: &Analysis) -> Vec<String> {
    let sum = |of: fn(&HarFacts) -> u64| sum(analysis, of);
    let mut lines = Vec::new();
    let missing = without_body(analysis);
    if missing > 0 {
        let (them, it) = if missing == 1 {
            ("its", "it")
        } else {
            ("their", "them")
        };
        lines.push(format!(
            "{} in HARs without {them} body: what came with {it} is not known, not that nothing came",
            count(missing, "response", "responses"),
        ));
    }
    let sessions = sum(|facts| facts.masked_sessions);
    if sessions > 0 {
        lines.push(format!(
            "{} with a redacted session id, which groups nothing: such exchanges are of any session",
            count(sessions, "HAR entry", "HAR entries"),
        ));
    }
    let cursors = sum(|facts| facts.masked_cursors);
    if cursors > 0 {
        lines.push(format!(
            "{}: what was resumed is not known",
            count(cursors, "redacted Last-Event-ID", "redacted Last-Event-IDs"),
        ));
    }
    let events = sum(|facts| facts.masked_events);
    if events > 0 {
        lines.push(format!(
            "{}: they cannot be compared",
            count(events, "redacted event id", "redacted event ids"),
        ));
    }
    let messages = sum(|facts| facts.no_wire);
    if messages > 0 {
        lines.push(format!(
            "{} that are JSON-RPC messages without HTTP: no session, no stream, no close",
            count(messages, "HAR entry", "HAR entries"),
        ));
    }
    lines
}

/// Responses whose body no HAR has, or none that can be read.
pub(super) fn without_body(analysis: &Analysis) -> u64 {
    let lacks = |exchange: &&Exchange| {
        let media = exchange.response.as_ref().map(|response| response.media);
        matches!(exchange.source, Source::Har { bodies: false, .. })
            && matches!(media, Some(Media::EventStream | Media::Json))
    };
    analysis.exchanges.iter().filter(lacks).count() as u64
}

/// Entries and events of all HARs whose ids were redacted.
pub(super) fn masked(analysis: &Analysis) -> u64 {
    sum(analysis, |facts| {
        facts.masked_sessions + facts.masked_cursors + facts.masked_events
    })
}

fn sum(analysis: &Analysis, of: impl Fn(&HarFacts) -> u64) -> u64 {
    let hars = analysis
        .inputs
        .iter()
        .filter_map(|input| input.har.as_ref());
    hars.map(of).sum()
}

/// Programs named of one file.
const MAKERS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn said(facts: &HarFacts) -> String {
        let input = Input {
            name: "a.har".to_owned(),
            ..Input::default()
        };
        line(&input, facts, false)
    }

    #[test]
    fn says_what_a_har_can_tell() {
        let facts = HarFacts {
            creators: vec!["WebInspector 537.36".to_owned()],
            responses: 9,
            bodies: 7,
            streams: 4,
            timed: 4,
            ..HarFacts::default()
        };
        assert_eq!(
            said(&facts),
            "by WebInspector 537.36; bodies: 7 of 9 responses; times of events: all of 4 event \
             streams; who closed: unknown"
        );
        assert_eq!(
            said(&HarFacts {
                bodies: 0,
                streams: 0,
                omits_open: true,
                ..facts
            }),
            "by WebInspector 537.36; bodies: none of 9 responses; who closed: unknown; streams open \
             at its export are not in it"
        );
        let made_up = HarFacts {
            responses: 1,
            bodies: 1,
            streams: 1,
            made_up: 1,
            ..HarFacts::default()
        };
        assert_eq!(
            said(&made_up),
            "by an unnamed program; bodies: all of 1 response; times of events: none of 1 event \
             stream (1 made up and left out); who closed: unknown"
        );
        let messages = HarFacts {
            creators: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
            no_wire: 2,
            ..HarFacts::default()
        };
        assert_eq!(
            said(&messages),
            "by a, b, c and 1 more; 2 entries of JSON-RPC without HTTP: there is no wire to judge"
        );
    }
}
