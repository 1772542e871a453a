//! Packets of many files in one order of time.
//!
//! Rotated files of one capture follow each other, overlapping captures interleave. Within a file
//! its own order is kept, even where its times go backwards: a TCP stream is in the order that the
//! capture saw.

use super::{
    Manner, Opened, PacketInput, open_as,
    packets::{Batch, Damage, Pool, Reader, Totals},
};
use crate::{
    anomaly::Anomalies,
    error::Error,
    limits::Limits,
    model::{packet::LinkType, place::InputId, time::Timestamp},
};
use std::{
    cmp::Reverse, collections::BinaryHeap, mem, ops::Range, sync::Arc, sync::atomic::AtomicU64,
};

/// Merges the packets of a run's inputs.
///
/// A file is open from when its first packet is due until its last is given.
#[derive(Debug)]
pub struct Timeline<'p> {
    lanes: Vec<Lane<'p>>,
    /// The lanes that have not ended, by the time of their next packet. Equal times go by input.
    due: BinaryHeap<Reverse<(Timestamp, InputId, usize)>>,
    open: usize,
    pool: Pool,
    /// Key logs of TLS that were found and not taken yet.
    key_logs: Vec<(InputId, Box<[u8]>)>,
    limits: Limits,
    progress: &'p AtomicU64,
}

/// Consecutive packets of one file, none of which another file's come before.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The file.
    pub input: InputId,
    /// The batch they are in.
    pub batch: Arc<Batch>,
    /// Which of the batch they are.
    pub range: Range<usize>,
}

/// What was in one input.
#[derive(Debug, Default)]
pub struct Summary {
    /// As [`Reader::format`]; empty if it could not be opened.
    pub format: String,
    /// Link types in order of appearance.
    pub link_types: Vec<LinkType>,
    /// Sums over its packets.
    pub totals: Totals,
    /// What is wrong with it.
    pub damage: Option<Damage>,
    /// Why it could not be opened when its time had come.
    pub error: Option<Error>,
}

#[derive(Debug)]
struct Lane<'p> {
    input: InputId,
    state: State<'p>,
}

#[derive(Debug)]
enum State<'p> {
    Waiting(PacketInput<'p>),
    /// `next` is within `batch`.
    Open {
        reader: Box<Reader<'p>>,
        batch: Arc<Batch>,
        next: usize,
    },
    Ended(Box<Summary>),
}

