//! The headers between a frame's first byte and its IP packet, one after the other.

use super::u16_at;
use crate::{limits::LINK_HEADERS, model::packet::Skip};

/// What the bytes after a header begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// An IP packet of either version.
    Ip,
    /// What this `EtherType` says; below 1536 an 802.3 frame of that length (IEEE 802.3, 3.2.6).
    EtherType(u16),
    /// The addresses of an Ethernet frame.
    Ethernet,
    /// A PPP frame (RFC 1661), with or without HDLC's address and control (RFC 1662).
    Ppp,
    /// A logical link control header (IEEE 802.2).
    Llc,
}

/// What follows a header, and the bytes of it.
pub(super) type Peeled<'a> = Result<(Next, &'a [u8]), Skip>;

/// Goes down to the IP packet.
#[inline]
pub(super) fn descend((mut next, mut rest): (Next, &[u8])) -> Result<&[u8], Skip> {
    for _ in 0..LINK_HEADERS {
        (next, rest) = match next {
            Next::Ip | Next::EtherType(IPV4 | IPV6) => return Ok(rest),
            Next::EtherType(ether_type) => by_ether_type(ether_type, rest)?,
            Next::Ethernet => ethernet(rest)?,
            Next::Ppp => ppp(rest)?,
            Next::Llc => llc(rest)?,
        };
    }
    Err(Skip::TooDeep)
}

/// Ethernet II: two addresses and an `EtherType`.
#[inline]
pub(super) fn ethernet(frame: &[u8]) -> Peeled<'_> {
    const ADDRESSES: usize = 12;
    let ether_type = u16_at(frame, ADDRESSES).ok_or(Skip::Malformed("Ethernet header cut"))?;
    let rest = frame.get(ADDRESSES + 2..).unwrap_or_default();
    Ok((Next::EtherType(ether_type), rest))
}

/// An IP packet, as its first four bits say; anything else is none.
pub(super) fn ip_by_version(rest: &[u8]) -> Peeled<'_> {
    match rest.first().map(|first| first >> 4) {
        Some(4 | 6) => Ok((Next::Ip, rest)),
        Some(_) => Err(Skip::NotIp),
        None => Err(Skip::Malformed("tunnelled packet cut")),
    }
}

/// What follows `rest`'s first `len` bytes.
pub(super) fn after<'a>(rest: &'a [u8], len: usize, cut: &'static str) -> Result<&'a [u8], Skip> {
    rest.get(len..).ok_or(Skip::Malformed(cut))
}

fn by_ether_type(ether_type: u16, rest: &[u8]) -> Peeled<'_> {
    match ether_type {
        VLAN | SERVICE_VLAN | QINQ | QINQ_9200 => {
            let inner = u16_at(rest, 2).ok_or(Skip::Malformed("VLAN tag cut"))?;
            Ok((Next::EtherType(inner), rest.get(4..).unwrap_or_default()))
        }
        MPLS | MPLS_UPSTREAM => mpls(rest),
        PPPOE_SESSION => pppoe(rest),
        BRIDGED => Ok((Next::Ethernet, rest)),
        PPP => Ok((Next::Ppp, rest)),
        // The tag of the service instance (IEEE 802.1Q, 9.7c), then the customer's frame.
        PROVIDER_BACKBONE => Ok((
            Next::Ethernet,
            after(rest, 4, "802.1ah service instance tag cut")?,
        )),
        MACSEC => macsec(rest),
        NSH => nsh(rest),
        0..ETHER_TYPES => Ok((Next::Llc, rest)),
        _ => Err(Skip::NotIp),
    }
}

/// A stack of MPLS labels (RFC 3032, section 2.1). Nothing in it says what follows: its first four
/// bits do. 0 is the control word of a pseudowire (RFC 4385, section 3), or an Ethernet address, as
/// is what looks like IP but whose length says that it is none (RFC 8469).
pub(super) fn mpls(mut rest: &[u8]) -> Peeled<'_> {
    const CUT: Skip = Skip::Malformed("MPLS label stack cut");
    loop {
        let (label, inner) = rest.split_first_chunk::<4>().ok_or(CUT)?;
        rest = inner;
        if label[2] & 1 == 1 {
            break;
        }
    }
    let first = *rest.first().ok_or(CUT)?;
    match first >> 4 {
        4 if is_ethernet(rest) && !is_ipv4(rest) => Ok((Next::Ethernet, rest)),
        6 if is_ethernet(rest) && !is_ipv6(rest) => Ok((Next::Ethernet, rest)),
        4 | 6 => Ok((Next::Ip, rest)),
        0 if rest.get(4..).is_some_and(is_ethernet) => {
            Ok((Next::Ethernet, rest.get(4..).unwrap_or_default()))
        }
        // An associated channel carries no user's packets.
        1 if !is_ethernet(rest) => Err(Skip::NotIp),
        _ if is_ethernet(rest) => Ok((Next::Ethernet, rest)),
        _ => Err(Skip::NotIp),
    }
}

