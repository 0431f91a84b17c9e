//! Content: written, mapped, copied and locked.

use crate::bench::{Bench, Expect, cases, tick};
use crate::ground::Served;
use crate::sys::{self, Errno, R};
use ffs_testkit::rng::SplitMix64 as Rng;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{FlockOperation, OFlags, copy_file_range, flock};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

cases! {
    "write" {
        random_writes_are_read_back;
        far_away_in_large_files;
        from_many_threads_in_one_file;
        nothing_and_beyond;
        durable_after_sync_calls;
    }
    "mmap" {
        shared_writes_reach_the_file;
        sees_what_is_written;
        private_writes_stay_private;
        of_a_file_that_loses_its_name;
        the_tail_of_the_last_page_is_zero;
        needs_the_right_descriptor;
        extends_nothing_and_changes_mtime;
    }
    "copy" {
        ranges_between_files;
        by_sendfile;
    }
    "lock" {
        of_whole_files;
        of_ranges;
        of_ranges_are_seen_by_others;
    }
    "statfs" { returns_plausible_numbers; }
}

const SEED: u64 = 4_711;

fn random_writes_are_read_back(_: &Bench) {
    let mut rng = Rng::new(SEED);
    let f = sys::create("f", 0o644).must();
    let mut model: Vec<u8> = Vec::new();
    let below = |rng: &mut Rng, n: u64| rng.below(n) as usize;
    for step in 0..400 {
        match below(&mut rng, 10) {
            0 => {
                let size = below(&mut rng, 400_000);
                sys::ftruncate(&f, size as i64).must();
                model.resize(size, 0);
            }
            1 | 2 => {
                let (at, len) = (below(&mut rng, 400_000), below(&mut rng, 50_000));
                let got = sys::pread(&f, len, at as u64).must();
                let want = &model[at.min(model.len())..(at + len).min(model.len())];
                assert!(got == want, "seed {SEED}, step {step}: {len} bytes at {at}");
            }
            _ => {
                let (at, len) = (below(&mut rng, 350_000), below(&mut rng, 20_000));
                let bytes: Vec<u8> = (0..len).map(|i| (i + step) as u8 | 1).collect();
                assert_eq!(sys::pwrite(&f, &bytes, at as u64).must(), len);
                if len > 0 {
                    model.resize(model.len().max(at + len), 0);
                    model[at..at + len].copy_from_slice(&bytes);
                }
            }
        }
    }
    assert!(sys::content("f").must() == model);
    rustix::fs::fsync(&f).must();
    // Past the page cache: what the file system itself has.
    let _ = rustix::fs::fadvise(&f, 0, None, rustix::fs::Advice::DontNeed);
    assert!(sys::content("f").must() == model);
}

fn far_away_in_large_files(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    let places = [(1u64 << 31) - 3, (1 << 32) - 2, 1 << 33, 1 << 36, (1 << 40) + 12_345];
    for at in places {
        sys::pwrite(&f, format!("at {at}").as_bytes(), at).must_for(at);
    }
    for at in places {
        let text = format!("at {at}");
        assert_eq!(sys::pread(&f, text.len(), at).must(), text.as_bytes());
        assert!(sys::pread(&f, 100, at - 200).must() == [0; 100]);
    }
    let s = sys::stat("f").must();
    assert_eq!(s.size, (1 << 40) + 12_345 + format!("at {}", places[4]).len() as i64);
    sys::truncate("f", (1 << 32) + 1).must();
    assert_eq!(sys::pread(&f, 100, (1 << 32) - 2).must(), b"at ");
    sys::truncate("f", 0).must();
    assert_eq!(sys::stat("f").must().blocks, 0);
}

fn from_many_threads_in_one_file(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    const PIECE: usize = 1000;
    std::thread::scope(|s| {
        for t in 0..4u8 {
            let f = &f;
            s.spawn(move || {
                for n in (0..100).map(|n| n * 4 + usize::from(t)) {
                    sys::pwrite(f, &[t + 1; PIECE], (n * PIECE) as u64).must();
                }
            });
        }
    });
    let got = sys::content("f").must();
    assert_eq!(got.len(), 400 * PIECE);
    for (n, piece) in got.chunks(PIECE).enumerate() {
        assert!(piece.iter().all(|b| usize::from(*b) == n % 4 + 1), "piece {n}");
    }
}

