//! A removal comes after the names that renames and links gave earlier.

use crate::common::at;
use crate::{SCOPES, after_power_loss, content, mv, world, write};
use ffs_core::{Cred, FsyncScope};

/// A file without a name is linked, or a file is renamed over another and then renamed on; a third
/// file is removed before or after. It is missing only if the older name is there.
#[test]
fn a_removal_comes_after_older_links_and_renames() {
    for case in 0..4 {
        let w = world(FsyncScope::All);
        let (c, d, e) = (Cred::root(), w.dir(&w.root, "d"), w.dir(&w.root, "e"));
        for (dir, name) in [(&w.root, "old"), (&w.root, "z"), (&d, "f"), (&e, "k")] {
            write(&w, &w.file(dir, name), name);
        }
        w.fs.sync().unwrap();
        let before = w.record();
        if case < 2 {
            let v = w.fs.create_unnamed(&c, &d, 0o600, true).unwrap();
            write(&w, &v, "new");
            w.fs.link(&c, &v, &e, b"new").unwrap();
        } else {
            mv(&w, (&d, "f"), (&e, "k"));
        }
        w.fs.unlink(&c, &w.root, b"old").unwrap();
        match case {
            1 => mv(&w, (&e, "new"), (&d, "moved")),
            3 => mv(&w, (&e, "k"), (&d, "moved")),
            _ => {}
        }
        let z = at(&w.fs, "z").unwrap();
        w.fs.fsync(&z).unwrap();
        w.each_write(&before, |dev, offset| {
            let fs = after_power_loss(dev);
            if content(&fs, "old").is_some() {
                return;
            }
            let (k, new) = (content(&fs, "e/k"), content(&fs, "e/new"));
            let moved = content(&fs, "d/moved");
            let what = format!("{case}: write at {offset}: {k:?} {new:?} {moved:?}");
            match case {
                0 | 1 => assert!(new.or(moved).as_deref() == Some("new"), "{what}"),
                _ => {
                    assert_ne!(k.as_deref(), Some("k"), "{what}");
                    assert!(k.or(moved).as_deref() == Some("f"), "{what}");
                }
            }
        });
        drop((d, e, z));
        w.end();
    }
}

/// A name is replaced, and the new file is removed at once. The old file, which the device has
/// under the name, disappears only when the names given before are there: at the end, and when
/// another removal waits.
#[test]
fn a_name_replaced_and_removed_goes_after_older_renames() {
    for case in 0..8 {
        let (elsewhere, removal, again) = (case & 1 == 1, case & 2 == 2, case & 4 == 4);
        let w = world(FsyncScope::All);
        let (c, d, e) = (Cred::root(), w.dir(&w.root, "d"), w.dir(&w.root, "e"));
        for (dir, name) in [(&w.root, "x"), (&w.root, "old"), (&w.root, "z"), (&e, "k")] {
            write(&w, &w.file(dir, name), name);
        }
        w.fs.sync().unwrap();
        let before = w.record();
        let (to, path) = if elsewhere { (&d, "d/x2") } else { (&w.root, "x2") };
        mv(&w, (&w.root, "x"), (to, "x2"));
        write(&w, &w.file(&e, "tmp"), "new");
        mv(&w, (&e, "tmp"), (&e, "k"));
        if again {
            write(&w, &w.file(&e, "tmp"), "newer");
            mv(&w, (&e, "tmp"), (&e, "k"));
        }
        if removal {
            w.fs.unlink(&c, &w.root, b"old").unwrap();
        }
        w.fs.unlink(&c, &e, b"k").unwrap();
        let z = at(&w.fs, "z").unwrap();
        w.fs.fsync(&z).unwrap();
        w.each_write(&before, |dev, offset| {
            let fs = after_power_loss(dev);
            let renamed = content(&fs, path).is_some();
            let k = content(&fs, "e/k");
            assert!(renamed || k.is_some(), "{case}: 'e/k' is missing, write at {offset}");
            let removed = content(&fs, "old").is_none();
            let is_old = k.as_deref() == Some("k");
            assert!(!removed || renamed && !is_old, "{case}: 'old' is missing, write at {offset}");
        });
        drop((d, e, z));
        w.end();
    }
}

/// A name is removed from the device only after the names that renames and links gave before, for
/// every synced file: programs remove a file when its replacement has a name.
#[test]
fn a_removal_comes_after_older_renames_and_links() {
    for (scope, by_link) in SCOPES.into_iter().flat_map(|s| [false, true].map(|l| (s, l))) {
        let w = world(scope);
        let (p, q) = (w.dir(&w.root, "p"), w.dir(&w.root, "q"));
        let (new, old) = (w.file(&p, "new"), w.file(&q, "old"));
        write(&w, &new, "new");
        write(&w, &old, "old");
        w.fs.sync().unwrap();
        if by_link {
            w.fs.link(&Cred::root(), &new, &p, b"current").unwrap();
        } else {
            mv(&w, (&p, "new"), (&p, "current"));
        }
        let before = w.record();
        w.fs.unlink(&Cred::root(), &q, b"old").unwrap();
        w.fs.fsync(&q).unwrap();
        let mut seen = [0; 2];
        w.each_write(&before, |dev, offset| {
            let fs = after_power_loss(dev);
            let there = [content(&fs, "p/current"), content(&fs, "q/old")];
            let which = format!("{scope:?}, by link: {by_link}, a write at {offset}: {there:?}");
            assert!(there.iter().any(Option::is_some), "{which}");
            seen[usize::from(there[1].is_none())] += 1;
        });
        assert!(seen.iter().all(|n| *n > 0), "{scope:?}, by link: {by_link}: {seen:?}");
        drop((p, q, new, old));
        w.end();
    }
}

/// A link is renamed, another link of the same file gets its old name, and a third file replaces
/// that name. The device has the first new name before the third file's.
#[test]
fn a_name_that_comes_back_keeps_what_its_removal_waited_for() {
    for scope in SCOPES {
        let w = world(scope);
        let (c, d) = (Cred::root(), w.dir(&w.root, "d"));
        let file = w.file(&w.root, "file");
        for name in ["out", "in", "more", "again"] {
            w.fs.link(&c, &file, &w.root, name.as_bytes()).unwrap();
        }
        write(&w, &w.file(&d, "third"), "third");
        w.fs.sync().unwrap();
        let before = w.record();
        mv(&w, (&w.root, "out"), (&d, "moved"));
        mv(&w, (&w.root, "in"), (&w.root, "out"));
        mv(&w, (&d, "third"), (&w.root, "out"));
        w.fs.fsync(&w.root).unwrap();
        w.each_write(&before, |dev, offset| {
            let fs = after_power_loss(dev);
            let taken = content(&fs, "out").as_deref() == Some("third");
            let moved = at(&fs, "d/moved").is_ok();
            assert!(moved || !taken, "{scope:?}: a write at {offset}");
        });
        drop((d, file));
        w.end();
    }
}
