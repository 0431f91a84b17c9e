//! Quotas: limits are enforced, and the usage is that of the inodes, which quotacheck's independent
//! count confirms.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
mod convert;
mod counting;
mod files;
mod limits;
mod pending;
mod stored;

use common::{Shape, World, mount_on, soft_volume, volume};
use ffs_admin::Volume;
use ffs_admin::quotacheck::{self, QuotaFile};
use ffs_core::{
    Cred, Dqblk, Ffs, MountOptions, NodeKind, OrderingPolicy, QuotaOption, QuotaOptions, QuotaType,
    SetAttr, Vnode, WriteMode,
};
use ffs_device::{BlockDevice, Durability, MemDevice};
use ffs_ondisk::{Endian, Format};
use std::sync::Arc;

const EDQUOT: i32 = 122;
const UFS2: Shape = (Endian::Little, Format::Ufs2, 16384, 2048);
const UFS1: Shape = (Endian::Big, Format::Ufs1, 8192, 1024);
const BOTH: QuotaOptions = QuotaOptions { user: QuotaOption::On, group: QuotaOption::On };

fn options(ordering: OrderingPolicy) -> MountOptions {
    MountOptions { ordering, quotas: BOTH, ..MountOptions::default() }
}

/// A volume with both quota files and a directory `d` that everyone may write, mounted with quotas.
fn quota_world(shape: Shape, ordering: OrderingPolicy) -> World {
    let soft = ordering == OrderingPolicy::SoftUpdates;
    let dev = if soft { soft_volume } else { volume }(shape, 16 << 20);
    let plain = MountOptions { ordering: OrderingPolicy::None, ..MountOptions::default() };
    let dev = prepare(dev, &plain);
    mount_on(dev.with_durability(Durability::OnFlush), &options(ordering))
}

fn prepare(dev: MemDevice, plain: &MountOptions) -> MemDevice {
    let w = mount_on(dev, plain);
    for kind in QuotaType::ALL {
        assert!(w.fs.create_quota_file(kind).unwrap());
        assert!(!w.fs.create_quota_file(kind).unwrap());
    }
    let d = w.dir(&w.root, "d");
    let open = SetAttr { perm: Some(0o777), ..SetAttr::default() };
    w.fs.setattr(&Cred::root(), &d, &open).unwrap();
    let World { fs, root, dev, .. } = w;
    drop((root, d));
    fs.unmount().unwrap();
    dev.inner().snapshot()
}

fn user() -> Cred {
    Cred::user(10, 20)
}

fn limits(blocks: [u64; 2], inodes: [u64; 2]) -> Dqblk {
    let ([bsoftlimit, bhardlimit], [isoftlimit, ihardlimit]) = (blocks, inodes);
    Dqblk { bsoftlimit, bhardlimit, isoftlimit, ihardlimit, ..Dqblk::default() }
}

fn record(fs: &Ffs, kind: QuotaType, id: u32) -> Dqblk {
    let all = fs.quotas(kind).unwrap();
    all.into_iter().find(|(i, _)| *i == id).map(|(_, r)| r).unwrap_or_default()
}

fn new_file(w: &World, cred: &Cred, name: &str) -> ffs_core::Result<Vnode> {
    let d = w.get(&w.root, "d")?;
    w.fs.create(cred, &d, name.as_bytes(), NodeKind::Regular, 0o644)
}

fn write(w: &World, cred: &Cred, file: &Vnode, at: u64, len: usize) -> ffs_core::Result<usize> {
    w.fs.write(cred, file, at, &vec![7; len], WriteMode::default())
}

/// The quota files of the device and the usage by quotacheck's count.
fn counted(dev: &dyn BlockDevice) -> [QuotaFile; 2] {
    let vol = Volume::open(dev).unwrap();
    quotacheck::check(&vol, [true; 2]).unwrap().map(Option::unwrap)
}

/// Unmounts, and checks that the quota files have the usage that quotacheck counts.
fn end_checked(w: World) -> [QuotaFile; 2] {
    let dev = Arc::clone(&w.dev);
    w.end();
    let files = counted(dev.inner());
    for file in &files {
        assert_eq!(file.differences(), [], "inode {}", file.ino);
    }
    files
}

/// Unmounts without a check.
fn unmounted(w: World) -> MemDevice {
    let World { fs, root, dev, .. } = w;
    drop(root);
    fs.unmount().unwrap();
    dev.inner().snapshot()
}
