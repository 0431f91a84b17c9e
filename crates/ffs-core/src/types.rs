//! Arguments and results of the operations.

use crate::cred::Cred;
use ffs_ondisk::{Csum, FileFlags, FileType, Ino, Timespec};

/// Attributes of a file, as `stat` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Generation: changes whenever the inode number is given to another file.
    pub generation: u32,
    /// Type.
    pub kind: FileType,
    /// Permission bits, set-id bits and sticky bit (low 12 bits of the mode).
    pub perm: u16,
    /// Links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    /// Preferred I/O size: the block size, bytes.
    pub blksize: u32,
    /// Device number in FreeBSD's encoding; 0 if the file is no device.
    pub rdev: u64,
    /// Access time.
    pub atime: Timespec,
    /// Modification time.
    pub mtime: Timespec,
    /// Change time.
    pub ctime: Timespec,
    /// Creation time (UFS2; the change time on UFS1).
    pub birthtime: Timespec,
    /// File flags.
    pub flags: FileFlags,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present. A user who may write may set both times to it; other times only the owner.
    Now,
    /// A given moment.
    To(Timespec),
}

/// Attributes to change; `None` keeps the present value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Low 12 bits of the mode.
    pub perm: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size, bytes: truncates or extends.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<SetTime>,
    /// Modification time.
    pub mtime: Option<SetTime>,
    /// Creation time (UFS2).
    pub birthtime: Option<Timespec>,
    /// File flags.
    pub flags: Option<FileFlags>,
    /// What happens to the set-id bits if owner, group or size change and `perm` is `None`.
    pub set_id: SetIdBits,
}

impl SetIdBits {
    /// Whether a change by `cred` clears the bits.
    pub(crate) fn are_cleared_by(self, cred: &Cred) -> bool {
        match self {
            SetIdBits::ByCaller => !cred.is_root,
            SetIdBits::Keep => false,
            SetIdBits::Drop => true,
        }
    }
}

impl SetAttr {
    /// Whether owner or group are set.
    pub(crate) fn changes_owner(&self) -> bool {
        self.uid.is_some() || self.gid.is_some()
    }
}

/// What happens to the set-id bits and the capabilities (`security.capability`) of a file whose
/// owner, group or size changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetIdBits {
    /// The capabilities are removed. The bits are cleared, except if the caller is root.
    #[default]
    ByCaller,
    /// Bits and capabilities stay: the caller has the right to keep them, or clears them itself.
    Keep,
    /// The bits are cleared and the capabilities removed.
    Drop,
}

/// The type of a file that `create` creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Regular file.
    Regular,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Character device with a number in FreeBSD's encoding.
    Char(u64),
    /// Block device with a number in FreeBSD's encoding.
    Block(u64),
}

/// How `rename` treats an existing target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces the target.
    #[default]
    Replace,
    /// Fails with `EEXIST`.
    NoReplace,
    /// Exchanges the two names.
    Exchange,
    /// Puts a whiteout at the old name, in one step with the rename. A whiteout is a character
    /// device 0:0; Linux's overlayfs uses it to hide a name of the layers below. An existing target
    /// is treated as by [`RenameMode::Replace`] with `replace`, else as by
    /// [`RenameMode::NoReplace`].
    Whiteout {
        /// Whether an existing target is replaced.
        replace: bool,
    },
}

impl RenameMode {
    /// Whether a target must not exist.
    pub(crate) fn is_exclusive(self) -> bool {
        matches!(self, RenameMode::NoReplace | RenameMode::Whiteout { replace: false })
    }
}

/// An entry that `readdir` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Inode number.
    pub ino: Ino,
    /// Type, if the entry records it.
    pub kind: Option<FileType>,
    /// Name.
    pub name: &'a [u8],
    /// The offset at which a listing continues after this entry.
    pub next: u64,
}

/// How a write is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteMode {
    /// The write appends to the file; the offset is ignored (`O_APPEND`).
    pub append: bool,
    /// The write and its metadata are durable when the call returns (`O_SYNC`).
    pub sync: bool,
    /// What happens to the set-id bits.
    pub set_id: SetIdBits,
}

/// Which part of a file an fsync includes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SyncScope {
    /// Content, attributes and names (`fsync`).
    All,
    /// Content, and the metadata that reading it needs (`fdatasync`).
    Data,
}

/// The change that `fallocate` makes to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Allocates blocks, zero filled; grows the file.
    Allocate,
    /// Allocates blocks inside the file's size only.
    AllocateKeepSize,
    /// Frees the blocks of the range, which then reads as zeros; the size stays.
    PunchHole,
    /// Writes zeros; grows the file.
    ZeroRange,
}

/// Name spaces of extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum XattrNamespace {
    /// Attributes of users (`user`).
    User,
    /// Attributes of the system (`system`): root only.
    System,
}

/// Whether an attribute that is set must exist, or must not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrSet {
    /// It may exist or not.
    #[default]
    Any,
    /// It must not exist.
    Create,
    /// It must exist.
    Replace,
}

/// Space and inodes of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// Block size, bytes.
    pub bsize: u32,
    /// Fragment size, bytes: the unit of the counts below.
    pub fsize: u32,
    /// Data fragments.
    pub frags: u64,
    /// Free fragments.
    pub frags_free: u64,
    /// Fragments free for users other than root; negative if the reserve is in use.
    pub frags_avail: i64,
    /// Inodes.
    pub inodes: u64,
    /// Free inodes.
    pub inodes_free: u64,
    /// The file system's id.
    pub id: u64,
    /// Longest name, bytes.
    pub name_max: u32,
    /// Totals of the groups.
    pub totals: Csum,
}

/// Kinds of access to check: a set of permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub u8);

impl Access {
    /// Read.
    pub const READ: Access = Access(4);
    /// Write.
    pub const WRITE: Access = Access(2);
    /// Execute or search.
    pub const EXEC: Access = Access(1);

    /// The union of both sets.
    #[must_use]
    pub fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}
