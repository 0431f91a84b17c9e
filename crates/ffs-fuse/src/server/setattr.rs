//! SETATTR: modes, owners, sizes, times.

use super::Server;
use crate::owners::{Ids, VolumeId};
use crate::wire::{Errno, Reply, Request, fattr, node_of};
use ffs_core::{Attr, Checks, FileFlags, SetAttr, SetIdBits, SetTime, Timespec, Vnode};

const SET_USER: u16 = 0o4000;
const SET_GROUP: u16 = 0o2000;

/// The arguments of the request.
struct SetAttrArgs {
    valid: u32,
    size: u64,
    atime: Timespec,
    mtime: Timespec,
    /// Only of a kernel that caches writes, with each change.
    ctime: Timespec,
    mode: u32,
    uid: u32,
    gid: u32,
}

impl SetAttrArgs {
    fn of(r: &Request<'_>) -> Result<SetAttrArgs, Errno> {
        let mut a = r.args();
        let valid = a.u32()?;
        a.skip(4 + 8)?;
        let size = a.u64()?;
        a.skip(8)?;
        let (atime, mtime, ctime) = (a.u64()?, a.u64()?, a.u64()?);
        let (an, mn, cn) = (a.u32()?, a.u32()?, a.u32()?);
        let mode = a.u32()?;
        a.skip(4)?;
        let (uid, gid) = (a.u32()?, a.u32()?);
        let time = |secs: u64, nsec: u32| Timespec {
            secs: secs as i64,
            nsec: i32::try_from(nsec).unwrap_or(0),
        };
        let (atime, mtime, ctime) = (time(atime, an), time(mtime, mn), time(ctime, cn));
        Ok(SetAttrArgs { valid, size, atime, mtime, ctime, mode, uid, gid })
    }

    fn has(&self, bit: u32) -> bool {
        self.valid & bit != 0
    }

    fn time(&self, bit: u32, now: u32, t: Timespec) -> Option<SetTime> {
        self.has(bit).then(|| if self.has(now) { SetTime::Now } else { SetTime::To(t) })
    }

    /// Whether the kernel hands over the times that cached writes gave the file. It does so before
    /// a close or fsync returns, as the user who calls that.
    fn has_times_of_writes(&self) -> bool {
        self.valid == fattr::MTIME | fattr::CTIME | fattr::FH
    }

    /// Whether the caller sets the present time as that of modification. A kernel that caches
    /// writes sends its own present time, which is that of the change, too.
    fn has_present_mtime(&self) -> bool {
        self.has(fattr::MTIME) && self.has(fattr::CTIME) && self.mtime == self.ctime
    }

    /// The change, without its effect on set-id bits.
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
        let args = SetAttrArgs::of(r)?;
        let owners = &self.options.owners;
        let mut set = args.set();
        // Only these requests state what happens to set-id bits.
        if args.has(fattr::SIZE | fattr::UID | fattr::GID) {
            set.set_id = self.set_id(args.has(fattr::KILL_SUIDGID));
        }
        if set.uid.is_some() || set.gid.is_some() {
            let now = self.fs.getattr(&file);
            set.uid = new_owner(&owners.users, set.uid, now.uid)?;
            set.gid = new_owner(&owners.groups, set.gid, now.gid)?;
        }
        // Whether the set-group-id bit may stay depends on all groups of the caller.
        let groups_count = set.perm.is_some_and(|p| p & SET_GROUP != 0) || set.gid.is_some();
        let mut cred =
            if groups_count && r.uid != 0 { self.cred_with_groups(r) } else { self.cred(r) };
        if args.has_times_of_writes() && is_locked(&self.fs.getattr(&file)) {
            // No one may set the times of such a file. It has those of the server's writes.
            set.mtime = None;
        }
        if args.has_times_of_writes() || set.size.is_some() && args.has(fattr::FH) {
            // The caller has the file open for writing, so its current mode does not matter.
            cred.checks = Checks::Done;
        }
        let present = cred.checks == Checks::Here && args.has_present_mtime();
        if present {
            // Users who may write the file may set this time, but no other.
            set.mtime = Some(SetTime::Now);
        }
        let mut a = self.fs.setattr(&cred, &file, &set)?;
        if present {
            // The kernel's time and the server's differ.
            cred.checks = Checks::Done;
            let exact = SetAttr { mtime: Some(SetTime::To(args.mtime)), ..SetAttr::default() };
            a = self.fs.setattr(&cred, &file, &exact)?;
        }
        out.attr(&self.wire_attr(&a), &self.options.timeouts);
        Ok(())
    }

    /// Truncates a file on open, and clears set-id bits if `kill` is set.
    pub(super) fn truncate(
        &self,
        r: &Request<'_>,
        file: &Vnode,
        kill: bool,
        out: &mut Reply,
    ) -> Result<(), Errno> {
        let set_id = self.set_id(kill);
        let kills = set_id == SetIdBits::Drop && self.has_set_id(file);
        let set = SetAttr { size: Some(0), set_id, ..SetAttr::default() };
        self.fs.setattr(&self.cred(r), file, &set)?;
        if kills {
            out.stale = Some(node_of(file.ino()));
        }
        Ok(())
    }

    /// The effect of a request on set-id bits. The kernel decides by the capabilities of the
    /// caller, which the server does not have. Without `kill` they stay, or the kernel clears them
    /// itself. Those that it does not see it never asks to clear.
    pub(super) fn set_id(&self, kill: bool) -> SetIdBits {
        let drops = kill || self.options.owners.hide_modes();
        if drops { SetIdBits::Drop } else { SetIdBits::Keep }
    }

    /// Whether the file has set-id bits. If a change of content clears them, the server has to
    /// notify the kernel.
    pub(super) fn has_set_id(&self, file: &Vnode) -> bool {
        self.fs.getattr(file).perm & (SET_USER | SET_GROUP) != 0
    }
}

/// Whether BSD's file flags forbid changes of the file, but for appending.
fn is_locked(a: &Attr) -> bool {
    a.flags.intersects(FileFlags::IMMUTABLE | FileFlags::APPEND)
}

/// The id on the volume for the new owner `shown` of a file that belongs to `now`.
///
/// # Errors
/// `EPERM` if all files have one owner, `EINVAL` if the volume has no id for this one.
fn new_owner(ids: &Ids, shown: Option<u32>, now: u32) -> Result<Option<u32>, Errno> {
    let Some(shown) = shown else { return Ok(None) };
    match ids.on_volume(shown) {
        VolumeId::Id(id) => Ok(Some(id)),
        VolumeId::OfFile => Ok(Some(now)),
        VolumeId::Unmapped if ids.is_one() => Err(Errno::PERM),
        VolumeId::Unmapped => Err(Errno::INVAL),
    }
}
