//! Gauges in Prometheus' text format, for the textfile collector: a run is a snapshot, so that
//! counts of it are gauges and not counters.
//!
//! Series are bounded: of servers the [`SERVERS`] with the most resumes have their own, the others
//! are `other` together; every other label has words of forkscope's own.

use super::{Style, escape::escape};
use crate::{
    finding,
    model::{
        analysis::{Analysis, Input, OpaqueProtocol, Proportion},
        flow::Endpoint,
        time::{Span, Timestamp},
        verdict::{Severity, Verdict},
    },
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::{Display, Write as _},
    io::{self, Write},
};

/// How many servers have series of their own.
const SERVERS: usize = 20;

/// Servers beyond those.
const OTHER: &str = "other";

/// A server that is not known.
const UNKNOWN: &str = "unknown";

/// Writes the gauges.
///
/// # Errors
///
/// Those of the writer.
pub(super) fn write(analysis: &Analysis, _: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::default();
    let servers = Servers::new(analysis);
    of_the_run(analysis, &mut page);
    of_resumes(analysis, &servers, &mut page);
    of_servers(analysis, &servers, &mut page);
    of_findings(analysis, &mut page);
    of_inputs(analysis, &mut page);
    out.write_all(page.text.as_bytes())?;
    out.flush()
}

fn of_the_run(analysis: &Analysis, page: &mut Page) {
    page.family("build_info", "The version of forkscope that wrote this.")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.family("sessions", "MCP sessions under judgement.")
        .sample(&[], analysis.totals.sessions);
    page.family("http_exchanges", "HTTP exchanges read.")
        .sample(&[], analysis.exchanges.len());
    let events = analysis.exchanges.iter().map(|e| e.events.len());
    page.family("sse_events", "Server-sent events read.")
        .sample(&[], events.sum::<usize>());
    let first = analysis.inputs.iter().filter_map(|input| input.first_time);
    let last = analysis.inputs.iter().filter_map(|input| input.last_time);
    for (name, help, time) in [
        (
            "capture_start_timestamp_seconds",
            "When the first packet or HAR entry was captured.",
            first.min(),
        ),
        (
            "capture_end_timestamp_seconds",
            "When the last packet or HAR entry was captured.",
            last.max(),
        ),
    ] {
        if let Some(time) = time {
            page.family(name, help).sample(&[], seconds_of(time));
        }
    }
}

fn of_resumes(analysis: &Analysis, servers: &Servers<'_>, page: &mut Page) {
    let mut by_verdict: BTreeMap<(&str, usize), u64> = BTreeMap::new();
    let mut by_cause: BTreeMap<(&str, &str, usize), u64> = BTreeMap::new();
    let mut lost: BTreeMap<&str, u64> = BTreeMap::new();
    let mut dropped: BTreeMap<&str, u64> = BTreeMap::new();
    for server in servers.labels() {
        // A series that comes and goes with its first fork is none to alert on.
        for verdict in Verdict::ALL {
            by_verdict.insert((server, verdict.index()), 0);
        }
        lost.insert(server, 0);
        dropped.insert(server, 0);
    }
    for resume in &analysis.resumes {
        let server = servers.label(resume.server.as_ref());
        let verdict = resume.verdict.index();
        let cause = resume.disconnect_cause.unwrap_or_default().name();
        *by_verdict.entry((server, verdict)).or_default() += 1;
        *by_cause.entry((server, cause, verdict)).or_default() += 1;
        *lost.entry(server).or_default() += u64::from(resume.requests.lost);
        *dropped.entry(server).or_default() += u64::from(resume.events_dropped_by_dedup);
    }
    let verdict = |index: usize| Verdict::ALL.get(index).map_or("", |verdict| verdict.name());
    let mut family = page.family(
        "resumes",
        "Resumes by the server asked and what became of them.",
    );
    for ((server, index), count) in by_verdict {
        family.sample(&[("server", server), ("verdict", verdict(index))], count);
    }
    let mut family = page.family(
        "resumes_by_cause",
        "Resumes by server, by what cut the stream before and by what became of them; those that occur.",
    );
    for ((server, cause, index), count) in by_cause {
        let labels = [
            ("server", server),
            ("cause", cause),
            ("verdict", verdict(index)),
        ];
        family.sample(&labels, count);
    }
    let mut family = page.family(
        "lost_requests",
        "Requests pending at a cut that were never answered though the client stayed.",
    );
    for (server, count) in lost {
        family.sample(&[("server", server)], count);
    }
    let mut family = page.family(
        "events_dropped_by_dedup",
        "New events under ids that a client which removes duplicates throws away.",
    );
    for (server, count) in dropped {
        family.sample(&[("server", server)], count);
    }
}

