//! Findings → a small capture each: what proves them is read again and copied.
//!
//! Packets are not kept while a run reads them. So the inputs that are needed are read twice more: once to learn how
//! much the wanted connections are, once to copy what fits.

use super::{
    Options, Progress, facts,
    packets::{self, Seen},
    secrets,
};
use crate::{
    error::Error,
    input::{self, Classified, PacketInput, Source, har::Raw},
    model::{
        analysis::{Analysis, ClockOffset, Exhibit, Finding},
        packet::Interface,
        place::{InputId, Place},
        time::{Span, Timestamp},
    },
    redact::Key,
    report::evidence::{self, Choice, Plan, Sizes, Wanted, bare, har, pcapng},
    tcp, tls,
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
};

/// Where files of evidence go: whoever asks for them keeps all or none.
pub trait Shelf {
    /// Begins a file of this name, which is plain letters, digits, dashes and a suffix.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write>>;
}

/// What became of it.
#[derive(Debug, Default)]
pub struct Written {
    /// The files, in order.
    pub files: Vec<String>,
    /// Findings that have none because there are more than the limit.
    pub beyond: usize,
    /// Inputs that could not be read again, and why.
    pub unread: Vec<(String, String)>,
}

/// Writes what proves the findings of `analysis`, which was made with these `options`, and says in
/// [`Analysis::evidence`] where it is.
///
/// Payload is written as captured; where the options hide names, none of it is, packets get headers of their own with
/// addresses that stand for the true ones, of HAR entries only times, methods and statuses are kept, and each file
/// says so.
///
/// # Errors
///
/// When a file cannot be written, or what is needed came by standard input or a pipe. Nothing is to be kept then.
pub fn evidence(
    analysis: &mut Analysis,
    options: &Options,
    progress: &Progress,
    shelf: &mut dyn Shelf,
) -> Result<Written, Error> {
    let plan = Plan::of(analysis, &options.limits);
    let sizes = Sizes::new(&plan, analysis);
    let mut run = Run {
        analysis,
        options,
        progress,
        inputs: sizes.inputs(),
        unread: BTreeMap::new(),
    };
    run.expect()?;
    let (sizes, measured) = run.measure(sizes)?;
    let budget = options.limits.evidence_bytes;
    let choices: Vec<Choice> = plan
        .wanted
        .iter()
        .map(|one| plan.choose(one, run.analysis, &sizes, budget))
        .collect();
    let mut found: Vec<Vec<Option<Copied>>> = plan
        .wanted
        .iter()
        .map(|one| vec![None; one.marks.len()])
        .collect();
    let mut files = run.copy_packets(&plan, &choices, &measured, shelf, &mut found)?;
    files.extend(run.copy_entries(&plan, &choices, shelf, &mut found)?);
    let unread = run.unread.into_values().collect();
    files.sort();
    let rows = rows(&plan, &files, &found);
    let written = Written {
        files: files
            .into_iter()
            .map(|(_, name)| name.to_string())
            .collect(),
        beyond: plan.beyond.len(),
        unread,
    };
    analysis.evidence = rows;
    progress.finished.store(true, Ordering::Relaxed);
    Ok(written)
}

/// A file with the index of its finding among the wanted.
type Named = (usize, Arc<str>);

/// Where a mark is in a file of evidence.
#[derive(Clone, Debug)]
struct Copied {
    file: Arc<str>,
    frame: u32,
    tcp_stream: Option<u32>,
}

/// What a first reading finds out beside sizes.
#[derive(Default)]
struct Measured {
    /// Frames that came before the one that makes their segment whole: its connection, and its position there.
    parts: BTreeMap<(InputId, u32), (u32, (u64, u64))>,
    /// The latest packet of each input: time and frame.
    latest: BTreeMap<InputId, (Timestamp, u32)>,
    /// The secrets of the key logs that were named, and of the inputs.
    secrets: Arc<tls::Secrets>,
}

