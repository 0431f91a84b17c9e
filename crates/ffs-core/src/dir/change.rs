//! Entering, removing and redirecting names.
//!
//! Each function reports its change to the ordering policy while it holds the buffer, so that no
//! image of the block can be made between the change and the report.
//!
//! Reference: `spec/directories-and-caches.md` §1.4, §2.3, §2.4; `spec/soft-updates.md` §6.10.

use super::chunks::{CHUNK, chunk_of};
use super::reserved::InOneChunk;
use super::search::{self, Region, Room, Slot, Where};
use super::{DirMut, Entry, InChunk, hashed, reserved, trim};
use crate::alloc::Reserve;
use crate::buf::Disposition;
use crate::counters::bump;
use crate::error::{Error, Result};
use crate::inode::Moved;
use crate::ordering::{DirPos, EntryKind, EntryTarget, Event, Ordering, RemovedName, Response};
use ffs_ondisk::DirOff;
use ffs_ondisk::dinode::MAXDIRSIZE;
use ffs_ondisk::dir::{self, BadRecord, DirFormat, HEADER, Record, dirsiz};
use ffs_ondisk::geometry::DIRBLKSIZ;
use smallvec::SmallVec;

/// Whether `name` exists, and where it would go if not.
///
/// # Errors
/// As [`super::lookup`].
pub(crate) fn find_room(d: &mut DirMut<'_>, name: &[u8]) -> Result<Room> {
    reserved::reclaim(d);
    search::find_room(d.view(), name)
}

/// Enters `name` in the slot that a search in the same lock session found; answers whether the
/// directory grew (its inode's update then is [`crate::ordering::InodeChange::DirectoryGrow`]).
///
/// # Errors
/// [`Error::NoSpace`] and the device's; the directory is then as it was.
pub(crate) fn enter(
    d: &mut DirMut<'_>,
    slot: &Slot,
    name: &[u8],
    target: EntryTarget,
    kind: EntryKind,
    reserve: Reserve,
) -> Result<bool> {
    let new = NewName { name, target, kind };
    match slot.place {
        Where::Append(at) => append(d, at, &new, reserve).map(|()| true),
        Where::Slack(r) | Where::Compact(r) => insert(d, r, &new).map(|()| false),
        Where::Whiteout(at) => replace_whiteout(d, at, &new).map(|()| false),
        Where::Reserved(at) => take_reserved(d, at, &new).map(|()| false),
    }
}

/// A name about to be entered.
struct NewName<'a> {
    name: &'a [u8],
    target: EntryTarget,
    kind: EntryKind,
}

impl NewName<'_> {
    fn write(&self, fmt: DirFormat, chunk: &mut [u8], off: usize, reclen: usize) {
        let EntryTarget { ino, dtype } = self.target;
        dir::write(fmt, chunk, &Record { off, ino: ino.0, reclen, dtype, name: self.name });
    }

    /// Reports that the name is now in the record at `at`.
    fn notify(&self, ordering: &dyn Ordering, at: DirPos) -> Response {
        let NewName { name, target, kind } = *self;
        ordering.notify(Event::EntryAdded { at, target, kind, name })
    }

    /// Reports that the name is now in the record at byte `off`.
    fn report(&self, d: &DirMut<'_>, off: u32) -> Disposition {
        let at = DirPos { dir: d.ip.ino, off: DirOff(off) };
        self.notify(&*d.ump.ordering, at).disposition
    }
}

/// Grows the directory by one chunk that holds only the new name.
fn append(d: &mut DirMut<'_>, at: u32, new: &NewName<'_>, reserve: Reserve) -> Result<()> {
    if u64::from(at) + u64::from(CHUNK) > MAXDIRSIZE {
        return Err(Error::NoSpace);
    }
    let (fmt, (lbn, in_block)) = (d.fmt(), d.place_of(at));
    let granted = d.balloc(lbn, in_block + CHUNK, true, reserve)?;
    let start = in_block as usize;
    let named = {
        let mut block = granted.buf.write();
        let bytes = &mut block.bytes;
        // What the block has behind the old end may be anything; a longer run was all allocated
        // now.
        for chunk in bytes.get_mut(start..).unwrap_or(&mut []).chunks_exact_mut(DIRBLKSIZ) {
            dir::clear_chunk(fmt, chunk);
        }
        new.write(fmt, bytes.get_mut(start..).unwrap_or(&mut []), 0, DIRBLKSIZ);
        let (old, now) = (u64::from(at), u64::from(at) + u64::from(CHUNK));
        d.ump.ordering.notify(Event::DirectoryGrew { dir: d.ip.ino, lbn, old, new: now });
        new.report(d, at)
    };
    let cache = &d.ump.cache;
    let written = cache.apply(&granted.buf, stricter(granted.then, named));
    if written.is_ok() {
        hashed::appended(d, at, new.name);
    }
    written.inspect_err(|_| {
        // Back to the old size; should that fail too, an unused chunk with a free record remains.
        if let Some(chunk) = granted.buf.write().bytes.get_mut(start..start + DIRBLKSIZ) {
            dir::clear_chunk(fmt, chunk);
        }
        cache.mark_dirty(&granted.buf);
        drop(d.truncate(at.into(), reserve));
        d.ip.dir.drop_index();
    })
}