impl<'p> Timeline<'p> {
    /// Merges `inputs`. `progress` grows by bytes of the files as stored, while they are read.
    #[must_use]
    pub fn new(
        inputs: Vec<(InputId, PacketInput<'p>)>,
        limits: &Limits,
        progress: &'p AtomicU64,
    ) -> Self {
        let lanes: Vec<_> = inputs
            .into_iter()
            .map(|(input, packets)| Lane {
                input,
                state: State::Waiting(packets),
            })
            .collect();
        let due = lanes
            .iter()
            .enumerate()
            .map(|(index, lane)| {
                // One whose first time is not known is opened first of all, and tells it.
                let time = match &lane.state {
                    State::Waiting(packets) => packets.first_time,
                    State::Open { .. } | State::Ended(_) => None,
                };
                Reverse((time.unwrap_or(EARLIEST), lane.input, index))
            })
            .collect();
        Self {
            lanes,
            due,
            open: 0,
            pool: Pool::default(),
            key_logs: Vec::new(),
            limits: *limits,
            progress,
        }
    }

    /// How many inputs it merges.
    #[must_use]
    pub const fn inputs(&self) -> usize {
        self.lanes.len()
    }

    /// The next packets; `None` when there are no more.
    pub fn next(&mut self, anomalies: &mut Anomalies) -> Option<Piece> {
        loop {
            let Reverse((_, _, index)) = self.due.pop()?;
            let rival = self
                .due
                .peek()
                .map(|Reverse((time, input, _))| (*time, *input));
            let lane = self.lanes.get_mut(index)?;
            let input = lane.input;
            let State::Open {
                reader,
                batch,
                next,
            } = &mut lane.state
            else {
                self.start(index, anomalies);
                continue;
            };
            let start = *next;
            // The first is due: nothing in the heap is before it.
            let mut end = start + 1;
            while let Some(time) = batch.time(end)
                && rival.is_none_or(|rival| (time, input) < rival)
            {
                end += 1;
            }
            let piece = Piece {
                input,
                batch: Arc::clone(batch),
                range: start..end,
            };
            if let Some(time) = batch.time(end) {
                *next = end;
                self.due.push(Reverse((time, input, index)));
                return Some(piece);
            }
            let following = reader.next_batch(anomalies, input);
            let found = reader.take_key_logs().into_iter();
            self.key_logs.extend(found.map(|text| (input, text)));
            if let Some(following) = following {
                let time = following.time(0).unwrap_or(EARLIEST);
                *batch = Arc::new(following);
                *next = 0;
                self.due.push(Reverse((time, input, index)));
            } else {
                let summary = Summary::of(reader);
                lane.state = State::Ended(Box::new(summary));
                self.open -= 1;
            }
            return Some(piece);
        }
    }

    /// The key logs of TLS (Decryption Secrets Blocks) that were found since the last call: up to a batch beyond
    /// the packets that were given.
    pub fn take_key_logs(&mut self) -> Vec<(InputId, Box<[u8]>)> {
        mem::take(&mut self.key_logs)
    }

    /// What was in each input, in the order they were given.
    #[must_use]
    pub fn finish(self) -> Vec<(InputId, Summary)> {
        self.lanes
            .into_iter()
            .map(|lane| {
                let summary = match lane.state {
                    State::Waiting(_) => Summary::default(),
                    State::Open { reader, .. } => Summary::of(&reader),
                    State::Ended(summary) => *summary,
                };
                (lane.input, summary)
            })
            .collect()
    }

    /// Opens a lane and puts it where its first packet is due.
    fn start(&mut self, index: usize, anomalies: &mut Anomalies) {
        let manner = Manner {
            chunk: (MEMORY / (self.open + 1)).clamp(CHUNK_MIN, Manner::FULL.chunk),
            parked: self.open >= OPEN,
        };
        let Some(lane) = self.lanes.get_mut(index) else {
            return;
        };
        let State::Waiting(packets) = mem::replace(&mut lane.state, State::Ended(Box::default()))
        else {
            return;
        };
        let reader = match packets.open {
            Some(reader) => Ok(reader),
            None => match open_as(&packets.source, &self.limits, manner, self.progress) {
                Ok(Opened::Packets(reader)) => Ok(reader),
                Ok(Opened::Har(..) | Opened::Facts(_)) => {
                    Err(packets.source.refused("it has changed"))
                }
                Err(error) => Err(error),
            },
        };
        let mut reader = match reader {
            Ok(reader) => reader,
            Err(error) => {
                lane.state = State::Ended(Box::new(Summary {
                    error: Some(error),
                    ..Summary::default()
                }));
                return;
            }
        };
        reader.share(&self.pool);
        reader.move_times(packets.ahead);
        let first = reader.next_batch(anomalies, lane.input);
        let found = reader.take_key_logs().into_iter();
        let input = lane.input;
        self.key_logs.extend(found.map(|text| (input, text)));
        match first {
            Some(batch) => {
                let time = batch.time(0).unwrap_or(EARLIEST);
                self.due.push(Reverse((time, lane.input, index)));
                self.open += 1;
                lane.state = State::Open {
                    reader,
                    batch: Arc::new(batch),
                    next: 0,
                };
            }
            None => lane.state = State::Ended(Box::new(Summary::of(&reader))),
        }
    }
}

impl Summary {
    fn of(reader: &Reader<'_>) -> Self {
        Self {
            format: reader.format(),
            link_types: reader.link_types().to_vec(),
            totals: reader.totals(),
            damage: reader.damage().cloned(),
            error: None,
        }
    }
}

const EARLIEST: Timestamp = Timestamp::from_nanos(i64::MIN);

/// Files kept open at once, of the few that a strict `ulimit -n` allows a process; the next ones are
/// opened anew for every batch.
const OPEN: usize = 24;

/// Memory for the batches of files that are open at once, before batches become smaller.
const MEMORY: usize = 256 << 20;

/// The smallest batch.
const CHUNK_MIN: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::super::{
        Classified, Source, classify,
        packets::Order,
        samples::{PcapNg, pcap},
    };
    use super::*;
    use crate::anomaly::Kind;
    use std::{fs, sync::atomic::Ordering};

    /// A file with packets at these seconds.
    fn at(seconds: &[u64]) -> Vec<u8> {
        let packets: Vec<_> = seconds
            .iter()
            .map(|second| (second * 1_000_000, &b"data"[..], 6))
            .collect();
        pcap(Order::Little, 0xa1b2_c3d4, 1, &packets)
    }

    struct Merged {
        /// Input and seconds of every packet.
        packets: Vec<(u32, i64)>,
        /// Input and packets of every piece.
        pieces: Vec<(u32, usize)>,
        summaries: Vec<(InputId, Summary)>,
        anomalies: Anomalies,
    }

    /// Merges `files`; `gone` are removed between the look and the reading.
    fn merge(files: &[Vec<u8>], gone: &[usize]) -> Merged {
        let folder = tempfile::tempdir().unwrap();
        let progress = AtomicU64::new(0);
        let limits = Limits::default();
        let mut inputs = Vec::new();
        let mut paths = Vec::new();
        for (id, bytes) in (0..).zip(files) {
            let path = folder.path().join(format!("{id}"));
            fs::write(&path, bytes).unwrap();
            paths.push(path.clone());
            let source = Source {
                name: format!("{id}"),
                path: Some(path),
            };
            match classify(&source, &limits, &progress).unwrap() {
                Classified::Packets(packets) => inputs.push((InputId(id), packets)),
                Classified::Har(_) | Classified::Facts(_) => panic!("no packets"),
            }
        }
        for index in gone {
            fs::remove_file(paths.get(*index).unwrap()).unwrap();
        }
        let mut timeline = Timeline::new(inputs, &limits, &progress);
        let mut anomalies = Anomalies::default();
        let mut packets = Vec::new();
        let mut pieces = Vec::new();
        while let Some(piece) = timeline.next(&mut anomalies) {
            assert!(!piece.range.is_empty());
            pieces.push((piece.input.0, piece.range.len()));
            for frame in piece.batch.frames(piece.range, piece.input) {
                packets.push((frame.place.input.0, frame.time.nanos() / 1_000_000_000));
            }
        }
        assert!(timeline.next(&mut anomalies).is_none());
        if gone.is_empty() {
            let stored: usize = files.iter().map(Vec::len).sum();
            assert_eq!(progress.load(Ordering::Relaxed), stored as u64);
        }
        Merged {
            packets,
            pieces,
            summaries: timeline.finish(),
            anomalies,
        }
    }

