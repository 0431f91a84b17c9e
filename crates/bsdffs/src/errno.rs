//! The errno of an error, for callers in languages whose errors are errnos.

use std::error::Error as _;
use std::io::{self, ErrorKind};

use ffs_core::Error;
use ffs_device::DeviceError;

use crate::namei::PathError;

/// The errno of an error of this crate (Linux numbers): that of the operation that failed, or one
/// that fits the kind of the error. `EIO` if there is none.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let image = dir.path().join("disk.img");
/// # bsdffs::format(&image, 16 << 20)?;
/// let volume = bsdffs::Volume::open(&image)?;
/// let missing = volume.metadata("/no/such/file").unwrap_err();
/// assert_eq!(bsdffs::errno(&missing), 2); // ENOENT
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn errno(error: &io::Error) -> i32 {
    if let Some(errno) = error.raw_os_error() {
        return errno;
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> =
        error.get_ref().map(|inner| inner as _);
    while let Some(inner) = cause {
        if let Some(errno) = of_cause(inner) {
            return errno;
        }
        cause = inner.source();
    }
    of_kind(error.kind())
}

/// The errno that an error has by itself.
fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<i32> {
    if let Some(error) = cause.downcast_ref::<Error>() {
        return Some(error.errno());
    }
    if let Some(error) = cause.downcast_ref::<DeviceError>() {
        return Some(error.errno());
    }
    if let Some(PathError::Loop) = cause.downcast_ref::<PathError>() {
        return Some(libc::ELOOP);
    }
    let error = cause.downcast_ref::<io::Error>()?;
    error.raw_os_error().or_else(|| error.source().is_none().then(|| of_kind(error.kind())))
}

/// The errno that leads to this kind.
fn of_kind(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::PermissionDenied => libc::EACCES,
        ErrorKind::AlreadyExists => libc::EEXIST,
        ErrorKind::NotADirectory => libc::ENOTDIR,
        ErrorKind::IsADirectory => libc::EISDIR,
        ErrorKind::DirectoryNotEmpty => libc::ENOTEMPTY,
        ErrorKind::ReadOnlyFilesystem => libc::EROFS,
        ErrorKind::StorageFull => libc::ENOSPC,
        ErrorKind::QuotaExceeded => libc::EDQUOT,
        ErrorKind::FileTooLarge => libc::EFBIG,
        ErrorKind::ResourceBusy => libc::EBUSY,
        ErrorKind::WouldBlock => libc::EAGAIN,
        ErrorKind::TooManyLinks => libc::EMLINK,
        ErrorKind::InvalidInput => libc::EINVAL,
        ErrorKind::TimedOut => libc::ETIMEDOUT,
        ErrorKind::Interrupted => libc::EINTR,
        ErrorKind::Unsupported => libc::EOPNOTSUPP,
        ErrorKind::OutOfMemory => libc::ENOMEM,
        _ => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_their_errno() {
        for (error, number) in [
            (io::Error::from(Error::NoAttr), Error::NoAttr.errno()),
            (Error::Quota.into(), libc::EDQUOT),
            (PathError::Loop.into(), libc::ELOOP),
            (PathError::Fs(Error::NameTooLong).into(), libc::ENAMETOOLONG),
            (io::Error::from_raw_os_error(libc::ENXIO), libc::ENXIO),
            (io::Error::new(ErrorKind::StorageFull, "full"), libc::ENOSPC),
            (io::Error::other(io::Error::from_raw_os_error(libc::EROFS)), libc::EROFS),
            (io::Error::other("anything"), libc::EIO),
        ] {
            assert_eq!(errno(&error), number, "{error:?}");
        }
    }
}
