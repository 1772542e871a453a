//! Frame → IP packet: a file a family of link types, and in `tunnel` one a kind of tunnel that
//! brings another packet out of an IP packet. The headers that they share are in `layers`.
//!
//! Padding that follows the IP packet is left on it; only the IP header tells its length.

#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation
)]

mod ethernet;
mod host;
mod layers;
mod loopback;
mod names;
mod raw;
mod serial;
mod sll;
mod tunnel;

use crate::model::packet::{Frame, IpPacket, LinkType, Skip};

pub use names::link_name;
pub use sll::interface;
pub use tunnel::{TUNNELS, Tunnel, carries, inside};

/// A way to find the IP packet in a frame, and the link types it is for.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Values that captures have for it.
    pub types: &'static [LinkType],
    /// What people call it.
    pub name: &'static str,
    /// The frame from its first byte → what follows the header.
    peel: fn(&[u8]) -> layers::Peeled<'_>,
}

/// The link types that are read, the most usual first.
pub static LINKS: &[Link] = &[
    ethernet::LINK,
    sll::V1,
    sll::V2,
    loopback::NULL,
    loopback::LOOP,
    raw::ANY,
    raw::V4,
    raw::V6,
    serial::PPP,
    serial::PPP_WITH_DIRECTION,
    serial::PPPOE,
    serial::C_HDLC,
    host::NFLOG,
    host::PKTAP,
    host::PFLOG,
    host::ENC,
];

/// The IP packet that `frame` carries.
///
/// # Errors
///
/// Says why there is none; only [`Skip::Malformed`] means that something is wrong.
#[inline]
pub fn peel<'a>(frame: &Frame<'a>) -> Result<IpPacket<'a>, Skip> {
    let link = LINKS
        .iter()
        .find(|link| link.types.contains(&frame.link))
        .ok_or(Skip::UnknownLink(frame.link))?;
    let data = layers::descend((link.peel)(frame.data)?)?;
    let captured = u32::try_from(frame.data.len()).unwrap_or(u32::MAX);
    Ok(IpPacket {
        data,
        missing: frame.original_len.saturating_sub(captured),
    })
}

/// Whether frames of this link type are read.
#[must_use]
pub fn is_read(link: LinkType) -> bool {
    LINKS.iter().any(|known| known.types.contains(&link))
}

/// The big-endian number at `at`.
#[inline]
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{place::Place, time::Timestamp};

    /// Peels `data` as a frame of `link`; only the IP packet's bytes.
    pub(super) fn peeled(link: u16, data: &[u8]) -> Result<&[u8], Skip> {
        peel(&frame(link, data, data.len())).map(|packet| packet.data)
    }

    /// Every prefix of a frame peels to a prefix of what the frame peels to, or is skipped.
    pub(super) fn cuts_well(link: u16, data: &[u8]) {
        let whole = peeled(link, data).unwrap();
        for len in 0..data.len() {
            if let Ok(part) = peeled(link, data.get(..len).unwrap()) {
                assert!(whole.starts_with(part));
                assert_eq!(whole.len() - part.len(), data.len() - len);
            }
        }
    }

    pub(super) fn frame(link: u16, data: &[u8], original: usize) -> Frame<'_> {
        Frame {
            time: Timestamp::default(),
            place: Place::default(),
            link: LinkType(link),
            data,
            original_len: u32::try_from(original).unwrap(),
        }
    }

    #[test]
    fn unknown_link_types_are_named() {
        assert_eq!(
            peeled(105, b"\x08\0"),
            Err(Skip::UnknownLink(LinkType(105)))
        );
    }

    #[test]
    fn tells_which_link_types_are_read() {
        assert!(is_read(LinkType(1)) && !is_read(LinkType(105)));
    }

    #[test]
    fn says_what_the_snapshot_length_cut() {
        let packet = peel(&frame(101, b"\x45rest", 100)).unwrap();
        assert_eq!(packet.missing, 95);
        let packet = peel(&frame(101, b"\x45rest", 0)).unwrap();
        assert_eq!(packet.missing, 0);
    }

    #[test]
    fn each_link_type_is_read_in_one_way() {
        let mut types: Vec<_> = LINKS.iter().flat_map(|link| link.types).collect();
        let all = types.len();
        types.sort();
        types.dedup();
        assert_eq!(types.len(), all);
        for link in types {
            assert!(!link_name(*link).starts_with("LINKTYPE"), "{link:?}");
        }
    }
}
