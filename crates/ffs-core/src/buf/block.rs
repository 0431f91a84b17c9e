//! The table of the blocks in memory.
//!
//! A block has the number of its place in the table. The lists of the cache ([`super::queues`],
//! [`super::file_lists`]) link blocks by these numbers, so that moving a block between lists
//! allocates nothing.

use super::links::Links;
use super::{BufKind, BufRef};
use crate::openhash::ItemId;
use std::ops::{Index, IndexMut};

/// The kind of memory of a block, which decides the limit that it counts against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Backing {
    /// Pages of the page cache (VMIO in FreeBSD), in both tiers.
    Pages,
    /// Private memory of up to 2048 bytes, in units of 512.
    Malloc,
    /// Private memory in units of 4096 bytes.
    Private,
}

/// Whether a block has a buffer header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tier {
    /// Tier 1: the block has a header.
    Header,
    /// Tier 2: the block has pages only.
    PagesOnly,
}

/// One block in memory.
pub(super) struct CachedBlock {
    /// `None` in a free place of the table.
    pub(super) buf: Option<BufRef>,
    /// The older and the newer block of its queue.
    pub(super) queue_links: Links,
    /// Value of the queues' clock when the block came to the newest end; 0 at the oldest end.
    pub(super) queued_at: u64,
    /// The neighbours among the blocks of its file.
    pub(super) file_links: Links,
    /// Length of the block, bytes.
    pub(super) bytes: u32,
    /// Memory it is charged, bytes: its length rounded up to the unit of its backing.
    pub(super) charged: u32,
    pub(super) kind: BufKind,
    pub(super) backing: Backing,
    /// [`Buf::has_header`](super::Buf::has_header) is a copy of it.
    pub(super) tier: Tier,
}

impl CachedBlock {
    /// A clean block in tier 1, on no list.
    pub(super) fn new(buf: BufRef, bytes: u32, (backing, charged): (Backing, u32)) -> CachedBlock {
        CachedBlock {
            kind: buf.kind,
            buf: Some(buf),
            queue_links: Links::default(),
            queued_at: 0,
            file_links: Links::default(),
            bytes,
            charged,
            backing,
            tier: Tier::Header,
        }
    }
}

/// The blocks in memory, by number.
#[derive(Default)]
pub(super) struct BlockTable {
    blocks: Vec<CachedBlock>,
    free: Vec<ItemId>,
}

impl BlockTable {
    /// Adds a block; returns its number.
    pub(super) fn insert(&mut self, block: CachedBlock) -> ItemId {
        match self.free.pop() {
            Some(id) => {
                self.blocks[id as usize] = block;
                id
            }
            None => {
                self.blocks.push(block);
                (self.blocks.len() - 1) as ItemId
            }
        }
    }

    /// Makes the place of a block free. The block is on no list and its buffer was taken.
    pub(super) fn release(&mut self, id: ItemId) {
        debug_assert!(self[id].buf.is_none(), "the block still has its buffer");
        self.free.push(id);
    }

    /// The block `id`; `None` for [`crate::openhash::NIL`].
    pub(super) fn get_mut(&mut self, id: ItemId) -> Option<&mut CachedBlock> {
        self.blocks.get_mut(id as usize)
    }

    /// The numbers of all places, free ones included.
    pub(super) fn ids(&self) -> std::ops::Range<ItemId> {
        0..self.blocks.len() as ItemId
    }

    #[cfg(test)]
    pub(super) fn in_use(&self) -> impl Iterator<Item = &CachedBlock> {
        self.blocks.iter().filter(|block| block.buf.is_some())
    }
}

impl Index<ItemId> for BlockTable {
    type Output = CachedBlock;

    fn index(&self, id: ItemId) -> &CachedBlock {
        &self.blocks[id as usize]
    }
}

impl IndexMut<ItemId> for BlockTable {
    fn index_mut(&mut self, id: ItemId) -> &mut CachedBlock {
        &mut self.blocks[id as usize]
    }
}
