//! The requests that calls of programs make: the table of `docs/performance.md`.

use crate::Test;
use crate::harness::{Image, caches_writes, errno};
use ffs_fuse::Control;
use ffs_ondisk::{Endian, Format};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

pub(crate) const TESTS: &[Test] = &[
    ("calls_make_the_requests_of_the_table", calls_make_the_requests_of_the_table),
    ("without_access_times_directories_open_without_requests", without_access_times),
    ("a_moved_directory_lists_its_parent", a_moved_directory),
    ("without_attributes_a_write_is_one_request", without_attributes),
    ("without_open_requests_files_open_and_close_at_once", without_open_requests),
    ("a_read_only_mount_opens_without_requests", a_read_only_mount_opens_without_requests),
];

/// The requests that calls wait for, by kind. RELEASE, RELEASEDIR and FORGET are not among them.
type Requests = BTreeMap<String, u64>;

fn now(control: &Control) -> Requests {
    let mut all = Requests::new();
    for (name, value) in control.values().unwrap() {
        let Some(kind) = name.strip_prefix("vfs.fusefs.requests.") else { continue };
        if !matches!(kind, "RELEASE" | "RELEASEDIR" | "FORGET" | "BATCH_FORGET") {
            all.insert(kind.to_owned(), value.parse().unwrap());
        }
    }
    all
}

/// The requests since `before`, without those of reading the counters.
fn since(control: &Control, before: &Requests) -> Requests {
    let after = now(control);
    let of_control = now(control);
    let more = after.iter().map(|(kind, n)| {
        let own = of_control[kind] - n;
        (kind.clone(), n - before[kind] - own)
    });
    more.filter(|(_, n)| *n > 0).collect()
}

/// Asserts that `call` in `dir` makes these requests. After a change of a directory the next call
/// in it makes one more, GETATTR, by which the kernel checks permissions. That one is made before.
fn assert_requests(control: &Control, dir: &Path, call: impl FnOnce(), expected: &[(&str, u64)]) {
    rustix::fs::stat(dir).unwrap();
    let before = now(control);
    call();
    let expected: Requests = expected.iter().map(|(k, n)| ((*k).to_owned(), *n)).collect();
    assert_eq!(since(control, &before), expected);
}

/// Opens, reads and closes, without calls of its own that a library adds.
fn read(path: &Path) {
    let file = rustix::fs::open(path, OFlags::RDONLY, Mode::empty()).unwrap();
    let mut content = [0; 16];
    let n = rustix::io::read(&file, &mut content).unwrap();
    assert_eq!(&content[..n], b"content");
}

fn write(path: &Path) {
    let mut file = fs::File::options().write(true).create_new(true).open(path).unwrap();
    file.write_all(b"content").unwrap();
}

/// Makes a directory of `names` files.
fn with_files(image: &Image, names: usize) {
    let m = image.mount("rw");
    fs::create_dir(m.path("d")).unwrap();
    for i in 0..names {
        fs::write(m.path(&format!("d/file{i:04}")), b"content").unwrap();
    }
    m.end();
}

/// The request with the times of a file that a kernel which caches writes makes when the file is
/// closed after a write, renamed or removed.
fn times_of_writes() -> Option<(&'static str, u64)> {
    caches_writes("rw").then_some(("SETATTR", 1))
}

fn calls_make_the_requests_of_the_table() {
    let image = Image::new();
    with_files(&image, 1000);
    let m = image.mount("rw");
    let control = Control::open(&image.mount_point()).unwrap();
    let at = |name: &str| m.path(&format!("d/{name}"));
    // The kernel learns with the first that the server has no FLUSH.
    write(&m.path("first"));
    fs::metadata(m.path("d")).unwrap();
    type Row<'a> = (&'a dyn Fn(), &'a [(&'a str, u64)]);
    // Whether the file has capabilities that the write must remove.
    let with_times = |requests: &[(&'static str, u64)]| {
        requests.iter().copied().chain(times_of_writes()).collect::<Vec<_>>()
    };
    let of_write = with_times(&[("LOOKUP", 1), ("CREATE", 1), ("GETXATTR", 1), ("WRITE", 1)]);
    let of_rename = with_times(&[("LOOKUP", 1), ("RENAME", 1)]);
    let of_unlink = with_times(&[("UNLINK", 1)]);
    let table: &[Row<'_>] = &[
        (&|| write(&at("new")), &of_write),
        (&|| read(&at("file0001")), &[("LOOKUP", 1), ("OPEN", 1), ("READ", 1)]),
        (&|| assert!(rustix::fs::stat(at("file0002")).is_ok()), &[("LOOKUP", 1)]),
        (&|| assert!(rustix::fs::stat(at("file0002")).is_ok()), &[]),
        (
            &|| assert_eq!(rustix::fs::stat(at("missing")).err(), Some(Errno::NOENT)),
            &[("LOOKUP", 1)],
        ),
        (&|| assert_eq!(rustix::fs::stat(at("missing")).err(), Some(Errno::NOENT)), &[]),
        (&|| fs::rename(at("file0002"), at("other")).unwrap(), &of_rename),
        (&|| fs::remove_file(at("other")).unwrap(), &of_unlink),
        (&|| fs::create_dir(at("dir")).unwrap(), &[("LOOKUP", 1), ("MKDIR", 1)]),
        (&|| fs::remove_dir(at("dir")).unwrap(), &[("RMDIR", 1)]),
    ];
    for (call, expected) in table {
        assert_requests(&control, &m.path("d"), call, expected);
    }
    m.end();
}

