//! What the image of a new snapshot shows: pointers, groups, inodes, summaries.
//!
//! # Invariants
//! 1. A group is copied, and the pointers to its blocks are set, from one state of its maps.
//!
//! Reference: `spec/snapshots.md` §3, §4.

use super::super::map::blocks_of_leaf;
use super::Draft;
use crate::alloc::GroupImage;
use crate::error::Result;
use ffs_ondisk::bmap::set_pointer;
use ffs_ondisk::geometry::{NDADDR, NIADDR};
use ffs_ondisk::snapshot::{BLK_NOCOPY, BLK_SNAP};
use ffs_ondisk::{Cg, CgNo, Csum, Dinode, FileFlags, Ino, Lbn};
use std::collections::BTreeSet;

/// The last group that was copied.
type LastGroup = Option<(CgNo, Vec<u8>)>;

impl Draft<'_> {
    /// Copies the blocks that are in every snapshot: superblock, summary area, the last block, and
    /// those of the direct pointers.
    pub(super) fn copy_fixed(&mut self, location: u64) -> Result<()> {
        let bsize = u64::from(self.g().bsize);
        let first = self.g().fragstoblks(self.g().csaddr).0;
        let area = self.g().frag_to_byte(self.g().csaddr) + u64::from(self.g().cssize);
        let summary = first..area.div_ceil(bsize);
        let superblock = location / bsize;
        let fixed = summary.chain([superblock, self.image.0.saturating_sub(1)]);
        for lbn in fixed.map(Lbn).collect::<BTreeSet<_>>() {
            if lbn < self.image {
                self.copy_block(lbn, |_| ())?;
            }
        }
        let mut last = None;
        for lbn in (0..(NDADDR as u64).min(self.image.0)).map(Lbn) {
            if self.pointer(lbn, &mut last)? == 0 {
                self.copy_block(lbn, |_| ())?;
            }
        }
        Ok(())
    }

    /// Copies block `lbn`, changed by `edit`. A second call changes the copy.
    fn copy_block(&mut self, lbn: Lbn, edit: impl FnOnce(&mut [u8])) -> Result<()> {
        let mut bytes = vec![0; self.g().bsize as usize];
        let own = self.g().blkstofrags(lbn);
        let at = match self.copies.get(&lbn) {
            Some(&at) => {
                self.snaps.dev().read_at(self.g().frag_to_byte(at), &mut bytes)?;
                at
            }
            None => {
                self.snaps.read_volume(own, &mut bytes)?;
                let at = self.take()?;
                self.copies.insert(lbn, at);
                // The pointer to the block changes.
                self.forget_group(self.g().dtog(own));
                at
            }
        };
        edit(&mut bytes);
        self.write(at, &bytes)
    }

    /// In the image, inode `ino` is an empty file (`keep`) or free.
    pub(super) fn edit_inode(&mut self, ino: Ino, keep: bool) -> Result<()> {
        let g = *self.g();
        self.change_inode(ino, |d| {
            if !keep {
                *d = Dinode { generation: d.generation, ..Dinode::default() };
                return;
            }
            d.flags.remove(FileFlags::SF_SNAPSHOT);
            d.db = [0; NDADDR];
            d.ib = [0; NIADDR];
            d.size = 0;
            d.blocks = d.ext_sectors(&g);
        })
    }

    /// In the image, inode `ino` has so many links less.
    pub(super) fn lower_links(&mut self, ino: Ino, links: u16) -> Result<()> {
        self.change_inode(ino, |d| d.nlink = d.nlink.saturating_sub(links))
    }

    /// Changes inode `ino` in the image.
    fn change_inode(&mut self, ino: Ino, change: impl FnOnce(&mut Dinode)) -> Result<()> {
        let g = *self.g();
        let off = g.ino_to_fsbo(ino);
        self.copy_block(g.fragstoblks(g.ino_to_fsba(ino)), |bytes| {
            let Some(place) = bytes.get_mut(off..) else { return };
            let mut d = Dinode::decode(&g, place);
            change(&mut d);
            d.encode(&g, place);
        })
    }

    /// Writes the summary area of the image.
    pub(super) fn write_summaries(&mut self) -> Result<()> {
        let mut area = vec![0; self.g().cssize as usize];
        for (c, cs) in self.sums.iter().enumerate() {
            cs.encode(&mut area, c * Csum::SIZE, self.g().endian);
        }
        self.patch(self.g().frag_to_byte(self.g().csaddr), &area)
    }

    /// Writes `bytes` over the image from byte `from` on, in blocks that were copied.
    pub(super) fn patch(&mut self, from: u64, bytes: &[u8]) -> Result<()> {
        let bsize = u64::from(self.g().bsize);
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let at = from + done as u64;
            let (lbn, skip) = (Lbn(at / bsize), (at % bsize) as usize);
            let n = rest.len().min(bsize as usize - skip);
            self.copy_block(lbn, |block| {
                if let (Some(to), Some(part)) = (block.get_mut(skip..skip + n), rest.get(..n)) {
                    to.copy_from_slice(part);
                }
            })?;
            done += n;
        }
        Ok(())
    }

    /// Writes the groups for which `stale` is true, and the pointers to their blocks.
    pub(super) fn update(&mut self, stale: impl Fn(CgNo) -> bool) -> Result<()> {
        let mut last: LastGroup = None;
        for leaf in 0..self.leaves.len() {
            let range = blocks_of_leaf(self.g(), leaf as u64, self.blocks);
            let end = Lbn(range.end.min(self.image.0).saturating_sub(1));
            let group = |lbn| self.g().dtog(self.g().blkstofrags(lbn)).0;
            let groups = group(Lbn(range.start))..=group(end);
            let whole = range.start >= self.image.0;
            if !whole && !groups.clone().any(|c| stale(CgNo(c))) {
                continue;
            }
            let mut bytes = vec![0; self.g().bsize as usize];
            for (k, lbn) in range.map(Lbn).enumerate() {
                let raw = self.pointer(lbn, &mut last)?;
                set_pointer(self.g(), &mut bytes, k, raw);
            }
            if let Some(&at) = self.leaves.get(leaf) {
                self.write(at, &bytes)?;
            }
        }
        // Groups all of whose blocks have direct pointers.
        for c in (0..self.g().ncg).map(CgNo).filter(|c| stale(*c)) {
            if self.seen.get(c.0 as usize).is_some_and(Option::is_none) {
                self.group(c)?;
            }
        }
        Ok(())
    }

    pub(super) fn direct_pointers(&mut self) -> Result<[i64; NDADDR]> {
        let (mut direct, mut last) = ([0; NDADDR], None);
        for (lbn, slot) in (0..self.image.0).zip(direct.iter_mut()) {
            *slot = self.pointer(Lbn(lbn), &mut last)?;
        }
        Ok(direct)
    }

    /// Group `c` has to be copied again.
    pub(super) fn forget_group(&mut self, c: CgNo) {
        if let Some(seen) = self.seen.get_mut(c.0 as usize) {
            *seen = None;
        }
    }

    /// The pointer of block `lbn`.
    fn pointer(&mut self, lbn: Lbn, last: &mut LastGroup) -> Result<i64> {
        if lbn >= self.image {
            let at = self.list.get((lbn.0 - self.image.0) as usize);
            return Ok(at.map_or(0, |at| at.pointer()));
        }
        if let Some(at) = self.copies.get(&lbn) {
            return Ok(at.pointer());
        }
        if self.owned.contains(&lbn) {
            return Ok(BLK_SNAP);
        }
        let at = self.g().blkstofrags(lbn);
        let c = self.g().dtog(at);
        if last.as_ref().is_none_or(|(of, _)| *of != c) {
            *last = Some((c, self.group(c)?));
        }
        let Some((_, bytes)) = last else { return Ok(0) };
        let blk = self.g().dtogd(at) / self.g().frag;
        Ok(if Cg::new(self.g(), bytes).block_free(blk) { BLK_NOCOPY } else { 0 })
    }

    /// Copies group `c` as the image shows it. Returns the copy.
    fn group(&mut self, c: CgNo) -> Result<Vec<u8>> {
        let runs = self.freed_runs.get(&c).map_or(&[][..], Vec::as_slice);
        let inodes = self.freed_inodes.get(&c).map_or(&[][..], Vec::as_slice);
        let GroupImage { mut bytes, sums, changes } =
            self.snaps.alloc.group_image(c, runs, inodes)?;
        if let Some(slot) = self.sums.get_mut(c.0 as usize) {
            *slot = sums;
        }
        if let Some(slot) = self.seen.get_mut(c.0 as usize) {
            *slot = Some(changes);
        }
        bytes.resize(self.g().bsize as usize, 0);
        let lbn = self.g().fragstoblks(self.g().cgtod(c));
        if let Some(&at) = self.copies.get(&lbn) {
            self.write(at, &bytes)?;
        }
        Ok(bytes)
    }
}
