//! The mounted volume: [`Ffs`], its life from mounting to unmounting, and the superblock in force.
//!
//! # Invariants
//! 1. Before the first other write of a read-write mount, `fs_clean = 0` is durable; `fs_clean = 1`
//!    is written only after everything else is durable, and only if the volume was clean or checked
//!    when it was mounted and its device has failed no metadata since.
//! 2. A volume this code cannot change without harm is mounted read-only, and
//!    [`Ffs::read_only_reason`] says why (`policy`).
//! 3. A volume that promises soft updates (or a journal) is marked `FS_NEEDSFSCK` while a tenant that
//!    does not keep the promise has it mounted: after a crash nobody may skip the full check. So is one
//!    on which damage was found: its being dirty would not say it.
//! 4. While an operation changes things it holds the gate shared (`Mount::begin_write`); changing
//!    between read-only and read-write, and unmounting, hold it alone.
//!
//! # Locking
//! Outermost first: gate, rename, inodes, buffers, group buffers, allocation summary, cache state.
//! The superblock's own lock is taken with none of the last four held.
//!
//! References: `spec/on-disk-format.md` §3.3, §3.4, §6; `spec/soft-updates.md` §9.3, §13.

mod attach;
mod policy;
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
use ffs_device::clock::{Clock, Rng, SplitMix64, SystemClock};
use ffs_ondisk::{FragNo, Geometry};
use std::sync::Arc;
use superblock::Summaries;
pub use sysctl::{Nature, Sysctl};
use tracing::{error, info};

/// The target of this module's events in the log.
const LOG: &str = "ffs::mount";

/// Seconds after which [`Ffs::tick`] writes summaries and superblock, and notes times in inodes.
const SYNC_AGE: i64 = 30;

/// What the core takes from outside.
#[derive(Clone)]
pub struct Env {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Seeds generation numbers and random placement: same seed, same choices.
    pub seed: u64,
    /// Keys the hashes of names in memory; nothing that gets out follows from it.
    pub secret: u64,
}

impl Env {
    /// The computer's clock and randomness.
    #[must_use]
    pub fn system() -> Env {
        let number = || SplitMix64::from_system().next_u64();
        Env { clock: Arc::new(SystemClock), seed: number(), secret: number() }
    }

    /// A given clock, and numbers that follow from `seed`.
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

/// What all clones and all files in use share.
pub(crate) struct Mount {
    pub(crate) ump: Arc<UfsMount>,
    pub(crate) table: Arc<InodeTable>,
    pub(crate) syncer: Syncer,
    /// Held while directories change parents.
    pub(crate) rename_lock: Mutex<()>,
    /// New files get their directory's group (BSD) instead of their maker's.
    pub(crate) bsdgroups: bool,
    /// A file that replaces another waits for its content.
    pub(crate) replace_order: bool,
    /// Access lists are in force.
    pub(crate) acls: bool,
    /// The volume has NFSv4 access lists.
    pub(crate) nfs4_acls: bool,
    /// The volume was in use when its last mount ended, and no check has looked since.
    pub(crate) unchecked: bool,
    /// Names and attributes are durable when an operation returns.
    pub(crate) stable: bool,
    gate: RwLock<()>,
    state: Mutex<State>,
}

/// The superblock in force and what goes with it.
struct State {
    summaries: Summaries,
    read_only_reason: Option<&'static str>,
    unchecked: Option<&'static str>,
    /// May become read-write by [`Ffs::remount`].
    may_write: bool,
    last_sync: i64,
    mounted_on: String,
}

impl Mount {
    /// Starts an operation that changes the volume.
    pub(crate) fn begin_write(&self) -> Result<RwLockReadGuard<'_, ()>> {
        let gate = self.gate.read();
        if self.ump.is_read_only() {
            return Err(Error::ReadOnly(""));
        }
        Ok(gate)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Everything in memory to the device, durable; summaries and superblock last. What fails does
    /// not keep the rest from the device. The caller holds the gate alone.
    fn sync_alone(&self) -> Result<()> {
        let timed = self.table.flush_times();
        self.syncer.sync_alone()?;
        timed?;
        self.write_summaries()
    }

    /// As [`Mount::sync_alone`] while others may go on. Whether everything was reached.
    fn sync_shared(&self) -> Result<bool> {
        let timed = self.table.flush_times();
        if !self.syncer.sync()? {
            return Ok(false);
        }
        timed?;
        self.write_summaries().map(|()| true)
    }

    /// Summaries and superblock to the device, durable.
    fn write_summaries(&self) -> Result<()> {
        let mut st = self.state();
        let now = self.ump.cache.clock.now().secs;
        st.last_sync = now;
        if self.ump.cache.is_damaged() {
            st.summaries.mark_damaged();
        }
        st.summaries.collect(&self.ump.alloc, now);
        st.summaries.write(self.ump.g(), &*self.ump.cache.dev)?;
        drop(st);
        self.ump.cache.flush_device()
    }

    /// Marks the volume clean, everything being durable: the end of a read-write mount. Nothing may
    /// change any more, even if this fails: the mark may have reached the device.
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

