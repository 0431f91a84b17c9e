//! Data reported as durable is on the device, even if other operations failed.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common;
use crate::common::errno;
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_core::{
    Cred, Env, Error, Fallocate, Ffs, MountOptions, NodeKind, OrderingPolicy, SetAttr, SetIdBits,
    SetTime, TunableValues, Vnode, WriteMode, XattrNamespace, XattrSet,
};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::fault::{Fault, FaultInjector, Rule};
use ffs_device::{BlockDevice, MemDevice, Operation};
use ffs_ondisk::{Endian, FileFlags, Format, Timespec};
use std::sync::Arc;

const EIO: i32 = 5;
const EBUSY: i32 = 16;

type Dev = Arc<FaultInjector<MemDevice>>;

fn device() -> Dev {
    let mem = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 16384, 2048, 32 << 20).unwrap();
    Arc::new(FaultInjector::new(mem, Vec::new()))
}

fn mount(dev: &Dev, opts: MountOptions) -> Ffs {
    let clock = Arc::new(ManualClock::new(Timestamp::new(common::START, 0)));
    let dev = Arc::clone(dev) as Arc<dyn BlockDevice>;
    Ffs::mount(dev, &opts, Env::seeded(clock, 1)).unwrap()
}

fn with(ordering: OrderingPolicy) -> MountOptions {
    MountOptions { ordering, ..MountOptions::default() }
}

/// A new file in the root directory with this content.
fn file(fs: &Ffs, name: &str, content: &[u8]) -> Vnode {
    let root = fs.root().unwrap();
    let c = Cred::root();
    let v = fs.create(&c, &root, name.as_bytes(), NodeKind::Regular, 0o644).unwrap();
    if !content.is_empty() {
        assert_eq!(write(fs, &v, 0, content).unwrap(), content.len());
    }
    v
}

fn write(fs: &Ffs, v: &Vnode, off: u64, bytes: &[u8]) -> ffs_core::Result<usize> {
    fs.write(&Cred::root(), v, off, bytes, WriteMode::default())
}

/// The content of the file after a loss of power now.
fn after_crash(dev: &Dev, name: &str) -> Vec<u8> {
    let dev: Dev = Arc::new(FaultInjector::new(dev.inner().snapshot(), Vec::new()));
    let fs = mount(&dev, MountOptions { read_only: true, ..MountOptions::default() });
    let v = fs.lookup(&Cred::root(), &fs.root().unwrap(), name.as_bytes()).unwrap();
    let mut content = vec![0; fs.getattr(&v).size as usize];
    let n = fs.read(&v, 0, &mut content).unwrap();
    assert_eq!(n, content.len());
    content
}

#[test]
fn fdatasync_of_a_file_that_left_memory_in_between() {
    let dev = device();
    let fs = mount(
        &dev,
        MountOptions {
            tunables: TunableValues { maxvnodes: 1, ..TunableValues::default() },
            ..with(OrderingPolicy::Sync)
        },
    );
    let content = vec![7; 50_000];
    let a = file(&fs, "a", b"");
    let ino = a.ino();
    let root = fs.root().unwrap();
    for i in 0..10 {
        file(&fs, &format!("other{i}"), b"");
    }
    fs.sync().unwrap();
    write(&fs, &a, 0, &content).unwrap();
    drop(a);
    for i in 0..10 {
        fs.lookup(&Cred::root(), &root, format!("other{i}").as_bytes()).unwrap();
    }
    let loaded = fs.counters().inodes_loaded;
    let v = fs.vget(ino, None).unwrap();
    assert!(fs.counters().inodes_loaded > loaded, "it had left memory");
    fs.fdatasync(&v).unwrap();
    assert!(after_crash(&dev, "a") == content);
}

#[test]
fn a_removed_file_that_cannot_be_freed_does_not_affect_other_files() {
    for ordering in [OrderingPolicy::Sync, OrderingPolicy::None] {
        let dev = device();
        let fs = mount(&dev, with(ordering));
        let content = vec![7; 50_000];
        file(&fs, "kept", &content);
        let removed = file(&fs, "removed", &[1; 300_000]);
        fs.sync().unwrap();
        let more = vec![8; 60_000];
        let kept = fs.lookup(&Cred::root(), &fs.root().unwrap(), b"kept").unwrap();
        write(&fs, &kept, 0, &more).unwrap();
        fs.unlink(&Cred::root(), &fs.root().unwrap(), b"removed").unwrap();
        dev.add(Rule::new(Operation::Write, Fault::Errno(EIO)).times(1));
        assert_eq!(errno(fs.unmount()), EIO);
        assert!(after_crash(&dev, "kept") == more, "{ordering:?}");
        drop(removed);
    }
}

