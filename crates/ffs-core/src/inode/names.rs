//! The name cache of a mount: which names lead to the inodes in memory.
//!
//! The table's lock guards it, because a name and the inode it leads to leave memory together.

use super::{Inode, InodeTable};
use crate::namecache::{CacheLookup, NameCacheLimits};
use ffs_ondisk::Ino;
use std::sync::Arc;

/// The name cache of an inode table.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a>(&'a InodeTable);

impl InodeTable {
    /// The cache of names that lead to these inodes.
    pub(crate) fn names(&self) -> Names<'_> {
        Names(self)
    }
}

impl Names<'_> {
    fn limits(self) -> NameCacheLimits {
        let t = &self.0.ump.tunables;
        let size = |n| usize::try_from(n).unwrap_or(usize::MAX);
        let most = size(t.maxvnodes().saturating_mul(2));
        NameCacheLimits { entries: most, neg_factor: size(t.ncnegfactor()) }
    }

    /// Looks up `name` in `dir`, which the caller has locked.
    pub(crate) fn lookup(self, dir: &Inode, name: &[u8]) -> CacheLookup<Arc<Inode>> {
        let st = self.0.state.read();
        let found = st.names.lookup(dir.ino, name);
        if matches!(found, CacheLookup::Negative) && !st.names.is_newest_negative(dir.ino, name) {
            drop(st);
            self.0.state.write().names.note_negative(dir.ino, name);
        }
        found
    }

    /// Enters an entry for `name` in `dir`: it leads to `target`, or to no file. The caller has had
    /// `dir` locked since it searched or changed the directory, and is a user of both files.
    pub(crate) fn enter(self, dir: &Inode, name: &[u8], target: Option<&Arc<Inode>>) {
        let (limits, target) = (self.limits(), target.map(|ip| (ip.ino, ip)));
        let st = &mut *self.0.state.write();
        st.names.enter(&st.map, limits, (dir.ino, &dir.names, name), target);
    }

    /// Removes the entry of `name` in `dir` and returns the file to which it led, if there was one.
    /// The caller has `dir` locked exclusively and will change the name.
    pub(crate) fn remove(self, dir: &Inode, name: &[u8]) -> Option<Arc<Inode>> {
        let st = &mut *self.0.state.write();
        st.names.zap(&st.map, dir.ino, name)
    }

    /// Prefetches the entries of two names of `dir`, before they are removed or entered.
    pub(crate) fn prefetch(self, dir: &Inode, names: [&[u8]; 2]) {
        self.0.state.read().names.prefetch(dir.ino, &names);
    }

    /// Removes all names in `ip`, all names of `ip`, and its `..`.
    pub(crate) fn purge(self, ip: &Inode) {
        let st = &mut *self.0.state.write();
        if st.map.has(ip) {
            st.names.purge(&st.map, &ip.names);
        }
    }

    /// Removes the negative entries of `dir`.
    pub(crate) fn purge_negatives(self, dir: &Inode) {
        let st = &mut *self.0.state.write();
        st.names.purge_negatives(&st.map, &dir.names);
    }

    /// Removes all names.
    pub(crate) fn purge_all(self) {
        self.0.state.write().purge_names();
    }

    /// The directory to which `..` of `dir` leads, if it is cached. The caller has `dir` locked.
    pub(crate) fn parent(self, dir: &Inode) -> Option<Ino> {
        self.0.state.read().names.parent(&dir.names)
    }

    /// Enters the directory to which `..` of `dir` leads. The caller has had `dir` locked since it
    /// read `..`.
    pub(crate) fn set_parent(self, dir: &Inode, parent: Ino) {
        self.0.state.read().names.set_parent(&dir.names, parent);
    }
}
