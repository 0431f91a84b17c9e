//! How many fragments and inodes go into a cylinder group (`spec/on-disk-format.md` §17.1).
//!
//! **Purpose.** FreeBSD's newfs tries one number after the other. What comes out here is the same, but the
//! numbers may be those of a damaged superblock that is to be made again.
//!
//! **Invariants.**
//! 1. What grows or shrinks one way is found by halving. Only the search for a last group with room goes step by
//!    step: at most once for each block of a group, of which the map in the group's block has a bit.
//! 2. The groups are those that trying would find; the tests compare.

use std::cmp::Ordering;

use ffs_ondisk::Format;

use super::options::{Generation, NewfsOptions};
use super::plan::Frame;
use crate::AdminError;

/// Fewest groups worth having while groups can still grow, `MINCYLGRPS`.
const MINCYLGRPS: u64 = 4;
/// Most inodes of a UFS1 group: the count is 16 bits wide.
const UFS1_MAXIPG: u64 = 0x7fff;

/// The groups.
pub(super) struct Cut {
    /// Fragments in use, which may be fewer than the frame has.
    pub(super) size: u64,
    pub(super) density: u64,
    pub(super) fpg: u64,
    pub(super) ipg: u64,
}

/// Cuts groups as FreeBSD 5 and later do; `None` if the block size must double first.
pub(super) fn cut(
    f: &Frame,
    opts: &NewfsOptions,
    wanted_fsize: u32,
    notes: &mut Vec<String>,
) -> Result<Option<Cut>, AdminError> {
    // The C structure's padding counted as header until 12; main leaves 8 bytes free instead.
    let (header, spare) = match opts.generation {
        Generation::Today => (168, 8),
        _ => (176, 0),
    };
    let room = f.bsize - spare;
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
    let asked = density;
    let fits = |fpi| {
        let (fpg, ipg) = smallest_group(f, fpi);
        cg(fpg, ipg) < room
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
    if density != asked {
        notes.push(format!("density reduced from {asked} to {density}"));
    }
    let ipg_of = |fpg: u64| fpg.div_ceil(fpi).next_multiple_of(f.inopb);
    let limit = u64::from(opts.max_group.unwrap_or(i32::MAX as u32));
    grow(f, limit, |fpg, ipg| cg(fpg, ipg).cmp(&room), ipg_of, &mut fpg, &mut ipg);
    let best = fpg;
    fit_last_group(f, &mut fpg, &mut ipg, ipg_of)?;
    if fpg != best {
        notes.push(format!(
            "fragments per group reduced from {best} to {fpg} to enlarge the last group"
        ));
    }
    Ok(Some(Cut { size: f.size, density, fpg, ipg }))
}

/// The most fragments per inode, from `least` to `most`, with which the maps of the smallest group fit.
///
/// From the number on at which one block of inodes describes a group of nothing but metadata, a sparser volume
/// has larger groups with as many inodes, so that the largest that fits is found by halving. Below it there are
/// no more than eleven numbers.
fn most_that_fits(f: &Frame, most: u64, least: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    let dense = f.metadata_frags(f.inopb).div_ceil(f.inopb).max(least);
    let sparse = first_not(dense, most + 1, &fits);
    if sparse > dense {
        return Some(sparse - 1);
    }
    (least..dense.min(most + 1)).rev().find(|&fpi| fits(fpi))
}

/// The first number from `low` to below `high` without a property that only the numbers before it have; `high` if
/// all have it.
pub(super) fn first_not(mut low: u64, mut high: u64, has: impl Fn(u64) -> bool) -> u64 {
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

/// The smallest group that has room for its own metadata and a fair share of data.
fn smallest_group(f: &Frame, fpi: u64) -> (u64, u64) {
    // A volume of less than one group is one group, rounded up to whole blocks.
    let min_fpg = (fpi * f.inopb).min(f.size.next_multiple_of(f.frag));
    let mut ipg = f.inopb;
    let mut fpg = 0;
    for _ in 0..2 {
        fpg = f.metadata_frags(ipg).max(min_fpg);
        ipg = fpg.div_ceil(fpi).next_multiple_of(f.inopb);
    }
    (fpg, ipg)
}

/// Grows all groups, a block at a time, while there are enough of them and the maps of one still fit into its
/// block.
fn grow(
    f: &Frame,
    limit: u64,
    maps: impl Fn(u64, u64) -> Ordering,
    ipg_of: impl Fn(u64) -> u64,
    fpg: &mut u64,
    ipg: &mut u64,
) {
    let (least, unit) = (*fpg, f.frag);
    let few_inodes = |ipg| f.format == Format::Ufs2 || ipg <= UFS1_MAXIPG;
    let grows = |n: u64| {
        let fpg = least + n * unit;
        let ipg = ipg_of(fpg);
        few_inodes(ipg) && f.size / fpg >= MINCYLGRPS && maps(fpg, ipg).is_lt()
    };
    let most = limit.saturating_sub(least).div_ceil(unit);
    let steps = first_not(0, most, grows);
    *fpg = least + steps * unit;
    if steps == most {
        // At the limit the inodes are those of the step before.
        *ipg = if steps > 0 { ipg_of(*fpg - unit) } else { *ipg };
        return;
    }
    *ipg = ipg_of(*fpg);
    let enough = few_inodes(*ipg) && (f.size / *fpg < MINCYLGRPS || maps(*fpg, *ipg).is_eq());
    if !enough {
        *fpg -= unit;
        *ipg = ipg_of(*fpg);
    }
}

/// Shrinks all groups until the last one has room for its metadata.
fn fit_last_group(
    f: &Frame,
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
