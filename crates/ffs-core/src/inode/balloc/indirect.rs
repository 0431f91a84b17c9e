//! Blocks below indirect blocks, and new indirect blocks.
//!
//! Reference: `spec/allocation.md` §4.1, §4.2; `spec/soft-updates.md` §6.9.

use super::super::bmap::{Node, data_key, indirect_block};
use super::super::{InodeView, LockedInode};
use super::{Balloc, BufFill, Granted, Undo};
use crate::alloc::{PrefQuery, Reserve};
use crate::buf::{BufRef, Disposition, NewContent};
use crate::error::Result;
use crate::ordering::{BlockContent, Event, FragRun, PtrSlot};
use ffs_ondisk::bmap::{pointer, set_pointer};
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::{FragNo, Ino, Lbn, Structure};
use smallvec::SmallVec;

/// The way to a logical block through the indirect blocks: the part that exists, and the part that
/// has to be allocated.
pub(super) struct Chain {
    /// The last existing pointer on the way. It is 0 if something is missing.
    parent: Parent,
    /// Indirect blocks to be allocated, top first, each with the index of the entry on the way.
    missing: SmallVec<[(Node, usize); 3]>,
    /// The data block, if nothing is missing.
    data: Option<FragNo>,
}

/// The place of a pointer.
struct Parent {
    /// The indirect block; `None`: the inode.
    block: Option<(BufRef, Node)>,
    /// Index of the entry in the indirect block, or in `ib` of the inode.
    index: usize,
}

impl Parent {
    fn slot(&self, ino: Ino) -> PtrSlot {
        match &self.block {
            Some((_, node)) => node.slot(ino, self.index),
            None => PtrSlot::IndirectRoot(ino, self.index),
        }
    }
}

/// A new indirect block.
struct NewIndir {
    node: Node,
    at: FragNo,
    /// Index of the entry on the way to the data.
    index: usize,
}

/// The blocks and pointers of a chain so far.
#[derive(Default)]
pub(super) struct ChainAllocs {
    /// Addresses of the new indirect blocks, then of the data block.
    blocks: SmallVec<[FragNo; 4]>,
    /// Pointers that were reported with [`Event::PointerSet`].
    pointers: SmallVec<[(PtrSlot, FragRun); 4]>,
}

impl ChainAllocs {
    /// Fragments of all blocks, each of `frags_per_block`.
    pub(super) fn frags(&self, frags_per_block: u32) -> u32 {
        frags_per_block.saturating_mul(u32::try_from(self.blocks.len()).unwrap_or(0))
    }
}

