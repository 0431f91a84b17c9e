//! Full volumes: without blocks or without inodes. Nothing is lost, and all space is freed again.

use crate::disk::{Disk, KINDS, Kind, fresh, mount, options, try_fresh};
use crate::ordeal::compare;
use crate::walk::walk;
use ffs_core::{Cred, Error, Fallocate, Ffs, MountOptions, NodeKind, OrderingPolicy, SetAttr};
use ffs_core::{RenameMode, StatFs, Vnode, WriteMode, XattrNamespace, XattrSet};

const ENOSPC: i32 = 28;

/// How a volume is filled.
#[derive(Clone, Copy, Debug)]
enum Fill {
    /// With one file.
    One,
    /// With many files smaller than a block.
    Small,
    /// With nested directories.
    Directories,
    /// With long symbolic links.
    Links,
}

fn user() -> Cred {
    Cred::user(1000, 1000)
}

fn must_be_full(r: Result<(), Error>) -> bool {
    match r {
        Ok(()) => false,
        Err(e) => {
            assert_eq!(e.errno(), ENOSPC, "{e}");
            true
        }
    }
}

/// Fills `dir` until there is no space. Returns the number of names.
fn fill(fs: &Ffs, cred: &Cred, dir: &Vnode, how: Fill) -> u32 {
    let data = vec![0xd7; 1 << 16];
    let (mut at, mut made) = (dir.clone(), 0u32);
    loop {
        let name = format!("n{made}").into_bytes();
        let full = match how {
            Fill::One => {
                let f = fs.create(cred, dir, &name, NodeKind::Regular, 0o644).unwrap();
                made += 1;
                while let Ok(n) =
                    fs.write(cred, &f, fs.getattr(&f).size, &data, WriteMode::default())
                {
                    assert!(n > 0);
                }
                let size = fs.getattr(&f).size;
                must_be_full(fs.write(cred, &f, size, &data, WriteMode::default()).map(drop))
            }
            Fill::Small => {
                must_be_full(fs.create(cred, &at, &name, NodeKind::Regular, 0o644).and_then(|f| {
                    let len = 700 + (made as usize * 997) % 7000;
                    let n = fs.write(cred, &f, 0, &data[..len], WriteMode::default())?;
                    if n < len { Err(Error::NoSpace) } else { Ok(()) }
                }))
            }
            Fill::Directories => must_be_full(fs.mkdir(cred, &at, &name, 0o755).map(|d| {
                if made % 5 == 0 {
                    at = d;
                }
            })),
            Fill::Links => must_be_full(fs.symlink(cred, &at, &name, &[b'l'; 900]).map(drop)),
        };
        if full {
            return made;
        }
        made += 1;
        assert!(made < 100_000, "{how:?} does not end");
    }
}

/// Removes everything below `dir`.
fn remove_all(fs: &Ffs, dir: &Vnode) {
    let cred = Cred::root();
    let mut names = Vec::new();
    fs.readdir(dir, 0, &mut |e| {
        if e.name != b"." && e.name != b".." {
            names.push(e.name.to_vec());
        }
        true
    })
    .unwrap();
    for name in names {
        let child = fs.lookup(&cred, dir, &name).unwrap();
        if fs.getattr(&child).kind == ffs_core::FileType::Directory {
            remove_all(fs, &child);
            drop(child);
            fs.rmdir(&cred, dir, &name).unwrap();
        } else {
            drop(child);
            fs.unlink(&cred, dir, &name).unwrap();
        }
    }
}

fn counts(s: StatFs) -> (u64, u64, i64) {
    (s.frags_free, s.inodes_free, s.totals.ndir)
}

fn full_volume(kind: Kind, ordering: OrderingPolicy, how: Fill) {
    let what = format!("{kind:?} {ordering:?} {how:?}");
    let disk = Disk::new(kind);
    let opts = MountOptions { ordering, ..options() };
    let fs = disk.mount_with(&opts).unwrap();
    let (root, cred) = (fs.root().unwrap(), Cred::root());
    let before = counts(fs.statfs());
    let dir = fs.mkdir(&cred, &root, b"full", 0o777).unwrap();
    let more = fs.mkdir(&cred, &root, b"fuller", 0o777).unwrap();
    // The user stops at the reserve, root at the end of the space.
    fill(&fs, &user(), &dir, how);
    let s = fs.statfs();
    assert!(s.frags_free > 0 || s.inodes_free == 0, "{what}: a user went into the reserve: {s:?}");
    fill(&fs, &cred, &more, how);
    let s = fs.statfs();
    assert!(s.frags_avail <= 0 || s.inodes_free == 0, "{what}: {s:?}");
    // Every operation that needs space fails with the right error, and all others work.
    let one = fs.lookup(&cred, &root, b"one").unwrap();
    if s.frags_avail <= 0 {
        refuse(&fs, &one, &what);
    }
    fs.rename(&cred, (&root, b"one"), (&root, b"uno"), RenameMode::Replace).unwrap();
    fs.rename(&cred, (&root, b"uno"), (&root, b"one"), RenameMode::Replace).unwrap();
    fs.sync().unwrap();
    compare(&disk, &walk(&fs), &what, &[]);
    drop((one, dir, more, root));
    fs.unmount().unwrap();
    disk.silent(&format!("{what}: full"));
    let fs = disk.mount_with(&opts).unwrap();
    let root = fs.root().unwrap();
    for name in [&b"full"[..], b"fuller"] {
        let dir = fs.lookup(&cred, &root, name).unwrap();
        remove_all(&fs, &dir);
        drop(dir);
        fs.rmdir(&cred, &root, name).unwrap();
    }
    assert_eq!(counts(fs.statfs()), before, "{what}: not everything came back");
    drop(root);
    compare(&disk, &walk(&fs), &what, &[]);
    fs.unmount().unwrap();
    disk.silent(&format!("{what}: emptied"));
}

