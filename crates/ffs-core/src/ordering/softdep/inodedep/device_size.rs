//! The size of a file on the device, as far as it is known.
//!
//! A write that is durable may have been followed by others that are not. A crash may leave any of
//! these. So the device shows at least the least size of that write and of all later ones.
//!
//! # Invariants
//! 1. Both parts of the entries of `issued` ascend.
//! 2. A write that was issued before the size was tracked does not count.
//!
//! Reference: `docs/spec/soft-updates.md` §4.5, rule `size-before-indirect`.

use super::super::heap::heap;
use smallvec::SmallVec;

/// A size on the device, in bytes.
#[derive(Debug, Default)]
pub(in super::super) struct DeviceSize {
    /// The device shows at least this.
    durable: u64,
    /// Numbers of writes, each with the least size that it and the later writes show. A write
    /// between two entries has the size of the first.
    issued: SmallVec<[(u64, u64); 1]>,
}

impl DeviceSize {
    /// The device shows at least this, in bytes.
    pub(in super::super) fn durable(&self) -> u64 {
        self.durable
    }

    /// A write with this number, larger than those of all earlier ones, shows `size`.
    pub(super) fn issue(&mut self, write: u64, size: u64) {
        self.durable = self.durable.min(size);
        let from = self.issued.partition_point(|(_, least)| *least < size);
        let first = self.issued.get(from).map_or(write, |(first, _)| *first);
        self.issued.truncate(from);
        self.issued.push((first, size));
    }

    /// The write with this number is durable.
    pub(super) fn set_durable(&mut self, write: u64) {
        let later = self.issued.partition_point(|(first, _)| *first <= write);
        if let Some(&(_, least)) = later.checked_sub(1).and_then(|at| self.issued.get(at)) {
            self.durable = least;
            self.issued.drain(..later - 1);
        }
    }

    /// Bytes that it allocated.
    pub(super) fn heap_bytes(&self) -> usize {
        heap(&self.issued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes on the device after these writes are durable, of writes 1 and so on.
    fn sizes(issued: &[u64], durable: &[u64]) -> Vec<u64> {
        let mut on_device = DeviceSize::default();
        (1..).zip(issued).for_each(|(write, size)| on_device.issue(write, *size));
        let set = |write: &u64| {
            on_device.set_durable(*write);
            on_device.durable()
        };
        durable.iter().map(set).collect()
    }

    #[test]
    fn a_later_smaller_size_counts() {
        assert_eq!(sizes(&[9, 5, 8], &[1, 2, 3]), [5, 5, 8]);
        assert_eq!(sizes(&[9, 5, 8], &[3, 1]), [8, 8]);
        assert_eq!(sizes(&[3, 5, 8, 5], &[1, 3]), [3, 5]);
    }

    #[test]
    fn a_write_counts_although_a_later_one_of_this_size_was_issued() {
        assert_eq!(sizes(&[7, 7, 7], &[1]), [7]);
        assert_eq!(sizes(&[7, 8, 9], &[1, 2]), [7, 8]);
    }

    #[test]
    fn a_write_before_the_size_was_tracked_does_not_count() {
        assert_eq!(sizes(&[4], &[0, 1]), [0, 4]);
    }

    #[test]
    fn a_write_with_a_smaller_size_counts_when_it_is_issued() {
        let mut on_device = DeviceSize::default();
        on_device.issue(1, 9);
        on_device.set_durable(1);
        on_device.issue(2, 4);
        assert_eq!(on_device.durable(), 4);
    }

    #[test]
    fn writes_of_one_size_take_no_memory() {
        let mut on_device = DeviceSize::default();
        (1..1000).for_each(|write| on_device.issue(write, 7));
        assert_eq!((on_device.issued.len(), on_device.heap_bytes()), (1, 0));
    }
}
