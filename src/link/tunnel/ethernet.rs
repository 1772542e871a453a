//! Ethernet frames in IP and nothing else: EtherIP (RFC 3378) and the mirror of sniffers and
//! routers, TZSP.

use super::{Next, Over, Tunnel, after, u16_at};
use crate::model::packet::Skip;

/// Version and reserved bits, then the frame.
pub(super) const ETHERIP: Tunnel = Tunnel {
    name: "EtherIP",
    over: Over::Ip(97),
    peel: |head| {
        const CUT: &str = "EtherIP header cut";
        match head.first().ok_or(Skip::Malformed(CUT))? >> 4 {
            3 => Ok((Next::Ethernet, after(head, 2, CUT)?)),
            _ => Err(Skip::NotIp),
        }
    },
};

/// Version, type, protocol, then tags: padding (0), the end (1), or a type and a length.
pub(super) const TZSP: Tunnel = Tunnel {
    name: "TZSP",
    over: Over::Udp(&[37_008]),
    peel: |head| {
        const ETHERNET: u16 = 1;
        const CUT: &str = "TZSP header cut";
        let (Some(&[1, _]), Some(ETHERNET)) = (head.first_chunk(), u16_at(head, 2)) else {
            return Err(Skip::NotIp);
        };
        let mut rest = after(head, 4, CUT)?;
        loop {
            rest = match rest {
                [0, rest @ ..] => rest,
                [1, rest @ ..] => return Ok((Next::Ethernet, rest)),
                [_, len, rest @ ..] => after(rest, usize::from(*len), CUT)?,
                _ => return Err(Skip::Malformed(CUT)),
            };
        }
    },
};

#[cfg(test)]
mod tests {
    use super::super::tests::{carries_packet, frame, udp, within};
    use super::*;

    #[test]
    fn the_frame_follows_the_header() {
        carries_packet(97, &[&b"\x30\0"[..], &frame()].concat());
        for head in [
            &b"\x01\0\0\x01\x01"[..],
            b"\x01\0\0\x01\0\x0a\x01\xd8\x29\x02\x05\x06\x01",
        ] {
            carries_packet(17, &udp(37_008, &[head, &frame()].concat()));
        }
    }

    #[test]
    fn what_is_no_frame_is_nothing_odd() {
        assert_eq!(within(97, b"\x20\0"), Some(Err(Skip::NotIp)));
        // 802.11
        let wireless = udp(37_008, b"\x01\0\0\x12\x01");
        assert_eq!(within(17, &wireless), Some(Err(Skip::NotIp)));
    }
}
