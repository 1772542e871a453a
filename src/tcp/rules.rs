//! What the table makes of handmade captures, one rule a test.

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
use std::collections::BTreeMap;

const S: u8 = 0x02;
const SA: u8 = 0x12;
const ACK: u8 = 0x10;
const F: u8 = 0x11;
const R: u8 = 0x04;
const RA: u8 = 0x14;

/// Text of what a sink was told: `A 0ms #1 ..5 "hello"`.
#[derive(Default)]
struct Log(Vec<String>);

fn when(at: At) -> String {
    format!(
        "{}ms #{} ..{}",
        at.time.nanos() / 1_000_000,
        at.place.frame,
        at.offset
    )
}

impl Sink for Log {
    fn data(&mut self, sender: Side, bytes: &[u8], at: At) {
        let text = String::from_utf8_lossy(bytes);
        self.0.push(format!("{sender:?} {} {text:?}", when(at)));
    }
    fn hole(&mut self, sender: Side, bytes: u64, kind: HoleKind, at: At) {
        self.0
            .push(format!("{sender:?} {} hole {bytes} {kind:?}", when(at)));
    }
    fn acknowledged(&mut self, sender: Side, at: At) {
        self.0.push(format!("{sender:?} {} acked", when(at)));
    }
    fn fin(&mut self, sender: Side, acknowledges: Option<u64>, at: At) {
        self.0
            .push(format!("{sender:?} {} fin {acknowledges:?}", when(at)));
    }
    fn rst(&mut self, sender: Side, acknowledges: Option<u64>, at: At) {
        self.0
            .push(format!("{sender:?} {} rst {acknowledges:?}", when(at)));
    }
    fn unanswered(&mut self, server: Side) {
        self.0.push(format!("{server:?} unanswered"));
    }
    fn finish(&mut self, last: At) {
        self.0.push(format!("end #{}", last.place.frame));
    }
}

struct Wire {
    table: Option<Table<Log>>,
    anomalies: Anomalies,
    opened: Vec<Opening>,
    done: Vec<Vec<String>>,
    frame: u32,
    ms: i64,
    /// Initial sequence numbers, as shown by the offsets below.
    isn: [u32; 2],
    ports: [u16; 2],
    holes: BTreeMap<InputId, Holes>,
}

impl Wire {
    fn with(limits: Limits) -> Self {
        Self {
            table: Some(Table::new(limits)),
            anomalies: Anomalies::default(),
            opened: Vec::new(),
            done: Vec::new(),
            frame: 0,
            ms: 0,
            isn: [1000, 5000],
            ports: [40000, 80],
            holes: BTreeMap::new(),
        }
    }

    fn new() -> Self {
        Self::with(Limits {
            reorder_packets: 4,
            reorder_time: Span::from_millis(100),
            ..Limits::default()
        })
    }

    /// A new wire with the three packets of a handshake on it.
    fn open() -> Self {
        let mut wire = Self::new();
        wire.handshake();
        wire
    }

    fn handshake(&mut self) {
        self.send(A, S, -1, 0, "");
        self.send(B, SA, -1, 0, "");
        self.send(A, ACK, 0, 0, "");
    }

    /// One packet, a millisecond after the one before; `sequence` and `ack` as offsets.
    fn send(&mut self, side: Side, flags: u8, sequence: i64, ack: i64, payload: &str) {
        self.cut(side, flags, sequence, ack, payload, 0);
    }

    fn cut(&mut self, side: Side, flags: u8, sequence: i64, ack: i64, payload: &str, cut: u32) {
        self.frame += 1;
        self.ms += 1;
        let wrap = |isn: u32, offset: i64| {
            u32::try_from((i64::from(isn) + 1 + offset).rem_euclid(1 << 32)).unwrap()
        };
        let end = |index: usize| format!("10.0.0.{}:{}", index + 1, self.ports[index]);
        let (own, peer) = (side.index(), side.other().index());
        let segment = Segment {
            time: Timestamp::from_nanos(self.ms * 1_000_000),
            place: Place {
                input: InputId(0),
                frame: self.frame,
                tcp_stream: Some(0),
            },
            source: end(own).parse().unwrap(),
            destination: end(peer).parse().unwrap(),
            sequence: wrap(self.isn[own], sequence),
            acknowledgment: if flags & ACK == 0 {
                0
            } else {
                wrap(self.isn[peer], ack)
            },
            flags: TcpFlags(flags),
            window: 500,
            missing: cut,
        };
        let opened = &mut self.opened;
        let done = &mut self.done;
        self.table.as_mut().unwrap().push(
            &segment,
            payload.as_bytes(),
            &mut self.anomalies,
            &mut |opening| {
                opened.push(*opening);
                Log::default()
            },
            &mut |log| done.push(log.0),
        );
    }

    fn wait(&mut self, ms: i64) {
        self.ms += ms;
    }

