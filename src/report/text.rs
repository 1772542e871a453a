//! The summary: what was read, what could not be, and what is wrong, worst first.

use super::{
    Style,
    escape::{escape, escape_name_to},
    har, overview,
    style::human,
    terminal::{Look, Page, clip, shown},
};
use crate::{
    anomaly::{Example, Kind},
    model::{
        analysis::{Analysis, ClockOffset, Finding, Input, Opaque, OpaqueProtocol, Resume},
        flow::Endpoint,
        place::Place,
        time::{Span, Timestamp},
        verdict::{Severity, Verdict},
    },
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    io::{self, Write},
};

/// Writes the summary.
///
/// # Errors
///
/// Those of the writer.
pub(super) fn write(analysis: &Analysis, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut summary = Summary::new(analysis, style);
    let mut text = summary.laid_out();
    if !style.verbose && text.lines().count() > style.height {
        summary.room = SCANT;
        text = summary.laid_out();
        for (list, length) in MORE {
            let before = summary.room;
            *list(&mut summary.room) = length;
            let longer = summary.laid_out();
            if longer.lines().count() <= style.height {
                text = longer;
            } else {
                summary.room = before;
            }
        }
    }
    out.write_all(text.as_bytes())
}

/// The parts of the summary; other formats say the same in their own order.
pub(super) struct Summary<'a> {
    analysis: &'a Analysis,
    style: Style,
    room: Room,
    /// The worst finding on each resume.
    severities: Severities<'a>,
}

/// How much of each list is told; of what is left out, the number is.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// Resumes told whole.
    whole: usize,
    /// Resumes after those, in a line each.
    lines: usize,
    /// Findings on no resume.
    loose: usize,
    /// Places of one of them.
    places: usize,
    incidents: usize,
    /// Lifetimes, timers and HARs: of each as many.
    rows: usize,
    /// Inputs told of one thing.
    files: usize,
    /// Kinds of what could not be read.
    unread: usize,
    /// Servers told of what could not be read.
    servers: usize,
}

/// By session, server and number: both sides of a proxy may name the same session, and so may a
/// HAR beside a capture.
type Severities<'a> =
    HashMap<(&'a str, Option<&'a Endpoint>, u32), Severity, foldhash::fast::RandomState>;

fn severities(analysis: &Analysis) -> Severities<'_> {
    let mut worst = Severities::default();
    for finding in &analysis.findings {
        if let Some(resume) = finding.resume {
            let severity = worst
                .entry((&finding.session_id, finding.server.as_ref(), resume))
                .or_insert(finding.severity);
            *severity = (*severity).max(finding.severity);
        }
    }
    worst
}

impl<'a> Summary<'a> {
    /// Looks over the findings once.
    pub(super) fn new(analysis: &'a Analysis, style: &Style) -> Self {
        Self {
            analysis,
            style: *style,
            room: if style.verbose { WHOLE } else { AMPLE },
            severities: severities(analysis),
        }
    }

    fn laid_out(&self) -> String {
        let mut page = Page::new(self.style.width, self.style.color);
        self.write(&mut page);
        page.into_text()
    }

    fn write(&self, page: &mut Page) {
        self.write_inputs(page);
        self.write_verdicts(page);
        self.write_overview(page);
        let bad = self.bad_resumes();
        let loose = self.loose_findings();
        self.write_conclusion(page, &bad, &loose);
        self.write_resumes(page, &bad);
        self.write_loose(page, &loose);
        if self.style.verbose {
            self.write_rest(page, &bad);
            self.write_oddities(page);
        }
        self.write_unread(page);
    }

    /// What was read, and what was found in it.
    pub(super) fn write_inputs(&self, page: &mut Page) {
        let inputs = &self.analysis.inputs;
        if inputs.iter().all(|input| input.unreadable.is_some()) {
            return;
        }
        let readable = inputs.iter().filter(|input| input.unreadable.is_none());
        let sum = |of: fn(&Input) -> u64| inputs.iter().map(of).sum::<u64>();
        let mut read = match inputs.as_slice() {
            [input] => file(input),
            _ => count(inputs.len() as u64, "input", "inputs"),
        };
        let packets = sum(|input| input.packets);
        let har = |input: &&Input| input.format.starts_with("har");
        let (entries, captures) = (
            readable.clone().any(|input| har(&input)),
            readable.clone().any(|input| !har(&input)),
        );
        let (one, many) = match (entries, captures) {
            (true, true) => ("packet or HAR entry", "packets and HAR entries"),
            (true, false) => ("HAR entry", "HAR entries"),
            _ => ("packet", "packets"),
        };
        read.push_str(&format!(": {}", count(packets, one, many)));
        // A HAR tells of no connections.
        if captures || !entries {
            let connections = sum(|input| input.tcp_connections);
            let connections = count(connections, "TCP connection", "TCP connections");
            read.push_str(&format!(", {connections}"));
        }
        page.field("Read", &read, 0);
        let first = readable.clone().filter_map(|input| input.first_time).min();
        let last = readable.filter_map(|input| input.last_time).max();
        if let (Some(first), Some(last)) = (first, last) {
            let span = human(last.since(first));
            let from_to = format!("{} to {} ({span})", self.time(first), self.time(last));
            page.field("", &from_to, 0);
        }
        self.write_clocks(page);
        self.write_copies(page);
        har::write(self.analysis, self.room.rows, page);
        let exchanges = &self.analysis.exchanges;
        let events: usize = exchanges.iter().map(|exchange| exchange.events.len()).sum();
        let found = format!(
            "{}, {}, {}, {}",
            count(self.analysis.totals.sessions, "MCP session", "MCP sessions"),
            count(exchanges.len() as u64, "HTTP exchange", "HTTP exchanges"),
            count(events as u64, "event", "events"),
            count(self.analysis.resumes.len() as u64, "resume", "resumes"),
        );
        page.field("Found", &found, 0);
        let totals = &self.analysis.totals;
        let unjudged = listed(&[
            (
                totals.sessionless,
                "MCP exchange without a session",
                "MCP exchanges without a session",
            ),
            (
                totals.legacy_sessions,
                "session of the 2024-11-05 transport",
                "sessions of the 2024-11-05 transport",
            ),
            (
                totals.refused_ids,
                "session id that was only ever refused",
                "session ids that were only ever refused",
            ),
        ]);
        if !unjudged.is_empty() {
            page.field("Not judged", &unjudged.join(", "), 0);
        }
    }

