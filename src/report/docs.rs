//! The reference pages that are made from code, so that they cannot differ from it.

use super::{
    EVENTS, FOLDER, Style,
    escape::escape,
    table::{
        Events, Evidence, Exchanges, Findings, Incidents, Inputs, Resumes, Segments, Servers,
        Sessions, Shares, Table, Timers,
    },
};
use crate::{
    anomaly::Kind,
    model::{analysis::Analysis, prose::Secret, verdict::Severity},
};
use std::fmt::Write;

/// A finding, as the catalogue shows it.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its code.
    pub code: &'a str,
    /// The severity it has at its worst.
    pub severity: Severity,
    /// The clause it holds against, or why there is none.
    pub clause: &'a str,
    /// The protocol revisions it holds for.
    pub revisions: &'a str,
    /// Markdown with headings of the second level.
    pub doc: &'a str,
}

/// The page about the reports: every file, every column, each with an example from the first of `shown` that has one.
#[must_use]
pub fn reports(shown: &[Analysis]) -> String {
    let mut page = String::from(REPORTS_HEAD);
    for report in FOLDER.iter().chain([&EVENTS]) {
        let _ = writeln!(page, "| `{}` | {} |", report.file, report.about);
    }
    page.push_str(REPORTS_RULES);
    table::<Resumes>("resumes.csv", shown, &mut page);
    table::<Findings>("findings.csv", shown, &mut page);
    table::<Sessions>("sessions.csv", shown, &mut page);
    table::<Segments>("segments.csv", shown, &mut page);
    table::<Incidents>("incidents.csv", shown, &mut page);
    table::<Timers>("timers.csv", shown, &mut page);
    table::<Shares>("shares.csv", shown, &mut page);
    table::<Servers>("servers.csv", shown, &mut page);
    table::<Inputs>("inputs.csv", shown, &mut page);
    table::<Events>("events.csv and `forkscope events`", shown, &mut page);
    table::<Exchanges>("`forkscope exchanges`", shown, &mut page);
    page.push_str(REPORTS_EVIDENCE);
    table::<Evidence>("index.csv of `--evidence`", shown, &mut page);
    page.push_str(REPORTS_JSON);
    page.push_str(ANOMALIES_HEAD);
    for kind in Kind::ALL {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} |",
            kind.name(),
            cell(&capital(kind.about())),
            cell(kind.effect())
        );
    }
    page
}

