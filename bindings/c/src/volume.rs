//! Volumes: opening, closing, making, checking; trees.

use std::io;
use std::sync::{PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use bsdffs::copy::CopyOptions;
use ffs_admin::fsck::{Answers, Fsck, FsckOptions, Mode};
use ffs_admin::newfs::NewfsOptions;
use libc::{c_char, c_int};

use crate::handle::{Handle, LastError, call, call_unit, error, give_back};
use crate::pointer;
use crate::types::{
    FFS_CHECK, FFS_JOURNAL, FFS_NO_SOFT_UPDATES, FFS_PREEN, FFS_READ, FFS_REPAIR, FFS_UFS1,
    FFS_WRITE, ffs_statfs,
};

/// A volume: at first without an image.
#[derive(Default)]
pub struct ffs_volume {
    volume: RwLock<Option<bsdffs::Volume>>,
    last_error: LastError,
}

impl Handle for ffs_volume {
    fn last_error(&self) -> &LastError {
        &self.last_error
    }
}

impl ffs_volume {
    /// The open volume.
    pub(crate) fn get(&self) -> io::Result<bsdffs::Volume> {
        let volume = self.volume.read().unwrap_or_else(PoisonError::into_inner).clone();
        volume.ok_or_else(no_image)
    }

    /// Closes the volume if one is open, and returns whether one was. The lock is held meanwhile:
    /// without it another thread could close the volume and open another, which this one would drop
    /// without an error to return.
    fn close(&self) -> io::Result<bool> {
        let mut place = self.volume.write().unwrap_or_else(PoisonError::into_inner);
        let Some(volume) = place.clone() else { return Ok(false) };
        volume.close()?;
        *place = None;
        Ok(true)
    }
}

fn no_image() -> io::Error {
    error(libc::EBADF, "no image is open; call ffs_open first")
}

/// The version of the library, as "0.1.0". It is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn ffs_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// A new handle, for ffs_open(). Never NULL. Give it back with ffs_free().
#[unsafe(no_mangle)]
pub extern "C" fn ffs_new() -> *mut ffs_volume {
    Box::into_raw(Box::default())
}

/// Gives a handle back, and closes its volume if that is open. Returns 0, or -errno if closing
/// failed; the handle is given back in each case. Call ffs_close() first to get the message, or to
/// try again. Files that are still open can only be read. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_free(volume: *mut ffs_volume) -> c_int {
    if volume.is_null() {
        return 0;
    }
    // SAFETY: the contract of the caller. The handle is not used after it was given back.
    unsafe {
        let closed = call_unit(volume.cast_const(), |volume| volume.close().map(|_| ()));
        give_back(volume);
        closed
    }
}

/// The errno of the last failure of the handle; 0 if nothing has failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_errno(volume: *const ffs_volume) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe { volume.as_ref() }.map_or(libc::EINVAL, |volume| volume.last_error.errno())
}

/// Copies the message of the last failure of the handle into `buf`, truncated to `size` bytes with
/// a NUL. Returns the length of the whole message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_message(
    volume: *const ffs_volume,
    buf: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the contract of the caller.
    unsafe { volume.as_ref().map_or(0, |volume| volume.last_error.copy(buf, size)) }
}

/// Opens the file system in `image`: a file, a block device, a container, or IMAGE@N for partition
/// N of a disk. `flags` is FFS_READ or FFS_WRITE. An image that is open for writing is locked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_open(
    volume: *const ffs_volume,
    image: *const c_char,
    flags: u32,
) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |volume| {
            let image = pointer::path(image)?;
            if flags & !(FFS_READ | FFS_WRITE) != 0 || flags == 0 {
                return Err(error(libc::EINVAL, "flags is FFS_READ or FFS_WRITE"));
            }
            let mut place = volume.volume.write().unwrap_or_else(PoisonError::into_inner);
            if place.is_some() {
                return Err(error(libc::EBUSY, "the handle has an open image; close it first"));
            }
            let options = bsdffs::Volume::options().write(flags & FFS_WRITE != 0);
            *place = Some(options.open(image)?);
            Ok(())
        })
    }
}

/// Writes everything, marks the volume clean and closes it. After an error it stays open. Close its
/// files and directories first: they keep the image open and locked, and can only be read then.
/// Calls with the same handle wait meanwhile, and fail with -EBADF afterwards; those that had begun
/// end first, or fail with -EROFS if they are changes that come too late.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_close(volume: *const ffs_volume) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |volume| match volume.close()? {
            true => Ok(()),
            false => Err(no_image()),
        })
    }
}

