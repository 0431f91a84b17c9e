//! The inodes in memory by number: a radix tree of three levels.
//!
//! Inode numbers are allocated in sequence, so neighbours share a leaf of pointers. With millions
//! of inodes the levels above the leaves stay in the processor's cache, and a lookup has one cache
//! miss.

use super::Inode;
use crate::namecache::{NameLinks, VnodeRef, VnodeTable};
use crate::sparse_array::SparseArray;
use ffs_ondisk::Ino;
use std::sync::Arc;

/// Inodes of a leaf. A leaf with a single inode is not larger than the inode itself.
const LEAF: u32 = 64;
/// Leaves of a branch.
const BRANCH: u32 = 512;

type Leaf = SparseArray<Arc<Inode>, { LEAF as usize }>;
type Branch = SparseArray<Box<Leaf>, { BRANCH as usize }>;

/// The inodes of a table.
#[derive(Default)]
pub(super) struct InodeMap {
    /// Up to the branch of the highest number: 1 MB if all 2^32 numbers are possible.
    branches: Vec<Option<Box<Branch>>>,
    leaves: usize,
    len: usize,
}

/// The indexes of the branch, of the leaf in it, and of the inode in the leaf.
fn place(ino: Ino) -> (usize, usize, usize) {
    let leaf = ino.0 / LEAF;
    ((leaf / BRANCH) as usize, (leaf % BRANCH) as usize, (ino.0 % LEAF) as usize)
}

impl InodeMap {
    /// The leaf of an inode, if it exists, and the index in it.
    fn leaf(&self, ino: Ino) -> Option<(&Leaf, usize)> {
        let (branch, leaf, at) = place(ino);
        Some((self.branches.get(branch)?.as_ref()?.get(leaf)?, at))
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, ino: Ino) -> Option<&Arc<Inode>> {
        let (leaf, at) = self.leaf(ino)?;
        leaf.get(at)
    }

    /// Whether the map has `ip` itself, and not another inode with its number.
    pub(super) fn has(&self, ip: &Inode) -> bool {
        let here = ip.names.is_resident();
        let found = || self.get(ip.ino).is_some_and(|there| std::ptr::eq(Arc::as_ptr(there), ip));
        debug_assert_eq!(here, found(), "inode {}", ip.ino.0);
        here
    }

    /// Adds an inode. Replaces another one with its number.
    pub(super) fn insert(&mut self, ip: Arc<Inode>) {
        let (branch, leaf, at) = place(ip.ino);
        if self.branches.len() <= branch {
            self.branches.resize_with(branch + 1, || None);
        }
        let Some(branch) = self.branches.get_mut(branch) else { return };
        let leaf = branch.get_or_insert_default().get_or_insert_with(leaf, || {
            self.leaves += 1;
            Box::default()
        });
        ip.names.set_resident(true);
        match leaf.insert(at, ip) {
            Some(before) => before.names.set_resident(false),
            None => self.len += 1,
        }
    }

    pub(super) fn remove(&mut self, ino: Ino) -> Option<Arc<Inode>> {
        let (branch, leaf, at) = place(ino);
        let root = self.branches.get_mut(branch)?;
        let branch = root.as_mut()?;
        let inodes = branch.get_mut(leaf)?;
        let removed = inodes.take(at)?;
        removed.names.set_resident(false);
        self.len -= 1;
        if inodes.is_empty() {
            branch.take(leaf);
            self.leaves -= 1;
            if branch.is_empty() {
                *root = None;
            }
        }
        Some(removed)
    }

    /// Prefetches the pointer to an inode.
    pub(super) fn prefetch(&self, ino: Ino) {
        if let Some((leaf, at)) = self.leaf(ino) {
            leaf.prefetch(at);
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<Inode>> {
        let leaves = self.branches.iter().flatten().flat_map(|branch| branch.iter());
        leaves.flat_map(|leaf| leaf.iter())
    }

    /// Bytes of memory in use, without the inodes themselves.
    pub(super) fn bytes(&self) -> usize {
        let branches = self.branches.iter().flatten().count();
        self.branches.capacity() * size_of::<Option<Box<Branch>>>()
            + branches * size_of::<Branch>()
            + self.leaves * size_of::<Leaf>()
    }
}

impl VnodeTable for InodeMap {
    type Ref = Arc<Inode>;

    fn get(&self, ino: Ino) -> Option<&Arc<Inode>> {
        InodeMap::get(self, ino)
    }
}

impl VnodeRef for Arc<Inode> {
    fn links(&self) -> &NameLinks {
        &self.names
    }

    fn prefetch(&self) {
        self.as_ref().prefetch();
    }
}
