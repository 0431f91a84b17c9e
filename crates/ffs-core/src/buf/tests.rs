//! The two tiers over random histories, against a recount and a model of the blocks' content.

use super::{
    BufCache, BufKey, BufKind, BufRef, CacheLimits, CacheParts, DiskBlock, NewContent, WriteHooks,
    WriteResult,
};
use crate::counters::Counters;
use crate::sync::Mutex;
use crate::tunables::{TunableValues, Tunables};
use ffs_admin::newfs;
use ffs_admin::volume::Volume;
use ffs_device::{BlockDevice, ManualClock};
use ffs_ondisk::{Endian, Format, FragNo, Ino};
use ffs_testkit::rng::SplitMix64;
use std::collections::BTreeMap;
use std::sync::Arc;

struct NoHooks;

impl WriteHooks for NoHooks {}

const FRAG: usize = 1024;
const BLOCK: usize = 8192;
const FILES: u32 = 12;
const BLOCKS: i64 = 24;

/// Files below this number are directories.
const DIRECTORIES: u32 = 6;

fn limits(
    pages: usize,
    headers: usize,
    bufspace: usize,
    mallocspace: usize,
    vmiodir: bool,
) -> CacheLimits {
    CacheLimits {
        pages,
        headers,
        bufspace,
        mallocspace,
        dirty: usize::MAX,
        dirty_blocks: usize::MAX,
        vmiodir,
    }
}

fn cache(limits: CacheLimits) -> BufCache {
    cache_with(limits, Arc::new(NoHooks))
}

fn cache_with(limits: CacheLimits, hooks: Arc<dyn WriteHooks>) -> BufCache {
    let dev =
        newfs::quick(Endian::Little, Format::Ufs2, BLOCK as u32, FRAG as u32, 32 << 20).unwrap();
    let g = Volume::open(&dev).unwrap().geo;
    let clock = Arc::new(ManualClock::default());
    let dev: Arc<dyn BlockDevice> = Arc::new(dev);
    let counters = Arc::new(Counters::default());
    BufCache::new(CacheParts { g, dev, clock, counters, hooks, limits })
}

fn kind(ino: u32) -> BufKind {
    if ino < DIRECTORIES { BufKind::Directory } else { BufKind::Data }
}

/// The address of a block: each has its own, past the volume's structures.
fn addr(ino: u32, lbn: i64) -> FragNo {
    FragNo(8192 + u64::from(ino) * 8 * BLOCKS as u64 + 8 * lbn as u64)
}

fn block(ino: u32, lbn: i64, len: usize) -> DiskBlock {
    let key = BufKey::File(Ino(ino), lbn);
    DiskBlock { key, kind: kind(ino), addr: addr(ino, lbn), len }
}

/// Reads a block, all bytes of which are equal; returns that byte.
fn content(c: &BufCache, ino: u32, lbn: i64, len: usize) -> u8 {
    let buf = c.bread(block(ino, lbn, len)).unwrap();
    let data = buf.read();
    assert!(data.bytes.len() == len && data.bytes.iter().all(|b| *b == data.bytes[0]));
    data.bytes[0]
}

fn fill(c: &BufCache, ino: u32, lbn: i64, len: usize, with: u8) -> BufRef {
    let buf = c.getblk(block(ino, lbn, len), NewContent::Zeroed);
    buf.write().bytes.fill(with);
    c.mark_dirty(&buf);
    buf
}

/// Checks that the sums and lists agree with the blocks, and that after making space only blocks
/// that must stay exceed the limits. `held` buffers are in use.
fn audit(c: &BufCache, held: usize) {
    let mut st = c.state.write();
    st.audit();
    st.make_space(BufKind::Data, 0);
    st.audit();
    let (space, l) = (st.space(), st.limits());
    let pinned = st.dirty.len() + held + 1;
    assert!(space.headers <= l.headers.max(pinned), "{space:?} {l:?}");
    assert!(space.bufspace <= l.bufspace.max(pinned * BLOCK), "{space:?} {l:?}");
    assert!(space.pages <= l.pages.max(pinned * BLOCK), "{space:?} {l:?}");
    assert!(space.mallocspace <= l.mallocspace, "{space:?} {l:?}");
}

