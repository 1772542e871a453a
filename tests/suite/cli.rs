//! The binary as a user runs it: exit codes, streams, files, headers.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

fn forkscope() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forkscope"));
    command
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .env_remove("COLUMNS")
        .stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    forkscope().args(arguments).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A pcap file without packets: little-endian, microseconds, Ethernet.
fn empty_capture(folder: &TempDir) -> String {
    let path = folder.path().join("empty.pcap");
    let header: [u8; 24] = [
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0,
    ];
    fs::write(&path, header).unwrap();
    path.into_os_string().into_string().unwrap()
}

fn header(text: &str) -> &str {
    let (header, _) = text.split_once('\n').unwrap();
    assert!(!header.contains('\r'));
    header
}

#[test]
fn wrong_usage_exits_2_and_writes_nothing_to_stdout() {
    for arguments in [
        &[][..],
        &["audit"],
        &["audit", "--no-such-flag", "x.pcap"],
        &["audit", "--memory", "lots", "x.pcap"],
        &["audit", "--server", "host:port", "x.pcap"],
        &["audit", "--fail-on", "rain", "x.pcap"],
        &["audit", "--window", "soon", "x.pcap"],
        &["audit", "--clock-offset", "x.pcap", "x.pcap"],
        &["audit", "--clock-offset", "x.pcap=soon", "x.pcap"],
        &["audit", "--format", "xml", "x.pcap"],
        &["audit", "--events", "x.pcap"],
        &["events", "--format", "json", "x.pcap"],
        &["exchanges"],
        &["completions", "basic"],
        &["juggle"],
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}");
        assert_eq!(stdout(&output), "", "{arguments:?}");
        assert!(!stderr(&output).is_empty(), "{arguments:?}");
    }
}

#[test]
fn help_shows_examples_and_every_option() {
    let output = run(&["audit", "--help"]);
    assert_eq!(code(&output), 0);
    for option in [
        "-o, --out",
        "--format",
        "--fail-on",
        "--session-header",
        "--incarnation-header",
        "--backend-header",
        "--server",
        "--all-sse",
        "--events",
        "--window",
        "--require-sessions",
        "--clock-offset",
        "--redact",
        "--time",
        "-j, --jobs",
        "--memory",
        "-q, --quiet",
        "-v, --verbose",
        "--color",
        "Examples:",
    ] {
        assert!(stdout(&output).contains(option), "{option}");
    }
}

#[test]
fn every_command_ends_its_help_and_its_manual_page_with_the_same_examples() {
    for command in [
        "audit",
        "events",
        "exchanges",
        "explain",
        "completions",
        "man",
    ] {
        let help = run(&[command, "--help"]);
        let (_, examples) = stdout(&help).split_once("\nExamples:\n").expect(command);
        let page = run(&["man", command]);
        let (_, shown) = stdout(&page)
            .split_once(".SH EXAMPLES\n.nf\n")
            .expect(command);
        let (shown, _) = shown.split_once("\n.fi").expect(command);
        let shown: Vec<String> = shown
            .lines()
            .map(|line| line.trim_start_matches("\\&").replace("\\-", "-"))
            .collect();
        let examples: Vec<&str> = examples.trim_end().lines().map(str::trim).collect();
        assert!(examples.len() > 1, "{command}: {examples:?}");
        for example in &examples {
            assert!(example.contains("forkscope "), "{command}: {example}");
        }
        assert_eq!(examples, shown, "{command}");
    }
}

/// Every example of a help text that only reads is right as far as the flags go.
#[test]
fn examples_of_help_are_commands_that_there_are() {
    for command in ["audit", "events", "exchanges", "explain"] {
        let help = run(&[command, "--help"]);
        let (_, examples) = stdout(&help).split_once("\nExamples:\n").unwrap();
        for example in examples.lines() {
            let words = example.split(['|', '>']).next().unwrap_or_default();
            let words: Vec<&str> = words.split_whitespace().skip(1).collect();
            let folder = TempDir::new().unwrap();
            fs::write(folder.path().join("team.key"), "0123456789abcdef").unwrap();
            let output = forkscope()
                .current_dir(folder.path())
                .args(&words)
                .output()
                .unwrap();
            // The captures are not there; what is wrong with a flag is told before.
            let said = stderr(&output);
            assert!(
                !said.contains("Usage:") && !said.contains("error:"),
                "{example}: {said}"
            );
        }
    }
}

