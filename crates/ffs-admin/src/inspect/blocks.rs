//! The blocks of a file: data, indirect blocks, extended attributes.
//!
//! **Invariants.**
//! 1. The walk is at most three levels deep and holds one block of each level.
//! 2. It visits blocks of at most as many fragments as the volume has: a damaged file whose
//!    indirect blocks lead back to themselves ends there. A walk over many files visits at most
//!    twice as many.

use ffs_ondisk::geometry::{NDADDR, NIADDR};
use ffs_ondisk::{Dinode, FragNo, Lbn, bmap, snapshot};

use super::Inspector;
use crate::AdminError;

/// What a block of a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Data.
    Data,
    /// Pointers; the level, 1 to 3.
    Indirect(usize),
    /// Extended attributes.
    ExtAttr,
}

/// A block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// What it holds.
    pub kind: BlockKind,
    /// Its logical number; of pointers that of the first block that they map.
    pub lbn: Lbn,
    /// Its first fragment.
    pub at: FragNo,
    /// Its length in fragments.
    pub frags: u32,
    /// Why it cannot be a block of a file.
    pub problem: Option<&'static str>,
}

/// A pointer, and what it should refer to.
struct Pointer {
    raw: i64,
    kind: BlockKind,
    lbn: Lbn,
    frags: u32,
}

impl Inspector<'_> {
    /// Calls `each` with the blocks of a file in the order of its pointers: direct ones, then each
    /// indirect block before what it maps, then extended attributes. A device, a pipe and a short
    /// symbolic link have none. `each` ends the walk by returning false.
    ///
    /// # Errors
    /// The device's; what `each` returns.
    pub fn blocks<E: From<AdminError>>(
        &self,
        d: &Dinode,
        each: impl FnMut(Block) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut left = self.vol.geo.size;
        self.blocks_within(d, &mut left, each)
    }

    /// As [`Inspector::blocks`], until `left` fragments have been visited.
    pub(super) fn blocks_within<E: From<AdminError>>(
        &self,
        d: &Dinode,
        left: &mut u64,
        mut each: impl FnMut(Block) -> Result<bool, E>,
    ) -> Result<(), E> {
        let g = &self.vol.geo;
        // Of a snapshot some pointers are marks, not addresses.
        let is_snapshot = snapshot::is_snapshot(d);
        let is_pointer = |raw: i64| !(is_snapshot && snapshot::is_mark(g, raw));
        let mut go_on = true;
        if d.has_pointers(g) {
            for (lbn, raw) in (0..NDADDR as u64).map(Lbn).zip(d.db) {
                // A removed file may have pointers and no size.
                let bytes = if d.size == 0 { g.bsize } else { g.blksize(d.size, lbn) };
                let frags = g.numfrags_up(bytes.into()).max(1);
                let pointer = Pointer { raw, kind: BlockKind::Data, lbn, frags };
                go_on = go_on && self.follow(&pointer, &is_pointer, left, &mut each)?;
            }
            for (i, raw) in (0..NIADDR).zip(d.ib) {
                let lbn = bmap::first_of_root(g, i);
                let kind = BlockKind::Indirect(i + 1);
                let pointer = Pointer { raw, kind, lbn, frags: g.frag };
                go_on = go_on && self.follow(&pointer, &is_pointer, left, &mut each)?;
            }
        }
        for (i, raw) in (0..).zip(d.extb) {
            let frags = d.ext_frags(g, i).max(1);
            let pointer = Pointer { raw, kind: BlockKind::ExtAttr, lbn: Lbn(i), frags };
            go_on = go_on && self.follow(&pointer, &is_pointer, left, &mut each)?;
        }
        Ok(())
    }

    /// Reports the block of a pointer and what it maps. Returns whether the walk goes on.
    fn follow<E: From<AdminError>>(
        &self,
        pointer: &Pointer,
        is_pointer: &impl Fn(i64) -> bool,
        left: &mut u64,
        each: &mut impl FnMut(Block) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let &Pointer { raw, kind, lbn, frags } = pointer;
        if raw == 0 || !is_pointer(raw) {
            return Ok(true);
        }
        if *left == 0 {
            return Ok(false);
        }
        *left = left.saturating_sub(frags.into());
        let g = &self.vol.geo;
        let at = FragNo(u64::try_from(raw).unwrap_or(u64::MAX));
        let problem = g.run_problem(at, frags);
        if !each(Block { kind, lbn, at, frags, problem })? {
            return Ok(false);
        }
        let BlockKind::Indirect(level) = kind else { return Ok(true) };
        if problem.is_some() {
            return Ok(true);
        }
        let mut bytes = vec![0; g.bsize as usize];
        self.vol.read(at, &mut bytes)?;
        let below = if level == 1 { BlockKind::Data } else { BlockKind::Indirect(level - 1) };
        let span = bmap::blocks_per_pointer(g, level);
        for i in 0..g.nindir {
            let pointer = Pointer {
                raw: bmap::pointer(g, &bytes, i as usize),
                kind: below,
                lbn: lbn.plus(u64::from(i).saturating_mul(span)),
                frags: g.frag,
            };
            if !self.follow(&pointer, is_pointer, left, each)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
