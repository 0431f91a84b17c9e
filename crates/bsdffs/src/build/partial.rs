//! The file of an unfinished image.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind::AlreadyExists};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ffs_device::lock::LockMode;
use ffs_device::partition::Window;
use ffs_device::{BlockDevice, FileDevice, LockWait};
use ffs_image::{Format, write_qcow2};

use super::BuildError;
use crate::copy::FileId;

/// The format of a file with the image of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageFormat {
    /// The bytes of the disk. What is zero is a hole of the file.
    #[default]
    Raw,
    /// qcow2, QEMU's format.
    Qcow2,
}

impl ImageFormat {
    /// The format of a new file with this name: qcow2 if it ends in `.qcow2`.
    ///
    /// # Errors
    /// The name is that of a format in which images are read, but not made.
    pub fn of_name(path: &Path) -> Result<ImageFormat, UnmadeFormat> {
        match Format::of_name(path) {
            None => Ok(ImageFormat::Raw),
            Some(Format::Qcow2) => Ok(ImageFormat::Qcow2),
            Some(other) => Err(UnmadeFormat(other)),
        }
    }
}

/// A format in which images are read, but not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnmadeFormat(pub Format);

impl fmt::Display for UnmadeFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "new images are raw or qcow2, not {}", self.0.name())
    }
}

impl std::error::Error for UnmadeFormat {}

/// The file of an unfinished image, beside the final one. Removed on drop unless it was installed.
pub(crate) struct PartialImage {
    path: PathBuf,
    /// A file has the name of the image already, and may be replaced.
    replaces: bool,
}

/// Names that are tried for the file: another process with the same number may use some.
const NAMES: u32 = 100;

impl PartialImage {
    /// Creates the file for the image at `path`. A file that has this name now may be replaced,
    /// one that appears later may not.
    pub(crate) fn create(path: &Path) -> Result<PartialImage, BuildError> {
        let replaces = fs::symlink_metadata(path).is_ok();
        let file_name = path.file_name().ok_or(BuildError::NoFileName)?;
        let mut n = 0;
        loop {
            let mut name = OsString::from(".");
            name.push(file_name);
            name.push(format!(".ffs-build.{}", std::process::id()));
            if n > 0 {
                name.push(format!(".{n}"));
            }
            let path = path.with_file_name(name);
            match FileDevice::create_sparse(&path, 0) {
                Ok(_) => return Ok(PartialImage { path, replaces }),
                Err(error) if error.source.kind() == AlreadyExists && n < NAMES => n += 1,
                Err(error) => return Err(BuildError::Create(error)),
            }
        }
    }

    /// The identity of the file, if it can be found.
    pub(crate) fn id(&self) -> Option<FileId> {
        fs::symlink_metadata(&self.path).ok().map(|found| FileId::from(&found))
    }

    /// Opens the file.
    fn file(&self) -> Result<File, BuildError> {
        File::options().read(true).write(true).open(&self.path).map_err(BuildError::Resize)
    }

    /// The bytes `range` of the disk as a device of zeros, open and locked. They are the last
    /// of the file.
    pub(crate) fn device(&self, range: Range<u64>) -> Result<Arc<dyn BlockDevice>, BuildError> {
        self.file()?.set_len(range.start).map_err(BuildError::Resize)?;
        self.part(range)
    }

    /// The whole disk, open and locked, with `size` bytes.
    pub(crate) fn whole(&self, size: u64) -> Result<Arc<dyn BlockDevice>, BuildError> {
        self.part(0..size)
    }

    /// Makes the file end where `range` does, and opens these bytes.
    fn part(&self, range: Range<u64>) -> Result<Arc<dyn BlockDevice>, BuildError> {
        self.file()?.set_len(range.end).map_err(BuildError::Resize)?;
        let device = FileDevice::open(&self.path, true).map_err(BuildError::Device)?;
        let mut device = device.scratch();
        let locked = device.lock(&self.path, LockMode::Exclusive, LockWait::No, true);
        locked.map_err(BuildError::Lock)?;
        let (name, len) = (self.path.display().to_string(), range.end - range.start);
        let window = Window::new(device, range.start, len, &name).map_err(BuildError::Device)?;
        Ok(Arc::new(window))
    }

    /// Gives the finished image its `format` and its name. A file of that name is replaced if it
    /// was there at the beginning. Stops when `cancelled` returns true.
    pub(crate) fn install(
        &self,
        path: &Path,
        format: ImageFormat,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), BuildError> {
        if cancelled() {
            return Err(BuildError::Cancelled);
        }
        match format {
            ImageFormat::Raw => self.rename(path),
            ImageFormat::Qcow2 => {
                let mut other = PartialImage::create(path)?;
                other.replaces = self.replaces;
                write_qcow2(&self.file()?, &other.file()?, cancelled).map_err(
                    |error| match error.kind() {
                        io::ErrorKind::Interrupted => BuildError::Cancelled,
                        _ => BuildError::Install(error),
                    },
                )?;
                other.rename(path)
            }
        }
    }

    fn rename(&self, path: &Path) -> Result<(), BuildError> {
        if self.replaces {
            // After a power failure there is the old image or the new one.
            File::open(&self.path)
                .and_then(|file| file.sync_all())
                .and_then(|()| fs::rename(&self.path, path))
                .map_err(BuildError::Install)
        } else {
            rename_new(&self.path, path).map_err(BuildError::Install)
        }
    }
}

/// Renames a file to a name that no file has.
#[cfg(target_os = "linux")]
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The host's file system cannot do that.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => fs::rename(from, to),
        other => Ok(other?),
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

impl Drop for PartialImage {
    fn drop(&mut self) {
        // After the rename there is no such file.
        let _ = fs::remove_file(&self.path);
    }
}
