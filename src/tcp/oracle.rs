//! Random captures of a known conversation: the sink gets its bytes, each with the time of the
//! first segment that carried it, and holes where the capture has none.

use super::*;
use crate::{
    anomaly::{Anomalies, Kind},
    limits::Limits,
    model::{
        packet::{Segment, TcpFlags},
        place::{InputId, Place},
        time::{Span, Timestamp},
    },
};
use proptest::prelude::*;

/// One captured packet; offsets in place of numbers.
#[derive(Clone, Debug)]
struct Packet {
    side: Side,
    flags: u8,
    offset: usize,
    bytes: Vec<u8>,
    ack: usize,
}

/// What one side's sink was told: a byte and the frame it came in, or nothing.
#[derive(Debug, Default)]
struct Told {
    sides: [Vec<Option<(u8, u32)>>; 2],
    fins: [Option<u64>; 2],
    finished: bool,
}

impl Sink for Told {
    fn data(&mut self, sender: Side, bytes: &[u8], at: At) {
        assert!(!self.finished && !bytes.is_empty());
        assert_eq!(at.time.nanos(), i64::from(at.place.frame) * STEP);
        let side = &mut self.sides[sender.index()];
        side.extend(bytes.iter().map(|&byte| Some((byte, at.place.frame))));
        assert_eq!(at.offset, side.len() as u64);
    }
    fn hole(&mut self, sender: Side, bytes: u64, _: HoleKind, at: At) {
        assert!(!self.finished && bytes > 0);
        let side = &mut self.sides[sender.index()];
        side.extend((0..bytes).map(|_| None));
        assert_eq!(at.offset, side.len() as u64);
    }
    fn acknowledged(&mut self, _: Side, _: At) {}
    fn fin(&mut self, sender: Side, _: Option<u64>, at: At) {
        assert_eq!(at.offset, self.sides[sender.index()].len() as u64);
        assert!(self.fins[sender.index()].replace(at.offset).is_none());
    }
    fn rst(&mut self, _: Side, _: Option<u64>, _: At) {}
    fn finish(&mut self, _: At) {
        assert!(!std::mem::replace(&mut self.finished, true));
    }
}

/// A capture and what it shows.
struct Capture {
    packets: Vec<Packet>,
    isn: [u32; 2],
    limits: Limits,
}

impl Capture {
    fn read(&self) -> (Vec<Told>, Anomalies) {
        let mut table = Table::new(self.limits);
        let mut anomalies = Anomalies::default();
        let mut done = Vec::new();
        for (index, packet) in self.packets.iter().enumerate() {
            let number = |side: Side, offset: usize| {
                self.isn[side.index()]
                    .wrapping_add(1)
                    .wrapping_add(u32::try_from(offset).unwrap())
            };
            let syn = u32::from(packet.flags & 2 != 0);
            let frame = u32::try_from(index).unwrap();
            let end = |side: Side| format!("[::{}]:80", side.index() + 1).parse().unwrap();
            let segment = Segment {
                time: Timestamp::from_nanos(i64::from(frame) * STEP),
                place: Place {
                    input: InputId(0),
                    frame,
                    tcp_stream: None,
                },
                source: end(packet.side),
                destination: end(packet.side.other()),
                sequence: number(packet.side, packet.offset).wrapping_sub(syn),
                acknowledgment: number(packet.side.other(), packet.ack),
                flags: TcpFlags(packet.flags),
                window: 0,
                missing: 0,
            };
            table.push(
                &segment,
                &packet.bytes,
                &mut anomalies,
                &mut |_| Told::default(),
                &mut |told| done.push(*told),
            );
        }
        table.finish(&mut anomalies, &mut |told| done.push(*told));
        (done, anomalies)
    }

    /// The frame in which each byte of `side` was first seen.
    fn first_frames(&self, side: Side, len: usize) -> Vec<Option<u32>> {
        let mut frames = vec![None; len];
        for (index, packet) in self.packets.iter().enumerate() {
            if packet.side == side {
                for frame in frames
                    .iter_mut()
                    .skip(packet.offset)
                    .take(packet.bytes.len())
                {
                    frame.get_or_insert(u32::try_from(index).unwrap());
                }
            }
        }
        frames
    }
}

