//! FUSE over io_uring: the choice of the way, and what differs from `/dev/fuse`. All other tests
//! run both ways, see [`served`](crate::served).
//!
//! Where the kernel does not offer it, the tests report that, and check the refusal.

use crate::Test;
use crate::harness::{Image, Mnt, pattern};
use crate::served::{OVER_IO_URING, finish, offers_io_uring};
use crate::sys::FORBID;
use ffs_device::{BlockDevice, DeviceError, Durability, MemDevice};
use ffs_fuse::Disk;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

pub(crate) const TESTS: &[Test] = &[
    ("rings_the_way_of_requests_is_chosen", the_way_of_requests_is_chosen),
    ("rings_that_are_forbidden_are_done_without", forbidden_rings_are_done_without),
    ("rings_serve_callers_of_every_processor", callers_of_every_processor),
    ("rings_a_request_that_waits_holds_up_no_other", a_request_that_waits_holds_up_no_other),
    ("rings_removed_files_are_counted_at_once", removed_files_are_counted_at_once),
];

/// Whether the test can run. Otherwise it reports that it was skipped.
fn can_run(name: &str) -> bool {
    let offered = offers_io_uring();
    if !offered {
        println!("skipped: {name}: the kernel does not offer FUSE over io_uring");
    }
    offered
}

/// The processors on which this process may run.
pub(crate) fn processors() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect()
}

/// Binds the calling thread to a processor.
pub(crate) fn bind(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).unwrap();
}

/// An upper bound of what one [`use_it`] holds on the volume.
const USED: u64 = 4 << 20;

/// Writes, reads, lists and removes on a mount. Uses less than [`USED`] bytes at a time.
fn use_it(mount: &Mnt<'_>, name: &str) {
    let dir = mount.path(name);
    fs::create_dir(&dir).unwrap();
    for (n, len) in [0, 1, 4096, 70_000, 3 << 20].into_iter().enumerate() {
        let (file, content) = (dir.join(n.to_string()), pattern(n as u64, len));
        fs::write(&file, &content).unwrap();
        File::open(&file).unwrap().sync_all().unwrap();
        assert!(fs::read(&file).unwrap() == content, "{len} bytes");
    }
    std::os::unix::fs::symlink("a/target", dir.join("link")).unwrap();
    assert_eq!(fs::read_link(dir.join("link")).unwrap(), Path::new("a/target"));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 6);
    fs::remove_dir_all(&dir).unwrap();
    assert!(!dir.exists());
}

fn the_way_of_requests_is_chosen() {
    let image = Image::new();
    if !offers_io_uring() {
        let why = image.try_mount("io_uring=on").map(|_| ()).unwrap_err();
        assert!(why.contains("io_uring=on: the kernel does not offer"), "{why}");
        let mount = image.mount("io_uring=auto");
        assert_eq!(mount.notes, "");
        use_it(&mount, "d");
        return mount.end();
    }
    for (option, note) in
        [("io_uring=on", OVER_IO_URING), ("io_uring=auto", OVER_IO_URING), ("io_uring=off", "")]
    {
        let mount = image.mount(option);
        assert_eq!(mount.notes, note, "{option}");
        let values = ffs_fuse::Control::open(&image.mount_point()).unwrap().values().unwrap();
        let shown = if note.is_empty() { "dev" } else { "io_uring" };
        assert!(values.contains(&("vfs.ffs.transport".to_owned(), shown.to_owned())), "{option}");
        use_it(&mount, "d");
        mount.end();
    }
    // Two at once, one of which ends first.
    let other = Image::new();
    let (one, two) = (image.mount("io_uring=on"), other.mount("io_uring=on"));
    use_it(&one, "d");
    use_it(&two, "d");
    one.end();
    use_it(&two, "d");
    two.end();
}

fn forbidden_rings_are_done_without() {
    if !can_run("rings_that_are_forbidden_are_done_without") {
        return;
    }
    for (call, why) in [
        ("io_uring_setup", "no ring can be made: Operation not permitted"),
        ("io_uring_enter", "the kernel refused a ring: Operation not permitted"),
    ] {
        let image = Image::new();
        let mount = image.mount(&format!("io_uring=auto,{FORBID}{call}"));
        assert!(mount.notes.contains("requests pass over /dev/fuse"), "{}", mount.notes);
        assert!(mount.notes.contains(why), "{}", mount.notes);
        use_it(&mount, "d");
        mount.end();
        let options = format!("io_uring=on,{FORBID}{call}");
        let error = image.try_mount(&options).map(|_| ()).unwrap_err();
        assert!(error.contains("io_uring=on") && error.contains(why), "{error}");
        let error = image.unmount().unwrap_err().to_string();
        assert!(error.contains("nothing is mounted there"), "{error}");
        image.check();
    }
}

