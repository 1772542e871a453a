//! The Internet checksum (RFC 1071) of what is captured.
//!
//! What a network card was to fill in is not wrong: the field then holds nothing, or the sum of the
//! addresses, protocol and length alone, from where the card goes on.

use crate::model::packet::IpPacket;
use std::net::IpAddr;

/// The checksum that an IPv4 header has and the one that it should have, when it is wrong.
#[inline]
#[must_use]
pub fn header_sum(packet: &IpPacket<'_>) -> Option<(u16, u16)> {
    let first = *packet.data.first()?;
    if first >> 4 != 4 {
        return None;
    }
    let header = packet.data.get(..usize::from(first & 0xf) * 4)?;
    let sum = fold(sum(header));
    if sum == u16::MAX {
        return None;
    }
    let stated = u16::from_be_bytes(*header.get(10..)?.first_chunk()?);
    (stated != 0).then(|| (stated, right(stated, sum)))
}

/// The checksum that a segment between these addresses has and the one that it should have, when it
/// is wrong. `parts` follow each other, the first of even length, and the checksum is at `at` of it.
#[must_use]
pub fn transport_sum(
    (source, destination): (IpAddr, IpAddr),
    protocol: u8,
    at: usize,
    parts: [&[u8]; 2],
) -> Option<(u16, u16)> {
    let [head, rest] = parts;
    let stated = u16::from_be_bytes(*head.get(at..)?.first_chunk()?);
    // Beyond that it is a bundle of segments (offload), whose length is nowhere.
    let len = u16::try_from(head.len() + rest.len()).ok()?;
    let pseudo = of_address(source) + of_address(destination) + u64::from(protocol);
    let unfinished = [pseudo, pseudo + u64::from(len)].map(fold);
    if unfinished.contains(&stated) || stated == 0 {
        return None;
    }
    let sum = fold(pseudo + u64::from(len) + sum(head) + sum(rest));
    (sum != u16::MAX).then(|| (stated, right(stated, sum)))
}

/// What a field that holds `stated` should hold, when all add up to `sum` with it.
fn right(stated: u16, sum: u16) -> u16 {
    !fold(u64::from(sum) + u64::from(!stated))
}

fn of_address(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    }
}

/// Big-endian words of 16 bits, not yet folded. The sum of words of 32 bits folds to the same.
#[inline]
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let all: u64 = words
        .iter()
        .map(|word| u64::from(u32::from_be_bytes(*word)))
        .sum();
    let rest = match *rest {
        [a] => u32::from_be_bytes([a, 0, 0, 0]),
        [a, b] => u32::from_be_bytes([a, b, 0, 0]),
        [a, b, c] => u32::from_be_bytes([a, b, c, 0]),
        _ => 0,
    };
    all + u64::from(rest)
}

/// Adds up with the carry coming in at the other end (one's complement).
#[inline]
fn fold(mut sum: u64) -> u16 {
    loop {
        match u16::try_from(sum) {
            Ok(sum) => return sum,
            Err(_) => sum = (sum & 0xffff) + (sum >> 16),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    /// A packet, its addresses, and where its TCP header begins.
    fn packets(payload: &[u8]) -> [(Vec<u8>, (IpAddr, IpAddr), usize); 2] {
        let (mut four, mut six) = (Vec::new(), Vec::new());
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .tcp(1, 2, 3, 4)
            .write(&mut four, payload)
            .unwrap();
        PacketBuilder::ipv6([1; 16], [2; 16], 64)
            .tcp(1, 2, 3, 4)
            .write(&mut six, payload)
            .unwrap();
        let ends = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let ends_6 = (IpAddr::from([1; 16]), IpAddr::from([2; 16]));
        [(four, ends, 20), (six, ends_6, 40)]
    }

    fn of_tcp(packet: &[u8], ends: (IpAddr, IpAddr), start: usize) -> Option<(u16, u16)> {
        let (head, rest) = packet.get(start..).unwrap().split_at(20);
        transport_sum(ends, 6, 16, [head, rest])
    }

    fn of_header(data: &[u8]) -> Option<(u16, u16)> {
        header_sum(&IpPacket { data, missing: 0 })
    }

    #[test]
    fn right_sums_are_right_whatever_the_length() {
        for len in 0..40 {
            let payload: Vec<u8> = (0..len).map(|byte: u8| byte.wrapping_mul(7)).collect();
            for (packet, ends, start) in packets(&payload) {
                assert_eq!(of_tcp(&packet, ends, start), None);
                assert_eq!(of_header(&packet), None);
            }
        }
    }

    #[test]
    fn a_wrong_sum_is_told_with_the_right_one() {
        for (packet, ends, start) in packets(b"odd") {
            for at in [start, start + 4, start + 22] {
                let mut wrong = packet.clone();
                *wrong.get_mut(at).unwrap() ^= 0x55;
                let (stated, is) = of_tcp(&wrong, ends, start).unwrap();
                let field = wrong.get_mut(start + 16..start + 18).unwrap();
                assert_eq!(field, stated.to_be_bytes());
                field.copy_from_slice(&is.to_be_bytes());
                assert_eq!(of_tcp(&wrong, ends, start), None);
            }
        }
        let [(mut packet, ..), _] = packets(b"");
        *packet.get_mut(8).unwrap() -= 1;
        let (_, is) = of_header(&packet).unwrap();
        packet.splice(10..12, is.to_be_bytes());
        assert_eq!(of_header(&packet), None);
    }

    #[test]
    fn what_a_card_was_to_fill_in_is_not_wrong() {
        for (packet, ends, start) in packets(b"payload") {
            let pseudo = of_address(ends.0) + of_address(ends.1) + 6;
            for unfinished in [0, fold(pseudo), fold(pseudo + 27)] {
                let mut packet = packet.clone();
                packet.splice(start + 16..start + 18, unfinished.to_be_bytes());
                assert_eq!(of_tcp(&packet, ends, start), None);
            }
        }
        let [(mut packet, ..), _] = packets(b"");
        packet.splice(10..12, [0, 0]);
        assert_eq!(of_header(&packet), None);
    }
}
