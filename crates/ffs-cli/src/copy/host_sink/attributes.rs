//! Mode, owner, times, access lists and extended attributes of what is copied to the host.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ffs_core::acl::linux;
use ffs_core::{Timespec, linux_xattr};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::{HostSink, Open, Slot, skip};
use crate::copy::host_xattrs::{ACCESS, DEFAULT, host_xattrs_by_name, lost_space};
use crate::copy::{
    AccessList, Entry, Kind, Lists, Loss, Meta, SinkError, SinkResult, Tally, flags,
};

impl HostSink {
    /// Sets the attributes of a file with its content.
    pub(super) fn set_attributes(&self, open: &Open, tally: &mut Tally) -> SinkResult {
        if self.policy.preserve {
            return attributes(open.fd.as_fd(), &open.meta, tally);
        }
        match &open.slot {
            Slot::Replacing { name, old: Some(old), .. } => {
                if FileType::from_raw_mode(old.st_mode) == FileType::RegularFile {
                    return take_over(&open.dir, name, old, &open.fd, tally);
                }
                let mode = open.meta.perm & 0o777 & !self.policy.umask;
                rustix::fs::fchmod(&open.fd, Mode::from_raw_mode(mode.into())).map_err(skip)
            }
            _ => Ok(()),
        }
    }

    /// Sets the attributes of the directory that is worked in.
    pub(super) fn directory_attributes(&self, meta: &Meta, tally: &mut Tally) -> SinkResult {
        let dir = self.top();
        if self.policy.preserve {
            return attributes(dir, meta, tally);
        }
        // It was made with all permissions of the owner.
        let mode = rustix::fs::fstat(dir).map_err(skip)?.st_mode;
        let allowed = mode & (0o7077 | u32::from(meta.perm));
        rustix::fs::fchmod(dir, Mode::from_raw_mode(allowed & 0o7777)).map_err(skip)
    }

    /// Sets the attributes of what is neither a file nor a directory.
    pub(super) fn node_attributes(
        &self,
        name: &CString,
        entry: &Entry,
        tally: &mut Tally,
    ) -> SinkResult {
        let (dir, meta) = (self.top(), &entry.meta);
        if !meta.xattrs.is_empty() {
            tally.lose(Loss::Xattr);
        }
        if !meta.flags.is_empty() {
            tally.lose(Loss::Flags);
        }
        let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
        let how = AtFlags::SYMLINK_NOFOLLOW;
        let given = rustix::fs::chownat(dir, name.as_c_str(), Some(uid), Some(gid), how);
        let kept = owner_kept(given, (meta.uid, meta.gid), tally)?;
        if !matches!(entry.kind, Kind::Symlink(_)) {
            if meta.lists.access.is_some() {
                tally.lose(Loss::AccessList);
            }
            if meta.lists.nfs4.is_some() {
                tally.lose(Loss::Nfs4List);
            }
            let perm = mode_to_set(meta.lists.mode_without(meta.perm), kept);
            let mode = Mode::from_raw_mode(perm.into());
            rustix::fs::chmodat(dir, name.as_c_str(), mode, AtFlags::empty()).map_err(skip)?;
        }
        rustix::fs::utimensat(dir, name.as_c_str(), &times(meta), how).map_err(skip)
    }
}

/// Sets everything about an open file or directory that `meta` says.
fn attributes(fd: BorrowedFd<'_>, meta: &Meta, tally: &mut Tally) -> SinkResult {
    let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
    let given = rustix::fs::fchown(fd, Some(uid), Some(gid));
    let kept = owner_kept(given, (meta.uid, meta.gid), tally)?;
    // To give a file away takes its capabilities; a mode without write permission forbids the rest.
    xattrs(fd, meta, tally)?;
    // What was there or was inherited goes first.
    for name in [ACCESS, DEFAULT] {
        match rustix::fs::fremovexattr(fd, name) {
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP | Errno::INVAL | Errno::ACCESS) => {}
            Err(error) => return Err(skip(error)),
        }
    }
    let perm = mode_to_set(meta.lists.mode_without(meta.perm), kept);
    rustix::fs::fchmod(fd, Mode::from_raw_mode(perm.into())).map_err(skip)?;
    lists(fd, &meta.lists, tally)?;
    rustix::fs::futimens(fd, &times(meta)).map_err(skip)
}

