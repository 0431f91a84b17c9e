//! The slots: open addressing with linear probing, in blocks of 256.
//!
//! # Invariants
//! 1. Between the home slot of an entry and its slot no slot is EMPTY: a search ends at the first
//!    EMPTY.
//! 2. `used` is the number of slots that are not EMPTY. It stays below the number of slots, so
//!    there is always an EMPTY.
//! 3. The tag of a slot is that of the name whose record it refers to.
//!
//! A slot has the offset divided by 4 in its low bits and the tag above. The tag is made of all
//! bits of the hash: it distinguishes hashes with the same home slot, and hashes with neighbouring
//! home slots. No record starts in the last eight bytes of a chunk, so the two values of EMPTY and
//! DEL are not the offset of a record.
//!
//! Reference: `spec/directories-and-caches.md` §3.2, §3.8.

use crate::prefetch;
use ffs_ondisk::DirOff;

/// Slots of a block.
pub(super) const BLOCK: usize = 256;
/// Never used, or not needed by any chain.
const EMPTY: u32 = u32::MAX;
/// Deleted; a search continues.
const DEL: u32 = u32::MAX - 1;

/// Carries every bit of a hash into the high bits (2^32 divided by the golden ratio).
const MIX: u32 = 0x9e37_79b1;

/// The slot where the search for a name begins, and the tag of the name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    slot: u32,
    tag: u32,
}

/// The slots of one index.
#[derive(Debug)]
pub(super) struct Table {
    #[allow(clippy::vec_box, reason = "no allocation of many megabytes at once")]
    blocks: Vec<Box<[u32; BLOCK]>>,
    len: u32,
    used: u32,
    /// Bits of a slot for the offset.
    offset_bits: u32,
}

/// The state of a slot for a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Probe {
    /// A record whose name has the tag that is searched.
    Candidate(DirOff),
    /// A record with another tag, or a deleted slot.
    Other,
    /// The end of the chain.
    Empty,
}

impl Table {
    /// A table of `blocks` blocks, for offsets below `end`.
    pub(super) fn new(blocks: usize, end: u64) -> Table {
        let offset_bits = (end / 4).next_power_of_two().trailing_zeros().min(31);
        let len = (blocks * BLOCK) as u32;
        let blocks = std::iter::repeat_with(|| Box::new([EMPTY; BLOCK])).take(blocks).collect();
        Table { blocks, len, used: 0, offset_bits }
    }

