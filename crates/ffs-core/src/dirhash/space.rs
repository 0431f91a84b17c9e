//! Room in the chunks of a directory: a byte for each, and for each amount of room the first chunk
//! that has it.
//!
//! Room is counted in words of 4 bytes. An amount of `LAST` or more is all one class: it is enough
//! for every name.
//!
//! # Invariants
//! 1. `first[c]` is the lowest chunk of class `c`, `NONE` if there is none; `count[c]` is how many
//!    there are.
//! 2. Chunks beyond the directory's end are counted nowhere, and noted as wholly free.
//!
//! The counts are our own: they tell without a search that a class has become empty, so that the
//! cost of a change does not grow with the directory.
//!
//! Reference: `spec/directories-and-caches.md` §3.5, §3.6.

use super::index::Gone;
use ffs_ondisk::geometry::DIRBLKSIZ;

/// Bytes of a word.
pub(super) const WORD: usize = 4;
/// Words of a chunk.
pub(super) const WORDS: u8 = (DIRBLKSIZ / WORD) as u8;
/// The class of chunks that have room for every name.
const LAST: usize = 67;
const NONE: u32 = u32::MAX;

/// Room in the chunks of one directory.
#[derive(Debug)]
pub(super) struct Space {
    /// Free words of each chunk.
    free: Vec<u8>,
    /// Chunks the directory has.
    chunks: u32,
    first: [u32; LAST + 1],
    count: [u32; LAST + 1],
    /// Find in the last class only chunks with exactly that much, as the code the paper measured.
    exact_last: bool,
}

fn class(free: u8) -> usize {
    usize::from(free).min(LAST)
}

impl Space {
    /// `chunks` chunks, all free, and place for `most`.
    pub(super) fn new(chunks: u32, most: u32, exact_last: bool) -> Space {
        let (mut first, mut count) = ([NONE; LAST + 1], [0; LAST + 1]);
        if chunks > 0 {
            (first[LAST], count[LAST]) = (0, chunks);
        }
        Space { free: vec![WORDS; most as usize], chunks, first, count, exact_last }
    }

    /// Chunks the directory has.
    pub(super) fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Chunks there is place for.
    pub(super) fn most(&self) -> u32 {
        self.free.len() as u32
    }

    /// Free words of chunk `n`.
    pub(super) fn free(&self, n: u32) -> Option<u8> {
        self.free.get(n as usize).copied().filter(|_| n < self.chunks)
    }

    /// Sets the free words of chunk `n`.
    ///
    /// # Errors
    /// There is no such chunk, or so much room in none.
    pub(super) fn set(&mut self, n: u32, now: u8) -> Result<(), Gone> {
        let was = self.free(n).filter(|_| now <= WORDS).ok_or(Gone::Doubt)?;
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

    /// Adds `words` to the room of chunk `n`, which may be less than none.
    ///
    /// # Errors
    /// As [`Space::set`].
    pub(super) fn adjust(&mut self, n: u32, words: i16) -> Result<(), Gone> {
        let now = self.free(n).and_then(|f| u8::try_from(i16::from(f) + words).ok());
        self.set(n, now.ok_or(Gone::Doubt)?)
    }

    /// The first chunk of a class from `from` on.
    fn next_of(&self, c: usize, from: u32) -> u32 {
        if self.count[c] == 0 {
            return NONE;
        }
        let rest = self.free.get(from as usize..self.chunks as usize).unwrap_or(&[]);
        let is_it = |&f: &u8| if self.exact_last { usize::from(f) == c } else { class(f) == c };
        // Without an early exit in a run of 64 it compiles to a few comparisons.
        let none = |run: &&[u8]| !run.iter().fold(false, |any, f| any | is_it(f));
        let skip = 64 * rest.chunks(64).take_while(none).count();
        let at = rest.iter().skip(skip).position(is_it);
        at.map_or(NONE, |at| from + (skip + at) as u32)
    }

    /// The chunk a record of `words` goes to: of those with room the fullest, of these the first.
    pub(super) fn find(&self, words: usize) -> Option<u32> {
        self.first.get(words..)?.iter().copied().find(|&n| n != NONE)
    }

    /// One chunk more at the end, wholly free.
    ///
    /// # Errors
    /// There is no place for it.
    pub(super) fn grow(&mut self) -> Result<u32, Gone> {
        let n = self.chunks;
        if n >= self.most() {
            return Err(Gone::Outgrown);
        }
        self.chunks += 1;
        self.count[LAST] += 1;
        self.first[LAST] = self.first[LAST].min(n);
        Ok(n)
    }

    /// The directory has `chunks` chunks now: those cut off were free.
    ///
    /// # Errors
    /// They were not.
    pub(super) fn cut(&mut self, chunks: u32) -> Result<(), Gone> {
        let gone = self.free.get(chunks as usize..self.chunks as usize).ok_or(Gone::Doubt)?;
        if gone.iter().any(|&f| f != WORDS) {
            return Err(Gone::Doubt);
        }
        self.count[LAST] -= gone.len() as u32;
        self.chunks = chunks;
        // The lowest of them: if it went, all did.
        if self.first[LAST] != NONE && self.first[LAST] >= chunks {
            self.first[LAST] = NONE;
        }
        Ok(())
    }

    /// How many chunks there are up to the last one that is not wholly free.
    pub(super) fn useful(&self) -> u32 {
        let here = self.free.get(..self.chunks as usize).unwrap_or(&[]);
        here.iter().rposition(|&f| f != WORDS).map_or(0, |last| last as u32 + 1)
    }

    /// Whether chunk `n` is noted with `free` words, and with no other class than its own.
    pub(super) fn is_noted(&self, n: u32, free: u8) -> bool {
        let c = class(free);
        let named_by = |k: usize| self.first.get(k) == Some(&n);
        self.free(n) == Some(free)
            && (self.first[c] <= n || self.exact_last)
            && (0..=LAST).all(|k| k == c || !named_by(k))
    }

    /// Recomputes everything; panics where it differs.
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
