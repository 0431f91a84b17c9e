//! The queue of inodes that may be without users, by time of last use.
//!
//! Most inodes are queued at the time of their last use, which only grows. These are in a list in
//! that order; taking the first one touches no other entry. A heap has the few that are put back
//! with an earlier time.
//!
//! **Invariants.** The list is sorted by time. The queue returns entries by time, and entries of
//! one time in any order.

use ffs_ondisk::Ino;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The time of last use, counted in uses, and the inode.
type Entry = (u64, Ino);

#[derive(Default)]
pub(super) struct UseQueue {
    in_order: VecDeque<Entry>,
    late: BinaryHeap<Reverse<Entry>>,
}

impl UseQueue {
    pub(super) fn len(&self) -> usize {
        self.in_order.len() + self.late.len()
    }

    pub(super) fn push(&mut self, entry: Entry) {
        if self.in_order.back().is_some_and(|last| last.0 > entry.0) {
            self.late.push(Reverse(entry));
        } else {
            self.in_order.push_back(entry);
        }
    }

    /// Removes the entry with the earliest time.
    pub(super) fn pop(&mut self) -> Option<Entry> {
        match (self.in_order.front(), self.late.peek()) {
            (Some(first), Some(Reverse(late))) if late.0 < first.0 => {
                self.late.pop().map(|Reverse(entry)| entry)
            }
            (None, _) => self.late.pop().map(|Reverse(entry)| entry),
            (Some(_), _) => self.in_order.pop_front(),
        }
    }

    /// Keeps only the entries for which `wanted` is true, and memory for `spare` more at most.
    pub(super) fn retain(&mut self, wanted: impl Fn(Entry) -> bool, spare: usize) {
        self.in_order.retain(|entry| wanted(*entry));
        self.late.retain(|Reverse(entry)| wanted(*entry));
        self.in_order.shrink_to(self.in_order.len() + spare);
        self.late.shrink_to(self.late.len() + spare);
    }

    /// Memory, bytes.
    pub(super) fn memory(&self) -> usize {
        (self.in_order.capacity() + self.late.capacity()) * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Kinds of steps, and times.
    fn steps() -> impl Strategy<Value = Vec<(u8, u64)>> {
        proptest::collection::vec((0..3u8, 0..50u64), 0..200)
    }

    proptest! {
        #[test]
        fn entries_come_out_by_time(steps in steps()) {
            let (mut queue, mut model, mut next) = (UseQueue::default(), Vec::new(), 0);
            for (step, time) in steps {
                match step {
                    0 => {
                        let earliest = model.iter().map(|entry: &Entry| entry.0).min();
                        let popped = queue.pop();
                        prop_assert_eq!(popped.map(|entry| entry.0), earliest);
                        model.retain(|entry| Some(*entry) != popped);
                    }
                    1 if time < 5 => {
                        queue.retain(|entry| entry.0 % 5 != time, 8);
                        model.retain(|entry| entry.0 % 5 != time);
                    }
                    _ => {
                        let entry = (time, Ino(next));
                        next += 1;
                        model.push(entry);
                        queue.push(entry);
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
