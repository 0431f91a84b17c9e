//! Disk quotas: the usage and the limits of users and groups, in memory (FreeBSD's `ufs_quota.c`).
//!
//! This module only counts. The inodes report each change of their block count, owner and existence
//! (`inode::quota`); the mount reads the quota files, counts the usage when quotas are turned on,
//! and writes changed records back (`mount::quota`).
//!
//! # Invariants
//! 1. With quotas on, the usage of an id is the sum of `di_blocks` and the number of its files in
//!    memory. Files that [`ffs_ondisk::quota::counted_ids`] excludes, snapshots and the quota files
//!    are not counted.
//! 2. A charge is made to the user and to the group, or to none of them. It is made before the
//!    change that it is for, so `EDQUOT` leaves no change behind.
//! 3. With quotas off, a charge costs the test of one flag.
//!
//! # Locking
//! Two mutexes, held briefly; no other lock is taken under either.
//!
//! Reference: `spec/on-disk-format.md` §15.

mod dquot;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::sync::Mutex;
use dquot::Dquot;
use ffs_ondisk::Ino;
use ffs_ondisk::quota::{DEFAULT_GRACE, Dqblk, QuotaType};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::debug;

/// The target of the log events about quotas.
pub(crate) const LOG: &str = "ffs::quota";

/// The most ids of a quota file that are read. It bounds the memory that a damaged file takes.
pub(crate) const MAX_RECORDS: usize = 1 << 20;

/// Usage: blocks of 512 bytes, and inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) blocks: u64,
    pub(crate) inodes: u64,
}

impl Amount {
    /// Blocks of 512 bytes.
    pub(crate) fn blocks(blocks: u64) -> Amount {
        Amount { blocks, inodes: 0 }
    }

    /// One inode.
    pub(crate) fn inode() -> Amount {
        Amount { blocks: 0, inodes: 1 }
    }
}

/// The user and the group to charge, by [`QuotaType::index`]. `None`: do not charge one.
pub(crate) type Ids = [Option<u32>; 2];

/// Whether limits apply to a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limits {
    /// Yes.
    Enforced,
    /// No: the caller is root, or the change must not fail.
    Ignored,
}

/// Lengths of grace periods, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// Above the soft limit of blocks.
    pub blocks: i64,
    /// Above the soft limit of inodes.
    pub inodes: i64,
}

impl Grace {
    /// The periods in record 0 of a quota file.
    fn of(record: Option<&Dqblk>) -> Grace {
        let period = |time: Option<i64>| time.filter(|&t| t > 0).unwrap_or(DEFAULT_GRACE);
        Grace { blocks: period(record.map(|r| r.btime)), inodes: period(record.map(|r| r.itime)) }
    }
}

/// A change of a record by a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    /// Other limits: those of this record.
    Limits(&'a Dqblk),
    /// Other lengths of the grace periods, in record 0.
    Grace(Grace),
}

/// The quotas of users or of groups, turned on.
#[derive(Debug)]
pub(crate) struct Active {
    grace: Grace,
    dquots: BTreeMap<u32, Dquot>,
}

impl Active {
    /// The quotas with the records of a quota file, and the usage that was counted on the volume.
    pub(crate) fn new(
        records: BTreeMap<u32, Dqblk>,
        counted: &BTreeMap<u32, Amount>,
        now: i64,
    ) -> Active {
        let grace = Grace::of(records.get(&0));
        let found = records.into_iter().map(|(id, record)| (id, Dquot::of(id, record)));
        let mut active = Active { grace, dquots: found.collect() };
        active.set_usage(counted, now);
        active
    }

    /// Sets the usage of all ids to the one that was counted on the volume.
    fn set_usage(&mut self, counted: &BTreeMap<u32, Amount>, now: i64) {
        for id in counted.keys() {
            self.dquot(*id);
        }
        for (id, dq) in &mut self.dquots {
            let used = counted.get(id).copied().unwrap_or_default();
            dq.recount(used, self.grace, now);
        }
    }

    fn admits(&self, id: u32, more: Amount, now: i64) -> bool {
        self.dquots.get(&id).is_none_or(|dq| dq.admits(more, now))
    }

    fn add(&mut self, id: u32, more: Amount, now: i64) {
        let grace = self.grace;
        self.dquot(id).add(more, grace, now);
    }

    fn dquot(&mut self, id: u32) -> &mut Dquot {
        self.dquots.entry(id).or_insert_with(|| Dquot::of(id, Dqblk::default()))
    }

    /// The record of an id after a change.
    fn changed(&self, id: u32, change: Change<'_>, now: i64) -> Dquot {
        let dq = self.dquots.get(&id).cloned();
        let mut dq = dq.unwrap_or_else(|| Dquot::of(id, Dqblk::default()));
        match change {
            Change::Limits(new) => dq.set_limits(new, self.grace, now),
            Change::Grace(grace) => dq.set_grace(grace),
        }
        dq
    }
}

/// The quotas of a mount.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    on: AtomicBool,
    types: Mutex<[Option<Active>; 2]>,
    /// The quota files of both types, which are charged to no id.
    exempt: Mutex<Vec<Ino>>,
}

