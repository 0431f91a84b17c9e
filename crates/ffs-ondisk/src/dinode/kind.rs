//! File types and file flags (`spec/on-disk-format.md` §7.3, §7.4).
//!
//! Bits of `di_flags` without a name here are preserved.

use bitflags::bitflags;

/// The file types of `di_mode` (`spec/on-disk-format.md` §7.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum FileType {
    /// Named pipe.
    Fifo,
    /// Character device.
    Char,
    /// Directory.
    Directory,
    /// Block device.
    Block,
    /// Regular file.
    Regular,
    /// Symbolic link.
    Symlink,
    /// Socket.
    Socket,
}

impl FileType {
    /// The file type of a mode; `None` if its type bits are invalid.
    #[must_use]
    pub fn of_mode(mode: u16) -> Option<FileType> {
        Self::of_dirent(((mode & 0o170_000) >> 12) as u8)
    }

    /// The file type of a directory entry's `d_type`.
    #[must_use]
    pub fn of_dirent(t: u8) -> Option<FileType> {
        Some(match t {
            1 => FileType::Fifo,
            2 => FileType::Char,
            4 => FileType::Directory,
            6 => FileType::Block,
            8 => FileType::Regular,
            10 => FileType::Symlink,
            12 => FileType::Socket,
            _ => return None,
        })
    }

    /// `d_type` of a directory entry.
    #[must_use]
    pub fn dirent(self) -> u8 {
        match self {
            FileType::Fifo => 1,
            FileType::Char => 2,
            FileType::Directory => 4,
            FileType::Block => 6,
            FileType::Regular => 8,
            FileType::Symlink => 10,
            FileType::Socket => 12,
        }
    }

    /// The type bits of a mode.
    #[must_use]
    pub fn mode_bits(self) -> u16 {
        u16::from(self.dirent()) << 12
    }

    /// Character or block device.
    #[must_use]
    pub fn is_device(self) -> bool {
        matches!(self, FileType::Char | FileType::Block)
    }
}

bitflags! {
    /// `di_flags` (`spec/on-disk-format.md` §7.4).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
    pub struct FileFlags: u32 {
        /// Do not dump.
        const UF_NODUMP = 0x1;
        /// Owner: may not change.
        const UF_IMMUTABLE = 0x2;
        /// Owner: append only.
        const UF_APPEND = 0x4;
        /// Directory is opaque in a union.
        const UF_OPAQUE = 0x8;
        /// Owner: may not be removed or renamed.
        const UF_NOUNLINK = 0x10;
        /// DOS system file.
        const UF_SYSTEM = 0x80;
        /// Sparse file.
        const UF_SPARSE = 0x100;
        /// Offline file.
        const UF_OFFLINE = 0x200;
        /// Reparse point.
        const UF_REPARSE = 0x400;
        /// Needs to be archived.
        const UF_ARCHIVE = 0x800;
        /// DOS read-only.
        const UF_READONLY = 0x1000;
        /// Hidden.
        const UF_HIDDEN = 0x8000;
        /// Archived.
        const SF_ARCHIVED = 0x1_0000;
        /// Root: may not change.
        const SF_IMMUTABLE = 0x2_0000;
        /// Root: append only.
        const SF_APPEND = 0x4_0000;
        /// Root: may not be removed or renamed.
        const SF_NOUNLINK = 0x10_0000;
        /// Snapshot file.
        const SF_SNAPSHOT = 0x20_0000;
        const _ = !0;
    }
}

impl FileFlags {
    /// Flags the owner may set.
    pub const OWNER_SETTABLE: u32 = 0x0000_ffff;
    /// Flags only root may set.
    pub const ROOT_SETTABLE: u32 = 0xffff_0000;
    /// The file may not change at all.
    pub const IMMUTABLE: FileFlags = FileFlags::UF_IMMUTABLE.union(FileFlags::SF_IMMUTABLE);
    /// The file may only grow; names may only be added to a directory.
    pub const APPEND: FileFlags = FileFlags::UF_APPEND.union(FileFlags::SF_APPEND);
    /// No name of the file may be removed.
    pub const NOUNLINK: FileFlags = FileFlags::UF_NOUNLINK.union(FileFlags::SF_NOUNLINK);
}
