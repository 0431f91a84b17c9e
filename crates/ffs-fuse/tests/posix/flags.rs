//! Immutable and append-only files and directories: what pjdfstest's cases 07, 08, 12 and 13 of
//! most directories do with chflags(2). On Linux the flags are set by `FS_IOC_SETFLAGS`.

use crate::bench::{ALICE, BOB, Bench, Case, Expect, Need, as_user, cases, tick};
use crate::calls::{CALLS, OTHER, Part};
use crate::sys::{self, Errno, Kind, R, To};
use rustix::fs::{FallocateFlags, IFlags, OFlags, RenameFlags, ioctl_getflags, ioctl_setflags};

const IMMUTABLE: IFlags = IFlags::IMMUTABLE;
const APPEND: IFlags = IFlags::APPEND;
const OURS: IFlags = IMMUTABLE.union(APPEND).union(IFlags::NODUMP);

mod own {
    use super::*;

    cases! {
        "flags" {
            are_kept_and_shown [Root, Flags];
            are_for_root_but_nodump_for_owners [Root, Flags];
            change_ctime [Root, Flags];
            immutable_files_can_only_be_read [Root, Flags];
            append_only_files_only_grow [Root, Flags];
            an_immutable_directory_itself [Root, Flags];
            files_below_an_immutable_directory_can_be_written [Root, Flags];
            exchange_respects_them [Root, Flags];
        }
    }
}
use own::cases as own_cases;

fn set(p: &str, flags: IFlags) -> R {
    let f = sys::open(p, OFlags::RDONLY, 0)?;
    let others = ioctl_getflags(&f)? - OURS;
    ioctl_setflags(&f, others | flags)
}

/// The flags of interest; a file system may show others of its own.
fn get(p: &str) -> IFlags {
    let all = ioctl_getflags(sys::open(p, OFlags::RDONLY, 0).must()).must();
    all & OURS
}

/// Does something while a file has flags.
fn with<T>(p: &str, flags: IFlags, f: impl FnOnce() -> T) -> T {
    set(p, flags).must();
    let answer = f();
    set(p, IFlags::empty()).must();
    answer
}

fn are_kept_and_shown(_: &Bench) {
    sys::put("f", b"").must();
    sys::mkdir("d", 0o755).must();
    for p in ["f", "d"] {
        assert_eq!(get(p), IFlags::empty());
        for flags in [IMMUTABLE, APPEND, IFlags::NODUMP, IMMUTABLE | APPEND | IFlags::NODUMP] {
            set(p, flags).must();
            assert_eq!(get(p), flags);
        }
        set(p, IFlags::empty()).must();
        assert_eq!(get(p), IFlags::empty());
    }
}

fn are_for_root_but_nodump_for_owners(_: &Bench) {
    sys::put("f", b"").must();
    sys::chmod("f", 0o666).must();
    sys::chown("f", Some(ALICE.uid), Some(ALICE.gid)).must();
    as_user(ALICE, || {
        for flags in [IMMUTABLE, APPEND] {
            set("f", flags).fails(Errno::PERM);
        }
        set("f", IFlags::NODUMP).must();
        set("f", IFlags::empty()).must();
    });
    as_user(BOB, || set("f", IFlags::NODUMP).fails([Errno::PERM, Errno::ACCESS]));
    with("f", IMMUTABLE, || as_user(ALICE, || set("f", IFlags::empty()).fails(Errno::PERM)));
}

fn change_ctime(b: &Bench) {
    if b.traits.writeback {
        b.skip(
            "a kernel that keeps data back keeps times too, and does not know about this change",
        );
    }
    sys::put("f", b"").must();
    let before = sys::stat("f").must();
    tick();
    set("f", IFlags::NODUMP).must();
    let after = sys::stat("f").must();
    assert!(after.ctime > before.ctime && after.mtime == before.mtime);
}

fn immutable_files_can_only_be_read(b: &Bench) {
    sys::put("f", b"content").must();
    sys::put("g", b"").must();
    let before = sys::stat("f").must();
    let answers = with("f", IMMUTABLE, || {
        let f = sys::open("f", OFlags::RDONLY, 0).must();
        assert_eq!(sys::content("f").must(), b"content");
        let mut answers = vec![
            ("write", sys::open("f", OFlags::WRONLY, 0).map(drop)),
            ("append", sys::open("f", OFlags::WRONLY | OFlags::APPEND, 0).map(drop)),
            ("O_TRUNC", sys::open("f", OFlags::RDONLY | OFlags::TRUNC, 0).map(drop)),
            ("truncate", sys::truncate("f", 1)),
            ("chmod", sys::chmod("f", 0o600)),
            ("fchmod", sys::fchmod(&f, 0o600)),
            ("chown", sys::chown("f", Some(1), Some(1))),
            ("link", sys::link("f", "h")),
            ("rename", sys::rename("f", "h")),
            ("rename over", sys::rename("g", "f")),
            ("unlink", sys::unlink("f")),
            ("utimens", sys::utimens("f", To::At((1, 1)), To::At((1, 1)))),
            ("touch", sys::utimens("f", To::Now, To::Now)),
            ("access", sys::access("f", rustix::fs::Access::WRITE_OK)),
        ];
        if b.traits.xattr {
            let r = rustix::fs::setxattr("f", "user.a", b"1", rustix::fs::XattrFlags::empty());
            answers.push(("setxattr", r));
        }
        answers
    });
    for (what, answer) in answers {
        // A kernel that does not know the flag lets access(2) pass; the write then fails.
        if what == "access" && b.ours() {
            continue;
        }
        answer.fails_for(Errno::PERM, what);
    }
    let after = sys::stat("f").must();
    assert_eq!((after.mode, after.uid, after.mtime), (before.mode, before.uid, before.mtime));
    assert_eq!(sys::list(".").must(), [b"f", b"g"]);
}

