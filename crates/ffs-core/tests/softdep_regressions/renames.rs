//! Renames, exchanges, and the dependencies of a file that replaces another.

use crate::common::{World, soft_updates};
use crate::{mounted, names, repaired, world};
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_core::{Cred, Env, Error, Ffs, RenameMode, Vnode, WriteMode};
use ffs_device::record::Event;
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::Ino;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The link count of the old parent waited for ever for a removal that had been taken back.
#[test]
fn a_directory_moved_away_and_back_leaves_nothing_to_wait_for() {
    let w = world(8192, 1024);
    let (p, q) = (w.dir(&w.root, "p"), w.dir(&w.root, "q"));
    drop(w.dir(&p, "x"));
    w.fs.sync().unwrap();
    let c = Cred::root();
    w.fs.rename(&c, (&p, b"x"), (&q, b"x"), RenameMode::Replace).unwrap();
    w.fs.rename(&c, (&q, b"x"), (&p, b"x"), RenameMode::Replace).unwrap();
    w.fs.sync().unwrap();
    assert_eq!((w.nlink(&p), w.nlink(&q)), (3, 2));
    drop((p, q));
    w.end();
}

/// Two directories were exchanged, which became durable by half, and exchanged back. The name of
/// one waited for its `..`, the `..` for the removal of the name that its record had before, and
/// that removal for the name.
#[test]
fn directories_exchanged_and_exchanged_back_leave_nothing_to_wait_for() {
    let w = world(8192, 1024);
    let (p, q) = exchanged(&w);
    w.fs.rename(&Cred::root(), (&p, b"x"), (&q, b"y"), RenameMode::Exchange).unwrap();
    w.fs.sync().unwrap();
    assert_eq!((w.nlink(&p), w.nlink(&q)), (3, 3));
    drop((p, q));
    w.end();
}

/// Two directories were exchanged and renamed on. The removal of a name that never was on the
/// device waited for the file's next name.
#[test]
fn directories_exchanged_and_moved_on_leave_nothing_to_wait_for() {
    let w = world(8192, 1024);
    let (p, q) = exchanged(&w);
    let c = Cred::root();
    w.fs.rename(&c, (&q, b"y"), (&p, b"z"), RenameMode::Replace).unwrap();
    w.fs.rename(&c, (&p, b"x"), (&q, b"y"), RenameMode::Replace).unwrap();
    w.fs.sync().unwrap();
    assert_eq!((w.nlink(&p), w.nlink(&q)), (3, 3));
    drop((p, q));
    w.end();
}

/// Two directories with one directory in each; these two were exchanged, and the names in the
/// second parent are durable.
fn exchanged(w: &World) -> (Vnode, Vnode) {
    let (p, q) = (w.dir(&w.root, "p"), w.dir(&w.root, "q"));
    drop((w.dir(&p, "x"), w.dir(&q, "y")));
    w.fs.sync().unwrap();
    w.fs.rename(&Cred::root(), (&p, b"x"), (&q, b"y"), RenameMode::Exchange).unwrap();
    w.fs.fsync(&q).unwrap();
    (p, q)
}

/// Logs are rotated: each takes the name that the log before it had. However long the chain is, no
/// log may ever be without a name.
#[test]
fn a_long_chain_of_renames_loses_no_file() {
    const LOGS: usize = 90;
    let w = world(8192, 1024);
    let c = Cred::root();
    for i in 0..LOGS {
        let v = w.file(&w.root, &format!("log.{i}"));
        w.fs.write(&c, &v, 0, format!("{i:03}").as_bytes(), WriteMode::default()).unwrap();
    }
    w.fs.sync().unwrap();
    let before = w.record();
    for i in (0..LOGS).rev() {
        let (from, to) = (format!("log.{i}"), format!("log.{}", i + 1));
        let root = &w.root;
        w.fs.rename(&c, (root, from.as_bytes()), (root, to.as_bytes()), RenameMode::Replace)
            .unwrap();
    }
    w.fs.sync().unwrap();
    let state = before;
    for event in w.dev.take_events() {
        if let Event::Write { offset, bytes, .. } = event {
            // Power may fail after any sector.
            for (i, sector) in bytes.chunks(512).enumerate() {
                let torn = state.snapshot();
                torn.write_at(offset + i as u64 * 512, sector).unwrap();
                assert_eq!(contents(torn).len(), LOGS, "sector {i} of a write at {offset}");
            }
            state.write_at(offset, &bytes).unwrap();
            assert_eq!(contents(state.snapshot()).len(), LOGS, "a write at {offset}");
        }
    }
    w.end();
}

/// Later changes of a file that replaced another.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Next {
    Moved,
    Exchanged,
    /// It gets another name and is replaced itself.
    Linked,
}

/// A file replaces another and is moved on before its name was on the device. The device then lost
/// the other file's name without having the next name of the first.
#[test]
fn a_replaced_file_is_there_until_the_next_name_is() {
    for next in [Next::Moved, Next::Exchanged, Next::Linked] {
        for (to, is_dir) in ["p", "q", "r"].into_iter().flat_map(|to| [(to, false), (to, true)]) {
            if !(is_dir && next == Next::Linked) {
                replaced_and_left(next, to, is_dir);
            }
        }
    }
}

