//! Analysis → which exchanges prove which finding.

use super::marks::{Mark, marks};
use crate::{
    limits::Limits,
    model::{
        analysis::{Analysis, Finding, Resume},
        exchange::{Exchange, Source},
        id::SessionId,
        message::PayloadHash,
        place::Place,
        time::Timestamp,
    },
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What of the inputs is wanted, finding by finding.
#[derive(Debug)]
pub struct Plan {
    /// The findings that get evidence, the worst first, the earlier first among equals.
    pub wanted: Vec<Wanted>,
    /// The other findings, as indices into [`Analysis::findings`]: more than the limit.
    pub beyond: Vec<u32>,
}

/// What is wanted for one finding.
#[derive(Debug)]
pub struct Wanted {
    /// Its number, from 1.
    pub number: u32,
    /// Its index in [`Analysis::findings`].
    pub finding: u32,
    /// The name of its file, without the suffix: plain letters, digits and dashes.
    pub stem: String,
    /// The packets or entries that it rests on, in order of time.
    pub marks: Vec<Mark>,
    /// The exchanges that decide, as indices into [`Analysis::exchanges`], the most telling first.
    pub decisive: Vec<u32>,
    /// The exchanges of its session on every side of proxies, in order of time.
    pub session: Arc<[u32]>,
    /// Exchanges of other sessions that it rests on, in order of time.
    pub related: Vec<u32>,
    /// When it is.
    pub time: Timestamp,
}

impl Plan {
    /// What is wanted for the findings of `analysis`, for no more of them than the limit.
    #[must_use]
    pub fn of(analysis: &Analysis, limits: &Limits) -> Self {
        let mut order: Vec<u32> = (0..).take(analysis.findings.len()).collect();
        order.sort_by_key(|&index| finding(analysis, index).map(|f| Reverse(f.severity)));
        let beyond = order.split_off(limits.evidence_files.min(order.len()));
        let lookup = Lookup::new(analysis);
        let mut wanted: Vec<Wanted> = (1..)
            .zip(order)
            .filter_map(|(number, index)| {
                Some(lookup.wanted(number, index, finding(analysis, index)?))
            })
            .collect();
        lookup.relate(&mut wanted);
        Self { wanted, beyond }
    }
}

fn finding(analysis: &Analysis, index: u32) -> Option<&Finding> {
    analysis.findings.get(index as usize)
}

/// What is looked up for each finding.
struct Lookup<'a> {
    analysis: &'a Analysis,
    /// The exchanges of each session id, in order of time.
    sessions: BTreeMap<&'a SessionId, Arc<[u32]>>,
    /// Exchanges by where they begin.
    begins: BTreeMap<Place, u32>,
}

impl<'a> Lookup<'a> {
    fn new(analysis: &'a Analysis) -> Self {
        let mut sessions: BTreeMap<&SessionId, Vec<u32>> = BTreeMap::new();
        let mut begins = BTreeMap::new();
        for (number, (exchange, of)) in
            (0..).zip(analysis.exchanges.iter().zip(&analysis.session_of))
        {
            begins.entry(exchange.place).or_insert(number);
            let row = of.and_then(|of| analysis.sessions.get(of.session? as usize));
            if let Some(row) = row {
                sessions.entry(&row.session_id).or_default().push(number);
            }
            // What is answered under another id is of both: the one that was asked for is told by its request.
            let asked = exchange.asked_session();
            if let Some(asked) =
                asked.filter(|&asked| row.is_some_and(|row| row.session_id != *asked))
            {
                sessions.entry(asked).or_default().push(number);
            }
        }
        let sessions = sessions
            .into_iter()
            .map(|(id, members)| (id, Arc::from(members)))
            .collect();
        Self {
            analysis,
            sessions,
            begins,
        }
    }