struct Run<'a> {
    analysis: &'a Analysis,
    options: &'a Options,
    progress: &'a Progress,
    /// Those that are needed.
    inputs: BTreeSet<InputId>,
    unread: BTreeMap<InputId, (String, String)>,
}

impl<'a> Run<'a> {
    /// Says how much there is to read.
    fn expect(&mut self) -> Result<(), Error> {
        let mut total = 0;
        for id in self.inputs.clone() {
            let Some(source) = self.source(id) else {
                continue;
            };
            if source.path.is_none() && source.name != "-" {
                self.inputs.remove(&id);
                let why = facts::no_packets().to_string();
                self.unread.insert(id, (source.name, why));
                continue;
            }
            if !source.path.as_ref().is_some_and(|path| path.is_file()) {
                let name = match source.path {
                    Some(_) => evidence::input_name(&source.name),
                    None => "standard input".to_owned(),
                };
                return Err(Error::new(format!(
                    "evidence takes a second reading of the inputs, and {name} can be read only once"
                )));
            }
            total += 2 * source.stored_len();
        }
        self.progress.total.store(total, Ordering::Relaxed);
        Ok(())
    }

    /// Why an input cannot be read again; errors name files.
    fn reason(&self, error: &Error) -> String {
        match self.options.redact {
            None => error.to_string(),
            Some(_) => "it cannot be read again".to_owned(),
        }
    }

    fn source(&self, id: InputId) -> Option<Source> {
        let row = self.analysis.inputs.get(id.0 as usize)?;
        Some(Source {
            name: row.name.clone(),
            path: row.path.clone(),
        })
    }

    /// What was added to the times of an input.
    fn added(&self, id: InputId) -> Span {
        let row = self.analysis.inputs.get(id.0 as usize);
        let clock = row.and_then(|row| row.clock.as_ref());
        clock.and_then(ClockOffset::added).unwrap_or(Span::ZERO)
    }

