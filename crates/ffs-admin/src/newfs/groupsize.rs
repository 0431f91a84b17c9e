//! Sizes of the cylinder groups: fragments and inodes (`spec/on-disk-format.md` §17.1).
//!
//! **Purpose.** FreeBSD's newfs tries one size after another. This module computes the same result
//! without trying every size, because the options may come from a damaged superblock and be
//! extreme.
//!
//! **Invariants.**
//! 1. Monotonic conditions are solved by bisection. Only the search for a last group with enough
//!    space goes step by step: at most one step for each block of a group.
//! 2. The groups are those that trying every size would find; a test compares.

use std::cmp::Ordering;

use ffs_ondisk::Format;

use super::basesizes::BaseSizes;
use super::options::{NewfsOptions, Release};
use crate::AdminError;

/// `MINCYLGRPS`: groups grow only while there are more of them than this.
const MINCYLGRPS: u64 = 4;
/// Limit on the inodes of a UFS1 group: the count is 16 bits wide.
const UFS1_MAXIPG: u64 = 0x7fff;

/// Size of the cylinder groups.
pub(super) struct GroupSize {
    /// Fragments of the volume, which may be fewer than the device has.
    pub(super) size: u64,
    pub(super) density: u64,
    pub(super) fpg: u64,
    pub(super) ipg: u64,
}

/// Computes the groups as FreeBSD 5 and later do; `None` if the block size must be doubled first.
pub(super) fn size_groups(
    f: &BaseSizes,
    opts: &NewfsOptions,
    wanted_fsize: u32,
    notes: &mut Vec<String>,
) -> Result<Option<GroupSize>, AdminError> {
    // Up to FreeBSD 12 the padding of the C structure counts as header; later versions keep 8 bytes
    // free instead.
    let (header, spare) = match opts.release {
        Release::Current => (168, 8),
        _ => (176, 0),
    };
    let limit_bytes = f.bsize - spare;
    let cg = |fpg, ipg| f.cg_bytes(header, f.cylinders(), fpg, ipg);
    let min_fpi = 1 + f.size / ((1u64 << 32) - f.inopb);
    let wanted = u64::from(wanted_fsize);
    let mut density = match opts.density {
        None => u64::from(opts.frags_per_inode()).max(min_fpi) * wanted,
        Some(d) if u64::from(d) < min_fpi * wanted => {
            notes.push(format!("density increased from {d} to {}", min_fpi * wanted));
            min_fpi * wanted
        }
        Some(d) => d.into(),
    };
    let wanted_density = density;
    let fits = |fpi| {
        let (fpg, ipg) = smallest_group(f, fpi);
        cg(fpg, ipg) < limit_bytes
    };
    let most = (density / f.fsize).max(1);
    if most < min_fpi {
        return Ok(None);
    }
    let fpi = match most_that_fits(f, most, min_fpi, fits) {
        Some(fpi) => fpi,
        None if min_fpi > 1 => return Ok(None),
        None => {
            let why = format!("no cylinder group fits into blocks of {}", f.bsize);
            return Err(AdminError::Size(why));
        }
    };
    let (mut fpg, mut ipg) = smallest_group(f, fpi);
    density -= (most - fpi) * f.fsize;
    if density != wanted_density {
        notes.push(format!("density reduced from {wanted_density} to {density}"));
    }
    let ipg_of = |fpg: u64| fpg.div_ceil(fpi).next_multiple_of(f.inopb);
    let limit = u64::from(opts.max_group.unwrap_or(i32::MAX as u32));
    (fpg, ipg) = grow(f, limit, |fpg, ipg| cg(fpg, ipg).cmp(&limit_bytes), ipg_of, (fpg, ipg));
    let best = fpg;
    fit_last_group(f, &mut fpg, &mut ipg, ipg_of)?;
    if fpg != best {
        notes.push(format!(
            "fragments per group reduced from {best} to {fpg} to enlarge the last group"
        ));
    }
    Ok(Some(GroupSize { size: f.size, density, fpg, ipg }))
}

/// The most fragments per inode, from `least` to `most`, with which the maps of the smallest group
/// fit into its block.
///
/// `dense` is the density at which one block of inodes describes a group of metadata alone. At
/// lower densities the groups are larger and have as many inodes, so that the condition is
/// monotonic. Above it there are at most eleven densities, which are tried one by one.
fn most_that_fits(f: &BaseSizes, most: u64, least: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    let dense = f.metadata_frags(f.inopb).div_ceil(f.inopb).max(least);
    let sparse = partition_point(dense, most + 1, &fits);
    if sparse > dense {
        return Some(sparse - 1);
    }
    (least..dense.min(most + 1)).rev().find(|&fpi| fits(fpi))
}

/// The first number in `low..high` for which `has` is false, or `high`; `has` must be true for all
/// smaller numbers.
pub(super) fn partition_point(mut low: u64, mut high: u64, has: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if has(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The smallest group that has space for its metadata and one block of inodes' share of data.
fn smallest_group(f: &BaseSizes, fpi: u64) -> (u64, u64) {
    // A volume smaller than one group is one group, rounded up to whole blocks.
    let min_fpg = (fpi * f.inopb).min(f.size.next_multiple_of(f.frag));
    let mut ipg = f.inopb;
    let mut fpg = 0;
    for _ in 0..2 {
        fpg = f.metadata_frags(ipg).max(min_fpg);
        ipg = fpg.div_ceil(fpi).next_multiple_of(f.inopb);
    }
    (fpg, ipg)
}

/// Grows the groups, one block at a time, while there are enough of them and the maps of a group
/// fit into its block.
fn grow(
    f: &BaseSizes,
    limit: u64,
    maps: impl Fn(u64, u64) -> Ordering,
    ipg_of: impl Fn(u64) -> u64,
    (least, least_ipg): (u64, u64),
) -> (u64, u64) {
    let unit = f.frag;
    let few_inodes = |ipg| f.format == Format::Ufs2 || ipg <= UFS1_MAXIPG;
    let grows = |n: u64| {
        let fpg = least + n * unit;
        let ipg = ipg_of(fpg);
        few_inodes(ipg) && f.size / fpg >= MINCYLGRPS && maps(fpg, ipg).is_lt()
    };
    let most = limit.saturating_sub(least).div_ceil(unit);
    let steps = partition_point(0, most, grows);
    let fpg = least + steps * unit;
    if steps == most {
        // At the limit the number of inodes is that of the step before.
        return (fpg, if steps > 0 { ipg_of(fpg - unit) } else { least_ipg });
    }
    let ipg = ipg_of(fpg);
    let is_best = few_inodes(ipg) && (f.size / fpg < MINCYLGRPS || maps(fpg, ipg).is_eq());
    if is_best { (fpg, ipg) } else { (fpg - unit, ipg_of(fpg - unit)) }
}

/// Shrinks the groups until the last one has space for its metadata.
fn fit_last_group(
    f: &BaseSizes,
    fpg: &mut u64,
    ipg: &mut u64,
    ipg_of: impl Fn(u64) -> u64,
) -> Result<(), AdminError> {
    loop {
        let need = f.metadata_frags(*ipg);
        if f.size < need || *fpg < need {
            return Err(AdminError::Size(format!(
                "{} bytes are too few: the metadata of one group alone takes {}",
                f.size * f.fsize,
                need * f.fsize
            )));
        }
        let last = f.size % *fpg;
        if last == 0 || last >= need {
            return Ok(());
        }
        *fpg -= f.frag;
        *ipg = ipg_of(*fpg);
    }
}

#[cfg(test)]
mod tests;
