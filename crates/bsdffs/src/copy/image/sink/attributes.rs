//! Mode, owner, times, flags, ACLs and extended attributes of files that are copied into an image.

use ffs_core::acl::Acl;
use ffs_core::{
    Error, FileFlags, FileType, SetAttr, SetIdBits, SetTime, Vnode, XattrNamespace, XattrSet,
    linux_xattr,
};
use ffs_ondisk::acl;

use super::ImageSink;
use crate::copy::acl::{Acls, Nfs4Acl, PosixAcl};
use crate::copy::entry::EntryMeta;
use crate::copy::error::{SinkError, SinkResult};
use crate::copy::host::loss_of_attribute;
use crate::copy::options::Attributes;
use crate::copy::report::{CopyReport, Loss};
use crate::flags;
use crate::text::escape;

impl ImageSink<'_> {
    pub(super) fn set(&self, file: &Vnode, set: &SetAttr) -> SinkResult {
        self.ffs().setattr(self.cred(), file, set).map_err(|error| self.error(error))?;
        Ok(())
    }

    /// Sets the attributes `what` of `meta` except the file flags, which may forbid the rest.
    pub(super) fn attributes(
        &self,
        file: &Vnode,
        meta: &EntryMeta,
        size: Option<u64>,
        what: Attributes,
        report: &mut CopyReport,
    ) -> SinkResult {
        if what == Attributes::NONE && size.is_none() {
            return Ok(());
        }
        for attr in meta.xattrs.iter().filter(|_| what.xattrs) {
            let (namespace, name) = (attr.namespace, &attr.name);
            let how = XattrSet::Any;
            match self.ffs().setxattr(self.cred(), file, namespace, name, &attr.value, how) {
                Ok(()) => {}
                Err(Error::NotSupported(_)) => {
                    report.record_loss(loss_of_attribute(&linux_xattr::to_linux(namespace, name)));
                }
                Err(Error::AttributesFull(_)) => report.record_loss(Loss::LargeXattr),
                Err(error @ (Error::NoSpace | Error::Io(_))) => return Err(self.error(error)),
                Err(error) => {
                    let name = escape(name);
                    return Err(SinkError::skip(format!("attribute {name}: {error}")));
                }
            }
        }
        let (owner, times) = (self.options.owner.unwrap_or((meta.uid, meta.gid)), what.timestamps);
        let (uid, gid) = what.ownership.then_some(owner).unzip();
        self.set(
            file,
            &SetAttr {
                perm: self.perm(file, meta, what, report)?,
                uid,
                gid,
                size,
                atime: times.then_some(SetTime::To(meta.atime)),
                mtime: times.then_some(SetTime::To(meta.mtime)),
                birthtime: times.then_some(meta.birthtime),
                flags: None,
                // The mode of the source has the bits to set.
                set_id: if what.mode || what.xattrs {
                    SetIdBits::Keep
                } else {
                    SetIdBits::default()
                },
            },
        )
    }

    /// Sets the ACLs; returns the mode to set, if that of the source is kept.
    fn perm(
        &self,
        file: &Vnode,
        meta: &EntryMeta,
        what: Attributes,
        report: &mut CopyReport,
    ) -> Result<Option<u16>, SinkError> {
        let lists = meta.acls != Acls::default();
        if !(what.mode || what.acls && lists) {
            // Set-id bits would give the rights of the new owner.
            let perm = self.ffs().getattr(file).perm;
            return Ok((what.ownership && perm & 0o6000 != 0).then_some(perm & 0o1777));
        }
        let perm = if what.acls {
            self.set_acls(file, meta, report)?
        } else {
            let bare = EntryMeta { acls: Acls::default(), ..meta.clone() };
            self.set_acls(file, &bare, report)?;
            meta.acls.mode_without(meta.perm)
        };
        let attr = self.ffs().getattr(file);
        if !what.mode {
            return Ok(Some(attr.perm & 0o7000 | perm & 0o777));
        }
        // Without the owner of the source, set-id bits would give the rights of another user.
        let same = (attr.uid, attr.gid) == (meta.uid, meta.gid);
        Ok(Some(if what.ownership || same { perm } else { perm & 0o1777 }))
    }

    /// Sets the ACLs of `meta` and removes others; returns the mode to set with the ACLs that could
    /// be kept.
    fn set_acls(
        &self,
        file: &Vnode,
        meta: &EntryMeta,
        report: &mut CopyReport,
    ) -> Result<u16, SinkError> {
        let (ffs, acls) = (self.ffs(), &meta.acls);
        let directory = ffs.getattr(file).kind == FileType::Directory;
        let kept_nfs4 = self.set_nfs4_acl(file, acls.nfs4.as_ref())?;
        if acls.nfs4.is_some() {
            if !kept_nfs4 {
                report.record_loss(Loss::Nfs4Acl);
            }
            return Ok(if kept_nfs4 { meta.perm } else { acls.mode_without(meta.perm) });
        }
        if directory {
            let default = acls.default.as_ref();
            let kept =
                self.set_acl(default, |list| ffs.set_default_acl(self.cred(), file, list))?;
            if default.is_some() && !kept {
                report.record_loss(Loss::DefaultAcl);
            }
        }
        let access = acls.access.as_ref();
        let kept =
            self.set_acl(access, |list| ffs.set_access_acl(self.cred(), file, list, false))?;
        if access.is_none() {
            return Ok(meta.perm);
        }
        if !kept {
            report.record_loss(Loss::AccessAcl);
            return Ok(acls.mode_without(meta.perm));
        }
        // The ACL determines the bits of owner, mask and others.
        Ok(meta.perm & !0o777 | ffs.getattr(file).perm & 0o777)
    }

    /// Sets a POSIX ACL, or removes it; returns whether the volume keeps it.
    fn set_acl(
        &self,
        acl: Option<&PosixAcl>,
        set: impl Fn(Option<&Acl>) -> Result<(), Error>,
    ) -> Result<bool, SinkError> {
        if !self.ffs().acls() {
            return Ok(false);
        }
        // An ACL with more entries than the format allows is not kept.
        let entries = acl.and_then(PosixAcl::entries);
        let acl = entries.and_then(|entries| Acl::new(entries.to_vec()).ok());
        match set(acl.as_ref()) {
            Ok(()) => Ok(acl.is_some()),
            // Devices have no attributes; those of another file may leave no space for the list.
            Err(Error::NotSupported(_) | Error::AttributesFull(_)) => Ok(false),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Sets the NFSv4 ACL, or removes it; returns whether the volume keeps it.
    fn set_nfs4_acl(&self, file: &Vnode, acl: Option<&Nfs4Acl>) -> Result<bool, SinkError> {
        if !self.ffs().nfs4_acls() {
            return Ok(false);
        }
        let (cred, space, name) = (self.cred(), XattrNamespace::System, acl::NFS4_NAME);
        let bytes = acl.and_then(|acl| acl.to_disk(self.ffs().geometry().endian));
        let done = match &bytes {
            Some(bytes) => self.ffs().setxattr(cred, file, space, name, bytes, XattrSet::Any),
            None => self.ffs().removexattr(cred, file, space, name),
        };
        match done {
            Ok(()) => Ok(bytes.is_some()),
            Err(Error::NoAttr | Error::NotSupported(_) | Error::AttributesFull(_)) => Ok(false),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Sets the file flags, except that of snapshots, which belongs to their volume.
    pub(super) fn set_flags(&self, file: &Vnode, wanted: FileFlags) -> SinkResult {
        let (have, wanted) = (self.ffs().getattr(file).flags, flags::portable(wanted));
        if self.options.late_flags {
            let (ino, mut late) = (file.ino(), self.late_flags.borrow_mut());
            // The number may be that of a file that was replaced.
            late.remove(&ino);
            if have != wanted {
                late.insert(ino, wanted);
            }
            return Ok(());
        }
        if have == wanted {
            return Ok(());
        }
        self.set(file, &SetAttr { flags: Some(wanted), ..SetAttr::default() })
    }

    /// Sets the attributes of a new file in `dir` that does not get those of its source.
    pub(super) fn set_new(
        &self,
        file: &Vnode,
        dir: &Vnode,
        perm: u16,
        size: Option<u64>,
    ) -> SinkResult {
        let (uid, gid) = self.options.owner.unwrap_or((0, 0));
        let perm = self.inherited(dir, perm)?;
        let (uid, gid) = (Some(uid), Some(gid));
        self.set(file, &SetAttr { perm: Some(perm), uid, gid, size, ..SetAttr::default() })
    }

    /// The mode of a new file in `dir` for the requested `perm`. In a directory with a default ACL
    /// the file has inherited its ACLs, and the default ACL replaces the umask.
    fn inherited(&self, dir: &Vnode, perm: u16) -> Result<u16, SinkError> {
        let default = self.ffs().default_acl(dir).map_err(|error| self.error(error))?;
        let own = perm & !self.options.umask;
        Ok(default.map_or(own, |default| default.inherit(perm).perm))
    }

    /// Sets the owner of a new symbolic link.
    pub(super) fn set_owner(&self, file: &Vnode) -> SinkResult {
        let (uid, gid) = self.options.owner.unwrap_or((0, 0));
        self.set(file, &SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() })
    }

    /// Sets the size of a file that was overwritten, and its owner if the options have one.
    pub(super) fn set_owner_and_size(&self, file: &Vnode, size: Option<u64>) -> SinkResult {
        let (uid, gid) = self.options.owner.unzip();
        self.set(file, &SetAttr { uid, gid, size, ..SetAttr::default() })
    }

    /// Gives `file`, which is to replace `old`, the attributes of `old` except the file flags.
    pub(super) fn copy_old_attributes(
        &self,
        old: &Vnode,
        file: &Vnode,
        size: Option<u64>,
    ) -> SinkResult {
        // The new file may have inherited an ACL from the directory.
        self.set_acl(None, |list| self.ffs().set_access_acl(self.cred(), file, list, false))?;
        let names = match self.ffs().listxattr(self.cred(), old) {
            Ok(names) => names,
            Err(Error::NotSupported(_)) => Vec::new(),
            Err(error) => return Err(self.error(error)),
        };
        for (namespace, name) in names {
            // Capabilities and labels of the old content do not apply to the new.
            if linux_xattr::to_linux(namespace, &name).starts_with(b"security.") {
                continue;
            }
            let value = self.ffs().getxattr(self.cred(), old, namespace, &name);
            let value = value.map_err(|error| self.error(error))?;
            let how = XattrSet::Any;
            let set = self.ffs().setxattr(self.cred(), file, namespace, &name, &value, how);
            set.map_err(|error| self.error(error))?;
        }
        let attr = self.ffs().getattr(old);
        let (uid, gid) = self.options.owner.unwrap_or((attr.uid, attr.gid));
        let (perm, uid, gid) = (Some(attr.perm), Some(uid), Some(gid));
        self.set(file, &SetAttr { perm, uid, gid, size, ..SetAttr::default() })
    }
}
