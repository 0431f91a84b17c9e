//! Rename: the only operation that changes two directories and the structure of the tree.
//!
//! # Invariants
//! 1. After each step every moved file has at least one name, and no link count is below the number
//!    of existing names and `..` entries (`spec/soft-updates.md` §6.7, §6.8).
//! 2. A directory changes its parent only under the rename lock. So the result of the walk up the
//!    tree, which excludes loops, stays valid until the rename is done.
//! 3. Each step enters, redirects or removes one name. A file that loses a name by a step already
//!    has another one. So no two changes must reach the disk together, and no change depends on a
//!    later one.
//! 4. The inode of the new parent is written before the target directory block, although §11.2
//!    lists it after: the number of writes is the same, and its link count is never too low (D12).

mod check;
mod exchange;
mod recover;
#[cfg(test)]
mod tests;

use super::locks::{Locks, Stop, retry};
use super::names::{NewEntry, named};
use super::publish::NameBarrier;
use super::remove::removed_directory;
use super::snapshot::is_last_of_snapshot;
use super::{Held, Vnode, check_directory, check_name, is_dots, reserve_of};
use crate::cred::Cred;
use crate::dir::{self, Dir, DirMut, Entry, Slot, SlotSearch};
use crate::error::{Error, Result};
use crate::inode::{Inode, LockedInode};
use crate::mount::{Ffs, Mount};
use crate::ordering::{EntryKind, EntryTarget, InodeChange, ParentLink, RemovedName};
use crate::types::{RenameMode, SyncScope};
use check::{LoopAt, check_parent, is_above, loop_error};
use ffs_ondisk::{FileType, Ino, Place, Structure};
use std::sync::Arc;

/// A name in a directory.
#[derive(Clone, Copy)]
struct NameInDir<'a> {
    dir: &'a Arc<Inode>,
    name: &'a [u8],
}

/// The arguments of a rename.
#[derive(Clone, Copy)]
struct Request<'a> {
    cred: &'a Cred,
    from: NameInDir<'a>,
    to: NameInDir<'a>,
    mode: RenameMode,
}

/// A file that gets a new name, locked.
struct Moved<'a> {
    ip: &'a Arc<Inode>,
    file: LockedInode<'a>,
    /// The entry that names it at present.
    entry: Entry,
}

impl Moved<'_> {
    fn is_dir(&self) -> bool {
        self.file.d.is_dir()
    }

    fn named(&self) -> EntryTarget {
        named(self.ip.ino, &self.file)
    }

    /// The number of its names other than `entry`.
    fn other_names(&self) -> u16 {
        // A directory has one other name while the rename moves it.
        if self.is_dir() { 1 } else { self.file.d.nlink.saturating_sub(1) }
    }

    /// Describes the removal of its old name. `left` is the directory that loses the `..` of this
    /// directory.
    fn moved_from(&self, left: Option<Ino>) -> RemovedName {
        let parent = left.map_or(ParentLink::None, ParentLink::Moved);
        RemovedName { names_left: self.other_names(), drops: 1, parent, renamed: true }
    }

    /// Describes the removal of its new name when a step is reversed. `left` is the directory whose
    /// link count included the `..` of this directory.
    fn taken_back_from(&self, left: Option<Ino>) -> RemovedName {
        RemovedName { renamed: false, ..self.moved_from(left) }
    }
}

/// A rename with all its inodes locked.
struct Renaming<'a> {
    mp: &'a Mount,
    req: Request<'a>,
    /// The directory of the old name.
    d1: LockedInode<'a>,
    /// The directory of the new name, if it is a different one.
    d2: Option<LockedInode<'a>>,
    src: Moved<'a>,
    dst: Option<Moved<'a>>,
    /// The slot for the new name if that does not exist.
    slot: Option<Slot>,
    /// The ancestors of the new parent of the source, if the source is a directory that changes its
    /// parent.
    above_src: Vec<Ino>,
    /// The ancestors of the new parent of the target, in an exchange.
    above_dst: Vec<Ino>,
    /// The whiteout that gets the old name, with [`RenameMode::Whiteout`].
    whiteout: Option<Arc<Inode>>,
    /// The root directory, in an exchange in which neither name is in the root.
    root: Option<LockedInode<'a>>,
}

