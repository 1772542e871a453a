//! Frames that are IP packets (`LINKTYPE_RAW`, `LINKTYPE_IPV4`, `LINKTYPE_IPV6`).

use super::{
    Link,
    layers::{Next, Peeled},
};
use crate::model::packet::{LinkType, Skip};

/// Either version. 12 and 14 are what `DLT_RAW` is on most systems and on OpenBSD; some writers
/// put that into files.
pub(super) const ANY: Link = Link {
    types: &[LinkType(101), LinkType(12), LinkType(14)],
    name: "raw IP",
    peel: |frame| version(frame, &[4, 6]),
};

pub(super) const V4: Link = Link {
    types: &[LinkType(228)],
    name: "raw IPv4",
    peel: |frame| version(frame, &[4]),
};

pub(super) const V6: Link = Link {
    types: &[LinkType(229)],
    name: "raw IPv6",
    peel: |frame| version(frame, &[6]),
};

fn version<'a>(frame: &'a [u8], allowed: &[u8]) -> Peeled<'a> {
    match frame.first() {
        Some(first) if allowed.contains(&(first >> 4)) => Ok((Next::Ip, frame)),
        Some(_) => Err(Skip::Malformed("IP version differs from the link type's")),
        None => Err(Skip::Malformed("empty frame")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cuts_well, peeled};
    use super::*;

    #[test]
    fn the_frame_is_the_packet() {
        for (link, packet) in [
            (101, &b"\x45 four"[..]),
            (101, b"\x60 six"),
            (12, b"\x45 four"),
            (14, b"\x60 six"),
            (228, b"\x45 four"),
            (229, b"\x60 six"),
        ] {
            assert_eq!(peeled(link, packet), Ok(packet));
            cuts_well(link, packet);
        }
    }

    #[test]
    fn the_version_must_fit() {
        for (link, packet) in [
            (101, &b"\x50"[..]),
            (228, b"\x60"),
            (229, b"\x45"),
            (101, b""),
        ] {
            assert!(matches!(peeled(link, packet), Err(Skip::Malformed(_))));
        }
    }
}
