//! A table of blocks: found by hash, listed in the order of their keys.
//!
//! Operations find single blocks several times each; lists and ranges are needed by fsync and
//! truncation alone.
//!
//! # Invariants
//! 1. `order` has exactly the keys of `blocks`.

use super::heap::{table_bytes, take, tree_bytes};
use crate::buf::BufKey;
use foldhash::fast::FixedState;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeBounds;

/// Values of blocks.
#[derive(Debug)]
pub(super) struct BlockTable<V> {
    blocks: HashMap<BufKey, V, FixedState>,
    order: BTreeSet<BufKey>,
}

impl<V> Default for BlockTable<V> {
    fn default() -> BlockTable<V> {
        BlockTable { blocks: HashMap::default(), order: BTreeSet::new() }
    }
}

impl<V> BlockTable<V> {
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    #[inline]
    pub(super) fn get(&self, key: BufKey) -> Option<&V> {
        self.blocks.get(&key)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: BufKey) -> Option<&mut V> {
        self.blocks.get_mut(&key)
    }

    /// The value of the block, made by `new` if it has none.
    #[inline]
    pub(super) fn get_or_insert(&mut self, key: BufKey, new: impl FnOnce() -> V) -> &mut V {
        let order = &mut self.order;
        self.blocks.entry(key).or_insert_with(|| {
            order.insert(key);
            new()
        })
    }

    pub(super) fn remove(&mut self, key: BufKey) -> Option<V> {
        let value = take(&mut self.blocks, &key)?;
        self.order.remove(&key);
        Some(value)
    }

    /// The blocks of a range of keys, in order.
    pub(super) fn range(
        &self,
        range: impl RangeBounds<BufKey>,
    ) -> impl Iterator<Item = (BufKey, &V)> {
        self.order.range(range).filter_map(|key| Some((*key, self.blocks.get(key)?)))
    }

    /// All blocks, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (BufKey, &V)> {
        self.range(..)
    }

    /// Bytes of the table, without what the values allocated.
    pub(super) fn bytes(&self) -> usize {
        table_bytes::<(BufKey, V)>(self.blocks.capacity())
            + tree_bytes::<BufKey, ()>(self.order.len())
    }
}