    /// What the run shows as a whole.
    pub(super) fn write_overview(&self, page: &mut Page) {
        let Room {
            incidents, rows, ..
        } = self.room;
        overview::write(self.analysis, &self.style, (incidents, rows), page);
    }

    /// The clocks that were put right.
    fn write_clocks(&self, page: &mut Page) {
        let inputs = self.analysis.inputs.iter();
        let lines = inputs.filter_map(|input| {
            let length = |span: Span| human(Span::from_nanos(span.nanos().saturating_abs()));
            let said = match input.clock.as_ref()? {
                ClockOffset::Given(added) if added.nanos() < 0 => {
                    format!("{} taken off all times, as asked for", length(*added))
                }
                ClockOffset::Given(added) => {
                    format!("{} added to all times, as asked for", length(*added))
                }
                ClockOffset::Learnt { ahead, of } => {
                    let mut other = String::new();
                    escape_name_to(of, &mut other);
                    let side = if ahead.nanos() < 0 {
                        "behind that"
                    } else {
                        "ahead of that"
                    };
                    let by = length(*ahead);
                    format!("the clock is {by} {side} of {other}; corrected")
                }
                ClockOffset::Left { ahead, of } => {
                    let mut other = String::new();
                    escape_name_to(of, &mut other);
                    let by = length(*ahead);
                    format!(
                        "the clock is {by} ahead of that of {other}, by the connections that both \
                         show; left as it is: --clock-offset takes it off"
                    )
                }
            };
            Some(format!("{}: {said}", file(input)))
        });
        self.write_first("Clocks", lines.collect(), page);
    }

    /// What was given twice.
    fn write_copies(&self, page: &mut Page) {
        let mut lines = Vec::new();
        for (input, kind, tally) in self.analysis.anomalies.iter() {
            let input = self.analysis.inputs.get(input.0 as usize);
            let (Kind::DuplicateInput, Some(input)) = (kind, input) else {
                continue;
            };
            for example in &tally.examples {
                let detail = escape(&example.detail);
                lines.push(format!("{}: {detail}; it counts once", file(input)));
            }
            if let Some(more @ 1..) = tally.count.checked_sub(tally.examples.len() as u64) {
                let more = count(more, "other time", "other times");
                lines.push(format!("{}: given {more}", file(input)));
            }
        }
        self.write_first("Copies", lines, page);
    }

    /// The first few of `lines`, and how many more there are; all of them with `-v`.
    fn write_first(&self, label: &str, lines: Vec<String>, page: &mut Page) {
        let most = self.room.files;
        let more = lines.len().saturating_sub(most);
        let mut label = label;
        for line in lines.into_iter().take(most) {
            page.field(std::mem::take(&mut label), &line, 0);
        }
        if more > 0 {
            page.field(label, &rest(more, most), 0);
        }
    }

    /// What the captures hold and nobody could read: last, so that nobody takes what was found for all
    /// there is.
    pub(super) fn write_unread(&self, page: &mut Page) {
        let inputs = self.analysis.inputs.iter();
        let mut files: Vec<(bool, String)> = inputs
            .filter_map(|input| {
                let (readable, what) = match &input.unreadable {
                    Some(why) => (false, why),
                    None if input.damaged.is_empty() => return None,
                    None => (true, &input.damaged),
                };
                // It quotes bytes of the input in an escaped form already: backslashes stay.
                let mut reason = String::new();
                escape_name_to(what, &mut reason);
                Some((readable, format!("{}: {reason}", file(input))))
            })
            .collect();
        files.sort_by_key(|(readable, _)| *readable);
        let files: Vec<String> = files.into_iter().map(|(_, line)| line).collect();
        let lines = self.unread();
        if lines.is_empty() && files.is_empty() {
            return;
        }
        page.gap();
        let mut label = "Not read";
        let more = lines.len().saturating_sub(self.room.unread) as u64;
        for line in lines.into_iter().take(self.room.unread) {
            page.field(std::mem::take(&mut label), &line, 0);
        }
        if more > 0 {
            let more = count(more, "other thing", "other things");
            page.field("", &format!("and {more}; -v shows them"), 0);
        }
        self.write_first(label, files, page);
    }

    /// What could not be read of one protocol, with its servers: `one` and `many` say what is counted.
    fn opaque(&self, protocol: OpaqueProtocol, one: &str, many: &str) -> Option<String> {
        let of: Vec<&Opaque> = self
            .analysis
            .opaque
            .iter()
            .filter(|opaque| opaque.protocol == protocol)
            .collect();
        let counted = |of: fn(&Input) -> u64| self.analysis.inputs.iter().map(of).sum::<u64>();
        let all = match protocol {
            OpaqueProtocol::Tls => counted(|input| input.tls_opaque),
            OpaqueProtocol::Http2 => counted(|input| input.http2_opaque),
            OpaqueProtocol::Quic => of.iter().map(|opaque| opaque.count).sum(),
        };
        if all == 0 {
            return None;
        }
        let most = self.room.servers;
        let servers = of.iter().filter_map(|opaque| {
            let server = shown(&opaque.server.as_ref()?.to_string(), LONG);
            Some(match opaque.count {
                1 => server,
                number => format!("{server} ({})", grouped(number)),
            })
        });
        let mut servers: Vec<String> = servers.collect();
        let more = servers.len().saturating_sub(most);
        servers.truncate(most);
        if more > 0 {
            servers.push(format!("and {}", count(more as u64, "other", "others")));
        }
        if of.iter().any(|opaque| opaque.server.is_none()) {
            servers.push("and servers beyond the limit".to_owned());
        }
        let what = count(all, one, many);
        Some(match servers.as_slice() {
            [] => what,
            servers => format!("{what}: {}", servers.join(", ")),
        })
    }

