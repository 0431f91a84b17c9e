//! Clusters: runs of free whole blocks, counted when they change and allocated as a whole
//! (`spec/allocation.md` §6).
//!
//! # Invariants
//! 1. `clustersfree` has a bit for exactly the wholly free blocks. `clustersum[k]` counts their
//!    maximal runs of `k` blocks, and at `contigsumsize` those of at least that length.

use super::Alloc;
use super::group::GroupEdit;
use crate::counters::bump;
use crate::error::Result;
use crate::tunables::AllocPolicy;
use ffs_ondisk::cg::bit;
use ffs_ondisk::{CgNo, FragNo, Ino};

/// Groups tried for one cluster (`vfs.ffs.maxclustersearch`).
const MAXCLUSTERSEARCH: u32 = 10;
/// Clusters are moved only if at least this percentage is free.
const MINFREE_TO_MOVE: u32 = 4;

impl Alloc {
    /// Allocates `len_blocks` contiguous blocks to which a cluster is moved. `None` means that the
    /// cluster stays where it is.
    ///
    /// # Errors
    /// The device's; a damaged group's error if no other group has such a cluster.
    pub(crate) fn alloc_cluster(
        &self,
        ino: Ino,
        pref: Option<FragNo>,
        len_blocks: u32,
    ) -> Result<Option<FragNo>> {
        let g = self.g();
        let possible = (1..=g.contigsumsize).contains(&len_blocks) && self.tunables.doreallocblks();
        if !possible || self.freespace(MINFREE_TO_MOVE) < 0 {
            return Ok(None);
        }
        let pref = self.usable(pref);
        let start = self.start_group(ino, pref);
        if self.tunables.alloc() == AllocPolicy::Y2001 {
            return self.hash_search(start, |c, first| {
                self.alloc_cluster_in(c, pref.filter(|_| first), len_blocks)
            });
        }
        let mut failed = None;
        for i in 0..MAXCLUSTERSEARCH.min(g.ncg) {
            bump(&self.cache.counters.groups_searched);
            match self.alloc_cluster_in(self.group_after(start, i), pref, len_blocks) {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(e) => {
                    failed.get_or_insert(e);
                }
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// The preference after [`Alloc::alloc_cluster`] failed for `pref`: the data zone of the group
    /// where its search ended.
    pub(crate) fn next_cluster_pref(&self, ino: Ino, pref: Option<FragNo>) -> FragNo {
        let start = self.start_group(ino, self.usable(pref));
        self.g().cgdata(self.group_after(start, MAXCLUSTERSEARCH))
    }

    /// The group `n` after `c`, modulo the number of groups.
    fn group_after(&self, c: CgNo, n: u32) -> CgNo {
        let ncg = self.g().ncg;
        CgNo(((u64::from(c.0) + u64::from(n)) % u64::from(ncg)) as u32)
    }

    fn alloc_cluster_in(
        &self,
        c: CgNo,
        pref: Option<FragNo>,
        len_blocks: u32,
    ) -> Result<Option<FragNo>> {
        if self.sum.lock().maxcluster(c) < len_blocks {
            return Ok(None);
        }
        self.edit(c, |e| {
            let g = e.g;
            if e.max_free_cluster() < len_blocks {
                self.sum.lock().set_maxcluster(c, e.max_free_cluster());
                return Ok(None);
            }
            let from = match pref.filter(|p| g.dtog(*p) == c) {
                Some(p) => g.dtogd(p) / g.frag,
                None if e.policy == AllocPolicy::Y2001 => 0,
                None => g.dtogd(g.cgdata(c)) / g.frag,
            };
            Ok(e.find_cluster(from, len_blocks).map(|blk| e.take_cluster(blk, len_blocks)))
        })
    }
}

impl GroupEdit<'_> {
    /// Updates the cluster map and summary for block `blk`, which has just become free.
    pub(super) fn add_to_cluster(&mut self, blk: u32) {
        self.account_cluster(blk, true);
    }

    /// Updates the cluster map and summary for block `blk`, which has just become used.
    pub(super) fn take_from_cluster(&mut self, blk: u32) {
        self.account_cluster(blk, false);
    }

    fn account_cluster(&mut self, blk: u32, free: bool) {
        let max = self.g.contigsumsize;
        if max == 0 {
            return;
        }
        self.cg.set_cluster_free(blk, free);
        let map = self.cg.view().clustersfree();
        let is_free = |b: &u32| bit(map, *b).unwrap_or(false);
        let ahead = (1..=max).map_while(|i| blk.checked_add(i)).take_while(is_free).count() as u32;
        let behind = (1..=max).map_while(|i| blk.checked_sub(i)).take_while(is_free).count() as u32;
        let sign = if free { 1 } else { -1 };
        self.cg.add_clustersum((ahead + behind + 1).min(max), sign);
        // `add_clustersum` ignores the run of length 0.
        self.cg.add_clustersum(ahead, -sign);
        self.cg.add_clustersum(behind, -sign);
    }

    /// The largest free cluster, blocks, capped at `contigsumsize`.
    pub(super) fn max_free_cluster(&self) -> u32 {
        let cg = self.cg.view();
        (1..=self.g.contigsumsize).rev().find(|k| cg.clustersum(*k) > 0).unwrap_or(0)
    }

    /// The first run of `len` free blocks at or after block `from`. Earlier blocks are not
    /// searched: a later block of a file should not precede an earlier one.
    fn find_cluster(&self, from: u32, len: u32) -> Option<u32> {
        let cg = self.cg.view();
        let map = cg.clustersfree();
        let (mut blk, mut run) = (from, 0);
        while blk < cg.nblocks() {
            // Bytes without a free block are skipped as a whole.
            if blk.is_multiple_of(8) && map.get(blk as usize / 8) == Some(&0) {
                run = 0;
                blk += 8;
                continue;
            }
            run = if bit(map, blk) == Some(true) { run + 1 } else { 0 };
            blk += 1;
            if run == len {
                return Some(blk - len);
            }
        }
        None
    }

    fn take_cluster(&mut self, blk: u32, len: u32) -> FragNo {
        let frag = self.g.frag;
        for b in blk..blk + len {
            self.take_block_at(b * frag, frag);
        }
        self.g.cgbase(self.c).plus(u64::from(blk * frag))
    }
}
