//! The mounted volume: [`Ffs`] from mount to unmount, and the superblock in force.
//!
//! # Invariants
//! 1. `fs_clean = 0` is durable before any other write of a read-write mount. `fs_clean = 1` is
//!    written only after everything else is durable, and only if the volume was clean or checked
//!    when it was mounted and no transfer of metadata has failed since.
//! 2. A volume that this code would damage by writing is mounted read-only, and
//!    [`Ffs::read_only_reason`] returns the reason (`policy`).
//! 3. A volume with `FS_DOSOFTDEP` or `FS_SUJ` is marked `FS_NEEDSFSCK` while it is mounted in
//!    another ordering mode, because after a crash it needs the full check. A volume with soft
//!    updates on which damage was found is marked, too, because one that is only dirty may be
//!    mounted without a check.
//! 4. An operation that changes the volume holds the mount lock shared (`Mount::begin_write`).
//!    Remount and unmount hold it alone.
//!
//! # Locking
//! Outermost first: mount lock, rename, inodes, buffers, group buffers, allocation summary, cache
//! state. The lock of the superblock is taken with none of the last four held.
//!
//! References: `spec/on-disk-format.md` §3.3, §3.4, §6; `spec/soft-updates.md` §9.3, §13.

mod attach;
mod bgfsck;
mod journal;
mod policy;
mod quota;
mod snapshots;
mod superblock;
mod sysctl;

use crate::counters::CounterValues;
use crate::error::{Error, Result};
use crate::inode::InodeTable;
use crate::ordering::Pending;
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use crate::syncer::Syncer;
use crate::types::StatFs;
use crate::ufsmount::UfsMount;
pub(crate) use attach::{Recovery, attach};
use bgfsck::CheckState;
pub use bgfsck::{CheckNeed, CheckProgress};
use ffs_device::clock::{Clock, Rng, SplitMix64, SystemClock};
use ffs_ondisk::{FragNo, Geometry};
pub use snapshots::SnapshotStats;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use superblock::Summaries;
pub use sysctl::{Nature, Sysctl};
use tracing::{error, info};

/// The target of this module's events in the log.
const LOG: &str = "ffs::mount";

/// Seconds after which [`Ffs::tick`] writes summaries and superblock, and notes times in inodes.
const SYNC_AGE: i64 = 30;

/// How often a mount that ends tries to free the blocks that are kept for copies.
const RELEASES: u32 = 8;

/// The clock and the randomness of a mount, which the caller provides.
#[derive(Clone)]
pub struct Env {
    /// The source of the time.
    pub clock: Arc<dyn Clock>,
    /// The seed of generation numbers and random placement. The same seed gives the same choices.
    pub seed: u64,
    /// The key of the hashes of names in memory. Nothing on the device depends on it.
    pub secret: u64,
}

impl Env {
    /// The computer's clock and randomness.
    #[must_use]
    pub fn system() -> Env {
        let number = || SplitMix64::from_system().next_u64();
        Env { clock: Arc::new(SystemClock), seed: number(), secret: number() }
    }

    /// The given clock, and numbers derived from `seed`.
    #[must_use]
    pub fn seeded(clock: Arc<dyn Clock>, seed: u64) -> Env {
        Env { clock, seed, secret: SplitMix64::new(!seed).next_u64() }
    }
}

/// A mounted file system. Cheap to clone; all clones are the same mount.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ffs_core::{Cred, Env, Ffs, MountOptions, NodeKind, WriteMode};
/// use ffs_ondisk::{Endian, geometry::Format};
/// use std::sync::Arc;
///
/// let dev = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 16384, 2048, 8 << 20)?;
/// let fs = Ffs::mount(Arc::new(dev), &MountOptions::default(), Env::system())?;
/// let root = fs.root()?;
/// let file = fs.create(&Cred::root(), &root, b"hello", NodeKind::Regular, 0o644)?;
/// fs.write(&Cred::root(), &file, 0, b"world", WriteMode::default())?;
/// drop((root, file));
/// fs.unmount()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Ffs(pub(crate) Arc<Mount>);

