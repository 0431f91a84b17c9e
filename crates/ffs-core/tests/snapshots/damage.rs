//! Damaged snapshots: what a check marks clean can be written, and no snapshot shows content that
//! is not of its moment.

use super::common::{START, mount_on, soft_updates, soft_volume};
use super::view::{Tree, tree_of, view_of};
use super::{SHAPES, snapshot, unmounted, write_file};
use ffs_admin::fsck::{Answers, Fsck, FsckOptions, FsckReport, Id, Mode, exit, quick_check};
use ffs_core::{Cred, Env, Ffs};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::{BlockDevice, MemDevice, Rng, SplitMix64};
use ffs_ondisk::bmap::{pointer, set_pointer};
use ffs_ondisk::geometry::{NDADDR, NIADDR};
use ffs_ondisk::{Dinode, FragNo, Geometry, Ino, sbsearch};
use std::sync::Arc;

/// Mutations of each volume.
const MUTATIONS: u64 = 120;

/// A volume with two snapshots, both of which have copies and read blocks in place.
struct Volume {
    dev: MemDevice,
    g: Geometry,
    snaps: [Ino; 2],
    trees: [Tree; 2],
}

const NAMES: [&str; 2] = ["snap0", "snap1"];

impl Volume {
    fn new(shape: usize) -> Volume {
        let w = mount_on(soft_volume(SHAPES[shape], 8 << 20), &soft_updates());
        write_file(&w.fs, "a", &[1; 200_000]);
        write_file(&w.fs, "b", &[2; 90_000]);
        let (mut snaps, mut trees) = ([Ino(0); 2], [Tree::new(), Tree::new()]);
        for (n, name) in NAMES.into_iter().enumerate() {
            trees[n] = tree_of(&w.fs);
            snaps[n] = w.fs.getattr(&snapshot(&w.fs, name)).ino;
            write_file(&w.fs, "a", &vec![n as u8 + 10; 60_000]);
            write_file(&w.fs, &format!("new{n}"), &[3; 50_000]);
        }
        let dev = unmounted(w);
        let read = |at: u64, len: usize| -> Result<Vec<u8>, ffs_device::DeviceError> {
            let mut bytes = vec![0; len];
            dev.read_at(at, &mut bytes).map(|()| bytes)
        };
        let g = sbsearch::find(read, Some(dev.len_bytes())).unwrap().geometry;
        Volume { dev, g, snaps, trees }
    }

    fn inode_at(&self, ino: Ino) -> u64 {
        self.g.frag_to_byte(self.g.ino_to_fsba(ino)) + self.g.ino_to_fsbo(ino) as u64
    }

    fn inode(&self, ino: Ino) -> Dinode {
        let mut raw = vec![0; self.g.format.dinode_size()];
        self.dev.read_at(self.inode_at(ino), &mut raw).unwrap();
        Dinode::decode(&self.g, &raw)
    }

    fn edit_inode(&self, dev: &MemDevice, ino: Ino, change: impl FnOnce(&mut Dinode)) {
        let mut d = self.inode(ino);
        change(&mut d);
        let mut raw = vec![0; self.g.format.dinode_size()];
        dev.read_at(self.inode_at(ino), &mut raw).unwrap();
        d.encode(&self.g, &mut raw);
        dev.write_at(self.inode_at(ino), &raw).unwrap();
    }

    fn block(&self, at: i64) -> Vec<u8> {
        let mut bytes = vec![0; self.g.bsize as usize];
        self.dev.read_at(self.byte(at), &mut bytes).unwrap();
        bytes
    }

    fn byte(&self, at: i64) -> u64 {
        self.g.frag_to_byte(FragNo(u64::try_from(at).unwrap()))
    }

    /// A copy of the volume in which slot `slot` of the indirect block at `at` is `value`.
    fn with_slot(&self, at: i64, slot: usize, value: i64) -> MemDevice {
        let dev = self.dev.snapshot();
        let mut bytes = self.block(at);
        set_pointer(&self.g, &mut bytes, slot, value);
        dev.write_at(self.byte(at), &bytes).unwrap();
        dev
    }

    /// A copy of the volume with another inode of snapshot `n`.
    fn with_inode(&self, n: usize, change: impl FnOnce(&mut Dinode)) -> MemDevice {
        let dev = self.dev.snapshot();
        self.edit_inode(&dev, self.snaps[n], change);
        dev
    }