    /// Number of slots.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Slots that are not EMPTY.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    pub(super) fn home(&self, hash: u32) -> Home {
        let len = self.len.max(1);
        Home {
            slot: hash % len,
            tag: hash.wrapping_mul(MIX) >> self.offset_bits << self.offset_bits,
        }
    }

    /// The value of a slot for `off`; `None` if the offset does not fit.
    fn encode(&self, off: DirOff, tag: u32) -> Option<u32> {
        let word = off.0 / 4;
        (word >> self.offset_bits == 0).then_some(word | tag)
    }

    #[inline]
    fn get(&self, slot: u32) -> u32 {
        let block = self.blocks.get(slot as usize / BLOCK);
        block.map_or(EMPTY, |b| b[slot as usize % BLOCK])
    }

    /// Fetches the slot where a search begins into the processor's cache.
    pub(super) fn prefetch(&self, home: Home) {
        let slot = home.slot as usize;
        if let Some(place) = self.blocks.get(slot / BLOCK).and_then(|b| b.get(slot % BLOCK)) {
            prefetch::line(place);
        }
    }

    fn set(&mut self, slot: u32, value: u32) {
        if let Some(b) = self.blocks.get_mut(slot as usize / BLOCK) {
            b[slot as usize % BLOCK] = value;
        }
    }

    #[inline]
    fn next(&self, slot: u32) -> u32 {
        if slot + 1 >= self.len { 0 } else { slot + 1 }
    }

    fn previous(&self, slot: u32) -> u32 {
        slot.checked_sub(1).unwrap_or(self.len.saturating_sub(1))
    }

    /// The slots from `home` on, up to and including the first EMPTY.
    pub(super) fn chain(&self, home: Home) -> Chain<'_> {
        Chain { table: self, slot: home.slot, tag: home.tag, left: self.len }
    }

    /// Enters `off` in the first free slot. Returns false if there is none, or the offset does not
    /// fit.
    pub(super) fn insert(&mut self, home: Home, off: DirOff) -> bool {
        let Some(value) = self.encode(off, home.tag) else { return false };
        let mut slot = home.slot;
        for _ in 0..self.len {
            let there = self.get(slot);
            if there == EMPTY || there == DEL {
                // The last EMPTY stays EMPTY.
                if there == EMPTY && self.used + 1 >= self.len {
                    return false;
                }
                self.used += u32::from(there == EMPTY);
                self.set(slot, value);
                return true;
            }
            slot = self.next(slot);
        }
        false
    }

    /// The slot of `off` for a name with this home.
    fn locate(&self, home: Home, off: DirOff) -> Option<u32> {
        let value = self.encode(off, home.tag)?;
        let mut slot = home.slot;
        for _ in 0..self.len {
            match self.get(slot) {
                EMPTY => return None,
                there if there == value => return Some(slot),
                _ => slot = self.next(slot),
            }
        }
        None
    }

    pub(super) fn contains(&self, home: Home, off: DirOff) -> bool {
        self.locate(home, off).is_some()
    }

    /// Changes the entry of `from` to `to`. Returns false if there is none.
    pub(super) fn replace(&mut self, home: Home, from: DirOff, to: DirOff) -> bool {
        let (Some(slot), Some(value)) = (self.locate(home, from), self.encode(to, home.tag)) else {
            return false;
        };
        self.set(slot, value);
        true
    }

    /// Removes an entry. Returns false if there is none. Deleted slots at the end of a chain become
    /// EMPTY; with `forward_only` those before the entry stay deleted, a defect of the code that
    /// the paper measured.
    pub(super) fn remove(&mut self, home: Home, off: DirOff, forward_only: bool) -> bool {
        let Some(at) = self.locate(home, off) else { return false };
        self.set(at, DEL);
        let mut end = self.next(at);
        while self.get(end) == DEL && end != at {
            end = self.next(end);
        }
        if self.get(end) != EMPTY {
            return true;
        }
        let mut slot = self.previous(end);
        while self.get(slot) == DEL {
            self.set(slot, EMPTY);
            self.used -= 1;
            if forward_only && slot == at {
                break;
            }
            slot = self.previous(slot);
        }
        true
    }

    /// The number of entries, and of slots that are not EMPTY.
    #[cfg(test)]
    pub(super) fn count(&self) -> (u32, u32) {
        let slots = || self.blocks.iter().flat_map(|b| b.iter());
        let live = slots().filter(|&&s| s != EMPTY && s != DEL).count() as u32;
        (live, slots().filter(|&&s| s != EMPTY).count() as u32)
    }
}

/// An iterator over a chain.
pub(super) struct Chain<'a> {
    table: &'a Table,
    slot: u32,
    tag: u32,
    left: u32,
}

impl Iterator for Chain<'_> {
    type Item = Probe;

    #[inline]
    fn next(&mut self) -> Option<Probe> {
        self.left = self.left.checked_sub(1)?;
        let value = self.table.get(self.slot);
        self.slot = self.table.next(self.slot);
        let bits = self.table.offset_bits;
        Some(match value {
            EMPTY => {
                self.left = 0;
                Probe::Empty
            }
            DEL => Probe::Other,
            _ if (value ^ self.tag) >> bits == 0 => {
                Probe::Candidate(DirOff((value ^ self.tag) * 4))
            }
            _ => Probe::Other,
        })
    }
}
