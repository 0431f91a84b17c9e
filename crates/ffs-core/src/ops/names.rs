//! Entering names: lookup, create, mkdir, symlink, link.
//!
//! Reference: `spec/soft-updates.md` §6.1, §6.2, §6.4, §6.6.

use super::acl::NewAcls;
use super::locks::{Locks, retry};
use super::perm::{self, S_ISGID};
use super::publish::NameBarrier;
use super::{
    Held, Vnode, check_alive, check_directory, check_in_tree, check_name, is_dots, reserve_of,
};
use crate::alloc::{ParentDir, Reserve};
use crate::cred::Cred;
use crate::dir::{self, DirMut, Slot, SlotSearch};
use crate::error::{Error, Result};
use crate::inode::{InodeData, LockedInode};
use crate::mount::{Ffs, Mount};
use crate::ordering::{EntryKind, EntryTarget, Event, InodeChange, RemovedName};
use crate::sync::RwLockReadGuard;
use crate::tunables::DirPref;
use crate::types::NodeKind;
use ffs_ondisk::dinode::LINK_MAX;
use ffs_ondisk::geometry::Format;
use ffs_ondisk::{FileFlags, FileType, Ino};

/// Longest text of a symbolic link, bytes.
const MAX_LINK_TEXT: usize = 1023;

/// The kind of file to create.
#[derive(Clone, Copy)]
enum New<'a> {
    Node(NodeKind),
    Directory,
    Symlink(&'a [u8]),
}

impl New<'_> {
    fn file_type(self) -> FileType {
        match self {
            New::Node(NodeKind::Regular) => FileType::Regular,
            New::Node(NodeKind::Fifo) => FileType::Fifo,
            New::Node(NodeKind::Socket) => FileType::Socket,
            New::Node(NodeKind::Char(_)) => FileType::Char,
            New::Node(NodeKind::Block(_)) => FileType::Block,
            New::Directory => FileType::Directory,
            New::Symlink(_) => FileType::Symlink,
        }
    }
}

impl Ffs {
    /// The file that `name` in `dir` names. `.` and `..` are valid names.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDirectory`], [`Error::Access`], [`Error::NameTooLong`],
    /// [`Error::Invalid`]; EIO if the name may be in a damaged part of the directory.
    pub fn lookup(&self, cred: &Cred, dir: &Vnode, name: &[u8]) -> Result<Vnode> {
        let data = self.lock_for_search(cred, dir)?;
        if name == b"." {
            self.0.count_dot();
            return Ok(dir.clone());
        }
        check_name(name)?;
        self.0.lookup_in(self.0.view(&dir.ip, &data), name)
    }