#[test]
fn audits_an_empty_capture_and_says_so() {
    let folder = TempDir::new().unwrap();
    let output = run(&["audit", &empty_capture(&folder)]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    assert!(
        stdout(&output).contains("No MCP session was found")
            || stdout(&output).contains("No input")
    );
}

#[test]
fn requires_sessions_when_asked() {
    let folder = TempDir::new().unwrap();
    let output = run(&["audit", "--require-sessions", &empty_capture(&folder)]);
    assert_eq!(code(&output), 2);
    assert_eq!(stderr(&output), "forkscope: no MCP session was found\n");
    assert!(!stdout(&output).is_empty());
}

#[test]
fn writes_every_report_with_the_columns_of_the_contract() {
    let folder = TempDir::new().unwrap();
    let reports = folder.path().join("deep/reports");
    let capture = empty_capture(&folder);
    let output = run(&[
        "audit",
        "--events",
        "-o",
        reports.to_str().unwrap(),
        &capture,
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(
        !stdout(&output).is_empty(),
        "the summary still goes to standard output"
    );
    let mut names: Vec<_> = fs::read_dir(&reports)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    let expected = [
        "events.csv",
        "findings.csv",
        "incidents.csv",
        "inputs.csv",
        "report.html",
        "report.json",
        "resumes.csv",
        "segments.csv",
        "servers.csv",
        "sessions.csv",
        "shares.csv",
        "timers.csv",
    ];
    assert_eq!(names, expected);
    for (name, columns) in [
        ("events.csv", EVENTS),
        ("findings.csv", FINDINGS),
        ("incidents.csv", INCIDENTS),
        ("inputs.csv", INPUTS),
        ("resumes.csv", RESUMES),
        ("segments.csv", SEGMENTS),
        ("servers.csv", SERVERS),
        ("sessions.csv", SESSIONS),
        ("shares.csv", SHARES),
        ("timers.csv", TIMERS),
    ] {
        let text = fs::read_to_string(reports.join(name)).unwrap();
        assert_eq!(header(&text), columns, "{name}");
    }
    let json = fs::read_to_string(reports.join("report.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema_version"], "1");
    for key in [
        "inputs",
        "sessions",
        "incidents",
        "timers",
        "shares",
        "servers",
        "anomalies",
    ] {
        assert!(json[key].is_array(), "{key}");
    }
}

/// Neither threads nor the order in which inputs are named change a byte of any report.
#[test]
fn every_report_is_the_same_with_other_threads_and_in_another_order() {
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/real");
    let inputs: Vec<String> = [
        "ts15.pcap.gz",
        "ts11.pcap",
        "tsfmt_merged.pcapng",
        "slim_har03_browser_fork.devtools.har",
        "pv_rotated_0.pcap",
        "pv_rotated_1.pcap",
    ]
    .iter()
    .map(|name| real.join(name).to_str().unwrap().to_owned())
    .collect();
    let reports = |jobs: &str, inputs: &[String]| -> BTreeMap<String, Vec<u8>> {
        let folder = TempDir::new().unwrap();
        let out = folder.path().to_str().unwrap();
        let mut arguments = vec!["audit", "-q", "--events", "--fail-on", "never", "-j", jobs];
        arguments.extend(["-o", out]);
        arguments.extend(inputs.iter().map(String::as_str));
        let output = run(&arguments);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, fs::read(path).unwrap())
            })
            .collect()
    };
    let want = reports("1", &inputs);
    for name in ["incidents.csv", "timers.csv", "shares.csv", "servers.csv"] {
        let lines = want[name].iter().filter(|byte| **byte == b'\n').count();
        assert!(lines > 1, "nothing to compare in {name}");
    }
    let mut turned = inputs.clone();
    turned.rotate_left(2);
    turned.reverse();
    for (jobs, inputs) in [("8", &inputs), ("8", &turned), ("1", &turned)] {
        let got = reports(jobs, inputs);
        assert!(got.keys().eq(want.keys()));
        for (name, bytes) in &got {
            assert!(*bytes == want[name], "{name} differs with -j {jobs}");
        }
    }
}

