//! Listings of directories, with the interface of `os.scandir`.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use bsdffs::Metadata;
use bsdffs::namei::Last;
use ffs_core::FileType;
use pyo3::prelude::*;

use crate::error::os_error;
use crate::path::{FsPath, to_python};
use crate::stat::Stat;
use crate::state::{Release, Slot, State};

/// The entries of a directory.
#[pyclass(frozen, module = "ffs")]
pub(crate) struct ScandirIterator {
    state: Arc<State>,
    entries: Arc<Slot<bsdffs::ReadDir>>,
    path: FsPath,
}

impl ScandirIterator {
    pub(crate) fn new(state: &Arc<State>, entries: bsdffs::ReadDir, path: FsPath) -> Self {
        let entries = state.register(entries);
        ScandirIterator { state: Arc::clone(state), entries, path }
    }
}

#[pymethods]
impl ScandirIterator {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<DirEntry>> {
        let next = py.detach(|| {
            let mut entries = self.entries.lock()?;
            let next = entries.as_mut().and_then(Iterator::next);
            if next.is_none() {
                // As with os.scandir, the end closes the listing.
                *entries = None;
            }
            Ok::<_, PyErr>(next)
        })?;
        let Some(entry) = next else { return Ok(None) };
        let entry = entry.map_err(|error| os_error(py, &error, &[&self.path]))?;
        Ok(Some(DirEntry {
            state: Arc::clone(&self.state),
            path: self.path.join(entry.file_name().as_encoded_bytes()),
            name: entry.file_name().as_encoded_bytes().to_vec(),
            is_text: self.path.is_text(),
            ino: entry.ino(),
            kind: py.detach(|| entry.file_type()).ok(),
        }))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.entries.release());
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        self.close(py);
    }
}

/// An entry of a directory, as `os.DirEntry`.
#[pyclass(frozen, module = "ffs")]
pub(crate) struct DirEntry {
    state: Arc<State>,
    path: Vec<u8>,
    name: Vec<u8>,
    is_text: bool,
    ino: u64,
    kind: Option<FileType>,
}

impl DirEntry {
    /// Whether the file has this type. As with `os.DirEntry`, a file that was removed has none.
    fn is_kind(&self, py: Python<'_>, kind: FileType, follow: bool) -> PyResult<bool> {
        if let Some(own) = self.kind.filter(|own| !follow || *own != FileType::Symlink) {
            return Ok(own == kind);
        }
        self.with_path(py, |volume, path| match attributes(volume, path, follow) {
            Ok(found) => Ok(found.file_type() == kind),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        })
    }

    /// Runs `work` on the path of the entry.
    fn with_path<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&bsdffs::Volume, &Path) -> io::Result<T> + Send,
    ) -> PyResult<T> {
        let path = self.path(py)?.extract::<FsPath>()?;
        self.state.run(py, &[&path], |volume| work(volume, path.path()))
    }
}

fn attributes(volume: &bsdffs::Volume, path: &Path, follow: bool) -> io::Result<Metadata> {
    if follow { volume.metadata(path) } else { volume.symlink_metadata(path) }
}

#[pymethods]
impl DirEntry {
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.name, self.is_text)
    }

    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.path, self.is_text)
    }

    fn inode(&self) -> u64 {
        self.ino
    }

    #[pyo3(signature = (*, follow_symlinks=true))]
    fn is_dir(&self, py: Python<'_>, follow_symlinks: bool) -> PyResult<bool> {
        self.is_kind(py, FileType::Directory, follow_symlinks)
    }

    #[pyo3(signature = (*, follow_symlinks=true))]
    fn is_file(&self, py: Python<'_>, follow_symlinks: bool) -> PyResult<bool> {
        self.is_kind(py, FileType::Regular, follow_symlinks)
    }

    fn is_symlink(&self, py: Python<'_>) -> PyResult<bool> {
        self.is_kind(py, FileType::Symlink, false)
    }

    #[pyo3(signature = (*, follow_symlinks=true))]
    fn stat(&self, py: Python<'_>, follow_symlinks: bool) -> PyResult<Stat> {
        let found = self.with_path(py, |volume, path| attributes(volume, path, follow_symlinks));
        found.map(Stat::new)
    }

    fn __fspath__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.path(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<ffs.DirEntry {}>", self.name(py)?.repr()?))
    }
}

/// The names in a directory, as `os.listdir`.
pub(crate) fn names<'py>(
    py: Python<'py>,
    state: &State,
    path: &FsPath,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let names = state.run(py, &[path], |volume| {
        let entries = volume.read_dir(path.path())?;
        let name = |entry: bsdffs::DirEntry| entry.file_name().as_encoded_bytes().to_vec();
        entries.map(|entry| entry.map(name)).collect::<Result<Vec<Vec<u8>>, _>>()
    })?;
    names.iter().map(|name| path.name(py, name)).collect()
}

/// What a lookup does with a symbolic link at the end of a path.
pub(crate) fn last(follow_symlinks: bool) -> Last {
    if follow_symlinks { Last::Follow } else { Last::Keep }
}
