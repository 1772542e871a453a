//! Tunnels: an IP packet that carries another one, directly or in UDP.
//!
//! What a tunnel says of tenants, ports or sessions is not looked at: a packet seen within the
//! tunnel and outside of it is the same packet.

mod ethernet;
mod gre;
mod gtp;
mod l2tp;
mod vxlan;

use super::{
    layers::{self, Next, Peeled, after, ip_by_version},
    u16_at,
};
use crate::model::packet::{IpPacket, Skip, Transport};

/// A kind of tunnel.
#[derive(Clone, Copy, Debug)]
pub struct Tunnel {
    /// What people call it.
    pub name: &'static str,
    /// What carries it.
    over: Over,
    /// From the first byte of the tunnel's header → what follows it.
    peel: fn(&[u8]) -> Peeled<'_>,
}

/// What tells that an IP packet is of a tunnel.
#[derive(Clone, Copy, Debug)]
enum Over {
    /// The IP protocol number.
    Ip(u8),
    /// The UDP port that it is sent to.
    Udp(&'static [u16]),
}

/// The tunnels that are read.
pub static TUNNELS: &[Tunnel] = &[
    vxlan::VXLAN,
    vxlan::GPE,
    vxlan::GENEVE,
    IPV4,
    IPV6,
    gre::GRE,
    gtp::GTP,
    MPLS,
    MPLS_UDP,
    ethernet::ETHERIP,
    l2tp::L2TP,
    LISP,
    ethernet::TZSP,
];

/// IPv4 in IP (RFC 2003).
const IPV4: Tunnel = Tunnel {
    name: "IPv4 in IP",
    over: Over::Ip(4),
    peel: ip_by_version,
};

/// IPv6 in IP (RFC 2473, RFC 4213).
const IPV6: Tunnel = Tunnel {
    name: "IPv6 in IP",
    over: Over::Ip(41),
    peel: ip_by_version,
};

/// RFC 4023.
const MPLS: Tunnel = Tunnel {
    name: "MPLS in IP",
    over: Over::Ip(137),
    peel: layers::mpls,
};

/// RFC 7510.
const MPLS_UDP: Tunnel = Tunnel {
    name: "MPLS in UDP",
    over: Over::Udp(&[6635]),
    peel: layers::mpls,
};

/// Flags and nonce, instance and locator bits (RFC 9300, section 5.1); an IP packet.
const LISP: Tunnel = Tunnel {
    name: "LISP",
    over: Over::Udp(&[4341]),
    peel: |rest| ip_by_version(after(rest, 8, "LISP header cut")?),
};

/// Whether an IP packet of `protocol` that begins with these bytes may carry another; of UDP every
/// one may, while they are too few to tell.
#[must_use]
pub fn carries(protocol: u8, first: &[u8]) -> bool {
    if protocol == UDP {
        return u16_at(first, 2).is_none_or(|port| of_port(port).is_some());
    }
    of_protocol(protocol).is_some()
}

fn of_port(port: u16) -> Option<&'static Tunnel> {
    TUNNELS
        .iter()
        .find(|tunnel| matches!(tunnel.over, Over::Udp(ports) if ports.contains(&port)))
}

fn of_protocol(protocol: u8) -> Option<&'static Tunnel> {
    TUNNELS
        .iter()
        .find(|tunnel| matches!(tunnel.over, Over::Ip(number) if number == protocol))
}

/// The IP packet within one that carries `transport`; `None` when that is of no tunnel.
///
/// # Errors
///
/// Says why the tunnel carries none; only [`Skip::Malformed`] and [`Skip::TooDeep`] mean that
/// something is wrong.
pub fn inside<'a>(transport: &Transport<'a>) -> Option<Result<IpPacket<'a>, Skip>> {
    let (tunnel, payload) = if transport.protocol == UDP {
        let tunnel = of_port(u16_at(transport.payload, 2)?)?;
        (tunnel, transport.payload.get(UDP_HEADER..)?)
    } else {
        (of_protocol(transport.protocol)?, transport.payload)
    };
    let packet = |data| IpPacket {
        data,
        missing: transport.missing,
    };
    Some((tunnel.peel)(payload).and_then(layers::descend).map(packet))
}

