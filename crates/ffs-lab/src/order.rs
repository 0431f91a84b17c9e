//! Seeded orders.
//!
//! The shuffle is randfiles' (`spec/benchmarks.md` §4.9): for i = n .. 1 swap place i-1 with a random
//! one not behind it. The numbers are SplitMix64's, so an order is the same on every machine.

use ffs_device::{Rng, SplitMix64};

/// What an order is for: each gets its own from one seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Files made.
    Create = 1,
    /// Files looked at.
    Stat = 2,
    /// Names that do not exist.
    Miss = 3,
    /// Files renamed.
    Rename = 4,
    /// Files removed.
    Unlink = 5,
    /// Jobs of a study.
    Jobs = 6,
    /// Places of memory.
    Memory = 7,
}

/// The numbers below `n`, shuffled.
#[must_use]
pub fn shuffled(n: u32, seed: u64, purpose: Purpose) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n).collect();
    // Seeds that follow each other, and the purposes of one seed, get streams far apart.
    let rng = SplitMix64::new(SplitMix64::new(seed).next_u64() ^ (purpose as u64) << 32);
    for i in (1..order.len()).rev() {
        // At most n, which is an u32's.
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
    fn every_place_is_as_likely() {
        let mut first = [0u32; 5];
        for seed in 0..5000 {
            first[shuffled(5, seed, Purpose::Rename)[0] as usize] += 1;
        }
        assert!(first.iter().all(|n| (850..1150).contains(n)), "{first:?}");
    }
}
