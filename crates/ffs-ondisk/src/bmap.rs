//! Block mapping: the direct or indirect pointer of a logical block (`spec/on-disk-format.md`
//! §7.7), and the pointers in an indirect block.
//!
//! # Invariants
//! 1. [`path`] is defined for every logical block a volume of the geometry can address and `None`
//!    beyond; its indexes are below 12 and below `nindir`.
//! 2. [`indirect_name`] gives every indirect block of a file a unique negative number, different
//!    from all data blocks: the in-core name that BSD also uses in its journal.

use crate::geometry::{Format, Geometry, NDADDR, NIADDR};
use crate::units::Lbn;
use crate::wire::{get, put};

/// The path from an inode to the pointer of a data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// `db[index]`.
    Direct(usize),
    /// Through `levels` (1 to 3) indirect blocks, starting at `ib[levels - 1]`.
    Indirect {
        /// Number of indirect blocks on the path.
        levels: usize,
        /// Index in each, outermost first; only the first `levels` count.
        index: [u32; NIADDR],
    },
}

/// The path to logical block `l`; `None` if the format cannot address it.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/small.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let sb = superblock(ffs_ondisk::Format::Ufs2, 8192, 8, 4, 100);
/// # let g = ffs_ondisk::sbcheck::geometry(&sb, None)?;
/// use ffs_ondisk::bmap::{Path, path};
/// use ffs_ondisk::Lbn;
///
/// let n = u64::from(g.nindir);
/// assert_eq!(path(&g, Lbn(11)), Some(Path::Direct(11)));
/// let first_double = Path::Indirect { levels: 2, index: [0, 0, 0] };
/// assert_eq!(path(&g, Lbn(12 + n)), Some(first_double));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn path(g: &Geometry, l: Lbn) -> Option<Path> {
    if l.0 < NDADDR as u64 {
        return Some(Path::Direct(l.0 as usize));
    }
    let n = u64::from(g.nindir);
    let mut rest = l.0 - NDADDR as u64;
    let mut span = 1u64;
    for levels in 1..=NIADDR {
        span = span.checked_mul(n)?;
        if rest < span {
            let mut index = [0u32; NIADDR];
            let mut unit = span;
            for slot in index.iter_mut().take(levels) {
                unit /= n;
                *slot = (rest / unit) as u32;
                rest %= unit;
            }
            return Some(Path::Indirect { levels, index });
        }
        rest -= span;
    }
    None
}

/// Data blocks below one pointer of an indirect block of `level` (1 is single: 1 block).
#[must_use]
pub fn blocks_per_pointer(g: &Geometry, level: usize) -> u64 {
    u64::from(g.nindir).saturating_pow(u32::try_from(level.saturating_sub(1)).unwrap_or(0))
}

/// Pointer `index` of the indirect block `bytes`; 0 beyond its end.
#[must_use]
pub fn pointer(g: &Geometry, bytes: &[u8], index: usize) -> i64 {
    match g.format {
        Format::Ufs1 if g.variant.is_sun() => sun_pointer(g, get(bytes, index * 4, g.endian)),
        Format::Ufs1 => get::<i32>(bytes, index * 4, g.endian).into(),
        Format::Ufs2 => get(bytes, index * 8, g.endian),
    }
}

/// The pointer `p` of a Solaris volume. Blocks that `fallocate` reserved have negative addresses
/// until they are written, and read as holes (`spec/on-disk-format.md` §20.2).
pub(crate) fn sun_pointer(g: &Geometry, p: i32) -> i64 {
    let reserved = p < 0 && i64::from(p) % i64::from(g.frag) == 0;
    if reserved { 0 } else { p.into() }
}

/// Sets pointer `index` of the indirect block `bytes`; on UFS1 `to` is a 32-bit number.
pub fn set_pointer(g: &Geometry, bytes: &mut [u8], index: usize, to: i64) {
    match g.format {
        Format::Ufs1 => put(bytes, index * 4, g.endian, to as i32),
        Format::Ufs2 => put(bytes, index * 8, g.endian, to),
    }
}

/// First logical block that `ib[i]` maps.
#[must_use]
pub fn first_of_root(g: &Geometry, i: usize) -> Lbn {
    let n = u64::from(g.nindir);
    let before: u64 = (1..=i as u32).map(|k| n.saturating_pow(k)).sum();
    Lbn(NDADDR as u64 + before)
}

/// In-core name of the indirect block of `level` (1 = single) whose first data block is `first`.
///
/// A single-indirect block is `-first`; each higher level is one less than its first child.
#[must_use]
pub fn indirect_name(first: Lbn, level: usize) -> i64 {
    -i64::try_from(first.0).unwrap_or(i64::MAX) - (level as i64 - 1)
}

/// The block that an in-core block name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A data block.
    Data(Lbn),
    /// Block 0 or 1 of the extended attributes.
    ExtAttr(usize),
    /// The indirect block of `level` (1 = single) whose first data block is `first`.
    Indirect {
        /// 1 single, 2 double, 3 triple.
        level: usize,
        /// First logical block it maps.
        first: Lbn,
    },
}

/// Decodes an in-core block name; `None` if no block of the geometry has it.
#[must_use]
pub fn parse_name(g: &Geometry, name: i64) -> Option<Named> {
    match name {
        0.. => {
            let l = Lbn(name.unsigned_abs());
            path(g, l).map(|_| Named::Data(l))
        }
        -2..=-1 => Some(Named::ExtAttr((-1 - name) as usize)),
        _ => {
            // 12 and all spans are multiples of four, so the low two bits give the level.
            let level = ((4 - (name & 3)) & 3) as usize + 1;
            let first = Lbn(name.unsigned_abs().checked_sub(level as u64 - 1)?);
            indirect_exists(g, level, first).then_some(Named::Indirect { level, first })
        }
    }
}

/// Whether a block of the geometry can have this in-core name.
#[must_use]
pub fn name_ok(g: &Geometry, name: i64) -> bool {
    parse_name(g, name).is_some()
}

/// Whether an indirect block of `level` can start at data block `first`.
fn indirect_exists(g: &Geometry, level: usize, first: Lbn) -> bool {
    let Some(Path::Indirect { levels, index }) = path(g, first) else {
        return false;
    };
    // The last `level` indexes count within the block, so they are zero for its first data block.
    level <= levels && index.iter().take(levels).rev().take(level).all(|&i| i == 0)
}
