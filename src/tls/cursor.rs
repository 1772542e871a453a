//! Bytes that are cut from their front.

/// What is left to read.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.first_chunk().copied()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// What follows a length of one byte.
    pub(super) fn u8_list(&mut self) -> Option<Self> {
        let length = self.u8()?;
        self.take(usize::from(length)).map(Cursor)
    }

    /// What follows a length of two bytes.
    pub(super) fn u16_list(&mut self) -> Option<Self> {
        let length = self.u16()?;
        self.take(usize::from(length)).map(Cursor)
    }
}
