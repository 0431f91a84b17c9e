//! Allocation of the blocks of a file (`ffs_balloc`).
//!
//! | module | contents |
//! | --- | --- |
//! | `direct` | direct blocks, and the growth of fragment runs (`ffs_realloccg`) |
//! | `indirect` | blocks below indirect blocks, and new indirect blocks |
//!
//! # Invariants
//! 1. A call reads and allocates everything it needs before it changes the first pointer. If that
//!    fails, the call frees what it allocated, and the file is as before.
//! 2. An indirect block is zeroed, and reported, before its parent points to it.
//! 3. A call that raises the size past the fragments of the last block allocates the fragments too,
//!    so the last block always has as many as [`ffs_ondisk::Geometry::blksize`] gives.
//!
//! Reference: `spec/allocation.md` §4.3, §4.4; `spec/soft-updates.md` §6.9, §6.10.

mod direct;
mod indirect;

use super::bmap::data_key;
use super::{InodeView, LockedInode};
use crate::alloc::Reserve;
use crate::buf::{BufRef, DiskBlock, Disposition, NewContent};
use crate::error::{Error, Result};
use crate::ordering::{BlockContent, Event, FragRun, PtrSlot};
use ffs_ondisk::bmap::{self, Path};
use ffs_ondisk::{FragNo, Lbn};
use indirect::{Chain, ChainAllocs};

/// The content of the buffer that [`LockedInode::balloc`] returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BufFill {
    /// The content of the block, zeros where the block had none (`BA_CLRBUF`).
    Valid,
    /// Arbitrary bytes: the caller overwrites all of them before anything else.
    Arbitrary,
}

impl BufFill {
    /// The content of a buffer for a newly allocated block.
    fn of_new_block(self) -> NewContent {
        match self {
            BufFill::Valid => NewContent::Zeroed,
            BufFill::Arbitrary => NewContent::Arbitrary,
        }
    }
}

/// A block that [`LockedInode::balloc`] allocated or found.
#[derive(Debug)]
pub(crate) struct Granted {
    /// The block's buffer. The caller fills it, then passes `then` to
    /// [`crate::buf::BufCache::apply`], which also marks the buffer dirty.
    pub(crate) buf: BufRef,
    /// When the block must reach the device.
    pub(crate) then: Disposition,
    /// Whether the call allocated the block, or fragments of it.
    pub(crate) new: bool,
}

/// A block, and how to take it out of the file again.
struct Balloc {
    granted: Granted,
    undo: Undo,
}

/// How to take a block out of a file again.
enum Undo {
    /// The call did not allocate the block.
    Nothing,
    /// The call allocated a direct block: its index and its run.
    Direct(usize, FragRun),
    /// The call allocated the block and indirect blocks above it.
    Indirect(Box<(Chain, ChainAllocs)>),
}

