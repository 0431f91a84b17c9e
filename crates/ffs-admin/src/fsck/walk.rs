//! Walk over the block pointers of a file (FreeBSD's `ckinode`).
//!
//! **Purpose.** One walk over direct, indirect and extended-attribute pointers serves counting,
//! copying, releasing, truncating and listing. A [`Visitor`] decides what happens to each pointer.
//!
//! **Invariants.**
//! 1. The walk is at most three levels deep and holds one block of each level.
//! 2. It descends into an indirect block only if the visitor keeps it and it is in the data area.
//!    With a visitor that keeps each block once, the walk takes time linear in the size of the
//!    volume.

use ffs_ondisk::bmap::{self, pointer, set_pointer};
use ffs_ondisk::geometry::{NDADDR, NIADDR};
use ffs_ondisk::{FragNo, Geometry, Lbn};

use super::buffered::Class;
use super::checker::Checker;
use super::inode::Inode;
use super::resolve::Res;

/// A block pointer.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockPointer {
    /// The pointer as stored; never 0.
    pub(super) at: i64,
    /// Fragments it refers to.
    pub(super) frags: u32,
    /// First logical block that it maps.
    pub(super) lbn: u64,
    /// 0 = data, 1 to 3 = indirect block.
    pub(super) level: usize,
    /// A block of the extended-attribute area.
    pub(super) ext: bool,
    /// The pointer is stored in the inode.
    pub(super) in_inode: bool,
}

impl BlockPointer {
    /// The first fragment, if the pointer is not negative.
    pub(super) fn frag(&self) -> FragNo {
        FragNo(u64::try_from(self.at).unwrap_or(u64::MAX))
    }

    /// The location in words: which block of the file, and its first byte there.
    pub(super) fn place(&self, g: &Geometry) -> String {
        let (lbn, offset) = (self.lbn, g.lblktosize(Lbn(self.lbn)));
        match (self.ext, self.level) {
            (true, _) => format!("ext block {lbn} at offset {offset}"),
            (false, 0) => format!("block {lbn} at offset {offset}"),
            (false, level) => {
                format!("indirect block of level {level} for block {lbn} at offset {offset}")
            }
        }
    }
}

/// What to do with a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Keep it; descend if it is an indirect block.
    Keep,
    /// Keep it; do not descend.
    Skip,
    /// Replace it; descend if it is a new indirect block.
    Replace(i64),
    /// End the walk.
    Stop,
}

/// Decides what to do with the pointers of a file.
pub(super) trait Visitor {
    /// A non-zero pointer below the size.
    fn visit(&mut self, ck: &mut Checker<'_>, run: &BlockPointer) -> Res<Action>;
    /// `blocks` logical blocks from `lbn` on are not allocated.
    fn hole(&mut self, _lbn: u64, _blocks: u64) {}
    /// A non-zero pointer beyond the size.
    fn past_end(&mut self, _ck: &mut Checker<'_>, _run: &BlockPointer) -> Res<Action> {
        Ok(Action::Keep)
    }
}

/// Size of the file: bytes, logical blocks.
struct FileSize {
    size: u64,
    nblocks: u64,
}

impl Checker<'_> {
    /// Visits every pointer of `node`. Changes are made in `node` (which is not written) and in the
    /// indirect blocks. `false` if the visitor ended the walk.
    pub(super) fn walk(&mut self, node: &mut Inode, v: &mut dyn Visitor) -> Res<bool> {
        let shape = FileSize { size: node.d.size, nblocks: node.nblocks(&self.g) };
        if node.has_pointers() {
            if !self.walk_direct(node, &shape, v)? {
                return Ok(false);
            }
            for i in 0..NIADDR {
                let run = BlockPointer {
                    at: node.d.ib[i],
                    frags: self.g.frag,
                    lbn: bmap::first_of_root(&self.g, i).0,
                    level: i + 1,
                    ext: false,
                    in_inode: true,
                };
                let Some(new) = self.walk_pointer(run, &shape, v)? else { return Ok(false) };
                node.changed |= new != node.d.ib[i];
                node.d.ib[i] = new;
            }
        }
        self.walk_ext(node, v)
    }

    fn walk_direct(
        &mut self,
        node: &mut Inode,
        shape: &FileSize,
        v: &mut dyn Visitor,
    ) -> Res<bool> {
        for i in 0..NDADDR {
            let lbn = i as u64;
            let bytes = self.g.blksize(shape.size, Lbn(lbn));
            let run = BlockPointer {
                at: node.d.db[i],
                frags: bytes / self.g.fsize,
                lbn,
                level: 0,
                ext: false,
                in_inode: true,
            };
            let Some(new) = self.walk_pointer(run, shape, v)? else { return Ok(false) };
            node.changed |= new != node.d.db[i];
            node.d.db[i] = new;
        }
        Ok(true)
    }

    fn walk_ext(&mut self, node: &mut Inode, v: &mut dyn Visitor) -> Res<bool> {
        let size = u64::from(node.d.extsize);
        for i in 0..2 {
            let at = node.d.extb[i];
            let begin = i as u64 * u64::from(self.g.bsize);
            let bytes = size.saturating_sub(begin).min(self.g.bsize.into());
            let frags = self.g.numfrags_up(bytes);
            let run =
                BlockPointer { at, frags, lbn: i as u64, level: 0, ext: true, in_inode: true };
            let action = match (at, frags) {
                (0, _) => Action::Keep,
                (_, 0) => v.past_end(self, &run)?,
                _ => v.visit(self, &run)?,
            };
            match action {
                Action::Stop => return Ok(false),
                Action::Replace(new) => {
                    node.d.extb[i] = new;
                    node.changed = true;
                }
                Action::Keep | Action::Skip => {}
            }
        }
        Ok(true)
    }

