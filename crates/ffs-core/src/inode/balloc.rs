//! Blocks for logical blocks (`balloc`): allocation, fragment growth, indirect blocks.
//!
//! # Invariants
//! 1. Everything a call needs is read and allocated before the first pointer changes; if that fails,
//!    what was allocated is freed and nothing happened.
//! 2. An indirect block is zeroed, and reported, before its parent points to it.
//! 3. The size is raised together with the fragments, so that [`ffs_ondisk::Geometry::blksize`]
//!    always says how many fragments the last block holds.
//!
//! Reference: `spec/allocation.md` §4.3, §4.4; `spec/soft-updates.md` §6.9, §6.10.

use super::bmap::{Node, data_key, indirect_block, raw};
use super::lifecycle::place;
use super::{Inode, InodeView, LockedInode};
use crate::alloc::{PrefQuery, Reserve};
use crate::buf::{BufRef, DiskBlock, Disposition, NewContent};
use crate::error::{Error, Result};
use crate::ordering::{BlockContent, Event, FragRun, PtrSlot};
use ffs_ondisk::bmap::{self, Path, pointer, set_pointer};
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::{Dinode, FragNo, Lbn, Structure};
use smallvec::SmallVec;

/// A block that [`LockedInode::balloc`] made sure of.
#[derive(Debug)]
pub(crate) struct Granted {
    /// The block's buffer. The caller fills it, then hands `then` to
    /// [`crate::buf::BufCache::apply`], which marks it dirty too.
    pub(crate) buf: BufRef,
    /// When the block must reach the device.
    pub(crate) then: Disposition,
}

/// The later of two demands includes the earlier.
pub(super) fn stronger(a: Disposition, b: Disposition) -> Disposition {
    if a == Disposition::Delay { b } else { a }
}

/// A fragment run that gets longer, perhaps in another place. Its pointer says so already; its buffer, if it
/// is needed, does not.
struct Grown {
    index: usize,
    buf: Option<BufRef>,
    old: FragRun,
    new: FragRun,
}

impl Grown {
    fn moved(&self) -> bool {
        self.old.at != self.new.at
    }
}

/// Where the pointer to a missing block goes.
struct Parent {
    /// The indirect block; `None`: the inode.
    block: Option<(BufRef, i64)>,
    /// Entry in it, or root in the inode.
    index: usize,
}

/// An indirect block made by this call.
struct NewNode {
    node: Node,
    at: FragNo,
    /// Its entry on the way to the data.
    index: usize,
}

/// What was taken for a chain so far.
#[derive(Default)]
struct Taken {
    /// Addresses of the new indirect blocks and of the data block, in this order.
    blocks: SmallVec<[FragNo; 4]>,
    /// What was claimed of them.
    claims: SmallVec<[(PtrSlot, FragRun); 4]>,
}

/// A block that is made sure of, and what was done for it.
struct Made {
    granted: Granted,
    undo: Undo,
}

/// How to take a new block out of a file again.
enum Undo {
    /// It was there.
    Nothing,
    Direct(usize, FragRun),
    Indirect(Box<(Chain, Taken)>),
}

/// What is on the way to a logical block, and what is missing of it.
struct Chain {
    parent: Parent,
    /// Indirect blocks to be made, top first, with the entry on the way.
    missing: SmallVec<[(Node, usize); 3]>,
    /// The data block, if nothing is missing.
    there: Option<FragNo>,
}

impl Taken {
    /// Fragments of all its blocks.
    fn frags(&self, of_block: u32) -> u32 {
        of_block.saturating_mul(u32::try_from(self.blocks.len()).unwrap_or(0))
    }
}

impl<'a> LockedInode<'a> {
    /// Makes sure that the first `size_in_block` bytes of block `lbn` have a place: allocates,
    /// extends fragments, makes indirect blocks, and first grows the fragments of the previous last
    /// block to a block. Raises `d.size` to cover the bytes, and counts `d.blocks`; the caller
    /// reports both with [`LockedInode::update`].
    ///
    /// With `keep` the buffer holds the block's content, zeros where it had none; without, its bytes
    /// are arbitrary and the caller overwrites all of them at once.
    ///
    /// # Errors
    /// [`Error::TooBig`], [`Error::NoSpace`], [`Error::Format`], the device's. Nothing changed then.
    pub(crate) fn balloc(
        &mut self,
        lbn: Lbn,
        size_in_block: u32,
        keep: bool,
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
        // Pinned: what changes here can be reported without a read that may fail.
        let _inode_block = self.ump.inode_block(self.ip.ino)?;
        let grown = self.take_previous(lbn, reserve)?;
        let made = match path {
            Path::Direct(i) => self.balloc_direct(i, end, keep, reserve),
            Path::Indirect { levels, index } => {
                self.balloc_indirect((lbn, levels, index), keep, reserve)
            }
        };
        let Some(grown) = grown else {
            let made = made?;
            self.data.d.size = end;
            return Ok(made.granted);
        };
        // All is allocated. Only now the previous block moves: nobody may write it at a place that it does
        // not keep.
        let done = made.and_then(|made| match self.view().finish_previous(&grown) {
            Ok(()) => Ok(made.granted),
            Err(e) => {
                self.unmake(lbn, made);
                Err(e)
            }
        });
        match &done {
            Ok(_) => {
                self.data.d.size = end;
                self.view().leave_old_place(&grown);
            }
            Err(_) => self.ungrow(&grown),
        }
        done
    }

