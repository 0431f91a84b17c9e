//! Open files without a buffer. `ffs.RawFile` gives them the interface of `io.RawIOBase`.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};

use crate::error::os_error;
use crate::path::FsPath;
use crate::stat::Stat;
use crate::state::{Release, Slot};

/// Bytes that one step of a read moves. A larger read makes several steps, so its memory is
/// bounded for every length that a caller gives.
const STEP: usize = 1 << 20;

/// An open file of a volume.
#[pyclass(frozen, module = "ffs")]
pub(crate) struct File {
    slot: Arc<Slot<bsdffs::File>>,
    path: FsPath,
}

fn closed() -> PyErr {
    PyValueError::new_err("I/O operation on closed file")
}

impl File {
    pub(crate) fn new(slot: Arc<Slot<bsdffs::File>>, path: FsPath) -> File {
        File { slot, path }
    }

    /// Runs `work` on the file without the interpreter lock.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut bsdffs::File) -> io::Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| Ok::<_, PyErr>(self.slot.lock()?.as_mut().map(work)))?;
        done.ok_or_else(closed)?.map_err(|error| os_error(py, &error, &[&self.path]))
    }
}

/// Reads until `buf` is full or the file ends.
fn fill(file: &mut bsdffs::File, buf: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read(&mut buf[done..])? {
            0 => break,
            read => done += read,
        }
    }
    Ok(done)
}

/// Reads from the position to the end. The memory for it is requested first, so a damaged size
/// causes an error instead of a process that takes all memory.
pub(crate) fn read_to_end(file: &mut bsdffs::File) -> io::Result<Vec<u8>> {
    let position = file.stream_position()?;
    let left = file.metadata()?.len().saturating_sub(position);
    let mut content = Vec::new();
    let fits = usize::try_from(left).is_ok_and(|left| content.try_reserve_exact(left).is_ok());
    if !fits {
        let why = format!("no memory for the {left} bytes of the file; read it in parts");
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, why));
    }
    // The file may grow meanwhile: what is there when the read begins is enough.
    file.take(left).read_to_end(&mut content)?;
    Ok(content)
}

#[pymethods]
impl File {
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.slot.is_empty())
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.slot.release());
    }

    /// Reads into a view of bytes until it is full or the file ends.
    fn readinto(&self, py: Python<'_>, view: &Bound<'_, PyMemoryView>) -> PyResult<usize> {
        let (mut done, len) = (0, view.len()?);
        // The interpreter lock is released while a step is read, and held while it is copied:
        // other threads may use the buffer meanwhile.
        while done < len {
            let want = STEP.min(len - done);
            let step = self.run(py, |file| {
                let mut step = vec![0; want];
                let read = fill(file, &mut step)?;
                step.truncate(read);
                Ok(step)
            })?;
            let end = done + step.len();
            let part = view.get_item(PySlice::new(py, done as isize, end as isize, 1))?;
            PyBuffer::<u8>::get(&part)?.copy_from_slice(py, &step)?;
            done = end;
            if step.len() < want {
                break;
            }
        }
        Ok(done)
    }

    fn readall<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let content = self.run(py, read_to_end)?;
        Ok(PyBytes::new(py, &content))
    }

    fn pread<'py>(
        &self,
        py: Python<'py>,
        length: usize,
        offset: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let content = self.run(py, |file| {
            let left = file.metadata()?.len().saturating_sub(offset);
            let want = usize::try_from(left).unwrap_or(usize::MAX).min(length);
            let mut content = Vec::new();
            let fits = content.try_reserve_exact(want);
            fits.map_err(|why| io::Error::new(io::ErrorKind::OutOfMemory, why))?;
            content.resize(want, 0);
            let mut done = 0;
            while done < want {
                match file.read_at(&mut content[done..], offset + done as u64)? {
                    0 => break,
                    read => done += read,
                }
            }
            content.truncate(done);
            Ok(content)
        })?;
        Ok(PyBytes::new(py, &content))
    }

    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        // `bytes` never change, so they are written in place. Other buffers are copied.
        if data.is_instance_of::<PyBytes>() {
            let bytes = data.extract::<PyBackedBytes>()?;
            return self.run(py, |file| file.write(&bytes));
        }
        let buffer = PyBuffer::<u8>::get(data)?;
        let mut copy = Vec::new();
        let memory = |_| PyMemoryError::new_err("no memory for a copy of the data");
        copy.try_reserve_exact(buffer.item_count()).map_err(memory)?;
        copy.resize(buffer.item_count(), 0);
        buffer.copy_to_slice(py, &mut copy)?;
        self.run(py, |file| file.write(&copy))
    }

    #[pyo3(signature = (offset, whence=0))]
    fn seek(&self, py: Python<'_>, offset: i64, whence: u8) -> PyResult<u64> {
        let to = match whence {
            0 => SeekFrom::Start(u64::try_from(offset).map_err(|_| {
                let why = io::Error::new(io::ErrorKind::InvalidInput, "negative seek position");
                os_error(py, &why, &[&self.path])
            })?),
            1 => SeekFrom::Current(offset),
            2 => SeekFrom::End(offset),
            _ => return Err(PyValueError::new_err("whence is 0, 1 or 2")),
        };
        self.run(py, |file| file.seek(to))
    }

    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.run(py, |file| file.set_len(size))
    }

    #[pyo3(signature = (data_only=false))]
    fn sync(&self, py: Python<'_>, data_only: bool) -> PyResult<()> {
        self.run(py, |file| if data_only { file.sync_data() } else { file.sync_all() })
    }

    fn stat(&self, py: Python<'_>) -> PyResult<Stat> {
        self.run(py, |file| file.metadata()).map(Stat::new)
    }

    fn allocate(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<()> {
        self.run(py, |file| file.allocate(offset, length))
    }

    fn punch_hole(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<()> {
        self.run(py, |file| file.punch_hole(offset, length))
    }
}