/// The state that all clones of [`Ffs`] and all files in use share.
pub(crate) struct Mount {
    pub(crate) ump: Arc<UfsMount>,
    pub(crate) table: Arc<InodeTable>,
    pub(crate) syncer: Syncer,
    /// Held while directories change parents.
    pub(crate) rename_lock: Mutex<()>,
    /// New files get their directory's group (BSD) instead of their creator's.
    pub(crate) bsdgroups: bool,
    /// A name that a rename or link gives is written after the content of its file.
    pub(crate) replace_order: bool,
    /// Access lists are in force.
    pub(crate) acls: bool,
    /// The volume has NFSv4 access lists.
    pub(crate) nfs4_acls: bool,
    /// The volume was not unmounted cleanly, and was not checked since; or a mount with `force`
    /// ignores what makes it doubtful.
    unchecked: AtomicBool,
    /// The check of a snapshot of the mounted volume.
    check: CheckState,
    /// Names and attributes are durable when an operation returns.
    pub(crate) stable: bool,
    /// Most bytes of the journal in use.
    journal_limit: Option<u64>,
    /// The journal is not kept because of snapshots.
    journal_paused: AtomicBool,
    /// The inode of the journal that was begun last; 0 for none.
    journal_ino: AtomicU32,
    /// Held while a snapshot is made, and while the mount changes its state. Before `mount_lock`.
    snapshot_lock: Mutex<()>,
    /// Operations hold it shared; mount, remount and unmount alone.
    mount_lock: RwLock<()>,
    /// With quotas on, the quota files.
    quota_files: Mutex<quota::QuotaFiles>,
    state: Mutex<State>,
}

/// The superblock in force, and the state of the mount that belongs to it.
struct State {
    summaries: Summaries,
    read_only_reason: Option<&'static str>,
    unchecked: Option<&'static str>,
    /// See [`Ffs::stale`].
    stale: Option<&'static str>,
    /// May become read-write by [`Ffs::remount`].
    may_write: bool,
    last_sync: i64,
    mounted_on: String,
}

impl Mount {
    /// Starts an operation that changes the volume. Returns the mount lock, held shared.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub(crate) fn begin_write(&self) -> Result<RwLockReadGuard<'_, ()>> {
        let mount_lock = self.mount_lock.read();
        if self.ump.is_read_only() {
            return Err(Error::ReadOnly(""));
        }
        Ok(mount_lock)
    }

    /// Whether the volume was not unmounted cleanly, and was not checked since.
    pub(crate) fn is_unchecked(&self) -> bool {
        self.unchecked.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Makes all changes in memory durable, summaries and superblock last. A failed write does not
    /// prevent the other writes. The caller holds the mount lock alone.
    fn sync_alone(&self) -> Result<()> {
        let timed = self.table.flush_times();
        self.write_quotas();
        self.syncer.sync_alone()?;
        // Copies for snapshots change their inodes. Each block is copied once, so this ends.
        while self.table.store_snapshot_growth()? {
            self.syncer.sync_alone()?;
        }
        timed?;
        self.ump.snapshots.write()?;
        self.write_summaries()?;
        self.ump.ordering.checkpoint()
    }

    /// As [`Mount::sync_alone`], with the mount lock held shared. Returns whether all is durable.
    fn sync_shared(&self) -> Result<bool> {
        let timed = self.table.flush_times();
        self.write_quotas();
        if !self.syncer.sync()? {
            return Ok(false);
        }
        timed?;
        self.table.store_snapshot_growth()?;
        self.ump.snapshots.write()?;
        self.write_summaries().map(|()| true)
    }

    /// Makes the summaries and the superblock durable.
    fn write_summaries(&self) -> Result<()> {
        let mut st = self.state();
        let now = self.ump.cache.clock.now().secs;
        st.last_sync = now;
        if self.ump.cache.is_damaged() {
            st.summaries.mark_damaged();
        }
        let changed = st.summaries.collect(&self.ump.alloc, now);
        self.ump.ordering.name_groups(&changed)?;
        st.summaries.set_snapshots(&self.ump.snapshots.listed());
        st.summaries.write(self.ump.g(), &*self.ump.cache.dev)?;
        drop(st);
        self.ump.cache.flush_device()
    }

    /// Marks the volume clean at the end of a read-write mount, when everything is durable. The
    /// mount becomes read-only even if this fails, because the mark may have reached the device.
    fn mark_clean(&self) -> Result<()> {
        self.ump.set_read_only(true);
        let cache = &self.ump.cache;
        let mut st = self.state();
        if !cache.needs_check() {
            st.summaries.mark_clean();
        }
        st.summaries.write_superblock(&*self.ump.cache.dev)?;
        drop(st);
        cache.flush_device()
    }

    /// Frees the blocks that are kept for copies, when everything is durable.
    fn release_places(&self) -> Result<()> {
        for _ in 0..RELEASES {
            if self.ump.snapshots.release_places() == 0 {
                break;
            }
            // Groups are written without copies. Readers may note access times meanwhile, whose
            // writes may need copies.
            self.sync_alone()?;
        }
        Ok(())
    }

    /// Frees removed files, writes everything and marks the volume clean.
    fn settle(&self) -> Result<()> {
        if self.ump.ordering.pending() != Pending::default() {
            // This frees removed files that are not in use. `Mount::sync_alone` below reports
            // errors.
            drop(self.syncer.sync_alone());
        }
        let purged = self.table.purge();
        self.sync_alone()?;
        self.release_places()?;
        self.mark_clean()?;
        purged
    }
}

