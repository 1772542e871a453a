//! Ethernet II (`LINKTYPE_ETHERNET`) with any number of VLAN tags.

use super::{Link, u16_at};
use crate::model::packet::{LinkType, Skip};

pub(super) const LINK: Link = Link {
    types: &[LinkType(1)],
    name: "Ethernet",
    peel,
};

#[inline]
fn peel(frame: &[u8]) -> Result<&[u8], Skip> {
    const ADDRESSES: usize = 12;
    let Some(ether_type) = u16_at(frame, ADDRESSES) else {
        return Err(Skip::Malformed("Ethernet header cut"));
    };
    by_ether_type(ether_type, frame.get(ADDRESSES + 2..).unwrap_or_default())
}

/// What follows an `EtherType` field; goes through VLAN tags (IEEE 802.1Q), whose last two bytes
/// are another such field. Values below 1536 are lengths (IEEE 802.3, clause 3.2.6), and what
/// follows those is not IP to us.
#[inline]
pub(super) fn by_ether_type(mut ether_type: u16, mut rest: &[u8]) -> Result<&[u8], Skip> {
    loop {
        match ether_type {
            IPV4 | IPV6 => return Ok(rest),
            VLAN | SERVICE_VLAN | QINQ | QINQ_9200 => {
                let Some(inner) = u16_at(rest, 2) else {
                    return Err(Skip::Malformed("VLAN tag cut"));
                };
                ether_type = inner;
                rest = rest.get(4..).unwrap_or_default();
            }
            _ => return Err(Skip::NotIp),
        }
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

#[cfg(test)]
mod tests {
    use super::super::tests::{cuts_well, peeled};
    use super::*;

    fn ethernet(fields: &[u16], payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for field in fields {
            frame.extend(field.to_be_bytes());
        }
        frame.extend(payload);
        frame
    }

    #[test]
    fn carries_both_versions_of_ip() {
        for ether_type in [IPV4, IPV6] {
            let frame = ethernet(&[ether_type], b"packet");
            assert_eq!(peeled(1, &frame), Ok(&b"packet"[..]));
            cuts_well(1, &frame);
        }
    }

    #[test]
    fn goes_through_tags() {
        for tags in [
            &[VLAN, 7][..],
            &[SERVICE_VLAN, 7, VLAN, 8],
            &[QINQ, 7, VLAN, 8],
            &[QINQ_9200, 7, QINQ, 7, SERVICE_VLAN, 7, VLAN, 8],
        ] {
            let frame = ethernet(&[tags, &[IPV6]].concat(), b"packet");
            assert_eq!(peeled(1, &frame), Ok(&b"packet"[..]));
            cuts_well(1, &frame);
        }
    }

    #[test]
    fn what_is_not_ip_is_nothing_odd() {
        // ARP, an 802.3 length, and ARP below a tag.
        for fields in [&[0x0806][..], &[0x0026], &[VLAN, 1, 0x0806]] {
            assert_eq!(peeled(1, &ethernet(fields, b"?")), Err(Skip::NotIp));
        }
    }

    #[test]
    fn says_which_header_is_cut() {
        assert_eq!(
            peeled(1, &[0; 13]),
            Err(Skip::Malformed("Ethernet header cut"))
        );
        assert_eq!(
            peeled(1, &ethernet(&[VLAN], b"\0\x01\x08")),
            Err(Skip::Malformed("VLAN tag cut"))
        );
    }
}
