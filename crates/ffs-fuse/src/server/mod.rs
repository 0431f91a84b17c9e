//! The FUSE operations, implemented with operations of the core.
//!
//! **Purpose.** [`Server::handle`] parses a request, calls the core and fills the reply. The server
//! does not use on-disk structures, and the core does not use FUSE.
//!
//! **Invariants.**
//! 1. A node keeps its file alive until the kernel has forgotten the node, so that removed files
//!    work for processes that have them open.
//! 2. The number of a node is its inode number, except for the root: inode 2 is node 1. Number and
//!    generation together never identify two files.
//! 3. All changes come through the kernel, which therefore may cache names and attributes for long.
//! 4. The server holds no lock of its own during a call of the core. Requests wait for each other
//!    only in the core's locks.
//!
//! **References.** `spec/known-failures.md` §1.

mod acl;
mod attr;
mod control;
mod data;
mod dirs;
mod ioctl;
mod names;
mod nodes;
mod quota;
mod requests;
mod setattr;
mod xattr;

use crate::checker::Checker;
use crate::options::Timeouts;
use crate::owners::{Ids, NO_ID, Owners, VolumeId};
use crate::wire::{Args, Entry, Errno, Features, HandedOut, Reply, Request, op};
use ffs_core::{Atime, Checks, Cred, Ffs, Vnode};
use nodes::Nodes;
use requests::RequestCounts;

pub(crate) use requests::SchedIdleCounts;
use std::sync::{Arc, OnceLock};

pub(crate) use attr::inode_number;

/// The mount options that the server needs.
#[derive(Clone, Debug)]
pub(crate) struct ServerOptions {
    /// How long the kernel may cache replies.
    pub(crate) timeouts: Timeouts,
    /// The kernel checks permissions.
    pub(crate) default_permissions: bool,
    /// The kernel caches writes, and times and sizes with them.
    pub(crate) writeback: bool,
    /// splice(2) moves the content of large reads and writes.
    pub(crate) splice: bool,
    /// Programs see extended attributes, if the volume has any.
    pub(crate) xattr: bool,
    /// The kernel opens files without a request. Writes check BSD's file flags.
    pub(crate) no_open: bool,
    /// Which reads set access times.
    pub(crate) atime: Atime,
    /// The user who started the server, who may control it besides root.
    pub(crate) owner: u32,
    /// That user acts as root on the volume.
    pub(crate) fakeroot: bool,
    /// The owners and permissions that programs see.
    pub(crate) owners: Owners,
    /// An unclean volume is checked in the background when it becomes read-write.
    pub(crate) bgfsck: bool,
    /// Requests are recorded, also those that the server could do without.
    pub(crate) recorded: bool,
}

/// A mounted volume, with the nodes that the kernel uses.
pub(crate) struct Server {
    fs: Ffs,
    nodes: Nodes,
    options: ServerOptions,
    acls: bool,
    /// Programs see no extended attributes, and the kernel needs none for access lists.
    no_xattrs: bool,
    /// The kernel opens files without a request.
    no_open: bool,
    /// The kernel opens directories without a request.
    no_opendir: bool,
    requests: RequestCounts,
    /// Requests pass over io_uring.
    io_uring: bool,
    checker: OnceLock<Arc<Checker>>,
}

impl Server {
    /// Serves `fs`.
    ///
    /// # Errors
    /// The root cannot be read.
    pub(crate) fn new(fs: Ffs, options: ServerOptions) -> ffs_core::Result<Server> {
        let root = fs.root()?;
        // The kernel would apply a list, instead of the permissions that it is shown.
        let acls = options.default_permissions && fs.acls() && !options.owners.hide_modes();
        Ok(Server {
            nodes: Nodes::new(root),
            acls,
            io_uring: false,
            no_xattrs: false,
            no_open: false,
            no_opendir: false,
            requests: RequestCounts::new(),
            fs,
            options,
            checker: OnceLock::new(),
        })
    }

    /// The mounted volume.
    pub(crate) fn fs(&self) -> &Ffs {
        &self.fs
    }

    /// Whether splice(2) may move content. io_uring does not support it.
    pub(crate) fn splices(&self) -> bool {
        self.options.splice && !self.io_uring
    }

    /// Sets what checks the volume in the background.
    pub(crate) fn set_checker(&self, checker: Arc<Checker>) {
        // It is set once, before the first request.
        let _ = self.checker.set(checker);
    }

    /// The features to request from the kernel.
    pub(crate) fn features(&self) -> Features {
        let mut f = Features::ASYNC_READ
            .with(Features::EXPORT_SUPPORT)
            .with(Features::BIG_WRITES)
            .with(Features::HAS_IOCTL_DIR)
            .with(Features::DO_READDIRPLUS)
            .with(Features::READDIRPLUS_AUTO)
            .with(Features::ASYNC_DIO)
            .with(Features::PARALLEL_DIROPS)
            .with(Features::MAX_PAGES)
            .with(Features::CACHE_SYMLINKS)
            .with(Features::HANDLE_KILLPRIV_V2);
        // A truncation by the request to open needs that request.
        let open = if self.needs_open() { Features::ATOMIC_O_TRUNC } else { Features::NO_OPEN };
        f = f.with(open);
        if !self.needs_opendir() {
            f = f.with(Features::NO_OPENDIR);
        }
        if self.options.writeback {
            f = f.with(Features::WRITEBACK_CACHE);
        }
        if self.acls {
            f = f.with(Features::POSIX_ACL).with(Features::DONT_MASK).with(Features::SETXATTR_EXT);
        }
        f
    }

