//! Where new things go: inodes, directories, blocks, fragments, clusters.

#![allow(dead_code, unused_variables)]

use crate::buf::BufCache;
use crate::error::{Error, Result};
use crate::options::Switches;
use crate::ordering::{FragRun, Ordering};
use ffs_device::clock::SplitMix64;
use ffs_ondisk::{Csum, FragNo, Geometry, Ino, Lbn, Superblock};
use std::sync::Arc;

/// What fragment moves are optimised for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Optim {
    /// Time: move into a whole block, so that further growth is in place.
    Time,
    /// Space: take no more than asked.
    Space,
}

/// Tunables of the superblock, made sane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AllocParams {
    /// Percent of the data fragments kept for root.
    pub(crate) minfree: u32,
    /// Optimisation at mount.
    pub(crate) optim: Optim,
    /// Most blocks one file takes from a group before it moves on.
    pub(crate) maxbpg: u32,
    /// Most blocks in one contiguous transfer.
    pub(crate) maxcontig: u32,
    /// Expected average file size, bytes.
    pub(crate) avgfilesize: u32,
    /// Expected files per directory.
    pub(crate) avgfpdir: u32,
}

impl AllocParams {
    /// The superblock's tunables, with defaults for those it does not have.
    pub(crate) fn of(sb: &Superblock, g: &Geometry) -> AllocParams {
        AllocParams {
            minfree: 8,
            optim: Optim::Time,
            maxbpg: 1,
            maxcontig: 1,
            avgfilesize: 16384,
            avgfpdir: 64,
        }
    }
}

/// The directory a new inode is made in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ParentDir {
    /// Its inode.
    pub(crate) ino: Ino,
    /// Its depth: 0 for the root and where depths are not tracked.
    pub(crate) depth: u32,
    /// Its link count before the new entry.
    pub(crate) nlink: u16,
}

/// Whether the last `minfree` percent may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reserve {
    /// By root.
    Allowed,
    /// By everybody else.
    Denied,
}

/// For which block of a file a place is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PrefQuery {
    /// The file.
    pub(crate) ino: Ino,
    /// Whether it is a directory.
    pub(crate) is_dir: bool,
    /// The logical block; for an indirect block, the one it is needed for.
    pub(crate) lbn: Lbn,
    /// Index of the pointer in its map (the inode's direct pointers or an indirect block).
    pub(crate) index: usize,
    /// The pointer before it in the map, unless it is a hole or `index` is 0.
    pub(crate) prev: Option<FragNo>,
    /// An indirect block is wanted, of this level (1 = single).
    pub(crate) indirect: Option<usize>,
    /// The indirect block this same call has just allocated above this one; for logical block 12
    /// the single indirect block, just allocated or not.
    pub(crate) after_indirect: Option<FragNo>,
    /// The last direct pointer of the inode, unless it is a hole.
    pub(crate) last_direct: Option<FragNo>,
}

/// The allocator of one mount.
pub(crate) struct Alloc {
    pub(crate) cache: Arc<BufCache>,
    pub(crate) ordering: Arc<dyn Ordering>,
    pub(crate) switches: Arc<Switches>,
    pub(crate) rng: SplitMix64,
    params: AllocParams,
}

impl Alloc {
    /// `cs`: the summary area's records, one per group; the totals are their sum.
    pub(crate) fn new(
        cache: Arc<BufCache>,
        ordering: Arc<dyn Ordering>,
        switches: Arc<Switches>,
        rng: SplitMix64,
        params: AllocParams,
        cs: Vec<Csum>,
    ) -> Alloc {
        Alloc { cache, ordering, switches, rng, params }
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
        Csum::default()
    }

    /// The counts of every group, for the summary area.
    pub(crate) fn group_sums(&self) -> Vec<Csum> {
        Vec::new()
    }

    /// The optimisation in force.
    pub(crate) fn optim(&self) -> Optim {
        self.params.optim
    }

    /// Free fragments beyond a reserve of `percent`; negative inside it.
    pub(crate) fn freespace(&self, percent: u32) -> i64 {
        0
    }

    /// Takes an inode for a new file in `parent`. Its content in the inode block is the caller's.
    ///
    /// # Errors
    /// [`Error::NoInodes`]; the device's; a damaged group's if nothing else was free.
    pub(crate) fn alloc_inode(&self, parent: &ParentDir, is_dir: bool) -> Result<Ino> {
        Err(Error::NotSupported("wip"))
    }

    /// Gives an inode back.
    ///
    /// # Errors
    /// [`Error::Format`] if it is not in use or its group is damaged; the device's.
    pub(crate) fn free_inode(&self, ino: Ino, was_dir: bool) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }

    /// Whether the inode's block was ever written: above `initediblk` it holds undefined bytes
    /// and the inode is free.
    ///
    /// # Errors
    /// The group's, if it cannot be read.
    pub(crate) fn inode_initialised(&self, ino: Ino) -> Result<bool> {
        Err(Error::NotSupported("wip"))
    }

    /// Takes `frags` fragments inside one block; a whole block if `frags` is the block's.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; the device's; a damaged group's if nothing else was free.
    pub(crate) fn alloc_frags(
        &self,
        ino: Ino,
        pref: Option<FragNo>,
        frags: u32,
        reserve: Reserve,
    ) -> Result<FragNo> {
        Err(Error::NotSupported("wip"))
    }

    /// Grows the run `old` to `new_frags`. The same address: extended in place. Another: moved,
    /// and the old run is still allocated: the caller frees it when the new one is claimed.
    ///
    /// # Errors
    /// As [`Alloc::alloc_frags`].
    pub(crate) fn realloc_frags(
        &self,
        ino: Ino,
        old: FragRun,
        new_frags: u32,
        pref: Option<FragNo>,
        reserve: Reserve,
    ) -> Result<FragNo> {
        Err(Error::NotSupported("wip"))
    }

    /// Gives back a run that lies inside one block.
    ///
    /// # Errors
    /// [`Error::Format`] if part of it is free already, is metadata, or its group is damaged;
    /// the device's.
    pub(crate) fn free_frags(&self, run: FragRun) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }

    /// Where the asked-for block should go.
    pub(crate) fn blkpref(&self, q: &PrefQuery) -> Option<FragNo> {
        None
    }

    /// Takes `len_blocks` contiguous blocks, to move a cluster to. `None`: leave it where it is.
    ///
    /// # Errors
    /// The device's; a damaged group's if nothing was found.
    pub(crate) fn alloc_cluster(
        &self,
        ino: Ino,
        pref: Option<FragNo>,
        len_blocks: u32,
    ) -> Result<Option<FragNo>> {
        Err(Error::NotSupported("wip"))
    }

    /// The preference to use after [`Alloc::alloc_cluster`] failed for `pref`: the data zone of
    /// the group where its search ended.
    pub(crate) fn next_cluster_pref(&self, ino: Ino, pref: Option<FragNo>) -> FragNo {
        FragNo::HOLE
    }
}
