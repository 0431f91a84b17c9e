//! What each fragment and each inode of a checked image is used for.
//!
//! Reference: `spec/on-disk-format.md` §4, §5.

use super::Checker;
use super::tree::{DIRECTORY, Inode, REGULAR};

/// The use of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is marked free.
    Free,
    /// Boot blocks, a superblock or a copy of it.
    Superblock,
    /// The header and the maps of a group.
    Group,
    /// Inodes.
    Inodes,
    /// The summaries of the groups.
    Summary,
    /// Content of a directory.
    Directory,
    /// Content of a regular file.
    File,
    /// Content of another inode.
    Other,
    /// Pointers to other blocks, of the inode that owns it.
    Pointers,
    /// It is marked in use, and no inode owns it.
    Leaked,
}

impl Use {
    /// The use of the content of an inode with this mode.
    pub(crate) fn of_mode(mode: u16) -> Use {
        match mode >> 12 {
            DIRECTORY => Use::Directory,
            REGULAR => Use::File,
            _ => Use::Other,
        }
    }
}

/// The constants of a volume that a drawing needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Whether it is UFS2.
    pub ufs2: bool,
    /// Bytes of a fragment.
    pub fsize: u64,
    /// Fragments of a block.
    pub frag: u64,
    /// Groups.
    pub groups: u32,
    /// Inodes of a group.
    pub ipg: u32,
    /// Fragments of a group.
    pub fpg: u64,
    /// Fragments of the volume.
    pub size: u64,
}

impl Checker {
    /// The shape of the image that was checked last.
    #[must_use]
    pub(crate) fn shape(&self) -> Shape {
        let v = &self.volume;
        Shape {
            ufs2: v.ufs2,
            fsize: v.fsize,
            frag: v.frag,
            groups: v.ncg,
            ipg: v.ipg,
            fpg: v.fpg,
            size: v.size,
        }
    }

    /// The inodes in use, by number.
    pub(crate) fn inodes_in_use(&self) -> impl Iterator<Item = &Inode> {
        self.found.tree.inodes.iter()
    }

    /// The use of each fragment of the image that was checked last, and the inode that owns it; 0
    /// for none.
    #[must_use]
    pub(crate) fn uses(&self) -> Vec<(Use, u32)> {
        let v = &self.volume;
        let mut uses: Vec<(Use, u32)> = Vec::with_capacity(v.size as usize);
        for at in 0..v.size {
            let owner = self.owners.get(at as usize).copied().unwrap_or(0);
            let free = self.groups.first_free(v, at, 1).is_some();
            let found = match owner {
                0 if free => Use::Free,
                0 => Use::Leaked,
                _ => Use::Pointers,
            };
            uses.push((found, owner));
        }
        for inode in self.inodes_in_use() {
            let kind = Use::of_mode(inode.mode);
            for run in self.found.tree.runs_of(inode.runs) {
                let frags = v.fragments_of(run.lbn, inode.size);
                fill(&mut uses, run.at..run.at.saturating_add(frags), (kind, inode.ino));
            }
        }
        for cg in 0..v.ncg {
            let kinds = [Use::Superblock, Use::Group, Use::Inodes];
            for (range, found) in v.parts(cg).into_iter().zip(kinds) {
                fill(&mut uses, range, (found, 0));
            }
        }
        fill(&mut uses, v.summary(), (Use::Summary, 0));
        uses
    }
}

fn fill(uses: &mut [(Use, u32)], range: std::ops::Range<u64>, value: (Use, u32)) {
    let end = (range.end as usize).min(uses.len());
    let from = (range.start as usize).min(end);
    if let Some(part) = uses.get_mut(from..end) {
        part.fill(value);
    }
}