    /// Opens the needed inputs anew.
    fn open(&mut self) -> Opened<'a> {
        let progress = self.progress;
        let mut opened = Opened::default();
        for id in self.inputs.clone() {
            let Some(source) = self.source(id) else {
                continue;
            };
            match input::classify(&source, &self.options.limits, &progress.done) {
                Ok(Classified::Packets(mut packets)) => {
                    packets.move_times(self.added(id));
                    opened.packets.push((id, packets));
                }
                Ok(Classified::Har(har)) => opened.hars.push((id, har)),
                Ok(Classified::Facts(_)) => {
                    let why = "it has changed".to_owned();
                    self.unread.entry(id).or_insert((source.name, why));
                }
                Err(error) => {
                    let why = (source.name, self.reason(&error));
                    self.unread.entry(id).or_insert(why);
                }
            }
        }
        opened
    }

    fn measure(&mut self, mut sizes: Sizes) -> Result<(Sizes, Measured), Error> {
        let Measured {
            mut parts,
            mut latest,
            mut secrets,
        } = Measured::default();
        let most = self.options.limits.fragmented.saturating_mul(64);
        let limits = self.options.limits;
        let progress = self.progress;
        let Opened { packets, hars } = self.open();
        if !packets.is_empty() {
            let (mut known, _) = secrets::read_key_logs(&self.options.key_logs, &limits)?;
            for text in packets.iter().flat_map(|(_, input)| input.key_logs()) {
                known.read(text, &limits);
            }
            let timeline = packets::timeline(packets, &limits, &progress.done);
            let known = Arc::new(known);
            let each = &mut |seen: &Seen<'_>| -> Result<(), Error> {
                let input = seen.frame.place.input;
                let this = (seen.frame.time, seen.frame.place.frame);
                let last = latest.entry(input).or_insert(this);
                *last = this.max(*last);
                let Some(stream) = seen.segment.and_then(|segment| segment.place.tcp_stream) else {
                    return Ok(());
                };
                if let Some(connection) = sizes.connection(input, stream) {
                    let position = connection.take(seen.frame.place.frame, weight(seen));
                    let earlier = seen
                        .frames
                        .iter()
                        .filter(|&&at| at != seen.frame.place.frame);
                    for &frame in earlier.take(most.saturating_sub(parts.len())) {
                        parts.insert((input, frame), (stream, position));
                    }
                }
                Ok(())
            };
            (_, secrets) = packets::walk(timeline, &limits, &known, each)?;
        }
        for (id, source) in hars {
            // Why it cannot be read is said when it is copied.
            if let Ok((mut text, _)) = source.open(&limits, &progress.done) {
                input::har::parts(&mut *text, &limits, &mut |part| -> Result<(), Error> {
                    if let Raw::Entry(number, json) = part {
                        sizes.entry(id, number, json.len() as u64);
                    }
                    Ok(())
                })?;
            }
        }
        let measured = Measured {
            parts,
            latest,
            secrets,
        };
        Ok((sizes, measured))
    }

    fn copy_packets(
        &mut self,
        plan: &Plan,
        choices: &[Choice],
        measured: &Measured,
        shelf: &mut dyn Shelf,
        found: &mut [Vec<Option<Copied>>],
    ) -> Result<Vec<Named>, Error> {
        let mut routes: BTreeMap<(InputId, u32), Route> = BTreeMap::new();
        let mut ends: BTreeMap<(InputId, u32), Vec<usize>> = BTreeMap::new();
        let mut files: Vec<Option<PacketFile<'_>>> = Vec::new();
        for (index, (one, choice)) in plan.wanted.iter().zip(choices).enumerate() {
            for key in choice.connections() {
                routes.entry(key).or_default().files.push(index);
            }
            // Nothing more of it until the end of the capture is evidence as well.
            let latest = choice
                .connections()
                .filter_map(|(input, _)| Some((measured.latest.get(&input)?, input)))
                .max();
            if let Some((&(_, frame), input)) = latest {
                ends.entry((input, frame)).or_default().push(index);
            }
            let file = choice.connections().next().map(|_| {
                let name: Arc<str> = format!("{}.pcapng", one.stem).into();
                PacketFile::new(name, self, one, (choice, measured), shelf)
            });
            files.push(file.transpose()?);
        }
        let added: BTreeMap<InputId, Span> =
            self.inputs.iter().map(|&id| (id, self.added(id))).collect();
        let (key, limits, progress) = (
            self.options.redact.as_ref(),
            self.options.limits,
            self.progress,
        );
        let analysis = self.analysis;
        let Opened { packets, .. } = self.open();
        let timeline = packets::timeline(packets, &limits, &progress.done);
        let each = &mut |seen: &Seen<'_>| -> Result<(), Error> {
            let (input, frame) = (seen.frame.place.input, seen.frame.place.frame);
            let stream = seen.segment.and_then(|segment| segment.place.tcp_stream);
            let routed = match stream.and_then(|stream| routes.get_mut(&(input, stream))) {
                Some(route) => {
                    let start = route.position;
                    route.position = start.saturating_add(weight(seen));
                    stream.zip(Some((start, route.position)))
                }
                None => measured.parts.get(&(input, frame)).copied(),
            };
            let ending = ends.get(&(input, frame)).map_or(&[][..], Vec::as_slice);
            if routed.is_none() && ending.is_empty() {
                return Ok(());
            }
            let added = added.get(&input).copied().unwrap_or(Span::ZERO);
            let from = Origin {
                name: analysis.input_name(seen.frame.place),
                added,
            };
            let mut taken = Vec::new();
            if let Some((stream, position)) = routed
                && let Some(route) = routes.get(&(input, stream))
            {
                for &index in &route.files {
                    let (Some(Some(file)), Some(choice), Some(found)) = (
                        files.get_mut(index),
                        choices.get(index),
                        found.get_mut(index),
                    ) else {
                        continue;
                    };
                    if choice.has(input, stream, position) {
                        file.packet(seen, &from, key, found)?;
                        taken.push(index);
                    }
                }
            }
            for &index in ending.iter().filter(|index| !taken.contains(index)) {
                if let Some(Some(file)) = files.get_mut(index) {
                    file.end(seen, &from)?;
                }
            }
            Ok(())
        };
        let (summaries, _) = packets::walk(timeline, &limits, &measured.secrets, each)?;
        for (id, summary) in summaries {
            if let Some(error) = summary.error {
                let name = analysis
                    .inputs
                    .get(id.0 as usize)
                    .map_or("", |row| &*row.name);
                let why = (name.to_owned(), self.reason(&error));
                self.unread.entry(id).or_insert(why);
            }
        }
        let mut named = Vec::new();
        for (index, file) in files.into_iter().enumerate() {
            if let Some(file) = file {
                let done = file.writer.finish();
                done.map_err(|error| unwritable(&file.name, &error))?;
                named.push((index, file.name));
            }
        }
        Ok(named)
    }

    fn copy_entries(
        &mut self,
        plan: &Plan,
        choices: &[Choice],
        shelf: &mut dyn Shelf,
        found: &mut [Vec<Option<Copied>>],
    ) -> Result<Vec<Named>, Error> {
        let mut named: Vec<Named> = Vec::new();
        let (key, limits, progress) = (
            self.options.redact.as_ref(),
            self.options.limits,
            self.progress,
        );
        let Opened { hars, .. } = self.open();
        let mut unread = Vec::new();
        for (id, source) in hars {
            let mut files = Vec::new();
            for (index, (one, choice)) in plan.wanted.iter().zip(choices).enumerate() {
                if !choice.entries().any(|(input, _)| input == id) {
                    continue;
                }
                let before = named.iter().filter(|(of, _)| *of == index).count();
                let name: Arc<str> = match before {
                    0 => format!("{}.har", one.stem).into(),
                    before => format!("{}-{}.har", one.stem, before + 1).into(),
                };
                named.push((index, Arc::clone(&name)));
                let out = shelf.create(&name);
                let out = out.map_err(|error| unwritable(&name, &error))?;
                let comment = self.about(one, choice).join("\n");
                files.push((index, name, har::Writer::new(out, comment, key.is_none())));
            }
            let mut text = match source.open(&limits, &progress.done) {
                Ok((text, _)) => text,
                Err(error) => {
                    unread.push((id, self.reason(&error)));
                    Box::new(io::empty())
                }
            };
            input::har::parts(&mut *text, &limits, &mut |part| -> Result<(), Error> {
                match part {
                    Raw::Creator(json) => {
                        for (.., writer) in &mut files {
                            writer.creator(json);
                        }
                    }
                    Raw::Entry(number, json) => {
                        for (index, name, writer) in &mut files {
                            let (Some(choice), Some(one), Some(found)) = (
                                choices.get(*index),
                                plan.wanted.get(*index),
                                found.get_mut(*index),
                            ) else {
                                continue;
                            };
                            if !choice.has_entry(id, number) {
                                continue;
                            }
                            let comment = comments(one, id, number).join("; ");
                            let frame = writer.entry(json, &comment);
                            let frame = frame.map_err(|error| unwritable(name, &error))?;
                            note(
                                one,
                                id,
                                number,
                                found,
                                &Copied {
                                    file: Arc::clone(name),
                                    frame,
                                    tcp_stream: None,
                                },
                            );
                        }
                    }
                }
                Ok(())
            })?;
            for (_, name, writer) in files {
                writer.finish().map_err(|error| unwritable(&name, &error))?;
            }
        }
        for (id, why) in unread {
            let name = self
                .source(id)
                .map_or_else(String::new, |source| source.name);
            self.unread.entry(id).or_insert((name, why));
        }
        Ok(named)
    }

    /// What is said of a whole file: the finding, what is in it, and what is not.
    fn about(&self, one: &Wanted, choice: &Choice) -> Vec<String> {
        let finding = self.analysis.findings.get(one.finding as usize);
        let mut lines: Vec<String> = finding.map(headline).into_iter().collect();
        let connections: Vec<Place> = choice
            .connections()
            .map(|(input, stream)| Place {
                input,
                frame: 0,
                tcp_stream: Some(stream),
            })
            .collect();
        let entries: Vec<Place> = choice
            .entries()
            .map(|(input, frame)| Place {
                input,
                frame,
                tcp_stream: None,
            })
            .collect();
        let mut kept = String::from("In it: ");
        kept.push_str(&self.list(connections.iter().chain(&entries)));
        kept.push_str(if self.options.redact.is_none() {
            ", payload as captured."
        } else {
            "; the payload is cut off: packets have bare headers with other addresses, entries times, method and status."
        });
        lines.push(kept);
        let bytes: u64 = choice.left_out.iter().map(|left| left.bytes).sum();
        if bytes > 0 {
            let partly: Vec<Place> = choice
                .left_out
                .iter()
                .filter(|left| !left.wholly)
                .map(|left| left.place)
                .collect();
            let wholly: Vec<Place> = choice
                .left_out
                .iter()
                .filter(|left| left.wholly)
                .map(|left| left.place)
                .collect();
            let mut left = format!(
                "Left out, for a file holds no more than {} bytes: {bytes} bytes",
                self.options.limits.evidence_bytes
            );
            if !partly.is_empty() {
                left.push_str("; part of ");
                left.push_str(&self.list(partly.iter()));
            }
            if !wholly.is_empty() {
                left.push_str("; all of ");
                left.push_str(&self.list(wholly.iter()));
            }
            left.push('.');
            lines.push(left);
        }
        lines
    }

    /// Connections and entries by input, some of many.
    fn list<'p>(&self, places: impl Iterator<Item = &'p Place>) -> String {
        /// As many are named of one input.
        const NAMED: usize = 24;
        let mut by_input: BTreeMap<(InputId, bool), Vec<String>> = BTreeMap::new();
        for place in places {
            let number = place.tcp_stream.unwrap_or(place.frame).to_string();
            let key = (place.input, place.tcp_stream.is_some());
            by_input.entry(key).or_default().push(number);
        }
        let lists = by_input.iter().map(|((input, packets), numbers)| {
            let named = numbers.get(..NAMED).unwrap_or(numbers).join(", ");
            let more = match numbers.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let what = if *packets { "tcp.stream" } else { "entry" };
            let name = self.analysis.inputs.get(input.0 as usize);
            let name = name.map_or_else(String::new, |row| evidence::input_name(&row.name));
            format!("{what} {named}{more} of {name}")
        });
        lists.collect::<Vec<_>>().join("; ")
    }
}

