//! One cylinder group, locked: the frame in which every change to a group happens.
//!
//! # Invariants
//! 1. Every change of a map goes together with the change of all counts that follow from it:
//!    `frsum`, clusters, the group's counts, the summary's record and the totals. [`GroupEdit`]
//!    collects the counts; they are stored before the group's lock is let go, also when the
//!    change ends in an error.
//! 2. Checks come before changes: an error leaves the maps as they were.
//! 3. A damaged group is never changed.
//!
//! # Locking
//! The write lock of the group's buffer is the group's allocation lock. One group at a time.

use super::Alloc;
use super::check::check_in;
use super::summary::Summary;
use crate::buf::{BufKey, BufKind, BufRef, DiskBlock, Disposition};
use crate::error::{Error, Result};
use crate::ordering::{Event, FragRun, Ordering};
use crate::sync::Mutex;
use crate::tunables::AllocPolicy;
use ffs_ondisk::{CgMut, CgNo, Corrupt, Csum, FragNo, Geometry, Place, Structure};

/// A group under its lock.
pub(super) struct GroupEdit<'a> {
    /// Its number.
    pub(super) c: CgNo,
    /// The volume's constants.
    pub(super) g: &'a Geometry,
    /// Its block.
    pub(super) cg: CgMut<'a>,
    /// Generation of the block preferences in force.
    pub(super) policy: AllocPolicy,
    pub(super) ordering: &'a dyn Ordering,
    counts: Csum,
    delta: Csum,
    changed: bool,
    disposition: Disposition,
}

impl Alloc {
    /// Runs `change` on group `c`, locked, and writes its block as the ordering policy asks.
    ///
    /// # Errors
    /// The device's, the group's damage, or what `change` returns.
    pub(super) fn edit<R>(
        &self,
        c: CgNo,
        change: impl FnOnce(&mut GroupEdit<'_>) -> Result<R>,
    ) -> Result<R> {
        let buf = self.read_group(c)?;
        let mut data = buf.write();
        self.check_in_once(c, &buf, &mut data.bytes)?;
        let g = self.g();
        let cg = CgMut::new(g, &mut data.bytes);
        let counts = cg.view().cs();
        let mut e = GroupEdit {
            c,
            g,
            cg,
            policy: self.tunables.alloc(),
            ordering: &*self.ordering,
            counts,
            delta: Csum::default(),
            changed: false,
            disposition: Disposition::Delay,
        };
        let result = change(&mut e);
        let (changed, disposition) = e.finish(&self.sum);
        drop(data);
        if changed {
            self.cache.apply(&buf, disposition)?;
        }
        result.map_err(|e| self.cache.record_damage(e))
    }

    /// The buffer of group `c`'s block.
    fn read_group(&self, c: CgNo) -> Result<BufRef> {
        let g = self.g();
        let at = g.cgtod(c);
        let (key, kind) = (BufKey::Meta(at), BufKind::CylinderGroup);
        self.cache.bread(DiskBlock { key, kind, addr: at, len: g.cgsize as usize })
    }

    /// Checks the block in if it is fresh from disk.
    fn check_in_once(&self, c: CgNo, buf: &BufRef, block: &mut [u8]) -> Result<()> {
        {
            let sum = self.sum.lock();
            if sum.is_checked(c, buf) {
                return Ok(());
            }
            if let Some(e) = sum.damage(c) {
                return Err(e.clone().into());
            }
        }
        let checked = check_in(self.g(), c, block, self.torn);
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

impl GroupEdit<'_> {
    /// The group's counts, as changed so far.
    pub(super) fn counts(&self) -> Csum {
        self.counts
    }

    /// Adds to the group's counts; notes that the block was changed.
    pub(super) fn count(&mut self, delta: Csum) {
        self.counts.add(&delta);
        self.delta.add(&delta);
        self.changed = true;
    }

    /// Keeps the strictest of what the ordering policy asks for this block.
    pub(super) fn demand(&mut self, d: Disposition) {
        if d != Disposition::Delay {
            self.disposition = d;
        }
    }

    /// Reports `frags` fragments from `first` of the group on as taken; returns their address.
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
