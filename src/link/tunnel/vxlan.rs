//! The overlays of data centres and clusters: VXLAN (RFC 7348), its generic extension and Geneve
//! (RFC 8926).

use super::{super::layers::by_next_protocol, Next, Over, Tunnel, after, u16_at};
use crate::model::packet::Skip;

/// 4789 by IANA, 8472 as Linux has it when nothing is said (flannel, Cilium).
pub(super) const VXLAN: Tunnel = Tunnel {
    name: "VXLAN",
    over: Over::Udp(&[4789, 8472]),
    peel: |rest| {
        let (flags, rest) = split(rest)?;
        if flags & WITH_IDENTIFIER == 0 {
            return Err(Skip::NotIp);
        }
        Ok((Next::Ethernet, rest))
    },
};

/// The last byte of the first word says what follows (draft-ietf-nvo3-vxlan-gpe).
pub(super) const GPE: Tunnel = Tunnel {
    name: "VXLAN-GPE",
    over: Over::Udp(&[4790]),
    peel: |head| {
        const WITH_PROTOCOL: u8 = 0x04;
        let (flags, rest) = split(head)?;
        match head.get(3) {
            _ if flags & WITH_IDENTIFIER == 0 => Err(Skip::NotIp),
            Some(protocol) if flags & WITH_PROTOCOL != 0 => by_next_protocol(*protocol, rest),
            _ => Ok((Next::Ethernet, rest)),
        }
    },
};

/// Version and length of the options, flags, `EtherType`, network, options.
pub(super) const GENEVE: Tunnel = Tunnel {
    name: "Geneve",
    over: Over::Udp(&[6081]),
    peel: |head| {
        const CUT: &str = "Geneve header cut";
        let first = *head.first().ok_or(Skip::Malformed(CUT))?;
        if first >> 6 != 0 {
            return Err(Skip::NotIp);
        }
        let ether_type = u16_at(head, 2).ok_or(Skip::Malformed(CUT))?;
        let rest = after(head, 8 + usize::from(first & 0x3f) * 4, CUT)?;
        Ok((Next::EtherType(ether_type), rest))
    },
};

/// The flags and what follows the eight bytes.
fn split(head: &[u8]) -> Result<(u8, &[u8]), Skip> {
    head.split_first_chunk::<8>()
        .map(|(head, rest)| (head[0], rest))
        .ok_or(Skip::Malformed("VXLAN header cut"))
}

const WITH_IDENTIFIER: u8 = 0x08;

#[cfg(test)]
mod tests {
    use super::super::tests::{PACKET, carries_packet, frame, udp, within};
    use super::*;

    #[test]
    fn overlays_carry_frames() {
        let vxlan = [&b"\x08\0\0\0\0\0\x07\0"[..], &frame()].concat();
        for port in [4789, 8472, 4790] {
            carries_packet(17, &udp(port, &vxlan));
        }
        // With a group policy, as Cilium and Cisco set one.
        let policy = [&b"\x88\0\x01\x02\0\0\x07\0"[..], &frame()].concat();
        carries_packet(17, &udp(4789, &policy));
    }

    #[test]
    fn the_extension_says_what_follows() {
        for (protocol, inner) in [(1, PACKET.to_vec()), (3, frame())] {
            let head = [0x0c, 0, 0, protocol, 0, 0, 7, 0];
            carries_packet(17, &udp(4790, &[&head[..], &inner].concat()));
        }
    }

    #[test]
    fn options_are_gone_past() {
        for (ether_type, inner) in [(0x6558_u16, frame()), (0x0800, PACKET.to_vec())] {
            for words in [0_u8, 1, 63] {
                let [high, low] = ether_type.to_be_bytes();
                let head = [words, 0, high, low, 0, 0, 7, 0];
                let options = vec![0x5a; usize::from(words) * 4];
                let payload = [&head[..], &options, &inner].concat();
                carries_packet(17, &udp(6081, &payload));
            }
        }
    }

    #[test]
    fn what_the_ports_have_by_chance_is_nothing_odd() {
        for port in [4789, 4790] {
            let payload = [&[0; 8], &frame()[..]].concat();
            assert_eq!(within(17, &udp(port, &payload)), Some(Err(Skip::NotIp)));
        }
        assert_eq!(within(17, &udp(6081, &[0xff; 40])), Some(Err(Skip::NotIp)));
    }
}
