//! Rollback of inodes in the copy of an inode block that is written (FreeBSD:
//! `initiate_write_inodeblock_ufs2`).
//!
//! # Invariants
//! 1. A written size covers no block whose pointer is rolled back and that must not be a hole: no
//!    block at the end of a file, and none of a directory.
//! 2. No pointer is written beyond the size.
//! 3. The rest of the inode decides whether a write shows a cleared pointer ([`super::holes`]). So
//!    a later write may roll back one that an earlier write showed.
//! 4. A new inode whose bitmap is not durable is written as free, and the write counts for none of
//!    its states: its names keep waiting.
//!
//! Reference: `docs/spec/soft-updates.md` §4.3, §5, §12.2.

use super::dep::DepId;
use super::engine::Softdep;
use super::graph::DepIds;
use super::inflight::BlockContents;
use super::inodedep::{InodeDep, InodeExtra};
use super::log::LOG;
use super::pointer::{first_block, pointer_in, set_pointer_in};
use crate::buf::BufKey;
use crate::ordering::FragRun;
use ffs_ondisk::bmap::first_of_root;
use ffs_ondisk::geometry::{NDADDR, NIADDR};
use ffs_ondisk::{Dinode, Ino, Lbn};
use smallvec::SmallVec;
use tracing::debug;

impl Softdep {
    /// The inodes of an inode block.
    fn inodes_in(&self, key: BufKey) -> impl Iterator<Item = Ino> + use<> {
        let g = &self.g;
        let first = match key {
            BufKey::Meta(at) => {
                let cg = g.dtog(at);
                let block = at.0.checked_sub(g.cgimin(cg).0).map(|frag| frag / u64::from(g.frag));
                let within =
                    block.and_then(|block| u32::try_from(block).ok()?.checked_mul(g.inopb));
                within.map(|within| cg.0 * g.ipg + within)
            }
            BufKey::File(..) => None,
        };
        let end = first.map_or(0, |first| first.saturating_add(g.inopb));
        (first.unwrap_or(0)..end).map(Ino)
    }

    /// Rolls back the changes that the copy `bytes` of an inode block must not show, and lists what
    /// it contains, and the dependencies `reverted`: rolled back although an earlier write may have
    /// shown them. Returns whether anything was rolled back.
    pub(super) fn roll_back_inodes(
        &mut self,
        key: BufKey,
        bytes: &mut [u8],
        contents: &mut BlockContents,
        reverted: &mut DepIds,
    ) -> bool {
        let (g, dinode_size) = (self.g, self.g.format.dinode_size());
        let mut rolled_back = false;
        for (ino, bytes) in self.inodes_in(key).zip(bytes.chunks_exact_mut(dinode_size)) {
            let Some(dep) = self.inodedeps.get(ino) else { continue };
            if dep.is_hidden() {
                let is_hidden = hide(&g, bytes);
                if is_hidden {
                    debug!(target: LOG, ino = ino.0, "inode rolled back: shown as free");
                }
                rolled_back |= is_hidden;
                // Not listed in `contents.inodes`: this write makes no state of it durable.
                continue;
            }
            let mut size = 0;
            if let Some(extra) = dep.extra() {
                let mut d = Dinode::decode(&g, bytes);
                let stored_size = d.size;
                if self.roll_back_inode(&mut d, extra, &mut contents.deps, reverted) {
                    rolled_back = true;
                    d.encode(&g, bytes);
                    let (size, blocks) = (d.size, d.db.iter().filter(|&&p| p != 0).count());
                    debug!(target: LOG, ino = ino.0, size, blocks, "inode rolled back");
                }
                // A later write may not need a larger size any more.
                size = d.size.min(stored_size);
            }
            contents.inodes.extend(self.inodedeps.mark_issued(ino, size));
        }
        rolled_back
    }

