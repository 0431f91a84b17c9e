//! Block memory that is used again, so that streaming a file does not fault in fresh pages.

/// Spare blocks kept.
const KEEP: usize = 64;

/// A stack of spare byte vectors.
#[derive(Debug, Default)]
pub(crate) struct Pool(Vec<Vec<u8>>);

impl Pool {
    /// A vector of `len` bytes. With `zero` they are zeros; without, anything: the caller must
    /// overwrite them all.
    pub(crate) fn take(&mut self, len: usize, zero: bool) -> Vec<u8> {
        // A fragment must not hold on to a block's memory: the cache counts lengths.
        let fits = |v: &Vec<u8>| (len..=2 * len).contains(&v.capacity());
        let found = self.0.iter().rposition(fits);
        let mut v = found.map(|at| self.0.swap_remove(at)).unwrap_or_default();
        if zero {
            v.clear();
        }
        v.resize(len, 0);
        v
    }

    /// Keeps `v` for later, in the place of the one kept longest if there are enough.
    pub(crate) fn give(&mut self, v: Vec<u8>) {
        if self.0.len() >= KEEP {
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
    fn a_small_block_does_not_keep_a_large_ones_memory() {
        let mut pool = Pool::default();
        pool.give(Vec::with_capacity(32768));
        assert!(pool.take(2048, true).capacity() < 32768);
        assert!(pool.take(32768, true).capacity() >= 32768);
    }

    #[test]
    fn memory_used_again_is_zeroed_when_asked() {
        let mut pool = Pool::default();
        pool.give(vec![7; 4096]);
        assert_eq!(pool.take(4096, true), vec![0; 4096]);
    }
}
