//! Numbers in the byte order of the volume.

/// The byte order of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// Most significant byte first.
    pub(super) big: bool,
}

/// Reads numbers; bytes after the end read as zero.
impl Order {
    /// 16 bits at byte `at`.
    #[inline]
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let Some(&[a, b]) = bytes.get(at..at + 2) else { return 0 };
        if self.big { u16::from_be_bytes([a, b]) } else { u16::from_le_bytes([a, b]) }
    }

    /// 32 bits at byte `at`.
    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let Some(&[a, b, c, d]) = bytes.get(at..at + 4) else { return 0 };
        if self.big { u32::from_be_bytes([a, b, c, d]) } else { u32::from_le_bytes([a, b, c, d]) }
    }

    /// 64 bits at byte `at`.
    #[inline]
    pub(super) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let (high, low) = (self.u32(bytes, at), self.u32(bytes, at + 4));
        let (high, low) = if self.big { (high, low) } else { (low, high) };
        u64::from(high) << 32 | u64::from(low)
    }
}
