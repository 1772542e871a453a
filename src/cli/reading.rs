//! What to read and how: the flags that every reading command has.

use super::{Time, complain, height, progress, values, width};
use anyhow::Context;
use clap::{Args, ValueHint};
use forkscope::{
    error::nearest,
    facts::Facts,
    limits::Limits,
    model::{
        analysis::{Analysis, Input, KeyLog},
        time::Span,
    },
    pipeline::{self, Options},
    redact::Key,
    report::{Style, escape::escape_name_to},
};
use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

/// What to read and how.
#[derive(Args, Debug)]
pub(crate) struct Reading {
    /// Captures: files, folders (searched by content), or - for standard input
    ///
    /// pcap, pcapng, HAR and facts (see extract) are told apart by their first bytes; .gz and .zst are unpacked, but
    /// for facts. All inputs of one call are one body of evidence: rotated files of one capture join in time
    /// order, and a connection or a session may span files.
    #[arg(required = true, value_name = "INPUT", value_hint = ValueHint::AnyPath)]
    inputs: Vec<String>,
    /// TLS secrets in a file as SSLKEYLOGFILE makes them (NSS key log format); repeatable
    ///
    /// Secrets inside pcapng captures are used by themselves. All are used for all inputs.
    #[arg(long, value_name = "FILE")]
    keylog: Vec<PathBuf>,
    /// Only exchanges with these servers; repeatable
    #[arg(long, value_name = "HOST[:PORT]", value_parser = values::server)]
    server: Vec<(String, Option<u16>)>,
    /// Another header than Mcp-Session-Id, for other systems that resume SSE
    #[arg(long, value_name = "NAME", value_parser = values::header)]
    session_header: Option<String>,
    /// Judge any SSE with Last-Event-ID: one session per client and URL
    #[arg(long)]
    all_sse: bool,
    /// Add DUR to all times of the input FILE, whose clock was wrong: tap-b.pcap=-1.5s; repeatable
    ///
    /// FILE is an input as it was named, as it was found in a folder, or its last path component;
    /// DUR may be negative (-1.5s, +200ms, 2min; seconds without a unit). Times are put right before
    /// anything is put in order, and reports have the corrected ones. Without it, the clocks of inputs that show the
    /// same exchanges are compared, and put right by that; what is given here counts instead.
    #[arg(
        long,
        value_name = "FILE=DUR",
        value_parser = values::clock_offset,
        allow_hyphen_values = true
    )]
    clock_offset: Vec<(String, Span)>,
    /// Show session ids, hosts and what stands for them in event ids as hashes, and no payload
    ///
    /// For reports that are given away. Equal names have equal hashes under one key; the key is what
    /// KEYFILE holds (16 bytes or more, whatever they are), else new each time. Numbers of event ids, ports
    /// and words of HTTP and MCP stay; inputs are called input-1, input-2, as they are named. No verdict and
    /// no count changes. In facts (extract), texts that look like the names stand in their place, so that an audit of
    /// them says the same.
    #[arg(
        long,
        value_name = "KEYFILE",
        num_args = 0..=1,
        require_equals = true,
        value_hint = ValueHint::FilePath
    )]
    redact: Option<Option<PathBuf>>,
    /// How times are written
    #[arg(long, value_name = "FORM", default_value = "utc")]
    time: Time,
    /// Threads, at most 256; 0 for one a core
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    jobs: usize,
    /// Ceiling for buffered stream data, such as 512M or 2G
    ///
    /// Lowers the caps on what one flow may hold: a sixty-fourth of it for bytes out of order and
    /// for an answer whose request is late, an eighth for a JSON body or an event, half for a HAR
    /// entry. They are never raised above their defaults, which 1G leaves alone.
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    memory: Option<u64>,
    /// No progress, and no summary
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl Reading {
    /// The options of the library, but for those of `audit` alone.
    pub(crate) fn options(&self) -> anyhow::Result<Options> {
        let defaults = Options::default();
        Ok(Options {
            inputs: self.inputs.clone(),
            session_header: self
                .session_header
                .clone()
                .unwrap_or(defaults.session_header),
            servers: self.server.clone(),
            key_logs: self.keylog.clone(),
            clock_offsets: self.clock_offset.clone(),
            all_sse: self.all_sse,
            jobs: self.jobs,
            redact: self.redact.as_ref().map(key).transpose()?,
            limits: self.memory.map_or(defaults.limits, limits),
            ..Options::default()
        })
    }

    /// Refuses what can be read only once.
    pub(crate) fn expect_readable_again(&self) -> anyhow::Result<()> {
        for input in &self.inputs {
            let path = Path::new(input);
            let once = input == "-" || path.exists() && !path.is_file() && !path.is_dir();
            if once {
                let mut name = String::new();
                escape_name_to(input, &mut name);
                anyhow::bail!(
                    "--evidence reads its inputs again, and {name} can be read only once: save it to a file first"
                );
            }
        }
        Ok(())
    }

    /// How reports look, with colours or without.
    pub(crate) fn style(&self, color: bool, verbose: bool) -> Style {
        let defaults = Style::default();
        Style {
            time: self.time.into(),
            color,
            width: width(),
            height: height(defaults.height),
            verbose,
            ..defaults
        }
    }

    /// Reads and audits, with progress on a terminal, and says on standard error what could not
    /// be read and what is damaged.
    pub(crate) fn run(&self, options: &Options) -> anyhow::Result<Analysis> {
        let progress = pipeline::Progress::default();
        let analysis =
            progress::beside(&progress, self.quiet, || pipeline::run(options, &progress))
                .context("nothing was read")?;
        self.tell(&analysis.key_logs, &analysis.inputs);
        if !self.server.is_empty() && analysis.exchanges.is_empty() {
            complain("no HTTP exchange is with a server that --server names");
        }
        Ok(analysis)
    }

    /// Reads and does not audit; otherwise as [`Reading::run`].
    pub(crate) fn extract(&self, options: &Options) -> anyhow::Result<Facts> {
        let progress = pipeline::Progress::default();
        let facts = progress::beside(&progress, self.quiet, || {
            pipeline::extract(options, &progress)
        })
        .context("nothing was read")?;
        self.tell(&facts.key_logs, &facts.inputs);
        Ok(facts)
    }

    /// Says on standard error what could not be read and what is damaged.
    fn tell(&self, key_logs: &[KeyLog], inputs: &[Input]) {
        for line in key_logs.iter().flat_map(key_log_troubles) {
            complain(&line);
        }
        for input in inputs {
            for mut line in troubles(input) {
                if self.redact.is_none()
                    && let Some(near) = meant(&input.name)
                {
                    line.push_str("; did you mean ");
                    escape_name_to(&near, &mut line);
                    line.push('?');
                }
                complain(&line);
            }
        }
    }
}

