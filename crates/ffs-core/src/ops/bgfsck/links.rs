//! Link counts that are too high, and files without names (FreeBSD: `vfs.ffs.adjrefcnt`).

use super::{Adjusted, BackgroundCheck};
use crate::error::{Error, Result};
use crate::inode::LockedInode;
use crate::mount::Mount;
use crate::ops::Held;
use crate::ordering::InodeChange;
use ffs_ondisk::Ino;

use Adjusted::{Done, Refused, Unneeded};

impl BackgroundCheck {
    /// Lowers the link count of an inode by `less`. At 0 the file is freed.
    ///
    /// The count of a directory never falls below the number of its names that the volume has now;
    /// a directory is freed only if it is not in use.
    ///
    /// # Errors
    /// The device's.
    pub fn adjrefcnt(&self, ino: Ino, generation: u32, less: u16) -> Result<Adjusted> {
        self.adjust(|mp| {
            let lowered = mp.lower_links(ino, generation, less)?;
            match (lowered, mp.is_freed(ino, generation)?) {
                (Lowered::To(0), false) => Ok(Refused("its inode could not be freed")),
                (Lowered::To(_), _) => Ok(Done),
                (Lowered::Removed, _) => Ok(Unneeded),
                (Lowered::Not(why), _) => Ok(Refused(why)),
            }
        })
    }
}

/// What became of a link count.
enum Lowered {
    To(u16),
    /// The file was removed, and its links with it.
    Removed,
    Not(&'static str),
}

impl Mount {
    fn lower_links(&self, ino: Ino, generation: u32, less: u16) -> Result<Lowered> {
        let ip = match self.table.get_unlinked(ino) {
            Ok(ip) => ip,
            Err(Error::Stale) => return Ok(Lowered::Removed),
            Err(e) => return Err(e),
        };
        // If this is the last use, and no link is left, dropping it frees the file.
        let held = Held::new(self, ip);
        let mut file = self.lock(&held.ip);
        if !file.alive() || file.d.generation != generation {
            return Ok(Lowered::Removed);
        }
        let Some(left) = file.d.nlink.checked_sub(less) else {
            return Ok(Lowered::Not("it has fewer links now"));
        };
        if let Some(why) = self.keeps_links(&file, left)? {
            return Ok(Lowered::Not(why));
        }
        if left == 0 && file.d.is_dir() {
            self.table.names().purge(file.ip);
            file.ip.dir.drop_index();
        }
        if less > 0 {
            file.d.nlink = left;
            file.touch_changed();
            file.update(InodeChange::NlinkDec)?;
        }
        Ok(Lowered::To(left))
    }

    /// Why the file must not be left with `left` links, if so.
    fn keeps_links(&self, file: &LockedInode<'_>, left: u16) -> Result<Option<&'static str>> {
        if left == 0 {
            let used = file.d.is_dir() && !file.ip.is_used_once();
            return Ok(if file.ip.ino == Ino::ROOT {
                Some("it is the root")
            } else if used {
                Some("the directory is in use")
            } else if self.ump.snapshots.has(file.ip.ino) {
                Some("it is a snapshot in use")
            } else {
                None
            });
        }
        if !file.d.is_dir() {
            return Ok(None);
        }
        let Some(entries) = self.count_entries(file.view(), None)? else {
            return Ok(Some("the directory cannot be read"));
        };
        let least = entries.subdirectories.saturating_add(2);
        Ok((u32::from(left) < least).then_some("the directory has more names now"))
    }

    /// Whether the file is free, or will be when its last use ends or its names are absent from the
    /// device.
    fn is_freed(&self, ino: Ino, generation: u32) -> Result<bool> {
        let ip = match self.table.get_unlinked(ino) {
            Ok(ip) => ip,
            Err(Error::Stale) => return Ok(true),
            Err(e) => return Err(e),
        };
        let held = Held::new(self, ip);
        let file = held.ip.read();
        let same = file.alive() && file.d.generation == generation && file.d.nlink == 0;
        let waits = self.table.removal_pending(ino) || !held.ip.is_used_once();
        Ok(!same || waits)
    }
}
