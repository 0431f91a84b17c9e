//! Directories that violate the rules of the format in every way of
//! `spec/directories-and-caches.md` §1.3 and `spec/known-failures.md` §2.10: the result is an error
//! or right, never a panic, a hang, or the loss of undamaged entries.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::{World, errno, mount_on, world};
use ffs_core::{Access, Cred, MountOptions, NodeKind, OrderingPolicy, RenameMode, SetAttr, Vnode};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::dinode::Dinode;
use ffs_ondisk::dir::{self, DirFormat, Record};
use ffs_ondisk::{FragNo, Geometry, Ino};
use ffs_testkit::rng::SplitMix64;

const EIO: i32 = 5;
const EMLINK: i32 = 31;

/// An unmounted volume, and the location of its structures.
struct Image {
    mem: MemDevice,
    g: Geometry,
    d: Ino,
    sub: Ino,
}

/// `/d` holds `.`, `..`, files `one` and `two`, a directory `sub`, and in later chunks `far0` ...
fn image() -> Image {
    let w = world(OrderingPolicy::None);
    let d = w.dir(&w.root, "d");
    for n in ["one", "two"] {
        drop(w.file(&d, n));
    }
    let sub = w.dir(&d, "sub");
    drop(w.file(&sub, "inside"));
    for i in 0..60 {
        drop(w.file(&d, &format!("far{i}")));
    }
    let (d_ino, sub_ino, g) = (d.ino(), sub.ino(), *w.fs.geometry());
    let World { fs, root, dev, .. } = w;
    drop((d, sub, root));
    fs.unmount().unwrap();
    Image { mem: dev.inner().snapshot(), g, d: d_ino, sub: sub_ino }
}

impl Image {
    fn inode(&self, ino: Ino, change: impl FnOnce(&mut Dinode)) {
        let g = &self.g;
        let at = g.frag_to_byte(g.ino_to_fsba(ino)) + g.ino_to_fsbo(ino) as u64;
        let mut bytes = vec![0; g.format.dinode_size()];
        self.mem.read_at(at, &mut bytes).unwrap();
        let mut d = Dinode::decode(g, &bytes);
        change(&mut d);
        d.encode(g, &mut bytes);
        self.mem.write_at(at, &bytes).unwrap();
    }

    /// Changes the first block of a directory.
    fn block(&self, ino: Ino, change: impl FnOnce(&mut [u8])) {
        let mut at = 0;
        self.inode(ino, |d| at = d.db[0]);
        let at = self.g.frag_to_byte(FragNo(at as u64));
        let mut bytes = vec![0; 2048];
        self.mem.read_at(at, &mut bytes).unwrap();
        change(&mut bytes);
        self.mem.write_at(at, &bytes).unwrap();
    }

    fn fmt(&self) -> DirFormat {
        DirFormat::of(&self.g)
    }

    /// The offset of the record of `name` in the first chunk of a directory.
    fn offset_of(&self, ino: Ino, name: &str) -> usize {
        let mut at = None;
        self.block(ino, |b| {
            at = dir::records(self.fmt(), b)
                .find_map(|r| r.ok().filter(|r| r.name == name.as_bytes()).map(|r| r.off));
        });
        at.unwrap()
    }

    fn mount(&self) -> World {
        let opts = MountOptions { ordering: OrderingPolicy::None, ..MountOptions::default() };
        mount_on(self.mem.snapshot(), &opts)
    }
}

