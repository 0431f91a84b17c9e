//! Checking a group's block after it was read from disk (`spec/on-disk-format.md` §18.2).
//!
//! The header is validated. A group whose metadata is marked free is rejected: allocating from it
//! would destroy the volume. All counts are then recomputed from the maps and corrected in memory.
//! So counts and maps agree from here on, and a search for an item that the counts include cannot
//! fail. The correction is written with the next change of the group.
//!
//! After a crash under soft updates a block may be torn: each sector has old or new content (state
//! A16 of the soft-updates reference). Both have every bit that the rest of the disk depends on, so
//! such a block is used normally. Only its check hash is meaningless.

use ffs_ondisk::cg::{self, full_pattern, runs};
use ffs_ondisk::{Cg, CgMut, CgNo, Corrupt, Csum, Error, Geometry, Place, Structure};
use std::ops::Range;

/// How to treat a wrong check hash of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Torn {
    /// A wrong check hash is damage.
    Never,
    /// A wrong check hash is ignored: the volume was in use with soft updates when it crashed, and
    /// has not been checked since.
    Possible,
}

/// Checks the block of group `c`, corrects its counts from the maps and returns them.
///
/// # Errors
/// The first violated rule. The group must then neither be allocated from nor freed to.
pub(crate) fn check_in(g: &Geometry, c: CgNo, block: &mut [u8], torn: Torn) -> Result<Csum, Error> {
    match torn {
        Torn::Never => cg::validate(g, c, block)?,
        Torn::Possible => {
            cg::validate_header(g, c, block)?;
            forget_uninitialised(g, &mut CgMut::new(g, block));
        }
    }
    check_metadata(g, c, &Cg::new(g, block))?;
    check_reserved_inodes(c, &Cg::new(g, block))?;
    check_initialised(g, c, &Cg::new(g, block))?;
    let mut cg = CgMut::new(g, block);
    // Searches would find bits after the end of the last group.
    for f in cg.view().ndblk()..g.fpg {
        cg.set_frag_free(f, false);
    }
    let frags = recount_frags(g, &mut cg);
    recount_clusters(g, &mut cg);
    let used = (0..g.ipg).filter(|i| cg.view().inode_used(*i)).count() as i64;
    let ndir = cg.view().cs().ndir.clamp(0, used);
    let cs = Csum { ndir, nifree: i64::from(g.ipg) - used, ..frags };
    cg.set_cs(cs);
    Ok(cs)
}

/// Checks that superblock copy, group block, inodes and summary area are not free.
fn check_metadata(g: &Geometry, c: CgNo, cg: &Cg<'_>) -> Result<(), Error> {
    let base = g.cgbase(c).0;
    let in_group = |from: u64, to: u64| -> Range<u32> {
        let rel = |d: u64| d.saturating_sub(base).min(cg.ndblk().into()) as u32;
        rel(from)..rel(to)
    };
    let from = if c.0 == 0 { 0 } else { g.cgsblock(c).0 };
    let summary = g.csaddr.plus(u64::from(g.cssize).div_ceil(g.fsize.into()));
    let mut metadata = in_group(from, g.cgdmin(c).0).chain(in_group(g.csaddr.0, summary.0));
    match metadata.find(|f| cg.frag_free(*f)) {
        None => Ok(()),
        Some(f) => {
            let found = format!("fragment {} marked free", base + u64::from(f));
            Err(damaged(c, "blksfree", found, "metadata marked used"))
        }
    }
}

/// Checks that inodes 0 to 2 (unused, whiteout, root) are in use.
fn check_reserved_inodes(c: CgNo, cg: &Cg<'_>) -> Result<(), Error> {
    match (0..3).find(|i| c.0 == 0 && !cg.inode_used(*i)) {
        None => Ok(()),
        Some(i) => {
            let found = format!("inode {i} marked free");
            Err(damaged(c, "inosused", found, "inodes 0 to 2 marked used"))
        }
    }
}

/// Checks that no inode in use is above `initediblk`: its block would be treated as never written.
fn check_initialised(g: &Geometry, c: CgNo, cg: &Cg<'_>) -> Result<(), Error> {
    let inited = cg.initediblk();
    match (inited..g.ipg).find(|i| cg.inode_used(*i)) {
        None => Ok(()),
        Some(i) => {
            let expected = format!("above {i}, an inode in use");
            Err(damaged(c, "initediblk", inited.to_string(), &expected))
        }
    }
}

/// Marks the inodes from `initediblk` on as free: the header is older than the map, and these
/// inodes were never written.
fn forget_uninitialised(g: &Geometry, cg: &mut CgMut<'_>) {
    for i in cg.view().initediblk()..g.ipg {
        cg.set_inode_used(i, false);
    }
}

fn damaged(c: CgNo, field: &'static str, found: String, expected: &str) -> Error {
    Corrupt::new(Structure::CylinderGroup, Place::Group(c), field, found, expected).into()
}

/// Counts free blocks and fragments; sets `frsum`.
fn recount_frags(g: &Geometry, cg: &mut CgMut<'_>) -> Csum {
    let mut frsum = [0u32; 8];
    let mut cs = Csum::default();
    for blk in 0..g.blocks_per_group() {
        let pattern = cg.view().block_pattern(blk);
        if pattern == full_pattern(g.frag) {
            cs.nbfree += 1;
        } else if pattern != 0 {
            cs.nffree += i64::from(pattern.count_ones());
            for (sum, n) in frsum.iter_mut().zip(runs(pattern, g.frag)) {
                *sum += u32::from(n);
            }
        }
    }
    for (n, sum) in (0..).zip(frsum).take(g.frag as usize).skip(1) {
        cg.set_frsum(n, sum);
    }
    cs
}

/// Computes the free-cluster map and its summary from the fragment map.
fn recount_clusters(g: &Geometry, cg: &mut CgMut<'_>) {
    for k in 1..=g.contigsumsize {
        cg.set_clustersum(k, 0);
    }
    let mut run = 0;
    for blk in 0..g.blocks_per_group() {
        let free = cg.view().block_free(blk);
        cg.set_cluster_free(blk, free);
        if free {
            run += 1;
        } else if run > 0 {
            cg.add_clustersum(run.min(g.contigsumsize), 1);
            run = 0;
        }
    }
    if run > 0 {
        cg.add_clustersum(run.min(g.contigsumsize), 1);
    }
}
