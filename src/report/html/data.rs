//! The rows as columns of compact JSON: numbers, and every text once.
//!
//! One object: `time` (`utc` or `epoch`) and `base` (nanoseconds since the epoch; all times are microseconds
//! after it), `tables` (by name: `about`, `rows`, `of` and `columns`), `homes` (the row of `sessions` that a
//! row of `segments`, `resumes` or `findings` belongs to), `opened` (the row of `segments` that a resume
//! opened), `stories` (what was seen around a resume, by its row) and `strings` (what all texts and words
//! are numbers of). A column has `name`, `kind`, `about`, and `d`, the values, or `all`, the one value of
//! every row.

use super::{
    super::{
        Style, TimeFormat,
        escape::escape,
        json::Homes,
        style::write_millis,
        table::{
            Column, Findings, Incidents, Inputs, Resumes, Segments, Servers, Sessions, Shares,
            Table, Timers,
        },
        text::{Summary, grouped},
        value::Value,
    },
    quote::json_to,
};
use crate::model::{
    analysis::Analysis,
    exchange::EndCause,
    time::Timestamp,
    verdict::{Severity, Verdict},
};
use std::{
    collections::HashMap,
    fmt::Write as _,
    io::{self, Write},
    rc::Rc,
};

/// What the script gets: which rows, and to which session they belong.
pub(super) struct Data<'a> {
    analysis: &'a Analysis,
    style: Style,
    sessions: Kept,
    segments: Kept,
    resumes: Kept,
    findings: Kept,
    /// The session of each segment, resume and finding, by the analysis's numbers.
    homes: [Vec<Option<usize>>; 3],
    /// Whether something is wrong with a resume.
    bad: Vec<bool>,
}

/// The rows of a table that are in the file, in order.
struct Kept {
    rows: Vec<usize>,
    of: usize,
}

impl Kept {
    /// At most `most` of `of` rows, those of the greatest weight.
    fn new(of: usize, most: usize, weight: impl Fn(usize) -> u8) -> Self {
        let mut rows: Vec<usize> = (0..of).collect();
        if of > most {
            rows.sort_by_key(|&row| std::cmp::Reverse(weight(row)));
            rows.truncate(most);
            rows.sort_unstable();
        }
        Self { rows, of }
    }

    fn all(of: usize) -> Self {
        Self::new(of, MOST, |_| 0)
    }

    /// The place of row `row` among those kept.
    fn place(&self, row: usize) -> Option<usize> {
        if self.rows.len() == self.of {
            return (row < self.of).then_some(row);
        }
        self.rows.binary_search(&row).ok()
    }
}

impl<'a> Data<'a> {
    pub(super) fn new(analysis: &'a Analysis, style: Style) -> Self {
        let summary = Summary::new(analysis, &style);
        let homes = Homes::new(analysis);
        let bad: Vec<bool> = analysis
            .resumes
            .iter()
            .map(|resume| summary.severity(resume) >= Severity::Warning)
            .collect();
        let homes = [
            Segments::rows(analysis)
                .map(|r| homes.of_exchange(r.row.exchange, &r.row.session_id, r.row.incarnation))
                .collect::<Vec<_>>(),
            analysis
                .resumes
                .iter()
                .map(|r| homes.of_exchange(r.exchange, &r.session_id, r.incarnation))
                .collect(),
            analysis
                .findings
                .iter()
                .map(|finding| homes.of_finding(finding))
                .collect(),
        ];
        let judged = |session: usize| {
            let session = analysis.sessions.get(session);
            session.is_some_and(|session| !session.findings.is_empty())
        };
        let segment = |row: usize| {
            let of_bad = homes
                .first()
                .and_then(|homes| homes.get(row).copied().flatten())
                .is_some_and(judged);
            let told = analysis.segments.get(row).is_some_and(|segment| {
                segment.last_event_id.is_some() || segment.end_cause != EndCause::StreamEnd
            });
            u8::from(told) * 2 + u8::from(of_bad)
        };
        Self {
            analysis,
            style,
            sessions: Kept::new(analysis.sessions.len(), SESSIONS, |row| {
                u8::from(judged(row))
            }),
            segments: Kept::new(homes.first().map_or(0, Vec::len), SEGMENTS, segment),
            resumes: Kept::new(analysis.resumes.len(), RESUMES, |row| {
                u8::from(bad.get(row).copied().unwrap_or_default())
            }),
            findings: Kept::new(analysis.findings.len(), FINDINGS, |row| {
                let finding = analysis.findings.get(row);
                finding.map_or(0, |finding| finding.severity as u8)
            }),
            homes,
            bad,
        }
    }

