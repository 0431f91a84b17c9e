//! A slab allocator with generational keys, for many small values with short lives.
//!
//! It grows and shrinks by slabs of a fixed size. It never moves a value, so no insertion pays for
//! the growth of the whole.
//!
//! # Invariants
//! 1. The key of a removed value never finds a later value in the same slot: each insertion has its
//!    own serial number.
//! 2. `open` lists exactly the slabs with a free slot. At most one slab without values keeps its
//!    memory.

use std::num::NonZeroU32;

/// Slots in a slab.
const SLAB: u32 = 256;

/// The key of a value; ordered by slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ArenaKey {
    slot: u32,
    serial: NonZeroU32,
}

impl ArenaKey {
    /// The slot, for an owner that removes the value itself and needs no serial number.
    pub(super) fn slot(self) -> u32 {
        self.slot
    }
}

#[derive(Debug)]
pub(super) enum ArenaSlot<T> {
    /// The next free slot of the slab.
    Free(Option<u8>),
    Used(NonZeroU32, T),
}

#[derive(Debug)]
struct Slab<T> {
    slots: Vec<ArenaSlot<T>>,
    free: Option<u8>,
    live: u32,
}

impl<T> Slab<T> {
    fn has_free_slot(&self) -> bool {
        self.live < SLAB
    }

    /// Fills a free slot; the caller has checked that there is one.
    #[inline]
    fn take(&mut self, with: ArenaSlot<T>) -> u8 {
        self.live += 1;
        if let Some(free) = self.free
            && let Some(at) = self.slots.get_mut(usize::from(free))
        {
            if let ArenaSlot::Free(next) = at {
                self.free = *next;
            }
            *at = with;
            return free;
        }
        if self.slots.capacity() == 0 {
            self.slots.reserve_exact(SLAB as usize);
        }
        self.slots.push(with);
        (self.slots.len() - 1) as u8
    }
}

/// Values of one type.
#[derive(Debug)]
pub(super) struct Arena<T> {
    slabs: Vec<Slab<T>>,
    open: Vec<u32>,
    len: usize,
    /// Serial number of the next insertion.
    serial: NonZeroU32,
}

impl<T> Arena<T> {
    pub(super) fn new() -> Arena<T> {
        Arena { slabs: Vec::new(), open: Vec::new(), len: 0, serial: NonZeroU32::MIN }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Stores `value`.
    #[inline]
    pub(super) fn insert(&mut self, value: T) -> ArenaKey {
        let serial = self.serial;
        self.serial = serial.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.len += 1;
        let number = match self.open.last() {
            Some(number) => *number,
            None => {
                let number = self.slabs.len() as u32;
                self.slabs.push(Slab { slots: Vec::new(), free: None, live: 0 });
                self.open.push(number);
                number
            }
        };
        let slab = &mut self.slabs[number as usize];
        let within = slab.take(ArenaSlot::Used(serial, value));
        if !slab.has_free_slot() {
            self.open.pop();
        }
        ArenaKey { slot: number * SLAB + u32::from(within), serial }
    }

    #[inline]
    fn used(&self, slot: u32) -> Option<(NonZeroU32, &T)> {
        let slab = self.slabs.get((slot / SLAB) as usize)?;
        match slab.slots.get((slot % SLAB) as usize)? {
            ArenaSlot::Used(serial, value) => Some((*serial, value)),
            ArenaSlot::Free(_) => None,
        }
    }

    #[inline]
    fn used_mut(&mut self, slot: u32) -> Option<(NonZeroU32, &mut T)> {
        let slab = self.slabs.get_mut((slot / SLAB) as usize)?;
        match slab.slots.get_mut((slot % SLAB) as usize)? {
            ArenaSlot::Used(serial, value) => Some((*serial, value)),
            ArenaSlot::Free(_) => None,
        }
    }

    #[inline]
    pub(super) fn get(&self, id: ArenaKey) -> Option<&T> {
        self.used(id.slot).filter(|(serial, _)| *serial == id.serial).map(|(_, value)| value)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: ArenaKey) -> Option<&mut T> {
        self.used_mut(id.slot).filter(|(serial, _)| *serial == id.serial).map(|(_, value)| value)
    }

    /// The value in this slot now.
    #[inline]
    pub(super) fn at(&self, slot: u32) -> Option<&T> {
        self.used(slot).map(|(_, value)| value)
    }

    #[inline]
    pub(super) fn at_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.used_mut(slot).map(|(_, value)| value)
    }

    pub(super) fn contains_key(&self, id: ArenaKey) -> bool {
        self.get(id).is_some()
    }

    pub(super) fn remove(&mut self, id: ArenaKey) -> Option<T> {
        self.get(id)?;
        self.remove_at(id.slot)
    }

    /// As [`Arena::remove`], for the value in this slot now.
    pub(super) fn remove_at(&mut self, slot: u32) -> Option<T> {
        self.at(slot)?;
        let (number, within) = (slot / SLAB, slot % SLAB);
        let slab = self.slabs.get_mut(number as usize)?;
        let slot = slab.slots.get_mut(within as usize)?;
        let was = std::mem::replace(slot, ArenaSlot::Free(slab.free));
        slab.free = Some(within as u8);
        if !slab.has_free_slot() {
            self.open.push(number);
        }
        slab.live -= 1;
        self.len -= 1;
        if slab.live == 0 && self.len > 0 {
            (slab.slots, slab.free) = (Vec::new(), None);
        }
        match was {
            ArenaSlot::Used(_, value) => Some(value),
            ArenaSlot::Free(_) => None,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ArenaKey, &T)> {
        self.slabs.iter().zip(0u32..).flat_map(|(slab, number)| {
            slab.slots.iter().zip(number * SLAB..).filter_map(|(at, slot)| match at {
                ArenaSlot::Used(serial, value) => Some((ArenaKey { slot, serial: *serial }, value)),
                ArenaSlot::Free(_) => None,
            })
        })
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }

    /// Bytes of memory, without allocations of the values.
    pub(super) fn bytes(&self) -> usize {
        let slots = self.slabs.iter().map(|slab| slab.slots.capacity()).sum::<usize>();
        slots * size_of::<ArenaSlot<T>>()
            + self.slabs.capacity() * size_of::<Slab<T>>()
            + self.open.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_device::{Rng, SplitMix64};
    use std::collections::BTreeMap;

    #[test]
    fn a_key_names_one_thing_and_memory_is_given_back() {
        let (mut a, mut model, mut removed) = (Arena::new(), BTreeMap::new(), Vec::new());
        let rng = SplitMix64::new(0xa2e4a);
        for n in 0..60_000u64 {
            // More and more at first, then less and less.
            if rng.below(60_000) > n || model.is_empty() {
                let id = a.insert(n);
                assert_eq!(model.insert(id, n), None);
            } else {
                let nth = rng.below(model.len().min(500) as u64) as usize;
                let id = *model.keys().nth(nth).unwrap();
                assert_eq!(a.remove(id), model.remove(&id));
                removed.push(id);
            }
            assert_eq!(a.len(), model.len());
        }
        for (&id, n) in &model {
            assert_eq!(a.get(id), Some(n));
        }
        assert_eq!(a.values().count(), model.len());
        for id in model.into_keys() {
            a.remove(id);
        }
        assert!(a.bytes() <= SLAB as usize * size_of::<ArenaSlot<u64>>() + 16384, "{}", a.bytes());
        let new: Vec<ArenaKey> = (0..1000).map(|n| a.insert(n)).collect();
        assert!(removed.iter().all(|&id| !a.contains_key(id) && !new.contains(&id)));
    }
}
