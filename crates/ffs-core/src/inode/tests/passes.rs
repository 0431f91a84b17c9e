//! Passes, ages and deferred work, with an ordering mode that holds back the blocks that a test
//! chooses.

use super::{Bench, REGULAR};
use crate::buf::{BufKey, BufKind, BufRef, WriteHooks, WriteResult, WriteStart};
use crate::error::Error;
use crate::options::Atime;
use crate::ordering::{
    Event, FreedRuns, InodeChange, Ordering, Pending, Readiness, Response, SyncTarget, WorkItem,
};
use crate::sync::Mutex;
use crate::types::SyncScope;
use ffs_device::fault::{Fault, FaultInjector, Rule};
use ffs_device::{BlockDevice, Durability, MemDevice, Operation};
use ffs_ondisk::{Endian, Format, FragNo, Ino, Lbn};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The blocks that the ordering mode holds back, and the work that it returns.
#[derive(Default)]
struct Script {
    /// Blocks that wait for another block to be durable, and what they show before.
    waits: BTreeMap<BufKey, (BufKey, Readiness)>,
    /// Work that is due when a block is durable.
    follows: BTreeMap<BufKey, Vec<WorkItem>>,
    work: VecDeque<WorkItem>,
    /// The difference of the stored and the effective link counts.
    links: BTreeMap<Ino, u16>,
    unflushed: Vec<BufKey>,
    /// Writes in the order in which they started.
    log: Vec<(BufKey, WriteStart)>,
}

#[derive(Default)]
struct Staged(Mutex<Script>);

impl WriteHooks for Staged {
    fn start_write(&self, key: BufKey, _: BufKind, _: Option<&mut [u8]>) -> WriteStart {
        let s = &mut *self.0.lock();
        let is_held = s.waits.contains_key(&key);
        let start = if is_held { WriteStart::RolledBack } else { WriteStart::Whole };
        s.log.push((key, start));
        start
    }
    fn write_completed(&self, key: BufKey, result: WriteResult) -> bool {
        if result != WriteResult::Failed {
            self.0.lock().unflushed.push(key);
        }
        false
    }
    fn flush_completed(&self, _: u64) {
        let s = &mut *self.0.lock();
        for key in std::mem::take(&mut s.unflushed) {
            s.waits.retain(|_, (on, _)| *on != key);
            s.work.extend(s.follows.remove(&key).unwrap_or_default());
        }
    }
}

impl Ordering for Staged {
    fn name(&self) -> &'static str {
        "staged"
    }
    fn notify(&self, event: Event<'_>) -> Response {
        let nlink_delta = match event {
            Event::InodeUpdated { ino, .. } => self.nlink_delta(ino),
            Event::LinksDropped { ino, by } => {
                let s = &mut *self.0.lock();
                let left = s.links.get(&ino).map_or(0, |n| n - by);
                s.links.insert(ino, left);
                left
            }
            _ => 0,
        };
        Response { nlink_delta, ..Response::DELAY }
    }
    fn nlink_delta(&self, ino: Ino) -> u16 {
        self.0.lock().links.get(&ino).copied().unwrap_or(0)
    }
    fn take_work(&self, max: usize) -> Vec<WorkItem> {
        let s = &mut *self.0.lock();
        let n = max.min(s.work.len());
        s.work.drain(..n).collect()
    }
    fn readiness(&self, key: BufKey, _: BufKind) -> Readiness {
        self.0.lock().waits.get(&key).map_or(Readiness::Whole, |w| w.1)
    }
    fn blocks_to_write(&self, _: SyncTarget) -> Vec<BufKey> {
        let s = self.0.lock();
        s.waits.iter().flat_map(|(key, (on, _))| [*key, *on]).collect()
    }
    fn is_durable(&self, _: SyncTarget) -> bool {
        self.0.lock().waits.is_empty()
    }
    fn pending(&self) -> Pending {
        let s = self.0.lock();
        let records = s.waits.len() + s.follows.len() + s.work.len();
        Pending { deps: records as u64, ..Pending::default() }
    }
}

struct Stage {
    b: Bench,
    mode: Arc<Staged>,
    disk: Arc<FaultInjector<MemDevice>>,
}

const NOW: i64 = 1_700_000_000;

