//! Incremental dumps, applied one after the other.

use std::time::Duration;

use crate::random::Changes;
use crate::seen::{assert_same, see};
use crate::{Image, VOLUMES, apply};
use bsdffs::dump::DumpOptions;
use ffs_core::{Cred, NodeKind, RenameMode, SetAttr, WriteMode};

/// A dump relative to one of the date `ddate`. Returns its date, too.
fn dump(image: &Image, level: u8, ddate: i64) -> (Vec<u8>, i64) {
    use ffs_device::Clock;
    image.clock.advance(Duration::from_secs(10));
    let date = image.clock.now().secs;
    let (stream, _) = image.dump(&DumpOptions { level, date, ddate, ..DumpOptions::default() });
    image.clock.advance(Duration::from_secs(10));
    (stream, date)
}

#[test]
fn random_chains_of_dumps_give_the_present_tree() {
    for seed in 0..16 {
        let volume = VOLUMES[seed as usize % 4];
        let (image, target) = (Image::new(volume), Image::new(volume));
        let mut ddate = 0;
        for level in 0..5 {
            let wanted = image.write(|ffs| {
                Changes::new(ffs, seed * 100 + u64::from(level)).make(30);
                see(ffs)
            });
            let (stream, date) = dump(&image, level, ddate);
            apply(&target, &stream).unwrap();
            let found = target.write(see);
            assert_same(&wanted, &found, &format!("seed {seed}, level {level}, {volume:?}"));
            ddate = date;
        }
    }
}

/// A small tree, dumped and restored; then `change`, dumped and restored.
fn changed(change: impl FnOnce(&ffs_core::Ffs, &Cred)) {
    let (image, target) = (Image::new(VOLUMES[0]), Image::new(VOLUMES[0]));
    image.write(|ffs| {
        let (cred, root) = (Cred::root(), ffs.root().unwrap());
        for dir in ["a", "b", "c"] {
            let dir = ffs.mkdir(&cred, &root, dir.as_bytes(), 0o755).unwrap();
            let below = ffs.mkdir(&cred, &dir, b"below", 0o755).unwrap();
            let file = ffs.create(&cred, &below, b"file", NodeKind::Regular, 0o644).unwrap();
            ffs.write(&cred, &file, 0, b"content", WriteMode::default()).unwrap();
            ffs.link(&cred, &file, &dir, b"hard").unwrap();
        }
    });
    let (stream, date) = dump(&image, 0, 0);
    apply(&target, &stream).unwrap();
    let wanted = image.write(|ffs| {
        change(ffs, &Cred::root());
        see(ffs)
    });
    let (stream, _) = dump(&image, 1, date);
    apply(&target, &stream).unwrap();
    assert_same(&wanted, &target.write(see), "after the change");
}

#[test]
fn directories_and_files_change_places() {
    changed(|ffs, cred| {
        let root = ffs.root().unwrap();
        ffs.rename(cred, (&root, b"a"), (&root, b"b"), RenameMode::Exchange).unwrap();
        let c = ffs.lookup(cred, &root, b"c").unwrap();
        // A directory becomes the parent of what was above it.
        ffs.rename(cred, (&c, b"below"), (&root, b"up"), RenameMode::Replace).unwrap();
        let up = ffs.lookup(cred, &root, b"up").unwrap();
        ffs.rename(cred, (&root, b"c"), (&up, b"down"), RenameMode::Replace).unwrap();
    });
}

#[test]
fn names_change_their_type() {
    changed(|ffs, cred| {
        let root = ffs.root().unwrap();
        let a = ffs.lookup(cred, &root, b"a").unwrap();
        ffs.unlink(cred, &a, b"hard").unwrap();
        ffs.mkdir(cred, &a, b"hard", 0o700).unwrap();
        let below = ffs.lookup(cred, &a, b"below").unwrap();
        ffs.unlink(cred, &below, b"file").unwrap();
        ffs.rmdir(cred, &a, b"below").unwrap();
        ffs.symlink(cred, &a, b"below", b"target").unwrap();
    });
}

