//! Memory of dropped blocks, kept for new ones, so that streaming a file does not fault in fresh
//! pages.

/// Most vectors kept.
const SPARE_MAX: usize = 64;

/// The content of a new buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NewContent {
    /// Zeros.
    Zeroed,
    /// Arbitrary bytes: the caller overwrites all of them.
    Arbitrary,
}

/// A stack of spare byte vectors.
#[derive(Debug, Default)]
pub(super) struct SpareBuffers(Vec<Vec<u8>>);

impl SpareBuffers {
    /// A vector of `len` bytes.
    pub(super) fn take(&mut self, len: usize, content: NewContent) -> Vec<u8> {
        // A fragment must not occupy the memory of a block: the cache charges lengths.
        let fits = |v: &Vec<u8>| (len..=2 * len).contains(&v.capacity());
        let found = self.0.iter().rposition(fits);
        let mut v = found.map(|at| self.0.swap_remove(at)).unwrap_or_default();
        if content == NewContent::Zeroed {
            v.clear();
        }
        v.resize(len, 0);
        v
    }

    /// Keeps `v`; if there are enough, in place of the one kept longest.
    pub(super) fn put(&mut self, v: Vec<u8>) {
        if self.0.len() >= SPARE_MAX {
            self.0.swap_remove(0);
        }
        if v.capacity() > 0 {
            self.0.push(v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_block_does_not_get_the_memory_of_a_large_one() {
        let mut spare = SpareBuffers::default();
        spare.put(Vec::with_capacity(32768));
        assert!(spare.take(2048, NewContent::Zeroed).capacity() < 32768);
        assert!(spare.take(32768, NewContent::Zeroed).capacity() >= 32768);
    }

    #[test]
    fn reused_memory_is_zeroed_on_request() {
        let mut spare = SpareBuffers::default();
        spare.put(vec![7; 4096]);
        assert_eq!(spare.take(4096, NewContent::Zeroed), vec![0; 4096]);
    }
}
