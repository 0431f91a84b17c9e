//! Mode, owner, times, ACLs and extended attributes of files that are copied to the host.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ffs_core::acl::linux;
use ffs_core::{Timespec, linux_xattr};
use rustix::fs::{AtFlags, FileType, Gid, Mode, RawMode, Stat, Timestamps, Uid};
use rustix::io::Errno;

use super::{HostSink, OpenFile, Target, failed};
use crate::copy::acl::{Acls, PosixAcl};
use crate::copy::entry::{Entry, EntryKind, EntryMeta};
use crate::copy::error::{SinkError, SinkResult};
use crate::copy::host::xattrs::{
    ACCESS, DEFAULT, loss_of_attribute, path_xattrs, remove_xattr, set_xattr,
};
use crate::copy::options::Attributes;
use crate::copy::report::{CopyReport, Loss};
use crate::flags;

impl HostSink {
    /// Sets the attributes of a file with its content.
    pub(super) fn set_attributes(&self, open: &OpenFile, report: &mut CopyReport) -> SinkResult {
        let kept = self.options.kept();
        if kept != Attributes::ALL {
            self.own_attributes(open, report)?;
        }
        attributes(&open.fd, &open.meta, kept, report)
    }

    /// Sets the attributes that a file has without those of its source.
    fn own_attributes(&self, open: &OpenFile, report: &mut CopyReport) -> SinkResult {
        match &open.target {
            Target::Replacing { name, old: Some(old), .. } => {
                if FileType::from_raw_mode(old.st_mode) == FileType::RegularFile {
                    return copy_old_attributes(&open.dir, name, old, &open.fd, report);
                }
                let mode = open.meta.perm & 0o777 & !self.options.umask;
                rustix::fs::fchmod(&open.fd, Mode::from_raw_mode(mode.into())).map_err(failed)
            }
            _ => Ok(()),
        }
    }

    /// Sets the attributes of the current directory.
    pub(super) fn directory_attributes(
        &self,
        meta: &EntryMeta,
        new: bool,
        report: &mut CopyReport,
    ) -> SinkResult {
        let (dir, kept) = (self.top(), self.options.kept());
        if new && !kept.mode {
            // The directory was created with all permissions of the owner.
            let mode = rustix::fs::fstat(dir).map_err(failed)?.st_mode;
            let allowed = mode & (0o7077 | RawMode::from(meta.perm));
            let mode = Mode::from_raw_mode(allowed & 0o7777);
            rustix::fs::fchmod(dir, mode).map_err(failed)?;
        }
        attributes(dir, meta, kept, report)
    }

    /// Sets the attributes of a file that is neither regular nor a directory.
    pub(super) fn node_attributes(
        &self,
        name: &CString,
        entry: &Entry,
        report: &mut CopyReport,
    ) -> SinkResult {
        let (dir, meta, what) = (self.top(), &entry.meta, self.options.kept());
        if what.xattrs && !meta.xattrs.is_empty() {
            report.record_loss(Loss::Xattr);
        }
        if what.flags && !meta.flags.is_empty() {
            report.record_loss(Loss::Flags);
        }
        let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let mut kept = false;
        if what.ownership {
            let given = rustix::fs::chownat(dir, name.as_c_str(), Some(uid), Some(gid), flags);
            kept = owner_kept(given, (meta.uid, meta.gid), report)?;
        }
        if what.mode && !matches!(entry.kind, EntryKind::Symlink(_)) {
            if meta.acls.access.is_some() {
                report.record_loss(Loss::AccessAcl);
            }
            if meta.acls.nfs4.is_some() {
                report.record_loss(Loss::Nfs4Acl);
            }
            let perm = mode_to_set(meta.acls.mode_without(meta.perm), kept);
            let mode = Mode::from_raw_mode(perm.into());
            rustix::fs::chmodat(dir, name.as_c_str(), mode, AtFlags::empty()).map_err(failed)?;
        }
        if !what.timestamps {
            return Ok(());
        }
        rustix::fs::utimensat(dir, name.as_c_str(), &times(meta), flags).map_err(failed)
    }
}

