//! Removing names: unlink and rmdir.
//!
//! Reference: `spec/soft-updates.md` §6.3, §6.5, §6.12.

use super::locks::{Locks, retry};
use super::snapshot::is_last_of_snapshot;
use super::{Vnode, check_alive, check_directory, check_in_tree, check_name, is_dots, perm};
use crate::cred::Cred;
use crate::dir::{self, Dir, DirMut, Entry};
use crate::error::{Error, Result};
use crate::inode::{Inode, InodeData, LockedInode};
use crate::mount::{Ffs, Mount};
use crate::ordering::{Event, RemovedName};
use ffs_ondisk::{Ino, Place, Structure};
use std::sync::Arc;

impl Ffs {
    /// Removes a name of a file. The file is freed after its last name is removed and its last use
    /// ends.
    ///
    /// # Errors
    /// [`Error::IsDirectory`]; [`Error::NotPermitted`] by file flags or in a sticky directory; as
    /// [`Ffs::lookup`].
    pub fn unlink(&self, cred: &Cred, dir: &Vnode, name: &[u8]) -> Result<()> {
        self.same_mount(dir)?;
        self.unlink_once(cred, dir, name)?;
        self.sync_if_stable(&[dir])
    }

    fn unlink_once(&self, cred: &Cred, dir: &Vnode, name: &[u8]) -> Result<()> {
        let _op = self.begin()?;
        retry(|first| {
            let file;
            let mut locks = Locks::starting_with(&self.0.ump, first);
            let mut d = locks.lock(&dir.ip)?;
            let (entry, was) = find_victim(&self.0, &d, cred, name, || Error::IsDirectory)?;
            file = self.0.victim(&dir.ip, &entry, was)?;
            let mut victim = locks.lock(&file.ip)?;
            perm::may_remove(&d.d, &victim.d, cred)?;
            check_alive(&victim)?;
            if victim.d.is_dir() {
                return Err(Error::IsDirectory.into());
            }
            let removed = RemovedName::file(victim.d.nlink.saturating_sub(1));
            let of_snapshot = (victim.ip.ino, is_last_of_snapshot(&victim));
            let used = !victim.ip.is_used_once();
            self.0.without_listing(of_snapshot, used, || dir::remove(&mut d, &entry, removed))?;
            d.note_modified();
            victim.drop_link()?;
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
        self.sync_if_stable(&[dir])
    }

    fn rmdir_once(&self, cred: &Cred, dir: &Vnode, name: &[u8]) -> Result<()> {
        let _op = self.begin()?;
        retry(|first| {
            let child;
            let mut locks = Locks::starting_with(&self.0.ump, first);
            let mut d = locks.lock(&dir.ip)?;
            let dots = || match name {
                b"." => Error::Invalid("'.' cannot be removed"),
                _ => Error::NotEmpty,
            };
            let (entry, was) = find_victim(&self.0, &d, cred, name, dots)?;
            child = self.0.victim(&dir.ip, &entry, was)?;
            let mut victim = locks.lock(&child.ip)?;
            perm::may_remove(&d.d, &victim.d, cred)?;
            check_directory(&victim)?;
            self.0.check_removable(d.view(), victim.view())?;
            self.0.remove_directory(&mut d, &entry, &mut victim)?;
            self.0.prime_change(&dir.ip, name, None);
            Ok(())
        })
    }
}

/// The entry of `name` in `d`, and the file that the name cache had for it. `dots` makes the error
/// for `.` and `..`.
fn find_victim(
    mp: &Mount,
    d: &DirMut<'_>,
    cred: &Cred,
    name: &[u8],
    dots: impl FnOnce() -> Error,
) -> Result<(Entry, Option<Arc<Inode>>)> {
    check_directory(d)?;
    if is_dots(name) {
        return Err(dots());
    }
    perm::may_search(&d.d, cred)?;
    check_name(name)?;
    check_in_tree(d.view())?;
    dir::prefetch(d.view(), name);
    let was = mp.table.names().remove(d.ip, name);
    if let Some(ip) = &was {
        mp.table.prefetch_removal(ip.ino);
    }
    let entry = mp.find_entry(d.view(), name, was.as_deref())?;
    Ok((entry, was))
}

/// Describes the removal of a directory's name in `parent`. With `second_name` another name
/// remains.
pub(super) fn removed_directory(parent: Ino, second_name: bool) -> RemovedName {
    if second_name { RemovedName::file(1) } else { RemovedName::directory(parent) }
}

impl Mount {
    /// Checks that the directory `victim` in `d` can be removed: it is empty, and no link count
    /// becomes too low.
    pub(super) fn check_removable(&self, d: Dir<'_>, victim: Dir<'_>) -> Result<()> {
        // On an unchecked volume `..` of a moved directory may still name its old parent after a
        // crash.
        let above = if self.is_unchecked() { self.parent_of(victim)? } else { d.ip.ino };
        if !dir::is_empty(victim, above)? {
            return Err(Error::NotEmpty);
        }
        for (ino, nlink, least) in [(victim.ip.ino, victim.d.nlink, 2), (d.ip.ino, d.d.nlink, 3)] {
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
        victim: &mut LockedInode<'_>,
    ) -> Result<()> {
        self.table.names().purge(victim.ip);
        let second_name = self.may_have_second_name(victim);
        if !second_name {
            self.report_links(d);
        }
        dir::remove(d, entry, removed_directory(d.ip.ino, second_name))?;
        let counted = self.drop_directory(victim);
        d.touch_modified();
        if second_name {
            return counted;
        }
        // For the `..` of the removed directory.
        d.drop_link().and(counted)
    }

    /// Reports the link count of a directory that is about to lose the `..` of a subdirectory.
    pub(super) fn report_links(&self, dir: &LockedInode<'_>) {
        let (ino, nlink) = (dir.ip.ino, dir.d.nlink);
        self.ump.ordering.notify(Event::LinkCount { ino, nlink });
    }

    /// Whether the directory, which is empty, may have a second name: on an unchecked volume a
    /// crash may have interrupted a rename. Such a directory only loses a name; `fsck` lowers a
    /// link count that stays too high.
    pub(super) fn may_have_second_name(&self, data: &InodeData) -> bool {
        self.is_unchecked() && data.d.nlink > 2
    }

    /// Updates a directory that lost its name. Its blocks are freed when its last use ends.
    pub(super) fn drop_directory(&self, dir: &mut LockedInode<'_>) -> Result<()> {
        if self.may_have_second_name(dir) {
            return dir.drop_link();
        }
        dir.ip.dir.drop_index();
        // For its name and its `.`; any further links were an error in the count.
        dir.d.nlink = 1;
        dir.drop_link()
    }
}