    fn finish(&mut self) {
        let done = &mut self.done;
        if let Some(table) = self.table.take() {
            self.holes = table.finish(&mut self.anomalies, &mut |log: Box<Log>| done.push(log.0));
        }
    }

    /// Everything of the only connection, without acknowledgments and end.
    fn told(&mut self) -> Vec<String> {
        let log = self.log();
        log.into_iter()
            .filter(|line| !line.ends_with("acked") && !line.starts_with("end"))
            .collect()
    }

    fn log(&mut self) -> Vec<String> {
        self.finish();
        assert_eq!(self.done.len(), 1, "{:?}", self.done);
        self.done[0].clone()
    }

    fn count(&self, kind: Kind) -> u64 {
        self.anomalies.count(InputId(0), kind)
    }
}

use Side::{A, B};

#[test]
fn in_order_bytes_carry_their_segment() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 0, 0, "hello");
    wire.send(B, ACK, 0, 5, "wo");
    wire.send(B, ACK, 2, 5, "rld");
    wire.send(A, ACK, 5, 5, "");
    assert_eq!(
        wire.log(),
        [
            "A 4ms #4 ..5 \"hello\"",
            "A 5ms #5 ..5 acked",
            "B 5ms #5 ..2 \"wo\"",
            "B 6ms #6 ..5 \"rld\"",
            "B 7ms #7 ..5 acked",
            "end #7",
        ]
    );
    assert!(wire.opened[0].syn);
    assert_eq!(wire.count(Kind::Midstream), 0);
    assert_eq!(wire.anomalies.iter().count(), 0);
}

#[test]
fn out_of_order_bytes_keep_their_own_time() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 3, 0, "def");
    wire.send(A, ACK, 0, 0, "abc");
    wire.send(A, ACK, 6, 0, "ghi");
    assert_eq!(
        wire.told(),
        [
            "A 5ms #5 ..3 \"abc\"",
            "A 4ms #4 ..6 \"def\"",
            "A 6ms #6 ..9 \"ghi\"",
        ]
    );
}

#[test]
fn t1_an_equal_overlap_is_silent_and_the_first_time_stays() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 0, 0, "abc");
    wire.send(A, ACK, 0, 0, "abc");
    wire.send(A, ACK, 0, 0, "abcdef");
    wire.send(A, ACK, 9, 0, "jkl");
    wire.send(A, ACK, 3, 0, "defghijkl");
    assert_eq!(
        wire.told(),
        [
            "A 4ms #4 ..3 \"abc\"",
            "A 6ms #6 ..6 \"def\"",
            "A 8ms #8 ..9 \"ghi\"",
            "A 7ms #7 ..12 \"jkl\"",
        ]
    );
    assert_eq!(wire.anomalies.iter().count(), 0);
}

#[test]
fn t2_the_first_of_different_copies_wins_and_is_noted() {
    for second in [(0, "abX"), (0, "abXdef"), (9, "jXl"), (6, "ghijXl")] {
        let mut wire = Wire::open();
        wire.send(A, ACK, 0, 0, "abc");
        wire.send(A, ACK, 9, 0, "jkl");
        wire.send(A, ACK, second.0, 0, second.1);
        wire.send(A, ACK, 3, 0, "defghi");
        let told = wire.told().join("");
        assert!(
            told.contains("\"abc\"") && told.contains("\"jkl\""),
            "{told}"
        );
        assert!(!told.contains('X'), "{told}");
        assert_eq!(wire.count(Kind::OverlapConflict), 1, "{second:?}");
    }
}

#[test]
fn t3_sequence_numbers_wrap() {
    let mut wire = Wire::new();
    wire.isn = [u32::MAX - 3, u32::MAX];
    wire.handshake();
    wire.send(A, ACK, 0, 0, "ab");
    wire.send(A, ACK, 4, 0, "ef");
    wire.send(A, ACK, 2, 0, "cd");
    wire.send(B, ACK, 0, 6, "xy");
    assert_eq!(
        wire.told(),
        [
            "A 4ms #4 ..2 \"ab\"",
            "A 6ms #6 ..4 \"cd\"",
            "A 5ms #5 ..6 \"ef\"",
            "B 7ms #7 ..2 \"xy\"",
        ]
    );
}

#[test]
fn t3_offsets_pass_four_gibibytes() {
    let mut wire = Wire::open();
    // Snapshot length leaves nothing of large segments: the cheapest long stream.
    let step = 1 << 20;
    for index in 0..5000 {
        wire.cut(A, ACK, index * step, 0, "", 1 << 20);
    }
    wire.send(A, ACK, 5000 * step, 0, "end");
    let told = wire.told();
    let end = 5000 * step + 3;
    assert!(end > 1 << 32);
    assert!(told.last().unwrap().ends_with(&format!("..{end} \"end\"")));
    assert_eq!(wire.holes[&InputId(0)].bytes, 5000 << 20);
}

