//! What the directory code remembers of a directory while it is in memory. All of it are hints: it
//! starts empty, and the directory is read right without it.

use crate::dirhash::{DirHash, DropReason, Pool};
use crate::sync::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};

/// Memory of a directory.
#[derive(Debug, Default)]
pub(crate) struct DirState {
    /// Where the last successful lookup ended (`i_diroff`), bytes.
    pub(crate) diroff: AtomicU32,
    /// Something malformed was met.
    pub(crate) malformed: AtomicBool,
    /// An index cannot stand for it: something is malformed or missing, or two records have one name.
    pub(crate) unhashable: AtomicBool,
    /// /// The last lookup missed the name cache and searched the directory.
    pub(crate) cache_missed: AtomicBool,
    hash: OnceLock<DirHash>,
    moves: Mutex<Option<Box<MoveLog>>>,
}

/// A record that a compaction kept; offsets in its chunk, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moved {
    /// Where it was.
    pub(crate) from: u16,
    /// Where it is.
    pub(crate) to: u16,
    /// Where it ends now.
    pub(crate) end: u16,
}

/// The last compactions of a directory.
#[derive(Debug, Default)]
struct MoveLog {
    /// Compactions so far.
    compactions: u32,
    /// The latest ones, oldest first.
    recent: VecDeque<Compaction>,
}

/// One compaction of a region of a chunk.
#[derive(Debug)]
struct Compaction {
    /// How many compactions there were with this one.
    compactions: u32,
    chunk: u32,
    region: Range<u16>,
    /// All live records of the region, in order.
    kept: Vec<Moved>,
}

impl DirState {
    /// /// The slot for the directory's index, created on first use.
    pub(crate) fn hash(&self, pool: &Arc<Pool>) -> &DirHash {
        self.hash.get_or_init(|| DirHash::new(pool))
    }

    /// The place of the directory's index, if it ever had one.
    pub(crate) fn index(&self) -> Option<&DirHash> {
        self.hash.get()
    }

    /// Whether it keeps no memory beyond its own.
    pub(crate) fn is_bare(&self) -> bool {
        self.hash.get().is_none() && self.moves.try_lock().is_some_and(|log| log.is_none())
    }

    /// Frees the directory's index.
    pub(crate) fn drop_index(&self) {
        if let Some(hash) = self.hash.get().filter(|h| h.read_index().is_some()) {
            hash.drop_index(DropReason::Unwanted);
        }
    }

    /// Compactions that positions of a listing can be older by.
    pub(crate) const MOVES_KEPT: usize = 128;

    /// Notes that the records of `region` of the chunk at `chunk` were slid together.
    pub(crate) fn log_moves(&self, chunk: u32, region: Range<u16>, kept: Vec<Moved>) {
        let mut log = self.moves.lock();
        let log = log.get_or_insert_default();
        // Positions have 31 bits for the number.
        log.compactions = (log.compactions + 1) & 0x7fff_ffff;
        if log.recent.len() == Self::MOVES_KEPT {
            log.recent.pop_front();
        }
        log.recent.push_back(Compaction { compactions: log.compactions, chunk, region, kept });
    }

    /// Compactions so far.
    pub(crate) fn compactions(&self) -> u32 {
        self.moves.lock().as_ref().map_or(0, |log| log.compactions)
    }

    /// Where the position `off`, noted after `since` compactions, is now: what was before it is
    /// before it still.
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
