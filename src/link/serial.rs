//! Point-to-point lines: PPP (`LINKTYPE_PPP` and its kin), PPPoE (`LINKTYPE_PPP_ETHER`) and Cisco's
//! HDLC (`LINKTYPE_C_HDLC`).

use super::{
    Link,
    layers::{Next, after, pppoe},
    u16_at,
};
use crate::model::packet::{LinkType, Skip};

/// PPP with or without HDLC's address and control; 166 has the direction in the place of the
/// address.
pub(super) const PPP: Link = Link {
    types: &[LinkType(9), LinkType(50), LinkType(166)],
    name: "PPP",
    peel: |frame| match frame {
        [0 | 1, 0x03, rest @ ..] => Ok((Next::Ppp, rest)),
        frame => Ok((Next::Ppp, frame)),
    },
};

/// The direction, then PPP.
pub(super) const PPP_WITH_DIRECTION: Link = Link {
    types: &[LinkType(204)],
    name: "PPP with direction",
    peel: |frame| Ok((Next::Ppp, after(frame, 1, "PPP header cut")?)),
};

/// What begins with the header of a PPPoE session (RFC 2516).
pub(super) const PPPOE: Link = Link {
    types: &[LinkType(51)],
    name: "PPPoE",
    peel: |frame| {
        const CUT: Skip = Skip::Malformed("PPPoE header cut");
        // The stages of discovery have codes.
        match frame.get(1).ok_or(CUT)? {
            0 => pppoe(frame),
            _ => Err(Skip::NotIp),
        }
    },
};

/// Address, control, `EtherType` (RFC 1547, section 4.3.1).
pub(super) const C_HDLC: Link = Link {
    types: &[LinkType(104)],
    name: "Cisco HDLC",
    peel: |frame| {
        const CUT: &str = "Cisco HDLC header cut";
        let ether_type = u16_at(frame, 2).ok_or(Skip::Malformed(CUT))?;
        Ok((Next::EtherType(ether_type), after(frame, 4, CUT)?))
    },
};

#[cfg(test)]
mod tests {
    use super::super::tests::{cuts_well, peeled};
    use super::*;

    #[test]
    fn ppp_has_many_forms() {
        for (link, head) in [
            (9, &b"\xff\x03\0\x21"[..]),
            (9, b"\0\x21"),
            (9, b"\x57"),
            (50, b"\xff\x03\0\x57"),
            (166, b"\0\x03\0\x21"),
            (166, b"\x01\x03\0\x57"),
            (204, b"\x01\xff\x03\0\x21"),
            (9, b"\xff\x03\x02\x81\0\0\x11\x40"),
        ] {
            let frame = [head, b"\x45acket"].concat();
            assert_eq!(peeled(link, &frame), Ok(&b"\x45acket"[..]), "{head:?}");
        }
    }

    #[test]
    fn the_packet_follows_the_header() {
        for (link, head) in [
            (51, &b"\x11\0\0\x09\0\x16\0\x21"[..]),
            (104, b"\x0f\0\x08\0"),
        ] {
            let frame = [head, b"\x45acket"].concat();
            assert_eq!(peeled(link, &frame), Ok(&b"\x45acket"[..]));
            cuts_well(link, &frame);
        }
    }

    #[test]
    fn what_sets_a_line_up_is_nothing_odd() {
        for (link, frame) in [
            (9, &b"\xff\x03\xc0\x21\x01"[..]),
            (51, b"\x11\x09\0\0\0\0"),
            (104, b"\x8f\0\x80\x35\0"),
        ] {
            assert_eq!(peeled(link, frame), Err(Skip::NotIp));
        }
    }
}