/// Runs one random history: no write is lost, and the sums and limits hold after each step.
fn history(seed: u64) {
    let mut rng = SplitMix64::new(seed);
    let c = cache(limits(20 * BLOCK, 12, 10 * BLOCK, 4096, true));
    let mut model: BTreeMap<(u32, i64), (usize, u8)> = BTreeMap::new();
    let mut held: Vec<BufRef> = Vec::new();
    let lens = [FRAG, 2 * FRAG, 3 * FRAG, BLOCK];
    for _ in 0..3000 {
        let (ino, lbn) = (rng.below(FILES.into()) as u32, rng.below(BLOCKS as u64) as i64);
        let key = BufKey::File(Ino(ino), lbn);
        let expected = model.get(&(ino, lbn)).copied();
        match (rng.below(20), expected) {
            (0..=6, Some((len, with))) => {
                assert_eq!(content(&c, ino, lbn, len), with, "seed {seed}: {key:?}");
            }
            (7..=11, expected) => {
                let len = expected.map_or(lens[rng.below(4) as usize], |(len, _)| len);
                let with = rng.below(255) as u8 + 1;
                let buf = fill(&c, ino, lbn, len, with);
                model.insert((ino, lbn), (len, with));
                if rng.below(4) == 0 {
                    held.push(buf);
                }
            }
            (12, _) => c.write_delayed().unwrap(),
            (13, _) => c.write_bufs(c.dirty_of(Ino(ino))).result().unwrap(),
            (14, _) => {
                let (from, to) = (rng.below(BLOCKS as u64) as i64, rng.below(BLOCKS as u64) as i64);
                held.retain(|b| {
                    b.key < BufKey::File(Ino(ino), from) || b.key > BufKey::File(Ino(ino), to)
                });
                c.invalidate_range(Ino(ino), from..=to);
                model.retain(|k, _| k.0 != ino || !(from..=to).contains(&k.1));
            }
            (15, _) => {
                held.retain(|b| b.key != key);
                c.invalidate(key);
                model.remove(&(ino, lbn));
            }
            (16, Some((len, with))) if len < BLOCK => {
                let Some(buf) = c.incore(key) else { continue };
                let is_locked = c.relocate(&buf, addr(ino, lbn), BLOCK, || {
                    // No thread may write or read the buffer before the move is recorded.
                    buf.io.try_lock().is_none() && buf.data.try_read().is_none()
                });
                assert!(is_locked);
                buf.write().bytes.fill(with);
                c.mark_dirty(&buf);
                model.insert((ino, lbn), (BLOCK, with));
            }
            (17, _) => held.clear(),
            (18, _) => {
                let n = |rng: &mut SplitMix64, most: u64| rng.below(most) as usize;
                let (pages, headers) = (n(&mut rng, 30) * BLOCK, n(&mut rng, 40));
                let (space, malloc) = (n(&mut rng, 20) * BLOCK, n(&mut rng, 16) * 512);
                let l = limits(pages, headers, space, malloc, rng.below(2) == 0);
                c.state.write().set_limits(l);
            }
            _ => c.state.write().age(key),
        }
        audit(&c, held.len());
    }
    held.clear();
    for ((ino, lbn), (len, with)) in model {
        assert_eq!(content(&c, ino, lbn, len), with, "seed {seed}: at the end, {ino} {lbn}");
    }
    audit(&c, 0);
}

#[test]
fn sums_limits_and_contents_hold_over_random_histories() {
    for seed in 0..40 {
        history(seed);
    }
}

#[test]
fn a_block_that_loses_its_header_is_found_in_pages_if_it_is_backed_by_them() {
    for vmiodir in [true, false] {
        let c = cache(limits(1 << 20, 4, 1 << 20, 1 << 20, vmiodir));
        for lbn in 0..8 {
            content(&c, 1, lbn, FRAG);
            content(&c, 9, lbn, FRAG);
        }
        let before = c.stats();
        assert_eq!((before.headers, before.directories.misses, before.data.misses), (4, 8, 8));
        content(&c, 1, 0, FRAG);
        content(&c, 9, 0, FRAG);
        let after = c.stats();
        assert_eq!(after.data.tier2_hits, 1);
        let (found, read) = (after.directories.tier2_hits, after.directories.misses - 8);
        assert_eq!((found, read), if vmiodir { (1, 0) } else { (0, 1) });
        assert_eq!(before.directories.evictions, if vmiodir { 0 } else { 6 });
    }
}

