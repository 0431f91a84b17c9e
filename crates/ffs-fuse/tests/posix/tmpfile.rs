//! Files without a name (`O_TMPFILE`), and their first one.

use crate::bench::{ALICE, BOB, Bench, Expect, as_user, cases};
use crate::ground::Served;
use crate::sys::{self, Errno, Kind, R};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::OFlags;

cases! {
    "tmpfile" {
        has_no_name_and_succeeds;
        gets_a_name;
        exclusive_ones_get_none;
        needs_write_access [Root];
        has_owner_mode_and_group [Root];
        is_removed_when_closed [Root, Ours];
        is_removed_after_unmounting [Root, Ours];
    }
}

fn unnamed(dir: &str, flags: OFlags, mode: u32) -> R<OwnedFd> {
    sys::open(dir, OFlags::TMPFILE | flags, mode)
}

/// `linkat` as open(2) shows it.
fn name(f: &OwnedFd, as_: &str) -> R {
    sys::link_following(format!("/proc/self/fd/{}", f.as_raw_fd()), as_)
}

fn has_no_name_and_succeeds(_: &Bench) {
    let f = unnamed(".", OFlags::RDWR, 0o640).must();
    let s = sys::fstat(&f).must();
    assert_eq!((s.kind, s.nlink, s.mode, s.size), (Kind::Regular, 0, 0o640, 0));
    assert!(sys::list(".").must().is_empty());
    let data: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
    assert_eq!(sys::write(&f, &data).must(), data.len());
    assert!(sys::pread(&f, 200_000, 0).must() == data);
    sys::ftruncate(&f, 10).must();
    sys::fchmod(&f, 0o600).must();
    rustix::fs::fsync(&f).must();
    assert_eq!(sys::fstat(&f).must().size, 10);
    unnamed(".", OFlags::RDONLY, 0o640).fails(Errno::INVAL);
    unnamed("none", OFlags::RDWR, 0o640).fails(Errno::NOENT);
    sys::put("file", b"").must();
    unnamed("file", OFlags::RDWR, 0o640).fails(Errno::NOTDIR);
}

fn gets_a_name(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    let f = unnamed(".", OFlags::RDWR, 0o640).must();
    sys::write(&f, b"content").must();
    name(&f, "d/n").must();
    assert_eq!((sys::fstat(&f).must().nlink, sys::stat("d/n").must().nlink), (1, 1));
    assert_eq!(sys::stat("d/n").must().ino, sys::fstat(&f).must().ino);
    assert_eq!(sys::content("d/n").must(), b"content");
    name(&f, "d/n").fails(Errno::EXIST);
    name(&f, "second").must();
    assert_eq!(sys::fstat(&f).must().nlink, 2);
    sys::unlink("second").must();
    sys::unlink("d/n").must();
    name(&f, "again").fails(Errno::NOENT);
    rustix::fs::fsync(&f).must();
    // Over a file only by way of a rename.
    let f = unnamed(".", OFlags::WRONLY, 0o640).must();
    sys::write(&f, b"new").must();
    sys::put("kept", b"old").must();
    name(&f, "kept.new").must();
    sys::rename("kept.new", "kept").must();
    assert_eq!(sys::content("kept").must(), b"new");
}

fn exclusive_ones_get_none(_: &Bench) {
    let f = unnamed(".", OFlags::RDWR | OFlags::EXCL, 0o640).must();
    sys::write(&f, b"secret").must();
    name(&f, "n").fails(Errno::NOENT);
    assert!(sys::list(".").must().is_empty());
}

fn needs_write_access(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    as_user(ALICE, || unnamed("d", OFlags::RDWR, 0o600).fails(Errno::ACCESS));
    sys::chown("d", Some(ALICE.uid), None).must();
    as_user(ALICE, || drop(unnamed("d", OFlags::RDWR, 0o600).must()));
    sys::chmod("d", 0o444).must();
    as_user(ALICE, || unnamed("d", OFlags::RDWR, 0o600).fails(Errno::ACCESS));
}

fn has_owner_mode_and_group(_: &Bench) {
    sys::mkdir("d", 0o777).must();
    sys::chmod("d", 0o2777).must();
    sys::chown("d", None, Some(BOB.gid)).must();
    as_user(ALICE, || {
        let f = unnamed("d", OFlags::RDWR, 0o666).must();
        name(&f, "d/n").must();
    });
    let s = sys::stat("d/n").must();
    assert_eq!((s.uid, s.gid, s.mode), (ALICE.uid, BOB.gid, 0o666));
}

fn is_removed_when_closed(b: &Bench) {
    let image = b.ground.another(16 << 20);
    let served = Served::start(&image, "");
    let free = || {
        let s = rustix::fs::statvfs(served.dir()).must();
        (s.f_bfree, s.f_ffree)
    };
    let before = free();
    let f = unnamed(served.dir().to_str().unwrap(), OFlags::RDWR, 0o600).must();
    sys::write(&f, &[1; 1_000_000]).must();
    rustix::fs::fsync(&f).must();
    assert!(free() < before);
    drop(f);
    // The kernel sends FORGET at a time of its choice. Creating another file makes it send.
    sys::put(served.dir().join("n"), b"").must();
    sys::unlink(served.dir().join("n")).must();
    served.end();
    let served = Served::start(&image, "ro");
    let s = rustix::fs::statvfs(served.dir()).must();
    assert_eq!((s.f_bfree, s.f_ffree), before);
    served.end();
}

/// Lazily unmounted while files without names are open, by the signal that ends the server: fsck
/// must be silent.
fn is_removed_after_unmounting(b: &Bench) {
    let image = b.ground.another(16 << 20);
    let served = Served::start(&image, "");
    let dir = served.dir().to_str().unwrap().to_owned();
    let f = unnamed(&dir, OFlags::RDWR, 0o600).must();
    sys::write(&f, &[1; 1_000_000]).must();
    rustix::fs::fsync(&f).must();
    let g = unnamed(&dir, OFlags::RDWR, 0o600).must();
    sys::write(&g, b"named").must();
    name(&g, &format!("{dir}/named")).must();
    served.end_while_in_use();
    drop((f, g));
    let served = Served::start(&image, "ro");
    assert_eq!(sys::content(served.dir().join("named")).must(), b"named");
    served.end();
}
