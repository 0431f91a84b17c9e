//! What all this takes: counted, not estimated, but for what the allocator adds.

use super::Engine;
use super::graph::{Node, What};
use foldhash::fast::FixedState;
use smallvec::{Array, SmallVec};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Entries that tables keep room for.
const KEPT: usize = 256;

/// Takes an entry out of a table, which gives back memory that it does not need any more.
pub(super) fn take<K: Eq + Hash, V>(from: &mut HashMap<K, V, FixedState>, key: &K) -> Option<V> {
    let value = from.remove(key)?;
    if from.capacity() > KEPT && from.len() < from.capacity() / 8 {
        from.shrink_to(KEPT.max(2 * from.len()));
    }
    Some(value)
}

/// Bytes of a list that are not in its owner.
pub(super) fn heap<A: Array>(list: &SmallVec<A>) -> usize {
    if list.spilled() { list.capacity() * size_of::<A::Item>() } else { 0 }
}

/// Bytes of a tree; nodes may be half empty.
pub(super) fn tree_bytes<K, V>(tree: &BTreeMap<K, V>) -> usize {
    2 * tree.len() * size_of::<(K, V)>()
}

/// Bytes of a hash table with room for `capacity` entries: it is filled up to seven eighths, and has a byte
/// besides for each place.
pub(super) fn table_bytes<T>(capacity: usize) -> usize {
    if capacity == 0 { 0 } else { (capacity * 8 / 7).next_power_of_two() * (size_of::<T>() + 1) }
}

impl Engine {
    /// Bytes in use.
    pub(super) fn memory(&self) -> usize {
        let lists = |n: &Node| {
            let own = match &n.what {
                What::Claim(c) => {
                    size_of_val(&**c)
                        + (c.frees.capacity() + c.names.capacity()) * size_of::<super::graph::Id>()
                }
                What::Ext(x) => size_of_val(&**x),
                What::Free { runs, .. } => size_of_val(&**runs),
                _ => 0,
            };
            own + n.needs.bytes() + n.dependents.bytes()
        };
        let nodes = self.nodes.bytes() + self.nodes.values().map(lists).sum::<usize>();
        let blocks = self.blocks.values().map(super::blocks::BlockRec::bytes).sum::<usize>();
        let dirs = self.dirs.values().map(super::records::Records::bytes).sum::<usize>();
        let chain = size_of::<(u32, super::claims::Chain)>();
        let maps = self.indirects.values().map(|all| TREE + all.len() * chain * 2).sum::<usize>();
        let gone = table_bytes::<(u64, super::names::Removed)>(self.gone.capacity());
        let unanchored = table_bytes::<((u32, u32), super::graph::Id)>(self.unanchored.capacity());
        let landed = self.landed.iter().map(|(_, m)| m.bytes()).sum::<usize>();
        let trees = (self.blocks.len() + self.dirs.len() + self.indirects.len()) * TREE;
        let work = self.work.capacity() * size_of::<crate::ordering::WorkItem>();
        nodes
            + self.inodes.bytes()
            + blocks
            + dirs
            + maps
            + gone
            + unanchored
            + landed
            + trees
            + work
    }
}

/// Bytes of an entry of a tree with a block's key, besides what it holds; nodes may be half empty.
const TREE: usize = 3 * size_of::<crate::buf::BufKey>();

#[cfg(test)]
mod tests {
    use super::super::{arena, blocks, graph, inodes, names};

    /// There are as many of them as of changes.
    #[test]
    fn small_things_are_small() {
        assert_eq!(size_of::<graph::Need>(), 16);
        assert_eq!(size_of::<arena::Place<graph::Node>>(), 80);
        assert_eq!(size_of::<arena::Place<inodes::InodeRec>>(), 96);
        assert_eq!(size_of::<names::Chain>(), 24);
        assert_eq!(size_of::<blocks::Waiter>(), 16);
        assert_eq!(size_of::<(u64, names::Removed)>(), 24);
    }
}