    fn unread(&self) -> Vec<String> {
        let inputs = &self.analysis.inputs;
        let sum = |of: fn(&Input) -> u64| inputs.iter().map(of).sum::<u64>();
        let [wrong, partial, late] = [Kind::WrongTlsKeys, Kind::PartialTlsKeys, Kind::LateTlsKeys]
            .map(|kind| self.noted(kind));
        let (one, many) = if wrong + partial + late == 0 {
            (
                "TLS connection without keys",
                "TLS connections without keys",
            )
        } else {
            (
                "TLS connection that was not read",
                "TLS connections that were not read",
            )
        };
        let keys = |number: u64, what: &str| {
            let connections = count(number, "TLS connection", "TLS connections");
            (number > 0).then(|| format!("{connections} {what}"))
        };
        let mut lines: Vec<String> = [
            self.opaque(OpaqueProtocol::Tls, one, many),
            keys(wrong, "with keys that do not open what was said"),
            keys(partial, "with a part of the keys: not all was read"),
            keys(
                late,
                "with keys that came after the packets, from an input that is read only once",
            ),
            self.opaque(
                OpaqueProtocol::Http2,
                "HTTP/2 connection",
                "HTTP/2 connections",
            ),
            self.opaque(
                OpaqueProtocol::Quic,
                "QUIC packet (HTTP/3)",
                "QUIC packets (HTTP/3)",
            ),
        ]
        .into_iter()
        .flatten()
        .collect();
        let holes = sum(|input| input.holes);
        if holes > 0 {
            let missing = count(sum(|input| input.hole_bytes), "byte", "bytes");
            let places = count(holes, "hole", "holes");
            lines.push(format!(
                "{places} in TCP streams: {missing} not in the capture"
            ));
        }
        let blanks = self.analysis.blanks.len() as u64;
        if blanks > 0 {
            let places = count(blanks, "place", "places");
            lines.push(format!(
                "{places} where requests of sessions and their answers may both be missing"
            ));
        }
        lines.extend(har::unread(self.analysis));
        let cut = sum(|input| input.truncated_packets);
        if cut > 0 {
            lines.push(format!(
                "{} cut by the snapshot length",
                count(cut, "packet", "packets")
            ));
        }
        let mut others = BTreeMap::<Kind, u64>::new();
        for (_, kind, tally) in self.analysis.anomalies.iter() {
            if UNREAD.contains(&kind) {
                *others.entry(kind).or_default() += tally.count;
            }
        }
        let links: BTreeSet<&str> = inputs
            .iter()
            .flat_map(|input| input.unread_links.iter().map(String::as_str))
            .collect();
        lines.extend(others.into_iter().map(|(kind, number)| {
            if kind == Kind::UnknownLinkType && !links.is_empty() {
                let packets = count(number, "packet", "packets");
                let links: Vec<_> = links.iter().map(|link| escape(link)).collect();
                return format!(
                    "{packets} of link types that are not read: {}",
                    links.join(", ")
                );
            }
            format!("{} {}: {}", grouped(number), kind.name(), kind.about())
        }));
        lines
    }

    fn write_verdicts(&self, page: &mut Page) {
        if self.analysis.resumes.is_empty() {
            return;
        }
        let counts = Verdict::ALL.into_iter().filter_map(|verdict| {
            let number = self.number(verdict);
            (number > 0).then(|| format!("{} {verdict}", grouped(number)))
        });
        let counts: Vec<_> = counts.collect();
        page.field("Resumes", &counts.join(", "), 0);
    }

    fn number(&self, verdict: Verdict) -> u64 {
        let resumes = self.analysis.resumes.iter();
        resumes.filter(|resume| resume.verdict == verdict).count() as u64
    }

    /// The outcome in plain words.
    pub(super) fn conclude(&self, page: &mut Page) {
        self.write_conclusion(page, &self.bad_resumes(), &self.loose_findings());
    }

    /// The outcome in plain words: also, and above all, when there is nothing to show.
    fn write_conclusion(&self, page: &mut Page, bad: &[&Resume], loose: &[&Finding]) {
        page.gap();
        let analysis = self.analysis;
        let resumes = analysis.resumes.len() as u64;
        let forked = self.number(Verdict::Forked);
        if forked > 0 {
            let these = if forked == 1 { "it" } else { "them" };
            let headline = format!(
                "{} of {} forked. With {these} the server had lost the session or its event log, \
                 and answered with success all the same, from another log under the old name.",
                grouped(forked),
                count(resumes, "resume", "resumes"),
            );
            page.loud(&headline, Look::Severity(Severity::Fork));
            page.prose(
                "The client cannot see this: every status is 200. It takes new events for old \
                 ones and waits for results that never come.",
                0,
            );
            return;
        }
        let blind = self.blind_spots();
        let undecided = self.number(Verdict::Indeterminate);
        let decided = resumes.saturating_sub(undecided);
        if analysis
            .inputs
            .iter()
            .all(|input| input.unreadable.is_some())
        {
            page.loud(
                "No input could be read: nothing is known.",
                Look::Severity(Severity::Warning),
            );
            return;
        } else if analysis.totals.sessions == 0 {
            let look = Look::Severity(Severity::Warning);
            let hidden = analysis.exchanges.is_empty() && !self.opaque_kinds().is_empty();
            let said = if hidden {
                format!(
                    "No MCP session was found: there is no HTTP that could be read, only {}. So nothing \
                     was judged.",
                    self.opaque_kinds().join(" and ")
                )
            } else {
                "No MCP session was found, so nothing was judged.".to_owned()
            };
            page.loud(&said, look);
        } else if !bad.is_empty() || loose.iter().any(|f| f.severity >= Severity::Warning) {
            let said = match resumes {
                0 => "No stream was resumed, so there was no fork to be seen; yet not all is \
                      well."
                    .to_owned(),
                _ => format!(
                    "No fork was seen in {}, yet not all is well.",
                    count(resumes, "resume", "resumes")
                ),
            };
            let worst = bad.iter().map(|resume| self.severity(resume));
            let worst = worst
                .chain(loose.iter().map(|finding| finding.severity))
                .max();
            page.loud(&said, worst.map_or(Look::Plain, Look::Severity));
        } else if undecided > 0 && decided == 0 {
            let said = format!(
                "Nothing can be said of {}: none could be decided from this capture. Nothing else \
                 is wrong in what it shows.",
                count(resumes, "resume", "resumes")
            );
            page.loud(&said, Look::Severity(Severity::Warning));
        } else if undecided > 0 {
            let said = format!(
                "Nothing wrong was seen in the {} of {} that could be decided.",
                grouped(decided),
                count(resumes, "resume", "resumes")
            );
            page.loud(&said, Look::Plain);
        } else if resumes == 0 {
            let (rest, look) = if blind.is_empty() {
                ("nothing else is wrong", Look::Good)
            } else {
                ("nothing wrong was seen in what could be read", Look::Plain)
            };
            let said = format!("No stream was resumed, so there was nothing to judge, and {rest}.");
            page.loud(&said, look);
        } else {
            let said = format!(
                "Nothing wrong was seen: no fork, no loss and no warning in {}.",
                count(resumes, "resume", "resumes")
            );
            page.loud(&said, Look::Good);
        }
        if undecided > 0 {
            let said = format!(
                "Undecided: {} of {}: {}.",
                grouped(undecided),
                count(resumes, "resume", "resumes"),
                self.why_undecided(),
            );
            page.prose(&said, 0);
        }
        if !blind.is_empty() {
            let said = format!(
                "What could not be read may hold more: {}.",
                blind.join(", ")
            );
            page.prose(&said, 0);
        }
    }

