//! Changes of names, and directories.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};

use bsdffs::{Permissions, ReadDir};
use libc::{c_char, c_int, c_void};

use crate::handle::{Handle, LastError, call, call_unit, error, give_back};
use crate::pointer;
use crate::types::ffs_dirent;
use crate::volume::ffs_volume;

/// A listing of a directory.
pub struct ffs_dir {
    entries: Mutex<ReadDir>,
    last_error: LastError,
}

impl Handle for ffs_dir {
    fn last_error(&self) -> &LastError {
        &self.last_error
    }
}

/// Makes a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_mkdir(
    volume: *const ffs_volume,
    path: *const c_char,
    mode: u32,
) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |volume| {
            let (volume, path) = (volume.get()?, pointer::path(path)?);
            volume.create_dir(path)?;
            volume.set_permissions(path, Permissions::from_mode(mode))
        })
    }
}

/// Makes a directory and those above it that do not exist. It is no error if it exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_mkdir_all(volume: *const ffs_volume, path: *const c_char) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe { call_unit(volume, |volume| volume.get()?.create_dir_all(pointer::path(path)?)) }
}

/// Removes an empty directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_rmdir(volume: *const ffs_volume, path: *const c_char) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe { call_unit(volume, |volume| volume.get()?.remove_dir(pointer::path(path)?)) }
}

/// Removes a name of a file that is not a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_unlink(volume: *const ffs_volume, path: *const c_char) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe { call_unit(volume, |volume| volume.get()?.remove_file(pointer::path(path)?)) }
}

/// Renames a file, replacing what has the new name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_rename(
    volume: *const ffs_volume,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |volume| volume.get()?.rename(pointer::path(from)?, pointer::path(to)?))
    }
}

/// Gives the file `from` the further name `to`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_link(
    volume: *const ffs_volume,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |volume| {
            volume.get()?.hard_link(pointer::path(from)?, pointer::path(to)?)
        })
    }
}

/// Makes the symbolic link `path` to `target`, which need not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_symlink(
    volume: *const ffs_volume,
    target: *const c_char,
    path: *const c_char,
) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |volume| {
            volume.get()?.symlink(pointer::path(target)?, pointer::path(path)?)
        })
    }
}

/// Copies the target of a symbolic link into `buf`, without a NUL. Returns its length, or with
/// `size` 0 only that; -ERANGE if the buffer is too small.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_readlink(
    volume: *const ffs_volume,
    path: *const c_char,
    buf: *mut c_void,
    size: usize,
) -> i64 {
    // SAFETY: the contract of the caller.
    unsafe {
        call(volume, |volume| {
            let target = volume.get()?.read_link(pointer::path(path)?)?;
            pointer::put_bytes(target.as_os_str().as_bytes(), buf, size)
        })
    }
}

/// Opens a directory for ffs_readdir(). Give the result back with ffs_dir_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_opendir(
    volume: *const ffs_volume,
    path: *const c_char,
    out: *mut *mut ffs_dir,
) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |volume| {
            pointer::check(out)?;
            let entries = Mutex::new(volume.get()?.read_dir(pointer::path(path)?)?);
            let dir = Box::new(ffs_dir { entries, last_error: LastError::default() });
            pointer::put(out, Box::into_raw(dir))
        })
    }
}

/// Reads the next entry, without `.` and `..`. Returns 1, or 0 at the end of the directory, or
/// -errno. Of a damaged directory the sound entries come before the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_readdir(dir: *const ffs_dir, out: *mut ffs_dirent) -> c_int {
    // SAFETY: the contract of the caller.
    let done = unsafe {
        call(dir, |dir| {
            pointer::check(out)?;
            let mut entries = dir.entries.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(entry) = entries.next().transpose()? else { return Ok(0) };
            drop(entries);
            // The type bits of an entry without a type come from its inode.
            let kind = entry.metadata().map_or(0, |found| found.mode() & libc::S_IFMT);
            let (ino, name) = (entry.ino(), text(entry.file_name())?);
            pointer::put(out, ffs_dirent { ino, kind, name })?;
            Ok(1)
        })
    };
    // 0, 1 or an errno.
    done as c_int
}

/// A name with a NUL.
fn text(name: &OsStr) -> io::Result<[c_char; 256]> {
    let mut text = [0; 256];
    let bytes = name.as_bytes();
    if bytes.len() >= text.len() {
        return Err(error(libc::ENAMETOOLONG, "a name of the directory is too long"));
    }
    for (place, byte) in text.iter_mut().zip(bytes) {
        *place = *byte as c_char;
    }
    Ok(text)
}

/// Copies the message of the last failure, as ffs_message().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_dir_message(
    dir: *const ffs_dir,
    buf: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the contract of the caller.
    unsafe { dir.as_ref().map_or(0, |dir| dir.last_error.copy(buf, size)) }
}

/// Gives a listing back. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_dir_close(dir: *mut ffs_dir) {
    // SAFETY: the contract of the caller.
    unsafe { give_back(dir) }
}