/// Runs every operation on a directory. Returns the errno of a listing.
fn exercise(w: &World, d: &Vnode) -> i32 {
    let cred = Cred::root();
    let fs = &w.fs;
    for n in ["one", "two", "sub", "far7", "none", ".", "..", "inside"] {
        let n = n.as_bytes();
        if let Ok(v) = fs.lookup(&cred, d, n) {
            assert_eq!(fs.getattr(&v).ino, v.ino());
            drop(fs.access(&cred, &v, Access::READ));
            drop(fs.lookup(&cred, &v, b".."));
            drop(fs.readdir(&v, 0, &mut |_| true));
        }
    }
    let listed = errno(fs.readdir(d, 0, &mut |e| {
        assert!(!e.name.is_empty() && !e.name.contains(&0) && !e.name.contains(&b'/'));
        true
    }));
    let replace = RenameMode::Replace;
    drop(fs.rename(&cred, (d, b"sub"), (&w.root, b"sub2"), replace));
    drop(fs.rename(&cred, (&w.root, b"sub2"), (d, b"sub"), replace));
    drop(fs.rename(&cred, (&w.root, b"d"), (d, b"loop"), replace));
    drop(fs.rename(&cred, (d, b"one"), (d, b"two"), RenameMode::Exchange));
    drop(fs.rename(&cred, (d, b"one"), (d, b"three"), replace));
    for i in 0..30 {
        let name = vec![b'n'; 1 + i * 8];
        drop(fs.create(&cred, d, &name, NodeKind::Regular, 0o644));
    }
    drop(fs.mkdir(&cred, d, b"dir", 0o755));
    drop(fs.rmdir(&cred, d, b"sub"));
    if let Ok(sub) = fs.lookup(&cred, d, b"sub") {
        drop(fs.unlink(&cred, &sub, b"inside"));
    }
    drop(fs.rmdir(&cred, d, b"sub"));
    for n in ["one", "two", "three", "far3", "far50"] {
        drop(fs.unlink(&cred, d, n.as_bytes()));
    }
    drop(fs.rmdir(&cred, &w.root, b"d"));
    drop(fs.setattr(&cred, d, &SetAttr { perm: Some(0o700), ..SetAttr::default() }));
    listed
}

/// Mounts the damaged image; `/d` must open. Returns the listing's errno.
fn survive(image: &Image) -> i32 {
    let w = image.mount();
    let d = w.get(&w.root, "d").unwrap();
    let listed = exercise(&w, &d);
    drop(d);
    let World { fs, root, .. } = w;
    drop(root);
    fs.unmount().unwrap();
    listed
}

/// The record of `two`, damaged by `damage`: names in other chunks are still found, no name is
/// reported as absent, and none can be entered.
fn malformed(what: &str, damage: impl FnOnce(&mut [u8], usize)) {
    let image = image();
    let at = image.offset_of(image.d, "two");
    image.block(image.d, |b| damage(b, at));
    let w = image.mount();
    let d = w.get(&w.root, "d").unwrap();
    let cred = Cred::root();
    assert_eq!(errno(w.get(&d, "far59")), 0, "{what}");
    assert_eq!(errno(w.get(&d, "one")), 0, "{what}: before it in its chunk");
    assert_eq!(errno(w.get(&d, "none")), EIO, "{what}");
    assert_eq!(errno(w.fs.create(&cred, &d, b"new", NodeKind::Fifo, 0)), EIO, "{what}");
    assert_eq!(errno(w.fs.rmdir(&cred, &w.root, b"d")), 39, "{what}");
    let mut names = 0;
    let listed = w.fs.readdir(&d, 0, &mut |_| {
        names += 1;
        true
    });
    assert_eq!((errno(listed), names > 30), (EIO, true), "{what}: {names} names");
    drop((d, w));
    assert_eq!(survive(&image), EIO, "{what}");
}

#[test]
fn malformed_records() {
    let len =
        |v: u16| move |b: &mut [u8], at: usize| b[at + 4..at + 6].copy_from_slice(&v.to_le_bytes());
    malformed("record length 0", len(0));
    malformed("record length below the header", len(4));
    malformed("record length not a multiple of 4", len(14));
    malformed("record length past the chunk", len(512));
    malformed("record length 65535", len(0xffff));
    malformed("record shorter than its name", len(8));
    malformed("name length 0", |b, at| b[at + 7] = 0);
    malformed("name longer than the record", |b, at| b[at + 7] = 255);
    malformed("type 16", |b, at| b[at + 6] = 16);
}

