//! How a volume is mounted: what is fixed for the life of a mount, and the first values of the rest.

use crate::tunables::TunableValues;

/// Which tenant orders metadata writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OrderingPolicy {
    /// As the superblock has it: soft updates if it asks for them (`ffs newfs -U`, `ffs tunefs -n`),
    /// else ordered synchronous writes.
    #[default]
    Superblock,
    /// Soft updates if the superblock asks for them, else none (BSD's `async`).
    Async,
    /// Soft updates: nothing is waited for, and after a crash the volume is sound but for space that
    /// is marked used.
    SoftUpdates,
    /// Ordered synchronous writes.
    Sync,
    /// None: fast, and only a full fsck helps after a crash.
    None,
}

/// What to do with access times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Atime {
    /// Never.
    Never,
    /// When older than the modification time, or than a day.
    #[default]
    Relative,
    /// Always.
    Always,
}

/// Options of [`crate::Ffs::mount`].
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Never write.
    pub read_only: bool,
    /// Mount read-write although the volume needs a check. One that was mounted with soft updates and not
    /// unmounted does not.
    pub force: bool,
    /// Who orders metadata writes.
    pub ordering: OrderingPolicy,
    /// Access times.
    pub atime: Atime,
    /// New files get their directory's group, as on BSD, instead of their maker's.
    pub bsdgroups: bool,
    /// A file renamed over another gets the name on disk only with the content it has then. Only soft
    /// updates can promise that.
    pub replace_order: bool,
    /// Whether access lists are in force; `None`: as the volume says (`tunefs -a`).
    pub acls: Option<bool>,
    /// What changes names or attributes is durable when it returns, as NFS servers promise.
    pub stable: bool,
    /// Recorded in the superblock as the last mount point.
    pub mounted_on: String,
    /// The switches that have a BSD name.
    pub tunables: TunableValues,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            read_only: false,
            force: false,
            ordering: OrderingPolicy::default(),
            atime: Atime::default(),
            bsdgroups: false,
            replace_order: true,
            stable: false,
            acls: None,
            mounted_on: String::new(),
            tunables: TunableValues::default(),
        }
    }
}