fn nothing_and_beyond(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    assert_eq!(sys::write(&f, b"").must(), 0);
    assert_eq!(sys::pwrite(&f, b"", 1000).must(), 0);
    assert_eq!(sys::fstat(&f).must().size, 0);
    assert!(sys::pread(&f, 10, 0).must().is_empty());
    sys::write(&f, b"12345").must();
    assert_eq!(sys::pread(&f, 10, 3).must(), b"45");
    assert!(sys::pread(&f, 10, 5).must().is_empty());
    assert!(sys::pread(&f, 10, 1 << 40).must().is_empty());
}

/// Uses a separate volume: `syncfs` reports an earlier write error of any file, and a case about
/// full volumes may have caused one.
fn durable_after_sync_calls(b: &Bench) {
    if !b.ours() {
        return make_durable();
    }
    let image = b.ground.another(16 << 20);
    let served = Served::start(&image, "");
    rustix::process::chdir(served.dir()).must();
    make_durable();
    rustix::process::chdir("/").must();
    served.end();
}

fn make_durable() {
    let f = sys::create("f", 0o644).must();
    sys::write(&f, &[1; 50_000]).must();
    rustix::fs::fdatasync(&f).must();
    rustix::fs::fsync(&f).must();
    rustix::fs::syncfs(&f).must();
    let d = sys::open(".", OFlags::RDONLY, 0).must();
    rustix::fs::fsync(&d).must();
    rustix::fs::fdatasync(&d).must();
    let r = sys::open("f", OFlags::RDONLY, 0).must();
    rustix::fs::fsync(&r).must();
    sys::unlink("f").must();
    rustix::fs::fsync(&f).must();
}

/// A mapping of a file.
struct Map {
    at: *mut libc::c_void,
    len: usize,
}

impl Map {
    fn new(f: &OwnedFd, len: usize, shared: bool) -> R<Map> {
        let how = if shared { MapFlags::SHARED } else { MapFlags::PRIVATE };
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place the kernel chooses; only `bytes` gives access to it.
        let at = unsafe { mmap(std::ptr::null_mut(), len, prot, how, f, 0) }?;
        Ok(Map { at, len })
    }

    #[allow(clippy::mut_from_ref)]
    fn bytes(&self) -> &mut [u8] {
        // SAFETY: mapped readable and writable for `len` bytes until `drop`; the cases keep the
        // file at least as large while they touch it.
        unsafe { std::slice::from_raw_parts_mut(self.at.cast(), self.len) }
    }

    fn sync(&self) {
        // SAFETY: the whole mapping.
        unsafe { msync(self.at, self.len, MsyncFlags::SYNC) }.must();
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping was made above, and no reference to it remains.
        let _ = unsafe { munmap(self.at, self.len) };
    }
}

fn of_size(name: &str, size: usize) -> OwnedFd {
    sys::put(name, &vec![b'.'; size]).must();
    sys::open(name, OFlags::RDWR, 0).must()
}

fn shared_writes_reach_the_file(_: &Bench) {
    let f = of_size("f", 300_000);
    let map = Map::new(&f, 300_000, true).must();
    map.bytes()[0] = b'a';
    map.bytes()[299_999] = b'z';
    map.bytes()[100_000..200_000].fill(b'm');
    map.sync();
    let got = sys::content("f").must();
    assert_eq!((got[0], got[1], got[299_999], got.len()), (b'a', b'.', b'z', 300_000));
    assert!(got[100_000..200_000].iter().all(|b| *b == b'm'));
    drop(map);
    rustix::fs::fsync(&f).must();
    let _ = rustix::fs::fadvise(&f, 0, None, rustix::fs::Advice::DontNeed);
    assert!(sys::content("f").must() == got);
}

fn sees_what_is_written(_: &Bench) {
    let f = of_size("f", 10_000);
    let map = Map::new(&f, 10_000, true).must();
    assert_eq!(map.bytes()[5000], b'.');
    sys::pwrite(&f, b"written", 5000).must();
    assert_eq!(&map.bytes()[4999..5008], b".written.");
    map.bytes()[5000] = b'W';
    assert_eq!(sys::pread(&f, 7, 5000).must(), b"Written");
}

