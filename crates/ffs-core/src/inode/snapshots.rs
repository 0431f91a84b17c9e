//! Snapshot files: reading, freeing, and the blocks of files that a new snapshot does not show.
//!
//! # Invariants
//! 1. The content of an active snapshot is read through [`crate::snapshot::Snapshots`].
//! 2. A snapshot is made an ordinary file before its blocks are freed, so the code that frees them
//!    sees no special pointer.
//!
//! Reference: `spec/snapshots.md` §3, §4, §7.

use super::bmap::Node;
use super::lifecycle::place;
use super::{InodeTable, InodeView, LockedInode};
use crate::error::{Error, Result};
use crate::ordering::{FragRun, InodeChange};
use crate::snapshot::Excluded;
use ffs_ondisk::bmap::pointer;
use ffs_ondisk::{Lbn, Structure};

impl<'a> InodeView<'a> {
    /// Reads from block `lbn` of a snapshot. The block may be a live block of the volume, so it is
    /// not cached as a block of the snapshot.
    pub(super) fn read_snapshot(self, lbn: Lbn, skip: usize, out: &mut [u8]) -> Result<usize> {
        let mut block = vec![0; self.g().bsize as usize];
        match self.ump.snapshots.read_block(self.ip.ino, lbn, &mut block) {
            Some(read) => read?,
            None if self.ump.is_read_only() => self.read_unchanging(lbn, &mut block)?,
            None => {
                // No blocks are copied for it, so it would show new content.
                let (found, want) = ("not listed", "a snapshot that the superblock lists");
                let (s, p) = (Structure::Snapshot, place(self.ip.ino));
                return Err(Error::corrupt(s, p, "flags", found, want));
            }
        }
        let n = out.len().min(block.len() - skip);
        if let (Some(to), Some(from)) = (out.get_mut(..n), block.get(skip..skip + n)) {
            to.copy_from_slice(from);
        }
        Ok(n)
    }

    /// Reads a block of a snapshot of a volume that does not change. The last block of the volume
    /// may be shorter than a block.
    fn read_unchanging(self, lbn: Lbn, block: &mut [u8]) -> Result<()> {
        let g = self.g();
        let Some(at) = self.bmap(lbn)? else { return Ok(()) };
        let frags = g.size.saturating_sub(at.0).min(g.frag.into());
        let there = (frags * u64::from(g.fsize)) as usize;
        match block.get_mut(..there) {
            Some(block) => self.read_device(at, block),
            None => Ok(()),
        }
    }

    /// Every run of the file: content, indirect blocks, extended attributes.
    ///
    /// # Errors
    /// [`Error::Format`] for an invalid pointer; the device's.
    fn all_runs(self) -> Result<Vec<FragRun>> {
        let g = self.g();
        let mut runs = Vec::new();
        let mut ext = self.data.d.extsize;
        for raw in self.data.d.extb {
            let bytes = ext.min(g.bsize);
            self.push_run(&mut runs, raw, bytes.div_ceil(g.fsize).max(1), Structure::Inode)?;
            ext -= bytes;
        }
        if !self.data.d.has_pointers(g) {
            return Ok(runs);
        }
        for (lbn, raw) in (0..).map(Lbn).zip(self.data.d.db) {
            let frags = g.blksize(self.data.d.size, lbn) / g.fsize;
            self.push_run(&mut runs, raw, frags.max(1), Structure::Inode)?;
        }
        for (root, raw) in self.data.d.ib.into_iter().enumerate() {
            self.push_tree(&mut runs, Node::root(g, root), raw)?;
        }
        Ok(runs)
    }

    fn push_run(self, runs: &mut Vec<FragRun>, raw: i64, frags: u32, s: Structure) -> Result<()> {
        let at = self.g().check_run(raw, frags, s, place(self.ip.ino))?;
        runs.extend(at.map(|at| FragRun { at, frags }));
        // A file has no more runs than the volume has blocks, unless its pointers form a cycle.
        if runs.len() as u64 > self.g().size { Err(self.bad_size()) } else { Ok(()) }
    }

    fn push_tree(self, runs: &mut Vec<FragRun>, node: Node, raw: i64) -> Result<()> {
        self.push_run(runs, raw, self.g().frag, Structure::IndirectBlock)?;
        if raw == 0 || node.level == 0 {
            return Ok(());
        }
        let below: Vec<i64> = {
            let buf = self.indirect(node, raw)?;
            let buf = buf.read();
            (0..self.g().nindir as usize).map(|k| pointer(self.g(), &buf.bytes, k)).collect()
        };
        for (k, raw) in below.into_iter().enumerate().filter(|(_, raw)| *raw != 0) {
            self.push_tree(runs, node.child(self.g(), k), raw)?;
        }
        Ok(())
    }
}

impl<'a> LockedInode<'a> {
    /// Makes a snapshot that is about to be freed an ordinary file.
    pub(super) fn end_snapshot(&mut self) -> Result<()> {
        let mut d = self.data.d.clone();
        self.ump.snapshots.make_ordinary(self.ip.ino, &mut d)?;
        self.replace_dinode(d);
        self.view().forget_blocks(i64::MIN..=i64::MAX);
        self.update(InodeChange::Attr)
    }

    /// Adds `sectors` to the blocks of the snapshot, and updates the inode.
    pub(crate) fn grow_snapshot(&mut self, sectors: i64) -> Result<()> {
        self.set_blocks(self.data.d.blocks.saturating_add_signed(sectors));
        self.update(InodeChange::Attr)
    }
}

impl InodeTable {
    /// What a snapshot that is made now does not show. The caller has suspended all operations.
    ///
    /// # Errors
    /// [`Error::Format`]; the device's.
    pub(crate) fn excluded_from_snapshot(&self) -> Result<Excluded> {
        let mut excluded = Excluded::default();
        for ip in self.select(|d| d.alive() && d.d.nlink == 0) {
            let data = ip.read();
            excluded.unlinked.push((ip.ino, data.d.is_dir()));
            if !data.is_snapshot() {
                let view = InodeView::new(&self.ump, &ip, &data);
                excluded.runs.extend(view.all_runs()?);
            }
        }
        Ok(excluded)
    }

    /// Stores the sizes of snapshots that grew by copies in their inodes. Returns whether there
    /// were any. The caller holds no inode lock.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn store_snapshot_growth(&self) -> Result<bool> {
        let grown = self.ump.snapshots.take_growth();
        for &(ino, sectors) in &grown {
            self.get_snapshot(ino)?.lock(&self.ump).grow_snapshot(sectors)?;
        }
        Ok(!grown.is_empty())
    }
}
