//! L2TP version 2 (RFC 2661): PPP in UDP.

use super::{Next, Over, Tunnel, after, u16_at};
use crate::model::packet::Skip;

/// Flags with the version, maybe a length, tunnel and session, maybe numbers and an offset.
pub(super) const L2TP: Tunnel = Tunnel {
    name: "L2TP",
    over: Over::Udp(&[1701]),
    peel: |head| {
        const CONTROL: u16 = 0x8000;
        const LENGTH: u16 = 0x4000;
        const SEQUENCE: u16 = 0x0800;
        const OFFSET: u16 = 0x0200;
        const VERSION: u16 = 0x000f;
        const CUT: &str = "L2TP header cut";
        let flags = u16_at(head, 0).ok_or(Skip::Malformed(CUT))?;
        if flags & CONTROL != 0 || flags & VERSION != 2 {
            return Err(Skip::NotIp);
        }
        let has = |flag: u16| usize::from(flags & flag != 0);
        let mut len = 6 + 2 * has(LENGTH) + 4 * has(SEQUENCE);
        if has(OFFSET) == 1 {
            let padding = u16_at(head, len).ok_or(Skip::Malformed(CUT))?;
            len += 2 + usize::from(padding);
        }
        Ok((Next::Ppp, after(head, len, CUT)?))
    },
};

#[cfg(test)]
mod tests {
    use super::super::tests::{PACKET, carries_packet, udp, within};
    use super::*;

    #[test]
    fn ppp_follows_the_header() {
        for head in [
            &b"\0\x02\0\x01\0\x02"[..],
            b"\x40\x02\0\x20\0\x01\0\x02",
            b"\x4a\x02\0\x20\0\x01\0\x02\0\x05\0\0\0\x03\0\0\0",
        ] {
            let payload = [head, b"\xff\x03\0\x21", PACKET].concat();
            carries_packet(17, &udp(1701, &payload));
        }
    }

    #[test]
    fn control_messages_carry_none() {
        for head in [&b"\xc8\x02\0\x0c"[..], b"\0\x03\0\0\0\0\0\x01"] {
            let payload = udp(1701, &[head, PACKET].concat());
            assert_eq!(within(17, &payload), Some(Err(Skip::NotIp)));
        }
    }
}
