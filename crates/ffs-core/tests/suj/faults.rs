//! Errors of the device while a journal is kept.

use crate::common::START;
use crate::{SHAPES, journaled_volume, options};
use ffs_admin::fsck::{Fsck, FsckOptions, JournalUse, Mode, quick_check};
use ffs_core::{Cred, Env, Ffs, NodeKind, Vnode};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::fault::{EIO, Fault, FaultInjector, Rule};
use ffs_device::{BlockDevice, MemDevice, Operation};
use std::sync::Arc;

/// Enough for several blocks of inodes of any shape.
const FILES: u32 = 300;

fn mount(dev: &Arc<FaultInjector<MemDevice>>) -> Ffs {
    let clock = Arc::new(ManualClock::new(Timestamp::new(START, 0)));
    Ffs::mount(Arc::clone(dev) as Arc<dyn BlockDevice>, &options(None), Env::seeded(clock, 1))
        .unwrap()
}

fn create(fs: &Ffs, root: &Vnode, n: u32) -> ffs_core::Result<Vnode> {
    fs.create(&Cred::root(), root, format!("file {n}").as_bytes(), NodeKind::Regular, 0o644)
}

/// The number of an inode whose block cannot be read is given back, and the next file may get it.
/// The journal must not name that file as one that has no name.
#[test]
fn a_recovery_keeps_a_file_that_was_made_after_a_failed_read() {
    for shape in SHAPES {
        let dev = Arc::new(FaultInjector::new(journaled_volume(shape), Vec::new()));
        let fs = mount(&dev);
        let root = fs.root().unwrap();
        (0..FILES).for_each(|n| drop(create(&fs, &root, n).unwrap()));
        for n in 0..FILES {
            fs.unlink(&Cred::root(), &root, format!("file {n}").as_bytes()).unwrap();
        }
        drop(root);
        fs.unmount().unwrap();

        let fs = mount(&dev);
        let root = fs.root().unwrap();
        let mut failed = 0;
        for n in 0..FILES {
            dev.add(Rule::new(Operation::Read, Fault::Errno(EIO)).times(1));
            let made = create(&fs, &root, n);
            dev.heal();
            if made.is_err() {
                failed += 1;
                // A segment records the inode that was taken.
                fs.sync().unwrap();
                create(&fs, &root, n).unwrap();
            }
        }
        assert!(failed > 1, "{shape:?}");
        fs.sync().unwrap();
        fs.sync().unwrap();

        let crashed = Arc::new(dev.inner().snapshot()) as Arc<dyn BlockDevice>;
        let preen = FsckOptions { mode: Mode::Preen, ..FsckOptions::default() };
        let report = Fsck::new(Arc::clone(&crashed), preen.at(START + 500)).run();
        assert!(matches!(report.journal, Some(JournalUse::Recovered(_))), "{shape:?} {report:#?}");
        assert!(quick_check(&crashed).is_empty(), "{shape:?}: {:#?}", quick_check(&crashed));
    }
}
