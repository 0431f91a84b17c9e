//! Extended attributes of host files. On Linux ACLs are among them, under the names [`ACCESS`] and
//! [`DEFAULT`]. On other systems files have none here, and none can be set.

pub(crate) use system::{file_xattrs, path_xattrs, remove_xattr, set_xattr, xattr_names};

use crate::copy::report::Loss;

/// The attribute with the access ACL of a file.
pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute with the default ACL of a directory.
pub(super) const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Names and values of extended attributes.
pub(super) type HostXattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// The loss to record for an attribute of a name space that UFS does not have.
pub(crate) fn loss_of_attribute(full: &[u8]) -> Loss {
    match full.split(|&byte| byte == b'.').next() {
        Some(b"security") => Loss::SecurityXattr,
        Some(b"system") => Loss::SystemXattr,
        _ => Loss::Xattr,
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::CStr;
    use std::os::fd::{AsFd, AsRawFd};

    use rustix::fs::{Mode, OFlags, XattrFlags};
    use rustix::io::{Errno, Result};

    use super::HostXattrs;

    /// All extended attributes of an open file.
    pub(crate) fn file_xattrs(fd: impl AsFd) -> Result<HostXattrs> {
        let fd = fd.as_fd();
        with_values(xattr_names(fd)?, |name, buf| rustix::fs::fgetxattr(fd, name, buf))
    }

    /// All extended attributes of the file `name` in `dir`, which need not be readable. A symbolic
    /// link is not followed.
    pub(crate) fn path_xattrs(dir: impl AsFd, name: &CStr) -> Result<HostXattrs> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let names = names(|buf| rustix::fs::listxattr(&path, buf))?;
        with_values(names, |name, buf| rustix::fs::getxattr(&path, name, buf))
    }

    /// The names of the extended attributes of an open file.
    pub(crate) fn xattr_names(fd: impl AsFd) -> Result<Vec<Vec<u8>>> {
        names(|buf| rustix::fs::flistxattr(&fd, buf))
    }

    /// Sets an extended attribute of an open file.
    pub(crate) fn set_xattr(fd: impl AsFd, name: &[u8], value: &[u8]) -> Result<()> {
        rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty())
    }

    /// Removes an extended attribute of an open file, if the file has it.
    pub(crate) fn remove_xattr(fd: impl AsFd, name: &[u8]) -> Result<()> {
        match rustix::fs::fremovexattr(fd, name) {
            Err(Errno::NODATA) => Ok(()),
            other => other,
        }
    }

    fn names(list: impl FnMut(&mut [u8]) -> Result<usize>) -> Result<Vec<Vec<u8>>> {
        let names = match sized(list) {
            Ok(names) => names,
            // The file system does not support attributes.
            Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(<[u8]>::to_vec).collect())
    }

    fn with_values(
        names: Vec<Vec<u8>>,
        get: impl Fn(&[u8], &mut [u8]) -> Result<usize>,
    ) -> Result<HostXattrs> {
        let with_value = |name: Vec<u8>| match sized(|buf| get(&name, buf)) {
            Ok(value) => Some(Ok((name, value))),
            // It was removed since.
            Err(Errno::NODATA) => None,
            Err(error) => Some(Err(error)),
        };
        names.into_iter().filter_map(with_value).collect()
    }

    /// Calls `read` with larger buffers until the result fits.
    fn sized(mut read: impl FnMut(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
        let mut buf = vec![0; 256];
        loop {
            match read(&mut buf) {
                Ok(len) => {
                    buf.truncate(len);
                    return Ok(buf);
                }
                // Linux allows 64 KiB.
                Err(Errno::RANGE) if buf.len() < 1 << 20 => buf.resize(buf.len() * 4, 0),
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::ffi::CStr;
    use std::os::fd::AsFd;

    use rustix::io::{Errno, Result};

    use super::HostXattrs;

    pub(crate) fn file_xattrs(_: impl AsFd) -> Result<HostXattrs> {
        Ok(Vec::new())
    }

    pub(crate) fn path_xattrs(_: impl AsFd, _: &CStr) -> Result<HostXattrs> {
        Ok(Vec::new())
    }

    pub(crate) fn xattr_names(_: impl AsFd) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    pub(crate) fn set_xattr(_: impl AsFd, _: &[u8], _: &[u8]) -> Result<()> {
        Err(Errno::NOTSUP)
    }

    pub(crate) fn remove_xattr(_: impl AsFd, _: &[u8]) -> Result<()> {
        Err(Errno::NOTSUP)
    }
}
