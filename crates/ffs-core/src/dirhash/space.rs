//! Free space of the chunks of a directory: one byte for each chunk, and for each amount of free
//! space the first chunk that has it.
//!
//! Free space is counted in words of 4 bytes. Amounts of [`LAST`] words or more are one class: such
//! a chunk has space for any name.
//!
//! # Invariants
//! 1. `first[c]` is the lowest chunk of class `c`, or [`NONE`]; `count[c]` is the number of chunks
//!    of the class.
//! 2. Chunks beyond the end of the directory are in no class and recorded as wholly free.
//!
//! FreeBSD has no counts. They show without a search that a class is empty, so that the cost of a
//! change does not grow with the directory.
//!
//! Reference: `spec/directories-and-caches.md` §3.5, §3.6.

use super::drop_reason::DropReason;
use ffs_ondisk::geometry::DIRBLKSIZ;

/// Bytes of a word.
pub(super) const WORD: usize = 4;
/// Words of a chunk.
pub(super) const WORDS: u8 = (DIRBLKSIZ / WORD) as u8;
/// The class of the chunks that have space for any name.
const LAST: usize = 67;
const NONE: u32 = u32::MAX;

/// Free space of the chunks of one directory.
#[derive(Debug)]
pub(super) struct Space {
    /// Free words of each chunk.
    free: Vec<u8>,
    /// Chunks that the directory has.
    chunks: u32,
    first: [u32; LAST + 1],
    count: [u32; LAST + 1],
    /// Whether a search in the last class finds only chunks with exactly `LAST` words, a defect of
    /// the code that the paper measured.
    exact_last: bool,
}

fn class(free: u8) -> usize {
    usize::from(free).min(LAST)
}

impl Space {
    /// `chunks` free chunks, with capacity for `capacity` chunks.
    pub(super) fn new(chunks: u32, capacity: u32, exact_last: bool) -> Space {
        let (mut first, mut count) = ([NONE; LAST + 1], [0; LAST + 1]);
        if chunks > 0 {
            (first[LAST], count[LAST]) = (0, chunks);
        }
        Space { free: vec![WORDS; capacity as usize], chunks, first, count, exact_last }
    }

    /// Chunks that the directory has.
    pub(super) fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Chunks that can be recorded.
    pub(super) fn capacity(&self) -> u32 {
        self.free.len() as u32
    }

    /// Free words of chunk `n`.
    pub(super) fn free(&self, n: u32) -> Option<u8> {
        self.free.get(n as usize).copied().filter(|_| n < self.chunks)
    }

    /// Sets the free words of chunk `n`.
    ///
    /// # Errors
    /// [`DropReason::Inconsistent`] if there is no such chunk, or a chunk has fewer words.
    pub(super) fn set(&mut self, n: u32, now: u8) -> Result<(), DropReason> {
        let was = self.free(n).filter(|_| now <= WORDS).ok_or(DropReason::Inconsistent)?;
        if let Some(f) = self.free.get_mut(n as usize) {
            *f = now;
        }
        let (old, new) = (class(was), class(now));
        if old != new {
            self.count[old] -= 1;
            self.count[new] += 1;
            if self.first[old] == n {
                self.first[old] = self.next_of(old, n + 1);
            }
            if n < self.first[new] {
                self.first[new] = n;
            }
        }
        Ok(())
    }

    /// Adds `words`, which may be negative, to the free words of chunk `n`.
    ///
    /// # Errors
    /// As [`Space::set`].
    pub(super) fn adjust(&mut self, n: u32, words: i16) -> Result<(), DropReason> {
        let now = self.free(n).and_then(|f| u8::try_from(i16::from(f) + words).ok());
        self.set(n, now.ok_or(DropReason::Inconsistent)?)
    }

    /// The first chunk of class `c` from chunk `from` on.
    fn next_of(&self, c: usize, from: u32) -> u32 {
        if self.count[c] == 0 {
            return NONE;
        }
        let rest = self.free.get(from as usize..self.chunks as usize).unwrap_or(&[]);
        let is_it = |&f: &u8| if self.exact_last { usize::from(f) == c } else { class(f) == c };
        // Without an early exit within 64 chunks the loop compiles to a few vector comparisons.
        let none = |run: &&[u8]| !run.iter().fold(false, |any, f| any | is_it(f));
        let skip = 64 * rest.chunks(64).take_while(none).count();
        let at = rest.iter().skip(skip).position(is_it);
        at.map_or(NONE, |at| from + (skip + at) as u32)
    }

    /// The chunk for a record of `words` words: of the chunks with enough space those with the
    /// least, of these the first.
    pub(super) fn find(&self, words: usize) -> Option<u32> {
        self.first.get(words..)?.iter().copied().find(|&n| n != NONE)
    }

    /// Adds a free chunk at the end; returns its number.
    ///
    /// # Errors
    /// [`DropReason::Outgrown`].
    pub(super) fn grow(&mut self) -> Result<u32, DropReason> {
        let n = self.chunks;
        if n >= self.capacity() {
            return Err(DropReason::Outgrown);
        }
        self.chunks += 1;
        self.count[LAST] += 1;
        self.first[LAST] = self.first[LAST].min(n);
        Ok(n)
    }

    /// Truncates the directory to `chunks` chunks.
    ///
    /// # Errors
    /// [`DropReason::Inconsistent`] if a truncated chunk was not free.
    pub(super) fn truncate(&mut self, chunks: u32) -> Result<(), DropReason> {
        let truncated =
            self.free.get(chunks as usize..self.chunks as usize).ok_or(DropReason::Inconsistent)?;
        if truncated.iter().any(|&f| f != WORDS) {
            return Err(DropReason::Inconsistent);
        }
        self.count[LAST] -= truncated.len() as u32;
        self.chunks = chunks;
        // `first[LAST]` is the lowest free chunk: if it was truncated, all were.
        if self.first[LAST] != NONE && self.first[LAST] >= chunks {
            self.first[LAST] = NONE;
        }
        Ok(())
    }

    /// Number of chunks up to the last one that is not wholly free.
    pub(super) fn chunks_used(&self) -> u32 {
        let here = self.free.get(..self.chunks as usize).unwrap_or(&[]);
        here.iter().rposition(|&f| f != WORDS).map_or(0, |last| last as u32 + 1)
    }

    /// Whether chunk `n` is recorded with `free` words, in its class and in no other.
    pub(super) fn has_free(&self, n: u32, free: u8) -> bool {
        let c = class(free);
        let named_by = |k: usize| self.first.get(k) == Some(&n);
        self.free(n) == Some(free)
            && (self.first[c] <= n || self.exact_last)
            && (0..=LAST).all(|k| k == c || !named_by(k))
    }

    /// Recomputes everything; panics on a difference.
    #[cfg(test)]
    pub(super) fn audit(&self) {
        let (mut first, mut count) = ([NONE; LAST + 1], [0; LAST + 1]);
        for n in (0..self.chunks).rev() {
            let c = class(self.free[n as usize]);
            first[c] = n;
            count[c] += 1;
        }
        assert_eq!(first, self.first);
        assert_eq!(count, self.count);
        assert!(self.free[self.chunks as usize..].iter().all(|&f| f == WORDS));
    }
}
