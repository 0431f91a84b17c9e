//! The process that a volume belongs to.
//!
//! A child of `fork` has a copy of the parent's memory: of its buffers, and of locks that threads
//! of the parent may have held. So it neither uses a volume of its parent nor writes it. It cannot
//! unlock the image either: parent and child share the open file.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The number of a process.
#[derive(Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    /// This process.
    pub(crate) fn current() -> Process {
        Process(std::process::id())
    }

    /// Whether this process is another one. Takes no lock.
    pub(crate) fn is_other(self) -> bool {
        self.0 != std::process::id()
    }

    /// Fails in another process.
    pub(crate) fn check(self) -> PyResult<()> {
        if self.is_other() {
            let why = "this volume was opened by another process; open it again here";
            return Err(PyValueError::new_err(why));
        }
        Ok(())
    }

    /// Drops `value`; in another process forgets it, without a write.
    pub(crate) fn drop_own<T>(self, value: T) {
        if self.is_other() {
            std::mem::forget(value);
        }
    }
}