    /// The reasons of what could not be decided, the most frequent first.
    fn why_undecided(&self) -> String {
        let mut reasons = BTreeMap::<&str, u64>::new();
        let resumes = self.analysis.resumes.iter();
        for resume in resumes.filter(|resume| resume.verdict == Verdict::Indeterminate) {
            *reasons.entry(&resume.reason).or_default() += 1;
        }
        let mut reasons: Vec<(&str, u64)> = reasons.into_iter().collect();
        reasons.sort_by_key(|&(_, number)| Reverse(number));
        let more = reasons.split_off(reasons.len().min(REASONS));
        let only = reasons.len() == 1;
        let mut said: Vec<String> = reasons
            .into_iter()
            .map(|(reason, number)| match reason {
                "" if only => "the capture does not show what came".to_owned(),
                _ if only => escape(reason).into_owned(),
                _ => format!("{} {}", grouped(number), escape(reason)),
            })
            .collect();
        let rest: u64 = more.iter().map(|(_, number)| number).sum();
        if rest > 0 {
            said.push(format!("{} for other reasons", grouped(rest)));
        }
        said.join("; ")
    }

    /// How often something odd was seen, in all inputs.
    fn noted(&self, kind: Kind) -> u64 {
        let all = self.analysis.anomalies.iter();
        all.filter(|(_, other, _)| *other == kind)
            .map(|(_, _, tally)| tally.count)
            .sum()
    }

