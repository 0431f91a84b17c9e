//! Making the blocks of a sequential writer contiguous (`ffs_reallocblks`).
//!
//! While a file is written at its end, its last blocks form a cluster. If a new block is not
//! adjacent on disk to the last block of the cluster, all blocks of the cluster are moved to a free
//! run, if there is one, before they are first written.
//!
//! Reference: `spec/allocation.md` §6.4.

use super::bmap::{Node, data_key};
use super::{Cluster, InodeView, LockedInode};
use crate::alloc::PrefQuery;
use crate::buf::BufRef;
use crate::counters::bump;
use crate::error::Result;
use crate::ordering::{BlockContent, Event, FragRun, PtrSlot};
use ffs_ondisk::bmap::{self, Path, pointer, set_pointer};
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::{FileType, FragNo, Lbn};

/// Blocks are moved only while at least this part of the volume is free, in percent.
const MIN_FREE_PERCENT: u32 = 4;

/// The inode or indirect block that has the pointers of a cluster.
enum Map {
    Inode,
    Indirect { buf: BufRef, node: Node },
}

/// The blocks of a cluster before it is moved (`cluster_save`).
struct ClusterBlocks {
    map: Map,
    /// The index of the first pointer in the map.
    index: usize,
    /// The addresses.
    old: Vec<FragNo>,
    bufs: Vec<BufRef>,
}

impl<'a> LockedInode<'a> {
    /// Called after block `lbn`, at `at`, was written to its end. `last` is the last block of the
    /// same call that is allocated.
    pub(super) fn cluster_written(&mut self, (lbn, at): (Lbn, FragNo), last: Lbn) {
        let max = self.max_cluster();
        let at_end = self.data.d.size == self.g().lblktosize(last.plus(1));
        let c = self.data.cluster;
        if max < 2 || !at_end || self.data.d.file_type() != Some(FileType::Regular) {
            self.data.cluster.len = 0;
            return;
        }
        self.extend_cluster((lbn, at));
        let now = self.data.cluster;
        if c.len > 0 && now.start != c.start {
            self.view().write_cluster(c);
        }
        if now.len == max {
            self.view().write_cluster(now);
        }
    }

    /// Most blocks of a cluster.
    fn max_cluster(&self) -> u32 {
        self.g().contigsumsize.min(self.ump.alloc.params().maxcontig)
    }

    /// The address of the last block before `lbn` if `lbn` belongs to the same cluster.
    pub(super) fn cluster_before(&self, lbn: Lbn) -> Option<FragNo> {
        let c = self.data.cluster;
        let follows = c.len > 0 && c.len < self.max_cluster() && lbn == c.start.plus(c.len.into());
        follows.then_some(c.last)
    }

    /// Adds a block to the cluster, or begins a new cluster with it.
    fn extend_cluster(&mut self, (lbn, at): (Lbn, FragNo)) {
        let c = self.data.cluster;
        let before = self.cluster_before(lbn);
        let touches = before.is_some_and(|last| at == last.plus(self.g().frag.into()));
        self.data.cluster = if before.is_none() {
            Cluster { start: lbn, len: 1, last: at, retry: c.retry }
        } else if touches {
            Cluster { len: c.len + 1, last: at, ..c }
        } else if let Some(last) = self.realloc_blocks(c.start, c.len + 1) {
            Cluster { len: c.len + 1, last, retry: None, ..c }
        } else {
            Cluster { start: lbn, len: 1, last: at, retry: self.data.cluster.retry }
        };
    }

    /// Moves the `len` blocks from `start` to one free run and returns the new address of the last
    /// block. On any failure the blocks stay at their addresses.
    fn realloc_blocks(&mut self, start: Lbn, len: u32) -> Option<FragNo> {
        if !self.ump.tunables.doreallocblks() || self.ump.alloc.freespace(MIN_FREE_PERCENT) < 0 {
            return None;
        }
        let blocks = self.view().cluster_blocks(start, len).ok()??;
        let pref = self.data.cluster.retry.or_else(|| self.view().cluster_pref(start, &blocks));
        let Ok(Some(to)) = self.ump.alloc.alloc_cluster(self.ip.ino, pref, len) else {
            self.data.cluster.retry = Some(self.ump.alloc.next_cluster_pref(self.ip.ino, pref));
            return None;
        };
        self.move_cluster(&blocks, to);
        bump(&self.ump.cache.counters.clusters_moved);
        Some(to.plus(u64::from(self.g().frag) * u64::from(len - 1)))
    }