/// Damage to the name only is detected where names are read: in a listing.
#[test]
fn malformed_names() {
    for (what, offset, byte) in [("NUL", 1, 0), ("slash", 1, b'/'), ("no NUL behind", 3, b'x')] {
        let image = image();
        let at = image.offset_of(image.d, "two");
        image.block(image.d, |b| b[at + 8 + offset] = byte);
        assert_eq!(survive(&image), EIO, "{what}");
    }
}

#[test]
fn numbers_that_name_nothing_good() {
    let image0 = image();
    let (d, sub) = (image0.d, image0.sub);
    let out_of_range = image0.g.inodes();
    for (ino, listed) in [
        (out_of_range, EIO),
        (u32::MAX, EIO),
        (1, EIO),
        (out_of_range - 1, 0), // free
        (2, 0),                // the root
        (d.0, 0),              // the directory itself
        (sub.0, 0),            // a second name of a directory
    ] {
        for name in ["two", "sub", ".", ".."] {
            let image = image();
            let at = image.offset_of(d, name);
            let fmt = image.fmt();
            image.block(d, |b| dir::set_ino(fmt, b, at, ino));
            // Number 1 is a whiteout: the name is absent, which violates no rule of the record.
            let want = if ino == 1 { 0 } else { listed };
            assert_eq!(survive(&image), want, "inode {ino} as {name}");
        }
    }
}

#[test]
fn a_free_inode_named() {
    let image = image();
    let at = image.offset_of(image.d, "two");
    let (fmt, free) = (image.fmt(), image.g.inodes() - 1);
    image.block(image.d, |b| dir::set_ino(fmt, b, at, free));
    let w = image.mount();
    let d = w.get(&w.root, "d").unwrap();
    assert_eq!(errno(w.get(&d, "two")), EIO);
    assert_eq!(errno(w.fs.unlink(&Cred::root(), &d, b"two")), EIO);
}

/// `sub` names its parent `d` as a child: the entries form a circle, `..` does not.
#[test]
fn names_in_a_circle() {
    let image = image();
    let (d, sub) = (image.d, image.sub);
    let at = image.offset_of(sub, "inside");
    let fmt = image.fmt();
    image.block(sub, |b| dir::set_ino(fmt, b, at, d.0));
    survive(&image);
    let w = image.mount();
    let (d, cred) = (w.get(&w.root, "d").unwrap(), Cred::root());
    let sub = w.get(&d, "sub").unwrap();
    // Two threads lock the circle from both ends.
    std::thread::scope(|s| {
        for (dir, n) in [(&d, &b"sub"[..]), (&sub, b"inside"), (&d, b"sub"), (&sub, b"inside")] {
            let (fs, cred, root) = (&w.fs, &cred, &w.root);
            s.spawn(move || {
                for _ in 0..300 {
                    drop(fs.rmdir(cred, dir, n));
                    drop(fs.unlink(cred, dir, n));
                    drop(fs.rename(cred, (dir, n), (root, b"x"), RenameMode::NoReplace));
                    drop(fs.rename(cred, (root, b"x"), (dir, n), RenameMode::NoReplace));
                }
            });
        }
    });
}

/// `..` of two directories name each other: the walk to the root must end.
#[test]
fn dotdot_in_a_circle() {
    let image = image();
    let (d, sub) = (image.d, image.sub);
    let at = image.offset_of(d, "..");
    let fmt = image.fmt();
    image.block(d, |b| dir::set_ino(fmt, b, at, sub.0));
    let w = image.mount();
    let cred = Cred::root();
    let d = w.get(&w.root, "d").unwrap();
    let other = w.dir(&w.root, "other");
    let moved = w.fs.rename(&cred, (&w.root, b"other"), (&d, b"o"), RenameMode::Replace);
    assert_eq!(errno(moved), EIO);
    drop((d, other, w));
    survive(&image);
}

