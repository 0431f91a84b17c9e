//! The errors of operations, and their errnos.

use ffs_device::DeviceError;
use ffs_ondisk::{Corrupt, Place, Structure};

/// A result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The errno of a missing attribute. BSD has a number of its own for it.
#[cfg(target_os = "linux")]
const NO_ATTR: i32 = libc::ENODATA;
#[cfg(not(target_os = "linux"))]
const NO_ATTR: i32 = libc::ENOATTR;

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
    /// `ENOSPC`: the attributes of a file would be larger than their area, of this many bytes.
    #[error("the attributes of a file have at most {0} bytes on this volume")]
    AttributesFull(usize),
    /// `ENOSPC`: the superblock lists 20 snapshots.
    #[error("the volume has 20 snapshots, and cannot have more")]
    TooManySnapshots,
    /// `EDQUOT`: a quota of the file's owner or group.
    #[error("disk quota exceeded")]
    Quota,
    /// `ENOENT`: quotas cannot be turned on.
    #[error("the root directory has no quota file ({0}): `ffs quotacheck -u` or `-g` creates one")]
    NoQuotaFile(&'static str),
    /// `EPERM`: a quota file that others than root may have changed.
    #[error("{name} is not used as a quota file: {why}")]
    UnsafeQuotaFile {
        /// The name in the root directory.
        name: &'static str,
        /// The reason, and what to do.
        why: String,
    },
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
    /// `EEXIST`: a file has a name that the check of a snapshot needs for something else.
    #[error("{path} in the volume is not {wanted}: remove or rename it")]
    InTheWay {
        /// The path, from the root of the volume.
        path: &'static str,
        /// What has to be there, or nothing.
        wanted: &'static str,
    },
    /// `EIO`: the device failed.
    #[error(transparent)]
    Io(#[from] DeviceError),
    /// `EIO`: changes could not be written, because they depend on changes whose writes fail.
    #[error("changes could not be written: they depend on changes that are not on the device")]
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

    /// The errno that programs get (Linux numbers).
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Error::NotPermitted | Error::UnsafeQuotaFile { .. } => libc::EPERM,
            Error::NotFound | Error::NoQuotaFile(_) => libc::ENOENT,
            Error::Io(e) => e.errno(),
            Error::Format(_) | Error::Unwritten => libc::EIO,
            Error::NoData => libc::ENXIO,
            Error::Access => libc::EACCES,
            Error::Busy(_) => libc::EBUSY,
            Error::Exists | Error::InTheWay { .. } => libc::EEXIST,
            Error::NotDirectory => libc::ENOTDIR,
            Error::IsDirectory => libc::EISDIR,
            Error::Invalid(_) => libc::EINVAL,
            Error::TooBig => libc::EFBIG,
            Error::NoSpace
            | Error::NoInodes
            | Error::AttributesFull(_)
            | Error::TooManySnapshots => libc::ENOSPC,
            Error::Quota => libc::EDQUOT,
            Error::ReadOnly(_) => libc::EROFS,
            Error::TooManyLinks => libc::EMLINK,
            Error::Range => libc::ERANGE,
            Error::NameTooLong => libc::ENAMETOOLONG,
            Error::NotEmpty => libc::ENOTEMPTY,
            Error::NoAttr => NO_ATTR,
            Error::NotSupported(_) => libc::EOPNOTSUPP,
            Error::Stale => libc::ESTALE,
        }
    }
}

/// The kind is that of the errno, as in [`std::fs`]. The source is this error.
impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        let kind = std::io::Error::from_raw_os_error(error.errno()).kind();
        std::io::Error::new(kind, error)
    }
}