#[test]
fn small_private_blocks_come_in_units_of_512_while_there_is_space() {
    let c = cache(limits(1 << 20, 100, 1 << 20, 3 * 1024, false));
    for lbn in 0..4 {
        content(&c, 1, lbn, FRAG);
    }
    content(&c, 1, 4, 3 * FRAG);
    let s = c.stats();
    assert_eq!((s.bufmallocspace, s.bufspace, s.pagespace), (3 * 1024, 2 * 4096, 0));
    assert_eq!((s.waste, s.resident_directories), (3072 + 1024, 1));
    content(&c, 9, 0, FRAG);
    let s = c.stats();
    assert_eq!((s.bufspace, s.pagespace, s.data.tier1_bytes), (3 * 4096, 4096, 4096));
    c.invalidate_range(Ino(1), 0..=100);
    assert_eq!((c.stats().resident_directories, c.stats().bufmallocspace), (0, 0));
}

#[test]
fn a_change_of_policy_drops_directory_pages_but_no_dirty_block() {
    let c = cache(limits(1 << 20, 4, 1 << 20, 2048, true));
    for lbn in 0..8 {
        content(&c, 1, lbn, FRAG);
    }
    let dirty = fill(&c, 2, 0, FRAG, 7);
    drop(dirty);
    assert_eq!(c.stats().directories.tier2_blocks, 5);
    c.state.write().set_limits(limits(1 << 20, 4, 1 << 20, 2048, false));
    let s = c.stats();
    assert_eq!((s.directories.tier2_blocks, s.pagespace), (0, 0));
    assert_eq!((s.directories.tier1_blocks, s.bufmallocspace, s.bufspace), (4, 2048, 2 * 4096));
    c.state.write().set_limits(limits(1 << 20, 4, 1 << 20, 2048, true));
    let s = c.stats();
    assert_eq!((s.bufmallocspace, s.bufspace, s.pagespace), (0, 4 * 4096, 4 * 4096));
    c.write_delayed().unwrap();
    c.state.write().set_limits(limits(0, 0, 0, 0, true));
    assert_eq!(c.stats().headers, 0);
    assert_eq!(content(&c, 2, 0, FRAG), 7);
}

#[test]
fn a_write_cleans_its_own_buffer_only() {
    let c = cache(limits(1 << 20, 100, 1 << 20, 0, true));
    let old = fill(&c, 1, 0, FRAG, 1);
    c.invalidate(old.key);
    let new = fill(&c, 1, 0, FRAG, 2);
    c.state.write().set_clean(&old);
    assert!(new.is_dirty(), "the change of the new buffer would be lost");
    c.state.write().set_clean(&new);
    assert!(!new.is_dirty());
}

#[test]
fn limits_that_are_set_hold_for_dirty_blocks_too() {
    let mut values = TunableValues::default();
    let dirty = |v: &TunableValues| {
        let l = CacheLimits::of(&Tunables::new(v));
        (l.dirty, l.dirty_blocks)
    };
    assert_eq!(dirty(&values), (32 << 20, usize::MAX));
    values.set("nbuf", Some("100")).unwrap();
    values.set("hibufspace", Some("1m")).unwrap();
    assert_eq!(dirty(&values), (1 << 20, 45));
    let c = cache(CacheLimits { dirty_blocks: 2, ..limits(1 << 20, 100, 1 << 20, 0, true) });
    for (lbn, left) in [(0, 1), (1, 2), (2, 0)] {
        fill(&c, 9, lbn, FRAG, 1);
        if c.is_too_dirty() {
            c.write_delayed().unwrap();
        }
        assert_eq!(c.state.write().dirty.len(), left);
    }
}

/// FreeBSD's buffer daemon begins midway between the limit and `lodirtybuffers`, half of it.
#[test]
fn the_buffer_daemon_is_due_at_three_quarters_and_takes_the_oldest_third() {
    let c = cache(CacheLimits { dirty_blocks: 8, ..limits(1 << 20, 100, 1 << 20, 0, true) });
    for lbn in 0..9 {
        assert_eq!(c.buf_daemon_due(), lbn > 6, "{lbn} dirty");
        c.set_time(100 - lbn);
        fill(&c, 9, lbn, FRAG, 1);
    }
    let mut oldest: Vec<BufKey> = c.oldest_dirty().iter().map(|buf| buf.key).collect();
    oldest.sort_unstable();
    assert_eq!(oldest, [6, 7, 8].map(|lbn| BufKey::File(Ino(9), lbn)));
}

