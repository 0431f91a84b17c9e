//! Each test drives the journal without a file system.

use super::*;
use crate::machine::{Preset, sparse_store::SparseStore};
use ffs_device::{Rng, SplitMix64};

const OFFSET: u64 = 2 << 30;
const VOLUME: u64 = 1 << 30;
const BLOCK: usize = 16384;
/// Sectors of a block of the journal.
const UNIT: u64 = LOG_BLOCK / SECTOR;

struct Setup {
    machine: Arc<Machine>,
    disk: JournaledDisk,
}

fn setup(mode: DataMode, bytes: u64) -> Setup {
    let machine = Arc::new(Machine::new(&Preset::paper().unwrap(), 0));
    let store = SimDisk::new(SparseStore::new(VOLUME), Arc::clone(&machine), OFFSET);
    let settings = JournalSettings { bytes, ..JournalSettings::new(mode) };
    let clock = Arc::clone(&machine);
    let disk = JournaledDisk::new(store, clock, settings, b'F', OFFSET).unwrap();
    Setup { machine, disk }
}

impl Setup {
    /// Writes a block of metadata.
    fn metadata(&self, offset: u64) {
        self.disk.write_at(offset, &[7; BLOCK]).unwrap();
    }

    /// Writes a block of file content.
    fn data(&self, offset: u64) {
        self.disk.write_at(offset, &[b'F'; BLOCK]).unwrap();
    }

    /// The sectors of a block of the volume.
    fn place(&self, offset: u64) -> Extent {
        Extent { lba: (OFFSET + offset) / SECTOR, sectors: BLOCK as u64 / SECTOR }
    }

    /// The sectors of blocks of the area; 0 is its superblock.
    fn area(&self, first: u64, count: u64) -> Extent {
        let lba = (OFFSET - self.disk.settings().bytes) / SECTOR + first * UNIT;
        Extent { lba, sectors: count * UNIT }
    }

    /// What was written since the last `before` commands.
    fn written(&self, before: usize) -> Vec<Extent> {
        self.machine.written().split_off(before)
    }
}

#[test]
fn a_commit_writes_descriptor_and_blocks_together_and_then_the_commit_block() {
    let s = setup(DataMode::Ordered, JOURNAL_BYTES);
    for offset in [5 << 20, 700 << 20, 90 << 20] {
        s.metadata(offset);
    }
    assert_eq!(s.written(0), [], "nothing is written before the commit");
    s.disk.commit();
    // One descriptor and three blocks of 16 KB.
    assert_eq!(s.written(0), [s.area(1, 13), s.area(14, 1)]);
    s.metadata(5 << 20);
    s.disk.commit();
    assert_eq!(s.written(2), [s.area(15, 5), s.area(20, 1)], "the next one follows");
    let done = s.disk.done();
    assert_eq!((done.commits, done.logged, done.journal_blocks), (2, 4, 20));
    s.disk.commit();
    assert_eq!(s.disk.done().commits, 2, "there was nothing to commit");
}

/// In the background the requests are in the queue together, sorted by place: the volume is behind
/// the journal, so that without barriers its data would be written last.
#[test]
fn data_comes_before_the_transaction_with_ordered_alone() {
    let order = |mode| {
        let s = setup(mode, JOURNAL_BYTES);
        s.machine.background(|| {
            s.metadata(0);
            s.data(500 << 20);
            s.disk.commit();
        });
        s.machine.flush();
        (s.written(0), s.place(500 << 20), s.area(1, 5), s.area(6, 1))
    };
    let (written, data, body, commit) = order(DataMode::Ordered);
    assert_eq!(written, [data, body, commit]);
    let (written, _, body, commit) = order(DataMode::Journal);
    // Both blocks are logged.
    assert_eq!(
        written,
        [Extent { sectors: 9 * UNIT, ..body }, Extent { lba: commit.lba + 4 * UNIT, ..commit }]
    );
    let (written, data, body, commit) = order(DataMode::Writeback);
    assert_eq!(written.len(), 3);
    assert!(written.contains(&data) && written.contains(&body));
    let position = |extent| written.iter().position(|w| *w == extent).unwrap();
    assert!(position(commit) > position(body));
}

#[test]
fn a_block_of_several_transactions_is_written_in_place_once_and_late() {
    let s = setup(DataMode::Ordered, JOURNAL_BYTES);
    for _ in 0..3 {
        s.metadata(64 << 20);
        s.metadata(128 << 20);
        s.disk.commit();
        s.machine.compute(Duration::from_secs(5));
        s.disk.checkpoint();
    }
    // Changed again, and not committed.
    s.metadata(128 << 20);
    let before = s.machine.written().len();
    s.machine.compute(Duration::from_secs(24));
    s.disk.checkpoint();
    s.machine.flush();
    assert_eq!(s.written(before), [], "29 s after the last commit");
    s.machine.compute(Duration::from_secs(2));
    s.disk.checkpoint();
    s.machine.flush();
    assert_eq!(s.written(before), [s.place(64 << 20)], "the other block changes at present");
    s.machine.compute(Duration::from_secs(60));
    s.disk.checkpoint();
    assert_eq!(s.disk.done().checkpointed, 1);
}

