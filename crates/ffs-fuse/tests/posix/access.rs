//! Who may do what: pjdfstest's `open/06`, and `access(2)`.
//!
//! Only the first class that fits counts: owner, then group, then others. Each class is tried with
//! the opposite bits in the two others.

use crate::bench::{ALICE, BOB, Bench, CAROL, Expect, STAFF, User, as_user, cases};
use crate::sys::{self, Errno, Kind, R};
use rustix::fs::{Access, AtFlags, CWD, OFlags};

cases! {
    "open" {
        files_open_as_the_class_allows [Root];
        pipes_open_as_the_class_allows [Root, KernelChecks];
        directories_list_and_search_as_the_class_allows [Root, KernelChecks];
        directories_change_as_the_class_allows [Root];
    }
    "access" {
        answers_by_class_for_every_type [Root];
        of_a_missing_file_is_enoent;
        root_reads_and_writes_everything_but_runs_only_programs [Root];
        uses_the_real_user_by_default [Root];
        running_needs_the_right_to [Root];
    }
}

/// Owner and group of the file, who asks, and the shift of the class that then counts.
const CLASSES: [(u32, u32, User, u32); 5] = [
    (ALICE.uid, ALICE.gid, ALICE, 6),
    (ALICE.uid, STAFF, ALICE, 6),
    (BOB.uid, ALICE.gid, ALICE, 3),
    (ALICE.uid, STAFF, CAROL, 3),
    (ALICE.uid, STAFF, BOB, 0),
];

/// Every class with every three bits: sets the mode, then lets the asker do `check(bits)`.
fn each_class(path: &str, check: impl Fn(u32) + Sync) {
    for (uid, gid, who, shift) in CLASSES {
        sys::chown(path, Some(uid), Some(gid)).must();
        for bits in 0..8 {
            let others = 0o777 & !(0o7 << shift);
            let opposite = (!bits & 7) * 0o111;
            sys::chmod(path, bits << shift | opposite & others).must();
            as_user(who, || check(bits));
        }
    }
}

#[track_caller]
fn allowed(answer: R, when: bool, what: impl std::fmt::Debug) {
    if when { answer.must_for(what) } else { answer.fails_for(Errno::ACCESS, what) }
}

fn opening(path: &str, nonblock: OFlags) {
    let open = |flags| sys::open(path, flags | nonblock, 0).map(drop);
    each_class(path, |bits| {
        let (r, w) = (bits & 4 != 0, bits & 2 != 0);
        allowed(open(OFlags::RDONLY), r, ("read", bits));
        allowed(open(OFlags::RDWR), r && w, ("read and write", bits));
    });
}

fn files_open_as_the_class_allows(_: &Bench) {
    sys::put("f", b"").must();
    opening("f", OFlags::empty());
    each_class("f", |bits| {
        let w = bits & 2 != 0;
        allowed(sys::open("f", OFlags::WRONLY, 0).map(drop), w, bits);
        allowed(sys::open("f", OFlags::WRONLY | OFlags::TRUNC, 0).map(drop), w, bits);
        allowed(sys::open("f", OFlags::WRONLY | OFlags::APPEND, 0).map(drop), w, bits);
        allowed(sys::truncate("f", 0), w, bits);
    });
}

fn pipes_open_as_the_class_allows(_: &Bench) {
    sys::mkfifo("p", 0).must();
    opening("p", OFlags::NONBLOCK);
}

fn directories_list_and_search_as_the_class_allows(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    sys::put("d/f", b"").must();
    each_class("d", |bits| {
        let (r, x) = (bits & 4 != 0, bits & 1 != 0);
        allowed(sys::list("d").map(drop), r, ("list", bits));
        allowed(sys::stat("d/f").map(drop), x, ("search", bits));
        allowed(sys::stat("d/.").map(drop), x, ("itself", bits));
        sys::stat("d").must();
        let d = sys::open("d", OFlags::PATH | OFlags::DIRECTORY, 0).must();
        let inside = rustix::fs::statat(&d, "f", AtFlags::empty()).map(drop);
        allowed(inside, x, ("search from a descriptor", bits));
    });
}

fn directories_change_as_the_class_allows(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    each_class("d", |bits| {
        let wx = bits & 3 == 3;
        for kind in Kind::FREE {
            allowed(sys::make(kind, "d/n", 0o777), wx, (kind, bits));
            if wx {
                sys::rename("d/n", "d/m").must();
                sys::remove(kind, "d/m").must();
            }
        }
    });
}

fn answers_by_class_for_every_type(_: &Bench) {
    for kind in Kind::WITH_MODE {
        sys::make(kind, "n", 0).must();
        each_class("n", |bits| {
            let all = [(Access::READ_OK, 4), (Access::WRITE_OK, 2), (Access::EXEC_OK, 1)];
            for want in 0..8u32 {
                let mut how = Access::EXISTS;
                for (a, bit) in all {
                    if want & bit != 0 {
                        how |= a;
                    }
                }
                allowed(sys::access("n", how), want & !bits == 0, (kind, want, bits));
            }
        });
        sys::remove(kind, "n").must();
    }
}

fn of_a_missing_file_is_enoent(_: &Bench) {
    for how in [Access::EXISTS, Access::READ_OK, Access::WRITE_OK] {
        sys::access("none", how).fails(Errno::NOENT);
    }
    sys::symlink("none", "dangling").must();
    sys::access("dangling", Access::EXISTS).fails(Errno::NOENT);
}

fn root_reads_and_writes_everything_but_runs_only_programs(_: &Bench) {
    sys::create("f", 0).must();
    sys::chown("f", Some(BOB.uid), Some(BOB.gid)).must();
    sys::access("f", Access::READ_OK | Access::WRITE_OK).must();
    sys::access("f", Access::EXEC_OK).fails(Errno::ACCESS);
    sys::open("f", OFlags::RDWR, 0).must();
    for x in [0o100, 0o010, 0o001] {
        sys::chmod("f", x).must();
        sys::access("f", Access::EXEC_OK).must_for(x);
    }
    sys::mkdir("d", 0).must();
    sys::access("d", Access::EXEC_OK | Access::READ_OK | Access::WRITE_OK).must();
    sys::put("d/f", b"").must();
}

fn uses_the_real_user_by_default(_: &Bench) {
    use rustix::process::Uid;
    sys::create("f", 0o600).must();
    sys::chown("f", Some(ALICE.uid), Some(ALICE.gid)).must();
    let answers = std::thread::scope(|s| {
        let thread = s.spawn(|| {
            // Bob in truth, Alice in effect.
            let (alice, bob) = (Uid::from_raw(ALICE.uid), Uid::from_raw(BOB.uid));
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_uid(bob, alice, alice).unwrap();
            let real = rustix::fs::accessat(CWD, "f", Access::READ_OK, AtFlags::empty());
            (real, sys::open("f", OFlags::RDONLY, 0).map(drop))
        });
        thread.join().unwrap()
    });
    answers.0.fails(Errno::ACCESS);
    answers.1.must();
}

fn running_needs_the_right_to(b: &Bench) {
    use std::process::Command;
    sys::put("true", &std::fs::read("/bin/true").unwrap()).must();
    let here = rustix::process::getcwd(Vec::new()).must().into_string().unwrap();
    let run = || Command::new(format!("{here}/true")).status();
    sys::chmod("true", 0o755).must();
    match run() {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => b.skip("mounted noexec"),
        status => assert!(status.unwrap().success()),
    }
    sys::chmod("true", 0o644).must();
    assert_eq!(run().unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
}