/// The catalogue of findings: a table, then the documentation of each.
#[must_use]
pub fn findings(entries: &[Entry<'_>]) -> String {
    let mut page = String::from(FINDINGS_HEAD);
    page.push_str("| finding | at worst | what it reports |\n|---|---|---|\n");
    for entry in entries {
        let _ = writeln!(
            page,
            "| [{code}](#{code}) | {} | {} |",
            entry.severity.name(),
            cell(&summary(entry.doc)),
            code = entry.code,
        );
    }
    for entry in entries {
        let _ = write!(
            page,
            "\n## {}\n\n{}, at worst. Clause: {}. Revisions: {}.\n",
            entry.code,
            capital(entry.severity.name()),
            entry.clause.trim_end_matches('.'),
            entry.revisions.trim_end_matches('.'),
        );
        let mut code = false;
        page.push('\n');
        for line in entry.doc.trim().lines() {
            // A doc comment keeps the space after its slashes.
            let line = line.strip_prefix(' ').unwrap_or(line);
            code ^= line.trim_start().starts_with("```");
            // Below the heading of the finding.
            if !code && line.starts_with('#') {
                page.push('#');
            }
            page.push_str(line);
            page.push('\n');
        }
    }
    page
}

/// The first paragraph under "What it reports", in one line.
#[must_use]
pub fn summary(doc: &str) -> String {
    let text = doc
        .split_once("## What it reports")
        .map_or(doc, |(_, text)| text)
        .trim();
    let paragraph = text.split("\n\n").next().unwrap_or(text);
    let words: Vec<_> = paragraph.split_whitespace().collect();
    words.join(" ")
}

fn table<T: Table>(title: &str, shown: &[Analysis], page: &mut String) {
    let _ = write!(
        page,
        "\n## {title}\n\n{}\n\n| column | type | unit | meaning | example | OpenTelemetry | redacted |\n\
         |---|---|---|---|---|---|---|\n",
        T::ABOUT
    );
    let examples: Vec<_> = shown.iter().map(examples::<T>).collect();
    for (index, column) in T::COLUMNS.iter().enumerate() {
        let mut known = examples.iter().filter_map(|examples| examples.get(index));
        let example = known.find(|example| !example.is_empty());
        let example = example.map_or("", String::as_str);
        let otel: Vec<_> = column.otel.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(
            page,
            "| `{}` | {}{} | {} | {} | {example} | {} | {} |",
            column.name,
            column.kind.name(),
            if column.always { "" } else { ", or empty" },
            column.unit(),
            cell(column.about),
            otel.join(", "),
            column.hides.map_or("", Secret::remains),
        );
    }
}

/// An example for each column: from the row that tells the most where it tells it, else from the
/// first row that does.
fn examples<T: Table>(shown: &Analysis) -> Vec<String> {
    let tells = |text: &str| !matches!(text, "" | "0" | "0.0000" | "none" | "unknown");
    let mut best = (0, Vec::new());
    let mut first = vec![String::new(); T::COLUMNS.len()];
    for row in T::rows(shown) {
        let cells = cells_of::<T>(shown, row);
        for (known, cell) in first.iter_mut().zip(&cells) {
            if known.is_empty() || (!tells(known) && tells(cell)) {
                known.clone_from(cell);
            }
        }
        let told = cells.iter().filter(|cell| tells(cell)).count();
        if told > best.0 {
            best = (told, cells);
        }
    }
    let (_, best) = best;
    let chosen = first.into_iter().enumerate().map(|(index, first)| {
        let best = best.get(index).filter(|cell| tells(cell));
        example(best.unwrap_or(&first))
    });
    chosen.collect()
}

fn cells_of<'a, T: Table>(shown: &'a Analysis, row: T::Row<'a>) -> Vec<String> {
    let style = Style::default();
    let mut scratch = String::new();
    let cells = T::COLUMNS.iter().map(|column| {
        let mut cell = String::new();
        (column.value)(shown, row).write_cell(&style, &mut scratch, &mut cell);
        cell
    });
    cells.collect()
}

/// `text` as code in a cell of Markdown, cut where it is long.
fn example(text: &str) -> String {
    const LONGEST: usize = 48;
    if text.is_empty() {
        return String::new();
    }
    let mut shown: String = text.chars().take(LONGEST).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("`{}`", shown.replace('`', "'").replace('|', "\\|"))
}

