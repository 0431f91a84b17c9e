//! The soft-updates journal of a mount: finding it, beginning to keep it, emptying it.
//!
//! # Invariants
//! 1. `di_modrev` of the journal's inode equals `fs_mtime` only while the journal is kept, and
//!    afterwards until the next mount or check. `di_modrev` is durable first: until `fs_mtime` is,
//!    an old journal is unusable by either.
//! 2. `fs_mtime` of a volume with a journal never repeats, so no segment of an earlier mount has
//!    the time of this one.
//! 3. No journal is kept while the volume has a snapshot.
//! 4. The flags that protect the journal's file from changes stay set while the journal is kept:
//!    its blocks are written past the file, so they must not become those of another one.
//!
//! Reference: `spec/soft-updates.md` §13.1, `spec/on-disk-format.md` §14.

use super::{Ffs, LOG, Mount};
use crate::counters::Gauge;
use crate::dir;
use crate::error::{Error, Result};
use crate::inode::{Inode, LockedInode};
use crate::ordering::{JournalFile, JournalSpace, JournalStats};
use ffs_ondisk::{Ino, Lbn, journal};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tracing::{info, warn};

/// Largest journal that is kept, bytes: the recovery reads no larger one.
const MOST_BYTES: u64 = 256 << 20;

impl Mount {
    /// Prepares the journal of a mount at `time`: its inode gets this time. `None` if the mount
    /// keeps no journal.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn prepare_journal(&self, time: i64) -> Result<Option<JournalFile>> {
        let Ok(modrev) = u64::try_from(time) else { return Ok(None) };
        if !self.ump.ordering.wants_journal() {
            return Ok(None);
        }
        let found = self.find_journal()?;
        let held = found.and_then(|ip| self.journal_file(&ip, time).map(|file| (ip, file)));
        let (ip, file) = match held {
            Ok(found) => found,
            Err(e) => {
                warn!(target: LOG, error = %e, "the journal is not kept");
                return Ok(None);
            }
        };
        let block = self.ump.inode_block(ip.ino)?;
        {
            let mut inode = ip.lock(&self.ump);
            inode.data.d.modrev = modrev;
            inode.store_unordered(&block);
        }
        self.ump.cache.bwrite(&block)?;
        self.journal_ino.store(ip.ino.0, Relaxed);
        // It is durable together with the superblock, before any other segment is written.
        if let Some((at, bytes)) = file.opening() {
            self.ump.cache.dev.write_at(at, &bytes)?;
        }
        Ok(Some(file))
    }

    /// The file that the root names as the journal.
    fn find_journal(&self) -> Result<Result<Arc<Inode>>> {
        let root = self.table.get(Ino::ROOT)?;
        let entry = dir::find(root.lock(&self.ump).view(), journal::NAME);
        Ok(match entry {
            Ok(Some(entry)) => self.table.get(entry.ino),
            Ok(None) => Err(Error::NotFound),
            Err(e) => Err(e),
        })
    }

    fn journal_file(&self, ip: &Arc<Inode>, time: i64) -> Result<JournalFile> {
        let g = self.ump.g();
        let inode: LockedInode<'_> = ip.lock(&self.ump);
        let d = &inode.data.d;
        let problem = journal::inode_problem(g, d);
        let problem = problem.or((d.size > MOST_BYTES).then_some("it is larger than 256 MiB"));
        if let Some(why) = problem {
            return Err(Error::Invalid(why));
        }
        let blocks = self.journal_limit.map_or(u64::MAX, |n| (n / u64::from(g.bsize)).max(1));
        let lbns = (0..(d.size / u64::from(g.bsize)).min(blocks)).map(Lbn);
        let address = |lbn| match inode.view().bmap(lbn)? {
            Some(at) => Ok(g.frag_to_byte(at)),
            None => Err(Error::Invalid("it has a hole")),
        };
        Ok(JournalFile {
            blocks: lbns.map(address).collect::<Result<_>>()?,
            bsize: g.bsize as usize,
            sector: self.ump.cache.dev.sector_size() as usize,
            endian: g.endian,
            time,
        })
    }

    /// Begins to keep the journal, when the superblock with its time is durable.
    pub(super) fn begin_journal(&self, file: Option<JournalFile>) {
        if file.is_some_and(|file| self.ump.ordering.start_journal(file)) {
            let mut st = self.state();
            let now = self.ump.cache.clock.now().secs;
            st.summaries.collect(&self.ump.alloc, now);
            info!(target: LOG, "the journal is kept");
        }
    }

    /// Whether `ino` is the journal that this mount keeps.
    pub(crate) fn is_kept_journal(&self, ino: Ino) -> bool {
        self.journal_ino.load(Relaxed) == ino.0 && self.ump.ordering.keeps_journal()
    }

    /// Makes the journal unusable and stops keeping it, because a snapshot is made: a recovery
    /// makes no copies of what it frees. The caller has stopped all operations and made everything
    /// durable.
    ///
    /// # Errors
    /// The device's. The journal is still kept.
    pub(super) fn pause_journal(&self) -> Result<()> {
        if !self.ump.ordering.keeps_journal() {
            return Ok(());
        }
        let now = self.ump.cache.clock.now().secs;
        let mut st = self.state();
        let time = st.summaries.next_mount_time(now);
        st.summaries.set_mount_time(time);
        st.summaries.write_superblock(&*self.ump.cache.dev)?;
        drop(st);
        self.ump.cache.flush_device()?;
        self.ump.ordering.stop_journal();
        self.journal_paused.store(true, Relaxed);
        info!(target: LOG, "the journal is not kept while there are snapshots");
        Ok(())
    }

    /// Begins the journal of this mount, and records the beginning in the superblock, durably.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn renew_journal(&self) -> Result<()> {
        let now = self.ump.cache.clock.now().secs;
        let st = self.state();
        let (time, may) = (st.summaries.next_mount_time(now), st.summaries.may_keep_journal());
        let on = st.mounted_on.clone();
        drop(st);
        let snapshots = !self.ump.snapshots.all().is_empty();
        let wanted = may && self.ump.ordering.wants_journal();
        self.journal_paused.store(wanted && snapshots, Relaxed);
        let journal = if wanted && !snapshots { self.prepare_journal(time)? } else { None };
        let mut st = self.state();
        st.summaries.mark_mounted((now, time), &on);
        st.summaries.write_superblock(&*self.ump.cache.dev)?;
        drop(st);
        self.ump.cache.flush_device()?;
        self.begin_journal(journal);
        Ok(())
    }
}

