//! Audits in parts: what an engine deals out of the facts of a run, learns, puts together and judges, is what one
//! audit of all of it says.

use crate::{
    facts::{extract_into, taps},
    redact::real,
    talk::{
        model::{Act, Talk},
        tcp::packets,
    },
    talks::{captures_of, options, pcap, talks},
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, StructArray,
    cast::AsArray,
    types::{Float64Type, Int64Type},
};
use arrow_ipc::{reader::StreamReader, writer::StreamWriter};
use arrow_schema::{DataType, SchemaRef};
use arrow_select::filter::filter_record_batch;
use forkscope::{
    facts,
    model::analysis::Analysis,
    pipeline::{Learnt, Options, Progress, extract, judge, learn, run},
    report::{self, Style},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    io::Write as _,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// The rows of the facts of several extracts.
struct Dealt {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Dealt {
    fn of(options: &Options, extracts: &[&[&Path]]) -> Self {
        let mut schema = None;
        let mut batches = Vec::new();
        for inputs in extracts {
            let inputs = inputs.iter().map(|path| path.to_str().unwrap().to_owned());
            let options = Options {
                inputs: inputs.collect(),
                ..options.clone()
            };
            let facts = extract(&options, &Progress::default()).unwrap();
            let mut stream = Vec::new();
            facts::write_stream(&facts, &mut stream).unwrap();
            let reader = StreamReader::try_new(&*stream, None).unwrap();
            schema.get_or_insert(reader.schema());
            batches.extend(reader.map(Result::unwrap));
        }
        Self {
            schema: schema.unwrap(),
            batches,
        }
    }

    fn exchanges<'b>(&self, batch: &'b RecordBatch) -> impl Iterator<Item = bool> + use<'b> {
        let table = batch.column(0).as_string::<i32>();
        (0..batch.num_rows()).map(|row| table.value(row) == "exchanges")
    }

    /// A stream of all that are no exchanges, and of the exchanges that are wanted by `part` and `key`.
    fn deal(&self, wanted: &dyn Fn(i64, &str) -> bool) -> Vec<u8> {
        let mut stream = Vec::new();
        let mut writer = StreamWriter::try_new(&mut stream, &self.schema).unwrap();
        for batch in &self.batches {
            let parts = batch.column(1).as_primitive::<Int64Type>();
            let keys = batch.column(2).as_string::<i32>();
            let kept: BooleanArray = self
                .exchanges(batch)
                .enumerate()
                .map(|(row, exchange)| Some(!exchange || wanted(parts.value(row), keys.value(row))))
                .collect();
            writer
                .write(&filter_record_batch(batch, &kept).unwrap())
                .unwrap();
        }
        writer.finish().unwrap();
        stream
    }

    fn parts(&self) -> BTreeSet<i64> {
        let mut parts = BTreeSet::new();
        for batch in &self.batches {
            let part = batch.column(1).as_primitive::<Int64Type>();
            parts.extend(part.iter().flatten());
        }
        parts
    }
}

/// The rows of what was judged, by table, in order.
type Tables = BTreeMap<&'static str, Vec<String>>;

fn cell(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return String::new();
    }
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        other => panic!("{other}"),
    }
}

/// Incidents are numbered for each part by itself: what stands for one is when it began, and where.
fn tables(analysis: &Analysis) -> Tables {
    let mut stream = Vec::new();
    (report::ARROW.write)(analysis, &Style::default(), &mut stream).unwrap();
    let mut tables: BTreeMap<&'static str, Vec<BTreeMap<String, String>>> = BTreeMap::new();
    for batch in StreamReader::try_new(&*stream, None).unwrap() {
        let batch = batch.unwrap();
        for table in TABLES {
            let rows: &StructArray = batch.column_by_name(table).unwrap().as_struct();
            for row in (0..rows.len()).filter(|&row| rows.is_valid(row)) {
                let cells = rows.column_names().into_iter().zip(rows.columns());
                let cells = cells.map(|(name, array)| (name.to_owned(), cell(array, row)));
                tables.entry(table).or_default().push(cells.collect());
            }
        }
    }
    let incidents: BTreeMap<String, String> = tables
        .get("incidents")
        .into_iter()
        .flatten()
        .map(|row| {
            let name = format!("{} {}", row["start_time"], row["server"]);
            (row["incident"].clone(), name)
        })
        .collect();
    let line = |mut row: BTreeMap<String, String>| {
        if let Some(incident) = row.get_mut("incident").filter(|number| !number.is_empty()) {
            *incident = incidents[incident].clone();
        }
        format!("{row:?}")
    };
    tables
        .into_iter()
        .map(|(table, rows)| (table, rows.into_iter().map(line).collect()))
        .collect()
}