#[test]
fn t12_a_gap_is_declared_after_packets_and_time() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 3, 0, "def");
    for index in 0..10 {
        wire.send(A, ACK, 6 + index, 0, "x");
    }
    // Packets enough, but not yet the time: the late segment still fits.
    wire.send(A, ACK, 0, 0, "abc");
    assert_eq!(wire.told()[0], "A 15ms #15 ..3 \"abc\"");

    let mut wire = Wire::open();
    wire.send(A, ACK, 3, 0, "def");
    wire.wait(1000);
    wire.send(A, ACK, 6, 0, "ghi");
    // Time enough, but not yet the packets.
    wire.send(A, ACK, 0, 0, "abc");
    assert_eq!(wire.told()[0], "A 1006ms #6 ..3 \"abc\"");

    let mut wire = Wire::open();
    wire.send(A, ACK, 3, 0, "def");
    wire.wait(1000);
    for index in 0..3 {
        wire.send(A, ACK, 6 + index, 0, "x");
    }
    wire.send(A, ACK, 0, 0, "abc");
    assert_eq!(
        wire.told()[..2],
        ["A 4ms #4 ..3 hole 3 Lost", "A 4ms #4 ..6 \"def\""]
    );
    assert_eq!(wire.count(Kind::Hole), 1);
    let holes = wire.holes[&InputId(0)];
    assert_eq!((holes.holes, holes.bytes), (1, 3));
}

#[test]
fn packets_without_payload_go_beyond_a_gap() {
    let mut wire = Wire::open();
    wire.send(B, ACK, 3, 0, "def");
    wire.wait(1000);
    for _ in 0..3 {
        wire.send(B, ACK, 6, 0, "");
    }
    wire.send(B, ACK, 0, 0, "abc");
    assert_eq!(wire.told()[0], "B 4ms #4 ..3 hole 3 Lost");
}

#[test]
fn t13_the_other_direction_never_declares_a_gap() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 3, 0, "def");
    wire.wait(10_000);
    for index in 0..500 {
        wire.send(B, ACK, index, 6, "y");
    }
    wire.send(A, ACK, 0, 500, "abc");
    let told = wire.told();
    assert!(!told.join("").contains("hole"), "{told:?}");
    assert!(told.contains(&"A 10505ms #505 ..3 \"abc\"".to_owned()));
}

#[test]
fn t12_an_acknowledgment_before_its_data_is_no_gap_yet() {
    let mut wire = Wire::open();
    wire.send(B, ACK, 0, 5, "");
    wire.send(A, ACK, 0, 0, "hello");
    assert_eq!(
        wire.log(),
        ["A 4ms #4 ..5 acked", "A 5ms #5 ..5 \"hello\"", "end #5"]
    );
}

#[test]
fn t14_bytes_only_acknowledged_are_lost_at_the_end() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 0, 0, "he");
    wire.send(B, ACK, 0, 5, "");
    assert_eq!(
        wire.told(),
        ["A 4ms #4 ..2 \"he\"", "A 5ms #5 ..5 hole 3 Lost"]
    );
}

#[test]
fn t14_bytes_never_acknowledged_were_lost_by_the_network() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 0, 0, "abc");
    wire.send(B, ACK, 0, 3, "");
    wire.send(A, ACK, 6, 0, "ghi");
    wire.send(B, ACK, 0, 3, "");
    assert_eq!(
        wire.told(),
        [
            "A 4ms #4 ..3 \"abc\"",
            "A 6ms #6 ..6 hole 3 Unacknowledged",
            "A 6ms #6 ..9 \"ghi\"",
        ]
    );
    let mut wire = Wire::open();
    wire.send(A, ACK, 6, 0, "ghi");
    wire.send(B, ACK, 0, 2, "");
    wire.send(B, ACK, 0, 2, "");
    assert_eq!(
        wire.told(),
        [
            "A 4ms #4 ..2 hole 2 Lost",
            "A 4ms #4 ..6 hole 4 Unacknowledged",
            "A 4ms #4 ..9 \"ghi\"",
        ]
    );
}

#[test]
fn t15_the_snapshot_length_makes_a_hole_at_once() {
    let mut wire = Wire::open();
    wire.cut(A, ACK, 0, 0, "abc", 7);
    wire.send(A, ACK, 10, 0, "next");
    wire.cut(A, ACK, 20, 0, "later", 5);
    wire.cut(A, F, 14, 0, "gap", 3);
    assert_eq!(
        wire.told(),
        [
            "A 4ms #4 ..3 \"abc\"",
            "A 4ms #4 ..10 hole 7 Truncated",
            "A 5ms #5 ..14 \"next\"",
            "A 7ms #7 ..17 \"gap\"",
            "A 7ms #7 ..20 hole 3 Truncated",
            "A 6ms #6 ..25 \"later\"",
            "A 6ms #6 ..30 hole 5 Truncated",
        ]
    );
}

