//! The kernel's FUSE protocol: numbers, requests, replies, the device.
//!
//! **Purpose.** The one place that knows how a request and its answer lie in memory
//! (`<linux/fuse.h>`, protocol 7). The rest of the room sees opcodes, arguments and a reply to fill.
//!
//! **Invariants.**
//! 1. No request makes this module panic or read beyond it: a short one is answered with `EIO`.
//! 2. Requests and replies live in buffers of the worker that serves them: no allocation each.
//!
//! **References.** `include/uapi/linux/fuse.h` of Linux 6.18; `spec/known-failures.md` §1.

pub(crate) mod device;
mod errno;
pub(crate) mod reply;
pub(crate) mod request;

pub(crate) use device::{Device, Features};
pub(crate) use errno::Errno;
pub(crate) use reply::{Entry, HandedOut, Pages, Reply, Timeouts};
pub(crate) use request::{Args, Request};

/// Number of the root node; the kernel's, not the file system's.
pub(crate) const ROOT: u64 = 1;

/// The most bytes one read or write carries.
pub(crate) const MAX_IO: usize = 1 << 20;

/// Operation codes.
pub(crate) mod op {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const SETXATTR: u32 = 21;
    pub(crate) const GETXATTR: u32 = 22;
    pub(crate) const LISTXATTR: u32 = 23;
    pub(crate) const REMOVEXATTR: u32 = 24;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const ACCESS: u32 = 34;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const IOCTL: u32 = 39;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const READDIRPLUS: u32 = 44;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const LSEEK: u32 = 46;
    pub(crate) const SYNCFS: u32 = 50;
    pub(crate) const TMPFILE: u32 = 51;
    pub(crate) const STATX: u32 = 52;
}

/// Bits of `fuse_setattr_in.valid`.
pub(crate) mod fattr {
    pub(crate) const MODE: u32 = 1;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const FH: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// Bits of `fuse_open_out.open_flags`.
pub(crate) mod fopen {
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    pub(crate) const CACHE_DIR: u32 = 1 << 3;
}

/// `fuse_open_in.open_flags`: an `O_TRUNC` that must drop set-id bits.
pub(crate) const OPEN_KILL_SUIDGID: u32 = 1;
/// `fuse_write_in.write_flags`: from the page cache, the writer is not known.
pub(crate) const WRITE_CACHE: u32 = 1;
/// `fuse_read_in.read_flags` and `fuse_write_in.write_flags`: the request has an owner of locks. The kernel sets it
/// for direct I/O alone: what goes through its page cache comes without.
pub(crate) const IO_LOCKOWNER: u32 = 1 << 1;
/// `fuse_write_in.write_flags`: the writer may not keep set-id bits.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// `fuse_fsync_in.fsync_flags`: `fdatasync`.
pub(crate) const FSYNC_FDATASYNC: u32 = 1;
/// `fuse_setxattr_in.setxattr_flags`: an access list that must drop the set-group-id bit.
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1;
/// `fuse_ioctl_in.flags`: not restricted to what the command number says.
pub(crate) const IOCTL_UNRESTRICTED: u32 = 1 << 1;
