//! Exchange of two names, by means of a third one.
//!
//! If each name were simply redirected, each redirection would have to be on disk before the other,
//! since neither file has another name. So the second file first gets an additional name, a record
//! of the exchange in the root directory ([`ffs_ondisk::exchange`]). Then the first file gets the
//! second name, the second file gets the first name, and the record is removed. After each step
//! both files have a name, and each step depends on earlier steps only. If a crash interrupts an
//! exchange, `fsck` or the next mount ([`super::recover`]) completes or reverses it by the record.
//!
//! If only one of the files is a directory, it is the first. A directory that is moved aside
//! changes its parent to the root, including its `..`.
//!
//! An exchange needs a slot for the record. It fails if there is no space for it, and it leaves the
//! root directory at most one directory block longer.
//!
//! # Invariants
//! 1. Both names are on the device, as they are in memory, before the record is entered. So after a
//!    crash the record describes them correctly.

use super::{Moved, NameBarrier, Renaming, depth_below, notify_link_restored, redirect_dotdot};
use crate::dir::{self, DirMut, Entry, Slot, SlotSearch};
use crate::error::{Error, Result};
use crate::ops::names::NewEntry;
use crate::ops::reserve_of;
use crate::ordering::{DirPos, EntryKind, Event, InodeChange};
use ffs_ondisk::Ino;
use ffs_ondisk::exchange::{ExchangeRecord, ExchangedName, hash};

const KIND: EntryKind = EntryKind::Existing;

impl<'a> Renaming<'a> {
    /// Exchanges two names. During the exchange each file has one more link.
    pub(super) fn exchange(&mut self) -> Result<()> {
        let Some(mut dst) = self.dst.take() else { return Err(Error::NotFound) };
        let done = self.exchange_with(&mut dst);
        self.dst = Some(dst);
        done
    }

    fn exchange_with(&mut self, dst: &mut Moved<'a>) -> Result<()> {
        let (record, slot) = self.find_record_slot()?;
        self.move_aside(dst, &record, slot)?;
        let done = self.swap(dst, &record).inspect_err(|_| self.undo_move_aside(dst, &record));
        done?;
        self.finish_exchange(dst)
    }

    /// Whether source and target must be swapped, because only the second file is a directory.
    pub(super) fn swaps_sides(&self) -> bool {
        !self.src.is_dir() && self.dst.as_ref().is_some_and(Moved::is_dir)
    }

    /// Whether both names on the device agree with memory.
    pub(super) fn are_names_durable(&self) -> bool {
        let ordering = &self.mp.ump.ordering;
        let settled = |dir: Ino, e: &Entry| ordering.is_entry_durable(DirPos { dir, off: e.off });
        let (p1, p2) = (self.req.from.dir.ino, self.req.to.dir.ino);
        let second = self.dst.as_ref().is_none_or(|dst| settled(p2, &dst.entry));
        settled(p1, &self.src.entry) && second
    }

    /// Whether a file that loses its name got that name by an exchange that is not durable; the
    /// exchange must be durable first. If `fsck` found a file under its name from before the
    /// exchange and under one from after this rename, it would remove one of them, perhaps the only
    /// name of another file.
    pub(super) fn is_exchanged(&self) -> bool {
        let ordering = &self.mp.ump.ordering;
        let files = [Some(self.src.ip), self.dst.as_ref().map(|dst| dst.ip)];
        files.into_iter().flatten().any(|ip| ordering.is_exchanged(ip.ino))
    }