fn of_servers(analysis: &Analysis, servers: &Servers<'_>, page: &mut Page) {
    let mut incidents: BTreeMap<&str, u64> = BTreeMap::new();
    incidents.extend(servers.labels().map(|server| (server, 0)));
    for incident in &analysis.incidents {
        *incidents
            .entry(servers.label(Some(&incident.server)))
            .or_default() += 1;
    }
    let mut family = page.family(
        "incidents",
        "Moments in which streams of several sessions were cut.",
    );
    for (server, count) in incidents {
        family.sample(&[("server", server)], count);
    }
    // Shares and thresholds do not add up: servers that are folded have none.
    let own = || {
        let rows = analysis
            .servers
            .iter()
            .map(|row| (servers.label(Some(&row.server)), row));
        let rows = rows.filter(|&(label, _)| label != OTHER);
        rows.collect::<BTreeMap<_, _>>()
    };
    type Of = fn(&Proportion) -> f64;
    for (name, help, of) in [
        (
            "fork_ratio",
            "The share of forks among resumes that were decided, from 0 to 1.",
            (|share| share.share) as Of,
        ),
        (
            "fork_ratio_low",
            "Lower end of the 95 % Wilson interval of fork_ratio.",
            |share| share.low,
        ),
        (
            "fork_ratio_high",
            "Upper end of the 95 % Wilson interval of fork_ratio.",
            |share| share.high,
        ),
    ] {
        let mut family = page.family(name, help);
        for (server, row) in own() {
            if let Some(share) = &row.fork_share {
                family.sample(&[("server", server)], format_args!("{:.4}", of(share)));
            }
        }
    }
    let mut family = page.family(
        "session_lifetime_threshold_seconds",
        "How long a session lives without a connection: the middle of the bracket.",
    );
    for (server, row) in own() {
        if let Some(threshold) = &row.threshold {
            family.sample(&[("server", server)], seconds(threshold.middle()));
        }
    }
}

fn of_findings(analysis: &Analysis, page: &mut Page) {
    let findings = || analysis.findings.iter();
    let mut family = page.family("findings", "Findings by severity.");
    for severity in [
        Severity::Fork,
        Severity::Loss,
        Severity::Warning,
        Severity::Info,
    ] {
        let count = findings()
            .filter(|finding| finding.severity == severity)
            .count();
        family.sample(&[("severity", severity.name())], count);
    }
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    counts.extend(finding::ALL.iter().map(|rule| (rule.code, 0)));
    for finding in findings() {
        *counts.entry(finding.code).or_default() += 1;
    }
    let mut family = page.family("findings_by_code", "Findings by code.");
    for (code, count) in counts {
        family.sample(&[("code", code)], count);
    }
}

