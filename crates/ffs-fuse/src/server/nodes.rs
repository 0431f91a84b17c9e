//! The table of nodes: the files to which the kernel holds references.
//!
//! **Invariants.**
//! 1. The table has a node while the kernel holds at least one reference to it.
//! 2. The table always has the root.
//!
//! **Locking.** Each shard has a lock, held for operations of the table only. A file whose last
//! reference is forgotten is released after its shard is unlocked, because the release may free
//! blocks.

use crate::wire::{Errno, ROOT};
use ffs_core::Vnode;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 16;

struct Node {
    file: Vnode,
    /// References that the kernel holds.
    lookups: u64,
    /// The kernel may have content of the file in its page cache.
    cached: bool,
}

type Shard = HashMap<u64, Node, FixedState>;

/// The table of nodes.
pub(crate) struct Nodes {
    root: Vnode,
    shards: [Mutex<Shard>; SHARDS],
    forgotten: Mutex<Vec<Vnode>>,
    any_forgotten: AtomicBool,
    /// Held while files are released. A request that needs their space waits for it.
    releasing: Mutex<()>,
}

impl Nodes {
    pub(crate) fn new(root: Vnode) -> Nodes {
        Nodes {
            root,
            shards: std::array::from_fn(|_| Mutex::default()),
            forgotten: Mutex::default(),
            any_forgotten: AtomicBool::new(false),
            releasing: Mutex::default(),
        }
    }

    fn shard(&self, node: u64) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[node as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of `node`. `ESTALE` if the kernel holds no reference to it.
    pub(crate) fn get(&self, node: u64) -> Result<Vnode, Errno> {
        if node == ROOT {
            return Ok(self.root.clone());
        }
        self.shard(node).get(&node).map(|n| n.file.clone()).ok_or(Errno::STALE)
    }

    /// As [`Nodes::get`], for a read or write. If it is `cached`, the kernel's page cache may have
    /// pages of the file from now on, until the kernel forgets the node.
    pub(crate) fn get_for_io(&self, node: u64, cached: bool) -> Result<Vnode, Errno> {
        let mut shard = self.shard(node);
        let n = shard.get_mut(&node).ok_or(Errno::STALE)?;
        n.cached |= cached;
        Ok(n.file.clone())
    }

    /// Whether the kernel's page cache may have content of `node`. A read that begins after this
    /// call returns what was written before it.
    pub(crate) fn may_be_cached(&self, node: u64) -> bool {
        self.shard(node).get(&node).is_some_and(|n| n.cached)
    }

    /// Counts a reference to `node` that a reply passes to the kernel.
    pub(crate) fn remember(&self, node: u64, file: Vnode) {
        if node == ROOT {
            return;
        }
        match self.shard(node).entry(node) {
            Entry::Occupied(mut e) => e.get_mut().lookups += 1,
            Entry::Vacant(e) => {
                e.insert(Node { file, lookups: 1, cached: false });
            }
        }
    }

    /// Drops `count` references of the kernel. [`Nodes::release`] releases a file without
    /// references.
    pub(crate) fn forget(&self, node: u64, count: u64) {
        let mut shard = self.shard(node);
        let Entry::Occupied(mut e) = shard.entry(node) else { return };
        let left = e.get().lookups.saturating_sub(count);
        e.get_mut().lookups = left;
        if left == 0 {
            let node = e.remove();
            drop(shard);
            self.forgotten.lock().unwrap_or_else(PoisonError::into_inner).push(node.file);
            self.any_forgotten.store(true, Ordering::Release);
        }
    }

    /// Releases the files that the kernel has forgotten. Those without names are freed.
    pub(crate) fn release(&self) {
        if self.any_forgotten.swap(false, Ordering::Acquire) {
            self.release_and_wait();
        }
    }

    /// As [`Nodes::release`], and waits for another thread that is releasing files.
    pub(crate) fn release_and_wait(&self) {
        let _releasing = self.releasing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut forgotten = self.forgotten.lock().unwrap_or_else(PoisonError::into_inner);
        let files = std::mem::take(&mut *forgotten);
        drop(forgotten);
        drop(files);
    }

    /// Removes all nodes but the root.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let all = std::mem::take(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner));
            drop(all);
        }
        self.release();
    }
}
