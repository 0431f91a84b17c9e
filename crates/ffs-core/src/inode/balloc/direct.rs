//! Direct blocks, and the growth of fragment runs (`ffs_realloccg`).
//!
//! Only the last block of a file may be a run of fragments, and only if it is a direct block. Its
//! run grows in place, or moves to a longer one.
//!
//! Reference: `spec/allocation.md` §4.3, §4.4; `spec/soft-updates.md` §6.10.

use super::super::bmap::data_key;
use super::super::lifecycle::place;
use super::super::{InodeView, LockedInode};
use super::{Balloc, BufFill, Granted, Undo};
use crate::alloc::Reserve;
use crate::buf::{BufRef, Disposition};
use crate::error::{Error, Result};
use crate::ordering::{BlockContent, Event, FragRun, PtrSlot};
use ffs_ondisk::{FragNo, Lbn, Structure};

/// A fragment run for which a longer one is allocated, in place or elsewhere. The inode's pointer
/// is set to the new run; the buffer still has the old address and length.
pub(super) struct GrownRun {
    /// Index of the direct block.
    index: usize,
    /// The block's buffer, if it is in memory or its content is needed.
    buf: Option<BufRef>,
    old: FragRun,
    new: FragRun,
}

impl GrownRun {
    fn moved(&self) -> bool {
        self.old.at != self.new.at
    }
}

impl LockedInode<'_> {
    /// Only the last block of a file may be a run of fragments: if `lbn` is after the last block,
    /// allocates the fragments that the last block lacks.
    pub(super) fn extend_last_block(
        &mut self,
        lbn: Lbn,
        reserve: Reserve,
    ) -> Result<Option<GrownRun>> {
        let g = self.g();
        let last = g.lblkno(self.data.d.size);
        let old_frags = g.blksize(self.data.d.size, last) / g.fsize;
        let index = last.0 as usize;
        let hole = self.data.d.db.get(index).is_none_or(|&p| p == 0);
        if lbn <= last || hole || old_frags == 0 || old_frags == g.frag {
            return Ok(None);
        }
        self.extend_run(index, (old_frags, g.frag), BufFill::Valid, reserve).map(Some)
    }

    pub(super) fn balloc_direct(
        &mut self,
        i: usize,
        end: u64,
        fill: BufFill,
        reserve: Reserve,
    ) -> Result<Balloc> {
        let g = self.g();
        let lbn = Lbn(i as u64);
        let old = self.data.d.db.get(i).copied().unwrap_or(0);
        let want = g.blksize(end, lbn) / g.fsize;
        let have = if old == 0 { 0 } else { g.blksize(self.data.d.size, lbn) / g.fsize };
        if have == 0 {
            if old != 0 {
                return Err(self.view().pointer_beyond_end(old));
            }
            return self.alloc_direct(i, want, fill, reserve);
        }
        if have < want {
            let content = self.view().growth_content();
            let grown = self.extend_run(i, (have, want), fill, reserve)?;
            let (buf, then) = self.view().relocate_run(&grown, fill, content);
            self.view().free_old_run(&grown);
            return Ok(Balloc { granted: Granted { buf, then, new: true }, undo: Undo::Nothing });
        }
        let at = self.view().checked_run(old, have, Structure::Inode)?.unwrap_or(FragNo::HOLE);
        self.view().allocated_block(lbn, at, fill)
    }

    /// Allocates direct block `i`, which is a hole.
    fn alloc_direct(
        &mut self,
        i: usize,
        frags: u32,
        fill: BufFill,
        reserve: Reserve,
    ) -> Result<Balloc> {
        let pref = self.view().pref_direct(i);
        self.charge(frags, reserve)?;
        let at = self.ump.alloc.alloc_frags(self.ip.ino, pref, frags, reserve);
        let at = at.inspect_err(|_| self.uncharge(frags))?;
        let content = match (self.data.d.is_dir(), i) {
            (true, 0) => BlockContent::DirectoryBody,
            _ => self.view().growth_content(),
        };
        let run = FragRun { at, frags };
        let buf = self.view().new_block(Lbn(i as u64), run, fill);
        let slot = PtrSlot::Direct(self.ip.ino, i);
        let set = Event::PointerSet { slot, new: run, old: None, content, block: buf.key };
        let then = self.ump.ordering.notify(set).disposition;
        self.set_direct(i, at);
        Ok(Balloc { granted: Granted { buf, then, new: true }, undo: Undo::Direct(i, run) })
    }

    /// Allocates a run of `want` fragments for direct block `i`, which has `have`, and sets its
    /// pointer to it. The caller continues with [`InodeView::relocate_run`], or takes the run back
    /// with [`LockedInode::undo_extend`].
    fn extend_run(
        &mut self,
        i: usize,
        (have, want): (u32, u32),
        fill: BufFill,
        reserve: Reserve,
    ) -> Result<GrownRun> {
        let lbn = Lbn(i as u64);
        let old = self.data.d.db.get(i).copied().unwrap_or(0);
        let at = self.view().checked_run(old, have, Structure::Inode)?.unwrap_or(FragNo::HOLE);
        let old = FragRun { at, frags: have };
        let buf = match fill {
            BufFill::Valid => Some(self.view().data_block(lbn, at)?),
            BufFill::Arbitrary => self.ump.cache.incore(data_key(self.ip.ino, lbn)),
        };
        let pref = self.view().pref_direct(i);
        self.charge(want - have, reserve)?;
        let at = self.ump.alloc.realloc_frags(self.ip.ino, old, want, pref, reserve);
        let at = at.inspect_err(|_| self.uncharge(want - have))?;
        self.set_direct(i, at);
        Ok(GrownRun { index: i, buf, old, new: FragRun { at, frags: want } })
    }

    /// Frees the fragments that [`LockedInode::extend_run`] allocated, and sets the pointer back.
    pub(super) fn undo_extend(&mut self, grown: &GrownRun) {
        let (old, new) = (grown.old, grown.new);
        self.set_direct(grown.index, old.at);
        let more = new.frags - old.frags;
        self.uncharge(more);
        self.ump.free_quietly(match grown.moved() {
            true => new,
            false => FragRun { at: old.at.plus(old.frags.into()), frags: more },
        });
    }
}

