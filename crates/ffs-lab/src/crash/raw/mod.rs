//! The independent checker: the bytes of an image against the crash contract.
//!
//! **Purpose.** Reads UFS1 and UFS2 of either byte order straight from their bytes, asserts what no
//! crash may leave (F1 to F5, F7, F8, F11, F12, F14, F15), notes what a crash may leave (A1 to A10,
//! A13 to A16), and keeps the tree for the oracle, which knows what the workload did and judges the
//! rest (F6, F9, F10, F13). It shares no code with the checker `fsck`, nor with the validators of
//! the format: what is judged must not judge itself.
//!
//! | module | holds |
//! | --- | --- |
//! | `order`, `volume` | numbers, the superblock, addressing |
//! | `groups` | the maps of the groups |
//! | `inodes` | inodes and their claims: F3, F4, F7, F12 |
//! | `names` | directories: F1, F2, F8, F11, F14 |
//! | `links` | counts against names: F5, F15 |
//! | `tree` | what was found: [`Tree`] |
//!
//! # Invariants
//! 1. Whatever the bytes are, work and memory are bounded by the image's length: a block is
//!    followed by its first owner only, a directory is read once.
//! 2. A [`Checker`] keeps its memory: from the second image of a geometry on, a sound image costs
//!    no allocation.
//!
//! References: `spec/soft-updates.md` §1; `spec/on-disk-format.md`.

mod groups;
mod inodes;
mod links;
mod names;
mod order;
#[cfg(test)]
mod tests;
mod tree;
mod volume;

use super::history::{Allowed, Violation};
use super::image::ImageBytes;
use groups::Groups;
use volume::Volume;

pub use tree::{Attribute, Entry, Extent, Inode, Tree};

/// Violations that are told of one image; further ones are of no use to anybody.
const MOST: usize = 32;

/// What an image holds.
#[derive(Debug, Default)]
pub struct Found {
    /// What no crash may leave. Empty if all is well.
    pub violations: Vec<Violation>,
    /// Which of the states that a crash may leave were seen.
    pub seen: Allowed,
    /// The names and files.
    pub tree: Tree,
}

/// Checks images; its memory is used again from one image to the next.
#[derive(Debug, Default)]
pub struct Checker {
    found: Found,
    volume: Volume,
    groups: Groups,
    /// Which inode claims a fragment; 0: none.
    owners: Vec<u32>,
    /// Fragments claimed.
    claimed: u64,
    /// Directories that the root leads to, in the order of reading.
    queue: Vec<u32>,
    /// Names of directories beyond their first: inode, directory.
    second_names: Vec<(u32, u32)>,
    /// Hashes of the names of the directory at hand.
    hashes: Vec<(u32, u32)>,
    /// Of each inode: how many `..` name it, and how many will.
    subdirectories: Vec<(u32, u32)>,
}

impl Checker {
    /// A checker.
    #[must_use]
    pub fn new() -> Checker {
        Checker::default()
    }

    /// Reads `image` and judges it.
    pub fn check(&mut self, image: &dyn ImageBytes) -> &Found {
        self.found.violations.clear();
        self.found.seen = Allowed::default();
        self.claimed = 0;
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

    /// What the last image held.
    #[must_use]
    pub fn found(&self) -> &Found {
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

    /// Fragments marked in use that nobody claims: A1.
    fn note_leaks(&mut self) {
        let v = self.volume;
        let length = |range: std::ops::Range<u64>| range.end.saturating_sub(range.start);
        let metadata: u64 = (0..v.ncg).map(|cg| length(v.metadata(cg))).sum();
        if self.groups.fragments_used > metadata + length(v.summary()) + self.claimed {
            self.found.seen.saw(1);
        }
    }

    fn wrong(&mut self, rule: &'static str, what: impl FnOnce() -> String) {
        if self.found.violations.len() < MOST {
            self.found.violations.push(Violation::new(rule, what()));
        }
    }
}
