//! The reference pages that are made from code, so that they cannot differ from it.

use super::{
    EVENTS, FOLDER,
    escape::escape,
    table::{
        Events, Exchanges, Findings, Incidents, Inputs, Resumes, Segments, Servers, Sessions,
        Shares, Table, Timers,
    },
};
use crate::{anomaly::Kind, model::verdict::Severity};
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

/// The page about the reports: every file, every column.
#[must_use]
pub fn reports() -> String {
    let mut page = String::from(REPORTS_HEAD);
    for report in FOLDER.iter().chain([&EVENTS]) {
        let _ = writeln!(page, "| `{}` | {} |", report.file, report.about);
    }
    page.push_str(REPORTS_RULES);
    table::<Resumes>("resumes.csv", &mut page);
    table::<Findings>("findings.csv", &mut page);
    table::<Sessions>("sessions.csv", &mut page);
    table::<Segments>("segments.csv", &mut page);
    table::<Incidents>("incidents.csv", &mut page);
    table::<Timers>("timers.csv", &mut page);
    table::<Shares>("shares.csv", &mut page);
    table::<Servers>("servers.csv", &mut page);
    table::<Inputs>("inputs.csv", &mut page);
    table::<Events>("events.csv and `forkscope events`", &mut page);
    table::<Exchanges>("`forkscope exchanges`", &mut page);
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

fn table<T: Table>(title: &str, page: &mut String) {
    let _ = write!(
        page,
        "\n## {title}\n\n{}\n\n| column | kind | meaning |\n|---|---|---|\n",
        T::ABOUT
    );
    for column in T::COLUMNS {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} |",
            column.name,
            column.kind.name(),
            cell(column.about)
        );
    }
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
known, or not there. Kinds of columns:

| kind | how it is written |
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
";

const REPORTS_JSON: &str = "
## report.json

One object. Its keys:

| key | what it holds |
|---|---|
| `schema_version` | `\"1\"`; another one when a key changes its meaning or goes |
| `forkscope_version` | the version that wrote it |
| `inputs` | an array of objects with the columns of inputs.csv, and `har`: for a HAR what it can tell (who wrote it; how many `responses` that are JSON or event streams there are and how many `bodies` of them; how many `event_streams` and how many with times of their own; ids that were redacted; who closed it never tells); `copy_of`: the input that has the same bytes, which counts alone; `clock_offset_ms` and `clock_offset_from`: what was added to its times, `given` or learnt from the `exchanges` that another input shows too (`clock_ahead_of`) |
| `totals` | counts over the run, with a count a verdict |
| `sessions` | an array of objects with the columns of sessions.csv, but `segments`, `resumes` and `findings` are arrays of objects with the columns of those tables |
| `outside_sessions` | `segments`, `resumes` and `findings` that belong to no session under judgement |
| `incidents`, `timers`, `shares`, `servers` | arrays of objects with the columns of those tables |
| `opaque` | what was on the wire and could not be read: objects with `protocol` (`tls`, `http2`, `quic`), `server` (the name that the client asked for, else the address; `null` for those beyond the limit) and `count` (connections; packets of QUIC) |
| `anomalies` | what is odd in the captures, by input and kind (see below), with a count and a few examples |

`forkscope audit --format ndjson` writes an object a resume on a line each, `forkscope events` and
`forkscope exchanges` with `--format ndjson` one a row; the keys are the columns, `null` is not known.
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
        let page = reports();
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
