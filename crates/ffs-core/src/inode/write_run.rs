//! Writing runs of whole blocks past the cache (`vfs.ffs.write_in_place`).
//!
//! The content of a large write passes from its source to the device, without a copy in buffers.
//! The blocks have buffers while they are written, because the ordering modes know blocks by their
//! buffers; these buffers are dropped afterwards.
//!
//! A file that grows on a fragmented volume is written through the cache: its clusters may have to
//! move ([`super::realloc`]), which needs their content.
//!
//! # Invariants
//! 1. The buffer of a new block whose content is on the device only is never marked dirty, so that
//!    its arbitrary bytes reach neither the device nor a reader. The lock of the inode keeps
//!    readers away until the buffer is dropped or filled.
//! 2. The ordering mode gets the same calls for each block as for a write of its buffer.
//! 3. Content that the device does not take goes into the buffers, which are then dirty: it is
//!    written later, and a failure is reported by the next `fsync`, as for every delayed write.

use super::read::DIRECT_BYTES;
use super::write::Stopped;
use super::{BufFill, Granted, LockedInode};
use crate::alloc::Reserve;
use crate::buf::{BufKind, Disposition, NotPut};
use crate::counters::add;
use crate::error::{Error, Result};
use crate::source::{WriteSource, unreadable};
use crate::tunables::WriteInPlace;
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::{FragNo, Geometry, Lbn};

/// Most blocks of a run. Each needs a buffer, and the cache keeps as many spare ones.
const MAX_BLOCKS: usize = 64;

/// A block of a run, allocated but not written.
struct RunBlock {
    lbn: Lbn,
    at: FragNo,
    granted: Granted,
}

/// What is at hand of the content of blocks, besides what the source has.
enum AtHand {
    Nothing,
    /// The first bytes.
    Bytes(Vec<u8>),
    /// The buffers of the first blocks have their content.
    InBuffers(usize),
}

impl AtHand {
    /// The first bytes of block `k`, counted from 0, of `bsize` bytes. `None` if its buffer has its
    /// content.
    fn of_block(&self, k: usize, bsize: usize) -> Option<&[u8]> {
        match self {
            AtHand::Nothing => Some(&[]),
            AtHand::Bytes(bytes) => {
                let rest = bytes.get(k * bsize..).unwrap_or(&[]);
                Some(rest.get(..bsize).unwrap_or(rest))
            }
            AtHand::InBuffers(n) => (k >= *n).then_some(&[]),
        }
    }
}

/// The index of the pointer to `lbn` in the inode or in its indirect block, and the number of
/// pointers from there to the end of the inode's or of the indirect block.
fn place_in_map(g: &Geometry, lbn: Lbn) -> (u64, u64) {
    let (index, pointers) = match lbn.0.checked_sub(NDADDR as u64) {
        None => (lbn.0, NDADDR as u64),
        Some(beyond) => (beyond % u64::from(g.nindir), u64::from(g.nindir)),
    };
    (index, pointers - index)
}

impl<'a> LockedInode<'a> {
    /// How many whole blocks at byte `pos`, of a write of `len` bytes there, to write by
    /// [`LockedInode::write_run`]; 0 if the next block has to go through the cache.
    pub(super) fn blocks_past_cache(&self, pos: u64, len: usize) -> usize {
        let g = self.g();
        let blocks = len / g.bsize as usize;
        let whole = g.blkoff(pos) == 0 && self.data.buf_kind() == BufKind::Data;
        if !whole || !self.is_put(blocks) {
            return 0;
        }
        // The cache copies for a snapshot with few flushes; each run would need its own.
        if self.ump.snapshots.is_active() && pos < self.data.d.size {
            return 0;
        }
        // The first block of an indirect block is elsewhere, and its cluster is another one.
        let (_, left) = place_in_map(g, g.lblkno(pos));
        blocks.min(MAX_BLOCKS).min(usize::try_from(left).unwrap_or(MAX_BLOCKS))
    }

    /// Whether the switch lets a run of `blocks` blocks pass the cache.
    fn is_put(&self, blocks: usize) -> bool {
        let bytes = blocks as u64 * u64::from(self.g().bsize);
        match self.ump.tunables.write_in_place() {
            WriteInPlace::Off => false,
            WriteInPlace::File => {
                bytes >= DIRECT_BYTES && self.ump.cache.dev.host_range(0, 1).is_some()
            }
            WriteInPlace::Always => bytes > 0,
        }
    }

