//! A journal of metadata in front of the simulated disk, as JBD under ext3 in Linux 2.4.
//!
//! The file system runs without an order of its own (`async`). Blocks that it writes join the
//! running transaction, or go to their place, according to [`DataMode`]. A commit writes
//! descriptors and blocks one after the other into an area in front of the volume, and then the
//! commit block. A checkpoint writes the logged blocks in place later.
//!
//! | number | value | source |
//! | --- | --- | --- |
//! | size | 8192 blocks of 4096 bytes | `figure_journal_size` of mke2fs in 2002 |
//! | commit | every 5 s | `j_commit_interval` in `fs/jbd/journal.c` |
//! | largest transaction | a quarter of the area | `j_max_transaction_buffers`, same file |
//! | checkpoint | 30 s after the commit | `age_buffer` in `fs/buffer.c` |
//! | full area | all that waits is written | `log_do_checkpoint` in `fs/jbd/checkpoint.c` |
//!
//! # Invariants
//! 1. A commit block is written after all blocks of its transaction. With `ordered`, these are
//!    written after the data that was written before the commit began.
//! 2. A block is written in place after the commit block of its last transaction.
//! 3. After a commit the area has space for a largest transaction. If it has not, all blocks that
//!    wait are written in place, and the next operation waits for that.
//! 4. A block that waits is in memory: reading it takes no time of the disk.
//! 5. Only time is modelled. Contents change at once ([`super::disk`]).
//!
//! Reference: `docs/lab/postmark.md`.

mod log;
#[cfg(test)]
mod tests;

use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ffs_device::{BlockDevice, DeviceError, Durability};

use super::Machine;
use super::disk::{SimDisk, Wait};
use super::geometry::{Extent, SECTOR};
use log::{Block, BlockMap, LOG_BLOCK, Log, Placed};

/// The size that mke2fs gave the journal of a volume of a gigabyte or more, bytes.
pub(crate) const JOURNAL_BYTES: u64 = 8192 * LOG_BLOCK;
/// The least size that mke2fs accepts (`JFS_MIN_JOURNAL_BLOCKS`), and the most, bytes.
pub(crate) const JOURNAL_SIZES: std::ops::RangeInclusive<u64> =
    1024 * LOG_BLOCK..=102_400 * LOG_BLOCK;
/// Seconds between commits.
pub(crate) const COMMIT_SECONDS: u64 = 5;
/// Time after which a committed block is written in place.
const CHECKPOINT_AGE: Duration = Duration::from_secs(30);

/// What happens to the data of files: the mount option `data=` of ext3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataMode {
    /// Data is logged like metadata.
    Journal,
    /// Data is written in place before the transaction that refers to it commits.
    Ordered,
    /// Data is written in place at any time.
    Writeback,
}

/// The settings of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalSettings {
    pub(crate) mode: DataMode,
    /// Size of the area, bytes.
    pub(crate) bytes: u64,
    /// Seconds between commits.
    pub(crate) commit: u64,
}

impl JournalSettings {
    pub(crate) fn new(mode: DataMode) -> JournalSettings {
        JournalSettings { mode, bytes: JOURNAL_BYTES, commit: COMMIT_SECONDS }
    }
}

/// The totals of a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct JournalCounters {
    /// Transactions written.
    pub(crate) commits: u64,
    /// Blocks of the volume logged by them.
    pub(crate) logged: u64,
    /// Blocks of the journal written, with descriptors, commit blocks and superblocks.
    pub(crate) journal_blocks: u64,
    /// Blocks of the volume written in place from the journal.
    pub(crate) checkpointed: u64,
    /// Times that the area was full.
    pub(crate) full: u64,
}

#[derive(Debug)]
struct State {
    log: Log,
    /// The blocks of the running transaction, with those of the journal for their content.
    running: BlockMap<u64>,
    /// The sum of these.
    running_blocks: u64,
    /// The place in the journal of each block of the last transaction (`BJ_Shadow`).
    shadow: BlockMap<u64>,
    /// Whether the area was full since [`JournaledDisk::was_full`].
    full: bool,
    done: JournalCounters,
}

/// A disk with a journal.
#[derive(Debug)]
pub(crate) struct JournaledDisk {
    disk: SimDisk,
    machine: Arc<Machine>,
    settings: JournalSettings,
    /// The byte that all content of files consists of.
    content: u8,
    /// The first sector of the area on the machine's disk.
    area: u64,
    /// Blocks of the area, without the superblock of the journal, which is in front of them.
    size: u64,
    state: Mutex<State>,
}

