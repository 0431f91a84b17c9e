//! Extended attributes.
//!
//! | Linux name | stored as |
//! | --- | --- |
//! | `user.NAME`, `trusted.NAME` (root only), `security.NAME` | see [`linux_xattr`] |
//! | `system.posix_acl_access`, `system.posix_acl_default` | access lists, see `acl` |
//! | others | not supported: `EOPNOTSUPP` |
//!
//! The kernel alone checks the permission to change `security.NAME`, with its security modules. It
//! also removes `security.capability` itself when a file is written or its owner changes.

use super::{Server, acl::Kind};
use crate::wire::{Errno, MAX_IO, Reply, Request, SETXATTR_ACL_KILL_SGID};
use ffs_core::{Checks, Cred, XattrNamespace, XattrSet, linux_xattr};

const SECURITY: &[u8] = b"security.";
const TRUSTED: &[u8] = b"trusted.";
/// FreeBSD's prefix for access lists in the system name space. They are reached only as access
/// lists.
const ACL_PREFIX: &[u8] = b"posix1e.acl_";

/// A parsed Linux attribute name.
enum Name<'a> {
    Plain(XattrNamespace, &'a [u8]),
    Acl(Kind),
}

fn parse(name: &[u8]) -> Result<Name<'_>, Errno> {
    if let Some(kind) = Kind::of_name(name) {
        return Ok(Name::Acl(kind));
    }
    let (ns, rest) = linux_xattr::from_linux(name).ok_or(Errno::OPNOTSUPP)?;
    if ns == XattrNamespace::System && rest.starts_with(ACL_PREFIX) {
        return Err(Errno::OPNOTSUPP);
    }
    if rest == SECURITY {
        return Err(Errno::INVAL);
    }
    match rest.len() {
        0 => Err(Errno::INVAL),
        1..=255 => Ok(Name::Plain(ns, rest)),
        _ => Err(Errno::RANGE),
    }
}

/// Replies with `value`, or with its length if `size`, the size of the caller's buffer, is 0.
fn put_value(out: &mut Reply, value: &[u8], size: usize) -> Result<(), Errno> {
    if size == 0 {
        out.u32(value.len() as u32);
        out.u32(0);
    } else if value.len() > size.min(MAX_IO) {
        return Err(Errno::RANGE);
    } else {
        out.bytes(value);
    }
    Ok(())
}

impl Server {
    pub(super) fn getxattr(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        let size = a.u32()? as usize;
        a.skip(4)?;
        let file = self.node(r)?;
        match parse(a.string()?)? {
            Name::Acl(kind) => {
                let value = self.acl_value(&file, kind)?;
                put_value(out, &value, size)
            }
            Name::Plain(ns, name) => {
                let value = self.fs.getxattr(&self.cred_for(r, name), &file, ns, name)?;
                put_value(out, &value, size)
            }
        }
    }

    /// The credentials for the stored attribute `name`. The kernel has already checked the
    /// permission for `security.NAME`.
    fn cred_for(&self, r: &Request<'_>, name: &[u8]) -> Cred {
        let cred = self.cred(r);
        if name.starts_with(SECURITY) { Cred { checks: Checks::Done, ..cred } } else { cred }
    }

    pub(super) fn setxattr(&self, r: &Request<'_>) -> Result<(), Errno> {
        let mut a = r.args();
        let (size, flags) = (a.u32()? as usize, a.u32()?);
        // The arguments have their longer form if access lists were negotiated.
        let extended = if self.acls { a.u32()? } else { 0 };
        if self.acls {
            a.skip(4)?;
        }
        let name = parse(a.string()?)?;
        let value = a.bytes(size)?;
        let file = self.node(r)?;
        let cred = self.cred(r);
        let how = match flags as i32 {
            0 => XattrSet::Any,
            libc::XATTR_CREATE => XattrSet::Create,
            libc::XATTR_REPLACE => XattrSet::Replace,
            _ => return Err(Errno::INVAL),
        };
        match name {
            Name::Acl(kind) => {
                let kill = extended & SETXATTR_ACL_KILL_SGID != 0;
                self.set_acl(&cred, &file, kind, value, kill)
            }
            Name::Plain(ns, name) => {
                Ok(self.fs.setxattr(&self.cred_for(r, name), &file, ns, name, value, how)?)
            }
        }
    }

    pub(super) fn removexattr(&self, r: &Request<'_>) -> Result<(), Errno> {
        let name = parse(r.args().string()?)?;
        let file = self.node(r)?;
        let cred = self.cred(r);
        match name {
            Name::Acl(kind) => self.set_acl(&cred, &file, kind, &[], false),
            Name::Plain(ns, name) => {
                Ok(self.fs.removexattr(&self.cred_for(r, name), &file, ns, name)?)
            }
        }
    }

    pub(super) fn listxattr(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let size = r.args().u32()? as usize;
        let file = self.node(r)?;
        let cred = Cred { checks: Checks::Done, ..self.cred(r) };
        let listed = match self.no_xattrs {
            true => Vec::new(),
            false => self.fs.listxattr(&cred, &file)?,
        };
        let mut list = Vec::new();
        for (ns, name) in listed {
            let acl = name.strip_prefix(ACL_PREFIX).filter(|_| ns == XattrNamespace::System);
            let full = match acl {
                Some(kind) if self.acls => [b"system.posix_acl_", kind].concat(),
                Some(_) => continue,
                None => linux_xattr::to_linux(ns, &name),
            };
            if full.starts_with(TRUSTED) && r.uid != 0 {
                continue;
            }
            list.extend_from_slice(&full);
            list.push(0);
        }
        put_value(out, &list, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_names_map_to_name_spaces() {
        let plain = |n: &'static [u8]| match parse(n) {
            Ok(Name::Plain(ns, n)) => (ns, n),
            _ => panic!("{n:?} is not plain"),
        };
        assert_eq!(plain(b"user.a"), (XattrNamespace::User, &b"a"[..]));
        assert_eq!(plain(b"trusted.md5"), (XattrNamespace::System, &b"md5"[..]));
        assert!(matches!(parse(b"system.posix_acl_default"), Ok(Name::Acl(Kind::Default))));
        assert_eq!(
            plain(b"security.capability"),
            (XattrNamespace::System, &b"security.capability"[..])
        );
        for refused in [&b"trusted.security.x"[..], b"system.other", b"trusted.posix1e.acl_access"]
        {
            assert!(matches!(parse(refused), Err(Errno::OPNOTSUPP)));
        }
        assert!(matches!(parse(b"user."), Err(Errno::INVAL)));
        assert!(matches!(parse(b"security."), Err(Errno::INVAL)));
    }
}
