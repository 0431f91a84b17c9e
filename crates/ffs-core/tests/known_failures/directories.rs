//! Groups 9 to 11: malformed directories.

use crate::disk::{Disk, KINDS, list};
use crate::ordeal::{EIO, compare, names, one_names, ordeal, work};
use crate::walk::walk;
use ffs_admin::fsck::{FsckOptions, Id, exit};
use ffs_core::{Cred, Error, Ffs, FileType, NodeKind, RenameMode, Vnode};
use ffs_ondisk::dir::{self, Record};
use ffs_ondisk::{Cg, CgNo, FragNo, Lbn};

fn root_of(fs: &Ffs) -> Vnode {
    fs.root().unwrap()
}

/// Checks that every byte of every directory outside the headers and names of records is zero.
fn assert_no_leaks(disk: &Disk, when: &str) {
    for item in disk.mount_read_only().map(|fs| walk(&fs).items).unwrap().values() {
        if !item.is_directory() {
            continue;
        }
        let d = disk.inode(item.ino);
        for (l, &p) in d.db.iter().enumerate().filter(|(_, p)| **p > 0) {
            let len = disk.g.blksize(d.size, Lbn(l as u64)) as usize;
            let len = len.min((d.size - l as u64 * u64::from(disk.g.bsize)) as usize);
            let block = disk.read(disk.g.frag_to_byte(FragNo(p as u64)), len);
            for (i, chunk) in block.chunks(512).enumerate() {
                let mut names = vec![false; 512];
                for r in dir::records(disk.dir_format(), chunk).map(Result::unwrap) {
                    names[r.off..r.off + 8 + r.name.len()].fill(true);
                }
                let leak = names.iter().zip(chunk).position(|(n, b)| !n && *b != 0);
                assert!(
                    leak.is_none(),
                    "{:?} {when}: {}: chunk {i}: {leak:?}",
                    disk.kind,
                    item.ino
                );
            }
        }
    }
}

/// Fills all free space with a pattern, so that bytes that are not overwritten are detected.
fn poison_free_space(disk: &Disk) {
    for c in 0..disk.g.ncg {
        let b = disk.read(disk.group_at(c), disk.g.cgsize as usize);
        let cg = Cg::new(&disk.g, &b);
        for f in (0..cg.ndblk()).filter(|f| cg.frag_free(*f)) {
            let at = disk.g.frag_to_byte(disk.g.cgbase(CgNo(c)).plus(f.into()));
            disk.write(at, &vec![0xee; disk.g.fsize as usize]);
        }
    }
}

#[test]
fn kf2_09_no_byte_of_a_directory_is_left_over() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        poison_free_space(&disk);
        let fs = disk.mount().unwrap();
        let (cred, root) = (Cred::root(), root_of(&fs));
        for i in 0..12u32 {
            let d = fs.mkdir(&cred, &root, format!("dir{i}").as_bytes(), 0o755).unwrap();
            for j in 0..70usize {
                let name = "abcdefghijklmnopqrstuvwxyz".repeat(3)[..1 + (j * 7) % 70].to_owned();
                let name = format!("{name}{j}");
                drop(fs.create(&cred, &d, name.as_bytes(), NodeKind::Fifo, 0o600).unwrap());
                if j % 3 == 0 {
                    fs.unlink(&cred, &d, name.as_bytes()).unwrap();
                }
                if j % 3 != 0 && j % 5 == 1 {
                    let to = format!("r{j}");
                    fs.rename(
                        &cred,
                        (&d, name.as_bytes()),
                        (&d, to.as_bytes()),
                        RenameMode::Replace,
                    )
                    .unwrap();
                }
            }
        }
        drop(root);
        assert!(work(&fs, "work").is_empty());
        fs.unmount().unwrap();
        disk.silent("full of names");
        assert_no_leaks(&disk, "after work");
    }
}

