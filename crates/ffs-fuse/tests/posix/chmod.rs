//! Changing modes: pjdfstest's `chmod` beyond path resolution.

use crate::bench::{ALICE, BOB, Bench, CAROL, Expect, STAFF, as_user, cases, tick};
use crate::sys::{self, Errno, Kind};
use rustix::fs::OFlags;

cases! {
    "chmod" {
        every_type_takes_every_bit [Root];
        of_an_open_file;
        follows_symbolic_links;
        the_umask_does_not_matter;
        only_the_owner_and_root_may [Root];
        setgid_goes_when_the_owner_is_not_in_the_group [Root];
        the_sticky_bit_of_a_file_succeeds_or_is_ignored [Root];
        an_open_file_stays_usable [Root];
        ctime_changes_only_on_success [Root];
        writing_by_others_clears_set_id_bits [Root];
        truncating_by_others_clears_set_id_bits [Root];
        writing_by_root_keeps_set_id_bits [Root];
    }
}

fn every_type_takes_every_bit(_: &Bench) {
    for kind in Kind::WITH_MODE {
        sys::make(kind, "n", 0o644).must();
        let before = sys::lstat("n").must();
        for bit in 0..12 {
            for mode in [1 << bit, 0o7777 & !(1 << bit)] {
                sys::chmod("n", mode).must_for((kind, mode));
                assert_eq!(sys::lstat("n").must().mode, mode, "{kind:?}");
            }
        }
        sys::chmod("n", before.mode).must();
        let after = sys::lstat("n").must();
        assert_eq!((after.kind, after.ino, after.nlink), (kind, before.ino, before.nlink));
        assert_eq!((after.mtime, after.rdev), (before.mtime, before.rdev));
        sys::remove(kind, "n").must();
    }
}

fn of_an_open_file(_: &Bench) {
    let f = sys::create("f", 0o600).must();
    sys::fchmod(&f, 0o751).must();
    assert_eq!(sys::fstat(&f).must().mode, 0o751);
    assert_eq!(sys::stat("f").must().mode, 0o751);
    sys::mkdir("d", 0o700).must();
    let d = sys::open("d", OFlags::RDONLY, 0).must();
    sys::fchmod(&d, 0o1770).must();
    assert_eq!(sys::stat("d").must().mode, 0o1770);
    sys::unlink("f").must();
    sys::fchmod(&f, 0o640).must();
    assert_eq!(sys::fstat(&f).must().mode, 0o640, "without a name");
}

fn follows_symbolic_links(_: &Bench) {
    sys::put("f", b"").must();
    sys::symlink("f", "s").must();
    sys::symlink("s", "t").must();
    let link = sys::lstat("s").must();
    sys::chmod("t", 0o421).must();
    assert_eq!(sys::lstat("f").must().mode, 0o421);
    assert_eq!(sys::lstat("s").must().mode, link.mode);
}

fn the_umask_does_not_matter(_: &Bench) {
    sys::put("f", b"").must();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777));
    sys::chmod("f", 0o666).must();
    assert_eq!(sys::stat("f").must().mode, 0o666);
}

fn only_the_owner_and_root_may(_: &Bench) {
    for kind in Kind::WITH_MODE {
        sys::make(kind, "n", 0o777).must();
        sys::chown("n", Some(BOB.uid), Some(STAFF)).must();
        as_user(ALICE, || sys::chmod("n", 0o600).fails_for(Errno::PERM, kind));
        assert_eq!(sys::stat("n").must().mode, 0o777);
        as_user(BOB, || sys::chmod("n", 0o600).must_for(kind));
        sys::chmod("n", 0o644).must();
        sys::remove(kind, "n").must();
    }
    let f = sys::create("f", 0o666).must();
    as_user(ALICE, || sys::fchmod(&f, 0o600).fails(Errno::PERM));
}

