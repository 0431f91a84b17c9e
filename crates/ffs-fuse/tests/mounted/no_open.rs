//! `-o no_open`: the kernel opens files by itself, and writes check BSD's file flags.

use crate::Test;
use crate::harness::{Image, Mnt, errno};
use crate::sys;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("without_open_requests_flags_bind_writes", flags_bind_writes),
    ("without_open_requests_a_mapping_changes_no_locked_file", a_mapping_changes_no_locked_file),
    ("without_open_requests_a_refused_write_is_not_seen", a_refused_write_is_not_seen_by_mappings),
    ("a_mapping_changes_nothing_that_was_appended", a_mapping_changes_nothing_that_was_appended),
    ("without_open_requests_a_removed_file_lives_while_open", a_removed_file_lives_while_open),
    ("without_open_requests_files_are_made_as_with_them", files_are_made_as_with_them),
];

const IMMUTABLE: u32 = 0x10;
const APPEND: u32 = 0x20;

/// A file with this content and flag.
fn flagged(m: &Mnt<'_>, content: &[u8], flag: u32) -> File {
    fs::write(m.path("f"), content).unwrap();
    let file = File::open(m.path("f")).unwrap();
    sys::set_flags(&file, flag).unwrap();
    file
}

fn flags_bind_writes() {
    let image = Image::new();
    let m = image.mount("no_open,nowriteback");
    let (f, to_write) = (m.path("f"), || File::options().write(true).open(m.path("f")).unwrap());
    let write = |bytes: &[u8], offset| to_write().write_all_at(bytes, offset);
    let open = flagged(&m, b"text", IMMUTABLE);
    assert_eq!(errno(write(b"T", 0)), libc::EPERM);
    assert_eq!(errno(write(b"more", 4)), libc::EPERM);
    assert_eq!(errno(to_write().set_len(0)), libc::EPERM);
    assert_eq!(errno(File::create(&f)), libc::EPERM, "to truncate is a request");
    let direct = File::options().write(true).custom_flags(libc::O_DIRECT).open(&f).unwrap();
    assert_eq!(errno(direct.write_at(&[0; 4096], 0)), libc::EPERM);
    assert_eq!(errno(fs::remove_file(&f)), libc::EPERM);
    assert_eq!(fs::read(&f).unwrap(), b"text");
    sys::set_flags(&open, APPEND).unwrap();
    assert_eq!(errno(write(b"T", 0)), libc::EPERM);
    assert_eq!(errno(write(b"+", 4)), libc::EPERM, "not opened to append");
    assert_eq!(errno(write(b"+", 20)), libc::EPERM, "not opened to append");
    assert_eq!(errno(File::create(&f)), libc::EPERM);
    File::options().append(true).open(&f).unwrap().write_all(b"+").unwrap();
    assert_eq!(fs::read(&f).unwrap(), b"text+");
    sys::set_flags(&open, 0).unwrap();
    write(b"T", 0).unwrap();
    assert_eq!(fs::read(&f).unwrap(), b"Text+");
    drop((open, direct));
    m.end();
    let m = image.mount("ro");
    assert_eq!(fs::read(m.path("f")).unwrap(), b"Text+");
    m.end();
}

/// Waits until every program sees this content of `f`: the kernel drops a page soon after a refused
/// write, and no call waits for that.
fn seen_again(m: &Mnt<'_>, content: &[u8], map: &mut sys::Map) {
    let begin = Instant::now();
    while fs::read(m.path("f")).unwrap() != content || map.bytes() != content {
        assert!(begin.elapsed() < Duration::from_secs(60), "a change that no one may make");
    }
}

