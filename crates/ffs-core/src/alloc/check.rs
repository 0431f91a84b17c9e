//! Checking a group's block in when it comes from disk (`spec/on-disk-format.md` §18.2).
//!
//! The header is validated; metadata marked free condemns the group, since handing it out would
//! destroy the volume. Everything that can be counted is then counted from the maps and corrected
//! in memory, so that from here on counts and maps agree and a search that the counts promise
//! cannot fail. (The correction reaches the disk with the group's next change.)
//!
//! After a crash under soft updates a block may be torn: each sector is old or new (state A16 of
//! the soft-updates reference). Both have every bit that anything on disk needs, so such a block is
//! used like any other; only its check hash says nothing.

use ffs_ondisk::cg::{self, full_pattern, runs};
use ffs_ondisk::{Cg, CgMut, CgNo, Corrupt, Csum, Error, Geometry, Place, Structure};
use std::ops::Range;

/// What a wrong check hash of a group means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Torn {
    /// Damage.
    Never,
    /// Nothing: soft updates kept the volume when it was cut off, and nobody has checked it since.
    Possible,
}

/// Checks the block of group `c`, corrects its counts from the maps and returns them.
///
/// # Errors
/// The first rule the block breaks: it must not be allocated from or freed to.
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
    // Bits behind the end of the last group would be found by searches.
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

/// Superblock copy, group block, inodes and summary area must not be free.
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

/// Inodes 0 to 2 (none, whiteout, root) must be used.
fn check_reserved_inodes(c: CgNo, cg: &Cg<'_>) -> Result<(), Error> {
    match (0..3).find(|i| c.0 == 0 && !cg.inode_used(*i)) {
        None => Ok(()),
        Some(i) => {
            let found = format!("inode {i} marked free");
            Err(damaged(c, "inosused", found, "inodes 0 to 2 marked used"))
        }
    }
}

/// An inode in use lies below `initediblk`: else its block would be taken for one never written.
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

/// Frees the inodes from `initediblk` on: the header is older than the map, and they never came to
/// be.
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

/// Makes the free-cluster map and its summary from the fragment map.
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
