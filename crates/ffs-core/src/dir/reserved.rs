//! Records that are neither a name nor free: their name was removed, but an image of the block may
//! have to show it once more ([`crate::ordering::Response::reserve`]).
//!
//! # Invariants
//! 1. A reserved record keeps its place, length and name. Nothing is packed over it, merged into
//!    it, or cut off with it; only the same name may be entered in it.
//! 2. Which records are reserved changes under the directory's lock for changes only: by a removal,
//!    by an entry, and by [`reclaim`]. So the room noted in an index stays true in between.
//! 3. A chunk with a reserved record has no room, as an index notes it: it is not worth the search
//!    between them, and in half a minute they are free. The linear code, which sees every record
//!    anyway, uses what is there.
//!
//! Reference: `spec/soft-updates.md` §6.3a, §6.3b.

use super::chunks::chunk_of;
use super::{Dir, DirMut, InChunk, hashed};
use crate::buf::Disposition;
use crate::ordering::{Ordering, ReservedMask};
use crate::ufsmount::UfsMount;
use ffs_ondisk::dir::{self, BadRecord, DirFormat, HEADER, Header};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{DirOff, Ino};

/// Tells which records of a directory are reserved.
#[derive(Clone, Copy)]
pub(super) struct Reserved<'a> {
    /// `None`: none is.
    asked: Option<&'a dyn Ordering>,
    dir: Ino,
}

impl Reserved<'_> {
    /// Those of the chunk at `base`, as they are now.
    #[inline]
    pub(super) fn in_chunk(&self, base: u32) -> InOneChunk {
        let mask = self.asked.map(|ordering| ordering.reserved_in(self.dir, DirOff(base)));
        InOneChunk(mask.unwrap_or(0))
    }
}

/// The reserved records of a chunk.
#[derive(Clone, Copy, Default)]
pub(super) struct InOneChunk(pub(super) ReservedMask);

impl InOneChunk {
    pub(super) fn any(self) -> bool {
        self.0 != 0
    }

    /// Whether the record `h` at byte `off` of the chunk is.
    #[inline]
    pub(super) fn is(self, h: &Header, off: usize) -> bool {
        !h.live() && self.0 & 1 << (off % DIRBLKSIZ / 4) != 0
    }

    /// Bytes that new entries can get in the chunk, as far as it is sound.
    pub(super) fn room(self, fmt: DirFormat, chunk: &[u8]) -> usize {
        let (mut off, mut room) = (0, 0);
        while !self.any() && off < chunk.len() {
            let Ok(h) = dir::header(fmt, chunk, off) else { break };
            room += h.slack();
            off += h.reclen;
        }
        room
    }

    /// Makes the record that starts at `off` of the chunk free space: of the record before it, or
    /// else of its own. Free records behind it become part of it.
    pub(super) fn release(self, fmt: DirFormat, chunk: &mut [u8], off: usize) -> InChunk<()> {
        let (mut at, mut before) = (0, None);
        while at < off {
            let h = dir::header(fmt, chunk, at)?;
            before = (!self.is(&h, at)).then_some(at);
            at += h.reclen;
        }
        let mut end = off + dir::header(fmt, chunk, off)?.reclen;
        while let Ok(h) = dir::header(fmt, chunk, end)
            && !h.live()
            && !self.is(&h, end)
        {
            end += h.reclen;
        }
        chunk.get_mut(off..end).unwrap_or(&mut []).fill(0);
        let owner = before.unwrap_or(off);
        dir::set_reclen(fmt, chunk, owner, end - owner);
        Ok(())
    }
}

/// Which records of `dir` are reserved.
#[inline]
pub(super) fn of(ump: &UfsMount, dir: Ino) -> Reserved<'_> {
    let ordering = &*ump.ordering;
    Reserved { asked: ordering.has_reserved(dir).then_some(ordering), dir }
}

/// Whether a record starts at `off`.
pub(super) fn check_start(fmt: DirFormat, chunk: &[u8], off: usize) -> InChunk<()> {
    let mut at = 0;
    while at < off {
        at += dir::header(fmt, chunk, at)?.reclen;
    }
    if at == off {
        return Ok(());
    }
    let (found, expected) = (at as u32, "a record at the offset found");
    Err(BadRecord { off, field: "record length", found, expected })
}

impl<'a> Dir<'a> {
    /// Which records are reserved.
    #[inline]
    pub(super) fn reserved(&self) -> Reserved<'a> {
        of(self.ump, self.ip.ino)
    }

    /// The reserved record that `name`, which does not exist, must be entered in.
    pub(super) fn reserved_for(&self, name: &[u8]) -> Option<u32> {
        let (ordering, dir) = (&self.ump.ordering, self.ip.ino);
        let off = ordering.reserved_for(dir, name)?.0;
        (off < self.size() && self.is_called(off, name)).then_some(off)
    }

    /// Whether the record at `off`, which stands for nothing, has this name. A zero follows it.
    fn is_called(&self, off: u32, name: &[u8]) -> bool {
        let Ok(buf) = self.block(off) else { return false };
        let (block, at) = (buf.read(), (off % self.g().bsize) as usize + HEADER);
        let found = block.bytes.get(at..at + name.len() + 1);
        found.and_then(|f| f.split_last()) == Some((&0, name))
    }
}

/// Turns records that are reserved no more into free space.
pub(super) fn reclaim(d: &mut DirMut<'_>) {
    let (ump, dir) = (d.ump, d.ip.ino);
    let (freed, size) = (ump.ordering.take_freed_entries(dir), d.view().size());
    for off in freed.iter().map(|off| off.0).filter(|&off| off < size) {
        let (base, fmt) = (chunk_of(off), d.fmt());
        let mut room = None;
        let (reserved, at) = (of(ump, dir), (off - base) as usize);
        let done = d.change_chunk(off, |chunk| {
            // It may have become part of another one just freed, or have been used again meanwhile.
            let h = check_start(fmt, chunk, at).and_then(|()| dir::header(fmt, chunk, at));
            let reserved = reserved.in_chunk(base);
            if h.is_ok_and(|h| !h.live() && !reserved.is(&h, at)) {
                reserved.release(fmt, chunk, at)?;
            }
            room = Some(reserved.room(fmt, chunk));
            Ok(Disposition::Delay)
        });
        match (done, room) {
            (Ok(()), Some(room)) => hashed::follow(d, base, |i| i.set_room(DirOff(base), room)),
            // A free record all the same, but its room is not noted.
            _ => d.ip.dir.drop_index(),
        }
    }
}