fn of_inputs(analysis: &Analysis, page: &mut Page) {
    type Is = fn(&Input) -> bool;
    let states = [
        ("unreadable", (|input| input.unreadable.is_some()) as Is),
        ("copy", |input| input.copy_of.is_some()),
        ("damaged", |input| !input.damaged.is_empty()),
        ("whole", |_| true),
    ];
    let mut counts = [0_u64; 4];
    for input in &analysis.inputs {
        let state = states.iter().position(|(_, is)| is(input));
        if let Some(count) = state.and_then(|state| counts.get_mut(state)) {
            *count += 1;
        }
    }
    let mut family = page.family(
        "inputs",
        "Inputs by what became of them: whole, damaged (read as far as it goes), copy, unreadable.",
    );
    for ((state, _), count) in states.iter().zip(counts) {
        family.sample(&[("state", state)], count);
    }
    let sum = |of: fn(&Input) -> u64| analysis.inputs.iter().map(of).sum::<u64>();
    for (name, help, count) in [
        (
            "input_packets",
            "Packets, or HAR entries, read.",
            sum(|i| i.packets),
        ),
        (
            "input_bytes",
            "Bytes of packets, or of HAR text, read.",
            sum(|i| i.bytes),
        ),
        (
            "holes",
            "Places where bytes of a TCP stream are missing from the captures.",
            sum(|i| i.holes),
        ),
        ("hole_bytes", "Bytes missing there.", sum(|i| i.hole_bytes)),
        (
            "truncated_packets",
            "Packets cut by the snapshot length.",
            sum(|i| i.truncated_packets),
        ),
    ] {
        page.family(name, help).sample(&[], count);
    }
    let mut family = page.family(
        "opaque_connections",
        "Connections that could not be read, by protocol.",
    );
    for (protocol, count) in [
        (OpaqueProtocol::Tls, sum(|i| i.tls_opaque)),
        (OpaqueProtocol::Http2, sum(|i| i.http2_opaque)),
    ] {
        family.sample(&[("protocol", protocol.name())], count);
    }
}

/// The names under which servers have series.
struct Servers<'a> {
    own: BTreeMap<&'a Endpoint, String>,
    all: BTreeSet<String>,
}

impl<'a> Servers<'a> {
    fn new(analysis: &'a Analysis) -> Self {
        let mut resumes: BTreeMap<&Endpoint, u64> = BTreeMap::new();
        let rows = analysis.servers.iter();
        resumes.extend(rows.map(|row| (&row.server, 0)));
        resumes.extend(
            analysis
                .incidents
                .iter()
                .map(|incident| (&incident.server, 0)),
        );
        let mut unknown = false;
        for resume in &analysis.resumes {
            match &resume.server {
                Some(server) => *resumes.entry(server).or_default() += 1,
                None => unknown = true,
            }
        }
        let mut most: Vec<_> = resumes.into_iter().collect();
        most.sort_by_key(|&(_, count)| Reverse(count));
        let folded = most.len() > SERVERS;
        let own: BTreeMap<_, _> = most
            .into_iter()
            .take(SERVERS)
            .map(|(server, _)| (server, escape(&server.to_string()).into_owned()))
            .collect();
        let mut all: BTreeSet<_> = own.values().cloned().collect();
        all.extend(folded.then(|| OTHER.to_owned()));
        all.extend(unknown.then(|| UNKNOWN.to_owned()));
        Self { own, all }
    }

    fn label(&self, server: Option<&Endpoint>) -> &str {
        // A name with a port is neither of the words.
        server.map_or(UNKNOWN, |server| {
            self.own.get(server).map_or(OTHER, String::as_str)
        })
    }

    fn labels(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(String::as_str)
    }
}

/// The text as it grows.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    /// Begins a family of gauges; its head is written with its first sample.
    fn family<'p>(&'p mut self, name: &'p str, help: &'p str) -> Family<'p> {
        Family {
            text: &mut self.text,
            name,
            help,
            begun: false,
        }
    }
}

/// A family of gauges.
struct Family<'p> {
    text: &'p mut String,
    name: &'p str,
    help: &'p str,
    begun: bool,
}

