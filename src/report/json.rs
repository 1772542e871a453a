//! JSON: the whole report, nested, and lines of rows. The keys are the names of the columns.

use super::{
    Style,
    escape::is_hidden,
    table::{
        Column, Findings, Incidents, Inputs, Resumes, SegmentRow, Segments, Servers, Sessions,
        Shares, Table, Timers,
    },
    value::Json,
};
use crate::{
    anomaly::Example,
    model::{
        analysis::{Analysis, ClockOffset, Finding, Input, Resume, SessionRow, TlsSeen},
        time::Span,
        verdict::Verdict,
    },
};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};
use std::{
    collections::HashMap,
    io::{self, Write},
};

/// The version of the layout of report.json and of the lines: within one, keys and words are only added; another one
/// when a key changes its type or its meaning, or goes.
pub(super) const SCHEMA_VERSION: &str = "1";

/// Writes the whole report, indented, with a newline at its end.
///
/// # Errors
///
/// Those of the writer.
pub(super) fn write(analysis: &Analysis, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(64 << 10, out);
    let formatter = Visible(PrettyFormatter::new());
    let whole = Whole::new(analysis, *style);
    whole.serialize(&mut serde_json::Serializer::with_formatter(
        &mut out, formatter,
    ))?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Writes the rows of table `T`, a JSON object on a line each.
///
/// # Errors
///
/// Those of the writer.
pub(super) fn write_lines<T: Table>(
    analysis: &Analysis,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(64 << 10, out);
    for row in T::rows(analysis) {
        let formatter = Visible(CompactFormatter);
        let object = Row::<T> {
            analysis,
            row,
            style: *style,
        };
        object.serialize(&mut serde_json::Serializer::with_formatter(
            &mut out, formatter,
        ))?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// A row as an object.
pub(super) struct Row<'a, T: Table> {
    pub(super) analysis: &'a Analysis,
    pub(super) row: T::Row<'a>,
    pub(super) style: Style,
}

impl<T: Table> Serialize for Row<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(T::COLUMNS.len()))?;
        for column in T::COLUMNS {
            self.entry(column, &mut map)?;
        }
        map.end()
    }
}

impl<T: Table> Row<'_, T> {
    fn entry<M: SerializeMap>(&self, column: &Column<T>, map: &mut M) -> Result<(), M::Error> {
        let value = (column.value)(self.analysis, self.row);
        let style = self.style;
        map.serialize_entry(column.name, &Json { value, style })
    }
}

/// The whole report, with everything sorted under its session.
struct Whole<'a> {
    analysis: &'a Analysis,
    style: Style,
    /// Parallel to the sessions; the last one holds what belongs to none.
    nests: Vec<Nest<'a>>,
}

/// What belongs to a session.
#[derive(Default)]
struct Nest<'a> {
    segments: Vec<SegmentRow<'a>>,
    resumes: Vec<&'a Resume>,
    findings: Vec<&'a Finding>,
}

impl<'a> Whole<'a> {
    fn new(analysis: &'a Analysis, style: Style) -> Self {
        let mut nests = Vec::new();
        nests.resize_with(analysis.sessions.len() + 1, Nest::default);
        let homes = Homes::new(analysis);
        let outside = analysis.sessions.len();
        let mut nest = |home: Option<usize>, add: &mut dyn FnMut(&mut Nest<'a>)| {
            if let Some(nest) = nests.get_mut(home.unwrap_or(outside)) {
                add(nest);
            }
        };
        for segment in Segments::rows(analysis) {
            let row = segment.row;
            let home = homes.of_exchange(row.exchange, &row.session_id, row.incarnation);
            nest(home, &mut |nest| nest.segments.push(segment));
        }
        for resume in &analysis.resumes {
            let home = homes.of_exchange(resume.exchange, &resume.session_id, resume.incarnation);
            nest(home, &mut |nest| nest.resumes.push(resume));
        }
        for finding in &analysis.findings {
            let home = homes.of_finding(finding);
            nest(home, &mut |nest| nest.findings.push(finding));
        }
        Self {
            analysis,
            style,
            nests,
        }
    }
}