    /// Values that a pointer of a snapshot may have by damage: none is the right one.
    fn value(&self, rng: &SplitMix64) -> i64 {
        let frags = self.g.size as i64;
        let frag = i64::from(self.g.frag);
        let own = self.inode(self.snaps[0]);
        let values = [
            -1,
            0,
            1,
            2,
            frag + 1,
            frags,
            frags - 1,
            frags / 2 / frag * frag,
            i64::from(i32::MAX),
            own.db[5],
            own.ib[0],
            own.ib[0] + 1,
        ];
        values[rng.below(values.len() as u64) as usize]
    }

    /// A copy of the volume with one damaged pointer or size of snapshot `n`.
    fn mutate(&self, rng: &SplitMix64, n: usize) -> (MemDevice, String) {
        let (d, value) = (self.inode(self.snaps[n]), self.value(rng));
        match rng.below(6) {
            0 => {
                let sizes = [0, 1, d.size - 1, d.size + 1, d.size / 2, d.size * 2, 1 << 40];
                let image = ffs_ondisk::snapshot::image_bytes(&self.g);
                let size = match rng.below(9) {
                    7 => image,
                    8 => image + 1,
                    k => sizes[k as usize],
                };
                (self.with_inode(n, |d| d.size = size), format!("size {size}"))
            }
            1 => {
                let k = rng.below(NDADDR as u64) as usize;
                (self.with_inode(n, |d| d.db[k] = value), format!("db[{k}] {value}"))
            }
            2 => {
                let k = rng.below(NIADDR as u64) as usize;
                (self.with_inode(n, |d| d.ib[k] = value), format!("ib[{k}] {value}"))
            }
            3 if d.ib[1] > 0 => {
                let slot = rng.below(4) as usize;
                let dev = self.with_slot(d.ib[1], slot, value);
                (dev, format!("slot {slot} of ib[1] {value}"))
            }
            _ => {
                let slot = rng.below(self.g.nindir.min(400).into()) as usize;
                let dev = self.with_slot(d.ib[0], slot, value);
                (dev, format!("slot {slot} of ib[0] {value}"))
            }
        }
    }

    /// A pointer of snapshot `n` to a copy of a block of a file, in its first indirect block.
    fn copied_slot(&self, n: usize) -> (i64, usize) {
        let at = self.inode(self.snaps[n]).ib[0];
        let bytes = self.block(at);
        let live = self.block_of_file();
        let slot = live - NDADDR;
        assert!(pointer(&self.g, &bytes, slot) > i64::from(self.g.frag), "it has a copy");
        (at, slot)
    }

    /// The number of the first whole block of the file `a` in the volume.
    fn block_of_file(&self) -> usize {
        let (fs, _) = mount(self.dev.snapshot());
        let file = fs.lookup(&Cred::root(), &fs.root().unwrap(), b"a").unwrap();
        let first = self.inode(fs.getattr(&file).ino).db[0];
        usize::try_from(first).unwrap() / self.g.frag as usize
    }
}

fn mount(dev: MemDevice) -> (Ffs, Arc<dyn BlockDevice>) {
    let dev: Arc<dyn BlockDevice> = Arc::new(dev);
    (mount_shared(&dev), dev)
}

fn mount_shared(dev: &Arc<dyn BlockDevice>) -> Ffs {
    let clock = Arc::new(ManualClock::new(Timestamp::new(START + 100, 0)));
    Ffs::mount(Arc::clone(dev), &soft_updates(), Env::seeded(clock, 3)).unwrap()
}

fn check(dev: &Arc<dyn BlockDevice>, options: FsckOptions) -> FsckReport {
    Fsck::new(Arc::clone(dev), FsckOptions { force: true, ..options }).run()
}

/// Repairs the volume and writes a file in it. Returns the report, and what the mount has.
fn repaired_and_used(dev: MemDevice, at: &str) -> (FsckReport, Ffs) {
    let dev: Arc<dyn BlockDevice> = Arc::new(dev);
    let report = check(&dev, FsckOptions::yes());
    assert!(report.exit_code == exit::OK && report.clean, "{at}: {report:#?}");
    assert!(quick_check(&dev).is_empty(), "{at}: {:?}", quick_check(&dev));
    let fs = mount_shared(&dev);
    assert_eq!(fs.read_only_reason(), None, "{at}: {:?}", report.findings);
    write_file(&fs, "b", &[7; 90_000]);
    write_file(&fs, "after", &[8; 40_000]);
    fs.sync().unwrap();
    (report, fs)
}

