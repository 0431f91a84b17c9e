//! Cases for ffs volumes only: a remount keeps all content.

use crate::bench::{Bench, Expect, cases};
use crate::ground::Served;
use crate::sys::{self, Kind, St, To};
use rustix::fs::{OFlags, XattrFlags, getxattr, setxattr};
use std::path::Path;

cases! {
    "remount" {
        everything_is_kept [Root, Ours];
        files_without_names_are_removed [Root, Ours];
    }
}

type Seen = (Vec<u8>, St, Option<Vec<u8>>);

/// Everything below a directory: names, attributes, targets and contents.
fn tree(dir: &Path, writeback: bool) -> Vec<Seen> {
    let mut out = Vec::new();
    for name in sys::list(dir).must() {
        let path = dir.join(String::from_utf8(name.clone()).unwrap());
        let mut s = sys::lstat(&path).must();
        let inside = match s.kind {
            Kind::Regular => Some(sys::content(&path).must()),
            Kind::Symlink => Some(sys::readlink(&path).must()),
            _ => None,
        };
        // Looking at it may have changed this one.
        s.atime = (0, 0);
        if writeback && s.kind == Kind::Regular {
            // The kernel's until the data was written, the server's afterwards.
            s.ctime = (0, 0);
        }
        out.push((name, s, inside));
        if s.kind == Kind::Directory {
            out.extend(tree(&path, writeback));
        }
    }
    out
}

fn everything_is_kept(b: &Bench) {
    let image = b.ground.another(16 << 20);
    let served = Served::start(&image, "sync");
    rustix::process::chdir(served.dir()).must();
    for (i, kind) in Kind::ALL.into_iter().enumerate() {
        sys::make(kind, format!("{kind:?}"), 0o644).must();
        let path = format!("{kind:?}");
        sys::lchown(&path, Some(100 + i as u32), Some(200)).must();
        sys::lutimens(&path, To::At((5, 6)), To::At((1_000_000 + i as i64, 789))).must();
    }
    sys::put("big", &[9; 3_000_000]).must();
    sys::truncate("Regular", 123_456_789).must();
    sys::mkdir("Directory/sub", 0o2711).must();
    sys::link("big", "Directory/sub/linked").must();
    sys::symlink("s".repeat(1000), "Directory/long").must();
    for n in 0..300 {
        sys::put(format!("Directory/sub/{n}"), n.to_string().as_bytes()).must();
    }
    if b.traits.xattr {
        setxattr("big", "user.kept", b"value", XattrFlags::empty()).must();
    }
    let before = tree(Path::new("."), b.traits.writeback);
    rustix::process::chdir("/").must();
    served.end();
    for options in ["ro", ""] {
        let served = Served::start(&image, options);
        rustix::process::chdir(served.dir()).must();
        let after = tree(Path::new("."), b.traits.writeback);
        for (old, new) in before.iter().zip(&after) {
            assert_eq!(old.1, new.1, "{} {options}", String::from_utf8_lossy(&old.0));
        }
        assert!(before == after, "contents or names, {options}");
        if b.traits.xattr {
            let mut buf = [0; 10];
            assert_eq!(getxattr("big", "user.kept", &mut buf[..]).must(), 5);
        }
        rustix::process::chdir("/").must();
        served.end();
    }
}

fn files_without_names_are_removed(b: &Bench) {
    let image = b.ground.another(16 << 20);
    let served = Served::start(&image, "");
    let free = || {
        let s = rustix::fs::statvfs(served.dir()).must();
        (s.f_bfree, s.f_ffree)
    };
    let before = free();
    let f = sys::create(served.dir().join("f"), 0o644).must();
    sys::write(&f, &[1; 1_000_000]).must();
    sys::unlink(served.dir().join("f")).must();
    let d = served.dir().join("d");
    sys::mkdir(&d, 0o755).must();
    let d_open = sys::open(&d, OFlags::RDONLY, 0).must();
    sys::rmdir(&d).must();
    assert!(free() < before);
    drop((f, d_open));
    served.end();
    let served = Served::start(&image, "ro");
    let s = rustix::fs::statvfs(served.dir()).must();
    assert_eq!((s.f_bfree, s.f_ffree), before);
    served.end();
}
