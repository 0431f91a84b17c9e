//! Locking several inodes for one operation, without deadlock on any volume.
//!
//! The usual rule "parents before children" needs a tree; a damaged volume need not be one, and a
//! rename locks directories that are not above each other. So there is another rule.
//!
//! # Invariants
//! 1. While a thread holds an inode's lock for changes it *waits* for no other inode's lock: it tries,
//!    and if somebody has it, gives back everything, waits for that one lock alone, and starts over
//!    with it ([`retry`]).
//! 2. The one exception is the holder of the rename lock walking up the tree (`rename`): since all
//!    others keep rule 1, nobody it waits for waits for it.

use crate::error::{Error, Result};
use crate::inode::{Inode, LockedInode};
use crate::ufsmount::UfsMount;
use std::sync::Arc;

/// Why an attempt ended without success.
pub(super) enum Stop {
    /// The operation failed.
    Error(Error),
    /// This inode is locked by another; the attempt gives back what it locked.
    Contended(Arc<Inode>),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Stop {
        Stop::Error(e)
    }
}

/// Repeats `attempt` until no lock it needs is another's. It is given the inode to lock first.
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

/// The locks of one attempt: hands out guards, waiting only for the first.
pub(super) struct Locks<'a> {
    ump: &'a UfsMount,
    /// Locked before anything else, because the attempt before failed for it.
    first: Option<LockedInode<'a>>,
    holding: bool,
}

impl<'a> Locks<'a> {
    /// Waits for the lock of `first`, if there is one.
    pub(super) fn starting_with(ump: &'a UfsMount, first: Option<&'a Arc<Inode>>) -> Locks<'a> {
        let first = first.map(|ip| ip.lock(ump));
        Locks { ump, holding: first.is_some(), first }
    }

    /// Gives the first lock back if the attempt turned out not to need it: to be called before
    /// locks are waited for by other means.
    pub(super) fn drop_unused(&mut self) {
        self.first = None;
    }

    /// Locks `ip`, which is not locked by this attempt yet (but perhaps as its first).
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