impl Stage {
    fn new() -> Stage {
        let mem =
            ffs_admin::newfs::quick(Endian::Little, Format::Ufs1, 8192, 1024, 8 << 20).unwrap();
        let mem = mem.with_durability(Durability::OnFlush);
        let disk = Arc::new(FaultInjector::new(mem, Vec::new()));
        let mode = Arc::new(Staged::default());
        let dev = disk.clone() as Arc<dyn BlockDevice>;
        let b = Bench::under(mode.clone(), dev, (4 << 20, 1000), Atime::Never);
        b.t.ump.cache.set_time(NOW);
        Stage { b, mode, disk }
    }

    /// A block of inodes, dirty.
    fn block(&self, n: u32) -> BufRef {
        let g = self.b.g();
        let buf = self.b.t.ump.inode_block(Ino(n * g.inopb)).unwrap();
        drop(buf.write());
        self.b.t.ump.cache.mark_dirty(&buf);
        buf
    }

    fn wait(&self, block: &BufRef, on: BufKey, ready: Readiness) {
        self.mode.0.lock().waits.insert(block.key, (on, ready));
    }

    fn log(&self) -> Vec<(BufKey, WriteStart)> {
        std::mem::take(&mut self.mode.0.lock().log)
    }

    fn dirty(&self) -> usize {
        self.b.t.ump.cache.dirty_count()
    }

    fn at(&self, seconds: i64) -> Vec<(BufKey, WriteStart)> {
        self.b.t.ump.cache.set_time(NOW + seconds);
        self.b.syncer.write_due().unwrap();
        self.log()
    }
}

const NOWHERE: BufKey = BufKey::Meta(FragNo(1));

#[test]
fn what_waits_is_written_after_what_it_waits_for_and_whole() {
    for fsync in [false, true] {
        let s = Stage::new();
        let [a, b, c] = [1, 2, 3].map(|n| s.block(n));
        s.wait(&a, b.key, Readiness::Held);
        s.wait(&b, c.key, Readiness::Partial);
        if fsync {
            s.b.syncer.fsync(&s.b.t.get(Ino::ROOT).unwrap(), SyncScope::Data).unwrap();
        } else {
            assert!(s.b.syncer.sync().unwrap());
        }
        // Once nothing waits, an fsync is done; a sync writes what was dirty.
        let order = if fsync { vec![c, b] } else { vec![c, b, a] };
        let passes = order.len();
        let order: Vec<_> = order.iter().map(|b| (b.key, WriteStart::Whole)).collect();
        assert_eq!(s.log(), order, "fsync: {fsync}");
        assert_eq!(s.b.counters().passes, passes as u64);
        assert_eq!(s.dirty(), 3 - passes);
    }
}

#[test]
fn a_circle_is_broken_by_an_image_with_a_part() {
    let s = Stage::new();
    let [a, b] = [1, 2].map(|n| s.block(n));
    s.wait(&a, b.key, Readiness::Partial);
    s.wait(&b, a.key, Readiness::Held);
    s.b.syncer.sync_alone().unwrap();
    let log =
        [(a.key, WriteStart::RolledBack), (b.key, WriteStart::Whole), (a.key, WriteStart::Whole)];
    assert_eq!(s.log(), log);
    assert_eq!((s.b.counters().writes_rolled_back, s.dirty()), (1, 0));
}

#[test]
fn what_can_never_be_written_is_an_error_and_stays() {
    let s = Stage::new();
    let [a, b] = [1, 2].map(|n| s.block(n));
    s.wait(&a, NOWHERE, Readiness::Held);
    assert!(matches!(s.b.syncer.sync_alone(), Err(Error::Unwritten)));
    assert!(a.is_dirty() && !b.is_dirty());
    let root = s.b.t.get(Ino::ROOT).unwrap();
    assert!(matches!(s.b.syncer.fsync(&root, SyncScope::Data), Err(Error::Unwritten)));
}

#[test]
fn a_block_that_cannot_be_written_keeps_no_other_from_it() {
    let s = Stage::new();
    let [a, b, c] = [1, 2, 3].map(|n| s.block(n));
    s.wait(&c, a.key, Readiness::Held);
    let at = s.b.g().frag_to_byte(a.read().addr);
    s.disk.add(Rule::new(Operation::Write, Fault::Errno(5)).within(at..at + 8192));
    assert_eq!(s.b.syncer.sync_alone().unwrap_err().errno(), 5);
    assert!(a.is_dirty() && !b.is_dirty() && c.is_dirty());
    let root = s.b.t.get(Ino::ROOT).unwrap();
    assert_eq!(s.b.syncer.fsync(&root, SyncScope::Data).unwrap_err().errno(), 5);
    s.disk.heal();
    s.b.syncer.sync_alone().unwrap();
    assert_eq!(s.dirty(), 0);
}

