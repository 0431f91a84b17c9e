//! Histories that soft updates once handled wrongly.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
mod renames;
mod truncation;

use common::{World, mount_on, soft_updates, soft_volume};
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_core::{Cred, Env, Ffs, MountOptions};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::{Endian, Format};
use std::sync::Arc;

fn world(bsize: u32, fsize: u32) -> World {
    let shape = (Endian::Little, Format::Ufs2, bsize, fsize);
    mount_on(soft_volume(shape, 16 << 20), &soft_updates())
}

/// Repairs the volume and mounts it read-only.
fn repaired(dev: MemDevice) -> Ffs {
    let dev: Arc<dyn BlockDevice> = Arc::new(dev);
    let report = Fsck::new(Arc::clone(&dev), FsckOptions::preen()).run();
    assert_eq!(report.exit_code, 0, "{:?}", report.findings);
    mounted(dev)
}

/// Mounts the volume read-only.
fn mounted(dev: Arc<dyn BlockDevice>) -> Ffs {
    let clock = Arc::new(ManualClock::new(Timestamp::new(common::START, 0)));
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    Ffs::mount(dev, &options, Env::seeded(clock, 1)).unwrap()
}

/// The content of a file in the root after a repair.
fn content(dev: MemDevice, name: &str) -> Vec<u8> {
    let fs = repaired(dev);
    let v = fs.lookup(&Cred::root(), &fs.root().unwrap(), name.as_bytes()).unwrap();
    let mut bytes = vec![0; fs.getattr(&v).size as usize];
    assert_eq!(fs.read(&v, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// The names in a directory of the root.
fn names(fs: &Ffs, dir: &str) -> Vec<Vec<u8>> {
    let dir = fs.lookup(&Cred::root(), &fs.root().unwrap(), dir.as_bytes()).unwrap();
    let mut all = Vec::new();
    fs.readdir(&dir, 0, &mut |e| {
        all.push(e.name.to_vec());
        true
    })
    .unwrap();
    all
}