const TABLES: [&str; 7] = [
    "resumes",
    "findings",
    "incidents",
    "timers",
    "shares",
    "servers",
    "sessions",
];

fn sorted(mut tables: Tables) -> Tables {
    for rows in tables.values_mut() {
        rows.sort();
    }
    tables
}

/// What the parts say together, and how many components there are.
fn in_parts(options: &Options, dealt: &Dealt) -> (Tables, usize) {
    let mut lines = Vec::new();
    for part in dealt.parts() {
        let stream = dealt.deal(&|of, _| of == part);
        let learnt = learn(options, &mut &*stream).unwrap();
        // As files that were put one behind the other.
        learnt.write(&mut lines).unwrap();
    }
    let mut learnt = if lines.is_empty() {
        learn(options, &mut &*dealt.deal(&|_, _| false)).unwrap()
    } else {
        Learnt::read(&*lines).unwrap()
    };
    learnt.conclude();
    let mut lines = Vec::new();
    learnt.write(&mut lines).unwrap();
    let learnt = Learnt::read(&*lines).unwrap();
    let mut all = Tables::new();
    let components = learnt.components();
    for keys in components.values() {
        let stream = dealt.deal(&|_, key| keys.contains(&key));
        let judged = judge(options, &mut &*stream, &learnt).unwrap();
        for (table, rows) in tables(&judged) {
            all.entry(table).or_default().extend(rows);
        }
    }
    (sorted(all), components.len())
}

fn difference(one: &Tables, two: &Tables) -> Option<String> {
    TABLES.iter().find_map(|table| {
        let rows = |tables: &Tables| tables.get(table).cloned().unwrap_or_default();
        let (one, two) = (rows(one), rows(two));
        let lack = one.iter().find(|row| !two.contains(row));
        let more = two.iter().find(|row| !one.contains(row));
        (one != two).then(|| {
            let cut =
                |row: Option<&String>| row.map(|row| row.chars().take(1500).collect::<String>());
            format!(
                "{table}: {} rows, in parts {}: {:?}\n    {:?}",
                one.len(),
                two.len(),
                cut(lack),
                cut(more),
            )
        })
    })
}

fn whole(options: &Options, inputs: &[&Path]) -> Tables {
    let inputs = inputs.iter().map(|path| path.to_str().unwrap().to_owned());
    let options = Options {
        inputs: inputs.collect(),
        ..options.clone()
    };
    sorted(tables(&run(&options, &Progress::default()).unwrap()))
}

fn refuse(bad: &str) {
    assert!(bad.is_empty(), "\n{bad}");
}

#[test]
fn real_captures_in_parts_say_what_they_say_as_a_whole() {
    let options = Options::default();
    let mut bad = String::new();
    let all = real();
    for path in &all {
        let (parts, _) = in_parts(&options, &Dealt::of(&options, &[&[path]]));
        if let Some(difference) = difference(&whole(&options, &[path]), &parts) {
            let _ = writeln!(bad, "{}: {difference}", path.display());
        }
    }
    refuse(&bad);
}

