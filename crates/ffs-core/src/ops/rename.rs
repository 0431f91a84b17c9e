//! Rename: the only operation that changes names in two directories, and the shape of the tree.
//!
//! # Invariants
//! 1. At every step each moved file has at least one name, and no link count is below the number of
//!    names and `..` that exist (`spec/soft-updates.md` §6.7, §6.8).
//! 2. A directory changes its parent only under the rename lock, so that the walk up the tree that
//!    excludes loops stays true until the rename is done.
//! 3. Each step enters, redirects or removes one name, and the file it takes a name from has another one
//!    by then. So no two changes have to reach the disk together, and none waits for a later one.
//! 4. Where §11.2 lists the new parent's inode behind the target directory block we write it before:
//!    the same number of writes, and no moment at which its count is too low (D12).

mod check;
mod exchange;
mod recover;
#[cfg(test)]
mod tests;

use super::locks::{Locks, Stop, retry};
use super::names::{NewEntry, named};
use super::publish::NameHeld;
use super::remove::removed;
use super::{Held, Vnode, check_directory, check_name, is_dots, reserve_of};
use crate::cred::Cred;
use crate::dir::{self, Dir, DirMut, Entry, Slot, SlotSearch};
use crate::error::{Error, Result};
use crate::inode::{Inode, LockedInode};
use crate::mount::{Ffs, Mount};
use crate::ordering::{EntryKind, EntryTarget, InodeChange, ParentLink, RemovedName};
use crate::types::RenameMode;
use check::{above_itself, check_parent, is_above};
use ffs_ondisk::{FileType, Ino, Place, Structure};
use std::sync::Arc;

/// One name of a rename.
#[derive(Clone, Copy)]
struct Name<'a> {
    dir: &'a Arc<Inode>,
    name: &'a [u8],
}

/// What is to be renamed how.
#[derive(Clone, Copy)]
struct Request<'a> {
    cred: &'a Cred,
    from: Name<'a>,
    to: Name<'a>,
    mode: RenameMode,
}

/// A file that gets a name, locked.
struct Moved<'a> {
    ip: &'a Arc<Inode>,
    file: LockedInode<'a>,
    /// The entry that names it now.
    entry: Entry,
}

impl Moved<'_> {
    fn is_dir(&self) -> bool {
        self.file.d.is_dir()
    }

    fn named(&self) -> EntryTarget {
        named(self.ip.ino, &self.file)
    }

    /// Names it has besides the one the entry is.
    fn other_names(&self) -> u16 {
        // Of a directory under way from one name to the other: that.
        if self.is_dir() { 1 } else { self.file.d.nlink.saturating_sub(1) }
    }

    /// What goes with its name, from which it is moved away; `left`: the directory that loses its
    /// `..`.
    fn moved_from(&self, left: Option<Ino>) -> RemovedName {
        let parent = left.map_or(ParentLink::None, ParentLink::Moved);
        RemovedName { names_left: self.other_names(), drops: 1, parent, renamed: true }
    }

    /// What goes with a new name of it that is taken back; `left`: the directory that had been
    /// counting its `..` for it.
    fn taken_back_from(&self, left: Option<Ino>) -> RemovedName {
        RemovedName { renamed: false, ..self.moved_from(left) }
    }
}

/// A rename with everything locked.
struct Renaming<'a> {
    mp: &'a Mount,
    req: Request<'a>,
    /// The directory of the old name.
    d1: LockedInode<'a>,
    /// The directory of the new name, if it is another.
    d2: Option<LockedInode<'a>>,
    src: Moved<'a>,
    dst: Option<Moved<'a>>,
    /// Room for the new name if it does not exist.
    slot: Option<Slot>,
    /// If directories change places in the tree: what the source will lie below.
    above_src: Vec<Ino>,
    /// What the target will lie below in an exchange.
    above_dst: Vec<Ino>,
    /// The new file that gets the old name, if one does.
    whiteout: Option<Arc<Inode>>,
    /// The root directory, of an exchange, if neither name is in it.
    root: Option<LockedInode<'a>>,
}

/// How an attempt ended.
enum Attempt {
    Done,
    /// It needs the rename lock.
    Alone,
    /// The names have to be on the device first.
    Settle,
    /// It has to be made with the two names changed.
    Swapped,
}

