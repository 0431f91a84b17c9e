//! Truncating the empty chunks at the end of a directory.
//!
//! # Invariants
//! 1. No chunk with a name or a reserved record is truncated.
//! 2. A directory has neither a hole nor a pointer after its end, on the device either. So it is
//!    not truncated where an indirect block would keep some of its pointers and lose others: the
//!    indirect block and the inode are not written together.
//!
//! Reference: `spec/directories-and-caches.md` §3; `spec/soft-updates.md` §4.3.

use super::chunks::CHUNK;
use super::slot::Slot;
use super::{Dir, DirMut, hashed};
use crate::alloc::Reserve;
use crate::counters::bump;
use crate::error::Result;
use crate::tunables::DirTruncate;
use ffs_ondisk::Lbn;
use ffs_ondisk::geometry::NDADDR;

/// Chunks that must be free at the end before a removal truncates them: removing and creating in
/// turn must not truncate and grow the directory each time.
const MIN_TRIMMED: u64 = 2;

/// Truncates the end that the search for `slot` found empty, or the index has as empty. By default
/// only a create does this, because only its search reads the whole directory (see `dir_truncate`).
///
/// # Errors
/// The device's; the directory may then be longer than necessary, which is no damage.
pub(crate) fn shrink(d: &mut DirMut<'_>, slot: &Slot) -> Result<()> {
    let end = slot.end_useful.map(u64::from).or_else(|| hashed::end_useful(d.view()));
    truncate_to(d, end, 1).map(drop)
}

/// Truncates the empty end after a removal, if the switch requests it and there is an index.
pub(super) fn after_removal(d: &mut DirMut<'_>) {
    if d.ump.dirhash.tunables().dir_truncate() == DirTruncate::Create {
        return;
    }
    let end = hashed::end_useful(d.view());
    // A directory that is longer than necessary is no failure.
    if truncate_to(d, end, MIN_TRIMMED * u64::from(CHUNK)).is_ok_and(|truncated| truncated) {
        bump(&d.view().counters().dir_trimmed);
    }
}

/// Truncates a directory in use to `end`, if that is known, possible and frees at least `min`
/// bytes. Returns whether it did.
fn truncate_to(d: &mut DirMut<'_>, end: Option<u64>, min: u64) -> Result<bool> {
    let end = end.filter(|&end| 0 < end).map(|end| possible_end(d.view(), end));
    let Some(end) = end.filter(|&end| d.data.d.size.saturating_sub(end) >= min) else {
        return Ok(false);
    };
    let done = d.truncate(end, Reserve::Allowed);
    hashed::truncated(d, &done);
    done.map(|()| true)
}

/// The first offset from `end` on to which the directory may be truncated: behind the direct blocks
/// only an offset in its last block.
fn possible_end(d: Dir<'_>, end: u64) -> u64 {
    let (g, size) = (d.g(), d.data.d.size);
    let direct = g.lblktosize(Lbn(NDADDR as u64));
    if end <= direct || size <= direct {
        return end;
    }
    end.max(g.lblktosize(g.lblkno(size - 1)) + u64::from(CHUNK))
}