/// Inputs that were opened again.
#[derive(Default)]
struct Opened<'p> {
    packets: Vec<(InputId, PacketInput<'p>)>,
    hars: Vec<(InputId, input::HarInput<'p>)>,
}

/// Who wants a connection, and how much of it has passed.
#[derive(Debug, Default)]
struct Route {
    position: u64,
    files: Vec<usize>,
}

/// The input that a packet is copied from.
struct Origin<'a> {
    name: &'a str,
    /// What was added to its times.
    added: Span,
}

/// A pcapng file of one finding.
struct PacketFile<'a> {
    name: Arc<str>,
    one: &'a Wanted,
    writer: pcapng::Writer<Box<dyn Write>>,
    /// Whether packets get headers of their own.
    bare: bool,
    /// Its interfaces, by input and number there.
    interfaces: BTreeMap<(InputId, u16), u32>,
    numbers: tcp::StreamNumbers,
    frames: u32,
}

impl<'a> PacketFile<'a> {
    fn new(
        name: Arc<str>,
        run: &Run<'_>,
        one: &'a Wanted,
        (choice, measured): (&Choice, &Measured),
        shelf: &mut dyn Shelf,
    ) -> Result<Self, Error> {
        let application = concat!("forkscope ", env!("CARGO_PKG_VERSION"));
        let writer = shelf.create(&name).and_then(|out| {
            let mut writer = pcapng::Writer::new(out, application, &run.about(one, choice))?;
            // Of these connections alone, and before their packets, so that everybody reads them.
            let randoms: BTreeSet<tls::Random> = choice
                .connections()
                .filter_map(|key| run.analysis.tls_randoms.get(&key))
                .flatten()
                .copied()
                .collect();
            let log: String = randoms
                .iter()
                .map(|random| measured.secrets.key_log(random))
                .collect();
            if run.options.redact.is_none() && !log.is_empty() {
                writer.secrets(pcapng::TLS_KEY_LOG, log.as_bytes())?;
            }
            Ok(writer)
        });
        Ok(Self {
            writer: writer.map_err(|error| unwritable(&name, &error))?,
            name,
            one,
            bare: run.options.redact.is_some(),
            interfaces: BTreeMap::new(),
            numbers: tcp::StreamNumbers::new(),
            frames: 0,
        })
    }