/// Finds the session that something belongs to. A session id with an incarnation is nearly
/// always enough; two services may use one id, and then the exchange or the server tells.
pub(super) struct Homes<'a> {
    analysis: &'a Analysis,
    by_name: HashMap<(&'a str, u32), Vec<usize>, foldhash::fast::RandomState>,
}

impl<'a> Homes<'a> {
    /// Knows every session by its name.
    pub(super) fn new(analysis: &'a Analysis) -> Self {
        let mut by_name = HashMap::<_, Vec<usize>, foldhash::fast::RandomState>::default();
        for (index, session) in analysis.sessions.iter().enumerate() {
            let name = (&*session.session_id, session.incarnation);
            by_name.entry(name).or_default().push(index);
        }
        Self { analysis, by_name }
    }

    /// The session of an exchange that names it so.
    pub(super) fn of_exchange(
        &self,
        exchange: u32,
        session_id: &str,
        incarnation: u32,
    ) -> Option<usize> {
        let service = || {
            let place = self.analysis.session_of.get(exchange as usize)?.as_ref()?;
            let session = self.analysis.sessions.get(place.session? as usize)?;
            Some(session.service.as_str())
        };
        self.pick(session_id, incarnation, |session| {
            service().is_some_and(|service| service == session.service)
        })
    }

    /// The session that a finding is on.
    pub(super) fn of_finding(&self, finding: &Finding) -> Option<usize> {
        self.pick(&finding.session_id, finding.incarnation, |session| {
            session.server == finding.server
        })
    }

    fn pick(
        &self,
        session_id: &str,
        incarnation: u32,
        fits: impl Fn(&SessionRow) -> bool,
    ) -> Option<usize> {
        let candidates = self.by_name.get(&(session_id, incarnation))?;
        let fitting = candidates.iter().find(|&&index| {
            let session = self.analysis.sessions.get(index);
            candidates.len() > 1 && session.is_some_and(&fits)
        });
        fitting.or(candidates.first()).copied()
    }
}

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (analysis, style) = (self.analysis, self.style);
        let (sessions, outside) = self
            .nests
            .split_at_checked(analysis.sessions.len())
            .unwrap_or_default();
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("schema_version", SCHEMA_VERSION)?;
        map.serialize_entry("forkscope_version", env!("CARGO_PKG_VERSION"))?;
        let inputs =
            list(|| rows::<Inputs>(analysis, Inputs::rows(analysis), style).map(InputObject));
        map.serialize_entry("inputs", &inputs)?;
        map.serialize_entry("totals", &Totals(analysis))?;
        let sessions = list(|| {
            let rows = Sessions::rows(analysis).zip(sessions);
            rows.map(|(row, nest)| SessionObject {
                row: Row {
                    analysis,
                    row,
                    style,
                },
                nest,
            })
        });
        map.serialize_entry("sessions", &sessions)?;
        let outside = outside.first().map(|nest| Outside {
            analysis,
            nest,
            style,
        });
        map.serialize_entry("outside_sessions", &outside)?;
        let incidents = list(|| rows::<Incidents>(analysis, Incidents::rows(analysis), style));
        map.serialize_entry("incidents", &incidents)?;
        let timers = list(|| rows::<Timers>(analysis, Timers::rows(analysis), style));
        map.serialize_entry("timers", &timers)?;
        let shares = list(|| rows::<Shares>(analysis, Shares::rows(analysis), style));
        map.serialize_entry("shares", &shares)?;
        let servers = list(|| rows::<Servers>(analysis, Servers::rows(analysis), style));
        map.serialize_entry("servers", &servers)?;
        let opaque = list(|| {
            analysis.opaque.iter().map(|opaque| OpaqueObject {
                protocol: opaque.protocol.name(),
                server: opaque.server.as_ref().map(ToString::to_string),
                count: opaque.count,
            })
        });
        map.serialize_entry("opaque", &opaque)?;
        let key_logs = list(|| {
            analysis.key_logs.iter().map(|log| {
                let first = log.first_bad.as_ref();
                KeyLogObject {
                    name: &log.name,
                    secrets: log.secrets,
                    bad_lines: log.bad_lines,
                    first_bad_line: first.map(|(line, _)| *line),
                    first_bad_why: first.map(|(_, why)| &**why),
                    beyond_limit: log.beyond,
                }
            })
        });
        map.serialize_entry("key_logs", &key_logs)?;
        let anomalies = list(|| {
            analysis.anomalies.iter().map(|(input, kind, tally)| {
                let input = analysis.inputs.get(input.0 as usize);
                Oddity {
                    input: input.map(|input| &*input.name),
                    kind: kind.name(),
                    about: kind.about(),
                    effect: kind.effect(),
                    count: tally.count,
                    examples: tally.examples.iter().map(Seen::new).collect(),
                }
            })
        });
        map.serialize_entry("anomalies", &anomalies)?;
        map.end()
    }
}

