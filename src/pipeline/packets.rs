//! Packets of all inputs → exchanges. Frames are read and dealt to shards by flow on one thread
//! while the shards work on the ones before; a shard runs everything from TCP to facts.

use super::{
    connection::{Outcome, Tap},
    draft::Settings,
};
use crate::{
    anomaly::{Anomalies, Kind},
    http, input,
    input::timeline::{Piece, Summary, Timeline},
    ip,
    limits::Limits,
    link,
    model::{
        exchange::{Exchange, Window},
        flow::ServerFacts,
        packet::{Segment, Skip},
        place::{InputId, Place},
    },
    tcp,
};
use rayon::prelude::*;
use std::{collections::BTreeMap, hash::BuildHasher, mem, sync::Arc};

/// Shards: more than threads, so that uneven ones even out; a fixed number, so that threads change
/// nothing.
const SHARDS: usize = 16;

/// Packets dealt before the shards get to work.
const DEAL: usize = 1 << 14;

/// What packets gave.
#[derive(Default)]
pub(super) struct Packets {
    pub(super) exchanges: Vec<Exchange>,
    pub(super) anomalies: Anomalies,
    pub(super) summaries: Vec<(InputId, Summary)>,
    pub(super) counts: BTreeMap<InputId, Counts>,
    pub(super) window: Window,
    pub(super) servers: ServerFacts,
}

/// What was counted of one input.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) tcp_connections: u64,
    pub(super) tls_opaque: u64,
    pub(super) http2_opaque: u64,
    pub(super) holes: u64,
    pub(super) hole_bytes: u64,
}

/// Reads every packet.
pub(super) fn read(mut timeline: Timeline<'_>, settings: &Arc<Settings>) -> Packets {
    let mut packets = Packets::default();
    let mut shards: Vec<Shard> = (0..SHARDS).map(|_| Shard::new(settings)).collect();
    let mut dealer = Dealer::default();
    let mut hand = dealer.deal(&mut timeline, &mut packets);
    while !hand.is_empty() {
        let (_, next) = rayon::join(
            || {
                shards
                    .par_iter_mut()
                    .zip(&hand.cards)
                    .for_each(|(shard, cards)| shard.work(&hand.pieces, cards));
            },
            || dealer.deal(&mut timeline, &mut packets),
        );
        hand = next;
    }
    for finished in shards
        .into_par_iter()
        .map(Shard::finish)
        .collect::<Vec<_>>()
    {
        packets.exchanges.extend(finished.exchanges);
        packets.anomalies.merge(finished.anomalies);
        packets.servers.merge(finished.servers);
        for (input, holes) in finished.holes {
            let counts = packets.counts.entry(input).or_default();
            counts.holes += holes.holes;
            counts.hole_bytes += holes.bytes;
        }
        for (protocol, place) in finished.opaque {
            let counts = packets.counts.entry(place.input).or_default();
            match protocol {
                http::Protocol::Tls => counts.tls_opaque += 1,
                _ => counts.http2_opaque += 1,
            }
        }
    }
    for (input, numbers) in &dealer.numbers {
        packets.counts.entry(*input).or_default().tcp_connections = u64::from(numbers.len());
    }
    packets.summaries = timeline.finish();
    packets
}

/// Frames on the table: the batches they are in, and for each shard the segments it gets.
#[derive(Default)]
struct Hand {
    pieces: Vec<Piece>,
    cards: Vec<Vec<Card>>,
}

impl Hand {
    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

/// A segment and where its payload is: a frame of a piece, and bytes of that frame.
#[derive(Clone, Copy)]
struct Card {
    segment: Segment,
    piece: u32,
    frame: u32,
    start: u32,
    len: u32,
}

/// Reads frames, opens their headers and deals them by flow.
#[derive(Default)]
struct Dealer {
    numbers: BTreeMap<InputId, tcp::StreamNumbers>,
    hasher: foldhash::fast::FixedState,
}

impl Dealer {
    fn deal(&mut self, timeline: &mut Timeline<'_>, packets: &mut Packets) -> Hand {
        let mut hand = Hand {
            pieces: Vec::new(),
            cards: vec![Vec::new(); SHARDS],
        };
        let mut dealt = 0;
        while dealt < DEAL {
            let Some(piece) = timeline.next(&mut packets.anomalies) else {
                break;
            };
            dealt += piece.range.len();
            let number = u32::try_from(hand.pieces.len()).unwrap_or(u32::MAX);
            self.open(&piece, number, &mut hand.cards, packets);
            hand.pieces.push(piece);
        }
        hand
    }

