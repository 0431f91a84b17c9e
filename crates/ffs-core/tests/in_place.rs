//! Reads in place: the ranges of the host's file have the content that a copying read returns.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::volume;
use ffs_core::{Cred, Env, Ffs, MountOptions, NodeKind, OrderingPolicy, Vnode, WriteMode};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::partition::Window;
use ffs_device::{BlockDevice, FileDevice};
use ffs_ondisk::{Endian, Format};
use ffs_testkit::rng::SplitMix64;
use std::fs::File;
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
