//! Phase 5: the right maps and counts of a group.
//!
//! **Purpose.** Builds the block of a group from the tables of the earlier phases. Nearly every
//! group of a volume has just this block on the device, which a thread can establish.
//!
//! **Invariants.**
//! 1. The result depends only on the used fragments, the inode table and the geometry; from the old
//!    block it keeps only the rotors, the times and the fields of other systems.
//! 2. Bits beyond the last inode, fragment and block, and bytes after the maps, are zero.
//! 3. Time is proportional to the changes between used and free space, not to the fragments: 64
//!    fragments that are all free or all used are one step.
//!
//! References: spec/fsck-and-crash.md §3.6; spec/on-disk-format.md §5, §6.

use ffs_ondisk::cg::{self, CG_HEADER, Cg, CgFields, CgLayout, CgMut, full_pattern};
use ffs_ondisk::csum::clamp32;
use ffs_ondisk::geometry::Format;
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::wire::put;
use ffs_ondisk::{CgNo, Csum, Geometry, Ino};

use super::bitmap::Bitmap;
use super::buffered::Read;
use super::checker::Checker;
use super::groups::{right_header, used_limit};
use super::inoinfo::{CgState, InoStats, State};
use super::resolve::Res;

/// Byte range of a group's check hash.
const CKHASH: std::ops::Range<usize> = 132..136;

/// The tables that determine the maps.
pub(super) struct GroupTables<'a> {
    g: Geometry,
    used: &'a Bitmap,
    inodes: &'a InoStats,
    groups: &'a [CgState],
    gjournal: bool,
    /// Reduce `cg_initediblk` to the inodes in use.
    shrink: bool,
}

/// A group's block as it is and as it should be.
#[derive(Default)]
struct Blocks {
    old: Vec<u8>,
    new: Vec<u8>,
    read: Read,
    /// The right counts, if the block is right.
    right: Option<Csum>,
}

impl Checker<'_> {
    /// The tables that determine the maps.
    pub(super) fn group_tables(&self) -> GroupTables<'_> {
        GroupTables {
            g: self.g,
            used: &self.used,
            inodes: &self.inodes,
            groups: &self.groups,
            gjournal: self.sb.flags().contains(FsFlags::GJOURNAL),
            shrink: self.shrink && !self.resolver.is_preen(),
        }
    }

    /// The counts of each of the groups from `first` on, `n` of them, whose block on the device is
    /// right and has no repair; `None` for the others.
    pub(super) fn right_groups(&self, first: u32, n: u32) -> Res<Vec<Option<Csum>>> {
        let (tables, reader) = (self.group_tables(), self.disk.reader());
        let work = |item: usize, blocks: &mut Blocks| {
            let c = CgNo(first + item as u32);
            blocks.old.resize(tables.g.cgsize as usize, 0);
            blocks.read = reader.read(tables.g.cgtod(c), &mut blocks.old);
            blocks.right = tables.counts_if_right(c, &blocks.old, &mut blocks.new);
        };
        let mut right = Vec::with_capacity(n as usize);
        self.threads.in_order(n as usize, work, |item, blocks| -> Res<()> {
            self.check_interrupt()?;
            let c = CgNo(first + item as u32);
            let current = self.disk.is_final(self.g.cgtod(c), blocks.old.len(), blocks.read);
            right.push(blocks.right.filter(|_| current && !self.has_new_allocations(c)));
            Ok(())
        })?;
        Ok(right)
    }
}