    /// Frees removed files, writes everything and marks the volume clean.
    fn settle(&self) -> Result<()> {
        if self.ump.ordering.pending() != Pending::default() {
            // First: it frees removed files nobody uses. A failure is told below.
            drop(self.syncer.sync_alone());
        }
        let purged = self.table.purge();
        self.sync_alone()?;
        self.mark_clean()?;
        purged
    }
}

impl Ffs {
    /// Writes everything, makes it durable and marks the volume clean.
    ///
    /// Files that were removed while in use are freed. The mount becomes read-only: files still in use can be
    /// read until the last handle goes.
    ///
    /// # Errors
    /// The device's: nothing is lost, the mount goes on as it was, and unmounting may be tried again.
    pub fn unmount(&self) -> Result<()> {
        let _alone = self.0.gate.write();
        if !self.is_read_only() {
            let settled = self.0.settle();
            settled.inspect_err(|e| error!(target: LOG, error = %e, "unmount failed"))?;
        }
        self.0.ump.set_read_only(true);
        self.purge_names();
        let mut st = self.0.state();
        st.may_write = false;
        st.read_only_reason = Some("it is unmounted");
        info!(target: LOG, needs_check = self.0.ump.cache.needs_check(), "unmounted");
        Ok(())
    }

    /// Changes between read-only and read-write.
    ///
    /// # Errors
    /// [`Error::Busy`] if a removed file is still in use, [`Error::ReadOnly`] with the reason if the volume may
    /// not be written, the device's: the mount is as it was then, unless only the mark of a clean volume failed.
    pub fn remount(&self, read_only: bool) -> Result<()> {
        let _alone = self.0.gate.write();
        if read_only == self.is_read_only() {
            return Ok(());
        }
        if read_only {
            let synced = self.0.sync_alone();
            if self.0.table.has_unlinked() {
                return Err(Error::Busy("a removed file is still in use"));
            }
            synced?;
            info!(target: LOG, "read-only");
            return self.0.mark_clean();
        }
        let mut st = self.0.state();
        if !st.may_write {
            return Err(Error::ReadOnly(": the volume may not be written"));
        }
        let (now, on) = (self.0.ump.cache.clock.now().secs, st.mounted_on.clone());
        st.summaries.mark_mounted(now, &on);
        st.summaries.write_superblock(&*self.0.ump.cache.dev)?;
        self.0.ump.cache.flush_device()?;
        self.0.ump.set_read_only(false);
        info!(target: LOG, "read-write");
        Ok(())
    }

    /// Whether the mount refuses changes.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.0.ump.is_read_only()
    }

    /// Why the mount is read-only although read-write was asked for.
    #[must_use]
    pub fn read_only_reason(&self) -> Option<&'static str> {
        self.0.state().read_only_reason
    }

    /// What is to be said of a volume that may be written although it was not unmounted cleanly.
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
        // What will be free counts: who needs it waits for it.
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
    /// The device's; what was not written stays in memory and is tried again later.
    pub fn sync(&self) -> Result<()> {
        {
            let _gate = self.0.gate.read();
            if self.is_read_only() || self.0.sync_shared()? {
                return Ok(());
            }
        }
        // Others change things faster than they can be written.
        self.stop_and_sync()
    }

    /// Writes everything while nobody is in the middle of an operation. The caller holds nothing.
    pub(crate) fn stop_and_sync(&self) -> Result<()> {
        let _alone = self.0.gate.write();
        if self.is_read_only() { Ok(()) } else { self.0.sync_alone() }
    }

    /// The syncer's work: writes what has waited for as long as `kern.filedelay`, `kern.dirdelay` and
    /// `kern.metadelay` say, and every 30 seconds the superblock. To be called about once a second by whoever
    /// drives time.
    ///
    /// # Errors
    /// As [`Ffs::sync`].
    pub fn tick(&self) -> Result<()> {
        let now = self.0.ump.cache.clock.now().secs;
        self.0.ump.dirhash.set_time(now);
        self.0.ump.cache.set_time(now);
        let _gate = self.0.gate.read();
        if self.is_read_only() {
            return Ok(());
        }
        let due = now - self.0.state().last_sync >= SYNC_AGE;
        let timed = if due { self.0.table.flush_times() } else { Ok(()) };
        self.0.syncer.write_due().and(timed)?;
        if due { self.0.write_summaries() } else { Ok(()) }
    }

    /// Whether half of what may be dirty is: the moment at which BSD's buffer daemon begins to write.
    #[must_use]
    pub fn is_half_dirty(&self) -> bool {
        self.0.ump.cache.is_half_dirty()
    }

    /// The buffer daemon's work: writes the older half of what is dirty, as far as it can be written. Without
    /// one, operations write themselves when too much is dirty.
    ///
    /// # Errors
    /// As [`Ffs::sync`].
    pub fn write_oldest(&self) -> Result<()> {
        let _gate = self.0.gate.read();
        if self.is_read_only() { Ok(()) } else { self.0.syncer.write_oldest() }
    }

    /// Memory is short: gives back what is kept only for speed, by age and share (`dirhash_reclaimage`,
    /// `dirhash_reclaimpercent`).
    pub fn low_memory(&self) {
        let pool = &self.0.ump.dirhash;
        pool.set_time(self.0.ump.cache.clock.now().secs);
        pool.lowmem();
        self.0.table.low_memory();
    }

    /// Which ordering tenant is in force, as mount options spell it.
    #[must_use]
    pub fn ordering(&self) -> &'static str {
        self.0.ump.ordering.name()
    }

    /// Where the superblock in force was found, bytes.
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