/// Renames `p/x` to `q/e`, then moves it on to a name in `to`.
fn replaced_and_left(next: Next, to: &str, is_dir: bool) {
    let (c, w) = (Cred::root(), world(8192, 1024));
    let dirs = ["p", "q", "r"].map(|name| w.dir(&w.root, name));
    let [p, q, _] = &dirs;
    let other = w.fs.lookup(&c, &w.root, to.as_bytes()).unwrap();
    let make = |dir: &Vnode, name: &str| if is_dir { w.dir(dir, name) } else { w.file(dir, name) };
    let [x, e] = [make(p, "x"), make(q, "e")].map(|v| w.fs.getattr(&v).ino);
    drop((next == Next::Exchanged).then(|| make(&other, "d")));
    drop((next == Next::Linked).then(|| make(p, "w")));
    w.fs.sync().unwrap();
    let state = w.record();
    w.fs.rename(&c, (p, b"x"), (q, b"e"), RenameMode::Replace).unwrap();
    match next {
        Next::Moved => w.fs.rename(&c, (q, b"e"), (&other, b"d"), RenameMode::Replace).unwrap(),
        Next::Exchanged => {
            w.fs.rename(&c, (q, b"e"), (&other, b"d"), RenameMode::Exchange).unwrap()
        }
        Next::Linked => {
            let v = w.fs.lookup(&c, q, b"e").unwrap();
            w.fs.link(&c, &v, &other, b"d").unwrap();
            w.fs.rename(&c, (p, b"w"), (q, b"e"), RenameMode::Replace).unwrap();
        }
    }
    w.fs.fsync(q).unwrap();
    w.fs.sync().unwrap();
    w.each_write(&state, |state, offset| {
        for (fs, checked) in
            [(mounted(Arc::new(state.snapshot())), false), (repaired(state.snapshot()), true)]
        {
            let ino = |dir: &str, name: &[u8]| {
                let dir = fs.lookup(&c, &fs.root().unwrap(), dir.as_bytes()).unwrap();
                fs.lookup(&c, &dir, name).ok().map(|v| fs.getattr(&v).ino)
            };
            let (seen, d) = (ino("q", b"e"), ino(to, b"d"));
            let kept = seen == Some(e) || seen == Some(x) || d == Some(x);
            // If a directory has two names in one parent, a check keeps the first.
            let older = checked && is_dir && to == "p" && ino("p", b"x") == Some(x);
            let case = format!("{next:?} to {to}, directory: {is_dir}, checked: {checked}");
            assert!(kept || older, "{case}: {seen:?}, {d:?} after a write at {offset}");
        }
    });
    drop((dirs, other));
    w.end();
}

/// The different contents of the logs after a repair.
fn contents(dev: MemDevice) -> BTreeSet<Vec<u8>> {
    let fs = repaired(dev);
    let (root, mut found) = (fs.root().unwrap(), BTreeSet::new());
    for name in names(&fs, ".").iter().filter(|n| n.starts_with(b"log.")) {
        let v = fs.lookup(&Cred::root(), &root, name).unwrap();
        let mut bytes = [0; 3];
        assert_eq!(fs.read(&v, 0, &mut bytes).unwrap(), 3);
        found.insert(bytes.to_vec());
    }
    found
}

/// A loss of power may leave a moved directory with its old name and a `..` that names its new
/// parent, here a directory below itself. The names decide what may move where.
#[test]
fn names_decide_on_an_unchecked_volume_where_a_moved_directory_has_its_old_name() {
    let w = world(4096, 512);
    let cred = Cred::root();
    let a = w.dir(&w.root, "a");
    let c = w.dir(&a, "c");
    drop(w.dir(&c, "d"));
    w.fs.sync().unwrap();
    let (ino_a, ino_c) = (w.fs.getattr(&a).ino, w.fs.getattr(&c).ino);
    let mut image = w.record().to_vec();
    // `.` and `..` of the directory a.
    let record = |ino: Ino, len: u16, name: &[u8]| {
        let head = [&ino.0.to_le_bytes()[..], &len.to_le_bytes(), &[4, name.len() as u8]].concat();
        [&head[..], name, &vec![0; 4 - name.len()]].concat()
    };
    let old = [record(ino_a, 12, b"."), Ino::ROOT.0.to_le_bytes().to_vec()].concat();
    let new = [record(ino_a, 12, b"."), ino_c.0.to_le_bytes().to_vec()].concat();
    let at: Vec<usize> =
        (0..image.len() - 16).step_by(512).filter(|at| image[*at..].starts_with(&old)).collect();
    assert_eq!(at.len(), 1, "one block begins so");
    image[at[0]..at[0] + new.len()].copy_from_slice(&new);

    let dev = Arc::new(MemDevice::from_bytes(&image));
    let fs = Ffs::mount(dev.clone(), &soft_updates(), Env::system()).unwrap();
    assert!(fs.unchecked().is_some());
    let root = fs.root().unwrap();
    let a = fs.lookup(&cred, &root, b"a").unwrap();
    let c = fs.lookup(&cred, &a, b"c").unwrap();
    let d = fs.lookup(&cred, &c, b"d").unwrap();
    let rename = |from: (&Vnode, &[u8]), to: (&Vnode, &[u8])| {
        fs.rename(&cred, from, to, RenameMode::Replace)
    };
    let below = rename((&root, b"a"), (&d, b"a")).unwrap_err();
    assert!(matches!(below, Error::Invalid(_)), "{below}");
    let below = rename((&a, b"c"), (&d, b"c")).unwrap_err();
    assert!(matches!(below, Error::Invalid(_)), "{below}");
    rename((&c, b"d"), (&a, b"e")).unwrap();
    rename((&a, b"e"), (&root, b"f")).unwrap();
    drop((a, c, d, root));
    fs.unmount().unwrap();
    let report = Fsck::new(dev, FsckOptions::preen()).run();
    assert_eq!(report.exit_code, 0, "{:?}", report.findings);
}