#[test]
fn writes_events_only_when_asked() {
    let folder = TempDir::new().unwrap();
    let reports = folder.path().join("reports");
    let capture = empty_capture(&folder);
    let output = run(&["audit", "-q", "-o", reports.to_str().unwrap(), &capture]);
    assert_eq!(code(&output), 0);
    assert!(output.stdout.is_empty(), "quiet");
    assert!(reports.join("resumes.csv").exists());
    assert!(!reports.join("events.csv").exists());
}

#[test]
fn a_report_of_an_earlier_run_stays_and_is_named() {
    let folder = TempDir::new().unwrap();
    let capture = empty_capture(&folder);
    let reports = folder.path().join("reports");
    let audit = |more: &[&str]| {
        let reports = reports.to_str().unwrap();
        run(&[&["audit", &capture, "-q", "-o", reports], more].concat())
    };
    assert_eq!(stderr(&audit(&["--events"])), "");
    let output = audit(&[]);
    assert_eq!(code(&output), 0);
    assert!(
        stderr(&output).ends_with("events.csv: of an earlier run, left as it was\n"),
        "{}",
        stderr(&output)
    );
    assert!(reports.join("events.csv").exists());
}

#[test]
fn formats_on_stdout_have_the_columns_of_the_contract() {
    let folder = TempDir::new().unwrap();
    let capture = empty_capture(&folder);
    for (arguments, columns) in [
        (&["audit", "--format", "csv", &capture][..], RESUMES),
        (&["audit", "-q", "--format", "csv", &capture], RESUMES),
        (&["events", &capture], EVENTS),
        (&["exchanges", "--format", "csv", &capture], EXCHANGES),
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}");
        assert_eq!(header(stdout(&output)), columns, "{arguments:?}");
    }
    for arguments in [
        ["audit", "--format", "ndjson", &capture],
        ["events", "--format", "ndjson", &capture],
        ["exchanges", "--format", "ndjson", &capture],
    ] {
        let output = run(&arguments);
        assert_eq!((code(&output), stdout(&output)), (0, ""), "{arguments:?}");
    }
    let output = run(&["audit", "--format", "json", &capture]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["totals"]["resumes"], 0);
}

#[test]
fn an_unwritable_folder_is_one_line_and_the_summary_is_still_told() {
    let folder = TempDir::new().unwrap();
    let capture = empty_capture(&folder);
    // A file where the folder should be: nobody can write there, whoever runs the test.
    let output = run(&["audit", "-o", &capture, &capture]);
    assert_eq!(code(&output), 2);
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    assert!(stderr(&output).starts_with("forkscope: "));
    assert!(stderr(&output).contains(&capture));
    assert!(stderr(&output).contains("not a directory"));
    assert!(stdout(&output).contains("Found"));
}