/// Operations that need blocks fail for a user, and change nothing.
fn refuse(fs: &Ffs, one: &Vnode, what: &str) {
    let cred = user();
    let before = (counts(fs.statfs()), fs.getattr(one));
    let set = SetAttr { size: Some(5 << 20), uid: None, ..SetAttr::default() };
    let big = vec![1; 100_000];
    let mut tries = vec![
        ("write", fs.write(&cred, one, 8192, &big, WriteMode::default()).map(drop)),
        ("truncate", fs.setattr(&Cred::user(1000, 0), one, &set).map(drop)),
        ("fallocate", fs.fallocate(&cred, one, 0, 1 << 20, Fallocate::Allocate)),
    ];
    if fs.geometry().format == ffs_ondisk::Format::Ufs2 {
        let ns = XattrNamespace::User;
        let root_owned = Cred { checks: ffs_core::Checks::Done, ..user() };
        let r = fs.setxattr(&root_owned, one, ns, b"a", &[7; 9000], XattrSet::Any);
        tries.push(("setxattr", r));
    }
    for (op, r) in tries {
        let code = r.as_ref().map_or_else(Error::errno, |()| 0);
        assert!([ENOSPC, 1, 13].contains(&code), "{what}: {op}: {r:?}");
    }
    assert_eq!((counts(fs.statfs()), fs.getattr(one)), before, "{what}: a failure left traces");
}

#[test]
fn bad_full_disk() {
    for kind in KINDS {
        for how in [Fill::One, Fill::Small, Fill::Directories, Fill::Links] {
            full_volume(kind, OrderingPolicy::None, how);
        }
        full_volume(kind, OrderingPolicy::Sync, Fill::Small);
    }
}

/// Blocks are free, but no inode.
#[test]
fn bad_no_inodes() {
    for kind in KINDS {
        let mem = fresh(kind, 8 << 20, |o| o.density = Some(65536));
        let disk = Disk::of(mem);
        let fs = disk.mount().unwrap();
        let (cred, root) = (Cred::root(), fs.root().unwrap());
        let before = counts(fs.statfs());
        let dir = fs.mkdir(&cred, &root, b"d", 0o755).unwrap();
        let mut made = 0u32;
        let e = loop {
            let name = format!("n{made}").into_bytes();
            match fs.create(&cred, &dir, &name, NodeKind::Regular, 0o644) {
                Ok(_) => made += 1,
                Err(e) => break e,
            }
        };
        assert!(matches!(e, Error::NoInodes) && e.errno() == ENOSPC, "{kind:?}: {e}");
        assert!(e.to_string().contains("inodes"), "{e}");
        let s = fs.statfs();
        assert!(s.inodes_free == 0 && s.frags_avail > 0, "{kind:?}: {s:?}");
        let code = |r: Result<Vnode, Error>| r.map_or_else(|e| e.errno(), |_| 0);
        assert_eq!(code(fs.mkdir(&cred, &dir, b"x", 0o755)), ENOSPC);
        assert_eq!(code(fs.symlink(&cred, &dir, b"x", b"y")), ENOSPC);
        assert_eq!(code(fs.create(&cred, &dir, b"x", NodeKind::Fifo, 0o600)), ENOSPC);
        // Operations that need no inode work; a freed inode can be used.
        let n0 = fs.lookup(&cred, &dir, b"n0").unwrap();
        fs.link(&cred, &n0, &dir, b"another").unwrap();
        fs.write(&cred, &n0, 0, &[1; 5000], WriteMode::default()).unwrap();
        drop(n0);
        fs.unlink(&cred, &dir, b"n1").unwrap();
        drop(fs.mkdir(&cred, &dir, b"n1", 0o755).unwrap());
        drop(root);
        drop(dir);
        fs.unmount().unwrap();
        disk.silent("no inodes");
        let fs = disk.mount().unwrap();
        let root = fs.root().unwrap();
        let dir = fs.lookup(&cred, &root, b"d").unwrap();
        remove_all(&fs, &dir);
        drop(dir);
        fs.rmdir(&cred, &root, b"d").unwrap();
        assert_eq!(counts(fs.statfs()), before, "{kind:?}");
        drop(root);
        fs.unmount().unwrap();
        disk.silent("inodes again");
    }
}

/// The smallest possible volumes.
#[test]
fn bad_tiny_volumes() {
    for kind in KINDS {
        for kb in [96, 128, 160, 256, 512] {
            // newfs rejects sizes that are too small.
            let Ok(mem) = try_fresh(kind, kb << 10, |o| o.max_group = None) else { continue };
            let fs = mount(std::sync::Arc::new(mem.snapshot()), &options()).unwrap();
            let root = fs.root().unwrap();
            fill(&fs, &user(), &fs.mkdir(&Cred::root(), &root, b"u", 0o777).unwrap(), Fill::Small);
            drop(root);
            fs.unmount().unwrap();
            let disk = Disk::of(mem);
            let fs = disk.mount().unwrap();
            let root = fs.root().unwrap();
            fill(&fs, &Cred::root(), &root, Fill::Small);
            drop(root);
            fs.unmount().unwrap();
            disk.silent(&format!("{kind:?} {kb} KiB, full"));
        }
    }
}
