//! The memory that soft updates report (`debug.softdep.mem`), compared with the memory that they
//! allocate.
//!
//! A counting allocator counts the live bytes of the test's thread. The same operations run under
//! soft updates and without ordering, with the same caches: the difference of the two counts is the
//! memory of the engine. Nothing is written in between, so both have the same dirty buffers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]
#![allow(unsafe_code, reason = "an allocator")]

mod common;

use common::{World, mount_recorded};
use ffs_core::{Cred, MountOptions, OrderingPolicy, RenameMode, Vnode, WriteMode};
use ffs_device::record::Level;
use ffs_ondisk::{Endian, Format};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Files of a workload.
const FILES: usize = 4000;
/// The figures may differ by one part in so many.
const TOLERANCE: isize = 10;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(by: isize) {
    // At the end of a thread its counter is destroyed.
    let _ = LIVE.try_with(|live| live.set(live.get() + by));
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

type Step = fn(&World, &Vnode);

fn volume(policy: OrderingPolicy) -> World {
    let mut opts = MountOptions { ordering: policy, ..MountOptions::default() };
    // No buffer is written, and no inode recycled, for lack of memory.
    opts.tunables.cache = 256 << 20;
    opts.tunables.maxvnodes = 200_000;
    let bytes = (FILES as u64 * (24 << 10)).max(64 << 20);
    let dev = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 16384, 2048, bytes).unwrap();
    mount_recorded(dev, &opts, Level::Count)
}

fn reported(w: &World) -> isize {
    let all = w.fs.gauges();
    let gauge = all.iter().find(|gauge| gauge.name == "debug.softdep.mem");
    gauge.map_or(0, |gauge| isize::try_from(gauge.value).unwrap())
}

/// Bytes that `change` allocates and keeps, and by how much the reported memory grows. `prepare`
/// comes before, and is durable.
fn grown(policy: OrderingPolicy, prepare: Step, change: Step) -> (isize, isize) {
    let w = volume(policy);
    let dir = w.dir(&w.root, "d");
    prepare(&w, &dir);
    w.fs.sync().unwrap();
    let before = (LIVE.get(), reported(&w));
    change(&w, &dir);
    let after = (LIVE.get(), reported(&w));
    drop(dir);
    w.end();
    (after.0 - before.0, after.1 - before.1)
}

fn nothing(_: &World, _: &Vnode) {}

fn create(w: &World, dir: &Vnode) {
    for number in 0..FILES {
        drop(w.file(dir, &format!("f{number:05}")));
    }
}

fn create_with_content(w: &World, dir: &Vnode) {
    for number in 0..FILES {
        let file = w.file(dir, &format!("f{number:05}"));
        w.fs.write(&Cred::root(), &file, 0, &[1; 3000], WriteMode::default()).unwrap();
    }
}

fn make_directories(w: &World, dir: &Vnode) {
    for number in 0..FILES / 4 {
        drop(w.dir(dir, &format!("d{number:05}")));
    }
}

fn rename(w: &World, dir: &Vnode) {
    for number in 0..FILES {
        let (old, new) = (format!("f{number:05}"), format!("r{number:05}"));
        let (from, to) = ((dir, old.as_bytes()), (dir, new.as_bytes()));
        w.fs.rename(&Cred::root(), from, to, RenameMode::Replace).unwrap();
    }
}

#[test]
fn the_reported_memory_is_what_is_allocated() {
    let workloads: [(&str, Step, Step); 4] = [
        ("create", nothing, create),
        ("create with content", nothing, create_with_content),
        ("mkdir", nothing, make_directories),
        ("rename", create, rename),
    ];
    for (name, prepare, change) in workloads {
        let (base, _) = grown(OrderingPolicy::None, prepare, change);
        let (soft, reported) = grown(OrderingPolicy::SoftUpdates, prepare, change);
        let allocated = soft - base;
        println!("{name}: {allocated} bytes allocated, {reported} reported, {base} without");
        let difference = (allocated - reported).abs();
        assert!(allocated > 100 * FILES as isize / 4, "{name}: {allocated} bytes");
        assert!(
            difference * TOLERANCE <= allocated,
            "{name}: {allocated} bytes allocated, {reported} reported"
        );
    }
}
