//! Entering, removing and redirecting names.
//!
//! Each function reports its change to the ordering mode while it holds the buffer, so that no
//! write image of the block can be made between the change and the report.
//!
//! Reference: `spec/directories-and-caches.md` §1.4, §2.3, §2.4; `spec/soft-updates.md` §6.10.

use super::chunks::{CHUNK, chunk_of};
use super::reclaim::reclaim;
use super::reserved::ReservedInChunk;
use super::slot::{Region, Slot, SlotKind, SlotSearch};
use super::{DirMut, Entry, InChunk, hashed, reserved, search, trim};
use crate::alloc::Reserve;
use crate::buf::Disposition;
use crate::counters::bump;
use crate::error::{Error, Result};
use crate::inode::{BufFill, Moved};
use crate::ordering::{DirPos, EntryKind, EntryTarget, Event, Ordering, RemovedName, Response};
use ffs_ondisk::dinode::MAXDIRSIZE;
use ffs_ondisk::dir::{self, BadRecord, DirFormat, HEADER, Record, dirsiz};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{DirOff, Ino};
use smallvec::SmallVec;

/// Finds the entry of `name`, or the slot for a new one.
///
/// # Errors
/// As [`super::lookup`].
pub(crate) fn find_slot(d: &mut DirMut<'_>, name: &[u8]) -> Result<SlotSearch> {
    reclaim(d);
    search::find_slot(d.view(), name)
}

/// Enters a name in the slot that [`find_slot`] found while the directory was locked. Returns
/// whether the directory grew (its inode is then updated with
/// [`crate::ordering::InodeChange::DirectoryGrow`]).
///
/// # Errors
/// [`Error::NoSpace`] and the device's; the directory is then unchanged.
pub(crate) fn enter(
    d: &mut DirMut<'_>,
    slot: &Slot,
    new: &NewName<'_>,
    reserve: Reserve,
) -> Result<bool> {
    match slot.kind {
        SlotKind::Append(at) => append(d, at, new, reserve).map(|()| true),
        SlotKind::Slack(r) | SlotKind::Compact(r) => insert(d, r, new).map(|()| false),
        SlotKind::Whiteout(at) => replace_whiteout(d, at, new).map(|()| false),
        SlotKind::Reserved(at) => use_reserved(d, at, new).map(|()| false),
    }
}

/// A name about to be entered.
pub(crate) struct NewName<'a> {
    pub(crate) name: &'a [u8],
    /// The inode and type of the entry.
    pub(crate) target: EntryTarget,
    pub(crate) kind: EntryKind,
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

/// Grows the directory by one chunk with only the new name.
fn append(d: &mut DirMut<'_>, at: u32, new: &NewName<'_>, reserve: Reserve) -> Result<()> {
    if u64::from(at) + u64::from(CHUNK) > MAXDIRSIZE {
        return Err(Error::NoSpace);
    }
    let (fmt, (lbn, in_block)) = (d.fmt(), d.place_of(at));
    let granted = d.balloc(lbn, in_block + CHUNK, BufFill::Valid, reserve)?;
    let start = in_block as usize;
    let named = {
        let mut block = granted.buf.write();
        let bytes = &mut block.bytes;
        // The block may have any bytes behind the old end; the new fragments were all allocated
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
        // Back to the old size. If that fails too, an unused chunk with a free record remains.
        if let Some(chunk) = granted.buf.write().bytes.get_mut(start..start + DIRBLKSIZ) {
            dir::clear_chunk(fmt, chunk);
        }
        cache.mark_dirty(&granted.buf);
        drop(d.truncate(at.into(), reserve));
        d.ip.dir.drop_index();
    })
}

/// The disposition that satisfies both `a` and `b`.
fn stricter(a: Disposition, b: Disposition) -> Disposition {
    match (a, b) {
        (Disposition::Delay, Disposition::Delay) => Disposition::Delay,
        _ => Disposition::WriteAndWait,
    }
}

/// Compacts the records of `region` and puts the new name behind them.
fn insert(d: &mut DirMut<'_>, region: Region, new: &NewName<'_>) -> Result<()> {
    let (fmt, dir, ump) = (d.fmt(), d.ip.ino, d.ump);
    let ordering = &ump.ordering;
    let base = chunk_of(region.at);
    let pos = |off: u16| DirPos { dir, off: DirOff(base + u32::from(off)) };
    let (start, end) = ((region.at - base) as usize, (region.at - base + region.len) as usize);
    let hasher = hashed::hasher(d);
    let (mut moves, mut hashes, mut entered) = (Vec::new(), SmallVec::<[u32; 32]>::new(), 0);
    let mut reserved = ReservedInChunk::default();
    d.change_chunk(region.at, |chunk| {
        let at = pack(fmt, chunk, start..end, &mut moves)?;
        if end.saturating_sub(at) < dirsiz(new.name.len()) {
            let (found, expected) = (end.saturating_sub(at) as u32, "space for the new name");
            return Err(BadRecord { off: at, field: "slack", found, expected });
        }
        new.write(fmt, chunk, at, end - at);
        for m in moves.iter().filter(|m| m.from != m.to) {
            let ino = Ino(dir::header(fmt, chunk, m.to.into())?.ino);
            ordering.notify(Event::EntryMoved { ino, from: pos(m.from), to: pos(m.to) });
            hashes.extend(hasher.map(|h| h.hash(name_at(fmt, chunk, m.to.into()))));
        }
        entered = at as u32;
        let added = new.notify(&**ordering, pos(at as u16));
        reserved = ReservedInChunk(added.reserved);
        Ok(added.disposition)
    })?;
    hashed::update(d, region.at, |index| {
        let moved = moves.iter().filter(|m| m.from != m.to);
        for (m, hash) in moved.zip(&hashes) {
            index.move_entry(*hash, pos(m.from).off, pos(m.to).off)?;
        }
        let (hash, off) = (index.hasher().hash(new.name), DirOff(base + entered));
        if reserved.any() {
            index.add_entry(hash, off)
        } else {
            index.add(hash, new.name.len(), off)
        }
    });
    if moves.iter().any(|m| m.from != m.to) {
        bump(&ump.cache.counters.dir_chunks_compacted);
        d.ip.dir.log_moves(base, start as u16..end as u16, moves);
    }
    Ok(())
}

