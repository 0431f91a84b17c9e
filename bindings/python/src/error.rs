//! Errors of volumes as `OSError`. Python chooses the class by the errno: `FileNotFoundError`, ...

use std::io;

use ffs_device::host_words;
use pyo3::exceptions::{PyMemoryError, PyOSError};
use pyo3::prelude::*;

use crate::path::FsPath;

/// The exception for `error`. `paths` are the one or two paths of the operation.
pub(crate) fn os_error(py: Python<'_>, error: &io::Error, paths: &[&FsPath]) -> PyErr {
    if error.kind() == io::ErrorKind::OutOfMemory {
        return PyMemoryError::new_err(host_words(error));
    }
    let (errno, text) = (bsdffs::errno(error), host_words(error));
    match paths {
        [] => PyOSError::new_err((errno, text)),
        [path] => PyOSError::new_err((errno, text, path.original.clone_ref(py))),
        [from, to, ..] => PyOSError::new_err((
            errno,
            text,
            from.original.clone_ref(py),
            py.None(),
            to.original.clone_ref(py),
        )),
    }
}