    /// Locks a directory in which `cred` may look up names.
    pub(super) fn lock_for_search<'a>(
        &self,
        cred: &Cred,
        dir: &'a Vnode,
    ) -> Result<RwLockReadGuard<'a, InodeData>> {
        self.same_mount(dir)?;
        let data = dir.ip.read();
        check_directory(&data)?;
        perm::may_search(&data.d, cred)?;
        Ok(data)
    }

    /// Creates a file that is neither a directory nor a symbolic link.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NoSpace`], [`Error::NoInodes`], [`Error::NotPermitted`] in an
    /// immutable directory; as [`Ffs::lookup`].
    pub fn create(
        &self,
        cred: &Cred,
        dir: &Vnode,
        name: &[u8],
        kind: NodeKind,
        perm: u16,
    ) -> Result<Vnode> {
        if let NodeKind::Char(dev) | NodeKind::Block(dev) = kind
            && self.geometry().format == Format::Ufs1
            && u32::try_from(dev).is_err()
        {
            return Err(Error::Invalid("UFS1 has 32-bit device numbers"));
        }
        self.make(cred, dir, name, New::Node(kind), perm)
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// [`Error::TooManyLinks`] if the link count of `dir` is at its limit; as [`Ffs::create`].
    pub fn mkdir(&self, cred: &Cred, dir: &Vnode, name: &[u8], perm: u16) -> Result<Vnode> {
        self.make(cred, dir, name, New::Directory, perm)
    }

    /// Creates a symbolic link with text `target`.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an empty text, [`Error::NameTooLong`] for one over 1023 bytes; as
    /// [`Ffs::create`].
    pub fn symlink(&self, cred: &Cred, dir: &Vnode, name: &[u8], target: &[u8]) -> Result<Vnode> {
        if target.is_empty() {
            return Err(Error::NotFound);
        }
        if target.len() > MAX_LINK_TEXT {
            return Err(Error::NameTooLong);
        }
        if target.contains(&0) {
            return Err(Error::Invalid("NUL in the text of a link"));
        }
        self.make(cred, dir, name, New::Symlink(target), 0o777)
    }

    /// Creates a regular file without a name (`O_TMPFILE`). Group and location are those of a file
    /// created in `dir`. The file is freed after its last use or by a crash, unless [`Ffs::link`]
    /// gives it a name first; that requires `linkable`.
    ///
    /// # Errors
    /// As [`Ffs::create`].
    pub fn create_unnamed(
        &self,
        cred: &Cred,
        dir: &Vnode,
        perm: u16,
        linkable: bool,
    ) -> Result<Vnode> {
        self.same_mount(dir)?;
        self.retry_after_reclaim(|| self.create_unnamed_once(cred, dir, perm, linkable))
    }

    fn create_unnamed_once(
        &self,
        cred: &Cred,
        dir: &Vnode,
        perm: u16,
        linkable: bool,
    ) -> Result<Vnode> {
        let _op = self.begin()?;
        let made;
        let d = self.0.lock(&dir.ip);
        check_directory(&d)?;
        perm::may_search(&d.d, cred)?;
        check_in_tree(d.view())?;
        perm::may_enter(&d.d, cred)?;
        let new = New::Node(NodeKind::Regular);
        let acls = self.0.new_acls(&d, new, perm)?;
        made = self.0.new_inode(&d, cred, new, acls.perm)?;
        let mut file = self.0.lock(&made.ip);
        // The count is zero from the start: no state on the device may look like a file that lost
        // its name.
        file.d.nlink = 0;
        file.linkable = linkable;
        let reserve = reserve_of(cred);
        let given = acls.give_to(&mut file, reserve);
        let filled = given.and_then(|()| init_inode(&mut file, new, reserve));
        drop(file);
        drop(d);
        filled.map(|()| made.into_vnode(&self.0))
    }

    /// Creates an empty regular file that counts one link, without a name in a directory of the
    /// volume. Group and location are those of a file created in `dir`. The caller keeps the name:
    /// the laboratory compares other directory formats over the same inodes.
    ///
    /// # Errors
    /// As [`Ffs::create`].
    #[cfg(feature = "nameless")]
    pub fn create_nameless(&self, cred: &Cred, dir: &Vnode, perm: u16) -> Result<Vnode> {
        self.same_mount(dir)?;
        let _op = self.begin()?;
        let made;
        let d = self.0.lock(&dir.ip);
        check_directory(&d)?;
        let new = New::Node(NodeKind::Regular);
        made = self.0.new_inode(&d, cred, new, perm)?;
        let mut file = self.0.lock(&made.ip);
        let filled = init_inode(&mut file, new, reserve_of(cred));
        if filled.is_err() {
            // The drop of `made` frees the inode.
            file.d.nlink = 0;
        }
        drop(file);
        drop(d);
        filled.map(|()| made.into_vnode(&self.0))
    }

    /// Drops the link of a file made by [`Ffs::create_nameless`]. The file is freed after its last
    /// use.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a file without links; the device's.
    #[cfg(feature = "nameless")]
    pub fn remove_nameless(&self, file: &Vnode) -> Result<()> {
        self.same_mount(file)?;
        let _op = self.begin()?;
        let mut inode = self.0.lock(&file.ip);
        check_alive(&inode)?;
        if inode.d.nlink == 0 {
            return Err(Error::NotFound);
        }
        inode.drop_link()
    }

    /// Gives `file` a further name, or a file made by [`Ffs::create_unnamed`] its first.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] for directories, immutable and append-only files,
    /// [`Error::NotFound`] for a file without names that is not linkable, [`Error::TooManyLinks`];
    /// as [`Ffs::create`].
    pub fn link(&self, cred: &Cred, file: &Vnode, dir: &Vnode, name: &[u8]) -> Result<()> {
        self.same_mount(file)?;
        self.same_mount(dir)?;
        self.retry_after_reclaim(|| self.link_once(cred, file, dir, name))?;
        self.sync_if_stable(&[file, dir])
    }

    fn link_once(&self, cred: &Cred, file: &Vnode, dir: &Vnode, name: &[u8]) -> Result<()> {
        let _op = self.begin()?;
        if file.ip.read().d.is_dir() {
            check_directory(&dir.ip.read())?;
            return Err(Error::NotPermitted);
        }
        retry(|first| {
            let mut locks = Locks::starting_with(&self.0.ump, first);
            let mut d = locks.lock(&dir.ip)?;
            let slot = self.0.check_create(&mut d, cred, name)?;
            let mut inode = locks.lock(&file.ip)?;
            may_link(&inode)?;
            let target = named(file.ip.ino, &inode);
            inode.add_link()?;
            let others = inode.d.nlink.saturating_sub(1);
            let new = NewEntry { slot, name, target, kind: EntryKind::Existing, others };
            let awaits = self.0.awaits_content(&inode);
            let _held = awaits.then(|| NameBarrier::new(&self.0, &file.ip));
            self.0.enter(&mut d, &new, reserve_of(cred)).inspect_err(|_| inode.take_link_back())?;
            if awaits {
                self.0.content_before_name(&file.ip);
            }
            inode.linkable = false;
            self.0.prime_change(&dir.ip, name, Some(&file.ip));
            Ok(())
        })
    }

    fn make(
        &self,
        cred: &Cred,
        dir: &Vnode,
        name: &[u8],
        new: New<'_>,
        perm: u16,
    ) -> Result<Vnode> {
        self.same_mount(dir)?;
        let made = self.retry_after_reclaim(|| self.make_once(cred, dir, name, new, perm))?;
        self.sync_if_stable(&[&made, dir])?;
        Ok(made)
    }

    fn make_once(
        &self,
        cred: &Cred,
        dir: &Vnode,
        name: &[u8],
        new: New<'_>,
        perm: u16,
    ) -> Result<Vnode> {
        let _op = self.begin()?;
        let child;
        let mut d = self.0.lock(&dir.ip);
        let slot = self.0.check_create(&mut d, cred, name)?;
        if matches!(new, New::Directory) && d.d.nlink >= LINK_MAX {
            return Err(Error::TooManyLinks);
        }
        let acls = self.0.new_acls(&d, new, perm)?;
        child = self.0.new_inode(&d, cred, new, acls.perm)?;
        let mut file = self.0.lock(&child.ip);
        let (target, reserve) = (named(child.ip.ino, &file), reserve_of(cred));
        let done = match new {
            New::Directory => {
                let entry = NewEntry { slot, name, target, kind: EntryKind::Mkdir, others: 0 };
                self.0.make_directory(&mut d, &mut file, &entry, &acls, reserve)
            }
            _ => {
                let entry = NewEntry { slot, name, target, kind: EntryKind::New, others: 0 };
                acls.give_to(&mut file, reserve)
                    .and_then(|()| init_inode(&mut file, new, reserve))
                    .and_then(|()| self.0.enter(&mut d, &entry, reserve))
            }
        };
        match (&done, new) {
            // The drop of `child` frees the inode.
            (Err(_), _) => file.d.nlink = 0,
            (Ok(()), New::Directory) => self.0.prime_mkdir(&dir.ip, name, &child.ip),
            (Ok(()), _) => self.0.prime_create(&dir.ip, name, &child.ip),
        }
        drop(file);
        drop(d);
        done.map(|()| child.into_vnode(&self.0))
    }
}