fn append_only_files_only_grow(b: &Bench) {
    sys::put("f", b"first").must();
    sys::put("g", b"").must();
    let answers = with("f", APPEND, || {
        let f = sys::open("f", OFlags::WRONLY | OFlags::APPEND, 0).must();
        sys::write(&f, b", second").must();
        assert_eq!(sys::content("f").must(), b"first, second");
        let mut answers = vec![
            ("write", sys::open("f", OFlags::WRONLY, 0).map(drop)),
            ("read and write", sys::open("f", OFlags::RDWR, 0).map(drop)),
            (
                "O_TRUNC",
                sys::open("f", OFlags::WRONLY | OFlags::APPEND | OFlags::TRUNC, 0).map(drop),
            ),
            ("truncate", sys::truncate("f", 1)),
            ("ftruncate", sys::ftruncate(&f, 1)),
            ("chmod", sys::chmod("f", 0o600)),
            ("chown", sys::chown("f", Some(1), Some(1))),
            ("link", sys::link("f", "h")),
            ("rename", sys::rename("f", "h")),
            ("rename over", sys::rename("g", "f")),
            ("unlink", sys::unlink("f")),
            ("utimens", sys::utimens("f", To::At((1, 1)), To::At((1, 1)))),
        ];
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if b.ours() {
            answers.push(("punch", rustix::fs::fallocate(&f, how, 0, 4)));
        }
        answers
    });
    for (what, answer) in answers {
        answer.fails_for(Errno::PERM, what);
    }
    assert_eq!(sys::content("f").must(), b"first, second");
    assert_eq!(sys::list(".").must(), [b"f", b"g"]);
}

fn an_immutable_directory_itself(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    sys::mkdir("e", 0o755).must();
    for flags in [IMMUTABLE, APPEND] {
        let answers = with("d", flags, || {
            [
                ("chmod", sys::chmod("d", 0o700)),
                ("chown", sys::chown("d", Some(1), Some(1))),
                ("rmdir", sys::rmdir("d")),
                ("rename", sys::rename("d", "x")),
                ("rename over", sys::rename("e", "d")),
                ("utimens", sys::utimens("d", To::At((1, 1)), To::At((1, 1)))),
            ]
        });
        for (what, answer) in answers {
            answer.fails_for(Errno::PERM, (what, flags));
        }
    }
    sys::rmdir("d").must();
}

fn files_below_an_immutable_directory_can_be_written(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    sys::put("d/f", b"old").must();
    with("d", IMMUTABLE, || {
        sys::put("d/f", b"new").must();
        sys::chmod("d/f", 0o600).must();
        sys::link("d/f", "outside").must();
    });
    assert_eq!(sys::content("outside").must(), b"new");
}

fn exchange_respects_them(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    sys::put("f", b"").must();
    sys::put("d/g", b"").must();
    for p in ["f", "d/g", "d"] {
        let swap = || sys::rename_with("f", "d/g", RenameFlags::EXCHANGE);
        with(p, IMMUTABLE, swap).fails_for(Errno::PERM, p);
        with(p, APPEND, swap).fails_for(Errno::PERM, p);
    }
}

/// What calls may do in a directory with flags.
fn in_directories() -> Vec<Case> {
    let mut cases = Vec::new();
    for c in CALLS {
        let refused_append = match c.part {
            Part::Makes => false,
            Part::Removes => true,
            // Another name elsewhere for what is inside, or the other way round.
            Part::Links | Part::Looks | Part::Changes | Part::Replaces => continue,
        };
        for (flags, name, refused) in [
            (IMMUTABLE, "eperm_in_an_immutable_directory", true),
            (APPEND, "in_an_append_only_directory", refused_append),
        ] {
            let run = move |_: &Bench| {
                sys::mkdir("d", 0o777).must();
                c.prepare();
                c.furnish(b"d/x");
                let answer = with("d", flags, || (c.run)(b"d/x"));
                if refused { answer.fails(Errno::PERM) } else { answer.must() }
            };
            cases.push(Case::new(c.area, c.label(name), &[Need::Root, Need::Flags], run));
        }
    }
    cases
}

fn rename_into(_: &Bench) {
    sys::mkdir("d", 0o777).must();
    for kind in [Kind::Regular, Kind::Directory] {
        sys::make(kind, OTHER, 0o777).must();
        with("d", IMMUTABLE, || sys::rename(OTHER, "d/x")).fails_for(Errno::PERM, kind);
        with("d", APPEND, || sys::rename(OTHER, "d/x")).must_for(kind);
        // What is replaced would have to go.
        sys::make(kind, OTHER, 0o777).must();
        with("d", APPEND, || sys::rename(OTHER, "d/x")).fails_for(Errno::PERM, kind);
        sys::remove(kind, OTHER).must();
        sys::remove(kind, "d/x").must();
    }
}

/// The cases of this module.
pub(crate) fn cases() -> Vec<Case> {
    let needs = [Need::Root, Need::Flags];
    let mut all = own_cases();
    all.extend(in_directories());
    all.push(Case::new("rename", "into_directories_with_flags", &needs, rename_into));
    all
}
