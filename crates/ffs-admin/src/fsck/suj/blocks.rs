//! Which fragments are free.
//!
//! A fragment that a record names, or that belonged to a pointer that was dropped, is free unless a
//! block pointer that a record names leads to it. That is the state after the operation that the
//! record announced, or before it; the device shows which.
//!
//! **Invariants.**
//! 1. The content of an indirect block that was freed is followed only if it is certainly intact:
//!    all records of the block are of this freeing, and the map still marks the block in use.
//! 2. Two block pointers to one fragment contradict soft updates (F4), and end the recovery.

use std::collections::{BTreeMap, BTreeSet};

use ffs_ondisk::bmap::{self, Named, pointer};
use ffs_ondisk::cg::{Cg, full_pattern};
use ffs_ondisk::{FragNo, Geometry, Ino};

use super::table::BlockRec;
use super::{Recovery, Step, unusable};

/// The fragments of a block.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct FragMask {
    /// Those that may be free.
    released: u8,
    /// Those that a block pointer leads to.
    mapped: u8,
}

impl FragMask {
    /// The fragments that are free.
    pub(super) fn free(self) -> u8 {
        self.released & !self.mapped
    }

    /// The fragments that are in use although a record named them.
    pub(super) fn kept(self) -> u8 {
        self.released & self.mapped
    }
}

/// The bits of `n` fragments from `at` on in their block.
pub(super) fn bits(g: &Geometry, at: FragNo, n: u32) -> u8 {
    full_pattern(n) << g.fragnum(at)
}

impl Recovery<'_> {
    /// The `n` fragments from `at` on, inside one block, may be free.
    pub(super) fn release_run(&mut self, at: FragNo, n: u32) -> Step<()> {
        let g = self.ck.g;
        if let Some(why) = g.run_problem(at, n) {
            return unusable(format!("{n} fragments at {at}: {why}"));
        }
        self.released.entry(at.0 / u64::from(g.frag)).or_default().released |= bits(&g, at, n);
        let size = (self.released.len() * 4 * size_of::<u64>()) as u64;
        if size > self.ck.disk.limit() {
            return unusable("the tables need too much memory");
        }
        Ok(())
    }

    /// Decides on all fragments that records name.
    pub(super) fn resolve_blocks(&mut self) -> Step<()> {
        let frag = u64::from(self.ck.g.frag);
        let recs = std::mem::take(&mut self.tables.blocks);
        for (&block, list) in &recs {
            self.ck.check_interrupt()?;
            let mut files: BTreeSet<(Ino, i64)> = BTreeSet::new();
            let mut mapped = 0;
            for rec in list {
                self.release_run(rec.at, rec.frags)?;
                if !files.insert((rec.ino, rec.lbn)) {
                    continue;
                }
                let Some((at, n)) = self.current_run(rec)? else { continue };
                if at.0 / frag != block {
                    continue;
                }
                let here = bits(&self.ck.g, at, n);
                if mapped & here != 0 {
                    return unusable(format!("two block pointers to fragment {at}"));
                }
                mapped |= here;
            }
            self.released.entry(block).or_default().mapped = mapped;
        }
        let mut seen = BTreeSet::new();
        for (&block, list) in &recs {
            let unmapped = self.released.get(&block).is_none_or(|mask| mask.mapped == 0);
            if let Some((at, level)) = self.freed_indirect(list).filter(|_| unmapped)
                && self.is_in_use(at)?
            {
                self.release_tree(at, level, &recs, &mut seen)?;
            }
        }
        Ok(())
    }

    /// The fragments to which the block that `rec` names is mapped now.
    fn current_run(&mut self, rec: &BlockRec) -> Step<Option<(FragNo, u32)>> {
        if self.freed.contains_key(&rec.ino.0) {
            return Ok(None);
        }
        let node = self.inode(rec.ino)?;
        if node.d.mode == 0 {
            return Ok(None);
        }
        self.block_of(&node, rec.lbn)
    }

    /// The indirect block and its level, if the records of a block only free it.
    fn freed_indirect(&self, list: &BTreeSet<BlockRec>) -> Option<(FragNo, usize)> {
        let first = list.first()?;
        let same = |rec: &BlockRec| rec.freed && rec == first;
        match bmap::parse_name(&self.ck.g, first.lbn) {
            Some(Named::Indirect { level, .. }) if list.iter().all(same) => Some((first.at, level)),
            _ => None,
        }
    }

    /// Whether the map marks any fragment of the block at `at` in use.
    fn is_in_use(&mut self, at: FragNo) -> Step<bool> {
        let g = self.ck.g;
        let group = self.group(g.dtog(at))?;
        let pattern = Cg::new(&g, &group.bytes).block_pattern(g.dtogd(at) / g.frag);
        Ok(pattern != full_pattern(g.frag))
    }

    /// Releases the blocks below the indirect block at `at`, which was freed.
    fn release_tree(
        &mut self,
        at: FragNo,
        level: usize,
        recs: &BTreeMap<u64, BTreeSet<BlockRec>>,
        seen: &mut BTreeSet<u64>,
    ) -> Step<()> {
        let g = self.ck.g;
        if g.fragnum(at) != 0 || !seen.insert(at.0) {
            return unusable(format!("the indirect block at {at} was freed twice"));
        }
        self.ck.check_interrupt()?;
        let block = self.ck.disk.read(at, g.bsize as usize)?;
        for slot in 0..g.nindir as usize {
            let raw = pointer(&g, &block, slot);
            if raw == 0 {
                continue;
            }
            let child = FragNo(u64::try_from(raw).unwrap_or(0));
            if let Some(why) = g.run_problem(child, g.frag) {
                return unusable(format!("freed indirect block {at}: pointer {raw} is {why}"));
            }
            if !self.is_in_use(child)? {
                continue;
            }
            // If the block was allocated again, its records give the pointers that lead to it.
            self.release_run(child, g.frag)?;
            let again = recs.contains_key(&(child.0 / u64::from(g.frag)));
            if level > 1 && !again {
                self.release_tree(child, level - 1, recs, seen)?;
            }
        }
        Ok(())
    }
}