#[test]
fn a_bad_place_under_one_file_does_not_fail_writes_to_others() {
    let dev = device();
    let fs = mount(
        &dev,
        MountOptions {
            tunables: TunableValues { cache: 2 << 20, ..TunableValues::default() },
            ..with(OrderingPolicy::None)
        },
    );
    let bad = file(&fs, "bad", &vec![1; 16384]);
    fs.sync().unwrap();
    let before = dev.inner().snapshot().to_vec();
    write(&fs, &bad, 0, &vec![2; 16384]).unwrap();
    fs.fdatasync(&bad).unwrap();
    let after = dev.inner().snapshot().to_vec();
    let at = (0..before.len())
        .step_by(2048)
        .find(|&i| before[i..i + 16] == [1; 16] && after[i..i + 16] == [2; 16])
        .unwrap() as u64;
    dev.add(Rule::new(Operation::Write, Fault::Errno(EIO)).within(at..at + 16384));
    write(&fs, &bad, 0, &vec![3; 16384]).unwrap();
    let good = file(&fs, "good", b"");
    let part = vec![5; 3 << 20];
    for i in 0..3 {
        assert_eq!(write(&fs, &good, i * part.len() as u64, &part).unwrap(), part.len());
    }
    fs.fsync(&good).unwrap();
    assert_eq!(errno(fs.fsync(&bad)), EIO);
    assert_eq!(errno(fs.sync()), EIO);
    dev.heal();
    fs.sync().unwrap();
    assert!(after_crash(&dev, "bad") == vec![3; 16384]);
}

#[test]
fn read_only_only_when_no_removed_file_is_in_use() {
    let dev = device();
    let fs = mount(&dev, with(OrderingPolicy::Sync));
    let removed = file(&fs, "removed", b"still here");
    fs.unlink(&Cred::root(), &fs.root().unwrap(), b"removed").unwrap();
    assert!(matches!(fs.remount(true), Err(Error::Busy(_))));
    assert_eq!(errno(fs.remount(true)), EBUSY);
    assert!(!fs.is_read_only());
    let mut content = [0; 10];
    assert_eq!(fs.read(&removed, 0, &mut content).unwrap(), 10);
    assert_eq!(&content, b"still here");
    drop(removed);
    fs.remount(true).unwrap();
}

#[test]
fn threads_that_flush_at_once_write_each_block_once() {
    let dev = device();
    let fs = mount(&dev, with(OrderingPolicy::None));
    let v = file(&fs, "a", &vec![1; 8 << 20]);
    fs.sync().unwrap();
    write(&fs, &v, 0, &vec![2; 8 << 20]).unwrap();
    let before = fs.counters().bytes_written;
    let start = std::sync::Barrier::new(4);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                start.wait();
                fs.fdatasync(&v).unwrap();
            });
        }
    });
    let written = fs.counters().bytes_written - before;
    assert!(written < 9 << 20, "{written} bytes written for 8 MB");
}

#[test]
fn an_unmount_that_failed_can_be_repeated() {
    let disk = Arc::new(FaultInjector::new(
        ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 16384, 2048, 8 << 20).unwrap(),
        Vec::new(),
    ));
    let opts = MountOptions { ordering: OrderingPolicy::None, ..MountOptions::default() };
    let fs = Ffs::mount(disk.clone(), &opts, Env::system()).unwrap();
    let root = Cred::root();
    let file = fs.create(&root, &fs.root().unwrap(), b"f", NodeKind::Regular, 0o644).unwrap();
    fs.write(&root, &file, 0, b"kept", WriteMode::default()).unwrap();
    disk.add(Rule::new(Operation::Write, Fault::Errno(28)));
    assert!(fs.unmount().is_err());
    assert!(fs.unmount().is_err(), "a second try must not pretend");
    disk.heal();
    fs.unmount().unwrap();
    let again = Ffs::mount(disk, &opts, Env::system()).unwrap();
    let file = again.lookup(&root, &again.root().unwrap(), b"f").unwrap();
    let mut buf = [0; 4];
    assert_eq!(again.read(&file, 0, &mut buf).unwrap(), 4);
    assert_eq!(&buf, b"kept");
}

