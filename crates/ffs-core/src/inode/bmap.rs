//! The block map: from logical blocks to addresses (`ufs_bmap`).
//!
//! # Invariants
//! 1. Each address that this module returns passed [`ffs_ondisk::Geometry::check_run`] for all
//!    fragments of the block, or is a live block of the volume that a snapshot shows.
//! 2. Indirect blocks are read through buffers whose names [`bmap::indirect_name`] gives, at most
//!    three for one call.
//!
//! A snapshot file maps the volume: pointer 0 means the live block, and other values less than a
//! block mean a block without content (`spec/on-disk-format.md` §11).
//!
//! Reference: `spec/on-disk-format.md` §7.7, §11, §18.3.

use super::lifecycle::place;
use super::{InodeData, InodeView};
use crate::buf::{BufKey, BufKind, BufRef, DiskBlock};
use crate::error::{Error, Result};
use crate::ordering::PtrSlot;
use ffs_ondisk::bmap::{self, Path, pointer};
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::snapshot::is_mark;
use ffs_ondisk::{FileFlags, FragNo, Geometry, Ino, Lbn, Structure};

/// The buffer of a data block.
pub(super) fn data_key(ino: Ino, lbn: Lbn) -> BufKey {
    BufKey::File(ino, i64::try_from(lbn.0).unwrap_or(i64::MAX))
}

/// An indirect block at `at`.
pub(super) fn indirect_block(g: &Geometry, ino: Ino, node: Node, at: FragNo) -> DiskBlock {
    let key = BufKey::File(ino, node.name());
    DiskBlock { key, kind: BufKind::Indirect, addr: at, len: g.bsize as usize }
}

/// An indirect block's place in its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// 1 is a single indirect block, whose pointers lead to data. 0 is data.
    pub(super) level: usize,
    /// The first logical block that it maps.
    pub(super) first: Lbn,
}

impl Node {
    /// The indirect block to which `ib[root]` leads.
    pub(super) fn root(g: &Geometry, root: usize) -> Node {
        Node { level: root + 1, first: bmap::first_of_root(g, root) }
    }

    /// The number of logical blocks below one of its pointers.
    pub(super) fn per_pointer(self, g: &Geometry) -> u64 {
        bmap::blocks_per_pointer(g, self.level)
    }

    /// The node of the level below to which its pointer `index` leads; level 0 is data.
    pub(super) fn child(self, g: &Geometry, index: usize) -> Node {
        let skip = self.per_pointer(g).saturating_mul(index as u64);
        Node { level: self.level - 1, first: self.first.plus(skip) }
    }

    /// The in-core name.
    pub(super) fn name(self) -> i64 {
        bmap::indirect_name(self.first, self.level)
    }

    /// The slot of its pointer `index` in events.
    pub(super) fn slot(self, ino: Ino, index: usize) -> PtrSlot {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        PtrSlot::Indirect { ino, block: self.name(), index }
    }
}

/// A range of contiguous blocks: its address and its length in blocks. `None` is a hole.
pub(super) type Extent = (Option<FragNo>, u64);

impl<'a> InodeView<'a> {
    /// The address of a logical block; `None` for a hole and beyond the end.
    ///
    /// # Errors
    /// [`Error::Format`] for an invalid pointer; the device's.
    pub(crate) fn bmap(self, lbn: Lbn) -> Result<Option<FragNo>> {
        Ok(self.extent(lbn, 1)?.0)
    }

    /// The extent that starts at `lbn`: contiguous blocks or a hole, of 1 to `max_blocks` blocks.
    /// It may end before the contiguous blocks do.
    ///
    /// # Errors
    /// As [`InodeView::bmap`].
    pub(crate) fn extent(self, lbn: Lbn, max_blocks: u64) -> Result<Extent> {
        let g = self.g();
        let max = max_blocks.max(1);
        let end = self.data.d.size.div_ceil(g.bsize.into());
        if lbn.0 >= end || !self.data.d.has_pointers(g) {
            return Ok((None, max));
        }
        let max = max.min(end - lbn.0);
        match bmap::path(g, lbn) {
            Some(Path::Direct(i)) => {
                let pointers = self.data.d.db.iter().skip(i).copied();
                self.contiguous(lbn, pointers, max)
            }
            Some(Path::Indirect { levels, index }) => {
                self.extent_indirect(lbn, (levels, index), max)
            }
            None => Err(self.bad_size()),
        }
    }

    fn extent_indirect(
        self,
        lbn: Lbn,
        (levels, index): (usize, [u32; 3]),
        max: u64,
    ) -> Result<Extent> {
        let g = self.g();
        let mut node = Node::root(g, levels - 1);
        let mut at = self.data.d.ib.get(levels - 1).copied().unwrap_or(0);
        for i in index.iter().take(levels) {
            if at == 0 {
                let past = node.first.plus(node.per_pointer(g).saturating_mul(g.nindir.into()));
                return Ok(self.missing(lbn, past, max));
            }
            let buf = self.indirect(node, at)?;
            let buf = buf.read();
            let i = *i as usize;
            if node.level == 1 {
                let rest = (i..g.nindir as usize).map(|k| pointer(g, &buf.bytes, k));
                return self.contiguous(lbn, rest, max);
            }
            at = pointer(g, &buf.bytes, i);
            if at == 0 {
                // Siblings that are missing too belong to the same extent: a file must not have
                // more extents than the volume has blocks.
                let empty = (i + 1..g.nindir as usize)
                    .take_while(|k| !self.data.is_snapshot() && pointer(g, &buf.bytes, *k) == 0);
                let past = (i + 1 + empty.count()) as u64;
                let past = node.first.plus(node.per_pointer(g).saturating_mul(past));
                return Ok(self.missing(lbn, past, max));
            }
            node = node.child(g, i);
        }
        // Not reached: the loop returns at level 1.
        Ok(self.missing(lbn, node.first.plus(node.per_pointer(g)), max))
    }

