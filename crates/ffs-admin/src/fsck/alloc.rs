//! Room for what repairs create.
//!
//! **Invariants.**
//! 1. A fragment or inode is handed out only if this check does not know it as used; and one that the map on
//!    disk calls used only if there is no other, as when a damaged map calls everything used.
//! 2. What was handed out is remembered, so that the commit can mark it in the maps before anything points at it.
//!
//! References: spec/fsck-and-crash.md §4, §5.

use std::collections::BTreeSet;

use ffs_ondisk::cg::{Cg, CgMut, rehash};
use ffs_ondisk::{CgNo, FragNo, Ino};

use super::Checker;
use super::judge::Res;
use super::tables::State;

/// Whether the maps on disk have a say in what is free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Map {
    Asked,
    Ignored,
}

impl Checker<'_> {
    /// `n` fragments inside one block, marked used; `None` if there is no room.
    pub(super) fn alloc_frags(&mut self, n: u32) -> Res<Option<FragNo>> {
        let by_map = self.alloc_frags_by(n, Map::Asked)?;
        if by_map.is_some() { Ok(by_map) } else { self.alloc_frags_by(n, Map::Ignored) }
    }

    fn alloc_frags_by(&mut self, n: u32, map: Map) -> Res<Option<FragNo>> {
        for i in 0..self.g.ncg {
            let c = CgNo((self.alloc_hint + i) % self.g.ncg);
            if !self.groups[c.0 as usize].sound {
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

    /// A run in group `c`: in a partly used block if one has it, else at the start of a free one.
    fn alloc_in_group(&mut self, c: CgNo, n: u32, map: Map) -> Res<Option<FragNo>> {
        let g = self.g;
        let bytes = self.read_group(c)?;
        let view = Cg::new(&g, &bytes);
        let base = g.cgbase(c);
        let mut whole = None;
        for blk in 0..g.cg_frags(c) / g.frag {
            let first = base.plus(u64::from(blk * g.frag));
            let all = ffs_ondisk::cg::full_pattern(g.frag);
            let marked = if map == Map::Asked { view.block_pattern(blk) } else { all };
            let free = marked & !self.used.byte(first.0);
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

    /// A free inode, marked used; `None` if there is none.
    pub(super) fn alloc_inode(&mut self) -> Res<Option<Ino>> {
        let by_map = self.alloc_inode_by(Map::Asked)?;
        if by_map.is_some() { Ok(by_map) } else { self.alloc_inode_by(Map::Ignored) }
    }

    fn alloc_inode_by(&mut self, map: Map) -> Res<Option<Ino>> {
        for c in 0..self.g.ncg {
            let group = self.groups[c as usize];
            if !group.sound {
                continue;
            }
            let bytes = self.read_group(CgNo(c))?;
            for index in 0..group.scan.min(self.g.ipg) {
                let ino = Ino(c * self.g.ipg + index);
                let marked = map == Map::Asked && Cg::new(&self.g, &bytes).inode_used(index);
                let known = self.inodes.get(ino).state != State::Free;
                if ino.0 > 2 && !marked && !known && self.node(ino)?.d.mode == 0 {
                    self.new_inodes.insert(ino.0);
                    return Ok(Some(ino));
                }
            }
        }
        Ok(None)
    }

    /// Marks in the block of group `c` what was handed out there, nothing else; whether there was something.
    ///
    /// With `settled` only what is still in use.
    pub(super) fn mark_handed_out(&self, c: CgNo, bytes: &mut [u8], settled: bool) -> bool {
        let g = self.g;
        let base = g.cgbase(c).0;
        let (frags, first) = (base..base + u64::from(g.cg_frags(c)), c.0 * g.ipg);
        let mut view = CgMut::new(&g, bytes);
        let mut any = false;
        for &f in self.new_frags.range(frags).filter(|&&f| !settled || self.used.get(f)) {
            view.set_frag_free(g.dtogd(FragNo(f)), false);
            any = true;
        }
        let used = |i: &&u32| !settled || self.inodes.get(Ino(**i)).state != State::Free;
        for &i in self.new_inodes.range(first..first + g.ipg).filter(used) {
            view.set_inode_used(g.ino_to_cgi(Ino(i)), true);
            any = true;
        }
        any
    }

    /// Has the maps of groups where something was handed out written before everything else, with nothing freed.
    ///
    /// Of a check that was stopped it is not known what is still in use.
    pub(super) fn mark_allocations(&mut self, settled: bool) -> Res<()> {
        let g = self.g;
        let mut groups: BTreeSet<CgNo> =
            self.new_frags.iter().map(|&f| g.dtog(FragNo(f))).collect();
        groups.extend(self.new_inodes.iter().map(|&i| g.ino_to_cg(Ino(i))));
        for c in groups {
            let mut bytes = self.store.read_device(g.cgtod(c), g.cgsize as usize)?;
            if ffs_ondisk::cg::validate(&g, c, &bytes).is_err() {
                continue;
            }
            if self.mark_handed_out(c, &mut bytes, settled) {
                rehash(&g, &mut bytes);
                self.store.write_early(g.frag_to_byte(g.cgtod(c)), bytes);
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
