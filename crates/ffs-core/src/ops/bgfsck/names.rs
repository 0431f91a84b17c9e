//! Second names of directories, and `..` that names the old parent: a crash interrupted a rename
//! (FreeBSD: `vfs.ffs.unlink`, `vfs.ffs.setdotdot`).

use super::{Adjusted, BackgroundCheck};
use crate::dir;
use crate::error::{Error, Result};
use crate::inode::{Inode, LockedInode};
use crate::mount::Mount;
use crate::ops::locks::{Locks, retry};
use crate::ops::{Held, rename};
use crate::ordering::RemovedName;
use ffs_ondisk::Ino;
use std::sync::Arc;

use Adjusted::{Done, Refused};

/// A directory with two names.
#[derive(Clone, Copy, Debug)]
pub struct SecondName<'a> {
    /// The directory that has the name to be removed.
    pub dir: Ino,
    /// The name.
    pub name: &'a [u8],
    /// The directory that it names.
    pub target: Ino,
    /// Its generation.
    pub generation: u32,
    /// The directory that has its other name.
    pub kept_in: Ino,
}

impl BackgroundCheck {
    /// Removes a second name of a directory, and the link that counts it. The other name must
    /// exist.
    ///
    /// # Errors
    /// The device's.
    pub fn unlink(&self, which: &SecondName<'_>) -> Result<Adjusted> {
        self.adjust(|mp| {
            let _rename = mp.rename_lock.lock();
            let (Some(dir), Some(kept), Some(target)) =
                (mp.hold(which.dir)?, mp.hold(which.kept_in)?, mp.hold(which.target)?)
            else {
                return Ok(Refused("one of the directories is free now"));
            };
            if target.ip.ino == dir.ip.ino || target.ip.ino == kept.ip.ino {
                return Ok(Refused("a directory has a name in itself"));
            }
            retry(|first| {
                let mut locks = Locks::starting_with(&mp.ump, first);
                let mut d = locks.lock(&dir.ip)?;
                let same = dir.ip.ino == kept.ip.ino;
                let k = if same { None } else { Some(locks.lock(&kept.ip)?) };
                let mut victim = locks.lock(&target.ip)?;
                Ok(mp.unlink_second(&mut d, k.as_ref(), &mut victim, which)?)
            })
        })
    }

    /// Sets `..` of a directory, which names `from`, to `to`, the directory with its name.
    ///
    /// # Errors
    /// The device's.
    pub fn setdotdot(&self, ino: Ino, generation: u32, from: Ino, to: Ino) -> Result<Adjusted> {
        self.adjust(|mp| {
            let _rename = mp.rename_lock.lock();
            let (Some(dir), Some(parent)) = (mp.hold(ino)?, mp.hold(to)?) else {
                return Ok(Refused("one of the directories is free now"));
            };
            if ino == to {
                return Ok(Refused("a directory has a name in itself"));
            }
            retry(|first| {
                let mut locks = Locks::starting_with(&mp.ump, first);
                let mut d = locks.lock(&dir.ip)?;
                let p = locks.lock(&parent.ip)?;
                if !is_directory(&d) || d.d.generation != generation || !is_directory(&p) {
                    return Ok(Refused("the inode belongs to another file now"));
                }
                if mp.parent_of(d.view())? != from {
                    return Ok(Refused("`..` names another directory now"));
                }
                let named = mp.count_entries(p.view(), Some(ino))?.is_some_and(|e| e.names > 0);
                if !named {
                    return Ok(Refused("the directory has its name elsewhere now"));
                }
                rename::redirect_dotdot(mp, &mut d, to)?;
                d.note_modified();
                Ok(Done)
            })
        })
    }
}

fn is_directory(file: &LockedInode<'_>) -> bool {
    file.alive() && file.d.is_dir()
}

impl Mount {
    /// The file with number `ino`; `None` if it is free.
    fn hold(&self, ino: Ino) -> Result<Option<Held<'_>>> {
        match self.table.get(ino) {
            Ok(ip) => Ok(Some(Held::new(self, ip))),
            Err(Error::Stale) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn unlink_second(
        &self,
        d: &mut LockedInode<'_>,
        kept: Option<&LockedInode<'_>>,
        victim: &mut LockedInode<'_>,
        which: &SecondName<'_>,
    ) -> Result<Adjusted> {
        let directories = is_directory(d) && is_directory(victim) && kept.is_none_or(is_directory);
        if !directories || victim.d.generation != which.generation {
            return Ok(Refused("an inode belongs to another file now"));
        }
        let entry = match dir::find(d.view(), which.name)? {
            Some(e) if e.ino == which.target => e,
            _ => return Ok(Refused("the name was removed")),
        };
        let (holder, least) = match kept {
            Some(kept) => (kept.view(), 1),
            None => (d.view(), 2),
        };
        let names = self.count_entries(holder, Some(which.target))?.map_or(0, |e| e.names);
        let below = self.count_entries(victim.view(), None)?.map(|e| e.subdirectories);
        let counted = below.is_some_and(|n| u32::from(victim.d.nlink) > n.saturating_add(2));
        if names < least || !counted {
            return Ok(Refused("it is the only name now"));
        }
        forget_name(self, d.ip, which.name);
        self.table.names().purge(victim.ip);
        dir::remove(d, &entry, RemovedName::file(1))?;
        d.note_modified();
        victim.drop_link()?;
        Ok(Done)
    }
}

/// Removes a name from the name cache, before its directory changes.
fn forget_name(mp: &Mount, dir: &Inode, name: &[u8]) {
    let was: Option<Arc<Inode>> = mp.table.names().remove(dir, name);
    drop(was);
}
