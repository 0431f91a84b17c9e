//! Allocating space ahead, holes, and seeking among them: pjdfstest's `posix_fallocate`, and
//! Linux's modes.

use crate::bench::{ALICE, Bench, CAROL, Expect, as_user, cases, tick};
use crate::sys::{self, Errno, R};
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, seek};

cases! {
    "posix_fallocate" {
        allocates_and_grows;
        never_shrinks_nor_changes_content;
        without_growing;
        of_nothing_or_the_impossible_fails;
        of_other_things_than_files_fails;
        changes_times;
        by_others_clears_set_id_bits [Root];
        punches_holes;
        zeroes_ranges;
    }
    "lseek" {
        finds_data_and_holes;
        a_file_without_holes_has_one_at_its_end;
        beyond_the_end_is_enxio;
        a_negative_place_is_einval;
        beyond_the_end_and_writing_makes_a_hole;
    }
}

const PLAIN: FallocateFlags = FallocateFlags::empty();

/// Whether the call is there at all: a file system may lack a mode, ours may not.
fn supported(b: &Bench, answer: R) {
    match answer {
        Err(Errno::OPNOTSUPP) if !b.ours() => b.skip("this mode of fallocate is not supported"),
        a => a.must(),
    }
}

fn allocates_and_grows(b: &Bench) {
    let f = sys::create("f", 0o644).must();
    supported(b, fallocate(&f, PLAIN, 0, 567));
    assert_eq!(sys::fstat(&f).must().size, 567);
    fallocate(&f, PLAIN, 20_000, 3456).must();
    let s = sys::fstat(&f).must();
    assert_eq!(s.size, 23_456);
    assert!(s.blocks > 0);
    assert!(sys::content("f").must() == [0; 23_456]);
    fallocate(&f, PLAIN, 0, 1 << 20).must();
    let s = sys::fstat(&f).must();
    assert!(s.size == 1 << 20 && s.blocks >= 2048, "{} blocks", s.blocks);
}

fn never_shrinks_nor_changes_content(b: &Bench) {
    sys::put("f", &[7; 10_000]).must();
    let f = sys::open("f", OFlags::RDWR, 0).must();
    supported(b, fallocate(&f, PLAIN, 0, 100));
    fallocate(&f, PLAIN, 5000, 100).must();
    assert_eq!(sys::content("f").must(), [7; 10_000]);
    fallocate(&f, PLAIN, 9000, 5000).must();
    let got = sys::content("f").must();
    assert!(got.len() == 14_000 && got[..10_000] == [7; 10_000] && got[10_000..] == [0; 4000]);
}

fn without_growing(b: &Bench) {
    sys::put("f", b"short").must();
    let f = sys::open("f", OFlags::RDWR, 0).must();
    supported(b, fallocate(&f, FallocateFlags::KEEP_SIZE, 0, 100_000));
    assert_eq!(sys::content("f").must(), b"short");
}

fn of_nothing_or_the_impossible_fails(b: &Bench) {
    let f = sys::create("f", 0o644).must();
    supported(b, fallocate(&f, PLAIN, 0, 1));
    fallocate(&f, PLAIN, 0, 0).fails(Errno::INVAL);
    fallocate(&f, PLAIN, 1 << 62, 1 << 62).fails([Errno::FBIG, Errno::INVAL]);
    fallocate(&f, FallocateFlags::PUNCH_HOLE, 0, 1).fails([Errno::OPNOTSUPP, Errno::INVAL]);
    assert_eq!(sys::fstat(&f).must().size, 1);
    let r = sys::open("f", OFlags::RDONLY, 0).must();
    fallocate(&r, PLAIN, 0, 10).fails(Errno::BADF);
}

fn of_other_things_than_files_fails(_: &Bench) {
    let d = sys::open(".", OFlags::RDONLY, 0).must();
    fallocate(&d, PLAIN, 0, 10).fails([Errno::BADF, Errno::ISDIR]);
    sys::mkfifo("p", 0o644).must();
    let p = sys::open("p", OFlags::RDWR | OFlags::NONBLOCK, 0).must();
    fallocate(&p, PLAIN, 0, 10).fails(Errno::SPIPE);
}

fn changes_times(b: &Bench) {
    let f = sys::create("f", 0o644).must();
    let before = sys::fstat(&f).must();
    tick();
    supported(b, fallocate(&f, PLAIN, 0, 10_000));
    let after = sys::fstat(&f).must();
    assert!(after.ctime > before.ctime && after.mtime >= before.mtime);
}

fn by_others_clears_set_id_bits(b: &Bench) {
    sys::put("f", b"").must();
    sys::chown("f", Some(ALICE.uid), Some(ALICE.gid)).must();
    sys::chmod("f", 0o6777).must();
    let f = as_user(CAROL, || sys::open("f", OFlags::RDWR, 0).must());
    let answer = as_user(CAROL, || fallocate(&f, PLAIN, 0, 10_000));
    supported(b, answer);
    let mode = sys::stat("f").must().mode;
    if b.ours() {
        assert_eq!(mode, 0o777);
    }
}

/// A file of `n` blocks of 64 KiB that are not zero.
fn filled(n: u64) -> OwnedFd {
    let f = sys::create("f", 0o644).must();
    for i in 0..n {
        assert_eq!(sys::pwrite(&f, &[1; BLOCK], i * BLOCK as u64).must(), BLOCK);
    }
    rustix::fs::fsync(&f).must();
    f
}

