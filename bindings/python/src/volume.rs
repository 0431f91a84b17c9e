//! The class `Volume`: an open file system.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bsdffs::namei::Last;
use bsdffs::{FileFlags, VolumeOptions, flags, xattr};
use ffs_core::{Cred, Nature, SetAttr, SetTime, Timespec, XattrNamespace, XattrSet};
use pyo3::exceptions::{PyPermissionError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};

use crate::error::os_error;
use crate::file::{File, read_to_end};
use crate::listing::{self, ScandirIterator, last};
use crate::path::FsPath;
use crate::stat::{Stat, StatVfs};
use crate::state::State;
use crate::trees::{self, Direction};
use crate::waiting;

/// An open file system. `ffs.Volume` adds the methods that are written in Python.
#[pyclass(frozen, subclass, module = "ffs._ffs")]
pub(crate) struct Volume {
    state: Arc<State>,
    image: FsPath,
    write: bool,
}

/// A file flag by number or by names as of chflags(1).
#[derive(FromPyObject)]
enum Flags {
    Number(u32),
    Names(String),
}

/// `IMAGE@N`, or the image alone.
pub(crate) fn with_partition(image: &FsPath, partition: Option<u32>) -> PathBuf {
    let mut spec = image.bytes().to_vec();
    if let Some(number) = partition {
        spec.extend_from_slice(format!("@{number}").as_bytes());
    }
    PathBuf::from(OsString::from_vec(spec))
}

/// How long to wait for a lock, from seconds.
fn patience(seconds: f64) -> PyResult<Duration> {
    let wrong = |_| PyValueError::new_err("lock_timeout is a number of seconds, 0 or more");
    Duration::try_from_secs_f64(seconds).map_err(wrong)
}

fn attribute_name(name: &FsPath) -> io::Result<(XattrNamespace, &[u8])> {
    xattr::parse(name.bytes()).ok_or_else(|| {
        let why = "the name of an extended attribute is user.NAME or system.NAME";
        io::Error::new(ErrorKind::Unsupported, why)
    })
}

/// A time of `utime`: nanoseconds since 1970, which count forward from the second before.
fn timespec(nanoseconds: i128) -> io::Result<Timespec> {
    let secs = i64::try_from(nanoseconds.div_euclid(1_000_000_000));
    let secs = secs.map_err(|_| io::Error::new(ErrorKind::InvalidInput, "time out of range"))?;
    Ok(Timespec { secs, nsec: nanoseconds.rem_euclid(1_000_000_000) as i32 })
}

/// An owner as of `chown`: -1 keeps the present one.
fn owner(id: i64) -> io::Result<Option<u32>> {
    if id == -1 {
        return Ok(None);
    }
    let number = u32::try_from(id).map(Some);
    number.map_err(|_| io::Error::new(ErrorKind::InvalidInput, "an owner is a number of 32 bits"))
}