/// Padding with bytes leaked by another system is harmless, and `fsck -z` clears it.
#[test]
fn kf2_09_leaked_bytes_are_harmless_and_zeroed_on_request() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let at = disk.dir_at(2);
        let mut chunk = disk.read(at, 512);
        let mut used = [false; 512];
        for r in dir::records(disk.dir_format(), &chunk).map(Result::unwrap) {
            used[r.off..r.off + 8 + r.name.len() + 1].fill(true);
        }
        for (b, _) in chunk.iter_mut().zip(used).filter(|(_, used)| !used) {
            *b = 0xa5;
        }
        disk.write(at, &chunk);
        let out = ordeal(&disk, "leaked bytes", &[]);
        assert!(out.walk.is_empty() && out.work.is_empty(), "{:?}", out.work);
        let report = disk.fsck(FsckOptions { zero_unused: true, ..FsckOptions::yes() });
        assert_eq!(report.exit_code, exit::OK);
        assert_no_leaks(&disk, "after fsck -z");
    }
}

/// A damage to one record of the directory `/a/b`, whose third entry is `c`: description, field,
/// value, and a word of the error.
type Damage = (&'static str, &'static str, i128, &'static str);

const RECORDS: &[Damage] = &[
    ("c", "reclen", 0, "record length"),
    ("c", "reclen", 3, "record length"),
    ("c", "reclen", 13, "record length"),
    ("c", "reclen", 4, "record length"),
    ("c", "reclen", 65_532, "record length"),
    ("c", "reclen", 512, "record length"),
    ("c", "namlen", 0, "name length"),
    ("c", "namlen", 255, "name length"),
    ("c", "type", 0xff, "type"),
    ("c", "ino", 0xffff_ffff, "inode number"),
    ("c", "ino", 1 << 30, "inode number"),
    ("..", "reclen", 0, "record length"),
    ("..", "ino", 0xffff_fff0, "inode number"),
];

#[test]
fn kf2_10_malformed_records() {
    for kind in KINDS {
        for &(name, field, value, word) in RECORDS {
            let disk = Disk::new(kind);
            let ino = disk.ino("/a/b");
            disk.set_record(disk.record_at(ino, name.as_bytes()), field, value);
            let what = format!("{field} of {name} = {value}");
            let fs = disk.mount().unwrap();
            let w = walk(&fs);
            compare(&disk, &w, &what, &["/a/b"]);
            if name == "c" {
                let bad: Vec<_> = w.errors.iter().filter(|f| f.path.starts_with("/a/b")).collect();
                let place = format!("directory {ino}");
                let named = |f: &&&crate::walk::Failure| {
                    f.errno == EIO
                        && [word, "directory", &place, "offset"].iter().all(|w| f.text.contains(w))
                };
                assert!(bad.iter().any(|f| named(&f)), "{kind:?} {what}: {bad:?}");
            }
            // No name can be entered if its existence cannot be determined.
            drop(fs);
            let out = ordeal(&disk, &what, &["/a/b"]);
            assert!(!out.clean, "{kind:?} {what}");
        }
    }
}

/// Invalid names: with NUL, with '/', without a NUL after them.
#[test]
fn kf2_10_impossible_names_on_disk() {
    for kind in KINDS {
        for (byte, why) in [(0u8, "NUL"), (b'/', "'/'")] {
            let disk = Disk::new(kind);
            let ino = disk.ino("/a/b");
            disk.write(disk.record_at(ino, b"hard") + 8 + 1, &[byte]);
            let out = ordeal(&disk, why, &["/a/b/hard", "/a/b/"]);
            let place = format!("directory {ino}");
            one_names(why, &out.walk, "/a/b", &["directory", &place, "name byte", why]);
            assert!(!out.clean);
        }
    }
}

/// Invalid names from callers.
#[test]
fn bad_names_from_callers() {
    let disk = Disk::new(KINDS[2]);
    let fs = disk.mount().unwrap();
    let (cred, root) = (Cred::root(), root_of(&fs));
    let long = [b'x'; 256];
    let one = fs.lookup(&cred, &root, b"one").unwrap();
    for (name, errno) in
        [(&b""[..], 22), (b"a/b", 22), (b"a\0b", 22), (&long[..], 36), (&[b'y'; 1024][..], 36)]
    {
        let code = |r: Result<(), Error>| r.map_or_else(|e| e.errno(), |()| 0);
        let make = fs.create(&cred, &root, name, NodeKind::Regular, 0o644).map(drop);
        assert_eq!(code(make), errno, "create {name:?}");
        assert_eq!(code(fs.mkdir(&cred, &root, name, 0o755).map(drop)), errno);
        assert_eq!(code(fs.symlink(&cred, &root, name, b"t").map(drop)), errno);
        assert_eq!(code(fs.link(&cred, &one, &root, name)), errno);
        assert_eq!(code(fs.lookup(&cred, &root, name).map(drop)), errno, "lookup {name:?}");
        assert_eq!(code(fs.unlink(&cred, &root, name)), errno);
        assert_eq!(code(fs.rmdir(&cred, &root, name)), errno);
        let moved = fs.rename(&cred, (&root, b"one"), (&root, name), RenameMode::Replace);
        assert_eq!(code(moved), errno, "rename to {name:?}");
    }
    let name = [b'x'; 255];
    drop(fs.create(&cred, &root, &name, NodeKind::Fifo, 0o600).unwrap());
    fs.unlink(&cred, &root, &name).unwrap();
    drop((root, one));
    fs.unmount().unwrap();
    ordeal(&disk, "names", &[]);
}

/// `.` and `..` missing, at other offsets, wrong, or without enough space.
#[test]
fn kf2_10_dot_and_dot_dot() {
    type Edit = fn(&Disk, u32, &mut [u8]);
    let edits: &[(&str, Edit)] = &[
        ("no '.' and no '..'", |d, _, b| dir::clear_chunk(d.dir_format(), b)),
        ("'.' is called x", |_, _, b| b[8] = b'x'),
        ("'..' is called xx", |_, _, b| b[20..22].copy_from_slice(b"xx")),
        ("'.' names the root", |d, _, b| dir::set_ino(d.dir_format(), b, 0, 2)),
        ("'.' names nothing", |d, _, b| dir::set_ino(d.dir_format(), b, 0, 0)),
        ("'..' names itself", |d, ino, b| dir::set_ino(d.dir_format(), b, 12, ino)),
        ("'..' names a file", |d, _, b| dir::set_ino(d.dir_format(), b, 12, d.ino("/one"))),
        ("'..' names nothing", |d, _, b| dir::set_ino(d.dir_format(), b, 12, 0)),
        ("'..' names a free inode", |d, _, b| {
            dir::set_ino(d.dir_format(), b, 12, d.g.ipg * 3 + d.g.ipg - 1);
        }),
        ("no space for '..'", |d, ino, b| {
            let rec = Record { off: 0, ino, reclen: 512, dtype: 4, name: b"." };
            b.fill(0);
            dir::write(d.dir_format(), b, &rec);
        }),
    ];
    for kind in KINDS {
        for (what, edit) in edits {
            let disk = Disk::new(kind);
            let ino = disk.ino("/empty");
            let at = disk.dir_at(ino);
            let mut b = disk.read(at, 512);
            edit(&disk, ino, &mut b);
            disk.write(at, &b);
            let fs = disk.mount().unwrap();
            let (cred, root) = (Cred::root(), root_of(&fs));
            let empty = fs.lookup(&cred, &root, b"empty").unwrap();
            // Moving the directory needs the path to the root, removing it a valid body: no panic,
            // no loop.
            let a = fs.lookup(&cred, &root, b"a").unwrap();
            for r in [
                fs.rename(&cred, (&root, b"empty"), (&a, b"moved"), RenameMode::NoReplace),
                fs.rename(&cred, (&root, b"a"), (&empty, b"a"), RenameMode::NoReplace),
                fs.rmdir(&cred, &root, b"empty"),
                fs.lookup(&cred, &empty, b"..").map(drop),
            ] {
                if let Err(e) = r {
                    assert!([EIO, 2, 20, 22, 39].contains(&e.errno()), "{kind:?} {what}: {e}");
                }
            }
            drop((root, empty, a));
            fs.unmount().unwrap();
            let mut moved = disk.copy();
            // The subtree may have been moved; all files still exist.
            let names: Vec<_> = disk.tree.values().filter(|i| !i.is_directory()).cloned().collect();
            moved.tree = Default::default();
            ordeal(&moved, what, &[]);
            let w = walk(&moved.mount_read_only().unwrap());
            for item in names {
                assert!(w.items.values().any(|i| *i == item), "{kind:?} {what}: {item:?} is lost");
            }
        }
    }
}

/// A hole in a directory: NetBSD's fsck reported the volume clean, and its kernel panicked.
#[test]
fn kf2_10_a_directory_with_a_hole() {
    for kind in KINDS {
        for (size, index) in [(None, 0), (Some(3 * 8192), 1)] {
            let disk = Disk::new(kind);
            let ino = disk.ino("/many");
            match size {
                None => disk.set_inode(ino, "db", index, 0),
                Some(size) => disk.edit_inode(ino, |d| d.size = size),
            }
            let out = ordeal(&disk, "hole", &["/many"]);
            let place = format!("directory {ino}");
            let word = if index == 0 { "hole" } else { "record" };
            one_names("hole", &out.walk, "/many", &[&place, word]);
            assert!(!out.clean);
            let found = [Id::DirHole, Id::DirCorrupt, Id::InoEndHole, Id::BlkBad];
            assert!(out.findings.iter().any(|id| found.contains(id)), "{:?}", out.findings);
        }
    }
}

/// Invalid sizes of directories, and link counts below 2, which caused panics on `rm -rf`.
#[test]
fn kf2_10_sizes_and_link_counts_of_directories() {
    for kind in KINDS {
        for (field, value, word) in [
            ("size", 0, "'..'"),
            ("size", 100, "size"),
            ("size", 513, "size"),
            ("size", 1 << 40, "size"),
            ("size", -512, "size"),
            ("nlink", 0, ""),
            ("nlink", 1, "link count"),
            ("nlink", 65_535, ""),
        ] {
            let disk = Disk::new(kind);
            let ino = disk.ino("/empty");
            disk.set_inode(ino, field, 0, value);
            let what = format!("{field} = {value}");
            let fs = disk.mount().unwrap();
            let r = fs.rmdir(&Cred::root(), &root_of(&fs), b"empty");
            if !word.is_empty() {
                let e = r.unwrap_err();
                names(&what, e.errno(), &e.to_string(), &[&ino.to_string(), word]);
            }
            fs.unmount().unwrap();
            ordeal(&disk, &what, &["/empty"]);
        }
    }
}

/// Duplicate entries, two names of one directory, directories that contain each other.
#[test]
fn kf2_10_cycles_and_hard_links_to_directories() {
    for kind in KINDS {
        // `/a/b/c` is `/a`: a cycle below the root.
        let disk = Disk::new(kind);
        let (a, b, c) = (disk.ino("/a"), disk.ino("/a/b"), disk.ino("/a/b/c"));
        disk.set_record(disk.record_at(b, b"c"), "ino", a.into());
        let fs = disk.mount().unwrap();
        let cred = Cred::root();
        let mut at = root_of(&fs);
        for name in [&b"a"[..], b"b", b"c", b"b", b"c", b"b"] {
            at = fs.lookup(&cred, &at, name).unwrap();
        }
        let root = root_of(&fs);
        let r = fs.rename(&cred, (&root, b"empty"), (&at, b"empty"), RenameMode::NoReplace);
        assert!(r.as_ref().map_or_else(|e| [EIO, 22].contains(&e.errno()), |()| true), "{r:?}");
        drop((at, root));
        fs.unmount().unwrap();
        let out = ordeal(&disk, "a/b/c is a", &["/a", "/empty"]);
        assert!(out.findings.contains(&Id::EntHardDir), "{:?}", out.findings);

        // `/a` and `/a/b` contain each other and are in no other directory.
        let disk = Disk::new(kind);
        disk.set_record(disk.record_at(2, b"a"), "ino", 0);
        disk.set_record(disk.record_at(b, b"c"), "ino", a.into());
        disk.set_record(disk.dir_at(a) + 12, "ino", b.into());
        let fs = disk.mount().unwrap();
        let loose = fs.vget(ffs_core::Ino(c), None).unwrap();
        let root = root_of(&fs);
        // `c` has no path to the root: the walk up must still end.
        let r = fs.rename(&cred, (&root, b"empty"), (&loose, b"empty"), RenameMode::NoReplace);
        let e = r.unwrap_err();
        names("loop", e.errno(), &e.to_string(), &["directory", "'..'", "loop"]);
        drop((loose, root));
        fs.unmount().unwrap();
        assert!(!disk.is_clean());
        ordeal(&disk, "a and b contain each other", &["/a"]);

        // Two names for one directory, and one name twice.
        let disk = Disk::new(kind);
        disk.set_record(disk.record_at(2, b"empty"), "ino", disk.ino("/many").into());
        ordeal(&disk, "two names", &["/many", "/empty"]);
        let disk = Disk::new(kind);
        disk.write(disk.record_at(disk.ino("/many"), b"file number 7") + 8, b"file number 8");
        let fs = disk.mount().unwrap();
        assert_eq!(walk(&fs).items.len(), disk.tree.len() - 1);
        drop(fs);
        let before = list(&disk.fsck(FsckOptions::no()).findings);
        assert!(before.contains("DUPNAME"), "{before}");
    }
}

/// Ten thousand nested directories: no recursion overflows the stack.
#[test]
fn kf2_10_ten_thousand_levels() {
    let deep: u32 = 10_000;
    let mem = crate::disk::fresh(KINDS[2], 48 << 20, |o| {
        (o.density, o.max_group) = (Some(2048), None);
    });
    let disk = Disk::of(mem);
    let fs = disk.mount_with(&ffs_core::MountOptions {
        ordering: ffs_core::OrderingPolicy::None,
        ..crate::disk::options()
    });
    let (fs, cred) = (fs.unwrap(), Cred::root());
    let mut at = root_of(&fs);
    for _ in 0..deep {
        at = fs.mkdir(&cred, &at, b"d", 0o755).unwrap();
    }
    let side = fs.mkdir(&cred, &root_of(&fs), b"side", 0o755).unwrap();
    // The loop check walks up all levels.
    fs.rename(&cred, (&root_of(&fs), b"side"), (&at, b"side"), RenameMode::NoReplace).unwrap();
    let r = fs.rename(&cred, (&root_of(&fs), b"d"), (&at, b"d"), RenameMode::NoReplace);
    assert_eq!(r.unwrap_err().errno(), 22);
    drop((at, side));
    fs.unmount().unwrap();
    disk.silent("deep");
    // The innermost directory loses its name: the whole chain must be reconnected.
    disk.set_record(disk.record_at(2, b"d"), "ino", 0);
    let report = disk.fsck(FsckOptions::yes());
    assert_eq!(report.exit_code, exit::OK, "{}", list(&report.findings));
    disk.silent("deep, reconnected");
    assert!(u64::from(deep) <= disk.fsck(FsckOptions::no()).totals.directories);
}

/// A root that is no directory: the mount is refused with the reason, and fsck repairs it.
#[test]
fn kf2_11_a_root_that_is_no_directory() {
    for kind in KINDS {
        for (field, value, word) in [
            ("mode", 0o100_644, "mode"),
            ("mode", 0o120_777, "mode"),
            ("mode", 0o010_644, "size"),
            ("mode", 0o070_755, "mode"),
            ("mode", 0, "mode"),
            ("size", 1 << 50, "size"),
            ("size", 77, "size"),
        ] {
            let disk = Disk::new(kind);
            disk.set_inode(2, field, 0, value);
            let what = format!("root: {field} = {value:#o}");
            for opts in [
                crate::disk::options(),
                ffs_core::MountOptions { read_only: true, ..crate::disk::options() },
            ] {
                let before = disk.bytes();
                let e = match disk.mount_with(&opts) {
                    Err(e) => e,
                    Ok(_) => panic!("{kind:?} {what}: mounted"),
                };
                names(&what, e.errno(), &e.to_string(), &["inode 2", word]);
                assert!(before == disk.bytes(), "{kind:?} {what}: written");
            }
            ordeal(&disk, &what, &["/", ""]);
            let fs = disk.mount().unwrap();
            assert_eq!(fs.getattr(&root_of(&fs)).kind, FileType::Directory);
        }
    }
}

/// The root's own entries and block.
#[test]
fn kf2_11_a_root_with_damaged_content() {
    for kind in KINDS {
        for (field, n, value) in
            [("db", 0, 0), ("db", 0, -1), ("size", 0, 0), ("nlink", 0, 0), ("nlink", 0, 1)]
        {
            let disk = Disk::new(kind);
            disk.set_inode(2, field, n, value);
            ordeal(&disk, &format!("root: {field} = {value}"), &["/", ""]);
        }
        let disk = Disk::new(kind);
        let at = disk.dir_at(2);
        disk.write(at, &[0; 512]);
        ordeal(&disk, "root: zeroed", &["/", ""]);
        // The inode number of the root is out of range in its own entries.
        let disk = Disk::new(kind);
        disk.set_record(at, "ino", 99_999_999);
        ordeal(&disk, "root: '.'", &[]);
        disk.set_record(at + 12, "ino", 99_999_999);
        ordeal(&disk, "root: '..'", &[]);
    }
}
