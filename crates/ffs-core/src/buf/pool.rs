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
        let mut v = self.0.pop().unwrap_or_default();
        if zero {
            v.clear();
        }
        v.resize(len, 0);
        v
    }

    /// Keeps `v` for later.
    pub(crate) fn give(&mut self, v: Vec<u8>) {
        if self.0.len() < KEEP && v.capacity() > 0 {
            self.0.push(v);
        }
    }
}