#[test]
fn leaves_nothing_behind_when_a_report_cannot_be_placed() {
    let folder = TempDir::new().unwrap();
    let capture = empty_capture(&folder);
    let reports = folder.path().join("reports");
    fs::create_dir_all(reports.join("resumes.csv/in-the-way")).unwrap();
    let output = run(&["audit", "-o", reports.to_str().unwrap(), &capture]);
    assert_eq!(code(&output), 2);
    let names = fs::read_dir(&reports)
        .unwrap()
        .map(|e| e.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["resumes.csv"]);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let folder = TempDir::new().unwrap();
    let capture = empty_capture(&folder);
    for arguments in [
        &["audit", &capture][..],
        &["audit", "--format", "json", &capture],
        &["events", &capture],
        &["exchanges", &capture],
        &["explain"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = forkscope()
            .args(arguments)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        assert_eq!((code(&output), stderr(&output)), (0, ""), "{arguments:?}");
    }
}

/// As with `| head -1`: the reader takes a little and goes.
#[test]
fn a_pipe_that_closes_after_a_line_ends_quietly_whatever_is_written() {
    use std::io::{BufRead, BufReader};
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/real/ts15.pcap.gz");
    let capture = capture.to_str().unwrap();
    let audit = [
        "text",
        "csv",
        "json",
        "ndjson",
        "prometheus",
        "junit",
        "sarif",
    ]
    .map(|format| {
        vec![
            "audit",
            "-v",
            "--fail-on",
            "never",
            "--format",
            format,
            capture,
        ]
    });
    let rows = ["events", "exchanges"]
        .into_iter()
        .flat_map(|of| ["csv", "ndjson"].map(|format| vec![of, "--format", format, capture]));
    let others = [
        vec!["explain"],
        vec!["man", "audit"],
        vec!["audit", "--help"],
    ];
    for arguments in audit.into_iter().chain(rows).chain(others) {
        let mut child = forkscope()
            .args(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::with_capacity(16, child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{arguments:?}");
        drop(out);
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), stderr(&output)), (0, ""), "{arguments:?}");
    }
}

#[test]
fn a_pipe_that_closes_amid_a_long_table_ends_quietly() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/real/ts15.pcap.gz");
    for format in ["csv", "ndjson"] {
        // Longer than any buffer on the way, or the end would come first.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = forkscope()
            .args(["events", "--format", format])
            .arg(&capture)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        assert_eq!((code(&output), stderr(&output)), (0, ""), "{format}");
    }
}

#[test]
fn breaks_lines_for_the_columns_there_are() {
    let folder = TempDir::new().unwrap();
    let capture = empty_capture(&folder);
    for (columns, most) in [("60", 60), ("200", 100), ("none", 80)] {
        let arguments = [&["audit", &capture][..], &["explain"]];
        for arguments in arguments {
            let output = forkscope()
                .env("COLUMNS", columns)
                .args(arguments)
                .output()
                .unwrap();
            let lines = stdout(&output).lines().map(|line| line.chars().count());
            let longest = lines.max().unwrap_or_default();
            assert!(longest <= most, "{columns} {arguments:?}: {longest}");
            if arguments == ["explain"] {
                assert!(longest > most - 20, "{columns}: {longest}");
            }
        }
    }
}

#[test]
fn says_when_no_exchange_is_with_the_server_asked_for() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/real/ts04.pcap");
    let capture = capture.to_str().unwrap();
    let output = run(&["audit", "--server", "127.0.0.99", capture]);
    assert_eq!(code(&output), 0);
    assert_eq!(
        stderr(&output),
        "forkscope: no HTTP exchange is with a server that --server names\n"
    );
    let output = run(&["audit", "--server", "127.0.0.31:4120", capture]);
    assert_eq!((code(&output), stderr(&output)), (1, ""));
}

#[test]
fn colours_come_when_asked_for() {
    let folder = TempDir::new().unwrap();
    let capture = empty_capture(&folder);
    let escapes = |output: &Output| output.stdout.contains(&0x1b);
    assert!(escapes(&run(&["audit", "--color", "always", &capture])));
    assert!(!escapes(&run(&["audit", "--color", "never", &capture])));
    assert!(
        !escapes(&run(&["audit", &capture])),
        "no terminal, no colours"
    );
}

