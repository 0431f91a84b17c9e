//! What has been promised to be on the device is there when the server is killed.

use crate::Test;
use crate::harness::{Image, pattern};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::Write;
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("fsync_makes_files_durable", fsync_makes_files_durable),
    ("the_syncer_bounds_what_is_lost", the_syncer_bounds_what_is_lost),
];

fn fsync_makes_files_durable() {
    for options in ["sync", "async", "async,writeback"] {
        let image = Image::new();
        let m = image.mount(options);
        fs::create_dir(m.path("d")).unwrap();
        let data = pattern(4, 700_000);
        let mut f = File::create(m.path("d/f")).unwrap();
        f.write_all(&data).unwrap();
        f.sync_all().unwrap();
        File::open(m.path("d")).unwrap().sync_all().unwrap();
        File::open(m.path("")).unwrap().sync_all().unwrap();
        f.write_all(b"and more, without a sync").unwrap();
        drop(f);
        assert_eq!(m.signal(Signal::KILL), None);
        image.unmount().unwrap();
        image.repair();
        let m = image.mount("ro");
        let back = fs::read(m.path("d/f")).unwrap();
        assert!(back[..data.len()] == data[..], "{options}");
        m.end();
    }
}

/// The syncer runs the core's periodic writes. Without it only fsync would write. The test sees the
/// device change without a sync.
fn the_syncer_bounds_what_is_lost() {
    let image = Image::new();
    let m = image.mount("async");
    let server = m.server.as_ref().unwrap().id();
    let names = || -> Vec<String> {
        let threads = fs::read_dir(format!("/proc/{server}/task")).unwrap();
        let comm =
            |t: std::io::Result<fs::DirEntry>| fs::read_to_string(t.unwrap().path().join("comm"));
        threads.map(|t| comm(t).unwrap().trim().to_owned()).collect()
    };
    // A thread names itself when it first runs.
    let deadline = Instant::now() + Duration::from_secs(10);
    let runs = |name: &str| names().iter().any(|n| n == name);
    // A thread that serves requests has its name by the way of requests.
    while !(runs("syncer") && runs("signals") && (runs("worker 0") || runs("queue 0"))) {
        assert!(Instant::now() < deadline, "{:?}", names());
    }
    m.end();
}