impl LockedInode<'_> {
    pub(super) fn balloc_indirect(
        &mut self,
        (lbn, levels, index): (Lbn, usize, [u32; 3]),
        fill: BufFill,
        reserve: Reserve,
    ) -> Result<Balloc> {
        let chain = self.view().find_chain((levels, index))?;
        if let Some(at) = chain.data {
            return self.view().allocated_block(lbn, at, fill);
        }
        let blocks = u32::try_from(chain.missing.len()).unwrap_or(u32::MAX).saturating_add(1);
        let frags = self.g().frag.saturating_mul(blocks);
        self.charge(frags, reserve)?;
        let mut allocs = ChainAllocs::default();
        let (run, then) = match self.alloc_chain(lbn, &chain, reserve, &mut allocs) {
            Ok(new) => new,
            Err(e) => {
                self.undo_chain(&chain, &allocs);
                self.uncharge(frags);
                return Err(e);
            }
        };
        let buf = self.view().new_block(lbn, run, fill);
        let undo = Undo::Indirect(Box::new((chain, allocs)));
        Ok(Balloc { granted: Granted { buf, then, new: true }, undo })
    }

    /// Allocates the missing blocks of a chain and links them. `allocs` gets the blocks and the
    /// pointers, so that the caller can undo a call that failed.
    fn alloc_chain(
        &mut self,
        lbn: Lbn,
        chain: &Chain,
        reserve: Reserve,
        allocs: &mut ChainAllocs,
    ) -> Result<(FragRun, Disposition)> {
        let content = self.view().growth_content();
        let at = self.view().alloc_chain_blocks(lbn, chain, reserve, &mut allocs.blocks)?;
        let indirs: SmallVec<[NewIndir; 3]> = (chain.missing.iter().zip(&allocs.blocks))
            .map(|(&(node, index), &at)| NewIndir { node, at, index })
            .collect();
        self.view().init_indirs(&chain.parent, &indirs, &mut allocs.pointers)?;
        let run = FragRun { at, frags: self.g().frag };
        let slot = match indirs.last() {
            Some(n) => n.node.slot(self.ip.ino, n.index),
            None => chain.parent.slot(self.ip.ino),
        };
        allocs.pointers.push((slot, run));
        let block = data_key(self.ip.ino, lbn);
        let set = Event::PointerSet { slot, new: run, old: None, content, block };
        let then = self.ump.ordering.notify(set).disposition;
        self.link_chain(chain, &indirs, run, content)?;
        Ok((run, then))
    }

    /// Undoes [`LockedInode::alloc_chain`], which may have failed at any step.
    pub(super) fn undo_chain(&mut self, chain: &Chain, allocs: &ChainAllocs) {
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
        for &(slot, run) in allocs.pointers.iter().rev() {
            self.ump.ordering.notify(Event::PointerCancelled { slot, new: run });
        }
        for (node, _) in &chain.missing {
            self.view().forget_indirect(*node);
        }
        for &at in &allocs.blocks {
            self.ump.free_quietly(FragRun { at, frags: self.g().frag });
        }
    }

    /// Sets the pointers of a chain, that to the data first.
    fn link_chain(
        &mut self,
        chain: &Chain,
        indirs: &[NewIndir],
        run: FragRun,
        content: BlockContent,
    ) -> Result<()> {
        let g = self.g();
        let mut below = run.at;
        let mut changed: SmallVec<[BufRef; 4]> = SmallVec::new();
        for n in indirs.iter().rev() {
            let block = indirect_block(g, self.ip.ino, n.node, n.at);
            let buf = self.ump.cache.getblk(block, NewContent::Zeroed);
            set_pointer(g, &mut buf.write().bytes, n.index, below.pointer());
            changed.push(buf);
            below = n.at;
        }
        match &chain.parent.block {
            Some((buf, _)) => {
                set_pointer(g, &mut buf.write().bytes, chain.parent.index, below.pointer());
                changed.push(buf.clone());
            }
            None => {
                if let Some(p) = self.data.d.ib.get_mut(chain.parent.index) {
                    *p = below.pointer();
                }
            }
        }
        for buf in &changed {
            self.ump.cache.mark_dirty(buf);
        }
        for buf in &changed {
            let updated = Event::IndirectUpdated { ino: self.ip.ino, content };
            let then = self.ump.ordering.notify(updated).disposition;
            self.ump.cache.apply(buf, then)?;
        }
        Ok(())
    }
}

impl InodeView<'_> {
    /// Follows the way to a block as far as it exists.
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
                parent = Parent { block: Some((buf, node)), index: i };
            }
            node = node.child(g, i);
        }
        let data = self.checked_run(at, g.frag, Structure::IndirectBlock)?;
        Ok(Chain { parent, missing, data })
    }

    /// Allocates the missing indirect blocks of a chain, then its data block. Appends the addresses
    /// to `blocks`, and returns that of the data block. On an error the caller frees the blocks.
    fn alloc_chain_blocks(
        self,
        lbn: Lbn,
        chain: &Chain,
        reserve: Reserve,
        blocks: &mut SmallVec<[FragNo; 4]>,
    ) -> Result<FragNo> {
        let (alloc, frag) = (&self.ump.alloc, self.g().frag);
        for (node, index) in &chain.missing {
            let q = PrefQuery {
                index: *index,
                indirect: Some(node.level),
                after_indirect: blocks.last().copied(),
                ..self.query(lbn)
            };
            let at = alloc.alloc_frags(self.ip.ino, alloc.blkpref(&q), frag, reserve)?;
            blocks.push(at);
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
        let after = blocks.last().copied().or_else(|| self.plausible(single?));
        let q = PrefQuery { index, prev, after_indirect: after, ..self.query(lbn) };
        let at = alloc.alloc_frags(self.ip.ino, alloc.blkpref(&q), frag, reserve)?;
        blocks.push(at);
        Ok(at)
    }

    /// Creates the zeroed buffers of new indirect blocks and reports their pointers, top first,
    /// before a pointer is set.
    fn init_indirs(
        self,
        parent: &Parent,
        indirs: &[NewIndir],
        pointers: &mut SmallVec<[(PtrSlot, FragRun); 4]>,
    ) -> Result<()> {
        let g = self.g();
        let mut slot = parent.slot(self.ip.ino);
        for n in indirs {
            let block = indirect_block(g, self.ip.ino, n.node, n.at);
            let buf = self.ump.cache.getblk(block, NewContent::Zeroed);
            let run = FragRun { at: n.at, frags: g.frag };
            let content = BlockContent::Indirect;
            let set = Event::PointerSet { slot, new: run, old: None, content, block: block.key };
            let then = self.ump.ordering.notify(set).disposition;
            pointers.push((slot, run));
            self.ump.cache.apply(&buf, then)?;
            slot = n.node.slot(self.ip.ino, n.index);
        }
        Ok(())
    }
}
