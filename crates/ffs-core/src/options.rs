//! How a volume is mounted: what is fixed for the life of a mount, and the first values of the rest.

use crate::tunables::TunableValues;

/// Which tenant orders metadata writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OrderingPolicy {
    /// Ordered synchronous writes.
    #[default]
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
#[derive(Clone, Debug, Default)]
pub struct MountOptions {
    /// Never write.
    pub read_only: bool,
    /// Mount read-write although the volume is dirty or needs a check.
    pub force: bool,
    /// Ordering tenant.
    pub ordering: OrderingPolicy,
    /// Access times.
    pub atime: Atime,
    /// New files get their directory's group, as on BSD, instead of their maker's.
    pub bsdgroups: bool,
    /// Access lists are in force even if the volume does not say so.
    pub acls: bool,
    /// Recorded in the superblock as the last mount point.
    pub mounted_on: String,
    /// The switches that have a BSD name.
    pub tunables: TunableValues,
}
