//! What a talk expects, and how an analysis is held against it.

use super::model::uuid;
use forkscope::model::{
    analysis::{Analysis, Resume},
    verdict::Severity,
};
use std::{collections::BTreeSet, fmt::Write};

/// One `expect` line.
#[derive(Clone, Debug)]
pub(crate) enum Expectation {
    Resume {
        number: usize,
        /// Any of these.
        verdicts: Vec<String>,
        /// Any of these; empty for any at all.
        confidences: Vec<String>,
        codes: Vec<String>,
        not_codes: Vec<String>,
        first: Option<String>,
        cause: Option<String>,
        cursor: Option<String>,
        session: Option<String>,
    },
    Resumes(usize),
    Sessions(usize),
    Finding {
        code: String,
        severity: Option<String>,
        word: Option<String>,
    },
    NoFinding(String),
    NoneAboveInfo,
    /// No finding above info but these.
    Only(Vec<String>),
    /// A number in the totals: sessionless, legacy or refused.
    Total(String, u64),
}

impl Expectation {
    /// Parses the words after `expect`.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(match words.as_slice() {
            ["sessions", n] => Self::Sessions(number(n)?),
            ["resumes", n] => Self::Resumes(number(n)?),
            [what @ ("sessionless" | "legacy" | "refused"), n] => {
                Self::Total((*what).to_owned(), number(n)? as u64)
            }
            ["no", "finding", "above", "info"] => Self::NoneAboveInfo,
            ["no", "finding", code] => Self::NoFinding(known(code)?),
            ["only", codes @ ..] => {
                Self::Only(codes.iter().map(|c| known(c)).collect::<Result<_, _>>()?)
            }
            ["finding", code, rest @ ..] => {
                let (mut severity, mut word) = (None, None);
                for it in rest {
                    if ["fork", "loss", "warning", "info"].contains(it) {
                        severity = Some((*it).to_owned());
                    } else {
                        word = Some((*it).to_owned());
                    }
                }
                Self::Finding {
                    code: known(code)?,
                    severity,
                    word,
                }
            }
            ["resume", n, verdict, rest @ ..] => {
                let alternatives =
                    |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
                let verdicts = alternatives(verdict);
                if let Some(wrong) = verdicts.iter().find(|v| {
                    !forkscope::model::verdict::Verdict::ALL
                        .iter()
                        .any(|known| known.name() == *v)
                }) {
                    return Err(format!("{wrong:?} is no verdict"));
                }
                let (mut confidences, mut codes, mut not_codes) = (vec![], vec![], vec![]);
                let (mut first, mut cause, mut cursor, mut session) = (None, None, None, None);
                let mut rest = rest.iter();
                while let Some(word) = rest.next() {
                    let mut value = || {
                        rest.next()
                            .map(|v| (*v).to_owned())
                            .ok_or(format!("{word} of what?"))
                    };
                    match *word {
                        "first" => first = Some(event_id(&value()?)),
                        "cause" => cause = Some(value()?),
                        "cursor" => cursor = Some(event_id(&value()?)),
                        "session" => session = Some(uuid(&value()?)),
                        _ if ["high", "medium", "low"]
                            .contains(&word.split('|').next().unwrap()) =>
                        {
                            confidences = alternatives(word);
                        }
                        _ => match word.strip_prefix('!') {
                            Some(code) => not_codes.push(known(code)?),
                            None => codes.push(known(word)?),
                        },
                    }
                }
                Self::Resume {
                    number: number(n)?,
                    verdicts,
                    confidences,
                    codes,
                    not_codes,
                    first,
                    cause,
                    cursor,
                    session,
                }
            }
            _ => return Err(format!("cannot expect {words:?}")),
        })
    }

    /// What is wrong with `analysis`, if anything. `packets`: the road shows who closed, and
    /// confidence is not lowered by what a HAR leaves out.
    fn check(&self, analysis: &Analysis, packets: bool) -> Option<String> {
        match self {
            Self::Sessions(want) => {
                let ids: BTreeSet<&str> =
                    analysis.sessions.iter().map(|s| &*s.session_id).collect();
                (ids.len() != *want).then(|| format!("sessions {ids:?}, want {want}"))
            }
            Self::Resumes(want) => (analysis.resumes.len() != *want)
                .then(|| format!("{} resumes, want {want}", analysis.resumes.len())),
            Self::Total(what, want) => {
                let got = match what.as_str() {
                    "sessionless" => analysis.totals.sessionless,
                    "legacy" => analysis.totals.legacy_sessions,
                    _ => analysis.totals.refused_ids,
                };
                (got != *want).then(|| format!("{what} {got}, want {want}"))
            }
            Self::NoneAboveInfo => {
                let bad = above_info(analysis);
                (!bad.is_empty()).then(|| format!("findings above info: {bad:?}"))
            }
            Self::NoFinding(code) => analysis
                .findings
                .iter()
                .find(|f| f.code == code)
                .map(|f| format!("has finding {code}: {}", f.detail)),
            Self::Only(codes) => {
                let mut bad = above_info(analysis);
                bad.retain(|code| !codes.iter().any(|c| c == code));
                (!bad.is_empty()).then(|| format!("findings beside {codes:?}: {bad:?}"))
            }
            Self::Finding {
                code,
                severity,
                word,
            } => {
                let found = analysis.findings.iter().any(|f| {
                    f.code == code
                        && severity.as_ref().is_none_or(|s| f.severity.name() == s)
                        && word.as_ref().is_none_or(|w| {
                            f.evidence.contains(w.as_str()) || f.detail.contains(w.as_str())
                        })
                });
                (!found).then(|| {
                    let same: Vec<String> = analysis
                        .findings
                        .iter()
                        .filter(|f| f.code == code)
                        .map(|f| format!("{} ({}: {})", f.severity.name(), f.evidence, f.detail))
                        .collect();
                    format!("lacks finding {code} {severity:?} {word:?}; has {same:?}")
                })
            }
            Self::Resume { number, .. } => match analysis.resumes.get(number - 1) {
                None => Some(format!("resume {number} not reported")),
                Some(resume) => {
                    let bad = self.check_resume(resume, packets);
                    (!bad.is_empty()).then(|| {
                        format!(
                            "resume {number}: {} (reason: {}; codes {:?})",
                            bad.join("; "),
                            resume.reason,
                            resume.findings
                        )
                    })
                }
            },
        }
    }

    fn check_resume(&self, got: &Resume, packets: bool) -> Vec<String> {
        let Self::Resume {
            verdicts,
            confidences,
            codes,
            not_codes,
            first,
            cause,
            cursor,
            session,
            ..
        } = self
        else {
            return Vec::new();
        };
        let mut bad = Vec::new();
        let mut hold = |what: &str, got: &str, want: &str, right: bool| {
            if !right {
                bad.push(format!("{what} {got}, want {want}"));
            }
        };
        let verdict = got.verdict.name();
        hold(
            "verdict",
            verdict,
            &verdicts.join("|"),
            verdicts.iter().any(|v| v == verdict),
        );
        if packets && !confidences.is_empty() {
            let confidence = got.confidence.name();
            hold(
                "confidence",
                confidence,
                &confidences.join("|"),
                confidences.iter().any(|c| c == confidence),
            );
        }
        for code in codes {
            hold(
                "codes",
                "lack",
                code,
                got.findings.iter().any(|f| f == code),
            );
        }
        for code in not_codes {
            hold(
                "codes",
                "have",
                &format!("no {code}"),
                !got.findings.iter().any(|f| f == code),
            );
        }
        if let Some(want) = first {
            let id = got.first_event_id.as_deref().unwrap_or("-");
            hold("first", id, want, id == want);
        }
        if let (Some(want), true) = (cause, packets) {
            let cause = got.disconnect_cause.map_or("", |c| c.name());
            hold("cause", cause, want, cause == want);
        }
        if let Some(want) = cursor {
            hold(
                "cursor",
                &got.last_event_id,
                want,
                got.last_event_id == *want,
            );
        }
        if let Some(want) = session {
            hold("session", &got.session_id, want, *got.session_id == **want);
        }
        bad
    }
}