    /// Writes at most `blocks` whole blocks from `first` on, at least one. Returns the number of
    /// bytes written, and the error that ended the call.
    pub(super) fn write_run(
        &mut self,
        first: Lbn,
        blocks: usize,
        source: &mut dyn WriteSource,
        reserve: Reserve,
    ) -> (usize, Option<Stopped>) {
        let (mut run, in_place, stopped) = self.allocate_run(first, blocks, reserve);
        let bsize = self.g().bsize as usize;
        let last = run.last().map_or(first, |last| last.lbn);
        let (mut done, at_hand, mut failed) =
            match self.put_blocks(&mut run, in_place, last, source) {
                Ok(put) => (put, AtHand::Nothing, None),
                Err(NotPut::Returned(bytes)) => (0, AtHand::Bytes(bytes), None),
                Err(NotPut::InBuffers) => (0, AtHand::InBuffers(in_place), None),
                Err(NotPut::Unreadable(error)) => (0, AtHand::Nothing, Some(error)),
            };
        for (k, block) in run.iter().enumerate() {
            if failed.is_some() {
                self.abandon_block(block);
                continue;
            }
            match self.fill_block(block, at_hand.of_block(k, bsize), source) {
                Ok(()) => {
                    done += 1;
                    self.cluster_written((block.lbn, block.at), last);
                }
                Err(error) => failed = Some(error),
            }
        }
        let failed = failed.map(|error| Stopped { error, amid_blocks: true });
        (done * bsize, failed.or(stopped.map(Stopped::between_blocks)))
    }

    /// Allocates the blocks of a run, up to the first that does not follow the one before on the
    /// device. Returns them, how many of the first go to the device at once, and the error that
    /// ended the run.
    fn allocate_run(
        &mut self,
        first: Lbn,
        blocks: usize,
        reserve: Reserve,
    ) -> (Vec<RunBlock>, usize, Option<Error>) {
        let g = self.g();
        let grows = g.lblktosize(first.plus(blocks as u64)) > self.data.d.size;
        let mut run: Vec<RunBlock> = Vec::with_capacity(blocks);
        let begins_map = place_in_map(g, first).0 == 0;
        let mut before = self.cluster_before(first).filter(|_| grows && !begins_map);
        for lbn in (0..blocks as u64).map(|k| first.plus(k)) {
            let granted = match self.balloc(lbn, g.bsize, BufFill::Arbitrary, reserve) {
                Ok(granted) => granted,
                Err(e) => {
                    let in_place = run.len();
                    return (run, in_place, Some(e));
                }
            };
            let at = granted.buf.read().addr;
            let follows = before.is_none_or(|before| at == before.plus(g.frag.into()));
            let delay = granted.then == Disposition::Delay;
            run.push(RunBlock { lbn, at, granted });
            if !follows || !delay {
                let in_place = if grows { 0 } else { run.len() - 1 };
                return (run, in_place, None);
            }
            before = Some(at);
        }
        let in_place = run.len();
        (run, in_place, None)
    }

    /// Writes the content of the first `n` blocks of `run`, which follow each other on the device,
    /// from `source` to the device. Removes those that were written from `run` and their buffers
    /// from the cache, and returns how many they were. `last` is the last allocated block.
    ///
    /// # Errors
    /// Where the content is that the device did not take. No block was removed from `run`.
    fn put_blocks(
        &mut self,
        run: &mut Vec<RunBlock>,
        n: usize,
        last: Lbn,
        source: &mut dyn WriteSource,
    ) -> std::result::Result<usize, NotPut> {
        if !self.is_put(n) {
            return Ok(0);
        }
        let blocks = run.get(..n).unwrap_or(&[]);
        let bufs: Vec<_> = blocks.iter().map(|block| &*block.granted.buf).collect();
        let put = self.ump.cache.write_in_place(&bufs, source)?;
        add(&self.ump.cache.counters.blocks_in_place, put as u64);
        // Without the references, so that the cache gets the memory of the buffers back.
        let written: Vec<_> = run.drain(..put).map(|block| (block.lbn, block.at)).collect();
        if let (Some((first, _)), Some((last, _))) = (written.first(), written.last()) {
            let block = |lbn: &Lbn| i64::try_from(lbn.0).unwrap_or(i64::MAX);
            self.ump.cache.invalidate_range(self.ip.ino, block(first)..=block(last));
        }
        for at in written {
            self.cluster_written(at, last);
        }
        Ok(put)
    }

    /// Writes the content of a block into its buffer: `first`, then what `source` has. With `None`
    /// the buffer has the content already.
    fn fill_block(
        &self,
        block: &RunBlock,
        first: Option<&[u8]>,
        source: &mut dyn WriteSource,
    ) -> Result<()> {
        if let Some(first) = first {
            let mut data = block.granted.buf.write();
            let (before, after) = data.bytes.split_at_mut(first.len());
            before.copy_from_slice(first);
            let (length, taken) = (after.len(), source.take(after));
            drop(data);
            if let Err(e) = taken {
                self.abandon_block(block);
                return Err(unreadable(length, e));
            }
        }
        self.ump.cache.apply(&block.granted.buf, block.granted.then)
    }

    /// Gives up a block whose content does not come. A new one gets zeros; another one keeps its
    /// content, of which a part may be overwritten.
    fn abandon_block(&self, block: &RunBlock) {
        let buf = &block.granted.buf;
        if block.granted.new {
            buf.write().bytes.fill(0);
            self.ump.cache.mark_dirty(buf);
        } else if !buf.is_dirty() {
            self.ump.cache.invalidate(buf.key);
        }
    }
}