    /// Only the last block of a file may be a run of fragments: takes the space with which that of `data`
    /// is a block, if `lbn` lies behind it.
    fn take_previous(&mut self, lbn: Lbn, reserve: Reserve) -> Result<Option<Grown>> {
        let g = self.g();
        let last = g.lblkno(self.data.d.size);
        let old_frags = g.blksize(self.data.d.size, last) / g.fsize;
        let index = last.0 as usize;
        let hole = self.data.d.db.get(index).is_none_or(|&p| p == 0);
        if lbn <= last || hole || old_frags == 0 || old_frags == g.frag {
            return Ok(None);
        }
        self.take_longer(index, (old_frags, g.frag), true, reserve).map(Some)
    }

    /// Gives back what [`LockedInode::take_longer`] took.
    fn ungrow(&mut self, grown: &Grown) {
        let (old, new) = (grown.old, grown.new);
        self.set_direct(grown.index, old.at);
        let more = new.frags - old.frags;
        self.uncharge(more);
        self.ump.free_quietly(match grown.moved() {
            true => new,
            false => FragRun { at: old.at.plus(old.frags.into()), frags: more },
        });
    }

    /// Takes a new block out of the file again.
    fn unmake(&mut self, lbn: Lbn, made: Made) {
        let Made { granted, undo } = made;
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
                let (chain, taken) = *of;
                self.uncharge(taken.frags(self.g().frag));
                self.view().forget_block(lbn);
                self.unmake_chain(&chain, &taken);
            }
        }
    }

    fn balloc_direct(&mut self, i: usize, end: u64, keep: bool, reserve: Reserve) -> Result<Made> {
        let g = self.g();
        let lbn = Lbn(i as u64);
        let old = self.data.d.db.get(i).copied().unwrap_or(0);
        let want = g.blksize(end, lbn) / g.fsize;
        let have = if old == 0 { 0 } else { g.blksize(self.data.d.size, lbn) / g.fsize };
        if have == 0 {
            if old != 0 {
                return Err(self.view().beyond_end(old));
            }
            let at = self.ump.alloc.alloc_frags(
                self.ip.ino,
                self.view().pref_direct(i),
                want,
                reserve,
            )?;
            let what = match (self.data.d.is_dir(), i) {
                (true, 0) => BlockContent::DirectoryBody,
                (true, _) => BlockContent::DirectoryGrowth,
                (false, _) => BlockContent::Data,
            };
            let run = FragRun { at, frags: want };
            let buf = self.view().new_block(lbn, run, keep);
            let slot = PtrSlot::Direct(self.ip.ino, i);
            let then = self
                .ump
                .ordering
                .notify(Event::PointerSet {
                    slot,
                    new: run,
                    old: None,
                    content: what,
                    block: buf.key,
                })
                .disposition;
            self.set_direct(i, at);
            self.charge(want);
            return Ok(Made { granted: Granted { buf, then }, undo: Undo::Direct(i, run) });
        }
        if have < want {
            let what = if self.data.d.is_dir() {
                BlockContent::DirectoryGrowth
            } else {
                BlockContent::Data
            };
            let grown = self.take_longer(i, (have, want), keep, reserve)?;
            let (buf, then) = self.view().settle(&grown, keep, what);
            self.view().leave_old_place(&grown);
            return Ok(Made { granted: Granted { buf, then }, undo: Undo::Nothing });
        }
        let at = self.view().checked_run(old, have, Structure::Inode)?.unwrap_or(FragNo::HOLE);
        Ok(Made { granted: self.view().present(lbn, at, keep)?, undo: Undo::Nothing })
    }

    /// Takes the space for the fragments of direct block `i` to grow, in place or elsewhere. The pointer
    /// names it already; the caller goes on with [`InodeView::settle`], or [`LockedInode::ungrow`].
    fn take_longer(
        &mut self,
        i: usize,
        (have, want): (u32, u32),
        keep: bool,
        reserve: Reserve,
    ) -> Result<Grown> {
        let lbn = Lbn(i as u64);
        let old = self.data.d.db.get(i).copied().unwrap_or(0);
        let at = self.view().checked_run(old, have, Structure::Inode)?.unwrap_or(FragNo::HOLE);
        let old = FragRun { at, frags: have };
        let buf = if keep {
            Some(self.view().data_block(lbn, at)?)
        } else {
            self.ump.cache.incore(data_key(self.ip.ino, lbn))
        };
        let pref = self.view().pref_direct(i);
        let at = self.ump.alloc.realloc_frags(self.ip.ino, old, want, pref, reserve)?;
        self.set_direct(i, at);
        self.charge(want - have);
        Ok(Grown { index: i, buf, old, new: FragRun { at, frags: want } })
    }

    fn balloc_indirect(
        &mut self,
        (lbn, levels, index): (Lbn, usize, [u32; 3]),
        keep: bool,
        reserve: Reserve,
    ) -> Result<Made> {
        let chain = self.view().find_chain((levels, index))?;
        if let Some(at) = chain.there {
            let granted = self.view().present(lbn, at, keep)?;
            return Ok(Made { granted, undo: Undo::Nothing });
        }
        let what =
            if self.data.d.is_dir() { BlockContent::DirectoryGrowth } else { BlockContent::Data };
        let mut taken = Taken::default();
        let made = self.make_chain(lbn, &chain, (reserve, what), &mut taken);
        let (run, then) = match made {
            Ok(made) => made,
            Err(e) => {
                self.unmake_chain(&chain, &taken);
                return Err(e);
            }
        };
        let buf = self.view().new_block(lbn, run, keep);
        self.charge(taken.frags(self.g().frag));
        Ok(Made { granted: Granted { buf, then }, undo: Undo::Indirect(Box::new((chain, taken))) })
    }

    /// Makes what a chain lacks; what is allocated and claimed for it is put in `taken`.
    fn make_chain(
        &mut self,
        lbn: Lbn,
        chain: &Chain,
        (reserve, what): (Reserve, BlockContent),
        taken: &mut Taken,
    ) -> Result<(FragRun, Disposition)> {
        let at = self.view().take_chain(lbn, chain, reserve, &mut taken.blocks)?;
        let nodes: SmallVec<[NewNode; 3]> = (chain.missing.iter().zip(&taken.blocks))
            .map(|(&(node, index), &at)| NewNode { node, at, index })
            .collect();
        self.view().format_nodes(&chain.parent, &nodes, &mut taken.claims)?;
        let run = FragRun { at, frags: self.g().frag };
        let slot = match nodes.last() {
            Some(n) => indirect_slot(self.ip, n.node.name(), n.index),
            None => slot_of(self.ip, &chain.parent),
        };
        taken.claims.push((slot, run));
        let block = data_key(self.ip.ino, lbn);
        let then = self
            .ump
            .ordering
            .notify(Event::PointerSet { slot, new: run, old: None, content: what, block })
            .disposition;
        self.link_chain(chain, &nodes, run, what)?;
        Ok((run, then))
    }

    /// Takes back what [`LockedInode::make_chain`] did before it failed.
    fn unmake_chain(&mut self, chain: &Chain, taken: &Taken) {
        match &chain.parent.block {
            Some((buf, _)) => {
                set_pointer(self.g(), &mut buf.write().bytes, chain.parent.index, 0);
                self.ump.cache.mark_dirty(buf);
            }
            None => {
                if let Some(p) = self.data.d.ib.get_mut(chain.parent.index) {
                    *p = 0;
                }
            }
        }
        for &(slot, run) in taken.claims.iter().rev() {
            self.ump.ordering.notify(Event::PointerCancelled { slot, new: run });
        }
        for (node, _) in &chain.missing {
            self.view().forget_indirect(*node);
        }
        for &at in &taken.blocks {
            self.ump.free_quietly(FragRun { at, frags: self.g().frag });
        }
    }

    /// Sets the pointers of a chain, the data's first.
    fn link_chain(
        &mut self,
        chain: &Chain,
        nodes: &[NewNode],
        run: FragRun,
        what: BlockContent,
    ) -> Result<()> {
        let g = self.g();
        let mut below = run.at;
        let mut changed: SmallVec<[BufRef; 4]> = SmallVec::new();
        for n in nodes.iter().rev() {
            let block = indirect_block(g, self.ip.ino, n.node, n.at);
            let buf = self.ump.cache.getblk(block, NewContent::Zeroed);
            set_pointer(g, &mut buf.write().bytes, n.index, raw(below));
            changed.push(buf);
            below = n.at;
        }
        match &chain.parent.block {
            Some((buf, _)) => {
                set_pointer(g, &mut buf.write().bytes, chain.parent.index, raw(below));
                changed.push(buf.clone());
            }
            None => {
                if let Some(p) = self.data.d.ib.get_mut(chain.parent.index) {
                    *p = raw(below);
                }
            }
        }
        for buf in &changed {
            self.ump.cache.mark_dirty(buf);
        }
        for buf in &changed {
            self.ump.cache.apply(
                buf,
                self.ump
                    .ordering
                    .notify(Event::IndirectUpdated { ino: self.ip.ino, content: what })
                    .disposition,
            )?;
        }
        Ok(())
    }

    fn set_direct(&mut self, i: usize, at: FragNo) {
        if let Some(p) = self.data.d.db.get_mut(i) {
            *p = raw(at);
        }
    }

    fn charge(&mut self, frags: u32) {
        self.data.d.blocks = self.data.d.blocks.saturating_add(Dinode::sectors(self.g(), frags));
    }

    fn uncharge(&mut self, frags: u32) {
        self.data.d.blocks = self.data.d.blocks.saturating_sub(Dinode::sectors(self.g(), frags));
    }
}

