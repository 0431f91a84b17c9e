//! Attributes and access.
//!
//! Reference: `spec/soft-updates.md` §6.13; POSIX `chmod`, `chown`, `utimensat`, `truncate`.

use super::perm::{self, S_ISGID};
use super::xattrs::drop_capability;
use super::{Vnode, check_alive, check_in_tree, check_name, is_dots, reserve_of};
use crate::cred::Cred;
use crate::error::{Error, Result};
use crate::inode::LockedInode;
use crate::mount::Ffs;
use crate::namecache::CacheLookup;
use crate::ordering::InodeChange;
use crate::types::{Access, Attr, SetAttr, SetTime};
use ffs_ondisk::geometry::Format;
use ffs_ondisk::{Dinode, FileFlags, FileType, journal};

/// System flags that restrict changes of all flags to root.
const SYSTEM_LOCKS: FileFlags =
    FileFlags::SF_NOUNLINK.union(FileFlags::SF_IMMUTABLE).union(FileFlags::SF_APPEND);

impl Ffs {
    /// The attributes of a file.
    #[must_use]
    pub fn getattr(&self, file: &Vnode) -> Attr {
        let data = file.ip.read();
        self.0.view(&file.ip, &data).attr()
    }

    /// The attributes of the file that `name` in `dir` names: [`Ffs::lookup`] and [`Ffs::getattr`]
    /// in one call. If the name cache has the name, no [`Vnode`] is created, which would cost as
    /// much as the lookup.
    ///
    /// # Errors
    /// As [`Ffs::lookup`].
    pub fn lookup_attr(&self, cred: &Cred, dir: &Vnode, name: &[u8]) -> Result<Attr> {
        if !is_dots(name)
            && let Some(attr) = self.cached_attr(cred, dir, name)?
        {
            return Ok(attr);
        }
        let file = self.lookup(cred, dir, name)?;
        Ok(self.getattr(&file))
    }

    /// `None` if the name must be looked up.
    fn cached_attr(&self, cred: &Cred, dir: &Vnode, name: &[u8]) -> Result<Option<Attr>> {
        let parent = self.lock_for_search(cred, dir)?;
        let d = self.0.view(&dir.ip, &parent);
        check_name(name)?;
        check_in_tree(d)?;
        let ip = match self.0.lookup_cached(d, name) {
            CacheLookup::Positive(ip) => ip,
            CacheLookup::Negative => return Err(Error::NotFound),
            CacheLookup::Miss => {
                let file = self.0.lookup_uncached(d, name)?;
                drop(parent);
                return Ok(Some(self.getattr(&file)));
            }
        };
        // See `locks`: no inode may be waited for while another is locked.
        drop(parent);
        self.0.table.note_use(&ip);
        let data = ip.read();
        // The inode has been freed: the name may refer to another file now.
        Ok(data.alive().then(|| self.0.view(&ip, &data).attr()))
    }

    /// Changes all given attributes, or none.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] for others than the owner and by file flags, [`Error::Access`] for a
    /// size or the present time without write permission, [`Error::IsDirectory`],
    /// [`Error::Invalid`] for a size of a file without content, [`Error::NoSpace`],
    /// [`Error::TooBig`]; [`Error::Busy`] to clear the flags of the journal that the mount keeps;
    /// the device's.
    pub fn setattr(&self, cred: &Cred, file: &Vnode, set: &SetAttr) -> Result<Attr> {
        let attr = self.retry_after_reclaim(|| self.setattr_once(cred, file, set))?;
        self.sync_if_stable(&[file])?;
        Ok(attr)
    }

    fn setattr_once(&self, cred: &Cred, file: &Vnode, set: &SetAttr) -> Result<Attr> {
        let _op = self.begin()?;
        let mut inode = self.0.lock(&file.ip);
        check_alive(&inode)?;
        if *set == SetAttr::default() {
            return Ok(inode.view().attr());
        }
        if let Some(size) = set.size {
            check_size(&inode.d, size, self.geometry().maxfilesize)?;
        }
        may_set(&inode.d, cred, set)?;
        if set.flags.is_some_and(|new| !new.contains(journal::FLAGS))
            && self.0.is_kept_journal(file.ip.ino)
        {
            return Err(Error::Busy("the mount keeps this journal, so its flags stay"));
        }
        let owner = (set.uid.unwrap_or(inode.d.uid), set.gid.unwrap_or(inode.d.gid));
        let hold = match set.changes_owner() {
            true => inode.hold_quota_of(owner, reserve_of(cred))?,
            false => None,
        };
        if set.changes_owner() || set.size.is_some() {
            drop_capability(&mut inode, set.set_id)?;
        }
        if let Some(size) = set.size {
            inode.truncate(size, reserve_of(cred))?;
        }
        drop(hold);
        self.apply(cred, set, &mut inode);
        inode.update(InodeChange::Attr)?;
        Ok(inode.view().attr())
    }

