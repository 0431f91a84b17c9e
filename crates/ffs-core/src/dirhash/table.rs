//! The slots: open addressing with linear probing in blocks of 256.
//!
//! # Invariants
//! 1. From the home slot of a live entry to its slot there is no EMPTY: a search ends at the first
//!    one.
//! 2. `used` counts the slots that are not EMPTY; it stays below the number of slots, so there is
//!    an EMPTY.
//! 3. The tag of a slot is that of the name whose record it names.
//!
//! A slot keeps the offset divided by 4 in its low bits and the tag above. The tag is made of all
//! bits of the hash: it tells apart hashes with one home slot, and those next to each other, which
//! are neighbours in the table. No record starts in the last eight bytes of a chunk: the two values
//! that stand for EMPTY and DEL are no offset's.
//!
//! Reference: `spec/directories-and-caches.md` §3.2, §3.8.

use crate::prefetch;
use ffs_ondisk::DirOff;

/// Slots of a block.
pub(super) const BLOCK: usize = 256;
/// Never used, or nothing behind it needs it any more.
const EMPTY: u32 = u32::MAX;
/// Deleted; a search goes on.
const DEL: u32 = u32::MAX - 1;

/// Carries every bit of a hash into the high ones (2^32 divided by the golden ratio).
const MIX: u32 = 0x9e37_79b1;

/// Where the search for a name begins, and its tag.
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
    /// Bits of a slot that hold the offset.
    offset_bits: u32,
}

/// What a slot says to a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    /// A record whose name has the tag sought.
    Candidate(DirOff),
    /// Another's, or deleted.
    Other,
    /// The end.
    Empty,
}

impl Table {
    /// At least `slots` of them, for offsets below `end`.
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

    /// The value of a slot that names `off`; `None` if no slot can.
    fn encode(&self, off: DirOff, tag: u32) -> Option<u32> {
        let word = off.0 / 4;
        (word >> self.offset_bits == 0).then_some(word | tag)
    }

    #[inline]
    fn get(&self, slot: u32) -> u32 {
        let block = self.blocks.get(slot as usize / BLOCK);
        block.map_or(EMPTY, |b| b[slot as usize % BLOCK])
    }

    /// Has the slot where a search begins fetched.
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

    /// The slots from `home` on, the first EMPTY the last one.
    pub(super) fn chain(&self, home: Home) -> Chain<'_> {
        Chain { table: self, slot: home.slot, tag: home.tag, left: self.len }
    }

    /// Enters `off` in the first slot that is free; false if none is or the offset does not fit.
    pub(super) fn insert(&mut self, home: Home, off: DirOff) -> bool {
        let Some(value) = self.encode(off, home.tag) else { return false };
        let mut slot = home.slot;
        for _ in 0..self.len {
            let there = self.get(slot);
            if there == EMPTY || there == DEL {
                // The last EMPTY stays.
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

    /// The slot that names `off` for a name with this home.
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

    pub(super) fn holds(&self, home: Home, off: DirOff) -> bool {
        self.locate(home, off).is_some()
    }

    /// The entry of `from` names `to` now; false if there is none.
    pub(super) fn replace(&mut self, home: Home, from: DirOff, to: DirOff) -> bool {
        let (Some(slot), Some(value)) = (self.locate(home, from), self.encode(to, home.tag)) else {
            return false;
        };
        self.set(slot, value);
        true
    }

    /// Takes an entry out; false if there is none. Where a chain ends in deleted slots these become
    /// EMPTY; with `forward_only` the ones before the entry stay, as in the code the paper
    /// measured.
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

    /// Live entries, and slots in use counted anew.
    #[cfg(test)]
    pub(super) fn count(&self) -> (u32, u32) {
        let slots = || self.blocks.iter().flat_map(|b| b.iter());
        let live = slots().filter(|&&s| s != EMPTY && s != DEL).count() as u32;
        (live, slots().filter(|&&s| s != EMPTY).count() as u32)
    }
}

/// A walk over a chain.
pub(super) struct Chain<'a> {
    table: &'a Table,
    slot: u32,
    tag: u32,
    left: u32,
}

impl Iterator for Chain<'_> {
    type Item = Seen;

    #[inline]
    fn next(&mut self) -> Option<Seen> {
        self.left = self.left.checked_sub(1)?;
        let value = self.table.get(self.slot);
        self.slot = self.table.next(self.slot);
        let bits = self.table.offset_bits;
        Some(match value {
            EMPTY => {
                self.left = 0;
                Seen::Empty
            }
            DEL => Seen::Other,
            _ if (value ^ self.tag) >> bits == 0 => Seen::Candidate(DirOff((value ^ self.tag) * 4)),
            _ => Seen::Other,
        })
    }
}
