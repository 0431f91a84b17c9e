//! Records that are neither in use nor free: their name was removed, but a write image of the block
//! may still have to show it ([`crate::ordering::Response::reserve`]).
//!
//! # Invariants
//! 1. A reserved record keeps its offset, length and name. Nothing is packed over it or merged into
//!    it, and it is not truncated. Only the same name may be entered in it.
//! 2. The set of reserved records changes only under the exclusive lock of the directory: by a
//!    removal, by an entry, and by [`reclaim`]. So the free space in an index stays right between
//!    such changes.
//! 3. An index records no free space for a chunk with a reserved record. A search of the space
//!    between reserved records is not worth its cost, since they are freed within half a minute.
//!    The linear code, which examines every record in any case, uses such space.
//!
//! Reference: `spec/soft-updates.md` §6.3a, §6.3b.

use super::{Dir, InChunk};
use crate::ordering::{Ordering, ReservedMask};
use crate::ufsmount::UfsMount;
use ffs_ondisk::dir::{self, BadRecord, DirFormat, HEADER, Header};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{DirOff, Ino};

/// The reserved records of a directory.
#[derive(Clone, Copy)]
pub(super) struct Reserved<'a> {
    /// `None` if no record is reserved.
    ordering: Option<&'a dyn Ordering>,
    dir: Ino,
}

impl Reserved<'_> {
    /// The reserved records of the chunk at `base`.
    #[inline]
    pub(super) fn in_chunk(&self, base: u32) -> ReservedInChunk {
        let mask = self.ordering.map(|ordering| ordering.reserved_in(self.dir, DirOff(base)));
        ReservedInChunk(mask.unwrap_or(0))
    }
}

/// The reserved records of one chunk.
#[derive(Clone, Copy, Default)]
pub(super) struct ReservedInChunk(pub(super) ReservedMask);

impl ReservedInChunk {
    pub(super) fn any(self) -> bool {
        self.0 != 0
    }

    /// Whether the record `h` at byte `off` of the chunk is reserved.
    #[inline]
    pub(super) fn is(self, h: &Header, off: usize) -> bool {
        !h.live() && self.0 & 1 << (off % DIRBLKSIZ / 4) != 0
    }

    /// Free space of the chunk for new entries, up to the first malformed record, bytes.
    pub(super) fn free_space(self, fmt: DirFormat, chunk: &[u8]) -> usize {
        let (mut off, mut free) = (0, 0);
        while !self.any() && off < chunk.len() {
            let Ok(h) = dir::header(fmt, chunk, off) else { break };
            free += h.slack();
            off += h.reclen;
        }
        free
    }

    /// Frees the record that starts at `off` of the chunk: it becomes slack of the record before
    /// it, or else a free record. Free records after it are merged into it.
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

/// The reserved records of `dir`.
#[inline]
pub(super) fn reserved_of(ump: &UfsMount, dir: Ino) -> Reserved<'_> {
    let ordering = &*ump.ordering;
    Reserved { ordering: ordering.has_reserved(dir).then_some(ordering), dir }
}

/// Checks that a record starts at `off`.
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
    /// The reserved records of the directory.
    #[inline]
    pub(super) fn reserved(&self) -> Reserved<'a> {
        reserved_of(self.ump, self.ip.ino)
    }

    /// The reserved record that `name` must be entered in, if there is one. `name` does not exist.
    pub(super) fn reserved_for(&self, name: &[u8]) -> Option<u32> {
        let (ordering, dir) = (&self.ump.ordering, self.ip.ino);
        let off = ordering.reserved_for(dir, name)?.0;
        (off < self.size() && self.has_name(off, name)).then_some(off)
    }

    /// Whether the record at `off`, which is not in use, has this name, followed by a zero.
    fn has_name(&self, off: u32, name: &[u8]) -> bool {
        let Ok(buf) = self.block(off) else { return false };
        let (block, at) = (buf.read(), (off % self.g().bsize) as usize + HEADER);
        let found = block.bytes.get(at..at + name.len() + 1);
        found.and_then(|f| f.split_last()) == Some((&0, name))
    }
}
