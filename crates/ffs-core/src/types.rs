//! What goes in and out of the operations.

use crate::cred::Cred;
use ffs_ondisk::{Csum, FileFlags, FileType, Ino, Timespec};

/// Attributes of a file, as `stat` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Generation: changes whenever the number is given to another file.
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
    /// 512-byte units held.
    pub blocks: u64,
    /// Preferred I/O size: the block size, bytes.
    pub blksize: u32,
    /// Device number in FreeBSD's encoding, of devices.
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
    /// The present: for both times also writers may set it, not only the owner.
    Now,
    /// A given moment.
    To(Timespec),
}

/// Attributes to change; `None` leaves one alone.
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
    /// The set-id bits, if owner, group or size change and `perm` does not say.
    pub set_id: SetIdBits,
}

impl SetIdBits {
    /// Whether a change by `cred` takes the bits.
    pub(crate) fn go_for(self, cred: &Cred) -> bool {
        match self {
            SetIdBits::ByCaller => !cred.is_root(),
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

/// What becomes of the set-id bits of a file whose owner, group or size changes, and of the capabilities that it
/// gives to who runs it (`security.capability`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetIdBits {
    /// The capabilities go; the bits go unless root asks.
    #[default]
    ByCaller,
    /// All stay: the caller has the right to keep them, or removes them itself.
    Keep,
    /// All go.
    Drop,
}

/// What `create` makes.
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
    /// Replaces it.
    #[default]
    Replace,
    /// Fails with `EEXIST`.
    NoReplace,
    /// Swaps the two names.
    Exchange,
    /// Leaves a whiteout at the old name, in one step with the rename: a character device 0:0, by which Linux's
    /// overlayfs marks a name that is not to be seen in the layers below. With `replace` as
    /// [`RenameMode::Replace`], else as [`RenameMode::NoReplace`].
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
    /// Type, where the entry tells.
    pub kind: Option<FileType>,
    /// Name.
    pub name: &'a [u8],
    /// Where to go on after this entry.
    pub next: u64,
}

/// How a write is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteMode {
    /// At the end of the file, whatever the offset.
    pub append: bool,
    /// Durable, with its metadata, when the call returns (`O_SYNC`).
    pub sync: bool,
    /// What becomes of set-id bits.
    pub set_id: SetIdBits,
}

/// What `fallocate` does to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Allocates blocks, zero filled; grows the file.
    Allocate,
    /// Allocates blocks inside the file's size only.
    AllocateKeepSize,
    /// Makes a hole; the size stays.
    PunchHole,
    /// Zeros; grows the file.
    ZeroRange,
}

/// Name spaces of extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum XattrNamespace {
    /// Of users.
    User,
    /// Of the system: only root.
    System,
}

/// Whether a set attribute must or must not be there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrSet {
    /// Either.
    #[default]
    Any,
    /// Must not exist.
    Create,
    /// Must exist.
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
    /// Free fragments for everybody but root; negative in the reserve.
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

/// Access a caller may ask for: a set of the permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub u8);

impl Access {
    /// Read.
    pub const READ: Access = Access(4);
    /// Write.
    pub const WRITE: Access = Access(2);
    /// Execute or search.
    pub const EXEC: Access = Access(1);

    /// Both.
    #[must_use]
    pub fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}
