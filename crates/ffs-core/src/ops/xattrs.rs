//! Extended attributes (UFS2).
//!
//! Reference: `spec/on-disk-format.md` §10.

use super::{Vnode, check_alive, perm, reserve_of};
use crate::cred::Cred;
use crate::error::{Error, Result};
use crate::inode::{InodeData, LockedInode};
use crate::linux_xattr::CAPABILITY;
use crate::mount::Ffs;
use crate::types::{Access, SetIdBits, XattrNamespace, XattrSet};
use ffs_ondisk::FileFlags;
use ffs_ondisk::geometry::Format;

/// Longest name of an attribute, bytes.
const MAX_NAME: usize = 255;

fn check_attr_name(name: &[u8]) -> Result<()> {
    if name.len() > MAX_NAME {
        return Err(Error::Range);
    }
    if name.is_empty() || name.contains(&0) {
        return Err(Error::Invalid("an attribute's name is 1 to 255 bytes without NUL"));
    }
    Ok(())
}

/// Checks that `cred` may read or write attributes of this name space.
fn check_space(data: &InodeData, cred: &Cred, ns: XattrNamespace, want: Access) -> Result<()> {
    check_alive(data)?;
    if want == Access::WRITE && data.d.flags.intersects(FileFlags::IMMUTABLE | FileFlags::APPEND) {
        return Err(Error::NotPermitted);
    }
    match ns {
        XattrNamespace::User => perm::check(&data.d, cred, want),
        XattrNamespace::System if perm::is_checked(cred) => Err(Error::NotPermitted),
        XattrNamespace::System => Ok(()),
    }
}

impl Ffs {
    /// Whether files can have extended attributes: UFS2 only.
    #[must_use]
    pub fn xattrs(&self) -> bool {
        self.geometry().format == Format::Ufs2
    }

    /// The value of an attribute.
    ///
    /// # Errors
    /// [`Error::NoAttr`]; [`Error::NotSupported`] on UFS1; [`Error::Access`] without read
    /// permission (user attributes) or [`Error::NotPermitted`] if not root (system attributes); EIO
    /// for a damaged attribute area.
    pub fn getxattr(
        &self,
        cred: &Cred,
        file: &Vnode,
        ns: XattrNamespace,
        name: &[u8],
    ) -> Result<Vec<u8>> {
        check_attr_name(name)?;
        let data = file.ip.read();
        check_space(&data, cred, ns, Access::READ)?;
        self.0.view(&file.ip, &data).xattr_get(ns, name)
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// [`Error::Exists`] or [`Error::NoAttr`] according to `how`; [`Error::AttributesFull`] if the
    /// attributes would not fit in two blocks; otherwise as [`Ffs::getxattr`].
    pub fn setxattr(
        &self,
        cred: &Cred,
        file: &Vnode,
        ns: XattrNamespace,
        name: &[u8],
        value: &[u8],
        how: XattrSet,
    ) -> Result<()> {
        self.retry_after_reclaim(|| self.setxattr_once(cred, file, (ns, name), value, how))?;
        self.sync_if_stable(&[file])
    }

    fn setxattr_once(
        &self,
        cred: &Cred,
        file: &Vnode,
        (ns, name): (XattrNamespace, &[u8]),
        value: &[u8],
        how: XattrSet,
    ) -> Result<()> {
        let _op = self.begin()?;
        check_attr_name(name)?;
        let mut inode = self.0.lock(&file.ip);
        check_space(&inode, cred, ns, Access::WRITE)?;
        inode.xattr_set((ns, name), value, how, reserve_of(cred))
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// As [`Ffs::getxattr`]; [`Error::NoSpace`] if other attributes remain and cannot be rewritten.
    pub fn removexattr(
        &self,
        cred: &Cred,
        file: &Vnode,
        ns: XattrNamespace,
        name: &[u8],
    ) -> Result<()> {
        self.retry_after_reclaim(|| {
            let _op = self.begin()?;
            check_attr_name(name)?;
            let mut inode = self.0.lock(&file.ip);
            check_space(&inode, cred, ns, Access::WRITE)?;
            inode.xattr_remove(ns, name)
        })?;
        self.sync_if_stable(&[file])
    }

    /// The names of all attributes that are visible to `cred`.
    ///
    /// # Errors
    /// As [`Ffs::getxattr`].
    pub fn listxattr(&self, cred: &Cred, file: &Vnode) -> Result<Vec<(XattrNamespace, Vec<u8>)>> {
        let data = file.ip.read();
        check_alive(&data)?;
        let mut all = self.0.view(&file.ip, &data).xattr_list()?;
        if perm::is_checked(cred) {
            all.retain(|(ns, _)| *ns == XattrNamespace::User);
        }
        Ok(all)
    }
}

/// Removes the capabilities of a file that is about to change, unless `set_id` keeps them: the old
/// owner granted them to the old content.
pub(super) fn drop_capability(inode: &mut LockedInode<'_>, set_id: SetIdBits) -> Result<()> {
    // Most files have no attributes at all.
    if inode.d.extsize == 0 || inode.d.is_dir() || set_id == SetIdBits::Keep {
        return Ok(());
    }
    match inode.xattr_remove(XattrNamespace::System, CAPABILITY) {
        Err(Error::NoAttr | Error::NotSupported(_)) => Ok(()),
        other => other,
    }
}
