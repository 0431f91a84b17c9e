//! Inode generation numbers (`di_gen`).

use ffs_device::Rng;

/// Source of generation numbers.
pub(crate) enum GenNumbers<'a> {
    /// `-R`: 1, 2, 3, ...
    Counted(u32),
    /// Random numbers.
    Random(&'a dyn Rng),
}

impl GenNumbers<'_> {
    /// The next number; never 0, because 0 means that the inode has no generation yet.
    pub(crate) fn next(&mut self) -> u32 {
        match self {
            GenNumbers::Counted(last) => {
                *last = last.wrapping_add(1);
                *last
            }
            GenNumbers::Random(rng) => loop {
                let n = rng.next_u32();
                if n != 0 {
                    return n;
                }
            },
        }
    }
}
