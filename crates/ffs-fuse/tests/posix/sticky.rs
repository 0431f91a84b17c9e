//! Sticky directories: pjdfstest's `rename/09`, `rename/10`, `unlink/11`, `rmdir/11`.
//!
//! In a directory with the sticky bit an entry is removed, renamed or replaced only by the owner of
//! the file, the owner of the directory, or root. All owners are tried against each other.

use crate::bench::{ALICE, BOB, Bench, CAROL, Expect, as_user, cases};
use crate::sys::{self, Errno, Kind};
use rustix::fs::RenameFlags;

cases! {
    "unlink" { sticky_directories [Root]; }
    "rmdir" { sticky_directories_of_directories [Root]; }
    "rename" {
        out_of_sticky_directories [Root];
        over_files_in_sticky_directories [Root];
        over_directories_in_sticky_directories [Root];
        exchange_with_sticky_directories [Root];
    }
}

const REFUSED: [Errno; 2] = [Errno::PERM, Errno::ACCESS];
const OWNERS: [u32; 3] = [ALICE.uid, BOB.uid, 0];

/// Makes a file that belongs to somebody and that everybody may write.
fn put(kind: Kind, path: &str, owner: u32) {
    sys::make(kind, path, 0o777).must();
    sys::lchown(path, Some(owner), Some(CAROL.gid)).must();
}

fn sticky(path: &str, owner: u32) {
    sys::mkdir(path, 0o777).must();
    sys::chown(path, Some(owner), Some(CAROL.gid)).must();
    sys::chmod(path, 0o1777).must();
}

/// Whether Alice may take an entry away.
fn may(directory: u32, file: u32) -> bool {
    directory == ALICE.uid || file == ALICE.uid
}

fn removing(kind: Kind) {
    for dir in OWNERS {
        sticky("d", dir);
        for file in OWNERS {
            put(kind, "d/n", file);
            let what = (kind, dir, file);
            if may(dir, file) {
                as_user(ALICE, || sys::remove(kind, "d/n").must_for(what));
            } else {
                as_user(ALICE, || sys::remove(kind, "d/n").fails_for(REFUSED, what));
                sys::lstat("d/n").must();
                sys::remove(kind, "d/n").must();
            }
        }
        sys::rmdir("d").must();
    }
}

fn sticky_directories(_: &Bench) {
    for kind in Kind::FILES {
        removing(kind);
    }
}

fn sticky_directories_of_directories(_: &Bench) {
    removing(Kind::Directory);
}

fn out_of_sticky_directories(_: &Bench) {
    sys::mkdir("free", 0o777).must();
    for kind in Kind::ALL {
        for dir in OWNERS {
            sticky("d", dir);
            for file in OWNERS {
                for to in ["d/m", "free/m"] {
                    put(kind, "d/n", file);
                    let what = (kind, dir, file, to);
                    if may(dir, file) {
                        as_user(ALICE, || sys::rename("d/n", to).must_for(what));
                        sys::remove(kind, to).must();
                    } else {
                        as_user(ALICE, || sys::rename("d/n", to).fails_for(REFUSED, what));
                        sys::lstat("d/n").must();
                        sys::lstat(to).fails(Errno::NOENT);
                        sys::remove(kind, "d/n").must();
                    }
                }
            }
            sys::rmdir("d").must();
        }
    }
}

fn over(kind: Kind) {
    sys::mkdir("free", 0o777).must();
    for dir in OWNERS {
        sticky("d", dir);
        for file in OWNERS {
            for from in ["free/n", "d/mine"] {
                put(kind, from, ALICE.uid);
                put(kind, "d/n", file);
                let (mine, theirs) = (sys::lstat(from).must().ino, sys::lstat("d/n").must().ino);
                let what = (kind, dir, file, from);
                if may(dir, file) {
                    as_user(ALICE, || sys::rename(from, "d/n").must_for(what));
                    assert_eq!(sys::lstat("d/n").must().ino, mine);
                } else {
                    as_user(ALICE, || sys::rename(from, "d/n").fails_for(REFUSED, what));
                    assert_eq!(sys::lstat("d/n").must().ino, theirs);
                    sys::remove(kind, from).must();
                }
                sys::remove(kind, "d/n").must();
            }
        }
        sys::rmdir("d").must();
    }
}

fn over_files_in_sticky_directories(_: &Bench) {
    over(Kind::Regular);
    sys::rmdir("free").must();
    over(Kind::Symlink);
}

fn over_directories_in_sticky_directories(_: &Bench) {
    over(Kind::Directory);
}

fn exchange_with_sticky_directories(_: &Bench) {
    sys::mkdir("free", 0o777).must();
    for dir in OWNERS {
        sticky("d", dir);
        for file in OWNERS {
            put(Kind::Regular, "free/n", BOB.uid);
            put(Kind::Regular, "d/n", file);
            let swap = || sys::rename_with("free/n", "d/n", RenameFlags::EXCHANGE);
            let what = (dir, file);
            if may(dir, file) {
                as_user(ALICE, || swap().must_for(what));
            } else {
                as_user(ALICE, || swap().fails_for(REFUSED, what));
            }
            sys::unlink("d/n").must();
            sys::unlink("free/n").must();
        }
        sys::rmdir("d").must();
    }
}
