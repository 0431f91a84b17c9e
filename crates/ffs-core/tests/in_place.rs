//! Reads and writes in place: the content passes between the caller and the host's file, and is
//! that of reads and writes through the cache.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;
use crate::common::volume;
use ffs_admin::fsck::quick_check;
use ffs_core::{
    Cred, Env, Ffs, MountOptions, NodeKind, OrderingPolicy, Vnode, WriteInPlace, WriteMode,
    WriteSource,
};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::partition::Window;
use ffs_device::{BlockDevice, FileDevice, HostRange};
use ffs_ondisk::{Endian, Format};
use ffs_testkit::rng::SplitMix64;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A slice that begins at an odd sector: no block of the volume begins at a page of the file.
const START: u64 = 63 * 512;
const BYTES: u64 = 16 << 20;

fn image(path: &Path, shape: common::Shape) {
    let made = volume(shape, BYTES);
    let mut bytes = vec![0; BYTES as usize];
    made.read_at(0, &mut bytes).unwrap();
    let file = File::create(path).unwrap();
    file.write_all_at(&bytes, START).unwrap();
}

fn mount(path: &Path, ordering: OrderingPolicy) -> Ffs {
    let file = FileDevice::open(path, true).unwrap();
    let device = Arc::new(Window::new(file, START, BYTES, "disk@1").unwrap());
    let clock = Arc::new(ManualClock::new(Timestamp::new(common::START, 0)));
    let options = MountOptions { ordering, ..MountOptions::default() };
    Ffs::mount(device, &options, Env::seeded(clock, 1)).unwrap()
}

fn file(fs: &Ffs, name: &str) -> Vnode {
    let (cred, root) = (Cred::root(), fs.root().unwrap());
    match fs.lookup(&cred, &root, name.as_bytes()) {
        Ok(found) => found,
        Err(_) => fs.create(&cred, &root, name.as_bytes(), NodeKind::Regular, 0o644).unwrap(),
    }
}

fn write(fs: &Ffs, file: &Vnode, model: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let n = fs.write(&Cred::root(), file, at as u64, bytes, WriteMode::default()).unwrap();
    assert_eq!(n, bytes.len());
    model.resize(model.len().max(at + n), 0);
    model[at..at + n].copy_from_slice(bytes);
}

/// Reads in place, and compares with `model`. Returns whether the library had ranges.
fn agrees(fs: &Ffs, file: &Vnode, model: &[u8], at: usize, len: usize) -> bool {
    let end = model.len().min(at.saturating_add(len));
    let want = model.get(at..end).unwrap_or(&[]);
    let got = fs.read_in_place(file, at as u64, len as u64, |ranges| {
        let mut all = Vec::new();
        for range in ranges {
            let mut bytes = vec![0; range.length as usize];
            let file = File::from(range.file.try_clone_to_owned().unwrap());
            file.read_exact_at(&mut bytes, range.offset).unwrap();
            all.extend(bytes);
        }
        Some(all)
    });
    let got = got.unwrap();
    assert!(got.as_deref().is_none_or(|got| got == want), "at {at}, {len} bytes");
    let mut copied = vec![0; len];
    let n = fs.read(file, at as u64, &mut copied).unwrap();
    assert!(copied[..n] == *want, "copied at {at}, {len} bytes");
    got.is_some()
}

#[test]
fn ranges_have_the_content_of_any_read() {
    let home = tempfile::tempdir().unwrap();
    let shapes = [
        (Endian::Little, Format::Ufs2, 16384, 2048),
        (Endian::Big, Format::Ufs1, 8192, 1024),
        (Endian::Little, Format::Ufs2, 4096, 4096),
    ];
    for (seed, shape) in (0..).zip(shapes) {
        let path = home.path().join(format!("{seed}.img"));
        image(&path, shape);
        let mut rng = SplitMix64::new(seed);
        let mut models = [Vec::new(), Vec::new()];
        let fs = mount(&path, OrderingPolicy::SoftUpdates);
        // Two files that grow in turns, with holes, and an end inside a fragment.
        for part in 0..40usize {
            let which = part % 2;
            let at = models[which].len() + if part % 11 == 10 { 100_000 } else { 0 };
            let bytes = vec![part as u8 + 1; rng.between(1, 150_000) as usize];
            write(&fs, &file(&fs, ["a", "b"][which]), &mut models[which], at, &bytes);
        }
        fs.unmount().unwrap();
        let fs = mount(&path, OrderingPolicy::SoftUpdates);
        let (mut in_place, mut copied) = (0, 0);
        for step in 0..300 {
            let which = rng.below(2) as usize;
            let (file, model) = (file(&fs, ["a", "b"][which]), &mut models[which]);
            if step % 3 == 2 {
                // A block that only the memory has.
                let bytes = vec![step as u8; rng.between(1, 20_000) as usize];
                let at = rng.below(model.len() as u64) as usize;
                write(&fs, &file, model, at, &bytes);
            }
            let at = rng.below(model.len() as u64 + 10_000) as usize;
            match agrees(&fs, &file, model, at, rng.between(1, 600_000) as usize) {
                true => in_place += 1,
                false => copied += 1,
            }
        }
        assert!(in_place > 10 && copied > 10, "{shape:?}: {in_place} in place, {copied} copied");
        fs.unmount().unwrap();
    }
}

