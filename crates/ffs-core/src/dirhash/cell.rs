//! The index of one directory and its place in the pool's list. The inode and the pool share the
//! cell.
//!
//! An index that was recycled leaves its cell with the inode; the next access may build a new index
//! in it.

use super::index::Index;
use crate::sync::RwLock;
use ffs_ondisk::DirOff;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// No node of the pool's list.
pub(super) const NIL: u32 = u32::MAX;
/// Score of a new index.
const SCORE_NEW: u32 = 8;
/// Highest score.
const SCORE_MAX: u32 = 64;
/// How often a prediction was right lately. Offsets of records are multiples of four, so these bits
/// of an offset are free.
const TRUST: u32 = 3;
/// No prediction: there is no record at this offset, and the trust is 0.
const NO_PREDICTION: u32 = !TRUST;

/// An index, and the values that decide how long it is kept.
#[derive(Debug)]
pub(super) struct Cell {
    /// The index, if there is one.
    pub(super) index: RwLock<Option<Box<Index>>>,
    /// Its node in the pool's list; written under the list's lock.
    pub(super) node: AtomicU32,
    /// How much the index is worth keeping: uses raise it, need for memory lowers it.
    score: AtomicU32,
    /// The offset behind the record found last, where the next one is expected; with [`TRUST`].
    predicted: AtomicU32,
    /// Second of its last use.
    used_at: AtomicI64,
}

impl Cell {
    /// A cell without an index.
    pub(super) fn new() -> Cell {
        Cell {
            index: RwLock::default(),
            node: AtomicU32::new(NIL),
            score: AtomicU32::new(0),
            predicted: AtomicU32::new(NO_PREDICTION),
            used_at: AtomicI64::new(0),
        }
    }

    /// Begins the life of a new index at second `now`.
    pub(super) fn reset(&self, now: i64) {
        self.score.store(SCORE_NEW, Ordering::Relaxed);
        self.predicted.store(NO_PREDICTION, Ordering::Relaxed);
        self.used_at.store(now, Ordering::Relaxed);
    }

    /// Counts a use at second `now`.
    #[inline]
    pub(super) fn touch(&self, now: i64) {
        let score = self.score();
        if score < SCORE_MAX {
            self.score.store(score + 1, Ordering::Relaxed);
        }
        self.used_at.store(now, Ordering::Relaxed);
    }

    /// The score of the index.
    pub(super) fn score(&self) -> u32 {
        self.score.load(Ordering::Relaxed)
    }

    /// Lowers the score by one; returns the new score.
    pub(super) fn lower_score(&self) -> u32 {
        let score = self.score().saturating_sub(1);
        self.score.store(score, Ordering::Relaxed);
        score
    }

    /// Second of the last use.
    pub(super) fn used_at(&self) -> i64 {
        self.used_at.load(Ordering::Relaxed)
    }

    /// The predicted offset and the trust in it.
    #[inline]
    pub(super) fn prediction(&self) -> (DirOff, u32) {
        let value = self.predicted.load(Ordering::Relaxed);
        (DirOff(value & !TRUST), value & TRUST)
    }

    /// Predicts `next` after a record was found at `found`.
    #[inline]
    pub(super) fn predict(&self, found: DirOff, next: DirOff) {
        let (predicted, trust) = self.prediction();
        let trust =
            if predicted == found { (trust + 1).min(TRUST) } else { trust.saturating_sub(1) };
        self.predicted.store(next.0 & !TRUST | trust, Ordering::Relaxed);
    }

    /// Trusts the prediction less, as no record was found.
    #[inline]
    pub(super) fn distrust(&self) {
        let (predicted, trust) = self.prediction();
        if trust > 0 {
            self.predicted.store(predicted.0 | (trust - 1), Ordering::Relaxed);
        }
    }
}

/// Why a directory gets no index now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BuildError {
    /// The index would need more than half of the pool.
    TooLarge,
    /// The pool is full of indexes that are in use.
    NoMemory,
    /// The directory could not be read, or is unsuitable.
    Unsuitable,
}
