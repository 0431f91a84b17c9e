//! Why an image cannot be opened. Each message includes what to do next.

use std::io::ErrorKind;

use ffs_device::lock::LockError;
use ffs_device::partition::SelectError;
use ffs_device::{DeviceError, shell_word};
use rustix::io::Errno;

use crate::magic::Format;
use crate::nbd::NbdError;
use crate::spec::is_uri;

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
    /// No program writes this variant of the format, and the image was to be changed.
    #[error(
        "{image}: {} image: {why}; to change it, convert it: qemu-img convert -O qcow2 {} NEW",
        .format.name(), shell_word(image)
    )]
    ReadOnly {
        /// The name of the image as the user gave it.
        image: String,
        /// Its format.
        format: Format,
        /// Which variant it is.
        why: String,
    },
    /// It is compressed, and was to be changed.
    #[error(
        "{image} is compressed with {}, so it can only be read; to change it, expand it first: {}",
        .format.name(), expand_hint(image, *.format)
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
            OpenError::Compressed { .. }
            | OpenError::ReadOnly { .. }
            | OpenError::Nbd(NbdError::ReadOnly { .. }) => true,
            OpenError::Device { source, write: true } => {
                let errno = Errno::from_raw_os_error(source.errno());
                matches!(errno, Errno::ACCESS | Errno::PERM | Errno::ROFS)
            }
            _ => false,
        }
    }

    /// Whether it is a block device that is write-protected, and was to be opened for changes.
    #[must_use]
    pub fn is_write_protected(&self) -> bool {
        // A file system of the host that is read-only has the error number of the system.
        matches!(self, OpenError::Device { source, write: true }
            if source.source.kind() == ErrorKind::ReadOnlyFilesystem
                && source.source.raw_os_error().is_none())
    }

    /// The error number for a system-call interface.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            OpenError::Device { source, .. } => source.errno(),
            OpenError::Lock(error) => error.errno(),
            OpenError::Partition { source: SelectError::Device(error), .. } => error.errno(),
            OpenError::Nbd(error) => error.errno(),
            OpenError::Compressed { .. } | OpenError::ReadOnly { .. } => Errno::ROFS.raw_os_error(),
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

/// How a compressed image can be made one that can be changed.
fn expand_hint(image: &str, format: Format) -> String {
    let program = format.decompressor().unwrap_or("cat");
    if is_uri(image.as_ref()) {
        return format!("let the server do so, or copy the export to a file, and {program} it");
    }
    format!("the option --write of ffs does so, or {program} {} > RAW", shell_word(image))
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
        // The device's own words say what to do.
        (Errno::ROFS, _) if error.source.raw_os_error().is_none() => "",
        (Errno::ROFS, _) => "; it can only be read where it is",
        _ => "",
    }
}
