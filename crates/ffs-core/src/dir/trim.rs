//! Cutting off the empty chunks at the end of a directory.
//!
//! # Invariants
//! 1. No chunk is cut off that holds a name or a reserved record.
//! 2. A directory never has a hole, nor a pointer behind its end, on the device either. So it is
//!    not cut where an indirect block would keep some of its pointers and lose others: that block
//!    and the inode are not written together.
//!
//! Reference: `spec/directories-and-caches.md` §3; `spec/soft-updates.md` §4.3.

use super::chunks::CHUNK;
use super::search::Slot;
use super::{Dir, DirMut, hashed};
use crate::alloc::Reserve;
use crate::counters::bump;
use crate::error::Result;
use crate::tunables::DirTruncate;
use ffs_ondisk::Lbn;
use ffs_ondisk::geometry::NDADDR;

/// Chunks that must be free at the end before a removal cuts them off: removing and creating by
/// turns must not cut and grow the directory each time.
const TRIMMED: u64 = 2;

/// Cuts off what the search for `slot` saw to be empty, or the index knows. By default only a
/// create does this, because only its search goes through the whole directory (see `dir_truncate`).
///
/// # Errors
/// The device's; the directory may be longer than it need be then, which is no damage.
pub(crate) fn shrink(d: &mut DirMut<'_>, slot: &Slot) -> Result<()> {
    let end = slot.end_useful.map(u64::from).or_else(|| hashed::end_useful(d.view()));
    cut_off(d, end, 1).map(drop)
}

/// After a removal: cuts off the empty end, where the switch asks for it and the index knows it.
pub(super) fn after_removal(d: &mut DirMut<'_>) {
    if d.ump.dirhash.tunables().dir_truncate() == DirTruncate::Create {
        return;
    }
    let end = hashed::end_useful(d.view());
    // A directory longer than it need be is no failure.
    if cut_off(d, end, TRIMMED * u64::from(CHUNK)).is_ok_and(|cut| cut) {
        bump(&d.view().counters().dir_trimmed);
    }
}

/// Cuts a directory in use up to `end`, if that is known, where that is possible and gives at least
/// `gain` bytes. Whether it did.
fn cut_off(d: &mut DirMut<'_>, end: Option<u64>, gain: u64) -> Result<bool> {
    let end = end.filter(|&end| 0 < end).map(|end| possible_end(d.view(), end));
    let Some(end) = end.filter(|&end| d.data.d.size.saturating_sub(end) >= gain) else {
        return Ok(false);
    };
    let done = d.truncate(end, Reserve::Allowed);
    hashed::cut(d, &done);
    done.map(|()| true)
}

/// The first place from `end` on where the directory may be cut: beyond the direct blocks inside
/// its last block only.
fn possible_end(d: Dir<'_>, end: u64) -> u64 {
    let (g, size) = (d.g(), d.data.d.size);
    let direct = g.lblktosize(Lbn(NDADDR as u64));
    if end <= direct || size <= direct {
        return end;
    }
    end.max(g.lblktosize(g.lblkno(size - 1)) + u64::from(CHUNK))
}
