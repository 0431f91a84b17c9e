//! Reading a directory in order, piece by piece, while it changes.
//!
//! A position ("cookie") is the byte offset where the next record started, and the number of
//! compactions of the directory at that time. Removing a name, or entering one in free space, does
//! not move other records. A compaction moves them; the directory remembers its last compactions,
//! to translate older positions. A chunk is always read from its start, and records before the
//! position are skipped, so a position need not be the start of a record any more.
//!
//! # Invariants
//! 1. An entry that exists throughout a listing is listed exactly once, if at most
//!    [`crate::inode::DirState::MOVES_KEPT`] compactions happen between two calls and the directory
//!    stays in memory (a process has it open).
//! 2. No callback runs under a lock: a chunk is copied first.

use super::Dir;
use super::chunks::{CHUNK, chunk_of, hole, malformed};
use crate::error::Result;
use crate::types::DirEntry;
use ffs_ondisk::dir::{self, DirFormat};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{DirOff, FileType, Geometry, Ino, Place, Structure};
use std::ops::ControlFlow;

/// A copy of a chunk, to be listed from some record on.
pub(crate) struct ChunkCopy {
    dir: Ino,
    fmt: DirFormat,
    bytes: [u8; DIRBLKSIZ],
    base: u32,
    from: u32,
    compactions: u32,
}

/// The cookie for offset `off` after `compactions` compactions.
fn cookie(compactions: u32, off: u32) -> u64 {
    u64::from(compactions) << 32 | u64::from(off)
}

/// Copies the next chunk with records at or behind position `at`; `None` at the end. Malformed
/// chunks and holes are skipped, and their first error is put in `bad`.
///
/// # Errors
/// The device's.
pub(crate) fn read_chunk(
    d: Dir<'_>,
    at: u64,
    bad: &mut Option<crate::Error>,
) -> Result<Option<ChunkCopy>> {
    let compactions = d.ip.dir.compactions();
    let (then, off) = ((at >> 32) as u32, at as u32);
    let from = d.ip.dir.translate(then, off);
    let (base, size) = (chunk_of(from), d.size());
    if base >= size {
        return Ok(None);
    }
    let found = d.walk(base..size, |at, chunk| {
        let mut bytes = [0; DIRBLKSIZ];
        bytes.copy_from_slice(chunk);
        Ok(ControlFlow::Break((at, bytes)))
    });
    match found {
        Ok(None) => Ok(None),
        Ok(Some((found, bytes))) => {
            if found != base {
                bad.get_or_insert_with(|| d.damaged(hole(d.ip.ino, base)));
            }
            let from = if found == base { from - base } else { 0 };
            let base = found;
            Ok(Some(ChunkCopy { dir: d.ip.ino, fmt: d.fmt(), bytes, base, from, compactions }))
        }
        Err(e @ crate::Error::Format(_)) => {
            bad.get_or_insert(e);
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

impl ChunkCopy {
    /// The position behind the chunk.
    pub(crate) fn end(&self) -> u64 {
        cookie(self.compactions, self.base.saturating_add(CHUNK))
    }

    /// Calls `each` with the entries until it returns false; returns whether it reached the end.
    /// The error of a malformed record is put in `bad`.
    pub(crate) fn show(
        &self,
        g: &Geometry,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
        bad: &mut Option<crate::Error>,
    ) -> bool {
        for r in dir::records(self.fmt, &self.bytes) {
            let r = match r {
                Ok(r) => r,
                Err(e) => {
                    bad.get_or_insert_with(|| malformed(self.dir, self.base, e));
                    return true;
                }
            };
            if !r.live() || r.ino == Ino::WHITEOUT.0 || (r.off as u32) < self.from {
                continue;
            }
            let at = self.base + r.off as u32;
            let place = Place::Dir(self.dir, DirOff(at));
            let ino = match g.check_ino(r.ino, Structure::Directory, place) {
                Ok(ino) => ino,
                Err(e) => {
                    bad.get_or_insert(e.into());
                    continue;
                }
            };
            let next = cookie(self.compactions, at + r.reclen as u32);
            let kind = FileType::of_dirent(r.dtype);
            if !each(DirEntry { ino, kind, name: r.name, next }) {
                return false;
            }
        }
        true
    }
}