/// The key that hashes are made with: of a file, or one of this run alone.
fn key(file: &Option<PathBuf>) -> anyhow::Result<Key> {
    let Some(file) = file else {
        return Ok(Key::random()?);
    };
    let read = || {
        let mut bytes = Vec::new();
        File::open(file)?
            .take(LONGEST_KEY)
            .read_to_end(&mut bytes)?;
        anyhow::Ok(Key::from_bytes(&bytes)?)
    };
    read().with_context(|| format!("{}: no key can be had from it", file.display()))
}

/// More of a key file is not read: it is no key, or as good a one by then.
const LONGEST_KEY: u64 = 1 << 20;

/// Whether an input could not be read at all.
pub(crate) fn any_unreadable(analysis: &Analysis) -> bool {
    analysis.inputs.iter().any(is_unreadable)
}

/// Whether it could not be read at all.
pub(crate) fn is_unreadable(input: &Input) -> bool {
    input.unreadable.is_some()
}

/// What is wrong with `input`, a line each that names it.
fn troubles(input: &Input) -> impl Iterator<Item = String> {
    let mut name = String::new();
    escape_name_to(&input.name, &mut name);
    let damaged = Some(&input.damaged).filter(|damage| !damage.is_empty());
    let troubles = [input.unreadable.as_ref(), damaged];
    troubles.into_iter().flatten().map(move |why| {
        // It quotes bytes of the input in an escaped form already: backslashes stay.
        let mut reason = String::new();
        escape_name_to(why, &mut reason);
        // Errors of the system already come with the name.
        let reason = reason.strip_prefix(&format!("{name}: ")).unwrap_or(&reason);
        format!("{name}: {reason}")
    })
}

