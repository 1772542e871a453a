//! The user plane of mobile networks: GTP-U (3GPP TS 29.281).

use super::{Over, Tunnel, after, ip_by_version};
use crate::model::packet::Skip;

/// Flags, type of message, length, tunnel; then, when a flag says so, four bytes of which the last
/// is the type of the first extension header. Only a T-PDU carries a packet.
pub(super) const GTP: Tunnel = Tunnel {
    name: "GTP-U",
    over: Over::Udp(&[2152]),
    peel: |head| {
        const VERSION_AND_TYPE: u8 = 0xf0;
        const OPTIONAL: u8 = 0x07;
        const EXTENDED: u8 = 0x04;
        const T_PDU: u8 = 255;
        let &[flags, message] = head.first_chunk().ok_or(Skip::Malformed(CUT))?;
        // Version 1, not the protocol for charging.
        if flags & VERSION_AND_TYPE != 0x30 || message != T_PDU {
            return Err(Skip::NotIp);
        }
        if flags & OPTIONAL == 0 {
            return ip_by_version(after(head, 8, CUT)?);
        }
        let next = *head.get(11).ok_or(Skip::Malformed(CUT))?;
        let rest = after(head, 12, CUT)?;
        let rest = if flags & EXTENDED == 0 {
            rest
        } else {
            past_extensions(next, rest)?
        };
        ip_by_version(rest)
    },
};

/// Extension headers (section 5.2.1): length in words of four bytes, content, type of the next.
fn past_extensions(mut next: u8, mut rest: &[u8]) -> Result<&[u8], Skip> {
    while next != 0 {
        let len = usize::from(*rest.first().ok_or(Skip::Malformed(CUT))?) * 4;
        if len == 0 {
            return Err(Skip::Malformed("GTP-U extension header without length"));
        }
        next = *rest.get(len - 1).ok_or(Skip::Malformed(CUT))?;
        rest = rest.get(len..).unwrap_or_default();
    }
    Ok(rest)
}

const CUT: &str = "GTP-U header cut";

#[cfg(test)]
mod tests {
    use super::super::tests::{PACKET, carries_packet, udp, within};
    use super::*;

    #[test]
    fn a_user_packet_follows_the_headers() {
        for head in [
            &b"\x30\xff\0\x14\0\0\0\x07"[..],
            b"\x32\xff\0\x18\0\0\0\x07\0\x01\0\0",
            // The type of an extension counts only when its flag is set.
            b"\x32\xff\0\x18\0\0\0\x07\0\x01\0\x85",
            // A session container, as 5G has it; and a long one after it.
            b"\x34\xff\0\x1c\0\0\0\x07\0\0\0\x85\x01\x10\x09\0",
            b"\x34\xff\0\x24\0\0\0\x07\0\0\0\x85\x01\x10\x09\xc0\x02\0\0\0\0\0\0\0",
        ] {
            carries_packet(17, &udp(2152, &[head, PACKET].concat()));
        }
    }

    #[test]
    fn other_messages_carry_none() {
        for head in [
            // Echo; version 2; charging; a frame that is not IP.
            &b"\x32\x01\0\x04\0\0\0\0\0\x01\0\0"[..],
            b"\x48\xff\0\x14\0\0\0\x07",
            b"\x20\xff\0\x14\0\0\0\x07",
            b"\x30\xff\0\x14\0\0\0\x07\x02\x02",
        ] {
            let payload = udp(2152, &[head, PACKET].concat());
            assert_eq!(within(17, &payload), Some(Err(Skip::NotIp)));
        }
        let endless = udp(
            2152,
            &[&b"\x34\xff\0\x24\0\0\0\x07\0\0\0\x85\0"[..], PACKET].concat(),
        );
        assert!(matches!(
            within(17, &endless),
            Some(Err(Skip::Malformed(_)))
        ));
    }
}