impl Ffs {
    /// Writes everything, makes it durable and marks the volume clean.
    ///
    /// Files that were removed while in use are freed. The mount becomes read-only. Files still in
    /// use can be read until their last handle is dropped.
    ///
    /// # Errors
    /// The device's. Then no change is lost, the mount continues, and unmount may be called again.
    pub fn unmount(&self) -> Result<()> {
        let _no_snapshot = self.0.snapshot_lock.lock();
        let _alone = self.0.mount_lock.write();
        if !self.is_read_only() {
            let settled = self.0.settle();
            settled.inspect_err(|e| error!(target: LOG, error = %e, "unmount failed"))?;
            self.0.ump.ordering.stop_journal();
        }
        self.0.ump.set_read_only(true);
        self.0.release_quota_files();
        self.purge_names();
        let mut st = self.0.state();
        st.may_write = false;
        st.read_only_reason = Some("it is unmounted");
        info!(target: LOG, needs_check = self.0.ump.cache.needs_check(), "unmounted");
        Ok(())
    }

    /// Whether [`Ffs::remount`] may make the volume read-write.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.0.state().may_write
    }

    /// Changes between read-only and read-write.
    ///
    /// # Errors
    /// [`Error::Busy`] if a removed file is still in use, [`Error::ReadOnly`] if the volume may not
    /// be written, the device's. The mount stays as it was, except if only the write that marks the
    /// volume clean failed: then it is read-only.
    pub fn remount(&self, read_only: bool) -> Result<()> {
        let _no_snapshot = self.0.snapshot_lock.lock();
        let _alone = self.0.mount_lock.write();
        if read_only == self.is_read_only() {
            return Ok(());
        }
        if read_only {
            // Removed files that are freed now change the usage of their owners. `sync_alone`
            // reports errors.
            drop(self.0.syncer.sync_alone());
            let synced = self.0.sync_alone();
            if self.0.table.has_unlinked() {
                return Err(Error::Busy("a removed file is still in use"));
            }
            synced?;
            self.0.release_places()?;
            info!(target: LOG, "read-only");
            self.0.mark_clean()?;
            self.0.ump.ordering.stop_journal();
            self.0.forget_snapshots();
            return Ok(());
        }
        let st = self.0.state();
        if !st.may_write {
            return Err(Error::ReadOnly(": the volume may not be written"));
        }
        let listed = st.summaries.snapshots();
        drop(st);
        if let Some(why) = self.0.load_snapshots(&listed)? {
            self.0.state().read_only_reason = Some(why);
            return Err(Error::ReadOnly(": one of its snapshots is damaged"));
        }
        self.0.state().summaries.set_snapshots(&self.0.ump.snapshots.listed());
        self.0.renew_journal().inspect_err(|_| self.0.forget_snapshots())?;
        self.0.ump.set_read_only(false);
        info!(target: LOG, "read-write");
        self.0.free_unnamed_snapshots();
        Ok(())
    }

    /// Whether the mount refuses changes.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.0.ump.is_read_only()
    }

    /// Why the mount is read-only although the options did not request it.
    #[must_use]
    pub fn read_only_reason(&self) -> Option<&'static str> {
        self.0.state().read_only_reason
    }

    /// A message for the user if the volume is mounted read-write although it was not unmounted
    /// cleanly.
    #[must_use]
    pub fn unchecked(&self) -> Option<&'static str> {
        self.0.state().unchecked
    }

    /// The constants of the volume.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.0.ump.g()
    }

    /// Work counters since the mount.
    #[must_use]
    pub fn counters(&self) -> CounterValues {
        self.0.ump.counters().values()
    }

    /// Space and inodes.
    #[must_use]
    pub fn statfs(&self) -> StatFs {
        let (g, alloc) = (self.0.ump.g(), &self.0.ump.alloc);
        let totals = alloc.totals();
        // Pending frees count as free: an operation that needs the space waits for them.
        let (frags, inodes) = self.0.table.will_be_free();
        let more = i64::try_from(frags).unwrap_or(i64::MAX);
        let free = g.freespace(&totals, 0).max(0).saturating_add(more);
        let st = self.0.state();
        StatFs {
            bsize: g.bsize,
            fsize: g.fsize,
            frags: g.dsize,
            frags_free: free as u64,
            frags_avail: g.freespace(&totals, alloc.params().minfree).saturating_add(more),
            inodes: u64::from(g.inodes()).saturating_sub(2),
            inodes_free: (totals.nifree.max(0) as u64).saturating_add(inodes),
            id: st.summaries.id(),
            name_max: ffs_ondisk::dir::MAXNAMLEN as u32,
            totals,
        }
    }

    /// Writes everything and makes it durable.
    ///
    /// # Errors
    /// The device's. Changes that were not written stay in memory, and later calls try again.
    pub fn sync(&self) -> Result<()> {
        {
            let mount_lock = self.0.mount_lock.read();
            if self.is_read_only() {
                return Ok(());
            }
            if self.0.sync_shared()? {
                drop(mount_lock);
                return self.retire_journal();
            }
        }
        // Other threads make changes faster than they can be written.
        self.stop_and_sync()
    }

    /// Makes everything durable while no operation is in progress. The caller holds no lock.
    pub(crate) fn stop_and_sync(&self) -> Result<()> {
        let _alone = self.0.mount_lock.write();
        if self.is_read_only() { Ok(()) } else { self.0.sync_alone() }
    }

    /// The work of the syncer: writes buffers that have been dirty for `kern.filedelay`,
    /// `kern.dirdelay` or `kern.metadelay` seconds, and every 30 seconds the superblock. The owner
    /// of the mount calls it about once a second.
    ///
    /// # Errors
    /// As [`Ffs::sync`].
    pub fn tick(&self) -> Result<()> {
        let now = self.0.ump.cache.clock.now().secs;
        self.0.ump.dirhash.set_time(now);
        self.0.ump.cache.set_time(now);
        {
            let _mount_lock = self.0.mount_lock.read();
            if self.is_read_only() {
                return Ok(());
            }
            self.write_due(now)?;
        }
        self.resume_journal()?;
        self.empty_journal()
    }

    fn write_due(&self, now: i64) -> Result<()> {
        let due = now - self.0.state().last_sync >= SYNC_AGE;
        let timed = if due { self.0.table.flush_times() } else { Ok(()) };
        if due {
            self.0.write_quotas();
        }
        self.0.syncer.write_due().and(timed)?;
        if due { self.0.write_summaries() } else { Ok(()) }
    }

    /// Whether three quarters of the limit of dirty buffers are reached. Then FreeBSD's buffer
    /// daemon begins to write (`bd_wakeup`).
    #[must_use]
    pub fn buf_daemon_due(&self) -> bool {
        self.0.ump.cache.buf_daemon_due()
    }

    /// The work of the buffer daemon: writes the oldest third of the dirty buffers, if they are
    /// ready. If it is never called, operations write when too many buffers are dirty.
    ///
    /// # Errors
    /// As [`Ffs::sync`].
    pub fn write_oldest(&self) -> Result<()> {
        let _mount_lock = self.0.mount_lock.read();
        if self.is_read_only() { Ok(()) } else { self.0.syncer.write_oldest() }
    }

    /// Frees memory that is used only for speed, because memory is short. `dirhash_reclaimage` and
    /// `dirhash_reclaimpercent` select the directory hashes.
    pub fn low_memory(&self) {
        let pool = &self.0.ump.dirhash;
        pool.set_time(self.0.ump.cache.clock.now().secs);
        pool.lowmem();
        self.0.table.low_memory();
    }

    /// The ordering mode in force, by the name of its mount option.
    #[must_use]
    pub fn ordering(&self) -> &'static str {
        self.0.ump.ordering.name()
    }

    /// The place of the superblock in force, bytes from the start of the device.
    #[must_use]
    pub fn superblock_location(&self) -> u64 {
        self.0.state().summaries.location()
    }

    /// First fragment of the summary area.
    #[must_use]
    pub fn summary_area(&self) -> FragNo {
        self.0.ump.g().csaddr
    }
}