/// A name about to be entered.
pub(super) struct NewEntry<'a> {
    pub(super) slot: Slot,
    pub(super) name: &'a [u8],
    pub(super) target: EntryTarget,
    pub(super) kind: EntryKind,
    /// The number of other names of the file.
    pub(super) others: u16,
}

impl NewEntry<'_> {
    /// Describes the removal of this name from `dir`, to reverse [`Mount::enter_name`].
    pub(super) fn removed_name(&self, dir: Ino) -> RemovedName {
        match self.kind {
            EntryKind::Mkdir => RemovedName::directory(dir),
            EntryKind::Existing | EntryKind::New | EntryKind::DotDot => {
                RemovedName::file(self.others)
            }
        }
    }
}

/// The content of an entry for this inode.
pub(super) fn named(ino: Ino, data: &InodeData) -> EntryTarget {
    EntryTarget { ino, dtype: data.d.file_type().map_or(0, FileType::dirent) }
}

/// Checks that the file may get a further name.
fn may_link(data: &InodeData) -> Result<()> {
    check_alive(data)?;
    if data.d.is_dir() || data.d.flags.intersects(FileFlags::IMMUTABLE | FileFlags::APPEND) {
        return Err(Error::NotPermitted);
    }
    match data.d.nlink {
        0 if data.linkable => Ok(()),
        0 => Err(Error::NotFound),
        LINK_MAX.. => Err(Error::TooManyLinks),
        _ => Ok(()),
    }
}

