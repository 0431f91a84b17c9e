//! Devices that fail.

use super::*;
use crate::Error;
use crate::types::SyncScope;
use ffs_device::{Fault, FaultInjector, Operation, Rule};

const SHAPE: Shape = (Format::Ufs2, Endian::Little, 4096, 8);

fn failing() -> (Bench, Arc<FaultInjector<Arc<dyn BlockDevice>>>) {
    let dev = Arc::new(FaultInjector::new(volume(SHAPE, 16 << 20), Vec::new()));
    (Bench::open(dev.clone()), dev)
}

fn eio(op: Operation) -> Rule {
    Rule::new(op, Fault::Errno(5))
}

#[test]
fn fsync_fails_until_the_data_is_written() {
    let (b, dev) = failing();
    let ip = b.file("a");
    b.write(&ip, 0, &[1; 50_000]).unwrap();
    dev.add(eio(Operation::Write));
    for _ in 0..2 {
        assert!(matches!(b.syncer.fsync(&ip, SyncScope::All), Err(Error::Io(_))));
    }
    assert_eq!(b.all(&ip), vec![1; 50_000], "memory has it all the same");
    dev.heal();
    b.syncer.fsync(&ip, SyncScope::Data).unwrap();
    assert_eq!(b.on_device(ip.ino).size, 50_000);
    b.check("healed");
}

#[test]
fn a_chain_is_removed_if_its_indirect_block_cannot_be_written() {
    let (b, dev) = failing();
    let ip = b.file("a");
    b.write(&ip, 0, &[1; 100]).unwrap();
    b.sync();
    let (before, d) = (b.t.ump.alloc.totals(), ip.read().d.clone());
    for nth in 1..=3 {
        // The ordering mode waits for the write of each new indirect block.
        dev.add(eio(Operation::Write).nth(nth).times(1));
        let far = b.g().lblktosize(ffs_ondisk::bmap::first_of_root(&b.g(), 2));
        assert!(matches!(b.write(&ip, far, b"x"), Err(Error::Io(_))), "write {nth}");
        dev.heal();
        let after = ip.read().d.clone();
        assert_eq!((after.size, after.blocks, after.ib), (d.size, d.blocks, d.ib));
        let frags = |c: Csum| c.nbfree * 8 + c.nffree;
        assert_eq!(frags(b.t.ump.alloc.totals()), frags(before));
        b.check("removed");
    }
    assert_eq!(b.all(&ip), [1; 100]);
}

#[test]
fn a_truncation_that_cannot_read_its_indirect_block_changes_nothing() {
    let (b, dev) = failing();
    let ip = b.file("a");
    b.write(&ip, 0, &[1; 40 * 4096]).unwrap();
    b.sync();
    let b = Bench::open(dev.clone());
    let ip = b.t.get(ip.ino).unwrap();
    dev.add(eio(Operation::Read));
    assert!(matches!(b.truncate(&ip, 20 * 4096), Err(Error::Io(_))));
    assert!(matches!(b.read(&ip, 0, 10), Err(Error::Io(_))));
    dev.heal();
    assert_eq!(b.all(&ip), vec![1; 40 * 4096]);
    b.check("as before");
}

#[test]
fn writes_push_back_when_the_device_does_not_take_them() {
    let dev = Arc::new(FaultInjector::new(volume(SHAPE, 16 << 20), Vec::new()));
    let b = Bench::with(dev.clone(), 4 << 20, 100, Atime::Always);
    let ip = b.file("a");
    dev.add(eio(Operation::Write).within(4 << 20..16 << 20));
    dev.add(eio(Operation::Write).within(0..4 << 20));
    let mut at = 0;
    let stopped = loop {
        match b.write(&ip, at, &[2; 1 << 18]) {
            Ok(n) => at += n as u64,
            Err(e) => break e,
        }
        assert!(at < 8 << 20, "dirty memory without bound");
    };
    assert!(matches!(stopped, Error::Io(_)));
    dev.heal();
    assert_eq!(b.all(&ip), vec![2; at as usize]);
    b.check("healed");
}

/// A device that can delay a write until the test continues it.
struct PausingDevice {
    inner: Arc<dyn BlockDevice>,
    /// Whether the next write is delayed, and whether a write is waiting.
    state: std::sync::Mutex<(bool, bool)>,
    changed: std::sync::Condvar,
}

impl PausingDevice {
    fn pause(&self) {
        *self.state.lock().unwrap() = (true, false);
    }

    fn wait_for_a_write(&self) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |s| !s.1).unwrap());
    }

    fn resume(&self) {
        *self.state.lock().unwrap() = (false, false);
        self.changed.notify_all();
    }
}

impl BlockDevice for PausingDevice {
    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }
    fn sector_size(&self) -> u32 {
        self.inner.sector_size()
    }
    fn durability(&self) -> ffs_device::Durability {
        self.inner.durability()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ffs_device::DeviceError> {
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), ffs_device::DeviceError> {
        let mut s = self.state.lock().unwrap();
        if *s == (true, false) {
            s.1 = true;
            self.changed.notify_all();
            drop(self.changed.wait_while(s, |s| s.1).unwrap());
        }
        self.inner.write_at(offset, buf)
    }
    fn flush(&self) -> Result<(), ffs_device::DeviceError> {
        self.inner.flush()
    }
}

#[test]
fn blocks_given_to_another_file_are_not_overwritten_by_late_writes() {
    let inner = volume(SHAPE, 8 << 20);
    let pausing = Arc::new(PausingDevice {
        inner,
        state: std::sync::Mutex::default(),
        changed: std::sync::Condvar::new(),
    });
    let b = Bench::open(pausing.clone());
    let (old, new) = (b.file("old"), b.file("new"));
    let places = |ip: &Inode| {
        let d = ip.read();
        (0..40).map(|k| b.view(ip, &d).bmap(Lbn(k)).unwrap().unwrap()).collect::<Vec<_>>()
    };
    b.write(&old, 0, &[0xaa; 40 * 4096]).unwrap();
    let freed = places(&old);
    pausing.pause();
    std::thread::scope(|s| {
        // Its list has the old file's blocks while its first write, of a group, waits.
        s.spawn(|| b.t.ump.cache.write_delayed().unwrap());
        pausing.wait_for_a_write();
        b.truncate(&old, 0).unwrap();
        b.write(&new, 0, &[0x55; 40 * 4096]).unwrap();
        // Not fsync, which would wait for the group.
        b.t.ump.cache.write_bufs(b.t.ump.cache.dirty_of(new.ino)).result().unwrap();
        pausing.resume();
    });
    let taken = places(&new);
    assert!(taken.iter().any(|at| freed.contains(at)), "the blocks are used again");
    for at in taken {
        let mut block = [0; 4096];
        b.dev.read_at(b.g().frag_to_byte(at), &mut block).unwrap();
        assert_eq!(block, [0x55; 4096], "{at:?}");
    }
    b.check("late writes");
}
