//! Building, reading and updating the index of a directory.

use super::cell::{BuildError, Cell};
use super::drop_reason::DropReason;
use super::index::Index;
use super::pool::Pool;
use crate::counters::{add, bump};
use crate::sync::RwLockReadGuard;
use ffs_ondisk::DirOff;
use std::sync::Arc;

/// A directory's index, if it has one. Dropping it frees the memory.
#[derive(Debug)]
pub(crate) struct DirHash {
    cell: Arc<Cell>,
    pool: Arc<Pool>,
}

impl Drop for DirHash {
    fn drop(&mut self) {
        self.drop_index(DropReason::Unwanted);
    }
}

/// An index, locked for reading.
pub(crate) type IndexGuard<'a> = RwLockReadGuard<'a, Option<Box<Index>>>;

impl DirHash {
    /// A directory without an index.
    pub(crate) fn new(pool: &Arc<Pool>) -> DirHash {
        DirHash { cell: Arc::new(Cell::new()), pool: Arc::clone(pool) }
    }

    /// The index, if there is one.
    pub(crate) fn read_index(&self) -> IndexGuard<'_> {
        self.cell.index.read()
    }

    /// The index, if there is one and no other thread changes or builds it.
    pub(crate) fn try_read_index(&self) -> Option<IndexGuard<'_>> {
        self.cell.index.try_read()
    }

    /// Counts a use, so that the index is kept longer.
    #[inline]
    pub(crate) fn touch(&self) {
        self.pool.move_back(&self.cell);
        self.cell.touch(self.pool.time());
    }

    /// The offset where the next record is expected, if lookups seem to follow the order of the
    /// directory. A wrong prediction walks the chain twice, so there is none for lookups in another
    /// order.
    #[inline]
    pub(crate) fn predicted(&self) -> Option<DirOff> {
        let (off, trust) = self.cell.prediction();
        (trust > 0).then_some(off)
    }

    /// Records that a lookup found a record at `found`; the next lookup may be for the record at
    /// `next`, behind it.
    #[inline]
    pub(crate) fn note_found(&self, found: DirOff, next: DirOff) {
        self.cell.predict(found, next);
    }

    /// Records that a lookup found no record.
    #[inline]
    pub(crate) fn note_not_found(&self) {
        self.cell.distrust();
    }

    /// Builds an index for a directory of `size` bytes, unless another thread did meanwhile. `fill`
    /// enters the records and returns their number. The caller holds the directory's lock.
    ///
    /// # Errors
    /// See [`BuildError`]; the next call tries again.
    pub(crate) fn build(
        &self,
        size: u32,
        fill: impl FnOnce(&mut Index) -> Option<u64>,
    ) -> Result<(), BuildError> {
        let mut slot = self.cell.index.write();
        if slot.is_some() {
            return Ok(());
        }
        let charge = Index::charge_for(size);
        self.pool.reserve(charge)?;
        let mut index = Box::new(Index::new(size, self.pool.new_hasher(), self.pool.is_compat()));
        let Some(entries) = fill(&mut index) else {
            self.pool.release(charge);
            return Err(BuildError::Unsuitable);
        };
        debug_assert_eq!(index.charge(), charge);
        let c = self.pool.counters();
        bump(&c.dirhash_builds);
        add(&c.dirhash_build_entries, entries);
        self.cell.reset(self.pool.time());
        *slot = Some(index);
        self.pool.insert(&self.cell);
        Ok(())
    }

    /// Updates the index after a change of the directory, which the caller has locked exclusively.
    /// An index that `change` cannot update is dropped. Returns whether there is still an index.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Index) -> Result<(), DropReason>) -> bool {
        let mut slot = self.cell.index.write();
        let Some(index) = slot.as_deref_mut() else { return false };
        let Err(why) = change(index) else { return true };
        self.take(&mut slot, why);
        false
    }

    /// Drops the index.
    pub(crate) fn drop_index(&self, why: DropReason) {
        self.take(&mut self.cell.index.write(), why);
    }

    fn take(&self, slot: &mut Option<Box<Index>>, why: DropReason) {
        let Some(index) = slot.take() else { return };
        self.pool.remove(&self.cell, index.charge());
        let c = self.pool.counters();
        match why {
            DropReason::Full => bump(&c.dirhash_gone_full),
            DropReason::Outgrown => bump(&c.dirhash_gone_outgrown),
            DropReason::Shrunk => bump(&c.dirhash_gone_shrunk),
            DropReason::Inconsistent => bump(&c.dirhash_gone_doubt),
            DropReason::Unwanted => {}
        }
    }
}