/// no-color.org and bixense.com/clicolors: none before all, then what was asked for.
#[test]
fn colours_keep_to_the_environment() {
    let folder = TempDir::new().unwrap();
    let capture = empty_capture(&folder);
    for (variables, arguments, wanted) in [
        (&[("CLICOLOR_FORCE", "1")][..], &["audit"][..], true),
        (&[("CLICOLOR_FORCE", "1")], &["explain"], true),
        (&[("CLICOLOR_FORCE", "0")], &["audit"], false),
        (&[("CLICOLOR_FORCE", "")], &["audit"], false),
        (
            &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")],
            &["audit"],
            false,
        ),
        (
            &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "")],
            &["audit"],
            true,
        ),
        (
            &[("CLICOLOR_FORCE", "1"), ("CLICOLOR", "0")],
            &["audit"],
            false,
        ),
        (&[("NO_COLOR", "1")], &["--color", "always", "audit"], true),
        (
            &[("CLICOLOR_FORCE", "1")],
            &["--color", "never", "audit"],
            false,
        ),
        (&[("CLICOLOR_FORCE", "1")], &["events"], false),
        (
            &[("CLICOLOR_FORCE", "1")],
            &["audit", "--format", "json"],
            false,
        ),
        (&[("NO_COLOR", "1")], &["audit", "--help"], false),
    ] {
        let mut command = forkscope();
        command.envs(variables.iter().copied()).args(arguments);
        if !arguments.contains(&"explain") {
            command.arg(&capture);
        }
        let output = command.output().unwrap();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let coloured = output.stdout.contains(&0x1b);
        assert_eq!(coloured, wanted, "{variables:?} {arguments:?}");
    }
}

#[test]
fn a_slip_of_the_pen_gets_a_suggestion() {
    let folder = TempDir::new().unwrap();
    let capture = empty_capture(&folder);
    for (arguments, near) in [
        (&["adit", &capture][..], "'audit'"),
        (&["audit", "--fail-on", "los", &capture], "'loss'"),
        (&["audit", "--format", "jsn", &capture], "'json'"),
        (&["audit", "--sever", "h", &capture], "'--server'"),
        (&["events", "--time", "epoc", &capture], "'epoch'"),
        (
            &["explain", "sequence-regresion"],
            "did you mean sequence-regression?",
        ),
        (&["completions", "bsh"], "'bash'"),
        (&["man", "exchnges"], "'exchanges'"),
        (
            &["audit", &capture.replace("empty", "emtpy")],
            "empty.pcap?",
        ),
        (
            &["audit", &capture, "--clock-offset", "empty.pcp=2s"],
            "did you mean empty.pcap?",
        ),
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}");
        assert!(
            stderr(&output).contains(near),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
    // Nothing is like it: nothing is suggested.
    let far = folder.path().join("something else").display().to_string();
    assert!(!stderr(&run(&["audit", &far])).contains("did you mean"));
}

#[test]
fn a_folder_that_others_use_keeps_what_is_theirs() {
    let folder = TempDir::new().unwrap();
    let capture = empty_capture(&folder);
    let reports = folder.path().join("reports");
    fs::create_dir(&reports).unwrap();
    fs::create_dir(reports.join("deeper")).unwrap();
    for name in [
        "notes.txt",
        "resumes.csv.bak",
        "deeper/resumes.csv",
        ".forkscope-mine",
    ] {
        fs::write(reports.join(name), name).unwrap();
    }
    // Longer than what takes its place, and a link to what must not be written through.
    fs::write(reports.join("findings.csv"), "x".repeat(100_000)).unwrap();
    let theirs = folder.path().join("theirs");
    fs::write(&theirs, "theirs").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&theirs, reports.join("inputs.csv")).unwrap();
    let output = run(&["audit", "-q", "-o", reports.to_str().unwrap(), &capture]);
    assert_eq!((code(&output), stderr(&output)), (0, ""));
    for name in [
        "notes.txt",
        "resumes.csv.bak",
        "deeper/resumes.csv",
        ".forkscope-mine",
    ] {
        assert_eq!(fs::read_to_string(reports.join(name)).unwrap(), name);
    }
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    let findings = fs::read_to_string(reports.join("findings.csv")).unwrap();
    assert_eq!(findings, format!("{FINDINGS}\n"));
    let inputs = fs::read_to_string(reports.join("inputs.csv")).unwrap();
    assert!(inputs.starts_with(INPUTS));
    let temporary = fs::read_dir(&reports).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_str().unwrap().starts_with(".forkscope-")
    });
    assert_eq!(temporary.count(), 1, "none but theirs");
}