#[test]
fn sync_ends_with_an_empty_queue() {
    let s = Stage::new();
    let (a, b) = (s.block(1), s.b.t.ump.inode_block(Ino(2 * s.b.g().inopb)).unwrap());
    let file = s.b.nameless(REGULAR);
    let ino = file.ino;
    file.write().d.nlink = 1;
    s.b.lock(&file).update(InodeChange::Attr).unwrap();
    s.b.t.release(&file).unwrap();
    drop(file);
    s.b.syncer.sync_alone().unwrap();
    // Its name is removed in memory; the device may show it until `a` is durable.
    let file = s.b.t.get(ino).unwrap();
    s.b.t.hold(&file);
    {
        let mut inode = s.b.lock(&file);
        inode.d.nlink = 0;
        s.mode.0.lock().links.insert(ino, 1);
        inode.update(InodeChange::NlinkDec).unwrap();
    }
    drop(s.block(1));
    let work = vec![WorkItem::DropLinks { ino, by: 1 }, WorkItem::FreeBlks(FreedRuns::default())];
    s.mode.0.lock().follows.insert(a.key, work);
    let free = s.b.t.ump.alloc.totals().nifree;
    s.b.t.release(&file).unwrap();
    assert!(file.read().alive(), "the device may show its name");
    assert_eq!(s.b.t.will_be_free().1, 1);
    drop((file, b));
    assert!(matches!(s.b.t.get(Ino(ino.0)).map(|ip| ip.read().d.nlink), Ok(0)));
    s.b.syncer.sync_alone().unwrap();
    assert_eq!(s.b.t.ump.alloc.totals().nifree, free + 1);
    assert_eq!((s.dirty(), s.b.t.will_be_free(), s.mode.pending().deps), (0, (0, 0), 0));
    assert!(matches!(s.b.t.get(ino), Err(Error::Stale)));
    assert_eq!(s.b.counters().work_done, 2);
}

#[test]
fn buffers_are_written_at_their_age_and_in_part_only_when_late() {
    let s = Stage::new();
    let inodes = s.block(1);
    let late = s.block(2);
    let root = s.b.t.get(Ino::ROOT).unwrap();
    let names = s.b.view(&root, &root.read()).read_block(Lbn(0)).unwrap().unwrap();
    drop(names.write());
    s.b.t.ump.cache.mark_dirty(&names);
    s.wait(&late, NOWHERE, Readiness::Partial);
    assert_eq!(s.at(27), []);
    assert_eq!(s.at(28), [(inodes.key, WriteStart::Whole)]);
    assert_eq!(s.at(29), [(names.key, WriteStart::Whole)]);
    assert_eq!(s.at(31), []);
    assert_eq!(s.at(32), [(late.key, WriteStart::RolledBack)]);
    // The block with the rolled back change is due again after a short time.
    assert_eq!(s.at(33), []);
    assert_eq!(s.at(32 + 7), []);
    assert_eq!(s.at(32 + 8), [(late.key, WriteStart::RolledBack)]);
    s.mode.0.lock().waits.clear();
    assert_eq!(s.at(40 + 3), []);
    assert_eq!(s.at(40 + 4), [(late.key, WriteStart::Whole)]);
}

#[test]
fn too_much_dirty_is_written_in_the_same_order() {
    let s = Stage::new();
    let blocks: Vec<BufRef> = (1..150).map(|n| s.block(n % 60 + 1)).collect();
    let first = blocks.first().unwrap();
    s.wait(first, blocks.get(1).unwrap().key, Readiness::Held);
    s.b.syncer.throttle().unwrap();
    assert!(s.log().is_empty(), "it is not too much");
    let file = s.b.nameless(REGULAR);
    let part = vec![1; 64 << 10];
    for i in 0..24 {
        let reserve = crate::alloc::Reserve::Allowed;
        let at = i * part.len() as u64;
        s.b.lock(&file).write_at(at, &mut &part[..], reserve).unwrap();
    }
    s.b.syncer.throttle().unwrap();
    let log = s.log();
    assert!(log.len() > 100 && log.iter().all(|(_, image)| *image == WriteStart::Whole));
}
