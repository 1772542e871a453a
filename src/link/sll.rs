//! Linux "cooked" captures (`LINKTYPE_LINUX_SLL`, `LINKTYPE_LINUX_SLL2`): what the `any` interface
//! gives.

use super::{
    Link,
    layers::{Next, Peeled},
    u16_at,
};
use crate::model::packet::{Frame, LinkType, Skip};

/// 16 bytes: packet type, hardware type, address length, address (8), protocol.
pub(super) const V1: Link = Link {
    types: &[LinkType(113)],
    name: "Linux cooked capture",
    peel: |frame| peel(frame, 2, 14, 16),
};

/// 20 bytes: protocol, reserved, interface (4), hardware type, packet type, address length,
/// address (8).
pub(super) const V2: Link = Link {
    types: &[SLL2],
    name: "Linux cooked capture v2",
    peel: |frame| peel(frame, 8, 0, 20),
};

const SLL2: LinkType = LinkType(276);

#[inline]
fn peel(frame: &[u8], hardware: usize, protocol: usize, header: usize) -> Peeled<'_> {
    /// `ARPHRD_NETLINK`: what follows is no packet of a network.
    const NETLINK: u16 = 824;
    let (Some(hardware), Some(protocol), Some(rest)) = (
        u16_at(frame, hardware),
        u16_at(frame, protocol),
        frame.get(header..),
    ) else {
        return Err(Skip::Malformed("Linux cooked header cut"));
    };
    if hardware == NETLINK {
        return Err(Skip::NotIp);
    }
    Ok((Next::EtherType(protocol), rest))
}

/// The index of the interface that saw a frame, where its link-layer header tells.
///
/// A host's `any` interface sees a packet once on every interface that it passes: the index tells
/// which of the copies this is.
#[must_use]
pub fn interface(frame: &Frame<'_>) -> Option<u32> {
    let index = frame.data.get(4..)?.first_chunk()?;
    (frame.link == SLL2).then(|| u32::from_be_bytes(*index))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cuts_well, frame, peeled};
    use super::*;

    fn v1(protocol: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut frame = b"\0\x04\0\x01\0\x06\x02\x03\x04\x05\x06\x07\0\0".to_vec();
        frame.extend(protocol);
        frame.extend(payload);
        frame
    }

    fn v2(protocol: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut frame = protocol.to_vec();
        frame.extend(b"\0\0\0\0\0\x02\0\x01\x04\x06\x02\x03\x04\x05\x06\x07\0\0");
        frame.extend(payload);
        frame
    }

    #[test]
    fn both_versions_carry_ip() {
        for protocol in [b"\x08\0", b"\x86\xdd"] {
            for (link, frame) in [
                (113, v1(protocol, b"packet")),
                (276, v2(protocol, b"packet")),
            ] {
                assert_eq!(peeled(link, &frame), Ok(&b"packet"[..]));
                cuts_well(link, &frame);
            }
        }
    }

    #[test]
    fn tags_may_follow() {
        let tagged = b"\0\x07\x08\0packet";
        assert_eq!(peeled(113, &v1(b"\x81\0", tagged)), Ok(&b"packet"[..]));
        assert_eq!(peeled(276, &v2(b"\x81\0", tagged)), Ok(&b"packet"[..]));
    }

    #[test]
    fn what_is_not_ip_is_nothing_odd() {
        // ARP, and the Linux-only 802.2 value.
        for protocol in [b"\x08\x06", b"\0\x04"] {
            assert_eq!(peeled(113, &v1(protocol, b"?")), Err(Skip::NotIp));
            assert_eq!(peeled(276, &v2(protocol, b"?")), Err(Skip::NotIp));
        }
        // A message of netlink, whose protocol may look like an EtherType.
        let mut netlink = v1(b"\x08\0", b"?");
        netlink.splice(2..4, [3, 56]);
        assert_eq!(peeled(113, &netlink), Err(Skip::NotIp));
    }

    #[test]
    fn the_second_version_tells_the_interface() {
        let (one, two) = (v1(b"\x08\0", b"packet"), v2(b"\x08\0", b"packet"));
        assert_eq!(interface(&frame(113, &one, one.len())), None);
        assert_eq!(interface(&frame(276, &two, two.len())), Some(2));
        let cut = two.get(..7).unwrap();
        assert_eq!(interface(&frame(276, cut, two.len())), None);
    }

    #[test]
    fn cut_headers_are_malformed() {
        assert!(matches!(peeled(113, &[0; 15]), Err(Skip::Malformed(_))));
        assert!(matches!(peeled(276, &[8; 19]), Err(Skip::Malformed(_))));
    }
}
