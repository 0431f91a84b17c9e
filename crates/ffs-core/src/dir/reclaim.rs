//! Turning reserved records into free space.

use super::chunks::chunk_of;
use super::reserved::{check_start, reserved_of};
use super::{DirMut, hashed};
use crate::buf::Disposition;
use ffs_ondisk::DirOff;
use ffs_ondisk::dir;

/// Turns records that are not reserved any more into free space.
pub(super) fn reclaim(d: &mut DirMut<'_>) {
    let (ump, dir) = (d.ump, d.ip.ino);
    let (freed, size) = (ump.ordering.take_freed_entries(dir), d.view().size());
    for off in freed.iter().map(|off| off.0).filter(|&off| off < size) {
        let (base, fmt) = (chunk_of(off), d.fmt());
        let mut free = None;
        let (reserved, at) = (reserved_of(ump, dir), (off - base) as usize);
        let done = d.change_chunk(off, |chunk| {
            // It may have been merged into another record that was just freed, or be in use again.
            let h = check_start(fmt, chunk, at).and_then(|()| dir::header(fmt, chunk, at));
            let reserved = reserved.in_chunk(base);
            if h.is_ok_and(|h| !h.live() && !reserved.is(&h, at)) {
                reserved.release(fmt, chunk, at)?;
            }
            free = Some(reserved.free_space(fmt, chunk));
            Ok(Disposition::Delay)
        });
        match (done, free) {
            (Ok(()), Some(free)) => hashed::update(d, base, |i| i.set_free(DirOff(base), free)),
            // The record is free, but the index cannot record its space.
            _ => d.ip.dir.drop_index(),
        }
    }
}
