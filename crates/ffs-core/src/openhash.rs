//! An open-addressing hash table of numbered items: linear probing, no tombstones.
//!
//! # Invariants
//! 1. A bucket has an item's number, its whole hash and a handle of the item. Growing the table and
//!    closing a gap therefore read no item, and a search that finds an item needs no second lookup
//!    for the handle. A search waits for one cache line; [`OpenHash::prefetch`] fetches it early.
//! 2. Between the bucket that an item's hash selects and the bucket of the item every bucket is
//!    occupied, so a search may end at the first empty one. Removing an item closes its gap.
//! 3. At most three quarters of the buckets are occupied.

use crate::prefetch;

/// The number of an item.
pub(crate) type ItemId = u32;

/// The number that means no item.
pub(crate) const NIL: ItemId = ItemId::MAX;

/// One bucket; empty if `id` is [`NIL`].
#[derive(Debug)]
struct Bucket<H> {
    hash: u32,
    id: ItemId,
    handle: Option<H>,
}

impl<H> Bucket<H> {
    const EMPTY: Bucket<H> = Bucket { hash: 0, id: NIL, handle: None };
}

/// Fewest buckets of a table that is not empty.
const MIN_BUCKETS: usize = 64;

/// Items by hash.
#[derive(Debug)]
pub(crate) struct OpenHash<H> {
    /// Their number is 0 or a power of two.
    buckets: Vec<Bucket<H>>,
    /// Items in the table.
    len: usize,
}

impl<H> Default for OpenHash<H> {
    fn default() -> OpenHash<H> {
        OpenHash { buckets: Vec::new(), len: 0 }
    }
}

impl<H> OpenHash<H> {
    /// The item with this hash for which `is_match` holds, and its handle.
    pub(crate) fn find(
        &self,
        hash: u32,
        mut is_match: impl FnMut(ItemId, Option<&H>) -> bool,
    ) -> Option<(ItemId, Option<&H>)> {
        let mask = self.buckets.len().checked_sub(1)?;
        let mut i = hash as usize & mask;
        loop {
            let bucket = self.buckets.get(i)?;
            if bucket.id == NIL {
                return None;
            }
            if bucket.hash == hash && is_match(bucket.id, bucket.handle.as_ref()) {
                return Some((bucket.id, bucket.handle.as_ref()));
            }
            i = (i + 1) & mask;
        }
    }

    /// Adds an item that is not in the table.
    pub(crate) fn insert(&mut self, hash: u32, id: ItemId, handle: Option<H>) {
        if (self.len + 1) * 4 > self.buckets.len() * 3 {
            self.grow();
        }
        self.len += 1;
        self.put(Bucket { hash, id, handle });
    }

    fn put(&mut self, new: Bucket<H>) {
        let mask = self.buckets.len() - 1;
        let mut i = new.hash as usize & mask;
        while let Some(bucket) = self.buckets.get_mut(i) {
            if bucket.id == NIL {
                *bucket = new;
                return;
            }
            i = (i + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let len = (self.buckets.len() * 2).max(MIN_BUCKETS);
        let empty = std::iter::repeat_with(|| Bucket::EMPTY).take(len).collect();
        let old = std::mem::replace(&mut self.buckets, empty);
        for bucket in old.into_iter().filter(|b| b.id != NIL) {
            self.put(bucket);
        }
    }

    /// Removes an item and returns its handle.
    pub(crate) fn remove(&mut self, hash: u32, id: ItemId) -> Option<H> {
        let mask = self.buckets.len().checked_sub(1)?;
        let mut gap = hash as usize & mask;
        while self.buckets[gap].id != id {
            if self.buckets[gap].id == NIL {
                return None;
            }
            gap = (gap + 1) & mask;
        }
        self.len -= 1;
        let removed = std::mem::replace(&mut self.buckets[gap], Bucket::EMPTY);
        let mut i = gap;
        loop {
            i = (i + 1) & mask;
            let bucket = &self.buckets[i];
            if bucket.id == NIL {
                return removed.handle;
            }
            // It may move into the gap unless its search begins behind the gap.
            let first = bucket.hash as usize & mask;
            if i.wrapping_sub(first) & mask >= i.wrapping_sub(gap) & mask {
                self.buckets.swap(i, gap);
                gap = i;
            }
        }
    }

    /// Fetches the bucket that a search for `hash` reads first into the processor's cache.
    pub(crate) fn prefetch(&self, hash: u32) {
        let Some(mask) = self.buckets.len().checked_sub(1) else { return };
        if let Some(bucket) = self.buckets.get(hash as usize & mask) {
            prefetch::line(bucket);
        }
    }

    /// Items in the table.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Memory in use, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket<H>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_testkit::rng::SplitMix64;
    use std::collections::BTreeMap;

    /// There are few different hashes, so that long runs of buckets form, break up and wrap around.
    #[test]
    fn agrees_with_a_map() {
        const SEED: u64 = 0x1dec_5eed;
        println!("seed {SEED:#x}");
        let mut rng = SplitMix64::new(SEED);
        let (mut index, mut model) = (OpenHash::default(), BTreeMap::<ItemId, u32>::new());
        for step in 0..60_000 {
            let at = rng.below(400) as ItemId;
            // Selects one of the last buckets of a table of any size.
            let hash = u32::MAX - rng.below(40) as u32;
            match model.get(&at).copied() {
                Some(hash) => {
                    let found = index.find(hash, |a, _| a == at);
                    assert_eq!(found, Some((at, Some(&!at))), "step {step}");
                    assert_eq!(index.remove(hash, at), Some(!at), "step {step}");
                    model.remove(&at);
                }
                None => {
                    index.insert(hash, at, Some(!at));
                    model.insert(at, hash);
                }
            }
            assert_eq!(index.len, model.len());
            assert_eq!(index.find(hash, |a, _| a == 1000), None);
        }
        assert!(model.iter().all(|(at, hash)| index.find(*hash, |a, _| a == *at).is_some()));
        assert!(index.buckets.iter().filter(|b| b.id != NIL).count() == model.len());
    }
}
