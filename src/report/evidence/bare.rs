//! A segment without what a redacted report hides: an IP packet of its own with a TCP header, and no payload. Nothing
//! else of the frame is kept, as links, tunnels and options name hosts too.

use crate::model::packet::{LinkType, Segment};
use std::net::{IpAddr, SocketAddr};

/// What the packets are: IP without a link (LINKTYPE_RAW).
pub const LINK: LinkType = LinkType(101);

/// The headers of `segment` between these ends, and how long the packet was with its `payload`.
pub fn packet(
    segment: &Segment,
    [source, destination]: [SocketAddr; 2],
    payload: usize,
) -> (Vec<u8>, u32) {
    let payload = u32::try_from(payload)
        .unwrap_or(u32::MAX)
        .saturating_add(segment.missing);
    let mut out = Vec::with_capacity(60);
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            // A length that does not fit is 0, as captures have it of segments that the network card was to cut.
            let total = u16::try_from(payload.saturating_add(40)).unwrap_or(0);
            out.extend([0x45, 0]);
            out.extend(total.to_be_bytes());
            out.extend([0, 0, 0x40, 0, 64, TCP, 0, 0]);
            out.extend(source.octets());
            out.extend(destination.octets());
            let sum = checksum(&out).to_be_bytes();
            if let Some(place) = out.get_mut(10..12) {
                place.copy_from_slice(&sum);
            }
        }
        (source, destination) => {
            let length = u16::try_from(payload.saturating_add(20)).unwrap_or(0);
            out.extend([0x60, 0, 0, 0]);
            out.extend(length.to_be_bytes());
            out.extend([TCP, 64]);
            out.extend(v6(source));
            out.extend(v6(destination));
        }
    }
    out.extend(source.port().to_be_bytes());
    out.extend(destination.port().to_be_bytes());
    out.extend(segment.sequence.to_be_bytes());
    out.extend(segment.acknowledgment.to_be_bytes());
    out.extend([0x50, segment.flags.0]);
    out.extend(segment.window.to_be_bytes());
    // A checksum that nobody can check is none.
    out.extend([0, 0, 0, 0]);
    let len = u32::try_from(out.len()).unwrap_or(u32::MAX);
    (out, len.saturating_add(payload))
}

fn v6(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// The Internet checksum of a header (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).filter_map(|word| word.first_chunk());
    let mut sum: u32 = words.map(|&word| u32::from(u16::from_be_bytes(word))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

/// TCP's number (IANA, protocol numbers).
const TCP: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::packet::TcpFlags;

    fn segment(source: &str, destination: &str) -> Segment {
        Segment {
            sequence: 0x0102_0304,
            acknowledgment: 0x0506_0708,
            flags: TcpFlags::ACK,
            window: 0x1000,
            missing: 5,
            ..Segment::between(source, destination)
        }
    }

    #[test]
    fn has_headers_of_its_own_and_the_length_of_the_payload() {
        let segment = segment("10.1.2.3:80", "10.4.5.6:51000");
        let (bytes, original) = packet(&segment, [segment.source, segment.destination], 95);
        assert_eq!((bytes.len(), original), (40, 140));
        let parsed = etherparse::SlicedPacket::from_ip(&{
            // With the payload that was cut off.
            let mut whole = bytes.clone();
            whole.resize(140, 0);
            whole
        })
        .map(|sliced| {
            let net = sliced.net.unwrap();
            let etherparse::NetSlice::Ipv4(ip) = net else {
                panic!("{net:?}")
            };
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            let Some(etherparse::TransportSlice::Tcp(tcp)) = sliced.transport else {
                panic!("no TCP")
            };
            (
                tcp.source_port(),
                tcp.sequence_number(),
                tcp.payload().len(),
            )
        });
        assert_eq!(parsed.unwrap(), (80, 0x0102_0304, 100));
    }

    #[test]
    fn is_ipv6_where_it_was() {
        let segment = segment("[fd00::1]:80", "[fd00::2]:51000");
        let (bytes, original) = packet(&segment, [segment.source, segment.destination], 0);
        assert_eq!((bytes.len(), original), (60, 65));
        assert_eq!(bytes[0] >> 4, 6);
        // More than fits into its field.
        let (bytes, original) = packet(&segment, [segment.source, segment.destination], 1 << 20);
        assert_eq!((&bytes[4..6], original), (&[0, 0][..], (1 << 20) + 65));
    }
}
