//! The superblock's tunables for allocation (`spec/allocation.md` §1, §7).
//!
//! # Invariants
//! 1. Every value is usable without checks: percentages below 100, divisors not 0. Values that the
//!    superblock lacks (old volumes) or that are out of range are replaced by the defaults of
//!    newfs.

use ffs_ondisk::{Geometry, Superblock};

/// `AVFILESIZ`, bytes.
const DEFAULT_AVGFILESIZE: u32 = 16384;
/// `AFPDIR`.
const DEFAULT_AVGFPDIR: u32 = 64;

/// The optimisation of fragment moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Optim {
    /// Time: move into a whole block, so that later growth is in place.
    Time,
    /// Space: use no more fragments than requested.
    Space,
}

/// The superblock's tunables, with valid values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AllocParams {
    /// Percentage of the data fragments reserved for root.
    pub(crate) minfree: u32,
    /// Optimisation at mount.
    pub(crate) optim: Optim,
    /// Most blocks that one file gets in a group before it continues in another.
    pub(crate) maxbpg: u32,
    /// Most blocks in one contiguous transfer.
    pub(crate) maxcontig: u32,
    /// Expected average file size, bytes.
    pub(crate) avgfilesize: u32,
    /// Expected files per directory.
    pub(crate) avgfpdir: u32,
}

impl AllocParams {
    /// The superblock's tunables, with defaults for those it does not have.
    pub(crate) fn of(sb: &Superblock, g: &Geometry) -> AllocParams {
        let f = &sb.f;
        let positive = |v: i32| u32::try_from(v).ok().filter(|v| *v > 0);
        let or_default = |v: u32, default: u32| {
            if v == 0 || i32::try_from(v).is_err() { default } else { v }
        };
        AllocParams {
            minfree: u32::try_from(f.minfree).unwrap_or(0).min(99),
            optim: if f.optim == 1 { Optim::Space } else { Optim::Time },
            maxbpg: positive(f.maxbpg).unwrap_or((g.bsize / 8).max(1)),
            maxcontig: positive(f.maxcontig).unwrap_or(1),
            avgfilesize: or_default(f.avgfilesize, DEFAULT_AVGFILESIZE),
            avgfpdir: or_default(f.avgfpdir, DEFAULT_AVGFPDIR),
        }
    }
}