impl<'a> InodeView<'a> {
    /// Makes the previous last block a whole one. If its content cannot be written where it has to be, it is
    /// back in its place.
    fn finish_previous(self, grown: &Grown) -> Result<()> {
        let what =
            if self.data.d.is_dir() { BlockContent::DirectoryExtended } else { BlockContent::Data };
        let (buf, then) = self.settle(grown, true, what);
        let written = self.ump.cache.apply(&buf, then);
        if written.is_err() {
            // A policy that waits for content keeps no account of the claim.
            let len = (grown.old.frags * self.g().fsize) as usize;
            self.ump.cache.relocate(&buf, grown.old.at, len, || ());
            self.ump.cache.mark_dirty(&buf);
        }
        written
    }

    /// Nothing takes the growth back any more: frees the place a run moved away from.
    fn leave_old_place(self, grown: &Grown) {
        if grown.moved() {
            self.ump.free_replaced(grown.old);
        }
    }

    fn forget_block(self, lbn: Lbn) {
        let at = i64::try_from(lbn.0).unwrap_or(i64::MAX);
        self.forget_blocks(at..=at);
    }

    /// A block that needs nothing.
    fn present(self, lbn: Lbn, at: FragNo, keep: bool) -> Result<Granted> {
        let buf = if keep {
            self.data_block(lbn, at)?
        } else {
            let len = self.g().blksize(self.data.d.size, lbn) as usize;
            let (key, kind) = (data_key(self.ip.ino, lbn), self.data.buf_kind());
            let block = DiskBlock { key, kind, addr: at, len };
            self.ump.cache.getblk(block, NewContent::Arbitrary)
        };
        Ok(Granted { buf, then: Disposition::Delay })
    }