/// An input; a HAR with what it can tell.
struct InputObject<'a>(Row<'a, Inputs>);

impl Serialize for InputObject<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for column in Inputs::COLUMNS {
            self.0.entry(column, &mut map)?;
        }
        let har = self.0.row.har.as_ref().map(|facts| HarObject {
            creators: &facts.creators,
            responses: facts.responses,
            bodies: facts.bodies,
            undecodable_bodies: facts.undecodable,
            event_streams: facts.streams,
            timed_event_streams: facts.timed,
            made_up_times: facts.made_up,
            masked_session_ids: facts.masked_sessions,
            masked_cursors: facts.masked_cursors,
            masked_event_ids: facts.masked_events,
            without_http: facts.no_wire,
            omits_open_streams: facts.omits_open,
        });
        map.serialize_entry("har", &har)?;
        let input = self.0.row;
        let TlsSeen {
            secrets,
            connections,
            read,
            unread,
        } = &input.tls;
        let unread = unread.iter().map(|one| UnreadObject {
            tcp_stream: one.place.tcp_stream,
            frame: one.place.frame,
            why: one.why.name(),
        });
        let tls = TlsObject {
            secrets: *secrets,
            connections: *connections,
            read: *read,
            unread: unread.collect(),
        };
        map.serialize_entry("tls", &tls)?;
        map.serialize_entry("copy_of", &input.copy_of)?;
        let clock = input.clock.as_ref();
        let offset = clock.and_then(ClockOffset::added).map(Span::millis_f64);
        let (from, ahead) = match clock {
            None => (None, None),
            Some(ClockOffset::Given(_)) => (Some("given"), None),
            Some(ClockOffset::Learnt { ahead, of }) => (Some("exchanges"), Some((ahead, of))),
            Some(ClockOffset::Left { ahead, of }) => (None, Some((ahead, of))),
        };
        map.serialize_entry("clock_offset_ms", &offset)?;
        map.serialize_entry("clock_offset_from", &from)?;
        map.serialize_entry("clock_ahead_ms", &ahead.map(|(by, _)| by.millis_f64()))?;
        map.serialize_entry("clock_ahead_of", &ahead.map(|(_, of)| of))?;
        map.end()
    }
}

/// What a HAR can tell ([`HarFacts`]). Who closed it never tells.
///
/// [`HarFacts`]: crate::model::har::HarFacts
#[derive(Serialize)]
struct HarObject<'a> {
    creators: &'a [String],
    responses: u64,
    bodies: u64,
    undecodable_bodies: u64,
    event_streams: u64,
    timed_event_streams: u64,
    made_up_times: u64,
    masked_session_ids: u64,
    masked_cursors: u64,
    masked_event_ids: u64,
    without_http: u64,
    omits_open_streams: bool,
}

