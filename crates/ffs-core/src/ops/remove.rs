//! Removing names: unlink and rmdir.
//!
//! Reference: `spec/soft-updates.md` §6.3, §6.5, §6.12.

use super::locks::{Locks, retry};
use super::{Vnode, check_alive, check_directory, check_in_tree, check_name, is_dots, perm};
use crate::cred::Cred;
use crate::dir::{self, DirMut, Entry};
use crate::error::{Error, Result};
use crate::inode::{Inode, InodeData};
use crate::mount::{Ffs, Mount};
use crate::ordering::RemovedName;
use ffs_ondisk::{Ino, Place, Structure};
use std::sync::Arc;

impl Ffs {
    /// Removes a name of a file. The file itself goes with its last name and its last user.
    ///
    /// # Errors
    /// [`Error::IsDirectory`]; [`Error::NotPermitted`] by file flags or in a sticky directory; as
    /// [`Ffs::lookup`].
    pub fn unlink(&self, cred: &Cred, dir: &Vnode, name: &[u8]) -> Result<()> {
        self.same_mount(dir)?;
        self.unlink_once(cred, dir, name)?;
        self.stabilise(&[dir])
    }

    fn unlink_once(&self, cred: &Cred, dir: &Vnode, name: &[u8]) -> Result<()> {
        let _op = self.begin()?;
        retry(|first| {
            let file;
            let mut locks = Locks::starting_with(first);
            let mut parent = locks.lock(&dir.ip)?;
            let mut d = self.0.dir_mut(&dir.ip, &mut parent);
            let (entry, was) = find_victim(&self.0, &d, cred, name, || Error::IsDirectory)?;
            file = self.0.victim(&dir.ip, &entry, was)?;
            let mut data = locks.lock(&file.ip)?;
            perm::may_remove(&d.data.d, &data.d, cred)?;
            check_alive(&data)?;
            if data.d.is_dir() {
                return Err(Error::IsDirectory.into());
            }
            dir::remove(&mut d, &entry, RemovedName::file(data.d.nlink.saturating_sub(1)))?;
            let noted = self.0.directory_changed(&mut d, false);
            self.0.drop_link(&file.ip, &mut data)?;
            noted?;
            self.0.prime_change(&dir.ip, name, None);
            Ok(())
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Error::NotDirectory`], [`Error::NotEmpty`] (also for `..`), [`Error::Invalid`] for `.`;
    /// otherwise as [`Ffs::unlink`].
    pub fn rmdir(&self, cred: &Cred, dir: &Vnode, name: &[u8]) -> Result<()> {
        self.same_mount(dir)?;
        self.rmdir_once(cred, dir, name)?;
        self.stabilise(&[dir])
    }

    fn rmdir_once(&self, cred: &Cred, dir: &Vnode, name: &[u8]) -> Result<()> {
        let _op = self.begin()?;
        retry(|first| {
            let child;
            let mut locks = Locks::starting_with(first);
            let mut parent = locks.lock(&dir.ip)?;
            let mut d = self.0.dir_mut(&dir.ip, &mut parent);
            let dots = || match name {
                b"." => Error::Invalid("'.' cannot be removed"),
                _ => Error::NotEmpty,
            };
            let (entry, was) = find_victim(&self.0, &d, cred, name, dots)?;
            child = self.0.victim(&dir.ip, &entry, was)?;
            let mut data = locks.lock(&child.ip)?;
            perm::may_remove(&d.data.d, &data.d, cred)?;
            check_directory(&data)?;
            self.0.check_removable(&d, &child.ip, &data)?;
            self.0.remove_directory(&mut d, &entry, &child.ip, &mut data)?;
            self.0.prime_change(&dir.ip, name, None);
            Ok(())
        })
    }
}

/// The entry of `name` in `d`, and the file the name cache knew for it; `dots` is the answer for `.` and
/// `..`.
fn find_victim(
    mp: &Mount,
    d: &DirMut<'_>,
    cred: &Cred,
    name: &[u8],
    dots: impl FnOnce() -> Error,
) -> Result<(Entry, Option<Arc<Inode>>)> {
    check_directory(d.data)?;
    if is_dots(name) {
        return Err(dots());
    }
    perm::may_search(&d.data.d, cred)?;
    check_name(name)?;
    check_in_tree(d.table, d.ip, d.data)?;
    dir::prefetch(d.shared(), name);
    let was = d.table.unname(d.ip, name);
    if let Some(ip) = &was {
        d.table.prefetch_removal(ip.ino);
    }
    let entry = mp.find_entry(d.shared(), name, was.as_deref())?;
    Ok((entry, was))
}

/// What goes with the name of a directory in `parent`; `twin`: it keeps another.
pub(super) fn removed(parent: Ino, twin: bool) -> RemovedName {
    if twin { RemovedName::file(1) } else { RemovedName::directory(parent) }
}

impl Mount {
    /// Whether the directory `ip` in `d` may go: empty, and both link counts can pay for it.
    pub(super) fn check_removable(
        &self,
        d: &DirMut<'_>,
        ip: &Inode,
        data: &InodeData,
    ) -> Result<()> {
        // A crash may have left `..` of a moved directory behind, and no check has looked since.
        let above = if self.unchecked { self.parent_of(ip, data)? } else { d.ip.ino };
        if !dir::is_empty(self.dir(ip, data), above)? {
            return Err(Error::NotEmpty);
        }
        for (ino, nlink, least) in [(ip.ino, data.d.nlink, 2), (d.ip.ino, d.data.d.nlink, 3)] {
            if nlink < least {
                let (s, place) = (Structure::Inode, Place::Inode(ino));
                let want = format!("at least {least}");
                let e = Error::corrupt(s, place, "link count", nlink, want);
                return Err(self.damaged(e));
            }
        }
        Ok(())
    }

    fn remove_directory(
        &self,
        d: &mut DirMut<'_>,
        entry: &Entry,
        ip: &Arc<Inode>,
        data: &mut InodeData,
    ) -> Result<()> {
        self.table.purge_names_of(ip);
        let twin = self.may_have_twin(data);
        dir::remove(d, entry, removed(d.ip.ino, twin))?;
        let gone = self.drop_directory(ip, data);
        self.table.touch_modified(d.data);
        if twin {
            return gone;
        }
        // For the `..` that went with it.
        self.drop_link(d.ip, d.data).and(gone)
    }

    /// Whether the directory, which is empty, may have a second name: a crash may have cut off its
    /// rename, and no check has looked since. Then it only loses a name; what is counted too much a check
    /// will see.
    pub(super) fn may_have_twin(&self, data: &InodeData) -> bool {
        self.unchecked && data.d.nlink > 2
    }

    /// A directory lost its name: nothing in it counts any more. Its blocks go with its last user.
    pub(super) fn drop_directory(&self, ip: &Inode, data: &mut InodeData) -> Result<()> {
        if self.may_have_twin(data) {
            return self.drop_link(ip, data);
        }
        ip.dir.drop_index();
        // Its name and its `.`; whatever else the count said was wrong.
        data.d.nlink = 1;
        self.drop_link(ip, data)
    }
}
