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

    #[cfg(test)]
    pub(super) fn free(&self, chunk: u32) -> usize {
        self.words.get(chunk as usize).map_or(0, |words| usize::from(*words) * WORD)
    }
}
