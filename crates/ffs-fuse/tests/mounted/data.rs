//! Contents: reading, writing, holes, mappings, direct I/O, the write-back cache, times.

use crate::harness::{Image, Mnt, caches_writes, errno, pattern, write_through};
use crate::{Test, sys};
use ffs_fuse::Control;
use ffs_ondisk::{Endian, Format};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub(crate) const TESTS: &[Test] = &[
    ("big_files_read_back", big_files_read_back),
    ("large_reads_need_no_copy", large_reads_need_no_copy),
    ("large_writes_need_one_copy", large_writes_need_one_copy),
    ("a_read_in_place_has_no_block_of_another_file", a_read_in_place_has_no_other_block),
    ("mappings_and_direct_io_agree", mappings_and_direct_io_agree),
    ("holes_are_found_and_made", holes_are_found_and_made),
    ("data_kept_back_is_no_hole", data_kept_back_is_no_hole),
    ("the_write_back_cache_keeps_times_and_sizes", the_write_back_cache_keeps_times_and_sizes),
    ("appending_and_truncating_on_open", appending_and_truncating_on_open),
    ("access_times_follow_reads", access_times_follow_reads),
    ("birth_times_are_shown", birth_times_are_shown),
    ("a_full_disk_returns_enospc", a_full_disk_returns_enospc),
    ("four_threads_at_once", four_threads_at_once),
];

fn big_files_read_back() {
    let image = Image::new();
    let data = pattern(1, 9_000_001);
    let m = image.mount("async");
    fs::write(m.path("f"), &data).unwrap();
    assert!(fs::read(m.path("f")).unwrap() == data);
    sys::drop_caches();
    assert!(fs::read(m.path("f")).unwrap() == data);
    let f = File::options().read(true).write(true).open(m.path("f")).unwrap();
    f.write_all_at(b"patch", 5_000_000).unwrap();
    drop(f);
    m.end();
    let m = image.mount("ro");
    let back = fs::read(m.path("f")).unwrap();
    assert!(back.len() == data.len() && &back[5_000_000..5_000_005] == b"patch");
    m.end();
}

fn spliced(m: &Mnt<'_>) -> u64 {
    value(m, "vfs.fusefs.reads_spliced").parse().unwrap()
}

fn value(m: &Mnt<'_>, name: &str) -> String {
    let values = Control::open(&m.path("")).unwrap().values().unwrap();
    values.into_iter().find(|(found, _)| found == name).unwrap().1
}

fn large_reads_need_no_copy() {
    let image = Image::new();
    let data = pattern(3, 9_000_001);
    for options in ["async", "no_splice"] {
        let m = image.mount(options);
        fs::write(m.path("f"), &data).unwrap();
        let has_splice = value(&m, "vfs.ffs.transport") == "dev" && options == "async";
        // The first read may find dirty blocks, the second does not.
        for _ in 0..2 {
            sys::drop_caches();
            assert!(fs::read(m.path("f")).unwrap() == data);
            rustix::fs::sync();
        }
        assert_eq!(spliced(&m) > 0, has_splice, "{options}");
        let f = File::open(m.path("f")).unwrap();
        let mut part = vec![0; 1_000_000];
        f.read_exact_at(&mut part, 7_777_777).unwrap();
        assert!(part == data[7_777_777..8_777_777]);
        assert_eq!(f.read_at(&mut part, 8_900_000).unwrap(), 100_001);
        drop(f);
        m.end();
    }
}

