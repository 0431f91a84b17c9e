//! Comparing two trees: in images, or on the host.
//!
//! Two sources send the files of the trees without their data ([`crate::copy`]). Both orders are
//! the same, so that the two streams are merged. Contents are then read from both sides, without
//! the ranges in which both have holes.
//!
//! # Invariants
//! 1. Each name is compared once. A name that only one tree has is reported once, without those
//!    below it.
//! 2. A file that cannot be read is reported as such, and not as missing.
//! 3. Memory is bounded by the number of files with several names and of failures.
//! 4. Nothing is changed.
//!
//! | module | content |
//! | --- | --- |
//! | `attribute` | [`Attribute`], [`Difference`]: the attributes of one file |
//! | `content` | reading two files side by side |
//! | `merge` | [`diff()`] |
//! | `stream` | the files of one tree, in order |

mod attribute;
mod content;
mod merge;
mod stream;

use std::collections::BTreeSet;
use std::path::PathBuf;

use ffs_core::Vnode;

use crate::copy::{CopyReport, EntryKind, ImageRef};

pub use attribute::{Attribute, Difference, kind_name};
pub use merge::diff;

/// A tree to compare.
#[derive(Clone)]
pub enum Tree<'a> {
    /// A file or a tree in an image.
    Image {
        /// The image.
        image: ImageRef<'a>,
        /// The top of the tree.
        top: Vnode,
        /// Its path, for messages.
        path: Vec<u8>,
    },
    /// A file or a tree of the host.
    Host(PathBuf),
}

/// One of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first one.
    Old,
    /// The second one.
    New,
}

/// What to compare.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// The attributes.
    pub attributes: BTreeSet<Attribute>,
    /// Find at most one difference of a file.
    pub brief: bool,
}

impl Default for DiffOptions {
    fn default() -> DiffOptions {
        DiffOptions { attributes: Attribute::DEFAULT.into_iter().collect(), brief: false }
    }
}

/// Receives what a comparison finds. Paths are relative to the tops; that of a top is empty.
pub trait DiffObserver {
    /// Whether to leave out the file at `path` and everything below it.
    fn is_excluded(&mut self, path: &[u8], kind: &EntryKind) -> bool {
        let _ = (path, kind);
        false
    }

    /// Only one tree has the file at `path`.
    fn only(&mut self, side: Side, path: &[u8], kind: &EntryKind);

    /// The files at `path` differ.
    fn differs(&mut self, path: &[u8], differences: &[Difference]);

    /// The file `name` cannot be read.
    fn failed(&mut self, name: &str, why: &str);

    /// `bytes` more bytes of two files are compared.
    fn progress(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Whether to end the comparison.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Counts of a comparison.
#[derive(Clone, Debug, Default)]
pub struct DiffReport {
    /// Names that both trees have.
    pub compared: u64,
    /// Those of them that differ.
    pub different: u64,
    /// Names that only the first tree has, without those below them.
    pub only_old: u64,
    /// Names that only the second tree has, without those below them.
    pub only_new: u64,
    /// Files that could not be read.
    pub failed: u64,
    /// What could not be compared.
    pub losses: CopyReport,
    /// The observer ended the comparison.
    pub cancelled: bool,
}

impl DiffReport {
    /// Whether no difference was found.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.different == 0 && self.only_old == 0 && self.only_new == 0
    }
}
