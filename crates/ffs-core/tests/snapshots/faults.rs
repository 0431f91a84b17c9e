//! Failed transfers, full volumes, and other threads, while snapshots are made, kept up and
//! removed.

use super::common::{START, mount_on, soft_updates, soft_volume};
use super::crash::{check_repair, use_again};
use super::view::{findings, image_of, tree_of, view_of};
use super::{SHAPES, check_volume, remove, snapshot, write_file};
use ffs_core::{Cred, Env, Error, Ffs, NodeKind};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::fault::{EIO, Fault, FaultInjector, Rule};
use ffs_device::{BlockDevice, Durability, MemDevice, Operation};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) type Faulty = Arc<FaultInjector<MemDevice>>;

/// A mounted volume with the files `a`, of 60,000 bytes, and `b`, of 700.
pub(crate) fn mounted(shape: usize) -> (Faulty, Ffs) {
    let dev = soft_volume(SHAPES[shape], 4 << 20).with_durability(Durability::OnFlush);
    let dev = Arc::new(FaultInjector::new(dev, Vec::new()));
    let clock = Arc::new(ManualClock::new(Timestamp::new(START, 0)));
    let device: Arc<dyn BlockDevice> = Arc::clone(&dev) as Arc<dyn BlockDevice>;
    let fs = Ffs::mount(device, &soft_updates(), Env::seeded(clock, 1)).unwrap();
    write_file(&fs, "a", &[1; 60_000]);
    write_file(&fs, "b", &[2; 700]);
    fs.sync().unwrap();
    (dev, fs)
}

/// What the device has now, after a check.
fn repaired(dev: &Faulty, at: &str) -> Arc<dyn BlockDevice> {
    let state: Arc<dyn BlockDevice> = Arc::new(dev.inner().snapshot());
    check_repair(&state, at);
    state
}

#[test]
fn a_failed_transfer_while_blocks_are_copied_loses_nothing_of_a_snapshot() {
    for operation in [Operation::Write, Operation::Flush, Operation::Read] {
        for nth in 1..=24 {
            let at = format!("{operation:?} {nth}");
            let (dev, fs) = mounted(nth as usize % SHAPES.len());
            let tree = tree_of(&fs);
            let snap = snapshot(&fs, "snap");
            dev.add(Rule::new(operation, Fault::Errno(EIO)).nth(nth));
            write_file(&fs, "a", &[3; 60_000]);
            let failed = fs.sync().is_err();
            let expected = BTreeMap::from([("snap".to_owned(), tree.clone())]);
            let now = format!("{at}, at once");
            use_again(repaired(&dev, &now), &expected, &["snap"], &now);
            remove(&fs, "b");
            let _ = fs.sync();
            dev.heal();
            assert_eq!(view_of(&fs, &snap), tree, "{at}");
            let found = use_again(repaired(&dev, &at), &expected, &["snap"], &at);
            assert_eq!(found, Some(1), "{at}, sync failed: {failed}");
            fs.sync().unwrap();
            assert_eq!(view_of(&fs, &snap), tree, "{at}, healed");
            assert_eq!(findings(&image_of(&fs, &snap)), Vec::<String>::new(), "{at}");
        }
    }
}

#[test]
fn a_failed_transfer_while_a_snapshot_is_made_leaves_none() {
    for operation in [Operation::Write, Operation::Flush] {
        for nth in 1..=40 {
            let at = format!("{operation:?} {nth}");
            let (dev, fs) = mounted(nth as usize % SHAPES.len());
            let older = tree_of(&fs);
            drop(snapshot(&fs, "snap0"));
            write_file(&fs, "a", &[4; 30_000]);
            let tree = tree_of(&fs);
            dev.add(Rule::new(operation, Fault::Errno(EIO)).nth(nth));
            let root = fs.root().unwrap();
            let made = fs.snapshot(&Cred::root(), &root, b"snap").map(drop);
            dev.heal();
            let mut expected = BTreeMap::from([("snap0".to_owned(), older.clone())]);
            let count = 1 + usize::from(made.is_ok());
            assert_eq!(fs.snapshots().len(), count, "{at}: {made:?}");
            fs.sync().unwrap();
            let mut required = vec!["snap0"];
            if made.is_ok() {
                expected.insert("snap".to_owned(), tree);
                required.push("snap");
            }
            let found = use_again(repaired(&dev, &at), &expected, &required, &at);
            assert_eq!(found, Some(count), "{at}");
        }
    }
}

