//! Raw directory records.
//!
//! A removed name leaves its bytes in the directory. The first record of a chunk keeps its place
//! and gets inode number 0. Any other record becomes part of the slack of the one before it, with
//! its number and its name.
//!
//! **Invariants.**
//! 1. A stale record is reported only if it would be a valid one: its length, type and name.
//! 2. No byte is part of two live or free records. Stale records lie within the slack of one.

use ffs_ondisk::dir::{self, DirFormat, HEADER, dirsiz};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::wire::get;
use ffs_ondisk::{DirOff, FragNo};

use super::{BlockKind, Inspector, RawInode};
use crate::AdminError;

/// The state of a directory record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordState {
    /// A name.
    Live,
    /// Free space, without a name.
    Free,
    /// The bytes of a removed name.
    Stale,
    /// The rest of a chunk in which no record can be read.
    Bad,
}

/// A directory record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecord {
    /// Its byte in the directory.
    pub off: DirOff,
    /// The fragment with its chunk.
    pub frag: FragNo,
    /// Its state.
    pub state: RecordState,
    /// The inode number; 0 if a removed name has lost it.
    pub ino: u32,
    /// Its length, bytes.
    pub reclen: usize,
    /// The type as stored.
    pub dtype: u8,
    /// The name.
    pub name: Vec<u8>,
    /// The rule that a bad one breaks.
    pub problem: Option<String>,
}

impl Inspector<'_> {
    /// Calls `each` with the records of directory `dir`, in order; of each chunk first the records
    /// with their slack behind them. Holes and bad pointers are passed over.
    ///
    /// # Errors
    /// The device's; what `each` returns.
    pub fn records<E: From<AdminError>>(
        &self,
        dir: &RawInode,
        each: impl FnMut(RawRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left = self.vol.geo.size;
        self.records_within(dir, &mut left, each)
    }

    /// As [`Inspector::records`], until `left` fragments have been visited.
    pub(super) fn records_within<E: From<AdminError>>(
        &self,
        dir: &RawInode,
        left: &mut u64,
        mut each: impl FnMut(RawRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let g = &self.vol.geo;
        let fmt = DirFormat::of(g);
        let size = dir.dinode.size.min(ffs_ondisk::dinode::MAXDIRSIZE);
        self.blocks_within(&dir.dinode, left, |block| {
            let start = g.lblktosize(block.lbn);
            if block.kind != BlockKind::Data || block.problem.is_some() || start >= size {
                return Ok(true);
            }
            let len = (size - start).min(u64::from(block.frags) * u64::from(g.fsize)) as usize;
            let mut bytes = vec![0; len];
            self.vol.read(block.at, &mut bytes)?;
            for (n, chunk) in bytes.chunks_exact(DIRBLKSIZ).enumerate() {
                let at = n * DIRBLKSIZ;
                let frag = block.at.plus(at as u64 / u64::from(g.fsize));
                let first = start as u32 + at as u32;
                for record in chunk_records(fmt, chunk) {
                    each(RawRecord { off: DirOff(first + record.off.0), frag, ..record })?;
                }
            }
            Ok(true)
        })
    }
}

/// The records of a chunk; their offsets are those in the chunk.
pub(super) fn chunk_records(fmt: DirFormat, chunk: &[u8]) -> Vec<RawRecord> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < chunk.len() {
        let found = match dir::read(fmt, chunk, at) {
            Ok(found) => found,
            Err(problem) => {
                let state = RecordState::Bad;
                let bad = record(at, state, chunk.len() - at);
                records.push(RawRecord { problem: Some(problem.to_string()), ..bad });
                break;
            }
        };
        let used = if found.ino == 0 { 0 } else { dirsiz(found.name.len()) };
        let state = if found.ino == 0 { RecordState::Free } else { RecordState::Live };
        let (ino, dtype) = (found.ino, found.dtype);
        let name = found.name.to_vec();
        records.push(RawRecord { ino, dtype, name, ..record(at, state, found.reclen) });
        stale_records(fmt, chunk, at + used..at + found.reclen, &mut records);
        at += found.reclen;
    }
    records
}

/// The records of removed names in the bytes `slack` of a chunk.
fn stale_records(
    fmt: DirFormat,
    chunk: &[u8],
    slack: std::ops::Range<usize>,
    records: &mut Vec<RawRecord>,
) {
    let mut at = slack.start;
    while at + HEADER < slack.end {
        match stale(fmt, chunk, at, slack.end) {
            Some(found) => {
                // Behind it, its own slack may hold an older one.
                at += dirsiz(found.name.len());
                records.push(found);
            }
            None => at += 4,
        }
    }
}

/// The removed name at byte `at` of a chunk, if its bytes are those of a record before `end`.
fn stale(fmt: DirFormat, chunk: &[u8], at: usize, end: usize) -> Option<RawRecord> {
    let mut copy = chunk.get(at..end)?.to_vec();
    let (ino, reclen): (u32, u16) = (get(&copy, 0, fmt.endian), get(&copy, 4, fmt.endian));
    let reclen = usize::from(reclen);
    if reclen > chunk.len() - at {
        return None;
    }
    // A removed first record has lost its number: any number shows whether the rest is valid. The
    // record may have reached beyond what is slack now.
    dir::set_ino(fmt, &mut copy, 0, ino.max(1));
    dir::set_reclen(fmt, &mut copy, 0, reclen.min(end - at));
    let found = dir::read(fmt, &copy, 0).ok()?;
    let is_dot = found.name == b"." || found.name == b"..";
    let fits = dirsiz(found.name.len()) <= reclen && !is_dot;
    let name = found.name.to_vec();
    let (dtype, state) = (found.dtype, RecordState::Stale);
    fits.then(|| RawRecord { ino, dtype, name, ..record(at, state, reclen) })
}

fn record(at: usize, state: RecordState, reclen: usize) -> RawRecord {
    RawRecord {
        off: DirOff(at as u32),
        frag: FragNo(0),
        state,
        ino: 0,
        reclen,
        dtype: 0,
        name: Vec::new(),
        problem: None,
    }
}