    fn open(&mut self, piece: &Piece, number: u32, cards: &mut [Vec<Card>], packets: &mut Packets) {
        let numbers = self.numbers.entry(piece.input).or_default();
        for index in piece.range.clone() {
            let Some(frame) = piece.batch.frame(index, piece.input) else {
                continue;
            };
            packets.window.include(frame.time);
            if frame.original_len as usize > frame.data.len() {
                let (had, was) = (frame.data.len(), frame.original_len);
                packets
                    .anomalies
                    .note(Kind::TruncatedPacket, frame.place, || {
                        format!("{had} of {was} bytes")
                    });
            }
            let opened = link::peel(&frame)
                .and_then(|packet| ip::open(&packet))
                .and_then(|transport| {
                    if transport.protocol == TCP {
                        tcp::parse(&transport, frame.time, frame.place)
                    } else {
                        Err(Skip::NotIp)
                    }
                });
            let (mut segment, payload) = match opened {
                Ok(opened) => opened,
                Err(skip) => {
                    note_skip(skip, frame.place, &mut packets.anomalies);
                    continue;
                }
            };
            segment.place.tcp_stream = Some(numbers.number(&segment));
            // The payload lies within the frame: where, tells its distance from the frame's end.
            let start = payload
                .as_ptr()
                .addr()
                .wrapping_sub(frame.data.as_ptr().addr());
            let (Ok(start), Ok(len)) = (u32::try_from(start), u32::try_from(payload.len())) else {
                continue;
            };
            let shard = shard(&self.hasher, &segment);
            if let Some(cards) = cards.get_mut(shard) {
                cards.push(Card {
                    segment,
                    piece: number,
                    frame: u32::try_from(index).unwrap_or(u32::MAX),
                    start,
                    len,
                });
            }
        }
    }
}

/// The shard of a flow: the same for both directions.
fn shard(hasher: &foldhash::fast::FixedState, segment: &Segment) -> usize {
    let (a, b) = (segment.source, segment.destination);
    let pair = if a <= b { (a, b) } else { (b, a) };
    usize::try_from(hasher.hash_one(pair)).unwrap_or(0) % SHARDS
}

fn note_skip(skip: Skip, place: Place, anomalies: &mut Anomalies) {
    match skip {
        Skip::NotIp => {}
        Skip::UnknownLink(link) => {
            anomalies.note(Kind::UnknownLinkType, place, || link::link_name(link));
        }
        Skip::Fragment => anomalies.note(Kind::IpFragment, place, String::new),
        Skip::Malformed(what) => anomalies.note(Kind::MalformedPacket, place, || what.to_owned()),
    }
}

/// IP protocol number of TCP.
const TCP: u8 = 6;

/// The flows of one shard.
struct Shard {
    table: tcp::Table<Tap>,
    settings: Arc<Settings>,
    finished: Finished,
}

#[derive(Default)]
struct Finished {
    exchanges: Vec<Exchange>,
    anomalies: Anomalies,
    opaque: Vec<(http::Protocol, Place)>,
    holes: BTreeMap<InputId, tcp::Holes>,
    servers: ServerFacts,
}

impl Finished {
    fn take(&mut self, outcome: Outcome, limits: &Limits) {
        if let Some((ends, span)) = outcome.torn {
            for end in ends {
                self.servers.torn.note(end, span, limits.server_facts);
            }
        }
        for blank in outcome.blanks {
            self.servers.blanks.note(blank, limits.server_facts);
        }
        self.exchanges.extend(outcome.exchanges);
        self.anomalies.merge(outcome.anomalies);
        self.opaque.extend(outcome.opaque);
    }
}

impl Shard {
    fn new(settings: &Arc<Settings>) -> Self {
        Self {
            table: tcp::Table::new(settings.limits),
            settings: Arc::clone(settings),
            finished: Finished::default(),
        }
    }

    fn work(&mut self, pieces: &[Piece], cards: &[Card]) {
        let settings = Arc::clone(&self.settings);
        let mut anomalies = mem::take(&mut self.finished.anomalies);
        let finished = &mut self.finished;
        for card in cards {
            let Some(piece) = pieces.get(card.piece as usize) else {
                continue;
            };
            let Some(frame) = piece.batch.frame(card.frame as usize, piece.input) else {
                continue;
            };
            let start = card.start as usize;
            let Some(payload) = frame.data.get(start..start + card.len as usize) else {
                continue;
            };
            if tcp::refuses(&card.segment) {
                let limit = settings.limits.server_facts;
                let (server, time) = (card.segment.source, card.segment.time);
                finished.servers.refused.note(server, time, limit);
            }
            self.table.push(
                &card.segment,
                payload,
                &mut anomalies,
                &mut |opening| Tap::new(opening, &settings),
                &mut |tap| finished.take(tap.into_outcome(), &settings.limits),
            );
        }
        finished.anomalies.merge(anomalies);
    }

    fn finish(self) -> Finished {
        let mut finished = self.finished;
        let settings = self.settings;
        let mut anomalies = Anomalies::default();
        let holes = self.table.finish(&mut anomalies, &mut |tap: Tap| {
            finished.take(tap.into_outcome(), &settings.limits);
        });
        finished.anomalies.merge(anomalies);
        finished.holes = holes;
        finished
    }
}

/// Opens the packet inputs of a run for merging.
pub(super) fn timeline<'p>(
    inputs: Vec<(InputId, input::PacketInput<'p>)>,
    limits: &Limits,
    progress: &'p std::sync::atomic::AtomicU64,
) -> Timeline<'p> {
    Timeline::new(inputs, limits, progress)
}