    /// The protocols that were seen and are not read.
    fn opaque_kinds(&self) -> Vec<&'static str> {
        let inputs = &self.analysis.inputs;
        let opaque = &self.analysis.opaque;
        let seen = [
            (
                inputs.iter().any(|input| input.tls_opaque > 0),
                "TLS without keys",
            ),
            (inputs.iter().any(|input| input.http2_opaque > 0), "HTTP/2"),
            (
                opaque
                    .iter()
                    .any(|opaque| opaque.protocol == OpaqueProtocol::Quic),
                "QUIC",
            ),
        ];
        seen.into_iter()
            .filter_map(|(seen, name)| seen.then_some(name))
            .collect()
    }

    /// What hides sessions or parts of them, in a few words.
    fn blind_spots(&self) -> Vec<String> {
        let inputs = &self.analysis.inputs;
        let sum = |of: fn(&Input) -> u64| inputs.iter().map(of).sum::<u64>();
        listed(&[
            (
                sum(|input| input.tls_opaque),
                "TLS connection",
                "TLS connections",
            ),
            (
                sum(|input| input.http2_opaque),
                "HTTP/2 connection",
                "HTTP/2 connections",
            ),
            (
                self.analysis
                    .opaque
                    .iter()
                    .filter(|opaque| opaque.protocol == OpaqueProtocol::Quic)
                    .map(|opaque| opaque.count)
                    .sum(),
                "QUIC packet",
                "QUIC packets",
            ),
            (sum(|input| input.holes), "hole", "holes"),
            (
                sum(|input| input.truncated_packets),
                "cut packet",
                "cut packets",
            ),
            (
                har::without_body(self.analysis),
                "response without its body",
                "responses without their body",
            ),
            (har::masked(self.analysis), "redacted id", "redacted ids"),
            (
                sum(|input| u64::from(input.unreadable.is_some())),
                "unreadable input",
                "unreadable inputs",
            ),
            (
                sum(|input| u64::from(!input.damaged.is_empty())),
                "damaged input",
                "damaged inputs",
            ),
        ])
    }

    /// Resumes that something is wrong with, worst first, then in order of time.
    pub(super) fn bad_resumes(&self) -> Vec<&'a Resume> {
        let resumes = self.analysis.resumes.iter();
        let mut bad: Vec<_> = resumes
            .filter(|resume| self.severity(resume) >= Severity::Warning)
            .collect();
        bad.sort_by_key(|resume| Reverse(self.severity(resume)));
        bad
    }

    /// The worst of its verdict and of the findings on it.
    pub(super) fn severity(&self, resume: &Resume) -> Severity {
        let by_verdict = match resume.verdict {
            Verdict::Forked => Severity::Fork,
            Verdict::Lossy | Verdict::Ignored => Severity::Loss,
            _ => Severity::Info,
        };
        self.severities
            .get(&(&*resume.session_id, resume.server.as_ref(), resume.resume))
            .map_or(by_verdict, |&severity| severity.max(by_verdict))
    }

    /// Findings that are on no resume, worst first, then in order of time.
    fn loose_findings(&self) -> Vec<&'a Finding> {
        let findings = self.analysis.findings.iter();
        let mut loose: Vec<_> = findings
            .filter(|finding| finding.resume.is_none())
            .collect();
        loose.sort_by_key(|finding| Reverse(finding.severity));
        loose
    }

    fn write_resumes(&self, page: &mut Page, bad: &[&Resume]) {
        let Room { whole, lines, .. } = self.room;
        for (resume, number) in bad.iter().zip(1..).take(whole) {
            self.write_resume(page, number, resume);
        }
        let rest = bad.get(whole..).unwrap_or_default();
        if !rest.is_empty() {
            page.gap();
        }
        for (resume, number) in rest.iter().zip(whole.saturating_add(1)..).take(lines) {
            let line = format!(
                "{number:>2}. {} {}, session {}, gap {}",
                resume.verdict.name().to_uppercase(),
                self.time(resume.resume_time),
                shown(&resume.session_id, 14),
                resume.gap.map_or_else(|| "unknown".to_owned(), human),
            );
            page.line(&clip(&line, page.width()), Look::Plain);
        }
        if let Some(more @ 1..) = rest.len().checked_sub(lines) {
            page.prose(&format!("and {} more", grouped(more as u64)), 4);
        }
        if bad.len() > whole {
            page.prose("-v shows each of them whole; -o DIR writes resumes.csv.", 4);
        }
    }

    /// One resume, whole.
    pub(super) fn write_resume(&self, page: &mut Page, number: usize, resume: &Resume) {
        const INDENT: usize = 4;
        page.gap();
        let mark = format!("{number:>2}. ");
        let verdict = resume.verdict.name().to_uppercase();
        let heading = format!("{mark}{verdict}  {}", self.time(resume.resume_time));
        page.line(&heading, Look::Severity(self.severity(resume)));
        page.prose(meaning(resume.verdict), INDENT);

        let mut sure = format!("{} confidence", resume.confidence.name());
        if !resume.reason.is_empty() {
            sure.push_str(&format!(": {}", escape(&resume.reason)));
        }
        page.field("verdict", &sure, INDENT);
        let mut session = shown(&resume.session_id, LONG);
        match resume.incarnation_after {
            Some(after) if after != resume.incarnation => session.push_str(&format!(
                ", incarnation {} and then {after}",
                resume.incarnation
            )),
            _ if resume.incarnation > 1 => {
                session.push_str(&format!(", incarnation {}", resume.incarnation));
            }
            _ => {}
        }
        session.push_str(&format!(", resume {}", resume.resume));
        page.field("session", &session, INDENT);
        page.field("between", &between(resume), INDENT);
        page.field("cut", &self.cut(resume), INDENT);
        page.field("cursor", &cursor(resume), INDENT);
        page.field("came", &came(resume), INDENT);
        let requests = requests(resume);
        if !requests.is_empty() {
            page.field("requests", &requests, INDENT);
        }
        let mut label = "seen";
        for line in &resume.story {
            page.field(label, &escape(line), INDENT);
            label = "";
        }
        if !resume.findings.is_empty() {
            page.field("findings", &resume.findings.join(", "), INDENT);
        }
        page.field("evidence", &self.evidence(resume.place), INDENT);
        if let Some(before) = resume.place_before.filter(|&place| place != resume.place) {
            let before = format!("before: {}", self.evidence(before));
            page.field("", &before, INDENT);
        }
    }

    fn cut(&self, resume: &Resume) -> String {
        let mut cut = resume
            .disconnect_cause
            .map_or("not seen".to_owned(), |cause| cause.name().to_owned());
        if let Some(time) = resume.disconnect_time {
            cut.push_str(&format!(" at {}", self.time(time)));
        }
        if let Some(silence) = resume.silence {
            cut.push_str(&format!(", {} after the last event", human(silence)));
        }
        match resume.gap {
            Some(gap) if gap.nanos() < 0 => cut.push_str(&format!(
                "; the client came back {} before that",
                human(Span::from_nanos(gap.nanos().saturating_neg()))
            )),
            Some(gap) => cut.push_str(&format!("; the client came back {} later", human(gap))),
            None => {}
        }
        if let (Some(retry), Some(false)) = (resume.retry, resume.retry_kept) {
            cut.push_str(&format!(", against retry {retry}\u{a0}ms"));
        }
        cut
    }

    /// Findings on no resume: those of weight in a line or two each, the others counted.
    fn write_loose(&self, page: &mut Page, loose: &[&Finding]) {
        let (weighty, info): (Vec<&Finding>, Vec<&Finding>) = loose
            .iter()
            .partition(|finding| self.style.verbose || finding.severity > Severity::Info);
        if !weighty.is_empty() {
            page.gap();
            page.line("Findings on no single resume", Look::Heading);
        }
        let most = self.room.loose;
        let groups = alike(&weighty);
        for group in groups.iter().take(most) {
            self.write_group(page, group);
        }
        let others = groups.get(most.min(groups.len())..).unwrap_or_default();
        if !others.is_empty() {
            let more = others.iter().map(Vec::len).sum();
            page.prose(&rest(more, most), 4);
        }
        let mut codes = BTreeMap::<&str, u64>::new();
        for finding in info {
            *codes.entry(finding.code).or_default() += 1;
        }
        if !codes.is_empty() {
            let codes = codes
                .into_iter()
                .map(|(code, n)| format!("{} {code}", grouped(n)));
            page.gap();
            page.field("Also noted", &codes.collect::<Vec<_>>().join(", "), 0);
        }
        if !self.analysis.findings.is_empty() {
            page.gap();
            page.prose(
                "forkscope explain CODE says what a finding means and what to do.",
                0,
            );
        }
    }

    /// Findings that say the same of one session: once, with each place.
    fn write_group(&self, page: &mut Page, group: &[&Finding]) {
        let Some(finding) = group.first() else {
            return;
        };
        let look = Look::Severity(finding.severity);
        let head = format!("  {}: {}", finding.severity.name(), finding.code);
        // What is on the run has no session.
        let session = match &*finding.session_id {
            "" => String::new(),
            id => format!("session {}", shown(id, 20)),
        };
        let place = |finding: &Finding| {
            let evidence = self.evidence(finding.place);
            format!("{}, {evidence}", self.time(finding.time))
        };
        let detail = escape(&finding.detail);
        if group.len() == 1 {
            page.line(&head, look);
            let comma = if session.is_empty() { "" } else { ", " };
            let text = format!("{detail} ({session}{comma}{})", place(finding));
            page.prose(&text, 4);
            return;
        }
        page.line(
            &format!("{head}, {} times", grouped(group.len() as u64)),
            look,
        );
        page.prose(&detail, 4);
        if !session.is_empty() {
            page.prose(&session, 4);
        }
        let most = self.room.places;
        for finding in group.iter().take(most) {
            page.prose(&place(finding), 4);
        }
        if let Some(more @ 1..) = group.len().checked_sub(most) {
            page.prose(&rest(more, most), 4);
        }
    }

    /// Every resume that nothing is wrong with.
    fn write_rest(&self, page: &mut Page, bad: &[&Resume]) {
        let resumes = self.analysis.resumes.iter();
        let good = resumes.filter(|resume| self.severity(resume) < Severity::Warning);
        for (resume, number) in good.zip(bad.len().saturating_add(1)..) {
            self.write_resume(page, number, resume);
        }
    }

    /// Every kind of oddity that occurred: what it is, what it does, and where it was seen first.
    fn write_oddities(&self, page: &mut Page) {
        let mut kinds: BTreeMap<Kind, (u64, Vec<&Example>, u64)> = BTreeMap::new();
        for (_, kind, tally) in self.analysis.anomalies.iter() {
            let (number, examples, inputs) = kinds.entry(kind).or_default();
            *number += tally.count;
            *inputs += 1;
            let room = EXAMPLES.saturating_sub(examples.len());
            examples.extend(tally.examples.iter().take(room));
        }
        if !kinds.is_empty() {
            page.gap();
            page.line("What is odd in the captures", Look::Heading);
        }
        for (kind, (number, examples, inputs)) in kinds {
            let mut head = format!("  {}, {}", kind.name(), count(number, "time", "times"));
            if inputs > 1 {
                head.push_str(&format!(" in {} inputs", grouped(inputs)));
            }
            page.line(&head, Look::Heading);
            let mut about = kind.about().chars();
            let about: String = about
                .next()
                .into_iter()
                .flat_map(char::to_uppercase)
                .chain(about)
                .collect();
            page.prose(&format!("{about}. Effect: {}", kind.effect()), 4);
            for example in &examples {
                let mut text = self.evidence(example.place);
                if !example.detail.is_empty() {
                    text.push_str(&format!(": {}", escape(&example.detail)));
                }
                page.hang("- ", &text, 4, Look::Plain);
            }
            if let Some(more @ 1..) = number.checked_sub(examples.len() as u64) {
                page.prose(&format!("and {} more", grouped(more)), 6);
            }
        }
    }

    fn time(&self, time: Timestamp) -> String {
        self.style.time.text(time)
    }

    /// The file, the frame, and the filter that shows the conversation.
    fn evidence(&self, place: Place) -> String {
        let Some(input) = self.analysis.inputs.get(place.input.0 as usize) else {
            return "nowhere".to_owned();
        };
        let mut text = file(input);
        if input.format.starts_with("har") {
            text.push_str(&format!(" entry {}", place.frame));
        } else if place.frame != 0 {
            text.push_str(&format!(" frame {}", place.frame));
        }
        if let Some(stream) = place.tcp_stream {
            text.push_str(&format!(", tcp.stream eq {stream}"));
        }
        text
    }
}