/// Packets of one direction: segments in order, and copies of random ranges after them.
fn direction(side: Side, bytes: &[u8], cuts: &[usize], again: &[(usize, usize)]) -> Vec<Packet> {
    let packet = |from: usize, to: usize| Packet {
        side,
        flags: 0x10,
        offset: from,
        bytes: bytes[from..to].to_vec(),
        ack: 0,
    };
    let mut edges: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    edges.extend([0, bytes.len()]);
    edges.sort_unstable();
    edges.dedup();
    let mut packets = Vec::new();
    for (index, edge) in edges.windows(2).enumerate() {
        packets.push(packet(edge[0], edge[1]));
        if let Some(&(from, len)) = again.get(index) {
            // Only what was sent is sent again. One byte alone, just below what was sent, is a
            // keep-alive.
            let from = from % edge[1];
            let to = (from + len % 40).min(edge[1]);
            if to > from + 1 {
                packets.push(packet(from, to));
            }
        }
    }
    packets.push(Packet {
        flags: 0x11,
        ..packet(bytes.len(), bytes.len())
    });
    packets
}

/// Moves packets by less than `window` places.
fn shuffle(packets: Vec<Packet>, keys: &[u8], window: usize) -> Vec<Packet> {
    let mut keyed: Vec<(usize, Packet)> = packets
        .into_iter()
        .enumerate()
        .map(|(index, packet)| {
            let key = keys.get(index % keys.len().max(1)).copied().unwrap_or(0);
            (index + usize::from(key) % window, packet)
        })
        .collect();
    keyed.sort_by_key(|&(key, _)| key);
    keyed.into_iter().map(|(_, packet)| packet).collect()
}

fn handshake() -> Vec<Packet> {
    [(Side::A, 0x02), (Side::B, 0x12), (Side::A, 0x10)]
        .map(|(side, flags)| Packet {
            side,
            flags,
            offset: 0,
            bytes: Vec::new(),
            ack: 0,
        })
        .to_vec()
}

