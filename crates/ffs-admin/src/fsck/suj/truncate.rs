//! Interrupted truncations, and the block counts and sizes of files whose blocks changed.
//!
//! The kernel rolls neither `di_blocks` nor the size of a file with indirect blocks back with the
//! pointers (A8, A9 of `spec/fsck-and-crash.md` §9).
//!
//! **Invariants.**
//! 1. A file is never extended.
//! 2. A block pointer is dropped before its fragments count as released.

use std::collections::BTreeSet;

use ffs_ondisk::geometry::{DIRBLKSIZ, NDADDR};
use ffs_ondisk::{FileType, FragNo, Geometry, Ino, Lbn};

use super::super::buffered::Class;
use super::super::checker::Checker;
use super::super::inode::Inode;
use super::super::resolve::Res;
use super::super::walk::{Action, BlockPointer, Visitor};
use super::{Recovery, Step, unusable};

impl Recovery<'_> {
    /// Completes the truncations that the records name.
    pub(super) fn finish_truncations(&mut self) -> Step<()> {
        for (ino, size) in std::mem::take(&mut self.tables.truncations) {
            let mut node = self.inode(Ino(ino))?;
            if node.d.mode == 0 || !node.has_pointers() {
                continue;
            }
            self.examined.insert(ino);
            self.report.truncated += u64::from(size < node.d.size);
            self.shorten(&mut node, size)?;
        }
        Ok(())
    }

    /// Corrects block counts and sizes of the files whose blocks the records name.
    pub(super) fn correct_sizes(&mut self) -> Step<()> {
        let named: BTreeSet<u32> =
            self.tables.blocks.values().flatten().map(|rec| rec.ino.0).collect();
        for ino in named {
            if self.freed.contains_key(&ino) {
                continue;
            }
            let mut node = self.inode(Ino(ino))?;
            if node.d.mode == 0 {
                continue;
            }
            if node.d.nlink == 0 {
                return unusable(format!("inode {ino} has no link and is not on the list for it"));
            }
            self.examined.insert(ino);
            let size = node.d.size;
            self.shorten(&mut node, size)?;
        }
        Ok(())
    }

    /// Gives `node` at most `size` bytes, drops the pointers beyond, and corrects its block count.
    fn shorten(&mut self, node: &mut Inode, size: u64) -> Step<()> {
        let g = self.ck.g;
        let (old, ino) = (node.d.size, node.ino);
        let size = size.min(old);
        if node.is_snapshot() || (node.is_dir() && !size.is_multiple_of(DIRBLKSIZ as u64)) {
            return unusable(format!("inode {ino} cannot be truncated to {size} bytes"));
        }
        self.release_tail(node, size)?;
        node.d.size = size;
        let walked = loop {
            let mut walked = Walked::new(old, Keep::BelowSize);
            let complete = self.ck.walk(node, &mut walked)?;
            self.indirect = None;
            if !complete {
                return unusable(format!("inode {ino}: {}", walked.problem));
            }
            for &(at, frags) in &walked.dropped {
                self.release_run(at, frags)?;
            }
            let nblocks = node.nblocks(&g);
            let regular = node.d.file_type() == Some(FileType::Regular);
            if !regular || nblocks <= NDADDR as u64 || walked.end >= nblocks {
                break walked;
            }
            // The data of the last blocks never reached the device.
            node.d.size = g.lblktosize(Lbn(walked.end));
        };
        let blocks = g.frags_to_sectors(walked.frags);
        let changed = node.changed || node.d.size != old || node.d.blocks != blocks;
        node.d.blocks = blocks;
        if node.d.size < old {
            self.zero_tail(node)?;
        }
        if changed {
            self.ck.write_inode(node)?;
        }
        Ok(())
    }

    /// Releases the fragments of the block with the new end that are beyond it.
    fn release_tail(&mut self, node: &Inode, size: u64) -> Step<()> {
        let g = self.ck.g;
        let Some(last) = size.div_ceil(g.bsize.into()).checked_sub(1) else { return Ok(()) };
        let frags = |size: u64| g.blksize(size, Lbn(last)) / g.fsize;
        let (before, after) = (frags(node.d.size), frags(size));
        if !node.has_pointers() || last >= NDADDR as u64 || before <= after {
            return Ok(());
        }
        match self.block_of(node, last as i64)? {
            Some((at, _)) => self.release_run(at.plus(after.into()), before - after),
            None => Ok(()),
        }
    }

    /// Zeros the bytes behind the end in the last block, so that the file shows zeros when it grows
    /// again.
    fn zero_tail(&mut self, node: &Inode) -> Step<()> {
        let g = self.ck.g;
        let off = g.blkoff(node.d.size) as usize;
        if off == 0 || node.d.file_type() != Some(FileType::Regular) {
            return Ok(());
        }
        if let Some((at, frags)) = self.last_block(node)? {
            let mut bytes = self.ck.disk.read(at, (frags * g.fsize) as usize)?;
            if let Some(tail) = bytes.get_mut(off..) {
                tail.fill(0);
            }
            self.ck.disk.write(at, &bytes, Class::Data)?;
        }
        Ok(())
    }
}

