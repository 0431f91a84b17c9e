//! Walking the chunks of a directory, and changing one of them.

use super::{Dir, DirMut, InChunk};
use crate::buf::{BufRef, Disposition};
use crate::error::{Error, Result};
use ffs_ondisk::dir::BadRecord;
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{DirOff, Ino, Lbn, Place, Structure};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering;

/// Bytes of a chunk, in the type of offsets.
pub(super) const CHUNK: u32 = DIRBLKSIZ as u32;

/// The start of the chunk that contains byte `off`.
pub(super) fn chunk_of(off: u32) -> u32 {
    off & !(CHUNK - 1)
}

/// The error for a malformed record, in the chunk at `at` of directory `dir`.
pub(super) fn malformed(dir: Ino, at: u32, bad: BadRecord) -> Error {
    bad.error(Structure::Directory, Place::Dir(dir, DirOff(at))).into()
}

/// The error for a missing block, at byte `at` of directory `dir`.
pub(super) fn hole(dir: Ino, at: u32) -> Error {
    let place = Place::Dir(dir, DirOff(at));
    Error::corrupt(Structure::Directory, place, "block pointer", "a hole", "a block")
}

impl Dir<'_> {
    /// Records that the directory is damaged, so that the volume is not marked clean, and returns
    /// the error.
    pub(super) fn damaged(&self, e: Error) -> Error {
        self.ump.cache.set_needs_check();
        self.ip.dir.malformed.store(true, Ordering::Relaxed);
        self.ump.cache.record_damage(e)
    }

    /// The buffer of the block that contains byte `off`.
    #[inline]
    pub(super) fn block(&self, off: u32) -> Result<BufRef> {
        let lbn = self.g().lblkno(off.into());
        if let Some(buf) = self.cached_block(lbn) {
            return Ok(buf);
        }
        match self.read_block(lbn)? {
            Some(buf) => Ok(buf),
            None => Err(hole(self.ip.ino, off)),
        }
    }

    /// Calls `visit` with each chunk of `range`, whose ends are ends of chunks, and its offset,
    /// until `visit` breaks.
    ///
    /// # Errors
    /// The device's. Malformed chunks and holes are skipped. If `visit` did not break, their first
    /// error is returned: the record that is searched may have been there.
    pub(super) fn walk<T>(
        &self,
        range: Range<u32>,
        mut visit: impl FnMut(u32, &[u8]) -> InChunk<ControlFlow<T>>,
    ) -> Result<Option<T>> {
        let (bsize, dir) = (self.g().bsize, self.ip.ino);
        let (mut at, mut first_error) = (range.start, None);
        while at < range.end {
            let in_block = at % bsize;
            let end = range.end.min(at - in_block + bsize);
            let buf = match self.block(at) {
                Ok(buf) => buf,
                Err(e @ Error::Format(_)) => {
                    first_error.get_or_insert(e);
                    at = end;
                    continue;
                }
                Err(e) => return Err(e),
            };
            let block = buf.read();
            let wanted = in_block as usize..(in_block + (end - at)) as usize;
            let Some(bytes) = block.bytes.get(wanted) else {
                first_error.get_or_insert(hole(dir, at));
                at = end;
                continue;
            };
            for chunk in bytes.chunks_exact(DIRBLKSIZ) {
                match visit(at, chunk) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(found)) => return Ok(Some(found)),
                    Err(bad) => {
                        first_error.get_or_insert_with(|| malformed(dir, at, bad));
                    }
                }
                at += CHUNK;
            }
        }
        first_error.map_or(Ok(None), |e| Err(self.damaged(e)))
    }
}

impl DirMut<'_> {
    /// Changes the chunk that contains byte `off`, and writes its buffer as `edit` returns.
    ///
    /// # Errors
    /// Those of `edit` and of the device; the chunk is then unchanged.
    pub(super) fn change_chunk(
        &mut self,
        off: u32,
        edit: impl FnOnce(&mut [u8]) -> InChunk<Disposition>,
    ) -> Result<()> {
        let buf = self.view().block(off)?;
        let start = (chunk_of(off) % self.view().g().bsize) as usize;
        let mut before = [0; DIRBLKSIZ];
        let then = {
            let mut block = buf.write();
            let Some(chunk) = block.bytes.get_mut(start..start + DIRBLKSIZ) else {
                return Err(hole(self.ip.ino, off));
            };
            before.copy_from_slice(chunk);
            edit(chunk).inspect_err(|_| chunk.copy_from_slice(&before))
        };
        let cache = &self.ump.cache;
        let done = match then {
            Ok(then) => cache.apply(&buf, then),
            Err(bad) => {
                return Err(self.view().damaged(malformed(self.ip.ino, chunk_of(off), bad)));
            }
        };
        done.inspect_err(|_| {
            // The disk may have either state. Memory goes back to the old one and is written later.
            if let Some(chunk) = buf.write().bytes.get_mut(start..start + DIRBLKSIZ) {
                chunk.copy_from_slice(&before);
            }
            cache.mark_dirty(&buf);
        })
    }

    /// The logical block of byte `off`, and the offset in it.
    pub(super) fn place_of(&self, off: u32) -> (Lbn, u32) {
        let dir = self.view();
        (dir.g().lblkno(off.into()), off % dir.g().bsize)
    }
}