impl Ffs {
    /// Keeps the journal again once the last snapshot is removed. The caller holds no lock.
    ///
    /// # Errors
    /// As [`Ffs::sync`].
    pub(super) fn resume_journal(&self) -> Result<()> {
        let mp = &self.0;
        // A new journal has no records of files that lost their names before it began.
        let may = || {
            mp.journal_paused.load(Relaxed)
                && !self.is_read_only()
                && mp.ump.snapshots.all().is_empty()
                && !mp.table.has_unlinked()
        };
        if !may() {
            return Ok(());
        }
        // A snapshot that is being made continues.
        let Some(_no_snapshot) = mp.snapshot_lock.try_lock() else { return Ok(()) };
        let _alone = mp.mount_lock.write();
        if !may() {
            return Ok(());
        }
        mp.sync_alone()?;
        if !may() || !mp.syncer.is_idle() {
            return Ok(());
        }
        mp.renew_journal()
    }

    /// Empties the journal if operations have to wait for it. The caller holds no lock.
    pub(crate) fn relieve_journal(&self) {
        let ordering = &self.0.ump.ordering;
        if ordering.journal_space() != JournalSpace::Full {
            return;
        }
        let _alone = self.0.mount_lock.write();
        if !self.is_read_only() && ordering.journal_space() == JournalSpace::Full {
            // `sync` and `fsync` report failed writes. Without space the journal is given up.
            drop(self.0.sync_alone());
        }
    }

    /// Empties the journal if less than a third of it is free: operations are stopped only for what
    /// is left after everything was written once.
    ///
    /// # Errors
    /// As [`Ffs::sync`].
    pub(super) fn empty_journal(&self) -> Result<()> {
        if self.0.ump.ordering.journal_space() == JournalSpace::Enough {
            return Ok(());
        }
        self.sync()?;
        self.stop_and_sync()
    }

    /// Empties the journal after a sync, if nothing is outstanding or a quarter of it is used. The
    /// caller holds no lock.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn retire_journal(&self) -> Result<()> {
        let mp = &self.0;
        let idle = || mp.syncer.is_idle() && !self.is_read_only();
        let JournalStats { sectors, used, .. } = mp.ump.ordering.journal_stats();
        if used > sectors / 4 {
            return self.stop_and_sync();
        }
        if used == 0 || !idle() {
            return Ok(());
        }
        let _alone = mp.mount_lock.write();
        if !idle() {
            return Ok(());
        }
        // Groups may have been written since the sync, and the records say so no longer.
        mp.write_summaries()?;
        mp.ump.ordering.checkpoint()
    }

    /// The journal's counts as present quantities; none if no journal is kept.
    pub(super) fn journal_gauges(&self) -> Vec<Gauge> {
        let s = self.journal_stats();
        if !s.kept && s.overflows == 0 {
            return Vec::new();
        }
        vec![
            Gauge::new(
                "debug.softdep.journal_sectors",
                s.sectors,
                "Sectors of the journal for segments.",
            ),
            Gauge::new("debug.softdep.journal_used", s.used, "Sectors of the journal in use."),
            Gauge::new(
                "debug.softdep.journal_records",
                s.records,
                "Records written to the journal.",
            ),
            Gauge::new(
                "debug.softdep.journal_segments",
                s.segments,
                "Segments written to the journal.",
            ),
            Gauge::new("debug.softdep.journal_bytes", s.bytes, "Bytes written to the journal."),
            Gauge::new(
                "debug.softdep.journal_flushes",
                s.flushes,
                "Device flushes for the journal.",
            ),
            Gauge::new(
                "debug.softdep.journal_checkpoints",
                s.checkpoints,
                "Times that everything was durable and the journal was emptied.",
            ),
            Gauge::new(
                "debug.softdep.journal_overflows",
                s.overflows,
                "Times that the journal was given up because it was full.",
            ),
        ]
    }

    /// Counts of the journal since the mount.
    #[must_use]
    pub fn journal_stats(&self) -> JournalStats {
        self.0.ump.ordering.journal_stats()
    }
}
