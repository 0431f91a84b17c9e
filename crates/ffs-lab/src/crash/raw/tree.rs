//! The tree of an image, read without mounting it.
//!
//! # Invariants
//! 1. `inodes` are in ascending order, and the runs of an inode in ascending order of their blocks.
//!
//! References: `spec/on-disk-format.md` §7, §8, §10.1.

use ffs_ondisk::Ino;

use super::super::image::ImageBytes;
use super::volume::Volume;

// File types: the upper four bits of `di_mode`.
pub(super) const FIFO: u16 = 0o1;
pub(super) const CHAR: u16 = 0o2;
pub(super) const DIRECTORY: u16 = 0o4;
pub(super) const BLOCK: u16 = 0o6;
pub(super) const REGULAR: u16 = 0o10;
pub(super) const SYMLINK: u16 = 0o12;
pub(super) const SOCKET: u16 = 0o14;

/// The inode is not in use.
pub(super) const NO_SLOT: u32 = u32::MAX;
/// The inode has a mode, but its bitmap bit is clear.
const UNMARKED: u32 = u32::MAX - 1;
/// Bytes of a sector.
const SECTOR: u64 = 512;

/// An inode in use: its mode and its bit are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inode {
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
    /// `di_blocks`, 512-byte units.
    pub blocks: u64,
    /// `di_mtime`, seconds.
    pub mtime: i64,
    /// `di_extsize`, bytes.
    pub extsize: u32,
    /// Whether a path from the root leads to it.
    pub reached: bool,
    /// The number of names found; for a directory without `.` and the `..` of its children.
    pub names: u32,
    /// The directory of the name found first.
    pub parent: u32,
    /// The inode that `..` of a directory names.
    pub dotdot: u32,
    /// Byte of the image where the pointers, or the text of a short link, begin.
    pub(in crate::crash) text: u64,
    /// Its blocks among [`Tree::runs`].
    pub(super) runs: (u32, u32),
    /// The blocks of its extended attributes.
    pub(super) ext: (u32, u32),
    /// Its names among [`Tree::entries`].
    pub(super) entries: (u32, u32),
}

/// A block of a file, or the fragments at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Block of the file.
    pub(super) lbn: u64,
    /// First fragment.
    pub(super) at: u64,
}

/// A name, its text among [`Tree::text`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) start: u32,
    pub(super) len: u8,
    pub(super) ino: u32,
}

/// A name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// One component.
    pub name: &'a [u8],
    /// The inode that it names; it need not be in use.
    pub ino: Ino,
}

/// Bytes of a file that lie together on the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// First sector of the file, units of 512 bytes.
    pub sector: u64,
    /// First byte of the image.
    pub at: u64,
    /// Bytes, none of them beyond the size of the file.
    pub len: usize,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Attribute {
    /// 1 user, 2 system.
    pub namespace: u8,
    /// Name.
    pub name: Vec<u8>,
    /// Value.
    pub value: Vec<u8>,
}

/// The names and files of an image.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(super) volume: Volume,
    pub(super) inodes: Vec<Inode>,
    /// The index among the inodes, by inode number.
    slots: Vec<u32>,
    pub(super) runs: Vec<Run>,
    pub(super) entries: Vec<Name>,
    pub(super) text: Vec<u8>,
}

impl Tree {
    pub(super) fn clear(&mut self, volume: Volume) {
        self.volume = volume;
        self.inodes.clear();
        self.slots.clear();
        self.slots.resize(volume.inodes() as usize, NO_SLOT);
        self.runs.clear();
        self.entries.clear();
        self.text.clear();
    }

    pub(super) fn add(&mut self, inode: Inode) {
        if let Some(slot) = self.slots.get_mut(inode.ino as usize) {
            *slot = self.inodes.len() as u32;
            self.inodes.push(inode);
        }
    }

    pub(super) fn note_unmarked(&mut self, ino: u32) {
        if let Some(slot) = self.slots.get_mut(ino as usize) {
            *slot = UNMARKED;
        }
    }

    pub(super) fn slot(&self, ino: u32) -> u32 {
        self.slots.get(ino as usize).copied().unwrap_or(NO_SLOT)
    }

    pub(super) fn find(&self, ino: u32) -> Option<&Inode> {
        self.inodes.get(self.slot(ino) as usize)
    }

    pub(super) fn find_mut(&mut self, ino: u32) -> Option<&mut Inode> {
        let slot = self.slot(ino);
        self.inodes.get_mut(slot as usize)
    }

    /// Counts a name of a file in `dir`.
    pub(super) fn reach(&mut self, slot: u32, dir: u32) {
        if let Some(inode) = self.inodes.get_mut(slot as usize)
            && !inode.reached
        {
            inode.reached = true;
            inode.parent = dir;
        }
    }

