//! Seeded orders.
//!
//! The shuffle is that of `randfiles` (`docs/spec/benchmarks.md` §4.9): for i = n .. 1 it swaps
//! element i-1 with a random element that is not behind it. The random numbers are those of
//! SplitMix64, so that an order is the same on every computer.

use ffs_device::{Rng, SplitMix64};

/// The purpose of an order. Each purpose has its own order under one seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Creating files.
    Create = 1,
    /// `stat` of files.
    Stat = 2,
    /// `stat` of names that do not exist.
    Miss = 3,
    /// Renaming files.
    Rename = 4,
    /// Removing files.
    Unlink = 5,
    /// Running the jobs of a study.
    Jobs = 6,
    /// Reading memory.
    Memory = 7,
}

/// The numbers below `n`, shuffled.
#[must_use]
pub(crate) fn shuffled(n: u32, seed: u64, purpose: Purpose) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n).collect();
    // Mixes the seed, so that adjacent seeds and the purposes of one seed have unrelated streams.
    let rng = SplitMix64::new(SplitMix64::new(seed).next_u64() ^ (purpose as u64) << 32);
    for i in (1..order.len()).rev() {
        // At most n, which is a u32.
        let j = rng.below(i as u64 + 1) as usize;
        order.swap(i, j);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_is_a_permutation_and_follows_from_seed_and_purpose() {
        let a = shuffled(1000, 7, Purpose::Create);
        assert_eq!(a, shuffled(1000, 7, Purpose::Create));
        assert_ne!(a, shuffled(1000, 8, Purpose::Create));
        assert_ne!(a, shuffled(1000, 7, Purpose::Stat));
        let mut sorted = a.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<u32>>());
        assert!(a.iter().zip(0..).filter(|(at, i)| **at == *i).count() < 20, "hardly shuffled");
        assert!(shuffled(0, 1, Purpose::Miss).is_empty());
        assert_eq!(shuffled(1, 1, Purpose::Miss), vec![0u32]);
    }

    #[test]
    fn every_order_is_equally_likely() {
        let mut first = [0u32; 5];
        for seed in 0..5000 {
            first[shuffled(5, seed, Purpose::Rename)[0] as usize] += 1;
        }
        assert!(first.iter().all(|n| (850..1150).contains(n)), "{first:?}");
    }
}