fn callers_of_every_processor() {
    if !can_run("rings_serve_callers_of_every_processor") {
        return;
    }
    const EACH: u64 = 12;
    // All callers may hold their files at the same time.
    let callers = EACH * processors().len() as u64;
    let image = Image::of_bytes((64 << 20) + callers * USED);
    let mount = image.mount("io_uring=on,entry_timeout=0,attr_timeout=0");
    std::thread::scope(|s| {
        for thread in 0..EACH {
            let mount = &mount;
            for processor in processors() {
                s.spawn(move || {
                    bind(processor);
                    use_it(mount, &format!("{processor}.{thread}"));
                });
            }
        }
    });
    mount.end();
}

/// A disk whose flushes wait while it is stopped.
struct SlowDisk {
    disk: MemDevice,
    flushes: Mutex<Flushes>,
    changed: Condvar,
}

#[derive(Default)]
struct Flushes {
    stopped: bool,
    /// Flushes that wait.
    waiting: usize,
}

impl SlowDisk {
    fn stop(&self) {
        self.flushes.lock().unwrap().stopped = true;
    }

    fn resume(&self) {
        self.flushes.lock().unwrap().stopped = false;
        self.changed.notify_all();
    }

    /// Waits until a flush waits.
    fn wait_for_flush(&self) {
        let flushes = self.flushes.lock().unwrap();
        drop(self.changed.wait_while(flushes, |flushes| flushes.waiting == 0).unwrap());
    }
}

impl BlockDevice for SlowDisk {
    fn len_bytes(&self) -> u64 {
        self.disk.len_bytes()
    }
    fn sector_size(&self) -> u32 {
        self.disk.sector_size()
    }
    fn durability(&self) -> Durability {
        self.disk.durability()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.disk.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.disk.write_at(offset, buf)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        let mut flushes = self.flushes.lock().unwrap();
        flushes.waiting += 1;
        self.changed.notify_all();
        flushes = self.changed.wait_while(flushes, |flushes| flushes.stopped).unwrap();
        flushes.waiting -= 1;
        drop(flushes);
        self.disk.flush()
    }
}

fn a_request_that_waits_holds_up_no_other() {
    if !can_run("rings_a_request_that_waits_holds_up_no_other") {
        return;
    }
    let image = Image::new();
    let slow = Arc::new(SlowDisk {
        disk: MemDevice::from_bytes(&fs::read(image.path()).unwrap()),
        flushes: Mutex::default(),
        changed: Condvar::new(),
    });
    let place = tempfile::tempdir().unwrap();
    let disk = Disk::serve(slow.clone(), place.path()).unwrap();
    let options = "io_uring=on,entry_timeout=0,attr_timeout=0,negative_timeout=0";
    let mut mount = image.serve(&disk.path(), options).unwrap();
    let file = mount.create("waits");
    let other = mount.create("other");
    let synced = AtomicBool::new(false);
    slow.stop();
    std::thread::scope(|s| {
        let caller = s.spawn(|| {
            // All requests are of one processor: threads inherit it.
            bind(processors()[0]);
            std::thread::scope(|s| {
                s.spawn(|| {
                    file.write_all_at(b"content", 0).unwrap();
                    file.sync_all().unwrap();
                    synced.store(true, Ordering::SeqCst);
                });
                slow.wait_for_flush();
                let (done, calls) = channel();
                let (mount, other, synced) = (&mount, &other, &synced);
                s.spawn(move || {
                    for _ in 0..200 {
                        assert_eq!(other.metadata().unwrap().len(), 0);
                        assert!(fs::metadata(mount.path("missing")).is_err());
                        assert!(fs::metadata(mount.path("other")).is_ok());
                    }
                    done.send(!synced.load(Ordering::SeqCst)).unwrap();
                });
                // They end while the fsync waits, or only after it.
                let meanwhile = calls.recv_timeout(Duration::from_secs(60));
                slow.resume();
                assert_eq!(meanwhile, Ok(true));
            });
        });
        caller.join().unwrap();
    });
    drop((file, other));
    image.unmount().unwrap();
    finish(mount.server.as_mut().unwrap());
}

/// The kernel reports a removed file by `/dev/fuse`, other requests pass over a ring.
fn removed_files_are_counted_at_once() {
    if !can_run("rings_removed_files_are_counted_at_once") {
        return;
    }
    let image = Image::new();
    let mount = image.mount("io_uring=on");
    let free = || rustix::fs::statvfs(image.mount_point()).unwrap().f_bfree;
    fs::write(mount.path("f"), b"").unwrap();
    let before = free();
    for n in 0..50 {
        fs::write(mount.path("big"), pattern(n, 1 << 20)).unwrap();
        assert!(free() < before, "{n}");
        fs::remove_file(mount.path("big")).unwrap();
        assert_eq!(free(), before, "{n}");
    }
    mount.end();
}
