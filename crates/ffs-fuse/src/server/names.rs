//! Names: lookup, create, remove, link, rename.

use super::{Server, attr};
use crate::wire::{Errno, OPEN_KILL_SUIDGID, Reply, Request, node_of, op};
use ffs_core::{Cred, DeviceNumber, Error, FileType, NodeKind, RenameMode, Vnode};

const O_EXCL: u32 = libc::O_EXCL as u32;
const O_TRUNC: u32 = libc::O_TRUNC as u32;
const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;
const RENAME_WHITEOUT: u32 = 4;

/// The name of a new file, and the caller's mode and umask.
struct NewFile<'a> {
    name: &'a [u8],
    mode: u32,
    umask: u32,
}

impl NewFile<'_> {
    /// The requested permission bits.
    fn perm(&self) -> u16 {
        (self.mode & 0o7777) as u16
    }

    /// The requested permission bits without those of the umask.
    fn masked_perm(&self) -> u16 {
        self.perm() & !(self.umask & 0o777) as u16
    }
}

impl Server {
    pub(super) fn lookup(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let name = r.args().name()?;
        if name == b"." || name == b".." {
            return self.lookup_by_handle(r, name, out);
        }
        let dir = self.node(r)?;
        match self.fs.lookup(&self.cred(r), &dir, name) {
            Ok(file) => self.put_entry(file, out),
            Err(Error::NotFound) if !self.options.timeouts.negative.is_zero() => {
                out.no_entry(&self.options.timeouts);
            }
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }

    /// Opens a file handle. The kernel may have forgotten the node long ago.
    fn lookup_by_handle(&self, r: &Request<'_>, name: &[u8], out: &mut Reply) -> Result<(), Errno> {
        let file = match self.node(r) {
            Ok(file) => file,
            Err(_) => match self.fs.vget(attr::ino_of(r.node)?, None) {
                Ok(file) => file,
                Err(Error::Io(e)) => return Err(Error::Io(e).into()),
                Err(_) => return Err(Errno::STALE),
            },
        };
        // The file has been removed, and the kernel's FORGET for it has not arrived yet.
        if self.fs.getattr(&file).nlink == 0 {
            return Err(Errno::STALE);
        }
        let file = if name == b".." { self.fs.lookup(&self.cred(r), &file, b"..")? } else { file };
        self.put_entry(file, out);
        Ok(())
    }

    /// Creates a file in the request's directory by calling `make` with its permission bits. The
    /// umask applies unless the directory has a default access list for the file to inherit.
    fn make(
        &self,
        r: &Request<'_>,
        new: &NewFile<'_>,
        make: impl FnOnce(&Cred, &Vnode, u16) -> ffs_core::Result<Vnode>,
    ) -> Result<Vnode, Errno> {
        let dir = self.node(r)?;
        // The set-group-id bit stays if the caller is a member of the new file's group.
        let groups_count = new.mode & libc::S_ISGID != 0;
        let cred = if groups_count { self.cred_with_groups(r) } else { self.cred(r) };
        let cred = self.creator(r, cred, &dir)?;
        let default = if self.acls { self.fs.default_acl(&dir)? } else { None };
        let perm = if default.is_some() { new.perm() } else { new.masked_perm() };
        let perm = perm & !self.denied_set_id(r);
        Ok(make(&cred, &dir, perm)?)
    }

    /// The set-id bits that a new file of the caller must not have. All files are shown as those of
    /// another user or group, so the new one gets the owner of its directory.
    fn denied_set_id(&self, r: &Request<'_>) -> u16 {
        let owners = &self.options.owners;
        let mut denied = 0;
        if owners.users.are_of_another(r.uid) {
            denied |= libc::S_ISUID;
        }
        if owners.groups.are_of_another(r.gid) {
            denied |= libc::S_ISGID;
        }
        if r.uid == 0 { 0 } else { denied as u16 }
    }

    pub(super) fn mknod(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        let (mode, rdev, umask) = (a.u32()?, a.u32()?, a.u32()?);
        a.skip(4)?;
        let new = NewFile { name: a.name()?, mode, umask };
        let kind = self.kind_of(mode, rdev)?;
        let file =
            self.make(r, &new, |cred, dir, perm| self.fs.create(cred, dir, new.name, kind, perm))?;
        self.put_entry(file, out);
        Ok(())
    }

    fn kind_of(&self, mode: u32, rdev: u32) -> Result<NodeKind, Errno> {
        let device = || {
            let n = DeviceNumber::from_linux(u64::from(rdev));
            n.to_disk(self.fs.geometry().format).ok_or(Errno::INVAL)
        };
        Ok(match mode & libc::S_IFMT {
            0 | libc::S_IFREG => NodeKind::Regular,
            libc::S_IFIFO => NodeKind::Fifo,
            libc::S_IFSOCK => NodeKind::Socket,
            libc::S_IFCHR => NodeKind::Char(device()?),
            libc::S_IFBLK => NodeKind::Block(device()?),
            _ => return Err(Errno::INVAL),
        })
    }

    pub(super) fn mkdir(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        let (mode, umask) = (a.u32()?, a.u32()?);
        let new = NewFile { name: a.name()?, mode, umask };
        let file =
            self.make(r, &new, |cred, dir, perm| self.fs.mkdir(cred, dir, new.name, perm))?;
        self.put_entry(file, out);
        Ok(())
    }

    /// Creates a file and opens it.
    pub(super) fn create(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        let (flags, mode, umask, open_flags) = (a.u32()?, a.u32()?, a.u32()?, a.u32()?);
        let new = NewFile { name: a.name()?, mode, umask };
        let made = self.make(r, &new, |cred, dir, perm| {
            self.fs.create(cred, dir, new.name, NodeKind::Regular, perm)
        });
        let file = match made {
            // The kernel's cache had no such name, but it exists: open it.
            Err(Errno::EXIST) if flags & O_EXCL == 0 => {
                let file = self.fs.lookup(&self.cred(r), &self.node(r)?, new.name)?;
                if flags & O_TRUNC != 0 {
                    self.truncate(r, &file, open_flags & OPEN_KILL_SUIDGID != 0, out)?;
                }
                file
            }
            made => made?,
        };
        let open = self.open_reply(&file);
        self.put_entry(file, out);
        out.open(open);
        Ok(())
    }

    /// Creates a file without a name, and opens it (`O_TMPFILE`).
    pub(super) fn tmpfile(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        let (flags, mode, umask) = (a.u32()?, a.u32()?, a.u32()?);
        let new = NewFile { name: b"", mode, umask };
        let linkable = flags & O_EXCL == 0;
        let file = self
            .make(r, &new, |cred, dir, perm| self.fs.create_unnamed(cred, dir, perm, linkable))?;
        let open = self.open_reply(&file);
        self.put_entry(file, out);
        out.open(open);
        Ok(())
    }

    pub(super) fn symlink(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        let name = a.name()?;
        let target = a.string()?;
        let dir = self.node(r)?;
        let cred = self.creator(r, self.cred(r), &dir)?;
        let file = self.fs.symlink(&cred, &dir, name, target)?;
        self.put_entry(file, out);
        Ok(())
    }

    pub(super) fn readlink(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        out.bytes(&self.fs.readlink(&self.node(r)?)?);
        Ok(())
    }

    pub(super) fn link(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        let file = self.nodes.get(a.u64()?)?;
        let name = a.name()?;
        let dir = self.node(r)?;
        self.fs.link(&self.cred(r), &file, &dir, name)?;
        self.put_entry(file, out);
        Ok(())
    }

    pub(super) fn unlink(&self, r: &Request<'_>) -> Result<(), Errno> {
        let name = r.args().name()?;
        Ok(self.fs.unlink(&self.cred(r), &self.node(r)?, name)?)
    }

    pub(super) fn rmdir(&self, r: &Request<'_>) -> Result<(), Errno> {
        let name = r.args().name()?;
        Ok(self.fs.rmdir(&self.cred(r), &self.node(r)?, name)?)
    }

    pub(super) fn rename(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        let to_dir = a.u64()?;
        let flags = if r.opcode == op::RENAME2 {
            let flags = a.u32()?;
            a.skip(4)?;
            flags
        } else {
            0
        };
        let mode = match flags {
            0 => RenameMode::Replace,
            RENAME_NOREPLACE => RenameMode::NoReplace,
            RENAME_EXCHANGE => RenameMode::Exchange,
            RENAME_WHITEOUT => RenameMode::Whiteout { replace: true },
            f if f == RENAME_WHITEOUT | RENAME_NOREPLACE => RenameMode::Whiteout { replace: false },
            _ => return Err(Errno::INVAL),
        };
        let (from_name, to_name) = (a.name()?, a.name()?);
        let from = self.node(r)?;
        let to = self.nodes.get(to_dir)?;
        let mut cred = self.cred(r);
        if matches!(mode, RenameMode::Whiteout { .. }) {
            // The whiteout is a new file.
            cred = self.creator(r, cred, &from)?;
        }
        self.fs.rename(&cred, (&from, from_name), (&to, to_name), mode)?;
        if from.ino() != to.ino() {
            self.drop_listing((&to, to_name), out);
            if mode == RenameMode::Exchange {
                self.drop_listing((&from, from_name), out);
            }
        }
        Ok(())
    }

    /// Makes the kernel drop the listing of a moved directory, whose `..` has changed.
    fn drop_listing(&self, (dir, name): (&Vnode, &[u8]), out: &mut Reply) {
        // Another call may have moved it on already, and then drops the listing itself.
        if let Ok(moved) = self.fs.lookup(&Cred::root(), dir, name)
            && self.fs.getattr(&moved).kind == FileType::Directory
        {
            out.stale_listings.push(node_of(moved.ino()));
        }
    }
}
