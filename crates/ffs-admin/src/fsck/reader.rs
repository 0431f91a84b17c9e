//! Phase 2's way to the blocks of directories: few reads, no copies of inodes.
//!
//! **Purpose.** Most directories have one block, and those of neighbours lie close together. They are read many
//! at a time, and their inodes, which phase 1 has seen, are not read again.
//!
//! **Invariants.**
//! 1. What is handed out is what the store would read at that moment: a batch that a repair has overtaken, or a part
//!    of which cannot be read, is not used.

use ffs_ondisk::FragNo;
use ffs_ondisk::geometry::DIRBLKSIZ;

use super::Checker;
use super::dirio::DirBlock;
use super::judge::Res;
use super::tables::Dir;

/// Most bytes read at a time.
const BATCH: u64 = 128 << 10;
/// Bytes that are read although nobody asked for them, between two directories.
const GAP: u64 = 16 << 10;

/// Directory blocks read ahead.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// First fragment.
    from: u64,
    bytes: Vec<u8>,
    /// The store's revision when they were read; `None`: they are not usable.
    revision: Option<u64>,
    /// How much to read next: little while repairs overtake what is read ahead.
    limit: u64,
}

impl Checker<'_> {
    /// Reads the first of the directories in `order`, and those that lie close behind it, together.
    pub(super) fn read_ahead(&mut self, batch: &mut Batch, order: &[u32]) {
        let overtaken = batch.revision.take().is_some_and(|r| r != self.store.revision());
        batch.limit = if overtaken { 0 } else { (2 * batch.limit).clamp(GAP, BATCH) };
        let dirs = self.dirs.all();
        let mut firsts = order.iter().filter_map(|&i| Some(dirs.get(i as usize)?.first)).peekable();
        let Some(&from) = firsts.peek() else { return };
        let (fsize, block) = (u64::from(self.g.fsize), u64::from(self.g.frag));
        let mut end = from;
        for first in firsts {
            // Blocks of more than this directory would only be read for others.
            if (first + block - from) * fsize > batch.limit || first > end + GAP / fsize {
                break;
            }
            end = first + 1;
        }
        if end <= from + 1 || end > self.g.size {
            return;
        }
        batch.bytes.resize(((end - from) * fsize) as usize, 0);
        if self.store.read_whole(FragNo(from), &mut batch.bytes) {
            (batch.from, batch.revision) = (from, Some(self.store.revision()));
        }
    }

    /// Whether the directory that begins at fragment `first` was read ahead.
    pub(super) fn is_ahead(&self, batch: &Batch, first: u64) -> bool {
        let frags = batch.bytes.len() as u64 / u64::from(self.g.fsize);
        batch.revision == Some(self.store.revision())
            && (batch.from..batch.from + frags).contains(&first)
    }

    /// The blocks of directory `dir`, without a look at its inode if the table has all that is needed.
    pub(super) fn blocks_of_directory(&mut self, dir: &Dir) -> Res<Vec<DirBlock>> {
        // A size that was repaired a moment ago is in the inode.
        if dir.size <= self.g.bsize
            && (dir.size as usize).is_multiple_of(DIRBLKSIZ)
            && self.g.run_problem(FragNo(dir.first), self.g.numfrags_up(dir.size.into())).is_none()
        {
            return Ok(vec![DirBlock { at: FragNo(dir.first), len: dir.size as usize, offset: 0 }]);
        }
        let mut node = self.node(dir.ino)?;
        self.dir_blocks(&mut node)
    }

    /// Fills `buf` with the bytes of a block of a directory that are below the directory's size.
    pub(super) fn fill_dir_block(
        &mut self,
        batch: &Batch,
        block: &DirBlock,
        buf: &mut Vec<u8>,
    ) -> Res<()> {
        if self.is_ahead(batch, block.at.0) {
            let at = (block.at.0 - batch.from) as usize * self.g.fsize as usize;
            if let Some(bytes) = batch.bytes.get(at..at + block.len) {
                buf.clear();
                buf.extend_from_slice(bytes);
                return Ok(());
            }
        }
        buf.resize(block.len, 0);
        self.store.read_into(block.at, buf)
    }
}
