//! A name that a rename or a link gives comes with the content that the file had then.

use crate::common::at;
use crate::{after_power_loss, content, mv, world, write};
use ffs_core::{Cred, Fallocate, FsyncScope, RenameMode, SetAttr, WriteMode};
use ffs_device::{Rng, SplitMix64};

/// A file that is renamed or linked has, under the new name, the content that it had then.
#[test]
fn a_published_name_has_its_content() {
    for by_link in [false, true] {
        let w = world(FsyncScope::All);
        let other = w.file(&w.root, "other");
        let new = w.file(&w.root, "new.tmp");
        w.fs.sync().unwrap();
        write(&w, &new, "content");
        if by_link {
            w.fs.link(&Cred::root(), &new, &w.root, b"new").unwrap();
        } else {
            mv(&w, (&w.root, "new.tmp"), (&w.root, "new"));
        }
        let before = w.record();
        w.fs.fsync(&other).unwrap();
        let mut seen = 0;
        w.each_write(&before, |dev, offset| {
            if let Some(found) = content(&after_power_loss(dev), "new") {
                assert_eq!(found, "content", "by link: {by_link}, a write at {offset}");
                seen += 1;
            }
        });
        assert!(seen > 0, "by link: {by_link}: the name is not there after an fsync");
        drop((other, new));
        w.end();
    }
}

/// A file gets a name and is truncated in a hole before its content is written. The name comes with
/// the content that the file had, or with its new end.
#[test]
fn a_published_name_waits_for_the_new_end_of_its_file() {
    const BLOCK: u64 = 8192;
    let w = world(FsyncScope::File);
    let (c, v, beside) = (Cred::root(), w.file(&w.root, "f"), w.file(&w.root, "beside"));
    w.fs.write(&c, &v, 0, &[1; BLOCK as usize], WriteMode::default()).unwrap();
    w.fs.sync().unwrap();
    let before = w.record();
    let (new_size, old_size) = (4 * BLOCK + 100, 7 * BLOCK + 900);
    w.fs.write(&c, &v, 7 * BLOCK, &[2; 900], WriteMode::default()).unwrap();
    w.fs.link(&c, &v, &w.root, b"name").unwrap();
    let set = SetAttr { size: Some(new_size), ..SetAttr::default() };
    w.fs.setattr(&c, &v, &set).unwrap();
    // The inode and the directory are written before the new last block.
    w.fs.write(&c, &beside, 0, &[3; 600], WriteMode::default()).unwrap();
    w.fs.fdatasync(&beside).unwrap();
    w.fs.fdatasync(&w.root).unwrap();
    let mut seen = 0;
    w.each_write(&before, |dev, offset| {
        let fs = after_power_loss(dev);
        let Ok(v) = at(&fs, "name") else { return };
        let size = fs.getattr(&v).size;
        assert!([new_size, old_size].contains(&size), "{size} bytes, a write at {offset}");
        seen += 1;
    });
    assert!(seen > 0);
    drop((v, beside));
    w.end();
}

/// Later content of a file may hide the content that its name waits for. A caller that waits for
/// the name writes the later content, too. An exchange fails if the name does not become durable.
#[test]
fn content_that_hides_the_awaited_content_is_written() {
    const BLOCK: u64 = 8192;
    let seed = ffs_testkit::envvar::number("FFS_SEED").unwrap_or(1);
    println!("FFS_SEED={seed}");
    let rng = SplitMix64::new(seed);
    let (c, mode) = (Cred::root(), WriteMode::default());
    for round in 0..1000 {
        let w = world(FsyncScope::All);
        let (d, v) = (w.dir(&w.root, "d"), w.file(&w.root, "f"));
        drop(w.file(&w.root, "y"));
        let mut history = Vec::new();
        // Where indirect blocks begin, or within few direct ones.
        let blocks = if round % 2 == 0 { 14 } else { 4 };
        for number in 0..rng.next_u64() % 40 {
            let (at, len) = (rng.next_u64() % (blocks * BLOCK), rng.next_u64() % (2 * BLOCK) + 1);
            let what = rng.next_u64() % 8;
            history.push((what, at, len));
            match what {
                0..3 => _ = w.fs.write(&c, &v, at, &vec![1; len as usize], mode).unwrap(),
                3 => w.fs.fallocate(&c, &v, at, len, Fallocate::PunchHole).unwrap(),
                4..6 => {
                    let set = SetAttr { size: Some(at), ..SetAttr::default() };
                    w.fs.setattr(&c, &v, &set).unwrap();
                }
                6 => w.fs.link(&c, &v, &w.root, format!("name{number}").as_bytes()).unwrap(),
                _ if rng.next_u64().is_multiple_of(4) => w.fs.sync().unwrap(),
                _ => _ = w.fs.fdatasync(&v),
            }
        }
        // An exchange makes the names durable.
        drop(w.file(&d, "x"));
        let (x, y) = ((&d, &b"x"[..]), (&w.root, &b"y"[..]));
        let done = w.fs.rename(&c, x, y, RenameMode::Exchange);
        assert!(done.is_ok(), "round {round}: {done:?} after {history:?}");
        drop((v, d));
        w.end();
    }
}
