//! ENOSPC: pjdfstest's `link/15`, `mkdir/11`, `open/19`, `symlink/11` and the like, on small file
//! systems.
//!
//! Given a directory of another file system, the cases run on a small tmpfs mounted there.

use crate::bench::{ALICE, Bench, Expect, as_user, cases};
use crate::ground::Served;
use crate::sys::{self, Errno, Kind, R};
use rustix::fd::OwnedFd;
use rustix::fs::FallocateFlags;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;

cases! {
    "full" {
        writing_stops_where_the_space_ends [Root];
        everything_is_there_that_was_written [Root];
        no_inodes_left [Root];
        no_space_for_a_directory [Root];
        existing_blocks_can_be_overwritten [Root];
        allocating_too_much_changes_nothing [Root];
        the_reserve_is_for_root [Root, Ours];
    }
}

/// Does something on a small file system that is otherwise empty.
fn small(b: &Bench, f: impl FnOnce()) {
    if b.ours() {
        let image = b.ground.another(3 << 20);
        let served = Served::start(&image, "");
        rustix::process::chdir(served.dir()).must();
        f();
        rustix::process::chdir("/").must();
        served.end();
        return;
    }
    sys::mkdir("small", 0o755).must();
    let options = CString::new("size=1m,nr_inodes=200").unwrap();
    mount("tmpfs", "small", "tmpfs", MountFlags::empty(), options.as_c_str()).must();
    rustix::process::chdir("small").must();
    let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    rustix::process::chdir("..").must();
    unmount("small", UnmountFlags::DETACH).must();
    answer.unwrap_or_else(|e| std::panic::resume_unwind(e));
}

/// Appends to a file. A kernel that caches writes passes these on at once and reports what they
/// lack; what it could not pass on is taken back.
fn append(b: &Bench, f: &OwnedFd, bytes: &[u8]) -> R<usize> {
    let before = sys::fstat(f)?.size;
    let written = sys::write(f, bytes)?;
    if b.traits.writeback
        && let Err(e) = sys::pass_on(f)
    {
        sys::ftruncate(f, before)?;
        rustix::fs::seek(f, rustix::fs::SeekFrom::Start(before as u64))?;
        return Err(e);
    }
    Ok(written)
}

/// Appends until nothing more fits; the bytes that did.
fn fill(b: &Bench, f: &OwnedFd, piece: usize) -> u64 {
    let mut done = 0;
    loop {
        match append(b, f, &vec![7; piece]) {
            Ok(n) => done += n as u64,
            Err(Errno::NOSPC) => return done,
            Err(e) => panic!("{}", crate::bench::say(e)),
        }
        assert!(done < 64 << 20, "it never ends");
    }
}

fn fill_up(b: &Bench) -> OwnedFd {
    let f = sys::create("filler", 0o644).must();
    for piece in [65_536, 4096, 512, 1] {
        fill(b, &f, piece);
    }
    // A large file takes whole blocks: fragments are left.
    for n in 0.. {
        let small = sys::create(format!("filler {n}"), 0o644).must();
        if fill(b, &small, 1) == 0 {
            sys::unlink(format!("filler {n}")).must();
            return f;
        }
    }
    f
}

fn writing_stops_where_the_space_ends(b: &Bench) {
    small(b, || {
        let before = rustix::fs::statvfs(".").must();
        let f = sys::create("f", 0o644).must();
        let n = fill(b, &f, 10_000);
        assert_eq!(sys::fstat(&f).must().size, n as i64);
        let full = rustix::fs::statvfs(".").must();
        assert!(full.f_bfree < before.f_bfree / 4, "{} blocks are free", full.f_bfree);
        append(b, &f, &[1; 65_536]).fails(Errno::NOSPC);
        if !b.ours() {
            // A hole needs no space; ours ends in a block, as every file of the format.
            sys::ftruncate(&f, 1 << 30).must();
        }
        sys::ftruncate(&f, 0).must();
        if b.ours() {
            assert_eq!(rustix::fs::statvfs(".").must().f_bfree, before.f_bfree);
        }
        // A call that the kernel cached is taken back as a whole, and its blocks with it.
        let near = if b.traits.writeback { 65_536 } else { 0 };
        assert!(fill(b, &f, 10_000).abs_diff(n) <= near, "all of it came back");
        sys::unlink("f").must();
        drop(f);
        let f = sys::create("g", 0o644).must();
        assert!(fill(b, &f, 10_000).abs_diff(n) <= near, "and again");
    });
}

