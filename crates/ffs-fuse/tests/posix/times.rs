//! Which times a call changes, and which it leaves alone: for the file and for its directory.
//!
//! Every call is a row: what is there before, the call, and for each file that is looked at which
//! of its times (`a`, `m`, `c`) are later afterwards. All others are exactly what they were.

use crate::bench::{Bench, Case, Expect, cases, tick};
use crate::sys::{self, Errno, Kind, St, Time, To};
use rustix::fs::{OFlags, RenameFlags};

/// A file before and after, and which times change.
type Seen = (&'static str, &'static str, &'static str);

struct Row {
    area: &'static str,
    name: &'static str,
    setup: fn(),
    act: fn(),
    seen: &'static [Seen],
}

const fn row(
    area: &'static str,
    name: &'static str,
    setup: fn(),
    act: fn(),
    seen: &'static [Seen],
) -> Row {
    Row { area, name, setup, act, seen }
}

fn file() {
    sys::mkdir("d", 0o777).must();
    sys::put("d/f", b"content").must();
    sys::mkdir("e", 0o777).must();
    sys::symlink("f", "d/s").must();
}

fn two_links() {
    file();
    sys::link("d/f", "e/g").must();
}

fn subdirectory() {
    file();
    sys::mkdir("d/sub", 0o777).must();
}

fn open(p: &str) -> rustix::fd::OwnedFd {
    sys::open(p, OFlags::RDWR, 0).must()
}

const ROWS: &[Row] = &[
    row(
        "chmod",
        "c_of_the_file",
        file,
        || sys::chmod("d/f", 0o600).must(),
        &[("d/f", "d/f", "c"), ("d", "d", "")],
    ),
    row(
        "chmod",
        "c_of_a_directory",
        file,
        || sys::chmod("d", 0o700).must(),
        &[("d", "d", "c"), (".", ".", "")],
    ),
    row(
        "chown",
        "c_of_the_file",
        file,
        || sys::chown("d/f", me().0, me().1).must(),
        &[("d/f", "d/f", "c"), ("d", "d", "")],
    ),
    row(
        "link",
        "c_of_the_file_mc_of_the_new_directory",
        file,
        || sys::link("d/f", "e/g").must(),
        &[("d/f", "d/f", "c"), ("d", "d", ""), ("e", "e", "mc")],
    ),
    row(
        "mkdir",
        "mc_of_the_parent",
        file,
        || sys::mkdir("d/x", 0o777).must(),
        &[("d", "d", "mc"), (".", ".", ""), ("", "d/x", "amc")],
    ),
    row(
        "mkfifo",
        "mc_of_the_directory",
        file,
        || sys::mkfifo("d/x", 0o777).must(),
        &[("d", "d", "mc"), ("", "d/x", "amc")],
    ),
    row(
        "mknod",
        "mc_of_the_directory",
        file,
        || sys::mknod("d/x", Kind::Socket, 0o777, (0, 0)).must(),
        &[("d", "d", "mc"), ("", "d/x", "amc")],
    ),
    row(
        "open",
        "creation_mc_of_the_directory",
        file,
        || drop(sys::create("d/x", 0o777).must()),
        &[("d", "d", "mc"), ("", "d/x", "amc")],
    ),
    row(
        "open",
        "of_what_exists_changes_nothing",
        file,
        || drop(sys::open("d/f", OFlags::RDWR | OFlags::CREATE, 0o777).must()),
        &[("d", "d", ""), ("d/f", "d/f", "")],
    ),
    row(
        "open",
        "truncation_mc_of_the_file",
        file,
        || drop(sys::open("d/f", OFlags::WRONLY | OFlags::TRUNC, 0).must()),
        &[("d", "d", ""), ("d/f", "d/f", "mc")],
    ),
    row(
        "rename",
        "mc_of_the_directory_and_nothing_of_the_content",
        file,
        || sys::rename("d/f", "d/g").must(),
        &[("d", "d", "mc"), ("d/f", "d/g", "c"), (".", ".", "")],
    ),
    row(
        "rename",
        "mc_of_both_directories",
        file,
        || sys::rename("d/f", "e/g").must(),
        &[("d", "d", "mc"), ("e", "e", "mc"), ("d/f", "e/g", "c")],
    ),
    row(
        "rename",
        "c_of_what_is_replaced_but_has_another_name",
        two_links,
        || {
            sys::put("x", b"").must();
            sys::rename("x", "d/f").must()
        },
        &[("d", "d", "mc"), ("e/g", "e/g", "c"), ("e", "e", "")],
    ),
    row(
        "rename",
        "mc_of_both_directories_on_exchange",
        subdirectory,
        || sys::rename_with("d/f", "e", RenameFlags::EXCHANGE).must(),
        &[("d", "d", "mc"), (".", ".", "mc"), ("d/f", "e", "c"), ("e", "d/f", "c")],
    ),
    row(
        "rmdir",
        "mc_of_the_parent",
        subdirectory,
        || sys::rmdir("d/sub").must(),
        &[("d", "d", "mc"), (".", ".", "")],
    ),
    row(
        "symlink",
        "mc_of_the_directory",
        file,
        || sys::symlink("f", "d/x").must(),
        &[("d", "d", "mc"), ("d/f", "d/f", ""), ("", "d/x", "amc")],
    ),
    row(
        "truncate",
        "mc_of_the_file",
        file,
        || sys::truncate("d/f", 3).must(),
        &[("d/f", "d/f", "mc"), ("d", "d", "")],
    ),
    row(
        "ftruncate",
        "mc_of_the_file",
        file,
        || sys::ftruncate(open("d/f"), 99).must(),
        &[("d/f", "d/f", "mc"), ("d", "d", "")],
    ),
    row(
        "unlink",
        "mc_of_the_directory_c_of_the_file",
        two_links,
        || sys::unlink("d/f").must(),
        &[("d", "d", "mc"), ("e/g", "e/g", "c"), ("e", "e", "")],
    ),
    row(
        "utimensat",
        "c_of_the_file",
        file,
        || {
            let s = sys::stat("d/f").must();
            sys::utimens("d/f", To::At(s.atime), To::At(s.mtime)).must()
        },
        &[("d/f", "d/f", "c"), ("d", "d", "")],
    ),
    row(
        "write",
        "mc_of_the_file",
        file,
        || {
            // A whole page: to keep a part of one, a write-back cache must read.
            sys::write(open("d/f"), &[1; 65_536]).must();
        },
        &[("d/f", "d/f", "mc"), ("d", "d", "")],
    ),
    row(
        "write",
        "of_nothing_changes_nothing",
        file,
        || {
            sys::write(open("d/f"), b"").must();
        },
        &[("d/f", "d/f", "")],
    ),
    row(
        "write",
        "appending_mc_of_the_file",
        file,
        || {
            let f = sys::open("d/f", OFlags::WRONLY | OFlags::APPEND, 0).must();
            sys::write(f, &[1; 100_000]).must();
        },
        &[("d/f", "d/f", "mc"), ("d", "d", "")],
    ),
    row(
        "stat",
        "changes_nothing",
        file,
        || {
            for p in ["d", "d/f", "d/s"] {
                sys::stat(p).must();
                sys::access(p, rustix::fs::Access::READ_OK).must();
            }
        },
        &[("d", "d", ""), ("d/f", "d/f", "")],
    ),
];

fn me() -> (Option<u32>, Option<u32>) {
    (Some(rustix::process::geteuid().as_raw()), Some(rustix::process::getegid().as_raw()))
}

fn changed(old: &St, new: &St) -> String {
    let pairs =
        [('a', old.atime, new.atime), ('m', old.mtime, new.mtime), ('c', old.ctime, new.ctime)];
    let later = |(_, old, new): &(char, Time, Time)| {
        assert!(new >= old, "a time went back: {old:?} to {new:?}");
        new > old
    };
    pairs.into_iter().filter(later).map(|(c, _, _)| c).collect()
}

fn run(r: &Row) {
    (r.setup)();
    let before: Vec<_> =
        r.seen.iter().map(|(p, _, _)| (!p.is_empty()).then(|| sys::lstat(*p).must())).collect();
    let start = tick();
    (r.act)();
    for ((_, path, want), old) in r.seen.iter().zip(before) {
        let new = sys::lstat(*path).must();
        match old {
            Some(old) => assert_eq!(changed(&old, &new), *want, "{path}: {old:?} {new:?}"),
            None => {
                let all = [new.atime, new.mtime, new.ctime];
                assert!(all.iter().all(|t| *t >= start), "{path}: {start:?} {new:?}");
            }
        }
    }
}

mod reading {
    use super::*;

    cases! {
        "read" {
            a_of_a_file_not_read_since_it_changed;
            a_of_a_directory_not_listed_since_it_changed;
            a_of_a_symbolic_link;
        }
        "stat" { nothing_changes_when_calls_fail; }
    }

    /// As on any Linux mount with `relatime`: an access time older than the modification moves.
    fn a_of_a_file_not_read_since_it_changed(_: &Bench) {
        file();
        sys::utimens("d/f", To::At((1, 0)), To::At((2, 0))).must();
        let (before, start) = (sys::stat("d/f").must(), tick());
        assert_eq!(sys::content("d/f").must(), b"content");
        let after = sys::stat("d/f").must();
        assert!(after.atime >= start, "{before:?} {after:?}");
        assert_eq!((after.mtime, after.ctime), (before.mtime, before.ctime));
    }

    fn a_of_a_directory_not_listed_since_it_changed(_: &Bench) {
        file();
        sys::utimens("d", To::At((1, 0)), To::At((2, 0))).must();
        let start = tick();
        assert_eq!(sys::list("d").must().len(), 2);
        assert!(sys::stat("d").must().atime >= start);
    }

    fn a_of_a_symbolic_link(_: &Bench) {
        file();
        sys::lutimens("d/s", To::At((1, 0)), To::At((2, 0))).must();
        let start = tick();
        assert_eq!(sys::readlink("d/s").must(), b"f");
        assert!(sys::lstat("d/s").must().atime >= start);
    }

    fn nothing_changes_when_calls_fail(_: &Bench) {
        subdirectory();
        let look = || ["d", "d/f", "d/s", "d/sub", "e"].map(|p| sys::lstat(p).must());
        let before = look();
        tick();
        sys::mkdir("d/f", 0o755).fails(Errno::EXIST);
        sys::create("d/f", 0o755).fails(Errno::EXIST);
        sys::symlink("x", "d/sub").fails(Errno::EXIST);
        sys::link("d/f", "d/s").fails(Errno::EXIST);
        sys::link("d/none", "d/x").fails(Errno::NOENT);
        sys::rmdir("d").fails([Errno::NOTEMPTY, Errno::EXIST]);
        sys::rmdir("d/f").fails(Errno::NOTDIR);
        sys::unlink("d/none").fails(Errno::NOENT);
        sys::unlink("d/sub").fails([Errno::ISDIR, Errno::PERM]);
        sys::rename("d/none", "e/x").fails(Errno::NOENT);
        sys::rename("d/f", "d/sub").fails(Errno::ISDIR);
        sys::rename("d/sub", "d/f").fails(Errno::NOTDIR);
        sys::rename("d", "d/sub/x").fails(Errno::INVAL);
        sys::rename("e", "d").fails([Errno::NOTEMPTY, Errno::EXIST]);
        sys::truncate("d/f", -1).fails(Errno::INVAL);
        assert_eq!(look(), before);
    }
}

/// The cases of this module.
pub(crate) fn cases() -> Vec<Case> {
    let rows = ROWS.iter().map(|r| Case::new(r.area, format!("times_{}", r.name), &[], |_| run(r)));
    rows.chain(reading::cases()).collect()
}
