//! TCP headers (RFC 9293, section 3.1).

use crate::model::{
    packet::{Segment, Skip, TcpFlags, Transport},
    place::Place,
    time::Timestamp,
};
use std::net::SocketAddr;

/// Reads the TCP header of a transport payload; returns its fixed facts and the TCP payload.
///
/// Options are stepped over by the data offset. Checksums are not verified: captures taken at the
/// sender carry unfinished ones (checksum offload).
///
/// # Errors
///
/// [`Skip::Malformed`] when the payload is no TCP, is cut inside the header, or states a header
/// shorter than 20 bytes.
pub fn parse<'a>(
    transport: &Transport<'a>,
    time: Timestamp,
    place: Place,
) -> Result<(Segment, &'a [u8]), Skip> {
    if transport.protocol != PROTOCOL {
        return Err(Skip::Malformed("not TCP"));
    }
    let cut = Skip::Malformed("TCP header cut short");
    let (fixed, _) = transport.payload.split_first_chunk::<FIXED>().ok_or(cut)?;
    let &[
        s0,
        s1,
        d0,
        d1,
        q0,
        q1,
        q2,
        q3,
        a0,
        a1,
        a2,
        a3,
        offset,
        flags,
        w0,
        w1,
        ..,
    ] = fixed;
    let length = usize::from(offset >> 4) * 4;
    if length < FIXED {
        return Err(Skip::Malformed("TCP data offset below 5"));
    }
    let (_, payload) = transport.payload.split_at_checked(length).ok_or(cut)?;
    let segment = Segment {
        time,
        place,
        source: SocketAddr::new(transport.source, u16::from_be_bytes([s0, s1])),
        destination: SocketAddr::new(transport.destination, u16::from_be_bytes([d0, d1])),
        sequence: u32::from_be_bytes([q0, q1, q2, q3]),
        acknowledgment: u32::from_be_bytes([a0, a1, a2, a3]),
        flags: TcpFlags(flags),
        window: u16::from_be_bytes([w0, w1]),
        missing: transport.missing,
    };
    Ok((segment, payload))
}

/// Whether a segment refuses a connection: nobody listens at its source.
///
/// A reset is numbered by what it answers (RFC 9293, section 3.5.2). Zero with an acknowledgment is
/// the answer to a segment without one, and of those there is none but the SYN.
#[must_use]
pub const fn refuses(segment: &Segment) -> bool {
    let flags = segment.flags;
    segment.sequence == 0
        && flags.has(TcpFlags::RST)
        && flags.has(TcpFlags::ACK)
        && !flags.has(TcpFlags::SYN)
}

/// IP protocol number of TCP.
const PROTOCOL: u8 = 6;
/// The header without options.
const FIXED: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn transport(payload: &[u8]) -> Transport<'_> {
        Transport {
            source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
            destination: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
            protocol: 6,
            payload,
            missing: 7,
        }
    }

    fn header(words: u8) -> Vec<u8> {
        let mut bytes = vec![
            0x1f, 0x90, 0x00, 0x50, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0x18, 0x20, 0x00, 0, 0, 0, 0,
        ];
        bytes[12] = words << 4;
        bytes
    }

    fn read(payload: &[u8]) -> Result<(Segment, Vec<u8>), Skip> {
        parse(&transport(payload), Timestamp::default(), Place::default())
            .map(|(segment, payload)| (segment, payload.to_vec()))
    }

    #[test]
    fn reads_every_field_and_steps_over_options() {
        let mut bytes = header(6);
        bytes.extend_from_slice(&[1, 1, 1, 0]);
        bytes.extend_from_slice(b"payload");
        let (segment, payload) = read(&bytes).unwrap();
        assert_eq!(payload, b"payload");
        assert_eq!(segment.source, "10.0.0.1:8080".parse().unwrap());
        assert_eq!(segment.destination, "10.0.0.2:80".parse().unwrap());
        assert_eq!(segment.sequence, 0x0102_0304);
        assert_eq!(segment.acknowledgment, 0x0506_0708);
        assert_eq!(segment.flags, TcpFlags(0x18));
        assert_eq!(segment.window, 0x2000);
        assert_eq!(segment.missing, 7);
    }

    #[test]
    fn rejects_every_cut_inside_the_header() {
        let mut bytes = header(6);
        bytes.extend_from_slice(&[1, 1, 1, 0]);
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length}");
        }
        assert_eq!(read(&bytes).unwrap().1, b"");
    }

    #[test]
    fn rejects_a_data_offset_below_five() {
        for words in 0..5 {
            assert!(read(&header(words)).is_err());
        }
    }

    #[test]
    fn rejects_other_protocols() {
        let bytes = header(5);
        let mut other = transport(&bytes);
        other.protocol = 17;
        assert!(parse(&other, Timestamp::default(), Place::default()).is_err());
    }

    #[test]
    fn a_reset_that_answers_a_syn_refuses_the_connection() {
        let with = |flags: u8, sequence: u32| {
            let (segment, _) = parse(
                &transport(&header(5)),
                Timestamp::default(),
                Place::default(),
            )
            .unwrap();
            refuses(&Segment {
                flags: TcpFlags(flags),
                sequence,
                ..segment
            })
        };
        assert!(with(0x14, 0));
        // Of what had been accepted; in answer to data; no reset.
        assert!(!with(0x14, 1));
        assert!(!with(0x04, 0));
        assert!(!with(0x12, 0));
    }
}
