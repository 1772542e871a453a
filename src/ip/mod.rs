//! IP packet → what it carries.
//!
//! [`open`] reads a packet that is whole, [`fragment()`] one that is not, and [`Fragments`] puts those
//! together. Checksums decide nothing: captures are taken before the network card fills them in.
//! [`header_sum`] and [`transport_sum`] tell of those that are wrong.

#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation
)]

mod checksum;
mod fragment;

pub use checksum::{header_sum, transport_sum};
pub use fragment::{Datagram, Fragment, Fragments, fragment};

use crate::model::packet::{IpPacket, Skip, Transport};
use etherparse::{IpNumber, Ipv4HeaderSlice, Ipv6FragmentHeaderSlice, Ipv6HeaderSlice, ip_number};
use std::net::IpAddr;

/// What `packet` carries, past all headers of IP.
///
/// # Errors
///
/// [`Skip::Fragment`] for every fragment, the first too (see [`fragment()`]); [`Skip::Malformed`] for a header that is
/// cut or contradicts itself.
#[inline]
pub fn open<'a>(packet: &IpPacket<'a>) -> Result<Transport<'a>, Skip> {
    match packet.data.first().map(|first| first >> 4) {
        Some(4) => open_v4(packet),
        Some(6) => open_v6(packet),
        Some(_) => Err(Skip::Malformed("IP version is neither 4 nor 6")),
        None => Err(Skip::Malformed("IP header cut")),
    }
}

/// RFC 791, section 3.1.
#[inline]
fn open_v4<'a>(packet: &IpPacket<'a>) -> Result<Transport<'a>, Skip> {
    let header = header_v4(packet)?;
    if header.is_fragmenting_payload() {
        return Err(Skip::Fragment);
    }
    let body = body_v4(packet, &header)?;
    let (protocol, payload) = match header.protocol() {
        ip_number::AUTH => authenticated(body.captured)?,
        protocol => (protocol, body.captured),
    };
    Ok(Transport {
        source: IpAddr::V4(header.source_addr()),
        destination: IpAddr::V4(header.destination_addr()),
        protocol: protocol.0,
        payload,
        missing: body.missing,
    })
}

#[inline]
fn header_v4<'a>(packet: &IpPacket<'a>) -> Result<Ipv4HeaderSlice<'a>, Skip> {
    Ipv4HeaderSlice::from_slice(packet.data)
        .map_err(|_| Skip::Malformed("IPv4 header cut or too short"))
}

#[inline]
fn body_v4<'a>(packet: &IpPacket<'a>, header: &Ipv4HeaderSlice<'a>) -> Result<Body<'a>, Skip> {
    let header_len = header.slice().len();
    let stated = match usize::from(header.total_len()) {
        // The network card will cut this packet up and fill in lengths (TSO).
        0 => None,
        total => Some(
            total
                .checked_sub(header_len)
                .ok_or(Skip::Malformed("IPv4 total length below the header's"))?,
        ),
    };
    Ok(Body::new(packet, header_len, stated))
}

/// RFC 8200, sections 3 and 4.
#[inline]
fn open_v6<'a>(packet: &IpPacket<'a>) -> Result<Transport<'a>, Skip> {
    let (header, body) = split_v6(packet)?;
    let (protocol, payload) = past_extensions(header.next_header(), body.captured)?;
    Ok(Transport {
        source: IpAddr::V6(header.source_addr()),
        destination: IpAddr::V6(header.destination_addr()),
        protocol: protocol.0,
        payload,
        missing: body.missing,
    })
}

#[inline]
fn split_v6<'a>(packet: &IpPacket<'a>) -> Result<(Ipv6HeaderSlice<'a>, Body<'a>), Skip> {
    let Ok(header) = Ipv6HeaderSlice::from_slice(packet.data) else {
        return Err(Skip::Malformed("IPv6 header cut"));
    };
    let header_len = header.slice().len();
    let stated = match usize::from(header.payload_length()) {
        0 => {
            let rest = packet.data.get(header_len..).unwrap_or_default();
            // Without a jumbo option: segmentation offload.
            (header.next_header() == ip_number::IPV6_HEADER_HOP_BY_HOP)
                .then(|| jumbo_len(rest))
                .flatten()
        }
        stated => Some(stated),
    };
    Ok((header, Body::new(packet, header_len, stated)))
}

