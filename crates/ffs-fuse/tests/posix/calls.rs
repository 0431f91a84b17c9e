//! The calls that take a path, as a table: what they have in common is tested once for all of them.

use crate::bench::Expect;
use crate::sys::{self, Kind, R, To};
use rustix::fs::{Access, OFlags, Timespec};

/// A call with one path left open.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// pjdfstest's directory, or the call's own name.
    pub(crate) area: &'static str,
    /// Which of the call's paths, where it has two.
    pub(crate) variant: &'static str,
    /// The call itself. `link` and `rename` take [`OTHER`] as their other path.
    pub(crate) run: fn(&[u8]) -> R,
    pub(crate) part: Part,
    /// What must stand at the path (or what the call puts there).
    pub(crate) object: Kind,
    /// Follows a symbolic link at the path's end.
    pub(crate) follows: bool,
}

/// What a call does with the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Only looks.
    Looks,
    /// Changes what is there.
    Changes,
    /// Makes something that must not be there.
    Makes,
    /// Makes something, or replaces what is there.
    Replaces,
    /// Removes what is there.
    Removes,
    /// Gives what is there another name.
    Links,
}

impl Part {
    /// Whether the path must exist.
    pub(crate) fn takes(self) -> bool {
        !matches!(self, Part::Makes | Part::Replaces)
    }

    /// Whether a read-only file system refuses it.
    pub(crate) fn modifies(self) -> bool {
        self != Part::Looks
    }
}

/// The other path of `link` and `rename`.
pub(crate) const OTHER: &str = "other";

impl Call {
    /// `area` or `area_variant`: to be part of a case's name.
    pub(crate) fn label(&self, what: &str) -> String {
        if self.variant.is_empty() { what.to_owned() } else { format!("{}_{what}", self.variant) }
    }

    /// Puts what the call needs on its other path, and takes away what it left there.
    pub(crate) fn prepare(&self) {
        let needs_other = self.part == Part::Replaces || self.variant == "to";
        let there = sys::lstat(OTHER).is_ok();
        if needs_other && !there {
            sys::put(OTHER, b"other").must();
        } else if !needs_other && there {
            sys::unlink(OTHER).must();
        }
    }

    /// Puts what the call needs at `path`.
    pub(crate) fn furnish(&self, path: &[u8]) {
        if self.part.takes() {
            sys::make(self.object, path, 0o777).must_for((self.area, self.variant));
        }
    }

    /// Removes the file at `path`, if the call made one.
    pub(crate) fn clear(&self, path: &[u8]) {
        if sys::lstat(path).is_ok() {
            sys::remove(self.object, path).must();
        }
    }
}

const fn call(area: &'static str, part: Part, object: Kind, run: fn(&[u8]) -> R) -> Call {
    let follows = matches!(part, Part::Looks | Part::Changes);
    Call { area, variant: "", run, part, object, follows }
}

const fn variant(mut c: Call, name: &'static str) -> Call {
    c.variant = name;
    c
}

const fn not_following(mut c: Call) -> Call {
    c.follows = false;
    c
}

fn me() -> (Option<u32>, Option<u32>) {
    (Some(rustix::process::geteuid().as_raw()), Some(rustix::process::getegid().as_raw()))
}

fn open_new(p: &[u8]) -> R {
    sys::create(p, 0o644).map(drop)
}

fn utimens(p: &[u8]) -> R {
    sys::utimens(p, To::At((1, 0)), To::At((2, 0)))
}

