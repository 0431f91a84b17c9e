//! The place of one directory's index: it belongs to the inode and stands in the pool's list while
//! there is an index in it.
//!
//! A cell whose index was taken ("husk") stays with the inode, and the next access may build in it
//! anew.

use super::index::{Gone, Index};
use super::pool::{NIL, Pool};
use crate::counters::{add, bump};
use crate::sync::{RwLock, RwLockReadGuard};
use ffs_ondisk::DirOff;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// Score of a new index.
const SCORE_NEW: u32 = 8;
/// Highest score.
const SCORE_MOST: u32 = 64;
/// How often a prediction was right lately, in the bits that offsets of records, multiples of four,
/// leave free.
const TRUST: u32 = 3;
/// No prediction: no record is there, and no trust.
const NOWHERE: u32 = !TRUST;

/// What inode and pool share.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) index: RwLock<Option<Box<Index>>>,
    /// Its node in the list; written under the list's lock.
    pub(super) node: AtomicU32,
    /// How much it is worth keeping.
    pub(super) score: AtomicU32,
    /// Where the next record is expected, behind the one found last; with [`TRUST`].
    expected: AtomicU32,
    /// When it was used last, seconds.
    pub(super) used_at: AtomicI64,
}

/// Why a directory gets no index now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// It would take more than half of the pool.
    TooLarge,
    /// The pool is full of others that are in use.
    NoMemory,
    /// Whoever filled it could not.
    Unfit,
}

/// A directory's place for an index. Dropping it gives back the memory.
#[derive(Debug)]
pub(crate) struct DirHash {
    cell: Arc<Cell>,
    pool: Arc<Pool>,
}

impl Drop for DirHash {
    fn drop(&mut self) {
        self.drop_index(Gone::Unwanted);
    }
}

/// An index locked to be asked.
pub(crate) type Asked<'a> = RwLockReadGuard<'a, Option<Box<Index>>>;

impl DirHash {
    /// An empty one.
    pub(crate) fn new(pool: &Arc<Pool>) -> DirHash {
        let cell = Cell {
            index: RwLock::default(),
            node: AtomicU32::new(NIL),
            score: AtomicU32::new(0),
            expected: AtomicU32::new(NOWHERE),
            used_at: AtomicI64::new(0),
        };
        DirHash { cell: Arc::new(cell), pool: Arc::clone(pool) }
    }

    /// The index if there is one.
    pub(crate) fn ask(&self) -> Asked<'_> {
        self.cell.index.read()
    }

    /// The index if there is one and nobody changes or builds it.
    pub(crate) fn try_ask(&self) -> Option<Asked<'_>> {
        self.cell.index.try_read()
    }

    /// Counts a use: it is kept longer.
    #[inline]
    pub(crate) fn used(&self) {
        self.pool.step_back(&self.cell);
        let score = self.cell.score.load(Ordering::Relaxed);
        if score < SCORE_MOST {
            self.cell.score.store(score + 1, Ordering::Relaxed);
        }
        self.cell.used_at.store(self.pool.time(), Ordering::Relaxed);
    }

    /// Where the next record sought is expected, if lookups seem to follow the directory's order: a
    /// wrong guess walks the chain twice, which lookups in any other order would pay for every
    /// time.
    #[inline]
    pub(crate) fn expected(&self) -> Option<DirOff> {
        let (at, trust) = self.guess();
        (trust > 0).then_some(DirOff(at))
    }

    /// A record was found at `found`; the next one sought may be at `next`, behind it.
    #[inline]
    pub(crate) fn found(&self, found: DirOff, next: DirOff) {
        let (at, trust) = self.guess();
        let trust = if at == found.0 { (trust + 1).min(TRUST) } else { trust.saturating_sub(1) };
        self.cell.expected.store(next.0 & !TRUST | trust, Ordering::Relaxed);
    }

    /// What was sought is not there.
    #[inline]
    pub(crate) fn not_found(&self) {
        let (at, trust) = self.guess();
        if trust > 0 {
            self.cell.expected.store(at | (trust - 1), Ordering::Relaxed);
        }
    }

    fn guess(&self) -> (u32, u32) {
        let at = self.cell.expected.load(Ordering::Relaxed);
        (at & !TRUST, at & TRUST)
    }

    /// Builds an index for a directory of `size` bytes with `fill`, which answers how many entries
    /// it entered, unless another thread has done so meanwhile. The caller holds the directory's
    /// lock.
    ///
    /// # Errors
    /// See [`Refused`]; nothing is remembered.
    pub(crate) fn build(
        &self,
        size: u32,
        fill: impl FnOnce(&mut Index) -> Option<u64>,
    ) -> Result<(), Refused> {
        let mut place = self.cell.index.write();
        if place.is_some() {
            return Ok(());
        }
        let charge = Index::charge_for(size);
        self.pool.reserve(charge)?;
        let mut index = Box::new(Index::new(size, self.pool.new_hasher(), self.pool.is_paper()));
        let Some(entries) = fill(&mut index) else {
            self.pool.credit(charge);
            return Err(Refused::Unfit);
        };
        debug_assert_eq!(index.charge(), charge);
        let c = self.pool.counters();
        bump(&c.dirhash_builds);
        add(&c.dirhash_build_entries, entries);
        self.cell.score.store(SCORE_NEW, Ordering::Relaxed);
        self.cell.expected.store(NOWHERE, Ordering::Relaxed);
        self.cell.used_at.store(self.pool.time(), Ordering::Relaxed);
        *place = Some(index);
        self.pool.enter(&self.cell);
        Ok(())
    }

    /// Lets the index follow a change of the directory, which the caller holds locked alone; what
    /// cannot be followed ends it. Answers whether there is an index still.
    pub(crate) fn follow(&self, change: impl FnOnce(&mut Index) -> Result<(), Gone>) -> bool {
        let mut place = self.cell.index.write();
        let Some(index) = place.as_deref_mut() else { return false };
        let Err(why) = change(index) else { return true };
        self.take(&mut place, why);
        false
    }

    /// Frees the index.
    pub(crate) fn drop_index(&self, why: Gone) {
        self.take(&mut self.cell.index.write(), why);
    }

    fn take(&self, place: &mut Option<Box<Index>>, why: Gone) {
        let Some(index) = place.take() else { return };
        self.pool.leave(&self.cell, index.charge());
        let c = self.pool.counters();
        match why {
            Gone::Full => bump(&c.dirhash_gone_full),
            Gone::Outgrown => bump(&c.dirhash_gone_outgrown),
            Gone::Shrunk => bump(&c.dirhash_gone_shrunk),
            Gone::Doubt => bump(&c.dirhash_gone_doubt),
            Gone::Unwanted => {}
        }
    }
}