#[test]
fn t18_copies_of_every_packet_change_nothing() {
    let run = |copies: usize| {
        let mut wire = Wire::new();
        for (side, flags, sequence, ack, payload) in [
            (A, S, -1, 0, ""),
            (B, SA, -1, 0, ""),
            (A, ACK, 0, 0, ""),
            (A, ACK, 3, 0, "def"),
            (A, ACK, 0, 0, "abc"),
            (B, ACK, 0, 6, "answer"),
            (B, F, 6, 6, ""),
            (A, F, 6, 7, ""),
            (B, ACK, 7, 7, ""),
        ] {
            for _ in 0..copies {
                wire.send(side, flags, sequence, ack, payload);
                wire.frame -= 1;
                wire.ms -= 1;
            }
            wire.frame += 1;
            wire.ms += 1;
        }
        let log = wire.log();
        assert_eq!(wire.anomalies.iter().count(), 0);
        log
    };
    assert_eq!(run(1), run(2));
    assert_eq!(run(1), run(3));
    assert_eq!(run(1).len(), 8);
}

#[test]
fn t9_a_keep_alive_is_neither_data_nor_conflict() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 0, 0, "hello");
    wire.send(A, ACK, 4, 0, "");
    wire.send(A, ACK, 4, 0, "\0");
    wire.send(B, ACK, 0, 5, "");
    wire.send(A, ACK, 4, 0, "Z");
    wire.send(A, ACK, 5, 0, "!");
    assert_eq!(
        wire.told(),
        ["A 4ms #4 ..5 \"hello\"", "A 9ms #9 ..6 \"!\""]
    );
    assert_eq!(wire.anomalies.iter().count(), 0);
}

#[test]
fn t10_a_zero_window_probe_is_an_ordinary_byte() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 0, 0, "abc");
    wire.send(A, ACK, 3, 0, "d");
    wire.send(A, ACK, 3, 0, "d");
    wire.send(A, ACK, 3, 0, "def");
    assert_eq!(
        wire.told(),
        [
            "A 4ms #4 ..3 \"abc\"",
            "A 5ms #5 ..4 \"d\"",
            "A 7ms #7 ..6 \"ef\"",
        ]
    );
}

#[test]
fn t5_a_repeated_syn_is_ignored() {
    let mut wire = Wire::new();
    wire.send(A, S, -1, 0, "");
    wire.handshake();
    wire.send(A, ACK, 0, 0, "abc");
    wire.send(A, S, -1, 0, "");
    wire.send(B, SA, -1, 0, "");
    wire.send(A, ACK, 3, 0, "def");
    assert_eq!(
        wire.told(),
        ["A 5ms #5 ..3 \"abc\"", "A 8ms #8 ..6 \"def\""]
    );
}

#[test]
fn t6_a_syn_with_another_number_is_another_connection() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 0, 0, "old");
    let old = wire.isn;
    wire.isn = [900_000, 700_000];
    wire.handshake();
    let new = wire.isn;
    wire.isn = old;
    wire.send(A, S, -1, 0, "");
    wire.isn = new;
    wire.send(A, ACK, 0, 0, "new");
    assert_eq!(wire.done.len(), 1);
    wire.finish();
    assert_eq!(wire.done[0], ["A 4ms #4 ..3 \"old\"", "end #4"]);
    assert_eq!(wire.done[1], ["A 9ms #9 ..3 \"new\"", "end #9"]);
    assert_eq!(wire.opened.len(), 2);
}

#[test]
fn t22_data_in_the_syn_starts_after_it() {
    let mut wire = Wire::new();
    wire.send(A, S, -1, 0, "fast");
    wire.send(B, SA, -1, 4, "");
    wire.send(A, ACK, 4, 0, "more");
    assert_eq!(
        wire.told(),
        ["A 1ms #1 ..4 \"fast\"", "A 3ms #3 ..8 \"more\""]
    );
}

#[test]
fn t23_a_syn_ack_with_another_number_counts_only_before_anything_was_said() {
    let mut wire = Wire::open();
    wire.isn[1] = 8000;
    wire.send(B, SA, -1, 0, "");
    wire.send(B, ACK, 0, 0, "new");
    wire.isn[1] = 9000;
    wire.send(B, SA, -1, 0, "");
    wire.isn[1] = 8000;
    wire.send(B, F, 3, 0, "");
    wire.isn[1] = 9000;
    wire.send(B, SA, -1, 0, "");
    assert_eq!(
        wire.told(),
        ["B 5ms #5 ..3 \"new\"", "B 7ms #7 ..3 fin Some(0)"]
    );
}

#[test]
fn a_fin_below_what_was_acknowledged_is_not_believed() {
    let mut wire = Wire::open();
    wire.send(B, ACK, 0, 9, "");
    wire.send(A, F, 3, 0, "");
    wire.send(A, ACK, 0, 0, "ninebytes");
    wire.send(A, F, 9, 0, "");
    assert_eq!(
        wire.told(),
        ["A 6ms #6 ..9 \"ninebytes\"", "A 7ms #7 ..9 fin Some(0)"]
    );
}

