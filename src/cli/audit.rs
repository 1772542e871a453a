//! `forkscope audit`: the main job.

use super::{
    Color, FINE, FOUND, USAGE, complain, evidence, folder, learn, output,
    reading::{Reading, any_unreadable},
    stream, values,
};
use clap::{Args, ValueEnum, ValueHint};
use forkscope::{
    model::{analysis::Analysis, time::Span, verdict::Severity},
    pipeline::{self, Options},
    report::{self, Report, Style},
};
use std::path::{Path, PathBuf};

/// Judge every resume and report what is wrong
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Audit {
    /// Write every report into DIR, made if absent
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// What goes to standard output [default: text]
    #[arg(long, value_name = "FORM")]
    format: Option<Format>,
    /// Exit 1 from this severity on
    #[arg(long, value_name = "SEVERITY", default_value = "fork")]
    fail_on: FailOn,
    /// A header of the answers that names the incarnation of a session
    #[arg(long, value_name = "NAME", value_parser = values::header)]
    incarnation_header: Option<String>,
    /// A header that names the backend, besides the usual ones; repeatable
    #[arg(long, value_name = "NAME", value_parser = values::header)]
    backend_header: Vec<String>,
    /// With -o: events.csv too
    #[arg(long, requires = "out")]
    events: bool,
    /// Write a small capture of what proves it for each finding into DIR, payload as captured
    ///
    /// A pcapng with the connections of the finding's session, comments at the packets that decide, and index.csv; a
    /// HAR for what a HAR shows. Of TLS that was decrypted the secrets of those connections are in it. The inputs are
    /// read again for it, so it does not go with standard input or pipes. With --redact there is no payload in it, no
    /// secret, and no address of the capture.
    #[arg(long, value_name = "DIR")]
    evidence: Option<PathBuf>,
    /// Cuts of one server no more than DUR apart are one incident (500ms, 2s, 1min; seconds without a unit)
    #[arg(
        long,
        value_name = "DUR",
        value_parser = values::duration,
        default_value = "2s",
        allow_hyphen_values = true
    )]
    window: Span,
    /// Exit 2 when no session could be read (a capture of TLS without keys)
    #[arg(long)]
    require_sessions: bool,
    /// In place of inputs, rows of facts that an engine deals out, as an Arrow IPC stream: a file, or - for standard input
    ///
    /// All rows of runs and inputs, and the exchanges of some components as a whole (see learn). Resumes, findings,
    /// incidents, timers, shares, servers and sessions go to standard output as an Arrow IPC stream.
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "learnt",
        conflicts_with_all = [
            "inputs", "out", "format", "events", "evidence", "require_sessions", "verbose", "keylog", "server",
            "clock_offset", "redact", "quiet",
        ]
    )]
    facts: Option<PathBuf>,
    /// With --facts: what was learnt of all of them
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "facts")]
    learnt: Option<PathBuf>,
    /// Every resume whole, and what is odd in the captures
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    reading: Reading,
}

/// What goes to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The summary
    Text,
    /// resumes.csv
    Csv,
    /// The whole report
    Json,
    /// A line a resume
    Ndjson,
    /// Gauges for Prometheus' textfile collector
    Prometheus,
    /// A test case a resume, as JUnit XML; what fails is as --fail-on says
    Junit,
    /// Findings as SARIF 2.1.0, for code scanning
    Sarif,
}

/// From which severity on the exit code is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// A fork
    Fork,
    /// A loss or a fork
    Loss,
    /// A warning, a loss or a fork
    Warning,
    /// Never
    Never,
}

impl FailOn {
    /// From which severity on, if any.
    const fn severity(self) -> Option<Severity> {
        match self {
            Self::Fork => Some(Severity::Fork),
            Self::Loss => Some(Severity::Loss),
            Self::Warning => Some(Severity::Warning),
            Self::Never => None,
        }
    }
}

/// Runs the command.
pub(crate) fn run(audit: &Audit, color: Color) -> anyhow::Result<u8> {
    let options = Options {
        incarnation_header: audit.incarnation_header.clone(),
        backend_headers: audit.backend_header.clone(),
        window: audit.window,
        ..audit.reading.options()?
    };
    if let (Some(facts), Some(learnt)) = (&audit.facts, &audit.learnt) {
        return judge(audit, &options, facts, learnt);
    }
    if audit.evidence.is_some() {
        audit.reading.expect_readable_again()?;
    }
    let mut analysis = audit.reading.run(&options)?;
    let style = Style {
        fail_from: audit.fail_on.severity(),
        ..audit.reading.style(color.wanted(), audit.verbose)
    };
    let mut code = exit_code(&analysis, audit.fail_on);
    if audit.require_sessions && analysis.totals.sessions == 0 {
        complain(&no_sessions(&analysis));
        code = USAGE;
    }
    if let Some(folder) = &audit.out {
        let events = audit.events.then_some(&report::EVENTS);
        let reports = report::FOLDER.iter().chain(events);
        if let Err(error) = folder::write(folder, reports, &analysis, &style) {
            // What was found is still told.
            complain(&format!("{error:#}"));
            code = USAGE;
        }
    }
    if let Some(folder) = &audit.evidence {
        let quiet = audit.reading.quiet;
        if let Err(error) = evidence::write(folder, &mut analysis, &options, &style, quiet) {
            complain(&format!("{error:#}"));
            code = USAGE;
        }
    }
    if let Some(report) = on_stdout(audit.format, audit.reading.quiet) {
        output::print(|out| (report.write)(&analysis, &style, out))?;
    }
    // The process ends here: to take a large analysis apart piece by piece would only take time.
    std::mem::forget(analysis);
    Ok(code)
}

