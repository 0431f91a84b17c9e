//! Two names that change places, by way of a third one.
//!
//! Were each name simply redirected, either would have to be on disk before the other: each of the two
//! files has no other name. So the second file steps aside first, to a record of the exchange in the root
//! directory ([`ffs_ondisk::exchange`]); then the first file gets the second name, the second file the first
//! name, and the record goes. At every step either file has a name, and each step waits for earlier ones
//! only. What a crash leaves half done, `fsck` or the next mount ([`super::recover`]) completes or takes
//! back, by the record.
//!
//! The second file is no directory if either is none. A directory that steps aside moves to the root, `..`
//! and all.
//!
//! An exchange needs room for the record: it can fail for want of it, and leaves the root a chunk longer than
//! it was at most.
//!
//! # Invariants
//! 1. Both names are on the device, as they are in memory, before the record is made: what the record says of
//!    them is then true after a crash.

use super::{Moved, NameHeld, Renaming, depth_below, redirect_dotdot, relink};
use crate::dir::{self, DirMut, Entry, Slot, SlotSearch};
use crate::error::{Error, Result};
use crate::ops::names::NewEntry;
use crate::ops::reserve_of;
use crate::ordering::{DirPos, EntryKind, Event, InodeChange};
use ffs_ondisk::Ino;
use ffs_ondisk::exchange::{ExchangeRecord, ExchangedName, hash};

const KIND: EntryKind = EntryKind::Existing;

impl<'a> Renaming<'a> {
    /// Swaps two names. Both files have one more link while it lasts.
    pub(super) fn exchange(&mut self) -> Result<()> {
        let Some(mut dst) = self.dst.take() else { return Err(Error::NotFound) };
        let done = self.exchange_with(&mut dst);
        self.dst = Some(dst);
        done
    }

    fn exchange_with(&mut self, dst: &mut Moved<'a>) -> Result<()> {
        let (record, slot) = self.place_of_record()?;
        self.step_aside(dst, &record, slot)?;
        let done = self.swap(dst, &record).inspect_err(|_| self.step_back(dst, &record));
        done?;
        self.finish_exchange(dst)
    }

    /// Whether the exchange has to be made from the other side, as only the second file is a directory.
    pub(super) fn swaps_sides(&self) -> bool {
        !self.src.is_dir() && self.dst.as_ref().is_some_and(Moved::is_dir)
    }

    /// Whether both names are on the device as they are in memory.
    pub(super) fn is_settled(&self) -> bool {
        let ordering = &self.mp.ump.ordering;
        let settled = |dir: Ino, e: &Entry| ordering.is_entry_durable(DirPos { dir, off: e.off });
        let (p1, p2) = (self.req.from.dir.ino, self.req.to.dir.ino);
        let second = self.dst.as_ref().is_none_or(|dst| settled(p2, &dst.entry));
        settled(p1, &self.src.entry) && second
    }

    /// Whether a file that loses its name got that by an exchange: then the exchange comes first. A check that found
    /// a file under its name from before the exchange and under one from after this rename would drop one of
    /// them, and with it the name that another file is to get.
    pub(super) fn is_exchanged(&self) -> bool {
        let ordering = &self.mp.ump.ordering;
        let files = [Some(self.src.ip), self.dst.as_ref().map(|dst| dst.ip)];
        files.into_iter().flatten().any(|ip| ordering.is_exchanged(ip.ino))
    }