    /// Copies a packet.
    fn packet(
        &mut self,
        seen: &Seen<'_>,
        from: &Origin<'_>,
        key: Option<&Key>,
        found: &mut [Option<Copied>],
    ) -> Result<(), Error> {
        let (input, frame) = (seen.frame.place.input, seen.frame.place.frame);
        let (data, original_len) = match (key, seen.segment) {
            (None, _) => (Cow::Borrowed(seen.frame.data), seen.frame.original_len),
            // Part of a segment: it is written where it is whole.
            (Some(_), None) => return Ok(()),
            (Some(key), Some(segment)) => {
                let ends = [segment.source, segment.destination];
                let ends = ends.map(|end| SocketAddr::new(key.address(end.ip()), end.port()));
                let (bytes, len) = bare::packet(segment, ends, seen.payload.len());
                (Cow::Owned(bytes), len)
            }
        };
        let written = self.interface(seen, from).and_then(|interface| {
            let comments = comments(self.one, input, frame);
            let time = seen.frame.time;
            self.writer
                .packet(interface, time, &data, original_len, &comments)
        });
        written.map_err(|error| unwritable(&self.name, &error))?;
        self.frames = self.frames.saturating_add(1);
        let tcp_stream = seen.segment.map(|segment| self.numbers.number(segment));
        note(
            self.one,
            input,
            frame,
            found,
            &Copied {
                file: Arc::clone(&self.name),
                frame: self.frames,
                tcp_stream,
            },
        );
        Ok(())
    }