    /// The root directory.
    pub(super) fn root_dir(&mut self) -> &mut DirMut<'a> {
        if let Some(root) = &mut self.root {
            return root;
        }
        let first = self.req.from.dir.ino == Ino::ROOT;
        self.d2.as_mut().filter(|_| !first).unwrap_or(&mut self.d1)
    }

    /// The old parent of `file` when it moves from `from` to `to`; `None` unless it is a directory
    /// and the parent changes.
    fn left_by(file: &Moved<'_>, from: Ino, to: Ino) -> Option<Ino> {
        (file.is_dir() && from != to).then_some(from)
    }

    /// The name of the record, and a slot for it.
    fn find_record_slot(&mut self) -> Result<(Vec<u8>, Slot)> {
        let (n1, n2) = (self.req.from, self.req.to);
        let named =
            |of: super::NameInDir<'_>| ExchangedName { dir: of.dir.ino, hash: hash(of.name) };
        let (first, second, other) = (named(n1), named(n2), self.src.ip.ino);
        let name = ExchangeRecord { first, second, other }.name();
        match dir::find_slot(self.root_dir(), &name)? {
            SlotSearch::Free(slot) => Ok((name, slot)),
            SlotSearch::Exists(_) => Err(Error::Exists),
        }
    }

    /// Gives the second file the record as an additional name.
    fn move_aside(&mut self, dst: &mut Moved<'a>, name: &[u8], slot: Slot) -> Result<()> {
        let (mp, reserve, p2) = (self.mp, reserve_of(self.req.cred), self.req.to.dir.ino);
        let arrives = Self::left_by(dst, p2, Ino::ROOT).is_some();
        let awaits = mp.awaits_content(&dst.file);
        let _held = (arrives || awaits).then(|| NameBarrier::new(mp, dst.ip));
        dst.file.add_link()?;
        let counted = count_subdirectory(arrives, self.root_dir());
        let named = counted.and_then(|()| {
            let (target, others) = (dst.named(), dst.other_names());
            let entry = NewEntry { slot, name, target, kind: KIND, others };
            let entered = mp.enter_name(self.root_dir(), &entry, reserve);
            entered.inspect_err(|_| uncount_subdirectory(arrives, self.root_dir()))
        });
        named.inspect_err(|_| dst.file.take_link_back())?;
        if awaits {
            // The first name depends on the record, so it need not wait for the content again.
            mp.content_before_name(dst.ip);
        }
        if !arrives {
            return Ok(());
        }
        let done = redirect_dotdot(mp, &mut dst.file, Ino::ROOT);
        done.inspect_err(|_| self.withdraw_aside(dst, name))
    }

    /// Reverses [`Renaming::move_aside`].
    fn undo_move_aside(&mut self, dst: &mut Moved<'a>, name: &[u8]) {
        let p2 = self.req.to.dir.ino;
        if Self::left_by(dst, Ino::ROOT, p2).is_some() {
            drop(redirect_dotdot(self.mp, &mut dst.file, p2));
        }
        self.withdraw_aside(dst, name);
    }

    fn withdraw_aside(&mut self, dst: &mut Moved<'a>, name: &[u8]) {
        let arrived = Self::left_by(dst, Ino::ROOT, self.req.to.dir.ino);
        drop(dir::withdraw(self.root_dir(), name, dst.taken_back_from(arrived)));
        uncount_subdirectory(arrived.is_some(), self.root_dir());
        dst.file.take_link_back();
    }

    /// After the second file was moved aside: gives the first file its new name, then the second
    /// file, and removes the record.
    fn swap(&mut self, dst: &mut Moved<'a>, aside: &[u8]) -> Result<()> {
        // Entering the record may have moved either entry.
        let (n1, n2) = (self.req.from.name, self.req.to.name);
        let e2 = dir::find(self.target().view(), n2)?.ok_or(Error::NotFound)?;
        let e1 = dir::find(self.source().view(), n1)?.ok_or(Error::NotFound)?;
        self.name_first(dst, &e2)?;
        let rest = self.name_second(dst, &e1, aside);
        rest.inspect_err(|_| self.unname_first(dst, &e2))
    }

    /// Gives the first file the second name.
    fn name_first(&mut self, dst: &mut Moved<'a>, e2: &Entry) -> Result<()> {
        let (mp, p1, p2) = (self.mp, self.req.from.dir.ino, self.req.to.dir.ino);
        let arrives = Self::left_by(&self.src, p1, p2).is_some();
        let awaits = mp.awaits_content(&self.src.file);
        let _held = (arrives || awaits).then(|| NameBarrier::new(mp, self.src.ip));
        self.src.file.add_link()?;
        let counted = count_subdirectory(arrives, self.target());
        let named = counted.and_then(|()| {
            let (new, removed_name) =
                (self.src.named(), dst.moved_from(Self::left_by(dst, p2, Ino::ROOT)));
            let redirected = dir::rewrite(self.target(), e2, new, KIND, removed_name);
            redirected.inspect_err(|_| uncount_subdirectory(arrives, self.target()))
        });
        named.inspect_err(|_| self.src.file.take_link_back())?;
        if awaits {
            mp.content_before_name(self.src.ip);
        }
        if !arrives {
            return Ok(());
        }
        let done = redirect_dotdot(mp, &mut self.src.file, p2);
        done.inspect_err(|_| self.rename_first_back(dst, e2))
    }

    /// Reverses [`Renaming::name_first`].
    fn unname_first(&mut self, dst: &mut Moved<'a>, e2: &Entry) {
        let (p1, p2) = (self.req.from.dir.ino, self.req.to.dir.ino);
        if Self::left_by(&self.src, p1, p2).is_some() {
            drop(redirect_dotdot(self.mp, &mut self.src.file, p1));
        }
        self.rename_first_back(dst, e2);
    }

    fn rename_first_back(&mut self, dst: &mut Moved<'a>, e2: &Entry) {
        let (p1, p2) = (self.req.from.dir.ino, self.req.to.dir.ino);
        let arrived = Self::left_by(&self.src, p2, p1);
        let (new, removed_name) = (self.src.named(), self.src.taken_back_from(arrived));
        notify_link_restored(&mut dst.file);
        if Self::left_by(dst, p2, Ino::ROOT).is_some() {
            notify_link_restored(self.target());
        }
        drop(dir::rewrite_back(self.target(), e2, new, KIND, removed_name));
        uncount_subdirectory(arrived.is_some(), self.target());
        self.src.file.take_link_back();
    }

    /// Gives the second file the first name, and removes the record.
    pub(super) fn name_second(
        &mut self,
        dst: &mut Moved<'a>,
        e1: &Entry,
        record: &[u8],
    ) -> Result<()> {
        let (mp, new) = (self.mp, dst.named());
        let (p1, p2) = (self.req.from.dir.ino, self.req.to.dir.ino);
        let leaves = Self::left_by(dst, Ino::ROOT, p1);
        let arrives = leaves.is_some();
        let _held = arrives.then(|| NameBarrier::new(mp, dst.ip));
        dst.file.update(InodeChange::NlinkInc)?;
        count_subdirectory(arrives, self.source())?;
        let removed_name = self.src.moved_from(Self::left_by(&self.src, p1, p2));
        let named = dir::rewrite(self.source(), e1, new, KIND, removed_name);
        named.inspect_err(|_| uncount_subdirectory(arrives, self.source()))?;
        let moved = if arrives { redirect_dotdot(mp, &mut dst.file, p1) } else { Ok(()) };
        let removed = moved.and_then(|()| {
            let removed = match dir::find(self.root_dir().view(), record) {
                Ok(Some(e)) => dir::remove(self.root_dir(), &e, dst.moved_from(leaves)),
                Ok(None) => Err(Error::NotFound),
                Err(e) => Err(e),
            };
            removed.inspect_err(|_| {
                if arrives {
                    drop(redirect_dotdot(mp, &mut dst.file, Ino::ROOT));
                }
            })
        });
        removed.inspect_err(|_| {
            notify_link_restored(&mut self.src.file);
            if Self::left_by(&self.src, p1, p2).is_some() {
                notify_link_restored(self.source());
            }
            let removed_name = dst.taken_back_from(arrives.then_some(p1));
            drop(dir::rewrite_back(self.source(), e1, new, KIND, removed_name));
            uncount_subdirectory(arrives, self.source());
        })
    }

    /// Updates the link counts after the names are final.
    pub(super) fn finish_exchange(&mut self, dst: &mut Moved<'a>) -> Result<()> {
        let (mp, p1, p2) = (self.mp, self.req.from.dir.ino, self.req.to.dir.ino);
        self.source().note_modified();
        if !self.same_dir() {
            self.target().note_modified();
        }
        if self.root.is_some() {
            self.root_dir().note_modified();
        }
        self.swap_depths(dst);
        for ip in [self.src.ip, dst.ip] {
            mp.ump.ordering.notify(Event::EntriesExchanged { ino: ip.ino });
        }
        let mut updated = self.src.file.drop_link();
        updated = updated.and(dst.file.drop_link());
        if Self::left_by(&self.src, p1, p2).is_some() {
            updated = updated.and(self.source().drop_link());
        }
        if Self::left_by(dst, p2, Ino::ROOT).is_some() {
            updated = updated.and(self.target().drop_link());
        }
        if Self::left_by(dst, Ino::ROOT, p1).is_some() {
            updated = updated.and(self.root_dir().drop_link());
        }
        updated
    }

    /// Updates the recorded depths of two directories that changed places.
    fn swap_depths(&mut self, dst: &mut Moved<'a>) {
        if !self.same_dir() && dst.is_dir() && dst.file.d.freelink != 0 {
            dst.file.d.freelink = depth_below(self.source().view());
        }
        self.update_depth(!self.same_dir() && self.src.is_dir());
    }
}

/// Counts a subdirectory in its new parent `to`, if `arrives`.
fn count_subdirectory(arrives: bool, to: &mut DirMut<'_>) -> Result<()> {
    if arrives { to.add_link() } else { Ok(()) }
}

fn uncount_subdirectory(arrived: bool, to: &mut DirMut<'_>) {
    if arrived {
        to.take_link_back();
    }
}
