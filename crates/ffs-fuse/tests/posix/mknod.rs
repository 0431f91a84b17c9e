//! Pipes, devices and sockets: pjdfstest's `mkfifo` and `mknod` beyond path resolution.

use crate::bench::{ALICE, Bench, Expect, as_user, cases};
use crate::sys::{self, Errno, Kind};
use rustix::fs::{Mode, OFlags};

cases! {
    "mkfifo" {
        modes_and_owners_of_pipes [Root];
        pipes_carry_bytes;
        open_for_writing_without_a_reader_is_enxio;
    }
    "mknod" {
        modes_and_owners_of_every_type [Root];
        device_numbers_are_kept [Root];
        devices_are_for_root [Root];
        regular_files_too [Root];
        directories_are_refused [Root];
        sockets_can_be_bound;
        opening_a_socket_is_enxio;
    }
}

const UMASKS: [(u32, u32, u32); 5] = [
    (0o644, 0o000, 0o644),
    (0o755, 0o022, 0o755),
    (0o151, 0o077, 0o100),
    (0o345, 0o501, 0o244),
    (0o666, 0o777, 0o000),
];

fn modes_and_owners(kind: Kind) {
    sys::chmod(".", 0o777).must();
    for (requested, mask, got) in UMASKS {
        rustix::process::umask(Mode::from_raw_mode(mask));
        let privileged = [Kind::Char, Kind::Block].contains(&kind);
        let make = || sys::mknod("n", kind, requested, (1, 3)).must_for((kind, requested, mask));
        if privileged {
            make()
        } else {
            as_user(ALICE, make)
        }
        let s = sys::lstat("n").must();
        assert_eq!((s.kind, s.mode, s.nlink, s.size), (kind, got, 1, 0));
        assert_eq!(s.uid, if privileged { 0 } else { ALICE.uid });
        let here = sys::stat(".").must().gid;
        assert!([ALICE.gid, here].contains(&s.gid), "the group is {}", s.gid);
        sys::unlink("n").must();
    }
}

fn modes_and_owners_of_pipes(_: &Bench) {
    modes_and_owners(Kind::Fifo);
    rustix::process::umask(Mode::empty());
    sys::mkfifo("n", 0o640).must();
    let s = sys::lstat("n").must();
    assert_eq!((s.kind, s.mode), (Kind::Fifo, 0o640));
}

fn pipes_carry_bytes(_: &Bench) {
    sys::mkfifo("p", 0o600).must();
    sys::link("p", "q").must();
    let r = sys::open("p", OFlags::RDONLY | OFlags::NONBLOCK, 0).must();
    let w = sys::open("q", OFlags::WRONLY | OFlags::NONBLOCK, 0).must();
    sys::write(&w, b"through the pipe").must();
    sys::unlink("p").must();
    let mut buf = [0; 64];
    let n = rustix::io::read(&r, &mut buf).must();
    assert_eq!(&buf[..n], b"through the pipe");
    drop(w);
    assert_eq!(rustix::io::read(&r, &mut buf).must(), 0);
    assert_eq!(sys::lstat("q").must().size, 0);
}

fn open_for_writing_without_a_reader_is_enxio(_: &Bench) {
    sys::mkfifo("p", 0o600).must();
    sys::open("p", OFlags::WRONLY | OFlags::NONBLOCK, 0).fails(Errno::NXIO);
}

fn modes_and_owners_of_every_type(_: &Bench) {
    for kind in [Kind::Fifo, Kind::Socket, Kind::Char, Kind::Block, Kind::Regular] {
        modes_and_owners(kind);
    }
}

fn device_numbers_are_kept(b: &Bench) {
    for kind in [Kind::Char, Kind::Block] {
        for dev in [(0, 0), (1, 2), (8, 17), (255, 255), (3, 4000), (254, 65_535)] {
            if b.traits.narrow_devices && dev.1 > 255 {
                // BSD's old number has no bits for these.
                sys::mknod("n", kind, 0o600, dev).fails_for(Errno::INVAL, dev);
                continue;
            }
            sys::mknod("n", kind, 0o600, dev).must_for((kind, dev));
            let s = sys::lstat("n").must();
            assert_eq!((s.kind, s.rdev, s.size), (kind, dev, 0));
            sys::link("n", "m").must();
            sys::chmod("m", 0o640).must();
            sys::rename("n", "o").must();
            assert_eq!(sys::lstat("o").must().rdev, dev);
            sys::unlink("m").must();
            sys::unlink("o").must();
        }
    }
    for kind in [Kind::Regular, Kind::Directory, Kind::Fifo, Kind::Socket] {
        sys::make(kind, "n", 0o644).must();
        assert_eq!(sys::lstat("n").must().rdev, (0, 0), "{kind:?}");
        sys::remove(kind, "n").must();
    }
}

fn devices_are_for_root(_: &Bench) {
    sys::chmod(".", 0o777).must();
    as_user(ALICE, || {
        for kind in [Kind::Char, Kind::Block] {
            sys::mknod("n", kind, 0o644, (1, 3)).fails_for(Errno::PERM, kind);
        }
        for kind in [Kind::Fifo, Kind::Socket, Kind::Regular] {
            sys::mknod("n", kind, 0o644, (0, 0)).must_for(kind);
            sys::unlink("n").must();
        }
    });
}

fn regular_files_too(_: &Bench) {
    sys::mknod("f", Kind::Regular, 0o6755, (0, 0)).must();
    let s = sys::lstat("f").must();
    assert_eq!((s.kind, s.mode, s.size, s.nlink), (Kind::Regular, 0o6755, 0, 1));
    sys::put("f", b"as any other").must();
    assert_eq!(sys::content("f").must(), b"as any other");
}

fn directories_are_refused(_: &Bench) {
    sys::mknod("d", Kind::Directory, 0o755, (0, 0)).fails([Errno::PERM, Errno::INVAL]);
    sys::mknod("l", Kind::Symlink, 0o777, (0, 0)).fails([Errno::PERM, Errno::INVAL]);
    assert!(sys::list(".").must().is_empty());
}

fn sockets_can_be_bound(_: &Bench) {
    use std::os::unix::net::{UnixListener, UnixStream};
    let listener = UnixListener::bind("s").unwrap();
    let s = sys::lstat("s").must();
    assert_eq!((s.kind, s.nlink), (Kind::Socket, 1));
    UnixListener::bind("s").unwrap_err();
    sys::rename("s", "t").must();
    let _client = UnixStream::connect("t").unwrap();
    listener.accept().unwrap();
    drop(listener);
    assert!(UnixStream::connect("t").is_err());
}

fn opening_a_socket_is_enxio(_: &Bench) {
    sys::mknod("s", Kind::Socket, 0o777, (0, 0)).must();
    for flags in [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR] {
        sys::open("s", flags, 0).fails([Errno::NXIO, Errno::OPNOTSUPP]);
    }
}
