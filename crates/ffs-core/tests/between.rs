//! Writes by another thread between two steps of an operation.
//!
//! The point in time is determined by a read: when the operation reads a block that is not in
//! memory, the device lets the other thread write before it returns.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test")]

use crate::common::{START, at, soft_updates, soft_volume};
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_core::{Cred, Env, Ffs, NodeKind, RenameMode, SetAttr, WriteMode};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::record::Event;
use ffs_device::{BlockDevice, DeviceError, Durability, MemDevice, Recorder};
use ffs_ondisk::{Endian, Format};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Inspects the bytes that were read.
type Act = Box<dyn FnMut(&[u8]) + Send>;

/// A device that runs an action before it returns from a read.
struct Interposed {
    inner: Recorder<MemDevice>,
    act: Mutex<Option<Act>>,
}

impl BlockDevice for Interposed {
    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }
    fn sector_size(&self) -> u32 {
        self.inner.sector_size()
    }
    fn durability(&self) -> Durability {
        Durability::OnFlush
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read_at(offset, buf)?;
        let act = self.act.lock().unwrap().take();
        if let Some(mut act) = act {
            act(buf);
            *self.act.lock().unwrap() = Some(act);
        }
        Ok(())
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.inner.write_at(offset, buf)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush()
    }
}

impl Interposed {
    fn new() -> Arc<Interposed> {
        let memory = soft_volume((Endian::Little, Format::Ufs2, 4096, 512), 16 << 20);
        let inner = Recorder::new(memory.with_durability(Durability::OnFlush));
        Arc::new(Interposed { inner, act: Mutex::default() })
    }

    fn mount(self: &Arc<Interposed>) -> Ffs {
        mount(Arc::clone(self) as Arc<dyn BlockDevice>)
    }

    fn plan(&self, act: impl FnMut(&[u8]) + Send + 'static) {
        *self.act.lock().unwrap() = Some(Box::new(act));
    }
}

/// Runs `act` in another thread.
fn elsewhere(act: impl FnOnce() + Send) {
    std::thread::scope(|s| s.spawn(act).join()).unwrap();
}

fn mount(device: Arc<dyn BlockDevice>) -> Ffs {
    let clock = Arc::new(ManualClock::new(Timestamp::new(START, 0)));
    Ffs::mount(device, &soft_updates(), Env::seeded(clock, 1)).unwrap()
}

/// The states that a crash can leave, as far as they are tested: every prefix of the writes, and
/// each write alone after the writes that the previous flush made durable.
fn states(events: Vec<Event>, from: &MemDevice, mut each: impl FnMut(MemDevice, &str)) {
    let (now, mut durable) = (from.snapshot(), from.snapshot());
    for (number, event) in events.into_iter().enumerate() {
        match event {
            Event::Write { offset, bytes, .. } => {
                now.write_at(offset, &bytes).unwrap();
                each(now.snapshot(), &format!("event {number}, at {offset}"));
                let alone = durable.snapshot();
                alone.write_at(offset, &bytes).unwrap();
                each(alone, &format!("event {number} alone, at {offset}"));
            }
            Event::Flush { .. } => durable = now.snapshot(),
            _ => {}
        }
    }
}

/// The change of the directory `a/d/moved`.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Moved,
    /// It is exchanged with another: the first of the two gets the other's name, ...
    First,
    /// ... the second is moved aside to a temporary name.
    Second,
}

