//! Names of link types.

use crate::model::{
    packet::LinkType,
    prose::{Prose, prose},
};

/// The official name of a link type without its `LINKTYPE_` prefix (tcpdump.org's list), or its
/// number: `ETHERNET`, `LINKTYPE 147`.
#[must_use]
pub fn link_name(link: LinkType) -> Prose {
    match NAMES.binary_search_by_key(&link.0, |(number, _)| *number) {
        Ok(index) => NAMES
            .get(index)
            .map_or_else(Prose::default, |&(_, name)| name.into()),
        Err(_) => prose!("LINKTYPE {}", link.0),
    }
}

/// By number: what is read, and what else Wireshark or tcpdump may have captured.
static NAMES: &[(u16, &str)] = &[
    (0, "NULL"),
    (1, "ETHERNET"),
    (3, "AX25"),
    (6, "IEEE802_5"),
    (7, "ARCNET_BSD"),
    (8, "SLIP"),
    (9, "PPP"),
    (10, "FDDI"),
    (12, "RAW"),
    (14, "RAW"),
    (50, "PPP_HDLC"),
    (51, "PPP_ETHER"),
    (99, "SYMANTEC_FIREWALL"),
    (100, "ATM_RFC1483"),
    (101, "RAW"),
    (104, "C_HDLC"),
    (105, "IEEE802_11"),
    (106, "ATM_CLIP"),
    (107, "FRELAY"),
    (108, "LOOP"),
    (109, "ENC"),
    (113, "LINUX_SLL"),
    (117, "PFLOG"),
    (119, "IEEE802_11_PRISM"),
    (122, "IP_OVER_FC"),
    (127, "IEEE802_11_RADIOTAP"),
    (128, "TZSP"),
    (138, "APPLE_IP_OVER_IEEE1394"),
    (143, "DOCSIS"),
    (149, "USER2"),
    (163, "IEEE802_11_AVS"),
    (166, "PPP_PPPD"),
    (169, "GPRS_LLC"),
    (177, "LINUX_LAPD"),
    (178, "JUNIPER_ETHER"),
    (187, "BLUETOOTH_HCI_H4"),
    (189, "USB_LINUX"),
    (192, "PPI"),
    (195, "IEEE802_15_4_WITHFCS"),
    (197, "ERF"),
    (201, "BLUETOOTH_HCI_H4_WITH_PHDR"),
    (204, "PPP_WITH_DIR"),
    (205, "C_HDLC_WITH_DIR"),
    (206, "FRELAY_WITH_DIR"),
    (215, "IEEE802_15_4_NONASK_PHY"),
    (220, "USB_LINUX_MMAPPED"),
    (226, "IPNET"),
    (227, "CAN_SOCKETCAN"),
    (228, "IPV4"),
    (229, "IPV6"),
    (230, "IEEE802_15_4_NOFCS"),
    (231, "DBUS"),
    (239, "NFLOG"),
    (240, "NETANALYZER"),
    (242, "IPOIB"),
    (249, "USBPCAP"),
    (251, "BLUETOOTH_LE_LL"),
    (252, "WIRESHARK_UPPER_PDU"),
    (253, "NETLINK"),
    (254, "BLUETOOTH_LINUX_MONITOR"),
    (256, "BLUETOOTH_LE_LL_WITH_PHDR"),
    (258, "PKTAP"),
    (266, "USB_DARWIN"),
    (271, "VSOCK"),
    (272, "NORDIC_BLE"),
    (273, "DOCSIS31_XRA31"),
    (274, "ETHERNET_MPACKET"),
    (276, "LINUX_SLL2"),
    (277, "OPENVIZSLA"),
    (278, "EBHSCR"),
    (279, "VPP_DISPATCH"),
    (280, "DSA_TAG_BRCM_PREPEND"),
    (281, "DSA_TAG_BRCM"),
    (283, "IEEE802_15_4_TAP"),
    (284, "DSA_TAG_DSA"),
    (285, "DSA_TAG_EDSA"),
    (288, "USB_2_0"),
    (290, "ETW"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order() {
        assert!(NAMES.is_sorted_by(|(a, _), (b, _)| a < b));
    }

    #[test]
    fn unknown_numbers_are_shown() {
        assert_eq!(link_name(LinkType(276)), "LINUX_SLL2");
        assert_eq!(link_name(LinkType(147)), "LINKTYPE 147");
        assert_eq!(link_name(LinkType(u16::MAX)), "LINKTYPE 65535");
    }
}
