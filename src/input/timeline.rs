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
            limits: *limits,
            progress,
        }
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
            } else if let Some(following) = reader.next_batch(anomalies, input) {
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
                Ok(Opened::Packets(reader)) => Ok(Box::new(reader)),
                Ok(Opened::Har(..)) => Err(packets.source.refused("it has changed")),
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
        match reader.next_batch(anomalies, lane.input) {
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

/// Files kept open at once, of the 256 that the strictest systems allow a process; the next ones
/// are opened anew for every batch.
const OPEN: usize = 64;

/// Memory for the batches of files that are open at once, before batches become smaller.
const MEMORY: usize = 256 << 20;

/// The smallest batch.
const CHUNK_MIN: usize = 32 << 10;
