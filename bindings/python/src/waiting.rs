//! Waiting for the lock of an image, so that Ctrl-C ends it.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use ffs_device::LockWait;
use ffs_device::lock::LockError;
use ffs_image::OpenError;
use pyo3::prelude::*;

/// The longest wait between two looks at pending signals.
const SLICE: Duration = Duration::from_millis(100);

/// Runs `open` until another opener does not hold the image, or for `patience`. The result of the
/// last run is the inner one.
///
/// # Errors
/// A signal handler has raised.
pub(crate) fn open<T: Send>(
    py: Python<'_>,
    patience: Duration,
    open: impl Fn(LockWait) -> io::Result<T> + Send + Sync,
) -> PyResult<io::Result<T>> {
    let start = Instant::now();
    loop {
        let left = patience.saturating_sub(start.elapsed());
        let wait = if left.is_zero() { LockWait::No } else { LockWait::UpTo(left.min(SLICE)) };
        let opened = py.detach(|| open(wait));
        // Also when the image was opened: the exception then closes it.
        py.check_signals()?;
        match opened {
            Err(error) if is_held(&error) => {
                let waited = start.elapsed();
                if waited >= patience {
                    return Ok(Err(after(error, waited)));
                }
            }
            opened => return Ok(opened),
        }
    }
}

/// The failed lock, if another opener holds it.
fn held(error: &io::Error) -> Option<&LockError> {
    match error.get_ref()?.downcast_ref::<OpenError>()? {
        OpenError::Lock(lock @ LockError::Held { .. }) => Some(lock),
        _ => None,
    }
}

fn is_held(error: &io::Error) -> bool {
    held(error).is_some()
}

/// The error with the time of all slices.
fn after(error: io::Error, waited: Duration) -> io::Error {
    let Some(LockError::Held { image, mode, holders, .. }) = held(&error) else { return error };
    let (image, mode, holders) = (image.clone(), *mode, holders.clone());
    let all = LockError::Held { image, mode, holders, waited };
    io::Error::new(ErrorKind::ResourceBusy, all.to_string())
}
