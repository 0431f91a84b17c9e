//! Snapshots of a mount: loading at mount, making, and the list in the superblock.
//!
//! # Invariants
//! 1. While the mount is read-write, every snapshot that the superblock lists is active.
//! 2. The superblock lists a new snapshot before its inode has the flag and the pointers. A crash
//!    in between leaves a listed ordinary file, which the next mount drops from the list.
//! 3. A snapshot that loses its last name leaves the list, durably, before the name is removed.
//!
//! Reference: `spec/snapshots.md` §4, §7, §8.

use super::{LOG, Mount};
use crate::error::{Error, Result};
use crate::inode::{Inode, LockedInode};
use crate::ordering::InodeChange;
use crate::ordering::rules::{Rule, holds};
use crate::snapshot::{Draft, FSMAXSNAP, PointerMap};
use ffs_device::clock::Timestamp;
use ffs_ondisk::geometry::{NDADDR, NIADDR};
use ffs_ondisk::{Dinode, FileType, Ino};
use std::time::Duration;
use tracing::{info, warn};

/// How often a snapshot is begun again because another one is removed.
const TRIES: u32 = 8;

/// Figures of a new snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotStats {
    /// How long operations had to wait.
    pub suspended: Duration,
    /// Cylinder groups of the volume.
    pub groups: u32,
    /// Cylinder groups that were copied again while operations waited.
    pub groups_again: u32,
}

