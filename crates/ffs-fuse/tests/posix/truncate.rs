//! Changing sizes: pjdfstest's `truncate` and `ftruncate` beyond path resolution.

use crate::bench::{ALICE, BOB, Bench, Expect, as_user, cases, tick};
use crate::sys::{self, Errno, R};
use rustix::fs::OFlags;

cases! {
    "truncate" {
        shrinks_and_grows_with_zeros;
        every_size_around_blocks_and_fragments;
        needs_the_right_to_write [Root];
        follows_symbolic_links;
        of_a_directory_is_eisdir;
        of_special_files_is_einval;
        to_a_negative_size_is_einval;
        beyond_the_largest_size_is_efbig;
        times_change_only_on_success [Root];
        gives_space_back;
    }
    "ftruncate" {
        shrinks_and_grows_with_any_mode [Root];
        needs_a_descriptor_for_writing;
        to_a_negative_size_is_einval_too;
        leaves_the_offset_alone;
        succeeds_without_a_name;
    }
}

fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i % 251) as u8 + 1).collect()
}

fn shrinks_and_grows_with_zeros(_: &Bench) {
    sys::put("f", &pattern(1000)).must();
    sys::truncate("f", 500).must();
    assert_eq!(sys::content("f").must(), pattern(500));
    sys::truncate("f", 2000).must();
    let mut want = pattern(500);
    want.resize(2000, 0);
    assert_eq!(sys::content("f").must(), want);
    sys::truncate("f", 0).must();
    let s = sys::stat("f").must();
    assert_eq!((s.size, s.blocks), (0, 0));
    sys::truncate("f", 1_234_567).must();
    assert_eq!(sys::stat("f").must().size, 1_234_567);
    assert!(sys::content("f").must().iter().all(|b| *b == 0));
}

/// Shrinks to and grows from every interesting size. Truncated content must never come back.
fn every_size_around_blocks_and_fragments(_: &Bench) {
    let sizes = [0, 1, 511, 512, 1023, 1024, 1025, 4095, 4097, 8191, 8192, 8193, 65_536, 100_000];
    for from in sizes {
        for to in sizes {
            sys::put("f", &pattern(from)).must();
            sys::truncate("f", to as i64).must();
            sys::truncate("f", 131_072).must();
            let mut want = pattern(from.min(to));
            want.resize(131_072, 0);
            assert!(sys::content("f").must() == want, "{from} to {to}");
            sys::unlink("f").must();
        }
    }
}

fn needs_the_right_to_write(_: &Bench) {
    sys::put("f", b"content").must();
    sys::chown("f", Some(ALICE.uid), Some(ALICE.gid)).must();
    sys::chmod("f", 0o466).must();
    as_user(ALICE, || sys::truncate("f", 1).fails(Errno::ACCESS));
    sys::chmod("f", 0o644).must();
    as_user(BOB, || sys::truncate("f", 1).fails(Errno::ACCESS));
    as_user(ALICE, || sys::truncate("f", 1).must());
    assert_eq!(sys::stat("f").must().size, 1);
}

fn follows_symbolic_links(_: &Bench) {
    sys::put("f", b"content").must();
    sys::symlink("f", "s").must();
    sys::truncate("s", 3).must();
    assert_eq!(sys::content("f").must(), b"con");
}

fn of_a_directory_is_eisdir(_: &Bench) {
    sys::mkdir("d", 0o777).must();
    sys::truncate("d", 0).fails(Errno::ISDIR);
    sys::truncate("d", 12).fails(Errno::ISDIR);
    sys::truncate(".", 0).fails(Errno::ISDIR);
}

fn of_special_files_is_einval(_: &Bench) {
    sys::mkfifo("p", 0o666).must();
    sys::truncate("p", 0).fails(Errno::INVAL);
    sys::mknod("s", sys::Kind::Socket, 0o666, (0, 0)).must();
    sys::truncate("s", 0).fails(Errno::INVAL);
}

fn to_a_negative_size_is_einval(_: &Bench) {
    sys::put("f", b"content").must();
    for size in [-1, -123_456, i64::MIN] {
        sys::truncate("f", size).fails(Errno::INVAL);
    }
    assert_eq!(sys::content("f").must(), b"content");
}

