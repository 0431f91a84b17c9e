//! Snapshots as volumes: a snapshot that NetBSD wrote, and the same with damage.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::sync::Arc;

use bsdffs::Volume;
use bsdffs::snapshot::{SnapshotDevice, SnapshotError, list};
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_core::{Cred, Env, Ffs, Ino, MountOptions};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::bmap::{pointer, set_pointer};
use ffs_ondisk::{Dinode, FileFlags, FragNo, Geometry, snapshot};
use ffs_testkit::fixtures;
use ffs_testkit::rng::SplitMix64;

/// Blocks of the image that a mutation may change.
type Changed = BTreeSet<u64>;

/// A volume in memory, mounted read-only.
struct Disk {
    device: Arc<MemDevice>,
    fs: Ffs,
}

impl Disk {
    fn new(bytes: &[u8]) -> Disk {
        let device = Arc::new(MemDevice::from_bytes(bytes));
        let options = MountOptions { read_only: true, ..MountOptions::default() };
        let fs = Ffs::mount(device.clone(), &options, Env::system()).unwrap();
        Disk { device, fs }
    }

    /// The snapshot `/.snap/NAME`.
    fn open(&self, name: &str) -> Result<SnapshotDevice, SnapshotError> {
        let cred = Cred::root();
        let path = format!("/.snap/{name}");
        let last = bsdffs::namei::Last::Keep;
        let file = bsdffs::namei::namei(&self.fs, &cred, path.as_bytes(), last).unwrap();
        SnapshotDevice::open(&*self.device, &self.fs, &file, name)
    }
}

fn read_all(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.len_bytes() as usize];
    device.read_at(0, &mut bytes).unwrap();
    bytes
}

fn geometry(bytes: &[u8]) -> Geometry {
    let device = MemDevice::from_bytes(bytes);
    ffs_admin::Volume::open(&device).unwrap().geo
}

/// The place of an inode in the bytes of a volume.
fn place(g: &Geometry, ino: u32) -> std::ops::Range<usize> {
    let at = g.frag_to_byte(g.ino_to_fsba(Ino(ino))) as usize + g.ino_to_fsbo(Ino(ino));
    at..at + g.format.dinode_size()
}

fn edit(bytes: &mut [u8], ino: u32, change: impl FnOnce(&Geometry, &mut Dinode)) {
    let g = geometry(bytes);
    let place = place(&g, ino);
    let mut d = Dinode::decode(&g, &bytes[place.clone()]);
    change(&g, &mut d);
    d.encode(&g, &mut bytes[place]);
}

/// Changes the list of snapshots in the superblock.
fn set_listed(bytes: &[u8], listed: &[u32]) -> Vec<u8> {
    let device = MemDevice::from_bytes(bytes);
    let mut volume = ffs_admin::Volume::open(&device).unwrap();
    volume.sb.f.snapinum = [0; 20];
    volume.sb.f.snapinum[..listed.len()].copy_from_slice(listed);
    volume.write_superblock().unwrap();
    device.to_vec()
}

const S1: u32 = 10;
const S2: u32 = 9;

#[test]
fn a_snapshot_is_a_clean_read_only_volume() {
    let Some(image) = fixtures::load("nb-ufs2-snap") else { return };
    let disk = Disk::new(&image);
    for name in ["s1", "s2"] {
        let device = Arc::new(disk.open(name).unwrap());
        let len = device.len_bytes();
        assert_eq!(len, snapshot::image_bytes(disk.fs.geometry()));
        let report = Fsck::new(device.clone(), FsckOptions::no()).run();
        assert!(report.is_silent() && report.stopped.is_none(), "{name}: {:?}", report.findings);
        // The same bytes through reads of any size, across blocks and at the end.
        let (whole, mut rng) = (read_all(&*device), SplitMix64::new(3));
        for _ in 0..300 {
            let at = rng.below(len);
            let mut piece = vec![0xa5; (rng.below(40_000)).min(len - at) as usize];
            device.read_at(at, &mut piece).unwrap();
            assert!(piece[..] == whole[at as usize..][..piece.len()], "{name}: {at}");
        }
        assert!(device.is_read_only());
        assert_eq!(device.write_at(0, &[0; 512]).unwrap_err().errno(), libc::EROFS);
        assert_eq!(device.discard(0, 512).unwrap_err().errno(), libc::EROFS);
        for (at, bytes) in [(len, 1), (len - 1, 2), (u64::MAX, 1)] {
            let error = device.read_at(at, &mut vec![0; bytes]).unwrap_err();
            assert_eq!(error.errno(), libc::EINVAL, "{error}");
        }
        let volume = Volume::options().mount(device).unwrap();
        let f0 = volume.metadata("/d1/f0").unwrap();
        assert!(f0.is_file());
    }
}

#[test]
fn the_list_has_names_times_and_space() {
    let Some(image) = fixtures::load("nb-ufs2-snap") else { return };
    let disk = Disk::new(&image);
    let listed = list(&*disk.device, &disk.fs, &Cred::root()).unwrap();
    let seen: Vec<(u32, Vec<&[u8]>)> = listed
        .iter()
        .map(|one| (one.ino.0, one.paths.iter().map(Vec::as_slice).collect()))
        .collect();
    assert_eq!(seen, [(S1, vec![&b"/.snap/s1"[..]]), (S2, vec![b"/.snap/s2"])]);
    let times: Vec<i64> = listed.iter().map(|one| one.state.as_ref().unwrap().made).collect();
    // The newest change that the expected content of each view has.
    assert!(times[0] >= 1_795_289_186 && times[0] <= times[1], "{times:?}");
    for one in &listed {
        let state = one.state.as_ref().unwrap();
        assert_eq!(state.image, 16 << 20);
        assert!(state.held > 12 * 8192 && state.held < state.image, "{state:?}");
    }
}