/// Asserts that no `change`, of a file with either flag and by a mapping of it, is seen for long.
fn refused_and_unseen(change: impl Fn(&File, &mut sys::Map) -> std::io::Result<()>) {
    let image = Image::new();
    let m = image.mount("no_open,nowriteback");
    let open = flagged(&m, b"text", IMMUTABLE);
    for flag in [IMMUTABLE, APPEND] {
        sys::set_flags(&open, flag).unwrap();
        let file = File::options().read(true).write(true).open(m.path("f")).unwrap();
        let mut map = sys::Map::new(&file, 4).unwrap();
        assert_eq!(map.bytes(), b"text");
        assert_eq!(errno(change(&file, &mut map)), libc::EPERM, "{flag:#x}");
        seen_again(&m, b"text", &mut map);
    }
    drop(open);
    m.end();
    image.check();
}

fn a_mapping_changes_no_locked_file() {
    refused_and_unseen(|_, map| {
        map.bytes().copy_from_slice(b"TEXT");
        map.sync()
    });
}

/// The kernel copies what is written to its cache before the server refuses it.
fn a_refused_write_is_not_seen_by_mappings() {
    refused_and_unseen(|file, _| file.write_all_at(b"TEXT", 0));
}

/// This needs no option: a file that is opened to append can be mapped, too.
fn a_mapping_changes_nothing_that_was_appended() {
    let image = Image::new();
    let m = image.mount("nowriteback");
    let open = flagged(&m, b"text", APPEND);
    let mut file = File::options().read(true).append(true).open(m.path("f")).unwrap();
    let mut map = sys::Map::new(&file, 4).unwrap();
    map.bytes().copy_from_slice(b"TEXT");
    assert_eq!(errno(map.sync()), libc::EPERM);
    seen_again(&m, b"text", &mut map);
    drop(map);
    file.write_all(b"+").unwrap();
    assert_eq!(fs::read(m.path("f")).unwrap(), b"text+");
    drop((open, file));
    m.end();
    image.check();
}

fn a_removed_file_lives_while_open() {
    let image = Image::new();
    let m = image.mount("no_open,nowriteback");
    let free = |m: &Mnt<'_>| rustix::fs::statvfs(m.path("")).unwrap().f_ffree;
    let before = free(&m);
    let mut f = File::options().read(true).write(true).create_new(true).open(m.path("f")).unwrap();
    f.write_all(b"before").unwrap();
    fs::remove_file(m.path("f")).unwrap();
    f.write_all(b" after").unwrap();
    sys::drop_caches();
    let mut content = String::new();
    f.rewind().unwrap();
    f.read_to_string(&mut content).unwrap();
    assert_eq!(content, "before after");
    assert_eq!(f.metadata().unwrap().nlink(), 0);
    let tmp = File::options().write(true).custom_flags(libc::O_TMPFILE).open(m.path("")).unwrap();
    (&tmp).write_all(b"unnamed").unwrap();
    drop((f, tmp));
    m.end();
    image.check();
    let m = image.mount("ro");
    assert_eq!(free(&m), before);
    m.end();
}

fn files_are_made_as_with_them() {
    let image = Image::new();
    let m = image.mount("no_open,nowriteback");
    // A mode that permits no write, which binds later opens only.
    let mut made = File::options();
    made.write(true).create_new(true).mode(0o444);
    made.open(m.path("f")).unwrap().write_all(b"text").unwrap();
    assert_eq!(fs::metadata(m.path("f")).unwrap().mode() & 0o7777, 0o444);
    assert_eq!(errno(made.open(m.path("f"))), libc::EEXIST);
    let again = File::options().append(true).create(true).open(m.path("f"));
    again.unwrap().write_all(b" and more").unwrap();
    assert_eq!(fs::read(m.path("f")).unwrap(), b"text and more");
    fs::write(m.path("f"), b"new").unwrap();
    assert_eq!(fs::read(m.path("f")).unwrap(), b"new");
    let old = fs::metadata(m.path("f")).unwrap().atime_nsec();
    sys::drop_caches();
    fs::read(m.path("f")).unwrap();
    assert_eq!(fs::metadata(m.path("f")).unwrap().atime_nsec(), old, "no access times");
    m.end();
    image.check();
}
