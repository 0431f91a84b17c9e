//! Extended attributes of host files. On Linux ACLs are among them, under the names [`ACCESS`] and
//! [`DEFAULT`].

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;

use crate::copy::report::Loss;

/// The attribute with the access ACL of a file.
pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute with the default ACL of a directory.
pub(super) const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Names and values of extended attributes.
pub(super) type HostXattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// All extended attributes of an open file.
pub(super) fn file_xattrs(fd: &OwnedFd) -> rustix::io::Result<HostXattrs> {
    all_xattrs(
        |buf| rustix::fs::flistxattr(fd, buf),
        |name, buf| rustix::fs::fgetxattr(fd, name, buf),
    )
}

/// All extended attributes of a file opened with `O_PATH`, which needs no permission to read it.
pub(super) fn path_xattrs(fd: &OwnedFd) -> rustix::io::Result<HostXattrs> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    all_xattrs(
        |buf| rustix::fs::listxattr(&path, buf),
        |name, buf| rustix::fs::getxattr(&path, name, buf),
    )
}

/// The loss to record for an attribute of a name space that UFS does not have.
pub(crate) fn loss_of_attribute(full: &[u8]) -> Loss {
    match full.split(|&byte| byte == b'.').next() {
        Some(b"security") => Loss::SecurityXattr,
        Some(b"system") => Loss::SystemXattr,
        _ => Loss::Xattr,
    }
}

fn all_xattrs(
    list: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
    get: impl Fn(&[u8], &mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<HostXattrs> {
    let names = match sized(list) {
        Ok(names) => names,
        // The file system does not support attributes.
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let with_value = |name: &[u8]| match sized(|buf| get(name, buf)) {
        Ok(value) => Some(Ok((name.to_vec(), value))),
        // It was removed since.
        Err(Errno::NODATA) => None,
        Err(error) => Some(Err(error)),
    };
    names.filter_map(with_value).collect()
}

/// Calls `read` with larger buffers until the result fits.
fn sized(
    mut read: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
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