fn list(path: &Path) {
    let sizes = fs::read_dir(path).unwrap().map(|e| e.unwrap().metadata().unwrap().len());
    assert_eq!(sizes.sum::<u64>(), 7 * 1000);
}

fn without_access_times() {
    let image = Image::new();
    with_files(&image, 1000);
    let m = image.mount("rw,noatime");
    let control = Control::open(&image.mount_point()).unwrap();
    write(&m.path("first"));
    fs::metadata(m.path("d")).unwrap();
    let before = now(&control);
    list(&m.path("d"));
    let made = since(&control, &before);
    // The kernel learns with the first that the server has no OPENDIR; the control sent it.
    assert_eq!(made.get("OPENDIR"), None, "{made:?}");
    assert_eq!(made.get("LOOKUP"), None, "READDIRPLUS looks the names up: {made:?}");
    assert!(made["READDIRPLUS"] <= 8, "{made:?}");
    assert_requests(&control, &m.path("d"), || list(&m.path("d")), &[]);
    assert_requests(
        &control,
        &m.path("d"),
        || read(&m.path("d/file0001")),
        &[("OPEN", 1), ("READ", 1)],
    );
    write(&m.path("d/new"));
    assert_eq!(fs::read_dir(m.path("d")).unwrap().count(), 1001, "the listing is not stale");
    m.end();
}

/// The number that a listing has for `..`, from its beginning.
fn parent_in(dir: &OwnedFd) -> u64 {
    rustix::fs::seek(dir, rustix::fs::SeekFrom::Start(0)).unwrap();
    let mut entries = rustix::fs::Dir::read_from(dir).unwrap();
    let parent = entries.find(|e| e.as_ref().unwrap().file_name() == c"..");
    parent.unwrap().unwrap().ino()
}

/// The kernel has the listing in its cache, so it must learn of the new `..`.
fn a_moved_directory() {
    let image = Image::new();
    let open = |path: &Path| rustix::fs::open(path, OFlags::RDONLY, Mode::empty()).unwrap();
    let m = image.mount("rw");
    let ino = |name: &str| rustix::fs::stat(m.path(name)).unwrap().st_ino;
    for dir in ["old", "new", "old/d"] {
        fs::create_dir(m.path(dir)).unwrap();
    }
    // The second listing is cached.
    assert_eq!(parent_in(&open(&m.path("old/d"))), ino("old"));
    let dir = open(&m.path("old/d"));
    assert_eq!(parent_in(&dir), ino("old"));
    fs::rename(m.path("old/d"), m.path("new/d")).unwrap();
    assert_eq!(parent_in(&dir), ino("new"));
    drop(dir);
    m.end();
    // Without access times the kernel opens directories without a request.
    let m = image.mount("rw,noatime");
    let ino = |name: &str| rustix::fs::stat(m.path(name)).unwrap().st_ino;
    let parent = |name: &str| parent_in(&open(&m.path(name)));
    for dir in ["a", "b", "a/d", "b/e"] {
        fs::create_dir(m.path(dir)).unwrap();
    }
    assert_eq!((parent("a/d"), parent("b/e")), (ino("a"), ino("b")));
    fs::rename(m.path("a/d"), m.path("b/d")).unwrap();
    assert_eq!(parent("b/d"), ino("b"));
    fs::create_dir(m.path("a/c")).unwrap();
    assert_eq!((parent("a/c"), parent("b/e")), (ino("a"), ino("b")));
    let here = rustix::fs::CWD;
    let exchange = rustix::fs::RenameFlags::EXCHANGE;
    rustix::fs::renameat_with(here, m.path("a/c"), here, m.path("b/e"), exchange).unwrap();
    assert_eq!((parent("a/c"), parent("b/e")), (ino("a"), ino("b")));
    m.end();
}

