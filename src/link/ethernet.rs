//! Ethernet (`LINKTYPE_ETHERNET`).

use super::{Link, layers};
use crate::model::packet::LinkType;

pub(super) const LINK: Link = Link {
    types: &[LinkType(1)],
    name: "Ethernet",
    peel: layers::ethernet,
};

#[cfg(test)]
mod tests {
    use super::super::tests::{cuts_well, peeled};
    use crate::model::packet::Skip;

    const IPV4: u16 = 0x0800;
    const IPV6: u16 = 0x86dd;
    const VLAN: u16 = 0x8100;
    const SERVICE_VLAN: u16 = 0x88a8;
    const QINQ: u16 = 0x9100;
    const QINQ_9200: u16 = 0x9200;

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
