//! Mode, owner, times, flags and extended attributes of what is copied into an image.

use ffs_core::{Error, FileFlags, SetAttr, SetIdBits, SetTime, Vnode, XattrSet};

use super::ImageSink;
use crate::copy::{Loss, Meta, SinkError, SinkResult, Tally, flags};
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
                Err(Error::NotSupported(_)) => tally.lose(Loss::Xattr),
                Err(error @ (Error::NoSpace | Error::Io(_))) => return Err(self.error(error)),
                Err(error) => {
                    let name = show(name);
                    return Err(SinkError::Skip(format!("attribute {name}: {error}")));
                }
            }
        }
        let (uid, gid) = self.policy.owner.unwrap_or((meta.uid, meta.gid));
        self.set(
            file,
            &SetAttr {
                perm: Some(meta.perm),
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
        _dir: &Vnode,
        perm: u16,
        size: Option<u64>,
    ) -> SinkResult {
        let (uid, gid) = self.policy.owner.unwrap_or((0, 0));
        let perm = perm & !self.policy.umask;
        let (uid, gid) = (Some(uid), Some(gid));
        self.set(file, &SetAttr { perm: Some(perm), uid, gid, size, ..SetAttr::default() })
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
        let names = match self.ffs.listxattr(self.cred, old) {
            Ok(names) => names,
            Err(Error::NotSupported(_)) => Vec::new(),
            Err(error) => return Err(self.error(error)),
        };
        for (namespace, name) in names {
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