#[test]
fn without_dots() {
    let image = image();
    let (fmt, sub) = (image.fmt(), image.sub);
    image.block(sub, |b| dir::clear_chunk(fmt, &mut b[..512]));
    let w = image.mount();
    let d = w.get(&w.root, "d").unwrap();
    let s = w.get(&d, "sub").unwrap();
    assert_eq!(errno(w.get(&s, "..")), EIO);
    assert_eq!(errno(w.fs.rmdir(&Cred::root(), &d, b"sub")), EIO, "it may have been damaged");
    drop((d, s, w));
    survive(&image);
}

#[test]
fn sizes_and_holes() {
    for size in [0, 512, 1024, 2048 + 512, 1 << 20, 0x7fff_fe00] {
        let image = image();
        image.inode(image.d, |d| d.size = size);
        survive(&image);
        image.inode(image.sub, |d| d.size = size);
        survive(&image);
    }
    let image = image();
    image.inode(image.d, |d| d.db[0] = 0);
    assert_eq!(survive(&image), EIO);
    let w = image.mount();
    let d = w.get(&w.root, "d").unwrap();
    assert_eq!(errno(w.get(&d, "one")), EIO);
    assert_eq!(errno(w.fs.create(&Cred::root(), &d, b"n", NodeKind::Fifo, 0)), EIO);
}

#[test]
fn link_counts_that_lie() {
    for nlink in [1, 3, 32767, 65535] {
        let image = image();
        image.inode(image.d, |d| d.nlink = nlink);
        survive(&image);
        image.inode(image.sub, |d| d.nlink = nlink);
        survive(&image);
    }
    // A directory whose link count is at its limit gets no more subdirectories.
    let full = image();
    full.inode(full.d, |d| d.nlink = 32767);
    let w = full.mount();
    let (d, cred) = (w.get(&w.root, "d").unwrap(), Cred::root());
    assert_eq!(errno(w.fs.mkdir(&cred, &d, b"more", 0o755)), EMLINK);
    w.dir(&w.root, "more");
    let moved = w.fs.rename(&cred, (&w.root, b"more"), (&d, b"more"), RenameMode::Replace);
    assert_eq!(errno(moved), EMLINK);
    let over = w.fs.rename(&cred, (&w.root, b"more"), (&d, b"sub"), RenameMode::Replace);
    assert_eq!(errno(over), 39, "it would only take the other's place");
    drop((d, w));
    // A count of 0 must not make a reader free a file with a name.
    let image0 = image();
    image0.inode(image0.sub, |d| d.nlink = 0);
    let w = image0.mount();
    let d = w.get(&w.root, "d").unwrap();
    assert_eq!(errno(w.get(&d, "sub")), EIO);
    drop((d, w));
    image0.inode(image0.sub, |d| assert_eq!((d.nlink, d.size), (0, 512)));
    let image = image();
    image.inode(image.sub, |d| d.nlink = 1);
    let w = image.mount();
    let d = w.get(&w.root, "d").unwrap();
    let sub = w.get(&d, "sub").unwrap();
    w.fs.unlink(&Cred::root(), &sub, b"inside").unwrap();
    assert_eq!(errno(w.fs.rmdir(&Cred::root(), &d, b"sub")), EIO);
}

/// Records that fsck and old kernels leave: valid, although not compact.
#[test]
fn free_records_in_the_middle_are_free_space() {
    let image = image();
    let at = image.offset_of(image.d, "two");
    let fmt = image.fmt();
    image.block(image.d, |b| dir::set_ino(fmt, b, at, 0));
    let w = image.mount();
    let (d, cred) = (w.get(&w.root, "d").unwrap(), Cred::root());
    assert_eq!(errno(w.get(&d, "two")), 2);
    let size = w.fs.getattr(&d).size;
    drop(w.file(&d, "new"));
    assert_eq!(w.fs.getattr(&d).size, size);
    assert_eq!(w.names(&d).iter().position(|n| n == "new"), Some(1), "in the free record");
    w.fs.unlink(&cred, &d, b"one").unwrap();
    drop(w.file(&d, "neu"));
    assert_eq!(w.names(&d).len(), 63);
}

