//! The tree an image holds, without mounting it.

use ffs_ondisk::Ino;

use super::super::image::ImageBytes;

/// An inode in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inode {
    /// Its number.
    pub ino: u32,
    /// `di_mode`.
    pub mode: u16,
    /// `di_nlink`.
    pub nlink: u16,
    /// `di_uid`.
    pub uid: u32,
    /// `di_gid`.
    pub gid: u32,
    /// `di_gen`.
    pub generation: u32,
    /// `di_flags`.
    pub flags: u32,
    /// `di_size`, bytes.
    pub size: u64,
    /// `di_mtime`, seconds.
    pub mtime: i64,
    /// `di_extsize`, bytes.
    pub extsize: u32,
}

/// A name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// One component.
    pub name: &'a [u8],
    /// What it names.
    pub ino: u32,
}

/// Where bytes of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: they read as zeros.
    Hole,
    /// At this byte of the image.
    At(u64),
}

/// The names and files of an image.
#[derive(Debug, Default)]
pub struct Tree {}

impl Tree {
    /// The inode of that number, if it is in use.
    #[must_use]
    pub fn inode(&self, _ino: Ino) -> Option<&Inode> {
        None
    }

    /// The names in a directory that the root leads to, without `.` and `..`.
    pub fn entries(&self, _dir: Ino) -> impl Iterator<Item = Entry<'_>> {
        std::iter::empty()
    }

    /// What a path leads to.
    #[must_use]
    pub fn resolve(&self, _path: &[u8]) -> Option<Ino> {
        None
    }

    /// Where sector `index` (of 512 bytes) of a file is.
    #[must_use]
    pub fn sector(&self, _inode: &Inode, _index: u64) -> Place {
        Place::Hole
    }

    /// The target of a symbolic link.
    #[must_use]
    pub fn target(&self, _image: &dyn ImageBytes, _inode: &Inode) -> Option<Vec<u8>> {
        None
    }
}
