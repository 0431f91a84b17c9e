//! A restored tree is the dumped one.

use crate::random::Changes;
use crate::seen::{assert_same, see};
use crate::{Image, VOLUMES, copy_into, open, restore};
use bsdffs::dump::{DumpOptions, TP_BSIZE};
use ffs_core::{Cred, NodeKind, SetAttr, WriteMode, XattrNamespace, XattrSet};

#[test]
fn random_trees_come_back_as_they_were() {
    for seed in 0..24 {
        let volume = VOLUMES[seed as usize % 4];
        let image = Image::new(volume);
        let before = image.write(|ffs| {
            Changes::new(ffs, seed).make(60);
            see(ffs)
        });
        let stream = image.full_dump();
        assert_eq!(stream.len() % (10 * TP_BSIZE), 0);
        // The byte order of the target does not matter.
        let other = (volume.0, VOLUMES[(seed as usize / 4) % 4].1);
        let after = restore(&stream, other).write(see);
        assert_same(&before, &after, &format!("seed {seed}, {volume:?} -> {other:?}"));
    }
}

#[test]
fn the_same_volume_gives_the_same_stream() {
    let image = Image::new(VOLUMES[0]);
    image.write(|ffs| Changes::new(ffs, 99).make(40));
    assert_eq!(image.full_dump(), image.full_dump());
    let little = Image::new(VOLUMES[0]);
    let big = Image::new(VOLUMES[2]);
    little.write(|ffs| Changes::new(ffs, 3).make(40));
    big.write(|ffs| Changes::new(ffs, 3).make(40));
    assert!(little.full_dump() == big.full_dump(), "the stream depends on the byte order");
}

/// Sizes around every border: records, headers, direct and indirect blocks.
#[test]
fn borders_of_records_and_headers() {
    let (block, window, direct) = (4096, 512 << 10, 12 * 4096);
    for volume in VOLUMES {
        let image = Image::new(volume);
        let before = image.write(|ffs| {
            let (cred, root) = (Cred::root(), ffs.root().unwrap());
            for (n, border) in
                [0, 1024, block, direct, window, direct + window, 3 << 20].into_iter().enumerate()
            {
                for (m, size) in [border, border + 1, border + 1023].into_iter().enumerate() {
                    for (kind, attribute) in [("plain", 0), ("few", 5), ("many", 2000)] {
                        let name = format!("{n}.{m}.{kind}");
                        let node = NodeKind::Regular;
                        let file = ffs.create(&cred, &root, name.as_bytes(), node, 0o644).unwrap();
                        if n < 6 && kind == "many" {
                            let bytes = ffs_testkit::rng::fill(size, n as u64, 1);
                            let mode = WriteMode::default();
                            ffs.write(&cred, &file, 0, &bytes, mode).unwrap();
                        }
                        let set = SetAttr { size: Some(size as u64), ..SetAttr::default() };
                        ffs.setattr(&cred, &file, &set).unwrap();
                        if attribute > 0 && volume.0 == ffs_ondisk::Format::Ufs2 {
                            let value = vec![b'v'; attribute];
                            let space = XattrNamespace::User;
                            let any = XattrSet::Any;
                            ffs.setxattr(&cred, &file, space, b"name", &value, any).unwrap();
                        }
                    }
                }
            }
            see(ffs)
        });
        let after = restore(&image.full_dump(), volume).write(see);
        assert_same(&before, &after, &format!("{volume:?}"));
    }
}

#[test]
fn a_large_sparse_file_stays_sparse() {
    let image = Image::new(VOLUMES[0]);
    let size = 3 << 30;
    image.write(|ffs| {
        let (cred, root) = (Cred::root(), ffs.root().unwrap());
        let file = ffs.create(&cred, &root, b"sparse", NodeKind::Regular, 0o644).unwrap();
        for at in [0, 1 << 30, size - 5] {
            ffs.write(&cred, &file, at, b"data!", WriteMode::default()).unwrap();
        }
    });
    let stream = image.full_dump();
    // One header for each 512 KiB.
    assert!(stream.len() < 8 << 20, "{}", stream.len());
    restore(&stream, VOLUMES[1]).write(|ffs| {
        let file = ffs.lookup(&Cred::root(), &ffs.root().unwrap(), b"sparse").unwrap();
        let attr = ffs.getattr(&file);
        assert!(attr.size == size && attr.blocks < 200, "{attr:?}");
        let mut read = [0; 5];
        for at in [0, 1 << 30, size - 5] {
            ffs.read(&file, at, &mut read).unwrap();
            assert_eq!(&read, b"data!");
        }
    });
}

#[test]
fn only_selected_names_are_restored() {
    let image = Image::new(VOLUMES[0]);
    image.write(|ffs| {
        let (cred, root) = (Cred::root(), ffs.root().unwrap());
        let a = ffs.mkdir(&cred, &root, b"a", 0o755).unwrap();
        let b = ffs.mkdir(&cred, &a, b"b", 0o700).unwrap();
        for (dir, name) in [(&root, "top"), (&a, "in-a"), (&b, "in-b")] {
            ffs.create(&cred, dir, name.as_bytes(), NodeKind::Regular, 0o644).unwrap();
        }
    });
    let stream = image.full_dump();
    let restored = |paths: &[&str], recursive: bool, by_inode: bool| {
        let mut dump = open(&stream);
        let paths: Vec<_> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let missing = dump.select(&paths, recursive);
        let target = Image::new(VOLUMES[0]);
        let names = target.write(|ffs| {
            let (_, problems) = copy_into(ffs, dump.source(by_inode));
            assert_eq!(problems, [""; 0]);
            see(ffs).into_keys().map(|path| String::from_utf8(path).unwrap()).collect::<Vec<_>>()
        });
        (names, missing.len())
    };
    assert_eq!(restored(&["a/b"], true, false).0, ["", ".snap", "a", "a/b", "a/b/in-b"]);
    assert_eq!(restored(&["./a/"], false, false).0, ["", ".snap", "a"]);
    assert_eq!(restored(&["top", "none", "/a/in-a"], true, false).1, 1);
    let (names, _) = restored(&["a"], true, true);
    assert_eq!(names.len(), 4, "two files by number: {names:?}");
    assert!(names[2..].iter().all(|name| name.parse::<u32>().is_ok()), "{names:?}");
}

#[test]
fn the_estimate_is_near_the_size() {
    let image = Image::new(VOLUMES[0]);
    image.write(|ffs| Changes::new(ffs, 12).make(100));
    let (_, report) = image.dump(&DumpOptions::default());
    let (estimate, records) = (report.estimate as f64, report.records as f64);
    assert!((estimate / records - 1.0).abs() < 0.15, "{report:?}");
}
