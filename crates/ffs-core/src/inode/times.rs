//! Times and attributes.
//!
//! Access times are lazy: a reader notes the time under the shared lock, the next update of the inode
//! (or `sync`, or recycling) carries it into the inode. So are the times of a directory whose entries
//! changed: as on BSD the inode is marked, and carried into its block later. Times never order anything.
//!
//! Reference: `spec/soft-updates.md` §6.13, §6.14.

use super::{Inode, InodeData, InodeTable, NOT_ACCESSED};
use crate::error::Result;
use crate::options::Atime;
use crate::ordering::InodeChange;
use crate::types::Attr;
use ffs_ondisk::{FileType, Format, Timespec};
use std::sync::atomic::Ordering;

const NANOS: i64 = 1_000_000_000;
/// Age at which a relative access time is renewed, seconds.
const DAY: i64 = 24 * 3600;

impl InodeData {
    /// Time of the last access, a noted one included.
    pub(crate) fn atime(&self) -> Timespec {
        match self.accessed.load(Ordering::Relaxed) {
            NOT_ACCESSED => self.d.atime,
            t => Timespec { secs: t.div_euclid(NANOS), nsec: t.rem_euclid(NANOS) as i32 },
        }
    }

    /// Sets the access time in memory.
    pub(crate) fn set_atime(&mut self, t: Timespec) {
        self.d.atime = t;
        *self.accessed.get_mut() = NOT_ACCESSED;
    }

    /// Whether times are noted that the inode's block does not have yet.
    pub(super) fn times_noted(&self) -> bool {
        self.retimed || self.accessed.load(Ordering::Relaxed) != NOT_ACCESSED
    }
}

impl InodeTable {
    /// Content changed: sets `mtime`, `ctime` and the change counter, in memory.
    pub(crate) fn touch_modified(&self, data: &mut InodeData) {
        self.touch_changed(data);
        data.d.mtime = data.d.ctime;
    }

    /// A directory's entries changed, and nothing else of it: as [`InodeTable::touch_modified`], and the
    /// times go to the inode's block with the next update, `sync` or recycling.
    pub(crate) fn note_modified(&self, data: &mut InodeData) {
        self.touch_modified(data);
        data.retimed = true;
    }

    /// Attributes changed: sets `ctime` and the change counter, in memory.
    pub(crate) fn touch_changed(&self, data: &mut InodeData) {
        data.d.ctime = self.ump.now();
        data.d.modrev = data.d.modrev.wrapping_add(1);
    }

    /// Notes an access as the mount's policy says.
    pub(crate) fn touch_accessed(&self, data: &InodeData) {
        if self.ump.atime == Atime::Never || self.ump.is_read_only() {
            return;
        }
        let now = self.ump.now();
        if self.ump.atime == Atime::Relative {
            let at = data.atime();
            let young = now.secs.saturating_sub(at.secs) < DAY && at <= now;
            if young && at > data.d.mtime && at > data.d.ctime {
                return;
            }
        }
        let nanos = now.secs.saturating_mul(NANOS).saturating_add(now.nsec.into());
        data.accessed.store(nanos, Ordering::Relaxed);
    }

    /// What `stat` shows.
    pub(crate) fn attr(&self, ip: &Inode, data: &InodeData) -> Attr {
        let d = &data.d;
        let kind = d.file_type().unwrap_or(FileType::Regular);
        Attr {
            ino: ip.ino,
            generation: d.generation,
            kind,
            perm: d.mode & 0o7777,
            nlink: d.nlink.into(),
            uid: d.uid,
            gid: d.gid,
            size: d.size,
            blocks: d.blocks,
            blksize: self.g().bsize,
            rdev: if kind.is_device() { d.rdev() } else { 0 },
            atime: data.atime(),
            mtime: d.mtime,
            ctime: d.ctime,
            birthtime: if self.g().format == Format::Ufs2 { d.birthtime } else { d.ctime },
            flags: d.flags,
        }
    }

    /// Carries noted times into the inode blocks' buffers. The caller holds no inode lock.
    ///
    /// # Errors
    /// The device's: the first; the other inodes are done all the same.
    pub(crate) fn flush_times(&self) -> Result<()> {
        let mut result = Ok(());
        for ip in self.select(InodeData::times_noted) {
            let mut data = ip.write();
            if data.alive() && data.times_noted() {
                result = result.and(self.update(&ip, &mut data, InodeChange::Attr));
            }
        }
        result
    }
}