/// The one of two answers for the same buffer that satisfies both.
fn stricter(a: Disposition, b: Disposition) -> Disposition {
    match (a, b) {
        (Disposition::Delay, Disposition::Delay) => Disposition::Delay,
        _ => Disposition::WriteAndWait,
    }
}

/// Packs the records of `region` and puts the new name behind them.
fn insert(d: &mut DirMut<'_>, region: Region, new: &NewName<'_>) -> Result<()> {
    let (fmt, dir, ump) = (d.fmt(), d.ip.ino, d.ump);
    let ordering = &ump.ordering;
    let base = chunk_of(region.at);
    let pos = |off: u16| DirPos { dir, off: DirOff(base + u32::from(off)) };
    let (start, end) = ((region.at - base) as usize, (region.at - base + region.len) as usize);
    let hasher = hashed::hasher(d);
    let (mut moves, mut hashes, mut entered) = (Vec::new(), SmallVec::<[u32; 32]>::new(), 0);
    let mut reserved = InOneChunk::default();
    d.change_chunk(region.at, |chunk| {
        let at = pack(fmt, chunk, start..end, &mut moves)?;
        if end.saturating_sub(at) < dirsiz(new.name.len()) {
            let (found, expected) = (end.saturating_sub(at) as u32, "room for the new name");
            return Err(BadRecord { off: at, field: "slack", found, expected });
        }
        new.write(fmt, chunk, at, end - at);
        for m in moves.iter().filter(|m| m.from != m.to) {
            ordering.notify(Event::EntryMoved { from: pos(m.from), to: pos(m.to) });
            hashes.extend(hasher.map(|h| h.hash(name_at(fmt, chunk, m.to.into()))));
        }
        entered = at as u32;
        let added = new.notify(&**ordering, pos(at as u16));
        reserved = InOneChunk(added.reserved);
        Ok(added.disposition)
    })?;
    hashed::follow(d, region.at, |index| {
        let moved = moves.iter().filter(|m| m.from != m.to);
        for (m, hash) in moved.zip(&hashes) {
            index.moved(*hash, pos(m.from).off, pos(m.to).off)?;
        }
        let (hash, off) = (index.hasher().hash(new.name), DirOff(base + entered));
        if reserved.any() {
            index.entered(hash, off)
        } else {
            index.added(hash, new.name.len(), off)
        }
    });
    if moves.iter().any(|m| m.from != m.to) {
        bump(&ump.cache.counters.dir_chunks_compacted);
        d.ip.dir.log_moves(base, start as u16..end as u16, moves);
    }
    Ok(())
}

/// The name in the record at `off`, which was found sound.
fn name_at(fmt: DirFormat, chunk: &[u8], off: usize) -> &[u8] {
    let namlen = dir::header(fmt, chunk, off).map_or(0, |h| h.namlen);
    chunk.get(off + HEADER..off + HEADER + namlen).unwrap_or(&[])
}

/// Slides the live records of `region` together, zeros what is left behind them, and answers where
/// that begins.
fn pack(
    fmt: DirFormat,
    chunk: &mut [u8],
    region: std::ops::Range<usize>,
    moves: &mut Vec<Moved>,
) -> InChunk<usize> {
    let (mut from, mut to) = (region.start, region.start);
    while from < region.end {
        let h = dir::header(fmt, chunk, from)?;
        if h.live() {
            let len = dirsiz(h.namlen);
            chunk.copy_within(from..from + len, to);
            dir::set_reclen(fmt, chunk, to, len);
            moves.push(Moved { from: from as u16, to: to as u16, end: (to + len) as u16 });
            to += len;
        }
        from += h.reclen;
    }
    chunk.get_mut(to..region.end).unwrap_or(&mut []).fill(0);
    Ok(to)
}

/// Turns a whiteout of the same name into the entry.
fn replace_whiteout(d: &mut DirMut<'_>, at: u32, new: &NewName<'_>) -> Result<()> {
    let (fmt, ump) = (d.fmt(), d.ump);
    let pos = DirPos { dir: d.ip.ino, off: DirOff(at) };
    let off = (at - chunk_of(at)) as usize;
    d.change_chunk(at, |chunk| {
        dir::set_ino(fmt, chunk, off, new.target.ino.0);
        dir::set_type(fmt, chunk, off, new.target.dtype);
        Ok(new.notify(&*ump.ordering, pos).disposition)
    })
}