/// The result of an attempt that did not fail.
enum Attempt {
    Done,
    /// The attempt must be repeated with the rename lock held.
    NeedsRenameLock,
    /// The attempt must be repeated when both names are durable.
    NeedsDurableNames,
    /// The attempt must be repeated with source and target swapped.
    NeedsSwap,
}

impl Ffs {
    /// Renames `from.1` in `from.0` to `to.1` in `to.0`.
    ///
    /// If both names are links to the same file, nothing changes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for `.` and `..` and for a directory moved below itself,
    /// [`Error::NotEmpty`], [`Error::IsDirectory`] and [`Error::NotDirectory`] for a target of the
    /// wrong kind, [`Error::Exists`] with [`RenameMode::NoReplace`], [`Error::TooManyLinks`];
    /// otherwise as [`Ffs::unlink`] and [`Ffs::create`].
    pub fn rename(
        &self,
        cred: &Cred,
        from: (&Vnode, &[u8]),
        to: (&Vnode, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        self.same_mount(from.0)?;
        self.same_mount(to.0)?;
        self.retry_after_reclaim(|| self.rename_once(cred, from, to, mode))?;
        self.sync_if_stable(&[to.0, from.0])
    }

    fn rename_once(
        &self,
        cred: &Cred,
        from: (&Vnode, &[u8]),
        to: (&Vnode, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        let _op = self.begin()?;
        check_directory(&from.0.ip.read())?;
        check_directory(&to.0.ip.read())?;
        if is_dots(from.1) || is_dots(to.1) {
            return Err(Error::Invalid("'.' and '..' cannot be renamed"));
        }
        check_name(from.1)?;
        check_name(to.1)?;
        let req = Request {
            cred,
            from: NameInDir { dir: &from.0.ip, name: from.1 },
            to: NameInDir { dir: &to.0.ip, name: to.1 },
            mode,
        };
        let (mut req, mut alone) = (req, None);
        loop {
            // No inode is locked at this point; the rename lock must be taken before inode locks.
            match retry(|first| attempt(&self.0, req, first, alone.is_some()))? {
                Attempt::Done => return Ok(()),
                Attempt::NeedsRenameLock => alone = Some(self.0.rename_lock.lock()),
                Attempt::NeedsSwap => req = Request { from: req.to, to: req.from, ..req },
                Attempt::NeedsDurableNames => {
                    alone = None;
                    self.0.syncer.fsync(req.from.dir, SyncScope::All)?;
                    self.0.syncer.fsync(req.to.dir, SyncScope::All)?;
                }
            }
        }
    }
}

/// One attempt. Returns [`Attempt::NeedsRenameLock`] if the rename lock is needed and not held.
fn attempt(
    mp: &Mount,
    req: Request<'_>,
    first: Option<&Arc<Inode>>,
    alone: bool,
) -> std::result::Result<Attempt, Stop> {
    let (src, dst, root);
    let mut whiteout = None;
    let same_dir = Arc::ptr_eq(req.from.dir, req.to.dir);
    let mut locks = Locks::starting_with(&mp.ump, first);
    let mut d1 = locks.lock(req.from.dir)?;
    let mut d2 = if same_dir { None } else { Some(locks.lock(req.to.dir)?) };
    check_parent(d1.view(), req.cred)?;
    check_parent(d2.as_ref().unwrap_or(&d1).view(), req.cred)?;
    if same_dir {
        mp.table.names().prefetch(req.from.dir, [req.from.name, req.to.name]);
    }
    dir::prefetch(d1.view(), req.from.name);
    dir::prefetch(d2.as_ref().unwrap_or(&d1).view(), req.to.name);
    let was = mp.table.names().remove(req.from.dir, req.from.name);
    let replaced = mp.table.names().remove(req.to.dir, req.to.name);
    let old = mp.find_entry(d1.view(), req.from.name, was.as_deref())?;
    src = mp.victim(req.from.dir, &old, was)?;
    let target = d2.as_mut().unwrap_or(&mut d1);
    let (taken, slot) = match dir::find_slot(target, req.to.name)? {
        SlotSearch::Exists(e) => (Some(e), None),
        SlotSearch::Free(slot) => (None, Some(slot)),
    };
    dst = match &taken {
        Some(e) => Some(mp.victim(req.to.dir, e, replaced)?),
        None => None,
    };
    if taken.is_some() && req.mode.is_exclusive() {
        return Err(Error::Exists.into());
    }
    let same_file = dst.as_ref().is_some_and(|d| Arc::ptr_eq(&d.ip, &src.ip));
    if is_above(&src, &req.to) {
        return Err(loop_error(&req, LoopAt::Source).into());
    }
    let src = Moved { file: locks.lock(&src.ip)?, ip: &src.ip, entry: old };
    if dst.as_ref().is_some_and(|d| is_above(d, &req.from)) {
        let kinds_differ = !src.is_dir() && req.mode != RenameMode::Exchange;
        let why = if kinds_differ { Error::IsDirectory } else { loop_error(&req, LoopAt::Target) };
        return Err(why.into());
    }
    let dst = match (&dst, taken) {
        (Some(held), Some(entry)) if !same_file => {
            Some(Moved { file: locks.lock(&held.ip)?, ip: &held.ip, entry })
        }
        _ => None,
    };
    let exchange = req.mode == RenameMode::Exchange;
    let elsewhere = [req.from.dir, req.to.dir].iter().all(|d| d.ino != Ino::ROOT);
    root = Held::new(mp, mp.table.get(Ino::ROOT)?);
    let root = match exchange && elsewhere {
        true => Some(locks.lock(&root.ip)?),
        false => None,
    };
    // The walk up the tree may lock this inode.
    locks.drop_unused();
    let (above_src, above_dst) = (Vec::new(), Vec::new());
    let mut r =
        Renaming { mp, req, d1, d2, src, dst, slot, above_src, above_dst, whiteout: None, root };
    r.proceed(alone, same_file, &mut whiteout)
}

impl<'a> Renaming<'a> {
    /// Checks and makes the rename, with all inodes locked. `whiteout` holds a whiteout that it
    /// creates.
    fn proceed(
        &mut self,
        alone: bool,
        same_file: bool,
        whiteout: &mut Option<Held<'a>>,
    ) -> std::result::Result<Attempt, Stop> {
        let exchange = self.req.mode == RenameMode::Exchange;
        if exchange && self.swaps_sides() {
            return Ok(Attempt::NeedsSwap);
        }
        if self.needs_rename_lock() && !alone {
            return Ok(Attempt::NeedsRenameLock);
        }
        self.check_loops()?;
        if same_file {
            return Ok(Attempt::Done);
        }
        self.check()?;
        if (exchange || self.is_exchanged()) && !self.are_names_durable() {
            return Ok(Attempt::NeedsDurableNames);
        }
        self.notify_moves();
        match self.req.mode {
            RenameMode::Exchange => self.exchange()?,
            RenameMode::Replace | RenameMode::NoReplace => self.replace()?,
            RenameMode::Whiteout { .. } => {
                let mp = self.mp;
                let cred = self.req.cred;
                let made = whiteout.insert(mp.new_whiteout(self.source(), cred)?);
                self.whiteout = Some(Arc::clone(&made.ip));
                // Dropping `whiteout` frees the new inode.
                self.replace().inspect_err(|_| mp.lock(&made.ip).d.nlink = 0)?;
            }
        }
        self.update_name_cache();
        Ok(Attempt::Done)
    }

    fn same_dir(&self) -> bool {
        self.d2.is_none()
    }

    /// Whether `file` is a directory that changes its parent.
    fn changes_parent(&self, file: &Moved<'_>) -> bool {
        file.is_dir() && !self.same_dir()
    }

    /// The directory of the old name.
    fn source(&mut self) -> &mut DirMut<'a> {
        &mut self.d1
    }

    /// The directory of the new name.
    fn target(&mut self) -> &mut DirMut<'a> {
        self.d2.as_mut().unwrap_or(&mut self.d1)
    }

