//! The memory of a failed flush.
//!
//! A system reports lost writes once, by the flush that finds them. A device that can forget keeps
//! the failure here, and no later flush of it succeeds.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::{DeviceError, Operation};

/// Whether a flush of a device has failed, and how.
#[derive(Debug, Default)]
pub struct FailedFlush {
    /// The error number; 0 if none has failed.
    errno: AtomicI32,
}

impl FailedFlush {
    /// Calls `flush` and keeps its failure.
    ///
    /// # Errors
    /// Those of `flush`; after one, an error with the same number, and `flush` is not called.
    pub fn guard(
        &self,
        device: &Arc<str>,
        flush: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let before = self.errno.load(Ordering::Acquire);
        if before != 0 {
            let source = io::Error::from_raw_os_error(before);
            return Err(DeviceError::new(device, Operation::Flush, source));
        }
        flush().inspect_err(|error| self.errno.store(error.errno(), Ordering::Release))
    }
}