/// Large writes of each kind, of which a splice(2) mount copies the content once.
fn large_writes_need_one_copy() {
    for options in ["async", "no_splice", "write_in_place=off", "softdep,threads=1"] {
        let image = Image::of_bytes(64 << 20);
        let m = image.mount(options);
        let mut model = pattern(5, 9_000_001);
        fs::write(m.path("f"), &model).unwrap();
        let f = File::options().read(true).write(true).open(m.path("f")).unwrap();
        // Over what is there, over holes, at odd places and past the end.
        f.set_len(20 << 20).unwrap();
        model.resize(20 << 20, 0);
        for (at, len) in [(0, 1 << 20), (4096, 700_000), (777, 2_000_003), (12 << 20, 3 << 20)] {
            let part = pattern(at as u64, len);
            f.write_all_at(&part, at as u64).unwrap();
            model[at..at + len].copy_from_slice(&part);
        }
        let direct = File::options().write(true).custom_flags(libc::O_DIRECT).open(m.path("f"));
        let part = Box::new(AlignedPart([7; PART]));
        direct.unwrap().write_all_at(&part.0, 1 << 20).unwrap();
        model[1 << 20..(1 << 20) + PART].fill(7);
        f.sync_all().unwrap();
        sys::drop_caches();
        assert!(fs::read(m.path("f")).unwrap() == model, "{options}");
        let piped = value(&m, "vfs.fusefs.writes_spliced").parse::<u64>().unwrap() > 0;
        let expected = options != "no_splice" && value(&m, "vfs.ffs.transport") == "dev";
        assert_eq!(piped, expected, "{options}");
        let in_place = value(&m, "vfs.ffs.blocks_in_place").parse::<u64>().unwrap() > 0;
        assert_eq!(in_place, options != "write_in_place=off", "{options}");
        // A full volume: the file has as many bytes as the calls returned, and the mount goes on.
        let (mut full, block) = (m.create("full"), pattern(9, 1 << 20));
        let (mut written, cached) = (0, caches_writes(options));
        let mut fill = || {
            let n = full.write(&block)?;
            // Only this reports what cached bytes lack.
            if cached {
                full.sync_data()?;
            }
            written += n as u64;
            Ok::<_, std::io::Error>(())
        };
        let error = (0..100).find_map(|_| fill().err()).expect("the volume is full");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{options}");
        if cached {
            // The kernel keeps the size with the bytes that it could not pass on.
            full.set_len(written).unwrap();
        }
        assert_eq!(full.metadata().unwrap().len(), written);
        assert!(written > 30 << 20);
        let mut end = vec![0; 1000];
        File::open(m.path("full")).unwrap().read_exact_at(&mut end, written - 1000).unwrap();
        let from = (written - 1000) as usize % block.len();
        assert!(end.iter().zip(block.iter().cycle().skip(from)).all(|(a, b)| a == b));
        drop((f, full));
        m.end();
        image.check();
        let m = image.mount("ro");
        assert!(fs::read(m.path("f")).unwrap() == model, "{options}");
        m.end();
    }
}

/// Each of two files is truncated and written again, so that it gets blocks that the other had.
/// Readers past the kernel's cache see blocks of their file alone.
fn a_read_in_place_has_no_other_block() {
    const LEN: usize = 4 << 20;
    const MOST_ROUNDS: usize = 4000;
    // The files do not fit twice.
    let image = Image::of_bytes(12 << 20);
    let m = image.mount("async,threads=4,io_uring=off");
    let direct = |name: &str| {
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_DIRECT).open(m.path(name)).unwrap()
    };
    let files = ["a", "b"].map(|name| m.create(name));
    let writers = AtomicUsize::new(files.len());
    thread::scope(|s| {
        for (file, tag) in files.iter().zip([1u8, 2]) {
            let (writers, m) = (&writers, &m);
            s.spawn(move || {
                // At least until a reader got its content in place.
                for round in 0..MOST_ROUNDS {
                    if round >= 40 && spliced(m) > 0 {
                        break;
                    }
                    file.set_len(0).unwrap();
                    // The other file may have its blocks for a moment longer.
                    if file.write_all_at(&vec![tag; LEN], 0).is_ok() {
                        file.sync_all().unwrap();
                    }
                }
                writers.fetch_sub(1, Ordering::Relaxed);
            });
        }
        for (name, tag) in [("a", 1u8), ("b", 2)] {
            let (file, writers) = (direct(name), &writers);
            s.spawn(move || {
                let mut part = Box::new(AlignedPart([0; PART]));
                for at in (0..LEN as u64).step_by(PART).cycle() {
                    if writers.load(Ordering::Relaxed) == 0 {
                        break;
                    }
                    let n = file.read_at(&mut part.0, at).unwrap();
                    assert!(part.0[..n].iter().all(|b| *b == tag), "file {name} at {at}");
                }
            });
        }
    });
    assert!(spliced(&m) > 0, "no read was in place");
    drop(files);
    m.end();
}

fn mappings_and_direct_io_agree() {
    const LEN: usize = 256 << 10;
    for options in ["rw", "writeback"] {
        let image = Image::new();
        let m = image.mount(options);
        let f = m.create("f");
        f.set_len(LEN as u64).unwrap();
        let mut map = sys::Map::new(&f, LEN).unwrap();
        map.bytes().copy_from_slice(&pattern(2, LEN));
        map.sync().unwrap();
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_DIRECT);
        let direct = options.open(m.path("f")).unwrap();
        let mut page = Aligned([0; 8192]);
        direct.read_exact_at(&mut page.0, 65536).unwrap();
        assert!(page.0[..] == pattern(2, LEN)[65536..65536 + 8192]);
        page.0.fill(0x55);
        direct.write_all_at(&page.0, 131_072).unwrap();
        assert!(map.bytes()[131_072..131_072 + 8192] == [0x55; 8192]);
        // A file opened for direct I/O can be mapped, too.
        let mut second = sys::Map::new(&direct, LEN).unwrap();
        assert_eq!(second.bytes()[131_072], 0x55);
        drop((map, second, f, direct));
        m.end();
    }
}