    /// The root directory.
    pub(super) fn aside(&mut self) -> &mut DirMut<'a> {
        if let Some(root) = &mut self.root {
            return root;
        }
        let first = self.req.from.dir.ino == Ino::ROOT;
        self.d2.as_mut().filter(|_| !first).unwrap_or(&mut self.d1)
    }

    /// The directory that `file` leaves when it moves from `from` to `to`: none unless it is a directory that
    /// gets another parent.
    fn left_by(file: &Moved<'_>, from: Ino, to: Ino) -> Option<Ino> {
        (file.is_dir() && from != to).then_some(from)
    }

    /// The name of the record, and room for it.
    fn place_of_record(&mut self) -> Result<(Vec<u8>, Slot)> {
        let (n1, n2) = (self.req.from, self.req.to);
        let named = |of: super::Name<'_>| ExchangedName { dir: of.dir.ino, hash: hash(of.name) };
        let (first, second, other) = (named(n1), named(n2), self.src.ip.ino);
        let name = ExchangeRecord { first, second, other }.name();
        match dir::find_slot(self.aside(), &name)? {
            SlotSearch::Free(slot) => Ok((name, slot)),
            SlotSearch::Exists(_) => Err(Error::Exists),
        }
    }

    /// Gives the second file the record as a name.
    fn step_aside(&mut self, dst: &mut Moved<'a>, name: &[u8], slot: Slot) -> Result<()> {
        let (mp, reserve, p2) = (self.mp, reserve_of(self.req.cred), self.req.to.dir.ino);
        let comes = Self::left_by(dst, p2, Ino::ROOT).is_some();
        let awaits = mp.awaits_content(&dst.file);
        let _held = (comes || awaits).then(|| NameHeld::new(mp, dst.ip));
        dst.file.add_link()?;
        let counted = count_comer(comes, self.aside());
        let named = counted.and_then(|()| {
            let (target, others) = (dst.named(), dst.other_names());
            let entry = NewEntry { slot, name, target, kind: KIND, others };
            let entered = mp.enter_name(self.aside(), &entry, reserve);
            entered.inspect_err(|_| uncount_comer(comes, self.aside()))
        });
        named.inspect_err(|_| dst.file.take_link_back())?;
        if awaits {
            // The first name waits for the record: it need not wait for the content again.
            mp.content_before_name(dst.ip);
        }
        if !comes {
            return Ok(());
        }
        let done = redirect_dotdot(mp, dst, Ino::ROOT);
        done.inspect_err(|_| self.withdraw_aside(dst, name))
    }

    /// Undoes [`Renaming::step_aside`].
    fn step_back(&mut self, dst: &mut Moved<'a>, name: &[u8]) {
        let p2 = self.req.to.dir.ino;
        if Self::left_by(dst, Ino::ROOT, p2).is_some() {
            drop(redirect_dotdot(self.mp, dst, p2));
        }
        self.withdraw_aside(dst, name);
    }

    fn withdraw_aside(&mut self, dst: &mut Moved<'a>, name: &[u8]) {
        let came = Self::left_by(dst, Ino::ROOT, self.req.to.dir.ino);
        drop(dir::withdraw(self.aside(), name, dst.taken_back_from(came)));
        uncount_comer(came.is_some(), self.aside());
        dst.file.take_link_back();
    }

    /// With the second file aside: gives the first file its new name, then the second, and removes the
    /// temporary one.
    fn swap(&mut self, dst: &mut Moved<'a>, aside: &[u8]) -> Result<()> {
        // Entering the temporary name may have moved either.
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
        let comes = Self::left_by(&self.src, p1, p2).is_some();
        let awaits = mp.awaits_content(&self.src.file);
        let _held = (comes || awaits).then(|| NameHeld::new(mp, self.src.ip));
        self.src.file.add_link()?;
        let counted = count_comer(comes, self.target());
        let named = counted.and_then(|()| {
            let (new, gone) = (self.src.named(), dst.moved_from(Self::left_by(dst, p2, Ino::ROOT)));
            let redirected = dir::rewrite(self.target(), e2, new, KIND, gone);
            redirected.inspect_err(|_| uncount_comer(comes, self.target()))
        });
        named.inspect_err(|_| self.src.file.take_link_back())?;
        if awaits {
            mp.content_before_name(self.src.ip);
        }
        if !comes {
            return Ok(());
        }
        let done = redirect_dotdot(mp, &mut self.src, p2);
        done.inspect_err(|_| self.rename_first_back(dst, e2))
    }

    /// Undoes [`Renaming::name_first`].
    fn unname_first(&mut self, dst: &mut Moved<'a>, e2: &Entry) {
        let (p1, p2) = (self.req.from.dir.ino, self.req.to.dir.ino);
        if Self::left_by(&self.src, p1, p2).is_some() {
            drop(redirect_dotdot(self.mp, &mut self.src, p1));
        }
        self.rename_first_back(dst, e2);
    }

    fn rename_first_back(&mut self, dst: &mut Moved<'a>, e2: &Entry) {
        let (p1, p2) = (self.req.from.dir.ino, self.req.to.dir.ino);
        let came = Self::left_by(&self.src, p2, p1);
        let (new, gone) = (self.src.named(), self.src.taken_back_from(came));
        relink(&mut dst.file);
        if Self::left_by(dst, p2, Ino::ROOT).is_some() {
            relink(self.target());
        }
        drop(dir::rewrite_back(self.target(), e2, new, KIND, gone));
        uncount_comer(came.is_some(), self.target());
        self.src.file.take_link_back();
    }

    /// Gives the second file the first name instead of the record.
    pub(super) fn name_second(
        &mut self,
        dst: &mut Moved<'a>,
        e1: &Entry,
        record: &[u8],
    ) -> Result<()> {
        let (mp, new) = (self.mp, dst.named());
        let (p1, p2) = (self.req.from.dir.ino, self.req.to.dir.ino);
        let leaves = Self::left_by(dst, Ino::ROOT, p1);
        let comes = leaves.is_some();
        let _held = comes.then(|| NameHeld::new(mp, dst.ip));
        dst.file.update(InodeChange::NlinkInc)?;
        count_comer(comes, self.source())?;
        let gone = self.src.moved_from(Self::left_by(&self.src, p1, p2));
        let named = dir::rewrite(self.source(), e1, new, KIND, gone);
        named.inspect_err(|_| uncount_comer(comes, self.source()))?;
        let moved = if comes { redirect_dotdot(mp, dst, p1) } else { Ok(()) };
        let removed = moved.and_then(|()| {
            let removed = match dir::find(self.aside().view(), record) {
                Ok(Some(e)) => dir::remove(self.aside(), &e, dst.moved_from(leaves)),
                Ok(None) => Err(Error::NotFound),
                Err(e) => Err(e),
            };
            removed.inspect_err(|_| {
                if comes {
                    drop(redirect_dotdot(mp, dst, Ino::ROOT));
                }
            })
        });
        removed.inspect_err(|_| {
            relink(&mut self.src.file);
            if Self::left_by(&self.src, p1, p2).is_some() {
                relink(self.source());
            }
            let gone = dst.taken_back_from(comes.then_some(p1));
            drop(dir::rewrite_back(self.source(), e1, new, KIND, gone));
            uncount_comer(comes, self.source());
        })
    }

    /// The names are right; the counts follow.
    pub(super) fn finish_exchange(&mut self, dst: &mut Moved<'a>) -> Result<()> {
        let (mp, p1, p2) = (self.mp, self.req.from.dir.ino, self.req.to.dir.ino);
        let mut noted = mp.directory_changed(self.source(), false);
        if !self.same_dir() {
            noted = noted.and(mp.directory_changed(self.target(), false));
        }
        if self.root.is_some() {
            noted = noted.and(mp.directory_changed(self.aside(), false));
        }
        self.swap_depths(dst);
        for ip in [self.src.ip, dst.ip] {
            mp.ump.ordering.notify(Event::EntriesExchanged { ino: ip.ino });
        }
        noted = noted.and(self.src.file.drop_link());
        noted = noted.and(dst.file.drop_link());
        if Self::left_by(&self.src, p1, p2).is_some() {
            noted = noted.and(self.source().drop_link());
        }
        if Self::left_by(dst, p2, Ino::ROOT).is_some() {
            noted = noted.and(self.target().drop_link());
        }
        if Self::left_by(dst, Ino::ROOT, p1).is_some() {
            noted = noted.and(self.aside().drop_link());
        }
        noted
    }

    /// Keeps the recorded depths of two directories that changed places right.
    fn swap_depths(&mut self, dst: &mut Moved<'a>) {
        if !self.same_dir() && dst.is_dir() && dst.file.d.freelink != 0 {
            dst.file.d.freelink = depth_below(self.source().view());
        }
        self.follow_depth(!self.same_dir() && self.src.is_dir());
    }
}

/// A directory counts a subdirectory that comes to it.
fn count_comer(comes: bool, to: &mut DirMut<'_>) -> Result<()> {
    if comes { to.add_link() } else { Ok(()) }
}

fn uncount_comer(came: bool, to: &mut DirMut<'_>) {
    if came {
        to.take_link_back();
    }
}