/// A verdict in a sentence for someone who does not know the words.
pub(super) const fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Continued => "The stream went on after the client's cursor.",
        Verdict::Empty => "Nothing came, and nothing was due.",
        Verdict::Replayed => {
            "The server sent again what the client already had, from the same log."
        }
        Verdict::Lossy => "The stream went on after the client's cursor, but something is missing.",
        Verdict::Ignored => "The server accepted the resume, but what was due never came.",
        Verdict::Forked => "The client was given another event log than the one it was reading.",
        Verdict::Rejected => "The server refused, and the client can know it.",
        Verdict::Failed => "No answer about the session came.",
        Verdict::Indeterminate => "The capture does not show what became of it.",
    }
}

fn between(resume: &Resume) -> String {
    let end = |endpoint: Option<&Endpoint>| {
        endpoint.map_or_else(
            || "unknown".to_owned(),
            |endpoint| shown(&endpoint.to_string(), LONG),
        )
    };
    let mut text = format!(
        "{} and {}",
        end(resume.client.as_ref()),
        end(resume.server.as_ref())
    );
    match (&resume.backend_before, &resume.backend_after) {
        (Some(before), Some(after)) if before == after => {
            text.push_str(&format!(", backend {}", shown(after, LONG)));
        }
        (Some(before), Some(after)) => text.push_str(&format!(
            ", backend {} and then {}",
            shown(before, LONG),
            shown(after, LONG)
        )),
        (Some(before), None) => {
            text.push_str(&format!(", backend {} before", shown(before, LONG)));
        }
        (None, Some(after)) => {
            text.push_str(&format!(", backend {} after", shown(after, LONG)));
        }
        (None, None) => {}
    }
    text
}

fn cursor(resume: &Resume) -> String {
    let mut text = format!("Last-Event-ID {}", shown(&resume.last_event_id, LONG));
    match resume.first_event_id.as_deref() {
        None => text.push_str("; no message came"),
        Some("") => text.push_str("; the first message has no id"),
        Some(id) => text.push_str(&format!("; the first message has id {}", shown(id, LONG))),
    }
    text.push_str(&format!(" ({} ids)", resume.id_scheme.name()));
    text
}

fn came(resume: &Resume) -> String {
    let status = resume.status.map_or_else(
        || "no answer".to_owned(),
        |status| format!("status {status}"),
    );
    let mut text = format!(
        "{status}, {}; {} before the cut",
        count(u64::from(resume.events_after), "event", "events"),
        grouped(u64::from(resume.events_before)),
    );
    if resume.events_redelivered > 0 {
        text.push_str(&format!(
            "; {} came again",
            grouped(u64::from(resume.events_redelivered))
        ));
    }
    if let Some(skipped @ 1..) = resume.ids_skipped {
        text.push_str(&format!("; {} skipped", count(skipped, "id", "ids")));
    }
    if resume.events_dropped_by_dedup > 0 {
        text.push_str(&format!(
            "; a client that removes duplicates throws {} away",
            grouped(u64::from(resume.events_dropped_by_dedup))
        ));
    }
    if let Some(other) = resume
        .response_session_id
        .as_ref()
        .filter(|other| **other != resume.session_id)
    {
        text.push_str(&format!("; under session id {}", shown(other, LONG)));
    }
    text
}

fn requests(resume: &Resume) -> String {
    let fates = &resume.requests;
    if fates.pending == 0 {
        return String::new();
    }
    let each: Vec<_> = [
        (fates.answered, "answered"),
        (fates.dropped, "answered under an old id"),
        (fates.lost, "lost"),
        (fates.differing, "answered twice, differently"),
        (fates.cancelled, "cancelled"),
        (fates.still_pending, "not seen to the end"),
    ]
    .into_iter()
    .filter(|&(number, _)| number > 0)
    .map(|(number, fate)| format!("{number} {fate}"))
    .collect();
    let mut text = format!("{} pending at the cut: {}", fates.pending, each.join(", "));
    if resume.progress_tokens_left > 0 {
        let tokens = count(
            u64::from(resume.progress_tokens_left),
            "progress token",
            "progress tokens",
        );
        text.push_str(&format!("; {tokens} left hanging"));
    }
    text
}