impl Family<'_> {
    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let Self { text, name, .. } = self;
        // Writing to a string cannot fail.
        if !self.begun {
            self.begun = true;
            let _ = writeln!(text, "# HELP forkscope_{name} {}", self.help);
            let _ = writeln!(text, "# TYPE forkscope_{name} gauge");
        }
        let _ = write!(text, "forkscope_{name}");
        for (index, (label, value)) in labels.iter().enumerate() {
            text.push(if index == 0 { '{' } else { ',' });
            let _ = write!(text, "{label}=\"");
            for c in value.chars() {
                match c {
                    '\\' => text.push_str("\\\\"),
                    '"' => text.push_str("\\\""),
                    '\n' => text.push_str("\\n"),
                    c => text.push(c),
                }
            }
            text.push('"');
        }
        if !labels.is_empty() {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }
}

fn seconds(span: Span) -> impl Display {
    let millis = span.nanos() / 1_000_000;
    let sign = if millis < 0 { "-" } else { "" };
    let millis = millis.unsigned_abs();
    format!("{sign}{}.{:03}", millis / 1_000, millis % 1_000)
}

fn seconds_of(time: Timestamp) -> impl Display {
    super::TimeFormat::Epoch.text(time)
}

#[cfg(test)]
mod tests {
    use super::{super::sample, *};

    fn page(analysis: &Analysis) -> String {
        let mut bytes = Vec::new();
        write(analysis, &Style::default(), &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn counts_by_server_verdict_and_cause() {
        let page = page(&sample::rich());
        for line in [
            "# TYPE forkscope_resumes gauge",
            r#"forkscope_resumes{server="[fd00::9]:8080",verdict="forked"} 1"#,
            r#"forkscope_resumes{server="[fd00::9]:8080",verdict="failed"} 0"#,
            r#"forkscope_resumes_by_cause{server="[fd00::9]:8080",cause="server-rst",verdict="lossy"} 1"#,
            r#"forkscope_lost_requests{server="[fd00::9]:8080"} 1"#,
            r#"forkscope_fork_ratio{server="[fd00::9]:8080"} 0.5000"#,
            r#"forkscope_session_lifetime_threshold_seconds{server="[fd00::9]:8080"} 29.550"#,
            r#"forkscope_findings{severity="fork"} 2"#,
            r#"forkscope_findings_by_code{code="misrouted"} 0"#,
            r#"forkscope_inputs{state="damaged"} 1"#,
            r#"forkscope_inputs{state="unreadable"} 1"#,
            "forkscope_hole_bytes 2920",
            "forkscope_capture_start_timestamp_seconds 1796337600.000000",
        ] {
            assert!(
                page.lines().any(|written| written == line),
                "{line}\n{page}"
            );
        }
    }

    #[test]
    fn folds_servers_beyond_the_first() {
        let mut analysis = sample::fork();
        let resume = analysis.resumes.remove(0);
        for number in 0..SERVERS + 5 {
            let mut resume = resume.clone();
            let name = format!("s{number:03}\"\\\u{202e}");
            resume.server = Some(Endpoint::Name(name.as_str().into(), 80));
            analysis.resumes.push(resume.clone());
            // The last ones have the most.
            analysis.resumes.extend((0..number).map(|_| resume.clone()));
        }
        let mut nobodys = resume;
        nobodys.server = None;
        analysis.resumes.push(nobodys);
        let page = page(&analysis);
        let forked =
            |server: &str| format!("forkscope_resumes{{server=\"{server}\",verdict=\"forked\"}} ");
        assert!(page.contains(&(forked("other") + "15\n")), "{page}");
        assert!(page.contains(&(forked("unknown") + "1\n")));
        assert!(
            page.contains(&(forked(r#"s024\"\\\\\\u{202e}:80"#) + "25\n")),
            "{page}"
        );
        assert!(!page.contains("s004"));
        assert!(page.contains("s005"));
        let series = page
            .lines()
            .filter(|line| line.starts_with("forkscope_resumes{"));
        assert_eq!(series.count(), (SERVERS + 2) * Verdict::ALL.len());
    }

    #[test]
    fn an_empty_run_is_a_page_too() {
        let page = page(&Analysis::default());
        assert!(page.contains("\nforkscope_sessions 0\n"));
        assert!(!page.contains("forkscope_resumes"));
        assert!(page.ends_with('\n'));
    }
}
