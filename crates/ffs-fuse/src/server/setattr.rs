//! Changing attributes: modes, owners, sizes, times.

use super::{Server, attr};
use crate::wire::{Errno, Reply, Request, fattr};
use ffs_core::{Attr, Checks, Cred, FileType, SetAttr, SetTime, Timespec, Vnode};

const SET_USER: u16 = 0o4000;
const SET_GROUP: u16 = 0o2000;
const GROUP_EXEC: u16 = 0o010;

/// The mode without the set-id bits that a write or truncation by others takes away.
fn without_setid(perm: u16) -> u16 {
    let group = if perm & GROUP_EXEC != 0 { SET_GROUP } else { 0 };
    perm & !(SET_USER | group)
}

/// The arguments of the request.
struct Wanted {
    valid: u32,
    size: u64,
    atime: Timespec,
    mtime: Timespec,
    mode: u32,
    uid: u32,
    gid: u32,
}

impl Wanted {
    fn of(r: &Request<'_>) -> Result<Wanted, Errno> {
        let mut a = r.args();
        let valid = a.u32()?;
        a.skip(4 + 8)?;
        let size = a.u64()?;
        a.skip(8)?;
        let (atime, mtime, _ctime) = (a.u64()?, a.u64()?, a.u64()?);
        let (an, mn, _cn) = (a.u32()?, a.u32()?, a.u32()?);
        let mode = a.u32()?;
        a.skip(4)?;
        let (uid, gid) = (a.u32()?, a.u32()?);
        let time = |secs: u64, nsec: u32| Timespec {
            secs: secs as i64,
            nsec: i32::try_from(nsec).unwrap_or(0),
        };
        Ok(Wanted { valid, size, atime: time(atime, an), mtime: time(mtime, mn), mode, uid, gid })
    }

    fn has(&self, bit: u32) -> bool {
        self.valid & bit != 0
    }

    fn time(&self, bit: u32, now: u32, t: Timespec) -> Option<SetTime> {
        self.has(bit).then(|| if self.has(now) { SetTime::Now } else { SetTime::To(t) })
    }

    fn set(&self) -> SetAttr {
        SetAttr {
            perm: self.has(fattr::MODE).then_some((self.mode & 0o7777) as u16),
            uid: self.has(fattr::UID).then_some(self.uid),
            gid: self.has(fattr::GID).then_some(self.gid),
            size: self.has(fattr::SIZE).then_some(self.size),
            atime: self.time(fattr::ATIME, fattr::ATIME_NOW, self.atime),
            mtime: self.time(fattr::MTIME, fattr::MTIME_NOW, self.mtime),
            ..SetAttr::default()
        }
    }
}

impl Server {
    pub(super) fn setattr(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let file = self.node(r)?;
        let wanted = Wanted::of(r)?;
        let mut set = wanted.set();
        if set.size.is_some() && wanted.has(fattr::KILL_SUIDGID) && r.uid == 0 {
            self.drop_setid(&file, &mut set);
        }
        // Whether the set-group-id bit may stay depends on all groups of the caller.
        let groups_count = set.perm.is_some_and(|p| p & SET_GROUP != 0) || set.gid.is_some();
        let mut cred =
            if groups_count && r.uid != 0 { self.cred_with_groups(r) } else { self.cred(r) };
        if set.size.is_some() && wanted.has(fattr::FH) {
            // It was open for writing, whatever its mode is now.
            cred.checks = Checks::Done;
        }
        let a = self.fs.setattr(&cred, &file, &set)?;
        out.attr(&attr::wire(&a), &self.rules.timeouts);
        Ok(())
    }

    /// Truncates on open; `kill` says that set-id bits must go.
    pub(super) fn truncate(&self, cred: &Cred, file: &Vnode, kill: bool) -> Result<Attr, Errno> {
        let mut set = SetAttr { size: Some(0), ..SetAttr::default() };
        if kill && cred.is_root() {
            self.drop_setid(file, &mut set);
        }
        Ok(self.fs.setattr(cred, file, &set)?)
    }

    /// For a root that has given up the right to keep the bits; others' the core takes by itself.
    fn drop_setid(&self, file: &Vnode, set: &mut SetAttr) {
        let a = self.fs.getattr(file);
        let perm = without_setid(a.perm);
        if a.kind == FileType::Regular && perm != a.perm && set.perm.is_none() {
            set.perm = Some(perm);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_group_id_without_group_execution_stays() {
        assert_eq!(without_setid(0o6755), 0o755);
        assert_eq!(without_setid(0o6745), 0o2745, "marks mandatory locking, not privilege");
        assert_eq!(without_setid(0o1777), 0o1777);
    }
}