    /// Moves the blocks to the run at `to`: sets the addresses of the buffers and the pointers,
    /// then frees the old blocks.
    fn move_cluster(&mut self, blocks: &ClusterBlocks, to: FragNo) {
        let (g, mut replaced) = (self.g(), Vec::with_capacity(blocks.old.len()));
        for (k, (buf, &old)) in blocks.bufs.iter().zip(&blocks.old).enumerate() {
            let at = to.plus(k as u64 * u64::from(g.frag));
            let i = blocks.index + k;
            let slot = match &blocks.map {
                Map::Inode => PtrSlot::Direct(self.ip.ino, i),
                Map::Indirect { node, .. } => node.slot(self.ip.ino, i),
            };
            let run = |at| FragRun { at, frags: g.frag };
            let (new, what) = (run(at), BlockContent::Data);
            let then = self.ump.cache.relocate(buf, at, g.bsize as usize, || {
                self.ump
                    .ordering
                    .notify(Event::PointerSet {
                        slot,
                        new,
                        old: Some(run(old)),
                        content: what,
                        block: buf.key,
                    })
                    .disposition
            });
            // A failed write leaves the buffer dirty. It is written again, at the new address.
            let _ = self.ump.cache.apply(buf, then);
            replaced.push(run(old));
            match &blocks.map {
                Map::Inode => {
                    if let Some(p) = self.data.d.db.get_mut(i) {
                        *p = at.pointer();
                    }
                }
                Map::Indirect { buf, .. } => {
                    set_pointer(g, &mut buf.write().bytes, i, at.pointer())
                }
            }
        }
        if let Map::Indirect { buf, .. } = &blocks.map {
            self.ump.cache.mark_dirty(buf);
        }
        for old in replaced {
            self.ump.free_replaced(old);
        }
    }
}

impl<'a> InodeView<'a> {
    /// Writes a cluster that will not be moved any more. Its data is still in the processor's
    /// cache, and later writers find fewer dirty buffers. Buffers whose write fails stay dirty;
    /// `fsync` or the next flush writes them again.
    fn write_cluster(self, c: Cluster) {
        let last = c.start.plus(u64::from(c.len - 1));
        self.ump.cache.write_behind(data_key(self.ip.ino, c.start)..=data_key(self.ip.ino, last));
    }

    /// The `len` blocks from `start`, if they have one map and one group, and are in memory.
    fn cluster_blocks(self, start: Lbn, len: u32) -> Result<Option<ClusterBlocks>> {
        let g = self.g();
        let Some((map, index)) = self.map_of(start)? else { return Ok(None) };
        let slots = match map {
            Map::Inode => self.data.d.db.len(),
            Map::Indirect { .. } => g.nindir as usize,
        };
        if index + len as usize > slots {
            return Ok(None);
        }
        let (mut old, mut bufs) = (Vec::new(), Vec::new());
        for k in 0..u64::from(len) {
            let Some(buf) = self.ump.cache.incore(data_key(self.ip.ino, start.plus(k))) else {
                return Ok(None);
            };
            old.push(buf.read().addr);
            bufs.push(buf);
        }
        let one_group = old.first().map(|&a| g.dtog(a)) == old.last().map(|&a| g.dtog(a));
        Ok(one_group.then_some(ClusterBlocks { map, index, old, bufs }))
    }

    /// The map that has the pointer to `lbn`, and the index in it.
    fn map_of(self, lbn: Lbn) -> Result<Option<(Map, usize)>> {
        let g = self.g();
        let (levels, index) = match bmap::path(g, lbn) {
            Some(Path::Direct(i)) => return Ok(Some((Map::Inode, i))),
            Some(Path::Indirect { levels, index }) => (levels, index),
            None => return Ok(None),
        };
        let mut node = Node::root(g, levels - 1);
        let mut at = self.data.d.ib.get(levels - 1).copied().unwrap_or(0);
        for i in index.iter().take(levels).map(|&i| i as usize) {
            if at == 0 {
                return Ok(None);
            }
            let buf = self.indirect(node, at)?;
            if node.level == 1 {
                return Ok(Some((Map::Indirect { buf, node }, i)));
            }
            at = pointer(g, &buf.read().bytes, i);
            node = node.child(g, i);
        }
        Ok(None)
    }

    /// The preferred address of the first block of the cluster.
    fn cluster_pref(self, start: Lbn, blocks: &ClusterBlocks) -> Option<FragNo> {
        match &blocks.map {
            Map::Inode => self.pref_direct(blocks.index),
            Map::Indirect { buf, .. } => {
                let before = blocks.index.checked_sub(1);
                let prev = before.map_or(0, |k| pointer(self.g(), &buf.read().bytes, k));
                let prev = self.plausible(prev);
                let single = self.data.d.ib.first().copied().filter(|_| start.0 == NDADDR as u64);
                let q = PrefQuery {
                    index: blocks.index,
                    prev,
                    after_indirect: single.and_then(|p| self.plausible(p)),
                    ..self.query(start)
                };
                self.ump.alloc.blkpref(&q)
            }
        }
    }
}