#[test]
fn t23_simultaneous_open_is_one_connection() {
    let mut wire = Wire::new();
    wire.send(A, S, -1, 0, "");
    wire.send(B, S, -1, 0, "");
    wire.send(A, SA, -1, 0, "");
    wire.send(B, SA, -1, 0, "");
    wire.send(B, ACK, 0, 0, "hi");
    wire.send(A, ACK, 0, 2, "ho");
    assert_eq!(wire.told(), ["B 5ms #5 ..2 \"hi\"", "A 6ms #6 ..2 \"ho\""]);
}

#[test]
fn a_syn_ack_before_its_syn_keeps_the_sides() {
    let mut wire = Wire::new();
    wire.send(B, SA, -1, 0, "");
    wire.send(A, S, -1, 0, "");
    wire.send(A, ACK, 0, 0, "request");
    assert_eq!(wire.told(), ["A 3ms #3 ..7 \"request\""]);
    assert!(wire.opened[0].syn);
    assert_eq!(wire.opened[0].a.port(), 40000);
    assert_eq!(wire.opened.len(), 1);
}

#[test]
fn data_before_its_syn_keeps_its_offset() {
    let mut wire = Wire::new();
    wire.send(A, ACK, 3, 0, "def");
    wire.send(A, S, -1, 0, "");
    wire.send(B, SA, -1, 0, "");
    wire.send(A, ACK, 0, 0, "abc");
    assert_eq!(
        wire.told(),
        ["A 4ms #4 ..3 \"abc\"", "A 1ms #1 ..6 \"def\""]
    );
    assert_eq!(wire.count(Kind::Midstream), 0);
}

#[test]
fn fins_come_after_their_bytes_with_what_they_acknowledge() {
    let mut wire = Wire::open();
    wire.send(B, F, 3, 0, "def");
    wire.send(B, ACK, 0, 0, "abc");
    wire.send(A, F, 0, 7, "");
    wire.send(B, ACK, 7, 1, "");
    assert_eq!(
        wire.told(),
        [
            "B 5ms #5 ..3 \"abc\"",
            "B 4ms #4 ..6 \"def\"",
            "B 4ms #4 ..6 fin Some(0)",
            "A 6ms #6 ..0 fin Some(7)",
        ]
    );
}

#[test]
fn t11_a_repeated_fin_and_data_after_it_are_dropped() {
    let mut wire = Wire::open();
    wire.send(A, F, 0, 0, "abc");
    wire.send(A, F, 0, 0, "abc");
    wire.send(A, F, 3, 0, "");
    wire.send(A, ACK, 4, 0, "after");
    wire.send(A, ACK, 3, 0, "xyz");
    assert_eq!(
        wire.told(),
        ["A 4ms #4 ..3 \"abc\"", "A 4ms #4 ..3 fin Some(0)"]
    );
    assert_eq!(wire.count(Kind::Hole), 0);
}

#[test]
fn t11_after_one_fin_the_other_side_goes_on() {
    let mut wire = Wire::open();
    wire.send(A, F, 0, 0, "");
    wire.send(B, ACK, 0, 1, "");
    wire.wait(60_000);
    wire.send(B, ACK, 0, 1, "event");
    wire.send(B, F, 5, 1, "");
    wire.send(A, ACK, 1, 6, "");
    assert_eq!(
        wire.told(),
        [
            "A 4ms #4 ..0 fin Some(0)",
            "B 60006ms #6 ..5 \"event\"",
            "B 60007ms #7 ..5 fin Some(1)",
        ]
    );
}

#[test]
fn a_fin_whose_acknowledgment_came_first_is_a_fin() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 0, 0, "abc");
    wire.send(B, ACK, 0, 4, "");
    wire.send(A, F, 3, 0, "");
    assert_eq!(
        wire.told(),
        ["A 4ms #4 ..3 \"abc\"", "A 6ms #6 ..3 fin Some(0)"]
    );
    assert_eq!(wire.count(Kind::Hole), 0);
}

#[test]
fn a_fin_that_the_capture_lost_is_told_by_its_acknowledgment() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 0, 0, "abc");
    wire.send(B, F, 0, 4, "");
    wire.send(A, ACK, 4, 1, "");
    assert_eq!(
        wire.told(),
        [
            "A 4ms #4 ..3 \"abc\"",
            "B 5ms #5 ..0 fin Some(4)",
            "A 5ms #5 ..3 fin None",
        ]
    );
    assert_eq!(wire.count(Kind::Hole), 0);
}

#[test]
fn what_a_reset_acknowledges_was_sent() {
    let mut wire = Wire::open();
    wire.send(B, ACK, 0, 0, "abc");
    wire.send(A, RA, 0, 7, "");
    assert_eq!(
        wire.told(),
        [
            "B 4ms #4 ..3 \"abc\"",
            "A 5ms #5 ..0 rst Some(7)",
            "B 5ms #5 ..7 hole 4 Lost",
        ]
    );
}