/// A directory is moved, and its parent removed. Another thread wrote its new name before its `..`.
/// A check keeps the name that `..` agrees with, and that name was in the removed parent.
fn moved(way: Way) {
    let (c, file) = (Cred::root(), NodeKind::Regular);
    let (exchange, name) = (way != Way::Moved, b"moved");
    let dev = Interposed::new();
    let fs = dev.mount();
    let other = exchange.then_some(("t", "other"));
    for (parent, name) in
        [("", "a"), ("", "t"), ("a", "d"), ("a/d", "moved")].into_iter().chain(other)
    {
        fs.mkdir(&c, &at(&fs, parent).unwrap(), name.as_bytes(), 0o755).unwrap();
    }
    drop(fs.create(&c, &at(&fs, "a/d/moved").unwrap(), b"of the moved one", file, 0o644).unwrap());
    fs.unmount().unwrap();

    // No block of the volume is in memory.
    let fs = Arc::new(dev.mount());
    let from = dev.inner.inner().snapshot();
    dev.inner.take_events();
    let (a, t, d) = (at(&fs, "a").unwrap(), at(&fs, "t").unwrap(), at(&fs, "a/d").unwrap());
    // Looked up before, so that only its own block has to be read.
    let ino = fs.getattr(&at(&fs, "a/d/moved").unwrap()).ino;
    drop(at(&fs, "t/other"));
    let beside = fs.create(&c, &t, b"f", file, 0o644).unwrap();
    let (other, mut beside) = (Arc::clone(&fs), Some(beside));
    let ran = Arc::new(AtomicBool::new(false));
    let runs = Arc::clone(&ran);
    dev.plan(move |read| {
        let word = b"of the moved one";
        if read.windows(word.len()).any(|w| w == word)
            && let Some(beside) = beside.take()
        {
            elsewhere(|| {
                // In an exchange, the dependencies of the name are written and flushed first.
                for _ in 0..if exchange { 4 } else { 1 } {
                    (0..if exchange { 8 } else { 0 }).for_each(|_| other.write_oldest().unwrap());
                    other.fsync(&beside).unwrap();
                }
            });
            runs.store(true, Ordering::Relaxed);
        }
    });
    let (one, two) = ((&d, &name[..]), (&t, &b"other"[..]));
    match way {
        Way::Moved => fs.rename(&c, one, (&t, name), RenameMode::Replace),
        Way::First => fs.rename(&c, one, two, RenameMode::Exchange),
        Way::Second => fs.rename(&c, two, one, RenameMode::Exchange),
    }
    .unwrap();
    assert!(ran.load(Ordering::Relaxed), "the other thread never ran");
    dev.act.lock().unwrap().take();
    if exchange {
        fs.rmdir(&c, &d, name).unwrap();
    }
    drop(d);
    fs.rmdir(&c, &a, b"d").unwrap();
    fs.fsync(&a).unwrap();
    fs.sync().unwrap();
    let new = if exchange { "t/other" } else { "t/moved" };
    let mut seen = false;
    states(dev.inner.take_events(), &from, |state, which| {
        let state: Arc<dyn BlockDevice> = Arc::new(state);
        let report = Fsck::new(Arc::clone(&state), FsckOptions::preen()).run();
        assert_eq!(report.exit_code, 0, "{which}: {:?}", report.findings);
        let fs = mount(state);
        let there = ["a/d/moved", new].map(|path| at(&fs, path).map(|v| fs.getattr(&v).ino).ok());
        assert!(there.contains(&Some(ino)), "lost: {which}");
        seen |= there[1] == Some(ino);
    });
    assert!(seen);
}

#[test]
fn a_new_name_of_a_directory_is_not_seen_before_it_is_known_to_wait_for_its_dotdot() {
    moved(Way::Moved);
}

#[test]
fn the_name_of_another_in_an_exchange_is_not_seen_before_it_is_known_to_wait_for_the_dotdot() {
    moved(Way::First);
}

#[test]
fn the_temporary_name_in_an_exchange_is_not_seen_before_it_is_known_to_wait_for_the_dotdot() {
    moved(Way::Second);
}

/// A file is truncated. An indirect block that keeps some of its pointers is written before the
/// freed blocks are reported to the ordering mode. They waited for the block to be written once
/// more, which never happened.
#[test]
fn freed_blocks_do_not_wait_for_a_block_already_written() {
    const BLOCK: u64 = 4096;
    let c = Cred::root();
    let dev = Interposed::new();
    let fs = dev.mount();
    let v = fs.create(&c, &fs.root().unwrap(), b"f", NodeKind::Regular, 0o644).unwrap();
    // One block below each of two indirect blocks of the second level.
    let (first, second) = (12 + 512, 12 + 512 + 512);
    for block in [first, second] {
        fs.write(&c, &v, block * BLOCK, &[1; BLOCK as usize], WriteMode::default()).unwrap();
    }
    drop(v);
    fs.unmount().unwrap();

    let fs = Arc::new(dev.mount());
    let v = at(&fs, "f").unwrap();
    let (other, reads) = (Arc::clone(&fs), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&reads);
    dev.plan(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        elsewhere(|| (0..8).for_each(|_| other.write_oldest().unwrap()));
    });
    let truncate = SetAttr { size: Some((first + 1) * BLOCK), ..SetAttr::default() };
    fs.setattr(&c, &v, &truncate).unwrap();
    assert!(
        reads.load(Ordering::Relaxed) >= 3,
        "two indirect blocks are read before, and one after"
    );
    dev.act.lock().unwrap().take();
    fs.sync().unwrap();
    drop(v);
    Arc::into_inner(fs).unwrap().unmount().unwrap();
    let check = Fsck::new(dev as Arc<dyn BlockDevice>, FsckOptions::no()).run();
    assert!(check.findings.is_empty(), "{:?}", check.findings);
}
