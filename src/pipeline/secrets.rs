//! TLS secrets: from key logs that are named, and from secrets blocks of the captures, wherever they stand.
//!
//! A capture is read once when its secrets come before the packets that need them, as they nearly always do.
//! Where some came later, and a connection would have wanted them, all packets are read once more with all
//! secrets. What can be read only once is not: when there is such an input, the other inputs are searched for
//! secrets before anything is read, and what comes late in it is said.

use super::{Progress, draft::Settings, packets};
use crate::{
    anomaly::Kind,
    error::Error,
    input::PacketInput,
    limits::Limits,
    model::{analysis::KeyLog, place::InputId},
    tls::{Lines, Secrets},
};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

/// Reads the key logs that were named.
///
/// # Errors
///
/// When one cannot be read, or is none.
pub(super) fn read_key_logs(
    paths: &[PathBuf],
    limits: &Limits,
) -> Result<(Secrets, Vec<KeyLog>), Error> {
    let mut secrets = Secrets::default();
    let mut logs = Vec::new();
    for path in paths {
        let lines = read_key_log(path, limits, &mut secrets)
            .map_err(|error| Error::io("cannot read the key log", path, error))?;
        if lines.bad > 0 && lines.secrets + lines.unused + lines.beyond == 0 {
            return Err(Error::new(format!(
                "{}: not a key log: no line of it is one of TLS secrets",
                path.display()
            )));
        }
        logs.push(KeyLog {
            name: path.display().to_string(),
            secrets: lines.secrets,
            bad_lines: lines.bad,
            first_bad: lines.first_bad.map(|(line, why)| (line, why.to_owned())),
            beyond: lines.beyond,
        });
    }
    Ok((secrets, logs))
}

fn read_key_log(path: &Path, limits: &Limits, secrets: &mut Secrets) -> io::Result<Lines> {
    let file = File::open(path)?;
    let mut reader = BufReader::new(file);
    let mut lines = Lines::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = Read::take(&mut reader, LONGEST_LINE).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(lines);
        }
        lines.note(secrets.line(&line, limits));
    }
}

/// Reads all packets with the secrets of key logs and of the inputs.
pub(super) fn read_packets(
    inputs: Vec<(InputId, PacketInput<'_>)>,
    settings: &Arc<Settings>,
    mut secrets: Secrets,
    progress: &Progress,
) -> packets::Packets {
    let limits = &settings.limits;
    let again: Option<Vec<_>> = inputs
        .iter()
        .map(|(id, input)| Some((*id, input.again()?)))
        .collect();
    let found: Vec<Box<[u8]>> = if again.is_some() || inputs.len() == 1 {
        let first = inputs.iter().flat_map(|(_, input)| input.key_logs());
        first.cloned().collect()
    } else {
        let all = inputs
            .iter()
            .flat_map(|(_, input)| input.all_key_logs(limits));
        all.collect()
    };
    for text in found {
        // What is wrong with them is noted when their turn comes.
        secrets.read(&text, limits);
    }
    let timeline = packets::timeline(inputs, limits, &progress.done);
    let mut read = packets::read(timeline, settings, &Arc::new(secrets));
    if read.late.is_empty() {
        return read;
    }
    if let Some(again) = again {
        let once = progress.done.load(Ordering::Relaxed);
        progress.total.fetch_add(once, Ordering::Relaxed);
        let timeline = packets::timeline(again, limits, &progress.done);
        return packets::read(timeline, settings, &read.secrets);
    }
    for place in std::mem::take(&mut read.late) {
        read.anomalies.note(Kind::LateTlsKeys, place, || {
            "read as without those keys".to_owned()
        });
    }
    read
}

/// A line of a key log has less than 300 bytes; a file of another kind need not have lines at all.
const LONGEST_LINE: u64 = 4 << 10;
