//! EROFS: pjdfstest's cases 08 to 16 of most directories. Once by the mount alone (a read-only bind
//! mount), once by the file system itself.

use crate::bench::{Bench, Case, Expect, Need, cases};
use crate::calls::{CALLS, Call};
use crate::ground::Served;
use crate::sys::{self, Errno, Kind};
use rustix::fs::{Access, OFlags, XattrFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};
use std::path::Path;

mod own {
    use super::*;

    cases! {
        "open" { for_writing_is_erofs [Root]; }
        "access" { for_writing_is_erofs_too [Root]; }
        "read-only" {
            attributes_and_locks [Root];
            a_volume_mounted_read_only [Root, Ours];
            a_volume_remounted_back_and_forth [Root, Ours];
        }
    }
}

/// Does something in `ro`, of which the mount is read-only meanwhile.
fn read_only<T>(f: impl FnOnce() -> T) -> T {
    mount_bind("ro", "ro").must();
    mount_remount("ro", MountFlags::BIND | MountFlags::RDONLY, "").must();
    rustix::process::chdir("ro").must();
    let answer = f();
    rustix::process::chdir("..").must();
    unmount("ro", UnmountFlags::DETACH).must();
    answer
}

fn refused(c: &Call) {
    sys::mkdir("ro", 0o755).must();
    rustix::process::chdir("ro").must();
    c.prepare();
    c.furnish(b"x");
    // Listing it changes its access time.
    let look = |d| (sys::St { atime: (0, 0), ..sys::stat(d).must() }, sys::list(d).must());
    let before = look(".");
    rustix::process::chdir("..").must();
    read_only(|| (c.run)(b"x")).fails(Errno::ROFS);
    assert_eq!(look("ro"), before);
}

/// The cases of this module.
pub(crate) fn cases() -> Vec<Case> {
    let writers = CALLS.iter().filter(|c| c.part.modifies());
    let name = "erofs_on_a_read_only_mount";
    let each = writers.map(|c| Case::new(c.area, c.label(name), &[Need::Root], |_| refused(c)));
    each.chain(own::cases()).collect()
}

fn for_writing_is_erofs(_: &Bench) {
    sys::mkdir("ro", 0o755).must();
    sys::put("ro/f", b"content").must();
    sys::mkfifo("ro/p", 0o644).must();
    read_only(|| {
        for flags in [OFlags::WRONLY, OFlags::RDWR, OFlags::RDONLY | OFlags::TRUNC] {
            sys::open("f", flags, 0).fails_for(Errno::ROFS, flags);
        }
        sys::open("new", OFlags::RDONLY | OFlags::CREATE, 0o644).fails(Errno::ROFS);
        sys::open("f", OFlags::RDONLY | OFlags::CREATE, 0o644).must();
        assert_eq!(sys::content("f").must(), b"content");
        // A pipe is not on the file system.
        sys::open("p", OFlags::RDWR | OFlags::NONBLOCK, 0).must();
        sys::mkdir("f", 0o755).fails(Errno::EXIST);
        sys::create("f", 0o644).fails(Errno::EXIST);
    });
}

fn for_writing_is_erofs_too(_: &Bench) {
    sys::mkdir("ro", 0o755).must();
    for kind in [Kind::Regular, Kind::Directory] {
        sys::make(kind, "ro/n", 0o755).must();
        read_only(|| {
            sys::access("n", Access::READ_OK | Access::EXEC_OK).must();
            sys::access("n", Access::WRITE_OK).fails(Errno::ROFS);
        });
        sys::remove(kind, "ro/n").must();
    }
}

fn attributes_and_locks(b: &Bench) {
    sys::mkdir("ro", 0o755).must();
    sys::put("ro/f", b"").must();
    read_only(|| {
        if b.traits.xattr {
            rustix::fs::setxattr("f", "user.a", b"1", XattrFlags::empty()).fails(Errno::ROFS);
        }
        let f = sys::open("f", OFlags::RDONLY, 0).must();
        sys::fchmod(&f, 0o600).fails(Errno::ROFS);
        sys::fchown(&f, Some(1), None).fails(Errno::ROFS);
        sys::futimens(&f, sys::To::Now, sys::To::Now).fails(Errno::ROFS);
        rustix::fs::flock(&f, rustix::fs::FlockOperation::NonBlockingLockExclusive).must();
    });
}

/// Goes through all calls in the directory `w`, where everything has been prepared.
fn all_refused(root: &Path) {
    for (i, c) in CALLS.iter().enumerate() {
        rustix::process::chdir(root.join(i.to_string())).must();
        let answer = (c.run)(b"x");
        let what = (c.area, c.variant);
        if c.part.modifies() {
            answer.fails_for(Errno::ROFS, what);
        } else {
            answer.must_for(what);
        }
    }
    rustix::process::chdir("/").must();
}

fn prepare_all(root: &Path) {
    for (i, c) in CALLS.iter().enumerate() {
        sys::mkdir(root.join(i.to_string()), 0o755).must();
        rustix::process::chdir(root.join(i.to_string())).must();
        c.prepare();
        if c.part.takes() {
            c.furnish(b"x");
        }
    }
    rustix::process::chdir("/").must();
}

fn a_volume_mounted_read_only(b: &Bench) {
    let image = b.ground.another(8 << 20);
    let served = Served::start(&image, "");
    prepare_all(served.dir());
    served.end();
    let bytes = std::fs::read(image.path()).unwrap();
    let served = Served::start(&image, "ro");
    all_refused(served.dir());
    assert!(
        rustix::fs::statvfs(served.dir())
            .must()
            .f_flag
            .contains(rustix::fs::StatVfsMountFlags::RDONLY)
    );
    served.end();
    assert!(std::fs::read(image.path()).unwrap() == bytes, "the image has changed");
}

fn a_volume_remounted_back_and_forth(b: &Bench) {
    let image = b.ground.another(8 << 20);
    let served = Served::start(&image, "");
    prepare_all(served.dir());
    let f = sys::create(served.dir().join("open"), 0o644).must();
    assert!(ffs_fuse::remount(served.dir(), true).is_err(), "a file is open for writing");
    drop(f);
    ffs_fuse::remount(served.dir(), true).unwrap();
    all_refused(served.dir());
    ffs_fuse::remount(served.dir(), false).unwrap();
    sys::put(served.dir().join("open"), b"again").must();
    ffs_fuse::remount(served.dir(), true).unwrap();
    all_refused(served.dir());
    served.end();
}