fn private_writes_stay_private(_: &Bench) {
    let f = of_size("f", 10_000);
    let map = Map::new(&f, 10_000, false).must();
    map.bytes().fill(b'p');
    map.sync();
    drop(map);
    assert_eq!(sys::content("f").must(), [b'.'; 10_000]);
}

fn of_a_file_that_loses_its_name(_: &Bench) {
    let f = of_size("f", 10_000);
    let map = Map::new(&f, 10_000, true).must();
    sys::unlink("f").must();
    map.bytes()[1] = b'1';
    map.sync();
    assert_eq!(sys::pread(&f, 3, 0).must(), b".1.");
    drop(f);
    map.bytes()[2] = b'2';
    assert_eq!(&map.bytes()[..4], b".12.");
}

/// Its file is its page cache: what is written beyond the end stays there.
const TMPFS_MAGIC: i64 = 0x0102_1994;

fn the_tail_of_the_last_page_is_zero(_: &Bench) {
    let f = of_size("f", 100);
    let map = Map::new(&f, 4096, true).must();
    assert!(map.bytes()[100..].iter().all(|b| *b == 0));
    map.bytes()[100..].fill(b'x');
    map.sync();
    drop(map);
    assert_eq!(sys::fstat(&f).must().size, 100);
    sys::ftruncate(&f, 200).must();
    if rustix::fs::statfs(".").must().f_type != TMPFS_MAGIC {
        assert_eq!(sys::pread(&f, 100, 100).must(), [0; 100], "what is beyond never shows");
    }
}

fn needs_the_right_descriptor(_: &Bench) {
    of_size("f", 100);
    let r = sys::open("f", OFlags::RDONLY, 0).must();
    let w = sys::open("f", OFlags::WRONLY, 0).must();
    Map::new(&r, 100, true).map(drop).fails(Errno::ACCESS);
    Map::new(&r, 100, false).map(drop).must();
    Map::new(&w, 100, true).map(drop).fails(Errno::ACCESS);
    let d = sys::open(".", OFlags::RDONLY, 0).must();
    Map::new(&d, 100, false).map(drop).fails([Errno::NODEV, Errno::ACCESS]);
}

fn extends_nothing_and_changes_mtime(_: &Bench) {
    let f = of_size("f", 5000);
    let map = Map::new(&f, 5000, true).must();
    let before = sys::fstat(&f).must();
    tick();
    map.bytes()[10] = b'x';
    map.sync();
    let after = sys::fstat(&f).must();
    assert!(after.mtime > before.mtime && after.ctime > before.ctime);
    assert_eq!(after.size, 5000);
}

fn ranges_between_files(b: &Bench) {
    let content: Vec<u8> = (0..200_000u32).map(|i| (i % 253) as u8).collect();
    sys::put("f", &content).must();
    let f = sys::open("f", OFlags::RDONLY, 0).must();
    let g = sys::create("g", 0o644).must();
    let (mut from, mut to) = (1000, 77);
    while from < 150_000 {
        let left = 150_000 - from as usize;
        match copy_file_range(&f, Some(&mut from), &g, Some(&mut to), left) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => b.skip("no copy_file_range"),
            n => assert!(n.must() > 0),
        }
    }
    let got = sys::content("g").must();
    assert!(got[..77] == [0; 77] && got[77..] == content[1000..150_000]);
    let (mut from, mut to) = (1 << 30, 0);
    assert_eq!(copy_file_range(&f, Some(&mut from), &g, Some(&mut to), 10).must(), 0);
}

fn by_sendfile(_: &Bench) {
    let content: Vec<u8> = (0..100_000u32).map(|i| (i % 253) as u8).collect();
    sys::put("f", &content).must();
    let f = sys::open("f", OFlags::RDONLY, 0).must();
    let g = sys::create("g", 0o644).must();
    let mut done = 0;
    while done < content.len() {
        done += rustix::fs::sendfile(&g, &f, None, content.len() - done).must();
    }
    assert!(sys::content("g").must() == content);
}

