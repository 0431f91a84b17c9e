//! Maps with one bit for each inode, as the records `TS_CLRI` and `TS_BITS` have them
//! (`spec/on-disk-format.md` §24.4).
//!
//! # Invariants
//! 1. Bit `n - 1` is that of inode `n`; inodes beyond the map are not in it.
//! 2. The size of a map is that of the bytes it was made of, never a number of a stream.

use super::TP_BSIZE;

/// A set of inodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InodeMap(Vec<u8>);

impl InodeMap {
    /// The empty set, for inodes below `maxino`.
    #[must_use]
    pub fn new(maxino: u32) -> InodeMap {
        let bytes = (maxino as usize).div_ceil(8).next_multiple_of(TP_BSIZE);
        InodeMap(vec![0; bytes])
    }

    /// The set that the records of a map have.
    pub(super) fn from_bytes(bytes: Vec<u8>) -> InodeMap {
        InodeMap(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn place(ino: u32) -> Option<(usize, u8)> {
        let bit = ino.checked_sub(1)?;
        Some((bit as usize / 8, 1 << (bit % 8)))
    }

    /// Whether inode `ino` is in the set.
    #[must_use]
    pub fn contains(&self, ino: u32) -> bool {
        let Some((byte, bit)) = Self::place(ino) else { return false };
        self.0.get(byte).is_some_and(|found| found & bit != 0)
    }

    /// Adds `ino`, if the map has a bit for it.
    pub fn insert(&mut self, ino: u32) {
        if let Some((byte, bit)) = Self::place(ino)
            && let Some(found) = self.0.get_mut(byte)
        {
            *found |= bit;
        }
    }

    /// Removes `ino`.
    pub fn remove(&mut self, ino: u32) {
        if let Some((byte, bit)) = Self::place(ino)
            && let Some(found) = self.0.get_mut(byte)
        {
            *found &= !bit;
        }
    }

    /// The inodes in the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let bytes = self.0.iter().enumerate().filter(|(_, byte)| **byte != 0);
        bytes.flat_map(|(at, byte)| {
            let bits = (0..8).filter(move |bit| byte & (1 << bit) != 0);
            bits.filter_map(move |bit| u32::try_from(at * 8 + bit + 1).ok())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inodes_are_counted_from_one() {
        let mut map = InodeMap::new(8193);
        assert_eq!(map.bytes().len(), 2 * TP_BSIZE);
        for ino in [0, 1, 2, 8, 9, 8192, 1 << 30] {
            map.insert(ino);
        }
        assert_eq!(map.bytes()[..2], [0b1000_0011, 1]);
        assert_eq!(map.iter().collect::<Vec<_>>(), [1, 2, 8, 9, 8192]);
        map.remove(2);
        assert!(!map.contains(2) && map.contains(8192) && !map.contains(0));
        assert!(!map.contains(u32::MAX));
    }
}
