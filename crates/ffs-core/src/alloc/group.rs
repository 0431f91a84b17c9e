//! One locked cylinder group: the scope of every change to a group.
//!
//! # Invariants
//! 1. Every change of a map includes the changes of all counts that depend on it: `frsum`,
//!    clusters, the group's counts, the summary's record and the totals. [`GroupEdit`] collects the
//!    counts and stores them before the group is unlocked, even if the change fails.
//! 2. Checks precede changes: an error leaves the maps unchanged.
//! 3. A damaged group is never changed.
//!
//! # Locking
//! The write lock of the group's buffer is the group's allocation lock. A thread holds at most one.

use super::Alloc;
use super::check::check_in;
use super::summary::Summary;
use crate::buf::{BufKey, BufKind, BufRef, DiskBlock, Disposition};
use crate::error::{Error, Result};
use crate::ordering::{Event, FragRun, Ordering};
use crate::sync::Mutex;
use crate::tunables::AllocPolicy;
use ffs_ondisk::{CgMut, CgNo, Corrupt, Csum, FragNo, Geometry, Place, Structure};

/// A locked group.
pub(super) struct GroupEdit<'a> {
    /// Its number.
    pub(super) c: CgNo,
    /// The geometry of the volume.
    pub(super) g: &'a Geometry,
    /// Its block.
    pub(super) cg: CgMut<'a>,
    /// The version of the block preference policy in force.
    pub(super) policy: AllocPolicy,
    pub(super) ordering: &'a dyn Ordering,
    counts: Csum,
    delta: Csum,
    changed: bool,
    disposition: Disposition,
}

impl Alloc {
    /// Runs `change` on group `c`, locked, and writes its block with the disposition of the
    /// ordering mode.
    ///
    /// # Errors
    /// The device's, that of a damaged group, or that of `change`.
    pub(super) fn edit<R>(
        &self,
        c: CgNo,
        change: impl FnOnce(&mut GroupEdit<'_>) -> Result<R>,
    ) -> Result<R> {
        let buf = self.read_group(c)?;
        let mut data = buf.write();
        self.check_in_once(c, &buf, &mut data.bytes)?;
        let mut e = GroupEdit::new(self, c, &mut data.bytes);
        let result = change(&mut e);
        let (changed, disposition) = e.finish(&self.sum);
        drop(data);
        if changed {
            self.cache.apply(&buf, disposition)?;
        }
        result.map_err(|e| self.cache.record_damage(e))
    }

    /// The buffer of the block of group `c`.
    pub(super) fn read_group(&self, c: CgNo) -> Result<BufRef> {
        let g = self.g();
        let at = g.cgtod(c);
        let (key, kind) = (BufKey::Meta(at), BufKind::CylinderGroup);
        self.cache.bread(DiskBlock { key, kind, addr: at, len: g.cgsize as usize })
    }

    /// Marks the block of group `c` dirty, so that it is written once more.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn redirty_group(&self, c: CgNo) -> Result<()> {
        self.cache.mark_dirty(&self.read_group(c)?);
        Ok(())
    }

    /// Checks the block if it was read from disk since the last check.
    pub(super) fn check_in_once(&self, c: CgNo, buf: &BufRef, block: &mut [u8]) -> Result<()> {
        {
            let sum = self.sum.lock();
            if sum.is_checked(c, buf) {
                return Ok(());
            }
            if let Some(e) = sum.damage(c) {
                return Err(e.clone().into());
            }
        }
        let checked = check_in(self.g(), c, block, self.torn());
        let mut sum = self.sum.lock();
        match checked {
            Ok(found) => {
                let inited = ffs_ondisk::Cg::new(self.g(), block).initediblk();
                sum.adopt(c, buf, &found, inited);
                Ok(())
            }
            Err(e) => {
                sum.condemn(c, e.clone());
                Err(self.cache.record_damage(e))
            }
        }
    }
}

impl<'a> GroupEdit<'a> {
    /// The group in `bytes`.
    pub(super) fn new(alloc: &'a Alloc, c: CgNo, bytes: &'a mut [u8]) -> GroupEdit<'a> {
        let g = alloc.g();
        let cg = CgMut::new(g, bytes);
        let counts = cg.view().cs();
        GroupEdit {
            c,
            g,
            cg,
            policy: alloc.tunables.alloc(),
            ordering: &*alloc.ordering,
            counts,
            delta: Csum::default(),
            changed: false,
            disposition: Disposition::Delay,
        }
    }

    /// The end of changes of a copy: stores the counts in the copy alone, and returns them.
    pub(super) fn finish_copy(mut self) -> Csum {
        self.cg.set_cs(self.counts);
        self.counts
    }
}

impl GroupEdit<'_> {
    /// The group's counts with the changes so far.
    pub(super) fn counts(&self) -> Csum {
        self.counts
    }

    /// Adds to the group's counts and marks the block changed.
    pub(super) fn count(&mut self, delta: Csum) {
        self.counts.add(&delta);
        self.delta.add(&delta);
        self.changed = true;
    }

    /// Keeps the strictest of the dispositions that the ordering mode returned for this block.
    pub(super) fn demand(&mut self, d: Disposition) {
        if d != Disposition::Delay {
            self.disposition = d;
        }
    }

    /// Notifies the ordering mode that `frags` fragments from `first` of the group on were
    /// allocated. Returns their address.
    pub(super) fn took(&mut self, first: u32, frags: u32) -> FragNo {
        let at = self.g.cgbase(self.c).plus(first.into());
        self.demand(
            self.ordering.notify(Event::BlockAllocated { run: FragRun { at, frags } }).disposition,
        );
        at
    }

    /// An error about `field` of this group.
    pub(super) fn corrupt(&self, field: &'static str, found: String, expected: &str) -> Error {
        let place = Place::Group(self.c);
        let c = Corrupt::new(Structure::CylinderGroup, place, field, found, expected);
        Error::Format(c.into())
    }

    /// Stores the counts in the block and the summary.
    fn finish(mut self, sum: &Mutex<Summary>) -> (bool, Disposition) {
        if self.changed {
            self.cg.set_cs(self.counts);
            let maxcluster = self.max_free_cluster();
            let mut sum = sum.lock();
            sum.change(self.c, &self.delta);
            sum.set_maxcluster(self.c, maxcluster);
        }
        (self.changed, self.disposition)
    }
}