/// Sets the attributes `what` of an open file or directory to those of `meta`.
pub(super) fn attributes(
    fd: impl AsFd,
    meta: &EntryMeta,
    what: Attributes,
    report: &mut CopyReport,
) -> SinkResult {
    let fd = fd.as_fd();
    let mut kept = false;
    if what.ownership {
        let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
        let given = rustix::fs::fchown(fd, Some(uid), Some(gid));
        kept = owner_kept(given, (meta.uid, meta.gid), report)?;
    } else if what.mode && meta.perm & 0o6000 != 0 {
        let stat = rustix::fs::fstat(fd).map_err(failed)?;
        kept = (stat.st_uid, stat.st_gid) == (meta.uid, meta.gid);
    }
    // After chown, which drops capabilities, and before a mode without write permission.
    xattrs(fd, meta, what, report)?;
    if what.mode || what.acls && meta.acls != Acls::default() {
        // Existing and inherited ACLs go first.
        for name in [ACCESS, DEFAULT] {
            match remove_xattr(fd, name) {
                Ok(()) | Err(Errno::NOTSUP | Errno::INVAL | Errno::ACCESS) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
    if what.mode {
        let perm = mode_to_set(meta.acls.mode_without(meta.perm), kept);
        rustix::fs::fchmod(fd, Mode::from_raw_mode(perm.into())).map_err(failed)?;
    }
    if what.acls {
        set_acls(fd, &meta.acls, report)?;
    }
    match what.timestamps {
        true => rustix::fs::futimens(fd, &times(meta)).map_err(failed),
        false => Ok(()),
    }
}

/// Sets the ACLs. Until then the mode grants only the rights that remain without them.
fn set_acls(fd: BorrowedFd<'_>, acls: &Acls, report: &mut CopyReport) -> SinkResult {
    if acls.nfs4.is_some() {
        report.record_loss(Loss::Nfs4Acl);
        return Ok(());
    }
    let both =
        [(ACCESS, &acls.access, Loss::AccessAcl), (DEFAULT, &acls.default, Loss::DefaultAcl)];
    for (name, acl, loss) in both {
        let Some(acl) = acl else { continue };
        let value = acl.entries().map(linux::encode).unwrap_or_default();
        if value.is_empty() {
            report.record_loss(loss);
            continue;
        }
        match set_xattr(fd, name, &value) {
            Ok(()) => {}
            Err(
                Errno::NOTSUP
                | Errno::PERM
                | Errno::INVAL
                | Errno::RANGE
                | Errno::TOOBIG
                | Errno::NOSPC
                | Errno::ACCESS,
            ) => report.record_loss(loss),
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

/// Gives `fd`, which is to replace the file `name`, the mode, owner and attributes of that file.
fn copy_old_attributes(
    dir: &OwnedFd,
    name: &CString,
    old: &Stat,
    fd: &OwnedFd,
    report: &mut CopyReport,
) -> SinkResult {
    let owner = (old.st_uid, old.st_gid);
    let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
    let kept = owner_kept(rustix::fs::fchown(fd, Some(uid), Some(gid)), owner, report)?;
    let attrs = path_xattrs(dir, name).map_err(failed)?;
    let acl = attrs.iter().find(|(name, _)| name == ACCESS);
    let access = acl.map(|(_, value)| PosixAcl::from_linux(value));
    let old_acls = Acls { access, ..Acls::default() };
    // The new file may have inherited an ACL from the directory.
    let _ = remove_xattr(fd, ACCESS);
    let mode = mode_to_set(old_acls.mode_without((old.st_mode & 0o7777) as u16), kept);
    rustix::fs::fchmod(fd, Mode::from_raw_mode(mode.into())).map_err(failed)?;
    set_acls(fd.as_fd(), &old_acls, report)?;
    for (name, value) in attrs {
        // Capabilities and labels of the old content do not apply to the new.
        if name.starts_with(b"security.") || name == ACCESS {
            continue;
        }
        match set_xattr(fd, &name, &value) {
            Ok(()) => {}
            Err(Errno::NOTSUP | Errno::PERM) => report.record_loss(Loss::Xattr),
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

/// Whether the owner is set. That only root may change it is a loss, not an error.
fn owner_kept(
    result: rustix::io::Result<()>,
    owner: (u32, u32),
    report: &mut CopyReport,
) -> Result<bool, SinkError> {
    match result {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::INVAL | Errno::NOTSUP) => {
            let mine = rustix::process::geteuid().as_raw() == owner.0
                && rustix::process::getegid().as_raw() == owner.1;
            if !mine {
                report.record_loss(Loss::Owner);
            }
            Ok(mine)
        }
        Err(error) => Err(failed(error)),
    }
}

/// The mode to set: without the set-id bits if the owner is another.
fn mode_to_set(perm: u16, owner_kept: bool) -> u16 {
    if owner_kept { perm } else { perm & 0o1777 }
}

fn times(meta: &EntryMeta) -> Timestamps {
    let spec = |at: Timespec| rustix::fs::Timespec {
        tv_sec: at.secs as _,
        tv_nsec: at.nsec.clamp(0, 999_999_999) as _,
    };
    Timestamps { last_access: spec(meta.atime), last_modification: spec(meta.mtime) }
}

fn xattrs(
    fd: BorrowedFd<'_>,
    meta: &EntryMeta,
    what: Attributes,
    report: &mut CopyReport,
) -> SinkResult {
    let mut set = |name: Vec<u8>, value: &[u8], loss: Loss| {
        match set_xattr(fd, &name, value) {
            Ok(()) => Ok(()),
            // The host does not support the attribute, or only for root, or not of this size.
            Err(Errno::NOTSUP | Errno::PERM | Errno::TOOBIG | Errno::RANGE | Errno::NOSPC) => {
                report.record_loss(loss);
                Ok(())
            }
            Err(error) => Err(failed(error)),
        }
    };
    for attr in meta.xattrs.iter().filter(|_| what.xattrs) {
        let name = linux_xattr::to_linux(attr.namespace, &attr.name);
        let loss = loss_of_attribute(&name);
        set(name, &attr.value, loss)?;
    }
    if what.flags && !meta.flags.is_empty() {
        let name = [b"user.", flags::XATTR].concat();
        set(name, flags::to_text(meta.flags).as_bytes(), Loss::Flags)?;
    }
    Ok(())
}