/// Which pointers a walk keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Those below the size.
    BelowSize,
    /// None: the inode is freed.
    Nothing,
}

/// A walk that counts the fragments of a file and lists those of dropped pointers.
pub(super) struct Walked {
    /// Size before the truncation, bytes.
    old_size: u64,
    keep: Keep,
    /// Fragments that remain.
    frags: u64,
    /// Logical block after the last one that remains.
    end: u64,
    /// The fragments of dropped pointers.
    pub(super) dropped: Vec<(FragNo, u32)>,
    /// Indirect blocks so far.
    seen: BTreeSet<u64>,
    /// Why the walk ended.
    pub(super) problem: String,
}

impl Walked {
    pub(super) fn new(old_size: u64, keep: Keep) -> Walked {
        Walked {
            old_size,
            keep,
            frags: 0,
            end: 0,
            dropped: Vec::new(),
            seen: BTreeSet::new(),
            problem: String::new(),
        }
    }

    /// Lists the fragments of a dropped pointer; `false` if that needs too much memory.
    fn drop_run(&mut self, at: FragNo, frags: u32, limit: u64) -> bool {
        self.dropped.push((at, frags));
        let whole = (self.dropped.len() * size_of::<(FragNo, u32)>()) as u64 <= limit;
        if !whole {
            self.problem = "its blocks need too much memory".into();
        }
        whole
    }

    /// Whether the walk may go on past `run` of `frags` fragments.
    fn accept(&mut self, g: &Geometry, run: &BlockPointer, frags: u32) -> bool {
        if let Some(why) = g.run_problem(run.frag(), frags) {
            self.problem = format!("block pointer {} is {why}", run.at);
        } else if run.level > 0 && !self.seen.insert(run.frag().0) {
            self.problem = format!("two block pointers to the indirect block {}", run.at);
        }
        self.problem.is_empty()
    }
}

impl Visitor for Walked {
    fn visit(&mut self, ck: &mut Checker<'_>, run: &BlockPointer) -> Res<Action> {
        if !self.accept(&ck.g, run, run.frags) {
            return Ok(Action::Stop);
        }
        if self.keep == Keep::Nothing {
            let listed = self.drop_run(run.frag(), run.frags, ck.disk.limit());
            return Ok(if listed { Action::Keep } else { Action::Stop });
        }
        self.frags += u64::from(run.frags);
        if run.level == 0 && !run.ext {
            self.end = run.lbn + 1;
        }
        Ok(Action::Keep)
    }

    fn past_end(&mut self, ck: &mut Checker<'_>, run: &BlockPointer) -> Res<Action> {
        let direct = run.level == 0 && run.in_inode;
        let frags = match direct {
            true => ck.g.blksize(self.old_size, Lbn(run.lbn)) / ck.g.fsize,
            false => run.frags,
        };
        if run.ext || (direct && run.lbn >= self.old_size.div_ceil(ck.g.bsize.into())) {
            self.problem = format!("block pointer {} is beyond the size", run.at);
            return Ok(Action::Stop);
        }
        if !self.accept(&ck.g, run, frags) {
            return Ok(Action::Stop);
        }
        if !self.drop_run(run.frag(), frags, ck.disk.limit()) {
            return Ok(Action::Stop);
        }
        if run.level > 0 {
            let keep = std::mem::replace(&mut self.keep, Keep::Nothing);
            let complete = ck.walk_whole_indirect(run, self)?;
            self.keep = keep;
            if !complete {
                return Ok(Action::Stop);
            }
        }
        Ok(Action::Replace(0))
    }
}
