//! Packets to pcapng: a section, an interface, enhanced packet blocks.

use super::{
    model::Talk,
    render_pcap::{Link, START_MICROS, frame},
    tcp::Packet,
};

/// The file. Times are in nanoseconds (`if_tsresol` 9).
pub(crate) fn render(talk: &Talk, packets: &[Packet]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut section = Vec::new();
    section.extend(0x1a2b_3c4du32.to_le_bytes());
    section.extend(1u16.to_le_bytes());
    section.extend(0u16.to_le_bytes());
    section.extend((-1i64).to_le_bytes());
    block(&mut out, 0x0a0d_0d0a, &section);

    let mut interface = Vec::new();
    interface.extend(Link::Ethernet.number().to_le_bytes());
    interface.extend(0u16.to_le_bytes());
    interface.extend(0u32.to_le_bytes());
    // Option 9, if_tsresol, one byte and its padding; then the end of options.
    interface.extend([9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    block(&mut out, 1, &interface);

    for packet in packets {
        let frame = frame(talk, packet, Link::Ethernet);
        let nanos = u64::try_from((START_MICROS + packet.at) * 1_000).unwrap();
        let length = u32::try_from(frame.len()).unwrap();
        let mut body = Vec::new();
        body.extend(0u32.to_le_bytes());
        body.extend(u32::try_from(nanos >> 32).unwrap().to_le_bytes());
        body.extend(u32::try_from(nanos & 0xffff_ffff).unwrap().to_le_bytes());
        body.extend(length.to_le_bytes());
        body.extend(length.to_le_bytes());
        body.extend(frame);
        block(&mut out, 6, &body);
    }
    out
}

fn block(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let padded = body.len().div_ceil(4) * 4;
    let total = u32::try_from(padded + 12).unwrap().to_le_bytes();
    out.extend(kind.to_le_bytes());
    out.extend(total);
    out.extend(body);
    out.extend(std::iter::repeat_n(0, padded - body.len()));
    out.extend(total);
}