#[test]
fn fsynced_files_outlive_a_kill_in_inode_blocks_made_for_them() {
    for ordering in [OrderingPolicy::Sync, OrderingPolicy::None] {
        let disk = Arc::new(
            ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 16384, 2048, 16 << 20).unwrap(),
        );
        let opts = MountOptions { ordering, ..MountOptions::default() };
        let fs = Ffs::mount(disk.clone(), &opts, Env::system()).unwrap();
        let (root, top) = (Cred::root(), fs.root().unwrap());
        let mut inodes = Vec::new();
        for i in 0..400 {
            let name = format!("file{i}");
            let file = fs.create(&root, &top, name.as_bytes(), NodeKind::Regular, 0o644).unwrap();
            fs.write(&root, &file, 0, name.as_bytes(), WriteMode::default()).unwrap();
            fs.fsync(&file).unwrap();
            inodes.push((fs.getattr(&file).ino, name));
        }
        let killed: Arc<dyn BlockDevice> = Arc::new(disk.snapshot());
        let yes = FsckOptions { force: true, ..FsckOptions::yes() };
        let report = Fsck::new(killed.clone(), yes).run();
        assert!(report.clean, "{ordering:?}: {report:?}");
        let again = Ffs::mount(killed, &opts, Env::system()).unwrap();
        for (ino, content) in inodes {
            let file = again.vget(ino, None).unwrap_or_else(|e| panic!("{ordering:?} {ino}: {e}"));
            let mut buf = vec![0; content.len()];
            assert_eq!(again.read(&file, 0, &mut buf).unwrap(), content.len());
            assert_eq!(buf, content.as_bytes());
        }
    }
}

/// The attributes that the test compares.
type Seen = (u16, u32, u32, i64, i64, FileFlags, Option<Vec<u8>>);

fn seen(fs: &Ffs, v: &Vnode) -> Seen {
    let (a, name) = (fs.getattr(v), b"note");
    let note = fs.getxattr(&Cred::root(), v, XattrNamespace::User, name).ok();
    (a.perm, a.uid, a.gid, a.atime.secs, a.mtime.secs, a.flags, note)
}

/// Mode, owner, times, flags and extended attributes are on the device when an fsync returns, and
/// on a `stable` mount when the call that set them returns.
#[test]
fn attributes_are_durable_after_fsync_and_on_a_stable_mount_at_once() {
    for stable in [false, true] {
        let dev = device();
        let fs = mount(&dev, MountOptions { stable, ..with(OrderingPolicy::SoftUpdates) });
        let c = Cred::root();
        let v = file(&fs, "f", b"content");
        fs.sync().unwrap();
        let before = seen(&fs, &v);
        let at = |secs| Some(SetTime::To(Timespec { secs, nsec: 7 }));
        let none = SetAttr::default();
        let changes = [
            SetAttr { perm: Some(0o4750), ..none },
            SetAttr { uid: Some(70_000), gid: Some(9), set_id: SetIdBits::Keep, ..none },
            SetAttr { atime: at(1_000_000), mtime: at(2_000_000), ..none },
            SetAttr { flags: Some(FileFlags::UF_NODUMP), ..none },
        ];
        let after = |what: &str| {
            let left: Dev = Arc::new(FaultInjector::new(dev.inner().snapshot(), Vec::new()));
            let left = mount(&left, MountOptions { read_only: true, ..MountOptions::default() });
            let found = left.lookup(&c, &left.root().unwrap(), b"f").unwrap();
            assert_eq!(seen(&left, &found), seen(&fs, &v), "stable: {stable}: {what}");
        };
        fs.fallocate(&c, &v, 0, 60_000, Fallocate::Allocate).unwrap();
        if !stable {
            fs.fsync(&v).unwrap();
        }
        after("allocated space");
        for change in &changes {
            fs.setattr(&c, &v, change).unwrap();
            if !stable {
                fs.fsync(&v).unwrap();
            }
            after(&format!("{change:?}"));
        }
        fs.setxattr(&c, &v, XattrNamespace::User, b"note", &[5; 100], XattrSet::Any).unwrap();
        if !stable {
            fs.fsync(&v).unwrap();
        }
        after("an extended attribute");
        let now = seen(&fs, &v);
        assert!(before.0 != now.0 && before.1 != now.1 && before.4 != now.4 && now.6.is_some());
    }
}

/// Space freed by a removal is available a minute later without further calls.
#[test]
fn space_comes_back_within_a_minute() {
    let dev = device();
    let clock = Arc::new(ManualClock::new(Timestamp::new(common::START, 0)));
    let env = Env::seeded(clock.clone(), 1);
    let options = with(OrderingPolicy::SoftUpdates);
    let fs = Ffs::mount(Arc::clone(&dev) as Arc<dyn BlockDevice>, &options, env).unwrap();
    // Without the space that is still to be freed.
    let free = || {
        let totals = fs.statfs().totals;
        (totals.nbfree, totals.nffree, totals.nifree)
    };
    let pass = |seconds| {
        for _ in 0..seconds {
            clock.advance(std::time::Duration::from_secs(1));
            fs.tick().unwrap();
        }
    };
    let before = free();
    for n in 0..20 {
        drop(file(&fs, &format!("f{n}"), &[3; 300_000]));
    }
    fs.sync().unwrap();
    let full = free();
    let root = fs.root().unwrap();
    for n in 0..20 {
        fs.unlink(&Cred::root(), &root, format!("f{n}").as_bytes()).unwrap();
    }
    assert_eq!(free(), full, "the device still has the names");
    pass(60);
    assert_eq!(free(), before);
}
