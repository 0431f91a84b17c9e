//! Hard links: pjdfstest's `link` beyond path resolution.

use crate::bench::{ALICE, Bench, Expect, as_user, cases};
use crate::ground::Served;
use crate::sys::{self, Errno, Kind};
use rustix::fs::{AtFlags, CWD};

cases! {
    "link" {
        every_type_shares_everything [Root];
        of_directories_is_refused [Root];
        takes_the_symbolic_link_itself_or_its_target;
        to_its_own_name_is_eexist;
        across_directories_and_back;
        a_thousand_links_count;
        to_another_file_system_is_exdev;
        of_a_file_without_a_name_is_enoent;
        one_more_than_the_format_can_count_is_emlink [Root, Ours];
    }
}

fn every_type_shares_everything(_: &Bench) {
    for kind in Kind::FILES {
        sys::make(kind, "a", 0o644).must();
        assert_eq!(sys::lstat("a").must().nlink, 1);
        sys::link("a", "b").must_for(kind);
        let (a, b) = (sys::lstat("a").must(), sys::lstat("b").must());
        assert_eq!(a, b, "{kind:?}");
        assert_eq!((a.nlink, a.kind), (2, kind));
        sys::link("b", "c").must_for(kind);
        sys::lchown("b", Some(5), Some(6)).must();
        if kind != Kind::Symlink {
            sys::chmod("c", 0o421).must();
        }
        let (a, b, c) = (sys::lstat("a").must(), sys::lstat("b").must(), sys::lstat("c").must());
        assert_eq!((a, b.nlink), (b, 3), "{kind:?}");
        assert_eq!((a.uid, a.gid, c), (5, 6, a));
        for (removed, left, n) in [("a", "b", 2), ("c", "b", 1)] {
            sys::unlink(removed).must();
            sys::lstat(removed).fails(Errno::NOENT);
            assert_eq!(sys::lstat(left).must().nlink, n);
        }
        sys::unlink("b").must();
    }
}

fn of_directories_is_refused(_: &Bench) {
    sys::chmod(".", 0o777).must();
    sys::mkdir("d", 0o777).must();
    sys::link("d", "e").fails(Errno::PERM);
    as_user(ALICE, || {
        sys::mkdir("mine", 0o777).must();
        sys::link("mine", "e").fails([Errno::PERM, Errno::ACCESS]);
    });
    sys::link("d", "d/e").fails(Errno::PERM);
    sys::link("d/.", "e").fails(Errno::PERM);
    assert_eq!(sys::stat("d").must().nlink, 2);
}

fn takes_the_symbolic_link_itself_or_its_target(_: &Bench) {
    sys::put("f", b"f").must();
    sys::symlink("f", "s").must();
    sys::link("s", "itself").must();
    assert_eq!(sys::lstat("itself").must().kind, Kind::Symlink);
    assert_eq!(sys::lstat("s").must().nlink, 2);
    sys::link_following("s", "target").must();
    assert_eq!(sys::lstat("target").must(), sys::lstat("f").must());
    assert_eq!(sys::lstat("f").must().nlink, 2);
    sys::symlink("nowhere", "dangling").must();
    sys::link_following("dangling", "x").fails(Errno::NOENT);
    sys::link("dangling", "x").must();
    sys::link("f", "dangling").fails(Errno::EXIST);
}

fn to_its_own_name_is_eexist(_: &Bench) {
    sys::put("f", b"").must();
    sys::link("f", "f").fails(Errno::EXIST);
    assert_eq!(sys::stat("f").must().nlink, 1);
}

fn across_directories_and_back(_: &Bench) {
    sys::mkdir("a", 0o755).must();
    sys::mkdir("b", 0o755).must();
    sys::put("a/f", b"one").must();
    sys::link("a/f", "b/f").must();
    sys::link("b/f", "../x").map(|()| sys::unlink("../x").must()).must();
    sys::put("b/f", b"two").must();
    assert_eq!(sys::content("a/f").must(), b"two");
    sys::unlink("a/f").must();
    sys::rmdir("a").must();
    assert_eq!(sys::content("b/f").must(), b"two");
}

fn a_thousand_links_count(_: &Bench) {
    sys::put("f", b"").must();
    let name = |n: u64| format!("link number {n}");
    for n in 0..1000 {
        sys::link("f", name(n)).must();
        assert_eq!(sys::stat("f").must().nlink, n + 2);
    }
    assert_eq!(sys::list(".").must().len(), 1001);
    for n in 0..1000 {
        sys::unlink(name(n)).must();
    }
    assert_eq!(sys::stat("f").must().nlink, 1);
}

fn to_another_file_system_is_exdev(_: &Bench) {
    sys::put("f", b"").must();
    sys::link("/proc/self/status", "x").fails(Errno::XDEV);
    sys::link("f", "/proc/x").fails([Errno::XDEV, Errno::NOENT, Errno::PERM, Errno::ACCESS]);
    sys::rename("/proc/self/status", "x").fails(Errno::XDEV);
}

fn of_a_file_without_a_name_is_enoent(_: &Bench) {
    use std::os::fd::AsRawFd;
    let f = sys::create("f", 0o644).must();
    let by_fd = format!("/proc/self/fd/{}", f.as_raw_fd());
    sys::link_following(&by_fd, "g").must();
    sys::unlink("f").must();
    sys::unlink("g").must();
    rustix::fs::linkat(CWD, &by_fd, CWD, "h", AtFlags::SYMLINK_FOLLOW).fails(Errno::NOENT);
    assert_eq!(sys::fstat(&f).must().nlink, 0);
}

/// `UFS_LINK_MAX` as this implementation gives it out.
const LINK_MAX: u64 = 32_767;

/// The names are spread over directories: long linear directories are not what is tested here.
fn one_more_than_the_format_can_count_is_emlink(b: &Bench) {
    let image = b.ground.another(32 << 20);
    let served = Served::start(&image, "");
    rustix::process::chdir(served.dir()).must();
    let f = sys::create("f", 0o644).must();
    let name = |n: u64| format!("{}/{n}", n / 256);
    for n in 1..LINK_MAX {
        if n % 256 == 0 || n == 1 {
            sys::mkdir((n / 256).to_string(), 0o755).must();
        }
        sys::link("f", name(n)).must_for(n);
    }
    assert_eq!(sys::fstat(&f).must().nlink, LINK_MAX);
    sys::link("f", "one too many").fails(Errno::MLINK);
    sys::lstat("one too many").fails(Errno::NOENT);
    sys::unlink(name(1)).must();
    sys::link("f", "again").must();
    drop(f);
    rustix::process::chdir("/").must();
    served.end();
}
