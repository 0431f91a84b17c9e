//! Moving the blocks of a sequential writer together (`reallocblks`).
//!
//! A row of blocks is followed while a file is written at its end. When the next block does not
//! touch the last one on disk, the whole row is moved to a free run, if there is one, before it was
//! ever written.
//!
//! Reference: `spec/allocation.md` §6.4.

use super::bmap::{Node, data_key, raw};
use super::{Cluster, InodeView, LockedInode};
use crate::alloc::PrefQuery;
use crate::buf::BufRef;
use crate::counters::bump;
use crate::error::Result;
use crate::ordering::{BlockContent, Event, FragRun, PtrSlot};
use ffs_ondisk::bmap::{self, Path, pointer, set_pointer};
use ffs_ondisk::{FileType, FragNo, Lbn};

/// Percent of the volume that must be free for moving to be worth while.
const MIN_FREE_PERCENT: u32 = 4;

/// The map that holds the pointers of a row.
enum Map {
    Inode,
    Indirect { buf: BufRef, node: Node },
}

/// The blocks of a row as they lie now.
struct Row {
    map: Map,
    /// Index of the first pointer in the map.
    index: usize,
    old: Vec<FragNo>,
    bufs: Vec<BufRef>,
}

impl<'a> LockedInode<'a> {
    /// Block `lbn`, at `at`, was written to its end.
    pub(super) fn cluster_written(&mut self, lbn: Lbn, at: FragNo) {
        let g = self.g();
        let max = g.contigsumsize.min(self.ump.alloc.params().maxcontig);
        let at_end = self.data.d.size == g.lblktosize(lbn.plus(1));
        let c = self.data.cluster;
        if max < 2 || !at_end || self.data.d.file_type() != Some(FileType::Regular) {
            self.data.cluster.len = 0;
            return;
        }
        self.follow_row((lbn, at), max);
        let now = self.data.cluster;
        if c.len > 0 && now.start != c.start {
            self.view().write_row(c);
        }
        if now.len == max {
            self.view().write_row(now);
        }
    }

    fn follow_row(&mut self, (lbn, at): (Lbn, FragNo), max: u32) {
        let (g, c) = (self.g(), self.data.cluster);
        let follows = c.len > 0 && c.len < max && lbn == c.start.plus(c.len.into());
        let touches = at == c.last.plus(g.frag.into());
        self.data.cluster = if !follows {
            Cluster { start: lbn, len: 1, last: at, retry: c.retry }
        } else if touches {
            Cluster { len: c.len + 1, last: at, ..c }
        } else if let Some(last) = self.gather(c.start, c.len + 1) {
            Cluster { len: c.len + 1, last, retry: None, ..c }
        } else {
            Cluster { start: lbn, len: 1, last: at, retry: self.data.cluster.retry }
        };
    }

    /// Moves the blocks from `start` on to one place; returns the new address of the last. Failure
    /// of any kind leaves them where they are.
    fn gather(&mut self, start: Lbn, len: u32) -> Option<FragNo> {
        if !self.ump.tunables.doreallocblks() || self.ump.alloc.freespace(MIN_FREE_PERCENT) < 0 {
            return None;
        }
        let row = self.view().row(start, len).ok()??;
        let pref = self.data.cluster.retry.or_else(|| self.view().row_pref(start, &row));
        let Ok(Some(to)) = self.ump.alloc.alloc_cluster(self.ip.ino, pref, len) else {
            self.data.cluster.retry = Some(self.ump.alloc.next_cluster_pref(self.ip.ino, pref));
            return None;
        };
        self.move_row(&row, to);
        bump(&self.ump.cache.counters.clusters_moved);
        Some(to.plus(u64::from(self.g().frag) * u64::from(len - 1)))
    }

    /// Gives the blocks of the row the places from `to` on: buffers, then pointers, then the old
    /// places are freed.
    fn move_row(&mut self, row: &Row, to: FragNo) {
        let (g, mut replaced) = (self.g(), Vec::with_capacity(row.old.len()));
        for (k, (buf, &old)) in row.bufs.iter().zip(&row.old).enumerate() {
            let at = to.plus(k as u64 * u64::from(g.frag));
            let i = row.index + k;
            let slot = match &row.map {
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
            // A write that fails leaves the buffer dirty: it is tried again, at the new place.
            let _ = self.ump.cache.apply(buf, then);
            replaced.push(run(old));
            match &row.map {
                Map::Inode => {
                    if let Some(p) = self.data.d.db.get_mut(i) {
                        *p = raw(at);
                    }
                }
                Map::Indirect { buf, .. } => set_pointer(g, &mut buf.write().bytes, i, raw(at)),
            }
        }
        if let Map::Indirect { buf, .. } = &row.map {
            self.ump.cache.mark_dirty(buf);
        }
        for old in replaced {
            self.ump.free_replaced(old);
        }
    }
}

impl<'a> InodeView<'a> {
    /// Writes a row that will not be moved any more: the data is still in the CPU's cache, and later
    /// writers find fewer dirty buffers. What fails stays dirty, for fsync or the next flush.
    fn write_row(self, row: Cluster) {
        let last = row.start.plus(u64::from(row.len - 1));
        self.ump.cache.write_behind(data_key(self.ip.ino, row.start)..=data_key(self.ip.ino, last));
    }

    /// The row, if all of it is in one map, in one group, and in memory.
    fn row(self, start: Lbn, len: u32) -> Result<Option<Row>> {
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
        let groups = old.first().map(|&a| g.dtog(a)) == old.last().map(|&a| g.dtog(a));
        Ok(groups.then_some(Row { map, index, old, bufs }))
    }

    /// The map that holds the pointer of `lbn`, and the index in it.
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

    /// Where the first block of the row should go.
    fn row_pref(self, start: Lbn, row: &Row) -> Option<FragNo> {
        match &row.map {
            Map::Inode => self.pref_direct(row.index),
            Map::Indirect { buf, .. } => {
                let before = row.index.checked_sub(1);
                let prev = before.map_or(0, |k| pointer(self.g(), &buf.read().bytes, k));
                let prev = self.plausible(prev);
                let single = self.data.d.ib.first().copied().filter(|_| start.0 == 12);
                let q = PrefQuery {
                    index: row.index,
                    prev,
                    after_indirect: single.and_then(|p| self.plausible(p)),
                    ..self.query(start)
                };
                self.ump.alloc.blkpref(&q)
            }
        }
    }
}
