//! The memory of a failed flush.
//!
//! A system reports lost writes once, by the flush that finds them. A device that can forget keeps
//! the failure here, and no later flush of it succeeds.
//!
//! **Invariant.** One flush runs at a time. Otherwise the system would report lost writes to one of
//! two that run together, and the other would succeed.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{DeviceError, Operation};

/// Whether a flush of a device has failed, and how.
#[derive(Debug, Default)]
pub struct FailedFlush {
    /// The error number of the first failure; locked while a flush runs.
    errno: Mutex<Option<i32>>,
}

impl FailedFlush {
    /// Calls `flush` and keeps its failure. Waits for a flush of another thread.
    ///
    /// # Errors
    /// Those of `flush`; after one, an error with the same number, and `flush` is not called.
    pub fn guard(
        &self,
        device: &Arc<str>,
        flush: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let mut errno = self.errno.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(errno) = *errno {
            let source = io::Error::from_raw_os_error(errno);
            return Err(DeviceError::new(device, Operation::Flush, source));
        }
        flush().inspect_err(|error| *errno = Some(error.errno()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::fault::EIO;

    #[test]
    fn a_flush_beside_one_that_fails_fails_too() {
        let device: Arc<str> = "disk".into();
        let lost = || {
            let source = io::Error::from_raw_os_error(EIO);
            Err(DeviceError::new(&device, Operation::Flush, source))
        };
        let failed = FailedFlush::default();
        let (begun, first) = mpsc::channel();
        let (second, called) = mpsc::channel();
        thread::scope(|scope| {
            let (failed, lost) = (&failed, &lost);
            scope.spawn({
                let device = &device;
                move || {
                    let result = failed.guard(device, || {
                        begun.send(()).expect("the main thread waits");
                        called.recv().expect("the main thread calls");
                        lost()
                    });
                    assert_eq!(result.expect_err("it fails").errno(), EIO);
                }
            });
            first.recv().expect("the first flush begins");
            second.send(()).expect("the first flush waits");
            // The system reports the loss to the first flush alone.
            let result = failed.guard(&device, || Ok(()));
            assert_eq!(result.expect_err("the loss is known").errno(), EIO);
        });
    }
}
