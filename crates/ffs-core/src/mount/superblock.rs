//! The superblock in force: mark it dirty and clean, and write it after the summary area.
//!
//! # Invariants
//! 1. The summary area is written before the superblock with the totals
//!    (`spec/on-disk-format.md` §3.4).
//! 2. Fields that the mount does not need to change keep the values that were found.
//! 3. `FS_DOSOFTDEP` is set while the volume is mounted with soft updates, because a check after a
//!    crash depends on it. If it was not set before, `SOFTDEP_TEMPORARY` is set, too. Unmount and a
//!    successful check then clear both.

use crate::alloc::{Alloc, Optim};
use crate::error::Result;
use crate::ordering::rules::{Rule, holds};
use ffs_device::BlockDevice;
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{CgNo, Csum, Geometry, Ino, Superblock};

/// The superblock and the per-group summaries.
pub(super) struct Summaries {
    sb: Superblock,
    groups: Vec<Csum>,
    /// Flags of a mount that begins while the volume is not sound.
    flags_when_unsound: FsFlags,
    /// Flags to be restored when the volume is marked clean.
    flags_when_clean: FsFlags,
    /// The volume may be marked clean at the end of the mount.
    was_sound: bool,
    /// The ordering mode is soft updates.
    keeps_softdep: bool,
}

impl Summaries {
    pub(super) fn new(sb: Superblock, was_sound: bool, keeps_softdep: bool) -> Summaries {
        let flags_when_unsound = sb.flags();
        Summaries {
            flags_when_unsound,
            flags_when_clean: flags_when_unsound.permanent(),
            sb,
            groups: Vec::new(),
            was_sound,
            keeps_softdep,
        }
    }

    pub(super) fn location(&self) -> u64 {
        self.sb.location
    }

    /// The file system's id.
    pub(super) fn id(&self) -> u64 {
        let [made, random] = self.sb.f.id.map(|v| u64::from(v as u32));
        made << 32 | random
    }

    /// The time of a mount that begins now. On a volume with a soft-updates journal it is after
    /// that of every earlier mount, so that segments of these are never taken for its own.
    pub(super) fn next_mount_time(&self, now: i64) -> i64 {
        if self.sb.flags().contains(FsFlags::SUJ) && holds(Rule::NewTimeEachMount) {
            now.max(self.sb.f.mtime.saturating_add(1))
        } else {
            now
        }
    }

    /// Whether a mount that begins can keep a journal: the volume has one and is clean.
    pub(super) fn may_keep_journal(&self) -> bool {
        let sb = &self.sb;
        let last = sb.f.mtime == i64::MAX;
        self.was_sound && self.keeps_softdep && sb.flags().contains(FsFlags::SUJ) && !last
    }

    /// Records the beginning of a read-write mount at `now`; `time` is [`Self::next_mount_time`].
    pub(super) fn mark_mounted(&mut self, (now, time): (i64, i64), on: &str) {
        let mut flags = if self.was_sound {
            self.flags_when_clean
        } else {
            self.flags_when_unsound | FsFlags::UNCLEAN
        };
        if self.keeps_softdep && !flags.contains(FsFlags::DOSOFTDEP) {
            // A check after a crash must expect the states that soft updates leave (invariant 3).
            flags |= FsFlags::DOSOFTDEP | FsFlags::SOFTDEP_TEMPORARY;
        }
        if flags.intersects(FsFlags::DOSOFTDEP | FsFlags::SUJ) && !self.keeps_softdep {
            flags |= FsFlags::NEEDSFSCK;
        }
        self.sb.set_flags(flags);
        let f = &mut self.sb.f;
        if !flags.contains(FsFlags::METACKHASH) {
            // A system without check hashes wrote the volume (`spec/on-disk-format.md` §3.1).
            f.metackhash = 0;
        }
        f.clean = 0;
        f.fmod = 0;
        f.ronly = 0;
        f.time = now;
        // A soft-updates journal of an earlier mount is stale from here on
        // (`spec/soft-updates.md` §13).
        f.mtime = time;
        f.pendingblocks = 0;
        f.pendinginodes = 0;
        self.sb.set_fsmnt(on.as_bytes());
    }

