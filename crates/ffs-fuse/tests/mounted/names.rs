//! Names, directories, links, nodes.

use crate::harness::{Image, caches_writes, errno, write_through};
use crate::{Test, sys};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("names_longer_than_255_bytes_are_refused", names_longer_than_255_bytes_are_refused),
    ("big_directories_list_each_name_once", big_directories_list_each_name_once),
    ("listing_while_removing", listing_while_removing),
    ("a_missing_name_appears_when_it_is_made", a_missing_name_appears_when_it_is_made),
    ("unlinked_files_live_while_open", unlinked_files_live_while_open),
    ("renaming_replaces_exchanges_or_refuses", renaming_replaces_exchanges_or_refuses),
    ("device_numbers_survive", device_numbers_survive),
    ("link_counts_are_fresh", link_counts_are_fresh),
    ("inode_numbers_are_the_volumes", inode_numbers_are_the_volumes),
];

fn names_longer_than_255_bytes_are_refused() {
    let image = Image::new();
    let m = image.mount("rw");
    let (good, bad) = ("n".repeat(255), "n".repeat(256));
    fs::write(m.path(&good), b"").unwrap();
    assert_eq!(errno(fs::write(m.path(&bad), b"")), libc::ENAMETOOLONG);
    assert_eq!(errno(fs::metadata(m.path(&bad))), libc::ENAMETOOLONG);
    assert_eq!(errno(fs::create_dir(m.path(&bad))), libc::ENAMETOOLONG);
    assert_eq!(errno(fs::rename(m.path(&good), m.path(&bad))), libc::ENAMETOOLONG);
    assert_eq!(errno(std::os::unix::fs::symlink("x", m.path(&bad))), libc::ENAMETOOLONG);
    m.end();
}

fn big_directories_list_each_name_once() {
    let image = Image::new();
    let m = image.mount("async");
    fs::create_dir(m.path("d")).unwrap();
    let made: BTreeSet<String> = (0..5000).map(|i| format!("{i}-{}", "x".repeat(i % 60))).collect();
    for (i, name) in made.iter().enumerate() {
        fs::write(m.path("d").join(name), vec![1; i % 7]).unwrap();
    }
    sys::drop_caches();
    for _ in 0..2 {
        let mut seen = BTreeSet::new();
        for e in fs::read_dir(m.path("d")).unwrap() {
            let e = e.unwrap();
            assert!(e.file_type().unwrap().is_file());
            assert_eq!(e.metadata().unwrap().nlink(), 1);
            assert!(seen.insert(e.file_name().into_string().unwrap()), "{e:?} twice");
        }
        assert!(seen == made);
    }
    m.end();
}

fn listing_while_removing() {
    let image = Image::new();
    let m = image.mount("async");
    fs::create_dir(m.path("d")).unwrap();
    for i in 0..2000 {
        fs::write(m.path(&format!("d/{i}")), b"").unwrap();
    }
    let mut n = 0;
    for e in fs::read_dir(m.path("d")).unwrap() {
        fs::remove_file(e.unwrap().path()).unwrap();
        n += 1;
    }
    assert_eq!(n, 2000);
    fs::remove_dir(m.path("d")).unwrap();
    m.end();
}

fn a_missing_name_appears_when_it_is_made() {
    let image = Image::new();
    let m = image.mount("rw");
    for _ in 0..2 {
        assert_eq!(errno(fs::metadata(m.path("x"))), libc::ENOENT);
        fs::write(m.path("x"), b"").unwrap();
        fs::metadata(m.path("x")).unwrap();
        fs::rename(m.path("x"), m.path("y")).unwrap();
        assert_eq!(errno(fs::metadata(m.path("x"))), libc::ENOENT);
        fs::remove_file(m.path("y")).unwrap();
    }
    m.end();
}

fn unlinked_files_live_while_open() {
    let image = Image::new();
    let m = image.mount("rw");
    let free = || rustix::fs::statvfs(m.path("")).unwrap().f_bfree;
    let before = free();
    let mut f = m.create("f");
    fs::remove_file(m.path("f")).unwrap();
    write_through(&f, &[5; 500_000], caches_writes("rw")).unwrap();
    sys::drop_caches();
    f.seek(SeekFrom::Start(0)).unwrap();
    let mut back = Vec::new();
    f.read_to_end(&mut back).unwrap();
    assert_eq!(back, vec![5; 500_000]);
    assert_eq!(f.metadata().unwrap().nlink(), 0);
    assert!(free() < before);
    drop(f);
    // The kernel lets go of a closed file in its own time.
    let deadline = Instant::now() + Duration::from_secs(10);
    while free() != before {
        assert!(Instant::now() < deadline, "the space of a removed file stays taken");
    }
    let f = fs::File::create(m.path("g")).unwrap();
    fs::remove_file(m.path("g")).unwrap();
    f.set_len(1 << 20).unwrap();
    drop(f);
    m.end();
}

