//! Two names that change places, by way of a third one.
//!
//! Were each name simply redirected, either would have to be on disk before the other: each of the two
//! files has no other name. So the second file steps aside first, to a temporary name in the directory of
//! the first; then the first file gets the second name, the second file the first name, and the
//! temporary one goes. At every step either file has a name, and each step waits for earlier ones only.
//!
//! An exchange needs room for that name: it can fail for want of it, and leaves the directory a chunk
//! longer than it was at most. A crash may leave the temporary name, a further link of the second file.

use super::{Moved, NameHeld, Renaming, depth_below, redirect_dotdot, relink};
use crate::dir::{self, Entry, Room, Slot};
use crate::error::{Error, Result};
use crate::ops::names::NewEntry;
use crate::ops::reserve_of;
use crate::ordering::{InodeChange, NameKind};
use ffs_ondisk::Ino;

/// Temporary names that are tried.
const CANDIDATES: u32 = 256;

const KIND: NameKind = NameKind::Plain;

impl<'a> Renaming<'a> {
    /// Swaps two names. Both files have one more link while it lasts.
    pub(super) fn exchange(&mut self) -> Result<()> {
        let Some(mut dst) = self.dst.take() else { return Err(Error::NotFound) };
        let done = self.exchange_with(&mut dst);
        self.dst = Some(dst);
        done
    }

    fn exchange_with(&mut self, dst: &mut Moved<'a>) -> Result<()> {
        let (aside, slot) = self.temporary_name(dst.ip.ino)?;
        self.step_aside(dst, &aside, slot)?;
        let done = self.swap(dst, &aside).inspect_err(|_| self.step_back(dst, &aside));
        done?;
        self.finish_exchange(dst)
    }

    /// The directory that `file`, in `parent` until now, leaves: none unless it is a directory that
    /// gets another parent.
    fn left_by(&self, file: &Moved<'_>, parent: Ino) -> Option<Ino> {
        self.arrives(file).then_some(parent)
    }

    /// A name that is free in the directory of the first file, and room for it.
    fn temporary_name(&mut self, of: Ino) -> Result<(Vec<u8>, Slot)> {
        for n in 0..CANDIDATES {
            let name = match n {
                0 => format!(".ffs-exchange.{}", of.0),
                n => format!(".ffs-exchange.{}.{n}", of.0),
            };
            let name = name.into_bytes();
            if let Room::Free(slot) = dir::find_room(&mut self.source(), &name)? {
                self.inner.table.unname(self.req.from.dir, &name);
                return Ok((name, slot));
            }
        }
        Err(Error::Exists)
    }

    /// Gives the second file the temporary name.
    fn step_aside(&mut self, dst: &mut Moved<'a>, name: &[u8], slot: Slot) -> Result<()> {
        let (inner, reserve, p1) = (self.inner, reserve_of(self.req.cred), self.req.from.dir.ino);
        let comes = self.left_by(dst, p1);
        let _held = comes.map(|_| NameHeld::new(inner, dst.ip));
        inner.add_link(dst.ip, &mut dst.data)?;
        let counted = self.count_comer(comes, true);
        let named = counted.and_then(|()| {
            let (target, others) = (dst.named(), dst.other_names());
            let entry = NewEntry { slot, name, target, kind: KIND, others };
            let entered = inner.enter_name(&mut self.source(), &entry, reserve);
            entered.inspect_err(|_| self.uncount_comer(comes, true))
        });
        named.inspect_err(|_| inner.take_link_back(dst.ip, &mut dst.data))?;
        if comes.is_none() {
            return Ok(());
        }
        redirect_dotdot(inner, dst, p1).inspect_err(|_| self.withdraw_aside(dst, name))
    }

    /// Undoes [`Renaming::step_aside`].
    fn step_back(&mut self, dst: &mut Moved<'a>, name: &[u8]) {
        if self.left_by(dst, self.req.from.dir.ino).is_some() {
            drop(redirect_dotdot(self.inner, dst, self.req.to.dir.ino));
        }
        self.withdraw_aside(dst, name);
    }

    fn withdraw_aside(&mut self, dst: &mut Moved<'a>, name: &[u8]) {
        let came = self.left_by(dst, self.req.from.dir.ino);
        drop(dir::withdraw(&mut self.source(), name, dst.taken_back_from(came)));
        self.uncount_comer(came, true);
        self.inner.take_link_back(dst.ip, &mut dst.data);
    }

    /// With the second file aside: gives the first file its new name, then the second, and removes the
    /// temporary one.
    fn swap(&mut self, dst: &mut Moved<'a>, aside: &[u8]) -> Result<()> {
        // Entering the temporary name may have moved either.
        let (n1, n2) = (self.req.from.name, self.req.to.name);
        let e2 = dir::find(self.target().shared(), n2)?.ok_or(Error::NotFound)?;
        let e1 = dir::find(self.source().shared(), n1)?.ok_or(Error::NotFound)?;
        self.name_first(dst, &e2)?;
        let rest = self.name_second(dst, &e1, aside);
        rest.inspect_err(|_| self.unname_first(dst, &e2))
    }

