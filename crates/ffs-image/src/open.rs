//! Opening an image from the text of a user, `IMAGE` or `IMAGE@N`: opens and locks it, recognises
//! its format, and finds its partition.
//!
//! **Invariants.**
//! 1. Before the image is locked, only its size is read. The export of an NBD server has no lock.
//! 2. The lock lasts as long as the device.
//! 3. An error message includes what to do next.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ffs_device::partition::{self, Partition, Pick, Window};
use ffs_device::{BlockDevice, DeviceError, Operation};

use crate::error::OpenError;
use crate::image::DiskImage;
use crate::magic::Format;
use crate::options::OpenOptions;
use crate::spec::is_uri;
use crate::{disk, spec};

/// An open image. A clone shares the device and the lock.
#[derive(Clone)]
pub struct Opened {
    /// The file system's device: the partition, or the whole disk. Holds the lock.
    pub device: Arc<dyn BlockDevice>,
    /// The file or block device, or the URI of a server.
    pub path: PathBuf,
    /// The partition; `None` for the whole disk.
    pub partition: Option<Partition>,
    /// Problems of the partition table, as messages for users.
    pub notes: Vec<String>,
    /// The whole disk. Holds the lock.
    disk: Arc<dyn DiskImage>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Opened { path, partition, notes, .. } = self;
        let mut shown = f.debug_struct("Opened");
        shown.field("path", path).field("partition", partition).field("notes", notes);
        shown.finish_non_exhaustive()
    }
}

impl Opened {
    /// Opens what `spec` names if it is on the same file or block device: another partition, or the
    /// same one. The result shares the device and the lock of this image; `options` only determines
    /// how the partition is found. `None` if `spec` names another file.
    ///
    /// # Errors
    /// The partition is missing or ambiguous, or the table cannot be read.
    pub fn beside(
        &self,
        spec: impl AsRef<OsStr>,
        options: &OpenOptions,
    ) -> Result<Option<Opened>, OpenError> {
        let (path, pick) = spec::parse(spec.as_ref());
        let place = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
        let same = match (place(&self.path), place(&path)) {
            (Some(own), Some(other)) => own == other,
            _ => is_uri(path.as_os_str()) && path == self.path,
        };
        if !same {
            return Ok(None);
        }
        find(Arc::clone(&self.disk), path, &pick, options).map(Some)
    }

    /// The whole disk.
    #[must_use]
    pub fn disk(&self) -> &dyn BlockDevice {
        &*self.disk
    }

    /// The format of the image.
    #[must_use]
    pub fn format(&self) -> Format {
        self.disk.format()
    }

    /// What a user should know about the image: other files that it needs, and slow reads.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        self.disk.remarks()
    }

    /// Whether [`Opened::set_len`] can change the size: the volume is the whole of an image whose
    /// format allows it.
    #[must_use]
    pub fn can_resize(&self) -> bool {
        self.partition.is_none() && self.disk.can_resize()
    }

    /// Makes a disk that is the whole volume longer or shorter, under the lock that it has.
    ///
    /// # Errors
    /// `EINVAL` for a partition; as [`DiskImage::set_len`].
    pub fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        if self.partition.is_none() {
            return self.disk.set_len(len);
        }
        let name = self.path.display().to_string().into();
        let why = "a partition has the length that its table gives it";
        let why = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
        Err(DeviceError::new(&name, Operation::Resize, why))
    }

    /// Partition `number` of the same disk. The result shares the device and the lock of this
    /// image.
    ///
    /// # Errors
    /// The disk has no such partition, or the table cannot be read.
    pub fn partition(&self, number: u32, options: &OpenOptions) -> Result<Opened, OpenError> {
        find(Arc::clone(&self.disk), self.path.clone(), &Pick::Number(number), options)
    }

    /// The range of the file system's device on the disk, bytes.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        match &self.partition {
            None => 0..self.disk.len_bytes(),
            Some(partition) => partition.start..partition.start + partition.len,
        }
    }
}

/// Opens the image that `spec` names and finds the file system's device in it: see [`open`].
///
/// # Errors
/// As [`open`].
pub fn open_image(
    spec: impl AsRef<OsStr>,
    options: &OpenOptions,
) -> Result<Arc<dyn BlockDevice>, OpenError> {
    open(spec, options).map(|opened| opened.device)
}

/// Opens and locks the image that `spec` names, and selects the partition (see
/// [`partition::select`]). `spec` is `IMAGE`, `IMAGE@N` with a partition's number (0 for the whole
/// disk) or `IMAGE@p2` with its name. `IMAGE` is a file, a block device, or an NBD URI.
///
/// # Errors
/// The image cannot be opened or locked, its container is damaged or not supported, or its
/// partition is missing or ambiguous.
pub fn open(spec: impl AsRef<OsStr>, options: &OpenOptions) -> Result<Opened, OpenError> {
    let (path, pick) = spec::parse(spec.as_ref());
    let disk = disk::open(&path, options)?;
    find(disk, path, &pick, options)
}

/// Selects the partition on an open disk.
fn find(
    disk: Arc<dyn DiskImage>,
    path: PathBuf,
    pick: &Pick,
    options: &OpenOptions,
) -> Result<Opened, OpenError> {
    let write = options.write;
    let failed = |source| OpenError::Device { source, write };
    let device: Arc<dyn BlockDevice> = Arc::<dyn DiskImage>::clone(&disk);
    if *pick == Pick::Whole || (*pick == Pick::Auto && options.whole_disk) {
        return Ok(Opened { device, path, partition: None, notes: Vec::new(), disk });
    }
    let image = path.display().to_string();
    let table = partition::scan(&device).map_err(failed)?;
    let partition = partition::select(&device, &table, pick, options.probe)
        .map_err(|source| OpenError::Partition { image: image.clone(), source })?;
    let device = match &partition {
        None => device,
        Some(partition) => Arc::new(Window::of(device, partition, &image).map_err(failed)?),
    };
    Ok(Opened { device, path, partition, notes: table.notes, disk })
}

#[cfg(test)]
mod tests;
