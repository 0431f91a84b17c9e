//! Symbolic links: pjdfstest's `symlink` beyond path resolution.

use crate::bench::{ALICE, Bench, Expect, as_user, cases, tick};
use crate::sys::{self, Errno, Kind};

cases! {
    "symlink" {
        holds_any_target;
        the_maker_owns_it [Root];
        an_empty_target_is_enoent;
        a_target_too_long_is_enametoolong;
        is_transparent_to_the_content;
        relative_targets_start_at_the_link;
        loops_exist_but_do_not_resolve;
        permissions_do_not_matter [Root];
    }
    "readlink" {
        of_anything_else_is_einval [Root];
        of_a_short_buffer_is_truncated;
    }
}

/// Lengths on both sides of what fits into the inode, of fragments, and the longest.
const LENGTHS: [usize; 14] = [1, 2, 31, 59, 60, 61, 119, 120, 121, 255, 256, 1023, 1024, 4095];

fn target(len: usize) -> Vec<u8> {
    (0..len).map(|i| b"abcdefghijklmnopqrstuvwxyz/"[i % 27]).collect()
}

/// BSD's longest path with its NUL, `MAXPATHLEN`: it could not follow longer ones.
const BSD_MAXPATHLEN: usize = 1024;

fn holds_any_target(b: &Bench) {
    for len in LENGTHS {
        let target = target(len);
        if b.ours() && len >= BSD_MAXPATHLEN {
            sys::symlink(&target, "s").fails_for(Errno::NAMETOOLONG, len);
            continue;
        }
        sys::symlink(&target, "s").must_for(len);
        assert_eq!(sys::readlink("s").must(), target);
        let s = sys::lstat("s").must();
        assert_eq!((s.kind, s.nlink, s.size), (Kind::Symlink, 1, len as i64));
        sys::unlink("s").must();
        sys::lstat("s").fails(Errno::NOENT);
    }
    // Any bytes but NUL.
    let all: Vec<u8> = (1..=255).collect();
    sys::symlink(&all, "s").must();
    assert_eq!(sys::readlink("s").must(), all);
}

fn the_maker_owns_it(_: &Bench) {
    sys::chmod(".", 0o777).must();
    let start = tick();
    as_user(ALICE, || sys::symlink("x", "s").must());
    let (s, here) = (sys::lstat("s").must(), sys::stat(".").must());
    assert_eq!(s.uid, ALICE.uid);
    assert!([ALICE.gid, here.gid].contains(&s.gid), "the group is {}", s.gid);
    assert!([s.atime, s.mtime, s.ctime, here.mtime, here.ctime].iter().all(|t| *t >= start));
}

fn an_empty_target_is_enoent(_: &Bench) {
    sys::symlink("", "s").fails(Errno::NOENT);
    sys::lstat("s").fails(Errno::NOENT);
}

fn a_target_too_long_is_enametoolong(_: &Bench) {
    sys::symlink(target(4096), "s").fails(Errno::NAMETOOLONG);
    sys::symlink(target(5000), "s").fails(Errno::NAMETOOLONG);
    // A component too long is no matter until it is followed.
    let long = vec![b'n'; 300];
    sys::symlink(&long, "s").must();
    sys::stat("s").fails(Errno::NAMETOOLONG);
}

fn is_transparent_to_the_content(_: &Bench) {
    sys::put("f", b"one").must();
    sys::symlink("f", "s").must();
    sys::put("s", b"two").must();
    assert_eq!(sys::content("f").must(), b"two");
    sys::unlink("f").must();
    sys::stat("s").fails(Errno::NOENT);
    sys::put("s", b"three").must();
    assert_eq!(sys::content("f").must(), b"three");
    assert_eq!(sys::lstat("s").must().kind, Kind::Symlink);
}

fn relative_targets_start_at_the_link(_: &Bench) {
    sys::mkdir("a", 0o755).must();
    sys::mkdir("b", 0o755).must();
    sys::put("a/f", b"in a").must();
    sys::put("b/f", b"in b").must();
    sys::symlink("f", "a/s").must();
    sys::symlink("../b", "a/t").must();
    assert_eq!(sys::content("a/s").must(), b"in a");
    assert_eq!(sys::content("a/t/f").must(), b"in b");
    assert_eq!(sys::content("a/t/../a/s").must(), b"in a");
    sys::rename("a/s", "b/s").must();
    assert_eq!(sys::content("b/s").must(), b"in b");
}

fn loops_exist_but_do_not_resolve(_: &Bench) {
    sys::symlink("b", "a").must();
    sys::symlink("a", "b").must();
    assert_eq!((sys::readlink("a").must(), sys::readlink("b").must()), (b"b".into(), b"a".into()));
    sys::stat("a").fails(Errno::LOOP);
    sys::lstat("a").must();
    sys::unlink("a").must();
    sys::stat("b").fails(Errno::NOENT);
}

fn permissions_do_not_matter(_: &Bench) {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777));
    sys::symlink("target", "s").must();
    as_user(ALICE, || assert_eq!(sys::readlink("s").must(), b"target"));
}

fn of_anything_else_is_einval(_: &Bench) {
    for kind in Kind::WITH_MODE {
        sys::make(kind, "n", 0o644).must();
        sys::readlink("n").fails_for(Errno::INVAL, kind);
        sys::remove(kind, "n").must();
    }
}

fn of_a_short_buffer_is_truncated(_: &Bench) {
    sys::symlink("0123456789", "s").must();
    let mut buf = [0; 4];
    let n = rustix::fs::readlinkat_raw(rustix::fs::CWD, "s", &mut buf[..]).must();
    assert_eq!(&buf[..n], b"0123");
}