/// A talk between the same clients, but with other servers, under another host and with other sessions.
fn elsewhere(mut talk: Talk, number: u8) -> Talk {
    let servers: BTreeSet<IpAddr> = talk.connections.iter().map(|c| c.server.ip()).collect();
    let moved = |end: &mut SocketAddr| {
        if let IpAddr::V4(ip) = end.ip()
            && servers.contains(&end.ip())
        {
            let [_, two, three, four] = ip.octets();
            end.set_ip(Ipv4Addr::new(100 + number, two, three, four).into());
        }
    };
    for connection in &mut talk.connections {
        // The same bytes from the same port would be one request, on its way through a NAT.
        let port = connection.client.port();
        connection.client.set_port(port + 1000 * u16::from(number));
        moved(&mut connection.client);
        moved(&mut connection.server);
    }
    for step in &mut talk.steps {
        let headers = match &mut step.act {
            Act::Request(request) => {
                request.headers[0].1 = format!("talk-{number}.{}", request.headers[0].1);
                &mut request.headers
            }
            Act::Response(response) => &mut response.headers,
            _ => continue,
        };
        for (name, value) in headers {
            if name.eq_ignore_ascii_case("mcp-session-id") {
                *value = format!("{number}-{value}");
            }
        }
    }
    talk
}

/// Captures of servers that have nothing to do with each other, of which clients ask several: what is missing of one
/// may concern the others.
#[test]
fn servers_apart_say_in_parts_what_they_say_as_a_whole() {
    const TOGETHER: usize = 8;
    let (mut bad, mut all, mut several) = (String::new(), 0, 0);
    let plain = |talk: &Talk| talk.options.is_empty();
    let lossy = |talk: &Talk| talk.steps.iter().any(|step| step.lost);
    for lost in [false, true] {
        let mut talks: Vec<Talk> = talks().into_iter().filter(plain).collect();
        talks.retain(|talk| lost || !lossy(talk));
        while !talks.is_empty() {
            let folder = tempfile::tempdir().unwrap();
            let mut paths = Vec::new();
            let group: Vec<Talk> = talks.split_off(talks.len().saturating_sub(TOGETHER));
            let names: Vec<String> = group.iter().map(|talk| talk.name.clone()).collect();
            for (number, talk) in (0..).zip(group) {
                let talk = elsewhere(talk, number);
                let path = folder.path().join(format!("capture {number}"));
                fs::write(&path, pcap(&talk, &packets(&talk))).unwrap();
                paths.push(path);
            }
            let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
            let options = Options::default();
            let (parts, components) = in_parts(&options, &Dealt::of(&options, &[&paths]));
            all += paths.len();
            several += components;
            if let Some(difference) = difference(&whole(&options, &paths), &parts) {
                let _ = writeln!(bad, "{names:?}: {difference}");
            }
        }
    }
    refuse(&bad);
    assert!(several * 10 > all * 9, "{all} talks, {several} components");
}

#[test]
fn talks_in_parts_say_what_they_say_as_a_whole() {
    let mut bad = String::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a talk");
    for talk in talks() {
        for (road, bytes) in captures_of(&talk) {
            fs::write(&path, bytes).unwrap();
            let options = options(&talk);
            let (parts, _) = in_parts(&options, &Dealt::of(&options, &[&[&path]]));
            if let Some(difference) = difference(&whole(&options, &[&path]), &parts) {
                let _ = writeln!(bad, "{} as {road}: {difference}", talk.name);
            }
        }
    }
    refuse(&bad);
}

#[test]
fn two_taps_extracted_apart_say_in_parts_what_their_facts_say_as_a_whole() {
    let mut bad = String::new();
    for talk in talks() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = taps(folder.path(), &talk);
        let options = options(&talk);
        let kept = folder.path().join("facts");
        for tap in [&one, &two] {
            extract_into(&kept, &options, &[tap]);
        }
        let dealt = Dealt::of(&options, &[&[&one], &[&two]]);
        let (parts, _) = in_parts(&options, &dealt);
        if let Some(difference) = difference(&whole(&options, &[&kept]), &parts) {
            let _ = writeln!(bad, "{}: {difference}", talk.name);
        }
    }
    refuse(&bad);
}

/// Runs forkscope with something on its standard input.
fn forkscope(arguments: &[&str], stdin: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_forkscope"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Who refuses what it reads does not read on.
            let _ = to.write_all(stdin);
        });
        child.wait_with_output().unwrap()
    })
}

