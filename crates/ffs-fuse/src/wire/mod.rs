//! The kernel's FUSE protocol: constants, requests, replies, the device.
//!
//! **Purpose.** Only this module uses the layout of requests and replies (`<linux/fuse.h>`,
//! protocol 7). The rest of the crate uses opcodes, arguments and a reply to fill.
//!
//! **Invariants.**
//! 1. No request makes this module panic or read beyond the request. A short one fails with `EIO`.
//! 2. Requests and replies are in buffers of the worker that serves them, or in those that the
//!    kernel shares by a ring, without an allocation each.
//!
//! **References.** `include/uapi/linux/fuse.h` of Linux 6.18; `spec/known-failures.md` §1.

use ffs_core::Ino;

pub(crate) mod device;
mod errno;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod ring;
pub(crate) mod splice;

pub(crate) use device::{Device, Features};
pub(crate) use errno::Errno;
pub(crate) use reply::{Entry, HandedOut, LastByte, Pages, Reply};
pub(crate) use request::{Args, Request};

/// The kernel's number of the root node. The file system's inode number differs.
pub(crate) const ROOT: u64 = 1;

/// The kernel's node number of the file `ino`.
pub(crate) fn node_of(ino: Ino) -> u64 {
    if ino == Ino::ROOT { ROOT } else { u64::from(ino.0) }
}

/// The most bytes one read carries.
pub(crate) const MAX_IO: usize = 1 << 20;
/// The most bytes one write carries. With its header it fits into a pipe of 1 MiB, the largest that
/// a process without privileges can have.
pub(crate) const MAX_WRITE: usize = MAX_IO - (64 << 10);

/// Bytes of `fuse_out_header`, the start of each reply.
const HEADER: usize = 16;

/// Operation codes.
pub(crate) mod op {
    macro_rules! opcodes {
        ($($name:ident = $code:literal,)*) => {
            $(pub(crate) const $name: u32 = $code;)*

            /// The name of an opcode; `?` if it is none of these.
            pub(crate) fn name(opcode: u32) -> &'static str {
                match opcode {
                    $($code => stringify!($name),)*
                    _ => "?",
                }
            }

            /// Every opcode of these, with the name of its counter.
            pub(crate) const COUNTED: &[(u32, &str)] =
                &[$(($code, concat!("vfs.fusefs.requests.", stringify!($name)))),*];
        };
    }

    opcodes! {
        LOOKUP = 1,
        FORGET = 2,
        GETATTR = 3,
        SETATTR = 4,
        READLINK = 5,
        SYMLINK = 6,
        MKNOD = 8,
        MKDIR = 9,
        UNLINK = 10,
        RMDIR = 11,
        RENAME = 12,
        LINK = 13,
        OPEN = 14,
        READ = 15,
        WRITE = 16,
        STATFS = 17,
        RELEASE = 18,
        FSYNC = 20,
        SETXATTR = 21,
        GETXATTR = 22,
        LISTXATTR = 23,
        REMOVEXATTR = 24,
        FLUSH = 25,
        OPENDIR = 27,
        READDIR = 28,
        RELEASEDIR = 29,
        FSYNCDIR = 30,
        ACCESS = 34,
        CREATE = 35,
        DESTROY = 38,
        IOCTL = 39,
        BATCH_FORGET = 42,
        FALLOCATE = 43,
        READDIRPLUS = 44,
        RENAME2 = 45,
        LSEEK = 46,
        SYNCFS = 50,
        TMPFILE = 51,
        STATX = 52,
    }
}

/// Whether the request closes an open file or directory. No program waits for the reply.
pub(crate) fn is_release(opcode: u32) -> bool {
    matches!(opcode, op::RELEASE | op::RELEASEDIR)
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
    pub(crate) const CTIME: u32 = 1 << 10;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// Bits of `fuse_open_out.open_flags`.
pub(crate) mod fopen {
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    pub(crate) const CACHE_DIR: u32 = 1 << 3;
}

/// `fuse_open_in.open_flags`: an `O_TRUNC` that must drop set-id bits.
pub(crate) const OPEN_KILL_SUIDGID: u32 = 1;
/// `fuse_write_in.write_flags`: a write from the page cache, without the process that wrote.
pub(crate) const WRITE_CACHE: u32 = 1;
/// `fuse_read_in.read_flags` and `fuse_write_in.write_flags`: the request has a lock owner. The
/// kernel sets it for direct I/O only, not for I/O through its page cache.
pub(crate) const IO_LOCKOWNER: u32 = 1 << 1;
/// `fuse_write_in.write_flags`: the writer may not keep set-id bits.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// `fuse_fsync_in.fsync_flags`: `fdatasync`.
pub(crate) const FSYNC_FDATASYNC: u32 = 1;
/// `fuse_setxattr_in.setxattr_flags`: an access list that must drop the set-group-id bit.
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1;
/// `fuse_ioctl_in.flags`: not restricted to the sizes in the command number.
pub(crate) const IOCTL_UNRESTRICTED: u32 = 1 << 1;