/// IP protocol number of UDP.
const UDP: u8 = 17;
/// Two ports, length, checksum.
const UDP_HEADER: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    /// An IPv4 packet without payload: what all of these tunnels carry.
    pub(super) const PACKET: &[u8] = b"\x45\0\0\x14\0\0\0\0\x40\x06\0\0\x0a\0\0\x01\x0a\0\0\x02";

    /// An Ethernet frame with [`PACKET`].
    pub(super) fn frame() -> Vec<u8> {
        [&[2; 12], &b"\x08\0"[..], PACKET].concat()
    }

    pub(super) fn transport(protocol: u8, payload: &[u8]) -> Transport<'_> {
        Transport {
            source: IpAddr::from([10, 0, 0, 1]),
            destination: IpAddr::from([10, 0, 0, 2]),
            protocol,
            payload,
            missing: 0,
        }
    }

    /// UDP from any port to `port`.
    pub(super) fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
        let mut all = b"\xc0\0".to_vec();
        all.extend(port.to_be_bytes());
        all.extend([0; 4]);
        all.extend(payload);
        all
    }

    /// What `payload` of `protocol` carries.
    pub(super) fn within(protocol: u8, payload: &[u8]) -> Option<Result<&[u8], Skip>> {
        inside(&transport(protocol, payload)).map(|found| found.map(|packet| packet.data))
    }

    /// Holds that `payload` carries [`PACKET`], and that its prefixes carry its prefixes.
    pub(super) fn carries_packet(protocol: u8, payload: &[u8]) {
        assert_eq!(within(protocol, payload), Some(Ok(PACKET)), "{payload:?}");
        for len in 0..payload.len() {
            match within(protocol, payload.get(..len).unwrap()) {
                Some(Ok(part)) => {
                    assert!(PACKET.starts_with(part));
                    assert_eq!(PACKET.len() - part.len(), payload.len() - len);
                }
                Some(Err(skip)) => assert!(matches!(skip, Skip::Malformed(_) | Skip::NotIp)),
                None => assert!(protocol == UDP && len < UDP_HEADER),
            }
        }
    }

    #[test]
    fn what_has_no_header_of_its_own() {
        for protocol in [4, 41] {
            carries_packet(protocol, PACKET);
        }
        let labelled = [b"\0\0\x11\x40", PACKET].concat();
        carries_packet(137, &labelled);
        carries_packet(17, &udp(6635, &labelled));
        carries_packet(
            17,
            &udp(4341, &[&[0x88, 0, 0, 1, 0, 0, 0, 1], PACKET].concat()),
        );
    }

    #[test]
    fn what_the_snapshot_cut_is_told() {
        let packet = inside(&Transport {
            missing: 7,
            ..transport(4, PACKET)
        });
        assert_eq!(packet.unwrap().unwrap().missing, 7);
    }

    #[test]
    fn other_traffic_is_no_tunnel() {
        assert_eq!(within(17, &udp(53, PACKET)), None);
        // Sent from a tunnel's port, not to it.
        let mut answer = udp(40_000, PACKET);
        answer.splice(0..2, 4789_u16.to_be_bytes());
        assert_eq!(within(17, &answer), None);
        assert_eq!(within(50, PACKET), None);
        for (protocol, first, may) in [
            (6, &[][..], false),
            (1, &[], false),
            (47, &[], true),
            (17, &[], true),
            (17, &udp(53, &[]), false),
            (17, &udp(8472, &[]), true),
        ] {
            assert_eq!(carries(protocol, first), may, "{protocol} {first:?}");
        }
    }

    #[test]
    fn each_tunnel_is_told_in_one_way() {
        let mut numbers = Vec::new();
        let mut ports: Vec<u16> = Vec::new();
        for tunnel in TUNNELS {
            match tunnel.over {
                Over::Ip(number) => numbers.push(number),
                Over::Udp(more) => ports.extend(more),
            }
        }
        let (all, all_ports) = (numbers.len(), ports.len());
        numbers.sort_unstable();
        numbers.dedup();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!((numbers.len(), ports.len()), (all, all_ports));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            for tunnel in TUNNELS {
                let _ = (tunnel.peel)(&bytes).and_then(layers::descend);
            }
        }
    }
}