/// Makes all changes durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_sync(volume: *const ffs_volume) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe { call_unit(volume, |volume| volume.get()?.sync()) }
}

/// Space and inodes of the volume.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_statfs(volume: *const ffs_volume, out: *mut ffs_statfs) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |volume| {
            let volume = volume.get()?;
            let found = volume.statfs();
            let result = ffs_statfs {
                blocks: found.frags,
                bfree: found.frags_free,
                bavail: found.frags_avail,
                files: found.inodes,
                ffree: found.inodes_free,
                bsize: found.bsize,
                fsize: found.fsize,
                namemax: found.name_max,
                read_only: volume.fs().is_read_only().into(),
            };
            pointer::put(out, result)
        })
    }
}

/// Makes an empty file system of `size` bytes in the new file `image`: UFS2 with soft updates,
/// unless `flags` (FFS_UFS1, FFS_NO_SOFT_UPDATES, FFS_JOURNAL) changes that. The handle only keeps
/// the message of a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_newfs(
    volume: *const ffs_volume,
    image: *const c_char,
    size: u64,
    flags: u32,
) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |_| {
            let image = pointer::path(image)?;
            if flags & !(FFS_UFS1 | FFS_NO_SOFT_UPDATES | FFS_JOURNAL) != 0 {
                return Err(error(libc::EINVAL, "unknown flags of ffs_newfs"));
            }
            let journal = flags & FFS_JOURNAL != 0;
            let options = NewfsOptions {
                size: Some(size),
                format: (flags & FFS_UFS1 != 0).then_some(ffs_ondisk::Format::Ufs1),
                soft_updates: journal || flags & FFS_NO_SOFT_UPDATES == 0,
                journal,
                keep_holes: true,
                ..NewfsOptions::default()
            };
            bsdffs::format_with(image, &options).map(|_| ())
        })
    }
}

/// Checks the file system in `image`, which must not be open for writing; `mode` is FFS_CHECK,
/// FFS_PREEN or FFS_REPAIR. Returns the exit code of `ffs fsck` (0: consistent, or repaired
/// completely) or -errno. The handle only keeps the message of a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_fsck(
    volume: *const ffs_volume,
    image: *const c_char,
    mode: u32,
) -> c_int {
    // SAFETY: the contract of the caller.
    let done = unsafe {
        call(volume, |_| {
            let image = pointer::path(image)?;
            let mode = match mode {
                FFS_CHECK => Mode::Full(Answers::No),
                FFS_PREEN => Mode::Preen,
                FFS_REPAIR => Mode::Full(Answers::Yes),
                _ => return Err(error(libc::EINVAL, "unknown mode of ffs_fsck")),
            };
            let options = ffs_image::OpenOptions {
                write: !matches!(mode, Mode::Full(Answers::No)),
                probe: Some(bsdffs::holds_ufs),
                ..ffs_image::OpenOptions::default()
            };
            let device = ffs_image::open(image, &options)?.device;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
            let options = FsckOptions { mode, ..FsckOptions::default() }.at(now.cast_signed());
            Ok(Fsck::new(device, options).run().exit_code.into())
        })
    };
    // An exit code and an errno fit.
    done as c_int
}

/// Copies the file or tree `from` of the host into the directory `to` of the volume, with all
/// attributes; of a directory its entries. Returns the number of files that could not be copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_copy_in(
    volume: *const ffs_volume,
    from: *const c_char,
    to: *const c_char,
) -> i64 {
    // SAFETY: the contract of the caller.
    unsafe {
        call(volume, |volume| {
            let (from, to) = (pointer::path(from)?, pointer::path(to)?);
            let report = volume.get()?.copy_in(from, to, CopyOptions::archive())?;
            Ok(report.failed.cast_signed())
        })
    }
}

/// Copies the file or tree `from` of the volume into the directory `to` of the host, with the
/// attributes that the host can keep; of a directory its entries. Returns the number of files that
/// could not be copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_copy_out(
    volume: *const ffs_volume,
    from: *const c_char,
    to: *const c_char,
) -> i64 {
    // SAFETY: the contract of the caller.
    unsafe {
        call(volume, |volume| {
            let (from, to) = (pointer::path(from)?, pointer::path(to)?);
            let report = volume.get()?.copy_out(from, to, CopyOptions::archive())?;
            Ok(report.failed.cast_signed())
        })
    }
}
