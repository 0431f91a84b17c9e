//! Locking several inodes for one operation, without deadlock on any volume.
//!
//! The usual rule "parents before children" needs a tree. A damaged volume may not be a tree, and a
//! rename locks directories neither of which is an ancestor of the other. So another rule holds.
//!
//! # Invariants
//! 1. While a thread holds an inode locked exclusively it never *waits* for the lock of another
//!    inode. It tries; if another thread holds the lock, it releases all its locks, waits for that
//!    lock alone, and starts over with it ([`retry`]).
//! 2. The one exception is the holder of the rename lock while it walks up the tree (`rename`). All
//!    other threads follow rule 1, so a thread that it waits for never waits for it.

use crate::error::{Error, Result};
use crate::inode::{Inode, LockedInode};
use crate::ufsmount::UfsMount;
use std::sync::Arc;

/// Why an attempt did not complete.
pub(super) enum Stop {
    /// The operation failed.
    Error(Error),
    /// Another thread has locked this inode; the attempt releases its locks.
    Contended(Arc<Inode>),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Stop {
        Stop::Error(e)
    }
}

/// Repeats `attempt` until it can take all its locks. The argument is the inode to lock first.
pub(super) fn retry<T>(
    mut attempt: impl FnMut(Option<&Arc<Inode>>) -> std::result::Result<T, Stop>,
) -> Result<T> {
    let mut first = None;
    loop {
        match attempt(first.as_ref()) {
            Ok(done) => return Ok(done),
            Err(Stop::Error(e)) => return Err(e),
            Err(Stop::Contended(ip)) => first = Some(ip),
        }
    }
}

/// The locks of one attempt. Only the first one is waited for.
pub(super) struct Locks<'a> {
    ump: &'a UfsMount,
    /// Locked before all others, because the previous attempt could not lock it.
    first: Option<LockedInode<'a>>,
    holding: bool,
}

impl<'a> Locks<'a> {
    /// Waits for the lock of `first`, if there is one.
    pub(super) fn starting_with(ump: &'a UfsMount, first: Option<&'a Arc<Inode>>) -> Locks<'a> {
        let first = first.map(|ip| ip.lock(ump));
        Locks { ump, holding: first.is_some(), first }
    }

    /// Releases the first lock if the attempt did not need it. Must be called before the thread
    /// waits for locks by other means.
    pub(super) fn drop_unused(&mut self) {
        self.first = None;
    }

    /// Locks `ip`, which this attempt has not locked yet, except perhaps as its first.
    pub(super) fn lock(
        &mut self,
        ip: &'a Arc<Inode>,
    ) -> std::result::Result<LockedInode<'a>, Stop> {
        if let Some(first) = self.first.take_if(|first| std::ptr::eq(first.ip, &**ip)) {
            return Ok(first);
        }
        if !self.holding {
            self.holding = true;
            return Ok(ip.lock(self.ump));
        }
        ip.try_lock(self.ump).ok_or_else(|| Stop::Contended(Arc::clone(ip)))
    }
}