/// The snapshot with this name, if the mount keeps it up.
fn kept(fs: &Ffs, name: &str) -> Option<ffs_core::Vnode> {
    let file = fs.lookup(&Cred::root(), &fs.root().unwrap(), name.as_bytes()).ok()?;
    fs.snapshots().contains(&fs.getattr(&file).ino).then_some(file)
}

#[test]
fn after_a_repair_every_volume_with_a_damaged_snapshot_can_be_written() {
    for shape in 0..SHAPES.len() {
        let volume = Volume::new(shape);
        for seed in 0..MUTATIONS {
            let rng = SplitMix64::new(seed);
            let n = rng.below(2) as usize;
            let (dev, what) = volume.mutate(&rng, n);
            let at = format!("shape {shape} seed {seed}: snapshot {n}: {what}");
            let (_, fs) = repaired_and_used(dev, &at);
            // Each name that is left can be removed.
            for name in NAMES {
                let root = fs.root().unwrap();
                if fs.lookup(&Cred::root(), &root, name.as_bytes()).is_ok() {
                    fs.unlink(&Cred::root(), &root, name.as_bytes()).unwrap();
                }
            }
            fs.unmount().unwrap();
        }
    }
}

#[test]
fn a_snapshot_that_lost_a_block_is_removed_and_the_other_keeps_its_content() {
    for shape in 0..SHAPES.len() {
        let volume = Volume::new(shape);
        for n in 0..2 {
            let (at, slot) = volume.copied_slot(n);
            let other = kept_block(&volume);
            let frags = volume.g.size as i64;
            for value in [-1, frags, i64::from(i32::MAX), other, 3] {
                if (0..=2).contains(&value) || (value == 3 && volume.g.frag == 1) {
                    continue;
                }
                let dev = volume.with_slot(at, slot, value);
                let why = format!("shape {shape} snapshot {n} slot {slot} = {value}");
                let (report, fs) = repaired_and_used(dev, &why);
                assert!(report.counts.contains_key(&Id::InoSnapshot), "{why}: {report:#?}");
                assert!(kept(&fs, NAMES[n]).is_none(), "{why}: a wrong snapshot is kept");
                let file = kept(&fs, NAMES[1 - n]).unwrap();
                assert_eq!(view_of(&fs, &file), volume.trees[1 - n], "{why}: the other");
            }
        }
    }
}

/// A block in use by an ordinary file.
fn kept_block(volume: &Volume) -> i64 {
    let (fs, _) = mount(volume.dev.snapshot());
    let file = fs.lookup(&Cred::root(), &fs.root().unwrap(), b"new1").unwrap();
    volume.inode(fs.getattr(&file).ino).db[0]
}

#[test]
fn preen_stops_at_a_damaged_snapshot_and_an_operator_may_keep_it() {
    let volume = Volume::new(0);
    let damages: [fn(&mut Dinode); 4] =
        [|d| d.db[3] = 1 << 62, |d| d.db[3] = 0, |d| d.ib[0] = -1, |d| d.size = 1];
    for (k, damage) in damages.into_iter().enumerate() {
        let dev: Arc<dyn BlockDevice> = Arc::new(volume.with_inode(0, damage));
        let before = bytes_of(&*dev);
        let report = check(&dev, FsckOptions::preen());
        assert_eq!(report.exit_code, exit::ERROR, "{k}: {report:#?}");
        assert!(report.counts.contains_key(&Id::InoSnapshot), "{k}: {report:#?}");
        assert!(before == bytes_of(&*dev), "{k}: preen has written");
        let all_no = Mode::Full(Answers::Ask(Box::new(|_| ffs_admin::fsck::Answer::No)));
        let report = check(&dev, FsckOptions { mode: all_no, ..FsckOptions::default() });
        assert_eq!(report.counts.get(&Id::InoSnapshot), Some(&1), "{k}: {report:#?}");
        assert!(!report.clean, "{k}: marked clean");
        let (report, fs) = repaired_and_used(volume.with_inode(0, damage), &format!("{k}"));
        assert!(report.counts.contains_key(&Id::InoSnapshot), "{k}: {report:#?}");
        assert!(kept(&fs, NAMES[0]).is_none() && kept(&fs, NAMES[1]).is_some(), "{k}");
    }
}

fn bytes_of(dev: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(dev.len_bytes()).unwrap()];
    dev.read_at(0, &mut bytes).unwrap();
    bytes
}