#[test]
fn at_the_end_both_sides_are_handed_over_in_order_of_time() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 2, 0, "cd");
    wire.send(B, ACK, 2, 4, "CD");
    wire.send(A, ACK, 4, 4, "ef");
    wire.send(B, ACK, 4, 6, "EF");
    assert_eq!(
        wire.told(),
        [
            "A 4ms #4 ..2 hole 2 Lost",
            "A 4ms #4 ..4 \"cd\"",
            "B 5ms #5 ..2 hole 2 Lost",
            "B 5ms #5 ..4 \"CD\"",
            "A 6ms #6 ..6 \"ef\"",
            "B 7ms #7 ..6 \"EF\"",
        ]
    );
}

#[test]
fn one_byte_missing_before_others_is_no_fin() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 1, 0, "bc");
    wire.send(B, ACK, 0, 3, "");
    assert_eq!(
        wire.told(),
        ["A 4ms #4 ..1 hole 1 Lost", "A 4ms #4 ..3 \"bc\""]
    );
}

#[test]
fn a_fin_waits_with_the_gap_before_it() {
    let mut wire = Wire::open();
    wire.send(B, F, 4, 0, "");
    assert_eq!(
        wire.told(),
        ["B 4ms #4 ..4 hole 4 Lost", "B 4ms #4 ..4 fin Some(0)"]
    );
}

#[test]
fn t8_a_reset_comes_after_its_bytes_and_carries_none() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 3, 0, "def");
    wire.send(A, RA, 6, 0, "reason");
    wire.send(A, ACK, 0, 0, "abc");
    wire.send(A, ACK, 6, 0, "beyond");
    wire.send(B, ACK, 0, 0, "in flight");
    assert_eq!(
        wire.told(),
        [
            "A 6ms #6 ..3 \"abc\"",
            "A 4ms #4 ..6 \"def\"",
            "A 5ms #5 ..6 rst Some(0)",
            "B 8ms #8 ..9 \"in flight\"",
        ]
    );
}

#[test]
fn what_is_missing_before_a_reset_is_declared_before_it() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 3, 0, "def");
    wire.send(A, RA, 9, 0, "");
    wire.send(B, ACK, 0, 0, "in flight");
    assert_eq!(
        wire.told(),
        [
            "B 6ms #6 ..9 \"in flight\"",
            "A 4ms #4 ..3 hole 3 Unacknowledged",
            "A 4ms #4 ..6 \"def\"",
            "A 6ms #6 ..9 hole 3 Lost",
            "A 5ms #5 ..9 rst Some(0)",
        ]
    );
}

#[test]
fn of_two_resets_the_first_comes_first() {
    let mut wire = Wire::open();
    wire.send(A, RA, 3, 0, "");
    wire.send(B, RA, 0, 0, "");
    assert_eq!(
        wire.told(),
        [
            "A 4ms #4 ..3 rst Some(0)",
            "B 5ms #5 ..0 rst Some(0)",
            "A 5ms #5 ..3 hole 3 Lost",
        ]
    );
}

#[test]
fn t7_only_resets_that_the_peer_would_believe_count() {
    let mut wire = Wire::open();
    wire.send(B, ACK, 0, 0, "hello");
    wire.send(A, ACK, 0, 5, "");
    wire.send(B, R, 4, 0, "");
    wire.send(B, R, 300_000_000, 0, "");
    wire.send(B, R, -4000, 0, "");
    assert_eq!(wire.count(Kind::RstOutOfWindow), 3);
    wire.send(B, ACK, 5, 0, "more");
    wire.send(B, R, 9, 0, "");
    assert_eq!(
        wire.told(),
        [
            "B 4ms #4 ..5 \"hello\"",
            "B 9ms #9 ..9 \"more\"",
            "B 10ms #10 ..9 rst None",
        ]
    );
}

#[test]
fn a_reset_answers_a_syn() {
    let mut wire = Wire::new();
    wire.send(A, S, -1, 0, "");
    // A stray of a former connection acknowledges something else.
    wire.send(B, RA, -5001, 77, "");
    assert_eq!(wire.count(Kind::RstOutOfWindow), 1);
    wire.send(B, RA, -5001, 0, "");
    assert_eq!(wire.told(), ["B 3ms #3 ..0 rst Some(0)"]);
}

#[test]
fn a_refused_connection_may_be_tried_again() {
    let mut wire = Wire::new();
    wire.send(A, S, -1, 0, "");
    wire.send(B, RA, -5001, 0, "");
    wire.handshake();
    wire.send(A, ACK, 0, 0, "abc");
    wire.finish();
    assert_eq!(wire.done.len(), 2);
    assert!(wire.done[1][0].ends_with("\"abc\""), "{:?}", wire.done);
}