/// Audits a part of a run. Which inputs could not be read is in the rows of inputs that the engine has.
fn judge(audit: &Audit, options: &Options, facts: &Path, learnt: &Path) -> anyhow::Result<u8> {
    let learnt = learn::read(&[learnt.to_owned()])?;
    let analysis = stream::read(facts, |facts| Ok(pipeline::judge(options, facts, &learnt)?))?;
    let style = audit.reading.style(false, false);
    output::print(|out| (report::ARROW.write)(&analysis, &style, out))?;
    let failing = fails(&analysis, audit.fail_on);
    std::mem::forget(analysis);
    Ok(if failing { FOUND } else { FINE })
}

/// The report for standard output: quiet means none, but for what was asked for by name.
fn on_stdout(format: Option<Format>, quiet: bool) -> Option<&'static Report> {
    match format {
        None if quiet => None,
        None | Some(Format::Text) => Some(&report::SUMMARY),
        Some(Format::Csv) => Some(&report::RESUMES),
        Some(Format::Json) => Some(&report::WHOLE),
        Some(Format::Ndjson) => Some(&report::RESUMES_NDJSON),
        Some(Format::Prometheus) => Some(&report::PROMETHEUS),
        Some(Format::Junit) => Some(&report::JUNIT),
        Some(Format::Sarif) => Some(&report::SARIF),
    }
}

fn exit_code(analysis: &Analysis, fail_on: FailOn) -> u8 {
    if any_unreadable(analysis) {
        USAGE
    } else if fails(analysis, fail_on) {
        FOUND
    } else {
        FINE
    }
}

/// Whether there is a finding that fails.
fn fails(analysis: &Analysis, fail_on: FailOn) -> bool {
    let mut findings = analysis.findings.iter();
    let from = fail_on.severity();
    from.is_some_and(|from| findings.any(|finding| finding.severity >= from))
}

/// Why no session may have been read.
fn no_sessions(analysis: &Analysis) -> String {
    let opaque = |of: fn(&forkscope::model::analysis::Input) -> u64| {
        analysis.inputs.iter().map(of).sum::<u64>()
    };
    let (tls, http2) = (opaque(|i| i.tls_opaque), opaque(|i| i.http2_opaque));
    match (tls, http2) {
        (0, 0) => "no MCP session was found".to_owned(),
        _ => format!(
            "no MCP session could be read (connections that could not be: {tls} of TLS, \
             {http2} of HTTP/2)"
        ),
    }
}

const EXAMPLES: &str = "\
Examples:
  forkscope audit capture.pcapng
  forkscope audit -o reports --events captures/
  forkscope audit --evidence proof capture.pcapng
  forkscope audit --fail-on loss --require-sessions -q nightly.pcap.zst
  forkscope audit --format csv browser.har > resumes.csv
  forkscope audit --format junit --fail-on loss captures/ > forkscope.xml
  forkscope audit --format sarif captures/ > forkscope.sarif
  forkscope audit --server mcp.example:8080 --backend-header X-Pod rotated-*.pcap
  forkscope audit --redact=team.key -o for-the-vendor captures/";

#[cfg(test)]
mod tests {
    use super::*;
    use forkscope::model::{
        analysis::{Finding, Input},
        place::Place,
        time::Timestamp,
        verdict::Confidence,
    };

    fn with(severity: Severity) -> Analysis {
        Analysis {
            inputs: vec![Input::default()],
            findings: vec![Finding {
                code: "some-code",
                severity,
                confidence: Confidence::Low,
                evidence: "",
                session_id: "s".into(),
                incarnation: 1,
                resume: None,
                time: Timestamp::default(),
                detail: "".into(),
                client: None,
                server: None,
                place: Place::default(),
            }],
            ..Analysis::default()
        }
    }

    #[test]
    fn fails_from_the_severity_asked_for_on() {
        use Severity::{Fork, Info, Loss, Warning};
        for (fail_on, failing) in [
            (FailOn::Fork, &[Fork][..]),
            (FailOn::Loss, &[Fork, Loss]),
            (FailOn::Warning, &[Fork, Loss, Warning]),
            (FailOn::Never, &[]),
        ] {
            for severity in [Info, Warning, Loss, Fork] {
                let expected = u8::from(failing.contains(&severity));
                assert_eq!(exit_code(&with(severity), fail_on), expected);
            }
        }
    }

    #[test]
    fn an_unreadable_input_wins_over_a_finding() {
        let mut analysis = with(Severity::Fork);
        analysis.inputs[0].damaged = "offset 24: cut".into();
        assert_eq!(exit_code(&analysis, FailOn::Fork), FOUND);
        analysis.inputs[0].unreadable = Some("no such file".into());
        assert_eq!(exit_code(&analysis, FailOn::Fork), USAGE);
        assert_eq!(exit_code(&analysis, FailOn::Never), USAGE);
    }

    #[test]
    fn quiet_leaves_what_was_asked_for_by_name() {
        assert!(on_stdout(None, true).is_none());
        assert_eq!(on_stdout(None, false).map(|r| r.name), Some("summary"));
        assert_eq!(
            on_stdout(Some(Format::Text), true).map(|r| r.name),
            Some("summary")
        );
        assert_eq!(
            on_stdout(Some(Format::Json), true).map(|r| r.name),
            Some("report")
        );
    }

    #[test]
    fn says_what_hides_the_sessions() {
        let mut analysis = Analysis::default();
        assert_eq!(no_sessions(&analysis), "no MCP session was found");
        analysis.inputs.push(Input {
            tls_opaque: 3,
            ..Input::default()
        });
        assert!(no_sessions(&analysis).contains("3 of TLS"));
    }
}