impl Ffs {
    /// Renames `from.1` in `from.0` to `to.1` in `to.0`.
    ///
    /// Two names of the same file are left alone.
    ///
    /// # Errors
    /// [`Error::Invalid`] for `.` and `..` and for a directory moved below itself,
    /// [`Error::NotEmpty`], [`Error::IsDirectory`], [`Error::NotDirectory`] for a target that cannot
    /// be replaced, [`Error::Exists`] with [`RenameMode::NoReplace`], [`Error::TooManyLinks`];
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
        self.with_space(|| self.rename_once(cred, from, to, mode))?;
        self.stabilise(&[to.0, from.0])
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
            from: Name { dir: &from.0.ip, name: from.1 },
            to: Name { dir: &to.0.ip, name: to.1 },
            mode,
        };
        let (mut req, mut alone) = (req, None);
        loop {
            // Nothing is locked afterwards; the rename lock comes before the inodes'.
            match retry(|first| attempt(&self.0, req, first, alone.is_some()))? {
                Attempt::Done => return Ok(()),
                Attempt::Alone => alone = Some(self.0.rename_lock.lock()),
                Attempt::Swapped => req = Request { from: req.to, to: req.from, ..req },
                Attempt::Settle => {
                    alone = None;
                    self.0.syncer.fsync(req.from.dir, false)?;
                    self.0.syncer.fsync(req.to.dir, false)?;
                }
            }
        }
    }
}

/// One try. Continues if the rename lock is needed and not held.
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
        return Err(above_itself(&req, true).into());
    }
    let src = Moved { file: locks.lock(&src.ip)?, ip: &src.ip, entry: old };
    if dst.as_ref().is_some_and(|d| is_above(d, &req.from)) {
        let kinds_differ = !src.is_dir() && req.mode != RenameMode::Exchange;
        let why = if kinds_differ { Error::IsDirectory } else { above_itself(&req, false) };
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
    // The walk up the tree may meet it.
    locks.drop_unused();
    let (above_src, above_dst) = (Vec::new(), Vec::new());
    let mut r =
        Renaming { mp, req, d1, d2, src, dst, slot, above_src, above_dst, whiteout: None, root };
    r.proceed(alone, same_file, &mut whiteout)
}

impl<'a> Renaming<'a> {
    /// With all locked: the checks, and the rename. `whiteout` keeps a file that is made for it.
    fn proceed(
        &mut self,
        alone: bool,
        same_file: bool,
        whiteout: &mut Option<Held<'a>>,
    ) -> std::result::Result<Attempt, Stop> {
        let exchange = self.req.mode == RenameMode::Exchange;
        if exchange && self.swaps_sides() {
            return Ok(Attempt::Swapped);
        }
        if self.needs_rename_lock() && !alone {
            return Ok(Attempt::Alone);
        }
        self.check_loops()?;
        if same_file {
            return Ok(Attempt::Done);
        }
        self.check()?;
        if (exchange || self.is_exchanged()) && !self.is_settled() {
            return Ok(Attempt::Settle);
        }
        self.tell_above();
        match self.req.mode {
            RenameMode::Exchange => self.exchange()?,
            RenameMode::Replace | RenameMode::NoReplace => self.replace()?,
            RenameMode::Whiteout { .. } => {
                let mp = self.mp;
                let cred = self.req.cred;
                let made = whiteout.insert(mp.new_whiteout(self.source(), cred)?);
                self.whiteout = Some(Arc::clone(&made.ip));
                // What no name leads to is freed when `whiteout` is dropped.
                self.replace().inspect_err(|_| mp.lock(&made.ip).d.nlink = 0)?;
            }
        }
        self.tell_names();
        Ok(Attempt::Done)
    }

    fn same_dir(&self) -> bool {
        self.d2.is_none()
    }

