//! Opening an image from the text of a user, `IMAGE` or `IMAGE@N`: opens and locks it, recognises
//! its format, and finds its partition.
//!
//! **Invariants.**
//! 1. Before the image is locked, only its size is read. The export of an NBD server has no lock.
//! 2. The lock lasts as long as the device.
//! 3. An error message includes what to do next.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ffs_device::lock::{LockError, LockWait};
use ffs_device::partition::{self, Partition, Pick, Probe, SelectError, Window};
use ffs_device::{BlockDevice, DeviceError, Operation};
use rustix::io::Errno;

use crate::disk::{self, DiskImage};
use crate::nbd::NbdError;
use crate::{Format, is_uri, spec};

/// How to open an image.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenOptions {
    /// Open for changes, exclusively; otherwise for reading, together with other readers.
    pub write: bool,
    /// How long to wait for the lock.
    pub lock_wait: LockWait,
    /// Recognises the file system to find; without it only the partition types decide.
    pub probe: Option<Probe>,
    /// Without `@N`, use the whole disk and read no partition table: for creating a file system.
    pub whole_disk: bool,
    /// Allow the kernel to use the block device: for a `fuseblk` mount, where it does.
    pub kernel_may_use: bool,
    /// Start no other program (`qemu-nbd`) for a format that this crate does not read itself.
    pub no_helper: bool,
}

/// An open image.
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

    /// The range of the file system's device on the disk, bytes.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        match &self.partition {
            None => 0..self.disk.len_bytes(),
            Some(partition) => partition.start..partition.start + partition.len,
        }
    }
}

/// Why an image could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system reported an error.
    #[error("{source}{}", hint(.source, *.write))]
    Device {
        /// The error.
        source: DeviceError,
        /// Whether it was opened for changes.
        write: bool,
    },
    /// Another opener has locked it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The partition is missing or ambiguous.
    #[error("{image}: {source}")]
    Partition {
        /// The name of the image as the user gave it.
        image: String,
        /// The error.
        source: SelectError,
    },
    /// The server cannot be reached, or refused.
    #[error(transparent)]
    Nbd(#[from] NbdError),
    /// The container is damaged.
    #[error("{image}: {} image: {why}", .format.name())]
    Damaged {
        /// The name of the image as the user gave it.
        image: String,
        /// Its format.
        format: Format,
        /// What is wrong.
        why: String,
    },
    /// Neither a driver of this program nor `qemu-nbd` reads the image.
    #[error("{image}: {} image: {why}", .format.name())]
    Unsupported {
        /// The name of the image as the user gave it.
        image: String,
        /// Its format.
        format: Format,
        /// What is missing.
        why: String,
    },
    /// It is compressed, and was to be changed.
    #[error(
        "{image} is compressed with {}, so it can only be read; to change it, expand it first: \
         {} {image} > RAW",
        .format.name(), .format.decompressor().unwrap_or("cat")
    )]
    Compressed {
        /// The name of the image as the user gave it.
        image: String,
        /// Its format.
        format: Format,
    },
}

impl OpenError {
    /// Whether it might be opened for reading, although not for changes.
    #[must_use]
    pub fn may_be_readable(&self) -> bool {
        match self {
            OpenError::Compressed { .. } | OpenError::Nbd(NbdError::ReadOnly { .. }) => true,
            OpenError::Device { source, write: true } => {
                let errno = Errno::from_raw_os_error(source.errno());
                matches!(errno, Errno::ACCESS | Errno::PERM | Errno::ROFS)
            }
            _ => false,
        }
    }

    /// The error number for a system-call interface.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            OpenError::Device { source, .. } => source.errno(),
            OpenError::Lock(error) => error.errno(),
            OpenError::Partition { source: SelectError::Device(error), .. } => error.errno(),
            OpenError::Nbd(error) => error.errno(),
            OpenError::Compressed { .. } => Errno::ROFS.raw_os_error(),
            OpenError::Damaged { .. } => Errno::IO.raw_os_error(),
            OpenError::Partition { .. } | OpenError::Unsupported { .. } => {
                Errno::INVAL.raw_os_error()
            }
        }
    }
}

/// The kind is that of the errno, as in [`std::fs`]; the source is this error.
impl From<OpenError> for std::io::Error {
    fn from(error: OpenError) -> std::io::Error {
        let kind = std::io::Error::from_raw_os_error(error.errno()).kind();
        std::io::Error::new(kind, error)
    }
}

fn hint(error: &DeviceError, write: bool) -> &'static str {
    match (Errno::from_raw_os_error(error.errno()), write) {
        (Errno::NOENT, _) => "; check the path",
        (Errno::ISDIR, _) => "; an image is a file or a block device",
        (Errno::PERM, true) => {
            "; if it is immutable or append-only (see lsattr), chattr changes that"
        }
        (Errno::ACCESS, true) => "; do it as a user who may write to it",
        (Errno::ACCESS | Errno::PERM, false) => "; do it as a user who may read it",
        (Errno::ROFS, _) => "; it can only be read where it is",
        _ => "",
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
