//! Changing owners: pjdfstest's `chown` beyond path resolution.

use crate::bench::{ALICE, BOB, Bench, CAROL, Expect, STAFF, as_user, cases, tick};
use crate::sys::{self, Errno, Kind};
use rustix::fs::OFlags;

cases! {
    "chown" {
        every_type_takes_every_owner [Root];
        of_an_open_file [Root];
        follows_links_and_lchown_does_not [Root];
        owners_may_choose_among_their_groups [Root];
        only_root_gives_files_away [Root];
        others_may_do_nothing [Root];
        by_the_owner_clears_set_id_bits_of_files [Root];
        by_root_leaves_modes_of_directories [Root];
        with_nothing_to_change_succeeds [Root];
        ctime_changes_only_on_success [Root];
    }
}

fn owner(p: &str) -> (u32, u32) {
    let s = sys::lstat(p).must();
    (s.uid, s.gid)
}

fn every_type_takes_every_owner(_: &Bench) {
    for kind in Kind::ALL {
        sys::make(kind, "n", 0o644).must();
        let before = sys::lstat("n").must();
        for (uid, gid) in [(1, 2), (65_535, 65_536), (u32::MAX - 1, 1 << 31), (0, 0)] {
            sys::lchown("n", Some(uid), Some(gid)).must_for((kind, uid, gid));
            assert_eq!(owner("n"), (uid, gid), "{kind:?}");
        }
        sys::lchown("n", Some(7), None).must();
        assert_eq!(owner("n"), (7, 0), "{kind:?}");
        sys::lchown("n", None, Some(8)).must();
        assert_eq!(owner("n"), (7, 8), "{kind:?}");
        let after = sys::lstat("n").must();
        assert_eq!((after.mode, after.mtime, after.kind), (before.mode, before.mtime, kind));
        sys::remove(kind, "n").must();
    }
}

fn of_an_open_file(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    sys::fchown(&f, Some(11), Some(12)).must();
    assert_eq!(owner("f"), (11, 12));
    sys::unlink("f").must();
    sys::fchown(&f, Some(13), None).must();
    let s = sys::fstat(&f).must();
    assert_eq!((s.uid, s.gid), (13, 12), "without a name");
}

fn follows_links_and_lchown_does_not(_: &Bench) {
    sys::put("f", b"").must();
    sys::symlink("f", "s").must();
    sys::chown("s", Some(3), Some(4)).must();
    assert_eq!((owner("f"), owner("s")), ((3, 4), (0, 0)));
    sys::lchown("s", Some(5), Some(6)).must();
    assert_eq!((owner("f"), owner("s")), ((3, 4), (5, 6)));
}

fn owners_may_choose_among_their_groups(_: &Bench) {
    for kind in Kind::ALL {
        sys::make(kind, "n", 0o644).must();
        sys::lchown("n", Some(ALICE.uid), Some(ALICE.gid)).must();
        as_user(ALICE, || {
            sys::lchown("n", None, Some(STAFF)).must_for(kind);
            assert_eq!(owner("n"), (ALICE.uid, STAFF));
            sys::lchown("n", Some(ALICE.uid), Some(ALICE.gid)).must_for(kind);
            assert_eq!(owner("n"), (ALICE.uid, ALICE.gid));
            sys::lchown("n", None, Some(BOB.gid)).fails_for(Errno::PERM, kind);
            sys::lchown("n", None, Some(0)).fails_for(Errno::PERM, kind);
        });
        assert_eq!(owner("n"), (ALICE.uid, ALICE.gid));
        sys::remove(kind, "n").must();
    }
}

fn only_root_gives_files_away(_: &Bench) {
    for kind in Kind::ALL {
        sys::make(kind, "n", 0o644).must();
        sys::lchown("n", Some(ALICE.uid), Some(ALICE.gid)).must();
        as_user(ALICE, || {
            sys::lchown("n", Some(BOB.uid), None).fails_for(Errno::PERM, kind);
            sys::lchown("n", Some(0), None).fails_for(Errno::PERM, kind);
            sys::lchown("n", Some(BOB.uid), Some(STAFF)).fails_for(Errno::PERM, kind);
        });
        assert_eq!(owner("n"), (ALICE.uid, ALICE.gid));
        sys::remove(kind, "n").must();
    }
}

fn others_may_do_nothing(_: &Bench) {
    let f = sys::create("f", 0o777).must();
    sys::chown("f", Some(ALICE.uid), Some(STAFF)).must();
    for who in [BOB, CAROL] {
        as_user(who, || {
            sys::chown("f", Some(who.uid), None).fails(Errno::PERM);
            sys::chown("f", None, Some(who.gid)).fails(Errno::PERM);
            sys::chown("f", Some(ALICE.uid), None).fails(Errno::PERM);
            sys::fchown(&f, Some(who.uid), Some(who.gid)).fails(Errno::PERM);
        });
    }
    assert_eq!(owner("f"), (ALICE.uid, STAFF));
}

fn by_the_owner_clears_set_id_bits_of_files(_: &Bench) {
    for (mode, left) in [(0o6555, 0o555), (0o4555, 0o555), (0o2555, 0o555), (0o1555, 0o1555)] {
        sys::put("f", b"").must();
        sys::chown("f", Some(ALICE.uid), Some(ALICE.gid)).must();
        sys::chmod("f", mode).must();
        as_user(ALICE, || sys::chown("f", None, Some(STAFF)).must());
        assert_eq!(sys::stat("f").must().mode, left);
        sys::chmod("f", mode).must();
        as_user(ALICE, || {
            let f = sys::open("f", OFlags::RDONLY, 0).must();
            sys::fchown(&f, Some(ALICE.uid), Some(ALICE.gid)).must();
        });
        assert_eq!(sys::stat("f").must().mode, left);
        sys::unlink("f").must();
    }
}

fn by_root_leaves_modes_of_directories(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    sys::chmod("d", 0o7755).must();
    sys::chown("d", Some(1), Some(1)).must();
    assert_eq!(sys::stat("d").must().mode, 0o7755);
    sys::put("f", b"").must();
    sys::chmod("f", 0o6755).must();
    sys::chown("f", Some(1), Some(1)).must();
    let mode = sys::stat("f").must().mode;
    assert!([0o6755, 0o755].contains(&mode), "root's chown leaves {mode:o}");
}

fn with_nothing_to_change_succeeds(_: &Bench) {
    for kind in Kind::ALL {
        sys::make(kind, "n", 0o644).must();
        sys::lchown("n", Some(ALICE.uid), Some(ALICE.gid)).must();
        as_user(ALICE, || sys::lchown("n", None, None).must_for(kind));
        assert_eq!(owner("n"), (ALICE.uid, ALICE.gid));
        sys::remove(kind, "n").must();
    }
}

fn ctime_changes_only_on_success(_: &Bench) {
    for kind in Kind::ALL {
        sys::make(kind, "n", 0o644).must();
        let before = sys::lstat("n").must();
        tick();
        as_user(ALICE, || sys::lchown("n", Some(ALICE.uid), None).fails(Errno::PERM));
        assert_eq!(sys::lstat("n").must(), before, "{kind:?}");
        sys::lchown("n", Some(1), Some(1)).must();
        let after = sys::lstat("n").must();
        assert!(after.ctime > before.ctime, "{kind:?}");
        assert_eq!((after.mtime, after.atime), (before.mtime, before.atime));
        sys::remove(kind, "n").must();
    }
}