fn good(output: &Output, code: i32) -> &[u8] {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(said, "");
    &output.stdout
}

#[test]
fn the_commands_say_what_one_audit_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let capture = "fixtures/real/ts04.pcap";
    let facts = forkscope(&["extract", "-q", capture, "-o", "-"], b"");
    let facts = good(&facts, 0);
    let part = forkscope(&["learn", "--facts", "-"], facts);
    let (parts, learnt) = (path("parts"), path("learnt"));
    fs::write(&parts, good(&part, 0)).unwrap();
    let concluded = forkscope(&["learn", "--learnt", &parts], b"");
    fs::write(&learnt, good(&concluded, 0)).unwrap();
    let judged = forkscope(&["audit", "--facts", "-", "--learnt", &learnt], facts);
    let options = Options {
        inputs: vec![capture.to_owned()],
        ..Options::default()
    };
    let whole = run(&options, &Progress::default()).unwrap();
    let mut wanted = Vec::new();
    (report::ARROW.write)(&whole, &Style::default(), &mut wanted).unwrap();
    // It forked.
    assert!(good(&judged, 1) == wanted);
    // From a file, and with a severity that nothing has.
    let file = path("facts");
    fs::write(&file, facts).unwrap();
    let arguments = ["audit", "--facts", &file, "--learnt", &learnt];
    let never = [&arguments[..], &["--fail-on", "never"]].concat();
    assert!(good(&forkscope(&never, b""), 0) == wanted);
}

#[test]
fn what_is_no_part_of_a_run_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let extracted = |arguments: &[&str]| {
        let all = [&["extract", "-q", "-o", "-"], arguments].concat();
        good(&forkscope(&all, b""), 0).to_vec()
    };
    let capture = "fixtures/real/ts04.pcap";
    let facts = extracted(&[capture]);
    let lines = good(&forkscope(&["learn", "--facts", "-"], &facts), 0).to_vec();
    let part = write("part", &lines);
    let learnt = good(&forkscope(&["learn", "--learnt", &part], b""), 0).to_vec();
    let learnt = write("learnt", &learnt);
    let other = extracted(&[capture, "--all-sse"]);
    let har = br#"{"log":{"version":"1.2","creator":{"name":"none","version":"1"},"entries":[]}}"#;
    let empty = extracted(&[&write("empty.har", har)]);
    let empty = good(&forkscope(&["learn", "--facts", "-"], &empty), 0).to_vec();
    let empty = write("empty", &empty);
    let newer = String::from_utf8(lines)
        .unwrap()
        .replacen("\"version\":1", "\"version\":2", 1);
    let newer = write("newer", newer.as_bytes());
    let text = write("text", b"what is this?\n");
    let none = write("none", b"");
    let half = &facts[..facts.len() / 2];
    let learn = ["learn", "--facts", "-"];
    let merge = |learnt| ["learn", "--learnt", learnt];
    let audit = |learnt| ["audit", "--facts", "-", "--learnt", learnt];
    let cases: [(Vec<&str>, &[u8], &str); 10] = [
        (learn.to_vec(), b"", "no stream of facts"),
        (learn.to_vec(), half, "no stream of facts"),
        (
            learn.to_vec(),
            b"what is this, and what for?",
            "no stream of facts",
        ),
        (learn.to_vec(), &other, "facts extracted with --all-sse"),
        (
            audit(&part).to_vec(),
            &facts,
            "has to be put together first",
        ),
        (
            audit(&empty).to_vec(),
            &facts,
            "nothing was learnt of exchanges of 127.0.0.",
        ),
        (
            audit(&learnt).to_vec(),
            &other,
            "facts extracted with --all-sse",
        ),
        (merge(&newer).to_vec(), b"", "version 2"),
        (merge(&text).to_vec(), b"", "line 1"),
        (merge(&none).to_vec(), b"", "nothing is in it"),
    ];
    for (arguments, stdin, why) in cases {
        let output = forkscope(&arguments, stdin);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}