#[test]
fn hits_and_misses_are_counted_once_in_all_and_by_class() {
    let c = cache(limits(1 << 20, 3, 1 << 20, 0, true));
    for lbn in 0..6 {
        content(&c, 1, lbn, FRAG);
        fill(&c, 9, lbn, FRAG, 1);
    }
    c.write_delayed().unwrap();
    for lbn in 0..6 {
        content(&c, 1, lbn, FRAG);
        fill(&c, 9, lbn, FRAG, 2);
        drop(c.incore(BufKey::File(Ino(1), lbn)));
    }
    let (s, all) = (c.stats(), c.counters.values());
    let hits = [s.directories, s.data].map(|c| c.tier1_hits + c.tier2_hits);
    assert_eq!((hits, all.buf_hits), ([12, 6], 18));
    assert_eq!((s.directories.misses, all.buf_misses), (6, 6));
}

#[test]
fn blocks_that_come_back_from_pages_keep_the_limit_of_headers() {
    let c = cache(limits(1 << 20, 4, 1 << 20, 0, true));
    for lbn in (0..8).chain(0..8) {
        content(&c, 9, lbn, FRAG);
        assert!(c.stats().headers <= 4);
    }
    assert_eq!(c.stats().data.tier2_hits, 8);
}

/// Changes a block while its write is in flight.
#[derive(Default)]
struct Meddler(Mutex<Option<BufRef>>);

impl WriteHooks for Meddler {
    fn write_completed(&self, _: BufKey, _: WriteResult) -> bool {
        if let Some(buf) = self.0.lock().take() {
            buf.write().bytes.fill(9);
        }
        false
    }
}

#[test]
fn a_block_changed_while_it_was_written_stays_dirty() {
    let hooks = Arc::new(Meddler::default());
    let c = cache_with(limits(1 << 20, 4, 1 << 20, 0, true), hooks.clone());
    let buf = fill(&c, 1, 0, FRAG, 7);
    *hooks.0.lock() = Some(buf.clone());
    c.write_delayed().unwrap();
    assert!(buf.is_dirty(), "the change would be lost");
    c.write_delayed().unwrap();
    assert!(!buf.is_dirty());
    drop(buf);
    c.state.write().set_limits(limits(0, 0, 0, 0, true));
    assert_eq!(content(&c, 1, 0, FRAG), 9);
}

#[test]
fn a_block_that_moved_is_read_from_its_new_place() {
    let c = cache(limits(1 << 20, 4, 1 << 20, 0, true));
    fill(&c, 2, 0, FRAG, 5);
    c.write_delayed().unwrap();
    assert_eq!(content(&c, 1, 0, FRAG), 0);
    let moved = c.bread(DiskBlock { addr: addr(2, 0), ..block(1, 0, FRAG) }).unwrap();
    assert_eq!(moved.read().bytes[0], 5);
}

#[test]
fn evictions_by_a_change_of_policy_are_counted() {
    let c = cache(limits(1 << 20, 2, 1 << 20, 0, true));
    for lbn in 0..5 {
        content(&c, 1, lbn, FRAG);
    }
    let mut values = TunableValues::default();
    values.set("vmiodirenable", Some("0")).unwrap();
    c.retune(&Tunables::new(&values));
    assert_eq!((c.stats().directories.evictions, c.counters.values().buf_evictions), (3, 3));
}

/// Lookups take no lock that eviction holds throughout: neither may take a block from the other.
#[test]
fn threads_lose_no_change_while_blocks_lose_headers_and_memory() {
    let c = cache(limits(6 * BLOCK, 4, 4 * BLOCK, 2048, true));
    std::thread::scope(|scope| {
        for ino in 4..8 {
            let c = &c;
            scope.spawn(move || {
                let mut rng = SplitMix64::new(u64::from(ino));
                let mut model = BTreeMap::new();
                for step in 0..4000 {
                    let lbn = rng.below(5) as i64;
                    match (rng.below(8), model.get(&lbn)) {
                        (0..=2, Some(with)) => {
                            assert_eq!(content(c, ino, lbn, FRAG), *with, "seed {ino}, {step}");
                        }
                        (3, _) => c.write_delayed().unwrap(),
                        (4, _) => {
                            c.state.write().set_limits(limits(
                                6 * BLOCK,
                                3,
                                BLOCK,
                                1024,
                                ino % 2 == 0,
                            ));
                        }
                        _ => {
                            let with = rng.below(255) as u8 + 1;
                            drop(fill(c, ino, lbn, FRAG, with));
                            model.insert(lbn, with);
                        }
                    }
                }
            });
        }
    });
    audit(&c, 0);
}
