//! The independent checker: compares the bytes of an image with the crash contract.
//!
//! **Purpose.** It decodes UFS1 and UFS2 of either byte order. It reports states that no crash may
//! leave (F1 to F5, F7, F8, F11, F12, F14, F15), notes states that a crash may leave (A1 to A10,
//! A13 to A16), and keeps the tree. The oracle compares the tree with the workload (F6, F9, F10,
//! F13). The checker shares no code with `fsck` or with the validators of the format, so that an
//! error there cannot hide itself.
//!
//! | module | holds |
//! | --- | --- |
//! | `order`, `volume` | numbers, the superblock, addressing |
//! | `groups` | the maps of the groups |
//! | `inodes` | inodes and their blocks: F3, F4, F7, F12 |
//! | `names` | directories: F1, F2, F8, F11, F14 |
//! | `links` | counts against names: F5, F15 |
//! | `tree` | the names and files found: [`Tree`] |
//! | `snapshot` | the image that a snapshot shows: [`SnapshotImage`] |
//! | `places` | the use of each fragment and inode: [`Use`] |
//!
//! # Invariants
//! 1. Work and memory are bounded by the length of the image, even for arbitrary bytes: a block is
//!    followed for its first owner only, and a directory is read once.
//! 2. A [`Checker`] keeps its memory. From the second image of a geometry on, checking a sound
//!    image allocates none.
//!
//! References: `spec/soft-updates.md` §1; `spec/on-disk-format.md`.

mod groups;
mod inodes;
mod links;
mod names;
mod order;
mod places;
mod snapshot;
#[cfg(test)]
mod tests;
mod tree;
mod volume;

use std::ops::Range;

use ffs_ondisk::{Ino, journal};

use super::history::{Allowed, Violation};
use super::image::ImageBytes;
use groups::Groups;
use volume::Volume;

pub(crate) use places::{Shape, Use};
pub(crate) use snapshot::SnapshotImage;
pub(crate) use tree::{Attribute, Inode, Tree};

/// Most violations that are reported of one image.
const MOST: usize = 32;

/// The result of checking an image.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Violations of the contract.
    pub violations: Vec<Violation>,
    /// The allowed states that the image shows.
    pub seen: Allowed,
    /// The names and files.
    pub tree: Tree,
}

/// Checks images, and reuses its memory from one image to the next.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    found: Found,
    volume: Volume,
    groups: Groups,
    /// The inode that owns each fragment; 0: none.
    owners: Vec<u32>,
    /// Fragments with an owner.
    owned: u64,
    /// Directories that the root leads to, in the order of reading.
    queue: Vec<u32>,
    /// Second and further names of directories: inode, directory.
    second_names: Vec<(u32, u32)>,
    /// Hashes of the names of the current directory.
    hashes: Vec<(u32, u32)>,
    /// For each inode, the number of `..` that name it now, and that will name it after a repair.
    subdirectories: Vec<(u32, u32)>,
}

impl Checker {
    /// A checker.
    #[must_use]
    pub(crate) fn new() -> Checker {
        Checker::default()
    }

    /// Reads and checks `image`.
    pub(crate) fn check(&mut self, image: &dyn ImageBytes) -> &Found {
        self.found.violations.clear();
        self.found.seen = Allowed::default();
        self.owned = 0;
        self.second_names.clear();
        match Volume::read(image) {
            Ok(volume) => {
                self.volume = volume;
                self.read(image);
            }
            Err(why) => {
                self.found.tree.clear(Volume::default());
                self.wrong("SB", || why);
            }
        }
        &self.found
    }

    /// The result for the last image.
    #[must_use]
    pub(crate) fn found(&self) -> &Found {
        &self.found
    }

    fn read(&mut self, image: &dyn ImageBytes) {
        let v = self.volume;
        self.found.tree.clear(v);
        self.owners.clear();
        self.owners.resize(v.size as usize, 0);
        let Found { violations, seen, .. } = &mut self.found;
        self.groups.read(image, &v, seen, violations);
        self.read_inodes(image);
        self.read_names(image);
        self.check_links();
        self.note_leaks();
    }

    /// Notes fragments that are marked in use without an owner: A1.
    fn note_leaks(&mut self) {
        let v = self.volume;
        let length = |range: Range<u64>| range.end.saturating_sub(range.start);
        let metadata: u64 = (0..v.ncg).map(|cg| length(v.metadata(cg))).sum();
        if self.groups.fragments_used > metadata + length(v.summary()) + self.owned {
            self.found.seen.saw(1);
        }
    }

    fn wrong(&mut self, rule: &'static str, what: impl FnOnce() -> String) {
        if self.found.violations.len() < MOST {
            self.found.violations.push(Violation::new(rule, what()));
        }
    }
}

/// The blocks of the journal in `image`, as byte ranges in the order of the file.
pub(crate) fn journal_extents(image: &Vec<u8>) -> Vec<Range<u64>> {
    let mut checker = Checker::new();
    let tree = &checker.check(image).tree;
    let inode = tree.lookup(Ino::ROOT, journal::NAME).and_then(|ino| tree.inode(ino));
    let extents = inode.into_iter().flat_map(|inode| tree.extents(inode));
    extents.map(|extent| extent.at..extent.at + extent.len as u64).collect()
}
