//! Removing names: pjdfstest's `unlink` beyond path resolution and sticky directories.

use crate::bench::{ALICE, BOB, Bench, Expect, as_user, cases, tick};
use crate::sys::{self, Errno, Kind};
use rustix::fs::OFlags;

cases! {
    "unlink" {
        removes_every_type [Root];
        counts_down_and_changes_ctime;
        of_directories_is_refused [Root];
        takes_the_symbolic_link;
        with_any_owner_of_the_file [Root];
        an_open_file_goes_on_working;
        many_open_files_without_names;
        an_open_file_without_a_name_lets_its_name_be_used_again;
        space_comes_back_when_the_last_user_goes;
    }
}

fn removes_every_type(_: &Bench) {
    for kind in Kind::FILES {
        sys::make(kind, "n", 0o644).must();
        let here = sys::stat(".").must();
        tick();
        sys::unlink("n").must_for(kind);
        sys::lstat("n").fails(Errno::NOENT);
        let now = sys::stat(".").must();
        assert!(now.mtime > here.mtime && now.ctime > here.ctime, "{kind:?}");
        assert!(sys::list(".").must().is_empty());
    }
}

fn counts_down_and_changes_ctime(_: &Bench) {
    sys::put("a", b"").must();
    sys::link("a", "b").must();
    let before = sys::stat("a").must();
    tick();
    sys::unlink("b").must();
    let after = sys::stat("a").must();
    assert_eq!((after.nlink, after.mtime), (1, before.mtime));
    assert!(after.ctime > before.ctime);
}

fn of_directories_is_refused(_: &Bench) {
    sys::chmod(".", 0o777).must();
    sys::mkdir("d", 0o777).must();
    sys::unlink("d").fails([Errno::ISDIR, Errno::PERM]);
    as_user(ALICE, || sys::unlink("d").fails([Errno::ISDIR, Errno::PERM]));
    sys::unlink("d/").fails([Errno::ISDIR, Errno::PERM]);
    assert_eq!(sys::stat("d").must().nlink, 2);
}

fn takes_the_symbolic_link(_: &Bench) {
    sys::put("f", b"").must();
    sys::symlink("f", "s").must();
    sys::unlink("s").must();
    sys::stat("f").must();
    sys::mkdir("d", 0o755).must();
    sys::symlink("d", "t").must();
    sys::unlink("t").must();
    sys::stat("d").must();
}

fn with_any_owner_of_the_file(_: &Bench) {
    sys::mkdir("d", 0o777).must();
    for kind in Kind::FILES {
        sys::make(kind, "d/n", 0).must();
        sys::lchown("d/n", Some(BOB.uid), Some(BOB.gid)).must();
        as_user(ALICE, || sys::unlink("d/n").must_for(kind));
    }
}

fn an_open_file_goes_on_working(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    sys::write(&f, &[1; 100_000]).must();
    let before = sys::fstat(&f).must();
    tick();
    sys::unlink("f").must();
    let s = sys::fstat(&f).must();
    assert_eq!((s.nlink, s.size, s.ino), (0, 100_000, before.ino));
    assert!(s.ctime > before.ctime);
    assert_eq!(sys::pread(&f, 200_000, 0).must(), [1; 100_000]);
    sys::pwrite(&f, &[2; 100_000], 100_000).must();
    sys::fchmod(&f, 0o600).must();
    rustix::fs::fsync(&f).must();
    let got = sys::pread(&f, 300_000, 0).must();
    assert!(got[..100_000] == [1; 100_000] && got[100_000..] == [2; 100_000]);
    sys::ftruncate(&f, 5).must();
    assert_eq!(sys::pread(&f, 10, 0).must(), [1; 5]);
}

fn many_open_files_without_names(_: &Bench) {
    let files: Vec<_> = (0..50u8)
        .map(|n| {
            let f = sys::create("f", 0o644).must();
            sys::write(&f, &[n; 5000]).must();
            sys::unlink("f").must();
            f
        })
        .collect();
    let mut inos: Vec<_> = files.iter().map(|f| sys::fstat(f).must().ino).collect();
    inos.sort_unstable();
    inos.dedup();
    assert_eq!(inos.len(), 50, "all at the same time: all different");
    for (n, f) in files.iter().enumerate() {
        assert_eq!(sys::pread(f, 9000, 0).must(), [n as u8; 5000]);
    }
}

fn an_open_file_without_a_name_lets_its_name_be_used_again(_: &Bench) {
    let old = sys::create("f", 0o644).must();
    sys::write(&old, b"old").must();
    sys::unlink("f").must();
    sys::open("f", OFlags::RDONLY, 0).fails(Errno::NOENT);
    let new = sys::create("f", 0o644).must();
    sys::write(&new, b"new").must();
    assert_eq!(sys::pread(&old, 9, 0).must(), b"old");
    assert_eq!(sys::content("f").must(), b"new");
    assert_ne!(sys::fstat(&old).must().ino, sys::fstat(&new).must().ino);
}

fn space_comes_back_when_the_last_user_goes(b: &Bench) {
    let free = || rustix::fs::statvfs(".").must().f_bfree;
    let f = sys::create("f", 0o644).must();
    let before = free();
    for i in 0..32 {
        sys::pwrite(&f, &[1; 65_536], i * 65_536).must();
    }
    rustix::fs::fsync(&f).must();
    let full = free();
    sys::unlink("f").must();
    assert!(full < before);
    if b.ours() {
        assert_eq!(free(), full, "it is still open");
        drop(f);
        // Closing does not wait for the server: what comes after it does.
        let there = (0..1000).any(|_| {
            sys::put("g", b"x").must();
            sys::unlink("g").must();
            free() >= before
        });
        assert!(there, "{} of {} blocks came back", free() - full, before - full);
    }
}