    /// The extent from `lbn` to before `past`, which has no indirect block.
    fn missing(self, lbn: Lbn, past: Lbn, max: u64) -> Extent {
        let n = past.0.saturating_sub(lbn.0).clamp(1, max);
        (self.resolve_zero(lbn), n)
    }

    /// The extent at the head of `pointers`. The first of them is the pointer of block `lbn`.
    fn contiguous(
        self,
        lbn: Lbn,
        mut pointers: impl Iterator<Item = i64>,
        max: u64,
    ) -> Result<Extent> {
        let frag = u64::from(self.g().frag);
        let first = self.resolve(lbn, pointers.next().unwrap_or(0))?;
        let mut n = 1;
        for p in pointers {
            if n >= max {
                break;
            }
            // A bad pointer ends the extent. It is reported if an extent starts with it.
            let Ok(next) = self.resolve(lbn.plus(n), p) else { break };
            if next != first.map(|a| a.plus(n * frag)) {
                break;
            }
            n += 1;
        }
        Ok((first, n))
    }

    /// The address to which pointer `raw` of block `lbn` leads.
    fn resolve(self, lbn: Lbn, raw: i64) -> Result<Option<FragNo>> {
        let g = self.g();
        if raw == 0 {
            return Ok(self.resolve_zero(lbn));
        }
        if self.data.is_snapshot() && is_mark(g, raw) {
            return Ok(None);
        }
        let s = if lbn.0 < NDADDR as u64 { Structure::Inode } else { Structure::IndirectBlock };
        let frags = g.blksize(self.data.d.size, lbn) / g.fsize;
        self.checked_run(raw, frags, s)
    }

    /// The meaning of pointer 0: a hole, or in a snapshot the live block of the volume. If a
    /// snapshot is not kept up, the live block may have changed, and is not shown.
    fn resolve_zero(self, lbn: Lbn) -> Option<FragNo> {
        let at = self.g().blkstofrags(lbn);
        let is_kept = || self.ump.is_read_only() || self.ump.snapshots.is_live(self.ip.ino);
        (self.data.is_snapshot() && at.0 < self.g().size && is_kept()).then_some(at)
    }

    /// The run of `frags` fragments to which pointer `raw` leads; `None` for a hole.
    pub(super) fn checked_run(self, raw: i64, frags: u32, s: Structure) -> Result<Option<FragNo>> {
        let run = self.g().check_run(raw, frags, s, place(self.ip.ino));
        run.map_err(|e| self.ump.cache.record_damage(e))
    }

    /// The buffer of an indirect block to which pointer `raw` leads.
    pub(super) fn indirect(self, node: Node, raw: i64) -> Result<BufRef> {
        let g = self.g();
        let at = self.checked_run(raw, g.frag, Structure::IndirectBlock)?;
        let at = at.unwrap_or(FragNo::HOLE);
        self.ump.cache.bread(indirect_block(g, self.ip.ino, node, at))
    }

    /// The block's buffer, which is as long as the fragments of the block. `None` for a hole and
    /// beyond the end.
    ///
    /// # Errors
    /// As [`InodeView::bmap`].
    pub(crate) fn read_block(self, lbn: Lbn) -> Result<Option<BufRef>> {
        match self.bmap(lbn)? {
            Some(at) => Ok(Some(self.data_block(lbn, at)?)),
            None => Ok(None),
        }
    }

    /// The block's buffer if it is in memory.
    #[inline]
    pub(crate) fn cached_block(self, lbn: Lbn) -> Option<BufRef> {
        self.ump.cache.incore(data_key(self.ip.ino, lbn))
    }

    /// Prefetches the `len` bytes at `at` of block `lbn`, if the block is in memory.
    pub(crate) fn prefetch_block(self, lbn: Lbn, at: u32, len: u32) {
        self.ump.cache.prefetch(data_key(self.ip.ino, lbn), at as usize, len as usize);
    }

    /// The buffer of data block `lbn` at `at`.
    pub(super) fn data_block(self, lbn: Lbn, at: FragNo) -> Result<BufRef> {
        let len = self.g().blksize(self.data.d.size, lbn) as usize;
        let (key, kind) = (data_key(self.ip.ino, lbn), self.data.buf_kind());
        self.ump.cache.bread(DiskBlock { key, kind, addr: at, len })
    }

    pub(super) fn bad_size(self) -> Error {
        let want = "a size that the block map can address";
        let e =
            Error::corrupt(Structure::Inode, place(self.ip.ino), "size", self.data.d.size, want);
        self.ump.cache.record_damage(e)
    }
}

impl InodeData {
    /// Whether this is a snapshot of the volume.
    pub(crate) fn is_snapshot(&self) -> bool {
        self.d.flags.contains(FileFlags::SF_SNAPSHOT)
    }

    /// The kind of the buffers of its content.
    pub(super) fn buf_kind(&self) -> BufKind {
        if self.d.is_dir() { BufKind::Directory } else { BufKind::Data }
    }
}