fn cell(text: &str) -> String {
    escape(text).replace('|', "\\|")
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

const REPORTS_HEAD: &str = "\
# Reports

<!-- Made from src/report; tests/suite/docs.rs compares, and rewrites with BLESS=1. -->

`forkscope audit -o DIR` writes these files, each whole or not at all:

| file | what it holds |
|---|---|
";

const REPORTS_RULES: &str = r"
`events.csv` is written with `--events` only.

CSV is RFC 4180 in UTF-8 with a header row and `\n` at the end of lines. An empty cell means not
known, or not there; a column whose type does not say so is always known, though a text or a list may have nothing
in it. Types of columns:

| type | how it is written |
|---|---|
| time | RFC 3339 in UTC with six decimals, nine when there is something below a microsecond; with `--time epoch` seconds since the Unix epoch |
| milliseconds | a number with three decimals |
| decimal | a number with four decimals |
| host:port | an address, IPv6 in brackets |
| list | joined by `;`; an array in JSON |
| text | holds something from the wire, see below |

Control characters and characters that hide or reorder text are escaped in text: `\n`, `\r`, `\t`,
`\x1b`, `\u{202e}`; a backslash is `\\` (but not in names of files). Text that a spreadsheet would
run as a formula (it begins with `=`, `+`, `-`, `@` or a tab, and is no number) gets a `'` in
front. JSON has the text as it was, with JSON's own escapes.

`frame` and `tcp_stream` are Wireshark's own numbers for that file: `frame.number == N` and
`tcp.stream eq N` find the evidence.

The unit of a number says what it counts or measures; `1` is a share or a coefficient, and a number
without unit is a name (a frame, a status). Under OpenTelemetry stand the attributes of its semantic
conventions that hold the same: those of [MCP](https://github.com/open-telemetry/semantic-conventions-genai)
(0.1.0, in development) and the [general ones](https://github.com/open-telemetry/semantic-conventions)
(1.44.0); `HOST:PORT` is one column here and two attributes there. The examples are from a run over
captures in `fixtures/real`, those of thresholds from a talk. [recipes.md](recipes.md) has queries over these files that run as they stand.

## Redacted reports

With `--redact` every report can be given away: names are hashes there, in every format, in the files of `-o`, on
standard output and on standard error. The column *redacted* of the tables below says what is left of each column;
where it says nothing, the column has forkscope's own words and numbers, and is as it was. Verdicts, counts and order
are those of the real names. There is no payload in any report, redacted or not.

A hash is `~` and 16 hexadecimal digits: the first 64 bits of HMAC-SHA-256. Equal names have equal hashes in all columns
and texts (a session id that is a part of a URL has its own hash there), and in every run with the same key; two
different ones of a million names share a hash with a chance of 1 in 37 million. With `--redact=KEYFILE` the key is made of the bytes
of that file, 16 or more (`head -c 32 /dev/urandom > team.key`; a newline at its end is one of them); with `--redact` alone
it is new each time, and no two reports can be compared. Who has the key can try whether a name that they guess is in a
report: it stays with those who hold the captures.

| what | what is left |
|---|---|
| session ids, names of backends, clients and servers, user agents, texts of unknown kind | the hash |
| hosts and addresses | the hash, and the port |
| event ids | the number, as the order of ids is learnt, and the delimiters around it; whatever else is between them is one hash. Of a ULID or a UUID of version 1, 6 or 7 the time. An id that is the session's, and one of which no part is known to be a number, is a hash |
| targets and services | a hash for each part of path and query; the scheme, the port and parts such as `mcp`, `sse`, `messages` and `sessionId` |
| JSON-RPC ids, progress tokens | whole numbers of up to nine digits, else the hash as a string |
| methods, media types, types of events, revisions | those of HTTP and MCP, and dates, else the hash |
| sentences (`detail`, `reason`, the course of a resume, examples of anomalies) | the words, with hashes for the names in them |
| inputs | `input-1`, `input-2`, in the order of `inputs.csv`; names of files often hold those of hosts and people |
| `data_hash` | another hash, equal for equal payloads: nobody can compare it with that of a guess |
| packets of `--evidence` | IP and TCP headers of their own, without options and payload: times, ports, sequence numbers, flags, windows and lengths are those captured; an address is one of a private network, `10.a.b.c` or `fd…`, whose bytes are the first of its host's hash |
| HAR entries of `--evidence` | times, method and status |

Times, lengths, ports and numbers of frames and streams stay, as they are what a report is about.

## Other formats

Formats of `forkscope audit --format` beside these:

| format | what it is for |
|---|---|
| `prometheus` | gauges for node_exporter's textfile collector: resumes by server and verdict, and by cause; findings, lost requests, shares of forks, inputs read and damaged. At most twenty servers have series of their own, the others are `other` |
| `junit` | a test case a resume, one a finding that is on no resume, one an input (Jenkins' JUnit schema). A case fails by `--fail-on`, so the build is red when the exit code is 1; what the capture does not show is skipped, an input that cannot be read is an error |
| `sarif` | SARIF 2.1.0, a result a finding. Forks and losses are errors, warnings warnings, the rest notes; the location is the capture (`startLine` is always 1: packets have no lines), frame and filter are in the message, in `logicalLocations` and in `properties`; fingerprints do not depend on names of files and numbers of frames |
";

const REPORTS_EVIDENCE: &str = "
## Evidence

`forkscope audit --evidence DIR` writes a small capture for each finding, the worst first:
`001-sequence-regression-0f3a2c5e-8b1d-4c-resume-2.pcapng` is the number, the code, letters of the session id and the
resume. What a HAR shows is written as a HAR, with the entries as they stand there; a finding that packets and HARs
prove, or several HARs, has a file of each.

In a file are the connections of the session, on all sides of proxies and from every input that showed something of them,
whole where they fit, and those of other sessions that the finding rests on (another session that the same event or call
was in, or that answered). The time of the capture's last packet is in it too, without its bytes: that nothing came until
then is evidence as well (a HAR has nothing of the kind).
Packets are as captured, with their times (as the reports have them: what was added to the clock of an input is said at its
interface, and in nanoseconds where its own ticks are too coarse for that), original lengths and interfaces; options of
the packets themselves, such as comments, are not copied. Comments stand at the packets that decide
(`frame.comment` in Wireshark; `_forkscope` in an entry of a HAR) and on the whole file (its properties in Wireshark;
`log.comment`), which says what is in it and what was left out. A file holds 4 MiB of packets: of more, the beginnings
of the connections, what is around the marked packets, the exchanges that decide and what is nearest in time. A
hundred findings get a file; the rest are in the index without one.

An audit of a file gives its resumes the same verdicts and finds the same again, unless it takes more than the session to
see that: ids whose order only other streams of the service teach, timers, thresholds and incidents, what became of other
sessions of the server (`session-lost` or `lost-on-disconnect`, `misleading-status`), when the server started
(`session-adopted`), in a HAR how long nothing came any more (`result-lost`), a connection that is not in the file whole. And
it is a smaller capture: a hole elsewhere on the server, which made a verdict less sure, is not in it.

Each file is written whole or not at all, and none takes its place before all are written, index.csv last. They replace
files of the same name; other files in DIR stay, and those that look like evidence of an earlier run are named. DIR must not hold inputs of the
run. The inputs are read twice more, so standard input and pipes are refused.
";

const REPORTS_JSON: &str = "
## report.json

One object. Its keys:

| key | what it holds |
|---|---|
| `schema_version` | `\"1\"`. Within one version keys, columns and words are only added: none goes, none changes its type or its meaning |
| `forkscope_version` | the version that wrote it |
| `inputs` | an array of objects with the columns of inputs.csv, and `har`: for a HAR what it can tell (who wrote it; how many `responses` that are JSON or event streams there are and how many `bodies` of them; how many `event_streams` and how many with times of their own; ids that were redacted; who closed it never tells); `tls`: how many `secrets` are in it, how many `connections` of TLS, how many of those were `read`, and in `unread` the others by `tcp_stream` and first `frame` (up to 1000, the counts have all), each with `why`: there are `no-keys` for it, `wrong-keys`, `handshake-keys` alone, those of `one-side` (which was read), there is `no-handshake` in the capture, or it is `unsupported` (version or cipher suite); `copy_of`: the input that has the same bytes, which counts alone; `clock_offset_ms` and `clock_offset_from`: what was added to its times, `given` or learnt from the `exchanges` that another input shows too; `clock_ahead_ms` and `clock_ahead_of`: how far its clock was ahead of which other input's, without an offset when that is left as it is |
| `totals` | counts over the run, with a count a verdict |
| `sessions` | an array of objects with the columns of sessions.csv, but `segments`, `resumes` and `findings` are arrays of objects with the columns of those tables |
| `outside_sessions` | `segments`, `resumes` and `findings` that belong to no session under judgement |
| `incidents`, `timers`, `shares`, `servers` | arrays of objects with the columns of those tables |
| `opaque` | what was on the wire and could not be read: objects with `protocol` (`tls`, `http2`, `quic`), `server` (the name that the client asked for, else the address; `null` for those beyond the limit) and `count` (connections; packets of QUIC) |
| `key_logs` | the files of `--keylog`: objects with `name`, the `secrets` that were taken of it, `bad_lines` that are none of a key log with the number of the first (`first_bad_line`) and what is wrong with it (`first_bad_why`), and secrets `beyond_limit` |
| `anomalies` | what is odd in the captures, by input and kind (see below), with a count and a few examples |

`forkscope audit --format ndjson` writes an object a resume on a line each, `forkscope events` and
`forkscope exchanges` with `--format ndjson` one a row; the keys are the columns, `null` is not known.

JSON Schemas (2020-12) of what this version writes are made from the same definitions:
[report.json](schema/report.schema.json) and lines of [resumes](schema/resumes.schema.json),
[events](schema/events.schema.json) and [exchanges](schema/exchanges.schema.json). They allow keys that
they do not name, as later versions may have more.
";

const ANOMALIES_HEAD: &str = "
## Anomalies

What is odd in the captures or on the wire: counted by input and kind in `report.json` and in the summary
with `-v`, with examples. An anomaly is no finding: it changes no exit code, and weakens verdicts at most.

| kind | what it is | effect on verdicts |
|---|---|---|
";

const FINDINGS_HEAD: &str = "\
# Findings

<!-- Made from src/finding; tests/suite/docs.rs compares, and rewrites with BLESS=1. -->

Severities, worst first: *fork* (the client was attached to another log), *loss* (something was
lost), *warning* (something is wrong, nothing is known to be lost), *info*. `forkscope explain CODE`
prints what stands here. The examples are [talks](../fixtures/talks/README.md): `a` and `b` are
connections, `>` is a request, `<` an answer or an event (`ev ID`), `x` a close, `..` time that
passes; `open` is an initialize, `ask` a request that is answered at once; `sid` is the session id,
`lei` the `Last-Event-ID`. The tests run them.

";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_every_column_of_every_table() {
        let page = reports(&[Analysis::default(), crate::report::sample::rich()]);
        for name in [
            "last_event_id",
            "wireshark_filter",
            "effective_id",
            "vantage",
        ] {
            assert!(page.contains(&format!("\n| `{name}` | ")), "{name}");
        }
        for kind in Kind::ALL {
            assert!(page.contains(&format!("\n| `{}` | ", kind.name())));
        }
    }

    #[test]
    fn shows_an_example_of_every_column() {
        let page = reports(&[Analysis::default(), crate::report::sample::rich()]);
        let gap = "| `gap_ms` | milliseconds, or empty | ms | ";
        let line = page.lines().find(|line| line.starts_with(gap)).unwrap();
        assert!(line.ends_with(" | `-12.000` |  |  |"), "{line}");
        let id = "| `last_event_id` | text |  | The cursor: ";
        let line = page.lines().find(|line| line.starts_with(id)).unwrap();
        assert!(
            line.ends_with(
                " | `42` | `http.request.header.last-event-id` | hash; the number stays |"
            ),
            "{line}"
        );
        assert_eq!(example("a|b`c"), "`a\\|b'c`");
        assert_eq!(example(&"x".repeat(49)), format!("`{}…`", "x".repeat(48)));
    }

    #[test]
    fn puts_headings_of_a_finding_below_it() {
        let entry = Entry {
            code: "some-code",
            severity: Severity::Loss,
            clause: "none.",
            revisions: "all",
            doc: " ## What it reports\n\n That a|b\n is so. More.\n\n ## Not this\n\n ```\n ## no heading\n  in\n ```\n",
        };
        let page = findings(&[entry]);
        assert!(page.contains("| [some-code](#some-code) | loss | That a\\|b is so. More. |\n"));
        assert!(page.contains(
            "\n## some-code\n\nLoss, at worst. Clause: none. Revisions: all.\n\n### What"
        ));
        assert!(page.contains("\nThat a|b\nis so. More.\n\n### Not this\n"));
        assert!(page.contains("\n## no heading\n in\n"));
    }
}