#[test]
fn a_place_that_cannot_be_written_is_told_and_so_is_what_was_found() {
    let folder = TempDir::new().unwrap();
    let capture = empty_capture(&folder);
    let file = folder.path().join("file");
    fs::write(&file, "theirs").unwrap();
    let below = file.join("below").display().to_string();
    let taken = folder.path().join("taken");
    fs::create_dir_all(taken.join("resumes.csv")).unwrap();
    for (out, named) in [
        (file.to_str().unwrap(), file.to_str().unwrap()),
        (&below, &*below),
        (taken.to_str().unwrap(), "resumes.csv: cannot write"),
    ] {
        let output = run(&["audit", "-o", out, &capture]);
        let said = stderr(&output);
        assert_eq!(code(&output), 2, "{out}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.contains(named) && said.contains("cannot write"),
            "{said}"
        );
        assert!(!stdout(&output).is_empty(), "{out}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
}

/// A HAR of one stream so long that its reports take a while to write.
#[cfg(unix)]
fn long_har(folder: &TempDir) -> String {
    use std::fmt::Write;
    let mut body = String::new();
    for number in 1..=60_000 {
        let _ = write!(
            body,
            "id: {number}\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{number}}}\n\n"
        );
    }
    let header = |name: &str, value: &str| serde_json::json!({"name": name, "value": value});
    let session = header("mcp-session-id", "0f1e2d3c4b5a69788796a5b4c3d2e1f0");
    let har = serde_json::json!({"log": {"version": "1.2", "creator": {"name": "a", "version": "1"}, "entries": [{
        "startedDateTime": "2026-01-01T00:00:00.000Z",
        "time": 1000,
        "request": {"method": "GET", "url": "http://mcp.example/mcp", "httpVersion": "HTTP/1.1",
            "headers": [session.clone(), header("accept", "text/event-stream")]},
        "response": {"status": 200, "statusText": "OK", "httpVersion": "HTTP/1.1",
            "headers": [session, header("content-type", "text/event-stream")],
            "content": {"size": body.len(), "mimeType": "text/event-stream", "text": body}},
        "timings": {"send": 0, "wait": 1, "receive": 999},
    }]}});
    let path = folder.path().join("long.har");
    fs::write(&path, har.to_string()).unwrap();
    path.into_os_string().into_string().unwrap()
}

/// Ctrl-C and `kill`, at the worst moment: while a report is being written.
#[cfg(unix)]
#[test]
fn a_signal_leaves_no_half_file() {
    use std::{
        os::unix::process::ExitStatusExt,
        thread::sleep,
        time::{Duration, Instant},
    };
    let folder = TempDir::new().unwrap();
    let capture = long_har(&folder);
    let whole = folder.path().join("whole");
    let audit = |out: &Path| {
        let mut command = forkscope();
        command.args([
            "audit",
            "-q",
            "--events",
            "-o",
            out.to_str().unwrap(),
            &capture,
        ]);
        command
    };
    assert_eq!(code(&audit(&whole).output().unwrap()), 0);
    let files = |folder: &Path| -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read(entry.path()).unwrap_or_default())
            })
            .collect()
    };
    let want = files(&whole);
    for (name, number) in [("-INT", 2), ("-TERM", 15)] {
        // Whether it was in time shows afterwards; half a second of writing is seldom missed.
        let hit = (0..10).any(|attempt| {
            let out = folder.path().join(format!("out{name}{attempt}"));
            let mut child = audit(&out).spawn().unwrap();
            let begun = Instant::now();
            let writing = |file: &fs::DirEntry| {
                let name = file.file_name();
                name.to_string_lossy().starts_with(".forkscope-")
            };
            // The largest is written last.
            while begun.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none() {
                let mut entries = fs::read_dir(&out).into_iter().flatten().flatten();
                if entries
                    .any(|file| writing(&file) && file.metadata().is_ok_and(|m| m.len() > 70_000))
                {
                    break;
                }
                sleep(Duration::from_millis(1));
            }
            // One that was waited for has given its number back.
            if child.try_wait().unwrap().is_none() {
                let id = child.id().to_string();
                let killed = Command::new("kill").args([name, &id]).status().unwrap();
                assert!(killed.success());
            }
            let status = child.wait().unwrap();
            let got = files(&out);
            for (file, bytes) in &got {
                assert!(
                    want.get(file) == Some(bytes),
                    "{name}: {file} is left behind, or half"
                );
            }
            status.signal() == Some(number) && got.len() < want.len()
        });
        assert!(hit, "{name} never came while a file was being written");
    }
}

