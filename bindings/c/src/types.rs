//! Structures and constants of the interface.

use bsdffs::Metadata;
use ffs_core::Timespec;
use libc::c_char;

/// Open for reading.
pub const FFS_READ: u32 = 1;
/// Open for writing. A volume that is open for writing can be read, too.
pub const FFS_WRITE: u32 = 2;
/// Each write goes to the end of the file.
pub const FFS_APPEND: u32 = 4;
/// Create the file if it does not exist.
pub const FFS_CREATE: u32 = 8;
/// With FFS_CREATE: fail if it exists. Without FFS_CREATE an error, -EINVAL.
pub const FFS_EXCLUSIVE: u32 = 16;
/// Truncate an existing file to 0 bytes.
pub const FFS_TRUNCATE: u32 = 32;

/// ffs_newfs(): UFS1 in place of UFS2.
pub const FFS_UFS1: u32 = 1;
/// ffs_newfs(): no soft updates.
pub const FFS_NO_SOFT_UPDATES: u32 = 2;
/// ffs_newfs(): soft updates with a journal.
pub const FFS_JOURNAL: u32 = 4;

/// ffs_fsck(): change nothing.
pub const FFS_CHECK: u32 = 0;
/// ffs_fsck(): repair what a crash leaves, stop at anything else.
pub const FFS_PREEN: u32 = 1;
/// ffs_fsck(): repair everything.
pub const FFS_REPAIR: u32 = 2;

/// ffs_chown(): keep the present owner or group.
pub const FFS_KEEP_ID: u32 = u32::MAX;

/// A time since 1970.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ffs_time {
    /// Seconds.
    pub sec: i64,
    /// Nanoseconds after that second, 0 to 999999999.
    pub nsec: i32,
}

/// Attributes of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ffs_stat {
    /// Inode number.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Space in units of 512 bytes.
    pub blocks: u64,
    /// The number of a device file, in the encoding of Linux.
    pub rdev: u64,
    /// Type and permissions, as st_mode of stat(2).
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// File flags, as of chflags(2) of BSD.
    pub flags: u32,
    /// Preferred size of a transfer, bytes.
    pub blksize: u32,
    /// Changes when the inode is used for another file.
    pub generation: u32,
    /// Access.
    pub atime: ffs_time,
    /// Modification of the content.
    pub mtime: ffs_time,
    /// Change of the inode.
    pub ctime: ffs_time,
    /// Creation; on UFS1 the change of the inode.
    pub birthtime: ffs_time,
}

impl From<Timespec> for ffs_time {
    fn from(at: Timespec) -> ffs_time {
        // A damaged inode may have any number in the place of the nanoseconds.
        ffs_time { sec: at.secs, nsec: at.nsec.clamp(0, 999_999_999) }
    }
}

impl From<Metadata> for ffs_stat {
    fn from(found: Metadata) -> ffs_stat {
        let attr = found.attr();
        ffs_stat {
            ino: found.ino(),
            size: found.len(),
            blocks: found.blocks(),
            rdev: found.rdev(),
            mode: found.mode(),
            nlink: attr.nlink,
            uid: found.uid(),
            gid: found.gid(),
            flags: found.flags().bits(),
            blksize: attr.blksize,
            generation: attr.generation,
            atime: attr.atime.into(),
            mtime: attr.mtime.into(),
            ctime: attr.ctime.into(),
            birthtime: attr.birthtime.into(),
        }
    }
}

/// Space and inodes of a volume.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ffs_statfs {
    /// Data fragments.
    pub blocks: u64,
    /// Free fragments.
    pub bfree: u64,
    /// Fragments free for users other than root; negative if the reserve is in use.
    pub bavail: i64,
    /// Inodes.
    pub files: u64,
    /// Free inodes.
    pub ffree: u64,
    /// Block size, bytes.
    pub bsize: u32,
    /// Fragment size, bytes: the unit of the counts above.
    pub fsize: u32,
    /// Longest name, bytes.
    pub namemax: u32,
    /// 1 if the volume is open for reading only.
    pub read_only: u32,
}

/// An entry of a directory.
#[repr(C)]
pub struct ffs_dirent {
    /// Inode number.
    pub ino: u64,
    /// The type, as in st_mode (S_IFREG, S_IFDIR, ...); 0 if it cannot be read.
    pub kind: u32,
    /// The name, with a NUL at its end.
    pub name: [c_char; 256],
}