/// Sets the access lists. The mode leaves out what they allow until they are there.
fn lists(fd: BorrowedFd<'_>, lists: &Lists, tally: &mut Tally) -> SinkResult {
    if lists.nfs4.is_some() {
        tally.lose(Loss::Nfs4List);
        return Ok(());
    }
    let both =
        [(ACCESS, &lists.access, Loss::AccessList), (DEFAULT, &lists.default, Loss::DefaultList)];
    for (name, list, loss) in both {
        let Some(list) = list else { continue };
        let value = list.entries().map(linux::encode).unwrap_or_default();
        if value.is_empty() {
            tally.lose(loss);
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
            ) => tally.lose(loss),
            Err(error) => return Err(skip(error)),
        }
    }
    Ok(())
}

/// Gives `fd`, which is to replace the file `name`, mode, owner and attributes of that.
fn take_over(
    dir: &OwnedFd,
    name: &CString,
    old: &Stat,
    fd: &OwnedFd,
    tally: &mut Tally,
) -> SinkResult {
    let owner = (old.st_uid, old.st_gid);
    let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
    let kept = owner_kept(rustix::fs::fchown(fd, Some(uid), Some(gid)), owner, tally)?;
    let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let attrs = rustix::fs::openat(dir, name, how, Mode::empty())
        .and_then(|old| host_xattrs_by_name(&old))
        .map_err(skip)?;
    let list = attrs.iter().find(|(name, _)| name == ACCESS);
    let access = list.map(|(_, value)| AccessList::from_linux(value));
    let old_lists = Lists { access, ..Lists::default() };
    // What the new file inherited from the directory is not the old file's; most have none.
    let _ = rustix::fs::fremovexattr(fd, ACCESS);
    let mode = mode_to_set(old_lists.mode_without((old.st_mode & 0o7777) as u16), kept);
    rustix::fs::fchmod(fd, Mode::from_raw_mode(mode.into())).map_err(skip)?;
    lists(fd.as_fd(), &old_lists, tally)?;
    for (name, value) in attrs {
        // What gives rights to a program is not for a new content.
        if name.starts_with(b"security.") || name == ACCESS {
            continue;
        }
        match rustix::fs::fsetxattr(fd, name.as_slice(), &value, XattrFlags::empty()) {
            Ok(()) => {}
            Err(Errno::NOTSUP | Errno::PERM) => tally.lose(Loss::Xattr),
            Err(error) => return Err(skip(error)),
        }
    }
    Ok(())
}

/// Whether the owner could be set; that others than root cannot is no error.
fn owner_kept(
    given: rustix::io::Result<()>,
    owner: (u32, u32),
    tally: &mut Tally,
) -> Result<bool, SinkError> {
    match given {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::INVAL | Errno::NOTSUP) => {
            let mine = rustix::process::geteuid().as_raw() == owner.0
                && rustix::process::getegid().as_raw() == owner.1;
            if !mine {
                tally.lose(Loss::Owner);
            }
            Ok(mine)
        }
        Err(error) => Err(skip(error)),
    }
}

/// Set-id bits are only for the owner they were meant for.
fn mode_to_set(perm: u16, owner_kept: bool) -> u16 {
    if owner_kept { perm } else { perm & 0o1777 }
}

fn times(meta: &Meta) -> Timestamps {
    let spec = |at: Timespec| rustix::fs::Timespec {
        tv_sec: at.secs as _,
        tv_nsec: at.nsec.clamp(0, 999_999_999) as _,
    };
    Timestamps { last_access: spec(meta.atime), last_modification: spec(meta.mtime) }
}

fn xattrs(fd: BorrowedFd<'_>, meta: &Meta, tally: &mut Tally) -> SinkResult {
    let mut set = |name: Vec<u8>, value: &[u8], loss: Loss| {
        match rustix::fs::fsetxattr(fd, name.as_slice(), value, XattrFlags::empty()) {
            Ok(()) => Ok(()),
            // Too large for the host, or no place for any, or for root alone.
            Err(Errno::NOTSUP | Errno::PERM | Errno::TOOBIG | Errno::RANGE | Errno::NOSPC) => {
                tally.lose(loss);
                Ok(())
            }
            Err(error) => Err(skip(error)),
        }
    };
    for attr in &meta.xattrs {
        let name = linux_xattr::to_linux(attr.namespace, &attr.name);
        let loss = lost_space(&name);
        set(name, &attr.value, loss)?;
    }
    if !meta.flags.is_empty() {
        let name = [b"user.", flags::XATTR].concat();
        set(name, flags::to_text(meta.flags).as_bytes(), Loss::Flags)?;
    }
    Ok(())
}