    /// The counters of threads with the policy `SCHED_IDLE`.
    pub(crate) fn sched_idle_counts(&self) -> Arc<SchedIdleCounts> {
        self.requests.sched_idle()
    }

    /// Whether the server needs the requests to open files: it checks permissions and BSD's file
    /// flags then, and learns of reads from the kernel's cache, which set access times.
    fn needs_open(&self) -> bool {
        self.options.recorded
            || !self.options.default_permissions
            || self.fs.may_write() && !self.options.no_open
    }

    /// Whether the server needs the requests to open directories: it checks permissions then, and
    /// learns of listings from the kernel's cache, which set access times.
    fn needs_opendir(&self) -> bool {
        self.needs_open()
            && (self.options.recorded
                || !self.options.default_permissions
                || self.options.atime != Atime::Never)
    }

    /// Records the features that the kernel granted.
    pub(crate) fn set_features(&mut self, f: Features) {
        self.io_uring = f.has(Features::OVER_IO_URING);
        self.acls &= f.has(Features::POSIX_ACL.with(Features::SETXATTR_EXT));
        self.no_xattrs = !self.acls && (!self.options.xattr || !self.fs.xattrs());
        self.no_open = f.has(Features::NO_OPEN);
        self.no_opendir = f.has(Features::NO_OPENDIR);
    }

    /// Drops every node, because the session has ended.
    pub(crate) fn forget_all(&self) {
        self.nodes.clear();
    }

    /// Counts a request: once, also if it is tried again.
    pub(crate) fn count(&self, r: &Request<'_>) {
        self.requests.count(r.opcode);
    }

    /// Serves a request. After `ENOSYS` the kernel sends no more of the kind, and none to release
    /// what it did not open. `Ok(false)`: the request takes no reply.
    pub(crate) fn handle(&self, r: &Request<'_>, out: &mut Reply) -> Result<bool, Errno> {
        match r.opcode {
            op::LOOKUP => self.lookup(r, out),
            op::FORGET | op::BATCH_FORGET => {
                self.forget(r)?;
                return Ok(false);
            }
            op::GETATTR => self.getattr(r, out),
            op::SETATTR => self.setattr(r, out),
            op::STATX => self.statx(r, out),
            op::READLINK => self.readlink(r, out),
            op::SYMLINK => self.symlink(r, out),
            op::MKNOD => self.mknod(r, out),
            op::MKDIR => self.mkdir(r, out),
            op::CREATE => self.create(r, out),
            op::TMPFILE => self.tmpfile(r, out),
            op::UNLINK => self.unlink(r),
            op::RMDIR => self.rmdir(r),
            op::RENAME | op::RENAME2 => self.rename(r, out),
            op::LINK => self.link(r, out),
            op::OPEN if self.no_open => Err(Errno::NOSYS),
            op::OPENDIR if self.no_opendir => Err(Errno::NOSYS),
            op::OPEN => self.open(r, out),
            op::OPENDIR => self.opendir(r, out),
            op::RELEASE | op::RELEASEDIR => Ok(()),
            op::READ => self.read(r, out),
            op::WRITE => self.write(r, out),
            op::FALLOCATE => self.fallocate(r, out),
            op::LSEEK => self.lseek(r, out),
            op::FSYNC | op::FSYNCDIR => self.fsync(r),
            op::SYNCFS => self.fs.sync().map_err(Errno::from),
            op::READDIR => self.readdir(r, out, false),
            op::READDIRPLUS => self.readdir(r, out, true),
            op::STATFS => self.statfs(out),
            op::GETXATTR | op::SETXATTR | op::REMOVEXATTR if self.no_xattrs => Err(Errno::NOSYS),
            op::GETXATTR => self.getxattr(r, out),
            op::SETXATTR => self.setxattr(r),
            op::LISTXATTR => self.listxattr(r, out),
            op::REMOVEXATTR => self.removexattr(r),
            op::ACCESS => self.access(r),
            op::IOCTL => self.ioctl(r, out),
            op::DESTROY => self.destroy(),
            // For FLUSH and others the kernel does the work itself, or sends no more of them.
            _ => Err(Errno::NOSYS),
        }
        .map(|()| true)
    }

    /// The last request of a `fuseblk` mount. `umount` waits for the reply.
    fn destroy(&self) -> Result<(), Errno> {
        self.nodes.clear();
        Ok(self.fs.unmount()?)
    }