/// Whether these may be the addresses and `EtherType` of a frame with something that is read here.
fn is_ethernet(frame: &[u8]) -> bool {
    matches!(
        u16_at(frame, 12),
        Some(IPV4 | IPV6 | VLAN | SERVICE_VLAN | QINQ | QINQ_9200 | MPLS | PPPOE_SESSION)
    )
}

fn is_ipv4(packet: &[u8]) -> bool {
    let length = u16_at(packet, 2).unwrap_or_default();
    let words = packet.first().map_or(0, |first| first & 0xf);
    words >= 5
        && (length == 0 || usize::from(length) >= usize::from(words) * 4)
        && usize::from(length) <= packet.len()
}

fn is_ipv6(packet: &[u8]) -> bool {
    let length = u16_at(packet, 4).unwrap_or_default();
    packet.len() >= 40 && usize::from(length) <= packet.len() - 40
}

/// The header of a PPPoE session (RFC 2516, section 4).
pub(super) fn pppoe(rest: &[u8]) -> Peeled<'_> {
    let rest = after(rest, 6, "PPPoE header cut")?;
    Ok((Next::Ppp, rest))
}

fn ppp(frame: &[u8]) -> Peeled<'_> {
    const CUT: Skip = Skip::Malformed("PPP header cut");
    let frame = match frame {
        [0xff, 0x03, rest @ ..] => rest,
        frame => frame,
    };
    // Odd is the last byte of the protocol; the one before it may be compressed away.
    let (protocol, rest) = match frame {
        [low, rest @ ..] if low & 1 == 1 => (u16::from(*low), rest),
        [high, low, rest @ ..] => (u16::from_be_bytes([*high, *low]), rest),
        _ => return Err(CUT),
    };
    match protocol {
        0x0021 | 0x0057 => Ok((Next::Ip, rest)),
        0x0281 | 0x0283 => Ok((Next::EtherType(MPLS), rest)),
        // Bridged (RFC 3518, section 4.2): flags, kind of MAC (1 is Ethernet), the frame.
        0x0031 if rest.get(1) == Some(&1) => Ok((Next::Ethernet, rest.get(2..).ok_or(CUT)?)),
        _ => Err(Skip::NotIp),
    }
}

/// SNAP (IEEE 802, clause 9.2.4), or the SAP of IP.
fn llc(frame: &[u8]) -> Peeled<'_> {
    match frame {
        [0xaa, 0xaa, 0x03, 0, 0, 0 | 0xf8, high, low, rest @ ..] => {
            let ether_type = u16::from_be_bytes([*high, *low]);
            Ok((Next::EtherType(ether_type), rest))
        }
        [0x06, 0x06, 0x03, rest @ ..] => ip_by_version(rest),
        _ => Err(Skip::NotIp),
    }
}

/// A `SecTAG` (IEEE 802.1AE, clause 9.3): what follows is in the clear unless its bits say that it
/// is encrypted or changed. The check value at the end is left on the packet, as padding is.
fn macsec(rest: &[u8]) -> Peeled<'_> {
    const CUT: Skip = Skip::Malformed("MACsec tag cut");
    const SC: u8 = 0x20;
    const ENCRYPTED_OR_CHANGED: u8 = 0x0c;
    let control = *rest.first().ok_or(CUT)?;
    if control & ENCRYPTED_OR_CHANGED != 0 {
        return Err(Skip::NotIp);
    }
    let len = if control & SC == 0 { 6 } else { 14 };
    let ether_type = u16_at(rest, len).ok_or(CUT)?;
    let rest = rest.get(len + 2..).unwrap_or_default();
    Ok((Next::EtherType(ether_type), rest))
}

/// A network service header (RFC 8300, section 2).
pub(super) fn nsh(rest: &[u8]) -> Peeled<'_> {
    const CUT: &str = "network service header cut";
    let &[_, words, _, protocol] = rest.first_chunk().ok_or(Skip::Malformed(CUT))?;
    let len = usize::from(words & 0x3f) * 4;
    if len < 8 {
        return Err(Skip::Malformed("network service header too short"));
    }
    let rest = after(rest, len, CUT)?;
    by_next_protocol(protocol, rest)
}

