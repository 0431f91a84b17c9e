//! Recording: each request that the server has served, for a caller that keeps a trace.
//!
//! **Invariants.**
//! 1. A request is recorded before its reply is sent. So a request that follows from a reply is
//!    recorded after the request of that reply.
//! 2. The content of reads and writes is not recorded.

use std::time::{Duration, Instant};

/// Receives the requests of a mount. Several threads call it.
pub trait CallRecorder: std::fmt::Debug + Send + Sync {
    /// A request was served.
    fn call(&self, call: &ServedCall<'_>);

    /// The mount has ended.
    fn end(&self);
}

/// A request that was served.
#[derive(Clone, Copy, Debug)]
pub struct ServedCall<'a> {
    /// When the server began to serve it.
    pub began: Instant,
    /// How long that took.
    pub took: Duration,
    /// The thread that called; 0 for the kernel itself.
    pub pid: u32,
    /// The inode number of the file or directory.
    pub ino: u64,
    /// What was requested.
    pub args: CallArgs<'a>,
    /// The error number of Linux; `None` if it succeeded.
    pub error: Option<i32>,
    /// The inode number that a lookup found or that was made.
    pub found: Option<u64>,
}

/// The arguments of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallArgs<'a> {
    /// A name in a directory.
    Lookup(&'a [u8]),
    /// Attributes.
    Getattr,
    /// A change of attributes.
    Setattr {
        /// The size in bytes.
        size: Option<u64>,
        /// The mode.
        mode: Option<u32>,
        /// The modification time in seconds; `Some(None)` for the current time.
        mtime: Option<Option<i64>>,
        /// Owner or group change.
        owner: bool,
        /// The caller has the file open.
        by_handle: bool,
    },
    /// The text of a link.
    Readlink,
    /// A new link: its name and text.
    Symlink(&'a [u8], &'a [u8]),
    /// A new file, not opened; whether it is a regular one.
    Mknod(&'a [u8], bool),
    /// A new directory.
    Mkdir(&'a [u8]),
    /// The name of a file removed.
    Unlink(&'a [u8]),
    /// A directory removed.
    Rmdir(&'a [u8]),
    /// A rename.
    Rename {
        /// The old name.
        name: &'a [u8],
        /// The inode number of the new directory.
        to_dir: u64,
        /// The new name.
        to_name: &'a [u8],
        /// The flags of renameat2.
        flags: u32,
    },
    /// A new name for the file with this inode number.
    Link(u64, &'a [u8]),
    /// A file opened, with the flags of open.
    Open(u32),
    /// A file created and opened, with the flags of open.
    Create(&'a [u8], u32),
    /// A read: offset and bytes requested.
    Read(u64, u64),
    /// A write: offset and bytes.
    Write(u64, u64),
    /// An open file is closed, with its flags.
    Release(u32),
    /// A file made durable.
    Fsync,
    /// The first part of a listing.
    List,
    /// Everything written back.
    Sync,
    /// Another request, by its name.
    Other(&'static str),
}