#[repr(align(4096))]
struct Aligned([u8; 8192]);

const PART: usize = 512 << 10;

#[repr(align(4096))]
struct AlignedPart([u8; PART]);

fn holes_are_found_and_made() {
    const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
    let image = Image::new();
    let m = image.mount("rw");
    let f = m.create("f");
    f.set_len(4 << 20).unwrap();
    f.write_all_at(&[1; 16384], 1 << 20).unwrap();
    if caches_writes("rw") {
        // To the kernel all is data (see `data_kept_back_is_no_hole`).
        f.sync_all().unwrap();
    } else {
        assert_eq!(sys::seek(&f, 0, libc::SEEK_DATA).unwrap(), 1 << 20);
        assert_eq!(sys::seek(&f, 1 << 20, libc::SEEK_HOLE).unwrap(), (1 << 20) + 16384);
        // No file of UFS ends in a hole.
        assert_eq!(sys::seek(&f, 2 << 20, libc::SEEK_DATA).unwrap(), (4 << 20) - 16384);
    }
    assert_eq!(errno(sys::seek(&f, 4 << 20, libc::SEEK_DATA)), libc::ENXIO);
    let blocks = || f.metadata().unwrap().blocks();
    let before = blocks();
    sys::fallocate(&f, 0, 2 << 20, 1 << 20).unwrap();
    assert_eq!(blocks(), before + 2048);
    sys::fallocate(&f, KEEP | libc::FALLOC_FL_PUNCH_HOLE, 1 << 20, 16384).unwrap();
    let mut b = [9; 100];
    f.read_exact_at(&mut b, 1 << 20).unwrap();
    assert_eq!(b, [0; 100]);
    assert_eq!(blocks(), before + 2048 - 32);
    sys::fallocate(&f, KEEP, 8 << 20, 65536).unwrap();
    assert_eq!(f.metadata().unwrap().len(), 4 << 20);
    f.write_all_at(&[1; 1000], 0).unwrap();
    sys::fallocate(&f, libc::FALLOC_FL_ZERO_RANGE, 10, 100).unwrap();
    f.read_exact_at(&mut b, 10).unwrap();
    assert_eq!(b, [0; 100]);
    assert_eq!(
        errno(sys::fallocate(&f, libc::FALLOC_FL_COLLAPSE_RANGE, 0, 16384)),
        libc::EOPNOTSUPP
    );
    drop(f);
    m.end();
}

/// With `writeback` the kernel holds data that the server has not: none of it may be called a hole.
fn data_kept_back_is_no_hole() {
    let image = Image::new();
    let m = image.mount("writeback");
    let f = m.create("f");
    f.write_all_at(&pattern(4, 100_000), 5_000_000).unwrap();
    for round in 0..2 {
        let end = f.metadata().unwrap().len() as i64;
        for at in [0, 1, 4_999_999, 5_000_000, end - 1] {
            assert_eq!(sys::seek(&f, at, libc::SEEK_DATA).unwrap(), at, "round {round}");
            assert_eq!(sys::seek(&f, at, libc::SEEK_HOLE).unwrap(), end, "round {round}");
        }
        for whence in [libc::SEEK_DATA, libc::SEEK_HOLE] {
            assert_eq!(errno(sys::seek(&f, end, whence)), libc::ENXIO);
        }
        f.sync_all().unwrap();
        f.write_all_at(&pattern(5, 100_000), 20_000_000).unwrap();
    }
    drop(f);
    m.end();
}

fn the_write_back_cache_keeps_times_and_sizes() {
    let image = Image::new();
    let m = image.mount("writeback");
    let mut f = File::create(m.path("f")).unwrap();
    for i in 0..1000 {
        f.write_all(&[i as u8; 333]).unwrap();
    }
    let (size, mtime) = (f.metadata().unwrap().len(), f.metadata().unwrap().modified().unwrap());
    assert_eq!(size, 333_000);
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    let g = File::create(m.path("g")).unwrap();
    (&g).write_all(b"text").unwrap();
    g.set_modified(old).unwrap();
    drop((f, g));
    m.end();
    let m = image.mount("ro");
    let meta = fs::metadata(m.path("f")).unwrap();
    assert_eq!((meta.len(), meta.modified().unwrap()), (size, mtime));
    assert_eq!(fs::metadata(m.path("g")).unwrap().modified().unwrap(), old);
    let data = fs::read(m.path("f")).unwrap();
    assert!(data.chunks(333).enumerate().all(|(i, c)| c.iter().all(|b| *b == i as u8)));
    m.end();
}

