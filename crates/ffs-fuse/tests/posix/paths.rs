//! Path resolution, for every call that takes a path: pjdfstest's cases 01 to 10 of each directory.
//!
//! ENOTDIR, ENAMETOOLONG, ENOENT, EACCES, ELOOP, EFAULT and EEXIST come from the path, not from
//! what the call does. Each of them is checked for each call of the table in `calls`.

use crate::bench::{ALICE, Bench, Case, Expect, Need, as_user};
use crate::calls::{CALLS, Call, OTHER, Part, with_bad_address};
use crate::sys::{self, Errno, Kind};

const NAME_MAX: usize = 255;
/// With its NUL.
const PATH_MAX: usize = 4096;

type Check = fn(&Call, &Bench);

/// The cases of this module.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for c in CALLS {
        let mut add = |what: &str, needs: &[Need], check: Check| {
            cases.push(Case::new(c.area, c.label(what), needs, move |b| check(c, b)));
        };
        add("enotdir_when_a_component_is_a_file", &[], not_a_directory);
        add("names_of_255_bytes_work_256_are_enametoolong", &[], long_names);
        add("paths_of_4095_bytes_work_4096_are_enametoolong", &[], long_paths);
        add("enoent_when_a_component_is_missing", &[], missing);
        add("enoent_when_the_path_is_empty", &[], empty_path);
        let needs = [Need::Root, Need::KernelChecks];
        add("eacces_when_search_is_denied", &needs, search_denied);
        add("eloop_when_links_go_in_a_circle", &[], circle);
        add("forty_links_work_more_are_eloop", &[], chain);
        add("enotdir_when_a_slash_follows_a_file", &[], trailing_slash);
        if matches!(c.part, Part::Makes) {
            add("eexist_for_every_type_in_the_way", &[Need::Root], exists);
        }
        if matches!(c.part, Part::Makes | Part::Replaces | Part::Removes) {
            add("eacces_when_the_directory_may_not_be_written", &[Need::Root], write_denied);
        }
    }
    cases.extend(bad_addresses());
    cases
}

fn not_a_directory(c: &Call, _: &Bench) {
    c.prepare();
    for kind in [Kind::Regular, Kind::Fifo, Kind::Socket] {
        sys::make(kind, "f", 0o777).must();
        (c.run)(b"f/x").fails_for(Errno::NOTDIR, kind);
        (c.run)(b"f/x/y").fails_for(Errno::NOTDIR, kind);
        sys::unlink("f").must();
    }
    if c.part.takes() && c.object == Kind::Directory {
        sys::put("f", b"").must();
        (c.run)(b"f").fails(Errno::NOTDIR);
    }
}

fn long_names(c: &Call, _: &Bench) {
    let longest = vec![b'n'; NAME_MAX];
    c.prepare();
    c.furnish(&longest);
    (c.run)(&longest).must();
    c.clear(&longest);
    c.prepare();
    let too_long = vec![b'n'; NAME_MAX + 1];
    (c.run)(&too_long).fails(Errno::NAMETOOLONG);
    (c.run)(&[&too_long, &b"/x"[..]].concat()).fails(Errno::NAMETOOLONG);
    (c.run)(&vec![b'n'; 1024]).fails(Errno::NAMETOOLONG);
    (c.run)(&vec![b'n'; 2000]).fails(Errno::NAMETOOLONG);
}

/// A path of `len` bytes to `name`, by way of `./`.
fn padded(name: &[u8], len: usize) -> Vec<u8> {
    let mut path = b"./".repeat(len / 2);
    path.truncate(len - name.len());
    if path.last() == Some(&b'.') {
        path.pop();
        path.push(b'/');
    }
    path.extend(name);
    path
}

fn long_paths(c: &Call, _: &Bench) {
    // A deep tree of long names, so that the path is long for the file system too.
    let deep = [vec![b'd'; NAME_MAX], vec![b'/']].concat().repeat(4);
    for n in 1..=4 {
        sys::mkdir(&deep[..n * (NAME_MAX + 1) - 1], 0o755).must();
    }
    c.prepare();
    let name = [&deep[..], b"x"].concat();
    let longest = [&deep[..], &padded(b"x", PATH_MAX - 1 - deep.len())].concat();
    assert_eq!(longest.len(), PATH_MAX - 1);
    c.furnish(&name);
    (c.run)(&longest).must();
    c.clear(&name);
    c.prepare();
    let too_long = [&deep[..], &padded(b"x", PATH_MAX - deep.len())].concat();
    (c.run)(&too_long).fails(Errno::NAMETOOLONG);
}