    fn target_view(&self) -> Dir<'_> {
        self.d2.as_ref().unwrap_or(&self.d1).view()
    }

    fn swaps_dir(&self, dst: &Moved<'_>) -> bool {
        self.req.mode == RenameMode::Exchange && dst.is_dir()
    }

    /// Enters both names in the name cache. They were removed from it when the directories were
    /// locked.
    fn update_name_cache(&self) {
        let (mp, from, to) = (self.mp, self.req.from, self.req.to);
        let dst = self.dst.as_ref().map(|d| d.ip);
        for ip in [Some(self.src.ip), dst].into_iter().flatten() {
            mp.table.names().purge(ip);
        }
        if !mp.primes_all() {
            mp.table.names().purge_negatives(to.dir);
            return;
        }
        let exchanged = dst.filter(|_| self.req.mode == RenameMode::Exchange);
        mp.prime_change(from.dir, from.name, exchanged.or(self.whiteout.as_ref()));
        mp.prime_change(to.dir, to.name, Some(self.src.ip));
    }

    /// The steps of a plain rename. If a step fails, the steps before it are reversed.
    fn replace(&mut self) -> Result<()> {
        let snapshot = self.dst.as_ref().filter(|replaced| is_last_of_snapshot(&replaced.file));
        let of_snapshot = snapshot.map_or((Ino::ROOT, false), |file| (file.ip.ino, true));
        let used = snapshot.is_some_and(|file| !file.ip.is_used_once());
        self.mp.without_listing(of_snapshot, used, || self.replace_entry())
    }

    fn replace_entry(&mut self) -> Result<()> {
        let arrives = self.changes_parent(&self.src);
        let replaces_dir = self.dst.as_ref().is_some_and(Moved::is_dir);
        self.src.file.add_link()?;
        // Even if the new name replaces a directory: for a while there are two `..` entries.
        let linked = if arrives { self.target().add_link() } else { Ok(()) };
        let named = linked.and_then(|()| {
            self.enter_target().inspect_err(|_| {
                if arrives {
                    self.target().take_link_back();
                }
            })
        });
        named.inspect_err(|_| self.src.file.take_link_back())?;
        self.finish_replace(arrives, replaces_dir)
    }

    /// Sets the new name to the source, then removes the old name.
    fn enter_target(&mut self) -> Result<()> {
        let awaits_content = self.mp.awaits_content(&self.src.file);
        let more = self.changes_parent(&self.src) || awaits_content;
        let _held = more.then(|| NameBarrier::new(self.mp, self.src.ip));
        let (new, name, reserve) = (self.src.named(), self.req.to.name, reserve_of(self.req.cred));
        let (others, replaced) = (self.src.other_names(), self.replaced());
        match (self.dst.as_ref().map(|d| d.entry), self.slot) {
            (Some(e), _) => {
                dir::rewrite(self.target(), &e, new, EntryKind::Existing, replaced)?;
            }
            (None, Some(slot)) => {
                let entry = NewEntry { slot, name, target: new, kind: EntryKind::Existing, others };
                let mp = self.mp;
                mp.enter_name(self.target(), &entry, reserve)?;
            }
            (None, None) => return Err(Error::NotFound),
        }
        #[cfg(test)]
        tests::between();
        if awaits_content {
            self.mp.content_before_name(self.src.ip);
        }
        self.leave_source().inspect_err(|_| self.take_target_back(new))
    }

    /// Reverses [`Renaming::enter_target`].
    fn take_target_back(&mut self, new: EntryTarget) {
        let name = self.req.to.name;
        let counted = self.changes_parent(&self.src) && self.dst.is_none();
        let removed_name = self.src.taken_back_from(counted.then_some(self.req.to.dir.ino));
        let Some(dst) = &mut self.dst else {
            return drop(dir::withdraw(self.target(), name, removed_name));
        };
        let e = dst.entry;
        notify_link_restored(&mut dst.file);
        drop(dir::rewrite_back(self.target(), &e, new, EntryKind::Existing, removed_name));
    }

    /// Describes the removal of the name of the file to be replaced.
    fn replaced(&self) -> RemovedName {
        match &self.dst {
            Some(dst) if dst.is_dir() => {
                removed_directory(self.req.to.dir.ino, self.mp.may_have_second_name(&dst.file))
            }
            Some(dst) => RemovedName::file(dst.file.d.nlink.saturating_sub(1)),
            None => RemovedName::file(0),
        }
    }

    /// Sets `..` of a moved directory to its new parent, and removes the old name or sets it to the
    /// whiteout.
    fn leave_source(&mut self) -> Result<()> {
        let (old, new) = (self.req.from.dir.ino, self.req.to.dir.ino);
        let arrives = self.changes_parent(&self.src);
        if arrives {
            redirect_dotdot(self.mp, &mut self.src.file, new)?;
        }
        let (name, old_entry) = (self.req.from.name, self.src.entry);
        let removed_name = self.src.moved_from(arrives.then_some(old));
        let stays =
            !self.same_dir() || self.slot.as_ref().is_none_or(|s| s.keeps_in_place(&old_entry));
        let whiteout = self.whiteout.as_ref().map(|ip| named(ip.ino, &ip.read()));
        let d1 = self.source();
        // Entering the new name may have moved the old entry.
        let found = if stays { Ok(Some(old_entry)) } else { dir::find(d1.view(), name) };
        let done = match found {
            Ok(Some(e)) => match whiteout {
                Some(new) => dir::rewrite(d1, &e, new, EntryKind::New, removed_name),
                None => dir::remove(d1, &e, removed_name),
            },
            Ok(None) => Err(Error::NotFound),
            Err(e) => Err(e),
        };
        done.inspect_err(|_| {
            if arrives {
                drop(redirect_dotdot(self.mp, &mut self.src.file, old));
            }
        })
    }

    /// Updates the link counts after the names are final.
    fn finish_replace(&mut self, left: bool, replaced_dir: bool) -> Result<()> {
        let mp = self.mp;
        self.source().note_modified();
        if !self.same_dir() {
            self.target().note_modified();
        }
        self.update_depth(left);
        let mut updated = self.src.file.drop_link();
        let second_name = self.dst.as_ref().is_some_and(|dst| mp.may_have_second_name(&dst.file));
        if let Some(dst) = &mut self.dst {
            let counted =
                if dst.is_dir() { mp.drop_directory(&mut dst.file) } else { dst.file.drop_link() };
            updated = updated.and(counted);
        }
        // For the `..` of a moved directory, and for that of a replaced one.
        if left {
            updated = updated.and(self.source().drop_link());
        }
        if replaced_dir && !second_name {
            updated = updated.and(self.target().drop_link());
        }
        updated
    }

    /// Updates the recorded depth of a moved directory, if it records one.
    fn update_depth(&mut self, moved: bool) {
        let depth = depth_below(self.target_view());
        if moved && self.src.file.d.freelink != 0 {
            self.src.file.d.freelink = depth;
        }
    }
}

/// Notifies the ordering mode that a removal, which it was notified of, has been reversed. The link
/// count itself did not change.
fn notify_link_restored(file: &mut LockedInode<'_>) {
    drop(file.update(InodeChange::NlinkInc));
}

/// Sets `..` of the directory `body` to `parent`.
pub(super) fn redirect_dotdot(mp: &Mount, body: &mut LockedInode<'_>, parent: Ino) -> Result<()> {
    mp.table.names().purge(body.ip);
    let Some(e) = dir::find(body.view(), b"..")? else {
        let (s, place) = (Structure::Directory, Place::Inode(body.ip.ino));
        return Err(mp.damaged(Error::corrupt(s, place, "'..'", "absent", "present")));
    };
    let new = EntryTarget { ino: parent, dtype: FileType::Directory.dirent() };
    let removed_name = RemovedName { drops: 0, ..RemovedName::file(1) };
    dir::rewrite(body, &e, new, EntryKind::DotDot, removed_name)
}

/// The depth of a directory in `parent`; 0 if `parent` does not record its own.
fn depth_below(parent: Dir<'_>) -> u32 {
    let above = parent.d.freelink;
    if above != 0 || parent.ip.ino == Ino::ROOT { above.saturating_add(1) } else { 0 }
}