/// Whether `protocol` is that of an extension header, behind which anything may be.
#[must_use]
pub fn is_extension(protocol: u8) -> bool {
    matches!(
        IpNumber(protocol),
        ip_number::IPV6_HEADER_HOP_BY_HOP
            | ip_number::IPV6_ROUTE_HEADER
            | ip_number::IPV6_FRAGMENTATION_HEADER
            | ip_number::AUTH
            | ip_number::IPV6_DESTINATION_OPTIONS
            | ip_number::MOBILITY_HEADER
            | ip_number::HIP
            | ip_number::SHIM6
    )
}

/// What follows an IP header, without padding.
struct Body<'a> {
    captured: &'a [u8],
    missing: u32,
}

impl<'a> Body<'a> {
    /// `stated` is the length that the header gives, if it gives any.
    #[inline]
    fn new(packet: &IpPacket<'a>, header_len: usize, stated: Option<usize>) -> Self {
        let rest = packet.data.get(header_len..).unwrap_or_default();
        match stated {
            None => Self {
                captured: rest,
                missing: packet.missing,
            },
            Some(stated) => Self {
                captured: rest.get(..stated).unwrap_or(rest),
                missing: u32::try_from(stated.saturating_sub(rest.len())).unwrap_or(u32::MAX),
            },
        }
    }
}

/// Goes through extension headers to the first that is none, or hides the rest (ESP).
#[inline]
fn past_extensions(next: IpNumber, rest: &[u8]) -> Result<(IpNumber, &[u8]), Skip> {
    match to_fragment(next, rest)? {
        Chain::Ends(next, rest) => Ok((next, rest)),
        Chain::Fragment(..) => Err(Skip::Fragment),
    }
}

/// Where a chain of extension headers leads.
enum Chain<'a> {
    /// To a header that is none, or hides the rest.
    Ends(IpNumber, &'a [u8]),
    /// To the header of a fragment, and what follows it.
    Fragment(Ipv6FragmentHeaderSlice<'a>, &'a [u8]),
}

/// Goes through extension headers to the first that is none, or tells of a fragment.
#[inline]
fn to_fragment(mut next: IpNumber, mut rest: &[u8]) -> Result<Chain<'_>, Skip> {
    loop {
        match next {
            ip_number::IPV6_HEADER_HOP_BY_HOP
            | ip_number::IPV6_ROUTE_HEADER
            | ip_number::IPV6_DESTINATION_OPTIONS
            | ip_number::MOBILITY_HEADER
            | ip_number::HIP
            | ip_number::SHIM6 => {
                let Some([following, len, ..]) = rest.first_chunk::<8>() else {
                    return Err(CUT);
                };
                next = IpNumber(*following);
                rest = rest.get((usize::from(*len) + 1) * 8..).ok_or(CUT)?;
            }
            ip_number::AUTH => (next, rest) = authenticated(rest)?,
            ip_number::IPV6_FRAGMENTATION_HEADER => {
                let Ok(fragment) = Ipv6FragmentHeaderSlice::from_slice(rest) else {
                    return Err(CUT);
                };
                rest = rest.get(8..).ok_or(CUT)?;
                // A whole packet may have such a header (RFC 6946).
                if fragment.is_fragmenting_payload() {
                    return Ok(Chain::Fragment(fragment, rest));
                }
                next = fragment.next_header();
            }
            _ => return Ok(Chain::Ends(next, rest)),
        }
    }
}

/// Goes past an Authentication Header (RFC 4302, section 2): its length is in words of 4 bytes,
/// less two.
fn authenticated(rest: &[u8]) -> Result<(IpNumber, &[u8]), Skip> {
    let Some([next, len, ..]) = rest.first_chunk::<12>() else {
        return Err(CUT);
    };
    let rest = rest.get((usize::from(*len) + 2) * 4..).ok_or(CUT)?;
    Ok((IpNumber(*next), rest))
}

/// The length in the jumbo payload option of a hop-by-hop header (RFC 2675, section 2).
fn jumbo_len(header: &[u8]) -> Option<usize> {
    const PAD1: u8 = 0;
    const JUMBO: u8 = 0xc2;
    let len = (usize::from(*header.get(1)?) + 1) * 8;
    let mut options = header.get(2..len.min(header.len()))?;
    loop {
        options = match options {
            [JUMBO, 4, a, b, c, d, ..] => {
                return usize::try_from(u32::from_be_bytes([*a, *b, *c, *d])).ok();
            }
            [PAD1, rest @ ..] => rest,
            [_, len, rest @ ..] => rest.get(usize::from(*len)..)?,
            _ => return None,
        };
    }
}