    /// Gives the first file the second name.
    fn name_first(&mut self, dst: &mut Moved<'a>, e2: &Entry) -> Result<()> {
        let (inner, p2) = (self.inner, self.req.to.dir.ino);
        let comes = self.left_by(&self.src, p2);
        let _held = comes.map(|_| NameHeld::new(inner, self.src.ip));
        inner.add_link(self.src.ip, &mut self.src.data)?;
        let counted = self.count_comer(comes, false);
        let named = counted.and_then(|()| {
            let (new, gone) = (self.src.named(), dst.moved_from(self.left_by(dst, p2)));
            let redirected = dir::rewrite(&mut self.target(), e2, new, KIND, gone);
            redirected.inspect_err(|_| self.uncount_comer(comes, false))
        });
        named.inspect_err(|_| inner.take_link_back(self.src.ip, &mut self.src.data))?;
        if comes.is_none() {
            return Ok(());
        }
        let done = redirect_dotdot(inner, &mut self.src, p2);
        done.inspect_err(|_| self.rename_first_back(dst, e2))
    }

    /// Undoes [`Renaming::name_first`].
    fn unname_first(&mut self, dst: &mut Moved<'a>, e2: &Entry) {
        if self.left_by(&self.src, self.req.to.dir.ino).is_some() {
            drop(redirect_dotdot(self.inner, &mut self.src, self.req.from.dir.ino));
        }
        self.rename_first_back(dst, e2);
    }

    fn rename_first_back(&mut self, dst: &mut Moved<'a>, e2: &Entry) {
        let (inner, p2) = (self.inner, self.req.to.dir.ino);
        let came = self.left_by(&self.src, p2);
        let (new, gone) = (self.src.named(), self.src.taken_back_from(came));
        relink(inner, dst.ip, &mut dst.data);
        if self.left_by(dst, p2).is_some() {
            let d2 = self.target();
            relink(inner, d2.ip, d2.data);
        }
        drop(dir::rewrite_back(&mut self.target(), e2, new, KIND, gone));
        self.uncount_comer(came, false);
        inner.take_link_back(self.src.ip, &mut self.src.data);
    }

    /// Gives the second file the first name instead of the temporary one.
    fn name_second(&mut self, dst: &mut Moved<'a>, e1: &Entry, aside: &[u8]) -> Result<()> {
        let inner = self.inner;
        let (new, p1) = (dst.named(), self.req.from.dir.ino);
        inner.table.update(dst.ip, &mut dst.data, InodeChange::NlinkInc)?;
        let gone = self.src.moved_from(self.left_by(&self.src, p1));
        dir::rewrite(&mut self.source(), e1, new, KIND, gone)?;
        let removed = match dir::find(self.source().shared(), aside) {
            Ok(Some(e)) => dir::remove(&mut self.source(), &e, dst.moved_from(None)),
            Ok(None) => Err(Error::NotFound),
            Err(e) => Err(e),
        };
        removed.inspect_err(|_| {
            relink(inner, self.src.ip, &mut self.src.data);
            if self.left_by(&self.src, p1).is_some() {
                let d1 = self.source();
                relink(inner, d1.ip, d1.data);
            }
            let gone = dst.taken_back_from(None);
            drop(dir::rewrite_back(&mut self.source(), e1, new, KIND, gone));
        })
    }

    /// The names are right; the counts follow.
    fn finish_exchange(&mut self, dst: &mut Moved<'a>) -> Result<()> {
        let inner = self.inner;
        let mut noted = inner.directory_changed(&mut self.source(), false);
        if !self.same_dir() {
            noted = noted.and(inner.directory_changed(&mut self.target(), false));
        }
        self.swap_depths(dst);
        noted = noted.and(inner.drop_link(self.src.ip, &mut self.src.data));
        noted = noted.and(inner.drop_link(dst.ip, &mut dst.data));
        let [left1, left2] =
            [self.src.is_dir(), dst.is_dir()].map(|is_dir| is_dir && !self.same_dir());
        if left1 {
            let d1 = self.source();
            noted = noted.and(inner.drop_link(d1.ip, d1.data));
        }
        if left2 {
            let d2 = self.target();
            noted = noted.and(inner.drop_link(d2.ip, d2.data));
        }
        noted
    }

    /// The first directory (or the second) counts a subdirectory that comes to it.
    fn count_comer(&mut self, comes: Option<Ino>, first: bool) -> Result<()> {
        let inner = self.inner;
        let d = if first { self.source() } else { self.target() };
        if comes.is_some() { inner.add_link(d.ip, d.data) } else { Ok(()) }
    }

    fn uncount_comer(&mut self, came: Option<Ino>, first: bool) {
        let inner = self.inner;
        let d = if first { self.source() } else { self.target() };
        if came.is_some() {
            inner.take_link_back(d.ip, d.data);
        }
    }

    /// Keeps the recorded depths of two directories that changed places right.
    fn swap_depths(&mut self, dst: &mut Moved<'a>) {
        if !self.same_dir() && dst.is_dir() && dst.data.d.freelink != 0 {
            let up = self.source();
            dst.data.d.freelink = depth_below(up.ip.ino, up.data);
        }
        self.follow_depth(!self.same_dir() && self.src.is_dir());
    }
}
