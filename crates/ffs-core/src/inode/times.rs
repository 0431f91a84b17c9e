//! Times and attributes.
//!
//! Access times are lazy (`IN_ACCESS`): a reader notes the time under the shared lock. The next
//! update of the inode, `sync`, or recycling copies it into the inode and its block. The times of a
//! directory whose entries changed are lazy too, as in FreeBSD (`IN_MODIFIED`). No write waits for
//! times.
//!
//! Reference: `spec/soft-updates.md` §6.13, §6.14.

use super::{InodeData, InodeView, LockedInode, NOT_ACCESSED};
use crate::options::Atime;
use crate::types::Attr;
use ffs_ondisk::{FileType, Format, Timespec};
use std::sync::atomic::Ordering;

const NANOS: i64 = 1_000_000_000;
/// The age in seconds at which a relative access time is renewed.
const DAY: i64 = 24 * 3600;

impl InodeData {
    /// The time of the last access, noted or in `d`.
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

    /// Whether times in memory are newer than those in the inode's block.
    pub(crate) fn times_noted(&self) -> bool {
        self.retimed || self.accessed.load(Ordering::Relaxed) != NOT_ACCESSED
    }
}

impl<'a> LockedInode<'a> {
    /// Sets `mtime`, `ctime` and the change counter in memory, after a change of the content.
    pub(crate) fn touch_modified(&mut self) {
        self.touch_changed();
        self.data.d.mtime = self.data.d.ctime;
    }

    /// Does the same as [`LockedInode::touch_modified`] for a directory of which only entries
    /// changed. The next update, `sync` or recycling copies the times into the inode's block.
    pub(crate) fn note_modified(&mut self) {
        self.touch_modified();
        self.data.retimed = true;
    }

    /// Sets `ctime` and the change counter in memory, after a change of attributes.
    pub(crate) fn touch_changed(&mut self) {
        self.data.d.ctime = self.ump.now();
        self.data.d.modrev = self.data.d.modrev.wrapping_add(1);
    }
}

impl<'a> InodeView<'a> {
    /// Notes an access, if the mount option for access times requires it.
    pub(crate) fn touch_accessed(self) {
        if self.ump.atime == Atime::Never || self.ump.is_read_only() {
            return;
        }
        let now = self.ump.now();
        if self.ump.atime == Atime::Relative {
            let at = self.data.atime();
            let young = now.secs.saturating_sub(at.secs) < DAY && at <= now;
            if young && at > self.data.d.mtime && at > self.data.d.ctime {
                return;
            }
        }
        let nanos = now.secs.saturating_mul(NANOS).saturating_add(now.nsec.into());
        self.data.accessed.store(nanos, Ordering::Relaxed);
    }

    /// The attributes that `stat` returns.
    pub(crate) fn attr(self) -> Attr {
        let d = &self.data.d;
        let kind = d.file_type().unwrap_or(FileType::Regular);
        Attr {
            ino: self.ip.ino,
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
            atime: self.data.atime(),
            mtime: d.mtime,
            ctime: d.ctime,
            birthtime: if self.g().format == Format::Ufs2 { d.birthtime } else { d.ctime },
            flags: d.flags,
        }
    }
}
