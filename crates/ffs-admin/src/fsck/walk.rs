//! Visiting the blocks of a file.
//!
//! **Purpose.** One walk over direct, indirect and extended-attribute pointers serves counting, copying,
//! releasing, truncating and listing; a [`Visitor`] says what happens to each pointer.
//!
//! **Invariants.**
//! 1. The walk is at most three levels deep and holds one block a level.
//! 2. It descends into an indirect block only if the visitor keeps it and it lies in the data area; a visitor
//!    that keeps each block once makes the walk linear in the volume's size, whatever the pointers say.

use ffs_ondisk::bmap::{self, pointer, set_pointer};
use ffs_ondisk::geometry::{NDADDR, NIADDR};
use ffs_ondisk::{FragNo, Geometry, Lbn};

use super::Checker;
use super::judge::Res;
use super::node::Node;
use super::store::Class;

/// One pointer and what it stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    /// The pointer as stored; never 0.
    pub(super) at: i64,
    /// Fragments it covers.
    pub(super) frags: u32,
    /// First logical block below it.
    pub(super) lbn: u64,
    /// 0 = data, 1 to 3 = indirect block.
    pub(super) level: usize,
    /// A block of the extended-attribute area.
    pub(super) ext: bool,
    /// The pointer lies in the inode.
    pub(super) in_inode: bool,
}

impl Run {
    /// The first fragment, if the pointer is not negative.
    pub(super) fn frag(&self) -> FragNo {
        FragNo(u64::try_from(self.at).unwrap_or(u64::MAX))
    }

    /// The place in words: which block of the file, and its first byte there.
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

/// What becomes of a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// It stays; indirect blocks are entered.
    Keep,
    /// It stays; indirect blocks are not entered.
    Skip,
    /// Another value; a new indirect block is entered.
    Replace(i64),
    /// The walk ends.
    Stop,
}

/// Says what becomes of the pointers of a file.
pub(super) trait Visitor {
    /// A non-zero pointer below the size.
    fn run(&mut self, ck: &mut Checker<'_>, run: &Run) -> Res<Action>;
    /// `blocks` logical blocks from `lbn` on are not allocated.
    fn hole(&mut self, _lbn: u64, _blocks: u64) {}
    /// A non-zero pointer beyond the size.
    fn past_end(&mut self, _ck: &mut Checker<'_>, _run: &Run) -> Res<Action> {
        Ok(Action::Keep)
    }
}

/// A file under the walk.
struct Shape {
    size: u64,
    nblocks: u64,
}

impl Checker<'_> {
    /// Visits every pointer of `node`; changed pointers are changed in `node` (not saved) and in the indirect
    /// blocks. `false` if the visitor stopped the walk.
    pub(super) fn walk(&mut self, node: &mut Node, v: &mut dyn Visitor) -> Res<bool> {
        let shape = Shape { size: node.d.size, nblocks: node.nblocks(&self.g) };
        if node.has_pointers() {
            if !self.walk_direct(node, &shape, v)? {
                return Ok(false);
            }
            for i in 0..NIADDR {
                let run = Run {
                    at: node.d.ib[i],
                    frags: self.g.frag,
                    lbn: bmap::first_of_root(&self.g, i).0,
                    level: i + 1,
                    ext: false,
                    in_inode: true,
                };
                let Some(new) = self.visit(run, &shape, v)? else { return Ok(false) };
                node.changed |= new != node.d.ib[i];
                node.d.ib[i] = new;
            }
        }
        self.walk_ext(node, v)
    }

    fn walk_direct(&mut self, node: &mut Node, shape: &Shape, v: &mut dyn Visitor) -> Res<bool> {
        for i in 0..NDADDR {
            let lbn = i as u64;
            let bytes = self.g.blksize(shape.size, Lbn(lbn));
            let run = Run {
                at: node.d.db[i],
                frags: bytes / self.g.fsize,
                lbn,
                level: 0,
                ext: false,
                in_inode: true,
            };
            let Some(new) = self.visit(run, shape, v)? else { return Ok(false) };
            node.changed |= new != node.d.db[i];
            node.d.db[i] = new;
        }
        Ok(true)
    }