impl JournaledDisk {
    /// `disk`, which begins at byte `offset` of the disk of `machine`, with a journal in front of
    /// it. Files contain `content` alone.
    ///
    /// # Errors
    /// There is no space in front of the volume.
    pub(crate) fn new(
        disk: SimDisk,
        machine: Arc<Machine>,
        settings: JournalSettings,
        content: u8,
        offset: u64,
    ) -> Result<JournaledDisk, String> {
        let bytes = settings.bytes;
        let area = offset.checked_sub(bytes).ok_or_else(|| {
            format!("the {bytes} bytes of the journal do not fit before the volume")
        })?;
        let size = bytes / LOG_BLOCK - 1;
        let state = State {
            log: Log::new(size),
            running: BlockMap::new(),
            running_blocks: 0,
            shadow: BlockMap::new(),
            full: false,
            done: JournalCounters::default(),
        };
        let (area, state) = (area / SECTOR, Mutex::new(state));
        Ok(JournaledDisk { disk, machine, settings, content, area, size, state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn settings(&self) -> JournalSettings {
        self.settings
    }

    #[cfg(test)]
    pub(crate) fn done(&self) -> JournalCounters {
        self.state().done
    }

    /// Whether the running transaction has blocks.
    pub(crate) fn has_changes(&self) -> bool {
        self.state().running_blocks > 0
    }

    /// Whether the running transaction has as many blocks as one may have.
    pub(crate) fn is_due(&self) -> bool {
        let state = self.state();
        Log::with_overhead(state.running_blocks) >= state.log.largest()
    }

    /// Whether the area was full since the last call. The next operation then waits.
    pub(crate) fn was_full(&self) -> bool {
        std::mem::take(&mut self.state().full)
    }

    /// Commits the running transaction. The caller has written to this device what belongs to it.
    pub(crate) fn commit(&self) {
        let mut state = self.state();
        let state = &mut *state;
        let blocks: Vec<Block> = state.running.iter().map(|(block, _)| block).collect();
        (state.running, state.running_blocks) = (BlockMap::new(), 0);
        if self.settings.mode == DataMode::Ordered || blocks.is_empty() {
            self.machine.barrier();
        }
        state.shadow = BlockMap::new();
        // A transaction that became too large is written as several.
        let mut rest = &blocks[..];
        while !rest.is_empty() {
            let mut logged = 0;
            let fits = |block: &&Block| {
                logged += block.logged();
                Log::with_overhead(logged) <= state.log.largest()
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (part, later) = rest.split_at(count);
            self.write_transaction(state, part);
            rest = later;
        }
    }

    /// Writes a transaction. Then makes space for another.
    fn write_transaction(&self, state: &mut State, blocks: &[Block]) {
        let Placed { body, commit } = state.log.append(blocks, self.machine.now());
        let mut at = commit;
        for block in blocks.iter().rev() {
            at -= block.logged();
            state.shadow.insert(*block, at);
        }
        let done = &mut state.done;
        done.commits += 1;
        done.logged += blocks.len() as u64;
        done.journal_blocks += commit + 1 - body.start;
        // At the end of the area it begins again.
        let turn = (body.start / self.size + 1) * self.size;
        for part in [body.start..body.end.min(turn), body.start.max(turn)..body.end] {
            if !part.is_empty() {
                self.machine.write(self.in_area(part.start, part.end - part.start), Wait::No);
            }
        }
        self.machine.barrier();
        self.machine.write(self.in_area(commit, 1), Wait::No);
        self.machine.barrier();
        self.make_space(state);
    }

    /// Makes space for a largest transaction.
    fn make_space(&self, state: &mut State) {
        if state.log.free() >= state.log.largest() {
            return;
        }
        if state.log.move_tail() {
            self.write_superblock(state);
        }
        if state.log.free() >= state.log.largest() {
            return;
        }
        state.done.full += 1;
        state.full = true;
        let blocks = state.log.all();
        self.write_in_place(state, &blocks);
        self.machine.barrier();
        state.log.move_tail();
        self.write_superblock(state);
    }

    /// Writes the committed blocks in place that are old enough, unless they change at present.
    pub(crate) fn checkpoint(&self) {
        let Some(limit) = self.machine.now().checked_sub(CHECKPOINT_AGE) else { return };
        let mut state = self.state();
        let mut due = state.log.due(limit);
        due.retain(|block| !state.running.touches(*block));
        self.write_in_place(&mut state, &due);
    }

    fn write_in_place(&self, state: &mut State, blocks: &[Block]) {
        for block in blocks {
            self.machine.write(self.disk.extent(block.offset, block.len), Wait::No);
            state.log.drop_block(*block);
        }
        state.done.checkpointed += blocks.len() as u64;
    }

    /// Writes the superblock of the journal, which has the position of the tail.
    fn write_superblock(&self, state: &mut State) {
        state.done.journal_blocks += 1;
        self.machine.write(Extent { lba: self.area, sectors: LOG_BLOCK / SECTOR }, Wait::No);
        self.machine.barrier();
    }

    /// The sectors of `count` blocks of the area from `position` on, which do not pass its end.
    fn in_area(&self, position: u64, count: u64) -> Extent {
        let per_block = LOG_BLOCK / SECTOR;
        let lba = self.area + (1 + position % self.size) * per_block;
        Extent { lba, sectors: count * per_block }
    }

    /// Whether these bytes are content of a file, perhaps with zeros where it has none. The
    /// numbers, modes, lengths and names in a block of metadata have other bytes.
    fn is_content(&self, bytes: &[u8]) -> bool {
        bytes.contains(&self.content) && bytes.iter().all(|b| *b == 0 || *b == self.content)
    }

    fn put(&self, offset: u64, bufs: &[IoSlice<'_>], wait: Wait) -> Result<(), DeviceError> {
        let mut at = offset;
        let mut rest = bufs;
        while let [first, ..] = rest {
            let logs =
                |buf: &[u8]| self.settings.mode == DataMode::Journal || !self.is_content(buf);
            if logs(first) {
                self.log_block(at, first)?;
                at += first.len() as u64;
                rest = &rest[1..];
                continue;
            }
            // Neighbouring data is written together.
            let count = rest.iter().take_while(|buf| !logs(buf)).count();
            let (data, later) = rest.split_at(count);
            let len: u64 = data.iter().map(|buf| buf.len() as u64).sum();
            self.drop_blocks(Block::new(at, len));
            self.disk.put(at, data, wait)?;
            at += len;
            rest = later;
        }
        Ok(())
    }

    /// Adds a block to the running transaction.
    fn log_block(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.disk.put_untimed(offset, &[IoSlice::new(bytes)])?;
        let block = Block::new(offset, bytes.len() as u64);
        let mut state = self.state();
        let replaced: u64 = state.running.insert(block, block.logged()).iter().sum();
        state.running_blocks = state.running_blocks - replaced + block.logged();
        Ok(())
    }

    /// Data takes the place of freed metadata: that is neither logged nor written in place.
    fn drop_blocks(&self, block: Block) {
        let mut state = self.state();
        let dropped: u64 = state.running.remove(block).iter().sum();
        state.running_blocks -= dropped;
        state.log.drop_block(block);
    }
}

impl BlockDevice for JournaledDisk {
    fn len_bytes(&self) -> u64 {
        self.disk.len_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.disk.sector_size()
    }

    fn durability(&self) -> Durability {
        Durability::OnFlush
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn delays_writes(&self) -> bool {
        true
    }

    fn wait_for_writes(&self, offset: u64, len: u64) {
        // As JBD, which has no copy of a block that it writes to the journal.
        let shadow = self.state().shadow.around(Block::new(offset, len));
        if let Some(position) = shadow {
            let blocks = Block::new(offset, len).logged();
            for position in position..position + blocks {
                self.machine.wait_for_writes(self.in_area(position, 1));
            }
        }
        self.disk.wait_for_writes(offset, len);
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let block = Block::new(offset, buf.len() as u64);
        let in_memory = {
            let state = self.state();
            state.running.around(block).is_some() || state.log.has(block)
        };
        if in_memory { self.disk.read_untimed(offset, buf) } else { self.disk.read_at(offset, buf) }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.put(offset, &[IoSlice::new(buf)], Wait::No)
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        self.put(offset, bufs, Wait::No)
    }

    fn write_durable_vectored_at(
        &self,
        offset: u64,
        bufs: &[IoSlice<'_>],
    ) -> Result<(), DeviceError> {
        self.put(offset, bufs, Wait::Yes)
    }

    /// Does nothing: the caller of [`JournaledDisk::commit`] decides when changes become durable.
    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}