    pub(super) fn is_reached(&self, slot: u32) -> bool {
        self.inodes.get(slot as usize).is_some_and(|inode| inode.reached)
    }

    pub(super) fn runs_of(&self, range: (u32, u32)) -> &[Run] {
        self.runs.get(range.0 as usize..range.1 as usize).unwrap_or(&[])
    }

    pub(super) fn name(&self, name: &Name) -> &[u8] {
        let start = name.start as usize;
        self.text.get(start..start + usize::from(name.len)).unwrap_or(&[])
    }

    /// Bytes of a fragment.
    #[must_use]
    pub(crate) fn fragment_size(&self) -> u64 {
        self.volume.fsize
    }

    /// Bytes of a block.
    #[must_use]
    pub(crate) fn block_size(&self) -> u64 {
        self.volume.bsize
    }

    /// All inodes in use, by number.
    #[cfg(test)]
    pub(crate) fn inodes(&self) -> impl Iterator<Item = &Inode> {
        self.inodes.iter()
    }

    /// The inode of that number, if it is in use.
    #[must_use]
    pub(crate) fn inode(&self, ino: Ino) -> Option<&Inode> {
        self.find(ino.0)
    }

    /// The names in a directory that the root leads to, without `.` and `..`.
    pub(crate) fn entries(&self, dir: Ino) -> impl Iterator<Item = Entry<'_>> {
        let (from, to) = self.find(dir.0).map_or((0, 0), |inode| inode.entries);
        let names = self.entries.get(from as usize..to as usize).unwrap_or(&[]);
        names.iter().map(|name| Entry { name: self.name(name), ino: Ino(name.ino) })
    }

    /// The inode that a name in a directory leads to.
    #[must_use]
    pub(crate) fn lookup(&self, dir: Ino, name: &[u8]) -> Option<Ino> {
        self.entries(dir).find(|entry| entry.name == name).map(|entry| entry.ino)
    }

    /// The inode that a path from the root leads to; symbolic links are not followed.
    #[cfg(test)]
    pub(crate) fn resolve(&self, path: &[u8]) -> Option<Ino> {
        let mut parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        parts.try_fold(Ino(super::volume::ROOT), |dir, part| self.lookup(dir, part))
    }

    /// The extents of a file's content, in ascending order; gaps between them are holes.
    pub(crate) fn extents(&self, inode: &Inode) -> impl Iterator<Item = Extent> {
        self.extents_of(inode.runs, inode.size)
    }

    fn extents_of(&self, runs: (u32, u32), size: u64) -> impl Iterator<Item = Extent> {
        let (bsize, fsize) = (self.volume.bsize, self.volume.fsize);
        self.runs_of(runs).iter().map(move |run| Extent {
            sector: run.lbn * (bsize / SECTOR),
            at: run.at * fsize,
            len: size.saturating_sub(run.lbn * bsize).min(bsize) as usize,
        })
    }

    /// The target of a symbolic link; `None` if the inode is no link or its text is missing.
    #[must_use]
    pub(crate) fn target(&self, image: &dyn ImageBytes, inode: &Inode) -> Option<Vec<u8>> {
        if inode.mode >> 12 != SYMLINK {
            return None;
        }
        if inode.size < self.volume.maxsymlinklen {
            return image.read(inode.text, inode.size as usize).map(|text| text.into_owned());
        }
        let extent = self.extents(inode).next().filter(|extent| extent.sector == 0)?;
        image.read(extent.at, extent.len).map(|text| text.into_owned())
    }

    /// The extended attributes of an inode, in their order on disk; `None` if their area cannot be
    /// decoded.
    #[must_use]
    pub(crate) fn attributes(
        &self,
        image: &dyn ImageBytes,
        inode: &Inode,
    ) -> Option<Vec<Attribute>> {
        let mut found = Vec::new();
        if inode.extsize == 0 {
            return Some(found);
        }
        let mut area = Vec::with_capacity(inode.extsize as usize);
        for extent in self.extents_of(inode.ext, u64::from(inode.extsize)) {
            area.extend_from_slice(&image.read(extent.at, extent.len)?);
        }
        if area.len() != inode.extsize as usize {
            return None;
        }
        let mut rest = area.as_slice();
        while !rest.is_empty() {
            let len = self.volume.order.u32(rest, 0) as usize;
            let &[namespace, pad, name_len] = rest.get(4..7)? else { return None };
            let name = rest.get(7..7 + usize::from(name_len))?;
            let head = (7 + usize::from(name_len)).next_multiple_of(8);
            let value = rest.get(head..len.checked_sub(usize::from(pad))?)?;
            if !len.is_multiple_of(8) || name_len == 0 || pad > 7 {
                return None;
            }
            found.push(Attribute { namespace, name: name.to_vec(), value: value.to_vec() });
            rest = rest.get(len..)?;
        }
        Some(found)
    }
}