    /// The row that a resume has in the file.
    pub(super) fn row_of_resume(&self, resume: usize) -> Option<usize> {
        self.resumes.place(resume)
    }

    /// What is not in the file, in words.
    pub(super) fn left_out(&self) -> Vec<String> {
        [
            (&self.sessions, "sessions"),
            (&self.segments, "segments"),
            (&self.resumes, "resumes"),
            (&self.findings, "findings"),
        ]
        .into_iter()
        .filter(|(kept, _)| kept.rows.len() < kept.of)
        .map(|(kept, name)| {
            let here = grouped(kept.rows.len() as u64);
            format!("{here} of {} {name}", grouped(kept.of as u64))
        })
        .collect()
    }

    /// Writes the object.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let base = self.base();
        let time = match self.style.time {
            TimeFormat::Utc => "utc",
            TimeFormat::Epoch => "epoch",
        };
        write!(
            out,
            "{{\"time\":\"{time}\",\"base\":\"{}\",\"verdicts\":{{",
            base.nanos()
        )?;
        for (index, verdict) in Verdict::ALL.into_iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let mut meaning = String::new();
            json_to(super::super::text::meaning(verdict), &mut meaning);
            write!(out, "{comma}\"{verdict}\":{meaning}")?;
        }
        out.write_all(b"},\"tables\":{")?;
        let mut tables = Tables {
            analysis: self.analysis,
            style: self.style,
            base,
            strings: Strings::default(),
            line: String::new(),
            out,
        };
        tables.table::<Resumes>(&self.resumes, |_| true)?;
        tables.out.write_all(b",")?;
        tables.table::<Findings>(&self.findings, |_| true)?;
        tables.out.write_all(b",")?;
        tables.table::<Sessions>(&self.sessions, |_| true)?;
        tables.out.write_all(b",")?;
        tables.table::<Incidents>(&Kept::all(self.analysis.incidents.len()), |_| true)?;
        tables.out.write_all(b",")?;
        tables.table::<Timers>(&Kept::all(self.analysis.timers.len()), |_| true)?;
        tables.out.write_all(b",")?;
        tables.table::<Shares>(&Kept::all(self.analysis.shares.len()), |_| true)?;
        tables.out.write_all(b",")?;
        tables.table::<Servers>(&Kept::all(self.analysis.servers.len()), |_| true)?;
        tables.out.write_all(b",")?;
        tables.table::<Inputs>(&Kept::all(self.analysis.inputs.len()), |_| true)?;
        tables.out.write_all(b",")?;
        // What the session and the resume tell is not said again.
        tables.table::<Segments>(&self.segments, |column| !OF_SESSION.contains(&column.name))?;
        tables.out.write_all(b"},\"homes\":{")?;
        let kept = [
            ("segments", &self.segments),
            ("resumes", &self.resumes),
            ("findings", &self.findings),
        ];
        for ((name, kept), homes) in kept.into_iter().zip(&self.homes) {
            let comma = if name == "segments" { "" } else { "," };
            write!(tables.out, "{comma}\"{name}\":")?;
            tables.places(kept.rows.iter().map(|&row| {
                let home = homes.get(row).copied().flatten()?;
                self.sessions.place(home)
            }))?;
        }
        tables.out.write_all(b"},\"opened\":")?;
        // A segment whose exchange is missing has no row: as good as never.
        tables.places(self.resumes.rows.iter().map(|&row| {
            let resume = self.analysis.resumes.get(row)?;
            let place = self.analysis.session_of.get(resume.exchange as usize)?;
            self.segments.place(place.as_ref()?.segment? as usize)
        }))?;
        self.write_stories(&mut tables)?;
        let Tables { strings, out, .. } = tables;
        strings.write(out)?;
        out.write_all(b"}")
    }

    /// What was seen around the resumes that something is wrong with.
    fn write_stories(&self, tables: &mut Tables<'_, '_>) -> io::Result<()> {
        tables.out.write_all(b",\"stories\":{")?;
        let bad = self
            .resumes
            .rows
            .iter()
            .enumerate()
            .filter(|&(_, &row)| self.bad.get(row).copied().unwrap_or_default());
        for (index, (place, &row)) in bad.take(STORIES).enumerate() {
            let story = self.analysis.resumes.get(row).map(|resume| &resume.story);
            let comma = if index == 0 { "" } else { "," };
            write!(tables.out, "{comma}\"{place}\":[")?;
            for (index, line) in story.into_iter().flatten().enumerate() {
                let number = tables.strings.number(&escape(line));
                let comma = if index == 0 { "" } else { "," };
                write!(tables.out, "{comma}{number}")?;
            }
            tables.out.write_all(b"]")?;
        }
        tables.out.write_all(b"},")
    }

    /// The first time of all: the others are told as after it.
    fn base(&self) -> Timestamp {
        let inputs = self.analysis.inputs.iter();
        let first = inputs.filter_map(|input| input.first_time).min();
        let exchange = self.analysis.exchanges.first();
        first
            .or_else(|| exchange.map(crate::model::exchange::Exchange::time))
            .unwrap_or_default()
    }
}

