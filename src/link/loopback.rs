//! BSD loopback (`LINKTYPE_NULL`, `LINKTYPE_LOOP`): four bytes of address family.

use super::{
    Link,
    layers::{Next, Peeled},
};
use crate::model::packet::{LinkType, Skip};

/// The family in the byte order of the machine that captured, which the file does not tell.
pub(super) const NULL: Link = Link {
    types: &[LinkType(0)],
    name: "BSD loopback",
    peel: null,
};

/// The family in network byte order.
pub(super) const LOOP: Link = Link {
    types: &[LinkType(108)],
    name: "OpenBSD loopback",
    peel: |frame| {
        let (family, rest) = split(frame)?;
        let known = is_ip(u32::from_be_bytes(family));
        known.then_some((Next::Ip, rest)).ok_or(Skip::NotIp)
    },
};

pub(super) fn null(frame: &[u8]) -> Peeled<'_> {
    let (family, rest) = split(frame)?;
    let known = is_ip(u32::from_le_bytes(family)) || is_ip(u32::from_be_bytes(family));
    known.then_some((Next::Ip, rest)).ok_or(Skip::NotIp)
}

fn split(frame: &[u8]) -> Result<([u8; 4], &[u8]), Skip> {
    frame
        .split_first_chunk()
        .map(|(family, rest)| (*family, rest))
        .ok_or(Skip::Malformed("loopback header cut"))
}

/// `AF_INET` is 2 everywhere; `AF_INET6` is 24 on NetBSD and OpenBSD, 28 on FreeBSD, 30 on macOS,
/// 10 on Linux.
pub(super) const fn is_ip(family: u32) -> bool {
    matches!(family, 2 | 10 | 24 | 28 | 30)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cuts_well, peeled};
    use super::*;

    fn frame(family: [u8; 4]) -> Vec<u8> {
        [&family[..], b"packet"].concat()
    }

    #[test]
    fn every_family_of_ip_is_known() {
        for family in [2_u32, 10, 24, 28, 30] {
            let (le, be) = (frame(family.to_le_bytes()), frame(family.to_be_bytes()));
            for (link, frame) in [(0, &le), (0, &be), (108, &be)] {
                assert_eq!(peeled(link, frame), Ok(&b"packet"[..]));
                cuts_well(link, frame);
            }
            assert_eq!(peeled(108, &le), Err(Skip::NotIp));
        }
    }

    #[test]
    fn other_families_are_nothing_odd() {
        // AppleTalk on BSD
        assert_eq!(peeled(0, &frame(16_u32.to_le_bytes())), Err(Skip::NotIp));
        assert_eq!(peeled(108, &frame(16_u32.to_be_bytes())), Err(Skip::NotIp));
    }

    #[test]
    fn cut_headers_are_malformed() {
        for link in [0, 108] {
            assert!(matches!(peeled(link, b"\x02\0\0"), Err(Skip::Malformed(_))));
        }
    }
}