/// What the next protocol of NSH (RFC 8300, section 2.2) or VXLAN-GPE says; both share the values.
pub(super) fn by_next_protocol(protocol: u8, rest: &[u8]) -> Peeled<'_> {
    match protocol {
        1 | 2 => ip_by_version(rest),
        3 => Ok((Next::Ethernet, rest)),
        4 => Ok((Next::EtherType(NSH), rest)),
        5 => Ok((Next::EtherType(MPLS), rest)),
        _ => Err(Skip::NotIp),
    }
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// 802.1Q.
const VLAN: u16 = 0x8100;
/// 802.1ad.
const SERVICE_VLAN: u16 = 0x88a8;
/// Used for outer tags before 802.1ad.
const QINQ: u16 = 0x9100;
const QINQ_9200: u16 = 0x9200;
pub(super) const MPLS: u16 = 0x8847;
const MPLS_UPSTREAM: u16 = 0x8848;
const PPPOE_SESSION: u16 = 0x8864;
/// Transparent Ethernet bridging (RFC 1701).
const BRIDGED: u16 = 0x6558;
/// PPP in GRE (RFC 2637).
const PPP: u16 = 0x880b;
/// 802.1ah.
const PROVIDER_BACKBONE: u16 = 0x88e7;
/// 802.1AE.
const MACSEC: u16 = 0x88e5;
const NSH: u16 = 0x894f;
/// Values below are lengths.
const ETHER_TYPES: u16 = 1536;

#[cfg(test)]
mod tests {
    use super::*;

    /// The frame of `PACKET` that a header is put before; an IPv4 packet without payload.
    const PACKET: [u8; 20] = *b"\x45\0\0\x14\0\0\0\0\x40\x06\0\0\x0a\0\0\x01\x0a\0\0\x02";

    fn frame(parts: &[&[u8]]) -> Vec<u8> {
        let mut all = vec![2; 12];
        for part in parts {
            all.extend_from_slice(part);
        }
        all.extend(PACKET);
        all
    }

    fn found(frame: &[u8]) -> Result<&[u8], Skip> {
        descend((Next::Ethernet, frame))
    }

    #[test]
    fn every_header_leads_to_the_packet() {
        let inner = [&[4_u8; 12][..], b"\x08\0"].concat();
        for (what, parts) in [
            ("plain", &[&b"\x08\0"[..]][..]),
            ("VLAN", &[b"\x81\0\0\x07\x08\0"]),
            ("QinQ", &[b"\x88\xa8\0\x07\x81\0\0\x08\x08\0"]),
            ("MPLS", &[b"\x88\x47\0\0\x10\x40\0\0\x11\x40"]),
            (
                "MPLS, pseudowire",
                &[b"\x88\x47\0\0\x11\x40\0\0\0\0", &inner],
            ),
            (
                "MPLS, pseudowire without control word",
                &[b"\x88\x48\0\0\x11\x40", &inner],
            ),
            ("PPPoE", &[b"\x88\x64\x11\0\0\x09\0\x16\0\x21"]),
            (
                "PPPoE, MPLS",
                &[b"\x88\x64\x11\0\0\x09\0\x1a\x02\x81\0\0\x11\x40"],
            ),
            ("802.1ah", &[b"\x88\xe7\0\0\0\x07", &inner]),
            ("MACsec", &[b"\x88\xe5\0\0\0\0\0\x01\x08\0"]),
            (
                "MACsec with channel",
                &[b"\x88\xe5\x20\0\0\0\0\x01\x01\x02\x03\x04\x05\x06\x07\x08\x08\0"],
            ),
            (
                "NSH",
                &[b"\x89\x4f\x0f\xc6\x01\x03\0\0\x01\xff", &[9; 16], &inner],
            ),
            ("SNAP", &[b"\0\x1c\xaa\xaa\x03\0\0\0\x08\0"]),
        ] {
            let frame = frame(parts);
            assert_eq!(found(&frame), Ok(&PACKET[..]), "{what}");
            for len in 0..frame.len() {
                match found(frame.get(..len).unwrap()) {
                    Ok(part) => assert!(PACKET.starts_with(part), "{what}, {len}"),
                    Err(skip) => assert_ne!(skip, Skip::TooDeep, "{what}, {len}"),
                }
            }
        }
    }

    #[test]
    fn what_is_encrypted_or_other_is_nothing_odd() {
        for parts in [
            &[&b"\x88\xe5\x0c\0\0\0\0\x01"[..]][..],
            &[b"\x88\x64\x11\0\0\x09\0\x16\xc0\x21"],
            &[b"\x88\x47\0\0\x11\x40\x10\0\0\x21"],
            &[b"\0\x26\x42\x42\x03"],
            &[b"\x08\x06"],
        ] {
            assert_eq!(found(&frame(parts)), Err(Skip::NotIp));
        }
    }

    #[test]
    fn headers_within_each_other_have_an_end() {
        let bridged = [[2_u8; 12].as_slice(), b"\x65\x58"].concat().repeat(100);
        assert_eq!(found(&bridged), Err(Skip::TooDeep));
        let tags = [&[2_u8; 12][..], &b"\x81\0\0\x07".repeat(1000)].concat();
        assert_eq!(found(&tags), Err(Skip::TooDeep));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(ether_type: u16, bytes: Vec<u8>) {
            for ether_type in [ether_type, MPLS, PPPOE_SESSION, MACSEC, NSH, PPP, BRIDGED, 8] {
                let _ = descend((Next::EtherType(ether_type), &bytes));
            }
            let _ = descend((Next::Ppp, &bytes));
            let _ = descend((Next::Llc, &bytes));
        }
    }
}
