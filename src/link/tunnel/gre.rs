//! GRE (RFC 2784, RFC 2890; version 1: RFC 2637) and what is only within it: NVGRE (RFC 7637),
//! ERSPAN (draft-foschiano-erspan) and WCCP.

use super::{Next, Over, Peeled, Tunnel, after, ip_by_version, u16_at};
use crate::model::packet::Skip;

pub(super) const GRE: Tunnel = Tunnel {
    name: "GRE",
    over: Over::Ip(47),
    peel,
};

/// Flags with the version, `EtherType`, and the fields that the flags say are there. NVGRE is a
/// bridged frame whose key is the network.
fn peel(head: &[u8]) -> Peeled<'_> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const ACKNOWLEDGMENT: u16 = 0x0080;
    const VERSION: u16 = 0x0007;
    let (Some(flags), Some(protocol)) = (u16_at(head, 0), u16_at(head, 2)) else {
        return Err(Skip::Malformed(CUT));
    };
    let has = |flag: u16| usize::from(flags & flag != 0);
    let mut len = 4 + 4 * has(KEY) + 4 * has(SEQUENCE);
    match flags & VERSION {
        0 => len += 4 * has(CHECKSUM | ROUTING),
        1 => len += 4 * has(ACKNOWLEDGMENT),
        _ => return Err(Skip::NotIp),
    }
    let mut rest = after(head, len, CUT)?;
    if has(ROUTING) == 1 {
        rest = past_routes(rest)?;
    }
    match protocol {
        ERSPAN | ERSPAN_3 => erspan(rest, has(SEQUENCE) == 1),
        // The packet that a router redirects, maybe after four bytes of how.
        WCCP => match rest.first().map(|first| first >> 4) {
            Some(4) => Ok((Next::Ip, rest)),
            _ => ip_by_version(after(rest, 4, CUT)?),
        },
        ether_type => Ok((Next::EtherType(ether_type), rest)),
    }
}

/// Routes (RFC 1701): family, offset, length, the route; all zero is the last.
fn past_routes(mut rest: &[u8]) -> Result<&[u8], Skip> {
    loop {
        let (&[family, family_low, _, len], inner) =
            rest.split_first_chunk::<4>().ok_or(Skip::Malformed(CUT))?;
        if (family, family_low, len) == (0, 0, 0) {
            return Ok(inner);
        }
        rest = after(inner, usize::from(len), CUT)?;
    }
}

/// A mirrored frame. Type I has no header and no sequence number in GRE's; II has eight bytes, III
/// twelve and eight more when its last bit says so.
fn erspan(head: &[u8], numbered: bool) -> Peeled<'_> {
    const CUT: &str = "ERSPAN header cut";
    /// An IP packet without a frame.
    const IP: u8 = 2;
    if !numbered {
        return Ok((Next::Ethernet, head));
    }
    let version = head.first().ok_or(Skip::Malformed(CUT))? >> 4;
    if version == 1 {
        return Ok((Next::Ethernet, after(head, 8, CUT)?));
    }
    if version != 2 {
        return Err(Skip::NotIp);
    }
    let &[kind, last] = head
        .get(10..)
        .and_then(<[u8]>::first_chunk)
        .ok_or(Skip::Malformed(CUT))?;
    let rest = after(head, if last & 1 == 0 { 12 } else { 20 }, CUT)?;
    match kind >> 2 & 0x1f {
        0 => Ok((Next::Ethernet, rest)),
        IP => ip_by_version(rest),
        _ => Err(Skip::NotIp),
    }
}

const ERSPAN: u16 = 0x88be;
const ERSPAN_3: u16 = 0x22eb;
const WCCP: u16 = 0x883e;

const CUT: &str = "GRE header cut";

#[cfg(test)]
mod tests {
    use super::super::tests::{PACKET, carries_packet, frame, within};
    use super::*;

    fn gre(head: &[u8], inner: &[u8]) -> Vec<u8> {
        [head, inner].concat()
    }

    #[test]
    fn the_fields_are_those_of_the_flags() {
        for (head, inner) in [
            (&b"\0\0\x08\0"[..], PACKET.to_vec()),
            (b"\x80\0\x08\0\x12\x34\0\0", PACKET.to_vec()),
            (b"\x20\0\x08\0\0\0\0\x07", PACKET.to_vec()),
            (b"\x10\0\x08\0\0\0\0\x01", PACKET.to_vec()),
            (
                b"\xb0\0\x08\0\x12\x34\0\0\0\0\0\x07\0\0\0\x01",
                PACKET.to_vec(),
            ),
            (
                b"\x40\0\x08\0\0\0\0\0\x08\0\0\x04\x0a\0\0\x09\0\0\0\0",
                PACKET.to_vec(),
            ),
            (b"\0\0\x65\x58", frame()),
            // NVGRE
            (b"\x20\0\x65\x58\0\0\x07\0", frame()),
            (b"\0\0\x88\x47\0\0\x11\x40", PACKET.to_vec()),
            // PPTP
            (
                b"\x30\x01\x88\x0b\0\x18\0\x07\0\0\0\x01\xff\x03\0\x21",
                PACKET.to_vec(),
            ),
            (
                b"\x30\x81\x88\x0b\0\x18\0\x07\0\0\0\x01\0\0\0\x01\x21",
                PACKET.to_vec(),
            ),
            // WCCP, both ways
            (b"\0\0\x88\x3e", PACKET.to_vec()),
            (b"\0\0\x88\x3e\0\0\0\0", PACKET.to_vec()),
        ] {
            carries_packet(47, &gre(head, &inner));
        }
    }

    #[test]
    fn mirrored_frames_of_every_type() {
        for (head, inner) in [
            (&b"\0\0\x88\xbe"[..], frame()),
            (b"\x10\0\x88\xbe\0\0\0\x01\x10\x07\0\x01\0\0\0\0", frame()),
            (
                b"\x10\0\x22\xeb\0\0\0\x01\x20\x07\0\x01\0\0\0\0\0\0\0\0",
                frame(),
            ),
            (
                b"\x10\0\x22\xeb\0\0\0\x01\x20\x07\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0",
                frame(),
            ),
            (
                b"\x10\0\x22\xeb\0\0\0\x01\x20\x07\0\x01\0\0\0\0\0\0\x08\0",
                PACKET.to_vec(),
            ),
        ] {
            carries_packet(47, &gre(head, &inner));
        }
    }

    #[test]
    fn what_else_it_carries_is_nothing_odd() {
        for head in [
            // Version 2; a keep-alive; ARP; ERSPAN of a later version.
            &b"\0\x02\x08\0"[..],
            b"\0\0\0\0",
            b"\0\0\x08\x06",
            b"\x10\0\x88\xbe\0\0\0\x01\x30\0\0\0",
        ] {
            assert_eq!(within(47, &gre(head, PACKET)), Some(Err(Skip::NotIp)));
        }
    }
}
