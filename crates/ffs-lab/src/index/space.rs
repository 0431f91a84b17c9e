//! The free space of each chunk of a directory, in memory: dirhash's summary.
//!
//! # Invariants
//! 1. `first[c]` is the lowest chunk of class `c`. The last class is "at least that much".
//!
//! Reference: `docs/spec/directories-and-caches.md` §3.5, §3.6.

/// Bytes of the unit of free space.
const WORD: usize = 4;
/// Words of the largest entry.
const LARGEST: usize = 66;
const NONE: u32 = u32::MAX;

/// The free space of the chunks of a directory.
#[derive(Debug)]
pub(super) struct FreeSpace {
    /// Free words of each chunk.
    words: Vec<u8>,
    first: [u32; LARGEST + 1],
}

fn class(words: u8) -> usize {
    usize::from(words).min(LARGEST)
}

impl FreeSpace {
    pub(super) fn new() -> FreeSpace {
        FreeSpace { words: Vec::new(), first: [NONE; LARGEST + 1] }
    }

    /// Adds a chunk with this many free bytes.
    pub(super) fn push(&mut self, free: usize) {
        let (chunk, words) = (self.words.len() as u32, (free / WORD) as u8);
        self.words.push(words);
        let first = &mut self.first[class(words)];
        *first = (*first).min(chunk);
    }

    /// Sets the free bytes of a chunk.
    pub(super) fn set(&mut self, chunk: u32, free: usize) {
        let Some(words) = self.words.get_mut(chunk as usize) else { return };
        let (old, new) = (class(*words), class((free / WORD) as u8));
        *words = (free / WORD) as u8;
        if old == new {
            return;
        }
        if self.first[old] == chunk {
            let rest = self.words.get(chunk as usize + 1..).unwrap_or(&[]);
            let next = rest.iter().position(|words| class(*words) == old);
            self.first[old] = next.map_or(NONE, |at| chunk + 1 + at as u32);
        }
        self.first[new] = self.first[new].min(chunk);
    }

    /// The chunk for an entry of `need` bytes: the least space that suffices, the lowest chunk.
    pub(super) fn find(&self, need: usize) -> Option<u32> {
        let from = need.div_ceil(WORD).min(LARGEST);
        self.first[from..].iter().copied().find(|chunk| *chunk != NONE)
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        self.words.len() as u64 + size_of_val(&self.first) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_space_that_suffices_is_found_and_the_lowest_chunk() {
        let mut space = FreeSpace::new();
        for free in [16, 512, 24, 24, 300] {
            space.push(free);
        }
        assert_eq!(space.find(12), Some(0));
        assert_eq!(space.find(20), Some(2));
        // Both are of the last class: the lowest counts, not the fullest.
        assert_eq!(space.find(264), Some(1));
        space.set(2, 0);
        assert_eq!(space.find(20), Some(3));
        space.set(1, 0);
        assert_eq!(space.find(264), Some(4));
        space.set(4, 512);
        space.set(3, 8);
        assert_eq!((space.find(20), space.find(28)), (Some(4), Some(4)));
        space.set(4, 0);
        assert_eq!(space.find(20), None);
    }
}