/// Writes tables, and gathers their texts.
struct Tables<'a, 'w> {
    analysis: &'a Analysis,
    style: Style,
    base: Timestamp,
    strings: Strings,
    line: String,
    out: &'w mut dyn Write,
}

impl<'a> Tables<'a, '_> {
    fn table<T: Table>(
        &mut self,
        kept: &Kept,
        wanted: impl Fn(&Column<T>) -> bool,
    ) -> io::Result<()> {
        self.line.clear();
        json_to(T::ABOUT, &mut self.line);
        write!(
            self.out,
            "\"{}\":{{\"about\":{},\"rows\":{},\"of\":{},\"columns\":[",
            T::NAME,
            self.line,
            kept.rows.len(),
            kept.of
        )?;
        let rows: Vec<T::Row<'a>> = T::rows(self.analysis).collect();
        let mut cells = Vec::with_capacity(kept.rows.len());
        let columns = T::COLUMNS.iter().filter(|column| wanted(column));
        for (index, column) in columns.enumerate() {
            cells.clear();
            for row in kept.rows.iter().filter_map(|&row| rows.get(row)) {
                let value = (column.value)(self.analysis, *row);
                cells.push(self.cell(value));
            }
            self.line.clear();
            if index > 0 {
                self.line.push(',');
            }
            // Writing to a string cannot fail.
            let _ = write!(
                self.line,
                "{{\"name\":\"{}\",\"kind\":\"{:?}\",\"about\":",
                column.name, column.kind
            );
            json_to(column.about, &mut self.line);
            match cells.split_first() {
                Some((first, rest)) if rest.iter().all(|cell| cell == first) => {
                    self.line.push_str(",\"all\":");
                    first.write(&mut self.line);
                }
                _ => {
                    self.line.push_str(",\"d\":[");
                    for (index, cell) in cells.iter().enumerate() {
                        if index > 0 {
                            self.line.push(',');
                        }
                        cell.write(&mut self.line);
                    }
                    self.line.push(']');
                }
            }
            self.line.push('}');
            self.out.write_all(self.line.as_bytes())?;
        }
        self.out.write_all(b"]}")
    }

    fn cell(&mut self, value: Value<'_>) -> Cell {
        match value {
            Value::Unknown => Cell::Unknown,
            Value::Bool(yes) => Cell::Number(u64::from(yes)),
            Value::Number(number) => Cell::Number(number),
            Value::Time(time) => Cell::Nanos(time.since(self.base).nanos()),
            Value::Span(span) => Cell::Millis(span.nanos()),
            // Four decimals are what the tables have.
            Value::Decimal(number) => Cell::Decimal(format!("{number:.4}")),
            value => Cell::Text(self.strings.value(value, &self.style)),
        }
    }

    /// Numbers of rows, −1 for none.
    fn places(&mut self, places: impl Iterator<Item = Option<usize>>) -> io::Result<()> {
        self.out.write_all(b"[")?;
        for (index, place) in places.enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match place {
                Some(place) => write!(self.out, "{comma}{place}")?,
                None => write!(self.out, "{comma}-1")?,
            }
        }
        self.out.write_all(b"]")
    }
}

/// A value as it is in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cell {
    Unknown,
    Number(u64),
    /// After the base; written in microseconds.
    Nanos(i64),
    /// Of a length; written in milliseconds.
    Millis(i64),
    Decimal(String),
    /// The number of a string.
    Text(u32),
}

impl Cell {
    fn write(&self, out: &mut String) {
        let _ = match self {
            Self::Unknown => write!(out, "null"),
            Self::Number(number) => write!(out, "{number}"),
            Self::Nanos(nanos) => {
                let sign = if *nanos < 0 { "-" } else { "" };
                let nanos = nanos.unsigned_abs();
                match (nanos / 1_000, nanos % 1_000) {
                    (micros, 0) => write!(out, "{sign}{micros}"),
                    (micros, below) => write!(out, "{sign}{micros}.{below:03}"),
                }
            }
            Self::Millis(nanos) => {
                write_millis(crate::model::time::Span::from_nanos(*nanos), out);
                Ok(())
            }
            Self::Decimal(text) => write!(out, "{text}"),
            Self::Text(number) => write!(out, "{number}"),
        };
    }
}

