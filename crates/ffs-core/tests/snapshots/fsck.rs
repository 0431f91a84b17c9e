//! Crashes inside the check of a volume with snapshots: the next check repairs what is left, and
//! the snapshots show what they showed.

use super::common::World;
use super::crash::{Expected, check_repair, each_state, start, use_again};
use super::view::tree_of;
use super::{SHAPES, remove, snapshot, write_file};
use ffs_admin::fsck::{Fsck, FsckOptions, Id};
use ffs_device::record::Recorder;
use ffs_device::{BlockDevice, MemDevice};
use std::sync::Arc;

/// Files whose inodes fill more than a block, so that the last of them is not in the block of the
/// snapshot's inode.
const FILES: usize = 130;

/// A volume with a snapshot, of which a crash left a file without a name.
fn with_unnamed(shape: usize) -> (World, Expected) {
    let w = start(shape);
    (0..FILES).for_each(|n| write_file(&w.fs, &format!("f{n}"), &[]));
    write_file(&w.fs, "large", &[9; 150_000]);
    w.fs.sync().unwrap();
    let tree = tree_of(&w.fs);
    drop(snapshot(&w.fs, "snap"));
    w.fs.sync().unwrap();
    (w, Expected::from([("snap".to_owned(), tree)]))
}

/// What the device has when the name of `large` is removed, and its inode is not yet cleared.
fn crashed(w: &World) -> MemDevice {
    let base = w.record();
    remove(&w.fs, "large");
    w.fs.sync().unwrap();
    let mut found = None;
    each_state(&base, w.dev.take_events(), 1, |state, at| {
        let dev: Arc<dyn BlockDevice> = Arc::new(state.snapshot());
        let report = Fsck::new(dev, FsckOptions::no()).run();
        let has = |id| report.counts.contains_key(&id);
        if found.is_none() && at.contains("prefix") && (has(Id::InoUnref) || has(Id::InoUnref0)) {
            found = Some(state);
        }
    });
    found.unwrap()
}

#[test]
fn an_interrupted_check_leaves_every_snapshot_and_the_next_one_ends() {
    for shape in 0..SHAPES.len() {
        let (w, expected) = with_unnamed(shape);
        let state = crashed(&w);
        let recorder = Arc::new(Recorder::new(state.snapshot()));
        let dev: Arc<dyn BlockDevice> = Arc::clone(&recorder) as Arc<dyn BlockDevice>;
        let report = Fsck::new(dev, FsckOptions::preen()).run();
        assert_eq!(report.exit_code, 0, "shape {shape}: {:?}", report.findings);
        let mut states = 0;
        each_state(&state, recorder.take_events(), 2, |state, at| {
            let at = format!("shape {shape} {at}, repaired");
            let again: Arc<dyn BlockDevice> = Arc::new(state);
            check_repair(&again, &at);
            assert_eq!(use_again(again, &expected, &["snap"], &at), Some(1), "{at}");
            states += 1;
        });
        assert!(states > 10, "shape {shape}: {states} states");
    }
}
