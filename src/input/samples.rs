//! Captures built byte by byte, for tests.

#![allow(clippy::indexing_slicing, reason = "a test that panics has failed")]

use super::packets::Order;

/// A packet of a sample: ticks since the epoch, bytes captured, length on the wire.
pub(super) type Packet<'a> = (u64, &'a [u8], u32);

/// Bytes of a file under construction, in one byte order.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) order: Order,
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn new(order: Order) -> Self {
        let bytes = Vec::new();
        Self { order, bytes }
    }

    pub(super) fn u16(mut self, value: u16) -> Self {
        self.bytes.extend(match self.order {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        });
        self
    }

    pub(super) fn u32(mut self, value: u32) -> Self {
        self.bytes.extend(match self.order {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        });
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.bytes.extend(match self.order {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        });
        self
    }

    pub(super) fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    fn pad(mut self) -> Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    fn len(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap()
    }
}

/// A pcap file. Times have ticks of the magic's resolution.
pub(super) fn pcap(order: Order, magic: u32, link: u32, packets: &[Packet<'_>]) -> Vec<u8> {
    let second = if magic == 0xa1b2_3c4d {
        1_000_000_000
    } else {
        1_000_000
    };
    let header = Writer::new(order)
        .u32(magic)
        .u16(2)
        .u16(4)
        .u64(0)
        .u32(262_144)
        .u32(link);
    packets
        .iter()
        .fold(header, |file, (ticks, data, original)| {
            let file = file
                .u32(u32::try_from(ticks / second).unwrap())
                .u32(u32::try_from(ticks % second).unwrap())
                .u32(u32::try_from(data.len()).unwrap())
                .u32(*original);
            let file = if magic == 0xa1b2_cd34 {
                file.u32(3).u16(0x0800).raw(&[4, 0])
            } else {
                file
            };
            file.raw(data)
        })
        .bytes
}

/// A pcapng file, block by block.
#[derive(Clone)]
pub(super) struct PcapNg(pub(super) Writer);

impl PcapNg {
    /// Begins with a section header.
    pub(super) fn new(order: Order) -> Self {
        Self(Writer::new(order)).section(order)
    }

    /// A block with `body`, padded.
    pub(super) fn block(self, kind: u32, body: impl FnOnce(Writer) -> Writer) -> Self {
        let body = body(Writer::new(self.0.order)).pad();
        let len = body.len() + 12;
        Self(self.0.u32(kind).u32(len).raw(&body.bytes).u32(len))
    }

    /// From here on, a section in `order`.
    pub(super) fn section(mut self, order: Order) -> Self {
        self.0.order = order;
        self.block(0x0a0d_0d0a, |body| {
            body.u32(0x1a2b_3c4d).u16(1).u16(0).u64(u64::MAX)
        })
    }

    pub(super) fn interface(self, link: u16, snapshot: u32) -> Self {
        self.interface_with(link, snapshot, |options| options)
    }

    /// An interface with options as `options` writes them.
    pub(super) fn interface_with(
        self,
        link: u16,
        snapshot: u32,
        options: impl FnOnce(Writer) -> Writer,
    ) -> Self {
        self.block(1, |body| options(body.u16(link).u16(0).u32(snapshot)))
    }

    /// Resolution and offset options, with a name before them.
    pub(super) fn clock(resolution: u8, offset: i64) -> impl FnOnce(Writer) -> Writer {
        move |body| {
            body.u16(2)
                .u16(5)
                .raw(b"eth0\0\0\0\0")
                .u16(9)
                .u16(1)
                .raw(&[resolution, 0, 0, 0])
                .u16(14)
                .u16(8)
                .u64(offset.cast_unsigned())
                .u32(0)
        }
    }

    /// An enhanced packet block.
    pub(super) fn packet(self, interface: u32, (ticks, data, original): Packet<'_>) -> Self {
        self.block(6, |body| {
            stamped(body.u32(interface), ticks, data, original)
        })
    }

    /// An obsolete packet block, with a count of drops.
    pub(super) fn old_packet(self, interface: u16, (ticks, data, original): Packet<'_>) -> Self {
        self.block(2, |body| {
            stamped(body.u16(interface).u16(9), ticks, data, original)
        })
    }

    pub(super) fn simple_packet(self, data: &[u8], original: u32) -> Self {
        self.block(3, |body| body.u32(original).raw(data))
    }

    pub(super) fn bytes(self) -> Vec<u8> {
        self.0.bytes
    }
}

fn stamped(body: Writer, ticks: u64, data: &[u8], original: u32) -> Writer {
    body.u32(u32::try_from(ticks >> 32).unwrap())
        .u32(u32::try_from(ticks & 0xffff_ffff).unwrap())
        .u32(u32::try_from(data.len()).unwrap())
        .u32(original)
        .raw(data)
        .pad()
}

/// Gives 1 to 7 bytes at a time, whatever is asked for.
pub(super) struct Drops<'a> {
    bytes: &'a [u8],
    size: usize,
}

impl<'a> Drops<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, size: 0 }
    }
}

impl std::io::Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.size = self.size % 7 + 1;
        let len = self.size.min(buffer.len());
        self.bytes.read(&mut buffer[..len])
    }
}
