//! The numbers newfs makes inodes hard to guess with.

use ffs_device::Rng;

/// Where generation numbers come from.
pub(super) enum Numbers<'a> {
    /// `-R`: 1, 2, 3, ...
    Counted(u32),
    /// Random ones.
    Drawn(&'a dyn Rng),
}

impl Numbers<'_> {
    /// The next number; never 0, which means "no generation yet".
    pub(super) fn next(&mut self) -> u32 {
        match self {
            Numbers::Counted(last) => {
                *last = last.wrapping_add(1);
                *last
            }
            Numbers::Drawn(rng) => loop {
                let n = rng.next_u32();
                if n != 0 {
                    return n;
                }
            },
        }
    }
}