    /// Makes the journal stale: it was begun at another time.
    pub(super) fn set_mount_time(&mut self, time: i64) {
        self.sb.f.mtime = time;
    }

    /// Records that the volume is damaged. A volume with soft updates gets `FS_NEEDSFSCK`, because
    /// one that is only dirty may be mounted again without a check.
    pub(super) fn mark_damaged(&mut self) {
        if !self.sb.flags().contains(FsFlags::DOSOFTDEP) {
            return;
        }
        self.flags_when_unsound = self.sb.flags() | FsFlags::NEEDSFSCK;
        self.was_sound = false;
        self.sb.set_flags(self.flags_when_unsound);
    }

    /// Records that a check of a snapshot found the volume sound, or corrected it.
    pub(super) fn mark_checked(&mut self) {
        if !self.was_sound {
            self.was_sound = true;
            self.flags_when_unsound -= FsFlags::UNCLEAN;
            self.flags_when_clean = self.flags_when_unsound.permanent();
            self.sb.set_flags(self.sb.flags() - FsFlags::UNCLEAN);
        }
    }

    /// Whether the superblock has this flag now.
    pub(super) fn has(&self, flag: FsFlags) -> bool {
        self.sb.flags().contains(flag)
    }

    /// Whether the ordering mode is soft updates.
    pub(super) fn keeps_softdep(&self) -> bool {
        self.keeps_softdep
    }

    /// Whether the volume may be marked clean at the end of the mount.
    pub(super) fn is_sound(&self) -> bool {
        self.was_sound
    }

    /// Copies the counts of the allocator. Returns the groups whose counts changed since the last
    /// call.
    pub(super) fn collect(&mut self, alloc: &Alloc, now: i64) -> Vec<CgNo> {
        let counts = alloc.group_sums();
        let both = (0..).map(CgNo).zip(counts.iter().zip(&self.groups));
        let changed = both.filter(|(_, (new, old))| new != old).map(|(c, _)| c).collect();
        self.groups = counts;
        self.sb.set_cstotal(alloc.totals());
        self.sb.f.optim = match alloc.optim() {
            Optim::Time => 0,
            Optim::Space => 1,
        };
        self.sb.f.time = now;
        changed
    }

    /// The snapshots that the superblock lists, oldest first.
    pub(super) fn snapshots(&self) -> Vec<Ino> {
        ffs_ondisk::snapshot::active(&self.sb)
    }

    /// Sets the list of snapshots.
    pub(super) fn set_snapshots(&mut self, listed: &[Ino]) {
        self.sb.f.snapinum.fill(0);
        for (slot, ino) in self.sb.f.snapinum.iter_mut().zip(listed) {
            *slot = ino.0;
        }
    }

    /// The superblock of a snapshot that is made now: that of a clean volume without snapshots,
    /// with `totals`. `sound`: nothing is known to be wrong with the volume.
    pub(super) fn image(&self, totals: &Csum, now: i64, sound: bool) -> Vec<u8> {
        let mut sb = self.sb.clone();
        if self.was_sound && sound {
            sb.set_flags(self.flags_when_clean);
            sb.f.clean = 1;
        }
        // The journal in the image is that of the volume.
        sb.set_flags(sb.flags().difference(FsFlags::SUJ));
        sb.f.snapinum.fill(0);
        sb.set_cstotal(*totals);
        sb.f.time = now;
        sb.encode()
    }

    /// Records the end of a read-write mount.
    pub(super) fn mark_clean(&mut self) {
        if self.was_sound {
            self.sb.set_flags(self.flags_when_clean);
            self.sb.f.clean = 1;
        }
    }

    /// Writes the summary area, then the superblock.
    pub(super) fn write(&self, g: &Geometry, dev: &dyn BlockDevice) -> Result<()> {
        let mut area = vec![0u8; g.cssize as usize];
        for (i, cs) in self.groups.iter().enumerate() {
            cs.encode(&mut area, i * Csum::SIZE, g.endian);
        }
        dev.write_at(g.frag_to_byte(g.csaddr), &area)?;
        self.write_superblock(dev)
    }

    /// Writes the superblock alone.
    pub(super) fn write_superblock(&self, dev: &dyn BlockDevice) -> Result<()> {
        Ok(dev.write_at(self.sb.location, &self.sb.encode())?)
    }
}
