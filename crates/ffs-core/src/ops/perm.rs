//! Permission checks: permission bits, sticky directories, BSD file flags.
//!
//! Reference: `spec/on-disk-format.md` §7.4; POSIX; Linux for what POSIX leaves open.

use crate::cred::{Checks, Cred};
use crate::error::{Error, Result};
use crate::types::Access;
use ffs_ondisk::{Dinode, FileFlags};

/// Set user on execution.
pub(super) const S_ISUID: u16 = 0o4000;
/// Set group on execution; on a directory: new files get its group.
pub(super) const S_ISGID: u16 = 0o2000;
/// On a directory: only the owner of the file or of the directory removes a name.
pub(super) const S_ISVTX: u16 = 0o1000;
/// Execution by the group.
const S_IXGRP: u16 = 0o010;

/// The file's content may not change; a snapshot may still be renamed and removed.
pub(super) const UNWRITABLE: FileFlags = FileFlags::IMMUTABLE.union(FileFlags::SF_SNAPSHOT);

/// Whether this library checks permissions and the caller is not root.
pub(super) fn is_checked(cred: &Cred) -> bool {
    cred.checks == Checks::Here && !cred.is_root
}

/// Checks that `cred` has the access rights `want`.
pub(super) fn check(d: &Dinode, cred: &Cred, want: Access) -> Result<()> {
    if want.0 & Access::WRITE.0 != 0 && d.flags.intersects(UNWRITABLE) {
        return Err(Error::NotPermitted);
    }
    if cred.checks == Checks::Done {
        return Ok(());
    }
    if cred.is_root {
        let executable = d.is_dir() || d.mode & 0o111 != 0;
        let needs_bit = want.0 & Access::EXEC.0 != 0;
        return if executable || !needs_bit { Ok(()) } else { Err(Error::Access) };
    }
    let class = if cred.uid == d.uid {
        6
    } else if cred.in_group(d.gid) {
        3
    } else {
        0
    };
    let granted = (d.mode >> class) & 7;
    if granted & u16::from(want.0) == u16::from(want.0) { Ok(()) } else { Err(Error::Access) }
}

/// Checks that `cred` may look up names in the directory.
pub(super) fn may_search(dir: &Dinode, cred: &Cred) -> Result<()> {
    check(dir, cred, Access::EXEC)
}

/// Checks that `cred` may enter a name in the directory.
pub(super) fn may_enter(dir: &Dinode, cred: &Cred) -> Result<()> {
    check(dir, cred, Access::WRITE.and(Access::EXEC))
}

/// Checks that `cred` may remove a name of `file` from the directory.
pub(super) fn may_remove(dir: &Dinode, file: &Dinode, cred: &Cred) -> Result<()> {
    check(dir, cred, Access::WRITE.and(Access::EXEC))?;
    if dir.flags.intersects(FileFlags::APPEND) {
        return Err(Error::NotPermitted);
    }
    let sticky = dir.mode & S_ISVTX != 0 && is_checked(cred);
    if sticky && cred.uid != file.uid && cred.uid != dir.uid {
        return Err(Error::NotPermitted);
    }
    if file.flags.intersects(FileFlags::IMMUTABLE | FileFlags::APPEND | FileFlags::NOUNLINK) {
        return Err(Error::NotPermitted);
    }
    Ok(())
}

/// Checks that `cred` owns the file or is root.
pub(super) fn must_own(d: &Dinode, cred: &Cred) -> Result<()> {
    if is_checked(cred) && cred.uid != d.uid { Err(Error::NotPermitted) } else { Ok(()) }
}

/// The mode without the set-id bits that are cleared when a user other than root changes the file.
pub(super) fn without_setid(d: &Dinode) -> u16 {
    if d.is_dir() {
        return d.mode;
    }
    // Set-group-id without group execution once meant mandatory locking, not privilege.
    let group = if d.mode & S_IXGRP != 0 { S_ISGID } else { 0 };
    d.mode & !(S_ISUID | group)
}