    /// Rolls back the changes of the inode that a write must not show, and lists the dependencies
    /// `contained` and `reverted`, as above. Returns whether anything was rolled back.
    fn roll_back_inode(
        &self,
        d: &mut Dinode,
        extra: &InodeExtra,
        contained: &mut Vec<DepId>,
        reverted: &mut DepIds,
    ) -> bool {
        let stored_size = d.size;
        let is_raised = |size: &u64| *size > stored_size;
        let bounded_size = self.bounded_size(stored_size, extra);
        let mut size = bounded_size.unwrap_or(stored_size);
        let old_end = self.old_end_shown(d, extra, Some(size).filter(is_raised));
        if let Some(old_end) = old_end {
            size = size.max(old_end.size);
        }
        d.size = size;
        let mut shown: SmallVec<[(usize, DepId); 4]> = SmallVec::new();
        let (mut hole_at, mut rolled_back) = (None, bounded_size.is_some());
        let raised = Some(size).filter(is_raised);
        let versions_shown = self.shown_versions(d, extra, old_end, raised);
        for ((index, versions), version) in extra.pointers().zip(versions_shown) {
            let run = versions.run(&self.graph, version);
            shown.extend(version.dep().map(|id| (index, id)));
            set_pointer_in(d, index, run);
            if version.is_last() {
                continue;
            }
            rolled_back = true;
            reverted.extend(self.graph.written(versions.since(version)));
            size = size.min(self.size_limit(d, index, run));
            if index < NDADDR && run.is_none() {
                hole_at = Some(index);
            }
        }
        if let Some(index) = hole_at
            && self.blocks_of(size) == index as u64 + 1
        {
            size = self.end_of_blocks_before(d, index);
        }
        d.size = size;
        rolled_back |= size < stored_size;
        rolled_back |= self.clear_beyond_size(d, extra, stored_size);
        for (index, id) in shown {
            if self.is_covered(index, size) || self.is_hole(id) {
                contained.push(id);
            } else {
                // The pointer is cleared, as it is beyond the size.
                reverted.extend(self.graph.written(&[id]));
            }
        }
        let keeps_end = old_end.is_some();
        let (reached, held): (DepIds, DepIds) =
            extra.bounds().partition(|id| self.is_bound_shown(*id, size, keeps_end));
        contained.extend(reached);
        reverted.extend(self.graph.written(&held));
        rolled_back | self.roll_back_ext_attr(d, extra, contained)
    }

    /// Clears the pointers beyond the size of `d`, if the size or they were rolled back. Returns
    /// whether it cleared any.
    fn clear_beyond_size(&self, d: &mut Dinode, extra: &InodeExtra, stored_size: u64) -> bool {
        let is_smaller = self.blocks_of(d.size) < self.blocks_of(stored_size);
        let mut cleared = false;
        for index in 0..NDADDR + NIADDR {
            let is_beyond = !self.is_covered(index, d.size) && pointer_in(d, index) != 0;
            if is_beyond && (is_smaller || extra.pointer(index).is_some()) {
                cleared = true;
                set_pointer_in(d, index, None);
            }
        }
        cleared
    }

    /// The largest size of a write that shows an older `run` of pointer `index`.
    fn size_limit(&self, d: &Dinode, index: usize, run: Option<FragRun>) -> u64 {
        let g = &self.g;
        if index >= NDADDR {
            // A file's size is not rolled back for its indirect blocks (allowed repair A9); a
            // directory has no hole.
            let root = first_of_root(g, index - NDADDR);
            return if d.is_dir() { g.lblktosize(root) } else { u64::MAX };
        }
        let start = g.lblktosize(Lbn(index as u64));
        match run {
            Some(run) if run.frags < g.frag => start + u64::from(run.frags * g.fsize),
            None if d.is_dir() => start,
            Some(_) | None => u64::MAX,
        }
    }

    /// The end of the last direct block with a pointer before `index`.
    fn end_of_blocks_before(&self, d: &Dinode, index: usize) -> u64 {
        let last = d.db.iter().take(index).rposition(|&pointer| pointer != 0);
        last.map_or(0, |last| self.g.lblktosize(Lbn(last as u64 + 1)))
    }

    /// Whether a file of `size` bytes has a block that pointer `index` leads to.
    fn is_covered(&self, index: usize, size: u64) -> bool {
        first_block(&self.g, index).0 < self.blocks_of(size)
    }

    fn blocks_of(&self, size: u64) -> u64 {
        size.div_ceil(self.g.bsize.into())
    }

    /// Whether a write of the inode block would roll anything back.
    pub(super) fn are_inodes_held(&self, key: BufKey) -> bool {
        let is_held =
            |extra: &InodeExtra| extra.held_versions().iter().any(|id| self.graph.is_held(*id));
        self.inodes_in(key)
            .filter_map(|ino| self.inodedeps.get(ino))
            .any(|dep: &InodeDep| dep.is_hidden() || dep.extra().is_some_and(is_held))
    }
}

/// Shows a new inode as free, but for its generation and `freelink`. Returns whether that rolled
/// anything back.
fn hide(g: &ffs_ondisk::Geometry, bytes: &mut [u8]) -> bool {
    let Dinode { mode, generation, freelink, .. } = Dinode::decode(g, bytes);
    if mode == 0 {
        return false;
    }
    Dinode { generation, freelink, ..Dinode::default() }.encode(g, bytes);
    true
}