    /// Lets the buffer of a grown run have its new place and length; with `keep` (else the caller overwrites
    /// all) the content goes along, and the new bytes are zeros. Not marked dirty: without `keep` the bytes
    /// may still be anybody's.
    fn settle(self, grown: &Grown, keep: bool, what: BlockContent) -> (BufRef, Disposition) {
        let Grown { index, old, new, .. } = *grown;
        let slot = PtrSlot::Direct(self.ip.ino, index);
        let claim = |key| {
            self.ump
                .ordering
                .notify(Event::PointerSet { slot, new, old: Some(old), content: what, block: key })
                .disposition
        };
        match &grown.buf {
            Some(buf) => {
                let len = (new.frags * self.g().fsize) as usize;
                let then = self.ump.cache.relocate(buf, new.at, len, || claim(buf.key));
                (buf.clone(), then)
            }
            None => {
                let buf = self.new_block(Lbn(index as u64), new, keep);
                let then = claim(buf.key);
                (buf, then)
            }
        }
    }

    /// Follows the path of a block as far as it exists.
    fn find_chain(self, (levels, index): (usize, [u32; 3])) -> Result<Chain> {
        let g = self.g();
        let mut node = Node::root(g, levels - 1);
        let mut at = self.data.d.ib.get(levels - 1).copied().unwrap_or(0);
        let mut parent = Parent { block: None, index: levels - 1 };
        let mut missing = SmallVec::new();
        for i in index.iter().take(levels).map(|&i| i as usize) {
            if at == 0 {
                missing.push((node, i));
            } else {
                let buf = self.indirect(node, at)?;
                at = pointer(g, &buf.read().bytes, i);
                parent = Parent { block: Some((buf, node.name())), index: i };
            }
            node = node.child(g, i);
        }
        let there = self.checked_run(at, g.frag, Structure::IndirectBlock)?;
        Ok(Chain { parent, missing, there })
    }