    /// Whether `file` is a directory that gets another parent.
    fn arrives(&self, file: &Moved<'_>) -> bool {
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

    /// Tells the name cache, which knows neither name since the locks were taken, what they mean now.
    fn tell_names(&self) {
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

    /// The steps of a plain rename; each undoes what came before it if it fails.
    fn replace(&mut self) -> Result<()> {
        let arrives = self.arrives(&self.src);
        let replaces_dir = self.dst.as_ref().is_some_and(Moved::is_dir);
        self.src.file.add_link()?;
        // Also if a directory goes there: until it has, there are two `..`.
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

    /// Makes the new name name the source, then removes the old one.
    fn enter_target(&mut self) -> Result<()> {
        let awaits_content = self.mp.awaits_content(&self.src.file);
        let more = self.arrives(&self.src) || awaits_content;
        let _held = more.then(|| NameHeld::new(self.mp, self.src.ip));
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

    /// Undoes [`Renaming::enter_target`].
    fn take_target_back(&mut self, new: EntryTarget) {
        let name = self.req.to.name;
        let counted = self.arrives(&self.src) && self.dst.is_none();
        let gone = self.src.taken_back_from(counted.then_some(self.req.to.dir.ino));
        let Some(dst) = &mut self.dst else {
            return drop(dir::withdraw(self.target(), name, gone));
        };
        let e = dst.entry;
        relink(&mut dst.file);
        drop(dir::rewrite_back(self.target(), &e, new, EntryKind::Existing, gone));
    }

    /// What goes with the name of the file to be replaced.
    fn replaced(&self) -> RemovedName {
        match &self.dst {
            Some(dst) if dst.is_dir() => {
                removed(self.req.to.dir.ino, self.mp.may_have_twin(&dst.file))
            }
            Some(dst) => RemovedName::file(dst.file.d.nlink.saturating_sub(1)),
            None => RemovedName::file(0),
        }
    }

    /// Lets `..` of a moved directory name its new parent and removes the old name, or gives it to the whiteout.
    fn leave_source(&mut self) -> Result<()> {
        let (old, new) = (self.req.from.dir.ino, self.req.to.dir.ino);
        let arrives = self.arrives(&self.src);
        if arrives {
            redirect_dotdot(self.mp, &mut self.src, new)?;
        }
        let (name, old_entry) = (self.req.from.name, self.src.entry);
        let gone = self.src.moved_from(arrives.then_some(old));
        let stays =
            !self.same_dir() || self.slot.as_ref().is_none_or(|s| s.keeps_in_place(&old_entry));
        let whiteout = self.whiteout.as_ref().map(|ip| named(ip.ino, &ip.read()));
        let d1 = self.source();
        // Entering the new name may have moved the old one.
        let found = if stays { Ok(Some(old_entry)) } else { dir::find(d1.view(), name) };
        let gone = match found {
            Ok(Some(e)) => match whiteout {
                Some(new) => dir::rewrite(d1, &e, new, EntryKind::New, gone),
                None => dir::remove(d1, &e, gone),
            },
            Ok(None) => Err(Error::NotFound),
            Err(e) => Err(e),
        };
        gone.inspect_err(|_| {
            if arrives {
                drop(redirect_dotdot(self.mp, &mut self.src, old));
            }
        })
    }

    /// The names are right; the counts follow.
    fn finish_replace(&mut self, left: bool, replaced_dir: bool) -> Result<()> {
        let mp = self.mp;
        let mut noted = mp.directory_changed(self.source(), false);
        if !self.same_dir() {
            noted = noted.and(mp.directory_changed(self.target(), false));
        }
        self.follow_depth(left);
        noted = noted.and(self.src.file.drop_link());
        let twin = self.dst.as_ref().is_some_and(|dst| mp.may_have_twin(&dst.file));
        if let Some(dst) = &mut self.dst {
            let counted =
                if dst.is_dir() { mp.drop_directory(&mut dst.file) } else { dst.file.drop_link() };
            noted = noted.and(counted);
        }
        // The `..` of a directory that left, and that of a replaced one.
        if left {
            noted = noted.and(self.source().drop_link());
        }
        if replaced_dir && !twin {
            noted = noted.and(self.target().drop_link());
        }
        noted
    }

    /// Keeps the recorded depth of a moved directory right, where depths are recorded.
    fn follow_depth(&mut self, moved: bool) {
        let depth = depth_below(self.target_view());
        if moved && self.src.file.d.freelink != 0 {
            self.src.file.d.freelink = depth;
        }
    }
}

/// A link of the file was reported gone and it gets one back: as many, but whoever keeps account of those
/// that the disk still shows has to know.
fn relink(file: &mut LockedInode<'_>) {
    drop(file.update(InodeChange::NlinkInc));
}

/// Makes `..` of the moved directory name `parent`.
fn redirect_dotdot(mp: &Mount, moved: &mut Moved<'_>, parent: Ino) -> Result<()> {
    mp.table.names().purge(moved.ip);
    let body = &mut moved.file;
    let Some(e) = dir::find(body.view(), b"..")? else {
        let (s, place) = (Structure::Directory, Place::Inode(body.ip.ino));
        return Err(mp.damaged(Error::corrupt(s, place, "'..'", "absent", "present")));
    };
    let new = EntryTarget { ino: parent, dtype: FileType::Directory.dirent() };
    let gone = RemovedName { drops: 0, ..RemovedName::file(1) };
    dir::rewrite(body, &e, new, EntryKind::DotDot, gone)
}

/// Depth of a directory in `parent`; 0 where the parent's own is not recorded.
fn depth_below(parent: Dir<'_>) -> u32 {
    let above = parent.d.freelink;
    if above != 0 || parent.ip.ino == Ino::ROOT { above.saturating_add(1) } else { 0 }
}
