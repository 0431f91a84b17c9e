//! Options of a mount: values that hold for its whole life, and initial values of the switches.

use crate::tunables::TunableValues;

/// The ordering mode of metadata writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OrderingPolicy {
    /// Soft updates if the superblock has `FS_DOSOFTDEP` (`ffs newfs -U`, `ffs tunefs -n`), with
    /// the journal if it has `FS_SUJ`; else ordered synchronous writes.
    #[default]
    Superblock,
    /// Soft updates as with `Superblock`, else no order (BSD's `async`).
    Async,
    /// Soft updates without a journal: operations do not wait for writes. After a crash the volume
    /// is consistent, except that free space may be marked used.
    SoftUpdates,
    /// Soft updates, with the journal of a volume with `FS_SUJ`: after a crash a recovery by the
    /// journal finds the space that is marked used, without a check of everything.
    Journaled,
    /// Ordered synchronous writes.
    Sync,
    /// No order: fast, but after a crash the volume needs a full fsck.
    None,
}

impl OrderingPolicy {
    /// Whether the mode is soft updates, with or without a journal.
    pub(crate) fn is_softdep(self) -> bool {
        matches!(self, OrderingPolicy::SoftUpdates | OrderingPolicy::Journaled)
    }
}

/// When reading a file sets its access time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Atime {
    /// Never.
    Never,
    /// When it is older than the modification time, or older than a day.
    #[default]
    Relative,
    /// Always.
    Always,
}

/// Whether quotas of one type are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QuotaOption {
    /// No.
    #[default]
    Off,
    /// If the volume has the quota file.
    IfPresent,
    /// Yes. Without the quota file the mount fails.
    On,
}

/// Which quotas are on. If both are [`QuotaOption::IfPresent`], the mount fails without a quota
/// file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QuotaOptions {
    /// Those of users.
    pub user: QuotaOption,
    /// Those of groups.
    pub group: QuotaOption,
}

impl QuotaOptions {
    /// Quotas of the types whose file the volume has (`-o quota`).
    pub const PRESENT: QuotaOptions =
        QuotaOptions { user: QuotaOption::IfPresent, group: QuotaOption::IfPresent };
}

/// Options of [`crate::Ffs::mount`].
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Never write.
    pub read_only: bool,
    /// Mount read-write although the volume needs a check. A volume that was mounted with soft
    /// updates and not unmounted does not need one.
    pub force: bool,
    /// The ordering mode of metadata writes.
    pub ordering: OrderingPolicy,
    /// Access times.
    pub atime: Atime,
    /// New files get their directory's group, as on BSD, instead of their creator's.
    pub bsdgroups: bool,
    /// A name that a rename or link gives reaches the device only after the content that the file
    /// has at that time. Only soft updates can promise that.
    pub replace_order: bool,
    /// Whether access lists are in force; `None`: if the superblock enables them (`tunefs -a`).
    pub acls: Option<bool>,
    /// Changes of names and attributes are durable when the operation returns, as NFS requires.
    pub stable: bool,
    /// Which quotas are on.
    pub quotas: QuotaOptions,
    /// Most bytes of a soft-updates journal that the mount uses, at least a block. Tests use it
    /// for a journal that soon begins again at its start.
    pub journal_limit: Option<u64>,
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
            quotas: QuotaOptions::default(),
            journal_limit: None,
            mounted_on: String::new(),
            tunables: TunableValues::default(),
        }
    }
}
