//! The memory that blocks are charged.
//!
//! # Invariants
//! 1. The fields of [`SpaceUse`] are the sums over the blocks in memory whenever the cache's lock
//!    is free.

use super::BufKind;
use super::block::{Backing, CachedBlock, Tier};
use super::limits::CacheLimits;

/// Bytes of a page.
const PAGE: u32 = 4096;
/// Unit of [`Backing::Malloc`], bytes.
const MALLOC_UNIT: u32 = 512;
/// Largest block with [`Backing::Malloc`], bytes.
const MALLOC_MAX: u32 = 2048;

/// A number of blocks and the memory they are charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockSum {
    pub(super) blocks: usize,
    pub(super) bytes: usize,
}

/// Memory in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SpaceUse {
    /// Blocks in tier 1.
    pub(super) headers: usize,
    /// Bytes of the blocks in tier 1, without those with [`Backing::Malloc`].
    pub(super) bufspace: usize,
    /// Bytes of the blocks with [`Backing::Malloc`].
    pub(super) mallocspace: usize,
    /// Bytes of pages, both tiers.
    pub(super) pages: usize,
    /// Bytes lost by rounding sizes up.
    pub(super) waste: usize,
    /// Sums by kind and tier.
    pub(super) by_kind: [[BlockSum; 2]; BufKind::ALL.len()],
}

impl SpaceUse {
    /// Charges a block.
    pub(super) fn charge(&mut self, block: &CachedBlock) {
        self.update(block, |sum, n| *sum += n);
    }

    /// Takes the charge of a block back.
    pub(super) fn discharge(&mut self, block: &CachedBlock) {
        self.update(block, |sum, n| *sum -= n);
    }

    fn update(&mut self, block: &CachedBlock, update: impl Fn(&mut usize, usize)) {
        let (charged, bytes) = (block.charged as usize, block.bytes as usize);
        if block.tier == Tier::Header {
            update(&mut self.headers, 1);
            match block.backing {
                Backing::Malloc => update(&mut self.mallocspace, charged),
                Backing::Pages | Backing::Private => update(&mut self.bufspace, charged),
            }
        }
        if block.backing == Backing::Pages {
            update(&mut self.pages, charged);
        }
        update(&mut self.waste, charged - bytes);
        let sum = &mut self.by_kind[block.kind as usize][block.tier as usize];
        update(&mut sum.blocks, 1);
        update(&mut sum.bytes, charged);
    }

    /// The backing that a block of `bytes` bytes gets now, and the bytes it is charged.
    pub(super) fn backing_for(
        &self,
        limits: &CacheLimits,
        kind: BufKind,
        bytes: u32,
    ) -> (Backing, u32) {
        let pages = bytes.next_multiple_of(PAGE);
        if kind != BufKind::Directory || limits.vmiodir {
            return (Backing::Pages, pages);
        }
        let small = bytes.next_multiple_of(MALLOC_UNIT);
        let available = limits.mallocspace.saturating_sub(self.mallocspace);
        if bytes <= MALLOC_MAX && small as usize <= available {
            (Backing::Malloc, small)
        } else {
            (Backing::Private, pages)
        }
    }
}