/// Initialises a new file that is no directory: device number or link text, then its inode.
fn init_inode(file: &mut LockedInode<'_>, new: New<'_>, reserve: Reserve) -> Result<()> {
    match new {
        New::Node(NodeKind::Char(dev) | NodeKind::Block(dev)) => {
            if let Some(first) = file.d.db.first_mut() {
                *first = dev as i64;
            }
        }
        New::Symlink(text) => file.set_symlink(text, reserve)?,
        New::Node(_) | New::Directory => {}
    }
    file.update(InodeChange::Init)
}

impl Mount {
    /// Checks that `cred` may create `name` in `d`, and finds a slot for it.
    fn check_create(&self, d: &mut DirMut<'_>, cred: &Cred, name: &[u8]) -> Result<Slot> {
        check_directory(d)?;
        perm::may_search(&d.d, cred)?;
        if is_dots(name) {
            return Err(Error::Exists);
        }
        check_name(name)?;
        check_in_tree(d.view())?;
        dir::prefetch(d.view(), name);
        self.table.names().remove(d.ip, name);
        match dir::find_slot(d, name)? {
            SlotSearch::Exists(_) => Err(Error::Exists),
            SlotSearch::Free(slot) => {
                perm::may_enter(&d.d, cred)?;
                Ok(slot)
            }
        }
    }

    /// The access lists that a new file in `d` gets, and its mode with them. A symbolic link has
    /// none.
    fn new_acls(&self, d: &DirMut<'_>, new: New<'_>, perm: u16) -> Result<NewAcls> {
        let kind = new.file_type();
        if kind == FileType::Symlink {
            return Ok(NewAcls::none(perm));
        }
        self.inherited_acls(d.view(), kind == FileType::Directory, perm)
    }