    /// Visits one pointer and those below it; returns its new value, or `None` to end the walk.
    fn walk_pointer(
        &mut self,
        run: BlockPointer,
        shape: &FileSize,
        v: &mut dyn Visitor,
    ) -> Res<Option<i64>> {
        let beyond = run.lbn >= shape.nblocks;
        if run.at == 0 {
            if !beyond {
                let span = bmap::blocks_per_pointer(&self.g, run.level + 1);
                v.hole(run.lbn, span.min(shape.nblocks - run.lbn));
            }
            return Ok(Some(0));
        }
        let action = if beyond { v.past_end(self, &run)? } else { v.visit(self, &run)? };
        let (at, enter) = match action {
            Action::Stop => return Ok(None),
            Action::Skip => (run.at, false),
            Action::Keep => (run.at, !beyond),
            Action::Replace(new) => (new, !beyond && new != 0),
        };
        if at == 0 && !beyond {
            v.hole(run.lbn, bmap::blocks_per_pointer(&self.g, run.level + 1));
        }
        let new = BlockPointer { at, ..run };
        let sound = self.g.run_problem(new.frag(), self.g.frag).is_none();
        if run.level > 0 && enter && sound && !self.walk_indirect(&new, shape, v)? {
            return Ok(None);
        }
        Ok(Some(at))
    }

    fn walk_indirect(
        &mut self,
        run: &BlockPointer,
        shape: &FileSize,
        v: &mut dyn Visitor,
    ) -> Res<bool> {
        let mut block = self.disk.read(run.frag(), self.g.bsize as usize)?;
        let span = bmap::blocks_per_pointer(&self.g, run.level);
        let mut changed = false;
        let mut going = true;
        let mut hole = (0, 0);
        for slot in 0..self.g.nindir as usize {
            let lbn = run.lbn.saturating_add(span.saturating_mul(slot as u64));
            let at = pointer(&self.g, &block, slot);
            if at == 0 {
                if lbn < shape.nblocks {
                    let blocks = span.min(shape.nblocks - lbn);
                    hole = if hole.1 == 0 { (lbn, blocks) } else { (hole.0, hole.1 + blocks) };
                }
                continue;
            }
            if hole.1 > 0 {
                v.hole(hole.0, std::mem::take(&mut hole).1);
            }
            let level = run.level - 1;
            let child =
                BlockPointer { at, frags: self.g.frag, lbn, level, ext: false, in_inode: false };
            let Some(new) = self.walk_pointer(child, shape, v)? else {
                going = false;
                break;
            };
            if new != at {
                set_pointer(&self.g, &mut block, slot, new);
                changed = true;
            }
        }
        if hole.1 > 0 {
            v.hole(hole.0, hole.1);
        }
        // If the visitor ended the walk, nothing of this inode changes.
        if changed && going {
            self.disk.write(run.frag(), &block, Class::Data)?;
        }
        Ok(going)
    }

    /// Visits every pointer below the indirect block `run`, as if all were below the size.
    pub(super) fn walk_whole_indirect(
        &mut self,
        run: &BlockPointer,
        v: &mut dyn Visitor,
    ) -> Res<bool> {
        self.walk_indirect(run, &FileSize { size: u64::MAX, nblocks: u64::MAX }, v)
    }

    /// Frees the blocks of `node` and drops the repairs buffered for them.
    pub(super) fn release(&mut self, node: &mut Inode) -> Res<()> {
        self.walk(node, &mut Release).map(drop)
    }

    /// Drops every pointer beyond the size of `node`.
    pub(super) fn drop_past_end(&mut self, node: &mut Inode, blocks: Dropped) -> Res<()> {
        self.walk(node, &mut Truncate { blocks }).map(drop)
    }

    fn release_run(&mut self, run: &BlockPointer) {
        let frag = run.frag();
        if self.g.run_problem(frag, run.frags).is_some() {
            return;
        }
        for f in frag.0..frag.0 + u64::from(run.frags) {
            if !self.is_dup(f) {
                self.used.clear(f);
                self.disk.forget(FragNo(f), 1);
            }
        }
    }
}

/// Frees blocks.
struct Release;

impl Visitor for Release {
    fn visit(&mut self, ck: &mut Checker<'_>, run: &BlockPointer) -> Res<Action> {
        if run.level > 0 {
            // Descend first: the content is needed, and after `forget` a read would return the old
            // one.
            let sound = ck.g.run_problem(run.frag(), run.frags).is_none();
            if sound && !ck.is_dup(run.frag().0) {
                ck.walk_whole_indirect(run, self)?;
            }
        }
        ck.release_run(run);
        Ok(Action::Skip)
    }
}

/// What to do with the blocks of dropped pointers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dropped {
    /// Free them. This is right only if this round has marked them used.
    Free,
    /// Leave their marks unchanged.
    Keep,
}

/// Drops pointers beyond the size.
struct Truncate {
    blocks: Dropped,
}

impl Visitor for Truncate {
    fn visit(&mut self, _: &mut Checker<'_>, _: &BlockPointer) -> Res<Action> {
        Ok(Action::Keep)
    }

    fn past_end(&mut self, ck: &mut Checker<'_>, run: &BlockPointer) -> Res<Action> {
        if self.blocks == Dropped::Free {
            Release.visit(ck, run)?;
        }
        Ok(Action::Replace(0))
    }
}
