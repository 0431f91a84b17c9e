//! Phase 2: reads of directories in large units.
//!
//! **Purpose.** Most directories have one block, and directories that phase 2 reads in sequence are
//! close together on disk. One read fetches many of them. Their inodes, which phase 1 has read, are
//! not read again.
//!
//! **Invariants.**
//! 1. The bytes returned equal those that a read at that moment would return. Data that was read
//!    before a repair, or of which a part cannot be read, is not used.

use ffs_ondisk::FragNo;
use ffs_ondisk::geometry::DIRBLKSIZ;

use super::checker::Checker;
use super::directory::DataBlock;
use super::inoinfo::InoInfo;
use super::resolve::Res;

/// Limit on the bytes of one read.
const BATCH: u64 = 128 << 10;
/// Limit on the gap between two directories that one read covers, bytes.
const GAP: u64 = 16 << 10;

/// Directory blocks read ahead.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// First fragment.
    from: u64,
    bytes: Vec<u8>,
    /// Revision of the buffered device at the time of the read; `None`: the data is not usable.
    revision: Option<u64>,
    /// Limit on the next read, bytes; small while repairs make read-ahead useless.
    limit: u64,
}

impl Checker<'_> {
    /// Reads the first of the directories in `order`, together with those that follow it closely.
    pub(super) fn read_ahead(&mut self, batch: &mut ReadAhead, order: &[u32]) {
        let overtaken = batch.revision.take().is_some_and(|r| r != self.disk.revision());
        batch.limit = if overtaken { 0 } else { (2 * batch.limit).clamp(GAP, BATCH) };
        let dirs = self.dirs.all();
        let mut firsts = order.iter().filter_map(|&i| Some(dirs.get(i as usize)?.first)).peekable();
        let Some(&from) = firsts.peek() else { return };
        let (fsize, block) = (u64::from(self.g.fsize), u64::from(self.g.frag));
        let mut end = from;
        for first in firsts {
            // A second block of this directory would serve other directories only.
            if (first + block - from) * fsize > batch.limit || first > end + GAP / fsize {
                break;
            }
            end = first + 1;
        }
        if end <= from + 1 || end > self.g.size {
            return;
        }
        batch.bytes.resize(((end - from) * fsize) as usize, 0);
        if self.disk.try_read_into(FragNo(from), &mut batch.bytes) {
            (batch.from, batch.revision) = (from, Some(self.disk.revision()));
        }
    }

    /// Whether the directory that begins at fragment `first` was read ahead.
    pub(super) fn is_read_ahead(&self, batch: &ReadAhead, first: u64) -> bool {
        let frags = batch.bytes.len() as u64 / u64::from(self.g.fsize);
        batch.revision == Some(self.disk.revision())
            && (batch.from..batch.from + frags).contains(&first)
    }

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
        if self.is_read_ahead(batch, block.at.0) {
            let at = (block.at.0 - batch.from) as usize * self.g.fsize as usize;
            if let Some(bytes) = batch.bytes.get(at..at + block.len) {
                buf.clear();
                buf.extend_from_slice(bytes);
                return Ok(());
            }
        }
        buf.resize(block.len, 0);
        self.disk.read_into(block.at, buf)
    }
}
