//! What the directory code remembers of a directory while it is in memory. All of it are hints: it
//! starts empty, and the directory is read right without it.

use crate::sync::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Memory of a directory.
#[derive(Debug, Default)]
pub(crate) struct DirState {
    /// Where the last successful lookup ended (`i_diroff`), bytes.
    pub(crate) diroff: AtomicU32,
    /// Something malformed was met.
    pub(crate) malformed: AtomicBool,
    /// All chunks before it were walked to their ends and found sound, bytes.
    pub(crate) sound_to: AtomicU32,
    room: [AtomicU32; Self::ROOM_CLASSES],
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
    epoch: u32,
    /// The latest ones, oldest first.
    recent: VecDeque<Compaction>,
}

/// One compaction of a region of a chunk.
#[derive(Debug)]
struct Compaction {
    /// How many compactions there were with this one.
    epoch: u32,
    chunk: u32,
    region: Range<u16>,
    /// All live records of the region, in order.
    kept: Vec<Moved>,
}

impl DirState {
    /// Sizes of records that are told apart in what is known of room.
    const ROOM_CLASSES: usize = 16;
    /// Bytes of the smallest record, and between one class and the next.
    const LEAST_RECORD: usize = 12;
    const CLASS_STEP: usize = 4;

    fn room_class(need: usize) -> usize {
        let class = need.saturating_sub(Self::LEAST_RECORD) / Self::CLASS_STEP;
        class.min(Self::ROOM_CLASSES - 1)
    }

    /// Bytes of slack that a chunk must have in all to be remembered as one with room for `need`.
    pub(crate) fn room_wanted(need: usize) -> usize {
        Self::LEAST_RECORD + Self::room_class(need) * Self::CLASS_STEP
    }

    /// No chunk before this offset has [`DirState::room_wanted`] bytes of slack.
    pub(crate) fn no_room_before(&self, need: usize) -> u32 {
        self.room.get(Self::room_class(need)).map_or(0, |r| r.load(Ordering::Relaxed))
    }

    /// Notes what a search of the whole directory found out about [`DirState::no_room_before`].
    pub(crate) fn set_no_room_before(&self, need: usize, at: u32) {
        if let Some(r) = self.room.get(Self::room_class(need)) {
            r.store(at, Ordering::Relaxed);
        }
    }

    /// The chunk at `at` was changed or is new: it may have room now.
    pub(crate) fn chunk_changed(&self, at: u32) {
        for r in &self.room {
            r.fetch_min(at, Ordering::Relaxed);
        }
    }

    /// Compactions that positions of a listing can be older by.
    pub(crate) const MOVES_KEPT: usize = 128;

    /// Notes that the records of `region` of the chunk at `chunk` were slid together.
    pub(crate) fn log_moves(&self, chunk: u32, region: Range<u16>, kept: Vec<Moved>) {
        let mut log = self.moves.lock();
        let log = log.get_or_insert_default();
        // Positions have 31 bits for the number.
        log.epoch = (log.epoch + 1) & 0x7fff_ffff;
        if log.recent.len() == Self::MOVES_KEPT {
            log.recent.pop_front();
        }
        log.recent.push_back(Compaction { epoch: log.epoch, chunk, region, kept });
    }

    /// Compactions so far.
    pub(crate) fn epoch(&self) -> u32 {
        self.moves.lock().as_ref().map_or(0, |log| log.epoch)
    }

    /// Where the position `off`, noted after `since` compactions, is now: what was before it is
    /// before it still.
    pub(crate) fn translate(&self, since: u32, mut off: u32) -> u32 {
        let log = self.moves.lock();
        let Some(log) = log.as_ref() else { return off };
        for c in log.recent.iter().filter(|c| c.epoch > since) {
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