/// The smallest journal has 1023 blocks, and a transaction takes a quarter of them at most.
#[test]
fn a_full_journal_writes_everything_in_place_and_the_next_operation_waits() {
    let s = setup(DataMode::Ordered, *JOURNAL_SIZES.start());
    let mut commits = 0_u64;
    while !s.disk.was_full() {
        for n in 0..60 {
            s.metadata((commits * 60 + n) << 15);
        }
        s.disk.commit();
        commits += 1;
    }
    // 242 blocks each; with the fourth there is no space for 255 more.
    assert_eq!(commits, 4);
    let done = s.disk.done();
    assert_eq!((done.full, done.checkpointed), (1, 240));
    assert!(!s.disk.was_full(), "the next commit has space again");
    let written = s.machine.written();
    let in_place = written.iter().filter(|w| w.lba >= OFFSET / SECTOR);
    assert_eq!(in_place.map(|w| w.sectors).sum::<u64>(), 240 * 32);
    assert_eq!(written.last(), Some(&s.area(0, 1)), "the new tail");
}

#[test]
fn the_same_blocks_again_and_again_never_fill_the_journal() {
    let s = setup(DataMode::Ordered, *JOURNAL_SIZES.start());
    for _ in 0..100 {
        for n in 0..40 {
            s.metadata(n << 15);
        }
        s.disk.commit();
    }
    let done = s.disk.done();
    assert_eq!((done.commits, done.full, done.checkpointed), (100, 0, 0));
    // The area was written many times over, also across its end.
    assert!(done.journal_blocks > 15 * 1023);
    let ends = (OFFSET - s.disk.settings().bytes) / SECTOR..=OFFSET / SECTOR;
    assert!(s.machine.written().iter().all(|w| ends.contains(&w.lba) && ends.contains(&w.end())));
}

#[test]
fn a_transaction_that_is_too_large_becomes_several() {
    let s = setup(DataMode::Ordered, *JOURNAL_SIZES.start());
    assert!(!s.disk.is_due());
    for n in 0..64 {
        s.metadata(n << 15);
    }
    assert!(s.disk.is_due());
    s.disk.commit();
    let done = s.disk.done();
    assert_eq!((done.commits, done.logged), (2, 64));
    assert!(!s.disk.is_due());
}

#[test]
fn memory_has_what_waits_and_data_takes_the_place_of_freed_metadata() {
    let s = setup(DataMode::Ordered, JOURNAL_BYTES);
    let read = |offset| {
        let before = s.machine.done().reads;
        let mut bytes = [0; BLOCK];
        s.disk.read_at(offset, &mut bytes).unwrap();
        (s.machine.done().reads - before, bytes[0])
    };
    s.metadata(32 << 20);
    s.metadata(48 << 20);
    assert_eq!(read(32 << 20), (0, 7), "in the running transaction");
    s.disk.commit();
    assert_eq!(read(32 << 20), (0, 7), "committed");
    s.data(32 << 20);
    assert_eq!(read(32 << 20), (1, b'F'));
    s.machine.compute(Duration::from_secs(60));
    s.disk.checkpoint();
    assert_eq!(s.disk.done().checkpointed, 1, "the block that was freed is not written");
    assert_eq!(read(48 << 20), (1, 7));
}

#[test]
fn a_user_of_a_block_waits_until_it_is_in_the_journal() {
    let s = setup(DataMode::Ordered, JOURNAL_BYTES);
    s.machine.background(|| {
        s.metadata(32 << 20);
        s.disk.commit();
    });
    let before = s.machine.now();
    s.disk.wait_for_writes(64 << 20, BLOCK as u64);
    assert_eq!(s.machine.now(), before);
    s.disk.wait_for_writes(32 << 20, BLOCK as u64);
    assert!(s.machine.now() > before);
    assert_eq!(s.written(0)[0], s.area(1, 5));
}

/// A reference model: every block that a transaction in the area logged last is still there.
#[test]
fn the_area_never_loses_a_block_that_waits() {
    let rng = SplitMix64::new(11);
    let mut log = Log::new(200);
    let mut expected: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
    for step in 0..5000 {
        match rng.below(4) {
            0 => {
                let offset = rng.below(40) << 14;
                log.drop_block(Block::new(offset, 1 << 14));
                expected.remove(&offset);
            }
            1 => {
                log.move_tail();
            }
            _ => {
                let mut offsets: Vec<u64> = (0..8).map(|_| rng.below(40) << 14).collect();
                offsets.sort_unstable();
                offsets.dedup();
                let blocks: Vec<Block> = offsets.iter().map(|o| Block::new(*o, 1 << 14)).collect();
                if log.free() < log.largest() && !log.move_tail() {
                    log.all().into_iter().for_each(|block| log.drop_block(block));
                    expected.clear();
                    log.move_tail();
                }
                if log.free() < log.largest() {
                    continue;
                }
                let placed = log.append(&blocks, Duration::ZERO);
                expected.extend(offsets.iter().map(|offset| (*offset, placed.body.start)));
            }
        }
        let waiting: Vec<u64> = log.all().iter().map(|block| block.offset).collect();
        assert_eq!(waiting, expected.keys().copied().collect::<Vec<_>>(), "step {step}");
        let oldest = expected.values().min().copied().unwrap_or(u64::MAX);
        assert!(log.tail() <= oldest, "step {step}: the place of a block may be overwritten");
        assert!(log.free() <= 200);
    }
}
