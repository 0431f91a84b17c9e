//! Mode, owner, times, flags, access lists and extended attributes of what is copied into an image.

use ffs_core::acl::Acl;
use ffs_core::{
    Error, FileFlags, FileType, SetAttr, SetIdBits, SetTime, Vnode, XattrNamespace, XattrSet,
    linux_xattr,
};
use ffs_ondisk::acl;

use super::ImageSink;
use crate::copy::host_xattrs::lost_space;
use crate::copy::{AccessList, Loss, Meta, Nfs4List, SinkError, SinkResult, Tally, flags};
use crate::fail::show;

impl ImageSink<'_> {
    fn set(&self, file: &Vnode, set: &SetAttr) -> SinkResult {
        self.ffs.setattr(self.cred, file, set).map_err(|error| self.error(error))?;
        Ok(())
    }

    /// Sets everything that `meta` says but the flags, as they may forbid the rest.
    pub(super) fn attributes(
        &self,
        file: &Vnode,
        meta: &Meta,
        size: Option<u64>,
        tally: &mut Tally,
    ) -> SinkResult {
        for attr in &meta.xattrs {
            let (namespace, name) = (attr.namespace, &attr.name);
            let how = XattrSet::Any;
            match self.ffs.setxattr(self.cred, file, namespace, name, &attr.value, how) {
                Ok(()) => {}
                Err(Error::NotSupported(_)) => {
                    tally.lose(lost_space(&linux_xattr::to_linux(namespace, name)));
                }
                Err(error @ (Error::NoSpace | Error::Io(_))) => return Err(self.error(error)),
                Err(error) => {
                    let name = show(name);
                    return Err(SinkError::Skip(format!("attribute {name}: {error}")));
                }
            }
        }
        let perm = self.set_lists(file, meta, tally)?;
        let (uid, gid) = self.policy.owner.unwrap_or((meta.uid, meta.gid));
        self.set(
            file,
            &SetAttr {
                perm: Some(perm),
                uid: Some(uid),
                gid: Some(gid),
                size,
                atime: Some(SetTime::To(meta.atime)),
                mtime: Some(SetTime::To(meta.mtime)),
                birthtime: Some(meta.birthtime),
                flags: None,
                // They are what is copied.
                set_id: SetIdBits::Keep,
            },
        )
    }

    /// Gives `file` the access lists of `meta` and no others; returns the mode that goes with those that
    /// could be kept.
    fn set_lists(&self, file: &Vnode, meta: &Meta, tally: &mut Tally) -> Result<u16, SinkError> {
        let (ffs, lists) = (self.ffs, &meta.lists);
        let directory = ffs.getattr(file).kind == FileType::Directory;
        let kept_nfs4 = self.set_nfs4_list(file, lists.nfs4.as_ref())?;
        if lists.nfs4.is_some() {
            if !kept_nfs4 {
                tally.lose(Loss::Nfs4List);
            }
            return Ok(if kept_nfs4 { meta.perm } else { lists.mode_without(meta.perm) });
        }
        if directory {
            let default = lists.default.as_ref();
            let kept = self.set_list(default, |list| ffs.set_default_acl(self.cred, file, list))?;
            if default.is_some() && !kept {
                tally.lose(Loss::DefaultList);
            }
        }
        let access = lists.access.as_ref();
        let kept =
            self.set_list(access, |list| ffs.set_access_acl(self.cred, file, list, false))?;
        if access.is_none() {
            return Ok(meta.perm);
        }
        if !kept {
            tally.lose(Loss::AccessList);
            return Ok(lists.mode_without(meta.perm));
        }
        // The list says what owner, mask and others may do.
        Ok(meta.perm & !0o777 | ffs.getattr(file).perm & 0o777)
    }

    /// Sets a list, or takes away what is there; returns whether the volume could take it.
    fn set_list(
        &self,
        list: Option<&AccessList>,
        set: impl Fn(Option<&Acl>) -> Result<(), Error>,
    ) -> Result<bool, SinkError> {
        if !self.ffs.acls() {
            return Ok(false);
        }
        // More entries than a volume takes are no list for it.
        let entries = list.and_then(AccessList::entries);
        let acl = entries.and_then(|entries| Acl::new(entries.to_vec()).ok());
        match set(acl.as_ref()) {
            Ok(()) => Ok(acl.is_some()),
            // Devices have no attributes.
            Err(Error::NotSupported(_)) => Ok(false),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Sets the NFSv4 list, or takes away what is there; returns whether the volume could take it.
    fn set_nfs4_list(&self, file: &Vnode, list: Option<&Nfs4List>) -> Result<bool, SinkError> {
        if !self.ffs.nfs4_acls() {
            return Ok(false);
        }
        let (cred, space, name) = (self.cred, XattrNamespace::System, acl::NFS4_NAME);
        let bytes = list.and_then(|list| list.to_disk(self.ffs.geometry().endian));
        let done = match &bytes {
            Some(bytes) => self.ffs.setxattr(cred, file, space, name, bytes, XattrSet::Any),
            None => self.ffs.removexattr(cred, file, space, name),
        };
        match done {
            Ok(()) => Ok(bytes.is_some()),
            Err(Error::NoAttr | Error::NotSupported(_)) => Ok(false),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Sets the flags, but for the mark of a snapshot, which belongs to its volume.
    pub(super) fn set_flags(&self, file: &Vnode, wanted: FileFlags) -> SinkResult {
        let (have, wanted) = (self.ffs.getattr(file).flags, flags::portable(wanted));
        if have == wanted {
            return Ok(());
        }
        self.set(file, &SetAttr { flags: Some(wanted), ..SetAttr::default() })
    }

    /// Sets the attributes of a new file in `dir` that does not keep those of its source.
    pub(super) fn set_new(
        &self,
        file: &Vnode,
        dir: &Vnode,
        perm: u16,
        size: Option<u64>,
    ) -> SinkResult {
        let (uid, gid) = self.policy.owner.unwrap_or((0, 0));
        let perm = self.inherited(dir, perm)?;
        let (uid, gid) = (Some(uid), Some(gid));
        self.set(file, &SetAttr { perm: Some(perm), uid, gid, size, ..SetAttr::default() })
    }

    /// The mode of a new file in `dir` that asks for `perm`. Where the directory has a default list, the file
    /// was made with the lists that are its due, and the list bounds the mode in place of the umask.
    fn inherited(&self, dir: &Vnode, perm: u16) -> Result<u16, SinkError> {
        let default = self.ffs.default_acl(dir).map_err(|error| self.error(error))?;
        let own = perm & !self.policy.umask;
        Ok(default.map_or(own, |default| default.inherit(perm).perm))
    }

    /// Sets the owner of a new symbolic link.
    pub(super) fn set_owner(&self, file: &Vnode) -> SinkResult {
        let (uid, gid) = self.policy.owner.unwrap_or((0, 0));
        self.set(file, &SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() })
    }

    /// Sets the size of a file that was written over, and its owner if one is given.
    pub(super) fn set_owner_and_size(&self, file: &Vnode, size: Option<u64>) -> SinkResult {
        let (uid, gid) = self.policy.owner.unzip();
        self.set(file, &SetAttr { uid, gid, size, ..SetAttr::default() })
    }

    /// Gives `file`, which is to replace `old`, the attributes of that, but for the flags.
    pub(super) fn take_over(&self, old: &Vnode, file: &Vnode, size: Option<u64>) -> SinkResult {
        // What the new file inherited from the directory is not the old file's.
        self.set_list(None, |list| self.ffs.set_access_acl(self.cred, file, list, false))?;
        let names = match self.ffs.listxattr(self.cred, old) {
            Ok(names) => names,
            Err(Error::NotSupported(_)) => Vec::new(),
            Err(error) => return Err(self.error(error)),
        };
        for (namespace, name) in names {
            // What gives rights to a program is not for a new content.
            if linux_xattr::to_linux(namespace, &name).starts_with(b"security.") {
                continue;
            }
            let value = self.ffs.getxattr(self.cred, old, namespace, &name);
            let value = value.map_err(|error| self.error(error))?;
            let how = XattrSet::Any;
            let set = self.ffs.setxattr(self.cred, file, namespace, &name, &value, how);
            set.map_err(|error| self.error(error))?;
        }
        let attr = self.ffs.getattr(old);
        let (uid, gid) = self.policy.owner.unwrap_or((attr.uid, attr.gid));
        let (perm, uid, gid) = (Some(attr.perm), Some(uid), Some(gid));
        self.set(file, &SetAttr { perm, uid, gid, size, ..SetAttr::default() })
    }
}