fn without_attributes() {
    let ufs1 = Image::of((Format::Ufs1, Endian::Little, 8192, 1024), 16 << 20);
    let ufs2 = Image::new();
    for (image, options) in [(&ufs1, "rw"), (&ufs2, "noxattr")] {
        let m = image.mount(options);
        let control = Control::open(&image.mount_point()).unwrap();
        fs::create_dir(m.path("d")).unwrap();
        write(&m.path("d/first"));
        let mut expected = vec![("LOOKUP", 1), ("CREATE", 1), ("WRITE", 1)];
        expected.extend(times_of_writes());
        assert_requests(&control, &m.path("d"), || write(&m.path("d/new")), &expected);
        let file = m.path("d/new");
        let set = rustix::fs::setxattr(&file, "user.a", b"1", rustix::fs::XattrFlags::empty());
        assert_eq!(set, Err(Errno::OPNOTSUPP));
        assert_eq!(rustix::fs::getxattr(&file, "user.a", &mut [0; 9]), Err(Errno::OPNOTSUPP));
        let listed = rustix::fs::listxattr(&file, &mut [0u8; 9]);
        assert_eq!(listed, Ok(0));
        m.end();
    }
    // What is there stays, and access control lists are attributes that the kernel needs.
    let m = ufs2.mount("rw");
    let set = |name: &str, value: &[u8]| {
        rustix::fs::setxattr(m.path("d/new"), name, value, rustix::fs::XattrFlags::empty())
    };
    set("user.a", b"1").unwrap();
    m.end();
    ufs2.mount("noxattr").end();
    let m = ufs2.mount("noxattr,acls");
    let mut value = [0; 9];
    assert_eq!(rustix::fs::getxattr(m.path("d/new"), "user.a", &mut value), Ok(1));
    m.end();
}

fn without_open_requests() {
    let image = Image::new();
    with_files(&image, 3);
    let m = image.mount("no_open,nowriteback");
    let control = Control::open(&image.mount_point()).unwrap();
    // The kernel learns with the first that the server has no OPEN.
    read(&m.path("d/file0000"));
    let of_read = [("LOOKUP", 1), ("READ", 1)];
    assert_requests(&control, &m.path("d"), || read(&m.path("d/file0001")), &of_read);
    assert_requests(&control, &m.path("d"), || read(&m.path("d/file0001")), &[]);
    fs::File::options().append(true).open(m.path("d/file0002")).unwrap();
    assert_eq!(m.counter("vfs.fusefs.requests.RELEASE"), 0);
    let of_write = [("LOOKUP", 1), ("CREATE", 1), ("GETXATTR", 1), ("WRITE", 1)];
    write(&m.path("d/first"));
    assert_requests(&control, &m.path("d"), || write(&m.path("d/new")), &of_write);
    m.end();
    // A kernel that caches writes would learn too late that a file may not be written.
    let m = image.mount("no_open,writeback");
    read(&m.path("d/file0000"));
    assert_ne!(m.counter("vfs.fusefs.requests.OPEN"), 0);
    m.end();
}

fn a_read_only_mount_opens_without_requests() {
    let image = Image::new();
    with_files(&image, 1000);
    let m = image.mount("ro");
    let control = Control::open(&image.mount_point()).unwrap();
    list(&m.path("d"));
    // The kernel learns with the first that the server has no OPEN.
    read(&m.path("d/file0000"));
    assert_requests(&control, &m.path("d"), || read(&m.path("d/file0001")), &[("READ", 1)]);
    assert_requests(&control, &m.path("d"), || read(&m.path("d/file0001")), &[]);
    assert_requests(&control, &m.path("d"), || list(&m.path("d")), &[]);
    let refused = fs::File::options().write(true).open(m.path("d/file0001"));
    assert_eq!(errno(refused), libc::EROFS);
    let refused = ffs_fuse::remount(&image.mount_point(), false).unwrap_err().to_string();
    assert!(refused.contains("may not be written"), "{refused}");
    m.end();
}