/// The name in the record at `off`, which was checked.
fn name_at(fmt: DirFormat, chunk: &[u8], off: usize) -> &[u8] {
    let namlen = dir::header(fmt, chunk, off).map_or(0, |h| h.namlen);
    chunk.get(off + HEADER..off + HEADER + namlen).unwrap_or(&[])
}

/// Moves the live records of `region` together and fills the rest with zeros. Returns the offset of
/// the rest.
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

/// Turns a whiteout of the same name into an entry.
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
fn use_reserved(d: &mut DirMut<'_>, at: u32, new: &NewName<'_>) -> Result<()> {
    let (fmt, ump) = (d.fmt(), d.ump);
    let pos = DirPos { dir: d.ip.ino, off: DirOff(at) };
    let (off, mut free) = ((at - chunk_of(at)) as usize, 0);
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
        free = ReservedInChunk(added.reserved).free_space(fmt, chunk);
        Ok(added.disposition)
    })?;
    hashed::update(d, at, |index| {
        index.add_entry(index.hasher().hash(new.name), DirOff(at))?;
        index.set_free(DirOff(at), free)
    });
    Ok(())
}

/// Removes an entry that a search found while the directory was locked. Its record is merged into
/// the one before it, becomes a free record if it is the first of its chunk, or is reserved.
///
/// # Errors
/// The device's; the entry is then still there.
pub(crate) fn remove(d: &mut DirMut<'_>, e: &Entry, removed: RemovedName) -> Result<()> {
    reclaim(d);
    remove_record(d, e, removed, |then| then)?;
    trim::after_removal(d);
    Ok(())
}

/// Removes a name whose operation failed after it was entered. Like [`remove`], but without waiting
/// for the device, which may be the cause of the failure.
///
/// # Errors
/// Those of a malformed chunk.
pub(crate) fn withdraw(d: &mut DirMut<'_>, name: &[u8], removed: RemovedName) -> Result<()> {
    match super::find(d.view(), name)? {
        Some(e) => remove_record(d, &e, removed, |_| Disposition::Delay),
        None => Ok(()),
    }
}

fn remove_record(
    d: &mut DirMut<'_>,
    e: &Entry,
    removed: RemovedName,
    when: impl FnOnce(Disposition) -> Disposition,
) -> Result<()> {
    let (fmt, ump) = (d.fmt(), d.ump);
    let pos = DirPos { dir: d.ip.ino, off: e.off };
    let base = chunk_of(e.off.0);
    let off = (e.off.0 - base) as usize;
    let (hasher, mut hashed, mut reserved) = (hashed::hasher(d), None, ReservedInChunk::default());
    d.change_chunk(e.off.0, |chunk| {
        let h = dir::header(fmt, chunk, off)?;
        hashed = hasher.map(|hasher| (hasher.hash(name_at(fmt, chunk, off)), h.namlen));
        reserved::check_start(fmt, chunk, off)?;
        let name = name_at(fmt, chunk, off);
        let removal =
            ump.ordering.notify(Event::EntryRemoved { at: pos, old: e.target(), name, removed });
        reserved = ReservedInChunk(removal.reserved);
        if removal.reserve {
            dir::set_ino(fmt, chunk, off, 0);
        } else {
            reserved.release(fmt, chunk, off)?;
        }
        Ok(when(removal.disposition))
    })?;
    if let Some((hash, namlen)) = hashed {
        hashed::update(d, base, |index| {
            if reserved.any() {
                index.remove_entry(hash, e.off).and_then(|()| index.set_free(e.off, 0))
            } else {
                index.remove(hash, namlen, e.off)
            }
        });
    }
    Ok(())
}

/// Changes the inode that an entry names.
///
/// # Errors
/// The device's; the entry is then unchanged.
pub(crate) fn rewrite(
    d: &mut DirMut<'_>,
    e: &Entry,
    new: EntryTarget,
    kind: EntryKind,
    removed: RemovedName,
) -> Result<()> {
    redirect(d, e, (new, kind, removed), |then| then)
}

/// Reverses a [`rewrite`] whose operation failed later, without waiting for the device.
///
/// # Errors
/// Those of a malformed chunk.
pub(crate) fn rewrite_back(
    d: &mut DirMut<'_>,
    e: &Entry,
    new: EntryTarget,
    kind: EntryKind,
    removed: RemovedName,
) -> Result<()> {
    let now = Entry { ino: new.ino, dtype: new.dtype, ..*e };
    redirect(d, &now, (e.target(), kind, removed), |_| Disposition::Delay)
}

fn redirect(
    d: &mut DirMut<'_>,
    e: &Entry,
    (new, kind, removed): (EntryTarget, EntryKind, RemovedName),
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
                .notify(Event::EntryReplaced { at: pos, old: e.target(), new, kind, removed })
                .disposition,
        ))
    })
}
