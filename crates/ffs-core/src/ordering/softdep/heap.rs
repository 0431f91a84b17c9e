//! Helpers that count memory, and a removal that gives it back.

use foldhash::fast::FixedState;
use smallvec::{Array, SmallVec};
use std::collections::HashMap;
use std::hash::Hash;

/// Entries for which a hash table keeps its memory when it shrinks.
const KEPT: usize = 256;
/// Elements for which an empty queue keeps its memory.
const QUEUE_KEPT: usize = 64;

/// Gives back the memory of an empty queue that has grown.
pub(super) fn release<T>(queue: &mut Vec<T>) {
    if queue.is_empty() && queue.capacity() > QUEUE_KEPT {
        queue.shrink_to(QUEUE_KEPT);
    }
}

/// Entries in a node of a `BTreeMap`, at most.
const NODE_CAPACITY: usize = 11;
/// Entries in a node of a `BTreeMap` on average: a split leaves five or six.
const NODE_FILL: usize = 7;

/// Removes an entry from a hash table, and shrinks a table that has become nearly empty.
pub(super) fn take<K: Eq + Hash, V>(from: &mut HashMap<K, V, FixedState>, key: &K) -> Option<V> {
    let value = from.remove(key)?;
    if from.capacity() > KEPT && from.len() < from.capacity() / 8 {
        from.shrink_to(KEPT.max(2 * from.len()));
    }
    Some(value)
}

/// Bytes that a `SmallVec` allocated.
pub(super) fn heap<A: Array>(list: &SmallVec<A>) -> usize {
    if list.spilled() { list.capacity() * size_of::<A::Item>() } else { 0 }
}

/// Bytes of a `BTreeMap` with `len` entries: leaves with space for 11 entries, a parent pointer and
/// two lengths, and inner nodes with 12 pointers more. It is an estimate, as the fill of the nodes
/// depends on the order of the insertions.
pub(super) fn tree_bytes<K, V>(len: usize) -> usize {
    let node = NODE_CAPACITY * (size_of::<K>() + size_of::<V>()) + 16;
    let leaves = if len <= NODE_CAPACITY { usize::from(len > 0) } else { len.div_ceil(NODE_FILL) };
    let inner = if leaves <= 1 { 0 } else { leaves.div_ceil(NODE_FILL) };
    leaves * node + inner * (node + (NODE_CAPACITY + 1) * size_of::<usize>())
}

/// Bytes of a hash table with space for `capacity` entries: it fills at most seven eighths of its
/// buckets, and has a control byte for each.
pub(super) fn table_bytes<T>(capacity: usize) -> usize {
    if capacity == 0 { 0 } else { (capacity * 8 / 7).next_power_of_two() * (size_of::<T>() + 1) }
}