fn of_whole_files(_: &Bench) {
    let a = sys::create("f", 0o644).must();
    let b = sys::open("f", OFlags::RDONLY, 0).must();
    flock(&a, FlockOperation::NonBlockingLockExclusive).must();
    flock(&b, FlockOperation::NonBlockingLockExclusive).fails(Errno::WOULDBLOCK);
    flock(&b, FlockOperation::NonBlockingLockShared).fails(Errno::WOULDBLOCK);
    flock(&a, FlockOperation::NonBlockingLockShared).must();
    flock(&b, FlockOperation::NonBlockingLockShared).must();
    flock(&a, FlockOperation::NonBlockingLockExclusive).fails(Errno::WOULDBLOCK);
    flock(&b, FlockOperation::Unlock).must();
    flock(&a, FlockOperation::NonBlockingLockExclusive).must();
    drop(a);
    flock(&b, FlockOperation::NonBlockingLockExclusive).must();
}

/// A lock of an open file description on a range.
fn range(f: impl AsFd, command: i32, kind: i32, start: i64, len: i64) -> R<libc::flock> {
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    // SAFETY: `lock` lives during the call.
    let r = unsafe { libc::fcntl(f.as_fd().as_raw_fd(), command, &mut lock) };
    if r == -1 {
        let e = std::io::Error::last_os_error().raw_os_error().unwrap_or_default();
        return Err(Errno::from_raw_os_error(e));
    }
    Ok(lock)
}

fn lock(f: &OwnedFd, kind: i32, start: i64, len: i64) -> R {
    range(f, libc::F_OFD_SETLK, kind, start, len).map(drop)
}

fn of_ranges(_: &Bench) {
    let a = of_size("f", 1000);
    let b = sys::open("f", OFlags::RDWR, 0).must();
    let taken = [Errno::AGAIN, Errno::ACCESS];
    lock(&a, libc::F_WRLCK, 0, 100).must();
    lock(&b, libc::F_WRLCK, 100, 100).must();
    lock(&b, libc::F_RDLCK, 50, 10).fails(taken);
    lock(&a, libc::F_WRLCK, 0, 0).fails(taken);
    let found = range(&b, libc::F_OFD_GETLK, libc::F_WRLCK, 0, 10).must();
    assert_eq!((i32::from(found.l_type), found.l_start, found.l_len), (libc::F_WRLCK, 0, 100));
    lock(&a, libc::F_UNLCK, 50, 10).must();
    lock(&b, libc::F_RDLCK, 50, 10).must();
    lock(&b, libc::F_RDLCK, 40, 20).fails(taken);
    drop(a);
    lock(&b, libc::F_WRLCK, 0, 0).must();
}

fn of_ranges_are_seen_by_others(_: &Bench) {
    let a = of_size("f", 1000);
    lock(&a, libc::F_RDLCK, 0, 10).must();
    let r = sys::open("f", OFlags::RDONLY, 0).must();
    lock(&r, libc::F_RDLCK, 0, 10).must();
    lock(&r, libc::F_WRLCK, 0, 10).fails([Errno::BADF, Errno::AGAIN, Errno::ACCESS]);
    let free = range(&r, libc::F_OFD_GETLK, libc::F_RDLCK, 0, 10).must();
    assert_eq!(i32::from(free.l_type), libc::F_UNLCK);
}

fn returns_plausible_numbers(b: &Bench) {
    let s = rustix::fs::statvfs(".").must();
    assert!(s.f_blocks > 0 && s.f_bfree <= s.f_blocks && s.f_bavail <= s.f_bfree);
    assert!(s.f_ffree <= s.f_files && s.f_frsize > 0 && s.f_bsize > 0);
    assert_eq!(s.f_namemax, 255);
    if b.ours() {
        // The kernel releases removed files of earlier tests when it likes, which frees inodes.
        let taken: Vec<u64> = (0..20)
            .map(|n| {
                let before = rustix::fs::statvfs(".").must().f_ffree;
                sys::mkdir(format!("d{n}"), 0o755).must();
                sys::create(format!("f{n}"), 0o644).must();
                before.wrapping_sub(rustix::fs::statvfs(".").must().f_ffree)
            })
            .collect();
        assert!(taken.contains(&2), "{taken:?}");
        for n in 0..20 {
            sys::rmdir(format!("d{n}")).must();
            sys::unlink(format!("f{n}")).must();
        }
    }
}