    /// Allocates the missing indirect blocks of a chain and its data block, in this order, into
    /// `taken`; returns the data block. On failure the caller frees what is in `taken`.
    fn take_chain(
        self,
        lbn: Lbn,
        chain: &Chain,
        reserve: Reserve,
        taken: &mut SmallVec<[FragNo; 4]>,
    ) -> Result<FragNo> {
        let frag = self.g().frag;
        for (node, index) in &chain.missing {
            let q = PrefQuery {
                index: *index,
                indirect: Some(node.level),
                after_indirect: taken.last().copied(),
                ..self.query(lbn)
            };
            let at = self.ump.alloc.alloc_frags(
                self.ip.ino,
                self.ump.alloc.blkpref(&q),
                frag,
                reserve,
            )?;
            taken.push(at);
        }
        let (index, prev) = match (chain.missing.last(), &chain.parent) {
            (Some((_, index)), _) => (*index, None),
            (None, Parent { block: Some((buf, _)), index }) => {
                let before = index.checked_sub(1);
                let prev = before.map_or(0, |k| pointer(self.g(), &buf.read().bytes, k));
                (*index, self.plausible(prev))
            }
            (None, Parent { block: None, index }) => (*index, None),
        };
        let single = self.data.d.ib.first().copied().filter(|_| lbn.0 == NDADDR as u64);
        let after = taken.last().copied().or_else(|| self.plausible(single?));
        let q = PrefQuery { index, prev, after_indirect: after, ..self.query(lbn) };
        let at =
            self.ump.alloc.alloc_frags(self.ip.ino, self.ump.alloc.blkpref(&q), frag, reserve)?;
        taken.push(at);
        Ok(at)
    }

    /// Makes the buffers of new indirect blocks and reports them, top first, before anything points
    /// to them.
    fn format_nodes(
        self,
        parent: &Parent,
        nodes: &[NewNode],
        claims: &mut SmallVec<[(PtrSlot, FragRun); 4]>,
    ) -> Result<()> {
        let g = self.g();
        let mut slot = slot_of(self.ip, parent);
        for n in nodes {
            let block = indirect_block(g, self.ip.ino, n.node, n.at);
            let buf = self.ump.cache.getblk(block, NewContent::Zeroed);
            let run = FragRun { at: n.at, frags: g.frag };
            let then = self
                .ump
                .ordering
                .notify(Event::PointerSet {
                    slot,
                    new: run,
                    old: None,
                    content: BlockContent::Indirect,
                    block: block.key,
                })
                .disposition;
            claims.push((slot, run));
            self.ump.cache.apply(&buf, then)?;
            slot = indirect_slot(self.ip, n.node.name(), n.index);
        }
        Ok(())
    }

    /// The buffer of a block just allocated.
    fn new_block(self, lbn: Lbn, run: FragRun, zero: bool) -> BufRef {
        let len = (run.frags * self.g().fsize) as usize;
        let (key, kind) = (data_key(self.ip.ino, lbn), self.data.buf_kind());
        let content = if zero { NewContent::Zeroed } else { NewContent::Arbitrary };
        self.ump.cache.getblk(DiskBlock { key, kind, addr: run.at, len }, content)
    }

    fn beyond_end(self, found: i64) -> Error {
        let want = "0 beyond the file's size";
        Error::corrupt(Structure::Inode, place(self.ip.ino), "block pointer", found, want)
    }
}

fn slot_of(ip: &Inode, parent: &Parent) -> PtrSlot {
    match &parent.block {
        Some((_, name)) => indirect_slot(ip, *name, parent.index),
        None => PtrSlot::IndirectRoot(ip.ino, parent.index),
    }
}

pub(super) fn indirect_slot(ip: &Inode, block: i64, index: usize) -> PtrSlot {
    PtrSlot::Indirect { ino: ip.ino, block, index: u32::try_from(index).unwrap_or(u32::MAX) }
}