    /// Allocates an inode for a new file in `d` and sets its owner and mode, in memory.
    fn new_inode(&self, d: &DirMut<'_>, cred: &Cred, new: New<'_>, perm: u16) -> Result<Held<'_>> {
        let (above, kind) = (&d.d, new.file_type());
        let group_of_dir = above.mode & S_ISGID != 0;
        let gid = if self.bsdgroups || group_of_dir { above.gid } else { cred.gid };
        let mut mode = kind.mode_bits() | (perm & 0o7777);
        if kind == FileType::Directory {
            if group_of_dir && !self.bsdgroups {
                mode |= S_ISGID;
            }
        } else if !cred.is_root && !cred.in_group(gid) {
            // This holds with `Checks::Done` too: no caller can predict the
            // group of the file.
            mode &= !S_ISGID;
        }
        let parent = ParentDir { ino: d.ip.ino, depth: above.freelink, nlink: above.nlink };
        let ip = self.table.create(&parent, mode, (cred.uid, gid), reserve_of(cred))?;
        let child = Held::new(self, ip);
        if kind == FileType::Directory && !self.tracks_depth(&parent) {
            self.lock(&child.ip).d.freelink = 0;
        }
        Ok(child)
    }

    /// Creates a whiteout, which is to get a name in `d`: a character device 0:0 without
    /// permissions.
    pub(super) fn new_whiteout(&self, d: &DirMut<'_>, cred: &Cred) -> Result<Held<'_>> {
        let new = New::Node(NodeKind::Char(0));
        let made = self.new_inode(d, cred, new, 0)?;
        let mut file = self.lock(&made.ip);
        let filled = init_inode(&mut file, new, reserve_of(cred));
        if filled.is_err() {
            file.d.nlink = 0;
        }
        drop(file);
        filled.map(|()| made)
    }

    /// Whether new directories below `parent` record their depth: if `parent` does, or if the
    /// allocator places directories by depth. The depth of the root is 0, whether recorded or not.
    fn tracks_depth(&self, parent: &ParentDir) -> bool {
        parent.depth != 0 || self.ump.tunables.dirpref() == DirPref::Depth
    }

    /// Enters a name, truncates unused blocks at the end of the directory, and updates its inode.
    fn enter(&self, d: &mut DirMut<'_>, new: &NewEntry<'_>, reserve: Reserve) -> Result<()> {
        self.enter_name(d, new, reserve)?;
        // The operation succeeds even if the directory could not be truncated.
        drop(dir::shrink(d, &new.slot));
        Ok(())
    }

    /// As [`Mount::enter`], for a rename, which never truncates a directory.
    pub(super) fn enter_name(
        &self,
        d: &mut DirMut<'_>,
        new: &NewEntry<'_>,
        reserve: Reserve,
    ) -> Result<()> {
        let dir = d.ip.ino;
        let name = dir::NewName { name: new.name, target: new.target, kind: new.kind };
        let grew = dir::enter(d, &new.slot, &name, reserve)?;
        d.note_modified();
        let updated = if grew { d.update(InodeChange::DirectoryGrow) } else { Ok(()) };
        updated.inspect_err(|_| drop(dir::withdraw(d, new.name, new.removed_name(dir))))
    }

    /// Makes the new inode `file` a directory in `d` and enters its name.
    fn make_directory(
        &self,
        d: &mut DirMut<'_>,
        file: &mut LockedInode<'_>,
        new: &NewEntry<'_>,
        acls: &NewAcls,
        reserve: Reserve,
    ) -> Result<()> {
        // For the `..` of the new directory.
        d.add_link()?;
        let (dir, parent) = (file.ip.ino, d.ip.ino);
        let mut made = || {
            self.ump.ordering.notify(Event::DirectoryBegun { dir, parent });
            let body = dir::init_body(file, d.ip.ino, reserve)?;
            // The content is written before the inode, so that the inode never points to an
            // uninitialised block.
            self.ump.cache.apply(&body.buf, body.then)?;
            file.update(InodeChange::InitDirectory)?;
            acls.give_to(file, reserve)?;
            self.enter(d, new, reserve)
        };
        made().inspect_err(|_| d.take_link_back())
    }
}