const CUT: Skip = Skip::Malformed("IP extension header cut");

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    const TEXT: &[u8] = b"the payload";

    fn opened(data: &[u8]) -> Result<Transport<'_>, Skip> {
        open(&IpPacket { data, missing: 0 })
    }

    /// A packet with a UDP header of eight bytes and `TEXT`, built by etherparse.
    fn v4() -> Vec<u8> {
        let mut packet = Vec::new();
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(1, 2)
            .write(&mut packet, TEXT)
            .unwrap();
        packet
    }

    fn v6() -> Vec<u8> {
        let mut packet = Vec::new();
        PacketBuilder::ipv6([1; 16], [2; 16], 64)
            .udp(1, 2)
            .write(&mut packet, TEXT)
            .unwrap();
        packet
    }

    /// An IPv6 packet whose first header after the fixed one is `next`.
    fn v6_chain(next: u8, chain: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend(u16::try_from(chain.len()).unwrap().to_be_bytes());
        packet.extend([next, 64]);
        packet.extend([1; 16]);
        packet.extend([2; 16]);
        packet.extend(chain);
        packet
    }

    fn put(packet: &mut [u8], at: usize, bytes: &[u8]) {
        packet
            .get_mut(at..at + bytes.len())
            .unwrap()
            .copy_from_slice(bytes);
    }

    #[test]
    fn opens_both_versions() {
        let (four, six) = (v4(), v6());
        let packet = opened(&four).unwrap();
        assert_eq!(packet.source.to_string(), "10.0.0.1");
        assert_eq!(packet.destination.to_string(), "10.0.0.2");
        assert_eq!((packet.protocol, packet.missing), (17, 0));
        assert_eq!(packet.payload.get(8..), Some(TEXT));
        let packet = opened(&six).unwrap();
        assert_eq!(packet.source, IpAddr::from([1; 16]));
        assert_eq!(packet.destination, IpAddr::from([2; 16]));
        assert_eq!((packet.protocol, packet.missing), (17, 0));
        assert_eq!(packet.payload.get(8..), Some(TEXT));
    }

    #[test]
    fn options_of_ipv4_are_gone_past() {
        let mut packet = v4();
        packet.splice(20..20, [1, 1, 1, 0]);
        put(&mut packet, 0, &[0x46]);
        let total = u16::try_from(packet.len()).unwrap();
        put(&mut packet, 2, &total.to_be_bytes());
        assert_eq!(opened(&packet).unwrap().payload.get(8..), Some(TEXT));
    }

    #[test]
    fn t17_padding_is_trimmed() {
        for mut packet in [v4(), v6()] {
            packet.extend([0; 20]);
            let opened = opened(&packet).unwrap();
            assert_eq!(opened.payload.get(8..), Some(TEXT));
            assert_eq!(opened.missing, 0);
        }
    }

    #[test]
    fn every_prefix_says_what_is_missing_or_is_malformed() {
        for whole in [v4(), v6()] {
            let all = opened(&whole).unwrap().payload;
            for len in 0..whole.len() {
                let data = whole.get(..len).unwrap();
                // What the snapshot length cut does not count: the header states a length.
                match open(&IpPacket { data, missing: 9 }) {
                    Ok(part) => {
                        assert!(all.starts_with(part.payload));
                        let missing = all.len() - part.payload.len();
                        assert_eq!(part.missing as usize, missing);
                    }
                    Err(skip) => assert!(matches!(skip, Skip::Malformed(_))),
                }
            }
        }
    }

    #[test]
    fn without_a_length_all_that_was_captured_counts() {
        let (mut four, mut six) = (v4(), v6());
        put(&mut four, 2, &[0, 0]);
        put(&mut six, 4, &[0, 0]);
        for packet in [four, six] {
            let opened = open(&IpPacket {
                data: &packet,
                missing: 70_000,
            })
            .unwrap();
            assert_eq!(opened.payload.get(8..), Some(TEXT));
            assert_eq!(opened.missing, 70_000);
        }
    }

    #[test]
    fn a_jumbo_option_states_the_length() {
        let chain = |len: u32| {
            let mut chain = vec![6, 0, 0xc2, 4];
            chain.extend(len.to_be_bytes());
            chain.extend(TEXT);
            chain.extend(b"padding");
            let mut packet = v6_chain(0, &chain);
            put(&mut packet, 4, &[0, 0]);
            packet
        };
        let packet = chain(8 + 11);
        let opened = open(&IpPacket {
            data: &packet,
            missing: 5,
        })
        .unwrap();
        assert_eq!((opened.protocol, opened.payload), (6, TEXT));
        assert_eq!(opened.missing, 0);
        let packet = chain(100_000);
        let opened = open(&IpPacket {
            data: &packet,
            missing: 5,
        })
        .unwrap();
        assert_eq!(opened.missing, 100_000 - 8 - 18);
    }

    #[test]
    fn extension_headers_are_gone_past_in_any_order() {
        let hop = |next: u8| vec![next, 0, 1, 4, 0, 0, 0, 0];
        let routing = |next: u8| [vec![next, 2, 4, 0, 0, 0, 0, 0], vec![0; 16]].concat();
        let destination = |next: u8| [vec![next, 1, 1, 12], vec![0; 12]].concat();
        let fragment = |next: u8| vec![next, 0, 0, 0, 1, 2, 3, 4];
        // Four words less two: a check value of four bytes.
        let authentication = |next: u8| [vec![next, 2, 0, 0], vec![7; 12]].concat();
        for (first, chain) in [
            (0, hop(6)),
            (43, routing(6)),
            (60, destination(6)),
            (44, fragment(6)),
            (51, authentication(6)),
            (135, hop(6)),
            (
                0,
                [
                    hop(60),
                    destination(43),
                    routing(44),
                    fragment(51),
                    authentication(60),
                    destination(6),
                ]
                .concat(),
            ),
        ] {
            let packet = v6_chain(first, &[&chain, TEXT].concat());
            let transport = opened(&packet).unwrap();
            assert_eq!((transport.protocol, transport.payload), (6, TEXT));
            let end = packet.len() - TEXT.len();
            for len in 0..packet.len() {
                let part = opened(packet.get(..len).unwrap());
                assert_eq!(part.is_ok(), len >= end, "{len} of {packet:?}");
            }
        }
    }

    #[test]
    fn ipv4_may_be_authenticated() {
        let mut packet = v4();
        packet.splice(20..20, [vec![17, 2, 0, 0], vec![7; 12]].concat());
        put(&mut packet, 9, &[51]);
        let total = u16::try_from(packet.len()).unwrap();
        put(&mut packet, 2, &total.to_be_bytes());
        let transport = opened(&packet).unwrap();
        assert_eq!(transport.protocol, 17);
        assert_eq!(transport.payload.get(8..), Some(TEXT));
    }

    #[test]
    fn fragments_are_told_the_first_too() {
        // More fragments; an offset; both. "Don't fragment" is none.
        for (bits, fragment) in [
            (0x2000_u16, true),
            (0x0001, true),
            (0x2001, true),
            (0x4000, false),
        ] {
            let mut packet = v4();
            put(&mut packet, 6, &bits.to_be_bytes());
            assert_eq!(
                opened(&packet).is_err_and(|skip| skip == Skip::Fragment),
                fragment
            );
            let read = super::fragment(&IpPacket {
                data: &packet,
                missing: 0,
            })
            .unwrap();
            assert_eq!(read.offset, u32::from(bits & 0x1fff) * 8);
            assert_eq!(read.more, bits & 0x2000 != 0);
            assert_eq!((read.protocol, read.data.get(8..)), (17, Some(TEXT)));
        }
        // IPv6: M is the lowest bit, the offset starts at the fourth.
        for (bits, fragment) in [(1_u16, true), (8, true), (9, true), (0, false)] {
            let mut chain = vec![6, 0];
            chain.extend(bits.to_be_bytes());
            chain.extend(b"\0\0\0\x01rest");
            let packet = v6_chain(44, &chain);
            assert_eq!(
                opened(&packet).is_err_and(|skip| skip == Skip::Fragment),
                fragment
            );
            let read = super::fragment(&IpPacket {
                data: &packet,
                missing: 0,
            });
            assert_eq!(read.is_ok(), fragment);
            if let Ok(read) = read {
                assert_eq!(
                    (read.offset, read.more),
                    (u32::from(bits & !7), bits & 1 == 1)
                );
                assert_eq!((read.identification, read.data), (1, &b"rest"[..]));
            }
        }
    }

    #[test]
    fn contradictions_are_malformed() {
        let mut short = v4();
        put(&mut short, 2, &19_u16.to_be_bytes());
        let mut no_header = v4();
        put(&mut no_header, 0, &[0x44]);
        let mut version = v4();
        put(&mut version, 0, &[0x55]);
        for packet in [short, no_header, version, Vec::new()] {
            assert!(matches!(opened(&packet), Err(Skip::Malformed(_))));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(version in 4_u8..=6, bytes: Vec<u8>) {
            let packet = [&[version << 4 | 5], bytes.as_slice()].concat();
            let _ = opened(&packet);
            // Chains, of which random bytes have few.
            for next in [0, 43, 44, 51, 60] {
                let _ = opened(&v6_chain(next, &bytes));
            }
        }
    }
}
