//! Extended attributes of the host's files.
//!
//! Access lists, flags and what belongs into an image are among them, each under a name of its own.

use std::os::fd::{AsRawFd, OwnedFd};

use ffs_core::XattrNamespace;
use rustix::io::Errno;

use super::{Loss, Meta, Xattr, flags};

/// The host's attribute that is the access list of a file.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The host's attribute that is the default list of a directory.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Names and values of extended attributes.
pub(crate) type HostXattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// All extended attributes of an open file.
pub(crate) fn host_xattrs(fd: &OwnedFd) -> rustix::io::Result<HostXattrs> {
    all_xattrs(
        |buf| rustix::fs::flistxattr(fd, buf),
        |name, buf| rustix::fs::fgetxattr(fd, name, buf),
    )
}

/// All extended attributes of a file that is open by name only, which needs no right to read it.
pub(crate) fn host_xattrs_by_name(fd: &OwnedFd) -> rustix::io::Result<HostXattrs> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    all_xattrs(
        |buf| rustix::fs::listxattr(&path, buf),
        |name, buf| rustix::fs::getxattr(&path, name, buf),
    )
}

/// What is lost with an attribute of another name space.
pub(crate) fn lost_space(full: &[u8]) -> Loss {
    match full.split(|&byte| byte == b'.').next() {
        Some(b"security") => Loss::Security,
        Some(b"system") => Loss::System,
        _ => Loss::Xattr,
    }
}

fn all_xattrs(
    list: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
    get: impl Fn(&[u8], &mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<HostXattrs> {
    let names = match sized(list) {
        Ok(names) => names,
        // A file system without attributes has none.
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let with_value = |name: &[u8]| match sized(|buf| get(name, buf)) {
        Ok(value) => Some(Ok((name.to_vec(), value))),
        // It was removed meanwhile.
        Err(Errno::NODATA) => None,
        Err(error) => Some(Err(error)),
    };
    names.filter_map(with_value).collect()
}

/// Adds an attribute to `meta`; the one that stands for flags becomes flags.
pub(crate) fn add_xattr(meta: &mut Meta, attr: Xattr) {
    if attr.namespace == XattrNamespace::User && attr.name == flags::XATTR {
        let text = std::str::from_utf8(&attr.value).ok();
        if let Some(flags) = text.and_then(flags::from_text) {
            meta.flags = flags;
            return;
        }
    }
    meta.xattrs.push(attr);
}

/// Puts attributes into the one order in which they are copied.
pub(crate) fn sort_xattrs(meta: &mut Meta) {
    meta.xattrs.sort_by(|a, b| (a.namespace, &a.name).cmp(&(b.namespace, &b.name)));
}

/// Asks for something whose size is not known before.
fn sized(
    mut ask: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    let mut buf = vec![0; 256];
    loop {
        match ask(&mut buf) {
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