#[test]
fn a_syn_alone_is_unanswered() {
    let says = |answer: Option<(u8, i64)>| {
        let mut wire = Wire::new();
        wire.send(A, S, -1, 0, "");
        if let Some((flags, sequence)) = answer {
            wire.send(B, flags, sequence, 0, "");
        }
        wire.finish();
        wire.done.concat().iter().any(|l| l == "B unanswered")
    };
    assert!(says(None));
    assert!(!says(Some((RA, -5001))), "refused");
    assert!(!says(Some((SA, -1))), "accepted");
}

#[test]
fn t24_the_end_of_the_capture_is_no_end_of_the_connection() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 0, 0, "abc");
    let log = wire.log();
    assert!(!log.iter().any(|l| l.contains("fin") || l.contains("rst")));
    assert_eq!(log.last().unwrap(), "end #4");
}

#[test]
fn closed_connections_linger_and_leave_no_ghost() {
    let mut wire = Wire::open();
    wire.send(A, F, 0, 0, "");
    wire.send(B, F, 0, 1, "");
    wire.send(A, ACK, 1, 1, "");
    assert!(wire.done.is_empty());
    wire.send(B, F, 0, 1, "");
    wire.wait(1000);
    wire.ports[0] = 40001;
    wire.handshake();
    assert_eq!(wire.done.len(), 1);
    // Late leftovers of the forgotten connection.
    wire.ports[0] = 40000;
    wire.send(A, ACK, 1, 1, "");
    wire.send(B, R, 1, 0, "");
    wire.send(B, F, 0, 1, "");
    wire.finish();
    assert_eq!(wire.opened.len(), 2);
    assert_eq!(wire.done.len(), 2);
    assert_eq!(wire.anomalies.iter().count(), 0);
}

#[test]
fn a_long_idle_connection_is_let_go() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 0, 0, "abc");
    wire.wait(5 * 3600 * 1000);
    wire.ports[0] = 40001;
    wire.send(A, S, -1, 0, "");
    assert!(wire.done.is_empty(), "one clock alone ends nothing");
    wire.send(B, SA, -1, 0, "");
    assert_eq!(wire.done.len(), 1);
    assert_eq!(wire.anomalies.iter().count(), 0);
}

#[test]
fn t25_the_longest_idle_connection_makes_room() {
    let mut wire = Wire::with(Limits {
        connections: 2,
        ..Limits::default()
    });
    for port in 0..3 {
        wire.ports[0] = port;
        wire.send(A, S, -1, 0, "");
        if port == 1 {
            wire.ports[0] = 0;
            wire.send(A, ACK, 0, 0, "zero");
        }
    }
    assert_eq!(wire.done, [["B unanswered", "end #2"]]);
    assert_eq!(wire.count(Kind::ConnectionLimit), 1);
    wire.finish();
    assert_eq!(wire.done.len(), 3);
    assert_eq!(wire.done[1], ["A 3ms #3 ..4 \"zero\"", "end #3"]);
}

#[test]
fn t25_out_of_order_bytes_are_bounded() {
    let mut wire = Wire::with(Limits {
        out_of_order: 10_000,
        ..Limits::default()
    });
    wire.handshake();
    let text = "x".repeat(1000);
    for index in 0..12 {
        wire.send(A, ACK, 1 + index * 1000, 0, &text);
    }
    assert_eq!(wire.count(Kind::OutOfOrderLimit), 1);
    let told = wire.told();
    assert_eq!(told[0], "A 4ms #4 ..1 hole 1 Lost");
    assert_eq!(told.len(), 13);
}

#[test]
fn t25_out_of_order_bytes_of_all_connections_are_bounded() {
    let mut wire = Wire::with(Limits {
        all_out_of_order: 80_000,
        ..Limits::default()
    });
    let text = "x".repeat(1000);
    for port in 0..100 {
        wire.ports[0] = port;
        wire.handshake();
        for index in 0..5 {
            wire.send(A, ACK, 1 + index * 1000, 0, &text);
        }
        let held = wire.table.as_ref().map_or(0, |table| table.held);
        assert!(held <= 80_000, "{held} bytes are held");
    }
    assert!(wire.count(Kind::OutOfOrderLimit) > 50);
    // Who holds little still may.
    wire.ports[0] = 200;
    wire.handshake();
    wire.send(A, ACK, 4, 0, "def");
    wire.send(A, ACK, 0, 0, "abcd");
    wire.finish();
    assert!(wire.done.iter().all(|told| told.len() > 1));
    let last = wire.done.last().expect("the last connection");
    assert!(!last.iter().any(|line| line.contains("hole")), "{last:?}");
    assert!(wire.table.is_none());
}

#[test]
fn t4_a_start_in_the_middle_waits_for_earlier_bytes() {
    let mut wire = Wire::new();
    wire.send(A, ACK, 3, 100, "def");
    wire.send(A, ACK, 0, 100, "abc");
    wire.send(A, ACK, 6, 100, "ghi");
    assert_eq!(
        wire.told(),
        [
            "A 2ms #2 ..3 \"abc\"",
            "A 1ms #1 ..6 \"def\"",
            "A 3ms #3 ..9 \"ghi\"",
        ]
    );
    assert_eq!(wire.count(Kind::Midstream), 1);
    assert!(!wire.opened[0].syn);
}