#[test]
fn only_what_was_read_in_place_is_counted() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("disk.img");
    image(&path, (Endian::Little, Format::Ufs2, 16384, 2048));
    let fs = mount(&path, OrderingPolicy::None);
    write(&fs, &file(&fs, "f"), &mut Vec::new(), 0, &vec![7; 1 << 20]);
    fs.sync().unwrap();
    let file = file(&fs, "f");
    let before = fs.counters().bytes_read;
    let refused: Option<()> = fs.read_in_place(&file, 0, 1 << 20, |_| None).unwrap();
    assert_eq!((refused, fs.counters().bytes_read - before), (None, 0));
    assert_eq!(fs.read_in_place(&file, 0, 1 << 20, |_| Some(())).unwrap(), Some(()));
    assert_eq!(fs.counters().bytes_read - before, 1 << 20);
    fs.unmount().unwrap();
}

#[test]
fn memory_has_no_ranges() {
    let mem = volume((Endian::Little, Format::Ufs2, 16384, 2048), BYTES);
    let world = common::mount_on(mem, &MountOptions::default());
    let file = world.file(&world.root, "f");
    let mut model = Vec::new();
    write(&world.fs, &file, &mut model, 0, &vec![7; 1 << 20]);
    world.fs.sync().unwrap();
    assert!(!agrees(&world.fs, &file, &model, 0, 1 << 20));
}

/// A content that counts what it puts into the host's file.
struct Counted<'a> {
    rest: &'a [u8],
    put: usize,
    /// Bytes that can be read before it fails.
    fails_after: usize,
    /// Bytes that the host's file takes before it is full.
    space: usize,
}

impl<'a> Counted<'a> {
    fn new(rest: &'a [u8], fails_after: usize) -> Counted<'a> {
        Counted { rest, put: 0, fails_after, space: usize::MAX }
    }

    fn pass(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let left = self.fails_after.checked_sub(length);
        self.fails_after = left.unwrap_or(0);
        left.ok_or(io::ErrorKind::BrokenPipe)?;
        let (next, rest) = self.rest.split_at_checked(length).unwrap();
        self.rest = rest;
        Ok(next)
    }
}

impl WriteSource for Counted<'_> {
    fn left(&self) -> usize {
        self.rest.len()
    }

    fn take(&mut self, to: &mut [u8]) -> io::Result<()> {
        to.copy_from_slice(self.pass(to.len())?);
        Ok(())
    }