    /// Notes where the capture ends: the time of a packet that is none of the finding's, and nothing of its bytes.
    fn end(&mut self, seen: &Seen<'_>, from: &Origin<'_>) -> Result<(), Error> {
        let comment = format!(
            "capture-end: frame {} of {} is the last of the capture; its bytes are not evidence, and left out",
            seen.frame.place.frame,
            evidence::input_name(from.name)
        );
        let written = self.interface(seen, from).and_then(|interface| {
            let (time, len) = (seen.frame.time, seen.frame.original_len);
            self.writer.packet(interface, time, &[], len, &[comment])
        });
        written.map_err(|error| unwritable(&self.name, &error))?;
        self.frames = self.frames.saturating_add(1);
        Ok(())
    }

    /// The number of a packet's interface in this file.
    fn interface(&mut self, seen: &Seen<'_>, from: &Origin<'_>) -> io::Result<u32> {
        let &Origin { name, added } = from;
        let key = (seen.frame.place.input, seen.interface);
        if let Some(&known) = self.interfaces.get(&key) {
            return Ok(known);
        }
        let plain = |link| Interface {
            link,
            snapshot: 0,
            resolution: NANOSECONDS,
            offset: 0,
            options: Vec::new(),
        };
        // What a file says of its interfaces names machines, and its filters hosts.
        let mut interface = match seen.described {
            _ if self.bare => plain(bare::LINK),
            Some(described) => described.clone(),
            None => plain(seen.frame.link),
        };
        let writable = matches!(interface.resolution, 0..=18 | 0x80..=0xbf);
        if !writable || !pcapng::counts_exactly(added.nanos(), interface.resolution) {
            interface.resolution = NANOSECONDS;
        }
        let mut comment = format!(
            "interface {} of {}",
            seen.interface,
            evidence::input_name(name)
        );
        if added != Span::ZERO {
            comment.push_str(&format!(
                "; {:.6} ms were added to its times",
                added.millis_f64()
            ));
        }
        let number = self.writer.interface(&interface, &[comment])?;
        self.interfaces.insert(key, number);
        Ok(number)
    }
}