#[test]
fn explains_every_finding() {
    let list = run(&["explain"]);
    assert_eq!(code(&list), 0);
    for rule in forkscope::finding::ALL {
        assert!(stdout(&list).contains(rule.code), "{}", rule.code);
        let one = run(&["explain", rule.code]);
        assert_eq!(code(&one), 0);
        assert!(stdout(&one).starts_with(rule.code));
    }
    let unknown = run(&["explain", "no-such\u{1b}-finding-at-all"]);
    assert_eq!(code(&unknown), 2);
    assert_eq!(stdout(&unknown), "");
    assert!(stderr(&unknown).starts_with("forkscope: no finding is named no-such\\x1b-finding"));
}

#[test]
fn makes_completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert_eq!(code(&output), 0, "{shell}");
        assert!(stdout(&output).contains("require-sessions"), "{shell}");
        // The values of a flag, and codes.
        let words: &[&str] = match shell {
            "bash" | "zsh" => &[
                "prometheus",
                "loss",
                "ndjson",
                "sequence-regression",
                "--redact",
            ],
            "fish" => &["prometheus", "loss", "ndjson", "-l redact"],
            _ => &["redact"],
        };
        for word in words {
            assert!(stdout(&output).contains(word), "{shell}: {word}");
        }
    }
    // Files where files go, folders where a folder goes.
    let zsh = run(&["completions", "zsh"]);
    assert!(stdout(&zsh).contains("standard input:_files"));
    assert!(stdout(&zsh).contains(":DIR:_files -/"));
    let fish = run(&["completions", "fish"]);
    assert!(stdout(&fish).contains("__fish_complete_directories"));
    let page = run(&["man"]);
    assert_eq!(code(&page), 0);
    assert!(stdout(&page).contains(".TH forkscope 1"));
    let page = run(&["man", "audit"]);
    assert!(stdout(&page).contains("require\\-sessions"));
    // An example has to come out as it can be copied.
    let (_, examples) = stdout(&page).split_once(".SH EXAMPLES\n.nf\n").unwrap();
    assert!(examples.starts_with("\\&forkscope audit capture.pcapng\n"));
}

#[test]
fn an_unreadable_input_is_one_line_and_the_others_are_audited() {
    let folder = TempDir::new().unwrap();
    let capture = empty_capture(&folder);
    let path = |name: &str| {
        folder
            .path()
            .join(name)
            .into_os_string()
            .into_string()
            .unwrap()
    };
    let missing = path("missing.pcap");
    let empty = path("empty");
    fs::write(&empty, b"").unwrap();
    let bare = path("bare");
    fs::create_dir(&bare).unwrap();
    fs::write(Path::new(&bare).join("notes.txt"), "no capture").unwrap();
    for input in [&missing, &empty, &bare] {
        let output = run(&["audit", "--format", "json", input, &capture]);
        assert_eq!(code(&output), 2, "{input}");
        let said = stderr(&output);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with(&format!("forkscope: {input}: ")), "{said}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut inputs = json["inputs"].as_array().unwrap().iter();
        assert!(inputs.any(|row| row["input"] == capture.as_str() && row["format"] == "pcap"));
    }
}

