//! Bytes to TCP packets: handshakes, segments, acknowledgements, closes.

use super::{
    model::{Close, Side, Talk},
    wire::{Flight, Sent, flights},
    wire_h2,
};

/// A TCP segment, before it has headers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Packet {
    /// Microseconds since the talk began.
    pub(crate) at: i64,
    pub(crate) connection: usize,
    pub(crate) from: Side,
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) payload: Vec<u8>,
    /// Tells a copy of a packet from a retransmission.
    pub(crate) ip_id: u16,
    /// The tap did not see it.
    pub(crate) lost: bool,
}

impl Packet {
    /// Whether it opens or closes its connection.
    pub(crate) fn is_control(&self) -> bool {
        self.flags & (SYN | FIN | RST) != 0
    }
}

/// The packets of a talk as a tap sees them, in order of time.
pub(crate) fn packets(talk: &Talk) -> Vec<Packet> {
    packets_of(talk, &flights(talk))
}

/// Those of the same talk in HTTP/2, or why it cannot carry it.
pub(crate) fn packets_h2(talk: &Talk) -> Result<Vec<Packet>, &'static str> {
    Ok(packets_of(talk, &wire_h2::flights(talk)?))
}

/// Those of flights of its connections.
pub(crate) fn packets_of(talk: &Talk, flights: &[Flight]) -> Vec<Packet> {
    seen(sent(talk, flights))
}

/// What a tap sees of packets.
pub(crate) fn seen(mut packets: Vec<Packet>) -> Vec<Packet> {
    packets.retain(|packet| !packet.lost);
    packets.sort_by_key(|p: &Packet| p.at);
    for (index, packet) in packets.iter_mut().enumerate() {
        packet.ip_id = u16::try_from(index % 0xffff).unwrap_or_default() + 1;
    }
    packets
}

/// The packets of flights as they were sent, those among them that the tap did not see.
pub(crate) fn sent(talk: &Talk, flights: &[Flight]) -> Vec<Packet> {
    let mut connections: Vec<Conversation> =
        (0..talk.connections.len()).map(Conversation::new).collect();
    let mut out = Vec::new();
    let mut last = vec![0; talk.connections.len()];
    for (index, flight) in flights.iter().enumerate() {
        last[flight.connection] = index;
    }
    for (index, flight) in flights.iter().enumerate() {
        let more = last[flight.connection] > index;
        connections[flight.connection].take(flight, more, &mut out);
    }
    out
}

struct Conversation {
    connection: usize,
    open: bool,
    reset: [bool; 2],
    finished: [bool; 2],
    next: [u32; 2],
    at: i64,
}

impl Conversation {
    fn new(connection: usize) -> Self {
        // The clients' numbers begin just below the wrap, so that every talk crosses it.
        let salt = u32::try_from(connection)
            .unwrap_or_default()
            .wrapping_mul(7919);
        Self {
            connection,
            open: false,
            reset: [false; 2],
            finished: [false; 2],
            next: [0xffff_ff80 - salt % 64, 1_000_000 + salt],
            at: 0,
        }
    }

    fn take(&mut self, flight: &Flight, more: bool, out: &mut Vec<Packet>) {
        self.at = flight.at;
        if matches!(flight.what, Sent::Close(Close::Refused)) {
            self.send(Side::Client, SYN, &[], false, out);
            // Who never said anything has no numbers of its own (RFC 9293, section 3.5.2).
            self.next[Side::Server as usize] = 0;
            self.send(Side::Server, RST | ACK, &[], false, out);
            return;
        }
        if !self.open {
            self.open = true;
            self.send(Side::Client, SYN, &[], false, out);
            self.send(Side::Server, SYN | ACK, &[], false, out);
            self.send(Side::Client, ACK, &[], false, out);
        }
        let peer = flight.side.other();
        match &flight.what {
            Sent::Bytes(bytes) => {
                for segment in bytes.chunks(MSS) {
                    self.send(flight.side, ACK | PSH, segment, flight.lost, out);
                }
                if self.reset[peer as usize] {
                    self.send(peer, RST, &[], false, out);
                } else if !self.reset[flight.side as usize] {
                    self.send(peer, ACK, &[], false, out);
                }
            }
            Sent::Close(Close::Refused) => {}
            Sent::Close(Close::Rst(side)) => {
                self.send(*side, RST | ACK, &[], flight.lost, out);
                self.reset[*side as usize] = true;
            }
            Sent::Close(Close::Fin(side)) => {
                self.send(*side, FIN | ACK, &[], flight.lost, out);
                self.finished[*side as usize] = true;
                self.send(peer, ACK, &[], false, out);
                if !more && !self.finished[peer as usize] {
                    self.send(peer, FIN | ACK, &[], false, out);
                    self.finished[peer as usize] = true;
                    self.send(*side, ACK, &[], false, out);
                }
            }
        }
    }

    fn send(&mut self, from: Side, flags: u8, payload: &[u8], lost: bool, out: &mut Vec<Packet>) {
        let seq = self.next[from as usize];
        let ack = if flags & ACK == 0 {
            0
        } else {
            self.next[from.other() as usize]
        };
        let phantom = u32::from(flags & (SYN | FIN) != 0);
        let length = u32::try_from(payload.len()).unwrap_or_default();
        self.next[from as usize] = seq.wrapping_add(length + phantom);
        out.push(Packet {
            at: self.at,
            connection: self.connection,
            from,
            flags,
            seq,
            ack,
            payload: payload.to_vec(),
            ip_id: 0,
            lost,
        });
        // Packets of one line follow each other closely: a line has a millisecond.
        self.at += 10;
    }
}

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const PSH: u8 = 8;
pub(crate) const ACK: u8 = 16;

/// The payload of a full Ethernet frame.
const MSS: usize = 1460;