/// As large as any block here; holes are as large or larger.
const BLOCK: usize = 65_536;
const B: u64 = BLOCK as u64;

fn punches_holes(b: &Bench) {
    let f = filled(8);
    let before = sys::fresh(&f).must();
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    supported(b, fallocate(&f, how, 2 * B, 3 * B));
    let after = sys::fresh(&f).must();
    assert_eq!(after.size, before.size);
    assert!(after.blocks <= before.blocks - 3 * 128, "{} to {}", before.blocks, after.blocks);
    // And a piece of a block.
    fallocate(&f, how, 10, 20).must();
    fallocate(&f, how, 7 * B + 100, 2 * B).must();
    let got = sys::content("f").must();
    let zero = |r: std::ops::Range<usize>| got[r].iter().all(|x| *x == 0);
    let full = |r: std::ops::Range<usize>| got[r].iter().all(|x| *x == 1);
    assert!(full(0..10) && zero(10..30) && full(30..2 * BLOCK));
    assert!(zero(2 * BLOCK..5 * BLOCK) && full(5 * BLOCK..7 * BLOCK + 100));
    assert!(zero(7 * BLOCK + 100..8 * BLOCK) && got.len() == 8 * BLOCK);
}

fn zeroes_ranges(b: &Bench) {
    let f = filled(4);
    supported(b, fallocate(&f, FallocateFlags::ZERO_RANGE, B - 5, B + 10));
    let got = sys::content("f").must();
    assert!(got[BLOCK - 5..2 * BLOCK + 5].iter().all(|x| *x == 0));
    assert_eq!(got.iter().filter(|x| **x == 1).count(), 3 * BLOCK - 10);
    fallocate(&f, FallocateFlags::ZERO_RANGE, 4 * B - 5, 10).must();
    assert_eq!(sys::fstat(&f).must().size, 4 * BLOCK as i64 + 5);
    let keep = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    fallocate(&f, keep, 5 * B, B).must();
    assert_eq!(sys::fstat(&f).must().size, 4 * BLOCK as i64 + 5);
}

fn finds_data_and_holes(b: &Bench) {
    let f = sys::create("f", 0o644).must();
    sys::pwrite(&f, b"first", 4 * B).must();
    sys::pwrite(&f, b"second", 12 * B).must();
    sys::ftruncate(&f, 20 * BLOCK as i64).must();
    rustix::fs::fsync(&f).must();
    let data = |at| seek(&f, SeekFrom::Data(at));
    let hole = |at| seek(&f, SeekFrom::Hole(at));
    if b.traits.writeback {
        // The server may lack what the kernel keeps back: all is data, also where nothing is kept.
        return assert_eq!((data(0).must(), hole(0).must()), (0, 20 * B));
    }
    assert_eq!((data(0).must(), data(4 * B + 1).must()), (4 * B, 4 * B + 1));
    assert_eq!((hole(0).must(), hole(B).must()), (0, B));
    let end = hole(4 * B).must();
    assert!(end > 4 * B && end <= 5 * B, "the hole begins at {end}");
    assert_eq!((data(end).must(), data(5 * B).must()), (12 * B, 12 * B));
    match data(13 * B) {
        // A file of ours ends in a block, also where it was only made longer.
        Ok(at) => assert!(b.ours() && at > 19 * B, "data at {at}"),
        e => e.fails(Errno::NXIO),
    }
    assert_eq!(hole(15 * B).must(), 15 * B);
}

fn a_file_without_holes_has_one_at_its_end(_: &Bench) {
    sys::put("f", &[1; 10_001]).must();
    let f = sys::open("f", OFlags::RDONLY, 0).must();
    assert_eq!(seek(&f, SeekFrom::Hole(0)).must(), 10_001);
    assert_eq!(seek(&f, SeekFrom::Hole(5000)).must(), 10_001);
    assert_eq!(seek(&f, SeekFrom::Data(10_000)).must(), 10_000);
}

fn beyond_the_end_is_enxio(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    seek(&f, SeekFrom::Data(0)).fails(Errno::NXIO);
    seek(&f, SeekFrom::Hole(0)).fails(Errno::NXIO);
    sys::write(&f, b"12345").must();
    for at in [5, 6, 1 << 40] {
        seek(&f, SeekFrom::Data(at)).fails(Errno::NXIO);
        seek(&f, SeekFrom::Hole(at)).fails(Errno::NXIO);
    }
}

fn a_negative_place_is_einval(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    sys::write(&f, b"12345").must();
    seek(&f, SeekFrom::End(-6)).fails(Errno::INVAL);
    seek(&f, SeekFrom::Current(-6)).fails(Errno::INVAL);
    assert_eq!(seek(&f, SeekFrom::End(-5)).must(), 0);
    assert_eq!(seek(&f, SeekFrom::End(5)).must(), 10);
    assert_eq!(sys::fstat(&f).must().size, 5);
}

fn beyond_the_end_and_writing_makes_a_hole(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    sys::write(&f, b"head").must();
    seek(&f, SeekFrom::Start(1_000_000)).must();
    sys::write(&f, b"tail").must();
    let got = sys::content("f").must();
    assert_eq!((got.len(), &got[..4], &got[1_000_000..]), (1_000_004, &b"head"[..], &b"tail"[..]));
    assert!(got[4..1_000_000].iter().all(|b| *b == 0));
    rustix::fs::fsync(&f).must();
    assert!(sys::fstat(&f).must().blocks * 512 < 500_000, "the hole takes no space");
}
