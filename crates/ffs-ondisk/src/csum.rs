//! Free-resource summaries: one record per group in the summary area, totals in the superblock
//! (`spec/on-disk-format.md` §6).

use crate::wire::{Endian, get, put};

/// Counts of one cylinder group, or their sum.
///
/// Signed and 64 bits wide, so that sums and differences of hostile 32-bit values cannot overflow.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Csum {
    /// Directories.
    pub ndir: i64,
    /// Free whole blocks.
    pub nbfree: i64,
    /// Free inodes.
    pub nifree: i64,
    /// Free fragments in partly used blocks.
    pub nffree: i64,
}

impl Csum {
    /// Bytes of one record of the summary area (4 × i32).
    pub const SIZE: usize = 16;

    /// Reads a 16-byte record at `off` of `b`.
    #[must_use]
    pub fn decode(b: &[u8], off: usize, e: Endian) -> Csum {
        let v: [i32; 4] = get(b, off, e);
        let [ndir, nbfree, nifree, nffree] = v.map(i64::from);
        Csum { ndir, nbfree, nifree, nffree }
    }

    /// Writes the 16-byte record at `off` of `b`, saturated to 32 bits.
    pub fn encode(&self, b: &mut [u8], off: usize, e: Endian) {
        put(b, off, e, [self.ndir, self.nbfree, self.nifree, self.nffree].map(clamp32));
    }

    /// Adds `d` to every count; hostile totals saturate.
    pub fn add(&mut self, d: &Csum) {
        self.ndir = self.ndir.saturating_add(d.ndir);
        self.nbfree = self.nbfree.saturating_add(d.nbfree);
        self.nifree = self.nifree.saturating_add(d.nifree);
        self.nffree = self.nffree.saturating_add(d.nffree);
    }
}

/// Narrows to 32 bits, saturating.
#[must_use]
pub fn clamp32(v: i64) -> i32 {
    i32::try_from(v).unwrap_or(if v < 0 { i32::MIN } else { i32::MAX })
}