    /// The part of `setattr` that cannot fail.
    fn apply(&self, cred: &Cred, set: &SetAttr, data: &mut LockedInode<'_>) {
        if set.size.is_some() {
            data.touch_modified();
        }
        if (set.changes_owner() || set.size.is_some()) && set.set_id.are_cleared_by(cred) {
            data.d.mode = perm::without_setid(&data.d);
        }
        if set.changes_owner() {
            data.set_owner(set.uid.unwrap_or(data.d.uid), set.gid.unwrap_or(data.d.gid));
        }
        if let Some(perm) = set.perm {
            let strip = perm::is_checked(cred) && !cred.in_group(data.d.gid) && !data.d.is_dir();
            let allowed = if strip { 0o7777 & !S_ISGID } else { 0o7777 };
            data.d.mode = data.d.mode & !0o7777 | perm & allowed;
        }
        data.d.flags = set.flags.unwrap_or(data.d.flags);
        data.touch_changed();
        let now = self.0.ump.now();
        let time = |t| match t {
            SetTime::Now => now,
            SetTime::To(t) => t,
        };
        if let Some(t) = set.atime {
            data.set_atime(time(t));
        }
        if let Some(t) = set.mtime {
            data.d.mtime = time(t);
        }
        if let Some(t) = set.birthtime
            && self.geometry().format == Format::Ufs2
        {
            data.d.birthtime = t;
        }
    }

    /// Checks that `cred` has the access rights `want`.
    ///
    /// # Errors
    /// [`Error::Access`]; [`Error::NotPermitted`] to write an immutable file;
    /// [`Error::ReadOnly`] to write on a read-only mount.
    pub fn access(&self, cred: &Cred, file: &Vnode, want: Access) -> Result<()> {
        let data = file.ip.read();
        check_alive(&data)?;
        let on_volume = matches!(
            data.d.file_type(),
            Some(FileType::Regular | FileType::Directory | FileType::Symlink)
        );
        if want.0 & Access::WRITE.0 != 0 && on_volume && self.is_read_only() {
            return Err(Error::ReadOnly(""));
        }
        perm::check(&data.d, cred, want)
    }
}

/// Checks that the size of this file can be set to `size`.
fn check_size(d: &Dinode, size: u64, most: u64) -> Result<()> {
    match d.file_type() {
        Some(FileType::Regular) if size > most => Err(Error::TooBig),
        Some(FileType::Regular) => Ok(()),
        Some(FileType::Directory) => Err(Error::IsDirectory),
        _ => Err(Error::Invalid("a file of this type has no size")),
    }
}

/// Checks that `cred` may make all changes in `set`.
fn may_set(d: &Dinode, cred: &Cred, set: &SetAttr) -> Result<()> {
    if let Some(new) = set.flags {
        may_set_flags(d, cred, new)?;
    }
    let locked = d.flags & set.flags.unwrap_or(d.flags);
    if locked.intersects(FileFlags::IMMUTABLE | FileFlags::APPEND)
        && (SetAttr { flags: None, ..*set }) != SetAttr::default()
    {
        return Err(Error::NotPermitted);
    }
    if set.changes_owner() {
        may_give(d, cred, set)?;
    }
    if set.perm.is_some() || set.birthtime.is_some() {
        perm::must_own(d, cred)?;
    }
    // A new size sets the modification time too.
    let with_size = set.size.is_some() && set.mtime == Some(SetTime::Now);
    let times = [set.atime, set.mtime.filter(|_| !with_size)];
    if times == [Some(SetTime::Now); 2] && perm::must_own(d, cred).is_err() {
        perm::check(d, cred, Access::WRITE)?;
    } else if times.iter().any(Option::is_some) && times != [Some(SetTime::Now); 2] {
        perm::must_own(d, cred)?;
    }
    if set.size.is_some() {
        perm::check(d, cred, Access::WRITE)?;
    }
    Ok(())
}

/// BSD's rules: an owner may change the user flags unless a system flag is set; root may change all
/// flags but `SF_SNAPSHOT`.
fn may_set_flags(d: &Dinode, cred: &Cred, new: FileFlags) -> Result<()> {
    perm::must_own(d, cred)?;
    let changed = d.flags ^ new;
    if changed.contains(FileFlags::SF_SNAPSHOT) {
        return Err(Error::NotPermitted);
    }
    let system = changed.bits() & FileFlags::ROOT_SETTABLE != 0;
    if !cred.is_root && (system || d.flags.intersects(SYSTEM_LOCKS)) {
        return Err(Error::NotPermitted);
    }
    Ok(())
}

/// Only root may change the owner; an owner may set the group to another of its own groups.
fn may_give(d: &Dinode, cred: &Cred, set: &SetAttr) -> Result<()> {
    if !perm::is_checked(cred) {
        return Ok(());
    }
    let owns = cred.uid == d.uid;
    let same_owner = set.uid.is_none_or(|uid| uid == d.uid);
    let own_group = set.gid.is_none_or(|gid| gid == d.gid || cred.in_group(gid));
    if owns && same_owner && own_group { Ok(()) } else { Err(Error::NotPermitted) }
}
