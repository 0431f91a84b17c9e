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
use ffs_ondisk::snapshot::is_snapshot;
use ffs_ondisk::{FileFlags, Geometry, Lbn, Structure};
use std::collections::BTreeSet;

/// What is called with the runs of a file.
struct Runs<F> {
    each: F,
    /// A file has no more runs than the volume has blocks, unless its pointers form a cycle.
    left: u64,
}

impl<F: FnMut(FragRun)> Runs<F> {
    fn new(g: &Geometry, each: F) -> Runs<F> {
        Runs { each, left: g.size }
    }
}

impl<'a> InodeView<'a> {
    /// Reads from block `lbn` of a snapshot. The block may be a live block of the volume, so it is
    /// not cached as a block of the snapshot.
    pub(super) fn read_snapshot(self, lbn: Lbn, skip: usize, out: &mut [u8]) -> Result<usize> {
        let mut block = vec![0; self.g().bsize as usize];
        match self.ump.snapshots.read_block(self.ip.ino, lbn, &mut block) {
            Some(read) => read?,
            None => self.read_unchanging(lbn, &mut block)?,
        }
        let n = out.len().min(block.len() - skip);
        if let (Some(to), Some(from)) = (out.get_mut(..n), block.get(skip..skip + n)) {
            to.copy_from_slice(from);
        }
        Ok(n)
    }

    /// Reads a block of a snapshot that is not active. The last block of the volume may be shorter
    /// than a block.
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

    /// The sectors of the blocks that the file has.
    ///
    /// # Errors
    /// [`Error::Format`] for an invalid pointer; the device's.
    pub(crate) fn count_blocks(self) -> Result<u64> {
        let mut frags = 0;
        self.ext_runs(&mut Runs::new(self.g(), |run| frags += u64::from(run.frags)))?;
        self.content_runs(&mut Runs::new(self.g(), |run| frags += u64::from(run.frags)))?;
        Ok(self.g().frags_to_sectors(frags))
    }

    /// Calls `runs` with the runs of the extended attributes.
    ///
    /// # Errors
    /// [`Error::Format`] for an invalid pointer.
    fn ext_runs(self, runs: &mut Runs<impl FnMut(FragRun)>) -> Result<()> {
        let g = self.g();
        for (i, raw) in (0..).zip(self.data.d.extb) {
            let frags = self.data.d.ext_frags(g, i);
            if frags > 0 {
                self.note_run(runs, raw, frags, Structure::Inode)?;
            }
        }
        Ok(())
    }

    /// Calls `runs` with the runs of content and indirect blocks.
    ///
    /// # Errors
    /// [`Error::Format`] for an invalid pointer; the device's.
    fn content_runs(self, runs: &mut Runs<impl FnMut(FragRun)>) -> Result<()> {
        let g = self.g();
        if !self.data.d.has_pointers(g) {
            return Ok(());
        }
        for (lbn, raw) in (0..).map(Lbn).zip(self.data.d.db) {
            let frags = g.blksize(self.data.d.size, lbn) / g.fsize;
            self.note_run(runs, raw, frags.max(1), Structure::Inode)?;
        }
        for (root, raw) in self.data.d.ib.into_iter().enumerate() {
            self.note_tree(runs, Node::root(g, root), raw)?;
        }
        Ok(())
    }

    fn note_run(
        self,
        runs: &mut Runs<impl FnMut(FragRun)>,
        raw: i64,
        frags: u32,
        s: Structure,
    ) -> Result<()> {
        if let Some(at) = self.g().check_run(raw, frags, s, place(self.ip.ino))? {
            (runs.each)(FragRun { at, frags });
            runs.left = runs.left.checked_sub(1).ok_or_else(|| self.bad_size())?;
        }
        Ok(())
    }

    fn note_tree(self, runs: &mut Runs<impl FnMut(FragRun)>, node: Node, raw: i64) -> Result<()> {
        self.note_run(runs, raw, self.g().frag, Structure::IndirectBlock)?;
        if raw == 0 || node.level == 0 {
            return Ok(());
        }
        let below: Vec<i64> = {
            let buf = self.indirect(node, raw)?;
            let buf = buf.read();
            (0..self.g().nindir as usize).map(|k| pointer(self.g(), &buf.bytes, k)).collect()
        };
        for (k, raw) in below.into_iter().enumerate().filter(|(_, raw)| *raw != 0) {
            self.note_tree(runs, node.child(self.g(), k), raw)?;
        }
        Ok(())
    }
}

impl<'a> LockedInode<'a> {
    /// Makes a snapshot that is about to be freed an ordinary file.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn end_snapshot(&mut self) -> Result<()> {
        let mut d = self.data.d.clone();
        if !is_snapshot(&d) {
            d.flags.remove(FileFlags::SF_SNAPSHOT);
            self.replace_dinode(d);
            return self.update(InodeChange::Attr);
        }
        match self.ump.snapshots.make_ordinary(self.ip.ino, &mut d) {
            Ok(()) => {}
            Err(e @ Error::Format(_)) => {
                // Not a complete snapshot. The code that frees its blocks skips the marks.
                drop(self.ump.damaged(e));
                return Ok(());
            }
            Err(e) => {
                self.ump.cache.set_needs_check();
                return Err(e);
            }
        }
        self.replace_dinode(d);
        self.view().forget_blocks(i64::MIN..=i64::MAX);
        self.update(InodeChange::Attr)
    }

    /// Adds `sectors` to the blocks of the snapshot, and updates the inode.
    fn grow_snapshot(&mut self, sectors: i64) -> Result<()> {
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
            let view = InodeView::new(&self.ump, &ip, &data);
            let mut runs = Runs::new(self.g(), |run| excluded.runs.push(run));
            view.ext_runs(&mut runs)?;
            if !data.is_snapshot() {
                view.content_runs(&mut runs)?;
            }
        }
        let unlinked: BTreeSet<_> = excluded.unlinked.iter().map(|(ino, _)| *ino).collect();
        let deltas = self.ump.ordering.nlink_deltas().into_iter();
        excluded.links = deltas.filter(|(ino, _)| !unlinked.contains(ino)).collect();
        Ok(excluded)
    }

    /// Stores the sizes of snapshots that grew by copies in their inodes. Returns whether there
    /// were any. The caller holds no inode lock.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn store_snapshot_growth(&self) -> Result<bool> {
        let (grown, mut result) = (self.ump.snapshots.take_growth(), Ok(()));
        for &(ino, sectors) in &grown {
            let stored = match self.get_unlinked(ino) {
                Ok(ip) => {
                    let mut file = ip.lock(&self.ump);
                    // It may have been freed, and its number given to another file.
                    let grows = file.alive() && file.is_snapshot();
                    if grows { file.grow_snapshot(sectors) } else { Ok(()) }
                }
                Err(Error::Stale) => Ok(()),
                Err(e) => Err(e),
            };
            if stored.is_err() {
                self.ump.snapshots.add_growth(ino, sectors);
            }
            result = result.and(stored);
        }
        result.map(|()| !grown.is_empty())
    }

    /// Compares the sizes of all snapshots with their pointers. What differs is stored by
    /// [`InodeTable::store_snapshot_growth`].
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn recount_snapshots(&self) -> Result<()> {
        for ino in self.ump.snapshots.all() {
            match self.get_unlinked(ino) {
                Ok(ip) => {
                    let file = ip.lock(&self.ump);
                    if file.alive() && file.is_snapshot() {
                        let own = file.d.blocks.saturating_sub(file.d.ext_sectors(self.ump.g()));
                        self.ump.snapshots.recount(ino, own)?;
                    }
                }
                Err(Error::Stale) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}