#[pymethods]
impl Volume {
    #[new]
    #[pyo3(signature = (image, mode="r", *, partition=None, snapshot=None, user=None,
                        lock_timeout=0.0))]
    fn new(
        py: Python<'_>,
        image: FsPath,
        mode: &str,
        partition: Option<u32>,
        snapshot: Option<FsPath>,
        user: Option<(u32, u32)>,
        lock_timeout: f64,
    ) -> PyResult<Volume> {
        let write = match mode {
            "r" => false,
            "r+" => true,
            other => {
                let why = format!("mode {other:?}: expected 'r' or 'r+'; ffs.newfs makes volumes");
                return Err(PyValueError::new_err(why));
            }
        };
        let patience = patience(lock_timeout)?;
        let cred = user.map_or_else(Cred::root, |(uid, gid)| Cred::user(uid, gid));
        let spec = with_partition(&image, partition);
        let options = VolumeOptions::default().write(write).cred(cred);
        let opened = waiting::open(py, patience, |wait| {
            let options = options.clone().lock_wait(wait);
            match &snapshot {
                Some(path) => options.open_snapshot(&spec, path.path()),
                None => options.open(&spec),
            }
        })?;
        let volume = opened.map_err(|error| os_error(py, &error, &[&image]))?;
        Ok(Volume { state: Arc::new(State::new(volume)), image, write })
    }

    #[getter]
    fn closed(&self) -> bool {
        self.state.is_closed()
    }

    /// Whether another process opened the volume: this one is a child of it.
    #[getter(_inherited)]
    fn is_inherited(&self) -> bool {
        self.state.process().is_other()
    }

    #[getter]
    fn image(&self, py: Python<'_>) -> Py<PyAny> {
        self.image.original.clone_ref(py)
    }

    #[getter]
    fn mode(&self) -> &'static str {
        if self.write { "r+" } else { "r" }
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.state.process().check()?;
        let closed = py.detach(|| self.state.close());
        closed.map_err(|error| os_error(py, &error, &[&self.image]))
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.state.run(py, &[&self.image], bsdffs::Volume::sync)
    }

    fn statvfs(&self, py: Python<'_>) -> PyResult<StatVfs> {
        self.state.run(py, &[], |volume| Ok(StatVfs::of(volume)))
    }

    #[pyo3(signature = (path, *, follow_symlinks=true))]
    fn stat(&self, py: Python<'_>, path: FsPath, follow_symlinks: bool) -> PyResult<Stat> {
        let found = self.state.run(py, &[&path], |volume| match follow_symlinks {
            true => volume.metadata(path.path()),
            false => volume.symlink_metadata(path.path()),
        });
        found.map(Stat::new)
    }

    fn lstat(&self, py: Python<'_>, path: FsPath) -> PyResult<Stat> {
        self.stat(py, path, false)
    }

    #[pyo3(signature = (path=None))]
    fn listdir<'py>(
        &self,
        py: Python<'py>,
        path: Option<FsPath>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        listing::names(py, &self.state, &or_root(py, path)?)
    }

    #[pyo3(signature = (path=None))]
    fn scandir(&self, py: Python<'_>, path: Option<FsPath>) -> PyResult<ScandirIterator> {
        let path = or_root(py, path)?;
        let entries = self.state.run(py, &[&path], |volume| volume.read_dir(path.path()))?;
        Ok(ScandirIterator::new(&self.state, entries, path))
    }

    #[pyo3(name = "_open")]
    #[pyo3(signature = (path, *, read=false, write=false, append=false, truncate=false,
                        create=false, exclusive=false, perm=0o644))]
    #[expect(clippy::too_many_arguments, reason = "the flags of open(2), by name")]
    fn open_file(
        &self,
        py: Python<'_>,
        path: FsPath,
        read: bool,
        write: bool,
        append: bool,
        truncate: bool,
        create: bool,
        exclusive: bool,
        perm: u32,
    ) -> PyResult<File> {
        let mut options = bsdffs::OpenOptions::new();
        options.read(read).write(write).append(append).truncate(truncate);
        options.create(create).create_new(exclusive).mode(perm);
        let file = self.state.run(py, &[&path], |volume| {
            let file = options.open(volume, path.path())?;
            match file.metadata()?.is_dir() {
                // As open() in Python, which refuses directories also for reading.
                true => Err(ffs_core::Error::IsDirectory.into()),
                false => Ok(file),
            }
        })?;
        Ok(File::new(self.state.register(file), path))
    }

    fn read_bytes<'py>(&self, py: Python<'py>, path: FsPath) -> PyResult<Bound<'py, PyBytes>> {
        let content = self
            .state
            .run(py, &[&path], |volume| read_to_end(&mut volume.open_file(path.path())?))?;
        Ok(PyBytes::new(py, &content))
    }

    fn write_bytes(&self, py: Python<'_>, path: FsPath, data: PyBackedBytes) -> PyResult<usize> {
        self.state.run(py, &[&path], |volume| volume.write(path.path(), &data))?;
        Ok(data.len())
    }

    #[pyo3(signature = (path, mode=0o755))]
    fn mkdir(&self, py: Python<'_>, path: FsPath, mode: u32) -> PyResult<()> {
        self.state.run(py, &[&path], |volume| {
            volume.create_dir(path.path())?;
            match mode & 0o7777 {
                0o755 => Ok(()),
                mode => volume.set_permissions(path.path(), bsdffs::Permissions::from_mode(mode)),
            }
        })
    }

    fn rmdir(&self, py: Python<'_>, path: FsPath) -> PyResult<()> {
        self.state.run(py, &[&path], |volume| volume.remove_dir(path.path()))
    }

    fn remove(&self, py: Python<'_>, path: FsPath) -> PyResult<()> {
        self.state.run(py, &[&path], |volume| volume.remove_file(path.path()))
    }

    fn unlink(&self, py: Python<'_>, path: FsPath) -> PyResult<()> {
        self.remove(py, path)
    }

    fn rmtree(&self, py: Python<'_>, path: FsPath) -> PyResult<()> {
        self.state.run(py, &[&path], |volume| volume.remove_dir_all(path.path()))
    }

    fn rename(&self, py: Python<'_>, src: FsPath, dst: FsPath) -> PyResult<()> {
        self.state.run(py, &[&src, &dst], |volume| volume.rename(src.path(), dst.path()))
    }

    fn replace(&self, py: Python<'_>, src: FsPath, dst: FsPath) -> PyResult<()> {
        self.rename(py, src, dst)
    }

    fn symlink(&self, py: Python<'_>, src: FsPath, dst: FsPath) -> PyResult<()> {
        self.state.run(py, &[&src, &dst], |volume| volume.symlink(src.path(), dst.path()))
    }

    fn link(&self, py: Python<'_>, src: FsPath, dst: FsPath) -> PyResult<()> {
        self.state.run(py, &[&src, &dst], |volume| volume.hard_link(src.path(), dst.path()))
    }

    fn readlink<'py>(&self, py: Python<'py>, path: FsPath) -> PyResult<Bound<'py, PyAny>> {
        let target = self.state.run(py, &[&path], |volume| volume.read_link(path.path()))?;
        path.name(py, target.as_os_str().as_encoded_bytes())
    }

    #[pyo3(signature = (path, mode, *, follow_symlinks=true))]
    fn chmod(
        &self,
        py: Python<'_>,
        path: FsPath,
        mode: u32,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        let set = SetAttr { perm: Some((mode & 0o7777) as u16), ..SetAttr::default() };
        self.set(py, &path, follow_symlinks, || Ok(set))
    }

    #[pyo3(signature = (path, uid, gid, *, follow_symlinks=true))]
    fn chown(
        &self,
        py: Python<'_>,
        path: FsPath,
        uid: i64,
        gid: i64,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        self.set(py, &path, follow_symlinks, || {
            Ok(SetAttr { uid: owner(uid)?, gid: owner(gid)?, ..SetAttr::default() })
        })
    }

    /// Sets access and modification time in nanoseconds; without times, to the present.
    #[pyo3(name = "_utime")]
    #[pyo3(signature = (path, *, ns=None, birthtime_ns=None, follow_symlinks=true))]
    fn utime_ns(
        &self,
        py: Python<'_>,
        path: FsPath,
        ns: Option<(i128, i128)>,
        birthtime_ns: Option<i128>,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        self.set(py, &path, follow_symlinks, || {
            let (atime, mtime) = match ns {
                Some((atime, mtime)) => {
                    (SetTime::To(timespec(atime)?), SetTime::To(timespec(mtime)?))
                }
                None => (SetTime::Now, SetTime::Now),
            };
            let birthtime = birthtime_ns.map(timespec).transpose()?;
            let (atime, mtime) = (Some(atime), Some(mtime));
            Ok(SetAttr { atime, mtime, birthtime, ..SetAttr::default() })
        })
    }

    fn truncate(&self, py: Python<'_>, path: FsPath, length: u64) -> PyResult<()> {
        let set = SetAttr { size: Some(length), ..SetAttr::default() };
        self.set(py, &path, true, || Ok(set))
    }

    #[pyo3(signature = (path, flags, *, follow_symlinks=true))]
    fn chflags(
        &self,
        py: Python<'_>,
        path: FsPath,
        flags: Flags,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        let new = |old: FileFlags| match &flags {
            Flags::Number(bits) => Ok(FileFlags::from_bits_retain(*bits)),
            Flags::Names(names) => flags::FlagsChange::parse(names).map(|change| change.apply(old)),
        };
        new(FileFlags::empty()).map_err(PyValueError::new_err)?;
        self.state.run(py, &[&path], |volume| {
            let file = volume.lookup(path.path(), last(follow_symlinks))?;
            let new = new(volume.fs().getattr(&file).flags);
            let new = new.map_err(|why| io::Error::new(ErrorKind::InvalidInput, why))?;
            let set = SetAttr { flags: Some(new), ..SetAttr::default() };
            Ok(volume.fs().setattr(volume.cred(), &file, &set).map(|_| ())?)
        })
    }

    #[pyo3(signature = (path, attribute, *, follow_symlinks=true))]
    fn getxattr<'py>(
        &self,
        py: Python<'py>,
        path: FsPath,
        attribute: FsPath,
        follow_symlinks: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.state.run(py, &[&path], |volume| {
            let (space, name) = attribute_name(&attribute)?;
            let file = volume.lookup(path.path(), last(follow_symlinks))?;
            Ok(volume.fs().getxattr(volume.cred(), &file, space, name)?)
        })?;
        Ok(PyBytes::new(py, &value))
    }

    #[pyo3(signature = (path, attribute, value, flags=0, *, follow_symlinks=true))]
    fn setxattr(
        &self,
        py: Python<'_>,
        path: FsPath,
        attribute: FsPath,
        value: PyBackedBytes,
        flags: u32,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        // os.XATTR_CREATE and os.XATTR_REPLACE.
        let how = match flags {
            0 => XattrSet::Any,
            1 => XattrSet::Create,
            2 => XattrSet::Replace,
            _ => return Err(PyValueError::new_err("flags is 0, XATTR_CREATE or XATTR_REPLACE")),
        };
        self.state.run(py, &[&path], |volume| {
            let (space, name) = attribute_name(&attribute)?;
            let file = volume.lookup(path.path(), last(follow_symlinks))?;
            Ok(volume.fs().setxattr(volume.cred(), &file, space, name, &value, how)?)
        })
    }

    #[pyo3(signature = (path=None, *, follow_symlinks=true))]
    fn listxattr<'py>(
        &self,
        py: Python<'py>,
        path: Option<FsPath>,
        follow_symlinks: bool,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let path = or_root(py, path)?;
        let names = self.state.run(py, &[&path], |volume| {
            let file = volume.lookup(path.path(), last(follow_symlinks))?;
            Ok(volume.fs().listxattr(volume.cred(), &file)?)
        })?;
        let full = |(space, name): &(_, Vec<u8>)| xattr::full_name(*space, name);
        names.iter().map(|name| crate::path::to_python(py, &full(name), true)).collect()
    }

    #[pyo3(signature = (path, attribute, *, follow_symlinks=true))]
    fn removexattr(
        &self,
        py: Python<'_>,
        path: FsPath,
        attribute: FsPath,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        self.state.run(py, &[&path], |volume| {
            let (space, name) = attribute_name(&attribute)?;
            let file = volume.lookup(path.path(), last(follow_symlinks))?;
            Ok(volume.fs().removexattr(volume.cred(), &file, space, name)?)
        })
    }

    #[pyo3(name = "_copy_in", signature = (src, dst, *, preserve=true, existing="replace"))]
    fn copy_in_dict<'py>(
        &self,
        py: Python<'py>,
        src: FsPath,
        dst: FsPath,
        preserve: bool,
        existing: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = trees::options(preserve, existing)?;
        trees::copy(py, &self.state, (&src, &dst), options, Direction::In)
    }

    #[pyo3(name = "_copy_out", signature = (src, dst, *, preserve=true, existing="replace"))]
    fn copy_out_dict<'py>(
        &self,
        py: Python<'py>,
        src: FsPath,
        dst: FsPath,
        preserve: bool,
        existing: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = trees::options(preserve, existing)?;
        trees::copy(py, &self.state, (&src, &dst), options, Direction::Out)
    }

    /// Name, value, kind and meaning of every switch, counter and gauge, sorted by name.
    #[pyo3(name = "_sysctl")]
    fn sysctl_list(
        &self,
        py: Python<'_>,
    ) -> PyResult<Vec<(&'static str, String, &'static str, &'static str)>> {
        let all = self.state.run(py, &[], |volume| Ok(volume.fs().sysctl()))?;
        let kind = |nature| match nature {
            Nature::Switch(_) => "switch",
            Nature::Counter => "counter",
            Nature::Gauge => "gauge",
        };
        Ok(all.into_iter().map(|s| (s.name, s.value, kind(s.nature), s.meaning)).collect())
    }

    #[pyo3(name = "_set_sysctl")]
    fn sysctl_set(&self, py: Python<'_>, name: &str, value: &str) -> PyResult<()> {
        use ffs_core::TunableError as E;
        let set = self.state.run(py, &[], |volume| Ok(volume.fs().set_tunable(name, value)))?;
        match set {
            Ok(_) => Ok(()),
            Err(error @ E::ReadOnly(_)) => Err(PyPermissionError::new_err(error.to_string())),
            Err(error @ E::Unknown { .. }) => {
                Err(pyo3::exceptions::PyKeyError::new_err(error.to_string()))
            }
            Err(error) => Err(PyValueError::new_err(error.to_string())),
        }
    }
}

impl Volume {
    fn set(
        &self,
        py: Python<'_>,
        path: &FsPath,
        follow: bool,
        set: impl FnOnce() -> io::Result<SetAttr> + Send,
    ) -> PyResult<()> {
        let last: Last = last(follow);
        self.state.run(py, &[path], |volume| volume.set_attributes(path.path(), last, &set()?))
    }
}

/// The path, or the root directory.
fn or_root(py: Python<'_>, path: Option<FsPath>) -> PyResult<FsPath> {
    match path {
        Some(path) => Ok(path),
        None => pyo3::types::PyString::new(py, "/").extract(),
    }
}
