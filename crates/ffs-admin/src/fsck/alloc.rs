//! Allocation of fragments and inodes for repairs.
//!
//! **Invariants.**
//! 1. Only fragments and inodes that this check has found free are allocated. One that the map on
//!    disk marks used is allocated only if there is no other, for example when a damaged map marks
//!    everything used.
//! 2. New allocations are recorded, so that the commit marks them in the maps before any pointer or
//!    name refers to them.
//!
//! References: spec/fsck-and-crash.md §4, §5.

use std::collections::BTreeSet;

use ffs_ondisk::cg::{Cg, CgMut, hash_ok, rehash, validate_header};
use ffs_ondisk::{CgNo, FragNo, Ino};

use super::checker::Checker;
use super::inoinfo::State;
use super::resolve::Res;

/// Whether an allocation must be free in the map on disk too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DiskMap {
    Respect,
    Ignore,
}

/// Whether the check has completed, so that the allocations still in use are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completion {
    /// Mark only the allocations still in use.
    Complete,
    /// Mark all allocations.
    Stopped,
}

impl Checker<'_> {
    /// Allocates `n` fragments inside one block; `None` if there is no space.
    pub(super) fn alloc_frags(&mut self, n: u32) -> Res<Option<FragNo>> {
        let by_map = self.alloc_frags_by(n, DiskMap::Respect)?;
        if by_map.is_some() { Ok(by_map) } else { self.alloc_frags_by(n, DiskMap::Ignore) }
    }

    fn alloc_frags_by(&mut self, n: u32, map: DiskMap) -> Res<Option<FragNo>> {
        for i in 0..self.g.ncg {
            let c = CgNo((self.alloc_hint + i) % self.g.ncg);
            if !self.groups[c.0 as usize].header_ok {
                continue;
            }
            if let Some(at) = self.alloc_in_group(c, n, map)? {
                self.alloc_hint = c.0;
                for f in at.0..at.0 + u64::from(n) {
                    self.used.set(f);
                    self.new_frags.insert(f);
                }
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// A run in group `c`: in a partly used block if one has space, else at the start of a free
    /// block.
    fn alloc_in_group(&mut self, c: CgNo, n: u32, map: DiskMap) -> Res<Option<FragNo>> {
        let g = self.g;
        let bytes = self.read_group(c)?;
        let view = Cg::new(&g, &bytes);
        let base = g.cgbase(c);
        let mut whole = None;
        for blk in 0..g.cg_frags(c) / g.frag {
            let first = base.plus(u64::from(blk * g.frag));
            let all = ffs_ondisk::cg::full_pattern(g.frag);
            let marked = if map == DiskMap::Respect { view.block_pattern(blk) } else { all };
            let free = marked & !(self.used.word(first.0) as u8);
            if free == all {
                if n == g.frag {
                    return Ok(Some(first));
                }
                whole = whole.or(Some(first));
            } else if let Some(start) = run_of(free, n, g.frag) {
                return Ok(Some(first.plus(start.into())));
            }
        }
        Ok(whole)
    }

    /// Allocates an inode; `None` if none is free.
    pub(super) fn alloc_inode(&mut self) -> Res<Option<Ino>> {
        let by_map = self.alloc_inode_by(DiskMap::Respect)?;
        if by_map.is_some() { Ok(by_map) } else { self.alloc_inode_by(DiskMap::Ignore) }
    }

    fn alloc_inode_by(&mut self, map: DiskMap) -> Res<Option<Ino>> {
        for c in 0..self.g.ncg {
            let group = self.groups[c as usize];
            if !group.header_ok {
                continue;
            }
            let bytes = self.read_group(CgNo(c))?;
            for index in 0..group.scan.min(self.g.ipg) {
                let ino = Ino(c * self.g.ipg + index);
                let marked = map == DiskMap::Respect && Cg::new(&self.g, &bytes).inode_used(index);
                let known = self.inodes.get(ino).state != State::Unallocated;
                if ino.0 > 2 && !marked && !known && self.read_inode(ino)?.d.mode == 0 {
                    self.new_inodes.insert(ino.0);
                    return Ok(Some(ino));
                }
            }
        }
        Ok(None)
    }

    /// Whether repairs have allocated anything in group `c`.
    pub(super) fn has_new_allocations(&self, c: CgNo) -> bool {
        let g = &self.g;
        let (base, first) = (g.cgbase(c).0, c.0 * g.ipg);
        let frags = base..base + u64::from(g.cg_frags(c));
        self.new_frags.range(frags).next().is_some()
            || self.new_inodes.range(first..first + g.ipg).next().is_some()
    }

    /// Marks the new allocations of group `c` in its block `bytes`; `true` if there are any.
    pub(super) fn mark_new_allocations(
        &self,
        c: CgNo,
        bytes: &mut [u8],
        completion: Completion,
    ) -> bool {
        let g = self.g;
        let all = completion == Completion::Stopped;
        let base = g.cgbase(c).0;
        let (frags, first) = (base..base + u64::from(g.cg_frags(c)), c.0 * g.ipg);
        let mut view = CgMut::new(&g, bytes);
        let mut any = false;
        for &f in self.new_frags.range(frags).filter(|&&f| all || self.used.get(f)) {
            view.set_frag_free(g.dtogd(FragNo(f)), false);
            any = true;
        }
        let used = |i: &&u32| all || self.inodes.get(Ino(**i)).state != State::Unallocated;
        for &i in self.new_inodes.range(first..first + g.ipg).filter(used) {
            view.set_inode_used(g.ino_to_cgi(Ino(i)), true);
            any = true;
        }
        any
    }

    /// Makes the commit write the maps of groups with new allocations before everything else. The
    /// maps are those on the device with the allocations added; nothing is freed.
    pub(super) fn write_new_allocations(&mut self, completion: Completion) -> Res<()> {
        let g = self.g;
        let mut groups: BTreeSet<CgNo> =
            self.new_frags.iter().map(|&f| g.dtog(FragNo(f))).collect();
        groups.extend(self.new_inodes.iter().map(|&i| g.ino_to_cg(Ino(i))));
        for c in groups {
            let mut bytes = self.disk.read_device(g.cgtod(c), g.cgsize as usize)?;
            if validate_header(&g, c, &bytes).is_err() {
                continue;
            }
            let hash_ok = hash_ok(&g, &bytes);
            if self.mark_new_allocations(c, &mut bytes, completion) {
                // A wrong hash stays wrong: the rest of the map is what a loss of power left.
                if hash_ok {
                    rehash(&g, &mut bytes);
                }
                self.disk.write_early(g.frag_to_byte(g.cgtod(c)), bytes);
            }
        }
        Ok(())
    }
}

/// Start of the first run of `n` set bits in `pattern`.
fn run_of(pattern: u8, n: u32, frag: u32) -> Option<u32> {
    let want = ((1u16 << n.min(8)) - 1) as u8;
    (0..=frag.checked_sub(n)?).find(|&s| pattern >> s & want == want)
}