#[test]
fn whiteouts_are_absent_names() {
    let image = image();
    let at = image.offset_of(image.d, "two");
    let fmt = image.fmt();
    image.block(image.d, |b| {
        let (reclen, name) = (dir::read(fmt, b, at).unwrap().reclen, b"two");
        let r = Record { off: at, ino: 1, reclen, dtype: dir::DT_WHT, name };
        dir::write(fmt, b, &r);
    });
    let w = image.mount();
    let d = w.get(&w.root, "d").unwrap();
    assert_eq!(errno(w.get(&d, "two")), 2);
    assert!(!w.names(&d).contains(&"two".into()));
    let new = w.file(&d, "two");
    assert_eq!(w.get(&d, "two").unwrap().ino(), new.ino());
    assert_eq!(w.names(&d).iter().filter(|n| *n == "two").count(), 1);
}

#[test]
fn two_entries_of_one_name() {
    let image = image();
    let at = image.offset_of(image.d, "two");
    image.block(image.d, |b| b[at + 8..at + 11].copy_from_slice(b"one"));
    assert_eq!(survive(&image), 0);
    let w = image.mount();
    let d = w.get(&w.root, "d").unwrap();
    w.fs.unlink(&Cred::root(), &d, b"one").unwrap();
    w.fs.unlink(&Cred::root(), &d, b"one").unwrap();
    assert_eq!(errno(w.get(&d, "one")), 2);
}

/// Every byte of a directory outside the headers and names of records is zero.
#[test]
fn unused_bytes_are_zero() {
    let w = world(OrderingPolicy::None);
    let d = w.dir(&w.root, "d");
    let (mut rng, cred) = (SplitMix64::new(5), Cred::root());
    for i in 0..400 {
        let name = format!("{}{}", "s".repeat(rng.below(60) as usize), rng.below(40));
        if i % 3 == 2 {
            drop(w.fs.unlink(&cred, &d, name.as_bytes()));
        } else {
            drop(w.fs.create(&cred, &d, name.as_bytes(), NodeKind::Fifo, 0));
        }
    }
    let (ino, size, g) = (d.ino(), w.fs.getattr(&d).size as usize, *w.fs.geometry());
    let World { fs, root, dev, .. } = w;
    drop((d, root));
    fs.unmount().unwrap();
    let image = Image { mem: dev.inner().snapshot(), g, d: ino, sub: ino };
    assert!(size <= 16384);
    let mut at = 0;
    image.inode(ino, |d| at = d.db[0]);
    let mut bytes = vec![0; size];
    image.mem.read_at(g.frag_to_byte(FragNo(at as u64)), &mut bytes).unwrap();
    for chunk in bytes.chunks(512) {
        let mut used = vec![false; 512];
        for (i, r) in dir::records(image.fmt(), chunk).enumerate() {
            let r = r.unwrap();
            assert!(r.live() || i == 0, "only the first record of a chunk is free");
            let header = if r.live() { 8 + r.name.len() } else { 6 };
            used[r.off..r.off + header].fill(true);
        }
        let dirty = (0..512).find(|i| !used[*i] && chunk[*i] != 0);
        assert_eq!(dirty, None, "an unused byte is not zero");
    }
}

#[test]
fn random_damage() {
    for seed in 0..150 {
        let mut rng = SplitMix64::new(seed);
        let image = image();
        let ino = if rng.one_in(2) { image.d } else { image.sub };
        image.block(ino, |b| {
            for _ in 0..rng.between(1, 12) {
                let within = if rng.one_in(2) { 64 } else { 2048 };
                let at = rng.below(within) as usize;
                b[at] = rng.next_u64() as u8;
            }
        });
        println!("seed {seed}");
        survive(&image);
    }
}
