//! Open files.

use libc::{c_char, c_int, c_void};

use crate::handle::{Handle, LastError, call, call_unit, error, give_back};
use crate::pointer;
use crate::types::{
    FFS_APPEND, FFS_CREATE, FFS_EXCLUSIVE, FFS_READ, FFS_TRUNCATE, FFS_WRITE, ffs_stat,
};
use crate::volume::ffs_volume;

/// All flags of ffs_file_open().
const KNOWN: u32 = FFS_READ | FFS_WRITE | FFS_APPEND | FFS_CREATE | FFS_EXCLUSIVE | FFS_TRUNCATE;

/// An open file.
pub struct ffs_file {
    file: bsdffs::File,
    last_error: LastError,
}

impl Handle for ffs_file {
    fn last_error(&self) -> &LastError {
        &self.last_error
    }
}

/// Opens a file. `flags` is FFS_READ, FFS_WRITE, or both, with others; `mode` has the permission
/// bits of a new file. Give the result back with ffs_file_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_file_open(
    volume: *const ffs_volume,
    path: *const c_char,
    flags: u32,
    mode: u32,
    out: *mut *mut ffs_file,
) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |volume| {
            pointer::check(out)?;
            if flags & !KNOWN != 0 {
                return Err(error(libc::EINVAL, "unknown flags of ffs_file_open"));
            }
            let on = |flag| flags & flag != 0;
            if on(FFS_EXCLUSIVE) && !on(FFS_CREATE) {
                return Err(error(libc::EINVAL, "FFS_EXCLUSIVE needs FFS_CREATE"));
            }
            let mut options = bsdffs::OpenOptions::new();
            options.read(on(FFS_READ)).write(on(FFS_WRITE)).append(on(FFS_APPEND));
            options.truncate(on(FFS_TRUNCATE)).create(on(FFS_CREATE));
            options.create_new(on(FFS_EXCLUSIVE)).mode(mode);
            let file = options.open(&volume.get()?, pointer::path(path)?)?;
            let handle = Box::new(ffs_file { file, last_error: LastError::default() });
            pointer::put(out, Box::into_raw(handle))
        })
    }
}

/// Reads at `offset`. Returns how many bytes; less than `size` at the end of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_file_pread(
    file: *const ffs_file,
    buf: *mut c_void,
    size: usize,
    offset: u64,
) -> i64 {
    // SAFETY: the contract of the caller.
    unsafe {
        call(file, |file| {
            let file = &file.file;
            // Only what the file can fill is touched.
            let left = file.metadata()?.len().saturating_sub(offset);
            let size = usize::try_from(left).unwrap_or(usize::MAX).min(size);
            let buf = pointer::buffer(buf, size)?;
            let mut done = 0;
            while done < buf.len() {
                match file.read_at(&mut buf[done..], offset + done as u64)? {
                    0 => break,
                    read => done += read,
                }
            }
            Ok(done as i64)
        })
    }
}

/// Writes at `offset`, or at the end of a file that is open to append. Returns how many bytes,
/// which is `size` unless the volume became full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_file_pwrite(
    file: *const ffs_file,
    data: *const c_void,
    size: usize,
    offset: u64,
) -> i64 {
    // SAFETY: the contract of the caller.
    unsafe {
        call(file, |file| {
            let data = pointer::data(data, size)?;
            let mut done = 0;
            while done < data.len() {
                let at = offset.saturating_add(done as u64);
                match file.file.write_at(&data[done..], at) {
                    Ok(0) => break,
                    Ok(written) => done += written,
                    // What is written counts; the next call returns the error.
                    Err(_) if done > 0 => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(done as i64)
        })
    }
}

/// Attributes of the open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_file_stat(file: *const ffs_file, out: *mut ffs_stat) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe { call_unit(file, |file| pointer::put(out, file.file.metadata()?.into())) }
}

/// Truncates or extends the file to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_file_truncate(file: *const ffs_file, size: u64) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe { call_unit(file, |file| file.file.set_len(size)) }
}

/// Makes content, attributes and names of the file durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_file_sync(file: *const ffs_file) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe { call_unit(file, |file| file.file.sync_all()) }
}

/// Copies the message of the last failure, as ffs_message().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_file_message(
    file: *const ffs_file,
    buf: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the contract of the caller.
    unsafe { file.as_ref().map_or(0, |file| file.last_error.copy(buf, size)) }
}

/// Gives a file back. It does not make it durable: see ffs_file_sync(). NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_file_close(file: *mut ffs_file) {
    // SAFETY: the contract of the caller.
    unsafe { give_back(file) }
}