impl GroupTables<'_> {
    /// The counts of group `c` if `old` differs from the right block at most in the check hash,
    /// which phase 0 has checked. `new` is working memory.
    fn counts_if_right(&self, c: CgNo, old: &[u8], new: &mut Vec<u8>) -> Option<Csum> {
        if !self.groups[c.0 as usize].header_ok {
            return None;
        }
        let cs = self.build(c, old, new);
        let same =
            old[..CKHASH.start] == new[..CKHASH.start] && old[CKHASH.end..] == new[CKHASH.end..];
        same.then_some(cs)
    }

    /// Fills `new` with the right block of group `c`, except for the check hash, and returns the
    /// counts.
    pub(super) fn build(&self, c: CgNo, old: &[u8], new: &mut Vec<u8>) -> Csum {
        let lay = CgLayout::of(&self.g);
        new.clear();
        // The tables of old rotational layouts are between header and maps; they are copied
        // unchanged.
        new.extend_from_slice(&old[..lay.iusedoff as usize]);
        new.resize(old.len(), 0);
        let mut cs = Csum::default();
        self.fill_inodes(c, new, &mut cs);
        let frsum = self.fill_frags(c, new, &mut cs);
        let stored = CgFields::decode(old, self.g.endian);
        let inited = self.initialised(c, new, stored.initediblk);
        let mut header = right_header(&self.g, c, &stored, inited);
        header.cs = [cs.ndir, cs.nbfree, cs.nifree, cs.nffree].map(clamp32);
        header.frsum = frsum;
        if self.gjournal {
            header.unrefs = 0;
        }
        header.encode(new, self.g.endian);
        cs
    }

    /// `cg_initediblk` of group `c`: unchanged, or with `-r` reduced to the inodes in use.
    fn initialised(&self, c: CgNo, new: &[u8], stored: u32) -> u32 {
        let g = &self.g;
        if g.format == Format::Ufs1 {
            return 0;
        }
        // At least the inodes in use, all of which phase 1 has scanned.
        let used = used_limit(g, Cg::new(g, new).inosused());
        let group = self.groups[c.0 as usize];
        let scan = if group.header_ok { 0 } else { group.scan };
        let stored = stored.min(g.ipg).max(scan).max(used);
        if self.shrink { stored.min(used.max(2 * g.inopb).min(g.ipg)) } else { stored }
    }

    fn fill_inodes(&self, c: CgNo, new: &mut [u8], cs: &mut Csum) {
        let g = &self.g;
        let mut view = CgMut::new(g, new);
        let mut used = 0;
        for (i, rec) in self.inodes.in_group(c).iter().enumerate() {
            let ino = Ino(c.0 * g.ipg + i as u32);
            if rec.state == State::Unallocated || ino.0 < 2 {
                continue;
            }
            view.set_inode_used(i as u32, true);
            used += 1;
            cs.ndir += i64::from(rec.is_dir());
        }
        if c.0 == 0 {
            // Inodes 0 and 1 are never allocated.
            view.set_inode_used(0, true);
            view.set_inode_used(1, true);
            used += 2;
        }
        cs.nifree = i64::from(g.ipg) - used;
    }

    /// Fills the maps of free fragments and clusters and the cluster summary; counts free blocks
    /// and fragments, and returns the runs of fragments.
    fn fill_frags(&self, c: CgNo, new: &mut [u8], cs: &mut Csum) -> [u32; 8] {
        let g = &self.g;
        let (base, ndblk) = (g.cgbase(c).0, g.cg_frags(c));
        let lay = CgLayout::of(g);
        let mut frsum = [0u32; 8];
        let mut clusters = Clusters::new(g, &lay, ndblk / g.frag);
        let full = full_pattern(g.frag);
        for first in (0..ndblk).step_by(64) {
            let left = (ndblk - first).min(64);
            let free = !self.used.word(base + u64::from(first)) & (u64::MAX >> (64 - left));
            let at = (lay.freeoff + first / 8) as usize;
            let n = left.div_ceil(8) as usize;
            new[at..at + n].copy_from_slice(&free.to_le_bytes()[..n]);
            let (blk, blocks) = (first / g.frag, left.div_ceil(g.frag));
            if free == 0 || free == u64::MAX {
                let whole = if free == 0 { 0 } else { blocks };
                cs.nbfree += i64::from(whole);
                clusters.add(new, blk, blocks, whole > 0);
                continue;
            }
            for i in 0..blocks {
                let pattern = (free >> (i * g.frag)) as u8 & full;
                clusters.add(new, blk + i, 1, pattern == full);
                if pattern == full {
                    cs.nbfree += 1;
                } else if pattern != 0 {
                    cs.nffree += i64::from(pattern.count_ones());
                    for (sum, n) in frsum.iter_mut().zip(cg::runs(pattern, g.frag)) {
                        *sum += u32::from(n);
                    }
                }
            }
        }
        clusters.end_run();
        clusters.encode(new);
        frsum
    }
}

/// The map of free clusters and its summary, from blocks in order.
struct Clusters<'a> {
    g: &'a Geometry,
    lay: &'a CgLayout,
    /// Whole blocks of the group.
    limit: u32,
    /// Free blocks since the last used one.
    run: u32,
    /// Runs of each length up to `contigsumsize`, which is small.
    sums: Vec<u32>,
}