/// Findings by what they say of which session, each in the order of its first.
fn alike<'f>(findings: &[&'f Finding]) -> Vec<Vec<&'f Finding>> {
    let mut groups: Vec<Vec<&Finding>> = Vec::new();
    let mut known: HashMap<_, usize, foldhash::fast::RandomState> = HashMap::default();
    for &finding in findings {
        let said = (finding.code, finding.severity, &*finding.session_id);
        let next = groups.len();
        let index = *known.entry((said, &*finding.detail)).or_insert(next);
        match groups.get_mut(index) {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    groups
}

/// The name of an input, fit for a terminal.
pub(super) fn file(input: &Input) -> String {
    let mut name = String::new();
    match input.name.as_str() {
        "-" => name.push_str("standard input"),
        given => escape_name_to(given, &mut name),
    }
    name
}

/// Those of `counts` that are not zero, as words.
fn listed(counts: &[(u64, &str, &str)]) -> Vec<String> {
    let there = counts.iter().filter(|(number, ..)| *number > 0);
    there
        .map(|&(number, one, many)| count(number, one, many))
        .collect()
}

/// `1 packet`, `1,204 packets`.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    let what = if number == 1 { one } else { many };
    format!("{} {what}", grouped(number))
}

/// A number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + 6);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// With `-v`: everything, but for servers, of which a capture may name millions.
const WHOLE: Room = Room {
    whole: usize::MAX,
    lines: 0,
    loose: usize::MAX,
    places: usize::MAX,
    incidents: usize::MAX,
    rows: usize::MAX,
    files: usize::MAX,
    unread: usize::MAX,
    servers: 50,
};

/// Without it, where the screen has room.
const AMPLE: Room = Room {
    whole: 2,
    lines: 8,
    loose: 5,
    places: 3,
    incidents: 3,
    rows: 3,
    files: 5,
    unread: usize::MAX,
    servers: 3,
};

/// What is told on the smallest screen: the outcome, the worst resume, and of everything else how much there is.
const SCANT: Room = Room {
    whole: 0,
    lines: 1,
    loose: 0,
    places: 1,
    incidents: 0,
    rows: 0,
    files: 0,
    unread: 1,
    servers: 1,
};

/// What is told beyond that as far as there is room, what helps most first.
const MORE: [(Length, usize); 20] = [
    (|room| &mut room.whole, 1),
    (|room| &mut room.unread, 2),
    (|room| &mut room.incidents, 1),
    (|room| &mut room.rows, 1),
    (|room| &mut room.loose, 1),
    (|room| &mut room.files, 1),
    (|room| &mut room.unread, 4),
    (|room| &mut room.lines, 3),
    (|room| &mut room.servers, 3),
    (|room| &mut room.loose, 3),
    (|room| &mut room.files, 2),
    (|room| &mut room.unread, 8),
    (|room| &mut room.rows, 2),
    (|room| &mut room.lines, 8),
    (|room| &mut room.whole, 2),
    (|room| &mut room.loose, 5),
    (|room| &mut room.incidents, 3),
    (|room| &mut room.rows, 3),
    (|room| &mut room.files, 5),
    (|room| &mut room.places, 3),
];

/// A list's length.
type Length = fn(&mut Room) -> &mut usize;

/// So many more than are shown.
pub(super) fn rest(more: usize, shown: usize) -> String {
    let more = grouped(more as u64);
    if shown == 0 {
        format!("{more}; -v shows them")
    } else {
        format!("and {more} more; -v shows them")
    }
}

/// Characters shown of an id: a UUID with a time and a nonce behind it fits, so that two ids of one
/// stream do not look alike.
pub(super) const LONG: usize = 64;

/// Oddities that mean something was there and could not be read, and that no count of an input
/// tells.
const UNREAD: [Kind; 16] = [
    Kind::BadBlock,
    Kind::UnknownInterface,
    Kind::BadEntry,
    Kind::UnknownLinkType,
    Kind::IpFragment,
    Kind::FragmentLimit,
    Kind::TunnelDepth,
    Kind::OutOfOrderLimit,
    Kind::ConnectionLimit,
    Kind::BadHead,
    Kind::HeadLimit,
    Kind::BadChunk,
    Kind::UndecodableBody,
    Kind::DecompressionLimit,
    Kind::BodyLimit,
    Kind::HistoryLimit,
];

/// Examples told of one kind of oddity.
const EXAMPLES: usize = 5;

/// Reasons told of what could not be decided.
const REASONS: usize = 3;

#[cfg(test)]
mod tests {
    use super::{
        super::{escape::is_hidden, sample},
        *,
    };
    use proptest::prelude::*;

