//! Making and removing directories: pjdfstest's `mkdir` and `rmdir` beyond path resolution.

use crate::bench::{ALICE, Bench, Expect, STAFF, as_user, cases};
use crate::sys::{self, Errno, Kind};
use rustix::fs::{Mode, OFlags};

cases! {
    "mkdir" {
        the_mode_is_what_the_umask_leaves;
        the_maker_owns_it [Root];
        links_count_up_and_dots_lead_where_they_should;
        a_slash_may_follow;
        a_dangling_link_is_in_the_way;
        in_a_removed_directory_is_enoent;
        a_hundred_deep;
    }
    "rmdir" {
        links_count_down;
        not_empty_for_any_type_inside [Root];
        of_files_of_any_type_is_enotdir [Root];
        of_symbolic_links_is_enotdir;
        dot_is_einval_and_dot_dot_is_not_empty;
        of_a_mount_point_is_ebusy [Root];
        an_open_directory_stays_but_is_empty;
        the_current_directory_may_go;
    }
}

fn set_umask(m: u32) {
    rustix::process::umask(Mode::from_raw_mode(m));
}

fn the_mode_is_what_the_umask_leaves(_: &Bench) {
    let table = [
        (0o755, 0o000, 0o755),
        (0o151, 0o000, 0o151),
        (0o151, 0o077, 0o100),
        (0o345, 0o070, 0o305),
        (0o345, 0o501, 0o244),
        (0o777, 0o777, 0o000),
        (0o1777, 0o022, 0o1755),
    ];
    for (requested, mask, got) in table {
        set_umask(mask);
        sys::mkdir("d", requested).must();
        assert_eq!(sys::stat("d").must().mode, got, "mkdir {requested:o} with umask {mask:o}");
        sys::rmdir("d").must();
    }
}

fn the_maker_owns_it(_: &Bench) {
    sys::mkdir("p", 0o777).must();
    sys::chown("p", Some(9), Some(10)).must();
    as_user(ALICE, || sys::mkdir("p/d", 0o755).must());
    let s = sys::stat("p/d").must();
    assert_eq!(s.uid, ALICE.uid);
    assert!([ALICE.gid, 10].contains(&s.gid), "the group is {}", s.gid);
    sys::chown("p", None, Some(STAFF)).must();
    sys::chmod("p", 0o2777).must();
    as_user(ALICE, || sys::mkdir("p/e", 0o755).must());
    assert_eq!(sys::stat("p/e").must().gid, STAFF, "below a set-group-id directory");
}

fn links_count_up_and_dots_lead_where_they_should(_: &Bench) {
    let before = sys::stat(".").must();
    sys::mkdir("d", 0o755).must();
    let d = sys::stat("d").must();
    assert_eq!((d.kind, d.nlink), (Kind::Directory, 2));
    assert_eq!(sys::stat(".").must().nlink, before.nlink + 1);
    assert_eq!(sys::stat("d/.").must().ino, d.ino);
    assert_eq!(sys::stat("d/..").must().ino, before.ino);
    let fd = sys::open("d", OFlags::RDONLY | OFlags::DIRECTORY, 0).must();
    let entries = sys::getdents_all(&fd).must();
    let mut dots: Vec<_> = entries.iter().map(|e| (&e.name[..], e.ino)).collect();
    dots.sort_unstable();
    assert_eq!(dots, [(&b"."[..], d.ino), (&b".."[..], before.ino)]);
    sys::mkdir("d/e", 0o755).must();
    sys::put("d/f", b"").must();
    assert_eq!(sys::stat("d").must().nlink, 3, "files do not count");
}

fn a_slash_may_follow(_: &Bench) {
    sys::mkdir("d/", 0o755).must();
    sys::mkdir("e//", 0o755).must();
    sys::rmdir("d/").must();
    sys::rmdir("e///").must();
}

fn a_dangling_link_is_in_the_way(_: &Bench) {
    sys::symlink("nowhere", "s").must();
    sys::mkdir("s", 0o755).fails(Errno::EXIST);
    sys::lstat("nowhere").fails(Errno::NOENT);
}

fn in_a_removed_directory_is_enoent(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    let d = sys::open("d", OFlags::RDONLY | OFlags::DIRECTORY, 0).must();
    sys::rmdir("d").must();
    rustix::fs::mkdirat(&d, "x", Mode::RWXU).fails(Errno::NOENT);
    sys::openat(&d, "x", OFlags::CREATE | OFlags::WRONLY, 0o644).fails(Errno::NOENT);
    rustix::fs::symlinkat("x", &d, "x").fails(Errno::NOENT);
    sys::put("f", b"").must();
    rustix::fs::renameat(rustix::fs::CWD, "f", &d, "f").fails(Errno::NOENT);
}