fn missing(c: &Call, _: &Bench) {
    c.prepare();
    (c.run)(b"none/x").fails(Errno::NOENT);
    (c.run)(b"none/none/x").fails(Errno::NOENT);
    if c.part.takes() {
        (c.run)(b"none").fails(Errno::NOENT);
    }
    sys::symlink("none", "dangling").must();
    (c.run)(b"dangling/x").fails(Errno::NOENT);
    if c.part.takes() && c.follows {
        (c.run)(b"dangling").fails([Errno::NOENT, Errno::LOOP]);
    }
}

fn empty_path(c: &Call, _: &Bench) {
    c.prepare();
    (c.run)(b"").fails(Errno::NOENT);
}

fn search_denied(c: &Call, _: &Bench) {
    sys::chmod(".", 0o777).must();
    sys::mkdir("d", 0o777).must();
    sys::mkdir("d/e", 0o777).must();
    c.prepare();
    c.furnish(b"d/e/x");
    for closed in [0o666, 0o644, 0o000] {
        sys::chmod("d", closed).must();
        as_user(ALICE, || (c.run)(b"d/e/x").fails_for(Errno::ACCESS, closed));
    }
}

fn circle(c: &Call, _: &Bench) {
    c.prepare();
    sys::symlink("b", "a").must();
    sys::symlink("a", "b").must();
    sys::symlink("self", "self").must();
    (c.run)(b"a/x").fails(Errno::LOOP);
    (c.run)(b"self/x").fails(Errno::LOOP);
    if c.part.takes() && c.follows {
        let refused = if c.object == Kind::Directory {
            [Errno::LOOP, Errno::NOTDIR]
        } else {
            [Errno::LOOP, Errno::LOOP]
        };
        (c.run)(b"a").fails(refused);
    }
}

fn chain(c: &Call, _: &Bench) {
    c.prepare();
    sys::mkdir("0", 0o755).must();
    for n in 1..=41 {
        sys::symlink((n - 1).to_string(), n.to_string()).must();
    }
    c.furnish(b"0/x");
    (c.run)(b"41/x").fails(Errno::LOOP);
    (c.run)(b"40/x").must();
}

fn trailing_slash(c: &Call, _: &Bench) {
    c.prepare();
    sys::put("f", b"").must();
    let refused: &[Errno] = match (c.area, c.part) {
        // Whether the name is taken or of the wrong kind is noticed in either order.
        (_, Part::Makes) => &[Errno::EXIST, Errno::NOTDIR, Errno::ISDIR, Errno::NOENT],
        _ => &[Errno::NOTDIR],
    };
    (c.run)(b"f/").fails(refused);
    (c.run)(b"f//").fails(refused);
    assert_eq!(sys::lstat("f").must().kind, Kind::Regular);
}

fn exists(c: &Call, _: &Bench) {
    c.prepare();
    for kind in Kind::ALL {
        sys::make(kind, "there", 0o755).must();
        let before = sys::lstat("there").must();
        (c.run)(b"there").fails_for(Errno::EXIST, kind);
        assert_eq!(sys::lstat("there").must(), before, "{kind:?} was touched");
        sys::remove(kind, "there").must();
    }
    for dots in [&b"."[..], b".."] {
        (c.run)(dots).fails(Errno::EXIST);
    }
}

fn write_denied(c: &Call, _: &Bench) {
    let (uid, gid) = (Some(ALICE.uid), Some(ALICE.gid));
    sys::chmod(".", 0o777).must();
    sys::mkdir("d", 0o777).must();
    c.prepare();
    c.furnish(b"d/x");
    // Her own file: what counts is the directory.
    for own in ["d/x", OTHER] {
        if sys::lstat(own).is_ok() {
            sys::lchown(own, uid, gid).must();
        }
    }
    for closed in [0o755, 0o775, 0o555] {
        sys::chmod("d", closed).must();
        as_user(ALICE, || (c.run)(b"d/x").fails_for(Errno::ACCESS, closed));
    }
    sys::chown("d", uid, gid).must();
    as_user(ALICE, || (c.run)(b"d/x").fails(Errno::ACCESS));
    sys::chmod("d", 0o755).must();
    as_user(ALICE, || (c.run)(b"d/x").must());
}

fn bad_addresses() -> Vec<Case> {
    let areas: Vec<_> = with_bad_address().into_iter().map(|(a, v, _)| (a, v)).collect();
    let one = |(i, (area, variant)): (usize, (&'static str, &str))| {
        let name = if variant.is_empty() { String::new() } else { format!("{variant}_") };
        Case::new(area, name + "efault_when_the_path_is_no_address", &[], move |_| {
            sys::put("good", b"").must();
            with_bad_address().remove(i).2.fails(Errno::FAULT);
        })
    };
    areas.into_iter().enumerate().map(one).collect()
}