#[test]
fn a_damaged_capture_is_one_line_and_no_failure() {
    let folder = TempDir::new().unwrap();
    let capture = empty_capture(&folder);
    let mut bytes = fs::read(&capture).unwrap();
    bytes.extend([0; 10]); // a packet header cut short
    fs::write(&capture, bytes).unwrap();
    let output = run(&["audit", &capture]);
    assert_eq!(code(&output), 0);
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.starts_with(&format!("forkscope: {capture}: ")),
        "{said}"
    );
    assert!(said.contains("24"), "the offset: {said}");
}

const RESUMES: &str = "session_id,incarnation,incarnation_after,resume,verdict,confidence,reason,\
    findings,last_event_id,first_event_id,id_scheme,events_before,events_after,\
    events_redelivered,ids_skipped,events_dropped_by_dedup,pending_requests,answered_requests,\
    dropped_requests,lost_requests,differing_requests,cancelled_requests,still_pending_requests,\
    progress_tokens_left,client,server,backend_before,backend_after,protocol_version,method,\
    status,response_session_id,last_event_time,disconnect_time,disconnect_cause,resume_time,\
    first_event_time,silence_ms,gap_ms,retry_ms,retry_kept,response_ms,first_event_ms,incident,\
    input,tcp_stream_before,tcp_stream,frame_before,frame";

const FINDINGS: &str = "code,severity,confidence,evidence,session_id,incarnation,resume,time,\
    detail,client,server,input,tcp_stream,frame,wireshark_filter";

const SESSIONS: &str = "session_id,incarnation,service,client,protocol_version,client_name,\
    server_name,first_time,last_time,streams,segments,events,resumes,continued,empty,replayed,\
    lossy,ignored,forked,rejected,failed,indeterminate,id_scheme,end,findings";

const SEGMENTS: &str = "session_id,incarnation,stream,segment,client,server,backend,method,\
    status,last_event_id,open_time,first_event_time,last_event_time,end_time,end_cause,events,\
    first_event_id,last_id,bytes,partial_event_bytes,holes,input,tcp_stream,frame,end_frame";

const INCIDENTS: &str = "incident,server,start_time,end_time,cause,segments_cut,sessions,resumes,\
    continued,empty,replayed,lossy,ignored,forked,rejected,failed,indeterminate,lost_requests";

const TIMERS: &str = "server,kind,side,period_ms,spread_ms,cuts,cuts_share";

const SHARES: &str = "server,by,value,resumes,forked,share,share_low,share_high";

const SERVERS: &str = "server,sessions,resumes,continued,empty,replayed,lossy,ignored,forked,\
    rejected,failed,indeterminate,fork_share,fork_share_low,fork_share_high,threshold_ms,\
    threshold_low_ms,threshold_high_ms,threshold_misfits,gap_loss_correlation";

const INPUTS: &str = "input,format,link_types,packets,bytes,first_time,last_time,\
    tcp_connections,http_exchanges,sse_events,sessions,resumes,sessionless,legacy_sessions,\
    refused_ids,tls_opaque,holes,hole_bytes,truncated_packets,damaged";

const EVENTS: &str = "session_id,incarnation,stream,segment,exchange,client,server,method,\
    request_time,last_event_id,index,time,event_id,effective_id,event_type,retry_ms,data_bytes,\
    data_hash,message,jsonrpc_id,jsonrpc_method,progress_token,input,tcp_stream,frame";

const EXCHANGES: &str = "exchange,session_id,vantage,client,server,http_version,method,target,\
    status,protocol_version,last_event_id,content_type,request_time,response_time,end_time,\
    end_cause,request_bytes,response_bytes,jsonrpc_id,jsonrpc_method,holes,input,tcp_stream,frame";