/// A session with what belongs to it: in place of the columns that count its segments and
/// resumes and name its findings, those themselves.
struct SessionObject<'a> {
    row: Row<'a, Sessions>,
    nest: &'a Nest<'a>,
}

impl Serialize for SessionObject<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for column in Sessions::COLUMNS {
            if !NESTED.contains(&column.name) {
                self.row.entry(column, &mut map)?;
            }
        }
        let Row {
            analysis, style, ..
        } = self.row;
        self.nest.serialize(analysis, style, &mut map)?;
        map.end()
    }
}

/// What belongs to no session under judgement, such as the streams of the 2024-11-05 transport.
struct Outside<'a> {
    analysis: &'a Analysis,
    nest: &'a Nest<'a>,
    style: Style,
}

impl Serialize for Outside<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(NESTED.len()))?;
        self.nest.serialize(self.analysis, self.style, &mut map)?;
        map.end()
    }
}

impl Nest<'_> {
    fn serialize<M: SerializeMap>(
        &self,
        analysis: &Analysis,
        style: Style,
        map: &mut M,
    ) -> Result<(), M::Error> {
        let [segments, resumes, findings] = NESTED;
        let rows_of_segments = list(|| {
            let segments = self.segments.iter().copied();
            rows::<Segments>(analysis, segments, style)
        });
        map.serialize_entry(segments, &rows_of_segments)?;
        let rows_of_resumes = list(|| {
            let resumes = self.resumes.iter().copied();
            rows::<Resumes>(analysis, resumes, style)
        });
        map.serialize_entry(resumes, &rows_of_resumes)?;
        let rows_of_findings = list(|| {
            let findings = self.findings.iter().copied();
            rows::<Findings>(analysis, findings, style)
        });
        map.serialize_entry(findings, &rows_of_findings)
    }
}

/// Totals over the run, and the resumes by verdict.
struct Totals<'a>(&'a Analysis);

impl Serialize for Totals<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(totals(self.0))
    }
}

/// The keys of the totals, with their values.
pub(super) fn totals(analysis: &Analysis) -> Vec<(&'static str, u64)> {
    let sum = |of: fn(&Input) -> u64| analysis.inputs.iter().map(of).sum::<u64>();
    let events = analysis
        .exchanges
        .iter()
        .map(|exchange| exchange.events.len() as u64);
    let mut totals = vec![
        ("packets", sum(|input| input.packets)),
        ("bytes", sum(|input| input.bytes)),
        ("tcp_connections", sum(|input| input.tcp_connections)),
        ("http_exchanges", analysis.exchanges.len() as u64),
        ("sse_events", events.sum()),
        ("sessions", analysis.totals.sessions),
        ("resumes", analysis.resumes.len() as u64),
    ];
    totals.extend(Verdict::ALL.map(|verdict| {
        let resumes = analysis.resumes.iter();
        let count = resumes.filter(|resume| resume.verdict == verdict).count();
        (verdict.name(), count as u64)
    }));
    totals.extend([
        ("findings", analysis.findings.len() as u64),
        ("sessionless", analysis.totals.sessionless),
        ("legacy_sessions", analysis.totals.legacy_sessions),
        ("refused_ids", analysis.totals.refused_ids),
        ("tls_opaque", sum(|input| input.tls_opaque)),
        ("http2_opaque", sum(|input| input.http2_opaque)),
        ("holes", sum(|input| input.holes)),
        ("hole_bytes", sum(|input| input.hole_bytes)),
        ("blanks", analysis.blanks.len() as u64),
        ("truncated_packets", sum(|input| input.truncated_packets)),
    ]);
    totals
}

/// The TLS of an input.
#[derive(Serialize)]
struct TlsObject {
    secrets: u64,
    connections: u64,
    read: u64,
    unread: Vec<UnreadObject>,
}

/// A TLS connection of which not all was read.
#[derive(Serialize)]
struct UnreadObject {
    tcp_stream: Option<u32>,
    frame: u32,
    why: &'static str,
}

