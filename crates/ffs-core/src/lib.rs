//! The mounted Berkeley Fast File System: everything between a caller's operation and the device.
//!
//! | module, top down | contents |
//! | --- | --- |
//! | `ops` | the operations; the only module that locks two inodes |
//! | [`mount`] | [`Ffs`]: the mount's state, the superblock in force, unmounting |
//! | `dir` | directories: lookup, entry, removal, listing |
//! | `syncer` | making changes durable, deferred work |
//! | `inode` | the inode table, block map, reading, writing, truncation, attributes |
//! | `ufsmount` | parts that all operations share: cache, allocator, ordering mode, switches |
//! | `quota` | usage and limits of users and groups |
//! | `namecache` | names in memory, and the files they name |
//! | `alloc` | inodes, blocks, fragments, clusters: allocation |
//! | `ordering` | when metadata may reach the disk |
//! | `buf` | blocks in memory and the write path |
//! | `source` | the content of a write |
//! | `dirhash` | indexes of large directories in memory |
//!
//! A module uses only those below it (`ffs-testkit/tests/layers.rs` checks this). The core uses
//! neither FUSE nor the system clock: time and randomness are passed to [`Ffs::mount`].

mod alloc;
mod buf;
mod counters;
mod cred;
mod dir;
mod dirhash;
mod error;
mod inode;
pub mod linux_xattr;
pub mod mount;
mod namecache;
mod openhash;
mod ops;
mod options;
mod ordering;
mod per_thread;
mod prefetch;
mod quota;
mod snapshot;
mod source;
mod sparse_array;
mod sync;
mod syncer;
mod tunables;
mod types;
mod ufsmount;

pub use buf::{CacheStats, ClassStats};
pub use counters::{CounterValues, Gauge};
pub use cred::{Checks, Cred};
pub use error::{Error, Result};
pub use ffs_ondisk::quota::{Dqblk, QuotaType};
pub use ffs_ondisk::rdev::DeviceNumber;
pub use ffs_ondisk::{FileFlags, FileType, GID_OPERATOR, Ino, Timespec};
pub use mount::{CheckNeed, CheckProgress, Env, Ffs, Nature, SnapshotStats, Sysctl};
pub use ops::{
    Adjusted, BackgroundCheck, Changed, QuotaRepair, SecondName, SnapshotInfo, Vnode, acl,
};
pub use options::{Atime, MountOptions, OrderingPolicy, QuotaOption, QuotaOptions};
pub use ordering::JournalStats;
#[cfg(feature = "mutants")]
pub use ordering::rules::break_rule;
pub use ordering::rules::{Rule, holds};
pub use quota::Grace;
pub use source::WriteSource;
#[cfg(feature = "schedule")]
pub use sync::schedule;
pub use tunables::{
    AllocPolicy, DirHashFunction, DirPref, DirTruncate, FsyncScope, Kind, Limit, NamecachePrime,
    Tunable, TunableError, TunableId, TunableValues, WriteInPlace, describe as describe_tunables,
    nearest, size, suggestion,
};
pub use types::{
    Access, Attr, DirEntry, Fallocate, NodeKind, RenameMode, SetAttr, SetIdBits, SetTime, StatFs,
    WriteMode, XattrNamespace, XattrSet,
};