impl<'a> Clusters<'a> {
    fn new(g: &'a Geometry, lay: &'a CgLayout, limit: u32) -> Clusters<'a> {
        Clusters { g, lay, limit, run: 0, sums: vec![0; g.contigsumsize as usize + 1] }
    }

    /// Adds `n` blocks from `blk` on; if there are several, they fill whole bytes of the map or
    /// end the group.
    fn add(&mut self, new: &mut [u8], blk: u32, n: u32, free: bool) {
        let n = n.min(self.limit.saturating_sub(blk));
        if !free || n == 0 {
            return self.end_run();
        }
        self.run += n;
        if self.g.contigsumsize == 0 {
            return;
        }
        let map = self.lay.clusteroff as usize;
        let mut bit = blk;
        while bit < blk + n {
            let bits = (8 - bit % 8).min(blk + n - bit);
            if let Some(byte) = new.get_mut(map + bit as usize / 8) {
                *byte |= (u8::MAX >> (8 - bits)) << (bit % 8);
            }
            bit += bits;
        }
    }

    fn end_run(&mut self) {
        let longest = self.g.contigsumsize.min(std::mem::take(&mut self.run));
        if let Some(sum) = self.sums.get_mut(longest as usize).filter(|_| longest > 0) {
            *sum += 1;
        }
    }

    fn encode(&self, new: &mut [u8]) {
        for (k, &n) in self.sums.iter().enumerate().skip(1) {
            put(new, self.lay.clustersumoff as usize + 4 * k, self.g.endian, n);
        }
    }
}

/// The header of a group without its check hash.
pub(super) fn header_without_hash(b: &[u8]) -> (&[u8], &[u8]) {
    (&b[..CKHASH.start], &b[CKHASH.end..CG_HEADER])
}

#[cfg(test)]
mod tests {
    use ffs_device::BlockDevice;
    use ffs_ondisk::{Endian, sbsearch};
    use ffs_testkit::rng::SplitMix64;

    use super::*;

    /// Used space in runs of all lengths, so that words are all free, all used and mixed.
    fn random_map(g: &Geometry, seed: u64) -> Bitmap {
        let mut rng = SplitMix64::new(seed);
        let (mut used, mut at) = (Bitmap::new(g.size), 0);
        while at < g.size {
            let longest = [3, 20, 700][rng.below(3) as usize];
            let (taken, free) = (rng.below(longest), rng.below(longest));
            used.set_range(at, at + taken);
            at += taken + free + 1;
        }
        used
    }

    #[test]
    fn maps_and_counts_agree() {
        for (bsize, fsize) in [(4096, 512), (8192, 4096), (4096, 4096), (8192, 2048)] {
            for format in [Format::Ufs1, Format::Ufs2] {
                let dev = crate::newfs::quick(Endian::Big, format, bsize, fsize, 9 << 20).unwrap();
                let read = |at, len| {
                    let mut bytes = vec![0; len];
                    dev.read_at(at, &mut bytes).map(|()| bytes)
                };
                let g = sbsearch::find(read, Some(dev.len_bytes())).unwrap().geometry;
                let groups =
                    vec![CgState { header_ok: true, ..CgState::default() }; g.ncg as usize];
                for seed in 0..20 {
                    let (used, inodes) = (random_map(&g, seed), InoStats::new(&g));
                    let tables = GroupTables {
                        g,
                        used: &used,
                        inodes: &inodes,
                        groups: &groups,
                        gjournal: false,
                        shrink: false,
                    };
                    for c in (0..g.ncg).map(CgNo) {
                        agree(&tables, c, (bsize, fsize, seed));
                    }
                }
            }
        }
    }

    fn agree(tables: &GroupTables<'_>, c: CgNo, case: (u32, u32, u64)) {
        let g = tables.g;
        let mut old = vec![0; g.cgsize as usize];
        right_header(&g, c, &CgFields::default(), 0).encode(&mut old, g.endian);
        let mut new = Vec::new();
        let cs = tables.build(c, &old, &mut new);
        let (view, base) = (Cg::new(&g, &new), g.cgbase(c).0);
        for f in 0..g.fpg {
            let free = f < g.cg_frags(c) && !tables.used.get(base + u64::from(f));
            assert_eq!(cg::bit(view.blksfree(), f), Some(free), "{case:?} {c} {f}");
        }
        for blk in 0..view.clustersfree().len() as u32 * 8 {
            let whole = blk < g.cg_frags(c) / g.frag && view.block_free(blk);
            assert_eq!(cg::bit(view.clustersfree(), blk), Some(whole), "{case:?} {c} {blk}");
        }
        let counted = view.recount();
        assert_eq!((cs.nbfree, cs.nffree), (counted.cs.nbfree, counted.cs.nffree), "{case:?} {c}");
        assert_eq!(view.header().frsum, counted.frsum, "{case:?} {c}");
        for k in 1..=g.contigsumsize {
            let right = counted.clustersum[k as usize] as i32;
            assert_eq!(view.clustersum(k), right, "{case:?} {c} {k}");
        }
    }
}
