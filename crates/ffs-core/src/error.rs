//! What an operation can fail with, and the errno each failure is to a program.

use ffs_device::DeviceError;
use ffs_ondisk::{Corrupt, Place, Structure};

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;

/// Failure of a file-system operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `ENOENT`.
    #[error("no such file or directory")]
    NotFound,
    /// `EEXIST`.
    #[error("file exists")]
    Exists,
    /// `ENOTDIR`.
    #[error("not a directory")]
    NotDirectory,
    /// `EISDIR`.
    #[error("is a directory")]
    IsDirectory,
    /// `ENOTEMPTY`.
    #[error("directory not empty")]
    NotEmpty,
    /// `EACCES`.
    #[error("permission denied")]
    Access,
    /// `EPERM`.
    #[error("operation not permitted")]
    NotPermitted,
    /// `EINVAL`.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// `ENAMETOOLONG`.
    #[error("file name too long")]
    NameTooLong,
    /// `ENOSPC`: no block.
    #[error("no space left on the file system")]
    NoSpace,
    /// `ENOSPC`: no inode.
    #[error("no inodes left on the file system")]
    NoInodes,
    /// `EFBIG`.
    #[error("file too large")]
    TooBig,
    /// `EMLINK`.
    #[error("too many links")]
    TooManyLinks,
    /// `EROFS`.
    #[error("read-only file system{0}")]
    ReadOnly(&'static str),
    /// `ESTALE`: the inode was freed and perhaps reused.
    #[error("stale file handle")]
    Stale,
    /// `ENXIO`: no data or hole behind the offset.
    #[error("no data or hole there")]
    NoData,
    /// `ENODATA`: no such extended attribute.
    #[error("no such attribute")]
    NoAttr,
    /// `ERANGE`: the buffer is too small for the value.
    #[error("buffer too small")]
    Range,
    /// `EOPNOTSUPP`.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// `EBUSY`.
    #[error("busy: {0}")]
    Busy(&'static str),
    /// `EIO`: the device failed.
    #[error(transparent)]
    Io(#[from] DeviceError),
    /// `EIO`: changes that wait for others that cannot be written.
    #[error("changes could not be written: what they wait for is not on the device")]
    Unwritten,
    /// `EIO` (or `EINVAL` at mount): the image breaks a rule of the format.
    #[error(transparent)]
    Format(#[from] ffs_ondisk::Error),
}

impl Error {
    /// A broken rule of the format.
    pub(crate) fn corrupt(
        structure: Structure,
        place: Place,
        field: &'static str,
        found: impl std::fmt::Display,
        expected: impl std::fmt::Display,
    ) -> Error {
        Error::Format(Corrupt::new(structure, place, field, found, expected).into())
    }

    /// The errno a program sees (Linux numbers).
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Error::NotPermitted => 1,
            Error::NotFound => 2,
            Error::Io(e) => e.errno(),
            Error::Format(_) | Error::Unwritten => 5,
            Error::NoData => 6,
            Error::Access => 13,
            Error::Busy(_) => 16,
            Error::Exists => 17,
            Error::NotDirectory => 20,
            Error::IsDirectory => 21,
            Error::Invalid(_) => 22,
            Error::TooBig => 27,
            Error::NoSpace | Error::NoInodes => 28,
            Error::ReadOnly(_) => 30,
            Error::TooManyLinks => 31,
            Error::Range => 34,
            Error::NameTooLong => 36,
            Error::NotEmpty => 39,
            Error::NoAttr => 61,
            Error::NotSupported(_) => 95,
            Error::Stale => 116,
        }
    }
}