#[test]
fn a_full_volume_keeps_its_snapshot_and_can_lose_it() {
    let w = mount_on(soft_volume(SHAPES[0], 2 << 20), &soft_updates());
    write_file(&w.fs, "a", &[1; 300_000]);
    let tree = tree_of(&w.fs);
    let snap = snapshot(&w.fs, "snap");
    let filler = w.file(&w.root, "filler");
    let mut at = 0;
    while let Ok(n) =
        w.fs.write(&Cred::root(), &filler, at, &[7; 4096], ffs_core::WriteMode::default())
    {
        at += n as u64;
    }
    // Every block of `a` needs a copy, for which there is no space.
    let a = w.get(&w.root, "a").unwrap();
    let written = w.fs.write(&Cred::root(), &a, 0, &[9; 300_000], Default::default());
    assert!(written.is_ok(), "{written:?}");
    assert!(matches!(w.fs.sync(), Err(Error::NoSpace)));
    assert_eq!(view_of(&w.fs, &snap), tree);
    // Its user keeps it until the last use ends.
    w.fs.unlink(&Cred::root(), &w.root, b"snap").unwrap();
    assert_eq!(view_of(&w.fs, &snap), tree);
    drop((snap, a, filler));
    w.fs.sync().unwrap();
    let mut content = vec![0; 300_000];
    let a = w.get(&w.root, "a").unwrap();
    assert_eq!(w.fs.read(&a, 0, &mut content).unwrap(), content.len());
    assert!(content.iter().all(|b| *b == 9));
    drop(a);
    check_volume(w);
}

#[test]
fn files_in_use_without_a_name_are_not_in_a_snapshot() {
    for shape in SHAPES {
        let w = mount_on(soft_volume(shape, 8 << 20), &soft_updates());
        for n in 0..3 {
            drop(snapshot(&w.fs, &format!("snap{n}")));
            write_file(&w.fs, "a", &[n + 1; 50_000]);
        }
        let names = (0..300).map(|n| format!("removed{n}"));
        let files: Vec<_> = names
            .map(|name| {
                let file = w.file(&w.root, &name);
                let bytes = vec![5; name.len() * 900];
                w.fs.write(&Cred::root(), &file, 0, &bytes, Default::default()).unwrap();
                file
            })
            .collect();
        (0..300).filter(|n| n % 7 != 0).for_each(|n| remove(&w.fs, &format!("removed{n}")));
        let tree = tree_of(&w.fs);
        let snap = snapshot(&w.fs, "snap");
        assert_eq!(view_of(&w.fs, &snap), tree, "{shape:?}");
        assert_eq!(findings(&image_of(&w.fs, &snap)), Vec::<String>::new(), "{shape:?}");
        drop(files);
        w.fs.sync().unwrap();
        assert_eq!(view_of(&w.fs, &snap), tree, "{shape:?}, closed");
        drop(snap);
        check_volume(w);
    }
}

#[test]
fn directories_in_use_without_a_name_are_not_in_a_snapshot() {
    for shape in SHAPES {
        let w = mount_on(soft_volume(shape, 8 << 20), &soft_updates());
        let c = Cred::root();
        let parent = w.fs.mkdir(&c, &w.root, b"parent", 0o755).unwrap();
        let make = |n: u32| w.fs.mkdir(&c, &parent, format!("d{n}").as_bytes(), 0o755).unwrap();
        let used: Vec<_> = (0..5).map(make).collect();
        w.fs.sync().unwrap();
        (0..4).for_each(|n| w.fs.rmdir(&c, &parent, format!("d{n}").as_bytes()).unwrap());
        let tree = tree_of(&w.fs);
        let snap = snapshot(&w.fs, "snap");
        assert_eq!(view_of(&w.fs, &snap), tree, "{shape:?}");
        assert_eq!(findings(&image_of(&w.fs, &snap)), Vec::<String>::new(), "{shape:?}");
        drop((used, snap, parent));
        check_volume(w);
    }
}

#[test]
fn threads_write_while_snapshots_are_made_and_removed() {
    let w = mount_on(soft_volume(SHAPES[2], 32 << 20), &soft_updates());
    write_file(&w.fs, "kept", &[1; 100_000]);
    let c = Cred::root();
    std::thread::scope(|scope| {
        for thread in 0..2u8 {
            let fs = &w.fs;
            scope.spawn(move || {
                for n in 0..150u32 {
                    write_file(fs, &format!("t{thread}-{}", n % 20), &vec![n as u8; 9000]);
                    write_file(fs, "kept", &[n as u8; 100_000]);
                    if n % 3 == 0 {
                        remove(fs, &format!("t{thread}-{}", n % 20));
                    }
                }
            });
        }
        scope.spawn(|| {
            for n in 0..12 {
                let name = format!("other{n}");
                match w.fs.snapshot(&c, &w.fs.root().unwrap(), name.as_bytes()) {
                    Ok((file, _)) => drop(file),
                    Err(Error::Busy(_)) => continue,
                    Err(e) => panic!("{name}: {e}"),
                }
                remove(&w.fs, &name);
            }
        });
        for n in 0..8 {
            let name = format!("snap{n}");
            let made = w.fs.snapshot(&c, &w.root, name.as_bytes());
            let file = match made {
                Ok((file, _)) => file,
                Err(Error::Busy(_)) => continue,
                Err(e) => panic!("{name}: {e}"),
            };
            let first = view_of(&w.fs, &file);
            let image = findings(&image_of(&w.fs, &file));
            assert_eq!(image, Vec::<String>::new(), "{name}");
            assert_eq!(view_of(&w.fs, &file), first, "{name}");
            drop(file);
            if n % 2 == 0 {
                remove(&w.fs, &name);
            }
        }
    });
    let made = w.fs.create(&c, &w.root, b"last", NodeKind::Regular, 0o600).map(drop);
    assert!(made.is_ok());
    check_volume(w);
}