    fn walk_ext(&mut self, node: &mut Node, v: &mut dyn Visitor) -> Res<bool> {
        let size = u64::from(node.d.extsize);
        for i in 0..2 {
            let at = node.d.extb[i];
            let begin = i as u64 * u64::from(self.g.bsize);
            let bytes = size.saturating_sub(begin).min(self.g.bsize.into());
            let frags = self.g.numfrags_up(bytes);
            let run = Run { at, frags, lbn: i as u64, level: 0, ext: true, in_inode: true };
            let action = match (at, frags) {
                (0, _) => Action::Keep,
                (_, 0) => v.past_end(self, &run)?,
                _ => v.run(self, &run)?,
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

    /// Visits one pointer and what is below it; the value it has afterwards, or `None` to stop.
    fn visit(&mut self, run: Run, shape: &Shape, v: &mut dyn Visitor) -> Res<Option<i64>> {
        let beyond = run.lbn >= shape.nblocks;
        if run.at == 0 {
            if !beyond {
                let span = bmap::blocks_per_pointer(&self.g, run.level + 1);
                v.hole(run.lbn, span.min(shape.nblocks - run.lbn));
            }
            return Ok(Some(0));
        }
        let action = if beyond { v.past_end(self, &run)? } else { v.run(self, &run)? };
        let (at, enter) = match action {
            Action::Stop => return Ok(None),
            Action::Skip => (run.at, false),
            Action::Keep => (run.at, !beyond),
            Action::Replace(new) => (new, !beyond && new != 0),
        };
        if at == 0 && !beyond {
            v.hole(run.lbn, bmap::blocks_per_pointer(&self.g, run.level + 1));
        }
        let new = Run { at, ..run };
        let sound = self.g.run_problem(new.frag(), self.g.frag).is_none();
        if run.level > 0 && enter && sound && !self.walk_indirect(&new, shape, v)? {
            return Ok(None);
        }
        Ok(Some(at))
    }

    fn walk_indirect(&mut self, run: &Run, shape: &Shape, v: &mut dyn Visitor) -> Res<bool> {
        let mut block = self.store.read(run.frag(), self.g.bsize as usize)?;
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
            let child = Run { at, frags: self.g.frag, lbn, level, ext: false, in_inode: false };
            let Some(new) = self.visit(child, shape, v)? else {
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
        // A visitor that stopped wants nothing of this inode changed.
        if changed && going {
            self.store.write(run.frag(), &block, Class::Data)?;
        }
        Ok(going)
    }

    /// Marks the blocks of `node` free again and forgets repairs buffered for them.
    pub(super) fn release(&mut self, node: &mut Node) -> Res<()> {
        self.walk(node, &mut Release).map(drop)
    }

    /// Drops every pointer beyond the size of `node`; with `release` also marks free what was below, which is only
    /// right if this pass has claimed it.
    pub(super) fn drop_past_end(&mut self, node: &mut Node, release: bool) -> Res<()> {
        self.walk(node, &mut Truncate { release }).map(drop)
    }

    fn release_run(&mut self, run: &Run) {
        let frag = run.frag();
        if self.g.run_problem(frag, run.frags).is_some() {
            return;
        }
        for f in frag.0..frag.0 + u64::from(run.frags) {
            if !self.contested(f) {
                self.used.clear(f);
                self.store.forget(FragNo(f), 1);
            }
        }
    }
}

/// Marks blocks free.
struct Release;

impl Visitor for Release {
    fn run(&mut self, ck: &mut Checker<'_>, run: &Run) -> Res<Action> {
        if run.level > 0 {
            // Entered first: its content is needed, and forgetting it would bring back the old one.
            let sound = ck.g.run_problem(run.frag(), run.frags).is_none();
            if sound && !ck.contested(run.frag().0) {
                let shape = Shape { size: u64::MAX, nblocks: u64::MAX };
                ck.walk_indirect(run, &shape, self)?;
            }
        }
        ck.release_run(run);
        Ok(Action::Skip)
    }
}

/// Drops pointers beyond the size.
struct Truncate {
    release: bool,
}

impl Visitor for Truncate {
    fn run(&mut self, _: &mut Checker<'_>, _: &Run) -> Res<Action> {
        Ok(Action::Keep)
    }

    fn past_end(&mut self, ck: &mut Checker<'_>, run: &Run) -> Res<Action> {
        if self.release {
            Release.run(ck, run)?;
        }
        Ok(Action::Replace(0))
    }
}
