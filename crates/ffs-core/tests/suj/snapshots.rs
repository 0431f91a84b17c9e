//! Snapshots on a mount with a journal: the journal is not kept while there are any.

use crate::common::{START, mount_on};
use crate::{SHAPES, journaled_volume, options};
use ffs_admin::fsck::{Fsck, FsckOptions, FsckReport, JournalUse, Mode, quick_check};
use ffs_core::{Cred, Ffs, Vnode, WriteMode};
use ffs_device::{BlockDevice, MemDevice};
use std::sync::Arc;

fn write(fs: &Ffs, root: &Vnode, names: std::ops::Range<u32>) {
    for n in names {
        let name = format!("file {n}");
        let made =
            fs.create(&Cred::root(), root, name.as_bytes(), ffs_core::NodeKind::Regular, 0o644);
        let file = made.unwrap();
        fs.write(&Cred::root(), &file, 0, &[n as u8; 9000], WriteMode::default()).unwrap();
    }
}

/// All bytes of a snapshot.
fn bytes_of(fs: &Ffs, snapshot: &Vnode) -> Vec<u8> {
    let mut bytes = vec![0; fs.getattr(snapshot).size as usize];
    let read = fs.read(snapshot, 0, &mut bytes).unwrap();
    assert_eq!(read, bytes.len());
    bytes
}

fn preen(dev: MemDevice) -> (FsckReport, Arc<dyn BlockDevice>) {
    let dev = Arc::new(dev) as Arc<dyn BlockDevice>;
    let preen = FsckOptions { mode: Mode::Preen, ..FsckOptions::default() };
    let report = Fsck::new(Arc::clone(&dev), preen.at(START + 500)).run();
    assert_eq!(report.exit_code, 0, "{report:#?}");
    assert!(quick_check(&dev).is_empty());
    (report, dev)
}

#[test]
fn the_journal_is_kept_again_when_the_last_snapshot_is_removed() {
    for shape in SHAPES {
        let w = mount_on(journaled_volume(shape), &options(None));
        let c = Cred::root();
        write(&w.fs, &w.root, 0..20);
        assert!(w.fs.journal_stats().kept);
        let (snapshot, _) = w.fs.snapshot(&c, &w.root, b"snap").unwrap();
        assert!(!w.fs.journal_stats().kept, "{shape:?}");
        let before = bytes_of(&w.fs, &snapshot);
        write(&w.fs, &w.root, 20..60);
        w.fs.sync().unwrap();
        w.fs.tick().unwrap();
        assert!(!w.fs.journal_stats().kept, "{shape:?}: there is a snapshot");
        assert!(bytes_of(&w.fs, &snapshot) == before, "{shape:?}: the snapshot changed");

        // A crash now needs a full check, which finds only what soft updates leave.
        let (report, _) = preen(w.dev.inner().snapshot());
        assert!(!matches!(report.journal, Some(JournalUse::Recovered(_))), "{report:#?}");

        drop(snapshot);
        w.fs.unlink(&c, &w.root, b"snap").unwrap();
        let used = w.get(&w.root, "file 3").unwrap();
        w.fs.unlink(&c, &w.root, b"file 3").unwrap();
        w.fs.sync().unwrap();
        w.fs.tick().unwrap();
        assert!(!w.fs.journal_stats().kept, "{shape:?}: a file without a name is in use");
        drop(used);
        w.fs.sync().unwrap();
        w.fs.tick().unwrap();
        assert!(w.fs.journal_stats().kept, "{shape:?}");

        write(&w.fs, &w.root, 60..80);
        for n in 30..40 {
            w.fs.unlink(&c, &w.root, format!("file {n}").as_bytes()).unwrap();
        }
        w.fs.fsync(&w.root).unwrap();
        let (report, _) = preen(w.dev.inner().snapshot());
        assert!(matches!(report.journal, Some(JournalUse::Recovered(_))), "{report:#?}");
    }
}
