//! Calls: they catch panics, and record the failure in the handle.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use libc::{c_char, c_int};

use crate::pointer;

/// The errno and the message of every call in another process.
const INHERITED: (c_int, &str) =
    (libc::EBADF, "this volume was opened by another process; open it again here");

/// The process that made a handle, and the last failure there.
///
/// A child of fork has a copy of the handle, and of its locks, which threads of the parent may have
/// held. There every call fails, and takes no lock.
pub(crate) struct LastError {
    process: u32,
    last: Mutex<(c_int, String)>,
}

impl Default for LastError {
    fn default() -> LastError {
        LastError { process: std::process::id(), last: Mutex::default() }
    }
}

impl LastError {
    /// Whether this process has inherited the handle.
    fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }

    fn set(&self, errno: c_int, text: String) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (errno, text);
    }

    pub(crate) fn errno(&self) -> c_int {
        if self.is_inherited() {
            return INHERITED.0;
        }
        self.last.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Copies the message into a buffer of the caller, as [`pointer::put_text`].
    pub(crate) unsafe fn copy(&self, buf: *mut c_char, size: usize) -> usize {
        if self.is_inherited() {
            // SAFETY: the contract of the caller.
            return unsafe { pointer::put_text(INHERITED.1.as_bytes(), buf, size) };
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the contract of the caller.
        unsafe { pointer::put_text(last.1.as_bytes(), buf, size) }
    }
}

/// A handle that records its last failure.
pub(crate) trait Handle {
    fn last_error(&self) -> &LastError;
}

/// An error of the given errno.
pub(crate) fn error(errno: c_int, text: &str) -> io::Error {
    let kind = io::Error::from_raw_os_error(errno).kind();
    io::Error::new(kind, Numbered { errno, text: text.to_owned() })
}

/// The cause of an error that this crate makes.
#[derive(Debug)]
struct Numbered {
    errno: c_int,
    text: String,
}

impl std::fmt::Display for Numbered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Numbered {}

fn errno_of(error: &io::Error) -> c_int {
    let own = error.get_ref().and_then(|inner| inner.downcast_ref::<Numbered>());
    own.map_or_else(|| bsdffs::errno(error), |own| own.errno)
}

/// Runs `work` on the handle. Returns its result, or the negative errno of its failure.
pub(crate) unsafe fn call<H: Handle>(
    handle: *const H,
    work: impl FnOnce(&H) -> io::Result<i64>,
) -> i64 {
    // SAFETY: the handle is NULL or one of this library that was not given back.
    let Some(handle) = (unsafe { handle.as_ref() }) else {
        return -i64::from(libc::EINVAL);
    };
    if handle.last_error().is_inherited() {
        return -i64::from(INHERITED.0);
    }
    // A panic leaves no handle in a wrong state: the core repairs its locks, and what is here is
    // replaced as a whole.
    let done = catch_unwind(AssertUnwindSafe(|| work(handle)));
    match done {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => {
            let errno = errno_of(&error);
            handle.last_error().set(errno, error.to_string());
            -i64::from(errno)
        }
        Err(panic) => {
            let text = format!("internal error, please report it: {}", panic_text(&*panic));
            handle.last_error().set(libc::EIO, text);
            -i64::from(libc::EIO)
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// As [`call`], for a result without a value.
pub(crate) unsafe fn call_unit<H: Handle>(
    handle: *const H,
    work: impl FnOnce(&H) -> io::Result<()>,
) -> c_int {
    // SAFETY: the contract of the caller.
    let done = unsafe { call(handle, |handle| work(handle).map(|()| 0)) };
    // An errno fits.
    done as c_int
}

/// Gives a handle back. A panic while it is dropped ends here.
pub(crate) unsafe fn give_back<H: Handle>(handle: *mut H) {
    if handle.is_null() {
        return;
    }
    // SAFETY: `Box::into_raw` made the pointer, and the caller gives it back once.
    let owned = unsafe { Box::from_raw(handle) };
    if owned.last_error().is_inherited() {
        // To drop it would unmount the volume, and so write to the image of the parent.
        std::mem::forget(owned);
        return;
    }
    // Nothing is left that could report a failure.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(owned)));
}
