//! The allocator: inodes, directories, blocks, fragments and clusters.
//!
//! | module | contents |
//! | --- | --- |
//! | [`params`] | the superblock's tunables |
//! | [`summary`] | counts and hints of all groups |
//! | [`check`], [`group`] | a group's block: checked after a read, changed under its lock |
//! | [`hashalloc`] | the order in which groups are tried |
//! | [`inodes`], [`dirpref`] | inodes; the group of a new directory |
//! | [`blkpref`] | the preferred location of a block |
//! | [`blocks`], [`frags`], [`free`] | blocks: allocating, growing, freeing |
//! | [`image`] | groups as a snapshot shows them |
//! | [`lost`] | corrections by a check of a snapshot |
//! | [`mapsearch`], [`clusters`] | free runs of fragments and of blocks |
//!
//! # Invariants
//! 1. Maps and counts agree: every free item that a group counts is free in its maps ([`check`]
//!    ensures this when a group is read, [`group`] at every change).
//! 2. Nothing is allocated twice, no metadata is allocated, and nothing free is freed: such
//!    requests are errors and change nothing.
//! 3. A damaged group is skipped. Its error is returned if no other group has space, or if a block
//!    or inode of the group is freed.
//!
//! # Locking
//! The write lock of a group's buffer is the group's allocation lock; a thread holds at most one.
//! The mutex of the summary is taken after it and held briefly.
//!
//! Reference: `spec/allocation.md`; `spec/on-disk-format.md` §5, §6, §18.2.

mod blkpref;
mod blocks;
mod check;
mod clusters;
mod dirpref;
mod frags;
mod free;
mod group;
mod hashalloc;
mod image;
mod inodes;
mod lost;
mod mapsearch;
mod params;
mod summary;
#[cfg(test)]
mod tests;

pub(crate) use check::{Torn, check_in};
pub(crate) use image::GroupImage;
pub(crate) use params::{AllocParams, Optim};

use crate::buf::BufCache;
use crate::ordering::Ordering;
use crate::sync::Mutex;
use crate::tunables::Tunables;
use ffs_device::clock::SplitMix64;
use ffs_ondisk::{Csum, FragNo, Geometry, Ino, Lbn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use summary::Summary;

/// The target of this module's log events.
const LOG: &str = "ffs::alloc";

/// The directory in which a new inode is allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ParentDir {
    /// Its inode.
    pub(crate) ino: Ino,
    /// Its depth: 0 for the root, and if depths are not recorded.
    pub(crate) depth: u32,
    /// Its link count before the new entry.
    pub(crate) nlink: u16,
}

/// Whether the last `minfree` percent may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reserve {
    /// Yes: the caller is root.
    Allowed,
    /// No: all other callers.
    Denied,
}

/// A query for the preferred location of a block of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PrefQuery {
    /// The file.
    pub(crate) ino: Ino,
    /// Whether it is a directory.
    pub(crate) is_dir: bool,
    /// The logical block; for an indirect block, the logical block that needs it.
    pub(crate) lbn: Lbn,
    /// Index of the pointer in its map (the inode's direct pointers or an indirect block).
    pub(crate) index: usize,
    /// The pointer before it in the map, unless it is a hole or `index` is 0.
    pub(crate) prev: Option<FragNo>,
    /// The level of the indirect block to allocate (1 is single), or `None` for a data block.
    pub(crate) indirect: Option<usize>,
    /// The indirect block one level up, if the same call has just allocated it. For logical block
    /// 12, the single indirect block.
    pub(crate) after_indirect: Option<FragNo>,
    /// The last direct pointer of the inode, unless it is a hole.
    pub(crate) last_direct: Option<FragNo>,
}

/// The allocator of one mount.
pub(crate) struct Alloc {
    pub(crate) cache: Arc<BufCache>,
    pub(crate) ordering: Arc<dyn Ordering>,
    pub(crate) tunables: Arc<Tunables>,
    /// Generation numbers and random placement.
    pub(crate) rng: SplitMix64,
    params: AllocParams,
    /// See [`Torn::Possible`].
    torn: AtomicBool,
    sum: Mutex<Summary>,
}

impl Alloc {
    /// An allocator with the records `cs` of the summary area, one per group.
    pub(crate) fn new(
        cache: Arc<BufCache>,
        ordering: Arc<dyn Ordering>,
        tunables: Arc<Tunables>,
        rng: SplitMix64,
        params: AllocParams,
        cs: Vec<Csum>,
    ) -> Alloc {
        let sum = Mutex::new(Summary::new(&cache.g, cs, params.optim));
        Alloc { cache, ordering, tunables, rng, params, torn: AtomicBool::new(false), sum }
    }

    /// The allocator, for a volume whose groups a crash may have torn.
    pub(crate) fn with_torn_groups(self, torn: Torn) -> Alloc {
        Alloc { torn: AtomicBool::new(torn == Torn::Possible), ..self }
    }

    /// Every group was checked and written: a wrong check hash is damage from now on.
    pub(crate) fn end_torn_groups(&self) {
        self.torn.store(false, Atomic::Relaxed);
    }

    fn torn(&self) -> Torn {
        if self.torn.load(Atomic::Relaxed) { Torn::Possible } else { Torn::Never }
    }

    /// The volume's geometry.
    pub(crate) fn g(&self) -> &Geometry {
        &self.cache.g
    }

    /// The tunables in force.
    pub(crate) fn params(&self) -> &AllocParams {
        &self.params
    }

    /// Totals over all groups.
    pub(crate) fn totals(&self) -> Csum {
        self.sum.lock().totals
    }

    /// The counts of every group, for the summary area.
    pub(crate) fn group_sums(&self) -> Vec<Csum> {
        self.sum.lock().cs.clone()
    }

    /// The optimisation in force.
    pub(crate) fn optim(&self) -> Optim {
        self.sum.lock().optim
    }

    /// Free fragments beyond a reserve of `percent`; negative inside it.
    pub(crate) fn freespace(&self, percent: u32) -> i64 {
        self.sum.lock().freespace(self.g(), percent)
    }
}