#[test]
fn immutable_files_are_replaced_and_removed() {
    use ffs_core::FileFlags;
    let (image, target) = (Image::new(VOLUMES[0]), Image::new(VOLUMES[0]));
    let set = |ffs: &ffs_core::Ffs, name: &[u8], flags| {
        let (cred, root) = (Cred::root(), ffs.root().unwrap());
        let file = ffs.lookup(&cred, &root, name).unwrap();
        ffs.setattr(&cred, &file, &SetAttr { flags: Some(flags), ..SetAttr::default() }).unwrap();
        file
    };
    image.write(|ffs| {
        let (cred, root) = (Cred::root(), ffs.root().unwrap());
        for name in [&b"changed"[..], b"removed", b"renamed"] {
            ffs.create(&cred, &root, name, NodeKind::Regular, 0o644).unwrap();
            set(ffs, name, FileFlags::SF_IMMUTABLE);
        }
    });
    let (stream, date) = dump(&image, 0, 0);
    apply(&target, &stream).unwrap();
    let wanted = image.write(|ffs| {
        let (cred, root) = (Cred::root(), ffs.root().unwrap());
        let file = set(ffs, b"changed", FileFlags::empty());
        ffs.write(&cred, &file, 0, b"new", WriteMode::default()).unwrap();
        set(ffs, b"changed", FileFlags::UF_IMMUTABLE);
        set(ffs, b"removed", FileFlags::empty());
        ffs.unlink(&cred, &root, b"removed").unwrap();
        set(ffs, b"renamed", FileFlags::empty());
        let replace = RenameMode::Replace;
        ffs.rename(&cred, (&root, b"renamed"), (&root, b"new name"), replace).unwrap();
        set(ffs, b"new name", FileFlags::SF_IMMUTABLE);
        see(ffs)
    });
    apply(&target, &dump(&image, 1, date).0).unwrap();
    assert_same(&wanted, &target.write(see), "immutable files");
}

#[test]
fn files_that_no_dump_restored_stay() {
    let (image, target) = (Image::new(VOLUMES[0]), Image::new(VOLUMES[0]));
    let (full, date) = dump(&image, 0, 0);
    apply(&target, &full).unwrap();
    target.write(|ffs| {
        let (cred, root) = (Cred::root(), ffs.root().unwrap());
        ffs.create(&cred, &root, b"mine", NodeKind::Regular, 0o644).unwrap();
    });
    image.write(|ffs| {
        ffs.create(&Cred::root(), &ffs.root().unwrap(), b"new", NodeKind::Regular, 0o644).unwrap();
    });
    apply(&target, &dump(&image, 1, date).0).unwrap();
    let names: Vec<_> = target.write(see).into_keys().collect();
    assert!(names.contains(&b"mine".to_vec()) && names.contains(&b"new".to_vec()));
}

#[test]
fn dumps_in_the_wrong_order_are_refused() {
    let image = Image::new(VOLUMES[0]);
    let (zero, zero_date) = dump(&image, 0, 0);
    let (one, one_date) = dump(&image, 1, zero_date);
    let (two, _) = dump(&image, 2, one_date);
    let target = Image::new(VOLUMES[0]);
    let refused = |stream: &[u8], words: &str| {
        let why = apply(&target, stream).unwrap_err();
        assert!(why.contains(words), "{why}");
    };
    refused(&one, "restore the dump of level 0 first");
    apply(&target, &zero).unwrap();
    refused(&zero, "empty directory");
    refused(&two, "too high");
    apply(&target, &one).unwrap();
    refused(&one, "too low");
    apply(&target, &two).unwrap();
    // A later dump that is relative to an earlier one has all changes, too.
    let (other, _) = dump(&image, 1, zero_date);
    apply(&target, &other).unwrap();
}
