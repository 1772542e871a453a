//! What a talk expects, and how an analysis is held against it.

use super::{model::uuid, parse::duration};
use forkscope::model::{
    analysis::{Analysis, Incident, Resume, ServerRow, Timer},
    flow::Endpoint,
    time::Span,
    verdict::{Severity, Verdict},
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
        /// Any of these; `-` for none.
        backend: Option<String>,
        backend_before: Option<String>,
        /// The number of its incident; `None` for none.
        incident: Option<Option<u32>>,
    },
    Incidents(usize),
    Incident {
        number: usize,
        /// What is counted, and how many.
        counts: Vec<(String, u32)>,
        cause: Option<String>,
        server: Option<String>,
    },
    /// No server, or this one, has a threshold.
    NoThreshold(Option<String>),
    Threshold {
        server: String,
        /// Microseconds that the bracket lies in.
        between: (i64, i64),
        misfits: u32,
    },
    Timers(usize),
    Timer {
        kind: String,
        side: String,
        /// Microseconds.
        period: i64,
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
            ["incidents", n] => Self::Incidents(number(n)?),
            ["incident", n, rest @ ..] => Self::incident(number(n)?, rest)?,
            ["no", "threshold"] => Self::NoThreshold(None),
            ["no", "threshold", server] => Self::NoThreshold(Some((*server).to_owned())),
            ["threshold", server, "between", low, high, rest @ ..] => Self::Threshold {
                server: (*server).to_owned(),
                between: (duration(low)?, duration(high)?),
                misfits: match rest {
                    [] => 0,
                    ["misfits", n] => small(n)?,
                    _ => return Err(format!("{rest:?}: misfits N")),
                },
            },
            ["timers", n] => Self::Timers(number(n)?),
            ["timer", kind @ ("age" | "silence"), period, "by", side] => {
                if !["server", "proxy", "client"].contains(side) {
                    return Err(format!("{side:?}: server, proxy or client"));
                }
                Self::Timer {
                    kind: (*kind).to_owned(),
                    side: (*side).to_owned(),
                    period: duration(period)?,
                }
            }
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
                if let Some(wrong) = verdicts
                    .iter()
                    .find(|v| !Verdict::ALL.iter().any(|known| known.name() == *v))
                {
                    return Err(format!("{wrong:?} is no verdict"));
                }
                let (mut confidences, mut codes, mut not_codes) = (vec![], vec![], vec![]);
                let (mut first, mut cause, mut cursor, mut session) = (None, None, None, None);
                let (mut backend, mut backend_before) = (None, None);
                let mut incident = None;
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
                        "backend" => backend = Some(value()?),
                        "backend-before" => backend_before = Some(value()?),
                        "incident" => {
                            let number = value()?;
                            let none = number == "-";
                            incident = Some((!none).then(|| small(&number)).transpose()?);
                        }
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
                    backend,
                    backend_before,
                    incident,
                }
            }
            _ => return Err(format!("cannot expect {words:?}")),
        })
    }

    fn incident(number: usize, words: &[&str]) -> Result<Self, String> {
        let (mut counts, mut cause, mut server) = (Vec::new(), None, None);
        for pair in words.chunks(2) {
            let [key, value] = pair else {
                return Err(format!("{pair:?}: how many, or which?"));
            };
            match *key {
                "cause" => cause = Some((*value).to_owned()),
                "server" => server = Some((*value).to_owned()),
                "sessions" | "segments" | "resumes" | "lost" => {
                    counts.push(((*key).to_owned(), small(value)?));
                }
                verdict if Verdict::ALL.iter().any(|known| known.name() == verdict) => {
                    counts.push((verdict.to_owned(), small(value)?));
                }
                other => return Err(format!("{other:?} is nothing that an incident has")),
            }
        }
        Ok(Self::Incident {
            number,
            counts,
            cause,
            server,
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
            Self::Incidents(want) => {
                let got: Vec<String> = analysis.incidents.iter().map(show_incident).collect();
                (got.len() != *want).then(|| format!("incidents {got:#?}, want {want}"))
            }
            Self::Incident {
                number,
                counts,
                cause,
                server,
            } => {
                let Some(got) = analysis.incidents.get(number - 1) else {
                    return Some(format!("incident {number} not reported"));
                };
                let right = counts
                    .iter()
                    .all(|(what, want)| counted(got, what) == Some(*want))
                    && server
                        .as_ref()
                        .is_none_or(|want| is_server(&got.server, want, packets))
                    && cause
                        .as_ref()
                        .is_none_or(|want| !packets || got.cause.name() == want);
                (!right)
                    .then(|| format!("incident {number}: {}, want {self:?}", show_incident(got)))
            }
            Self::NoThreshold(server) => analysis
                .servers
                .iter()
                .filter(|row| {
                    let want = server.as_ref();
                    want.is_none_or(|want| is_server(&row.server, want, packets))
                })
                .find(|row| row.threshold.is_some())
                .map(|row| format!("has a threshold: {}", show_threshold(row))),
            Self::Threshold {
                server,
                between: (low, high),
                misfits,
            } => {
                let row = analysis
                    .servers
                    .iter()
                    .find(|row| is_server(&row.server, server, packets));
                let micros = |span: Span| span.nanos() / 1_000;
                let right = row.and_then(|row| row.threshold).is_some_and(|got| {
                    got.misfits == *misfits && micros(got.low) >= *low && micros(got.high) <= *high
                });
                (!right).then(|| {
                    let got = row.map_or("none".to_owned(), show_threshold);
                    format!("threshold {got}, want {self:?}")
                })
            }
            Self::Timers(want) => {
                let got: Vec<String> = analysis.timers.iter().map(show_timer).collect();
                (got.len() != *want).then(|| format!("timers {got:?}, want {want}"))
            }
            Self::Timer { kind, side, period } => {
                let found = analysis.timers.iter().any(|got| {
                    let off = (got.period.nanos() / 1_000 - period).abs();
                    got.kind.name() == kind && got.side.name() == side && off <= period / 50
                });
                (!found).then(|| {
                    let got: Vec<String> = analysis.timers.iter().map(show_timer).collect();
                    format!("timers {got:?}, want {self:?}")
                })
            }
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
                            f.confidence.name() == w
                                || f.evidence.contains(w.as_str())
                                || f.detail.contains(w.as_str())
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
            backend,
            backend_before,
            incident,
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
        for (what, want, got) in [
            ("backend", backend, &got.backend_after),
            ("backend before", backend_before, &got.backend_before),
        ] {
            if let (Some(want), true) = (want, packets) {
                let got = got.as_deref().unwrap_or("-");
                hold(what, got, want, got == want);
            }
        }
        if let Some(want) = incident {
            let (is, should) = (format!("{:?}", got.incident), format!("{want:?}"));
            hold("incident", &is, &should, got.incident == *want);
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
        Expectation::Incidents(_) => Some("incidents".to_owned()),
        Expectation::Incident { number, .. } => Some(format!("incident {number}")),
        Expectation::NoThreshold(_) | Expectation::Threshold { .. } => Some("threshold".to_owned()),
        Expectation::Timers(_) | Expectation::Timer { .. } => Some("timers".to_owned()),
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
    for incident in &analysis.incidents {
        let _ = writeln!(text, "incident {}", show_incident(incident));
    }
    for row in analysis
        .servers
        .iter()
        .filter(|row| row.threshold.is_some())
    {
        let _ = writeln!(text, "threshold {}", show_threshold(row));
    }
    for timer in &analysis.timers {
        let _ = writeln!(text, "timer {}", show_timer(timer));
    }
    for share in &analysis.shares {
        let _ = writeln!(text, "share {share:?}");
    }
    for server in &analysis.servers {
        let _ = writeln!(text, "server {server:?}");
    }
    let _ = writeln!(text, "{:?}", analysis.totals);
    text
}

/// Whether a server is the one a talk means. A HAR has its address, and the port of the URL.
fn is_server(server: &Endpoint, want: &str, packets: bool) -> bool {
    if packets {
        server.to_string() == want
    } else {
        want.rsplit_once(':')
            .is_some_and(|(host, _)| server.host() == host)
    }
}

/// What an incident has of something that is counted.
fn counted(incident: &Incident, what: &str) -> Option<u32> {
    match what {
        "sessions" => Some(incident.sessions),
        "segments" => Some(incident.segments_cut),
        "lost" => Some(incident.lost_requests),
        "resumes" => Some(incident.verdicts.iter().sum()),
        verdict => {
            let verdict = Verdict::ALL.iter().find(|known| known.name() == verdict)?;
            Some(incident.verdicts[verdict.index()])
        }
    }
}

fn show_incident(incident: &Incident) -> String {
    format!(
        "{} at {:?} to {:?} {}: {} of {} sessions, {:?}, lost {}",
        incident.server,
        incident.start,
        incident.end,
        incident.cause.name(),
        incident.segments_cut,
        incident.sessions,
        incident.verdicts,
        incident.lost_requests
    )
}

fn show_threshold(row: &ServerRow) -> String {
    format!("{} {:?}", row.server, row.threshold)
}

fn show_timer(timer: &Timer) -> String {
    format!(
        "{} {} {} {:?}: {:?} within {:?}, {} of {}",
        timer.server,
        timer.side.name(),
        timer.kind.name(),
        timer.user_agent,
        timer.period,
        timer.spread,
        timer.cuts,
        timer.of
    )
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

fn small(word: &str) -> Result<u32, String> {
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