impl InodeView<'_> {
    /// Makes the previous last block a whole one. If the ordering mode requires a write that fails,
    /// the buffer gets its old address back.
    pub(super) fn relocate_last_block(self, grown: &GrownRun) -> Result<()> {
        let content =
            if self.data.d.is_dir() { BlockContent::DirectoryExtended } else { BlockContent::Data };
        let (buf, then) = self.relocate_run(grown, BufFill::Valid, content);
        let written = self.ump.cache.apply(&buf, then);
        if written.is_err() {
            // The pointer needs no cancellation: an ordering mode that waits for the content keeps
            // no dependency for it.
            let len = (grown.old.frags * self.g().fsize) as usize;
            self.ump.cache.relocate(&buf, grown.old.at, len, || ());
            self.ump.cache.mark_dirty(&buf);
        }
        written
    }

    /// Frees the run that a grown run moved away from. The caller no longer undoes the growth.
    pub(super) fn free_old_run(self, grown: &GrownRun) {
        if grown.moved() {
            self.ump.free_replaced(grown.old);
        }
    }

    /// Gives the buffer of a grown run its new address and length, and reports the pointer. With
    /// [`BufFill::Valid`] the buffer keeps its content and the new bytes are zeros. The buffer is
    /// not marked dirty, because with [`BufFill::Arbitrary`] its bytes are arbitrary until the
    /// caller overwrites them.
    fn relocate_run(
        self,
        grown: &GrownRun,
        fill: BufFill,
        content: BlockContent,
    ) -> (BufRef, Disposition) {
        let GrownRun { index, old, new, .. } = *grown;
        let slot = PtrSlot::Direct(self.ip.ino, index);
        let report = |block| {
            let set = Event::PointerSet { slot, new, old: Some(old), content, block };
            self.ump.ordering.notify(set).disposition
        };
        match &grown.buf {
            Some(buf) => {
                let len = (new.frags * self.g().fsize) as usize;
                let then = self.ump.cache.relocate(buf, new.at, len, || report(buf.key));
                (buf.clone(), then)
            }
            None => {
                let buf = self.new_block(Lbn(index as u64), new, fill);
                let then = report(buf.key);
                (buf, then)
            }
        }
    }

    fn pointer_beyond_end(self, found: i64) -> Error {
        let want = "0 beyond the file's size";
        Error::corrupt(Structure::Inode, place(self.ip.ino), "block pointer", found, want)
    }
}