/// Enters the name in the reserved record of the same name.
fn take_reserved(d: &mut DirMut<'_>, at: u32, new: &NewName<'_>) -> Result<()> {
    let (fmt, ump) = (d.fmt(), d.ump);
    let pos = DirPos { dir: d.ip.ino, off: DirOff(at) };
    let (off, mut room) = ((at - chunk_of(at)) as usize, 0);
    d.change_chunk(at, |chunk| {
        reserved::check_start(fmt, chunk, off)?;
        dir::set_ino(fmt, chunk, off, new.target.ino.0);
        dir::set_type(fmt, chunk, off, new.target.dtype);
        let h = dir::header(fmt, chunk, off)?;
        if name_at(fmt, chunk, off) != new.name {
            let (found, expected) = (h.namlen as u32, "that of the name removed here");
            return Err(BadRecord { off, field: "name length", found, expected });
        }
        let added = new.notify(&*ump.ordering, pos);
        room = InOneChunk(added.reserved).room(fmt, chunk);
        Ok(added.disposition)
    })?;
    hashed::follow(d, at, |index| {
        index.entered(index.hasher().hash(new.name), DirOff(at))?;
        index.set_room(DirOff(at), room)
    });
    Ok(())
}

/// Removes an entry that a search in the same lock session found: merged into its predecessor, or a
/// free record if it is the first of its chunk; or else reserved.
///
/// # Errors
/// The device's; the entry is then still there.
pub(crate) fn remove(d: &mut DirMut<'_>, e: &Entry, gone: RemovedName) -> Result<()> {
    reserved::reclaim(d);
    take_out(d, e, gone, |then| then)?;
    trim::after_removal(d);
    Ok(())
}

/// Takes back a name whose operation failed after it was entered: like [`remove`], but without
/// waiting for the device, which may be the one that failed.
///
/// # Errors
/// A malformed chunk's.
pub(crate) fn withdraw(d: &mut DirMut<'_>, name: &[u8], gone: RemovedName) -> Result<()> {
    match super::find(d.view(), name)? {
        Some(e) => take_out(d, &e, gone, |_| Disposition::Delay),
        None => Ok(()),
    }
}

fn take_out(
    d: &mut DirMut<'_>,
    e: &Entry,
    gone: RemovedName,
    when: impl FnOnce(Disposition) -> Disposition,
) -> Result<()> {
    let (fmt, ump) = (d.fmt(), d.ump);
    let pos = DirPos { dir: d.ip.ino, off: e.off };
    let base = chunk_of(e.off.0);
    let off = (e.off.0 - base) as usize;
    let (hasher, mut hashed, mut reserved) = (hashed::hasher(d), None, InOneChunk::default());
    d.change_chunk(e.off.0, |chunk| {
        let h = dir::header(fmt, chunk, off)?;
        hashed = hasher.map(|hasher| (hasher.hash(name_at(fmt, chunk, off)), h.namlen));
        reserved::check_start(fmt, chunk, off)?;
        let name = name_at(fmt, chunk, off);
        let removal = ump.ordering.notify(Event::EntryRemoved {
            at: pos,
            old: e.names(),
            name,
            removed: gone,
        });
        reserved = InOneChunk(removal.reserved);
        if removal.reserve {
            dir::set_ino(fmt, chunk, off, 0);
        } else {
            reserved.release(fmt, chunk, off)?;
        }
        Ok(when(removal.disposition))
    })?;
    if let Some((hash, namlen)) = hashed {
        hashed::follow(d, base, |index| {
            if reserved.any() {
                index.left(hash, e.off).and_then(|()| index.set_room(e.off, 0))
            } else {
                index.removed(hash, namlen, e.off)
            }
        });
    }
    Ok(())
}

/// Makes an entry name another inode.
///
/// # Errors
/// The device's; the entry is then as it was.
pub(crate) fn rewrite(
    d: &mut DirMut<'_>,
    e: &Entry,
    new: EntryTarget,
    kind: EntryKind,
    gone: RemovedName,
) -> Result<()> {
    redirect(d, e, (new, kind, gone), |then| then)
}

/// Takes back a [`rewrite`] whose operation failed later, without waiting for the device.
///
/// # Errors
/// A malformed chunk's.
pub(crate) fn rewrite_back(
    d: &mut DirMut<'_>,
    e: &Entry,
    new: EntryTarget,
    kind: EntryKind,
    gone: RemovedName,
) -> Result<()> {
    let now = Entry { ino: new.ino, dtype: new.dtype, ..*e };
    redirect(d, &now, (e.names(), kind, gone), |_| Disposition::Delay)
}

fn redirect(
    d: &mut DirMut<'_>,
    e: &Entry,
    (new, kind, gone): (EntryTarget, EntryKind, RemovedName),
    when: impl FnOnce(Disposition) -> Disposition,
) -> Result<()> {
    let (fmt, ump) = (d.fmt(), d.ump);
    let pos = DirPos { dir: d.ip.ino, off: e.off };
    let off = (e.off.0 - chunk_of(e.off.0)) as usize;
    d.change_chunk(e.off.0, |chunk| {
        dir::set_ino(fmt, chunk, off, new.ino.0);
        dir::set_type(fmt, chunk, off, new.dtype);
        Ok(when(
            ump.ordering
                .notify(Event::EntryReplaced { at: pos, old: e.names(), new, kind, removed: gone })
                .disposition,
        ))
    })
}