#[test]
fn t4_a_start_in_the_middle_is_not_held_for_long() {
    let mut wire = Wire::new();
    wire.send(A, ACK, 100, 0, "request");
    wire.send(B, ACK, 0, 107, "answer");
    wire.send(A, ACK, 0, 6, "too late");
    assert_eq!(
        wire.told(),
        ["A 1ms #1 ..7 \"request\"", "B 2ms #2 ..6 \"answer\""]
    );
    let mut wire = Wire::new();
    wire.send(A, ACK, 100, 0, "request");
    wire.wait(300);
    wire.send(B, ACK, 0, 50, "");
    wire.send(A, ACK, 0, 0, "too late");
    assert_eq!(wire.told(), ["A 1ms #1 ..7 \"request\""]);
}

#[test]
fn an_acknowledgment_tells_where_data_starts() {
    let mut wire = Wire::new();
    wire.send(A, ACK, 0, 100, "");
    assert!(wire.opened.is_empty(), "nothing to tell yet");
    wire.send(B, ACK, 103, 0, "def");
    assert_eq!(wire.opened.len(), 1);
    assert_eq!(
        wire.told(),
        ["B 2ms #2 ..3 hole 3 Lost", "B 2ms #2 ..6 \"def\""]
    );
}

#[test]
fn a_keep_alive_does_not_tell_where_data_starts() {
    for answered in [false, true] {
        let mut wire = Wire::new();
        wire.send(B, ACK, 99, 0, "");
        if answered {
            wire.send(A, ACK, 0, 100, "");
        }
        wire.send(B, ACK, 100, 0, "event");
        let told = wire.told();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].ends_with("..5 \"event\""), "{told:?}");
    }
}

#[test]
fn strays_do_not_disturb_and_a_run_of_them_is_another_connection() {
    let mut wire = Wire::open();
    wire.send(A, ACK, 0, 0, "abc");
    wire.send(A, ACK, 1 << 30, 0, "stray");
    wire.send(A, ACK, 3, 0, "def");
    assert!(wire.done.is_empty());
    for index in 0..8 {
        wire.send(A, ACK, (1 << 30) + index, 0, "x");
    }
    wire.finish();
    assert_eq!(wire.done.len(), 2);
    assert_eq!(
        wire.done[0][..2],
        ["A 4ms #4 ..3 \"abc\"", "A 6ms #6 ..6 \"def\""]
    );
    assert_eq!(wire.done[1][0], "A 14ms #14 ..1 \"x\"");
}

#[test]
fn t19_one_sided_captures_are_read() {
    let mut wire = Wire::new();
    wire.send(B, SA, -1, 0, "");
    wire.send(B, ACK, 0, 50, "abc");
    wire.send(B, ACK, 6, 50, "ghi");
    wire.send(B, F, 9, 50, "");
    assert_eq!(
        wire.told(),
        [
            "B 2ms #2 ..3 \"abc\"",
            "A 4ms #4 ..50 hole 50 Lost",
            "B 3ms #3 ..6 hole 3 Lost",
            "B 3ms #3 ..9 \"ghi\"",
            "B 4ms #4 ..9 fin Some(50)",
        ]
    );
}

#[test]
fn t26_clocks_that_step_back_keep_the_order() {
    let mut wire = Wire::open();
    wire.wait(10_000);
    wire.send(A, ACK, 0, 0, "abc");
    wire.wait(-9_000);
    wire.send(A, ACK, 3, 0, "def");
    assert_eq!(
        wire.told(),
        ["A 10004ms #4 ..3 \"abc\"", "A 1005ms #5 ..6 \"def\""]
    );
}

#[test]
fn connections_finish_in_the_order_of_their_first_packets() {
    let mut wire = Wire::new();
    for port in [7, 3, 9, 1] {
        wire.ports[0] = port;
        wire.send(A, S, -1, 0, "");
    }
    wire.finish();
    let ends = wire.done.iter().map(|told| told.last().unwrap().as_str());
    assert_eq!(
        ends.collect::<Vec<_>>(),
        ["end #1", "end #2", "end #3", "end #4"]
    );
}

#[test]
fn an_idle_connection_is_small() {
    let size = size_of::<connection::Connection<()>>();
    assert!(size <= 640, "{size}");
}

impl Sink for () {
    fn data(&mut self, _: Side, _: &[u8], _: At) {}
    fn hole(&mut self, _: Side, _: u64, _: HoleKind, _: At) {}
    fn acknowledged(&mut self, _: Side, _: At) {}
    fn fin(&mut self, _: Side, _: Option<u64>, _: At) {}
    fn rst(&mut self, _: Side, _: Option<u64>, _: At) {}
    fn finish(&mut self, _: At) {}
}