    fn forget(&self, r: &Request<'_>) -> Result<(), Errno> {
        let mut a = r.args();
        if r.opcode == op::FORGET {
            self.nodes.forget(r.node, a.u64()?);
            return Ok(());
        }
        let count = a.u32()?;
        a.skip(4)?;
        for _ in 0..count {
            let (node, n) = (a.u64()?, a.u64()?);
            self.nodes.forget(node, n);
        }
        Ok(())
    }

    /// Releases the files that the kernel has forgotten. Called after a reply was sent, when no
    /// process waits for it.
    pub(crate) fn release_forgotten(&self) {
        self.nodes.release();
    }

    /// As [`Server::release_forgotten`], and waits for other workers that are releasing files.
    pub(crate) fn release_forgotten_and_wait(&self) {
        self.nodes.release_and_wait();
    }

    /// Drops the references in a reply that did not reach the kernel.
    pub(crate) fn take_back_references(&self, out: &Reply) {
        match out.handed_out {
            HandedOut::Nothing => {}
            HandedOut::Node(node) => self.nodes.forget(node, 1),
            HandedOut::Listing => {
                let mut at = 0;
                while let Some((_, _, next)) = out.plus_record(at) {
                    self.nodes.forget(out.plus_node(at), 1);
                    at = next;
                }
            }
        }
    }

    /// The file of the request's node.
    fn node(&self, r: &Request<'_>) -> Result<Vnode, Errno> {
        self.nodes.get(r.node)
    }

    fn acts_as_root(&self, r: &Request<'_>) -> bool {
        self.options.fakeroot && r.uid == self.options.owner
    }

    /// The caller's credentials. Supplementary groups are read only if the server checks
    /// permissions.
    fn cred(&self, r: &Request<'_>) -> Cred {
        if self.acts_as_root(r) {
            return Cred::root();
        }
        if self.options.default_permissions {
            return self.cred_of(r, &[], Checks::Done);
        }
        self.cred_with_groups(r)
    }

    /// The caller's ids on the volume. A caller without an id there owns nothing. Only root of the
    /// machine is the super-user, also if another user has the id 0 there.
    fn cred_of(&self, r: &Request<'_>, groups: &[u32], checks: Checks) -> Cred {
        let owners = &self.options.owners;
        let id = |found| if let VolumeId::Id(id) = found { Some(id) } else { None };
        let group = |gid: &u32| id(owners.groups.on_volume(*gid));
        Cred {
            uid: id(owners.users.on_volume(r.uid)).unwrap_or(NO_ID),
            gid: group(&r.gid).unwrap_or(NO_ID),
            groups: groups.iter().filter_map(group).collect(),
            is_root: r.uid == 0,
            checks,
        }
    }

    /// `cred`, the caller's credentials, with the owners of a new file in `dir`.
    ///
    /// # Errors
    /// `EOVERFLOW` if the caller has no id on the volume.
    fn creator(&self, r: &Request<'_>, cred: Cred, dir: &Vnode) -> Result<Cred, Errno> {
        let owners = &self.options.owners;
        if !owners.differ() || self.acts_as_root(r) {
            return Ok(cred);
        }
        let dir = self.fs.getattr(dir);
        let id = |ids: &Ids, caller: u32, of_dir: u32| match ids.on_volume(caller) {
            VolumeId::Id(id) => Ok(id),
            VolumeId::OfFile => Ok(of_dir),
            // All files are shown as one owner's, so another caller's id has no place.
            VolumeId::Unmapped if ids.is_one() => Ok(of_dir),
            VolumeId::Unmapped => Err(Errno(libc::EOVERFLOW)),
        };
        Ok(Cred {
            uid: id(&owners.users, r.uid, dir.uid)?,
            gid: id(&owners.groups, r.gid, dir.gid)?,
            ..cred
        })
    }

    /// The caller's credentials with supplementary groups.
    fn cred_with_groups(&self, r: &Request<'_>) -> Cred {
        if self.acts_as_root(r) {
            return Cred::root();
        }
        let checks = if self.options.default_permissions { Checks::Done } else { Checks::Here };
        let groups = if r.uid == 0 { Vec::new() } else { groups_of(r.pid) };
        self.cred_of(r, &groups, checks)
    }

    /// Adds `file` to the reply as the node of a name.
    fn put_entry(&self, file: Vnode, out: &mut Reply) {
        let e = self.entry_of(file);
        out.entry(&e, &self.options.timeouts);
        out.handed_out = HandedOut::Node(e.node);
    }

    /// The entry of `file` for a reply. Counts one more reference of the kernel.
    fn entry_of(&self, file: Vnode) -> Entry {
        let e = self.entry_with(&self.fs.getattr(&file));
        self.nodes.remember(e.node, file);
        e
    }
}

/// The supplementary groups of process `pid`; none if it has ended or is in another namespace.
fn groups_of(pid: u32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("Groups:")).unwrap_or("");
    line.split_ascii_whitespace().filter_map(|g| g.parse().ok()).collect()
}

/// Skips the file handle, which the server does not use.
fn skip_handle(a: &mut Args<'_>) -> Result<(), Errno> {
    a.skip(8)
}
