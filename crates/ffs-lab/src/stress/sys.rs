//! System calls that the standard library lacks.

use std::fs::File;

use rustix::io::Result;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// Memory pages.
pub(super) const PAGE: u64 = 4096;

/// Calls `f` with `len` bytes from `offset` (a multiple of [`PAGE`]) as shared memory, then writes
/// its changes. The file must be long enough, and no process may truncate it meanwhile: an access
/// to a page after its end kills the process.
#[allow(unsafe_code, reason = "a mapping is memory that the kernel hands out")]
pub(super) fn with_mapping<R>(
    file: &File,
    (offset, len): (u64, usize),
    f: impl FnOnce(&mut [u8]) -> R,
) -> Result<R> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses; it is unmapped below, after the
    // last use of the slice. Only this process maps the file, and it has one thread.
    unsafe {
        let at = mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, offset)?;
        let result = f(std::slice::from_raw_parts_mut(at.cast(), len));
        let written = msync(at, len, MsyncFlags::SYNC);
        munmap(at, len)?;
        written?;
        Ok(result)
    }
}
