//! Blocks of new cylinder groups; growfs also counts enlarged ones (`spec/on-disk-format.md` §5).
//!
//! **Invariants.**
//! 1. Counts, run sums and cluster sums are computed from the maps, never updated beside them.
//! 2. All groups except the first and the last differ only in their number.

use ffs_ondisk::cg::{self, CG_MAGIC, CgFields, CgLayout, CgMut};
use ffs_ondisk::{CgNo, Csum, Format, Geometry};

/// Builds the block of group `c` (`bsize` bytes, without check hash), in which only metadata is in
/// use.
pub(crate) fn fresh(g: &Geometry, c: CgNo, now: i64) -> Vec<u8> {
    let mut block = vec![0; g.bsize as usize];
    let mut cg = CgMut::new(g, &mut block);
    cg.set_header(&header(g, c, now));
    let ndblk = g.cg_frags(c);
    let csum_frags = if c.0 == 0 { g.numfrags_up(g.cssize.into()) } else { 0 };
    // In group 0 the boot area takes the place of the first data area of other groups.
    let before = if c.0 == 0 { 0 } else { g.sblkno };
    let after = g.dblkno.saturating_add(csum_frags);
    for f in (0..before).chain(after..ndblk) {
        cg.set_frag_free(f, true);
    }
    if c.0 == 0 {
        // Inode 0 is invalid and inode 1 marks whiteouts.
        cg.set_inode_used(0, true);
        cg.set_inode_used(1, true);
    }
    block
}

fn header(g: &Geometry, c: CgNo, now: i64) -> CgFields {
    let lay = CgLayout::of(g);
    let ndblk = g.cg_frags(c);
    let mut h = CgFields {
        magic: CG_MAGIC,
        cgx: c.0,
        ndblk,
        old_btotoff: lay.btotoff as i32,
        old_boff: lay.boff as i32,
        iusedoff: lay.iusedoff,
        freeoff: lay.freeoff,
        nextfreeoff: lay.nextfreeoff,
        clustersumoff: lay.clustersumoff,
        clusteroff: lay.clusteroff,
        nclusterblks: if g.contigsumsize > 0 { ndblk / g.frag } else { 0 },
        ..CgFields::default()
    };
    match g.format {
        Format::Ufs1 => {
            h.old_time = now as i32;
            h.old_ncyl = g.old_cpg as i16;
            h.old_niblk = g.ipg as i16;
        }
        Format::Ufs2 => {
            h.time = now;
            h.niblk = g.ipg;
            h.initediblk = g.ipg.min(2 * g.inopb);
        }
    }
    h
}

/// Allocates the first fragment of the first free block for a directory, and inode index `ino` for
/// its inode. Returns the fragment; `None` if no block is free.
pub(super) fn take_for_directory(g: &Geometry, block: &mut [u8], ino: u32) -> Option<u32> {
    let mut cg = CgMut::new(g, block);
    let blk = (0..cg.view().nblocks()).find(|&b| cg.view().block_free(b))?;
    cg.set_frag_free(blk * g.frag, false);
    cg.set_inode_used(ino, true);
    Some(blk * g.frag)
}

/// Sets every count of the block from its maps, and the number of directories to `ndir`. Returns
/// the counts.
pub(crate) fn recount(g: &Geometry, block: &mut [u8], ndir: i64) -> Csum {
    let mut cg = CgMut::new(g, block);
    let used = (0..g.ipg).filter(|&i| cg.view().inode_used(i)).count();
    let mut cs = Csum { ndir, nifree: i64::from(g.ipg) - used as i64, nbfree: 0, nffree: 0 };
    let mut h = cg.view().header();
    h.frsum = [0; 8];
    cg.set_header(&h);
    for k in 1..=g.contigsumsize {
        cg.set_clustersum(k, 0);
    }
    let whole = cg.view().nblocks();
    let mut run = 0;
    for blk in 0..cg.view().ndblk().div_ceil(g.frag) {
        let pattern = cg.view().block_pattern(blk);
        let free = pattern == cg::full_pattern(g.frag) && blk < whole;
        if free {
            cs.nbfree += 1;
            run += 1;
        } else {
            end_run(&mut cg, g, &mut run);
            cs.nffree += i64::from(pattern.count_ones());
            count_runs(&mut cg, g, pattern);
        }
        if blk < whole {
            cg.set_cluster_free(blk, free);
        }
    }
    end_run(&mut cg, g, &mut run);
    cg.set_cs(cs);
    cs
}

/// Counts a run of `run` free blocks that has ended.
fn end_run(cg: &mut CgMut<'_>, g: &Geometry, run: &mut u32) {
    cg.add_clustersum((*run).min(g.contigsumsize), 1);
    *run = 0;
}

fn count_runs(cg: &mut CgMut<'_>, g: &Geometry, pattern: u8) {
    for (n, count) in (0u32..).zip(cg::runs(pattern, g.frag)).skip(1) {
        if count > 0 {
            cg.add_frsum(n, count.into());
        }
    }
}