fn to_a_negative_size_is_einval_too(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    for size in [-1, -123_456, i64::MIN] {
        sys::ftruncate(&f, size).fails(Errno::INVAL);
    }
}

/// The largest size differs: either the call fails, or the file has this size.
fn beyond_the_largest_size_is_efbig(b: &Bench) {
    let f = sys::create("f", 0o644).must();
    for answer in [|f: &_| sys::ftruncate(f, i64::MAX), |_: &_| sys::truncate("f", i64::MAX)] {
        let answer: R = answer(&f);
        match answer {
            Ok(()) if !b.ours() => assert_eq!(sys::fstat(&f).must().size, i64::MAX),
            _ => answer.fails([Errno::FBIG, Errno::INVAL]),
        }
    }
    // With a write-back cache only the kernel's limit counts, which is larger.
    if sys::fstat(&f).must().size == 0 && !b.traits.writeback {
        sys::pwrite(&f, b"x", i64::MAX as u64 - 1).fails([Errno::FBIG, Errno::INVAL]);
        assert_eq!(sys::fstat(&f).must().size, 0);
    }
}

fn times_change_only_on_success(_: &Bench) {
    sys::put("f", b"content").must();
    sys::chmod("f", 0o644).must();
    let before = sys::stat("f").must();
    tick();
    as_user(ALICE, || sys::truncate("f", 1).fails(Errno::ACCESS));
    sys::truncate("f", -1).fails(Errno::INVAL);
    assert_eq!(sys::stat("f").must(), before);
    let mut last = before;
    for (by_fd, size) in [(false, 3), (true, 10), (true, 0), (false, 70_000)] {
        tick();
        let f = sys::open("f", OFlags::RDWR, 0).must();
        if by_fd {
            sys::ftruncate(&f, size).must()
        } else {
            sys::truncate("f", size).must()
        }
        let s = sys::stat("f").must();
        assert!(s.mtime > last.mtime && s.ctime > last.ctime, "to {size}");
        assert_eq!((s.atime, s.size), (before.atime, size));
        last = s;
    }
}

fn gives_space_back(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    for i in 0..64 {
        sys::pwrite(&f, &[1; 32_768], i * 32_768).must();
    }
    rustix::fs::fsync(&f).must();
    let full = sys::fresh(&f).must().blocks;
    assert!(full * 512 >= 64 * 32_768, "{full} blocks for 2 MiB");
    sys::ftruncate(&f, 100_000).must();
    rustix::fs::fsync(&f).must();
    let less = sys::fresh(&f).must().blocks;
    assert!((100_000 / 512..=100_000 / 512 + 256).contains(&less), "{less} blocks for 100 kB");
    sys::ftruncate(&f, 0).must();
    assert_eq!(sys::fstat(&f).must().blocks, 0);
}

fn shrinks_and_grows_with_any_mode(_: &Bench) {
    sys::chmod(".", 0o777).must();
    as_user(ALICE, || {
        let f = sys::create("f", 0).must();
        for size in [1_234_567, 567, 0, 12] {
            sys::ftruncate(&f, size).must();
            assert_eq!(sys::fstat(&f).must().size, size);
        }
    });
}

fn needs_a_descriptor_for_writing(_: &Bench) {
    sys::put("f", b"content").must();
    let r = sys::open("f", OFlags::RDONLY, 0).must();
    sys::ftruncate(&r, 1).fails([Errno::INVAL, Errno::BADF]);
    let d = sys::open(".", OFlags::RDONLY, 0).must();
    sys::ftruncate(&d, 1).fails([Errno::INVAL, Errno::BADF]);
    assert_eq!(sys::stat("f").must().size, 7);
}

fn leaves_the_offset_alone(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    sys::write(&f, b"0123456789").must();
    sys::ftruncate(&f, 3).must();
    sys::write(&f, b"x").must();
    assert_eq!(sys::content("f").must(), b"012\0\0\0\0\0\0\0x");
}

fn succeeds_without_a_name(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    sys::unlink("f").must();
    sys::ftruncate(&f, 100_000).must();
    assert_eq!(sys::fstat(&f).must().size, 100_000);
    sys::ftruncate(&f, 0).must();
    assert_eq!(sys::fstat(&f).must().size, 0);
}
