//! The file of an unfinished image.

use std::ffi::OsString;
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ffs_device::lock::LockMode;
use ffs_device::partition::Window;
use ffs_device::{BlockDevice, FileDevice, LockWait};
use ffs_image::write_qcow2;

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
    /// The format that the name of a file asks for: qcow2 if it ends in `.qcow2`.
    #[must_use]
    pub fn of_name(path: &Path) -> ImageFormat {
        match path.extension() {
            Some(end) if end.eq_ignore_ascii_case("qcow2") => ImageFormat::Qcow2,
            _ => ImageFormat::Raw,
        }
    }
}

/// The file of an unfinished image, beside the final one. Removed on drop unless it was installed.
pub(crate) struct PartialImage(PathBuf);

impl PartialImage {
    /// Creates the file for the image at `path`.
    pub(crate) fn create(path: &Path) -> Result<PartialImage, BuildError> {
        let file_name = path.file_name().ok_or(BuildError::NoFileName)?;
        let mut name = OsString::from(".");
        name.push(file_name);
        name.push(format!(".ffs-build.{}", std::process::id()));
        let partial = PartialImage(path.with_file_name(name));
        FileDevice::create_sparse(&partial.0, 0).map_err(BuildError::Create)?;
        Ok(partial)
    }

    /// The identity of the file, if it can be found.
    pub(crate) fn id(&self) -> Option<FileId> {
        fs::symlink_metadata(&self.0).ok().map(|found| FileId::from(&found))
    }

    /// Opens the file.
    fn file(&self) -> Result<File, BuildError> {
        File::options().read(true).write(true).open(&self.0).map_err(BuildError::Resize)
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
        let device = FileDevice::open(&self.0, true).map_err(BuildError::Device)?;
        let mut device = device.scratch();
        let locked = device.lock(&self.0, LockMode::Exclusive, LockWait::No, true);
        locked.map_err(BuildError::Lock)?;
        let (name, len) = (self.0.display().to_string(), range.end - range.start);
        let window = Window::new(device, range.start, len, &name).map_err(BuildError::Device)?;
        Ok(Arc::new(window))
    }

    /// Gives the finished image its `format` and its name. A file of that name is replaced.
    pub(crate) fn install(&self, path: &Path, format: ImageFormat) -> Result<(), BuildError> {
        match format {
            ImageFormat::Raw => self.rename(path),
            ImageFormat::Qcow2 => {
                let mut name = self.0.clone().into_os_string();
                name.push(".qcow2");
                let other = PartialImage(name.into());
                FileDevice::create_sparse(&other.0, 0).map_err(BuildError::Create)?;
                write_qcow2(&self.file()?, &other.file()?).map_err(BuildError::Install)?;
                other.rename(path)
            }
        }
    }

    fn rename(&self, path: &Path) -> Result<(), BuildError> {
        if path.exists() {
            // After a power failure there is the old image or the new one.
            File::open(&self.0).and_then(|file| file.sync_all()).map_err(BuildError::Install)?;
        }
        fs::rename(&self.0, path).map_err(BuildError::Install)
    }
}

impl Drop for PartialImage {
    fn drop(&mut self) {
        // After the rename there is no such file.
        let _ = fs::remove_file(&self.0);
    }
}
