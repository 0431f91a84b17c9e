//! What operations tell the name cache, and what they ask it.
//!
//! # Invariants
//! 1. An operation that will make, remove or redirect a name takes it out of the cache as soon as
//!    it has the directory locked alone, before it asks the directory: the "not wanted" column of
//!    `spec/directories-and-caches.md` §4.2. So an operation that fails half way leaves nothing
//!    wrong in the cache.
//! 2. Names are entered while the directory is still locked as it was when it answered (lookup) or was
//!    changed (priming), and only after everything succeeded.
//! 3. While a name is entered its directory and its file have users: both are in memory.
//!
//! Reference: `spec/directories-and-caches.md` §4.2, §4.3, §6.

use super::{Vnode, check_in_tree};
use crate::counters::bump;
use crate::dir::{self, Dir};
use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::mount::Mount;
use crate::namecache::CacheLookup;
use crate::tunables::NamecachePrime;
use ffs_ondisk::Ino;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Mount {
    /// Looks `name` up in a locked directory: in the cache, then in the directory.
    pub(super) fn lookup_in(self: &Arc<Self>, d: Dir<'_>, name: &[u8]) -> Result<Vnode> {
        check_in_tree(d)?;
        if name == b".." {
            let up = self.cached_parent(d)?;
            return Ok(Vnode::new(self, self.table.get(up)?));
        }
        match self.named_in(d, name) {
            CacheLookup::Positive(child) => Ok(Vnode::new(self, child)),
            CacheLookup::Negative => Err(Error::NotFound),
            CacheLookup::Miss => self.ask_directory(d, name),
        }
    }

    /// What the name cache knows of `name` in the locked directory.
    pub(super) fn named_in(&self, d: Dir<'_>, name: &[u8]) -> CacheLookup<Arc<Inode>> {
        // Where the directory had to be asked last it will have to be now: both come at the same time.
        let asked = d.ip.dir.asked.load(Ordering::Relaxed);
        if asked {
            dir::prefetch(d, name);
        }
        let named = self.table.names().lookup(d.ip, name);
        let unknown = matches!(named, CacheLookup::Miss);
        if unknown != asked {
            d.ip.dir.asked.store(unknown, Ordering::Relaxed);
        }
        named
    }

    /// Looks `name`, which the cache does not know, up in the locked directory itself.
    pub(super) fn ask_directory(self: &Arc<Self>, d: Dir<'_>, name: &[u8]) -> Result<Vnode> {
        let Some(entry) = dir::lookup(d, name)? else {
            self.table.names().enter(d.ip, name, None);
            return Err(Error::NotFound);
        };
        // A file whose name is not in memory is seldom there itself.
        self.table.prefetch_inode(entry.ino);
        let child = self.child(d.ip, &entry)?;
        self.table.names().enter(d.ip, name, Some(&child.ip));
        Ok(child.into_vnode(self))
    }

    fn cached_parent(&self, d: Dir<'_>) -> Result<Ino> {
        if let Some(up) = self.table.names().parent(d.ip) {
            return Ok(up);
        }
        let up = self.parent_of(d)?;
        self.table.names().set_parent(d.ip, up);
        Ok(up)
    }

    /// `.` was looked up.
    pub(super) fn count_dot(&self) {
        if self.ump.tunables.vfscache() {
            bump(&self.ump.counters().cache_dothits);
        }
    }

    /// A file that is no directory was made and named.
    pub(super) fn prime_create(&self, dir: &Inode, name: &[u8], file: &Arc<Inode>) {
        if self.ump.tunables.namecache_prime() != NamecachePrime::Off {
            self.table.names().enter(dir, name, Some(file));
        }
    }

    /// A directory was made in `dir` and named.
    pub(super) fn prime_mkdir(&self, dir: &Inode, name: &[u8], made: &Arc<Inode>) {
        if self.primes_all() {
            self.table.names().enter(dir, name, Some(made));
            self.table.names().set_parent(made, dir.ino);
        }
    }

    /// A name was entered or redirected (`Some`), or removed.
    pub(super) fn prime_change(&self, dir: &Inode, name: &[u8], file: Option<&Arc<Inode>>) {
        if self.primes_all() {
            self.table.names().enter(dir, name, file);
        }
    }

    pub(super) fn primes_all(&self) -> bool {
        self.ump.tunables.namecache_prime() == NamecachePrime::All
    }
}
