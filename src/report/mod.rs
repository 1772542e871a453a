//! Results to bytes: a file a format, one definition of every column for all of them.
//!
//! A table ([`table`]) names its columns once, with their meaning and where the value comes from;
//! CSV, JSON and the documentation are made from that. Nothing here judges or counts anew.

// Tests may index what they have just made.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::cast_possible_truncation
    )
)]

mod arrow;
mod csv;
pub mod docs;
pub mod escape;
pub mod evidence;
mod har;
mod html;
mod json;
mod junit;
mod overview;
mod prometheus;
#[cfg(test)]
mod sample;
mod sarif;
pub mod schema;
pub mod style;
pub mod table;
pub mod terminal;
mod text;
mod value;

pub use csv::unguarded;
pub use style::{Style, TimeFormat};
pub use value::{Kind, Member, Value};

use crate::model::analysis::Analysis;
use std::io::{self, Write};
use table::{
    Events, Evidence, Exchanges, Findings, Incidents, Inputs, Resumes, Segments, Servers, Sessions,
    Shares, Table, Timers,
};

/// A report: bytes made from an analysis.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// A word for it.
    pub name: &'static str,
    /// Its file in the folder of reports; empty when it has none.
    pub file: &'static str,
    /// What it holds, in a sentence or two.
    pub about: &'static str,
    /// Writes it; errors are those of the writer.
    pub write: Writer,
}

/// Writes a report about an analysis.
pub type Writer = fn(&Analysis, &Style, &mut dyn Write) -> io::Result<()>;

/// The reports of a folder, in the order of the documentation.
pub static FOLDER: &[Report] = &[
    table_report::<Resumes>("resumes.csv"),
    table_report::<Findings>("findings.csv"),
    table_report::<Sessions>("sessions.csv"),
    table_report::<Segments>("segments.csv"),
    table_report::<Incidents>("incidents.csv"),
    table_report::<Timers>("timers.csv"),
    table_report::<Shares>("shares.csv"),
    table_report::<Servers>("servers.csv"),
    table_report::<Inputs>("inputs.csv"),
    JSON,
    HTML,
];

/// Every event, a row each: for a folder of reports only when asked for.
pub static EVENTS: Report = table_report::<Events>("events.csv");

/// Where the packets that findings rest on are in the files of evidence.
pub static EVIDENCE: Report = table_report::<Evidence>("index.csv");

/// Every event, a line of JSON each.
pub static EVENTS_NDJSON: Report = lines_report::<Events>();

/// Every exchange, a row each.
pub static EXCHANGES: Report = table_report::<Exchanges>("");

/// Every exchange, a line of JSON each.
pub static EXCHANGES_NDJSON: Report = lines_report::<Exchanges>();

/// Every resume, a row each.
pub static RESUMES: Report = table_report::<Resumes>("resumes.csv");

/// Every resume, a line of JSON each.
pub static RESUMES_NDJSON: Report = lines_report::<Resumes>();

/// The whole of it, nested.
pub static WHOLE: Report = JSON;

/// Gauges of a run.
pub static PROMETHEUS: Report = Report {
    name: "prometheus",
    file: "",
    about: "Counts by server, verdict and cause as gauges, for Prometheus' textfile collector.",
    write: prometheus::write,
};

/// Test cases of a run.
pub static JUNIT: Report = Report {
    name: "junit",
    file: "",
    about: "A test case a resume, for build servers.",
    write: junit::write,
};

/// Findings as a static analyser's.
pub static SARIF: Report = Report {
    name: "sarif",
    file: "",
    about: "Findings as SARIF 2.1.0, for code scanning.",
    write: sarif::write,
};

/// Rows of several tables for engines.
pub static ARROW: Report = Report {
    name: "arrow",
    file: "",
    about: "Resumes, findings, incidents, timers, shares, servers and sessions as an Arrow IPC stream, for engines.",
    write: arrow::write,
};

/// What a person reads first.
pub static SUMMARY: Report = Report {
    name: "summary",
    file: "",
    about: "What was read, what could not be, and what is wrong, for a terminal.",
    write: text::write,
};

const JSON: Report = Report {
    name: "report",
    file: "report.json",
    about: "Everything but events and exchanges, nested: inputs, totals, every session with its \
            segments, resumes and findings, incidents, timers, shares and servers, and the oddities \
            of the capture.",
    write: json::write,
};

const HTML: Report = Report {
    name: "page",
    file: "report.html",
    about: "The one to look at: what forked, when, why, what it cost and where the proof is. One file that needs \
            no network: totals, what the capture could not show, a timeline of the sessions, plots, and the \
            tables to sort and filter.",
    write: html::write,
};

const fn table_report<T: Table>(file: &'static str) -> Report {
    Report {
        name: T::NAME,
        file,
        about: T::ABOUT,
        write: csv::write::<T>,
    }
}

const fn lines_report<T: Table>() -> Report {
    Report {
        name: T::NAME,
        file: "",
        about: T::ABOUT,
        write: json::write_lines::<T>,
    }
}