/// Texts, each once.
#[derive(Default)]
struct Strings {
    all: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, u32, foldhash::fast::RandomState>,
    bytes: usize,
    cell: String,
    scratch: String,
}

impl Strings {
    /// The number of a value's text, hidden characters escaped.
    fn value(&mut self, value: Value<'_>, style: &Style) -> u32 {
        let mut cell = std::mem::take(&mut self.cell);
        cell.clear();
        value.write_cell(style, &mut self.scratch, &mut cell);
        let number = self.number(&cell);
        self.cell = cell;
        number
    }

    /// The number of a text. A very long one is cut: the tables have it whole.
    fn number(&mut self, text: &str) -> u32 {
        let most = if self.bytes < TEXT_BYTES { LONG } else { SHORT };
        let clipped = text.char_indices().nth(most).map(|(at, _)| {
            let (head, tail) = text.split_at_checked(at).unwrap_or((text, ""));
            let more = grouped(tail.chars().count() as u64);
            format!("{head}… ({more} characters more)")
        });
        let text = clipped.as_deref().unwrap_or(text);
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let text: Rc<str> = text.into();
        self.bytes += text.len();
        self.all.push(Rc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"\"strings\":[")?;
        let mut line = String::new();
        for (index, text) in self.all.iter().enumerate() {
            line.clear();
            if index > 0 {
                line.push_str(",\n");
            }
            json_to(text, &mut line);
            out.write_all(line.as_bytes())?;
        }
        out.write_all(b"]")
    }
}

/// Columns of segments that their session tells.
const OF_SESSION: [&str; 4] = ["session_id", "incarnation", "client", "server"];

/// Rows in the file, so that it stays one that a browser opens at once: what is left out is said, and is in
/// the tables beside it.
const RESUMES: usize = 25_000;
const FINDINGS: usize = 25_000;
const SESSIONS: usize = 10_000;
const SEGMENTS: usize = 40_000;
const MOST: usize = 5_000;

/// Resumes with what was seen around them.
const STORIES: usize = 5_000;

/// Characters of a text, as long as there are not too many.
const LONG: usize = 400;
const SHORT: usize = 48;
/// From so many bytes of text on, texts are cut shorter.
const TEXT_BYTES: usize = 5 << 20;

#[cfg(test)]
mod tests {
    use super::{super::super::sample, *};

    fn written(analysis: &Analysis) -> serde_json::Value {
        let mut bytes = Vec::new();
        Data::new(analysis, Style::default())
            .write(&mut bytes)
            .unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn columns_are_those_of_the_tables() {
        let analysis = sample::rich();
        let data = written(&analysis);
        let columns = data["tables"]["resumes"]["columns"].as_array().unwrap();
        let names: Vec<_> = columns
            .iter()
            .map(|c| c["name"].as_str().unwrap())
            .collect();
        let expected: Vec<_> = Resumes::COLUMNS.iter().map(|c| c.name).collect();
        assert_eq!(names, expected);
        let verdict = columns.iter().find(|c| c["name"] == "verdict").unwrap();
        let strings: Vec<_> = verdict["d"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| data["strings"][usize::try_from(n.as_u64().unwrap()).unwrap()].clone())
            .collect();
        assert_eq!(strings, ["forked", "lossy", "continued"]);
        let method = columns.iter().find(|c| c["name"] == "method").unwrap();
        assert!(method.get("d").is_none() && method.get("all").is_some());
        assert_eq!(data["homes"]["resumes"], serde_json::json!([0, 0, 0]));
        assert_eq!(data["opened"], serde_json::json!([1, 1, 1]));
    }

    #[test]
    fn keeps_the_heaviest_rows_in_order() {
        let kept = Kept::new(6, 3, |row| u8::from(row == 4));
        assert_eq!(kept.rows, [0, 1, 4]);
        assert_eq!((kept.place(4), kept.place(3)), (Some(2), None));
        assert_eq!(Kept::new(2, 3, |_| 0).place(2), None);
    }

    #[test]
    fn cuts_long_texts_and_says_so() {
        let mut strings = Strings::default();
        let number = strings.number(&"ä".repeat(LONG + 1_000));
        assert!(strings.all[number as usize].ends_with("ä… (1,000 characters more)"));
        assert_eq!(strings.number("a"), strings.number("a"));
    }
}