fn everything_is_there_that_was_written(b: &Bench) {
    small(b, || {
        let mut sizes = Vec::new();
        for n in 0.. {
            let f = sys::create(format!("f{n}"), 0o644).must();
            let mut size = 0;
            let mut full = false;
            while size < 100_000 && !full {
                match append(b, &f, &[n as u8; 3000]) {
                    Ok(n) => size += n,
                    e => {
                        e.fails(Errno::NOSPC);
                        full = true;
                    }
                }
            }
            sizes.push(size);
            if full {
                break;
            }
        }
        for (n, size) in sizes.iter().enumerate() {
            assert!(sys::content(format!("f{n}")).must() == vec![n as u8; *size], "f{n}");
        }
    });
}

fn no_inodes_left(b: &Bench) {
    small(b, || {
        let mut n = 0;
        let name = |n: usize| format!("{}/{n}", n % 16);
        for d in 0..16 {
            sys::mkdir(d.to_string(), 0o755).must();
        }
        loop {
            match sys::create(name(n), 0o644) {
                Ok(_) => n += 1,
                e => break e.fails(Errno::NOSPC),
            }
            assert!(n < 10_000);
        }
        for kind in Kind::ALL {
            sys::make(kind, "x", 0o644).fails_for(Errno::NOSPC, kind);
            sys::lstat("x").fails(Errno::NOENT);
        }
        if b.ours() {
            assert_eq!(rustix::fs::statvfs(".").must().f_ffree, 0);
            sys::link(name(0), "x").must();
            sys::unlink("x").must();
            sys::rename(name(0), "x").must();
            sys::rename("x", name(0)).must();
        }
        for kind in Kind::ALL {
            sys::unlink(name(n - 1)).must();
            sys::make(kind, "x", 0o644).must_for(kind);
            sys::remove(kind, "x").must();
            sys::make(Kind::Regular, name(n - 1), 0o644).must();
        }
    });
}

fn no_space_for_a_directory(b: &Bench) {
    small(b, || {
        let filler = fill_up(b);
        if b.ours() {
            assert!(rustix::fs::statvfs(".").must().f_ffree > 10);
            let look = || (sys::stat(".").must().nlink, sys::list(".").must());
            let before = look();
            sys::mkdir("d", 0o755).fails(Errno::NOSPC);
            sys::symlink(vec![b't'; 1000], "s").fails(Errno::NOSPC);
            assert_eq!(look(), before);
            sys::put("empty files need none", b"").must();
        }
        // Names until the directory itself cannot grow.
        if b.ours() {
            let mut names = (0..5000).map(|n| format!("{n} {}", "x".repeat(200)));
            let failed = names.find_map(|n| sys::link("filler", n).err());
            assert_eq!(failed, Some(Errno::NOSPC));
        }
        sys::ftruncate(&filler, 0).must();
        sys::mkdir("d", 0o755).must();
    });
}

fn existing_blocks_can_be_overwritten(b: &Bench) {
    small(b, || {
        sys::put("f", &[1; 100_000]).must();
        fill_up(b);
        let f = sys::open("f", rustix::fs::OFlags::RDWR, 0).must();
        sys::pwrite(&f, &[2; 50_000], 25_000).must();
        rustix::fs::fsync(&f).must();
        sys::chmod("f", 0o600).must();
        sys::rename("f", "g").must();
        let got = sys::content("g").must();
        assert!(got[..25_000] == [1; 25_000] && got[25_000..75_000] == [2; 50_000]);
        assert!(got[75_000..] == [1; 25_000]);
    });
}

fn allocating_too_much_changes_nothing(b: &Bench) {
    small(b, || {
        let f = sys::create("f", 0o644).must();
        sys::write(&f, b"content").must();
        rustix::fs::fsync(&f).must();
        let free = rustix::fs::statvfs(".").must().f_bfree;
        let answer: R = rustix::fs::fallocate(&f, FallocateFlags::empty(), 0, 64 << 20);
        answer.fails(Errno::NOSPC);
        assert_eq!(sys::content("f").must(), b"content");
        assert_eq!(rustix::fs::statvfs(".").must().f_bfree, free);
    });
}

fn the_reserve_is_for_root(b: &Bench) {
    small(b, || {
        sys::chmod(".", 0o777).must();
        let fill_one = |name| fill(b, &sys::create(name, 0o644).must(), 4096);
        let hers = as_user(ALICE, || fill_one("hers"));
        let s = rustix::fs::statvfs(".").must();
        assert!(s.f_bavail * s.f_frsize < 65_536, "{} blocks are left to her", s.f_bavail);
        as_user(ALICE, || sys::mkdir("d", 0o755)).err().into_iter().for_each(|e| {
            assert_eq!(e, Errno::NOSPC);
        });
        let roots = fill_one("root's");
        let total = s.f_blocks * s.f_frsize;
        assert!(roots > total / 20, "{roots} of {total} bytes after her {hers}");
    });
}
