//! Paths from Python: `str`, `bytes` and `os.PathLike`, and names back to Python.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// A path. Text becomes bytes as in `os.fsencode`, so a name that is not UTF-8 survives.
pub(crate) struct FsPath {
    bytes: Vec<u8>,
    is_text: bool,
    /// What the caller gave, for errors.
    pub(crate) original: Py<PyAny>,
}

impl FsPath {
    pub(crate) fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn is_text(&self) -> bool {
        self.is_text
    }

    /// A name of the image for Python, of the type of this path.
    pub(crate) fn name<'py>(&self, py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, name, self.is_text)
    }

    /// The path of `name` in the directory that this path names.
    pub(crate) fn join(&self, name: &[u8]) -> Vec<u8> {
        bsdffs::namei::join(&self.bytes, name)
    }
}

/// Bytes of a name as `str`, with surrogate escapes, or as `bytes`.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    name: &[u8],
    is_text: bool,
) -> PyResult<Bound<'py, PyAny>> {
    if is_text {
        let text = OsString::from(OsStr::from_bytes(name)).into_pyobject(py)?;
        return Ok(text.into_any());
    }
    Ok(PyBytes::new(py, name).into_any())
}

impl<'py> FromPyObject<'_, 'py> for FsPath {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<FsPath> {
        let os = object.py().import("os")?;
        let path = os.call_method1("fspath", (object,))?;
        let is_text = path.is_instance_of::<PyString>();
        let encoded = if is_text { os.call_method1("fsencode", (path,))? } else { path };
        let bytes = encoded.cast::<PyBytes>()?.as_bytes().to_vec();
        if bytes.contains(&0) {
            return Err(PyValueError::new_err("embedded null byte in a path"));
        }
        Ok(FsPath { bytes, is_text, original: object.to_owned().unbind() })
    }
}