/// The file that a name which nothing has may have been meant for: of the same folder, spelt nearly so.
fn meant(name: &str) -> Option<String> {
    let path = Path::new(name);
    let wanted = path.file_name()?.to_str()?;
    if name == "-" || path.exists() {
        return None;
    }
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let files = fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let names = files.take(LOOKED_AT).flatten();
    let names: Vec<String> = names
        .filter_map(|file| file.file_name().into_string().ok())
        .collect();
    let near = nearest(wanted, names.iter().map(String::as_str))?;
    Some(path.with_file_name(near).display().to_string())
}

/// Files of a folder that are looked at for a suggestion: a folder of rotated captures has thousands.
const LOOKED_AT: usize = 10_000;

/// What is wrong with a key log, a line each that names it; what its lines say is not shown.
fn key_log_troubles(log: &KeyLog) -> impl Iterator<Item = String> {
    let mut name = String::new();
    escape_name_to(&log.name, &mut name);
    let bad = log.first_bad.as_ref().map(|(line, why)| {
        let others = match log.bad_lines {
            0 | 1 => String::new(),
            lines => format!(", and {} more such lines", lines - 1),
        };
        format!("{name}: line {line} is none of a key log: {why}{others}")
    });
    let beyond = (log.beyond > 0).then(|| {
        format!(
            "{name}: {} secrets left out: there are more than the limit",
            log.beyond
        )
    });
    let empty = (log.secrets == 0).then(|| format!("{name}: there are no TLS secrets in it"));
    [bad, beyond, empty].into_iter().flatten()
}

/// Caps for a ceiling of `memory` bytes: shares of it, and never more than the defaults.
fn limits(memory: u64) -> Limits {
    let share = |part: u64, most: usize| {
        let share = usize::try_from(memory / part).unwrap_or(usize::MAX);
        most.min(share)
    };
    let defaults = Limits::default();
    Limits {
        out_of_order: share(64, defaults.out_of_order),
        all_out_of_order: share(64, defaults.all_out_of_order),
        held_bodies: share(32, defaults.held_bodies),
        early_response: share(64, defaults.early_response),
        json_body: share(8, defaults.json_body),
        event: share(8, defaults.event),
        har_entry: share(2, defaults.har_entry),
        block: share(2, defaults.block),
        all_tls_held: share(64, defaults.all_tls_held),
        ..defaults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_lowers_caps_and_never_raises_them() {
        let defaults = Limits::default();
        let small = limits(64 << 20);
        assert_eq!(small.out_of_order, 1 << 20);
        assert_eq!(small.json_body, 8 << 20);
        assert_eq!(small.har_entry, 32 << 20);
        for memory in [1 << 30, u64::MAX] {
            let large = limits(memory);
            assert_eq!(large.out_of_order, defaults.out_of_order);
            assert_eq!(large.event, defaults.event);
            assert_eq!(large.har_entry, defaults.har_entry);
        }
    }

    #[test]
    fn names_the_input_once_and_escapes_it() {
        let input = Input {
            name: "a\n.pcap".to_owned(),
            unreadable: Some("a\n.pcap: no such file".into()),
            damaged: r#"offset 40: starts with "\x7f""#.into(),
            ..Input::default()
        };
        let lines: Vec<_> = troubles(&input).collect();
        assert_eq!(
            lines,
            [
                r"a\n.pcap: no such file",
                r#"a\n.pcap: offset 40: starts with "\x7f""#
            ]
        );
    }
}