    fn text(analysis: &Analysis, style: Style) -> String {
        let mut bytes = Vec::new();
        write(analysis, &style, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    fn plain(analysis: &Analysis) -> String {
        text(analysis, Style::default())
    }

    const VERBOSE: Style = Style {
        time: super::super::TimeFormat::Utc,
        color: false,
        width: 80,
        height: 50,
        verbose: true,
        fail_from: None,
    };

    /// As golden files at the widths of a terminal and of a wide one; colours change no text.
    #[test]
    fn looks_alike_at_any_width_with_and_without_colours() {
        for (name, analysis) in [("fork", sample::fork()), ("rich", sample::rich())] {
            for width in [80, 120] {
                let style = Style {
                    width,
                    ..Style::default()
                };
                let bare = text(&analysis, style);
                let coloured = text(
                    &analysis,
                    Style {
                        color: true,
                        ..style
                    },
                );
                assert_eq!(uncoloured(&coloured), bare);
                insta::assert_snapshot!(format!("{name}_{width}"), bare);
                let marked = coloured.replace('\x1b', "␛");
                insta::assert_snapshot!(format!("{name}_{width}_coloured"), marked);
            }
        }
    }

    fn uncoloured(text: &str) -> String {
        let mut parts = text.split('\x1b');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |bare, part| {
            bare + part.split_once('m').map_or("", |(_, rest)| rest)
        })
    }

    #[test]
    fn tells_everything_when_verbose() {
        insta::assert_snapshot!(text(&sample::rich(), VERBOSE));
    }

    #[test]
    fn says_that_an_unreadable_capture_is_not_a_clean_one() {
        let mut analysis = Analysis::default();
        analysis.inputs.push(Input {
            name: "tls.pcap".to_owned(),
            format: "pcap".to_owned(),
            packets: 90,
            tcp_connections: 3,
            tls_opaque: 3,
            ..Input::default()
        });
        insta::assert_snapshot!(plain(&analysis));
        analysis.inputs[0].unreadable = Some("no such file".into());
        let text = plain(&analysis);
        assert!(
            text.starts_with("No input could be read: nothing is known.\n"),
            "{text}"
        );
    }

    #[test]
    fn says_when_nothing_is_wrong() {
        let mut analysis = sample::fork();
        analysis.findings.clear();
        analysis.resumes[0].findings.clear();
        analysis.resumes[0].verdict = Verdict::Continued;
        insta::assert_snapshot!(plain(&analysis));
        analysis.resumes.clear();
        let text = plain(&analysis);
        assert!(
            text.contains("No stream was resumed, so there was nothing to judge"),
            "{text}"
        );
    }

    /// A run with much of everything.
    fn crowded() -> Analysis {
        let mut analysis = sample::rich();
        let (resume, finding) = (analysis.resumes[0].clone(), analysis.findings[0].clone());
        analysis.resumes = (1..=412)
            .map(|number| Resume {
                resume: number,
                ..resume.clone()
            })
            .collect();
        for number in 0..40 {
            analysis.findings.push(Finding {
                resume: None,
                severity: Severity::Warning,
                detail: format!("number {number}, {}", "said at some length ".repeat(9)).into(),
                ..finding.clone()
            });
            let mut input = analysis.inputs[number % 2].clone();
            input.name = format!("captures/of/node-{number}.pcapng");
            analysis.inputs.push(input);
        }
        let place = resume.place;
        for kind in UNREAD {
            analysis.anomalies.note(kind, place, String::new);
        }
        for list in 0..4_u16 {
            if let Some(incident) = analysis.incidents.first().cloned() {
                analysis.incidents.push(incident);
            }
            let name = format!("s{list}.example");
            analysis.opaque.push(Opaque {
                protocol: OpaqueProtocol::Tls,
                server: Some(Endpoint::Name(name.as_str().into(), list)),
                count: 9,
            });
        }
        analysis
    }

    #[test]
    fn keeps_to_a_screen_and_says_how_many_more() {
        let analysis = crowded();
        for (width, heights) in [(80, 36..=80), (120, 32..=80)] {
            for height in heights {
                let style = Style {
                    width,
                    height,
                    ..Style::default()
                };
                let short = text(&analysis, style);
                let lines = short.lines().count();
                assert!(lines <= height, "{lines} lines of {height}\n{short}");
                // The outcome, the worst resume, and what could not be read stay.
                for said in [
                    "412 of 412 resumes forked.",
                    "1. FORKED",
                    "and 4",
                    "Not read",
                ] {
                    assert!(short.contains(said), "{said}\n{short}");
                }
                assert!(short.contains("-v shows"), "{short}");
            }
        }
        let long = text(&analysis, VERBOSE);
        assert!(long.contains("412. FORKED"));
        assert!(!long.contains("and 4 more") && !long.contains("-v shows"));
    }

    #[test]
    fn says_what_is_alike_once() {
        let mut analysis = sample::rich();
        let mut finding = analysis.findings[0].clone();
        (finding.resume, finding.severity, finding.detail) =
            (None, Severity::Warning, "refused in between".into());
        analysis.findings = vec![finding; 5];
        let tall = Style {
            height: 90,
            ..Style::default()
        };
        let shown = text(&analysis, tall);
        assert_eq!(shown.matches("refused in between").count(), 1, "{shown}");
        assert!(shown.contains(", 5 times\n"), "{shown}");
        assert!(shown.contains("and 2 more; -v shows them"), "{shown}");
        analysis.findings[4].detail = "refused at the end".into();
        let shown = text(&analysis, tall);
        assert!(shown.contains("refused at the end ("), "{shown}");
    }

    #[test]
    fn puts_the_worst_first() {
        let mut analysis = sample::rich();
        analysis.resumes.reverse();
        let text = plain(&analysis);
        let (fork, lossy) = (text.find("1. FORKED"), text.find("2. LOSSY"));
        assert!(fork.is_some() && fork < lossy, "{text}");
    }

    #[test]
    fn a_finding_counts_for_its_own_side_of_a_proxy_alone() {
        let mut analysis = sample::fork();
        let mut other = analysis.resumes[0].clone();
        other.verdict = Verdict::Continued;
        other.findings.clear();
        other.server = Some(Endpoint::Name("behind.example".into(), 9));
        analysis.resumes.push(other);
        let text = plain(&analysis);
        assert!(text.contains(" 1. FORKED"), "{text}");
        assert!(!text.contains(" 2. "), "{text}");
    }

    #[test]
    fn fits_its_width() {
        for width in [60, 80, 100] {
            let style = Style { width, ..VERBOSE };
            for line in text(&crowded(), style).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn groups_digits() {
        let texts = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
    }

    proptest! {
        #[test]
        fn never_shows_a_raw_control_character(any in "[\\PC\\pC\\n\\x1b]{0,60}") {
            let mut analysis = sample::rich();
            for input in &mut analysis.inputs {
                input.name.clone_from(&any);
                input.damaged = any.clone().into();
            }
            for resume in &mut analysis.resumes {
                resume.session_id = any.as_str().into();
                resume.last_event_id.clone_from(&any);
                resume.first_event_id = Some(any.clone());
                resume.response_session_id = Some(any.as_str().into());
                resume.backend_before = Some(any.as_str().into());
                resume.backend_after = Some(any.as_str().into());
                resume.client = Some(Endpoint::Name(any.as_str().into(), 1));
                resume.reason = any.clone().into();
                resume.story = vec![any.clone().into()];
            }
            for finding in &mut analysis.findings {
                finding.session_id = any.as_str().into();
                finding.detail = any.clone().into();
            }
            for style in [Style::default(), VERBOSE] {
                let text = text(&analysis, style);
                prop_assert!(!text.contains(|c| c != '\n' && is_hidden(c)));
                prop_assert!(text.lines().all(|line| line.chars().count() <= style.width));
            }
        }
    }
}