fn renaming_replaces_exchanges_or_refuses() {
    const NOREPLACE: u32 = 1;
    const EXCHANGE: u32 = 2;
    const WHITEOUT: u32 = 4;
    let image = Image::new();
    let m = image.mount("rw");
    fs::write(m.path("a"), b"a").unwrap();
    fs::create_dir_all(m.path("d/sub")).unwrap();
    let (a, d) = (m.path("a"), m.path("d"));
    assert_eq!(errno(sys::rename2(&a, &d, NOREPLACE)), libc::EEXIST);
    assert_eq!(errno(sys::rename2(&a, &m.path("w"), WHITEOUT | EXCHANGE)), libc::EINVAL);
    assert_eq!(errno(fs::rename(&a, &d)), libc::EISDIR);
    assert_eq!(errno(fs::rename(&d, m.path("d/sub/x"))), libc::EINVAL);
    sys::rename2(&a, &d, EXCHANGE).unwrap();
    assert_eq!(fs::read(&d).unwrap(), b"a");
    assert!(m.path("a/sub").is_dir());
    fs::write(m.path("b"), b"b").unwrap();
    fs::rename(m.path("b"), &d).unwrap();
    assert_eq!(fs::read(&d).unwrap(), b"b");
    m.end();
}

fn device_numbers_survive() {
    let image = Image::new();
    let cases = [
        ("null", libc::S_IFCHR, 1, 3),
        ("big", libc::S_IFBLK, 259, 70_000),
        ("pipe", libc::S_IFIFO, 0, 0),
        ("sock", libc::S_IFSOCK, 0, 0),
    ];
    let m = image.mount("rw");
    for (name, kind, major, minor) in cases {
        sys::mknod(&m.path(name), kind | 0o644, libc::makedev(major, minor)).unwrap();
    }
    m.end();
    let m = image.mount("rw");
    for (name, kind, major, minor) in cases {
        let meta = fs::symlink_metadata(m.path(name)).unwrap();
        assert_eq!(meta.mode() & libc::S_IFMT, kind, "{name}");
        assert_eq!((libc::major(meta.rdev()), libc::minor(meta.rdev())), (major, minor), "{name}");
    }
    assert!(fs::metadata(m.path("null")).unwrap().file_type().is_char_device());
    fs::write(m.path("null"), b"swallowed").unwrap();
    m.end();
}

fn link_counts_are_fresh() {
    let image = Image::new();
    let m = image.mount("rw");
    let nlink = |p: &str| fs::metadata(m.path(p)).unwrap().nlink();
    fs::create_dir(m.path("d")).unwrap();
    assert_eq!(nlink("d"), 2);
    fs::create_dir(m.path("d/e")).unwrap();
    assert_eq!(nlink("d"), 3);
    fs::create_dir(m.path("other")).unwrap();
    fs::rename(m.path("d/e"), m.path("other/e")).unwrap();
    assert_eq!((nlink("d"), nlink("other")), (2, 3));
    fs::write(m.path("f"), b"").unwrap();
    fs::hard_link(m.path("f"), m.path("g")).unwrap();
    assert_eq!((nlink("f"), nlink("g")), (2, 2));
    let ctime = |p: &str| {
        let meta = fs::metadata(m.path(p)).unwrap();
        (meta.ctime(), meta.ctime_nsec())
    };
    let before = ctime("g");
    // A kernel that caches writes takes times from its coarse clock.
    std::thread::sleep(Duration::from_millis(20));
    fs::remove_file(m.path("f")).unwrap();
    assert_eq!(nlink("g"), 1);
    assert!(ctime("g") > before);
    m.end();
}

fn inode_numbers_are_the_volumes() {
    let image = Image::new();
    let m = image.mount("rw");
    assert_eq!(fs::metadata(m.path("")).unwrap().ino(), 2);
    fs::write(m.path("f"), b"").unwrap();
    let ino = fs::metadata(m.path("f")).unwrap().ino();
    m.end();
    let m = image.mount("ro");
    assert_eq!(fs::metadata(m.path("f")).unwrap().ino(), ino);
    let listed = fs::read_dir(m.path("")).unwrap().map(|e| e.unwrap());
    let listed = listed.into_iter().find(|e| e.file_name() == "f").unwrap();
    assert_eq!(std::os::unix::fs::DirEntryExt::ino(&listed), ino);
    drop(listed);
    m.end();
}
