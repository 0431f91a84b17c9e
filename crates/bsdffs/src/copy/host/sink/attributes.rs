//! Mode, owner, times, ACLs and extended attributes of files that are copied to the host.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ffs_core::acl::linux;
use ffs_core::{Timespec, linux_xattr};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::{HostSink, OpenFile, Target, failed};
use crate::copy::acl::{Acls, PosixAcl};
use crate::copy::entry::{Entry, EntryKind, EntryMeta};
use crate::copy::error::{SinkError, SinkResult};
use crate::copy::host::xattrs::{ACCESS, DEFAULT, loss_of_attribute, path_xattrs};
use crate::copy::report::{CopyReport, Loss};
use crate::flags;

impl HostSink {
    /// Sets the attributes of a file with its content.
    pub(super) fn set_attributes(&self, open: &OpenFile, report: &mut CopyReport) -> SinkResult {
        if self.options.preserve {
            return attributes(open.fd.as_fd(), &open.meta, report);
        }
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
        report: &mut CopyReport,
    ) -> SinkResult {
        let dir = self.top();
        if self.options.preserve {
            return attributes(dir, meta, report);
        }
        // The directory was created with all permissions of the owner.
        let mode = rustix::fs::fstat(dir).map_err(failed)?.st_mode;
        let allowed = mode & (0o7077 | u32::from(meta.perm));
        rustix::fs::fchmod(dir, Mode::from_raw_mode(allowed & 0o7777)).map_err(failed)
    }

    /// Sets the attributes of a file that is neither regular nor a directory.
    pub(super) fn node_attributes(
        &self,
        name: &CString,
        entry: &Entry,
        report: &mut CopyReport,
    ) -> SinkResult {
        let (dir, meta) = (self.top(), &entry.meta);
        if !meta.xattrs.is_empty() {
            report.record_loss(Loss::Xattr);
        }
        if !meta.flags.is_empty() {
            report.record_loss(Loss::Flags);
        }
        let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let given = rustix::fs::chownat(dir, name.as_c_str(), Some(uid), Some(gid), flags);
        let kept = owner_kept(given, (meta.uid, meta.gid), report)?;
        if !matches!(entry.kind, EntryKind::Symlink(_)) {
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
        rustix::fs::utimensat(dir, name.as_c_str(), &times(meta), flags).map_err(failed)
    }
}

/// Sets all attributes of an open file or directory to those of `meta`.
fn attributes(fd: BorrowedFd<'_>, meta: &EntryMeta, report: &mut CopyReport) -> SinkResult {
    let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
    let given = rustix::fs::fchown(fd, Some(uid), Some(gid));
    let kept = owner_kept(given, (meta.uid, meta.gid), report)?;
    // After chown, which drops capabilities, and before a mode without write permission.
    xattrs(fd, meta, report)?;
    // Existing and inherited ACLs go first.
    for name in [ACCESS, DEFAULT] {
        match rustix::fs::fremovexattr(fd, name) {
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP | Errno::INVAL | Errno::ACCESS) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    let perm = mode_to_set(meta.acls.mode_without(meta.perm), kept);
    rustix::fs::fchmod(fd, Mode::from_raw_mode(perm.into())).map_err(failed)?;
    set_acls(fd, &meta.acls, report)?;
    rustix::fs::futimens(fd, &times(meta)).map_err(failed)
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
        match rustix::fs::fsetxattr(fd, name, &value, XattrFlags::empty()) {
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
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let attrs = rustix::fs::openat(dir, name, flags, Mode::empty())
        .and_then(|old| path_xattrs(&old))
        .map_err(failed)?;
    let acl = attrs.iter().find(|(name, _)| name == ACCESS);
    let access = acl.map(|(_, value)| PosixAcl::from_linux(value));
    let old_acls = Acls { access, ..Acls::default() };
    // The new file may have inherited an ACL from the directory.
    let _ = rustix::fs::fremovexattr(fd, ACCESS);
    let mode = mode_to_set(old_acls.mode_without((old.st_mode & 0o7777) as u16), kept);
    rustix::fs::fchmod(fd, Mode::from_raw_mode(mode.into())).map_err(failed)?;
    set_acls(fd.as_fd(), &old_acls, report)?;
    for (name, value) in attrs {
        // Capabilities and labels of the old content do not apply to the new.
        if name.starts_with(b"security.") || name == ACCESS {
            continue;
        }
        match rustix::fs::fsetxattr(fd, name.as_slice(), &value, XattrFlags::empty()) {
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

fn xattrs(fd: BorrowedFd<'_>, meta: &EntryMeta, report: &mut CopyReport) -> SinkResult {
    let mut set = |name: Vec<u8>, value: &[u8], loss: Loss| {
        match rustix::fs::fsetxattr(fd, name.as_slice(), value, XattrFlags::empty()) {
            Ok(()) => Ok(()),
            // The host does not support the attribute, or only for root, or not of this size.
            Err(Errno::NOTSUP | Errno::PERM | Errno::TOOBIG | Errno::RANGE | Errno::NOSPC) => {
                report.record_loss(loss);
                Ok(())
            }
            Err(error) => Err(failed(error)),
        }
    };
    for attr in &meta.xattrs {
        let name = linux_xattr::to_linux(attr.namespace, &attr.name);
        let loss = loss_of_attribute(&name);
        set(name, &attr.value, loss)?;
    }
    if !meta.flags.is_empty() {
        let name = [b"user.", flags::XATTR].concat();
        set(name, flags::to_text(meta.flags).as_bytes(), Loss::Flags)?;
    }
    Ok(())
}