fn a_hundred_deep(_: &Bench) {
    let mut path = String::from("0");
    sys::mkdir(&path, 0o755).must();
    for n in 1..100 {
        path += &format!("/{n}");
        sys::mkdir(&path, 0o755).must();
    }
    sys::put(format!("{path}/f"), b"down here").must();
    assert_eq!(sys::content(format!("{path}/f")).must(), b"down here");
    let up = "../".repeat(100);
    assert_eq!(sys::stat(format!("{path}/{up}")).must().ino, sys::stat(".").must().ino);
}

fn links_count_down(_: &Bench) {
    let before = sys::stat(".").must().nlink;
    for n in 0..5 {
        sys::mkdir(n.to_string(), 0o755).must();
    }
    for n in 0..5 {
        assert_eq!(sys::stat(".").must().nlink, before + 5 - n);
        sys::rmdir(n.to_string()).must();
        sys::stat(n.to_string()).fails(Errno::NOENT);
    }
    assert_eq!(sys::stat(".").must().nlink, before);
}

fn not_empty_for_any_type_inside(_: &Bench) {
    let full = [Errno::NOTEMPTY, Errno::EXIST];
    sys::mkdir("d", 0o755).must();
    for kind in Kind::ALL {
        sys::make(kind, "d/n", 0o644).must();
        sys::rmdir("d").fails_for(full, kind);
        sys::lstat("d/n").must();
        sys::remove(kind, "d/n").must();
    }
    sys::rmdir("d").must();
}

fn of_files_of_any_type_is_enotdir(_: &Bench) {
    for kind in Kind::FILES {
        sys::make(kind, "n", 0o644).must();
        sys::rmdir("n").fails_for(Errno::NOTDIR, kind);
        sys::unlink("n").must();
    }
}

fn of_symbolic_links_is_enotdir(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    sys::symlink("d", "s").must();
    sys::rmdir("s").fails(Errno::NOTDIR);
    sys::rmdir("s/").fails(Errno::NOTDIR);
    sys::stat("d").must();
}

fn dot_is_einval_and_dot_dot_is_not_empty(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    sys::mkdir("d/e", 0o755).must();
    sys::rmdir("d/e/.").fails(Errno::INVAL);
    sys::rmdir("d/e/..").fails([Errno::NOTEMPTY, Errno::EXIST]);
    sys::unlink("d/e/.").fails([Errno::ISDIR, Errno::PERM, Errno::INVAL, Errno::BUSY]);
    sys::unlink("d/e/..").fails([Errno::ISDIR, Errno::PERM, Errno::INVAL, Errno::BUSY]);
}

fn of_a_mount_point_is_ebusy(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    sys::mkdir("e", 0o755).must();
    rustix::mount::mount_bind("e", "d").must();
    let answers = (sys::rmdir("d"), sys::rename("d", "x"), sys::rename("e", "d"), sys::unlink("d"));
    rustix::mount::unmount("d", rustix::mount::UnmountFlags::empty()).must();
    answers.0.fails(Errno::BUSY);
    answers.1.fails(Errno::BUSY);
    answers.2.fails(Errno::BUSY);
    answers.3.fails([Errno::BUSY, Errno::ISDIR, Errno::PERM]);
    sys::rmdir("d").must();
}

fn an_open_directory_stays_but_is_empty(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    let d = sys::open("d", OFlags::RDONLY | OFlags::DIRECTORY, 0).must();
    let ino = sys::fstat(&d).must().ino;
    sys::rmdir("d").must();
    sys::mkdir("d", 0o755).must();
    let s = sys::fstat(&d).must();
    assert_eq!((s.ino, s.kind, s.nlink), (ino, Kind::Directory, 0));
    sys::fchmod(&d, 0o700).must();
    let left = sys::getdents_all(&d).unwrap_or_default();
    assert!(left.iter().all(|e| e.name == b"." || e.name == b".."), "{left:?}");
    sys::openat(&d, "f", OFlags::RDONLY, 0).fails(Errno::NOENT);
}

fn the_current_directory_may_go(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    let home = sys::open(".", OFlags::RDONLY | OFlags::DIRECTORY, 0).must();
    rustix::process::chdir("d").must();
    sys::rmdir("../d").must();
    sys::put("f", b"").fails(Errno::NOENT);
    sys::mkdir("e", 0o755).fails(Errno::NOENT);
    sys::stat("f").fails(Errno::NOENT);
    sys::stat(".").must();
    rustix::process::getcwd(Vec::new()).fails(Errno::NOENT);
    rustix::process::fchdir(&home).must();
}