#[test]
fn a_list_that_names_anything_is_shown_with_reasons() {
    let Some(image) = fixtures::load("nb-ufs2-snap") else { return };
    // A directory, a free inode, numbers outside, an ordinary file, one snapshot twice.
    let change = 5;
    let hostile = set_listed(&image, &[2, 4000, u32::MAX, 1, change, S1, S1]);
    let disk = Disk::new(&hostile);
    let listed = list(&*disk.device, &disk.fs, &Cred::root()).unwrap();
    let problem = |ino: u32| {
        let mut found = listed.iter().filter(|one| one.ino.0 == ino);
        let one = found.next().unwrap();
        assert!(found.next().is_none(), "{ino} twice");
        one.state.as_ref().err().map(String::as_str)
    };
    for none in [4000, u32::MAX, 1] {
        assert_eq!(problem(none), Some("no file has this inode"), "{none}");
    }
    assert_eq!((problem(2), problem(change)), (Some("not a snapshot"), Some("not a snapshot")));
    assert_eq!(problem(S1), None);
    assert!(disk.open("s1").is_ok());
    assert!(matches!(disk.open("s2"), Err(SnapshotError::NotListed)));
}

#[test]
fn files_that_cannot_be_right_are_not_opened() {
    let Some(image) = fixtures::load("nb-ufs2-snap") else { return };
    let open = |change: &dyn Fn(&Geometry, &mut Dinode)| {
        let mut bytes = image.clone();
        edit(&mut bytes, S1, |g, d| change(g, d));
        Disk::new(&bytes).open("s1").map(|_| ())
    };
    assert!(open(&|_, _| ()).is_ok());
    let unfinished = open(&|g, d| d.size = snapshot::image_bytes(g));
    assert!(matches!(unfinished, Err(SnapshotError::Unfinished)));
    let short = open(&|g, d| d.size = snapshot::image_bytes(g) - 1).unwrap_err().to_string();
    assert!(short.contains("size") && short.contains("snapshot 10"), "{short}");
    let flag = open(&|_, d| d.flags = FileFlags::empty());
    assert!(matches!(flag, Err(SnapshotError::NoSnapshot)));
}

/// Changes one pointer of snapshot s1, or its size. Returns the blocks of the image that it may
/// change.
fn mutate(bytes: &mut [u8], rng: &mut SplitMix64) -> Changed {
    let g = geometry(bytes);
    let d = Dinode::decode(&g, &bytes[place(&g, S1)]);
    let (blocks, ndaddr) = (snapshot::image_blocks(&g), d.db.len() as u64);
    let frags = g.size as i64;
    // Beyond the volume, in metadata, off a block boundary, the snapshot's own indirect block, the
    // words, its own place.
    let any = rng.below(g.size) as i64;
    let values =
        [-1, i64::MIN, i64::MAX, frags, frags - 1, 8, 3, any, any | 1, d.ib[0], 0, 1, 2, 1 << 40];
    let value = values[rng.below(values.len() as u64) as usize];
    match rng.below(4) {
        0 => {
            let at = rng.below(ndaddr);
            edit(bytes, S1, |_, d| d.db[at as usize] = value);
            [at].into()
        }
        1 => {
            let root = rng.below(3) as usize;
            edit(bytes, S1, |_, d| d.ib[root] = value);
            if root == 0 {
                (ndaddr..ndaddr + u64::from(g.nindir)).collect()
            } else {
                Changed::new()
            }
        }
        2 => {
            let slot = rng.below(blocks - ndaddr);
            let at = g.frag_to_byte(FragNo(d.ib[0] as u64)) as usize;
            let block = &mut bytes[at..at + g.bsize as usize];
            assert!(pointer(&g, block, slot as usize) >= 0);
            set_pointer(&g, block, slot as usize, value);
            // NetBSD leaves the indirect block itself in its live place.
            [ndaddr + slot, d.ib[0] as u64 / u64::from(g.frag)].into()
        }
        _ => {
            let more = rng.below(1 << 40);
            edit(bytes, S1, |g, d| d.size = snapshot::image_bytes(g) + 1 + more);
            Changed::new()
        }
    }
}

#[test]
fn damage_stays_in_the_blocks_that_it_concerns() {
    let Some(image) = fixtures::load("nb-ufs2-snap") else { return };
    let g = geometry(&image);
    assert!(
        snapshot::image_blocks(&g) - 12 <= g.nindir.into(),
        "one indirect block maps the image"
    );
    let good = read_all(&Disk::new(&image).open("s1").unwrap());
    let (mut errors, mut rng) = (0, SplitMix64::new(2_811));
    for round in 0..300 {
        let mut bytes = image.clone();
        let changed = mutate(&mut bytes, &mut rng);
        let disk = Disk::new(&bytes);
        let device = Arc::new(disk.open("s1").unwrap());
        let blocks = good.chunks_exact(g.bsize as usize);
        for (at, want) in (0..).zip(blocks) {
            let mut block = vec![0; g.bsize as usize];
            match device.read_at(at * u64::from(g.bsize), &mut block) {
                Ok(()) => {
                    assert!(block == want || changed.contains(&at), "{round}: block {at}");
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(changed.contains(&at), "{round}: block {at}: {text}");
                    assert!(text.starts_with("s1: cannot read") && text.contains("inode 10"));
                    errors += 1;
                }
            }
        }
        // The volume in it: checked in bounded work, without a panic.
        let _ = Fsck::new(device, FsckOptions::no()).run();
        list(&*disk.device, &disk.fs, &Cred::root()).unwrap();
    }
    assert!(errors > 100, "{errors}");
}
