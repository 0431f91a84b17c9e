//! Making a file durable: its content, its inode, and what leads to it.
//!
//! A buffer whose write fails stays dirty, so a later fsync tries again and fails again until the
//! data is on the device: no error is reported once and then forgotten.
//!
//! Reference: `spec/soft-updates.md` §8.

use super::{Inode, InodeTable};
use crate::buf::{BufKey, BufRef};
use crate::error::{Error, Result};
use crate::ordering::{Goal, InodeChange, Readiness};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Passes in a row that may change nothing.
const IDLE: u32 = 4;
/// Passes at most: a chain of names is a few passes long, however deep the tree.
const PASSES: u32 = 1000;

/// Whether size or pointers may have changed since an fsync last wrote the inode's block: so it is of
/// an inode that just entered memory. The low bit says whether, the others count the changes, so that
/// an fsync takes back only what it has seen.
#[derive(Debug)]
pub(super) struct Unsynced(AtomicU32);

impl Unsynced {
    pub(super) fn new() -> Unsynced {
        Unsynced(AtomicU32::new(1))
    }

    /// Notes a change. Called with the inode locked for changes.
    pub(super) fn set(&self) {
        let changes = self.0.load(Ordering::Relaxed) >> 1;
        self.0.store(changes.wrapping_add(1) << 1 | 1, Ordering::Relaxed);
    }

    /// What [`Unsynced::clear`] takes back.
    fn seen(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// All changes up to `seen` are durable.
    fn clear(&self, seen: u32) {
        let to = seen & !1;
        // If it fails, there are others.
        let _ = self.0.compare_exchange(seen, to, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// What an fsync has still to write.
struct Left {
    /// The file's own blocks.
    own: Vec<BufRef>,
    /// The block of its inode.
    inode: Option<BufRef>,
    /// The group, on which it depends whether the inode is looked at.
    group: Option<BufRef>,
}

impl InodeTable {
    /// Makes content, indirect blocks, extended attributes and the inode durable, and the names and
    /// directories that lead to the file (of a directory, its names too); with `data_only` the inode
    /// only if size or pointers changed. The caller holds no inode lock.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn fsync(&self, ip: &Inode, data_only: bool) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        if !data_only {
            let mut data = ip.write();
            if data.alive() && data.times_noted() {
                self.update(ip, &mut data, InodeChange::Attr)?;
            }
        }
        let (goal, seen, mut left) = {
            // While the first pass writes: what it writes is one state of the file.
            let data = ip.read();
            let goal = if data.d.is_dir() { Goal::Directory(ip.ino) } else { Goal::File(ip.ino) };
            let seen = ip.unsynced.seen();
            let mut left = self.unsynced(ip, !data_only || seen & 1 == 1);
            self.write_towards(goal, &mut left, false)?;
            (goal, seen, left)
        };
        self.end_pass()?;
        self.finish(goal, &mut left)?;
        ip.unsynced.clear(seen);
        Ok(())
    }

    /// Passes until nothing is left and the goal is reached.
    fn finish(&self, goal: Goal, left: &mut Left) -> Result<()> {
        let mut idle = 0;
        for _ in 0..PASSES {
            let pending = self.progress();
            let (worked, outcome) = self.run_work(usize::MAX);
            // Work that fails is another file's.
            drop(outcome);
            if left.is_done() && self.alloc.ordering.reached(goal) {
                return Ok(());
            }
            let wrote = self.write_towards(goal, left, idle > 0)?;
            self.end_pass()?;
            let moved = wrote > 0 || worked > 0 || self.progress() != pending;
            idle = if moved { 0 } else { idle + 1 };
            if idle > IDLE {
                break;
            }
        }
        Err(Error::Unwritten)
    }

    /// What there is to be written of a file.
    fn unsynced(&self, ip: &Inode, inode: bool) -> Left {
        let (g, cache) = (self.g(), self.cache());
        let block = |at| inode.then(|| cache.dirty_buf(BufKey::Meta(at))).flatten();
        Left {
            own: cache.dirty_of(ip.ino),
            inode: block(g.ino_to_fsba(ip.ino)),
            group: block(g.cgtod(g.ino_to_cg(ip.ino))),
        }
    }

    /// Writes what is readiest of what is left and of what brings the goal nearer; what would show
    /// nothing new only if `all`. Returns how many blocks.
    fn write_towards(&self, goal: Goal, left: &mut Left, all: bool) -> Result<usize> {
        let cache = self.cache();
        left.own.retain(|b| cache.is_dirty(b));
        let some = left.inode.iter().chain(&left.group).cloned();
        let more = self.alloc.ordering.next_for(goal);
        let more = more.into_iter().filter_map(|key| cache.dirty_buf(key));
        let each = left.own.iter().cloned().chain(some).chain(more);
        let each: BTreeMap<BufKey, BufRef> = each.map(|b| (b.key, b)).collect();
        let (ready, chosen) = self.readiest(each.into_values().collect());
        if ready == Readiness::Nothing && !all {
            return Ok(0);
        }
        // The file's own first: if they fail, its inode need not name them.
        let of_file = |b: &BufRef| left.own.iter().any(|own| Arc::ptr_eq(own, b));
        let (own, other): (Vec<_>, Vec<_>) = chosen.into_iter().partition(of_file);
        let mut images = 0;
        for bufs in [own, other] {
            let written = cache.write_bufs(bufs.clone());
            images += written.images;
            left.strike(&bufs, &written.kept);
            written.result()?;
        }
        Ok(images)
    }
}

impl Left {
    fn is_done(&self) -> bool {
        self.own.is_empty() && self.inode.is_none()
    }

    /// Takes out what was written: of the file's own blocks only those that are not `kept`. The block
    /// of the inode may keep changes of other inodes; whether it does of this one is the goal's.
    fn strike(&mut self, tried: &[BufRef], kept: &[BufRef]) {
        let among = |b: &BufRef, all: &[BufRef]| all.iter().any(|t| Arc::ptr_eq(t, b));
        self.own.retain(|b| !among(b, tried) || among(b, kept));
        self.inode.take_if(|b| among(b, tried));
        self.group.take_if(|b| among(b, tried));
    }
}
