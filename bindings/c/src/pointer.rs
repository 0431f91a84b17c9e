//! Pointers of the caller: text, buffers, places for results.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::{c_char, c_void};

use crate::handle::error;

fn is_null() -> io::Error {
    error(libc::EINVAL, "a pointer is NULL")
}

/// The bytes of a text.
pub(crate) unsafe fn bytes<'a>(text: *const c_char) -> io::Result<&'a [u8]> {
    if text.is_null() {
        return Err(is_null());
    }
    // SAFETY: not NULL, and the caller ends the text with NUL.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// A path.
pub(crate) unsafe fn path<'a>(text: *const c_char) -> io::Result<&'a Path> {
    // SAFETY: the contract of the caller.
    let bytes = unsafe { bytes(text) }?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// A buffer to write, which is zeroed.
pub(crate) unsafe fn buffer<'a>(buf: *mut c_void, size: usize) -> io::Result<&'a mut [u8]> {
    if size == 0 {
        return Ok(&mut []);
    }
    if buf.is_null() {
        return Err(is_null());
    }
    if isize::try_from(size).is_err() {
        return Err(error(libc::EINVAL, "the size of the buffer is out of range"));
    }
    let buf = buf.cast::<u8>();
    // SAFETY: the buffer has `size` bytes, which the first line initialises. No other part of the
    // program has a reference to it while the function runs.
    unsafe {
        buf.write_bytes(0, size);
        Ok(std::slice::from_raw_parts_mut(buf, size))
    }
}

/// Data to read.
pub(crate) unsafe fn data<'a>(data: *const c_void, size: usize) -> io::Result<&'a [u8]> {
    if size == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(is_null());
    }
    if isize::try_from(size).is_err() {
        return Err(error(libc::EINVAL, "the size of the data is out of range"));
    }
    // SAFETY: the data has `size` bytes that the caller has written.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), size) })
}

/// Writes a result.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) -> io::Result<()> {
    if place.is_null() {
        return Err(is_null());
    }
    // SAFETY: not NULL, and a place for a `T` of the caller.
    unsafe { place.write(value) };
    Ok(())
}

/// Fails if the place for a result is NULL, before there is something to put there.
pub(crate) fn check<T>(place: *mut T) -> io::Result<()> {
    if place.is_null() { Err(is_null()) } else { Ok(()) }
}

/// Copies as much of a text as fits, with a NUL at the end, and returns the length of the whole
/// text. With `size` 0 nothing is copied.
pub(crate) unsafe fn put_text(text: &[u8], buf: *mut c_char, size: usize) -> usize {
    if !buf.is_null() && size > 0 {
        let len = text.len().min(size - 1);
        // SAFETY: the buffer has `size` bytes, of which `len + 1` are written.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buf.cast::<u8>(), len);
            buf.add(len).write(0);
        }
    }
    text.len()
}

/// Copies a value as a whole and returns its length; with `size` 0 only returns that.
pub(crate) unsafe fn put_bytes(value: &[u8], buf: *mut c_void, size: usize) -> io::Result<i64> {
    let len = value.len() as i64;
    if size == 0 {
        return Ok(len);
    }
    check(buf)?;
    if value.len() > size {
        return Err(error(libc::ERANGE, "the buffer is too small"));
    }
    // SAFETY: the buffer has `size` bytes, of which no more than these are written.
    unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), buf.cast::<u8>(), value.len()) };
    Ok(len)
}