fn appending_and_truncating_on_open() {
    for options in ["rw", "writeback"] {
        let image = Image::new();
        let m = image.mount(options);
        fs::write(m.path("f"), vec![1; 100_000]).unwrap();
        let mut a = File::options().append(true).open(m.path("f")).unwrap();
        let mut b = File::options().append(true).open(m.path("f")).unwrap();
        a.write_all(b"one").unwrap();
        b.write_all(b"two").unwrap();
        a.write_all(b"three").unwrap();
        assert_eq!(&fs::read(m.path("f")).unwrap()[100_000..], b"onetwothree");
        drop(File::create(m.path("f")).unwrap());
        assert_eq!(fs::metadata(m.path("f")).unwrap().len(), 0);
        a.write_all(b"again").unwrap();
        drop((a, b));
        assert_eq!(fs::read(m.path("f")).unwrap(), b"again");
        m.end();
    }
}

fn access_times_follow_reads() {
    for (options, moves) in [("relatime", true), ("atime", true), ("noatime", false)] {
        let image = Image::new();
        let m = image.mount(options);
        fs::write(m.path("f"), b"text").unwrap();
        let atime = || {
            let meta = fs::metadata(m.path("f")).unwrap();
            (meta.atime(), meta.atime_nsec())
        };
        let before = atime();
        fs::read(m.path("f")).unwrap();
        let first = atime();
        assert_eq!(first > before, moves, "{options}");
        fs::read(m.path("f")).unwrap();
        assert_eq!(atime() > first, options == "atime", "{options}, second read");
        m.end();
    }
}

fn birth_times_are_shown() {
    let image = Image::new();
    let m = image.mount("rw");
    fs::write(m.path("f"), b"").unwrap();
    let born = fs::metadata(m.path("f")).unwrap().created().unwrap();
    File::open(m.path("f"))
        .unwrap()
        .set_modified(born + std::time::Duration::from_secs(9))
        .unwrap();
    let meta = fs::metadata(m.path("f")).unwrap();
    assert_eq!(meta.created().unwrap(), born);
    assert!(born.elapsed().unwrap().as_secs() < 60);
    m.end();
}

fn a_full_disk_returns_enospc() {
    let image = Image::of((Format::Ufs2, Endian::Little, 8192, 1024), 4 << 20);
    let m = image.mount("async");
    let (f, cached) = (File::create(m.path("f")).unwrap(), caches_writes("async"));
    // More than the volume has.
    let failed = (0..100).find_map(|_| write_through(&f, &[1; 65536], cached).err());
    assert_eq!(failed.unwrap().raw_os_error(), Some(libc::ENOSPC));
    drop(f);
    fs::remove_file(m.path("f")).unwrap();
    fs::write(m.path("g"), vec![2; 1 << 20]).unwrap();
    m.end();
}

fn four_threads_at_once() {
    for options in ["async,threads=4", "async,writeback,threads=2", "sync"] {
        let image = Image::new();
        let m = image.mount(options);
        thread::scope(|s| {
            for t in 0..4u64 {
                let dir = m.path(&format!("t{t}"));
                let shared = m.path("");
                s.spawn(move || worker(t, &dir, &shared));
            }
        });
        m.end();
    }
}

fn worker(t: u64, dir: &std::path::Path, shared: &std::path::Path) {
    fs::create_dir(dir).unwrap();
    for i in 0..150u64 {
        let data = pattern(t * 1000 + i, (i * 211 % 40_000) as usize);
        let file = dir.join(format!("f{i}"));
        fs::write(&file, &data).unwrap();
        let common = shared.join(format!("c{}", i % 7));
        match i % 5 {
            0 => fs::rename(&file, dir.join(format!("r{i}"))).unwrap(),
            1 => fs::remove_file(&file).unwrap(),
            2 => {
                // Others do the same to the same names: any order is right, as long as nothing
                // breaks.
                let _ = fs::hard_link(&file, &common);
                let _ = fs::remove_file(&common);
            }
            3 => {
                let _ = fs::rename(&file, &common);
                let _ = File::open(&common).map(|mut f| f.read_to_end(&mut Vec::new()));
            }
            _ => assert!(fs::read(&file).unwrap() == data),
        }
    }
}