/// What a packet counts: its bytes, and those of its block.
fn weight(seen: &Seen<'_>) -> u64 {
    /// Framing and fixed fields of an enhanced packet block.
    const BLOCK: u64 = 32;
    seen.assembled.unwrap_or(seen.frame.data.len()) as u64 + BLOCK
}

/// The finding in a line.
fn headline(finding: &Finding) -> String {
    let mut line = format!(
        "{} ({}, {} confidence)",
        finding.code,
        finding.severity.name(),
        finding.confidence.name()
    );
    if let Some(resume) = finding.resume {
        line.push_str(&format!(" on resume {resume}"));
    }
    if !finding.session_id.is_empty() {
        line.push_str(&format!(
            " of session {}",
            evidence::comment(&finding.session_id)
        ));
    }
    line.push_str(": ");
    line.push_str(&evidence::comment(&finding.detail));
    line
}

/// What is said of a frame or entry.
fn comments(one: &Wanted, input: InputId, frame: u32) -> Vec<String> {
    let here = one.marks.iter();
    let here = here.filter(|mark| (mark.place.input, mark.place.frame) == (input, frame));
    here.map(|mark| format!("{}: {}", mark.kind, evidence::comment(&mark.note)))
        .collect()
}

/// Notes where the marks of a frame went.
fn note(one: &Wanted, input: InputId, frame: u32, found: &mut [Option<Copied>], copied: &Copied) {
    for (mark, slot) in one.marks.iter().zip(found) {
        if (mark.place.input, mark.place.frame) == (input, frame) {
            *slot = Some(copied.clone());
        }
    }
}

/// The index: a row a mark, and one for each finding that has no evidence.
fn rows(plan: &Plan, files: &[Named], found: &[Vec<Option<Copied>>]) -> Vec<Exhibit> {
    let mut rows = Vec::new();
    for (index, (one, found)) in plan.wanted.iter().zip(found).enumerate() {
        let first = files.iter().find(|(of, _)| *of == index);
        for (mark, copied) in one.marks.iter().zip(found) {
            let file = copied.as_ref().map(|copied| &copied.file);
            rows.push(Exhibit {
                number: one.number,
                finding: one.finding,
                file: file.or(first.map(|(_, name)| name)).cloned(),
                mark: mark.kind,
                note: mark.note.clone(),
                place: mark.place,
                new_frame: copied.as_ref().map(|copied| copied.frame),
                new_tcp_stream: copied.as_ref().and_then(|copied| copied.tcp_stream),
            });
        }
    }
    let next = u32::try_from(plan.wanted.len()).unwrap_or(u32::MAX);
    for (&finding, number) in plan.beyond.iter().zip(next.saturating_add(1)..) {
        rows.push(Exhibit {
            number,
            finding,
            file: None,
            mark: "finding",
            note: "more findings than files are written for".to_owned(),
            place: Place::default(),
            new_frame: None,
            new_tcp_stream: None,
        });
    }
    rows
}

fn unwritable(name: &str, error: &io::Error) -> Error {
    Error::new(format!("{name}: cannot write: {error}"))
}

/// As pcapng's `if_tsresol`: what times are kept in here.
const NANOSECONDS: u8 = 9;
