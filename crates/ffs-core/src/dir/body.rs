//! The content that every directory has: `.` and `..`, and nothing else in an empty one.
//!
//! Reference: `spec/directories-and-caches.md` §1.3; `spec/soft-updates.md` §6.4.

use super::chunks::CHUNK;
use super::{Dir, DirMut, find};
use crate::alloc::Reserve;
use crate::error::{Error, Result};
use crate::inode::{BufFill, Granted};
use ffs_ondisk::dir::{self, Record, dirsiz};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{FileType, Ino, Lbn, Place, Structure};
use std::ops::ControlFlow;

/// Gives a new directory its first block, with `.` and with `..` for `parent`. The caller writes
/// the block as [`Granted::then`] requires, then updates the inode.
///
/// # Errors
/// [`Error::NoSpace`] and the device's.
pub(crate) fn init_body(d: &mut DirMut<'_>, parent: Ino, reserve: Reserve) -> Result<Granted> {
    let fmt = d.fmt();
    let granted = d.balloc(Lbn(0), CHUNK, BufFill::Valid, reserve)?;
    let dtype = FileType::Directory.dirent();
    let dot = dirsiz(1);
    let records = [
        Record { off: 0, ino: d.ip.ino.0, reclen: dot, dtype, name: b"." },
        Record { off: dot, ino: parent.0, reclen: DIRBLKSIZ - dot, dtype, name: b".." },
    ];
    let mut block = granted.buf.write();
    for chunk in block.bytes.chunks_exact_mut(DIRBLKSIZ) {
        dir::clear_chunk(fmt, chunk);
    }
    for r in &records {
        dir::write(fmt, &mut block.bytes, r);
    }
    drop(block);
    Ok(granted)
}

/// Whether the directory has no entries but `.` and `..`.
///
/// # Errors
/// The device's; a malformed directory's, also if its `..` is not `parent`.
pub(crate) fn is_empty(d: Dir<'_>, parent: Ino) -> Result<bool> {
    let fmt = d.fmt();
    let full = d.walk(0..d.size(), |_, chunk| {
        for r in dir::records(fmt, chunk) {
            let r = r?;
            let counts = r.live() && r.ino != Ino::WHITEOUT.0;
            if counts && r.name != b"." && r.name != b".." {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if full.is_some() {
        return Ok(false);
    }
    let up = parent_of(d)?;
    if up != parent {
        let place = Place::Inode(d.ip.ino);
        let e = Error::corrupt(Structure::Directory, place, "'..'", up, parent);
        return Err(d.damaged(e));
    }
    Ok(true)
}

/// The directory that `..` names.
///
/// # Errors
/// The device's; a directory without `..` is malformed.
pub(crate) fn parent_of(d: Dir<'_>) -> Result<Ino> {
    match find(d, b"..")? {
        Some(e) => Ok(e.ino),
        None => {
            let place = Place::Inode(d.ip.ino);
            Err(d.damaged(Error::corrupt(Structure::Directory, place, "'..'", "absent", "present")))
        }
    }
}