impl<'a> LockedInode<'a> {
    /// Allocates space for the first `size_in_block` bytes of block `lbn` where it has none: grows
    /// its fragments, and allocates missing indirect blocks. If the last block of the file is
    /// before `lbn` and is a run of fragments, the call first grows it to a block. The call raises
    /// `d.size` to cover the bytes and counts `d.blocks`; the caller reports both with
    /// [`LockedInode::update`].
    ///
    /// # Errors
    /// [`Error::TooBig`], [`Error::NoSpace`], [`Error::Quota`], [`Error::Format`], the device's. On
    /// an error the file is as before.
    pub(crate) fn balloc(
        &mut self,
        lbn: Lbn,
        size_in_block: u32,
        fill: BufFill,
        reserve: Reserve,
    ) -> Result<Granted> {
        let g = self.g();
        let end = g.lblktosize(lbn).saturating_add(size_in_block.clamp(1, g.bsize).into());
        if end > self.view().size_limit().max(self.data.d.size) {
            return Err(Error::TooBig);
        }
        if self.data.is_snapshot() {
            return Err(Error::NotPermitted);
        }
        let path = bmap::path(g, lbn).ok_or(Error::TooBig)?;
        let end = end.max(self.data.d.size);
        // The inode block stays in memory, so reporting the changes below needs no read.
        let _inode_block = self.ump.inode_block(self.ip.ino)?;
        let grown = self.extend_last_block(lbn, reserve)?;
        let new = match path {
            Path::Direct(i) => self.balloc_direct(i, end, fill, reserve),
            Path::Indirect { levels, index } => {
                self.balloc_indirect((lbn, levels, index), fill, reserve)
            }
        };
        let Some(grown) = grown else {
            let new = new?;
            self.data.d.size = end;
            return Ok(new.granted);
        };
        // The buffer of the previous last block moves only now that everything is allocated.
        // Before, a write could put it at an address that a failed call gives up.
        let done = new.and_then(|new| match self.view().relocate_last_block(&grown) {
            Ok(()) => Ok(new.granted),
            Err(e) => {
                self.undo_balloc(lbn, new);
                Err(e)
            }
        });
        match &done {
            Ok(_) => {
                self.data.d.size = end;
                self.view().free_old_run(&grown);
            }
            Err(_) => self.undo_extend(&grown),
        }
        done
    }

    /// Takes a new block out of the file again.
    fn undo_balloc(&mut self, lbn: Lbn, new: Balloc) {
        let Balloc { granted, undo } = new;
        drop(granted);
        match undo {
            Undo::Nothing => {}
            Undo::Direct(i, run) => {
                self.ump.ordering.notify(Event::PointerCancelled {
                    slot: PtrSlot::Direct(self.ip.ino, i),
                    new: run,
                });
                self.set_direct(i, FragNo::HOLE);
                self.uncharge(run.frags);
                self.view().forget_block(lbn);
                self.ump.free_quietly(run);
            }
            Undo::Indirect(of) => {
                let (chain, allocs) = *of;
                self.uncharge(allocs.frags(self.g().frag));
                self.view().forget_block(lbn);
                self.undo_chain(&chain, &allocs);
            }
        }
    }

    fn set_direct(&mut self, i: usize, at: FragNo) {
        if let Some(p) = self.data.d.db.get_mut(i) {
            *p = at.pointer();
        }
    }
}

impl<'a> InodeView<'a> {
    fn forget_block(self, lbn: Lbn) {
        let at = i64::try_from(lbn.0).unwrap_or(i64::MAX);
        self.forget_blocks(at..=at);
    }

    /// The content of a block that makes the file longer or fills a hole, but is not the first
    /// block of a directory.
    fn growth_content(self) -> BlockContent {
        if self.data.d.is_dir() { BlockContent::DirectoryGrowth } else { BlockContent::Data }
    }

    /// A block that is allocated already and has all the fragments it needs.
    fn allocated_block(self, lbn: Lbn, at: FragNo, fill: BufFill) -> Result<Balloc> {
        let buf = match fill {
            BufFill::Valid => self.data_block(lbn, at)?,
            BufFill::Arbitrary => {
                let len = self.g().blksize(self.data.d.size, lbn) as usize;
                let (key, kind) = (data_key(self.ip.ino, lbn), self.data.buf_kind());
                let block = DiskBlock { key, kind, addr: at, len };
                self.ump.cache.getblk(block, NewContent::Arbitrary)
            }
        };
        let granted = Granted { buf, then: Disposition::Delay, new: false };
        Ok(Balloc { granted, undo: Undo::Nothing })
    }

    /// The buffer of a newly allocated block.
    fn new_block(self, lbn: Lbn, run: FragRun, fill: BufFill) -> BufRef {
        let len = (run.frags * self.g().fsize) as usize;
        let (key, kind) = (data_key(self.ip.ino, lbn), self.data.buf_kind());
        self.ump.cache.getblk(DiskBlock { key, kind, addr: run.at, len }, fill.of_new_block())
    }
}