fn setgid_goes_when_the_owner_is_not_in_the_group(_: &Bench) {
    sys::put("f", b"").must();
    for (owner, gid, stays) in [(ALICE, STAFF, true), (ALICE, ALICE.gid, true), (BOB, STAFF, false)]
    {
        sys::chown("f", Some(owner.uid), Some(gid)).must();
        sys::chmod("f", 0o755).must();
        as_user(owner, || sys::chmod("f", 0o2755).must());
        let want = if stays { 0o2755 } else { 0o755 };
        assert_eq!(sys::stat("f").must().mode, want, "{owner:?} in {gid}");
    }
    sys::chmod("f", 0o2755).must();
    assert_eq!(sys::stat("f").must().mode, 0o2755, "root may");
}

fn the_sticky_bit_of_a_file_succeeds_or_is_ignored(_: &Bench) {
    sys::put("f", b"").must();
    sys::chown("f", Some(ALICE.uid), Some(ALICE.gid)).must();
    as_user(ALICE, || sys::chmod("f", 0o1644).must());
    assert_eq!(sys::stat("f").must().mode & 0o777, 0o644);
    sys::mkdir("d", 0o755).must();
    sys::chown("d", Some(ALICE.uid), Some(ALICE.gid)).must();
    as_user(ALICE, || sys::chmod("d", 0o1755).must());
    assert_eq!(sys::stat("d").must().mode, 0o1755);
}

fn an_open_file_stays_usable(_: &Bench) {
    sys::chmod(".", 0o777).must();
    as_user(ALICE, || {
        let f = sys::create("f", 0o600).must();
        sys::chmod("f", 0).must();
        sys::open("f", OFlags::RDONLY, 0).fails(Errno::ACCESS);
        sys::write(&f, b"still").must();
        assert_eq!(sys::pread(&f, 9, 0).must(), b"still");
    });
}

fn ctime_changes_only_on_success(_: &Bench) {
    for kind in Kind::WITH_MODE {
        sys::make(kind, "n", 0o644).must();
        let before = sys::stat("n").must();
        tick();
        as_user(ALICE, || sys::chmod("n", 0o777).fails(Errno::PERM));
        assert_eq!(sys::stat("n").must(), before, "{kind:?}");
        sys::chmod("n", 0o666).must();
        let after = sys::stat("n").must();
        assert!(after.ctime > before.ctime, "{kind:?}");
        assert_eq!((after.mtime, after.atime), (before.mtime, before.atime));
        sys::remove(kind, "n").must();
    }
}

/// Modes with set-id bits, and what is left of them when somebody else has written.
const CLEARED: [(u32, u32); 4] =
    [(0o4777, 0o777), (0o2777, 0o777), (0o6777, 0o777), (0o1777, 0o1777)];

fn writing_by_others_clears_set_id_bits(_: &Bench) {
    for (mode, left) in CLEARED {
        sys::put("f", b"old").must();
        sys::chmod("f", mode).must();
        as_user(CAROL, || {
            let f = sys::open("f", OFlags::WRONLY, 0).must();
            assert_eq!(sys::fstat(&f).must().mode, mode, "opening changes nothing");
            sys::write(&f, b"x").must();
            assert_eq!(sys::fstat(&f).must().mode, left);
        });
        assert_eq!(sys::stat("f").must().mode, left);
        sys::unlink("f").must();
    }
}

fn truncating_by_others_clears_set_id_bits(_: &Bench) {
    for (mode, left) in CLEARED {
        for by_fd in [false, true] {
            sys::put("f", b"old").must();
            sys::chmod("f", mode).must();
            as_user(CAROL, || {
                let f = sys::open("f", OFlags::WRONLY, 0).must();
                if by_fd { sys::ftruncate(&f, 1).must() } else { sys::truncate("f", 1).must() }
            });
            assert_eq!(sys::stat("f").must().mode, left);
            sys::unlink("f").must();
        }
    }
}

fn writing_by_root_keeps_set_id_bits(_: &Bench) {
    sys::put("f", b"old").must();
    sys::chmod("f", 0o6755).must();
    let f = sys::open("f", OFlags::WRONLY, 0).must();
    sys::write(&f, b"x").must();
    sys::ftruncate(&f, 1).must();
    assert_eq!(sys::stat("f").must().mode, 0o6755);
}
