//! Packets to frames, and frames to classic pcap files.

use super::{
    model::{Side, Talk},
    tcp::{Packet, SYN},
};
use std::net::{IpAddr, SocketAddr};

/// What lies under IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Ethernet,
    Raw,
}

impl Link {
    /// The number that capture files have for it.
    pub(crate) fn number(self) -> u16 {
        match self {
            Self::Ethernet => 1,
            Self::Raw => 101,
        }
    }
}

/// A flavour of pcap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pcap {
    pub(crate) link: Link,
    pub(crate) big_endian: bool,
    pub(crate) nanoseconds: bool,
}

/// The file.
pub(crate) fn render(talk: &Talk, packets: &[Packet], as_: Pcap) -> Vec<u8> {
    let frames: Vec<(i64, Vec<u8>)> = packets
        .iter()
        .map(|packet| (packet.at, frame(talk, packet, as_.link)))
        .collect();
    file(&frames, as_)
}

/// A file of frames, each with its time in microseconds since the talk began.
pub(crate) fn file(frames: &[(i64, Vec<u8>)], as_: Pcap) -> Vec<u8> {
    let u32_ = |value: u32| {
        if as_.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let magic = if as_.nanoseconds {
        0xa1b2_3c4d
    } else {
        0xa1b2_c3d4
    };
    let mut out = Vec::new();
    out.extend(u32_(magic));
    let (major, minor) = (2u16, 4u16);
    if as_.big_endian {
        out.extend(major.to_be_bytes());
        out.extend(minor.to_be_bytes());
    } else {
        out.extend(major.to_le_bytes());
        out.extend(minor.to_le_bytes());
    }
    for value in [0, 0, 262_144, u32::from(as_.link.number())] {
        out.extend(u32_(value));
    }
    for (at, frame) in frames {
        let time = START_MICROS + at;
        let (seconds, fraction) = (time / 1_000_000, time % 1_000_000);
        let fraction = if as_.nanoseconds {
            fraction * 1_000
        } else {
            fraction
        };
        let length = u32::try_from(frame.len()).unwrap();
        for value in [
            u32::try_from(seconds).unwrap(),
            u32::try_from(fraction).unwrap(),
            length,
            length,
        ] {
            out.extend(u32_(value));
        }
        out.extend(frame);
    }
    out
}

/// One packet with all its headers and valid checksums.
pub(crate) fn frame(talk: &Talk, packet: &Packet, link: Link) -> Vec<u8> {
    let ends = &talk.connections[packet.connection];
    let (from, to) = match packet.from {
        Side::Client => (ends.client, ends.server),
        Side::Server => (ends.server, ends.client),
    };
    let segment = tcp(packet, from, to);
    let mut out = Vec::new();
    if link == Link::Ethernet {
        let (client, server) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 9]);
        let (source, destination) = match packet.from {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        out.extend::<[u8; 6]>(destination);
        out.extend::<[u8; 6]>(source);
        out.extend(if from.is_ipv4() {
            0x0800u16.to_be_bytes()
        } else {
            0x86ddu16.to_be_bytes()
        });
    }
    let length = |extra: usize| u16::try_from(segment.len() + extra).unwrap().to_be_bytes();
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut ip = vec![0x45, 0];
            ip.extend(length(20));
            ip.extend(packet.ip_id.to_be_bytes());
            ip.extend([0x40, 0, 64, 6, 0, 0]);
            ip.extend(from.octets());
            ip.extend(to.octets());
            let sum = checksum(&[&ip]).to_be_bytes();
            ip[10..12].copy_from_slice(&sum);
            out.extend(ip);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            out.extend([0x60, 0, 0, 0]);
            out.extend(length(0));
            out.extend([6, 64]);
            out.extend(from.octets());
            out.extend(to.octets());
        }
        _ => panic!("{} has ends of two families", ends.name),
    }
    out.extend(segment);
    out
}

fn tcp(packet: &Packet, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(from.port().to_be_bytes());
    out.extend(to.port().to_be_bytes());
    out.extend(packet.seq.to_be_bytes());
    out.extend(packet.ack.to_be_bytes());
    // A SYN offers the segment size that all of them keep.
    let options: &[u8] = if packet.flags & SYN == 0 {
        &[]
    } else {
        &[2, 4, 0x05, 0xb4]
    };
    let words = u8::try_from(5 + options.len() / 4).unwrap();
    out.extend([words << 4, packet.flags]);
    out.extend(65_000u16.to_be_bytes());
    out.extend([0, 0, 0, 0]);
    out.extend(options);
    out.extend(&packet.payload);
    let mut pseudo = Vec::new();
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            pseudo.extend(from.octets());
            pseudo.extend(to.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            pseudo.extend(from.octets());
            pseudo.extend(to.octets());
        }
        _ => {}
    }
    pseudo.extend(6u32.to_be_bytes());
    pseudo.extend(u32::try_from(out.len()).unwrap().to_be_bytes());
    let sum = checksum(&[&pseudo, &out]).to_be_bytes();
    out[16..18].copy_from_slice(&sum);
    out
}

/// The Internet checksum (RFC 1071) over parts, all but the last of even length.
pub(crate) fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum: u32 = 0;
    for part in parts {
        for pair in part.chunks(2) {
            let low = pair.get(1).copied().unwrap_or_default();
            sum += u32::from(u16::from_be_bytes([pair[0], low]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap()
}

/// When every talk begins: 2026-01-01T00:00:00Z.
pub(crate) const START_MICROS: i64 = 1_767_225_600_000_000;