    fn put(&mut self, range: HostRange<'_>) -> io::Result<()> {
        let length = self.space.min(range.length as usize);
        HostRange { length: length as u64, ..range }.write(&mut self.pass(length)?)?;
        self.put += length;
        self.space -= length;
        match length == range.length as usize {
            true => Ok(()),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }
}

/// Writes `content` from a source that fails after some bytes.
fn write_from(fs: &Ffs, file: &Vnode, at: usize, content: &mut Counted<'_>) -> bool {
    let mode = WriteMode::default();
    fs.write_from(&Cred::root(), file, at as u64, content, mode).is_ok()
}

#[test]
fn writes_in_place_have_the_content_of_any_write() {
    let home = tempfile::tempdir().unwrap();
    let orderings = [OrderingPolicy::SoftUpdates, OrderingPolicy::None, OrderingPolicy::Sync];
    let shapes = [
        (Endian::Little, Format::Ufs2, 16384, 2048),
        (Endian::Big, Format::Ufs1, 8192, 1024),
        (Endian::Little, Format::Ufs2, 4096, 4096),
    ];
    for (seed, (shape, ordering)) in (7..).zip(shapes.into_iter().zip(orderings)) {
        let path = home.path().join(format!("w{seed}.img"));
        image(&path, shape);
        let mut rng = SplitMix64::new(seed);
        let mut models = [Vec::new(), Vec::new()];
        let (mut put, mut all) = (0, 0);
        let mut fs = mount(&path, ordering);
        for step in 0..200usize {
            let which = rng.below(2) as usize;
            let (name, model) = (["a", "b"][which], &mut models[which]);
            let vnode = file(&fs, name);
            // Aligned or not, inside, at the end, or after a hole; some through the cache.
            let unit = [1, shape.2 as usize][rng.below(2) as usize];
            let at = rng.below(model.len() as u64 + 50_000) as usize / unit * unit;
            let bytes = vec![step as u8; rng.between(1, 400_000) as usize];
            if at + bytes.len() > 4 << 20 {
                continue;
            }
            if step % 4 == 3 {
                write(&fs, &vnode, model, at, &bytes[..bytes.len().min(20_000)]);
            } else {
                let mut content = Counted::new(&bytes, usize::MAX);
                assert!(write_from(&fs, &vnode, at, &mut content));
                assert_eq!(content.left(), 0);
                (put, all) = (put + content.put, all + bytes.len());
                model.resize(model.len().max(at + bytes.len()), 0);
                model[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            if step % 10 == 9 {
                fs.unmount().unwrap();
                assert_eq!(quick_check(&path_device(&path)), [], "step {step}");
                fs = mount(&path, ordering);
            }
            let (at, len) = (rng.below(model.len() as u64) as usize, 500_000);
            agrees(&fs, &file(&fs, name), model, at, len);
        }
        for (name, model) in ["a", "b"].iter().zip(&models) {
            agrees(&fs, &file(&fs, name), model, 0, model.len());
        }
        fs.unmount().unwrap();
        assert!(put > all / 3, "{shape:?}: {put} bytes of {all} in place");
    }
}

/// The device on which the volume of [`image`] is.
fn path_device(path: &Path) -> Arc<dyn BlockDevice> {
    let file = FileDevice::open(path, false).unwrap();
    Arc::new(Window::new(file, START, BYTES, "disk@1").unwrap())
}

/// A content that ends with an error in the middle of blocks leaves no block of an older file to
/// read, and not a longer file.
#[test]
fn a_content_that_fails_leaves_zeros_or_the_old_content() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("disk.img");
    image(&path, (Endian::Little, Format::Ufs2, 16384, 2048));
    let fs = mount(&path, OrderingPolicy::SoftUpdates);
    // Old content in the free blocks.
    let old = file(&fs, "old");
    write(&fs, &old, &mut Vec::new(), 0, &vec![0xaa; 8 << 20]);
    drop(old);
    fs.sync().unwrap();
    fs.unlink(&Cred::root(), &fs.root().unwrap(), b"old").unwrap();
    fs.sync().unwrap();
    for fails_after in [0, 1, 100_000, 400_000, 1_048_576, 1_500_000] {
        let new = file(&fs, &format!("new{fails_after}"));
        let bytes = vec![1; 2 << 20];
        let mut content = Counted::new(&bytes, fails_after);
        assert!(!write_from(&fs, &new, 0, &mut content));
        // The parts of a call are a megabyte; the file loses what a failed one wrote.
        let size = fs.getattr(&new).size;
        assert!(size <= fails_after as u64, "{size} bytes after {fails_after}");
        let mut back = vec![9; 2 << 20];
        assert_eq!(fs.read(&new, 0, &mut back).unwrap() as u64, size);
        assert!(back[..size as usize].iter().all(|b| *b == 1));
        // A file with a hole, whose blocks would show what was there.
        let sparse = file(&fs, &format!("sparse{fails_after}"));
        write(&fs, &sparse, &mut Vec::new(), 3 << 20, b"end");
        let mut content = Counted::new(&bytes, fails_after);
        assert!(!write_from(&fs, &sparse, 0, &mut content));
        let mut back = vec![9; 3 << 20];
        assert_eq!(fs.read(&sparse, 0, &mut back).unwrap(), 3 << 20);
        assert!(back.iter().all(|b| *b <= 1), "a block of another file shows");
        fs.unlink(&Cred::root(), &fs.root().unwrap(), format!("sparse{fails_after}").as_bytes())
            .unwrap();
    }
    fs.unmount().unwrap();
    assert_eq!(quick_check(&path_device(&path)), []);
}

/// The content that the host's file does not take stays in memory, as for a delayed write.
#[test]
fn what_the_host_has_no_space_for_is_written_later() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("disk.img");
    image(&path, (Endian::Little, Format::Ufs2, 16384, 2048));
    let fs = mount(&path, OrderingPolicy::SoftUpdates);
    let mut models = Vec::new();
    for space in [0, 1, 16384, 70_000, 700_001] {
        let (mut model, vnode) = (Vec::new(), file(&fs, &format!("f{space}")));
        for (round, at) in [0, 0, 600_000].into_iter().enumerate() {
            let bytes: Vec<u8> = (0..1_100_000u32).map(|i| (i >> 8) as u8 ^ round as u8).collect();
            let mut content = Counted { space, ..Counted::new(&bytes, usize::MAX) };
            assert!(write_from(&fs, &vnode, at, &mut content));
            assert!(content.left() == 0 && content.put <= space);
            model.resize(model.len().max(at + bytes.len()), 0);
            model[at..at + bytes.len()].copy_from_slice(&bytes);
            agrees(&fs, &vnode, &model, 0, model.len());
        }
        models.push((space, model));
    }
    fs.unmount().unwrap();
    assert_eq!(quick_check(&path_device(&path)), []);
    let fs = mount(&path, OrderingPolicy::SoftUpdates);
    for (space, model) in models {
        agrees(&fs, &file(&fs, &format!("f{space}")), &model, 0, model.len());
    }
    fs.unmount().unwrap();
}

/// The older content of a block, which another thread may write at any time, does not replace the
/// part of the new content that the device took.
#[test]
fn a_refused_write_over_dirty_blocks_has_the_new_content() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("disk.img");
    image(&path, (Endian::Little, Format::Ufs2, 16384, 2048));
    let fs = mount(&path, OrderingPolicy::SoftUpdates);
    let (vnode, mut model) = (file(&fs, "f"), Vec::new());
    for round in 0..100u8 {
        for at in (0..500_000).step_by(20_000) {
            write(&fs, &vnode, &mut model, at, &[round; 20_000]);
        }
        let bytes = vec![round ^ 0x80; 400_000];
        std::thread::scope(|s| {
            s.spawn(|| fs.fsync(&vnode).unwrap());
            let space = 3000 * usize::from(round) + 1;
            let mut content = Counted { space, ..Counted::new(&bytes, usize::MAX) };
            assert!(write_from(&fs, &vnode, 0, &mut content));
        });
        model[..bytes.len()].copy_from_slice(&bytes);
        agrees(&fs, &vnode, &model, 0, model.len());
        fs.sync().unwrap();
        agrees(&fs, &vnode, &model, 0, model.len());
    }
    fs.unmount().unwrap();
}