impl Mount {
    /// Begins copy-on-write for the snapshots `listed` in the superblock. Returns why the volume
    /// must not be written, if so.
    pub(super) fn load_snapshots(&self, listed: &[Ino]) -> Result<Option<&'static str>> {
        for &ino in listed {
            match self.load_snapshot(ino) {
                Ok(()) => {}
                Err(Error::Format(e)) => {
                    warn!(target: LOG, ino = ino.0, error = %e, "a snapshot cannot be kept up");
                    self.forget_snapshots();
                    return Ok(Some("one of its snapshots is damaged: run ffs fsck"));
                }
                Err(e) => {
                    self.forget_snapshots();
                    return Err(e);
                }
            }
        }
        Ok(None)
    }

    fn load_snapshot(&self, ino: Ino) -> Result<()> {
        let snapshots = &self.ump.snapshots;
        if snapshots.has(ino) {
            return Ok(());
        }
        let ip = match self.table.get_unlinked(ino) {
            Ok(ip) => ip,
            // Listed, but free: a crash interrupted its creation or removal.
            Err(Error::Stale) => return Ok(()),
            Err(e) => return Err(e),
        };
        let file = ip.lock(&self.ump);
        let g = self.ump.g();
        let Some(map) = PointerMap::of_listed(g, &*self.ump.cache.dev, ino, &file.d)? else {
            warn!(target: LOG, ino = ino.0, "not a complete snapshot: it leaves the list");
            return Ok(());
        };
        self.ump.cache.invalidate_range(ino, i64::MIN..=i64::MAX);
        snapshots.activate(map, true);
        Ok(())
    }

    /// Ends copy-on-write: the mount is, or stays, read-only.
    pub(super) fn forget_snapshots(&self) {
        for ino in self.ump.snapshots.all() {
            self.ump.snapshots.deactivate(ino);
        }
    }

    /// Frees the snapshots that have no name, after a mount: a crash interrupted their removal.
    pub(super) fn free_unnamed_snapshots(&self) {
        for ino in self.ump.snapshots.all() {
            let freed = self.table.get_unlinked(ino).and_then(|ip| {
                let unnamed = ip.read().d.nlink == 0;
                if unnamed { self.table.inactive(&ip) } else { Ok(()) }
            });
            if let Err(e) = freed {
                warn!(target: LOG, ino = ino.0, error = %e, "an unnamed snapshot stays");
                self.ump.cache.set_needs_check();
            }
        }
    }

    /// Makes the file `ip`, which is empty and durable, a snapshot. The caller holds no lock.
    pub(crate) fn make_snapshot(&self, ip: &Inode) -> Result<SnapshotStats> {
        let _one = self.snapshot_lock.lock();
        let snapshots = &self.ump.snapshots;
        if snapshots.all().len() >= FSMAXSNAP {
            return Err(Error::TooManySnapshots);
        }
        check_empty(&ip.read().d)?;
        let mut draft = {
            let _mount_lock = self.begin_write()?;
            Draft::begin(snapshots, ip.ino)?
        };
        let made = self.complete_snapshot(ip, &mut draft);
        let _mount_lock = self.mount_lock.read();
        match &made {
            Ok(_) => draft.release_spare(),
            Err(_) => {
                let acquired = snapshots.abandon(ip.ino);
                draft.abandon(&acquired);
            }
        }
        made
    }

    fn complete_snapshot(&self, ip: &Inode, draft: &mut Draft<'_>) -> Result<SnapshotStats> {
        let mut tries = 0;
        let (groups_again, suspended) = loop {
            {
                let _mount_lock = self.begin_write()?;
                draft.scan()?;
                self.sync_shared()?;
            }
            let began = self.now();
            if let Some(groups) = self.suspend_and_copy(draft)? {
                break (groups, self.since(began));
            }
            tries += 1;
            if tries == TRIES {
                return Err(Error::Busy("other snapshots are removed all the time"));
            }
        };
        info!(target: LOG, ino = ip.ino.0, ?suspended, groups_again, "snapshot");
        let _mount_lock = self.mount_lock.read();
        draft.write_list()?;
        self.commit_snapshot(ip, draft)?;
        let groups = self.ump.g().ncg;
        let groups_again = u32::try_from(groups_again).unwrap_or(u32::MAX);
        Ok(SnapshotStats { suspended, groups, groups_again })
    }

    /// Brings the draft up to date and begins copy-on-write, while no operation runs. `None`: it
    /// has to be scanned again, because another snapshot was removed.
    fn suspend_and_copy(&self, draft: &mut Draft<'_>) -> Result<Option<usize>> {
        let _alone = self.mount_lock.write();
        if self.ump.is_read_only() {
            return Err(Error::ReadOnly(""));
        }
        self.sync_alone()?;
        self.pause_journal()?;
        // Spare blocks for copies would be used blocks without an owner in the image.
        self.ump.snapshots.release_places();
        let excluded = self.table.excluded_from_snapshot()?;
        let now = self.ump.cache.clock.now().secs;
        let st = self.state();
        let location = st.summaries.location();
        let sound = !self.ump.cache.needs_check();
        let image = |totals: &_| st.summaries.image(totals, now, sound);
        let groups = draft.suspend(&excluded, (location, image))?;
        drop(st);
        if groups.is_some() {
            self.ump.snapshots.activate(draft.pointer_map(), false);
        }
        Ok(groups)
    }

    /// Enters the finished snapshot in the superblock, then its pointers in its inode.
    fn commit_snapshot(&self, ip: &Inode, draft: &Draft<'_>) -> Result<()> {
        let snapshots = &self.ump.snapshots;
        snapshots.set_listed(ip.ino, true);
        let list = || match holds(Rule::ListBeforeSnapshot) {
            true => self.write_summaries(),
            false => Ok(()),
        };
        let committed = list().and_then(|()| {
            let mut file = ip.lock(&self.ump);
            check_empty(&file.d)?;
            let empty = file.d.clone();
            let mut filled = empty.clone();
            draft.fill_inode(&mut filled);
            file.replace_dinode(filled);
            let stored = self.store(&mut file);
            if stored.is_err() {
                file.replace_dinode(empty);
                // The buffer has the pointers.
                drop(file.update(InodeChange::Attr));
            }
            stored
        });
        if committed.is_err() && snapshots.set_listed(ip.ino, false) {
            drop(self.write_superblock());
        }
        committed
    }

    /// Makes an inode durable that nothing depends on.
    fn store(&self, file: &mut LockedInode<'_>) -> Result<()> {
        file.update(InodeChange::Attr)?;
        self.ump.cache.bwrite(&self.ump.inode_block(file.ip.ino)?)
    }

    /// The removal of the last name failed. Lists the snapshot again, if it is still right.
    pub(crate) fn relist_snapshot(&self, ino: Ino) {
        let snapshots = &self.ump.snapshots;
        if snapshots.is_live(ino) && snapshots.set_listed(ino, true) {
            // If that fails, the next sync lists it.
            drop(self.write_superblock());
        }
    }

    /// The last name of a snapshot is about to be removed: it leaves the list. `used`: the file has
    /// other users, so copy-on-write goes on.
    pub(crate) fn delist_snapshot(&self, ino: Ino, used: bool) -> Result<()> {
        let snapshots = &self.ump.snapshots;
        if snapshots.set_listed(ino, false) && holds(Rule::DelistBeforeRemoval) {
            self.write_superblock().inspect_err(|_| {
                snapshots.set_listed(ino, true);
            })?;
        }
        if !used {
            snapshots.stop_copies(ino);
        }
        Ok(())
    }

    /// Makes the superblock durable, with the present list of snapshots.
    fn write_superblock(&self) -> Result<()> {
        let mut st = self.state();
        st.summaries.set_snapshots(&self.ump.snapshots.listed());
        st.summaries.write_superblock(&*self.ump.cache.dev)?;
        drop(st);
        self.ump.cache.flush_device()
    }

    fn now(&self) -> Timestamp {
        self.ump.cache.clock.now()
    }

    fn since(&self, began: Timestamp) -> Duration {
        let nanos = |t: Timestamp| i128::from(t.secs) * 1_000_000_000 + i128::from(t.nanos);
        let passed = (nanos(self.now()) - nanos(began)).max(0);
        Duration::from_nanos(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

/// Fails unless the file has no content and one name.
fn check_empty(d: &Dinode) -> Result<()> {
    let no_blocks = d.db == [0; NDADDR] && d.ib == [0; NIADDR];
    match is_empty_file(d) && no_blocks && d.nlink == 1 {
        true => Ok(()),
        false => Err(Error::Invalid("a snapshot is made in an empty file with one name")),
    }
}

fn is_empty_file(d: &Dinode) -> bool {
    d.file_type() == Some(FileType::Regular) && d.size == 0
}
