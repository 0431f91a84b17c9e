//! Lookups through the name cache, and its updates by operations.
//!
//! # Invariants
//! 1. An operation that will create, remove or redirect a name removes it from the cache when it
//!    has locked the directory exclusively, before it searches the directory (the "not wanted"
//!    column of `spec/directories-and-caches.md` §4.2). So an operation that fails half way leaves
//!    no wrong entry in the cache.
//! 2. A name is entered in the cache under the same directory lock as the lookup or the change that
//!    it records, and only after all steps succeeded.
//! 3. While a name is entered its directory and its file are in use, so both inodes are in memory.
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
        match self.lookup_cached(d, name) {
            CacheLookup::Positive(child) => Ok(Vnode::new(self, child)),
            CacheLookup::Negative => Err(Error::NotFound),
            CacheLookup::Miss => self.lookup_uncached(d, name),
        }
    }

    /// The entry of the name cache for `name` in the locked directory.
    pub(super) fn lookup_cached(&self, d: Dir<'_>, name: &[u8]) -> CacheLookup<Arc<Inode>> {
        // If the last lookup missed the cache, this one probably will: prefetch for the directory
        // search meanwhile.
        let missed_before = d.ip.dir.cache_missed.load(Ordering::Relaxed);
        if missed_before {
            dir::prefetch(d, name);
        }
        let named = self.table.names().lookup(d.ip, name);
        let unknown = matches!(named, CacheLookup::Miss);
        if unknown != missed_before {
            d.ip.dir.cache_missed.store(unknown, Ordering::Relaxed);
        }
        named
    }

    /// Looks up `name`, which the cache does not have, in the locked directory itself.
    pub(super) fn lookup_uncached(self: &Arc<Self>, d: Dir<'_>, name: &[u8]) -> Result<Vnode> {
        let Some(entry) = dir::lookup(d, name)? else {
            self.table.names().enter(d.ip, name, None);
            return Err(Error::NotFound);
        };
        // A file whose name is not cached is seldom in memory itself.
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

    /// Counts a lookup of `.`.
    pub(super) fn count_dot(&self) {
        if self.ump.tunables.vfscache() {
            bump(&self.ump.counters().cache_dothits);
        }
    }

    /// Enters the name of a new file that is no directory.
    pub(super) fn prime_create(&self, dir: &Inode, name: &[u8], file: &Arc<Inode>) {
        if self.ump.tunables.namecache_prime() != NamecachePrime::Off {
            self.table.names().enter(dir, name, Some(file));
        }
    }

    /// Enters the name of a new directory in `dir`.
    pub(super) fn prime_mkdir(&self, dir: &Inode, name: &[u8], made: &Arc<Inode>) {
        if self.primes_all() {
            self.table.names().enter(dir, name, Some(made));
            self.table.names().set_parent(made, dir.ino);
        }
    }

    /// Enters a new or redirected name (`Some`), or a negative entry for a removed one.
    pub(super) fn prime_change(&self, dir: &Inode, name: &[u8], file: Option<&Arc<Inode>>) {
        if self.primes_all() {
            self.table.names().enter(dir, name, file);
        }
    }

    pub(super) fn primes_all(&self) -> bool {
        self.ump.tunables.namecache_prime() == NamecachePrime::All
    }
}