/// A key log that was named.
#[derive(Serialize)]
struct KeyLogObject<'a> {
    name: &'a str,
    secrets: u64,
    bad_lines: u64,
    first_bad_line: Option<u64>,
    first_bad_why: Option<&'a str>,
    beyond_limit: u64,
}

/// What was on the wire and could not be read.
#[derive(Serialize)]
struct OpaqueObject {
    protocol: &'static str,
    server: Option<String>,
    count: u64,
}

/// A kind of oddity in an input.
#[derive(Serialize)]
struct Oddity<'a> {
    input: Option<&'a str>,
    kind: &'static str,
    about: &'static str,
    effect: &'static str,
    count: u64,
    examples: Vec<Seen<'a>>,
}

/// An example of an oddity.
#[derive(Serialize)]
struct Seen<'a> {
    tcp_stream: Option<u32>,
    frame: Option<u32>,
    detail: &'a str,
}

impl<'a> Seen<'a> {
    fn new(example: &'a Example) -> Self {
        Self {
            tcp_stream: example.place.tcp_stream,
            frame: (example.place.frame != 0).then_some(example.place.frame),
            detail: &example.detail,
        }
    }
}

/// An array made while it is written.
pub(super) struct List<F>(F);

pub(super) const fn list<F, I>(items: F) -> List<F>
where
    F: Fn() -> I,
    I: Iterator<Item: Serialize>,
{
    List(items)
}

impl<F, I> Serialize for List<F>
where
    F: Fn() -> I,
    I: Iterator<Item: Serialize>,
{
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq((self.0)())
    }
}

fn rows<'a, T: Table>(
    analysis: &'a Analysis,
    rows: impl Iterator<Item = T::Row<'a>>,
    style: Style,
) -> impl Iterator<Item = Row<'a, T>> {
    rows.map(move |row| Row {
        analysis,
        row,
        style,
    })
}

/// A formatter that also escapes what serde_json leaves as it is though no terminal should see
/// it: DEL, C1, and characters that reorder or hide text.
pub(super) struct Visible<F>(pub(super) F);

macro_rules! pass_on {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            fn $name<W: ?Sized + Write>(
                &mut self,
                writer: &mut W,
                $($argument: $type),*
            ) -> io::Result<()> {
                self.0.$name(writer, $($argument),*)
            }
        )*
    };
}

impl<F: Formatter> Formatter for Visible<F> {
    pass_on! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        end_object_key();
        begin_object_value();
        end_object_value();
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.bytes().all(|b| b < 0x7f) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut bytes = [0; 4];
        for c in fragment.chars() {
            if is_hidden(c) {
                // All of them lie in the Basic Multilingual Plane: one escape each.
                write!(writer, "\\u{:04x}", u32::from(c))?;
            } else {
                writer.write_all(c.encode_utf8(&mut bytes).as_bytes())?;
            }
        }
        Ok(())
    }
}

/// The keys under which a session holds what belongs to it.
pub(super) const NESTED: [&str; 3] = ["segments", "resumes", "findings"];

#[cfg(test)]
mod tests {
    use super::{
        super::{TimeFormat, sample, table::Events},
        *,
    };
    use proptest::prelude::*;
    use serde_json::Value;

