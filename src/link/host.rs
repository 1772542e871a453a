//! What hosts put before the packets of their firewalls and interfaces: Linux's netfilter log
//! (`LINKTYPE_NFLOG`), macOS's `pktap` (`LINKTYPE_PKTAP`), and the packet filter's log and IPsec
//! interface of the BSDs (`LINKTYPE_PFLOG`, `LINKTYPE_ENC`).

use super::{
    Link,
    layers::{Next, Peeled, after, ip_by_version},
    loopback,
};
use crate::model::packet::{LinkType, Skip};

/// Family, version and resource, then attributes: length with its own header, type, value, padding
/// to four bytes. Numbers are in the byte order of the machine that captured.
pub(super) const NFLOG: Link = Link {
    types: &[LinkType(239)],
    name: "Linux netfilter log",
    peel: |frame| {
        let attributes = after(frame, 4, NFLOG_CUT)?;
        match payload(attributes, u16::from_le_bytes) {
            Err(Skip::Malformed(_)) => payload(attributes, u16::from_be_bytes),
            found => found,
        }
    },
};

fn payload(mut rest: &[u8], number: fn([u8; 2]) -> u16) -> Peeled<'_> {
    /// `NFULA_PAYLOAD`.
    const PAYLOAD: u16 = 9;
    while !rest.is_empty() {
        let (head, value) = rest
            .split_first_chunk::<4>()
            .ok_or(Skip::Malformed(NFLOG_CUT))?;
        let &[a, b, c, d] = head;
        let (len, kind) = (usize::from(number([a, b])), number([c, d]));
        if len < 4 {
            return Err(Skip::Malformed("netfilter log attribute too short"));
        }
        if kind == PAYLOAD {
            // The IP header states its own length; the snapshot may have cut this one.
            return ip_by_version(value.get(..len - 4).unwrap_or(value));
        }
        rest = after(rest, len.next_multiple_of(4), NFLOG_CUT)?;
    }
    Err(Skip::NotIp)
}

const NFLOG_CUT: &str = "netfilter log header cut";

/// Length of this header, kind of what follows (1 is a packet), its `DLT_`, and what else macOS
/// knows of it; little-endian.
pub(super) const PKTAP: Link =
    Link {
        types: &[LinkType(258)],
        name: "macOS pktap",
        peel: |frame| {
            const CUT: &str = "pktap header cut";
            const PACKET: u32 = 1;
            let field = |at: usize| -> Option<u32> {
                Some(u32::from_le_bytes(*frame.get(at..)?.first_chunk()?))
            };
            let (Some(len), Some(kind), Some(link)) = (field(0), field(4), field(8)) else {
                return Err(Skip::Malformed(CUT));
            };
            if kind != PACKET {
                return Err(Skip::NotIp);
            }
            let rest = after(frame, usize::try_from(len).unwrap_or(usize::MAX), CUT)?;
            match link {
                0 => loopback::null(rest),
                1 => Ok((Next::Ethernet, rest)),
                9 => Ok((Next::Ppp, rest)),
                12 | 101 => ip_by_version(rest),
                link => Err(u16::try_from(link)
                    .map_or(Skip::NotIp, |link| Skip::UnknownLink(LinkType(link)))),
            }
        },
    };

/// Length of this header without its padding to four bytes, address family, and what the filter
/// did.
pub(super) const PFLOG: Link = Link {
    types: &[LinkType(117)],
    name: "BSD packet filter log",
    peel: |frame| {
        const CUT: &str = "packet filter log header cut";
        let &[len, family] = frame.first_chunk().ok_or(Skip::Malformed(CUT))?;
        let rest = after(frame, usize::from(len).next_multiple_of(4), CUT)?;
        if loopback::is_ip(u32::from(family)) {
            ip_by_version(rest)
        } else {
            Err(Skip::NotIp)
        }
    },
};

/// Address family, security parameters and flags, four bytes each.
pub(super) const ENC: Link = Link {
    types: &[LinkType(109)],
    name: "BSD IPsec interface",
    peel: |frame| ip_by_version(after(frame, 12, "IPsec interface header cut")?),
};

#[cfg(test)]
mod tests {
    use super::super::tests::{cuts_well, peeled};
    use super::*;

    const PACKET: &[u8] = b"\x45 a packet";

    fn nflog(number: fn(u16) -> [u8; 2]) -> Vec<u8> {
        let mut frame = b"\x02\0\0\x05".to_vec();
        // The packet header of netfilter, a prefix of five bytes that is padded, the packet.
        for (kind, value) in [(1, &b"\x08\0\x01\0"[..]), (10, b"drop\0"), (9, PACKET)] {
            frame.extend(number(u16::try_from(value.len() + 4).unwrap()));
            frame.extend(number(kind));
            frame.extend(value);
            if kind != 9 {
                frame.resize(frame.len().next_multiple_of(4), 0);
            }
        }
        frame
    }

    fn pktap(link: u8, kind: u8) -> Vec<u8> {
        let mut frame = vec![108, 0, 0, 0, kind, 0, 0, 0, link, 0, 0, 0];
        frame.extend(b"en0");
        frame.resize(108, 0);
        frame
    }

    #[test]
    fn the_packet_follows_what_the_host_says() {
        let ethernet = [&[2; 12], &b"\x08\0"[..]].concat();
        for (link, frame) in [
            (239, nflog(u16::to_le_bytes)),
            (239, nflog(u16::to_be_bytes)),
            (258, [pktap(1, 1), ethernet, PACKET.to_vec()].concat()),
            (
                258,
                [pktap(0, 1), b"\x02\0\0\0".to_vec(), PACKET.to_vec()].concat(),
            ),
            (258, [pktap(12, 1), PACKET.to_vec()].concat()),
            (117, [&b"\x3d\x02\0\0"[..], &[0; 60], PACKET].concat()),
            (
                109,
                [&b"\x02\0\0\0\0\0\x10\x01\0\0\0\0"[..], PACKET].concat(),
            ),
        ] {
            assert_eq!(peeled(link, &frame), Ok(PACKET), "{link}");
            cuts_well(link, &frame);
        }
    }

    #[test]
    fn what_is_not_ip_is_nothing_odd() {
        assert_eq!(peeled(239, b"\x02\0\0\x05"), Err(Skip::NotIp));
        assert_eq!(peeled(258, &pktap(1, 0)), Err(Skip::NotIp));
        assert_eq!(
            peeled(117, &[&b"\x3d\x12"[..], &[0; 62]].concat()),
            Err(Skip::NotIp)
        );
        // A link type within that is not read.
        assert_eq!(
            peeled(258, &pktap(105, 1)),
            Err(Skip::UnknownLink(LinkType(105)))
        );
    }

    #[test]
    fn attributes_that_do_not_go_on_are_malformed() {
        assert!(matches!(
            peeled(239, b"\x02\0\0\x05\0\0\x01\0"),
            Err(Skip::Malformed(_))
        ));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            for link in [109, 117, 239, 258] {
                let _ = peeled(link, &bytes);
            }
        }
    }
}
