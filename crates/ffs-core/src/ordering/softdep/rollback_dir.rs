//! Rollback of entries in the copy of a directory block that is written (FreeBSD:
//! `initiate_write_filepage`).
//!
//! # Invariants
//! 1. An entry whose last value is not ready shows the newest value that is: inode number and type.
//!    Record lengths are never rolled back, so every chunk is whole.
//! 2. The device writes a chunk, a sector, whole or not at all. So a value that waits only for
//!    names in the same chunk is written with them. A later write rolls it back if one of these
//!    names got another value meanwhile, or the pointer to the block changed.
//!
//! Reference: `docs/spec/soft-updates.md` §2 (sector clause), §5, §12.2.

use super::dep::{Condition, DepId, Requirement};
use super::direntries::{DirEntries, chunk_of};
use super::engine::Softdep;
use super::graph::DepIds;
use super::invariant::broken;
use super::log::LOG;
use crate::buf::BufKey;
use crate::ordering::rules::{Rule, holds};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{DirOff, dir};
use tracing::debug;

/// The value of an entry that a write shows: its place among the pending values, or the durable
/// one.
#[derive(Debug)]
struct ShownEntry {
    off: u32,
    pending: Option<usize>,
}

/// The shown values of a block, in the order of the entries.
type ShownEntries = Vec<ShownEntry>;

/// The pending value of an entry that a write shows.
fn shown_at(entries: &DirEntries, shown: &ShownEntries, off: u32) -> Option<DepId> {
    let at = shown.binary_search_by_key(&off, |entry| entry.off).ok()?;
    entries.get(off)?.pending().get(shown.get(at)?.pending?).copied()
}

impl Softdep {
    /// Rolls back the changes that the copy `bytes` of a directory block must not show, and lists
    /// the dependencies that it contains, and those `reverted`: rolled back although an earlier
    /// write may have shown them. Returns whether anything was rolled back.
    pub(super) fn roll_back_directory(
        &self,
        key: BufKey,
        bytes: &mut [u8],
        contained: &mut Vec<DepId>,
        reverted: &mut DepIds,
    ) -> bool {
        // No entry of the block is pending.
        let Some(entries) = self.pagedeps.block(key) else { return false };
        let mut shown = ShownEntries::new();
        let mut held = Vec::new();
        for (off, versions) in entries.iter() {
            let pending = versions.pending().iter().rposition(|id| self.graph.is_ready(*id));
            if pending.is_none_or(|at| at + 1 != versions.pending().len()) {
                held.push(off);
            }
            shown.push(ShownEntry { off, pending });
        }
        self.admit_same_chunk(entries, &mut shown, &mut held);
        let mut rolled_back = false;
        for ((off, versions), entry) in entries.iter().zip(shown) {
            let id = entry.pending.and_then(|at| versions.pending().get(at)).copied();
            contained.extend(id);
            if id.is_some() && id == versions.last() {
                continue;
            }
            rolled_back = true;
            reverted.extend(self.graph.written(versions.since(entry.pending)));
            let value = id.and_then(|id| self.value_of(id)).unwrap_or(versions.durable());
            debug!(target: LOG, %key, off, ino = value.ino.0, "entry rolled back");
            let at = (off % self.g.bsize) as usize;
            let start = at - at % DIRBLKSIZ;
            // The last block of a directory may end before it.
            let Some(chunk) = bytes.get_mut(start..start + DIRBLKSIZ) else { continue };
            dir::set_ino(self.fmt, chunk, at - start, value.ino.0);
            if holds(Rule::TypeWithNumber) && value.ino.0 != 0 {
                dir::set_type(self.fmt, chunk, at - start, value.dtype);
            }
        }
        rolled_back
    }

    /// Shows the values that wait only for names shown in the same chunk.
    fn admit_same_chunk(
        &self,
        entries: &DirEntries,
        shown: &mut ShownEntries,
        held: &mut Vec<u32>,
    ) {
        loop {
            let before = held.len();
            held.retain(|&off| {
                let Some(versions) = entries.get(off) else {
                    broken("a held entry is not listed");
                    return false;
                };
                let is_admitted = versions.last().is_some_and(|last| {
                    let mut requirements = self.graph.requirements(last).into_iter();
                    requirements.all(|r| self.is_satisfied_in_chunk(&r, off, entries, shown))
                });
                let at = shown.binary_search_by_key(&off, |entry| entry.off);
                if let Some(entry) =
                    at.ok().filter(|_| is_admitted).and_then(|at| shown.get_mut(at))
                {
                    entry.pending = versions.pending().len().checked_sub(1);
                }
                !is_admitted
            });
            if held.len() == before {
                return;
            }
        }
    }

    /// Whether a write of the chunk satisfies the requirement of the entry at `off`: the required
    /// name is shown in the chunk, and is reachable once it is durable.
    fn is_satisfied_in_chunk(
        &self,
        requirement: &Requirement,
        off: u32,
        entries: &DirEntries,
        shown: &ShownEntries,
    ) -> bool {
        if !requirement.holds_write() {
            return true;
        }
        // A block or an inode: no write of this chunk makes it durable.
        let Condition::Dep(on, _) = requirement.condition() else { return false };
        // A dependency that is no name is not in a chunk.
        let Some(name) = self.graph.entry(on) else { return false };
        chunk_of(name.at.off) == chunk_of(DirOff(off))
            && shown_at(entries, shown, name.at.off.0) == Some(on)
            && self.graph.requirements(on).iter().all(Requirement::holds_write)
            && self.is_way_durable(name.at)
    }

    /// Whether a write of the directory block would roll anything back.
    pub(super) fn is_directory_block_held(&self, key: BufKey) -> bool {
        self.pagedeps.block(key).is_some_and(|entries| {
            let mut last = entries.iter().filter_map(|(_, versions)| versions.last());
            last.any(|id| self.graph.is_held(id))
        })
    }
}
