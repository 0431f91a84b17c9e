//! Tests of the ring. `tests/suj` tests the records.
#![allow(clippy::unwrap_used, reason = "a test")]

use super::ring::{JournalFile, Ring};
use ffs_ondisk::Endian;
use ffs_ondisk::journal::{Record, Ref, Segment, SequenceError, scan};

const SECTOR: usize = 512;
const BLOCK: usize = 4 * SECTOR;
const TIME: i64 = 77;

/// A ring of three blocks: 11 sectors, and that of the end mark. The blocks are not in order on the
/// device.
fn file() -> JournalFile {
    let (blocks, endian) = (vec![8192, 0, 4096], Endian::Little);
    JournalFile { blocks, bsize: BLOCK, sector: SECTOR, endian, time: TIME }
}

fn ring() -> Ring {
    Ring::new(file()).unwrap()
}

fn record(ino: u32) -> Record {
    let (op, parent, nlink, mode) = (1, 2, 1, 0o100_000);
    Record::AddRef(Ref { op, ino, parent, nlink, mode, diroff: 24, unused: 0 })
}

/// The journal's content on the device after writes of the ring.
struct Device(Vec<u8>);

impl Device {
    /// A device with the first segment of the ring.
    fn new() -> Device {
        let mut device = Device(vec![0; 3 * BLOCK]);
        let (at, bytes) = file().opening().unwrap();
        device.write(at, &bytes);
        device
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let block = [8192, 0, 4096].iter().position(|b| (*b..*b + BLOCK as u64).contains(&at));
        let block = block.unwrap();
        let within = at as usize % BLOCK;
        assert!(within + bytes.len() <= BLOCK, "a segment crosses the end of a block");
        self.0[block * BLOCK + within..][..bytes.len()].copy_from_slice(bytes);
    }

    fn take(&mut self, ring: &mut Ring) {
        for placed in ring.to_write().to_vec() {
            self.write(placed.at, &placed.bytes);
        }
        ring.written();
    }

    fn scan(&self) -> Result<Vec<Segment>, SequenceError> {
        scan(Endian::Little, &self.0, SECTOR, TIME)
    }

    fn records(&self) -> u64 {
        let segments = self.scan().unwrap();
        segments.iter().filter(|s| s.header.seq > 0).map(|s| u64::from(s.header.cnt)).sum()
    }
}

/// Puts `n` records into the ring and onto the device.
fn add(ring: &mut Ring, dev: &mut Device, n: u32) {
    ring.add((0..n).map(|i| record(10 + i)).collect());
    ring.place();
    dev.take(ring);
}

#[test]
fn a_segment_ends_with_its_block() {
    let (mut ring, mut dev) = (ring(), Device::new());
    add(&mut ring, &mut dev, 30);
    // One sector is left in the first block.
    add(&mut ring, &mut dev, 40);
    let sectors: Vec<u16> = dev.scan().unwrap().iter().map(|s| s.header.blocks).collect();
    assert_eq!(sectors, [1, 2, 1, 2]);
    assert_eq!(dev.records(), 70);
}

#[test]
fn segments_are_overwritten_only_after_a_durable_one_declared_it() {
    let (mut ring, mut dev) = (ring(), Device::new());
    add(&mut ring, &mut dev, 9 * 15);
    assert_eq!((ring.free(), ring.needed()), (1, 10));
    ring.retire();
    assert_eq!((ring.free(), ring.needed()), (1, 0));
    // Two segments are needed: the first declares that the old ones are not.
    ring.add((0..20).map(record).collect());
    ring.place();
    assert!(ring.has_waiting());
    dev.take(&mut ring);
    assert_eq!(dev.records(), 15);
    ring.place();
    assert!(!ring.has_waiting());
    dev.take(&mut ring);
    assert_eq!(dev.records(), 20);
}

#[test]
fn the_first_needed_segment_may_be_lost_with_its_write() {
    let (mut ring, mut dev) = (ring(), Device::new());
    add(&mut ring, &mut dev, 2 * 15);
    ring.retire();
    ring.add((0..20).map(record).collect());
    ring.place();
    let placed = ring.to_write().to_vec();
    assert_eq!(placed.len(), 2);
    // Only the second one reaches the device.
    dev.write(placed[1].at, &placed[1].bytes);
    assert_eq!(dev.records(), 2 * 15);
}

#[test]
fn any_segment_of_the_first_commit_may_be_lost() {
    let (mut ring, mut dev) = (ring(), Device::new());
    ring.add((0..60).map(record).collect());
    ring.place();
    let placed = ring.to_write().to_vec();
    assert_eq!(placed.len(), 2);
    dev.write(placed[1].at, &placed[1].bytes);
    assert_eq!(dev.records(), 0);
}

#[test]
fn the_ring_begins_again_many_times() {
    let (mut ring, mut dev) = (ring(), Device::new());
    for n in 1..200 {
        add(&mut ring, &mut dev, n % 40 + 1);
        assert_eq!(dev.records(), u64::from(n % 40 + 1), "{n}");
        ring.retire();
    }
}

#[test]
fn a_full_ring_keeps_what_does_not_fit() {
    let (mut ring, mut dev) = (ring(), Device::new());
    add(&mut ring, &mut dev, 10 * 15);
    ring.add(vec![record(5)]);
    ring.place();
    assert!(ring.has_waiting() && ring.to_write().is_empty());
}

#[test]
fn no_recovery_uses_a_journal_with_the_end_mark() {
    let (mut ring, mut dev) = (ring(), Device::new());
    add(&mut ring, &mut dev, 10 * 15);
    let mark = ring.end_mark();
    dev.write(mark.at, &mark.bytes);
    assert!(matches!(dev.scan(), Err(SequenceError::Missing(_))), "{:?}", dev.scan());
}

#[test]
fn a_failed_write_is_repeated_unchanged() {
    let (mut ring, mut dev) = (ring(), Device::new());
    ring.add(vec![record(5)]);
    ring.place();
    let first = ring.to_write().to_vec();
    ring.add(vec![record(6)]);
    ring.place();
    assert_eq!(ring.to_write()[..1], first[..]);
    assert_eq!(ring.to_write().len(), 2);
    dev.take(&mut ring);
    assert_eq!(dev.records(), 2);
}