/// Every call.
pub(crate) const CALLS: &[Call] = &[
    call("chmod", Part::Changes, Kind::Regular, |p| sys::chmod(p, 0o600)),
    call("chown", Part::Changes, Kind::Regular, |p| sys::chown(p, me().0, me().1)),
    variant(
        not_following(call("chown", Part::Changes, Kind::Regular, |p| {
            sys::lchown(p, me().0, me().1)
        })),
        "lchown",
    ),
    variant(call("link", Part::Links, Kind::Regular, |p| sys::link(p, OTHER)), "from"),
    variant(call("link", Part::Makes, Kind::Regular, |p| sys::link(OTHER, p)), "to"),
    call("mkdir", Part::Makes, Kind::Directory, |p| sys::mkdir(p, 0o755)),
    call("mkfifo", Part::Makes, Kind::Fifo, |p| sys::mkfifo(p, 0o644)),
    call("mknod", Part::Makes, Kind::Socket, |p| sys::mknod(p, Kind::Socket, 0o644, (0, 0))),
    variant(
        call("open", Part::Looks, Kind::Regular, |p| sys::open(p, OFlags::RDONLY, 0).map(drop)),
        "read",
    ),
    variant(
        call("open", Part::Changes, Kind::Regular, |p| sys::open(p, OFlags::RDWR, 0).map(drop)),
        "write",
    ),
    variant(call("open", Part::Makes, Kind::Regular, open_new), "create"),
    variant(
        call("open", Part::Looks, Kind::Directory, |p| {
            sys::open(p, OFlags::RDONLY | OFlags::DIRECTORY, 0).map(drop)
        }),
        "directory",
    ),
    variant(call("rename", Part::Removes, Kind::Regular, |p| sys::rename(p, OTHER)), "from"),
    variant(call("rename", Part::Replaces, Kind::Regular, |p| sys::rename(OTHER, p)), "to"),
    call("rmdir", Part::Removes, Kind::Directory, |p| sys::rmdir(p)),
    call("symlink", Part::Makes, Kind::Symlink, |p| sys::symlink("somewhere", p)),
    call("truncate", Part::Changes, Kind::Regular, |p| sys::truncate(p, 123)),
    call("unlink", Part::Removes, Kind::Regular, |p| sys::unlink(p)),
    call("utimensat", Part::Changes, Kind::Regular, utimens),
    call("stat", Part::Looks, Kind::Regular, |p| sys::stat(p).map(drop)),
    variant(
        not_following(call("stat", Part::Looks, Kind::Regular, |p| sys::lstat(p).map(drop))),
        "lstat",
    ),
    call("access", Part::Looks, Kind::Regular, |p| sys::access(p, Access::EXISTS)),
    not_following(call("readlink", Part::Looks, Kind::Symlink, |p| sys::readlink(p).map(drop))),
    call("statfs", Part::Looks, Kind::Regular, |p| rustix::fs::statfs(p).map(drop)),
];

/// The same calls with a path that is no address: for each its number and which argument.
pub(crate) fn with_bad_address() -> Vec<(&'static str, &'static str, R)> {
    const BAD: *const libc::c_char = std::ptr::without_provenance(!0xfff);
    let here = libc::AT_FDCWD;
    let good = c"good".as_ptr();
    let times = [Timespec { tv_sec: 0, tv_nsec: 0 }; 2];
    let done = |r: libc::c_int| {
        if r == -1 {
            let e = std::io::Error::last_os_error().raw_os_error().unwrap_or_default();
            return Err(sys::Errno::from_raw_os_error(e));
        }
        Ok(())
    };
    // SAFETY: the kernel checks addresses; BAD is never read here, the others live during the
    // calls.
    unsafe {
        vec![
            ("chmod", "", done(libc::chmod(BAD, 0o644))),
            ("chown", "", done(libc::chown(BAD, 1, 1))),
            ("chown", "lchown", done(libc::lchown(BAD, 1, 1))),
            ("link", "from", done(libc::link(BAD, good))),
            ("link", "to", done(libc::link(good, BAD))),
            ("mkdir", "", done(libc::mkdir(BAD, 0o755))),
            ("mkfifo", "", done(libc::mkfifo(BAD, 0o644))),
            ("mknod", "", done(libc::mknod(BAD, libc::S_IFSOCK | 0o644, 0))),
            ("open", "read", done(libc::open(BAD, libc::O_RDONLY))),
            ("open", "create", done(libc::open(BAD, libc::O_CREAT | libc::O_WRONLY, 0o644))),
            ("rename", "from", done(libc::rename(BAD, good))),
            ("rename", "to", done(libc::rename(good, BAD))),
            ("rmdir", "", done(libc::rmdir(BAD))),
            ("symlink", "from", done(libc::symlink(BAD, good))),
            ("symlink", "to", done(libc::symlink(good, BAD))),
            ("truncate", "", done(libc::truncate(BAD, 1))),
            ("unlink", "", done(libc::unlink(BAD))),
            ("utimensat", "", done(libc::utimensat(here, BAD, times.as_ptr().cast(), 0))),
            ("readlink", "", done(libc::readlink(BAD, std::ptr::null_mut(), 1) as libc::c_int)),
        ]
    }
}