    fn whole(analysis: &Analysis, style: &Style) -> Value {
        let mut bytes = Vec::new();
        write(analysis, style, &mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    fn lines<T: Table>(analysis: &Analysis, style: &Style) -> Vec<Value> {
        let mut bytes = Vec::new();
        write_lines::<T>(analysis, style, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn nests_everything_under_its_session_once() {
        let analysis = sample::rich();
        let report = whole(&analysis, &Style::default());
        assert_eq!(report["schema_version"], "1");
        let sessions = report["sessions"].as_array().unwrap();
        assert_eq!(sessions.len(), analysis.sessions.len());
        let outside = &report["outside_sessions"];
        for (key, count) in [
            ("segments", analysis.segments.len()),
            ("resumes", analysis.resumes.len()),
            ("findings", analysis.findings.len()),
        ] {
            let nested = sessions.iter().chain([outside]);
            let sum: usize = nested.map(|nest| nest[key].as_array().unwrap().len()).sum();
            assert_eq!(sum, count, "{key}");
        }
        for session in sessions {
            for resume in session["resumes"].as_array().unwrap() {
                assert_eq!(resume["session_id"], session["session_id"]);
                assert_eq!(resume["incarnation"], session["incarnation"]);
            }
        }
        assert_eq!(report["totals"]["resumes"], analysis.resumes.len());
        assert_eq!(report["inputs"][0]["input"], "a.pcapng");
        let mut anomalies = report["anomalies"].as_array().unwrap().iter();
        let hole = anomalies.find(|anomaly| anomaly["kind"] == "hole").unwrap();
        assert_eq!(hole["input"], "a.pcapng");
        assert_eq!(hole["examples"][0]["tcp_stream"], 3);
    }

    #[test]
    fn tells_sessions_of_two_services_with_one_id_apart() {
        let mut analysis = sample::fork();
        let mut twin = analysis.sessions[0].clone();
        twin.service = "http://other/mcp".to_owned();
        twin.server = None;
        analysis.sessions.insert(0, twin);
        for place in analysis.session_of.iter_mut().flatten() {
            place.session = place.session.map(|index| index + 1);
        }
        let report = whole(&analysis, &Style::default());
        let [other, mine] = [&report["sessions"][0], &report["sessions"][1]];
        for key in NESTED {
            assert_eq!(other[key], Value::Array(Vec::new()), "{key}");
            assert!(!mine[key].as_array().unwrap().is_empty(), "{key}");
        }
    }

    #[test]
    fn writes_a_line_a_resume_with_the_columns_as_keys() {
        let analysis = sample::fork();
        let lines = lines::<Resumes>(&analysis, &Style::default());
        assert_eq!(lines.len(), analysis.resumes.len());
        let keys: Vec<_> = lines[0].as_object().unwrap().keys().cloned().collect();
        let mut names: Vec<_> = Resumes::COLUMNS.iter().map(|c| c.name).collect();
        names.sort_unstable();
        assert_eq!(keys, names);
        assert_eq!(lines[0]["verdict"], "forked");
        assert_eq!(lines[0]["gap_ms"], 31_204.0);
        assert_eq!(lines[0]["incident"], Value::Null);
        assert_eq!(lines[0]["findings"][0], "sequence-regression");
    }

    #[test]
    fn keeps_every_digit_of_an_epoch() {
        let mut analysis = sample::fork();
        analysis.resumes[0].resume_time =
            crate::model::time::Timestamp::from_nanos(1_796_337_680_123_456_789);
        let style = Style {
            time: TimeFormat::Epoch,
            ..Style::default()
        };
        let mut bytes = Vec::new();
        write_lines::<Resumes>(&analysis, &style, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.contains("\"resume_time\":1796337680.123456789,"),
            "{text}"
        );
        assert!(text.contains("\"gap_ms\":31204.000,"), "{text}");
    }

    #[test]
    fn writes_a_line_an_event() {
        let analysis = sample::fork();
        let events: usize = analysis.exchanges.iter().map(|e| e.events.len()).sum();
        assert_eq!(lines::<Events>(&analysis, &Style::default()).len(), events);
        assert!(events > 0);
    }

    proptest! {
        #[test]
        fn any_id_comes_back_and_hides_nothing(id in any::<String>()) {
            let mut analysis = sample::fork();
            analysis.resumes[0].last_event_id.clone_from(&id);
            let mut bytes = Vec::new();
            write(&analysis, &Style::default(), &mut bytes).unwrap();
            let text = String::from_utf8(bytes).unwrap();
            prop_assert!(!text.contains(|c| c != '\n' && is_hidden(c)));
            let report: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&report["sessions"][0]["resumes"][0]["last_event_id"], &Value::from(id));
        }
    }
}
