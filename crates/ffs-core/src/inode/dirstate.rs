//! Hints for the directory code, kept while a directory is in memory. They start empty, and the
//! directory code is correct without them.

use crate::dirhash::{DirHash, DropReason, Pool};
use crate::sync::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};

/// The hints for a directory.
#[derive(Debug, Default)]
pub(crate) struct DirState {
    /// The offset in bytes at which the last successful lookup ended (`i_diroff`).
    pub(crate) diroff: AtomicU32,
    /// A malformed record or chunk was found.
    pub(crate) malformed: AtomicBool,
    /// No index can be built: a record is malformed, a block is missing, or two records have one
    /// name.
    pub(crate) unhashable: AtomicBool,
    /// The last lookup missed the name cache and searched the directory.
    pub(crate) cache_missed: AtomicBool,
    hash: OnceLock<DirHash>,
    moves: Mutex<Option<Box<MoveLog>>>,
}

/// A record that a compaction kept; offsets in its chunk, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moved {
    /// The old offset.
    pub(crate) from: u16,
    /// The new offset.
    pub(crate) to: u16,
    /// The end at the new offset.
    pub(crate) end: u16,
}

/// The last compactions of a directory.
#[derive(Debug, Default)]
struct MoveLog {
    /// The number of compactions so far.
    compactions: u32,
    /// The latest ones, oldest first.
    recent: VecDeque<Compaction>,
}

/// One compaction of a region of a chunk.
#[derive(Debug)]
struct Compaction {
    /// The number of compactions up to and with this one.
    compactions: u32,
    chunk: u32,
    region: Range<u16>,
    /// All live records of the region, in order.
    kept: Vec<Moved>,
}

impl DirState {
    /// The slot for the directory's index, created on first use.
    pub(crate) fn hash(&self, pool: &Arc<Pool>) -> &DirHash {
        self.hash.get_or_init(|| DirHash::new(pool))
    }

    /// The slot for the directory's index, if it was created.
    pub(crate) fn index(&self) -> Option<&DirHash> {
        self.hash.get()
    }

    /// Whether no memory is allocated for hints.
    pub(crate) fn is_bare(&self) -> bool {
        self.hash.get().is_none() && self.moves.try_lock().is_some_and(|log| log.is_none())
    }

    /// Frees the directory's index.
    pub(crate) fn drop_index(&self) {
        if let Some(hash) = self.hash.get().filter(|h| h.read_index().is_some()) {
            hash.drop_index(DropReason::Unwanted);
        }
    }

    /// The number of compactions that are kept, so that older positions of a listing stay valid.
    pub(crate) const MOVES_KEPT: usize = 128;

    /// Records a compaction of `region` in the chunk at `chunk`.
    pub(crate) fn log_moves(&self, chunk: u32, region: Range<u16>, kept: Vec<Moved>) {
        let mut log = self.moves.lock();
        let log = log.get_or_insert_default();
        // A position of a listing has 31 bits for the number.
        log.compactions = (log.compactions + 1) & 0x7fff_ffff;
        if log.recent.len() == Self::MOVES_KEPT {
            log.recent.pop_front();
        }
        log.recent.push_back(Compaction { compactions: log.compactions, chunk, region, kept });
    }

    /// The number of compactions so far.
    pub(crate) fn compactions(&self) -> u32 {
        self.moves.lock().as_ref().map_or(0, |log| log.compactions)
    }

    /// The present offset of a position that was `off` after `since` compactions. The records
    /// before it are the same as then.
    pub(crate) fn translate(&self, since: u32, mut off: u32) -> u32 {
        let log = self.moves.lock();
        let Some(log) = log.as_ref() else { return off };
        for c in log.recent.iter().filter(|c| c.compactions > since) {
            let Some(at) = off.checked_sub(c.chunk).and_then(|o| u16::try_from(o).ok()) else {
                continue;
            };
            if at > c.region.start && at < c.region.end {
                let last_seen = c.kept.iter().rev().find(|m| m.from < at);
                off = c.chunk + u32::from(last_seen.map_or(c.region.start, |m| m.end));
            }
        }
        off
    }
}