    #[test]
    fn it_may_run_in_another_thread_than_its_pieces() {
        const fn crosses<T: Send>() {}
        crosses::<Timeline<'static>>();
        crosses::<Piece>();
    }

    #[test]
    fn rotated_files_follow_each_other_whole() {
        let merged = merge(&[at(&[5, 6]), at(&[1, 2]), at(&[3, 4, 5])], &[]);
        assert_eq!(merged.pieces, [(1, 2), (2, 2), (0, 1), (2, 1), (0, 1)]);
        let merged = merge(&[at(&[5, 6]), at(&[1, 2]), at(&[3, 4])], &[]);
        assert_eq!(merged.pieces, [(1, 2), (2, 2), (0, 2)]);
    }

    #[test]
    fn overlapping_captures_interleave_and_ties_go_by_input() {
        let merged = merge(&[at(&[1, 3, 5]), at(&[1, 2, 3, 9])], &[]);
        assert_eq!(
            merged.packets,
            [(0, 1), (1, 1), (1, 2), (0, 3), (1, 3), (0, 5), (1, 9)]
        );
    }

    #[test]
    fn the_order_of_a_file_is_kept_where_its_times_go_back() {
        let merged = merge(&[at(&[1, 8, 2, 9]), at(&[3, 4])], &[]);
        assert_eq!(
            merged.packets,
            [(0, 1), (1, 3), (1, 4), (0, 8), (0, 2), (0, 9)]
        );
    }

    #[test]
    fn sums_up_every_input() {
        let ng = PcapNg::new(Order::Big)
            .interface(113, 0)
            .interface(1, 0)
            .packet(1, (0, b"x", 1))
            .bytes();
        let mut cut = at(&[7, 8]);
        cut.pop();
        let merged = merge(&[at(&[9, 4]), cut, at(&[]), ng], &[]);
        let ids: Vec<_> = merged.summaries.iter().map(|(id, _)| id.0).collect();
        assert_eq!(ids, [0, 1, 2, 3]);
        let [first, cut, empty, ng] = merged
            .summaries
            .iter()
            .map(|(_, summary)| summary)
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        assert_eq!(
            (first.format.as_str(), ng.format.as_str()),
            ("pcap", "pcapng")
        );
        assert_eq!(first.totals.packets, 2);
        assert_eq!((first.totals.bytes, first.totals.truncated), (8, 2));
        let seconds = |time: Option<Timestamp>| time.map(|time| time.nanos() / 1_000_000_000);
        assert_eq!(seconds(first.totals.first_time), Some(4));
        assert_eq!(seconds(first.totals.last_time), Some(9));
        assert_eq!((cut.totals.packets, cut.damage.is_some()), (1, true));
        assert_eq!(merged.anomalies.count(InputId(1), Kind::FileCut), 1);
        assert_eq!(empty.link_types, [LinkType(1)]);
        assert_eq!(empty.totals, Totals::default());
        assert_eq!(ng.link_types, [LinkType(113), LinkType(1)]);
    }

    #[test]
    fn a_file_that_is_gone_when_its_time_comes_is_reported() {
        let merged = merge(&[at(&[1, 5]), at(&[3]), at(&[4])], &[1]);
        assert_eq!(merged.packets, [(0, 1), (2, 4), (0, 5)]);
        let errors: Vec<_> = merged
            .summaries
            .iter()
            .map(|(_, summary)| summary.error.is_some())
            .collect();
        assert_eq!(errors, [false, true, false]);
    }

    #[test]
    fn more_files_than_may_be_open_are_merged() {
        let count = 3 * OPEN as u64;
        // All begin before any ends; each is more than one batch of what is left to it.
        let files: Vec<_> = (0..count)
            .map(|n| {
                at(&(0..2000)
                    .map(|second| second * count + n)
                    .collect::<Vec<_>>())
            })
            .collect();
        let merged = merge(&files, &[]);
        assert_eq!(merged.packets.len() as u64, 2000 * count);
        assert!(merged.packets.is_sorted_by_key(|(_, second)| *second));
        assert!(merged.summaries.iter().all(|(_, summary)| {
            summary.totals.packets == 2000 && summary.damage.is_none() && summary.error.is_none()
        }));
    }
}
