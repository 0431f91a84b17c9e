//! An index over numbered things that lie anywhere in memory: open addressing with linear probing, and no
//! tombstones.
//!
//! # Invariants
//! 1. A slot holds a thing's number together with its whole hash, so that neither growing nor closing a gap has to
//!    look at the things; and a handle of what is wanted of it, which is so found without another search. A search
//!    waits for one line of memory, and [`OpenHash::prefetch`] asks for it early.
//! 2. From the slot a thing's hash names to the one it is in, every slot is taken: a search may end at
//!    the first empty one. Removing closes the gap it leaves.
//! 3. At most three quarters of the slots are taken.

use crate::prefetch;

/// Number of a thing.
pub(crate) type At = u32;

/// No thing.
pub(crate) const NIL: At = At::MAX;

/// Where a thing's number is kept.
#[derive(Debug)]
struct Slot<H> {
    hash: u32,
    at: At,
    means: Option<H>,
}

impl<H> Slot<H> {
    const EMPTY: Slot<H> = Slot { hash: 0, at: NIL, means: None };
}

/// Fewest slots of an index that holds anything.
const FEWEST: usize = 64;

/// Numbers by hash.
#[derive(Debug)]
pub(crate) struct OpenHash<H> {
    /// None, or a power of two.
    slots: Vec<Slot<H>>,
    taken: usize,
}

impl<H> Default for OpenHash<H> {
    fn default() -> OpenHash<H> {
        OpenHash { slots: Vec::new(), taken: 0 }
    }
}

impl<H> OpenHash<H> {
    /// The thing with this hash for which `is` holds, and what it means. `is` is told both.
    pub(crate) fn find(
        &self,
        hash: u32,
        mut is: impl FnMut(At, Option<&H>) -> bool,
    ) -> Option<(At, Option<&H>)> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut i = hash as usize & mask;
        loop {
            let slot = self.slots.get(i)?;
            if slot.at == NIL {
                return None;
            }
            if slot.hash == hash && is(slot.at, slot.means.as_ref()) {
                return Some((slot.at, slot.means.as_ref()));
            }
            i = (i + 1) & mask;
        }
    }

    /// Adds a thing that is not in the index.
    pub(crate) fn insert(&mut self, hash: u32, at: At, means: Option<H>) {
        if (self.taken + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        self.taken += 1;
        self.put(Slot { hash, at, means });
    }

    fn put(&mut self, new: Slot<H>) {
        let mask = self.slots.len() - 1;
        let mut i = new.hash as usize & mask;
        while let Some(slot) = self.slots.get_mut(i) {
            if slot.at == NIL {
                *slot = new;
                return;
            }
            i = (i + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let more = (self.slots.len() * 2).max(FEWEST);
        let empty = std::iter::repeat_with(|| Slot::EMPTY).take(more).collect();
        let old = std::mem::replace(&mut self.slots, empty);
        for slot in old.into_iter().filter(|s| s.at != NIL) {
            self.put(slot);
        }
    }

    /// Takes a thing out; tells what it meant.
    pub(crate) fn remove(&mut self, hash: u32, at: At) -> Option<H> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut gap = hash as usize & mask;
        while self.slots[gap].at != at {
            if self.slots[gap].at == NIL {
                return None;
            }
            gap = (gap + 1) & mask;
        }
        self.taken -= 1;
        let gone = std::mem::replace(&mut self.slots[gap], Slot::EMPTY);
        let mut i = gap;
        loop {
            i = (i + 1) & mask;
            let slot = &self.slots[i];
            if slot.at == NIL {
                return gone.means;
            }
            // It may move into the gap unless its search begins behind the gap.
            let home = slot.hash as usize & mask;
            if i.wrapping_sub(home) & mask >= i.wrapping_sub(gap) & mask {
                self.slots.swap(i, gap);
                gap = i;
            }
        }
    }

    /// Has the slots that a search for `hash` looks at fetched.
    pub(crate) fn prefetch(&self, hash: u32) {
        let Some(mask) = self.slots.len().checked_sub(1) else { return };
        if let Some(slot) = self.slots.get(hash as usize & mask) {
            prefetch::line(slot);
        }
    }

    /// Things in it.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    /// Memory in use, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<H>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_testkit::rng::SplitMix64;
    use std::collections::BTreeMap;

    /// Few different hashes, so that long rows of slots form, break up and wrap around.
    #[test]
    fn agrees_with_a_map() {
        const SEED: u64 = 0x1dec_5eed;
        println!("seed {SEED:#x}");
        let mut rng = SplitMix64::new(SEED);
        let (mut index, mut model) = (OpenHash::default(), BTreeMap::<At, u32>::new());
        for step in 0..60_000 {
            let at = rng.below(400) as At;
            // The last slots of the table, whatever its size.
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
            assert_eq!(index.taken, model.len());
            assert_eq!(index.find(hash, |a, _| a == 1000), None);
        }
        assert!(model.iter().all(|(at, hash)| index.find(*hash, |a, _| a == *at).is_some()));
        assert!(index.slots.iter().filter(|s| s.at != NIL).count() == model.len());
    }
}