/// All that is wrong with an analysis.
pub(crate) fn failures(
    expectations: &[Expectation],
    analysis: &Analysis,
    packets: bool,
) -> Vec<String> {
    expectations
        .iter()
        .filter_map(|e| e.check(analysis, packets))
        .collect()
}

/// The expectations of a HAR: those of the packets, but where the talk says otherwise.
pub(crate) fn for_har(talk: &super::model::Talk) -> Vec<Expectation> {
    let subject = |e: &Expectation| match e {
        Expectation::Resume { number, .. } => Some(format!("resume {number}")),
        Expectation::Sessions(_) => Some("sessions".to_owned()),
        Expectation::Resumes(_) => Some("resumes".to_owned()),
        Expectation::Total(what, _) => Some(what.clone()),
        Expectation::NoneAboveInfo | Expectation::Only(_) => Some("findings".to_owned()),
        Expectation::Finding { code, .. } | Expectation::NoFinding(code) => Some(code.clone()),
    };
    let replaced: Vec<_> = talk.har_expectations.iter().map(subject).collect();
    talk.expectations
        .iter()
        .filter(|e| !replaced.contains(&subject(e)))
        .chain(&talk.har_expectations)
        .cloned()
        .collect()
}

/// Everything of an analysis that must not depend on the road, in words.
pub(crate) fn fingerprint(analysis: &Analysis) -> String {
    let mut text = String::new();
    for s in &analysis.sessions {
        let _ = writeln!(
            text,
            "session {} {} {:?} streams {} segments {} events {} {:?} {} {} {:?}",
            s.session_id,
            s.incarnation,
            s.client,
            s.streams,
            s.segments,
            s.events,
            s.verdicts,
            s.id_scheme.name(),
            s.end.name(),
            s.findings
        );
    }
    for r in &analysis.resumes {
        let _ = writeln!(text, "{}", essence(r));
        let _ = writeln!(
            text,
            "  {} {:?} {:?} {:?} {:?} {:?} frame {} {:?}",
            r.reason,
            r.confidence,
            r.disconnect_time,
            r.resume_time,
            r.first_event_time,
            r.requests,
            r.place.frame,
            r.place.tcp_stream
        );
    }
    for f in &analysis.findings {
        let _ = writeln!(
            text,
            "finding {} {} {} {} {} {:?} {:?} frame {} {}",
            f.code,
            f.severity.name(),
            f.confidence.name(),
            f.session_id,
            f.incarnation,
            f.resume,
            f.time,
            f.place.frame,
            f.detail
        );
    }
    let _ = writeln!(text, "{:?}", analysis.totals);
    text
}