impl Quotas {
    /// Whether quotas of either type are on.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Turns quotas on, or off with `None`. No operation is in progress.
    pub(crate) fn set(&self, kind: QuotaType, active: Option<Active>) {
        let mut types = self.types.lock();
        if let Some(place) = types.get_mut(kind.index()) {
            *place = active;
        }
        self.on.store(types.iter().any(Option::is_some), Ordering::Relaxed);
    }

    /// Whether quotas of this type are on.
    pub(crate) fn has(&self, kind: QuotaType) -> bool {
        self.with(kind, |_| ()).is_some()
    }

    /// Sets the usage of a type that is on to the one that was counted.
    pub(crate) fn recount(&self, kind: QuotaType, counted: &BTreeMap<u32, Amount>, now: i64) {
        self.with(kind, |active| active.set_usage(counted, now));
    }

    /// Sets which files are quota files. No operation is in progress.
    pub(crate) fn set_quota_files(&self, files: Vec<Ino>) {
        *self.exempt.lock() = files;
    }

    /// Whether `ino` is a quota file, with quotas of either type on.
    pub(crate) fn is_quota_file(&self, ino: Ino) -> bool {
        self.exempt.lock().contains(&ino)
    }

    /// Charges the user and the group.
    ///
    /// # Errors
    /// [`Error::Quota`]: a limit does not admit it. Nothing was charged.
    pub(crate) fn charge(&self, ids: Ids, more: Amount, limits: Limits, now: i64) -> Result<()> {
        let mut types = self.types.lock();
        let pairs = || QuotaType::ALL.into_iter().zip(ids);
        if limits == Limits::Enforced {
            for ((kind, id), active) in pairs().zip(types.iter()) {
                if let (Some(id), Some(active)) = (id, active)
                    && !active.admits(id, more, now)
                {
                    debug!(target: LOG, %kind, id, ?more, "quota exceeded");
                    return Err(Error::Quota);
                }
            }
        }
        for ((_, id), active) in pairs().zip(types.iter_mut()) {
            if let (Some(id), Some(active)) = (id, active) {
                active.add(id, more, now);
            }
        }
        Ok(())
    }

    /// Takes back a charge, or releases what a file no longer uses.
    pub(crate) fn release(&self, ids: Ids, less: Amount) {
        let mut types = self.types.lock();
        for (id, active) in ids.into_iter().zip(types.iter_mut()) {
            if let (Some(id), Some(active)) = (id, active)
                && let Some(dq) = active.dquots.get_mut(&id)
            {
                dq.subtract(less);
            }
        }
    }

    /// The record that [`Quotas::change`] will make.
    ///
    /// # Errors
    /// [`Error::Invalid`]: these quotas are off, or the file would have more records than a mount
    /// reads.
    pub(crate) fn changed(
        &self,
        kind: QuotaType,
        id: u32,
        change: Change<'_>,
        now: i64,
    ) -> Result<Dqblk> {
        let changed = self.with(kind, |active| {
            let is_new = !active.dquots.contains_key(&id);
            let is_full = is_new && active.dquots.len() >= MAX_RECORDS;
            (!is_full).then(|| active.changed(id, change, now).record().clone())
        });
        changed
            .ok_or(Error::Invalid("these quotas are off"))?
            .ok_or(Error::Invalid("the quota file has the most records that a mount reads"))
    }

    /// Changes a record.
    pub(crate) fn change(&self, kind: QuotaType, id: u32, change: Change<'_>, now: i64) {
        self.with(kind, |active| {
            let dq = active.changed(id, change, now);
            if let Change::Grace(_) = change {
                active.grace = Grace::of(Some(dq.record()));
            }
            active.dquots.insert(id, dq);
        });
    }

    /// The lengths of the grace periods, if quotas of this type are on.
    pub(crate) fn grace(&self, kind: QuotaType) -> Option<Grace> {
        self.with(kind, |active| active.grace)
    }

    /// The records of the first `most` ids from `from` on that have limits or usage, if quotas of
    /// this type are on.
    pub(crate) fn records(
        &self,
        kind: QuotaType,
        from: u32,
        most: usize,
    ) -> Option<Vec<(u32, Dqblk)>> {
        self.with(kind, |active| {
            let kept = active.dquots.range(from..).filter(|(_, dq)| !dq.is_empty());
            kept.take(most).map(|(id, dq)| (*id, dq.record().clone())).collect()
        })
    }

    /// The changed records. They count as written.
    pub(crate) fn take_dirty(&self, kind: QuotaType) -> Option<Vec<(u32, Dqblk)>> {
        self.with(kind, |active| {
            let mut changed = Vec::new();
            active.dquots.retain(|id, dq| {
                if dq.is_dirty() {
                    changed.push((*id, dq.record().clone()));
                    dq.set_dirty(false);
                }
                !dq.is_empty()
            });
            changed
        })
    }

    /// Marks records of [`Quotas::take_dirty`] that were not written.
    pub(crate) fn set_dirty(&self, kind: QuotaType, ids: impl Iterator<Item = u32>) {
        let mark = |active: &mut Active| {
            ids.for_each(|id| active.dquot(id).set_dirty(true));
        };
        self.with(kind, mark);
    }

    fn with<T>(&self, kind: QuotaType, run: impl FnOnce(&mut Active) -> T) -> Option<T> {
        self.types.lock().get_mut(kind.index())?.as_mut().map(run)
    }
}