prop_compose! {
    /// Both directions of a conversation, merged, with acknowledgments that may come early.
    ///
    /// No zero bytes: one alone, acknowledged before it is captured, passes for a keep-alive.
    fn conversation()(
        a in prop::collection::vec(1..=u8::MAX, 1..400),
        b in prop::collection::vec(1..=u8::MAX, 1..400),
        cuts in prop::collection::vec(any::<usize>(), 0..40),
        again in prop::collection::vec((any::<usize>(), any::<usize>()), 0..30),
        merge in prop::collection::vec(any::<bool>(), 1..50),
        keys in prop::collection::vec(any::<u8>(), 1..60),
        isn in prop::array::uniform2(prop_oneof![any::<u32>(), (u32::MAX - 300)..=u32::MAX]),
        window in 1usize..7,
    ) -> ([Vec<u8>; 2], Vec<Packet>, [u32; 2]) {
        let mut one = direction(Side::A, &a, &cuts, &again).into_iter().peekable();
        let mut two = direction(Side::B, &b, &cuts, &again).into_iter().peekable();
        let mut packets = Vec::new();
        let mut sent = [0; 2];
        for turn in merge.iter().cycle() {
            let next = if *turn { one.next() } else { two.next() };
            if let Some(mut packet) = next {
                let own = packet.side.index();
                sent[own] = sent[own].max(packet.offset + packet.bytes.len());
                packet.ack = sent[1 - own];
                packets.push(packet);
            }
            if one.peek().is_none() && two.peek().is_none() {
                break;
            }
            if one.peek().is_none() || two.peek().is_none() {
                packets.extend(one.by_ref().chain(two.by_ref()).map(|mut packet| {
                    packet.ack = sent[1 - packet.side.index()];
                    packet
                }));
                break;
            }
        }
        ([a, b], shuffle(packets, &keys, window), isn)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_byte_comes_once_with_its_first_frame(
        (streams, packets, isn) in conversation(),
    ) {
        let mut all = handshake();
        all.extend(packets);
        let capture = Capture { packets: all, isn, limits: Limits::default() };
        let (done, anomalies) = capture.read();
        prop_assert_eq!(done.len(), 1);
        for side in [Side::A, Side::B] {
            let stream = &streams[side.index()];
            let frames = capture.first_frames(side, stream.len());
            let expected: Vec<_> = stream
                .iter()
                .zip(frames)
                .map(|(&byte, frame)| frame.map(|frame| (byte, frame)))
                .collect();
            prop_assert_eq!(&done[0].sides[side.index()], &expected);
            prop_assert_eq!(done[0].fins[side.index()], Some(stream.len() as u64));
        }
        prop_assert_eq!(anomalies.iter().count(), 0);
    }

    #[test]
    fn what_the_capture_lost_is_a_hole_of_its_size(
        (streams, packets, isn) in conversation(),
        lost in prop::collection::vec(any::<bool>(), 1..100),
        patience in 1u32..20,
        room in 50usize..2000,
    ) {
        let mut all = handshake();
        let kept = packets
            .into_iter()
            .zip(lost.iter().cycle())
            .filter_map(|(packet, &lost)| (!lost || packet.flags & 1 != 0).then_some(packet));
        all.extend(kept);
        let limits = Limits {
            reorder_packets: patience,
            reorder_time: Span::ZERO,
            out_of_order: room,
            ..Limits::default()
        };
        let capture = Capture { packets: all, isn, limits };
        let (done, anomalies) = capture.read();
        prop_assert_eq!(done.len(), 1);
        let mut holes = 0;
        for side in [Side::A, Side::B] {
            let stream = &streams[side.index()];
            let told = &done[0].sides[side.index()];
            prop_assert_eq!(told.len(), stream.len());
            let frames = capture.first_frames(side, stream.len());
            for ((told, &byte), frame) in told.iter().zip(stream).zip(frames) {
                // Impatience may make a hole of what comes later, never the other way round.
                if let Some((told, at)) = *told {
                    prop_assert_eq!(told, byte);
                    prop_assert_eq!(Some(at), frame);
                } else {
                    holes += 1;
                }
            }
        }
        prop_assert_eq!(holes > 0, anomalies.count(InputId(0), Kind::Hole) > 0);
    }

    #[test]
    fn with_patience_only_what_was_lost_is_a_hole(
        (streams, packets, isn) in conversation(),
        lost in prop::collection::vec(any::<bool>(), 1..100),
    ) {
        let mut all = handshake();
        let kept = packets
            .into_iter()
            .zip(lost.iter().cycle())
            .filter_map(|(packet, &lost)| (!lost || packet.flags & 1 != 0).then_some(packet));
        all.extend(kept);
        let capture = Capture { packets: all, isn, limits: Limits::default() };
        let (done, _) = capture.read();
        for side in [Side::A, Side::B] {
            let stream = &streams[side.index()];
            let expected: Vec<_> = stream
                .iter()
                .zip(capture.first_frames(side, stream.len()))
                .map(|(&byte, frame)| frame.map(|frame| (byte, frame)))
                .collect();
            prop_assert_eq!(&done[0].sides[side.index()], &expected);
        }
    }

    #[test]
    fn a_start_in_the_middle_loses_nothing_within_its_window(
        stream in prop::collection::vec(any::<u8>(), 1..400),
        cuts in prop::collection::vec(any::<usize>(), 0..40),
        keys in prop::collection::vec(any::<u8>(), 1..60),
        window in 1usize..7,
        isn in any::<u32>(),
    ) {
        let packets = direction(Side::A, &stream, &cuts, &[]);
        let mut packets = shuffle(packets, &keys, window);
        packets.retain(|packet| packet.flags & 1 == 0);
        let capture = Capture { packets, isn: [isn, 0], limits: Limits::default() };
        let (done, anomalies) = capture.read();
        let told: Vec<u8> = done[0].sides[0].iter().flatten().map(|told| told.0).collect();
        prop_assert_eq!(told, stream);
        prop_assert_eq!(anomalies.count(InputId(0), Kind::Hole), 0);
        prop_assert_eq!(anomalies.count(InputId(0), Kind::Midstream), 1);
    }

    #[test]
    fn nonsense_neither_panics_nor_hangs_nor_loses_count(
        packets in prop::collection::vec(
            (
                any::<bool>(),
                prop_oneof![4 => Just(0x10u8), 1 => any::<u8>()],
                prop_oneof![3 => 0usize..300, 1 => any::<u32>().prop_map(|n| n as usize)],
                prop::collection::vec(any::<u8>(), 0..60),
                prop_oneof![3 => 0usize..300, 1 => any::<u32>().prop_map(|n| n as usize)],
            ),
            0..120,
        ),
        isn in prop::array::uniform2(any::<u32>()),
        patience in 0u32..20,
        room in 0usize..2000,
    ) {
        let packets = packets
            .into_iter()
            .map(|(a, flags, offset, bytes, ack)| Packet {
                side: if a { Side::A } else { Side::B },
                flags,
                offset,
                bytes,
                ack,
            })
            .collect();
        let limits = Limits {
            reorder_packets: patience,
            reorder_time: Span::from_millis(5),
            out_of_order: room,
            ..Limits::default()
        };
        // Holes of such captures reach a quarter of a gibibyte: count, do not keep.
        let capture = Capture { packets, isn, limits };
        let mut table = Table::new(capture.limits);
        let mut anomalies = Anomalies::default();
        let (mut opened, mut done) = (0, 0);
        for (index, packet) in capture.packets.iter().enumerate() {
            let end = |side: Side| format!("[::{}]:80", side.index() + 1).parse().unwrap();
            let number = |side: Side, offset: usize| {
                capture.isn[side.index()].wrapping_add(u32::try_from(offset).unwrap())
            };
            let segment = Segment {
                time: Timestamp::from_nanos(index as i64 * STEP),
                place: Place::default(),
                source: end(packet.side),
                destination: end(packet.side.other()),
                sequence: number(packet.side, packet.offset),
                acknowledgment: number(packet.side.other(), packet.ack),
                flags: TcpFlags(packet.flags),
                window: 0,
                missing: u32::try_from(packet.offset * usize::from(packet.ack % 5 == 0)).unwrap(),
            };
            table.push(&segment, &packet.bytes, &mut anomalies,
                &mut |_| { opened += 1; Counted::default() },
                &mut |counted: Box<Counted>| { counted.check(); done += 1; });
        }
        table.finish(&mut anomalies, &mut |counted| { counted.check(); done += 1; });
        prop_assert_eq!(opened, done);
    }
}

/// Adds up what it is told.
#[derive(Default)]
struct Counted {
    offsets: [u64; 2],
    acknowledged: [u64; 2],
    fins: [u32; 2],
    resets: [u32; 2],
    finished: u32,
}

impl Counted {
    fn check(&self) {
        assert_eq!(self.finished, 1);
        assert!(
            self.fins
                .iter()
                .chain(&self.resets)
                .all(|&count| count <= 1)
        );
    }
}

impl Sink for Counted {
    fn data(&mut self, sender: Side, bytes: &[u8], at: At) {
        assert_eq!(self.fins[sender.index()], 0);
        self.offsets[sender.index()] += bytes.len() as u64;
        assert_eq!(at.offset, self.offsets[sender.index()]);
    }
    fn hole(&mut self, sender: Side, bytes: u64, _: HoleKind, at: At) {
        assert_eq!(self.fins[sender.index()], 0);
        self.offsets[sender.index()] += bytes;
        assert_eq!(at.offset, self.offsets[sender.index()]);
    }
    fn acknowledged(&mut self, sender: Side, at: At) {
        assert!(at.offset > self.acknowledged[sender.index()]);
        self.acknowledged[sender.index()] = at.offset;
    }
    fn fin(&mut self, sender: Side, _: Option<u64>, at: At) {
        assert_eq!(at.offset, self.offsets[sender.index()]);
        self.fins[sender.index()] += 1;
    }
    fn rst(&mut self, sender: Side, _: Option<u64>, _: At) {
        self.resets[sender.index()] += 1;
    }
    fn finish(&mut self, _: At) {
        self.finished += 1;
    }
}

/// Time between two packets.
const STEP: i64 = 1_000_000;