    fn exchange(&self, number: u32) -> Option<&'a Exchange> {
        self.analysis.exchanges.get(number as usize)
    }

    fn wanted(&self, number: u32, index: u32, finding: &'a Finding) -> Wanted {
        let resume = self.resume(finding);
        let session = if finding.session_id.is_empty() {
            self.streams_with(finding)
        } else {
            let members = self.sessions.get(&finding.session_id);
            members.map_or_else(|| Arc::from([]), Arc::clone)
        };
        let mut decisive = Vec::new();
        let mut add = |number: Option<u32>| {
            if let Some(number) = number.filter(|number| !decisive.contains(number)) {
                decisive.push(number);
            }
        };
        let at = self.at(finding.place, &session);
        add(resume.map(|resume| resume.exchange));
        add(at);
        let before = resume.and_then(|resume| self.at(resume.place_before?, &session));
        add(before);
        let marks = marks(self.analysis, finding, resume, at, before, &session);
        for mark in &marks {
            add(self.at(mark.place, &session));
        }
        // How the session began.
        add(session.first().copied());
        Wanted {
            number,
            finding: index,
            stem: stem(number, finding),
            marks,
            decisive,
            related: self.answered_as(finding, resume),
            session,
            time: finding.time,
        }
    }

    /// The resume that a finding is on.
    fn resume(&self, finding: &Finding) -> Option<&'a Resume> {
        let of = |resume: &&Resume| {
            Some(resume.resume) == finding.resume && resume.session_id == finding.session_id
        };
        let mut resumes = self.analysis.resumes.iter().filter(of);
        let first = resumes.next()?;
        // Two services may have sessions of one id.
        if first.place == finding.place {
            return Some(first);
        }
        let same = |resume: &&Resume| resume.place == finding.place;
        Some(resumes.find(same).unwrap_or(first))
    }

    /// The exchange of a session that a place lies in, or else any that begins there.
    fn at(&self, place: Place, session: &[u32]) -> Option<u32> {
        if let Some(&number) = self.begins.get(&place) {
            return Some(number);
        }
        let holds = |number: &&u32| {
            self.exchange(**number).is_some_and(|exchange| {
                let own =
                    |own: &Place| own.input == place.input && own.tcp_stream == place.tcp_stream;
                std::iter::once(&exchange.place)
                    .chain(&exchange.more_places)
                    .any(own)
                    && (exchange.place.input != place.input || exchange.place.frame <= place.frame)
                    && (exchange.end.place.input != place.input
                        || exchange.end.place.frame >= place.frame)
            })
        };
        session.iter().find(holds).copied()
    }

    /// The event streams at the ends that a finding on no session names.
    fn streams_with(&self, finding: &Finding) -> Arc<[u32]> {
        let named = |exchange: &Exchange| {
            finding.server.is_some() && exchange.server == finding.server
                || finding.client.is_some() && exchange.client == finding.client
        };
        (0..)
            .zip(&self.analysis.exchanges)
            .filter(|(_, exchange)| exchange.is_event_stream() && named(exchange))
            .map(|(number, _)| number)
            .collect()
    }

    /// The exchanges of the session under whose id a resume was answered.
    fn answered_as(&self, finding: &Finding, resume: Option<&Resume>) -> Vec<u32> {
        resume
            .and_then(|resume| resume.response_session_id.as_ref())
            .filter(|&given| *given != finding.session_id)
            .and_then(|given| self.sessions.get(given))
            .map_or_else(Vec::new, |members| members.to_vec())
    }

    /// Adds what came or was called in another session as well, where that is what a finding is about.
    fn relate(&self, wanted: &mut [Wanted]) {
        let mut events: BTreeMap<PayloadHash, Vec<usize>> = BTreeMap::new();
        let mut calls: BTreeMap<PayloadHash, Vec<usize>> = BTreeMap::new();
        for (index, one) in wanted.iter().enumerate() {
            let code = finding(self.analysis, one.finding).map_or("", |finding| finding.code);
            let by = match code {
                "cross-session-delivery"
                | "unknown-session-allocation"
                | "foreign-cursor"
                | "broadcast" => &mut events,
                "executed-twice" => &mut calls,
                _ => continue,
            };
            let decisive = one
                .decisive
                .iter()
                .filter_map(|&number| self.exchange(number));
            let hashes: BTreeSet<PayloadHash> = match code {
                "executed-twice" => decisive
                    .filter_map(|exchange| exchange.request.as_ref())
                    .flat_map(|request| request.messages.iter().map(|message| message.call))
                    .collect(),
                _ => decisive
                    .flat_map(|exchange| exchange.events.iter().map(|event| event.hash))
                    .collect(),
            };
            for hash in hashes
                .into_iter()
                .filter(|hash| *hash != PayloadHash::default())
            {
                by.entry(hash).or_default().push(index);
            }
        }
        if events.is_empty() && calls.is_empty() {
            return;
        }
        for (number, exchange) in (0..).zip(&self.analysis.exchanges) {
            let messages = exchange
                .request
                .iter()
                .flat_map(|request| &request.messages);
            let called = messages.filter_map(|message| calls.get(&message.call));
            let came = exchange
                .events
                .iter()
                .filter_map(|event| events.get(&event.hash));
            for &index in called.chain(came).flatten() {
                if let Some(one) = wanted.get_mut(index)
                    && one.related.len() < RELATED
                    && one.related.last() != Some(&number)
                    && one.session.binary_search(&number).is_err()
                {
                    one.related.push(number);
                }
            }
        }
    }
}

/// `003-sequence-regression-0f3a2c5e-8b1d-4c7-resume-2`: the code, what can be shown of the session's id, and the
/// resume.
fn stem(number: u32, finding: &Finding) -> String {
    let id: String = finding
        .session_id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(SESSION_SHOWN)
        .collect();
    let mut stem = format!("{number:03}-{}", finding.code);
    let id = id.trim_matches('-');
    if !id.is_empty() {
        stem.push('-');
        stem.push_str(id);
    }
    if let Some(resume) = finding.resume {
        stem.push_str(&format!("-resume-{resume}"));
    }
    stem
}

/// Whether an exchange comes from a HAR.
pub(super) const fn is_har(exchange: &Exchange) -> bool {
    matches!(exchange.source, Source::Har { .. })
}

/// Letters of a session's id in the name of a file.
const SESSION_SHOWN: usize = 16;

/// Exchanges of other sessions that a finding may want: a few show what it says.
const RELATED: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn the_worst_come_first_and_no_more_than_the_limit() {
        let analysis = sample::rich();
        let limits = Limits {
            evidence_files: 3,
            ..Limits::default()
        };
        let plan = Plan::of(&analysis, &limits);
        let stems: Vec<&str> = plan.wanted.iter().map(|one| &*one.stem).collect();
        assert_eq!(
            stems,
            [
                "001-sequence-regression-0f3a2c5e-8b1d-4c-resume-1",
                "002-unknown-session-allocation-0f3a2c5e-8b1d-4c-resume-1",
                "003-ids-skipped-0f3a2c5e-8b1d-4c-resume-2",
            ]
        );
        assert_eq!(plan.beyond.len(), analysis.findings.len() - 3);
    }

    #[test]
    fn names_of_files_hold_nothing_from_the_wire_but_letters() {
        let mut finding = sample::fork().findings[0].clone();
        finding.session_id = "../é\n\"$(x)".into();
        finding.resume = None;
        assert_eq!(stem(7, &finding), "007-sequence-regression-x");
        finding.session_id = "".into();
        assert_eq!(stem(1234, &finding), "1234-sequence-regression");
    }
}