/// What a snapshot shows stays, also when large writes replace it.
#[test]
fn a_snapshot_keeps_what_large_writes_replace() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("disk.img");
    image(&path, (Endian::Little, Format::Ufs2, 16384, 2048));
    let fs = mount(&path, OrderingPolicy::SoftUpdates);
    let vnode = file(&fs, "f");
    write(&fs, &vnode, &mut Vec::new(), 0, &vec![1; 2 << 20]);
    fs.sync().unwrap();
    let before = fs.counters().blocks_in_place;
    assert!(before > 0);
    fs.snapshot(&Cred::root(), &fs.root().unwrap(), b"snap").unwrap();
    write(&fs, &vnode, &mut Vec::new(), 0, &vec![2; 2 << 20]);
    assert_eq!(fs.counters().blocks_in_place, before, "over what a snapshot shows");
    fs.sync().unwrap();
    let snapshot = file(&fs, "snap");
    let mut bytes = vec![0; 1 << 20];
    let mut kept = 0;
    for at in (0..BYTES).step_by(bytes.len()) {
        let n = fs.read(&snapshot, at, &mut bytes).unwrap();
        kept += bytes[..n].chunks(16384).filter(|block| block.iter().all(|b| *b == 1)).count();
    }
    assert_eq!(kept, (2 << 20) / 16384);
    fs.unmount().unwrap();
    assert_eq!(quick_check(&path_device(&path)), []);
}

#[test]
fn the_switch_turns_writes_in_place_off() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("disk.img");
    image(&path, (Endian::Little, Format::Ufs2, 16384, 2048));
    let bytes = vec![1; 2 << 20];
    for (value, expected) in
        [(WriteInPlace::File, 2 << 20), (WriteInPlace::Off, 0), (WriteInPlace::Always, 2 << 20)]
    {
        let mut options = MountOptions::default();
        options.tunables.write_in_place = value;
        let clock = Arc::new(ManualClock::new(Timestamp::new(common::START, 0)));
        let file_device = FileDevice::open(&path, true).unwrap();
        let device = Arc::new(Window::new(file_device, START, BYTES, "disk@1").unwrap());
        let fs = Ffs::mount(device, &options, Env::seeded(clock, 1)).unwrap();
        let mut content = Counted::new(&bytes, usize::MAX);
        assert!(write_from(&fs, &file(&fs, "f"), 0, &mut content));
        assert_eq!(content.put, expected, "{value:?}");
        fs.unmount().unwrap();
    }
}