/// What no ill treatment of packets may change of a resume.
pub(crate) fn essence(r: &Resume) -> String {
    format!(
        "resume {} {} after {:?}: {} {:?} first {:?} cause {}",
        r.session_id,
        r.resume,
        r.last_event_id,
        r.verdict.name(),
        r.findings,
        r.first_event_id,
        r.disconnect_cause.map_or("", |c| c.name())
    )
}

fn above_info(analysis: &Analysis) -> BTreeSet<&'static str> {
    analysis
        .findings
        .iter()
        .filter(|f| f.severity > Severity::Info)
        .map(|f| f.code)
        .collect()
}

/// An event id as a talk writes it: `u:NAME` stands for a random UUID.
pub(crate) fn event_id(word: &str) -> String {
    match word.strip_prefix("u:") {
        Some(name) => uuid(&format!("event {name}")),
        None => word.to_owned(),
    }
}

fn number(word: &str) -> Result<usize, String> {
    word.parse().map_err(|_| format!("{word:?} is no number"))
}

/// A code in kebab case. The registry is asked by the tests over all talks, so that a
/// misspelt code cannot make an expectation that always holds.
fn known(code: &str) -> Result<String, String> {
    if code.contains('-') || ["broadcast", "misrouted"].contains(&code) {
        Ok(code.to_owned())
    } else {
        Err(format!("{code:?} is no code of a finding"))
    }
}

/// Every code that expectations name.
pub(crate) fn codes(expectations: &[Expectation]) -> BTreeSet<&str> {
    expectations
        .iter()
        .flat_map(|e| match e {
            Expectation::Resume {
                codes, not_codes, ..
            } => codes.iter().chain(not_codes).collect(),
            Expectation::Finding { code, .. } | Expectation::NoFinding(code) => vec![code],
            Expectation::Only(codes) => codes.iter().collect(),
            _ => vec![],
        })
        .map(String::as_str)
        .collect()
}
