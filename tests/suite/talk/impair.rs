//! What networks and taps do to packets without changing what was said.

use super::tcp::Packet;
use proptest::{prelude::*, sample::Index};

/// A list of mishaps; empty is the faithful capture, to which failures shrink.
#[derive(Clone, Debug, Default)]
pub(crate) struct Impairment {
    /// A segment is sent as two, cut at the second index.
    pub(crate) cuts: Vec<(Index, Index)>,
    /// A segment is sent again this many microseconds later.
    pub(crate) retransmissions: Vec<(Index, i64)>,
    /// A segment begins with this many bytes of the one before it.
    pub(crate) overlaps: Vec<(Index, usize)>,
    /// A packet is seen this many microseconds late.
    pub(crate) delays: Vec<(Index, i64)>,
    /// A packet is captured twice.
    pub(crate) duplicates: Vec<(Index, i64)>,
}

/// Any impairment.
pub(crate) fn any() -> impl Strategy<Value = Impairment> {
    let index = prop::arbitrary::any::<Index>;
    let some = 0..6usize;
    (
        prop::collection::vec((index(), index()), 0..24),
        prop::collection::vec((index(), 0..200_000i64), some.clone()),
        prop::collection::vec((index(), 1..400usize), some.clone()),
        prop::collection::vec((index(), 1..2_000i64), 0..12),
        prop::collection::vec((index(), 0..500i64), some),
    )
        .prop_map(
            |(cuts, retransmissions, overlaps, delays, duplicates)| Impairment {
                cuts,
                retransmissions,
                overlaps,
                delays,
                duplicates,
            },
        )
}

/// The packets with every mishap, in order of time.
pub(crate) fn impair(mut packets: Vec<Packet>, how: &Impairment) -> Vec<Packet> {
    for (which, at) in &how.cuts {
        let Some(i) = data(&packets, which) else {
            break;
        };
        if packets[i].payload.len() < 2 {
            continue;
        }
        let at = 1 + at.index(packets[i].payload.len() - 1);
        let mut second = packets[i].clone();
        second.payload = packets[i].payload.split_off(at);
        second.seq = second.seq.wrapping_add(u32::try_from(at).unwrap());
        second.ip_id = second.ip_id.wrapping_add(0x4000);
        packets.insert(i + 1, second);
    }
    for (which, back) in &how.overlaps {
        let Some(i) = data(&packets, which) else {
            break;
        };
        let before = packets[..i].iter().rev().find(|p| {
            same_way(p, &packets[i]) && end(p) == packets[i].seq && !p.payload.is_empty()
        });
        if let Some(before) = before {
            let back = (*back).min(before.payload.len());
            let mut payload = before.payload[before.payload.len() - back..].to_vec();
            payload.append(&mut packets[i].payload);
            packets[i].payload = payload;
            packets[i].seq = packets[i].seq.wrapping_sub(u32::try_from(back).unwrap());
        }
    }
    for (which, late) in &how.retransmissions {
        let Some(i) = data(&packets, which) else {
            break;
        };
        let mut again = packets[i].clone();
        again.at = (again.at + late).min(before_control(&packets, i));
        again.ip_id = again.ip_id.wrapping_add(0x8000);
        packets.push(again);
        packets.sort_by_key(|p| p.at);
    }
    for (which, late) in &how.delays {
        let Some(i) = data(&packets, which) else {
            break;
        };
        packets[i].at = (packets[i].at + late).min(before_control(&packets, i));
        packets.sort_by_key(|p| p.at);
    }
    for (which, late) in &how.duplicates {
        let i = which.index(packets.len());
        let mut copy = packets[i].clone();
        copy.at += late;
        packets.push(copy);
        packets.sort_by_key(|p| p.at);
    }
    packets
}

/// A packet with payload.
fn data(packets: &[Packet], which: &Index) -> Option<usize> {
    let with: Vec<usize> = (0..packets.len())
        .filter(|i| !packets[*i].payload.is_empty())
        .collect();
    (!with.is_empty()).then(|| with[which.index(with.len())])
}

/// The last instant before packet `i`'s connection is opened or closed any further: who closed
/// what, and whether data came before it, is part of what was said.
fn before_control(packets: &[Packet], i: usize) -> i64 {
    packets[i + 1..]
        .iter()
        .find(|p| p.connection == packets[i].connection && p.is_control())
        .map_or(i64::MAX, |p| p.at - 1)
        .max(packets[i].at)
}

fn same_way(a: &Packet, b: &Packet) -> bool {
    a.connection == b.connection && a.from == b.from
}

fn end(p: &Packet) -> u32 {
    p.seq.wrapping_add(u32::try_from(p.payload.len()).unwrap())
}

#[test]
fn impairments_keep_every_byte() {
    use std::collections::BTreeMap;
    let payload = |n: u8| vec![n; 10];
    let packet = |n: u8| Packet {
        at: i64::from(n) * 1_000,
        connection: 0,
        from: super::model::Side::Client,
        flags: super::tcp::ACK,
        seq: u32::from(n) * 10,
        ack: 0,
        payload: payload(n),
        ip_id: u16::from(n),
        lost: false,
    };
    let clean: Vec<Packet> = (0..20).map(packet).collect();
    let bytes = |packets: &[Packet]| -> BTreeMap<u32, u8> {
        packets
            .iter()
            .flat_map(|p| (p.seq..).zip(p.payload.clone()))
            .collect()
    };
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    runner
        .run(&any(), |how| {
            let bad = impair(clean.clone(), &how);
            prop_assert!(bad.is_sorted_by_key(|p| p.at));
            prop_assert_eq!(bytes(&bad), bytes(&clean));
            Ok(())
        })
        .unwrap();
}
