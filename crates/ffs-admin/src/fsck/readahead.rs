//! Phase 2: reads of directories, ahead and in large units.
//!
//! **Purpose.** Most directories have one block, and directories that phase 2 reads in sequence are
//! close together on disk. One read fetches many of them, and threads make the reads ahead. The
//! inodes of the directories, which phase 1 has read, are not read again.
//!
//! **Invariants.**
//! 1. The bytes returned equal those that a read at that moment would return.
//! 2. A piece has at most [`RUNS`] runs and about [`BATCH`] bytes, so memory is bounded.

use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{FragNo, Geometry};

use super::buffered::{Read, Reader};
use super::checker::Checker;
use super::directory::DataBlock;
use super::inoinfo::InoInfo;
use super::resolve::Res;

/// Limit on the bytes of one read, and of all reads of a piece.
const BATCH: u64 = 128 << 10;
/// Limit on the gap between two directories that one read covers, bytes.
const GAP: u64 = 16 << 10;
/// Limit on the reads of a piece.
const RUNS: usize = 64;

/// Directories that one read covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct DirRun {
    /// First fragment.
    from: u64,
    /// Bytes; 0 if they are not read ahead.
    len: u32,
    /// Number of directories.
    pub(super) dirs: u32,
}

/// The reads of all directories in order, in pieces for threads.
pub(super) struct DirRuns {
    runs: Vec<DirRun>,
    /// The first run of each piece.
    pieces: Vec<u32>,
}

/// The content of one piece.
#[derive(Default)]
pub(super) struct DirsRead {
    /// The bytes of all runs, one after the other.
    bytes: Vec<u8>,
    reads: Vec<Read>,
}

impl DirRuns {
    /// The reads of the directories `dirs`, which are in the order of their first blocks.
    pub(super) fn new<'a>(g: &Geometry, dirs: impl Iterator<Item = &'a InoInfo>) -> DirRuns {
        let (fsize, gap) = (u64::from(g.fsize), GAP / u64::from(g.fsize));
        let mut plan = DirRuns { runs: Vec::new(), pieces: Vec::new() };
        let (mut first, mut bytes) = (0, u64::MAX);
        for dir in dirs {
            let len = u64::from(dir.size.min(g.bsize));
            let valid = g.run_problem(FragNo(dir.first), g.numfrags_up(len)).is_none();
            let len = if valid { len } else { 0 };
            if let Some(run) = plan.runs.last_mut().filter(|run| run.len > 0 && len > 0) {
                let read = run.from + u64::from(run.len).div_ceil(fsize);
                let all = dir.first.saturating_sub(run.from).saturating_mul(fsize) + len;
                if dir.first >= run.from && dir.first <= read + gap && all <= BATCH {
                    let longer = u64::from(run.len).max(all);
                    bytes += longer - u64::from(run.len);
                    run.len = longer as u32;
                    run.dirs += 1;
                    continue;
                }
            }
            if plan.runs.len() - first >= RUNS || bytes.saturating_add(len) > BATCH {
                (first, bytes) = (plan.runs.len(), 0);
                plan.pieces.push(first as u32);
            }
            bytes += len;
            plan.runs.push(DirRun { from: dir.first, len: len as u32, dirs: 1 });
        }
        plan
    }

    /// Number of pieces.
    pub(super) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// The runs of a piece.
    pub(super) fn of(&self, piece: usize) -> &[DirRun] {
        let start = |piece: usize| self.pieces.get(piece).map_or(self.runs.len(), |&n| n as usize);
        self.runs.get(start(piece)..start(piece + 1)).unwrap_or(&[])
    }

    /// Reads a piece.
    pub(super) fn read(&self, piece: usize, reader: &Reader, into: &mut DirsRead) {
        let runs = self.of(piece);
        into.reads.clear();
        into.bytes.resize(runs.iter().map(|run| run.len as usize).sum(), 0);
        let mut rest = into.bytes.as_mut_slice();
        for run in runs {
            let (bytes, others) = rest.split_at_mut(run.len as usize);
            into.reads.push(reader.read(FragNo(run.from), bytes));
            rest = others;
        }
    }
}

/// Directory blocks read ahead: those of the current run.
#[derive(Default)]
pub(super) struct ReadAhead {
    piece: DirsRead,
    run: usize,
    /// First fragment of the run.
    from: u64,
    /// Its bytes in the piece.
    start: usize,
    len: usize,
}

impl ReadAhead {
    /// Takes over a piece, or gives it back.
    pub(super) fn swap(&mut self, piece: &mut DirsRead) {
        std::mem::swap(&mut self.piece, piece);
        (self.run, self.start, self.len) = (0, 0, 0);
    }

    /// Goes on to `run`, which is the next one of the piece if this is not the first call.
    pub(super) fn go_to(&mut self, index: usize, run: DirRun) {
        self.start += self.len;
        (self.run, self.from, self.len) = (index, run.from, run.len as usize);
    }

    /// `len` bytes from fragment `at` on, if they were read ahead.
    fn get(&self, fsize: u32, at: FragNo, len: usize) -> Option<(&[u8], Read)> {
        let skip = (at.0.checked_sub(self.from)?).checked_mul(fsize.into())?;
        let skip = usize::try_from(skip).ok().filter(|&skip| skip < self.len)?;
        let run = self.piece.bytes.get(self.start..self.start + self.len)?;
        let read = *self.piece.reads.get(self.run)?;
        Some((run.get(skip..skip.checked_add(len)?)?, read))
    }
}

impl Checker<'_> {
    /// The blocks of directory `dir`. Its inode is read only if the table does not suffice.
    pub(super) fn blocks_of_directory(&mut self, dir: &InoInfo) -> Res<Vec<DataBlock>> {
        // A size that has just been repaired is current only in the inode.
        if dir.size <= self.g.bsize
            && (dir.size as usize).is_multiple_of(DIRBLKSIZ)
            && self.g.run_problem(FragNo(dir.first), self.g.numfrags_up(dir.size.into())).is_none()
        {
            return Ok(vec![DataBlock {
                at: FragNo(dir.first),
                len: dir.size as usize,
                offset: 0,
            }]);
        }
        let mut node = self.read_inode(dir.ino)?;
        self.dir_blocks(&mut node)
    }

    /// Fills `buf` with the bytes of a block that are below the directory's size.
    pub(super) fn fill_dir_block(
        &mut self,
        batch: &ReadAhead,
        block: &DataBlock,
        buf: &mut Vec<u8>,
    ) -> Res<()> {
        buf.clear();
        match batch.get(self.g.fsize, block.at, block.len) {
            Some((bytes, read)) => {
                buf.extend_from_slice(bytes);
                self.disk.complete(block.at, buf, read)
            }
            None => {
                buf.resize(block.len, 0);
                self.disk.read_into(block.at, buf)
            }
        }
    }
}
